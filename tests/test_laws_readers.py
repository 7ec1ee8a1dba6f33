"""What holds for all readers: answers that do not count, guesses of layouts, settings that come back."""

import csv
import io
import json
import re
import sys
from collections import Counter

import numpy as np
import pytest
from command import run
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from scipy import sparse

from textsvm import Pieces
from textsvm.errors import InputError
from textsvm.readers.annotations import krippendorff_alpha
from textsvm.readers.corpus import ReadOptions
from textsvm.readers.files import read_files
from textsvm.readers.pages import TOO_MUCH, page_text
from textsvm.readers.read import iterate_documents, read_corpus, read_documents
from textsvm.readers.statistics import describe, doubtful_labels
from textsvm.readers.stream import incoming_documents, stream_corpus
from textsvm.readers.vectors import read_vectors
from textsvm.sources import matrix


def test_a_cancelled_answer_does_not_count(write):
    def answer(label, by=1, **about):
        result = {"from_name": "s", "type": "choices", "value": {"choices": [label]}}
        return {"completed_by": by, "result": [result], **about}

    tasks = [
        {"id": i, "data": {"text": text}, "annotations": [answer(label), *more]}
        for i, (text, label, more) in enumerate(
            [
                ("t", "a", []),
                ("u", "b", [answer("a", 2, was_cancelled=True), answer("a", 3, was_cancelled=True)]),
                ("v", "b", [answer("a", 2, was_cancelled=False), answer("a", 3)]),
            ]
        )
    ]
    assert read_corpus(write("ls.json", json.dumps(tasks))).labels == ["a", "b", "a"]
    for annotation in tasks[0]["annotations"]:
        annotation["was_cancelled"] = True
    assert read_corpus(write("ls.json", json.dumps(tasks))).labels == ["b", "a"]


def test_a_backslash_before_a_quote_is_an_escape_only_if_rows_become_equal(write):
    """Where both readings give equal rows the file says nothing: every character stays."""
    rows = [f'a {i}\\" pipe of a ship {i},{"ab"[i % 2]}' for i in range(12)]
    path = write("t.csv", "text,label\n" + "\n".join(rows) + "\n")
    assert read_corpus(path, text="text", label="label").texts[3] == 'a 3\\" pipe of a ship 3'
    rows = [f'"a {i}\\", b\\" pipe",{"ab"[i % 2]}' for i in range(12)]
    path = write("u.csv", "text,label\n" + "\n".join(rows) + "\n")
    assert read_corpus(path, text="text", label="label").texts[3] == 'a 3", b" pipe'


@pytest.mark.parametrize("ending", ["whole", "stopped", "error"])
def test_the_limit_of_fields_of_module_csv_comes_back(ending, write):
    before = csv.field_size_limit(12_345)
    try:
        rows = "".join(f'"text {i} {"x" * 13_000}",{"ab"[i % 2]}\n' for i in range(12))
        path = write("t.csv", "text,label\n" + rows + ('"never closed\n' if ending == "error" else ""))
        if ending == "stopped":
            documents = iterate_documents(read_files(path), "tables", ReadOptions("tables", text="text"))
            assert len(next(documents).text) > 13_000
            del documents
        elif ending == "error":
            refuses("never closed", read_corpus, path, text="text", label="label")
        else:
            read_corpus(path, text="text", label="label")
        assert csv.field_size_limit() == 12_345
    finally:
        csv.field_size_limit(before)


def test_tables_that_are_read_in_turns_do_not_change_the_limit_of_each_other(write):
    """Each would restore what the other had set."""
    short = "".join(f'"a short text {i}",{"ab"[i % 2]}\n' for i in range(5000))
    rows = short + f'"{"x" * 140_000}",a\n'
    before = csv.field_size_limit()
    readings = [
        iterate_documents(read_files(write(name, f"text,label\n{body}")), "tables", ReadOptions("tables"))
        for name, body in (("short.csv", short), ("long.csv", rows))
    ]
    assert len([next(readings[0]), next(readings[1]), *readings[0], *readings[1]]) == 10_001
    assert csv.field_size_limit() == before


# Answers of several people


