"""Large arrays in memory, or in temporary files that are mapped into it, for work that memory does not hold.

A file loses its name as soon as it is made, so that it is gone with the array, or with the process however
that ends. Its pages are the operating system's cache: it takes them back where memory is short. Room on disk
is taken before anything is written, so that a full disk is a sentence and not a signal.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from textsvm.errors import InputError

#: Bytes from which on an array is worth a file.
LEAST = 1 << 22
_on_disk: ContextVar[bool] = ContextVar("textsvm_on_disk", default=False)


@contextmanager
def on_disk(wanted: bool) -> Iterator[None]:
    """Inside the block, large arrays that are made by `empty` lie in files, if that is wanted."""
    token = _on_disk.set(wanted)
    try:
        yield
    finally:
        _on_disk.reset(token)


def empty(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array of one dimension, not filled, wherever the block around it says.

    Raises
    ------
    InputError
        If the temporary folder has no room for it, or may not be written to.
    """
    nbytes = int(size) * np.dtype(dtype).itemsize
    if not _on_disk.get() or nbytes < LEAST:
        return np.empty(size, dtype)
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(prefix="textsvm-", dir=folder) as file:
            _reserve(file, nbytes, folder)
            return np.memmap(file, dtype, "r+", shape=(int(size),)).view(np.ndarray)
    except OSError as error:
        raise InputError(
            f"{nbytes / 2**30:.2f} GiB of features cannot be kept in {folder} ({error.strerror or error}); "
            "let TMPDIR name a folder with more room, or raise memory (--memory)"
        ) from error


def copied(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """A copy of another type, wherever the block around it says."""
    copy = empty(len(array), dtype)
    copy[:] = array
    return copy


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Arrays of one type, one behind the other, wherever the block around it says."""
    return np.concatenate(parts, out=empty(sum(map(len, parts)), parts[0].dtype))


def _reserve(file: IO[bytes], nbytes: int, folder: str) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, nbytes)
    elif shutil.disk_usage(folder).free < nbytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    else:
        file.truncate(nbytes)
