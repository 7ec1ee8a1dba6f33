"""Models as files: read for a device, written with what they were learnt from and how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textsvm.cli.console import Console
    from textsvm.cli.options import Learning, Reading
    from textsvm.cli.output import Output
    from textsvm.readers import Corpus

_OF_THE_RUN = ("seconds", "kernel_matrix")


def device_of(model: Any) -> Any:
    """The device that an estimator's work is done on."""
    from textsvm.runtime.device import select

    return select(model.device)


def load_model(console: Console, path: Path, device: str) -> Any:
    """A model from its file, to be used on a device."""
    from textsvm.model.file import load_machine

    model = load_machine(path)
    if getattr(model, "digest_", "none needed") is None:
        console.say(
            f"note: {path} was written before models had digests, and damage to it would not be noticed; "
            "textsvm.save(textsvm.load(path), path) gives it one"
        )
    getattr(model, "estimator_", model).device = device
    return model


def save_model(
    output: Output,
    model: Any,
    corpus: Corpus,
    reading: Reading,
    learning: Learning,
    about: dict[str, Any],
    texts: bool = True,
) -> int:
    """Write a model with what it was learnt from and how, for later commands and for people; its bytes.

    `corpus` is what the model was fitted to: its support vectors are remembered by their ids.
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
    """JSON values less times, the number of threads, and where a kernel matrix was held: by the memory free.

    The same command writes the same bytes, however many cores there are and whatever else they were doing.
    """
    if isinstance(value, dict):
        kept = {name: without_run(one) for name, one in value.items() if name not in _OF_THE_RUN}
        return kept | ({"device": "cpu"} if str(kept.get("device")).startswith("cpu ") else {})
    return [without_run(one) for one in value] if isinstance(value, list | tuple) else value


def _opposite(model: Any, reading: Reading) -> str:
    """The class of two that is not the positive one; of a one-class machine all others."""
    return next((str(each) for each in getattr(model, "classes_", ()) if each != reading.positive), "rest")


def save_as_libsvm(output: Output, model: Any) -> int:
    """Write a model for LIBSVM; its bytes."""
    from textsvm.model.libsvm import save_libsvm_model

    with output.place() as path:
        save_libsvm_model(model, path)
        return path.stat().st_size
