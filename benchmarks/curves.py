"""Machines of the default's kernels along learning curves, on public sets.

A point is a set, a number of training texts of each class (at most ten classes, drawn by a seed) or of all
texts, and at most 400 test texts. The Grams of the parts of the default are computed once. Machines that
differ from the default in one respect are trained on their sums, beside the two baselines. Each point is a
line of the output file: accuracy and macro-F1 of each machine. Points that the file has are left out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import f1_score
from sklearn.svm import SVC

from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.panel import names_of, read_set
from textsvm.arrays import Floats, Ints
from textsvm.choice.candidates import auto_candidate
from textsvm.errors import InputError
from textsvm.evaluation.baselines import answer, baselines_of
from textsvm.kernels.base import Sum
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spectrum.features import log_odds
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.rows import FeatureRows, SharedFeatures
from textsvm.linalg.sparse import Sparse, count_features_of
from textsvm.sources.texts import TextSource
from textsvm.training.train import RARE_CLASS_BIAS, RARE_CLASS_TEXTS, rare_class_bias

SIZES = ("3", "7", "20", "60", "r100", "r300", "200", "600")  #: Texts of each class; r: of all
MOST_CLASSES, MOST_TEXTS, MOST_TESTED, MOST_SYMBOLS = 10, 1200, 400, 800_000
BASELINE, TUNED, PLAIN = "opponent 1", "opponent 2", "spectrum:1-5,log,idf C=10"


@dataclass(frozen=True)
class Machine:
    """Weights of a kernel, C as a factor of the default's, loss, and biases of rare classes."""

    floor: float = 0.0  #: Added to the odds, as sqrt(odds^2 + floor^2)
    unknown: float = 1.0  #: Weight of unknown p-mers, as a factor of the default's
    plain: float | None = None  #: Share of the intersection kernel; None is that of the default
    words: float | None = None  #: Share of words in the rest
    #: A; B: presence; R: square roots of counts; M: c/(c + 1); F: without case; T: lengths 1 to 3; L: 2 to 5
    characters: str = "A"
    loss: str = "squared_hinge"
    C: float | None = None  #: None is that of the default
    rare: float | None = None  #: Instead of `RARE_CLASS_BIAS` and its factor for few texts


#: The default, the default before (C, biases, unknown p-mers, weights), and others in one respect.
MACHINES = {
    "default": Machine(),
    "before": Machine(unknown=0.0, plain=0.5, words=0.5, C=1.0, rare=0.05),
    "halves": Machine(plain=0.5, words=0.5),
    "no unknown": Machine(unknown=0.0),
    "half unknown": Machine(unknown=0.5),
    "rare 0.05": Machine(rare=0.05),
    **{f"C {C:g}": Machine(C=C) for C in (1.0, 3.0, 10.0, 100.0)},
    **{f"plain {plain:g}": Machine(plain=plain) for plain in (0.0, 0.25, 0.75)},
    **{f"words {words:g}": Machine(words=words) for words in (0.0, 0.7)},
    **{f"floor {floor:g}": Machine(floor=floor) for floor in (0.3, 1.0, np.inf)},
    "hinge": Machine(loss="hinge"),
    **{f"characters {characters}": Machine(characters=characters) for characters in "BRMFTL"},
}


def draw(folder: Path, name: str, size: str, seed: int) -> tuple[list[str], Ints, int] | None:
    """Training and test texts, their classes, and n; None if a class is too small or texts are too many."""
    task = read_set(folder, name)
    random = np.random.default_rng([seed, *name.encode(), *size.encode()])
    order = random.permutation(len(task.train))
    if size.startswith("r"):
        order = order[: int(size[1:])]
        labels, numbers = np.unique(task.y_train[order], return_counts=True)
        train = order[np.isin(task.y_train[order], labels[numbers > 1])]
        if len(task.train) < 2 * int(size[1:]) or not (numbers > 1).sum() > 1:
            return None
    else:
        labels, numbers = np.unique(task.y_train, return_counts=True)
        labels = random.permutation(labels[numbers >= int(size)])[:MOST_CLASSES]
        if not 2 <= len(labels) <= MOST_TEXTS // int(size):
            return None
        train = np.concatenate([order[task.y_train[order] == label][: int(size)] for label in labels])
        train = random.permutation(train)
    labels, target = np.unique(task.y_train[train], return_inverse=True)
    test = random.permutation(np.flatnonzero(np.isin(task.y_test, labels)))
    symbols = np.cumsum([len(task.test[i]) for i in test])
    test = test[: min(MOST_TESTED, max(100, int((symbols < MOST_SYMBOLS).sum())))]
    texts = [task.train[i] for i in train] + [task.test[i] for i in test]
    if sum(map(len, texts)) > 6 * MOST_SYMBOLS:
        return None
    tested = np.searchsorted(labels, task.y_test[test])
    return texts, np.concatenate([target, tested]).astype(np.int64), len(train)


