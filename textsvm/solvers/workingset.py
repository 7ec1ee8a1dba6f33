"""What solvers by working sets agree on: constants, and the numbers of kernels_cu/workingset.cuh."""

from __future__ import annotations

from enum import IntEnum

#: Violation of a working set, as a fraction of that of all variables, at which a round ends.
SHARE = 0.3
#: Later steps of a long run, in units of the pair's or example's own best one; 0 to 2 decrease the objective.
RELAXATION = 1.6
#: Rounding of the responses, in units of the tolerance, from which they are made anew before they are judged;
#: and how often that may bring more work before float64 is said to have no better answer.
ROUNDING, RENEWALS = 0.01, 20


class Done(IntEnum):
    """Why a problem in a slot of a GPU is done."""

    RUNNING = 0
    CONVERGED = 1
    AT_BOUND = 2
    STALLED = 3
    NOT_FINITE = 4
