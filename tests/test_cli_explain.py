"""textsvm explain: training documents and their ids."""

import json

import pytest
from command import report, run
from loading import load
from selectolax.lexbor import LexborHTMLParser

from textsvm.cli.explain import LISTED
from textsvm.evaluation.explanation import explain
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.reporting.formatting import visible
from textsvm.reporting.sections import PASSAGE, passages
from textsvm.text.documents import normalise


@pytest.fixture(scope="module")
def spam(tmp_path_factory):
    """A filter of mails, and what was said of its training."""
    path = tmp_path_factory.mktemp("spam") / "m"
    return path, report("train", sample("mail"), "--positive", "spam", "--kernel", "fast", "-o", path)


def test_explain_names_training_documents(spam, tmp_path):
    corpus = read_corpus(sample("mail"))
    options = ["explain", spam[0], "-", "--similar", "3"]
    shown = report(*options, stdin=corpus.texts[4].encode())["similar"]
    for each in shown:
        assert each["id"] == corpus.ids[each["index"]]
    said = run(*options, stdin=corpus.texts[4].encode()).stdout.decode()
    told = [" ".join(line.split()) for line in said.splitlines()]
    [found] = explain(load(spam[0]), [corpus.texts[4]], positive="spam", substrings=LISTED, similar=3)
    assert told[0] == f"-: {found.prediction} (value {found.value:+.4f}; above 0 for spam)"
    rows = [f"{visible(x.text)} {x.count} {x.contribution:+.4f}" for x in found.merged]
    assert sum(any(line.startswith(row) for line in told) for row in rows) > 8  # long ones are wrapped
    for text, row in zip(found.similar, shown, strict=True):
        assert f"{row['id']} {text.kernel:.3f} {text.contribution:+.4f}" in told
    report("train", sample("mail"), "--kernel", "fast", "--holdout", "0.5", "-o", tmp_path / "m")
    half = load(tmp_path / "m")
    text_of = dict(zip(corpus.ids, corpus.texts, strict=True))
    for each in explain(half, corpus.texts[:3]):
        assert [normalise(one.text) for one in each.similar] == [
            normalise(text_of[one.id]) for one in each.similar
        ]


def test_ids_of_support_vectors_go_with_their_texts(spam, tmp_path):
    assert len(load(spam[0]).model_.info["support_ids"]) == spam[1]["n_support"]
    report("train", sample("mail"), "--kernel", "fast", "--without-texts", "-o", tmp_path / "m")
    assert load(tmp_path / "m").model_.info["support_ids"] is None
    model = load(spam[0])
    for odd in (None, ["one"], 3, [1] * len(model.support_)):
        model.model_.info["support_ids"] = odd
        [found] = explain(model, ["free money"])
        assert {each.id for each in found.similar} == {None}


def test_page_of_explained_documents(spam, tmp_path):
    corpus, page = read_corpus(sample("mail")), tmp_path / "page.html"
    files = []
    for i in range(7):  # more than the terminal shows
        files.append(tmp_path / f"{i}.txt")
        files[-1].write_text(corpus.texts[i] + "\n<b>&amp; \U0001f600", "utf-8")
    explained = run("explain", spam[0], *files, "--json").stdout.decode().splitlines()
    done = run("explain", spam[0], *files, "-o", page)
    assert b"note: 2 more documents are not shown; --json prints all" in done.stderr
    told = done.stdout.decode().splitlines()
    assert [line for line in told if "above 0 for" in line] == [
        f"{path}: {row['prediction']}  (value {row['value']:+.4f}; above 0 for spam)"
        for path, row in zip(files[:5], map(json.loads, explained), strict=False)
    ]
    articles = LexborHTMLParser(page.read_text("utf-8")).css("article")
    assert [article.css_first("h3").text() for article in articles] == list(map(str, files))
    for article, line in zip(articles, map(json.loads, explained), strict=True):
        assert article.css_first("div.document").text() == line["text"]
        assert str(line["prediction"]) in article.css_first("p").text()
        assert line["similar"][0]["id"] in article.text()


def test_passages_are_the_text_and_their_values_its_sum(spam):
    model = load(spam[0])
    sentence = "Click here, and win a prize of 1,000 dollars today! "
    for text in ("", "win", sentence * 40, "x" * 3000, "word " * 900, "line\n" * 500, "“你好。”" * 300):
        [explanation] = explain(model, [text])
        parts = passages(explanation)
        assert "".join("".join(part for _, part in parts).split()) == "".join(explanation.text.split())
        assert sum(value for value, _ in parts) == pytest.approx(explanation.symbols.sum())
        assert all(len(part) <= 2 * PASSAGE for _, part in parts)
    [explanation] = explain(model, [sentence * 40])
    assert all(part.endswith("!") for _, part in passages(explanation))


def test_several_labels_are_a_list_of_words(tmp_path):
    texts = ["win cash now", "a cash prize to win", "lunch at noon", "see you at noon"] * 3
    labels = [("spam", "money"), ("money", "spam"), ("food",), ("food", "time")] * 3
    rows = "".join(
        json.dumps({"text": t, "labels": list(y)}) + "\n" for t, y in zip(texts, labels, strict=True)
    )
    (tmp_path / "t.jsonl").write_text(rows)
    options = ("--text", "text", "--label", "labels", "--multilabel", "--kernel", "spectrum:3")
    assert run("train", tmp_path / "t.jsonl", *options, "-o", tmp_path / "m").returncode == 0
    shown = run(
        "explain", tmp_path / "m", "-", "-o", tmp_path / "e.html", stdin=b"win cash now"
    ).stdout.decode()
    for said in (shown, (tmp_path / "e.html").read_text("utf-8")):
        assert "money, spam" in said
        assert "('" not in said


def test_a_column_without_merged_features_is_left_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label,text\n" + "a,win cash now\nb,lunch at noon\na,cash prize\nb,see you at noon\n" * 3)
    for kernel, has_merged in (("words:1-2", False), ("spectrum:2-4", True)):
        run("train", path, "--kernel", kernel, "-o", tmp_path / "m")
        for command in (["--top", "9"], [path]):
            shown = run("explain", tmp_path / "m", *command).stdout.decode()
            assert ("merged" in shown.replace("merged substrings", "")) == has_merged
            assert "cash" in shown
            assert ("even where a text has none" in shown) == (not has_merged and len(command) == 2)
