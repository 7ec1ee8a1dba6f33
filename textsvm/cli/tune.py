"""textsvm tune: a grid of kernels and penalties by cross-validation -> table, heat map, best model."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textsvm.cli import corpora, machines, model_files, options
from textsvm.cli.console import Console, WrongUsage, seconds_row
from textsvm.cli.cv import SHOWN, leaks_by_id
from textsvm.cli.options import option
from textsvm.cli.output import MODEL, PICTURES, SEARCH, STDOUT, Force, Kind, Output
from textsvm.errors import InputError, printable
from textsvm.kernels.spelling import spell
from textsvm.reporting.formatting import format_metric

if TYPE_CHECKING:
    from textsvm.readers.corpus import Corpus
    from textsvm.runtime.parallel import StageProgress
    from textsvm.selection.tuning import Tuning

_search = partial(option, panel="Search")
#: Largest number of settings in the printed table.
_MOST = 20
#: RGB colours of the heat map.
_WORST, _BEST = (247, 251, 255), (66, 146, 198)


@dataclass(frozen=True)
class SearchOptions:
    """Metric, limits and files of the search."""

    output: Annotated[
        Path | None,
        option("Write the best model, trained on all documents; - is stdout.", "--output", "-o"),
    ] = None
    metric: Annotated[
        str | None,
        _search(
            "Metric to optimise: accuracy, macro_f1, mcc, roc_auc, average_precision, qwk, f1[LABEL], r2, "
            "mae, ... (default: accuracy, micro_f1, r2).",
            show_default=False,
        ),
    ] = None
    nested: Annotated[
        int | None, _search("Outer folds that estimate the tuned model on documents not used for tuning.")
    ] = None
    minutes: Annotated[float | None, _search("Refuse a grid that is predicted to take longer.")] = None
    resume: Annotated[
        Path | None,
        _search(
            "File of evaluated settings; an existing file continues its search with equal results (default: "
            "OUTPUT.tuning, removed at the end).",
            metavar="FILE",
        ),
    ] = None
    picture: Annotated[
        Path | None,
        _search("Draw the grid as .png, .svg or .pdf; needs Matplotlib.", "--heatmap"),
    ] = None
    force: Force = False

    def outputs(self, corpus: list[Path]) -> tuple[Output | None, Output | None]:
        """Model and picture, checked; raises WrongUsage."""
        if self.nested is not None and self.nested < 2:
            raise WrongUsage(f"--nested must be at least 2, got {self.nested}")
        if self.minutes is not None and not self.minutes > 0:
            raise WrongUsage(f"--minutes must be positive, got {self.minutes:g}")
        model = picture = None
        if self.output is not None:
            model = Output("-o", self.output, MODEL, self.force).checked({"the corpus": corpus})
        if self.picture is not None:
            picture = Output("--heatmap", self.picture, _kind_of(self.picture), self.force)
            picture.checked({"the corpus": corpus, "the model": self.output})
        if self.resume is not None:
            others = {"the corpus": corpus, "the model": self.output, "the picture": self.picture}
            Output("--resume", self.resume, SEARCH).checked(others)
        return model, picture

    @contextmanager
    def kept(self, console: Console) -> Iterator[Path]:
        """File of evaluated settings; unless the user named it, it is removed after a completed search."""
        path, named = self.resume or self._table(), self.resume is not None
        try:
            yield path
        except BaseException:
            if n := _settings_in(path):
                console.say(f"note: {n} setting{'s' * (n > 1)} tried so far; continue with --resume {path}")
            elif not named:
                path.unlink(missing_ok=True)
            raise
        if not named:
            path.unlink(missing_ok=True)

    def _table(self) -> Path:
        """Default file of evaluated settings: beside the model, else a temporary file."""
        if self.output is None or self.output == STDOUT:
            return Path(tempfile.gettempdir(), f"textsvm-tune-{os.getpid()}.tuning")
        path = self.output.with_name(f"{self.output.name}.tuning")
        if path.exists():
            raise WrongUsage(
                f"{path} holds the settings of an interrupted search; continue with --resume, or remove it"
            )
        return path


def _settings_in(path: Path) -> int:
    """Number of settings in a file."""
    try:
        return path.read_text("utf-8").count('\n{"setting"')
    except OSError:
        return 0


@options.with_groups
def tune(
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    learning: options.LearningOptions,
    folds: options.FoldOptions,
    model_options: machines.ModelOptions,
    search: SearchOptions,
    printing: options.PrintingOptions,
) -> None:
    """Find the best kernel parameters and C; each kernel matrix serves all folds and values of C.

    textsvm tune CORPUS --kernel gap --p 3,4,5 --decay 0.3,0.5 -C 1,10,100 -o best.textsvm

    textsvm tune CORPUS --kernel gap,spectrum --weight count,log --multiclass ovo,ovr --minutes 10

    textsvm tune CORPUS --kernel spectrum:1-5,log,idf --kernel spectrum:1-5,log,idf+gap:3
    """
    started = time.perf_counter()
    folds.check()
    model_options.cluster.check()
    output, picture = search.outputs(corpus)
    console = Console(printing.quiet, output is not None and output.is_stdout)
    grid, model = model_options.grid(learning)
    documents = corpora.read(
        console, corpus, reading, learning, groups=folds.groups, kernel=grid["kernel"][0]
    )
    corpora.settle_grid(model_options.kernel, model, grid, documents)
    truth = corpora.targets(documents, learning.multilabel)
    console.say(f"note: {_size(grid)} on {folds.folds * folds.repeats} folds of {len(documents):,} documents")
    read = time.perf_counter() - started

    from textsvm.selection.tuning import tune as run_search

    # The file of settings stays until the model is written, so that a full disk costs no search.
    with search.kept(console) as table:
        with model_options.cluster.at_work(console, model.compute_options.store):
            result = run_search(
                model, documents.examples, truth, grid, metric=search.metric, minutes=search.minutes,
                nested=search.nested, resume=table, positive=reading.positive, progress=_single_bar(console),
                **folds.arguments(documents),
            )  # fmt: skip
        console.say_device(result.best_estimator.device_)
        if picture is not None:
            _draw_heatmap(picture.path, result)
        seconds = {"read": read, **result.seconds, "total": time.perf_counter() - started}
        report = _summary(result, documents) | {
            "best_kernel_spelled": spell(result.best_params_["kernel"]),
            "model": search.output and str(search.output),
            "seconds": seconds,
        }
        if output is not None:
            model_files.save_model(
                output, result.best_estimator, documents, reading, learning, {"tuning": report}
            )
    console.print_json(report) if printing.json else _show(console, result, documents, report)


def _single_bar(console: Console) -> StageProgress:
    """Progress callback with one bar for the whole search."""

    def show(stage: str, done: float, total: float) -> None:
        if stage in ("encode", "tune"):
            console.stage(stage, done, total)

    return show


def _size(grid: dict[str, Any]) -> str:
    """How many settings there are."""
    size = prod(map(len, grid.values()))
    return "one setting" if size == 1 else f"{size} settings"


def _summary(result: Tuning, corpus: Corpus) -> dict[str, Any]:
    """The search as JSON values, documents by their ids."""
    values = result.as_dict()
    return {
        **{name: value for name, value in values.items() if name != "leaks"},
        "n": len(corpus),
        "device": result.best_estimator.device_.description,
        "near_duplicates": leaks_by_id(values["leaks"], corpus),
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
            ("* " if row is best else "  ") + _setting(row["params"]),
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
    _show_heatmap(console, result)
    summary = [
        ("best", _setting(result.best_params_)),
        (f"{title}, mean of folds", _mean_and_sd(name, best["mean"], best["sd"])),
    ]
    if result.nested is not None:
        nested = _mean_and_sd(name, result.nested.mean[name], result.nested.sd[name])
        summary.append((f"{title}, nested", nested))
    summary.append(seconds_row(report["seconds"]))
    summary.append(("model", report["model"] or "not written; -o FILE writes it"))
    console.table("the best setting", summary)
    for note in _edge_notes(result):
        console.say(f"note: {note}")


def _mean_and_sd(metric: str, mean: float, sd: float) -> str:
    return f"{format_metric(metric, mean)} (SD {format_metric(metric, sd)})"


def _merit(mean: float | None, metric: str) -> float:
    from textsvm.selection.search import LESS_IS_BETTER

    if mean is None or mean != mean:
        return float("-inf")
    return -mean if metric in LESS_IS_BETTER else mean


def _penalty(params: dict[str, Any]) -> str:
    """C, epsilon and multiclass strategy of a setting, in words."""
    numbers = [f"{name} {params[name]:g}" for name in ("C", "epsilon") if name in params]
    return ", ".join([*numbers, *([params["multiclass"]] if "multiclass" in params else [])])


def _setting(params: dict[str, Any]) -> str:
    """Setting in words."""
    return f"{spell(params['kernel'])}, {_penalty(params)}"


def _heatmap_cells(result: Tuning) -> tuple[list[str], list[str], dict[tuple[str, str], float]]:
    """Rows (kernels), columns (penalties) and the mean of each cell."""
    cells = {(spell(row["params"]["kernel"]), _penalty(row["params"])): row["mean"] for row in result.table}
    return list(dict.fromkeys(k for k, _ in cells)), list(dict.fromkeys(c for _, c in cells)), cells


def _share(value: float, cells: dict[tuple[str, str], float], less_is_better: bool) -> float:
    """Position of a mean between the worst (0) and the best (1)."""
    known = [each for each in cells.values() if each == each]
    if value != value or max(known) == min(known):
        return 0.0
    share = (value - min(known)) / (max(known) - min(known))
    return 1 - share if less_is_better else share


def _show_heatmap(console: Console, result: Tuning) -> None:
    """Print the grid as a coloured table, if it has several rows and columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from textsvm.selection.search import LESS_IS_BETTER

    rows, columns, cells = _heatmap_cells(result)
    if len(rows) < 2 or len(columns) < 2:
        return
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for column in columns:
        table.add_column(Text(printable(column)), justify="right", overflow="fold")
    best = (spell(result.best_params_["kernel"]), _penalty(result.best_params_))
    for row in rows:
        line = [Text(printable(row))]
        for column in columns:
            value = cells.get((row, column), float("nan"))
            share = _share(value, cells, result.metric in LESS_IS_BETTER)
            colour = ",".join(str(round(a + share * (b - a))) for a, b in zip(_WORST, _BEST, strict=True))
            mark = "*" if (row, column) == best else " "
            style = f"{'bold ' * (mark == '*')}black on rgb({colour})"
            line.append(Text(f" {format_metric(result.metric, value)}{mark}", style=style))
        table.add_row(*line)
    console.stdout.print(Text(f"mean {SHOWN.get(result.metric, result.metric)}", style="bold"))
    console.stdout.print(table)


