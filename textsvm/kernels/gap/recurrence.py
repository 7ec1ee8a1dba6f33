"""Gap-weighted subsequence kernel (Lodhi et al. 2002; Shawe-Taylor and Cristianini 2004, chapter 11).

Every subsequence u of length p that s and t share, at every pair of places, counts decay^(span in s)
decay^(span in t), span = last index - first index + 1. `weights` blends lengths: k = sum_q w_q k_q.

The recurrence
--------------
With M(i, j) = [s_i = t_j], the factor decay^2p left out (normalisation cancels it, and float32 could
not hold it), and L = p - 1 levels, every pair of symbols (i, j), a *cell*, computes from the top level down

    R_q(i, j) = decay R_q(i, j-1) + M(i, j) (S_{q-1}(i-1, j-1) + b_{q-1})      q = L..1
    S_q(i, j) = decay S_q(i-1, j) + R_q(i, j)                                  S_0 = 0
    k = sum_{i,j} M(i, j) (S_L(i-1, j-1) + b_L)

S_q(i, j) sums the common subsequences of q symbols that end at or before (i, j), weighted by their gaps up
to there. The level weight b_q lets a subsequence begin with q symbols fewer than p still to come: b = (1, 0,
..., 0) gives k_p alone, and b_q = w_{p-q} decay^{2(p-q)}, divided by the largest of them, the blend.

With b = (1, 0, ..., 0) the terms M S_{q-1}(i-1, j-1) of level q sum to k_q: one shared pass for the
largest p gives all shorter lengths, at one addition a cell for each, and with them every blend.

Accuracy
--------
All terms are positive, so nothing cancels. A term that is still felt has met at most g(n) = 1 + decay + ...
+ decay^(n-1) roundings in a sum over n symbols; two such sums a level, and the last sum over one strip of
columns, give a relative error of at most 2^-24 (L (g(|s|) + g(|t|)) + STRIP). Where that passes 8e-6, or
|s| |t| (g(|s|) g(|t|))^L passes 2^100, float64 takes the place of float32; so do k(s, s), always. A tiny
number in place of each 0 that would decay keeps all of them out of the slow range of denormal numbers;
normalised values under 2^-60, which is all that they can add up to, are set to 0.

The twins: gap.py with gap_sweep.py, and gap_cuda.py with gap_lanes.py. All take mathematics from here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.normalisation import Normalisation, inverse_roots
from textsvm.text.documents import Documents

#: Columns that the CPU twin takes at a time.
STRIP = 64
#: Normalised values below are 0.
SMALLEST = 2.0**-60


@dataclass(frozen=True, eq=False)
class Recurrence:
    """The numbers of the recurrence.

    Attributes
    ----------
    decay : float
    level_weights : float64 array, shape (p,)
        b_0 to b_L, the largest 1.
    log_scale : float
        The log of what k was divided by for that.
    """

    decay: float
    level_weights: NDArray[np.float64]
    log_scale: float

    @classmethod
    def of(cls, p: int, decay: float, weights: Sequence[float] | None = None) -> Recurrence:
        """Of subsequences of `p` symbols, or of the blend of lengths from 1 to p with these weights."""
        lengths = np.arange(p) + 1
        given = np.asarray(lengths == p if weights is None else weights, np.float64)
        given = np.trim_zeros(given, "b")
        with np.errstate(divide="ignore"):
            logs = np.log(given) + 2 * math.log(decay) * np.arange(1, len(given) + 1)
        return cls(float(decay), np.exp(logs - logs.max())[::-1], float(logs.max()))

    @property
    def p(self) -> int:
        """The greatest length."""
        return len(self.level_weights)

    @property
    def shortest(self) -> int:
        """The smallest length that counts."""
        return self.p - int(np.flatnonzero(self.level_weights)[-1])

    @property
    def blended(self) -> bool:
        """Whether subsequences begin at other levels than the first."""
        return bool(self.level_weights[1:].any())

    def log2_bound(self, n: int, m: int) -> float:
        """log2 of what no sum of the recurrence passes, for strings of up to `n` and `m` symbols."""
        g, h = _effective_length(self.decay, n), _effective_length(self.decay, m)
        return math.log2(max(1, n) * max(1, m) * self.p) + (self.p - 1) * math.log2(max(1.0, g * h))

    def needs_double(self, n: int, m: int) -> bool:
        """Whether float32 is not enough for strings of up to `n` and `m` symbols (Accuracy, above)."""
        g, h = _effective_length(self.decay, n), _effective_length(self.decay, m)
        rounding = 2.0**-24 * ((self.p - 1) * (g + h) + STRIP)
        shorter = self.level_weights[self.level_weights.argmax() :]
        return rounding > 8e-6 or self.log2_bound(n, m) > 100 or _unlike(shorter)

    def divides(self, lengths: NDArray[np.int64]) -> bool:
        """Whether pairs of strings of these lengths take the same precision, whichever are swept together."""
        least, most = int(lengths.min(initial=0)), int(lengths.max(initial=0))
        return self.needs_double(least, least) == self.needs_double(most, most)

    @property
    def shares(self) -> bool:
        """Whether a shared pass is exact: weights too unlike would bring its tiny numbers to light."""
        return not _unlike(self.level_weights)


class GapKernel(Protocol):
    """Parameters of `textsvm.GapWeighted`."""

    p: int
    decay: float
    normalised: bool

    @property
    def structure(self) -> Any:
        """`textsvm.kernels.contract.Structure`."""

    @property
    def recurrence(self) -> Recurrence:
        """Constants of the recurrence."""


def shared_pass(recurrences: Sequence[Recurrence]) -> tuple[Recurrence, NDArray[np.float64]]:
    """What kernels of one decay share: the recurrence of the greatest length, which is swept, and its blends.

    Returns
    -------
    Recurrence
    float64 array, shape (number of kernels, number of lengths)
        Row k: kernel k, on the scale of its level weights, as a sum of the k_q of the recurrence, of all
        lengths from the shortest that any of them has to the greatest.
    """
    mix = np.zeros((len(recurrences), max(each.p for each in recurrences)))
    for row, each in zip(mix, recurrences, strict=True):
        row[: each.p] = each.level_weights[::-1]
    return Recurrence.of(mix.shape[1], recurrences[0].decay), mix[:, mix.any(axis=0).argmax() :]


def _effective_length(decay: float, n: int) -> float:
    """1 + decay + ... + decay^(n-1)."""
    return float(n) if decay == 1 else (1 - decay**n) / (1 - decay)


def _unlike(weights: NDArray[np.float64]) -> bool:
    """Whether the smallest weight that is not 0 is less than 2^-20 of the largest, which is 1."""
    return bool(weights[weights > 0].min() < 2.0**-20)


class SelfValues(Normalisation):
    """k(s, s) of documents, on the scale of the level weights, and what follows from it.

    Parameters
    ----------
    kernel : GapKernel
    documents : Documents, n of them
    values : float64 array, shape (n,)
        The sums of the recurrence; those of documents too short for any feature become 0.
    columns : SelfValues, optional
        See `Normalisation`.

    Raises
    ------
    InputError
        If a value passes the range of float64, or a raw one that of the float32 it will be given in.
    """

    def __init__(
        self,
        kernel: GapKernel,
        documents: Documents,
        values: NDArray[np.float64],
        columns: SelfValues | None = None,
    ) -> None:
        values[documents.lengths < kernel.structure.min_length] = 0
        if not np.isfinite(values).all():
            raise InputError(
                f"document {int(np.isfinite(values).argmin())} is too long for this gap-weighted kernel: "
                "k(s, s) passes the range of float64; take a smaller p or decay, or shorten the documents"
            )
        super().__init__(documents, values, kernel.normalised, columns)
        if kernel.normalised:
            return
        self.log_scale = kernel.recurrence.log_scale
        self.scale = np.full(len(values), math.exp(max(-350.0, self.log_scale / 2)))
        raw = self.raw()[values > 0]
        if len(raw) and not (raw.min() > 1e-30 and raw.max() < 1e38):
            raise InputError(
                f"k(s, s) of the gap-weighted kernel, {raw.min():.3g} to {raw.max():.3g}, pass the range "
                "of float32; leave normalised=True, or take another p or decay"
            )

    def raw(self) -> NDArray[np.float64]:
        """k(s, s) as defined, of a kernel that is not normalised."""
        return self.self_values * math.exp(max(-700.0, self.log_scale))

    def diagonal(self) -> NDArray[np.float32]:
        """Kernel values of the documents with themselves."""
        return super().diagonal() if self.normalised else self.raw().astype(np.float32)

    def finish(self, sums: NDArray[np.float64], columns: SelfValues) -> None:
        """Make kernel values of the sums of the recurrence, these documents by `columns`, in place."""
        sums *= inverse_roots(self.self_values)[:, None]
        sums *= inverse_roots(columns.self_values)
        self.finish_rows(sums, columns)
        sums[sums < SMALLEST] = 0
        if not self.normalised:
            sums *= np.sqrt(self.raw())[:, None]
            sums *= np.sqrt(columns.raw())
