"""SVC, SVR and OneClassSVM: `textsvm.machines` with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils.metadata_routing import UNUSED

from textsvm.estimators.base import KernelEstimator, warn_of_column
from textsvm.machines.classifier import Classifier
from textsvm.machines.novelty import NoveltyDetector
from textsvm.machines.regressor import Regressor
from textsvm.machines.targets import Target


class SVC(ClassifierMixin, KernelEstimator, Classifier):
    """Support vector classification of texts with a string kernel, or of vectors.

    Solves the soft-margin dual with an unregularised bias (C-SVC, as in LIBSVM) exactly; with
    ``multiclass="crammer-singer"`` the multiclass dual without bias (Crammer and Singer 2001).

    Parameters
    ----------
    kernel : "auto", "fast", Kernel, str or callable
        "auto" chooses a sum of spectrum kernels, and C, by cross-validation on the training texts
        (`textsvm.choice`); "fast" is ``Spectrum((1, 5), "log", idf=True)``, whatever the texts. A kernel
        that is named is used as it is: ``GapWeighted(p=5, decay=0.5)``, ``Spectrum((1, 2), tokens="words")``
        for words as symbols; a name ("spectrum", "edit", "gap", ...) stands for that kernel's defaults, and
        "spectrum:1-5,log,idf" or "words:1-2+gap:4" is a kernel as the command line takes it.
        `Gaussian`, `Linear`, `Polynomial` and `Sigmoid`, and sums and products of them, are kernels of
        vectors: `fit` takes rows of numbers instead of texts, as scikit-learn's SVC does. Sums and products
        of `On` read a table, as ``Sum([On("subject", Spectrum(4)), On(["hour", "size"], Gaussian())])`` does.
        With "precomputed" `fit` takes a kernel matrix. A callable ``f(a, b)`` gives the kernel values of two
        lists of texts, shape ``(len(a), len(b))``.
    C : float
        Penalty of margin violations, > 0; "auto" tries a third of it and three times it as well.
    multiclass : {"ovr", "ovo", "crammer-singer"}
        More than two classes: a machine for each class against the rest, a machine for each pair, or a
        machine for each class, solved together.
    time_budget : float, optional
        Seconds that the choice of "auto" may take, as predicted from counts of operations. None: half of what
        TF-IDF of characters with a linear machine would take.
    class_weight : None, "balanced" or dict, optional
        Factors of C for classes. "balanced": inversely proportional to their sums of sample weights.
    normalise : {"unicode", "paper", "none"}
        How texts are normalised, see `textsvm.text.documents.normalise`; a kernel may keep their case.
    punctuation : bool
        False drops punctuation and symbols.
    max_length : int, optional
        Only the first `max_length` characters of a normalised text count. None: all of it.
    tol : float
        Stop when the maximal violation m(a) - M(a) of the optimality conditions is at most this.
    duality_gap : float, optional
        Stop as well once the relative duality gap is at most this (GTSVM's rule); 0.01 is a loose fit.
    max_iter : int
        Bound on solver iterations of a machine; -1 leaves it to the solver.
    device : {"auto", "cpu", "cuda", "cuda:0", "cuda:0,1", "cuda:all", ...}
        Where numerics run; on several GPUs kernel matrices are divided.
    n_jobs : int, optional
        Threads; None or -1 uses all cores.
    compute : Compute, optional
        What the machine is trained from, and where the kernel matrix is kept: see `textsvm.Compute`.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
        Sorted; with two classes a positive decision value means ``classes_[1]``.
    support_ : int64 array, shape (n_sv,)
        Indices of the support vectors of all machines in the training texts.
    support_documents_ : Documents, Views or Vectors
        Their encoded texts, or themselves; None with a precomputed kernel matrix.
    dual_coef_ : float64 array, shape (n_machines, n_sv)
        sign_i alpha_i of each machine; machines in the order of `textsvm.solvers.problems`.
    intercept_ : float64 array, shape (n_machines,)
        The biases.
    weight_vectors_ : Weights, optional
        One weight a feature, of a model that was loaded without texts; it has no support vectors then, and
        no coefficients. None otherwise.
    n_support_ : int64 array, shape (n_classes,)
        Number of support vectors of each class.
    kernel_ : Kernel
        The kernel with what it learnt from the training texts; None with a precomputed kernel matrix.
    solutions_ : tuple of Solution
        Objective, duality gap, violation, iterations and status of the solver, for each machine; one for
        all of them with Crammer-Singer.
    n_iter_ : int
        Iterations, of all machines.
    chosen_ : str
        What "auto" chose and why, in a sentence.
    C_ : float
        The penalty that was used.
    device_ : Device
        What did the work.
    approximation_ : Approximation
        Number of landmarks and features, and the share of the trace of the kernel matrix that they capture;
        None without `Compute.approximate`. With it, `support_` are the landmarks, whatever their labels.
    gram_ : str
        Where the rows of the kernel matrix came from; why there is none.
    seconds_ : dict
        Wall time of "encode", "gram" (or "features") and "solve".
    info_ : dict
        What a loaded model was saved with.
    n_features_in_ : int
        Columns of vectors, or of a precomputed kernel matrix; texts have none.
    feature_names_in_ : array of str, shape (n_features_in_,)
        Where the columns have names.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum
    >>> texts = ["win cash now", "a cash prize", "lunch at noon", "see you at noon"]
    >>> model = SVC(Spectrum(3)).fit(texts, ["spam", "spam", "ham", "ham"])
    >>> model.predict(["win a prize", "noon?"]).tolist()
    ['spam', 'ham']
    """

    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}

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
        See `textsvm.SVC`; "auto" is "fast" here, for nothing is chosen by cross-validation.
    C : float
        Penalty of deviations past epsilon, > 0.
    epsilon : float
        Deviations up to this cost nothing, >= 0, in the unit of the targets.
    normalise, punctuation, max_length, tol, duality_gap, max_iter, device, n_jobs, compute
        See `textsvm.SVC`.

    Attributes
    ----------
    support_ : int64 array, shape (n_sv,)
        Indices of the support vectors in the training texts.
    support_documents_ : Documents
        Their encoded texts; None with a precomputed kernel matrix.
    dual_coef_ : float64 array, shape (1, n_sv)
        The difference of each one's two dual variables.
    intercept_ : float64 array, shape (1,)
        The bias.
    n_support_ : int64 array, shape (1,)
    kernel_, solutions_, n_iter_, device_, gram_, seconds_, info_, n_features_in_
        See `textsvm.SVC`.

    Examples
    --------
    >>> from textsvm import SVR, Spectrum
    >>> model = SVR(Spectrum(1), C=10.0).fit(["a", "ab", "abb", "abbb"], [0, 1, 2, 3])
    >>> model.predict(["abb"]).round(1).tolist()
    [2.1]
    """

    def as_target(self, y: Any, n: int) -> Target:
        warn_of_column(y)
        return super().as_target(y, n)


class OneClassSVM(OutlierMixin, KernelEstimator, NoveltyDetector):
    """The region where texts, or vectors, like the training ones lie.

    Solves the dual of the one-class machine (Schoelkopf et al. 2001; scaled as in LIBSVM) exactly.

    Parameters
    ----------
    kernel : Kernel, str or callable
        See `textsvm.SVC`; "auto" is "fast" here, for nothing is chosen by cross-validation.
    nu : float
        Bound on the share of training texts outside, and below the share of support vectors; in (0, 1].
    normalise, punctuation, max_length, tol, duality_gap, max_iter, device, n_jobs, compute
        See `textsvm.SVC`.

    Attributes
    ----------
    support_ : int64 array, shape (n_sv,)
        Indices of the support vectors in the training texts.
    support_documents_ : Documents
        Their encoded texts; None with a precomputed kernel matrix.
    dual_coef_ : float64 array, shape (1, n_sv)
        Their dual variables; they sum to nu times the sum of the weights.
    intercept_ : float64 array, shape (1,)
        The bias.
    offset_ : float
        ``-intercept_``: `decision_function` is `score_samples` less this.
    n_support_ : int64 array, shape (1,)
    kernel_, solutions_, n_iter_, device_, gram_, seconds_, info_, n_features_in_
        See `textsvm.SVC`.

    Examples
    --------
    >>> from textsvm import OneClassSVM, Spectrum
    >>> model = OneClassSVM(Spectrum(2), nu=0.1).fit(["banana", "bananas", "a banana", "ananas"])
    >>> model.predict(["bananas", "xylophone"]).tolist()
    [1, -1]
    """

    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}
