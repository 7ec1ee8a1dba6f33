"""textsvm explain: a model and documents -> the symbols and training documents that decide.

For sequences: tables of mutations and k-mers, and sequence logos.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option_field
from textsvm.cli.output import PICTURES, STDOUT, Force, Kind, Output

if TYPE_CHECKING:
    from textsvm.arrays import Json

MUTATIONS = Kind("a table of mutations", rb"id\tposition\treference\t", ".tsv")
FEATURES = Kind("a table of features", rb"class\tkind\tfeature\tweight\tmerged\n", ".tsv")
FEATURE_LINES = Kind("features as JSON Lines", rb'\{"label": [^\n]*"features": ', ".jsonl")
KMERS = Kind("a table of k-mers", rb"[^\t\n]+\t[-+.\de]+[\t\n]", ".tsv")
_sequences = partial(option_field, panel="Sequences")


@dataclass(frozen=True)
class ExplainOptions:
    """Lengths of lists, and tables and pictures of sequences instead of explanations in the terminal."""

    top: int | None = option_field(
        "List the N features with the largest weights for each class; with --kmers, N k-mers.",
        min=1,
        metavar="N",
    )
    substrings: int = option_field("Number of substrings to list.", min=0, default=12)
    similar: int = option_field("Number of similar training documents to list.", min=0, default=5)
    mutations: Path | None = _sequences(
        "Write the effect of every single-letter change on the decision value; - is stdout."
    )
    kmers: int | None = _sequences(
        "Score all k-mers of this length, as in gkm weight tables; reads no documents.", min=1
    )
    output: Path | None = _sequences(
        "File of the features of --top (tab-separated; JSON Lines with --json) or of the k-mers.",
        "--output", "-o", show_default="-",
    )  # fmt: skip
    alphabet: str | None = _sequences(
        "Letters, such as acgt. Default: the letters of the training texts.", show_default=False
    )
    logo: Path | None = _sequences(
        "Draw a logo as .svg: letter heights are effects; with --kmers a motif of the best."
    )
    force: Force = False

    @property
    def requested(self) -> bool:
        """Whether a table or a picture is requested."""
        return any(path is not None for path in (self.mutations, self.kmers, self.logo))

    def check(self, json: bool, files: Sequence[str] | None) -> None:
        """Raise WrongUsage for options that contradict each other."""
        if self.kmers is None:
            if self.output is not None and self.top is None:
                raise WrongUsage("--output is for the list of features or k-mers and needs --top or --kmers")
            if self.top is not None and (files or self.requested):
                raise WrongUsage("--top reads only the model; give no documents, --mutations or --logo")
            if self.alphabet is not None and not self.requested:
                raise WrongUsage("--alphabet needs --mutations, --kmers or --logo")
        elif files or self.mutations is not None:
            raise WrongUsage("--kmers reads only the model; give no documents and no --mutations")
        if json and self.requested:
            raise WrongUsage("--json is for explanations; --mutations and --kmers write tables")
        if self.logo is not None and self.logo.suffix.lower() != ".svg":
            raise WrongUsage(f"--logo {self.logo}: the name must end in .svg")

    def outputs(
        self, json: bool, model: Path, files: list[str] | None
    ) -> tuple[Output | None, Output | None]:
        """Table and picture, checked before any work."""
        table = picture = None
        names = ["the corpus", *(f"part {n} of the corpus" for n in range(2, len(files or []) + 1))]
        inputs = {"the model": model, **dict(zip(names, map(Path, files or []), strict=False))}
        if self.mutations is not None:
            table = Output("--mutations", self.mutations, MUTATIONS, self.force)
        elif self.kmers is not None:
            table = Output("-o", self.output or STDOUT, KMERS, self.force)
        elif self.output is not None:
            table = Output("-o", self.output, FEATURE_LINES if json else FEATURES, self.force)
        if self.logo is not None:
            picture = Output("--logo", self.logo, PICTURES[".svg"], self.force)
            picture.checked({**inputs, "the table": self.mutations or self.output})
        if table is not None:
            table.checked(inputs)
        return table, picture


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

    textsvm explain sites.textsvm peaks.fa --mutations mutations.tsv --logo peaks.svg

    textsvm explain sites.textsvm --kmers 10 -o kmers.tsv

    For spectrum, gapped and gap-weighted kernels the contributions are exact and sum to the decision value.
    --json prints one object per line, with the contribution of every symbol. Of many documents the terminal
    shows a summary and the first few.
    """
    form.check(printing.json, files)
    outputs = form.outputs(printing.json, model, files)
    console = Console(printing.quiet, any(output is not None and output.is_stdout for output in outputs))

    from textsvm.cli import corpora, explanations, model_files
    from textsvm.evaluation.explanation import explain as explain_texts
    from textsvm.evaluation.mutations import kmer_scores, mutation_scores

    fitted = model_files.load_model(console, model, "cpu")
    training = model_files.Training.of(fitted)
    settings: Json = {"alphabet": form.alphabet, "positive": training.positive}
    if form.kmers is not None:
        with console.progress():
            progress = console.progress_of("predict")
            scores = kmer_scores(fitted, form.kmers, **settings, progress=progress)
        explanations.write_kmers(console, scores, form.kmers, form.top, *outputs)
        return
    if form.top is not None:
        sides = fitted.top_features(form.top)
        if outputs[0] is not None:
            explanations.write_top(outputs[0], sides, printing.json)
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
    if form.requested:
        with console.progress():
            changes = mutation_scores(fitted, texts, **settings, progress=console.progress_of("explain"))
        explanations.write_mutations(console, documents.ids, changes, *outputs)
        return
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
