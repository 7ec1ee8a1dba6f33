"""`textsvm serve`: its predictions are those of `textsvm predict`, and no client disturbs another."""

import asyncio
import csv
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command import fails, run
from encoders import static_folder, topics
from refusals import refuses

pytest.importorskip("httptools")

import textsvm
from benchmarks import attacks
from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    GappedKmers,
    Gaussian,
    MultilabelSVC,
    On,
    OneClassSVM,
    Spectrum,
    save,
)
from textsvm.apps.serve import APART, CANCEL, FRAME, LOAD, PREDICT, PROGRESS_NUMBER, app, frames, worker
from textsvm.apps.serve.app import RequestLimits, Service, metrics_text
from textsvm.apps.serve.worker import MOST_TEXTS, TURN, Refusal, ServedModel, Worker
from textsvm.errors import InputError
from textsvm.runtime.http import Hosts, _Turns
from textsvm.sources import texts as text_source

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and process groups of POSIX")
ROOT = Path(__file__).resolve().parent.parent
with open(ROOT / "corpora/samples/messages.csv", encoding="utf-8") as table:
    TEXTS, LABELS = zip(*((row["text"], row["label"]) for row in csv.DictReader(table)), strict=True)
TEXTS, LABELS = list(TEXTS), list(LABELS)
#: Hostile for encodings: empty, blank, combining, unassigned, lone surrogate, long.
ODD = ["", " ", "é", "e\u0301\u0301", "\U000e0fff", "\ud800", "中文", "a" * 3000, "\x00"]


ROWS = [{"title": text[:20], "body": text[20:], "n": len(text) % 7} for text in TEXTS]
NAMED = [{"text": row["title"], "body": row["body"]} for row in ROWS]
ROWS_KERNEL = On("title", Spectrum(2)) + On("body", Spectrum(3))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Model files of every task; of columns, with numbers, and of one called as a name of requests."""
    folder = tmp_path_factory.mktemp("models")
    three = [label if i % 3 else "other" for i, label in enumerate(LABELS)]
    several = [
        (label, "long") if len(text) > 90 else (label,) for text, label in zip(TEXTS, LABELS, strict=True)
    ]
    fitted = {
        "two": (SVC(Spectrum((1, 3))).fit(TEXTS[:200], LABELS[:200]), {"positive": "ham"}),
        "three": (SVC(Spectrum(2), multiclass="ovo").fit(TEXTS[:150], three[:150]), {}),
        "calibrated": (CalibratedSVC(SVC(), cv=3).fit(TEXTS[:150], LABELS[:150]), {}),
        "labels": (MultilabelSVC(Spectrum(2)).fit(TEXTS[:150], several[:150]), {}),
        "numbers": (SVR(Spectrum(2)).fit(TEXTS[:150], [len(text) / 100 for text in TEXTS[:150]]), {}),
        "single": (OneClassSVM(Spectrum(2)).fit(TEXTS[:100]), {"positive": "ham"}),
        "rows": (SVC(ROWS_KERNEL).fit(ROWS, LABELS), {}),
        "numbered": (SVC(ROWS_KERNEL + On("n", Gaussian())).fit(ROWS, LABELS), {}),
        "named": (SVC(On("text", Spectrum(2)) + On("body", Spectrum(3))).fit(NAMED, LABELS), {}),
        "column": (SVC(On("text", Spectrum(2))).fit(NAMED, LABELS), {}),
    }
    for name, (model, info) in fitted.items():
        save(model, folder / f"{name}.textsvm", info=info)
    return folder


PAGE = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian package prometheus)"
)


def recipe(name):
    """A block of the page."""
    return re.search(rf'```\w+ title="{re.escape(name)}"\n(.*?)```', PAGE, re.DOTALL)[1]


def section(title):
    return PAGE.partition(f"\n{title}\n")[2].partition("\n## ")[0]


class Server:
    """A running server and its address."""

    def __init__(self, process, lines):
        self.process, self.lines = process, lines
        self.port = int(lines[-1].rpartition(":")[2])

    def ask(self, method, path, body=None, **headers):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def predict(self, **request):
        status, _, body = self.ask("POST", "/predict", json.dumps(request).encode())
        return status, json.loads(body)

    def metrics(self):
        status, _, body = self.ask("GET", "/metrics")
        assert status == 200
        return parse_metrics(body.decode())

    def worker(self):
        return self.workers()[0]

    def workers(self):
        return [
            *map(int, Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split())
        ]

    def stop(self, number=signal.SIGTERM):
        """Exit code and the rest of stderr."""
        self.process.send_signal(number)
        return self.end()

    def end(self):
        """The same of a server that has its signal: a second one could come after its last line of Python."""
        errors = self.process.communicate(timeout=30)[1]
        return self.process.returncode, errors

    def wait_for(self, words):
        """The next line of stderr with these words."""
        for line in self.process.stderr:
            if words in line:
                return line
        raise AssertionError(f"no line with {words!r}")


@contextmanager
def serving(*arguments, hangup=False, program=("-m", "textsvm"), until="answering at "):
    """A server that has written the line `until`; with `hangup` SIGHUP comes when it begins to load."""
    command = [sys.executable, *program, "serve", *map(str, arguments), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    lines = []
    try:
        for line in process.stderr:
            lines.append(line.strip())
            if line.startswith(until):
                break
            if hangup and line.startswith("loading "):
                process.send_signal(signal.SIGHUP)
        else:
            raise AssertionError(lines)
        yield Server(process, lines)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def with_limits(name, **limits):
    """Arguments of Python that run the command with other limits than its own."""
    code = "import functools; from textsvm.cli import main; from textsvm.apps.serve import commands; "
    code += "from textsvm.runtime import http; "
    return "-c", f"{code}{name} = functools.partial({name}, **{limits}); main()"


@pytest.fixture(scope="module")
def server(models):
    with serving(*sorted(models.glob("*.textsvm")), "--timeout", "2") as started:
        until_answered(
            started, json.dumps({"model": "two", "texts": TEXTS[:99]}).encode()
        )  # by both processes
        yield started


def parse_metrics(text):
    """Values by name and labels; every line must have Prometheus' format, every name type and help."""
    values, types, helped = {}, {}, []
    for line in text.splitlines():
        if match := re.fullmatch(r"# HELP ([a-z_]+) [A-Z].*\.", line):
            helped.append(match[1])
            continue
        if match := re.fullmatch(r"# TYPE ([a-z_]+) (counter|gauge|histogram)", line):
            assert helped[-1] == match[1]
            assert match[1] not in types
            types[match[1]] = match[2]
            continue
        match = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+)\})? ([0-9.e+-]+)', line)
        assert match, line
        assert re.sub("_(bucket|sum|count)$", "", match[1]) in types or match[1] in types, line
        assert (match[1], match[2]) not in values
        values[match[1], match[2] or ""] = float(match[3])
    return values


def predicted(model, texts, folder, *options, code=0):
    """Rows of `textsvm predict`, without ids."""
    given = folder / "texts.jsonl"
    given.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    result = run("predict", model, given, "--text", "text", "-q", *options)
    assert result.returncode == code, result.stderr.decode()
    rows = map(json.loads, result.stdout.decode().splitlines())
    return [{key: value for key, value in row.items() if key != "id"} for row in rows]


# Predictions


def test_a_model_with_an_encoder(tmp_path):
    pytest.importorskip("tokenizers")
    texts, labels = topics(20)
    model = SVC("spectrum:2", encoder=str(static_folder(tmp_path / "e"))).fit(texts, labels)
    save(model, tmp_path / "m.textsvm")
    assert ServedModel("m", str(tmp_path / "m.textsvm")).predict(texts)[1].tolist() == labels


@pytest.mark.parametrize(
    ("name", "options", "fields"),
    [(name, [], {}) for name in ("two", "three", "labels", "numbers", "single")]
    + [(name, ["--top", "2"], {"top": 2}) for name in ("two", "three", "calibrated", "labels")]
    + [("calibrated", ["--proba"], {}), ("calibrated", [], {"probabilities": False})]
    + [("calibrated", ["--top", "2"], {"top": 2, "probabilities": False})],
)
def test_answers_are_those_of_predict(name, options, fields, server, models, tmp_path):
    texts = [*TEXTS[:5], *TEXTS[200:230], *[text for text in ODD if text.strip() and text != "\ud800"]]
    expected = predicted(models / f"{name}.textsvm", texts, tmp_path, *options)
    assert server.predict(model=name, texts=texts, **fields) == (200, {"predictions": expected})
    for text, row in list(zip(texts, expected, strict=True))[-6:]:
        assert server.predict(model=name, text=text, **fields) == (200, row)


def test_null_is_no_value(server):
    for name in ("two", "calibrated"):
        expected = server.predict(model=name, text=TEXTS[0])
        assert expected[0] == 200
        assert server.predict(model=name, text=TEXTS[0], texts=None, top=None, probabilities=None) == expected


@pytest.mark.parametrize(
    ("name", "field"), [("two", "label"), ("single", "label"), ("labels", "labels"), ("numbers", "value")]
)
def test_empty_texts_get_no_label(name, field, server, models, tmp_path):
    texts = ["", TEXTS[0], " \n", TEXTS[1], "\u3000"]
    before = server.metrics()["textsvm_texts_total", f'model="{name}"']
    _, answer = server.predict(model=name, texts=texts)
    expected = predicted(models / f"{name}.textsvm", texts, tmp_path, code=1)
    for row in expected[::2]:
        assert re.fullmatch(r"line \d: its 'text' is empty", row["reason"])
        row["reason"] = "the text is empty"
    assert answer == {"predictions": expected}
    assert server.predict(model=name, text="") == (200, {field: None, "reason": "the text is empty"})
    assert server.metrics()["textsvm_texts_total", f'model="{name}"'] == before + 2


@pytest.mark.parametrize(
    ("name", "columns"), [("rows", ["title", "body"]), ("numbered", ["title", "body", "n"])]
)
def test_rows_of_columns(name, columns, server, models):
    """As "text", or in "texts"."""
    model = textsvm.load(models / f"{name}.textsvm")
    rows = [{key: row[key] for key in columns} for row in ROWS[100:120]]
    values, labels = model.decision_function(rows), model.predict(rows)
    status, answer = server.predict(model=name, texts=rows)
    assert status == 200
    assert [row["label"] for row in answer["predictions"]] == labels.tolist()
    assert [row["decision"] for row in answer["predictions"]] == pytest.approx(values)
    _, single = server.predict(model=name, text=rows[3])
    assert single["label"] == labels[3]
    assert single["decision"] == pytest.approx(values[3])


def test_columns_of_train_are_those_of_requests(tmp_path):
    """Joined columns by their names, and columns of weight 0; one of two columns is no text."""
    table = tmp_path / "t.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        pairs = enumerate(zip(TEXTS, LABELS, strict=True))
        rows = [[label, text[:40], text[40:], i] for i, (text, label) in pairs]
        csv.writer(file).writerows([["label", "title", "body", "n"], *rows])
    apart = ["--text", "title", "--text", "body", "--numbers", "n"]
    for name, options in (("joined", ["--text", "title,body"]), ("apart", apart)):
        path = str(tmp_path / f"{name}.textsvm")
        run("train", table, *options, "--label", "label", "-o", path, "-q")
        model, served = textsvm.load(path), ServedModel(name, path)
        assert served.as_dict()["columns"] == ["title", "body"]
        row = {"title": "win cash", "body": "now"}
        [decision] = served.predict(served.read([row]))[2]
        examples = ["win cash\nnow"] if name == "joined" else [row]
        assert decision == pytest.approx(model.decision_function(examples)[0])
        for wrong in ("win cash", {"title": "win"}, {"title": "win", "body": 3}, row | {"x": 1}):
            with pytest.raises(Refusal):
                served.read([wrong])
    assert served.read([row | {"n": 3}])


