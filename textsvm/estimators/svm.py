"""SVC, SVR and OneClassSVM: `textsvm.machines` with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils.metadata_routing import UNUSED

from textsvm.estimators.base import KernelEstimator, warn_of_column
from textsvm.machines.novelty import NoveltyDetector
from textsvm.machines.regressor import Regressor
from textsvm.machines.targets import Target
from textsvm.selection.adaptation import AdaptiveClassifier


class SVC(ClassifierMixin, KernelEstimator, AdaptiveClassifier):
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
        of `On` read a table: ``Sum([On("subject", Spectrum(4)), On(["hour", "size"], Gaussian())])``.
        With "precomputed" `fit` takes a kernel matrix. A callable ``f(a, b)`` returns the kernel values of
        two lists of texts, shape ``(len(a), len(b))``.
    C : float
        Penalty of margin violations, > 0; it multiplies the C of "auto" and "fast".
    multiclass : {"ovr", "ovo", "crammer-singer"}
        More than two classes: a machine for each class against the rest, a machine for each pair, or a
        machine for each class, solved together.
    time_budget : float, optional
        Seconds for trials of other weights and values of C of "auto" by cross-validation, as predicted from
        counts of operations; None for no trials. There are none either if 600 texts would take longer.
    loss : {"hinge", "squared_hinge"}, optional
        Loss function. None is "hinge", and the loss of the default with "auto" and "fast". "squared_hinge" is
        linear beyond a slack of 10; it needs a kernel with features, or a kernel matrix that fits in memory.
    class_weight : None, "balanced" or dict, optional
        Factors of C for classes. "balanced": inversely proportional to their sums of sample weights.
    scoring : {"accuracy", "f1_macro"}
        "f1_macro" moves the biases to raise macro-F1, the mean F1 of the classes, in three-fold
        cross-validation on the training texts, for about three times the time.
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
        Device of the computation; several GPUs divide kernel matrices.
    n_jobs : int, optional
        Threads; None or -1 uses all cores.
    compute : Compute, optional
        Solver, kernel matrix and memory, see `textsvm.Compute`.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
        Sorted; with two classes a positive decision value means ``classes_[1]``.
    support_ : int64 array, shape (n_sv,)
        Indices of the support vectors of all machines in the training texts.
    support_documents_ : Documents, MultiView or Vectors
        Support vectors: encoded texts or vectors; None with a precomputed kernel matrix.
    dual_coef_ : float64 array, shape (n_machines, n_sv)
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
    adaptation_ : Adaptation
        Figures and decision of `adapt`, of the classifier that it returns.
    chosen_ : str
        Kernel and C of "auto" and "fast" in a sentence.
    C_, loss_ : float, str
        Penalty and loss function used.
    device_ : Device
        The device used.
    approximation_ : Approximation
        Number of landmarks and features, and the share of the trace of the kernel matrix that they capture;
        None without `Compute.approximate`. With landmarks, `support_` are the landmarks.
    gram_description_ : str
        Origin of the rows of the kernel matrix, or why there is no kernel matrix.
    seconds_ : dict
        Wall time of "encode", "gram" (or "features") and "solve".
    info_ : dict
        The `info` with which a loaded model was saved.
    n_features_in_ : int
        Columns of vectors, or of a precomputed kernel matrix; texts have none.
    feature_names_in_ : array of str, shape (n_features_in_,)
        If the columns have names.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum
    >>> texts = ["win cash now", "a cash prize", "lunch at noon", "see you at noon"]
    >>> model = SVC(Spectrum(3)).fit(texts, ["spam", "spam", "ham", "ham"])
    >>> model.predict(["win a prize", "noon?"]).tolist()
    ['spam', 'ham']
    """

    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}
    _instead = (
        "CalibratedSVC(SVC()) has: it trains the same kernel, and learns probabilities from out-of-fold "
        "decision values"
    )

    def as_target(self, y: Any, n: int) -> Target:
        warn_of_column(y)
        return super().as_target(y, n)


class SVR(RegressorMixin, KernelEstimator, Regressor):
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
    normalise, punctuation, max_length, tol, duality_gap, max_iter, device, n_jobs, compute
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

    _instead = "it predicts numbers, not classes"

    def as_target(self, y: Any, n: int) -> Target:
        warn_of_column(y)
        return super().as_target(y, n)


class OneClassSVM(OutlierMixin, KernelEstimator, NoveltyDetector):
    """Novelty detection: the region of the training texts or vectors.

    Solves the dual of the one-class machine (Schoelkopf et al. 2001; scaled as in LIBSVM) exactly.

    Parameters
    ----------
    kernel : Kernel, str or callable
        As for `textsvm.SVC`, except that "auto" is "fast": nothing is chosen by cross-validation.
    nu : float
        Upper bound of the share of training texts outside, and lower bound of the share of support vectors;
        in (0, 1].
    normalise, punctuation, max_length, tol, duality_gap, max_iter, device, n_jobs, compute
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

    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}
    _instead = (
        "score_samples ranks texts by their similarity to the training texts, and with labelled texts of "
        "other classes CalibratedSVC(SVC()) has probabilities"
    )
