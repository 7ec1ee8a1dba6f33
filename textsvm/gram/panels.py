"""Rows of a symmetric matrix in files, a panel of full rows each, every row with its checksum.

    panel k:  rows [k m, (k + 1) m) of the matrix, n float32 each; then of each row its checksum and its
              diagonal value (12 bytes), then the CRC-32 of those

Why full rows, when half of a symmetric matrix says it all: what reads a matrix beyond memory wants the rows
of a working set, a few hundred that lie anywhere. In square tiles of one half (2,048 x 2,048, 16 MB) a row
is 8 KB pieces of the tiles of its own tile row, and of the others one column: 4 bytes in every 8 KB, which
means the whole tile. A thousand rows of n = 50,000 are 200 MB as full rows, and in half tiles, of which they
touch every one, 5 GB: 25 times as much for each working set, against a disk that holds twice as much once.
Half of it is *computed* all the same: the left part of a panel is read, transposed, from the panels before.

A checksum is sum_j (2 j + 1) w_j mod 2^64 over the 32-bit words w_j of a row, plus a number of the matrix and
the row: any word that changed, any two that changed places, and a row of another place or matrix are seen.
It takes a tenth of the time of CRC-32, and is looked at when a row is first read by a process.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm import parallel
from textsvm.files import replacing
from textsvm.parallel import Progress

_TRAILER = np.dtype([("checksum", "<u8"), ("diagonal", "<f4")])
#: Bytes that a thread reads at a time; and threads, which mostly wait for the disk.
_PIECE, _READERS = 2 << 20, 8


class Damaged(Exception):
    """A panel is not what was written, or is not there."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@njit(nogil=True, cache=True)
def checksums(words, rows, salt):  # type: ignore[no-untyped-def]
    """Of each row of words, uint32 (m, n), whose number in the matrix `rows` has; salt is uint64."""
    found = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        total = salt + np.uint64(rows[i])
        for j in range(words.shape[1]):
            total += np.uint64(words[i, j]) * np.uint64(2 * j + 1)
        found[i] = total
    return found


