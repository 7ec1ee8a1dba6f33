"""Readers under attack: every target of fuzz/ for a moment, and each case that it found."""

import bz2
import gzip
import importlib
import io
import json
import lzma
import re
import subprocess
import sys
import tarfile
import time
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from command import fails, run, works
from refusals import refuses

from textsvm import SVC, InputError, Spectrum, read_corpus, save
from textsvm.errors import InputError as Error
from textsvm.errors import json_escaped, one_line, printable
from textsvm.readers import files as reader_files
from textsvm.readers.files import read_stream
from textsvm.readers.read import read_documents
from textsvm.readers.stream import incoming_documents, stream_corpus
from textsvm.reporting.formatting import safe

ROOT = Path(__file__).parents[1]
TARGETS = sorted(path.stem for path in (ROOT / "fuzz").glob("read_*.py"))
HOSTILE = "a\x1b[31mb\nc\x9b0md\u202ee\u2066f\x07g\x7fh\u2028i\x85j\ud800k"
#: What drives a terminal, reorders a line or ends it.
DRIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_moment_of_fuzzing(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    run_case = importlib.import_module(f"fuzz.{name}").run
    run_case(0)  # with the imports and the seeds of the target
    end, seed = time.monotonic() + 0.4, 1
    while seed < 3 or time.monotonic() < end:
        run_case(seed)
        seed += 1


def test_an_error_is_one_printable_line_of_a_bounded_length():
    message = str(Error(f"{'n' * 5000}{HOSTILE}, line 3: what was wrong; what to do"))
    assert len(message) == 300
    assert message.isprintable()
    assert message.startswith("nnn")
    assert message.endswith("what was wrong; what to do")
    assert str(Error("short; café, 日本, नमस्ते\u200d")) == "short; café, 日本, नमस्ते\u200d"
    assert one_line(one_line(HOSTILE * 50)) == one_line(HOSTILE * 50)


def test_what_a_terminal_or_a_page_shows():
    assert not DRIVES.search(printable(HOSTILE).replace("\n", ""))
    assert not DRIVES.search(safe(HOSTILE).replace("\n", ""))
    escaped = json_escaped(json.dumps(HOSTILE, ensure_ascii=False))
    assert not DRIVES.search(escaped)
    assert json.loads(escaped) == HOSTILE
    assert printable("Ulla,\r\nuntil\rtoday\r") == "Ulla,\nuntil\ufffdtoday"
    assert printable("עברית\u200f, العربية\u200e\n\t") == "עברית\u200f, العربية\u200e\n\t"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A model of hostile labels, and a table of hostile ids and texts."""
    folder = tmp_path_factory.mktemp("hostile")
    labels = [HOSTILE.replace("\ud800", ""), "ham"] * 6
    texts = [f"{'free' if i % 2 else 'red'} {HOSTILE} {i}" for i in range(12)]
    save(SVC(Spectrum(2), device="cpu").fit(texts, labels), folder / "m.textsvm")
    rows = [{"id": f"{HOSTILE}{i}", "text": text, "label": labels[i]} for i, text in enumerate(texts)]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "m.textsvm", "t.jsonl"],
        ["explain", "m.textsvm", "t.jsonl"],
        ["explain", "m.textsvm", "t.jsonl", "--json"],
        ["evaluate", "m.textsvm", "t.jsonl"],
        ["corpus", "t.jsonl"],
        ["corpus", "t.jsonl", "--json"],
    ],
    ids=" ".join,
)
def test_nothing_of_a_document_drives_a_terminal(hostile, command):
    result = works(*command, cwd=hostile)
    assert result.stdout
    for stream in (result.stdout, result.stderr):
        assert not DRIVES.search(stream.decode().replace("\n", ""))
        assert b"\\x1b" not in stream  # it was not left to the terminal's encoding


def test_names_in_errors_and_notes_are_shown_only(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, data in ((HOSTILE[:-2], b"a text"), (f"../{HOSTILE[:-2]}", b"x"), ("pos/1", b"\x00" * 99)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert not DRIVES.search(run("corpus", tmp_path / "a.tar").stderr.decode().replace("\n", ""))
    (tmp_path / "t.csv").write_text(f'"{HOSTILE[:-2]}",b\n1,2\n')
    assert not DRIVES.search(fails("corpus", tmp_path / "t.csv", "--text", "none"))
    with pytest.raises(InputError, match="no column 'none'") as error:
        read_corpus(tmp_path / "t.csv", text="none")
    assert str(error.value).isprintable()


def test_parquet_of_bytes_that_are_no_text(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def write(values):
        parquet.write_table(pyarrow.table({"label": ["a", "b", "c"], "text": values}), tmp_path / "t.parquet")
        return tmp_path / "t.parquet"

    raw = pyarrow.array([b"good", "café".encode(), b"caf\xe9 \xff"], pyarrow.binary())
    with pytest.raises(InputError, match=r"t\.parquet: 'text' is called text and is not UTF-8; write"):
        read_corpus(write(raw.view(pyarrow.string())))
    assert read_corpus(write(raw)).texts == ["good", "café", "café ÿ"]  # older writers do not say it is text
    nested = write(pyarrow.array([{"a": b"x"}, {"a": None}, None]))
    with pytest.raises(InputError, match=r"t\.parquet, row 1: 'text' is .* --text text\.a"):
        read_corpus(nested, text="text", label="label")
    assert read_corpus(nested, text="text.a", label="label").texts == ["x"]


@pytest.mark.parametrize("rows", ['ham,"one\nspam,two\n', 'ham,"a "b" c"\nham,"one\nspam,two\n'])
def test_a_quote_that_is_never_closed_is_told_of_a_stream_too(hostile, tmp_path, rows):
    (tmp_path / "t.csv").write_text("label,text\n" + rows)
    refuses("is never closed", read_documents, [tmp_path / "t.csv"], text="text")
    result = run(
        "predict",
        hostile / "m.textsvm",
        "--format",
        "csv",
        "--text",
        "text",
        stdin=("label,text\nx,y\n" + rows).encode(),
    )
    assert result.returncode == 1
    assert b"is never closed" in result.stderr
    assert b'{"id": "2"' in result.stdout  # what came before is decided on


def test_parquet_on_standard_input_with_a_named_column(hostile):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(pyarrow.table({"body": ["free", "red"]}), stream)
    result = works("predict", hostile / "m.textsvm", "--text", "body", stdin=stream.getvalue())
    assert result.stdout.count(b"\n") == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_says_what_was_written(hostile):
    import signal

    process = subprocess.Popen(
        [sys.executable, "-m", "textsvm", "predict", hostile / "m.textsvm", "--format", "lines"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert b'"id": "1"' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert b"interrupted; 1 line of output was written" in said


@pytest.mark.parametrize(
    "story",
    [
        b"<REUTERS " + b"9" * 300_000 + b">x</REUTERS>",
        b'<REUTERS NEWID="1"><TEXT>' + b" " * 300_000 + b"x</TEXT></REUTERS>",
    ],
)
def test_stories_that_took_minutes(tmp_path, story):
    (tmp_path / "r.sgm").write_bytes(story)
    start = time.perf_counter()
    assert len(read_corpus(tmp_path / "r.sgm", format="reuters")) == 1
    assert time.perf_counter() - start < 10


def test_a_sparse_matrix_of_a_format_that_is_no_name(tmp_path):
    np.savez(tmp_path / "v.npz", format=np.zeros((2, 0), int), shape=[2, 3], data=[1.0, 2.0])
    refuses("sparse matrix of format", read_corpus, tmp_path / "v.npz")


@pytest.mark.parametrize(
    "damage",
    [('"accuracy"', '"accuracy["', 1), ('"accuracy"', '"x"', -1), ('"folds": [', '"folds": [[], ', 1)],
)
def test_a_damaged_line_of_a_table_of_settings_is_done_anew(tmp_path, damage, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    target = importlib.import_module("fuzz.read_tuning")
    old, new, count = damage
    whole = target.table().decode()
    assert old in whole
    (tmp_path / "t").write_text(whole.replace(old, new, count))
    target._tune(tmp_path / "t")
    rows = [json.loads(line) for line in (tmp_path / "t").read_text().splitlines()[1:]]
    assert len({row["setting"] for row in rows if all("accuracy" in fold for fold in row["folds"])}) == 2


def mail(body):
    return b"From: a@b.c\nSubject: s\n" + body


def nested(depth, lines):
    parts = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(depth))
    return mail(parts + b"\n" + b"a\n" * lines)


def one_member(name):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for each in (name, "pos/1.txt"):
            archive.addfile(tarfile.TarInfo(each))
    return stream.getvalue()


#: Inputs that took minutes, or gigabytes, where work grows with the square of a length.
SLOW = {
    "a number of many digits": ("t.txt", b"2147483648" * 6000 + b"x"),
    "spaces in a header": ("t.fa", b">a x=" + b" " * 100_000 + b"b\nACGT\n"),
    "records of nothing": ("t.fa", b">a=\n" * 60_000 + b"AC\n"),
    "a header of one word": ("t.fa", b">a = " + b"b" * 200_000 + b"\nACGT\n"),
    "columns": ("t.csv", b"text,label," + b",".join(b"%x" % i for i in range(60_000)) + b"\na,b\n"),
    "ids": ("t.csv", b"id,text\n" + b"x,t\n" * 8000 + b"".join(b"x#%d,t\n" % i for i in range(2, 8000))),
    "folders": ("t.tar", one_member("a/" * 20_000 + "b")),
    "endings": ("t.tar", one_member("a" + ".gz" * 150_000 + "/b")),
    "multiparts": ("t.eml", nested(280, 150_000)),
    "parameters": ("t.eml", mail(b'Content-Type: text/plain; a="' + b"; " * 150_000 + b'"\n\nabc\n')),
}


def test_a_mark_before_the_magic_of_parquet_makes_it_text(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfPAR1,text\na,b\n")))
    [corpus] = incoming_documents(["-"], text="text", failed=pytest.fail)
    assert corpus.texts == ["b"]


@pytest.mark.parametrize(
    "starts",
    [np.array([0, 3, 1, 4], np.uint64), np.array([0, 2**63 - 1, -(2**63), -1, 4])],
    ids=["unsigned", "overflow"],
)
def test_rows_of_a_sparse_matrix_that_descend(starts, tmp_path):
    """Their differences are positive as NumPy takes them; sorting such rows was an error of C++."""
    shape = np.array([len(starts) - 1, 5])
    parts = {"data": np.ones(4), "indices": np.array([3, 1, 2, 0]), "indptr": starts, "shape": shape}
    np.savez(tmp_path / "x.npz", format=np.array(b"csr"), **parts)
    refuses("has a damaged sparse matrix", read_documents, [tmp_path / "x.npz"])


def test_a_header_of_npy_that_is_no_literal(tmp_path):
    """Python 3.12 raises SystemError of this one."""
    header = b"'fortran_order': False, 'shape': (2, 3), }".ljust(118)
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + header + bytes(24))
    refuses("that can be read", read_documents, [tmp_path / "x.npy"])


@pytest.mark.parametrize("name", SLOW)
def test_what_took_minutes(name, tmp_path):
    file, content = SLOW[name]
    (tmp_path / file).write_bytes(content)
    start = time.process_time()
    with suppress(InputError):
        read_corpus(tmp_path / file)
    assert time.process_time() - start < 2


def test_honest_mail_is_read_whatever_stands_in_other_messages(tmp_path):
    (tmp_path / "t.eml").write_bytes(nested(20, 3))
    assert read_corpus(tmp_path / "t.eml").problems[0][1] == "the last boundary is missing: cut off"
    (tmp_path / "t.eml").write_bytes(nested(70, 3))
    assert "cannot be parsed as a message" in read_corpus(tmp_path / "t.eml").problems[0][1]
    html = b"Content-Type: text/html\n\n&#" + b"9" * 5000 + b";<b>x &#65; &#0000000065;"
    (tmp_path / "t.eml").write_bytes(mail(html))
    assert read_corpus(tmp_path / "t.eml").texts == ["s\n\ufffdx A A"]


def test_lists_in_lists_of_json(tmp_path):
    for depth in range(960, 1000, 5):
        (tmp_path / "t.jsonl").write_text('{"text": ' + "[" * depth + "]" * depth + ', "label": "a"}\n')
        with suppress(InputError):
            assert len(read_corpus(tmp_path / "t.jsonl", format="jsonl")) == 1


class Asked(io.RawIOBase):
    """A stream that knows how much it was asked for at once."""

    most = 0

    def __init__(self, data):
        self._data = io.BytesIO(data)

    def read(self, size=-1):
        self.most = max(self.most, size)
        return self._data.read(size)


def test_standard_input_is_read_in_pieces():
    stream = Asked(b"ham\tone\nspam\ttwo\n" * 100_000)
    assert read_stream(stream, "standard input").files[0].size == 1_700_000
    assert stream.most <= 1 << 20  # a buffered stream reserves so much, and the bound is 2 GB
    with pytest.raises(InputError, match="more than 1,000,000 bytes"):
        read_stream(Asked(b"a" * 2_000_000), "standard input", max_bytes=1_000_000)


@pytest.fixture
def tight(monkeypatch):
    """What unpacks to 64 KB or less is not looked at."""
    monkeypatch.setattr(reader_files, "FREE_BYTES", 1 << 16)


def packed(name, data):
    if name.endswith(".zip"):
        stream = io.BytesIO()
        method = {"d": zipfile.ZIP_DEFLATED, "b": zipfile.ZIP_BZIP2, "l": zipfile.ZIP_LZMA}[name[0]]
        with zipfile.ZipFile(stream, "w", method) as archive:
            archive.writestr("pos/1.txt", data)
        return stream.getvalue()
    return {"gz": gzip, "bz2": bz2, "xz": lzma}[name.rpartition(".")[2]].compress(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t.txt.gz", "t.txt.bz2", "t.txt.xz", "d.zip", "b.zip", "l.zip"])
def test_a_bomb_is_refused_and_a_corpus_is_not(name, write, tight):
    path = write(name, packed(name, b"ham\tone\nspam\ttwo\n" * 40_000))
    for read in (read_corpus, stream_corpus, read_documents):
        refuses("unpacks to more than 200 times its", list, getattr(read(path), "texts", None) or read(path))
    path.write_bytes(packed(name, b"".join(b"ham\tone %d\n" % i for i in range(40_000))))
    assert read_corpus(path).texts


def test_an_archive_in_an_archive_is_no_bomb_either(tmp_path, tight):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:bz2") as archive:
        info = tarfile.TarInfo("pos/1.gz")
        data = gzip.compress(b"a" * 20_000_000)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    (tmp_path / "t.tar.bz2").write_bytes(stream.getvalue())
    with pytest.raises(InputError, match="archive in an archive"):
        read_corpus(tmp_path / "t.tar.bz2")  # what is in it is not unpacked


@pytest.mark.slow
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_member_that_lies_about_its_size(tmp_path, method):
    size, stream = 150_000_000, io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive, archive.open("a.txt", "w") as member:
        for _ in range(size // 1_000_000):
            member.write(bytes(1_000_000))
    lie = stream.getvalue().replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    (tmp_path / "t.zip").write_bytes(lie)
    tracemalloc.start()
    try:
        refuses("is damaged or cut off", read_corpus, tmp_path / "t.zip")
        assert tracemalloc.get_traced_memory()[1] < 0.7 * size  # a block of bzip2 twice, and not all of them
    finally:
        tracemalloc.stop()


def test_arrays_of_zeros_are_no_bombs_and_rows_that_take_no_room_are(tmp_path, tight):
    vectors = np.zeros((1000, 100))
    vectors[::10, 0] = 1
    np.savez_compressed(tmp_path / "v.npz", X=vectors)
    assert read_corpus(tmp_path / "v.npz").vectors.shape == (1000, 100)
    columns = {"format": b"csc", "data": [1.0], "indices": np.array([0], np.int32), "indptr": [0, 1]}
    np.savez(tmp_path / "v.npz", shape=[300_000_000, 1], **columns)
    refuses("unpacks to more than", read_corpus, tmp_path / "v.npz")


def test_bombs_of_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    one = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 300, pyarrow.int32()), ["x" * 100_000])
    for texts in (one, pyarrow.array([""] * 1_100_000)):
        table = pyarrow.table({"text": texts, "label": ["a", "b"] * (len(texts) // 2)})
        parquet.write_table(table, tmp_path / "t.parquet", compression="zstd")
        assert (tmp_path / "t.parquet").stat().st_size < 20_000
        refuses("unpacks to more than", read_corpus, tmp_path / "t.parquet")


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reader_files, "MAX_LINE", 1000)
    (tmp_path / "t.tsv").write_text("text\tlabel\n" + "a" * 2000)
    refuses(r"t\.tsv, line 2 has more than 1,000 bytes", list, stream_corpus(tmp_path / "t.tsv"))
