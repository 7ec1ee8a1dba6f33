"""Grams for training and testing on folds, and the machines of the folds.

The values of most kernels depend on two documents alone: a Gram of all documents serves every fold, and all
folds are solved side by side. A kernel that learns from documents (idf weights) must be fitted to the
training part alone, so each training part has a Gram of all documents; of a sum of kernels, only the terms
that learn are computed again. Only Grams of kernels that do not learn are kept in a store.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from textsvm.arrays import Floats, Floats32, Ints
from textsvm.errors import TooMuchWork
from textsvm.gram.base import DenseGram, FeatureProducts, Gram
from textsvm.gram.build import TermGrams
from textsvm.gram.plan import GRAM, Plan
from textsvm.kernels.base import Kernel
from textsvm.kernels.contract import COUNT
from textsvm.model.settings import Fold, Settings
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress, StageProgress, lap, limit, of_stage
from textsvm.runtime.workers import Workers, current
from textsvm.solvers.problems import Machines, Problem, decision_values
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.training.grams import (
    MOST_BYTES,
    PreparedRows,
    features_of,
    memory_limit,
    plan_training,
    prepare_gram,
    reads_numbers,
    requested_memory,
    require_memory,
    why_no_features,
    without_store,
)
from textsvm.training.problems import problem_of, rule_of
from textsvm.training.targets import Target, with_classes

VALUES_BYTES = 256 << 20  #: Most bytes of decision values that exist at a time.
#: Seconds of a core for a machine, per squared number of examples: 0.1 s for 4,500 texts, unless C is small.
SOLVING = 5e-9
WEIGHING = 1.5e-8  #: Seconds of a core for the weight of a feature's occurrence that is counted
MANY = 1000  #: Fewest examples for which a search by features is quicker than a Gram that has no other use


@dataclass(frozen=True)
class FoldTask:
    """Targets and weights of all n examples, and folds (train, test); a test part may be empty."""

    target: Target
    weight: Floats | None
    folds: Sequence[Fold]


class FoldGrams:
    """Grams of the same examples and kernel, fitted to all examples or to training parts.

    `settings` give device and memory limit; `whole` is the Gram of all examples if it exists already; `terms`
    caches Grams of terms that other kernels share; a `plan` for features replaces Grams by features.
    """

    def __init__(
        self,
        settings: Settings,
        examples: Any,
        kernel: Kernel,
        whole: PreparedRows | None = None,
        terms: TermGrams | None = None,
        plan: Plan = GRAM,
    ) -> None:
        self.settings, self.examples, self.kernel, self._whole = settings, examples, kernel, whole
        if kernel.structure.learns and settings.compute_options.store is not None:
            self.settings = without_store(settings)
        self._terms, self._plan = terms, plan if plan.way == "features" else None
        self.from_features = self._plan is not None
        self._near_duplicates: PreparedRows | None = None
        self._device = devices.select(settings.device)
        require_memory(kernel, examples, plan, self._device)
        if terms is None and not self.from_features and kernel.structure.learns:
            self._terms = terms_of(settings, [kernel], examples)

    @cached_property
    def _counted(self) -> Any:
        """Features of all examples."""
        return self.kernel.features.count_terms(self.examples, self._device)

    def whole(self, progress: StageProgress | None = None) -> PreparedRows:
        """The kernel fitted to all examples, and its Gram."""
        if self._whole is None:
            self._whole = self._build(self.kernel, None, progress)
        return self._whole

    def near_duplicate_rows(self, progress: StageProgress | None = None) -> PreparedRows | None:
        """Rows of `Structure.near_duplicate_kernel`, or its features; None if there is no such kernel."""
        kernel = self.kernel.structure.near_duplicate_kernel
        if kernel is None:
            return None
        plan, has_whole = self._plan_search(kernel), self.from_features or not kernel.structure.learns
        if kernel is self.kernel and (has_whole or plan is GRAM):
            return self.whole(progress)
        grams = FoldGrams(self.settings, self.examples, kernel.__sklearn_clone__(), plan=plan)
        self._near_duplicates = grams.whole(progress)
        return self._near_duplicates

    def _plan_search(self, kernel: Kernel) -> Plan:
        """Plan of a search that needs no Gram: features of many texts on a CPU, if they fit in memory."""
        n, device = len(self.examples), self._device
        if n < MANY or device.kind != "cpu" or why_no_features(kernel, device) or reads_numbers(kernel):
            return GRAM
        terms = [(term.features, term.structure.read(self.examples)) for _, term in kernel.structure.terms]
        size = sum(int(features.occurrences(read.lengths).sum()) for features, read in terms)
        fits = MOST_BYTES * size <= memory_limit(self.settings, n, device)
        return replace(GRAM, way="features") if fits else GRAM

    def _build(self, kernel: Kernel, train: Ints | None, progress: StageProgress | None) -> PreparedRows:
        """Fit the kernel to some of the examples, or to all, and compute the rows of all."""
        compute = self.settings.compute_options
        placed = compute.store is not None or compute.tier not in ("auto", "device")
        shared = self._terms is not None and self._terms.serves(kernel) and not placed
        if self._plan is None and not shared:
            read = kernel.structure.read(self.examples)
            kernel.fit(read if train is None else read.take(train))
            return prepare_gram(self.settings, self.examples, kernel, self._device, progress)
        clock = time.perf_counter()
        if self._plan is not None:
            rows_learnt = np.arange(len(self.examples)) if train is None else train
            rows = kernel.features.counted_rows(self._counted, rows_learnt, self._device)
            gram: Any = FeatureProducts(rows, self._device, self._plan.reason)
        else:
            assert self._terms is not None
            gram = self._terms.gram(kernel, train, of_stage(progress, "gram"))
        devices.synchronize(gram.device)
        return PreparedRows(self.examples, kernel, gram, {"gram": time.perf_counter() - clock})

    def release(self) -> None:
        """Free the memory of the Gram of all examples, and of the Gram for near-duplicates."""
        for rows in (self._near_duplicates, self._whole):
            if rows is not None:
                rows.gram.release()
        self._near_duplicates = self._whole = None

    def sharing(self, folds: Sequence[Fold]) -> list[list[int]]:
        """Numbers of the folds that share a Gram."""
        if not self.kernel.structure.learns:
            return [list(range(len(folds)))]
        alike: dict[bytes, list[int]] = {}
        for number, (train, _) in enumerate(folds):
            alike.setdefault(np.unique(train).tobytes(), []).append(number)
        return list(alike.values())

    def describe(self, description: str, folds: Sequence[Fold]) -> str:
        """Origin of the rows, for people, with the number of Grams if there are several."""
        if not self.kernel.structure.learns:
            return description
        return f"{description}, one for each of the {len(self.sharing(folds))} training parts"

    def of_folds(
        self, folds: Sequence[Fold], progress: StageProgress | None
    ) -> Iterator[tuple[list[int], PreparedRows, StageProgress | None]]:
        """Numbers of folds, their Gram (released before the next Gram), and the progress of work on it."""
        if not self.kernel.structure.learns:
            yield list(range(len(folds))), self.whole(progress), progress
            return
        self.release()
        sharing = self.sharing(folds)
        for done, numbers in enumerate(sharing):
            step = of_all(progress, done, len(sharing))
            prepared = self._build(self.kernel.__sklearn_clone__(), np.unique(folds[numbers[0]][0]), step)
            yield numbers, prepared, step
            prepared.gram.release()


def grams_of(settings: Settings, examples: Any, task: FoldTask) -> FoldGrams:
    """Grams of examples and the kernel of settings, or features alone, as `fit` would use them."""
    kernel = settings.source.kernel_for(examples)
    everyone, device = np.arange(len(examples)), devices.select(settings.device)
    problem = problem_of(settings, task.target, everyone, task.weight)
    memory = memory_limit(settings, len(examples), device)
    plan = plan_training(settings, kernel, examples, problem, device, memory)
    return FoldGrams(settings, examples, kernel, plan=plan)


def terms_of(settings: Settings, kernels: Sequence[Kernel], examples: Any) -> TermGrams:
    """Cache of the Grams of these kernels' terms, within the memory of the settings."""
    device = devices.select(settings.device)
    return TermGrams(kernels, examples, device, requested_memory(settings, len(examples), device))


