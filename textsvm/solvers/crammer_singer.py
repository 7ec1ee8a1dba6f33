"""Crammer and Singer's multiclass machine (2001), in the form of the GTSVM paper: no bias.

k classes, m examples with classes y_i and weights w_i. Class r has the value f_r(x) = sum_i a_ri K(x_i, x),
and the largest value wins. With C_i = C w_i the machine minimises

    P = 1/2 sum_r a_r'K a_r + sum_i C_i xi_i,   xi_i = max_r (1 - [r = y_i] + f_r(x_i) - f_(y_i)(x_i)),

C on the scale of the GTSVM paper (Cotter, Srebro and Keshet 2011, eq. 3) and of LIBLINEAR's -s 4. Its dual,
which is solved here, is over a, k x m (K in float32, everything else in float64):

    minimise  -D = 1/2 sum_r a_r'K a_r - sum_i a_(y_i)i,   sum_r a_ri = 0,   a_ri <= U_ri = C_i [r = y_i].

Its gradient is G_ri = f_r(x_i) - [r = y_i], and xi_i = max_r G_ri - G_(y_i)i. Hence

    P - D = sum_i sum_r (U_ri - a_ri) (max_s G_si - G_ri),   every term 0 or more,

vanishes where every a_ri below its bound has the largest gradient of its example. The violation of example i
is what is missing, v_i = max_r G_ri - min {G_ri: a_ri < U_ri} (0 if C_i = 0), as in LIBLINEAR, and the
stopping rule is max_i v_i <= tol, in units of values of classes: the margin is 1.

One example (a step). The others fixed, example i minimises G'd + A/2 |d|^2 over its k changes d, A = K_ii
(TAU where that is not positive). With b_r = a_ri - G_ri / A the solution is a_ri = min(U_ri, b_r + shift),
where shift makes the sum 0: U - a is the projection of U - b onto a simplex. Beginning with no class at its
bound, shift = -(sum of b over the classes below their bounds + sum of the other bounds) / how many are below;
with that shift more classes may reach their bounds, none leaves (Michelot 1986), so a few passes over the
classes end it. Replacing A by A / 1.6 over-relaxes the step, and still G'd <= -A/1.6 |d|^2: -D decreases.

A decomposition. A round takes the examples that entered in the last one (half of the set at most) and the
worst violators, some 1,000 in all. With the tile of their kernel values and a copy of their gradients, both
in cache, it sweeps over those that violate by more than 0.3 of what the worst of the set does, until that is
0.3 of what it was among all. A step costs w c multiplications and additions, w the size of the set, c the
classes whose coefficient changes. Then G += K change: that reads w rows of m float32 values and costs w m c,
the larger part of the time of a large problem. It is sparse in the classes: with 26 of them (letter), 10 have
a coefficient at a support vector.

On the CPU this is `textsvm.solvers.crammer_singer_cpu`, on a GPU `textsvm.solvers.crammer_singer_cuda`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.base import Gram
from textsvm.runtime.parallel import Progress
from textsvm.solvers.chains import solve_chains
from textsvm.solvers.dual import MulticlassDual
from textsvm.solvers.solution import Solution, Stopping


def solve(
    gram: Gram,
    dual: MulticlassDual,
    tol: float = 1e-3,
    max_iter: int = -1,
    initial: NDArray[np.float64] | None = None,
    progress: Progress | None = None,
    duality_gap: float | None = None,
) -> Solution:
    """Solve the dual over a Gram, where the Gram lives.

    Parameters
    ----------
    gram : Gram, n rows
    dual : MulticlassDual, m examples
        See `textsvm.solvers.dual.crammer_singer`.
    tol : float
        Largest violation to accept, > 0, in units of decision values.
    max_iter : int
        Bound on the examples optimised; -1 is max(10 million, 100 m).
    initial : float64 array, shape (n_classes, m), optional
        Coefficients to start from, such as the solution for another C: where they exceed the bounds of this
        one they are scaled down. Zeros by default.
    progress : callable, optional
        Called with (done, total), done growing from 0 to total on a logarithmic scale of the violation; may
        raise to stop.
    duality_gap : float, optional
        Stop as well once the relative duality gap is at most this (the rule of the GTSVM paper).

    Returns
    -------
    Solution
        Also when the bound on iterations or the precision of float64 ended the work: see its `status`.

    Raises
    ------
    InputError
        If the dual does not fit the Gram, `initial` is no such coefficients, or the Gram holds a value that
        is not a finite number.
    """
    stopping = Stopping(tol, max_iter, duality_gap)
    return solve_chains(gram, [[dual]], stopping, [initial], progress)[0][0]
