"""textsvm explain: a model and documents -> the symbols and training documents that decide."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option_field
from textsvm.cli.output import Force, Kind, Output

FEATURES = Kind("a table of features", rb"class\tkind\tfeature\tweight\tmerged\n", ".tsv")
FEATURE_LINES = Kind("features as JSON Lines", rb'\{"label": [^\n]*"features": ', ".jsonl")


@dataclass(frozen=True)
class ExplainOptions:
    """Lengths of lists, and the file of the features of a model."""

    top: int | None = option_field(
        "List the N features with the largest weights for each class.", min=1, metavar="N"
    )
    substrings: int = option_field("Number of substrings to list.", min=0, default=12)
    similar: int = option_field("Number of similar training documents to list.", min=0, default=5)
    output: Path | None = option_field(
        "File of the features of --top: tab-separated, or JSON Lines with --json.",
        "--output", "-o", show_default="-",
    )  # fmt: skip
    force: Force = False

    def checked(self, json: bool, model: Path, files: list[str] | None) -> Output | None:
        """File of the features; raises WrongUsage for options that contradict each other."""
        if self.top is not None and files:
            raise WrongUsage("--top reads only the model; give no documents")
        if self.output is None:
            return None
        if self.top is None:
            raise WrongUsage("--output is for the list of features and needs --top")
        kind = FEATURE_LINES if json else FEATURES
        return Output("-o", self.output, kind, self.force).checked({"the model": model})


@options.with_groups
def explain(
    model: options.ModelPath,
    table: options.TableOptions,
    printing: options.PrintingOptions,
    form: ExplainOptions,
    files: options.DocumentPaths = None,
) -> None:
    """Explain a model (--top), or predictions: the coloured text, and the most similar training documents.

    textsvm explain spam.textsvm --top 30 -o features.tsv

    textsvm explain spam.textsvm message.eml

    For spectrum, gapped and gap-weighted kernels the contributions are exact and sum to the decision value.
    --json prints one object per line, with the contribution of every symbol. Of many documents the terminal
    shows a summary and the first few.
    """
    output = form.checked(printing.json, model, files)
    console = Console(printing.quiet, output is not None and output.is_stdout)

    from textsvm.cli import corpora, explanations, model_files
    from textsvm.evaluation.explanation import explain as explain_texts

    fitted = model_files.load_model(console, model, "cpu")
    training = model_files.Training.of(fitted)
    if form.top is not None:
        sides = fitted.top_features(form.top)
        if output is not None:
            explanations.write_top(output, sides, printing.json)
            return
        for side in sides:
            if printing.json:
                console.print_json(side.as_dict())
            else:
                explanations.show_top(console, side)
        return
    documents = corpora.read_unlabelled(
        console, files or ["-"], table, fitted.kernel, headers=training.headers, recorded=training.columns
    )
    corpora.check_letters(console, fitted.kernel, documents)
    for identifier, problem in documents.problems:
        console.say(f"note: {identifier}: {problem}")
    fitted, texts = model_files.examples_for(fitted, documents)
    with console.progress():
        explained = explain_texts(
            fitted, texts, positive=training.positive,
            substrings=form.substrings, similar=form.similar, progress=console.progress_of("explain"),
        )  # fmt: skip
    if form.similar and fitted.support.weights is not None:
        console.say("note: the model was saved without texts, so no training documents are listed")
    if printing.json:
        for identifier, explanation in zip(documents.ids, explained, strict=True):
            console.print_json({"id": identifier, **explanation.as_dict()})
        return
    if len(explained) > explanations.MAX_SHOWN:
        explanations.show_summary(console, explained, form.substrings)
    for identifier, explanation in zip(documents.ids[: explanations.MAX_SHOWN], explained, strict=False):
        explanations.show(console, identifier, explanation)
    if (more := len(explained) - explanations.MAX_SHOWN) > 0:
        console.say(f"note: {more:,} more documents are not shown; --json prints all")
