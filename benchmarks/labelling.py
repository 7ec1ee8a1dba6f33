"""Labels that strategies of labelling need, by simulation on many small sets.

Every set of the panels is cut to at most 2,000 random training texts, the pool (`--pool`), and 1,000 test
texts. A strategy asks for the labels of the pool, a tenth more at a time and single texts at first. The
figure is the number of labels at which the accuracy on the test texts, as a mean of three successive
machines, reaches 95 % of the accuracy of the same machine with all labels of the pool, relative to the number
that random texts need in the mean over the seeds. A run that does not reach it counts with the size of the
pool, at most 1,000. Sets on which the commonest label alone reaches the goal are left out, for a peer those
on which it reaches the peer's goal, too.

All of our strategies have the same kernel and machine. Peers have TF-IDF of words and pairs of words, ten
random labels at first, and their own machine with all labels as the measure: logistic regression with the
margin of scikit-activeml or the uncertainty of modAL, small-text's SVM with its breaking of ties, and
ASReview's default (LinearSVC with C = 0.11, balanced; the most relevant text first; judged by logistic
regression), for two labels only. With `--encoder` our machine has its vectors beside the strings, and peers
have the vectors instead of TF-IDF.

A search looks for the texts of a label that at most a fifth of at most 1,500 texts have, or for the relevant
texts of a review: a CSV file of the folder --reviews with columns title, abstract and included (0 or 1). It
trains anew after a twentieth more labels, draws a tenth of the texts at random and goes on until the stopping
rule holds and 95 % are found; WSS@95 is 0.95 less the share of texts read by then. In a review both programs
begin with the same random texts, up to the first relevant one.

Every run is a line of a file, so that a later call goes on with the missing runs.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.harness import BenchmarkReport, benchmark, data_folder, markdown_lines, option
from benchmarks.panel import names_of, read_set
from textsvm.apps.label.learner import Learner
from textsvm.apps.label.machine import FIRST_WEIGHT, Machine, MeaningVectors, Pool, mixed
from textsvm.apps.label.stopping import RECALL, retrieval
from textsvm.apps.label.strategies import STRATEGIES, Candidates, rank
from textsvm.errors import InputError
from textsvm.evaluation.results import clopper_pearson
from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.sparse import Sparse

Index = NDArray[np.int64]
PANELS = ("panel", "panel2")
POOL, TEST = 2000, 1000
#: Labels asked for at a time, as a share of the labels so far; labels at most; share of the full accuracy.
GROWTH, MOST, GOAL = 0.1, 1000, 0.95
#: Texts of a search at most; largest share of the relevant ones; share of the texts drawn at random.
SEARCHED, RARE, DRAWN = 1500, 0.2, 0.1
#: Growth of the labels and answers at most between trainings of a search; labels of the last training.
SEARCH_GROWTH, CHECKED, LAST_TRAINING = 0.05, 50, 600
#: Searches: ours and ASReview's, of reviews only.
SEARCHES = ("search", "ASReview-search")
#: Number of labels after which the accuracy is compared, too.
EARLY = 50
#: Answers of the measurement of speed, and in a browser; characters by which a shown text is recognised.
ANSWERS, PRESSED, WHERE = 60, 110, 100
#: Random labels that peers begin with.
FIRST = 10
#: Module, by which a peer is known to be installed, and its name.
PEERS = {
    "scikit-activeml": "skactiveml",
    "modAL": "modAL",
    "small-text": "small_text",
    "ASReview": "asreview",
}
#: A strategy with a tenth of the texts drawn at random, as `Learner` has it.
TENTH = "+tenth"


@dataclass(frozen=True)
class Task:
    """A set, as kernel values of its pool and of its test texts with the pool."""

    grams: NDArray[np.float32]  #: Of strings, and of the encoder if there is one
    crosses: NDArray[np.float32]
    y: Index
    y_test: Index
    full: float  #: Accuracy of our machine with all labels of the pool
    texts: NDArray[np.str_]  #: Texts of the pool and of the test part, for peers
    others: NDArray[np.str_]
    vectors: NDArray[np.float32]  #: Of the encoder, of no numbers without
    test_vectors: NDArray[np.float32]


def prepare(path: Path, name: str, scratch: Path, encoder: str | None = None, size: int = POOL) -> str:
    """Write the arrays of a set to the scratch folder, if they are not there."""
    target = scratch / f"{path.name}-{name}.npz"
    if target.exists():
        return target.stem
    data, rng = read_set(path, name), np.random.default_rng(0)
    train, test = (rng.permutation(len(y))[:most] for y, most in ((data.y_train, size), (data.y_test, TEST)))
    texts, others = [data.train[i] for i in train], [data.test[i] for i in test]
    classes, y = np.unique(data.y_train[train], return_inverse=True)
    place = np.searchsorted(classes, data.y_test[test]).clip(max=len(classes) - 1)
    y_test = np.where(classes[place] == data.y_test[test], place, -1)
    pool = Pool(texts, np.arange(len(texts)))
    grams, crosses = [_products(pool.rows, pool.rows)], [_products(pool.rows, pool.encode(others))]
    vectors, test_vectors = np.empty((len(texts), 0), np.float32), np.empty((len(others), 0), np.float32)
    if encoder is not None:
        encode = MeaningVectors(encoder, texts)
        vectors, test_vectors = encode(texts), encode(others)
        grams, crosses = [*grams, vectors @ vectors.T], [*crosses, test_vectors @ vectors.T]
    task = Task(
        np.array(grams), np.array(crosses), y, y_test, 0.0, np.array(texts), np.array(others), vectors,
        test_vectors,
    )  # fmt: skip
    learner = Ours(task, "random", rng)
    learner.fit(np.arange(len(y)))
    arrays = vars(task) | {"full": learner.accuracy()}
    with open(target.with_suffix(f".{os.getpid()}"), "wb") as stream:
        np.savez(stream, **arrays)
    os.replace(stream.name, target)
    return target.stem


def _products(rows: Any, others: Any) -> NDArray[np.float32]:
    """Kernel values, shape (len(others), len(rows))."""
    x, z = (Sparse(m.indptr.astype(np.int64), m.indices, m.data, m.shape[1]) for m in (rows, others))
    out = np.empty((len(z), len(x)), np.float32)
    InvertedIndex(x).products(z, np.ones(len(z)), np.ones(len(x)), out)
    return out


@lru_cache(maxsize=2)
def load(path: Path) -> Task:
    """The arrays of a set."""
    with np.load(path) as file:
        return Task(**{name: file[name] for name in file.files} | {"full": float(file["full"])})


class Ours:
    """The machine of `Learner` with a strategy, on kernel values."""

    def __init__(
        self, task: Task, strategy: str, rng: np.random.Generator, relevant: int | None = None
    ) -> None:
        self.task, self.rng, self.relevant = task, rng, relevant
        self.strategy, self.tenth = strategy.removesuffix(TENTH), strategy.endswith(TENTH)
        self.machine: Machine | None = None
        self.weight = FIRST_WEIGHT

    def fit(self, index: Index) -> None:
        """Train on labelled texts of the pool."""
        self.index = index
        self.classes, codes = np.unique(self.task.y[index], return_inverse=True)
        if len(self.classes) > 1:
            target = np.where(codes[:, None] == np.arange(len(self.classes)), 1.0, -1.0)
            known = self.classes.tolist()
            relevant = known.index(self.relevant) if self.relevant in known else None
            grams = self.task.grams[:, index[:, None], index]
            self.machine = Machine.weighted(grams, target, relevant=relevant)
            self.weight = self.machine.weight

    def accuracy(self) -> float:
        """Share of test texts that are classified correctly."""
        if self.machine is None:
            return float(np.mean(self.task.y_test == self.classes[0]))
        cross = mixed(self.task.crosses[:, :, self.index], self.weight)
        values = cross @ self.machine.coef + self.machine.bias
        return float(np.mean(self.classes[values.argmax(axis=1)] == self.task.y_test))

    def relevance(self) -> NDArray[np.float64] | None:
        """Value for the relevant label of all texts, by machines without them; None before both labels."""
        if self.machine is None:
            return None
        column = self.classes.tolist().index(self.relevant)
        coef = self.machine.coef[:, column].astype(np.float32)
        values = self._similarity(np.arange(len(self.task.y)), self.index) @ coef + self.machine.bias[column]
        values[self.index] = self.machine.left_out[:, column]
        return np.asarray(values)

    def choose(self, labelled: Index, free: Index, n: int) -> Index:
        """The texts to label next."""
        n_random = self.rng.binomial(n, 0.1) if self.tenth else 0
        drawn = self.rng.permutation(free)[:n_random]
        return np.append(drawn, self.best(labelled, np.setdiff1d(free, drawn), n - n_random))

    def best(self, labelled: Index, free: Index, n: int) -> Index:
        """The texts that the strategy takes."""
        values, machine = None, self.machine
        if machine is not None:
            values = self._similarity(free, self.index) @ machine.coef + machine.bias
        known = [] if machine is None else self.classes.tolist()
        relevant = known.index(self.relevant) if self.relevant in known else None
        candidates = Candidates(free, labelled, values, machine, self._similarity, self.rng, relevant)
        return free[rank(self.strategy, candidates, n)]

    def _similarity(self, some: Index, others: Index) -> NDArray[np.float32]:
        return mixed(self.task.grams[:, some[:, None], others], self.weight)


class Peer:
    """A peer's way to choose, with its classifier on TF-IDF of words and pairs of words."""

    def __init__(self, task: Task, strategy: str, rng: np.random.Generator) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.task, self.strategy, self.rng = task, strategy, rng
        self.x: Any
        self.x, self.x_test = task.vectors, task.test_vectors
        if self.x.shape[1]:
            return
        vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
        self.x, self.x_test = vectors.fit_transform(task.texts), vectors.transform(task.others)

    def fit(self, index: Index) -> None:
        """Train on labelled texts of the pool."""
        self.index, self.model = index, self._classifier()
        self.judge = self.model
        y = self.task.y[index]
        if len(np.unique(y)) < 2:
            return
        if self.strategy == "ASReview":  # its SVM ranks: nearly all texts are on its relevant side
            self.judge = self._regression().fit(self.x[index], y)
            self.model.fit(self.x[index], y, sample_weight=self._weights(y))
        else:
            self.model.fit(self.x[index], y)

    def accuracy(self) -> float:
        """Share of test texts that are classified correctly."""
        y = self.task.y[self.index]
        predicted = self.judge.predict(self.x_test) if len(np.unique(y)) > 1 else y[0]
        return float(np.mean(predicted == self.task.y_test))

    def choose(self, labelled: Index, free: Index, n: int) -> Index:
        """The texts to label next."""
        if len(labelled) < FIRST or len(np.unique(self.task.y[labelled])) < 2:
            return self.rng.permutation(free)[:n]
        return np.asarray(getattr(self, f"_{PEERS[self.strategy]}")(labelled, free, n))

    def _classifier(self) -> Any:
        from sklearn.svm import LinearSVC

        if self.strategy == "ASReview":
            return LinearSVC(C=0.11, loss="squared_hinge")
        if self.strategy == "small-text":
            return import_module("small_text").ConfidenceEnhancedLinearSVC()
        return self._regression()

    def _regression(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=10, tol=1e-3, solver="newton-cg")

    def _skactiveml(self, labelled: Index, free: Index, n: int) -> Index:
        # The function behind its UncertaintySampling, whose own query refuses sparse rows.
        scores = import_module("skactiveml.pool").uncertainty_scores
        utility = scores(self.model.predict_proba(self.x[free]), method="margin_sampling")
        return free[np.argsort(-utility, kind="stable")[:n]]

    def _modAL(self, labelled: Index, free: Index, n: int) -> Index:
        sampling = import_module("modAL.uncertainty").uncertainty_sampling
        return free[np.asarray(sampling(self.model, self.x[free], n_instances=n)[0])]

    def _small_text(self, labelled: Index, free: Index, n: int) -> Index:
        ties = import_module("small_text").BreakingTies()
        y = self.task.y[labelled]
        return ties.query(self.model, self.x, free, labelled, y, n=n)

    def _asreview(self, labelled: Index, free: Index, n: int) -> Index:
        rarer = int(np.bincount(self.task.y).argmin())
        values = self.model.decision_function(self.x[free]) * (1 if self.model.classes_[1] == rarer else -1)
        return free[np.argsort(-values, kind="stable")[:n]]

    def _weights(self, y: Index) -> NDArray[np.float64]:
        balanced = import_module("asreview.models.balancers").Balanced(ratio=9.8)
        return balanced.compute_sample_weight((y == np.bincount(self.task.y).argmin()).astype(int))


