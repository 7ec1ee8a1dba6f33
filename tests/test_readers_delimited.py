"""Variants of tables: dialect, header, labels and encoding; each is read right, or refused in a sentence."""

import csv
import io
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refuses

from textsvm.errors import InputError
from textsvm.readers.plausible import decimal_mark
from textsvm.readers.read import read_corpus

WORDS = [
    "Lieferung",
    "Rechnung",
    "Störung",
    "Lieferschein",
    "Grüße",
    "kommt",
    "nicht",
    "zu",
    "spät",
    "wieder",
    "über",
    "Bescheid",
    "Konto",
    "Straße",
]
CLASSES = ("Störung", "Versand", "Konto")
DIALECTS = st.fixed_dictionaries(
    {
        "delimiter": st.sampled_from(",;\t|"),
        "quoting": st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        "lineterminator": st.sampled_from(["\n", "\r\n"]),
    }
)
SPECIAL = ("", ", ", "; ", ' "so" ', "\n", " | ", "\t", "' ")


def table(rows, dialect):
    stream = io.StringIO()
    csv.writer(stream, **dialect).writerows(rows)
    return stream.getvalue()


def texts_of(seed, n, special):
    rng = random.Random(seed)
    mark = SPECIAL[special]
    return [
        f"{' '.join(rng.choices(WORDS, k=rng.randint(3, 7)))}{mark * rng.randint(0, 1)}{i}" for i in range(n)
    ]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dialect=DIALECTS,
    header=st.sampled_from(["usual", "named", "title", "lines", "types", "total", "none"]),
    special=st.integers(0, len(SPECIAL) - 1),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252", "cp850", "mac_roman"]),
    suffix=st.sampled_from([".csv", ".tsv", ".txt"]),
    width=st.integers(2, 4),
    seed=st.integers(0, 99),
    classes=st.sampled_from([CLASSES, ("1", "2", "3"), ("True", "False"), ("1.5", "2.5"), ("a b", "c", "d")]),
)
def test_any_dialect_is_read_right_or_refused(
    write, dialect, header, special, encoding, suffix, width, seed, classes
):
    n, classes = 24, CLASSES if header == "total" else classes
    texts, labels = texts_of(seed, n, special), [classes[i % len(classes)] for i in range(n)]
    rows = [[t, x, str(i), "ja"][:width] for i, (t, x) in enumerate(zip(texts, labels, strict=True))]
    usual = header in ("usual", "lines", "types")
    names = (["text", "label"] if usual else ["Beschreibung", "Kategorie"]) + ["nr", "notiz"]
    options = {} if usual else {"text": "Beschreibung", "label": "Kategorie"}
    above = {"title": [["Auswertung Mai"], []], "none": []}.get(header, [])
    below = {"lines": [["Freitext", "Team", "", ""]], "types": [["string", "class", "", ""]]}.get(header, [])
    end = [["Summe", str(n), "", ""][:width]] if header == "total" else []
    if header == "none":
        options = {"text": "1", "label": "2", "header": False}
    top = [] if header == "none" else [names[:width]]
    data = table([*above, *top, *(row[:width] for row in below), *rows, *end], dialect)
    path = write(f"t{suffix}", data.encode(encoding))
    if encoding in ("cp850", "mac_roman"):
        options["encoding"] = encoding
    if suffix == ".txt":
        options["format"] = "csv"
    if suffix == ".tsv" and dialect["delimiter"] != "\t":
        options["separator"] = dialect["delimiter"]
    try:
        corpus = read_corpus(path, **options)
    except InputError as refusal:
        if "--skip-invalid" in str(refusal):
            raise
        return
    assert corpus.labels == labels, corpus.warnings
    assert corpus.texts == texts
    assert bool(corpus.warnings) == bool(below or end)
    assert any("row 3 is the header" in note for _, note in corpus.problems) == (header == "title")


@pytest.mark.parametrize(
    ("name", "symbol"), [("tab", "\t"), ("\\t", "\t"), ("comma", ","), ("semicolon", ";"), ("pipe", "|")]
)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_a_separator_has_a_name_and_a_symbol(name, symbol, suffix, write):
    """`--table separator=tab`, which refusals advise, ended with a traceback."""
    path = write(f"t{suffix}", "".join(f"one {i}{symbol}{'xy'[i % 2]}\n" for i in range(20)))
    for separator in (name, symbol):
        form = {"text": "1", "label": "2", "header": False, "separator": separator, "format": "csv"}
        corpus = read_corpus(path, **form)
        assert corpus.texts[-1] == "one 19"
        assert corpus.reading["separator"] == symbol
    for separator in ("tabs", ";;"):
        with pytest.raises(InputError, match="a separator and a quote are one symbol"):
            read_corpus(path, text="1", separator=separator, format="csv")


def written(tmp_path, rows, head="Betreff;Text;Art;Betrag"):
    lines = [
        head,
        *(f"Anfrage {i};Bitte um Auskunft zu Rechnung {i};{'ab'[i % 2]};{i},50" for i in range(30)),
    ]
    for place, row in rows.items():
        lines.insert(place, row)
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return tmp_path / "t.csv"


