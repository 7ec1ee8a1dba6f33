"""Learning problems on rows of a Gram, and the machines that solve them.

A problem names rows of a Gram, their targets, and what is to be learnt; it says nothing of strings. It
comes apart into machines, one dual each, which share the rows: a fit with k classes has k (k-1) / 2 of
them one-vs-one, k one-vs-rest, and ten folds have ten times as many.

    one-vs-one       machine (a, b), a < b: class b against class a, in the order (0,1), (0,2), ..
    one-vs-rest      machine a: class a against all others; with two classes, one machine as one-vs-one
    crammer-singer   one machine a class, without bias, solved together (Crammer and Singer 2001)

Where an example may have several labels, there is a machine a label: those that have it against the others.
A label that all or none of the examples have is left out; its machine has no coefficient and a bias of NaN.

A positive value of a two-class machine means the second class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.base import Gram
from textsvm.runtime.parallel import Progress
from textsvm.solvers import dual
from textsvm.solvers.chains import solve_chains
from textsvm.solvers.class_scores import STRATEGIES as STRATEGIES
from textsvm.solvers.class_scores import class_scores as class_scores
from textsvm.solvers.dual import AnyDual, MulticlassDual
from textsvm.solvers.solution import Solution, Stopping


@dataclass(frozen=True)
class Classification:
    """Classes to be told apart.

    Attributes
    ----------
    index : int64 array, shape (m,)
        Rows of the Gram.
    target : int64 array, shape (m,)
        Classes, 0..n_classes-1; each occurs.
    n_classes : int
        2 or more.
    C : float
    weight : float64 array, shape (m,)
        Factors of C: sample weights times class weights.
    strategy : {"ovo", "ovr", "crammer-singer"}
    """

    index: NDArray[np.int64]
    target: NDArray[np.int64]
    n_classes: int
    C: float
    weight: NDArray[np.float64]
    strategy: str = "ovo"


@dataclass(frozen=True)
class Labelling:
    """Labels, each of which an example has or has not.

    Attributes
    ----------
    index : int64 array, shape (m,)
        Rows of the Gram.
    target : bool array, shape (m, n_labels)
        Which labels each example has.
    C : float
    weight : float64 array, shape (m,)
        Factors of C.
    """

    index: NDArray[np.int64]
    target: NDArray[np.bool_]
    C: float
    weight: NDArray[np.float64]

    @property
    def learnt(self) -> NDArray[np.int64]:
        """The labels that some of the examples that count have, and some have not."""
        counted = self.target[self.weight > 0]
        return np.flatnonzero(counted.any(axis=0) & ~counted.all(axis=0))


@dataclass(frozen=True)
class Regression:
    """Numbers to be predicted, within epsilon.

    Attributes
    ----------
    index : int64 array, shape (m,)
        Rows of the Gram.
    target : float64 array, shape (m,)
    C : float
    weight : float64 array, shape (m,)
        Factors of C.
    epsilon : float
        In the unit of `target`.
    """

    index: NDArray[np.int64]
    target: NDArray[np.float64]
    C: float
    weight: NDArray[np.float64]
    epsilon: float


@dataclass(frozen=True)
class OneClass:
    """A region that holds all but a share nu of the examples.

    Attributes
    ----------
    index : int64 array, shape (m,)
        Rows of the Gram.
    nu : float
    weight : float64 array, shape (m,)
    """

    index: NDArray[np.int64]
    nu: float
    weight: NDArray[np.float64]


Problem = Classification | Labelling | Regression | OneClass


@dataclass(frozen=True)
class Part:
    """One dual of a problem.

    Attributes
    ----------
    dual : Dual or MulticlassDual
    at : int64 array, shape (m,)
        Which example of the problem each variable belongs to.
    initial : float64 array, shape (m,), optional
        Feasible variables, where zeros are not.
    """

    dual: AnyDual
    at: NDArray[np.int64]
    initial: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Machines:
    """A solved problem.

    Attributes
    ----------
    index : int64 array, shape (m,)
        Rows of the Gram that `coef` stands for.
    coef : float64 array, shape (n_machines, m)
        Value of machine k at x: sum_i coef[k, i] K(index_i, x) + bias[k].
    bias : float64 array, shape (n_machines,)
    solutions : tuple of Solution
        One a machine, without those left out; a single one of all of them for Crammer-Singer.
    """

    index: NDArray[np.int64]
    coef: NDArray[np.float64]
    bias: NDArray[np.float64]
    solutions: tuple[Solution, ...]


def solve(
    gram: Gram,
    paths: Sequence[Sequence[Problem]],
    tol: float = 1e-3,
    max_iter: int = -1,
    duality_gap: float | None = None,
    progress: Progress | None = None,
) -> list[list[Machines]]:
    """Solve many problems over one Gram, side by side.

    Parameters
    ----------
    gram : Gram
    paths : sequence of sequences of problems
        The problems of a path differ in C or epsilon alone (best with C ascending): each starts from the
        solution of the one before.
    tol, max_iter, duality_gap
        See `textsvm.solvers.smo.solve`.
    progress : callable, optional

    Returns
    -------
    list of lists of Machines, in the shape of `paths`
    """
    parts = [[parts_of(problem) for problem in path] for path in paths]
    chains = [chain for path in parts for chain in zip(*path, strict=True)]
    duals = [[part.dual for part in chain] for chain in chains]
    initial = [chain[0].initial for chain in chains]
    solved = iter(solve_chains(gram, duals, Stopping(tol, max_iter, duality_gap), initial, progress))
    result: list[list[Machines]] = []
    for path, made in zip(paths, parts, strict=True):
        # One list of solutions a dual, each in the order of the path; turned round.
        by_machine = [next(solved) for _ in made[0]]
        by_problem = zip(*by_machine, strict=True) if by_machine else [()] * len(path)
        result.append([collect(*each) for each in zip(path, made, by_problem, strict=True)])
    return result


def parts_of(problem: Problem) -> list[Part]:
    """The duals of a problem: one a machine, or one of all classes together."""
    index, weight = problem.index, problem.weight
    everyone = np.arange(len(index))
    if isinstance(problem, Regression):
        made = dual.svr(problem.target, problem.C, problem.epsilon, weight, index)
        return [Part(made, np.tile(everyone, 2))]
    if isinstance(problem, OneClass):
        made, initial = dual.one_class(len(index), problem.nu, weight, index)
        return [Part(made, everyone, initial)]
    if isinstance(problem, Labelling):
        signs = [np.where(problem.target[:, a], 1.0, -1.0) for a in problem.learnt]
        return [Part(dual.svc(sign, problem.C, weight, index), everyone) for sign in signs]
    target, parts = problem.target, []
    if problem.strategy == "crammer-singer":
        together = dual.crammer_singer(target, problem.n_classes, problem.C, weight, index)
        return [Part(together, everyone)]
    if problem.strategy == "ovo" or problem.n_classes == 2:
        for a, b in combinations(range(problem.n_classes), 2):
            at = np.flatnonzero((target == a) | (target == b))
            sign = np.where(target[at] == b, 1.0, -1.0)
            parts.append(Part(dual.svc(sign, problem.C, weight[at], index[at]), at))
    else:
        for a in range(problem.n_classes):
            sign = np.where(target == a, 1.0, -1.0)
            parts.append(Part(dual.svc(sign, problem.C, weight, index), everyone))
    return parts


def collect(problem: Problem, parts: Sequence[Part], solutions: Sequence[Solution]) -> Machines:
    """The machines of a problem, from the solutions of its duals."""
    if parts and isinstance(parts[0].dual, MulticlassDual):
        [solution] = solutions
        return Machines(problem.index, solution.coef, np.zeros(len(solution.coef)), (solution,))
    coef = np.zeros((len(parts), len(problem.index)))
    for k, (part, solution) in enumerate(zip(parts, solutions, strict=True)):
        if isinstance(problem, Regression):  # two variables an example; their sum counts
            coef[k] = np.bincount(part.at, solution.coef, len(problem.index))
        else:
            coef[k, part.at] = solution.coef
    bias = np.array([solution.bias for solution in solutions])
    if isinstance(problem, Labelling):
        coef, bias = _with_left_out(problem, coef, bias)
    return Machines(problem.index, coef, bias, tuple(solutions))


def _with_left_out(
    problem: Labelling, coef: NDArray[np.float64], bias: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients and biases of all labels, from those that were learnt."""
    n_labels = problem.target.shape[1]
    every_coef, every_bias = np.zeros((n_labels, coef.shape[1])), np.full(n_labels, np.nan)
    every_coef[problem.learnt], every_bias[problem.learnt] = coef, bias
    return every_coef, every_bias
