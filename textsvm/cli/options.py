"""Options that several commands take, in groups, and what they mean to the library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import notes
from textsvm.cli.console import WrongUsage
from textsvm.cli.groups import with_groups as with_groups
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.console import Console
    from textsvm.readers import Corpus


class Split(Enum):
    """Splits of Reuters-21578."""

    modapte = "modapte"
    lewis = "lewis"


class Duplicates(Enum):
    """What to do with exact copies of a document."""

    keep = "keep"
    drop = "drop"


CorpusPath = Annotated[
    list[Path],
    typer.Argument(
        help="A corpus: a file, an archive or a folder; several are read as if they lay in one folder.",
        show_default=False,
    ),
]
ModelPath = Annotated[Path, typer.Argument(help="A model file.", show_default=False)]
DocumentPaths = Annotated[
    list[str] | None,
    typer.Argument(help="Documents: texts, mails, tables, archives, folders; - is stdin.", show_default="-"),
]
Format = Annotated[
    str | None,
    typer.Option(
        help="Read it as reuters, mail, csv, tsv, jsonl, parquet, folders, lines, fasta, fastq, or vectors "
        "as libsvm, npy, npz. Default: by its content.",
        rich_help_panel="Reading",
    ),
]
Text = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Tables: the column of the texts, a name or a number from 1; given several times, columns "
        "that are compared one by one.",
        rich_help_panel="Reading",
    ),
]
Numbers = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS",
        help="Tables: columns of numbers beside the texts, such as hour,size.",
        rich_help_panel="Reading",
    ),
]
Vectors = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Vectors beside the texts, a row a document: .npy, .npz or LIBSVM's format.",
        rich_help_panel="Reading",
    ),
]
Id = Annotated[
    str | None, typer.Option(help="Tables: the column of the document ids.", rich_help_panel="Reading")
]
Regress = Annotated[
    str | None,
    typer.Option(
        help="Tables: predict the numbers in this column, instead of classes.",
        metavar="COLUMN",
        rich_help_panel="Labels",
    ),
]
Device = Annotated[
    str, typer.Option(help="auto, cpu, cuda or cuda:N; several GPUs together: cuda:0,1 or cuda:all.")
]
StoreFolder = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Keep the kernel matrix in this folder: the next command on the same texts finds it there, and "
        "one that was stopped goes on.",
        metavar="DIR",
        rich_help_panel="Machine",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no messages.")]


@dataclass(frozen=True)
class Printing:
    """What a command says of its work."""

    json: Json = False
    quiet: Quiet = False


@dataclass(frozen=True)
class Reading:
    """Which documents of a corpus, and how they are read."""

    positive: Annotated[
        str | None, typer.Option(help="The label to be told from the others.", rich_help_panel="Labels")
    ] = None
    negative: Annotated[
        str | None,
        typer.Option(
            help="Its opposite: another label, or rest (default: all others).", rich_help_panel="Labels"
        ),
    ] = None
    part: Annotated[
        str | None,
        typer.Option(help="Only this part of the corpus: train or test.", rich_help_panel="Reading"),
    ] = None
    split: Annotated[Split, typer.Option(help="Which split of Reuters-21578.", rich_help_panel="Reading")] = (
        Split.modapte
    )
    format: Format = None
    text: Text = None
    numbers: Numbers = None
    vectors: Vectors = None
    label: Annotated[
        str | None, typer.Option(help="Tables: the column of the labels.", rich_help_panel="Reading")
    ] = None
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Labels from a file, a line a row, or .npy: for vectors that have none.",
            rich_help_panel="Reading",
        ),
    ] = None
    id: Id = None
    headers: Annotated[
        bool,
        typer.Option(
            "--headers",
            help="Mail: all headers count as text, not the subject alone.",
            rich_help_panel="Reading",
        ),
    ] = False

    def as_dict(self) -> dict[str, Any]:
        """What a model remembers of it."""
        names = ("numbers", "label", "id", "headers")
        text = self.text[0] if self.text and len(self.text) == 1 else self.text
        return {"text": text, **{name: getattr(self, name) for name in names}, "split": self.split.value}


@dataclass(frozen=True)
class Table:
    """How documents without labels are read."""

    format: Format = None
    text: Text = None
    numbers: Numbers = None
    vectors: Vectors = None
    id: Id = None


@dataclass(frozen=True)
class Learning:
    """What is learnt from documents, and how much each counts."""

    regress: Regress = None
    weights: Annotated[
        str | None,
        typer.Option(
            help="Tables: the column that tells how much a document counts.",
            metavar="COLUMN",
            rich_help_panel="Labels",
        ),
    ] = None
    multilabel: Annotated[
        bool,
        typer.Option(
            "--multilabel",
            help="Documents may have several labels: topics of Reuters, lists of JSON, cells with ; between "
            "labels.",
            rich_help_panel="Labels",
        ),
    ] = False
    label_separator: Annotated[
        str | None,
        typer.Option(
            help="--multilabel: what stands between the labels of a cell (default: ;).",
            metavar="TEXT",
            rich_help_panel="Labels",
        ),
    ] = None
    duplicates: Annotated[
        Duplicates,
        typer.Option(help="Exact copies of a document: keep or drop.", rich_help_panel="Reading"),
    ] = Duplicates.keep

    @property
    def separator(self) -> str | None:
        """What stands between labels; None where documents have one."""
        return (self.label_separator or ";") if self.multilabel else None

    def check(self, reading: Reading) -> None:
        """Wrong usage, before any work."""
        if self.label_separator is not None and not self.multilabel:
            raise WrongUsage("--label-separator needs --multilabel")
        if self.label_separator == "":
            raise WrongUsage("--label-separator is empty; give what stands between the labels of a cell")
        for option, given in (("--positive", reading.positive), ("--regress", self.regress)):
            if self.multilabel and given is not None:
                raise WrongUsage(f"--multilabel and {option} do not go together")


@dataclass(frozen=True)
class Folds:
    """How documents are split for cross-validation."""

    folds: Annotated[int, typer.Option(help="Parts, each tested once.", rich_help_panel="Folds")] = 5
    repeats: Annotated[
        int, typer.Option(help="Times that the folds are drawn anew.", rich_help_panel="Folds")
    ] = 1
    groups: Annotated[
        str | None,
        typer.Option(
            help="Tables: documents with the same value in this column stay together.",
            metavar="COLUMN",
            rich_help_panel="Folds",
        ),
    ] = None
    group_duplicates: Annotated[
        bool,
        typer.Option("--group-duplicates", help="Near-duplicates stay together.", rich_help_panel="Folds"),
    ] = False
    seed: Annotated[int, typer.Option(help="Seed of the draw.", rich_help_panel="Folds")] = 0

    def check(self) -> None:
        """Wrong usage, before any work."""
        if self.folds < 2:
            raise WrongUsage(f"--folds {self.folds} are too few; there must be at least 2")
        if self.repeats < 1:
            raise WrongUsage(f"--repeats {self.repeats} must be at least 1")

    def arguments(self, corpus: Corpus) -> dict[str, Any]:
        """As arguments of the library's functions."""
        from textsvm.selection.leakage import BOUND

        return {
            "cv": self.folds,
            "repeats": self.repeats,
            "groups": corpus.groups,
            "group_duplicates": BOUND if self.group_duplicates else None,
            "random_state": self.seed,
            "sample_weight": corpus.weights,
        }


