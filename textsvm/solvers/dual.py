"""Dual problems, with a single constraint or of k classes together, and their builders.

    minimise   1/2 a'Qa + p'a,   Q_ij = sign_i sign_j K(index_i, index_j)
    subject to sign'a = total,   0 <= a_i <= upper_i

for m variables over the n rows of a Gram:

    C-SVC          m = n,  p = -1,            upper = C weight,  total = 0
    epsilon-SVR    m = 2n, p = epsilon -/+ y, upper = C weight,  total = 0;  sign +1 for the first n
    one-class SVM  m = n,  p = 0,             upper = weight,    total = nu sum(weight)

A C-SVC with the squared hinge loss, minimise 1/2 |w|^2 + sum_i C_i slack_i^2, has the same dual with
1/(2 C_i) added to Q_ii, and no upper bounds. Here the loss is linear beyond a slack of `MOST_SLACK`, as
Huber's is, so that upper = 2 C_i MOST_SLACK.

The same solver serves all. `index` also restricts a problem to a fold or to a pair of classes. The dual of
Crammer and Singer's machine is derived in `textsvm.solvers.crammer_singer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import Floats, Ints

LOSSES = ("hinge", "squared_hinge")  #: Loss functions of a classifier.
MOST_SLACK = 10.0  #: Slack beyond which the squared hinge loss is linear.


@dataclass(frozen=True)
class Dual:
    """A dual problem with a single constraint."""

    sign: Floats  #: shape (m,): +1 or -1
    linear: Floats  #: shape (m,): p, the linear term
    upper: Floats  #: shape (m,): Upper bounds of the variables, >= 0
    index: Ints  #: shape (m,): Row of the Gram that each variable stands for
    total: float = 0.0  #: Value of the equality constraint sign'a
    #: shape (m,): Addition to the diagonal of Q by the squared hinge loss
    loss_diagonal: Floats | None = None

    def __len__(self) -> int:
        return len(self.sign)


@dataclass(frozen=True)
class MulticlassDual:
    """The dual of Crammer and Singer's machine (`textsvm.solvers.crammer_singer`)."""

    target: Ints  #: shape (m,): Class of each example
    upper: Floats  #: shape (m,): Upper bound for an example's own class; 0 for the other classes
    index: Ints  #: shape (m,): Row of the Gram that each example stands for
    n_classes: int

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def own(self) -> tuple[Ints, Ints]:
        """Index of the examples' own classes in an array of shape (n_classes, m)."""
        return self.target, np.arange(len(self))

    def gradient_at_zero(self) -> Floats:
        """The gradient at zeros, shape (n_classes, m)."""
        gradient = np.zeros((self.n_classes, len(self)))
        gradient[self.own] = -1.0
        return gradient


AnyDual = Dual | MulticlassDual


def svc(
    y: ArrayLike,
    C: float,
    sample_weight: ArrayLike | None = None,
    index: Ints | None = None,
    loss: str = "hinge",
) -> Dual:
    """The dual of the soft-margin classifier with an unregularised bias (Cortes and Vapnik 1995).

    `y` holds labels +1 and -1, both of them, `sample_weight` factors of C, including class weights, and
    `index` the rows of the Gram of the n examples, 0..n-1 by default.
    """
    signs: Floats = np.asarray(y, np.float64)
    upper, diagonal = C * _weights(sample_weight, len(signs)), None
    if loss == "squared_hinge":
        upper, diagonal = 2 * MOST_SLACK * upper, loss_diagonal(upper)
    return Dual(signs, np.full(len(signs), -1.0), upper, _rows(index, len(signs)), loss_diagonal=diagonal)


def loss_diagonal(penalties: Floats) -> Floats:
    """Addition of the squared hinge loss to the diagonal of Q: 1/(2 C_i), 0 where C_i is 0."""
    return np.divide(0.5, penalties, out=np.zeros(len(penalties)), where=penalties > 0)


def svr(
    y: ArrayLike, C: float, epsilon: float, sample_weight: ArrayLike | None = None, index: Ints | None = None
) -> Dual:
    """The dual of regression with the epsilon-insensitive loss (Drucker et al. 1997).

    The coefficient of example i is a_i - a_(n+i): its two variables share a row of the Gram. `epsilon`, at
    least 0, is the half-width of the tube without penalty, in the unit of the n targets `y`.
    """
    target: Floats = np.asarray(y, np.float64)
    n = len(target)
    upper = C * _weights(sample_weight, n)
    sign, linear = np.repeat([1.0, -1.0], n), np.concatenate([epsilon - target, epsilon + target])
    return Dual(sign, linear, np.tile(upper, 2), np.tile(_rows(index, n), 2))


def one_class(
    n: int, nu: float, sample_weight: ArrayLike | None = None, index: Ints | None = None
) -> tuple[Dual, Floats]:
    """The dual of the one-class machine (Schoelkopf et al. 2001), scaled as in LIBSVM; feasible variables.

    `nu`, in (0, 1], bounds the share of outliers.
    """
    upper = _weights(sample_weight, n)
    total = nu * float(upper.sum())
    before = np.concatenate([[0.0], np.cumsum(upper)[:-1]])
    start = np.clip(total - before, 0.0, upper)
    return Dual(np.ones(n), np.zeros(n), upper, _rows(index, n), float(start.sum())), start


def crammer_singer(
    target: ArrayLike,
    n_classes: int,
    C: float,
    sample_weight: ArrayLike | None = None,
    index: Ints | None = None,
) -> MulticlassDual:
    """The dual of the multiclass machine without a bias (Crammer and Singer 2001).

    `target` holds the classes of m examples, 0 to n_classes-1.
    """
    classes = np.ascontiguousarray(target, np.int64)
    upper = C * _weights(sample_weight, len(classes))
    rows = np.ascontiguousarray(_rows(index, len(classes)), np.int64)
    return MulticlassDual(classes, upper, rows, n_classes)


def _weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    return np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)


def _rows(index: Ints | None, n: int) -> Ints:
    return np.arange(n) if index is None else np.asarray(index, np.int64)
