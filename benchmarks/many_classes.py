"""Thousands of classes with a few texts each: time, memory and accuracy.

A class is a set, a label and the first word of a text, of the sets in the folders panel, panel2 and
panel-large; texts are cut after 80 characters. Opponents of scikit-learn have TF-IDF of 1 to 5 characters.
Each row is a process of its own, whose peak memory includes training. CPU seconds are of all threads. Before
the time of a model of textsvm is reported, its values are compared with those from kernel values (1e-4, since
kernel values are in float32).
"""

from __future__ import annotations

import argparse
import lzma
import multiprocessing
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.memory import largest_resident
from textsvm.errors import InputError
from textsvm.estimators.svm import SVC
from textsvm.linalg.factored import as_dense
from textsvm.runtime import device as devices

#: Characters of a text, texts that are predicted, texts whose values are compared.
LENGTH, PREDICTED, COMPARED = 80, 2000, 8
#: Most bytes of the dense weights of LinearSVC.
MOST_BYTES = 6 << 30
Texts = tuple[list[str], list[str]]


def classes_of(folder: Path) -> dict[str, list[str]]:
    """Distinct texts of each class."""
    classes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.glob("panel*/*-train.tsv.xz")):
        name, known = path.name.removesuffix("-train.tsv.xz"), set()
        for part in (path, path.with_name(path.name.replace("-train", "-test"))):
            with lzma.open(part, "rt", encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    label, _, text = line.rstrip("\n").partition("\t")
                    if text.split() and text not in known:
                        known.add(text)
                        classes[f"{name} {label} {text.split()[0].lower()}"].append(text[:LENGTH])
    return classes


def parts(classes: dict[str, list[str]], n_classes: int, n_texts: int) -> tuple[Texts, Texts]:
    """Training texts of some classes and a test text of each, with labels."""
    random = np.random.default_rng(0)
    names = sorted(name for name, texts in classes.items() if len(texts) > n_texts)
    if len(names) < n_classes:
        raise InputError(f"there are {len(names):,} classes of {n_texts + 1} texts, fewer than {n_classes:,}")
    train: Texts = ([], [])
    test: Texts = ([], [])
    for name in random.permutation(names)[:n_classes].tolist():
        texts = random.permutation(np.array(classes[name], object))[: n_texts + 1].tolist()
        for part, own in ((train, texts[:-1]), (test, texts[-1:])):
            part[0].extend(own)
            part[1].extend([name] * len(own))
    return train, test


def opponent(method: str, train: Texts) -> Any:
    """A pipeline of scikit-learn."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.neighbors import NearestCentroid
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    features = TfidfVectorizer(analyzer="char", ngram_range=(1, 5), sublinear_tf=True)
    if method == "nearest centroid":
        return make_pipeline(features, NearestCentroid())
    n_bytes = 8 * len(set(train[1])) * len(features.fit(train[0]).vocabulary_)
    if n_bytes > MOST_BYTES:
        raise InputError(f"its weights would take {n_bytes / 2**30:.1f} GiB")
    return make_pipeline(features, LinearSVC())


def compare(model: SVC, texts: list[str]) -> float:
    """Largest difference from values by kernel values; InputError if it is large."""
    trained = model.model_
    assert trained.kernel is not None
    rows = trained.kernel.rows(trained.support.documents, devices.select("cpu"))
    values = rows.cross(trained.encode(texts)).astype(np.float64) @ as_dense(trained.predictor.dual_coef).T
    difference = np.abs(values + model.intercept_ - model.decision_function(texts)).max()
    if difference > 1e-4:
        raise InputError(f"values differ by {difference:.2g} from those by kernel values")
    return float(difference)


def measure(method: str, train: Texts, test: Texts) -> dict[str, Any]:
    """Train and predict."""
    model = SVC(device="cpu") if method == "SVC()" else opponent(method, train)
    clock, cpu = time.perf_counter(), time.process_time()
    model.fit(*train)
    row: dict[str, Any] = {"train, s": time.perf_counter() - clock, "train, CPU s": time.process_time() - cpu}
    clock = time.perf_counter()
    model.predict(test[0][:1])
    row["first prediction, s"] = time.perf_counter() - clock
    texts = test[0][:PREDICTED]
    clock, cpu = time.perf_counter(), time.process_time()
    predicted = model.predict(texts)
    row["texts/s"] = len(texts) / (time.perf_counter() - clock)
    row["CPU ms per text"] = 1000 * (time.process_time() - cpu) / len(texts)
    row["accuracy %"] = 100 * float(np.mean(predicted == np.array(test[1][:PREDICTED])))
    row["peak memory, GB"] = largest_resident() / 1e9
    if method == "SVC()":
        row["difference"] = f"{compare(model, test[0][:COMPARED]):.1e}"
    return row


def cell(method: str, train: Texts, test: Texts) -> dict[str, Any]:
    """Measure in a process of its own."""
    about = {"classes": len(set(train[1])), "texts": len(train[0]), "method": method}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            return about | pool.apply(measure, (method, train, test))
        except InputError as error:
            return about | {"train, s": str(error)}


@benchmark(
    "many_classes",
    "Thousands of classes",
    "reports/many_classes",
    option("--sizes", nargs="*", default=["500x5", "2241x2", "10000x5"], help="classes x texts of a class"),
    option("--methods", nargs="*", default=["SVC()", "LinearSVC", "nearest centroid"], recorded=False),
    note=__doc__,
)  # fmt: skip
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Measure each method on each size."""
    classes = classes_of(data_folder())
    for size in options.sizes:
        n_classes, n_texts = map(int, size.split("x"))
        train, test = parts(classes, n_classes, n_texts)
        for method in options.methods:
            report.row(f"{size} {method}", cell, method, train, test)
