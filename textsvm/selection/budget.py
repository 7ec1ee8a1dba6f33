"""How long a grid would take, found by running it on samples of the documents.

The time of Grams and solvers is about a + b n^2 in the number n of documents; a and b come from two samples,
the second one twice the first. They are doubled until all of it would fit even if a were 0, or the larger
takes a hundredth of the budget, or has half of the documents; kernels are compiled before the clock starts.
Problems harder than the samples', or a matrix that does not fit in memory while theirs does, take longer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.machines.storing import without_store
from textsvm.machines.targets import Target
from textsvm.runtime.parallel import lap
from textsvm.selection.fold_grams import Task
from textsvm.selection.grid import Setting, Shared, all_grams, subset
from textsvm.selection.scoring import fold_scores, judge, labels_of, solve_folds

#: Documents that the first sample has, and fits of each setting that are timed side by side.
FIRST, SIDE_BY_SIDE = 100, 10


def require_time(
    minutes: float, settings: Sequence[Setting], shared: Sequence[Shared], task: Task, names: Sequence[str]
) -> float:
    """Raise InputError if the grid would take longer than `minutes`; else the estimate, in seconds.

    Parameters
    ----------
    minutes : float
    settings, shared
        The grid, and the examples and kernels it is of.
    task, names
        What every setting is trained on and judged by, and the metrics wanted.
    """
    target, folds = task.target, task.folds
    n, budget = len(target.values), 60.0 * minutes
    order = _sample_order(target, task.weight)
    m = min(max(min(FIRST, n // 4), _classes(target), 2), len(order))
    _run(settings, shared, task, order[:m], names)
    side_by_side = min(len(folds), SIDE_BY_SIDE)
    trained = np.array([len(train) for train, _ in folds], float)
    timed: list[tuple[int, float, float]] = []
    while True:
        gram, fits, judging = _run(settings, shared, task, order[:m], names)
        timed.append((m, gram, fits / side_by_side))
        judged = judging * len(settings) * len(folds)
        most = _time_for(n, timed[-1:], 1) + _time_for(trained, timed[-1:], 2) + judged
        estimate = _time_for(n, timed[-2:], 1) + _time_for(trained, timed[-2:], 2) + judged
        enough = len(timed) > 1 and gram + fits >= budget / 100
        if most <= budget or enough or 4 * m > len(order):
            break
        m *= 2
    if estimate <= budget:
        return estimate
    share = budget / estimate
    fitting, documents = int(len(settings) * share), int(n * share**0.5)
    advice = "allow more time"
    if documents > 10 * len(folds):
        advice = f"allow more time, or use about {documents} documents"
        if fitting:
            advice += f" or {fitting} of the settings"
    raise InputError(
        f"the grid would take about {_show(estimate)} ({len(settings)} settings on {len(folds)} folds, "
        f"estimated from {m} of {n} documents) and {_show(budget)} are allowed; {advice}"
    )


def _time_for(
    sizes: float | NDArray[np.float64], timed: Sequence[tuple[int, float, float]], part: int
) -> float:
    """Sum of a + b size^2; b alone if there is one sample."""
    m, seconds = timed[-1][0], timed[-1][part]
    b = seconds / m**2
    if len(timed) > 1:
        before = timed[-2][0]
        b = min(b, max(0.0, seconds - timed[-2][part]) / (m**2 - before**2))
    return float(np.sum(seconds - b * m**2 + b * np.square(sizes)))


def _run(
    settings: Sequence[Setting],
    shared: Sequence[Shared],
    task: Task,
    rows: NDArray[np.int64],
    names: Sequence[str],
) -> tuple[float, float, float]:
    """Seconds that Grams of a sample take, that fits to it (side by side) and one judgement take."""
    sample = replace(task.target, values=task.target.values[rows])
    weights = None if task.weight is None else task.weight[rows]
    everyone = np.arange(len(rows))
    whole = [(everyone, everyone)] * min(len(task.folds), SIDE_BY_SIDE)
    some = subset(shared, rows)
    spent = {"gram": 0.0, "fits": 0.0}
    clock, judging = time.perf_counter(), 0.0
    model = without_store(settings[0].model)  # which is of all the texts
    for members, grams in all_grams(model, some):
        gram, models = grams.whole().gram, [settings[k].model for k in members]
        # Each training part that a kernel learns from has a Gram of its own.
        n_grams = 1 + len(grams.sharing(task.folds)) if grams.kernel.learns else 1
        spent["gram"] += n_grams * (time.perf_counter() - clock)
        clock = time.perf_counter()
        machines = solve_folds(models, gram, sample, whole, weights)
        values = fold_scores(models, gram, sample, whole, machines)
        clock = lap(spent, "fits", clock)
        judge(models[0], labels_of(sample), values[0][0], sample, names)
        judging = time.perf_counter() - clock
        clock = time.perf_counter()
    return spent["gram"], spent["fits"], judging


def _sample_order(target: Target, weight: NDArray[np.float64] | None) -> NDArray[np.int64]:
    """Documents that count, shuffled, one of each class first."""
    order = np.random.default_rng(0).permutation(len(target.values))
    if weight is not None:
        order = order[weight[order] > 0]
    if target.classes is None:
        return order
    if target.multilabel:
        first = np.unique(target.values[order].argmax(axis=0))
    else:
        first = np.unique(target.values[order], return_index=True)[1]
    return np.concatenate([order[first], np.delete(order, first)])


def _classes(target: Target) -> int:
    return 1 if target.classes is None else len(target.classes)


def _show(seconds: float) -> str:
    """A time for people."""
    if seconds < 90:
        return f"{seconds:.2g} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
