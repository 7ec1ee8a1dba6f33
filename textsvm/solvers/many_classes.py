"""One-vs-rest machines of thousands of classes with a few texts each, from sparse features on a CPU.

Nearly all rows are far on the negative side of such a machine, with alphas of 0. A machine is solved on some
rows: those of its class, and the rows most similar to them. Then all rows are checked by an upper bound of
their values. X is [D, R] with the common features in D, which are multiplied as dense matrices. No value of
X is negative, and no coefficient of a row of another class is positive, so

    f(x_i) <= b + d_i . sum_j coef_j d_j + r_i . sum_(j of the class) coef_j r_j.

Rows with a bound of at most -1 are optimal with an alpha of 0; others are added, and the machine is solved
again from its alphas. At the end the solution satisfies the stopping rule of `feature_machines` on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from textsvm.arrays import Floats, Floats32, Ints
from textsvm.linalg.factored import stacked
from textsvm.linalg.products import DenseColumns, InvertedIndex, full_columns
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress, one_blas_thread, run
from textsvm.solvers import dual
from textsvm.solvers.feature_machines import FeatureMachine, epochs_of, restricted
from textsvm.solvers.problems import Classification, Machines
from textsvm.solvers.solution import Solution, Stopping

#: Machines times rows from which classes are many, and their largest mean number of rows.
MANY, MOST_ROWS = 1 << 24, 32
#: Share of the rows with a common feature.
COMMON = 0.02
#: Similar rows that a machine begins with, and most rows that are added at a time.
FIRST, MORE = 300, 400
#: Rounding errors of bounds, which are in float32.
ROUNDING = 1e-4
#: Machines whose bounds are computed together.
BLOCK = 64


def has_many_classes(problem: Classification) -> bool:
    """Whether a problem is solved by `solve_many`."""
    n, k = len(problem.index), problem.n_classes
    return problem.strategy == "ovr" and n * k >= MANY and n <= MOST_ROWS * k


def solve_many(
    problem: Classification, rows: FeatureRows, stopping: Stopping, progress: Progress | None = None
) -> Machines:
    """Train the machines of a problem with strategy "ovr" and many classes; its index refers to `rows`."""
    rows = rows if np.array_equal(problem.index, np.arange(len(rows.x))) else rows.take(problem.index)
    order, sizes = np.argsort(problem.target, kind="stable"), np.bincount(problem.target)
    classes = np.split(order, np.cumsum(sizes)[:-1])
    bounds = Bounds.of(rows.x)
    machines = [ClassMachine(problem, rows, stopping, np.sort(members)) for members in classes]

    def solve_block(first: int) -> None:
        unsolved = machines[first : first + BLOCK]
        while unsolved:
            values = zip(unsolved, bounds.values(unsolved), strict=True)
            unsolved = [machine for machine, own in values if machine.extend(own)]

    with one_blas_thread():
        run(solve_block, range(0, len(machines), BLOCK), progress=progress)
    solutions = [machine.solution for machine in machines if machine.solution is not None]
    coef = stacked([part.coef for part in solutions], [machine.at for machine in machines], len(order))
    bias = np.array([solution.bias for solution in solutions])
    return Machines(problem.index, coef, bias, tuple(solutions))


@dataclass
class ClassMachine:
    """The machine of a class with the rows `members`."""

    problem: Classification
    rows: FeatureRows
    stopping: Stopping
    members: Ints
    at: Ints = field(default_factory=lambda: np.empty(0, np.int64))  #: Rows on which it is solved
    solution: Solution | None = None

    @property
    def expansion(self) -> tuple[Ints, Floats, float]:
        """Rows with coefficients, the coefficients, and the bias; before the first solution the class."""
        if self.solution is None:
            return self.members, np.ones(len(self.members)), 0.0
        own = self.solution.support
        return self.at[own], self.solution.coef[own], self.solution.bias

    def extend(self, bounds: Floats32) -> bool:
        """Add the rows whose values are too large, given bounds, and solve; False if there are none."""
        if self.solution is None:
            self._solve(np.union1d(self.members, np.argsort(-bounds, kind="stable")[:FIRST]), None)
            return True
        outside = np.setdiff1d(np.flatnonzero(bounds > -1 - ROUNDING), self.at, assume_unique=True)
        outside = outside[np.argsort(-bounds[outside], kind="stable")]
        violated = self._violated(outside[: 2 * MORE])
        if len(violated) < MORE // 8:
            violated = np.concatenate([violated, self._violated(outside[2 * MORE :])])
        if not len(violated) or not self.solution.converged:
            self._forget_others()
            return False
        at = np.union1d(self.at, violated[:MORE])
        start = np.zeros(len(at))
        start[np.searchsorted(at, self.at)] = self.solution.alpha
        self._solve(at, start)
        return True

    def _solve(self, at: Ints, start: Floats | None) -> None:
        problem, signs = self.problem, np.where(np.isin(at, self.members), 1.0, -1.0)
        own = dual.svc(signs, problem.C, problem.weight[at], loss=problem.loss)
        epochs = epochs_of(self.stopping, len(at))
        machine = FeatureMachine(restricted(self.rows, at), own, self.stopping, epochs)
        self.at, self.solution = at, machine.solve(start)

    def _forget_others(self) -> None:
        """Keep the support vectors alone: thousands of machines are in memory."""
        assert self.solution is not None
        own, solution = self.solution.support, self.solution
        alpha, coef, responses = (a[own] for a in (solution.alpha, solution.coef, solution.responses))
        self.at, support = self.at[own], np.arange(len(own))
        self.solution = replace(solution, alpha=alpha, coef=coef, responses=responses, support=support)

    def _violated(self, index: Ints) -> Ints:
        """Those of some rows of other classes whose decision values are above -1."""
        (support, coef, bias), x = self.expansion, self.rows.x
        values = x.take(index).dot(x.take(support).transposed_dot(coef[:, None]))[:, 0]
        return index[values + bias > -1]


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of the values of all rows."""

    common: DenseColumns
    others: InvertedIndex

    @classmethod
    def of(cls, x: Sparse) -> Bounds:
        """Divide the features of rows."""
        common = DenseColumns(x, full_columns(x.frequencies(), len(x), COMMON), np.float32)
        return cls(common, InvertedIndex(common.remove(x)))

    def values(self, machines: list[ClassMachine]) -> Floats32:
        """Bounds for each machine, shape (len(machines), n)."""
        matrix, x = self.common.matrix, self.others.x
        weights, biases = np.empty((len(machines), matrix.shape[1]), np.float32), []
        for own, machine in zip(weights, machines, strict=True):
            index, coef, bias = machine.expansion
            own[:] = coef.astype(np.float32) @ matrix[index]
            biases.append(bias)
        values = weights @ matrix.T + np.array(biases, np.float32)[:, None]
        lists = (self.others.indptr, self.others.documents, self.others.values)
        for own, machine in zip(values, machines, strict=True):
            index, coef, _ = machine.expansion
            positive = coef > 0
            _add_products(x.indptr, x.features, x.values, *lists, index[positive], coef[positive], own)
        return np.asarray(values)


@njit(nogil=True, cache=True)
def _add_products(indptr, features, values, starts, members, list_values, index, coef, out):
    """Add the products of all rows with a sum of some rows to `out`."""
    for at in range(len(index)):
        for k in range(indptr[index[at]], indptr[index[at] + 1]):
            value = np.float32(coef[at] * values[k])
            for place in range(starts[features[k]], starts[features[k] + 1]):
                out[members[place]] += value * list_values[place]
