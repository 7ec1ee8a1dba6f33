"""What the estimators share: texts or a given kernel matrix -> rows -> machines -> fitted attributes.

`fit` is prepare -> problem -> solve -> keep. The steps are separate methods, so that model selection runs
`prepare` once and the others for every fold and every parameter over the same rows.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from textsvm import device as devices
from textsvm import parallel
from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.estimators.parameters import Parameters
from textsvm.estimators.precomputed import GivenRows, read_new, read_training, weigh
from textsvm.estimators.targets import as_weights
from textsvm.estimators.texts import as_texts
from textsvm.gram.base import Gram
from textsvm.gram.plan import make_gram
from textsvm.kernels.base import Kernel, KernelRows, MatrixRows
from textsvm.parallel import StageProgress, of_stage
from textsvm.solvers import problems
from textsvm.solvers.problems import Machines, Problem


@dataclass(frozen=True)
class Prepared:
    """What is known of the training texts before anything is learnt from their labels.

    Attributes
    ----------
    documents : Documents, optional
        None where the kernel matrix was given.
    kernel : Kernel, optional
        Fitted to the documents; None where the kernel matrix was given.
    gram : Gram
        Rows of the kernel matrix.
    seconds : dict
        Wall time of "encode" and "gram", as far as they were needed.
    """

    documents: Documents | None
    kernel: Kernel | None
    gram: Gram
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """Checked targets of all examples.

    Attributes
    ----------
    values : array, shape (n,)
        int64 numbers of the classes for a classifier, float64 for regression.
    classes : array, shape (n_classes,), optional
        The classes, sorted; None where there are none.
    """

    values: NDArray[Any]
    classes: NDArray[Any] | None


class KernelMachine(Parameters, ABC):
    """The steps of SVC, SVR and OneClassSVM; see there."""

    def read(self, X: Any, fitting: bool = True) -> Any:
        """Texts as a list of str, or what is to be the kernel matrix as an array of two dimensions.

        Parameters
        ----------
        X : see `fit`
        fitting : bool
            Whether they are the training texts, or others to be predicted.

        Raises
        ------
        InputError
            If it is neither; the values of a training matrix are looked at by `prepare`.
        """
        if not self.precomputed:
            return as_texts(X)
        return read_training(self, X) if fitting else read_new(self, X)

    def prepare(self, X: Any, progress: StageProgress | None = None) -> Prepared:
        """The first half of `fit`: encode the texts and make the rows of their kernel matrix.

        Parameters
        ----------
        X : texts, or a kernel matrix with ``kernel="precomputed"``; see `fit`
        progress : callable, optional
            See `StageProgress`.
        """
        self.check()
        return self._prepare(self.read(X), progress)

    @abstractmethod
    def as_target(self, y: Any, n: int) -> Target:
        """Check the targets of n examples.

        Raises
        ------
        InputError
            If there are not n, or one of them is unusable.
        """

    @abstractmethod
    def problem(
        self, target: Target, index: NDArray[np.int64], sample_weight: NDArray[np.float64] | None = None
    ) -> Problem:
        """What is to be learnt from the rows `index` of the Gram.

        Parameters
        ----------
        target : Target
            Of all n examples.
        index : int64 array, shape (m,)
            The rows to learn from; class weights are worked out on these.
        sample_weight : float64 array, shape (n,), optional
            Checked weights of all n examples, see `textsvm.estimators.targets.as_weights`.

        Raises
        ------
        InputError
            If there is nothing to learn from these rows.
        """

    @abstractmethod
    def scores(self, values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        """Values of all machines, shape (n, n_machines) -> what `decision_function` gives."""

    @abstractmethod
    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[Any]:
        """Scores -> what `predict` gives, shape (n,)."""

    def machine_names(self, classes: NDArray[Any] | None, n_machines: int) -> list[str]:
        """What each machine does, for people."""
        return [""] * n_machines

    def keep(self, prepared: Prepared, target: Target, machines: Machines) -> None:
        """Set the fitted attributes from a solved problem; warn where it did not converge."""
        used = np.flatnonzero((machines.coef != 0).any(axis=0))
        support = machines.index[used]
        self.solutions_ = machines.solutions
        self.n_iter_ = sum(solution.iterations for solution in machines.solutions)
        self.gram_ = prepared.gram.description
        self.seconds_ = dict(prepared.seconds)
        self.restore(
            prepared.kernel,
            None if prepared.documents is None else prepared.documents.take(support),
            support,
            np.ascontiguousarray(machines.coef[:, used]),
            machines.bias,
            target.classes,
            {},
        )
        if prepared.documents is None:
            self.n_features_in_ = prepared.gram.n
        self.n_support_ = self._count_support(target.values[support], target.classes)
        if trouble := self.unfinished(machines, target.classes):
            warnings.warn(trouble, ConvergenceWarning, stacklevel=4)

    def unfinished(self, machines: Machines, classes: NDArray[Any] | None) -> str:
        """Which of the machines did not converge and how far they got; "" if all did."""
        solutions = machines.solutions
        open_ones = [k for k, solution in enumerate(solutions) if not solution.converged]
        if not open_ones:
            return ""
        worst = max(open_ones, key=lambda k: solutions[k].violation)
        how_far = f"violation {solutions[worst].violation:.2g}, tol {self.tol:g}"
        if len(solutions) == 1:
            return f"the solver stopped before it converged ({solutions[0].status}): {how_far}"
        name = self.machine_names(classes, len(solutions))[worst]
        return (
            f"{len(open_ones)} of {len(solutions)} machines stopped before they converged; the worst is "
            f"{name} ({solutions[worst].status}): {how_far}"
        )

    def restore(
        self,
        kernel: Kernel | None,
        support_documents: Documents | None,
        support: NDArray[np.int64],
        dual_coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        classes: NDArray[Any] | None,
        info: dict[str, Any],
    ) -> KernelMachine:
        """Take the fitted state that prediction needs; `textsvm.load` builds an estimator with it."""
        self.kernel_ = kernel
        self.support_documents_ = support_documents
        self.support_ = support
        self.dual_coef_ = dual_coef
        self.intercept_ = intercept
        if classes is not None:
            self.classes_ = classes
        self.info_ = info
        #: Support vectors prepared for prediction, when there are.
        self._support_rows: list[KernelRows] = []
        return self

    @contextmanager
    def at_work(self, device: Device) -> Iterator[None]:
        """Where numerics run: `n_jobs` threads at most, and the card made current."""
        with parallel.limit(self.n_jobs), devices.use(device):
            yield

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, progress: StageProgress | None) -> None:
        self.check()
        given = self.read(X)
        n = len(given)
        if n == 0:
            raise InputError("there are no documents to train on")
        target = self.as_target(y, n)
        problem = self.problem(target, np.arange(n), as_weights(sample_weight, n))
        self.device_ = devices.select(self.device)
        prepared = self._prepare(given, progress)
        with self.at_work(self.device_):
            clock = time.perf_counter()
            [[machines]] = problems.solve(
                prepared.gram,
                [[problem]],
                tol=self.tol,
                max_iter=self.max_iter,
                duality_gap=self.duality_gap,
                progress=of_stage(progress, "solve"),
            )
            solved = time.perf_counter() - clock
        self.keep(prepared, target, machines)
        self.seconds_["solve"] = solved

    def _prepare(self, given: Any, progress: StageProgress | None) -> Prepared:
        device = devices.select(self.device)
        seconds: dict[str, float] = {}
        with self.at_work(device):
            clock = time.perf_counter()
            documents, kernel = None, None
            if self.precomputed:
                rows: MatrixRows = GivenRows(given, device)
            else:
                documents = self.encode(given, None, progress)
                kernel = self.make_kernel()
                require_features(kernel, documents)
                kernel.fit(documents)
                seconds["encode"] = time.perf_counter() - clock
                clock = time.perf_counter()
                if progress is not None:
                    # Preparing, and compiling at first use, come before any work is counted.
                    progress("gram", 0, 1)
                rows = kernel.rows(documents, device)
            # A given matrix is in the host's memory already.
            memory = 4 * rows.n**2 if self.precomputed and device.kind == "cpu" else self.memory
            gram = make_gram(rows, memory, of_stage(progress, "gram"))
            devices.synchronize(device)
            seconds["gram"] = time.perf_counter() - clock
        return Prepared(documents, kernel, gram, seconds)

    def _values(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Values of all machines, shape (n, n_machines); texts are compared with support vectors only."""
        check_is_fitted(self)
        given = self.read(X, fitting=False)
        if not self._support_rows:
            self.device_ = devices.select(self.device)
        if not len(self.support_):
            return np.tile(self.intercept_, (len(given), 1))
        if self.support_documents_ is None:
            return weigh(given, self.support_, self.dual_coef_) + self.intercept_
        with self.at_work(self.device_):
            if not self._support_rows:
                assert self.kernel_ is not None
                self._support_rows.append(self.kernel_.rows(self.support_documents_, self.device_))
            others = self.encode(given, self.support_documents_.alphabet)
            values = self._support_rows[0].decision(others, self.dual_coef_.T, of_stage(progress, "predict"))
        return values + self.intercept_

    def _scores(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        values = self._values(X, progress)
        return self.scores(values, len(getattr(self, "classes_", ())))

    def _count_support(self, target: NDArray[Any], classes: NDArray[Any] | None) -> NDArray[np.int64]:
        if classes is None:
            return np.array([len(target)])
        return np.bincount(target, minlength=len(classes)).astype(np.int64)

    def __getstate__(self) -> dict[str, Any]:
        # Prepared rows hold device memory or large indexes; they are made again when first needed.
        state = super().__getstate__()
        return {**state, "_support_rows": []} if "_support_rows" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = not self.precomputed
        tags.input_tags.two_d_array = tags.input_tags.pairwise = self.precomputed
        return tags


def require_features(kernel: Kernel, documents: Documents) -> None:
    longest = int(documents.lengths.max())
    if longest < kernel.min_length:
        raise InputError(
            f"every document is shorter than p = {kernel.min_length} (the longest has {longest} symbols); "
            "lower p or give longer documents"
        )
