"""Options that several commands share.

A group of options is a frozen dataclass; `with_groups` turns a command's parameter of such a type into the
options of its fields. Nothing here reads files or imports a numerical library.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from textsvm.cli.console import WrongUsage


def option(help: str, *names: str, panel: str | None = None, **settings: Any) -> Any:
    """Declare an option; without `names` it is called like its parameter. A flag needs a name."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


def option_field(help: str, *names: str, default: Any = None, **settings: Any) -> Any:
    """Declare a field of a group of options."""
    return field(default=default, metadata={"option": option(help, *names, **settings)})


_labels, _label_field = (partial(each, panel="Labels") for each in (option, option_field))
_reading, _reading_field = (partial(each, panel="Reading") for each in (option, option_field))
_folds = partial(option_field, panel="Folds")


Split = Enum("Split", {"modapte": "modapte", "lewis": "lewis"})
Duplicates = Enum("Duplicates", {"keep": "keep", "drop": "drop"})

#: Commands with more options show the options below only with --help-all; kernels have an option for each
#: parameter, of which `--help` shows none.
MANY = 20
KERNEL_PANEL = "Kernel"
RARE = {
    "negative", "part", "split", "numbers", "vectors", "labels", "id", "headers", "skip_invalid", "weights",
    "label_separator", "duplicates", "normalise", "drop_punctuation", "max_length", "epsilon", "multiclass",
    "tol", "duality_gap", "max_iter", "memory", "approximate", "store", "tier", "workers", "budget",
    "one_class", "nu", "solver", "seed", "without_texts", "libsvm", "repeats", "group_duplicates",
    "corrections", "scoring",
}  # fmt: skip
#: Default share of test documents in `compare`.
HOLDOUT = 0.25
CorpusPath = Annotated[
    list[Path], typer.Argument(help="Files, archives or folders, read as one corpus.", show_default=False)
]
ModelPath = Annotated[Path, typer.Argument(help="Model file.", show_default=False)]
DocumentPaths = Annotated[
    list[str] | None,
    typer.Argument(help="Texts, mails, tables, archives or folders; - is stdin.", show_default="-"),
]
Format = Annotated[
    str | None,
    _reading(
        "Input format: reuters, mail, csv, tsv, jsonl, parquet, folders, lines, fasta, fastq; for vectors "
        "libsvm, npy, npz (default: detected from the content)."
    ),
]
Text = Annotated[
    list[str] | None,
    _reading(
        "Tables: text column, by name or by number from 1. Repeat it to compare several columns one by one.",
        metavar="COLUMN",
    ),
]
Numbers = Annotated[
    str | None, _reading("Tables: numeric columns beside the texts, such as hour,size.", metavar="COLUMNS")
]
Vectors = Annotated[
    Path | None,
    _reading("Vectors beside the texts, one row per document: .npy, .npz or LIBSVM format.", metavar="FILE"),
]
Id = Annotated[str | None, _reading("Tables: column of document ids.")]
SkipInvalid = Annotated[
    bool,
    _reading(
        "Tables, lines: leave out rows without a text or with a wrong number of fields.", "--skip-invalid"
    ),
]
Regress = Annotated[
    str | None, _labels("Tables: predict the numbers in this column instead of classes.", metavar="COLUMN")
]
Device = Annotated[str, option("auto, cpu, cuda or cuda:N; several GPUs: cuda:0,1 or cuda:all.")]
StoreFolder = Annotated[
    Path | None,
    option(
        "Keep the kernel matrix in this folder. Later commands on the same texts reuse it, and an "
        "interrupted command continues.",
        "--store", metavar="DIR", panel="Machine",
    ),
]  # fmt: skip
Json = Annotated[bool, option("Print one JSON object to stdout.", "--json")]
Quiet = Annotated[bool, option("Print only results, warnings and errors.", "--quiet", "-q")]


@dataclass(frozen=True)
class PrintingOptions:
    """Form of the output."""

    json: Json = False
    quiet: Quiet = False


@dataclass(frozen=True)
class ReadingOptions:
    """Selection and reading of documents."""

    positive: str | None = _label_field("Positive class.")
    negative: str | None = _label_field("Negative class, or rest (default: all other labels).")
    part: str | None = _reading_field("Use only this part of the corpus: train or test.")
    split: Split = _reading_field("Split of Reuters-21578.", default=Split.modapte)
    format: Format = None
    text: Text = None
    numbers: Numbers = None
    vectors: Vectors = None
    label: str | None = _reading_field("Tables: label column.")
    labels: Path | None = _reading_field(
        "Labels for vectors without labels: a text file, one per line, or .npy.", metavar="FILE"
    )
    id: Id = None
    headers: bool = _reading_field("Mail: use all headers, not only the subject.", "--headers", default=False)
    skip_invalid: SkipInvalid = False

    def as_dict(self) -> dict[str, Any]:
        """Settings that are saved with a model."""
        names = ("numbers", "label", "id", "headers")
        text = self.text[0] if self.text and len(self.text) == 1 else self.text
        return {"text": text, **{name: getattr(self, name) for name in names}, "split": self.split.value}


@dataclass(frozen=True)
class TableOptions:
    """Reading of documents without labels."""

    format: Format = None
    text: Text = None
    numbers: Numbers = None
    vectors: Vectors = None
    id: Id = None
    skip_invalid: SkipInvalid = False


@dataclass(frozen=True)
class LearningOptions:
    """Targets and weights of the training documents."""

    require_text = True  # not an option: rows without a text are an error

    regress: Regress = None
    weights: str | None = _label_field("Tables: column of document weights.", metavar="COLUMN")
    multilabel: bool = _label_field(
        "Allow several labels per document: Reuters topics, JSON lists, or cells separated by ;.",
        "--multilabel",
        default=False,
    )
    label_separator: str | None = _label_field(
        "--multilabel: separator of the labels in a cell (default: ;).", metavar="TEXT"
    )
    corrections: Path | None = _label_field(
        "Apply decisions saved on the page of `textsvm doubts`: change labels, leave out unsure documents. "
        "Undecided documents keep their labels.",
        metavar="FILE",
    )
    duplicates: Duplicates = _reading_field("Keep or drop exact copies.", default=Duplicates.keep)

    @property
    def separator(self) -> str | None:
        """Separator of the labels in a cell; None if each document has a single label."""
        return (self.label_separator or ";") if self.multilabel else None

    def check(self, reading: ReadingOptions) -> None:
        """Raise WrongUsage for options that contradict each other."""
        if self.label_separator is not None and not self.multilabel:
            raise WrongUsage("--label-separator needs --multilabel")
        if self.label_separator == "":
            raise WrongUsage("--label-separator must not be empty")
        if self.corrections is not None and (self.multilabel or self.regress is not None):
            other = "--multilabel" if self.multilabel else "--regress"
            raise WrongUsage(f"--corrections and {other} do not go together")
        if self.regress is not None and reading.label is not None:
            raise WrongUsage("--label and --regress do not go together; a regression has numbers, no labels")
        for name, value in (("--positive", reading.positive), ("--regress", self.regress)):
            if self.multilabel and value is not None:
                raise WrongUsage(f"--multilabel and {name} do not go together")


class NoLearningOptions(LearningOptions):
    """Options of a command that does not learn, and keeps empty texts."""

    require_text = False


@dataclass(frozen=True)
class FoldOptions:
    """Folds of a cross-validation."""

    folds: int = _folds("Number of folds.", default=5)
    repeats: int = _folds("Number of repetitions with new folds.", default=1)
    groups: str | None = _folds(
        "Tables: keep documents with equal values in this column in one fold.", metavar="COLUMN"
    )
    group_duplicates: bool = _folds("Keep near-duplicates in one fold.", "--group-duplicates", default=False)
    seed: int = _folds("Random seed.", default=0)

    def check(self) -> None:
        """Raise WrongUsage for numbers out of range."""
        if self.folds < 2:
            raise WrongUsage(f"--folds must be at least 2, got {self.folds}")
        if self.repeats < 1:
            raise WrongUsage(f"--repeats must be at least 1, got {self.repeats}")


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: parameters whose types are dataclasses become the options of their fields."""
    groups: dict[str, Any] = {}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            flat += _parameters_of(parameter.annotation)
        else:
            flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    if len(flat) > MANY:
        flat.append(
            inspect.Parameter(_HELP_ALL, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_HelpAll)
        )

    @wraps(command)
    def call(**given: Any) -> None:
        given.pop(_HELP_ALL, None)
        grouped = {name: _gather(group, given) for name, group in groups.items()}
        command(**given, **grouped)

    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return call


_HELP_ALL = "help_all"


def _show_help_all(context: typer.Context, given: bool) -> None:
    if given:
        context.meta[_HELP_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit()


_HelpAll = Annotated[
    bool, option("Show all options and exit.", "--help-all", is_eager=True, callback=_show_help_all)
]


def _parameters_of(group: Any) -> Iterator[inspect.Parameter]:
    """Parameters of a group and of its nested groups."""
    types = get_type_hints(group, include_extras=True)
    for each in fields(group):
        kind = types[each.name]
        if is_dataclass(kind):
            yield from _parameters_of(kind)
        else:
            if "option" in each.metadata:
                kind = Annotated[kind, each.metadata["option"]]
            yield inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=kind
            )


def _gather(group: Any, given: dict[str, Any]) -> Any:
    """Build a group from its options, which are removed from `given`."""
    types = get_type_hints(group)
    names = [each.name for each in fields(group)]
    values = (_gather(types[name], given) if is_dataclass(types[name]) else given.pop(name) for name in names)
    return group(*values)


class _PlainFlags:
    """Mixin: the help of a flag shows no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            if getattr(each, "is_flag", False) and each.metavar is None:
                each.metavar = ""
        return parameters


class Command(_PlainFlags, TyperCommand):
    """Command whose help shows no type for flags, and rare options only with --help-all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; raises WrongUsage if the value of an option is the name of another option."""
        rest: list[str] = super().parse_args(ctx, args)
        names = {name for each in self.params for name in each.opts if name.startswith("-")}
        for each in self.params:
            values = ctx.params.get(each.name) if each.param_type_name == "option" else None
            if wrong := names.intersection(map(str, values if isinstance(values, list) else [values])):
                raise WrongUsage(f"{each.opts[0]} needs a value, and {wrong.pop()} is an option")
        return rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; without --help-all the rare options are hidden meanwhile."""
        rare: list[Any] = [each for each in self.params if _is_rare(each)]
        if _HELP_ALL in ctx.meta or not any(each.name == _HELP_ALL for each in self.params):
            rare = []
        for each in rare:
            each.hidden = True
        try:
            super().format_help(ctx, formatter)
        finally:
            for each in rare:
                each.hidden = False


def _is_rare(parameter: Any) -> bool:
    of_kernel = getattr(parameter, "rich_help_panel", None) == KERNEL_PANEL
    return parameter.name in RARE or (of_kernel and parameter.name not in ("kernel", "fast"))


class Group(_PlainFlags, TyperGroup):
    """Command group whose help shows no type for flags."""
