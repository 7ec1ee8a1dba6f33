"""textsvm tune: a grid of kernels and penalties by cross-validation -> the best model."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import examples, heatmap, machines, model_files, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.cv import leaks_by_id
from textsvm.cli.metric_columns import SHOWN
from textsvm.cli.output import MODEL, SEARCH, STDOUT, Force, Output
from textsvm.kernels.spelling import spell
from textsvm.reporting.formatting import format_metric

if TYPE_CHECKING:
    from textsvm.readers import Corpus
    from textsvm.runtime.parallel import StageProgress
    from textsvm.selection.tuning import Tuning

_SEARCH = "Search"
#: Settings that the table shows.
_MOST = 20


@dataclass(frozen=True)
class Search:
    """What is best, what it may cost, and where it goes."""

    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the best model, fitted to all documents; - is stdout."),
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(
            help="What is best: accuracy, macro_f1, mcc, roc_auc, average_precision, qwk, f1[LABEL], r2, "
            "mae, ... (default: accuracy, micro_f1, r2).",
            show_default=False,
            rich_help_panel=_SEARCH,
        ),
    ] = None
    nested: Annotated[
        int | None,
        typer.Option(
            help="Outer folds: what tuning achieves on documents that no choice was made from.",
            rich_help_panel=_SEARCH,
        ),
    ] = None
    minutes: Annotated[
        float | None,
        typer.Option(help="Refuse a grid that takes longer.", rich_help_panel=_SEARCH),
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the settings tried in this file as they are found; one that is there is gone on from, "
            "with equal results (default: OUTPUT.tuning, until the search has ended).",
            rich_help_panel=_SEARCH,
        ),
    ] = None
    picture: Annotated[
        Path | None,
        typer.Option(
            "--heatmap",
            help="Draw the grid as a .png, .svg or .pdf; needs Matplotlib.",
            rich_help_panel=_SEARCH,
        ),
    ] = None
    force: Force = False

    def outputs(self, corpus: list[Path]) -> tuple[Output | None, Output | None]:
        """Model and picture, checked; wrong usage, before any work."""
        if self.nested is not None and self.nested < 2:
            raise WrongUsage(f"--nested {self.nested} are too few outer folds; there must be at least 2")
        if self.minutes is not None and not self.minutes > 0:
            raise WrongUsage(f"--minutes {self.minutes:g} must be above 0")
        model = picture = None
        if self.output is not None:
            model = Output("-o", self.output, MODEL, self.force)
            model.check({"the corpus": corpus})
        if self.picture is not None:
            picture = Output("--heatmap", self.picture, heatmap.kind_of(self.picture), self.force)
            picture.check({"the corpus": corpus, "the model": self.output})
        self.table_checked(corpus)
        return model, picture

    def table_checked(self, corpus: list[Path]) -> None:
        """Wrong usage, if the table of the search would replace something."""
        if self.resume is not None:
            others = {"the corpus": corpus, "the model": self.output, "the picture": self.picture}
            Output("--resume", self.resume, SEARCH).check(others)

    @contextmanager
    def kept(self, console: Console) -> Iterator[Path]:
        """The file that keeps what is found inside the block; one that nobody named ends with the search."""
        path, named = self.resume or self._table(), self.resume is not None
        try:
            yield path
        except BaseException:
            if n := _settings_in(path):
                console.say(
                    f"note: {n} setting{'s' * (n > 1)} tried so far; --resume {path} goes on from there"
                )
            elif not named:
                path.unlink(missing_ok=True)
            raise
        if not named:
            path.unlink(missing_ok=True)

    def _table(self) -> Path:
        """Where what is found is kept if nobody says where: beside the model, else among temporary files."""
        if self.output is None or self.output == STDOUT:
            return Path(tempfile.gettempdir(), f"textsvm-tune-{os.getpid()}.tuning")
        path = self.output.with_name(f"{self.output.name}.tuning")
        if path.exists():
            raise WrongUsage(
                f"{path} is there, of a search that was stopped; go on with --resume, or remove it"
            )
        return path


def _settings_in(path: Path) -> int:
    """How many settings a table has."""
    try:
        return path.read_text("utf-8").count('\n{"setting"')
    except OSError:
        return 0


@options.with_groups
def tune(
    corpus: options.CorpusPath,
    reading: options.Reading,
    learning: options.Learning,
    folds: options.Folds,
    made_from: machines.ModelOptions,
    search: Search,
    printing: options.Printing,
) -> None:
    """Find the best kernel parameters and C: every kernel matrix is made once, for all folds and values of C.

    textsvm tune CORPUS --kernel gap --p 3,4,5 --decay 0.3,0.5 -C 1,10,100 -o best.textsvm

    textsvm tune CORPUS --kernel gap,spectrum --weight count,log --multiclass ovo,ovr --minutes 10

    textsvm tune CORPUS --kernel spectrum:1-5,log,idf --kernel spectrum:1-5,log,idf+gap:3
    """
    started = time.perf_counter()
    folds.check()
    made_from.cluster.check()
    output, picture = search.outputs(corpus)
    console = Console(printing.quiet, output is not None and output.is_stdout)
    grid, model = made_from.grid(learning)
    documents = options.read(
        console, corpus, reading, learning, groups=folds.groups, kernel=grid["kernel"][0]
    )
    examples.settle_grid(made_from.kernel, model, grid, documents)
    truth = options.targets(documents, learning.multilabel)
    console.say(f"note: {_size(grid)} on {folds.folds * folds.repeats} folds of {len(documents):,} documents")
    read = time.perf_counter() - started

    from textsvm.selection.tuning import tune as find

    # What was found is kept until the model is written: a disk that is full then costs no search.
    with search.kept(console) as table:
        working = made_from.cluster.at_work(console)
        with working, console.progress(), console.warnings(), console.kept_in(model.store):
            result = find(
                model, documents.examples, truth, grid, metric=search.metric, minutes=search.minutes,
                nested=search.nested, resume=table, positive=reading.positive, progress=_as_a_whole(console),
                **folds.arguments(documents),
            )  # fmt: skip
        console.say_device(result.best_estimator.device_)
        if picture is not None:
            heatmap.draw(picture.path, result)
        seconds = {"read": read, **result.seconds, "total": time.perf_counter() - started}
        report = summarise(result, documents) | {
            "best_kernel_spelled": spell(result.best_params_["kernel"]),
            "model": search.output and str(search.output),
            "seconds": seconds,
        }
        if output is not None:
            model_files.save_model(
                output, result.best_estimator, documents, reading, learning, {"tuning": report}
            )
    console.print_json(report) if printing.json else _show(console, result, documents, report)


def _as_a_whole(console: Console) -> StageProgress:
    """One bar for the whole search."""

    def show(stage: str, done: float, total: float) -> None:
        if stage in ("encode", "tune"):
            console.stage(stage, done, total)

    return show


def _size(grid: dict[str, Any]) -> str:
    """How many settings there are."""
    size = prod(map(len, grid.values()))
    return "one setting" if size == 1 else f"{size} settings"


def summarise(result: Tuning, corpus: Corpus) -> dict[str, Any]:
    """The search as JSON values, documents by their ids."""
    found = result.as_dict()
    return {
        **{name: value for name, value in found.items() if name != "leaks"},
        "n": len(corpus),
        "device": result.best_estimator.device_.description,
        "near_duplicates": leaks_by_id(found["leaks"], corpus),
    }


def _show(console: Console, result: Tuning, corpus: Corpus, report: dict[str, Any]) -> None:
    name = result.metric
    title = SHOWN.get(name, name)
    ranked = sorted(result.table, key=lambda row: -_merit(row["mean"], name))
    best = next(row for row in ranked if row["params"] is result.best_params_)
    ranked = [best, *(row for row in ranked if row is not best)]
    others = [other for other in SHOWN if other in ranked[0]["metrics"] and other != name][:3]
    rows = [
        (
            ("* " if row is best else "  ") + heatmap.setting(row["params"]),
            format_metric(name, row["mean"]),
            format_metric(name, row["sd"]),
            *(format_metric(other, row["metrics"][other]) for other in others),
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
        ("best", heatmap.setting(result.best_params_)),
        (f"{title}, mean of folds", _mean_and_sd(name, best["mean"], best["sd"])),
    ]
    if result.nested is not None:
        nested = _mean_and_sd(name, result.nested.mean[name], result.nested.sd[name])
        summary.append((f"{title}, nested", nested))
    total = report["seconds"]
    summary.append(("seconds", ", ".join(f"{stage} {value:.2f}" for stage, value in total.items())))
    summary.append(("model", report["model"] or "not written; -o FILE writes it"))
    console.table("the best setting", summary)
    for note in heatmap.at_the_edge(result):
        console.say(f"note: {note}")


def _mean_and_sd(metric: str, mean: float, sd: float) -> str:
    return f"{format_metric(metric, mean)} (SD {format_metric(metric, sd)})"


def _merit(mean: float | None, metric: str) -> float:
    from textsvm.selection.search import LESS_IS_BETTER

    if mean is None or mean != mean:
        return float("-inf")
    return -mean if metric in LESS_IS_BETTER else mean
