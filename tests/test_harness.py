"""The benchmarks in their quick form, on the bundled samples."""

import json

import pytest
from command import run, run_fresh

from benchmarks.harness import BenchmarkReport, list_benchmarks
from textsvm.runtime.device import gpu_trouble

pytestmark = pytest.mark.slow

GPU_ONLY = ("cards", "grid", "edit_gpu", "gap_gpu", "small_cards", "spectrum_gpu")
QUICK = ("commands", "solver", "paper", "peers", "multilabel", "million", "tiers", "sequences")


def call(which, *arguments, run=run, **options):
    return run(which, *arguments, program="benchmarks", **options)


def sentence(which, *arguments, **options):
    """The message of a benchmark that fails."""
    done = call(which, *arguments, **options)
    message = done.stderr.decode()
    assert (done.returncode, message.count("\n")) == (1, 1), message
    return message


@pytest.mark.parametrize("which", QUICK)
def test_quick(which, tmp_path):
    done = call(which, "--quick", "-o", tmp_path / which, "--device", "cpu", timeout=600)
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads((tmp_path / f"{which}.json").read_text())
    assert len(report["rows"]) >= 6
    assert {"commit", "cpu", "versions", "command"} <= report.keys()
    assert "--quick" in report["command"]
    assert (tmp_path / f"{which}.md").read_text().startswith("# ")


@pytest.mark.parametrize("which", list_benchmarks())
def test_each_can_be_called(which):
    done = call(which, "--help")
    assert done.returncode == 0, done.stderr.decode()
    assert "--output" in done.stdout.decode()
    assert call(which, "--no-such-option").returncode == 2


def test_the_runner_lists_all():
    listed = run("--help", program="benchmarks").stdout.decode()
    assert all(f"  {name} " in listed for name in list_benchmarks())
    assert run("beauty", program="benchmarks").returncode == 2


@pytest.mark.parametrize("which", GPU_ONLY)
def test_without_a_gpu_there_is_a_sentence(which, tmp_path):
    if not gpu_trouble(0):
        pytest.skip("there is a GPU")
    message = sentence(which, "-o", tmp_path / "r")
    assert "cuda" in message.lower() or "GPU" in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("which", ["lodhi", "essays", "crammer_singer", "panel", "vectors"])
def test_without_corpora_there_is_a_sentence(which, tmp_path):
    no_data = {"run": run_fresh, "env": {"TEXTSVM_DATA": "no/such/folder"}}
    assert "set TEXTSVM_DATA" in sentence(which, "--device", "cpu", "-o", tmp_path / "r", **no_data)
    assert not list(tmp_path.iterdir())


def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXTSVM_COMMIT", "abc")
    BenchmarkReport(tmp_path / "r", "Title", "command").row("one", lambda: {"seconds": 1.0})
    again = BenchmarkReport(tmp_path / "r", "Title", "command")
    assert again.row("one", lambda: {"seconds": 2.0})["seconds"] == 1.0
    assert BenchmarkReport(tmp_path / "r", "Title", "another command").rows == {}
    monkeypatch.setenv("TEXTSVM_COMMIT", "abd")
    assert BenchmarkReport(tmp_path / "r", "Title", "command").rows == {}
