"""The benchmarks in their quick form, on the embedded samples: each asserts equality before it times."""

import json

import pytest

from textsvm.cli.bench import Benchmark
from textsvm.cli.bench import bench as command


class Context:
    """What Typer hands over: the options after the name."""

    def __init__(self, args):
        self.args = args


@pytest.mark.parametrize("which", ["kernels", "solver", "paper", "peers", "scale"])
def test_quick(which, tmp_path):
    command(
        Context(["--quick", "-o", str(tmp_path / which)] + ["--device", "cpu"] * (which != "kernels")), which
    )
    report = json.loads((tmp_path / f"{which}.json").read_text())
    assert len(report["rows"]) >= 6
    assert {"commit", "cpu", "versions", "command"} <= report.keys()
    assert "--quick" in report["command"]
    assert (tmp_path / f"{which}.md").read_text().startswith("# ")


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


def test_every_benchmark_has_a_module():
    from importlib import import_module

    for each in Benchmark:
        assert callable(import_module(f"textsvm.bench.{each.value}").main)
