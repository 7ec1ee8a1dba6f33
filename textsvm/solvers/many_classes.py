"""One-vs-rest machines of thousands of classes with a few texts each, from sparse features on a CPU.

Nearly all rows are far on the negative side of such a machine, with alphas of 0. A machine is solved on some
rows: those of its class, and the rows most similar to them. Then all rows are checked by an upper bound of
their values. X is [D, R] with the most frequent features in D, which are multiplied with the weights of
several machines together. No value of R is negative, and no coefficient of a row of another class is
positive, so

    f(x_i) <= b + d_i . sum_j coef_j d_j + r_i . sum_(j of the class) coef_j r_j.

Rows with a bound of at most -1 are optimal with an alpha of 0. If few have a larger bound, their values
decide. Other rows are added, and the machine is solved again from its alphas, until no row violates the
optimality conditions by more than the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from textsvm.arrays import Floats, Floats32, Ints, Ints32
from textsvm.linalg.factored import stacked
from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse, index_type, unsigned
from textsvm.runtime.compiled import njit, simd
from textsvm.runtime.parallel import Progress, n_threads, run
from textsvm.solvers import dual
from textsvm.solvers.feature_machines import FeatureMachine, epochs_of, restricted
from textsvm.solvers.problems import Classification, Machines
from textsvm.solvers.solution import Solution, Stopping

#: Number of decision values (machines times rows) from which a problem has many classes.
MIN_VALUES = 1 << 24
MOST_CLASS_ROWS = 32  #: Largest mean number of rows of a class.
COMMON = 1 << 14  #: Number of common features.
#: Similar rows that a machine begins with, and most rows that are added at a time.
FIRST, MORE = 200, 300
FEW = 200  #: Number of rows above the bound from which values are not computed: most of them are to be added.
ROUNDING = 1e-4  #: Rounding errors of bounds, which are in float32, for coefficients of sum 1.
BLOCK = 256  #: Most machines that a thread takes at a time.
#: Zeros of all features, of integers and floats, which every use restores: allocating them takes longer.
Room = tuple[Ints32, Floats]


def has_many_classes(problem: Classification) -> bool:
    """Whether a problem is solved by `solve_many`."""
    n, k = len(problem.index), problem.n_classes
    return problem.strategy == "ovr" and n * k >= MIN_VALUES and n <= MOST_CLASS_ROWS * k


def solve_many(
    problem: Classification, rows: FeatureRows, stopping: Stopping, progress: Progress | None = None
) -> Machines:
    """Train the machines of a problem with strategy "ovr" and many classes; its index refers to `rows`."""
    rows = rows if np.array_equal(problem.index, np.arange(len(rows.x))) else rows.take(problem.index)
    order, sizes = np.argsort(problem.target, kind="stable"), np.bincount(problem.target)
    classes = np.split(order, np.cumsum(sizes)[:-1])
    bounds = Bounds.of(rows.x)
    machines = [ClassMachine(problem, rows, stopping, np.sort(members)) for members in classes]

    size = min(BLOCK, max(bounds.width, len(machines) // (4 * n_threads())))

    def solve_block(first: int) -> None:
        waiting, unsolved = machines[first : first + size], list[ClassMachine]()
        room = np.zeros(rows.x.n_features, np.int32), np.zeros(rows.x.n_features)
        while waiting or unsolved:
            while waiting and len(unsolved) < bounds.width:
                unsolved.append(waiting.pop())
                unsolved[-1].begin(bounds, room)
            values = zip(unsolved, bounds.values(unsolved), strict=True)
            unsolved = [machine for machine, own in values if machine.extend(own, room)]

    run(solve_block, range(0, len(machines), size), progress=progress)
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
        """Rows with coefficients, the coefficients, and the bias."""
        assert self.solution is not None
        own = self.solution.support
        return self.at[own], self.solution.coef[own], self.solution.bias

    def begin(self, bounds: Bounds, room: Room) -> None:
        """Solve on the class and the rows most similar to it, by the features that are not common."""
        similarities = np.zeros(len(self.rows.x), np.float32)
        bounds.add_others(self.members, np.ones(len(self.members)), similarities)
        first = np.argpartition(-similarities, min(FIRST, len(similarities)) - 1)[:FIRST]
        self._solve(np.union1d(self.members, first), None, room)

    def extend(self, bounds: Floats32, room: Room) -> bool:
        """Add the rows whose values may be too large, given bounds, and solve; False if there are none."""
        assert self.solution is not None
        bounds[self.at] = -np.inf
        limit = max(0.0, self.stopping.tol - max(0.0, self.solution.violation)) - 1
        rounding = ROUNDING * max(1.0, float(np.abs(self.solution.coef).sum()))
        outside = np.flatnonzero(bounds > -1 - rounding)
        violated = outside[bounds[outside] > limit - rounding]
        if len(violated) < FEW:
            values = self._values(violated, room)
            bounds[violated], violated = values, violated[values > limit]
        if not len(violated) or not self.solution.converged:
            # Keep the support vectors alone: thousands of machines are in memory.
            own, solution = self.solution.support, self.solution
            alpha, coef, responses = (a[own] for a in (solution.alpha, solution.coef, solution.responses))
            self.at, support = self.at[own], np.arange(len(own))
            self.solution = replace(solution, alpha=alpha, coef=coef, responses=responses, support=support)
            return False
        outside = outside[np.argsort(-bounds[outside], kind="stable")]
        at = np.union1d(self.at, outside[:MORE])
        start = np.zeros(len(at))
        start[np.searchsorted(at, self.at)] = self.solution.alpha
        self._solve(at, start, room)
        return True

    def _solve(self, at: Ints, start: Floats | None, room: Room) -> None:
        problem, signs = self.problem, np.where(np.isin(at, self.members), 1.0, -1.0)
        own = dual.svc(signs, problem.C, problem.weight[at], loss=problem.loss)
        epochs = epochs_of(self.stopping, len(at))
        machine = FeatureMachine(restricted(self.rows, at, room[0]), own, self.stopping, epochs)
        self.at, self.solution = at, machine.solve(start)

    def _values(self, at: Ints, room: Room) -> Floats:
        (index, coef, bias), x, values = self.expansion, self.rows.x, np.empty(len(at))
        _dot_expansion(x.indptr, x.features, x.values, index, coef, at, room[1], values)
        return values + bias


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of the values of all rows."""

    common: Sparse
    others: InvertedIndex
    width: int  #: Number of machines whose bounds are computed together

    @classmethod
    def of(cls, x: Sparse) -> Bounds:
        """Divide the features of rows."""
        numbers = np.arange(x.n_features, dtype=index_type(x.n_features))
        target, common = np.full_like(numbers, -1), np.argsort(-x.frequencies(), kind="stable")[:COMMON]
        target[common], numbers[common] = numbers[: len(common)], -1
        return cls(
            x.select(target, len(common)), InvertedIndex(x.select(numbers, x.n_features)), 2 * simd.LANES
        )

    def values(self, machines: list[ClassMachine]) -> Floats32:
        """Bounds for each machine, shape (len(machines), n); at most `width` machines."""
        common, n = self.common, len(self.others.x)
        weights = np.zeros((common.n_features, self.width), np.float32)
        biases, out = np.zeros(self.width, np.float32), np.empty((n, self.width), np.float32)
        for k, machine in enumerate(machines):
            index, coef, biases[k] = machine.expansion
            _add_weights(common.indptr, common.features, common.values, index, coef, weights[:, k])
        entries = unsigned(common.indptr), unsigned(common.features), common.values
        _multiply(*entries, weights.ravel(), biases, out.ravel())
        values = np.ascontiguousarray(out.T[: len(machines)])
        for own, machine in zip(values, machines, strict=True):
            index, coef, _ = machine.expansion
            self.add_others(index[coef > 0], coef[coef > 0], own)
        return values

    def add_others(self, index: Ints, coef: Floats, out: Floats32) -> None:
        """Add the products of all rows with a sum of some rows to `out`, without the common features."""
        lists, x = self.others, self.others.x
        entries = (x.indptr, x.features, x.values, lists.indptr, lists.documents, lists.values)
        _add_products(*entries, index, coef, out)


