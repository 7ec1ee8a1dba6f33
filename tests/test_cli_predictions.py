"""Predictions beside the columns of an input table: the rest of the table does not change."""

import csv
import io
import json
import os
import re
import select
import subprocess
import sys

import openpyxl
import pyarrow
import pytest
from command import fails, printed_rows, report, run, works
from loading import load
from pyarrow import parquet

from textsvm.cli import predictions

READ = ["--text", "body", "--kernel", "spectrum:2"]
LABELLED = ["--label", "kind"]
ROWS = [
    ("win cash now", "spam"),
    ("cheap cash prize", "spam"),
    ("lunch at noon", "ham"),
    ("see you at noon", "ham"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Models of texts by column names: of two and three classes, calibrated, multilabel, of numbers."""
    folder = tmp_path_factory.mktemp("labelled")
    rows = [(f"{text} {i}", label) for i in range(6) for text, label in ROWS]
    tables = {
        "t": [{"body": text, "kind": label} for text, label in rows],
        "u": [{"body": text, "kind": label if i % 2 else "Änderung"} for i, (text, label) in enumerate(rows)],
        "l": [
            {"body": text, "kind": [label, *["at"] * (" at " in text)], "n": len(text)}
            for text, label in rows
        ],
    }
    for name, table in tables.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, table)))
    for name, table, *options in (
        ("m", "t", *LABELLED),
        ("c", "t", *LABELLED, "--calibrate", "sigmoid"),
        ("u", "u", *LABELLED),
        ("l", "l", *LABELLED, "--multilabel"),
        ("r", "l", "--regress", "n"),
    ):
        report("train", f"{table}.jsonl", *READ, *options, "-o", name, cwd=folder)
    return folder


def labels(model, *texts):
    return load(model).predict(list(texts)).tolist()


#: Tables whose every byte is kept.
FORMS = {
    "comma": b"nr,body\n1,win cash\n2,lunch\n",
    "semicolon": b"nr;body\n1;win cash\n2;lunch\n",
    "pipe": b"nr|body\n1|win cash\n2|lunch\n",
    "TAB in CSV": b'nr\tbody\n1\t"win cash"\n2\tlunch\n',
    "mark": b"\xef\xbb\xbfnr;body\r\n1;win cash\r\n2;lunch\r\n",
    "CRLF": b"nr,body\r\n1,win cash\r\n2,lunch\r\n",
    "no last end": b"nr,body\n1,win cash\n2,lunch",
    "quoted": b'"nr","body"\n"1","win ""cash"""\n"2","lunch"\n',
    "some quoted": b'nr,"body"\n1,"win, cash"\n2,lunch\n',
    "needless quotes": b'nr,body\n"1",win cash\n2,"lunch"\n',
    "lines in quotes": b'nr,body\n1,"win\ncash"\n2,"lunch\r\nat"\n',
    "empty lines": b"nr,body\n\n1,win cash\n\n\n2,lunch\n",
    "blanks": b"nr, body \n 1 ,  win cash  \n2,\tlunch\n",
    "cp1252": "nr,body\n1,win cäsh €\n2,lünch\n".encode("cp1252"),
    "undefined in cp1252": b"nr,body\n1,win c\xe4sh \x81\n2,lunch\n",
    "UTF-16": "\ufeffnr;body\r\n1;win cäsh\r\n2;lunch\r\n".encode("utf-16-le"),
    "UTF-8": "nr,body\n1,win cäsh 日本\n2,lünch\n".encode(),
    "columns behind": b"nr,body,x,y\n1,win cash,,\n2,lunch,3,4\n",
    "numbers as texts": b"nr,body\n007,win cash\n1e5,lunch\n",
    "JSON in a cell": b'nr,body\n"{""a"": [1, 2]}",win cash\n2,lunch\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_a_table_keeps_every_byte(name, place, tmp_path):
    """Without the added columns the output is the input."""
    data = FORMS[name]
    (tmp_path / "in.csv").write_bytes(data)
    works("predict", place / "m", "in.csv", "--format", "csv", "-o", "out.csv", cwd=tmp_path)
    charset = "utf-16" if data.startswith(b"\xff\xfe") else "cp1252" if b"\xe4sh" in data else "utf-8"
    before, after = (
        (text if charset != "cp1252" else text.replace(b"\x81", b"?")).decode(charset)
        for text in (data, (tmp_path / "out.csv").read_bytes())
    )
    mark = max(";,|\t", key=before.partition("\n")[0].count)
    found = list(csv.reader(io.StringIO(after.removeprefix("\ufeff"), newline=""), delimiter=mark))
    rows = [row for row in found if row]
    texts = [row[1] for row in rows[1:]]
    assert rows[0][-2:] == ["label", "confidence"]
    assert [row[-2] for row in rows[1:]] == labels(place / "m", *texts)
    values = load(place / "m").decision_function(texts)
    assert [float(row[-1]) for row in rows[1:]] == pytest.approx(abs(values), abs=1e-6)
    quote = '"' if name == "quoted" else ""
    for row in rows:
        added = mark.join(f"{quote}{cell}{quote}" for cell in row[-2:])
        assert mark + added in after
        after = after.replace(mark + added, "", 1)
    assert after == before


UNUSUAL = {
    "Excel's separator": (b"sep=;\r\nnr;body\r\n1;win cash\r\n2;lunch\r\n", (), "nr;body"),
    "comments": (b"# from a database\n# of today\nnr,body\n1,win cash\n2,lunch\n", (), "nr,body"),
    "Spark's quotes": (b'nr,body\n1,"win \\"cash\\", now"\n2,"lunch, \\"at\\" noon"\n', (), "nr,body"),
    "R's names of rows": (b'"nr","body"\n"1",1,"win,cash"\n"2",2,"lunch"\n', (), '"nr","body"'),
    "cp1251": ("nr;body\n1;деньги\n2;обед\n".encode("cp1251"), ("--encoding", "cp1251"), "nr;body"),
    "cp437": ("nr;body\n1;M\u00e4rz\n2;obed\n".encode("cp437"), ("--encoding", "cp437"), "nr;body"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_tables_keep_every_byte(name, place, tmp_path):
    """What other programs write above the header, their quotes, and named encodings."""
    data, options, header = UNUSUAL[name]
    (tmp_path / "in.csv").write_bytes(data)
    works("predict", place / "m", "in.csv", *options, "-o", "out.csv", cwd=tmp_path)
    mark = ";" if ";" in header else ","
    lines, expected = (tmp_path / "out.csv").read_bytes().split(b"\n"), data.split(b"\n")
    first = expected.index(header.encode() + b"\r" * (b"\r" in data))
    assert lines[:first] == expected[:first]
    assert len(lines) == len(expected)
    for line, before in zip(lines[first:-1], expected[first:-1], strict=True):
        kept = line.removesuffix(b"\r").rsplit(mark.encode(), 2)[0]
        assert kept == before.removesuffix(b"\r")
        assert line.endswith(b"\r") == before.endswith(b"\r")


def test_tab_separated_values_have_no_quotes(place, tmp_path):
    data = b'nr\tbody\tx\r\n1\t"win cash\t\r\n2\tlunch"\t3\r\n'
    (tmp_path / "in.tsv").write_bytes(data)
    assert run("predict", place / "m", "in.tsv", "-o", "out.tsv", cwd=tmp_path).returncode == 0
    lines = (tmp_path / "out.tsv").read_bytes().split(b"\r\n")
    assert lines[0] == b"nr\tbody\tx\tlabel\tconfidence"
    assert [line.rsplit(b"\t", 2)[0] for line in lines[1:3]] == data.split(b"\r\n")[1:3]
    assert lines[3] == b""


def table(place, tmp_path, data, *options, model="m", code=0, suffix=".csv"):
    """Cells of the CSV output for a CSV input, and stderr."""
    (tmp_path / f"in{suffix}").write_bytes(data)
    result = run("predict", place / model, f"in{suffix}", "-o", "out.csv", *options, cwd=tmp_path)
    assert result.returncode == code, result.stderr.decode()
    return [*csv.reader((tmp_path / "out.csv").read_text().splitlines())], " ".join(
        result.stderr.decode().split()
    )


def test_rows_without_a_label_keep_their_place(place, tmp_path):
    """Empty, too short and too long rows, also before the first text."""
    data = b"nr,body,x\n0,,\n1,win cash,\n2\n3,lunch,a,b\n4,lunch,\n5,  ,\n"
    rows, said = table(place, tmp_path, data, code=1)
    assert [row[0] for row in rows] == ["nr", "0", "1", "2", "3", "4", "5"]
    assert rows[1] == ["0", "", "", "", ""]
    assert rows[3] == ["2", "", "", "", ""]
    assert rows[4] == ["3", "lunch", "a", "b"]
    assert rows[6] == ["5", "  ", "", "", ""]
    assert [row[3] for row in (rows[2], rows[5])] == labels(place / "m", "win cash", "lunch")
    assert "it has 4 fields and not 3" in said
    assert "4 of the rows got no label" in said
    rows, _ = table(place, tmp_path, data, "--skip-invalid")
    assert [row[0] for row in rows] == ["nr", "1", "4"]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("Summe;;3", "totals"),
        (";Summe;3", "totals"),
        ("Grand total;;3,50 €", "totals"),
        (";Zwischensumme:;", "totals"),
        ("Summe;3", "totals"),
        ("Gesamt: 60 Tickets;;3", "totals"),
        ("nr;body;x", "header"),
        ("NR;Body;X", "header"),
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_rows_of_totals_and_a_second_header_get_no_label(row, kind, last, place, tmp_path):
    """They are said, and are no failure; texts that hold such words stay."""
    lines = ["nr;body;x", "1;win cash;2", "2;lunch at noon;1", "3;total lunch;1"]
    at = len(lines) if last else 2
    lines.insert(at, row)
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", "utf-8")
    result = run("predict", place / "m", "t.csv", "--text", "body", "-o", "o.csv", cwd=tmp_path)
    said = " ".join(result.stderr.decode().split())
    assert result.returncode == 0, said
    assert f"warning: no documents, and without a label: line {at + 1}: " in said
    assert ("row of totals" in said) == (kind == "totals")
    rows = [*csv.reader((tmp_path / "o.csv").read_text("utf-8").splitlines(), delimiter=";")]
    assert [bool(own[3]) for own in rows[1:]] == [i != at for i in range(1, len(lines))]


def test_only_the_first_texts_that_may_be_totals_are_kept(place, monkeypatch):
    """A stream may have no end."""
    kept = []
    monkeypatch.setattr(predictions, "first_few", lambda values: kept.append(len(values)) or "")
    result = run("predict", place / "m", "--format", "lines", stdin=b"Total\n" * 5000)
    assert (result.returncode, kept) == (0, [6])


@pytest.mark.parametrize(
    ("header", "row"), [("body", "Summe: 60"), ("body", "Total"), ("nr;body", "60;Anzahl Mails")]
)
def test_texts_with_a_label_that_may_be_totals_are_said(header, row, place, tmp_path):
    """Nothing but their words tells them from texts."""
    texts = ["win cash", "lunch at noon", "total lunch"]
    lines = [header, *(f"{i};{text}" if ";" in header else text for i, text in enumerate(texts)), row]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", "utf-8")
    result = run("predict", place / "m", "t.csv", "--text", "body", "-o", "o.csv", cwd=tmp_path)
    said = " ".join(result.stderr.decode().split())
    assert f"warning: texts with a label that may be rows of totals: 5 ('{row.rpartition(';')[2]}')" in said


@pytest.mark.parametrize(
    ("header", "added"),
    [
        ("body,label", ["predicted_label", "confidence"]),
        ("body,Label ", ["predicted_label", "confidence"]),
        ("body,confidence", ["label", "predicted_confidence"]),
        ("body,label,confidence", ["predicted_label", "predicted_confidence"]),
        ("body,label,predicted_label", ["predicted_label_2", "confidence"]),
        ("body,label,predicted_label,predicted_label_2", ["predicted_label_3", "confidence"]),
    ],
)
def test_columns_are_never_replaced(header, added, place, tmp_path):
    line = ",".join(["lunch", *["x"] * header.count(",")])
    rows, said = table(place, tmp_path, f"{header}\n{line}\n".encode())
    assert rows[0] == [*header.split(","), *added]
    assert rows[1][:-2] == line.split(",")
    assert f"the new columns are {', '.join(added)}" in said


def test_a_table_without_a_header_gets_none(place, tmp_path):
    rows = [f"{text} {i},{label}\n" for i in range(6) for text, label in ROWS]
    (tmp_path / "t.csv").write_text("".join(rows))
    columns = ["--text", "1", "--label", "2", "--kernel", "spectrum:2"]
    report("train", "t.csv", *columns, "-o", "p", cwd=tmp_path)
    rows, said = table(
        place, tmp_path, b"lunch,a\nwin cash,b\n", "--text", "1", "--table", "header=no", model=tmp_path / "p"
    )
    assert [row[:3] for row in rows] == [["lunch", "a", "ham"], ["win cash", "b", "spam"]]
    assert "has no header; label and confidence are its last columns" in said


@pytest.mark.parametrize(
    ("model", "options", "columns"),
    [
        ("m", (), ["label", "confidence"]),
        ("m", ("--all-classes",), ["label", "confidence", "decision"]),
        ("m", ("--top", "1"), ["label", "confidence", "label_1", "decision_1"]),
        ("c", (), ["label", "confidence"]),
        ("c", ("--proba",), ["label", "confidence"]),
        ("c", ("--proba", "--all-classes"),
         ["label", "confidence", "decision", "probabilities_ham", "probabilities_spam"]),
        ("c", ("--top", "2"), ["label", "confidence", "label_1", "decision_1", "probability_1", "label_2",
                               "decision_2", "probability_2"]),
        ("c", ("--coverage", "0.5"), ["label", "confidence", "set"]),
        ("u", ("--all-classes",),
         ["label", "confidence", "decision_ham", "decision_spam", "decision_Änderung"]),
        ("l", (), ["labels", "confidence"]),
        ("l", ("--all-classes",), ["labels", "confidence", "decision_at", "decision_ham", "decision_spam"]),
        ("r", (), ["value"]),
    ],
)  # fmt: skip
def test_columns_of_each_model(model, options, columns, place, tmp_path):
    rows, _ = table(place, tmp_path, b"body\nlunch at noon\nwin cash\n", *options, model=model)
    assert rows[0] == ["body", *columns]
    assert all(cell for row in rows for cell in row)
    option = "--proba" if model == "c" else "-q"
    said = printed_rows("predict", place / model, tmp_path / "in.csv", option)
    name = columns[0]
    assert [row[1] for row in rows[1:]] == [
        ";".join(row[name]) if isinstance(row[name], list) else str(row[name]) for row in said
    ]
    if model == "c":
        assert [float(row[2]) for row in rows[1:]] == pytest.approx(
            [row["probabilities"][row["label"]] for row in said], abs=1e-6
        )


def test_labels_are_written_in_the_encoding_of_the_table_or_refused(place, tmp_path):
    (tmp_path / "in.csv").write_bytes("body\nlünch at noon 0\nwin cash now 0\n".encode("cp1252"))
    assert run("predict", place / "u", "in.csv", "-o", "letters.csv", cwd=tmp_path).returncode == 0
    text = (tmp_path / "letters.csv").read_bytes().decode("cp1252")
    assert "Änderung" in text
    assert "lünch at noon 0," in text
    lines = [
        json.dumps({"body": text, "kind": label})
        for text, label in [("win cash", "日本"), ("lunch", "ham")] * 4
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    report("train", "t.jsonl", *READ, *LABELLED, "-o", "m", cwd=tmp_path)
    result = run("predict", "m", "in.csv", "-o", "out.csv", "-q", cwd=tmp_path)
    assert result.returncode == 1
    assert (
        "'日本' cannot be written in cp1252, the encoding of in.csv; name a .jsonl" in result.stderr.decode()
    )
    assert not (tmp_path / "out.csv").exists()
    assert run("predict", "m", "in.csv", "-o", "out.jsonl", "-q", cwd=tmp_path).returncode == 0


def test_a_workbook_keeps_its_sheets_and_styles(place, tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Tickets"
    sheet["B3"], sheet["C3"], sheet["D3"] = "nr", "body", "label"
    sheet["D3"].font = openpyxl.styles.Font(bold=True)
    sheet["B4"], sheet["C4"] = 1, "win cash"
    sheet["B5"] = 2
    sheet["B7"], sheet["C7"], sheet["D7"] = "=1+1", "lunch", "x"
    sheet.column_dimensions["C"].width = 50
    book.create_sheet("Other")["A1"] = "kept"
    book.save(tmp_path / "in.xlsx")
    result = run("predict", place / "m", "in.xlsx", "-o", "out.xlsx", cwd=tmp_path)
    assert result.returncode == 1  # a row has no text
    assert b"formulas have no values" in result.stderr
    book = openpyxl.load_workbook(tmp_path / "out.xlsx")
    sheet = book["Tickets"]
    assert book.sheetnames == ["Tickets", "Other"]
    assert book["Other"]["A1"].value == "kept"
    assert [cell.value for cell in sheet[3]] == [None, "nr", "body", "label", "predicted_label", "confidence"]
    assert sheet["E3"].font.bold
    assert sheet.column_dimensions["C"].width == 50
    assert [sheet[f"E{row}"].value for row in (4, 5, 6, 7)] == ["spam", None, None, "ham"]
    assert sheet["F4"].value == pytest.approx(
        abs(load(place / "m").decision_function(["win cash"])[0]), abs=1e-6
    )
    assert sheet["B7"].value == "=1+1"


@pytest.mark.parametrize("name", ["t.txt", "t.dat", "-"])
@pytest.mark.parametrize("titles", ["", "Export of May\n\n"])
def test_a_table_of_the_columns_of_the_model_is_not_one_text(name, titles, place, tmp_path):
    """A text that has no such line is one, and --format file makes one of it."""
    content = f"{titles}nr;body;kind\n1;win cash;\n2;lunch;\n".encode()
    (tmp_path / "t").with_suffix(name[1:] or ".none").write_bytes(content)
    result = run("predict", place / "m", name, cwd=tmp_path, stdin=content)
    assert [json.loads(line)["label"] for line in result.stdout.splitlines()] == ["spam", "ham"]
    assert (b"row 3 is the header" in result.stderr) == bool(titles)
    one = run("predict", place / "m", name, "--format", "file", cwd=tmp_path, stdin=content)
    assert one.stdout.count(b"\n") == 1
    letter = b"Hello,\nthe word,body,has a comma around it, body,mind\nand so on, without a table,x,y\n"
    assert run("predict", place / "m", "-", cwd=tmp_path, stdin=letter).stdout.count(b"\n") == 1
    prose = b"nobody; a word\nwin cash now\n"
    assert json.loads(run("predict", place / "m", "-", stdin=prose).stdout)["label"] == "spam"


def test_a_workbook_becomes_csv_of_german_excel(place, tmp_path):
    book = openpyxl.Workbook()
    for row in (["nr", "body"], [2.5, "win cash; now"], [3, "lunch"]):
        book.active.append(row)
    book.save(tmp_path / "in.xlsx")
    form = ["--table", "separator=semicolon", "--table", "decimal=comma"]
    assert run("predict", place / "m", "in.xlsx", "-o", "out.csv", *form, cwd=tmp_path).returncode == 0
    written = (tmp_path / "out.csv").read_text("utf-8-sig")
    header, first, second = csv.reader(io.StringIO(written), delimiter=";")
    assert header == ["nr", "body", "label", "confidence"]
    assert first[:3] == ["2,5", "win cash; now", "spam"]
    value = abs(load(place / "m").decision_function(["win cash; now"])[0])
    assert float(first[3].replace(",", ".")) == pytest.approx(value, abs=1e-6)
    assert second[:3] == ["3", "lunch", "ham"]
    assert run("predict", place / "m", "in.xlsx", "-o", "o.xlsx", *form, cwd=tmp_path).returncode == 0
    assert isinstance(openpyxl.load_workbook(tmp_path / "o.xlsx").active["D2"].value, float)


def test_other_tables_become_a_workbook(place, tmp_path):
    (tmp_path / "in.csv").write_text('nr,body\n=1+1,win cash\n"a\x01",lunch\n')
    assert run("predict", place / "m", "in.csv", "-o", "out.xlsx", cwd=tmp_path).returncode == 0
    sheet = openpyxl.load_workbook(tmp_path / "out.xlsx").active
    rows = list(sheet.values)
    assert rows[0] == ("nr", "body", "label", "confidence")
    assert [row[:3] for row in rows[1:]] == [("=1+1", "win cash", "spam"), ("a\ufffd", "lunch", "ham")]
    assert sheet["A2"].data_type == "s"  # not a formula
    (tmp_path / "in.csv").write_text(f"body\n{'win cash ' * 4000}\n")
    message = fails("predict", place / "m", "in.csv", "-o", "long.xlsx", "-q", cwd=tmp_path)
    assert "row 2 does not fit into Excel" in message
    assert not (tmp_path / "long.xlsx").exists()


def test_parquet_keeps_types(place, tmp_path):
    parquet.write_table(pyarrow.table({"n": [1, 2], "body": ["win cash", "lunch"]}), tmp_path / "in.parquet")
    assert run("predict", place / "m", "in.parquet", "-o", "out.parquet", cwd=tmp_path).returncode == 0
    result = parquet.read_table(tmp_path / "out.parquet")
    assert result.column_names == ["n", "body", "label", "confidence"]
    assert result["n"].to_pylist() == [1, 2]
    assert result["label"].to_pylist() == ["spam", "ham"]
    assert result["confidence"].type == pyarrow.float64()


def test_documents_and_json(place, tmp_path):
    """Of documents that are no table the columns begin with the id; JSON has all values."""
    (tmp_path / "a.txt").write_text("win cash")
    run("predict", place / "m", "a.txt", "-o", "out.csv", cwd=tmp_path)
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "id,label,confidence"
    (tmp_path / "in.jsonl").write_text('broken\n{"body": "win cash", "n": [1]}\n')
    rows, _ = table(place, tmp_path, (tmp_path / "in.jsonl").read_bytes(), code=1, suffix=".jsonl")
    assert rows[0] == ["body", "n", "label", "confidence"]
    assert [row[:3] for row in rows[1:]] == [["", "", ""], ["win cash", "[1]", "spam"]]
    run("predict", place / "m", "a.txt", "-o", "out.json", cwd=tmp_path)
    [row] = json.loads((tmp_path / "out.json").read_text())
    assert row.keys() == {"id", "label", "decision"}


@pytest.mark.parametrize(
    ("tables", "options", "lines"),
    [
        # of the same form: as they are, also if the first does not end with its last line; else as cells
        (["nr;body\n1;'win cash'", "nr;body\n2; lunch\n", 'nr,body\n3,"lunch; noon"\n'], [],
         ["nr;body", "1;'win cash'", "2; lunch", '3;"lunch; noon"']),
        (["lunch;a\nwin;b\n", '"lunch; noon",a\nwin,b\n'], ["--text", "1", "--table", "header=no"],
         ["lunch;a", "win;b", '"lunch; noon";a', "win;b"]),
    ],
    ids=["headers", "no headers"],
)  # fmt: skip
def test_several_tables(tables, options, lines, place, tmp_path):
    names = [f"{number}.csv" for number in range(len(tables))]
    for name, content in zip(names, tables, strict=True):
        (tmp_path / name).write_text(content)
    works("predict", place / "m", *names, *options, "-o", "out.csv", cwd=tmp_path)
    found = (tmp_path / "out.csv").read_text().splitlines()
    assert [line.rsplit(";", 2)[0] for line in found] == lines


@pytest.mark.skipif(os.name == "nt", reason="pipes cannot be waited for")
def test_rows_come_as_they_are_read(place):
    """Also while no row has had a text."""
    command = [sys.executable, "-m", "textsvm", "predict", place / "m", *READ[:2], "--output-format", "csv"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        for line, expected in (
            (b"nr;body\n1;\n", b"nr;body;label;confidence\n1;;;\n"),
            (b"2;lunch\n", b"2;lunch;ham;"),
        ):
            process.stdin.write(line)
            answer = b""
            while len(answer) < len(expected) and select.select([process.stdout], [], [], 60)[0]:
                answer += os.read(process.stdout.fileno(), 1000)
            assert answer.startswith(expected)
        process.stdin.close()
        assert process.wait(60) == 1


COMMANDS = {
    "doubts": "doubts t.jsonl --text body --label kind --kernel spectrum:2 -q -o",
    "cv": "cv t.jsonl --text body --label kind --kernel spectrum:2 --folds 2 -q --predictions",
}


@pytest.fixture(scope="module", params=COMMANDS)
def printed(request, place):
    """A command whose last option takes the path of a table, and the rows of the table."""
    command = COMMANDS[request.param].split()
    assert "one of .csv, .tsv" in fails(*command, "out.dat", code=2, cwd=place)
    return command, printed_rows(*command, "-", cwd=place)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "ndjson", "xlsx", "parquet"])
def test_all_tables_have_the_format_of_their_suffix(printed, suffix, place, tmp_path):
    command, expected = printed
    output = tmp_path / f"out.{suffix}"
    works(*command, output, cwd=place)
    if suffix == "xlsx":
        header, *rows = openpyxl.load_workbook(output).active.values
    elif suffix == "parquet":
        header, rows = parquet.read_table(output).column_names, parquet.read_table(output).to_pylist()
    elif suffix in ("csv", "tsv"):
        mark = {"csv": ",", "tsv": "\t"}[suffix]
        header, *rows = csv.reader(output.read_text().splitlines(), delimiter=mark)
    else:
        text = output.read_text()
        rows = json.loads(text) if suffix == "json" else [json.loads(line) for line in text.splitlines()]
        header = list(rows[0]) if rows else []
        assert rows == expected
    names = list(expected[0]) if expected else []
    assert list(header)[: len(names)] == names
    assert len(rows) == len(expected)
    if suffix in ("csv", "json") and rows:  # it may be replaced without --force
        assert run(*command, output, cwd=place).returncode == 0


TEXTS = [text for text, _ in ROWS] + ["win at noon", "cash lunch", "see a prize", "agenda", "cheap noon"]


def table_of(place, suffix):
    """A table of texts with a number, written in a format."""
    rows = [{"nr": 100 + i, "body": text, "amount": 1.5 * i} for i, text in enumerate(TEXTS)]
    path = place / f"least.{suffix}"
    if suffix == "xlsx":
        book = openpyxl.Workbook()
        for row in (list(rows[0]), *(list(row.values()) for row in rows)):
            book.active.append(row)
        book.save(path)
    elif suffix == "csv":
        lines = ["nr;body;amount", *(";".join(map(str, row.values())).replace(".", ",") for row in rows)]
        path.write_text("\ufeff" + "\r\n".join(lines) + "\r\n", encoding="utf-8", newline="")
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    return path


def cells_of(path):
    if path.suffix == ".xlsx":
        return [list(row) for row in openpyxl.load_workbook(path).active.iter_rows(values_only=True)]
    return list(csv.reader(path.read_bytes().decode("utf-8-sig").splitlines(), delimiter=";"))


@pytest.mark.parametrize("model", ["m", "c", "u", "l"])
@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_the_least_sure_rows_come_first_with_all_columns(suffix, model, place, tmp_path):
    table = table_of(place, suffix)
    works("predict", model, table, "-o", tmp_path / f"all.{suffix}", cwd=place)
    works("predict", model, table, "--unsure", "4", "-o", tmp_path / f"four.{suffix}", cwd=place)
    head, *rows = cells_of(tmp_path / f"all.{suffix}")
    place_of = head.index("confidence")
    rows.sort(
        key=lambda row: float(str(row[place_of]).replace(",", "."))
    )  # stable: equal ones in their order
    assert cells_of(tmp_path / f"four.{suffix}") == [head, *rows[:4]]
    assert (
        (tmp_path / "four.csv").read_bytes().startswith(b"\xef\xbb\xbf")
        if suffix == "csv"
        else rows[0][2] % 1.5 == 0
    )


def test_the_least_sure_documents_as_json_and_refusals(place, tmp_path):
    table = table_of(place, "jsonl")
    lines = sorted(printed_rows("predict", "m", table, cwd=place), key=lambda row: abs(row["decision"]))
    found = printed_rows("predict", "m", table, "--unsure", "2", cwd=place)
    assert [{name: row[name] for name in lines[0]} for row in found] == lines[:2]
    assert [row["confidence"] for row in found] == [round(abs(row["decision"]), 6) for row in lines[:2]]
    many = printed_rows("predict", "m", table, "--unsure", "5000", cwd=place)
    assert [row["id"] for row in many] == [row["id"] for row in lines]
    assert "predicts numbers" in fails("predict", "r", table, "--unsure", "3", cwd=place)
    assert "one or two probabilities" in fails("predict", "m", table, "--unsure", "2.5", cwd=place, code=2)
    # A row without a text has no confidence; it is reported.
    (place / "gap.csv").write_text("nr,body\n1,win cash\n2,\n3,lunch\n")
    done = run("predict", "m", "gap.csv", "--unsure", "5", "--output-format", "csv", cwd=place)
    assert done.returncode == 1
    assert sorted(line[:1] for line in done.stdout.decode().splitlines()) == ["1", "3", "n"]
    (place / "gap.csv").write_text("nr,body\n1,\n2,\n")
    done = run("predict", "m", "gap.csv", "--unsure", "5", "--output-format", "csv", cwd=place)
    assert done.stdout == b"id,label,confidence\n"


@pytest.mark.parametrize("model", ["m", "c", "u"])
def test_doubt_stands_beside_the_best_label(model, place, tmp_path):
    table = table_of(place, "csv")
    works("predict", model, table, "-o", tmp_path / "all.csv", "--proba", cwd=place)
    (head, *rows) = cells_of(tmp_path / "all.csv")
    confidence = sorted(float(row[head.index("confidence")].replace(",", ".")) for row in rows)
    bound = (confidence[3] + confidence[4]) / 2
    works("predict", model, table, "-o", tmp_path / "doubt.csv", "--unsure", f"{bound}", cwd=place)
    (names, *found) = cells_of(tmp_path / "doubt.csv")
    assert names == ["nr", "body", "amount", "label", "confidence", "unsure"]
    assert [row[:5] for row in found] == [row[:5] for row in rows]  # the best labels, and their probabilities
    doubtful = [float(row[4].replace(",", ".")) < bound for row in rows]
    assert [row[5] for row in found] == ["yes" if doubt else "" for doubt in doubtful]
    lines = run("predict", model, table, "--unsure", f"{bound}", cwd=place).stdout.splitlines()
    assert [json.loads(line)["label"] == "unsure" for line in lines] == doubtful


@pytest.mark.parametrize("share", [1, 20])
def test_swapped_rows_get_no_label(place, tmp_path, write, share):
    rows = [("lunch at noon", "ham"), ("cheap cash prize", "spam")] * 20
    rows[3 : 3 + share] = [row[::-1] for row in rows[3 : 3 + share]]
    path = write("t.csv", "body,kind\n" + "".join(f"{text},{label}\n" for text, label in rows))
    out = tmp_path / "out.csv"
    if share > 4:
        assert re.search(
            r"20 of the 40 rows of t.csv have a class as text .lines 5, 6",
            fails("predict", place / "m", path, "-o", out),
        )
        assert not out.exists()
    else:
        result = run("predict", place / "m", path, "-o", out)
        assert result.returncode == 1
        assert b"1 of the rows got no label: line 5: text and label are swapped" in result.stderr
        assert [row["label"] for row in csv.DictReader(out.open())].count("") == 1


def test_misread_table_is_refused_once(place, tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    path.write_text("nr,body,x\n" + "".join(f"{i},lunch, at noon,{i}\n" for i in range(40)))
    said = fails("predict", place / "m", path, "-o", out)
    assert "export it again with semicolons" in said
    assert "--skip-invalid" not in said
    assert not out.exists()
