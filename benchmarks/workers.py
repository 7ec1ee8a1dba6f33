"""Two worker processes of one thread each, against one thread.

The first documents with a topic of Reuters-21578, cut to some symbols: their Grams in tiles, and folds and
values of C on one of them. Equality first, bit for bit; then both in turns, the least of
several. CPU seconds are there because a machine that others use too shares out its cores: two processes may
get more of it than one.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import REUTERS
from benchmarks.grid import texts_and_labels
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm import EditDistance, GapWeighted
from textsvm.model.settings import ClassifierSettings
from textsvm.runtime.parallel import limit
from textsvm.runtime.workers import Workers, here, on_workers
from textsvm.training.fold_solver import solve_folds
from textsvm.training.folds import Splitting
from textsvm.training.problems import as_target
from textsvm.training.train import prepare

#: Values of C of every fold.
GRID = np.logspace(-1, 3, 13)


def paired(
    work: Callable[[], Any], workers: Workers, equal: Callable[[Any, Any], None], repeats: int
) -> dict[str, Any]:
    """Least seconds of some work in one thread of this process, and by the workers."""

    def alone() -> Any:
        with here(), limit(1):
            return work()

    equal(alone(), work())  # what is compiled at first use is compiled now
    seconds: dict[Callable[[], Any], list[float]] = {alone: [], work: []}
    cpu = dict.fromkeys(seconds, np.inf)
    for _ in range(repeats):
        for function, spent in seconds.items():
            before, clock = cpu_seconds(workers), time.perf_counter()
            function()
            spent.append(time.perf_counter() - clock)
            cpu[function] = min(cpu[function], cpu_seconds(workers) - before)
    one, two = min(seconds[alone]), min(seconds[work])
    return {
        "one thread, s": one,
        "two workers, s": two,
        "times": one / two,
        "CPU of one, s": cpu[alone],
        "CPU of two and client, s": cpu[work],
        "load": os.getloadavg()[0],
    }


def cpu_seconds(workers: Workers) -> float:
    """CPU time of this process and of the workers."""
    return time.process_time() + sum(workers.everywhere(time.process_time).values())


def run(texts: list[str], labels: Any, repeats: int) -> list[dict[str, Any]]:
    """Rows of the report; the gap-weighted kernel, which takes longest, has a third of the texts."""
    rows: list[dict[str, Any]] = []
    with limit(2), on_workers("local") as workers:
        workers.worth = 0.0  # whatever is predicted
        for kernel, some in ((GapWeighted(5), texts[: len(texts) // 3]), (EditDistance(), texts)):
            make = partial(_gram, ClassifierSettings(kernel, device="cpu", n_jobs=1), some)
            found = paired(make, workers, _same_gram, repeats)
            rows.append({"what": f"Gram of {len(some):,} texts, {kernel}", **found})
        points = [ClassifierSettings(EditDistance(), float(C), device="cpu", n_jobs=1) for C in GRID]
        target = as_target(points[0], labels, len(texts))
        folds = Splitting(10, None, 1, 0, None).folds(target)
        solve = partial(solve_folds, points, _gram(points[0], texts), target, folds, None)
        found = paired(solve, workers, _same_machines, repeats)
        what = f"10 folds of {len(texts):,} texts, {len(GRID)} values of C on each"
        rows.append({"what": what, **found})
    return rows


def _gram(settings: ClassifierSettings, texts: list[str]) -> Any:
    return prepare(settings, texts).gram


def _same_gram(one: Any, other: Any) -> None:
    assert "tiles" in other.description
    assert "tiles" not in one.description
    np.testing.assert_array_equal(one.matrix, other.matrix)


def _same_machines(one: Any, other: Any) -> None:
    for mine, theirs in zip(chain(*one), chain(*other), strict=True):
        np.testing.assert_array_equal(mine.coef, theirs.coef)


@benchmark(
    "workers",
    "Two worker processes against one thread",
    "reports/workers",
    option("--corpus", type=Path, help="Reuters archive (default: in TEXTSVM_DATA)"),
    option("-n", type=int, default=4500, help="number of documents"),
    option("--max-length", type=int, default=200, help="symbols per text"),
    repeats=3,
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Compute Grams and train in one thread and on two workers."""
    texts, target = texts_and_labels(options.corpus or data_folder() / REUTERS, options.max_length)
    return run(texts[: options.n], target[: options.n], options.repeats)
