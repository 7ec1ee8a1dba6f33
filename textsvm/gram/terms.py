"""Grams of sums whose parts learn from documents: each part's is made once for each training part, and kept.

A kernel that learns has a Gram for every training part of model selection (`textsvm.selection.fold_grams`).
Of a sum only the terms that learn are made anew for each, and sums that have a term in common share it. Kept
are as many Grams as there is room for beside the sum's and one that is being made (of a product, two).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.base import DenseGram, Gram
from textsvm.gram.cards import spread
from textsvm.gram.plan import allowed_bytes, plan
from textsvm.gram.tiles import whole_gram
from textsvm.kernels.base import Kernel
from textsvm.kernels.combined.rows import add, scale
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, part
from textsvm.text.documents import Documents


class TermGrams:
    """Grams of the terms of some kernels on the same documents.

    Parameters
    ----------
    kernels : sequence of Kernel
        All that Grams will be asked for.
    documents : Documents
    device : Device
    memory : int or str, optional
        Bytes that all Grams together may take; None is half of what is free there.
    """

    def __init__(
        self, kernels: Sequence[Kernel], documents: Documents, device: Device, memory: int | str | None
    ) -> None:
        self.documents, self.device, self.allowed = documents, device, allowed_bytes(memory, device)
        at_work = 1 + bool(device.cards) + max([1, *(kernel.structure.depth for kernel in kernels)])
        self.room = self.allowed // max(1, 4 * len(documents) ** 2) - at_work
        #: How many of the kernels that are still to come want each term.
        self.wanted = Counter(term.structure.key for kernel in kernels for _, term in kernel.structure.terms)
        self._kept: dict[tuple[Hashable, bytes], tuple[Kernel, Any]] = {}

    def serves(self, kernel: Kernel) -> bool:
        """Whether a Gram is made here: there is room, and it has terms, or is one of another kernel."""
        return self.room >= 0 and (kernel.structure.depth > 0 or self.wanted[kernel.structure.key] > 1)

    def gram(self, kernel: Kernel, train: NDArray[np.int64] | None, progress: Progress | None) -> Gram:
        """Fit a kernel to some of the documents, or to all, and make its Gram of all."""
        learnt_from = self.documents if train is None else self.documents.take(train)
        total = None
        for number, (weight, term) in enumerate(kernel.structure.terms):
            step = part(progress, number, 1, len(kernel.structure.terms))
            values, kept = self._values(term, learnt_from, b"" if train is None else train.tobytes(), step)
            if total is None:
                total = values.copy() if kept else values
                scale(total, weight)
            else:
                add(total, values, weight)
            del values
        self._fit_others(kernel, learnt_from)
        said = plan(len(self.documents), self.allowed).description
        said += f", from those of its {len(kernel.structure.terms)} parts" if kernel.structure.depth else ""
        whole = DenseGram(total, said)
        del total
        return spread(whole, self.device)

    def done(self, kernel: Kernel) -> None:
        """No Gram of this kernel will be asked for any more."""
        for _, term in kernel.structure.terms:
            self.wanted[term.structure.key] -= 1
        self._kept = {at: known for at, known in self._kept.items() if self.wanted[at[0]] > 0}

    def _values(
        self, term: Kernel, learnt_from: Documents, name: bytes, progress: Progress | None
    ) -> tuple[Any, bool]:
        """The Gram of a term, and whether it is kept."""
        structure = term.structure
        at = structure.key, name if structure.learns else b""
        if at in self._kept:
            known, values = self._kept[at]
            for leaf, fitted in zip(structure.leaves, known.structure.leaves, strict=True):
                leaf.__dict__.update(vars(fitted))
            return values, True
        term.fit(structure.read(learnt_from))
        values = whole_gram(term.rows(structure.read(self.documents), self.device), "", progress).matrix
        keep = len(self._kept) < self.room and (self.wanted[structure.key] > 1 or not structure.learns)
        if keep:
            self._kept[at] = term, values
        return values, keep

    @staticmethod
    def _fit_others(kernel: Kernel, learnt_from: Documents) -> None:
        """Fit what has no weight, and so no Gram: it is saved with the others."""
        fitted = {id(leaf) for _, term in kernel.structure.terms for leaf in term.structure.leaves}
        for leaf in kernel.structure.leaves:
            if id(leaf) not in fitted:
                leaf.fit(leaf.structure.read(learnt_from))
