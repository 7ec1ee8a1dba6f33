"""Which symbols of a document its value comes from.

value(x) = sum_i a_i k(t_i, x) + bias, over the support vectors t_i.

Spectrum kernels: exact. In the space of the features (kernels/spectrum.py) the sum is phi(x) . w, with
w = sum_i a_i phi(t_i) / |t_i|; so every p-mer u of x has its contribution, phi_u(x) w_u / |x| (that of an
intersection kernel sum_h [c_u(x) >= h] w_(u, h) / |x|). It is spread evenly over the occurrences of u in x,
and each occurrence over its p symbols. The sum over symbols is value - bias.

Gap-weighted kernels: exact. k(s, t) is a sum over pairs of occurrences of a subsequence, and a pair of q
symbols is spread evenly over its q symbols in s. With F_r(i, j) the sum over the pairs of r symbols that
end at (i, j), B_l(i, j) that over those of l symbols that begin there (both without the factors decay^2 of a
symbol, as in kernels/gap.py), and c_q the weight of length q, symbol i of s gets

    sum_j M(i, j) sum_(r, l >= 1) F_r(i, j) B_l(i, j) c_(r+l-1) / (r+l-1)

from one pass forwards and one backwards. The sum over i is k(s, t).

All other kernels: occlusion. A piece of text gets value(x) - value(x without it). This is no sum: words that
say the same hide each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm.documents import Documents, encode
from textsvm.features.pmers import windows
from textsvm.features.vocabulary import Vocabulary
from textsvm.kernels.base import KernelRows
from textsvm.kernels.gap import GapWeighted
from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.spectrum import HostSpectrum, represent
from textsvm.parallel import Progress, run

Array = NDArray[np.float64]
#: Pieces that a document is cut into for occlusion.
PIECES = 64


def spectrum(rows: HostSpectrum, documents: Documents, coef: Array) -> tuple[list[Array], list[list[Any]]]:
    """Contributions of symbols and of p-mers to sum_i coef[d, i] k(t_i, documents[d]).

    Parameters
    ----------
    rows : HostSpectrum
        Of the support vectors.
    documents : Documents
        Over an extension of their alphabet.
    coef : float64 array, shape (len(documents), n_sv)

    Returns
    -------
    list of float64 arrays
        Contributions of the symbols of each document.
    list of lists of (str, int, float)
        The p-mers of each document, how often they occur in it, and their contributions.
    """
    kernel = rows.kernel
    space, counts, x = represent(kernel, documents)
    own = Normalisation(documents, x.squares(), kernel.normalised)
    target = rows.space.find(space)
    weighted = rows.x.transposed_dot(rows.normalisation.scale[:, None] * coef.T)
    at = target[x.features]
    owner = np.repeat(np.arange(len(documents)), np.diff(x.indptr))
    terms = np.where(at >= 0, x.values.astype(float) * weighted[at, owner] * own.scale[owner], 0.0)
    if kernel.weight == "intersection":  # the unary code of a count back to one number
        ends = np.concatenate([[0], np.cumsum(counts.counts, dtype=np.int64)])
        terms = np.diff(np.concatenate([[0.0], np.cumsum(terms)])[ends])
    by_length = list(windows(documents, Vocabulary.empty(documents, *kernel.lengths)))
    first = space.vocabulary.first
    symbols: list[Array] = []
    features: list[list[Any]] = []
    each = np.zeros(first[-1])
    for d in range(len(documents)):
        begin, end = documents.offsets[d : d + 2]
        entries = slice(counts.indptr[d], counts.indptr[d + 1])
        each[counts.features[entries]] = terms[entries] / counts.counts[entries]
        text, seen = documents.text(d), {}
        share = np.zeros(end - begin)
        for base, (q, ids, _) in zip(first, by_length, strict=False):
            of_window = base + ids[begin : max(begin, end - q + 1)].astype(np.int64)
            if not len(of_window):
                continue
            share += np.convolve(each[of_window], np.full(q, 1 / q))
            for place, u in zip(*np.unique(of_window, return_index=True)[::-1], strict=True):
                seen[int(u)] = text[place : place + q]
        symbols.append(share)
        found = zip(counts.features[entries], counts.counts[entries], terms[entries], strict=True)
        features.append([(seen[int(u)], int(c), float(value)) for u, c, value in found])
    return symbols, features


def gap(
    kernel: GapWeighted,
    support: Documents,
    document: NDArray[np.unsignedinteger],
    terms: Array,
    progress: Progress | None = None,
) -> Array:
    """Contributions of the symbols of one document.

    Parameters
    ----------
    kernel : GapWeighted
    support : Documents
        The support vectors.
    document : array of codes, shape (length,)
        Over an extension of their alphabet.
    terms : float64 array, shape (n_sv,)
        coef_i k(t_i, document); its sum is shared out.
    progress : callable, optional
    """
    weights = kernel.begins()[0][::-1] / np.arange(1, len(kernel.begins()[0]) + 1)
    source = document.astype(np.int32)
    chosen = np.flatnonzero(terms)
    pieces = [chosen[i : i + 16] for i in range(0, len(chosen), 16)]
    sums = np.zeros((len(pieces), len(source)))

    def share(piece: int) -> None:
        mass = np.empty(len(source))
        for i in pieces[piece]:
            other = support.codes[support.offsets[i] : support.offsets[i + 1]].astype(np.int32)
            _share_of_symbols(source, other, weights, float(kernel.decay), mass)
            total = mass.sum()
            if total > 0:
                sums[piece] += terms[i] / total * mass

    work = [float(support.lengths[piece].sum()) for piece in pieces]
    run(share, range(len(pieces)), work, progress)
    return sums.sum(0)


@njit(nogil=True, cache=True)
def _share_of_symbols(s: Any, t: Any, weights: Any, decay: float, mass: Any) -> None:
    """mass[i]: what of k(s, t) falls to symbol i of s. weights[q - 1] = c_q / q."""
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


def occlusion(rows: KernelRows, text: str, alphabet: NDArray[np.uint32], coef: Array) -> Array:
    """Change of the value when a piece of the text is left out, evenly over the symbols of the piece.

    Parameters
    ----------
    rows : KernelRows
        Of the support vectors.
    text : str
        Normalised.
    alphabet : uint32 array
        Of the support vectors.
    coef : float64 array, shape (n_sv,)
    """
    cuts = pieces(text)
    without = [text[:a] + text[b:] for a, b in cuts]
    values = rows.decision(encode([text, *without], alphabet), coef[:, None])[:, 0]
    share = np.zeros(len(text))
    for (a, b), value in zip(cuts, values[1:], strict=True):
        share[a:b] = (values[0] - value) / (b - a)
    return share


def pieces(text: str, most: int = PIECES) -> Sequence[tuple[int, int]]:
    """Cut a text into words with the space behind them, joined or cut until there are about `most`."""
    if not text:
        return []
    starts = [word.start() for word in re.finditer(r"\S+", text)]
    size = max(1, -(-len(text) // most))
    longest = max(np.diff([*starts, len(text)]), default=0)
    if len(starts) < 2 or longest > max(40, 2 * size):  # a script without spaces
        starts = list(range(0, len(text), size))
    starts[0] = 0
    kept = [0]
    for start in starts[1:]:
        if len(starts) <= most or start - kept[-1] >= size:
            kept.append(start)
    return list(zip(kept, [*kept[1:], len(text)], strict=True))