def test_rows_without_texts_get_no_label(server):
    rows = [{"title": "", "body": " "}, {"title": "", "body": "now"}]
    _, answer = server.predict(model="rows", texts=rows)
    assert answer["predictions"][0] == {"label": None, "reason": "the text is empty"}
    assert answer["predictions"][1]["label"]


def test_odd_texts_are_answered(server):
    status, answer = server.predict(model="two", texts=ODD)
    assert status == 200
    assert len(answer["predictions"]) == len(ODD)
    assert server.predict(model="two", texts=[]) == (200, {"predictions": []})


def test_requests_at_the_same_time_get_their_own_answers(server):
    alone = [server.predict(model="two", text=text)[1] for text in TEXTS[:64]]

    async def ask(k):
        answers = []
        for i in range(k, k + 20):
            model = "two" if i % 3 else "three"
            answers.append((i, model, await post(server.port, {"model": model, "text": TEXTS[i % 64]})))
        return answers

    async def everybody():
        return await asyncio.gather(*(ask(k) for k in range(64)))

    three = [server.predict(model="three", text=text)[1] for text in TEXTS[:64]]
    for answers in asyncio.run(everybody()):
        for i, model, answer in answers:
            assert answer == (200, (alone if model == "two" else three)[i % 64])


async def post(port, request, seconds=30):
    """Status and JSON of POST /predict on a connection of its own."""
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        return await asyncio.wait_for(read_answer(reader), seconds)
    finally:
        writer.close()


async def read_answer(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    size = int(re.search(r"content-length: (\d+)", head)[1])
    body = await reader.readexactly(size)
    return int(head.split()[1]), json.loads(body) if body else None


class Scripted:
    """A worker of this process, without pipes."""

    def __init__(self, path):
        self.sent = []
        self.worker = Worker(self.sent.extend)
        self.worker.models["two"] = ServedModel("two", str(path))
        self.worker.max_texts, self.worker.max_characters = 5000, 10**6
        self.model = self.worker.models["two"]

    def ask(self, number, **request):
        self.worker._receive(number, PREDICT, json.dumps(request).encode())


def test_large_requests_take_turns_with_small_ones(models):
    scripted = Scripted(models / "two.textsvm")
    scripted.model.room, sizes = 10**6, []
    predict = scripted.model.predict
    scripted.model.predict = lambda texts: sizes.append(len(texts)) or predict(texts)
    scripted.ask(1, texts=["win cash"] * 1000)
    scripted.worker.call()
    for number in range(2, 40):
        scripted.ask(number, text="lunch")
    answered = scripted.worker.call()
    assert sizes == [MOST_TEXTS, MOST_TEXTS]  # of the large request TURN and what the others leave
    assert sorted(number for number, _, _ in answered) == list(range(2, 40))
    assert TURN < MOST_TEXTS / 4


def test_a_call_is_as_long_as_its_time_allows(models):
    model = ServedModel("two", str(models / "two.textsvm"))
    model.room = 500
    model.fit_room(500, 1.0)
    assert model.room == 5
    for _ in range(30):
        model.fit_room(500, 0.001)
    assert model.room > 900


def spend(seconds):
    """Use a processor."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@pytest.mark.parametrize("texts", [["win cash now"], ["win cash now", "lunch"], ["lunch at noon? " * 9]])
def test_a_model_returns_to_short_requests_after_a_slow_call(texts, models):
    """A slow call (functions are compiled, memory is swapped) sends no later request away for ever."""
    scripted = Scripted(models / "two.textsvm")
    predict = scripted.model.predict
    scripted.model.predict = lambda texts: spend(0.4) or predict(texts)
    scripted.ask(1, text="win cash now")
    assert [answer[:2] for answer in scripted.worker.call()] == [(1, 200)]
    scripted.model.predict = predict
    assert scripted.model.room == 1
    scripted.ask(2, texts=texts)
    assert scripted.sent == [(2, APART, b"")]
    scripted.model.measured -= 2 * sum(map(len, texts))  # seconds
    scripted.ask(3, texts=texts)
    scripted.ask(4, texts=["noon " * 9])  # a single request tries
    assert scripted.sent[1:] == [(4, APART, b"")]
    while scripted.worker.jobs:
        answers = scripted.worker.call()
    assert [answer[:2] for answer in answers] == [(3, 200)]
    for number in range(5, 20):  # at once, without a pause
        scripted.ask(number, texts=texts[:1])
        assert [answer[:2] for answer in scripted.worker.call()] == [(number, 200)]


def test_short_requests_do_not_put_off_the_trials_of_longer_requests(models, monkeypatch):
    scripted, now, longer = Scripted(models / "two.textsvm"), [1000.0], "see you at noon? " * 12
    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    scripted.model.room, scripted.model.measured = 50, now[0]
    for number in range(1, 300):
        now[0] += 0.1
        scripted.ask(number, text="win cash now")
        scripted.worker.call()
    assert scripted.model.room == 50
    scripted.ask(300, text=longer)
    assert [answer[:2] for answer in scripted.worker.call()] == [(300, 200)]


def test_trials_of_a_slow_model_delay_others_for_a_small_share_of_the_time(models, monkeypatch):
    scripted, now, busy = Scripted(models / "two.textsvm"), [1000.0], 0.0
    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    scripted.model.fit_room(4000, 4.0)  # 1 ms for each symbol
    for number in range(1, 20_000):
        now[0] += 0.01
        scripted.ask(number, text="noon " * 20)
        if scripted.worker.jobs:
            scripted.worker.jobs.clear()
            busy, now[0] = busy + 0.1, now[0] + 0.1
            scripted.model.fit_room(100, 0.1)
    assert 2 < busy < 0.1 * (now[0] - 1000)
    now[0] += 1e6
    scripted.ask(0, text="n" * (worker.FIRST_ROOM + 1))
    assert not scripted.worker.jobs
    scripted.ask(0, text="n" * worker.FIRST_ROOM)
    assert scripted.worker.jobs


def test_calls_while_another_model_is_loaded_do_not_shrink(models, monkeypatch):
    """The seconds of a processor are those of the process: with them the room fell to a symbol."""
    scripted, end = Scripted(models / "two.textsvm"), threading.Event()
    before = scripted.model.room

    def prepare(*arguments):
        spend(0.1)
        assert end.wait(60)

    monkeypatch.setattr(worker, "ServedModel", prepare)
    load = {"models": {"a": "a"}, "names": ["a"], "max_texts": 9, "max_characters": 99}
    scripted.worker._receive(1, LOAD, json.dumps(load).encode())
    predict = scripted.model.predict
    scripted.model.predict = lambda texts: spend(0.1) or predict(texts)
    scripted.ask(2, model="two", text="win cash now")
    scripted.worker.call()
    assert scripted.model.room == before
    end.set()
    while not scripted.sent:
        time.sleep(0.001)
    scripted.ask(3, model="two", text="win cash now")
    scripted.worker.call()
    assert scripted.model.room < 12


def test_calls_stay_large_on_a_busy_computer(models, monkeypatch):
    """The processor time decides: a call that waits 0.2 s for a core is not a slow call."""
    scripted = Scripted(models / "two.textsvm")
    monkeypatch.setattr(time, "process_time", lambda: 0.0)  # after a pause the memory itself may be slow
    predict, before = scripted.model.predict, scripted.model.room
    scripted.model.predict = lambda texts: time.sleep(0.2) or predict(texts)  # another program has the core
    scripted.ask(1, texts=TEXTS[:100])
    while scripted.worker.jobs:
        scripted.worker.call()
    assert scripted.model.room >= before


def test_of_too_many_requests_some_are_answered_in_time(models):
    scripted = Scripted(models / "two.textsvm")
    scripted.model.room, scripted.model.fit_room = 400, lambda *_: None
    for number in range(1, 11):
        scripted.ask(number, texts=["lunch now?"] * 80)
    lane = scripted.worker
    answered = [answer[0] for _ in range(10) for answer in lane.call()]  # half of all 20 calls
    assert answered[:2] == [1, 2]
    scripted.ask(11, text="win cash")
    assert 11 in [answer[0] for answer in lane.call()]


#: Compiled functions, with the number of their types of arguments.
LATER = """
import json, sys, numba
from textsvm.apps.serve.worker import ServedModel
def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("textsvm.")]
    values = [value for module in modules for value in vars(module).values()]
    values = [vars(value).get("_dispatcher", value) for value in values if hasattr(value, "__dict__")]
    return {str(value): len(value.overloads) for value in values if hasattr(value, "overloads")}
model, texts = ServedModel("two", sys.argv[1]), json.loads(sys.argv[2])
before = compiled()
assert len(before) > 20
for few in ([*texts], texts * 8, [" ".join(texts) * 5], *([text] for text in texts)):
    model.predict(few)
