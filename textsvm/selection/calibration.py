"""Probabilities for a classifier, from decision values that it gives to documents it was not trained on.

The decision values of a fitted machine on its own training documents are too good, so calibration uses those
of a cross-validation: f_i from machines that have not seen document i. The folds share the Gram of all
documents, unless the kernel learns from documents (idf weights): it then learns from each training part anew.
The values are mapped to the probability of each class by one of

    sigmoid    p = 1 / (1 + exp(a f + b))                  (Platt 1999)
    isotonic   p = a rising step line through (x, y)       (Zadrozny and Elkan 2002)

With more than two classes there is one map a class, against the rest, and the probabilities are divided by
their sum. The classifier itself is fitted to all documents. scikit-learn's `CalibratedClassifierCV` fits the
maps; they are kept as plain arrays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from textsvm.errors import InputError
from textsvm.estimators.base import Shown, Target
from textsvm.estimators.decisions import UNSURE as UNSURE
from textsvm.estimators.decisions import check_reject, checked_maps, decide, probabilities_of
from textsvm.estimators.default import Given, is_default, settle
from textsvm.estimators.svc import SVC
from textsvm.estimators.targets import with_classes
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.selection.conformal import Conforming, Conformity
from textsvm.selection.fold_grams import Task, grams_of, train_and_test
from textsvm.selection.folds import make_folds
from textsvm.selection.scoring import mean_values, read_training_data

METHODS = ("sigmoid", "isotonic")


class CalibratedSVC(ClassifierMixin, Conforming, Shown, BaseEstimator):
    """A classifier of texts that gives probabilities.

    Parameters
    ----------
    estimator : SVC, optional
        ``SVC()`` by default; a copy of it is fitted. "auto" chooses its kernel and C once, on all documents.
    method : {"sigmoid", "isotonic"}
        The map from decision values to probabilities. "isotonic" needs many documents, a thousand or so.
    cv : int, scikit-learn splitter, or sequence of (train, test) index pairs
        Folds of the decision values, see `textsvm.selection.folds.make_folds`. Copies of a document should be
        in one fold: with them there, a document given twice is one of weight 2.
    reject : (float, float) or float, optional
        The reject option: documents for which `predict` gives "unsure". With two classes, thresholds
        ``(low, high)`` of the probability of ``classes_[1]``: at most `low` means the first class, at least
        `high` the second, anything between is unsure. Or one number: unsure if no class has as much.
    random_state : int, optional
        Seed of the folds, where `cv` is a number.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
    estimator_ : SVC
        Fitted to all documents. Its fitted attributes (`support_`, `solutions_`, `seconds_`, ...) are
        attributes of this object too.
    calibration_ : dict of arrays
        See `calibration_state`.
    conformity_ : Conformity, optional
        What `predict_set` and `predict_known` compare with; None of a model that an older version saved.

    Examples
    --------
    >>> from textsvm import SVC, CalibratedSVC, Spectrum
    >>> texts = ["red apple", "red cherry", "ripe apple", "ripe cherry"]
    >>> texts += ["fast car", "fast train", "slow car", "slow train"]
    >>> model = CalibratedSVC(SVC(Spectrum(2)), cv=4).fit(texts, ["fruit"] * 4 + ["ride"] * 4)
    >>> model.classes_.tolist(), model.predict_proba(["a ripe red apple"]).round(1).tolist()
    (['fruit', 'ride'], [[0.9, 0.1]])
    """

    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}
    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}
    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"progress": UNUSED}

    def __init__(
        self,
        estimator: SVC | None = None,
        method: str = "sigmoid",
        cv: Any = 5,
        reject: Sequence[float] | float | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.reject = reject
        self.random_state = random_state

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        if self.estimator is not None and not isinstance(self.estimator, SVC):
            raise InputError(f"estimator={self.estimator!r} is not an SVC")
        if self.method not in METHODS:
            raise InputError(f"method={self.method!r} is not one of {', '.join(METHODS)}")
        check_reject(self.reject)

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> CalibratedSVC:
        """Train on texts; all folds and the final machines share one Gram, unless the kernel learns (idf).

        Parameters
        ----------
        X, y, sample_weight, progress
            See `SVC.fit`. Weights count in the machines and in the calibration.

        Raises
        ------
        InputError
            If what is given cannot be used, or folds cannot be made of it.
        """
        self.check()
        estimator = SVC() if self.estimator is None else clone(self.estimator)
        given, target, weight = read_training_data(estimator, X, y, sample_weight)
        estimator.read(X)  # a table names its columns, and the fitted estimator keeps the names
        task, tested = self._task(estimator, target, weight)
        seconds = dict.fromkeys(("encode", "gram", "solve", "score"), 0.0)
        chosen = ""
        if is_default(estimator.kernel):
            clock = time.perf_counter()
            chosen = settle(estimator, Given(given, target, weight), progress)
            lap(seconds, "choose", clock)
        device = devices.select(estimator.device)
        with estimator.at_work(device):
            clock = time.perf_counter()
            examples = with_classes(estimator.encode(given, None, progress), target)
            grams = grams_of(estimator, examples, task)
            lap(seconds, "encode", clock)
            found = train_and_test([estimator], grams, task, seconds, progress)
        clock = time.perf_counter()
        estimator.device_ = device
        estimator.keep(found.last, target, found.machines[0][-1])
        estimator.chosen_ = chosen
        decision, _ = mean_values(found.values[0], task.folds[:-1], len(target.values))
        self.calibration_ = _fit_maps(
            self.method, decision[tested], target.values[tested], None if weight is None else weight[tested]
        )
        self.conformity_ = Conformity.of(
            self.probabilities(decision[tested]), decision[tested], target.values[tested]
        )
        seconds["calibrate"] = seconds.pop("score") + time.perf_counter() - clock
        estimator.seconds_ = seconds
        self.estimator_, self.classes_ = estimator, estimator.classes_
        return self

    def _task(
        self, estimator: SVC, target: Target, weight: NDArray[np.float64] | None
    ) -> tuple[Task, NDArray[np.int64]]:
        """The folds, last one of all documents and no test part; and what documents are tested."""
        assert target.classes is not None
        check_reject(self.reject, target.classes)
        folds = make_folds(self.cv, target, random_state=self.random_state)
        tested = np.unique(np.concatenate([test for _, test in folds]))
        missing = np.setdiff1d(np.arange(len(target.classes)), target.values[tested])
        if len(missing) and not isinstance(self.cv, int | np.integer):
            raise InputError(
                f"no document of class {target.classes[missing[0]]!s} is in the test part of a fold"
            )
        folds.append((np.arange(len(target.values)), np.empty(0, np.int64)))
        for train, _ in folds:
            estimator.problem(target, train, weight)
        return Task(target, weight, folds), tested

    def restore(
        self,
        estimator: SVC,
        calibration: Mapping[str, NDArray[Any]],
        conformity: Mapping[str, NDArray[Any]] | None = None,
    ) -> CalibratedSVC:
        """Take a fitted classifier and its calibration; `textsvm.load` builds a model with it."""
        check_reject(self.reject, estimator.classes_)
        self.estimator_, self.classes_ = estimator, estimator.classes_
        self.restore_calibration(calibration)
        self.conformity_ = Conformity.restore(conformity, len(self.classes_)) if conformity else None
        return self

    def calibration_state(self) -> dict[str, NDArray[np.float64 | np.int64]]:
        """The maps as arrays, one a class, or one for two classes.

        Returns
        -------
        dict
            "a" and "b" of the sigmoids, float64, shape (n_maps,); or the points "x" and "y" of the step lines
            one after the other, float64, and where each begins and the last ends, "starts", int64, shape
            (n_maps + 1,).
        """
        check_is_fitted(self)
        return dict(self.calibration_)

    def restore_calibration(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `calibration_state` gave; raises ValueError if it is not that."""
        self.calibration_ = checked_maps(state, len(self.classes_))

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """See `SVC.decision_function`."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X, progress)

    def predict_proba(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """The probability of each class, shape (n, n_classes); rows sum to 1."""
        return self.probabilities(self.decision_function(X, progress))

    def probabilities(self, decision: NDArray[np.float64]) -> NDArray[np.float64]:
        """Decision values, shape (n,) or (n, n_classes) -> probabilities, shape (n, n_classes)."""
        return probabilities_of(self.calibration_, decision)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each text, shape (n,); "unsure" where it is rejected."""
        return self.decide(self.predict_proba(X))

    def decide(self, probabilities: NDArray[np.float64]) -> NDArray[Any]:
        """Probabilities, shape (n, n_classes) -> what `predict` gives, shape (n,)."""
        return decide(probabilities, self.classes_, self.reject)

    def __getattr__(self, name: str) -> Any:
        # What the classifier learnt; called only for what this object does not have itself.
        if name.endswith("_") and not name.startswith("_") and "estimator_" in vars(self):
            return getattr(self.estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = (SVC() if self.estimator is None else self.estimator).__sklearn_tags__().input_tags
        return tags


class _DecisionValues(ClassifierMixin, BaseEstimator):
    """Takes decision values for X; scikit-learn calibrates an estimator, and this is the smallest one."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> _DecisionValues:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:
        return X[:, 0]

    def predict(self, X: Any) -> Any:
        """Required of an estimator, and not used."""
        return self.classes_[(X[:, 0] > 0).astype(int)]


def _fit_maps(
    method: str,
    decision: NDArray[np.float64],
    codes: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
) -> dict[str, NDArray[np.float64 | np.int64]]:
    """Calibrate decision values; the maps as `CalibratedSVC.calibration_state` gives them."""
    fitted = [_fit_map(method, *each) for each in _one_against_the_rest(decision, codes, weight)]
    if method == "sigmoid":
        return {
            "a": np.array([one.a_ for one in fitted], np.float64),
            "b": np.array([one.b_ for one in fitted], np.float64),
        }
    return {
        "x": np.concatenate([one.X_thresholds_ for one in fitted]).astype(np.float64),
        "y": np.concatenate([one.y_thresholds_ for one in fitted]).astype(np.float64),
        "starts": np.cumsum([0, *(len(one.X_thresholds_) for one in fitted)]).astype(np.int64),
    }


def _one_against_the_rest(
    decision: NDArray[np.float64], codes: NDArray[np.int64], weight: NDArray[np.float64] | None
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64] | None]]:
    """Values, which of them are of the class, and weights, for each map.

    A class that was never tested has no values of its own: its map is that of all other classes together.
    """
    if decision.ndim == 1:
        yield decision, codes == 1, weight
        return
    tested = np.unique(codes)
    for k in range(decision.shape[1]):
        some = [k] if k in tested else tested.tolist()
        values = np.concatenate([decision[:, a] for a in some])
        member = np.concatenate([codes == a for a in some])
        yield values, member, None if weight is None else np.tile(weight, len(some))


def _fit_map(
    method: str, values: NDArray[np.float64], member: NDArray[np.bool_], weight: NDArray[np.float64] | None
) -> Any:
    """scikit-learn's calibrator of the values of one class against the rest."""
    everyone = np.arange(len(values))
    # Without an ensemble there is one map for the values of all folds together.
    machinery = CalibratedClassifierCV(
        _DecisionValues(), method=method, cv=[(everyone, everyone)], ensemble=False
    ).fit(values[:, None], member.astype(np.int64), sample_weight=weight)
    return machinery.calibrated_classifiers_[0].calibrators[0]
