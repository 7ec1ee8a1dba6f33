"""compare: kernels and scikit-learn's pipelines on one corpus, the same figures in every form."""

import csv
import json
import re

import numpy as np
import pytest
from books import novels
from command import fails, report, run
from test_reporting import HOSTILE, Page

from textsvm.errors import InputError
from textsvm.evaluation import baselines
from textsvm.evaluation.baselines import compare
from textsvm.evaluation.comparison import score_classifier
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.reporting import pages

DIALECTS = [sample("dialects"), "--text", "text", "--label", "dialect", "--device", "cpu"]
FAST = ["--kernel", "spectrum:2-3"]


def parts_of_dialects():
    corpus = read_corpus(sample("dialects"), text="text", label="dialect")
    return (corpus.select(part="train"), corpus.select(part="test"))


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    page = tmp_path_factory.mktemp("compared") / "c.html"
    return report("compare", *DIALECTS, *FAST, "--kernel", "gap:3+words:1", "--report", page), page


def test_figures_are_those_of_the_classifiers(compared):
    found, _ = compared
    names = [each["name"] for each in found["classifiers"]]
    assert names == [*baselines.BASELINES, "spectrum:2-3", "gap:3+words:1"]
    train, test = parts_of_dialects()
    assert found["how"] == f"of the test part, {len(train)} to learn from"
    expected = baselines.answer(
        baselines.characters_baseline(), train.texts, train.labels, test.texts
    ).predicted
    right = np.mean(expected == np.array(test.labels))
    first, *others = found["classifiers"]
    assert first["accuracy"] == right
    assert (first["paired"], first["is_textsvm"]) == (None, False)
    assert all(each["n"] == len(test) and each["fit"] > 0 for each in others)
    assert others[0]["chosen"].startswith("C=")
    assert others[1]["is_textsvm"]


def test_the_page_is_whole_and_shows_them(compared):
    found, page = compared
    html = page.read_text("utf-8")
    parsed = Page(html)
    words = " ".join(parsed.words)
    for each in found["classifiers"]:
        assert each["name"] in words
        assert f"{100 * each['accuracy']:.2f} %" in words
    assert parsed.count("svg") == 1
    assert len(re.findall(r'class="whisker c7"', html)) == len(re.findall(r'class="whisker c2"', html)) == 2
    assert "http:" not in html
    assert "https:" not in html


def test_the_table_fits_a_terminal(compared):
    _, page = compared
    before = page.read_text("utf-8")
    done = run("compare", *DIALECTS, *FAST, "--holdout", "0.4", "--report", page)
    assert page.read_text("utf-8") != before  # its own kind is replaced
    shown = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert shown.startswith("dialects.csv: 80 documents held out, 120 to learn from")
    assert re.search(r"TF-IDF characters 1-5 \+ +\d+\.\d\d +\d+\.\d-\d+\.\d +\d+\.\d\d\s", shown)
    assert re.search(r"spectrum:2-3 +\d+\.\d\d +\d+\.\d-\d+\.\d +[+-]\d+\.\d\d +\S+ +\d+\.\d\d\s", shown)
    assert "TF-IDF characters + words, tuned C: C=" in shown
    assert max(len(line) for line in shown.splitlines()) <= 110


def test_folds_judge_every_document_that_can_be_tested(write):
    train, _ = parts_of_dialects()
    texts, labels = [*train.texts[:60], "a lone one"], [*train.labels[:60], "lone"]
    rows = "".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in zip(texts, labels, strict=True))
    done = run("compare", write("c.jsonl", rows), *FAST, "--cv", "2", "--json", "--device", "cpu")
    assert b"note: classes of a single document ('lone')" in done.stderr
    assert b"least populated" not in done.stderr
    found = json.loads(done.stdout)
    assert found["how"] == "in 2 folds"
    assert {each["n"] for each in found["classifiers"]} == {60}


def test_names_cannot_break_the_page():
    truth = np.array(["a", "b"] * 10)
    lines = [
        score_classifier(
            truth, own, first, None, name=name, fit=1, predict=1, chosen=chosen, is_textsvm=bool(chosen)
        )
        for own, first, name, chosen in ((truth, None, "first", ""), (truth[::-1], truth, HOSTILE, HOSTILE))
    ]
    for part in (pages.accuracy_chart(lines), pages.comparison_table(lines)):
        page = Page(part)
        assert page.count("script") == page.count("img") == 0
    assert lines[1].accuracy == 0
    assert lines[0].interval[1] == 1
    chart = pages.accuracy_chart(lines[::-1])
    dots = sorted((float(y), x) for x, y in re.findall(r'class="dots c\d"[^>]*"M([\d.]+) ([\d.]+)h0"', chart))
    (_, best), (_, first) = dots  # the best on top, the dashed line at the first
    assert re.search(r'class="dash" d="M([\d.]+) ', chart)[1] == first
    assert float(first) < float(best)


def test_what_cannot_be_compared(tmp_path):
    assert "may have several labels" in fails("compare", sample("newswire"), "-q")
    (tmp_path / "y.csv").write_text("text,label\nq,x\nz,y\nw,x\nv,y\n")
    assert "cannot be trained on 2 documents" in fails(
        "compare", tmp_path / "y.csv", "-q", "--holdout", "0.5"
    )
    with pytest.raises(InputError, match="is the name of a baseline"):
        compare(
            ["a"] * 4, [0, 1, 0, 1], [([0, 1], [2, 3])], {baselines.CHARACTERS: baselines.characters_baseline}
        )


def test_pieces_of_a_book_are_one_unit(tmp_path):
    """Intervals and p are over groups, also over the texts that are cut into pieces."""
    texts, labels, groups = novels(authors=2, books=6, chapters=4)
    path = tmp_path / "novels.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("text", "label", "book"), *zip(texts, labels, groups, strict=True)])
    page = tmp_path / "page.html"
    shown = run("compare", path, "--groups", "book", "--cv", 3, "--kernel", "spectrum:2", "--report", page)
    sentence = "exact sign test; intervals and p over 12 groups"
    assert sentence in " ".join(shown.stdout.decode().split())
    assert sentence in page.read_text("utf-8")
    lines = json.loads(
        run("compare", path, "--chunk", 100, "--cv", 3, "--kernel", "spectrum:2", "--json").stdout
    )
    assert {(line["n"] > 48, line["n_groups"]) for line in lines["classifiers"]} == {(True, 48)}


def test_few_documents_are_all_tested_in_folds(tmp_path):
    """Of 40 documents 10 were tested, with intervals that decide nothing."""
    for n, how in ((40, "in 5 folds"), (500, "held out, 375 to learn from")):
        rows = [f"{'ab'[i % 2]},a {['good', 'bad'][i % 2]} thing number {i}\n" for i in range(n)]
        path = tmp_path / f"{n}.csv"
        path.write_text("label,text\n" + "".join(rows))
        assert report("compare", path, *FAST)["how"] == how
        assert "held out" in report("compare", path, *FAST, "--holdout", "0.25")["how"]
        shown = run("compare", path, *FAST).stdout.decode()
        assert ("40 test documents are few: each accuracy is certain to ±15 points or better" in shown) == (
            n == 40
        )
    path.write_text("label,text\n" + "".join(rows[:40]) + "c,the only document of a class\n")
    assert "held out" in report("compare", path, *FAST)["how"]  # folds cannot test it


@pytest.mark.parametrize("command", ["train", "cv", "compare"])
def test_words_of_scripts_without_spaces_are_doubted_once(command, tmp_path):
    pieces = {
        "thai": [
            "\u0e09\u0e31\u0e19\u0e0a\u0e2d\u0e1a",
            "\u0e23\u0e16\u0e40\u0e23\u0e47\u0e27",
            "\u0e2d\u0e23\u0e48\u0e2d\u0e22",
        ],
        "chinese": ["\u6211\u559c\u6b22", "\u8fd9\u4e2a\u624b\u673a", "\u5f88\u597d"],
        "korean": ["\ub098\ub294 ", "\ubc25\uc744 ", "\uba39\ub294\ub2e4 "],
        "cut": ["\u6211 \u559c\u6b22 ", "\u8fd9\u4e2a \u624b\u673a ", "\u5f88 \u597d "],
    }
    for name, words in pieces.items():
        rows = ["".join(words[(i + k * (1 + i % 2)) % 3] for k in range(4)) for i in range(24)]
        path = tmp_path / f"{name}.csv"
        path.write_text("label,text\n" + "".join(f"{'ab'[i % 2]},{row}{i}\n" for i, row in enumerate(rows)))
        output = ["-o", tmp_path / "m"] if command == "train" else []
        for kernel in ("words:1", "spectrum:2,tokens=whitespace+spectrum:2", "spectrum:2"):
            said = run(command, path, "--kernel", kernel, *output).stderr.decode()
            n = said.count("no spaces between words, so the words of the kernel are runs between")
            assert n == (name in ("thai", "chinese") and kernel != "spectrum:2"), (name, kernel, said)
