"""Solve problems over one Gram, by its rows or by its features, or over features alone."""

from __future__ import annotations

from collections.abc import Sequence

from textsvm.gram.base import FeatureProducts, Gram
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.parallel import Progress, part
from textsvm.solvers import feature_machines, newton, problems
from textsvm.solvers.problems import Classification, Labelling, Machines, Problem
from textsvm.solvers.solution import Stopping

#: Bound on epochs of coordinate descent where the user sets none.
MAX_EPOCHS = 1000


def solve(
    rows: Gram | FeatureProducts,
    paths: Sequence[Sequence[Problem]],
    tol: float = 1e-3,
    max_iter: int = -1,
    duality_gap: float | None = None,
    progress: Progress | None = None,
) -> list[list[Machines]]:
    """Solve many problems over the same rows; see `textsvm.solvers.problems.solve`.

    A `Gram` whose planner prefers features still serves problems that need its rows (Crammer and Singer's).
    """
    several = [problem for path in paths for problem in path]
    features = rows.features if rows.feature_solver and all(map(newton.can_solve, several)) else None
    if features is None:
        assert not isinstance(rows, FeatureProducts)
        return problems.solve(rows, paths, tol, max_iter, duality_gap, progress)
    stopping = Stopping(tol, max_iter, duality_gap)
    solved = iter(
        solve_from_features(problem, features, stopping, part(progress, k, 1, len(several)))
        for k, problem in enumerate(several)
    )
    return [[next(solved) for _ in path] for path in paths]


def solve_from_features(
    problem: Problem, rows: FeatureRows, stopping: Stopping, progress: Progress | None = None
) -> Machines:
    """Train a problem's machines: sparse classifiers on a CPU by coordinate descent, others by Newton."""
    if rows.descent and isinstance(rows.x, Sparse) and isinstance(problem, Classification | Labelling):
        most = MAX_EPOCHS if stopping.max_iter < 0 else max(1, stopping.max_iter // max(1, len(rows.x)))
        gap = stopping.duality_gap
        return feature_machines.solve_classifier(problem, rows, stopping.tol, most, progress, gap)
    return newton.solve(problem, rows, stopping, progress)
