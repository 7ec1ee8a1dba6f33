"""predict as documents come: rows of standard input at once, texts a line, inputs that are missing."""

import csv
import io
import json
import os
import subprocess
import sys
import time
import tracemalloc

import pytest
from command import fails, printed_rows, report, run, works
from loading import load
from refusals import refuses

import textsvm
from textsvm import SVC, CalibratedSVC, Spectrum
from textsvm.cli.console import Console
from textsvm.cli.options import PredictedValues
from textsvm.cli.output import PREDICTIONS, STDOUT, Output
from textsvm.cli.predictions import Printer, with_unsure
from textsvm.readers import sample
from textsvm.readers import stream as reader_stream
from textsvm.readers.corpus import Document, build_corpus
from textsvm.readers.read import read_documents
from textsvm.readers.stream import incoming_documents

ROWS = [{"id": f"n{i}", "text": f"the {'bad' if i % 2 else 'good'} kettle {i}"} for i in range(40)]
CSV = "id,text\n" + "".join(f"{row['id']},{row['text']}\n" for row in ROWS)
JSON = "".join(json.dumps(row) + "\n" for row in ROWS)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("predict") / "m.textsvm"
    report("train", sample("reviews"), "--kernel", "fast", "-o", path)
    return path


def test_a_table_on_standard_input_is_a_table(model):
    """It was one document, whatever --text said."""
    expected = load(model).predict([row["text"] for row in ROWS]).tolist()
    for options, content in (
        (["--text", "text"], CSV),
        (["--text", "text"], CSV.replace(",", "\t")),
        (["--text", "text"], CSV.replace(",", ";")),
        (["--format", "csv"], CSV),
        (["--format", "tsv"], CSV.replace(",", "\t")),
        (["--format", "jsonl"], JSON),
        ([], JSON),
    ):
        rows = printed_rows("predict", model, "-", *options, stdin=content.encode())
        assert [row["label"] for row in rows] == expected, options
        assert [row["id"] for row in rows] == [row["id"] for row in ROWS], options
    assert read_documents_of(CSV, text="text") == [row["text"] for row in ROWS]


