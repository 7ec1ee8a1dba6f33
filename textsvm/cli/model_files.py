"""Model files: loading for a device, saving with the facts of the training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textsvm.cli.console import Console
    from textsvm.cli.options import LearningOptions, ReadingOptions
    from textsvm.cli.output import Output
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

    @classmethod
    def of(cls, model: Any) -> Training:
        """Options of a model; values of wrong type in its file are ignored."""
        info, reading = model.info_, model.info_.get("reading")
        values = [info.get(name) for name in ("positive", "negative", "regress", "label_separator")]
        positive, negative, regress, separator = (each if isinstance(each, str) else None for each in values)
        headers = isinstance(reading, dict) and reading.get("headers") is True
        return cls(positive, negative, headers, regress, separator)


def device_of(model: Any) -> Any:
    """Device of an estimator."""
    from textsvm.runtime.device import select

    return select(model.device)


def load_model(console: Console, path: Path, device: str) -> Any:
    """Load a model for use on a device."""
    from textsvm.model.file import load_machine

    model = load_machine(path)
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
    from textsvm.evaluation.judge import machine_of
    from textsvm.model.file import save

    labels = {"positive": reading.positive, "negative": reading.negative or _opposite(model, reading)}
    ids = [corpus.ids[i] for i in machine_of(model).support_] if texts else None
    info = {
        "corpus": corpus.source, "support_ids": ids,
        "format": corpus.format, "part": reading.part, "reading": reading.as_dict(),
        "regress": learning.regress, "label_separator": learning.separator,
        **(labels if reading.positive else {}), **about,
    }  # fmt: skip
    with output.place() as path:
        save(model, path, without_run(info), texts)
        return path.stat().st_size


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


def save_as_libsvm(output: Output, model: Any) -> int:
    """Save a model in LIBSVM's format; returns the size in bytes."""
    from textsvm.model.libsvm import save_libsvm_model

    with output.place() as path:
        save_libsvm_model(model, path)
        return path.stat().st_size
