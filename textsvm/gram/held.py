"""Rows that a card has no room for, held in main memory: between the card's memory and computing them again.

What it takes: n rows of n values are made once (`textsvm.gram.stored` tells how, half of them computed), or
read from a store, and a row that the solver wants is then 4 n bytes over the bus. On an H200 that is some 12
thousand million values a second; a gap-weighted row of texts of 100 symbols is computed at 240 million, a
spectrum row at 6 thousand million. `textsvm.gram.tiers` decides, from what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.cached import CachedGram
from textsvm.gram.plan import show_bytes
from textsvm.gram.rates import kept
from textsvm.gram.store import Wanted, panel_rows
from textsvm.gram.stored import StoredRows
from textsvm.kernels.contract import AHEAD, MatrixRows
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress

#: Rows that the rate of computing is measured on, and seconds that these may take; rows of the bus's matrix.
_PROBE, _ENOUGH, _BUS_ROWS = 64, 0.25, 4096
#: Bytes that a thread copies at a time, and rows that it transposes.
_PIECE, _BLOCK = 2 << 20, 512


def measured_rate(rows: MatrixRows) -> float:
    """Kernel values a second that are computed for a working set; on a card fewer rows if that takes long."""
    some = np.linspace(0, rows.n - 1, min(rows.n, _PROBE)).astype(np.int64)
    counts = (1, 8, _PROBE) if rows.device.kind == "cuda" else (1, getattr(rows, "ahead", AHEAD))
    for count in counts:  # the first time something may be compiled
        devices.synchronize(rows.device)
        clock = time.perf_counter()
        rows.rows(some[:count])
        devices.synchronize(rows.device)
        seconds = time.perf_counter() - clock
        if count > 1 and 8 * seconds > _ENOUGH:
            break
    return len(some[:count]) * rows.n / max(seconds, 1e-9)


def bus_rate(device: Device) -> float:
    """Bytes a second that rows are brought to a card from main memory, as they are for a solver."""
    return kept(
        f"bus {device.description}, {parallel.n_threads()} threads", lambda: (_measured_bus(device),)
    )[0]


def _measured_bus(device: Device) -> float:
    panels = _HostPanels(_BUS_ROWS, _BUS_ROWS)
    panels.matrix.fill(0)
    rows = StoredRows(_InMemory(panels), Wanted(None, range(_BUS_ROWS), {}, device))  # type: ignore[arg-type]
    some = np.random.default_rng(0).permutation(_BUS_ROWS)
    for _ in range(2):
        clock = time.perf_counter()
        rows.rows(some)
        devices.synchronize(device)
        seconds = time.perf_counter() - clock
    return panels.matrix.nbytes / max(seconds, 1e-9)


def held_gram(
    wanted: Wanted, memory: int, said: str, stored: StoredRows | None = None, progress: Progress | None = None
) -> CachedGram:
    """Rows in main memory, those in use where the solver is.

    Parameters
    ----------
    wanted : Wanted
    memory : int
        Bytes that rows may take where the solver is.
    said : str
        Why they are there.
    stored : StoredRows, optional
        Where they are read from; else they are computed.
    progress : callable, optional
    """
    panels = _HostPanels(wanted.n, panel_rows(wanted, memory))
    rows = StoredRows(_InMemory(panels), wanted)
    if stored is None:
        rows.complete(progress)
    else:
        stored.read(np.arange(wanted.n), panels.matrix, progress)
        panels.made = panels.count
    before = "" if stored is None else f"{stored.description}; "
    where = f"rows held in main memory ({show_bytes(4 * wanted.n**2)}), cached under {show_bytes(memory)}"
    return CachedGram(rows, memory, f"{before}{where}{said}")


class _HostPanels:
    """`Panels` in memory, where nothing is ever damaged."""

    def __init__(self, n: int, size: int) -> None:
        self.n, self.size, self.count = n, size, -(-n // size)
        self.matrix, self.made = np.empty((n, n), np.float32), 0

    def bounds(self, number: int) -> tuple[int, int]:
        return number * self.size, min((number + 1) * self.size, self.n)

    def missing(self) -> list[int]:
        return list(range(self.made, self.count))

    def damaged(self, numbers: Iterable[int], progress: Progress | None = None) -> list[int]:
        return []

    def write(self, number: int, values: NDArray[np.float32]) -> None:
        first, last = self.bounds(number)
        self.matrix[first:last] = values
        self.made = number + 1

    def columns(self, number: int, out: NDArray[np.float32]) -> None:
        first, last = self.bounds(number)

        def take(at: int) -> None:
            block = slice(at, min(at + _BLOCK, first))
            out[:, block] = self.matrix[block, first:last].T

        parallel.run(take, range(0, first, _BLOCK))

    def diagonal(self) -> NDArray[np.float32]:
        return self.matrix.diagonal().copy()

    def read(
        self, indices: NDArray[np.int64], out: NDArray[np.float32], progress: Progress | None = None
    ) -> None:
        step = max(1, _PIECE // (4 * self.n))

        def copy(at: int) -> None:
            out[at : at + step] = self.matrix[indices[at : at + step]]

        parallel.run(copy, range(0, len(indices), step), progress=progress)


@dataclass(frozen=True)
class _InMemory:
    """`Kept`, in memory."""

    panels: Any
    place: str = "held in main memory"

    @contextmanager
    def writing(self) -> Iterator[None]:
        yield
