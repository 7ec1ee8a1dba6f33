"""Work on several machines: two worker processes give, bit for bit, what one machine gives."""

import json
import os
import signal
import socket
import threading
import time

import numpy as np
import pytest
from command import run
from refusals import refuses
from threadpoolctl import threadpool_limits

from textsvm import SVC, SVR, EditDistance, GapWeighted, Product, Spectrum, Sum, cross_validate, tune
from textsvm.errors import InputError
from textsvm.runtime import workers as module
from textsvm.runtime.parallel import assigned
from textsvm.runtime.workers import current, on_workers
from textsvm.training.train import prepare

dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")

RANDOM = np.random.default_rng(0)
WORDS = [
    "kernel",
    "string",
    "spam",
    "money",
    "offer",
    "meeting",
    "tomorrow",
    "agenda",
    "xx",
    "lorem",
    "ipsum",
]
N = 240
TEXTS = [" ".join(RANDOM.choice(WORDS, size=int(RANDOM.integers(0, 30)))) for _ in range(N)]
LABELS = [("a", "b", "c")[len(text) % 3] for text in TEXTS]
NUMBERS = np.array([text.count("m") - text.count("x") for text in TEXTS], float)
pytestmark = [pytest.mark.filterwarnings("ignore:.*near-duplicate"), pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster():
    # A scheduler tries for so long to reach a worker that has just died.
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address="127.0.0.1:0"
        ) as made,
    ):
        yield made


@pytest.fixture
def connected(cluster, monkeypatch):
    """Two workers that are sent whatever can be."""
    with on_workers(cluster.scheduler_address) as workers:
        workers._client.wait_for_workers(2, timeout=30)
        workers.worth = 0
        monkeypatch.setattr(workers, "run", Seen(workers.run))
        yield workers


class Seen:
    """What workers were given, by the name of the function, and the numbers of what came back."""

    def __init__(self, run):
        self.real, self.calls = run, []

    def __call__(self, function, shared, pieces, *others):
        numbers = []
        self.calls.append((function.__name__, len(pieces), numbers))
        for number, result in self.real(function, shared, pieces, *others):
            numbers.append(number)
            yield number, result

    def pieces(self, name):
        """How many pieces a function was given; each came back once."""
        for _, count, numbers in self.calls:
            assert sorted(numbers) == list(range(count))
        return [count for function, count, _ in self.calls if function == name]


def gram_of(kernel, texts=TEXTS):
    return prepare(SVC(kernel, device="cpu").settings, texts).gram


def alone(function, *arguments, **options):
    """What one machine gives."""
    with assigned(module._current, None):
        return function(*arguments, **options)


@pytest.mark.parametrize(
    "kernel",
    [
        EditDistance(0.05),
        EditDistance(1.0, relative=True),
        GapWeighted(3),
        GapWeighted(2, 0.9, normalised=False),
        GapWeighted(5, 0.99),
        GapWeighted(2, tokens="words"),
        Sum([GapWeighted(3), EditDistance()], [2, 1]),
        Product([GapWeighted(3), EditDistance(), GapWeighted(2)]),
    ],
    ids=str,
)
def test_a_gram_made_in_tiles_has_the_bits_of_one_made_whole(connected, kernel):
    whole, tiled = alone(gram_of, kernel), gram_of(kernel)
    assert "tiles by 2 workers" in tiled.description
    np.testing.assert_array_equal(tiled.matrix, whole.matrix)
    assert connected.run.pieces("_tile")[0] > 2


def test_what_is_quick_or_has_two_views_is_made_here(connected):
    for kernel in (Spectrum(3), Sum([GapWeighted(2, tokens="words"), GapWeighted(2)])):
        assert "tiles" not in gram_of(kernel).description


@pytest.mark.parametrize(
    "model",
    [
        SVC(GapWeighted(3), C=10),
        SVC(GapWeighted(3), C=10, multiclass="ovo"),
        SVC(EditDistance(), multiclass="crammer-singer"),
        SVC(Spectrum((1, 3), "log", idf=True)),
        SVC(Sum([Spectrum(2, idf=True), GapWeighted(2)])),
        SVC(Sum([Spectrum(2, idf=True), Spectrum(1, tokens=lambda text: text.split("o"))])),
        SVR(Spectrum(3), C=10),
    ],
    # Not by `str`, which has the address of the function of tokens: processes of pytest-xdist would differ.
    ids=["gap", "ovo", "crammer-singer", "idf", "sum", "own tokens", "regression"],
)
def test_cross_validation_is_that_of_one_machine(connected, model):
    model.set_params(device="cpu")
    y = NUMBERS if isinstance(model, SVR) else LABELS
    with threadpool_limits(1):  # as in a worker: LAPACK's eigenvectors depend on the number of threads
        here = alone(cross_validate, model, TEXTS, y)
    there = cross_validate(model, TEXTS, y)
    np.testing.assert_array_equal(there.decision, here.decision)
    assert there.table == here.table
    learns = model.settings.new_kernel().structure.learns
    assert connected.run.pieces("_part_of_worker" if learns else "_solve_path") == [5]


