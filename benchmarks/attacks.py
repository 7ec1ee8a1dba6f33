"""Attacks on `textsvm serve` and `textsvm label`: latencies of an honest client, memory and answers.

Each form of `FORMS` runs with one connection and with many, against a server in a process of its own;
attackers are further processes. An honest client sends a request every 10 ms, on a connection that it
replaces after ten requests, and compares each answer with that of an idle server. Memory is that of all
processes of the server, with pages of files that they share counted once, measured every 50 ms. Faults are a
status of 500 or above other than 503, an answer that no request asked for, a wrong or missing answer to the
honest client, and a server that has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import gzip
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.harness import BenchmarkReport, benchmark, option
from textsvm import SVC, save
from textsvm.arrays import Json
from textsvm.errors import InputError
from textsvm.readers import sample

#: Limits of the verdict: milliseconds of the 99th percentile of the honest client, and megabytes.
MOST_MS, MOST_MB = 50.0, 400.0
#: Number of connections of each form.
CONNECTIONS = (1, 200)
#: Classes of the second model, whose answers are long.
CLASSES = 200
#: Seconds from the begin of an attack to that of the measurement.
LEAD = 0.5
#: Processes of attackers.
N_ATTACKERS = max(1, (os.cpu_count() or 1) // 4)
BLOCK = 1 << 14


def post(body: bytes, fields: bytes = b"") -> bytes:
    """A request to predict."""
    size = b"Content-Length: %d\r\n" % len(body)
    return b"POST /predict HTTP/1.1\r\nHost: localhost\r\n" + fields + size + b"\r\n" + body


def texts(*texts: str, model: str = "default") -> bytes:
    """A body with texts."""
    return json.dumps({"model": model, "texts": texts}, ensure_ascii=False).encode()


CHUNKED = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
STRANGE = b"".join(
    b"%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" % line
    for line in (b"OPTIONS *", b"POST *", b"GET //%ff%00/../\xc3\xa9")
)
GET, UPGRADE = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
SHORT = texts("win cash now")
BOMB = gzip.compress(b" " * 10_000_000)
MESSAGES = [f"lunch at noon on day {i}, and win cash in week {i * i}" for i in range(1000)]


@dataclass(frozen=True)
class Form:
    """What each connection sends, and how it goes on."""

    name: str
    parts: Callable[[], Iterator[bytes]]  #: Written one after another, each when the last is on its way
    requests: float = 1  #: Answers to be expected at most, of each connection
    reads: bool = True  #: Whether answers are read
    holds: bool = False  #: Whether the connection stays open after the last part, or begins anew
    pause: float = 0.0  #: Seconds between parts
    resets: bool = False  #: Whether the connection is reset after the last part


def endless(start: bytes, block: bytes) -> Callable[[], Iterator[bytes]]:
    """A beginning, and the same bytes again and again."""
    return lambda: chain([start], repeat(block))


def once(*parts: bytes) -> Callable[[], Iterator[bytes]]:
    """Some parts."""
    return lambda: iter(parts)


def filled(line: bytes) -> bytes:
    """A block of equal lines."""
    return line * (BLOCK // len(line))


ANY = float("inf")
FORMS = (
    Form("trailer without end", endless(CHUNKED + b"0\r\nX: ", b"e" * BLOCK)),
    Form("many trailers", endless(CHUNKED + b"0\r\n", filled(b"X: a\r\n"))),
    Form("chunks of a byte", endless(CHUNKED, filled(b"1\r\nx\r\n"))),
    Form("chunk extensions", endless(CHUNKED, b"1;" + b"e" * BLOCK)),
    Form("header without end", endless(b"GET / HTTP/1.1\r\nX: ", b"e" * BLOCK)),
    Form("many header fields", endless(b"GET / HTTP/1.1\r\n", filled(b"X: a\r\n"))),
    Form("a byte at a time", lambda: (post(SHORT)[i : i + 1] for i in range(len(post(SHORT)))), pause=0.001),
    Form("blank lines", endless(b"", filled(b"\r\n"))),
    Form("garbage", endless(b"\x16\x03\x01\x02", os.urandom(BLOCK))),
    Form("body without end", endless(post(b"")[:-5] + b"9" * 13 + b"\r\n\r\n", b"a" * BLOCK)),
    Form(
        "slow bodies",
        endless(post(b"", b"Expect: 100-continue\r\n")[:-5] + b"2000000\r\n\r\n", b"[" * 1000),
        pause=0.02,
    ),
    Form("silence", once(b"POST"), holds=True),
    Form("connections without a request", once(), resets=True),
    Form("reset before the answer", once(post(texts(*MESSAGES))), resets=True),
    Form("uploads with Upgrade", lambda: repeat(post(SHORT, UPGRADE)), requests=ANY),
    Form("pipelined requests", lambda: repeat(filled(GET % b"/models")), requests=ANY),
    Form("unread metrics", lambda: repeat(filled(GET % b"/metrics")), requests=ANY, reads=False),
    Form(
        "unread answers of many classes",
        lambda: repeat(post(texts(*MESSAGES[:200], model="classes"))),
        requests=ANY,
        reads=False,
    ),
    Form("strange targets", once(STRANGE), requests=3),
    Form("two lengths", once(post(SHORT, b"Transfer-Encoding: chunked\r\n") + post(SHORT)), requests=2),
    Form("nested lists", once(post(b"[" * 2_000_000))),
    Form(
        "letters that expand",
        once(post(texts("\ufdfa" * 5500)) + post(texts("\ufdfa" * 100_000))),
        requests=2,
    ),
    Form("pipelined letters that expand", lambda: repeat(post(texts("\ufdfa" * 5500))), requests=ANY),
    Form("empty objects", once(post(b"[" + b"{}," * 690_000 + b"{}]"))),
    Form("compressed bombs", once(post(BOMB, b"Content-Encoding: gzip\r\n"))),
    Form("18 texts of 99,000 characters", once(post(texts(*["win cash now, lunch? " * 4714] * 18)))),
    Form("connect and close", once(), requests=0),
    Form(
        "pipelines and closes",
        once(*[filled(GET % b"/models")] * 40),
        requests=ANY,
        reads=False,
        resets=True,
    ),
    Form("long texts", once(post(texts("win cash now, lunch? " * 4700)))),
    Form("many texts", once(post(texts(*(text * 30 for text in MESSAGES))))),
)


async def _count(reader: asyncio.StreamReader, counts: Counter[str]) -> int:
    """Count answers of a connection by status until it ends; their number."""
    n = 0
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            if head.startswith("http/1.1 100"):
                continue
            counts[head.split()[1]] += 1
            n += 1
            await reader.readexactly(int(re.search(r"content-length: (\d+)", head)[1]))  # type: ignore[index]
    return n


async def _connect(port: int, form: Form, until: float, counts: Counter[str]) -> None:
    """One connection of an attack."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    if not form.reads:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
    answers = asyncio.create_task(_count(reader, counts))
    try:
        for part in form.parts():
            writer.write(part)
            await asyncio.wait_for(writer.drain(), max(0.01, until - time.monotonic()))
            await asyncio.sleep(form.pause)
            if time.monotonic() > until or writer.is_closing() or answers.done():
                break
        if form.resets:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        elif form.holds or not form.reads:
            await asyncio.sleep(until - time.monotonic())
        else:  # until all answers are there, or the server closes the connection
            begun, goal = time.monotonic(), sum(counts.values()) + form.requests
            while (
                not answers.done()
                and sum(counts.values()) < goal
                and time.monotonic() < min(until, begun + 2)
            ):
                await asyncio.sleep(0.001)
    except (OSError, TimeoutError):
        pass
    finally:
        if answers.done() and answers.result() > form.requests:
            counts["twice"] += 1
        answers.cancel()
        writer.transport.abort()


