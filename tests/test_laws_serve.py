"""What holds for the HTTP server: framing is bounded by the body, and seconds are counted as seconds."""

import asyncio
import json
import re
from collections import Counter

import pytest
from command import run
from loading import load

pytest.importorskip("httptools")

from test_http import serving

from textsvm import SVC, CalibratedSVC, Spectrum, save
from textsvm.apps.serve.app import BOUNDS, RequestLimits, Service
from textsvm.apps.serve.commands import _named
from textsvm.apps.serve.worker import Refusal, ServedModel, TextRequest, Worker
from textsvm.cli.console import WrongUsage
from textsvm.runtime import http
from textsvm.runtime.http import Hosts, HttpAnswer, HttpRequest


def test_a_request_is_counted_in_the_bucket_of_its_seconds():
    async def metrics():
        service = Service({}, RequestLimits(), print, Hosts())
        answers = []
        for _ in range(3):
            answers.append(await service(HttpRequest("GET", "/predict", {}, None)))
        return answers, (await service(HttpRequest("GET", "/metrics", {}, None))).body.decode()

    answers, text = asyncio.run(metrics())
    assert [answer.status for answer in answers] == [405] * 3
    seconds = float(re.search(r"request_seconds_sum ([\d.e-]+)", text)[1])
    assert re.search(r"request_seconds_count 3\b", text)
    buckets = re.findall(r'request_seconds_bucket{le="([^"]+)"} (\d+)', text)
    assert [float(bound) for bound, _ in buckets] == [*BOUNDS, float("inf")]
    assert seconds > 0
    for bound, n in buckets:
        if float(bound) >= seconds:
            assert int(n) == 3
    assert 0 < seconds < 1


