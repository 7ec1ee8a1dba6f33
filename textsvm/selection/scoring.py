"""Train models on folds of a Gram and score the test parts, for cross-validation, grids and calibration."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.evaluation.metrics import as_grades, scores
from textsvm.gram.base import DenseGram, FeatureProducts, Gram
from textsvm.machines.base import KernelMachine
from textsvm.machines.novelty import NoveltyDetector
from textsvm.machines.targets import Target, as_weights, check_order
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress
from textsvm.runtime.workers import Workers, current
from textsvm.selection.folds import Fold
from textsvm.solvers.problems import Machines, decision_values
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve

#: Metrics that take longer than all other metrics together.
AREAS = {"roc_auc", "average_precision"}
#: Most bytes of decision values that exist at a time.
VALUES_BYTES = 256 << 20
#: Seconds of a core for a machine, per squared number of examples: 0.1 s for 4,500 texts, unless C is small.
SOLVING = 5e-9


def read_training_data(
    model: KernelMachine, X: Any, y: Any, sample_weight: ArrayLike | None, positive: Any = None
) -> tuple[Any, Target, NDArray[np.float64] | None]:
    """Check texts (or a kernel matrix), targets and weights of a user; the model stays as it is."""
    if not isinstance(model, KernelMachine) or isinstance(model, NoveltyDetector):
        raise InputError(
            f"{type(model).__name__} is neither SVC nor SVR nor MultilabelSVC; nothing is compared with y"
        )
    model.check()
    given = model.copy().validate(X)
    n = len(given)
    if n == 0:
        raise InputError("there are no documents")
    target = model.as_target(y, n)
    check_order(given, target)
    if positive is not None:
        target = _with_positive(target, positive)
    return given, target, as_weights(sample_weight, n)


def _with_positive(target: Target, positive: Any) -> Target:
    classes = [] if target.classes is None or target.multilabel else target.classes.tolist()
    if len(classes) != 2 or positive not in classes:
        raise InputError(
            f"positive must be the class to find, of two classes, got {positive!r} with "
            f"{', '.join(map(str, classes[:5])) or 'no classes'}; leave it out"
        )
    return replace(target, positive=positive)


def solve_folds(
    models: Sequence[KernelMachine],
    gram: Gram | FeatureProducts,
    target: Target,
    folds: Sequence[Fold],
    weight: NDArray[np.float64] | None,
    progress: Progress | None = None,
) -> list[list[Machines]]:
    """Train every model on the training part of every fold, on the same Gram; machines [model][fold].

    On each fold, models that differ in C alone are solved in sequence, from the solution of the previous
    model; all other problems side by side. The first model's tol, max_iter and duality_gap apply to all.
    """
    chains = [(chain, fold) for chain in paths_along_c(models) for fold in range(len(folds))]
    workers, problems = current(), _Problems(models, target, folds, weight)
    portable = not isinstance(gram, FeatureProducts) and gram.matrix is not None and len(chains) > 1
    if workers is not None and portable and workers.pays(solving_seconds(models, target, folds)):
        solved = _by_workers(workers, gram, problems, chains, progress)
    else:
        solved = problems.solve(gram, chains, progress)
    machines = {(k, fold): m for (chain, fold), path in zip(chains, solved, strict=True)
                for k, m in zip(chain, path, strict=True)}  # fmt: skip
    return [[machines[k, fold] for fold in range(len(folds))] for k in range(len(models))]


def solving_seconds(models: Sequence[KernelMachine], target: Target, folds: Sequence[Fold]) -> float:
    """Predicted seconds on a single core for models on folds."""
    n_classes = 0 if target.classes is None else len(target.classes)
    machines = sum(model.n_machines(n_classes) for model in models)
    return SOLVING * machines * sum(float(len(train)) ** 2 for train, _ in folds)


#: Models that differ in C alone, by their numbers, and the number of a fold.
Chain = tuple[list[int], int]


@dataclass(frozen=True)
class _Problems:
    """Models on folds; see `solve_folds`."""

    models: Sequence[KernelMachine]
    target: Target
    folds: Sequence[Fold]
    weight: NDArray[np.float64] | None

    def solve(
        self, gram: Gram | FeatureProducts, chains: Sequence[Chain], progress: Progress | None = None
    ) -> list[list[Machines]]:
        """Machines of each chain."""
        models, first = self.models, self.models[0]
        paths = [
            [models[k].problem(self.target, self.folds[fold][0], self.weight) for k in chain]
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


def _solve_chain(matrix: NDArray[np.float32], kind: str, problems: _Problems, chain: Chain) -> list[Machines]:
    """Task of a worker, on its first device of a kind."""
    device = devices.select(kind)
    with devices.use(device):
        return problems.solve(DenseGram(devices.array_module(device).asarray(matrix)), [chain])[0]


def paths_along_c(models: Sequence[KernelMachine]) -> list[list[int]]:
    """Models that differ in C alone, by ascending C."""
    paths: dict[str, list[int]] = {}
    for k, model in enumerate(models):
        rest = {name: value for name, value in model.get_params(deep=False).items() if name != "C"}
        paths.setdefault(repr(sorted(rest.items())), []).append(k)
    return [sorted(path, key=lambda k: models[k].get_params(deep=False)["C"]) for path in paths.values()]


def fold_scores(
    models: Sequence[KernelMachine],
    gram: Gram | FeatureProducts,
    target: Target,
    folds: Sequence[Fold],
    machines: Sequence[Sequence[Machines]],
) -> list[list[NDArray[np.float64]]]:
    """Values of `decision_function` on the test part of every fold: float64 arrays, [model][fold]."""
    n_classes = 0 if target.classes is None else len(target.classes)
    flat = [each for of_model in machines for each in of_model]
    scored: list[NDArray[np.float64]] = []
    for batch in _batches([len(each.bias) for each in flat], max(1, VALUES_BYTES // (8 * gram.n))):
        for values in decision_values(gram, flat[batch]):
            model, fold = divmod(len(scored), len(folds))
            scored.append(models[model].scores(values[:, folds[fold][1]].T, n_classes))
    return [scored[k * len(folds) : (k + 1) * len(folds)] for k in range(len(models))]


def mean_values(
    values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], n: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Mean test value of each of n documents (NaN if untested), and how often it was tested."""
    total, tested = np.zeros((n, *values[0].shape[1:])), np.zeros(n, np.int64)
    for value, (_, test) in zip(values, folds, strict=True):
        np.add.at(total, test, value)
        np.add.at(tested, test, 1)
    with np.errstate(invalid="ignore"):
        return (total.T / np.where(tested > 0, tested, np.nan)).T, tested


