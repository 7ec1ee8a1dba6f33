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
from typing import TYPE_CHECKING

from textsvm.cli import machines, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.kernels import KernelOptions, options_of
from textsvm.cli.options import option_field
from textsvm.cli.output import MODEL, PICTURES, SEARCH, STDOUT, Force, Kind, Output
from textsvm.errors import InputError
from textsvm.kernels import KERNELS

if TYPE_CHECKING:
    KernelGrid = KernelOptions
else:
    KernelGrid = options_of(KERNELS)
_search = partial(option_field, panel="Search")


@dataclass(frozen=True)
class GridOptions(machines.ModelOptions):
    """All options of an estimator, with lists of kernel parameters."""

    kernel: KernelGrid


@dataclass(frozen=True)
class SearchOptions:
    """Metric, limits and files of the search."""

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
    picture: Path | None = _search("Draw the grid as .png, .svg or .pdf; needs Matplotlib.", "--heatmap")
    force: Force = False

    def outputs(self, corpus: list[Path]) -> tuple[Output | None, Output | None]:
        """Model and picture, checked; raises WrongUsage."""
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
    def record(self, console: Console) -> Iterator[Path]:
        """File of evaluated settings; unless the user named it, it is removed after a completed search."""
        path, named = self.resume or self._table(), self.resume is not None
        try:
            yield path
        except BaseException:
            settings = path.read_text("utf-8") if path.exists() else ""
            if n := settings.count('\n{"setting"'):
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


@partial(options.with_groups, without={"budget"})
def tune(
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    learning: options.LearningOptions,
    folds: options.FoldOptions,
    model_options: GridOptions,
    search: SearchOptions,
    printing: options.PrintingOptions,
) -> None:
    """Find the best kernel parameters and C; each kernel matrix serves all folds and values of C.

    textsvm tune CORPUS --kernel gap --p 3,4,5 --decay 0.3,0.5 -C 1,10,100 -o best.textsvm

    textsvm tune CORPUS --kernel gap,spectrum --weight count,log --multiclass ovo,ovr --minutes 10

    textsvm tune CORPUS --kernel spectrum:1-5,log,idf --kernel spectrum:1-5,log,idf+gap:3
    """
    started = time.perf_counter()
    model_options.cluster.check()
    output, picture = search.outputs(corpus)
    console = Console(printing.quiet, output is not None and output.is_stdout)

    from textsvm.cli import corpora, estimators, model_files, search_results, splits
    from textsvm.selection.tuning import tune as run_search

    grid, tuned = estimators.grid(model_options, learning)
    documents = corpora.read(
        console, corpus, reading, learning, groups=folds.groups, kernel=grid["kernel"][0]
    )
    tuned, grids = model_files.settle_grid(model_options.kernel, tuned, grid, documents)
    truth = corpora.targets(documents, learning.multilabel)
    corpora.check_classes(documents, reading.label)
    size = sum(prod(map(len, grid.values())) for grid in grids)
    settings = "one setting" if size == 1 else f"{size} settings"
    console.say(f"note: {settings} on {folds.folds * folds.repeats} folds of {len(documents):,} documents")
    read = time.perf_counter() - started

    def progress(stage: str, done: float, total: float) -> None:
        if stage in ("encode", "tune"):  # the whole search has a single bar
            console.stage(stage, done, total)

    # The file of settings stays until the model is written, so that a full disk costs no search.
    with search.record(console) as table:
        with model_options.cluster.at_work(console, tuned.compute_options.store):
            result = run_search(
                tuned, documents.examples, truth, grids, metric=search.metric, minutes=search.minutes,
                nested=search.nested, resume=table, positive=reading.positive, progress=progress,
                **splits.fold_arguments(console, folds, documents),
            )  # fmt: skip
        console.say_device(result.best_model.device_in_use)
        splits.say_copies(console, result.copies)
        if picture is not None:
            search_results.draw_heatmap(picture.path, result)
        seconds = {"read": read, **result.seconds, "total": time.perf_counter() - started}
        values = result.as_dict()
        report = {
            **{name: value for name, value in values.items() if name != "leaks"},
            "n": len(documents),
            "device": result.best_model.device_in_use.description,
            "near_duplicates": splits.leaks_by_id(values["leaks"], documents),
            "best_kernel_spelled": search_results.spelled(result.best_params_),
            "model": search.output and str(search.output),
            "seconds": seconds,
        }
        if output is not None:
            model_files.save_model(
                output, result.best_model, documents, reading, learning, {"tuning": report}
            )
    if printing.json:
        console.print_json({**report, "reading": documents.reading})
    else:
        search_results.show_search(console, result, documents, report)


def _kind_of(path: Path) -> Kind:
    """Kind of picture of a file name; raises an error, before any work, if it cannot be drawn."""
    kind = PICTURES[".png"] if path == STDOUT else PICTURES.get(path.suffix.lower())
    if kind is None:
        raise WrongUsage(f"--heatmap {path}: the name must end in {', '.join(PICTURES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError("--heatmap needs Matplotlib: pip install matplotlib") from error
    return kind
