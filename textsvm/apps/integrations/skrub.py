"""An encoder of a column of strings for skrub: exact kernel PCA. This module does not import skrub."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from textsvm import Spectrum
from textsvm.arrays import Floats
from textsvm.errors import InputError


class KernelEncoder(TransformerMixin, BaseEstimator):
    """Columns of numbers whose products are the best approximation of a string kernel of their rank.

    The kernel matrix of the distinct strings, weighted by their frequency, is decomposed exactly, without
    centring: with all components the columns of two rows have the product k(x, y). Missing cells are "".

    Parameters
    ----------
    kernel : callable, optional
        Any string kernel without idf weights, such as `Spectrum` or `EditDistance`. None is
        ``Spectrum((1, 4), "log")``.
    n_components : int
        Largest number of columns.
    max_strings : int
        Distinct strings of the decomposition, the most frequent first. With more of them the others are
        projected (Nystroem); time grows with its cube.

    Attributes
    ----------
    strings_ : list of str
        Strings of the decomposition.
    directions_ : float64 array, shape (n_strings, n_columns)
        Kernel values with `strings_` times `directions_` are the columns.

    Examples
    --------
    >>> from skrub import TableVectorizer
    >>> from textsvm.apps.integrations.skrub import KernelEncoder
    >>> vectorizer = TableVectorizer(high_cardinality=KernelEncoder())
    """

    #: skrub gives such a transformer a single column.
    __single_column_transformer__ = True

    def __init__(
        self, kernel: Callable[[list[str], list[str]], ArrayLike] | None = None, n_components: int = 30,
        max_strings: int = 3000,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.n_components = n_components
        self.max_strings = max_strings

    def fit(self, X: Any, y: Any = None) -> KernelEncoder:
        """Learn the directions of a pandas or Polars column; `y` is ignored."""
        if self.n_components < 1 or self.max_strings < 1:
            raise InputError("n_components and max_strings must be at least 1")
        strings, counts = np.unique(_strings(X), return_counts=True)
        frequent = np.sort(np.argsort(-counts, kind="stable")[: self.max_strings])
        self.strings_, weights = strings[frequent].tolist(), np.sqrt(counts[frequent])
        self.name_ = X.name or "text"
        gram = self._values(self.strings_) * np.outer(weights, weights)
        n = len(gram)
        values, vectors = eigh(gram, subset_by_index=[max(0, n - self.n_components), n - 1])
        # Directions of eigenvalues that are rounding errors would magnify these errors.
        exact = values > n * np.finfo(np.float32).eps * values[-1]
        self.directions_ = (vectors[:, exact] * weights[:, None] / np.sqrt(values[exact]))[:, ::-1]
        return self

    def _values(self, strings: list[str]) -> Floats:
        kernel = self.kernel or Spectrum((1, 4), "log")
        return np.asarray(kernel(strings, self.strings_), np.float64)

    def transform(self, X: Any) -> Any:
        """Columns of numbers of a column of strings, as a data frame of the same library."""
        check_is_fitted(self)
        strings, where = np.unique(_strings(X), return_inverse=True)
        columns = (self._values(strings.tolist()) @ self.directions_).astype(np.float32)[where]
        table = import_module(type(X).__module__.partition(".")[0])
        options = {"index": X.index} if hasattr(X, "index") else {}
        return table.DataFrame(dict(zip(self.get_feature_names_out(), columns.T, strict=True)), **options)

    def get_feature_names_out(self, input_features: Any = None) -> list[str]:
        """Names of the columns, such as title_0; `input_features` is ignored."""
        check_is_fitted(self)
        return [f"{self.name_}_{i}" for i in range(self.directions_.shape[1])]


def _strings(X: Any) -> NDArray[np.str_]:
    return np.array(["" if cell is None or cell != cell else str(cell) for cell in X.to_list()])