@njit(nogil=True, cache=True)
def _add_weights(indptr, features, values, index, coef, weights):
    for at in range(len(index)):
        for k in range(indptr[index[at]], indptr[index[at] + 1]):
            weights[features[k]] += coef[at] * values[k]


@njit(nogil=True, cache=True)
def _dot_expansion(indptr, features, values, index, coef, at, weights, out):
    """Products of the rows `at` with a sum of rows, which is added to `weights`, zeros, and removed."""
    _add_weights(indptr, features, values, index, coef, weights)
    for j in range(len(at)):
        total = 0.0
        for k in range(indptr[at[j]], indptr[at[j] + 1]):
            total += weights[features[k]] * values[k]
        out[j] = total
    for j in range(len(index)):
        for k in range(indptr[index[j]], indptr[index[j] + 1]):
            weights[features[k]] = 0


@njit(nogil=True, cache=True)
def _multiply(indptr, features, values, weights, biases, out):
    """out = biases + X @ weights, two vectors of machines a row."""
    width, half = np.uint64(len(biases)), np.uint64(len(biases) // 2)
    for i in range(len(indptr) - 1):
        first, second = simd.load(biases, 0), simd.load(biases, half)
        for k in range(indptr[i], indptr[i + 1]):
            value, at = simd.fill(values[k]), np.uint64(features[k]) * width
            first = simd.multiply_add(value, simd.load(weights, at), first)
            second = simd.multiply_add(value, simd.load(weights, at + half), second)
        simd.store(out, i * width, first)
        simd.store(out, i * width + half, second)


@njit(nogil=True, cache=True)
def _add_products(indptr, features, values, starts, members, list_values, index, coef, out):
    """Add the products of all rows with a sum of some rows to `out`."""
    for at in range(len(index)):
        for k in range(indptr[index[at]], indptr[index[at] + 1]):
            value = np.float32(coef[at] * values[k])
            for place in range(starts[features[k]], starts[features[k] + 1]):
                out[members[place]] += value * list_values[place]
