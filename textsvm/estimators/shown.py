"""How a machine shows itself: in a notebook, and its report on labelled examples."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # reports are built on machines
    from collections.abc import Sequence


class Shown:
    """What estimators have for people."""

    def report(
        self,
        X: Any,
        y: Any,
        *,
        positive: Any = None,
        ids: Sequence[str] | None = None,
        title: str = "Evaluation",
        mistakes: int = 10,
    ) -> Any:
        """Judge it on labelled examples: the report that ``textsvm evaluate --report`` writes.

        Parameters
        ----------
        X : see `fit`; n examples, not those that it was trained on
        y : sequence, length n
            Their labels or numbers.
        positive : label, optional
            Of two classes the one to be found; the second if not given. A OneClassSVM needs it.
        ids : sequence of str, length n, optional
            What the examples are called; their numbers if not given.
        title : str
        mistakes : int
            How many of the worst are shown with the text and why it was decided so.

        Returns
        -------
        SavedReport
            `results` has the figures; ``save("x.html")`` (or .md, .json) writes it, and a notebook shows it.

        Raises
        ------
        InputError
            If examples and labels do not fit each other, or the model.
        """
        made: Any = import_module("textsvm.reporting.saved")
        return made.report_of(self, X, y, positive, ids, title=title, mistakes=mistakes)

    def _sk_visual_block_(self) -> Any:
        """scikit-learn's picture of an estimator: one block, with kernel and device below its name."""
        return SimpleNamespace(
            kind="single",
            estimators=self,
            names=type(self).__name__,
            name_details=str(self),
            name_caption=_caption(self),
            doc_link_label=None,
            dash_wrapped=True,
        )


def _caption(machine: Any) -> str:
    """Kernel and device: those that were used, or those that it asks for."""
    asked = getattr(machine, "estimator", None) or machine
    fitted = hasattr(machine, "dual_coef_")
    kernel = machine.kernel_ if fitted else getattr(asked, "kernel", "auto")
    used = getattr(machine, "device_", None) if fitted else None
    device = getattr(asked, "device", "auto") if used is None else used.description
    return f"kernel: {'precomputed' if kernel is None else kernel}; device: {device}"
