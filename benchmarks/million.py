"""Up to millions of documents, from texts to predictions without a Gram.

Documents are made of sentences of IMDB, drawn at random within a class (`benchmarks.corpora`): 1-5 log idf,
C = 1. The same with growing n and growing length, whose exponents are the slopes of log time; IMDB itself,
25,000 + 25,000 whole reviews, 3-8 presence idf; Earn vs Rest of Reuters, whole texts, 1-5 log idf. The first
row, and those of tasks, are measured on a second run, so that nothing compiles in them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora import (
    IMDB,
    REUTERS,
    TrainTest,
    newswire_tasks,
    parted_task,
    read,
    resampled_documents,
    texts_of,
)
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.memory import free_all, peak_memory
from benchmarks.plots import Series, lines
from textsvm import Compute
from textsvm.estimators.svm import SVC
from textsvm.kernels import Spectrum
from textsvm.kernels.base import Kernel
from textsvm.text.documents import Documents, encode, normalise

LOG = Spectrum((1, 5), "log", idf=True)
PRESENCE = Spectrum((3, 8), "presence", idf=True)


class Corpus:
    """Sentences to make documents of."""

    def __init__(self, folder: Path | None) -> None:
        if folder is None:
            found = read(folder, REUTERS).reduce_labels("earn")
            texts, labels = list(found.texts), [str(label) for label in found.labels or ()]
        else:
            task = parted_task("IMDB", folder / IMDB)
            texts, labels = list(task.train), [str(label) for label in task.y_train]
        self.documents = encode([normalise(text) for text in texts])
        self.classes = np.unique(np.array(labels), return_inverse=True)[1]

    def draw(self, n: int, length: int, seed: int) -> tuple[list[str], NDArray[np.int64]]:
        """n texts and their classes."""
        made: Documents
        made, drawn = resampled_documents(self.documents, self.classes, n, length, seed)
        return texts_of(made), drawn


def trained(task: TrainTest, kernel: Kernel, device: str, solver: str, repeats: int = 2) -> dict[str, Any]:
    """One training and prediction from texts, the last of some."""
    for _ in range(repeats):
        free_all()
        model = SVC(kernel, C=1.0, device=device, compute=Compute(solver=solver))
        clock = time.perf_counter()
        model.fit(task.train, task.y_train)
        fitted = time.perf_counter()
        decided = model.predict(task.test)
        done = time.perf_counter()
    [solution] = model.solutions_
    stages = {f"{stage}, s": round(seconds, 3) for stage, seconds in model.seconds_.items()}
    return {
        "documents": len(task.train),
        "symbols of one": round(float(np.mean([len(text) for text in task.train[:1000]]))),
        **stages,
        "fit, s": round(fitted - clock, 3),
        "predict, s": round(done - fitted, 3),
        "predicted": len(task.test),
        "texts to predictions, s": round(done - clock, 3),
        "accuracy": round(float(np.mean(decided == task.y_test)), 4),
        "violation": f"{solution.violation:.1e}",
        "relative gap": f"{solution.duality_gap:.1e}",
        "objective": round(solution.objective, 3),
        "support vectors": len(model.support_),
        "peak memory, GiB": round(peak_memory() / 2**30, 1),
        "rows": model.gram_description_,
    }


def resampled_row(
    corpus: Corpus, n: int, length: int, device: str, tests: int, flip: float, repeats: int
) -> dict[str, Any]:
    """A row on documents of one length, trained with a share of wrong labels."""
    train, y_train = corpus.draw(n, length, 0)
    y_train = np.where(np.random.default_rng(5).random(n) < flip, 1 - y_train, y_train)
    test, y_test = corpus.draw(tests, length, 1)
    task = TrainTest("resampled", train, y_train, test, y_test)
    return trained(task, LOG, device, "features", repeats)


def growth(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Exponent of the growth over the upper half of a series."""
    half = max(2, (len(sizes) + 1) // 2)
    return float(np.polyfit(np.log(sizes[-half:]), np.log(seconds[-half:]), 1)[0])


@benchmark(
    "million",
    "Many documents, without a Gram",
    "reports/million",
    option("--sizes", type=int, nargs="*", default=[62_500, 125_000, 250_000, 500_000, 1_000_000],
           help="numbers of documents"),
    option("--length", type=int, default=800, help="symbols per document in the series of sizes"),
    option("--lengths", type=int, nargs="*", default=[100, 200, 400, 800, 1600], help="symbols per document"),
    option("--documents", type=int, default=125_000, help="documents in the series of lengths"),
    option("--tests", type=int, default=100_000, help="predicted documents"),
    option("--flip", type=float, default=0.0, help="share of the training labels of the series exchanged"),
    option("--tasks", nargs="*", default=["imdb", "earn"], choices=("imdb", "earn"), help="real corpora"),
    device="auto",
    gpu_output="reports/gpu/million",
    quick="small, on the bundled sample of newswire",
)  # fmt: skip
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Measure time over the number and the length of documents."""
    if options.quick:
        options.sizes, options.length, options.lengths, options.tasks = [200, 400], 100, [50, 100], []
        options.documents, options.tests = 200, 50
    folder = None if options.quick else data_folder()
    if "earn" in options.tasks:
        rest = newswire_tasks(folder)[1]
        report.row("Earn vs Rest, 1-5 log idf", trained, rest, LOG, options.device, "auto")
    if "imdb" in options.tasks and folder is not None:
        imdb = parted_task("IMDB", folder / IMDB)
        report.row("IMDB, 3-8 presence idf", trained, imdb, PRESENCE, options.device, "auto")
    corpus = Corpus(folder)
    plan = [("n", n, n, options.length) for n in options.sizes]
    plan += [("length", length, options.documents, length) for length in options.lengths]
    series: dict[str, list[tuple[float, float]]] = {"n": [], "length": []}
    for name, x, n, length in plan:
        given = (corpus, n, length, options.device, options.tests, options.flip, 1 + (x == plan[0][1]))
        row = report.row(f"{name} = {x:,}", resampled_row, *given)
        series[name].append((x, row["fit, s"]))
    for name, points in series.items():
        if len(points) > 1:
            exponent = round(growth(*zip(*points, strict=True)), 2)
            report.row(f"growth with {name}", dict, {"exponent": exponent})
    panels: list[tuple[str, Series]] = [
        (title, {"fit from texts": points})
        for title, points in (("documents", series["n"]), ("length", series["length"]))
        if points
    ]
    if panels:
        lines(report.path.with_suffix(".svg"), panels, "seconds")
