"""Measure the planner's inputs: free memory, and throughput of kernels, card and disk.

Throughput is measured in tenths of a second, and only if a decision depends on it. Rates of a disk or of a
card's bus are cached for a month in the user's cache folder (``$XDG_CACHE_HOME/textsvm``, or
``~/.cache/textsvm``), by computer and by mount of the disk or name of the card. Damaged files and
files of other versions of textsvm are ignored.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import isfinite
from pathlib import Path

import numpy as np

from textsvm.errors import InputError
from textsvm.gram.plan import parse_bytes
from textsvm.gram.store import GramRequest
from textsvm.gram.stored import HostPanels, PanelRows
from textsvm.kernels.contract import AHEAD, MatrixRows, rows_ahead
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.device import Device
from textsvm.runtime.files import cache_folder, replacing
from textsvm.version import __version__

#: Seconds for which a measurement is cached.
MONTH = 30 * 86_400.0
#: Test of a disk: bytes per write.
_WRITTEN = 16 << 20
#: Test of a disk: maximum bytes of the file.
_MAX_BYTES = 128 << 20
#: Test of a disk: maximum seconds of writing.
_MAX_SECONDS = 0.2
#: Test of a disk: bytes per read.
_PIECE = 2 << 20
#: Bytes per second (read, written) of a disk that cannot be measured: a modest SSD's.
UNKNOWN = (5e8, 5e8)
#: Threads that read a disk, as in `textsvm.gram.panels`.
READERS = 16
#: Test of a kernel: maximum bytes of the rows of a call, as in `textsvm.gram.base`.
_PROBE = 64 << 20
#: Test of a kernel: maximum seconds that the additional rows of the last call may take.
_PROBE_SECONDS = 0.25
#: Test of a card's bus: rows that are copied, and their length, that of the smallest matrix it is tested for.
_BUS_ROWS, _BUS_LENGTH = 1024, 1 << 14


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


def memory_rates(device: Device) -> tuple[float, ...]:
    """Bytes per second at which rows get from main memory to a card, and at which memory is allocated."""
    name = f"main memory, {device.description}, {parallel.n_threads()} threads"
    return cached_rates(name, lambda: _measured_memory(device))


def _measured_memory(device: Device) -> tuple[float, float]:
    panels = HostPanels(_BUS_LENGTH, _BUS_ROWS, device)
    clock = time.perf_counter()
    panels.room(0, panels.matrix)
    allocate = time.perf_counter() - clock
    rows = PanelRows(panels, GramRequest(None, range(_BUS_LENGTH), {}, device))  # type: ignore[arg-type]
    order = np.random.default_rng(0).permutation(_BUS_ROWS)
    for _ in range(2):
        clock = time.perf_counter()
        rows.rows(order)
        devices.synchronize(device)
        seconds = time.perf_counter() - clock
    size = 4 * _BUS_ROWS * _BUS_LENGTH
    return size / max(seconds, 1e-9), size / max(allocate, 1e-9)


def disk_rates(folder: Path) -> tuple[float, float]:
    """Bytes per second read from and written to the disk of a folder, which need not exist yet."""
    path = folder.absolute()
    parent = next(ancestor for ancestor in (path, *path.parents) if ancestor.is_dir())
    resolved = parent.resolve()
    mount = next(ancestor for ancestor in (resolved, *resolved.parents) if os.path.ismount(ancestor))
    try:
        read, write = cached_rates(f"disk {mount}", lambda: measured_disk(parent))
    except (OSError, ValueError):  # not writable, full, or cached by another version with other values
        return UNKNOWN
    return read, write


def measured_disk(folder: Path) -> tuple[float, float]:
    """Measure `disk_rates` with a temporary file; OSError if the folder cannot be written to."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        handle, piece, size = file.fileno(), os.urandom(_WRITTEN), 0
        clock = time.perf_counter()
        while size < _MAX_BYTES and time.perf_counter() - clock < _MAX_SECONDS:
            size += os.write(handle, piece)
            os.fsync(handle)
        written = time.perf_counter() - clock
        if hasattr(os, "posix_fadvise"):  # read from the disk, not from the system's cache
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        clock = time.perf_counter()
        _read_all(handle, size)
        return size / max(time.perf_counter() - clock, 1e-9), size / max(written, 1e-9)


def _read_all(handle: int, size: int) -> None:
    if not hasattr(os, "pread"):  # Windows
        os.lseek(handle, 0, os.SEEK_SET)
        while os.read(handle, _PIECE):
            pass
        return
    with ThreadPoolExecutor(READERS) as pool:
        for _ in pool.map(lambda at: os.pread(handle, _PIECE, at), range(0, size, _PIECE)):
            pass


def cache_file() -> Path:
    """File of cached measurements."""
    return cache_folder() / "rates.json"


def cached_rates(name: str, measure: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """The measurement of this name in the cache, or a new measurement."""
    name = f"{platform.node()} {name}"
    cached = _read_cache()
    if name in cached:
        return cached[name][1]
    rates = measure()
    with suppress(InputError, OSError, RuntimeError):  # RuntimeError: there is no home
        cache_file().parent.mkdir(parents=True, exist_ok=True)
        cached[name] = time.time(), rates
        entries = {key: [at, *values] for key, (at, values) in cached.items()}
        with replacing(cache_file()) as temporary:
            text = json.dumps({"textsvm": __version__, "rates": entries}, indent=1)
            temporary.write_text(text, encoding="utf-8", newline="\n")
    return rates


def _read_cache() -> dict[str, tuple[float, tuple[float, ...]]]:
    """All valid entries with the time of their measurement; empty if the file is damaged."""
    try:
        content = json.loads(cache_file().read_text(encoding="utf-8"))
        if content["textsvm"] != __version__:
            return {}
        entries = {name: list(map(float, values)) for name, values in content["rates"].items() if values}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return {}
    valid = {}
    for name, (at, *rates) in entries.items():
        if rates and 0 <= time.time() - at < MONTH and all(isfinite(rate) and rate > 0 for rate in rates):
            valid[name] = at, tuple(rates)
    return valid
