"""What solvers by working sets agree on: constants, and the numbers of kernels_cu/workingset.cuh."""

from __future__ import annotations

from enum import IntEnum

#: Violation of a working set, as a fraction of that of all variables, at which a round ends.
SHARE = 0.3
#: Later steps of a long run, in units of the pair's or example's own best one; 0 to 2 decrease the objective.
RELAXATION = 1.6


class Done(IntEnum):
    """Why a problem in a slot of a GPU is done."""

    RUNNING = 0
    CONVERGED = 1
    AT_BOUND = 2
    STALLED = 3
    NOT_FINITE = 4
