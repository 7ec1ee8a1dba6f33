"""The features with the largest weights: which substrings, words or numbers speak for a class.

If a kernel has a list of features, a machine is a weight for each of them: w = sum_i alpha_i phi(t_i) over
the support vectors t_i. Of kernels without a list that can name the patterns behind a value (`Attributor`),
the contributions to the values of the support vectors are summed. For other kernels, such as edit distance,
the support vectors with the largest dual coefficients are listed.

Substrings at neighbouring places are nearly the same feature: "invoi", "nvoic" and "voice" mean "invoice".
They are merged if one contains the other, or if they overlap in all but a symbol and occur joined in the text
of the support vectors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from heapq import nlargest
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import AnyArray, Floats, Json
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel, is_whole
from textsvm.kernels.contract import FeatureWeights
from textsvm.kernels.spelling import spell
from textsvm.linalg.factored import as_dense
from textsvm.model.rules import Rule
from textsvm.runtime import device as devices
from textsvm.sources.base import Expansion, Support

CANDIDATES = 20  #: Substrings that are candidates for merging, per listed feature.
SHARE = 0.4  #: A substring is extended only by substrings of at least this share of its weight,
MIN_LENGTH = 3  #: and of at least this length: shorter substrings continue nearly everything.
MAX_DOCUMENTS = 300  #: Support vectors whose contributions are summed where a kernel has no list of features.
#: Joined substrings must occur in the first support vectors, up to this number of symbols; the rest is cut.
MAX_SYMBOLS = 4 << 20
Count: TypeAlias = Callable[[str], int]  #: Number of occurrences of a string in a text.


@dataclass(frozen=True)
class Feature:
    """A feature and its weight."""

    text: str
    weight: float  #: Of the heaviest of the merged substrings
    #: The substrings that are merged, the heaviest first; empty if there is nothing to merge.
    merged: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopFeatures:
    """The heaviest features of a class, or of a direction of a regression."""

    label: Any  #: "a higher number", "a lower number" for regression; "inside", "outside" for one class
    #: "substrings", "counted substrings", "words", "tokens", "numbers", "patterns" or "training documents"
    kind: str
    features: list[Feature] = field(default_factory=list)

    def as_dict(self) -> Json:
        """JSON values."""
        return asdict(self)


def feature_weights(machines: Expansion) -> list[FeatureWeights]:
    """Weights of all features of a model, for each term of its kernel; empty if there is no list."""
    support, kernel = machines.support, machines.support.kernel
    weights = support.weights
    if weights is None:
        if kernel is None or not has_feature_list(kernel):
            return []
        weights = kernel.features.weights(kernel.structure.read(support.documents), machines.dual_coef)
    tables: list[FeatureWeights] = weights.named(support.documents)
    return tables


def has_feature_list(kernel: Kernel) -> bool:
    """Whether a kernel has a list of features with weights."""
    return kernel.features is not None and kernel.features.has_weights


def coefficients(machines: Expansion) -> tuple[NDArray[np.object_], Floats]:
    """Names of all features, and weights of shape (n_machines, n_features).

    Names of a sum of kernels begin with the kernel, as those of scikit-learn's FeatureUnion: "words:1__cash".
    Raises AttributeError if the kernel has no list of features.
    """
    kernel = machines.support.kernel
    if kernel is None:
        raise AttributeError("a model of a precomputed kernel matrix has no features")
    if not (tables := feature_weights(machines)):
        raise AttributeError(f"the kernel {spell(kernel)} has no list of features with weights")
    names = [part.names(np.arange(len(part.weights))) for part in tables]
    if len(tables) > 1:
        names = [f"{spell(part.kernel)}__" + own for part, own in zip(tables, names, strict=True)]
    return np.concatenate(names), np.concatenate([as_dense(table.weights) for table in tables]).T


def top_features(
    machines: Expansion, rule: Rule, n: int = 30, labels: Collection[object] | None = None
) -> list[TopFeatures]:
    """The `n` features with the largest weights for each class, or each of `labels`, computed on the CPU.

    Raises InputError if `n` is below 1, or the model was trained on a kernel matrix.
    """
    if not is_whole(n) or n < 1:
        raise InputError(f"n must be a whole number of at least 1, got {n!r}")
    if machines.support.kernel is None:
        raise InputError("a model of a precomputed kernel matrix has no texts, so it has no features")
    tables = feature_weights(machines)
    if not tables and machines.support.kernel.structure.examples == "vectors":
        raise InputError("a model of vectors has no texts, so it has no list of features")
    documents, texts, size = machines.support.documents, list[str](), 0
    if any(table.kind.endswith("substrings") for table in tables):
        while len(texts) < len(documents) and size <= MAX_SYMBOLS:  # of the first support vectors
            texts.append(documents.shown(len(texts)))
            size += len(texts[-1])
    mixes, shown = _class_mixes(rule)
    chosen = [k for k, label in enumerate(shown) if labels is None or label in labels]
    if tables:
        count = lru_cache(None)(Occurrences("\0".join(texts)).count)
        of_tables = [_heaviest(table, mixes[chosen], n, count) for table in tables]
        named = zip(chosen, zip(*of_tables, strict=True), strict=True)
        pairs = [(shown[k], zip(tables, lists, strict=True)) for k, lists in named]
        return [TopFeatures(label, table.kind, heavy) for label, lists in pairs for table, heavy in lists]
    result = []
    for k in chosen:
        coef = mixes[k] @ machines.dual_coef
        order = np.argsort(-coef, kind="stable")[:n].tolist() if len(documents) else []
        heaviest = [Feature(documents.shown(i), float(coef[i])) for i in order if coef[i] > 0]
        patterns = _by_attribution(machines.support, shown[k], coef, n)
        result.append(patterns or TopFeatures(shown[k], "training documents", heaviest))
    return result


def _class_mixes(rule: Rule) -> tuple[Floats, list[Any]]:
    """As `Rule.machine_weights`, with a value for each of two classes, and for each direction of a number."""
    mixes, labels = rule.machine_weights()
    if len(labels) > 1:
        return mixes, labels
    opposites = {None: ("a higher number", "a lower number"), "inside": ("inside", "outside")}
    classes = rule.classes
    positive, negative = opposites[labels[0]] if classes is None else (labels[0], classes.tolist()[0])
    return np.stack([-mixes[0], mixes[0]]), [negative, positive]


def _heaviest(table: FeatureWeights, mixes: Floats, n: int, count: Count) -> list[list[Feature]]:
    """The heaviest features of a table for each class."""
    substrings, of_classes = table.kind.endswith("substrings"), list[dict[int, float]]()
    most = min(CANDIDATES * max(n, 30) if substrings else n, table.weights.shape[0])
    for mix in mixes:
        weights = table.weights @ mix
        if table.in_texts is not None:
            weights *= table.in_texts
        heavy = np.flatnonzero(weights >= np.partition(weights, -most)[-most]) if most else np.arange(0)
        order = heavy[np.argsort(-weights[heavy], kind="stable")[:most]].tolist()
        of_classes.append({i: float(weights[i]) for i in order if weights[i] > 0})
    numbers = sorted({*chain.from_iterable(of_classes)})
    names = dict(zip(numbers, table.names(np.array(numbers, np.int64)).tolist(), strict=True))
    features = []
    for heaviest in of_classes:
        pairs = [(str(names[i]), weight) for i, weight in heaviest.items()]
        features.append(merge(pairs, count, n) if substrings else [Feature(*pair) for pair in pairs])
    return features


class Occurrences:
    """Counts strings in a text, as `str.count`, by the places of its runs of `MIN_LENGTH` symbols."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        keys = self._keys(self.codes)
        self.order = np.argsort(keys)
        self.keys = keys[self.order]

    @staticmethod
    def _keys(codes: AnyArray) -> AnyArray:
        """A number of 63 bits for each run."""
        keys = np.zeros(max(len(codes) - MIN_LENGTH + 1, 0), np.uint64)
        for k in range(MIN_LENGTH):
            keys = keys << np.uint64(21) | codes[k : k + len(keys)]
        return keys

    def count(self, string: str) -> int:
        """Number of occurrences that do not overlap."""
        codes = np.frombuffer(string.encode("utf-32-le", "surrogatepass"), np.uint32)
        runs = self._keys(codes)
        if not len(runs):
            return self.text.count(string)
        starts, stops = np.searchsorted(self.keys, runs), np.searchsorted(self.keys, runs, "right")
        rarest = int((stops - starts).argmin())
        places = self.order[starts[rarest] : stops[rarest]] - rarest
        places = places[(places >= 0) & (places <= len(self.codes) - len(codes))]
        for k, code in enumerate(codes):
            places = places[self.codes[places + k] == code]
        number, end = 0, 0
        for place in np.sort(places).tolist():
            if place >= end:
                number, end = number + 1, place + len(codes)
        return number


