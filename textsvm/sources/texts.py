"""Texts that a string kernel compares, and documents as checked arrays of a model file."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import AnyArray, Arrays, Floats, Ints, Json
from textsvm.errors import DamagedModel, InputError, warn_user
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Kernel, is_whole
from textsvm.kernels.combined.table import EncodedTexts
from textsvm.kernels.contract import Features, Predictor, strip_prefix
from textsvm.kernels.inputs import InputTable, TextForm, as_texts, encode_texts, table_of_texts
from textsvm.kernels.shared.counting import LONG, PANEL
from textsvm.kernels.spelling import spell
from textsvm.kernels.user import KernelFunction
from textsvm.runtime.device import Device
from textsvm.runtime.memory import LEAST_BOUND, bounded, free, trim
from textsvm.runtime.parallel import Progress, StageProgress, of_stage
from textsvm.sources.base import INDEX, FirstPrediction, KernelSource, Source, Support, check_offsets
from textsvm.text.documents import Documents, MultiView, View
from textsvm.text.encoding import code_type
from textsvm.text.normal_form import NORMALISATIONS
from textsvm.text.tokens import SINGLE

#: A file has an index if the first prediction without it takes more than so many seconds or bytes.
MOST_SECONDS, MOST_BYTES = 0.85, 250_000_000
#: Symbols, times lengths and machines, from which an index is made in memory, for so many support vectors
#: (five times as many with 16 machines); symbols from which texts are compressed.
LEAST_COUNTED, FEW_VECTORS = 1 << 22, 200
#: Most bytes of an index, predicted from a sample of as many symbols.
MOST_INDEX, SAMPLE = 1 << 28, 1 << 20
#: Bytes of an entry in the index, of an entry of a term while it is made, and of a symbol that is counted.
BYTES, MAKING, COUNTING = 3, 16, 32
MOST_TIMES = 1100  #: Most compressed symbols per byte.


class PackedDocuments(Documents):
    """Documents from a file that decompress their codes, of type `code_type`, when these are first read."""

    def __getattr__(self, name: str) -> AnyArray:
        if name != "codes":
            raise AttributeError(name)
        dtype, n = np.dtype(code_type(len(self.alphabet))), int(self.offsets[-1])
        with suppress(zlib.error, ValueError):
            data = zlib.decompressobj().decompress(vars(self)["packed"], n * dtype.itemsize + 1)
            codes = np.frombuffer(data, dtype)
            if len(codes) == n and codes.max(initial=0) < max(1, len(self.alphabet)):
                return vars(self).setdefault("codes", codes)
        raise DamagedModel("the texts of the model are damaged; train it again")


def arrays_of(documents: Documents, compressed: bool = False) -> Arrays:
    """Arrays to save documents; tokens are concatenated in UTF-8."""
    arrays: Arrays = {"offsets": documents.offsets}
    if isinstance(documents, PackedDocuments):
        arrays["packed"] = vars(documents)["packed"]
    elif compressed:
        codes = documents.codes.astype(code_type(len(documents.alphabet)))
        arrays["packed"] = np.frombuffer(zlib.compress(codes), np.uint8)
    else:
        arrays["codes"] = documents.codes
    if not documents.of_tokens:
        return arrays | {"alphabet": documents.alphabet}
    tokens = [token.encode("utf-8", "surrogatepass") for token in documents.alphabet]
    starts = np.concatenate([[0], np.cumsum([len(token) for token in tokens])]).astype(np.int64)
    return arrays | {"tokens": np.frombuffer(b"".join(tokens), np.uint8), "token_starts": starts}


def documents_from(arrays: Arrays, prefix: str, tokens: bool) -> Documents:
    """Documents from saved arrays; every code and offset is checked, compressed codes when they are read."""
    offsets = arrays[prefix + "offsets"]
    if tokens:
        alphabet: AnyArray = _token_alphabet(arrays[prefix + "tokens"], arrays[prefix + "token_starts"])
    else:
        alphabet = _character_alphabet(arrays[prefix + "alphabet"])
    if prefix + "packed" in arrays:
        check_offsets(offsets, int(offsets[-1]) if offsets.size else 0, "document")
        packed, documents = arrays[prefix + "packed"], object.__new__(PackedDocuments)
        if packed.ndim != 1 or packed.dtype != np.uint8 or offsets[-1] > MOST_TIMES * len(packed):
            raise InputError("its compressed texts do not fit their lengths")
        state = {"characters": None, "classes": None, "alphabet": alphabet}
        vars(documents).update(state, packed=packed, offsets=offsets)
        return documents
    codes = arrays[prefix + "codes"]
    if codes.ndim != 1 or codes.dtype not in (np.uint8, np.uint16, np.uint32):
        raise InputError("its symbol codes are not a row of small unsigned integers")
    check_offsets(offsets, len(codes), "document")
    if len(codes) and codes.max() >= len(alphabet):
        raise InputError("it has symbols outside its alphabet")
    return Documents(codes, offsets, alphabet)


def _character_alphabet(alphabet: AnyArray) -> NDArray[np.uint32]:
    if alphabet.ndim != 1 or alphabet.dtype != np.uint32:
        raise InputError("its alphabet is not a row of code points")
    # `np.unique` would import numpy.ma, 25 ms of the start of a prediction.
    points = np.sort(alphabet)
    if len(points) and (points[-1] > 0x10FFFF or (points[1:] == points[:-1]).any()):
        raise InputError("its alphabet has invalid code points, or a code point twice")
    return alphabet


def _token_alphabet(text: AnyArray, starts: AnyArray) -> NDArray[np.object_]:
    if text.ndim != 1 or text.dtype != np.uint8:
        raise InputError("its tokens are not a row of bytes")
    check_offsets(starts, len(text), "token")
    data, bounds = text.tobytes(), starts.tolist()
    # A UnicodeDecodeError is a ValueError, which a damaged file may raise.
    tokens = [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]
    if len(set(tokens)) != len(tokens):
        raise InputError("its alphabet has a token twice")
    return np.array([None, *tokens], object)[1:]


class TextSource(KernelSource):
    """Texts that are normalised in a form, encoded and compared by a kernel."""

    def __init__(self, kernel: Kernel | KernelFunction | str, form: TextForm) -> None:
        super().__init__(kernel)
        self._form = form

    @property
    def form(self) -> Hashable:
        return self._form

    def check(self) -> None:
        super().check()
        if self._form.normalise not in NORMALISATIONS:
            raise InputError(f"normalise={self._form.normalise!r} is not one of {', '.join(NORMALISATIONS)}")
        if not isinstance(self._form.punctuation, bool | np.bool_):
            raise InputError(f"punctuation={self._form.punctuation!r} must be True or False")
        length = self._form.max_length
        if length is not None and not (is_whole(length) and length > 0):
            raise InputError(f"max_length={length!r} must be a whole number above 0, or None")

    def tag(self, input_tags: Any) -> None:
        input_tags.string, input_tags.two_d_array, input_tags.pairwise = True, False, False

    def validate(self, X: Any, n_features: int | None = None) -> Any:
        table = table_of_texts(X) if self.chooses else None
        return as_texts(X) if table is None else table

    @property
    def chooses(self) -> bool:
        """Whether a classifier chooses the kernel, on a table as well."""
        return isinstance(self.kernel, str) and self.kernel in ("auto", "fast")

    def encode(self, examples: Any, alphabets: Any = None, progress: StageProgress | None = None) -> Any:
        views = self.unfitted.structure.views
        return self.encode_views(examples, views, alphabets, of_stage(progress, "encode"))

    def encode_for(self, sources: Sequence[Source], examples: Any, progress: StageProgress | None) -> Any:
        kernels = [source.unfitted for source in sources if isinstance(source, TextSource)]
        views = tuple(dict.fromkeys(view for kernel in kernels for view in kernel.structure.views))
        return self.encode_views(examples, views, None, of_stage(progress, "encode"))

    def encode_test(self, examples: Any, support: Support) -> Any:
        return self.encode_views(examples, support.views, support.documents, None)

    def encode_views(
        self, examples: Any, views: Sequence[View], alphabets: Any, progress: Progress | None
    ) -> Any:
        """Documents of a single view, or `MultiView` of several; of a table the joined texts."""
        examples = examples.joined() if isinstance(examples, InputTable) else examples
        return self._together(encode_texts(examples, views, alphabets, self._form, progress))

    def _together(self, views: dict[View, Any]) -> Any:
        return MultiView(views) if len(views) > 1 else next(iter(views.values()))

    def kernel_for(self, examples: Any) -> Kernel:
        kernel = self.new_kernel()
        structure = kernel.structure
        for view in structure.views:
            documents = examples.of(view)
            if isinstance(documents, Documents) and documents.of_tokens and not documents.lengths.any():
                where = f" in column {', '.join(view.columns)!r}" if view.columns else ""
                raise InputError(
                    f"no document has any token{where} (tokens={view.tokens!r}); take characters, or give "
                    "other documents"
                )
        for leaf in structure.leaves:
            part = structure if leaf is kernel else leaf.structure
            longest, least = int(part.read(examples).lengths.max()), part.min_length
            if longest < least:
                which = "" if leaf is kernel else f" of its part {spell(leaf)}"
                raise InputError(
                    f"every document is shorter than p = {least}{which} (the longest has {longest} "
                    "symbols); lower p or give longer documents"
                )
        return kernel

    def support(self, kernel: Kernel, examples: Any, indices: Ints) -> Support:
        views = kernel.structure.views
        if len(views) == 1:
            documents = examples.of(views[0])
        else:
            documents = replace(examples, documents={view: examples.of(view) for view in views})
        return Support(indices, kernel, documents.take(indices))

    def state(self, support: Support, machines: int = 1) -> tuple[Json, Arrays]:
        kernel = support.kernel
        assert kernel is not None
        function = ""
        if any(leaf.name not in KERNELS for leaf in kernel.structure.leaves):
            function = "kernel function"
        elif any(callable(view.tokens) for view in kernel.structure.views):
            function = "function of tokens"
        elif any(view.encoder is not None and not view.encoder.digest for view in kernel.structure.views):
            function = "function as its encoder"
        if function:
            raise InputError(
                f"a model with a {function} cannot be saved, for a file holds no code; train it again "
                "where it is needed, or save the model of a precomputed kernel matrix"
            )
        _require_bounds(kernel, support.documents)
        arrays, cost = dict[str, AnyArray](), self.first_prediction(support, machines, 0, False)
        if cost is not None and (cost.seconds > MOST_SECONDS or cost.bytes > MOST_BYTES):
            support = self._indexed(support)
        compressed = bool(support.index) or int(support.documents.lengths.sum()) >= LEAST_COUNTED
        for prefix, view in _prefixed(kernel.structure.views):
            own = self._pack(support.documents.of(view), compressed)
            arrays |= {prefix + name: array for name, array in own.items()}
        for number, index in enumerate(support.index):
            arrays |= {f"{INDEX}{number}.{name}": array for name, array in index.state().items()}
        return kernel.structure.as_dict(), arrays | self._learnt_state(support)

    def restore(self, n_features: int | None, indices: Ints, arrays: Arrays) -> Support:
        kernel = self.new_kernel()
        prefixed, n = _prefixed(kernel.structure.views), len(indices)
        views = {view: self._unpack(arrays, prefix, view, n) for prefix, view in prefixed}
        if any(len(documents) != len(indices) for documents in views.values()):
            raise InputError("its support indices do not fit its support vectors")
        support = Support(indices, kernel, self._together(views))
        _require_bounds(kernel, support.documents)
        support, states = self._restore_learnt(support, arrays), strip_prefix(INDEX, arrays)
        index = [
            term.features.index(term.structure.read(support.documents), strip_prefix(f"{k}.", states))
            for k, (_, term) in enumerate(kernel.structure.terms if states else ())
        ]
        return replace(support, index=index)

    def predictor(self, support: Support, coef: Floats, device: Device) -> Predictor:
        n, machines = len(support.indices), coef.shape[0]
        if device.kind == "cpu" and _prefers_index(n, machines, _occurrences(support)):
            support = self._indexed(support)
        return super().predictor(support, coef, device)

    def first_prediction(
        self, support: Support, machines: int, size: int, mapped: bool
    ) -> FirstPrediction | None:
        n, occurrences = len(support.indices), _occurrences(support)
        if not occurrences or not n:
            return None
        if mapped:
            return FirstPrediction.mapped(size, occurrences // n)
        machines = 0 if _prefers_index(n, machines, occurrences) else machines
        return FirstPrediction.counted(size, n, occurrences // n, machines)

    def _indexed(self, support: Support) -> Support:
        """Add an index of the support vectors if the kernel has such indexes and there is room."""
        terms, lengths = _terms(support), support.documents.lengths
        if support.index or not terms:
            return support
        sample = np.arange(0, len(lengths), 1 + int(lengths.sum()) // SAMPLE)
        times = float(lengths.sum() / lengths[sample].sum())
        entries = [times * len(features.count(own.take(sample)).counts.features) for features, own in terms]
        if BYTES * sum(entries) > MOST_INDEX:
            return support
        trim()
        symbols = min(int(lengths.sum()), max(PANEL, LONG * len(lengths)))
        if MAKING * max(entries) + COUNTING * symbols > free():
            counts = "each new process counts them before its first prediction; free memory, and train again"
            warn_user(f"too little memory is free for an index of support vectors, so {counts}", UserWarning)
            return support
        with bounded(LEAST_BOUND):  # so that panels are small
            index = [features.index(own) for features, own in terms]
        return support if None in index else replace(support, index=index)

    def _pack(self, documents: Any, compressed: bool) -> Arrays:
        """Arrays to save documents of a single view."""
        if isinstance(documents, EncodedTexts):
            return arrays_of(documents.characters) | {"vectors": documents.values}
        return arrays_of(documents, compressed)

    def _unpack(self, arrays: Arrays, prefix: str, view: View, n: int) -> Any:
        """n documents of a view from the arrays with this prefix."""
        documents = documents_from(arrays, prefix, tokens=view.tokens not in SINGLE)
        if view.encoder is None:
            return documents
        vectors = arrays[prefix + "vectors"]
        if vectors.ndim != 2 or vectors.dtype != np.float32 or len(vectors) != len(documents):
            raise InputError("the vectors of its encoder are not as many as its support vectors")
        if not np.isfinite(vectors).all():
            raise InputError("the vectors of its encoder are not finite numbers")
        return EncodedTexts(vectors, (), documents, view.encoder)


def _terms(support: Support) -> list[tuple[Features, Any]]:
    """Features and documents of each term of a kernel that has an index; none of other models."""
    kernel: Any = support.kernel
    pairs = () if support.weights is not None else kernel.structure.terms
    terms = [(term.features, term.structure.read(support.documents)) for _, term in pairs]
    return terms if all(features is not None and features.has_index for features, _ in terms) else []


def _occurrences(support: Support) -> int:
    """Occurrences of features in the support vectors; 0 for a kernel without an index."""
    return sum(int(features.occurrences(own.lengths).sum()) for features, own in _terms(support))


def _prefers_index(vectors: int, machines: int, occurrences: int) -> bool:
    """Whether an index in memory is smaller than a weight of each machine for each substring, and as fast."""
    few = vectors <= FEW_VECTORS * min(5, 1 + machines // 4)
    return few and occurrences * machines >= LEAST_COUNTED


def _require_bounds(kernel: Kernel, support: Documents | MultiView) -> None:
    """Bound the cost of a saved kernel by that of its support vectors, against hostile files."""
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


def _prefixed(views: Sequence[View]) -> list[tuple[str, View]]:
    """MultiView with the prefixes of the names of their arrays; the prefix of a single view is empty."""
    return [(f"view_{number}." if len(views) > 1 else "", view) for number, view in enumerate(views)]
