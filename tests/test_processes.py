"""Processes that share a model: forked while threads were at work, spawned, and those of joblib."""

import multiprocessing
import os
import threading
import time

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from test_kernels import LABELS, NEW, TEXTS

from textsvm import SVC, EditDistance, Spectrum
from textsvm.runtime import parallel
from textsvm.runtime.compiled import njit
from textsvm.runtime.compiled_cache import compiler_lock
from textsvm.runtime.parallel import Lock

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
forks = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")


@pytest.fixture(scope="module")
def model():
    made = SVC(EditDistance(gamma=0.1), device="cpu").fit(TEXTS, LABELS)
    made.decision_function(NEW)  # its predictor is made, and threads have begun
    return made


def in_child(work, seconds=60):
    """The exit code of a forked process that does some work; 1 where it raises, -9 where it hangs."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def held():
    """Hold locks in another thread, for the block or for so many seconds."""
    release, threads = threading.Event(), []

    def hold(lock, seconds=60.0):
        def work():
            with lock:
                taken.set()
                release.wait(seconds)

        taken = threading.Event()
        threads.append(threading.Thread(target=work))
        threads[-1].start()
        taken.wait()

    yield hold
    release.set()
    for thread in threads:
        thread.join()


@forks
def test_a_forked_child_predicts_with_the_bits_of_its_parent(model):
    expected = model.decision_function(NEW)
    again = SVC(Spectrum(2), device="cpu").fit(TEXTS, LABELS)
    coefficients = again.dual_coef_

    def work():
        np.testing.assert_array_equal(model.decision_function(NEW), expected)
        np.testing.assert_array_equal(again.fit(TEXTS, LABELS).dual_coef_, coefficients)

    assert in_child(work) == 0


@forks
def test_a_forked_child_has_threads_of_its_own():
    def work():
        done = []
        parallel.run(done.append, range(4))
        assert sorted(done) == [0, 1, 2, 3]

    with parallel.limit(2):
        work()
        assert in_child(work, 20) == 0


@forks
@pytest.mark.parametrize("lock", [Lock(), parallel._blas_limit.lock], ids=["a lock", "that of BLAS"])
def test_a_lock_that_a_thread_held_is_free_in_a_forked_child(model, held, lock):
    def work():
        with lock:
            pass
        SVC(EditDistance(), device="cpu").fit(TEXTS, LABELS).predict(NEW)

    held(lock)
    assert in_child(work, 20) == 0


@njit(nogil=True)
def _twice(x):
    return 2 * x


@njit(nogil=True)
def _thrice(x):
    return 3 * x


@forks
def test_a_child_forked_while_a_thread_compiles_compiles(held):
    assert _twice(2) == 4
    held(compiler_lock(), seconds=0.3)
    assert in_child(lambda: _thrice(2), 20) == 0


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_joblib_finds_the_same_parameters_with_any_backend(backend):
    machine, grid = SVC(Spectrum(2), device="cpu"), {"C": [0.1, 10.0]}
    best = GridSearchCV(machine, grid, cv=2).fit(TEXTS, LABELS)
    with joblib.parallel_config(backend, n_jobs=2):
        found = GridSearchCV(machine, grid, cv=2).fit(TEXTS, LABELS)
    assert found.best_params_ == best.best_params_
    np.testing.assert_array_equal(found.decision_function(NEW), best.decision_function(NEW))


@pytest.mark.slow
def test_joblib_has_the_same_scores_from_its_own_processes_which_share_the_cores():
    machine = SVC(Spectrum(2), device="cpu")
    with joblib.parallel_config("loky", n_jobs=2):
        found = cross_val_score(machine, TEXTS, LABELS, cv=2)
        threads = joblib.Parallel()(joblib.delayed(parallel.n_threads)() for _ in range(2))
    np.testing.assert_array_equal(found, cross_val_score(machine, TEXTS, LABELS, cv=2))
    assert set(threads) == {max(1, joblib.cpu_count() // 2)}
