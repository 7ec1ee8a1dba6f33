"""CalibratedSVC, and the estimators of trained models, for scikit-learn's tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils.metadata_routing import UNUSED

from textsvm.arrays import Bools, Floats
from textsvm.errors import InputError
from textsvm.estimators.base import KernelEstimator, model_attribute
from textsvm.estimators.multilabel import MultilabelSVC
from textsvm.estimators.online import OnlineSVC
from textsvm.estimators.svm import SVC, SVR, OneClassSVM
from textsvm.model.rules import CalibratedRule, ClassRule
from textsvm.model.settings import CalibrationSettings, OnlineSettings, copied
from textsvm.model.trained import TrainedModel
from textsvm.runtime.parallel import StageProgress
from textsvm.training.online import OnlineLearner


@dataclass(repr=False, eq=False)
class CalibratedSVC(ClassifierMixin, KernelEstimator):
    """Classifier of texts with calibrated probabilities.

    `predict` takes the most probable class. `decision_function` has the values before calibration, whose sign
    or largest value may name another class.

    Parameters
    ----------
    estimator : SVC, optional
        Default ``SVC()``; a copy of it is fitted. "auto" chooses kernel and C once, on all documents.
    method : {"sigmoid", "isotonic"}
        Map from decision values to probabilities. "isotonic" needs about a thousand documents.
    cv : int, scikit-learn splitter, or sequence of (train, test) index pairs
        Folds of the decision values, see `textsvm.training.folds.make_folds`. Copies of a document should be
        in the same fold.
    reject : (float, float) or float, optional
        Reject option: documents for which `predict` returns "unsure". With two classes, thresholds
        ``(low, high)`` of the probability of ``classes_[1]``: at most `low` is the first class, at least
        `high` the second, and the range between them unsure. A single number is the least probability of a
        predicted class. Metrics of scikit-learn need classes that are texts, as "unsure" is.
    random_state : int, optional
        Seed of the folds, if `cv` is a number.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
    estimator_ : SVC
        Fitted to all documents, without calibration; made anew at each access. Its fitted attributes
        (`support_`, `solutions_`, `seconds_`, ...) are also attributes of this object.
    calibration_ : dict of arrays
        Maps to probabilities, see `textsvm.model.rules.CalibratedRule`.
    conformity_ : Conformity
        Out-of-fold values for `predict_set` and `predict_known`.

    Examples
    --------
    >>> from textsvm import SVC, CalibratedSVC, Spectrum
    >>> texts = ["red apple", "red cherry", "ripe apple", "ripe cherry"]
    >>> texts += ["fast car", "fast train", "slow car", "slow train"]
    >>> model = CalibratedSVC(SVC(Spectrum(2)), cv=4).fit(texts, ["fruit"] * 4 + ["ride"] * 4)
    >>> model.classes_.tolist(), model.predict_proba(["a ripe red apple"]).round(1).tolist()
    (['fruit', 'ride'], [[0.9, 0.1]])
    """

    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"progress": UNUSED}

    classes_ = model_attribute("classes")
    C_ = model_attribute("record.C")
    loss_ = model_attribute("record.loss")
    chosen_ = model_attribute("record.chosen")
    held_out_accuracy_ = model_attribute("record.held_out_accuracy")
    calibration_ = model_attribute("rule.maps")
    conformity_ = model_attribute("rule.conformity")

    estimator: SVC | None = None
    method: str = "sigmoid"
    cv: object = 5
    reject: Sequence[float] | float | None = None
    random_state: int | None = 0

    @property
    def settings(self) -> CalibrationSettings:
        """Settings of the training, as `train` takes them."""
        classifier = self._classifier().settings
        return CalibrationSettings(classifier, self.method, self.cv, copied(self.reject), self.random_state)

    @property
    def estimator_(self) -> SVC:
        """The fitted classifier, without calibration."""
        rule = self.model_.rule
        assert isinstance(rule, CalibratedRule)
        classifier = SVC(**self.model_.record.settings.as_dict())
        classifier.model_ = replace(self.model_, rule=ClassRule(rule.classes, rule.strategy, rule.offsets))
        if self.model_.support.n_features is not None:
            classifier.n_features_in_ = self.model_.support.n_features
        return classifier

    def _classifier(self) -> SVC:
        if self.estimator is not None and not isinstance(self.estimator, SVC):
            raise InputError(f"estimator={self.estimator!r} is not an SVC")
        return self.estimator or SVC()

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None,
        progress: StageProgress | None = None,
    ) -> Self:  # fmt: skip
        """Train on texts, with the parameters of `textsvm.SVC.fit`.

        All folds and the final machines share a Gram, unless the kernel learns (idf). Weights count in the
        machines and in the calibration. With groups, probabilities, prediction sets and rejection are those
        for texts of new groups.
        """
        return self._fit(X, y, sample_weight, progress, groups)

    def _device_and_jobs(self) -> tuple[str, int | None]:
        classifier = self._classifier()
        return classifier.device, classifier.n_jobs

    def predict_proba(self, X: Any, progress: StageProgress | None = None) -> Floats:
        """The probability of each class, shape (n, n_classes); rows sum to 1."""
        return self._model_for(X).predict_proba(X, progress)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy, the share of texts with the right class; "unsure" counts as wrong."""
        predicted = np.asarray(self.predict(X), object)
        sure = predicted != "unsure"
        named = np.where(sure, predicted, self.classes_[0]).astype(self.classes_.dtype)
        accuracy_score(y, named, sample_weight=sample_weight)  # for its checks
        right = sure & (named == np.ravel(y))
        return float(accuracy_score(right, np.ones_like(right), sample_weight=sample_weight))

    def predict_set(self, X: Any, coverage: float = 0.95, per_class: bool = False) -> Bools:
        """Prediction sets, see `textsvm.model.trained.TrainedModel.predict_set`."""
        return self._model_for(X).predict_set(X, coverage, per_class)

    def score_samples(self, X: Any) -> Floats:
        """Similarity of each text to the known classes, shape (n,): its largest decision value."""
        return self._model_for(X).score_samples(X)

    def predict_known(self, X: Any, rejected: float = 0.05) -> Bools:
        """Whether each text is like a known class, see `textsvm.model.trained.TrainedModel.predict_known`."""
        return self._model_for(X).predict_known(X, rejected)