def test_models_are_called_by_their_names_or_those_of_their_files(tmp_path, monkeypatch):
    """Also by that of a file with a sign of equality; a name stands for one model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.textsvm").touch()
    named = _named(["x/spam.textsvm", "news=y/spam.textsvm", "a=b.textsvm", "c="])
    paths = {"spam": "x/spam.textsvm", "news": "y/spam.textsvm", "a=b": "a=b.textsvm", "c=": "c="}
    assert list(named.items()) == list(paths.items())
    for wrong in (["a/m.textsvm", "b/m.textsvm"], ["m=a", "m=b"], ["=a"], [""]):
        with pytest.raises(WrongUsage, match="is taken or empty; name it, as NAME=PATH"):
            _named(wrong)


@pytest.mark.parametrize(("size", "status"), [(1, 400), (2, 400), (64, 200), (5000, 200)])
def test_chunks_may_add_an_eighth_to_a_body(size, status):
    """Beside an allowance, which small bodies need: a body in chunks of few bytes is work without end."""

    async def app(request):
        return HttpAnswer(200, b"%d" % len(await request.read()))

    async def exchange():
        async with serving(app) as (_, port), asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write((b"%x\r\n%b\r\n" % (size, b"x" * size)) * (60_000 // size) + b"0\r\n\r\n")
            return await reader.readline()

    assert int(asyncio.run(exchange()).split()[1]) == status


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("n_classes", [2, 7])
def test_the_room_of_an_answer_is_estimated_by_its_labels(n_classes, calibrated, tmp_path):
    """It is reserved before the prediction; more labels than there are need no more room."""
    names = [f"class \u00e9 {k}" for k in range(n_classes)]
    texts, labels = [f"word{k} " * 5 + str(i) for i in range(6) for k in range(n_classes)], names * 6
    machine = SVC(Spectrum(3), device="cpu")
    machine = CalibratedSVC(machine, cv=2) if calibrated else machine
    save(machine.fit(texts, labels), tmp_path / "m.textsvm")
    model = ServedModel("m", str(tmp_path / "m.textsvm"))
    estimates = {}
    for top in (None, 1, n_classes, 10**9):
        request = TextRequest(1, model, [*texts, ""], False, top, calibrated)
        request.rows = request.rows_of(model.predict(texts), slice(None))
        length = len(request.answer()[2])
        assert length <= request.answer_bytes <= 12 * length
        estimates[top] = request.answer_bytes
    assert estimates[1] < estimates[n_classes] == estimates[10**9]


def test_options_are_limits_of_the_server(tmp_path, monkeypatch):
    """Of requests and of clients; the rest of their effect is that of `RequestLimits` and `ClientLimits`."""
    started = []
    monkeypatch.setattr(http, "run", lambda service, *rest: started.append((service, rest[-1])))
    options = ["--max-body", "12345", "--max-characters", "77", "--timeout", "3.5", "--port", "0"]
    options += ["--host", "127.0.0.1", "--host", "Spam.example", "--host", "ham.example"]
    assert run("serve", tmp_path / "m.textsvm", *options, "--quiet").returncode == 0
    [(service, clients)] = started
    limits = service.limits
    assert (limits.max_body, limits.max_characters, limits.timeout) == (12345, 77, 3.5)
    assert (clients.body, clients.sending, clients.answering) == (12345, 3.5, 10.5)
    assert service.hosts == Hosts("127.0.0.1", frozenset(["127.0.0.1", "spam.example", "ham.example"]))


@pytest.fixture(scope="module")
def short_model(tmp_path_factory):
    """A model of three classes in a file."""
    path = tmp_path_factory.mktemp("served") / "m.textsvm"
    texts, labels = [f"word{k} " * 4 + str(i) for i in range(6) for k in range(3)], ["a", "b", "c"] * 6
    save(SVC(Spectrum(3), device="cpu").fit(texts, labels), path)
    return path


@pytest.mark.parametrize(
    ("name", "least", "request_of"),
    [
        ("max_texts", 3, lambda n: {"texts": ["a text"] * n}),
        ("max_characters", 10, lambda n: {"text": "x" * n}),
        ("max_characters", 20, lambda n: {"texts": ["x", "y" * n]}),
    ],
)
def test_limits_of_a_request_are_exact(name, least, request_of, short_model):
    sent = []
    worker = Worker(sent.extend)
    worker.models["m"] = ServedModel("m", str(short_model))
    worker.max_texts, worker.max_characters = 10**6, 10**6
    setattr(worker, name, least)
    statuses = []
    for n in (least - 1, least, least + 1):
        try:
            worker._read(1, json.dumps(request_of(n)).encode())
            statuses.append(200)
        except Refusal as refusal:
            statuses.append(refusal.args[0])
    assert statuses == [200, 200, 413]


def test_counters_are_those_of_the_requests(short_model):
    """Texts, labels and options, over calls of several requests."""
    answers = []
    worker = Worker(answers.extend)
    worker.models["m"] = ServedModel("m", str(short_model))
    worker.max_texts, worker.max_characters = 100, 1000
    texts = ["word0 word0", "word1 word1 word1", "word2", "", "word0 word1"]
    requests = [{"texts": texts[: n + 1]} for n in range(5)] + [{"text": texts[2], "top": 2}, {"text": ""}]
    for number, request in enumerate(requests, 1):
        worker._start(number, json.dumps(request).encode())
    while worker.jobs:
        answers.extend(worker.call())
    rows = {}
    for number, status, body in answers:
        assert status == 200
        found = json.loads(body)
        rows[number] = found.get("predictions", [found])
    assert sorted(rows) == [*range(1, len(requests) + 1)]
    own = load(short_model)
    for number, request in enumerate(requests, 1):
        asked = request.get("texts", [request.get("text")])
        assert len(rows[number]) == len(asked)
        for text, row in zip(asked, rows[number], strict=True):
            label = own.predict([text])[0] if text else None
            assert row.get("label") == label
            assert len(row.get("top", [])) == (2 if "top" in request else 0)
    labels = Counter(row["label"] for own in rows.values() for row in own if row.get("label"))
    facts = worker.models["m"].as_dict()
    assert facts["labels"] == labels
    assert facts["counts"]["texts"] == labels.total()


def test_metrics_are_sums_over_both_processes():
    class Link:
        def __init__(self, n):
            self._n = n

        async def describe(self):
            counts = {"texts": self._n, "low_margins": 2 * self._n, "foreign_texts": 3}
            labels = {"a": self._n, "b": 7}
            training = {"symbols": 0.5, "margin": None}
            return [{"name": "m", "counts": counts, "labels": labels, "training": training}]

    async def metrics(*numbers):
        service = Service({"m": "m.textsvm"}, RequestLimits(), print, Hosts())
        service._link, service._apart = ([Link(n) for n in numbers] + [None])[:2]
        service._failed["m"] += 4
        return (await service(HttpRequest("GET", "/metrics", {}, None))).body.decode()

    one, both = asyncio.run(metrics(5)), asyncio.run(metrics(5, 100))
    for text, factor, n in ((one, 1, 5), (both, 2, 105)):
        assert f'textsvm_texts_total{{model="m"}} {n}\n' in text
        assert f'textsvm_low_margins_total{{model="m"}} {2 * n}\n' in text
        assert f'textsvm_foreign_texts_total{{model="m"}} {3 * factor}\n' in text
        assert f'textsvm_predictions_total{{model="m",label="a"}} {n}\n' in text
        assert f'textsvm_predictions_total{{model="m",label="b"}} {7 * factor}\n' in text
        assert 'textsvm_training_symbols{model="m"} 0.5\n' in text
        assert "training_margin{" not in text
        assert 'textsvm_reload_failures_total{model="m"} 4\n' in text


@pytest.mark.parametrize("most", [1, 4])
def test_as_many_requests_wait_as_are_allowed(most):
    async def statuses():
        service = Service({}, RequestLimits(max_requests=most), print, Hosts())
        service._link, release = object(), asyncio.Event()

        async def ask(link, body, since):
            await release.wait()
            return HttpAnswer(200, b"{}")

        service._ask = ask

        async def read():
            return b"{}"

        requests = [HttpRequest("POST", "/predict", {}, read) for _ in range(most + 3)]
        waiting = [asyncio.create_task(service(request)) for request in requests]
        await asyncio.sleep(0.05)
        release.set()
        return sorted([(await task).status for task in waiting])

    assert asyncio.run(statuses()) == [200] * most + [503] * 3
