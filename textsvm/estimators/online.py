"""OnlineSVC: `textsvm.training.online` with the interface of scikit-learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from textsvm.arrays import AnyArray, Floats, Ints
from textsvm.estimators.base import require_columns, set_columns, warn_of_column
from textsvm.model.settings import OnlineSettings
from textsvm.runtime.parallel import StageProgress
from textsvm.runtime.parameters import NamedParameters
from textsvm.training.online import OnlineLearner


@dataclass(repr=False, eq=False)
class OnlineSVC(ClassifierMixin, NamedParameters, BaseEstimator):
    """Support vector classifier that learns and unlearns texts incrementally.

    After each call of `partial_fit` and `unlearn` it is the C-SVM of the remaining texts, the optimum of
    `SVC` for this kernel within `tol`. A text costs a few milliseconds among ten thousand texts. The kernel
    is the cosine of the sets of p-mers of the UTF-8 bytes of two texts, which are not normalised. More than
    two classes have a machine each, against the rest; time and memory grow with their number.

    `textsvm.save` writes the p-mers of all texts, so that ``as_estimator(load(path))`` goes on learning where
    it stopped.

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
        A machine for two classes, else a machine for each class: the texts, numbered in order of arrival,
        with their dual variables, and the bias.
    model_ : TrainedModel
        The model at present; later lessons do not change it.
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

    model_ = property(lambda self: self.learner_.model())
    info_ = property(attrgetter("learner_.info"))
    classes_ = property(attrgetter("learner_.known.classes"))
    machines_ = property(attrgetter("learner_.known.machines"))

    C: float = 1.0
    p: int = 4
    _: KW_ONLY
    tol: float = 1e-3
    max_texts: int | None = None
    max_bytes: int | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Learn these texts, and forget all others; X and y are those of `textsvm.SVC.fit`."""
        warn_of_column(y)
        learner = self._new_learner()
        learner.fit(X, y)
        self.learner_ = learner
        set_columns(self, X)
        return self

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Learn these texts in addition to the known texts.

        Parameters
        ----------
        X, y : n texts and their labels
            A text that was learnt before counts once more.
        classes : array, shape (n_classes,), optional
            All classes; needed in the first call if `y` lacks some of them. `add_classes` adds further
            classes later.
        """
        learner = self.learner_ if self.__sklearn_is_fitted__() else self._new_learner()
        require_columns(self, X)
        learner.partial_fit(X, y, classes)
        if not self.__sklearn_is_fitted__():
            set_columns(self, X)
        self.learner_ = learner
        return self

    def add_classes(self, classes: ArrayLike) -> Self:
        """Add classes, so that `partial_fit` accepts their labels; the known texts are learnt again.

        The known texts count against each new class. Texts beyond `max_texts` stay forgotten.
        """
        self.require_fitted()
        self.learner_.add_classes(classes)
        return self

    def unlearn(self, X: Any) -> Self:
        """Forget these texts, as if they had not been learnt; of equal texts the copy learnt last.

        InputError if a text is unknown; no text is then forgotten.
        """
        self.require_fitted()
        self.learner_.unlearn(X)
        return self

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> Floats:
        """Decision values of texts, shape (n,) for two classes, else (n, n_classes): the largest wins."""
        self.require_fitted()
        require_columns(self, X)
        return self.learner_.decision_function(X)

    def predict(self, X: Any) -> AnyArray:
        """Predict the class of each text, shape (n,)."""
        decision = self.decision_function(X)
        return np.asarray(self.learner_.plain_rule.predictions(decision))

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, shape (n, n_classes); rows sum to 1.

        A sigmoid of the decision values (with more than two classes a softmax), whose scale is fitted to
        the values of `left_out`. It has no shift, so the likeliest class is the predicted class.
        """
        decision = self.decision_function(X)
        return self.learner_.rule.probabilities(decision)

    def left_out(self) -> tuple[Floats, Ints]:
        """Estimated leave-one-out decision values of the known texts, and their class numbers, shape (n,).

        Texts that a machine has forgotten beyond `max_texts` are left out.
        """
        self.require_fitted()
        return self.learner_.left_out()

    def require_fitted(self) -> None:
        """Raise scikit-learn's NotFittedError before `fit`."""
        check_is_fitted(self)

    def _new_learner(self) -> OnlineLearner:
        return OnlineLearner(OnlineSettings(**self.get_params()), warning=ConvergenceWarning)

    def __sklearn_is_fitted__(self) -> bool:
        return "learner_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags
