"""Results -> values that JSON has."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np


def to_json(value: Any) -> Any:
    """The JSON value of a result, nested as deeply as it is.

    Parameters
    ----------
    value : object
        Arrays and tuples become lists, NumPy's scalars Python's, NaN and infinities None, dates ISO text,
        bytes text with a backslash for what is not UTF-8, a kernel its name and its parameters. Keys become
        text. Anything else that JSON has not becomes its `repr`.

    Returns
    -------
    None, bool, int, float, str, list or dict
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return to_json(_of_numpy(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(to_json(key)): to_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if hasattr(value, "get_params") and isinstance(getattr(value, "name", None), str):
        return {"name": value.name, **to_json(value.get_params(deep=False))}
    return repr(value)


def _of_numpy(value: np.ndarray | np.generic) -> Any:
    if value.dtype.kind == "M":  # as numbers they would be nanoseconds
        return np.datetime_as_string(value).tolist()  # type: ignore[arg-type]
    found = value.tolist()
    return repr(value) if isinstance(found, np.generic) else found  # what has no value of Python's
