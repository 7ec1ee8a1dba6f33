"""Tables: columns of texts, labels, numbers, weights and groups."""

import ast
import codecs
import csv
import gzip
import io
import json
import re
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from refusals import refuses

from textsvm.errors import InputError
from textsvm.readers import delimited, tables
from textsvm.readers.corpus import ReadOptions
from textsvm.readers.files import File
from textsvm.readers.read import read_corpus, read_documents
from textsvm.readers.stream import incoming_documents, stream_corpus


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_without_header(delimiter, write):
    rows = [["3", "Title one", "Text, one; and | more"], ["4", "Title two", "Text two"], ["3", "Three", "3"]]
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows(rows)
    path = write("test.csv", stream.getvalue())
    corpus = read_corpus(path)
    assert corpus.labels == ["3", "4", "3"]
    assert corpus.texts[0] == "Title one\nText, one; and | more"
    assert corpus.part == ["test"] * 3
    assert read_corpus(path, text="3", label="1").texts == [row[2] for row in rows]
    assert read_corpus(path, text="2").labels is None


@pytest.mark.parametrize("text", ['"a" and more {}', '"one {}\nline, and\nanother, too\n"'])
def test_a_delimiter_is_found_beside_odd_quotes_and_lines_in_cells(text, write):
    """Cells are not cut at a comma of a line, which is in most lines of the file."""
    rows = "".join(f"{i};{text.format(i)};{'xy'[i % 2]}\n" for i in range(6))
    corpus = read_corpus(write("t.csv", f"nr;text;label\n{rows}"))
    assert (corpus.labels, len(corpus.texts)) == (["x", "y"] * 3, 6)
    assert "another, too" in corpus.texts[5] or corpus.texts[5].endswith("and more 5")


def test_columns_by_name_and_number(write):
    path = write("x.csv", "a,b,c d\n1,2,3\n")
    corpus = read_corpus(path, text="c d,a", label="2", id="b")
    assert (corpus.texts, corpus.labels, corpus.ids) == (["3\n1"], ["2"], ["2"])
    refuses(
        "no column 'd' for the text; did you mean 'c d'; its 3 columns are: ", read_corpus, path, text="d"
    )
    refuses("no column '4' for the label", read_corpus, path, text="a", label="4")
    refuses(r"which column is the text\?", read_corpus, write("y.csv", "label,b,c\n1,2,3\n"))
    assert read_corpus(write("z.csv", "text,text,\nx,y,z\n"), text="1,2,3").texts == ["x\ny\nz"]


@pytest.mark.parametrize(
    ("value", "label"),
    [("NaN", None), ("-0.0", "0.0"), ("1e400", ...), ("12345678901234567890", "12345678901234567890")],
)
def test_numbers_of_json_as_labels(write, value, label):
    rows = f'{{"text": "a", "label": "x"}}\n{{"text": "b", "label": {value}}}\n'
    if label is ...:
        with pytest.raises(
            InputError, match=r"x\.jsonl, line 2: the label is inf, which is not a finite number"
        ):
            read_corpus(write("x.jsonl", rows))
        return
    assert read_corpus(write("x.jsonl", rows)).labels == ["x"] + [label] * (label is not None)


def test_tsv_does_not_honour_quotes(write):
    data = 'essay_id\tessay\tscore\r\n1\t"opened and never closed\t3\r\n2\tplain\t4\r\n'
    corpus = read_corpus(write("x.tsv", data), label="score")
    assert corpus.texts == ['"opened and never closed', "plain"]
    assert corpus.ids == ["1", "2"]
    refuses("never closed", read_corpus, write("x.csv", data), label="score")


def test_an_unknown_header_is_no_document(write):
    for labelled, rows in (
        (True, "mood,remark\nham,one\nspam,two\nham,three\n"),
        (False, "remark\none\ntwo\n"),
    ):
        read = read_corpus if labelled else read_documents
        path = write("x.csv", rows)
        refuses(r"is its first line a header.*remark.*--text", read, path)
        assert read(path, text="remark").texts[0] == "one"
        number = "2" if labelled else "1"
        refuses(r"is its first line a header.*header=yes or header=no", read, path, text=number)
        assert read(path, text=number, header=True).texts[0] == "one"
        assert read(path, text=number, header=False).texts[0] == "remark"


def test_rows_of_the_wrong_length_are_an_error(write):
    with pytest.raises(InputError, match=r"2 of the 2 rows .* too few or too many fields"):
        read_corpus(write("t.csv", "label,text\na,one, two\na,three, four\n"))
    path = write("x.csv", "text,label\na,1\nb,2,3\nc\n")
    refuses(
        r"2 of the 3 rows of x.csv have .* fields \(lines 3, 4\).*--table separator=tab", read_corpus, path
    )
    corpus = read_corpus(path, skip_invalid=True)
    assert corpus.labels == ["1"]
    assert corpus.problems == [
        ("x.csv, line 3", "left out: it has 3 fields and not 2"),
        ("x.csv, line 4", "left out: it has 1 fields and not 2"),
    ]


def test_messages_name_the_line_on_which_a_row_begins(write):
    path = write("x.csv", 'text,label\n"a\r\nb\nc",1\n\n"d\n e",2,3\nf,g,h\n')
    refuses(r"2 of the 3 rows .* \(lines 6, 8\)", read_corpus, path)
    corpus = read_corpus(path, skip_invalid=True)
    assert corpus.ids == ["2"]
    assert "line 6" in str([corpus.problems, corpus.warnings])
    assert "line 8" in str([corpus.problems, corpus.warnings])
    with pytest.raises(InputError, match=r"x\.csv, line 4: a quote .* never closed"):
        read_corpus(write("x.csv", 'text,label\n"a\nb",1\n"c,2\nd,1\ne,2\n'))
    loose = write("x.csv", 'text,label,n\n"a\nb",1,0\n"c" d,2,0\n"e\nf",1,0\ng,2,bad\n')
    refuses(r"x\.csv, line 7: the weight is 'bad'", read_corpus, loose, weight="n")


