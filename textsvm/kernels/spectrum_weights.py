"""Machines of spectrum kernels kept as one weight a feature, without any support vector.

What a kernel learnt (idf, odds) is of all training documents: it weighs p-mers in k(s, s) of any document,
and so it is kept whole, and the weights are those of its p-mers: one vocabulary is for both. A kernel that
learns nothing has the p-mers of the support vectors.

A document without any feature is 1 with an equal one (normalisation.py), which no weight says; support
vectors that have no feature are left out, and the value of such a document is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.features.weight_vectors import WeightVectors, pack, sizes_of, unpack
from textsvm.features.weights import FeatureWeights, read_vocabulary
from textsvm.kernels.spectrum_features import FeatureMap, FeatureSpace, Represented, SpectrumPredictor

#: What a damaged state may raise.
_DAMAGE = (KeyError, ValueError, TypeError, IndexError, OverflowError)


@dataclass(frozen=True)
class SpectrumWeights:
    """The machines of one spectrum kernel; see `textsvm.kernels.base.Weights`.

    Attributes
    ----------
    kernel : FeatureMap
        Fitted.
    vectors : WeightVectors
    left_out : int
        Support vectors without any feature.
    """

    kernel: FeatureMap
    vectors: WeightVectors
    left_out: int = 0

    @classmethod
    def of_rows(cls, rows: Represented, coef: NDArray[np.float64]) -> SpectrumWeights:
        """From support vectors on the host; coef has shape (n_machines, n_sv)."""
        kernel, columns = rows.kernel, rows.normalisation
        dense = rows.x.transposed_dot(columns.scale[:, None] * coef.T)
        vectors = WeightVectors.of(rows.space.vocabulary, rows.space.starts, dense)
        if kernel.weighted:
            vectors = vectors.over(kernel.weights_.vocabulary)
        return cls(kernel, vectors, len(columns.featureless))

    @property
    def n_machines(self) -> int:
        """How many machines there are."""
        return self.vectors.weights.shape[1]

    def predictor(self, device: Device) -> SpectrumPredictor:
        """See `Weights`."""
        vectors = self.vectors
        space: Any = FeatureSpace(self.kernel, vectors.vocabulary, vectors.starts, vectors.row)
        weights = vectors.weights.astype(np.float64)
        if device.kind == "cpu":
            return SpectrumPredictor(device, space, weights)
        from textsvm.kernels.spectrum_cuda import CudaFeatureSpace

        with devices.use(device):
            array = devices.array_module(device).asarray(weights)
            return SpectrumPredictor(device, CudaFeatureSpace.of(space), array)

    def state(self, tolerance: float) -> dict[str, NDArray[Any]]:
        """See `Weights`."""
        kernel, vocabulary = self.kernel, self.vectors.vocabulary
        state = self.vectors.state(tolerance if kernel.normalised else 0.0, kernel.weight == "intersection")
        state |= pack(vocabulary) | {"sizes": np.array([0, vocabulary.n_symbols])}
        if not kernel.weighted:
            return state
        learnt = kernel.weights_
        df = learnt.df.astype(np.min_scalar_type(-1 - learnt.n))  # signed
        odds = {} if learnt.odds is None else {"odds": learnt.odds}
        return state | odds | {"df": df, "sizes": np.array([learnt.n, vocabulary.n_symbols])}

    @classmethod
    def from_state(
        cls, kernel: FeatureMap, state: dict[str, NDArray[Any]], alphabet: Documents
    ) -> SpectrumWeights:
        """Read and check what `state` gave, and give the kernel what it learnt.

        Raises
        ------
        InputError
            If it is damaged.
        """
        p1, p2 = kernel.lengths
        try:
            _, n_symbols = sizes_of(state, "sizes", 2)
            if n_symbols != len(alphabet.alphabet):
                raise ValueError("sizes do not match the alphabet")
            keys = unpack(state, p1, p2, n_symbols)
            vocabulary = read_vocabulary(keys, p1, p2, n_symbols)
            if kernel.weighted:
                learnt = {name: state[name] for name in ("sizes", "df", "odds") if name in state}
                kernel.weights_ = FeatureWeights.from_state(
                    keys | learnt, p1, p2, bool(kernel.idf), bool(kernel.odds)
                )
                vocabulary = kernel.weights_.vocabulary
            vectors = WeightVectors.from_state(state, vocabulary, kernel.weight == "intersection")
        except _DAMAGE as error:
            raise InputError(f"its weights are damaged ({error}); train the model again") from None
        return cls(kernel, vectors)
