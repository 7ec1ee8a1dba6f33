"""Random learning problems, solved by textsvm and by LIBSVM and checked in extended precision.

Two classes, several, weights of samples and classes, regression, one class, Crammer and Singer; 1 to 60
examples; Grams positive definite, singular, indefinite, constant, with equal rows; C and kernel values from
1e-8 to 1e8. A problem is a seed, so that one that fails is had again: `trial(seed)`.

Of every problem the violation and the objective are recomputed in extended precision from the Gram and the
coefficients: what the solver says of itself must be true. Where the Gram is positive semi-definite and the
solver says that it converged, its objective must be LIBSVM's, or a lower one, to a part in a million. The
tolerance is 1e-6 in the unit of the problem: 1 of a classifier, the largest target of a regression, the
largest response that one class may start with; differences are relative to that unit times the sum of the
coefficients, or to the quadratic term where it is larger.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import BenchmarkReport, benchmark, option
from benchmarks.random_problems import PROBLEMS, Matrix, Vector, random_problem
from benchmarks.vectors import libsvm_coef
from textsvm.gram.base import DenseGram, Gram
from textsvm.solvers import problems
from textsvm.solvers.dual import MulticlassDual
from textsvm.solvers.problems import Classification, OneClass, Problem, Regression
from textsvm.solvers.solution import Solution, Stopping, bounds
from textsvm.solvers.solve import solve

Exact = NDArray[np.longdouble]

TOL = 1e-6
#: Pairs that may be optimised: small problems need fewer, or have no end in float64.
MAX_ITER = 50_000
#: Relative difference of objectives to accept.
AGREES = 1e-6
#: Roundings of a sum of n products in float64, and of the updates that the solver adds up.
ROUNDINGS = 1e3 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Trial:
    """One problem, solved and judged.

    Attributes
    ----------
    seed : int
    kind, gram : str
        What was to be learnt, and the kind of Gram.
    semidefinite : bool
    converged : bool
        All machines, as they say.
    excess : float or None
        Our objective less LIBSVM's, relative: above 0 is a worse one. None where there is none to compare.
    beyond : bool
        Said to have converged, and with a violation above the tolerance by no more than float64 can tell.
    wrong : str
        What is not true of what was said; empty if all is.
    """

    seed: int
    kind: str
    gram: str
    semidefinite: bool
    converged: bool
    excess: float | None
    beyond: bool
    wrong: str


def trial(seed: int, gram_of: Callable[[Matrix], Gram] = DenseGram) -> Trial:
    """Make, solve (over `gram_of` the matrix) and judge the problem of a seed."""
    name, matrix, kind, problem, unit = random_problem(seed)
    tol = TOL * unit
    [[machines]] = solve(gram_of(matrix), [[problem]], Stopping(tol, MAX_ITER))
    parts = problems.machine_duals(problem)
    solved = [(part.dual, solution) for part, solution in zip(parts, machines.solutions, strict=True)]
    found = [judge(matrix, dual, solution, tol, unit) for dual, solution in solved]
    wrong, beyond = [said for said, _ in found if said], any(more for _, more in found)
    converged = all(solution.converged for solution in machines.solutions)
    semidefinite = is_semidefinite(matrix)
    excess = None
    other = _libsvm(matrix, problem, tol) if semidefinite and converged else None
    if other is not None:
        excess = _excess(matrix, machines.coef, other, problem, unit)
        if excess > AGREES and not beyond:
            wrong.append(f"the objective is {excess:.1e} above LIBSVM's")
    return Trial(seed, kind, name, semidefinite, converged, excess, beyond, "; ".join(wrong))


def is_semidefinite(matrix: Matrix) -> bool:
    """Whether the least eigenvalue is not below 0 by more than rounding."""
    values = np.linalg.eigvalsh(matrix.astype(np.float64))
    return bool(values[0] >= -1e-14 * len(values) * max(abs(values[0]), abs(values[-1])))


@dataclass(frozen=True)
class Figures:
    """Of coefficients, in extended precision.

    Attributes
    ----------
    outside : float
        How far from feasible, relative to the coefficients.
    violation, objective : float
    reach : float
        The largest response that coefficients of these sizes can have: what rounding is relative to.
    """

    outside: float
    violation: float
    objective: float
    reach: float


def judge(matrix: Matrix, dual: Any, solution: Solution, tol: float, unit: float) -> tuple[str, bool]:
    """What is not true of a solution (empty if all is), and whether float64 could not tell."""
    if not (np.isfinite(solution.coef).all() and np.isfinite([solution.bias, solution.duality_gap]).all()):
        return "a value is not a finite number", False
    exact = _multiclass_figures if isinstance(dual, MulticlassDual) else _figures
    figures = exact(matrix, dual, solution.coef.astype(np.longdouble))
    rounding = ROUNDINGS * max(figures.reach, unit)
    size, said = float(np.abs(solution.coef).sum()), []
    if figures.outside > 1e-9:
        said.append(f"infeasible by {figures.outside:.1e}")
    if abs(figures.violation - solution.violation) > rounding:
        said.append(f"its violation is {figures.violation:.6e}, it says {solution.violation:.6e}")
    if abs(figures.objective - solution.objective) > rounding * size:
        said.append(f"its objective is {figures.objective:.9e}, it says {solution.objective:.9e}")
    if solution.converged != (solution.violation <= tol):
        said.append("its flag does not say what its violation does")
    if solution.converged != (solution.status == "converged"):
        said.append("its flag does not say what its status does")
    return ", ".join(said), solution.converged and figures.violation > 1.001 * tol


def _figures(matrix: Matrix, dual: Any, coef: Exact) -> Figures:
    low, high = bounds(dual)
    values = matrix.astype(np.longdouble)[np.ix_(dual.index, dual.index)]
    q = (dual.sign * dual.linear).astype(np.longdouble)
    products = values @ coef
    F = products + q
    violation = np.max(-F[coef < high], initial=-np.inf) - np.min(-F[coef > low], initial=np.inf)
    outside = max(0.0, np.max(low - coef), np.max(coef - high)) + abs(coef.sum() - dual.total)
    return Figures(
        outside=_relative(outside, coef),
        violation=float(violation) if np.isfinite(violation) else 0.0,
        objective=float(0.5 * coef @ products + q @ coef),
        reach=float((np.abs(values) @ np.abs(coef) + np.abs(q)).max()),
    )


def _multiclass_figures(matrix: Matrix, dual: Any, coef: Exact) -> Figures:
    values = matrix.astype(np.longdouble)[np.ix_(dual.index, dual.index)]
    products = coef @ values
    G, limit = products.copy(), np.zeros(coef.shape)
    G[dual.own] -= 1
    limit[dual.own] = dual.upper
    least = np.where(coef < limit, G, np.inf).min(0)
    return Figures(
        outside=_relative(max(0.0, np.max(coef - limit)) + np.abs(coef.sum(0)).max(), coef),
        violation=max(float(np.max(G.max(0) - least, initial=-np.inf)), 0.0),
        objective=float(0.5 * (coef * products).sum() - coef[dual.own].sum()),
        reach=float((np.abs(coef) @ np.abs(values)).max() + 1),
    )


def _relative(outside: Any, coef: Exact) -> float:
    return float(outside / max(np.abs(coef).sum(), 1e-300))


def _libsvm(matrix: Matrix, problem: Problem, tol: float) -> Vector | None:
    """LIBSVM's coefficients; None where it has no such machine, or ends without a finite bias."""
    from sklearn.svm import SVC, SVR, OneClassSVM

    some = np.flatnonzero(problem.weight)  # it drops the others, and its own count of them goes wrong
    model: dict[str, Any] = {"kernel": "precomputed", "tol": tol, "max_iter": MAX_ITER}
    given: dict[str, Any] = {}
    made: Any
    if isinstance(problem, Classification):
        if problem.strategy != "ovo" or len(np.unique(problem.target[some])) < problem.n_classes:
            return None
        made, given = SVC(C=problem.C, **model), {"y": problem.target[some]}
    elif isinstance(problem, Regression):
        made, given = SVR(C=problem.C, epsilon=problem.epsilon, **model), {"y": problem.target[some]}
    else:
        assert isinstance(problem, OneClass)
        made = OneClassSVM(nu=problem.nu, **model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its bound on iterations
        try:
            made.fit(
                matrix[np.ix_(some, some)].astype(np.float64), **given, sample_weight=problem.weight[some]
            )
        except ValueError:
            return None
    found = libsvm_coef(made) if isinstance(problem, Classification) else made.dual_coef_
    coef = np.zeros((len(found), len(matrix)))
    coef[:, some[made.support_]] = found
    return coef


def _excess(matrix: Matrix, ours: Vector, theirs: Vector, problem: Problem, unit: float) -> float:
    """Our objective less LIBSVM's, all machines together, relative to the size of the terms."""
    (mine, size), (its, other) = (_objective(matrix, coef, problem, unit) for coef in (ours, theirs))
    return float((mine - its) / max(size, other, 1e-300))


def _objective(matrix: Matrix, coef: Vector, problem: Problem, unit: float) -> tuple[Any, Any]:
    """The dual objective of all machines, and the size of its terms."""
    b = coef.astype(np.longdouble)
    norm, linear = 0.5 * np.sum(b * (b @ matrix.astype(np.longdouble))), np.longdouble(0)
    if isinstance(problem, Classification):
        linear = np.abs(b).sum()
    elif isinstance(problem, Regression):
        linear = np.sum(b * problem.target) - problem.epsilon * np.abs(b).sum()
    return norm - linear, max(abs(norm), unit * np.abs(b).sum())


def summarised(trials: Sequence[Trial]) -> dict[str, Any]:
    """A row of the report."""
    kind = trials[0].kind
    excess = [one.excess for one in trials if one.excess is not None and not one.beyond]
    return {
        "kind": kind,
        "problems": len(trials),
        "Gram semi-definite": sum(one.semidefinite for one in trials),
        "said: converged": sum(one.converged for one in trials),
        "of these beyond float64": sum(one.beyond for one in trials),
        "compared with LIBSVM": len(excess),
        "worst above LIBSVM, relative": f"{max(excess):.1e}" if excess else "",
        "untrue": sum(bool(one.wrong) for one in trials),
    }


NOTE = """Every problem is judged from its Gram and coefficients alone, in extended precision. Untrue: a
violation, an objective, a flag or a status that is not what the solution says, coefficients outside their
bounds, or an objective more than 1e-6 above LIBSVM's on a semi-definite Gram. Compared: problems on
semi-definite Grams that have converged. Beyond float64: the true violation is above the tolerance by less
than the rounding of a response (C and kernel values of 1e8 make responses of 1e16)."""


@benchmark(
    "numerics",
    "Random learning problems",
    "reports/numerics",
    option("--problems", type=int, default=100_000, help="number of problems"),
    option("--seed", type=int, default=0, help="seed of the first problem"),
    note=NOTE,
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Solve the problems, and fail if a figure reported by the solver is wrong."""
    clock, trials = time.perf_counter(), defaultdict(list)
    for seed in range(options.seed, options.seed + options.problems):
        result = trial(seed)
        trials[result.kind].append(result)
        if result.wrong:
            print(f"seed {seed}, {result.kind}, {result.gram}: {result.wrong}", flush=True)
        if (seed + 1 - options.seed) % 1000 == 0:
            print(f"{seed + 1 - options.seed:,} problems, {time.perf_counter() - clock:.0f} s", flush=True)
    rows = [summarised(trials[kind]) for kind in PROBLEMS if trials[kind]]
    report.title = f"{options.problems:,} random learning problems in {time.perf_counter() - clock:.0f} s"
    report.rows = {row["problems"]: row for row in rows}
    report.write()
    untrue = sum(row["untrue"] for row in rows)
    if untrue:
        raise SystemExit(f"the solver reported wrong figures for {untrue} problems")
    return rows
