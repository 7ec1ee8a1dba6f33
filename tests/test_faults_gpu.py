"""Faults of a card (`-m gpu`): memory runs out in the middle of a grid, a context is lost, a fork after use.

One process at a time: the tests take nearly all memory that the card has left.
"""

import multiprocessing
import os
import pickle
import subprocess
import sys
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from textsvm import SVC, Compute, EditDistance, Spectrum, tune
from textsvm.cli import app_of, console
from textsvm.errors import InputError
from textsvm.runtime import device as devices

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(
        os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1",
        reason="takes the memory of the card from the tests beside it: run this file alone",
    ),
]
N = 6000  # a kernel matrix of 137 MiB
#: Bytes left on the card where memory runs out.
LEFT = 48 << 20


@pytest.fixture(scope="module")
def task():
    random = np.random.default_rng(0)
    words = np.array(["banana", "monday", "papaya", "sunday", "mango", "friday"])
    return [" ".join(random.choice(words, 4)) for _ in range(N)], random.integers(0, 2, N)


@contextmanager
def scarce():
    """Nearly all memory of the card is somebody else's."""
    cp = devices.cupy()
    with cp.cuda.Device(0):
        cp.cuda.Device(0).synchronize()
        cp.get_default_memory_pool().free_all_blocks()
        free = cp.cuda.runtime.memGetInfo()[0]
        taken = cp.cuda.Memory(max(1, free - LEFT))
        try:
            yield
        finally:
            del taken


def machine(**more):
    return SVC(
        EditDistance(), device="cuda:0", compute=Compute(memory="8GB", solver="gram"), max_iter=200, **more
    )


def fit(task):
    return machine().fit(*task).dual_coef_


def grid(task):
    # Two kernels: the second Gram is made while the folds of the first are there.
    model = GridSearchCV(machine(), {"C": [0.1, 1.0]}, cv=2, error_score="raise").fit(*task)
    return model.cv_results_["mean_test_score"]


def tuned(task):
    return np.array([row["mean"] for row in tune(machine(), *task, {"C": [0.1, 1.0]}, cv=2).table])


def features(task):
    return (
        SVC(Spectrum((1, 4)), device="cuda:0", compute=Compute(memory="8GB", solver="gram"))
        .fit(*task)
        .dual_coef_
    )


@pytest.mark.parametrize("work", [fit, grid, tuned, features])
def test_memory_that_runs_out_is_a_sentence_and_the_next_call_works(work, task):
    expected = work(task)
    with scarce(), pytest.raises(InputError, match="--device cpu") as caught:
        work(task)
    assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(work(task), expected)


def test_predicting_runs_out_and_works_again(task):
    model = machine().fit(*task)
    expected = model.decision_function(task[0])
    again = pickle.loads(pickle.dumps(model))  # without the prepared predictor
    long = [" ".join(task[0][:400])] * 200
    with scarce(), suppress(InputError):  # it may fit into what is left
        again.decision_function(long)
    np.testing.assert_array_equal(again.decision_function(task[0]), expected)


@pytest.mark.parametrize(
    "command",
    [
        "tune {} --kernel edit -C 1,10 --folds 2 --memory 8GB -o out",
        "train {} --kernel edit --solver gram --memory 8GB -o out",
    ],
)
def test_a_command_that_runs_out_writes_nothing(command, task, tmp_path, monkeypatch, capsys):
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("label\ttext\n" + "".join(f"{y}\t{x}\n" for x, y in zip(*task, strict=True)))
    line = f"{command} --device cuda:0".format(corpus).split()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["textsvm", *line])
    machine().fit(*task)  # what is compiled and loaded once is
    with scarce():
        assert console.main(app_of([line[0]])) == 1
    told = [said for said in capsys.readouterr().err.splitlines() if said.startswith("textsvm: ")]
    assert len(told) == 1
    assert "--device cpu" in told[0]
    assert [one.name for one in tmp_path.iterdir()] == ["corpus.tsv"]


LOST = """
import sys
import cupy
from textsvm.training import train as module
real = module.with_classes
def lose(*given):
    bad = cupy.RawKernel('extern "C" __global__ void bad(int* where) { where[1l << 40] = 1; }', "bad")
    bad((1,), (1,), (cupy.uint64(0),))
    return real(*given)
module.with_classes = lose
"""
COMMAND = """
from textsvm.cli import main
sys.argv = ["textsvm", *sys.argv[1:]]
main()
"""
LIBRARY = """
from textsvm import SVC, EditDistance
from textsvm.runtime.device import select
from textsvm.errors import InputError
try:
    SVC(EditDistance(), device="cuda:0").fit(["abc", "abd", "xyz", "xyw"] * 20, [0, 0, 1, 1] * 20)
except InputError as error:
    print(error)
module.with_classes = real
print(SVC(EditDistance(), device="auto").fit(["abc", "abd", "xyz", "xyw"], [0, 0, 1, 1]).device_.kind)
"""


def run(code, *arguments, cwd):
    call = [sys.executable, "-c", LOST + code, *arguments]
    return subprocess.run(call, capture_output=True, text=True, cwd=cwd, timeout=120)


def test_a_command_whose_card_is_lost_says_so_and_ends(tmp_path):
    rows = "spam\tbuy now\nspam\tbuy it\nham\tsee you\nham\tsee them\n" * 20
    (tmp_path / "corpus.tsv").write_text("label\ttext\n" + rows)
    line = "train corpus.tsv --kernel edit --solver gram --device cuda:0 -o out"
    done = run(COMMAND, *line.split(), cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    told = [said for said in done.stderr.splitlines() if said.startswith("textsvm: ")]
    assert len(told) == 1, done.stderr
    assert "is lost to this process" in told[0]
    assert told[0].endswith("or run with --device cpu")
    assert [one.name for one in tmp_path.iterdir()] == ["corpus.tsv"]


def test_a_program_whose_card_is_lost_goes_on_with_the_cpu(tmp_path):
    done = run(LIBRARY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told, kind = done.stdout.splitlines()
    assert "is lost to this process" in told
    assert kind == "cpu"


def _in_child(model, texts, answers):
    try:
        model.decision_function(texts)
        answers.put("worked")
    except InputError as error:
        answers.put(str(error))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_says_that_it_is_to_be_spawned(task):
    model = machine().fit(task[0][:100], task[1][:100])
    model.decision_function(task[0][:10])
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(model, task[0][:10], answers))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert "spawn or forkserver" in answers.get()


def test_a_spawned_child_uses_the_card(task):
    model = machine().fit(task[0][:100], task[1][:100])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(model.decision_function, (task[0][:10],))
    np.testing.assert_array_equal(found, model.decision_function(task[0][:10]))
