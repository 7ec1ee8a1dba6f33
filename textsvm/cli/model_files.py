"""Models of commands: their files, the facts of their training, and the kernel that fits a corpus.

If no kernel is named, vectors get a Gaussian kernel, and columns the sum of the fast kernel on each text
column and a Gaussian kernel on the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from textsvm.arrays import Json
from textsvm.cli import corpora
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.corpora import KernelOrName
from textsvm.cli.kernels import KernelOptions
from textsvm.cli.options import LearningOptions, ReadingOptions
from textsvm.cli.output import Output
from textsvm.errors import InputError
from textsvm.kernels import Gaussian, Kernel, spelling
from textsvm.kernels.resolve import sum_on_columns, unchecked_kernel
from textsvm.linalg.vectors import Vectors
from textsvm.model.file import load, save
from textsvm.model.rules import CalibratedRule, LabelRule, NumberRule, has_probabilities
from textsvm.model.settings import CalibrationSettings, ClassifierSettings, Settings
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import FIRST_INDEX, VECTORS, Corpus
from textsvm.runtime.compiled import scipy
from textsvm.training.grams import check

#: Settings of a training, also with calibration.
AnySettings: TypeAlias = Settings | CalibrationSettings
ONLINE, ONE_CLASS = "OnlineSVC", "OneClassSVM"
#: Facts that depend on the computer, which model files do not hold.
_OF_THE_RUN = ("seconds", "kernel_matrix")


@dataclass(frozen=True)
class Abilities:
    """Outputs of a model."""

    classes: bool  #: It is a classifier
    decisions: bool  #: It has decision values, which a regression has not
    probabilities: bool
    sets: bool  #: Prediction sets, of a calibrated model
    multilabel: bool

    @property
    def predicts(self) -> str:
        """Kind of the predictions."""
        return "several labels" if self.multilabel else "labels" if self.decisions else "numbers"

    @classmethod
    def of(cls, model: TrainedModel) -> Abilities:
        rule = model.rule
        return cls(
            classes=rule.classes is not None,
            decisions=not isinstance(rule, NumberRule),
            probabilities=has_probabilities(rule),
            sets=isinstance(rule, CalibratedRule),
            multilabel=isinstance(rule, LabelRule),
        )


@dataclass(frozen=True)
class Training:
    """Training options in a model file that later commands repeat."""

    positive: str | None = None
    negative: str | None = None
    headers: bool = False
    regress: str | None = None
    label_separator: str | None = None
    columns: dict[str, str] = field(default_factory=dict)  #: Columns of the training table, by role

    @classmethod
    def of(cls, model: TrainedModel) -> Training:
        """Options of a model; values of wrong type in its file are ignored."""
        info, reading = model.info, model.info.get("reading")
        names = ("positive", "negative", "regress", "label_separator")
        strings = {name: value for name in names if isinstance(value := info.get(name), str)}
        if isinstance(model.rule, LabelRule):
            strings.setdefault("label_separator", ";")  # saved in Python
        reading = reading if isinstance(reading, dict) else {}
        detected = value if isinstance(value := reading.get("detected"), dict) else {}
        named = {role: reading.get(role) or detected.get(role) for role in ("text", "label", "id")}
        named[FIRST_INDEX] = detected.get(FIRST_INDEX, "1") if reading else None
        columns = {role: column for role, column in named.items() if isinstance(column, str)}
        return cls(**strings, headers=reading.get("headers") is True, columns=columns)


def load_model(console: Console, path: Path, device: str, online: bool = False) -> TrainedModel:
    """Load a model for use on a device; InputError for an OnlineSVC unless the command takes them."""
    model = load(path)
    if not online and model.estimator_name == ONLINE:
        raise InputError(f"{path} is an OnlineSVC model, which only predict, update and model read")
    return model.on(device)


def load_rival(console: Console, path: Path, device: str, model: Path, fitted: TrainedModel) -> TrainedModel:
    """Load a model to compare with another; InputError if it predicts other values."""
    rival = load_model(console, path, device)
    own, other = Abilities.of(fitted).predicts, Abilities.of(rival).predicts
    if own != other:
        raise InputError(f"--beside {path} predicts {other}, and {model} {own}; compare equal kinds")
    return rival


def classifier_of(settings: AnySettings) -> Settings:
    """Settings of the machines of a model, which may be calibrated."""
    return settings.classifier if isinstance(settings, CalibrationSettings) else settings


def settings_again(model: TrainedModel, with_choice: bool) -> AnySettings:
    """Settings to train a model again, with the C and loss used by a classifier if `with_choice`."""
    record, rule = model.record, model.rule
    assert isinstance(record.settings, Settings)
    settings = replace(record.settings, device=model.device)
    if with_choice and isinstance(settings, ClassifierSettings) and record.C is not None:
        settings = replace(settings, C=record.C, loss=record.loss)
    if isinstance(rule, CalibratedRule) and isinstance(settings, ClassifierSettings):
        return CalibrationSettings(settings, rule.method, reject=rule.reject)
    return settings


def save_model(
    output: Output,
    model: TrainedModel,
    corpus: Corpus,
    reading: ReadingOptions,
    learning: LearningOptions,
    about: Json,
    texts: bool = True,
) -> int:
    """Save a model with the facts of its training; returns the size in bytes.

    `corpus` is the training corpus, from which the ids of the support vectors are taken.
    """
    classes = () if model.classes is None else model.classes
    opposite = next((str(label) for label in classes if label != reading.positive), "rest")
    labels = {"positive": reading.positive, "negative": reading.negative or opposite}
    ids = [corpus.ids[i] for i in model.support.indices] if texts else None
    info = {
        "corpus": corpus.source, "support_ids": ids,
        "format": corpus.format, "part": reading.part,
        "reading": reading.as_dict() | ({"detected": corpus.detected} if corpus.detected else {}),
        "regress": learning.regress, "label_separator": learning.separator,
        **(labels if reading.positive else {}), **about,
    }  # fmt: skip
    with output.place() as path:
        save(model, path, without_run(info), texts)
        return path.stat().st_size


def corpus_digest(corpus: Corpus) -> str:
    """BLAKE2b hash of the texts and labels of a corpus."""
    hashed = blake2b(digest_size=16)
    columns = [corpus.texts, *(corpus.columns or {}).values(), corpus.labels or [], corpus.targets or []]
    for value in (value for column in columns for value in column):
        hashed.update(str(value).encode("utf-8", "surrogatepass") + b"\0")
    return hashed.hexdigest()


def corpus_facts(
    corpus: Corpus, paths: Sequence[Path], part: str | None = None, new: bool = False, **columns: Any
) -> Json:
    """Facts for `textsvm update`; `new` documents were added by it, from `columns` if these were named."""
    facts = {"paths": list(map(str, paths)), "part": part, "digest": corpus_digest(corpus), "new": new}
    return facts | ({"columns": columns} if columns else {})


def update_facts(
    corpus: Corpus, paths: Sequence[Path], reading: ReadingOptions, learning: LearningOptions
) -> Json:
    """Corpus and options with which `textsvm update` trains again; no corpus if it has several files."""
    beside = reading.vectors is not None or reading.labels is not None
    return {
        "corpora": [] if beside else [corpus_facts(corpus, paths, reading.part)],
        "format": reading.format, "part": reading.part, "skip_invalid": reading.skip_invalid,
        "weights": learning.weights, "duplicates": learning.duplicates.value,
        **({"corrections": corpus.corrections} if corpus.corrections else {}),
    }  # fmt: skip


def training_facts(model: TrainedModel, training: Corpus) -> Json:
    """Facts of a training run, for --json and the model file."""
    record, kernel = model.record, model.kernel
    assert kernel is not None
    assert record.device is not None
    solutions = record.solutions
    C = record.settings.as_dict().get("C") if record.C is None else record.C
    return {
        "estimator": model.estimator_name,
        "device": record.device.description,
        "kernel": kernel.as_dict(),
        "kernel_spelled": spelling.spell(kernel),
        "chosen": record.chosen or None,
        "C": C,
        **({} if record.C is None else {"loss": record.loss}),
        "kernel_matrix": record.gram,
        "n_train": len(training),
        "classes": _per_class(model, training),
        "n_support": len(model.support.indices),
        "machines": len(solutions),
        "iterations": record.n_iter,
        "converged": all(solution.converged for solution in solutions),
        "status": "; ".join(dict.fromkeys(s.status for s in solutions if not s.converged)) or "converged",
        "objective": sum(solution.objective for solution in solutions),
        "duality_gap": max(solution.duality_gap for solution in solutions),
    }


def _per_class(model: TrainedModel, training: Corpus) -> list[Json]:
    """Number of documents and support vectors of each class; empty for regression."""
    if training.targets is not None:
        return []
    counts = corpora.label_counts(training)
    names = list(counts) if model.classes is None else model.classes
    return [
        {"class": str(name), "documents": counts[str(name)], "support_vectors": int(support)}
        for name, support in zip(names, model.record.n_support, strict=True)
    ]


def without_run(value: Any) -> Any:
    """JSON value without times, number of threads and place of the kernel matrix.

    So the same command writes the same bytes, whatever the number of cores and the free memory.
    """
    if isinstance(value, dict):
        rest = {name: without_run(item) for name, item in value.items() if name not in _OF_THE_RUN}
        return rest | ({"device": "cpu"} if str(rest.get("device")).startswith("cpu ") else {})
    return [without_run(item) for item in value] if isinstance(value, list | tuple) else value


# Kernels and documents


def examples_for(model: TrainedModel, corpus: Corpus) -> tuple[TrainedModel, Any]:
    """Documents of a corpus as a model takes them, and the model.

    Sparse vectors get as many columns as the model has, or the model as many as they have.
    """
    examples, kernel = corpus.examples, model.kernel
    if kernel is not None:
        _require(kernel.examples, "the model", corpus)
    if corpus.vectors is None:
        return model, examples
    if isinstance(examples, dict):
        if kernel is None or not scipy.sparse.issparse(examples[VECTORS]):
            return model, examples
        documents = model.support.documents
        widths = [documents.of(view).n_features for view in kernel.views if view.column == (VECTORS,)]
        return model, {**examples, VECTORS: _widened(examples[VECTORS], max(widths, default=0))}
    support = model.support
    if not isinstance(support.documents, Vectors) or not scipy.sparse.issparse(examples):
        return model, examples
    if examples.shape[1] > support.documents.n_features and support.documents.sparse:
        wider = Vectors(_widened(support.documents.values, examples.shape[1]))
        support = replace(support, documents=wider, n_features=examples.shape[1])
        model = replace(model, predictor=replace(model.predictor, support=support))
    return model, _widened(examples, support.documents.n_features)


def _widened(vectors: Any, width: int) -> Any:
    """A sparse matrix with columns of zeros appended up to `width` columns."""
    if vectors.shape[1] >= width:
        return vectors
    vectors = vectors.copy()
    vectors.resize(vectors.shape[0], width)
    return vectors


def settle(console: Console, settings: Settings, is_named: bool, corpus: Corpus) -> Settings:
    """Settings with the kernel that fits the documents of a corpus; it is reported if none was named."""
    kernel = kernel_for(settings.kernel if is_named else None, corpus, settings.encoder)
    if not 1e-6 <= (C := settings.as_dict().get("C", 1.0)) <= 1e6:
        console.say(f"note: C = {C:g} is far from usual values, 0.01 to 1000")
    if kernel is None:
        return settings
    settings = replace(settings, kernel=kernel)
    check(settings)
    if not is_named:
        console.say(f"note: the default kernel for {_kind_of(corpus)} is used: {spelling.spell(kernel)}")
    return settings


def settle_grid(
    options: KernelOptions, settings: Settings, grid: dict[str, list[Any]], corpus: Corpus
) -> tuple[Settings, list[dict[str, list[Any]]]]:
    """`settle` for `tune`: settings, and the grid, with the default of classifiers.

    For vectors without a named kernel the grid has several values of gamma.
    """
    if _kind_of(corpus) == "vectors" and not options.named:
        grid["kernel"] = options.grid(tuning=True, default="gaussian")
    grid["kernel"] = [kernel_for(kernel, corpus, settings.encoder) or kernel for kernel in grid["kernel"]]
    is_tried = isinstance(settings, ClassifierSettings) and _kind_of(corpus) == "texts"
    if options.kernel and options.tries_default and not is_tried:
        raise WrongUsage("--kernel auto is only for classifiers of texts; name another kernel")
    default: list[dict[str, list[Any]]] = [{"kernel": ["auto"], "C": [1.0]}] * (
        is_tried and options.tries_default
    )
    return replace(settings, kernel=grid["kernel"][0]), [grid, *default]


def kernel_for(kernel: KernelOrName, corpus: Corpus, encoder: Any = None) -> Kernel | None:
    """Kernel to set for the documents of a corpus; None to keep `kernel`."""
    kind = _kind_of(corpus)
    if kind == "columns":
        if isinstance(kernel, Kernel) and _reads(kernel) == "columns":
            return kernel
        return _sum_on_columns(kernel, corpus.examples, encoder)
    if kernel is not None:
        _require(_reads(kernel), "the kernel", corpus)
    return Gaussian() if kind == "vectors" and kernel is None else None


def _sum_on_columns(kernel: KernelOrName, examples: dict[str, Any], encoder: Any) -> Kernel:
    """Sum of a text kernel on each text column and a vector kernel on all numbers and on the vectors.

    `kernel` replaces the default for its kind of column.
    """
    numbers = [name for name, value in examples.items() if isinstance(value, np.ndarray) and name != VECTORS]
    texts = [name for name in examples if name not in numbers and name != VECTORS]
    of = {_reads(kernel): kernel} if isinstance(kernel, Kernel) else {}
    return sum_on_columns(texts, [numbers, [VECTORS] * (VECTORS in examples)], of, encoder)


def _reads(kernel: KernelOrName) -> str:
    """Kind of document that a kernel compares; "" for None."""
    return "" if kernel is None else unchecked_kernel(kernel).examples


def _kind_of(corpus: Corpus) -> str:
    """Kind of the documents of a corpus: columns, vectors or texts."""
    if isinstance(corpus.examples, dict):
        return "columns"
    return "texts" if corpus.vectors is None else "vectors"


def _require(reads: str, subject: str, corpus: Corpus) -> None:
    """Raise InputError if a corpus holds another kind of document than `subject` compares."""
    kind = _kind_of(corpus)
    if kind != reads:
        remedy = {
            "vectors": "use linear, polynomial, gaussian or sigmoid",
            "texts": "name another kernel, or give vectors",
            "columns": "name the columns in the kernel, as in subject=spectrum:1-5+hour,size=gaussian",
        }[kind]
        raise InputError(f"{corpus.source} holds {kind}, and {subject} compares {reads}; {remedy}")
