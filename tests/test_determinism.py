"""The same command writes the same bytes: whatever the threads, hashes, locale, folder and order of files."""

import json
import os
import subprocess
import sys

import pytest

from textsvm.readers import sample
from textsvm.readers.read import read_corpus

pytestmark = pytest.mark.slow

COMMANDS = {
    "gap.textsvm": "train texts --kernel gap:3 -o",
    "auto.textsvm": "train texts -o",
    "calibrated.textsvm": "train texts --kernel spectrum:1-3,log,idf --calibrate isotonic --holdout 0.3 -o",
    "labels.textsvm": "train labels.tsv --multilabel --label-separator , --kernel spectrum -o",
    "numbers.textsvm": "train numbers.tsv --regress score --kernel spectrum -o",
    "features.textsvm": "train texts --kernel spectrum --solver features -o",
    "tuned.textsvm": "tune texts --kernel spectrum --p 2,3 -C 1,10 -o",
    # Large enough that BLAS adds in another order with more threads.
    "drift.textsvm": f"train {sample('messages')} --kernel spectrum:1-4 -o",
}
#: The commands one after another, as if this machine had so many cores.
PROGRAM = """
import json, os, sys
cores, commands = int(sys.argv[1]), json.loads(sys.argv[2])
if hasattr(os, "sched_getaffinity"):
    os.sched_getaffinity = lambda process: set(range(cores))
else:
    os.cpu_count = lambda: cores
from textsvm import cli
for command in commands:
    sys.argv = ["textsvm", *command]
    try:
        cli.main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{command}: {end.code}")
"""


#: Of them, where two cores write as one and sixteen do.
OF_TWO = ("gap.textsvm", "auto.textsvm")


def written(folder, cores, backwards, names=tuple(COMMANDS), **environment):
    """What commands write in a new folder, from files that were made forwards or backwards."""
    corpus = read_corpus(sample("reviews"))
    texts = [" ".join(text.split()) for text in corpus.texts[:60]]
    for i in range(60)[:: -1 if backwards else 1]:
        place = folder / "texts" / corpus.labels[i]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i}.txt").write_text(texts[i], "utf-8")
    labels = [("one", "two", "one,two")[i % 3] for i in range(60)]
    for name, head, targets in (
        ("labels", "label", labels),
        ("numbers", "score", [i % 7 for i in range(60)]),
    ):
        lines = [f"{head}\ttext", *(f"{one}\t{text}" for one, text in zip(targets, texts, strict=True))]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    commands = json.dumps([[*COMMANDS[name].split(), name, "--quiet"] for name in names])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(cores), commands],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    few = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "1", "LC_ALL": "C"}
    many = {"NUMBA_NUM_THREADS": "16", "OMP_NUM_THREADS": "16", "PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8"}
    return (
        written(tmp_path_factory.mktemp("one"), 1, False, **few),
        written(tmp_path_factory.mktemp("other"), 16, True, **many),
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_command_writes_the_same_bytes(both, name):
    one, other = both
    assert one[name] == other[name]


def test_two_cores_write_it_too(both, tmp_path):
    threads = {"NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "random"}
    assert written(tmp_path, 2, False, OF_TWO, **threads) == {name: both[0][name] for name in OF_TWO}


def test_the_way_to_train_is_chosen_whatever_cores_there_are(monkeypatch):
    import numpy as np

    from textsvm.kernels import Spectrum
    from textsvm.runtime import device, parallel
    from textsvm.solvers.problems import Classification
    from textsvm.text.documents import encode
    from textsvm.training.grams import features_of

    documents = encode(["some text", "another text"] * 10)
    problem = Classification(np.arange(20), np.arange(20) % 2, 2, 1.0, np.ones(20))
    predictions = set()
    for cores in (1, 2, 16):
        with parallel.limit(cores):
            features = features_of(Spectrum(3), documents, problem, 1e-3, device.select("cpu"))
            predictions.add(features.seconds(20, "cpu"))
    assert len(predictions) == 1