def test_spreadsheets(write, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book, path = openpyxl.Workbook(), tmp_path / "x.xlsx"
    rows = [["id", "text", "label"], [1, "win cash", "spam"], [2.5, "lunch", "ham"], [], [3, None, "ham"]]
    for row in rows:
        book.active.append(row)
    book.create_sheet("notes").append(["nothing"])
    book.save(path)
    corpus = read_corpus(path)
    assert (corpus.format, corpus.ids) == ("excel", ["1", "2.5", "3"])
    assert corpus.texts == ["win cash", "lunch", ""]
    assert corpus.labels == ["spam", "ham", "ham"]
    assert corpus.problems == [("x.xlsx", "the sheet 'Sheet' is read; --sheet reads another: 'notes'")]
    assert read_corpus(path, text="label", label="id").texts == ["spam", "ham", "ham"]
    sheets = r"x\.xlsx \(sheet 'Sheet'; others, for --sheet: 'notes'\)"
    refuses(f"{sheets}.* no column 'none'", read_corpus, path, text="none")
    (tmp_path / "y.csv").write_text("label,text\nham,a\n")
    assert len(read_corpus(tmp_path)) == 4
    book.create_sheet("second").append(["text", "label"])
    book["second"].append(["b", "x"])
    book.save(path)
    for sheet in ("second", "3"):
        assert read_corpus(path, sheet=sheet).texts == ["b"]
    with pytest.raises(InputError, match="no cells in a sheet 'none'; its sheets are: Sheet, notes, second"):
        read_corpus(path, sheet="none")
    with pytest.raises(InputError, match=r"y\.csv is read as csv, which has no sheets; leave out --sheet"):
        read_corpus(tmp_path / "y.csv", sheet="1")


@pytest.mark.parametrize(("top", "left"), [(1, 2), (2, 2), (3, 3), (4, 3)])
@pytest.mark.parametrize("merged", [False, True])
def test_a_table_may_begin_anywhere_in_a_sheet(top, left, merged, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book, path = openpyxl.Workbook(), tmp_path / "x.xlsx"
    rows = [["ticket", "title", "text", "label"], *([i, "t", f"text {i}", "ab"[i // 2]] for i in range(4))]
    for i, row in enumerate(rows):
        for k, cell in enumerate(row):
            book.active.cell(top + i, left + k, None if (merged and k == 3 and i in (2, 4)) else cell)
    for i in (1, 3) if merged else ():
        book.active.merge_cells(
            start_row=top + i, end_row=top + i + 1, start_column=left + 3, end_column=left + 3
        )
    book.save(path)
    corpus = read_corpus(path, text=["title", "text"], numbers="ticket")
    assert corpus.texts == [f"t\ntext {i}" for i in range(4)]
    assert (corpus.labels, corpus.columns["ticket"].tolist()) == (["a", "a", "b", "b"], [0, 1, 2, 3])


def test_a_cell_that_cannot_be_converted_is_a_sentence(tmp_path):
    """A duration of three billion days."""
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    for row in [["text", "label", "n"], *([f"text {i}", "ab"[i % 2], 3e9 * (i == 15)] for i in range(20))]:
        book.active.append(row)
        book.active.cell(book.active.max_row, 3).number_format = "[h]:mm:ss"
    book.save(tmp_path / "x.xlsx")
    refuses(r"x.xlsx cannot be read as a spreadsheet: days=", read_corpus, tmp_path / "x.xlsx")


def test_rows_of_a_spreadsheet_are_read_one_by_one(tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book, path = openpyxl.Workbook(write_only=True), tmp_path / "x.xlsx"
    sheet, n = book.create_sheet("x"), 400
    for row in [["text", "label"], *([f"{i} {'b' * 20}", "a"] for i in range(n)), ["#N/A", "a"]]:
        sheet.append(row)
    book.save(path)
    cells = list[object]()
    text_of = delimited._cell
    monkeypatch.setattr(delimited, "_cell", lambda cell: cells.append(cell) or text_of(cell))
    problems: list[tuple[str, str]] = []
    [sheet], _ = delimited.read_sheets(File("x.xlsx", path.read_bytes()), ReadOptions(), problems)
    assert len(cells) == 0
    assert [len(row) for *_, row in sheet.rows] == [2] * (n + 2)
    assert len(cells) == 2 * (n + 2)
    assert [problem for _, problem in problems] == ["error cell #N/A, read as empty: 1 (A402)"]


def test_json_arrays(write):
    path = write("x.json", '[{"text": "a", "label": "x"},\n {"text": "b", "label": "y"}, 7]')
    corpus = read_corpus(path)
    assert (corpus.format, corpus.texts, corpus.labels) == ("json", ["a", "b"], ["x", "y"])
    assert corpus.problems == [("x.json, row 3", "left out: it is not a JSON object")]
    for content, message in (("[1", "cannot be read as JSON"), ("7", "must hold an array")):
        refuses(message, read_corpus, write("y.json", content))


def test_broken_quotes(write):
    rows = ['x "y" z', '"a" b', '"c\nd"', '"e, f" g', '"a, b"', "x" * 200_000]
    corpus = read_corpus(write("x.csv", "text,label\n" + "".join(f"{row},1\n" for row in rows)))
    assert corpus.texts == ['x "y" z', "a b", "c\nd", "e, f g", "a, b", "x" * 200_000]
    assert corpus.problems == [("x.csv, line 3", "a quote inside a quoted field is not doubled")]
    for text, line in (('"a" b,1\n"c\nd\n"e",1\n', 3), ('"a\n"b" c,1\n', 2), ('"a" b,1\n"c\nd,1\n', 3)):
        with pytest.raises(InputError, match=rf"x\.csv, line {line}: a quote .* cannot be separated"):
            read_corpus(write("x.csv", "text,label\n" + text))


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["no mark", "byte order mark"])
@pytest.mark.parametrize("name", ["mixed.tsv", "mixed.csv", "mixed.jsonl"])
def test_bytes_that_are_not_utf_8_are_read_as_windows_1252(name, mark, tmp_path):
    rows = [("café", "utf-8"), ("naïve “x”", "cp1252"), ("déjà", "cp1252")]
    if name.endswith("jsonl"):
        head, row = b"", b'{"text": "%s", "label": "a"}\n'
    else:
        separator = b"\t" if name.endswith("tsv") else b","
        head, row = b"text%blabel\n" % separator, b"%%s%ba\n" % separator
    lines = b"".join(row % text.encode(charset) for text, charset in rows)
    (tmp_path / name).write_bytes(mark + head + lines)
    corpus = read_corpus(tmp_path / name)
    assert corpus.texts == [text for text, _ in rows]
    line = 2 + head.count(b"\n")
    [(place, problem)] = corpus.problems
    assert place == name
    assert problem.startswith(f"line {line}: bytes that are not UTF-8 were read as Windows-1252; --encoding")


def test_byte_order_marks(write):
    for charset in ("utf-8-sig", "utf-16", "utf-32"):
        assert read_corpus(write("y.csv", "text,label\ncafé,1\n".encode(charset))).texts == ["café"]


def test_json_lines(write):
    rows = [
        {"id": 5, "text": "a", "label": 1, "split": "train"},
        {"id": "x", "text": "b", "label": ["u", "v"]},
        {"text": "c", "label": True},
    ]
    lines = "\n".join(map(json.dumps, rows)) + '\n\nnot json\n{"label": 3}\n[1]\n'
    corpus = read_corpus(write("x.anything", lines))
    assert (corpus.format, corpus.ids) == ("jsonl", ["5", "x", "3"])
    assert corpus.labels == [("1",), ("u", "v"), ("true",)]
    assert corpus.part == ["train", None, None]
    reason = "it is not a JSON object (line 5, line 7)"
    assert corpus.warnings == [f"x.anything: left out: 2 of 6 rows: {reason}"]
    assert [place for place, _ in corpus.problems] == ["x.anything, line 6"]
    columns = "no column 'body' for the text; its 4 columns are: id, text, label, split"
    refuses(columns, read_corpus, write("y.jsonl", lines), text="body")


def test_parquet(tmp_path):
    """Columns of labels may be of bytes."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"text": ["a", "b"], "label": [1, 0], "x": [b"1", b"0"], "y": [b"true", b"false"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "x")
    corpus = read_corpus(tmp_path / "x")
    assert (corpus.format, corpus.texts, corpus.labels) == ("parquet", ["a", "b"], ["1", "0"])
    assert read_corpus(tmp_path / "x", label="x,y").labels == [("x", "y"), ()]


def test_parquet_without_pyarrow(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    refuses("needs PyArrow", read_corpus, write("x", b"PAR1" + bytes(100) + b"PAR1"))


def test_a_folder_of_tables(write, tmp_path):
    write("train.csv.gz", gzip.compress(b"text,label\na,1\nb,2\n"))
    write("test.csv", "text,label\nc,1\n")
    write("README.md", "about it")
    corpus = read_corpus(tmp_path)
    assert Counter(corpus.part) == {"train": 2, "test": 1}
    assert corpus.ids == ["test.csv:2", "train.csv:2", "train.csv:3"]


CELL = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(CELL, CELL.filter(lambda cell: cell.strip().lower() not in ("", "nan"))),
        min_size=1,
        max_size=6,
    )
)
@example([("", "[]")])
def test_csv_round_trip(tmp_path, rows):
    with (tmp_path / "x.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("text", "label"), *rows])
    corpus = read_corpus(tmp_path / "x.csv", "csv")
    assert corpus.texts == [text for text, _ in rows]
    problems = " ".join(problem for _, problem in corpus.problems)
    if "several ways" not in problems and "read as lists of labels" not in problems:  # such as the label []
        assert corpus.labels == [label.strip() for _, label in rows]


def test_only_empty_cells_and_nulls_are_missing_labels(tmp_path):
    labels = ["nan", "NaN", "NA", "None", "null", "N/A", "", " "]
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(f"w{i},{labels[i % 8]}\n" for i in range(24)))
    rows = [{"text": "a", "label": label} for label in (float("nan"), None, *labels)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, missing in (("t.csv", 6), ("t.jsonl", 4)):
        corpus = read_corpus(tmp_path / name)
        assert set(corpus.labels) == set(labels[:6])
        said = [*corpus.warnings, *(problem for _, problem in corpus.problems)]
        assert sum("no label" in sentence for sentence in said) == (missing > 0)


def test_labels_that_look_the_same_are_one_class(tmp_path):
    forms = ["caf\u00e9", "cafe\u0301", "caf\u00e9\u200b", "\ufeffcaf\u00e9 ", "\u00a0cafe\u0301"]
    (tmp_path / "t.csv").write_text(
        "text,label\n" + "".join(f"a,{form}\n" for form in forms), encoding="utf-8"
    )
    corpus = read_corpus(tmp_path / "t.csv")
    assert corpus.labels == ["caf\u00e9"] * 5
    assert any("'caf\u00e9' is written in several ways" in problem for _, problem in corpus.problems)
    for i, form in enumerate(forms[:2]):
        (tmp_path / "f" / form).mkdir(parents=True)
        (tmp_path / "f" / form / f"{i}.txt").write_text("a")
    assert set(read_corpus(tmp_path / "f").labels) == {"caf\u00e9"}


def test_paths_in_nested_objects(write):
    row = {"meta": {"text": {"body": "b"}, "class": "x"}, "text.body": "c"}
    path = write("t.jsonl", (json.dumps(row) + "\n") * 2)
    corpus = read_corpus(path, text="meta.text.body", label="meta.class")
    assert (corpus.texts, corpus.labels) == (["b", "b"], ["x", "x"])
    assert read_corpus(path, text="text.body", label="meta.class").texts == ["c", "c"]
    refuses(r"no column 'mete\.text'", read_corpus, path, text="mete.text")


def test_numbers_take_the_place_of_labels(write):
    path = write("x.csv", "text,score,label,n,who\na,1.5,x,2,ann\nb,-3e2,,0,bob\nc, 7 ,y,0.5,ann\n")
    corpus = read_corpus(path, target="score", weight="n", group="who")
    assert corpus.targets == [1.5, -300.0, 7.0]
    assert corpus.weights == [2.0, 0.0, 0.5]
    assert corpus.groups == ["ann", "bob", "ann"]
    assert corpus.labels is None  # and the row without a label stays
    part = corpus.subset([2, 0])
    assert (part.targets, part.weights, part.groups) == ([7.0, 1.5], [0.5, 2.0], ["ann", "ann"])
    labelled = read_corpus(path, weight="n")
    assert labelled.labels == ["x", "y"]
    assert labelled.weights == [2.0, 0.5]
    assert labelled.targets is labelled.groups is None
    rows = [{"text": "a", "y": 2}, {"text": "b", "y": "2.5"}, {"text": "c", "y": None}]
    assert read_corpus(write("x.json", json.dumps(rows)), target="y").targets == [2.0, 2.5]
    with pytest.raises(InputError, match="the target is True, which is not a finite number"):
        read_corpus(write("x.jsonl", '{"text": "a", "y": true}'), target="y")
    copies = read_corpus(write("x.csv", "text,y\na,1\na,2\na,1\n"), target="y")
    assert copies.conflicting_duplicates() == [("2", "3", "4")]


@pytest.mark.parametrize("header", ["", "text\tscore\n"], ids=["no header", "header"])
def test_a_row_without_a_target_is_left_out_and_named(header, write):
    """Columns are named by their number."""
    path = write("x.tsv", f"{header}one text\t3\nempty\t\nanother\t4\n")
    corpus = read_corpus(path, text="1", target="2")
    assert (corpus.texts, corpus.targets) == (["one text", "another"], [3.0, 4.0])
    assert corpus.problems == [(corpus.problems[0][0], "left out: it has no number to be predicted")]


def test_asap_essays(data):
    path = data / "asap-aes" / "training_set_rel3.tsv.xz"
    corpus = read_corpus(path, text="essay", target="domain1_score", group="essay_set")
    assert len(corpus) == len(corpus.targets) == 12978
    counts = (1783, 1800, 1726, 1772, 1805, 1800, 1569, 723)
    assert Counter(corpus.groups) == dict(zip("12345678", counts, strict=True))
    ranges = {"1": (2, 12), "2": (1, 6), "4": (0, 3), "5": (0, 4), "7": (2, 24), "8": (10, 60)}
    for number, bounds in ranges.items():
        scores = [y for group, y in zip(corpus.groups, corpus.targets, strict=True) if group == number]
        assert (min(scores), max(scores)) == bounds
    assert not corpus.problems


TABLE = "text,label\n" + "".join(f"it's text {i},{'ab'[i % 2]}\n" for i in range(12))
TABLE_TEXTS = [f"it's text {i}" for i in range(12)]


def assert_is_table(corpus):
    assert (corpus.texts, corpus.labels) == (TABLE_TEXTS, ["a", "b"] * 6)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt"])
@pytest.mark.parametrize("first", ["sep={}\n", '"sep={}"\r\n', "SEP={}\r\n", "sep={0}{0}\n"])
def test_first_line_of_excel_names_the_separator(first, name, write):
    for mark in ";,\t|^":
        table = first.format(mark) + TABLE.replace(",", mark)
        for charset in ("utf-8", "utf-8-sig", "utf-16"):
            assert_is_table(read_corpus(write(name, table.encode(charset))))


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (r'"he said \"no\" twice"', 'he said "no" twice'),
        (r'"a \", b"', 'a ", b'),
        (r'"ends with \"quotes\""', 'ends with "quotes"'),
        (r'"{\"a\": \"b, c\"}"', '{"a": "b, c"}'),
        (r'"C:\\new \"q\""', r"C:\new " + '"q"'),
        (r'"C:\new \"q\""', r"C:\new " + '"q"'),
        ('"two\nlines \\"q\\""', 'two\nlines "q"'),
    ],
)
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_quotes_after_a_backslash(mark, cell, text, write):
    """Also late in the table, after rows without any."""
    for plain in (0, 2000):
        rows = f"a{mark}plain text\n" * plain
        rows += "".join(f"{label}{mark}{cell}\n" for label in "abab")
        corpus = read_corpus(write("t.csv", f"label{mark}text\n{rows}"))
        assert (corpus.texts[plain:], corpus.labels[plain:]) == ([text] * 4, ["a", "b"] * 2)
        assert "quotes in quoted fields are written \\" in corpus.problems[0][1]


@pytest.mark.parametrize(
    ("cell", "text"), [('"C:\\dir\\"', "C:\\dir\\"), ('"""C:\\dir\\"""', '"C:\\dir\\"'), ('"\\""x"', '\\"x')]
)
def test_paths_that_end_with_a_backslash(cell, text, write):
    """RFC 4180 has no escapes, and wins where it gives equal numbers of fields."""
    corpus = read_corpus(write("t.csv", "label,text\n" + "".join(f"{c},{cell}\n" for c in "abab")))
    assert (corpus.texts, corpus.problems) == ([text] * 4, [])


@pytest.mark.parametrize(
    ("name", "header", "row"),
    [
        ("t.tsv", '"text"\t"label"', '"{0}"\t"{1}"\t"{2}"'),
        ("t.csv", '"text","label"', '"{0}","{1}","{2}"'),
        ("t.txt", '"text" "label"', '"{0}" "{1}" "{2}"'),
        ("t.tsv", "text\tlabel", "{0}\t{1}\t{2}"),
        ("t.csv", "text;label", "{0};{1};{2}"),
        ("t.csv", '"","text","label"', '"{0}","{1}","{2}"'),  # write.csv
        ("t.csv", '"";"text";"label"', '"{0}";"{1}";"{2}"'),  # write.csv2
    ],
)
def test_tables_of_r(name, header, row, write):
    rows = [row.format(i, text, "ab"[i % 2]) for i, text in enumerate(TABLE_TEXTS)]
    corpus = read_corpus(write(name, "\n".join([header, *rows]) + "\n"))
    assert_is_table(corpus)
    short = not header.startswith('""')
    assert [note for _, note in corpus.problems] == short * [
        "the rows begin with their names, for which the header has no name"
    ]


@pytest.mark.parametrize(
    "above", ["# made by x, 2024\n", "# one\n# two\n\n", "#\n", '"# quoted, note"\n', "# label text\r\n"]
)
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt"])
def test_comments_above_the_header(name, above, write):
    corpus = read_corpus(write(name, above + (TABLE.replace(",", "\t") if name == "t.tsv" else TABLE)))
    assert_is_table(corpus)
    assert "lines above the header that are left out" in corpus.problems[0][1]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
@pytest.mark.parametrize(
    "content", ["# one\n# two\n", "sep=;\n", "sep=,\n\n", '"#a",\n', '#m<x\x8b",4wO.a\x1f-y\n']
)
def test_tables_without_a_row(name, content, write):
    path = write(name, content)
    for read in (read_corpus, lambda *a, **k: stream_corpus(*a, **k).stored()):
        for options in ({}, {"text": "text", "target": "score"}, {"text": "1", "header": True}):
            for form in (None, name[2:]):
                with suppress(InputError):
                    assert len(read(path, form, **options))


def test_readers_give_next_a_default():
    """The input may have no next row or line; StopIteration in a generator is a RuntimeError."""
    calls = [
        f"{path.name}:{node.lineno}"
        for path in Path(tables.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "next" and len(node.args) == 1
    ]
    assert calls == []


def test_headers_and_rows_that_begin_like_comments(write):
    assert_is_table(read_corpus(write("t.csv", "#" + TABLE)))
    assert_is_table(read_corpus(write("t.csv", "# a comment\n# " + TABLE)))
    row = '"# Heading\n\nand text",a\n'
    assert (
        read_corpus(write("t.csv", row + "x,b\ny,a\n"), text="1", label="2").texts[0]
        == "# Heading\n\nand text"
    )
    rows = "".join(f"#tag {i},{'ab'[i % 2]}\n" for i in range(4))
    assert len(read_corpus(write("t.csv", rows + "x,a\ny,b\n"), text="1", label="2")) == 6


ARFF = """% made by hand
@RELATION 'a b'

@attribute 'the text' string
@attribute n numeric
@attribute @@class@@ {a,'b c'}

@data
'it\\'s, a',1,a
"say \\"no\\"", 2 , 'b c'
plain,?,a
% a comment
?,3,?
"""


@pytest.mark.parametrize("name", ["t.arff", "t.txt"])
def test_arff(name, write):
    corpus = read_corpus(write(name, ARFF), text="the text", skip_invalid=True)
    assert (corpus.texts, corpus.labels) == (["it's, a", 'say "no"', "plain"], ["a", "b c", "a"])
    assert corpus.problems == [(f"{name}, line 13", "left out: its 'the text' is empty")]
    for row in ("{0 'x', 2 a}", "'unclosed,1,a"):
        with pytest.raises(InputError, match="line 13 is no row of ARFF with all attributes"):
            read_corpus(write(name, ARFF.replace("?,3,?", row)), text="the text")


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["['a', 'b c']", "['d']", "[]"], [("a", "b c"), ("d",), ()]),  # Python
        (['["it\'s", "b, c"]', "['d',]", "[]"], [("it's", "b, c"), ("d",), ()]),
        (["('a', 'b')", "('d',)", "()"], [("a", "b"), ("d",), ()]),
        (["{'a', 'b'}", "{'d'}", "set()"], [("a", "b"), ("d",), ()]),
        (["['a' 'b']", "['d'\n 'e']", "[]"], [("a", "b"), ("d", "e"), ()]),  # NumPy
        (["array(['a', 'b'], dtype=object)", "array(['d'])", "[]"], [("a", "b"), ("d",), ()]),
        (['c("a", "b")', 'c("d")', "character(0)"], [("a", "b"), ("d",), ()]),  # R
        (['["a","b"]', '["d"]', "[]"], [("a", "b"), ("d",), ()]),  # JSON
        (['{"choices": ["a", "b"]}', "d", ""], [("a", "b"), ("d",), ()]),  # Label Studio
        (["[1, 2]", "[3]", "[]"], [("1", "2"), ("3",), ()]),
        (["[a, b]", "[d]", "[]"], [("a", "b"), ("d",), ()]),  # Java
        (["{a,b}", '{"d e",f}', "{}"], [("a", "b"), ("d e", "f"), ()]),  # PostgreSQL
        (["a;b", "d", ""], [("a", "b"), ("d",), ()]),
        (["(1)", "(a)", "[x"], [("(1)",), ("(a)",), ("[x",)]),
    ],
)
def test_lists_in_cells(cells, labels, write):
    stream = io.StringIO()
    csv.writer(stream).writerows([("text", "labels"), *((f"t{i}", cell) for i, cell in enumerate(cells))])
    corpus = read_corpus(write("t.csv", stream.getvalue()), label_separator=";")
    assert corpus.labels == labels
    assert len(corpus.problems) == (cells[0] not in ("a;b", "(1)"))


def test_a_column_for_each_label(write):
    path = write("t.csv", "id,text,a,b,c\n1,x,1,0,1\n2,y,0,0.0,0\n3,z,0,True,FALSE\n")
    assert read_corpus(path, label="a,b,c").labels == [("a", "c"), (), ("b",)]
    assert read_corpus(path, label="3,4").labels == [("a",), (), ("b",)]
    with pytest.raises(InputError, match=r"line 2: 'id' is '2'|'text' is 'x'; columns of labels hold 1"):
        read_corpus(path, text="a", label="b,text")
    refuses("no column 'd' for the label", read_corpus, path, label="a,d")
    assert read_corpus(write("u.csv", 'text,"a,b"\nx,q\n'), label="a,b").labels == ["q"]


@pytest.mark.parametrize("orient", ["columns", "split", "records", "table", "index", "list", "wrapped"])
@pytest.mark.parametrize("name", ["t.json", "t.txt", "t.jsonl"])
def test_data_frames_in_json(name, orient, write):
    pandas = pytest.importorskip("pandas")
    for columns, options in (
        (("text", "label"), {}),
        (("body of it", "kind"), {"text": "body of it", "label": "kind"}),
    ):
        frame = pandas.DataFrame(dict(zip(columns, (TABLE_TEXTS, list("ab" * 6)), strict=True)))
        if orient == "list":
            content = json.dumps(frame.to_dict(orient="list"))
        elif orient == "wrapped":
            content = json.dumps({"version": "1", "data": frame.to_dict(orient="records")})
        else:
            content = frame.to_json(orient=orient)
        assert_is_table(read_corpus(write(name, content), **options))
    assert_is_table(read_corpus(write("t.json", json.dumps(json.loads(content), indent=2)), **options))


def test_long_data_frames_and_arrays_in_json(write):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TABLE_TEXTS * 1000, "label": list("ab" * 6000)})
    for orient in ("columns", "index"):
        assert len(read_corpus(write("t.txt", frame.to_json(orient=orient)))) == 12_000
    rows = [["a", "text 1"], ["b", "text 2"], ["a", "text 3"]]
    assert read_corpus(write("t.json", json.dumps(rows))).labels == ["a", "b", "a"]
    lines = "\n".join(map(json.dumps, [["label", "text"], *rows]))
    assert read_corpus(write("t.jsonl", lines)).labels == ["a", "b", "a"]
    refuses("is its first line a header", read_corpus, write("t.json", frame[:5].to_json(orient="values")))
    for content in ('{"a": 1}', '"text"', "null"):
        refuses("must hold an array of objects", read_corpus, write("t.json", content), format="json")


@pytest.mark.filterwarnings("ignore:Feather V1")
def test_arrow_and_feather(write, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, ipc

    table = pyarrow.table({"text": TABLE_TEXTS, "label": list("ab" * 6)})
    for name, new in (("file", ipc.new_file), ("stream", ipc.new_stream)):
        with pyarrow.OSFile(str(tmp_path / name), "wb") as sink, new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=5)
        assert_is_table(read_corpus(tmp_path / name))
        data = (tmp_path / name).read_bytes()
        refuses("cannot be read as Parquet or Arrow", read_corpus, write("cut", data[:-200]))
        at = data.index(b"it's text 0it's text 1")
        with pytest.raises(InputError, match="cannot be read as Parquet or Arrow"):  # offsets of the texts
            read_corpus(write("bad", data[: at - 64] + b"\xff" * 60 + data[at - 4 :]))
    for options in (
        {"compression": "lz4"},
        {"compression": "zstd"},
        {"compression": "uncompressed"},
        {"version": 1},
    ):
        with suppress(ValueError):  # a PyArrow that writes no first version
            feather.write_feather(table, str(tmp_path / "f"), **options)
        assert_is_table(read_corpus(tmp_path / "f"))
    long = pyarrow.table({"text": ["a" * 50_000_000]})
    feather.write_feather(long, str(tmp_path / "b"), compression="zstd")
    refuses("unpacks to more than 200 times", read_corpus, tmp_path / "b")


CLASSES = {"names": ["x", "y"], "_type": "ClassLabel"}


@pytest.mark.parametrize(
    ("feature", "values", "labels"),
    [
        (CLASSES, [0, 1, -1, None], ["x", "y"]),
        ({"feature": CLASSES, "_type": "Sequence"}, [[0, 1], [1], []], [("x", "y"), ("y",), ()]),
        ({"feature": CLASSES, "_type": "List"}, [[0, 1], [1], []], [("x", "y"), ("y",), ()]),
        ([CLASSES], [[0, 1], [1], []], [("x", "y"), ("y",), ()]),
        ({"dtype": "int64", "_type": "Value"}, [0, 1], ["0", "1"]),
        (7, [0, 1], ["0", "1"]),
    ],
)
def test_names_of_classes_of_hugging_face(feature, values, labels, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    metadata = {"huggingface": json.dumps({"info": {"features": {"label": feature}}})}
    table = pyarrow.table({"text": [f"t{i}" for i in range(len(values))], "label": values})
    table = table.replace_schema_metadata(metadata)
    parquet.write_table(table, tmp_path / "t.parquet")
    path = str(tmp_path / "t.arrow")
    with pyarrow.OSFile(path, "wb") as sink, ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for name in ("t.parquet", "t.arrow"):
        assert read_corpus(tmp_path / name).labels == labels
    if feature is CLASSES:
        assert read_corpus(tmp_path / "t.parquet", target="label").targets == [0, 1, -1]
        parquet.write_table(table.set_column(1, "label", [[0, 2, 1, 1]]), tmp_path / "t.parquet")
        refuses("'label' is 2, and its 2 classes count from 0", read_corpus, tmp_path / "t.parquet")


@pytest.mark.parametrize("name", ["t.arff", "t.jsonl"])
def test_rows_without_a_line_of_csv(name, write):
    """The output of `predict` keeps lines of CSV, which ARFF and JSON do not have."""
    lines = '["text", "label"]\n["a", "b"]\n' if name == "t.jsonl" else ARFF.replace("?,3,?\n", "")
    options = {"text": "text" if name == "t.jsonl" else "the text"}
    path = str(write(name, lines))
    documents = next(incoming_documents([path], keep_rows=True, failed=print, **options))
    assert type(documents.rows[0]) is dict
    assert documents.rows[0][options["text"]] == documents.texts[0]


@pytest.mark.parametrize(
    "row", [" " * 20_000 + "'", "[" + " " * 20_000 + "x", "['a'" + " " * 20_000 + "x", "(" * 20_000]
)
def test_long_cells_take_no_long_time(row, write):
    began = time.process_time()
    with pytest.raises(InputError):
        read_corpus(write("t.arff", ARFF.replace("?,3,?", row + ",3,?,4")), text="the text")
    read_corpus(write("t.csv", f'text,label\nx,"{row}"\n'), label_separator=";")
    assert time.process_time() - began < 5


# Data that contradict the table: said, left out or refused

COMPLAINT = "the lamp is broken again please send another part today thanks a lot"
WORDS = COMPLAINT.split()


def complaints(n=40):
    """Rows of a number, a text and a label."""
    texts = (" ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 7)) for i in range(1, n + 1))
    return [[str(1000 + i), f"{text} {i}", "ab"[i % 2]] for i, text in enumerate(texts)]


def table(rows, separator=";", header=("nr", "Beschreibung", "Kategorie")):
    return "\n".join(separator.join(row) for row in [header, *rows]) + "\n"


COLUMNS = {"text": "Beschreibung", "label": "Kategorie"}


def said(corpus):
    return "\n".join([*corpus.warnings, *(f"{place}: {problem}" for place, problem in corpus.problems)])


@pytest.mark.parametrize("separator", [";", ",", "\t"])
@pytest.mark.parametrize(
    "error", ["#N/A", "#NV", "#REF!", "#BEZUG!", "#DIV/0!", "#NAME?", "#WERT!", " #VALUE! "]
)
@pytest.mark.parametrize("column", [1, 2])
def test_errors_of_a_spreadsheet_are_no_texts_and_no_labels(column, error, separator, write):
    rows = complaints()
    for i in (3, 4, 5, 17, 30):
        rows[i][column] = error
    corpus = read_corpus(write("t.csv", table(rows, separator)), **COLUMNS)
    assert len(corpus) == 35
    assert set(corpus.labels) == {"a", "b"}
    assert f"left out: 5 of 40 rows: error cell {error.strip()}" in said(corpus)


def test_texts_about_errors_and_hashtags_stay(write):
    rows = complaints()
    rows[3][1], rows[4][1], rows[5][2] = "the cell says #N/A", "#help", "#b"
    rows[6][2] = "#b"
    corpus = read_corpus(write("t.csv", table(rows)), **COLUMNS)
    assert len(corpus) == 40
    assert set(corpus.labels) == {"a", "b", "#b"}


@pytest.mark.parametrize("encoding", ["latin1", "cp1252", "cp850", "cp1251", "koi8-r", "mac_roman"])
def test_an_encoding_that_contradicts_utf_8_is_refused(encoding, write):
    rows = complaints()
    rows[20][1] += " für Größe"
    path = write("t.csv", table(rows))
    refuses(rf"is UTF-8, and {encoding} makes other words", read_corpus, path, encoding=encoding, **COLUMNS)
    path.write_bytes(table(rows).encode("latin1"))
    assert "für Größe" in read_corpus(path, encoding="latin1", **COLUMNS).texts[20]
    for own in ("utf-8", "utf-16", "utf-8-sig", "gb18030"):
        path.write_bytes(table(rows).encode(own))
        assert "für Größe" in read_corpus(path, encoding=own, **COLUMNS).texts[20], own
    rows[20][1] = "лампа не работает"
    for own in ("cp1251", "koi8-r", "shift_jis"):
        path.write_bytes(table(rows).encode(own))
        assert read_corpus(path, encoding=own, **COLUMNS).texts[20] == rows[20][1]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (lambda i: f"{i}.5", "numbers"),
        (lambda i: f"{i},5", "numbers"),
        (lambda i: str(i), "numbers"),
        (lambda i: f"2024-03-{i % 28 + 1:02}", "dates"),
        (lambda i: f"{i % 28 + 1}.3.2024 10:{i % 60:02}", "dates"),
        (lambda i: f"3/{i % 28 + 1}/24", "dates"),
        (lambda i: f"2024-03-{i % 28 + 1:02}T10:00:00Z", "dates"),
        (lambda i: f"room {i}", None),
        (lambda i: str(i) if i % 2 else "none of them", None),
    ],
)
def test_texts_that_are_numbers_or_dates_are_a_warning(values, kind, write):
    rows = [[*row, values(i)] for i, row in enumerate(complaints())]
    path = write("t.csv", table(rows, header=("nr", "Beschreibung", "Kategorie", "more")))
    for text in ("more", ["Beschreibung", "more"]):
        corpus = read_corpus(path, text=text, label="Kategorie")
        warning = f"the column 'more' is read as texts and holds {kind or ''}"
        assert (warning in said(corpus)) == (kind is not None), said(corpus)
        assert "'Beschreibung' is read as texts" not in said(corpus)
    if kind == "dates":
        with pytest.raises(InputError, match="a date is no number"):
            read_corpus(path, text="Beschreibung", numbers="more", label="Kategorie")


def test_a_label_in_the_first_row_of_each_block_is_refused(write):
    blocks, scattered = complaints(), complaints()
    for i, row in enumerate(blocks):
        row[2] = "abcb"[i // 10] if i % 10 == 0 else ""
    for i, row in enumerate(scattered):
        row[2] = row[2] if i % 5 == 3 else ""
    with pytest.raises(InputError, match=r"36 of 40 rows of .*t\.csv have no label.*first row of each block"):
        read_corpus(write("t.csv", table(blocks)), **COLUMNS)
    corpus = read_corpus(write("u.csv", table(scattered)), **COLUMNS)
    assert "left out: 32 of 40 rows: it has no label (" in said(corpus)


@pytest.mark.parametrize("total", ["Summe;40", "Total", ";Gesamt", "Summe:;;"])
def test_a_short_row_of_totals_is_left_out(total, write):
    path = write("t.csv", table(complaints()) + f"{total}\n")
    corpus = read_corpus(path, require_text=True, **COLUMNS)
    assert len(corpus) == 40
    assert "row of totals" in said(corpus)
    path.write_text(table(complaints()) + "another;40\n")
    refuses("too few or too many fields", read_corpus, path, require_text=True, **COLUMNS)


def test_usual_names_of_a_single_object_have_any_case(write):
    corpus = read_corpus(
        write("t.json", '{"Text": "a lamp", "Label": "x", "parts": [{"Text": "b"}, {"Text": "c"}]}\n')
    )
    assert (corpus.texts, corpus.labels) == (["a lamp"], ["x"])


RIS = """TY  - JOUR
TI  - Roses and water
AB  - Tulips grow
      in the bed: a long
      line
KW  - garden
KW  - flowers
ER  -

TY  - JOUR
T1  - The gearbox
KW  - motor
ER  -
"""
ENDNOTE = """%0 Journal Article
%T Roses and water
%X Tulips grow
in the bed: a long
line
%K garden
%K flowers

%0 Book
%T The gearbox
%K motor
"""


@pytest.mark.parametrize(("content", "name", "label"), [(RIS, "a.ris", "KW"), (ENDNOTE, "a.enw", "%K")])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_references_have_a_column_for_each_tag(content, name, label, end, mark, write):
    path = write(name, "")
    path.write_bytes((mark + content.replace("\n", end)).encode())
    corpus = read_corpus(path, label=label, label_separator="")
    assert corpus.texts == ["Roses and water\nTulips grow in the bed: a long line", "The gearbox"]
    assert corpus.labels == [("garden", "flowers"), ("motor",)]
    title = label.replace("KW", "T1").replace("%K", "%T")
    assert read_documents(path, text=title, skip_invalid=True).texts[-1] == "The gearbox"


def rows_with_commas(layout, n=40):
    """Rows of text, label and an amount with a decimal comma without quotes."""
    texts = [f"{' '.join(WORDS[(i * k) % len(WORDS)] for k in range(1, 7))} {i}" for i in range(1, n + 1)]
    return [
        layout.format(i=i, text=text, label="abc"[i % 3], amount=f"{i * 7 % 90},{i % 10}")
        for i, text in enumerate(texts, 1)
    ]


@pytest.mark.parametrize(
    ("header", "layout"),
    [
        ("Text,Betrag,Art", "{text},{amount},{label}"),
        ("Text,Art,Betrag", "{text},{label},{amount}"),
        ("Betrag,Text,Art", "{amount},{text},{label}"),
        ("ID,Text,Betrag,Art", "{i},{text},{amount},{label}"),
        ("Nr,Betrag,Text,Art", "{i},{amount},{text},{label}"),
        ('"Text","Betrag","Art"', '"{text}",{amount},"{label}"'),
        ("Text,Datum,Art", "{text},March {i}, 2026,{label}"),
        ("Text,Art", "{text}, too,{label}"),
        ("Text,Art", "{text},{label},"),
    ],
)
def test_a_cell_more_in_each_row_is_refused(header, layout, write):
    """R's names of rows have the same form; the text or the label would be a part of a number."""
    path = write("t.csv", "\n".join([header, *rows_with_commas(layout)]) + "\n")
    with pytest.raises(InputError, match=r"40 of the 40 rows.*a number such as 1,5, needs quotes"):
        read_corpus(path, text="Text", label="Art")


@pytest.mark.parametrize(("label", "n_warnings"), [("3", 1), ("4", 0)])
def test_a_label_that_is_a_part_of_a_number_is_said(label, n_warnings, write):
    path = write("t.csv", "\n".join(rows_with_commas("{text},{amount},{label}")) + "\n")
    corpus = read_corpus(path, text="1", label=label)
    assert sum("columns '2' and '3'" in warning for warning in corpus.warnings) == n_warnings


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("names", ["{0}", "{1}", '"{0}"', '"row {1}"'])
def test_rows_that_begin_with_their_names(names, delimiter, write):
    """R's names: consecutive numbers, those of a sample of rows, or texts."""
    if names == "{1}" and delimiter != ",":
        delimiter = ","
    rows = [
        delimiter.join([names.format(i, (i * 37) % 101), f"a text {i}", "ab"[i % 2]]) for i in range(1, 41)
    ]
    corpus = read_corpus(write("t.csv", "\n".join([delimiter.join(["text", "label"]), *rows]) + "\n"))
    assert corpus.texts == [f"a text {i}" for i in range(1, 41)]


@pytest.mark.parametrize("share", [2, 3, 20])
@pytest.mark.parametrize("columns", ["single", "joined", "apart", "several labels"])
@pytest.mark.parametrize("classes", [("Konto", "Rechnung"), ("a", "b"), ("0", "1")])
def test_rows_whose_text_and_label_are_swapped(share, columns, classes, write):
    """Two files that are pasted together; more than a tenth is refused, fewer rows are left out."""
    n, several = 60, columns == "several labels"
    options = {"text": ["nr", "Text"] if columns == "apart" else "nr,Text" if columns == "joined" else "Text"}
    options |= {"label": "Art"} | ({"label_separator": ""} if several else {})
    rows = []
    for i in range(n):
        pair = [f"some words about {WORDS[i % len(WORDS)]} {i}", classes[i % 2] + f"; {classes[1]}" * several]
        rows.append(";".join([f"n{i}", *(f'"{x}"' for x in (pair[::-1] if i % share == 1 else pair))]))
    path = write("t.csv", "\n".join(["nr;Text;Art", *rows]) + "\n")
    if several and classes == ("0", "1"):
        return
    if share < 10:
        refuses(f"swapped in {n // share} of 60 rows", read_corpus, path, **options)
        return
    corpus = read_corpus(path, **options)
    assert len(corpus) == n - n // share
    assert "swapped in 3 of 60 rows" in said(corpus)


def test_a_text_that_is_the_name_of_a_class_stays(write):
    rows = [*complaints(), ["1", "a", "a"], ["2", "b", "a"], ["3", "a", "refund"], ["4", "a", "refund"]]
    rows += [["5", "more words", "refund"]]
    assert len(read_corpus(write("t.csv", table(rows)), **COLUMNS)) == 45


@pytest.mark.parametrize("name", ["beschreibung", "BESCHREIBUNG", "Beschreibungen"])
@pytest.mark.parametrize("titles", ["", "Auswertung;;\n;;\n", "Beschreibung der Fragen;;\n"])
def test_a_name_in_another_case_is_suggested_below_titles(name, titles, write):
    path = write("t.csv", titles + table(complaints(), header=("nr", "Beschreibung ", "Kategorie")))
    with pytest.raises(InputError, match=f"no column '{name}' .*did you mean 'Beschreibung'"):
        read_corpus(path, text=name, label="Kategorie")


@pytest.mark.parametrize("space", ["  ", "\u00a0", "\n"])
def test_white_space_in_a_name_counts_as_a_blank(space, write):
    header = ("nr", f'"Text{space}der Frage"', "Kategorie")
    path = write("t.csv", "Auswertung;;\n;;\n" + table(complaints(), header=header))
    for name in ("Text der Frage", f"Text{space}der Frage"):
        assert read_corpus(path, text=name, label="Kategorie").texts[3].endswith(" 3")


#: Words with the letters of a language, and charsets in which its texts are stored.
CHARSETS = {
    "größer Störung März für über Rückgabe": ("cp850", "cp437", "mac_roman"),
    "déjà été problème garçon français où": ("cp850", "mac_roman"),
    "perché più città qualità già così": ("cp850", "mac_roman"),
    "żółty źródło będzie śnieg płatność zwrot": ("cp1250", "iso8859_2", "cp852"),
    "příliš žluťoučký kůň účet zásilka děkuji": ("cp1250", "iso8859_2", "cp852"),
    "árvíztűrő köszönöm számla őrült hűtő": ("cp1250", "iso8859_2", "cp852"),
    "привет заказ доставка оплата возврат": ("cp1251", "koi8_r", "cp866", "iso8859_5"),
    "καλημέρα παραγγελία λογαριασμός αποστολή": ("cp1253", "cp737"),
    "şifre ödeme değil için müşteri çalışmıyor": ("cp1254", "cp857"),
}


@pytest.mark.parametrize(
    ("words", "charset"), [(words, charset) for words, sets in CHARSETS.items() for charset in sets]
)
@pytest.mark.parametrize("share", [1, 6])
def test_words_of_another_charset_are_said(words, charset, share, write):
    """The charset that is named reads them; a text in `share` has such words."""
    rows = [
        f"{' '.join(words.split()[i % 3 :]) if i % share == 0 else 'plain words'} {i};{'ab'[i % 2]}"
        for i in range(40)
    ]
    data = "\n".join(["text;label", *rows]).encode(charset)
    corpus = read_corpus(write("t.csv", data))
    named = re.search(r"is not Windows-1252.*--encoding (\w+)", said(corpus))
    assert named, said(corpus)
    assert data.decode(named[1]) == data.decode(charset)
    assert not read_corpus(write("t.csv", data), encoding=charset).warnings


@pytest.mark.parametrize(
    "words",
    [*list(CHARSETS)[:3], "año mañana español niño", "åäö förändring köp får också", "não você está à ação",
     "“quoted” words don’t — really… €5 • ½ ‚so‘", "café Müller Encyclopædia", "n° 5 m² 3× «bien» l’été"],
)  # fmt: skip
def test_words_of_windows_1252_are_not_doubted(words, write):
    rows = [f"{' '.join(words.split()[i % 2 :])} {i};{'ab'[i % 2]}" for i in range(40)]
    assert not read_corpus(write("t.csv", "\n".join(["text;label", *rows]).encode("cp1252"))).warnings


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        ("mS#Text,cD#Art,C#n", ("Text", "Art")),
        ("S#Betreff,D#Kanal,cS#Art", ("Betreff", "Art")),
        ("C#n,mS#Text,cD#Art", ("Text", "Art")),
    ],
)
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_roles_and_types_in_the_header_of_orange(header, roles, delimiter, write):
    cells = {"Text": "some words {}", "Betreff": "some words {}", "Art": "ab", "Kanal": "xy", "n": "{}"}
    names = [name.partition("#")[2] for name in header.split(",")]
    rows = [
        delimiter.join(cells[x].format(i) if "{" in cells[x] else cells[x][i % 2] for x in names)
        for i in range(40)
    ]
    path = write(
        "t.tab" if delimiter == "\t" else "t.csv", "\n".join([header.replace(",", delimiter), *rows])
    )
    for options in ({}, {"text": roles[0], "label": roles[1]}):
        corpus = read_corpus(path, **options)
        assert corpus.texts == [f"some words {i}" for i in range(40)]
        assert corpus.labels == ["ab"[i % 2] for i in range(40)]


def test_a_path_that_is_named_twice_is_refused(write):
    path = write("t.csv", table(complaints()))
    for paths in ([path, path], [path, path.parent / "." / path.name]):
        refuses("named 2 times", read_corpus, paths, **COLUMNS)


def test_a_row_of_totals_without_text_and_label_is_no_document_in_python(write):
    rows = [*complaints(), ["Summe", "", "", "40"]]
    rows = [[*row, ""][:4] for row in rows]
    path = write("t.csv", table(rows, header=("nr", "Beschreibung", "Kategorie", "more")))
    corpus = read_corpus(path, text="Beschreibung", label="Kategorie")
    assert len(corpus) == 40
    assert "row of totals" in said(corpus)
