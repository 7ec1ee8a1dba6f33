"""Limits of main memory: they are seen before work begins, and where it ends one sentence says so."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock
from urllib.request import Request, urlopen

import numpy as np
import pytest
from loading import load
from refusals import raising, refuses

import textsvm
from textsvm import SVC, Spectrum
from textsvm.cli import app_of, console
from textsvm.errors import TooMuchWork
from textsvm.gram.base import allowed_bytes
from textsvm.readers import sample
from textsvm.runtime import memory as host_memory
from textsvm.training import fold_grams

pytestmark = pytest.mark.slow

resource = pytest.importorskip("resource")
ROWS = "".join(f"{'ham' if i % 2 else 'spam'}\t{'buy now' if i % 3 else 'see you'} {i}\n" for i in range(24))
COMMANDS = {
    "train": "train corpus.tsv --kernel spectrum:2 --device cpu -o out",
    "tune": "tune corpus.tsv --kernel spectrum --p 2 -C 1,10 --folds 2 --device cpu -o out",
    "predict": "predict model corpus.tsv --device cpu",
    "evaluate": "evaluate model corpus.tsv --device cpu --report out.html",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("corpus.tsv").write_text("label\ttext\n" + ROWS)
    rows = [line.split("\t") for line in ROWS.splitlines()]
    textsvm.save(SVC(Spectrum(2), device="cpu").fit([x for _, x in rows], [y for y, _ in rows]), "model")
    return tmp_path


def call(monkeypatch, line):
    """The exit code of a command, in this process."""
    monkeypatch.setattr(sys, "argv", ["textsvm", *line.split()])
    return console.main(app_of([line.split()[0]]))


def test_an_estimate_without_memory_says_so(monkeypatch, capsys, tmp_path):
    why = "training is predicted to take about 2 MiB and a limit leaves 1 MiB"
    monkeypatch.setattr(fold_grams, "require_memory", raising(TooMuchWork(f"{why}; take fewer")))
    assert call(monkeypatch, f"train {sample('questions')} --kernel spectrum:3 -o {tmp_path / 'm'}") == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith(f"not tested: {why}; next: `textsvm cv`")


class Scarce:
    """Takes so many arrays from NumPy, then there is no memory left."""

    def __init__(self, monkeypatch, most):
        self.taken, self.most, self.real = 0, most, np.empty
        monkeypatch.setattr(np, "empty", self)

    def __call__(self, *given, **more):
        self.taken += 1
        if self.taken > self.most:
            raise np._core._exceptions._ArrayMemoryError((1 << 40,), np.dtype(np.float64))
        return self.real(*given, **more)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", COMMANDS)
def test_no_memory_at_any_stage_is_one_sentence_and_nothing_is_half_written(name, here, monkeypatch, capsys):
    assert call(monkeypatch, COMMANDS[name]) == 0  # what is compiled now must not meet another np.empty
    with monkeypatch.context() as within:
        every = Scarce(within, 1 << 60)
        assert call(within, COMMANDS[name]) == 0
    assert every.taken
    for written in here.glob("out*"):
        written.unlink()
    before = sorted(here.iterdir())
    for most in sorted({0, every.taken // 3, every.taken * 2 // 3, every.taken - 1}):
        with monkeypatch.context() as within:
            Scarce(within, most)
            capsys.readouterr()
            assert call(within, COMMANDS[name]) == 1
        told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("textsvm: ")]
        assert len(told) == 1
        assert "main memory" in told[0]
        assert "8.00 TiB" in told[0]
        after = [path for path in sorted(here.iterdir()) if path.name != "out.tuning"]  # that to --resume
        assert after == before
        (here / "out.tuning").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        ImportError("libgomp.so.1: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_whatever_is_raised_for_want_of_memory_is_told_as_such(error, monkeypatch, capsys):
    def app(**options):
        try:
            raise error
        except Exception as cause:
            raise OSError("Could not find libllvmlite.so") from cause

    assert console.main(app) == 1
    assert capsys.readouterr().err.startswith("textsvm: out of main memory (")


def test_a_model_that_memory_is_too_short_for_is_not_called_damaged(here, monkeypatch):
    monkeypatch.setattr(np, "frombuffer", Mock(side_effect=MemoryError("no more")))
    refuses("model takes more main memory than there is: no more", load, "model")


def container(folder, monkeypatch, *, limit, used, cached=0, above=None):
    """A tree of control groups (version 2) in which this process has so many bytes."""
    group = folder / "fs" / "pods" / "one"
    group.mkdir(parents=True)
    for place, most in ((group, limit), (group.parent, above or "max")):
        (place / "memory.max").write_text(f"{most}\n")
        (place / "memory.current").write_text(f"{used}\n")
        (place / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\n")
    (folder / "cgroup").write_text("0::/pods/one\n")
    monkeypatch.setattr(host_memory, "MEMBERSHIP", folder / "cgroup")
    monkeypatch.setattr(host_memory, "GROUPS", folder / "fs")


def own(folder, monkeypatch, limits):
    """Limits of this process, which has 600 MiB of addresses and 100 of data."""
    (folder / "status").write_text("Name:\tpython\nVmSize:\t614400 kB\nVmData:\t102400 kB\n")
    monkeypatch.setattr(host_memory, "STATUS", folder / "status")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits.get(kind, resource.RLIM_INFINITY), -1))


def test_what_is_planned_heeds_every_limit(tmp_path, monkeypatch):
    mib, cpu = 1 << 20, textsvm.runtime.device.select("cpu")
    monkeypatch.setattr(host_memory, "_available_memory", lambda: 1 << 40)
    own(tmp_path, monkeypatch, {})
    container(tmp_path, monkeypatch, limit=512 * mib, used=200 * mib, cached=88 * mib)
    assert (host_memory.free(), allowed_bytes(None, cpu)) == (400 * mib, 200 * mib)
    (tmp_path / "fs" / "pods" / "memory.max").write_text(f"{300 * mib}")
    assert host_memory.free() == 188 * mib
    own(tmp_path, monkeypatch, {resource.RLIMIT_AS: 700 * mib})
    assert host_memory.free() == 100 * mib
    own(tmp_path, monkeypatch, {resource.RLIMIT_DATA: 150 * mib, resource.RLIMIT_AS: 700 * mib})
    assert host_memory.free() == 50 * mib
    own(tmp_path, monkeypatch, {resource.RLIMIT_DATA: 50 * mib})
    assert host_memory.free() == 0


@pytest.mark.parametrize(
    ("limit", "expected"), [(160 << 20, "cgroup) leaves 100 MiB"), (1 << 40, None), ("max", None)]
)
def test_a_container_too_small_for_the_libraries_is_told_before_they_are_loaded(
    here, limit, expected, monkeypatch, capsys
):
    own(here, monkeypatch, {})
    container(here, monkeypatch, limit=limit, used=60 << 20)
    assert call(monkeypatch, COMMANDS["train"]) == (1 if expected else 0)
    assert ("model out" in capsys.readouterr().err) != bool(expected)
    assert (here / "out").exists() != bool(expected)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such limit")
@pytest.mark.parametrize("addresses", [40, 60, 90, 120, 150, 180, 210])
@pytest.mark.parametrize("line", ["serve model", "predict model", "corpus corpus.tsv", "verify corpus.tsv -"])
def test_a_process_without_room_for_numpy_ends_with_a_sentence(line, addresses, here):
    done = subprocess.run(
        ["sh", "-c", f"ulimit -v {addresses << 10}; exec {sys.executable} -m textsvm {line}"],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100,
    )  # fmt: skip
    told = [line for line in done.stderr.splitlines() if line.startswith("textsvm: ")]
    assert (done.returncode, len(told), len(done.stderr.splitlines())) == (1, 1, 1), done.stderr
    assert "ulimit -v" in told[0] or "out of main memory" in told[0]


def test_a_small_limit_of_the_user_is_for_rows_alone(monkeypatch):
    before = host_memory.free()
    with host_memory.bounded(1 << 20):
        assert host_memory.free() > before // 2
    with host_memory.bounded(host_memory.LEAST_BOUND), host_memory.bounded(1 << 60):
        assert host_memory.free() <= host_memory.LEAST_BOUND


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such limit")
@pytest.mark.parametrize(("name", "code"), [("train", 1), ("predict", 0)])
def test_a_process_of_few_addresses_ends_with_a_sentence_or_needs_no_more(name, code, here):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

    long = "ham\t" + "buy now " * 20_000 + "\n"  # too long to be processed without Numba
    (here / "corpus.tsv").write_text("label\ttext\n" + ROWS * 300 + long)
    done = subprocess.run(
        [sys.executable, "-m", "textsvm", *COMMANDS[name].split()],
        capture_output=True, text=True, preexec_fn=limited, timeout=100,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    aside = ("note: ", "read ", "warning: ")
    told = [line for line in done.stderr.splitlines() if not line.startswith(aside)]
    assert (done.returncode, len(told)) == (code, 1), done.stderr
    assert ("ulimit -v" if code else "device: cpu") in told[0]
    assert len(done.stdout.splitlines()) == (0 if code else 24 * 300 + 1)
    assert not list(here.glob("out*"))


@pytest.fixture
def group():
    """Folder of a new control group of 512 MiB, whose processes are killed beyond it."""
    root, limits = Path("/sys/fs/cgroup"), {"memory": "memory.limit_in_bytes", "": "memory.max"}
    for kind, limit in limits.items():
        folder = root / kind / f"textsvm-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
        if (folder / limit).exists():
            break
        with suppress(OSError):
            folder.rmdir()
    else:
        pytest.skip("no control group can be made here: it needs root and a memory controller")
    (folder / limit).write_text(str(512 << 20))
    yield folder
    for _ in range(50):
        with suppress(OSError):
            folder.rmdir()
            break
        time.sleep(0.1)  # until the last process has left


def in_group(folder, line):
    """A process of the command line in a control group."""
    command = f"echo $$ > {folder}/cgroup.procs && exec {sys.executable} -m textsvm {line}"
    return subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def long_texts(n, symbols):
    random = np.random.default_rng(5)
    words = ["".join(map(chr, 97 + random.integers(0, 26, k))) for k in random.integers(2, 9, 30_000)]
    numbers = np.minimum(random.zipf(1.3, (n, symbols // 6)), len(words)) - 1
    return [" ".join(words[k] for k in row) for row in numbers]


def test_three_models_of_long_texts_are_served_in_a_control_group(group, here):
    texts = long_texts(24, 250_000)
    default = Spectrum((1, 5), "log", idf=True)
    for name, kernel in (("a", default), ("b", Spectrum((3, 6))), ("c", Spectrum((1, 5), "intersection"))):
        textsvm.save(SVC(kernel, device="cpu").fit(texts, ["x", "y"] * 12), name)
    labels = {name: str(textsvm.load(name).predict([texts[0][:5000]])[0]) for name in "abc"}
    server = in_group(group, "serve a b c --port 0 --timeout 60")
    try:
        lines = iter(server.stderr.readline, "")
        address = next(line for line in lines if line.startswith("answering at ")).split()[-1]
        for name, label in labels.items():
            body = json.dumps({"model": name, "text": texts[0][:5000]}).encode()
            with urlopen(Request(f"{address}/predict", body), timeout=60) as answer:
                assert json.load(answer)["label"] == label
        server.terminate()
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.communicate()


@pytest.mark.slow
def test_texts_of_a_megabyte_are_trained_on_and_judged_in_a_control_group(group, here):
    # A curly quote, as in most books: a text takes two bytes for each character.
    rows = [f"{'xy'[i % 2]}\t{text}\u2019\n" for i, text in enumerate(long_texts(25, 1_040_000))]
    Path("long.tsv").write_text("label\ttext\n" + "".join(rows), encoding="utf-8")
    training = in_group(group, "train long.tsv --device cpu -o out")
    out, err = training.communicate(timeout=500)
    assert training.returncode == 0, err
    assert "words:1-2" in err  # the default of three terms
    assert "held out of training" in out
    assert Path("out").stat().st_size > 30e6  # with an index


def test_a_training_that_does_not_fit_in_a_control_group_is_refused(group, here):
    rows = [f"{'xy'[i % 2]}\t{text}\n" for i, text in enumerate(long_texts(24, 700_000))]
    Path("long.tsv").write_text("label\ttext\n" + "".join(rows))
    training = in_group(group, "train long.tsv --kernel spectrum:3-12 --device cpu -o out")
    err = training.communicate(timeout=300)[1]
    assert training.returncode == 1, err
    assert re.search(r"predicted to take about .* MiB .*\(cgroup\) leaves .* MiB", err.splitlines()[-1])
    assert not Path("out").exists()
