"""Base classes of the estimators: scikit-learn's tags, metadata routing, clone, HTML and checks."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from textsvm.errors import InputError
from textsvm.machines.base import KernelMachine
from textsvm.runtime.parameters import Parameters

#: Array values in messages of scikit-learn.
_REPEATED = re.compile(r":\s*array=.*\]\.\s*", re.DOTALL)


class Estimator(BaseEstimator, Parameters):
    """A scikit-learn estimator around a machine."""

    # A meta-estimator must not route `progress`.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` nested parameters as "name__parameter"."""
        return Parameters.get_params(self, deep)

    def set_params(self, **given: Any) -> Any:
        """Set parameters, also nested (``kernel__p=3``); ValueError for an unknown parameter."""
        return Parameters.set_params(self, **given)

    def copy(self) -> Any:
        """An estimator with the same parameters that is not fitted."""
        return clone(self)

    def require_fitted(self) -> None:
        """Raise scikit-learn's NotFittedError before `fit`."""
        check_is_fitted(self)

    def _sk_visual_block_(self) -> Any:
        """Block of scikit-learn's diagram, with kernel and device below the name."""
        return SimpleNamespace(
            kind="single",
            estimators=self,
            names=type(self).__name__,
            name_details=str(self),
            name_caption=_caption(self),
            doc_link_label=None,
            dash_wrapped=True,
        )


class KernelEstimator(Estimator, KernelMachine):
    """A scikit-learn estimator around a kernel machine."""

    warning = ConvergenceWarning
    #: Estimator with probabilities, or the values of this estimator, for the error of `predict_proba`.
    _instead: ClassVar[str]

    @property
    def predict_proba(self) -> Any:
        """Not available: AttributeError names an alternative."""
        raise AttributeError(f"{self.estimator_name} has no probabilities; {self._instead}")

    def check_rows(self, X: Any, vectors: bool) -> Any:
        options: dict[str, Any] = {}
        if vectors:
            options = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C"}
        with _as_input_error():
            return check_array(X, ensure_all_finite=False, estimator=self, **options)

    def check_columns(self, X: Any, n: int, fitting: bool) -> None:
        with _as_input_error():
            validate_data(self, X, reset=fitting, skip_check_array=True)

    def __sklearn_is_fitted__(self) -> bool:
        # scikit-learn's default iterates over all attributes, which another thread may change.
        return "support_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        self.source.tag(tags.input_tags)
        return tags


@contextmanager
def _as_input_error() -> Iterator[None]:
    """Convert scikit-learn's ValueError to an InputError without array values."""
    try:
        yield
    except ValueError as error:
        raise InputError(_REPEATED.sub(". ", str(error))) from error


def warn_of_column(y: Any) -> None:
    """Warn, as scikit-learn does, if targets are a table of a single column."""
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected; take y.ravel()"
        warnings.warn(message, DataConversionWarning, stacklevel=4)


def _caption(machine: Any) -> str:
    """Kernel and device of a fitted machine, or of the parameters."""
    parameters = getattr(machine, "estimator", None) or machine
    fitted = hasattr(machine, "dual_coef_")
    kernel = machine.kernel_ if fitted else getattr(parameters, "kernel", "auto")
    used = getattr(machine, "device_", None) if fitted else None
    device = getattr(parameters, "device", "auto") if used is None else used.description
    return f"kernel: {'precomputed' if kernel is None else kernel}; device: {device}"
