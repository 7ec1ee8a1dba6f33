"""Main memory: how much is free, and large arrays in temporary files.

`free` respects the limits of the container (cgroup), the process (ulimit) and `bounded`. Inside `on_disk`,
`empty` maps large arrays to unnamed temporary files, which the operating system pages out under memory
pressure and removes when the array is freed or the process ends. Disk space is reserved up front, so a full
disk raises `InputError` instead of ending the process with a signal.

NumPy is imported inside functions: `require` checks the limits before any large library is loaded.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from textsvm.errors import InputError, TooMuchWork
from textsvm.runtime.parallel import assigned

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from textsvm.arrays import AnyArray

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


FREEING = "textsvm frees memory"  #: Name of threads that free memory, for which `free` waits
MEMBERSHIP = Path("/proc/self/cgroup")  #: File with the names of the control groups of this process
GROUPS = Path("/sys/fs/cgroup")  #: Root folder of control groups
STATUS = Path("/proc/self/status")  #: File with the memory use of this process
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  #: Parameters of `mallopt` (malloc.h)
_DONT_NEED = 4  #: Advice of `madvise` (mman.h)
UNLIMITED = 1 << 62  #: Limit from which a control group (version 1) has none
LEAST_BOUND = 1 << 27  #: Smallest limit of `bounded`: below it only rows and features are limited
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_bound: ContextVar[int] = ContextVar("textsvm_bound", default=UNLIMITED)


def parse_bytes(memory: int | str | None) -> int | None:
    """Bytes from a number or a text such as "800MB" or "8GiB" (units are powers of 1,024)."""
    if memory is None:
        return None
    match = _SIZE.fullmatch(str(memory)) if not isinstance(memory, bool) else None
    value = int(float(match[1]) * (1 << _UNITS[match[2].lower()])) if match else 0
    if value <= 0:
        raise InputError(
            f"memory must be a positive number of bytes, such as 2000000000 or '2GiB', got {memory!r}"
        )
    return value


def bounded(memory: int) -> AbstractContextManager[None]:
    """Limit this process to `memory` bytes more than it has now, inside the block, if that is possible."""
    return assigned(_bound, min(_bound.get(), _resident() + memory if memory >= LEAST_BOUND else UNLIMITED))


def free() -> int:
    """Free main memory in bytes."""
    return min(left for _, left in _limits())


def require_free(needed: int, purpose: str, remedy: str) -> None:
    """Raise TooMuchWork with `purpose` and `remedy` if more bytes are needed than a limit leaves."""
    for _ in range(2):
        limit, left = min(_limits(), key=itemgetter(1))
        if needed <= left:
            return
        trim()
    raise TooMuchWork(
        f"{purpose} about {needed >> 20:,} MiB of main memory and {limit} leaves {left >> 20:,} MiB; take "
        f"fewer lengths of substrings (such as --kernel spectrum:1-3,log,idf), {remedy}shorten the texts "
        "(max_length, --max-length), give fewer, or raise that limit"
    )


def _limits() -> Iterator[tuple[str, int]]:
    """Names of the limits of main memory, and the bytes that they leave."""
    for thread in threading.enumerate():
        if thread.name == FREEING and thread is not threading.current_thread():
            thread.join()
    yield "the memory of this computer", _available_memory()
    yield from (("the limit of this container (cgroup)", left) for left in cgroup_memory(MEMBERSHIP, GROUPS))
    yield from ((f"the limit of this process ({name})", left) for name, left in _own_limits(STATUS))
    yield "memory (--memory)", max(0, _bound.get() - _resident())


def _resident() -> int:
    """Bytes of this process in main memory; 0 if they are unknown."""
    with suppress(OSError):
        return int(_content("/proc/self/statm").split()[1]) * mmap.PAGESIZE
    return 0


def require(resident: int, addresses: int) -> None:
    """Raise InputError if a memory limit has no room for libraries, which would end the process.

    They use `resident` bytes of memory and reserve `addresses` bytes of address space.
    """
    for limit, left in list(_limits())[1:]:
        if left < (needed := addresses if "ulimit -v" in limit else resident):
            raise InputError(
                f"textsvm needs {needed >> 20} MiB of main memory to load its libraries and {limit} leaves "
                f"{left >> 20} MiB; raise it"
            )


def return_freed_arrays(least: int = 4 << 20, arenas: int = 0) -> None:
    """Let glibc return freed arrays of `least` bytes at once, and use at most `arenas` heaps (0: any)."""
    with suppress(AttributeError, OSError, TypeError):  # another C library, or Windows
        set_option = ctypes.CDLL(None).mallopt
        set_option(_MMAP_THRESHOLD, least)
        set_option(_TRIM_THRESHOLD, 4 * least)
        if arenas:
            set_option(_ARENA_MAX, arenas)


def trim() -> None:
    """Return freed memory, and the 70 MB of the compiler's code, which is read again if it is needed."""
    with suppress(OSError, AttributeError, TypeError, ValueError):  # Linux with glibc
        library = ctypes.CDLL(None)
        library.malloc_trim(0)
        for line in _content("/proc/self/maps").splitlines():
            if "libllvmlite" in line and "r-xp" in line:  # other parts have been written to
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONT_NEED)


