"""Long texts in pieces, and lines that many texts of a class begin or end with."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from command import fails, report, run
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from textsvm import SVC, InputError, Pieces, Spectrum, explain, export, load, read_corpus, save
from textsvm.evaluation import estimate
from textsvm.model.settings import ClassifierSettings
from textsvm.text.pieces import mean_of_pieces
from textsvm.training.train import train

WORDS = {
    "Ash": "tulips grow in the bed the lawn wants lime roses need water in spring",
    "Birch": "the engine needs oil and brakes squeal while the gearbox is loud on roads",
}
LICENCE = [f"paragraph {word} of the licence that you accept" for word in ("one", "two", "three", "four")]


def novel(author, seed, n=120, licence=False):
    """Sentences in paragraphs; with a header whose title differs, and a licence at the end."""
    random = np.random.default_rng(seed)
    sentences = [" ".join(random.choice(WORDS[author].split(), 8)) + "." for _ in range(n)]
    body = "\n\n".join(" ".join(sentences[i : i + 6]) for i in range(0, n, 6))
    if not licence:
        return body
    head = [
        "The Archive's book",
        "free for all",
        f"Title: {sentences[0]}",
        f"Author: {author}",
        "Produced by us",
    ]
    return "\n".join([*head, "", body, "", f"End of this book, {sentences[0]}", *LICENCE])


@pytest.fixture(scope="module")
def novels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("novels")
    for k, author in enumerate(WORDS):
        for seed in range(6):
            (folder / f"{author}_{seed}.txt").write_text(novel(author, 10 * k + seed, 90 + 10 * seed))
    return folder


BY_NAME = ["--label", "name:^([^_]+)_"]


@given(st.text("ab. \n!", max_size=3000), st.integers(100, 400))
def test_pieces_are_the_text(text, length):
    pieces = Pieces(length).cut(text)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert max(map(len, pieces)) <= 1.5 * length
    assert all(Pieces(length).cut(piece) == [piece] for piece in pieces)


@pytest.mark.parametrize("end", ["\n\n", ". ", "! ", "。", " "])
def test_cuts_are_at_ends(end):
    text = end.join(["x" * 95] * 100)
    pieces = Pieces(1000).cut(text)
    assert len(pieces) == round(len(text) / 1000)
    assert all(piece.endswith(end) for piece in pieces[:-1])


def test_a_paragraph_is_better_than_a_sentence():
    assert Pieces(1100).cut("a sentence. " * 90 + "\n\n" + "another one. " * 90)[0].endswith("\n\n")


@pytest.mark.parametrize("length", [0, 99, 3000.5, True, "3000"])
def test_length_is_checked(length):
    refuses("must be a whole number of at least 100", Pieces, length)


def test_means_of_pieces():
    values = np.arange(12.0).reshape(6, 2)
    assert mean_of_pieces(values, np.array([0, 0, 1, 2, 2, 2])).tolist() == [[1, 2], [4, 5], [8, 9]]
    assert mean_of_pieces(values[:, 0], np.array([0, 1, 1, 1, 1, 2])).tolist() == [0, 5, 10]


def test_shared_lines_are_named_and_left_out():
    texts = [novel("Ash", k, licence=True) for k in range(4)] + [novel("Birch", k) for k in range(4)]
    labels = ["Ash"] * 4 + ["Birch"] * 4
    pieces, [first, last] = Pieces.without_common(texts, labels)
    assert first.startswith("4 of 4 texts of Ash begin with shared lines, and 0 of 4 others")
    assert last.startswith("4 of 4 texts of Ash end with shared lines")
    assert "such as 'End of this book" in last
    for k, text in enumerate(texts):
        assert pieces.cut(text)[0].strip() == novel(labels[k], k % 4)
    assert pieces.cut(novel("Ash", 77, licence=True))[0].strip() == novel("Ash", 77)  # a new text
    assert pieces.cut("\n".join(LICENCE)) == ["\n".join(LICENCE)]  # nothing else is in it


@pytest.mark.parametrize("texts", [
    [novel("Ash", k, licence=True) for k in range(4)] + [novel("Birch", k, licence=True) for k in range(4)],
    [novel("Ash", k) for k in range(4)] + [novel("Birch", k) for k in range(4)],
    ["spam line"] * 4 + ["ham\nand eggs"] * 4,
])  # fmt: skip
def test_lines_of_all_classes_and_copies_give_no_warning(texts):
    assert Pieces.without_common(texts, ["Ash"] * 4 + ["Birch"] * 4)[1] == []


def test_sentences_tell_of_how_many_texts_of_a_sample():
    texts = [novel("Ash", k, 60, licence=True) for k in range(150)] + [
        novel("Birch", k, 60) for k in range(150)
    ]
    _, sentences = Pieces.without_common(texts, ["Ash"] * 150 + ["Birch"] * 150)
    assert sentences[0].startswith(
        "75 of 75 compared texts of Ash begin with shared lines, and 0 of 75 others"
    )


@pytest.mark.parametrize("lost", ["length", "first", "last"])
def test_pieces_of_a_file_without_a_value(lost):
    form = {"length": 500, "first": [], "last": []}
    assert Pieces.read(form) == Pieces(500)
    for damaged in ({name: value for name, value in form.items() if name != lost}, {}):
        with pytest.raises(InputError):
            Pieces.read(damaged)


@pytest.mark.parametrize("authors", [2, 3])
def test_the_page_of_pieces(authors, tmp_path):
    """A chart for each text; of two classes one line around 0 with the values of the explanations."""
    rows = [{"text": novel(list(WORDS)[k % 2], k, 40), "label": f"a{k % authors}"} for k in range(12)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    positive = ["--positive", "a0"] * (authors == 2)
    report("train", tmp_path / "t.jsonl", "--chunk", "500", *positive, "-o", tmp_path / "m")
    lengths = {"one.txt": 8, "two.txt": 20, "many.txt": 60}
    for k, (name, n) in enumerate(lengths.items()):
        (tmp_path / name).write_text(novel(list(WORDS)[k % 2], 70 + k, n))
    run("explain", "m", *lengths, "-o", "p.html", cwd=tmp_path)
    page = (tmp_path / "p.html").read_text()
    charts = re.findall(r"<svg.*?</svg>", page[: page.index("<h2>Pieces")])
    model, lines = load(tmp_path / "m"), 1 if authors == 2 else 3
    for chart, name in zip(charts, lengths, strict=True):
        n = len(model.pieces.cut((tmp_path / name).read_text()))
        assert chart.count('<path class="line') == lines
        assert chart.count('<path class="point') == n * lines
        assert chart.count('<path class="dash"') == 1  # at 0
        assert f"piece of {name}" in chart
        numbers = re.findall(r'class="tick mid"[^>]*>([^<]*)<', chart)
        assert set(numbers) <= {str(i) for i in range(1, n + 1)}
        assert len(numbers) >= min(n, 2)
    table = page[page.index("<h2>Pieces") :].split("</section>")[0]
    found = [float(value.replace("−", "-")) for value in re.findall(r">([-+−]\d+\.\d+)<", table)]
    below = [float(value) for value in re.findall(r", value ([-+]\d+\.\d+)", page)]
    assert found == pytest.approx(below, abs=6e-4)
    assert min(map(abs, found)) > 0


def test_a_model_predicts_the_mean_of_pieces(tmp_path):
    texts = [novel(author, k) for author in WORDS for k in range(3)]
    pieces, labels = Pieces(500), [author for author in WORDS for _ in range(3)]
    parts, numbers = pieces.cut_all(texts)
    plain = SVC(Spectrum(3)).fit(parts, [labels[i] for i in numbers]).model_
    model = replace(plain, pieces=pieces)
    save(model, tmp_path / "m.textsvm")
    new = [novel("Ash", 50), novel("Birch", 51, 40)]
    expected = [plain.decision_function(pieces.cut(text)).mean() for text in new]
    assert model.decision_function(new) == pytest.approx(expected)
    again = load(tmp_path / "m.textsvm")
    assert again.pieces == pieces
    assert again.predict(new).tolist() == ["Ash", "Birch"]
    for refused in (lambda: explain(model, new), lambda: export(model, tmp_path / "x.html")):
        refuses("cannot be exp", refused)


@pytest.mark.parametrize("damage", [{"length": 5}, {"length": "x"}, {"first": 3}, {"last": [[1]]}])
def test_damaged_pieces(damage, tmp_path):
    model = SVC(Spectrum(3)).fit([novel("Ash", 1), novel("Birch", 2)], ["a", "b"]).model_
    pieces = Pieces(500)
    for name, value in damage.items():
        object.__setattr__(pieces, name, value)
    save(replace(model, pieces=pieces), tmp_path / "m.textsvm")
    refuses(r"not a usable model|is damaged", load, tmp_path / "m.textsvm")


def test_pieces_of_a_corpus(novels):
    corpus = read_corpus(novels, label=BY_NAME[1])
    pieces = corpus.cut(Pieces(1000))
    assert pieces.ids[:2] == ["Ash_0.txt, piece 1", "Ash_0.txt, piece 2"]
    assert set(pieces.groups) == set(corpus.ids)
    assert pieces.first_pieces.labels == corpus.labels
    assert {*replace(corpus, groups=corpus.labels).cut(Pieces(1000)).groups} == {*corpus.labels}
    with pytest.raises(InputError, match="no single column"):
        replace(corpus, columns={"a": corpus.texts, "b": corpus.texts}).cut(Pieces(1000))


def test_train_and_predict(novels, tmp_path):
    """Figures are of texts, without a text on both sides of a fold; later commands cut without being told."""
    trained = run("train", novels, *BY_NAME, "--chunk", "1000", "-o", "m.textsvm", cwd=tmp_path)
    said = trained.stdout.decode()
    assert trained.returncode == 0, trained.stderr.decode()
    n = len(read_corpus(novels, label=BY_NAME[1]).cut(Pieces(1000)))
    assert f"12 texts are cut into {n} pieces" in trained.stderr.decode()
    assert "documents of new groups, held out of training (12 texts, 3-fold" in said
    assert f"accuracy on {n} of their pieces" in said
    (tmp_path / "new.txt").write_text(new := novel("Birch", 70))
    [row] = map(json.loads, run("predict", "m.textsvm", "new.txt", cwd=tmp_path).stdout.splitlines())
    model = load(tmp_path / "m.textsvm")
    plain = replace(model, pieces=None)
    assert row["label"] == "Birch"
    assert row["decision"] == pytest.approx(plain.decision_function(model.pieces.cut(new)).mean())
    judged = report("evaluate", tmp_path / "m.textsvm", novels)
    assert (judged["n"], judged["accuracy"]) == (12, 1.0)
    explained = run("explain", "m.textsvm", "new.txt", "--json", cwd=tmp_path).stdout.splitlines()
    values = [json.loads(line)["value"] for line in explained]
    assert len(values) == len(model.pieces.cut(new))
    assert np.mean(values) == pytest.approx(row["decision"])
    single = [
        json.loads(line)
        for line in run("predict", "m.textsvm", "new.txt", "--pieces", cwd=tmp_path).stdout.splitlines()
    ]
    assert [each["id"] for each in single] == [f"new.txt, piece {k + 1}" for k in range(len(values))]
    assert [each["decision"] for each in single] == pytest.approx(values)
    run("explain", "m.textsvm", "new.txt", "-o", "new.html", cwd=tmp_path)
    page = (tmp_path / "new.html").read_text()
    assert "Which piece is whose" in page
    assert page.count("new.txt, piece 2") == 3  # the point of two classes, the table, the explanation
    assert "cannot be exported" in fails("export", "-q", tmp_path / "m.textsvm", "-o", tmp_path / "x.html")
    added = tmp_path / "added"
    added.mkdir()
    (added / "Ash_9.txt").write_text(novel("Ash", 90))
    report("update", tmp_path / "m.textsvm", added, "-o", tmp_path / "u.textsvm")
    assert load(tmp_path / "u.textsvm").pieces == model.pieces


CLASSES = ["--label", "author"]
UPDATED = {
    "classes": CLASSES, "calibrated": [*CLASSES, "--calibrate", "sigmoid"],
    "in groups": [*CLASSES, "--groups", "series"], "several labels": [*CLASSES, "--multilabel"],
    "numbers": ["--regress", "y"], "one class": [*CLASSES, "--one-class", "Ash", "--nu", "0.1"],
}  # fmt: skip


@pytest.mark.parametrize("name", UPDATED)
def test_update_counts_texts_and_not_their_pieces(name, tmp_path):
    """Texts of one id in the old and in the new table stay apart, and a changed text is listed once."""
    rows = [
        {"id": f"t{k}", "text": novel(author, 10 * c + k, 40), "author": author, "y": c + k / 10,
         "series": f"{author} {k // 2}"}
        for c, author in enumerate(WORDS) for k in range(6)
    ]  # fmt: skip
    new = [
        {**row, "text": novel(row["author"], 50 + k, 40), "series": "new"} for k, row in enumerate(rows[:3])
    ]
    new.append({**rows[8], "text": novel("Ash", 60, 40), "id": "wrong", "series": "wrong"})
    for part, of_part in (("old", rows), ("new", new)):
        (tmp_path / f"{part}.jsonl").write_text("\n".join(map(json.dumps, of_part)))
    options = [*UPDATED[name], "--id", "id", "--text", "text", "--chunk", "500", "--kernel", "spectrum:3"]
    report("train", tmp_path / "old.jsonl", *options, "-o", tmp_path / "m")
    told = report("update", tmp_path / "m", tmp_path / "new.jsonl", "-o", tmp_path / "u")
    assert told["new_documents"] == 4
    assert {row["id"] for row in told["changed"]} <= {row["id"] for row in new}
    assert len(load(tmp_path / "u").support.indices) > 4
    if name in ("classes", "in groups"):
        assert told["accuracy_before"] == told["accuracy_after"] == 0.75


def test_held_out_texts_are_whole(novels, tmp_path):
    told = report("train", novels, *BY_NAME, "--chunk", "500", "--holdout", "0.5", "-o", tmp_path / "m")
    assert told["holdout"]["n"] == 6
    crossed = report("cv", novels, *BY_NAME, "--chunk", "500", "--folds", "3")
    assert crossed["texts"]["accuracy"] == 1.0
    assert crossed["n"] > 100
    for name, values in (("groups", crossed), ("slices", report("evaluate", tmp_path / "m", novels))):
        rows = {row["value"]: row for row in values[name]["slices"]}
        assert (rows.keys(), values[name]["column"]) == ({path.name for path in novels.iterdir()}, "text")
        assert all(row["classes"] == {row["value"].partition("_")[0]: row["n"]} for row in rows.values())
        assert sum(row["n"] for row in rows.values()) == crossed["n"]


def test_numbers_by_the_mean_of_pieces(tmp_path):
    rows = [{"text": novel("Ash", k, 30 + 3 * k), "y": k % 5} for k in range(15)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    regress = ["--regress", "y", "--chunk", "400", "--kernel", "spectrum:2"]
    report("train", tmp_path / "t.jsonl", *regress, "-o", tmp_path / "m")
    assert load(tmp_path / "m").predict([rows[0]["text"]]).shape == (1,)
    assert "mae" in report("cv", tmp_path / "t.jsonl", *regress, "--folds", "3")["texts"]


def test_strip_common(tmp_path):
    """Without it a licence decides on new texts, and a warning says so."""
    for k in range(5):
        (tmp_path / f"Ash_{k}.txt").write_text(novel("Ash", k, licence=True))
        (tmp_path / f"Birch_{k}.txt").write_text(novel("Birch", k))
    model = tmp_path / "models"
    model.mkdir()
    for command in ("corpus", "cv"):
        warned = run(command, tmp_path, *BY_NAME, *["--folds", "2"] * (command == "cv"))
        assert b"5 of 5 texts of Ash end with shared lines" in warned.stderr
        assert b"--strip-common leaves them out" in warned.stderr
    run("train", tmp_path, *BY_NAME, "-o", model / "plain")
    stripped = run("train", tmp_path, *BY_NAME, "--strip-common", "-o", model / "stripped")
    assert b"; 50 lines at the edges of 10 texts are left out" in stripped.stderr  # 5 times 5 and 5
    text = novel("Birch", 80, licence=True).replace("Author: Birch", "Author: Ash")
    both = [load(model / name).decision_function([text])[0] for name in ("plain", "stripped")]
    assert both[0] < both[1]
    assert load(model / "stripped").decision_function([novel("Birch", 80)])[0] == pytest.approx(both[1])


def test_pieces_of_the_rows_of_a_table(tmp_path):
    """Their cells are repeated; rows without a text keep their place."""
    texts = [novel(author, k, 40) for k in range(4) for author in WORDS]
    rows = [{"text": text, "label": list(WORDS)[i % 2], "title": f"t{i}"} for i, text in enumerate(texts)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    report("train", tmp_path / "train.jsonl", "--chunk", "500", "-o", tmp_path / "m")
    new = [
        {"text": novel("Ash", 70, 30), "title": "a"},
        {"text": "", "title": "b"},
        {"text": "roses", "title": "c"},
    ]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, new)))
    done = run("predict", "m", "new.jsonl", "--pieces", "-o", "out.csv", cwd=tmp_path)
    assert done.returncode == 1  # a row has no text
    with open(tmp_path / "out.csv", newline="") as stream:
        found = list(csv.DictReader(stream))
    titles = [row["title"] for row in found]
    assert titles == sorted(titles)
    assert (titles.count("a") > 1, titles.count("b"), titles.count("c")) == (True, 1, 1)
    assert [row["label"] for row in found if row["title"] == "b"] == [""]
    report("train", tmp_path / "train.jsonl", "-o", tmp_path / "whole")
    assert "needs; train it with --chunk" in fails(
        "predict", tmp_path / "whole", tmp_path / "new.jsonl", "--pieces"
    )


def test_many_pieces_are_thinned_for_the_estimate(novels, monkeypatch):
    """Figures are of all texts, from every third piece or so; indices are those of all pieces."""
    corpus = read_corpus(novels, label=BY_NAME[1]).cut(Pieces(300))
    monkeypatch.setattr(estimate, "MOST", len(corpus) // 3)
    kernel = Spectrum(3)
    model = train(ClassifierSettings(kernel), corpus.texts, corpus.labels, groups=corpus.groups)
    found = estimate.estimate_quality(ClassifierSettings(kernel), model, corpus, with_folds=True)[0]
    assert len(found.indices) == found.total == 12
    assert [corpus.labels[i] for i in found.indices] == found.predicted.tolist()
    assert len({corpus.piece_of[i] for i in found.indices}) == 12
    verdict = estimate.verdict_of(model, corpus, found)
    assert (verdict.value, verdict.n, verdict.constant) == (1.0, 12, 0.5)


def test_compare_judges_pieces_whose_texts_are_in_one_fold(novels):
    n = len(read_corpus(novels, label=BY_NAME[1]).cut(Pieces(500)))
    told = report("compare", novels, *BY_NAME, "--chunk", "500", "--cv", "3", "--kernel", "spectrum:3")
    assert {row["n"] for row in told["classifiers"]} == {n}
    assert all(row["accuracy"] > 0.9 for row in told["classifiers"])


def test_a_map_without_shared_lines_is_that_of_the_texts_without_them(tmp_path):
    drawn = {}
    for name, licence in (("plain", False), ("archive", True)):
        (tmp_path / name).mkdir()
        for k in range(8):
            text = novel(author := list(WORDS)[k % 2], k, 30, licence and k % 2 == 0)
            (tmp_path / name / f"{author}_{k}.txt").write_text(text)
        for option in ([], ["--strip-common"]):
            kernel = ["--kernel", "spectrum:3", "-o", tmp_path / "m.svg", "--force"]
            told = report("map", tmp_path / name, *BY_NAME, *option, *kernel)
            drawn[name, *option] = np.array(told["map"]["distances"])[0, 1]
    assert drawn["archive", "--strip-common"] == pytest.approx(drawn["plain",], rel=1e-3)
    assert drawn["archive",] != pytest.approx(drawn["plain",], rel=1e-2)


@pytest.mark.parametrize("n", [20, 30, 60, 66, 72, 300])
def test_shared_lines_around_texts_of_few_paragraphs(n):
    """A paragraph is a line: a header and a footer with few lines between are no block of the whole text."""
    texts = [novel(author, k, n, licence=author == "Ash") for k in range(5) for author in WORDS]
    pieces, sentences = Pieces.without_common(texts, list(WORDS) * 5)
    assert len(sentences) == 2
    for k in range(5):
        assert pieces.cut(texts[2 * k])[0].strip() == novel("Ash", k, n)


@pytest.mark.parametrize("option", [("--chunk", "300"), ("--strip-common",)])
@pytest.mark.parametrize("command", ["train", "cv", "tune", "compare", "map"])
def test_only_single_texts_are_cut_or_stripped(command, option, tmp_path):
    """An option that would reach nothing is refused: columns have no pieces and no shared lines."""
    rows = "".join(f"{'ab'[i % 2]},Sent by the list number {i},words of the text {i}\n" for i in range(12))
    (tmp_path / "t.csv").write_text("label,head,body\n" + rows)
    if command == "map" and option[0] == "--chunk":
        pytest.skip("a map shows whole texts")
    output = {"cv": (), "compare": (), "map": ("-o", tmp_path / "m.svg")}.get(command, ("-o", tmp_path / "m"))
    columns = ("--text", "head", "--text", "body", "--label", "label")
    result = run(command, tmp_path / "t.csv", *columns, *option, *output)
    assert result.returncode == 1
    assert b"is no single column of texts" in result.stderr
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("text", ["", " \n\n"])
@pytest.mark.parametrize("command", ["train", "cv", "tune", "compare"])
def test_an_empty_novel_is_refused(command, text, tmp_path):
    """It is a file that was not copied; without pieces, as among messages, it is a note."""
    for k in range(6):
        (tmp_path / f"{list(WORDS)[k % 2]}_{k}.txt").write_text(novel(list(WORDS)[k % 2], k, 40))
    (tmp_path / "Ash_lost.txt").write_text(text)
    output = ["-o", tmp_path / "m"] if command in ("train", "tune") else []
    result = run(command, tmp_path, *BY_NAME, "--chunk", "500", *output)
    assert result.returncode == 1
    assert b"textsvm: --chunk cuts long texts, and Ash_lost.txt is empty" in result.stderr
    assert result.stdout == b""


def test_a_chapter_is_a_text_where_the_novels_were_files(novels, tmp_path):
    """Its paragraphs are no lines with a text each, and commands without --format do not name it."""
    (tmp_path / "chapter.txt").write_text(chapter := novel("Birch", 70, 60))
    assert chapter.count("\n\n") == 9
    rows = [{"text": novel(author, k, 40), "label": author} for k in range(3) for author in WORDS]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    kernel = ["--kernel", "spectrum:3"]
    report("train", novels, *BY_NAME, *kernel, "-o", tmp_path / "files")
    report("train", tmp_path / "t.jsonl", *kernel, "-o", tmp_path / "table")
    for command in ("predict", "explain"):
        for model, warned in (("files", False), ("table", True)):
            stderr = run(command, model, "chapter.txt", cwd=tmp_path).stderr
            assert (b"one document of 19 lines; --format lines" in stderr) == warned
            assert b"read chapter.txt: 1 text, one per file" in stderr
    (novels / "Cedar_0.txt").write_text(novel("Ash", 50))
    (novels / "Cedar_1.txt").write_text(novel("Birch", 51))
    result = run("verify", novels, *BY_NAME, "chapter.txt", cwd=tmp_path)
    for k in (0, 1):
        (novels / f"Cedar_{k}.txt").unlink()
    assert result.returncode == 0, result.stderr.decode()
    assert b"--format" not in result.stderr
