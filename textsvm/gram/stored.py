"""A Gram whose rows lie on disk: made there once, and read by whoever needs them (`textsvm.gram.store`).

Making goes panel by panel, in order. The left part of panel k are columns of the panels before, which are
read; what is right of it is computed, as rows of the kernel with the texts from some text on. These begin
anew `BANDS` times (preparing the texts as columns takes time too), so that about half of all values are
computed. Which values are computed with which others thus follows from n and the rows of a panel alone: a
run that goes on, and a panel that is made again, give the bits that were there before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import DenseGram, Gram
from textsvm.gram.cached import CachedGram
from textsvm.gram.panels import Damaged
from textsvm.gram.plan import allowed_bytes, plan
from textsvm.gram.store import Store, Wanted
from textsvm.gram.tiers import BANDS
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress

#: Bytes that are read at a time on their way to a card; and those from which on a rate says something.
_STAGING, _TELLING = 32 << 20, 128 << 20


def stored_gram(
    folder: str | os.PathLike[str],
    wanted: Wanted,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> Gram:
    """The Gram of a kernel from a store, made there as far as it is not there yet.

    Parameters
    ----------
    folder : path
        Of the store.
    wanted : Wanted
    memory : int or str, optional
        Bytes that rows may take; None is half of what is free there.
    progress : callable, optional
        Called while it is made, and again while it is read.

    Raises
    ------
    InputError
        See `Store`, `Store.find` and `Kept.writing`.
    """
    rows = stored_rows(folder, wanted, memory, progress)
    decided = plan(wanted.n, allowed_bytes(memory, wanted.device))
    if decided.dense:
        return read_whole(rows, decided.description, progress)
    return CachedGram(rows, decided.memory, f"{rows.description}; {decided.description}")


def read_whole(rows: StoredRows, description: str, progress: Progress | None = None) -> DenseGram:
    """All rows of a store that has them, in memory."""
    clock = time.perf_counter()
    matrix = rows.gram(progress)
    devices.synchronize(rows.device)
    rate = 4e-9 * rows.n**2 / max(time.perf_counter() - clock, 1e-9)
    said = f", read at {rate:.2g} GB/s" if 4 * rows.n**2 >= _TELLING else ""
    return DenseGram(matrix, f"{rows.description}{said}; {description}")


def stored_rows(
    folder: str | os.PathLike[str],
    wanted: Wanted,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> StoredRows:
    """The same as rows that are read when they are asked for; see `stored_gram`."""
    kept = Store(folder).find(wanted, allowed_bytes(memory, wanted.device))
    rows = StoredRows(kept, wanted)
    rows.complete(progress)
    return rows


class StoredRows:
    """Rows of a kernel matrix on disk (`MatrixRows`), which are not computed again.

    Parameters
    ----------
    kept : Kept
        Where they are, or what does the same.
    wanted : Wanted
        What they are, should they be missing.
    """

    def __init__(self, kept: Any, wanted: Wanted) -> None:
        self.n, self.device = wanted.n, wanted.device
        self._kept, self._panels, self._wanted = kept, kept.panels, wanted
        self._xp = devices.array_module(self.device)
        #: What prepares the texts from some text on as columns, if not the kernel (`stored_together.py`).
        self.prepare: Callable[[int, Any], Any] | None = None
        #: Panels that were made here, not found.
        self.made = 0
        self._mended: set[int] = set()
        self._band: tuple[int, Any, NDArray[np.float32]] | None = None

    @property
    def description(self) -> str:
        """For people."""
        found = "found" if not self.made else f"{self.made:,} of {self._panels.count:,} panels made"
        return f"{self._kept.place} ({found})"

    @property
    def found(self) -> float:
        """The share of the panels that is there."""
        return 1 - len(self._panels.missing()) / self._panels.count

    def complete(self, progress: Progress | None = None) -> None:
        """Make the panels that are not there."""
        if self._panels.missing():
            with self._kept.writing():
                # Another process may have made some since.
                for _ in self.steps(self._panels.missing(), progress):
                    pass

    def diag(self) -> Any:
        """See `MatrixRows`."""
        with devices.use(self.device):
            return self._xp.asarray(self._mending(self._panels.diagonal))

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """See `MatrixRows`."""
        return self._values(np.asarray(indices, np.int64))

    def gram(self, progress: Progress | None = None) -> Any:
        """See `MatrixRows`: nothing of it is computed."""
        return self._values(np.arange(self.n), progress)

    def _values(self, indices: NDArray[np.int64], progress: Progress | None = None) -> Any:
        with devices.use(self.device):
            values = self._xp.empty((len(indices), self.n), np.float32)
            if self.device.kind == "cuda":
                self._to_card(indices, values, progress)
            else:
                self.read(indices, values, progress)
        return values

    def _to_card(self, indices: NDArray[np.int64], values: Any, progress: Progress | None) -> None:
        """Rows to a card, some on their way while the next are read."""
        cuda, step = self._xp.cuda, max(1, _STAGING // (4 * self.n))
        stream = cuda.Stream(non_blocking=True)
        cuda.get_current_stream().synchronize()  # the memory of `values` may still be in use
        buffers = [self._pinned(min(step, len(indices))) for _ in range(2)]
        copied = [stream.record(), stream.record()]
        for number, first in enumerate(range(0, len(indices), step)):
            some, at = indices[first : first + step], number % 2
            copied[at].synchronize()
            self.read(some, buffers[at][: len(some)])
            values[first : first + step].set(buffers[at][: len(some)], stream)
            copied[at] = stream.record()
            if progress is not None:
                progress(first + len(some), len(indices))
        stream.synchronize()

    def _pinned(self, rows: int) -> NDArray[np.float32]:
        """Host memory for rows that a card copies from by itself."""
        memory = self._xp.cuda.alloc_pinned_memory(max(1, 4 * rows * self.n))
        return np.frombuffer(memory, np.float32, rows * self.n).reshape(rows, self.n)

    def read(
        self, indices: NDArray[np.int64], out: NDArray[np.float32], progress: Progress | None = None
    ) -> None:
        """Rows at `indices` into an array of main memory, shape (len(indices), n)."""
        self._mending(lambda: self._panels.read(indices, out, progress))

    def _mending(self, read: Any) -> Any:
        """What reading gives, damaged panels made again."""
        while True:
            try:
                return read()
            except Damaged as found:
                if found.number in self._mended:
                    raise InputError(
                        f"{self._panels.path(found.number)} is not what was written to it a moment ago; "
                        "the disk fails, name a folder on another one (--store)"
                    ) from found
                self._mended.add(found.number)
                self._panels.forget(found.number)
                with self._kept.writing():
                    for _ in self.steps([found.number], None):
                        pass

    def steps(self, numbers: list[int], progress: Progress | None) -> Iterator[None]:
        """Make some panels, and those before them that are not what was written; stop after each."""
        if not numbers:
            return
        before = sorted(set(range(max(numbers))) - set(numbers))
        numbers = sorted({*numbers, *self._panels.damaged(before, progress)})
        ends = np.cumsum([self._work(number) for number in numbers]).tolist()
        with ThreadPoolExecutor(1) as writer:
            written: Future[None] | None = None
            for number, end in zip(numbers, ends, strict=True):
                values = self._computed(number)  # while the one before is written
                if written is not None:
                    written.result()
                self._panels.columns(number, values[:, : self._panels.bounds(number)[0]])
                written = writer.submit(self._panels.write, number, values)
                self.made += 1
                if progress is not None:
                    progress(end, ends[-1])
                yield
            if written is not None:
                written.result()
        self._band = None

    def _work(self, number: int) -> int:
        """How many values of a panel are computed."""
        first, last = self._panels.bounds(number)
        return (last - first) * (self.n - self._start(number))

    def _start(self, number: int) -> int:
        """The first text that the rows of a panel are computed with."""
        panels = -(-self._panels.count // BANDS)
        return number // panels * panels * self._panels.size

    def _computed(self, number: int) -> NDArray[np.float32]:
        """A panel, its part from the first diagonal value on."""
        first, last = self._panels.bounds(number)
        start, rows, diagonal = self._columns_from(self._start(number))
        values = np.empty((last - first, self.n), np.float32)
        with devices.use(self.device):
            computed = devices.to_host(rows.rows(np.arange(first - start, last - start)))
        values[:, first:] = computed[:, first - start :]
        square = values[:, first:last]
        for i in range(last - first):  # a kernel may round (s, t) and (t, s) differently
            square[i + 1 :, i] = square[i, i + 1 :]
        np.fill_diagonal(square, diagonal[first - start : last - start])
        return values

    def _columns_from(self, start: int) -> tuple[int, Any, NDArray[np.float32]]:
        """The texts from `start` on as columns, and their diagonal."""
        if self._band is None or self._band[0] != start:
            self._band = None  # its memory, before there is another one
            kernel, texts = self._wanted.kernel, self._wanted.examples
            with devices.use(self.device):
                some = kernel.structure.read(texts.take(np.arange(start, self.n)))
                rows = kernel.rows(some, self.device) if self.prepare is None else self.prepare(start, some)
                self._band = start, rows, devices.to_host(rows.diag())
        return self._band