_ESTIMATORS = {face.__name__: face for face in (SVC, SVR, OneClassSVM, MultilabelSVC, CalibratedSVC)}


def as_estimator(model: TrainedModel) -> Any:
    """A fitted estimator that holds a trained model, for instance the result of `textsvm.load`.

    It has the settings of the model and predicts as the model does, and works in scikit-learn's pipelines,
    scorers, displays and inspection; `sklearn.frozen.FrozenEstimator` of it is not trained again. `fit`
    trains it anew. An OnlineSVC goes on learning, from a copy of the model.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, as_estimator, load, save
    >>> save(SVC(Spectrum(3)).fit(["win cash now", "lunch at noon"], ["spam", "ham"]), "spam.textsvm")
    >>> as_estimator(load("spam.textsvm")).score(["cash", "lunch"], ["spam", "ham"])
    1.0
    """
    settings, rule = model.record.settings, model.rule
    if isinstance(settings, OnlineSettings):
        online = OnlineSVC(**settings.as_dict())
        online.learner_ = OnlineLearner(settings, model, ConvergenceWarning)
        return online
    parameters = {**settings.as_dict(), "device": model.device, "n_jobs": model.n_jobs}
    if isinstance(rule, CalibratedRule):
        estimator: Any = CalibratedSVC(SVC(**parameters), rule.method, reject=rule.reject)
    else:
        estimator = _ESTIMATORS[rule.estimator](**parameters)
    estimator.model_ = model
    if model.support.n_features is not None:
        estimator.n_features_in_ = model.support.n_features
    return estimator
