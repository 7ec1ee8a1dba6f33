"""textsvm bench store: Grams on disk: fault runs, the rate of reading, and training from a store.

A run is a process that trains with a store and saves its model. It is killed (SIGKILL) at a random moment, of
making the store or of training from it, then run again: the model file must have the bits of a run that
nobody disturbed. A plain reader reads the same files with as many threads and does nothing with them; cold:
the files are not in the system's cache.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import textsvm
from textsvm import SVC, EditDistance, GapWeighted
from textsvm.bench.corpora import Task, paper_tasks
from textsvm.bench.harness import data_folder, write_report
from textsvm.gram import store
from textsvm.gram.panels import Panels
from textsvm.parallel import limit, run

HEADER = ("what", "this", "that", "ratio", "how")
#: Threads and bytes of the plain reader.
_READERS, _BLOCK = 16, 2 << 20


@dataclass(frozen=True)
class Run:
    """A process that trains with a store and saves its model; its rows are read while it trains."""

    texts: list[str]
    labels: list[Any]
    folder: Path

    @property
    def store(self) -> Path:
        """Where the Gram is."""
        return self.folder / "store"

    @property
    def model(self) -> Path:
        """Where the model goes."""
        return self.folder / "model.textsvm"

    def start(self) -> int:
        """The id of the process, a fork of this one."""
        child = os.fork()
        if child:
            return child
        try:
            memory = len(self.texts) * 300  # of 4 bytes: 75 rows
            machine = SVC(EditDistance(0.05), C=10, tol=1e-5, device="cpu", memory=memory, store=self.store)
            textsvm.save(machine.fit(self.texts, self.labels), self.model)
        except BaseException:
            os._exit(1)
        os._exit(0)

    def finish(self) -> tuple[bytes, float]:
        """The bits of the model of an undisturbed run, and its seconds."""
        self.model.unlink(missing_ok=True)
        clock = time.perf_counter()
        status = os.waitstatus_to_exitcode(os.waitpid(self.start(), 0)[1])
        assert status == 0, f"a run ended with {status}"
        return self.model.read_bytes(), time.perf_counter() - clock

    def kill(self, after: float) -> bool:
        """Start a run and kill it; whether it was still running."""
        child = self.start()
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def panels(self) -> dict[str, int]:
        """The panels that are there, and when each was written."""
        return {str(path): path.stat().st_mtime_ns for path in self.store.glob("*/*.rows")}


def fault_runs(task: Task, kills: int, seed: int = 0) -> list[dict[str, Any]]:
    """Kill runs in the middle of making, and in the middle of training; every result must be equal."""
    draw, found = random.Random(seed), {"making": [0, 0, 0], "training": [0, 0, 0]}
    store.PANEL_BYTES, store.ROWS_OF_LARGE, store.LEAST_ROWS = 0, 8, 8  # so that there are many
    with tempfile.TemporaryDirectory() as folder:
        one = Run(task.train, task.y_train.tolist(), Path(folder))
        wanted, making = one.finish()
        _, training = one.finish()
        complete = len(one.panels())
        for number in range(kills):
            kind = ("making", "training")[number % 2]
            if kind == "making":
                shutil.rmtree(one.store)
            killed = one.kill(draw.random() * (making if kind == "making" else training))
            before = one.panels()
            again, _ = one.finish()
            after = one.panels()
            assert again == wanted, f"run {number} that was killed while {kind} has another result"
            assert len(after) == complete
            assert all(after[path] == when for path, when in before.items()), "a panel was made twice"
            found[kind][0] += 1
            found[kind][1] += killed
            found[kind][2] += 0 < len(before) < complete
    return [
        {
            "what": f"runs killed while {kind}", "this": runs, "that": runs, "ratio": 1.0,
            "how": f"runs with equal results, of all; {killed} were running when killed, {some} of them had "
            f"some of {complete} panels and kept them",
        }
        for kind, (runs, killed, some) in found.items()
    ]  # fmt: skip


def reading(megabytes: int, repeats: int) -> list[dict[str, Any]]:
    """Panels of random values, all rows and some of them, against a plain reader."""
    n = int((megabytes << 18) ** 0.5)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        panels = Panels(Path(folder), n, max(1, (64 << 20) // (4 * n)), "bench")
        values = np.random.default_rng(0).random((panels.size, n), np.float32)
        for number in range(panels.count):
            first, last = panels.bounds(number)
            panels.write(number, values[: last - first])
        out = np.empty((n, n), np.float32)
        some = np.sort(np.random.default_rng(1).choice(n, min(n, 512), replace=False))

        def ours(rows: Any) -> Callable[[], int]:
            def read() -> int:
                fresh = Panels(Path(folder), n, panels.size, "bench")
                fresh.read(rows, out[: len(rows)])
                return 4 * n * len(rows)

            return read

        cases = {
            "all rows, cold": (ours(np.arange(n)), True),
            "512 rows anywhere, cold": (ours(some), True),
            "all rows, cached": (ours(np.arange(n)), False),
            "512 rows anywhere, cached": (ours(some), False),
        }
        plain = lambda: plain_reader([panels.path(k) for k in range(panels.count)])  # noqa: E731
        return [
            _against(what, read, plain, (Path(folder), cold), repeats) for what, (read, cold) in cases.items()
        ]


def plain_reader(paths: Sequence[Path]) -> int:
    """Read files with several threads and forget what they have; how many bytes."""
    pieces = [(path, at) for path in paths for at in range(0, path.stat().st_size, _BLOCK)]

    def load(piece: tuple[Path, int]) -> None:
        with open(piece[0], "rb", buffering=0) as stream:
            stream.seek(piece[1])
            stream.readinto(bytearray(_BLOCK))

    with limit(_READERS):
        run(load, pieces)
    return sum(path.stat().st_size for path in paths)


def _against(
    what: str, ours: Callable[[], int], plain: Callable[[], int], where: tuple[Path, bool], repeats: int
) -> dict[str, Any]:
    """GB/s of both in turns, the best of each."""
    best = [0.0, 0.0]
    for _ in range(repeats):
        for at, read in enumerate((ours, plain)):
            if where[1]:
                _drop(where[0])
            clock = time.perf_counter()
            size = read()
            best[at] = max(best[at], 1e-9 * size / (time.perf_counter() - clock))
    how = f"GB/s, best of {repeats} in turns; every row checked"
    return {"what": what, "this": best[0], "that": best[1], "ratio": best[0] / best[1], "how": how}


def _drop(folder: Path) -> None:
    """Have files read from the disk again."""
    for path in folder.iterdir():
        with open(path, "rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def training(task: Task, texts: int) -> list[dict[str, Any]]:
    """Seconds of the Gram and of all: computed, made in a store, and found there."""
    some = np.random.default_rng(0).permutation(len(task.train))[:texts]
    given = [task.train[i] for i in some], task.y_train[some]
    kernel = GapWeighted(p=5, decay=0.5)
    SVC(kernel, device="cpu").fit(given[0][:50], [0, 1] * 25)  # compiled
    with tempfile.TemporaryDirectory(dir=".") as folder:
        runs: list[Any] = []
        for where in (None, folder, folder):
            clock = time.perf_counter()
            model = SVC(kernel, device="cpu", store=where).fit(*given)
            runs.append((time.perf_counter() - clock, model))
    (computed, plain), (made, _), (found, last) = runs
    change = abs(plain.solutions_[0].objective / last.solutions_[0].objective - 1)
    assert change < 1e-6, change
    how = f"s, against computing it; {len(given[0]):,} texts, gap:5, objective equal to {change:.1g}"
    took = {"train, and make the store": made, "train from the store": found}
    return [
        {"what": what, "this": seconds, "that": computed, "ratio": seconds / computed, "how": how}
        for what, seconds in took.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/store.md."""
    parser = argparse.ArgumentParser(prog="textsvm bench store", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/store"))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="on the embedded samples")
    options = parser.parse_args(arguments)
    tasks = paper_tasks(None if options.quick else data_folder(), 100)
    rows = reading(16 if options.quick else options.megabytes, options.repeats)
    rows += training(tasks[0], 100 if options.quick else options.texts)
    rows += fault_runs(paper_tasks(None, 100)[0], options.kills)
    command = f"textsvm bench store --kills {options.kills}" + " --quick" * options.quick
    write_report(options.output, "Grams on disk", command, HEADER, rows)


if __name__ == "__main__":
    main()
