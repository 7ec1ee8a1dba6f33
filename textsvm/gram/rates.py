"""What this machine reads, writes and brings to its cards in a second: measured once, and kept for a month.

A measurement takes some tenths of a second, and is made only where a decision depends on it. It is kept in
the user's folder of caches (``$XDG_CACHE_HOME/textsvm``, or ``~/.cache/textsvm``), under the names of the
machine and of the disk's mount, or of the card. A file there that cannot be read, or is not what was written,
counts as none.
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

from textsvm.errors import InputError
from textsvm.runtime.files import replacing

FORMAT, MONTH = 1, 30 * 86_400.0
#: Bytes that are written at a time, and at most, and seconds after which it is enough; bytes read at a time.
_WRITTEN, _MOST, _ENOUGH, _PIECE = 16 << 20, 128 << 20, 0.2, 2 << 20
#: Bytes a second of a disk that cannot be tried: a modest SSD's.
UNKNOWN = (5e8, 5e8)
#: Threads that read a disk, as `textsvm.gram.panels` does.
READERS = 16


def cache_file() -> Path:
    """Where measurements are kept."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else Path.home() / ".cache"
    return base / "textsvm" / "rates.json"


def kept(name: str, measure: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """What was measured under this name within a month, else what is measured now."""
    name = f"{platform.node()} {name}"
    known = _read()
    if name in known:
        return known[name][1]
    rates = measure()
    with suppress(InputError, OSError, RuntimeError):  # RuntimeError: there is no home
        cache_file().parent.mkdir(parents=True, exist_ok=True)
        entries = {
            each: [at, *values] for each, (at, values) in {**known, name: (time.time(), rates)}.items()
        }
        with replacing(cache_file()) as temporary:
            text = json.dumps({"format": FORMAT, "rates": entries}, indent=1)
            temporary.write_text(text, encoding="utf-8", newline="\n")
    return rates


def _read() -> dict[str, tuple[float, tuple[float, ...]]]:
    """All that was kept and is not too old; nothing where the file is not what `kept` writes."""
    try:
        found = json.loads(cache_file().read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            return {}
        entries = {name: [float(value) for value in values] for name, values in found["rates"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return {}
    return {
        name: (at, tuple(rates))
        for name, (at, *rates) in ((name, values) for name, values in entries.items() if len(values) > 1)
        if 0 <= time.time() - at < MONTH and all(isfinite(rate) and rate > 0 for rate in rates)
    }


def disk_rates(folder: Path) -> tuple[float, float]:
    """Bytes a second that are read from and written to the disk of a folder, which need not be there yet."""
    path = folder.absolute()
    there = next(one for one in (path, *path.parents) if one.is_dir())
    mount = next(one for one in (there.resolve(), *there.resolve().parents) if os.path.ismount(one))
    try:
        read, write = kept(f"disk {mount}", lambda: measured_disk(there))
    except (OSError, ValueError):  # it may not be written, it is full, or another version kept other values
        return UNKNOWN
    return read, write


def measured_disk(folder: Path) -> tuple[float, float]:
    """The same, measured with a file without a name that is gone afterwards.

    Raises
    ------
    OSError
        If nothing can be written there.
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        handle, piece, size = file.fileno(), os.urandom(_WRITTEN), 0
        clock = time.perf_counter()
        while size < _MOST and time.perf_counter() - clock < _ENOUGH:
            size += os.write(handle, piece)
            os.fsync(handle)
        written = time.perf_counter() - clock
        if hasattr(os, "posix_fadvise"):  # so that it is the disk that is read, and not the system's cache
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
