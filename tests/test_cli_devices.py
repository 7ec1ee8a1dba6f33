"""textsvm devices --compile: it trains every kind of machine on each device, and compiles every .cu file."""

import os
import subprocess
import sys

import pytest
from command import run_fresh
from refusals import refuses
from test_kernels_cu import define_sets

from textsvm.cli.devices import _train, sources, trainings
from textsvm.cli.devices import devices as command
from textsvm.kernels import KERNELS
from textsvm.runtime import compiled
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device, DeviceStatus

CPU = DeviceStatus(Device("cpu", 0, "cpu"), "")


def cards(*troubles):
    return [DeviceStatus(Device("cuda", k, f"cuda:{k} (H)"), trouble) for k, trouble in enumerate(troubles)]


@pytest.mark.parametrize("name", trainings("cpu", 60))
@pytest.mark.filterwarnings("ignore")
def test_every_training_runs(name):
    trainings("cpu", 60)[name]()


def test_every_kernel_and_every_source_is_compiled():
    assert {*KERNELS.simple()} <= {*trainings("cpu", 60)}
    assert {*define_sets()} == {*sources()}


@pytest.mark.parametrize(
    ("troubles", "compiled_for", "stream", "sentence"),
    [
        (["", "", "broken"], ["cpu", "cuda:0"], "err", "compiled for cuda:0"),
        (["it is broken"], ["cpu"], "out", "not usable: it is broken"),
    ],
)
def test_one_usable_card_of_each_kind_is_compiled_for(
    troubles, compiled_for, stream, sentence, monkeypatch, capsys
):
    compiled = []
    monkeypatch.setattr("textsvm.cli.devices.compile_all", lambda device, progress: compiled.append(device))
    monkeypatch.setattr(devices, "devices", lambda: [CPU, *cards(*troubles)])
    command(compile_kernels=True)
    assert compiled == compiled_for
    assert sentence in getattr(capsys.readouterr(), stream)


#: Letters of several alphabets, 5 classes, both solvers.
TRAINING = """
from textsvm import SVC, Compute
from textsvm.runtime import compiled
compiled.NUMPY_SIZE = 0
texts = [f"{chr(0x4E00 + i % 700)} e\u0301 word{i % 97} {i % 89} is it" for i in range(3000)]
for solver in ("features", "gram"):
    model = SVC(device="cpu", compute=Compute(solver=solver))
    model.fit(texts, [i % 5 for i in range(3000)]).predict(texts[:99])
print(compiled.Compiled.compilations)
"""


@pytest.mark.slow
def test_after_it_a_first_training_on_the_cpu_compiles_nothing(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "CUDA_VISIBLE_DEVICES": ""}
    run_fresh("devices", "--compile", env=env, timeout=600)
    before = {*tmp_path.rglob("*.nbc")}
    assert before
    run_fresh("demo", "--device", "cpu", env=env)
    program = [sys.executable, "-W", "ignore", "-c", TRAINING]
    assert subprocess.run(program, env=env, capture_output=True, text=True, check=True).stdout == "0\n"
    assert {*tmp_path.rglob("*.nbc")} == before


@pytest.mark.gpu
def test_the_first_training_after_it_compiles_little(tmp_path, monkeypatch):
    env = {**os.environ, "CUPY_CACHE_DIR": str(tmp_path)}
    run_fresh("devices", "--compile", env=env, timeout=300)
    before = len([*tmp_path.iterdir()])
    run_fresh("demo", "--device", "cuda", env=env)
    assert len([*tmp_path.iterdir()]) <= before + 3


def test_what_cannot_be_kept_ends_the_compilation(monkeypatch, set_values):
    set_values(compiled, NUMPY_SIZE=compiled.NUMPY_SIZE, warn=print)
    compiled._warn_once.cache_clear()
    kept = {"one": lambda: compiled._warn_once("no writable cache folder")}
    monkeypatch.setattr("textsvm.cli.devices.trainings", lambda device: kept)
    refuses("NUMBA_CACHE_DIR", _train, "cpu", "one")
    compiled._warn_once.cache_clear()
