"""What is told of a card that fails, by a CuPy that is none: memory runs out, a context is lost, a fork."""

import gc
import os
import sys
import weakref
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from refusals import refuses
from sklearn.model_selection import StratifiedKFold

from textsvm import SVC, CalibratedSVC, MultilabelSVC, Spectrum, cross_validate, doubts, tune
from textsvm.cli import console
from textsvm.errors import GpuMemoryError, InputError
from textsvm.runtime import device as devices
from textsvm.selection.search import GridSearch

CARD = devices.Device("cuda", 0, "cuda:0 (H200, 140 GiB)")


def error_of(name, module, base=RuntimeError):
    return type(name, (base,), {"__module__": module})


Runtime = error_of("CUDARuntimeError", "cupy_backends.cuda.api.runtime")
Driver = error_of("CUDADriverError", "cupy_backends.cuda.api.driver")
Blas = error_of("CUBLASError", "cupy_backends.cuda.libs.cublas")
Pool = error_of("OutOfMemoryError", "cupy.cuda.memory", MemoryError)


class Card:
    """A card that is made current; `lost` fails where it is left, and with whatever is asked of it."""

    def __init__(self, index):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *failed):
        fake.fail_if_lost()


class Fake:
    """CuPy as `device` knows it."""

    def __init__(self):
        self.lost, self.given_back = "", 0
        runtime = SimpleNamespace(
            getDeviceCount=lambda: 1,
            deviceSynchronize=self.fail_if_lost,
            getDeviceProperties=lambda card: {"name": b"H200", "totalGlobalMem": 140 << 30},
        )
        self.cuda = SimpleNamespace(runtime=runtime, Device=Card)

    def fail_if_lost(self):
        if self.lost:
            raise Runtime(self.lost)

    def get_default_memory_pool(self):
        return SimpleNamespace(free_all_blocks=self.give_back)

    def give_back(self):
        self.given_back += 1


@pytest.fixture(autouse=True)
def cupy(monkeypatch):
    global fake
    fake = Fake()
    made = lambda: fake  # noqa: E731
    made.cache_info = lambda: SimpleNamespace(currsize=1)
    monkeypatch.setattr(devices, "cupy", made)
    yield fake
    devices.gpu_trouble.cache_clear()


def told(error):
    with pytest.raises(InputError) as caught, devices.use(CARD):
        raise error
    assert isinstance(caught.value.__cause__, type(error))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("or run with --device cpu")
    return str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        Pool("Out of memory allocating 1,024 bytes (allocated so far: 0 bytes)."),
        Runtime("cudaErrorMemoryAllocation: out of memory"),
        Driver("CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        Blas("CUBLAS_STATUS_ALLOC_FAILED"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_memory_that_runs_out_in_any_library_is_told_and_given_back(error, cupy):
    assert f"GPU memory ran out on {CARD.description} (" in told(error)
    assert "lower --memory" in told(error)
    assert cupy.given_back == 2


def test_what_the_failed_work_held_is_given_back_while_the_error_is_still_known():
    class Matrix:
        pass

    held = []

    def work():
        matrix = Matrix()
        held.append(weakref.ref(matrix))
        raise Pool("Out of memory allocating 1,024 bytes")

    with pytest.raises(InputError) as caught, devices.use(CARD):
        work()
    assert caught.value.__cause__ is not None
    gc.collect()
    assert held[0]() is None


def test_a_lost_context_is_told_and_auto_is_the_cpu_from_then_on(cupy, monkeypatch):
    monkeypatch.setattr(devices, "load", lambda source: pytest.fail("nothing runs on a lost card"))
    cupy.lost = "cudaErrorIllegalAddress: an illegal memory access was encountered"
    sentence = told(Runtime(cupy.lost))  # leaving the card fails too
    assert "is lost to this process (cudaErrorIllegalAddress: an illegal memory access was" in sentence
    assert "start again" in sentence
    cupy.full = lambda *given: cupy.fail_if_lost()
    cupy.int32 = int
    assert "cudaErrorIllegalAddress" in devices.select("auto").no_gpu


@pytest.mark.parametrize("error", [ValueError("ours"), MemoryError("the host's"), KeyboardInterrupt()])
def test_other_errors_stay_what_they_are(error, cupy):
    with pytest.raises(type(error)) as caught, devices.use(CARD):
        raise error
    assert caught.value is error
    assert not cupy.given_back


def test_a_failure_outside_of_any_block_is_one_sentence_of_the_command(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))

    assert console.main(Mock(side_effect=Runtime("cudaErrorMemoryAllocation: out of memory"))) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("textsvm: GPU memory ran out on the GPU (")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_from_a_process_that_used_a_gpu_is_told_to_be_spawned():
    child = os.fork()
    if not child:
        code = 1
        try:
            assert "start it by spawn or forkserver" in devices.select("auto").no_gpu
            assert "spawn or forkserver" in told(Runtime("cudaErrorInitializationError"))
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not devices._forked


