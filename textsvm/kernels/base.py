"""What every string kernel is: parameters, and rows of kernel values against fixed documents."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents, View, Views
from textsvm.errors import InputError
from textsvm.features.rows import FeatureRows, side_by_side
from textsvm.kernels.attribution import OCCLUSION, PIECES, Attribution, Contributions, occlusion
from textsvm.kernels.near import Near, NearByValues
from textsvm.kernels.operators import Operators
from textsvm.kernels.option import Option
from textsvm.kernels.predictor import Predictor as Predictor
from textsvm.kernels.predictor import RowsPredictor as RowsPredictor
from textsvm.kernels.predictor import Weights as Weights
from textsvm.kernels.rows import BLOCK_BYTES as BLOCK_BYTES
from textsvm.kernels.rows import HostRows as HostRows
from textsvm.kernels.rows import KernelRows as KernelRows
from textsvm.kernels.rows import MatrixRows as MatrixRows
from textsvm.kernels.sharing import Sharing as Sharing
from textsvm.parallel import Progress
from textsvm.parameters import Parameters
from textsvm.tokens import Tokens, check_tokens

if TYPE_CHECKING:
    from textsvm.device import Device
#: Values a second of a kernel about which nothing is known, such as a function of the user's.
UNKNOWN_RATE = 5e5 / 60


def is_number(value: object) -> bool:
    """Whether a parameter is a number (bool is none, nor is a whole number that takes more than 64 bits)."""
    return isinstance(value, float | np.floating) or is_whole(value)


def is_whole(value: object) -> bool:
    """Whether a parameter is a whole number of at most 64 bits (bool is none)."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) < 1 << 63


