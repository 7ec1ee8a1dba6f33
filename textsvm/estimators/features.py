"""The features of the spectrum kernel as a scikit-learn transformer from texts to a sparse matrix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from textsvm.arrays import runs_of
from textsvm.errors import InputError
from textsvm.estimators.base import require_columns, set_columns
from textsvm.kernels import Spectrum
from textsvm.kernels.base import is_number, is_whole
from textsvm.kernels.inputs import TextForm, as_texts
from textsvm.kernels.shared import counting as names
from textsvm.kernels.spectrum import feature_matrix as host
from textsvm.model.settings import check_jobs
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.compiled import scipy
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import StageProgress, of_stage, part
from textsvm.runtime.parameters import NamedParameters
from textsvm.sources.texts import TextSource
from textsvm.text.documents import Documents
from textsvm.text.tokens import Tokens

BATCH = 1 << 24  #: Characters of a batch of texts.


@dataclass(repr=False, eq=False)
class SpectrumFeatures(TransformerMixin, NamedParameters, BaseEstimator):
    """Transform texts to the feature map of the p-spectrum kernel: X @ X.T is the Gram of `Spectrum`.

    With ``weight="log", idf=True`` the values are equal to those of scikit-learn's ``TfidfVectorizer`` with
    ``sublinear_tf=True`` and ``analyzer="char"`` (or words, with ``tokens="words"``) on the normalised texts,
    computed in float32 on all cores or a GPU.

    Columns are the substrings of the training texts, sorted by length, then by code points. With
    ``weight="intersection"`` a substring has a column for each number of occurrences from 1 to the maximum in
    a training text, and the product of two rows is the sum of the smaller counts.

    `transform` drops substrings without a column, and normalises a row over the remaining substrings, as
    scikit-learn does; the normalisation of the kernel `Spectrum` counts all substrings. A text without known
    substrings has a row of zeros, whereas its kernel value with itself is 1.

    Parameters
    ----------
    p : int or (int, int)
        Symbols of a substring, or a range of lengths.
    weight : {"count", "presence", "intersection", "log"}
        Function of the number of occurrences c: c, 1, min(c, c'), or 1 + ln c.
    idf : bool
        Weight every substring by ln((1 + n) / (1 + df)) + 1, with "intersection" by its square root.
    normalised : bool
        Divide every row by its Euclidean length.
    tokens : {"characters", "words", "runs", "whitespace", "blosum62"} or callable
        Kind of symbols; a function maps a normalised text to its tokens.
    keep_case : bool
        Tell upper and lower case apart.
    min_df : int or float
        Least number of training texts with a substring, or their share if it is a float.
    normalise : {"unicode", "paper", "none"}
        How texts are normalised, see `textsvm.text.documents.normalise`.
    punctuation : bool
        False drops punctuation and symbols.
    max_length : int, optional
        Only the first `max_length` characters of a normalised text count. None: all of it.
    device : {"auto", "cpu", "cuda", "cuda:0", ...}
        Device that counts and weights; the matrix is in main memory in any case.
    n_jobs : int, optional
        Threads; None or -1 uses all cores.

    Attributes
    ----------
    columns_ : textsvm.kernels.spectrum.feature_matrix.FeatureColumns
        Substrings of the training texts, their document frequencies, and the starts of their columns.
    alphabet_ : uint32 array, or object array of str
        Symbols of the training texts: code points, or tokens.
    device_ : Device
        Device of the fit.

    Examples
    --------
    >>> from textsvm import SpectrumFeatures
    >>> features = SpectrumFeatures(2).fit(["banana"])
    >>> features.get_feature_names_out().tolist()
    ['an', 'ba', 'na']
    >>> print(features.transform(["bandana"]).toarray().round(4))
    [[0.8165 0.4082 0.4082]]
    """

    # A meta-estimator must not route `progress`.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}
    __metadata_request__transform: ClassVar[dict[str, str]] = {"progress": UNUSED}

    p: int | tuple[int, int] = 4
    weight: str = "count"
    idf: bool = False
    normalised: bool = True
    tokens: Tokens = "characters"
    keep_case: bool = False
    _: KW_ONLY
    min_df: float = 1
    normalise: str = "unicode"
    punctuation: bool = True
    max_length: int | None = None
    device: str = "auto"
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        self._source.tag(tags.input_tags)
        tags.transformer_tags.preserves_dtype = []  # always float32
        return tags

    @property
    def _source(self) -> TextSource:
        return TextSource(self.new_kernel(), TextForm(self.normalise, self.punctuation, self.max_length))

    def new_kernel(self) -> Spectrum:
        """The kernel with these features."""
        return Spectrum(
            self.p, self.weight, self.idf, self.normalised, tokens=self.tokens, keep_case=self.keep_case
        )

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        self._source.check()
        least = self.min_df
        whole = is_whole(least) and least >= 1
        if not whole and not (is_number(least) and not is_whole(least) and 0 <= least <= 1):
            raise InputError(
                f"min_df={least!r} must be a whole number of texts from 1, or a share of them from 0.0 to 1.0"
            )
        check_jobs(self.n_jobs)

    def fit(self, X: Any, y: Any = None, *, progress: StageProgress | None = None) -> SpectrumFeatures:
        """Learn the columns and idf weights.

        Parameters
        ----------
        X : list of str, NumPy string or object array, pandas / Polars / Arrow column
        y : ignored
        progress : callable, optional
            Called with the stage ("encode" or "features"), the work done and the total work.
        """
        self._learn(X, False, progress)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, *, progress: StageProgress | None = None
    ) -> scipy.sparse.csr_matrix:
        """Learn the columns and transform the same texts, which are counted once; parameters as of `fit`.

        Returns
        -------
        float32 scipy.sparse.csr_matrix, shape (n, number of columns)
            With sorted column indices: int32, or int64 from 2^31 entries. After
            ``set_output(transform="pandas")`` a DataFrame of sparse columns.
        """
        return self._in_container(self._learn(X, True, progress), X)

    def transform(self, X: Any, *, progress: StageProgress | None = None) -> scipy.sparse.csr_matrix:
        """Transform texts in batches, over the columns that `fit` learnt, as `fit_transform` does."""
        check_is_fitted(self)
        require_columns(self, X)
        texts, parts = as_texts(X), []
        alphabet = Documents.none(self.alphabet_)
        kernel = self.new_kernel()
        with self._at_work() as device:
            sizes = np.cumsum([0, *map(len, texts)])
            for first, last in runs_of(sizes[:-1] // BATCH) or [(0, 0)]:
                step = part(of_stage(progress, "features"), first, last - first, max(1, len(texts)))
                documents = self._source.encode(texts[first:last], alphabet)
                parts.append(_twin(device).transform(kernel, self.columns_, documents, step))
                entries = sum(matrix.nnz for matrix in parts)  # the remaining rows have as many each
                left = len(texts) - last
                host.require_memory(host.ENTRY_BYTES * entries * left // max(last, 1), len(texts))
        return self._in_container(host.stacked(parts), X)

    def _in_container(self, matrix: scipy.sparse.csr_matrix, X: Any) -> Any:
        """The matrix, or a sparse DataFrame after ``set_output(transform="pandas")``."""
        own = vars(self).get("_sklearn_output_config", {}).get("transform")
        if (own or get_config()["transform_output"]) != "pandas":
            return matrix
        pandas = import_module("pandas")
        index = X.index if isinstance(X, pandas.DataFrame | pandas.Series) else None
        return pandas.DataFrame.sparse.from_spmatrix(matrix, index, self.get_feature_names_out())

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """The substring of every column, an object array; with "intersection" also the count: "an>=2".

        `input_features` is ignored.
        """
        check_is_fitted(self)
        widths = np.diff(self.columns_.starts)
        texts, vocabulary = [np.empty(0, object)], self.columns_.learnt.vocabulary
        for codes, first in zip(names.pmer_codes(vocabulary), vocabulary.first[:-1], strict=True):
            columns = np.flatnonzero(widths[first : first + len(codes)])
            texts.append(names.pmer_texts(codes[columns], self.alphabet_))
        pmers = np.concatenate(texts)
        if self.weight != "intersection":
            return pmers
        digits = [np.arange(1, width + 1) for width in widths[widths > 0]]
        numbers = np.concatenate([np.empty(0, np.int64), *digits]).astype(str).astype(object)
        return np.repeat(pmers, widths[widths > 0]) + ">=" + numbers

    def _learn(self, X: Any, rows: bool, progress: StageProgress | None) -> Any:
        self.check()
        if not (texts := as_texts(X)):
            raise InputError("there are no documents to learn features from")
        source = self._source
        with self._at_work() as device:
            documents = source.encode(texts, None, progress)
            kernel: Any = source.kernel_for(documents)
            least = self.min_df if is_whole(self.min_df) else self.min_df * len(texts)
            step = of_stage(progress, "features")
            self.columns_, matrix = _twin(device).learn_columns(kernel, documents, least, rows, step)
        self.alphabet_, self.device_ = kernel.structure.read(documents).alphabet, device
        set_columns(self, X)
        return matrix

    @contextmanager
    def _at_work(self) -> Iterator[Device]:
        device = devices.select(self.device)
        with parallel.limit(self.n_jobs), devices.use(device):
            yield device


def _twin(device: Device) -> Any:
    """Module that builds matrices on a device."""
    if device.kind == "cuda":
        from textsvm.kernels.spectrum import cuda

        return cuda
    return host
