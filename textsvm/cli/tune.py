"""textsvm tune: a grid of kernels and penalties by cross-validation -> the best model."""

from __future__ import annotations

import time
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import heatmap, kernels, machines, options
from textsvm.cli.console import Console, WrongUsage, print_json
from textsvm.cli.cv import leaks_by_id
from textsvm.cli.figures import SHOWN
from textsvm.reporting.figures import figure

if TYPE_CHECKING:
    from textsvm.readers import Corpus
    from textsvm.selection.tuning import Tuning

_SEARCH = "Search"
#: Values of C that are tried if none are given.
_PENALTIES = "1,10,100"
#: Settings that the table shows.
_MOST = 20


@options.with_groups
def tune(
    corpus: options.CorpusPath,
    reading: options.Reading,
    learning: options.Learning,
    folds: options.Folds,
    kernel: kernels.KernelOptions,
    text_form: machines.TextOptions,
    machine: machines.MachineOptions,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the best model, fitted to all documents.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="What is best: accuracy, macro_f1, mcc, roc_auc, qwk, f1[LABEL], r2, mae, ... "
            "(default: accuracy, r2).",
            show_default=False,
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    nested: Annotated[
        int | None,
        typer.Option(
            help="Outer folds: what tuning achieves on documents that no choice was made from.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Refuse a grid that takes longer.", rich_help_panel=_SEARCH),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--heatmap",
            help="Draw the grid as a .png, .svg or .pdf; needs Matplotlib.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the best kernel parameters and C: every kernel matrix is made once, for all folds and values of C.

    textsvm tune CORPUS --kernel gap --p 3,4,5 --decay 0.3,0.5 -C 1,10,100 -o best.textsvm

    textsvm tune CORPUS --kernel gap,spectrum --weight count,log --multiclass ovo,ovr --minutes 10
    """
    started = time.perf_counter()
    console = Console(quiet)
    folds.check()
    _check(nested, minutes, picture, output)
    tried = kernel.grid(tuning=True)
    regression = learning.regress is not None
    grid: dict[str, Any] = {"kernel": tried, "C": machine.penalties(_PENALTIES)}
    if regression:
        grid["epsilon"] = machine.epsilons()
    elif machine.multiclass is not None:
        grid["multiclass"] = machine.strategies()
    model = machine.estimators(tried, text_form, regression, _PENALTIES)[0]
    documents = options.read(console, corpus, reading, groups=folds.groups, **vars(learning))
    truth = options.targets(documents)
    console.say(f"note: {_size(grid)} on {folds.folds * folds.repeats} folds of {len(documents):,} documents")
    read = time.perf_counter() - started

    from textsvm.selection.tuning import tune as search

    with console.progress(), console.warnings():
        result = search(
            model, documents.texts, truth, grid, metric=metric, minutes=minutes, nested=nested,
            progress=console.stage, **folds.arguments(documents),
        )  # fmt: skip
    console.say_device(result.best_estimator.device_)
    if picture is not None:
        heatmap.draw(picture, result)
    seconds = {"read": read, **result.seconds, "total": time.perf_counter() - started}
    report = summarise(result, documents) | {"model": output and str(output), "seconds": seconds}
    if output is not None:
        options.save_model(output, result.best_estimator, documents, reading, learning, {"tuning": report})
    print_json(report) if json else _show(console, result, documents, report)


def _check(nested: int | None, minutes: float | None, picture: Path | None, output: Path | None) -> None:
    """Wrong usage, before any work."""
    if nested is not None and nested < 2:
        raise WrongUsage(f"--nested {nested} are too few outer folds; there must be at least 2")
    if minutes is not None and not minutes > 0:
        raise WrongUsage(f"--minutes {minutes:g} must be above 0")
    if output is not None:
        options.require_folder(output)
    if picture is not None:
        options.require_folder(picture)
        heatmap.require(picture)


def _size(grid: dict[str, Any]) -> str:
    """How many settings there are."""
    size = prod(map(len, grid.values()))
    return "one setting" if size == 1 else f"{size} settings"


def summarise(result: Tuning, corpus: Corpus) -> dict[str, Any]:
    """The search as JSON values, documents by their ids."""
    found = result.as_dict()
    return found | {
        "n": len(corpus),
        "device": result.best_estimator.device_.description,
        "best_params": heatmap.plain_params(result.best_params_),
        "table": [
            shown | {"params": heatmap.plain_params(row["params"])}
            for row, shown in zip(result.table, found["table"], strict=True)
        ],
        "untried": [heatmap.plain_params(params) for params in result.untried],
        "nested": None
        if result.nested is None
        else found["nested"] | {"params": [heatmap.plain_params(params) for params in result.nested.params]},
        "leaks": None,
        "near_duplicates": leaks_by_id(found["leaks"], corpus),
    }


def _show(console: Console, result: Tuning, corpus: Corpus, report: dict[str, Any]) -> None:
    name, names = result.metric, heatmap.Names(result)
    title = SHOWN.get(name, name)
    ranked = sorted(result.table, key=lambda row: -_merit(row["mean"], name))
    best = next(row for row in ranked if row["params"] is result.best_params_)
    ranked = [best, *(row for row in ranked if row is not best)]
    others = [other for other in SHOWN if other in ranked[0]["metrics"] and other != name][:3]
    rows = [
        (
            ("* " if row is best else "  ") + names.of(row["params"]),
            figure(name, row["mean"]),
            figure(name, row["sd"]),
            *(figure(other, row["metrics"][other]) for other in others),
            f"{row['seconds']:.2f}",
        )
        for row in ranked[:_MOST]
    ]
    more = f", the best {_MOST}" if len(ranked) > _MOST else ""
    folds = f"{len(result.folds)} folds of {len(corpus):,} documents"
    console.table(
        f"{len(ranked)} setting{'s' * (len(ranked) > 1)} by mean {title} over {folds}{more}",
        rows,
        ("setting", title, "SD", *(SHOWN[other] for other in others), "seconds"),
    )
    heatmap.show(console, result)
    summary = [
        ("best", names.of(result.best_params_, everything=True)),
        (f"{title}, mean of folds", f"{figure(name, best['mean'])} (SD {figure(name, best['sd'])})"),
    ]
    if result.nested is not None:
        mean, sd = result.nested.mean[name], result.nested.sd[name]
        summary.append((f"{title}, nested", f"{figure(name, mean)} (SD {figure(name, sd)})"))
    total = report["seconds"]
    summary.append(("seconds", ", ".join(f"{stage} {value:.2f}" for stage, value in total.items())))
    summary.append(("model", report["model"] or "not written; -o FILE writes it"))
    console.table("the best setting", summary)
    for note in heatmap.at_the_edge(result):
        console.say(f"note: {note}")


def _merit(mean: float | None, metric: str) -> float:
    from textsvm.selection.search import LESS_IS_BETTER

    if mean is None or mean != mean:
        return float("-inf")
    return -mean if metric in LESS_IS_BETTER else mean
