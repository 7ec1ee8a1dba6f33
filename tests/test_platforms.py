"""What Windows and macOS need, as far as another system can see it: files, names, modules, line ends."""

import ast
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from textsvm.cli.console import Console
from textsvm.readers.read import read_corpus

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".ci"))
from portable import troubles  # noqa: E402

pytestmark = pytest.mark.slow

#: What a Python for Windows does not have, taken away once the libraries below are there; then every module
#: is imported, and a machine is trained, saved, loaded and asked.
WITHOUT_POSIX = """
import asyncio, multiprocessing.pool, pkgutil, signal, socket, _socket, sys, tempfile, os
import joblib, numba, numpy, rich.progress, scipy.sparse, sklearn.svm, typer.testing
from importlib import import_module
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog"):
    sys.modules[name] = None
for owner, names in (
    (os, "fork sched_getaffinity posix_fallocate posix_fadvise sysconf getuid geteuid getloadavg O_CLOEXEC"),
    (signal, "SIGHUP SIGKILL SIGALRM SIGPROF SIGUSR1 alarm setitimer"),
    (socket, "AF_UNIX"), (_socket, "AF_UNIX"),
):
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)
import textsvm
for each in pkgutil.walk_packages(textsvm.__path__, "textsvm."):
    if not each.name.endswith("__main__"):
        try:
            import_module(each.name)
        except ModuleNotFoundError as error:
            if error.name in sys.modules or error.name.startswith("textsvm"):  # hidden, not merely an extra
                raise
texts, labels = ["free money now", "see you monday"] * 4, ["spam", "ham"] * 4
textsvm.save(textsvm.SVC(textsvm.Spectrum(3)).fit(texts, labels), sys.argv[1])
assert list(textsvm.load(sys.argv[1]).predict(texts)) == labels
from textsvm.runtime.memory import free
assert free() > 0
from textsvm.apps.mail import client
sys.exit(client.run([sys.argv[1]]) - client.ERROR)
"""


def test_no_module_needs_what_windows_lacks(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX, str(tmp_path / "m")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "textsvm mail classify" in done.stderr


def test_a_path_of_this_checkout_can_be_one_everywhere():
    listed = subprocess.run(["git", "ls-files", "-sz"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no checkout with its history")
    entries = [line.split("\t", 1) for line in listed.stdout.split("\0") if line]
    assert len(entries) > 500
    assert {about.split()[0] for about, _ in entries} <= {"100644", "100755"}, "a link, or a submodule"
    assert not troubles([path for _, path in entries])


@pytest.mark.parametrize(
    "names",
    [["a/con"], ["NUL.txt"], ["x/aux.c"], ["com1"], ["a:b"], ["what?"], ["a/b."], ["a /b"], ["a\\b"],
     ["a\tb"], ["Read/me", "read/me"], ["Sample/a", "sample/b"], ["straße", "STRASSE"], ["a/" * 100 + "b"]],
    ids=repr,
)  # fmt: skip
def test_paths_that_another_system_cannot_hold_are_found(names):
    assert troubles(names)
    assert not troubles(["console.py", "a/nul_model.py", "a/.hidden", "a/auxiliary", "b/a.b.c"])


def opened_as_text():
    """Calls that open files as text: where, whether they write, and what they name; ** is None."""
    sources = (
        (path, path.read_text("utf-8"))
        for path in sorted(
            path
            for folder in ("textsvm", "benchmarks", "fuzz", "docs", "reports")
            for path in (ROOT / folder).rglob("*.py")
        )
    )
    trees = ((path, ast.parse(source)) for path, source in sources if re.search(r"\bopen\(|_text\(", source))
    for path, node in ((path, node) for path, tree in trees for node in ast.walk(tree)):
        if not isinstance(node, ast.Call):
            continue
        of = getattr(node.func, "attr", getattr(node.func, "id", ""))
        said = {each.arg for each in node.keywords}
        if of in ("read_text", "write_text"):
            said |= {"encoding"} if len(node.args) > (of == "write_text") else set()
            yield f"{path}:{node.lineno}", of == "write_text", said
        elif of == "open":
            modes = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            if modes and "b" not in modes[0]:
                yield f"{path}:{node.lineno}", modes[0][0] in "wax", said


def test_text_is_read_and_written_with_a_named_encoding_and_line_ends():
    """Else both are the machine's: on Windows a file of ours would not begin as `cli/output.py` knows it."""
    found = list(opened_as_text())
    assert sum(writes for _, writes, _ in found) > 15
    assert not [where for where, _, said in found if not said & {"encoding", None}]
    assert not [where for where, writes, said in found if writes and not said & {"newline", None}]


def test_line_ends_of_windows_are_read(tmp_path):
    rows = "text,label\r\nfree money,spam\r\nsee you,ham\r\n"
    (tmp_path / "t.csv").write_bytes(rows.encode())
    (tmp_path / "t.tsv").write_bytes(rows.replace(",", "\t").encode())
    lines = ['{"text": "free money", "label": "spam"}', '{"text": "see you", "label": "ham"}']
    (tmp_path / "t.jsonl").write_bytes("".join(line + "\r\n" for line in lines).encode())
    for path in tmp_path.iterdir():
        corpus = read_corpus(path)
        assert (corpus.texts, corpus.labels) == (["free money", "see you"], ["spam", "ham"])


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8", "ascii"])
def test_json_is_utf_8_whatever_the_console(encoding, monkeypatch):
    """A pipe on Windows has the system's code page, and é in it is no JSON."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding, "backslashreplace")
    monkeypatch.setattr(sys, "stdout", stream)
    Console().print_json({"id": "café", "label": "spam"})
    stream.flush()
    assert json.loads(stream.buffer.getvalue().decode("utf-8")) == {"id": "café", "label": "spam"}
