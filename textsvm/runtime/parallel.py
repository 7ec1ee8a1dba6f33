"""Threads: compiled functions that release the GIL run on all cores, with progress and a working Ctrl-C."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class Lock:
    """Reentrant lock that is free in a forked child: the thread that held it does not exist there."""

    _alive: ClassVar[WeakSet[Lock]] = WeakSet()

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._alive.add(self)

    @classmethod
    def renew_all(cls) -> None:
        """Free all locks; called in a forked child."""
        for lock in cls._alive:
            lock._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *failed: object) -> None:
        self._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Lock.renew_all)

#: Called with (work done, total work) in any unit; may raise to stop the work.
Progress = Callable[[float, float], None]
#: Called with (stage, work done, total work); stages are "encode", "gram", "solve", "predict", ...
StageProgress = Callable[[str, float, float], None]

_limit: ContextVar[int | None] = ContextVar("textsvm_threads", default=None)


class _ThreadState(threading.local):
    """Whether this thread works on a piece of `run`."""

    busy = False


_worker = _ThreadState()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Pool of so many threads, kept alive, since starting one takes longer than short work."""
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


@contextmanager
def assigned(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a context variable a value inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def limit(n_jobs: int | None) -> AbstractContextManager[None]:
    """Use at most `n_jobs` threads inside the block; None or -1 means all cores."""
    return assigned(_limit, n_jobs if n_jobs is not None and n_jobs > 0 else None)


def n_threads() -> int:
    """Number of threads to use: the limit in force, else the cores available to this process; 1 inside `run`.

    ``NUMBA_NUM_THREADS``, which joblib sets for its worker processes, is an upper bound.
    """
    if _worker.busy:
        return 1
    if (limited := _limit.get()) is not None:
        return limited
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shared = os.environ.get("NUMBA_NUM_THREADS", "")
    return min(cores, int(shared)) if shared.isdecimal() and int(shared) else cores


class _BlasLimit:
    """Number of active `one_blas_thread` blocks, and the threads of each library before the first block."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.blocks = 0
        self.threads: list[int] = []


_blas_limit = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to a single thread inside the block; faster than threadpoolctl's own context manager.

    The limit is global to the process: the first of several concurrent blocks sets it, the last restores it.
    """
    with _blas_limit.lock:
        libraries = _blas().lib_controllers
        if not _blas_limit.blocks:
            _blas_limit.threads = [library.get_num_threads() for library in libraries]
        _blas_limit.blocks += 1
        for library in libraries:
            library.set_num_threads(1)
    try:
        yield
    finally:
        with _blas_limit.lock:
            _blas_limit.blocks -= 1
            if not _blas_limit.blocks:
                for library, threads in zip(libraries, _blas_limit.threads, strict=True):
                    library.set_num_threads(threads)


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def limited() -> bool:
    """Whether a thread limit is in force."""
    return _limit.get() is not None


def report(progress: Progress | None, done: float, total: float) -> None:
    """Call `progress`, if given."""
    if progress is not None:
        progress(done, total)


def part(progress: Progress | None, first: float, size: float, total: float) -> Progress | None:
    """Progress callback for a part of some work that reports to the callback of the whole; None stays None.

    `first`, `size` and `total` are the work before the part, in the part and overall, in the same unit.
    """
    if progress is None:
        return None
    return lambda done, whole: progress(first + (size * (done / whole) if whole else size), total)


def of_stage(progress: StageProgress | None, stage: str) -> Progress | None:
    """Progress callback of a stage of a `StageProgress`."""
    return None if progress is None else lambda done, total: progress(stage, done, total)


def run(
    function: Callable[[Any], object], pieces: Sequence[object], work: Sequence[float] | None = None,
    progress: Progress | None = None, watch: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Call ``function(piece)`` for every piece on all cores.

    A single piece without progress, and pieces inside another `run`, are computed on the calling thread. The
    function releases the GIL most of the time and writes its result into an array of the caller. Pieces are
    small enough that an interruption takes effect within about a second. Concurrent calls share the threads.

    `work` is the relative cost of each piece, for `progress`. `progress` and `watch` are called from the
    calling thread after each piece, `watch` also every 0.1 s, and not inside another `run`; they may raise to
    stop the work.
    """
    alone = len(pieces) == 1 and progress is None and watch is None
    if alone or _worker.busy:  # inside another `run`, which uses all cores
        for piece in pieces:
            function(piece)
        return
    if not len(pieces):
        return
    costs = [1.0] * len(pieces) if work is None else list(work)
    total, done = float(sum(costs)), 0.0
    queue = _PieceQueue(function, pieces, n_threads(), report_each=bool(progress or watch))
    try:
        queue.start_thread()
        while True:
            index, unfinished, error = -1, 1, None
            with suppress(Empty):  # with a timeout, because Windows handles Ctrl-C only between waits
                index, unfinished, error = queue.reports.get(timeout=0.1 if watch else 0.5)
            if error is not None:
                raise error
            if watch is not None:
                watch()
            if progress is not None and index >= 0:
                done += costs[index]
                progress(done, total)
            if not unfinished:
                return
    except BaseException as error:
        running = queue.cancel()
        if isinstance(error, KeyboardInterrupt):
            # Do not wait for running pieces, which take minutes for very long documents. The pool is not
            # shut down: other threads may use it, and it ends with the last of its pieces.
            _pool.cache_clear()
        else:
            while running:
                _, running, _ = queue.reports.get()
        raise
    finally:
        queue.release()


class _PieceQueue:
    """Queue of pieces for a call of `run`.

    Each thread starts at most two more threads while pieces are waiting. Short work thus ends before all
    threads are started, since starting all of them can cost more than the work. `reports` receives tuples
    (index of a finished piece, number of unfinished pieces, error): for every piece if `report_each`, else
    for the last piece and for errors.
    """

    def __init__(
        self, function: Callable[[Any], object], pieces: Sequence[object], threads: int, report_each: bool
    ) -> None:
        self.reports: SimpleQueue[tuple[int, int, BaseException | None]] = SimpleQueue()
        self._function, self._pieces, self._report_each = function, pieces, report_each
        self._pool = _pool(threads)
        self._waiting, self._unfinished = deque(range(len(pieces))), len(pieces)
        self._threads = min(threads, len(pieces))
        self._lock = threading.Lock()

    def start_thread(self) -> None:
        """Start another thread, if there may be more and pieces are waiting."""
        with self._lock:
            if not self._threads or not self._waiting:
                return
            self._threads -= 1
        # A copy of the context, so that context variables of the caller hold in threads too.
        self._pool.submit(copy_context().run, self._work)

    def cancel(self) -> int:
        """Start no further piece; return the number of running ones."""
        with self._lock:
            self._unfinished -= len(self._waiting)
            self._waiting.clear()
            return self._unfinished

    def release(self) -> None:
        """Drop the function and its arrays, which a thread would keep until it has come to its end."""
        del self._function, self._pieces

    def _work(self) -> None:
        _worker.busy = True
        try:
            with suppress(Exception):  # no further thread can be started; this one does their work
                self.start_thread()
                self.start_thread()
            while True:
                with self._lock:
                    if not self._waiting:
                        return
                    index = self._waiting.popleft()
                error = self._error_of(index)
                with self._lock:
                    self._unfinished -= 1
                    if self._report_each or error is not None or not self._unfinished:
                        self.reports.put((index, self._unfinished, error))
        finally:
            _worker.busy = False

    def _error_of(self, index: int) -> BaseException | None:
        try:
            self._function(self._pieces[index])
        except BaseException as error:
            return error
        return None


def lap(seconds: dict[str, float], stage: str, since: float) -> float:
    """Add the time since `since` to a stage of `seconds`; return the current time."""
    now = time.perf_counter()
    seconds[stage] = seconds.get(stage, 0.0) + now - since
    return now
