"""The benchmarks in their quick form, on the embedded samples: each asserts equality before it times."""

import json

import pytest
from command import fails, run, run_fresh

from textsvm.cli.bench import Benchmark
from textsvm.runtime.device import gpu_trouble

#: What measures a GPU, whatever else it is told.
GPU_ONLY = ("cards", "grid", "edit_gpu", "gap_gpu", "spectrum_gpu", "layouts", "sparse_vectors")
QUICK = (
    "kernels",
    "features",
    "solver",
    "feature_solver",
    "paper",
    "peers",
    "scale",
    "multilabel",
    "neighbours",
    "nystroem",
    "million",
    "mixtures",
    "keeping",
    "tiers",
    "mail_text",
    "sequences",
)


@pytest.mark.parametrize("which", QUICK)
def test_quick(which, tmp_path):
    device = ["--device", "cpu"] * (which != "kernels")
    done = run("bench", which, "--quick", "-o", tmp_path / which, *device, timeout=600)
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads((tmp_path / f"{which}.json").read_text())
    assert len(report["rows"]) >= 6
    assert {"commit", "cpu", "versions", "command"} <= report.keys()
    assert "--quick" in report["command"]
    assert (tmp_path / f"{which}.md").read_text().startswith("# ")


@pytest.mark.parametrize("which", [each.name for each in Benchmark])
def test_each_can_be_called(which):
    done = run("bench", which, "--help")
    assert done.returncode == 0, done.stderr.decode()
    assert "--output" in done.stdout.decode()
    assert run("bench", which, "--no-such-option").returncode == 2


@pytest.mark.parametrize("which", GPU_ONLY)
def test_without_a_gpu_there_is_a_sentence(which, tmp_path):
    if not gpu_trouble(0):
        pytest.skip("there is a GPU")
    message = fails("bench", which, "-o", tmp_path / "r")
    assert "cuda" in message.lower() or "GPU" in message
    assert not list(tmp_path.iterdir())


def no_data(*arguments, **options):
    return run_fresh(*arguments, env={"TEXTSVM_DATA": "no/such/folder"}, **options)


@pytest.mark.parametrize("which", ["lodhi", "essays", "crammer_singer", "panel", "vectors"])
def test_without_corpora_there_is_a_sentence(which, tmp_path):
    message = fails("bench", which, "--device", "cpu", "-o", tmp_path / "r", run=no_data)
    assert "set TEXTSVM_DATA" in message


def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    from textsvm.bench.harness import Rows

    monkeypatch.setenv("TEXTSVM_COMMIT", "abc")
    rows = Rows(tmp_path / "r", "Title", "command")
    rows.row("one", lambda: {"seconds": 1.0})
    again = Rows(tmp_path / "r", "Title", "command")
    assert again.row("one", lambda: {"seconds": 2.0})["seconds"] == 1.0
    assert Rows(tmp_path / "r", "Title", "another command").rows == {}
    monkeypatch.setenv("TEXTSVM_COMMIT", "abd")
    assert Rows(tmp_path / "r", "Title", "command").rows == {}