def textbook_alpha(units):
    """Krippendorff's alpha (2011) by the matrix of coincidences of values."""
    units = [list(unit) for unit in units if len(unit) > 1]
    names = sorted({value for unit in units for value in unit})
    coincidences = np.zeros((len(names), len(names)))
    for unit in units:
        for i, first in enumerate(unit):
            for j, second in enumerate(unit):
                if i != j:
                    coincidences[names.index(first), names.index(second)] += 1 / (len(unit) - 1)
    totals = coincidences.sum(axis=1)
    n = totals.sum()
    observed = n - np.trace(coincidences)
    expected = (n**2 - (totals**2).sum()) / (n - 1) if n > 1 else 0.0
    return 1 - observed / expected if expected else np.nan


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=9))
def test_alpha_is_that_of_the_textbook(units):
    assert krippendorff_alpha(units) == pytest.approx(textbook_alpha(units), nan_ok=True)


@pytest.mark.parametrize("several", [False, True])
def test_the_majority_is_counted(several, write):
    """A label of more than half of the people, of several labels; else the commonest, and none of two."""
    rng, rows, expected = np.random.default_rng(0), [], []
    for i in range(80):
        answers = [
            sorted(rng.choice(["a", "b", "c"], size=rng.integers(1, 3 if several else 2), replace=False))
            for _ in range(rng.integers(1, 6))
        ]
        rows += [
            {"text": f"text {i}", "answer": "accept", "_annotator_id": f"p{k}", "accept": own}
            for k, own in enumerate(answers)
        ]
        votes = Counter(label for own in answers for label in own)
        most = max(votes.values())
        if several:
            best = tuple(sorted(label for label, n in votes.items() if 2 * n > len(answers)))
            expected += [(f"text {i}", best)] * bool(best)
        else:
            best = [label for label, n in votes.items() if n == most]
            expected += [(f"text {i}", best[0])] * (len(best) == 1)
    path = write("p.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    corpus = read_corpus(path, label_separator=";" if several else None)
    labels = [tuple(sorted(x)) for x in corpus.labels] if several else corpus.labels
    assert list(zip(corpus.texts, labels, strict=True)) == expected


# Places that messages name


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json", "xlsx"])
@pytest.mark.parametrize("wrong", [0, 1, 17, 29])
def test_a_message_names_the_row_that_is_wrong(suffix, wrong, tmp_path):
    rows = [{"text": f"a text {i}", "label": "ab"[i % 2], "n": "bad" if i == wrong else 1} for i in range(30)]
    path, above = tmp_path / f"t.{suffix}", {"jsonl": 0, "json": 0}.get(suffix, 1)  # the header
    if suffix == "xlsx":
        book = pytest.importorskip("openpyxl").Workbook()
        for row in [list(rows[0]), *(list(row.values()) for row in rows)]:
            book.active.append(row)
        book.save(path)
    elif suffix in ("csv", "tsv"):
        mark = "," if suffix == "csv" else "\t"
        path.write_text(
            "".join(mark.join(map(str, row)) + "\n" for row in [rows[0], *map(dict.values, rows)])
        )
    else:
        path.write_text(
            json.dumps(rows) if suffix == "json" else "".join(json.dumps(row) + "\n" for row in rows)
        )
    refuses(rf"(line|row) {wrong + 1 + above}\b", read_corpus, path, text="text", label="label", weight="n")


def test_merged_cells_are_filled_to_their_last_row_and_hidden_sheets_left_out(tmp_path):
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(["text", "label"])
    for i in range(9):
        book.active.append([f"text {i}", f"block {i // 3}"])
    for top in (2, 5, 8):
        book.active.merge_cells(f"B{top}:B{top + 2}")
    hidden = book.create_sheet("hidden", 0)
    hidden.append(["text", "label"])
    hidden.append(["not read", "x"])
    hidden.sheet_state = "hidden"
    book.save(tmp_path / "t.xlsx")
    for sheet in (None, "all"):
        corpus = read_corpus(tmp_path / "t.xlsx", sheet=sheet)
        assert corpus.texts == [f"text {i}" for i in range(9)]
        assert corpus.labels == [f"block {i // 3}" for i in range(9)]


@pytest.mark.parametrize("n", [1, 2, 3, 20, 21, 500])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json", "txt", "arrays"])
def test_every_row_is_read_once_and_in_order(suffix, n, tmp_path):
    texts = [f"text number {i}" for i in range(n)]
    path = tmp_path / ("t.json" if suffix == "arrays" else f"t.{suffix}")
    rows = [{"text": text, "label": "ab"[i % 2], "more": None} for i, text in enumerate(texts)]
    if suffix == "arrays":
        path.write_text(json.dumps([list(rows[0]), *(list(row.values()) for row in rows)]))
    elif suffix == "json":
        path.write_text(json.dumps(rows))
    elif suffix == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))  # the last line without its end
    elif suffix == "txt":
        path.write_text("\n".join(f"{row['label']}\t{row['text']}" for row in rows))
    else:
        mark = "," if suffix == "csv" else "\t"
        path.write_text(
            "\r\n".join(
                mark.join(row) for row in [["text", "label"], *((x["text"], x["label"]) for x in rows)]
            )
        )
    corpus = read_corpus(path)
    assert corpus.texts == texts
    assert corpus.labels == ["ab"[i % 2] for i in range(n)]
    assert len({*corpus.ids}) == n


