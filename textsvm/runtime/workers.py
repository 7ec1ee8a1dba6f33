"""Independent pieces of work as tasks for Dask workers on several computers.

    with on_workers("tcp://10.0.0.1:8786"):
        tune(model, texts, labels, grid)

Code with such pieces gets the workers from `current` and passes the pieces to `Workers.run`. A task runs in a
single thread, so that its result does not depend on the number of threads. Data that all tasks share is sent
once to each worker. If a worker ends, its unfinished tasks and results are computed again elsewhere, and lost
shared data is sent again; each result is returned once.
"""

from __future__ import annotations

import logging
import platform
import pydoc
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import ContextVar
from importlib.util import find_spec
from pickle import PicklingError
from typing import Any

from textsvm.errors import InputError, plural
from textsvm.runtime import parallel
from textsvm.runtime.parallel import Progress

PATIENCE = 10.0  #: Seconds to wait for a scheduler, and for its first worker
ABANDONED = 60.0  #: Seconds to wait for new workers once all have gone
PACKAGES = ("textsvm", "numpy", "scipy", "numba")  #: Packages whose versions affect the bits of results

_current: ContextVar[Workers | None] = ContextVar("textsvm_workers", default=None)


def current() -> Workers | None:
    """The workers of the surrounding `on_workers` block, if any."""
    return _current.get()


@contextmanager
def on_workers(where: Any) -> Iterator[Workers]:
    """Use Dask workers for divisible work inside the block.

    Kernel matrices of edit-distance and gap-weighted kernels are computed in tiles; cross-validation and
    tuning solve the folds of every kernel, and its paths along C, as tasks. Results are the same as without
    workers.

    Parameters
    ----------
    where : str or cluster of Dask
        The address of a scheduler, such as "tcp://10.0.0.1:8786", or "local" for a worker process per core of
        this computer during the block.

    Raises
    ------
    InputError
        If `distributed` is not installed, no scheduler answers, it has no workers, or these have other
        versions of textsvm or its numerical packages.

    Examples
    --------
    >>> from distributed import LocalCluster
    >>> from textsvm import SVC, EditDistance, cross_validate, on_workers
    >>> names, countries = ["Anna", "Hanna", "Jana", "Juan", "Ivan", "Joan"], ["de"] * 3 + ["es"] * 3
    >>> cluster = LocalCluster(n_workers=1, processes=False, dashboard_address=None)
    >>> with cluster, on_workers(cluster):
    ...     validation = cross_validate(SVC(EditDistance()), names, countries, cv=3)
    >>> validation.pooled["accuracy"]
    1.0
    """
    require_dask()
    with ExitStack() as stack:
        cluster = stack.enter_context(_local()) if isinstance(where, str) and where == "local" else where
        client = stack.enter_context(_connected(cluster))
        workers = Workers(client)
        require_same_versions(client)
        stack.enter_context(parallel.assigned(_current, workers))
        yield workers


def require_dask() -> None:
    """Raise InputError if `distributed` is not installed."""
    if find_spec("distributed") is None:
        raise InputError("workers need Dask, which is not installed: pip install distributed")


def _distributed() -> Any:
    """The package `distributed`, which is optional and takes long to import."""
    import distributed

    return distributed


def _local() -> Any:
    # No memory limit: a worker near its limit would write shared data to disk, or end.
    return _distributed().LocalCluster(
        n_workers=parallel.n_threads(),
        threads_per_worker=1,
        memory_limit=0,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,  # failures are reported here
        preload=["import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"],  # Ctrl-C is for this process
    )


