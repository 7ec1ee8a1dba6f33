"""Tables, lines, folders; which format an input has; documents to classify."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import tarfile
import threading
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from textsvm.errors import InputError
from textsvm.readers import sample
from textsvm.readers.read import read_corpus, read_documents


@pytest.fixture
def write(tmp_path):
    """Write a file of the test's folder, and return its path."""

    def write(name, data):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


# ---- tables


def test_csv_with_header(write):
    data = 'id,text,label\r\n7,"He said ""no"",\r\nand left",bad\r\n8,yes,good\r\n'
    corpus = read_corpus(write("x.csv", data))
    assert (corpus.format, corpus.ids, corpus.labels) == ("csv", ["7", "8"], ["bad", "good"])
    assert corpus.texts[0] == 'He said "no",\r\nand left'


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


def test_columns_by_name_and_number(write):
    path = write("x.csv", "a,b,c d\n1,2,3\n")
    corpus = read_corpus(path, text="c d,a", label="2", id="b")
    assert (corpus.texts, corpus.labels, corpus.ids) == (["3\n1"], ["2"], ["2"])
    with pytest.raises(
        InputError, match="no column 'd' for the text; did you mean 'c d'; its 3 columns are: "
    ):
        read_corpus(path, text="d")
    with pytest.raises(InputError, match="no column '4' for the label"):
        read_corpus(path, text="a", label="4")
    with pytest.raises(InputError, match=r"which column is the text\?"):
        read_corpus(write("y.csv", "label,b,c\n1,2,3\n"))
    assert read_corpus(write("z.csv", "text,text,\nx,y,z\n"), text="1,2,3").texts == ["x\ny\nz"]


def test_tsv_does_not_honour_quotes(write):
    data = 'essay_id\tessay\tscore\r\n1\t"opened and never closed\t3\r\n2\tplain\t4\r\n'
    corpus = read_corpus(write("x.tsv", data), label="score")
    assert corpus.texts == ['"opened and never closed', "plain"]
    assert corpus.ids == ["1", "2"]
    with pytest.raises(InputError, match="never closed"):
        read_corpus(write("x.csv", data), label="score")


def test_an_unknown_header_is_no_document(write):
    for labelled, rows in (
        (True, "mood,remark\nham,one\nspam,two\nham,three\n"),
        (False, "remark\none\ntwo\n"),
    ):
        read = read_corpus if labelled else read_documents
        path = write("x.csv", rows)
        with pytest.raises(InputError, match=r"is its first line a header.*remark.*--text"):
            read(path)
        assert read(path, text="remark").texts[0] == "one"
        assert read(path, text="2" if labelled else "1").texts[0] == "remark"


def test_rows_of_the_wrong_length_are_an_error(write):
    path = write("x.csv", "text,label\na,1\nb,2,3\nc\n")
    with pytest.raises(
        InputError, match=r"2 of the 3 rows of x.csv have .* fields \(lines 3, 4\).*skip_invalid"
    ):
        read_corpus(path)
    corpus = read_corpus(path, skip_invalid=True)
    assert corpus.labels == ["1"]
    assert corpus.problems == [
        ("x.csv, line 3", "left out: it has 3 fields and not 2"),
        ("x.csv, line 4", "left out: it has 1 fields and not 2"),
    ]


def test_messages_name_the_line_on_which_a_row_begins(write):
    path = write("x.csv", 'text,label\n"a\r\nb\nc",1\n\n"d\n e",2,3\nf,g,h\n')
    with pytest.raises(InputError, match=r"2 of the 3 rows .* \(lines 6, 8\)"):
        read_corpus(path)
    corpus = read_corpus(path, skip_invalid=True)
    assert (corpus.ids, [place for place, _ in corpus.problems]) == (
        ["2"],
        ["x.csv, line 6", "x.csv, line 8"],
    )
    with pytest.raises(InputError, match=r"x\.csv, line 4: a quote .* never closed"):
        read_corpus(write("x.csv", 'text,label\n"a\nb",1\n"c,2\nd,1\ne,2\n'))
    loose = write("x.csv", 'text,label,n\n"a\nb",1,0\n"c" d,2,0\n"e\nf",1,0\ng,2,bad\n')
    with pytest.raises(InputError, match=r"x\.csv, line 7: the weight is 'bad'"):
        read_corpus(loose, weight="n")


