"""textsvm tune: a grid of kernels and penalties by cross-validation -> table and best model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.cli import machines, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.cv import SHOWN
from textsvm.cli.machines import KernelOptions, options_of
from textsvm.cli.options import option_field
from textsvm.cli.output import MODEL, SEARCH, STDOUT, Force, Output
from textsvm.errors import plural
from textsvm.kernels import KERNELS
from textsvm.reporting.formatting import format_metric

if TYPE_CHECKING:
    from textsvm.arrays import Json
    from textsvm.readers.corpus import Corpus
    from textsvm.selection.tuning import Tuning

    KernelGrid = KernelOptions
else:
    KernelGrid = options_of(KERNELS)
_search = partial(option_field, panel="Search")
_MOST = 20  #: Largest number of settings in the printed table.


@dataclass(frozen=True)
class GridOptions(machines.ModelOptions):
    """All options of an estimator, with lists of kernel parameters."""

    kernel: KernelGrid


@dataclass(frozen=True)
class SearchOptions:
    """Metric, limits and files of the search."""

    cluster: machines.ClusterOptions
    output: Path | None = option_field(
        "Write the best model, trained on all documents; - is stdout.", "--output", "-o"
    )
    metric: str | None = _search(
        "Metric to optimise: accuracy, macro_f1, mcc, roc_auc, average_precision, qwk, f1[LABEL], r2, "
        "mae, ... (default: accuracy, micro_f1, r2).",
        show_default=False,
    )
    nested: int | None = _search(
        "Outer folds that estimate the tuned model on documents not used for tuning.", min=2
    )
    minutes: float | None = _search("Leave out the kernels that are not tried after this time.")
    resume: Path | None = _search(
        "File of evaluated settings; an existing file continues its search with equal results (default: "
        "OUTPUT.tuning, removed at the end).",
        metavar="FILE",
    )
    force: Force = False

    def checked(self, corpus: list[Path]) -> Output | None:
        """File of the model; raises WrongUsage."""
        if self.minutes is not None and not self.minutes > 0:
            raise WrongUsage(f"--minutes must be positive, got {self.minutes:g}")
        if self.resume is not None:
            Output("--resume", self.resume, SEARCH).checked({"the corpus": corpus, "the model": self.output})
        if self.output is None:
            return None
        return Output("-o", self.output, MODEL, self.force).checked({"the corpus": corpus})

    @contextmanager
    def record(self, console: Console) -> Iterator[Path]:
        """File of evaluated settings; unless the user named it, it is removed after a completed search."""
        path, named = self.resume or self._table(), self.resume is not None
        try:
            yield path
        except BaseException:
            if n := (path.read_text("utf-8") if path.exists() else "").count('\n{"setting"'):
                console.say(f"note: {plural(n, 'setting')} tried so far; continue with --resume {path}")
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


#: Fields of groups that are no options of `tune`.
_WITHOUT = {"annotators", "id", "corrections", "repeats", "scoring", "tol", "solver"}


@partial(options.with_groups, without=_WITHOUT)
def tune(
    corpus: options.CorpusPath, reading: options.ReadingOptions, learning: options.LearningOptions,
    folds: options.FoldOptions, model_options: GridOptions, search: SearchOptions,
    printing: options.PrintingOptions,
) -> None:  # fmt: skip
    """Find the best kernel parameters and C; each kernel matrix serves all folds and values of C.

    textsvm tune CORPUS --kernel gap --p 3,4,5 --decay 0.3,0.5 -C 1,10,100 -o best.textsvm

    textsvm tune CORPUS --kernel gap,spectrum --weight count,log --multiclass ovo,ovr --minutes 10

    textsvm tune CORPUS --kernel spectrum:1-5,log,idf --kernel spectrum:1-5,log,idf+gap:3
    """
    search.cluster.check()
    output = search.checked(corpus)
    console = Console(printing.quiet, output is not None and output.is_stdout)

    from textsvm.cli import corpora, model_files, settings
    from textsvm.selection.tuning import tune as run_search

    grid, tuned = settings.grid(model_options, learning)
    documents = corpora.read(console, corpus, reading, learning, kernel=grid["kernel"][0])
    tuned, grids = settings.settle_grid(model_options.kernel, tuned, grid, documents)
    if documents.columns is not None and not model_options.kernel.named:
        console.say("note: each column has the same weight; `textsvm train` chooses weights of columns")
    corpora.targets(documents, learning.multilabel)
    corpora.check_classes(documents, reading.label)
    documents = corpora.cut(console, documents, learning)
    truth = corpora.targets(documents, learning.multilabel)
    size = sum(prod(map(len, grid.values())) for grid in grids)
    tried = "one setting" if size == 1 else f"{size} settings"
    console.say(f"note: {tried} on {folds.folds} folds of {len(documents):,} documents")
    console.lap("read")

    def progress(stage: str, done: float, total: float) -> None:
        if stage in ("encode", "tune"):  # the whole search has a single bar
            console.stage(stage, done, total)

    # The file of settings stays until the model is written, so that a full disk costs no search.
    with search.record(console) as table:
        with search.cluster.at_work(console, tuned.compute_options.store):
            result = run_search(
                tuned, documents.examples, truth, grids, metric=search.metric, minutes=search.minutes,
                nested=search.nested, resume=table, positive=reading.positive, progress=progress,
                **corpora.fold_arguments(console, folds, documents),
            )  # fmt: skip
        console.lap(result.seconds)
        console.say_device(result.best_model.device_in_use)
        corpora.say_copies(console, result.copies)
        values = result.as_dict()
        report = {
            **{name: value for name, value in values.items() if name != "leaks"},
            "n": len(documents),
            "device": result.best_model.device_in_use.description,
            "near_duplicates": corpora.leaks_by_id(values["leaks"], documents),
            "best_kernel_spelled": _spelled(result.best_params_),
            "model": search.output and str(search.output),
        }
        if output is not None:
            best = replace(result.best_model, pieces=documents.pieces)
            model_files.save_model(output, best, documents, reading, learning, {"tuning": report})
    report["seconds"] = console.lap("save")
    if printing.json:
        console.print_json({**report, "reading": documents.reading})
    else:
        _show(console, result, documents, report)


def _show(console: Console, result: Tuning, corpus: Corpus, report: Json) -> None:
    """Print the settings by their mean and the best setting."""
    from textsvm.selection.search import LESS_IS_BETTER

    name = result.metric
    title, sign = SHOWN.get(name, name), -1 if name in LESS_IS_BETTER else 1
    ranked = sorted(result.table, key=lambda row: -_merit(row["mean"], sign))
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
        f"{plural(len(ranked), 'setting')} by mean {title} over {folds}{more}",
        rows,
        ("setting", title, "SD", *(SHOWN[other] for other in others), "seconds"),
    )
    summary = [
        ("best", _setting(result.best_params_)),
        (f"{title}, mean of folds", _mean_and_sd(name, best["mean"], best["sd"])),
    ]
    if result.nested is not None:
        nested = _mean_and_sd(name, result.nested.mean[name], result.nested.sd[name])
        summary.append((f"{title}, nested", nested))
    seconds = ", ".join(f"{stage} {value:.2f}" for stage, value in report["seconds"].items())
    summary.append(("seconds", seconds))
    summary.append(("model", report["model"] or "not written; -o FILE writes it"))
    console.table("the best setting", summary)
    if result.best_params_["kernel"] == "auto" and len(ranked) > 1:
        console.say("note: no setting was better than the default (auto) by more than a standard error")
        return
    values_of_c = sorted({row["params"]["C"] for row in result.table if row["params"]["kernel"] != "auto"})
    best_c = result.best_params_["C"]
    if len(values_of_c) > 2 and best_c in (values_of_c[0], values_of_c[-1]):
        side = "smallest" if best_c == values_of_c[0] else "largest"
        console.say(f"note: the best C, {best_c:g}, is the {side} value tried; values beyond may be better")


def _mean_and_sd(metric: str, mean: float, sd: float) -> str:
    return f"{format_metric(metric, mean)} (SD {format_metric(metric, sd)})"


def _spelled(params: Json) -> str:
    """Kernel of a setting."""
    from textsvm.kernels.spelling import spell

    return "auto" if params["kernel"] == "auto" else spell(params["kernel"])


def _setting(params: Json) -> str:
    numbers = [f"{name} {params[name]:g}" for name in ("C", "epsilon") if name in params]
    return ", ".join([_spelled(params), *numbers, *filter(None, [params.get("multiclass")])])


def _merit(mean: float | None, sign: int) -> float:
    """Mean of a metric with a sign, so that more is better."""
    if mean is None or mean != mean:
        return float("-inf")
    return sign * mean
