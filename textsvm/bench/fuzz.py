"""textsvm bench fuzz: changed model files and inputs of readers, against the promises made of them.

A target is a file of the folder fuzz/ of a checkout with a function `run(seed)`: it makes one case from a
number, and raises AssertionError with the case where a promise is broken. Cases run in a process of their
own, which is ended where a case takes longer than 10 s, and which cannot have more than 1 GB above what it
had after its first case: these are findings, as is a crash. Counts are kept in a table, a row a target.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from textsvm.bench.harness import Rows
from textsvm.errors import InputError

FOLDER = Path(__file__).resolve().parents[2] / "fuzz"
#: Seconds and bytes that a case may take.
MOST_SECONDS, MOST_BYTES = 10.0, 1 << 30
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
    """Run some targets for so many minutes each, and write the counts."""
    known = targets()
    parser = argparse.ArgumentParser(prog="textsvm bench fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target (default 1)")
    parser.add_argument("--target", action="append", choices=known, help="one of them; all by default")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--quick", action="store_true", help="two seconds a target")
    parser.add_argument("--report", type=Path, default=Path("reports/trust"), help="without suffix")
    asked = parser.parse_args(arguments)
    if sys.platform != "linux":
        raise InputError("textsvm bench fuzz bounds the memory of its processes as Linux does; run it there")
    minutes = 2 / 60 if asked.quick else asked.minutes
    report = Rows(asked.report, "Fuzzing", f"textsvm bench fuzz --minutes {minutes:g}", __doc__ or "")
    for name in asked.target or known:
        print(report.row(f"{name} from {asked.first}", attack, name, asked.first, 60 * minutes), flush=True)


def attack(name: str, first: int, seconds: float) -> dict[str, Any]:
    """Cases of a target, one after the other, for so many seconds: how many, and what was found."""
    counts = dict.fromkeys(("cases", "findings", "crashes", "hangs"), 0)
    worker, most, longest, start = _Worker(name), 0, 0.0, time.perf_counter()
    while (begun := time.perf_counter()) < start + seconds:
        seed = first + counts["cases"]
        kind, said, grown = worker.tried(seed)
        counts["cases"] += 1
        most, longest = max(most, grown), max(longest, time.perf_counter() - begun)
        if kind:
            counts[kind] += 1
            if sum(counts[each] for each in ("findings", "crashes", "hangs")) <= SHOWN:
                print(f"{name} {seed}: {kind}: {said}", flush=True)
        if kind in ("crashes", "hangs"):
            worker = _Worker(name)
    worker.close()
    return {
        "target": name,
        **counts,
        "seconds": round(seconds),
        "longest s": round(longest, 2),
        "MB more": most >> 20,
    }


class _Worker:
    """A process that tries one case after the other."""

    def __init__(self, name: str) -> None:
        context = get_context("spawn")
        self._pipe, end = context.Pipe()
        self._process = context.Process(target=_serve, args=(name, end), daemon=True)
        self._process.start()
        end.close()
        self._pipe.recv()  # its imports, and the first case

    def tried(self, seed: int) -> tuple[str, str, int]:
        """What kind of finding a case is, "" if none, what is said of it, and how many bytes it took."""
        try:
            # What takes long once may have been compiled, and is tried again.
            for patience in (6 * MOST_SECONDS, MOST_SECONDS):
                self._pipe.send(seed)
                start = time.perf_counter()
                if not self._pipe.poll(patience):
                    break
                said, grown = self._pipe.recv()
                if time.perf_counter() - start < MOST_SECONDS:
                    return ("findings" if said else ""), said, grown
            kind, said = "hangs", f"more than {MOST_SECONDS:g} s"
        except (EOFError, ConnectionError):
            self._process.join(5)
            kind, said = "crashes", f"the process ended with {self._process.exitcode}"
        self.close()
        return kind, said, 0

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(name: str, pipe: Any) -> None:
    """Try the cases that come through the pipe."""
    import resource

    run = target(name)
    _outcome(run, 0)
    before = _peak()
    limit = _virtual() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    pipe.send(None)
    while True:
        try:
            seed = pipe.recv()
        except EOFError:
            return
        pipe.send((_outcome(run, seed), max(0, _peak() - before)))


def _outcome(run: Callable[[int], None], seed: int) -> str:
    try:
        run(seed)
    except InputError:
        pass
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:500]
    return ""


def _peak() -> int:
    """The most bytes of memory that this process had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _virtual() -> int:
    """Bytes of addresses that this process has; compiled code of Numba takes some more."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * 4096