@lru_cache(maxsize=8)
def full_accuracy(path: Path, strategy: str) -> float:
    """Accuracy of a peer's machine with all labels of the pool."""
    peer = Peer(load(path), strategy, np.random.default_rng(0))
    peer.fit(np.arange(len(peer.task.y)))
    return peer.accuracy()


def simulate(path: Path, strategy: str, seed: int, most: int = MOST) -> dict[str, Any]:
    """Accuracy of a strategy by the number of labels, until the goal is reached."""
    task, rng = load(path), np.random.default_rng([seed, 7])
    row = {"set": path.stem, "strategy": strategy, "seed": seed}
    if strategy == "ASReview" and task.y.max() > 1:
        return row
    learner: Any = (Peer if strategy in PEERS else Ours)(task, strategy, rng)
    full = full_accuracy(path, strategy) if strategy in PEERS else task.full
    constant = float(np.mean(task.y_test == np.bincount(task.y).argmax()))
    if constant >= GOAL * min(full, task.full):
        return row
    labelled, points, reached, most = np.empty(0, np.int64), [], 0, min(most, len(task.y))
    while len(labelled) < most and (reached < 2 or len(labelled) < EARLY):
        n = min(max(1, int(GROWTH * len(labelled))), most - len(labelled))
        free = np.setdiff1d(np.arange(len(task.y)), labelled)
        labelled = np.append(labelled, learner.choose(labelled, free, n))
        learner.fit(labelled)
        points.append((len(labelled), learner.accuracy()))
        reached = reached + 1 if np.mean([a for _, a in points[-3:]]) >= GOAL * full else 0
    needed = labels_needed(points, GOAL * full, most)
    early = float(np.interp(EARLY, *np.array(points, np.float64).T))
    return row | {"full": full, "most": most, "needed": needed, "early": early, "points": points}


