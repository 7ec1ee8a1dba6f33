"""What docs/threats.md says of files, the network and pickles, as far as a run of commands can show it."""

import json
import os
import subprocess
import sys

import pytest
from loading import load

from textsvm.evaluation.explanation import explain

pytestmark = pytest.mark.slow

#: A word of every text, the name of a document and a class, all to be found again or not.
TEXT, NAME, CLASS = "quxelzvorkamp", "nomdeplumeid", "klassenname"
#: The commands in one process, in which what Python reports of sockets and pickles is noted. Nothing listens
#: or connects, whatever a library does with the error, and then the files that are read again are.
PROGRAM = """
import json, sys
seen, reading = [], False
def note(event, given):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "urllib.Request"):
        seen.append(f"{event} {given[1:]}")
        raise OSError("no network here")
    if event == "pickle.find_class" and reading:
        seen.append(f"{event} {given}")
from textsvm import cli
sys.addaudithook(note)
for command in json.loads(sys.argv[1]):
    sys.argv = ["textsvm", *command]
    try:
        cli.main()
    except SystemExit as end:
        if end.code not in (0, None):
            sys.exit(f"{command}: {end.code}")
reading = True
import textsvm
textsvm.load("with"), textsvm.load("without")
sys.exit("; ".join(seen) or None)
"""
SPECTRUM = "--kernel spectrum:3 --quiet"
COMMANDS = f"""
corpus t.csv
train t.csv {SPECTRUM} --holdout 0.3 -o with
train t.csv {SPECTRUM} --without-texts -o without
model with --check
predict with t.csv --quiet
explain with one.txt --quiet
evaluate with t.csv --report report.html --quiet
evaluate with t.csv --report bare.html --mistakes 0 --quiet
cv t.csv {SPECTRUM} --folds 2
tune t.csv {SPECTRUM} --folds 2 -C 1,10 --resume tuned.tuning -o tuned
train t.csv {SPECTRUM} --solver gram --store store --force -o tuned
doubts t.csv {SPECTRUM} -o doubts.jsonl
mail learn --store mail --as spam one.txt --quiet
mail learn --store mail --as ham two.txt --quiet
mail learn --store bare --without-texts --as spam one.txt --quiet
mail status --store mail
devices
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands ran, with a HOME and a TMPDIR of their own."""
    folder = tmp_path_factory.mktemp("threats")
    said = ("see you", "win cash")
    rows = [f"{TEXT} {said[i % 2]} {i},{CLASS}{(i + (i == 5)) % 2},{NAME}{i}" for i in range(24)]
    (folder / "t.csv").write_text("\n".join(["text,label,id", *rows, ""]), "utf-8")
    for name, text in (("one", "win cash"), ("two", "see you")):
        (folder / f"{name}.txt").write_text(f"Subject: {TEXT} {text}\n\n{text}\n", "utf-8")
    commands = json.dumps([line.split() for line in COMMANDS.strip().splitlines()])
    environment = {**os.environ, "HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary")}
    for name in ("home", "temporary"):
        (folder / name).mkdir()
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "NUMBA_CACHE_DIR"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, commands], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def bytes_of(path):
    """Of a file, or of all files of a folder."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    assert files
    return b"".join(each.read_bytes() for each in files)


def test_no_command_uses_the_network_or_unpickles(folder):
    assert (folder / "mail").is_dir()


def test_a_model_holds_what_the_page_says(folder):
    [found] = explain(load(folder / "with"), ["win cash"])
    assert TEXT in found.similar[0].text
    assert found.similar[0].id.startswith(NAME)
    for name, ids in (("with", True), ("without", False)):
        held = bytes_of(folder / name)
        assert CLASS.encode() in held
        assert b"t.csv" in held
        assert (NAME.encode() in held) == ids
        assert TEXT.encode() not in held  # one behind the other, as code points of an alphabet


@pytest.mark.parametrize("name", ["store", "bare", "tuned.tuning", "bare.html"])
def test_no_text_is_in(folder, name):
    held = bytes_of(folder / name)
    assert TEXT.encode() not in held
    assert NAME.encode() not in held


@pytest.mark.parametrize("name", ["report.html", "mail"])
def test_text_is_in(folder, name):
    assert TEXT.encode() in bytes_of(folder / name)


def test_nothing_of_the_texts_is_left_behind(folder):
    assert not list((folder / "temporary").iterdir())
    for path in (folder / "home").rglob("*"):
        assert path.is_dir() or TEXT.encode() not in path.read_bytes(), path


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes of owner and others")
def test_the_mail_store_is_its_owners_alone(folder):
    assert (folder / "mail").stat().st_mode & 0o077 == 0
    for path in (folder / "mail").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
