"""Explanations of predictions: contributions of symbols, substrings and support vectors to the value.

All refer to the text as the model reads it: normalised, cut to `max_length`. The explained value is, for two
classes, the decision value (positive for the second class, or for `positive`); for more, the value of the
predicted class: its machine (one-vs-rest), the sum of its machines against each other class (one-vs-one), or
its machine less the mean of the others (Crammer-Singer, where only differences count); for regression, the
number. Each kernel defines its attribution (`Kernel.attribution`).

The mail filter has no TrainedModel: `Filter.reasons` (apps/mail/filter.py) computes the reasons for its
decisions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from textsvm.arrays import Floats, Json
from textsvm.errors import InputError
from textsvm.kernels.attribution import AttributionMethod, Contributions, complete
from textsvm.model.labels import label_sets
from textsvm.model.rules import CalibratedRule, ClassRule, LabelRule, NoveltyRule, Rule
from textsvm.model.top_features import CANDIDATES, merge
from textsvm.model.trained import TrainedModel, as_model
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.runtime.parallel import part as progress_of_part
from textsvm.runtime.parameters import notebook_table, with_short_repr
from textsvm.runtime.plain_json import to_json
from textsvm.text.documents import Documents, MultiView
from textsvm.text.tokens import SINGLE, WITHIN, kinds

_SHOWN = 2000  #: Characters of the text that a notebook shows
_MOST_PLACES = 100  #: Occurrences of a substring of which a word must be whole in one
CHUNK = 16  #: Documents explained together: each has a weight for every feature of the support vectors


@dataclass(frozen=True)
class Substring:
    """A substring of a document, its number of occurrences, and its contribution to the value."""

    text: str
    count: int
    contribution: float
    merged: tuple[str, ...] = ()  #: Substrings whose contributions are summed; empty for a single substring


@dataclass(frozen=True)
class Similar:
    """A support vector that contributes to a value."""

    index: int  #: Index of the training document
    kernel: float  #: Kernel value with the explained document
    contribution: float  #: Dual coefficient times `kernel`
    text: str  #: As stored in the model
    id: str | None = None  #: Of the training document, if the model's file has it

    @property
    def name(self) -> str:
        """The id, else the index among the training documents."""
        return f"{self.index:,}" if self.id is None else self.id


@dataclass(frozen=True)
class KernelShare:
    """Contribution of the spelling or of the meaning of a text to a value."""

    name: str  #: "spelling", or "meaning" with the name of the encoder
    contribution: float
    similar: list[Similar]  #: The support vectors that are most similar by these kernels alone


@with_short_repr
@dataclass(frozen=True)
class Explanation:
    """Contributions to the value of a document."""

    prediction: Any  #: A tuple for several labels per document
    #: Class of positive contributions; among several labels that of the largest value; None for regression.
    towards: Any
    against: Any  #: The other class of two
    value: float
    bias: float
    text: str  #: The document as the model reads it
    #: shape (len(text),): Contribution of each character; for an exact method, they and the bias sum to the
    #: value.
    symbols: Floats = field(repr=False)
    method: AttributionMethod
    #: Largest contributions of substrings, for kernels whose features are substrings.
    substrings: list[Substring]
    similar: list[Similar]  #: Largest contributions of support vectors; empty for a model saved without texts
    #: As `substrings`, with overlapping substrings merged to the longest, and their contributions summed.
    merged: list[Substring] = field(default_factory=list)
    kind: str = "substrings"  #: Of the listed features: "words", which are not merged, or "substrings"
    #: Contributions of the kernels of strings (spelling) and of encoders (meaning), if a sum has both.
    parts: list[KernelShare] = field(default_factory=list)

    def __str__(self) -> str:
        substrings = [f", {substring.text!r} {substring.contribution:+.3f}" for substring in self.merged]
        return f"{self.prediction}: value {self.value:+.3f}, bias {self.bias:+.3f}{''.join(substrings)}"

    def _repr_html_(self) -> str:
        symbols = self.symbols[:_SHOWN]
        steps = np.rint(4 * symbols / (np.abs(symbols).max(initial=0) or 1)).tolist()
        spans = (
            f'<span style="background:rgba({"0,114,178" if step > 0 else "213,94,0"},{abs(step) / 8})">'
            f"{escape(''.join(symbol for symbol, _ in run))}</span>"
            for step, run in groupby(zip(self.text, steps, strict=False), lambda pair: pair[1])
        )
        rows = [(repr(part.text), f"{part.contribution:+.4f}") for part in self.merged]
        table = notebook_table(f"{self.prediction}: {self.value:+.4f}", rows)
        return f'<p style="white-space:pre-wrap">{"".join(spans)}</p>{table}'

    @property
    def shares(self) -> str:
        """Contributions of spelling and meaning in words, their shares of absolute values, and the bias."""
        whole = sum(abs(part.contribution) for part in self.parts) or 1.0
        sums = (f"{x.name} {x.contribution:+.4f} ({abs(x.contribution) / whole:.0%})" for x in self.parts)
        return f"{', '.join(sums)}, bias {self.bias:+.4f}; per cent of the sum of absolute values"

    @property
    def verdict(self) -> str:
        """The value, and its meaning for classes."""
        several = self.against is None and not isinstance(self.prediction, tuple)
        meaning = "of {}, one of several classes (its sign decides nothing)" if several else "above 0 for {}"
        return f"value {self.value:+.4f}" + f"; {meaning.format(self.towards)}" * (self.towards is not None)

    @property
    def exact(self) -> bool:
        """Whether the contributions of the characters and the bias sum to the value."""
        return self.method.exact

    def as_dict(self) -> Json:
        """JSON values."""
        values = {**asdict(self), "method": self.method.description, "exact": self.exact}
        if not self.parts:
            del values["parts"]
        return {name: to_json(value) for name, value in values.items()}


def explain(
    model: Any, texts: Any, *, positive: object = None, substrings: int = 20, similar: int = 5,
    progress: Progress | None = None,
) -> list[Explanation]:  # fmt: skip
    """Explain the predictions of a fitted model, on the CPU.

    Parameters
    ----------
    model : TrainedModel, or fitted SVC, MultilabelSVC, SVR, OneClassSVM or CalibratedSVC
        Of texts. For a calibrated model, the decision value is explained.
    texts : list of str
        Or any other input of `model.predict`.
    positive : label, optional
        Class with positive values, of two; default ``classes_[1]``.
    substrings, similar : int
        Number of substrings and support vectors listed.
    progress : callable, optional

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, explain
    >>> texts = ["win cash now", "a cash prize", "lunch at noon", "see you at noon"]
    >>> model = SVC(Spectrum(3)).fit(texts, ["spam", "spam", "ham", "ham"])
    >>> [explanation] = explain(model, ["cash at hand"])
    >>> explanation.prediction, [each.text for each in explanation.merged]
    ('spam', ['cash ', 'h at '])
    """
    model = as_model(model)
    if model.kernel is None or model.support.documents is None:
        raise InputError("a model of a precomputed kernel matrix has no texts; there is nothing to explain")
    if model.kernel.structure.reads_vectors:
        raise InputError("a model of vectors has no texts, so there is nothing to explain")
    model = model.uncut("explained")
    texts = model.source.validate(texts)
    if not len(texts):
        return []
    documents, device = model.encode(texts), devices.select("cpu")
    with model.at_work(device):
        kind: type[Explainer] = SupportExplainer if model.support.weights is None else WeightExplainer
        explainer, explanations = kind(model, device), []
        for first in range(0, len(documents), CHUNK):
            chunk = documents.take(range(first, min(first + CHUNK, len(documents))))
            step = progress_of_part(progress, first, len(chunk), len(documents))
            explanations += _explain(model, explainer, chunk, positive, (substrings, similar), step)
    if isinstance(model.rule, CalibratedRule):
        probability = model.rule.probabilities(model.decision_function(texts))
        likely = model.rule.classes[probability.argmax(axis=1)].tolist()
        explanations = [replace(own, prediction=x) for own, x in zip(explanations, likely, strict=True)]
    return explanations


class SupportExplainer:
    """Values of documents and contributions to them, by machines with support vectors.

    For each chunk of documents call `set_documents`, then `contributions`, then `kernel_shares` and `similar`
    of each document: a call uses the documents, values and coefficients of the calls before it.
    """

    def __init__(self, model: TrainedModel, device: Device) -> None:
        assert model.kernel is not None
        self.kernel, self.support = model.kernel, model.support.documents
        self.dual_coef, self.index = model.predictor.dual_coef, model.support.indices
        self.rows: Any = model.support.rows(device)
        self.ids: list[str | None] = [None] * len(self.support)
        ids = model.info.get("support_ids")
        if isinstance(ids, list) and len(ids) == len(self.ids) and all(isinstance(name, str) for name in ids):
            self.ids = ids

    def set_documents(self, documents: Documents | MultiView) -> Floats:
        """Set the documents; return their decision values without bias, shape (n, n_machines)."""
        coef, self.documents = self.dual_coef, documents
        if not len(self.support):
            self.values = np.empty((len(documents), 0))
            return self.values @ coef.T
        self.values = self.rows.cross(documents).astype(np.float64)
        return self.rows.decision(documents, coef.T)

    def contributions(self, machine_weights: Floats, progress: Progress | None) -> Contributions:
        """Contributions of the symbols to sums of machines with weights of shape (n, n_machines)."""
        self.coef = machine_weights @ self.dual_coef
        if not len(self.support):
            return Contributions([np.zeros(len(self.documents.shown(d))) for d in range(len(self.documents))])
        kernel = self.kernel
        contributions = kernel.attribution.contributions(
            self.rows, self.documents, self.coef, self.values, progress
        )
        if not kernel.attribution.method.exact:
            return contributions
        return complete(contributions, (self.coef * self.values).sum(axis=1))

    def kernel_shares(self, d: int, most: int) -> list[KernelShare]:
        """Contributions of spelling and meaning to document d; empty unless the kernel has both."""
        document = self.documents.take([d])
        shares = []
        for name, terms in _terms_by_share(self.kernel, self.rows).items():
            weight = sum(weight for weight, _, _ in terms)
            rows = (w * own.cross(term.structure.read(document))[0].astype(float) for w, term, own in terms)
            values = sum(rows)
            similar = self._listed(d, values / weight, weight, -values, most)
            shares.append(KernelShare(name, float(self.coef[d] @ values), similar))
        return shares

    def similar(self, d: int, most: int) -> list[Similar]:
        """Support vectors with the largest contributions to document d."""
        values = self.values[d]
        return self._listed(d, values, 1.0, -np.abs(self.coef[d] * values), most)

    def _listed(self, d: int, values: Floats, weight: float, key: Floats, most: int) -> list[Similar]:
        terms, index = weight * self.coef[d] * values, self.index
        order = np.argsort(key, kind="stable")[:most].tolist()
        return [
            Similar(int(index[i]), float(values[i]), float(terms[i]), self.support.shown(i), self.ids[i])
            for i in order
            if terms[i] != 0
        ]


class WeightExplainer:
    """Values of documents and contributions to them, by a model that is stored as feature weights.

    The methods are those of `SupportExplainer`, called in the same order.
    """

    def __init__(self, model: TrainedModel, device: Device) -> None:
        assert model.support.weights is not None
        self.kernel = model.kernel
        self.predictor: Any = model.support.weights.predictor(device)

    def set_documents(self, documents: Documents | MultiView) -> Floats:
        self.documents = documents
        return np.asarray(self.predictor.values(documents))

    def contributions(self, machine_weights: Floats, progress: Progress | None) -> Contributions:
        self.machine_weights = machine_weights
        contributions: Contributions = self.predictor.contributions(self.documents, machine_weights)
        if progress is not None:
            progress(1, 1)
        return contributions

    def kernel_shares(self, d: int, most: int) -> list[KernelShare]:
        document = self.documents.take([d])
        shares = []
        for name, terms in _terms_by_share(self.kernel, self.predictor).items():
            values = sum(own.values(term.structure.read(document))[0] for _, term, own in terms)
            shares.append(KernelShare(name, float(values @ self.machine_weights[d]), []))
        return shares

    def similar(self, d: int, most: int) -> list[Similar]:
        return []


Explainer: TypeAlias = SupportExplainer | WeightExplainer


def _terms_by_share(kernel: Any, rows: Any) -> dict[str, list[tuple[float, Any, Any]]]:
    """Weight, kernel and rows (or predictor) of the terms of a sum, by the name of their `KernelShare`.

    Empty unless there are several names.
    """
    terms = kernel.structure.terms
    by_name = dict[str, list[tuple[float, Any, Any]]]()
    for (weight, term), own in zip(terms, rows.parts if len(terms) > 1 else (), strict=False):
        encoders = [view.encoder.name for view in term.structure.views if view.encoder is not None]
        name = f"meaning ({encoders[0]})" if encoders else "spelling"
        by_name.setdefault(name, []).append((weight, term, own))
    return by_name if len(by_name) > 1 else {}


def _explain(
    model: TrainedModel, explainer: Explainer, documents: Documents | MultiView, positive: object,
    most: tuple[int, int], progress: Progress | None,
) -> list[Explanation]:  # fmt: skip
    """Explanations of a chunk of documents; `most`: numbers of substrings and of support vectors."""
    assert model.kernel is not None
    intercept = model.predictor.intercept
    views = model.kernel.structure.views
    strings = {view.called("") for view in views if view.tokens in SINGLE and view.encoder is None}
    names = {view.called("") for view in views} - {""} or {""}
    machines = explainer.set_documents(documents) + intercept
    machine_weights, meanings = _machines_explained(model.rule, machines, positive)
    biases = machine_weights @ intercept
    contributions = explainer.contributions(machine_weights, progress)
    explanations = []
    for d in range(len(documents)):
        text = documents.shown(d)
        features = contributions.features[d] if contributions.features else []
        heaviest = sorted(features, key=lambda feature: -abs(feature[2]))[: CANDIDATES * max(most[0], 30)]
        substrings = [Substring(*feature) for feature in heaviest]
        explanations.append(Explanation(
            **meanings[d], value=float(machine_weights[d] @ machines[d]), bias=float(biases[d]), text=text,
            symbols=contributions.symbols[d], method=model.kernel.attribution.method,
            substrings=substrings[: most[0]], similar=explainer.similar(d, most[1]),
            merged=_merged_by_column(
                substrings, text, {name: name in strings for name in names},
                contributions.words[d] if contributions.words else set(),
            )[: most[0]],
            kind="substrings" if strings else "words",
            parts=explainer.kernel_shares(d, most[1]),
        ))  # fmt: skip
    return explanations


def _merged_by_column(
    substrings: list[Substring], text: str, columns: dict[str, bool], words: set[str]
) -> list[Substring]:
    """`_merged`, in each column of a row by itself, if True; "" is a text, and several are named."""
    if "" in columns:
        return _merged(substrings, text, words) if columns[""] else substrings
    pieces = re.split(rf"(?:^|\n)({'|'.join(map(re.escape, columns))})", text)
    result = [own for own in substrings if not own.text.startswith(tuple(columns))]
    for before, line in zip(pieces[1::2], pieces[2::2], strict=True):
        own = [replace(x, text=x.text.removeprefix(before)) for x in substrings if x.text.startswith(before)]
        name = before if len(columns) > 1 else ""
        of_column = {word.removeprefix(before) for word in words if word.startswith(before)}
        own = _merged(own, line, of_column) if columns[before] else own
        result += [replace(x, text=name + x.text) for x in own]
    return sorted(result, key=lambda own: -abs(own.contribution))


def _merged(substrings: Sequence[Substring], text: str, words: set[str]) -> list[Substring]:
    """Neighbouring substrings of a text merged, the largest contributions first; words as wholes."""
    inside = kinds(text, "words") == WITHIN
    edges = np.append(True, np.append(~(inside[1:] & inside[:-1]), True))[-len(text) - 1 :]

    def within(whole: str, part: str) -> bool:
        if part not in words or part not in whole:
            return part in whole
        parts, at = [own.start() for own in re.finditer(re.escape(part), whole)], -1
        for _ in range(_MOST_PLACES):
            if (at := text.find(whole, at + 1)) < 0:
                break
            if any(edges[at + k] and edges[at + k + len(part)] for k in parts):
                return True
        return False

    result = [own for own in substrings if own.text not in text]  # patterns
    for sign in (1, -1):
        same_sign = (own for own in substrings if own.text in text and sign * own.contribution > 0)
        by_text = {own.text: own for own in same_sign}
        pairs = [(own.text, abs(own.contribution)) for own in by_text.values()]
        for feature in merge(pairs, text.count, within=within):
            whole, pieces = by_text.get(feature.text), feature.merged or (feature.text,)
            count = text.count(feature.text) if whole is None else whole.count
            contribution = sum(by_text[piece].contribution for piece in pieces)
            result.append(Substring(feature.text, count, contribution, feature.merged))
    return sorted(result, key=lambda own: -abs(own.contribution))


def _machines_explained(rule: Rule, machines: Floats, positive: object) -> tuple[Floats, list[Json]]:
    """Weights of the machines in each explained value, (n, n_machines), and fields of its `Explanation`."""
    n, against = len(machines), None
    machine_weights, towards = rule.machine_weights(positive)
    side = np.zeros(n, np.int64)
    if isinstance(rule, LabelRule):
        predictions: list[Any] = label_sets(rule.predictions(machines), rule.classes)
        side = machines.argmax(axis=1)
    elif isinstance(rule, ClassRule):
        # Not those of a calibrated rule, which `explain` takes from the probabilities.
        chosen = ClassRule(rule.classes, rule.strategy).predictions(rule.scores(machines))
        predictions = chosen.tolist()
        if len(rule.classes) == 2:
            against = next(label for label in rule.classes.tolist() if label != towards[0])
        else:
            side = np.searchsorted(rule.classes, chosen)
    else:
        predictions = rule.predictions(rule.scores(machines)).tolist()
        if isinstance(rule, NoveltyRule):
            against = "outside"
            predictions = ["inside" if value > 0 else "outside" for value in predictions]
    meanings = [
        {"prediction": prediction, "towards": towards[a], "against": against}
        for prediction, a in zip(predictions, side.tolist(), strict=True)
    ]
    return machine_weights[side], meanings