def labels_needed(points: Sequence[tuple[int, float]], goal: float, most: int) -> float:
    """Labels at which the accuracy, a mean of three successive points, reaches a goal; else `most`."""
    sizes, accuracy = np.array(points, np.float64).T
    smooth = np.array([accuracy[max(0, i - 1) : i + 2].mean() for i in range(len(accuracy))])
    enough = np.flatnonzero(smooth >= goal)
    if not len(enough):
        return float(most)
    i = int(enough[0])
    if i == 0:
        return float(sizes[0])
    share = (goal - smooth[i - 1]) / (smooth[i] - smooth[i - 1])
    return float(sizes[i - 1] + share * (sizes[i] - sizes[i - 1]))


def prepare_search(
    path: Path, name: str, scratch: Path, encoder: str | None = None, size: int = SEARCHED
) -> str | None:
    """Write the arrays of a search of a set or a review; None if no label is rare."""
    target = scratch / f"{path.name if path.is_dir() else 'review'}-{name}-search.npz"
    if target.exists():
        return target.stem
    if path.is_dir():
        data = read_set(path, name)
        sample = np.random.default_rng(0).permutation(len(data.y_train))[: min(size, SEARCHED)]
        texts, codes = (
            [data.train[i] for i in sample],
            np.unique(data.y_train[sample], return_inverse=True)[1],
        )
        shares = np.bincount(codes) / len(codes)
        rare = int(np.where(shares <= RARE, shares, 0).argmax())
        y = (codes == rare).astype(np.int64)
        if shares[rare] > RARE:
            return None
    else:
        with open(path, encoding="utf-8", errors="replace", newline="") as lines:
            rows = list(csv.DictReader(lines))
        texts = [f"{row['title']}\n{row['abstract']}" for row in rows]
        y = np.array([int(row["included"]) for row in rows])
    rows, none = Pool(texts, np.arange(len(texts))).rows, np.empty((len(texts), 0), np.float32)
    grams = [_products(rows, rows)]
    if encoder is not None:
        vectors = MeaningVectors(encoder, texts)(texts)
        grams.append(vectors @ vectors.T)
    task = Task(
        np.array(grams), none, y, np.empty(0, np.int64), 0.0, np.array(texts), np.empty(0, str), none, none
    )
    with open(target.with_suffix(f".{os.getpid()}"), "wb") as stream:
        np.savez(stream, **vars(task))
    os.replace(stream.name, target)
    return target.stem


