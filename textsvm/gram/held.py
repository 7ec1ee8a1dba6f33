"""Rows that a card has no room for, held in main memory: between the card's memory and computing them again.

What it takes: n rows of n values are made once (`textsvm.gram.stored` tells how, half of them computed), and
a row that the solver wants is then 4 n bytes over the bus. On an H200 that is some 12 thousand million values
a second; a gap-weighted row of texts of 100 symbols is computed at 240 million, a spectrum row at 6 thousand
million. `holds` decides, from what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm import parallel
from textsvm.gram.base import Gram
from textsvm.gram.cached import CachedGram
from textsvm.gram.plan import allowed_bytes, plan, show_bytes
from textsvm.gram.store import Wanted, panel_rows
from textsvm.gram.stored import StoredRows
from textsvm.kernels.base import MatrixRows
from textsvm.parallel import Progress

#: Values a second that main memory gives a card.
BUS = 1.2e10
#: A matrix of fewer bytes is not worth it, and rows that the rate of computing is measured on.
LEAST, _PROBE = 1 << 30, 64
#: Bytes that a thread copies at a time, and rows that it transposes.
_PIECE, _BLOCK = 2 << 20, 512


def holds(n: int, host: int, rate: float) -> bool:
    """Whether rows that a card has no room for are better held in main memory than computed again.

    Parameters
    ----------
    n : int
    host : int
        Bytes of main memory that may be taken.
    rate : float
        Kernel values a second that are computed for a working set.

    Returns
    -------
    bool
        The matrix is large, there is room for it, and twice as many values a second come from there.
    """
    return LEAST <= 4 * n * n <= host and 2 * rate < BUS


def measured_rate(rows: MatrixRows) -> float:
    """Kernel values a second that are computed for a working set: the second of two calls."""
    some = np.linspace(0, rows.n - 1, min(rows.n, _PROBE)).astype(np.int64)
    for _ in range(2):
        devices.synchronize(rows.device)
        clock = time.perf_counter()
        rows.rows(some)
        devices.synchronize(rows.device)
        seconds = time.perf_counter() - clock
    return len(some) * rows.n / max(seconds, 1e-9)


def held_if_better(
    rows: MatrixRows, wanted: Wanted, memory: int | str | None, progress: Progress | None = None
) -> Gram | None:
    """The Gram in main memory, where the rows of a card are better held there; None where they are not.

    Parameters
    ----------
    rows : MatrixRows
        Of all examples: what would compute them again.
    wanted : Wanted
    memory : int or str, optional
        Bytes that rows may take on the card; None is half of what is free there.
    progress : callable, optional
        Called while they are made.
    """
    n, allowed = wanted.n, allowed_bytes(memory, wanted.device)
    if wanted.device.kind != "cuda" or hasattr(rows, "make_features") or plan(n, allowed).dense:
        return None
    host = allowed_bytes(None, devices.select("cpu"))
    if not holds(n, host, 0.0):
        return None
    rate = measured_rate(rows)
    return held_gram(wanted, allowed, rate, progress) if holds(n, host, rate) else None


def held_gram(wanted: Wanted, memory: int, rate: float, progress: Progress | None = None) -> Gram:
    """Rows made in main memory, those in use where the solver is; `rate` is said as the reason."""
    kept = _InMemory(_HostPanels(wanted.n, panel_rows(wanted, memory)))
    rows = StoredRows(kept, wanted)
    rows.complete(progress)
    said = (
        f"rows held in main memory ({show_bytes(4 * wanted.n**2)}), cached under {show_bytes(memory)}: they "
        f"are computed at {rate / 1e9:.2g} G values/s and brought at {BUS / 1e9:.2g} G"
    )
    return CachedGram(rows, memory, said)


class _HostPanels:
    """`Panels` in memory, where nothing is ever damaged."""

    def __init__(self, n: int, size: int) -> None:
        self.n, self.size, self.count = n, size, -(-n // size)
        self._matrix, self._made = np.empty((n, n), np.float32), 0

    def bounds(self, number: int) -> tuple[int, int]:
        return number * self.size, min((number + 1) * self.size, self.n)

    def missing(self) -> list[int]:
        return list(range(self._made, self.count))

    def damaged(self, numbers: Iterable[int], progress: Progress | None = None) -> list[int]:
        return []

    def write(self, number: int, values: NDArray[np.float32]) -> None:
        first, last = self.bounds(number)
        self._matrix[first:last] = values
        self._made = number + 1

    def columns(self, number: int, out: NDArray[np.float32]) -> None:
        first, last = self.bounds(number)

        def take(at: int) -> None:
            block = slice(at, min(at + _BLOCK, first))
            out[:, block] = self._matrix[block, first:last].T

        parallel.run(take, range(0, first, _BLOCK))

    def diagonal(self) -> NDArray[np.float32]:
        return self._matrix.diagonal().copy()

    def read(
        self, indices: NDArray[np.int64], out: NDArray[np.float32], progress: Progress | None = None
    ) -> None:
        step = max(1, _PIECE // (4 * self.n))

        def copy(at: int) -> None:
            out[at : at + step] = self._matrix[indices[at : at + step]]

        parallel.run(copy, range(0, len(indices), step), progress=progress)


@dataclass(frozen=True)
class _InMemory:
    """`Kept`, in memory."""

    panels: Any
    place: str = "held in main memory"

    @contextmanager
    def writing(self) -> Iterator[None]:
        yield
