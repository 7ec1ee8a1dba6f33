"""Weighted sums of gapped k-mers by looking up, where the possible keys of a mask are few, on the CPU.

A machine that is linear in the features has a table of weights w_M[key] for each mask M, and its value of a
text is sum_M sum_key f(c_M(key)) w_M[key]. The windows are passed over once: the occurrence number c + 1 of a
key adds (f(c + 1) - f(c)) w_M[key], and f(c + 1)^2 - f(c)^2 to k(s, s). Nothing is sorted, no list is made,
and the support vectors do not matter any more. Cost: a look-up for each mask and window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.mers.gapped_kmers import LETTERS, Mask, MaskedWindows, strands
from textsvm.kernels.spectrum.pmers import share
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import array_module, device_of
from textsvm.text.documents import Documents

Array = NDArray[Any]
#: Codes of one byte.
MOST_SYMBOLS = 256
#: Possible keys of a mask whose counts stay in the cache.
MOST_KEYS = 1 << 17


@dataclass(frozen=True)
class Texts:
    """Texts of few symbols, and what their windows are.

    Attributes
    ----------
    codes : uint8 array
        Of one strand.
    offsets : int64 array, shape (n + 1,)
    g : int
        Symbols of a window.
    strands : int
        1, or 2: the codes are those of `gapped.LETTERS` then.
    n_symbols : int
        One more than the largest code.
    """

    codes: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    g: int
    strands: int
    n_symbols: int

    @classmethod
    def of(cls, documents: Documents, g: int, both_strands: bool) -> Texts | None:
        """Those of documents; None if they have too many symbols.

        Raises
        ------
        InputError
            With `both_strands`, if there are other symbols than acgtun.
        """
        if not both_strands and len(documents.alphabet) > MOST_SYMBOLS:
            return None
        codes = strands(documents)[: len(documents.codes)] if both_strands else documents.codes
        n_symbols = int(codes.max(initial=0)) + 1
        return cls(codes.astype(np.uint8), documents.offsets, g, 1 + both_strands, n_symbols)

    @property
    def windows(self) -> int:
        """The most windows that a text has, of all strands."""
        return self.strands * max(int(np.diff(self.offsets).max(initial=0)) - self.g + 1, 0)


@dataclass(frozen=True)
class Tables:
    """Weights of all possible keys of some masks, NumPy or CuPy.

    Attributes
    ----------
    n_symbols : int
        Keys are numbers of as many digits as a mask keeps positions, to this base.
    kept : int32 array, (masks, positions), on the host
    times : int32 array, (masks,), on the host
    weights : float64 array, (machines, masks, keys)
    """

    n_symbols: int
    kept: NDArray[np.int32]
    times: NDArray[np.int32]
    weights: Any

    @classmethod
    def of(cls, parts: Sequence[tuple[Mask, MaskedWindows, Any]], n_symbols: int) -> Tables:
        """From masks, the features that have weights, and these, (features, machines)."""
        kept = np.array([mask.kept for mask, _, _ in parts], np.int32)
        times = np.array([mask.times for mask, _, _ in parts], np.int32)
        xp = array_module(device_of(parts[0][2]))
        made = xp.zeros((parts[0][2].shape[1], len(parts), n_symbols ** kept.shape[1]))
        for at, (_, vocabulary, weights) in enumerate(parts):
            digits, keys = digits_of(vocabulary, kept.shape[1]), 0
            for column in digits:
                keys = keys * n_symbols + column
            made[:, at, xp.asarray(keys)] = weights.T
        return cls(n_symbols, kept, times, made)


def digits_of(vocabulary: MaskedWindows, number: int) -> NDArray[np.int64]:
    """The codes that each key of a vocabulary of one stage is made of, (number, size), on the host."""
    keys = vocabulary.stages[0].keys
    rest = (keys if device_of(keys).kind == "cpu" else keys.get()).astype(np.int64)
    digits = np.empty((number, len(rest)), np.int64)
    for place in range(number - 1, -1, -1):
        rest, digits[place] = np.divmod(rest, max(vocabulary.n_symbols, 1))
    return digits


def base_of(parts: Sequence[tuple[Mask, MaskedWindows, Any]]) -> int:
    """One more than the largest code in the features of masks; 0 if their keys have several stages."""
    if any(len(vocabulary.stages) != 1 for _, vocabulary, _ in parts):
        return 0
    return max(int(digits_of(vocabulary, len(mask.kept)).max(initial=0)) + 1 for mask, vocabulary, _ in parts)


def look_up(
    texts: Texts, tables: Tables, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of weights, (n, machines), and k(s, s), (n,).

    Parameters
    ----------
    texts : Texts
        With codes below `tables.n_symbols`.
    tables : Tables
    values : float64 array
        What becomes of 0, 1, 2, ... occurrences, as many as a text has windows.
    """
    n, more, more_square = len(texts.offsets) - 1, np.diff(values), np.diff(values**2)
    sums, squares = np.zeros((n, len(tables.weights))), np.zeros(n)
    paired = np.arange(MOST_SYMBOLS)
    paired[: len(LETTERS) - 1] = paired[: len(LETTERS) - 1][::-1].copy()
    sizes = (texts.g, texts.strands, tables.n_symbols)

    def fill(first: int, last: int) -> None:
        given = (texts.codes, texts.offsets, paired, *sizes, tables.kept, tables.times)
        _look_up(first, last, *given, more, more_square, tables.weights, sums, squares)

    share(texts.offsets, fill)
    return sums, squares


@njit(nogil=True, cache=True)
def _look_up(
    first: int,
    last: int,
    codes: Array,
    offsets: Array,
    paired: Array,
    g: int,
    n_strands: int,
    n_symbols: int,
    kept: Array,
    times: Array,
    more: Array,
    more_square: Array,
    weights: Array,
    sums: Array,
    squares: Array,
) -> None:
    counts = np.zeros(weights.shape[2], np.int32)
    keys, gains = np.empty(len(more), np.uint32), np.empty(len(more))
    for i in range(first, last):
        begin, size = offsets[i], max(offsets[i + 1] - offsets[i] - g + 1, 0)
        for mask in range(len(kept)):
            keys[: size * n_strands] = 0
            for place in kept[mask]:
                for w in range(size):
                    keys[w] = keys[w] * n_symbols + codes[begin + place + w]
                for w in range(size if n_strands == 2 else 0):
                    keys[size + w] = keys[size + w] * n_symbols + paired[codes[begin + w + g - 1 - place]]
            square = 0.0
            for w in range(size * n_strands):
                count = counts[keys[w]]
                counts[keys[w]] = count + 1
                square += more_square[count]
                gains[w] = more[count]
            squares[i] += times[mask] * square
            for machine in range(len(weights)):
                table, total = weights[machine, mask], 0.0
                for w in range(size * n_strands):
                    total += gains[w] * table[keys[w]]
                sums[i, machine] += total
            for w in range(size * n_strands):
                counts[keys[w]] = 0
