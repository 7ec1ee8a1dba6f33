"""Kernels of vectors that an encoder computes from texts (`textsvm.text.encoders`).

    k(s, t) = <x(s) - m, x(t) - m> / c^2

where x is the vector of a text, m the mean of the vectors of the training texts, and c^2 the mean of
|x - m|^2: k(s, s) is 1 in the mean, as of the normalised kernels of strings with which it is added. A text
without tokens (x = 0) has k(s, t) = 0. The value of a machine is linear in x: with a static encoder a mean
over the tokens of the text, a weight for each token and machine.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import Any, ClassVar

from textsvm.arrays import Arrays, Floats, Json
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.combined.on import NumberWeights, On, OnFeatures, OnStructure
from textsvm.kernels.contract import Ability, Structure, strip_prefix
from textsvm.kernels.vectors.kernels import Linear, LinearWeights
from textsvm.text.documents import View
from textsvm.text.encoders import StaticEncoder, TextEncoder, load_encoder

#: Prefix of the arrays of static encoders in a model file.
_STORED = "encoder."


class EncoderStructure(OnStructure):
    """Structure of a kernel of an encoder."""

    def resolved(self) -> Any:
        kernel = self.kernel.__sklearn_clone__()
        kernel.encoder, kernel.bits, kernel.digest = kernel._loaded(), None, None
        return kernel

    def as_dict(self) -> Json:
        form = Structure.as_dict(self)
        own, encoder = form if self.view.column is None else form["kernel"], self.kernel.encoder
        if isinstance(encoder, TextEncoder):
            own |= {"encoder": encoder.reference, "digest": encoder.digest}
        return form


class EncoderFeatures(OnFeatures):
    """The numbers of the vectors as features."""

    host_only = True

    @property
    def key(self) -> Hashable:
        return self.kernel.structure.view


class Encoder(On):
    """Product of the vectors that an encoder computes from two texts, centred and scaled.

    Parameters
    ----------
    encoder : str or callable
        Folder of an encoder, or a function of a list of n texts that returns an array of shape (n, d).
    bits : {8} or None
        8 rounds the vectors of the tokens of a static encoder to 8 bits: half of its size in a model file.
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

    def _copied(self, name: str, value: Any) -> Any:
        return value  # encoders and functions are not changed

    def _loaded(self) -> TextEncoder:
        self.check()
        encoder = load_encoder(self.encoder)
        if self.bits is not None and isinstance(encoder, StaticEncoder):
            encoder = encoder.rounded()
        if self.digest not in (None, encoder.digest):
            raise InputError(
                f"the encoder {encoder.name} has the digest {encoder.digest}, and that of the training had "
                f"{self.digest}; put the encoder of the training in its place"
            )
        return encoder

    def check(self) -> None:
        if self.encoder == "" or not (callable(self.encoder) or isinstance(self.encoder, str | os.PathLike)):
            raise InputError(
                f"encoder={self.encoder!r} of the encoder kernel must be the name of a folder, or a function "
                "of a list of texts"
            )
        if self.bits not in (None, 8):
            raise InputError(f"bits={self.bits!r} of the encoder kernel must be 8 or None")


def as_encoder(encoder: Any) -> Encoder:
    """A fresh kernel of a loaded encoder; `encoder` is such a kernel or its parameter."""
    kernel: Encoder = (encoder if isinstance(encoder, Encoder) else Encoder(encoder)).structure.resolved()
    return kernel


def token_weights(kernel: Encoder, weights: NumberWeights) -> tuple[Floats, Floats]:
    """Weight of each token, (V, n_machines), and constants, (n_machines,), of a static encoder.

    The values of the machines are the mean of the weights of the tokens of a text plus the constants, and 0
    for a text without tokens. InputError for other encoders.
    """
    encoder, own = kernel.encoder, weights.own
    if not isinstance(encoder, StaticEncoder):
        raise InputError(f"the encoder {encoder.name} has no weights of tokens to export; take a static one")
    assert isinstance(own, LinearWeights)
    by_number = (own.weights / weights.standard.scale).T
    return encoder.embeddings @ by_number, -weights.standard.mean @ by_number


def stored_encoders(kernel: Kernel) -> Arrays:
    """Arrays of the static encoders of a kernel, for a model file."""
    arrays: Arrays = {}
    for leaf in _encoders(kernel):
        prefix = f"{_STORED}{leaf.encoder.digest}."
        arrays |= {prefix + name: array for name, array in leaf.encoder.arrays().items()}
    return arrays


def attach_encoders(kernel: Kernel, arrays: Arrays) -> None:
    """Give the encoders that a model file holds to its kernel, which was built from the header."""
    for leaf in _encoders(kernel):
        if own := strip_prefix(f"{_STORED}{leaf.digest}.", arrays):
            leaf.encoder, leaf.bits = StaticEncoder(own, str(leaf.encoder)), None  # digest: see `resolved`


def _encoders(kernel: Kernel) -> list[Encoder]:
    """The kernels of encoders in a kernel."""
    return [part for part in [kernel, *kernel.get_params().values()] if isinstance(part, Encoder)]