def merge(
    pairs: Sequence[tuple[str, float]], count: Count, n: int | None = None,
    within: Callable[[str, str], bool] = str.__contains__,
) -> list[Feature]:  # fmt: skip
    """Merge neighbouring substrings of similar weight (positive, heaviest first) that are joined in a text.

    `count` is the method of the text; of an empty text joined substrings are not looked for.

    Only the first `n` features are merged and returned (None: all).

    `within(whole, part)` is whether a part of a whole may be merged with it.

    Only substrings of `MIN_LENGTH` symbols, and of `SHARE` of the weight of the heaviest, join it; all
    substrings of the result are merged into it.
    """
    rest = dict(pairs)
    result = []
    for start, weight in pairs:
        if start not in rest:
            continue
        whole, alike = start, [part for part, other in rest.items() if other >= SHARE * weight]
        while longer := next((x for x in _extensions(whole, alike, count) if within(x, start)), None):
            whole = longer
        parts = [x for x in rest if x == start or (within(whole, x) and _means(x, whole, count))]
        for part in parts:
            del rest[part]
        several = len(parts) > 1
        result.append(Feature(whole if several else start, weight, tuple(parts) if several else ()))
        if len(result) == n:
            break
    return result


def _extensions(whole: str, others: Sequence[str], count: Count) -> Iterator[str]:
    """Longer strings that contain `whole`: other substrings, and `whole` continued by them."""
    for other in others:
        if len(other) > len(whole) and whole in other:
            longer = [other]
        elif MIN_LENGTH <= len(other) <= len(whole) + 1:
            longer = [whole + other[-1]] if whole.endswith(other[:-1]) else []
            longer += [other[0] + whole] if whole.startswith(other[1:]) else []
            longer = [string for string in longer if count(string)]
        else:
            continue
        yield from (string for string in longer if _means(whole, string, count))


def _means(part: str, whole: str, count: Count) -> bool:
    """Whether at least a third of the occurrences of a substring are in `whole`; True of an empty text."""
    return count(part) <= 3 * count(whole)


def _by_attribution(support: Support, label: object, coef: Floats, n: int) -> TopFeatures | None:
    """Features by their contributions to the values of support vectors; None if the kernel names none."""
    kernel, documents = support.kernel, support.documents
    assert kernel is not None
    if kernel.structure.reads_vectors or not len(documents):
        return None
    chosen = np.sort(np.argsort(-np.abs(coef), kind="stable")[:MAX_DOCUMENTS])
    rows, heavy = kernel.rows(documents, devices.select("cpu")), documents.take(chosen)
    values = rows.cross(heavy).astype(np.float64)
    parts = kernel.attribution.contributions(rows, heavy, np.tile(coef, (len(chosen), 1)), values, None)
    totals: dict[str, float] = defaultdict(float)
    for features in parts.features:
        for text, _, contribution in features:
            totals[text] += contribution
    if not totals:
        return None
    heaviest = nlargest(n, totals.items(), key=lambda pair: pair[1])
    return TopFeatures(label, "patterns", [Feature(*pair) for pair in heaviest if pair[1] > 0])
