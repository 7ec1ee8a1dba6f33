"""One model in many threads, and fits side by side: the bits of one thread, first use included."""

import pickle
import subprocess
import sys
import threading
import time
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from loading import load
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from test_kernels import LABELS, NEW, TEXTS
from threadpoolctl import threadpool_info, threadpool_limits

import textsvm
from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    Compute,
    EditDistance,
    Mismatch,
    MultilabelSVC,
    On,
    OneClassSVM,
    Spectrum,
    Sum,
)
from textsvm.kernels import Gaussian
from textsvm.runtime import parallel
from textsvm.sources.texts import TextSource

THREADS = 16
ROWS = [{"subject": text[:9], "body": text} for text in TEXTS]
VECTORS = np.random.default_rng(0).normal(size=(10, 4))
WORDS = Spectrum((1, 2), tokens="words", idf=True)
BATCHES = [[NEW[2]], NEW, TEXTS, ["ŉ ﬃ ½ 한국어", "ﬁ"], ["buy now " * 100] * 10]
#: An estimator, what it is fitted to, and what is predicted.
MACHINES = {
    "SVC": (SVC(EditDistance(gamma=0.1), device="cpu"), (TEXTS, LABELS), BATCHES),
    "features": (SVC(WORDS, compute=Compute(solver="features"), device="cpu"), (TEXTS, LABELS), BATCHES),
    # The last batch is large enough for a table; the others are compared with support vectors.
    "tabulated": (
        SVC(Mismatch(3, 1, alphabet=40), device="cpu"),
        (TEXTS, LABELS),
        [*BATCHES, ["buy now " * 300] * 20],
    ),
    "columns": (
        SVC(Sum([On("subject", EditDistance()), On("body", WORDS)]), device="cpu"),
        (ROWS, LABELS),
        [ROWS[:1], ROWS, ROWS[3:7]],
    ),
    "vectors": (SVC(Gaussian(0.5), device="cpu"), (VECTORS, LABELS), [VECTORS[:1], VECTORS, VECTORS[2:5]]),
    "calibrated": (CalibratedSVC(SVC(Spectrum(2), device="cpu"), cv=2), (TEXTS, LABELS), BATCHES),
    "labels": (
        MultilabelSVC(Spectrum(2), device="cpu"),
        (TEXTS, [["a"], ["b"], ["a", "b"], ["c"], ["a"]] * 2),
        BATCHES,
    ),
    "numbers": (SVR(Spectrum(2), device="cpu"), (TEXTS, np.arange(10.0)), BATCHES),
    "one class": (OneClassSVM(Spectrum(2), device="cpu"), (TEXTS,), BATCHES),
}


def answers(model, batch):
    """Everything a model says of a batch, by who says it."""
    asked = ("predict", "decision_function", "predict_proba")
    return {name: np.asarray(getattr(model, name)(batch), object) for name in asked if hasattr(model, name)}


def in_threads(work, number=THREADS):
    """What `work(k)` gives in so many threads that begin at once; raises what one of them raised."""
    found, ready = [None] * number, threading.Barrier(number)

    def one(k):
        ready.wait()
        try:
            found[k] = work(k)
        except BaseException as error:
            found[k] = error

    threads = [threading.Thread(target=one, args=(k,)) for k in range(number)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for error in found:
        if isinstance(error, BaseException):
            raise error
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MACHINES)
def test_threads_that_share_a_model_get_the_bits_of_one(name, tmp_path):
    estimator, given, batches = MACHINES[name]
    model = estimator.fit(*given)
    textsvm.save(model, tmp_path / "m.textsvm")
    # Each batch by a model that has predicted nothing yet: what was predicted before changes no bit.
    expected = [answers(pickle.loads(pickle.dumps(model)), batch) for batch in batches]

    def check(shared, k):
        for i in range(len(batches)):
            j = (i + k) % len(batches)
            for name, mine in answers(shared, batches[j]).items():
                np.testing.assert_array_equal(mine, expected[j][name])

    loaded = load(tmp_path / "m.textsvm"), load(tmp_path / "m.textsvm")
    for shared in (pickle.loads(pickle.dumps(model)), *loaded):
        in_threads(partial(check, shared))
    for one in in_threads(lambda k: load(tmp_path / "m.textsvm")):
        assert answers(one, batches[0])["predict"].tolist() == expected[0]["predict"].tolist()


