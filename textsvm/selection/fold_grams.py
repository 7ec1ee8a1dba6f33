"""The Grams that folds are trained and tested on, and the machines of the folds.

The values of most kernels depend on two documents alone: one Gram of all documents serves every fold, and
all folds are solved side by side. A kernel that learns from documents (idf weights) must learn from those of
the training part alone, so every training part has a Gram of its own: all documents, weighed by what the
kernel learnt from the part. The first costs one Gram, the second one a fold; of a sum of kernels the parts
that learn do. Only the first kind is kept in a store: the others are of these folds alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.features import SparseGram
from textsvm.gram.terms import TermGrams
from textsvm.kernels.base import Kernel
from textsvm.machines.base import KernelMachine
from textsvm.machines.storing import without_store
from textsvm.machines.targets import Target
from textsvm.machines.training import Prepared, Way, choose_way
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, lap, limit, of_stage
from textsvm.runtime.workers import Workers, current
from textsvm.selection.folds import Fold
from textsvm.selection.scoring import fold_scores, solve_folds, solving_seconds
from textsvm.solvers.problems import Machines


@dataclass(frozen=True)
class Task:
    """What models are trained on and judged by.

    Attributes
    ----------
    target : Target
        Of all n examples.
    weight : float64 array, shape (n,), optional
    folds : sequence of (train, test)
        A fold whose test part is empty is trained on only.
    """

    target: Target
    weight: NDArray[np.float64] | None
    folds: Sequence[Fold]


class FoldGrams:
    """Grams of the same examples and kernel, learnt from all of them or from training parts.

    Parameters
    ----------
    model : KernelMachine
        Says where rows live and what memory they may take.
    examples : Examples
        As `KernelMachine.encode` makes them.
    kernel : Kernel
        Fitted here, unless `whole` is given.
    whole : Prepared, optional
        The Gram of the kernel fitted to all examples, if it has been made.
    terms : TermGrams, optional
        Where the Grams of sums that learn come from, if others have terms in common with this one.
    way : Way, optional
        Whether there are Grams, or features alone; Grams by default.
    """

    def __init__(
        self,
        model: KernelMachine,
        examples: Any,
        kernel: Kernel,
        whole: Prepared | None = None,
        terms: TermGrams | None = None,
        way: Way | None = None,
    ) -> None:
        self.model, self.examples, self.kernel, self._whole = model, examples, kernel, whole
        if kernel.structure.learns and model.compute.store is not None:
            self.model = without_store(model)
        self._terms, self._way = terms, way
        self._texts: FoldGrams | None = None
        if way is not None and way.features:
            self._device = devices.select(model.device)
            self._counted = kernel.features.count_terms(examples, self._device)
        elif terms is None and kernel.structure.learns:
            self._terms = terms_of(model, [kernel], examples)

    def whole(self, progress: StageProgress | None = None) -> Prepared:
        """The kernel fitted to all examples, and its Gram."""
        if self._whole is None:
            self._whole = self._compare(self.kernel, None, progress)
        return self._whole

    def copies_by(self, progress: StageProgress | None = None) -> Prepared | None:
        """Rows that tell which examples are nearly the same, of `Structure.near_duplicate_kernel`."""
        kernel = self.kernel.structure.near_duplicate_kernel
        if kernel is None or kernel is self.kernel:
            return None if kernel is None else self.whole(progress)
        self._texts = FoldGrams(self.model, self.examples, kernel.__sklearn_clone__())
        return self._texts.whole(progress)

    def _compare(
        self, kernel: Kernel, train: NDArray[np.int64] | None, progress: StageProgress | None
    ) -> Prepared:
        """Fit the kernel to some of the examples, or to all, and make the rows of all."""
        if self._way is not None and self._way.features:
            return self._list(kernel, train, self._way.why)
        placed = self.model.compute.store is not None or self.model.compute.tier not in ("auto", "device")
        if placed or self._terms is None or not self._terms.serves(kernel):
            read = kernel.structure.read(self.examples)
            kernel.fit(read if train is None else read.take(train))
            return self.model.compare(self.examples, kernel, progress)
        clock = time.perf_counter()
        gram = self._terms.gram(kernel, train, of_stage(progress, "gram"))
        devices.synchronize(gram.device)
        return Prepared(self.examples, kernel, gram, {"gram": time.perf_counter() - clock})

    def _list(self, kernel: Kernel, train: NDArray[np.int64] | None, why: str) -> Prepared:
        """The same, from features that were counted once."""
        clock, some = time.perf_counter(), np.arange(len(self.examples)) if train is None else train
        rows = kernel.features.counted_rows(self._counted, some, self._device)
        devices.synchronize(self._device)
        gram = SparseGram(rows, self._device, why)
        return Prepared(self.examples, kernel, gram, {"gram": time.perf_counter() - clock})

    @property
    def moves(self) -> bool:
        """Whether there is a Gram for each training part, which workers can make."""
        return self.kernel.structure.learns and self._way is None

    def release(self) -> None:
        """Give the memory of the Gram of all examples back, and of that of their texts."""
        if self._texts is not None:
            self._texts.release()
        if self._whole is not None:
            self._whole.gram.release()
            self._whole = None

    def sharing(self, folds: Sequence[Fold]) -> list[list[int]]:
        """Numbers of the folds that share a Gram."""
        if not self.kernel.structure.learns:
            return [list(range(len(folds)))]
        alike: dict[bytes, list[int]] = {}
        for number, (train, _) in enumerate(folds):
            alike.setdefault(np.unique(train).tobytes(), []).append(number)
        return list(alike.values())

    def describe(self, description: str, folds: Sequence[Fold]) -> str:
        """Where rows came from, for people, with the number of Grams if there is more than one."""
        if not self.kernel.structure.learns:
            return description
        return (
            f"{description}, one for each of the {len(self.sharing(folds))} parts that the kernel learns from"
        )

    def of_folds(
        self, folds: Sequence[Fold], progress: StageProgress | None
    ) -> Iterator[tuple[list[int], Prepared, StageProgress | None]]:
        """Numbers of folds, their Gram, and the progress of work on it; the Gram lasts until the next one."""
        if not self.kernel.structure.learns:
            yield list(range(len(folds))), self.whole(progress), progress
            return
        self.release()
        sharing = self.sharing(folds)
        for done, numbers in enumerate(sharing):
            step = of_all(progress, done, len(sharing))
            prepared = self._compare(self.kernel.__sklearn_clone__(), np.unique(folds[numbers[0]][0]), step)
            yield numbers, prepared, step
            prepared.gram.release()


def grams_of(model: KernelMachine, examples: Any, task: Task) -> FoldGrams:
    """Grams of examples and a model's own kernel, or features alone: the way that `fit` would take."""
    kernel = model.source.kernel_for(examples)
    problem = model.problem(task.target, np.arange(len(examples)), task.weight)
    way = choose_way(model, kernel, examples, problem, devices.select(model.device))
    return FoldGrams(model, examples, kernel, way=way)


