"""Models trained on folds of one Gram and judged on the rest: for cross-validation, grids and calibration."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.evaluation.metrics import as_grades, scores
from textsvm.gram.base import Gram
from textsvm.gram.portable import PortableGram, portable
from textsvm.machines.base import KernelMachine
from textsvm.machines.novelty import NoveltyDetector
from textsvm.machines.targets import Target, as_weights
from textsvm.runtime.parallel import Progress
from textsvm.runtime.workers import Workers, current
from textsvm.selection.folds import Fold
from textsvm.solvers.problems import Machines, decision_values
from textsvm.solvers.side_by_side import solve

#: Metrics that take longer than all the others.
AREAS = {"roc_auc", "average_precision"}
#: Bytes of the values of all machines at all documents that exist at a time.
VALUES_BYTES = 256 << 20
#: Seconds of a core for a machine, by the square of its examples: 0.1 s for 4,500 texts, when C is not small.
SOLVING = 5e-9


def read(
    model: KernelMachine, X: Any, y: Any, sample_weight: ArrayLike | None, positive: Any = None
) -> tuple[Any, Target, NDArray[np.float64] | None]:
    """What a user handed over, checked: texts (or a kernel matrix), targets, weights."""
    if not isinstance(model, KernelMachine) or isinstance(model, NoveltyDetector):
        raise InputError(
            f"{type(model).__name__} is neither SVC nor SVR nor MultilabelSVC; nothing is compared with y"
        )
    model.check()
    given = model.copy().read(X)  # the model stays as it is
    n = len(given)
    if n == 0:
        raise InputError("there are no documents")
    target = model.as_target(y, n)
    if positive is not None:
        target = _with_positive(target, positive)
    return given, target, as_weights(sample_weight, n)


def _with_positive(target: Target, positive: Any) -> Target:
    classes = [] if target.classes is None or target.multilabel else target.classes.tolist()
    if len(classes) != 2 or positive not in classes:
        raise InputError(
            f"positive={positive!r} is the one of two classes that is to be found, and there are "
            f"{', '.join(map(str, classes[:5])) or 'no classes'}; leave it out"
        )
    return replace(target, positive=positive)


def solve_folds(
    models: Sequence[KernelMachine],
    gram: Gram,
    target: Target,
    folds: Sequence[Fold],
    weight: NDArray[np.float64] | None,
    progress: Progress | None = None,
) -> list[list[Machines]]:
    """Train every model on the training part of every fold, all of one Gram, side by side.

    Models that differ in C alone are solved one after the other on each fold, each from the solution of the
    one before. The first model's tol, max_iter and duality_gap count for all.

    Returns
    -------
    list of lists of Machines, [model][fold]
    """
    chains = [(chain, fold) for chain in paths_along_c(models) for fold in range(len(folds))]
    workers, sent = current(), portable(gram)
    worth = workers is not None and workers.pays(solving_seconds(models, target, folds))
    if workers is not None and sent is not None and len(chains) > 1 and worth:
        solved = _by_workers(workers, sent, (models, target, folds, weight), chains, progress)
    else:
        solved = _solve_chains(models, gram, target, folds, weight, chains, progress)
    found = {(k, fold): m for (chain, fold), path in zip(chains, solved, strict=True)
             for k, m in zip(chain, path, strict=True)}  # fmt: skip
    return [[found[k, fold] for fold in range(len(folds))] for k in range(len(models))]


def solving_seconds(models: Sequence[KernelMachine], target: Target, folds: Sequence[Fold]) -> float:
    """Seconds that a core is predicted to take for models on folds, roughly."""
    n_classes = 0 if target.classes is None else len(target.classes)
    machines = sum(model.n_machines(n_classes) for model in models)
    return SOLVING * machines * sum(float(len(train)) ** 2 for train, _ in folds)


#: Models that differ in C alone, by their numbers, and the number of a fold.
Chain = tuple[list[int], int]


def _solve_chains(
    models: Sequence[KernelMachine],
    gram: Gram,
    target: Target,
    folds: Sequence[Fold],
    weight: NDArray[np.float64] | None,
    chains: Sequence[Chain],
    progress: Progress | None = None,
) -> list[list[Machines]]:
    return solve(
        gram,
        [[models[k].problem(target, folds[fold][0], weight) for k in chain] for chain, fold in chains],
        tol=models[0].tol,
        max_iter=models[0].max_iter,
        duality_gap=models[0].duality_gap,
        progress=progress,
    )


#: Models, target, folds and weight, as `solve_folds` takes them.
_Problems = tuple[Sequence[KernelMachine], Target, Sequence[Fold], NDArray[np.float64] | None]


def _by_workers(
    workers: Workers,
    sent: PortableGram,
    problems: _Problems,
    chains: Sequence[Chain],
    progress: Progress | None,
) -> list[list[Machines]]:
    """The same, every chain a task: problems on a fold and the values of C."""
    work = [len(chain) * float(len(problems[2][fold][0])) ** 2 for chain, fold in chains]
    found = dict(workers.run(_solve_chain, (sent, problems), chains, work, progress))
    workers.forget(sent)
    return [found[number] for number in range(len(chains))]


def _solve_chain(sent: PortableGram, problems: _Problems, chain: Chain) -> list[Machines]:
    models, target, folds, weight = problems
    with sent.at_work() as gram:
        return _solve_chains(models, gram, target, folds, weight, [chain])[0]


def paths_along_c(models: Sequence[KernelMachine]) -> list[list[int]]:
    """Models that differ in C alone, by ascending C."""
    paths: dict[str, list[int]] = {}
    for k, model in enumerate(models):
        rest = {name: value for name, value in model.get_params(deep=False).items() if name != "C"}
        paths.setdefault(repr(sorted(rest.items())), []).append(k)
    return [sorted(path, key=lambda k: models[k].get_params(deep=False)["C"]) for path in paths.values()]


def fold_scores(
    models: Sequence[KernelMachine],
    gram: Gram,
    target: Target,
    folds: Sequence[Fold],
    machines: Sequence[Sequence[Machines]],
) -> list[list[NDArray[np.float64]]]:
    """What `decision_function` gives for the test part of every fold: float64 arrays, [model][fold]."""
    n_classes = 0 if target.classes is None else len(target.classes)
    flat = [one for of_model in machines for one in of_model]
    made: list[NDArray[np.float64]] = []
    for batch in _batches([len(one.bias) for one in flat], max(1, VALUES_BYTES // (8 * gram.n))):
        for values in decision_values(gram, flat[batch]):
            model, fold = divmod(len(made), len(folds))
            made.append(models[model].scores(values[:, folds[fold][1]].T, n_classes))
    return [made[k * len(folds) : (k + 1) * len(folds)] for k in range(len(models))]


def mean_values(
    values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], n: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Values of the test parts put together: the mean for each of n documents (NaN), and how often tested."""
    total, tested = np.zeros((n, *values[0].shape[1:])), np.zeros(n, np.int64)
    for value, (_, test) in zip(values, folds, strict=True):
        np.add.at(total, test, value)
        np.add.at(tested, test, 1)
    with np.errstate(invalid="ignore"):
        return (total.T / np.where(tested > 0, tested, np.nan)).T, tested


