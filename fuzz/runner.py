"""textsvm bench fuzz: changed model files and inputs of readers, against the promises made of them.

A target is a file of the folder fuzz/ of a checkout with a function `run(seed)`: it makes one case from a
number, and raises AssertionError with the case where a promise is broken. Cases run in processes of their
own; one is ended where main memory grows by more than 1 GB since its first case (memory that is used:
addresses that are reserved and never touched do not count), or where a case takes more than 60 s. A case of
more than 10 s may have compiled something, and is tried again: it hangs if the second time takes 10 s of
processor time (waiting for other programs is no hang), too. These are findings, as is a crash. "MB more" is
the most that a process grew, over all of its cases.

Counts are a row for each target and first seed, and stay in the report when others are added; the same run
again takes the place of its row.
"""

from __future__ import annotations

import argparse
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

from textsvm.bench.harness import Rows
from textsvm.errors import InputError
from textsvm.parallel import limit

FOLDER = Path(__file__).resolve().parents[2] / "fuzz"
#: Seconds and bytes that a case may take, and seconds after which nobody waits any longer.
MOST_SECONDS, MOST_BYTES, ONCE = 10.0, 1 << 30, 60.0
#: Seconds between looks at a process, and cases that it is given at a time.
LOOK, BATCH = 0.05, 1000
#: Findings that are printed.
SHOWN = 20


def targets() -> list[str]:
    """The targets of this checkout.

    Raises
    ------
    InputError
        If textsvm does not run from a checkout.
    """
    if not FOLDER.is_dir():
        raise InputError("bench fuzz needs a checkout of textsvm: its targets, fuzz/, are in no package")
    return sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


def target(name: str) -> Callable[[int], None]:
    """The function `run` of a target."""
    if str(FOLDER.parent) not in sys.path:
        sys.path.insert(0, str(FOLDER.parent))
    run: Callable[[int], None] = importlib.import_module(f"fuzz.{name}").run
    return run


def main(arguments: Sequence[str]) -> None:
    """Run some targets for so many minutes or cases each; write the counts; fail if a promise was broken."""
    parser = argparse.ArgumentParser(prog="textsvm bench fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target (default 1)")
    parser.add_argument("--cases", type=int, help="for each target, in place of minutes")
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes: targets, or parts of one, side by side"
    )
    parser.add_argument("--target", action="append", help="one of them; all by default")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--quick", action="store_true", help="two seconds a target")
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/fuzz"), help="without suffix")
    asked = parser.parse_args(arguments)
    if sys.platform != "linux":
        raise InputError("textsvm bench fuzz bounds the memory of its processes as Linux does; run it there")
    known = targets()
    for name in asked.target or ():
        if name not in known:
            raise InputError(f"{name!r} is no target of fuzz/; give one of {', '.join(known)}")
    names = list(dict.fromkeys(asked.target or known))
    seconds = 2.0 if asked.quick else 60 * asked.minutes
    bounds = (asked.first, asked.cases, float("inf") if asked.cases else seconds)
    report = Rows(asked.output, "Fuzzing", "textsvm bench fuzz", __doc__ or "", stays=True)
    broken = 0
    for name, counts in side_by_side(names, max(1, asked.jobs), *bounds):
        print(report.put(f"{name} from {asked.first}", counts), flush=True)
        broken += sum(counts[kind] for kind in ("findings", "crashes", "hangs"))
    if broken:
        raise SystemExit(f"a promise was broken in {broken:,} cases, the first of which are above")


