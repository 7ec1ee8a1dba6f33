"""With NUMBA_DISABLE_JIT, for coverage and debuggers, results are those of compiled code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from textsvm import SVC, Gaussian, Linear, OnlineSVC, SpectrumFeatures
from textsvm.kernels.spelling import parse

TEXTS = ["the cat sat", "a dog ran far", "the cat ran", "dogs sat down", "Ünï Σς ﬁne", ""]
DNA = ["acgtacgtnacg", "ttgacgtacgta", "gattacagatta", "ccccaaaattgg", "gattacacccta", "ttnttacgtacg"]
LABELS = ["x", "y"] * 3
KERNELS = [
    "spectrum:1-3,log,idf",
    "spectrum:2,intersection,odds",
    "words",
    "edit:gamma=0.1",
    "gap:3",
    "bounded-gap:3",
    "gapped:3,m=1",
]
DNA_KERNELS = ["gapped:3,m=1,canonical", "mismatch:3,alphabet=5", "gkm:4,k=3,d=1,canonical"]


def results():
    """Decision values of all kernels, features of texts and decisions of online learning."""
    vectors = np.random.default_rng(0).normal(size=(6, 3))
    inputs = [(parse(kernel), TEXTS) for kernel in KERNELS] + [(parse(kernel), DNA) for kernel in DNA_KERNELS]
    inputs += [(Gaussian(), vectors), (Linear(), vectors)]
    values = {str(kernel): SVC(kernel).fit(X, LABELS).decision_function(X).tolist() for kernel, X in inputs}
    values["features"] = SpectrumFeatures((1, 5)).fit_transform(TEXTS).toarray().tolist()
    values["online"] = OnlineSVC().partial_fit(TEXTS, LABELS).decision_function(TEXTS).tolist()
    return values


@pytest.mark.slow
def test_results_are_those_of_compiled_code():
    program = "import json; from test_numba_disabled import results; print(json.dumps(results()))"
    folder, environment = Path(__file__).parent, {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment, cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    uncompiled, compiled = json.loads(run.stdout), results()
    assert uncompiled.keys() == compiled.keys()
    for name, values in compiled.items():
        np.testing.assert_allclose(uncompiled[name], values, rtol=1e-6, atol=1e-6, err_msg=name)
