"""Work on all cores: every piece once, progress, interruptions, and a pool that is kept alive."""

import contextvars
import gc
import itertools
import threading
import time
import weakref
from unittest.mock import Mock

import numpy as np
import pytest

from textsvm import SVC, CalibratedSVC, OneClassSVM
from textsvm.runtime import parallel


@pytest.fixture(autouse=True)
def two_threads():
    with parallel.limit(2):
        yield


@pytest.mark.parametrize("n", [0, 1, 20, 1000])
def test_every_piece_once_and_progress_over_all_of_them(n):
    for threads in (2, 8):
        with parallel.limit(threads):
            done, seen, watched = [], [], []
            parallel.run(done.append, range(n))
            parallel.run(done.append, range(n), range(n), lambda *at: seen.append(at))  # noqa: B023
            parallel.run(done.append, range(n), watch=lambda: watched.append(len(done)))  # noqa: B023
            assert sorted(done) == sorted([*range(n)] * 3)
            assert not n or watched[-1] == 3 * n
            assert n < 2 or seen[-1] == (n * (n - 1) / 2,) * 2
            assert all(a[0] <= b[0] for a, b in itertools.pairwise(seen))


def test_the_pool_is_kept_alive():
    names = set()
    for _ in range(10):
        parallel.run(lambda _: names.add(threading.current_thread().name), range(8))
    assert len(names) <= 2


def test_all_threads_work_at_once():
    with parallel.limit(6):
        together = threading.Barrier(6)
        parallel.run(lambda _: together.wait(30), range(6))


def test_context_variables_of_the_caller_hold_in_the_threads():
    seen = []
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(7)
    parallel.run(lambda _: seen.append(variable.get()), range(20))
    assert seen == [7] * 20


@pytest.mark.parametrize(
    ("threads", "error"), [(11, RuntimeError("can't start new thread")), (12, MemoryError())]
)
def test_a_single_thread_suffices(monkeypatch, threads, error):
    """If the system starts no second thread, the first takes all pieces."""
    done, started = [], []
    start = threading.Thread.start

    def once(thread):
        started.append(thread)
        if len(started) > 1:
            raise error
        start(thread)

    def piece(i):
        time.sleep(0.002)
        done.append(i)

    with parallel.limit(threads), monkeypatch.context() as patched:  # there is no such pool yet
        patched.setattr(threading.Thread, "start", once)
        parallel.run(piece, range(50))
    assert sorted(done) == list(range(50))
    assert len(started) > 1


def test_pieces_may_run_pieces():
    done = []

    def outer(i):
        assert parallel.n_threads() == 1
        parallel.run(lambda j: done.append((i, j)), range(3))

    parallel.run(outer, range(4))
    assert sorted(done) == [(i, j) for i in range(4) for j in range(3)]
    assert parallel.n_threads() == 2


def test_an_error_of_a_piece_is_raised_after_the_pieces_at_work_have_ended():
    ended = []

    def work(i):
        if i == 0:
            raise ValueError("the first piece")
        time.sleep(0.05)
        ended.append(i)

    with pytest.raises(ValueError, match="the first piece"):
        parallel.run(work, range(100))
    before = len(ended)
    time.sleep(0.2)
    assert len(ended) == before < 100


def test_an_interruption_does_not_wait_and_the_next_run_has_threads():
    release = threading.Event()

    with pytest.raises(KeyboardInterrupt):
        parallel.run(lambda _: release.wait(30), range(4), watch=Mock(side_effect=KeyboardInterrupt))
    done = []
    parallel.run(done.append, range(4))
    assert sorted(done) == [0, 1, 2, 3]
    release.set()


def test_progress_may_stop_the_work():
    with pytest.raises(RuntimeError, match="enough"):
        parallel.run(lambda _: None, range(100), progress=Mock(side_effect=RuntimeError("enough")))


def test_progress_of_a_part_and_of_a_stage():
    seen = []
    within = parallel.part(lambda *at: seen.append(at), 3, 2, 10)
    within(1, 4)
    within(0, 0)
    parallel.of_stage(lambda *at: seen.append(at), "gram")(1, 2)
    assert seen == [(3.5, 10), (5, 10), ("gram", 1, 2)]
    assert parallel.part(None, 0, 1, 2) is parallel.of_stage(None, "gram") is None


@pytest.mark.parametrize("letter", ["e", "é"])
@pytest.mark.parametrize("estimator", [SVC, CalibratedSVC, OneClassSVM], ids=lambda kind: kind.__name__)
def test_each_stage_of_a_training_ends_at_its_total(estimator, letter):
    """Also where a part has no work: the folded case of ASCII texts, a term of the kernel in the cache."""
    texts = [f"{word} {i} Hollo".replace("e", letter) for i in range(15) for word in ("Apple", "red pears")]
    stages = {}

    def note(stage, done, total):
        stages[stage] = done / total

    model = estimator()
    targets = () if estimator is OneClassSVM else ([0, 1] * 15,)
    model.fit(texts, *targets, progress=note)
    assert {"encode", "gram", "solve"} <= stages.keys()
    assert all(share == pytest.approx(1) for share in stages.values()), stages
    stages.clear()
    model.predict(texts, progress=note)
    assert all(share == pytest.approx(1) for share in stages.values()), stages


def test_arrays_of_the_work_are_free_when_it_is_done():
    for _ in range(100):
        array = np.zeros(10)
        alive = weakref.ref(array)
        with parallel.limit(3):
            parallel.run(lambda piece, array=array: array[piece], range(3))
        del array
        assert alive() is None


def test_a_lock_that_nobody_holds_on_to_is_freed():
    lock = parallel.Lock()
    reference = weakref.ref(lock)
    del lock
    gc.collect()
    assert reference() is None
