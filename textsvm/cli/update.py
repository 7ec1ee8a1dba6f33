"""textsvm update: a model and new labelled documents -> the model trained on old and new documents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option_field
from textsvm.cli.output import MODEL, Force, Output

if TYPE_CHECKING:
    from textsvm.arrays import Json

_SHOWN = 20  #: Maximum number of changed predictions to print.


@dataclass(frozen=True)
class UpdateOptions:
    """The old corpus, columns of the new documents, and the model file to write."""

    corpus: list[Path] | None = option_field(
        "Old corpus, repeatable (default: the corpus recorded in the model, if it is unchanged).",
        metavar="PATH",
    )
    text: options.Text = None
    label: str | None = option_field("Tables: label column of the new documents.")
    table: options.Table = None
    level: options.Level = None
    labels: Path | None = option_field("Labels of the new documents, one per line.", metavar="FILE")
    output: Path | None = option_field("Model file to write (default: MODEL is replaced).", "--output", "-o")
    force: Force = False
    device: options.Device = "auto"


@options.with_groups
def update(
    model: options.ModelPath,
    new: Annotated[
        list[Path], typer.Argument(help="New labelled documents, like the corpus.", show_default=False)
    ],
    printing: options.PrintingOptions,
    source: UpdateOptions,
) -> None:
    """Train a model on its old and on new documents, with its recorded options, and report the changes.

    textsvm update spam.textsvm corrected.csv

    Kernel and C stay as they are. The new documents are predicted by the old model, and by cross-validation
    of the new model: no prediction comes from a machine that was trained on the document. An OnlineSVC model
    goes on learning and needs no old corpus; its predictions after the update are leave-one-out estimates.
    """
    console = Console(printing.quiet)
    corpus, output = source.corpus, source.output
    named = Output("-o", output or model, MODEL, source.force)
    if output is None:  # the loading below reports a MODEL that is no model
        named = replace(named, option="MODEL", kind=replace(MODEL, suffix=""), force=True)
    target = named.checked({"the corpus": [*new, *(corpus or [])]})

    from textsvm.cli import model_files, retraining

    fitted = model_files.load_model(console, model, source.device, online=True)
    if corpus and fitted.estimator_name == model_files.ONLINE:
        raise WrongUsage(f"--corpus: {model} is an OnlineSVC, which holds its old texts; leave it out")
    values = ((name, vars(source)[name]) for name in retraining.COLUMNS)
    columns = {name: column for name, column in values if column not in (None, [])}
    columns |= {"labels": str(source.labels)} if source.labels else {}
    report = retraining.update(console, target, fitted, model, new, corpus, columns)
    report = {"model": str(target.path), **report, "seconds": console.lap("compare")}
    console.print_json(report) if printing.json else _show(console, report)


def _show(console: Console, report: Json) -> None:
    def cell(value: float | None) -> str:
        if value is None:
            return "not known"
        return f"{100 * value:.1f} %" if measure == "accuracy" else f"{value:.3g}"

    measure, changed = "accuracy" if "accuracy_before" in report else "mean_error", report["changed"]
    name = measure.replace("_", " ")
    console.table(
        f"model {report['model']}",
        [
            ("new documents", f"{report['new_documents']:,}"),
            ("labels added", ", ".join(report["labels_added"]) or "none"),
            (f"{name} on new documents, before", cell(report[f"{measure}_before"])),
            (f"{name} on new documents, after", cell(report[f"{measure}_after"])),
            ("changed predictions", f"{len(changed):,}"),
        ],
    )
    if changed:
        first = f" (the first {_SHOWN})" if len(changed) > _SHOWN else ""
        rows = [[x if isinstance(x, str) else f"{x:.4g}" for x in row.values()] for row in changed]
        console.table(f"changed predictions{first}", rows[:_SHOWN], tuple(changed[0]))
