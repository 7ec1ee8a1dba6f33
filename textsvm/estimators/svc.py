"""The scikit-learn face of the binary C-SVC on string kernels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from textsvm import device as devices
from textsvm import parallel
from textsvm.documents import NORMALISATIONS, Documents, encode, normalise
from textsvm.errors import InputError
from textsvm.estimators.texts import as_texts
from textsvm.gram.plan import make_gram, parse_bytes
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Kernel, KernelRows
from textsvm.solvers import dual, smo

#: Called with (stage, work done, work in all); stages are "encode", "gram", "solve" and "predict".
StageProgress = Callable[[str, float, float], None]


class SVC(ClassifierMixin, BaseEstimator):
    """Support vector classification of texts with a string kernel, two classes.

    Solves the soft-margin dual with an unregularised bias (C-SVC, as in LIBSVM) exactly.

    Parameters
    ----------
    kernel : Kernel or {"spectrum", "edit", "gap"}
        For example ``GapWeighted(p=5, decay=0.5)``; a name stands for that kernel's defaults.
    C : float
        Penalty of margin violations, > 0.
    normalise : {"unicode", "paper", "none"}
        How texts are normalised, see `textsvm.documents.normalise`.
    punctuation : bool
        False drops punctuation and symbols.
    max_length : int, optional
        Only the first `max_length` symbols of a normalised text count. None: all of it.
    tol : float
        Stop when the maximal violation m(a) - M(a) of the optimality conditions is at most this.
    duality_gap : float, optional
        Stop as well once the relative duality gap is at most this (GTSVM's rule); 0.01 is a loose fit.
    max_iter : int
        Bound on solver iterations; -1 leaves it to the solver.
    memory : int or str, optional
        Bytes that rows of the kernel matrix may take ("2GiB" is understood). None: half of what is free.
    device : {"auto", "cpu", "cuda", "cuda:0", ...}
    n_jobs : int, optional
        Threads; None or -1 uses all cores.

    Attributes
    ----------
    classes_ : array, shape (2,)
        Sorted; a positive decision value means ``classes_[1]``.
    support_ : int64 array, shape (n_sv,)
        Indices of the support vectors in the training texts.
    support_documents_ : Documents
        Their encoded texts.
    dual_coef_ : float64 array, shape (1, n_sv)
        sign_i alpha_i.
    intercept_ : float64 array, shape (1,)
        The bias.
    kernel_ : Kernel
        The kernel with what it learnt from the training texts.
    solution_ : Solution
        Objective, duality gap, violation, iterations and status of the solver.
    n_iter_ : int
    device_ : Device
        What did the work.
    gram_ : str
        Where the rows of the kernel matrix came from.
    seconds_ : dict
        Wall time of "encode", "gram" and "solve".
    """

    def __init__(
        self,
        kernel: Kernel | str = "spectrum",
        C: float = 1.0,
        *,
        normalise: str = "unicode",
        punctuation: bool = True,
        max_length: int | None = None,
        tol: float = 1e-3,
        duality_gap: float | None = None,
        max_iter: int = -1,
        memory: int | str | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.normalise = normalise
        self.punctuation = punctuation
        self.max_length = max_length
        self.tol = tol
        self.duality_gap = duality_gap
        self.max_iter = max_iter
        self.memory = memory
        self.device = device
        self.n_jobs = n_jobs

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        if isinstance(self.kernel, str) and self.kernel not in KERNELS:
            raise InputError(f"kernel={self.kernel!r} is not one of {', '.join(KERNELS)}")
        if not isinstance(self.kernel, str | Kernel):
            raise InputError(f"kernel={self.kernel!r} is neither a kernel object nor a name")
        self._kernel().check()
        for name in ("C", "tol", "duality_gap"):
            value = getattr(self, name)
            if name == "duality_gap" and value is None:
                continue
            if not _is_number(value) or not 0 < value < np.inf:
                raise InputError(f"{name}={value!r} must be a finite number above 0")
        if self.normalise not in NORMALISATIONS:
            raise InputError(f"normalise={self.normalise!r} is not one of {', '.join(NORMALISATIONS)}")
        if self.max_length is not None and not (_is_integer(self.max_length) and self.max_length > 0):
            raise InputError(f"max_length={self.max_length!r} must be a whole number above 0, or None")
        if not (_is_integer(self.max_iter) and (self.max_iter > 0 or self.max_iter == -1)):
            raise InputError(f"max_iter={self.max_iter!r} must be a whole number above 0, or -1 for no bound")
        if self.n_jobs is not None and not (
            _is_integer(self.n_jobs) and (self.n_jobs > 0 or self.n_jobs == -1)
        ):
            raise InputError(
                f"n_jobs={self.n_jobs!r} must be a whole number above 0, -1 or None for all cores"
            )
        parse_bytes(self.memory)

    def fit(self, X: Any, y: Any, progress: StageProgress | None = None) -> SVC:
        """Train on texts.

        Parameters
        ----------
        X : list, NumPy string or object array, or pandas, Polars or Arrow column; n texts
        y : array-like, shape (n,)
            Labels of two classes.
        progress : callable, optional
            See `StageProgress`.

        Raises
        ------
        InputError
            If a parameter is out of range, a text is not a string, labels are missing or not of two
            classes, or no text is long enough for the kernel.
        """
        self.check()
        texts, labels = as_texts(X), _as_labels(y)
        self.classes_, target = _two_classes(labels, len(texts))
        self.device_ = devices.select(self.device)
        self.seconds_: dict[str, float] = {}
        with parallel.limit(self.n_jobs), devices.use(self.device_):
            clock = time.perf_counter()
            documents = self._encode(texts, None, progress)
            self.kernel_ = self._kernel()
            _require_features(self.kernel_, documents)
            self.kernel_.fit(documents)
            clock = self._lap("encode", clock)
            if progress is not None:
                # Preparing, and compiling at first use, come before any work is counted.
                progress("gram", 0, 1)
            rows = self.kernel_.against(documents, self.device_)
            gram, self.gram_ = make_gram(rows, self.device_, self.memory, _stage(progress, "gram"))
            devices.synchronize(self.device_)
            clock = self._lap("gram", clock)
            self.solution_ = smo.solve(
                gram,
                dual.svc(target, self.C),
                tol=self.tol,
                max_iter=self.max_iter,
                progress=_stage(progress, "solve"),
                duality_gap=self.duality_gap,
            )
            self._lap("solve", clock)
        self._note_convergence()
        support = np.flatnonzero(self.solution_.alpha > 0)
        coef = target[support] * self.solution_.alpha[support]
        return self.restore(
            self.kernel_,
            documents.take(support),
            support,
            coef[None],
            np.array([self.solution_.bias]),
            self.classes_,
            {},
        )

    def restore(
        self,
        kernel: Kernel,
        support_documents: Documents,
        support: NDArray[np.int64],
        dual_coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        classes: NDArray[Any],
        info: dict[str, Any],
    ) -> SVC:
        """Take the fitted state that prediction needs; `textsvm.load` builds a classifier with it."""
        self.kernel_ = kernel
        self.support_documents_ = support_documents
        self.support_ = support
        self.dual_coef_ = dual_coef
        self.intercept_ = intercept
        self.classes_ = classes
        self.info_ = info
        self._support_rows: KernelRows | None = None
        return self

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Signed distance to the boundary in units of the margin, shape (n,); positive is ``classes_[1]``.

        Texts are compared with the support vectors only, in batches of bounded memory.
        """
        check_is_fitted(self)
        texts = as_texts(X)
        if not len(self.support_documents_):
            return np.full(len(texts), self.intercept_[0])
        if self._support_rows is None:
            self.device_ = devices.select(self.device)
        with parallel.limit(self.n_jobs), devices.use(self.device_):
            if self._support_rows is None:
                self._support_rows = self.kernel_.against(self.support_documents_, self.device_)
            others = self._encode(texts, self.support_documents_.alphabet, None)
            values = self._support_rows.decision(others, self.dual_coef_.T, _stage(progress, "predict"))
        return values[:, 0] + self.intercept_[0]

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each text, shape (n,)."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    @property
    def n_support_(self) -> NDArray[np.int64]:
        """Number of support vectors of each class, shape (2,)."""
        return np.array([(self.dual_coef_ < 0).sum(), (self.dual_coef_ > 0).sum()])

    def _note_convergence(self) -> None:
        self.n_iter_ = self.solution_.iterations
        if not self.solution_.converged:
            warnings.warn(
                f"the solver stopped before it converged ({self.solution_.status}): violation "
                f"{self.solution_.violation:.2g}, tol {self.tol:g}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _kernel(self) -> Kernel:
        return KERNELS[self.kernel]() if isinstance(self.kernel, str) else clone(self.kernel)

    def _encode(
        self, texts: list[str], alphabet: NDArray[np.uint32] | None, progress: StageProgress | None
    ) -> Documents:
        normalised = []
        for i, text in enumerate(texts):
            normalised.append(
                normalise(text, self.normalise, punctuation=self.punctuation)[: self.max_length]
            )
            if progress is not None and i % 256 == 0:
                progress("encode", i, len(texts))
        return encode(normalised, alphabet)

    def _lap(self, stage: str, since: float) -> float:
        now = time.perf_counter()
        self.seconds_[stage] = now - since
        return now

    def __getstate__(self) -> dict[str, Any]:
        # Prepared rows hold device memory or large indexes; they are made again when first needed.
        state = super().__getstate__()
        return {**state, "_support_rows": None} if "_support_rows" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_class = False
        return tags


def _as_labels(y: Any) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise InputError(f"expected one label a document, got an array of shape {labels.shape}")
    for i, label in enumerate(labels.tolist()):
        if label is None or label != label:
            raise InputError(f"the label of document {i} is missing; remove the document or label it")
    return labels


def _two_classes(labels: NDArray[Any], n: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The sorted classes, and +1 for the second and -1 for the first."""
    if len(labels) != n:
        raise InputError(f"there are {n} texts and {len(labels)} labels; give one label a text")
    if n == 0:
        raise InputError("there are no documents to train on")
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise InputError(
            "labels of different types cannot be sorted; use only strings or only numbers"
        ) from error
    if len(classes) == 1:
        raise InputError(f"all {n} documents have the label {classes[0]!s}; a classifier needs two classes")
    if len(classes) > 2:
        shown = ", ".join(map(str, classes[:6])) + (", ..." if len(classes) > 6 else "")
        raise InputError(
            f"there are {len(classes)} classes ({shown}) and this classifier takes two; reduce them "
            "(on the command line with --positive)"
        )
    return classes, np.where(codes == 1, 1.0, -1.0)


def _require_features(kernel: Kernel, documents: Documents) -> None:
    longest = int(documents.lengths.max())
    if longest < kernel.min_length:
        raise InputError(
            f"every document is shorter than p = {kernel.min_length} (the longest has {longest} symbols); "
            "lower p or give longer documents"
        )


def _stage(progress: StageProgress | None, stage: str) -> parallel.Progress | None:
    return None if progress is None else lambda done, total: progress(stage, done, total)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