def test_spreadsheets(write, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    for row in (
        ["id", "text", "label"],
        [1, "win cash", "spam"],
        [2.5, "lunch", "ham"],
        [],
        [3, None, "ham"],
    ):
        book.active.append(row)
    book.create_sheet("notes").append(["nothing"])
    book.save(tmp_path / "x.xlsx")
    corpus = read_corpus(tmp_path / "x.xlsx")
    assert (corpus.format, corpus.ids) == ("excel", ["1", "2.5", "3"])
    assert corpus.texts == ["win cash", "lunch", ""]
    assert corpus.labels == ["spam", "ham", "ham"]
    assert corpus.problems == [("x.xlsx", "only the sheet 'Sheet' of 2 is read")]
    assert read_corpus(tmp_path / "x.xlsx", text="label", label="id").texts == ["spam", "ham", "ham"]
    with pytest.raises(
        InputError, match=r"x\.xlsx \(sheet 'Sheet'; the others, .*, are not read.* no column 'none'"
    ):
        read_corpus(tmp_path / "x.xlsx", text="none")
    (tmp_path / "y.csv").write_text("label,text\nham,a\n")
    assert len(read_corpus(tmp_path)) == 4


def test_json_arrays(write):
    path = write("x.json", '[{"text": "a", "label": "x"},\n {"text": "b", "label": "y"}, 7]')
    corpus = read_corpus(path)
    assert (corpus.format, corpus.texts, corpus.labels) == ("json", ["a", "b"], ["x", "y"])
    assert corpus.problems == [("x.json, row 3", "left out: it is not a JSON object")]
    for content, message in (("[1", "cannot be read as JSON"), ("7", "must hold an array")):
        with pytest.raises(InputError, match=message):
            read_corpus(write("y.json", content))


def test_stray_quotes_and_huge_fields(write):
    corpus = read_corpus(write("x.csv", 'text,label\n"a" b,1\n' + "x" * 200_000 + ",2\n"))
    assert corpus.texts == ["a b", "x" * 200_000]
    assert corpus.problems == [("x.csv, line 2", "a quote inside a quoted field is not doubled")]


def test_broken_quotes(write):
    rows = ['x "y" z', '"a" b', '"c\nd"', '"e, f" g', '"a, b"']
    corpus = read_corpus(write("x.csv", "text,label\n" + "".join(f"{row},1\n" for row in rows)))
    assert corpus.texts == ['x "y" z', "a b", "c\nd", "e, f g", "a, b"]
    assert corpus.problems == [("x.csv, line 3", "a quote inside a quoted field is not doubled")]
    for text, line in (('"a" b,1\n"c\nd\n"e",1\n', 3), ('"a\n"b" c,1\n', 2), ('"a" b,1\n"c\nd,1\n', 3)):
        with pytest.raises(InputError, match=rf"x\.csv, line {line}: a quote .* cannot be separated"):
            read_corpus(write("x.csv", "text,label\n" + text))


def test_encodings_are_survived(write):
    corpus = read_corpus(write("x.tsv", "text\tlabel\ncaf\u00e9\t1\n".encode() + b"na\xefve \x93x\x94\t2\n"))
    assert corpus.texts == ["café", "naïve “x”"]
    assert corpus.problems == [("x.tsv", "line 3: bytes that are not UTF-8 were read as Windows-1252")]
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
    assert corpus.format == "jsonl"
    assert corpus.ids == ["5", "x", "3"]
    assert corpus.labels == [("1",), ("u", "v"), ("true",)]
    assert corpus.part == ["train", None, None]
    assert [place for place, _ in corpus.problems] == [
        "x.anything, line 5",
        "x.anything, line 6",
        "x.anything, line 7",
    ]
    with pytest.raises(
        InputError, match="no column 'body' for the text; its 4 columns are: id, text, label, split"
    ):
        read_corpus(write("y.jsonl", lines), text="body")


def test_parquet(write, tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["a", "b"], "label": [1, 0]}), tmp_path / "x")
    corpus = read_corpus(tmp_path / "x")
    assert (corpus.format, corpus.texts, corpus.labels) == ("parquet", ["a", "b"], ["1", "0"])