class Kernel(Operators, Parameters, ABC):
    """The parameters of a kernel, what it learns from training documents, and all that others ask of it.

    A subclass has a `name`, stores its parameters, and makes `rows`; the rest has defaults.

    Attributes
    ----------
    name : str
        In model files and on the command line.
    options : tuple of Option
        Its parameters on the command line.
    attribution : Attribution
        What `contributions` are.
    comparable : bool
        Whether equal parameters make equal kernels.
    reads : {"texts", "vectors", "columns"}
        What its examples are: which source of rows (`textsvm.sources`) serves it.
    alike : float
        Normalised kernel value from which two examples count as nearly the same. 3,000 documents of R8 have
        23 exact copies; at 0.98 kernels of texts find 29 to 101 pairs, all but identical, at 0.95 one that
        counts single characters takes 22,030 pairs of unlike documents for copies.
    has_distances : bool
        Whether the pairs that `near` finds have distances, whole numbers, and can be bounded by them.
    in_shards : bool
        Whether its rows on a card have ``gram_in_shards(shards, number, progress)`` (`textsvm.gram.cards`).
    """

    name: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()
    attribution: ClassVar[Attribution] = OCCLUSION
    comparable: ClassVar[bool] = True
    reads: ClassVar[str] = "texts"
    alike: ClassVar[float] = 0.98
    has_distances: ClassVar[bool] = False
    in_shards: ClassVar[bool] = False

    @property
    def view(self) -> View:
        """What it reads of a text."""
        return View()

    @property
    def views(self) -> tuple[View, ...]:
        """The distinct views of its parts, its own if it has none."""
        return (self.view,)

    @property
    def bare(self) -> Kernel:
        """It without the column that it is on (`textsvm.kernels.on`)."""
        return self

    @property
    def copies_by(self) -> Kernel | None:
        """Its parts that tell near-duplicates: of those on columns the ones on texts; None if none is."""
        return self

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        """The kernels it is made of that are made of no others: itself, if it is neither sum nor product."""
        return (self,)

    @property
    def terms(self) -> Sequence[tuple[float, Kernel]]:
        """It as a weighted sum of kernels that are no sums, those of weight 0 left out."""
        return ((1.0, self),)

    @property
    def depth(self) -> int:
        """Levels of sums and products that it is made of."""
        return 0

    def read(self, documents: Documents | Views) -> Documents:
        """What it reads of documents that may have several views."""
        return documents.of(self.view)

    @property
    def counting(self) -> Hashable | None:
        """Equal for kernels that can share `counted` documents; None if its features cannot be counted."""
        return None

    def occurrences(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """How often any feature occurs in documents of these lengths, shape (n,): as many at most it has."""
        raise TypeError(f"features of {type(self).__name__} cannot be counted")

    def counted(self, documents: Documents, device: Device | None = None) -> Any:
        """Documents whose features are counted, as `textsvm.kernels.spectrum_counted` has them.

        On a card, where one is given; on the CPU otherwise.
        """
        raise TypeError(f"features of {type(self).__name__} cannot be counted")

    def fit_counted(self, counted: Any, train: NDArray[np.int64]) -> None:
        """Learn what `fit` would learn from some of the documents that were counted."""
        raise TypeError(f"features of {type(self).__name__} cannot be counted")

    @property
    def has_features(self) -> bool:
        """Whether it is a sum of kernels whose features can be counted."""
        return all(weight > 0 and term.counting is not None for weight, term in self.terms)

    def feature_bytes(self, documents: Documents) -> int:
        """Bytes that are predicted for the features of documents while they are counted and solved with."""
        return 0

    def feature_rows(self, documents: Documents | Views, device: Device) -> FeatureRows:
        """Learn what `fit` would, and the documents as rows of features, on a device.

        Raises
        ------
        TypeError
            If it has no features.
        """
        return self.counted_rows(self.count(documents, device), np.arange(len(documents)), device)

    def count(self, documents: Documents | Views, device: Device) -> dict[Hashable, Any]:
        """`counted` documents of all its terms, by their `counting`."""
        found: dict[Hashable, Any] = {}
        for _, leaf in self.terms:
            if leaf.counting not in found:
                found[leaf.counting] = leaf.counted(leaf.read(documents), device)
        return found

    def counted_rows(
        self, counted: dict[Hashable, Any], train: NDArray[np.int64], device: Device
    ) -> FeatureRows:
        """Learn what `fit` would from some of the documents that `count` counted, and all as rows."""
        parts = []
        for _, leaf in self.terms:
            leaf.fit_counted(counted[leaf.counting], train)
            parts.append(counted[leaf.counting].rows(leaf.bare, train))
        weights = [weight for weight, _ in self.terms]
        if device.kind == "cuda":
            from textsvm.features import rows_cuda

            return rows_cuda.side_by_side(parts, weights)
        return side_by_side(parts, weights)

    @property
    def approximation(self) -> Any:
        """How well it stands for another kernel, as `textsvm.kernels.nystroem` says; None if it is none."""
        return None

    def condense(
        self, index: NDArray[np.int64], coef: NDArray[np.float64]
    ) -> tuple[Kernel, NDArray[np.int64], NDArray[np.float64]]:
        """Machines on the documents of its last rows, as they are kept.

        Parameters
        ----------
        index : int64 array, shape (m,)
            Which documents.
        coef : float64 array, shape (n_machines, m)

        Returns
        -------
        Kernel, index, coef
            Machines of the same values, of the kernel that decides.
        """
        return self, index, coef

    def require_memory(self, n: int, allowed: int) -> None:
        """Raise InputError if what it makes of n documents takes more bytes than are allowed."""
        return

    @property
    def min_length(self) -> int:
        """Symbols a document needs to have any feature."""
        return 0

    def demand(self, lengths: NDArray[np.int64]) -> float:
        """What deciding with support vectors of these lengths takes, as a share of what a saved model may."""
        return 0.0

    @property
    def letters(self) -> str:
        """The only letters that it reads, "" if all: a kernel of both strands knows DNA and RNA."""
        return "acgtun" if getattr(self, "canonical", False) else ""

    @property
    def learns(self) -> bool:
        """Whether `fit` learns something from the documents, on which kernel values depend."""
        return False

    def fit(self, documents: Documents) -> Kernel:
        """Check the parameters and learn what the kernel needs from training documents.

        Raises
        ------
        InputError
            If a parameter is out of range.
        """
        self.check()
        return self

    def fit_on(self, documents: Documents, device: Device) -> Kernel:
        """`fit`, where `device` says if there is a quicker way."""
        return self.fit(documents)

    def check(self) -> None:
        """Raise InputError if a parameter is out of range."""

    @abstractmethod
    def rows(self, documents: Documents, device: Device) -> KernelRows:
        """Prepare `documents` as the columns of rows of kernel values."""

    def near(self, documents: Documents, others: Documents | None, device: Device) -> Near:
        """Prepare to find pairs that are alike, of `documents` or of `others` (the rows) and `documents`."""
        return NearByValues(self, documents, others, device)

    def predictor(self, support: Documents, coef: NDArray[np.float64], device: Device) -> Predictor:
        """Prepare machines for prediction.

        Parameters
        ----------
        support : Documents, n_sv of them
        coef : float64 array, shape (n_machines, n_sv)
        device : Device
            Where they decide.
        """
        return RowsPredictor(self.rows(support, device), coef)

    @property
    def has_weights(self) -> bool:
        """Whether its machines can be kept as one weight a feature (`weight_vectors`)."""
        return False

    def weight_vectors(self, support: Documents, coef: NDArray[np.float64]) -> Weights:
        """Machines, coef (n_machines, n_sv), as weights of features."""
        raise TypeError(f"machines of {type(self).__name__} are no weights")

    def restore_weight_vectors(self, state: dict[str, NDArray[Any]], alphabets: Documents | Views) -> Weights:
        """Take back what `Weights.state` gave, and what the kernel learnt; InputError if it is damaged."""
        raise TypeError(f"machines of {type(self).__name__} are no weights")

    @property
    def sharing(self) -> Sharing | None:
        """What it has in common with kernels of equal `sharing`, if anything."""
        return None

    def cost(self, row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds that a core is predicted to take for kernel values, roughly.

        Parameters
        ----------
        row_lengths, column_lengths : int64 arrays, shapes (m,) and (n,)
            Symbols of the documents.

        Returns
        -------
        float64 array, shape (m,)
            Of each row document with all column documents.
        """
        return np.full(len(row_lengths), len(column_lengths) / UNKNOWN_RATE)

    def seconds(self, rows: Documents | Views, columns: Documents | Views) -> float:
        """The same for all values of some documents with others."""
        parts = ((leaf.cost, leaf.read(rows), leaf.read(columns)) for leaf in self.leaves)
        return float(sum(cost(some.lengths, others.lengths).sum() for cost, some, others in parts))

    def divides(self, documents: Documents, kind: str = "cpu") -> bool:
        """Whether a Gram made in tiles, documents in order of length, has the bits of one made whole.

        Of no kernel by default: what is quick to compute is not worth sending.

        Parameters
        ----------
        kind : {"cpu", "cuda"}
            Of the device that makes both.
        """
        return False

    @property
    def quadratic(self) -> bool:
        """Whether the time of a value grows with the product of the two lengths."""
        once, twice = (self.cost(length, length)[0] for length in (np.array([1000]), np.array([2000])))
        return bool(twice > 3 * once)

    def contributions(
        self,
        rows: KernelRows,
        documents: Documents,
        coef: NDArray[np.float64],
        values: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> Contributions:
        """What of sum_i coef[d, i] k(support_i, documents[d]) comes from which symbols, by `attribution`.

        Parameters
        ----------
        rows : KernelRows
            Of the support vectors, on the CPU.
        documents : Documents
            Over an extension of their alphabet.
        coef, values : float64 arrays, shape (len(documents), n_sv)
            Coefficients, and kernel values with the support vectors.
        """
        return occlusion(rows.decision, documents, coef, progress)

    def contributions_cost(
        self, lengths: NDArray[np.int64], support_lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Seconds that a core is predicted to take for `contributions` to each document, roughly."""
        return PIECES * self.cost(lengths, support_lengths)

    def against(self, documents: Documents, device: Device) -> KernelRows:
        """Deprecated name of `rows`."""
        warnings.warn("Kernel.against is called rows now", DeprecationWarning, stacklevel=2)
        return self.rows(documents, device)

    def as_dict(self) -> dict[str, Any]:
        """Its name and parameters, JSON values but for arrays: the form that is saved and printed."""
        return {"name": self.name, **self.get_params(deep=False)}

    @property
    def key(self) -> Hashable:
        """Equal for kernels of equal values, learnt from the same documents."""
        # Different functions of tokens may look alike in print.
        return (f"{type(self)} {self.as_dict()}", self.views) if self.comparable else id(self)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays learnt by `fit`, to be saved with a model."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back what `state` gave."""


class SymbolKernel(Kernel):
    """A kernel of symbols, its parameters `tokens` and `keep_case` saying what they are.

    Parameters
    ----------
    tokens : {"characters", "words", "whitespace", "blosum62"} or callable
        What one symbol is, see `textsvm.tokens.tokenise`.
    keep_case : bool
        Tell upper and lower case apart, which the normal form of texts does not.
    """

    tokens: Tokens
    keep_case: bool

    @property
    def view(self) -> View:
        return View(self.tokens, bool(self.keep_case))

    def check(self) -> None:
        check_tokens(self.tokens)
        if not isinstance(self.keep_case, bool | np.bool_):
            raise InputError(f"keep_case={self.keep_case!r} of the {self.name} kernel must be True or False")

    def copied(self, name: str, value: Any) -> Any:
        # A function of tokens stays the one it is: documents are known by it.
        return value if name == "tokens" else super().copied(name, value)
