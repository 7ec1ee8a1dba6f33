"""Help texts and tables of the command line."""

import re
import time

import pytest
from command import run
from rich.cells import cell_len

from textsvm.cli.console import Console


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "predict", "mail classify", "", "mail"])
def test_help_gives_flags_no_type(command):
    shown = run(*command.split(), "--help").stdout.decode()
    assert "--help" in shown
    assert "bool" not in shown.lower()


def test_tables_are_readable_in_50_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    header = ("fold", "trained on", "tested on", "accuracy", "macro F1", "MCC", "ROC AUC")
    rows = [(name, "1,234", "567", "98.76 %", "98.70 %", "0.9876", "0.9999") for name in ("1", "pooled")]
    console = Console()
    with console.stdout.capture() as shown:
        console.table("folds", rows, header)
    lines = shown.get().splitlines()
    assert max(map(len, lines)) <= 50
    words = shown.get().split()
    assert {"accuracy", "trained", "AUC", "0.9999", "pooled"} <= set(words)
    assert words.count("pooled") == 2  # once a table
    assert len([line for line in lines if line.split()[:1] == ["fold"]]) == 2
    with console.stdout.capture() as shown:
        console.table("folds", rows, header[:4])
    assert shown.get().count("pooled") == 1
    with console.stderr.capture() as shown:
        console.warn("once", "once")
        console.warn("once")
    assert shown.get() == "warning: once\n"


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("label", ["ZH", "pt-BR", "a-class-with-a-long-name", "两个汉字"])
def test_numbers_of_a_table_are_never_clipped(label, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    counts = [[str(1000 + 20 * i + j) for j in range(11)] for i in range(11)]
    rows = [(f"truly {label}{i}", *row, ", ".join(["merged"] * 30)) for i, row in enumerate(counts)]
    console = Console()
    with console.stdout.capture() as shown:
        console.table("matrix", rows, ("", *(f"said {label}{i}" for i in range(11)), "reasons"))
    words = shown.get().replace(",", "").split()
    assert {count for row in counts for count in row} <= set(words)
    assert words.count("merged") == 11 * 30
    assert "reasons" in words
    assert max(map(cell_len, shown.get().splitlines())) <= width


@pytest.mark.parametrize("command", ["train", "cv", "tune"])
def test_the_help_shows_the_options_that_people_use(command):
    """And all of them on request; completion knows all."""
    short, long = (run(command, option).stdout.decode() for option in ("--help", "--help-all"))
    assert "--help-all" in short
    assert "--label" in short
    assert len(short.splitlines()) < 100
    for rare in ("--skip-invalid", "--vectors"):
        assert rare not in short
        assert rare in long
    if command == "train":
        assert len(re.findall(r"(?m)^\W+ --?[a-zA-Z]", short)) <= 20
        assert "--tol" in long


def test_the_laps_of_a_stage_add_up():
    console = Console()
    for stage in "abab":
        time.sleep(0.02)
        seconds = console.lap(stage)
    assert seconds["a"] + seconds["b"] == pytest.approx(seconds["total"], abs=0.005)
    assert min(seconds.values()) > 0.03