class Panels:
    """The files of one matrix.

    Parameters
    ----------
    folder : Path
    n : int
        Rows, and columns, of the matrix.
    size : int
        Rows of a panel; the last may have fewer.
    name : str
        What tells the matrix from others.
    """

    def __init__(self, folder: Path, n: int, size: int, name: str) -> None:
        self.folder, self.n, self.size, self.count = folder, n, size, -(-n // size)
        self._salt = np.uint64(int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little"))
        self._trailers: dict[int, NDArray[np.void]] = {}
        self._checked = np.zeros(n, bool)

    def path(self, number: int) -> Path:
        """The file of a panel."""
        return self.folder / f"{number:06d}.rows"

    def bounds(self, number: int) -> tuple[int, int]:
        """Its first row, and the one behind its last."""
        return number * self.size, min((number + 1) * self.size, self.n)

    def bytes_of(self, number: int) -> int:
        """What its file takes."""
        first, last = self.bounds(number)
        return (last - first) * (4 * self.n + _TRAILER.itemsize) + 4

    def missing(self) -> list[int]:
        """Panels whose file is not there, or has another size."""
        found = {}
        if self.folder.is_dir():
            with os.scandir(self.folder) as entries:
                found = {entry.name: entry.stat().st_size for entry in entries}
        return [k for k in range(self.count) if found.get(self.path(k).name) != self.bytes_of(k)]

    def write(self, number: int, values: NDArray[np.float32]) -> None:
        """Move a panel into place, complete; InputError if it cannot be written."""
        first, last = self.bounds(number)
        rows = np.arange(first, last)
        trailer = np.empty(last - first, _TRAILER)
        trailer["checksum"] = checksums(values.view(np.uint32), rows, self._salt)
        trailer["diagonal"] = values[rows - first, rows]
        with replacing(self.path(number)) as temporary, open(temporary, "wb") as stream:
            stream.write(values.data)
            stream.write(trailer.tobytes())
            stream.write(zlib.crc32(trailer.tobytes()).to_bytes(4, "little"))
        self._trailers[number] = trailer
        self._checked[first:last] = True

    def trailer(self, number: int) -> NDArray[np.void]:
        """Checksum and diagonal value of each row of a panel; Damaged if they cannot be had."""
        if number not in self._trailers:
            first, last = self.bounds(number)
            try:
                with open(self.path(number), "rb") as stream:
                    stream.seek((last - first) * 4 * self.n)
                    content = stream.read()
            except OSError as error:
                raise Damaged(number) from error
            body, crc = content[:-4], content[-4:]
            if (
                len(body) != (last - first) * _TRAILER.itemsize
                or zlib.crc32(body).to_bytes(4, "little") != crc
            ):
                raise Damaged(number)
            self._trailers[number] = np.frombuffer(body, _TRAILER)
        return self._trailers[number]

    def diagonal(self) -> NDArray[np.float32]:
        """K[i, i], shape (n,)."""
        return np.concatenate([self.trailer(number)["diagonal"] for number in range(self.count)])

    def read(
        self, indices: NDArray[np.int64], out: NDArray[np.float32], progress: Progress | None = None
    ) -> None:
        """Rows at `indices` into `out`, shape (len(indices), n), several pieces at a time.

        Raises
        ------
        Damaged
            At the first panel that is found to be so.
        """
        pieces = self._pieces(indices)
        # A piece may be one short row: enough of them to a task that handing it out is no work beside it.
        step = max(1, min(len(pieces) // (4 * _READERS), _PIECE // (4 * self.n)))
        tasks = [pieces[at : at + step] for at in range(0, len(pieces), step)]
        work = [float(sum(last - first for _, first, last in task)) for task in tasks]

        def load(task: Iterable[tuple[int, int, int]]) -> None:
            for row, first, last in task:
                self._load(row, out[first:last])

        with parallel.limit(max(_READERS, parallel.n_threads())):
            parallel.run(load, tasks, work, progress)

    def _pieces(self, indices: NDArray[np.int64]) -> list[tuple[int, int, int]]:
        """(first row, its place in the output, the place behind the last) of what is read at once."""
        most = max(1, _PIECE // (4 * self.n))
        starts = np.ones(len(indices), bool)
        starts[1:] = (np.diff(indices) != 1) | (indices[1:] % self.size == 0)
        begins = np.flatnonzero(starts).tolist()
        ends = [*begins[1:], len(indices)]
        return [
            (int(indices[at]), at, min(at + most, end))
            for begin, end in zip(begins, ends, strict=True)
            for at in range(begin, end, most)
        ]

    def _load(self, row: int, out: NDArray[np.float32]) -> None:
        """Some rows of one panel, looked at if they have not been."""
        number = row // self.size
        try:
            with open(self.path(number), "rb", buffering=0) as stream:
                stream.seek((row - number * self.size) * 4 * self.n)
                whole = stream.readinto(out) == out.nbytes
        except OSError as error:
            raise Damaged(number) from error
        rows = np.arange(row, row + len(out))
        if whole and self._checked[rows].all():
            return
        wanted = self.trailer(number)["checksum"][rows - number * self.size]
        if not whole or (checksums(out.view(np.uint32), rows, self._salt) != wanted).any():
            raise Damaged(number)
        self._checked[rows] = True

    def damaged(self, numbers: Iterable[int], progress: Progress | None = None) -> list[int]:
        """Those of some panels that are not what was written; rows that were looked at are not again."""
        found, numbers = [], list(numbers)
        for done, number in enumerate(numbers):
            first, last = self.bounds(number)
            rows = first + np.flatnonzero(~self._checked[first:last])
            try:
                self.read(rows, np.empty((len(rows), self.n), np.float32))
            except Damaged:
                found.append(number)
            if progress is not None:
                progress(done + 1, len(numbers))
        return found

    def forget(self, number: int) -> None:
        """Look at a panel anew when it is next read."""
        first, last = self.bounds(number)
        self._checked[first:last] = False
        self._trailers.pop(number, None)

    def columns(self, number: int, out: NDArray[np.float32]) -> None:
        """What the panels before one have of its rows into `out`, shape (its rows, first of them)."""
        first, last = self.bounds(number)

        def take(other: int) -> None:
            a, b = self.bounds(other)
            mapped = np.memmap(self.path(other), np.float32, "r", shape=(b - a, self.n))
            out[:, a:b] = mapped[:, first:last].T

        parallel.run(take, range(number))
