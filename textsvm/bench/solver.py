"""textsvm bench solver: the solver against LIBSVM (scikit-learn's SVC) on the same Grams.

The Grams are those of Table 3 of Shi et al. 2011 (`bench.corpora`), C = 10. First equality: objective and
bias recomputed in float64, and the decisions on the test part. Where the Gram is positive semi-definite the
objectives agree to 1e-5 at tol 1e-3 (and to 1e-6 at tol 1e-6, `--tight`); the edit-distance kernel is not,
its dual has several stationary points, and which one LIBSVM ends at changes with the order of the rows
(`--orders`). Then the time of a fit on the same host, in turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from textsvm.bench.corpora import Task, paper_tasks
from textsvm.bench.harness import data_folder, paired, write_report
from textsvm.gram.base import DenseGram
from textsvm.kernels import EditDistance, GapWeighted, Spectrum
from textsvm.kernels.base import Kernel
from textsvm.runtime.device import Device, select
from textsvm.solvers.chains import solve_dual
from textsvm.solvers.dual import Dual, svc
from textsvm.solvers.solution import Solution
from textsvm.text.documents import encode

C = 10.0
#: Kernel, and whether it is positive semi-definite.
KERNELS: dict[str, tuple[Kernel, bool]] = {
    "spectrum p=4": (Spectrum(p=4), True),
    "edit gamma=0.005": (EditDistance(gamma=0.005), False),
    "edit gamma=0.05": (EditDistance(gamma=0.05), False),
    "gap p=5 decay=0.5": (GapWeighted(p=5, decay=0.5), True),
}
Vector = NDArray[np.float64]


def libsvm(values: Vector, y: Vector, tol: float) -> tuple[Vector, float, int]:
    """LIBSVM's coefficients sign * alpha, bias and iterations."""
    model = SVC(kernel="precomputed", C=C, tol=tol).fit(values, y)
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    return coef, float(model.intercept_[0]), int(model.n_iter_[0])


def objective(values: Vector, coef: Vector, y: Vector) -> float:
    """1/2 a'Qa - sum a, from scratch."""
    return float(0.5 * coef @ (values @ coef) - coef @ y)


def equal(
    values: Vector,
    cross: Vector,
    y: Vector,
    ours: Solution,
    theirs: tuple[Vector, float, int],
    bound: float,
    tol: float,
) -> dict[str, Any]:
    """Compare two solutions; raises AssertionError if ours is worse than the bound allows."""
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


def compare(task: Task, name: str, device: Device, tol: float, repeats: int, orders: int) -> dict[str, Any]:
    """One row of the report."""
    kernel, definite = KERNELS[name]
    documents = encode(task.train)
    rows = kernel.fit(documents).rows(documents, device)
    gram = DenseGram(rows.gram())
    values = on_host(gram.matrix).astype(np.float64)
    cross = on_host(rows.cross(encode(task.test, documents.alphabet))).astype(np.float64)
    y, dual = task.y_train, svc(task.y_train, C)
    bound = np.inf if not definite else 1e-5 if tol > 1e-5 else 1e-6
    figures = equal(values, cross, y, solve_dual(gram, dual, tol=tol), libsvm(values, y, tol), bound, tol)
    times = paired(lambda: solve_dual(gram, dual, tol=tol), lambda: libsvm(values, y, tol), repeats)
    row = {"corpus": task.name, "kernel": name, "n": len(y), "tol": tol, **figures}
    row |= {"ours, s": times["ours"], "LIBSVM, s": times["theirs"], "LIBSVM / ours": times["ratio"]}
    if orders:
        row["LIBSVM's objectives by row order"] = "" if definite else spread(values, y, tol, orders)
    return row


def spread(values: Vector, y: Vector, tol: float, orders: int) -> str:
    """Smallest and largest objective that LIBSVM ends at when the rows are shuffled."""
    found = []
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(len(y))
        shuffled = np.ascontiguousarray(values[np.ix_(order, order)])
        found.append(objective(shuffled, libsvm(shuffled, y[order], tol)[0], y[order]))
    return f"{min(found):.4f} to {max(found):.4f}"


def on_host(array: Any) -> NDArray[np.float32]:
    """The array as a NumPy array."""
    return array if isinstance(array, np.ndarray) else array.get()


def run(
    tasks: list[Task], device: Device, tol: float = 1e-3, repeats: int = 3, orders: int = 0
) -> list[dict[str, Any]]:
    """All kernels on all tasks."""
    warm_up = DenseGram(_small_rows(device).gram())
    solve_dual(warm_up, Dual(np.array([1.0, -1.0]), -np.ones(2), np.ones(2), np.arange(2)))
    return [compare(task, name, device, tol, repeats, orders) for task in tasks for name in KERNELS]


def _small_rows(device: Device) -> Any:
    documents = encode(["one", "two"])
    return EditDistance().fit(documents).rows(documents, device)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/cpu_solver.md (or the file asked for)."""
    parser = argparse.ArgumentParser(prog="textsvm bench solver", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/cpu_solver"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tight", action="store_true", help="tol 1e-6 in place of 1e-3")
    parser.add_argument("--orders", type=int, default=0, help="shuffles of the rows for indefinite Grams")
    parser.add_argument("--quick", action="store_true", help="on the embedded samples")
    options = parser.parse_args(arguments)
    tasks = paper_tasks(None if options.quick else data_folder(), 100)
    tol = 1e-6 if options.tight else 1e-3
    rows = run(tasks, select(options.device), tol, options.repeats, options.orders)
    command = f"textsvm bench solver --device {options.device}" + " --tight" * options.tight
    command += f" --orders {options.orders}" if options.orders else ""
    command += " --quick" * options.quick
    write_report(options.output, "The solver against LIBSVM", command, tuple(rows[0]), rows)


if __name__ == "__main__":
    main()
