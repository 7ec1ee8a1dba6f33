"""The application of `textsvm serve`: POST /predict, GET /models, /healthz, /metrics and /openapi.json.

Bodies go to the worker process unread, and its answers go back unchanged. Large bodies and long texts go to a
second worker, at most two at a time; the first of them starts it.
/metrics has the counters of the models, and counts requests of /predict alone, by any method.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import accumulate, chain
from math import inf
from typing import Any

from textsvm.apps.serve import APART, CANCEL, DESCRIBE, FRAME, LOAD, PREDICT, PROGRESS_NUMBER, frames
from textsvm.arrays import Json
from textsvm.errors import InputError, one_line
from textsvm.runtime.http import BodyRefused, Hosts, HttpAnswer, HttpRequest
from textsvm.runtime.plain_json import error_body
from textsvm.version import __version__

#: Upper bounds of the histogram of latencies, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_DIRECT = 1 << 12  #: Bytes of a body up to which it goes to the first worker, at once
_LARGE = 2  #: Requests that the second worker has at a time
#: Settings of glibc: freed memory of large texts goes back to the system.
_ALLOCATOR = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "1048576"}
_UNREAD = 1 << 23  #: Bytes for the worker that it has not read; above them more requests are refused
_LOOK = 0.25  #: Seconds between looks at the waiting requests
_AGAIN = 2.0  #: Seconds between attempts to start a worker or to load a missing model
_FILES = files("textsvm.apps.serve")
#: Lines `# HELP` and `# TYPE` of each metric, by its name without `textsvm_`.
_HEADS = {
    head.split("_", 1)[1].split()[0]: head
    for head in re.findall(".*\n.*\n", _FILES.joinpath("metrics.txt").read_text("utf-8"))
}


@dataclass(frozen=True)
class RequestLimits:
    """Limits of requests."""

    max_body: int = 1 << 21  #: Bytes
    max_texts: int = 1000
    max_characters: int = 100_000  #: Of a text
    max_requests: int = 256  #: That wait for a prediction
    timeout: float = 10.0  #: Seconds for a prediction


_BUSY = HttpAnswer(503, error_body("the server is busy; try again"))
_LOADING = HttpAnswer(503, error_body("the models are loading; try again"))


class _Link(asyncio.SubprocessProtocol):
    """A worker process, and the requests that it has not answered."""

    def __init__(self, on_end: Callable[[_Link], None], on_loss: Callable[[str], None]) -> None:
        self.waiting: dict[int, tuple[asyncio.Future[tuple[int, bytes]], float]] = {}
        self._on_end, self._on_loss = on_end, on_loss
        self._number, self._received, self._heard = 0, bytearray(), 0.0

    def connection_made(self, transport: Any) -> None:
        self.process, self._stdin = transport, transport.get_pipe_transport(0)
        self.unread_bytes: Callable[[], int] = self._stdin.get_write_buffer_size

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._heard = time.monotonic()
        self._received += data
        for number, status, body in frames(self._received):
            if number == PROGRESS_NUMBER and body:
                self._on_loss(body.decode())
            self._answer(number, status, body)

    def process_exited(self) -> None:
        for number in list(self.waiting):
            self._answer(number, 503, error_body("the process that predicts has ended; try again"))
        self._on_end(self)

    def _answer(self, number: int, status: int, body: bytes) -> None:
        future, _ = self.waiting.pop(number, (None, 0.0))
        if future is not None and not future.done():
            future.set_result((status, body))

    def ask(self, kind: int, body: bytes | bytearray, since: float) -> asyncio.Future[tuple[int, bytes]]:
        """Send a request that waits `since` a time, or inf for no limit; status and body of its answer."""
        self._number = self._number % 0xFFFFFFFF + 1
        future = asyncio.get_running_loop().create_future()
        self.waiting[self._number] = future, since
        self._stdin.write(FRAME.pack(len(body), self._number, kind) + body)
        future.add_done_callback(partial(self._give_up, self._number))
        return future

    def _give_up(self, number: int, future: asyncio.Future[tuple[int, bytes]]) -> None:
        """Cancel a request whose client has gone."""
        if future.cancelled() and number in self.waiting:
            del self.waiting[number]
            self._stdin.write(FRAME.pack(0, number, CANCEL))

    async def describe(self) -> list[Json]:
        """Facts and counters of the models; none if the worker does not answer."""
        status, body = await self.ask(DESCRIBE, b"", time.monotonic())
        return json.loads(body) if status == 200 else []

    def refuse_late(self, timeout: float) -> None:
        """Refuse requests that have waited for `timeout` seconds; kill a worker that was silent as long."""
        before = time.monotonic() - timeout
        for number in [number for number, (_, since) in self.waiting.items() if since < before]:
            self._answer(number, 503, error_body(f"no prediction within {timeout:g} seconds; try again"))
            self._stdin.write(FRAME.pack(0, number, CANCEL))
            if self._heard < before:
                self.process.kill()


class Service:
    """Application, and asynchronous context in which its workers run.

    `models` are paths by name; `say` is called with each line of the log.
    """

    def __init__(
        self, models: dict[str, str], limits: RequestLimits, say: Callable[[str], None], hosts: Hosts
    ) -> None:
        self.models, self.limits, self._say, self.hosts = models, limits, say, hosts
        self._link: _Link | None = None
        self._apart: _Link | None = None  #: Second worker
        self._opening: asyncio.Task[None] | None = None  #: Start of it
        self._tasks: list[asyncio.Task[None]] = []
        self._missing = set(models)  #: Models that the worker has not loaded yet
        self._reloading, self._failures = False, dict[str, str]()
        self._failed = Counter(dict.fromkeys(models, 0))  #: Loads, after the first, by name
        self._work = asyncio.Event()  #: For `_maintain`
        self._answers: Counter[int] = Counter()
        self._latencies, self._seconds = [0] * (len(BOUNDS) + 1), 0.0
        self._waiting = self._queued = 0
        self._large = asyncio.Semaphore(_LARGE)
        self._pages = {"/models": self._models, "/healthz": self._health, "/metrics": self._metrics,
                       "/openapi.json": self._openapi}  # fmt: skip
        self._shapes: dict[tuple[str, str], set[str]] = {}  #: Classes and columns by model
        self._asked: dict[str, asyncio.Task[HttpAnswer]] = {}  #: Latest answers of pages

    async def __aenter__(self) -> Service:
        if failures := await self._load(set(self.models)):
            await self.__aexit__()
            raise InputError(next(iter(failures.values())))
        await self._compare_shapes()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in (self._watch(), self._maintain())]
        return self

    async def __aexit__(self, *failed: object) -> None:
        links, self._link, self._apart = self._links(), None, None
        for task in [*self._tasks, *filter(None, [self._opening])]:
            task.cancel()
        for link in links:
            link.process.close()
            while link.process.get_returncode() is None:
                await asyncio.sleep(0.01)

    def _links(self) -> list[_Link]:
        return [link for link in (self._link, self._apart) if link is not None]

    async def _start(self, apart: bool = False) -> _Link:
        code = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "  # before the imports
        code += f"sys.path[:] = {sys.path!r}; from textsvm.apps.serve import worker; worker.main({apart})"
        link, command = _Link(self._ended, self._lost), (sys.executable, "-c", code)
        loop, environment = asyncio.get_running_loop(), {**os.environ, **_ALLOCATOR}
        await loop.subprocess_exec(lambda: link, *command, stderr=None, env=environment)
        return link

    async def _load(self, names: set[str]) -> dict[str, str]:
        """Load models, in a new worker if there is none; sentences by name of those that cannot be loaded."""
        link = self._link or await self._start()
        if "" not in (failures := await self._load_in(link, names)):
            self._link = link
            if self._apart is not None:
                failures |= await self._load_in(self._apart, names)
                failures.pop("", None)  # the next request starts another
            self._missing -= names - failures.keys()
        return failures

    async def _open(self) -> None:
        """Start the second worker; both load replaced models again; models that do not fit twice stay out."""
        link, names = await self._start(apart=True), set(self.models)
        if "" not in (failures := await self._load_in(link, names)):
            self._apart = link
            for failure in failures.values():
                self._say(f"{failure}; it answers no large requests until the next reload")
            digests = [{own["name"]: own["digest"] for own in await x.describe()} for x in self._links()]
            self._missing |= {x for x in names - {*failures} if len({own.get(x) for own in digests}) > 1}
            self._work.set()

    async def _load_in(self, link: _Link, names: set[str]) -> dict[str, str]:
        settings = {
            "models": self.models, "names": sorted(names),
            "max_texts": self.limits.max_texts, "max_characters": self.limits.max_characters,
        }  # fmt: skip
        status, body = 503, b""
        if link.process.get_returncode() is None:  # otherwise nobody would answer
            try:
                status, body = await link.ask(LOAD, json.dumps(settings).encode(), inf)
            except asyncio.CancelledError:  # the server is stopped
                link.process.close()
                raise
        if status != 200 or link.process.get_returncode() is not None:
            link.process.close()
            return {"": "the process that loads the models has ended; is there enough main memory?"}
        return dict(json.loads(body))

    def _ended(self, link: _Link) -> None:
        if self._link is link:
            self._link, self._missing = None, set(self.models)
            code = link.process.get_returncode()
            self._say(f"the process that predicts has ended ({code}); starting another")
            self._work.set()
        elif self._apart is link:
            self._apart = None
            self._say(f"the process for large requests has ended ({link.process.get_returncode()})")

    def _lost(self, name: str) -> None:
        if name not in self._missing:
            self._say(f"{self.models[name]} has changed or is damaged; replace models by renaming a new file")
            self._missing.add(name)
            self._work.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            for link in self._links():
                link.refuse_late(self.limits.timeout)

    def reload(self) -> None:
        """Load the models again; the old models answer until then, and remain if a file cannot be read."""
        self._reloading = True
        self._work.set()

    async def _maintain(self) -> None:
        """Replace a worker that has ended, load missing models, and all at SIGHUP: one load at a time."""
        while True:
            await self._work.wait()
            self._work.clear()
            if self._missing or self._reloading:
                await self._renew()
            if self._missing:
                asyncio.get_running_loop().call_later(_AGAIN, self._work.set)

    async def _renew(self) -> None:
        earlier = {} if self._reloading else self._failures  # attempts repeat; their sentences do not
        names = set(self.models if self._reloading else self._missing)
        self._reloading = False
        try:
            failures = await self._load(names)
        except (OSError, MemoryError) as error:
            failures = {"": f"the process that predicts cannot be started: {error}"}
        self._failed.update(names if "" in failures else [*failures])
        for name, failure in failures.items():
            if earlier.get(name) != failure:
                remains = name in self.models and name not in self._missing
                self._say(f"{failure}; the old model remains" if remains else failure)
        self._failures = failures
        if loaded := [name for name in self.models if name in names - failures.keys() - self._missing]:
            self._say(f"loaded again: {', '.join(loaded)}")
        await self._compare_shapes()

    async def _compare_shapes(self) -> None:
        """Log the classes and columns of models that are others than before."""
        for model in [] if self._link is None else await self._link.describe():
            for part in ("classes", "columns"):
                key, names = (model["name"], part), set(model.get(part) or ())
                old = self._shapes.get(key, names)
                self._shapes[key] = names
                changes = {"new": names - old, "gone": old - names}
                if words := [
                    f"{word} {', '.join(sorted(parts))}" for word, parts in changes.items() if parts
                ]:
                    self._say(one_line(f"the model {model['name']} has other {part}: {'; '.join(words)}"))

    async def __call__(self, request: HttpRequest) -> HttpAnswer:
        clock = time.perf_counter()
        if request.path != "/predict":
            return self.hosts.refusal(request) or await self._page(request.method, request.path)
        answer = self.hosts.refusal(request) or await self._predict(request)
        self._answers[answer.status] += 1
        seconds = time.perf_counter() - clock
        self._latencies[bisect_left(BOUNDS, seconds)] += 1
        self._seconds += seconds
        return answer

    async def _predict(self, request: HttpRequest) -> HttpAnswer:
        if request.method != "POST":
            message = 'send texts by POST, as in {"text": "win cash now"}'
            return HttpAnswer(405, error_body(message), headers={"allow": "POST"})
        if request.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
            message = "the body has a Content-Encoding; send it as it is"
            return HttpAnswer(415, error_body(message), headers={"accept-encoding": "identity"})
        if self._link is None:
            return _LOADING
        try:
            body = await request.read()
        except BodyRefused as refusal:
            return refusal.args[0]
        if self._waiting >= self.limits.max_requests:
            return _BUSY
        self._waiting, since = self._waiting + 1, time.monotonic()
        try:
            answer = await self._ask(self._link, body, since) if len(body) <= _DIRECT else None
            return answer if answer and answer.status != APART else await self._predict_apart(body, since)
        finally:
            self._waiting -= 1

    async def _predict_apart(self, body: bytes | bytearray, since: float) -> HttpAnswer:
        """Answer of the second worker; its start counts as waiting."""
        if self._queued >= max(1, self.limits.max_requests // 4):  # others find room
            return _BUSY
        self._queued += 1
        try:
            async with asyncio.timeout_at(since + self.limits.timeout):  # loops read the same clock
                if self._apart is None:
                    if self._opening is None or self._opening.done():
                        self._opening = asyncio.create_task(self._open())
                    await asyncio.shield(self._opening)
                await self._large.acquire()
            task = asyncio.create_task(self._ask(self._apart, body, since))
            task.add_done_callback(lambda _: self._large.release())  # also if the client has gone
            return await asyncio.shield(task)
        except (OSError, MemoryError):  # a timeout, or the process cannot be started
            return _BUSY
        finally:
            self._queued -= 1

    async def _ask(self, link: _Link | None, body: bytes | bytearray, since: float) -> HttpAnswer:
        """Answer of a worker."""
        if link is None:
            return _LOADING
        if link.unread_bytes() > _UNREAD:
            return _BUSY
        return HttpAnswer(*await link.ask(PREDICT, body, since))

    async def _page(self, method: str, path: str) -> HttpAnswer:
        """Answer of a page; requests that arrive while it is prepared get the same."""
        if path not in self._pages or method not in ("GET", "HEAD"):
            pages = "POST /predict, GET /models, /healthz, /metrics and /openapi.json"
            error = error_body(f"there is no {method} {path}; there are {pages}")
            if path not in self._pages:
                return HttpAnswer(404, error)
            return HttpAnswer(405, error, headers={"allow": "GET, HEAD"})
        task = self._asked.get(path)
        if task is None or task.done():
            task = self._asked[path] = asyncio.create_task(self._pages[path]())
        return await asyncio.shield(task)

    async def _models(self) -> HttpAnswer:
        counters = ("training", "labels", "counts")
        models = [] if self._link is None else await self._link.describe()
        facts = [{name: model[name] for name in model if name not in counters} for model in models]
        return HttpAnswer(200, json.dumps({"models": facts}).encode()) if models else _LOADING

    async def _openapi(self) -> HttpAnswer:
        document = _FILES.joinpath("openapi.json").read_text("utf-8")
        return HttpAnswer(200, document.replace("VERSION", __version__).encode())

    async def _health(self) -> HttpAnswer:
        ready, word = self._ready(), "partial" if self._missing else "ok"
        missing = [name for name in self.models if name in self._missing]
        state = {"status": word if ready else "loading", "ready": ready, "missing": missing}
        return HttpAnswer(200 if ready else 503, json.dumps(state).encode())

    def _ready(self) -> list[str]:
        return [name for name in self.models if name not in self._missing]

    async def _metrics(self) -> HttpAnswer:
        described = await asyncio.gather(*(link.describe() for link in self._links()))
        up, ready = bool(described) and all(described), self._ready()
        values: list[tuple[str, str, float]] = [("up", "", int(up and bool(ready)))]
        ups = [(f"model={_quoted(name)}", int(up and name in ready)) for name in self.models]
        values += [("model_up", *pair) for pair in ups]
        values.append(("requests_waiting", "", self._waiting))
        values += [("requests_total", f'code="{code}"', number) for code, number in self._answers.items()]
        failed = self._failed.items()
        values += [("reload_failures_total", f"model={_quoted(name)}", number) for name, number in failed]
        totals = [*accumulate(self._latencies)]
        buckets = zip([*BOUNDS, "+Inf"], totals, strict=True)
        values += [("request_seconds_bucket", f'le="{bound}"', total) for bound, total in buckets]
        values += [("request_seconds_sum", "", self._seconds), ("request_seconds_count", "", totals[-1])]
        sums = dict[tuple[str, str], float]()  # over the workers
        for model in chain(*described) if up else ():
            name = f"model={_quoted(model['name'])}"
            counts = [(f"{key}_total", name, number) for key, number in model["counts"].items()]
            for label, number in model["labels"].items():
                counts.append(("predictions_total", f"{name},label={_quoted(label)}", number))
            for key, labels, number in counts:
                sums[key, labels] = sums.get((key, labels), 0) + number
            training = {key: number for key, number in model["training"].items() if number is not None}
            sums |= {(f"training_{key}", name): number for key, number in training.items()}
        values += [(*key, number) for key, number in sums.items()]
        return HttpAnswer(200, metrics_text(values).encode(), "text/plain; version=0.0.4; charset=utf-8")


def _quoted(value: str) -> str:
    """Value of a label in Prometheus' format, which is UTF-8 and so has no lone surrogates."""
    value = value.encode("utf-8", "backslashreplace").decode()
    return '"{}"'.format(value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))


def metrics_text(values: Iterable[tuple[str, str, float]]) -> str:
    """Prometheus' text format, from names, labels and values; the values of a name are together."""
    samples = {family: list[str]() for family in _HEADS}
    for name, labels, value in values:
        braced = f"{{{labels}}}" if labels else ""
        family = name if name in samples else name.rpartition("_")[0]  # of a histogram
        samples[family].append(f"textsvm_{name}{braced} {value}\n")
    return "".join(_HEADS[family] + "".join(lines) for family, lines in samples.items() if lines)
