"""What a fault leaves behind: the old file or the new one, and a sentence."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import run

from textsvm.readers import read_corpus, sample

HERE = Path(__file__).parent
COMMANDS = {
    "out.textsvm": "train corpus.tsv --kernel spectrum --p 2 -o out.textsvm",
    "out.npy": "gram corpus.tsv --kernel spectrum --p 2 -o out.npy",
    "out.npz": "features corpus.tsv --p 2 -o out.npz",
    "out.html": "evaluate model corpus.tsv --report out.html",
    "tuned.textsvm": "tune corpus.tsv --kernel spectrum --p 2 -C 1,10 --folds 2 -o tuned.textsvm",
}


@pytest.fixture
def here(tmp_path):
    corpus = read_corpus(sample("reviews"))
    rows = zip(corpus.labels[:30], corpus.texts, strict=False)
    lines = ["label\ttext\n", *(f"{label}\t{' '.join(text.split())}\n" for label, text in rows)]
    (tmp_path / "corpus.tsv").write_text("".join(lines), "utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("the shim that kills needs Linux and a C compiler")
    made = tmp_path_factory.mktemp("shim") / "kills.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, HERE / "kills.c", "-ldl"], check=True)
    return made


@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_at_any_call_that_writes_leaves_the_old_file_or_the_new_one(name, here, shim):
    if name == "out.html":
        assert run("train", "corpus.tsv", "--kernel", "spectrum", "-o", "model", cwd=here).returncode == 0
    program = [sys.executable, HERE / "killed.py", here, name, os.environ.get("TEXTSVM_KILLS", "2")]
    done = subprocess.run(
        [*program, *COMMANDS[name].split()],
        env={**os.environ, "LD_PRELOAD": str(shim)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, found = json.loads(done.stdout)
    assert code == 0
    assert len(found) > 1
    assert {state for state, _ in found} <= {"old", "new"}
    assert found[-1] == ["new", 0]  # what the killed ones left is gone
    assert max(beside for _, beside in found) <= 1
