"""Conformal prediction: prediction sets with guaranteed coverage, and rejection of texts unlike every class.

Both compare a text with the out-of-fold values of the training texts (cross-conformal prediction, Vovk 2015).
With s_i the calibrated probability of the true class of training text i, the set of a text with probability p
of class k contains k if

    (1 + #{i : s_i <= p}) / (n + 1) > 1 - coverage,

over all training texts, or over texts of class k alone (Mondrian: the coverage then holds for each class).
The likeliest class is in every set. A text is unlike every class if the same share, computed from the largest
decision values of the training texts, is at most the share that may be rejected. For texts from the
distribution of the training texts, both guarantees hold on average over draws; the final machines are trained
on slightly more texts than the machines of the folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from textsvm.arrays import AnyArray, Arrays, Bools, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.base import is_number

#: Coverages in the report of `evaluate`, and the share of texts that may be rejected.
COVERAGES, REJECTED = (0.9, 0.95, 0.99), 0.05


@dataclass(frozen=True)
class Conformity:
    """Out-of-fold values of the training texts."""

    own: Floats  #: shape (n,): Probability of the true class, ascending within each class
    starts: Ints  #: shape (n_classes + 1,): Start of each class in `own`, and the end of the last.
    #: shape (n,): Largest decision value of each text, ascending; with two classes its absolute value.
    largest: Floats

    @classmethod
    def of(cls, probability: Floats, decision: Floats, codes: Ints) -> Conformity:
        """From out-of-fold probabilities and decision values, and true classes."""
        own = probability[np.arange(len(codes)), codes]
        counts = np.bincount(codes, minlength=probability.shape[1])
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(own[np.lexsort((own, codes))], starts, np.sort(largest(decision)))

    @classmethod
    def restore(cls, state: Mapping[str, AnyArray], n_classes: int) -> Conformity:
        """Restore from `state`; ValueError if it is not valid."""
        if set(state) != {"own", "starts", "largest"}:
            raise ValueError("its conformity has unknown entries")
        own, starts, values = (np.asarray(state[name]) for name in ("own", "starts", "largest"))
        kinds = (own.dtype, starts.dtype, values.dtype) == (np.float64, np.int64, np.float64)
        if not kinds or not own.ndim == starts.ndim == values.ndim == 1 or len(starts) != n_classes + 1:
            raise ValueError("its conformity does not fit its classes")
        if not np.isfinite(own).all() or not np.isfinite(values).all() or (np.diff(values) < 0).any():
            raise ValueError("its conformity has values that are not finite or fall")
        if starts[0] != 0 or starts[-1] != len(own) or (starts[1:] < starts[:-1]).any():
            raise ValueError("its conformity is out of bounds")
        if any((np.diff(own[first:last]) < 0).any() for first, last in pairwise(starts)):
            raise ValueError("its conformity has values that fall")
        return cls(own, starts, values)

    def state(self) -> Arrays:
        """Arrays to save with a model."""
        return {"own": self.own, "starts": self.starts, "largest": self.largest}

    def sets(self, probability: Floats, coverage: float, per_class: bool = False) -> Bools:
        """Classes in the prediction set of each text, bool array, shape (n, n_classes).

        `coverage` holds on average, or with `per_class` for each class; a class with few texts is then in
        every set.
        """
        require_share("coverage", coverage)
        if per_class:
            columns = [
                _p_values(self.own[first:last], column)
                for (first, last), column in zip(pairwise(self.starts), probability.T, strict=True)
            ]
            sets = np.stack(columns, axis=1) > 1 - coverage
        else:
            sets = _p_values(np.sort(self.own), probability) > 1 - coverage
        sets[np.arange(len(sets)), probability.argmax(axis=1)] = True
        return sets

    def known(self, decision: Floats, rejected: float) -> Bools:
        """Whether each text is like a known class, shape (n,); at most the share `rejected` is not."""
        require_share("rejected", rejected)
        return _p_values(self.largest, largest(decision)) > rejected

    def summary(
        self, probability: Floats, decision: Floats, codes: Ints
    ) -> tuple[list[dict[str, float]], dict[str, float]]:
        """`Results.sets` and `Results.rejected` for texts with known classes."""
        rows = []
        for promised in COVERAGES:
            sets = self.sets(probability, promised)
            sizes = sets.sum(axis=1)
            coverage = float(sets[np.arange(len(codes)), codes].mean())
            row = {"promised": promised, "coverage": coverage, "mean_size": float(sizes.mean())}
            rows.append(row | {"single": float((sizes == 1).mean())})
        return rows, {"allowed": REJECTED, "unlike": float((~self.known(decision, REJECTED)).mean())}


def largest(decision: Floats) -> Floats:
    """Largest decision value of each text, shape (n,); small for a text unlike every class."""
    return np.abs(decision) if decision.ndim == 1 else decision.max(axis=1)


def require_share(name: str, value: object) -> None:
    """Raise InputError unless a value is above 0 and below 1."""
    if not is_number(value) or not 0 < float(value) < 1:
        raise InputError(f"{name}={value!r} must be a number above 0 and below 1")


def _p_values(scores: Floats, values: Floats) -> Floats:
    """Share of ascending scores that are at most each value, counting the text itself."""
    return (1 + np.searchsorted(scores, values, side="right")) / (len(scores) + 1)
