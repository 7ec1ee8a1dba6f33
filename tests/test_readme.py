"""The README's recipes, run as they stand."""

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
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECIPES = README[README.index("## Recipes") : README.index("## Which kernel")]
COMMANDS = re.findall(r"^    (?=\S)(.*\btextsvm .*)$", RECIPES, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    shutil.copytree(ROOT / "corpora" / "samples", folder / "corpora" / "samples")
    return folder


def test_every_verb_is_shown():
    verbs = {re.search(r"(?<![.\w])textsvm ([a-z]+)", line)[1] for line in COMMANDS}
    assert verbs == {
        "train",
        "evaluate",
        "explain",
        "predict",
        "tune",
        "cv",
        "compare",
        "gram",
        "features",
        "neighbours",
        "corpus",
        "doubts",
        "mail",
    }


# In the order of the README: later ones use the models of those before.
@pytest.mark.skipif(sys.platform == "win32", reason="the recipes use a pipe of a POSIX shell")
def test_commands(folder):
    for line in COMMANDS:
        if line.startswith("textsvm "):
            done = command.run(*shlex.split(line)[1:], cwd=folder)
        else:  # a pipe
            shell = re.sub(r"(?<![.\w])textsvm (?=[a-z])", f"{sys.executable} -m textsvm ", line)
            done = subprocess.run(
                shell, shell=True, cwd=folder, capture_output=True, check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        said = done.stderr.decode()
        assert done.returncode == 0, f"{line}\n{said}"
        assert "Traceback" not in said
    html = (folder / "earn.html").read_text(encoding="utf-8")
    assert "<html" in html


def test_python(folder, monkeypatch):
    monkeypatch.chdir(folder)
    [code] = re.findall(r"```python\n(.*?)```", RECIPES, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["found"].best_score > 0.8
