"""A classifier of texts that learns and unlearns one at a time: `textsvm.solvers.online` for scikit-learn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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


class OnlineSVC(ClassifierMixin, BaseEstimator):
    """A support vector classifier of two classes that is always trained, on what it was given so far.

    After any calls of `partial_fit` and `unlearn` it is the C-SVM of the texts that are left, the optimum of
    `SVC` for this kernel, to within `tol`; a text costs a few milliseconds among ten thousand. The kernel
    is the cosine of the sets of p-mers of two texts' UTF-8 bytes, without any normalisation: new p-mers come
    with every text, and bytes need no alphabet that grows with them. More than two classes:
    ``OneVsRestClassifier(OnlineSVC())``, which has a `partial_fit`, too.

    It is saved by pickling; `textsvm.save` takes estimators of string kernels.

    Parameters
    ----------
    C : float
        Cost of an error.
    p : int
        Bytes of a p-mer, from 1 to 7.
    tol : float
        Largest violation of the optimality conditions, in units of decision values.
    max_texts : int, optional
        Number of texts to keep. Beyond it texts that are not support vectors are forgotten first, those with
        the largest margin before others.
    max_bytes : int, optional
        Only the first `max_bytes` bytes of a text count. None: all of it.

    Attributes
    ----------
    classes_ : array, shape (2,)
    machine_ : textsvm.solvers.online.OnlineMachine
        The texts by their numbers in order of arrival, their dual variables, and the bias.

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

    def __init__(
        self,
        C: float = 1.0,
        p: int = 4,
        *,
        tol: float = 1e-3,
        max_texts: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self.C = C
        self.p = p
        self.tol = tol
        self.max_texts = max_texts
        self.max_bytes = max_bytes

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
        """Learn these texts alone.

        Parameters
        ----------
        X : list of str, NumPy string or object array, pandas / Polars / Arrow column
        y : labels, shape (n,)

        Raises
        ------
        InputError
            If a parameter, a text or a label is unusable, or there are not two classes.
        """
        self.check()
        texts = self._read(X)
        warn_of_column(y)
        classes, codes = as_classes(y, len(texts))
        self._begin(classes)
        return self._learn(texts, codes)

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> OnlineSVC:
        """Learn these texts besides those that are known.

        Parameters
        ----------
        X, y : see `fit`
            A text that comes again counts again.
        classes : array, shape (2,), optional
            Both classes, for a first call that has only one of them.

        Raises
        ------
        InputError
            See `fit`; and if a label is none of the classes.
        """
        self.check()
        texts = self._read(X)
        if not hasattr(self, "classes_"):
            known = as_classes(y, len(texts))[0] if classes is None else np.unique(np.asarray(classes))
            codes = as_known(y, len(texts), known)
            self._begin(known)
        else:
            codes = as_known(y, len(texts), self.classes_)
        return self._learn(texts, codes)

    def unlearn(self, X: Any) -> OnlineSVC:
        """Forget these texts, as if they had never been learnt; the one learnt last, of equal ones.

        Parameters
        ----------
        X : see `fit`

        Raises
        ------
        InputError
            If one of them is not known: then none is forgotten.
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
        """Above 0 for the second class, shape (n,).

        Parameters
        ----------
        X : see `fit`

        Raises
        ------
        InputError
            If a text is unusable.
        """
        check_is_fitted(self)
        return np.array([self.machine_.decision(*self._features(text)) for text in as_texts(X)], np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each text, shape (n,); see `decision_function`."""
        values = self.decision_function(X)
        return np.asarray(self.classes_[(values > 0).astype(np.int64)])

    def _read(self, X: Any) -> list[str]:
        texts = as_texts(X)
        if not texts:
            raise InputError("there are no documents to train on")
        return texts

    def _begin(self, classes: NDArray[Any]) -> None:
        if len(classes) != 2:
            raise InputError(
                f"Only binary classification is supported. There are {len(classes)} classes, which "
                "OneVsRestClassifier(OnlineSVC()) of scikit-learn takes"
            )
        self.classes_ = classes
        self.machine_ = OnlineMachine(self.C, self.tol, self.max_texts)
        #: digest of a text -> the numbers of its copies; number -> digest.
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
                f"{self.machine_.pairs:,} pairs; the next call goes on from there, and a smaller C is easier",
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