async def _attack(port: int, form: Form, connections: int, seconds: float) -> Counter[str]:
    """Attack from a number of connections, each of which begins anew when it has ended."""
    counts, until = Counter[str](), time.monotonic() + seconds

    async def again() -> None:
        while time.monotonic() < until:
            with suppress(OSError):
                await _connect(port, form, until, counts)
                counts["connections"] += 1
            await asyncio.sleep(0)

    await asyncio.gather(*(again() for _ in range(connections)))
    return counts


def _attacker(port: int, number: int | None, connections: int, seconds: float) -> Counter[str]:
    """Attack from a process of its own."""
    return Counter() if number is None else asyncio.run(_attack(port, FORMS[number], connections, seconds))


class HonestClient:
    """A client with a connection at a time that compares every answer with the first."""

    def __init__(self, port: int, request: bytes) -> None:
        self.port, self.request = port, request
        self.answer = self._ask(self._connected())

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=12)

    def _ask(self, connection: socket.socket) -> bytes:
        connection.sendall(self.request)
        received = b""
        while not (
            match := re.match(rb"(?is)(HTTP/1.1 .*?content-length: (\d+).*?\r\n\r\n)", received)
        ) or len(received) < len(match[1]) + int(match[2]):
            if not (data := connection.recv(1 << 16)):
                break
            received += data
        return received

    def run(self, seconds: float) -> tuple[list[float], int]:
        """Milliseconds of the answers, and number of requests with a wrong answer or none."""
        latencies, faults, until, n = list[float](), 0, time.monotonic() + seconds, 0
        connection: socket.socket | None = None
        while time.monotonic() < until:
            clock = time.perf_counter()
            try:
                connection = connection or self._connected()
                faults += self._ask(connection) != self.answer
            except OSError:
                faults, connection = faults + 1, None
            latencies.append(1000 * (time.perf_counter() - clock))
            if (n := n + 1) % 10 == 0 and connection is not None:
                connection.close()
                connection = None
            time.sleep(0.01)
        if connection is not None:
            connection.close()
        return latencies, faults