def test_tuning_is_that_of_one_machine(connected):
    kernels = [GapWeighted(2), GapWeighted(3), EditDistance(0.05), EditDistance(0.1), Spectrum(2, idf=True)]
    grid = {"kernel": kernels, "C": [1, 10], "multiclass": ["ovr", "ovo"]}
    arguments = SVC(device="cpu"), TEXTS, LABELS, grid
    here, there = alone(tune, *arguments, nested=2), tune(*arguments, nested=2)
    for one, other in zip(here.table, there.table, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert (here.best_params_, here.nested.table) == (there.best_params_, there.nested.table)
    np.testing.assert_array_equal(here.best_estimator.dual_coef_, there.best_estimator.dual_coef_)
    assert len(connected.run.pieces("_tile")) == 2  # a shared pass for each decay, and for all gammas
    folds = 5 + 2 * 5 + 2
    assert connected.run.pieces("_solve_path") == [2 * folds] * 4
    assert connected.run.pieces("_part_of_worker") == [folds]


def test_functions_go_along_or_say_why_not(connected):
    kernel = GapWeighted(2, tokens=lambda text: text.split("o"))
    np.testing.assert_array_equal(gram_of(kernel).matrix, alone(gram_of, kernel).matrix)
    assert connected.run.pieces("_tile")[0] > 2
    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot be sent to the workers"):
        gram_of(GapWeighted(2, tokens=lambda text: text.split("o") if lock else []))


def test_what_a_task_raises_is_said_here(connected):
    refuses("odd one", list, connected.run.real(_refuse, (), [1]))


def _refuse(piece):
    raise InputError("odd one")


def test_what_is_quick_is_not_sent(connected):
    connected.worth = 3600
    assert "tiles" not in gram_of(GapWeighted(3)).description
    for kernel in (GapWeighted(2), Spectrum(2, idf=True)):
        cross_validate(SVC(kernel, device="cpu"), TEXTS, LABELS)
    assert connected.run.calls == []


class Killer:
    """Progress that kills some workers after the first results of a stage, and tells how often it did."""

    def __init__(self, workers, stage, count):
        self.pids = list(workers._client.run(os.getpid).values())[:count]
        self.stage = stage

    def __call__(self, stage, done, total):
        if stage == self.stage and 0 < done < total:
            for pid in self.pids:
                os.kill(pid, signal.SIGKILL)
            self.pids = []


def test_a_worker_that_dies_while_tiles_are_made_takes_none_along(connected):
    killer = Killer(connected, "gram", 1)
    tiled = prepare(SVC(GapWeighted(3), device="cpu").settings, TEXTS, killer).gram
    assert killer.pids == []
    np.testing.assert_array_equal(tiled.matrix, alone(gram_of, GapWeighted(3)).matrix)
    assert connected.run.pieces("_tile")[0] > 2


def test_what_died_with_the_last_worker_that_had_it_is_sent_again(connected):
    model, killer = SVC(GapWeighted(3), C=10, device="cpu"), Killer(connected, "solve", 2)
    there = cross_validate(model, TEXTS, LABELS, cv=10, progress=killer)
    assert killer.pids == []
    np.testing.assert_array_equal(there.decision, alone(cross_validate, model, TEXTS, LABELS, cv=10).decision)
    assert connected.run.pieces("_solve_path") == [10]


def test_ctrl_c_cancels_what_has_not_begun(connected):
    def interrupt(stage, done, total):
        if stage == "gram" and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(SVC(GapWeighted(3), device="cpu").settings, TEXTS, interrupt)
    assert current() is connected
    deadline = time.monotonic() + 10
    while any(connected._client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(connected._client.processing().values())


def test_workers_of_another_version_are_refused_before_any_work(cluster, monkeypatch):
    monkeypatch.setattr("textsvm.__version__", "99.0")
    said = r"the worker tcp://.* has textsvm .* and this computer has 99\.0"
    with pytest.raises(InputError, match=said), on_workers(cluster.scheduler_address):
        pass
    assert current() is None


def test_workers_without_a_package_are_named(cluster, monkeypatch):
    monkeypatch.setattr(module, "PACKAGES", ("textsvm_of_elsewhere",))
    with pytest.raises(InputError, match="has no textsvm_of_elsewhere"), on_workers(cluster):
        pass


def test_a_scheduler_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began, said = time.monotonic(), f"no scheduler of Dask answers at tcp://127.0.0.1:{port}"
    with pytest.raises(InputError, match=said), on_workers(f"tcp://127.0.0.1:{port}"):
        pass
    assert time.monotonic() - began < 5


def test_a_scheduler_without_workers(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.5)
    where = {"dashboard_address": "127.0.0.1:0", "processes": False}
    said = r"has no workers after 0\.5 s"
    with distributed.LocalCluster(n_workers=0, **where) as empty, pytest.raises(InputError, match=said):  # noqa: SIM117
        with on_workers(empty):
            pass


def test_dask_is_an_extra(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install distributed"), on_workers("local"):
        pass


def test_the_command_line(cluster, tmp_path):
    corpus, where = tmp_path / "texts.csv", cluster.scheduler_address
    rows = [f'"{text}",{label}' for text, label in zip(TEXTS, LABELS, strict=True) if text]
    corpus.write_text("\n".join(["text,label", *rows, ""]))
    reading = ("--text", "text", "--label", "label", "--kernel", "gap:3", "--device", "cpu")
    done = [run("cv", "--json", corpus, *reading, *more) for more in ((), ("--workers", where))]
    assert [one.returncode for one in done] == [0, 0], done[1].stderr.decode()
    assert f"workers: 2 workers at {where} (2 tasks at a time)" in done[1].stderr.decode()
    one, other = (json.loads(each.stdout) for each in done)
    assert one["pooled"] == other["pooled"]