def first_texts(y: Index, seed: int) -> Index:
    """Random texts up to the first relevant one, at least two."""
    order = np.random.default_rng([seed, 11]).permutation(len(y))
    return order[
        : max(2, 1 + int(np.flatnonzero(y[order] == 1)[0]), 1 + int(np.flatnonzero(y[order] == 0)[0]))
    ]


def search(path: Path, seed: int) -> dict[str, Any]:
    """Search until the stopping rule holds and 95 % are found: recall and share of texts read then."""
    task, rng = load(path), np.random.default_rng([seed, 12])
    learner, y, stopped, read = Ours(task, "relevance", rng, 1), task.y, None, None
    labelled = first_texts(y, seed) if path.stem.startswith("review-") else np.empty(0, np.int64)
    while stopped is None or read is None:
        if 0 < len(labelled) <= LAST_TRAINING:
            learner.fit(labelled)
        free, values = np.setdiff1d(np.arange(len(y)), labelled), learner.relevance()
        relevant = y[labelled] == 1
        if not len(free) or (
            values is not None and retrieval(relevant, values[labelled], values[free], 0).enough
        ):
            stopped = stopped or (relevant.sum() / y.sum(), len(labelled) / len(y))
        if relevant.sum() >= RECALL * y.sum() - 1e-9:
            read = read or (1 + int(np.searchsorted(relevant.cumsum(), RECALL * y.sum() - 1e-9))) / len(y)
        n = min(max(1, int(SEARCH_GROWTH * len(labelled))), CHECKED)
        drawn = rng.permutation(free)[: rng.binomial(min(n, len(free)), DRAWN)]
        rest = np.setdiff1d(free, drawn)
        size = min(n - len(drawn), len(rest))
        if values is not None:
            best = rest[np.argsort(-values[rest], kind="stable")[:size]]
        else:
            best = learner.best(labelled, rest, size) if size else rest[:0]
        labelled = np.append(labelled, rng.permutation(np.append(drawn, best)))
    about = {"set": path.stem, "strategy": "search", "seed": seed, "texts": len(y), "relevant": int(y.sum())}
    return about | {"recall": stopped[0], "read": stopped[1], "read at 95 %": read, "WSS@95": RECALL - read}


