"""Pages of Markdown, run as they stand: the commands and the Python of a page, in its order."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import command
import pytest

ROOT = Path(__file__).resolve().parent.parent
#: A line of an indented block that calls textsvm or Python; or a block of Python.
_STEP = re.compile(
    r"^    (?=\S)(?P<line>.*\btextsvm [a-z].*|python .*)$|^```python\n(?P<code>(?s:.*?))^```", re.MULTILINE
)
_VERB = re.compile(r"(?<![.\w/])textsvm (?=[a-z])")


def read(name):
    """The text of a page of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def commands(text):
    """The lines of a page that are commands."""
    return [step["line"] for step in _STEP.finditer(text) if step["line"]]


def samples(folder):
    """A folder that has the sample corpora where a checkout has them."""
    shutil.copytree(ROOT / "corpora" / "samples", folder / "corpora" / "samples")
    return folder


def run(text, folder, name):
    """Run a page in a folder; every command must succeed. Return the names of its Python."""
    names = {"__name__": name}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for step in _STEP.finditer(text):
            if step["line"]:
                run_command(step["line"], folder)
            else:
                exec(compile(step["code"], name, "exec"), names)
    return names


def run_command(line, folder):
    """Run a line of a shell; textsvm and Python are those that run this test."""
    echoed = re.fullmatch(r'(?:echo "(?P<said>[^"$]*)" \| )?textsvm (?P<arguments>[^|&<>$]*)', line)
    if echoed:
        stdin = (echoed["said"] + "\n").encode() if echoed["said"] else b""
        done = command.run(*shlex.split(echoed["arguments"]), stdin=stdin, cwd=folder)
    elif sys.platform == "win32":
        return
    else:  # other pipes, and Python
        shell = re.sub(r"^python ", f"{sys.executable} ", line)
        shell = _VERB.sub(f"{sys.executable} -m textsvm ", shell)
        done = subprocess.run(
            shell, shell=True, cwd=folder, capture_output=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    said = done.stderr.decode()
    assert done.returncode == 0, f"{line}\n{said}"
    assert "Traceback" not in said
