"""Rows of a symmetric matrix in files: a panel of full rows per file, with a checksum for every row.

This is the file format alone: it knows no kernel and no texts, and a damaged file ends in `Damaged`.

    panel k:  rows [k m, (k + 1) m) of the matrix, n float32 each; then a checksum and the diagonal value of
              each row (12 bytes), then the CRC-32 of these trailers

Full rows take twice the disk space of a triangle, but a solver reads a few hundred rows at arbitrary places.
In square tiles (2,048 x 2,048, 16 MB) of a triangle, a row is a row of some tiles, 8 KB each, and a column of
other tiles, 4 bytes in every 8 KB, which means reading whole tiles: 5 GB instead of 200 MB for a thousand
rows of n = 50,000. Only half of the values are *computed*: the left part of a panel is read, transposed, from
earlier panels.

A checksum is sum_j (2 j + 1) w_j mod 2^64 over the 32-bit words w_j of a row, plus numbers of the matrix and
the row. It detects a changed word, two exchanged words, and a row of another place or matrix, in a tenth of
the time of CRC-32. A process verifies a row when it first reads it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import groupby
from pathlib import Path

import numpy as np

from textsvm.arrays import Floats32, Ints
from textsvm.runtime import parallel
from textsvm.runtime.compiled import njit
from textsvm.runtime.files import replacing
from textsvm.runtime.parallel import Progress, report

_TRAILER = np.dtype([("checksum", "<u8"), ("diagonal", "<f4")])
_PIECE = 2 << 20  #: Bytes that a thread reads at a time.
_READERS = 16  #: Number of reading threads unless threads are limited: they mostly wait for the disk.


class Damaged(Exception):
    """A panel is damaged or missing."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@njit(nogil=True, cache=True)
def checksums(words, rows, salt):
    """Checksum of each row of words, uint32 (m, n), with row numbers `rows` and a salt, uint64."""
    sums = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        total = salt + np.uint64(rows[i])
        for j in range(words.shape[1]):
            total += np.uint64(words[i, j]) * np.uint64(2 * j + 1)
        sums[i] = total
    return sums


