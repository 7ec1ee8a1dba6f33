"""Tables that were read wrongly once (`cases` beside TEXTSVM_DATA): each is read right, refused or said."""

import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from refusals import refuses

from textsvm.errors import InputError
from textsvm.readers.read import read_corpus
from textsvm.readers.stream import incoming_documents

CASES = Path(os.environ.get("TEXTSVM_DATA", "")).parent / "cases"

pytestmark = pytest.mark.skipif(not (CASES / "README.md").is_file(), reason="no folder of cases")

GERMAN = {"text": "Beschreibung", "label": "Kategorie"}
SEVERAL = {"label_separator": ""}  # as --multilabel
#: File, options, number of documents, labels (None: any), and a pattern of the notes and warnings.
READ = [
    ("title_rows.xlsx", GERMAN, 60, {"Konto", "Rechnung", "Versand"}, "row 3.*header"),
    ("merged_labels.xlsx", GERMAN, 60, {"Konto", "Rechnung", "Versand"}, "merged cells"),
    ("hidden_sheet.xlsx", GERMAN, 60, {"Konto", "Rechnung", "Versand"}, "'Tickets' is read.*hidden"),
    ("tags.xlsx", {"text": "Text", "label": "Tags", **SEVERAL}, 90, {"Konto", "Rechnung", "Versand"}, "','"),
    ("tags.xlsx", {"text": "Text", "label": "Tags"}, 90, None, "--multilabel"),
    ("error_cells.xlsx", GERMAN, None, {"Konto", "Rechnung", "Versand"}, "#N/A"),
    ("total_row.csv", GERMAN, 60, {"Konto", "Rechnung", "Versand"}, "total.*Summe"),
    ("codepage.csv", GERMAN, 60, None, "St”rung.*--encoding cp850.*Störung"),
    ("codepage.csv", {**GERMAN, "encoding": "cp850"}, 60, {"Störung", "Konto", "Versand"}, None),
    ("tsv_quoted.tsv", {}, 60, {"motor", "garden"}, "quotes"),
    ("orange.tab", {}, 40, {"motor", "garden"}, "further line of the header"),
    ("label_studio_min.json", SEVERAL, 60, {"motor", "garden", "law"}, None),
    (
        "spacy_partial_cats.jsonl",
        SEVERAL,
        120,
        {"garden", "motor", "law"},
        "unknown, not absent, in 120 of 120",
    ),
    ("prodigy_binary.jsonl", {}, 40, {"GARDEN", "not GARDEN"}, "not GARDEN"),
    ("fasttext_comma.txt", SEVERAL, 60, {"motor", "garden", "law"}, "comma"),
    ("fasttext_glued.txt", {}, 60, {"motor", "garden", "law"}, "comma"),
    ("nominal.arff", {}, 40, {"motor", "garden"}, "language_class"),
    ("numbers.arff", {"numbers": "a,b"}, None, {"x", "y"}, None),
    ("jigsaw.csv", {"label": "garden,motor,law", **SEVERAL}, None, {"garden", "motor", "law"}, None),
    ("pylist.csv", SEVERAL, None, {"garden", "motor", "law", "extra"}, "lists of labels"),
    ("nan.csv", {}, None, {"nan", "cmn", "yue"}, None),
    ("teach.jsonl", {}, None, {"garden", "motor", "law"}, "left out"),
    ("esc2.csv", {}, None, {"a", "b"}, None),
    ("sep.csv", {"text": "Text", "label": "Kategorie"}, None, {"garden", "motor"}, None),
    ("rtab.tsv", {}, None, {"a", "b"}, "names"),
    ("cols.json", {}, None, None, None),
    ("small.ris", {"label": "N1"}, None, {"ASReview_relevant", "ASReview_irrelevant"}, None),
    ("end.txt", {}, None, {"a", "b"}, None),
]
#: File, options, and the refusal.
REFUSED = [
    ("title_rows.xlsx", {}, r"header.*row 3"),
    ("text_tab_label.tsv", {}, r"swapped.*--text 1 --label 2"),
    ("german_numbers.csv", {"text": "Beschreibung", "target": "Betrag"}, r"--table decimal=comma"),
    ("numbers.arff", {}, r"--numbers a,b --kernel gaussian"),
]


def names(corpus):
    labels = corpus.labels or []
    return {name for label in labels for name in ([label] if isinstance(label, str) else label)}


