"""Probabilities for a classifier, calibrated on out-of-fold decision values.

The decision values of a fitted machine on its own training documents are too good, so calibration uses the
values f_i of a cross-validation, from machines that were not trained on document i. The folds share the Gram
of all documents, unless the kernel learns from documents (idf weights): it then learns from each training
part. The values are mapped to the probability of each class by one of

    sigmoid    p = 1 / (1 + exp(a f + b))                  (Platt 1999)
    isotonic   p = a rising step line through (x, y)       (Zadrozny and Elkan 2002)

With more than two classes each class has a map, against the rest, and the probabilities are divided by their
sum. The classifier itself is fitted to all documents. scikit-learn's `CalibratedClassifierCV` fits the maps,
which are stored as plain arrays.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.evaluation.drift import margins
from textsvm.machines.base import is_default
from textsvm.machines.classifier import Classifier
from textsvm.machines.targets import Target, is_number
from textsvm.machines.top_features import TopFeatures
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.runtime.parameters import Parameters
from textsvm.selection.conformal import Conformity, largest

if TYPE_CHECKING:
    from typing import Self

    from textsvm.selection.fold_grams import Task

METHODS = ("sigmoid", "isotonic")
#: The prediction for a rejected document.
UNSURE = "unsure"


@dataclass(repr=False, eq=False)
class CalibratedClassifier(Parameters):
    """The machine of `textsvm.CalibratedSVC`."""

    estimator: Classifier | None = None
    method: str = "sigmoid"
    cv: Any = 5
    reject: Sequence[float] | float | None = None
    random_state: int | None = 0

    estimator_name: ClassVar[str] = "CalibratedSVC"
    #: The class of the default `estimator`.
    _default: ClassVar[type[Classifier]] = Classifier

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        if self.estimator is not None and not isinstance(self.estimator, Classifier):
            raise InputError(f"estimator={self.estimator!r} is not an SVC")
        if self.method not in METHODS:
            raise InputError(f"method={self.method!r} is not one of {', '.join(METHODS)}")
        check_reject(self.reject)

    def copy(self) -> Self:
        """A classifier with the same parameters that is not fitted."""
        return self.__sklearn_clone__()

    def require_fitted(self) -> None:
        """Raise InputError before `fit`."""
        if "estimator_" not in vars(self):
            raise InputError(f"this {self.estimator_name} is not fitted; call fit first")

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> Self:
        """Train on texts; all folds and the final machines share one Gram, unless the kernel learns (idf).

        Parameters
        ----------
        X, y, sample_weight, progress
            See `SVC.fit`. Weights count in the machines and in the calibration.
        """
        from textsvm.selection import fold_grams, probability_maps, scoring

        self.check()
        estimator = self._default() if self.estimator is None else self.estimator.copy()
        given, target, weight = scoring.read_training_data(estimator, X, y, sample_weight)
        estimator.validate(X)  # stores the names of the columns of a table
        task, tested = self._task(estimator, target, weight)
        seconds = dict.fromkeys(("encode", "gram", "solve", "score"), 0.0)
        chosen = ""
        if is_default(estimator.kernel):
            clock = time.perf_counter()
            chosen = estimator.choose_parameters(given, target, weight, progress)
            lap(seconds, "choose", clock)
        values = fold_grams.fit_with_folds(estimator, given, task, seconds, progress)
        clock = time.perf_counter()
        estimator.chosen_ = chosen
        decision, _ = scoring.mean_values(values, task.folds[:-1], len(target.values))
        self.calibration_ = probability_maps.fit_maps(
            self.method, decision[tested], target.values[tested], None if weight is None else weight[tested]
        )
        probability = self.probabilities(decision[tested])
        self.conformity_: Conformity | None = Conformity.of(
            probability, decision[tested], target.values[tested]
        )
        estimator.held_out_accuracy_ = float((probability.argmax(axis=1) == target.values[tested]).mean())
        #: Median out-of-fold margin, for `textsvm.evaluation.drift`.
        self.margin_ = float(np.median(margins(decision[tested])))
        seconds["calibrate"] = seconds.pop("score") + time.perf_counter() - clock
        estimator.seconds_ = seconds
        self.estimator_, self.classes_ = estimator, estimator.classes_
        return self

    def _task(
        self, estimator: Classifier, target: Target, weight: NDArray[np.float64] | None
    ) -> tuple[Task, NDArray[np.int64]]:
        """Folds, the last with all documents and no test part; and the documents that are tested."""
        from textsvm.selection import fold_grams
        from textsvm.selection.folds import make_folds

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
        return fold_grams.Task(target, weight, folds), tested

    def restore(
        self,
        estimator: Classifier,
        calibration: Mapping[str, NDArray[Any]],
        conformity: Mapping[str, NDArray[Any]] | None = None,
    ) -> Self:
        """Set a fitted classifier and its calibration, for `textsvm.load`."""
        check_reject(self.reject, estimator.classes_)
        self.estimator_, self.classes_ = estimator, estimator.classes_
        self.restore_calibration(calibration)
        self.conformity_ = Conformity.restore(conformity, len(self.classes_)) if conformity else None
        return self

    def calibration_state(self) -> dict[str, NDArray[np.float64 | np.int64]]:
        """Maps as arrays: a map for each class, or a single map for two classes.

        Returns
        -------
        dict
            "a" and "b" of the sigmoids, float64, shape (n_maps,); or points "x" and "y" of the step lines,
            float64, and "starts", the start of each line and the end of the last, int64, shape (n_maps + 1,).
        """
        self.require_fitted()
        return dict(self.calibration_)

    def restore_calibration(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore `calibration_state`; ValueError if it is invalid."""
        self.calibration_ = checked_maps(state, len(self.classes_))

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Decision values of texts, as `SVC.decision_function`."""
        self.require_fitted()
        return self.estimator_.decision_function(X, progress)

    def predict_proba(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """The probability of each class, shape (n, n_classes); rows sum to 1."""
        return self.probabilities(self.decision_function(X, progress))

    def probabilities(self, decision: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities, shape (n, n_classes), of decision values, shape (n,) or (n, n_classes)."""
        columns = decision[:, None] if decision.ndim == 1 else decision
        p = np.stack([_mapped(self.calibration_, k, column) for k, column in enumerate(columns.T)], axis=1)
        if p.shape[1] == 1:
            return np.concatenate([1 - p, p], axis=1)
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1 / p.shape[1]), where=total > 0)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class of each text, shape (n,); "unsure" for rejected texts."""
        return self.decide(self.predict_proba(X))

    def decide(self, probabilities: NDArray[np.float64]) -> NDArray[Any]:
        """Predictions, shape (n,), from probabilities, shape (n, n_classes)."""
        return decide(probabilities, self.classes_, self.reject)

    def predict_set(self, X: Any, coverage: float = 0.95, per_class: bool = False) -> NDArray[np.bool_]:
        """Prediction sets: classes of each text that include the true class with the promised probability.

        Parameters
        ----------
        X : n texts
        coverage : float
            Probability that the set holds the true class, above 0 and below 1.
        per_class : bool
            Whether the coverage holds for each class rather than on average over all texts.

        Returns
        -------
        bool array, shape (n, n_classes)
            Columns as in `classes_`; at least one class per row.
        """
        return self.require_conformity().sets(self.predict_proba(X), coverage, per_class)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Similarity of each text to the known classes, shape (n,): its largest decision value."""
        return largest(self.decision_function(X))

    def predict_known(self, X: Any, rejected: float = 0.05) -> NDArray[np.bool_]:
        """Whether each text is like a known class, shape (n,), by `score_samples`.

        Parameters
        ----------
        X : n texts
        rejected : float
            Largest share of texts of the classes that is rejected, above 0 and below 1.
        """
        return self.require_conformity().known(self.decision_function(X), rejected)

    def require_conformity(self) -> Conformity:
        """Out-of-fold values of the training texts; InputError if the model has none."""
        self.require_fitted()
        if self.conformity_ is None:
            raise InputError(
                "the model was saved by an older version, without values for prediction sets; train it again"
            )
        return self.conformity_

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the features of `coef_`, see `SVC.get_feature_names_out`."""
        self.require_fitted()
        return self.estimator_.get_feature_names_out()

    def top_features(self, n: int = 30) -> list[TopFeatures]:
        """The `n` features with the largest weights for each class, see `SVC.top_features`."""
        self.require_fitted()
        return self.estimator_.top_features(n)

    def __getattr__(self, name: str) -> Any:
        # Fitted attributes of the classifier.
        if name.endswith("_") and not name.startswith("_") and "estimator_" in vars(self):
            return getattr(self.estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def checked_maps(state: Mapping[str, NDArray[Any]], n_classes: int) -> dict[str, NDArray[Any]]:
    """Check the arrays of `calibration_state`; ValueError if they are damaged."""
    n_maps = 1 if n_classes == 2 else n_classes
    taken = {name: np.asarray(values) for name, values in state.items()}
    if set(taken) not in ({"a", "b"}, {"x", "y", "starts"}):
        raise ValueError("its calibration has an unknown method")
    for name, values in taken.items():
        kind = np.int64 if name == "starts" else np.float64
        if values.ndim != 1 or values.dtype != kind or not np.isfinite(values).all():
            raise ValueError(f"its calibration {name!r} is not a row of finite numbers")
    if "a" in taken:
        if not len(taken["a"]) == len(taken["b"]) == n_maps:
            raise ValueError("its calibration does not fit its classes")
    else:
        x, y, starts = taken["x"], taken["y"], taken["starts"]
        if len(starts) != n_maps + 1 or starts[0] != 0 or starts[-1] != len(x) or len(x) != len(y):
            raise ValueError("its calibration does not fit its classes")
        if (starts[1:] <= starts[:-1]).any() or not rising([0, *np.sort(y), 1]):
            raise ValueError("its calibration has a map without points, or one that leaves 0..1")
        for first, last in pairwise(starts):
            if not rising(x[first:last]) or not rising(y[first:last]):
                raise ValueError("its calibration has a map that falls")
    return taken


def check_reject(reject: Any, classes: NDArray[Any] | None = None) -> None:
    """Raise InputError if `reject` is invalid, or does not fit the classes."""
    if reject is None:
        return
    bounds = np.atleast_1d(np.asarray(reject, object))
    if not all(map(is_number, bounds)) or bounds.ndim > 1 or len(bounds) > 2 or not rising([0, *bounds, 1]):
        raise InputError(f"reject={reject!r} is neither a probability nor two, (low, high), from 0 to 1")
    if classes is None:
        return
    if len(bounds) == 2 and len(classes) > 2:
        raise InputError(
            f"two thresholds are for two classes and there are {len(classes)}; give a single threshold"
        )
    if UNSURE in classes.tolist():
        raise InputError(f"a class is named {UNSURE!r}, the prediction for rejected documents; rename it")


def rising(values: Any) -> bool:
    """Whether values never fall."""
    return bool(np.all(np.diff(np.asarray(values, float)) >= 0))


def decide(probabilities: NDArray[np.float64], classes: NDArray[Any], reject: Any) -> NDArray[Any]:
    """The most probable class of each document, shape (n,); "unsure" if it is rejected."""
    best = probabilities.argmax(axis=1)
    if reject is None:
        return classes[best]
    bounds = np.atleast_1d(np.asarray(reject, float))
    if len(bounds) == 2:
        best = (probabilities[:, 1] >= bounds[1]).astype(int)
        unsure = (probabilities[:, 1] > bounds[0]) & (probabilities[:, 1] < bounds[1])
    else:
        unsure = probabilities.max(axis=1) < bounds[0]
    labels = classes[best].astype(object)
    labels[unsure] = UNSURE
    return labels


def _mapped(maps: Mapping[str, NDArray[Any]], k: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map k of decision values, shape (n,)."""
    if "a" in maps:
        with np.errstate(over="ignore"):
            mapped: NDArray[np.float64] = 1 / (1 + np.exp(maps["a"][k] * values + maps["b"][k]))
        return mapped
    part = slice(maps["starts"][k], maps["starts"][k + 1])
    return np.interp(values, maps["x"][part], maps["y"][part])
