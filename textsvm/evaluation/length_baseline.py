"""What the length of a text alone tells of a number: one that is not ahead of it learnt nothing else.

The fit is monotone (isotonic), rising or falling, of the number of symbols; scores of essays go far with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from textsvm.evaluation.metrics import scores

Array = NDArray[np.float64]


def symbols(examples: Any) -> Array | None:
    """How many symbols each of the examples has, in all columns of texts; None if there is no text."""
    columns = examples.values() if isinstance(examples, dict) else [examples]
    texts = [each for each in columns if not hasattr(each, "dtype") and not hasattr(each, "indptr")]
    if not texts:
        return None
    return np.sum([[len(text) for text in each] for each in texts], axis=0, dtype=np.float64)


@dataclass(frozen=True)
class LengthBaseline:
    """Numbers from lengths: linear between these, and as at the ends beyond.

    Attributes
    ----------
    lengths, numbers : list of float
    """

    lengths: list[float]
    numbers: list[float]

    @classmethod
    def fit(cls, examples: Any, numbers: Sequence[float]) -> LengthBaseline | None:
        """That of training documents; None if there are no texts."""
        lengths = symbols(examples)
        if lengths is None:
            return None
        values = np.asarray(numbers, np.float64)
        rising = bool((lengths - lengths.mean()) @ (values - values.mean()) >= 0)
        lengths, place, counts = np.unique(lengths, return_inverse=True, return_counts=True)
        means = np.bincount(place, values) / counts
        fitted = isotonic_regression(means, weights=counts, increasing=rising).x
        level = np.zeros(len(lengths), bool)  # inside of a run of equal values
        level[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
        return cls(lengths[~level].tolist(), fitted[~level].tolist())

    @classmethod
    def of(cls, info: Any) -> LengthBaseline | None:
        """The one that a model's file has; None if it has none, or what it has is none."""
        found = info.get("length_baseline") if isinstance(info, dict) else None
        if not isinstance(found, dict) or found.keys() != {"lengths", "numbers"}:
            return None
        try:
            made = cls(*(np.asarray(found[name], np.float64).tolist() for name in ("lengths", "numbers")))
        except (TypeError, ValueError):
            return None
        return made if np.ndim(made.lengths) == 1 and 0 < len(made.lengths) == len(made.numbers) else None

    def judge(
        self, examples: Any, truth: Sequence[float], grades: tuple[int, int] | None = None
    ) -> dict[str, float]:
        """Its metrics on documents; none where they have no texts."""
        lengths = symbols(examples)
        if lengths is None:
            return {}
        said = np.interp(lengths, self.lengths, self.numbers)
        return scores(np.asarray(truth, np.float64), said, None, None, grades)
