"""Options that several commands share.

A group of options is a frozen dataclass; `with_groups` turns a command's parameter of such a type into the
options of its fields. Nothing here reads files or imports a numerical library.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, TypeGuard, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from textsvm.cli.console import WrongUsage
from textsvm.errors import InputError


def option(help: str, *names: str, panel: str | None = None, **settings: Any) -> Any:
    """Declare an option; without `names` it is called like its parameter."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


_of_reading = partial(option, panel="Reading")


def option_field(help: str, *names: str, default: Any = None, **settings: Any) -> Any:
    """Declare a field of a group of options."""
    return field(default=default, metadata={"option": option(help, *names, **settings)})


encoder_field = partial(
    option_field,
    "Compare texts by meaning, too, with an encoder of model2vec, sentence-transformers or ONNX.",
    metavar="FOLDER|OWNER/NAME",
)  # fmt: skip
seed_field = partial(option_field, default=0, min=0, max=(1 << 32) - 1)  #: Seeds of NumPy's `RandomState`.
_labels = partial(option_field, panel="Labels")
_reading = partial(option_field, panel="Reading")
_folds = partial(option_field, panel="Folds")
_sets = partial(option_field, panel="Prediction sets (calibrated models)")


#: Commands with more options show RARE_OPTIONS and the options for parameters of kernels only with
#: --help-all.
MANY_OPTIONS = 30
NARROW = 60  #: Columns of a terminal from which a table of options fits.
KERNEL_PANEL = "Kernel"
RARE_OPTIONS = {
    "negative", "part", "numbers", "vectors", "labels", "headers", "level", "weights",
    "label_separator", "normalise", "max_length", "epsilon", "multiclass",
    "tol", "memory", "store", "workers", "one_class", "nu", "solver", "seed", "without_texts", "repeats",
    "group_duplicates", "corrections", "scoring", "sheet", "annotators", "table", "encoding", "skip_invalid",
    "chunk", "strip_common",
}  # fmt: skip
CorpusPath = Annotated[
    list[Path],
    typer.Argument(help="Files, archives or folders, read as one corpus; - is stdin.", show_default=False),
]
ModelPath = Annotated[Path, typer.Argument(help="Model file.", show_default=False)]
DocumentPaths = Annotated[
    list[str] | None,
    typer.Argument(help="Texts, mails, tables, archives or folders; - is stdin.", show_default="-"),
]
Text = Annotated[
    list[str] | None,
    _of_reading(
        "Tables: text column, by name or by number from 1. Repeat it for columns whose weights are chosen; "
        "title,body is one text of both.",
        metavar="COLUMN",
    ),
]
Table = Annotated[
    list[str] | None,
    _of_reading(
        "Form of a table: header=3 (its row; yes, no), separator=tab, quote=none, decimal=comma. Repeat it.",
        metavar="KEY=VALUE",
    ),
]
Level = Annotated[
    int | None, _of_reading("Folders in folders: level of the classes, 1 is the outermost.", min=1)
]
Regress = Annotated[
    str | None,
    option(
        "Tables: predict the numbers in this column instead of classes.", metavar="COLUMN", panel="Labels"
    ),
]
Device = Annotated[str, option("auto, cpu, cuda or cuda:N; several GPUs: cuda:0,1 or cuda:all.")]
Json = Annotated[bool, option("Print one JSON object to stdout.", "--json")]
Quiet = Annotated[bool, option("Print only results, warnings and errors.", "--quiet", "-q")]


@dataclass(frozen=True)
class PrintingOptions:
    """Form of the output."""

    json: Json = False
    quiet: Quiet = False


@dataclass(frozen=True)
class TableOptions:
    """Reading of documents without labels."""

    format: str | None = _reading(
        "Input format: reuters (ModApte split), reuters-lewis (Lewis' split), mail, csv, tsv, jsonl, json, "
        "parquet, arrow, excel, arff, references (RIS), folders, file (a file is a text), lines, plain "
        "(with TABs), paragraphs, conll, fasta; for vectors libsvm, npy, npz (default: detected)."
    )
    text: Text = None
    numbers: str | None = _reading(
        "Tables: numeric columns beside the texts, such as hour,size.", metavar="COLUMNS"
    )
    vectors: Path | None = _reading(
        "Vectors beside the texts, one row per document: .npy, .npz or LIBSVM format.", metavar="FILE"
    )
    id: str | None = _reading("Tables: column of document ids.")
    skip_invalid: bool = _reading(
        "Tables, lines: leave out rows without a text or with a wrong number of fields.", default=False
    )
    table: Table = None
    sheet: str | None = _reading(
        "Spreadsheets: sheet, by name or by number from 1; all have the same columns."
    )
    encoding: str | None = _reading("Charset of texts and tables, such as cp1251.")

    @property
    def form(self) -> dict[str, Any]:
        """Arguments of the readers for --table; WrongUsage for others."""
        form: dict[str, Any] = {}
        for pair in self.table or ():
            key, _, value = pair.partition("=")
            if key in form:
                raise WrongUsage(f"--table {key} stands twice, and a table has it once")
            if key == "header" and (value in ("yes", "no") or (value.isdecimal() and int(value))):
                form[key] = int(value) if value.isdecimal() else value == "yes"
            elif key in ("separator", "quote", "decimal") and value:
                form[key] = value
            else:
                raise WrongUsage(
                    f"--table {pair} is not header=ROW (or yes, no), separator=SYMBOL (or tab, semicolon), "
                    "quote=SYMBOL (or none) or decimal=comma (or point)"
                )
        return form


@dataclass(frozen=True)
class ReadingOptions(TableOptions):
    """Selection and reading of documents with labels."""

    positive: str | None = _labels("Positive class.")
    negative: str | None = _labels("Negative class, or rest (default: all other labels).")
    label: str | None = _reading(
        "Tables: label column; with --multilabel also a column of 0 and 1 for each label: toxic,threat. "
        "Files of texts: name:REGEX, whose group is the label in the name of a file, as in name:^([^_]+)_."
    )
    labels: Path | None = _reading(
        "Labels for vectors without labels: a text file, one per line, or .npy.", metavar="FILE"
    )
    level: Level = None
    part: str | None = _reading("Use only this part of the corpus: train or test.")
    headers: bool = _reading("Mail: use all headers, not only the subject.", default=False)
    annotators: str = _labels(
        "Exports of annotation tools: labels of the majority, of all (a document each), or of an annotator.",
        metavar="majority|all|NAME", default="majority",
    )  # fmt: skip
    groups: str | None = _folds(
        "Keep documents with one value in this column (such as a book), or in one `folder`, on one side of "
        "every split.", metavar="COLUMN",
    )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Settings that are saved with a model."""
        names = ("numbers", "label", "id", "table", "headers", "level", "sheet", "encoding", "annotators")
        text = self.text[0] if self.text and len(self.text) == 1 else self.text
        return {"text": text, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class CuttingOptions:
    """Pieces of long texts."""

    chunk: int | None = _reading(
        "Cut texts into pieces of about N characters, which are trained as a group and predicted together.",
        metavar="N", min=100,
    )  # fmt: skip
    strip_common: bool = _reading(
        "Leave out lines that many texts of a class begin or end with, such as a licence.", default=False
    )


@dataclass(frozen=True)
class LearningOptions(CuttingOptions):
    """Targets and weights of the training documents."""

    regress: Regress = None
    weights: str | None = _labels("Tables: column of document weights.", metavar="COLUMN")
    multilabel: bool = _labels(
        "Allow several labels per document: Reuters topics, lists, or cells with ; or another separator.",
        default=False,
    )
    label_separator: str | None = _labels(
        "--multilabel: separator of the labels in a cell (default: detected).", metavar="TEXT"
    )
    corrections: Path | None = _labels(
        "Apply decisions saved on the page of `textsvm doubts`: change labels, leave out unsure documents. "
        "Undecided documents keep their labels.",
        metavar="FILE",
    )

    @property
    def separator(self) -> str | None:
        """Separator of the labels in a cell, "" to detect it; None if each document has a single label."""
        return (self.label_separator or "") if self.multilabel else None

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


@dataclass(frozen=True)
class FoldOptions:
    """Folds of a cross-validation."""

    folds: int = _folds("Number of folds.", default=5, min=2)
    repeats: int = _folds("Number of repetitions with new folds.", default=1, min=1)
    group_duplicates: bool = _folds("Keep near-duplicates in one fold.", default=False)
    seed: int = seed_field("Random seed.", panel="Folds")


@dataclass(frozen=True)
class PredictedValues:
    """Values to print beside the label, and the comparison with the training texts."""

    proba: bool = option_field("Add the probability of each class.", default=False)
    coverage: float | None = _sets(
        'Add the "set" of classes that contains the true class with this probability, such as 0.95.',
        metavar="SHARE",
    )
    none: float | None = _sets(
        "Give documents unlike every class no label (null), and at most this share of the others, such "
        "as 0.05.",
        metavar="SHARE",
    )
    top: int | None = option_field(
        "Print the K best labels and their decision values; also their probabilities with --proba, or if the "
        "model is calibrated.",
        metavar="K", min=1,
    )  # fmt: skip
    pieces: bool = option_field(
        "Predict the pieces of texts one by one, by a model of `train --chunk`.", default=False
    )
    all_classes: bool = option_field(
        "Tables: a column for the decision value of each class, and with --proba for its probability.",
        default=False,
    )
    drift: bool = option_field(
        "Compare the documents with those of training: share of new symbols and sequences of symbols, "
        "and margins. Differences are warnings on stderr.",
        default=False,
    )


def with_groups(command: Callable[..., None], without: Collection[str] = ()) -> Callable[..., None]:
    """Decorate a command: parameters whose types are dataclasses become the options of their fields.

    `without` names fields that are no options of the command and keep their defaults.
    """
    groups: dict[str, type] = {}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if _is_group(parameter.annotation):
            groups[name] = parameter.annotation
            flat += (member for member in _parameters_of(parameter.annotation) if member.name not in without)
        else:
            flat.append(_keyword_only(name, parameter.annotation, parameter.default))
    if len(flat) > MANY_OPTIONS:
        flat.append(_keyword_only(_HELP_ALL, _HelpAll, False))

    @wraps(command)
    def call(**values: Any) -> None:
        values.pop(_HELP_ALL, None)
        grouped = {name: _gather(group, values) for name, group in groups.items()}
        command(**values, **grouped)

    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return call


_HELP_ALL = "help_all"
#: Parameter of the Python API at the beginning of a message about its value.
_PARAMETER = re.compile(r"(\w+)(?:=(?=.* (?:must|needs|is|are|has) )| must | needs )", re.DOTALL)
#: A quotation, or None among the values of a parameter.
_OR_NONE = re.compile(r"""('[^']*'|"[^"]*")|[,;]? or None\b""")


