"""The HTTP server of `textsvm serve` and `textsvm label`: framing, and bytes that are held."""

import asyncio
import random
import re
import socket
from contextlib import asynccontextmanager
from functools import partial

import pytest

pytest.importorskip("httptools")

from textsvm.runtime import http
from textsvm.runtime.http import ClientLimits, HttpAnswer, _Connection, _Turns

BODIES = [b"", b"abc", b"\r\n\r\nGET /x HTTP/1.1\r\n\r\n", b"\r\n" * 1500, b"x" * 20_000, b"0\r\n\r\n"]


@asynccontextmanager
async def serving(app, **limits):
    """Turns and port of a server of this process."""
    limits = ClientLimits(**limits)
    turns = _Turns(limits.held)
    connect = partial(_Connection, app, limits, turns)
    server = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0)
    try:
        yield turns, server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def random_request(number, choose):
    """A request, and the status and body of its answer."""
    path, body = b"/%d" % number, choose.choice(BODIES)
    early = choose.random() < 0.2
    line = b"%b /%b%d HTTP/1.1\r\nHost: a\r\n" % (b"POST" if body else b"GET", b"early" * early, number)
    line = choose.choice([b"", b"\r\n\r\n"]) + line
    line += choose.choice([b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"X: " + b"h" * 9000 + b"\r\n"])
    if choose.random() < 0.5:
        request = line + b"Content-Length: %d\r\n\r\n" % len(body) + body
    else:
        size = choose.choice([997, 3000, 9000])
        parts = [body[k : k + size] for k in range(0, len(body), size)]
        chunks = b"".join(b"%x;a=1\r\n%b\r\n" % (len(part), part) for part in parts)
        end = choose.choice([b"0\r\n\r\n", b"0\r\nDigest: x\r\n\r\n"])
        request = line + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + end
    return (request, 404, b"early") if early else (request, 200, path + b"|" + body)


@pytest.mark.parametrize("seed", range(60))
def test_answers_are_those_of_the_requests_however_bytes_arrive(seed):
    """Also of requests that are answered before their end, and of bodies that look like requests."""

    async def app(request):
        if request.path.startswith("/early"):
            return HttpAnswer(404, b"early")
        await asyncio.sleep(choose.choice([0, 0.001]))
        return HttpAnswer(200, request.path.encode() + b"|" + await request.read())

    async def exchange():
        requests = [random_request(number, choose) for number in range(10)]
        stream = b"".join(request for request, _, _ in requests)
        async with serving(app) as (turns, port), asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sending = asyncio.create_task(send(writer, stream))
            for _, status, body in requests:
                head = await reader.readuntil(b"\r\n\r\n")
                answer = await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
                assert (int(head.split()[1]), answer) == (status, body)
            await sending
            writer.close()
            await until(lambda: not turns.connections)
            assert (turns.held, len(turns.oldest_first)) == (0, 0)

    async def send(writer, stream):
        while stream:
            size = choose.choice([1, 3, 50, 500, 4096, 9999, 100_000])
            writer.write(stream[:size])
            stream = stream[size:]
            await writer.drain()
            await asyncio.sleep(0)

    choose = random.Random(seed)
    asyncio.run(exchange())


@pytest.mark.parametrize("value", [b"100-continue", b"100-Continue"])
def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(value):
    async def app(request):
        return HttpAnswer(200, await request.read())

    async def ask():
        async with serving(app) as (_, port), asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: %b\r\n\r\n" % value)
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"body")
            assert (await reader.readuntil(b"body")).startswith(b"HTTP/1.1 200 OK")
            writer.close()

    asyncio.run(ask())


