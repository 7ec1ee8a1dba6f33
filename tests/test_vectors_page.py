"""docs/vectors.md, run as it stands."""

import re
import shlex
from pathlib import Path

import pytest
from command import run

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "vectors.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = re.findall(r"^    textsvm (.*)$", PAGE, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the page makes."""
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def names(folder):
    """What the Python of the page has made by its end."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in BLOCKS:
            exec(compile(block, "docs/vectors.md", "exec"), found)
    return found


def test_python(names):
    assert names["found"].best_score > 0.6
    both, tickets = names["both"], names["tickets"]
    assert both.score(tickets, tickets["queue"]) > 0.9
    assert names["model"].n_features_in_ == 16


def test_commands(names, folder):
    assert len(COMMANDS) >= 7
    for line in COMMANDS:
        done = run(*shlex.split(line), cwd=folder)
        assert done.returncode == 0, f"{line}\n{done.stderr.decode()}"
    assert (folder / "tickets.textsvm").exists()


def test_kernels_are_in_its_table():
    from textsvm.kernels import KERNELS

    of_vectors = {name for name in KERNELS if KERNELS[name].reads == "vectors"}
    table = PAGE[PAGE.index("| kernel |") : PAGE.index('`gamma="scale"`, the default')]
    assert of_vectors == set(re.findall(r"\| `([a-z]+)[:`]", table))
