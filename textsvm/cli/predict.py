"""textsvm predict: a model and documents -> JSON Lines."""

from __future__ import annotations

from typing import Annotated

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, print_json


def predict(
    model: options.ModelPath,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Documents: texts, mails, tables, archives, folders; - is stdin.", show_default="-"
        ),
    ] = None,
    format: options.Format = None,
    text: options.Text = None,
    id: options.Id = None,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Classify documents: one JSON object a line with id, label and decision.

    cat message.eml | textsvm predict spam.textsvm -

    A positive decision means the model's positive class (the one given by --positive in training).
    """
    console = Console(quiet)

    from textsvm.model_file import load
    from textsvm.readers import read_documents

    classifier = load(model)
    classifier.device = device
    training = options.Training.of(classifier)
    sign = -1.0 if training.positive == classifier.classes_[0] else 1.0
    with console.progress():
        documents = read_documents(
            files or ["-"],
            format=format,
            text=text,
            id=id,
            headers=training.headers,
            progress=console.reading,
        )
        decision = classifier.decision_function(documents.texts, console.stage)
    for identifier, problem in documents.problems:
        console.say(f"note: {identifier}: {problem}")
    labels = classifier.classes_[(decision > 0).astype(int)].tolist()
    for identifier, chosen, value in zip(documents.ids, labels, (sign * decision).tolist(), strict=True):
        print_json({"id": identifier, "label": chosen, "decision": value})
    console.say_device(classifier.device_)
