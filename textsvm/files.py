"""Outputs are written under a temporary name and moved into place: a failure never leaves half a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from textsvm.errors import InputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; move it onto `path` if the block succeeds.

    Raises
    ------
    InputError
        If the folder is not there or not writable, or the disk is full; `path` is then as it was.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        # NumPy only says how many values it wrote.
        why = error.strerror or f"{error}; is the disk full?"
        raise InputError(f"cannot write {path}: {why}; nothing was changed") from error
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    # A delayed "no space left" must come before the old file is replaced.
    with open(path, "rb+") as stream:
        os.fsync(stream.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
