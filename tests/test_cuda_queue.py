"""The host's side of solving on a GPU, without one: a card that is NumPy, whose responses are off."""

import numpy as np
import pytest
from problems import gaussian, solve_dual

from benchmarks import numerics
from textsvm.gram.base import DenseGram
from textsvm.solvers.cuda_queue import Done, Queue
from textsvm.solvers.dual import svc
from textsvm.solvers.solution import RENEWALS, Stopping, assess, bounds, warm_start


class Slot:
    """The only one. Each round takes `pairs` pairs, and the responses are what `error` makes of them."""

    count, largest = 1, 1e15  # so that rounding is doubted after any step

    def __init__(self, matrix, stopping, pairs, error):
        self.gram, self.stopping, self.pairs, self.error = DenseGram(matrix), stopping, pairs, error
        self.tolerances, self.starts = stopping.tolerances(), []

    def put(self, starts):
        for start in starts:
            self.starts.append(start)
            self.now, self.coef, self.iterations, self.done = start, start.coef, 0, Done.RUNNING
            dual, F = start.dual, start.responses
            values = self.gram.matrix.astype(np.float64)[np.ix_(dual.index, dual.index)]
            self.F = values @ start.coef + dual.sign * dual.linear if F is None else F

    def run(self):
        low, high = bounds(self.now.dual)
        self.violation = np.max(-self.F[self.coef < high]) - np.min(-self.F[self.coef > low])
        if self.violation <= self.now.tol:
            self.done = Done.CONVERGED
        elif self.iterations >= self.now.bound:
            self.done = Done.AT_BOUND
        else:
            dual, left = self.now.dual, min(self.pairs, self.now.bound - self.iterations)
            found = solve_dual(self.gram, dual, self.now.tol, left, dual.sign * self.coef)
            self.iterations += found.iterations
            self.done = Done.RUNNING if found.iterations else Done.STALLED
            self.coef, self.F = found.coef, self.error(found.responses, dual)

    def check(self):
        return np.array([self.done]), np.array([self.iterations]), np.array([self.violation])

    def take(self, slots):
        return [self.coef for _ in slots], [self.F for _ in slots]

    def go_on(self, slot, tol):
        raise AssertionError("there is one tolerance")

    def warm_start(self, dual, former, solution):
        return warm_start(dual, former, solution)

    def assess(self, *given):
        return assess(*given)


def solved(chain, matrix, pairs, error, **stopping):
    slot = Slot(matrix, Stopping(**stopping), pairs, error)
    return Queue(slot, [chain], [np.zeros(len(chain[0]))], None, cuts=False).solve()[0], slot.starts


def as_if_converged(responses, dual):
    """All alike, as they are at the optimum of free variables."""
    return np.zeros(len(responses))


def of_no_use(responses, dual):
    """As they were at the start."""
    return dual.sign * dual.linear


def test_what_only_seems_to_have_converged_goes_on():
    matrix, y = gaussian(60)
    chain = [svc(y, C) for C in (1.0, 10.0)]
    solutions, starts = solved(chain, matrix, 100, as_if_converged, tol=1e-6)
    for dual, solution in zip(chain, solutions, strict=True):
        assert numerics.judge(matrix, dual, solution, 1e-6, 1.0) == ("", False)
        assert solution.converged
    assert sum(start.again for start in starts) > 2
    assert solutions[1].iterations > 100


@pytest.mark.parametrize("most", [0, 30])
def test_what_stops_short_is_judged_anew(most):
    matrix, y = gaussian(60)
    [solution], _ = solved([svc(y, 10.0)], matrix, 20, of_no_use, tol=1e-6, max_iter=most)
    assert numerics.judge(matrix, svc(y, 10.0), solution, 1e-6, 1.0) == ("", False)
    assert (solution.iterations, solution.status) == (most, f"stopped at {most} iterations")


def test_it_goes_on_only_so_often():
    matrix, y = gaussian(60)
    [solution], starts = solved([svc(y, 1e4)], matrix, 1, as_if_converged, tol=1e-9)
    assert numerics.judge(matrix, svc(y, 1e4), solution, 1e-9, 1.0) == ("", False)
    assert "no step is left" in solution.status
    assert len(starts) == RENEWALS + 2
    assert starts[-1].bound == 0
