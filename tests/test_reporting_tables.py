"""CSV and TSV for spreadsheets: a row stays a row, and no cell that textsvm writes is a formula."""

import ast
import csv
import io
import json
import re
from pathlib import Path

import pytest
from command import run, works
from hypothesis import given
from hypothesis import strategies as st

import textsvm
from textsvm.reporting.tables import DIALECTS, line_of, restored, write_table

#: The rule of docs/command_line.md.
RESTORE = re.compile(r"^'(?='*[\s\x00-\x1f\ufeff]*[=+@\-＝＋＠－].)", re.DOTALL)
HARMLESS = (
    "=", "-", "'-", "'", "plain", "it's", "-1", "+1", "-1.5e3", "1", "", "-12,5", "+1,234.5", "-7%", " -5 ",
    "+49",
)  # fmt: skip
FORMULAS = (
    "=cmd|'/c calc'!A1", "+1+2", "-2+3", "@SUM(A1)", "\t=1+1", "\r=1+1", " =1+1", "\n=1+1", "=\n1+1", "＝1+1",
    "-1+cmd|x", "\ufeff=1", "\x00=1", "\xa0@x", "+inf", "-٣",
)  # fmt: skip
BREAKS = (
    "a\rb",
    "\r",
    "a\r\nb",
    "a\nb",
    "a\r\r",
    '"\r',
    "a\x0bb",
    "a\x85b",
    "a\u2028b",
    'he said "no"',
    "a;b,c\td|e",
)
CELLS = st.one_of(
    st.sampled_from((*HARMLESS, *FORMULAS, *BREAKS, "'=1", "''@x", "'-1")),
    st.text(st.sampled_from("=+-@'\"\r\n\t ,;|1.aé\x85\u2028\ufeff"), max_size=8),
)


def is_formula(cell):
    """Whether a cell begins with a sign, after blanks, and is neither a number nor the sign alone."""
    bare = cell.strip("".join(map(chr, range(33))) + "\x7f\x85\xa0\u2028\u2029\ufeff")
    if bare[:1] not in {*"=+-@＝＋－＠"} or len(bare) < 2:
        return False
    return bare[0] not in "+-" or not re.fullmatch(r"[\d.,]*(e\d+)?%?", bare[1:], re.ASCII)


def written(format, rows):
    stream = io.BytesIO()
    write_table(stream, format, ["a", "b"], ({"a": a, "b": b} for a, b in rows))
    return stream.getvalue().decode()


@pytest.mark.parametrize("cell", [*HARMLESS, *FORMULAS, "'=1", "''@x", "'-1"])
def test_formulas_get_an_apostrophe_and_nothing_else_does(cell):
    [[read]] = csv.reader(io.StringIO(line_of([cell], *DIALECTS["csv"]), newline=""))
    assert not is_formula(read)
    assert read == ("'" * (cell not in HARMLESS) + cell)
    assert RESTORE.sub("", read) == restored(read) == cell
    assert not is_formula(line_of([cell], *DIALECTS["tsv"]))


def test_numbers_stay_numbers():
    assert (
        line_of([-1.5, -3, float("-inf"), -1e-300, True, None], *DIALECTS["csv"])
        == "-1.5,-3,-inf,-1e-300,True,"
    )


@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
def test_csv_reads_back_in_every_library(rows):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    text = written("csv", rows)
    names = {"dtype": str, "keep_default_na": False, "skip_blank_lines": False}
    frames = [
        list(csv.reader(io.StringIO(text, newline="")))[1:],
        pandas.read_csv(io.StringIO(text), engine="python", **names).to_numpy().tolist(),
        polars.read_csv(text.encode(), infer_schema=False).fill_null("").rows(),
    ]
    if "\0" not in text:  # the parser of pandas in C ends a cell there
        frames.append(pandas.read_csv(io.StringIO(text), **names).to_numpy().tolist())
    for frame in frames:
        assert not any(is_formula(cell) for row in frame for cell in row)
        assert [tuple(map(restored, row)) for row in frame] == rows


