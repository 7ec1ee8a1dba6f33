"""Learning problems on rows of a Gram, the machines that solve them, and their decision values.

A problem names rows of a Gram, their targets and the learning task. It is split into machines, each with a
dual of its own over the same rows:

    ovo              machine (a, b), a < b: class b against class a, in the order (0,1), (0,2), ..
    ovr              machine a: class a against all others; for two classes the same as ovo
    crammer-singer   a machine per class, without bias, solved together (Crammer and Singer 2001)
    ordered          machine k: the classes above level k against the others (Frank and Hall 2001). Their sums
                     are a machine per class: s_a = half the sum over k of f_k if a is above level k, else of
                     -f_k. Then s_b - s_a = f_k for neighbours a < b, and where f falls with k, the predicted
                     level is the number of positive f_k. For two classes the same as ovo

With several labels per example there is a machine per label: examples with the label against those without
it; examples for which it is unknown are left out. A label that all or none of the examples have gets a
machine without coefficients and a bias of NaN.

A positive value of a two-class machine means the second class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import AnyArray, Array, Bools, Floats, Ints
from textsvm.gram.base import FeatureProducts, Gram
from textsvm.linalg.dense import matmul
from textsvm.linalg.factored import as_dense, stacked
from textsvm.runtime.compiled import scipy
from textsvm.runtime.device import array_module, to_host
from textsvm.solvers import dual
from textsvm.solvers.dual import AnyDual, MulticlassDual
from textsvm.solvers.solution import Solution

BLOCK_BYTES = 64 << 20  #: Bytes of the float64 copy of a block of rows.
#: Bytes of the values that are on a GPU at a time; the rows are read once for each part of this size.
VALUES_BYTES = 1 << 30
#: Share of nonzero coefficients below which a sparse product is faster on a CPU, as for class pairs.
SPARSE = 0.1


@dataclass(frozen=True)
class Classification:
    """Predict a class."""

    index: Ints  #: shape (m,): Rows of the Gram
    target: Ints  #: shape (m,): Classes, 0..n_classes-1; each occurs
    n_classes: int  #: 2 or more
    C: float
    weight: Floats  #: shape (m,): Factors of C: sample weights times class weights
    strategy: str = "ovo"  #: {"ovo", "ovr", "crammer-singer", "ordered"}
    loss: str = "hinge"  #: {"hinge", "squared_hinge"}
    levels: Ints | None = None  #: shape (n_classes,), "ordered": Level of each class, from 0


@dataclass(frozen=True)
class Labelling:
    """Predict any number of labels; `target` is an indicator matrix, others as in `Classification`."""

    index: Ints
    target: AnyArray  #: shape (m, n_labels): Bool, or float64 with NaN for unknown labels
    C: float
    weight: Floats
    loss: ClassVar[str] = "hinge"
    strategy: ClassVar[str] = "ovr"

    @property
    def learnt(self) -> Ints:
        """The labels that some examples of positive weight have and some have not."""
        counted = self.target[self.weight > 0]
        return np.flatnonzero((counted == 1).any(axis=0) & (counted == 0).any(axis=0))


@dataclass(frozen=True)
class Regression:
    """Predict numbers within `epsilon`; `target` is float64, shape (m,), others as in `Classification`."""

    index: Ints
    target: Floats
    C: float
    weight: Floats
    epsilon: float
    loss: ClassVar[str] = "hinge"
    strategy: ClassVar[str] = ""


@dataclass(frozen=True)
class OneClass:
    """A region that contains all but a share `nu` of the examples, which are the rows `index` of the Gram."""

    index: Ints
    nu: float
    weight: Floats
    loss: ClassVar[str] = "hinge"
    strategy: ClassVar[str] = ""


Problem = Classification | Labelling | Regression | OneClass


@dataclass(frozen=True)
class MachineDual:
    """The dual of a machine, or of all machines of a Crammer-Singer problem together."""

    dual: AnyDual
    at: Ints  #: Example of the problem that each variable belongs to
    initial: Floats | None = None  #: Feasible variables if zeros are not feasible


@dataclass(frozen=True)
class Machines:
    """A solved problem."""

    index: Ints  #: shape (m,): Rows of the Gram that the columns of `coef` stand for
    #: shape (n_machines, m): Value of machine k at x: sum_i coef[k, i] K(index_i, x) + bias[k].
    coef: Array  #: Sparse if it is large and most are 0
    bias: Floats  #: shape (n_machines,)
    #: Of each trained machine; a single solution for all machines of Crammer-Singer.
    solutions: tuple[Solution, ...]


def machine_duals(problem: Problem) -> list[MachineDual]:
    """The duals of the machines of a problem; a single dual for Crammer-Singer."""
    index, weight = problem.index, problem.weight
    everyone = np.arange(len(index))
    if isinstance(problem, Regression):
        regression = dual.svr(problem.target, problem.C, problem.epsilon, weight, index)
        return [MachineDual(regression, np.tile(everyone, 2))]
    if isinstance(problem, OneClass):
        region, initial = dual.one_class(len(index), problem.nu, weight, index)
        return [MachineDual(region, everyone, initial)]
    if isinstance(problem, Labelling):
        columns = [(np.flatnonzero(~np.isnan(x)), x) for x in problem.target.T[problem.learnt]]
        return [_against(problem, at, column[at] == 1) for at, column in columns]
    target, k = problem.target, problem.n_classes
    if problem.strategy == "crammer-singer":
        return [MachineDual(dual.crammer_singer(target, k, problem.C, weight, index), everyone)]
    if problem.strategy == "ovo" or k == 2:
        pairs = ((np.flatnonzero((target == a) | (target == b)), b) for a, b in combinations(range(k), 2))
        return [_against(problem, at, target[at] == b) for at, b in pairs]
    members = _above(problem.levels) if problem.levels is not None else np.eye(k) > 0
    return [_against(problem, everyone, member[target]) for member in members.T]


def _against(problem: Classification | Labelling, at: Ints, positive: Bools) -> MachineDual:
    """The dual of a machine that tells some of the examples `at` from the others."""
    sign = np.where(positive, 1.0, -1.0)
    return MachineDual(dual.svc(sign, problem.C, problem.weight[at], problem.index[at], problem.loss), at)


def _above(levels: Ints) -> Bools:
    """Whether each class is above each level but the highest, shape (n_classes, n_classes - 1)."""
    return np.asarray(levels[:, None] > np.arange(len(levels) - 1))


def collect(problem: Problem, parts: Sequence[MachineDual], solutions: Sequence[Solution]) -> Machines:
    """The machines of a problem, from the solutions of its duals."""
    if parts and isinstance(parts[0].dual, MulticlassDual):
        [solution] = solutions
        return Machines(problem.index, solution.coef, np.zeros(len(solution.coef)), (solution,))
    n, rows = len(problem.index), [solution.coef for solution in solutions]
    coef: Array
    if isinstance(problem, Regression):  # an example has two variables, whose coefficients add up
        coef = np.stack([np.bincount(part.at, row, n) for part, row in zip(parts, rows, strict=True)])
    else:
        coef = stacked(rows, [part.at for part in parts], n)
    bias = np.array([solution.bias for solution in solutions])
    if isinstance(problem, Labelling):  # labels that were not learnt have a machine too
        n_labels, learnt = problem.target.shape[1], problem.learnt
        learnt_coef, learnt_bias = as_dense(coef), bias
        coef, bias = np.zeros((n_labels, coef.shape[1])), np.full(n_labels, np.nan)
        coef[learnt], bias[learnt] = learnt_coef, learnt_bias
    elif isinstance(problem, Classification) and problem.levels is not None and problem.n_classes > 2:
        mix = np.where(_above(problem.levels), 0.5, -0.5)
        coef, bias = mix @ as_dense(coef), mix @ bias
    return Machines(problem.index, coef, bias, tuple(solutions))


def decision_values(gram: Gram | FeatureProducts, several: Sequence[Machines]) -> list[Floats]:
    """Values of solved problems at every row of their Gram: float64 on the host, shape (n_machines, n) each.

    The coefficients of all machines are the rows of a sparse matrix W over the rows of the Gram. Rows of K
    that no machine uses are not computed, and the others are read once, in float64, in blocks whose size does
    not depend on the number of machines:

        values = sum over blocks B of W[:, B] K[B, :].
    """
    if not several:
        return []
    bias = np.concatenate([machines.bias for machines in several])
    sizes = np.cumsum([len(machines.bias) for machines in several])[:-1]
    weights = _weights(several, len(bias), gram.n)
    if isinstance(gram, FeatureProducts):
        assert gram.features is not None
        coef, rows = weights.T.toarray(), gram.features  # (X X' + diag(ridge)) W', without kernel values
        values = to_host(rows.x.dot(rows.x.transposed_dot(coef)))
        return np.split((values + to_host(rows.ridge)[:, None] * coef).T + bias[:, None], sizes)
    values = np.empty((len(bias), gram.n))
    on_host = gram.device.kind == "cpu"
    most = len(bias) if on_host else max(1, VALUES_BYTES // (8 * max(1, gram.n)))
    for first in range(0, len(bias), most):
        part = slice(first, min(first + most, len(bias)))
        _product(array_module(gram.device), gram, weights[part], values[part])
    values += bias[:, None]
    return np.split(values, sizes)


def _weights(several: Sequence[Machines], total: int, n: int) -> scipy.sparse.csc_matrix:
    """W, shape (total, n); coefficients of a row of the Gram that occurs twice add up."""
    rows, columns, coef, first = [], [], [], 0
    for machines in several:
        machine, at = np.nonzero(machines.coef)
        rows.append(machine + first)
        columns.append(machines.index[at])
        coef.append(machines.coef[machine, at])
        first += len(machines.bias)
    places = (np.concatenate(rows), np.concatenate(columns))
    return scipy.sparse.csc_matrix((np.concatenate(coef), places), shape=(total, n))


def _product(xp: ModuleType, gram: Gram, weights: scipy.sparse.csc_matrix, out: Floats) -> None:
    """out = weights K, for `weights` of shape (k, n) and `out` of shape (k, n) on the host."""
    values: Any = out if xp is np else xp.empty(out.shape, xp.float64)
    values[...] = 0
    used = np.flatnonzero(np.diff(weights.indptr))
    size = max(1, BLOCK_BYTES // (8 * max(1, gram.n)))
    for start in range(0, len(used), size):
        block = used[start : start + size]
        rows = gram.rows(block).astype(xp.float64)
        part = weights[:, block]
        if xp is not np:
            values += xp.asarray(part.toarray()) @ rows
        elif part.nnz < SPARSE * part.shape[0] * part.shape[1]:
            values += part @ rows
        else:
            values += matmul(part.toarray(), rows)
    if xp is not np:
        out[...] = values.get()
