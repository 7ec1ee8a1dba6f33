"""The Grams of many kernels on the same documents, as a grid over their parameters needs them.

What parameters have in common is computed once: each kernel says what that is (`Kernel.sharing`). Sharing
takes memory for two matrices or more. Within the budget there are as many to a pass as fit; where not even
one matrix fits, rows are computed on demand, kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.gram.base import DenseGram, Gram
from textsvm.gram.plan import allowed_bytes, make_gram, plan
from textsvm.kernels.base import Kernel, Sharing
from textsvm.parallel import Progress, part

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
    allowed = allowed_bytes(memory, device)
    room = allowed // max(1, 4 * len(documents) ** 2)
    return _in_turn(kernels, list(_passes(kernels, room)), documents, device, allowed, progress)


@dataclass(frozen=True)
class _Pass:
    """Kernels that are computed together, by their numbers; one alone shares nothing."""

    numbers: list[int]
    sharing: Sharing | None


def _passes(kernels: Sequence[Kernel], room: int) -> Iterator[_Pass]:
    """The work in order, given how many matrices fit."""
    alike: dict[Sharing | int, list[int]] = {}
    for number, kernel in enumerate(kernels):
        shared = kernel.sharing if room >= 2 else None
        alike.setdefault(number if shared is None else shared, []).append(number)
    for key, numbers in alike.items():
        if isinstance(key, int) or len(numbers) == 1:
            yield _Pass(numbers, None)
            continue
        for positions in key.passes([kernels[number] for number in numbers], room):
            yield _Pass([numbers[i] for i in positions], key if len(positions) > 1 else None)


def _in_turn(
    kernels: Sequence[Kernel],
    passes: Sequence[_Pass],
    documents: Documents,
    device: Device,
    allowed: int,
    progress: Progress | None,
) -> Iterator[Numbered]:
    lengths = documents.lengths
    # Whole microseconds, so that sums of them are exact and progress never steps back.
    costs = [
        np.ceil(1e6 * max(kernels[i].cost(lengths, lengths).sum() for i in step.numbers)) for step in passes
    ]
    begins = np.concatenate([[0.0], np.cumsum(costs)]).tolist()
    for step, begin, end in zip(passes, begins, begins[1:], strict=False):
        for number in step.numbers:
            kernels[number].fit(documents)
        within = part(progress, begin, end - begin, begins[-1])
        if step.sharing is None:
            (number,) = step.numbers
            rows = kernels[number].rows(documents, device)
            gram = make_gram(rows, allowed, within)
            del rows
            yield number, gram
            gram.release()
        else:
            some = [kernels[number] for number in step.numbers]
            said = step.sharing.description(some)
            description = f"{plan(len(documents), allowed).description}, {said}"
            for position, matrix in step.sharing.grams(some, documents, device, within):
                gram = DenseGram(matrix, description)
                del matrix
                yield step.numbers[position], gram
                gram.release()
        if progress is not None:
            progress(end, begins[-1])