def test_parquet_without_pyarrow(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match="needs PyArrow"):
        read_corpus(write("x", b"PAR1" + bytes(100) + b"PAR1"))


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
def test_csv_round_trip(tmp_path, rows):
    with (tmp_path / "x.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("text", "label"), *rows])
    corpus = read_corpus(tmp_path / "x.csv", "csv")
    assert corpus.texts == [text for text, _ in rows]
    assert corpus.labels == [label.strip() for _, label in rows]


# ---- lines and folders


def test_label_tab_text(write, tmp_path):
    write("r8-train.txt.xz", lzma.compress(b"earn\tnet profit\nacq\tbuys a firm\n"))
    write("r8-test.txt", "earn\tdividend\n\nonly text\n")
    corpus = read_corpus(tmp_path / "r8-train.txt.xz")
    assert (corpus.format, corpus.labels, corpus.ids) == ("lines", ["earn", "acq"], ["1", "2"])
    both = read_corpus(tmp_path, "lines")
    assert both.part == ["test", "train", "train"]
    assert both.problems == [("r8-test.txt, line 3", "left out: it is not a label, a TAB and a text")]


def test_a_text_keeps_its_tabs(write):
    data = "earn\tnet\tprofit\t\nacq\t\tbuys\n"
    corpus = read_corpus(write("x.txt", data), "lines")
    assert corpus.labels == ["earn", "acq"]
    assert corpus.texts == ["net\tprofit\t", "\tbuys"]
    with pytest.raises(InputError, match="a text without labels"):  # or a table: the user has to say which
        read_corpus(write("y.txt", data))


@pytest.mark.parametrize("line", ["{}\tnumber {}", "__label__{} number {}"], ids=["tab", "fasttext"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"], ids=repr)
def test_the_last_line_counts_however_it_ends(line, end, write):
    for n in (1, 2, 3):
        path = write(f"{n}.txt", "\n".join(line.format("ab"[i % 2], i) for i in range(n)) + end)
        corpus = read_corpus(path, "lines")
        assert corpus.labels == ["ab"[i % 2] for i in range(n)]
        assert corpus.texts == [f"number {i}" for i in range(n)]


def test_fasttext_lines(write):
    corpus = read_corpus(write("x", "__label__a some text\n__label__b __label__c more\n"))
    assert corpus.labels == [("a",), ("b", "c")]
    assert corpus.texts == ["some text", "more"]


def test_a_folder_per_class(write, tmp_path):
    for name in ("train/pos/0_9.txt", "train/neg/0_1.txt", "test/pos/0_9.txt"):
        write(f"aclImdb/{name}", f"review {name}")
    write("aclImdb/train/neg/1_1.txt", bytes(50))
    write("aclImdb/README", "about it")
    corpus = read_corpus(tmp_path)
    assert corpus.format == "folders"
    rows = zip(corpus.ids, corpus.labels, corpus.part, strict=True)
    assert sorted(rows) == [
        ("aclImdb/test/pos/0_9.txt", "pos", "test"),
        ("aclImdb/train/neg/0_1.txt", "neg", "train"),
        ("aclImdb/train/pos/0_9.txt", "pos", "train"),
    ]
    assert sorted(corpus.problems) == [
        ("aclImdb/README", "left out: it lies beside the class folders, not in one"),
        ("aclImdb/train/neg/1_1.txt", "left out: it is binary"),
    ]
    assert read_corpus(tmp_path, part="test").ids == ["aclImdb/test/pos/0_9.txt"]
    unlabelled = read_corpus(tmp_path / "aclImdb" / "train" / "pos")
    assert unlabelled.labels is None


# ---- detection and bad input


def test_formats_are_told_from_the_content(write):
    for pack in (bytes, gzip.compress, bz2.compress, lzma.compress):
        assert read_corpus(write("noname", pack(b'{"text": "a", "label": "b"}\n'))).format == "jsonl"
        assert read_corpus(write("noname", pack(b"a\tb c\nd\te f\n"))).format == "lines"
        assert read_corpus(write("noname", pack(b"Subject: x\nTo: y\n\nz"))).format == "mail"
    assert read_corpus(write("x.txt", "text,label\na,b\n"), "csv").labels == ["b"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.csv", b"", "empty.csv is empty"),
        ("blank.csv", b" \n\n", "blank.csv is empty"),
        ("noise", bytes(range(256)) * 20, "noise is binary data"),
        ("noise.csv", bytes(range(256)) * 20, "noise.csv is binary data"),
        ("a.txt", b"just a text\nof two lines\n", "a.txt is a text without labels"),
        ("x.jsonl", b"[1, 2]\n", "holds no JSON object"),
        ("head.csv", b"text,label\n", "holds no document that can be read as csv"),
    ],
)
def test_bad_input(name, data, words, write):
    with pytest.raises(InputError, match=words):
        read_corpus(write(name, data))


def test_more_bad_input(write, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder is empty"):
        read_corpus(tmp_path / "folder")
    path = write("x.csv", "text,label\na,b\n")
    with pytest.raises(InputError, match="'xml' is not one of reuters, mail"):
        read_corpus(path, "xml")
    with pytest.raises(InputError, match="no part 'train'; it is not in parts"):
        read_corpus(path, part="train")
    with pytest.raises(InputError, match=r"x\.csv holds no document that can be read as reuters"):
        read_corpus(path, "reuters")
    with pytest.raises(InputError, match="binary data and cannot be read as lines"):
        read_corpus(write("noise", bytes(range(256))), "lines")


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=300),
    st.sampled_from([None, "mail", "csv", "tsv", "jsonl", "lines", "folders", "reuters"]),
)
def test_any_file_gives_a_corpus_or_one_sentence(tmp_path, data, format):
    (tmp_path / "x").write_bytes(data)
    try:
        corpus = read_corpus(tmp_path / "x", format)
    except InputError:
        return
    assert len(corpus) == len(corpus.texts) == len(corpus.part) == len(set(corpus.ids)) > 0


def test_progress_runs_from_0_to_1(write):
    for path in (sample("newswire"), sample("mail"), sample("reviews"), sample("questions")):
        seen = []
        read_corpus(path, progress=lambda done, total, seen=seen: seen.append(done / total))
        assert seen == sorted(seen)
        assert seen[-1] == pytest.approx(1)


# ---- documents to classify


def test_documents_of_several_kinds(write):
    text = write("x.txt", "a plain text\n")
    table = write("y.csv", "id,text,label\n1,a,p\n2,b,q\n")
    mail = write("z.eml", "From: a\nSubject: s\n\nbody\n")
    corpus = read_documents([text, table, mail])
    assert corpus.labels is None
    assert corpus.ids == [str(text), f"{table}:1", f"{table}:2", str(mail)]
    assert corpus.texts == ["a plain text\n", "a", "b", "s\nbody"]
    assert corpus.format == "text, csv, mail"
    assert read_documents(table).ids == ["1", "2"]
    assert read_documents([table], text="label").texts == ["p", "q"]
    with pytest.raises(InputError, match="no column 'body'"):
        read_documents([table], text="body")


def test_unlabelled_rows_are_kept(write):
    corpus = read_documents(write("x.jsonl", '{"text": "a", "label": "p"}\n{"text": "b"}\n'))
    assert corpus.texts == ["a", "b"]
    assert corpus.problems == []


@pytest.mark.parametrize(
    ("data", "ids", "texts"),
    [
        (b'{"id": "q", "text": "a"}\n{"text": "b"}\n', ["q", "2"], ["a", "b"]),
        (b"just words\n", ["-"], ["just words\n"]),
        (gzip.compress(b"just words\n", mtime=0), ["-"], ["just words\n"]),
        (b"Subject: s\nFrom: x\n\nbody\n", ["-"], ["s\nbody"]),
    ],
)
def test_standard_input(data, ids, texts, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    corpus = read_documents(["-"])
    assert (corpus.ids, corpus.texts) == (ids, texts)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match="standard input is empty"):
        read_documents("-")


def test_a_named_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"words",))
    writer.start()
    assert read_documents(tmp_path / "pipe").texts == ["words"]
    writer.join()


