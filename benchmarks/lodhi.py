"""The F1 tables of Lodhi et al. 2002 on Reuters, ten splits.

380 training and 90 test documents of four categories, drawn anew for each split from the two parts of
ModApte; one classifier a category (against the three others); kernels normalised; mean F1 and standard
deviation over the splits, beside the published mean. The paper names neither its C nor the documents of its
splits; texts are lower-case words without stop words and punctuation, as it says.

Long substrings are shared by few texts: values off the diagonal fall towards 0. A machine with a bias
then calls every text "rest", a machine without one goes by the little that is shared. Both are reported;
the one without is Crammer and Singer's with two classes, at half the C.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.metrics import f1_score

from benchmarks.corpora import REUTERS
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.plots import lines
from textsvm.gram.build import grams
from textsvm.kernels import GapWeighted, Spectrum
from textsvm.kernels.base import Kernel
from textsvm.readers.corpus import Corpus
from textsvm.readers.read import read_corpus
from textsvm.runtime import device as devices
from textsvm.solvers import problems
from textsvm.solvers.problems import decision_values
from textsvm.solvers.solve import solve
from textsvm.text.documents import encode, normalise

CATEGORIES = ("earn", "acq", "crude", "corn")
TRAIN, TEST = (152, 114, 76, 38), (40, 25, 15, 10)
LENGTHS = (3, 4, 5, 6, 7, 8, 10, 12, 14)
DECAYS = (0.01, 0.1, 0.5, 0.9)

#: Mean F1 as printed, by category: SSK with decay 0.5 and n-grams, by length.
PUBLISHED = {
    "SSK": {
        "earn": (0.925, 0.932, 0.936, 0.936, 0.940, 0.934, 0.927, 0.931, 0.936),
        "acq": (0.785, 0.822, 0.867, 0.876, 0.864, 0.852, 0.791, 0.791, 0.774),
        "crude": (0.881, 0.905, 0.936, 0.901, 0.872, 0.828, 0.764, 0.709, 0.761),
        "corn": (0.665, 0.783, 0.779, 0.749, 0.643, 0.569, 0.582, 0.618, 0.702),
    },
    "n-grams": {
        "earn": (0.919, 0.943, 0.944, 0.943, 0.940, 0.940, 0.932, 0.917, 0.923),
        "acq": (0.791, 0.873, 0.882, 0.880, 0.870, 0.857, 0.830, 0.806, 0.776),
        "crude": (0.907, 0.935, 0.937, 0.908, 0.904, 0.869, 0.811, 0.737, 0.884),
        "corn": (0.797, 0.841, 0.847, 0.815, 0.767, 0.706, 0.646, 0.675, 0.813),
    },
}
#: The same for SSK of length 5, by decay; nothing is printed for acq at 0.01.
PUBLISHED_DECAY: dict[str, tuple[float | None, ...]] = {
    "earn": (0.946, 0.944, 0.936, 0.914),
    "acq": (None, 0.871, 0.867, 0.735),
    "crude": (0.937, 0.947, 0.936, 0.758),
    "corn": (0.845, 0.827, 0.779, 0.348),
}

Cell = tuple[str, int, float]  # kernel, length, decay
#: In place of C: a machine without bias, at the largest C.
WITHOUT_BIAS = 0.0


def pool(folder: Path) -> tuple[list[str], NDArray[np.int64], NDArray[np.bool_]]:
    """Texts in exactly one of the four categories, their category and whether they are training documents."""
    corpus: Corpus = read_corpus(folder / REUTERS)
    texts, categories, training = [], [], []
    for text, labels, part in zip(corpus.texts, corpus.labels or [], corpus.part, strict=True):
        mine = [c for c, name in enumerate(CATEGORIES) if name in labels]
        words = [word for word in normalise(text, "paper").split() if word not in ENGLISH_STOP_WORDS]
        if len(mine) == 1 and words and part in ("train", "test"):
            texts.append(" ".join(words))
            categories.append(mine[0])
            training.append(part == "train")
    return texts, np.array(categories), np.array(training)


def draw(
    categories: NDArray[np.int64], training: NDArray[np.bool_], seed: int
) -> tuple[NDArray[np.int64], int]:
    """One split: the chosen documents, training ones first, and how many those are."""
    rng = np.random.default_rng(seed)
    chosen = [
        rng.choice(np.flatnonzero((categories == c) & (training == part)), counts[c], replace=False)
        for part, counts in ((True, TRAIN), (False, TEST))
        for c in range(len(CATEGORIES))
    ]
    return np.concatenate(chosen), sum(TRAIN)


def cells() -> dict[Cell, Kernel]:
    """Every kernel of the tables."""
    kernels: dict[Cell, Kernel] = {("SSK", p, 0.5): GapWeighted(p=p, decay=0.5) for p in LENGTHS}
    kernels |= {("SSK", 5, decay): GapWeighted(p=5, decay=decay) for decay in DECAYS}
    kernels |= {("n-grams", p, 0.0): Spectrum(p=p) for p in LENGTHS}
    return kernels


def one_split(
    texts: Sequence[str], categories: NDArray[np.int64], n_train: int, costs: Sequence[float], device: str
) -> dict[tuple[Cell, float], NDArray[np.float64]]:
    """F1 of each category, by cell and C."""
    card = devices.select(device)
    kernels = cells()
    names = list(kernels)
    train = np.arange(n_train)
    result = {}
    for number, gram in grams(list(kernels.values()), encode(texts), card):
        learn = partial(problems.Classification, train, weight=np.ones(n_train))
        paths: list[list[problems.Problem]] = [
            [learn(categories[:n_train], len(CATEGORIES), C, strategy="ovr") for C in costs]
        ]
        for c in range(len(CATEGORIES)):
            one = (categories[:n_train] == c).astype(np.int64)
            paths.append([learn(one, 2, costs[-1] / 2, strategy="crammer-singer")])
        solved = [machines for path in solve(gram, paths) for machines in path]
        values = [found[:, n_train:] for found in decision_values(gram, solved)]
        values = [*values[: len(costs)], np.array([two[1] for two in values[len(costs) :]])]
        for cost, decided in zip([*costs, WITHOUT_BIAS], values, strict=True):
            result[names[number], cost] = np.array(
                [
                    f1_score(categories[n_train:] == c, decided[c] > 0, zero_division=0.0)
                    for c in range(len(CATEGORIES))
                ]
            )
    return result


def _no_bias(rows: list[dict[str, Any]]) -> str:
    return next(name for name in rows[0] if name.startswith("without bias"))


def _rows(
    cell: Cell, splits: Sequence[dict[tuple[Cell, float], NDArray[np.float64]]], costs: Sequence[float]
) -> list[dict[str, Any]]:
    kernel, p, decay = cell
    rows = []
    for c, category in enumerate(CATEGORIES):
        row: dict[str, Any] = {"kernel": kernel, "k": p, "decay": decay or "", "category": category}
        published: float | None = PUBLISHED[kernel][category][LENGTHS.index(p)]
        if kernel == "SSK" and decay != 0.5:
            published = PUBLISHED_DECAY[category][DECAYS.index(decay)]
        row["published"] = "" if published is None else published
        for cost in [*costs, WITHOUT_BIAS]:
            values = np.array([split[cell, cost][c] for split in splits])
            name = f"C={cost:g}" if cost else f"without bias, C={costs[-1]:g}"
            row[name] = f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"
        rows.append(row)
    return rows


@benchmark(
    "lodhi",
    "F1 tables of Lodhi et al. 2002",
    "reports/lodhi",
    option("--splits", type=int, default=10, help="random splits"),
    option("-C", type=float, nargs="+", default=[1.0, 10.0, 100.0], dest="costs", help="values of C"),
    device="auto",
    gpu_output="reports/gpu/lodhi",
    quick="two splits",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Train on every split with each kernel and C."""
    options.splits = 2 if options.quick else options.splits
    texts, categories, training = pool(data_folder())
    splits = []
    for seed in range(options.splits):
        drawn, n_train = draw(categories, training, seed)
        splits.append(
            one_split([texts[i] for i in drawn], categories[drawn], n_train, options.costs, options.device)
        )
    rows = [row for cell in cells() for row in _rows(cell, splits, options.costs)]
    panels = []
    for category in CATEGORIES:
        mine = [row for row in rows if row["category"] == category and row["decay"] == 0.5]
        series = {
            name: [(row["k"], float(str(row[column]).split()[0])) for row in mine]
            for name, column in (
                ("published", "published"),
                ("C=10", "C=10"),
                ("without bias", _no_bias(rows)),
            )
            if column in mine[0]
        }
        panels.append((f"{category}: SSK, k", series))
    lines(report.path.with_suffix(".svg"), panels, "F1", log=False)
    return rows
