"""Machines of any problem from rows of features, by `newton`: classes, labels, numbers, one class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from textsvm.features.rows import FeatureRows
from textsvm.parallel import Progress, part
from textsvm.solvers.dual import Dual, MulticlassDual
from textsvm.solvers.newton import solve_newton
from textsvm.solvers.newton_products import products_of
from textsvm.solvers.problems import Machines, Part, Problem, Regression, collect, parts_of
from textsvm.solvers.proximal import ColumnDuals, Products
from textsvm.solvers.solution import Solution, Stopping, assess, bounds

Values = NDArray[np.float64]
#: Machines that are trained side by side.
TOGETHER = 8
#: What of the tolerance is aimed at: objectives are 1e-5 from the optimum then, as SMO's are.
SHARE = 0.7
STOPPED = "stopped at its bound on passes"


def can_solve(problem: Problem) -> bool:
    """Whether a problem comes apart into duals of one constraint: all but Crammer and Singer's."""
    return getattr(problem, "strategy", "") != "crammer-singer"


def solve(
    problem: Problem, rows: FeatureRows, stopping: Stopping, progress: Progress | None = None
) -> Machines:
    """Train the machines of a problem; see `textsvm.solvers.problems.solve`.

    Parameters
    ----------
    problem : Problem
        One that `can_solve` accepts; its index counts rows.
    rows : FeatureRows
    stopping : Stopping
        Its bound on iterations counts passes over a row.
    progress : callable, optional
    """
    products, parts = products_of(rows), parts_of(problem)
    solutions: list[Solution] = []
    for first in range(0, len(parts), TOGETHER):
        some = parts[first : first + TOGETHER]
        within = part(progress, first, len(some), len(parts))
        solutions += _solve_parts(products, problem, some, stopping, within)
    return collect(problem, parts, solutions)


def _solve_parts(
    products: Products,
    problem: Problem,
    parts: Sequence[Part],
    stopping: Stopping,
    progress: Progress | None,
) -> list[Solution]:
    n = len(products.ridge)
    duals = ColumnDuals.beside([_column(problem, one, n) for one in parts])
    most = 10_000 if stopping.max_iter < 0 else max(1, stopping.max_iter // n)

    def assessed(coef: Values, values: Values, passes: int = 0) -> list[Solution]:
        columns = zip(parts, coef.T, values.T, strict=True)
        return [_assess(one, problem, b, fitted, passes * n, stopping) for one, b, fitted in columns]

    def satisfied(coef: Values, values: Values) -> bool:
        return all(solution.converged for solution in assessed(coef, values))

    enough = satisfied if stopping.duality_gap else None
    found = solve_newton(products, duals, SHARE * stopping.tol, most, progress, enough)
    return assessed(found.coef, found.values, found.passes)


def _column(problem: Problem, one: Part, n: int) -> ColumnDuals:
    """The dual of a machine over all rows."""
    assert not isinstance(one.dual, MulticlassDual)
    dual, epsilon = one.dual, 0.0
    index = dual.index
    low, high = bounds(dual)
    linear = dual.sign * dual.linear
    if isinstance(problem, Regression):  # the two variables of an example become one
        half, epsilon = len(index) // 2, problem.epsilon
        low, high, linear, index = low[half:], high[:half], -problem.target, index[:half]
    columns = np.zeros((4, n))
    columns[0, index], columns[1, index], columns[2, index] = linear, low, high
    if one.initial is not None:
        columns[3, index] = dual.sign * one.initial
    shaped = columns[:, :, None]
    return ColumnDuals(shaped[0], shaped[1], shaped[2], epsilon, np.array([dual.total]), shaped[3])


def _assess(
    one: Part, problem: Problem, coef: Values, values: Values, iterations: int, stopping: Stopping
) -> Solution:
    dual = one.dual
    assert isinstance(dual, Dual)
    mine, fitted = coef[dual.index], values[dual.index]
    if isinstance(problem, Regression):
        half = len(mine) // 2
        mine = np.concatenate([np.maximum(mine[:half], 0), np.minimum(mine[half:], 0)])
    made = assess(dual, mine, fitted + dual.sign * dual.linear, iterations, STOPPED, stopping.tol)
    if stopping.satisfied(made.duality_gap):
        made = replace(made, converged=True, status="converged")
    return made