def decide_folds(
    settings: Settings, examples: object, task: FoldTask, most_seconds: float = inf, documents: Any = None
) -> list[Floats]:
    """Decision values of the test part of each fold; TooMuchWork if more than `most_seconds` are predicted.

    `examples` are validated, and `documents` encoded if they are given. Values come from the Gram of the
    fold, or its features: weights of all features take memory for each machine.
    """
    with settings.at_work(devices.select(settings.device)):
        encoded = settings.source.encode(examples) if documents is None else documents
        grams = grams_of(settings, with_classes(encoded, task.target), task)
        try:
            if most_seconds < inf and (seconds := predicted_seconds([settings], grams, task)) > most_seconds:
                folds = f"{len(task.folds)}-fold cross-validation"
                raise TooMuchWork(f"{folds} is predicted to take {seconds:.2g} s on a core")
            return train_and_test([settings], grams, task, {}).values[0]
        finally:
            grams.release()


@dataclass(frozen=True)
class FoldResults:
    """Machines [settings][fold], and decision values of the test parts that are not empty, in their order."""

    machines: list[list[Machines]]
    values: list[list[Floats]]
    kernel: Kernel  #: Fitted to the training part of the last fold
    description: str  #: Origin of the rows of the last fold


def train_and_test(
    all_settings: Sequence[Settings],
    grams: FoldGrams,
    task: FoldTask,
    seconds: dict[str, float],
    progress: StageProgress | None = None,
) -> FoldResults:
    """Train every model on the training part of every fold (`solve_folds`), and decide the test part.

    The times of "gram", "solve" and "score" are added to `seconds`.
    """
    workers, parts = current(), grams.sharing(task.folds)
    if (
        workers is not None
        and not grams.from_features
        and len(parts) > 1
        and workers.pays(predicted_seconds(all_settings, grams, task))
    ):
        results = _by_workers(workers, all_settings, grams, task, seconds, progress)
    else:
        results = _in_turn(all_settings, grams, task, seconds, progress)
    machines, values = dict[int, Sequence[Machines]](), dict[int, Sequence[Floats]]()
    for numbers, result in results:
        tested = [i for i in numbers if len(task.folds[i][1])]
        machines |= zip(numbers, zip(*result.machines, strict=True), strict=True)
        values |= zip(tested, zip(*result.values, strict=True), strict=True)
        if len(task.folds) - 1 in numbers:
            last = result
    by_settings = [[machines[fold][k] for fold in sorted(machines)] for k in range(len(all_settings))]
    decided = [[values[fold][k] for fold in sorted(values)] for k in range(len(all_settings))]
    return replace(last, machines=by_settings, values=decided)


