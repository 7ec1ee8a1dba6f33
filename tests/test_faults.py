"""What a fault leaves behind: the old file or the new one, and a sentence."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import killed
import pytest
from command import fails, run, works
from refusals import raising

from textsvm import cli
from textsvm.cli import console
from textsvm.errors import InputError
from textsvm.readers import sample

pytestmark = pytest.mark.slow

#: With TEXTSVM_KILLS=1 every command at every call that writes, else some of them at some of theirs.
EVERY = os.environ.get("TEXTSVM_KILLS") == "1"
SOME = (
    "train --store",
    "tune",
    "tune --resume",
    "evaluate, HTML",
    "update",
    "export",
    "export, C",
    "label --export",
)
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals and devices")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    shim = killed.build(tmp_path_factory.mktemp("shim"))
    if shim is None:
        pytest.skip("the shim that kills needs Linux and a C compiler")
    with killed.started(shim) as server:
        yield server


@pytest.mark.parametrize("name", killed.COMMANDS if EVERY else SOME)
def test_a_fault_at_any_call_that_writes_leaves_the_old_file_or_the_new_one(name, server):
    answer = killed.ask(server, name, list(killed.KINDS), None if EVERY else len(killed.KINDS))
    assert len(answer["found"]) >= len(killed.KINDS)
    for one in answer["found"]:
        assert one["third"] == [], one
        assert "Traceback" not in one["said"]
        assert (one["again"], one["cleared"]) == (0, True), one  # what it left is gone
        if killed.KINDS[one["kind"]] <= 0:
            assert one["code"] == -signal.SIGKILL
            assert len(one["beside"]) <= 1
        elif one["code"] == 0:  # what could not be done is of no account
            assert "old" not in one["states"] or "kept" in answer["words"], one
        else:
            assert one["code"] == 1
            assert one["said"].splitlines()[-1].startswith("textsvm: ")
            # "cannot write out.textsvm: ..." names a file
            assert sum(line.startswith("textsvm: ") for line in one["said"].splitlines()) == 1
            assert one["beside"] == []


@posix
@pytest.mark.parametrize("name", killed.LONG)
def test_a_signal_ends_a_command_tidily(name, server):
    for number in killed.LONG[name][1]:
        answer = killed.ask(server, name, number)
        assert answer["code"] == 128 + number, answer
        last = answer["said"].splitlines()[-1]
        how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
        assert last.startswith(f"textsvm: {how}; ")
        assert ("1 line of output was" if name == "predict" else "no output was") in last
        assert answer["said"].count("textsvm: ") == 1
        assert answer["left"] == {}


@posix
def test_signals_that_are_ignored_stay_so_and_a_second_one_does_not_disturb():
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        console.watch_signals()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        if (child := os.fork()) == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)  # as `timeout` sends it, to the process and to its group
        assert console._signals[0][0] == signal.SIGTERM
    finally:
        console._signals.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m"
    assert run("train", sample("reviews"), "--kernel", "fast", "-o", path).returncode == 0
    return path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_standard_output_is_one_sentence(model, tmp_path):
    for command in (
        ["predict", model, sample("reviews")],
        ["evaluate", model, sample("reviews"), "--json"],
        ["train", sample("reviews"), "--kernel", "spectrum", "-o", "-", "-q"],
        ["--help"],
    ):
        done = run(*command, stdout="/dev/full")
        own = [line for line in done.stderr.decode().splitlines() if line.startswith("textsvm: ")]
        assert own == ["textsvm: standard output: No space left on device"]
        assert done.returncode == 1
        assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_notes_that_nobody_can_be_told_stop_no_work(model, tmp_path):
    """The log of a job on a full disk is no reason to lose its model."""
    works("train", sample("reviews"), "--kernel", "fast", "-o", tmp_path / "m", stderr="/dev/full")
    assert (tmp_path / "m").exists()
    assert run("train", "nothing", "-o", tmp_path / "m", stderr="/dev/full").returncode == 1


@posix
def test_closed_streams_are_none_of_our_files(model, tmp_path):
    """What is opened first would get the number of a closed stream, and prints with it."""
    command = f'"{sys.executable}" -m textsvm evaluate "{model}" "{sample("reviews")}" --report r.html'
    assert subprocess.run(f"{command} <&- >&- 2>&-", shell=True, cwd=tmp_path).returncode == 0
    assert (tmp_path / "r.html").read_bytes().startswith(b"<!doctype html>")


@posix
def test_help_for_nobody_is_quiet():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "textsvm", "--help"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == b""


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_told_before_the_work(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    message = fails("train", sample("reviews"), "-o", tmp_path / "closed" / "m")
    assert "cannot write into the folder of the output" in message


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc is of Linux")
def test_a_folder_that_refuses_files_from_root_is_told_before_the_work():
    message = fails("train", sample("reviews"), "-o", "/proc/m")
    assert "cannot write into the folder of the output, /proc" in message


def test_a_search_whose_model_cannot_be_written_is_kept(tmp_path, monkeypatch, capsys):
    """A disk that is full in the end costs no hours: the table of settings goes when the model is there."""
    full = raising(InputError("cannot write m: No space left on device; nothing was changed"))
    command = f"textsvm tune {sample('questions')} --p 2 -C 1 --folds 2 -o {tmp_path / 'm'}"
    monkeypatch.setattr("sys.argv", command.split())
    with monkeypatch.context() as patch:
        patch.setattr("textsvm.cli.model_files.save_model", full)
        assert console.main(cli.app_of()) == 1
    expected = f"1 setting tried so far; continue with --resume {tmp_path / 'm'}.tuning"
    assert expected in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", [*command.split(), "--resume", f"{tmp_path / 'm'}.tuning"])
    assert console.main(cli.app_of()) == 0
    assert (tmp_path / "m").exists()
