"""The scikit-learn face of support vector classification on string kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED

from textsvm.errors import InputError
from textsvm.estimators.base import KernelMachine, Prepared, Target
from textsvm.estimators.decisions import scores_of_classes, winners
from textsvm.estimators.default import Given, fit_default, is_default
from textsvm.estimators.targets import as_classes, as_weights, check_class_weight, class_factors, is_number
from textsvm.kernels.base import Kernel
from textsvm.kernels.user import KernelFunction
from textsvm.runtime.parallel import StageProgress
from textsvm.solvers.class_scores import STRATEGIES, number_of_machines
from textsvm.solvers.problems import Classification, Machines
from textsvm.sources.base import Source
from textsvm.sources.texts import TextForm, TextSource


class SVC(ClassifierMixin, KernelMachine):
    """Support vector classification of texts with a string kernel, or of vectors.

    Solves the soft-margin dual with an unregularised bias (C-SVC, as in LIBSVM) exactly; with
    ``multiclass="crammer-singer"`` the multiclass dual without bias (Crammer and Singer 2001).

    Parameters
    ----------
    kernel : "auto", "fast", Kernel, str or callable
        "auto" chooses a sum of spectrum kernels, and C, by cross-validation on the training texts
        (`textsvm.choice`); "fast" is ``Spectrum((1, 5), "log", idf=True)``, whatever the texts. A kernel
        that is named is used as it is: ``GapWeighted(p=5, decay=0.5)``, ``Spectrum((1, 2), tokens="words")``
        for words as symbols; a name ("spectrum", "edit", "gap", ...) stands for that kernel's defaults.
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
    budget : float, optional
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
    solver : {"auto", "gram", "features"}
        By kernel values, or without any, from the features of kernels that have them: the same optimum,
        for documents without number. "auto" takes what is predicted to be quicker and says it in `gram_`.
    memory : int or str, optional
        Bytes that rows of the kernel matrix, or of features, may take ("2GiB" is understood). None: half of
        what is free, of vectors on a CPU a quarter.
    device : {"auto", "cpu", "cuda", "cuda:0", "cuda:0,1", "cuda:all", ...}
        Where numerics run; on several GPUs kernel matrices are divided, and `memory` is that of each.
    n_jobs : int, optional
        Threads; None or -1 uses all cores.
    approximate : str, optional
        "nystrom:4096" stands for the kernel by its values with 4,096 of the training texts, its landmarks
        (`textsvm.kernels.nystroem`): as many kernel values a text, instead of one with each other text. They
        are drawn from the texts alone, not from labels, and in model selection from each training part. C is
        best chosen anew on it.
    store : path, optional
        Folder in which the kernel matrix is kept on disk (`textsvm.gram.store`): made there once, and read
        by whatever is trained on the same texts later. A run that is killed goes on where it was.
    tier : {"auto", "device", "host", "disk", "recompute"}
        Where the kernel matrix lies while it is solved: whole on `device`; whole in main memory, with the
        rows in use on the card; in the `store`, with the rows in use in memory; nowhere, rows being computed
        when they are asked for. "auto" takes the first if it fits, else what is predicted to be quickest
        (`textsvm.gram.plan`); `gram_` says it. On a CPU "host" and "device" are one.

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
        None without `approximate`. With it, `support_` are the landmarks, whatever their labels.
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
    >>> model.report(["prize!", "at lunch"], ["spam", "ham"])  # .save("report.html") writes the page
    SavedReport(2 examples, accuracy=1, macro_f1=1)
    """

    _POSITIVE = ("C", "tol", "duality_gap")
    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}

    def __init__(
        self,
        kernel: Kernel | KernelFunction | str = "auto",
        C: float = 1.0,
        *,
        multiclass: str = "ovr",
        class_weight: Mapping[Any, float] | str | None = None,
        normalise: str = "unicode",
        punctuation: bool = True,
        max_length: int | None = None,
        tol: float = 1e-3,
        duality_gap: float | None = None,
        max_iter: int = -1,
        solver: str = "auto",
        memory: int | str | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        approximate: str | None = None,
        budget: float | None = None,
        store: str | os.PathLike[str] | None = None,
        tier: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.normalise = normalise
        self.punctuation = punctuation
        self.max_length = max_length
        self.tol = tol
        self.duality_gap = duality_gap
        self.max_iter = max_iter
        self.solver = solver
        self.memory = memory
        self.device = device
        self.n_jobs = n_jobs
        self.approximate = approximate
        self.budget = budget
        self.store = store
        self.tier = tier

    @property
    def source(self) -> Source:
        """See `KernelMachine`; a kernel that was chosen stays."""
        if is_default(self.kernel) and getattr(self, "kernel_", None) is not None:
            chosen: Any = self.kernel_
            return TextSource(chosen, TextForm(self.normalise, self.punctuation, self.max_length))
        return super().source

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        super().check()
        if not isinstance(self.multiclass, str) or self.multiclass not in STRATEGIES:
            raise InputError(f"multiclass={self.multiclass!r} is not one of {', '.join(STRATEGIES)}")
        check_class_weight(self.class_weight)
        if self.budget is not None and not (is_number(self.budget) and 0 <= self.budget < np.inf):
            raise InputError(f"budget={self.budget!r} must be a number of seconds, or None")

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> SVC:
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
            Factors of C, >= 0; a text of weight 2 counts as two equal ones, one of weight 0 as none.
        progress : callable, optional
            See `StageProgress`.

        Raises
        ------
        InputError
            If a parameter, a text, a label or a weight is unusable, there is one class only, or no text is
            long enough for the kernel.
        """
        if not is_default(self.kernel):
            self._fit(X, y, sample_weight, progress)
            self.C_, self.chosen_ = self.C, ""
            return self
        self.check()
        texts = self.read(X)
        if not texts:
            raise InputError("there are no documents to train on")
        target = self.as_target(y, len(texts))
        fit_default(self, Given(texts, target, as_weights(sample_weight, len(texts))), progress)
        return self

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """How texts stand to the classes; the largest wins.

        Texts are compared with the support vectors only, in batches of bounded memory.

        Returns
        -------
        float64 array
            Two classes, shape (n,): signed distance to the boundary in units of the margin; positive is
            ``classes_[1]``. More, shape (n, n_classes): votes with ties broken by the values of the machines
            ("ovo"), or values of the machines.
        """
        return self._scores(X, progress)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each text, shape (n,)."""
        return self.predictions(self._scores(X), self.classes_)

    def keep(self, prepared: Prepared, target: Target, machines: Machines) -> None:
        """See `KernelMachine`; of a kernel that was named."""
        super().keep(prepared, target, machines)
        self.C_, self.chosen_ = self.C, ""

    def as_target(self, y: Any, n: int) -> Target:
        """See `KernelMachine`."""
        classes, codes = as_classes(y, n)
        return Target(codes, classes)

    def problem(
        self,
        target: Target,
        index: NDArray[np.int64],
        sample_weight: NDArray[np.float64] | None = None,
        C: float | None = None,
    ) -> Classification:
        """See `KernelMachine`; with another C if one is given."""
        assert target.classes is not None
        codes = target.values[index]
        weight = np.ones(len(index)) if sample_weight is None else sample_weight[index]
        totals: NDArray[np.float64] = np.bincount(codes, weight, len(target.classes)).astype(np.float64)
        for a in np.flatnonzero(totals == 0)[:1]:
            why = (
                "sample_weight is zero for all of its documents"
                if (codes == a).any()
                else "it has no document"
            )
            raise InputError(f"there is nothing to learn the class {target.classes[a]!s} from: {why}")
        factors = class_factors(self.class_weight, target.classes, totals)
        return Classification(
            index,
            codes,
            len(target.classes),
            float(self.C if C is None else C),
            weight * factors[codes],
            self.multiclass,
        )

    def scores(self, values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        """See `KernelMachine`."""
        return scores_of_classes(values, n_classes, self.multiclass)

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[Any]:
        """See `KernelMachine`."""
        assert classes is not None
        return winners(scores, classes)

    def n_machines(self, n_classes: int) -> int:
        """See `KernelMachine`."""
        return number_of_machines(n_classes, self.multiclass)

    def machine_names(self, classes: NDArray[Any] | None, n_machines: int) -> list[str]:
        """See `KernelMachine`."""
        assert classes is not None
        if self.multiclass == "ovo" or (len(classes) == 2 and self.multiclass == "ovr"):
            return [f"{a!s} against {b!s}" for a, b in combinations(classes, 2)]
        return [f"{a!s} against the rest" for a in classes]
