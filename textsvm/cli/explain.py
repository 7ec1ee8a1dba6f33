"""textsvm explain: a model and documents -> which symbols and which training documents decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import examples, model_files, options, sequences
from textsvm.cli.console import Console

if TYPE_CHECKING:
    from rich.text import Text

    from textsvm.evaluation.explanation import Explanation

#: Backgrounds of the steps of colour, on any terminal with 256 colours: for and against.
FOR, AGAINST = ("on #fbe5d6", "on #f6c7a5", "on #f0a26b", "on #e67e36"), (
    "on #d6e8f4", "on #a9cfe8", "on #74b1d9", "on #3f92c9",
)  # fmt: skip
#: Symbols of a similar document that are shown.
SHOWN = 200


@options.with_groups
def explain(
    model: options.ModelPath,
    table: options.Table,
    printing: options.Printing,
    wanted: sequences.Sequences,
    files: options.DocumentPaths = None,
    substrings: Annotated[int, typer.Option(min=0, help="How many substrings are named.")] = 12,
    similar: Annotated[int, typer.Option(min=0, help="How many training documents are named.")] = 5,
) -> None:
    """Show why a model says what it says: the text coloured, and the training documents most like it.

    textsvm explain spam.textsvm message.eml

    textsvm explain sites.textsvm peaks.fa --mutations mutations.tsv --logo peaks.svg

    textsvm explain sites.textsvm --kmers 10 -o kmers.tsv

    With spectrum, gapped and gap-weighted kernels the colours are exact: they sum to the decision value.
    With --json there is one object a line, with the contribution of every symbol.
    """
    wanted.check(printing.json, files)
    outputs = wanted.outputs(model, files)
    console = Console(printing.quiet, any(each is not None and each.is_stdout for each in outputs))

    from textsvm.evaluation.explanation import explain as ask
    from textsvm.evaluation.judge import machine_of
    from textsvm.readers import read_documents

    fitted = model_files.load_model(console, model, "cpu")
    training = options.Training.of(fitted)
    if wanted.kmers is not None:
        sequences.kmers(console, fitted, wanted, training.positive, outputs)
        return
    with console.progress():
        documents = read_documents(
            files or ["-"],
            table.format,
            **examples.columns(table, machine_of(fitted).kernel_),
            id=table.id,
            headers=training.headers,
            progress=console.reading,
        )
        documents = examples.beside(documents, table)
        examples.check_letters(machine_of(fitted).kernel_, documents)
    for identifier, problem in documents.problems:
        console.say(f"note: {identifier}: {problem}")
    texts = examples.given_to(fitted, documents)
    if wanted.wanted:
        sequences.mutations(console, fitted, wanted, training.positive, (documents.ids, texts), outputs)
        return
    with console.progress():
        found = ask(
            fitted, texts, positive=training.positive,
            substrings=substrings, similar=similar,
            progress=lambda done, total: console.stage("explain", done, total),
        )  # fmt: skip
    if similar and machine_of(fitted).kept.weights is not None:
        console.say("note: the model was saved without texts, so no training documents are named")
    for identifier, each in zip(documents.ids, found, strict=True):
        if printing.json:
            console.print_json({"id": identifier, **each.as_dict()})
        else:
            _show(console, identifier, each)


def _show(console: Console, identifier: str, found: Explanation) -> None:
    """One explanation for people."""
    from rich.text import Text

    from textsvm.errors import printable
    from textsvm.reporting.formatting import visible

    number = found.towards is None
    said = found.prediction
    prediction = (
        f"{said:.4g}" if number else ", ".join(map(str, said)) if isinstance(said, tuple) else str(said)
    )
    head = Text(printable(f"{identifier}: {prediction}"), style="bold")
    if not number:
        head.append(
            printable(f"  (value {found.value:+.4f}, positive for {found.towards})"), style="not bold dim"
        )
    console.stdout.print(head, soft_wrap=True)
    console.stdout.print(coloured(found), soft_wrap=True)
    console.stdout.print(key(found), soft_wrap=True)
    if found.substrings:
        rows = [
            (visible(each.text), f"{each.count}", f"{each.contribution:+.4f}") for each in found.substrings
        ]
        console.table("substrings", rows, ("", "times", "contribution"))
    if found.similar:
        rows = [
            (each.name, f"{each.kernel:.3f}", f"{each.contribution:+.4f}")
            for each in found.similar
        ]  # fmt: skip
        console.table("training documents", rows, ("document", "similarity", "contribution"))
        for each in found.similar:
            console.line(
                f"{printable(each.name)}: {printable(each.text[:SHOWN])}{' …' * (len(each.text) > SHOWN)}"
            )
    console.line("")


def coloured(found: Explanation) -> Text:
    """The text, each symbol on the colour of what it contributes."""
    from rich.text import Text

    from textsvm.errors import printable
    from textsvm.reporting.formatting import runs

    text = Text()
    for piece, step in runs(found.text, found.symbols):
        style = "" if not step else f"black {FOR[step - 1] if step > 0 else AGAINST[-step - 1]}"
        text.append(printable(piece), style=style)
    return text


def key(found: Explanation) -> Text:
    """What the colours mean."""
    from rich.text import Text

    from textsvm.errors import printable

    towards, away = (printable(str(side)) for side in _sides(found))
    how = found.attribution.description
    return Text.assemble(
        ("   ", FOR[3]), f" for {towards}  ", ("   ", AGAINST[3]), f" for {away}; {how}", style="dim"
    )


def _sides(found: Explanation) -> tuple[Any, Any]:
    if found.towards is None:
        return "a higher number", "a lower one"
    return found.towards, "other classes" if found.against is None else found.against
