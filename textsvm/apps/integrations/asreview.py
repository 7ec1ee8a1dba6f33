"""A classifier for ASReview, whose entry point has the name "textsvm" (docs/integrations.md).

ASReview asks the class for `name` and `label`, and stores its parameters as JSON. This module does not import
ASReview.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin

from textsvm.arrays import AnyArray, Floats
from textsvm.errors import InputError


class TextSVM(ClassifierMixin, BaseEstimator):
    """A least-squares support vector machine with weighted samples, on the rows of any feature extractor.

    With the kernel matrix K of the rows, K' = K + 1 for the bias, labels y in {-1, +1} and weights w the
    coefficients are (K' + diag(1 / (C w)))^-1 y: exact, and computed in milliseconds after each label.

    Parameters
    ----------
    C : float
        Penalty of squared deviations, > 0.
    """

    name = "textsvm"
    label = "Least-squares SVM (textsvm)"

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> TextSVM:
        """Train on rows, shape (n, d), with labels of two classes and weights > 0, shape (n,)."""
        rows = csr_matrix(X, dtype=np.float64)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise InputError(f"the labels have {len(self.classes_)} classes; a machine needs two")
        weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        matrix = (rows @ rows.T).toarray() + 1 + np.diag(1 / (self.C * weights))
        coef = solve(matrix, 2.0 * codes - 1, assume_a="pos")
        self.coef_, self.intercept_ = rows.T @ coef, coef.sum()
        return self

    def decision_function(self, X: Any) -> Floats:
        """Decision values, shape (m,), by which ASReview ranks articles; relevant articles have high ones."""
        return np.asarray(X @ self.coef_ + self.intercept_)

    def predict(self, X: Any) -> AnyArray:
        """Labels, shape (m,)."""
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])
