"""Options that several commands take, and what they mean to the readers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.console import Console
    from textsvm.estimators.svc import SVC
    from textsvm.readers import Corpus


class Split(Enum):
    """Splits of Reuters-21578."""

    modapte = "modapte"
    lewis = "lewis"


CorpusPath = Annotated[
    Path, typer.Argument(help="A corpus: a file, an archive or a folder.", show_default=False)
]
ModelPath = Annotated[Path, typer.Argument(help="A model file.", show_default=False)]
Format = Annotated[
    str | None,
    typer.Option(
        help="Read it as reuters, mail, csv, tsv, jsonl, parquet, folders or lines. Default: by its content."
    ),
]
Part = Annotated[str | None, typer.Option(help="Only this part of the corpus: train or test.")]
SplitOption = Annotated[Split, typer.Option("--split", help="Which split of Reuters-21578.")]
Text = Annotated[str | None, typer.Option(help="Tables: the column of the texts, a name or a number from 1.")]
Label = Annotated[str | None, typer.Option(help="Tables: the column of the labels.")]
Id = Annotated[str | None, typer.Option(help="Tables: the column of the document ids.")]
Headers = Annotated[
    bool, typer.Option("--headers", help="Mail: all headers count as text, not the subject alone.")
]
Positive = Annotated[
    str | None, typer.Option(help="The label to be told from the others.", rich_help_panel="Labels")
]
Negative = Annotated[
    str | None,
    typer.Option(help="Its opposite: another label, or rest (all others).", rich_help_panel="Labels"),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no messages.")]


@dataclass(frozen=True)
class Training:
    """What a model's file says of its training that later commands repeat."""

    positive: str | None
    negative: str | None
    headers: bool

    @classmethod
    def of(cls, model: SVC) -> Training:
        """Taken from the file, so nothing is sure of its type."""
        info, reading = model.info_, model.info_.get("reading")
        labels = [info.get(name) for name in ("positive", "negative")]
        positive, negative = (label if isinstance(label, str) else None for label in labels)
        return cls(positive, negative, isinstance(reading, dict) and reading.get("headers") is True)


def read(
    console: Console, path: Path, *, positive: str | None, negative: str | None, **options: Any
) -> Corpus:
    """Read a labelled corpus, reduce its labels to two, and say what was found on the way."""
    from textsvm.readers import read_corpus

    with console.progress():
        corpus = read_corpus(path, progress=console.reading, **options)
    if positive is not None:
        corpus = corpus.reduce_labels(positive, negative or "rest")
    report_problems(console, corpus)
    return corpus


def report_problems(console: Console, corpus: Corpus) -> None:
    """Name damaged documents and count the duplicates: nothing is dropped or kept silently."""
    for identifier, problem in corpus.problems[:5]:
        console.say(f"note: {identifier}: {problem}")
    if len(corpus.problems) > 5:
        console.say(
            f"note: {len(corpus.problems) - 5} more damaged documents; `textsvm corpus` names them all"
        )
    groups = corpus.duplicates()
    if groups:
        extra = sum(len(group) - 1 for group in groups)
        conflicts = len(corpus.conflicting_duplicates())
        odd = f"; {conflicts:,} sets of copies do not agree in their labels" if conflicts else ""
        console.say(f"note: {extra:,} of {len(corpus):,} documents are exact copies of others{odd}")


def require_labels(corpus: Corpus) -> list[str]:
    """One label a document, or a sentence about what to do."""
    if corpus.labels is None:
        raise InputError(
            f"{corpus.source} has no labels; name a column with --label, or use a folder per class"
        )
    labels = [label for label in corpus.labels if isinstance(label, str)]
    if len(labels) < len(corpus):
        raise InputError(
            f"documents of {corpus.source} may have several labels; choose one to be told from the others "
            "with --positive"
        )
    return labels
