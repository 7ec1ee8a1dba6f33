"""What a user hands over as texts -> a list of str, or one sentence about the first that is none."""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm.errors import InputError


def as_texts(X: Any) -> list[str]:
    """Read texts from a list, tuple, NumPy string or object array, or a pandas, Polars or Arrow column.

    Raises
    ------
    InputError
        If `X` is a single string, has more than one column, or holds something that is not a string;
        the sentence gives the index of the first offender.
    """
    if isinstance(X, str | bytes):
        raise InputError("expected a list of texts, got a single string; put it in a list: [text]")
    if len(getattr(X, "shape", (0,))) > 1:
        raise InputError(
            f"expected one column of texts, got an array of shape {tuple(X.shape)}; select a column"
        )
    for convert in ("to_pylist", "to_list", "tolist"):  # Arrow; pandas and Polars; NumPy
        if hasattr(X, convert):
            texts = getattr(X, convert)()
            break
    else:
        try:
            texts = np.asarray(X).tolist() if hasattr(X, "__array__") else list(X)
        except TypeError as error:
            raise InputError(f"expected a list of texts, got {type(X).__name__}") from error
    if not isinstance(texts, list):
        raise InputError(f"expected a list of texts, got {type(X).__name__} of one value; put it in a list")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            shown = "missing" if is_missing(text) else f"of type {type(text).__name__}"
            raise InputError(f"document {i} is {shown}, not a string; remove it or convert it with str()")
    return texts


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(np.any(value != value))
