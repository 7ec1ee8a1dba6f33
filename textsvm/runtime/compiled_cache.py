"""Numba's on-disk cache of compiled functions, with checks: damaged, stale or foreign entries are ignored.

Numba trusts its cache files, but a truncated file raises a pickle exception, a changed byte is other machine
code, and concurrent or killed runs may leave an index that names the wrong entry. So files end in a digest,
and each entry begins with its key.

This module has all private parts of Numba that the package uses; `tests/test_private_parts.py` checks them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

from numba.core.caching import CacheImpl, CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock

_DIGEST = 16


@cache
def compiler_lock() -> AbstractContextManager[object]:
    """Numba's compiler lock; a fork waits until it is free, as a child could not release it."""
    lock = global_compiler_lock
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


def cache_on_disk(
    dispatcher: Any, function: Any, on_error: Callable[[str], object], on_miss: Callable[[], object]
) -> None:
    """Let the dispatcher of a function keep compiled code in a `CheckedCache`; errors are reasons."""
    try:
        dispatcher._cache = CheckedCache(function, lambda e: on_error(e.strerror or str(e)), on_miss)
    except RuntimeError:
        on_error("no writable cache folder")


def _require_code(locator: Any) -> None:
    """Raise OSError unless a cache folder has code of the locator's function and cannot be written."""
    folder, index = Path(locator.get_cache_path()), f"{Path(locator._py_file).stem}.*-{locator._lineno}.*.nbi"
    if os.access(folder, os.W_OK) or not any(folder.glob(index)):
        raise OSError


class _Locations(CompileResultCacheImpl):
    """Numba's cache folders, and those that can only be read. Writing fails in the last one, for none."""

    _locator_classes = (  # type: ignore[assignment]
        *(
            locator
            for base in CacheImpl._locator_classes[:3]
            for locator in (type("ReadOnly", (base,), {"ensure_cache_path": _require_code}), base)
        ),
        *CacheImpl._locator_classes[3:],
        type("Unwritable", (CacheImpl._locator_classes[1],), {"ensure_cache_path": lambda locator: None}),
    )


class CheckedCache(FunctionCache):
    """Cache of a compiled function; RuntimeError if its source has no folder.

    `on_error` is called with the OSError if an entry cannot be written, `on_miss` if there is no entry.
    """

    _impl_class = _Locations

    def __init__(self, py_func: Any, on_error: Callable[..., object], on_miss: Callable[..., object]) -> None:
        super().__init__(py_func)
        self._on_error, self._on_miss = on_error, on_miss
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Cached code for these types, or None."""
        loaded = None
        with suppress(Exception):  # from pickle, LLVM or the system: compile again
            loaded = super().load_overload(sig, target_context)
        if loaded is None:
            self._on_miss()
        return loaded

    def save_overload(self, sig: Any, data: Any) -> None:
        """Cache compiled code."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self._on_error(error)


class _CacheFiles(IndexDataCacheFile):
    """Index and entry files of a function, with a digest at the end, which Numba's reader does not reach."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (self._source_stamp, key, data))

    def load(self, key: Any) -> Any:
        stamp, stored_key, data = super().load(key) or (None, None, None)
        return data if (stamp, stored_key) == (self._source_stamp, key) else None

    def _load_index(self) -> Any:
        return super()._load_index() if _is_intact(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        return super()._load_data(name) if _is_intact(self._data_path(name)) else None

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        with super()._open_for_write(filepath) as stream:
            content = BytesIO()
            yield content
            stream.write(content.getvalue() + _digest(content.getvalue()))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()


def _is_intact(path: str) -> bool:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    return content[-_DIGEST:] == _digest(content[:-_DIGEST])