def _in_turn(
    all_settings: Sequence[Settings], grams: FoldGrams, task: FoldTask, seconds: dict[str, float],
    progress: StageProgress | None,
) -> Iterator[tuple[list[int], FoldResults]]:  # fmt: skip
    """Results of the folds with the same training part, and their numbers."""
    clock = time.perf_counter()
    for numbers, prepared, step in grams.of_folds(task.folds, progress):
        clock = lap(seconds, "gram", clock)
        folds, gram = [task.folds[i] for i in numbers], prepared.gram
        solved = solve_folds(all_settings, gram, task.target, folds, task.weight, of_stage(step, "solve"))
        clock = lap(seconds, "solve", clock)
        tested = [at for at, (_, test) in enumerate(folds) if len(test)]
        scored = fold_scores(
            all_settings, gram, task.target, [folds[at] for at in tested],
            [[of_model[at] for at in tested] for of_model in solved],
        )  # fmt: skip
        clock = lap(seconds, "score", clock)
        yield numbers, FoldResults(solved, scored, prepared.kernel, prepared.description)


def predicted_seconds(all_settings: Sequence[Settings], grams: FoldGrams, task: FoldTask) -> float:
    """Predicted seconds on a single core for all machines, and a Gram or the features of every part.

    Features are counted once, and so are the values of terms that do not learn.
    """
    examples, parts = grams.examples, len(grams.sharing(task.folds))
    if not grams.from_features:
        seconds = solving_seconds(all_settings, task.target, task.folds)
        for _, term in grams.kernel.structure.terms:
            times = parts if term.structure.learns else 1
            seconds += times * term.cost.seconds(examples, examples) / 2
        return seconds
    n, device, seconds = len(examples), devices.select(grams.settings.device), 0.0
    share = sum(len(train) for train, _ in task.folds) / n
    for settings in all_settings:
        problem = problem_of(settings, task.target, np.arange(n), task.weight)
        case = features_of(grams.kernel, examples, problem, settings.solver_tol, device)
        seconds += share * case.solving(n, device.kind, 1)
    return seconds + (COUNT + parts * WEIGHING) * case.occurrences