def _available_memory() -> int:
    """Available main memory of the system in bytes."""
    with suppress(OSError, StopIteration):
        lines = _content("/proc/meminfo").splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable"))
        return int(available.split()[1]) << 10
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 4 << 30  # Windows has no sysconf; --memory raises this


def cgroup_memory(membership: Path, root: Path) -> Iterator[int]:
    """Bytes left under the memory limit of each control group (v1 or v2) of this process."""
    try:
        lines = _content(membership).splitlines()
    except OSError:
        return
    groups = [line.strip().split(":", 2) for line in lines]
    for number, controllers, path in (group for group in groups if len(group) == 3):
        if number == "0":
            top, limit, used = str(root), "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            top, limit, used = f"{root}/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # A container often sees its own group as the root, whatever its path is outside.
        names = [name for name in path.split("/") if name]
        for depth in range(len(names), -1, -1):
            folder = "/".join([top, *names[:depth]])
            with suppress(OSError, ValueError):
                most = int(_content(f"{folder}/{limit}"))  # "max" raises ValueError: no limit
                if most < UNLIMITED:
                    yield max(0, most - int(_content(f"{folder}/{used}")) + _reclaimable(folder))


def _reclaimable(group: str) -> int:
    """Bytes of a control group's page cache that can be reclaimed."""
    lines = _content(f"{group}/memory.stat").splitlines()
    stat = dict(line.split() for line in lines if len(line.split()) == 2)
    # In version 1 "inactive_file" excludes child groups, but their use counts here too.
    return int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _content(path: Path | str) -> str:
    """Content of a small system file, at a third of the cost of `Path.read_text`."""
    with open(path, "rb", buffering=0) as stream:
        return (stream.read() or b"").decode("utf-8", "surrogateescape")


def _own_limits(status: Path) -> Iterator[tuple[str, int]]:
    """Limits of this process's address space and data segment, with the bytes left under each."""
    if resource is None:
        return
    kinds = {"VmSize": ("ulimit -v", resource.RLIMIT_AS), "VmData": ("ulimit -d", resource.RLIMIT_DATA)}
    limits = {name: (limit, resource.getrlimit(number)[0]) for name, (limit, number) in kinds.items()}
    limits = {name: limit for name, limit in limits.items() if limit[1] != resource.RLIM_INFINITY}
    with suppress(OSError):
        lines = [line.split() for line in _content(status).splitlines()] if limits else []
        used = {line[0].rstrip(":"): line[1] for line in lines if len(line) > 1}
        for name, (limit, most) in limits.items():
            if name in used:
                yield limit, max(0, most - (int(used[name]) << 10))


MIN_BYTES = 1 << 22  #: Smallest array in bytes that is put into a file
_on_disk: ContextVar[bool] = ContextVar("textsvm_on_disk", default=False)


def on_disk(wanted: bool) -> AbstractContextManager[None]:
    """Put large arrays created by `empty` inside the block into temporary files if `wanted`."""
    return assigned(_on_disk, wanted)


def empty(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """Uninitialised 1-d array, in memory or (inside `on_disk`) in a temporary file."""
    import numpy as np

    nbytes = int(size) * np.dtype(dtype).itemsize
    if not _on_disk.get() or nbytes < MIN_BYTES:
        return np.empty(size, dtype)
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(prefix="textsvm-", dir=folder) as file:
            _reserve(file, nbytes, folder)
            return np.memmap(file, dtype, "r+", shape=(int(size),)).view(np.ndarray)
    except OSError as error:
        raise InputError(
            f"{nbytes / 2**30:.2f} GiB of features cannot be kept in {folder} ({error.strerror or error}); "
            "let TMPDIR name a folder with more room, or raise memory (--memory)"
        ) from error


def copied(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Copy an array to another dtype, allocated by `empty`."""
    copy = empty(len(array), dtype)
    copy[:] = array
    return copy


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays of the same dtype, allocated by `empty`."""
    import numpy as np

    return np.concatenate(parts, out=empty(sum(map(len, parts)), parts[0].dtype))


def shrink(arrays: list[AnyArray], sizes: Iterable[int]) -> None:
    """Free the ends of 1-d arrays that nothing but this list refers to; other arrays are left as they are."""
    for k, size in enumerate(sizes):
        with suppress(ValueError):  # NumPy counts the references
            arrays[k].resize(int(size))


def _reserve(file: IO[bytes], nbytes: int, folder: str) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, nbytes)
    elif shutil.disk_usage(folder).free < nbytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    else:
        file.truncate(nbytes)
