"""MultilabelSVC, a face of models of several labels for scikit-learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from textsvm.estimators.base import FixedKernelEstimator, model_attribute
from textsvm.model.labels import read_labels
from textsvm.model.settings import KernelLike, MultilabelSettings
from textsvm.readers.corpus import Answers
from textsvm.runtime.parallel import StageProgress
from textsvm.training.targets import as_weights
from textsvm.training.train import train


@dataclass(repr=False, eq=False)
class MultilabelSVC(ClassifierMixin, FixedKernelEstimator):
    """Support vector classification of texts with several labels each.

    Each label has a machine, the label against the rest (C-SVC as in `textsvm.SVC`); all share a Gram.

    Parameters
    ----------
    kernel : "fast", Kernel, str or callable
        "fast" and "auto" are ``Spectrum((1, 5), "log", idf=True)``. See `textsvm.SVC`.
    C : float
        Penalty of margin violations, > 0.
    thresholds : {"cv", "zero"}
        "cv" chooses a threshold per label by cross-validation, see `textsvm.training.thresholds`; "zero"
        sets all thresholds to 0.
    cv : int, scikit-learn splitter, or sequence of (train, test) index pairs
        Folds of the thresholds. A number of folds means shuffled folds, which are not stratified. A label
        without a document in a training part is left out of the fold.
    normalise, punctuation, max_length, tol, duality_gap, max_iter, device, n_jobs, compute, encoder
        See `textsvm.SVC`.
    random_state : int, optional
        Seed of the folds, if `cv` is a number.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
        Sorted labels; column numbers if the labels were a matrix.
    thresholds_ : float64 array, shape (n_classes,)
        A text has the labels with decision values above their thresholds.
    label_form_ : {"tuples", "indicator", "sparse"}
        Form of the training labels and of predictions.
    dual_coef_ : float64 array, shape (n_classes, n_sv)
        sign_i alpha_i of each machine.
    intercept_ : float64 array, shape (n_classes,)
        The biases.
    n_support_ : int64 array, shape (n_classes,)
        Number of support vectors of each machine; machines may share support vectors.
    support_, support_documents_, kernel_, solutions_, n_iter_, device_, gram_description_, seconds_, info_
        See `textsvm.SVC`.

    Examples
    --------
    >>> from textsvm import MultilabelSVC, Spectrum
    >>> texts = ["red apple", "ripe apple", "red car", "fast car", "red", "fast red car"]
    >>> labels = [("red", "fruit"), ("fruit",), ("red",), ("fast",), ("red",), ("red", "fast")]
    >>> model = MultilabelSVC(Spectrum(3), C=100, thresholds="zero").fit(texts, labels)
    >>> model.predict(["the red apple"])
    [('fruit', 'red')]
    """

    _settings = MultilabelSettings
    _alternative = (
        "decision_function has a value for each label, and scikit-learn's OneVsRestClassifier("
        "CalibratedSVC(SVC())), fitted to an indicator matrix, has a probability for each label"
    )

    classes_ = model_attribute("classes")
    thresholds_ = model_attribute("rule.thresholds")
    label_form_ = model_attribute("rule.form")

    kernel: KernelLike = "fast"
    C: float = 1.0
    _: KW_ONLY
    thresholds: str = "cv"
    cv: object = 5
    random_state: int | None = 0

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None,
        progress: StageProgress | None = None,
    ) -> Self:  # fmt: skip
        """Train on texts; folds share the Gram of all texts, unless the kernel learns (idf).

        Parameters
        ----------
        X, groups, progress
            See `textsvm.SVC.fit`.
        y : sequence of n tuples, lists or sets of labels; or array or sparse matrix, shape (n, n_classes)
            A matrix of 0 and 1, as from `sklearn.preprocessing.MultiLabelBinarizer`. A text may have no
            label. NaN in a matrix is unknown: a label learns from, and is judged on, texts where it is known.
        sample_weight : array-like, shape (n,), optional
            Factors of C, >= 0. Thresholds count every text once.
        """
        return self._set_model(train(self.settings, X, y, sample_weight, progress, groups), X)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Subset accuracy, the share of texts with all labels correct; `y` in the form of `fit`."""
        predicted = self.predict(X)
        if self.label_form_ != "tuples":
            truth = read_labels(y)[1]
            said = np.where(np.isnan(truth), 0, read_labels(predicted)[1])
            return float(accuracy_score(truth == 1, said == 1, sample_weight=sample_weight))
        pairs = zip(y, map(set, predicted), strict=True)
        right = np.array([{*a} == (b & {*a, *a.no} if isinstance(a, Answers) else b) for a, b in pairs])
        return float(np.average(right, weights=as_weights(sample_weight, len(right))))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        tags.target_tags.two_d_labels = True
        tags.target_tags.single_output = False
        return tags