def asreview_search(path: Path, seed: int) -> dict[str, Any]:
    """The search of ASReview's default, trained anew after a fiftieth more labels."""
    task, row = load(path), {"set": path.stem, "strategy": "ASReview-search", "seed": seed}
    if not path.stem.startswith("review-"):
        return row
    pandas, simulate = import_module("pandas"), import_module("asreview.simulation.simulate")
    config = import_module("asreview.models.models").get_ai_config()["value"]
    cycle = import_module("asreview.learner").ActiveLearningCycle.from_meta(config)
    cycle.n_query = lambda results: max(1, int(0.02 * len(results)))
    stop = SimpleNamespace(stop=lambda results, y: results["label"].sum() >= RECALL * y.sum() - 1e-9)
    texts = pandas.DataFrame({"title": task.texts, "abstract": ""})
    simulation = simulate.Simulate(texts, task.y, [cycle], stopper=stop, print_progress=False)
    simulation.label(first_texts(task.y, seed))
    simulation.review()
    found = simulation._results["label"].to_numpy().cumsum()
    read = (1 + int(np.searchsorted(found, RECALL * task.y.sum() - 1e-9))) / len(task.y)
    return row | {"read at 95 %": read, "WSS@95": RECALL - read}


def topical(n_texts: int, n_words: int) -> tuple[list[str], Index]:
    """Texts of words of four topics, and the topics."""
    rng = np.random.default_rng(0)
    words = [f"{stem}{end}" for stem in ("lab", "ter", "mon", "gri", "sel") for end in range(200)]
    topics = [rng.permutation(words)[:300] for _ in range(4)]
    labels = rng.integers(4, size=n_texts)
    return [" ".join(rng.choice(topics[label], n_words)) for label in labels.tolist()], labels