def _by_workers(
    workers: Workers, all_settings: Sequence[Settings], grams: FoldGrams, task: FoldTask,
    seconds: dict[str, float], progress: StageProgress | None,
) -> Iterator[tuple[list[int], FoldResults]]:  # fmt: skip
    """`_in_turn` by workers, each of which computes the Gram of a training part."""
    clock = time.perf_counter()
    grams.release()
    parts = grams.sharing(task.folds)
    # On the kind of device that is used here, whatever a worker would choose by itself.
    settings = replace(grams.settings, device=devices.select(grams.settings.device).kind)
    shared = _WorkerInput(all_settings, settings, grams.examples, grams.kernel, task)
    work = [len(part) * float(len(task.folds[part[0]][0])) ** 2 for part in parts]
    for number, result in workers.run(_part_of_worker, [shared], parts, work, of_stage(progress, "solve")):
        yield parts[number], result
    workers.forget(shared)
    lap(seconds, "solve", clock)


@dataclass(frozen=True)
class _WorkerInput:
    """Data of all parts, an object so that kernel and examples still share a function of tokens."""

    all_settings: Sequence[Settings]
    settings: Settings
    examples: Any
    kernel: Kernel
    task: FoldTask


def _part_of_worker(shared: _WorkerInput, numbers: list[int]) -> FoldResults:
    """Results of the folds with the same training part, in a worker."""
    settings, part = shared.settings, replace(shared.task, folds=[shared.task.folds[i] for i in numbers])
    with settings.at_work(devices.select(settings.device)), limit(1):
        grams = FoldGrams(settings, shared.examples, shared.kernel.__sklearn_clone__())
        return train_and_test(shared.all_settings, grams, part, {})


def of_all(progress: StageProgress | None, number: int, total: int) -> StageProgress | None:
    """Progress of part `number`, as progress of all `total` parts."""
    if progress is None:
        return None
    return lambda stage, done, whole: progress(stage, number + done / (whole or 1), total)


# The machines of folds on a Gram