def test_an_archive_of_texts(tmp_path):
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as archive:
        for name in ("a.txt", "b.txt"):
            info = tarfile.TarInfo(name)
            info.size = 5
            archive.addfile(info, io.BytesIO(b"words"))
    assert read_documents(tmp_path / "t.tar.gz").ids == ["a.txt", "b.txt"]


# ---- the real corpora


def test_r8(data):
    corpus = read_corpus(data / "r8")
    assert corpus.format == "lines"
    train, test = corpus.select("train"), corpus.select("test")
    assert Counter(train.labels) == {
        "earn": 2840, "acq": 1596, "crude": 253, "trade": 251, "money-fx": 206,
        "interest": 190, "ship": 108, "grain": 41,
    }  # fmt: skip
    assert Counter(test.labels) == {
        "earn": 1083, "acq": 696, "crude": 121, "money-fx": 87, "interest": 81,
        "trade": 75, "ship": 36, "grain": 10,
    }  # fmt: skip
    assert corpus.problems == []


def test_agnews(data):
    corpus = read_corpus(data / "agnews" / "test.csv.xz", text="2,3", label="1")
    assert Counter(corpus.labels) == dict.fromkeys("1234", 1900)
    assert corpus.problems == []


def test_essays(data):
    path = data / "asap-aes" / "training_set_rel3.tsv.xz"
    corpus = read_corpus(path, label="domain1_score")
    assert len(corpus) == 12_978
    assert len(set(corpus.ids)) == 12_978
    assert all(0 <= int(label) <= 60 for label in corpus.labels)
    sets = Counter(read_corpus(path, label="essay_set").labels)
    assert [sets[str(i)] for i in range(1, 9)] == [1783, 1800, 1726, 1772, 1805, 1800, 1569, 723]
    assert corpus.problems == []


def test_imdb(data):
    corpus = read_corpus(data / "imdb" / "aclImdb_labelled.tar.xz")
    assert Counter(zip(corpus.part, corpus.labels, strict=True)) == {
        (part, label): 12_500 for part in ("train", "test") for label in ("pos", "neg")
    }