def metric_names(target: Target, metrics: Iterable[str] | str | None) -> list[str]:
    """Names of the metrics wanted, checked; all of them for None."""
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
    """Metrics of decision values, and of what is predicted from them.

    One that is not defined is NaN, as of a class that is not there.
    """
    grades = None
    if target.classes is None and as_grades(target.values) is not None:
        grades = (int(target.values.min()), int(target.values.max()))
    if predicted is None:
        predicted = model.predictions(decision, target.classes)
    areas = not AREAS.isdisjoint(names)
    found = scores(truth, predicted, decision, target.classes, grades, areas, target.positive)
    if target.classes is not None:
        absent = ~(_occurring(truth, target.classes) | _occurring(predicted, target.classes))
        found |= {f"f1[{label}]": np.nan for label in target.classes[absent]}
    return {name: found.get(name, np.nan) for name in names}


def _occurring(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Which classes some documents have, shape (n_classes,)."""
    return np.isin(classes, labels) if labels.ndim == 1 else np.logical_or.reduce(labels, axis=0)


def mean_and_sd(table: Sequence[dict[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean and sample standard deviation of each metric over the folds in which it is defined."""
    mean, sd = {}, {}
    for name in table[0]:
        values = np.array([row[name] for row in table])
        values = values[~np.isnan(values)]
        mean[name] = float(values.mean()) if len(values) else np.nan
        sd[name] = float(values.std(ddof=1)) if len(values) > 1 else np.nan
    return mean, sd


def labels_of(target: Target) -> NDArray[Any]:
    """What the targets were given as: labels or numbers, shape (n,); of several labels the indicator."""
    plain = target.classes is None or target.multilabel
    return target.values if plain else target.classes[target.values]  # type: ignore[index]


def warn_unfinished(model: KernelMachine, machines: Sequence[Machines], target: Target) -> None:
    """Warn once if the machines of some folds did not converge."""
    troubles = [model.unfinished(one, target.classes) for one in machines]
    if found := [trouble for trouble in troubles if trouble]:
        message = f"{len(found)} of {len(troubles)} fits did not converge; the first: {found[0]}"
        warnings.warn(message, model.warning, stacklevel=3)


def _batches(sizes: Sequence[int], most: int) -> Iterable[slice]:
    """Consecutive slices of things of these sizes that together have at most `most`, one at least."""
    start, total = 0, 0
    for k, size in enumerate(sizes):
        if k > start and total + size > most:
            yield slice(start, k)
            start, total = k, 0
        total += size
    yield slice(start, len(sizes))