def terms_of(model: KernelMachine, kernels: Sequence[Kernel], examples: Any) -> TermGrams:
    """Where the Grams of these kernels' terms are kept, within the memory of the model."""
    device = devices.select(model.device)
    memory = model.source.memory(model.compute.memory, len(examples), device)
    return TermGrams(kernels, examples, device, memory)


@dataclass(frozen=True)
class FoldResults:
    """What models learnt on the training parts of folds.

    Attributes
    ----------
    machines : list of lists of Machines, [model][fold]
    values : list of lists of float64 arrays, [model][fold]
        What `decision_function` gives for the test part.
    last : Prepared
        What the last fold was trained on; its Gram has been released if the kernel learns.
    """

    machines: list[list[Machines]]
    values: list[list[NDArray[np.float64]]]
    last: Prepared


def train_and_test(
    models: Sequence[KernelMachine],
    grams: FoldGrams,
    task: Task,
    seconds: dict[str, float],
    progress: StageProgress | None = None,
) -> FoldResults:
    """Train every model on the training part of every fold, and decide the test part.

    Parameters
    ----------
    models : sequence of KernelMachine
        See `textsvm.selection.scoring.solve_folds`.
    grams : FoldGrams
    task : Task
    seconds : dict
        The time of "gram", "solve" and "score" is added to it.
    progress : callable, optional
        See `StageProgress`.
    """
    workers, parts = current(), grams.sharing(task.folds)
    if workers is not None and grams.moves and len(parts) > 1 and workers.pays(_seconds(models, grams, task)):
        return _by_workers(workers, models, grams, task, seconds, progress)
    results = _Results(models, task)
    clock = time.perf_counter()
    for numbers, prepared, step in grams.of_folds(task.folds, progress):
        clock = lap(seconds, "gram", clock)
        some, gram = [task.folds[i] for i in numbers], prepared.gram
        solved = solve_folds(models, gram, task.target, some, task.weight, of_stage(step, "solve"))
        clock = lap(seconds, "solve", clock)
        tested = [at for at, (_, test) in enumerate(some) if len(test)]
        scored = fold_scores(
            models, gram, task.target, [some[at] for at in tested],
            [[of_model[at] for at in tested] for of_model in solved],
        )  # fmt: skip
        results.add(numbers, solved, scored)
        clock = lap(seconds, "score", clock)
    return results.together(prepared)


