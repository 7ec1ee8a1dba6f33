"""SVC, SVR and OneClassSVM, thin faces of trained models for scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin

from textsvm.arrays import Floats
from textsvm.estimators.base import FixedKernelEstimator, KernelEstimator, model_attribute
from textsvm.model import settings
from textsvm.runtime.parallel import StageProgress


@dataclass(repr=False, eq=False)
class SVC(ClassifierMixin, KernelEstimator):
    """Support vector classification of texts with a string kernel, or of vectors.

    Solves the soft-margin dual with an unregularised bias (C-SVC, as in LIBSVM) exactly; with
    ``multiclass="crammer-singer"`` the multiclass dual without bias (Crammer and Singer 2001).

    Parameters
    ----------
    kernel : "auto", "fast", Kernel, str or callable
        "auto" is a sum of spectrum kernels that suits most texts, or of gapped k-mers for DNA, with its own C
        (`textsvm.choice`); "fast" is a part of it, for half the time. Kernel objects are for instance
        ``GapWeighted(p=5, decay=0.5)`` or ``Spectrum((1, 2), tokens="words")``. A name ("spectrum", "edit",
        "gap", ...) is a kernel with default parameters; a string such as "spectrum:1-5,log,idf" or
        "words:1-2+gap:4" is a kernel in the notation of the command line.
        `Gaussian`, `Linear`, `Polynomial` and `Sigmoid`, and sums and products of them, are kernels of
        vectors: `fit` takes rows of numbers instead of texts, as scikit-learn's SVC does. Sums and products
        of `On` read a table: ``Sum([On("subject", Spectrum(4)), On(["hour", "size"], Gaussian())])``. On a
        table "auto" chooses the weights of the joined text, of columns alone and of numbers.
        With "precomputed" `fit` takes a kernel matrix. A callable ``f(a, b)`` returns the kernel values of
        two lists of texts, shape ``(len(a), len(b))``.
    C : float
        Penalty of margin violations, > 0; it multiplies the C of "auto" and "fast".
    multiclass : {"ovr", "ovo", "crammer-singer", "ordered", "ordered:low<medium<high"}
        More than two classes: a machine for each class against the rest, a machine for each pair, or a
        machine for each class, solved together. "ordered" is for grades, stars and levels: machines of higher
        against lower classes, summed into a machine for each class, whose mistakes are nearer to the true
        class. Classes are ordered by their numbers, or as named.
    time_budget : float, optional
        With kernel="auto": predicted seconds, from counts of operations, for trials of other weights and
        values of C by cross-validation. None: no trials. A trial on 600 texts must fit, else there are none.
    loss : {"hinge", "squared_hinge"}, optional
        Loss function. None is "hinge", and the loss of the default with "auto" and "fast". "squared_hinge" is
        linear beyond a slack of 10; it needs a kernel with features, or a kernel matrix that fits in memory.
    class_weight : None, "balanced" or dict, optional
        Factors of C for classes. "balanced": inversely proportional to their sums of sample weights.
    scoring : {"accuracy", "f1_macro"}
        "f1_macro" moves the biases to raise macro-F1, the mean F1 of the classes, in three-fold
        cross-validation on the training texts, for about three times the time. As with a `time_budget` whose
        trials take all texts, `predict_proba` then has probabilities from the held-out decision values.
    normalise : {"unicode", "paper", "none"}
        Normal form of texts, see `textsvm.text.documents.normalise`; a kernel may keep their case.
    punctuation : bool
        False drops punctuation and symbols.
    max_length : int, optional
        Only the first `max_length` characters of a normalised text count; default all.
    tol : float
        Stop when the maximal violation m(a) - M(a) of the optimality conditions is at most this, with "auto"
        and "fast" 20 times this.
    duality_gap : float, optional
        Also stop when the relative duality gap is at most this (GTSVM's rule); 0.01 is a loose fit.
    max_iter : int
        Bound on solver iterations of a machine; -1 for the solver's default.
    device : {"auto", "cpu", "cuda", "cuda:0", "cuda:0,1", "cuda:all", ...}
        Device of the computation; several GPUs divide kernel matrices. "auto" is the first GPU if it is
        usable, else the CPU, and the CPU with a warning if the GPU has too little memory.
    n_jobs : int, optional
        Threads; None or -1 uses all cores.
    compute : Compute, optional
        Solver, kernel matrix and memory, see `textsvm.Compute`.
    encoder : str or callable, optional
        Also compare texts by their meaning: an `Encoder`, the folder of an encoder, or a function of a list
        of n texts that returns an array of shape (n, d). Its weight is chosen for the texts with "auto" and
        "fast", and 0.3 beside any other kernel of texts.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
        Sorted; with two classes a positive decision value means ``classes_[1]``.
    support_ : int64 array, shape (n_sv,)
        Indices of the support vectors of all machines in the training texts.
    support_documents_ : Documents, MultiView or Vectors
        Support vectors: encoded texts or vectors; None with a precomputed kernel matrix.
    dual_coef_ : float64 array, or csr_array if that takes far less memory, shape (n_machines, n_sv)
        sign_i alpha_i of each machine; machines in the order of `textsvm.solvers.problems`.
    intercept_ : float64 array, shape (n_machines,)
        The biases; those of "auto" and "fast" are moved a little towards rare classes.
    weight_vectors_ : Weights, optional
        A weight for each feature, in place of support vectors and coefficients, of a model that was saved
        without texts; otherwise None.
    n_support_ : int64 array, shape (n_classes,)
        Number of support vectors of each class.
    kernel_ : Kernel
        Fitted kernel; None with a precomputed kernel matrix.
    solutions_ : tuple of Solution
        Objective, duality gap, violation, iterations and status of the solver, for each machine; a single
        solution with Crammer-Singer.
    n_iter_ : int
        Iterations of all machines.
    chosen_ : str
        Kernel and C of "auto" and "fast" in a sentence.
    C_, loss_ : float, str
        Penalty and loss function used.
    device_ : Device
        The device used.
    gram_description_ : str
        Origin of the rows of the kernel matrix, or why there is no kernel matrix.
    seconds_ : dict
        Wall time of the stages, such as "check", "encode", "gram" (or "features"), "solve", "assemble".
    info_ : dict
        The `info` with which a loaded model was saved.
    n_features_in_ : int
        Columns of a table, of vectors, or of a precomputed kernel matrix; texts have none.
    feature_names_in_ : array of str, shape (n_features_in_,)
        If all columns have names. Tables may have other columns in another order at prediction; the columns
        that the kernel reads must be there, and so must the only column of the training.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum
    >>> texts = ["win cash now", "a cash prize", "lunch at noon", "see you at noon"]
    >>> model = SVC(Spectrum(3)).fit(texts, ["spam", "spam", "ham", "ham"])
    >>> model.predict(["win a prize", "noon?"]).tolist()
    ['spam', 'ham']
    """

    _settings = settings.ClassifierSettings
    _alternative = (
        "CalibratedSVC(SVC()) has: it trains the same kernel, and learns probabilities from out-of-fold "
        "decision values"
    )

    classes_ = model_attribute("classes")
    C_ = model_attribute("record.C")
    loss_ = model_attribute("record.loss")
    chosen_ = model_attribute("record.chosen")

    kernel: settings.KernelLike = "auto"
    C: float = 1.0
    _: KW_ONLY
    multiclass: str = "ovr"
    class_weight: Mapping[Any, float] | str | None = None
    time_budget: float | None = None
    loss: str | None = None
    scoring: str = "accuracy"
    normalise: str = "unicode"
    punctuation: bool = True
    max_length: int | None = None
    tol: float = 1e-3
    duality_gap: float | None = None
    max_iter: int = -1
    device: str = "auto"
    n_jobs: int | None = None
    compute: settings.Compute | None = None
    encoder: object = None

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None,
        progress: StageProgress | None = None,
    ) -> Self:  # fmt: skip
        """Train on texts.

        Parameters
        ----------
        X : list, NumPy string or object array, or pandas, Polars or Arrow column; n texts
            With a kernel of vectors an array, sparse matrix or data frame of finite numbers, shape (n, d);
            with kernels on columns (`On`) a pandas or Polars DataFrame, an Arrow table, a dict of columns or
            a list of dicts; with ``kernel="precomputed"`` the kernel matrix, shape (n, n).
        y : array-like, shape (n,)
            Labels of two or more classes: strings, whole numbers or bools.
        sample_weight : array-like, shape (n,), optional
            Factors of C, >= 0; weight 2 counts a text twice. A text of weight 0 counts in idf and odds alone.
        groups : array-like, shape (n,), optional
            Books, threads: all folds keep the texts of a group together, so that the choice of kernel and C,
            offsets and probabilities suit texts of new groups.
        progress : callable, optional
            Called with the stage, the work done and the total work (`StageProgress`).
        """
        return self._fit(X, y, sample_weight, progress, groups)


@dataclass(repr=False, eq=False)
class SVR(RegressorMixin, FixedKernelEstimator):
    """Support vector regression of numbers on texts with a string kernel, or on vectors.

    Solves the dual of the epsilon-insensitive loss with an unregularised bias (Drucker et al. 1997; as in
    LIBSVM) exactly.

    Parameters
    ----------
    kernel : Kernel, str or callable
        As for `textsvm.SVC`, except that "auto" is "fast": nothing is chosen by cross-validation.
    C : float
        Penalty of deviations past epsilon, > 0.
    epsilon : float
        Deviations without penalty, >= 0, in the unit of the targets.
    normalise, punctuation, max_length, tol, duality_gap, max_iter, device, n_jobs, compute, encoder
        See `textsvm.SVC`.

    Attributes
    ----------
    dual_coef_ : float64 array, shape (1, n_sv)
        Differences of the two dual variables of each support vector.
    intercept_, n_support_ : arrays, shape (1,)
    support_, support_documents_, kernel_, solutions_, n_iter_, device_, gram_description_, seconds_, info_
        See `textsvm.SVC`, also for `n_features_in_`.

    Examples
    --------
    >>> from textsvm import SVR, Spectrum
    >>> model = SVR(Spectrum(1), C=10.0).fit(["a", "ab", "abb", "abbb"], [0, 1, 2, 3])
    >>> model.predict(["abb"]).round(1).tolist()
    [2.1]
    """

    _settings = settings.RegressionSettings
    _alternative = "it predicts numbers, not classes"

    C: float = 1.0
    _: KW_ONLY
    epsilon: float = 0.1

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> Self:
        """Train on texts and finite numbers `y`, in any unit, with the parameters of `textsvm.SVC.fit`."""
        return self._fit(X, y, sample_weight, progress)

    def predict(self, X: Any, progress: StageProgress | None = None) -> Floats:
        """Predict the number of each text, shape (n,)."""
        return self._model_for(X).decision_function(X, progress)

    @property
    def decision_function(self) -> Any:
        """Not available: a regressor predicts numbers."""
        raise AttributeError("SVR has no decision_function; predict has the numbers")


@dataclass(repr=False, eq=False)
class OneClassSVM(OutlierMixin, FixedKernelEstimator):
    """Novelty detection: the region of the training texts or vectors, where `predict` is +1, elsewhere -1.

    Solves the dual of the one-class machine (Schoelkopf et al. 2001; scaled as in LIBSVM) exactly.

    Parameters
    ----------
    kernel : Kernel, str or callable
        As for `textsvm.SVC`, except that "auto" is "fast": nothing is chosen by cross-validation.
    nu : float
        Upper bound of the share of training texts outside, and lower bound of the share of support vectors;
        in (0, 1].
    normalise, punctuation, max_length, tol, duality_gap, max_iter, device, n_jobs, compute, encoder
        See `textsvm.SVC`.

    Attributes
    ----------
    dual_coef_ : float64 array, shape (1, n_sv)
        Dual variables; they sum to nu times the sum of the weights.
    intercept_, n_support_ : arrays, shape (1,)
    offset_ : float
        ``-intercept_``: `decision_function` is `score_samples` minus the offset.
    support_, support_documents_, kernel_, solutions_, n_iter_, device_, gram_description_, seconds_, info_
        See `textsvm.SVC`, also for `n_features_in_`.

    Examples
    --------
    >>> from textsvm import OneClassSVM, Spectrum
    >>> model = OneClassSVM(Spectrum(2), nu=0.1).fit(["banana", "bananas", "a banana", "ananas"])
    >>> model.predict(["bananas", "xylophone"]).tolist()
    [1, -1]
    """

    _settings = settings.NoveltySettings
    _alternative = (
        "score_samples ranks texts by their similarity to the training texts, and with labelled texts of "
        "other classes CalibratedSVC(SVC()) has probabilities"
    )

    nu: float = 0.5

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        progress: StageProgress | None = None,
    ) -> Self:
        """Train on texts, with the parameters of `textsvm.SVC.fit`; `y` is ignored.

        Sample weights are upper bounds of the dual variables, 1 each by default.
        """
        return self._fit(X, None, sample_weight, progress)

    def score_samples(self, X: Any) -> Floats:
        """`decision_function` without the offset, shape (n,)."""
        return self._model_for(X).score_samples(X)

    @property
    def offset_(self) -> float:
        """``-intercept_``."""
        return -float(self.intercept_[0])
