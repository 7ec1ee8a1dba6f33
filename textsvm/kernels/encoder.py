"""Kernels of vectors that an encoder computes from texts (`textsvm.text.encoders`).

    k(s, t) = <x(s) - m, x(t) - m> / c^2

where x is the vector of a text, m the mean of the vectors of the training texts, and c^2 the mean of
|x - m|^2: k(s, s) is 1 in the mean, as of the normalised kernels of strings with which it is added. A text
without tokens (x = 0) has k(s, t) = 0. The value of a machine is linear in x. With a static encoder it is the
mean of per-token weights.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import PureWindowsPath
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import Arrays, Floats, Json
from textsvm.errors import InputError
from textsvm.kernels.attribution import OCCLUSION, AttributionMethod, Attributor, Contributions, occlusion
from textsvm.kernels.base import Ability, Kernel, Structure
from textsvm.kernels.combined.on import NumberWeights, On, OnFeatures, OnStructure, Standard, StandardisedRows
from textsvm.kernels.combined.table import EncodedTexts
from textsvm.kernels.contract import FeatureTable, FeatureTerm, FeatureWeights, strip_prefix
from textsvm.kernels.vectors.kernels import Linear, LinearWeights
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import View
from textsvm.text.encoders import StaticEncoder, TextEncoder, load_encoder, without_surrogates

_STORED = "encoder."  #: Prefix of the arrays of static encoders in a model file.
_PLACES = 32  #: Names at the end of the path of an encoder by which it is looked for
TOKENS = AttributionMethod("tokens", "exact: the contributions of the tokens of the encoder")
MOST_TEXTS = 20_000  #: Support vectors whose tokens are listed
TOKEN_PREFIX = "token:"  #: Of tokens in lists of features


class EncoderStructure(OnStructure):
    """Structure of a kernel of an encoder."""

    def resolved(self) -> Any:
        kernel = self.kernel.__sklearn_clone__()
        kernel.encoder, kernel.bits, kernel.digest = kernel._loaded(), None, None
        return kernel

    def as_dict(self) -> Json:
        form = Structure.as_dict(self)
        leaf, encoder = form if self.view.column is None else form["kernel"], self.kernel.encoder
        if isinstance(encoder, TextEncoder):
            leaf |= {"encoder": encoder.reference, "digest": encoder.digest}
        return form


class EncoderFeatures(OnFeatures):
    """The numbers of the vectors as features."""

    host_only = True

    @property
    def key(self) -> Hashable:
        return self.kernel.structure.view

    def weights(self, support: Any, coef: Floats) -> Any:
        return EncoderWeights(**vars(super().weights(support, coef)), kernel=self.kernel)

    def restore_weights(self, state: Arrays, alphabets: Any) -> Any:
        return EncoderWeights(**vars(super().restore_weights(state, alphabets)), kernel=self.kernel)


@dataclass(frozen=True)
class EncoderWeights(NumberWeights):
    """`Weights` of a kernel of an encoder."""

    kernel: Any

    @property
    def tokens(self) -> FeatureWeights:
        """Weights of the tokens; InputError unless the encoder is static."""
        encoder, linear = self.kernel.encoder, self.weights
        if not isinstance(encoder, StaticEncoder):
            raise InputError(
                f"the encoder {encoder.name} has no weights of tokens to export; take a static one"
            )
        assert isinstance(linear, LinearWeights)
        ids, by_number = encoder.vocabulary, (linear.weights / self.standard.scale).T
        weights = (encoder.embeddings[[*ids.values()]] - self.standard.mean) @ by_number
        return FeatureWeights("tokens", np.array([*ids], object).__getitem__, weights, self.kernel)

    def named(self, examples: Any) -> list[FeatureWeights]:
        if not isinstance(encoder := self.kernel.encoder, StaticEncoder):
            return super().named(examples)
        texts = without_surrogates(self.kernel.structure.read(examples).characters)
        first = [texts.text(i) for i in range(min(len(texts), MOST_TEXTS))]
        used = {token for tokens in encoder.tokenise(first) for token in tokens}
        in_texts = np.isin([*encoder.vocabulary.values()], [*used]) if used else None
        return [replace(self.tokens, in_texts=in_texts)]

    def predictor(self, device: Device) -> Any:
        return EncoderPredictor(self.weights.predictor(device), self.standard, self.kernel)


class EncoderPredictor(StandardisedRows):
    """Prediction with a weight for each number of a vector, or for each token."""

    def __init__(self, rows: Any, standard: Standard, kernel: Any) -> None:
        super().__init__(rows, standard)
        self._kernel = kernel

    def feature_terms(self, examples: Any) -> list[FeatureTerm]:
        """All that prediction needs, for export; InputError without weights of tokens."""
        kernel = self._kernel
        tokens = EncoderWeights(LinearWeights(self._rows.weights), self._standard, kernel).tokens
        place, numbers = np.zeros((1, 1), int), np.arange(len(tokens.weights))
        names, codes = tokens.names(numbers), numbers[:, None]
        rows = np.ones(len(codes), np.int64)
        table = FeatureTable(place, 1, np.ones(1), 1, codes, None, rows, tokens.weights)
        return [FeatureTerm(kernel, kernel.structure.view, names, "count", False, [table], mean=True)]

    def contributions(self, others: Any, mixes: Floats) -> Contributions:
        if not isinstance(self._kernel.encoder, StaticEncoder):
            return occlusion(lambda texts, mix: self.values(texts) @ mix, others, mixes)
        return _token_contributions(self._standard, others, mixes @ self._rows.weights)


def _token_contributions(standard: Standard, texts: EncodedTexts, weights: Floats) -> Contributions:
    """Contributions of tokens, and of words as features, by weights of standardised numbers, (n, d).

    Each of the n tokens of a text adds its standardised vector times the weights, divided by n.
    """
    symbols, features = [], []
    for d, by_number in enumerate(weights / standard.scale):
        text = texts.shown(d)
        share, spans = np.zeros(len(text)), texts.encoder.spans(text)
        totals: dict[str, list[float]] = {}
        for _, word in groupby(spans, key=lambda span: span[1]):
            ids, _, firsts, ends = zip(*word, strict=True)
            values = (texts.encoder.embeddings[[*ids]] - standard.mean) @ by_number / len(spans)
            for value, first, end in zip(values, firsts, ends, strict=True):
                share[first:end] += value / (end - first)
            name = f"{TOKEN_PREFIX}{text[firsts[0] : ends[-1]].strip()}"
            totals.setdefault(name, []).append(float(values.sum()))
        symbols.append(share)
        features.append([(name, len(values), sum(values)) for name, values in totals.items()])
    return Contributions(symbols, features)


class EncoderAttributor(Attributor):
    """Attribution by the tokens of a static encoder; occlusion for other encoders."""

    @property
    def method(self) -> AttributionMethod:  # type: ignore[override]
        return TOKENS if isinstance(self.kernel.encoder, StaticEncoder) else OCCLUSION

    def contributions(
        self, rows: Any, documents: Any, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        if not isinstance(self.kernel.encoder, StaticEncoder):
            return super().contributions(rows, documents, coef, values, progress)
        texts = self.kernel.structure.read(documents)
        return _token_contributions(self.kernel.standard_, texts, coef @ rows.documents.values)


class Encoder(On):
    """Product of the vectors that an encoder computes from two texts, centred and scaled.

    Parameters
    ----------
    encoder : str or callable
        Folder of an encoder of model2vec, sentence-transformers or ONNX, ``owner/name`` of the Hugging Face
        hub, or a function of a list of n texts that returns an array of shape (n, d).
    bits : {8} or None
        8 rounds the vectors of the tokens of a static encoder to 8 bits: a quarter of the size of float32.
    digest : str, optional
        Digest that the encoder must have.

    Examples
    --------
    >>> from textsvm import SVC, Encoder, Spectrum
    >>> def lengths(texts):
    ...     return [[len(text), text.count(" ")] for text in texts]
    >>> kernel = 2 * Spectrum(2) + Encoder(lengths)
    >>> SVC(kernel).fit(["a win", "win!", "a great loss", "loss!"], [1, 1, 0, 0]).predict(["win"]).tolist()
    [1]
    """

    name: ClassVar[str] = "encoder"
    features = Ability(EncoderFeatures)
    attribution = Ability(EncoderAttributor)

    def __init__(self, encoder: Any = "", bits: int | None = None, digest: str | None = None) -> None:
        self.encoder = encoder
        self.bits = bits
        self.digest = digest
        self.kernel = Linear()

    @property
    def structure(self) -> EncoderStructure:
        return EncoderStructure(self, View(keep_case=True, column=self._column, encoder=self.encoder))

    @property
    def _comparable(self) -> bool:
        return isinstance(self.encoder, str) or bool(self._loaded().digest)

    def _copied(self, name: str, value: object) -> Any:
        return value  # encoders and functions are not changed

    def _loaded(self) -> TextEncoder:
        self.check()
        encoder = load_encoder(self.encoder)
        if self.bits is not None:
            if not isinstance(encoder, StaticEncoder):
                raise InputError(f"bits={self.bits} needs a static encoder, and {encoder.name} is none")
            encoder = encoder.rounded()
        if self.digest not in (None, encoder.digest):
            raise InputError(
                f"the encoder {encoder.name} has the digest {encoder.digest}, and not {self.digest}: put the "
                "encoder of the training in its place, and run it by onnxruntime or PyTorch as then"
            )
        return encoder

    def predictor(self, support: Any, coef: Floats, device: Device) -> Any:
        predictor = self.kernel.predictor(self._standardised(support), coef, device)
        return EncoderPredictor(predictor, self.standard_, self)

    def check(self) -> None:
        usable = isinstance(self.encoder, str | os.PathLike) or callable(self.encoder)
        if self.encoder == "" or not usable or isinstance(self.encoder, Kernel):
            raise InputError(
                f"encoder={self.encoder!r} of the encoder kernel must be a folder, owner/name of the Hugging "
                "Face hub, or a function of a list of texts"
            )
        if self.bits not in (None, 8):
            raise InputError(f"bits={self.bits!r} of the encoder kernel must be 8 or None")


def as_encoder(encoder: object) -> Encoder:
    """A fresh kernel of a loaded encoder; `encoder` is such a kernel or its parameter."""
    kernel: Encoder = (encoder if isinstance(encoder, Encoder) else Encoder(encoder)).structure.resolved()
    return kernel


def stored_encoders(kernel: Kernel) -> Arrays:
    """Arrays of the static encoders of a kernel, for a model file."""
    arrays: Arrays = {}
    for leaf in encoders_of(kernel):
        prefix = f"{_STORED}{leaf.encoder.digest}."
        arrays |= {prefix + name: array for name, array in leaf.encoder.arrays().items()}
    return arrays


def attach_encoders(kernel: Kernel, arrays: Arrays, folder: str) -> None:
    """Give its encoders to the kernel of a model file in `folder`, which was built from the header."""
    for leaf in encoders_of(kernel):
        if stored := strip_prefix(f"{_STORED}{leaf.digest}.", arrays):
            leaf.encoder, leaf.bits = StaticEncoder(stored, str(leaf.encoder)), None  # digest: see `resolved`
        else:
            leaf.check()
            leaf.encoder = load_encoder(_moved(leaf.encoder, folder), download=False)  # opens no connection


def _moved(path: str, folder: str) -> str:
    """A path or, if it has gone, where the end of it leads from `folder` or the current folder."""
    written = PureWindowsPath(path)  # it splits the paths of all systems
    parts = written.parts[-_PLACES:]
    starts = enumerate(parts[: None if written.anchor else 1])
    ends = (os.path.join(start, *parts[k:]) for k, _ in starts for start in (folder, ""))
    return path if os.path.exists(path) else next(filter(os.path.isdir, ends), path)


def encoders_of(kernel: Kernel) -> list[Encoder]:
    """Encoder parts of a kernel, such as a sum."""
    return [part for part in [kernel, *kernel.get_params().values()] if isinstance(part, Encoder)]
