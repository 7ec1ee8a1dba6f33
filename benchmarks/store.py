"""Grams on disk: killed runs, the rate of reading, and training from a store.

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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import textsvm
from benchmarks.corpora import TrainTest, paper_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm import SVC, Compute, EditDistance, GapWeighted
from textsvm.errors import InputError
from textsvm.gram import store
from textsvm.gram.panels import Panels
from textsvm.runtime.parallel import limit, run

HEADER = ("what", "this", "that", "ratio", "how")
#: Threads and bytes of the plain reader.
_READERS, _BLOCK = 16, 2 << 20
#: Seconds between two looks at a run.
_LOOK = 2e-4
#: Where something is in which file, and its bytes.
Piece = tuple[Path, int, int]


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
            machine = SVC(
                EditDistance(0.05), C=10, device="cpu", compute=Compute(memory=memory, store=self.store)
            )
            textsvm.save(machine.fit(self.texts, self.labels), self.model)
        except BaseException:
            os._exit(1)
        os._exit(0)

    def finish(self) -> tuple[bytes, float]:
        """The bits of the model of an undisturbed run, and the seconds until it was there."""
        self.model.unlink(missing_ok=True)
        clock, child, seconds = time.perf_counter(), self.start(), 0.0
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if not seconds and self.model.exists():
                seconds = time.perf_counter() - clock
            time.sleep(_LOOK)
        status = os.waitstatus_to_exitcode(ended[1])
        assert status == 0, f"a run ended with {status}"
        return self.model.read_bytes(), seconds or time.perf_counter() - clock

    def kill(self, panels: int, after: float) -> bool:
        """Start a run, and kill it some time after it has so many panels; whether it was at work then."""
        self.model.unlink(missing_ok=True)
        child = self.start()
        while len(self.panels()) < panels and not self.model.exists():
            time.sleep(_LOOK)
        end = time.perf_counter() + after
        while time.perf_counter() < end and not self.model.exists():
            time.sleep(_LOOK)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return not self.model.exists()

    def panels(self) -> dict[str, int]:
        """The panels that are there, and when each was written."""
        return {str(path): path.stat().st_mtime_ns for path in self.store.glob("*/*.rows")}


def fault_runs(task: TrainTest, kills: int, seed: int = 0) -> list[dict[str, Any]]:
    """Kill runs in the middle of making, and in the middle of training; every result must be equal."""
    store.PANEL_BYTES, store.ROWS_OF_LARGE, store.MIN_ROWS = 0, 8, 8  # so that there are many
    with tempfile.TemporaryDirectory() as folder:
        one = Run(task.train, task.y_train.tolist(), Path(folder))
        wanted, making = one.finish()
        faults = Faults(one, wanted, making, min(one.finish()[1] for _ in range(3)), random.Random(seed))
        return [
            faults.row(kind, kills // 2 + kills % 2 * (kind == "making")) for kind in ("making", "training")
        ]


class Faults:
    """Kills at random moments of a stage.

    Parameters
    ----------
    one : Run
        Its store is complete.
    wanted : bytes
        Its model.
    making, training : float
        Seconds of a run that makes the store, and of one that finds it.
    draw : random.Random
    """

    def __init__(self, one: Run, wanted: bytes, making: float, training: float, draw: random.Random) -> None:
        self.one, self.wanted, self.draw, self.complete = one, wanted, draw, len(one.panels())
        self.seconds = {"making": max(0.0, making - training) / self.complete, "training": training}

    def row(self, kind: str, kills: int) -> dict[str, Any]:
        """Kill so many runs that are at work in a stage; one that was through before is drawn again."""
        some = late = 0
        for number in range(kills):
            while not self._killed(kind):
                late += 1
                assert late <= 10 * kills, f"runs are through before they can be killed while {kind}"
            before = self.one.panels()
            some += 0 < len(before) < self.complete
            again, seconds = self.one.finish()
            assert again == self.wanted, f"run {number} that was killed while {kind} has another result"
            after = self.one.panels()
            assert len(after) == self.complete
            assert all(after[path] == when for path, when in before.items()), "a panel was made twice"
            if kind == "training":
                self.seconds[kind] = min(self.seconds[kind], seconds)
        return {
            "what": f"runs killed while {kind}", "this": kills, "that": kills, "ratio": 1.0,
            "how": f"runs with equal results, of all; all were at work when killed ({late} were through "
            f"before and drawn again), {some} of them had some of {self.complete} panels and kept them",
        }  # fmt: skip

    def _killed(self, kind: str) -> bool:
        panels, wait = 0, self.draw.random() * self.seconds[kind]
        if kind == "making":
            panels = self.draw.randrange(self.complete)
            shutil.rmtree(self.one.store)
        return self.one.kill(panels, wait)


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
        every, some = np.arange(n), np.sort(np.random.default_rng(1).choice(n, min(n, 512), replace=False))
        paths = [panels.path(number) for number in range(panels.count)]
        wholes, anywhere = pieces_of(paths), f"512 rows anywhere, {4e-3 * n:.0f} kB each"
        same = [(paths[row // panels.size], row % panels.size * 4 * n, 4 * n) for row in some.tolist()]

        def ours(rows: NDArray[np.int64]) -> int:
            Panels(Path(folder), n, panels.size, "bench").read(rows, out[: len(rows)])
            return 4 * n * len(rows)

        ours(every)  # the memory is there
        return [
            _against(f"{what}, {state}", partial(ours, rows), partial(plain_reader, pieces), drop, repeats)
            for state, drop in (("cold", paths), ("cached", []))
            for what, rows, pieces in (
                ("all rows; that: all files", every, wholes),
                (f"{anywhere}; that: the same rows", some, same),
                (f"{anywhere}; that: all files", some, wholes),
            )
        ]


def plain_reader(pieces: Sequence[Piece]) -> int:
    """Read with several threads and forget it; how many bytes."""

    def load(piece: Piece) -> None:
        path, begin, size = piece
        with open(path, "rb", buffering=0) as stream:
            stream.seek(begin)
            stream.readinto(bytearray(size))

    with limit(_READERS):
        run(load, pieces)
    return sum(size for _, _, size in pieces)


def pieces_of(paths: Sequence[Path]) -> list[Piece]:
    """Whole files."""
    return [
        (path, begin, min(_BLOCK, path.stat().st_size - begin))
        for path in paths
        for begin in range(0, path.stat().st_size, _BLOCK)
    ]


def _against(
    what: str, ours: Callable[[], int], plain: Callable[[], int], drop: Sequence[Path], repeats: int
) -> dict[str, Any]:
    """GB/s of both in turns, the best of each; files of `drop` are read from the disk."""
    best = [0.0, 0.0]
    for _ in range(repeats):
        for at, read in enumerate((ours, plain)):
            for path in drop:
                with open(path, "rb") as stream:
                    os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            clock = time.perf_counter()
            size = read()
            best[at] = max(best[at], 1e-9 * size / (time.perf_counter() - clock))
    how = f"GB/s, best of {repeats} in turns; every row checked"
    return {"what": what, "this": best[0], "that": best[1], "ratio": best[0] / best[1], "how": how}


def training(task: TrainTest, texts: int) -> list[dict[str, Any]]:
    """Seconds of training: the matrix computed, made in a store, found there; with memory for a quarter."""
    some = np.random.default_rng(0).permutation(len(task.train))[:texts]
    given = [task.train[i] for i in some], task.y_train[some]
    kernel = GapWeighted(p=5, decay=0.5)
    SVC(kernel, device="cpu").fit(given[0][:50], [0, 1] * 25)  # compiled
    runs: list[tuple[float, SVC]] = []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        quarter = len(some) ** 2
        for where, memory in (
            (None, None),
            (folder, None),
            (folder, None),
            (None, quarter),
            (folder, quarter),
        ):
            clock = time.perf_counter()
            model = SVC(kernel, device="cpu", compute=Compute(store=where, memory=memory)).fit(*given)
            runs.append((time.perf_counter() - clock, model))
    objectives = [model.solutions_[0].objective for _, model in runs]
    change = max(abs(each / objectives[0] - 1) for each in objectives)
    assert change < 1e-5, change
    took = {
        "train, and make the store; that: compute": (1, 0),
        "train from the store; that: compute": (2, 0),
        "train from the store, a quarter of the matrix in memory; that: compute rows on demand": (4, 3),
        "train from the store, a quarter of the matrix in memory; that: all of it in memory": (4, 2),
    }
    how = f"s; {len(some):,} texts of 100 symbols, gap:5; objectives equal to {change:.1g}"
    return [
        {"what": what, "this": runs[i][0], "that": runs[j][0], "ratio": runs[i][0] / runs[j][0], "how": how}
        for what, (i, j) in took.items()
    ]


@benchmark(
    "store",
    "Grams on disk",
    "reports/store",
    option("--kills", type=int, default=100, help="killed runs"),
    option("--megabytes", type=int, default=1024, help="size of the file that is read"),
    option("--texts", type=int, default=1000, help="texts of the timed training"),
    repeats=5,
    quick="use the bundled samples",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Time reading and training, then kill runs and compare their models."""
    if not hasattr(os, "fork"):
        raise InputError("this benchmark forks the processes that it kills, and this system has no fork")
    tasks = paper_tasks(None if options.quick else data_folder(), 100)
    rows = reading(16 if options.quick else options.megabytes, options.repeats)
    rows += training(tasks[0], 100 if options.quick else options.texts)
    return rows + fault_runs(paper_tasks(None, 100)[0 if options.quick else 1], options.kills)
