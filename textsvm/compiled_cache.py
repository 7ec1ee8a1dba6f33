"""Compiled functions on disk: Numba's cache, of which what is damaged, stale or another's counts as none.

Numba trusts the files it finds. A truncated one ends in an exception of pickle's, a changed byte is other
machine code; and of two first runs at once that compile a function for other types, or of one that is killed
between index and entry, the index may name an entry that is not what it says. So a file ends in a digest, an
entry begins with what it is of, and whatever is wrong is compiled and kept anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

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