def said(corpus):
    return "\n".join(
        [
            corpus.reading_line,
            *corpus.warnings,
            *(f"{place}: {problem}" for place, problem in corpus.problems),
        ]
    )


@pytest.mark.parametrize(("file", "options", "n", "labels", "pattern"), READ)
def test_case_is_read_right(file, options, n, labels, pattern):
    corpus = read_corpus(CASES / file, **options)
    assert n is None or len(corpus) == n, said(corpus)
    assert labels is None or names(corpus) == labels
    assert pattern is None or re.search(pattern, said(corpus)), said(corpus)


@pytest.mark.parametrize(("file", "options", "pattern"), REFUSED)
def test_case_is_refused(file, options, pattern):
    with pytest.raises(InputError) as caught:
        read_corpus(CASES / file, **options)
    assert re.search(pattern, str(caught.value)), caught.value
    assert "--skip-invalid" not in str(caught.value)


def test_answers_of_no_are_learnt_by_positive():
    corpus = read_corpus(CASES / "spacy_partial_cats.jsonl", negatives=True).reduce_labels("garden")
    assert Counter(corpus.labels).keys() == {"garden", "rest"}
    asked = sum('"garden"' in line for line in (CASES / "spacy_partial_cats.jsonl").open())
    assert len(corpus) == asked


def test_numbers_with_a_comma():
    path = CASES / "german_numbers.csv"
    corpus = read_corpus(path, text="Beschreibung", target="Betrag", decimal=",")
    assert min(corpus.targets) >= 100
    assert max(corpus.targets) > 1000


def test_a_long_run_of_letters_is_read_once(tmp_path):
    """It took 10 s, quadratic in the length of a word of Windows-1252."""
    (tmp_path / "t.csv").write_bytes(b"label,text\na,caf\xe9 " + b"False" * 40_000 + b"\nb,other\n")
    start = time.process_time()
    assert len(read_corpus(tmp_path / "t.csv")) == 2
    assert time.process_time() - start < 2


@pytest.mark.parametrize("empty", [False, True])
def test_a_single_column_of_0_and_1_is_no_list_of_labels(empty, write):
    rows = [f"a text of some words {i},{'' if empty and i % 4 == 0 else i % 2}" for i in range(40)]
    path = write("t.csv", "\n".join(["text,complaint", *rows]))
    with pytest.raises(InputError, match="labels 0 and 1 of one column are classes; leave out --multilabel"):
        read_corpus(path, text="text", label="complaint", **SEVERAL)
    assert set(read_corpus(path, text="text", label="complaint", skip_invalid=empty).labels) == {"0", "1"}


@pytest.mark.parametrize("error", ["#NV", "#N/A", "#BEZUG!", " #REF! "])
@pytest.mark.parametrize("number", [0, 1])
def test_error_cells_are_no_part_of_joined_texts(error, number, write):
    """Words with such a sign within a cell stay."""
    cells = [[f"issue #{i} of ours", f"a text of some words {i}"] for i in range(40)]
    cells[7][number] = error
    lines = [",".join([*row, "ab"[i % 2]]) for i, row in enumerate(cells)]
    path = write("t.csv", "\n".join(["title,body,label", *lines]))
    corpus = read_corpus(path, text="title,body", label="label")
    assert len(corpus) == 40
    assert corpus.texts[7].split("\n") == ["" if k == number else cell for k, cell in enumerate(cells[7])]
    assert corpus.texts[8] == "\n".join(cells[8])
    assert any("error cells" in warning and "1 joined text" in warning for warning in corpus.warnings)


