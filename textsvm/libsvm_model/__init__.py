"""Model files of LIBSVM, in both directions: `svm-train` writes for us, and we for `svm-predict`.

A file is a header of `keyword value ...` lines up to a line `SV`, then a line a support vector, of which a
vector has index:value pairs and before them one coefficient for each other class:

    c_1 ... c_(k-1) index:value index:value ...

Classes L_0 ... L_(k-1) are in the order of `label`, support vectors lie class by class, nr_sv of each. The
machine of the classes i < j, number p in the order (0,1), (0,2), ..., (1,2), ..., decides for L_i where

    sum over the vectors of i of c_(j-1) K(x_s, x)  +  sum over those of j of c_i K(x_s, x)  -  rho_p  >  0.

Here classes ascend and a machine (a, b), a < b, decides for b where its value is positive: a sign that
changes with the order of L_i and L_j. Files are written with classes that descend, so that no sign changes.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textsvm.libsvm_model.read import fit_columns, load_libsvm_model, widened
    from textsvm.libsvm_model.write import require_libsvms, save_libsvm_model

#: What such a file begins with.
BEGINNING = b"svm_type "
# Imported when first used, as estimators and scikit-learn are with them.
_HOME = {
    "fit_columns": "read",
    "load_libsvm_model": "read",
    "widened": "read",
    "require_libsvms": "write",
    "save_libsvm_model": "write",
}

__all__ = [
    "fit_columns",
    "is_libsvm_model",
    "load_libsvm_model",
    "require_libsvms",
    "save_libsvm_model",
    "widened",
]


def is_libsvm_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a model of LIBSVM's does."""
    if not os.path.isfile(path):  # a pipe is not read, for the rest would be lost
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(len(BEGINNING)) == BEGINNING
    except OSError:
        return False


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