assert compiled() == before, compiled().items() - before.items()
"""


def test_requests_compile_no_functions(models):
    texts = [*TEXTS[:40], *(text for text in ODD if text != "\ud800"), "e\u0301" * 300 + "中文" * 500]
    texts.append("".join(map(chr, range(0x100, 0xA00))))
    command = [sys.executable, "-c", LATER, models / "two.textsvm", json.dumps(texts)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT)


def test_a_text_that_fails_does_not_take_others_with_it(models, capsys):
    scripted = Scripted(models / "two.textsvm")
    predict = scripted.model.predict

    def fail(texts):
        if "bad" in texts:
            raise ZeroDivisionError
        return predict(texts)

    scripted.model.predict = fail
    scripted.ask(1, text="bad")
    scripted.ask(2, text="good")
    scripted.ask(3, texts=["good", "bad", "good"])
    assert {number: status for number, status, _ in scripted.worker.call()} == {1: 500, 2: 200, 3: 500}
    assert not scripted.worker.jobs
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_part_that_takes_too_much_memory_leaves_no_rows(models, monkeypatch):
    """The rows of other parts are added once, and each repeated call is measured by its own symbols."""
    scripted, fitted = Scripted(models / "two.textsvm"), []
    scripted.model.room, scripted.model.fit_room = 10**6, lambda symbols, _: fitted.append(symbols)
    rows_of = worker.judge.rows_of
    monkeypatch.setattr(
        worker.judge, "rows_of", lambda *given: _raise(MemoryError) if len(given[1]) == 3 else rows_of(*given)
    )
    scripted.ask(1, texts=["lunch", "now"])
    scripted.ask(2, texts=["win", "cash", "now"])
    scripted.ask(3, text="lunch")
    answers = {number: (status, body) for number, status, body in scripted.worker.call()}
    assert {number: status for number, (status, _) in answers.items()} == {1: 200, 2: 503, 3: 200}
    assert len(json.loads(answers[1][1])["predictions"]) == 2
    assert fitted == [8, 5]
    assert scripted.worker.jobs == []


def test_an_answer_that_takes_too_much_memory_is_refused(models, monkeypatch):
    scripted = Scripted(models / "two.textsvm")
    scripted.ask(1, text="lunch")
    monkeypatch.setattr(scripted.model, "count", lambda *_: _raise(MemoryError))
    assert [status for _, status, _ in scripted.worker.call()] == [200]
    scripted.ask(2, text="lunch")
    monkeypatch.setattr(worker, "text_of", lambda _: _raise(MemoryError))
    assert [(number, status) for number, status, _ in scripted.worker.call()] == [(2, 503)]


def _raise(error):
    raise error


def test_predictions_go_on_while_another_model_is_prepared(models, monkeypatch):
    scripted, answers = Scripted(models / "two.textsvm"), []
    preparing, end, prepare = threading.Event(), threading.Event(), Spectrum.predictor

    def slow(*arguments):
        preparing.set()
        assert end.wait(60)
        return prepare(*arguments)

    monkeypatch.setattr(Spectrum, "predictor", slow)
    settings = {
        "models": {"three": str(models / "three.textsvm")}, "names": ["three"],
        "max_texts": 9, "max_characters": 99,
    }  # fmt: skip
    scripted.worker._receive(1, LOAD, json.dumps(settings).encode())
    try:
        assert preparing.wait(60)
        scripted.ask(2, model="two", text="win cash")
        call = threading.Thread(target=lambda: answers.extend(scripted.worker.call()), daemon=True)
        call.start()
        call.join(20)
        assert [answer[:2] for answer in answers] == [(2, 200)]
        assert scripted.worker.models["three"] is None
    finally:
        end.set()


# Wrong requests

WRONG = [
    (b"", 400, "not JSON"),
    (b"{", 400, "not JSON"),
    (b"\xff\xfe", 400, "not UTF-8"),
    (b'{"text": "\xff"}', 400, "not UTF-8 from byte 10"),
    (b"[" * 49_000, 400, "nested too deeply"),
    (b'{"text": "x", "top": ' + b"9" * 5000 + b"}", 400, "a number has too many digits"),
    (b"[" * 2_000_000, 413, "50,000 values"),
    (b"[" + b"{}," * 600_000 + b"{}]", 413, "50,000 values"),
    (b"[" + b"1," * 600_000 + b"1]", 413, "50,000 values"),
    (b"{" + b",".join(b'"%d":0' % i for i in range(100_000)) + b"}", 413, "50,000 values"),
    (b'{"text":' * 50_000, 413, "50,000 values"),
    (b'{"text": "' + b'\\"' * 90_000, 400, "not JSON"),
    (b'"' * 99_999, 400, "not JSON"),
    (b"1" * 10_000, 400, ""),
    (b'{"text": "a", "text": "b"}', 400, "the key 'text' twice"),
    (b'{"model": "two", "text": "a", "m\\u006fdel": "none"}', 400, "the key 'model' twice"),
    (b'{"model": "rows", "text": {"title": "a", "body": "b", "title": "c"}}', 400, "the key 'title' twice"),
    (b'{"model": "rows", "texts": [{"title": "a", "body": "b", "body": "b"}]}', 400, "the key 'body' twice"),
    (b'{"a": {"b": [{"c": 1, "c": 1}]}, "text": "a"}', 400, "the key 'c' twice"),
    (b'{"%b": 1, "%b": 2}' % (b"x" * 9000, b"x" * 9000), 400, "x' twice"),
    (b"[]", 400, '"text" or "texts"'),
    (b"null", 400, '"text" or "texts"'),
    (b"{}", 400, '"text" or "texts"'),
    (b'{"text": "a", "texts": ["a"]}', 400, '"text" or "texts"'),
    (b'{"model": "two", "text": 1}', 400, "must be a string"),
    (b'{"model": "two", "text": null}', 400, '"text" or "texts"'),
    (b'{"model": "two", "text": null, "texts": null}', 400, '"text" or "texts"'),
    (b'{"model": "two", "text": "a", "topp": null}', 400, "no option 'topp'"),
    (b'{"model": "two", "texts": "abc"}', 400, "list of strings"),
    (b'{"model": "two", "texts": ["a", ["b"]]}', 400, "list of strings"),
    (b'{"model": "two", "text": "a", "topp": 3}', 400, "no option 'topp'"),
    (b'{"model": "two", "text": "a", "top": 0}', 400, '"top" must be'),
    (b'{"model": "two", "text": "a", "top": true}', 400, '"top" must be'),
    (b'{"model": "numbers", "text": "a", "top": 1}', 400, '"top" must be'),
    (b'{"model": "two", "text": "a", "probabilities": true}', 400, "calibrated"),
    (b'{"model": "calibrated", "text": "a", "probabilities": 1}', 400, "true or false"),
    (b'{"text": "a"}', 400, 'give "model"'),
    (b'{"model": "none", "text": "a"}', 404, "no model 'none'"),
    (b'{"model": ["two"], "text": "a"}', 400, '"model" must be a name, one of'),
    (json.dumps({"model": "two", "texts": ["a"] * 1001}).encode(), 413, "1,001 texts"),
    (json.dumps({"model": "two", "text": "a" * 100_001}).encode(), 413, "100,001 characters"),
    (b" " * (2 << 20) + b"{}", 413, "2,097,152 bytes"),
]
WRONG += [
    (json.dumps(request).encode(), 400, words)
    for request, words in (
        ({"model": "rows", "text": "win cash"}, "an object with the columns title, body"),
        ({"model": "rows", "text": {"title": "win"}}, "the column body is missing"),
        ({"model": "rows", "texts": [{"title": "win"}]}, "the column body is missing"),
        ({"model": "rows", "text": {"title": "w", "body": "", "y": 1}}, "no column 'y'; there are title"),
        ({"model": "rows", "texts": [{"title": "w", "body": "x", "y": 1}]}, "no column 'y'"),
        ({"model": "named", "text": "win cash"}, "an object with the columns text, body"),
        ({"model": "column", "text": {"txet": "win cash"}}, "the column text is missing"),
        ({"model": "rows", "body": "x", "text": "win"}, "no option 'body'"),
        ({"model": "rows", "text": {"title": "win", "body": 1}}, "column 'body' must hold a string, not 1"),
        ({"model": "rows", "texts": {"title": "win", "body": "x"}}, "a list of such objects"),
        ({"model": "rows", "texts": ["win"]}, "a list of such objects"),
        ({"model": "rows", "title": "win", "body": "x"}, 'either "text" or "texts"'),
        ({"model": "numbered", "text": {"title": "win", "body": "x"}}, "the column n is missing"),
        (
            {"model": "numbered", "text": {"title": "win", "body": "x", "n": "1"}},
            "'n' must hold a number, not",
        ),
        ({"model": "numbered", "text": {"title": "win", "body": "x", "n": None}}, "'n' must hold a number"),
    )
]


@pytest.mark.parametrize(("body", "status", "words"), WRONG, ids=range(len(WRONG)))
def test_wrong_requests_get_a_sentence(body, status, words, server):
    code, headers, answer = server.ask("POST", "/predict", body)
    assert code == status
    assert headers["Content-Type"] == "application/json"
    error = json.loads(answer)["error"]
    assert words in error
    assert len(error) <= 300
    assert "\n" not in error


def test_a_body_without_length_is_bounded(server):
    def endless():
        for _ in range(100):
            yield b"a" * (1 << 16)

    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(
            "POST", "/predict", endless(), encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
        )
        assert connection.getresponse().status == 413
    finally:
        connection.close()
    assert server.predict(model="two", text="a")[0] == 200


def test_other_methods_and_paths(server):
    status, headers, _ = server.ask("GET", "/predict")
    assert (status, headers["Allow"]) == (405, "POST")
    assert server.ask("HEAD", "/healthz")[::2] == (200, b"")
    for method, path, expected in [("GET", "/nothing", 404), ("POST", "/models", 405)]:
        status, headers, body = server.ask(method, path, b"{}")
        assert (status, headers["Content-Type"]) == (expected, "application/json")
        assert f"there is no {method} {path}; there are " in json.loads(body)["error"]
    _, headers, _ = server.ask("POST", "/predict", b"{}", Origin="http://example.org")
    assert "Access-Control-Allow-Origin" not in headers
    for garbage in (b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", POST + b"Content-Length: -1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
            client.sendall(garbage)
            assert received(client) == (400, "this is not a request of HTTP/1.1")


def received(client):
    """Status and sentence of an answer after which the server closes the connection."""
    head, _, body = b"".join(iter(lambda: client.recv(1 << 16), b"")).partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    return int(head.split()[1]), json.loads(body)["error"]


def exchange(port, *parts, pause=0.05):
    """Answers, as status and JSON, to bytes in packets of their own; whether the server closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            with suppress(ConnectionError):
                client.sendall(part)
            time.sleep(pause)
        answers, received, closed = [], b"", False
        client.settimeout(1)
        try:
            while data := client.recv(1 << 16):
                received += data
                client.settimeout(0.4)
            closed = True
        except TimeoutError:
            pass
        except ConnectionError:
            closed = True
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        size = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        answers.append((int(head.split()[1]), json.loads(received[:size] or b"null")))
        received = received[size:]
    return answers, closed


BODY = b'{"model": "two", "text": "win cash now"}'
LENGTH, CHUNKS = b"Content-Length: %d\r\n" % len(BODY), b"Transfer-Encoding: chunked\r\n"
CHUNK = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
POST = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"
SERVED = ["calibrated", "column", "labels", "named", "numbered", "numbers", "rows", "single", "three", "two"]
HEALTHY = {"status": "ok", "ready": SERVED, "missing": []}
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl_may_offer_http2(server):
    command = ["curl", "-s", "--http2", "-d", BODY.decode(), f"http://127.0.0.1:{server.port}/predict"]
    assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["label"] == "ham"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java")
def test_the_client_of_java_may_offer_http2(server, tmp_path):
    (tmp_path / "Client.java").write_text(JAVA)
    address = f"http://127.0.0.1:{server.port}/predict"
    command = ["java", tmp_path / "Client.java", address, BODY.decode()]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert said.count('200 {"label": "ham"') == 3


JAVA = """
import java.net.URI;
import java.net.http.*;
public class Client {
    public static void main(String[] given) throws Exception {
        var client = HttpClient.newHttpClient();
        var body = HttpRequest.BodyPublishers.ofString(given[1]);
        for (int i = 0; i < 3; i++) {
            var request = HttpRequest.newBuilder(URI.create(given[0])).POST(body).build();
            var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.body());
        }
    }
}
"""


FRAMED = POST + CHUNKS + b"\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (FRAMED + CHUNK[:-2] + b"X: " + b"e" * 50_000, 400),
        (FRAMED + CHUNK[:-2] + b"X: a\r\n" * 10_000, 400),
        (FRAMED + b"1\r\n{\r\n" * 10_000, 400),
        (FRAMED + b"1;" + b"e" * 50_000, 400),
        (FRAMED + b"0" * 50_000, 400),
        (b"\r\n" * 20_000, 400),
        (HEALTH[:-2] + b"X: a\r\n" * 200 + b"\r\n", 431),
        (HEALTH[:-2] + b"X: " + b"e" * 50_000, 431),
        (b"GET /" + b"e" * 50_000, 431),
        (POST + LENGTH + CHUNKS + b"\r\n" + CHUNK, 400),
        (POST + b"Content-Length: abc\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n" + POST + LENGTH + b"\r\n" + BODY, 405),
        (b"GET /healthz HTTP/1.1\r\nHost: :80\r\nConnection: close\r\n\r\n", 421),
        (b"GET http:///healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://:8000/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 421),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (POST + b"Transfer-Encoding: identity, chunked\r\n\r\n", 501),
    ],
)
def test_framing_hosts_without_a_name_and_other_encodings_are_refused_once(request_, status, server):
    answers, closed = exchange(server.port, request_)
    assert ([answer[0] for answer in answers], closed) == ([status], True)


