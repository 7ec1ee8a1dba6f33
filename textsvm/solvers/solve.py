"""Solve learning problems over a Gram, by its rows or by its features, or over features alone.

solve             the entry: chooses the solver
solve_chains      duals over rows of a Gram (SMO; Crammer and Singer)
solve_by_descent  classifiers of sparse features on a CPU, by coordinate descent
solve_many        classifiers of thousands of classes, on some rows for each machine
solve_by_newton   other problems over features
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from textsvm.errors import InputError
from textsvm.gram.base import DenseGram, FeatureProducts, Gram
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.device import array_module, device_of
from textsvm.runtime.parallel import Progress, part
from textsvm.solvers.chains import solve_chains
from textsvm.solvers.dual import loss_diagonal
from textsvm.solvers.feature_machines import solve_by_descent
from textsvm.solvers.many_classes import has_many_classes, solve_many
from textsvm.solvers.newton import solve_by_newton
from textsvm.solvers.problems import Classification, Labelling, Machines, Problem, collect, machine_duals
from textsvm.solvers.solution import Stopping


def solve(
    rows: Gram | FeatureProducts,
    paths: Sequence[Sequence[Problem]],
    stopping: Stopping | None = None,
    progress: Progress | None = None,
) -> list[list[Machines]]:
    """Solve many problems over the same rows, side by side; the machines of each path.

    The problems of a path differ in C or epsilon alone (best with C ascending): each starts from the solution
    of the previous problem.
    """
    stopping = stopping or Stopping()
    problems = [problem for path in paths for problem in path]
    if not isinstance(rows, FeatureProducts) and all(problem.loss == "hinge" for problem in problems):
        return _solve_side_by_side(rows, paths, stopping, progress)
    steps = (part(progress, k, 1, len(problems)) for k in range(len(problems)))
    return [[_solve_alone(rows, problem, stopping, next(steps)) for problem in path] for path in paths]


def _solve_alone(
    rows: Gram | FeatureProducts, problem: Problem, stopping: Stopping, progress: Progress | None
) -> Machines:
    if not isinstance(rows, FeatureProducts):
        matrix = _matrix_with_loss(rows, problem)
        [[machines]] = _solve_side_by_side(matrix, [[problem]], stopping, progress)
        return machines
    assert rows.features is not None
    features = _features_with_loss(rows.features, problem)
    descends = features.descent and isinstance(features.x, Sparse)
    if not descends or not isinstance(problem, Classification | Labelling):
        return solve_by_newton(problem, features, stopping, progress)
    if isinstance(problem, Classification) and has_many_classes(problem):
        return solve_many(problem, features, stopping, progress)
    return solve_by_descent(problem, features, stopping, progress)


def _features_with_loss(features: FeatureRows, problem: Problem) -> FeatureRows:
    """Features with the diagonal of the loss function of a problem."""
    if problem.loss == "hinge":
        return features
    assert isinstance(problem, Classification)
    xp, ridge = array_module(device_of(features.ridge)), features.ridge.copy()
    ridge[xp.asarray(problem.index)] += xp.asarray(loss_diagonal(problem.C * problem.weight))
    return replace(features, ridge=ridge)


def _matrix_with_loss(gram: Gram, problem: Problem) -> Gram:
    """A copy of a kernel matrix with the diagonal of the loss function of a problem."""
    if problem.loss == "hinge":
        return gram
    assert isinstance(problem, Classification)
    if gram.matrix is None or len(np.unique(problem.index)) < len(problem.index):
        raise InputError(
            'loss="squared_hinge" needs a kernel with features, or a kernel matrix that fits in memory and '
            "training parts without repetitions; raise memory (--memory), or leave loss out"
        )
    xp, matrix = array_module(gram.device), gram.matrix.copy()
    at = xp.asarray(problem.index)
    matrix[at, at] += xp.asarray(loss_diagonal(problem.C * problem.weight), np.float32)
    return DenseGram(matrix, gram.description)


def _solve_side_by_side(
    gram: Gram, paths: Sequence[Sequence[Problem]], stopping: Stopping, progress: Progress | None
) -> list[list[Machines]]:
    parts = [[machine_duals(problem) for problem in path] for path in paths]
    chains = [chain for path in parts for chain in zip(*path, strict=True)]
    duals = [[part.dual for part in chain] for chain in chains]
    initial = [chain[0].initial for chain in chains]
    solved = iter(solve_chains(gram, duals, stopping, initial, progress))
    result: list[list[Machines]] = []
    for path, path_parts in zip(paths, parts, strict=True):
        # Transpose: from a list of solutions along the path for each dual to a list of solutions per problem.
        by_machine = [next(solved) for _ in path_parts[0]]
        by_problem = zip(*by_machine, strict=True) if by_machine else [()] * len(path)
        result.append([collect(*triple) for triple in zip(path, path_parts, by_problem, strict=True)])
    return result
