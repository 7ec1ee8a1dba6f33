"""`njit` that imports Numba when a compiled function is first called.

Numba takes a quarter of a second to import, and who predicts a single mail calls none of them. A compiled
function refers to others by names of its module, or of the function around it, and so before it is compiled
those that are not ready yet are replaced by what Numba knows.

What a single mail is predicted with has a form in NumPy beside the compiled one, of the same bits, for as
long as Numba is not there and there is little to do (`few`).

Compiled functions on disk: Numba's cache, of which what is damaged, stale or another's counts as none.

Numba trusts the files it finds. A truncated one ends in an exception of pickle's, a changed byte is other
machine code; and of two first runs at once that compile a function for other types, or of one that is killed
between index and entry, the index may name an entry that is not what it says. So a file ends in a digest, an
entry begins with what it is of, and whatever is wrong is compiled and kept anew.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

from textsvm.runtime import memory as host_memory

#: Symbols, or entries, that NumPy does before Numba would have been imported.
FEW = 1 << 16
#: Bytes that Numba uses and reserves, with the first function compiled.
NUMBA = (80 << 20, 400 << 20)
#: Called with a sentence where compiled functions cannot be kept on disk.
tell: Callable[[str], object] = warnings.warn
_told: set[str] = set()


class Compiled:
    """A function that is compiled when it is first called.

    Parameters
    ----------
    function : callable
    options : dict
        Of `numba.njit`.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__
        self._function, self._options = function, options
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self.dispatcher)(*arguments)

    @property
    def dispatcher(self) -> Any:
        """Numba's, for which all functions that this one may call are ready."""
        if "numba" not in sys.modules:
            host_memory.require(*NUMBA)
        from numba import njit as numba_njit

        # Another thread may call what is made here at once, and waits until its names are replaced.
        with _compiling():
            if self._dispatcher is None:
                made = numba_njit(**{**self._options, "cache": False})(self._function)
                if self._options.get("cache"):
                    _keep(made, self._function)
                names, cells = self._function.__globals__, self._function.__closure__ or ()
                self._dispatcher = made  # before the others, which may call it
                for name, other in list(names.items()):
                    if isinstance(other, Compiled):
                        names[name] = other.dispatcher
                for cell in cells:
                    if isinstance(cell.cell_contents, Compiled):
                        cell.cell_contents = cell.cell_contents.dispatcher
            return self._dispatcher

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> Any:
        return _named, (self.__module__, self.__qualname__)


@lru_cache(maxsize=1)
def _compiling() -> Any:
    """Numba's lock of its compiler; a fork waits until it is free, for a child could not free it."""
    from numba.core.compiler_lock import global_compiler_lock as lock

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


def _keep(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Have a dispatcher keep what it compiles, where there is a place for it."""
    try:
        dispatcher._cache = CheckedCache(function, lambda error: _tell(error.strerror or str(error)))
    except RuntimeError:
        _tell("no folder for them can be written")


def _tell(why: str) -> None:
    if not _told:  # the others would fail as well
        _told.add(why)
        tell(
            f"compiled functions cannot be kept ({why}) and are compiled anew in every run, which takes "
            "seconds; let NUMBA_CACHE_DIR name a folder that can be written"
        )


def few(size: int) -> bool:
    """Whether so many symbols, or entries, are better done without compiled functions."""
    return size <= FEW and "numba" not in sys.modules


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit`, when it is needed."""
    return lambda function: Compiled(function, options)


def _named(module: str, name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(module), name)


_DIGEST = 16


class _Files(IndexDataCacheFile):
    """Index and entries of a function. Numba's own reading stops before the digest."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (self._source_stamp, key, data))

    def load(self, key: Any) -> Any:
        stamp, found, data = super().load(key) or (None, None, None)
        return data if (stamp, found) == (self._source_stamp, key) else None

    def _load_index(self) -> Any:
        return super()._load_index() if _is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        return super()._load_data(name) if _is_whole(self._data_path(name)) else None

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        with super()._open_for_write(filepath) as stream:
            content = BytesIO()
            yield content
            stream.write(content.getvalue() + _digest(content.getvalue()))


class CheckedCache(FunctionCache):
    """What a function was compiled to.

    Parameters
    ----------
    function : callable
    trouble : callable
        Called with the OSError for which something could not be kept.

    Raises
    ------
    RuntimeError
        If no folder for it can be written.
    """

    def __init__(self, function: Callable[..., Any], trouble: Callable[[OSError], object]) -> None:
        super().__init__(function)
        self._trouble = trouble
        where = self._impl.locator
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, where.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was kept for these types; None if nothing was, or it is of no use."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # of pickle's, LLVM's, the system's: it is compiled anew
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it; where that cannot be, the function works all the same."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self._trouble(error)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()


def _is_whole(path: str) -> bool:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    return content[-_DIGEST:] == _digest(content[:-_DIGEST])
