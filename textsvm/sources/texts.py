"""Texts, compared by a string kernel.

Documents as arrays of a model file, and back: everything is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Kernel
from textsvm.kernels.contract import Predictor, under
from textsvm.kernels.given import approximated, as_kernel
from textsvm.kernels.inputs import TextForm, as_texts, encode_texts
from textsvm.kernels.spelling import spell
from textsvm.kernels.user import KernelFunction
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import StageProgress, of_stage
from textsvm.sources.base import Kept, Source
from textsvm.text.documents import Documents, View, Views
from textsvm.text.normal_form import NORMALISATIONS
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
    """Saved documents, every code and offset checked."""
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
        """A fresh kernel with the parameters of the one given."""
        return as_kernel(self.kernel)

    def read(self, X: Any, machine: Any, fitting: bool = True) -> list[str]:
        """See `Source`."""
        return as_texts(X)

    def prepare(
        self, given: list[str], known: Documents | Views | None = None, progress: StageProgress | None = None
    ) -> Documents | Views:
        """See `Source`; documents of one view, or `Views` where parts of the kernel have several."""
        return self._encoded(given, self.make_kernel().structure.views, known, progress)

    def prepare_for(
        self, sources: Sequence[Source], given: list[str], progress: StageProgress | None = None
    ) -> Documents | Views:
        """See `Source`."""
        kernels = [source.make_kernel() for source in sources if isinstance(source, TextSource)]
        views = tuple(dict.fromkeys(view for kernel in kernels for view in kernel.structure.views))
        return self._encoded(given, views, None, progress)

    def _encoded(
        self,
        given: list[str],
        views: Sequence[View],
        known: Documents | Views | None,
        progress: StageProgress | None,
    ) -> Documents | Views:
        return self._together(encode_texts(given, views, known, self._form, of_stage(progress, "encode")))

    def _together(self, views: dict[View, Any]) -> Any:
        """Examples of several views, or of one."""
        return Views(views) if len(views) > 1 else next(iter(views.values()))

    def kernel_for(self, examples: Documents | Views) -> Kernel:
        """See `Source`."""
        kernel = self.make_kernel()
        for view in kernel.structure.views:
            read = examples.of(view)
            if isinstance(read, Documents) and read.of_tokens and not read.lengths.any():
                where = f" in column {view.column!r}" if view.column else ""
                raise InputError(
                    f"no document has any token{where} (tokens={view.tokens!r}); take characters, or give "
                    "other documents"
                )
        for leaf in kernel.structure.leaves:
            longest, least = int(leaf.structure.read(examples).lengths.max()), leaf.structure.min_length
            if longest < least:
                which = "" if leaf is kernel else f" of its part {spell(leaf)}"
                raise InputError(
                    f"every document is shorter than p = {least}{which} (the longest has {longest} "
                    "symbols); lower p or give longer documents"
                )
        return approximated(kernel, self._landmarks, len(examples))

    def memory(self, wished: int | str | None, n: int, device: Device) -> int | str | None:
        """See `Source`."""
        return wished

    def keep(self, kernel: Kernel, examples: Documents | Views, support: NDArray[np.int64]) -> Kept:
        """See `Source`; of the views that examples have, those that the kernel reads."""
        return Kept(support, kernel, examples.only(kernel.structure.views).take(support))

    def require_weights(self) -> None:
        """See `Source`."""
        kernel = self.make_kernel()
        if kernel.features is None or not kernel.features.has_weights:
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
        weights = kernel.features.weights(kernel.structure.read(support), coef)
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
        if any(leaf.name not in KERNELS for leaf in kernel.structure.leaves):
            raise InputError(
                "a model with a kernel function cannot be saved, for a file holds no code; train it again "
                "where it is needed, or save the model of a precomputed kernel matrix"
            )
        if any(callable(view.tokens) for view in kernel.structure.views):
            raise InputError(
                "a model with a function of tokens cannot be saved, for a file holds no code; train it again "
                "where it is needed, or save the model of a precomputed kernel matrix"
            )
        _require_bounds(kernel, documents)
        arrays: dict[str, NDArray[Any]] = {}
        for prefix, view in _named(kernel.structure.views):
            arrays |= {prefix + name: array for name, array in self._pack(documents.of(view)).items()}
        if kept.weights is not None:  # they hold what the kernel learnt
            state = {_WEIGHTS + name: array for name, array in kept.weights.state(TOLERANCE).items()}
            return kernel.structure.as_dict(), arrays | state
        arrays |= {_STATE + name: array for name, array in kernel.structure.state().items()}
        return kernel.structure.as_dict(), arrays

    def restore(
        self, n_features: int | None, support: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> Kept:
        """See `Source`."""
        kernel = self.make_kernel()
        views = {
            view: self._unpack(arrays, prefix, view, len(support))
            for prefix, view in _named(kernel.structure.views)
        }
        documents = self._together(views)
        if any(len(each) != len(support) for each in views.values()):
            raise InputError("its support indices do not fit its support vectors")
        if weights := under(_WEIGHTS, arrays):
            self.require_weights()
            restored = kernel.features.restore_weights(weights, documents)
            return Kept(support, kernel, documents, None, restored)
        _require_bounds(kernel, documents)
        kernel.structure.restore(under(_STATE, arrays))
        return Kept(support, kernel, documents)

    def _pack(self, documents: Any) -> dict[str, NDArray[Any]]:
        """The arrays that documents of one view are saved as."""
        return arrays_of(documents)

    def _unpack(self, arrays: dict[str, NDArray[Any]], prefix: str, view: View, n: int) -> Any:
        """The n documents of one view, from arrays whose names begin so."""
        return documents_from(arrays, prefix, tokens=view.tokens not in SINGLE)


def _require_bounds(kernel: Kernel, support: Documents | Views) -> None:
    """Parameters of a saved kernel are bounded by the support vectors beside them, as work is not."""
    demand = 0.0
    for leaf in kernel.structure.leaves:
        lengths, least = leaf.structure.read(support).lengths, leaf.structure.min_length
        longest, demand = int(lengths.max(initial=0)), demand + leaf.cost.demand(lengths)
        if len(support) and longest < least:
            raise InputError(
                f"its kernel needs p = {least:,} symbols and its longest support vector has "
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
