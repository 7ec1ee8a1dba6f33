"""Conversion of results to JSON values."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np


def to_json(value: Any) -> Any:
    """Convert a nested result to JSON values.

    Arrays and tuples become lists, NumPy scalars Python scalars, NaN and infinities None, dates ISO text,
    bytes text (with backslash escapes where they are not UTF-8), and kernels their name and parameters. Keys
    become text; any other object becomes its `repr`.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return to_json(_from_numpy(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(to_json(key)): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if hasattr(value, "get_params") and isinstance(getattr(value, "name", None), str):
        return {"name": value.name, **to_json(value.get_params(deep=False))}
    return repr(value)


def _from_numpy(value: np.ndarray | np.generic) -> Any:
    if value.dtype.kind == "M":  # as numbers they would be nanoseconds
        return np.datetime_as_string(value).tolist()  # type: ignore[arg-type]
    plain = value.tolist()
    return repr(value) if isinstance(plain, np.generic) else plain  # no Python type has this value
