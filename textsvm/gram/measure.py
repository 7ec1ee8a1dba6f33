"""Measure the planner's inputs: free memory, and the throughput of a kernel.

Kernels differ a thousandfold in throughput, so it is measured, in tenths of a second and only if a decision
depends on it. Rates of memory, bus and disk are constants of the planner (`textsvm.gram.plan.Rates`).
"""

from __future__ import annotations

import time

import numpy as np

from textsvm.gram.plan import parse_bytes
from textsvm.kernels.contract import AHEAD, MatrixRows, rows_ahead
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device

#: Maximum bytes of the rows of a call that is measured, as in `textsvm.gram.base`.
_PROBE = 64 << 20
#: Maximum seconds that the additional rows of the last call may take.
_PROBE_SECONDS = 0.25


def allowed_bytes(memory: int | str | None, device: Device) -> int:
    """Bytes that rows may take on a device: `memory`, or half of the free memory there."""
    wanted = parse_bytes(memory)
    return max(1, devices.free_memory(device) // 2) if wanted is None else wanted


def measured_rate(rows: MatrixRows) -> tuple[float, float]:
    """Kernel values per second within a call that computes rows, and additional seconds per call."""

    def seconds(count: int) -> float:
        devices.synchronize(rows.device)
        clock = time.perf_counter()
        rows.rows(np.linspace(0, rows.n - 1, count).astype(np.int64))
        devices.synchronize(rows.device)
        return time.perf_counter() - clock

    seconds(1)  # may compile something
    most = min(rows.n, max(2 * AHEAD, _PROBE // (4 * rows.n)))
    few = n_rows = 1 if rows.device.kind == "cuda" else min(rows_ahead(rows), most)
    seconds_of_few, least = seconds(few), max(2 * few, AHEAD)
    per_row = seconds_of_few / few
    while (more := min(most, max(least, int(_PROBE_SECONDS / per_row)))) >= 2 * n_rows:
        # Calls with equal numbers of rows differ by up to a tenth.
        per_row = max(seconds(more) - seconds_of_few, 0.1 * seconds_of_few) / (more - few)
        n_rows = more
    return rows.n / per_row, max(0.0, seconds_of_few - few * per_row)