def products(rows: FeatureRows, n: int) -> tuple[Floats, Floats]:
    """Kernel values of all texts with the first n without the ridge, and k(s, s) of each text."""
    out = np.empty((len(rows.x), n), np.float32)
    InvertedIndex(rows.x.take(np.arange(n))).products(rows.x, np.ones(len(out)), np.ones(n), out)
    return out.astype(float), rows.x.squares() + rows.ridge


def unit(values: Floats, own: Floats) -> Floats:
    """Kernel values divided by norms; 1 on the diagonal of the training texts."""
    scale = np.divide(1, np.sqrt(own), out=np.ones(len(own)), where=own > 0)
    values = values * scale[:, None] * scale[: values.shape[1]]
    np.fill_diagonal(values, 1.0)
    return values


class Parts:
    """Grams of the parts of the kernels of a draw, all texts x training texts."""

    def __init__(self, texts: list[str], target: Ints) -> None:
        self.n, self.target, self.train = len(target), target, np.arange(len(target))
        self.default = auto_candidate(texts[: self.n], n_classes=int(target.max()) + 1)
        cased = Spectrum((1, 5), "log", idf=True, keep_case=True)
        words = Spectrum((1, 2), "log", idf=True, tokens="words", keep_case=True)
        last = self.default.kernel().structure.leaves[0] if self.default.dna else words
        self.kernels = [cased, Spectrum((1, 5), "intersection"), last]
        documents = TextSource(Sum(self.kernels), TextForm()).encode(texts)
        self.counted = [k.features.count(k.structure.read(documents)) for k in self.kernels]
        self.plain = self._unit(1, self.kernels[1])
        self.folded = self._unit(1, replace(cased, keep_case=False))
        self.learnt: dict[str, tuple[Floats, ...]] = {}

    def _unit(self, i: int, kernel: Any) -> Floats:
        return unit(*products(kernel.features.rows_of(self.counted[i], self.train), self.n))

    def _learn(self, name: str) -> tuple[Floats, ...]:
        """Products without odds and with odds, their k(s, s), and what unknown p-mers add to the latter."""
        counted = self.counted[{"F": 1, "W": 2}.get(name, 0)]
        counts, n, first = counted.counts, self.n, counted.vocabulary.first
        df = count_features_of(counts.indptr, counts.features, self.train, int(first[-1]))
        idf = np.log((1 + n) / (1 + df)) + 1
        idf[first[3] if name == "T" else len(idf) :] = 0
        idf[: first[1] if name == "L" else 0] = 0
        c = np.arange(1 + int(counts.counts.max(initial=1)))
        of = {"B": c > 0, "R": np.sqrt(c), "M": c / (c + 1)}.get(name, 1 + np.log(np.maximum(c, 1)))
        values = np.asarray(of, np.float32)[counts.counts]
        shared = SharedFeatures.of([Sparse(counts.indptr, counts.features, values, len(df))], counted.df)
        single = counted._single

        def weighed(table: Floats) -> FeatureRows:
            alone = np.where(single >= 0, table[single], 0.0)
            return shared.weighed(table[shared.number], alone, False)

        odds = log_odds(counts, self.train, self.target, df)[:-1]
        plain, known = (products(weighed(np.where(df > 0, table, 0.0)), n) for table in (idf, idf * odds))
        unknown = weighed(np.where(df > 0, 0.0, idf * odds))
        return *plain, *known, unknown.x.squares() + unknown.ridge

    def _mixed(self, name: str, machine: Machine) -> Floats:
        if name not in self.learnt:
            self.learnt[name] = self._learn(name)
        plain, own, weighted, own_odds, unknown = self.learnt[name]
        if machine.floor == np.inf:
            return unit(plain, own)
        own = own_odds + machine.floor**2 * own + machine.unknown**2 * unknown
        return unit(weighted + machine.floor**2 * plain, own)

    def kernel(self, machine: Machine) -> Floats:
        """Gram of a machine."""
        if self.default.dna:
            return self._unit(2, self.kernels[2]) * 2 / 3 + self.plain / 3
        plain = self.default.plain if machine.plain is None else machine.plain
        words = self.default.word_share if machine.words is None else machine.words
        total, rest, words = plain * self.plain, 1 - plain, words if self.default.words else 0.0
        if words:
            total = total + rest * words * self._mixed("W", machine)
        return total + rest * (1 - words) * self._mixed(machine.characters, machine)


