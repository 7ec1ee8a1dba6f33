"""Crammer and Singer's multiclass SVM on R8, letter and pendigits.

Grams are given (R8: spectrum p=5; the others: Gaussian). First equality: objective, duality gap and violation
are recomputed in float64 from the Gram, and a plain cyclic solver ends at the same objective. Then the times
of both on the same host, in turns. The cyclic solver is what one would write first, in one thread: example by
example in random order, the same exact step, all gradients brought up to date after each.
"""

from __future__ import annotations

import argparse
import bz2
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from benchmarks.harness import BenchmarkReport, benchmark, data_folder, paired
from textsvm.gram.base import DenseGram
from textsvm.kernels import Spectrum
from textsvm.readers.read import read_corpus
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device, cupy, select, synchronize
from textsvm.solvers import crammer_singer
from textsvm.solvers import dual as duals
from textsvm.solvers.solution import Solution, Stopping
from textsvm.solvers.solve import solve_chains
from textsvm.text.documents import encode

Values = NDArray[np.float32]
#: Corpus, gamma of its Gaussian kernel if it is vectors, and C.
TASKS: list[tuple[str, float, float]] = [
    ("R8", 0.0, 1.0),
    ("R8", 0.0, 100.0),
    ("pendigits", 1.0, 10.0),
    ("letter.scale", 4.0, 1.0),
    ("letter.scale", 4.0, 16.0),
    ("letter.scale", 0.5, 10.0),
]
TOL = 1e-3


def gaussian(points: NDArray[np.float64], others: NDArray[np.float64], gamma: float) -> Values:
    """exp(-gamma |x - y|^2)."""
    result = 2 * points @ others.T
    result -= (points**2).sum(1)[:, None]
    result -= (others**2).sum(1)
    np.minimum(result, 0, out=result)
    result *= gamma
    return np.exp(result, out=result).astype(np.float32)


def vectors(name: str, gamma: float) -> tuple[Values, NDArray[np.int64], Values, NDArray[np.int64]]:
    """Gram, classes, kernel values of the test part and its classes."""
    parts = []
    for suffix in (".bz2", ".t.bz2"):
        with bz2.open(data_folder() / "libsvm" / f"{name}{suffix}") as lines:
            points, labels = load_svmlight_file(lines, n_features=16)
        points = points.toarray()
        parts.append((points / 50 - 1 if name == "pendigits" else points, labels.astype(np.int64)))
    (points, y), (others, theirs) = parts
    return gaussian(points, points, gamma), y - y.min(), gaussian(others, points, gamma), theirs - y.min()


def texts(name: str, device: Device) -> tuple[Values, NDArray[np.int64], Values, NDArray[np.int64]]:
    """The same of R8, spectrum p=5."""
    found = []
    for part in ("train", "test"):
        corpus = read_corpus(data_folder() / "r8" / f"r8-{part}-all-terms.txt.xz")
        found.append((list(corpus.texts), np.array(corpus.labels)))
    (train, labels), (test, theirs) = found
    documents = encode(train)
    rows = Spectrum(p=5).fit(documents).rows(documents, device)
    classes = np.unique(labels)
    gram, cross = rows.gram(), rows.cross(encode(test, documents.alphabet))
    y, other = np.searchsorted(classes, labels), np.searchsorted(classes, theirs)
    return on_host(gram), y, on_host(cross), other


def on_host(array: Any) -> Values:
    """The array as a NumPy array."""
    return array if isinstance(array, np.ndarray) else array.get()


@njit(nogil=True, cache=True, error_model="numpy")
def _cyclic(K: Any, target: Any, C: Any, G: Any, coef: Any, order: Any, least: Any) -> Any:
    """One sweep; the largest violation met."""
    k, worst, new = len(G), 0.0, np.empty(len(G))
    for i in order:
        top, low = -np.inf, np.inf
        for r in range(k):
            top = max(top, G[r, i])
            if coef[r, i] < (C if r == target[i] else 0.0):
                low = min(low, G[r, i])
        worst = max(worst, top - low)
        if top - low <= least:
            continue
        crammer_singer._best(G, coef, i, target[i], C, np.float64(K[i, i]), new)
        for r in range(k):
            change = new[r] - coef[r, i]
            if change != 0.0:
                coef[r, i] = new[r]
                g, row = G[r], K[i]
                for c in range(len(row)):
                    g[c] += change * row[c]
    return worst


