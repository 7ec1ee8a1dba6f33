"""Which symbols of a document its value comes from.

value(x) = sum_i a_i k(t_i, x) + bias, over the support vectors t_i. A kernel that knows better than the
following says so in its `Kernel.attribution` and `Kernel.contributions`.

Occlusion: a piece of text gets value(x) - value(x without it). This is no sum: words that say the same hide
each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents, Views

Array = NDArray[np.float64]
#: Pieces that a document is cut into for occlusion.
PIECES = 64


@dataclass(frozen=True)
class Attribution:
    """A way of sharing out a value.

    Attributes
    ----------
    name : str
    description : str
        What a reader is told.
    exact : bool
        Whether the contributions of the symbols sum to the value less the bias.
    """

    name: str
    description: str
    exact: bool


OCCLUSION = Attribution(
    "occlusion",
    "occlusion: how the value changes when a piece of the text is left out; no exact sum",
    exact=False,
)


@dataclass(frozen=True)
class Contributions:
    """What sums of kernel values come from, for each document.

    Attributes
    ----------
    symbols : list of float64 arrays
        Contributions of the characters of each document, as it is shown (`Documents.shown`).
    features : list of lists of (str, int, float)
        Features of each document as text, how often they occur in it, and their contributions; empty
        where a kernel has none that can be named.
    """

    symbols: list[Array]
    features: list[list[tuple[str, int, float]]] = field(default_factory=list)


def occlusion(
    decide: Callable[[Any, Array], Array],
    documents: Documents | Views,
    coef: Array,
    progress: Progress | None = None,
) -> Contributions:
    """Changes of the values when pieces of the texts are left out, evenly over the symbols of a piece.

    Parameters
    ----------
    decide : callable
        `KernelRows.decision` of the support vectors.
    documents : Documents or Views
        Over an extension of the alphabet of the support vectors.
    coef : float64 array, shape (len(documents), n_sv)
    progress : callable, optional
    """
    symbols = []
    for d in range(len(documents)):
        text = documents.shown(d)
        cuts = pieces(text)
        values = decide(documents.without(d, cuts), coef[d][:, None])[:, 0]
        share = np.zeros(len(text))
        for (a, b), value in zip(cuts, values[1:], strict=True):
            share[a:b] = (values[0] - value) / (b - a)
        symbols.append(share)
        if progress is not None:
            progress(d + 1, len(documents))
    return Contributions(symbols)


def complete(found: Contributions, values: Array) -> Contributions:
    """Exact contributions, with those to documents that have no feature; values has shape (n,).

    A document too short to have features is equal to a support vector or unlike all: its value is its whole
    text's, and is spread evenly.
    """
    symbols = [
        share if share.any() or not len(share) else np.full(len(share), value / len(share))
        for share, value in zip(found.symbols, values, strict=True)
    ]
    return Contributions(symbols, found.features)


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