def test_fields_of_a_header_end_where_the_next_begins(write):
    path = write("t.fasta", ">r1 kind=a b n=2 m=x=y\nACGTACGT\n>r2 n=3 kind=c m=z\nACGTTTTT\n")
    corpus = read_corpus(path, label="kind", weight="n")
    assert (corpus.labels, corpus.weights) == (["a b", "c"], [2.0, 3.0])


def test_tasks_without_annotations_are_left_out(write):
    choice = {"result": [{"from_name": "s", "type": "choices", "value": {"choices": ["a"]}}]}
    tasks = [
        {"id": i, "data": {"text": f"t{i}"}, "annotations": x} for i, x in enumerate([[choice], None, []])
    ]
    corpus = read_corpus(write("ls.json", json.dumps(tasks)))
    assert (corpus.texts, corpus.labels) == (["t0"], ["a"])


def test_answers_that_do_not_count_are_counted(write):
    rng = np.random.default_rng(0)
    answers = rng.choice(["accept", "reject", "ignore"], 40, p=[0.5, 0.3, 0.2]).tolist()
    rows = [{"text": f"t{i}", "label": "ab"[i % 2], "answer": answer} for i, answer in enumerate(answers)]
    corpus = read_corpus(write("p.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    n = Counter(answers)
    assert corpus.texts == [f"t{i}" for i, answer in enumerate(answers) if answer == "accept"]
    note = f"answers: {n['reject']} rejected, {n['ignore']} ignored or cancelled and left out"
    assert note in [problem for _, problem in corpus.problems]


def test_cats_of_a_half_are_labels(write):
    values = [0, 0.25, 0.49, 0.5, 0.51, 1]
    rows = [{"text": f"t{i}", "cats": {"a": value, "b": 1 - value}} for i, value in enumerate(values)]
    corpus = read_corpus(
        write("s.jsonl", "".join(json.dumps(row) + "\n" for row in rows)), label_separator=";"
    )
    expected = [tuple(x for x, v in (("a", value), ("b", 1 - value)) if v >= 0.5) for value in values]
    assert [tuple(sorted(labels)) for labels in corpus.labels] == expected


def test_the_last_ground_truth_of_nobody_counts(write):
    def choice(label, **about):
        value = {"from_name": "s", "type": "choices", "value": {"choices": [label]}}
        return {"result": [value], **about}

    people = [choice("a", completed_by=1), choice("a", completed_by=2)]
    for truths in (["b"], ["b", "c"], ["c", "a", "b"]):
        entries = people + [choice(label, ground_truth=True) for label in truths]
        tasks = [{"id": 1, "data": {"text": "t"}, "annotations": entries},
                 {"id": 2, "data": {"text": "u"}, "annotations": people}]  # fmt: skip
        assert read_corpus(write("ls.json", json.dumps(tasks))).labels == [truths[-1], "a"]


def test_metadata_of_argilla_name_the_text_and_its_part(write):
    rows = [
        {
            "fields": {"text": f"text {i}"},
            "metadata": {"id": f"m{i}", "part": ("train", "test")[i % 2], "colour": "red"},
            "responses": {"label": [{"value": "ab"[i // 2], "user_id": "u"}]},
        }
        for i in range(4)
    ]
    corpus = read_corpus(write("t.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert corpus.ids == [f"m{i}" for i in range(4)]
    assert corpus.part == ["train", "test"] * 2


def test_sequences_with_ambiguous_bases_are_counted(tmp_path):
    records = [
        f">{i} label={'ab'[i % 2]}\n{'acgtacgtgg' if i % 2 else 'ttgacacgta'}{'n' * (i < 3)}acg\n"
        for i in range(20)
    ]
    (tmp_path / "t.fasta").write_text("".join(records))
    done = run("train", tmp_path / "t.fasta", "--kernel", "mismatch:3,canonical", "-o", tmp_path / "m")
    assert done.returncode == 0, done.stderr
    assert "note: 3 of 20 sequences have ambiguous bases" in done.stderr.decode(), done.stderr


@pytest.mark.parametrize(("row", "column"), [(0, 0), (3, 2), (6, 4), (8, 8)])
def test_a_number_that_is_not_finite_is_named_by_its_place(row, column, tmp_path, monkeypatch):
    """Of dense and sparse vectors and of kernel matrices, which are checked in blocks."""
    monkeypatch.setattr(matrix, "BLOCK", 4)
    values = np.arange(1, 82, dtype=float).reshape(9, 9)
    values[row, column] = np.inf
    np.save(tmp_path / "x.npy", values)
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_matrix(values * (values > 9)))
    place = f"inf in row {row}, column {column} "
    for name in ("x.npy", "x.npz"):
        refuses(place, read_corpus, tmp_path / name)
    refuses(place, matrix.check_gram, values)
    values = values + values.T
    values[column, row], values[row, column] = 7, 7 if row == column else 5
    if row != column:
        first, second = sorted((row, column))
        refuses(f"in row {first}, column {second} and . the other way round", matrix.check_gram, values)


@pytest.mark.parametrize("format", ["dense", "sparse"])
def test_the_description_of_vectors_is_that_of_their_numbers(format, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.6)
    stored = sparse.csr_matrix(values)
    stored.data[3] = values[stored.nonzero()[0][3], stored.indices[3]] = 0  # which is stored
    if format == "dense":
        np.save(tmp_path / "x", values)
    else:
        sparse.save_npz(tmp_path / "x", stored)
    found = describe(read_corpus(tmp_path / ("x.npy" if format == "dense" else "x.npz")))["vectors"]
    assert (found["d"], found["sparse"], found["non_zeros"]) == (5, format == "sparse", (values != 0).sum())
    assert found["share"] == pytest.approx((values != 0).mean())
    assert (found["least"], found["most"]) == (values.min(), values.max())


def test_numbers_below_zero_are_doubtful_beside_words_alone():
    assert not [*doubtful_labels(["-1", "1"])]
    assert "'-99': a class like others" in " ".join(doubtful_labels(["-99", "good", "bad"]))


# Files of mail and of other tools


def test_messages_of_mail_programs_themselves_are_left_out(write):
    def mail(subject, more=""):
        return f"From a@b Thu Jan  1 00:00:00 2026\nSubject: {subject}\nFrom: a@b\n{more}\na text\n\n"

    box = mail("DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA") + mail("one") + mail("two")
    texts = read_corpus(write("ham.mbox", box), labelled=False).texts
    assert [text.split("\n")[0] for text in texts] == ["one", "two"]


@pytest.mark.parametrize("kind", ["digest", "mixed"])
def test_parts_of_a_digest_are_messages(kind, write):
    """Their headers are not text, but for the subjects of all messages; other parts are texts."""
    inner = "Subject: inner\nFrom: c@d\n\nthe inner text\n"
    head = "Subject: outer\nFrom: a@b\nMIME-Version: 1.0\n"
    message = f"{head}Content-Type: multipart/{kind}; boundary=x\n\n--x\n\n{inner}\n--x--\n"
    [text] = read_corpus(write("m.eml", message), "mail", labelled=False).texts
    assert "the inner text" in text
    assert ("From: c@d" in text) == (kind == "mixed")


def test_facts_of_a_sentence_are_not_those_of_the_next(write):
    sentences = ["# label = a\n# text = one two\none\tX\ntwo\tY\n", "# label = b\nthree\tX\nfour\tY\n"]
    corpus = read_corpus(write("t.conll", "\n".join(sentences * 3)), "conll")
    assert (corpus.texts, corpus.labels) == (["one two", "three four"] * 3, ["a", "b"] * 3)


@pytest.mark.parametrize("line", [1, 2, 40])
def test_a_byte_that_a_named_charset_lacks_is_named_by_its_line(line, write):
    rows = [b"a\ta text %d\n" % i for i in range(1, 41)]
    rows[line - 1] = b"b\ttext \x81\n"
    with pytest.raises(InputError, match=rf"not in the charset cp1252 \(line {line}\)"):
        read_corpus(write("t.txt", b"".join(rows)), encoding="cp1252")


def test_hidden_rows_of_a_sheet_are_said(tmp_path):
    book = pytest.importorskip("openpyxl").Workbook()
    for row in [["text", "label"], *([f"text {i}", "ab"[i % 2]] for i in range(9))]:
        book.active.append(row)
    for row in (3, 5):
        book.active.row_dimensions[row].hidden = True
    book.active["C2"] = "=1/0"
    book.save(tmp_path / "t.xlsx")
    notes = [problem for _, problem in read_corpus(tmp_path / "t.xlsx").problems]
    assert "rows that are hidden, as by a filter, and are read: 2 (3, 5)" in notes
    assert any(note.startswith("formula without a value") for note in notes)


def test_a_comma_after_a_label_of_fasttext_is_said(write):
    rows = [f"__label__{'ab'[i % 2]},text{i} more\n" for i in range(12)]
    corpus = read_corpus(write("t.txt", "".join(rows)))
    assert (set(corpus.labels), corpus.texts[3]) == ({"a", "b"}, "text3 more")
    assert "a comma after a label" in " ".join(problem for _, problem in corpus.problems)


# Ways to read the same


def test_documents_as_they_arrive_are_those_of_all_at_once(tmp_path, write):
    """Their ids, also of vectors in several files, and the warnings."""
    rows = "".join(f"{'ab'[i % 2]}\tпростой русский текст номер {i}\n" for i in range(40))
    np.save(tmp_path / "x.npy", np.eye(3))
    np.save(tmp_path / "y.npy", np.eye(3))
    for names in (["t.txt"], ["x.npy"], ["x.npy", "y.npy"]):
        write("t.txt", rows.encode("cp1251"))
        paths, said = [str(tmp_path / name) for name in names], []
        arrived = [*incoming_documents(paths, failed=pytest.fail, say=said.append)]
        expected = read_documents(paths)
        assert [name for corpus in arrived for name in corpus.ids] == expected.ids
        warned = [line.removeprefix("warning: ") for line in said if line.startswith("warning: ")]
        assert warned == expected.warnings
        assert bool(warned) == (names == ["t.txt"])


@pytest.mark.parametrize("read", [read_corpus, read_documents])
def test_standard_input_has_the_bound_of_files(read, monkeypatch, write):
    data = b"a\tone text\nb\tother text\n" * 50
    for source in ("-", write("t.txt", data)):
        for most, fits in ((len(data), True), (len(data) - 1, False)):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            if fits:
                assert len(read(source, "lines", max_bytes=most)) == 100
            else:
                refuses(f"more than {most:,} bytes", read, source, "lines", max_bytes=most)


def test_a_file_may_be_called_as_standard_input(monkeypatch, tmp_path):
    """It is a corpus if it is there, and documents come from standard input."""
    monkeypatch.chdir(tmp_path)
    for there in (False, True):
        for read, expected in ((read_corpus, "file" if there else "stream"), (read_documents, "stream")):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tstream\nb\tother\n")))
            assert read("-", "lines").texts[0].endswith(expected)
        if not there:
            for read in (stream_corpus, read_vectors):
                refuses("- is not there", read, "-")
        (tmp_path / "-").write_text("a\tfile\nb\tother\n")


@pytest.mark.parametrize("suffix", ["csv", "txt", "jsonl", "fasta"])
def test_progress_grows_to_all_bytes_of_all_files(suffix, write):
    rows = {"csv": "a text,a\n", "txt": "a\ta text\n", "fasta": ">a label=a\nACGT\n"}
    row = rows.get(suffix, '{"text": "a text", "label": "a"}\n')
    head = "text,label\n" * (suffix == "csv")
    paths, steps = [write(f"{k}.{suffix}", head + row * 3000 * (k + 1)) for k in range(3)], []
    read_corpus(paths, progress=lambda done, total: steps.append(done / total))
    assert steps == sorted(steps)
    assert steps[-1] == pytest.approx(1)
    assert len(steps) > 6


def test_invalid_rows_keep_their_place_among_pieces(write):
    """A text may become several pieces, behind which the next invalid row stands."""
    rows = ["a text of some words. " * n for n in (30, 0, 1, 40, 0, 20)]
    [corpus] = incoming_documents(
        [str(write("t.jsonl", "".join(json.dumps({"text": row}) + "\n" for row in rows)))],
        failed=pytest.fail, text="text", keep_invalid=True,
    )  # fmt: skip
    assert [place for place, _ in corpus.invalid] == [1, 3]
    pieces = corpus.cut(Pieces(200))
    order = np.array(pieces.piece_of)
    assert [place for place, _ in pieces.invalid] == [(order < 1).sum(), (order < 3).sum()]


@pytest.mark.parametrize("role", ["target", "weight", "numbers"])
@pytest.mark.parametrize("mark", [",", "."])
def test_numbers_of_every_role_have_the_decimal_mark_of_the_table(role, mark, write):
    values = [0.5 + i for i in range(12)]
    rows = [f"a text {i};{'ab'[i % 2]};{str(value).replace('.', mark)}\n" for i, value in enumerate(values)]
    corpus = read_corpus(write("t.csv", "text;label;n\n" + "".join(rows)), text="text", **{role: "n"})
    read = {"target": corpus.targets, "weight": corpus.weights, "numbers": (corpus.columns or {}).get("n")}
    assert list(read[role]) == values
    assert corpus.reading["decimal"] == mark


def test_labels_that_may_be_parts_of_numbers_are_said(write):
    rows = "".join(f"text {i},{i},{i % 5}\n" for i in range(12))
    corpus = read_corpus(write("t.csv", rows), text="1", label="3", header=False)
    assert re.search("columns .?2.? and .?3.? of t.csv may be a number such as", corpus.warnings[0])
    corpus = read_corpus(write("t.csv", rows.replace(",", ";")), text="1", label="3", header=False)
    assert corpus.warnings == []


def test_a_sheet_may_be_called_all(tmp_path):
    book = pytest.importorskip("openpyxl").Workbook()
    for name in ("one", "two", "all"):
        sheet = book.active if name == "one" else book.create_sheet(name)
        sheet.title = name
        for row in [["text", "label"], [f"{name} 1", "a"], [f"{name} 2", "b"]]:
            sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    book.remove(book["all"])
    book.save(tmp_path / "u.xlsx")
    assert read_corpus(tmp_path / "t.xlsx", sheet="all").texts == ["all 1", "all 2"]
    assert read_corpus(tmp_path / "u.xlsx", sheet="all").texts == ["one 1", "one 2", "two 1", "two 2"]


@pytest.mark.parametrize("before", ["", "\n \t", " " * 400])
def test_pages_without_a_declared_type_are_pages_after_white_space(before, write):
    message = (
        f"Subject: s\nFrom: a@b\nTo: c@d\n\n{before}<html><body>one<script>no</script><p>two</body></html>\n"
    )
    [text] = read_corpus(write("m.eml", message), "mail", labelled=False).texts
    assert text == "s\none\ntwo"


@pytest.mark.parametrize("dates", [0, 1, 19, 20])
def test_columns_of_texts_without_words_are_called_by_their_most_frequent_kind(dates, write):
    cells = [f"2026-01-{i + 1:02}" if i < dates else str(i) for i in range(20)]
    rows = "".join(f"{cell},{'ab'[i % 2]}\n" for i, cell in enumerate(cells))
    warnings = read_corpus(write("t.csv", f"n,label\n{rows}"), text="n", label="label").warnings
    kind = "dates" if dates >= 19 else "numbers (see --numbers n)"
    assert any(f"the column 'n' is read as texts and holds {kind}, such" in warning for warning in warnings)


@pytest.mark.parametrize("kind", ["", ' type="text/css"', ' type="TEXT/CSS "', ' type="text/plain"'])
def test_style_sheets_hide_text_if_they_are_of_css(kind):
    text, _ = page_text(f"<style{kind}>.a {{display: none}}</style><p>seen</p><p class=a>hidden</p>")
    assert text == ("seen\nhidden" if "plain" in kind else "seen")


def test_of_a_long_page_beginning_and_end_are_read():
    text, tricks = page_text("<p>first words</p>" + "<p>x y</p>" * 200_000 + "<p>last words</p>")
    assert text.index("last words") < text.index("first words")
    assert TOO_MUCH in tricks
