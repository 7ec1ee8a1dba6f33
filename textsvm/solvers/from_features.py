"""Machines of a problem from rows of features, by the solver that is quickest where they are."""

from __future__ import annotations

from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.parallel import Progress
from textsvm.solvers import feature_machines
from textsvm.solvers import newton as newton_machines
from textsvm.solvers.problems import Classification, Labelling, Machines, Problem
from textsvm.solvers.solution import Stopping

#: Bound on epochs of coordinate descent where the user has none.
MOST_EPOCHS = 1000


def can_solve(problem: Problem) -> bool:
    """Whether a problem can be solved without a Gram: all but Crammer and Singer's."""
    return newton_machines.can_solve(problem)


def solve(
    problem: Problem, rows: FeatureRows, stopping: Stopping, progress: Progress | None = None
) -> Machines:
    """Train the machines of a problem; see `textsvm.solvers.problems.solve`.

    Sparse rows of classifiers on the CPU are for coordinate descent where it suits them, all others for
    Newton's method.
    """
    if rows.descent and isinstance(rows.x, Sparse) and isinstance(problem, Classification | Labelling):
        most = MOST_EPOCHS if stopping.max_iter < 0 else max(1, stopping.max_iter // max(1, len(rows.x)))
        gap = stopping.duality_gap
        return feature_machines.solve_classifier(problem, rows, stopping.tol, most, progress, gap)
    return newton_machines.solve(problem, rows, stopping, progress)
