"""Gaussian-kernel SVMs on many vectors, whose kernel matrix exceeds any memory budget.

Each class is a mixture of Gaussians in d dimensions, drawn with a seed, and the two overlap. Rows of the
kernel matrix come on demand under the budget. Objectives are recomputed in float64 from the support vectors;
the exponent is the slope of log time over the upper half of a series.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import BenchmarkReport, benchmark, option
from benchmarks.memory import free_all, peak_memory
from benchmarks.plots import Series, lines
from benchmarks.scale import growth
from benchmarks.vectors import gaussian_objective, require_feasible
from textsvm import Compute
from textsvm.estimators.svm import SVC
from textsvm.kernels import Gaussian

#: Gaussians in each class, and how far their means are spread beside a deviation of 1, in any dimension.
COMPONENTS, SPREAD = 8, 4.0
C = 1.0
Vectors = NDArray[np.float32]


def mixture(n: int, d: int, seed: int) -> tuple[Vectors, NDArray[np.int64]]:
    """n vectors of either class, shape (n, d), and their classes; means are the same for every seed.

    Two means are about `SPREAD` times the square root of 2 apart, whatever d: the classes overlap.
    """
    means = np.random.default_rng(d).normal(0, SPREAD / np.sqrt(d), (2 * COMPONENTS, d))
    rng = np.random.default_rng(seed)
    component = rng.integers(0, 2 * COMPONENTS, n)
    x = rng.standard_normal((n, d), np.float32)
    x += means.astype(np.float32)[component]
    return x, component % 2


def cell(n: int, d: int, options: argparse.Namespace, repeats: int) -> dict[str, Any]:
    """Train on n vectors, the last of some times, and predict others."""
    x, y = mixture(n, d, 0)
    x_test, y_test = mixture(options.tests, d, 1)
    gamma = 1 / (2 * d)
    model = SVC(Gaussian(gamma), C=C, compute=Compute(memory=options.memory), device=options.device)
    for _ in range(repeats):
        free_all()
        clock = time.perf_counter()
        model.fit(x, y)
        seconds = time.perf_counter() - clock
    peak = peak_memory()
    require_feasible(model.dual_coef_, C)
    found = gaussian_objective(x[model.support_], model.dual_coef_, gamma, None, model.device_)
    [solution] = model.solutions_
    return {
        "n": n,
        "d": d,
        "objective": f"{found:.3f}",
        "the solver's, relatively": f"{(-solution.objective - found) / found:.1e}",
        "violation": f"{solution.violation:.1e}",
        "relative gap": f"{solution.duality_gap:.1e}",
        "support vectors": len(model.support_),
        "test accuracy": round(float(np.mean(model.predict(x_test) == y_test)), 4),
        "fit, s": round(seconds, 3),
        "Gram, s": round(model.seconds_["gram"], 3),
        "solve, s": round(model.seconds_["solve"], 3),
        "iterations": model.n_iter_,
        "peak memory, GiB": round(peak / 2**30, 1),
        "rows": model.gram_description_,
    }


@benchmark(
    "mixtures",
    "Many vectors, rows on demand",
    "reports/mixtures",
    option(
        "--sizes", type=int, nargs="*", default=[50_000, 100_000, 200_000, 500_000], help="numbers of vectors"
    ),
    option("--dimensions", type=int, nargs="*", default=[20, 100], help="dimensions of the vectors"),
    option("--memory", default="8GiB", help="byte budget of kernel rows"),
    option("--tests", type=int, default=20_000, help="predicted vectors"),
    device="auto",
    gpu_output="reports/gpu/mixtures",
    quick="use few vectors",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Measure training time over the number of vectors."""
    if options.quick:
        options.sizes, options.memory, options.tests = [200, 400], "400kB", 200
    series: dict[int, list[tuple[float, float]]] = {}
    for d in options.dimensions:
        for n in options.sizes:
            make = partial(cell, n, d, options, 1 + (n == options.sizes[0]))
            result = report.row(f"d = {d}, n = {n:,}", make)
            series.setdefault(d, []).append((n, result["fit, s"]))
    curves: Series = {}
    for d, points in series.items():
        exponent = round(growth(*zip(*points, strict=True)), 2) if len(points) > 1 else None
        report.row(f"growth, d = {d}", dict, {"d": d, "exponent": exponent})
        curves[f"d = {d}" + f", exponent {exponent}" * (exponent is not None)] = points
    lines(report.path.with_suffix(".svg"), [("vectors", curves)], "seconds to train")
