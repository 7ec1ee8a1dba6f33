"""Variants of tables: dialect, header, labels and encoding; each is read right, or refused in a sentence."""

import csv
import io
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from textsvm.errors import InputError
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
)
def test_any_dialect_is_read_right_or_refused(
    tmp_path, dialect, header, special, encoding, suffix, width, seed
):
    n = 24
    texts, labels = texts_of(seed, n, special), [CLASSES[i % 3] for i in range(n)]
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
    path = tmp_path / f"t{suffix}"
    path.write_bytes(data.encode(encoding))
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
