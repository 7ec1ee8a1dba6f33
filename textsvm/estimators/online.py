"""OnlineSVC: `textsvm.selection.online` with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from textsvm.estimators.base import warn_of_column
from textsvm.selection.online import OnlineClassifier


class OnlineSVC(ClassifierMixin, BaseEstimator, OnlineClassifier):
    """Support vector classifier that learns and unlearns texts incrementally.

    After each call of `partial_fit` and `unlearn` it is the C-SVM of the remaining texts, the optimum of
    `SVC` for this kernel within `tol`. A text costs a few milliseconds among ten thousand texts. The kernel
    is the cosine of the sets of p-mers of the UTF-8 bytes of two texts, which are not normalised. More than
    two classes have a machine each, against the rest; time and memory grow with their number.

    `textsvm.save` writes the p-mers of all texts, so a loaded model goes on learning where it stopped.

    Parameters
    ----------
    C : float
        Penalty of margin violations, > 0.
    p : int
        Bytes of a p-mer, from 1 to 7.
    tol : float
        Largest violation of the optimality conditions, in units of decision values.
    max_texts : int, optional
        Number of texts that each machine keeps. Further texts replace texts that are not support vectors,
        first the text with the largest margin.
    max_bytes : int, optional
        Only the first `max_bytes` bytes of a text count; default all.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
    machines_ : list of textsvm.solvers.online.OnlineMachine
        One machine for two classes, else a machine for each class: the texts, numbered in order of arrival,
        with their dual variables, and the bias. With two classes also `machine_`.
    info_ : dict
        The `info` with which a loaded model was saved.

    Examples
    --------
    >>> from textsvm import OnlineSVC
    >>> model = OnlineSVC().partial_fit(["win cash now", "lunch at noon"], ["spam", "ham"])
    >>> model.predict(["lunch now"]).tolist()
    ['ham']
    >>> model.partial_fit(["cash now at noon, lunch now"], ["spam"]).predict(["lunch now"]).tolist()
    ['spam']
    >>> model.unlearn(["cash now at noon, lunch now"]).predict(["lunch now"]).tolist()
    ['ham']
    """

    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}
    warning = ConvergenceWarning

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    def copy(self) -> Any:
        """An estimator with the same parameters that is not fitted."""
        return clone(self)

    def require_fitted(self) -> None:
        """Raise scikit-learn's NotFittedError before `fit`."""
        check_is_fitted(self)

    def fit(self, X: Any, y: Any) -> OnlineSVC:
        warn_of_column(y)
        super().fit(X, y)
        return self

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> OnlineSVC:
        super().partial_fit(X, y, classes)
        return self

    def add_classes(self, classes: ArrayLike) -> OnlineSVC:
        super().add_classes(classes)
        return self

    def unlearn(self, X: Any) -> OnlineSVC:
        super().unlearn(X)
        return self
