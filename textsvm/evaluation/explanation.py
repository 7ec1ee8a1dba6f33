"""Explanations of predictions: contributions of symbols, substrings and support vectors to the value.

All refer to the text as the model reads it: normalised, cut to `max_length`. The explained value is, for two
classes, the decision value (positive for the second class, or for `positive`); for more, the value of the
predicted class: its machine (one-vs-rest), the sum of its machines against each other class (one-vs-one), or
its machine less the mean of the others (Crammer-Singer, where only differences count); for regression, the
number. Each kernel defines its attribution (`Kernel.attribution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from textsvm.arrays import Floats, Json
from textsvm.errors import InputError
from textsvm.evaluation.model_parts import parts_of
from textsvm.kernels.attribution import Attribution, Contributions, complete
from textsvm.machines.labels import label_sets
from textsvm.machines.top_features import CANDIDATES, merge, value_mixes
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.runtime.parallel import part as part_of
from textsvm.runtime.plain_json import to_json
from textsvm.text.documents import Documents, MultiView

#: Documents explained together: each has a weight for every feature of the support vectors.
CHUNK = 16


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
    attribution: Attribution  #: Method of the attribution
    #: Largest contributions of substrings, for kernels whose features are substrings.
    substrings: list[Substring]
    similar: list[Similar]  #: Largest contributions of support vectors; empty for a model saved without texts
    #: As `substrings`, with overlapping substrings merged to the longest, and their contributions summed.
    merged: list[Substring] = field(default_factory=list)

    def __str__(self) -> str:
        parts = "".join(f", {substring.text!r} {substring.contribution:+.3f}" for substring in self.merged)
        return f"{self.prediction}: value {self.value:+.3f}, bias {self.bias:+.3f}{parts}"

    @property
    def method(self) -> str:
        """Name of the attribution: "substrings", "subsequences", "occlusion"."""
        return self.attribution.name

    @property
    def exact(self) -> bool:
        return self.attribution.exact

    def as_dict(self) -> Json:
        """JSON values."""
        values = {**asdict(self), "attribution": self.attribution.description, "exact": self.exact}
        return {"method" if name == "attribution" else name: to_json(value) for name, value in values.items()}


def explain(
    model: Any,
    texts: Any,
    *,
    positive: object = None,
    substrings: int = 20,
    similar: int = 5,
    progress: Progress | None = None,
) -> list[Explanation]:
    """Explain the predictions of a fitted model, on the CPU.

    Parameters
    ----------
    model : SVC, MultilabelSVC, SVR, OneClassSVM or CalibratedSVC
        Fitted to texts. For a calibrated model, the decision value is explained.
    texts : list of str
        Or any other input of `model.predict`.
    positive : label, optional
        Class with positive values, of two; default ``classes_[1]``.
    substrings, similar : int
        Number of substrings and support vectors listed.
    progress : callable, optional

    Returns
    -------
    list of Explanation

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, explain
    >>> texts = ["win cash now", "a cash prize", "lunch at noon", "see you at noon"]
    >>> model = SVC(Spectrum(3)).fit(texts, ["spam", "spam", "ham", "ham"])
    >>> [explanation] = explain(model, ["cash at hand"])
    >>> explanation.prediction, [each.text for each in explanation.merged]
    ('spam', ['cash ', 'h at '])
    """
    machine = _readable(model, "so there is nothing to explain")
    texts = machine.validate(texts, fitting=False)
    if not len(texts):
        return []
    documents = machine.encode(texts, machine.support_documents_)
    device, weights = devices.select("cpu"), machine.kept.weights
    with machine.at_work(device):
        explainer = (
            _OfSupport(machine, device, parts_of(model).info)
            if weights is None
            else _OfWeights(machine, device)
        )
        explanations = []
        for first in range(0, len(documents), CHUNK):
            part = documents.take(range(first, min(first + CHUNK, len(documents))))
            step = part_of(progress, first, len(part), len(documents))
            explanations += _explain(machine, explainer, part, positive, (substrings, similar), step)
    if machine is not model:
        decision = machine.decision_function(texts)
        likely = model.classes_[model.probabilities(decision).argmax(axis=1)].tolist()
        explanations = [
            replace(item, prediction=label) for item, label in zip(explanations, likely, strict=True)
        ]
    return explanations


def _readable(model: Any, consequence: str) -> Any:
    """The machine of a fitted model that reads texts, or columns with texts."""
    model.require_fitted()
    parts = parts_of(model)
    if parts.support is None:
        raise InputError(f"a model of a precomputed kernel matrix has no texts, {consequence}")
    machine = parts.machine
    if machine.kernel_.structure.reads_vectors:
        raise InputError(f"a model of vectors has no texts, {consequence}")
    return machine


def machine_of_texts(model: Any, result: str) -> Any:
    """The machine of a fitted model of plain texts; else InputError that names the `missing` result."""
    machine = _readable(model, f"so it has {result}")
    if not machine.kernel_.structure.reads_texts:
        raise InputError(f"a model of columns of a table has no single text, so it has {result}")
    return machine


class _OfSupport:
    """Values of documents and contributions to them, by machines with support vectors."""

    def __init__(self, model: Any, device: Device, info: Json) -> None:
        self.model, self.support = model, model.support_documents_
        self.rows = model.kernel_.rows(self.support, device)
        self.ids: list[str | None] = [None] * len(self.support)
        ids = info.get("support_ids")
        if isinstance(ids, list) and len(ids) == len(self.ids) and all(isinstance(name, str) for name in ids):
            self.ids = ids

    def set_documents(self, documents: Documents | MultiView) -> Floats:
        """Set the documents; return their decision values without bias, shape (n, n_machines)."""
        coef, self.documents = self.model.dual_coef_, documents
        if not len(self.support):
            self.values = np.empty((len(documents), 0))
            return self.values @ coef.T
        self.values = self.rows.cross(documents).astype(np.float64)
        return self.rows.decision(documents, coef.T)

    def contributions(self, machine_weights: Floats, progress: Progress | None) -> Contributions:
        """Contributions of the symbols to sums of machines with weights of shape (n, n_machines)."""
        self.coef = machine_weights @ self.model.dual_coef_
        if not len(self.support):
            return Contributions([np.zeros(len(self.documents.shown(d))) for d in range(len(self.documents))])
        kernel = self.model.kernel_
        parts = kernel.attribution.contributions(self.rows, self.documents, self.coef, self.values, progress)
        exact = kernel.attribution.method.exact
        return complete(parts, (self.coef * self.values).sum(axis=1)) if exact else parts

    def similar(self, d: int, most: int) -> list[Similar]:
        """Support vectors with the largest contributions to document d."""
        values, terms, index = self.values[d], self.coef[d] * self.values[d], self.model.support_
        order = np.argsort(-np.abs(terms), kind="stable")[:most].tolist()
        return [
            Similar(int(index[i]), float(values[i]), float(terms[i]), self.support.shown(i), self.ids[i])
            for i in order
            if terms[i] != 0
        ]


class _OfWeights:
    """The same for a model that is stored as feature weights."""

    def __init__(self, model: Any, device: Device) -> None:
        self.predictor = model.kept.weights.predictor(device)

    def set_documents(self, documents: Documents | MultiView) -> Floats:
        self.documents = documents
        return np.asarray(self.predictor.values(documents))

    def contributions(self, machine_weights: Floats, progress: Progress | None) -> Contributions:
        parts: Contributions = self.predictor.contributions(self.documents, machine_weights)
        if progress is not None:
            progress(1, 1)
        return parts

    def similar(self, d: int, most: int) -> list[Similar]:
        return []


def _explain(
    model: Any,
    explainer: _OfSupport | _OfWeights,
    documents: Documents | MultiView,
    positive: object,
    most: tuple[int, int],
    progress: Progress | None,
) -> list[Explanation]:
    """Explanations of a chunk of documents; `most`: numbers of substrings and of support vectors."""
    machines = explainer.set_documents(documents) + model.intercept_
    machine_weights, meanings = _machines_explained(model, machines, positive)
    biases = machine_weights @ model.intercept_
    parts = explainer.contributions(machine_weights, progress)
    explanations = []
    for d in range(len(documents)):
        text = documents.shown(d)
        features = sorted(parts.features[d], key=lambda feature: -abs(feature[2])) if parts.features else []
        substrings = [Substring(*feature) for feature in features]
        explanations.append(
            Explanation(
                **meanings[d],
                value=float(machine_weights[d] @ machines[d]),
                bias=float(biases[d]),
                text=text,
                symbols=parts.symbols[d],
                attribution=model.kernel_.attribution.method,
                substrings=substrings[: most[0]],
                similar=explainer.similar(d, most[1]),
                merged=_merged(substrings[: CANDIDATES * max(most[0], 30)], text)[: most[0]],
            )
        )
    return explanations


def _merged(substrings: Sequence[Substring], text: str) -> list[Substring]:
    """Neighbouring substrings of a text merged, the largest contributions first."""
    result = [part for part in substrings if part.text not in text]  # patterns, names of columns
    for sign in (1, -1):
        parts_by_text = {
            part.text: part for part in substrings if part.text in text and sign * part.contribution > 0
        }
        for feature in merge([(part.text, abs(part.contribution)) for part in parts_by_text.values()], text):
            whole, parts = parts_by_text.get(feature.text), feature.merged or (feature.text,)
            count = text.count(feature.text) if whole is None else whole.count
            contribution = sum(parts_by_text[part].contribution for part in parts)
            result.append(Substring(feature.text, count, contribution, feature.merged))
    return sorted(result, key=lambda part: -abs(part.contribution))


def _machines_explained(model: Any, machines: Floats, positive: object) -> tuple[Floats, list[Json]]:
    """Weights of the machines in each explained value, (n, n_machines), and fields of its `Explanation`."""
    n, parts = len(machines), parts_of(model)
    classes = parts.classes
    machine_weights, towards = value_mixes(model, positive)
    side, against = np.zeros(n, np.int64), None
    if classes is None:
        predictions = model.predictions(model.scores(machines, 0), None).tolist()
        if parts.kind == "one class":
            against = "outside"
            predictions = ["inside" if value > 0 else "outside" for value in predictions]
    elif parts.kind == "labels":
        predictions = label_sets(model.predictions(machines, classes), classes)
        side = machines.argmax(axis=1)
    else:
        labels = model.predictions(model.scores(machines, len(classes)), classes)
        predictions = labels.tolist()
        if len(classes) == 2:
            against = next(label for label in classes.tolist() if label != towards[0])
        else:
            side = np.searchsorted(classes, labels)
    meanings = [
        {"prediction": prediction, "towards": towards[a], "against": against}
        for prediction, a in zip(predictions, side.tolist(), strict=True)
    ]
    return machine_weights[side], meanings