def resident(process: int, children: bool = True) -> float:
    """Megabytes of a process and its children; pages of files, which they share, count once."""
    numbers = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
    resident, shared = zip(
        *(
            map(int, Path(f"/proc/{number}/statm").read_text(encoding="utf-8").split()[1:3])
            for number in (process, *(numbers if children else ()))
        ),
        strict=True,
    )
    return (sum(resident) - sum(shared) + max(shared)) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(
    attackers: Executor,
    process: subprocess.Popen[str],
    client: HonestClient,
    number: int | None,
    connections: int,
    seconds: float,
    rest: float = 0.0,
) -> Json:
    """Figures of an attack by the form of this number; of no attack with None."""
    sizes = [(connections + i) // N_ATTACKERS for i in range(N_ATTACKERS)]
    attacks = [
        attackers.submit(_attacker, client.port, number, size, seconds + LEAD) for size in sizes if size
    ]
    peak, end = [0.0], threading.Event()

    def watch() -> None:
        while not end.wait(0.05):
            peak[0] = max(peak[0], resident(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    time.sleep(LEAD)
    latencies, faults = client.run(seconds)
    counts: Counter[str] = sum((attack.result() for attack in attacks), Counter())
    end.set()
    watcher.join()
    time.sleep(rest)
    twice, n_connections = counts.pop("twice", 0), counts.pop("connections", 0)
    failed = sum(n for status, n in counts.items() if status >= "500" and status != "503")
    p99 = float(np.percentile(latencies, 99))
    return {
        "form": "none" if number is None else FORMS[number].name,
        "connections": connections,
        "p50 ms": round(float(np.median(latencies)), 1),
        "p99 ms": round(p99, 1),
        "peak MB": round(peak[0]),
        "MB after": round(resident(process.pid)),
        "of the attackers": n_connections,
        "answers": ", ".join(f"{status}: {n}" for status, n in sorted(counts.items())) or "none",
        "faults": faults + twice + failed + (process.poll() is not None),
        "within": p99 <= MOST_MS and peak[0] <= MOST_MB,
    }


@contextmanager
def server(command: list[str], stream: str, start: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and the address that it has printed."""
    arguments = [sys.executable, "-m", "textsvm", *command]
    with subprocess.Popen(arguments, text=True, **{stream: subprocess.PIPE}) as process:  # type: ignore[call-overload]
        try:
            line = next((line for line in getattr(process, stream) if line.startswith(start)), "")
            if not line:
                raise InputError("the server did not start")
            lines = iter(getattr(process, stream))  # a full pipe would stop the server
            threading.Thread(target=sys.stderr.writelines, args=[lines], daemon=True).start()
            yield process, line.split()[-1]
        finally:
            process.terminate()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], HonestClient]]:
    """`textsvm serve` with the default model and one of many classes, and an honest client."""
    with open(sample("messages"), encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    save(
        SVC("auto").fit([row["text"] for row in rows], [row["label"] for row in rows]),
        folder / "default.textsvm",
    )
    labels = [f"class {i % CLASSES}" for i in range(2 * CLASSES)]
    save(
        SVC("spectrum:2").fit([f"{MESSAGES[i % CLASSES]} {i}" for i in range(2 * CLASSES)], labels),
        folder / "classes.textsvm",
    )
    command = ["serve", str(folder / "default.textsvm"), str(folder / "classes.textsvm"), "--port", "0"]
    with server(command, "stderr", "answering at ") as (process, address):
        yield process, HonestClient(int(address.rpartition(":")[2]), post(SHORT))


@contextmanager
def labelling(folder: Path) -> Iterator[tuple[subprocess.Popen[str], HonestClient]]:
    """`textsvm label`, and its user."""
    command = [
        "label",
        str(sample("messages")),
        "-o",
        str(folder / "labels.jsonl"),
        "--labels",
        "spam,ham",
        "-q",
    ]
    with server(command, "stdout", "label at ") as (process, address):
        _, _, host, token, _ = address.split("/")
        body = b'{"index": 3, "reason": "", "whole": false}'
        line = f"POST /{token}/show HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
        request = line.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
        yield process, HonestClient(int(host.rpartition(":")[2]), request)


SERVERS = {"serve": serving, "label": labelling}


@contextmanager
def under_attack(name: str, folder: Path) -> Iterator[Callable[..., Json]]:
    """A function that measures an attack on a new server: number of the form, connections, seconds."""
    with (
        SERVERS[name](folder) as (process, client),
        ProcessPoolExecutor(N_ATTACKERS, get_context("spawn")) as attackers,
    ):
        list(attackers.map(os.nice, [0] * 8 * N_ATTACKERS))  # start them
        client.run(1)
        yield partial(measure, attackers, process, client)


@benchmark(
    "attacks",
    "textsvm serve and label under attack",
    "reports/attacks",
    option("--seconds", type=float, default=1.5, help="duration of each measurement"),
    option("--rest", type=float, default=0.0, help="seconds between the end of an attack and `MB after`"),
    option("--forms", default="", metavar="WORDS", help="only forms that match", recorded=False),
    option(
        "--servers", nargs="+", choices=SERVERS, default=[*SERVERS], recorded=False, help="servers to attack"
    ),
    note=__doc__,
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Run every form with one connection and with many, and print a table and a verdict."""
    bad = 0
    forms = [i for i, form in enumerate(FORMS) if re.search(options.forms, form.name)]
    for name in options.servers:
        with TemporaryDirectory() as folder, under_attack(name, Path(folder)) as measured:
            for number, n in [(None, 0), *((number, n) for number in forms for n in CONNECTIONS)]:
                row = {"server": name, **measured(number, n, options.seconds, options.rest)}
                widths = {"form": 30, "server": 5}
                print(" ".join(f"{value!s:>{widths.get(key, 9)}}" for key, value in row.items()), flush=True)
                report.put(f"{name} {number} {n}", row)
                bad += not row["within"] or row["faults"] > 0
    print(f"{bad} of {len(report.rows)} rows exceed {MOST_MS:g} ms or {MOST_MB:g} MB, or have faults")
    if bad:
        sys.exit(1)
