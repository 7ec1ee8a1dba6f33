"""What a source of rows is: it reads what a user hands over, and knows how examples are compared.

A source has no state but its parameters; examples, kernels and what a machine keeps are given to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.base import Kernel
from textsvm.kernels.contract import Predictor, Weights
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import StageProgress


class Examples(Protocol):
    """Encoded documents, vectors, or a kernel matrix of some."""

    def __len__(self) -> int:
        """How many there are."""

    def take(self, indices: NDArray[np.int64]) -> Any:
        """Some of them, in that order."""


@dataclass(frozen=True)
class Kept:
    """What a machine keeps of its training examples, to decide others."""

    #: shape (n_sv,): Which of the training examples are support vectors, ascending.
    support: NDArray[np.int64]
    kernel: Kernel | None = None  #: With what it learnt; None where the kernel matrix was given
    documents: Any = None  #: The support vectors; None where the kernel matrix was given
    n_features: int | None = None  #: Columns of the kernel matrix that was given, or numbers of a vector
    #: The machines as one weight a feature; there are no support vectors then, and `documents` are none over
    #: the alphabets of the training texts.
    weights: Weights | None = None


class Source(ABC):
    """Where rows of a kernel matrix come from."""

    @property
    def form(self) -> Hashable:
        """Equal for sources whose kernels can have examples in common, see `prepare_for`."""
        return None

    @abstractmethod
    def check(self) -> None:
        """Raise InputError if a parameter is out of range."""

    @abstractmethod
    def tag(self, input_tags: Any) -> None:
        """Say in scikit-learn's tags what `read` takes."""

    @abstractmethod
    def read(self, X: Any, machine: Any, fitting: bool = True) -> Any:
        """What a user hands over, checked: a list of str, `Vectors`, or an array of two dimensions.

        Parameters
        ----------
        X : texts or kernel matrix
        machine : KernelMachine
            Checks rows of numbers, and keeps and compares their number of columns.
        fitting : bool
            Whether these are the training examples, or others to be predicted.

        Raises
        ------
        InputError
            If it is neither; the values of a training matrix are looked at once rows are made of them.
        """

    @abstractmethod
    def prepare(self, given: Any, known: Any = None, progress: StageProgress | None = None) -> Any:
        """What was read -> `Examples`; texts over their own alphabet, or an extension of that of `known`."""

    def prepare_for(
        self, sources: Sequence[Source], given: Any, progress: StageProgress | None = None
    ) -> Any:
        """What was read -> `Examples` for the kernels of several sources of this form, itself one of them."""
        return self.prepare(given, None, progress)

    @abstractmethod
    def kernel_for(self, examples: Any) -> Kernel:
        """A fresh kernel, whose `rows` of these examples are wanted.

        Raises
        ------
        InputError
            If it cannot be made, or finds no feature in any of them.
        """

    @abstractmethod
    def memory(self, wished: int | str | None, n: int, device: Device) -> int | str | None:
        """Bytes that rows of n examples may take, given what a user wishes."""

    def require_tunable(self, names: Iterable[str]) -> None:
        """Raise InputError if a grid over parameters of these names makes no sense here."""
        return

    @abstractmethod
    def keep(self, kernel: Kernel, examples: Any, support: NDArray[np.int64]) -> Kept:
        """What machines with these support vectors need, to decide other examples."""

    @abstractmethod
    def require_weights(self) -> None:
        """Raise InputError if machines here are not one weight a feature."""

    @abstractmethod
    def without_texts(self, kept: Kept, coef: NDArray[np.float64]) -> Kept:
        """What is kept of machines, coef (n_machines, n_sv), as one weight a feature, without any text.

        Raises
        ------
        InputError
            As `require_weights` does.
        """

    @abstractmethod
    def others(self, given: Any, kept: Kept) -> Any:
        """What was read of examples to be predicted, as `Predictor.values` takes it."""

    @abstractmethod
    def predictor(self, kept: Kept, coef: NDArray[np.float64], device: Device) -> Predictor:
        """Prepare machines, coef (n_machines, n_sv), for prediction."""

    @abstractmethod
    def state(self, kept: Kept) -> tuple[Any, dict[str, NDArray[Any]]]:
        """What is kept, as the saved form of a kernel (JSON values) and arrays.

        Raises
        ------
        InputError
            If it cannot be saved.
        """

    @abstractmethod
    def restore(
        self, n_features: int | None, support: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> Kept:
        """Take back what `state` gave; raises InputError, KeyError or ValueError if it is damaged."""