@pytest.mark.parametrize("amount", ["1.984,26", "12.345", "541,79", "1,984.26", "1'200.5"])
def test_amounts_as_texts_are_said(amount, tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{amount[:-1]}{i % 10};{'ab'[i % 2]}" for i in range(40)]
    path.write_text("\n".join(["amount;label", *rows]), "utf-8")
    corpus = read_corpus(path, text="amount", label="label")
    assert any("is read as texts and holds numbers" in warning for warning in corpus.warnings)


#: Rows of a table in the columns of its header, and the same in another order below.
HEADER = ["Nr", "Kategorie", "Betreff", "Text"]
TICKETS = [
    [
        str(i),
        ("Drucker", "Netz")[i % 2],
        ("Toner ging aus", "WLAN bricht ab")[i % 2],
        f"Bitte um Hilfe im Raum {i}",
    ]
    for i in range(40)
]


def joined(rows, separator=";"):
    return "".join(separator.join(row) + "\n" for row in rows)


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (1, 0, 2, 3), (3, 2, 1, 0), (1, 2, 3, 0)])
@pytest.mark.parametrize("name", ["Text", "Beschreibung"])
def test_second_header_with_other_columns_is_refused(write, order, name):
    rows = [HEADER, *TICKETS]
    other = [[row[k] for k in order] for row in [[*HEADER[:3], name], *TICKETS]]
    path = write("t.csv", joined([*rows, *other]))
    refused = r"t\.csv, line 42: a second header.*two files"
    refuses(refused, read_corpus, path, text="Betreff,Text", label="Kategorie")
    refuses(refused, list, incoming_documents([path], text="Betreff,Text", failed=print))


def test_rows_in_other_columns_are_refused(write):
    """The labels of the rows are texts of other rows, and their texts classes of others."""
    other = [[row[k] for k in (0, 2, 3, 1)] for row in TICKETS[:20]]
    path = write("t.csv", joined([HEADER, *TICKETS, *other]))
    refuses("swapped in 20 of 60 rows", read_corpus, path, text="Betreff,Text", label="Kategorie")
    nested = [["1", "Fußball", "Drucker", f"Spiel {i}"] for i in range(20)]  # a class among texts is no fault
    path = write("t.csv", joined([HEADER, *TICKETS, *nested]))
    assert len(read_corpus(path, text="Betreff,Text", label="Kategorie")) == 60


@pytest.mark.parametrize("last", [1, 3])
def test_decimal_commas_without_quotes_are_refused(write, last):
    """A row whose last cell is missing has as many cells as the header."""
    amounts = [f"{1 + i % 9}.{i:03},{i:02}" if i % 3 else f"{i + 100},{i:02}" for i in range(40)]
    rows = [[row[0], amount, *row[1:]] for row, amount in zip(TICKETS, amounts, strict=True)]
    path = write("t.csv", joined([["Nr", "Betrag", *HEADER[1:], "Tags"], *rows], ","))
    with pytest.raises(InputError, match=r"'Betrag' and 'Kategorie' hold parts of numbers.*semicolons"):
        read_corpus(path, text="Betreff,Text", label="Kategorie")
    with pytest.raises(InputError, match="'Betrag' and 'Kategorie' hold parts of numbers"):
        list(incoming_documents([path], text="Text", failed=print))
    scores = [[str(i), f"0.{i:03}", f"{i:02}", *row[1:]] for i, row in enumerate(TICKETS)]
    path = write("s.csv", joined([["Nr", "Score", "Code", *HEADER[1:]], *scores], ","))
    assert len(read_corpus(path, text="Betreff,Text", label="Kategorie")) == 40


@pytest.mark.parametrize(
    ("header", "label", "row"),
    [
        ("text,age,topic", "topic", "{text},{n},{}"),
        ("text,n_words,label", "label", "{text},{n},{}"),
        ("text,year,month", "month", "{text},{n},{:02}"),
    ],
)
def test_numbers_below_a_header_are_no_cents(header, label, row, write):
    """Labels 0 to 19, or 01 to 12, beside ages, counts or years."""
    lines = [row.format(i % 19 + 1, n=i % 30, text=f"Hilfe im Raum {i}") for i in range(300)]
    corpus = read_corpus(write("t.csv", "\n".join([header, *lines])), text="text", label=label)
    assert not [x for x in corpus.warnings if "a number such as" in x]


@pytest.mark.parametrize(
    "text", ["Total 5 stars", "Average 3 stars", "Mean 10 minutes", "total $5 off", "Average 3 stars:"]
)
def test_a_number_and_a_noun_after_total_are_a_text(text, write):
    rows = [["text", "price"], *([f"a text {i}", str(1 + i % 7)] for i in range(20)), [text, "30"]]
    path = write("t.csv", joined(rows, ","))
    assert read_corpus(path, text="text", target="price").texts[-1] == text
    [batch] = incoming_documents([path], text="text", failed=print, keep_invalid=True)
    assert (batch.texts[-1], batch.invalid) == (text, [])


