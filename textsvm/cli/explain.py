"""textsvm explain: a model and documents -> the symbols and training documents that decide.

For sequences: tables of mutations and k-mers, and sequence logos.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textsvm.cli import corpora, model_files, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option
from textsvm.cli.output import PICTURES, STDOUT, Force, Kind, Output
from textsvm.errors import printable

if TYPE_CHECKING:
    from rich.text import Text

    from textsvm.evaluation.explanation import Explanation
    from textsvm.evaluation.mutations import Kmers, Mutations

#: Background colours of the steps for and against a class, for terminals with 256 colours.
FOR, AGAINST = ("on #fbe5d6", "on #f6c7a5", "on #f0a26b", "on #e67e36"), (
    "on #d6e8f4", "on #a9cfe8", "on #74b1d9", "on #3f92c9",
)  # fmt: skip
#: Most symbols shown of a similar document.
SHOWN = 200
#: Most sequences in a logo.
MOST_DRAWN = 25
MUTATIONS = Kind("a table of mutations", rb"id\tposition\treference\t", ".tsv")
KMERS = Kind("a table of k-mers", rb"[^\t\n]+\t[-+.\de]+[\t\n]", ".tsv")
#: Cells that a spreadsheet would read as a formula, with or without apostrophes before them.
_FORMULA = re.compile(r"'*\s*[=+@\-＝＋＠－].")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_sequences = partial(option, panel="Sequences")
#: Table and picture.
Outputs = tuple[Output | None, Output | None]


@dataclass(frozen=True)
class SequenceOptions:
    """Tables and pictures of sequences, instead of explanations in the terminal."""

    mutations: Annotated[
        Path | None,
        _sequences("Write the effect of every single-letter change on the decision value; - is stdout."),
    ] = None
    kmers: Annotated[
        int | None,
        _sequences("Score all k-mers of this length, as in gkm weight tables; reads no documents."),
    ] = None
    output: Annotated[Path | None, _sequences("File of the k-mers.", "--output", "-o", show_default="-")] = (
        None
    )
    top: Annotated[int | None, _sequences("Only the highest k-mers.", min=1)] = None
    alphabet: Annotated[
        str | None,
        _sequences("Letters, such as acgt. Default: the letters of the training texts.", show_default=False),
    ] = None
    logo: Annotated[
        Path | None,
        _sequences("Draw a logo as .svg: letter heights are effects; with --kmers a motif of the best."),
    ] = None
    force: Force = False

    @property
    def given(self) -> bool:
        """Whether a table or a picture is requested."""
        return any(each is not None for each in (self.mutations, self.kmers, self.logo))

    def check(self, json: bool, files: Sequence[str] | None) -> None:
        """Raise WrongUsage for options that contradict each other."""
        if self.kmers is None:
            for name, value in (("--output", self.output), ("--top", self.top)):
                if value is not None:
                    raise WrongUsage(f"{name} is for the table of k-mers and needs --kmers")
            if self.alphabet is not None and not self.given:
                raise WrongUsage("--alphabet needs --mutations, --kmers or --logo")
        elif self.kmers < 1:
            raise WrongUsage(f"--kmers must be at least 1, got {self.kmers}")
        elif files or self.mutations is not None:
            raise WrongUsage("--kmers reads only the model; give no documents and no --mutations")
        if json and self.given:
            raise WrongUsage("--json is for explanations; --mutations and --kmers write tables")
        if self.logo is not None and self.logo.suffix.lower() != ".svg":
            raise WrongUsage(f"--logo {self.logo}: the name must end in .svg")

    def outputs(self, model: Path, files: Sequence[str] | None) -> Outputs:
        """Table and picture, checked before any work."""
        table = picture = None
        names = ["the corpus", *(f"part {n} of the corpus" for n in range(2, len(files or []) + 1))]
        inputs = {"the model": model, **dict(zip(names, map(Path, files or []), strict=False))}
        if self.mutations is not None:
            table = Output("--mutations", self.mutations, MUTATIONS, self.force)
        elif self.kmers is not None:
            table = Output("-o", self.output or STDOUT, KMERS, self.force)
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
    sequences: SequenceOptions,
    files: options.DocumentPaths = None,
    substrings: Annotated[int, option("Number of substrings to list.", min=0)] = 12,
    similar: Annotated[int, option("Number of similar training documents to list.", min=0)] = 5,
) -> None:
    """Explain predictions: the coloured text, and the most similar training documents.

    textsvm explain spam.textsvm message.eml

    textsvm explain sites.textsvm peaks.fa --mutations mutations.tsv --logo peaks.svg

    textsvm explain sites.textsvm --kmers 10 -o kmers.tsv

    For spectrum, gapped and gap-weighted kernels the contributions are exact and sum to the decision value.
    --json prints one object per line, with the contribution of every symbol.
    """
    sequences.check(printing.json, files)
    outputs = sequences.outputs(model, files)
    console = Console(printing.quiet, any(each is not None and each.is_stdout for each in outputs))

    from textsvm.evaluation.explanation import explain as explain_texts
    from textsvm.evaluation.judge import machine_of
    from textsvm.readers.read import read_documents

    fitted = model_files.load_model(console, model, "cpu")
    training = model_files.Training.of(fitted)
    if sequences.kmers is not None:
        write_kmers(console, fitted, sequences, training.positive, outputs)
        return
    with console.progress():
        documents = read_documents(
            files or ["-"],
            table.format,
            **corpora.columns(table, machine_of(fitted).kernel_),
            id=table.id,
            headers=training.headers,
            progress=console.progress_of("read"),
        )
        documents = corpora.with_files(documents, table)
        corpora.check_letters(machine_of(fitted).kernel_, documents)
    for identifier, problem in documents.problems:
        console.say(f"note: {identifier}: {problem}")
    texts = corpora.given_to(fitted, documents)
    if sequences.given:
        write_mutations(console, fitted, sequences, training.positive, (documents.ids, texts), outputs)
        return
    with console.progress():
        explanations = explain_texts(
            fitted, texts, positive=training.positive,
            substrings=substrings, similar=similar, progress=console.progress_of("explain"),
        )  # fmt: skip
    if similar and machine_of(fitted).kept.weights is not None:
        console.say("note: the model was saved without texts, so no training documents are listed")
    for identifier, each in zip(documents.ids, explanations, strict=True):
        if printing.json:
            console.print_json({"id": identifier, **each.as_dict()})
        else:
            _show(console, identifier, each)


def _show(console: Console, identifier: str, explanation: Explanation) -> None:
    """Print an explanation."""
    from rich.text import Text

    from textsvm.reporting.formatting import visible

    number = explanation.towards is None
    prediction = explanation.prediction
    if number:
        prediction = f"{prediction:.4g}"
    elif isinstance(prediction, tuple):
        prediction = ", ".join(map(str, prediction))
    head = Text(printable(f"{identifier}: {prediction}"), style="bold")
    if not number:
        head.append(
            printable(f"  (value {explanation.value:+.4f}, positive for {explanation.towards})"),
            style="not bold dim",
        )
    console.stdout.print(head, soft_wrap=True)
    console.stdout.print(coloured(explanation), soft_wrap=True)
    console.stdout.print(key(explanation), soft_wrap=True)
    if explanation.substrings:
        rows = [
            (visible(each.text), f"{each.count}", f"{each.contribution:+.4f}")
            for each in explanation.substrings
        ]
        console.table("substrings", rows, ("", "times", "contribution"))
    if explanation.similar:
        rows = [
            (each.name, f"{each.kernel:.3f}", f"{each.contribution:+.4f}") for each in explanation.similar
        ]
        console.table("training documents", rows, ("document", "similarity", "contribution"))
        for each in explanation.similar:
            console.line(
                f"{printable(each.name)}: {printable(each.text[:SHOWN])}{' …' * (len(each.text) > SHOWN)}"
            )
    console.line("")


def coloured(explanation: Explanation) -> Text:
    """Text with the contribution of each symbol as its background colour."""
    from rich.text import Text

    from textsvm.reporting.formatting import runs

    text = Text()
    for piece, step in runs(explanation.text, explanation.symbols):
        style = "" if not step else f"black {FOR[step - 1] if step > 0 else AGAINST[-step - 1]}"
        text.append(printable(piece), style=style)
    return text


def key(explanation: Explanation) -> Text:
    """Legend of the colours."""
    from rich.text import Text

    towards, away = (printable(str(side)) for side in _sides(explanation))
    how = explanation.attribution.description
    return Text.assemble(
        ("   ", FOR[3]), f" for {towards}  ", ("   ", AGAINST[3]), f" for {away}; {how}", style="dim"
    )


def _sides(explanation: Explanation) -> tuple[Any, Any]:
    if explanation.towards is None:
        return "a higher number", "a lower one"
    return explanation.towards, "other classes" if explanation.against is None else explanation.against


def write_kmers(
    console: Console, model: Any, sequences: SequenceOptions, positive: Any, outputs: Outputs
) -> None:
    """Write the scores of all k-mers, and draw their motif."""
    from textsvm.evaluation.mutations import kmer_scores, motifs
    from textsvm.reporting.logo import document, panel_of_motif

    table, picture = outputs
    assert table is not None
    assert sequences.kmers is not None
    with console.progress():
        scores = kmer_scores(
            model, sequences.kmers, sequences.alphabet, positive=positive,
            progress=console.progress_of("predict"),
        )  # fmt: skip
    table.write_lines(_kmer_lines(scores, sequences.top))
    console.say(f"note: {len(scores.kmers):,} {sequences.kmers}-mers are scored{_side(scores.towards)}")
    if picture is not None:
        panels = [panel_of_motif(motif) for motif in motifs(scores, sequences.top)]
        picture.write_lines([document(panels, f"Motifs of the best {sequences.kmers}-mers")])


def write_mutations(
    console: Console,
    model: Any,
    sequences: SequenceOptions,
    positive: Any,
    documents: tuple[Sequence[Any], Any],
    outputs: Outputs,
) -> None:
    """Write and draw the effects of single-letter changes; `documents` are ids and texts."""
    from textsvm.evaluation.mutations import mutation_scores
    from textsvm.reporting.logo import document, panel_of_mutations

    table, picture = outputs
    ids, texts = documents
    with console.progress():
        scores = mutation_scores(
            model, texts, sequences.alphabet, positive=positive,
            progress=console.progress_of("explain"),
        )  # fmt: skip
    if table is not None:
        table.write_lines(_mutation_lines(ids, scores))
    if scores:
        console.say(f"note: changes of {len(scores):,} documents are scored{_side(scores[0].towards)}")
    if picture is not None:
        drawn = list(zip(ids, scores, strict=True))[:MOST_DRAWN]
        if len(drawn) < len(scores):
            console.say(f"note: the first {MOST_DRAWN} of {len(scores):,} documents are drawn")
        panels = [panel_of_mutations(str(identifier), each) for identifier, each in drawn]
        picture.write_lines([document(panels, "What changing each letter does to the decision value")])


def _kmer_lines(table: Kmers, most: int | None) -> Iterator[str]:
    several, odd = len(table.towards) > 1, not table.letters.isalpha()
    for side, label in enumerate(table.towards):
        end = f"\t{_cell(label)}\n" if several else "\n"
        order = table.top(most, side)
        scores = table.scores[order, side].tolist()
        for kmer, score in zip(table.kmers[order].tolist(), scores, strict=True):
            yield f"{_cell(kmer) if odd else kmer}\t{score:.9g}{end}"


def _mutation_lines(ids: Sequence[Any], tables: Sequence[Mutations]) -> Iterator[str]:
    several = bool(tables) and len(tables[0].towards) > 1
    yield "id\tposition\treference\talternative\tscore" + ("\tclass\n" if several else "\n")
    for identifier, each in zip(ids, tables, strict=True):
        ends = [f"\t{_cell(label)}\n" if several else "\n" for label in each.towards]
        for end, scores in zip(ends, each.scores.tolist(), strict=True):
            for i, (own, row) in enumerate(zip(each.text, scores, strict=True), 1):
                for letter, score in zip(each.letters, row, strict=True):
                    if letter != own:
                        yield f"{_cell(identifier)}\t{i}\t{_cell(own)}\t{_cell(letter)}\t{score:.9g}{end}"


def _side(towards: Sequence[Any]) -> str:
    """Class of positive scores, if there is a single one."""
    side = towards[0] if len(towards) == 1 else None
    return "" if side is None else f"; positive scores are for {side}"


def _cell(value: Any) -> str:
    """Cell of a tab-separated table: tabs and newlines become spaces, and formulas get an apostrophe.

    A formula that already starts with apostrophes gets one more, so that removing the first apostrophe of
    such a cell restores the text.
    """
    text = printable(str(value)).replace("\t", " ").replace("\n", " ")
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