def test_answers_keep_their_order_and_are_given_once(server):
    answer, request_ = server.predict(**json.loads(BODY)), POST + LENGTH + b"\r\n" + BODY
    assert exchange(server.port, request_ * 40) == ([answer] * 40, False)
    for bad in (
        b"garbage\r\n\r\n",
        FRAMED + b"x",
        POST + LENGTH + CHUNKS + b"\r\n",
        POST + b"X: " + b"e" * 50_000,
    ):
        answers, closed = exchange(server.port, request_ * 3 + bad)
        assert (answers[:3], closed) == ([answer] * 3, True)
        assert [status for status, _ in answers[3:]] in ([], [400], [431])
    for bad in (FRAMED + CHUNK, request_):  # a refused body that does not end, or is wrong, has its answer
        refused = bad.replace(b"/predict", b"/nothing").replace(LENGTH, b"Content-Length: 90\r\n")
        answers, closed = exchange(
            server.port, refused[:-9] + b"\r\nx" * 9, pause=3 if bad is request_ else 0.1
        )
        assert (len(answers), answers[0][0] in (400, 404), closed) == (1, True, True)


# Bodies


def test_a_compressed_body_is_refused(server):
    status, headers, answer = server.ask("POST", "/predict", BODY, **{"Content-Encoding": "gzip"})
    assert (status, headers["Accept-Encoding"]) == (415, "identity")
    assert "Content-Encoding; send it as it is" in json.loads(answer)["error"]
    assert server.ask("POST", "/predict", BODY, **{"Content-Encoding": "Identity"})[0] == 200


def test_characters_are_those_of_the_normal_form(server):
    assert worker.symbols_of("win cash") == 8
    assert worker.symbols_of("\ufdfa\u00e9\ud800\U0010ffff\U0002f800") == 18 + 4
    status, answer = server.predict(model="two", text="\ufdfa" * 6000)
    assert (status, answer["error"][:18]) == (413, "a text has 108,000")
    assert server.predict(model="two", text="\ufdfa" * 5000)[0] == 200


def test_long_texts_go_to_the_second_process(models):
    scripted = Scripted(models / "two.textsvm")
    request = {"texts": ["lunch", "win cash " * 1000, "lunch"]}
    scripted.ask(1, **request)
    assert (scripted.sent, scripted.worker.jobs) == ([(1, APART, b"")], [])
    scripted.worker._apart = True
    scripted.ask(1, **request)
    scripted.ask(2, text="lunch")
    answers = []
    while scripted.worker.jobs:
        answers += scripted.worker.call()
    rows = {number: json.loads(body) for number, _, body in answers}
    assert [row["label"] for row in rows[1]["predictions"]] == ["ham", "ham", "ham"]
    assert rows[1]["predictions"][0] == rows[2]


@contextmanager
def asking(server, number=1, **request):
    """Threads that send a request again and again; the answers."""
    answers, end = [], threading.Event()

    def ask():
        while not end.is_set():
            with suppress(ConnectionError):
                answers.append(server.predict(**request))

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    yield answers
    end.set()
    for thread in threads:
        thread.join(30)


def test_large_bodies_and_long_texts_are_predicted_apart(models):
    """By a second process, which the first of them starts; answers and counters are as those of one."""
    texts = TEXTS[:300]
    small, large = json.dumps({"text": "lunch"}).encode(), json.dumps({"texts": texts}).encode()
    with serving(models / "two.textsvm") as server:
        assert len(server.workers()) == 1
        alone = [server.predict(text=text)[1] for text in TEXTS[:20]]
        assert len(server.workers()) == 1
        until_answered(server, large)
        assert server.predict(texts=texts)[1]["predictions"][:20] == alone
        first, second = server.workers()
        assert os.getpriority(os.PRIO_PROCESS, second) == min(
            os.getpriority(os.PRIO_PROCESS, first) + worker.NICENESS, 19
        )
        assert server.predict(text="win cash " * 400)[0] == 200  # a small body with a long text
        values = server.metrics()
        assert values["textsvm_texts_total", 'model="two"'] == 20 + 2 * len(texts) + 1
        labels = [values[key] for key in values if key[0] == "textsvm_predictions_total"]
        assert sum(labels) == 20 + 2 * len(texts) + 1
        os.kill(second, signal.SIGSTOP)  # the second process delays no small request
        with asking(server, texts=texts):
            assert {server.ask("POST", "/predict", small)[0] for _ in range(50)} == {200}
            os.kill(second, signal.SIGKILL)
            assert "(-9)" in server.wait_for("the process for large requests has ended")
        until_answered(server, large)
        assert server.predict(texts=texts)[1]["predictions"][:20] == alone
        assert server.workers()[0] == first
        os.kill(first, signal.SIGKILL)  # requests of the second process go on
        assert server.predict(texts=texts)[0] in (200, 503)
        until_answered(server, large)


@pytest.mark.parametrize("error", [OSError(12, "Cannot allocate memory"), MemoryError()])
def test_a_second_process_that_cannot_be_started_is_a_503(error, monkeypatch):
    async def ask():
        service, _ = scripted_service(None, monkeypatch)
        monkeypatch.setattr(service, "_start", lambda apart: _raise(error))
        return await service._predict_apart(b"{}", time.monotonic())

    assert asyncio.run(ask()) == app._BUSY


def test_the_start_of_the_second_process_counts_as_waiting(monkeypatch):
    """So that a client waits for `--timeout` at most, and not for a start and a prediction."""

    async def refused() -> float:
        service, _ = scripted_service(None, monkeypatch)
        service.limits = RequestLimits(timeout=2.5)
        link = app._Link(lambda link: None, lambda name: None)
        link._stdin, link.unread_bytes = SimpleNamespace(write=lambda data: None), lambda: 0
        link.process = SimpleNamespace(kill=lambda: None)

        async def start():
            await asyncio.sleep(2)
            service._apart = link

        monkeypatch.setattr(service, "_open", start)
        task, clock = asyncio.create_task(service._watch()), time.monotonic()
        answer = await service._predict_apart(b"{}", clock)
        assert (answer.status, b"no prediction within 2.5 seconds" in answer.body) == (503, True)
        task.cancel()
        return time.monotonic() - clock

    assert asyncio.run(refused()) < 4.4  # 4.5 if the start did not count


def test_a_second_process_that_hangs_is_replaced(models):
    large = json.dumps({"texts": TEXTS[:300]}).encode()
    with serving(models / "two.textsvm", "--timeout", "1") as server:
        until_answered(server, large)
        os.kill(server.workers()[1], signal.SIGSTOP)
        assert server.ask("POST", "/predict", large)[0] == 503
        assert server.predict(text="a")[0] == 200
        assert "(-9)" in server.wait_for("the process for large requests has ended")
        until_answered(server, large)


def test_a_model_that_does_not_load_twice_answers_short_texts(models, tmp_path):
    """As if memory were too small for both processes: requests that worked go on to work."""
    path, large = tmp_path / "model.textsvm", {"model": "model", "texts": TEXTS[:300]}
    shutil.copy(models / "two.textsvm", path)
    with serving(path, models / "two.textsvm") as server:
        (tmp_path / "new").write_bytes(b"no model")
        os.replace(tmp_path / "new", path)
        until_answered(server, json.dumps({**large, "model": "two"}).encode())
        assert "it answers no large requests until the next reload" in server.wait_for("model.textsvm")
        assert server.predict(**large)[0] == 503
        for _ in range(30):
            assert server.predict(model="model", text="lunch")[0] == 200
            assert server.ask("GET", "/healthz")[0] == 200
            time.sleep(0.1)
        shutil.copy(models / "two.textsvm", tmp_path / "new")
        os.replace(tmp_path / "new", path)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("loaded again: model, two")
        assert server.predict(**large)[0] == 200


def test_both_processes_have_the_same_models(models, tmp_path):
    """A file that is replaced between their starts is loaded by both, as are all files at SIGHUP."""
    path, texts = tmp_path / "model.textsvm", TEXTS[:300]

    def replace_by(model):
        save(model, path)
        return [row["decision"] for row in decisions(path)]

    def decisions(path):
        with serving(path) as other:
            return [other.predict(text=text)[1] for text in TEXTS[:3]]

    def agree(values):
        deadline = time.monotonic() + 30
        while True:
            small = [server.predict(text=text)[1]["decision"] for text in TEXTS[:3]]
            status, answer = server.predict(texts=texts)
            assert status in (200, 503)  # the second process starts
            large = [row["decision"] for row in answer.get("predictions", [])[:3]]
            if small == large == values:
                return
            assert time.monotonic() < deadline
            time.sleep(0.1)

    old = replace_by(SVC(Spectrum((1, 3))).fit(TEXTS[:60], LABELS[:60]))
    with serving(f"m={path}") as server:
        assert [server.predict(text=text)[1]["decision"] for text in TEXTS[:3]] == old
        agree(replace_by(SVC(Spectrum(2)).fit(TEXTS[:60], LABELS[:60])))
        newer = replace_by(SVC(Spectrum(3)).fit(TEXTS[:60], LABELS[:60]))
        server.process.send_signal(signal.SIGHUP)
        agree(newer)
        assert server.metrics()["textsvm_reload_failures_total", 'model="m"'] == 0
        assert server.stop() == (0, "loaded again: m\n" * 2)


def test_answers_are_bounded(tmp_path):
    labels = [f"a class with a long name, number {i % 300}" for i in range(600)]
    texts = [f"{i * i} {label}" for i, label in enumerate(labels)]
    save(SVC(Spectrum(2)).fit(texts, labels), tmp_path / "many.textsvm")
    scripted = Scripted(tmp_path / "many.textsvm")
    scripted.ask(1, texts=["lunch"] * 1000)
    [(_, status, body)] = scripted.sent
    assert (status, '"top": 3' in json.loads(body)["error"]) == (413, True)
    scripted.ask(2, texts=["lunch"] * 1000, top=3)
    scripted.ask(3, texts=["lunch"] * 50)
    model, sizes = scripted.model, {job.number: job.answer_bytes for job in scripted.worker.jobs}
    answers = {}
    while scripted.worker.jobs:
        answers |= {number: body for number, _, body in scripted.worker.call()}
    assert set(answers) == {2, 3}
    for number, body in answers.items():
        assert 0.7 * sizes[number] < len(body) < 1.3 * sizes[number]
    for number in range(10, 40):
        scripted.ask(number, texts=["lunch"] * 150)
    assert scripted.sent[-1][1] == 503
    scripted.ask(50, text="lunch")  # a small answer is never refused
    assert scripted.worker.jobs[-1].number == 50
    assert model.room > 0


def test_the_largest_that_waits_for_its_client_gives_way():
    class Connection:
        held = 0

        def give_way(self):
            gone.append(self)

    turns, gone = _Turns(100), []
    first, second, third, answering = (Connection() for _ in range(4))
    turns.oldest_first = dict.fromkeys((first, second, third))
    for connection, size in [(first, 30), (second, 40), (answering, 30)]:
        turns.hold(connection, size)
    assert not gone
    turns.hold(third, 20)
    assert (gone, turns.held) == ([second], 80)
    turns.hold(answering, 90)  # its bytes are with the application
    assert gone == [second, first, third]