@pytest.mark.parametrize("state", ["idle", "sending", "answering"])
def test_a_connection_may_be_in_a_state_as_long_as_its_limit(state):
    limits = {"idle": 30.0, "sending": 10.0, "answering": 50.0}
    sent = {"idle": b"", "sending": b"GET", "answering": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"}

    async def app(request):
        await asyncio.sleep(60)

    async def close():
        async with serving(app, **limits) as (turns, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent[state])
            await until(lambda: [connection.state for connection in turns.connections] == [state])
            [connection] = turns.connections
            for seconds, closes in ((limits[state] - 1, False), (limits[state] + 1, True)):
                connection.since = connection.loop.time() - seconds
                connection.check()
                assert connection.transport.is_closing() == closes
            writer.close()

    asyncio.run(close())


@pytest.mark.parametrize(("hard", "expected"), [(100, [100, 36]), (5000, [2064, 2000])])
def test_some_files_of_a_process_are_not_for_connections(hard, expected, monkeypatch):
    found, resource = [], pytest.importorskip("resource")

    async def serve(*arguments):
        found.append(arguments[-1].connections)

    monkeypatch.setattr(http, "_serve", serve)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (70, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: found.append(limits[0]))
    http.run(None, None, None)
    assert found == expected


def test_a_lost_connection_frees_its_bytes_and_ends_its_request():
    ended = []

    async def app(request):
        try:
            await request.read()
            await asyncio.sleep(60)
        finally:
            ended.append(request.path)

    async def lose(request):
        async with serving(app) as (turns, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            await until(lambda: turns.held > 20_000)
            writer.transport.abort()
            await until(lambda: not turns.connections)
            assert turns.held == 0
            await until(lambda: ended)

    head = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    for size in (30_000, 40_000):  # the whole body, or a part
        asyncio.run(lose(head % size + b"x" * 30_000))
        assert ended == ["/a"]
        ended.clear()


def test_connections_that_are_lost_in_the_queue_of_the_parser_hold_nothing():
    async def app(request):
        return HttpAnswer(200, await request.read())

    async def lose():
        async with serving(app) as (turns, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nX: " + b"h" * 9000)
            await until(lambda: turns.held > 8000)
            [connection] = turns.connections
            writer.transport.abort()
            await until(lambda: not turns.connections)
            turns.add(connection)  # as if it had been there since before
            await until(lambda: not connection.queued)
            assert turns.held == 0

    asyncio.run(lose())


def test_at_most_a_piece_is_read_before_an_answer():
    """Requests that follow stay with the operating system."""

    async def app(request):
        await answering.wait()
        return HttpAnswer(200, b"")

    async def pipeline():
        async with serving(app) as (turns, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 100_000)
            await until(lambda: turns.held > 3000)
            await asyncio.sleep(0.3)
            assert turns.held < 9000
            assert sum(connection.requests for connection in turns.connections) == 1
            writer.transport.abort()
            answering.set()
            await until(lambda: not turns.connections)

    answering = asyncio.Event()
    asyncio.run(pipeline())


async def large(request):
    return HttpAnswer(200, b"x" * 9_000_000)


def test_unread_answers_are_bounded():
    async def ask():
        async with serving(large, held=20_000_000) as (turns, port):
            writers = []
            for _ in range(10):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
                writer.transport.pause_reading()
                writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 2)
                writers.append((reader, writer))
                await asyncio.sleep(0.01)
                assert turns.held <= 20_000_000
            await until(lambda: len(turns.connections) < 10)
            for _, writer in writers:
                writer.transport.abort()
            await until(lambda: not turns.connections)
            assert turns.held == 0

    asyncio.run(ask())


def test_an_unread_answer_is_dropped():
    async def ask():
        async with serving(large, sending=0.5) as (turns, port):
            watching = asyncio.create_task(turns.watch())
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
            writer.transport.pause_reading()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: turns.held > 1_000_000)
            await until(lambda: not turns.connections)
            assert turns.held == 0
            watching.cancel()
            writer.transport.abort()

    asyncio.run(ask())


def test_a_client_that_reads_slowly_has_its_whole_answer():
    """Each time that it reads, it has as long again; one that stops is closed."""
    size = 1_000_000

    async def app(request):
        return HttpAnswer(200, b"x" * size)

    async def ask(reads):
        loop = asyncio.get_running_loop()
        async with serving(app, sending=0.3) as (turns, port):
            client = socket.create_connection(("127.0.0.1", port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
            reader, writer = await asyncio.open_connection(sock=client, limit=1 << 15)
            await until(lambda: turns.connections)
            [connection] = turns.connections
            own = connection.transport.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            n, start = 0, loop.time()
            while turns.connections and (n <= size if reads else loop.time() < start + 1):
                await asyncio.sleep(0.04)
                connection.check()
                n += len(await reader.read(1 << 16)) if reads else 0
            assert loop.time() > start + 0.3
            closed = not turns.connections and not turns.held
            writer.transport.abort()
            return n > size, closed

    assert asyncio.run(ask(True)) == (True, False)
    assert asyncio.run(ask(False)) == (False, True)
