"""Attribution: contributions of the symbols of a document to its value.

value(x) = sum_i a_i k(t_i, x) + bias, over the support vectors t_i. The default is occlusion: a piece of text
gets value(x) - value(x without the piece). These contributions do not sum to the value, since pieces with the
same meaning hide each other. Kernels with an exact method override `Attributor`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from textsvm.arrays import Floats, Ints
from textsvm.runtime.parallel import Progress, report
from textsvm.text.documents import Documents, MultiView

PIECES = 64  #: Number of pieces of a document for occlusion.


@dataclass(frozen=True)
class AttributionMethod:
    """A method of attribution."""

    name: str
    description: str  #: For explanations and reports
    exact: bool = True  #: Whether the contributions of the symbols sum to the value less the bias


OCCLUSION = AttributionMethod(
    "occlusion",
    "occlusion: how the value changes when a piece of the text is left out; no exact sum",
    exact=False,
)


@dataclass(frozen=True)
class Contributions:
    """Contributions to sums of kernel values, for each document."""

    #: list of float64 arrays: Contributions of the characters of each document, as shown (`Documents.shown`).
    symbols: list[Floats]
    #: Text, number of occurrences and contribution of each feature of each document; empty for kernels
    #: without named features.
    features: list[list[tuple[str, int, float]]] = field(default_factory=list)
    words: list[set[str]] = field(default_factory=list)  #: Those of sums that are words or other tokens


class Attributor:
    """Attribution by a kernel."""

    method: AttributionMethod = OCCLUSION

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def contributions(
        self, rows: Any, documents: Any, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        """Contributions of symbols to sum_i coef[d, i] k(support_i, documents[d]).

        `rows` are the KernelRows of the support vectors on the CPU; `documents` are over an extension of
        their alphabet; `coef` and `values` (of the kernel) are float64, of shape (len(documents), n_sv).
        """
        return occlusion(rows.decision, documents, coef, progress)

    def seconds(self, lengths: Ints, support_lengths: Ints) -> Floats:
        """Predicted seconds of a core for the contributions to each document."""
        return PIECES * self.kernel.cost.of_rows(lengths, support_lengths)


def occlusion(
    decide: Callable[[Any, Floats], Floats], documents: Documents | MultiView, coef: Floats,
    progress: Progress | None = None,
) -> Contributions:  # fmt: skip
    """Changes of the values without each piece of the texts, spread evenly over the symbols of a piece.

    `decide` is `KernelRows.decision` of the support vectors; coef has shape (len(documents), n_sv).
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
        report(progress, d + 1, len(documents))
    return Contributions(symbols)


def complete(contributions: Contributions, values: Floats) -> Contributions:
    """Complete exact contributions for documents without features; values has shape (n,).

    A document too short for features equals a support vector or has value 0 with all: its value is spread
    evenly over the text.
    """
    symbols = [
        share if share.any() or not len(share) else np.full(len(share), value / len(share))
        for share, value in zip(contributions.symbols, values, strict=True)
    ]
    return replace(contributions, symbols=symbols)


def pieces(text: str, most: int = PIECES) -> Sequence[tuple[int, int]]:
    """Cut a text into about `most` pieces of whole words, each with the space that follows."""
    if not text:
        return []
    starts = [word.start() for word in re.finditer(r"\S+", text)]
    size = max(1, -(-len(text) // most))
    longest = max(np.diff([*starts, len(text)]), default=0)
    if len(starts) < 2 or longest > max(40, 2 * size):  # a script without spaces
        starts = list(range(0, len(text), size))
    starts[0] = 0
    cuts = [0]
    for start in starts[1:]:
        if len(starts) <= most or start - cuts[-1] >= size:
            cuts.append(start)
    return list(zip(cuts, [*cuts[1:], len(text)], strict=True))