def test_short_requests_go_before_the_rest_of_long_requests():
    class Connection:
        """A connection with a number of pieces; `length` are bytes of its request before the next."""

        def __init__(self, name, pieces, length):
            self.name, self.pieces, self.length = name, pieces, length
            self.used, self.requests, self.queued, self.loop = 0.0, 0, False, loop

        def parse(self):
            self.pieces, self.requests = self.pieces - 1, self.requests + 10
            order.append(self.name)

        def go_on(self):
            if self.pieces > 0:
                turns.add(self)

    order, later = [], []
    loop = SimpleNamespace(call_soon=lambda function, *arguments: later.append((function, arguments)))
    turns = _Turns()
    for i in range(20):
        turns.add(Connection(f"long {i}", 5, 1 << 20))
    turns.add(Connection("a", 3, 0))
    turns.add(Connection("b", 3, 0))
    while later:
        function, arguments = later.pop()
        function(*arguments)
    assert sorted(name for name in order if name in "ab") == list("aaabbb")
    assert order.index("b") < 3
    assert len([name for name in order[: len(order) - order[::-1].index("b")] if name not in "ab"]) <= 3
    rest = [name for name in order if name not in "ab"]
    assert len(set(rest[:20])) == 20  # each has had a turn before one has a second


def test_one_turn_in_four_is_for_long_requests_while_both_wait():
    loop, turns = SimpleNamespace(call_soon=lambda *_: None), _Turns()
    for long in [True] * 40 + [False] * 120:
        turns.add(SimpleNamespace(length=long << 20, used=0.0, loop=loop))
    order = []
    for _ in range(40):
        connection = turns._next()
        order.append(connection.length > 0)
        turns.add(connection)  # numbers the next entry of the heap
    assert [sum(order[i : i + 4]) for i in range(0, 40, 4)] == [1] * 10


# Facts


