"""Online classifier of texts: `textsvm.solvers.online` with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from textsvm.errors import InputError
from textsvm.estimators.base import warn_of_column
from textsvm.kernels.inputs import as_texts
from textsvm.kernels.spectrum.byte_pmers import LONGEST, byte_pmers, unit
from textsvm.machines.base import warn_user
from textsvm.machines.targets import as_classes, as_known, is_integer, is_number
from textsvm.solvers.online import OnlineMachine


@dataclass(repr=False, eq=False)
class OnlineSVC(ClassifierMixin, BaseEstimator):
    """Support vector classifier of two classes that learns and unlearns texts incrementally.

    After each call of `partial_fit` and `unlearn` it is the C-SVM of the remaining texts, the optimum of
    `SVC` for this kernel within `tol`. A text costs a few milliseconds among ten thousand texts. The kernel
    is the cosine of the sets of p-mers of the UTF-8 bytes of two texts, which are not normalised. For more
    than two classes use ``OneVsRestClassifier(OnlineSVC())``, which also has `partial_fit`.

    Save it by pickling; `textsvm.save` writes estimators with string kernels only.

    Parameters
    ----------
    C : float
        Penalty of margin violations, > 0.
    p : int
        Bytes of a p-mer, from 1 to 7.
    tol : float
        Largest violation of the optimality conditions, in units of decision values.
    max_texts : int, optional
        Number of texts to keep. Further texts replace texts that are not support vectors, first the text with
        the largest margin.
    max_bytes : int, optional
        Only the first `max_bytes` bytes of a text count; default all.

    Attributes
    ----------
    classes_ : array, shape (2,)
    machine_ : textsvm.solvers.online.OnlineMachine
        Texts, numbered in order of arrival, with their dual variables, and the bias.

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

    C: float = 1.0
    p: int = 4
    _: KW_ONLY
    tol: float = 1e-3
    max_texts: int | None = None
    max_bytes: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.classifier_tags.multi_class = False
        return tags

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        for name in ("C", "tol"):
            value = getattr(self, name)
            if not (is_number(value) and 0 < value < np.inf):
                raise InputError(f"{name}={value!r} must be a number above 0")
        if not (is_integer(self.p) and 1 <= self.p <= LONGEST):
            raise InputError(f"p={self.p!r} must be a whole number from 1 to {LONGEST}")
        for name in ("max_texts", "max_bytes"):
            value = getattr(self, name)
            if value is not None and not (is_integer(value) and value > 0):
                raise InputError(f"{name}={value!r} must be a whole number above 0, or None")

    def fit(self, X: Any, y: Any) -> OnlineSVC:
        """Learn these texts, and forget all others.

        Parameters
        ----------
        X : list of str, NumPy string or object array, or pandas, Polars or Arrow column; n texts
        y : array-like, shape (n,)
            Labels of two classes.

        Raises
        ------
        InputError
            If a parameter, a text or a label is invalid, or there are not two classes.
        """
        self.check()
        texts = self._validate(X)
        warn_of_column(y)
        classes, codes = as_classes(y, len(texts))
        self._begin(classes)
        return self._learn(texts, codes)

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> OnlineSVC:
        """Learn these texts in addition to the known texts.

        Parameters
        ----------
        X, y : n texts and their labels, as for `fit`
            A text that was learnt before counts once more.
        classes : array, shape (2,), optional
            Both classes; needed in the first call if `y` has only a single class.

        Raises
        ------
        InputError
            As for `fit`; also if a label is not in `classes_`.
        """
        self.check()
        texts = self._validate(X)
        if not hasattr(self, "classes_"):
            known = as_classes(y, len(texts))[0] if classes is None else np.unique(np.asarray(classes))
            codes = as_known(y, len(texts), known)
            self._begin(known)
        else:
            codes = as_known(y, len(texts), self.classes_)
        return self._learn(texts, codes)

    def unlearn(self, X: Any) -> OnlineSVC:
        """Forget these texts, as if they had not been learnt; of equal texts the copy learnt last.

        Raises
        ------
        InputError
            If a text is unknown; no text is then forgotten.
        """
        check_is_fitted(self)
        texts = as_texts(X)
        names: list[Hashable] = []
        for i, text in enumerate(texts):
            held = [name for name in self._copies.get(_digest(text), []) if name not in names]
            if not held:
                raise InputError(f"document {i} was not learnt, or was forgotten beyond max_texts")
            names.append(held[-1])
        for text, name in zip(texts, names, strict=True):
            self.machine_.remove(name)
            self._forget(_digest(text), name)
        return self._settle()

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Decision values of texts, shape (n,); positive means ``classes_[1]``."""
        check_is_fitted(self)
        return np.array([self.machine_.decision(*self._features(text)) for text in as_texts(X)], np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each text, shape (n,)."""
        values = self.decision_function(X)
        return np.asarray(self.classes_[(values > 0).astype(np.int64)])

    def _validate(self, X: Any) -> list[str]:
        texts = as_texts(X)
        if not texts:
            raise InputError("there are no documents to train on")
        return texts

    def _begin(self, classes: NDArray[Any]) -> None:
        if len(classes) != 2:
            raise InputError(
                f"Only binary classification is supported. There are {len(classes)} classes; "
                "use OneVsRestClassifier(OnlineSVC()) of scikit-learn"
            )
        self.classes_ = classes
        self.machine_ = OnlineMachine(self.C, self.tol, self.max_texts)
        #: Digest of a text -> the numbers of its copies; number -> digest.
        self._copies: dict[bytes, list[Hashable]] = {}
        self._digests: dict[Hashable, bytes] = {}
        self._n_seen = 0

    def _learn(self, texts: Sequence[str], codes: NDArray[np.int64]) -> OnlineSVC:
        for text, code in zip(texts, codes.tolist(), strict=True):
            self.machine_.add(self._n_seen, *self._features(text), bool(code))
            self._copies.setdefault(_digest(text), []).append(self._n_seen)
            self._digests[self._n_seen] = _digest(text)
            self._n_seen += 1
        return self._settle()

    def _settle(self) -> OnlineSVC:
        if not self.machine_.settle():
            warn_user(
                f"the violation {self.machine_.violation:.2g} is above tol={self.tol:g} after "
                f"{self.machine_.pairs:,} pairs; the next call continues, and a smaller C converges sooner",
                ConvergenceWarning,
            )
        for name in self.machine_.forgotten:
            self._forget(self._digests[name], name)
        self.machine_.forgotten.clear()
        return self

    def _forget(self, digest: bytes, name: Hashable) -> None:
        del self._digests[name]
        self._copies[digest].remove(name)
        if not self._copies[digest]:
            del self._copies[digest]

    def _features(self, text: str) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        most = self.max_bytes
        keys = byte_pmers(text[:most].encode("utf-8", "surrogatepass")[:most], self.p)
        return keys, unit(keys)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
