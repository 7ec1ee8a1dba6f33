"""How much main memory new work can have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def free() -> int:
    """Bytes, within the limits of the container (cgroup) that this process runs in."""
    return min([_available_memory(), *cgroup_memory(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))])


def _available_memory() -> int:
    """Bytes of main memory that new work can have, as the system sees it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            available = next(line for line in lines if line.startswith("MemAvailable"))
        return int(available.split()[1]) << 10
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 4 << 30  # Windows has no sysconf; --memory raises this


def cgroup_memory(membership: Path, root: Path) -> Iterator[int]:
    """Bytes left under the memory limit of each control group, version 1 or 2, that this process is in."""
    try:
        lines = membership.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return
    groups = [line.strip().split(":", 2) for line in lines]
    for number, controllers, path in (group for group in groups if len(group) == 3):
        if number == "0":
            top, limit, used = root, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            top, limit, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # A container often sees its own group as the root, whatever the path is called outside.
        inside = top / path.lstrip("/")
        for folder in dict.fromkeys([inside, *inside.parents]):
            if folder == top or top in folder.parents:
                with suppress(OSError, ValueError):
                    most = int((folder / limit).read_text("ascii"))  # "max" is no number: no limit
                    yield max(0, most - int((folder / used).read_text("ascii")) + _reclaimable(folder))


def _reclaimable(group: Path) -> int:
    """Bytes of a control group that are cached files, given back when memory is asked for."""
    lines = (group / "memory.stat").read_text("ascii").splitlines()
    stat = dict(line.split() for line in lines if len(line.split()) == 2)
    return int(stat.get("inactive_file", stat.get("total_inactive_file", 0)))
