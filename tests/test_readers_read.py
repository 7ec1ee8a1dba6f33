"""Formats of inputs, documents to classify, and corpora as they are published."""

import bz2
import gzip
import io
import json
import lzma
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refuses

from textsvm.errors import InputError
from textsvm.readers import sample
from textsvm.readers.read import read_corpus, read_documents
from textsvm.readers.stream import stream_corpus


def test_formats_are_told_from_the_content(write):
    for pack in (bytes, gzip.compress, bz2.compress, lzma.compress):
        assert read_corpus(write("noname", pack(b'{"text": "a", "label": "b"}\n'))).format == "jsonl"
        assert read_corpus(write("noname", pack(b"a\tb c\nd\te f\n"))).format == "lines"
        assert read_corpus(write("noname", pack(b"Subject: x\nTo: y\n\nz"))).format == "mail"
    assert read_corpus(write("x.txt", "text,label\na,b\n"), "csv").labels == ["b"]


@pytest.mark.parametrize(
    ("name", "data", "options", "line"),
    [
        (
            "t.csv",
            b"\xef\xbb\xbfBetreff;Brief;Art\na;b;x\nc;d;y\n",
            {"text": "Betreff,Brief", "label": "Art"},
            "2 rows; text Betreff + Brief, label Art (2), separator ;, header yes, UTF-8 with BOM",
        ),
        (
            "t.tsv",
            "a\tgrün\na\tb\n".encode("cp1252"),
            {},
            "2 rows; text 2, label 1 (1), separator TAB, header no, Windows-1252",
        ),
        ("t.jsonl", b'{"body": "a", "class": "b"}\n', {}, "1 row; jsonl, text body, label class (1), UTF-8"),
        ("t.txt", b"a\tb c\n", {}, "1 text, one per line; text after the label, UTF-8, 1 class (a)"),
        ("t.eml", b"Subject: x\nTo: y\n\nz", {}, "1 message"),
        ("t.fa", b">a\nACGT\n>b\nACG\n", {}, "2 sequences"),
        ("t.svm", b"1 1:2\n2 1:3\n", {}, "2 vectors; 2 classes (1, 2)"),
    ],
)  # fmt: skip
def test_decisions_of_a_reader_are_in_the_corpus(name, data, options, line, write):
    path = write(name, data)
    for corpus in (read_corpus(path, **options), stream_corpus(path, **options).stored()):
        assert corpus.reading_line == f"read {path}: {line}"
        assert corpus.subset([0]).reading == corpus.reading
        assert json.dumps(corpus.reading)


def test_decisions_that_differ_between_files(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,x\n")
    (tmp_path / "b.csv").write_text("label;text;id\nx;b;1\n", encoding="utf-16")
    corpus = read_corpus(tmp_path)
    assert corpus.reading["separator"] == [",", ";"]
    assert corpus.reading["text"] == ("text",)
    assert corpus.reading_line.endswith("separator , or ;, header yes, UTF-8 or UTF-16-LE, id id")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.csv", b"", "empty.csv is empty"),
        ("blank.csv", b" \n\n", "blank.csv is empty"),
        ("noise", bytes(range(256)) * 20, "noise is binary data"),
        ("noise.csv", bytes(range(256)) * 20, "noise.csv is binary data"),
        ("x.rtf", rb"{\rtf1 a text}", "x.rtf is binary data"),
        ("a.txt", b"just a text\nof two lines\n", "a.txt is a text without labels"),
        ("x.jsonl", b"[1, 2]\n", "holds no JSON object"),
        ("head.csv", b"text,label\n", "holds no document that can be read as csv"),
    ],
)
def test_bad_input(name, data, words, write):
    refuses(words, read_corpus, write(name, data))


def test_more_bad_input(write, tmp_path):
    (tmp_path / "folder").mkdir()
    refuses("folder is empty", read_corpus, tmp_path / "folder")
    path = write("x.csv", "text,label\na,b\n")
    refuses("'xml' is not one of reuters, mail", read_corpus, path, "xml")
    refuses("no part 'train'; it is not in parts", read_corpus, path, part="train")
    refuses(r"x\.csv is named 2 times", read_corpus, [path, tmp_path / "folder" / ".." / "x.csv"])
    refuses(r"x\.csv holds no document that can be read as reuters", read_corpus, path, "reuters")
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


def test_documents_of_several_kinds(write):
    text = write("x.txt", "a plain text\n")
    table = write("y.csv", "id,text,label\n1,a,p\n2,b,q\n")
    mail = write("z.eml", "From: a\nSubject: s\n\nbody\n")
    corpus = read_documents([text, table, mail])
    assert corpus.labels is None
    assert corpus.ids == [str(text), f"{table}:1", f"{table}:2", str(mail)]
    assert corpus.texts == ["a plain text\n", "a", "b", "s\nbody"]
    assert corpus.format == "file, csv, mail"
    assert read_documents(table).ids == ["1", "2"]
    assert read_documents([table], text="label").texts == ["p", "q"]
    refuses("no column 'body'", read_documents, [table], text="body")
    unlabelled = read_documents(write("x.jsonl", '{"text": "a", "label": "p"}\n{"text": "b"}\n'))
    assert (unlabelled.texts, unlabelled.problems) == (["a", "b"], [])


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
    refuses("standard input is empty", read_documents, "-")


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


@pytest.mark.slow
def test_imdb(data):
    corpus = read_corpus(data / "imdb" / "aclImdb_labelled.tar.xz")
    assert Counter(zip(corpus.part, corpus.labels, strict=True)) == {
        (part, label): 12_500 for part in ("train", "test") for label in ("pos", "neg")
    }