def test_fits_side_by_side_give_the_bits_of_one_after_the_other():
    kernels = [EditDistance(gamma=0.1 * (k + 1)) for k in range(4)] + [Spectrum(k + 1) for k in range(4)]

    def fit(k):
        return SVC(kernels[k], device="cpu").fit(TEXTS, LABELS).dual_coef_

    alone = [fit(k) for k in range(8)]
    for mine, theirs in zip(in_threads(fit, 8), alone, strict=True):
        np.testing.assert_array_equal(mine, theirs)


FIRST = """
import sys, threading
from textsvm.model.file import load as load
texts = [("buy now " + chr(97 + i % 26)) * 20 for i in range(600)]
model, found, ready = load(sys.argv[1]), [None] * 16, threading.Barrier(16)
def work(k):
    ready.wait()
    found[k] = model.decision_function(texts).tobytes()
threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
[one.start() for one in threads], [one.join() for one in threads]
print(len(set(found)), found[0] == load(sys.argv[1]).decision_function(texts).tobytes())
"""


@pytest.mark.slow
def test_the_first_use_of_a_process_by_many_threads_at_once(tmp_path):
    textsvm.save(SVC(Spectrum((1, 3)), device="cpu").fit(TEXTS, LABELS), tmp_path / "m.textsvm")
    call = [sys.executable, "-c", FIRST, tmp_path / "m.textsvm"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("1 True\n", "")


def test_whether_a_model_is_fitted_does_not_go_by_attributes_that_another_thread_adds(tmp_path):
    model = SVC(Spectrum(2), device="cpu").fit(TEXTS, LABELS)

    class Meanwhile(str):
        def endswith(self, *ending):
            model.added_ = True
            return super().endswith(*ending)

    vars(model)[Meanwhile("before_")] = None
    check_is_fitted(model)


def test_a_fit_that_failed_leaves_no_fitted_model(monkeypatch):
    model = SVC(Spectrum(2), device="cpu")
    monkeypatch.setattr(TextSource, "encode", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        model.fit(TEXTS, LABELS)
    with pytest.raises(NotFittedError):
        model.predict(TEXTS)


def test_blas_has_its_threads_again_when_the_last_block_ends():
    def threads():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        first, second = parallel.one_blas_thread(), parallel.one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1}  # the second is at work
        second.__exit__(None, None, None)
        assert threads() == before == {2}
        with pytest.raises(ZeroDivisionError), parallel.one_blas_thread():
            1 / 0  # noqa: B018
        assert threads() == {2}


def test_an_interrupted_thread_leaves_the_pieces_of_others_alone():
    begun, others = threading.Event(), []

    def interrupt():
        begun.wait(10)
        raise KeyboardInterrupt

    def interrupted():
        with parallel.limit(2), pytest.raises(KeyboardInterrupt):
            parallel.run(lambda _: time.sleep(0.05), range(4), watch=interrupt)

    thread = threading.Thread(target=interrupted)
    thread.start()

    def piece(k):
        begun.set()
        time.sleep(0.01)
        others.append(k)

    with parallel.limit(2):
        parallel.run(piece, range(20))
    thread.join()
    assert sorted(others) == list(range(20))


@pytest.mark.parametrize(("said", "expected"), [("1", 1), ("", 2), ("0", 2), ("many", 2), ("999", 2)])
def test_joblib_says_how_many_threads_its_workers_have(monkeypatch, said, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1}, raising=False)
    monkeypatch.setenv("NUMBA_NUM_THREADS", said)
    assert parallel.n_threads() == expected
    with parallel.limit(3):
        assert parallel.n_threads() == 3
