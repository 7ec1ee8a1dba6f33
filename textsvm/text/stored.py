"""Sequence of texts in a temporary file; a text is read when it is accessed."""

from __future__ import annotations

import mmap
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from textsvm.errors import InputError

WRITTEN = 1 << 20  #: Bytes per write.


class StoredTexts(Sequence[str]):
    """Concatenated UTF-8 texts in an unnamed temporary file that is removed when the process ends."""

    def __init__(self, data: Any, starts: array[int], ends: array[int]) -> None:
        self._data, self._starts, self._ends = data, starts, ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> StoredTexts:
        """Store the texts of an iterable, which is consumed once."""
        offsets, end, waiting = array("q", [0]), 0, bytearray()
        # Unbuffered: a buffer would retry the failed write to a full disk on close.
        with tempfile.TemporaryFile(prefix="textsvm-", buffering=0) as file:
            for text in texts:
                # Lone surrogates (undecodable bytes kept by a reader) are symbols like any other.
                data = text.encode("utf-8", "surrogatepass")
                waiting += data
                end += len(data)
                offsets.append(end)
                if len(waiting) >= WRITTEN:
                    _write(file, waiting)
                    waiting.clear()
            _write(file, waiting)
            stored = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if end else b""
        return cls(stored, offsets[:-1], offsets[1:])

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[str]:
        return map(self._text, self._starts, self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> StoredTexts: ...

    def __getitem__(self, index: int | slice) -> str | StoredTexts:
        if isinstance(index, slice):
            return StoredTexts(self._data, self._starts[index], self._ends[index])
        return self._text(self._starts[index], self._ends[index])

    def _text(self, start: int, end: int) -> str:
        text: str = self._data[start:end].decode("utf-8", "surrogatepass")
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredTexts.of, (list(self),)

    def take(self, indices: Sequence[int]) -> StoredTexts:
        """The texts at `indices`, in that order, in the same file."""
        starts, ends = (array("q", [bounds[i] for i in indices]) for bounds in (self._starts, self._ends))
        return StoredTexts(self._data, starts, ends)


def _write(file: Any, data: bytearray) -> None:
    at = 0
    try:
        while at < len(data):
            at += file.write(bytes(data[at:]))
    except OSError as error:
        raise InputError(
            f"texts cannot be kept in {tempfile.gettempdir()} ({error.strerror or error}); let TMPDIR name a "
            "folder with more room"
        ) from error
