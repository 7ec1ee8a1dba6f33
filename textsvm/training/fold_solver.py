"""Solve the problems of settings on folds of a Gram, and decide the test parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from textsvm.arrays import Floats, Floats32
from textsvm.gram.base import DenseGram, FeatureProducts, Gram
from textsvm.model.settings import Fold, Settings
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress
from textsvm.runtime.workers import Workers, current
from textsvm.solvers.problems import Machines, decision_values
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.training.problems import problem_of, rule_of
from textsvm.training.targets import Target

#: Most bytes of decision values that exist at a time.
VALUES_BYTES = 256 << 20
#: Seconds of a core for a machine, per squared number of examples: 0.1 s for 4,500 texts, unless C is small.
SOLVING = 5e-9


def solve_folds(
    points: Sequence[Settings],
    gram: Gram | FeatureProducts,
    target: Target,
    folds: Sequence[Fold],
    weight: Floats | None,
    progress: Progress | None = None,
) -> list[list[Machines]]:
    """Train every model on the training part of every fold, on the same Gram; machines [model][fold].

    On each fold, points that differ in C alone are solved in sequence, from the solution of the previous
    model; all other problems side by side. The first model's tol, max_iter and duality_gap apply to all.
    """
    chains = [(chain, fold) for chain in paths_along_c(points) for fold in range(len(folds))]
    workers, problems = current(), _Problems(points, target, folds, weight)
    portable = not isinstance(gram, FeatureProducts) and gram.matrix is not None and len(chains) > 1
    if workers is not None and portable and workers.pays(solving_seconds(points, target, folds)):
        solved = _by_workers(workers, gram, problems, chains, progress)
    else:
        solved = problems.solve(gram, chains, progress)
    machines = {(k, fold): m for (chain, fold), path in zip(chains, solved, strict=True)
                for k, m in zip(chain, path, strict=True)}  # fmt: skip
    return [[machines[k, fold] for fold in range(len(folds))] for k in range(len(points))]


def solving_seconds(points: Sequence[Settings], target: Target, folds: Sequence[Fold]) -> float:
    """Predicted seconds on a single core for points on folds."""
    machines = sum(rule_of(settings, target).n_machines for settings in points)
    return SOLVING * machines * sum(float(len(train)) ** 2 for train, _ in folds)


#: Models that differ in C alone, by their numbers, and the number of a fold.
Chain = tuple[list[int], int]


@dataclass(frozen=True)
class _Problems:
    """Models on folds; see `solve_folds`."""

    points: Sequence[Settings]
    target: Target
    folds: Sequence[Fold]
    weight: Floats | None

    def solve(
        self, gram: Gram | FeatureProducts, chains: Sequence[Chain], progress: Progress | None = None
    ) -> list[list[Machines]]:
        """Machines of each chain."""
        points, first = self.points, self.points[0]
        paths = [
            [problem_of(points[k], self.target, self.folds[fold][0], self.weight) for k in chain]
            for chain, fold in chains
        ]
        return solve(gram, paths, Stopping(first.tol, first.max_iter, first.duality_gap), progress)


def _by_workers(
    workers: Workers, gram: Any, problems: _Problems, chains: Sequence[Chain], progress: Progress | None
) -> list[list[Machines]]:
    """`_Problems.solve` by workers, with a task for each chain."""
    matrix, device = devices.to_host(gram.matrix), gram.device.kind
    work = [len(chain) * float(len(problems.folds[fold][0])) ** 2 for chain, fold in chains]
    solved = dict(workers.run(_solve_chain, (matrix, device, problems), chains, work, progress))
    workers.forget(matrix)
    return [solved[number] for number in range(len(chains))]


def _solve_chain(matrix: Floats32, kind: str, problems: _Problems, chain: Chain) -> list[Machines]:
    """Task of a worker, on its first device of a kind."""
    device = devices.select(kind)
    with devices.use(device):
        return problems.solve(DenseGram(devices.array_module(device).asarray(matrix)), [chain])[0]


def paths_along_c(points: Sequence[Settings]) -> list[list[int]]:
    """Models that differ in C alone, by ascending C."""
    paths: dict[str, list[int]] = {}
    for k, settings in enumerate(points):
        rest = {name: value for name, value in settings.as_dict().items() if name != "C"}
        paths.setdefault(repr(sorted(rest.items())), []).append(k)
    return [sorted(path, key=lambda k: points[k].as_dict()["C"]) for path in paths.values()]


def fold_scores(
    points: Sequence[Settings],
    gram: Gram | FeatureProducts,
    target: Target,
    folds: Sequence[Fold],
    machines: Sequence[Sequence[Machines]],
) -> list[list[Floats]]:
    """Values of `decision_function` on the test part of every fold: float64 arrays, [model][fold]."""
    rules = [rule_of(settings, target) for settings in points]
    flat = [solved for of_settings in machines for solved in of_settings]
    scored: list[Floats] = []
    for batch in _batches([len(solved.bias) for solved in flat], max(1, VALUES_BYTES // (8 * gram.n))):
        for values in decision_values(gram, flat[batch]):
            k, fold = divmod(len(scored), len(folds))
            scored.append(rules[k].scores(values[:, folds[fold][1]].T))
    return [scored[k * len(folds) : (k + 1) * len(folds)] for k in range(len(points))]


def _batches(sizes: Sequence[int], most: int) -> Iterable[slice]:
    """Consecutive nonempty slices with a total size of at most `most`, except for single items."""
    start, total = 0, 0
    for k, size in enumerate(sizes):
        if k > start and total + size > most:
            yield slice(start, k)
            start, total = k, 0
        total += size
    yield slice(start, len(sizes))
