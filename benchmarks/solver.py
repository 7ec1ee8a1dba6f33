"""The solver against LIBSVM (scikit-learn's SVC), on kernel matrices of Table 3 of Shi et al. 2010, C = 10.

First equality: objective and bias recomputed in float64, and the decisions on the test part. Where the Gram
is positive semi-definite the objectives agree to 1e-5 at tol 1e-3 (and to 1e-6 at tol 1e-6, `--tight`). The
edit-distance kernel is not: its dual has several stationary points, and the row order decides at which of
them LIBSVM stops (`--orders`). Then both fits are timed in turns.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.svm import SVC as LibSVC

from benchmarks.corpora import TrainTest, paper_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option, paired
from textsvm.arrays import Floats, Json
from textsvm.gram.base import DenseGram
from textsvm.kernels import EditDistance, GapWeighted, Spectrum
from textsvm.kernels.base import Kernel
from textsvm.runtime.device import Device, select, to_host
from textsvm.solvers.dual import Dual, svc
from textsvm.solvers.solution import Solution, Stopping
from textsvm.solvers.solve import solve_chains
from textsvm.text.documents import encode

KERNELS: dict[str, Kernel] = {
    "spectrum p=4": Spectrum(p=4),
    "edit gamma=0.005": EditDistance(gamma=0.005),
    "edit gamma=0.05": EditDistance(gamma=0.05),
    "gap p=5 decay=0.5": GapWeighted(p=5, decay=0.5),
}
C = 10.0


def libsvm(values: Floats, y: Floats, tol: float) -> tuple[Floats, float, int]:
    """LIBSVM's coefficients sign * alpha, bias and iterations."""
    model = LibSVC(kernel="precomputed", C=C, tol=tol).fit(values, y)
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    return coef, float(model.intercept_[0]), int(model.n_iter_[0])


def objective(values: Floats, coef: Floats, y: Floats) -> float:
    """1/2 a'Qa - sum a, from scratch."""
    return float(0.5 * coef @ (values @ coef) - coef @ y)


def equal(
    values: Floats,
    cross: Floats,
    y: Floats,
    ours: Solution,
    theirs: tuple[Floats, float, int],
    bound: float,
    tol: float,
) -> Json:
    """Compare two solutions; raises AssertionError if our objective is worse than the bound allows."""
    coef = y * ours.alpha
    mine, other = objective(values, coef, y), objective(values, theirs[0], y)
    worse = (mine - other) / abs(other)
    assert ours.converged
    assert abs(mine - ours.objective) <= 1e-9 * abs(mine)
    assert worse <= bound, f"objective {mine} is worse than {other}"
    decisions, reference = cross @ coef + ours.bias, cross @ theirs[0] + theirs[1]
    differ = (decisions > 0) != (reference > 0)
    if np.isfinite(bound):
        assert np.abs(reference[differ]).max(initial=0) <= 3 * tol
    return {
        "objective": f"{mine:.4f}",
        "worse than LIBSVM's by": f"{worse:.1e}",
        "decisions that differ": int(differ.sum()),
        "iterations": ours.iterations,
        "LIBSVM's": theirs[2],
        "support vectors": len(ours.support),
    }


def compare(task: TrainTest, name: str, device: Device, tol: float, repeats: int, orders: int) -> Json:
    """Row of the report."""
    kernel, definite = KERNELS[name], not name.startswith("edit")
    documents = encode(task.train)
    rows = kernel.fit(documents).rows(documents, device)
    gram = DenseGram(rows.gram())
    values = to_host(gram.matrix).astype(np.float64)
    cross = to_host(rows.cross(encode(task.test, documents.alphabet))).astype(np.float64)
    y, dual = task.y_train, svc(task.y_train, C)
    bound = np.inf if not definite else 1e-5 if tol > 1e-5 else 1e-6

    def solve() -> Solution:
        return solve_chains(gram, [[dual]], Stopping(tol))[0][0]

    figures = equal(values, cross, y, solve(), libsvm(values, y, tol), bound, tol)
    times = paired(solve, lambda: libsvm(values, y, tol), repeats)
    row = {"corpus": task.name, "kernel": name, "n": len(y), "tol": tol, **figures}
    row |= {"ours, s": times["ours"], "LIBSVM, s": times["theirs"], "LIBSVM / ours": times["ratio"]}
    if orders:
        row["LIBSVM's objectives by row order"] = "" if definite else spread(values, y, tol, orders)
    return row


def spread(values: Floats, y: Floats, tol: float, orders: int) -> str:
    """Smallest and largest objective of LIBSVM over several row orders."""
    objectives = []
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(len(y))
        shuffled = np.ascontiguousarray(values[np.ix_(order, order)])
        objectives.append(objective(shuffled, libsvm(shuffled, y[order], tol)[0], y[order]))
    return f"{min(objectives):.4f} to {max(objectives):.4f}"


def compare_with_libsvm(
    tasks: list[TrainTest], device: Device, tol: float = 1e-3, repeats: int = 3, orders: int = 0
) -> list[Json]:
    """Rows of all kernels on all tasks."""
    documents = encode(["one", "two"])  # compiles
    small = DenseGram(EditDistance().fit(documents).rows(documents, device).gram())
    solve_chains(small, [[Dual(np.array([1.0, -1.0]), -np.ones(2), np.ones(2), np.arange(2))]])
    return [compare(task, name, device, tol, repeats, orders) for task in tasks for name in KERNELS]


@benchmark(
    "solver",
    "The solver against LIBSVM",
    "reports/cpu_solver",
    option("--tight", action="store_true", help="tol 1e-6 instead of 1e-3"),
    option("--orders", type=int, default=0, help="number of row orders for indefinite Grams (default: 0)"),
    device="cpu",
    repeats=3,
    quick="use the bundled samples",
)
def run_solver(options: argparse.Namespace, report: BenchmarkReport) -> list[Json]:
    """Solve the duals of the paper with textsvm and with LIBSVM."""
    tasks = paper_tasks(None if options.quick else data_folder(), 100)
    tol = 1e-6 if options.tight else 1e-3
    return compare_with_libsvm(tasks, select(options.device), tol, options.repeats, options.orders)
