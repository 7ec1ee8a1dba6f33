"""Texts, compared by a string kernel.

Documents as arrays of a model file, and back: everything is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Kernel, Predictor
from textsvm.kernels.combined.rows import under
from textsvm.kernels.spelling import approximated, make_kernel, spell
from textsvm.kernels.user import KernelFunction
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, StageProgress, of_stage, part
from textsvm.sources.base import Kept, Source
from textsvm.text.documents import Documents, View, Views, encode, encode_as
from textsvm.text.encoding import Reading
from textsvm.text.normal_form import NORMALISATIONS, normal_form
from textsvm.text.stored import StoredTexts
from textsvm.text.tokens import SINGLE


def arrays_of(documents: Documents) -> dict[str, NDArray[Any]]:
    """Documents as they are saved; tokens one after the other, in UTF-8."""
    arrays = {"codes": documents.codes, "offsets": documents.offsets}
    if not documents.of_tokens:
        return arrays | {"alphabet": documents.alphabet}
    tokens = [token.encode("utf-8", "surrogatepass") for token in documents.alphabet]
    starts = np.concatenate([[0], np.cumsum([len(token) for token in tokens])]).astype(np.int64)
    return arrays | {"tokens": np.frombuffer(b"".join(tokens), np.uint8), "token_starts": starts}


def documents_from(arrays: dict[str, NDArray[Any]], prefix: str, tokens: bool) -> Documents:
    """Saved documents, every code and offset checked.

    Raises
    ------
    InputError, KeyError or ValueError
        If they are damaged.
    """
    codes, offsets = arrays[prefix + "codes"], arrays[prefix + "offsets"]
    if codes.ndim != 1 or codes.dtype not in (np.uint8, np.uint16, np.uint32):
        raise InputError("its symbol codes are not one row of small unsigned integers")
    _check_offsets(offsets, len(codes), "document")
    alphabet: NDArray[Any] = (
        _token_alphabet(arrays[prefix + "tokens"], arrays[prefix + "token_starts"])
        if tokens
        else _character_alphabet(arrays[prefix + "alphabet"])
    )
    if len(codes) and codes.max() >= len(alphabet):
        raise InputError("it has symbols outside its alphabet")
    return Documents(codes, offsets, alphabet)


def _character_alphabet(alphabet: NDArray[Any]) -> NDArray[np.uint32]:
    if alphabet.ndim != 1 or alphabet.dtype != np.uint32:
        raise InputError("its alphabet is not one row of code points")
    if len(alphabet) and (alphabet.max() > 0x10FFFF or len(np.unique(alphabet)) != len(alphabet)):
        raise InputError("its alphabet has symbols that are no code points, or one twice")
    return alphabet


def _token_alphabet(text: NDArray[Any], starts: NDArray[Any]) -> NDArray[np.object_]:
    if text.ndim != 1 or text.dtype != np.uint8:
        raise InputError("its tokens are not one row of bytes")
    _check_offsets(starts, len(text), "token")
    data, bounds = text.tobytes(), starts.tolist()
    # A UnicodeDecodeError is a ValueError, which a damaged file may raise.
    tokens = [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]
    if len(set(tokens)) != len(tokens):
        raise InputError("its alphabet has a token twice")
    return np.array([None, *tokens], object)[1:]


def _check_offsets(offsets: NDArray[Any], size: int, of: str) -> None:
    if offsets.ndim != 1 or offsets.dtype != np.int64 or len(offsets) < 1:
        raise InputError(f"its {of} offsets are not one row of 64-bit integers")
    if offsets[0] != 0 or offsets[-1] != size or (offsets[1:] < offsets[:-1]).any():
        raise InputError(f"its {of} offsets are out of bounds")


#: Arrays of a saved kernel's state are named so.
_STATE = "kernel."
#: And those of machines that are weights of features, so.
_WEIGHTS = "weights."
#: How far rounding may move a value, of a normalised kernel, in a model without texts.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class TextForm:
    """How texts become documents; see `textsvm.SVC`."""

    normalise: str = "unicode"
    punctuation: bool = True
    max_length: int | None = None


class TextSource(Source):
    """Texts that are normalised, encoded and compared by a kernel.

    Parameters
    ----------
    kernel : Kernel, str or callable
        As `textsvm.SVC` takes it.
    form : TextForm
    landmarks : int, optional
        Of the Nystroem approximation of the kernel, which is compared with in its place.
    """

    def __init__(
        self, kernel: Kernel | KernelFunction | str, form: TextForm, landmarks: int | None = None
    ) -> None:
        self.kernel, self._form, self._landmarks = kernel, form, landmarks

    @property
    def form(self) -> Hashable:
        """See `Source`."""
        return self._form

    def check(self) -> None:
        """See `Source`."""
        self.make_kernel().check()
        if self._form.normalise not in NORMALISATIONS:
            raise InputError(f"normalise={self._form.normalise!r} is not one of {', '.join(NORMALISATIONS)}")
        if not isinstance(self._form.punctuation, bool | np.bool_):
            raise InputError(f"punctuation={self._form.punctuation!r} must be True or False")
        length = self._form.max_length
        whole = isinstance(length, int | np.integer) and not isinstance(length, bool)
        if length is not None and not (whole and 0 < length < 1 << 63):
            raise InputError(f"max_length={length!r} must be a whole number above 0, or None")

    def tag(self, input_tags: Any) -> None:
        """See `Source`."""
        input_tags.string, input_tags.two_d_array, input_tags.pairwise = True, False, False

    def make_kernel(self) -> Kernel:
        """A fresh kernel with the parameters of the one given.

        Raises
        ------
        InputError
            If it is nothing that a kernel can be made from.
        """
        return make_kernel(self.kernel)

    def read(self, X: Any, machine: Any, fitting: bool = True) -> list[str]:
        """See `Source`."""
        return as_texts(X)

    def prepare(
        self, given: list[str], known: Documents | Views | None = None, progress: StageProgress | None = None
    ) -> Documents | Views:
        """See `Source`; documents of one view, or `Views` where parts of the kernel have several."""
        return self._encoded(given, self.make_kernel().views, known, progress)

    def prepare_for(
        self, sources: Sequence[Source], given: list[str], progress: StageProgress | None = None
    ) -> Documents | Views:
        """See `Source`."""
        kernels = [source.make_kernel() for source in sources if isinstance(source, TextSource)]
        views = tuple(dict.fromkeys(view for kernel in kernels for view in kernel.views))
        return self._encoded(given, views, None, progress)

    def _encoded(
        self,
        given: list[str],
        views: Sequence[View],
        known: Documents | Views | None,
        progress: StageProgress | None,
    ) -> Documents | Views:
        cases = list(dict.fromkeys(view.keep_case for view in views))
        step, n = of_stage(progress, "encode"), len(given)
        characters = {}
        for number, case in enumerate(cases):
            same = (
                None if known is None or View(keep_case=case) not in views else known.of(View(keep_case=case))
            )
            characters[case] = self._characters(given, case, same, part(step, number * n, n, len(cases) * n))
        made = {
            view: encode_as(
                characters[view.keep_case], view.tokens, None if known is None else known.of(view)
            )
            for view in views
        }
        return self._together(made)

    def _together(self, views: dict[View, Any]) -> Any:
        """Examples of several views, or of one."""
        return Views(views) if len(views) > 1 else next(iter(views.values()))

    def _characters(
        self, given: list[str], keep_case: bool, known: Documents | None, progress: Progress | None
    ) -> Documents:
        """The characters of texts in their normal form."""
        form = self._form
        reading = Reading(normal_form(form.normalise, form.punctuation, keep_case), form.max_length)
        return encode(given, None if known is None else known.alphabet, reading, progress)

    def kernel_for(self, examples: Documents | Views) -> Kernel:
        """See `Source`."""
        kernel = self.make_kernel()
        for view in kernel.views:
            read = examples.of(view)
            if isinstance(read, Documents) and read.of_tokens and not read.lengths.any():
                where = f" in column {view.column!r}" if view.column else ""
                raise InputError(
                    f"no document has any token{where} (tokens={view.tokens!r}); take characters, or give "
                    "other documents"
                )
        for leaf in kernel.leaves:
            longest = int(leaf.read(examples).lengths.max())
            if longest < leaf.min_length:
                which = "" if leaf is kernel else f" of its part {spell(leaf)}"
                raise InputError(
                    f"every document is shorter than p = {leaf.min_length}{which} (the longest has {longest} "
                    "symbols); lower p or give longer documents"
                )
        return approximated(kernel, self._landmarks, len(examples))

    def memory(self, wished: int | str | None, n: int, device: Device) -> int | str | None:
        """See `Source`."""
        return wished

    def keep(self, kernel: Kernel, examples: Documents | Views, support: NDArray[np.int64]) -> Kept:
        """See `Source`; of the views that examples have, those that the kernel reads."""
        return Kept(support, kernel, examples.only(kernel.views).take(support))

    def require_weights(self) -> None:
        """See `Source`."""
        kernel = self.make_kernel()
        if not kernel.has_weights:
            whose = "support vectors'" if self._landmarks is None else "landmarks'"
            raise InputError(
                f"a model of {spell(kernel)} cannot do without its {whose} texts: spectrum kernels and sums "
                "of them can"
            )

    def without_texts(self, kept: Kept, coef: NDArray[np.float64]) -> Kept:
        """See `Source`."""
        if kept.weights is not None:
            return kept
        self.require_weights()
        kernel, support = kept.kernel, cast("Any", kept.documents)
        assert kernel is not None
        assert support is not None
        alphabets: Any = support.take(np.empty(0, np.int64))
        weights = kernel.weight_vectors(kernel.read(support), coef)
        return Kept(kept.support[:0], kernel, alphabets, None, weights)

    def others(self, given: list[str], kept: Kept) -> Documents | Views:
        """See `Source`."""
        assert kept.documents is not None
        return self.prepare(given, cast("Any", kept.documents))

    def predictor(self, kept: Kept, coef: NDArray[np.float64], device: Device) -> Predictor:
        """See `Source`."""
        if kept.weights is not None:
            return kept.weights.predictor(device)
        assert kept.kernel is not None
        documents: Any = kept.documents
        return kept.kernel.predictor(documents, coef, device)

    def state(self, kept: Kept) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """See `Source`."""
        kernel, documents = kept.kernel, cast("Any", kept.documents)
        assert kernel is not None
        assert documents is not None
        if any(leaf.bare.name not in KERNELS for leaf in kernel.leaves):
            raise InputError(
                "a model with a kernel function cannot be saved, for a file holds no code; train it again "
                "where it is needed, or save the model of a precomputed kernel matrix"
            )
        if any(callable(view.tokens) for view in kernel.views):
            raise InputError(
                "a model with a function of tokens cannot be saved, for a file holds no code; train it again "
                "where it is needed, or save the model of a precomputed kernel matrix"
            )
        _require_bounds(kernel, documents)
        arrays: dict[str, NDArray[Any]] = {}
        for prefix, view in _named(kernel.views):
            arrays |= {prefix + name: array for name, array in self._pack(documents.of(view)).items()}
        if kept.weights is not None:  # they hold what the kernel learnt
            state = {_WEIGHTS + name: array for name, array in kept.weights.state(TOLERANCE).items()}
            return kernel.as_dict(), arrays | state
        arrays |= {_STATE + name: array for name, array in kernel.state().items()}
        return kernel.as_dict(), arrays

    def restore(
        self, n_features: int | None, support: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> Kept:
        """See `Source`."""
        kernel = self.make_kernel()
        views = {
            view: self._unpack(arrays, prefix, view, len(support)) for prefix, view in _named(kernel.views)
        }
        documents = self._together(views)
        if any(len(each) != len(support) for each in views.values()):
            raise InputError("its support indices do not fit its support vectors")
        if weights := under(_WEIGHTS, arrays):
            self.require_weights()
            return Kept(support, kernel, documents, None, kernel.restore_weight_vectors(weights, documents))
        _require_bounds(kernel, documents)
        kernel.restore(under(_STATE, arrays))
        return Kept(support, kernel, documents)

    def _pack(self, documents: Any) -> dict[str, NDArray[Any]]:
        """The arrays that documents of one view are saved as."""
        return arrays_of(documents)

    def _unpack(self, arrays: dict[str, NDArray[Any]], prefix: str, view: View, n: int) -> Any:
        """The n documents of one view, from arrays whose names begin so."""
        return documents_from(arrays, prefix, tokens=view.tokens not in SINGLE)


def as_texts(X: Any) -> list[str]:
    """Read texts from a list, tuple, NumPy string or object array, or a pandas, Polars or Arrow column.

    A table of one column, and an array of shape (n, 1), are that column, for that is how scikit-learn's
    ensembles hand texts over. Those of an iterator are kept in a temporary file, one by one.

    Raises
    ------
    InputError
        If `X` is a single string, has more than one column, or holds something that is not a string; it
        says the index of the first offender.
    """
    if isinstance(X, str | bytes):
        raise InputError("expected a list of texts, got a single string; put it in a list: [text]")
    X = _only_column(X)
    if isinstance(X, Mapping) or hasattr(X, "columns") or _of_rows(X):
        raise InputError(
            "expected one column of texts, got a table; select a column, or say On(column, kernel) of each "
            "that is compared"
        )
    if isinstance(X, StoredTexts | Iterator):  # what a list is asked for, they can do
        return cast("list[str]", X if isinstance(X, StoredTexts) else StoredTexts.of(_checked(X)))
    if len(getattr(X, "shape", (0,))) > 1:
        raise InputError(
            f"expected one column of texts, got an array of shape {tuple(X.shape)}; select a column, or take "
            "a kernel of vectors, such as Gaussian(), for rows of numbers"
        )
    try:
        texts = listed(X)
    except TypeError as error:
        raise InputError(f"expected a list of texts, got {type(X).__name__}") from error
    if not isinstance(texts, list):
        raise InputError(f"expected a list of texts, got {type(X).__name__} of one value; put it in a list")
    of_other_types = set(map(type, texts)) - {str}
    for i, text in enumerate(texts if of_other_types else ()):
        if not isinstance(text, str):
            raise _no_text(i, text)
    return texts


def _only_column(X: Any) -> Any:
    """The column of a table or of an array of strings that has one; anything else as it is."""
    if hasattr(X, "columns") and hasattr(X, "__len__") and len(X.columns) == 1:
        return X[getattr(X, "column_names", X.columns)[0]]
    of_strings = isinstance(X, np.ndarray) and X.dtype.kind in "OTU"
    return X[:, 0] if of_strings and X.ndim == 2 and X.shape[1] == 1 else X


def _of_rows(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], Mapping)


def listed(column: Any) -> Any:
    """The values of a column as Python has them, in a list; raises TypeError if it is none."""
    for convert in ("to_pylist", "to_list", "tolist"):  # Arrow; pandas and Polars; NumPy
        if hasattr(column, convert):
            return getattr(column, convert)()
    return np.asarray(column).tolist() if hasattr(column, "__array__") else list(column)


def _checked(texts: Iterable[Any]) -> Iterator[str]:
    """Texts of an iterator, or InputError where one is something else."""
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise _no_text(i, text)
        yield text


def _no_text(i: int, value: Any) -> InputError:
    if is_missing(value):
        return InputError(f"document {i} is missing, not a string; remove it or convert it with str()")
    if isinstance(value, list | tuple | np.ndarray):
        instead = "take a kernel of vectors, such as Gaussian(), for rows of numbers"
    else:
        instead = "remove it or convert it with str()"
    return InputError(f"document {i} is of type {type(value).__name__}, not a string; {instead}")


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(np.any(value != value))


def _require_bounds(kernel: Kernel, support: Documents | Views) -> None:
    """Parameters of a saved kernel are bounded by the support vectors beside them, as work is not."""
    demand = 0.0
    for leaf in kernel.leaves:
        lengths = leaf.read(support).lengths
        longest, demand = int(lengths.max(initial=0)), demand + leaf.demand(lengths)
        if len(support) and longest < leaf.min_length:
            raise InputError(
                f"its kernel needs p = {leaf.min_length:,} symbols and its longest support vector has "
                f"{longest}; lower p and train it again"
            )
    if demand > 1:
        raise InputError(
            f"the kernel {spell(kernel)} takes {demand:,.1f} times what a saved model of such texts may; "
            "lower p, or the number of masks, and train it again"
        )


def _named(views: Sequence[View]) -> list[tuple[str, View]]:
    """Views, and what the names of their arrays begin with: nothing if there is one."""
    return [(f"view_{number}." if len(views) > 1 else "", view) for number, view in enumerate(views)]
