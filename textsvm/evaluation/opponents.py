"""What a user of scikit-learn would write instead: the two opponents, and what anything costs and says.

Of texts, the first is TF-IDF over character 1-5-grams with a linear SVM of C = 1. The second puts words and
pairs of words beside them and finds C by cross-validation. Both see texts as their reader gives them. Of
columns, they do so with each one of texts, and scale numbers; of vectors they are SVC with its defaults, and
with C by cross-validation.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from textsvm.errors import InputError
from textsvm.parallel import n_threads

FIRST, SECOND = "TF-IDF char 1-5 + LinearSVC", "TF-IDF char 1-5, words 1-2 + LinearSVC, C by 3 folds"

_COLUMNS = "TF-IDF char 1-5 of each text, numbers scaled + LinearSVC"
_VECTORS = "SVC rbf, gamma scale"
_BY_FOLDS = ", C by 3 folds"

#: What tables call them.
SHORT = {
    **dict.fromkeys((FIRST, _COLUMNS, _VECTORS), "opponent 1"),
    **dict.fromkeys((SECOND, *(each + _BY_FOLDS for each in (FIRST, _COLUMNS, _VECTORS))), "opponent 2"),
}


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
    return make_pipeline(both, _by_folds(LinearSVC(random_state=0)))


#: Both by name, in their order.
OPPONENTS: dict[str, Callable[[], Pipeline]] = {FIRST: first, SECOND: second}


def opponents_of(examples: Any) -> dict[str, Callable[[], Any]]:
    """Both, of texts (the second without words if no text has two), vectors or a dict of columns."""
    if isinstance(examples, dict):
        return {
            _COLUMNS: lambda: make_pipeline(_union(examples), LinearSVC(random_state=0)),
            _COLUMNS + _BY_FOLDS: lambda: make_pipeline(
                _union(examples), _by_folds(LinearSVC(random_state=0))
            ),
        }
    if hasattr(examples, "shape"):
        return {_VECTORS: SVC, _VECTORS + _BY_FOLDS: lambda: _by_folds(SVC())}
    if not any(len(text.split(None, 1)) > 1 for text in examples):  # sequences: no word occurs twice
        machine = partial(LinearSVC, random_state=0)
        return {FIRST: first, FIRST + _BY_FOLDS: lambda: make_pipeline(_characters(), _by_folds(machine()))}
    return dict(OPPONENTS)


def _union(columns: dict[str, Any]) -> FeatureUnion:
    """Features of each column."""
    return FeatureUnion(
        [(name, make_pipeline(_Column(name), *_steps(values))) for name, values in columns.items()]
    )


def _steps(values: Any) -> list[Any]:
    """What makes features of a column; vectors stay."""
    if not hasattr(values, "dtype"):
        return [_characters()]
    return [StandardScaler()] if values.ndim == 1 else ["passthrough"]


class _Column(TransformerMixin, BaseEstimator):
    """One of the columns of a dict; numbers as a matrix."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fit(self, columns: dict[str, Any], y: Any = None) -> _Column:
        """Nothing is learnt."""
        return self

    def transform(self, columns: dict[str, Any]) -> Any:
        """The column."""
        values = columns[self.name]
        return values[:, None] if getattr(values, "ndim", 2) == 1 else values

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _by_folds(model: Any) -> GridSearchCV:
    return GridSearchCV(model, {"C": [0.1, 0.3, 1, 3]}, cv=3, n_jobs=n_threads())


def answer(model: Any, train: Any, labels: ArrayLike, test: Any) -> Answer:
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
            raise InputError(
                f"{_name(model)} cannot be trained on {np.size(labels)} documents: {told}"
            ) from error
        between = time.perf_counter()
        predicted = np.asarray(model.predict(test))
    return Answer(predicted, between - clock, time.perf_counter() - between, _chosen(model))


def _characters() -> TfidfVectorizer:
    return TfidfVectorizer(analyzer="char", ngram_range=(1, 5), sublinear_tf=True, min_df=2)


def _name(model: Any) -> str:
    return "TF-IDF + LinearSVC" if isinstance(model, Pipeline) else type(model).__name__


def _chosen(model: Any) -> str:
    last = model[-1] if isinstance(model, Pipeline) else model
    if not hasattr(last, "chosen_"):
        return f"C={found['C']:g}" if (found := getattr(last, "best_params_", None)) else ""
    return str(getattr(model, "chosen_", ""))
