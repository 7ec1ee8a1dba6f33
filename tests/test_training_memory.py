"""Trainings stay within the memory that is predicted for them, or are refused before the work begins."""

import json
import subprocess
import sys

import pytest

from textsvm import SVC, Compute, InputError, Spectrum
from textsvm.runtime import memory as host_memory
from textsvm.training import grams

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")

CHILD = """
import json, re, sys
import numpy as np
from textsvm import *
from textsvm.runtime import memory
from textsvm.training import grams

def texts(n, length, seed=0):
    random = np.random.default_rng(seed)
    words = ["".join(map(chr, 97 + random.integers(0, 26, k))) for k in random.integers(2, 9, 30_000)]
    numbers = np.minimum(random.zipf(1.3, (n, length // 6)), len(words)) - 1
    return [" ".join(words[k] for k in row) for row in numbers]

promised = []
def require(needed, *words):
    promised.append(memory._resident() + needed)
    real(needed, *words)
real, grams.require_free = grams.require_free, require
name, made, n, length = sys.argv[1:]
GRAM, FEATURES = Compute(solver="gram"), Compute(solver="features")
X, y = texts(int(n), int(length)), [str(i % 2) for i in range(int(n))]
eval(made)
# Of this process alone: resource.getrusage also counts the process that started it.
peak = int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) << 10
print(json.dumps([max(promised), peak]))
"""
LONG, SHORT = (24, 250_000), (3000, 1000)
CASES = {
    "default": ("SVC(device='cpu').fit(X, y)", *LONG),
    "texts of a megabyte": ("SVC(device='cpu').fit(X, y)", 25, 1_040_000),
    "spectrum": ("SVC(Spectrum((3, 6)), compute=GRAM).fit(X, y)", *LONG),
    "short texts": ("SVC(Spectrum((1, 5)), compute=GRAM).fit(X, y)", *SHORT),
    "features": ("SVC(Spectrum((1, 5), 'log', idf=True), compute=FEATURES).fit(X, y)", *SHORT),
    "words": ("SVC(Spectrum((1, 2), tokens='words')).fit(X, y)", *LONG),
    "intersection": ("SVC(Spectrum((1, 5), 'intersection')).fit(X, y)", *LONG),
    "gapped": ("SVC(GappedKmers(5, 2), compute=GRAM).fit(X, y)", *LONG),
    "regression": ("SVR(Spectrum((1, 5), 'log', idf=True)).fit(X, np.arange(len(X)))", *LONG),
    "multilabel": ("MultilabelSVC(Spectrum((1, 4))).fit(X, [[label, 'a'] for label in y[1:]] + [[]])", *LONG),
    "one class": ("OneClassSVM(Spectrum((1, 4))).fit(X)", *LONG),
    "calibrated": ("CalibratedSVC(SVC(Spectrum((1, 4), 'log', idf=True)), cv=2).fit(X, y)", *LONG),
    "cross-validation": ("cross_validate(SVC(Spectrum((1, 4))), X, y, cv=2)", *LONG),
    "columns": ("SVC(On('a', Spectrum((1, 4))) + On('b', Gaussian())).fit(dict(a=X, b=[1] * 24), y)", *LONG),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_peak_is_what_was_promised(name):
    command = [sys.executable, "-c", CHILD, name, *map(str, CASES[name])]
    for _ in range(2):  # the first process may compile functions, while NumPy takes more memory
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        promised, peak = json.loads(done.stdout.splitlines()[-1])
        if peak < 1.2 * promised:
            break
    print(f"{name}: promised {promised >> 20}, took {peak >> 20} MiB")
    assert peak < 1.2 * promised


def test_a_training_that_does_not_fit_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(grams, "FEW_SYMBOLS", 1)
    monkeypatch.setattr(host_memory, "LEAST_BOUND", 1)
    for module in (host_memory, grams):
        monkeypatch.setattr(module, "trim", lambda: None)
    texts, labels = ["banana " * 3000, "cherry " * 3000] * 4, ["a", "b"] * 4
    SVC(Spectrum((1, 5)), device="cpu").fit(texts, labels)  # libraries are loaded without a limit
    with pytest.raises(
        InputError, match=r"predicted to take about .* MiB .*\(--memory\) leaves .*; take fewer"
    ):
        SVC(Spectrum((1, 5)), compute=Compute(memory=1000), device="cpu").fit(texts, labels)
    monkeypatch.setattr(host_memory, "cgroup_memory", lambda *_: iter([1000]))
    with pytest.raises(InputError, match=r"the limit of this container \(cgroup\) leaves 0 MiB"):
        SVC(Spectrum((1, 5)), device="cpu").fit(texts, labels)