def _show_help_all(context: typer.Context, requested: bool) -> None:
    if requested:
        context.meta[_HELP_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit()


_HelpAll = Annotated[
    bool, option("Show all options and exit.", "--help-all", is_eager=True, callback=_show_help_all)
]


def _is_group(annotation: object) -> TypeGuard[type]:
    return is_dataclass(annotation)


def _keyword_only(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parameters_of(group: type) -> Iterator[inspect.Parameter]:
    """Parameters of a group and of its nested groups. A flag without names has no --no- form."""
    types = get_type_hints(group, include_extras=True)
    for member in fields(group):
        kind = types[member.name]
        if _is_group(kind):
            yield from _parameters_of(kind)
            continue
        if declared := member.metadata.get("option"):
            if kind is bool and declared.default is ...:  # Typer's place for the first name
                declared.default = f"--{member.name.replace('_', '-')}"
            kind = Annotated[kind, declared]
        yield _keyword_only(member.name, kind, member.default)


def _gather(group: type, values: dict[str, Any]) -> Any:
    """Build a group from its options, which are removed from `values`."""
    types = get_type_hints(group)
    members = {
        member.name: _gather(types[member.name], values)
        if _is_group(types[member.name])
        else values.pop(member.name, member.default)
        for member in fields(group)
    }
    return group(**members)


class _PlainFlags:
    """Mixin: the help of a flag shows no type; on a narrow terminal no name of an option is cut."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, without boxes on a narrow terminal."""
        if (width := shutil.get_terminal_size().columns) < NARROW:
            vars(self)["rich_markup_mode"], formatter.width = None, width - 1
        super().format_help(ctx, formatter)  # type: ignore[misc]

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return parameters


class Command(_PlainFlags, TyperCommand):
    """Command whose help shows no type for flags, and rare options only with --help-all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; raises WrongUsage if an option has two values, or as its value another option."""
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])  # its parameters, as often as they stand
        rest: list[str] = super().parse_args(ctx, args)
        names = {name for parameter in self.params for name in parameter.opts if name.startswith("-")}
        for parameter in list[Any](self.params):
            once = parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag)
            if once and order.count(parameter) > 1:
                raise WrongUsage(f"{parameter.opts[0]} stands twice, and the command takes it once")
            values = ctx.params.get(parameter.name) if parameter.param_type_name == "option" else None
            if wrong := names.intersection(map(str, values if isinstance(values, list) else [values])):
                raise WrongUsage(f"{parameter.opts[0]} needs a value, and {wrong.pop()} is an option")
        return rest

    def invoke(self, ctx: Any) -> object:
        """Run the command; an error that begins with a parameter of the Python API names its option."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            message, parameters = str(error), list[Any](self.params)
            options = {own.name: own.opts[0] for own in parameters if own.param_type_name == "option"}
            match, values = _PARAMETER.match(message), map(str, ctx.params.values())
            # A file of the user may have such a name: "text needs work".
            if match and match[1] in options and not any(match[0] in value for value in values):
                error.args = (f"{options[match[1]]} " + _OR_NONE.sub(r"\1", message[match.end(1) + 1 :]),)
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; without --help-all the rare options are hidden meanwhile."""
        rare: list[Any] = [
            parameter for parameter in self.params
            if parameter.name in RARE_OPTIONS
            or (getattr(parameter, "rich_help_panel", "") == KERNEL_PANEL and parameter.name != "kernel")
        ]  # fmt: skip
        if _HELP_ALL in ctx.meta or not any(parameter.name == _HELP_ALL for parameter in self.params):
            rare = []
        for parameter in rare:
            parameter.hidden = True
        try:
            super().format_help(ctx, formatter)
        finally:
            for parameter in rare:
                parameter.hidden = False


class Group(_PlainFlags, TyperGroup):
    """Command group whose help shows no type for flags."""