def metric_names(target: Target, metrics: Iterable[str] | str | None) -> list[str]:
    """Validated names of metrics; all metrics for None."""
    truth, classes = labels_of(target), target.classes
    two = classes is not None and len(classes) == 2 and not target.multilabel
    shape = len(truth) if classes is None or two else (len(truth), len(classes))
    known = scores(truth, truth, np.zeros(shape), classes, areas=False)
    if metrics is None:
        return list(known)
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    for name in names:
        if name not in known:
            raise InputError(f"metric {name!r} is not one of {', '.join(known)}")
    return names


def judge(
    model: KernelMachine,
    truth: NDArray[Any],
    decision: NDArray[np.float64],
    target: Target,
    names: Sequence[str],
    predicted: NDArray[Any] | None = None,
) -> dict[str, float]:
    """Metrics of decision values and predictions; undefined metrics, as of an absent class, are NaN."""
    grades = None
    if target.classes is None and as_grades(target.values) is not None:
        grades = (int(target.values.min()), int(target.values.max()))
    if predicted is None:
        predicted = model.predictions(decision, target.classes)
    areas = not AREAS.isdisjoint(names)
    metrics = scores(truth, predicted, decision, target.classes, grades, areas, target.positive)
    if target.classes is not None:
        absent = ~(_occurring(truth, target.classes) | _occurring(predicted, target.classes))
        metrics |= {f"f1[{label}]": np.nan for label in target.classes[absent]}
    return {name: metrics.get(name, np.nan) for name in names}


def _occurring(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether any document has each class, shape (n_classes,)."""
    return np.isin(classes, labels) if labels.ndim == 1 else np.logical_or.reduce(labels, axis=0)


def mean_and_sd(table: Sequence[dict[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean and sample standard deviation of each metric over the folds that define it."""
    mean, sd = {}, {}
    for name in table[0]:
        values = np.array([row[name] for row in table])
        values = values[~np.isnan(values)]
        mean[name] = float(values.mean()) if len(values) else np.nan
        sd[name] = float(values.std(ddof=1)) if len(values) > 1 else np.nan
    return mean, sd


def labels_of(target: Target) -> NDArray[Any]:
    """Targets as given: labels or numbers, shape (n,); the indicator matrix for several labels."""
    plain = target.classes is None or target.multilabel
    return target.values if plain else target.classes[target.values]  # type: ignore[index]


def warn_unfinished(model: KernelMachine, machines: Sequence[Machines], target: Target) -> None:
    """Warn once if the machines of some folds did not converge."""
    messages = [model.unfinished(each, target.classes) for each in machines]
    if unfinished := [message for message in messages if message]:
        message = f"{len(unfinished)} of {len(messages)} fits did not converge; the first: {unfinished[0]}"
        warnings.warn(message, model.warning, stacklevel=3)


def _batches(sizes: Sequence[int], most: int) -> Iterable[slice]:
    """Consecutive nonempty slices with a total size of at most `most`, except for single items."""
    start, total = 0, 0
    for k, size in enumerate(sizes):
        if k > start and total + size > most:
            yield slice(start, k)
            start, total = k, 0
        total += size
    yield slice(start, len(sizes))
