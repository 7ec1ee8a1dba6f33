"""Rows of numbers as a user hands them over: what is wrong with them, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

from textsvm import device as devices
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.stored_texts import StoredTexts

#: Types of numbers that are kept as they are; others become the first.
TYPES = (np.float64, np.float32)
#: Numbers that are looked at together.
_BLOCK = 1 << 20
#: Kinds of NumPy types that texts, and dates, may have.
_TEXTS, _DATES = tuple("OUST"), tuple("mM")


def require_numbers(X: Any, kernel: Kernel) -> None:
    """Raise InputError if X is something else than rows of numbers, as far as it can be seen at once.

    Parameters
    ----------
    X : array, sparse matrix, data frame or list
    kernel : Kernel
        What they are for.
    """
    if _kind(X) == "c":
        raise InputError("Complex data not supported: X is of complex numbers; give their parts as columns")
    first = X[0] if isinstance(X, list | tuple | StoredTexts) and len(X) else None
    if isinstance(X, str) or isinstance(first, str) or _is_column_of_texts(X):
        raise InputError(
            f"X is of texts, and the kernel {spell(kernel)} compares vectors; take one of texts, such as "
            "Spectrum(4), or give numbers"
        )
    if not issparse(X) and isinstance(X, Iterator | dict):
        raise InputError(f"X is a {type(X).__name__}; give rows of numbers, such as an array or a data frame")
    if len(getattr(X, "shape", (0, 0))) == 1 or isinstance(first, int | float | np.number):
        raise InputError(
            "X is one row of numbers (Expected 2D array, got 1D array instead); Reshape your data: "
            "X.reshape(1, -1) is one vector, X.reshape(-1, 1) vectors of one number"
        )
    for name in getattr(X, "columns", ()):
        _require_column(X[name], name)


def _require_column(column: Any, name: object) -> None:
    """Raise InputError if a column of a table has texts or dates."""
    if _kind(column) in _DATES:
        raise InputError(f"the column {name!r} of X has dates; give numbers, such as days since one of them")
    for value in column if _kind(column) in _TEXTS else ():
        if isinstance(value, str):
            raise InputError(
                f"the column {name!r} of X has texts, such as {value[:20]!r}; leave it out, or compare it "
                "by a kernel of texts, as On(column, kernel)"
            )


def _kind(array: Any) -> str:
    """The kind of a NumPy type, "" of any other."""
    return str(getattr(getattr(array, "dtype", None), "kind", ""))


def _is_column_of_texts(X: Any) -> bool:
    return _kind(X) in _TEXTS and len(X.shape) == 1 and len(X) > 0 and isinstance(next(iter(X)), str)


def check_finite(values: Any, names: Any = None) -> None:
    """Raise InputError if a value of a matrix is NaN or infinite; its row and column are named.

    Parameters
    ----------
    values : array or CSR matrix, shape (n, d)
    names : sequence of str, optional
        Of the columns.
    """
    stored = values.data if issparse(values) else values.reshape(-1)
    for first in range(0, len(stored), _BLOCK):
        finite = np.isfinite(stored[first : first + _BLOCK])
        if not finite.all():
            at = first + int(finite.argmin())
            row, column = _place(values, at)
            called = "" if names is None else f" ({names[column]})"
            found = "NaN" if np.isnan(stored[at]) else "infinity"
            raise InputError(
                f"X has {found} in row {row}, column {column}{called}, counted from 0; vectors are of finite "
                "numbers: fill or remove it"
            )


def _place(values: Any, at: int) -> tuple[int, int]:
    """Row and column of a stored value."""
    if not issparse(values):
        return divmod(at, values.shape[1])
    return int(np.searchsorted(values.indptr, at, side="right")) - 1, int(values.indices[at])


def canonical(values: Any) -> Any:
    """A CSR matrix whose indices are sorted, and none of which occurs twice; that of the user stays.

    Raises
    ------
    InputError
        If an index is out of bounds, as one is that has overflowed.
    """
    try:
        values.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"X is a sparse matrix that is damaged: {error}; make it anew") from error
    if not values.has_canonical_format:
        values = values.copy()
        values.sum_duplicates()
    return values


def on_gpu(X: Any, estimator: Any, fitting: bool) -> Any:
    """A matrix on a card, checked there."""
    xp = devices.array_module(devices.device_of(X))
    if X.ndim != 2 or X.dtype.kind not in "fiub" or not X.size:
        raise InputError(
            f"X is an array of shape {X.shape} and type {X.dtype} on a card; rows of real numbers are needed"
        )
    if fitting:
        estimator.n_features_in_ = int(X.shape[1])
    elif X.shape[1] != estimator.n_features_in_:
        raise InputError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    values = xp.ascontiguousarray(X, dtype=X.dtype if X.dtype in TYPES else np.float64)
    if not bool(xp.isfinite(values).all()):
        check_finite(devices.to_host(values))
    return values