@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
def test_tsv_has_a_line_for_each_row(rows):
    lines = written("tsv", rows).split("\n")
    assert lines.pop() == ""
    assert [len(line.splitlines() or [""]) for line in lines] == [1] * (1 + len(rows))
    cells = [line.split("\t") for line in lines[1:]]
    assert not any(is_formula(cell) for row in cells for cell in row)
    blank = [[re.sub(r"\r\n|[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", " ", x) for x in row] for row in rows]
    assert [list(map(restored, row)) for row in cells] == blank


def test_nothing_else_writes_csv_or_tsv():
    """Every table goes through `line_of`."""
    others = [
        f"{path.name}:{node.lineno}"
        for path in Path(textsvm.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("csv.writer", "csv.DictWriter", "'\\t'.join")
    ]
    assert others == []


# Commands


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Texts, ids and labels that begin like formulas and have lone carriage returns; a model of them."""
    folder = tmp_path_factory.mktemp("hostile")
    labels = ["=1+1\rx", "@ham"]
    rows = [
        {
            "id": f"+x{i}\r{i}",
            "text": f"{cell}{'banana' if i % 2 else 'monday'}",
            "label": labels[(i + (i in (8, 33))) % 2],  # two wrong labels
            "note": "-a\rb",
        }
        for i, cell in enumerate((FORMULAS + BREAKS) * 2)
        if "\0" not in cell  # of binary data
    ]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with (folder / "t.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, rows[0], quoting=csv.QUOTE_ALL)
        table.writeheader()
        table.writerows(rows)
    run("train", "t.jsonl", "-o", "m.textsvm", "--kernel", "spectrum:3", cwd=folder)
    return folder, rows


COMMANDS = {
    "predict": ["predict", "m.textsvm", "t.jsonl", "-o"],
    "predict with classes": ["predict", "m.textsvm", "t.jsonl", "--all-classes", "--top", "2", "-o"],
    "doubts": ["doubts", "t.jsonl", "-o"],
    "cv": ["cv", "t.jsonl", "--kernel", "spectrum:3", "--folds", "2", "--predictions"],
    "explain": ["explain", "m.textsvm", "--top", "9", "-o"],
    "label": ["label", "t.jsonl", "--export"],
}


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        (name, suffix)
        for name in COMMANDS
        for suffix in ("csv", "tsv")
        if (name, suffix) not in {("explain", "csv"), ("label", "tsv")}
    ],
)
def test_no_command_writes_a_formula(name, suffix, hostile):
    folder, rows = hostile
    works(*COMMANDS[name], f"out.{suffix}", "--force", cwd=folder)
    with (folder / f"out.{suffix}").open(encoding="utf-8", newline="") as stream:
        settings = {} if suffix == "csv" else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
        header, *table = csv.reader(stream, **settings)
    assert table
    assert {len(row) for row in table} == {len(header)}
    assert not [cell for row in (header, *table) for cell in row if is_formula(cell)]
    if name not in ("explain", "doubts"):
        assert len(table) == len(rows)
    if suffix == "csv":
        assert {restored(row[header.index("id")]) for row in table} <= {row["id"] for row in rows}


def test_predictions_beside_a_table_keep_its_bytes_and_add_no_formula(hostile):
    folder, rows = hostile
    run("predict", "m.textsvm", "t.csv", "-o", "kept.csv", "--force", cwd=folder)
    with (folder / "kept.csv").open(encoding="utf-8", newline="") as stream:
        header, *table = csv.reader(stream)
    assert [row[:4] for row in table] == [list(row.values()) for row in rows]
    assert not [cell for row in table for cell in row[4:] if is_formula(cell)]
    assert header[:4] == list(rows[0])
    assert {restored(row[4]) for row in table} == {row["label"] for row in rows}


def test_an_export_of_labels_is_imported_again(hostile):
    """Texts are found by their content: an apostrophe does not hide them, nor does it change a label."""
    from textsvm.apps.label.files import FORMATS, LabelledText, read_labelled, with_restored

    folder, rows = hostile
    texts = [LabelledText(str(i), row["text"], row["label"], "train") for i, row in enumerate(rows)]
    (folder / "labels.csv").write_bytes(FORMATS[".csv"](texts).encode())
    back = with_restored(read_labelled(folder / "labels.csv"))
    assert {(text.text, text.label) for text in texts} <= {(text.text, text.label) for text in back}
