"""textsvm bench mixtures: Gaussian machines on many vectors, whose kernel matrix no budget holds.

Each class is a mixture of Gaussians in d dimensions, drawn with a seed, and the two overlap. Rows of the
kernel matrix come on demand under the budget. Objectives are recomputed in float64 from the support vectors;
the exponent is the slope of log time over the upper half of a series.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import Compute
from textsvm.bench.dual_objective import gaussian_objective, require_feasible
from textsvm.bench.harness import Rows, free_all, peak_memory
from textsvm.bench.plots import Series, lines
from textsvm.bench.scale import growth
from textsvm.estimators.svm import SVC
from textsvm.kernels import Gaussian
from textsvm.runtime.device import select

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
        "rows": model.gram_,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/mixtures.md, .json and .svg, or those in reports/gpu (or the files asked for)."""
    parser = argparse.ArgumentParser(prog="textsvm bench mixtures", description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sizes", type=int, nargs="*", default=[50_000, 100_000, 200_000, 500_000])
    parser.add_argument("--dimensions", type=int, nargs="*", default=[20, 100])
    parser.add_argument("--memory", default="8GiB", help="bytes that rows may take")
    parser.add_argument("--tests", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="small")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes, options.memory, options.tests = [200, 400], "400kB", 200
    on_gpu = select(options.device).kind == "cuda"
    output = options.output or Path("reports/gpu/mixtures" if on_gpu else "reports/mixtures")
    command = f"textsvm bench mixtures --device {options.device} --memory {options.memory}"
    command += f" --sizes {' '.join(map(str, options.sizes))}" + " --quick" * options.quick
    rows = Rows(output, "Many vectors, rows on demand", command)
    series: dict[int, list[tuple[float, float]]] = {}
    for d in options.dimensions:
        for n in options.sizes:
            make = partial(cell, n, d, options, 1 + (n == options.sizes[0]))
            found = rows.row(f"d = {d}, n = {n:,}", make)
            series.setdefault(d, []).append((n, found["fit, s"]))
    pictured: Series = {}
    for d, points in series.items():
        exponent = round(growth(*zip(*points, strict=True)), 2) if len(points) > 1 else None
        rows.row(f"growth, d = {d}", dict, {"d": d, "exponent": exponent})
        pictured[f"d = {d}" + f", exponent {exponent}" * (exponent is not None)] = points
    rows.write()
    lines(output.with_suffix(".svg"), [("vectors", pictured)], "seconds to train")


if __name__ == "__main__":
    main()