def test_a_failure_without_a_loss_and_a_loss_where_the_card_is_left(cupy):
    assert "failed (CUBLAS_STATUS_NOT_SUPPORTED); check it" in told(Blas("CUBLAS_STATUS_NOT_SUPPORTED"))
    with pytest.raises(InputError, match="is lost to this process"), devices.use(CARD):
        cupy.lost = "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable"


# A card with too little memory


def too_small(*cause):
    def work(device):
        asked.append(device)
        if device != "cpu":
            raise GpuMemoryError("the matrix needs 9 GiB and 8 GiB is free; run with --device cpu") from (
                cause[0] if cause else None
            )
        return 7

    asked = []
    return work, asked


@pytest.mark.parametrize(("cause", "times"), [((), 1), ((MemoryError(),), 2)])
def test_auto_takes_the_cpu_if_the_memory_of_the_card_does_not_suffice(cause, times):
    work, asked = too_small(*cause)
    with pytest.warns(
        UserWarning, match=r"^the matrix needs 9 GiB and 8 GiB is free: the CPU is used instead$"
    ):
        assert devices.run_on("auto", work) == 7
    assert asked == ["auto"] * times + ["cpu"]
    asked.clear()
    with pytest.raises(GpuMemoryError, match="run with --device cpu"):  # a card that was asked for
        devices.run_on("cuda", work)
    assert set(asked) == {"cuda"}

    refuses("no texts", devices.run_on, "auto", Mock(side_effect=InputError("no texts")))


def sample():
    rng = np.random.default_rng(0)
    texts = ["".join(row) + "xyz"[k % 3] * 2 for k, row in enumerate(rng.choice(list("abcd"), (60, 12)))]
    return texts, [k % 3 for k in range(60)]


CALLS = {
    "fit": lambda device, *s: SVC(device=device).fit(*s).decision_function(s[0]),
    "calibrated": lambda device, *s: CalibratedSVC(SVC(device=device)).fit(*s).predict_proba(s[0]),
    "labels": lambda device, x, y: MultilabelSVC(device=device).fit(x, [[k] for k in y]).predict(x),
    "cross-validation": lambda device, *s: cross_validate(SVC(device=device), *s, cv=3).decision,
    "tuning": lambda device, *s: [
        row["mean"] for row in tune(SVC(device=device), *s, {"C": [0.1, 1]}, cv=3).table
    ],
    "doubts": lambda device, *s: doubts(SVC(device=device), *s, cv=3).order(),
}


@pytest.fixture
def asked(monkeypatch):
    """What is asked for of a machine whose card has too little memory for anything."""
    wishes, select = [], devices.select

    def of_small_card(wish="auto"):
        wishes.append(wish)
        if wish == "auto":
            raise GpuMemoryError("the documents need 9 GiB; run with --device cpu")
        return select(wish)

    monkeypatch.setattr(devices, "select", of_small_card)
    return wishes


@pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
@pytest.mark.parametrize("name", CALLS)
def test_work_on_a_small_card_ends_on_the_cpu_with_its_result(name, asked):
    expected = CALLS[name]("cpu", *sample())
    with pytest.warns(UserWarning, match="the CPU is used instead"):
        got = CALLS[name]("auto", *sample())
    np.testing.assert_array_equal(got, expected)


def test_a_model_of_a_small_card_says_auto_and_predicts_on_the_cpu(asked):
    texts, labels = sample()
    with pytest.warns(UserWarning, match="the CPU is used instead"):
        model = SVC().fit(texts, labels).model_
    assert (model.device, model.record.settings.device) == ("auto", "auto")
    again = model.on("auto")
    with pytest.warns(UserWarning, match="the CPU is used instead"):
        values = again.decision_function(texts)
    np.testing.assert_array_equal(values, model.on("cpu").decision_function(texts))
    asked.clear()
    again.decision_function(texts[:3])
    assert asked == []
    assert again.device_in_use.kind == "cpu"


@pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
def test_a_search_of_a_grid_goes_on_on_the_cpu(monkeypatch, tmp_path):
    """With the folds of an iterator and the file of the search, of which nothing is tried twice."""
    texts, labels = sample()
    grid, tried, run = {"kernel": [Spectrum(1), Spectrum(2)]}, [], GridSearch.run
    folds = [*StratifiedKFold(3, shuffle=True, random_state=1).split(texts, labels)]

    def run_once(self, members, *more):
        tried.append(members)
        if len(tried) == 2:
            raise GpuMemoryError("the matrix needs 9 GiB; run with --device cpu")
        return run(self, members, *more)

    expected = tune(SVC(device="cpu"), texts, labels, grid, cv=iter(folds))
    monkeypatch.setattr(GridSearch, "run", run_once)
    with pytest.warns(UserWarning, match="the CPU is used instead"):
        got = tune(SVC(), texts, labels, grid, cv=iter(folds), resume=tmp_path / "tried.jsonl")
    assert tried == [[0], [1], [1]]
    assert [row["mean"] for row in got.table] == [row["mean"] for row in expected.table]
    assert got.best_model.device == "auto"
