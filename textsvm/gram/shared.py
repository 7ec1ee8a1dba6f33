"""The Grams of many kernels on the same documents, as a grid over their parameters needs them.

What parameters have in common is computed once: each kernel says what that is (`Cost.sharing`). Sharing
takes memory for two matrices or more. Within the budget there are as many to a pass as fit; where not even
one matrix fits, rows are computed on demand, kernel by kernel.

The Gram of a kernel that sums have in common is made once and added to each of them: a sum that is not
complete takes a matrix, and the work on its terms one (alone) or two and more (shared, or a product). There
are as many sums at a time as fit; where not two matrices fit, rows of a sum are computed on demand too.

On several cards the Gram of a kernel alone is made by all of them (`textsvm.gram.cards`); what kernels share
is made on the first, and the Gram of each is then spread over all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm.gram.base import DenseGram, Gram
from textsvm.gram.cards import sharded_gram, spread
from textsvm.gram.plan import allowed_bytes, make_gram, plan
from textsvm.gram.tiles import Recipe, shared_grams, whole_gram
from textsvm.kernels.base import Kernel
from textsvm.kernels.combined.rows import add, scale
from textsvm.kernels.contract import Sharing
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.runtime.parallel import part as part_of
from textsvm.text.documents import Documents

#: Number of the kernel, and its Gram.
Numbered = tuple[int, Gram]


def grams(
    kernels: Sequence[Kernel],
    documents: Documents,
    device: Device,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> Iterator[Numbered]:
    """The Gram of every kernel, sharing what can be shared.

    Parameters
    ----------
    kernels : sequence of Kernel
        Each is fitted here to the documents.
    documents : Documents
    device : Device
        Where the rows live.
    memory : int or str, optional
        Bytes that rows may take, of all Grams that are held at a time; None is half of what is free there.
    progress : callable, optional
        Called over all the work.

    Returns
    -------
    iterator of (number in `kernels`, Gram)
        In an order that shares; every number once. A Gram can be used until the next one is asked for:
        its memory is then taken back.

    Raises
    ------
    InputError
        At once, if a kernel's parameters are out of range or `memory` cannot be understood.
    """
    for kernel in kernels:
        kernel.check()
    making = _Making(kernels, documents, device, allowed_bytes(memory, device))
    return _on_all_cards(making.in_turn(progress), device)


def _on_all_cards(made: Iterator[Numbered], device: Device) -> Iterator[Numbered]:
    for number, gram in made:
        everywhere = spread(gram, device)
        yield number, everywhere
        everywhere.release()


@dataclass(frozen=True)
class _Part:
    """A kernel whose Gram is made.

    Attributes
    ----------
    kernel : Kernel
    alone : int, optional
        Its number, if it is one of those wanted.
    sums : list of (int, float)
        Numbers of the sums that have it as a term, and its weights in them.
    """

    kernel: Kernel
    alone: int | None
    sums: list[tuple[int, float]]


@dataclass(frozen=True)
class _Pass:
    """Parts that are computed together; one alone shares nothing."""

    parts: list[_Part]
    sharing: Sharing | None


def _passes(parts: Sequence[_Part], room: int) -> Iterator[_Pass]:
    """The work in order, given how many matrices fit."""
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


class _Making:
    """Grams on their way, and the sums that are not complete yet."""

    def __init__(self, kernels: Sequence[Kernel], documents: Documents, device: Device, allowed: int) -> None:
        self.kernels, self.documents, self.device, self.allowed = kernels, documents, device, allowed
        # A matrix that is spread over cards is on the first of them twice in part.
        size = 4 * len(documents) ** 2 * (1 + bool(device.cards))
        self.room = allowed // max(1, size)
        #: What sums have so far, and how many terms they lack.
        self.totals: dict[int, Any] = {}
        self.missing: dict[int, int] = {}

    def in_turn(self, progress: Progress | None) -> Iterator[Numbered]:
        passes = [step for batch in self._batches() for step in self._passes_of(batch)]
        ends = np.cumsum([self._cost(step) for step in passes]).tolist()
        for step, begin, end in zip(passes, [0.0, *ends], ends, strict=False):
            within = part_of(progress, begin, end - begin, ends[-1])
            for part, gram in self._made(step, within):
                yield from self._hand_out(part, gram)
            if progress is not None:
                progress(end, ends[-1])

    def _batches(self) -> list[list[int]]:
        """Numbers of kernels that are made together: the sums for which there is room beside their parts."""
        sums = [number for number in range(len(self.kernels)) if not self._is_whole(number)]
        size = max(
            1, self.room - 1 - max([self.kernels[number].structure.depth for number in sums], default=0)
        )
        batches = [sums[first : first + size] for first in range(0, len(sums), size)] or [[]]
        batches[0] = [number for number in range(len(self.kernels)) if number not in sums] + batches[0]
        return batches

    def _is_whole(self, number: int) -> bool:
        """Whether the Gram of a kernel is not made from those of its terms, of which there may be no room."""
        kernel, structure = self.kernels[number], self.kernels[number].structure
        return self.room <= structure.depth or any(term is kernel for _, term in structure.terms)

    def _passes_of(self, batch: Sequence[int]) -> Iterator[_Pass]:
        whole = [number for number in batch if self._is_whole(number)]
        parts = [_Part(self.kernels[number], number, []) for number in whole]
        known: dict[Hashable, _Part] = {part.kernel.structure.key: part for part in parts}
        for number in batch[len(whole) :]:
            self.missing[number] = len(self.kernels[number].structure.terms)
            for weight, term in self.kernels[number].structure.terms:
                if term.structure.key not in known:
                    known[term.structure.key] = _Part(term, None, [])
                    parts.append(known[term.structure.key])
                known[term.structure.key].sums.append((number, weight))
        return _passes(parts, self.room - (len(batch) - len(whole)))

    def _cost(self, step: _Pass) -> float:
        """Whole microseconds, so that sums of them are exact and progress never steps back."""
        costs = [part.kernel.cost.seconds(self.documents, self.documents) for part in step.parts]
        return float(np.ceil(1e6 * max(costs)))

    def _made(self, step: _Pass, progress: Progress | None) -> Iterator[tuple[_Part, Gram]]:
        read = step.parts[0].kernel.structure.read(self.documents)
        kernels = [part.kernel.fit(read) for part in step.parts]
        if step.sharing is None:
            ((part,), (kernel,)) = step.parts, kernels
            sharded = None if part.sums else sharded_gram(kernel, read, self.device, self.allowed, progress)
            if sharded is not None:
                yield part, sharded
                return
            rows = kernel.rows(read, self.device)
            if part.sums:
                yield part, whole_gram(rows, "", progress)
            else:
                yield part, make_gram(rows, self.allowed, progress)
            return
        said = step.sharing.description(kernels)
        description = f"{plan(len(read), self.allowed).description}, {said}"
        recipe = Recipe(kernels, step.sharing, self.device.kind)
        for position, gram in shared_grams(recipe, read, self.device, description, progress):
            yield step.parts[position], gram

    def _hand_out(self, part: _Part, gram: Gram) -> Iterator[Numbered]:
        """The Gram of a part where it is wanted itself, and the sums that are complete with it."""
        values = gram.window().values if part.sums else None
        if part.alone is not None:
            yield part.alone, gram
        gram.release()
        for at, (number, weight) in enumerate(part.sums):
            self._add(number, values, weight, last=at + 1 == len(part.sums))
            self.missing[number] -= 1
            if not self.missing[number]:
                self.kernels[number].fit(self.documents)
                total = DenseGram(self.totals.pop(number), self._description(number))
                yield number, total
                total.release()

    def _add(self, number: int, values: Any, weight: float, last: bool) -> None:
        """Add a term to a sum; the last sum that wants one may begin with it."""
        if number in self.totals:
            add(self.totals[number], values, weight)
        else:
            self.totals[number] = values if last else values.copy()
            scale(self.totals[number], weight)

    def _description(self, number: int) -> str:
        terms = len(self.kernels[number].structure.terms)
        return f"{plan(len(self.documents), self.allowed).description}, from those of its {terms} parts"
