"""Drift: whether the texts of today are like the texts that a model was trained on.

Three numbers are compared with their values on training texts, which `record` measures after training:

- the share of symbols (characters, or tokens of a kernel on tokens) that occur in no support vector. On
  training texts, support vectors of the sample are excluded;
- the share of p-mers of `P` characters that occur in no support vector, of kernels on characters;
- the median margin: with two classes |decision|, with more the difference between the two largest decision
  values. The values are out-of-fold, or of a small sample: a machine with the same kernel and C is trained on
  a part of the sample, and the other texts are tested. Values of training texts, or of support
  vectors, would not do: they are up to three times as large as the values of new texts of the same kind.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Bools, Floats, Ints, Json, Words, distinct_of
from textsvm.errors import InputError, plural
from textsvm.linalg.sparse import index_type
from textsvm.model.rules import ScaledRule, margins
from textsvm.model.settings import ClassifierSettings, Compute, is_default
from textsvm.model.trained import TrainedModel
from textsvm.sources.copies import copy_groups, n_copies, text_digests
from textsvm.text.documents import Documents, MultiView, batches

P = 4  #: Length of the p-mers
SAMPLE = 2000  #: Maximum texts of the sample of training texts
SLOW_SAMPLE = 200  #: The same for kernels whose time grows with the square of the length
SAMPLE_SYMBOLS = 1_000_000  #: Maximum symbols of a sample of more than `SLOW_SAMPLE` texts
TESTED = 0.2  #: Share of the sample that is tested
BLOCK = 10  #: Texts of a class that a sample draws together if classes are rare
LEAST_MARGIN = 0.8  #: A smaller ratio of margins is a warning
FOREIGN = 0.5  #: A text is foreign if more than this share of its symbols is new
FACTOR = 1.5  #: Factor by which shares of new symbols and p-mers may exceed the shares in training
MORE = 0.02  #: Share by which they may exceed them in addition
#: Texts are unlike the support vectors if these have less than this share of their distinct p-mers.
UNLIKE = 0.05
LEAST_PMERS = 20  #: Minimum distinct p-mers of the texts for this comparison
LEAST_SYMBOLS = 500  #: Minimum symbols of the support vectors for this comparison
MOST_TEXTS = 100  #: Texts that are compared
COMPARED_SYMBOLS = 1 << 17  #: Symbols of the support vectors that are compared
#: Maximum symbols of support vectors whose p-mers are compared; above it, every k-th document.
MOST_SYMBOLS = 1 << 24
SLAB = 1 << 20  #: Symbols whose p-mers are compared at a time
LONG = 1000  #: Characters of 95 % of the training texts from which a new text may be too short
SHORT = 1 / 3  #: A text of less than this share of these characters is too short


class Margins:
    """Median of a stream of margins, in the same memory whatever its length.

    Margins are counted and summed in bins of float32 with 12 bits of the mantissa. The median is estimated by
    the mean of its bin, which is exact for a single margin; in the range of float32 the relative error is
    always below 1/4,096.
    """

    def __init__(self) -> None:
        self._counts, self._sums = np.zeros(1 << 20, np.int64), np.zeros(1 << 20)

    def add(self, margins: Floats) -> None:
        """Add margins, shape (n,), all at least 0."""
        with np.errstate(over="ignore"):
            bins = margins.astype(np.float32).view(np.int32) >> 11
        np.add.at(self._counts, bins, 1)
        np.add.at(self._sums, bins, margins)

    def median(self) -> float | None:
        """Median of all margins; None if there are none."""
        ranks = np.cumsum(self._counts)
        n = int(ranks[-1])
        if n == 0:
            return None
        bins = np.searchsorted(ranks, [(n - 1) // 2, n // 2], side="right")
        return float((self._sums[bins] / self._counts[bins]).mean())


class SupportSymbols:
    """Symbols and p-mers of the support vectors of a model; `view` is None for a model without texts."""

    def __init__(self, model: TrainedModel, rows: Ints | None = None) -> None:
        self.model, self.view = model, None
        self.of_characters = False  #: Whether the symbols are characters
        support, kernel = model.support.documents, model.kernel
        if kernel is None or not isinstance(support, Documents | MultiView) or not len(support):
            return
        views = [view for view in kernel.structure.views if isinstance(support.of(view), Documents)]
        self.view = next((view for view in views if not support.of(view).of_tokens), next(iter(views), None))
        if self.view is None:
            return
        documents: Documents = support.of(self.view)
        rows = np.arange(len(documents)) if rows is None else rows
        step = 1 + int(documents.lengths[rows].sum() // MOST_SYMBOLS)
        documents = documents.take(rows[::step])
        self.of_characters = not documents.of_tokens
        self.p = P if self.of_characters else 1
        self._occurs = np.zeros(len(documents.alphabet), bool)
        self._occurs[documents.codes] = True
        self._documents = documents
        self._features: Words | None = None

    def read(self, examples: object) -> Documents:
        """New examples, encoded over an extension of the alphabet of the support vectors."""
        documents: Documents = self.model.encode(examples).of(self.view)
        return documents

    def new_symbols(self, documents: Documents) -> Ints:
        """Number of symbols of each document that occur in no support vector, shape (n,)."""
        occurs = np.zeros(max(len(documents.alphabet), len(self._occurs)), bool)
        occurs[: len(self._occurs)] = self._occurs
        totals = np.zeros(1 + len(documents.codes), index_type(len(documents.codes)))
        np.cumsum(~occurs[documents.codes], out=totals[1:])
        return np.diff(totals[documents.offsets])

    def is_unlike(self, documents: Documents) -> bool | None:
        """Whether a sample of support vectors has hardly any of the p-mers of documents; None: too few."""
        keys = distinct_of(_pmers(documents.take(range(min(len(documents), MOST_TEXTS))), self.p))
        symbols = len(self._documents.codes)
        if len(keys) < LEAST_PMERS or symbols < LEAST_SYMBOLS:
            return None
        sample = self._documents.take(range(0, len(self._documents), 1 + symbols // COMPARED_SYMBOLS))
        pmers = _pmers(sample, self.p)
        place = np.minimum(np.searchsorted(keys, pmers), len(keys) - 1)
        return len(np.unique(place[keys[place] == pmers])) < UNLIKE * len(keys)

    def new_features(self, documents: Documents) -> tuple[int, int]:
        """Number of p-mers that occur in no support vector, and of all p-mers."""
        if self._features is None:
            slabs = (distinct_of(keys) for keys in self._slabs(self._documents))
            self._features = distinct_of(np.concatenate([np.empty(0, np.uint64), *slabs]))
        new = total = 0
        for keys in self._slabs(documents):
            new, total = new + int((~np.isin(keys, self._features)).sum()), total + len(keys)
        return new, total

    def _slabs(self, documents: Documents) -> Iterator[Words]:
        """p-mers of some documents at a time: hashes take fifty times the memory of the symbols."""
        for first, last in batches(documents, SLAB):
            yield _pmers(documents.take(range(first, last)), self.p)


def _pmers(documents: Documents, p: int) -> Words:
    codes, n = documents.codes.astype(np.uint64), max(len(documents.codes) - p + 1, 0)
    keys = np.zeros(n, np.uint64)
    for k in range(p):
        keys = keys * np.uint64(0x9E3779B97F4A7C15) + codes[k : k + n]
    return keys[np.arange(n) + p <= np.repeat(documents.offsets[1:], documents.lengths)[:n]]


def record(
    model: TrainedModel, n: int, examples_of: Callable[[Ints], Any], decision: Floats | None,
    groups: Ints | None = None,
) -> dict[str, float | None]:  # fmt: skip
    """Measure a model on a few of n training texts, or groups: "symbols", "features" (shares) and "margin".

    A value is None if it cannot be measured. `decision` are values of training texts by machines that were
    not trained on them, of a classifier with a label for each text; a calibrated model has their median.
    """
    values: dict[str, float | None] = dict.fromkeys(("symbols", "features", "margin"))
    values["margin"] = model.record.margin
    if decision is not None:
        values["margin"] = float(np.median(margins(decision)))
    groups = np.arange(n) if groups is None else groups
    _, test = _sample(model, n, None, groups)
    rest = np.flatnonzero(~np.isin(groups[model.support.indices], groups[test]))
    support = SupportSymbols(model, rest)
    if support.view is not None and len(rest):
        documents = support.read(examples_of(test))
        if support.of_characters:
            new, n_pmers = support.new_features(documents)
            values["features"] = new / max(n_pmers, 1)
        values["symbols"] = float(support.new_symbols(documents).sum() / max(len(documents.codes), 1))
    return values


def _sample(model: TrainedModel, n: int, classes: Ints | None, groups: Ints | None) -> tuple[Ints, Ints]:
    """Indices of a few of n training texts, for training and test; rare classes whole, groups together."""
    size = SLOW_SAMPLE if model.kernel is not None and model.kernel.cost.quadratic else SAMPLE
    support = model.support.documents
    if support is not None and len(support):
        size = min(size, max(SLOW_SAMPLE, int(SAMPLE_SYMBOLS / max(support.lengths.mean(), 1.0))))
    order = np.random.default_rng(0).permutation(n)
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
        ordered = classes[order]
        block = np.cumsum((np.arange(n) - np.searchsorted(ordered, ordered)) % BLOCK == 0)
        drawn = np.sort(np.argsort(np.random.default_rng(1).permutation(n + 1)[block], kind="stable")[:size])
        # Every fifth text is tested, hence never all of several texts of a class.
        order = order[drawn[np.argsort(np.arange(len(drawn)) % round(1 / TESTED) != 2, kind="stable")]]
    if groups is not None and n_copies(groups):
        rows = np.sort(order[:size])
        number = np.unique(groups[rows], return_inverse=True)[1]
        drawn = np.random.default_rng(2).permutation(number.max() + 1)
        chosen = drawn < TESTED * len(drawn) if classes is None else _tested(number, classes[rows], drawn)
        in_test = chosen[number]
        return rows[~in_test], rows[in_test]
    tested = max(1, round(TESTED * min(size, n)))
    return np.sort(order[tested:size]), np.sort(order[:tested])


def _tested(groups: Ints, classes: Ints, drawn: Ints) -> Bools:
    """Whether each group is tested: some of each class with two groups or more, and never all of a class."""
    has = np.zeros((classes.max() + 1, len(drawn)), bool)
    has[classes, groups] = True
    left, tested = has.sum(1), np.zeros(len(drawn), bool)
    least = left - np.maximum(1, np.rint(TESTED * left))
    for group in drawn:
        own = has[:, group]  # a group may have several classes
        tested[group] = (left[own] > 1).all() and (left > least)[own].any()
        left -= own & tested[group]
    return tested


def decide_sample(
    settings: ClassifierSettings, model: TrainedModel, examples_of: Callable[[Ints], Any], labels: list[Any],
    groups: Ints | None = None,
) -> tuple[Ints, Ints, Floats, AnyArray] | None:  # fmt: skip
    """Train with kernel, C and loss of a model on a few of its texts: indices of these and of others, and the
    decision values and predictions of the others.

    Training texts have the classes of the others, and no copies. None without a kernel or with few texts.
    """
    classes = np.unique(labels, return_inverse=True)[1]
    train, test = _sample(model, len(labels), None if groups is None else classes, groups)
    if not np.isin(classes[test], classes[train]).all():
        train, test = _sample(model, len(labels), classes, groups)
    record = model.record
    if model.kernel is None or not len(train):
        return None
    kernel = model.kernel if is_default(settings.kernel) else settings.kernel
    assert record.C is not None
    memory = Compute(settings.compute_options.memory)
    settings = replace(settings, kernel=kernel, C=record.C, loss=record.loss, compute=memory, encoder=None)
    try:
        with warnings.catch_warnings(action="ignore"):
            from textsvm.training.train import decide_test_part

            copies = copy_groups(text_digests(examples_of(np.concatenate([train, test]))))
            if copies is not None:
                train = train[~np.isin(copies[: len(train)], copies[len(train) :])]
            test = test[np.isin(classes[test], classes[train])]
            if not len(test):
                return None
            documents, fold = model.support.all_documents(len(labels)), (train, test)
            return *fold, *decide_test_part(settings, examples_of, labels, fold, groups, documents)
    except InputError:  # such as a sample of a single class
        return None


class ShortTexts:
    """Texts that are far shorter than the support vectors, for which less is known than for those."""

    def __init__(self, support: SupportSymbols) -> None:
        # Characters that 95 % of long support vectors have at least; 0 if they are not long.
        usual = int(np.quantile(support._documents.lengths, 0.05)) if support.of_characters else 0
        self._usual, self._first = usual if usual >= LONG else 0, ""
        self._n = self._total = 0

    def add(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Count texts; none if documents are no single texts."""
        self._total += len(texts)
        for name, length in zip(ids, map(len, texts), strict=False):
            if length < SHORT * self._usual:
                self._n, self._first = self._n + 1, self._first or f"{name} has {length:,}"

    @property
    def finding(self) -> str:
        """Warning in words; empty if fewer than 5 % of the texts are too short."""
        if not self._n or self._n < 0.05 * self._total:
            return ""
        return (
            f"{self._n:,} of {plural(self._total, 'text')} far shorter than those of training, 95 % of which "
            f"have {self._usual:,} characters or more (first {self._first}): expect more errors than there"
        )


