"""All cores, with progress and a Ctrl-C that works: compiled functions that release the GIL, in threads.

Locks that outlive a fork: a thread that held one does not exist in the child, and never gives it back.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import lru_cache
from typing import Any


class Lock:
    """A reentrant lock that is free in a forked child, whoever held it in the parent."""

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *failed: Any) -> None:
        self._lock.release()


#: Called with (work done, work in all), in any unit; may raise to stop the work.
Progress = Callable[[float, float], None]
#: Called with (stage, work done, work in all); stages are "encode", "gram", "solve", "predict", ...
StageProgress = Callable[[str, float, float], None]

_limit: ContextVar[int | None] = ContextVar("textsvm_threads", default=None)
#: Pools by their number of threads, kept alive: making one takes longer than a small task.
_pools: dict[int, ThreadPoolExecutor] = {}
_worker = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)
#: Blocks of `one_blas_thread` at work, and threads of each library before the first of them.
_alone: list[list[int]] = []
_changing = Lock()


@contextmanager
def limit(n_jobs: int | None) -> Iterator[None]:
    """Use at most `n_jobs` threads inside the block; None or -1 leaves it at all cores."""
    token = _limit.set(n_jobs if n_jobs is not None and n_jobs > 0 else None)
    try:
        yield
    finally:
        _limit.reset(token)


def n_threads() -> int:
    """Threads to use: the limit in force, else all cores this process may run on; 1 inside of `run`.

    ``NUMBA_NUM_THREADS`` in the environment, which joblib sets for its worker processes, is the most.
    """
    if getattr(_worker, "busy", False):
        return 1
    limited = _limit.get()
    if limited is not None:
        return limited
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shared = os.environ.get("NUMBA_NUM_THREADS", "")
    return min(cores, int(shared)) if shared.isdecimal() and int(shared) else cores


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread of BLAS for each of ours; threadpoolctl's own way takes milliseconds.

    Their number is the process's: of blocks in several threads the first sets it, the last puts it back.
    """
    with _changing:
        libraries = _blas().lib_controllers
        _alone.append(_alone[0] if _alone else [one.get_num_threads() for one in libraries])
        for one in libraries:
            one.set_num_threads(1)
    try:
        yield
    finally:
        with _changing:
            before = _alone.pop()
            for one, threads in zip(libraries, before, strict=True):
                one.set_num_threads(1 if _alone else threads)


@lru_cache(maxsize=1)
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def limited() -> bool:
    """Whether there is a limit in force."""
    return _limit.get() is not None


def part(progress: Progress | None, first: float, size: float, total: float) -> Progress | None:
    """Progress of a part of some work, as progress of all of it.

    Parameters
    ----------
    progress : callable, optional
        Of all the work; None stays None.
    first, size, total : float
        What comes before the part, the part, and all the work, in one unit.
    """
    if progress is None:
        return None
    return lambda done, whole: progress(first + (size * (done / whole) if whole else size), total)


def of_stage(progress: StageProgress | None, stage: str) -> Progress | None:
    """Progress of one stage, as numerics call it."""
    return None if progress is None else lambda done, total: progress(stage, done, total)


def run(
    function: Callable[[Any], object],
    pieces: Sequence[Any],
    work: Sequence[float] | None = None,
    progress: Progress | None = None,
    watch: Callable[[], None] | None = None,
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
    watch : callable, optional
        Called from the calling thread every tenth of a second or so; may raise to stop the work.
    """
    costs = [1.0] * len(pieces) if work is None else list(work)
    total, done = float(sum(costs)), 0.0
    if getattr(_worker, "busy", False):  # inside of another `run`: its cores are all at work
        for piece in pieces:
            function(piece)
        return
    threads = n_threads()
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads)
    pool = _pools[threads]
    # A context for each piece: what is said for the block around this call holds in threads too.
    pending = {
        pool.submit(copy_context().run, _call, function, piece): cost
        for piece, cost in zip(pieces, costs, strict=True)
    }
    try:
        while pending:
            for future in wait(pending, 0.1 if watch else None, FIRST_COMPLETED).done:
                future.result()
                done += pending.pop(future)
            if watch is not None:
                watch()
            if progress is not None:
                progress(done, total)
    except BaseException as error:
        for future in pending:
            future.cancel()
        if isinstance(error, KeyboardInterrupt):
            # Not waiting for the pieces at work, which of very long documents take minutes. The pool is
            # not shut down: other threads may have pieces in it, and it ends with the last of them.
            _pools.pop(threads, None)
        else:
            wait([future for future in pending if not future.cancelled()])
        raise


def _call(function: Callable[[Any], object], piece: Any) -> None:
    _worker.busy = True
    try:
        function(piece)
    finally:
        _worker.busy = False


def lap(seconds: dict[str, float], stage: str, since: float) -> float:
    """Add the time since then to a stage; the time now."""
    now = time.perf_counter()
    seconds[stage] = seconds.get(stage, 0.0) + now - since
    return now