#: Measures the time from a key to a painted text, and to its painted guess; both change the element #text.
_WATCH = """() => {
  let pressed = 0, first = true;
  window.times = [[], []];
  document.addEventListener("keydown", () => { pressed = performance.now(); first = true; }, true);
  new MutationObserver(() => {
    const of = window.times[first ? 0 : 1];
    first = false;
    requestAnimationFrame(() => setTimeout(() => of.push(performance.now() - pressed)));
  }).observe(document.getElementById("text"), { childList: true });
}"""


def page_speed(n_texts: int, n_words: int, pause: float) -> list[dict[str, Any]]:
    """Milliseconds from a key to the next text, and to its guess, in Chromium, with a pause between texts."""
    texts, labels = topical(n_texts, n_words)
    place = {text[:WHERE]: i for i, text in enumerate(texts)}
    playwright = import_module("playwright.sync_api")
    with TemporaryDirectory() as folder, playwright.sync_playwright() as driver:
        Path(folder, "texts.txt").write_text("\n".join(texts) + "\n", "utf-8", newline="\n")
        arguments = ["texts.txt", "-o", "labels.jsonl", "--labels", "0,1,2,3", "--no-browser"]
        command = [sys.executable, "-m", "textsvm", "label", *arguments]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(server.stdout.readline().split()[-1])
            page.wait_for_selector("body:not([aria-busy])")
            page.evaluate(_WATCH)
            for _ in range(PRESSED):
                page.wait_for_timeout(1000 * pause)
                page.keyboard.press(str(labels[place[page.locator("#text").text_content()[:WHERE]]] + 1))
                page.wait_for_selector("body:not([aria-busy])")
            page.wait_for_timeout(1000)
            measured = zip(("text", "guess"), page.evaluate("window.times"), strict=True)
            server.terminate()
    about = {"texts": n_texts, "characters": len(texts[0]), "pause, s": pause}
    return [
        about | {"until": name, "answers": len(ms), "median, ms": float(np.median(ms)),
                 "95 %, ms": float(np.percentile(ms, 95)), "longest, ms": max(ms)}
        for name, ms in measured
    ]  # fmt: skip


def speed(n_texts: int, n_words: int) -> dict[str, Any]:
    """Longest and median milliseconds of `Learner.next` and `answer`, and seconds of start and refresh."""
    texts, labels = topical(n_texts, n_words)
    clock = time.perf_counter()
    learner = Learner(texts)
    learner.refresh()
    start, answers, refreshes = time.perf_counter() - clock, [], []
    for _ in range(ANSWERS):
        clock = time.perf_counter()
        proposal = learner.next()
        assert proposal is not None
        learner.answer(proposal.index, str(labels[proposal.index]))
        answers.append(1000 * (time.perf_counter() - clock))
        clock = time.perf_counter()
        learner.refresh()
        refreshes.append(time.perf_counter() - clock)
    return {
        "texts": n_texts, "start, s": start, "next and answer, ms": float(np.median(answers)),
        "longest, ms": max(answers), "refresh, s": float(np.median(refreshes)),
    }  # fmt: skip


