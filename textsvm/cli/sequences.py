"""textsvm explain of sequences: tables of mutations and of k-mers, and sequence logos."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.output import PICTURES, STDOUT, Force, Kind, Output
from textsvm.errors import printable
from textsvm.runtime.files import replacing

if TYPE_CHECKING:
    from textsvm.evaluation.mutations import Kmers, Mutations

_PANEL = "Sequences"
MUTATIONS = Kind("a table of mutations", rb"id\tposition\treference\t", ".tsv")
KMERS = Kind("a table of k-mers", rb"[^\t\n]+\t[-+.\de]+[\t\n]", ".tsv")
#: What a spreadsheet takes for a formula, or would if it had no apostrophe before it; a lone symbol is none.
_FORMULA = re.compile(r"'*\s*[=+@\-＝＋＠－].")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
#: Sequences that are drawn.
MOST_DRAWN = 25


@dataclass(frozen=True)
class Sequences:
    """What is written of sequences, instead of explanations in the terminal."""

    mutations: Annotated[
        Path | None,
        typer.Option(
            help="Write what every change of one letter does to the decision value; - is stdout.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    kmers: Annotated[
        int | None,
        typer.Option(
            help="Score all k-mers of this length, as gkm weight tables; no documents are read.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where k-mers go.", show_default="-", rich_help_panel=_PANEL),
    ] = None
    top: Annotated[
        int | None, typer.Option(min=1, help="The highest k-mers only.", rich_help_panel=_PANEL)
    ] = None
    alphabet: Annotated[
        str | None,
        typer.Option(
            help="The letters, such as acgt. Default: those of the model's texts.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    logo: Annotated[
        Path | None,
        typer.Option(
            help="Draw an .svg: letters as high as they count, or with --kmers the motif of the best.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    force: Force = False

    @property
    def wanted(self) -> bool:
        return any(each is not None for each in (self.mutations, self.kmers, self.logo))

    def check(self, json: bool, files: Sequence[str] | None) -> None:
        """Raise WrongUsage where options do not go together."""
        if self.kmers is None:
            for name, value in (("--output", self.output), ("--top", self.top)):
                if value is not None:
                    raise WrongUsage(f"{name} is of the table of k-mers; say --kmers with their length")
            if self.alphabet is not None and not self.wanted:
                raise WrongUsage("--alphabet is of --mutations, --kmers and --logo; give one of them")
        elif self.kmers < 1:
            raise WrongUsage(f"--kmers {self.kmers} is no length; give a whole number from 1")
        elif files or self.mutations is not None:
            raise WrongUsage("--kmers is of the model alone; give no documents and no --mutations with it")
        if json and self.wanted:
            raise WrongUsage("--json is of explanations; --mutations and --kmers write tables")
        if self.logo is not None and self.logo.suffix.lower() != ".svg":
            raise WrongUsage(f"--logo {self.logo}: the name must end in .svg")

    def outputs(self, model: Path, files: Sequence[str] | None) -> tuple[Output | None, Output | None]:
        """The table and the picture, checked before any work."""
        table = picture = None
        names = ["the corpus", *(f"part {n} of the corpus" for n in range(2, len(files or []) + 1))]
        inputs = {"the model": model, **dict(zip(names, map(Path, files or []), strict=False))}
        if self.mutations is not None:
            table = Output("--mutations", self.mutations, MUTATIONS, self.force)
        elif self.kmers is not None:
            table = Output("-o", self.output or STDOUT, KMERS, self.force)
        if self.logo is not None:
            picture = Output("--logo", self.logo, PICTURES[".svg"], self.force)
            picture.check({**inputs, "the table": self.mutations or self.output})
        if table is not None:
            table.check(inputs)
        return table, picture


#: The table and the picture.
Outputs = tuple[Output | None, Output | None]


def kmers(console: Console, model: Any, wanted: Sequences, positive: Any, outputs: Outputs) -> None:
    """Write the scores of all k-mers, and their motif."""
    from textsvm.evaluation.mutations import kmer_scores, motifs
    from textsvm.reporting.logo import document, panel_of_motif

    table, picture = outputs
    assert table is not None
    assert wanted.kmers is not None
    with console.progress():
        found = kmer_scores(
            model, wanted.kmers, wanted.alphabet, positive=positive,
            progress=lambda done, total: console.stage("predict", done, total),
        )  # fmt: skip
    _write(table, _kmer_lines(found, wanted.top))
    console.say(f"note: {len(found.kmers):,} {wanted.kmers}-mers are scored{_side(found.towards)}")
    if picture is not None:
        panels = [panel_of_motif(motif) for motif in motifs(found, wanted.top)]
        _write(picture, [document(panels, f"Motifs of the best {wanted.kmers}-mers")])


def mutations(
    console: Console,
    model: Any,
    wanted: Sequences,
    positive: Any,
    documents: tuple[Sequence[Any], Any],
    outputs: Outputs,
) -> None:
    """Write what changes of single letters do, and draw it: of documents, which are ids and texts."""
    from textsvm.evaluation.mutations import mutation_scores
    from textsvm.reporting.logo import document, panel_of_mutations

    table, picture = outputs
    ids, texts = documents
    with console.progress():
        found = mutation_scores(
            model, texts, wanted.alphabet, positive=positive,
            progress=lambda done, total: console.stage("explain", done, total),
        )  # fmt: skip
    if table is not None:
        _write(table, _mutation_lines(ids, found))
    if found:
        console.say(f"note: changes of {len(found):,} documents are scored{_side(found[0].towards)}")
    if picture is not None:
        drawn = list(zip(ids, found, strict=True))[:MOST_DRAWN]
        if len(drawn) < len(found):
            console.say(f"note: the first {MOST_DRAWN} of {len(found):,} documents are drawn")
        panels = [panel_of_mutations(str(identifier), each) for identifier, each in drawn]
        _write(picture, [document(panels, "What changing each letter does to the decision value")])


def _kmer_lines(found: Kmers, most: int | None) -> Iterator[str]:
    several, odd = len(found.towards) > 1, not found.letters.isalpha()
    for side, label in enumerate(found.towards):
        end = f"\t{_cell(label)}\n" if several else "\n"
        order = found.top(most, side)
        scores = found.scores[order, side].tolist()
        for kmer, score in zip(found.kmers[order].tolist(), scores, strict=True):
            yield f"{_cell(kmer) if odd else kmer}\t{score:.9g}{end}"


def _mutation_lines(ids: Sequence[Any], found: Sequence[Mutations]) -> Iterator[str]:
    several = bool(found) and len(found[0].towards) > 1
    yield "id\tposition\treference\talternative\tscore" + ("\tclass\n" if several else "\n")
    for identifier, each in zip(ids, found, strict=True):
        ends = [f"\t{_cell(label)}\n" if several else "\n" for label in each.towards]
        for end, scores in zip(ends, each.scores.tolist(), strict=True):
            for i, (own, row) in enumerate(zip(each.text, scores, strict=True), 1):
                for letter, score in zip(each.letters, row, strict=True):
                    if letter != own:
                        yield f"{_cell(identifier)}\t{i}\t{_cell(own)}\t{_cell(letter)}\t{score:.9g}{end}"


def _side(towards: Sequence[Any]) -> str:
    """What positive scores speak for, where that is one thing."""
    one = towards[0] if len(towards) == 1 else None
    return "" if one is None else f"; positive scores speak for {one}"


def _cell(value: Any) -> str:
    """Text in a cell of a table: tabs and ends of lines are spaces, and a spreadsheet shows it as it is.

    Where it would take the text for a formula, an apostrophe comes first, and where that already stands there
    one more: without its first apostrophe, each cell of apostrophes and one of = + - @ is the text again.
    """
    text = printable(str(value)).replace("\t", " ").replace("\n", " ")
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _write(output: Output, lines: Any) -> None:
    utf8: Any = {"encoding": "utf-8", "newline": "\n"}
    with output.place() as path, replacing(path) as temporary, open(temporary, "w", **utf8) as out:
        out.writelines(lines)