class Drift:
    """Comparison of new texts, batch by batch, with the recorded numbers of the training texts.

    Its memory does not grow with the number of texts (`Margins`).
    """

    def __init__(self, model: TrainedModel, recorded: object, support: SupportSymbols | None = None) -> None:
        recorded = recorded if isinstance(recorded, dict) else {}
        self.expected = {name: _number(recorded.get(name)) for name in ("symbols", "features", "margin")}
        self.support = support or SupportSymbols(model)
        if isinstance(model.rule, ScaledRule):  # leave-one-out margins of an online model
            self.expected["margin"] = model.record.margin
        #: Numbers of texts, symbols and p-mers so far, and of new symbols and p-mers
        names = ("texts", "symbols", "new_symbols", "features", "new_features")
        self.counts = Counter(dict.fromkeys(names, 0))
        self._margins = Margins()
        self.has_features = model.kernel is not None and model.kernel.features is not None
        #: Whether the first texts with enough p-mers share hardly any with the support vectors
        self.unlike: bool | None = None

    def add_texts(self, examples: object, full: bool = True) -> Ints:
        """Add texts; return the indices of texts in which most characters are new.

        Without `full` only symbols are counted, which is fast.
        """
        if self.support.view is None or not (full or self.support.of_characters):
            return np.empty(0, np.int64)
        documents = self.support.read(examples)
        if self.unlike is None and self.has_features:
            self.unlike = self.support.is_unlike(documents)
        new, lengths = self.support.new_symbols(documents), documents.lengths
        self.counts.update(texts=len(documents), symbols=int(lengths.sum()), new_symbols=int(new.sum()))
        if full and self.support.of_characters:
            new_features, n_pmers = self.support.new_features(documents)
            self.counts.update(features=n_pmers, new_features=new_features)
        if not self.support.of_characters:
            return np.empty(0, np.int64)
        return np.flatnonzero(new > FOREIGN * lengths)

    def add_decisions(self, decision: Floats) -> None:
        """Add the decision values of texts, of a classifier with a label for each text."""
        self._margins.add(margins(decision))

    def as_dict(self) -> Json:
        """Shares, median margin and its ratio to training; None for unknown numbers."""
        margin, before, n = self._margins.median(), self.expected["margin"], self.counts
        return {
            "texts": n["texts"],
            **{x: n[f"new_{x}"] / n[x] if n[x] else None for x in ("symbols", "features")},
            "margin": margin,
            "margin_ratio": None if margin is None or not before else margin / before,
            "training": dict(self.expected),
        }

    def summary(self) -> str:
        """Shares of new symbols and sequences, and margins, in a line."""
        values = self.as_dict()
        shown = [
            f"{100 * values[name]:.1f} % new {noun}"
            for name, noun in (("symbols", "symbols"), ("features", "sequences of symbols"))
            if values[name] is not None
        ]
        margin, ratio = values["margin"], values["margin_ratio"]
        if ratio is not None:
            shown.append(f"median margin {margin:.3g}, {ratio:.2f} of that in training")
        if not any(value is not None for value in values["training"].values()):
            shown.append(
                "the model records no numbers of its training texts to compare with (`textsvm train` does)"
            )
        return ", ".join(shown) or "these texts cannot be compared with the training texts"

    def findings(self) -> list[str]:
        """Warnings in words; empty if the texts are like the training texts, or have no recorded numbers."""
        values, messages = self.as_dict(), []
        for name, noun in (("symbols", "symbols"), ("features", "sequences of symbols")):
            share, before = values[name], self.expected[name]
            if share is not None and before is not None and share > FACTOR * before + MORE:
                usual = f"{100 * before:.1f} % of new texts in training"
                messages.append(f"{100 * share:.1f} % of the {noun} never occurred in training ({usual})")
        ratio = values["margin_ratio"]
        if ratio is not None and ratio < LEAST_MARGIN:
            messages.append(
                f"the median margin is {ratio:.2f} of the margin in training, below {LEAST_MARGIN}: the "
                "model is less sure than it was"
            )
        return messages


def _number(value: object) -> float | None:
    """A number of a model file; None for any other value."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
