"""Gap-weighted subsequence kernel (Lodhi et al. 2002; Shawe-Taylor and Cristianini 2004, chapter 11).

Every subsequence u of length p that s and t share, at every pair of places, counts decay^(span in s)
decay^(span in t), span = last index - first index + 1. `weights` blends lengths: k = sum_q w_q k_q.

The recurrence
--------------
With M(i, j) = [s_i = t_j], without the factor decay^2p (normalisation cancels it, and float32 could not hold
it), and with L = p - 1 levels, every pair of symbols (i, j), a *cell*, computes from the top level down

    R_q(i, j) = decay R_q(i, j-1) + M(i, j) (S_{q-1}(i-1, j-1) + b_{q-1})      q = L..1
    S_q(i, j) = decay S_q(i-1, j) + R_q(i, j)                                  S_0 = 0
    k = sum_{i,j} M(i, j) (S_L(i-1, j-1) + b_L)

S_q(i, j) sums the common subsequences of q symbols that end at or before (i, j), weighted by their gaps up
to there. The level weight b_q lets a subsequence begin with q symbols fewer than p still to come: b = (1, 0,
..., 0) gives k_p alone, and b_q = w_{p-q} decay^{2(p-q)}, divided by the largest of them, the blend.

With b = (1, 0, ..., 0) the terms M S_{q-1}(i-1, j-1) of level q sum to k_q: a shared pass for the largest p
also gives all shorter lengths, at an addition per cell and length, and with them every blend. On a CPU a
shared pass gives the bits of separate passes; a blend, whose sums would be rounded differently, has its own.

Accuracy
--------
All terms are positive, so nothing cancels. A term that still matters has passed at most g(n) = 1 + decay +
... + decay^(n-1) roundings in a sum over n symbols; two such sums per level, and the last sum over a strip of
columns, give a relative error of at most 2^-24 (L (g(|s|) + g(|t|)) + STRIP). If that exceeds 8e-6, or
|s| |t| (g(|s|) g(|t|))^L exceeds 2^100, float64 replaces float32; k(s, s) is always float64. A tiny number in
place of each decaying 0 keeps all numbers out of the slow denormal range; normalised values below 2^-60, the
most that these can add up to, are set to 0.

The recurrence rounds (s, t) and (t, s) differently. The row of a pair is the shorter document, of equally
long ones the first in the order of the matrix, and the precision depends on the two lengths only: so some
rows of a matrix have the bits of the whole.

Attribution
-----------
k(s, t) is a sum over pairs of occurrences of a subsequence; a pair of q symbols is spread evenly over its q
symbols in s. With F_r(i, j) the sum over pairs of r symbols that end at (i, j), B_l(i, j) over pairs of l
symbols that begin there (both without the factors decay^2 of a symbol), and c_q the weight of length q,
symbol i of s gets

    sum_j M(i, j) sum_(r, l >= 1) F_r(i, j) B_l(i, j) c_(r+l-1) / (r+l-1)

from a forward and a backward pass. The sum over i is k(s, t).

The twins are kernel.py (CPU) and cuda.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from textsvm.arrays import Bools, Floats, Floats32, Ints, UnsignedInts
from textsvm.errors import InputError
from textsvm.kernels.attribution import AttributionMethod
from textsvm.kernels.shared.normalisation import Normalisation, inverse_roots, require_float32
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress, run
from textsvm.text.documents import Documents

STRIP = 64  #: Columns per strip of the CPU twin.
SMALLEST = 2.0**-60  #: Normalised values below this are set to 0.


@dataclass(frozen=True, eq=False)
class Recurrence:
    """Parameters of the recurrence."""

    decay: float
    level_weights: Floats  #: shape (p,): b_0 to b_L; the largest is 1
    log_scale: float  #: Logarithm of the factor by which k was divided for that

    @classmethod
    def of(cls, p: int, decay: float, weights: Sequence[float] | None = None) -> Recurrence:
        """For subsequences of `p` symbols, or the blend of lengths 1 to p with these weights."""
        lengths = np.arange(p) + 1
        length_weights = np.asarray(lengths == p if weights is None else weights, np.float64)
        length_weights = np.trim_zeros(length_weights, "b")
        with np.errstate(divide="ignore"):
            logs = np.log(length_weights) + 2 * math.log(decay) * np.arange(1, len(length_weights) + 1)
        return cls(float(decay), np.exp(logs - logs.max())[::-1], float(logs.max()))

    @property
    def p(self) -> int:
        """Largest length."""
        return len(self.level_weights)

    @property
    def shortest(self) -> int:
        """Smallest length with a weight."""
        return self.p - int(np.flatnonzero(self.level_weights)[-1])

    @property
    def blended(self) -> bool:
        """Whether subsequences begin at several levels."""
        return bool(self.level_weights[1:].any())

    def log2_bound(self, n: int, m: int) -> float:
        """log2 of an upper bound of all sums, for strings of up to `n` and `m` symbols."""
        g, h = _effective_length(self.decay, n), _effective_length(self.decay, m)
        return math.log2(max(1, n) * max(1, m) * self.p) + (self.p - 1) * math.log2(max(1.0, g * h))

    def needs_double(self, n: int, m: int) -> bool:
        """Whether strings of `n` and `m` symbols need float64 (Accuracy, above); longer ones then do, too."""
        g, h = _effective_length(self.decay, n), _effective_length(self.decay, m)
        rounding = 2.0**-24 * ((self.p - 1) * (g + h) + STRIP)
        shorter = self.level_weights[self.level_weights.argmax() :]
        return rounding > 8e-6 or self.log2_bound(n, m) > 100 or _unlike(shorter)

    def doubles(self, lengths: Ints, others: Ints) -> Bools:
        """`needs_double` of each pair, shape (len(lengths), len(others)), of ascending lengths."""
        if not self.needs_double(int(lengths[-1]), int(others[-1])):
            return np.broadcast_to(np.False_, (len(lengths), len(others)))
        if self.needs_double(int(lengths[0]), int(others[0])):
            return np.broadcast_to(np.True_, (len(lengths), len(others)))
        numbers = others.tolist()
        least = [bisect_left(numbers, True, key=partial(self.needs_double, n)) for n in lengths.tolist()]
        return np.arange(len(others)) >= np.array(least)[:, None]

    @property
    def shares(self) -> bool:
        """Whether a shared pass is accurate: very different weights would amplify its tiny numbers."""
        return not _unlike(self.level_weights)


def shared_pass(recurrences: Sequence[Recurrence]) -> tuple[Recurrence, Floats]:
    """Combine kernels with a common decay into the recurrence of the largest length, and blends.

    The blends, of shape (number of kernels, number of lengths), express each kernel, on the scale of its
    level weights, as a sum of the k_q from the smallest length of any kernel to the largest.
    """
    mix = np.zeros((len(recurrences), max(recurrence.p for recurrence in recurrences)))
    for row, recurrence in zip(mix, recurrences, strict=True):
        row[: recurrence.p] = recurrence.level_weights[::-1]
    return Recurrence.of(mix.shape[1], recurrences[0].decay), mix[:, mix.any(axis=0).argmax() :]


def _effective_length(decay: float, n: int) -> float:
    """1 + decay + ... + decay^(n-1)."""
    return float(n) if decay == 1 else (1 - decay**n) / (1 - decay)


def _unlike(weights: Floats) -> bool:
    """Whether the smallest nonzero weight is less than 2^-20 of the largest, which is 1."""
    return bool(weights[weights > 0].min() < 2.0**-20)


class SelfValues(Normalisation):
    """Normalisation by k(s, s) on the scale of the level weights.

    `values` are the sums of the recurrence, shape (n,), and are set to 0 for documents too short for any
    feature. Raises InputError if they exceed the range of float64, or unnormalised the range of float32.
    """

    def __init__(
        self, kernel: Any, documents: Documents, values: Floats, columns: SelfValues | None = None
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
        require_float32(self.raw()[values > 0], kernel.name)

    def raw(self) -> Floats:
        """k(s, s) as defined, for an unnormalised kernel."""
        return self.self_values * self.unit

    @property
    def unit(self) -> float:
        """Kernel values of an unnormalised kernel as a multiple of the sums."""
        return math.exp(max(-700.0, self.log_scale))

    def diagonal(self) -> Floats32:
        """Kernel values of the documents with themselves."""
        return super().diagonal() if self.normalised else self.raw().astype(np.float32)

    def finish(self, sums: Floats, columns: SelfValues) -> None:
        """Turn sums of the recurrence, (documents, `columns`), into kernel values in place."""
        _multiply(sums, inverse_roots(self.self_values), inverse_roots(columns.self_values))
        self.finish_rows(sums, columns)
        for row in sums:
            row[row < SMALLEST] = 0
        if not self.normalised:
            _multiply(sums, np.sqrt(self.raw()), np.sqrt(columns.raw()))


def _multiply(sums: Floats, a: Floats, b: Floats) -> None:
    """sums[i, j] *= a[i] b[j], rounded like sums[j, i]; the factor may be out of range."""
    for row, factor in zip(sums, a, strict=True):  # all factors at once would need the memory of the sums
        row *= np.maximum(factor, b)
        row *= np.minimum(factor, b)


SUBSEQUENCES = AttributionMethod(
    "subsequences", "exact: each common subsequence's contribution, spread evenly over its symbols"
)


def symbol_contributions(
    recurrence: Recurrence,
    support: Documents,
    document: UnsignedInts,
    terms: Floats,
    progress: Progress | None = None,
) -> Floats:
    """Contributions of the symbols of a document, given as codes over an extension of the alphabet.

    `terms` are the values to attribute: coef_i k(t_i, document) of each support vector, shape (n_sv,).
    """
    weights = recurrence.level_weights[::-1] / np.arange(1, recurrence.p + 1)
    source = document.astype(np.int32)
    weighted = np.flatnonzero(terms)
    pieces = [weighted[i : i + 16] for i in range(0, len(weighted), 16)]
    sums = np.zeros((len(pieces), len(source)))

    def share(piece: int) -> None:
        mass = np.empty(len(source))
        for i in pieces[piece]:
            other = support.codes[support.offsets[i] : support.offsets[i + 1]].astype(np.int32)
            _share_of_symbols(source, other, weights, float(recurrence.decay), mass)
            total = mass.sum()
            if total > 0:
                sums[piece] += terms[i] / total * mass

    work = [float(support.lengths[piece].sum()) for piece in pieces]
    run(share, range(len(pieces)), work, progress)
    return sums.sum(0)


@njit(nogil=True, cache=True)
def _share_of_symbols(s, t, weights, decay, mass):
    """mass[i] = part of k(s, t) attributed to symbol i of s; weights[q - 1] = c_q / q."""
    n, m, p = len(s), len(t), len(weights)
    cells = 0
    for i in range(n):
        for j in range(m):
            cells += s[i] == t[j]
    ahead = np.empty((cells, p))  # F of the cells with equal symbols, row by row
    state = np.zeros((m + 1, p))  # S_q of the row before, at the column before: index j + 1
    run_sums = np.empty(p)
    old = np.empty(p)
    at = 0
    for i in range(n):
        run_sums[:] = 0.0
        old[:] = state[0]
        for j in range(m):
            equal = s[i] == t[j]
            for q in range(p - 1, -1, -1):
                value = 0.0
                if equal:
                    value = 1.0 if q == 0 else old[q - 1]
                    ahead[at, q] = value
                run_sums[q] = decay * run_sums[q] + value
            for q in range(p):
                old[q] = state[j + 1, q]
                state[j + 1, q] = decay * old[q] + run_sums[q]
            at += equal
    state[:] = 0.0
    for i in range(n - 1, -1, -1):
        run_sums[:] = 0.0
        old[:] = state[m]
        mass[i] = 0.0
        for j in range(m - 1, -1, -1):
            equal = s[i] == t[j]
            at -= equal
            for q in range(p - 1, -1, -1):
                value = 0.0
                if equal:
                    value = 1.0 if q == 0 else old[q - 1]
                    for r in range(p - q):
                        mass[i] += ahead[at, r] * value * weights[r + q]
                run_sums[q] = decay * run_sums[q] + value
            for q in range(p):
                old[q] = state[j, q]
                state[j, q] = decay * old[q] + run_sums[q]
