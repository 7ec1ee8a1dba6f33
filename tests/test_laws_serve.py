"""What holds for the HTTP server: framing is bounded by the body, and seconds are counted as seconds."""

import asyncio
import re

import pytest
from command import run

pytest.importorskip("httptools")

from test_http import serving

from textsvm import SVC, CalibratedSVC, Spectrum, save
from textsvm.apps.serve.app import BOUNDS, RequestLimits, Service
from textsvm.apps.serve.worker import ServedModel, TextRequest
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


@pytest.mark.parametrize(("size", "status"), [(1, 400), (2, 400), (64, 200), (5000, 200)])
def test_chunks_may_add_an_eighth_to_a_body(size, status):
    """Beside an allowance, which small bodies need: a body in chunks of few bytes is work without end."""

    async def app(request):
        return HttpAnswer(200, b"%d" % len(await request.read()))

    async def exchange():
        async with serving(app) as (_, port), asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
            writer.write(chunk * (60_000 // size) + b"0\r\n\r\n")
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
    monkeypatch.setattr(http, "run", lambda service, *rest: started.append((service.limits, rest[-1])))
    options = ["--max-body", "12345", "--max-characters", "77", "--timeout", "3.5", "--port", "0"]
    assert run("serve", tmp_path / "m.textsvm", *options, "--quiet").returncode == 0
    [(limits, clients)] = started
    assert (limits.max_body, limits.max_characters, limits.timeout) == (12345, 77, 3.5)
    assert (clients.body, clients.header_seconds if hasattr(clients, "header_seconds") else 3.5) == (
        12345,
        3.5,
    )
