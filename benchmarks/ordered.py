"""Ordered classes against a machine for each class: mean absolute error and quadratic weighted kappa.

Sets with an order: reading levels (onestop), sentiment of three classes, ASAP-AES by prompt, stars of IMDB.
Rare scores at both ends of a prompt are joined, so that the lowest and the highest level have 3 % of the
essays; scales of more than 12 scores become 10 levels of equal width. A seed draws `--train` documents, at
most four fifths, and `--test` documents; of a document the first 4,000 characters count. Both machines have
the default kernel.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from benchmarks.corpora import IMDB, Prompt, essay_prompts
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, markdown_lines, option
from benchmarks.panel import read_set
from textsvm.estimators.svm import SVC
from textsvm.readers.read import read_corpus

Array = NDArray[Any]
#: Texts and their levels, from 0.
Levels = tuple[list[str], Array]
SENTIMENT = ("negative", "neutral", "positive")
#: Classes of sets of the second panel, the lowest first; documents of other classes are left out.
PANEL = {
    "onestop": ("Ele", "Int", "Adv"),
    "norec-sent": ("Negative", "Neutral", "Positive"),
    **{f"afrisenti-{language}": SENTIMENT for language in ("ary", "ibo", "kin", "pcm")},
    "hien-codemix": ("0", "1", "2"),
    "jrte-pn": ("-1", "0", "1"),
    "senti4sd": SENTIMENT,
    "malayalam-codemix": ("negative", "mixed feelings", "positive"),
}
MACHINES = ("ovr", "ordered")
METRICS = ("mae", "kappa", "accuracy")
SEEDS = 5
LENGTH = 4000
#: Share of the essays of a prompt below the lowest and above the highest level.
RARE = 0.03
#: Most scores that are levels; wider scales have `WIDE` levels.
MOST, WIDE = 12, 10


def levels_of_scores(scores: Array) -> Array:
    """Levels from 0 of the scores of a prompt."""
    low, high = np.quantile(scores, [RARE, 1 - RARE]).astype(int)
    clipped = np.clip(scores, low, high)
    if len(np.unique(clipped)) > MOST:
        clipped = (clipped - low) * WIDE // (high - low + 1)
    return np.unique(clipped, return_inverse=True)[1]


def _of_classes(texts: list[str], labels: Array, order: tuple[str, ...]) -> Levels:
    rows = [i for i, label in enumerate(labels.tolist()) if label in order]
    return [texts[i] for i in rows], np.array([order.index(labels[i]) for i in rows])


def panel_set(name: str) -> tuple[Levels, Levels]:
    """Training and test part of a set of the second panel."""
    task = read_set(data_folder() / "panel2", name)
    return _of_classes(task.train, task.y_train, PANEL[name]), _of_classes(
        task.test, task.y_test, PANEL[name]
    )


def essays(prompt: Prompt) -> tuple[Levels, Levels]:
    """A prompt with the first fold: training and dev part, and test part."""
    levels, (train, dev, test) = levels_of_scores(prompt.scores), prompt.folds[0]
    train = np.concatenate([train, dev])
    first, second = (([prompt.texts[i] for i in rows], levels[rows]) for rows in (train, test))
    return first, second


def stars() -> tuple[Levels, Levels]:
    """IMDB's reviews with 1 to 4 and 7 to 10 stars, of both parts; the names of the files have the stars."""
    corpus = read_corpus(data_folder() / IMDB)
    parts = []
    for name in ("train", "test"):
        part = corpus.select(part=name)
        stars = np.array([int(identifier.rpartition("_")[2].partition(".")[0]) for identifier in part.ids])
        parts.append((part.texts, np.where(stars < 5, stars - 1, stars - 3)))
    return parts[0], parts[1]


def drawn(part: Levels, most: int, seed: int) -> Levels:
    """At most so many documents, at random."""
    rows = np.random.default_rng(seed).permutation(len(part[0]))[:most]
    return [part[0][i][:LENGTH] for i in rows], part[1][rows]


