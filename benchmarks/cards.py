"""Several GPUs of one machine, against the first of them.

Texts of 100 symbols, made of sentences of the bundled newswire sample (`benchmarks.corpora`). Whole kernel
matrices: equality first, bit for bit, then both in turns, the least of some. One machine trained on each,
C = 10, whose objective has the same bits, and folds by values of C on one matrix: at a tolerance of 1e-6
their objectives agree to 1e-9. `--large` trains on texts for whose matrix one card has no room.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora import resampled_documents
from benchmarks.harness import BenchmarkReport, benchmark, option
from benchmarks.memory import free_all
from benchmarks.million import Corpus
from textsvm.errors import InputError
from textsvm.gram.base import DenseGram, Gram
from textsvm.gram.cards import ShardedGram, sharded_gram
from textsvm.kernels import EditDistance, GapWeighted
from textsvm.kernels.base import Kernel
from textsvm.model.settings import ClassifierSettings
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device, select
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.text.documents import Documents
from textsvm.training.fold_grams import solve_folds
from textsvm.training.folds import Splitting
from textsvm.training.problems import as_target, problem_of

LENGTH = 100
#: Values of C of every fold.
GRID = np.logspace(-2, 3, 50)
#: Rows compared at a time.
BLOCK = 4096


class Bench:
    """What is measured on the cards of a device, and on the first alone.

    Parameters
    ----------
    device : Device
        With `cards`.
    repeats : int
        Turns of what takes seconds.
    """

    def __init__(self, device: Device, repeats: int) -> None:
        self.device, self.first, self.repeats = device, device.each[0], repeats
        self.corpus = Corpus(None)

    def texts(self, n: int) -> tuple[Documents, NDArray[np.int64]]:
        """Documents and their classes."""
        return resampled_documents(self.corpus.documents, self.corpus.classes, n, LENGTH)

    def whole(self, kernel: Kernel, documents: Documents) -> DenseGram:
        """The matrix on one card."""
        with devices.use(self.first):
            return DenseGram(kernel.rows(documents, self.first).gram())

    def sharded(self, kernel: Kernel, documents: Documents) -> ShardedGram:
        """The matrix on all."""
        gram = sharded_gram(kernel, documents, self.device)
        if gram is None:
            raise InputError(f"the cards have no room for the matrix of {len(documents):,} texts; take fewer")
        return gram

    def gram(self, kernel: Kernel, n: int) -> dict[str, Any]:
        """A matrix made, and a machine trained on it."""
        documents, labels = self.texts(n)
        one, several = self.whole(kernel, documents), self.sharded(kernel, documents)
        same_bits(one, several)
        alone, mine = self.trained(one, labels)
        together, theirs = self.trained(several, labels)
        same_objectives(mine, theirs, 0.0)
        one.release()
        several.release()
        seconds = in_turns(
            self.device,
            lambda: self.whole(kernel, documents).release(),
            lambda: self.sharded(kernel, documents).release(),
            self.repeats,
        )
        pairs = n * n / 2 / np.array(seconds) / 1e9
        return {
            "what": f"Gram, {kernel}", "n": n, **compared(*seconds),
            "G pairs/s, one": float(pairs[0]), "all": float(pairs[1]),
            "train on one, s": alone, "train on all, s": together, "iterations": theirs[0].iterations,
        }  # fmt: skip

    def trained(self, gram: Gram, labels: NDArray[np.int64]) -> tuple[float, Any]:
        """Least seconds of two trainings, and the solution."""
        settings, found = ClassifierSettings(EditDistance(), 10.0), []
        target = as_target(settings, labels, len(labels))
        problem = problem_of(settings, target, np.arange(len(labels)))
        with devices.use(gram.device):
            for _ in range(2):
                clock = time.perf_counter()
                stopping = Stopping(settings.tol, duality_gap=settings.duality_gap)
                [[machines]] = solve(gram, [[problem]], stopping)
                found.append(time.perf_counter() - clock)
        return min(found), machines.solutions

    def folds(self, n: int, folds: int, grid: NDArray[np.float64]) -> dict[str, Any]:
        """Folds by values of C on one matrix."""
        documents, labels = self.texts(n)
        kernel = EditDistance()
        points = [ClassifierSettings(kernel, float(C)) for C in grid]
        target = as_target(points[0], labels, n)
        parts = Splitting(folds, None, 1, 0, None).folds(target)

        def solved(gram: Gram, some: list[ClassifierSettings] = points) -> Any:
            with devices.use(gram.device):
                return solve_folds(some, gram, target, parts, None)

        one, several = self.whole(kernel, documents), self.sharded(kernel, documents)
        tight = [ClassifierSettings(kernel, float(C), tol=1e-6) for C in grid[::10]]
        for mine, theirs in zip(chain(*solved(one, tight)), chain(*solved(several, tight)), strict=True):
            same_objectives(mine.solutions, theirs.solutions, 1e-9)
        turns = min(2, self.repeats)
        seconds = in_turns(self.device, lambda: solved(one), lambda: solved(several), turns)
        return {"what": f"{folds} folds x {len(grid)} C, {kernel}", "n": n, **compared(*seconds)}

    def large(self, n: int) -> dict[str, Any]:
        """A machine on a matrix that one card has no room for."""
        documents, labels = self.texts(n)
        clock = time.perf_counter()
        gram = self.sharded(EditDistance(), documents)
        made = time.perf_counter() - clock
        seconds, [solution] = self.trained(gram, labels)
        assert solution.converged
        return {
            "what": gram.description, "n": n, "all, s": made, "train on all, s": seconds,
            "iterations": solution.iterations,
        }  # fmt: skip


def same_bits(one: DenseGram, several: ShardedGram) -> None:
    """Compare a matrix with its shards where the first is."""
    devices.synchronize(several.device)
    with devices.use(one.device):
        cp = devices.cupy()
        for shard in several.shards:
            for top in range(0, one.n, BLOCK):
                theirs = cp.asarray(shard.values[top : top + BLOCK])
                mine = one.matrix[top : top + BLOCK, shard.first : shard.last]
                assert bool((mine == theirs).all()), f"rows from {top} on, columns from {shard.first} on"


def same_objectives(mine: Any, theirs: Any, bound: float) -> None:
    """Both solved, to objectives that agree."""
    for one, other in zip(mine, theirs, strict=True):
        assert one.converged
        assert other.converged
        worse = abs(other.objective - one.objective) / abs(one.objective)
        assert worse <= bound, f"objectives {one.objective} and {other.objective}"


def in_turns(
    device: Device, one: Callable[[], Any], several: Callable[[], Any], turns: int
) -> tuple[float, float]:
    """Least seconds of each, until all cards have ended."""
    least = [np.inf, np.inf]
    for _ in range(turns):
        for at, work in enumerate((one, several)):
            devices.synchronize(device)
            clock = time.perf_counter()
            work()
            devices.synchronize(device)
            least[at] = min(least[at], time.perf_counter() - clock)
    return least[0], least[1]


def compared(one: float, several: float) -> dict[str, float]:
    """Columns of the report."""
    return {"one card, s": one, "all, s": several, "times": one / several}


def run(device: Device, rows: BenchmarkReport, quick: bool, large: int | None) -> None:
    """Add all rows to the report."""
    if not device.cards:
        raise InputError(f"{device.description} is one device; several GPUs are compared with one of them")
    bench = Bench(device, 2 if quick else 3)
    texts = (
        {"edit": 3000, "gap": 2000, "folds": 600}
        if quick
        else {"edit": 100_000, "gap": 50_000, "folds": 8000}
    )
    bench.gram(EditDistance(), 500)  # compiles
    bench.gram(GapWeighted(5), 500)
    rows.row("edit", bench.gram, EditDistance(), texts["edit"])
    rows.row("gap", bench.gram, GapWeighted(5), texts["gap"])
    rows.row("folds", bench.folds, texts["folds"], 10, GRID[::10] if quick else GRID)
    if large:
        for card in device.each:
            with devices.use(card):
                free_all()
        rows.row("large", bench.large, large)


@benchmark(
    "cards",
    "Several GPUs of one machine",
    "reports/gpu/cards",
    option(
        "--large", type=int, nargs="?", const=180_000, metavar="N", help="also train on N texts (180,000)"
    ),
    device="cuda:all",
    quick="use few texts",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Compute and train on all GPUs and on the first."""
    device = select(options.device)
    report.note = f"All: {device.description}."
    run(device, report, options.quick, options.large)