@dataclass(frozen=True)
class Training:
    """What a model's file says of its training that later commands repeat."""

    positive: str | None
    negative: str | None
    headers: bool = False
    regress: str | None = None
    label_separator: str | None = None

    @classmethod
    def of(cls, model: Any) -> Training:
        """Taken from the file, so nothing is sure of its type."""
        info, reading = model.info_, model.info_.get("reading")
        known = [info.get(name) for name in ("positive", "negative", "regress", "label_separator")]
        positive, negative, regress, separator = (each if isinstance(each, str) else None for each in known)
        headers = isinstance(reading, dict) and reading.get("headers") is True
        return cls(positive, negative, headers, regress, separator)


def read(
    console: Console,
    path: Path | list[Path],
    reading: Reading,
    learning: Learning | None = None,
    *,
    groups: str | None = None,
    headers: bool = False,
    kernel: Any = None,
) -> Corpus:
    """Read a corpus, reduce its labels to two if that is wished, and say what was found on the way.

    `kernel` is that of the model, where one is named: on columns, it says which are needed.
    """
    from textsvm.cli.examples import beside, check_letters, columns
    from textsvm.readers import is_large, read_corpus, stream_corpus

    learning = learning or Learning()
    learning.check(reading)
    with console.progress():
        wishes: dict[str, Any] = {
            **columns(reading, kernel), "split": reading.split.value, "label": reading.label,
            "id": reading.id, "target": learning.regress, "weight": learning.weights, "group": groups,
            "headers": reading.headers or headers, "label_separator": learning.separator,
            "progress": console.reading,
        }  # fmt: skip
        if is_large(path):
            corpus = stream_corpus(path, reading.format, **wishes).stored()
        else:
            corpus = read_corpus(path, reading.format, **wishes)
        corpus = beside(corpus, reading, learning.regress is not None).select(reading.part)
    if reading.positive is not None:
        corpus = corpus.reduce_labels(reading.positive, reading.negative or corpus.opposite(reading.positive))
    if learning.multilabel:
        corpus = _with_several(console, corpus)
    check_letters(kernel, corpus)
    notes.problems(console, corpus)
    return corpus.without_duplicates() if learning.duplicates is Duplicates.drop else corpus


