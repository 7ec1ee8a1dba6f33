"""Memory of a benchmark: peak of the process or of the GPU."""

from __future__ import annotations

import sys

from textsvm.runtime import device as devices


def free_all() -> None:
    """Free pooled device memory, so that the peak counts later work only."""
    if "cupy" in sys.modules:
        devices.cupy().get_default_memory_pool().free_all_blocks()


def peak_memory() -> int:
    """Bytes of the memory pool on the GPU, or the largest resident set of this process."""
    if "cupy" in sys.modules:
        return int(devices.cupy().get_default_memory_pool().total_bytes())
    return largest_resident()


def largest_resident() -> int:
    """Bytes of the largest resident set of this process; 0 on Windows."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