class Runs:
    """Lines of a file, a line per run; runs that are in the file are not repeated."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]

    def add(self, row: dict[str, Any]) -> None:
        """Append a run."""
        self.rows.append(row)
        with open(self.path, "a", encoding="utf-8", newline="\n") as lines:
            lines.write(json.dumps(row) + "\n")

    def missing(self, tasks: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
        """Tasks (set, strategy, seed) without a run."""
        known = {(row["set"], row["strategy"], row["seed"]) for row in self.rows}
        return [task for task in tasks if task not in known]


def run_task(scratch: Path, most: int, task: tuple[str, str, int]) -> dict[str, Any]:
    """A run in a worker process."""
    name, strategy, seed = task
    path = scratch / f"{name}.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers: classes of a single text, and no convergence
        if strategy in SEARCHES:
            return search(path, seed) if strategy == "search" else asreview_search(path, seed)
        return simulate(path, strategy, seed, most)


def one_thread() -> None:
    """Initialise a worker process."""
    threadpool_limits(1)
    os.environ["NUMBA_NUM_THREADS"] = "1"  # of textsvm, too


def in_processes(jobs: int, deadline: float, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Results of calls (function, arguments...) in processes, as they come; none starts after a deadline."""
    rest, running = iter(calls), set[Any]()
    with ProcessPoolExecutor(jobs, initializer=one_thread) as pool:
        while True:
            while len(running) < 2 * jobs and time.monotonic() < deadline:
                call = next(rest, None)
                if call is None:
                    break
                running.add(pool.submit(*call))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in done)


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per strategy: labels needed relative to random texts, over the sets that both have."""
    needed: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if "needed" in row:
            needed[row["strategy"]][row["set"]].append(row["needed"])
    random, table = needed.get("random", {}), []
    early = {(row["strategy"], row["set"], row["seed"]): row["early"] for row in rows if "early" in row}
    for strategy, by_set in needed.items():
        names = [name for name in by_set if name in random]
        ratios = {name: np.mean(by_set[name]) / np.mean(random[name]) for name in names}
        if names:
            table.append(ratio_row(strategy, ratios, min(len(by_set[name]) for name in names)))
            table[-1][f"accuracy at {EARLY}"] = float(
                np.mean(
                    [
                        np.mean([value for (s, t, _), value in early.items() if (s, t) == (strategy, name)])
                        for name in names
                    ]
                )
            )
    return sorted(table, key=lambda row: float(row["mean"]))


def ratio_row(strategy: str, ratios: dict[str, Any], seeds: int) -> dict[str, Any]:
    """The row of a strategy in the table."""
    values, worst = np.array(list(ratios.values())), max(ratios, key=lambda name: float(ratios[name]))
    return {
        "strategy": strategy, "sets": len(values), "seeds": seeds, "mean": float(values.mean()),
        "standard error": float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else math.nan,
        "geometric mean": float(np.exp(np.log(values).mean())), "median": float(np.median(values)),
        "worst": float(values.max()), "worst set": worst, "above 1.1": int((values > 1.1).sum()),
    }  # fmt: skip


def search_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summary of the searches when the rule held, of the panels and of the reviews."""
    table = []
    for data, is_review in (("panels", False), ("reviews", True)):
        runs = [row for row in rows if "recall" in row and row["set"].startswith("review-") == is_review]
        if not runs:
            continue
        recall, read, needed = (
            np.array([row[key] for row in runs]) for key in ("recall", "read", "read at 95 %")
        )
        held = int((recall >= RECALL - 1e-9).sum())
        low, high = clopper_pearson(held, len(runs))
        table.append({
            "data": data, "sets": len({row["set"] for row in runs}), "searches": len(runs),
            "95 % found": f"{held} ({100 * held / len(runs):.1f} %; {100 * low:.1f} to {100 * high:.1f})",
            "recall": recall.mean(), "median": float(np.median(recall)), "least": recall.min(),
            "read": read.mean(), "read at 95 %": needed.mean(),
        })  # fmt: skip
    return table


def saved_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """WSS@95 of the reviews that both programs searched: a row per review, and the mean."""
    runs: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if "WSS@95" in row and row["set"].startswith("review-"):
            runs[row["set"], row["seed"]][row["strategy"]] = row["WSS@95"]
    by_set: dict[str, list[list[float]]] = defaultdict(list)
    for (name, _), saved in runs.items():
        if len(saved) == len(SEARCHES):
            by_set[name].append([saved[strategy] for strategy in SEARCHES])
    table, means = [], np.array([np.mean(pairs, axis=0) for pairs in by_set.values()]).reshape(-1, 2)
    for (name, pairs), (ours, theirs) in zip(by_set.items(), means, strict=True):
        label = name.removeprefix("review-").removesuffix("-search")
        table.append(
            {
                "review": label,
                "seeds": len(pairs),
                "textsvm": ours,
                "ASReview": theirs,
                "difference": ours - theirs,
            }
        )
    if len(means) > 1:
        cells = np.column_stack([means, means[:, 0] - means[:, 1]])
        error = cells.std(axis=0, ddof=1) / np.sqrt(len(cells))
        texts = [f"{mean:.3f} ± {se:.3f}" for mean, se in zip(cells.mean(axis=0), error, strict=True)]
        table.append(dict(zip(table[0], [f"mean of {len(means)} ± standard error", "", *texts], strict=True)))
    return table


