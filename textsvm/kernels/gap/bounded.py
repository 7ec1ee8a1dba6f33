"""Gap-weighted subsequence kernel of bounded span: explicit features, sums of decay^span up to span s.

    k_s(x, y) = phi_s(x) . phi_s(y),   phi_s(x)_u = sum of decay^l over the occurrences of u of span l <= s,

u runs over the strings of p symbols, an occurrence is p places i_1 < ... < i_p of x with the symbols of u,
and l = i_p - i_1 + 1. Without the bound (s at least the length of x) it is the gap-weighted kernel, with
the same exponent. There are C(s - 1, p - 1) patterns of gaps, so x has at most C(s - 1, p - 1) features per
symbol: 6, 10, 15 for s = p + 2 and p = 3, 4, 5. The recurrence takes p |x| |y| steps per pair, features take
C(s - 1, p - 1) |x| per document. Like the spectrum kernel, this kernel can be trained without a Gram, and
decides by a weight for each feature.

The omitted share
-----------------
phi = phi_s + r, and no entry of r, the sums over spans beyond s, is negative. With k(x, x) = |phi|^2 let

    e(x) = 1 - k_s(x, x) / k(x, x) = (2 phi_s . r + |r|^2) / |phi|^2

be the share of k(x, x) that is left out: the recurrence of x with itself gives it exactly.

Values: 0 <= k - k_s = r(x) . phi(y) + phi_s(x) . r(y), and |r|^2 <= e |phi|^2, so by Cauchy-Schwarz

    k_s(x, y) <= k(x, y) <= k_s(x, y) + (sqrt(e(x)) + sqrt(e(y))) sqrt(k(x, x) k(y, y)).

Normalised values K = cos(phi(x), phi(y)) and K_s: unit vectors have |ab - a'b'| <= |a - a'| + |b - b'|, and
with a along phi(x) and a' along phi_s(x), aa' >= |phi_s| / |phi| = sqrt(1 - e). Besides,
K >= k_s(x, y) / |phi(x)| |phi(y)|. So

    K_s - K <= 1 - sqrt((1 - e(x)) (1 - e(y)))                      about (e(x) + e(y)) / 2,
    K - K_s <= d(x) + d(y),   d = sqrt(2 - 2 sqrt(1 - e))            about sqrt(e(x)) + sqrt(e(y)).

Worst case of any text of N + p - 1 symbols, N > 0: each of the C(l - 2, p - 2) patterns of a span l (p > 1)
has at most N occurrences, hence a vector of counts of length at most N; that of span p has N occurrences, and
length at least sqrt(N). With T the sum of C(l - 2, p - 2) decay^(l - p) over s < l < N + p,

    |r| <= sqrt(N) T |phi_s|   and   e <= 1 - 1 / (1 + sqrt(N) T)^2                       (tested).

Typical: if no string occurred twice, squares alone would add up, and e would be the sum of
C(l - 2, p - 2) decay^(2(l - p)) over l > s, about 1e-5 for decay 0.1 and s = p + 2. In texts symbols return:
where x_i = x_(i + g), replacing x_i by x_(i + g) in an occurrence without gap gives an occurrence of the same
string with gap g, a term of first order in decay^g. On newswire of 100 symbols e is about
decay^(s - p + 1) / 2: 4.5e-4 for decay 0.1, p = 4, s = 6, and 6e-5 and 7e-6 for s = 7 and 8;
docs/choosing.md has more.

Attribution
-----------
An occurrence of u with gap g contributes decay^g w_u to phi(x) . w, spread evenly over its p symbols.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import AnyArray, Floats, Floats32, Ints
from textsvm.errors import InputError
from textsvm.kernels.attribution import Attributor, Contributions
from textsvm.kernels.base import Ability, is_whole
from textsvm.kernels.contract import CountedCost, Features, FeatureTable, FeatureTerm
from textsvm.kernels.gap import subsequences
from textsvm.kernels.gap.bounded_cuda import CudaBoundedGap, CudaCountedSubsequences, CudaSupport
from textsvm.kernels.gap.kernel import SubsequenceKernel
from textsvm.kernels.gap.recurrence import SUBSEQUENCES
from textsvm.kernels.shared import normalisation
from textsvm.kernels.shared.feature_rows import FeaturePredictor, HostFeatureRows
from textsvm.linalg.products import Half
from textsvm.linalg.rows import FeatureRows, SharedFeatures
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, report
from textsvm.text.documents import Documents

MOST_PATTERNS = 10_000  #: Patterns of occurrences; more take hours whatever the texts.
MOST_SAVED = 50_000  #: Greatest number of symbols of all patterns of a saved model.
MOST_SECONDS = 3.0  #: Greatest predicted seconds of a prediction by a saved model.
SYMBOL_SECONDS = 1e-8  #: Seconds that a core takes for a symbol of a pattern and a symbol of the texts.


class BoundedGapCost(CountedCost):
    """Cost of the gap-weighted kernel of bounded span."""

    def demand(self, lengths: Ints) -> float:
        p, span = self.kernel.p, self.kernel._span
        symbols = comb(span - 1, p - 1) * p
        return float(min(symbols / MOST_SAVED, SYMBOL_SECONDS * symbols * lengths.sum() / MOST_SECONDS))


class BoundedGapFeatures(Features):
    """Subsequences as features."""

    in_passes = True

    @property
    def key(self) -> Hashable:
        kernel = self.kernel
        return kernel.name, kernel.structure.view, kernel.p, kernel._span, kernel.decay

    def occurrences(self, lengths: Ints) -> Ints:
        return self.kernel.patterns.occurrences(lengths)

    def count(self, documents: Documents, device: Device | None = None) -> Any:
        self.kernel.check()
        on_gpu = device is not None and device.kind == "cuda"
        return (CudaCountedSubsequences if on_gpu else CountedSubsequences)(self.kernel, documents)


@njit(nogil=True, cache=True)
def _share(patterns: AnyArray, powers: AnyArray, ids: AnyArray, weights: AnyArray, shares: AnyArray) -> None:
    """Add the contributions of a document's occurrences, in the order of `ids`, to its symbols."""
    at, p = 0, patterns.shape[1]
    for m in range(len(patterns)):
        power = powers[patterns[m, p - 1] + 1 - p]
        for i in range(len(shares) - patterns[m, p - 1]):
            for k in range(p):
                shares[i + patterns[m, k]] += power * weights[ids[at]]
            at += 1


