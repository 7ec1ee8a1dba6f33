"""Problems over one Gram: by its rows, or by the features that it is made of, where the rows are too many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textsvm.gram.base import Gram
from textsvm.runtime.parallel import Progress, part
from textsvm.solvers import from_features, problems
from textsvm.solvers.problems import Machines, Problem
from textsvm.solvers.solution import Stopping

#: Rows up to which a Gram of dense features is made and its rows are solved on: 1.5 GiB, and some seconds.
#: 2,500 documents of 500 features take 0.2 to 0.4 s that way, and 1.7 s by their features, on two busy cores.
MOST_ROWS = 20_000


def solve(
    gram: Gram,
    paths: Sequence[Sequence[Problem]],
    tol: float = 1e-3,
    max_iter: int = -1,
    duality_gap: float | None = None,
    progress: Progress | None = None,
) -> list[list[Machines]]:
    """Solve many problems over one Gram; see `textsvm.solvers.problems.solve`."""
    several = [problem for path in paths for problem in path]
    rows: Any = gram
    if gram.features is None or rows.holds(MOST_ROWS):
        return problems.solve(gram, paths, tol, max_iter, duality_gap, progress)
    if not all(from_features.can_solve(problem) for problem in several):
        return problems.solve(gram, paths, tol, max_iter, duality_gap, progress)
    stopping = Stopping(tol, max_iter, duality_gap)
    solved = iter(
        from_features.solve(problem, gram.features, stopping, part(progress, k, 1, len(several)))
        for k, problem in enumerate(several)
    )
    return [[next(solved) for _ in path] for path in paths]
