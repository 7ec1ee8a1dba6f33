"""All cores, with progress and a Ctrl-C that works: compiled functions that release the GIL, in threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: Called with (work done, work in all), in any unit; may raise to stop the work.
Progress = Callable[[float, float], None]

_limit: ContextVar[int | None] = ContextVar("textsvm_threads", default=None)


@contextmanager
def limit(n_jobs: int | None) -> Iterator[None]:
    """Use at most `n_jobs` threads inside the block; None or -1 leaves it at all cores."""
    token = _limit.set(n_jobs if n_jobs is not None and n_jobs > 0 else None)
    try:
        yield
    finally:
        _limit.reset(token)


def n_threads() -> int:
    """Threads to use: the limit in force, else all cores this process may run on."""
    limited = _limit.get()
    if limited is not None:
        return limited
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    function: Callable[[Any], object],
    pieces: Sequence[Any],
    work: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> None:
    """Call ``function(piece)`` for every piece, on all cores.

    Parameters
    ----------
    function : callable
        Releases the GIL for most of its time, and writes its result into an array of the caller.
    pieces : sequence
        Handed out in order; small enough that an interruption is felt within a second or so.
    work : sequence of float, optional
        Relative cost of each piece, for `progress`; 1 each by default.
    progress : callable, optional
        Called from the calling thread with (work done, work in all).
    """
    costs = [1.0] * len(pieces) if work is None else list(work)
    total, done = float(sum(costs)), 0.0
    pool = ThreadPoolExecutor(n_threads())
    waits = True
    try:
        pending = {pool.submit(function, piece): cost for piece, cost in zip(pieces, costs, strict=True)}
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                future.result()
                done += pending.pop(future)
            if progress is not None:
                progress(done, total)
    except KeyboardInterrupt:
        waits = False  # for the pieces at work, which of very long documents take minutes
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)