def test_swapped_rows_have_a_remedy_that_works_in_predict(write):
    """--skip-invalid would leave out what is misread."""
    classes = {"classes": ["Drucker", "Netz"], "keep_invalid": True, "recorded": {"label": "Kategorie"}}
    for n, remedy in [(10, "; swap both cells in these rows$"), (40, "; --text Kategorie$")]:
        rows = [[row[3], row[1]] if i >= n else [row[1], row[3]] for i, row in enumerate(TICKETS)]
        path = write("t.csv", joined([["Text", "Kategorie"], *rows]))
        refuses(remedy, list, incoming_documents([path], text="Text", failed=print, **classes))
    kategorie = list(incoming_documents([path], text="Kategorie", failed=print, **classes))
    assert [text for batch in kategorie for text in batch.texts] == [row[3] for row in TICKETS]


@pytest.mark.parametrize("names", [("Art", "Inhoud"), ("Inhalt", "Sorte")])
def test_a_header_below_titles_is_named_if_no_column_has_the_name(names, write):
    path = write("t.csv", "Tickets 2024\n\n" + joined([HEADER, *TICKETS]))
    text, label = names
    with pytest.raises(InputError, match=r"row 3 may be it \(Nr, Kategorie, Betreff, Text\).*header=3"):
        read_corpus(path, text=text, label=label)
    assert len(read_corpus(path, text="Text", label="Kategorie")) == 40


@pytest.mark.parametrize("titles", ["", "Tickets 2024;;;\n;;;\n"])
def test_names_in_another_case_make_a_table_of_a_stream(titles, write):
    """`cat t.csv | predict`, with a model whose column is TEXT, took the table for one text."""
    path = write("t.dat", titles + joined([HEADER, *TICKETS]))
    for recorded in ({"text": "TEXT"}, {"text": "text"}):
        refuses("did you mean 'Text'", list, incoming_documents([path], failed=print, recorded=recorded))


def test_numbers_in_a_column_of_texts_are_named_to_predict_too(write):
    rows = [[f"{i:02}", row[3]] for i, row in enumerate(TICKETS)]
    path, heard = write("t.csv", joined([["Betreff", "Text"], *rows])), []
    list(incoming_documents([path], text="Betreff,Text", failed=print, say=heard.append))
    assert any("'Betreff' is read as texts and holds numbers" in line for line in heard)


@pytest.mark.parametrize("last", ["Drucker Ergebnis;;;", ";Gesamtsumme:;;", "Quelle: SAP, Stand 2024;;;"])
def test_rows_below_a_table_are_no_documents(write, last):
    path, heard = write("t.csv", joined([HEADER, *TICKETS]) + last + "\n"), []
    corpus = read_corpus(path, text="Betreff,Text", label="Kategorie", require_text=True)
    assert len(corpus) == 40
    assert corpus.reading_line.startswith(f"read {path}: 40 of 41 rows; ")
    assert re.search("(a row of totals|a note below the table) is left out.*line 42", said(corpus))
    batches = list(
        incoming_documents([path], text="Betreff,Text", failed=print, keep_invalid=True, say=heard.append)
    )
    problems = [row.problem for batch in batches for _, row in batch.invalid]
    assert re.fullmatch("line 42: (a row of totals|a note below the table)", *problems)
    assert f"read {path}: 40 of 41 rows; " in heard[-1]


@pytest.mark.parametrize(
    "header",
    [
        ["Text\tArt", "string\tdiscrete", "meta\tclass"],
        ["Text\tArt", "s\td", "m\tclass"],
        ["Text\tArt", "string\tdiscrete", "\tclass"],
        ["mS#Text\tcD#Art"],
        ["S#Text\tc#Art"],
    ],
)
def test_lines_of_the_header_of_orange_are_no_documents(header, write):
    rows = [f"Bitte um Hilfe im Raum {i}\t{['Drucker', 'Netz'][i % 2]}" for i in range(40)]
    path = write("t.tab", "\n".join([*header, *rows]) + "\n")
    for options in ({"label": "Art"}, {"text": "Text", "label": "Art"}):
        corpus = read_corpus(path, **options)
        assert (len(corpus), names(corpus)) == (40, {"Drucker", "Netz"})
        assert corpus.texts[0] == "Bitte um Hilfe im Raum 0"
    batches = list(incoming_documents([path], failed=print, keep_invalid=True))
    assert sum(map(len, batches)) == 40
    assert sum(len(batch.invalid) for batch in batches) == len(header) - 1