def test_odd_names_do_not_break_the_pages(models, tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.textsvm")
    model = SVC(Spectrum(2)).fit(TEXTS[:60], LABELS[:60]).model_
    path.write_bytes((models / "two.textsvm").read_bytes())
    with serving(path) as server:
        status, _, body = server.ask("GET", "/models")
        assert (status, json.loads(body)["models"][0]["name"]) == (200, "caf\udce9")
        assert server.predict(text="lunch", model="caf\udce9")[0] == 200
        assert server.metrics()["textsvm_texts_total", 'model="caf\\\\udce9"'] == 1
    assert metrics_text([("up", f"label={app._quoted(chr(0xD800))}", 1)]).encode()
    assert model.rule.classes.tolist() == ["ham", "spam"]


def test_paths_are_exact_and_strange_targets_are_answered(server):
    for path in ("/models/", "/metrics/", "//models", "/predict/"):
        status, headers, body = server.ask("GET", path)
        assert (status, headers["Location"]) == (404, None)
        assert "there are POST /predict" in json.loads(body)["error"]
    for method in (b"OPTIONS", b"POST", b"GET"):
        answers, _ = exchange(
            server.port, method + b" * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        )
        assert [status for status, _ in answers] == [404]
    for target in (b"http://[::1]:1/", b"/%ff%00", b"/\xc3\xa9", b"?", b"a:1", b"//", b"http://", b"/;?#"):
        answers, _ = exchange(server.port, HEALTH.replace(b"/healthz", target))
        assert [status in (200, 400, 404, 421) for status, _ in answers] == [True], target
    for host, status in (
        (b"localhost", 200),
        (b"LOCALHOST:1", 200),
        (b"evil.example", 421),
        (b"l@evil", 421),
    ):
        answers, _ = exchange(server.port, HEALTH.replace(b"/", b"http://%b/" % host, 1))  # replaces Host
        assert [code for code, _ in answers] == [status], host


@pytest.mark.parametrize(
    ("version", "fields", "status"),
    [
        (b"1.1", b"", 400),
        (b"1.1", b"Host:\r\n", 400),
        (b"1.1", b"Host: localhost\r\nHost: localhost\r\n", 400),
        (b"1.1", b"Host: localhost\r\nX: a\r\nhOST: evil.example\r\n", 400),
        (b"1.1", b"Upgrade: h2c\r\nConnection: Upgrade\r\n", 400),
        (b"1.0", b"Host: localhost\r\nHost: localhost\r\n", 400),
        (b"1.0", b"Host: evil.example\r\n", 421),
        (b"1.0", b"Origin: http://\r\n", 403),
        (b"1.0", b"", 200),  # checks of a load balancer
        (b"1.0", b"Host: localhost\r\n", 200),
    ],
)
def test_a_request_has_a_single_host(version, fields, status, server):
    request_ = b"GET /healthz HTTP/%b\r\n%b\r\n" % (version, fields)
    [(code, answer)], closed = exchange(server.port, request_)
    assert (code, closed) == (status, version == b"1.0" or status == 400)
    assert status != 400 or answer == {
        "error": "a request of HTTP/1.1 needs the field Host, once and not empty"
    }


FOREIGN = [
    (421, {"Host": "evil.example"}),
    (421, {"Host": "evil.example:8000", "Origin": "http://evil.example:8000"}),
    (421, {"Host": "127.0.0.1.evil.example"}),
    (421, {"Host": "localhost:80@evil.example"}),
    (400, {"Host": "localhost, evil.example"}),
    (421, {"Host": "192.168.1.1"}),
    (421, {"Host": "[::1"}),
    (421, {"Host": ":"}),
    (421, {"Host": "."}),
    (421, {"Host": "localhost.."}),
    (421, {"Host": "localhost:80:"}),
    (421, {"Host": "evil.example.:"}),
    (403, {"Host": "localhost", "Origin": "https://localhost", "X-Forwarded-Proto": "http, https"}),
    (403, {"Origin": "http://evil.example"}),
    (403, {"Origin": "null"}),
    (403, {"Origin": ""}),
    (403, {"Host": "localhost:8000", "Origin": "http://localhost:9000"}),
    (403, {"Host": "localhost:8000", "Origin": "ftp://localhost:8000"}),
    (403, {"Origin": "http://127.0.0.1:1"}),
    (403, {"Origin": "http://127.0.0.1"}),
    (403, {"Host": "localhost", "Origin": "http://127.0.0.1"}),
    (403, {"Host": "localhost", "Origin": "https://localhost"}),
    (403, {"Host": "localhost:80", "Origin": "http://localhost:443"}),
    (403, {"Host": "localhost", "Origin": "http://localhost", "X-Forwarded-Proto": "https"}),
]


@pytest.mark.parametrize(("status", "fields"), FOREIGN, ids=str)
def test_requests_of_other_sites_are_refused(status, fields, server):
    """A page of another site may give its own name this computer's address."""
    for method, path in [("GET", "/models"), ("GET", "/healthz"), ("GET", "/no"), ("POST", "/predict")]:
        code, headers, answer = server.ask(method, path, BODY if method == "POST" else None, **fields)
        assert (code, headers["Access-Control-Allow-Origin"]) == (status, None)
        assert json.loads(answer).keys() == {"error"}


def test_requests_of_this_computer_are_answered(server):
    port = server.port
    own = [{"Host": name} for name in (f"127.0.0.1:{port}", f"LOCALHOST:{port}", "localhost", "127.0.0.1")]
    own += [{"Host": name} for name in ("localhost:", "localhost.", f"localhost.:{port}", "127.0.0.1:")]
    own += [{"Host": "localhost", "Origin": "https://localhost", "X-Forwarded-Proto": "https, http"}]
    own += [{"Host": "localhost:", "Origin": "http://localhost"}]
    own += [
        {"Host": host, "Origin": origin, **({"X-Forwarded-Proto": "https"} if origin[4] == "s" else {})}
        for host, origin in (
            (f"localhost:{port}", f"http://localhost:{port}"),
            (f"localhost:{port}", f"https://localhost:{port}"),
            ("Localhost:80", "http://localhost"),
            ("localhost:443", "https://localhost"),
        )
    ]
    for fields in own:
        assert server.ask("POST", "/predict", BODY, **fields)[0] == 200, fields
    assert exchange(port, b"GET /healthz HTTP/1.0\r\n\r\n") == ([(200, HEALTHY)], True)


def test_names_of_a_server():
    def status(hosts, host, origin=None, scheme="http"):
        headers = {"host": host, "x-forwarded-proto": scheme} | ({"origin": origin} if origin else {})
        refusal = hosts.refusal(SimpleNamespace(headers=headers))
        return refusal.status if refusal else 200

    proxied = Hosts("", frozenset(["0.0.0.0", "spam.example"]))
    for host in ("spam.example", "Spam.Example:443", "10.0.0.7:8000", "[fe80::1]:8000", "localhost:1"):
        assert status(proxied, host) == 200
    assert status(proxied, "spam.example", "https://spam.example", "https") == 200
    assert status(proxied, "spam.example", "http://spam.example:9000") == 403
    assert status(proxied, "127.0.0.1:8000", "https://spam.example", "https") == 403  # the proxy keeps Host
    assert status(proxied, "ham.example") == 421
    assert status(proxied, "127.0.0.1:8000", "https://ham.example") == 403
    for address, own in (("10.0.0.7", 421), ("127.0.0.1", 200), ("::1", 200)):
        names = (f"[{address}]:80" if ":" in address else address, "10.0.0.8:80", "localhost")
        assert [status(Hosts(address), host) for host in names] == [200, 421, own]


def test_pages_that_are_asked_for_at_once_are_prepared_once(models):
    async def many():
        asked, service = [], Service({}, RequestLimits(), print, Hosts())

        async def describe():
            asked.append(True)
            await asyncio.sleep(0.01)
            return []

        service._link = SimpleNamespace(describe=describe)
        pages = await asyncio.gather(*(service._page("GET", "/metrics") for _ in range(50)))
        assert (len(asked), len({page.body for page in pages})) == (1, 1)
        await service._page("GET", "/metrics")
        assert len(asked) == 2

    asyncio.run(many())


def test_a_one_class_model_needs_the_name_of_its_class(tmp_path):
    save(OneClassSVM(Spectrum(2)).fit(TEXTS[:20]), tmp_path / "one.textsvm")
    with pytest.raises(InputError, match="one-class model without the name of its class"):
        ServedModel("one", str(tmp_path / "one.textsvm"))


def test_models_and_health(server):
    status, _, body = server.ask("GET", "/models")
    models = {model["name"]: model for model in json.loads(body)["models"]}
    assert status == 200
    assert {name: model["columns"] for name, model in models.items() if model.get("columns")} == {
        "rows": ["title", "body"], "numbered": ["title", "body", "n"], "named": ["text", "body"],
        "column": ["text"],
    }  # fmt: skip
    assert len(models) == 10
    assert models["two"]["classes"] == ["ham", "spam"]
    assert models["two"]["kernel"] == "spectrum:1-3"
    assert models["numbers"]["classes"] is None
    assert models["calibrated"]["probabilities"]
    assert len(models["two"]["digest"]) == 64
    status, _, body = server.ask("GET", "/healthz")
    assert (status, json.loads(body)) == (200, HEALTHY)


def test_metrics_count(server):
    before = server.metrics()
    server.predict(model="two", texts=TEXTS[200:210])
    time.sleep(0.3)  # texts are compared with the training texts from time to time
    server.predict(model="two", text="ЖЖЖ ДДД ЯЯЯ ЩЩЩ")
    server.predict(model="two", text=1)
    after = server.metrics()

    def more(name, labels=""):
        return after[f"textsvm_{name}", labels] - before.get((f"textsvm_{name}", labels), 0)

    two = 'model="two"'
    assert more("requests_total", 'code="200"') == 2
    assert more("requests_total", 'code="400"') == 1
    assert more("texts_total", two) == 11
    assert sum(more("predictions_total", f'{two},label="{label}"') for label in ("ham", "spam")) == 11
    assert more("foreign_texts_total", two) == 1
    assert more("drift_new_symbols_total", two) >= 12
    assert more("drift_texts_total", two) <= 11
    assert more("request_seconds_count") == more("request_seconds_bucket", 'le="+Inf"') == 3
    buckets = [value for (name, _), value in after.items() if name == "textsvm_request_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert after["textsvm_up", ""] == 1


def test_margins_below_four_fifths_of_the_margin_in_training_are_low(models):
    model = ServedModel("two", str(models / "two.textsvm"))
    model.drift.expected["margin"] = 2.0
    decision = np.array([1.59, -1.59, 1.61, -1.61, 1.99])
    model.count(TEXTS[:5], (["ham", "spam"], np.array(["spam"] * 5), decision, None))
    assert model.counts["low_margins"] == 2


def test_labels_of_braces_stay_apart():
    values = [("texts_total", f'label="{label}"', 1) for label in ("a{}b", "{}", "")]
    assert set(parse_metrics(metrics_text(values))) == {
        ("textsvm_texts_total", f'label="{label}"') for label in ("a{}b", "{}", "")
    }


def test_metrics_are_read_by_prometheus_client(server):
    parser = pytest.importorskip("prometheus_client.parser")
    text = server.ask("GET", "/metrics")[2].decode()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert all(family.documentation.endswith(".") for family in families.values())
    assert {family.type for family in families.values()} == {"counter", "gauge", "histogram"}
    rows = re.findall(r"^\|[^|]*\| (`[a-z_]+`.*) \|$", section("## Metrics"), re.MULTILINE)
    names = {f"textsvm_{name.removesuffix('_total')}" for name in re.findall("`([a-z_]+)`", " ".join(rows))}
    assert set(families) <= names
    assert {f"textsvm_{name.removesuffix('_total')}" for name in app._HEADS} == names


@needs_promtool
def test_metrics_pass_promtool(server):
    training = [(f"training_{name}", 'model="m"', 0.1) for name in ("symbols", "features", "margin")]
    text = server.ask("GET", "/metrics")[2] + metrics_text(training).encode()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


@needs_promtool
@pytest.mark.parametrize(
    ("alert", "series"),
    [
        (
            "NewCharacters",
            {"drift_symbols_total": 100, "drift_new_symbols_total": 9, "training_symbols": 0.02},
        ),
        (
            "NewSequences",
            {"drift_features_total": 100, "drift_new_features_total": 20, "training_features": 0.1},
        ),
        ("LowMargins", {"texts_total": 10, "low_margins_total": 6}),
        ("PredictionsFail", {"requests_total": 100, 'requests_total,code="500"': 6}),
        ("ModelNotReloaded", {"reload_failures_total": 1}),
        ("NoPredictions", {"up": 0}),
        ("ModelMissing", {"model_up": 0}),
    ],
)
def test_alerts_of_the_page_fire_and_end(alert, series, tmp_path):
    """With these increases in a minute, and these values of gauges; an hour of ordinary values ends them."""
    (tmp_path / "textsvm.rules.yml").write_text(recipe("textsvm.rules.yml"))
    checked = subprocess.run(
        ["promtool", "check", "rules", tmp_path / "textsvm.rules.yml"], capture_output=True
    )
    assert (checked.returncode, b"7 rules found" in checked.stdout) == (0, True), checked
    rising = {
        "drift_new_symbols_total",
        "drift_new_features_total",
        "low_margins_total",
        "reload_failures_total",
    }
    inputs = []
    for key, value in series.items():
        name, _, labels = key.partition(",")
        labels = ",".join(
            filter(None, ['job="textsvm",model="m"', labels or 'code="200"' * (name == "requests_total")])
        )
        if name.endswith("_total"):
            stops = name in rising or 'code="500"' in labels
            last = value * 120
            rest = f"{last}+0x120" if stops else f"{last}+{value}x120"
            values = f"0+{value}x120 {rest}"
        else:
            values = f"{value}x120 1x120" if name in ("up", "model_up") else f"{value}x240"
        inputs.append({"series": f"textsvm_{name}{{{labels}}}", "values": values})
    expected = {"exp_labels": {"job": "textsvm", "model": "m"}}
    tests = {
        "rule_files": ["textsvm.rules.yml"],
        "tests": [{"interval": "1m", "input_series": inputs, "alert_rule_test": [
            {"eval_time": "110m", "alertname": alert, "exp_alerts": [expected]},
            {"eval_time": "235m", "alertname": alert, "exp_alerts": []},
        ]}],
    }  # fmt: skip
    (tmp_path / "tests.yml").write_text(json.dumps(tests))
    checked = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "tests.yml"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (Debian package systemd)"
)
def test_the_unit_leaves_little_exposed(tmp_path):
    (tmp_path / "textsvm.service").write_text(recipe("textsvm.service"))
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", tmp_path / "textsvm.service"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(re.search(r"exposure level for textsvm.service: ([0-9.]+)", said)[1]) < 3


# The document of the interface


def test_the_document_of_the_interface(server):
    """It is valid, names every path, and describes the answers of every model."""
    validator = pytest.importorskip("openapi_spec_validator")
    from jsonschema import Draft202012Validator

    status, headers, body = server.ask("GET", "/openapi.json")
    document = json.loads(body)
    assert (status, headers["Content-Type"], document["info"]["version"]) == (
        200, "application/json", textsvm.__version__,
    )  # fmt: skip
    validator.validate(document)
    said = json.loads(server.ask("GET", "/nothing")[2])["error"]
    assert set(re.findall(r"/[a-z.]+", said.partition(";")[2])) == set(document["paths"])

    def check(name, value):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        Draft202012Validator(schema).validate(value)

    for model in json.loads(server.ask("GET", "/models")[2])["models"]:
        check("Model", model)
        columns = model.get("columns", [])
        text = {name: 1 if name == "n" else "win cash" for name in columns} if columns else "win cash"
        for options in ({}, {"probabilities": None}, {"top": 2} if model["classes"] else {}):
            request = {"model": model["name"], **options}
            empty = dict.fromkeys(columns, "") if columns else ""
            for texts in ({"text": text}, {"texts": [text, text]}, {"texts": [empty] * ("n" not in columns)}):
                check("OneText" if "text" in texts else "Texts", {**request, **texts})
                status, answer = server.predict(**request, **texts)
                assert status == 200
                check("Prediction" if "text" in texts else "Predictions", answer)


@pytest.mark.slow
def test_schemathesis_finds_nothing(models, tmp_path):
    """Requests that fit the document, and others; models refuse some that fit: wrong columns, no labels."""
    pytest.importorskip("schemathesis")
    program = Path(sys.executable).with_name("schemathesis")
    with serving(*sorted(models.glob("*.textsvm")), "--timeout", "60") as server:
        until_answered(server, json.dumps({"model": "two", "texts": TEXTS[:99]}).encode())
        command = [program, "run", f"http://127.0.0.1:{server.port}/openapi.json", "--max-examples", "100"]
        command += [
            "--checks",
            "all",
            "--exclude-checks",
            "positive_data_acceptance",
            "--seed",
            "1",
            "--no-color",
        ]
        said = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
        assert said.returncode == 0, said.stdout
        assert server.predict(model="two", text="a")[0] == 200
        assert server.metrics()["textsvm_requests_total", 'code="400"'] > 20


# The start


#: The port is open, and models are loaded.
STARTS = "listening at "


def test_the_port_is_open_while_models_are_loaded(models):
    with serving(models / "two.textsvm", until=STARTS) as server:
        status, headers, body = server.ask("GET", "/healthz")
        state = {"status": "loading", "ready": [], "missing": ["two"]}
        assert (status, json.loads(body), headers["Retry-After"]) == (503, state, "1")
        for method, path, content in [("POST", "/predict", BODY), ("GET", "/models", None)]:
            status, headers, body = server.ask(method, path, content)
            assert (status, headers["Retry-After"]) == (503, "1")
            assert json.loads(body) == {"error": "the models are loading; try again"}
        assert server.metrics()["textsvm_up", ""] == server.metrics()["textsvm_model_up", 'model="two"'] == 0
        server.wait_for("answering at ")
        assert server.ask("GET", "/healthz")[0] == server.predict(model="two", text="a")[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_may_end_while_models_are_loaded(number, models):
    with serving(models / "two.textsvm", until=STARTS) as server:
        server.wait_for("loading ")
        assert server.stop(number) == (0, "")


# Signals


def test_reload_without_a_dropped_request(models, write):
    path = write("model.textsvm", (models / "two.textsvm").read_bytes())
    with serving(f"m={path}") as server:
        old = server.predict(text="lunch")[1]
        replacement = SVC(Spectrum((1, 3)), C=0.01).fit(TEXTS[:60], LABELS[:60])
        answers = asyncio.run(ask_during_reload(server, lambda: save(replacement, path)))
        new = server.predict(text="lunch")[1]
        assert new != old
        assert {json.dumps(answer) for status, answer in answers} == {json.dumps(old), json.dumps(new)}
        assert {status for status, _ in answers} == {200}
        assert server.metrics()["textsvm_reload_failures_total", 'model="m"'] == 0
        path.write_bytes(path.read_bytes()[:-9])
        server.process.send_signal(signal.SIGHUP)
        assert "the old model remains" in server.wait_for("model.textsvm")
        assert server.predict(text="lunch")[1] == new
        assert server.metrics()["textsvm_reload_failures_total", 'model="m"'] == 1
        assert server.stop() == (0, "")


def test_a_reload_that_changes_classes_or_columns_is_said(models, tmp_path):
    path = tmp_path / "model.textsvm"
    shutil.copy(models / "two.textsvm", path)
    with serving(f"m={path}") as server:
        for name, line in [
            ("two", "loaded again: m"), ("three", "the model m has other classes: new other"),
            ("numbered", "the model m has other columns: new body, n, title"),
            ("named", "the model m has other columns: new text; gone n, title"),
        ]:  # fmt: skip
            shutil.copy(models / f"{name}.textsvm", tmp_path / "new")
            (tmp_path / "new").replace(path)
            server.process.send_signal(signal.SIGHUP)
            assert server.wait_for(line).strip() == line
        assert server.stop() == (0, "")


@pytest.fixture
def indexed(tmp_path, monkeypatch):
    """Paths of three models with an inverted index, which are mapped: the last is shorter."""
    monkeypatch.setattr(text_source, "MOST_BYTES", 0)
    for number, kernel in enumerate([Spectrum((1, 3)), Spectrum((1, 4)), Spectrum(1)]):
        save(SVC(kernel).fit(TEXTS[:150], LABELS[:150]), tmp_path / f"{number}.textsvm")
    return [tmp_path / f"{number}.textsvm" for number in range(3)]


@pytest.mark.parametrize("new", [1, 2])
def test_a_model_that_is_overwritten_in_place_answers_nothing_wrong(new, indexed, tmp_path):
    path, answers = tmp_path / "m.textsvm", []
    shutil.copyfile(indexed[0], path)
    with serving(f"m={path}") as server:
        right = [server.predict(text="lunch at noon")[1]]
        with serving(indexed[new]) as other:
            right.append(other.predict(text="lunch at noon")[1])
        worker, content = server.worker(), indexed[new].read_bytes()
        with path.open("r+b") as file:
            if new == 2:
                file.truncate(len(content))
            file.write(content[:-100])
            file.flush()
            status, answer = server.predict(text="lunch at noon")
            assert (status, f"model file {path} changed" in answer["error"]) == (503, True)
            assert f"{path} has changed or is damaged" in server.wait_for("changed")
            assert "is damaged" in server.wait_for("m.textsvm")
            answers += [server.predict(text="lunch at noon") for _ in range(3)]
            assert server.ask("GET", "/healthz")[0] == 503
            file.write(content[-100:])
            file.truncate()
        server.wait_for("loaded again: m")
        assert server.predict(text="lunch at noon") == (200, right[1])
        assert {status for status, _ in answers} == {503}
        assert server.worker() == worker


def test_predictions_while_models_are_overwritten(indexed, tmp_path):
    """Answers are those of one of the models, or 503, also after a worker has died of a page that is gone."""
    path, request = tmp_path / "m.textsvm", {"texts": TEXTS[:40]}
    shutil.copyfile(indexed[0], path)
    with serving(f"m={path}") as server:
        right = [server.predict(**request)[1]]
        with serving(indexed[1]) as other:
            right.append(other.predict(**request)[1])
        with asking(server, 4, **request) as answers:
            for number in range(12):
                time.sleep(0.4)
                shutil.copyfile(indexed[1 - number % 2], path)
            deadline = time.monotonic() + 20
            while server.predict(**request)[0] != 200:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert {status for status, _ in answers} == {200, 503}
        assert all(answer in right for status, answer in answers if status == 200)


async def ask_during_reload(server, replace):
    """Answers to eight clients, from before a reload until after it."""
    end, answers = False, []

    async def client():
        while not end:
            answers.append(await post(server.port, {"text": "lunch"}))

    clients = [asyncio.create_task(client()) for _ in range(8)]
    await asyncio.sleep(0.2)
    await asyncio.to_thread(replace)
    server.process.send_signal(signal.SIGHUP)
    assert await asyncio.to_thread(server.wait_for, "loaded again: m")
    await asyncio.sleep(0.2)
    end = True
    await asyncio.gather(*clients)
    return answers


@pytest.mark.parametrize(
    ("number", "host"),
    [(signal.SIGTERM, "127.0.0.1"), pytest.param(signal.SIGINT, "0.0.0.0", marks=pytest.mark.slow)],
)
def test_requests_in_progress_are_answered_at_the_end(number, host, models):
    with (
        serving(models / "two.textsvm", "--timeout", "20", "--host", host) as server,
        slow_request(server.port) as (client, rest),
    ):
        warned = [line for line in server.lines if line.startswith("warning: ")]
        assert len(warned) == (host != "127.0.0.1")
        assert all("without authentication" in line for line in warned)
        assert f"loading {models / 'two.textsvm'}" in server.lines
        server.process.send_signal(number)
        deadline = time.monotonic() + 30
        with suppress(ConnectionError):
            while server.predict(text="a"):
                assert time.monotonic() < deadline
        client.sendall(rest)
        assert client.recv(1000).startswith(b"HTTP/1.1 200 OK")
        assert server.stop(signal.SIGTERM) == (0, "")


def test_a_request_without_its_end_is_refused_at_the_end(models):
    program = with_limits("http.ClientLimits", stopping=1)
    with serving(models / "two.textsvm", program=program) as server, slow_request(server.port) as (client, _):
        server.process.send_signal(signal.SIGTERM)
        assert received(client) == (503, "the server has stopped")
        assert server.end() == (0, "")


@contextmanager
def slow_request(port, body=b'{"text": "win cash now"}'):
    """A connection whose request lacks its end, and the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:5]
        )
        time.sleep(0.2)
        yield client, body[5:]


@pytest.mark.slow
def test_a_process_that_ends_or_hangs_is_replaced(models):
    with serving(models / "two.textsvm", "--timeout", "0.5") as server:
        first = server.worker()
        os.kill(first, signal.SIGKILL)
        assert "has ended" in server.wait_for("the process that predicts")
        until_answered(server)
        os.kill(server.worker(), signal.SIGSTOP)
        status, headers, body = server.ask("POST", "/predict", b'{"text": "a"}')
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "no prediction within 0.5 seconds" in json.loads(body)["error"]
        assert "has ended" in server.wait_for("the process that predicts")
        until_answered(server)
        assert server.worker() != first


def test_the_worker_hears_of_requests_that_are_given_up(monkeypatch):
    async def give_up():
        clock = SimpleNamespace(monotonic=lambda: 0.0)
        monkeypatch.setattr(app, "time", clock)
        link, written, killed = app._Link(lambda _: None, print), bytearray(), []
        pipe = SimpleNamespace(write=written.extend, get_write_buffer_size=lambda: 0)
        link.connection_made(
            SimpleNamespace(get_pipe_transport=lambda _: pipe, kill=lambda: killed.append(True))
        )
        early = link.ask(PREDICT, b"{}", 0.0)
        clock.monotonic = lambda: 5.0
        late = link.ask(PREDICT, b"{}", 5.0)
        link.pipe_data_received(1, FRAME.pack(0, PROGRESS_NUMBER, 0))  # the worker is at work
        written.clear()
        clock.monotonic = lambda: 11.0
        link.refuse_late(10.0)
        assert list(frames(written)) == [(1, CANCEL, b"")]
        assert (await early)[0] == 503
        assert not late.done()
        assert not killed
        clock.monotonic = lambda: 16.0
        link.refuse_late(10.0)
        assert list(frames(written)) == [(2, CANCEL, b"")]
        assert killed  # the worker was silent for 11 seconds

    asyncio.run(give_up())


@pytest.mark.slow
def test_a_file_that_is_missing_after_a_restart_is_loaded_later(models, tmp_path):
    path, content = tmp_path / "model.textsvm", (models / "two.textsvm").read_bytes()
    path.write_bytes(content)
    with serving(f"a={path}", models / "three.textsvm") as server:
        path.unlink()
        os.kill(server.worker(), signal.SIGKILL)
        assert "model.textsvm" in server.wait_for("is not there")
        assert server.wait_for("loaded again") == "loaded again: three\n"
        status, _, body = server.ask("GET", "/healthz")
        state = {"status": "partial", "ready": ["three"], "missing": ["a"]}
        assert (status, json.loads(body)) == (200, state)
        metrics = server.metrics()
        assert [metrics["textsvm_model_up", f'model="{name}"'] for name in ("a", "three")] == [0, 1]
        assert metrics["textsvm_up", ""] == 1
        assert server.predict(text="a")[0] == 400
        assert server.predict(text="a", model="a")[0] == 503
        assert server.predict(text="a", model="three")[0] == 200
        path.write_bytes(content)
        assert server.wait_for("loaded again") == "loaded again: a\n"
        assert server.predict(text="a", model="a")[0] == 200
        assert server.ask("GET", "/healthz")[0] == 200


def until_answered(server, body=b'{"text": "a"}'):
    deadline = time.monotonic() + 30
    while (status := server.ask("POST", "/predict", body)[0]) != 200:
        assert status == 503
        assert time.monotonic() < deadline
        time.sleep(0.1)
    while server.ask("GET", "/healthz")[0] != 200:  # the other process may be loading
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("kernel", [GappedKmers(3, 1, canonical=True), Spectrum(2, tokens="blosum62")])
def test_models_of_sequences_are_loaded(kernel, tmp_path):
    texts = ["acgtaacctg", "ttgacagtac", "acgtaacc", "ttgacag"]
    save(SVC(kernel).fit(texts, [0, 1, 0, 1]), tmp_path / "model.textsvm")
    model = ServedModel("model", str(tmp_path / "model.textsvm"))
    assert model.predict(texts)[1].tolist() == [0, 1, 0, 1]


def test_a_model_that_cannot_be_loaded_is_named(models, monkeypatch, capsys):
    sent = []
    idle = Worker(sent.extend)
    settings = {"max_texts": 9, "max_characters": 9}
    paths = {"two": str(models / "two.textsvm"), "three": str(models / "nothing.textsvm")}
    idle._load(1, paths, sorted(paths), **settings)
    [(number, status, body)] = sent
    assert (number, status) == (1, 200)
    assert "nothing.textsvm" in json.loads(body).pop("three")
    for request, expected, words in [
        ({}, 400, 'give "model", one of two, three'),
        ({"model": "three"}, 503, "'three' cannot be loaded"),
        ({"model": "two"}, None, ""),
    ]:
        sent.clear()
        idle._receive(2, PREDICT, json.dumps({"text": "a", **request}).encode())
        assert [status for _, status, _ in sent] == ([] if expected is None else [expected])
        assert all(words in json.loads(body)["error"] for _, _, body in sent)
    sent.clear()
    monkeypatch.setattr(worker, "ServedModel", lambda *_: {}["a bug"])
    idle._load(3, paths, ["two"], **settings)
    assert "KeyError: 'a bug'" in json.loads(sent[0][2])["two"]
    assert "Traceback" in capsys.readouterr().err


class ScriptedLink:
    """A worker that answers loads after 20 ms, with the next of some failures."""

    def __init__(self, *failures):
        self.failures, self.loads, self.loading = list(failures), [], 0
        self.process = self

    def get_returncode(self):
        return None

    def close(self):
        pass

    def refuse_late(self, timeout):
        pass

    async def describe(self):
        return []

    async def ask(self, kind, body, since):
        assert (kind, self.loading) == (LOAD, 0)
        self.loads.append(json.loads(body)["names"])
        self.loading += 1
        await asyncio.sleep(0.02)
        self.loading -= 1
        return 200, json.dumps(self.failures.pop(0) if self.failures else {}).encode()


async def health(service):
    return (await service._health()).status


def scripted_service(link, monkeypatch):
    """A service of two models, its lines, and its task; the worker is scripted."""
    monkeypatch.setattr(app, "_AGAIN", 0.001)
    lines = []
    service = Service({"a": "a.textsvm", "b": "b.textsvm"}, RequestLimits(), lines.append, Hosts())
    service._link, service._missing = link, set()
    return service, lines


def test_loads_follow_each_other(monkeypatch):
    async def reload_often():
        link = ScriptedLink({}, {"b": "b is damaged"})
        service, lines = scripted_service(link, monkeypatch)
        task = asyncio.create_task(service._maintain())
        service.reload()
        while not link.loading:
            await asyncio.sleep(0)
        service.reload()
        service.reload()  # the two together ask for one more
        async with asyncio.timeout(30):
            while len(lines) < 3:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        assert link.loads == [["a", "b"]] * 2
        assert lines == ["loaded again: a, b", "b is damaged; the old model remains", "loaded again: a"]
        assert await health(service) == 200
        task.cancel()

    asyncio.run(reload_often())


def test_a_missing_model_is_tried_again(monkeypatch):
    async def restart():
        link = ScriptedLink(*[{"b": "b is damaged"}] * 3)
        service, lines = scripted_service(link, monkeypatch)
        attempts = iter([OSError(12, "Cannot allocate memory"), OSError(12, "Cannot allocate memory")])

        async def start():
            for error in attempts:
                raise error
            return link

        service._start = start
        service._ended(link)
        assert await health(service) == 503
        task = asyncio.create_task(service._maintain())
        while len(link.loads) < 3:
            await asyncio.sleep(0.001)
            assert await health(service) == (503 if "a" in service._missing else 200)
        async with asyncio.timeout(30):
            while service._missing:
                await asyncio.sleep(0.001)
        assert link.loads == [["a", "b"], ["b"], ["b"], ["b"]]
        assert service._failed == {"a": 2, "b": 5}
        assert lines[1:] == [
            "the process that predicts cannot be started: [Errno 12] Cannot allocate memory",
            "b is damaged",
            "loaded again: a",
            "loaded again: b",
        ]
        task.cancel()

    asyncio.run(restart())


def test_a_hangup_while_models_are_loaded_is_not_lost(models):
    with serving(models / "two.textsvm", hangup=True) as server:
        assert "loaded again: two" in server.wait_for("loaded again")
        assert server.stop() == (0, "")


# Command line


def test_missing_packages_are_named(models):
    code = "import sys; sys.modules['httptools'] = None; from textsvm.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", models / "two.textsvm", "--port", "0"]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert ended.returncode == 1
    assert "needs the extra textsvm[serve]: pip install httptools" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_errors_are_sentences(models, tmp_path):
    assert "nothing.textsvm" in fails("serve", tmp_path / "nothing.textsvm", "--port", "0", "-q")
    save(SVC(Gaussian()).fit([[0.0], [1.0]], ["a", "b"]), tmp_path / "vectors.textsvm")
    refuses("is not a model of texts", ServedModel, "vectors", str(tmp_path / "vectors.textsvm"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen at 127.0.0.1:{port}" in fails("serve", models / "two.textsvm", "--port", port)
    assert "cannot listen at no.invalid" in fails("serve", models / "two.textsvm", "--host", "no.invalid")
    twice = fails("serve", models / "two.textsvm", f"two={models / 'three.textsvm'}", code=2)
    assert "the name 'two'" in twice


# Attacks


def test_slow_clients_are_closed(server):
    starts = [b"", POST[:-9], POST + b"Content-Length: 9\r\n\r\n{"]
    clients = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in starts]
    begun = time.monotonic()
    for client, start in zip(clients, starts, strict=True):
        client.sendall(start)
    assert server.predict(model="two", text="a")[0] == 200
    for client in clients[1:]:
        status, error = received(client)
        assert (status, "2 seconds" in error) == (408, True)
    assert 1.5 < time.monotonic() - begun < 6
    for client in clients:
        client.close()


@pytest.mark.parametrize(
    "line", [b"GET /models?%b HTTP/1.1\r\nHost:localhost\r\n\r\n", HEALTH[:-2] + b"X: %b\r\n\r\n"]
)
def test_a_header_in_a_single_read_is_bounded(line, server):
    for size, expected in [(33_000, 431), (30_000, 200)]:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            client.sendall(line % (b"a" * size))
            if expected == 431:
                assert received(client) == (431, "the header has more than 32,768 bytes or 128 fields")
            else:
                assert client.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("request_", [HEALTH, None])
def test_clients_that_close_without_reading_leave_nothing_behind(request_, models):
    """A server held 60 KB of each such connection for a minute; 2,000 take 30 MB for a moment.

    Code and buffers that the first attack is the first to need stay: 6 to 13 MB. A second one adds nothing.
    """

    def attack(until):
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 1) as client:
                client.settimeout(0.05)
                client.sendall(block)

    def memory_after_attack(most):
        until = time.monotonic() + 2
        threads = [threading.Thread(target=attack, args=(until,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while len(os.listdir(files)) > n_files:  # connections whose requests are still answered
            assert time.monotonic() < until + 40
            time.sleep(0.1)
        until = time.monotonic() + 10
        while (memory := attacks.resident(server.process.pid, children=False)) > most:
            assert time.monotonic() < until, memory - most
            time.sleep(0.1)
        return memory

    block = (request_ or POST + LENGTH + b"\r\n" + BODY) * 4000
    with serving(models / "two.textsvm") as server:
        server.predict(text="a")
        files = f"/proc/{server.process.pid}/fd"
        n_files = len(os.listdir(files)) + 8  # of other processes, which may come and go
        first = memory_after_attack(attacks.resident(server.process.pid, children=False) + 18)
        memory_after_attack(first + 4)
        assert server.predict(text="a")[0] == 200


def test_bytes_of_all_connections_are_bounded(models):
    """Unfinished bodies of 100 connections would be 200 MB."""
    with serving(models / "two.textsvm") as server:
        before, clients = attacks.resident(server.process.pid, children=False), []
        body = b" " * (2 << 20)
        try:
            for _ in range(100):
                clients.append(client := socket.create_connection(("127.0.0.1", server.port), timeout=10))
                client.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body))
                with suppress(OSError):
                    client.sendall(body[:-1])
            assert server.predict(text="a")[0] == 200
            deadline, refused = time.monotonic() + 30, set()
            while len(refused) < 80:
                assert time.monotonic() < deadline
                for client in {*select.select(clients, [], [], 0.1)[0]} - refused:
                    assert client.recv(99).startswith(b"HTTP/1.1 503")
                    refused.add(client)
            assert attacks.resident(server.process.pid, children=False) < before + 80
        finally:
            for client in clients:
                client.close()


@pytest.mark.slow
@pytest.mark.parametrize(("most", "answered"), [(2, 1), (8, 2)])
def test_more_requests_than_wait_are_refused(models, most, answered):
    """Requests of more than 4 KB, as these, have a quarter of the places."""
    program = with_limits("commands.RequestLimits", max_requests=most)
    with serving(models / "two.textsvm", program=program) as server:

        async def many():
            return await asyncio.gather(*(post(server.port, {"texts": TEXTS}) for _ in range(20)))

        statuses = [status for status, _ in asyncio.run(many())]
        assert set(statuses) == {200, 503}
        assert statuses.count(200) >= answered
        assert server.predict(text="a")[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("name", attacks.SERVERS)
def test_attacks_leave_an_honest_client_alone(name, tmp_path):
    """The bound is that of the benchmark, and wider in proportion on a computer that is small or busy.

    Server, worker, attackers and client need a core each. A client of an idle server waits for 5 ms at most.
    """
    with attacks.under_attack(name, tmp_path) as measure:
        calm = measure(None, 0, 3.0)
        most = attacks.MOST_MS * max(1.0, 4 / os.cpu_count()) * max(1.0, calm["p99 ms"] / 5)
        forms = range(len(attacks.FORMS))
        rows = [measure(number, n, 1.0) for number in forms for n in attacks.CONNECTIONS]
        after = measure(None, 0, 2.0)
    assert not after["faults"]  # the server has recovered from all of them
    assert after["MB after"] <= attacks.MOST_MB
    faults = [row for row in rows if row["faults"]]
    # On fewer cores the honest client finds the server busy under some attacks: reports/attacks.md.
    assert not faults or os.cpu_count() < 4
    missed = faults + [row for row in rows if row["peak MB"] > attacks.MOST_MB or row["p99 ms"] > most]
    if missed:  # the goal is not reached yet: reports/attacks.md
        pytest.xfail(f"{len(missed)} of {len(rows)} rows exceed {most:.0f} ms or {attacks.MOST_MB:.0f} MB")


@pytest.mark.slow
def test_a_thousand_connections_at_once(models):
    program = with_limits("commands.RequestLimits", max_requests=2000)
    with serving(models / "two.textsvm", program=program) as server:

        async def everybody():
            return await asyncio.gather(*(post(server.port, {"text": TEXTS[k % 700]}) for k in range(900)))

        alone = {text: server.predict(text=text)[1] for text in TEXTS[:20]}
        answers = asyncio.run(everybody())
        assert {status for status, _ in answers} == {200}
        for text, (_, answer) in zip(TEXTS[:20], answers, strict=False):
            assert answer == alone[text]


@pytest.mark.slow
def test_idle_connections_give_way(models):
    with serving(models / "two.textsvm") as server:
        limit = ["prlimit", "--pid", str(server.process.pid), "--nofile"]
        soft = int(
            subprocess.run([*limit, "-o", "SOFT", "--noheadings"], capture_output=True, text=True).stdout
        )
        idle = []
        try:
            for _ in range(min(soft, 800)):
                idle.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            assert server.predict(text="a")[0] == 200
        finally:
            for client in idle:
                client.close()


@pytest.mark.slow
def test_the_steps_of_the_containerfile(models, tmp_path, read_only):
    """Its commands in a virtual environment; dependencies come from this environment, not the network.

    It serves with a read-only file system, and compiles nothing.
    """
    pytest.importorskip("hatchling")
    steps = recipe("Containerfile")
    installed, command = (
        re.search(r"RUN python -m venv (\S+)", steps)[1],
        re.search(r"CMD (\[\"/opt.*serve.*\])", steps)[1],
    )
    assert re.search(r"COPY \S+ /models/model.textsvm\n", steps)
    assert re.search(r"COPY textsvm-\*\.whl /tmp/\n", steps)
    install = re.search(r"&& (\S+/bin/pip install .*)\n", steps)[1]
    compilation = re.search(r"RUN (\S+/bin/textsvm devices .*)\n", steps)[1]
    cache = re.search(r"ENV NUMBA_CACHE_DIR=(.*)\n", steps)[1]
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        ROOT,
    ]
    subprocess.run(build, check=True, capture_output=True)
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    (tmp_path / "model.textsvm").write_bytes((models / "two.textsvm").read_bytes())
    places = {installed: str(venv), "/models": str(tmp_path), "/tmp": str(tmp_path)}
    install, command, compilation, cache = (
        re.sub("|".join(places), lambda match: places[match[0]], each)
        for each in (install, command, compilation, cache)
    )
    pip = f"{install} --quiet --no-deps --no-index"
    subprocess.run(["sh", "-c", pip], check=True, capture_output=True)
    arguments = json.loads(command)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if "site-packages" in path),
        "NUMBA_CACHE_DIR": cache,
    }
    subprocess.run(compilation.split(), check=True, capture_output=True, env=environment, cwd=tmp_path)
    files = {path: path.stat() for path in Path(cache).rglob("*")}
    assert all(status.st_mode & 0o4 for status in files.values())  # for other users
    environment |= {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*read_only, tmp_path, *arguments, "--port", "0"],
        stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    lines = [process.stderr.readline()]
    try:
        while lines[-1] and not lines[-1].startswith("answering at "):
            lines.append(process.stderr.readline())
        server = Server(process, [line.strip() for line in lines])
        assert server.ask("GET", "/healthz")[0] == 200
        for text in ("win cash now", "see you" * 1000):
            assert server.predict(text=text)[1]["label"] in ("ham", "spam")
        assert server.stop() == (0, "")
        assert not [line for line in lines if "compil" in line]
        assert {path: path.stat().st_mtime_ns for path in files} == {
            path: status.st_mtime_ns for path, status in files.items()
        }
    finally:
        process.kill()
        process.wait()
