"""What is said of machines whose solver stopped before they converged."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from textsvm.solvers.problems import Machines


def how_far(machines: Machines, tol: float, names: Callable[[int], list[str]]) -> str:
    """Which of the machines did not converge and how far they got; "" if all did.

    Parameters
    ----------
    machines : Machines
    tol : float
        What they were to reach.
    names : callable
        Number of machines -> what each does, where there are several.
    """
    solutions = machines.solutions
    open_ones = [k for k, solution in enumerate(solutions) if not solution.converged]
    if not open_ones:
        return ""
    worst = max(open_ones, key=lambda k: solutions[k].violation)
    violation = f"violation {solutions[worst].violation:.2g}, tol {tol:g}"
    if len(solutions) == 1:
        return f"the solver stopped before it converged ({solutions[0].status}): {violation}"
    learnt = np.flatnonzero(~np.isnan(machines.bias))
    name = names(len(machines.bias))[learnt[worst]]
    return (
        f"{len(open_ones)} of {len(solutions)} machines stopped before they converged; the worst is "
        f"{name} ({solutions[worst].status}): {violation}"
    )


def warn_user(trouble: str) -> None:
    """Warn where the user's code called this package, however many calls that is from here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("textsvm."):
        level, frame = level + 1, frame.f_back
    warnings.warn(trouble, ConvergenceWarning, stacklevel=level)
