"""What a user of scikit-learn would write instead: the two opponents, and what anything costs and says.

The first is TF-IDF over character 1-5-grams with a linear SVM of C = 1. The second puts words and pairs of
words beside them and finds C by cross-validation. Both see texts as their reader gives them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from textsvm.errors import InputError
from textsvm.parallel import n_threads

FIRST, SECOND = "TF-IDF char 1-5 + LinearSVC", "TF-IDF char 1-5, words 1-2 + LinearSVC, C by 3 folds"

#: What tables call them.
SHORT = {FIRST: "opponent 1", SECOND: "opponent 2"}


@dataclass(frozen=True)
class Answer:
    """What a classifier says of the test part, and what that took.

    Attributes
    ----------
    predicted : array, shape (n,)
    fit, predict : float
        Seconds of wall time, from texts in memory.
    chosen : str
        What it chose by itself, for people; empty if nothing.
    """

    predicted: NDArray[Any]
    fit: float
    predict: float
    chosen: str = ""


def first() -> Pipeline:
    """Opponent 1."""
    return make_pipeline(_characters(), LinearSVC(C=1, random_state=0))


def second() -> Pipeline:
    """Opponent 2."""
    words = TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]", min_df=2
    )  # fmt: skip
    both = FeatureUnion([("characters", _characters()), ("words", words)])
    grid = {"C": [0.1, 0.3, 1, 3]}
    return make_pipeline(both, GridSearchCV(LinearSVC(random_state=0), grid, cv=3, n_jobs=n_threads()))


#: Both by name, in their order.
OPPONENTS: dict[str, Callable[[], Pipeline]] = {FIRST: first, SECOND: second}


def answer(model: Any, train: Sequence[str], labels: ArrayLike, test: Sequence[str]) -> Answer:
    """Train any classifier of texts, an opponent or one of ours, and let it predict.

    Raises
    ------
    InputError
        If it cannot be trained on these documents.
    """
    # Threads: liblinear leaves Python's lock alone, and processes would take the opponent seconds to start.
    with warnings.catch_warnings(), parallel_config(backend="threading"):
        # Of opponents' last digits, and of rare classes in their folds.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        clock = time.perf_counter()
        try:
            model.fit(train, labels)
        except InputError:
            raise
        except ValueError as error:
            told = " ".join(str(error).split())
            raise InputError(f"{_name(model)} cannot be trained on {len(train)} documents: {told}") from error
        between = time.perf_counter()
        predicted = np.asarray(model.predict(test))
    return Answer(predicted, between - clock, time.perf_counter() - between, _chosen(model))


def _characters() -> TfidfVectorizer:
    return TfidfVectorizer(analyzer="char", ngram_range=(1, 5), sublinear_tf=True, min_df=2)


def _name(model: Any) -> str:
    return "TF-IDF + LinearSVC" if isinstance(model, Pipeline) else type(model).__name__


def _chosen(model: Any) -> str:
    if isinstance(model, Pipeline):
        return f"C={found['C']:g}" if (found := getattr(model[-1], "best_params_", None)) else ""
    return str(getattr(model, "chosen_", ""))
