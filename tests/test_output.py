"""What commands write: never onto what they read, never onto what is no file, links kept, - is stdout."""

import itertools
import json
import os
import socket
import subprocess
import sys
import time

import pytest
from command import fails, report, run, works
from loading import load
from refusals import refuses

import textsvm
from textsvm.cli import console
from textsvm.cli import output as outputs
from textsvm.errors import InputError
from textsvm.readers import sample
from textsvm.runtime.files import replacing

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX files")
ROWS = "text,label\n" + "".join(f"{'banana' if i % 2 else 'monday'} {i},{i % 2}\n" for i in range(12))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small corpus in a table and as a folder, and a model of it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "c.csv").write_text(ROWS)
    for i in range(8):
        path = folder / "docs" / "ab"[i % 2] / f"{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{'banana' if i % 2 else 'monday'} {i}")
    report("train", folder / "c.csv", "-o", folder / "m.textsvm")
    return folder


@pytest.fixture
def here(made, tmp_path):
    """A copy of it that a test may change."""
    import shutil

    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def everything(folder):
    """Names and contents of all that is there; of what is no file, its kind."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else path.lstat().st_mode
        for path in sorted(folder.rglob("*"))
    }


#: What each command is called with, but for its output.
COMMANDS = {
    "train": ["train", "c.csv", "-o"],
    "tune": ["tune", "c.csv", "--p", "3", "--folds", "2", "-o"],
    "cv": ["cv", "c.csv", "--folds", "2", "--predictions"],
    "evaluate": ["evaluate", "m.textsvm", "c.csv", "--report"],
    "compare": ["compare", "c.csv", "--kernel", "spectrum:2", "--report"],
    "doubts": ["doubts", "c.csv", "-o"],
}
ENDINGS = {"evaluate": ".html", "compare": ".html", "cv": ".jsonl", "doubts": ".jsonl"}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_an_input_is_never_replaced(name, here):
    """Not by its name, nor through a link, a hard link or another way of writing its path."""
    ending = ENDINGS.get(name, ".csv")
    command = [word.replace("c.csv", f"c{ending}") for word in COMMANDS[name]]
    (here / "c.csv").rename(here / f"c{ending}")
    (here / "sub").mkdir()
    os.symlink(here / f"c{ending}", here / f"link{ending}")
    os.link(here / f"c{ending}", here / f"hard{ending}")
    before = everything(here)
    for output in (f"c{ending}", f"link{ending}", f"hard{ending}", f"sub/../c{ending}", here / f"c{ending}"):
        assert "would replace the corpus" in fails(*command, output, "--force", code=2, cwd=here)
    assert everything(here) == before


def test_a_document_of_a_folder_is_never_replaced(here):
    os.symlink(here / "docs" / "a" / "0.txt", here / "link")
    os.link(here / "docs" / "a" / "0.txt", here / "hard")
    (here / "elsewhere.txt").write_text("monday 9")
    os.symlink(here / "elsewhere.txt", here / "docs" / "a" / "9.txt")
    before = everything(here)
    for output in ("docs/a/0.txt", "link", "hard", "elsewhere.txt"):
        message = fails("train", "docs", "-o", output, "--force", code=2, cwd=here)
        assert "would replace the corpus" in message
    assert everything(here) == before
    report("train", "docs", "-o", "docs/new", cwd=here)  # no document is lost by that


def test_the_other_inputs_are_never_replaced(here):
    before = everything(here)
    os.link(here / "m.textsvm", here / "m.html")
    message = fails("evaluate", "m.textsvm", "docs", "--report", "m.html", "--force", code=2, cwd=here)
    assert "would replace the model" in message
    (here / "m.html").unlink()
    assert everything(here) == before


@posix
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_file_is_never_replaced(name, here, tmp_path_factory):
    ending = ENDINGS.get(name, "")
    os.mkfifo(here / f"fifo{ending}")
    (here / f"folder{ending}").mkdir()
    os.symlink("/dev/null", here / f"device{ending}")
    os.symlink(f"loop{ending}", here / f"loop{ending}")
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.getcwd()
        os.chdir(here)  # a socket's name must be short
        listener.bind(f"socket{ending}")
        os.chdir(before)
        state = everything(here)
        for output, words in (
            ("fifo", "it is a FIFO"),
            ("folder", "it is a folder; name a file"),
            ("device", "it is a device"),
            ("socket", "it is a socket"),
            ("loop", "symbolic links"),
        ):
            assert words in fails(*COMMANDS[name], output + ending, "--force", code=2, cwd=here)
    assert everything(here) == state


def test_a_folder_that_is_not_there_is_told_before_the_work(here):
    before = everything(here)
    for name, command in COMMANDS.items():
        message = fails(*command, f"none/x{ENDINGS.get(name, '')}", code=2, cwd=here)
        assert "none, does not exist; create it first" in message
    assert everything(here) == before


@posix
def test_the_library_refuses_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    model = textsvm.SVC().fit(["banana", "monday"], [0, 1])
    refuses("it is a FIFO", textsvm.save, model, tmp_path / "fifo")
    with pytest.raises(InputError, match="it is a device"), replacing("/dev/null"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


@posix
@pytest.mark.parametrize("there", [True, False], ids=["there", "dangling"])
def test_a_link_stays_and_its_target_is_written(there, here):
    target = here / "deep" / "real.textsvm"
    target.parent.mkdir()
    if there:
        (here / "m.textsvm").rename(target)
        target.chmod(0o640)
    os.symlink("deep/real.textsvm", here / "middle")
    os.symlink("middle", here / "link")
    report("train", "c.csv", "-o", "link", "-C", "7", "--kernel", "spectrum:3", cwd=here)
    assert (here / "link").is_symlink()
    assert (here / "middle").is_symlink()
    assert not target.is_symlink()
    assert load(target).C == 7
    if there:
        assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["real.textsvm"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_of_another_kind_needs_force(name, here):
    output = here / f"mine{ENDINGS.get(name, '' if name in ('train', 'tune') else '.txt')}"
    output.write_text("my own notes, years of work\n")
    assert "--force" in fails(*COMMANDS[name], output, code=2, cwd=here)
    assert output.read_text() == "my own notes, years of work\n"
    for options in (["--force"], []):  # the second time it is an output of its kind
        works(*COMMANDS[name], output, *options, cwd=here)
        assert b"notes" not in output.read_bytes()


@pytest.mark.parametrize("output", ["r.md", "r.json"])
def test_output_of_its_own_kind_is_replaced(output, here):
    name = "evaluate"
    (here / output).write_bytes(b"")  # as mktemp leaves it
    for _ in range(2):
        works(*COMMANDS[name], output, cwd=here)
    (here / output).write_bytes(b"something else")
    assert "--force" in fails(*COMMANDS[name], output, code=2, cwd=here)


def test_a_model_to_standard_output(here):
    done = works("train", "c.csv", "-o", "-", "--json", cwd=here)
    (here / "out").write_bytes(done.stdout)
    assert load(here / "out").predict(["banana 3"]) == ["1"]
    assert json.loads(done.stderr.splitlines()[-1])["model"] == "-"
    shown = run("train", "c.csv", "-o", "-", cwd=here)
    (here / "out").write_bytes(shown.stdout)
    assert load(here / "out").predict(["banana 3"]) == ["1"]
    assert b"held out of training" in shown.stderr
    assert run("train", "c.csv", "-o", "-", "-q", cwd=here).stderr == b""
    tuned = run("tune", "c.csv", "--p", "3", "--folds", "2", "-o", "-", cwd=here)
    (here / "out").write_bytes(tuned.stdout)
    assert load(here / "out").predict(["banana 3"]) == ["1"]
    assert not (here / "-").exists()


def test_predictions_to_standard_output(here):
    done = run("cv", "c.csv", "--folds", "2", "--predictions", "-", "--json", cwd=here)
    assert len([json.loads(line)["predicted"] for line in done.stdout.splitlines()]) == 12
    assert json.loads(done.stderr.splitlines()[-1])["n"] == 12
    assert not (here / "-").exists()


def test_a_report_or_a_picture_needs_a_name(here):
    assert "standard output" in fails(*COMMANDS["evaluate"], "-", code=2, cwd=here)


@posix
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_a_new_file_heeds_the_umask_and_leaves_it_alone(mask, tmp_path, monkeypatch):
    before = os.umask(mask)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "umask", lambda _: pytest.fail("the umask of all threads was changed"))
            with replacing(tmp_path / "m") as temporary:
                assert temporary.stat().st_mode & 0o777 == 0o600
                temporary.write_text("new")
    finally:
        os.umask(before)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o666 & ~mask
    (tmp_path / "m").chmod(0o604)  # of the user, which a new file keeps
    with replacing(tmp_path / "m") as temporary:
        temporary.write_text("newer")
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o604
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_leftovers_of_runs_that_were_killed_are_cleared(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = {
        f".m.{ended.pid}.abcdefgh.tmp": (0, os.name == "nt"),  # its process is gone
        f".m.{os.getpid()}.abcdefgh.tmp": (0, True),  # being written
        f".m.{os.getpid()}.abcdefgi.tmp": (90_000, False),
        ".m.abcdefgh.tmp": (90_000, False),  # as they were called before
        ".m.abcdefgi.tmp": (0, True),
        f".other.{ended.pid}.abcdefgh.tmp": (90_000, True),
        "m.tmp": (90_000, True),
    }
    for name, (age, _) in names.items():
        (tmp_path / name).write_text("half a file")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with replacing(tmp_path / "m") as temporary:
        assert f".{os.getpid()}." in temporary.name
        temporary.write_text("whole")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"m"} | {name for name, (_, stays) in names.items() if stays}


def test_the_embedded_samples_are_never_replaced(tmp_path):
    before = everything(sample("reviews").parent)
    fails("train", sample("reviews"), "-o", sample("reviews"), "--force", code=2)
    assert everything(sample("reviews").parent) == before


@pytest.mark.parametrize(("format", "lines"), [("jsonl", 3), ("csv", 4)])
@pytest.mark.parametrize("to_file", [False, True])
def test_lines_on_stdout_are_counted_for_ctrl_c(tmp_path, monkeypatch, capsysbinary, format, lines, to_file):
    monkeypatch.setattr(console, "_printed", itertools.count())
    path = tmp_path / f"rows.{format}" if to_file else outputs.STDOUT
    kind = outputs.table_kind("-o", tmp_path / f"rows.{format}", outputs.DOUBTS)
    outputs.write_rows(outputs.Output("-o", path, kind), ["id"], ({"id": k} for k in range(3)))
    assert next(console._printed) == (0 if to_file else lines)
