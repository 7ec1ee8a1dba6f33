"""Edit-distance kernel: ``k(s, t) = exp(-gamma d(s, t))``, d the Levenshtein distance with unit costs.

With ``relative``, d is divided by ``max(|s|, |t|)`` (and is 0 for two empty strings). k(s, s) = 1: there is
nothing to normalise. The kernel is not positive semi-definite in general; the solver handles that.

The distance, bit-parallel (Myers 1999, J. ACM 46(3); Hyyrö 2003)
-----------------------------------------------------------------
D(i, j) is the distance of the first i symbols of the *pattern* and the first j of the *text*. Neighbours in
that table differ by -1, 0 or +1, so 64 of them in a column fit into two words, a bit per pattern symbol:
``vp`` (D(i, j) - D(i-1, j) = +1) and ``vn`` (= -1). With ``eq`` the mask of the pattern symbols equal to text
symbol j, and ``hp``, ``hn`` the same for the differences along a row, a column costs

    d0 = (((eq & vp) + vp) ^ vp) | eq | vn        D(i, j) = D(i-1, j-1)
    hp = vn | ~(d0 | vp),    hn = vp & d0
    hp = hp << 1 | hp_in,    hn = hn << 1 | hn_in
    vp = hn | ~(d0 | hp),    vn = hp & d0

A word gets hp, hn of the row above it (and eq | hn_in in place of eq in the first line); the topmost gets
hp = 1, for D(0, j) = j. After the last column D(m, n) = n + popcount(vp) - popcount(vn) over the pattern.

CPU (cpu.py): 32 column documents of similar length are the patterns, each in a lane of a vector, and every
row document is the text of all of them at once.

CUDA (cuda.py, kernels_cu/edit.cu): a row document is the pattern, its masks are in shared memory, and each
thread has a column document as its text. With pattern symbol i at bit i / W of word i % W the shifts become
register names, and hn << 1 is a by-product of the addition's carries: about 6.5 integer instructions for 32
cells. Rows are sorted by length, and each uses the variant (words W, patterns a word, strips or not) that
wastes least.

Of a symmetric matrix each pair is computed once, in the order of length, and copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import AnyArray, Array, Floats, Floats32, Ints, Ints32
from textsvm.kernels.base import Ability, SymbolKernel, check_flag, check_positive
from textsvm.kernels.contract import HostRows, SharedColumns, Sharing, TileableCost
from textsvm.kernels.edit import cuda
from textsvm.kernels.edit.cpu import LANES, STRIP, EditRows, fill_distances
from textsvm.runtime.device import Device, array_module, device_of
from textsvm.runtime.parallel import Progress, run
from textsvm.text.documents import Documents

PIECE = 1e10  # table cells of a piece of work
RATE = 5e11 / 60  # table cells a second: 5e11 a minute


@dataclass(frozen=True)
class SharedDistances(Sharing):
    """A common matrix of distances, and a table look-up for each gamma."""

    relative: bool
    tileable = True

    def description(self, kernels: Sequence[EditDistance]) -> str:
        return "from one matrix of distances"

    def grams(
        self, kernels: Sequence[EditDistance], documents: Documents, device: Device, progress: Progress | None
    ) -> Iterator[tuple[int, Array]]:
        rows = kernels[0].rows(documents, device)
        distances = rows.distances_gram(progress)
        for position, kernel in enumerate(kernels):
            yield position, rows.gram_of(kernel, distances)

    def columns(
        self, kernels: Sequence[EditDistance], documents: Documents, device: Device
    ) -> SharedColumns | None:
        return _SharedRows(kernels, documents, device) if device.kind == "cpu" else None


class EditCost(TileableCost):
    """Cost of the edit-distance kernel."""

    @property
    def sharing(self) -> SharedDistances:
        return SharedDistances(bool(self.kernel.relative))

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        return row_lengths.astype(float) * column_lengths.sum() / RATE


@dataclass(repr=False, eq=False)
class EditDistance(SymbolKernel):
    """exp(-gamma d(s, t)), d the edit distance (insertions, deletions, substitutions cost 1).

    Parameters
    ----------
    gamma : float
        Factor of the distance; with `relative` strings without any common symbol have distance 1.
    relative : bool
        Divide the distance by the length of the longer string.
    tokens : {"characters", "words", "runs", "whitespace", "blosum62"} or callable
        Definition of a symbol; a function takes a normalised text and returns its tokens.
    keep_case : bool
        Distinguish upper and lower case.

    Examples
    --------
    >>> from textsvm import EditDistance
    >>> print(EditDistance(gamma=0.5)(["kitten"], ["sitting", "kitten"]).round(4))  # exp(-0.5 * 3), exp(0)
    [[0.2231 1.    ]]
    """

    name: ClassVar[str] = "edit"
    cost = Ability(EditCost)

    gamma: float = 0.05
    relative: bool = False

    def check(self) -> None:
        super().check()
        check_positive(self, "gamma")
        check_flag(self, "relative")

    def rows(self, documents: Documents, device: Device) -> Any:
        return (cuda.CudaEdit if device.kind == "cuda" else HostEdit)(self, documents, device)

    def values(
        self, distances: Array, row_lengths: Array, column_lengths: Array, out: Array | None = None
    ) -> Array:
        """Kernel values from distances (m, n) and lengths of documents, (m,) and (n,), on either device."""
        xp = array_module(device_of(distances))
        out = xp.empty(distances.shape, np.float32) if out is None else out
        gamma = min(float(self.gamma), 1e30)  # larger values overflow, and give the same kernel values
        if self.relative:
            longer = xp.maximum(xp.maximum(row_lengths[:, None], column_lengths), 1)
            out[...] = xp.exp(-gamma * (distances / longer))
        elif distances.size:
            of_distance = np.exp(-gamma * np.arange(int(distances.max()) + 1)).astype(np.float32)
            out[...] = xp.asarray(of_distance)[distances]
        return out


class _SharedRows:
    """Rows of distances, and a table look-up for each gamma (`SharedColumns`)."""

    def __init__(self, kernels: Sequence[EditDistance], documents: Documents, device: Device) -> None:
        self.kernels, self.documents = kernels, documents
        self._rows = HostEdit(kernels[0], documents, device)

    def diags(self) -> list[Floats32]:
        return [self._rows.diag() for _ in self.kernels]

    def rows(self, indices: Ints) -> list[Floats32]:
        return self.cross(self.documents.take(indices))

    def cross(self, others: Documents) -> list[Floats32]:
        distances, lengths = self._rows.distances(others), self.documents.lengths
        return [kernel.values(distances, others.lengths, lengths) for kernel in self.kernels]


class HostEdit(EditRows, HostRows):
    """`EditRows` on the CPU."""

    def __init__(self, kernel: EditDistance, documents: Documents, device: Device) -> None:
        super().__init__(kernel, documents, device)
        self.lengths = documents.lengths
        self.order = np.argsort(self.lengths, kind="stable")
        self.place = np.empty_like(self.order)
        self.place[self.order] = np.arange(self.n)
        self.codes, self.offsets = documents.codes_for(), np.array(documents.offsets)

    def gram_of(self, kernel: EditDistance, distances: Ints32) -> Floats32:
        """The kernel matrix for another gamma from `distances_gram`."""
        out = np.empty((self.n, self.n), np.float32)
        self._finish(kernel, distances, slice(None), self.lengths, out)
        return out

    def compare(
        self, others: Documents, picks: Ints | None, dtype: Any, progress: Progress | None = None
    ) -> AnyArray:
        lengths = others.lengths if picks is None else others.lengths[picks]
        out = np.empty((len(lengths), self.n), dtype)
        distances = out.view(np.int32)
        if picks is None:
            self._half(distances, progress)
        else:
            self._block(others, picks, distances, progress)
        self._finish(self.kernel, distances, self.place, None if dtype == np.int32 else lengths, out)
        return out

    def _half(self, out: Ints32, progress: Progress | None) -> None:
        """All distances of the symmetric matrix, columns in the order of length."""
        self._block(self.documents, self.order, out, progress, symmetric=True)
        mirror_tile = 8 * LANES
        tiles = [slice(i, i + mirror_tile) for i in range(0, self.n, mirror_tile)]

        def mirror(i: int) -> None:
            for j in range(i):
                out[self.order[tiles[i]], tiles[j]] = out[self.order[tiles[j]], tiles[i]].T
            upper = np.triu(out[self.order[tiles[i]], tiles[i]], 1)
            out[self.order[tiles[i]], tiles[i]] = upper + upper.T

        run(mirror, range(len(tiles)))

    def _block(
        self, others: Documents, picks: Ints, out: Ints32, progress: Progress | None, symmetric: bool = False
    ) -> None:
        """Distances of others[picks] to the columns in the order of length, or of the half that is needed.

        Symmetric: the picks are `order` itself, and their rows go where the documents are.
        """
        destinations = self.order if symmetric else np.arange(len(picks))
        # Copies, since Numba would compile again for arrays that are read-only.
        codes, offsets = others.codes_for(self.documents), np.array(others.offsets)
        own_codes = self.codes if codes.dtype == self.codes.dtype else self.documents.codes_for(others)
        alphabet = max(len(others.alphabet), len(self.documents.alphabet))
        pieces, work = self._pieces(others.lengths[picks], symmetric)

        def piece(bounds: tuple[int, int, int, int]) -> None:
            fill_distances(
                own_codes, self.offsets, self.order, codes, offsets, picks, destinations,
                *bounds, symmetric, alphabet, out,
            )  # fmt: skip

        run(piece, pieces, work, progress)

    def _pieces(
        self, row_lengths: Ints, symmetric: bool
    ) -> tuple[list[tuple[int, int, int, int]], list[float]]:
        """Cut (groups of columns) x (rows) into pieces of bounded work: (group, end, row, end) and cells."""
        m, groups = len(row_lengths), -(-self.n // LANES)
        symbols = np.concatenate([[0], np.cumsum(row_lengths + 8)])
        span = max(1, groups // 64) if not symmetric else 1
        pieces, work = [], []
        for end in range(groups, 0, -span):
            first = max(0, end - span)
            longest = int(self.lengths[self.order[min(end * LANES, self.n) - 1]])
            height = (end - first) * LANES * (longest + STRIP)
            row, last = 0, min(end * LANES, m) if symmetric else m
            while row < last:
                stop = int(np.searchsorted(symbols, symbols[row] + PIECE / height, side="right")) - 1
                stop = min(last, max(row + 1, stop))
                pieces.append((first, end, row, stop))
                work.append(float(height * (symbols[stop] - symbols[row])))
                row = stop
        return pieces, work

    def _finish(
        self, kernel: EditDistance, distances: Ints32, place: Ints | slice, row_lengths: Array, out: Array
    ) -> None:
        """Columns at `place`, as in the order of the documents; with `row_lengths`, kernel values."""
        batch = max(1, (1 << 18) // max(self.n, 1))

        def finish(first: int) -> None:
            rows = slice(first, first + batch)
            ordered = distances[rows][:, place]
            if row_lengths is None:
                out[rows] = ordered
            else:
                kernel.values(ordered, row_lengths[rows], self.lengths, out[rows])

        run(finish, range(0, len(distances), batch))
