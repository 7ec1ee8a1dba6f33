"""Baseline for regression: a monotone (isotonic) function of the text length alone.

Scores of essays follow their length closely; a model that is no better has learnt nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from textsvm.arrays import Floats
from textsvm.evaluation.metrics import scores
from textsvm.runtime.compiled import scipy


def symbol_counts(examples: object) -> Floats | None:
    """Number of symbols of each example, summed over all columns of texts; None without texts."""
    columns = examples.values() if isinstance(examples, dict) else [examples]
    texts = [column for column in columns if isinstance(column, Sequence)]
    if not texts:
        return None
    return np.sum([[len(text) for text in column] for column in texts], axis=0, dtype=np.float64)


@dataclass(frozen=True)
class LengthBaseline:
    """Piecewise linear function from text length to the predicted number, constant beyond its ends."""

    lengths: list[float]
    numbers: list[float]

    @classmethod
    def fit(cls, examples: object, numbers: Sequence[float]) -> LengthBaseline | None:
        """Fit to training documents; None without texts."""
        lengths = symbol_counts(examples)
        if lengths is None:
            return None
        values = np.asarray(numbers, np.float64)
        rising = bool((lengths - lengths.mean()) @ (values - values.mean()) >= 0)
        lengths, place, counts = np.unique(lengths, return_inverse=True, return_counts=True)
        means = np.bincount(place, values) / counts
        fitted = scipy.optimize.isotonic_regression(means, weights=counts, increasing=rising).x
        inner = np.zeros(len(lengths), bool)  # inside a run of equal values
        inner[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
        return cls(lengths[~inner].tolist(), fitted[~inner].tolist())

    @classmethod
    def of(cls, info: object) -> LengthBaseline | None:
        """The baseline in a model file's information; None if it is missing or damaged."""
        state = info.get("length_baseline") if isinstance(info, dict) else None
        if not isinstance(state, dict) or state.keys() != {"lengths", "numbers"}:
            return None
        try:
            lengths, numbers = (np.asarray(state[name], np.float64) for name in ("lengths", "numbers"))
        except (TypeError, ValueError):
            return None
        fits = lengths.ndim == numbers.ndim == 1 and 0 < len(lengths) == len(numbers)
        return cls(lengths.tolist(), numbers.tolist()) if fits else None

    def judge(self, examples: object, truth: Sequence[float]) -> dict[str, float]:
        """Its metrics on documents; empty without texts."""
        lengths = symbol_counts(examples)
        if lengths is None:
            return {}
        predicted = np.interp(lengths, self.lengths, self.numbers)
        return scores(np.asarray(truth, np.float64), predicted, None, None)