BY_CLASS = {"text": "Betreff,Text", "label": "Art"}
NUMBERS = {"text": "Betreff,Text", "target": "Betrag"}


@pytest.mark.parametrize(
    ("rows", "options", "n", "note"),
    [
        (
            {31: "Summe;30 Vorgänge;;450,00"},
            {"text": "Betreff,Text", "target": "Betrag"},
            30,
            "row of totals",
        ),
        ({16: "Zwischensumme;15 Vorgänge;a;112,5", 32: "Summe;30 Vorgänge;b;450,0"}, BY_CLASS, 30, "totals"),
        ({16: "Betreff;Text;Art;Betrag"}, BY_CLASS, 30, "the header again"),
        ({31: ";;Summe;450,00"}, {**BY_CLASS, "numbers": "Betrag"}, 30, None),
        ({1: "Danke;gut;a;1,5"}, BY_CLASS, 31, None),
        ({31: "Mittel;gut;;15,00"}, NUMBERS, 31, None),  # the mean
    ],
)
def test_rows_that_are_no_documents(tmp_path, rows, options, n, note):
    corpus = read_corpus(written(tmp_path, rows), **options)
    assert len(corpus) == n
    assert note is None or any(note in str(said) for said in corpus.warnings)


def test_an_empty_number_is_refused_or_leaves_its_row_out(tmp_path):
    path = written(tmp_path, {5: "Anfrage;ohne Betrag;a;"})
    with pytest.raises(InputError, match=r"has no number.*its number 'Betrag' is empty.*--skip-invalid"):
        read_corpus(path, **BY_CLASS, numbers="Betrag", require_text=True)
    assert len(read_corpus(path, **BY_CLASS, numbers="Betrag", skip_invalid=True)) == 30


def test_a_wrong_name_below_title_rows_is_named(tmp_path):
    path = written(tmp_path, {0: "Export der Anfragen;;;"})
    with pytest.raises(InputError, match=r"no column 'Kind' for the label.*its 4 columns are: Betreff"):
        read_corpus(path, text="Text", label="Kind")


@pytest.mark.parametrize(
    ("columns", "mark"),
    [
        ({"a": ["1", "2"], "b": ["1,5", "2,25"]}, ","),
        ({"a": ["1,250"], "b": ["0,50"]}, ","),
        ({"a": ["1"]}, None),
    ],
)
def test_columns_of_numbers_have_one_decimal_mark(columns, mark):
    assert decimal_mark(columns, ";", "t.csv") == mark
    assert decimal_mark(dict(reversed(columns.items())), ";", "t.csv") == mark


def test_columns_with_two_decimal_marks_are_refused():
    refuses("decimal=comma", decimal_mark, {"a": ["1.5"], "b": ["1,5"]}, ";", "t.csv")


def test_files_with_other_columns_are_read_together(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("label,text\n" + "a,zu Rechnung\nb,zum Konto\n" * 10)
    second.write_text("label,message\n" + "a,zu Mahnung\nb,zum Zins\n" * 10)
    assert len(read_corpus([first, second])) == 40


@pytest.mark.parametrize("title", ["Mean Girls", "Count Dracula", "Total Recall", "Average"])
@pytest.mark.parametrize("last", [False, True])
def test_a_title_that_begins_like_a_total_stays(tmp_path, title, last):
    """Also where the text is short, in the middle and in the last row."""
    rows = [f"Film {word},{word} was fine,{label}" for word in "abcdefg" for label in ("pos", "neg")]
    rows.insert(len(rows) if last else 3, f"{title},loved it,pos")
    (tmp_path / "t.csv").write_text("title,body,label\n" + "\n".join(rows))
    assert len(read_corpus(tmp_path / "t.csv", text=["title", "body"])) == len(rows)
    alone = [f"{row.split(',')[0]},{i}" for i, row in enumerate(rows)]
    (tmp_path / "u.csv").write_text("text,label\n" + "\n".join(alone))
    if not last and title != "Average":
        assert len(read_corpus(tmp_path / "u.csv", target="label")) == len(rows)


def test_a_row_without_text_whose_class_is_average_is_refused(tmp_path):
    rows = [f"text {word},{label}" for word in "abcdefgh" for label in ("good", "average", "bad")]
    for label in ("good", "average"):
        (tmp_path / "t.csv").write_text("text,label\n" + "\n".join([*rows, f",{label}"]))
        refuses(r"1 of the 25 rows of t\.csv has no text", read_corpus, tmp_path / "t.csv", require_text=True)


def test_a_text_that_begins_with_the_name_of_a_total_stays(write):
    rows = "".join(f'{"ab"[i % 2]},"Frage {i}\nzu Rechnung"\n' for i in range(20))
    corpus = read_corpus(write("t.csv", f'label,text\n{rows}a,"Summe\n12 Euro"\n'))
    assert (len(corpus), corpus.warnings) == (21, [])
