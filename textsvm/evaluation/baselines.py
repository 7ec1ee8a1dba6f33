"""Comparison of classifiers with two scikit-learn baselines on the same parts of a corpus.

Texts: the first baseline is TF-IDF over character 1-5-grams with a linear SVM of C = 1; the second adds words
and pairs of words and chooses C by cross-validation. Both see the texts as read from the files. Columns: the
same for each column of texts, and numbers are scaled. Vectors: SVC with its defaults, and with C by
cross-validation. Predictions on all test parts are judged together, each classifier against the first. A
training on a few documents beforehand compiles the kernels.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from textsvm.arrays import AnyArray, Json
from textsvm.errors import InputError
from textsvm.evaluation.comparison import ClassifierScore, score_classifier
from textsvm.kernels.spelling import parse
from textsvm.model.settings import DEFAULT_KERNELS, ClassifierSettings, is_default
from textsvm.model.trained import as_model, is_ours
from textsvm.readers.corpus import take
from textsvm.runtime.parallel import StageProgress, n_threads
from textsvm.training.train import train as train_model

CHARACTERS = "TF-IDF characters 1-5 + LinearSVC"
WORDS = "TF-IDF characters + words, tuned C"
_COLUMNS = "TF-IDF characters 1-5, scaled numbers + LinearSVC"
_VECTORS = "scikit-learn SVC, rbf"
_TUNED = ", tuned C"
Maker = Callable[[], Any]  #: Returns the settings of a classifier, or a new classifier of scikit-learn
Part = tuple[Sequence[int], Sequence[int]]  #: Rows to train on and rows to test on
WARM_UP = 20  #: Documents per class in the warm-up


@dataclass(frozen=True)
class Answer:
    """Predictions of a classifier on the test part, and seconds."""

    predicted: AnyArray  #: array, shape (n,)
    fit: float  #: Seconds of wall time, starting from texts in memory
    predict: float  #: Seconds of wall time
    chosen: str = ""  #: Description of automatically chosen parameters; empty if there are none


def characters_baseline() -> Pipeline:
    """TF-IDF of character 1-5-grams, and a linear SVM of C = 1."""
    return make_pipeline(_characters(), LinearSVC(C=1, random_state=0))


def words_baseline() -> Pipeline:
    """TF-IDF of character 1-5-grams and words 1-2, and a linear SVM with C by 3-fold cross-validation."""
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]", min_df=2)
    both = FeatureUnion([("characters", _characters()), ("words", words)])
    return make_pipeline(both, _by_folds(LinearSVC(random_state=0)))


#: Both baselines by name, in order.
BASELINES: dict[str, Callable[[], Pipeline]] = {CHARACTERS: characters_baseline, WORDS: words_baseline}


def baselines_of(examples: Any) -> dict[str, Maker]:
    """Both baselines for texts (without words if each text is a single word), vectors or columns."""
    if isinstance(examples, dict):
        return {
            _COLUMNS: lambda: make_pipeline(_union(examples), LinearSVC(random_state=0)),
            _COLUMNS + _TUNED: lambda: make_pipeline(_union(examples), _by_folds(LinearSVC(random_state=0))),
        }
    if not isinstance(examples, Sequence):
        return {_VECTORS: SVC, _VECTORS + _TUNED: lambda: _by_folds(SVC())}
    if not any(len(text.split(None, 1)) > 1 for text in examples):  # sequences: no word occurs twice
        return {
            CHARACTERS: characters_baseline,
            CHARACTERS + _TUNED: lambda: make_pipeline(_characters(), _by_folds(LinearSVC(random_state=0))),
        }
    return dict(BASELINES)


def _union(columns: Json) -> FeatureUnion:
    picks = {name: _OfDict(_column, kw_args={"name": name}) for name in columns}
    return FeatureUnion([(name, make_pipeline(picks[name], *_steps(own))) for name, own in columns.items()])


def _steps(values: Any) -> list[Any]:
    """Transformers of a column; vectors are left unchanged."""
    if isinstance(values, Sequence):
        return [_characters()]
    return [StandardScaler()] if values.ndim == 1 else ["passthrough"]


class _OfDict(FunctionTransformer):
    """A function of a dict of columns, whose rows scikit-learn does not count."""

    def fit(self, columns: Json, y: object = None) -> _OfDict:
        return self


def _column(columns: Json, name: str) -> Any:
    """A column of a dict; numbers become a matrix."""
    values = columns[name]
    return values[:, None] if isinstance(values, np.ndarray) and values.ndim == 1 else values


def _by_folds(model: BaseEstimator) -> GridSearchCV:
    return GridSearchCV(model, {"C": [0.1, 0.3, 1, 3]}, cv=3, n_jobs=n_threads())


def answer(model: Any, train: Any, labels: ArrayLike, test: Any, groups: ArrayLike | None = None) -> Answer:
    """Train a classifier of scikit-learn, or by settings of this package, and predict the test part."""
    # Threads: LIBLINEAR releases the GIL, and worker processes would take seconds to start.
    with warnings.catch_warnings(), parallel_config(backend="threading"):
        # From the convergence of the baselines, and from rare classes in their folds.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        clock = time.perf_counter()
        try:
            if isinstance(model, ClassifierSettings):
                fitted = train_model(model, train, labels, groups=groups)
            else:
                last = model[-1] if isinstance(model, Pipeline) else model
                if groups is not None and isinstance(last, GridSearchCV):
                    last.cv = list(StratifiedGroupKFold(last.cv).split(labels, labels, groups))
                fitted = model.fit(train, labels)
        except InputError:
            raise
        except ValueError as error:
            name = "TF-IDF + LinearSVC" if isinstance(model, Pipeline) else type(model).__name__
            message = " ".join(str(error).split())
            raise InputError(f"{name} cannot be trained on {np.size(labels)} documents: {message}") from error
        between = time.perf_counter()
        predicted = np.asarray(fitted.predict(test))
    return Answer(predicted, between - clock, time.perf_counter() - between, _chosen(fitted))


def _characters() -> TfidfVectorizer:
    return TfidfVectorizer(analyzer="char", ngram_range=(1, 5), sublinear_tf=True, min_df=2)


def _chosen(model: object) -> str:
    if is_ours(model):
        return as_model(model).record.chosen
    last = model[-1] if isinstance(model, Pipeline) else model
    return f"C={last.best_params_['C']:g}" if isinstance(last, GridSearchCV) else ""


def candidates(
    device: str, names: Sequence[str] = (), encoder: Any = None, typed: str = ""
) -> dict[str, Maker]:
    """Candidates with kernels of these names, or default candidates, by name; also with an encoder."""
    names = names or (*DEFAULT_KERNELS, "spectrum:2-7,log,idf", "spectrum:1-7,intersection")
    makers: dict[str, Maker] = {name: partial(machine, name, device) for name in names}
    if encoder is not None:
        makers |= {f"{name} --encoder {typed}": partial(machine, name, device, encoder) for name in names}
    return makers


def machine(name: str, device: str, encoder: object = None) -> ClassifierSettings:
    """Settings with the kernel "auto", "fast" or as spelled on the command line."""
    return ClassifierSettings(name if is_default(name) else parse(name), device=device, encoder=encoder)


def compare(
    texts: object, labels: Sequence[object], parts: Sequence[Part], ours: Mapping[str, Maker],
    progress: StageProgress | None = None, groups: Sequence[str] | None = None,
) -> list[ClassifierScore]:  # fmt: skip
    """Train and judge both baselines and the given classifiers; the baselines come first.

    `parts` are indices of (train, test), whose test parts are disjoint. Folds that tune on a training part
    keep `groups` together. `ours` are factories of settings or of scikit-learn classifiers, by name.
    """
    baselines = baselines_of(texts)
    if clashes := [name for name in ours if name in baselines]:
        raise InputError(f"{clashes[0]!r} is the name of a baseline; give the classifier another")
    truth = np.array([labels[i] for _, test in parts for i in test])
    tested = None if groups is None else [groups[i] for _, test in parts for i in test]
    makers: dict[str, Maker] = {**baselines, **ours}
    results: list[ClassifierScore] = []
    first_predictions = None
    for number, (name, make) in enumerate(makers.items()):
        if name in ours:
            train = np.asarray(parts[0][0])
            of_train: AnyArray = np.asarray(take(labels, train.tolist()))
            few = np.concatenate([train[of_train == label][:WARM_UP] for label in np.unique(of_train)])
            _answer(make(), texts, labels, (few.tolist(), few[:WARM_UP].tolist()), None)
        answers = []
        for k, part in enumerate(parts):
            if progress is not None:
                progress("compare", number * len(parts) + k, len(makers) * len(parts))
            answers.append(_answer(make(), texts, labels, part, groups))
        predicted = np.concatenate([result.predicted for result in answers])
        results.append(score_classifier(
            truth, predicted, first_predictions, tested, name=name, is_textsvm=name in ours,
            fit=sum(result.fit for result in answers), predict=sum(result.predict for result in answers),
            chosen=_chosen_in_folds([result.chosen for result in answers if result.chosen]),
        ))  # fmt: skip
        first_predictions = predicted if first_predictions is None else first_predictions
    return results


def _chosen_in_folds(descriptions: list[str]) -> str:
    """Chosen parameters; for several folds without their accuracies, and with the number of folds."""
    if len(descriptions) < 2:
        return "".join(descriptions)
    counts = Counter(text.partition(": ")[0] for text in descriptions)
    return "; ".join(f"{text} in {n} of {len(descriptions)} folds" for text, n in counts.most_common())


def _answer(
    model: object, texts: object, labels: Sequence[object], part: Part, groups: Sequence[str] | None
) -> Answer:
    train, test = part
    train_examples, test_examples = take(texts, train), take(texts, test)
    of_train = None if groups is None else [groups[i] for i in train]
    return answer(model, train_examples, take(labels, train), test_examples, of_train)