def side_by_side(
    names: Sequence[str], jobs: int, first: int, cases: int | None, seconds: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The counts of every target, in order; `jobs` processes at a time, those of a target share its seeds."""
    parts = max(1, jobs // len(names))
    end = sys.maxsize if cases is None else first + cases
    with ThreadPoolExecutor(jobs) as pool, _folder() as folder:
        asked = {
            name: [
                pool.submit(attack, _Given(name, folder, jobs > 1), range(first + part, end, parts), seconds)
                for part in range(parts)
            ]
            for name in names
        }
        for name, some in asked.items():
            total = Counts()
            for one in some:
                total.add(one.result())
            yield name, {"target": name, "first": first, **total.row(), "jobs": parts}


@dataclass
class Counts:
    """What was found in some cases."""

    cases: int = 0
    findings: int = 0
    crashes: int = 0
    hangs: int = 0
    longest: float = 0.0
    more: int = 0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        """Count what another, made beside this one, has counted."""
        for name in ("cases", "findings", "crashes", "hangs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("longest", "more", "seconds"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))

    def row(self) -> dict[str, Any]:
        """A row of the report."""
        found = {name: getattr(self, name) for name in ("cases", "findings", "crashes", "hangs")}
        return {
            **found,
            "seconds": round(self.seconds),
            "longest s": round(self.longest, 2),
            "MB more": self.more >> 20,
        }


class _Given(NamedTuple):
    """What a process is told: a target, a folder for its files, and whether it has one core alone."""

    name: str
    folder: str
    alone: bool


class _Found(NamedTuple):
    """A finding: a name of `Counts`, a seed, and what is said of it."""

    kind: str
    seed: int
    said: str


def attack(given: _Given, seeds: range, seconds: float) -> Counts:
    """Cases of a target, one after the other, for so many seconds at most: how many, and what was found."""
    worker, total, start = _Worker(given), Counts(), time.perf_counter()
    while seeds and time.perf_counter() < start + seconds:
        for found in worker.tried(seeds[:BATCH]):
            if isinstance(found, Counts):
                total.add(found)
                seeds = seeds[found.cases :]
                continue
            setattr(total, found.kind, getattr(total, found.kind) + 1)
            if total.findings + total.crashes + total.hangs <= SHOWN:
                print(f"{given.name} {found.seed}: {found.kind}: {found.said}", flush=True)
        if worker.ended:
            worker = _Worker(given)
    worker.close()
    total.seconds = time.perf_counter() - start
    return total


class _Worker:
    """A process that tries one case after the other."""

    def __init__(self, given: _Given) -> None:
        context = get_context("spawn")
        self._pipe, end = context.Pipe()
        #: Of the case that is tried: its seed, and when it began.
        self._at = context.Array("d", 2, lock=False)
        self._process = context.Process(target=_serve, args=(given, end, self._at), daemon=True)
        self._process.start()
        self.ended = False
        end.close()
        try:
            self._most = self._pipe.recv() + MOST_BYTES  # after its imports and the first case
        except EOFError:
            raise InputError(f"fuzz/{given.name}.py does not begin; its process said why") from None

    def tried(self, seeds: range) -> Iterator[_Found | Counts]:
        """Findings of some cases, the first of them or all, and at last how many were tried."""
        self._at[:] = [seeds[0], time.monotonic()]
        try:
            self._pipe.send(seeds)
            while True:
                while not self._pipe.poll(LOOK):
                    if trouble := self._trouble():
                        yield from self._end(seeds, *trouble)
                        return
                found = self._pipe.recv()
                yield found
                if isinstance(found, Counts):
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

    def _end(self, seeds: range, kind: str, said: str) -> Iterator[_Found | Counts]:
        """End it within a case."""
        seed, took = int(self._at[0]), time.monotonic() - self._at[1]
        self.close()
        yield _Found(kind, seed, said)
        more = MOST_BYTES if kind == "findings" else 0
        yield Counts(cases=seeds.index(seed) + 1, longest=took, more=more)

    def close(self) -> None:
        """End it."""
        self.ended = True
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(given: _Given, pipe: Any, at: Any) -> None:
    """Try the cases that come through the pipe."""
    tempfile.tempdir = given.folder
    with limit(1 if given.alone else None):
        run = target(given.name)
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
    """Try cases for about a second; findings go through the pipe at once."""
    done, start = Counts(), time.monotonic()
    for seed in seeds:
        at[:] = [seed, time.monotonic()]
        said, took = _outcome(run, seed), time.monotonic() - at[1]
        if took >= MOST_SECONDS:
            at[1], begun = time.monotonic(), time.process_time()
            said = _outcome(run, seed)
            took = min(time.monotonic() - at[1], time.process_time() - begun)
        if took >= MOST_SECONDS:
            pipe.send(_Found("hangs", seed, f"{took:.1f} s"))
        elif said:
            pipe.send(_Found("findings", seed, said))
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
    """A folder for files of cases, in memory where there is such: processes that are ended leave theirs."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="textsvm-fuzz-", dir=memory if memory.is_dir() else None) as made:
        yield made


def _peak() -> int:
    """The most bytes of memory that this process had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _resident(process: int | None) -> int:
    """Bytes of main memory that a process has, 0 where the system does not tell."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
