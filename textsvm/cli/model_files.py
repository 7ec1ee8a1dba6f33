"""Model files: loading for a device, saving with the facts of the training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from textsvm.cli.console import Console
from textsvm.cli.corpora import label_counts
from textsvm.cli.options import LearningOptions, ReadingOptions
from textsvm.cli.output import Output
from textsvm.errors import InputError
from textsvm.evaluation.judge import fitted_machine
from textsvm.kernels.spelling import spell
from textsvm.model.file import load, save
from textsvm.readers.corpus import Corpus

_OF_THE_RUN = ("seconds", "kernel_matrix")


@dataclass(frozen=True)
class Training:
    """Training options in a model file that later commands repeat."""

    positive: str | None
    negative: str | None
    headers: bool = False
    regress: str | None = None
    label_separator: str | None = None
    columns: dict[str, str] = field(default_factory=dict)  #: Columns of the training table, by role

    @classmethod
    def of(cls, model: Any) -> Training:
        """Options of a model; values of wrong type in its file are ignored."""
        info, reading = model.info_, model.info_.get("reading")
        values = [info.get(name) for name in ("positive", "negative", "regress", "label_separator")]
        positive, negative, regress, separator = (each if isinstance(each, str) else None for each in values)
        reading = reading if isinstance(reading, dict) else {}
        detected = each if isinstance(each := reading.get("detected"), dict) else {}
        named = {role: reading.get(role) or detected.get(role) for role in ("text", "label", "id")}
        columns = {role: column for role, column in named.items() if isinstance(column, str)}
        return cls(positive, negative, reading.get("headers") is True, regress, separator, columns)


def load_model(console: Console, path: Path, device: str, online: bool = False) -> Any:
    """Load a model for use on a device; InputError for an OnlineSVC unless the command takes them."""
    model = load(path)
    if not online and model.estimator_name == "OnlineSVC":
        raise InputError(f"{path} is an OnlineSVC model, which only predict, update and model read")
    if getattr(model, "digest_", "none needed") is None:
        console.say(
            f"note: {path} has no digest, so damage cannot be detected; "
            "textsvm.save(textsvm.load(path), path) adds one"
        )
    getattr(model, "estimator_", model).device = device
    return model


def save_model(
    output: Output,
    model: Any,
    corpus: Corpus,
    reading: ReadingOptions,
    learning: LearningOptions,
    about: dict[str, Any],
    texts: bool = True,
) -> int:
    """Save a model with the facts of its training; returns the size in bytes.

    `corpus` is the training corpus, from which the ids of the support vectors are taken.
    """
    labels = {"positive": reading.positive, "negative": reading.negative or _opposite(model, reading)}
    ids = [corpus.ids[i] for i in fitted_machine(model).support_] if texts else None
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
) -> dict[str, Any]:
    """Facts for `textsvm update`; `new` documents were added by it, from `columns` if these were named."""
    facts = {"paths": list(map(str, paths)), "part": part, "digest": corpus_digest(corpus), "new": new}
    return facts | ({"columns": columns} if columns else {})


def update_facts(
    corpus: Corpus, paths: Sequence[Path], reading: ReadingOptions, learning: LearningOptions
) -> dict[str, Any]:
    """Corpus and options with which `textsvm update` trains again; no corpus if it has several files."""
    beside = reading.vectors is not None or reading.labels is not None
    return {
        "corpora": [] if beside else [corpus_facts(corpus, paths, reading.part)],
        "format": reading.format, "part": reading.part, "skip_invalid": reading.skip_invalid,
        "weights": learning.weights, "duplicates": learning.duplicates.value,
        **({"corrections": corpus.corrections} if corpus.corrections else {}),
    }  # fmt: skip


def training_facts(model: Any, training: Corpus) -> dict[str, Any]:
    """Facts of a training run, for --json and the model file."""
    solutions, approximation = model.solutions_, fitted_machine(model).approximation_
    return {
        "estimator": model.estimator_name,
        "device": model.device_.description,
        "kernel": model.kernel_.structure.as_dict(),
        "kernel_spelled": spell(model.kernel_),
        "chosen": getattr(model, "chosen_", "") or None,
        "C": getattr(model, "C_", getattr(model, "C", None)),
        **({"loss": model.loss_} if hasattr(model, "loss_") else {}),
        "kernel_matrix": model.gram_description_,
        "approximation": None if approximation is None else asdict(approximation),
        "n_train": len(training),
        "classes": _per_class(model, training),
        "n_support": len(model.support_),
        "machines": len(solutions),
        "iterations": model.n_iter_,
        "converged": all(solution.converged for solution in solutions),
        "status": "; ".join(dict.fromkeys(s.status for s in solutions if not s.converged)) or "converged",
        "objective": sum(solution.objective for solution in solutions),
        "duality_gap": max(solution.duality_gap for solution in solutions),
    }


def _per_class(model: Any, training: Corpus) -> list[dict[str, Any]]:
    """Number of documents and support vectors of each class; empty for regression."""
    if training.targets is not None:
        return []
    counts = label_counts(training)
    names = getattr(model, "classes_", list(counts))
    return [
        {"class": str(name), "documents": counts[str(name)], "support_vectors": int(support)}
        for name, support in zip(names, model.n_support_, strict=True)
    ]


def without_run(value: Any) -> Any:
    """JSON value without times, number of threads and place of the kernel matrix.

    So the same command writes the same bytes, whatever the number of cores and the free memory.
    """
    if isinstance(value, dict):
        kept = {name: without_run(each) for name, each in value.items() if name not in _OF_THE_RUN}
        return kept | ({"device": "cpu"} if str(kept.get("device")).startswith("cpu ") else {})
    return [without_run(each) for each in value] if isinstance(value, list | tuple) else value


def _opposite(model: Any, reading: ReadingOptions) -> str:
    """Negative class of a two-class model, else "rest"."""
    return next((str(each) for each in getattr(model, "classes_", ()) if each != reading.positive), "rest")