def _seconds(models: Sequence[KernelMachine], grams: FoldGrams, task: Task) -> float:
    """Seconds that a core is predicted to take for a Gram of every part and all machines, roughly."""
    each = grams.kernel.cost.seconds(grams.examples, grams.examples) / 2
    solving = solving_seconds(models, task.target, task.folds)
    return each * len(grams.sharing(task.folds)) + solving


class _Results:
    """What is known of each model on each fold."""

    def __init__(self, models: Sequence[KernelMachine], task: Task) -> None:
        self.models, self.folds = range(len(models)), task.folds
        self.machines: dict[tuple[int, int], Machines] = {}
        self.values: dict[tuple[int, int], NDArray[np.float64]] = {}

    def add(
        self,
        numbers: Sequence[int],
        machines: Sequence[Sequence[Machines]],
        values: Sequence[Sequence[NDArray[np.float64]]],
    ) -> None:
        """Machines of some folds, [model][fold], and values of those of them that are tested."""
        tested = [i for i in numbers if len(self.folds[i][1])]
        for k in self.models:
            self.machines |= {(k, i): one for i, one in zip(numbers, machines[k], strict=True)}
            self.values |= {(k, i): one for i, one in zip(tested, values[k], strict=True)}

    def together(self, last: Prepared) -> FoldResults:
        everywhere = range(len(self.folds))
        return FoldResults(
            [[self.machines[k, i] for i in everywhere] for k in self.models],
            [[self.values[k, i] for i in everywhere if (k, i) in self.values] for k in self.models],
            last,
        )


def _by_workers(
    workers: Workers,
    models: Sequence[KernelMachine],
    grams: FoldGrams,
    task: Task,
    seconds: dict[str, float],
    progress: StageProgress | None,
) -> FoldResults:
    """The same, every training part that the kernel learns from a task: its Gram, machines and values."""
    clock, results = time.perf_counter(), _Results(models, task)
    grams.release()
    parts = grams.sharing(task.folds)
    # On the kind of device that is at work here, whatever a worker would choose by itself.
    model = grams.model.copy().set_params(device=devices.select(grams.model.device).kind)
    whole = _Whole(models, model, grams.examples, grams.kernel, task)
    work = [len(part) * float(len(task.folds[part[0]][0])) ** 2 for part in parts]
    last: dict[int, Prepared] = {}
    for number, found in workers.run(_part, [whole], parts, work, of_stage(progress, "solve")):
        results.add(parts[number], found.machines, found.values)
        last[number] = found.last
    workers.forget(whole)
    lap(seconds, "solve", clock)
    return results.together(replace(last[len(parts) - 1], examples=grams.examples))


@dataclass(frozen=True)
class _Whole:
    """What all parts need, sent as one: a function of tokens stays one for kernel and examples."""

    models: Sequence[KernelMachine]
    model: KernelMachine
    examples: Any
    kernel: Kernel
    task: Task


def _part(whole: _Whole, numbers: list[int]) -> FoldResults:
    """What a worker does."""
    model, task = whole.model, whole.task
    with model.at_work(devices.select(model.device)), limit(1):
        grams = FoldGrams(model, whole.examples, whole.kernel.__sklearn_clone__())
        some = replace(task, folds=[task.folds[i] for i in numbers])
        found = train_and_test(whole.models, grams, some, {})
    return replace(found, last=replace(found.last, examples=None))


def of_all(progress: StageProgress | None, number: int, total: int) -> StageProgress | None:
    """Progress of one of several parts, as progress of all of them."""
    if progress is None:
        return None
    return lambda stage, done, whole: progress(stage, number + done / (whole or 1), total)
