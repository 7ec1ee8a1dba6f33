"""Progress of a whole search as one stage, "tune": predicted seconds of what is done, of all there is to do.

Whoever shows it divides by the time that has gone by, so that one estimate holds for the whole and is put
right by what was measured; stages one by one each begin at nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textsvm.runtime.parallel import StageProgress
from textsvm.selection.scoring import solving_seconds

if TYPE_CHECKING:
    from textsvm.kernels.base import Kernel
    from textsvm.selection.grid import Shared
    from textsvm.selection.search import Search


class WholeProgress:
    """Passes stages on, and adds that of the whole.

    Parameters
    ----------
    progress : callable
    shared : sequence of Shared
        The kernels that are still to be tried.
    search : Search
    """

    def __init__(self, progress: StageProgress, shared: Sequence[Shared], search: Search) -> None:
        self.progress = progress
        self.grams, self.solving = [], []
        for one in shared:
            for k in sorted(range(len(one.kernels)), key=lambda k: one.kernels[k].structure.learns):
                models = [search.settings[m].model for m in one.members[k]]
                self.grams.append(_gram_seconds(one.kernels[k], one, len(search.all_folds)))
                self.solving.append(solving_seconds(models, search.target, search.all_folds))
        self.total = sum(self.grams) + sum(self.solving)
        self.number, self.shown = 0, 0.0

    def __call__(self, stage: str, done: float, total: float) -> None:
        self.progress(stage, done, total)
        if stage not in ("gram", "solve"):
            return
        last = len(self.grams) - 1
        if stage == "solve":  # in kernels
            self.number = min(int(done), last)
            here = self.grams[self.number] + self.solving[self.number] * min(done - self.number, 1.0)
        else:
            here = self.grams[self.number] * done / (total or 1)
        before = sum(self.grams[: self.number]) + sum(self.solving[: self.number])
        self.shown = max(self.shown, before + here)
        self.progress("tune", self.shown, self.total)


def _gram_seconds(kernel: Kernel, one: Shared, folds: int) -> float:
    """Predicted for the Gram of a kernel, or where it learns for that of every training part."""
    try:
        each = kernel.cost.seconds(one.examples, one.examples) / 2
    except AttributeError:  # of a kernel matrix that is there
        return 0.0
    return each * (folds if kernel.structure.learns else 1)