def _with_several(console: Console, corpus: Corpus) -> Corpus:
    """Every document with a tuple of labels; stories of Reuters that have no topic are left out."""
    if corpus.labels is None:
        return corpus
    labels = [(label,) if isinstance(label, str) else label for label in corpus.labels]
    corpus = replace(corpus, labels=labels)
    labelled = [i for i, each in enumerate(labels) if each]
    if corpus.format != "reuters" or len(labelled) == len(corpus):
        return corpus
    console.say(f"note: {len(corpus) - len(labelled):,} stories without a topic are left out")
    return corpus.subset(labelled)


def targets(corpus: Corpus, several: bool = False) -> list[Any]:
    """What is to be learnt or judged: one number or one label a document, or a sentence about what to do.

    `several`: tuples of labels, at least one each.
    """
    if corpus.targets is not None:
        return corpus.targets
    if corpus.labels is None and corpus.of_sequences:
        raise InputError(
            f"{corpus.source} has no labels: the header of record 1, {corpus.ids[0]}, names none; write "
            ">id label=NAME, give each class a file, or name a part of the headers with --label"
        )
    if corpus.labels is None:
        how = "name a column with --label, or use a folder per class"
        how = (
            how if len(corpus.texts) or corpus.columns else "give them in a file of their own, --labels FILE"
        )
        raise InputError(f"{corpus.source} has no labels; {how}")
    if several:
        for identifier, each in zip(corpus.ids, corpus.labels, strict=True):
            if not each:
                raise InputError(
                    f"document {identifier} of {corpus.source} has no label; give it one, or leave it out"
                )
        return list(corpus.labels)
    labels = [label for label in corpus.labels if isinstance(label, str)]
    if len(labels) < len(corpus):
        raise InputError(
            f"documents of {corpus.source} may have several labels; train, cv and tune learn them all with "
            "--multilabel, or choose one to be told from the others with --positive"
        )
    return labels


def truth(corpus: Corpus) -> list[Any]:
    """What `targets` gives, of documents for which it has been asked."""
    return list(corpus.targets if corpus.targets is not None else corpus.labels or [])