@pytest.mark.parametrize(
    ("above", "pattern"),
    [
        (["Export;;;", "Export;;;", "Stand: Mai;;;"], r"row 4 may be it \(Nr, Kategorie"),
        (['"Export","","",""'] * 2, "row 3 may be it"),
    ],
)
def test_titles_are_no_data(above, pattern, write):
    """A title that occurs again was the class of a table without a header."""
    rows = joined([HEADER, *TICKETS], "," if '"' in above[0] else ";")
    refuses(pattern, read_corpus, write("t.csv", "\n".join(above) + "\n" + rows))


def test_the_only_text_of_a_class_may_be_the_first(write):
    rows = [["a contract", "legal"], *([row[3], row[1]] for row in TICKETS * 8)]
    corpus = read_corpus(write("t.csv", joined([["text", "label"], *rows])))
    assert (len(corpus), corpus.labels[0], corpus.warnings) == (len(rows), "legal", [])


@pytest.mark.parametrize("row", ["d,m", "d,class", "string,s"])
def test_a_row_of_words_of_orange_is_a_document(row, write):
    """Below `text,label`, without the other line, or without rows."""
    for rows in ([row], [row, "a text,b"], [row, row.replace("d", "a text"), "another,b"]):
        path = write("t.csv", "\n".join(["text,label", *rows]) + "\n")
        [batch] = incoming_documents([path], text="text", failed=print, keep_invalid=True)
        assert batch.texts[0] == row.split(",")[0]


def test_a_first_row_without_some_cells_is_a_row(write):
    rows = [
        "pos,the printer works again,,,",
        *(f"{('pos', 'neg')[i % 2]},text {i},x,y,z" for i in range(299)),
    ]
    path = write("t.csv", "\n".join(rows) + "\n")
    for options in ({}, {"text": "2", "label": "1"}):
        assert len(read_corpus(path, **options)) == 300


@pytest.mark.parametrize("text", [["title", "text"], "title,text"])
def test_errors_of_a_spreadsheet_are_cleared_in_every_column_of_texts(text, write):
    rows = [[f"title {i}", f"text {i}", "ab"[i % 2]] for i in range(20)]
    rows[3][0], rows[5][1], rows[7][:2], rows[9][2] = "#N/A", "#N/A", ["#N/A", " #NV "], "#N/A"
    corpus = read_corpus(
        write("t.csv", joined([["title", "text", "label"], *rows])), text=text, label="label"
    )
    assert len(corpus) == 18
    assert "#N" not in "".join(corpus.texts)
    assert (corpus.texts[3], corpus.texts[5]) == ("\ntext 3", "title 5\n")
    if corpus.columns is not None:
        assert [*map("\n".join, zip(*corpus.columns.values(), strict=True))] == corpus.texts


@pytest.mark.parametrize(
    "words", ["Störung im Büro größer", "très déçu où été", "señor año atención", "Ça coûte"]
)
def test_utf_8_that_was_read_as_another_charset_and_saved_is_said(words, write):
    rows = [["text", "label"], *([f"{words} {i}", row[1]] for i, row in enumerate(TICKETS))]
    good = write("good.csv", joined(rows))
    assert not read_corpus(good).warnings
    twice = read_corpus(write("twice.csv", Path(good).read_text("utf-8").encode().decode("cp1252")))
    word = next(word for word in words.split() if not word.isascii())
    assert re.search(f"has .* for {word}: UTF-8 that was read as Windows-1252", "".join(twice.warnings))


def test_a_label_in_the_first_row_of_each_block_is_refused_beside_a_filled_block(write):
    """As cells that were merged in a part of the table."""
    rows = [
        [row[0], "Drucker" if i > 29 else "Netz" * (i % 10 == 0), *row[2:]] for i, row in enumerate(TICKETS)
    ]
    rows[10][1] = "Konto"
    path = write("t.csv", joined([HEADER, *rows]))
    with pytest.raises(InputError, match=r"27 of 40 rows .* first row of each block"):
        read_corpus(path, text="Betreff,Text", label="Kategorie")


@pytest.mark.parametrize(("label", "other"), [("01.{:02}.2024", "Netz"), ("{}.721,40", "9.000,1")])
def test_dates_and_amounts_are_no_swapped_texts(write, label, other):
    """A text of several labels that are longer looks like a class."""
    rows = [[row[0], label.format(i % 9 + 1), other, row[3]] for i, row in enumerate(TICKETS)]
    path = write("t.csv", joined([HEADER, *rows]))
    assert len(read_corpus(path, text="Betreff", label="Kategorie")) == 40