def row_of(
    name: str, parts: tuple[Levels, Levels], machine: str, seed: int, sizes: tuple[int, int]
) -> dict[str, Any]:
    """Row of a machine on a draw of a set."""
    train = drawn(parts[0], min(sizes[0], len(parts[0][0]) * 4 // 5), seed)
    test = drawn(parts[1], sizes[1], seed)
    predicted = SVC(multiclass=machine).fit(*train).predict(test[0])
    return {
        "set": name,
        "machine": machine,
        "seed": seed,
        "n": len(train[0]),
        "classes": len(np.unique(train[1])),
        "mae": float(np.abs(predicted - test[1]).mean()),
        "kappa": float(cohen_kappa_score(test[1], predicted, weights="quadratic")),
        "accuracy": float((predicted == test[1]).mean()),
    }


class OrderedReport(BenchmarkReport):
    """A row per set, machine and seed in the JSON file, a row per set in the Markdown file."""

    def write(self) -> None:
        """Write both files."""
        rows = list(self.rows.values())
        self.write_files([self.note, "", *tables(rows)], {"rows": rows})


def _gaps(means: Array) -> list[str]:
    """Mean difference of each metric with its standard error over the sets, and the sets with a gain."""
    gaps = means[:, 1] - means[:, 0]
    errors, better = gaps.std(axis=0) / np.sqrt(max(len(gaps) - 1, 1)), (gaps * [-1, 1, 1] > 0).sum(axis=0)
    return [
        f"{gap:+.4f} ± {error:.4f}, {n}"
        for gap, error, n in zip(gaps.mean(axis=0), errors, better.tolist(), strict=True)
    ]


def tables(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Means over the seeds by set, and the mean differences with standard errors over the sets."""
    sets: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        sets.setdefault(row["set"], {}).setdefault(row["machine"], []).append(row)
    sets = {name: of for name, of in sets.items() if len(of) == len(MACHINES)}
    if len(sets) < 2:
        return []
    means = np.array(
        [
            [[np.mean([row[key] for row in of[name]]) for key in METRICS] for name in MACHINES]
            for of in sets.values()
        ]
    )
    titles = ["mean absolute error", "quadratic weighted kappa", "accuracy"]
    sentiment = np.array([name in PANEL and name != "onestop" for name in sets])
    summary = [
        [group, len(means[of]), *_gaps(means[of])]
        for group, of in {"grades and levels": ~sentiment, "sentiment of three classes": sentiment}.items()
    ]
    lines = ["Ordered less one against the rest: mean of the sets, and the sets on which it is better:", ""]
    lines += markdown_lines(["", "sets", *titles], summary, ".4f")
    lines += ["", "By set, one against the rest / ordered, means of the seeds:", ""]
    table = []
    for name, of, pair in zip(sets, sets.values(), means, strict=True):
        first = of[MACHINES[0]][0]
        cells = [f"{plain:.3f} / {ordered:.3f}" for plain, ordered in pair.T]
        table.append([name, first["n"], first["classes"], *cells])
    return [*lines, *markdown_lines(["set", "texts", "classes", *titles], table, ".4f")]


@benchmark(
    "ordered",
    "Ordered classes against a machine for each class",
    "reports/ordered",
    option("--train", type=int, default=800, help="most training documents"),
    option("--test", type=int, default=600, help="most test documents"),
    device="cpu",
    report=OrderedReport,
)
def run(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train and test both machines on every set and seed."""
    makers: dict[str, Callable[[], tuple[Levels, Levels]]] = {
        name: partial(panel_set, name) for name in PANEL
    }
    makers |= {f"asap-{prompt.number}": partial(essays, prompt) for prompt in essay_prompts(data_folder())}
    makers["imdb stars"] = stars
    for name, make in makers.items():
        parts = make()
        for seed in range(SEEDS):
            for machine in MACHINES:
                arguments = name, parts, machine, seed, (options.train, options.test)
                report.row(f"{name}, {machine}, {seed}", row_of, *arguments)
