"""MultilabelSVC: `textsvm.selection.multilabel` with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metadata_routing import UNUSED

from textsvm.estimators.base import KernelEstimator
from textsvm.machines.targets import as_weights
from textsvm.selection.multilabel import MultilabelClassifier


class MultilabelSVC(ClassifierMixin, KernelEstimator, MultilabelClassifier):
    """Support vector classification of texts that may have several labels each.

    One machine a label, that label against the rest (C-SVC as in `textsvm.SVC`), all on one Gram.

    Parameters
    ----------
    kernel : "fast", Kernel, str or callable
        "fast" is ``Spectrum((1, 5), "log", idf=True)``, and "auto" the same. See `textsvm.SVC`.
    C : float
        Penalty of margin violations, > 0.
    thresholds : {"cv", "zero"}
        "cv" chooses a threshold a label by cross-validation, see `textsvm.selection.thresholds`; "zero" takes
        decision values above 0.
    cv : int, scikit-learn splitter, or sequence of (train, test) index pairs
        Folds of the thresholds. A number means shuffled ones, not stratified: a document has several labels.
        A label that no document of a training part has is left out of that fold.
    normalise, punctuation, max_length, tol, duality_gap, max_iter, device, n_jobs, compute
        See `textsvm.SVC`.
    random_state : int, optional
        Seed of the folds, where `cv` is a number.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
        The labels, sorted; numbers of the columns where they were given as a matrix.
    thresholds_ : float64 array, shape (n_classes,)
        A text has the labels whose decision values are above these.
    label_form_ : {"tuples", "indicator", "sparse"}
        How the labels were given, and `predict` gives them.
    dual_coef_ : float64 array, shape (n_classes, n_sv)
        sign_i alpha_i of each machine.
    intercept_ : float64 array, shape (n_classes,)
        The biases.
    n_support_ : int64 array, shape (n_classes,)
        Number of support vectors of each machine; one text can be that of several.
    support_, support_documents_, kernel_, solutions_, n_iter_, device_, gram_, seconds_, info_
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

    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Subset accuracy: the share of texts whose labels are all right; `y` in the form that `fit` got."""
        found = self.predict(X)
        if self.label_form_ != "tuples":
            return float(accuracy_score(y, found, sample_weight=sample_weight))
        right = np.array([set(one) == set(other) for one, other in zip(y, found, strict=True)])
        return float(np.average(right, weights=as_weights(sample_weight, len(right))))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        tags.target_tags.two_d_labels = True
        tags.target_tags.single_output = False
        return tags