@contextmanager
def _connected(where: Any) -> Iterator[Any]:
    """A client of a scheduler that has workers."""
    distributed = _distributed()
    name = getattr(where, "scheduler_address", where)
    try:
        client = distributed.Client(where, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # TimeoutError is an OSError
        raise InputError(
            f"no scheduler of Dask answers at {name} ({type(error).__name__}, {PATIENCE:g} s); start one "
            "with `dask scheduler`, and give its address, such as tcp://HOST:8786"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise InputError(
                f"the scheduler at {name} has no workers after {PATIENCE:g} s; start some with "
                f"`dask worker {name}`, where textsvm is installed"
            ) from error
        yield client


def versions(locate: Callable[..., Any] = lambda function, *args: function(*args)) -> dict[str, Any]:
    """Versions of packages and Python; `locate` calls a standard function here or on the workers."""
    packages = {name: locate(pydoc.locate, f"{name}.__version__") for name in PACKAGES}
    return packages | {"python": locate(platform.python_version)}


def require_same_versions(client: Any) -> None:
    """Raise InputError if a worker has other versions than this process."""
    ours, theirs = versions(), versions(lambda *call: client.run(*call, on_error="return"))
    for name, version in ours.items():
        for worker, other in theirs[name].items():
            if other is None or isinstance(other, BaseException):
                raise InputError(f"the worker {worker} has no {name}; install {name} {version} there")
            if other != version:
                raise InputError(
                    f"the worker {worker} has {name} {other} and this computer has {version}; results would "
                    "not be those of a single computer, so install the same version"
                )


class Workers:
    """The workers of a scheduler, for a `distributed.Client`.

    `worth` is the least work to distribute, in predicted seconds on all cores of this computer.
    """

    worth = 1.0

    def __init__(self, client: Any) -> None:
        self._client = client
        #: Values on the workers and their futures, by the digest of the content.
        self._sent: dict[str, tuple[Any, Any]] = {}

    @property
    def threads(self) -> int:
        """Number of tasks that run at a time."""
        return max(1, sum(self._client.nthreads().values()))

    @property
    def description(self) -> str:
        """Number and address of the workers, for people."""
        count, tasks = plural(len(self._client.nthreads()), "worker"), plural(self.threads, "task")
        return f"{count} at {self._client.scheduler.address} ({tasks} at a time)"

    def pays(self, seconds: float) -> bool:
        """Whether to distribute work that takes a core this long."""
        return seconds >= self.worth * parallel.n_threads()

    def run(
        self, function: Callable[..., Any], shared: Sequence[object], pieces: Sequence[object],
        work: Sequence[float] | None = None, progress: Progress | None = None,
    ) -> Iterator[tuple[int, Any]]:  # fmt: skip
        """Call ``function(*shared, piece)`` for every piece, each in a thread of a worker.

        Yields the number and result of each piece, in order of completion. Workers can import the function;
        it has no side effects, as it may be called again if a worker ends. `shared` is sent once to each
        worker. `work` is the relative cost of each piece; costly pieces start first.
        """
        costs = [1.0] * len(pieces) if work is None else list(work)
        missing = sorted(range(len(pieces)), key=lambda k: -costs[k])
        total, done = sum(costs), 0.0
        while missing:
            # Closing cancels the remaining tasks after a failure or an interruption.
            with closing(self._round(function, shared, {k: pieces[k] for k in missing})) as results:
                for number, result in results:
                    missing.remove(number)
                    done += costs[number]
                    yield number, result
                    if progress is not None:
                        progress(done, total)

    def _round(
        self, function: Callable[..., Any], shared: Sequence[object], pieces: dict[int, Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """Results of some pieces, except pieces whose shared data has been lost."""
        held = [self._send(value) for value in shared]
        submit, last = self._client.submit, time.monotonic()
        pending = {submit(_call, function, *held, piece, pure=False): k for k, piece in pieces.items()}
        try:
            while pending:
                arrived = self._arrived(list(pending))
                last = self._require_some(last)
                for future in arrived:
                    number = pending.pop(future)
                    if future.status == "finished":
                        with suppress(CancelledError):
                            yield number, future.result()
                    elif future.status == "error":
                        raise _as_input_error(future.exception())
                    future.release()
                    del future
        finally:
            # Tasks that run end by themselves; others do not begin any more.
            if pending:
                self._client.cancel(list(pending), force=True)

    def _send(self, value: object) -> Any:
        """Future of a value on the workers, sent there if necessary."""
        from dask.base import tokenize

        names = (name for name, (sent, _) in self._sent.items() if sent is value)
        name = next(names, None) or str(tokenize(value))
        _, future = self._sent.get(name, (None, None))
        if future is None or future.status != "finished":
            future = self._scatter(value)
        self._sent[name] = value, future
        return future

    def _scatter(self, value: object) -> Any:
        last = time.monotonic()
        while True:
            try:
                # In a list, because a list itself would be sent element by element.
                [future] = self._client.scatter([value], broadcast=True, hash=False)
                return future
            except (TypeError, AttributeError, PicklingError) as error:
                raise InputError(
                    f"data cannot be sent to the workers ({error}); a function of tokens, or a kernel "
                    "function, must not refer to objects of this process alone, such as an open file"
                ) from error
            except (OSError, _distributed().TimeoutError):  # a worker ended during the transfer
                last = self._require_some(last)

    def forget(self, value: object) -> None:
        """Free the memory of a value on the workers."""
        self._sent = {name: sent for name, sent in self._sent.items() if sent[0] is not value}

    def _arrived(self, futures: Sequence[Any]) -> list[Any]:
        """Completed futures, waiting for at most a second."""
        distributed = _distributed()
        with suppress(distributed.TimeoutError, CancelledError), self._client.as_current():
            distributed.wait(futures, timeout=1, return_when="FIRST_COMPLETED")
        return [future for future in futures if future.status != "pending"]

    def _require_some(self, last: float) -> float:
        """Time at which workers were last present; InputError if that is too long ago."""
        now = time.monotonic()
        if self._client.nthreads():
            return now
        if now - last > ABANDONED:
            raise InputError(
                f"all workers at {self._client.scheduler.address} have been gone for {ABANDONED:g} s; start "
                "some, and run this again"
            )
        return last


def _call(function: Callable[..., Any], *arguments: object) -> Any:
    with parallel.limit(1):
        return function(*arguments)


def _as_input_error(error: BaseException) -> BaseException:
    if not isinstance(error, _distributed().KilledWorker):
        return error
    return InputError(
        f"workers have ended one after the other with the same task, the last at {error.last_worker}, as "
        "they do when memory runs out; give them more, or run fewer tasks at a time (dask worker --nthreads)"
    )
