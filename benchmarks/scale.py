"""Time and memory over the number and the length of documents.

Figure 1 of Shi et al. 2010 on Reuters (earn against the rest), and IMDB up to all 50,000 reviews. Every
cell is one training from texts, C = 10. The growth exponent is the slope of log time over the upper half
of a series: 2 is quadratic.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from benchmarks.corpora import IMDB, REUTERS, read
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.memory import largest_resident
from benchmarks.plots import Series, lines
from textsvm.estimators.svm import SVC
from textsvm.kernels import EditDistance, GapWeighted, Spectrum
from textsvm.kernels.base import Kernel
from textsvm.runtime import device as devices
from textsvm.text.documents import normalise

KERNELS: dict[str, Kernel] = {
    "spectrum p=4": Spectrum(p=4),
    "edit gamma=0.05": EditDistance(gamma=0.05),
    "gap p=5 decay=0.5": GapWeighted(p=5, decay=0.5),
}
Texts = tuple[list[str], NDArray[np.int64]]


def documents(corpus: str, folder: Path | None) -> Texts:
    """Texts of a corpus in the papers' form, shuffled, and a binary label."""
    found = read(folder, IMDB) if corpus == "imdb" else read(folder, REUTERS).reduce_labels("earn")
    texts = [normalise(text, "paper") for text in found.texts]
    label = np.unique(np.array(found.labels), return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[i] for i in order], label[order]


def cell(name: str, found: Texts, n: int, length: int | None, device: str) -> dict[str, Any]:
    """Train on the first n documents, cut at `length` symbols."""
    texts, label = found[0][:n], found[1][:n]
    model = SVC(KERNELS[name], C=10, normalise="none", max_length=length, device=device)
    # Short runs are noisy, and the first of its size may compile: the best of three.
    seconds = np.inf
    for _ in range(3):
        clock = time.perf_counter()
        fresh = clone(model).fit(texts, label)
        if time.perf_counter() - clock < seconds:
            seconds, fitted = time.perf_counter() - clock, fresh
        if seconds > 2:
            break
    model = fitted
    return {
        "kernel": name,
        "n": len(texts),
        "L": length or "full",
        "mean length": round(float(np.mean([len(text[:length]) for text in texts]))),
        "gram, s": model.seconds_["gram"],
        "solve, s": model.seconds_["solve"],
        "train, s": seconds,
        "support vectors": len(model.support_),
        "memory of the process so far, MiB": _peak_memory() >> 20,
        "rows": model.gram_description_,
    }


def growth(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Exponent of the growth over the upper half of a series."""
    half = max(2, (len(sizes) + 1) // 2)
    return float(np.polyfit(np.log(sizes[-half:]), np.log(seconds[-half:]), 1)[0])


def picture(output: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Time against the number of documents, and against their mean length."""
    of_n: Series = {}
    of_length: Series = {}
    for row in rows:
        series, x = (of_n, "n") if " n=" in row["key"] else (of_length, "mean length")
        if "train, s" in row and row["train, s"] != "":
            series.setdefault(row["kernel"], []).append((row[x], row["train, s"]))
    lines(
        output.with_suffix(".svg"), [("documents (L = 100)", of_n), ("mean length", of_length)], "training, s"
    )


def _peak_memory() -> int:
    """Bytes: the largest resident set of this process; with a GPU, what is taken there."""
    if "cupy" in sys.modules:
        free, total = devices.cupy().cuda.runtime.memGetInfo()
        return int(total - free)
    return largest_resident()


@benchmark(
    "scale",
    "Time against size",
    "reports/scale_{corpus}",
    option("--corpus", choices=("reuters", "imdb"), default="reuters", help="corpus (default: reuters)"),
    option(
        "--sizes", type=int, nargs="*", default=[500, 1000, 2000, 4000, 8000], help="numbers of documents"
    ),
    option(
        "--lengths", type=int, nargs="*", default=[50, 100, 200, 400, 800, 0], help="symbols; 0: whole texts"
    ),
    option("--documents", type=int, default=2000, help="documents in the series of lengths"),
    option("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS), recorded=False),
    device="auto",
    gpu_output="reports/gpu/scale_{corpus}",
    quick="use the bundled sample of newswire",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train on corpora of growing size and growing length."""
    if options.quick:
        options.corpus, options.sizes, options.lengths, options.documents = (
            "reuters",
            [100, 200],
            [25, 50],
            100,
        )
    report.title = f"Time against size: {options.corpus}"
    corpus = documents(options.corpus, None if options.quick else data_folder())
    of_n: dict[str, list[tuple[float, float]]] = {}
    of_length: dict[str, list[tuple[float, float]]] = {}
    for name in options.kernels:
        cell(name, corpus, 60, 30, options.device)  # compiles
        for n in options.sizes:
            if n <= len(corpus[0]):
                row = report.row(f"{name} n={n}", cell, name, corpus, n, 100, options.device)
                of_n.setdefault(name, []).append((n, row["train, s"]))
        for length in options.lengths:
            given = (name, corpus, options.documents, length or None, options.device)
            row = report.row(f"{name} L={length}", cell, *given)
            of_length.setdefault(name, []).append((row["mean length"], row["train, s"]))
    for title, series in (("documents", of_n), ("length", of_length)):
        for name, points in series.items():
            if len(points) > 1:
                exponent = round(growth(*zip(*points, strict=True)), 2)
                report.row(f"growth {title} {name}", dict, {"kernel": name, f"growth with {title}": exponent})
    picture(report.path, list(report.rows.values()))