def read_documents_of(content, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", type("Stdin", (), {"buffer": __import__("io").BytesIO(content.encode())}))
        return read_documents("-", **options).texts


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_titles_above_a_table_on_standard_input(model, separator):
    """As in a file: the header is the row with the columns that are named."""
    content = f"Report 2024{separator}\n\n" + CSV.replace(",", separator)
    rows = printed_rows("predict", model, "-", "--format", "csv", "--text", "text", stdin=content.encode())
    assert [row["label"] for row in rows] == load(model).predict([row["text"] for row in ROWS]).tolist()


def test_a_text_a_line(model):
    texts = ["a good kettle", "bad\tnovels", "  ", "poor service, sent it back"]
    content = "\n".join(texts).encode()
    told = run("predict", model, "--format", "lines", stdin=content)
    assert told.returncode == 1
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert [row["id"] for row in rows] == ["1", "2", "3", "4"]
    assert rows.pop(2) == {"id": "3", "label": None, "reason": "line 3: it is empty"}
    rows = printed_rows("predict", model, "--format", "lines", "--skip-invalid", stdin=content)
    assert [row["label"] for row in rows] == load(model).predict([texts[i] for i in (0, 1, 3)]).tolist()
    labelled = "negative\tbad novels\npositive\ta good kettle\n"
    rows = printed_rows("predict", model, "--format", "lines", stdin=labelled.encode())
    texts = ["bad novels", "a good kettle"]
    assert [row["decision"] for row in rows] == load(model).decision_function(texts).tolist()


@pytest.mark.skipif(os.name == "nt", reason="pipes are waited for otherwise")
@pytest.mark.parametrize(
    ("options", "head", "row"),
    [
        ({}, "", '{{"text": "good {0}"}}\n'),
        ({"text": "text"}, "id,text\n", '{0},"good {0}"\n'),
        ({"format": "tsv"}, "id\ttext\n", "{0}\tgood {0}\n"),
        ({"format": "csv", "text": "text"}, "id;text\n", "{0};good {0}\n"),
        ({"format": "lines"}, "", "good {0}\n"),
    ],
)
def test_rows_are_there_as_they_come(monkeypatch, options, head, row):
    """Each one before the next is sent."""
    read_end, write_end = os.pipe()
    monkeypatch.setattr(reader_stream, "standard_input", lambda: os.fdopen(read_end, "rb"))
    batches = incoming_documents(["-"], **options, failed=pytest.fail)
    with open(write_end, "w", encoding="utf-8") as stream:
        stream.write(head)
        for i in range(3):
            stream.write(row.format(i))
            stream.flush()
            assert next(batches).texts == [f"good {i}"]
    assert not list(batches)


def test_batches_grow_while_input_is_fast(tmp_path):
    (tmp_path / "x.jsonl").write_text(JSON * 100)
    sizes = []
    for batch in incoming_documents([str(tmp_path / "x.jsonl")], failed=pytest.fail):
        sizes.append(len(batch))
        time.sleep(0.05)
    assert sum(sizes) == 4000
    assert len(sizes) < 40


def test_little_is_read_ahead(write, monkeypatch):
    monkeypatch.setattr(reader_stream, "MAX_DOCUMENTS", 3)
    batches = list(incoming_documents([str(write("x.csv", CSV))], failed=pytest.fail))
    assert max(map(len, batches)) <= 3
    assert [each for batch in batches for each in batch.ids] == [row["id"] for row in ROWS]


@pytest.mark.slow
def test_documents_that_come_are_those_that_are_read(tmp_path):
    """Whatever they are in: mails, folders, an archive, several tables, large files."""
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.jsonl").write_text(JSON + "none\n")
    (tmp_path / "c.txt").write_text("one text\n")
    paths = [str(sample("mail")), *(str(tmp_path / name) for name in ("a.csv", "b.jsonl", "c.txt"))]
    for large in (1 << 40, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("textsvm.readers.stream.LARGE", large)
            for some in (paths, *([each] for each in paths)):
                whole = read_documents(some)
                batches = list(incoming_documents(some, failed=pytest.fail))
                for name in ("ids", "texts", "problems"):
                    assert [x for batch in batches for x in getattr(batch, name)] == getattr(whole, name)


def test_an_input_that_is_missing_stops_no_other(model, tmp_path):
    (tmp_path / "good.txt").write_text("a good kettle")
    (tmp_path / "bad.txt").write_text("bad novels")
    (tmp_path / "empty.txt").write_text("")
    names = ["none.txt", "good.txt", "empty.txt", "bad.txt"]
    result = run("predict", model, *names, "-q", cwd=tmp_path)
    assert result.returncode == 1
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["good.txt", "bad.txt"]
    said = result.stderr.decode().splitlines()
    assert [line.split(" ")[:2] for line in said] == [["textsvm:", "none.txt"], ["textsvm:", "empty.txt"]]
    assert "is not there" in fails("predict", model, tmp_path / "none.txt")


@pytest.mark.skipif(os.name == "nt", reason="there is no pty")
def test_a_terminal_is_told_what_is_waited_for(model):
    """And is answered line by line."""
    import pty

    main, other = pty.openpty()
    command = [sys.executable, "-m", "textsvm", "predict", str(model), "--format", "lines"]
    with subprocess.Popen(command, stdin=other, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.close(other)
        assert b"waiting for one text per line" in process.stderr.readline()
        for line in (b"a good kettle\n", b"bad novels\n"):
            os.write(main, line)
            assert b"label" in process.stdout.readline()
        os.write(main, b"\x04")
        assert process.wait(60) == 0
    os.close(main)


TABLE = 'nr,text,label\n1,a good kettle,"x, y"\n2,,\n3,bad novels,=1\n'


def table_of(*arguments, code=0):
    result = run("predict", *arguments, "--output-format", "csv", stdin=TABLE.encode())
    assert result.returncode == code, result.stderr.decode()
    return list(csv.reader(result.stdout.decode().splitlines())), result.stderr.decode()


def test_the_best_labels(model, tmp_path):
    report(
        "train", sample("questions"), "--kernel", "spectrum:3", "--calibrate", "sigmoid", "-o", tmp_path / "q"
    )
    [row] = printed_rows("predict", tmp_path / "q", "--top", "2", stdin=b"When was it?")
    first, second = row["top"]
    assert row["label"] == first["label"] == "when"
    assert first["probability"] >= second["probability"] > 0
    [row] = printed_rows("predict", model, "--top", "5", stdin=b"a good kettle")
    assert row["top"][0]["label"] == row["label"]
    assert row["top"][0]["decision"] == -row["top"][1]["decision"] > 0
    rows, _ = table_of(tmp_path / "q", "-", "--format", "lines", "--top", "1")
    assert rows[0] == ["id", "label", "confidence", "label_1", "decision_1", "probability_1"]
    report("train", sample("essays"), "--regress", "score", "-o", tmp_path / "e")
    assert "predicts numbers" in fails("predict", tmp_path / "e", "--top", "2", stdin=b"text")


def test_texts_unlike_those_of_training_are_warned_of(model, tmp_path):
    def warnings_of(texts, *options):
        result = works("predict", model, "--format", "lines", *options, stdin="\n".join(texts).encode())
        assert len(result.stdout.splitlines()) == len(texts)
        lines = result.stderr.decode().splitlines()
        return [line for line in lines if line.startswith(("warning: ", "drift: "))]

    recorded = load(model).model_.info["drift"]
    assert recorded["symbols"] <= 0.05
    assert 0 < recorded["features"] < 0.5
    assert 0.1 < recorded["margin"] < 2
    like = [" ".join(text.split()) for text in read_documents(sample("reviews"), text="text").texts[::4]]
    [known] = warnings_of(like)
    assert known.startswith("warning: 100.0% of these documents were in the training of the model")
    like = [f"{text} Indeed" for text in like]
    assert warnings_of(like) == []
    [summary] = warnings_of(like, "--drift")
    assert "of that in training" in summary
    foreign = ["Съешь ещё этих мягких французских булок", "да выпей же чаю"]
    [warning] = warnings_of([*like, *foreign], "--quiet")
    assert "another language" in warning
    assert warning.startswith(f"warning: {len(like) + 1}: ")
    lines = warnings_of(["zq xjw vvk kkjq wwz", "jjq pqz xkx"] * 5, "--drift")
    assert any("sequences of symbols never occurred" in line for line in lines)
    assert any("margin in training, below 0.8" in line for line in lines)
    assert "do not trust the model" in lines[-1]


@pytest.mark.parametrize(
    "options",
    [
        ["--calibrate", "sigmoid", "--kernel", "fast"],
        ["--kernel", "gap:2"],
        ["--kernel", "fast", "--without-texts"],
    ],
)
def test_drift_of_other_models(tmp_path, options):
    report("train", sample("reviews"), *options, "-o", tmp_path / "m")
    assert load(tmp_path / "m").model_.info["drift"]["margin"] > 0
    result = run("predict", tmp_path / "m", "--drift", "--format", "lines", stdin=b"a good kettle")
    assert b"of that in training" in result.stderr


def test_rows_without_a_text_take_no_more_memory(model, monkeypatch):
    """Every reason was kept for the last message, for as long as the process lived."""
    trained, counts = textsvm.load(model), []

    def batches():
        empty = build_corpus([], "the documents", "", [], labelled=False)
        for batch in range(2000):
            rows = [(0, Document(f"{batch}.{i}", "", problem=f"row {batch}.{i} is empty")) for i in range(20)]
            empty.invalid = rows  # `replace` of 20 fields is counted as kept by tracemalloc of Python 3.11
            yield empty
            if batch in (100, 1999):
                counts.append(tracemalloc.get_traced_memory()[0])

    printer = Printer(Console(), trained, PredictedValues(), "jsonl")
    with open(os.devnull, "w", encoding="utf-8") as null:
        monkeypatch.setattr(sys, "stdout", null)
        tracemalloc.start()
        printer.print(batches(), Output("-o", STDOUT, PREDICTIONS))
        tracemalloc.stop()
    assert counts[1] - counts[0] < 20_000  # bytes; the reasons of 38,000 rows take 3,000,000
    message = io.StringIO()
    monkeypatch.setattr(sys, "stderr", message)
    printer.report()
    assert "40,000 of the rows got no label: row 0.0 is empty, row 0.1 is empty," in " ".join(
        message.getvalue().split()
    )


def test_few_texts_are_decided_without_numba(tmp_path):
    path = tmp_path / "m"
    report("train", sample("reviews"), "-o", path)  # the default, whose kernel has weights and words
    seen = (
        "import sys\n"
        "from textsvm.cli import main\n"
        f"sys.argv = ['textsvm', 'predict', {str(path)!r}, '-', '--quiet']\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code\n"
        "print(code, [name for name in ('numba', 'sklearn') if name in sys.modules], file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", seen], input=b"a good day", capture_output=True)
    assert result.stderr == b"0 []\n"
    assert json.loads(result.stdout)["label"]


def test_unsure_is_refused_if_a_class_has_this_name():
    texts = ["win cash now", "cheap cash", "win a prize", "lunch at noon", "see you at noon", "agenda"]
    labels = ["unsure"] * 3 + ["ham"] * 3
    model = CalibratedSVC(SVC(Spectrum(2), device="cpu"), cv=2).fit(texts, labels).model_
    refuses("a class is named 'unsure'", with_unsure, model, [0.8])
