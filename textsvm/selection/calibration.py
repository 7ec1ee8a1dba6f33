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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.machines.base import is_default
from textsvm.machines.classifier import Classifier
from textsvm.machines.decisions import check_reject, checked_maps, decide, probabilities_of
from textsvm.machines.targets import Target, with_classes
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.runtime.parameters import Parameters
from textsvm.selection.conformal import Conforming, Conformity

if TYPE_CHECKING:
    from typing_extensions import Self

    from textsvm.selection.fold_grams import Task

METHODS = ("sigmoid", "isotonic")


class CalibratedClassifier(Conforming, Parameters):
    """The machine of `textsvm.CalibratedSVC`."""

    estimator_name: ClassVar[str] = "CalibratedSVC"
    #: The class of the default `estimator`.
    _default: ClassVar[type[Classifier]] = Classifier

    def __init__(
        self,
        estimator: Classifier | None = None,
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
        from textsvm.machines.default import Given, settle
        from textsvm.selection.fold_grams import grams_of, train_and_test
        from textsvm.selection.probability_maps import fit_maps
        from textsvm.selection.scoring import mean_values, read_training_data

        self.check()
        estimator = self._default() if self.estimator is None else self.estimator.copy()
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
            trained = train_and_test([estimator], grams, task, seconds, progress)
        clock = time.perf_counter()
        estimator.device_ = device
        estimator.keep(trained.last, target, trained.machines[0][-1])
        estimator.chosen_ = chosen
        decision, _ = mean_values(trained.values[0], task.folds[:-1], len(target.values))
        self.calibration_ = fit_maps(
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
        self, estimator: Classifier, target: Target, weight: NDArray[np.float64] | None
    ) -> tuple[Task, NDArray[np.int64]]:
        """Folds, the last with all documents and no test part; and the documents that are tested."""
        from textsvm.selection.fold_grams import Task
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
        return Task(target, weight, folds), tested

    def restore(
        self,
        estimator: Classifier,
        calibration: Mapping[str, NDArray[Any]],
        conformity: Mapping[str, NDArray[Any]] | None = None,
    ) -> Self:
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
        self.require_fitted()
        return dict(self.calibration_)

    def restore_calibration(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `calibration_state` gave; raises ValueError if it is not that."""
        self.calibration_ = checked_maps(state, len(self.classes_))

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Decision values of texts, see `SVC.decision_function`."""
        self.require_fitted()
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