def cyclic(K: Values, y: NDArray[np.int64], C: float) -> float:
    """-D where the plain solver ends."""
    k, m = int(y.max()) + 1, len(y)
    own = (np.arange(k)[:, None] == y).astype(np.float64)
    G, coef, rng, worst = -own, np.zeros((k, m)), np.random.default_rng(0), np.inf
    while worst > TOL:
        worst = _cyclic(K, y, C, G, coef, rng.permutation(m), 0.1 * TOL if worst == np.inf else 0.1 * worst)
        if worst <= TOL:
            worst = _cyclic(K, y, C, G, coef, np.arange(m), np.inf)
    return 0.5 * float(np.sum(coef * (G + own))) - float(np.sum(coef * own))


def judged(K: Values, y: NDArray[np.int64], C: float, solution: Solution) -> float:
    """-D from scratch, once violation and duality gap are what the solution says."""
    coef, own = solution.coef, np.arange(len(solution.coef))[:, None] == y
    f = np.concatenate([coef @ K[:, c : c + 1000].astype(np.float64) for c in range(0, len(y), 1000)], 1)
    G = f - own
    violation = np.max(G.max(0) - np.where(coef < C * own, G, np.inf).min(0))
    norm, linear = 0.5 * np.sum(coef * f), np.sum(coef * own)
    primal = norm + C * np.sum(G.max(0) - np.sum(G * own, 0))
    gap = 2 * (primal - (linear - norm)) / (primal + linear - norm)
    assert solution.converged
    assert violation <= TOL * 1.000001
    assert abs(solution.duality_gap - gap) <= 1e-7
    assert abs(solution.objective - (norm - linear)) <= 1e-9 * linear
    return float(norm - linear)


def compare(name: str, gamma: float, C: float, device: Device, repeats: int) -> dict[str, Any]:
    """One row of the report."""
    K, y, cross, theirs = vectors(name, gamma) if gamma else texts(name, device)
    gram = DenseGram(cupy().asarray(K) if device.kind == "cuda" else K)

    def ours() -> Solution:
        dual = duals.crammer_singer(y, int(y.max()) + 1, C)
        solution = solve_chains(gram, [[dual]], Stopping(TOL))[0][0]
        synchronize(device)
        return solution

    solution = ours()
    objective, other = judged(K, y, C, solution), cyclic(K, y, C)
    assert abs(objective - other) <= 1e-4 * abs(objective), (objective, other)
    plain: Callable[[], float] = partial(cyclic, K, y, C)
    times = paired(ours, plain, repeats)
    correct = (solution.coef @ cross.T.astype(np.float64)).argmax(0) == theirs
    return {
        "corpus": name,
        "n": len(y),
        "classes": int(y.max()) + 1,
        "kernel": f"Gaussian gamma={gamma:g}" if gamma else "spectrum p=5",
        "C": C,
        "objective": f"{objective:.5f}",
        "cyclic's, relative": f"{(other - objective) / abs(objective):.1e}",
        "relative duality gap": f"{solution.duality_gap:.1e}",
        "steps": solution.iterations,
        "support vectors": len(solution.support),
        "test accuracy %": f"{100 * correct.mean():.2f}",
        "ours, s": times["ours"],
        "cyclic, s": times["theirs"],
        "cyclic / ours": times["ratio"],
    }


@benchmark(
    "crammer_singer",
    "Crammer and Singer's multiclass SVM, tol 1e-3",
    "reports/cpu_crammer_singer",
    device="cpu",
    gpu_output="reports/gpu/crammer_singer",
    repeats=3,
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Solve each task with textsvm and with a cyclic solver."""
    for name, gamma, C in TASKS:
        given = (name, gamma, C, select(options.device), options.repeats)
        report.row(f"{name} {gamma:g} {C:g}", compare, *given)