def _kind_of(path: Path) -> Kind:
    """Kind of picture of a file name; raises an error, before any work, if it cannot be drawn."""
    kind = PICTURES[".png"] if path == STDOUT else PICTURES.get(path.suffix.lower())
    if kind is None:
        raise WrongUsage(f"--heatmap {path}: the name must end in {', '.join(PICTURES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError('--heatmap needs Matplotlib: pip install "textsvm[plot]"') from error
    return kind


def _draw_heatmap(path: Path, result: Tuning) -> None:
    """Draw the grid as a picture; the file is replaced at once, or not at all."""
    import numpy as np
    from matplotlib.figure import Figure

    from textsvm.runtime.files import replacing
    from textsvm.selection.search import LESS_IS_BETTER

    rows, columns, cells = _heatmap_cells(result)
    values = np.array([[cells.get((row, column), np.nan) for column in columns] for row in rows])
    picture = Figure(figsize=(2.5 + 0.9 * len(columns), 1.5 + 0.4 * len(rows)), layout="constrained")
    axes = picture.add_subplot()
    image = axes.imshow(values, cmap="Blues_r" if result.metric in LESS_IS_BETTER else "Blues", aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            share = _share(values[i, j], cells, result.metric in LESS_IS_BETTER)
            axes.text(
                j, i, format_metric(result.metric, cells.get((row, column))), ha="center", va="center",
                color="white" if share > 0.6 else "black", fontsize=8,
            )  # fmt: skip
    axes.set_title(f"mean {SHOWN.get(result.metric, result.metric)} over {len(result.folds)} folds")
    picture.colorbar(image)
    with replacing(path) as temporary:
        picture.savefig(temporary, format=path.suffix.lower().lstrip("."), dpi=150)


def _edge_notes(result: Tuning) -> Iterator[str]:
    """Warn if the best value of C is the smallest or largest of three or more."""
    tried = sorted({row["params"]["C"] for row in result.table})
    best = result.best_params_["C"]
    if len(tried) > 2 and best in (tried[0], tried[-1]):
        side = "smallest" if best == tried[0] else "largest"
        yield f"the best C, {best:g}, is the {side} value tried; values beyond it may be better"
