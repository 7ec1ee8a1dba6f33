"""CalibratedSVC: `textsvm.selection.calibration` with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED

from textsvm.estimators.base import Estimator
from textsvm.estimators.svm import SVC
from textsvm.selection.calibration import CalibratedClassifier


class CalibratedSVC(ClassifierMixin, Estimator, CalibratedClassifier):
    """Classifier of texts with calibrated probabilities.

    Parameters
    ----------
    estimator : SVC, optional
        Default ``SVC()``; a copy of it is fitted. "auto" chooses kernel and C once, on all documents.
    method : {"sigmoid", "isotonic"}
        Map from decision values to probabilities. "isotonic" needs about a thousand documents.
    cv : int, scikit-learn splitter, or sequence of (train, test) index pairs
        Folds of the decision values, see `textsvm.selection.folds.make_folds`. Copies of a document should be
        in the same fold.
    reject : (float, float) or float, optional
        Reject option: documents for which `predict` returns "unsure". With two classes, thresholds
        ``(low, high)`` of the probability of ``classes_[1]``: at most `low` is the first class, at least
        `high` the second, and the range between them unsure. A single number is the least probability of a
        predicted class.
    random_state : int, optional
        Seed of the folds, if `cv` is a number.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
    estimator_ : SVC
        Fitted to all documents. Its fitted attributes (`support_`, `solutions_`, `seconds_`, ...) are also
        attributes of this object.
    calibration_ : dict of arrays
        Maps to probabilities, in the form of `calibration_state`.
    conformity_ : Conformity, optional
        Out-of-fold values for `predict_set` and `predict_known`; None if an older version saved the model.

    Examples
    --------
    >>> from textsvm import SVC, CalibratedSVC, Spectrum
    >>> texts = ["red apple", "red cherry", "ripe apple", "ripe cherry"]
    >>> texts += ["fast car", "fast train", "slow car", "slow train"]
    >>> model = CalibratedSVC(SVC(Spectrum(2)), cv=4).fit(texts, ["fruit"] * 4 + ["ride"] * 4)
    >>> model.classes_.tolist(), model.predict_proba(["a ripe red apple"]).round(1).tolist()
    (['fruit', 'ride'], [[0.9, 0.1]])
    """

    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}
    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"progress": UNUSED}
    _default = SVC

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator: Any = SVC() if self.estimator is None else self.estimator
        tags.input_tags = estimator.__sklearn_tags__().input_tags
        return tags
