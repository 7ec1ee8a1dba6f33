"""Grams: one of a plan (`Plan`), or those of many kernels on the same documents, with shared work done once.

`build_gram` executes a plan: a kernel matrix, or a cache of its rows, in the planned tier.

`grams` serves a grid of kernels that learn nothing from documents. As many kernels share a pass
(`Cost.sharing`) as there is memory for their matrices, at least two: one pass gives the gap-weighted kernels
of all lengths, one matrix of distances all values of gamma. The Gram of a term of several sums is
computed once and added to each incomplete sum: as many sums are open at a time as fit beside a term. If there
is no room for the matrices of a kernel, its rows are computed on demand.

`TermGrams` serves kernels that learn from documents, and so have a Gram for every training part of model
selection (`textsvm.training.fold_grams`). Only the terms of a sum that learn are computed for each part; the
Grams of terms are cached as far as there is room beside the sum and the term in computation (two matrices for
a product).

On several cards, all cards compute the Gram of a single kernel (`textsvm.gram.cards`); shared work is done on
the first card, and each Gram is then spread over all cards.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textsvm.arrays import Array, Ints
from textsvm.errors import warn_user
from textsvm.gram.base import CachedGram, DenseGram, Gram, allowed_bytes, max_rows, staged_rows
from textsvm.gram.cards import sharded_gram, spread
from textsvm.gram.plan import SLOW, Case, Plan, Rates, candidates, plan_gram, show_bytes
from textsvm.gram.store import GramRequest, Store
from textsvm.gram.stored import HeldGram, StoredRows, held_rows
from textsvm.gram.tiles import TileRecipe, shared_grams, whole_gram
from textsvm.kernels.base import Kernel
from textsvm.kernels.combined.rows import add, scale
from textsvm.kernels.contract import AHEAD, MatrixRows, Sharing, rows_ahead
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, report
from textsvm.runtime.parallel import part as part_of
from textsvm.runtime.workers import current
from textsvm.text.documents import Documents

_PROBE = 64 << 20  #: Maximum bytes of the rows of a call that is measured, as in `textsvm.gram.base`.
_PROBE_SECONDS = 0.25  #: Maximum seconds that the additional rows of the last call may take.


def gram_of_rows(
    kernel_rows: MatrixRows, memory: int | str | None = None, progress: Progress | None = None
) -> Gram:
    """The Gram of prepared rows: the whole matrix if it fits into `memory`, else rows computed on demand.

    If the rows have a `description`, it is appended to that of the Gram.
    """
    allowed, matrices = allowed_bytes(memory, kernel_rows.device), getattr(kernel_rows, "matrices", 1)
    case = Case(kernel_rows.n, allowed, kernel_rows.device.kind, matrices=matrices)
    return _planned(kernel_rows, case, plan_gram(case), progress)


def build_gram(
    request: GramRequest,
    memory: int | str | None = None,
    tier: str = "auto",
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    movable: bool = True,
) -> Gram:
    """The Gram of a fitted kernel and examples, in the tier that is planned.

    Rows may take `memory` bytes where the solver runs, half of the free memory by default. Nothing is written
    to a disk without `store`, a folder. A matrix that is not `movable`, such as a given one and values of
    functions, cannot be kept outside of the solver's memory.
    """
    device, kernel = request.device, request.kernel
    on_gpu, rows, stored = device.kind == "cuda", None, None
    if store is None and not (tier == "host" and on_gpu):
        rows = kernel.rows(kernel.structure.read(request.examples), device)
    allowed = allowed_bytes(memory, device)
    case = Case(request.n, allowed, device.kind, tier=tier, store=store is not None)
    if on_gpu:
        room = allowed_bytes(None, devices.select("cpu")) if movable else 0
        case = replace(case, device_name=device.description, host_memory=room)
    if rows is not None:
        suggest_store = movable and tier == "auto" and kernel.cost.quadratic
        case = replace(case, suggest_store=suggest_store, matrices=getattr(rows, "matrices", 1))
    if store is not None:
        stored = StoredRows(Store(store).find(request, allowed), request)
        case = replace(case, stored=1 - len(stored.panels.missing()) / stored.panels.count)
    rates = None
    if len(candidates(case)) > 1:
        case = _with_cache(case, rows)
        rates, read = Rates(), kernel.structure.read(request.examples)
        if case.stored < 1:
            rates = Rates(*measured_rate(kernel.rows(read, device) if rows is None else rows))
    decision = plan_gram(case, rates)
    if stored is not None:
        stored.complete(progress)
    if decision.tier == "host":
        origin = "" if stored is None else f"{stored.description}; "
        return HeldGram(held_rows(request, allowed, stored, progress), allowed, origin + decision.reason)
    if stored is None:
        return _planned(rows, case, decision, progress)
    if decision.tier == "device":
        return stored.dense(decision.reason, progress)
    return CachedGram(stored, allowed, f"{stored.description}; {decision.reason}")


def _with_cache(case: Case, rows: object) -> Case:
    """The case with the size of a cache of rows, and of the requests of a solver."""
    capacity, on_gpu = max_rows(case.n, case.memory), case.device == "cuda"
    request = staged_rows(case.n, capacity) if on_gpu else max(1, min(rows_ahead(rows), capacity // 2))
    return replace(case, capacity=capacity, request=request)


def _planned(rows: Any, case: Case, decision: Plan, progress: Progress | None) -> Gram:
    origin = getattr(rows, "description", "")
    description = f"{decision.reason}; {origin}" if origin else decision.reason
    if decision.tier == "device":
        return whole_gram(rows, description, progress)
    if current():
        description += "; not distributed, as workers compute whole matrices only"
    if rows.device.cards:
        description += f"; on the first of {len(rows.device.cards)} cards"
    case = _with_cache(case, rows)
    if (slowdown := 2 * case.rows_read / rows.n) > SLOW:
        warn_user(
            f"{show_bytes(case.memory)} hold {case.capacity:,} of {rows.n:,} rows of the kernel matrix: "
            f"{slowdown:.0f} times its values will be computed; raise memory (--memory)",
            UserWarning,
        )
    return CachedGram(rows, decision.memory, description)


def measured_rate(rows: MatrixRows) -> tuple[float, float]:
    """Kernel values per second within a call that computes rows, and additional seconds per call.

    Kernels differ a thousandfold, so this is measured, in tenths of a second, if a decision depends on it.
    Rates of memory, bus and disk are constants of the planner.
    """

    def seconds(count: int) -> float:
        devices.synchronize(rows.device)
        clock = time.perf_counter()
        rows.rows(np.linspace(0, rows.n - 1, count).astype(np.int64))
        devices.synchronize(rows.device)
        return time.perf_counter() - clock

    seconds(1)  # may compile something
    most = min(rows.n, max(2 * AHEAD, _PROBE // (4 * rows.n)))
    few = n_rows = 1 if rows.device.kind == "cuda" else min(rows_ahead(rows), most)
    seconds_of_few, least = seconds(few), max(2 * few, AHEAD)
    per_row = seconds_of_few / few
    while (more := min(most, max(least, int(_PROBE_SECONDS / per_row)))) >= 2 * n_rows:
        # Calls with equal numbers of rows differ by up to a tenth.
        per_row = max(seconds(more) - seconds_of_few, 0.1 * seconds_of_few) / (more - few)
        n_rows = more
    return rows.n / per_row, max(0.0, seconds_of_few - few * per_row)


Numbered = tuple[int, Gram]  #: Number of the kernel, and its Gram.


def grams(
    kernels: Sequence[Kernel],
    documents: Documents,
    device: Device,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> Iterator[Numbered]:
    """(Number, Gram) of every kernel, each of which is fitted to the documents, in an order that shares work.

    A Gram is valid until the next Gram is requested. Rows of all Grams may take `memory` bytes at a time;
    None is half of the free memory.
    """
    for kernel in kernels:
        kernel.check()
    return _GridGrams(kernels, documents, device, memory).in_turn(progress)


class _MatricesInMemory:
    """Documents, and the room for kernel matrices on them."""

    def __init__(self, documents: Documents, device: Device, memory: int | str | None) -> None:
        self.documents, self.device, self.allowed = documents, device, allowed_bytes(memory, device)
        self.size = max(1, 4 * len(documents) ** 2)

    def description(self, suffix: str) -> str:
        return plan_gram(Case(len(self.documents), self.allowed)).reason + suffix

    def sum_description(self, kernel: Kernel) -> str:
        parts = len(kernel.structure.terms)
        return self.description(f", summed from {parts} parts" if kernel.structure.depth else "")


def _added(total: Array, values: Array, weight: float, reuse: bool) -> Array:
    """total + weight * values, in place; `values` become the total if that is None and `reuse` allows it."""
    if total is not None:
        add(total, values, weight)
        return total
    total = values if reuse else values.copy()
    scale(total, weight)
    return total


@dataclass(frozen=True)
class _Part:
    """A kernel to compute: its number in the grid, if it has a number, and (number, weight) in each sum."""

    kernel: Kernel
    alone: int | None
    sums: list[tuple[int, float]]


@dataclass(frozen=True)
class _Pass:
    """Parts that are computed together; `sharing` is None for a single part."""

    parts: list[_Part]
    sharing: Sharing | None


def _passes(parts: Sequence[_Part], room: int) -> Iterator[_Pass]:
    """The work in order, for `room` matrices."""
    alike: dict[Hashable, list[_Part]] = {}
    for number, part in enumerate(parts):
        shared = part.kernel.cost.sharing if room >= 2 else None
        alike.setdefault(number if shared is None else (shared, part.kernel.structure.view), []).append(part)
    for of_kind in alike.values():
        sharing = of_kind[0].kernel.cost.sharing
        if sharing is None or len(of_kind) == 1:
            yield _Pass(of_kind, None)
            continue
        for positions in sharing.passes([part.kernel for part in of_kind], room):
            yield _Pass([of_kind[i] for i in positions], sharing if len(positions) > 1 else None)


class _GridGrams(_MatricesInMemory):
    """Grams of a grid, and the incomplete sums."""

    def __init__(
        self, kernels: Sequence[Kernel], documents: Documents, device: Device, memory: int | str | None
    ) -> None:
        super().__init__(documents, device, memory)
        self.kernels = kernels
        # A matrix that is spread over cards is partly on the first card twice.
        self.room = self.allowed // (self.size * (1 + bool(device.cards)))
        #: Incomplete sums, and the number of terms that they lack.
        self.totals: dict[int, Array] = {}
        self.missing: dict[int, int] = {}

    def in_turn(self, progress: Progress | None) -> Iterator[Numbered]:
        passes = [step for batch in self._batches() for step in self._passes_of(batch)]
        ends = np.cumsum([self._cost(step) for step in passes]).tolist()
        for step, begin, end in zip(passes, [0.0, *ends], ends, strict=False):
            within = part_of(progress, begin, end - begin, ends[-1])
            for part, gram in self._computed(step, within):
                for number, first_card in self._hand_out(part, gram):
                    everywhere = spread(first_card, self.device)
                    yield number, everywhere
                    everywhere.release()
            report(progress, end, ends[-1])

    def _batches(self) -> list[list[int]]:
        """Numbers of kernels that are computed together: as many sums as have room beside their parts."""
        sums = [number for number in range(len(self.kernels)) if not self._is_whole(number)]
        depth = max([self.kernels[number].structure.depth for number in sums], default=0)
        size = max(1, self.room - 1 - depth)
        batches = [sums[first : first + size] for first in range(0, len(sums), size)] or [[]]
        batches[0] = [number for number in range(len(self.kernels)) if number not in sums] + batches[0]
        return batches

    def _is_whole(self, number: int) -> bool:
        """Whether a kernel is computed as a whole instead of as a sum of Grams."""
        kernel = self.kernels[number]
        structure = kernel.structure
        return self.room <= structure.depth or any(term is kernel for _, term in structure.terms)

    def _passes_of(self, batch: Sequence[int]) -> Iterator[_Pass]:
        whole = [number for number in batch if self._is_whole(number)]
        parts = [_Part(self.kernels[number], number, []) for number in whole]
        by_key: dict[Hashable, _Part] = {part.kernel.structure.key: part for part in parts}
        for number in batch[len(whole) :]:
            self.missing[number] = len(self.kernels[number].structure.terms)
            for weight, term in self.kernels[number].structure.terms:
                if term.structure.key not in by_key:
                    by_key[term.structure.key] = _Part(term, None, [])
                    parts.append(by_key[term.structure.key])
                by_key[term.structure.key].sums.append((number, weight))
        return _passes(parts, self.room - (len(batch) - len(whole)))

    def _cost(self, step: _Pass) -> float:
        """Whole microseconds, so that sums are exact and progress never decreases."""
        costs = [part.kernel.cost.seconds(self.documents, self.documents) for part in step.parts]
        return float(np.ceil(1e6 * max(costs)))

    def _computed(self, step: _Pass, progress: Progress | None) -> Iterator[tuple[_Part, Gram]]:
        read = step.parts[0].kernel.structure.read(self.documents)
        kernels = [part.kernel.fit(read) for part in step.parts]
        if step.sharing is not None:
            description = self.description(f", {step.sharing.description(kernels)}")
            recipe = TileRecipe(kernels, step.sharing, self.device.kind)
            for position, gram in shared_grams(recipe, read, self.device, description, progress):
                yield step.parts[position], gram
            return
        ((part,), (kernel,)) = step.parts, kernels
        if part.sums:
            yield part, DenseGram(whole_gram(kernel.rows(read, self.device), "", progress).matrix)
            return
        sharded = sharded_gram(kernel, read, self.device, self.allowed, progress)
        yield part, sharded or gram_of_rows(kernel.rows(read, self.device), self.allowed, progress)

    def _hand_out(self, part: _Part, gram: Gram) -> Iterator[Numbered]:
        """The Gram of a part of the grid, and the sums that are complete with it."""
        values = gram.window().values if part.sums else None
        if part.alone is not None:
            yield part.alone, gram
        gram.release()
        for at, (number, weight) in enumerate(part.sums):
            last = at + 1 == len(part.sums)
            self.totals[number] = _added(self.totals.get(number), values, weight, reuse=last)
            self.missing[number] -= 1
            if not self.missing[number]:
                self.kernels[number].fit(self.documents)
                total = DenseGram(self.totals.pop(number), self.sum_description(self.kernels[number]))
                yield number, total
                total.release()


class TermGrams(_MatricesInMemory):
    """Grams of kernels that learn from parts of the documents, with a cache for the Grams of their terms.

    `kernels` are all kernels that Grams will be requested of; all Grams together may take `memory` bytes.
    """

    def __init__(
        self, kernels: Sequence[Kernel], documents: Documents, device: Device, memory: int | str | None
    ) -> None:
        super().__init__(documents, device, memory)
        at_work = 1 + bool(device.cards) + max([1, *(kernel.structure.depth for kernel in kernels)])
        self.room = self.allowed // self.size - at_work
        #: Number of kernels still to come that have a term.
        self.wanted = Counter(term.structure.key for kernel in kernels for _, term in kernel.structure.terms)
        self._cache: dict[tuple[Hashable, bytes], tuple[Kernel, Array]] = {}

    def serves(self, kernel: Kernel) -> bool:
        """Whether there is room, and the kernel is a sum or the term of another kernel."""
        return self.room >= 0 and (kernel.structure.depth > 0 or self.wanted[kernel.structure.key] > 1)

    def gram(self, kernel: Kernel, train: Ints | None, progress: Progress | None) -> Gram:
        """Fit a kernel to some of the documents, or to all, and compute its Gram of all."""
        total = None
        for number, (weight, term) in enumerate(kernel.structure.terms):
            step = part_of(progress, number, 1, len(kernel.structure.terms))
            values, cached = self._values(term, train, step)
            if step is not None:  # a term of the cache has no work
                step(1, 1)
            total = _added(total, values, weight, reuse=not cached)
            del values
        # Terms of weight 0 have no Gram but are saved with the others.
        fitted = {id(leaf) for _, term in kernel.structure.terms for leaf in term.structure.leaves}
        for leaf in kernel.structure.leaves:
            if id(leaf) not in fitted:
                leaf.fit(self._learnt_from(leaf, train))
        whole = DenseGram(total, self.sum_description(kernel))
        del total
        return spread(whole, self.device)

    def done(self, kernel: Kernel) -> None:
        """No Gram of this kernel will be requested any more."""
        for _, term in kernel.structure.terms:
            self.wanted[term.structure.key] -= 1
        self._cache = {at: rows for at, rows in self._cache.items() if self.wanted[at[0]] > 0}

    def _learnt_from(self, term: Kernel, train: Ints | None) -> Documents:
        """The documents from which a term learns; all if it learns nothing."""
        read: Documents = term.structure.read(self.documents)
        return read if train is None or not term.structure.learns else read.take(train)

    def _values(self, term: Kernel, train: Ints | None, progress: Progress | None) -> tuple[Array, bool]:
        """The matrix of a term, and whether it is cached."""
        at = term.structure.key, b"" if train is None or not term.structure.learns else train.tobytes()
        if at in self._cache:
            fitted_term, values = self._cache[at]
            for leaf, fitted in zip(term.structure.leaves, fitted_term.structure.leaves, strict=True):
                leaf.__dict__.update(vars(fitted))
            return values, True
        term.fit(self._learnt_from(term, train))
        rows = term.rows(term.structure.read(self.documents), self.device)
        values = whole_gram(rows, "", progress).matrix
        del rows
        again = self.wanted[term.structure.key] > 1 or not term.structure.learns
        keep = again and len(self._cache) < self.room
        if keep:
            self._cache[at] = term, values
        return values, keep
