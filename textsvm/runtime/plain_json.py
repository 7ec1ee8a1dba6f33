"""Conversion of results to JSON values, and lines of JSON with a digest, in files that only grow."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import Counter
from hashlib import blake2b
from typing import Any

import numpy as np

from textsvm.arrays import Json
from textsvm.errors import json_escaped, one_line

_CHECKED = re.compile(rb'(.*), "check": "([0-9a-f]{16})"\}', re.DOTALL)


def to_json(value: Any) -> Any:
    """Convert a nested result to JSON values.

    Arrays and tuples become lists, NumPy scalars Python scalars, NaN and infinities None, dates ISO text,
    bytes text (with backslash escapes where they are not UTF-8), and kernels their name and parameters. Keys
    become text; any other object becomes its `repr`.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "M":  # as numbers they would be nanoseconds
            return to_json(np.datetime_as_string(value).tolist())  # type: ignore[arg-type]
        plain = value.tolist()
        return repr(value) if isinstance(plain, np.generic) else to_json(plain)  # no Python type has it
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


def unambiguous_json(text: str | bytes | bytearray) -> Any:
    """Read JSON; ValueError with a sentence if it is none, nested too deeply, or has a key twice."""

    def unique(pairs: list[tuple[str, object]]) -> Json:
        if len(values := dict(pairs)) < len(pairs):
            twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
            raise ValueError(f"an object has the key {twice[:40]!r} twice")
        return values

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    except ValueError as error:
        reason = "a number has too many digits" if "digits" in str(error) else str(error)
        raise ValueError(reason) from None


def checked_line(value: Json, number: int = 0) -> str:
    """A line of JSON that ends with a digest of its content and of its number in the file."""
    text = json_escaped(json.dumps(value, ensure_ascii=False))
    return f'{text[:-1]}, "check": "{_digest(text.encode(), number)}"}}\n'


def read_line(line: bytes, number: int = 0) -> Any:
    """The value of a line of `checked_line`; ValueError if it has changed."""
    match = _CHECKED.fullmatch(line)
    if match is None or _digest(match[1] + b"}", number) != match[2].decode():
        raise ValueError("its check does not fit")
    return json.loads(match[1] + b"}")


def _digest(text: bytes, number: int) -> str:
    return blake2b(b"%d " % number + text, digest_size=8).hexdigest()


def error_body(message: str) -> bytes:
    """Body of an answer that is an error."""
    return json.dumps({"error": one_line(message)}).encode()
