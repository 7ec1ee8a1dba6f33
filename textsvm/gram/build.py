"""Execute a `Plan`: build a kernel matrix, or a cache of its rows, in the planned tier."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import numpy as np

from textsvm.errors import warn_user
from textsvm.gram.base import CachedGram, Gram, allowed_bytes, max_rows, staged_rows
from textsvm.gram.plan import SLOW, Case, Plan, Rates, candidates, plan_gram, show_bytes
from textsvm.gram.store import GramRequest, Store
from textsvm.gram.stored import HeldGram, StoredRows, held_rows
from textsvm.gram.tiles import whole_gram
from textsvm.kernels.contract import AHEAD, MatrixRows, rows_ahead
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress
from textsvm.runtime.workers import current

_PROBE = 64 << 20  #: Maximum bytes of the rows of a call that is measured, as in `textsvm.gram.base`.
_PROBE_SECONDS = 0.25  #: Maximum seconds that the additional rows of the last call may take.


def gram_of_rows(
    kernel_rows: MatrixRows, memory: int | str | None = None, progress: Progress | None = None
) -> Gram:
    """The Gram of prepared rows: the whole matrix if it fits into `memory`, else rows computed on demand.

    If the rows have a `description`, it is appended to that of the Gram.
    """
    allowed, matrices = allowed_bytes(memory, kernel_rows.device), getattr(kernel_rows, "matrices", 1)
    case = Case(kernel_rows.n, allowed, kernel_rows.device.kind, matrices=matrices)
    return _planned(kernel_rows, case, plan_gram(case), progress)


def build_gram(
    request: GramRequest,
    memory: int | str | None = None,
    tier: str = "auto",
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    movable: bool = True,
) -> Gram:
    """The Gram of a fitted kernel and examples, in the tier that is planned.

    Rows may take `memory` bytes where the solver runs, half of the free memory by default. Nothing is written
    to a disk without `store`, a folder. A matrix that is not `movable`, such as a given one and values of
    functions, cannot be kept outside of the solver's memory.
    """
    device, kernel = request.device, request.kernel
    on_gpu, rows, stored = device.kind == "cuda", None, None
    if store is None and not (tier == "host" and on_gpu):
        rows = kernel.rows(kernel.structure.read(request.examples), device)
    allowed = allowed_bytes(memory, device)
    case = Case(request.n, allowed, device.kind, tier=tier, store=store is not None)
    if on_gpu:
        room = allowed_bytes(None, devices.select("cpu")) if movable else 0
        case = replace(case, device_name=device.description, host_memory=room)
    if rows is not None:
        suggest_store = movable and tier == "auto" and kernel.cost.quadratic
        case = replace(case, suggest_store=suggest_store, matrices=getattr(rows, "matrices", 1))
    if store is not None:
        stored = StoredRows(Store(store).find(request, allowed), request)
        case = replace(case, stored=1 - len(stored.panels.missing()) / stored.panels.count)
    rates = None
    if len(candidates(case)) > 1:
        case = _with_cache(case, rows)
        rates, read = Rates(), kernel.structure.read(request.examples)
        if case.stored < 1:
            rates = Rates(*measured_rate(kernel.rows(read, device) if rows is None else rows))
    decision = plan_gram(case, rates)
    if stored is not None:
        stored.complete(progress)
    if decision.tier == "host":
        origin = "" if stored is None else f"{stored.description}; "
        return HeldGram(held_rows(request, allowed, stored, progress), allowed, origin + decision.reason)
    if stored is None:
        return _planned(rows, case, decision, progress)
    if decision.tier == "device":
        return stored.dense(decision.reason, progress)
    return CachedGram(stored, allowed, f"{stored.description}; {decision.reason}")


def _with_cache(case: Case, rows: object) -> Case:
    """The case with the size of a cache of rows, and of the requests of a solver."""
    capacity, on_gpu = max_rows(case.n, case.memory), case.device == "cuda"
    request = staged_rows(case.n, capacity) if on_gpu else max(1, min(rows_ahead(rows), capacity // 2))
    return replace(case, capacity=capacity, request=request)


def _planned(rows: Any, case: Case, decision: Plan, progress: Progress | None) -> Gram:
    origin = getattr(rows, "description", "")
    description = f"{decision.reason}; {origin}" if origin else decision.reason
    if decision.tier == "device":
        return whole_gram(rows, description, progress)
    if current():
        description += "; not distributed, as workers compute whole matrices only"
    if rows.device.cards:
        description += f"; on the first of {len(rows.device.cards)} cards"
    case = _with_cache(case, rows)
    if (slowdown := 2 * case.rows_read / rows.n) > SLOW:
        warn_user(
            f"{show_bytes(case.memory)} hold {case.capacity:,} of {rows.n:,} rows of the kernel matrix: "
            f"{slowdown:.0f} times its values will be computed; raise memory (--memory)",
            UserWarning,
        )
    return CachedGram(rows, decision.memory, description)


def measured_rate(rows: MatrixRows) -> tuple[float, float]:
    """Kernel values per second within a call that computes rows, and additional seconds per call.

    Kernels differ a thousandfold, so this is measured, in tenths of a second, if a decision depends on it.
    Rates of memory, bus and disk are constants of the planner.
    """

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
