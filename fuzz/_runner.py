"""Runs targets in processes of their own, within bounds on time and memory, and counts the findings.

A target is a file of this folder with a function `run(seed)`: it makes a case from a number, and raises
AssertionError with the case if the code under test breaks a promise. A process is killed if its memory in use
grows by more than 1 GB after its first case (reserved addresses do not count), or if a case takes more than
60 s. A case of more than 10 s may have compiled something, and is repeated: it is a hang if the second run
takes 10 s of processor time (waiting for other programs does not count). Each of these is a finding, and so
is a crash. "MB more" is the largest growth of a process over all its cases.

With NUMBA_BOUNDSCHECK=1, and NUMBA_CACHE_DIR naming an empty folder, compiled functions check every index: an
access outside an array raises IndexError, which is a finding.

The report has a row per target and first seed. Rows of other runs remain; the same run replaces its row.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import BenchmarkReport
from textsvm.errors import InputError
from textsvm.runtime import compiled
from textsvm.runtime.parallel import limit

FOLDER = Path(__file__).resolve().parent
#: Bounds of a case: seconds, bytes, and seconds until its process is killed.
MOST_SECONDS, MOST_BYTES, ONCE = 10.0, 1 << 30, 60.0
#: Seconds between checks of a process, and cases per request.
LOOK, BATCH = 0.05, 1000
#: Maximum number of printed findings per target.
SHOWN = 20


def targets() -> list[str]:
    """Names of all targets."""
    return sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


def run_targets(
    names: Sequence[str], jobs: int, first: int, cases: int | None, seconds: float, output: Path
) -> None:
    """Run targets for a number of cases or seconds, and write the counts; exit with 1 after findings."""
    if sys.platform != "linux":
        raise InputError("fuzzing reads the memory of its processes as Linux reports it; run it there")
    known = targets()
    for name in names:
        if name not in known:
            raise InputError(f"{name!r} is not a target of fuzz/; the targets are {', '.join(known)}")
    report = BenchmarkReport(output, "Fuzzing", "python -m fuzz", __doc__ or "", keep_commits=True)
    broken = 0
    bounds = (first, cases, float("inf") if cases else seconds)
    for name, counts in side_by_side(list(dict.fromkeys(names or known)), max(1, jobs), *bounds):
        print(report.put(f"{name} from {first}", counts), flush=True)
        broken += sum(counts[kind] for kind in ("findings", "crashes", "hangs"))
    if broken:
        raise SystemExit(f"{broken:,} cases broke a promise; the first are above")


def side_by_side(
    names: Sequence[str], jobs: int, first: int, cases: int | None, seconds: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Counts of every target, in order; the processes of a target share its seeds."""
    parts = max(1, jobs // len(names))
    end = sys.maxsize if cases is None else first + cases
    with ThreadPoolExecutor(jobs) as pool, _folder() as folder:
        running = {
            name: [
                pool.submit(attack, _Task(name, folder, jobs > 1), range(first + part, end, parts), seconds)
                for part in range(parts)
            ]
            for name in names
        }
        for name, some in running.items():
            total = Counts()
            for one in some:
                total.add(one.result())
            yield name, {"target": name, "first": first, **total.row(), "jobs": parts}


@dataclass
class Counts:
    """Counts of cases and findings."""

    cases: int = 0
    findings: int = 0
    crashes: int = 0
    hangs: int = 0
    longest: float = 0.0
    more: int = 0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        """Add the counts of a concurrent run."""
        for name in ("cases", "findings", "crashes", "hangs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("longest", "more", "seconds"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))

    def row(self) -> dict[str, Any]:
        """A row of the report."""
        counts = {name: getattr(self, name) for name in ("cases", "findings", "crashes", "hangs")}
        return {
            **counts,
            "seconds": round(self.seconds),
            "longest s": round(self.longest, 2),
            "MB more": self.more >> 20,
        }


class _Task(NamedTuple):
    """Task of a process: a target, a folder for its files, and whether it is limited to one thread."""

    name: str
    folder: str
    alone: bool


class _Finding(NamedTuple):
    """A finding: a field of `Counts`, a seed and a message."""

    kind: str
    seed: int
    message: str


def attack(task: _Task, seeds: range, seconds: float) -> Counts:
    """Run cases of a target one after the other until the time is up, and count them."""
    worker, total, start = _Worker(task), Counts(), time.perf_counter()
    while seeds and time.perf_counter() < start + seconds:
        for finding in worker.tried(seeds[:BATCH]):
            if isinstance(finding, Counts):
                total.add(finding)
                seeds = seeds[finding.cases :]
                continue
            setattr(total, finding.kind, getattr(total, finding.kind) + 1)
            if total.findings + total.crashes + total.hangs <= SHOWN:
                print(f"{task.name} {finding.seed}: {finding.kind}: {finding.message}", flush=True)
        if worker.ended:
            worker = _Worker(task)
    worker.close()
    total.seconds = time.perf_counter() - start
    return total


class _Worker:
    """A process that runs one case after the other."""

    def __init__(self, task: _Task) -> None:
        context = get_context("spawn")
        self._pipe, end = context.Pipe()
        #: Seed and start time of the current case.
        self._at = context.Array("d", 2, lock=False)
        self._process = context.Process(target=_serve, args=(task, end, self._at), daemon=True)
        self._process.start()
        self.ended = False
        end.close()
        try:
            self._most = self._pipe.recv() + MOST_BYTES  # after its imports and the first case
        except EOFError:
            raise InputError(
                f"fuzz/{task.name}.py does not start; the message of its process is above"
            ) from None

    def tried(self, seeds: range) -> Iterator[_Finding | Counts]:
        """Yield findings, then the counts of the cases that ran."""
        self._at[:] = [seeds[0], time.monotonic()]
        try:
            self._pipe.send(seeds)
            while True:
                while not self._pipe.poll(LOOK):
                    if trouble := self._trouble():
                        yield from self._end(seeds, *trouble)
                        return
                finding = self._pipe.recv()
                yield finding
                if isinstance(finding, Counts):
                    return
        except (EOFError, ConnectionError):
            self._process.join(5)
            yield from self._end(seeds, "crashes", f"the process ended with {self._process.exitcode}")

    def _trouble(self) -> tuple[str, str] | None:
        if time.monotonic() > self._at[1] + ONCE:
            return "hangs", f"more than {ONCE:g} s"
        if _resident(self._process.pid) > self._most:
            return "findings", f"more than {MOST_BYTES:,} bytes of memory"
        return None

    def _end(self, seeds: range, kind: str, message: str) -> Iterator[_Finding | Counts]:
        """Kill the process during a case, and yield the finding."""
        seed, took = int(self._at[0]), time.monotonic() - self._at[1]
        self.close()
        yield _Finding(kind, seed, message)
        more = MOST_BYTES if kind == "findings" else 0
        yield Counts(cases=seeds.index(seed) + 1, longest=took, more=more)

    def close(self) -> None:
        """Kill the process."""
        self.ended = True
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(task: _Task, pipe: Any, at: Any) -> None:
    """Run the cases received from the pipe."""
    tempfile.tempdir = task.folder
    if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
        compiled.NUMPY_SIZE = -1  # NumPy has checks of its own: run the compiled functions
    with limit(1 if task.alone else None):
        run = importlib.import_module(f"fuzz.{task.name}").run
        _outcome(run, 0)
        before = _resident(os.getpid())
        pipe.send(before)
        while True:
            try:
                seeds = pipe.recv()
            except EOFError:
                return
            pipe.send(_batch(run, seeds, pipe, at, before))


def _batch(run: Callable[[int], None], seeds: range, pipe: Any, at: Any, before: int) -> Counts:
    """Run cases for about a second; findings are sent at once."""
    done, start = Counts(), time.monotonic()
    for seed in seeds:
        at[:] = [seed, time.monotonic()]
        message, took = _outcome(run, seed), time.monotonic() - at[1]
        if took >= MOST_SECONDS:
            at[1], begun = time.monotonic(), time.process_time()
            message = _outcome(run, seed)
            took = min(time.monotonic() - at[1], time.process_time() - begun)
        if took >= MOST_SECONDS:
            pipe.send(_Finding("hangs", seed, f"{took:.1f} s"))
        elif message:
            pipe.send(_Finding("findings", seed, message))
        done.cases, done.longest = done.cases + 1, max(done.longest, took)
        if time.monotonic() > start + 1:
            break
    done.more = max(0, _peak() - before)
    return done


def _outcome(run: Callable[[int], None], seed: int) -> str:
    try:
        run(seed)
    except InputError:
        pass
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:500]
    return ""


@contextmanager
def _folder() -> Iterator[str]:
    """Temporary folder for the files of all processes, in memory where possible."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="textsvm-fuzz-", dir=memory if memory.is_dir() else None
    ) as folder:
        yield folder


def _peak() -> int:
    """Peak memory of this process in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _resident(process: int | None) -> int:
    """Resident bytes of a process; 0 if unknown."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
