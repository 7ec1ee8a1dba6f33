"""The Grams of many kernels on the same documents, as a grid over their parameters needs them.

What parameters have in common is computed once:

    gap-weighted    same decay: one pass for the greatest length gives all lengths and their blends
    edit            same `relative`: one matrix of distances, a table look-up for each gamma
    spectrum        same p1, weight and idf: k_{p1..p2} is the running sum, not normalised, of the Grams of
                    the lengths; a range costs its own lengths only
    others          one by one

Sharing takes memory: for gap-weighted kernels a matrix each, for the others two. Within the budget there are
as many to a pass as fit; where not even one matrix fits, rows are computed on demand, kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.gram.base import DenseGram, Gram
from textsvm.gram.plan import allowed_bytes, make_gram, plan
from textsvm.kernels import gap, spectrum
from textsvm.kernels.base import Kernel
from textsvm.kernels.edit import EditDistance, HostEdit
from textsvm.kernels.edit_cuda import CudaEdit
from textsvm.kernels.gap import GapWeighted
from textsvm.kernels.spectrum import Spectrum
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
    return _in_turn(kernels, _passes(kernels, room), documents, device, allowed, progress)


@dataclass(frozen=True)
class _Pass:
    """Kernels that are computed together, by their numbers."""

    numbers: list[int]
    share: Callable[..., Iterator[tuple[int, Any]]] | None
    said: str
    cost: float


def _passes(kernels: Sequence[Kernel], room: int) -> list[_Pass]:
    """The work in order, given how many matrices fit."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for number, kernel in enumerate(kernels):
        alike.setdefault(_alike(number, kernel), []).append(number)
    return [step for key, numbers in alike.items() for step in _of_alike(kernels, key[0], numbers, room)]


def _alike(number: int, kernel: Kernel) -> tuple[Any, ...]:
    """Equal for kernels that have a computation in common."""
    if isinstance(kernel, GapWeighted) and kernel.shares:
        return GapWeighted, float(kernel.decay)
    if isinstance(kernel, EditDistance):
        return EditDistance, bool(kernel.relative)
    if isinstance(kernel, Spectrum):
        return Spectrum, kernel.lengths[0], kernel.weight, bool(kernel.idf)
    return None, number


def _of_alike(kernels: Sequence[Kernel], kind: Any, numbers: list[int], room: int) -> Iterator[_Pass]:
    if kind is None or room < 2 or len(numbers) == 1:
        for number in numbers:
            yield _Pass([number], None, "", _cost(kernels[number]))
    elif kind is EditDistance:
        yield _Pass(numbers, _edit, ", from one matrix of distances", _cost(kernels[numbers[0]]))
    elif kind is Spectrum:
        numbers = sorted(numbers, key=lambda i: kernels[i].lengths[1])
        yield _Pass(numbers, _spectrum, ", from the sum over lengths", _cost(kernels[numbers[-1]]))
    else:
        numbers = sorted(numbers, key=lambda i: kernels[i].p)
        for end in range(len(numbers), 0, -room):
            some = numbers[max(0, end - room) : end]
            said = f", from one pass with p = {kernels[some[-1]].p}"
            yield _Pass(some, _gap if len(some) > 1 else None, said, _cost(kernels[some[-1]]))


def _cost(kernel: Kernel) -> float:
    """About how long a Gram takes, in the unit of a spectrum's."""
    return (
        50.0 * kernel.p if isinstance(kernel, GapWeighted) else 20 if isinstance(kernel, EditDistance) else 1
    )


def _in_turn(
    kernels: Sequence[Kernel],
    passes: Sequence[_Pass],
    documents: Documents,
    device: Device,
    allowed: int,
    progress: Progress | None,
) -> Iterator[Numbered]:
    done, total = 0.0, sum(step.cost for step in passes)
    for step in passes:
        for number in step.numbers:
            kernels[number].fit(documents)
        within = part(progress, done, step.cost, total)
        if step.share is None:
            (number,) = step.numbers
            rows = kernels[number].rows(documents, device)
            gram = make_gram(rows, allowed, within)
            del rows
            yield number, gram
            gram.release()
        else:
            some = [kernels[number] for number in step.numbers]
            description = plan(len(documents), allowed).description + step.said
            for position, matrix in step.share(some, documents, device, within):
                gram = DenseGram(matrix, description)
                del matrix
                yield step.numbers[position], gram
                gram.release()
        done += step.cost
        if progress is not None:
            progress(done, total)


def _gap(
    kernels: list[GapWeighted], documents: Documents, device: Device, progress: Progress | None
) -> Iterator[tuple[int, Any]]:
    if device.kind == "cuda":
        from textsvm.kernels.gap_cuda import cuda_grams

        matrices = cuda_grams(kernels, documents, device, progress)
    else:
        matrices = gap.host_grams(kernels, documents, progress)
    matrices.reverse()
    for position in range(len(kernels)):
        yield position, matrices.pop()


def _edit(
    kernels: list[EditDistance], documents: Documents, device: Device, progress: Progress | None
) -> Iterator[tuple[int, Any]]:
    rows: HostEdit | CudaEdit
    if device.kind == "cuda":
        rows = CudaEdit(kernels[0], documents, device)
    else:
        rows = HostEdit(kernels[0], documents, device)
    distances = rows.distances_gram(progress)
    for position, kernel in enumerate(kernels):
        yield position, rows.gram_of(kernel, distances)


def _spectrum(
    kernels: list[Spectrum], documents: Documents, device: Device, progress: Progress | None
) -> Iterator[tuple[int, Any]]:
    """Ranges from the same length on, the shorter ones first."""
    if device.kind == "cuda":
        from textsvm.kernels.spectrum_cuda import cuda_grams

        return cuda_grams(kernels, documents, device, progress)
    return spectrum.host_grams(kernels, documents, device, progress)