def _will_need(handle: int, begin: int, size: int) -> None:
    """Announce a read, as a disk is faster with many requests in its queue."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(handle, begin, size, os.POSIX_FADV_WILLNEED)


class Panels:
    """The files of an n x n matrix, with `size` rows per panel; `name` identifies the matrix in checksums."""

    def __init__(self, folder: Path, n: int, size: int, name: str) -> None:
        self.folder, self.n, self.size, self.count = folder, n, size, -(-n // size)
        self._salt = np.uint64(int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little"))
        self._checksum, self._diagonal = np.empty(n, np.uint64), np.empty(n, np.float32)
        #: Panels whose checksums have been read, and rows that have been verified.
        self._known, self._checked = np.zeros(self.count, bool), np.zeros(n, bool)

    def path(self, number: int) -> Path:
        """The file of a panel."""
        return self.folder / f"{number:06d}.rows"

    def bounds(self, number: int) -> tuple[int, int]:
        """First row of a panel, and the row after its last."""
        return number * self.size, min((number + 1) * self.size, self.n)

    def bytes_of(self, number: int) -> int:
        """Size of the file of a panel."""
        first, last = self.bounds(number)
        return (last - first) * (4 * self.n + _TRAILER.itemsize) + 4

    def missing(self) -> list[int]:
        """Panels without a file of the right size."""
        sizes = {}
        if self.folder.is_dir():
            with os.scandir(self.folder) as entries:
                sizes = {entry.name: entry.stat().st_size for entry in entries}
        return [k for k in range(self.count) if sizes.get(self.path(k).name) != self.bytes_of(k)]

    def room(self, number: int, values: Floats32) -> Floats32:
        """Array for the values of a panel, to be passed to `write`: a part of `values`."""
        first, last = self.bounds(number)
        return values[: last - first]

    def write(self, number: int, values: Floats32) -> None:
        """Write a panel atomically; InputError if it cannot be written."""
        first, last = self.bounds(number)
        rows = np.arange(first, last)
        trailer = np.empty(last - first, _TRAILER)
        trailer["checksum"] = checksums(values.view(np.uint32), rows, self._salt)
        trailer["diagonal"] = values[rows - first, rows]
        with replacing(self.path(number)) as temporary, open(temporary, "wb") as stream:
            stream.write(values.data)
            stream.write(trailer.tobytes())
            stream.write(zlib.crc32(trailer.tobytes()).to_bytes(4, "little"))
        self._known[number] = False  # the trailer is read when it is needed
        self._checked[first:last] = True

    def _know(self, numbers: Iterable[int]) -> None:
        """Read the trailers of some panels; Damaged if that fails."""
        for number in numbers:
            if self._known[number]:
                continue
            first, last = self.bounds(number)
            try:
                with open(self.path(number), "rb") as stream:
                    stream.seek((last - first) * 4 * self.n)
                    content = stream.read()
            except OSError as error:
                raise Damaged(number) from error
            body, crc = content[:-4], content[-4:]
            whole = len(body) == (last - first) * _TRAILER.itemsize
            if not whole or zlib.crc32(body).to_bytes(4, "little") != crc:
                raise Damaged(number)
            trailer = np.frombuffer(body, _TRAILER)
            self._checksum[first:last], self._diagonal[first:last] = trailer["checksum"], trailer["diagonal"]
            self._known[number] = True

    def diagonal(self) -> Floats32:
        """K[i, i], shape (n,); Damaged if that fails."""
        self._know(range(self.count))
        return self._diagonal.copy()

    def read(self, indices: Ints, out: Floats32, progress: Progress | None = None) -> None:
        """Read rows into `out`, shape (len(indices), n), in parallel; Damaged at the first damaged panel."""
        self._know(np.unique(indices // self.size).tolist())
        pieces = self._pieces(indices)
        # A piece may be a single short row: enough pieces per task that scheduling costs little.
        step = max(1, min(len(pieces) // (2 * _READERS), _PIECE // (4 * self.n)))
        tasks = [pieces[at : at + step] for at in range(0, len(pieces), step)]
        work = [float(task[-1][1] - task[0][0]) for task in tasks]

        def load(task: Sequence[tuple[int, int]]) -> None:
            for number, parts in groupby(task, lambda piece: int(indices[piece[0]]) // self.size):
                self._load(number, list(parts), indices, out)

        if out.nbytes <= _PIECE:  # scheduling would take longer
            load(pieces)
            report(progress, 1.0, 1.0)
            return
        # Threads beyond the cores wait for the disk. If threads are limited, the limit holds: a single thread
        # reads nearly as quickly, because reads are announced to the disk.
        with parallel.limit(parallel.n_threads() if parallel.limited() else _READERS):
            parallel.run(load, tasks, work, progress)

    def announce(self, indices: Ints) -> None:
        """Announce coming reads; a missing file is reported by `read`."""
        for number, parts in groupby(self._pieces(indices), lambda part: int(indices[part[0]]) // self.size):
            with suppress(OSError), open(self.path(number), "rb", buffering=0) as stream:
                for first, last in parts:
                    begin = (int(indices[first]) - number * self.size) * 4 * self.n
                    _will_need(stream.fileno(), begin, (last - first) * 4 * self.n)

    def _pieces(self, indices: Ints) -> list[tuple[int, int]]:
        """Slices of the output whose rows are contiguous in a file."""
        most = max(1, _PIECE // (4 * self.n))
        starts = np.ones(len(indices), bool)
        starts[1:] = (np.diff(indices) != 1) | (indices[1:] % self.size == 0)
        begins = np.flatnonzero(starts).tolist()
        ends = [*begins[1:], len(indices)][: len(begins)]
        return [
            (at, min(at + most, end))
            for begin, end in zip(begins, ends, strict=True)
            for at in range(begin, end, most)
        ]

    def _load(self, number: int, pieces: Sequence[tuple[int, int]], indices: Ints, out: Floats32) -> None:
        """Read some rows of a panel, and verify them the first time."""
        try:
            with open(self.path(number), "rb", buffering=0) as stream:
                begins = [(int(indices[first]) - number * self.size) * 4 * self.n for first, _ in pieces]
                for begin, (first, last) in zip(begins, pieces, strict=True):
                    _will_need(stream.fileno(), begin, out[first:last].nbytes)
                for begin, (first, last) in zip(begins, pieces, strict=True):
                    stream.seek(begin)
                    if stream.readinto(out[first:last]) != out[first:last].nbytes:
                        raise Damaged(number)
        except OSError as error:
            raise Damaged(number) from error
        span = slice(pieces[0][0], pieces[-1][1])
        rows = indices[span]
        if not self._checked[rows].all():
            if (checksums(out[span].view(np.uint32), rows, self._salt) != self._checksum[rows]).any():
                raise Damaged(number)
            self._checked[rows] = True

    def damaged(self, numbers: Iterable[int], progress: Progress | None = None) -> list[int]:
        """The damaged panels among `numbers`; verified rows are not read again."""
        bad, numbers = [], list(numbers)
        for done, number in enumerate(numbers):
            first, last = self.bounds(number)
            if not self._checked[first:last].all():
                try:
                    self.read(np.arange(first, last), np.empty((last - first, self.n), np.float32))
                except Damaged:
                    bad.append(number)
            report(progress, done + 1, len(numbers))
        return bad

    def forget(self, number: int) -> None:
        """Verify a panel again when it is next read."""
        first, last = self.bounds(number)
        self._checked[first:last] = False
        self._known[number] = False

    def columns(self, number: int, out: Floats32) -> None:
        """Read the left part of a panel, shape (rows, first row), from the columns of earlier panels."""
        first, last = self.bounds(number)

        def take(other: int) -> None:
            a, b = self.bounds(other)
            mapped = np.memmap(self.path(other), np.float32, "r", shape=(b - a, self.n))
            out[:, a:b] = mapped[:, first:last].T

        parallel.run(take, range(number))