class BoundedGapAttributor(Attributor):
    """Exact attribution by the symbols of subsequences."""

    method = SUBSEQUENCES

    def contributions(
        self, rows: Any, documents: Documents, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        kernel, symbols, scale = self.kernel, [], rows.normalisation.scale
        powers = float(kernel.decay) ** np.arange(kernel.patterns.n_gaps) / kernel.patterns.p
        for d in range(len(documents)):
            document = documents.take(np.array([d]))
            weights = rows.x.transposed_dot((scale * coef[d])[:, None])[:, 0]
            own, x = subsequences.count(document, kernel.patterns, kernel.decay)
            of_own = np.append(weights, 0.0)[rows.features.find(own)]  # unknown features, -1, read the last
            shares = np.zeros(len(document.codes))
            ids = subsequences.ids_of(document, kernel.patterns, own)
            _share(kernel.patterns.offsets, powers, ids, of_own, shares)
            (factor,) = subsequences.normalisation_of(kernel, document, x.squares()).scale
            symbols.append(documents.spread(d, factor * shares))
            report(progress, d + 1, len(documents))
        return Contributions(symbols)

    def seconds(self, lengths: Ints, support_lengths: Ints) -> Floats:
        return BoundedGapCost(self.kernel).of_rows(lengths + support_lengths.sum(), np.zeros(1, np.int64))


class SubsequencePredictor(FeaturePredictor):
    """Prediction from weights of subsequences."""

    def feature_terms(self, examples: Documents) -> list[FeatureTerm]:
        """All that prediction needs, for export; `examples` have the alphabet of training."""
        kernel, features = self.space.kernel, self.space.features
        patterns: subsequences.Patterns = kernel.patterns
        values = (float(kernel.decay) ** (patterns.spans - patterns.p)).astype(np.float64)
        codes, rows = np.stack(features.strings(), axis=1), np.ones(features.size, np.int64)
        weights, span = self.dense_weights(), int(patterns.spans[-1])
        table = FeatureTable(patterns.offsets, span, values, 1, codes, None, rows, weights)
        unit, machines = float(kernel.decay) ** int(kernel.p), (kernel, self.columns, self.coef, examples)
        return [normalisation.feature_term(*machines, count="count", tables=[table], scale=unit)]


@dataclass(repr=False, eq=False)
class BoundedGap(SubsequenceKernel):
    """Common subsequences of p symbols within `span` symbols, each symbol spanned a factor of `decay`.

    Parameters
    ----------
    p : int
        Symbols of a subsequence, at least 1.
    decay : float
        In (0, 1].
    span : int, optional
        Greatest number of symbols from the first to the last of a subsequence; p + 2 by default, which for a
        decay up to 0.1 is nearly `GapWeighted`: see `textsvm.kernels.gap.bounded.left_out`.
    normalised, tokens, keep_case
        See `textsvm.Spectrum`.

    Examples
    --------
    >>> from textsvm import BoundedGap
    >>> print(BoundedGap(p=2, decay=0.5)(["cat"], ["car", "cart"]).round(4))
    [[0.4444 0.574 ]]
    """

    name: ClassVar[str] = "bounded-gap"
    _shortest = "p"
    cost = Ability(BoundedGapCost)
    features = Ability(BoundedGapFeatures)
    attribution = Ability(BoundedGapAttributor)

    p: int = 4
    decay: float = 0.1
    span: int | None = None
    normalised: bool = True

    @property
    def patterns(self) -> subsequences.Patterns:
        """The patterns of occurrences."""
        return subsequences.patterns_of(int(self.p), self._span)

    @property
    def _span(self) -> int:
        return int(self.p) + 2 if self.span is None else int(self.span)

    def check(self) -> None:
        super().check()
        if self.span is not None and (not is_whole(self.span) or self.span < self.p):
            raise InputError(
                f"span={self.span!r} of the {self.name} kernel must be a whole number from p={self.p}"
            )
        if comb(self._span - 1, self.p - 1) > MOST_PATTERNS:
            raise InputError(
                f"p={self.p} symbols within span={self._span} have more than {MOST_PATTERNS:,} patterns, "
                "which would take hours; give a smaller span, or take the gap kernel"
            )

    def rows(self, documents: Documents, device: Device) -> subsequences.SubsequenceRows:
        return (CudaBoundedGap if device.kind == "cuda" else HostBoundedGap)(self, documents, device)

    def predictor(self, support: Documents, coef: Floats, device: Device) -> FeaturePredictor:
        on_gpu = device.kind == "cuda"
        rows = CudaSupport(self, support, device) if on_gpu else self.rows(support, device)
        return SubsequencePredictor.of_support(rows, coef)


class CountedSubsequences:
    """Documents as rows of features, for solvers without a Gram."""

    def __init__(self, kernel: BoundedGap, documents: Documents) -> None:
        self.documents = documents
        _, x = subsequences.count(documents, kernel.patterns, kernel.decay)
        self.shared = SharedFeatures.of([x], x.frequencies())

    def rows(self, kernel: BoundedGap, train: Ints) -> FeatureRows:
        """All documents as rows of features."""
        if kernel.normalised:
            rows = self.shared.weighed(None, 1.0, True)
            return normalisation.match_featureless(self.documents, rows, self.shared.alone == 0)
        unit = float(kernel.decay) ** int(kernel.p)
        rows = self.shared.weighed(np.full(len(self.shared.number), unit), unit, False)
        values = rows.x.squares() + rows.ridge
        normalisation.require_float32(values[self.documents.lengths >= kernel.p], kernel.name)
        return rows


class HostBoundedGap(HostFeatureRows, subsequences.SubsequenceRows):
    """Kernel values with fixed documents on a CPU."""

    def represent(self, documents: Documents) -> tuple[subsequences.Subsequences, Sparse, Floats]:
        features, x = subsequences.count(documents, self.kernel.patterns, self.kernel.decay)
        return features, x, x.squares()

    def select(self, x: Sparse, target: Ints) -> Sparse:
        return x.select(target, self.features.size)

    def gram(self, progress: Progress | None = None) -> Floats32:
        total = np.zeros((self.n, self.n), np.float32)
        Half(self.x.on_grid()).add_to(total, progress)
        return normalisation.finished_gram(self.normalisation, total, in_place=True)
