"""The bytes of a model file: safetensors arrays, a JSON header, and a digest of both.

The header is the value "textsvm" of safetensors' metadata, and begins with "blake2b": the BLAKE2b hash (32
bytes, hexadecimal) of the whole file with zeros in place of the hash. So any changed bit is detected,
including safetensors' header and padding. The digest detects damage, not forgery: who can write the file can
write the digest. Files of older versions have no digest, and only the header keys of those versions, so that
a lost digest is detected. Older versions ignore the digest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from textsvm.errors import MAX_MESSAGE, InputError
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import run
from textsvm.runtime.plain_json import to_json

DIGEST = "blake2b"
#: Bytes from which hashing and parsing in two threads are faster.
PARALLEL_BYTES = 1 << 20
_UNKNOWN = "0" * 64
#: Start of the header in the file: a JSON string in a JSON string.
_MARK = rb"{\"blake2b\": \""
#: Keys of headers that have no digest.
_BEFORE = {
    "format_version", "written_by", "estimator", "kernel", "parameters", "classes", "n_support",
    "n_features_in", "chosen", "label_form", "calibration", "info",
}  # fmt: skip


class Content(NamedTuple):
    """Contents of a model file."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    digest: str | None  #: Checked; None in files of older versions


#: First bytes of a LIBSVM model file.
LIBSVM_BEGINNING = b"svm_type "


def packed(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of a model file."""
    text = _as_json({DIGEST: _UNKNOWN, **header})
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return sealed(save(contiguous, metadata={"textsvm": text}))


def sealed(content: bytes) -> bytes:
    """The bytes of a model file with a correct digest; unchanged if the file has no digest."""
    digest, start = _digest_of(content)
    return content[:start] + digest.encode() + content[start + len(digest) :] if start else content


def read_content(path: Path) -> Content:
    """Read a model file and check its digest."""
    content = _bytes_of(path)
    try:
        (digest, start), arrays = _digest_and_arrays(content)
    except MemoryError as error:
        raise InputError(f"{path} takes more main memory than there is: {one_line(error)}") from error
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        why = _reason(content, error)
        raise InputError(f"{path} is not a textsvm model, or is damaged: {why}") from error
    header = _header_of(path, content)
    if DIGEST not in header:
        if strange := set(header) - _BEFORE:
            raise InputError(
                f"{path} is damaged: it has no digest, and an unknown entry {min(strange)[:40]!r}; train it "
                "again, or take a copy of it"
            )
        return Content(header, arrays, None)
    if not start or header.pop(DIGEST) != digest or content[start : start + len(digest)] != digest.encode():
        raise InputError(
            f"{path} is damaged: its content does not match its digest; train it again, or take a copy of it"
        )
    return Content(header, arrays, digest)


def one_line(error: BaseException) -> str:
    """Message of an exception on a single line of at most 300 characters."""
    return " ".join(str(error).split())[:MAX_MESSAGE] or type(error).__name__


def _digest_and_arrays(content: bytes) -> tuple[tuple[str, int], dict[str, NDArray[Any]]]:
    """Results of `_digest_of` and safetensors for the bytes of a file; of a large file in parallel."""
    results: dict[Any, Any] = {}

    def work(function: Any) -> None:
        results[function] = function(content)

    functions = (_digest_of, load)
    if len(content) < PARALLEL_BYTES:
        for function in functions:
            work(function)
    else:
        run(work, functions)
    return results[_digest_of], results[load]


def _reason(content: bytes, error: Exception) -> str:
    """Why safetensors could not read a file."""
    if not content:
        return "it is empty"
    if content[:1] == b"\x80" and content[-1:] == b".":  # loading a pickle would run its code
        return "it looks like a pickle; keep the model with textsvm.save"
    if int.from_bytes(content[:8], "little") > len(content):
        return "it has no header; the model comes before the documents, as in `textsvm predict MODEL FILE`"
    return one_line(error)


def _bytes_of(path: Path) -> bytes:
    if not os.path.isfile(path):
        if os.path.isdir(path):
            raise InputError(f"the model {path} is a folder; name a file that `textsvm train` wrote")
        if os.path.exists(path):
            raise InputError(f"the model {path} is neither a file nor a folder; write it to a file first")
        raise InputError(f"the model {path} is not there; `textsvm train CORPUS -o {path}` writes one")
    try:
        # The bytes and the arrays are in memory together.
        if (need := 2 * path.stat().st_size) > devices.SMALL:
            free = devices.free_memory(devices.select("cpu"))
            if need > free:
                raise InputError(f"{path} takes {need:,} bytes of memory to read, and {free:,} are free")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def _header_of(path: Path, content: bytes) -> dict[str, Any]:
    """The header, from bytes that safetensors could read."""
    try:
        outer = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        header = json.loads(outer["__metadata__"]["textsvm"])
        header["format_version"]
    except (KeyError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path} was not written by textsvm (it has no textsvm header)") from error
    if not isinstance(header, dict):
        raise InputError(f"{path} was not written by textsvm (it has no textsvm header)")
    return header


def _digest_of(content: bytes) -> tuple[str, int]:
    """Digest of a file and its position in the file; ("", 0) if the file has no place for it."""
    start = content.find(_MARK, 0, 8 + int.from_bytes(content[:8], "little"))
    if start < 0:
        return "", 0
    start += len(_MARK)
    whole, hashed = memoryview(content), blake2b(digest_size=len(_UNKNOWN) // 2)
    for part in (whole[:start], _UNKNOWN.encode(), whole[start + len(_UNKNOWN) :]):
        hashed.update(part)
    return hashed.hexdigest(), start


def _as_json(header: Mapping[str, Any]) -> str:
    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic | bytes | date):
            return to_json(value)
        raise TypeError(f"{type(value).__name__} is not a JSON value")

    try:
        return json.dumps(header, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"`info` or a parameter cannot be saved as JSON: {one_line(error)}") from error


def is_libsvm_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like a LIBSVM model."""
    if not os.path.isfile(path):  # reading from a pipe would lose its beginning
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(len(LIBSVM_BEGINNING)) == LIBSVM_BEGINNING
    except OSError:
        return False