def decide(kernel: Floats, target: Ints, C: float, hinge: bool) -> Floats:
    """Decision values of one-vs-rest machines; the squared hinge loss is a ridge and a hard margin."""
    n, n_classes = len(target), int(target.max()) + 1
    gram = kernel[:n] if hinge else kernel[:n] + np.eye(n) / (2 * C)
    machine = SVC(kernel="precomputed", C=C if hinge else 1e6)
    classes = range(1 if n_classes == 2 else 0, n_classes)
    values = [machine.fit(gram, target == c).decision_function(kernel[n:]) for c in classes]
    return np.column_stack([-values[0], values[0]] if n_classes == 2 else values)


def judge(predicted: Ints, target: Ints) -> list[float]:
    """Accuracy and macro-F1 in percent."""
    f1 = f1_score(target, predicted, average="macro", zero_division=0.0)
    return [round(100 * float(np.mean(predicted == target)), 3), round(100 * float(f1), 3)]


def point(folder: Path, name: str, size: str, seed: int) -> dict[str, Any] | None:
    """The line of a point; None if the set has too few texts."""
    clock = time.process_time()
    drawn = draw(folder, name, size, seed)
    if drawn is None:
        return None
    texts, target, n = drawn
    train, test, halves = target[:n], target[n:], (texts[:n], target[:n], texts[n:])
    parts = Parts(texts, train)
    opponents = zip((BASELINE, TUNED), baselines_of(halves[0]).values(), strict=True)
    results = {label: judge(answer(make(), *halves).predicted, test) for label, make in opponents}
    results[PLAIN] = judge(decide(parts.folded, train, 10.0, True).argmax(axis=1), test)
    moved = rare_class_bias(np.bincount(train).astype(float), len(train))
    moved = np.array([-moved[0], moved[0]]) if len(moved) == 1 else moved
    for label, machine in MACHINES.items():
        if parts.default.dna and label not in ("default", "before"):
            continue
        hinge = "hinge" in (machine.loss, parts.default.loss)
        C = (machine.C or parts.default.C) * (2 if hinge and not parts.default.dna else 1)
        factor = (
            1
            if machine.rare is None
            else machine.rare / RARE_CLASS_BIAS / np.clip(RARE_CLASS_TEXTS / n, 1, 10) ** 0.5
        )
        values = decide(parts.kernel(machine), train, C, hinge) + factor * moved
        results[label] = judge(values.argmax(axis=1), test)
    letters = "".join(texts[:200])[:20000]
    return {
        "set": name, "size": size, "seed": seed, "n": n, "classes": int(train.max()) + 1, "tested": len(test),
        "length": round(float(np.mean([len(text) for text in texts])), 1),
        "words": parts.default.words, "dna": parts.default.dna,
        "latin": round(sum(c < "\u0250" for c in letters) / max(1, len(letters)), 3),
        "seconds": round(time.process_time() - clock, 2), "results": results,
    }  # fmt: skip


def _point(task: tuple[Path, str, str, int]) -> dict[str, Any] | None:
    try:
        return point(*task)
    except InputError as error:  # of a baseline: no feature is in two of the few texts
        print(f"{task[1]}, {task[2]} texts, seed {task[3]}: {error}", file=sys.stderr)
        return None


@benchmark(
    "curves",
    "Machines of the default's kernels along learning curves",
    "reports/curves",
    option("--panels", default="panel,panel2", help="folders of the sets in TEXTSVM_DATA"),
    option("--sizes", default=",".join(SIZES), help="texts of each class, or r and texts of all"),
    option("--seeds", type=int, default=5, help="number of draws"),
    option("--processes", type=int, default=1, help="processes of a thread each"),
    option("--lines", type=Path, default=Path("curves.jsonl"), help="file of the lines"),
)
def run(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Add the points that the file lacks."""
    known = set()
    if options.lines.exists():
        rows = map(json.loads, options.lines.read_text(encoding="utf-8").splitlines())
        known = {(row["set"], row["size"], row["seed"]) for row in rows}
    folders = [data_folder() / name for name in options.panels.split(",")]
    sets = [(folder, name) for folder in folders for name in names_of(folder, None)]
    tasks = [
        (folder, name, size, seed)
        for seed in range(options.seeds)
        for size in options.sizes.split(",")
        for folder, name in sets
        if (name, size, seed) not in known
    ]
    point(*sets[0], "20", 0)  # compiles
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for row in pool.imap_unordered(_point, tasks):
            if row is not None:
                with options.lines.open("a", encoding="utf-8", newline="\n") as file:
                    file.write(json.dumps(row) + "\n")