def solve_folds(
    all_settings: Sequence[Settings],
    gram: Gram | FeatureProducts,
    target: Target,
    folds: Sequence[Fold],
    weight: Floats | None,
    progress: Progress | None = None,
) -> list[list[Machines]]:
    """Train every model on the training part of every fold, on the same Gram; machines [model][fold].

    On each fold, settings that differ only in C are solved in ascending C, each from the solution of the
    previous. All other problems are solved together. The first model's tol, max_iter and duality_gap apply.
    """
    chains = [(chain, fold) for chain in paths_along_c(all_settings) for fold in range(len(folds))]
    paths = [
        [problem_of(all_settings[k], target, folds[fold][0], weight) for k in chain] for chain, fold in chains
    ]
    stopping = Stopping(all_settings[0].tol, all_settings[0].max_iter, all_settings[0].duality_gap)
    workers = current()
    portable = not isinstance(gram, FeatureProducts) and gram.matrix is not None and len(chains) > 1
    if workers is not None and portable and workers.pays(solving_seconds(all_settings, target, folds)):
        solved = _solve_by_workers(workers, gram, paths, stopping, progress)
    else:
        solved = solve(gram, paths, stopping, progress)
    machines = {(k, fold): m for (chain, fold), path in zip(chains, solved, strict=True)
                for k, m in zip(chain, path, strict=True)}  # fmt: skip
    return [[machines[k, fold] for fold in range(len(folds))] for k in range(len(all_settings))]


def solving_seconds(all_settings: Sequence[Settings], target: Target, folds: Sequence[Fold]) -> float:
    """Predicted seconds on a single core for all settings on folds."""
    machines = sum(rule_of(settings, target).n_machines for settings in all_settings)
    return SOLVING * machines * sum(float(len(train)) ** 2 for train, _ in folds)


def _solve_by_workers(
    workers: Workers,
    gram: Any,
    paths: Sequence[Sequence[Problem]],
    stopping: Stopping,
    progress: Progress | None,
) -> list[list[Machines]]:
    """`solve` by workers, each of which solves a path."""
    matrix = devices.to_host(gram.matrix)
    work = [len(path) * float(len(path[0].index)) ** 2 for path in paths]
    shared = (matrix, gram.device.kind, stopping)
    solved = dict(workers.run(_solve_path, shared, paths, work, progress))
    workers.forget(matrix)
    return [solved[number] for number in range(len(paths))]


def _solve_path(matrix: Floats32, kind: str, stopping: Stopping, path: Sequence[Problem]) -> list[Machines]:
    """Machines of a path in a worker, on its first device of a kind."""
    device = devices.select(kind)
    with devices.use(device):
        return solve(DenseGram(devices.array_module(device).asarray(matrix)), [path], stopping)[0]


def paths_along_c(all_settings: Sequence[Settings]) -> list[list[int]]:
    """Models that differ in C alone, by ascending C."""
    paths: dict[str, list[int]] = {}
    for k, settings in enumerate(all_settings):
        rest = {name: value for name, value in settings.as_dict().items() if name != "C"}
        paths.setdefault(repr(sorted(rest.items())), []).append(k)
    return [sorted(path, key=lambda k: all_settings[k].as_dict()["C"]) for path in paths.values()]


def fold_scores(
    all_settings: Sequence[Settings],
    gram: Gram | FeatureProducts,
    target: Target,
    folds: Sequence[Fold],
    machines: Sequence[Sequence[Machines]],
) -> list[list[Floats]]:
    """Values of `decision_function` on the test part of every fold: float64 arrays, [model][fold]."""
    rules = [rule_of(settings, target) for settings in all_settings]
    flat = [solved for of_settings in machines for solved in of_settings]
    scored: list[Floats] = []
    for batch in _batches([len(solved.bias) for solved in flat], max(1, VALUES_BYTES // (8 * gram.n))):
        for values in decision_values(gram, flat[batch]):
            k, fold = divmod(len(scored), len(folds))
            scored.append(rules[k].scores(values[:, folds[fold][1]].T))
    return [scored[k * len(folds) : (k + 1) * len(folds)] for k in range(len(all_settings))]


def _batches(sizes: Sequence[int], most: int) -> Iterable[slice]:
    """Consecutive nonempty slices with a total size of at most `most`, except for single items."""
    start, total = 0, 0
    for k, size in enumerate(sizes):
        if k > start and total + size > most:
            yield slice(start, k)
            start, total = k, 0
        total += size
    yield slice(start, len(sizes))