class LabellingReport(BenchmarkReport):
    """Tables of the strategies, of the searches and of the speed."""

    def write(self) -> None:
        """Write both files."""
        lines = [self.note]
        for rows in self.rows.values():
            if rows["table"]:
                cells = [list(row.values()) for row in rows["table"]]
                lines += ["", *markdown_lines(list(rows["table"][0]), cells, ".2f")]
        self.write_files(lines, {"rows": list(self.rows.values())})


@benchmark(
    "labelling",
    "Labels that strategies need",
    "reports/labelling_runs",
    option("--strategies", help="strategies, separated by commas (default: all); 'search': stopping rule"),
    option("--seeds", type=int, default=20, help="runs of each strategy on each set"),
    option("--sets", help="names of sets, separated by commas (default: all)"),
    option("--reviews", type=Path, help="searches: folder of CSV files with title, abstract, included"),
    option("--encoder", help="folder of an encoder, for our machine and for the peers"),
    option("--pool", type=int, default=POOL, help="texts of a pool"),
    option("--most", type=int, default=MOST, help="most labels of a run"),
    option("--first-seed", type=int, default=0, help="seed of the first run"),
    option("--anchors", action="store_true", help="also the peers that are installed"),
    option("--jobs", type=int, default=2, recorded=False, help="processes"),
    option(
        "--deadline", type=float, default=math.inf, recorded=False, help="seconds after which none starts"
    ),
    option("--runs", type=Path, default=Path("labelling.jsonl"), recorded=False, help="file of the runs"),
    option(
        "--scratch", type=Path, default=Path(gettempdir()), recorded=False, help="folder of kernel values"
    ),
    option("--texts", type=int, help="measure the speed on this many texts instead, of Chromium too"),
    option("--words", type=int, default=30, help="--texts: words of a text, of about seven characters"),
    option("--pause", type=float, default=0.3, help="--texts: seconds between a text and the key"),
    report=LabellingReport,
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Simulate, and write tables of all runs of the file."""
    if options.texts:
        report.row("speed", lambda: {"table": [speed(options.texts, options.words)]})
        if find_spec("playwright"):
            size = options.texts, options.words, options.pause
            report.row("page", lambda: {"table": page_speed(*size)})
        return
    deadline, runs = time.monotonic() + options.deadline, Runs(options.runs)
    options.scratch.mkdir(parents=True, exist_ok=True)
    strategies = [name for name in STRATEGIES if name != "relevance"]
    if options.strategies:
        strategies = options.strategies.split(",")
    if options.anchors:
        strategies += [name for name, module in PEERS.items() if find_spec(module)]
    known = {*STRATEGIES, *PEERS, *SEARCHES, *(name + TENTH for name in STRATEGIES)}
    if unknown := set(strategies) - known:
        raise InputError(f"there is no strategy {', '.join(sorted(unknown))}")
    tasks, seeds = [], range(options.first_seed, options.first_seed + options.seeds)
    for run, kind in (
        (prepare, set(strategies) - set(SEARCHES)),
        (prepare_search, set(strategies) & set(SEARCHES)),
    ):
        names = prepared(run, options, deadline) if kind else []
        tasks += [(n, s, seed) for seed, s, n in product(seeds, sorted(kind), names)]
    calls = ((run_task, options.scratch, options.most, task) for task in runs.missing(tasks))
    for row in in_processes(options.jobs, deadline, calls):
        runs.add(row)
    report.rows = {
        "strategies": {"table": summary(runs.rows)},
        "searches": {"table": search_rows(runs.rows)},
        "reviews": {"table": saved_rows(runs.rows)},
    }
    report.write()


def prepared(run: Callable[..., str | None], options: argparse.Namespace, deadline: float) -> list[str]:
    """Names of the sets whose arrays are in the scratch folder; the first compiles for all processes."""
    pairs = [
        (folder, name)
        for folder in (data_folder() / panel for panel in PANELS)
        for name in names_of(folder, None)
        if options.sets is None or name in options.sets.split(",")
    ]
    if options.reviews and run is prepare_search:
        pairs += [(path, path.stem) for path in sorted(options.reviews.glob("*.csv"))]
    if not pairs:
        raise InputError("--sets names no set of the panels")
    rest = options.scratch, options.encoder, options.pool
    first = run(*pairs[0], *rest)
    calls = ((run, *pair, *rest) for pair in pairs[1:])
    return sorted(name for name in [first, *in_processes(options.jobs, deadline, calls)] if name)