@pytest.mark.parametrize(
    ("encoding", "named", "right"), [("cp1252", "cp850", "cp1252"), ("koi8-r", "cp1251", "koi8_r")]
)
def test_a_named_charset_that_makes_no_words_is_said(write, encoding, named, right):
    words = (
        ["Störung", "Größe", "Zubehör", "läuft"]
        if encoding == "cp1252"
        else ["Мама", "мыла", "раму", "Текст"]
    )
    rows = [[row[0], row[1], words[i % 4], f"{words[-i % 4]} {i}"] for i, row in enumerate(TICKETS)]
    path, heard = write("t.csv", joined([HEADER, *rows]).encode(encoding)), []
    options = {"text": "Betreff,Text", "encoding": named}
    sentence = rf"t\.csv is not {named}: .* is no word; --encoding {right} reads"
    corpus = read_corpus(path, label="Kategorie", **options)
    assert sum(re.search(sentence, warning) is not None for warning in corpus.warnings) == 1
    list(incoming_documents([path], **options, failed=print, say=heard.append))
    assert sum(re.search(sentence, line) is not None for line in heard) == 1
    assert not read_corpus(path, label="Kategorie", **{**options, "encoding": encoding}).warnings


@pytest.mark.parametrize(
    ("lines", "n"),
    [
        (["Start;Topic;Subject;What is the problem?", '"{""ImportId"":""a""}";b;c;d'], 2),
        (["Response ID;Welches Thema?;Betreff;Welches Problem?;Date"], 1),
        (["integer;string;string;string;date"], 1),
    ],
)
def test_questions_of_a_survey_are_lines_of_the_header(write, lines, n):
    """In train and in predict, whose rows without a label count as no failure."""
    rows = [[*row, f"2024-03-{i % 28 + 1:02}"] for i, row in enumerate(TICKETS)]
    content = (
        joined([[*HEADER, "Date"]])
        + "".join((line if line.count(";") == 4 else f"{line};") + "\n" for line in lines)
        + joined(rows)
    )
    path, heard = write("t.csv", content), []
    corpus = read_corpus(path, text="Betreff,Text", label="Kategorie")
    assert len(corpus) == 40
    assert set(corpus.labels) == {"Drucker", "Netz"}
    assert "a further line of the header is left out: " in said(corpus)
    options = {"text": "Betreff,Text", "keep_invalid": True}
    batches = list(incoming_documents([path], **options, failed=print, say=heard.append))
    assert [row.problem[-28:] for batch in batches for _, row in batch.invalid] == [
        "a further line of the header"
    ] * n
    assert f"read {path}: 40 of {40 + n} rows; " in heard[-1]


def test_a_first_row_with_a_missing_number_is_a_document(write):
    for cell in ["n/a", "", "12"]:
        rows = [[row[0], *row[1:], str(i)] for i, row in enumerate(TICKETS)]
        rows[0][-1] = cell
        path = write("t.csv", joined([[*HEADER, "Score"], *rows]))
        assert len(read_corpus(path, text="Betreff,Text", label="Kategorie")) == 40


@pytest.mark.parametrize("first", [("2024-01-01T10:00:00", "2024-01-02T11:00:00"), ("1.5e+00", "2.5e-01")])
def test_a_first_row_of_values_with_letters_is_a_document(write, first):
    """Dates of ISO 8601 and exponents; and the same words in all columns of numbers."""
    for cells in [first, ("prefer not", "prefer not")]:
        rows = [[*row, *(first if i else cells)] for i, row in enumerate(TICKETS)]
        path = write("t.csv", joined([[*HEADER, "created", "updated"], *rows]))
        assert len(read_corpus(path, text="Betreff,Text", label="Kategorie")) == 40


def test_empty_rows_at_the_end_are_no_failures(write):
    path = write("t.csv", joined([HEADER, *TICKETS]) + ";;;\n" * 3)
    batches = list(incoming_documents([path], text="Betreff,Text", failed=print, keep_invalid=True))
    assert [row.problem for batch in batches for _, row in batch.invalid] == [
        f"line {k}: its cells are empty" for k in (42, 43, 44)
    ]
