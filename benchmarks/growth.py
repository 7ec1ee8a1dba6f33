"""Growth of the training time with the number and the length of documents, on CPU and GPU in one figure.

Documents of L symbols are made of sentences of IMDB, drawn at random within a class (`benchmarks.million`).
Each point is the fit from texts in memory, C = 1, the best of two or three. A series stops when extrapolation
from its last two points exceeds `--most` seconds. The column "rows" tells where the planner takes features
instead of a kernel matrix. The exponent is the slope of log time between a point and the one before.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.memory import free_all
from benchmarks.million import LOG, Corpus
from benchmarks.plots import Series, lines
from textsvm.estimators.svm import SVC
from textsvm.kernels import EditDistance, GapWeighted
from textsvm.kernels.base import Kernel
from textsvm.runtime import device as devices

KERNELS: dict[str, Kernel] = {
    "spectrum 1-5, log idf": LOG,
    "edit distance": EditDistance(gamma=0.05),
    "gap-weighted, p = 5": GapWeighted(p=5, decay=0.5),
}
#: Seconds below which a point is measured three times.
SHORT = 2.0


def cell(corpus: Corpus, kernel: Kernel, n: int, length: int, device: str) -> dict[str, Any]:
    """Train on n documents of `length` symbols."""
    texts, labels = corpus.draw(n, length, 0)
    seconds = np.inf
    for number in range(3):
        free_all()
        model = SVC(kernel, C=1.0, device=device)
        clock = time.perf_counter()
        model.fit(texts, labels)
        seconds = min(seconds, time.perf_counter() - clock)
        if number and seconds > SHORT:  # the first may compile
            break
    return {"n": n, "L": length, "fit, s": seconds, "rows": model.gram_description_}


def exponent(points: list[tuple[float, float]]) -> float:
    """Slope of log time between the last two points."""
    (x, before), (last, seconds) = points[-2:]
    return float(np.log(seconds / before) / np.log(last / x))


def predicted(points: list[tuple[float, float]], x: float) -> float:
    """Seconds at x by the last two points, growing at least linearly."""
    if len(points) < 2:
        return 0.0
    last, seconds = points[-1]
    return seconds * (x / last) ** max(1.0, exponent(points))


@benchmark(
    "growth",
    "Growth of the training time",
    "reports/growth",
    option("--sizes", type=int, nargs="*", help="numbers of documents",
           default=[1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000]),
    option("--length", type=int, default=100, help="symbols per document in the series of sizes"),
    option("--lengths", type=int, nargs="*", help="symbols per document",
           default=[50, 100, 200, 400, 800, 1600]),
    option("--documents", type=int, default=3000, help="documents in the series of lengths"),
    option("--devices", nargs="*", default=["cpu"], help="of the series, such as cpu cuda"),
    option("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS), recorded=False),
    option("--most", type=float, default=30.0, help="seconds of a point"),
    quick="small, on the bundled sample of newswire",
)  # fmt: skip
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Measure time over the number and the length of documents."""
    if options.quick:
        options.sizes, options.length, options.lengths, options.documents = [100, 200], 50, [25, 50], 100
    corpus = Corpus(None if options.quick else data_folder())
    panels: list[tuple[str, Series]] = [(f"documents of {options.length} symbols", {}), ("symbols", {})]
    for device in options.devices:
        where = "CPU" if devices.select(device).kind == "cpu" else f"GPU ({device})"
        for name in options.kernels:
            kernel = KERNELS[name]
            cell(corpus, kernel, 60, 30, device)  # compiles
            plan = [[(n, n, options.length) for n in options.sizes]]
            plan += [[(length, options.documents, length) for length in options.lengths]]
            for (title, series), sizes in zip(panels, plan, strict=True):
                points = series.setdefault(f"{name}, {where}", [])
                for x, n, length in sizes:
                    if predicted(points, x) > options.most:
                        break
                    row = report.row(f"{where} {name} {title} {x}", cell, corpus, kernel, n, length, device)
                    points.append((x, row["fit, s"]))
                    row |= {"kernel": name, "where": where}
                    row["exponent"] = round(exponent(points), 2) if len(points) > 1 else ""
    report.write()  # the exponent of the last row
    lines(report.path.with_suffix(".svg"), panels, "training from texts, s")
