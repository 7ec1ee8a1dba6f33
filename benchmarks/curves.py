"""Machines of the default's kernels along learning curves, on public sets.

A point is a set, a number of training texts of each class (at most ten classes, drawn by a seed; or a number of
all texts) and at most 400 test texts. The Grams of the parts of the default are computed once; machines with
other weights, C and loss are trained on their sums, beside two baselines of TF-IDF and a linear SVM, which are
solved on their Grams. Each point is a line of the output file: accuracy, macro-F1 and log loss at the best scale
of the decision values of each machine. Points that the file has are left out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.panel import names_of, read_set
from textsvm.arrays import Floats, Ints
from textsvm.bench.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm.choice.candidates import auto
from textsvm.kernels.base import Sum
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spectrum.features import log_odds
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.rows import FeatureRows, SharedFeatures
from textsvm.linalg.sparse import count_features_of
from textsvm.runtime.compiled import njit
from textsvm.sources.texts import TextSource

SIZES = ("3", "7", "20", "60", "r100", "r300", "200", "600")  #: Texts of each class; r: of all
MOST_CLASSES, MOST_TEXTS, MOST_TESTED, MOST_SYMBOLS = 10, 1200, 400, 800_000
TOLERANCE, EPOCHS = 0.002, 500
FLOORS = (0.0, 0.1, 0.3, 1.0, np.inf)  #: Added to the odds, as sqrt(odds^2 + floor^2)
PENALTIES = (0.3, 1.0, 3.0, 10.0, 100.0)
BASELINE, TUNED, PLAIN = "opponent 1", "opponent 2", "spectrum:1-5,log,idf C=10"
DEFAULT = "s0 p0.5 w0.5 C1"


@dataclass(frozen=True)
class Draw:
    """Training and test texts of a point, and their classes from 0."""

    texts: list[str]  #: The training texts first
    target: Ints
    n: int  #: Number of training texts


@dataclass(frozen=True)
class Machine:
    """Shares of the parts of a kernel, floor of the odds, C and loss."""

    floor: float = 0.0
    plain: float = 0.5
    words: float = 0.5  #: Share of words in the rest
    C: float = 1.0
    hinge: bool = False
    #: A; B: presence; R: square roots of counts; M: c/(c + 1); F: without case; T: lengths 1 to 3; L: 2 to 5
    characters: str = "A"
    odds: str = "4"  #: Pseudo-documents; or "root": square root of the odds
    presence: float = 0.0  #: Share of the presence of 3-8 characters
    rare: float = 0.05

    @property
    def name(self) -> str:
        """Short name."""
        marks = (
            (self.hinge, " hinge"),
            (self.characters != "A", f" {self.characters}"),
            (self.odds != "4", f" q{self.odds}"),
            (self.presence > 0, f" P{self.presence:g}"),
            (self.rare != 0.05, f" rare{self.rare:g}"),
        )
        start = f"s{self.floor:g} p{self.plain:g} w{self.words:g} C{self.C:g}"
        return start + "".join(text for use, text in marks if use)


def machines(extras: bool, dna: bool) -> list[Machine]:
    """All machines, by rising C of each kernel."""
    few, some = (1.0, 3.0, 10.0), (0.0, 0.3, np.inf)
    plains = (0.0, 1 / 3, 0.5, 0.75) if dna else (0.25, 0.5, 0.75)
    grid = [Machine(s, p, C=C) for s in (FLOORS[:1] if dna else FLOORS) for p in plains for C in PENALTIES]
    grid += [Machine(plain=1.0, words=0.0, C=C) for C in few]
    if dna:
        return grid + [Machine(plain=p, C=C, hinge=True) for p in plains for C in (1.0, 3.0, 10.0, 1000.0)]
    grid += [Machine(s, words=w, C=C) for w in (0.0, 0.7) for s in some for C in few]
    grid += [Machine(s, C=C, hinge=True) for s in some for C in (1.0, 3.0, 10.0, 1000.0)]
    grid += [Machine(s, rare=rare) for s in (0.0, 0.3) for rare in (0.0, 0.1, 0.2)]
    if extras:
        grid += [Machine(s, C=C, characters=c) for c in "BRMFTL" for s in (0.0, 0.3, np.inf) for C in few]
        grid += [Machine(s, C=C, odds=odds) for odds in ("1", "root") for s in (0.0, 0.3) for C in few]
        grid += [Machine(s, 0.4, presence=0.2, C=C) for s in (0.3, np.inf) for C in few]
    return grid


def draw(folder: Path, name: str, size: str, seed: int) -> Draw | None:
    """The texts of a point; None if a class is too small, or there are too many texts."""
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
    return Draw(texts, np.concatenate([target, tested]).astype(np.int64), len(train))


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

    def __init__(self, data: Draw, extras: bool) -> None:
        self.data, self.train = data, np.arange(data.n)
        self.default = auto(data.texts[: data.n])
        cased = Spectrum((1, 5), "log", idf=True, keep_case=True)
        kernels = [cased, Spectrum((1, 5), "intersection")]
        if extras:
            kernels.append(Spectrum((3, 8), "presence", idf=True))
        if self.default.words:
            kernels.append(Spectrum((1, 2), "log", idf=True, tokens="words", keep_case=True))
        if self.default.dna:
            kernels.append(self.default.kernel().structure.leaves[0])
        documents = TextSource(Sum(kernels), TextForm()).encode(data.texts)
        counted = [k.features.count(k.structure.read(documents)) for k in kernels]
        folded = replace(cased, keep_case=False)
        self.fixed = {"I": self._rows(counted[1], kernels[1]), "Af": self._rows(counted[1], folded)}
        self.learnt: dict[tuple[str, str], list[tuple[Floats, Floats]]] = {}
        if self.default.dna:
            self.fixed["G"] = self._rows(counted[-1], kernels[-1])
            return
        self._learn("A", counted[0], ("4", "1", "root") if extras else ("4",))
        if self.default.words:
            self._learn("W", counted[-1], ("4", "1", "root") if extras else ("4",))
        if extras:
            self.fixed["P"] = self._rows(counted[2], kernels[2])
            for name, of in (("B", 0), ("R", 0), ("M", 0), ("F", 1), ("T", 0), ("L", 0)):
                self._learn(name, counted[of], ("4",))

    def _rows(self, counted: Any, kernel: Any) -> Floats:
        return unit(*products(kernel.features.rows_of(counted, self.train), self.data.n))

    def _learn(self, name: str, counted: Any, odds: tuple[str, ...]) -> None:
        """Products without odds and with odds; a p-mer without a training text has no weight."""
        counts, n, first = counted.counts, self.data.n, counted.vocabulary.first
        df = count_features_of(counts.indptr, counts.features, self.train, int(first[-1]))
        idf = np.where(df > 0, np.log((1 + n) / (1 + df)) + 1, 0.0)
        if name == "T":
            idf[first[3] :] = 0
        if name == "L":
            idf[: first[1]] = 0
        c = np.arange(1 + int(counts.counts.max(initial=1)))
        of = {"B": c > 0, "R": np.sqrt(c), "M": c / (c + 1)}.get(name, 1 + np.log(np.maximum(c, 1)))
        shared = SharedFeatures.of_counts(counts, np.asarray(of, np.float32), counted.df)
        single, target = counted._single, self.data.target[: self.data.n]

        def weighed(table: Floats) -> tuple[Floats, Floats]:
            alone = np.where(single >= 0, table[single], 0.0)
            return products(shared.weighed(table[shared.number], alone, False), n)

        plain, weights = weighed(idf), log_odds(counts, self.train, target, df)
        for kind in odds:
            of = odds_of(counts, target, df, 1.0) if kind == "1" else weights
            self.learnt[name, kind] = [plain, weighed(idf * (np.sqrt(of) if kind == "root" else of))]

    def _mixed(self, name: str, odds: str, floor: float) -> Floats:
        (plain, own), (weighted, own_odds) = self.learnt[name, odds]
        if floor == np.inf:
            return unit(plain, own)
        return unit(weighted + floor**2 * plain, own_odds + floor**2 * own)

    def kernel(self, machine: Machine) -> Floats:
        """Gram of a machine."""
        rest, total = 1 - machine.plain - machine.presence, machine.plain * self.fixed["I"]
        if machine.presence:
            total = total + machine.presence * self.fixed["P"]
        if self.default.dna:
            return total + rest * self.fixed["G"]
        words = machine.words if self.default.words else 0.0
        if words:
            total = total + rest * words * self._mixed("W", machine.odds, machine.floor)
        return total + rest * (1 - words) * self._mixed(machine.characters, machine.odds, machine.floor)


def odds_of(counts: Any, target: Ints, df: Ints, pseudo: float) -> Floats:
    """`log_odds` with another number of pseudo-documents."""
    total, squares, seen = df.sum(), np.zeros(len(df)), np.flatnonzero(df)
    for c in range(target.max() + 1):
        inside = count_features_of(counts.indptr, counts.features, np.flatnonzero(target == c), len(df))
        share, inside, every = inside.sum() / total, inside[seen], df[seen]
        if 0 < share < 1:
            odds = (inside + pseudo * share) / (every - inside + pseudo * (1 - share))
            squares[seen] += share * np.square(np.log(odds) - np.log(share / (1 - share)))
    return np.sqrt(squares)


@njit(nogil=True, cache=True, fastmath=True)
def descend(gram, signs, upper, diagonal, rho, tol, most, alpha, f, bias):
    """Dual coordinate descent of a machine for each row of `signs`, from alpha, f = K (y alpha) and bias."""
    n = gram.shape[0]
    order = np.arange(n)
    np.random.seed(0)
    for c in range(signs.shape[0]):
        balance = np.float32(0)
        for i in range(n):
            balance += signs[c, i] * alpha[c, i]
        for epoch in range(most):
            for i in range(n - 1, 0, -1):
                j = np.random.randint(0, i + 1)
                order[i], order[j] = order[j], order[i]
            worst = np.float32(0)
            for i in order:
                y, a = signs[c, i], alpha[c, i]
                gradient = y * (f[c, i] + bias[c]) + diagonal * a - np.float32(1)
                if (a <= 0 and gradient > 0) or (a >= upper and gradient < 0):
                    continue
                worst = max(worst, abs(gradient))
                new = min(max(a - gradient / (gram[i, i] + diagonal + rho), np.float32(0)), upper)
                step = y * (new - a)
                if step != 0:
                    alpha[c, i] = new
                    bias[c] += rho * step
                    balance += step
                    for j in range(n):
                        f[c, j] += step * gram[i, j]
            worst = max(worst, rho * abs(balance))
            bias[c] += rho * balance
            if worst <= tol:
                break


class Solver:
    """One-vs-rest machines on a Gram, for rising C, each started from the one before."""

    def __init__(self, kernel: Floats, target: Ints, n_classes: int, free_bias: bool = True) -> None:
        self.kernel, self.rho = kernel.astype(np.float32), np.float32(free_bias)
        self.gram = np.ascontiguousarray(self.kernel[: len(target)])
        classes = np.arange(1 if n_classes == 2 else 0, n_classes)
        self.signs = np.where(classes[:, None] == target, 1, -1).astype(np.float32)
        self.state = np.zeros(self.signs.shape, np.float32), np.zeros(self.signs.shape, np.float32)
        self.bias = np.zeros(len(classes), np.float32)

    def values(self, C: float, hinge: bool, tol: float = TOLERANCE) -> Floats:
        """Decision values of all texts, shape (n, width)."""
        upper, diagonal = (C, 0.0) if hinge else (1e9 if not self.rho else 20 * C, 0.5 / C)
        arguments = (np.float32(upper), np.float32(diagonal), self.rho, np.float32(tol), EPOCHS)
        descend(self.gram, self.signs, *arguments, *self.state, self.bias)
        return self.kernel @ (self.signs * self.state[0]).T + self.bias


def judge(values: Floats, target: Ints, labels: int) -> list[float]:
    """Accuracy and macro-F1 in percent, and the log loss at the best scale."""
    if values.shape[1] == 1:
        values = np.hstack([np.zeros_like(values), values])
    predicted = values.argmax(axis=1)
    f1 = f1_score(target, predicted, labels=np.arange(labels), average="macro", zero_division=0.0)
    shifted, losses = values - values[np.arange(len(values)), target][:, None], []
    for scale in np.exp(np.arange(-1.5, 3.6, 0.5)):
        z = scale * shifted
        top = z.max(axis=1)
        losses.append(float(np.mean(top + np.log(np.exp(z - top[:, None]).sum(axis=1)))))
    return [round(100 * float(np.mean(predicted == target)), 3), round(100 * float(f1), 3), round(min(losses), 4)]


def baselines(data: Draw) -> Iterator[tuple[str, Floats]]:
    """Decision values of the test texts by the two baselines of `textsvm.evaluation.baselines`."""
    n, train = data.n, data.target[: data.n]
    kernel = Spectrum((1, 5), "log", idf=True)
    read = [re.sub(r"\s\s+", " ", text.lower()) for text in data.texts]
    counted = kernel.features.count(TextSource(kernel, TextForm("none")).encode(read))
    df = count_features_of(
        counted.counts.indptr, counted.counts.features, np.arange(n), int(counted.vocabulary.first[-1])
    )
    table = np.where(df > 1, np.log((1 + n) / (1 + df)) + 1, 0.0)
    shared = counted.shared(kernel)
    characters = products(shared.weighed(table[shared.number], 0.0, True), n)[0]
    n_classes = int(train.max()) + 1
    yield BASELINE, Solver(characters + 1, train, n_classes, False).values(1.0, False, 1e-3)[n:]
    try:
        make = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]", min_df=2)
        fitted = make.fit(data.texts[:n])
        x = fitted.transform(data.texts)
        characters = characters + (x @ x[:n].T).toarray()
    except ValueError:
        pass  # no word is in two texts
    scores = np.zeros(4)
    for few, tested in StratifiedKFold(3).split(train, train):
        fold = Solver(characters[:, few][np.concatenate([few, tested])] + 1, train[few], n_classes, False)
        for k, C in enumerate((0.1, 0.3, 1.0, 3.0)):
            values = fold.values(C, False, 1e-3)[len(few) :]
            right = values[:, 0] > 0 if n_classes == 2 else values.argmax(axis=1)
            scores[k] += np.mean(right == train[tested])
    best = (0.1, 0.3, 1.0, 3.0)[int(scores.round(9).argmax())]
    yield TUNED, Solver(characters + 1, train, n_classes, False).values(best, False, 1e-3)[n:]


def point(folder: Path, name: str, size: str, seed: int) -> dict[str, Any] | None:
    """The line of a point; None if the set has too few texts."""
    clock = time.process_time()
    data = draw(folder, name, size, seed)
    if data is None:
        return None
    n, train, test = data.n, data.target[: data.n], data.target[data.n :]
    n_classes = int(train.max()) + 1
    parts = Parts(data, seed < 1)
    totals = np.log(np.bincount(train))
    rare = (totals.mean() - totals) if n_classes > 2 else np.array([totals[0] - totals[1]]) / 2
    results = {label: judge(values, test, n_classes) for label, values in baselines(data)}
    results[PLAIN] = judge(Solver(parts.fixed["Af"], train, n_classes).values(10.0, True)[n:], test, n_classes)
    solver, same = None, None
    for machine in machines(seed < 1, parts.default.dna):
        if not parts.default.words and machine.words == 0.7:
            continue
        if same != replace(machine, C=1.0):
            same, solver = replace(machine, C=1.0), Solver(parts.kernel(machine), train, n_classes)
        values = solver.values(machine.C, machine.hinge)[n:] + machine.rare * rare
        results[machine.name] = judge(values, test, n_classes)
    letters = "".join(data.texts[:200])[:20000]
    return {
        "set": name, "size": size, "seed": seed, "n": n, "classes": n_classes, "tested": len(test),
        "length": round(float(np.mean([len(text) for text in data.texts])), 1),
        "words": parts.default.words, "dna": parts.default.dna,
        "latin": round(sum(c < "\u0250" for c in letters) / max(1, len(letters)), 3),
        "seconds": round(time.process_time() - clock, 2), "results": results,
    }  # fmt: skip


def _point(task: tuple[Path, str, str, int, float]) -> dict[str, Any] | None:
    *arguments, deadline = task
    return None if time.time() > deadline else point(*arguments)


@benchmark(
    "curves",
    "Machines of the default's kernels along learning curves",
    "reports/curves",
    option("--panels", default="panel,panel2", help="folders of the sets in TEXTSVM_DATA"),
    option("--sets", help="names of sets, separated by commas (default: all)"),
    option("--sizes", default=",".join(SIZES), help="texts of each class, or r and texts of all"),
    option("--seeds", type=int, default=5, help="number of draws"),
    option("--processes", type=int, default=1, help="processes of a thread each"),
    option("--seconds", type=float, default=1e9, help="start no point after so many seconds"),
    option("--lines", type=Path, default=Path("curves.jsonl"), help="file of the lines"),
)
def run(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Add the points that the file lacks."""
    known = set()
    if options.lines.exists():
        rows = map(json.loads, options.lines.read_text(encoding="utf-8").splitlines())
        known = {(row["set"], row["size"], row["seed"]) for row in rows}
    wanted = None if options.sets is None else set(options.sets.split(","))
    folders = [data_folder() / name for name in options.panels.split(",")]
    sets = [(folder, name) for folder in folders for name in names_of(folder, None) if not wanted or name in wanted]
    for folder, name in [sets[0], *(each for each in sets if each[1].startswith("sk-CTCF"))]:
        point(folder, name, "20", 0)  # compiles, of texts and of DNA
    deadline = time.time() + options.seconds
    tasks = [
        (folder, name, size, seed, deadline)
        for seed in range(options.seeds)
        for size in options.sizes.split(",")
        for folder, name in sets
        if (name, size, seed) not in known
    ]
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    with (
        multiprocessing.get_context("spawn").Pool(options.processes) as pool,
        options.lines.open("a", encoding="utf-8") as file,
    ):
        for row in pool.imap_unordered(_point, tasks):
            if row is not None:
                file.write(json.dumps(row) + "\n")
                file.flush()
