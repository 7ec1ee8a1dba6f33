"""Corpora that are read document by document: the same documents, and little in memory."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pickle
import tarfile
import tempfile
import tracemalloc
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from refusals import refuses

from textsvm import SVC, InputError, Spectrum, cli, read_corpus, stream_corpus
from textsvm.readers import read, sample, stream
from textsvm.readers.charsets import NOT_UTF_8
from textsvm.readers.corpus import Document, build_corpus
from textsvm.readers.files import File, FileOnDisk, iterate_lines
from textsvm.readers.stream import CorpusStream
from textsvm.text.stored import StoredTexts

CSV = 'label,text,split\nham,"a, ""b""\nc",train\nspam,d é,test\nham,"a, ""b""\nc",test\n'


def same(path, **options):
    """The corpus as it is read at once, after it was compared with the one from a stream."""
    whole, stored = read_corpus(path, **options), stream_corpus(path, **options).stored()
    for name in ("ids", "labels", "part", "targets", "weights", "groups", "source", "format", "problems"):
        assert getattr(stored, name) == getattr(whole, name), name
    assert isinstance(stored.texts, StoredTexts)
    assert list(stored.texts) == whole.texts
    assert stored.duplicates() == whole.duplicates()
    return whole


@pytest.mark.parametrize(
    "name", ["newswire", "mail", "messages", "reviews", "questions", "essays", "dialects", "sites"]
)
def test_samples_are_the_same_document_by_document(name):
    options = {"target": "score"} if name == "essays" else {}
    same(sample(name), **options)


@pytest.mark.parametrize("pack", [None, gzip, lzma])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", CSV),
        ("t.csv", CSV.replace("\n", "\r\n")),
        ("mac.csv", "label,text\rham,one\rspam,two\r"),
        ("no_header.csv", "ham,one\nspam,two\nham,three\n"),
        ("odd.csv", 'label,text\nham,one\nspam,"a "quote" here"\nham,"x, y"\n'),
        ("t.tsv", 'label\ttext\nham\t"open\nspam\ttwo\n'),
        ("t.jsonl", '{"text": "a", "label": "x"}\nnone\n{"text": "b", "label": ["x", "y"]}\n'),
        ("lines.txt", "ham\tone\nspam\ttwo\n\nham\tthree\n"),
        ("utf16.csv", CSV.encode("utf-16")),
        ("bom.csv", CSV.encode("utf-8-sig")),
        ("mark.txt", b"ham\tone\n\xff\xfeham\ttwo\nspam\tthree"),
    ],
)
def test_tables_are_the_same_document_by_document(tmp_path, name, content, pack):
    data = content.encode() if isinstance(content, str) else content
    path = tmp_path / (name + {None: "", gzip: ".gz", lzma: ".xz"}[pack])
    path.write_bytes(data if pack is None else pack.compress(data))
    same(path)


def test_folders_and_archives_are_the_same(tmp_path):
    for label in ("ham", "spam"):
        (tmp_path / "f" / label).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "f" / label / f"{number}.txt").write_text(f"{label} {number} é")
    (tmp_path / "f" / "spam" / "odd").write_bytes(b"\0\1\2")
    same(tmp_path / "f")
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "f", "f")
    same(tmp_path / "t.tar.gz")


def test_a_stream_gives_documents_and_can_be_read_again(tmp_path):
    (tmp_path / "t.csv").write_text(CSV)
    found = stream_corpus(tmp_path / "t.csv", part="test")
    assert isinstance(found, CorpusStream)
    expected = [Document("2", "d é", "spam", "test"), Document("3", 'a, "b"\nc', "ham", "test")]
    assert [each._replace(id=str(i)) for i, each in enumerate(found, 2)] == expected
    assert list(found) == list(found)
    refuses("has no part 'dev'; there is: test, train", stream_corpus(tmp_path / "t.csv", part="dev").stored)


@pytest.mark.parametrize("data", [b"a\rb", b"a\r\r\nb\r", b"a\r\nb\rc\n", b"\r\n\r"])
def test_lines_of_a_file_on_disk_are_those_in_memory(tmp_path, data):
    (tmp_path / "t").write_bytes(data)
    for newline in ("", "\n"):
        lines = iterate_lines(FileOnDisk("t", tmp_path / "t"), [], newline)
        assert list(lines) == list(iterate_lines(File("t", data), [], newline))


def test_a_line_that_is_no_text_is_named_once(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"label,text\nham,one\nspam,caf\xe9\nham,\xe9t\xe9\n")
    found = stream_corpus(tmp_path / "t.csv")
    for _ in range(2):
        assert [each.text for each in found] == ["one", "café", "été"]
        assert found.problems == [("t.csv", f"line 3: {NOT_UTF_8}")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "t.csv is empty"),
        (b"label,text\n", "holds no document"),
        (b'label,text\nham,one\nspam,"two\n', r"line 3: a quote .* never closed"),
        (gzip.compress(CSV.encode() * 100, mtime=0)[:60], "damaged or cut off"),
    ],
)
def test_bad_streams_are_one_sentence(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    refuses(message, lambda: stream_corpus(tmp_path / "t.csv").stored())


def test_what_is_not_there_is_one_sentence(tmp_path):
    refuses("is not there", stream_corpus, tmp_path / "none.csv")
    refuses("format='x'", stream_corpus, sample("reviews"), "x")


def test_progress_is_in_bytes_read(tmp_path):
    (tmp_path / "t.csv").write_text("label,text\n" + "a,some text\n" * 50_000)
    seen = []
    for _ in stream_corpus(tmp_path / "t.csv", progress=lambda done, total: seen.append(done / total)):
        pass
    assert len(seen) > 40
    assert seen == sorted(seen)
    assert seen[len(seen) // 2] == pytest.approx(0.5, abs=0.2)  # a block is a fifth of the file
    assert seen[-1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "jsonl", "tsv"])
def test_little_of_a_table_is_in_memory(tmp_path, format):
    path, text = tmp_path / f"t.{format}", "word " * 200
    row = {
        "csv": f"a,{text}\n",
        "tsv": f"a\t{text}\n",
        "jsonl": json.dumps({"label": "a", "text": text}) + "\n",
    }
    head = {"csv": "label,text\n", "tsv": "label\ttext\n", "jsonl": ""}
    path.write_text(head[format] + row[format] * 8000)
    tracemalloc.start()
    assert sum(len(each.text) for each in stream_corpus(path)) >= 8000 * 999
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 8_000_000
    assert peak < 3_000_000


def test_a_target_without_numbers_is_refused(tmp_path):
    """Large corpora would have been read with their labels."""
    (tmp_path / "t.csv").write_text("text,label,grade\none,a,\ntwo,b,\n", "utf-8")
    with pytest.raises(InputError, match=r"no document of .* has a number in column 'grade'"):
        stream_corpus(tmp_path / "t.csv", target="grade").stored()


def test_stored_texts_are_a_sequence_of_strings():
    texts = ["one", "", "zwei é", "\udce9", "😀"]
    stored = StoredTexts.of(iter(texts))
    assert list(stored) == texts
    assert [stored[i] for i in range(5)] == texts
    assert stored[-1] == "😀"
    assert list(stored[1:3]) == texts[1:3]
    assert list(stored.take([4, 0, 0])) == ["😀", "one", "one"]
    assert list(pickle.loads(pickle.dumps(stored))) == texts
    assert list(StoredTexts.of([])) == []
    assert "zwei é" in stored
    with pytest.raises(IndexError):
        stored[5]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("n", [1, 100])
def test_a_full_disk_is_one_sentence(monkeypatch, n):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "wb", 0))  # noqa: SIM115
    with pytest.raises(
        InputError, match=r"texts cannot be kept in .* \(No space left on device\); let TMPDIR"
    ):
        StoredTexts.of(["x" * 100_000] * n)


def test_estimators_take_iterators():
    texts, y = ["aab", "aba", "abb", "bba"] * 5, [0, 0, 1, 1] * 5
    listed, streamed = (SVC(Spectrum(2), device="cpu").fit(X, y) for X in (texts, iter(texts)))
    assert np.array_equal(listed.dual_coef_, streamed.dual_coef_)
    assert np.array_equal(listed.decision_function(texts), streamed.decision_function(t for t in texts))
    refuses("document 1 is of type int", SVC(Spectrum(2), device="cpu").fit, iter(["a", 1]), [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--kernel", "spectrum:1-4,idf", "--holdout", "0.2"),
        ("--kernel", "fast", "--positive", "positive", "--calibrate", "sigmoid"),
        ("--one-class", "positive", "--kernel", "gap", "--max-length", "30"),
    ],
)
def test_the_command_line_keeps_texts_of_large_corpora_on_disk(monkeypatch, tmp_path, capsys, options):
    def train(large: int) -> dict:
        monkeypatch.setattr(stream, "LARGE", large)
        given = ["train", sample("reviews"), *options, "-o", tmp_path / "m", "--force", "--json"]
        monkeypatch.setattr("sys.argv", ["textsvm", *map(str, given)])
        assert cli.console.main(cli.app_of()) == 0
        found = json.loads(capsys.readouterr().out)
        return {name: found[name] for name in ("n_train", "classes", "n_support", "objective", "kernel")} | {
            "accuracy": (found["holdout"] or {}).get("accuracy")
        }

    gathered = []
    monkeypatch.setattr(read, "build_corpus", lambda *a, **b: gathered.append(b) or build_corpus(*a, **b))
    assert train(1 << 40) == train(1)
    assert gathered == [{"labelled": True, "stored": stored} for stored in (False, True)]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_in_a_pipe_is_known_by_its_header(separator, pack, tmp_path):
    """As of `train <(command)`, whose path has no suffix."""
    pipe, table = tmp_path / "63", "text,label\na b,x\nc d,y\n".replace(",", separator)
    os.mkfifo(pipe)
    Thread(target=pipe.write_bytes, args=(pack(table.encode()),), daemon=True).start()
    corpus = read_corpus(pipe)
    assert (corpus.texts, corpus.labels) == (["a b", "c d"], ["x", "y"])
