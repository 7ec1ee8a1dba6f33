"""SpectrumFeatures, against the TfidfVectorizer of scikit-learn and of LeNLP on the same texts.

Texts are normalised beforehand for all. First equality: every entry of the training and the test matrix, the
columns matched by their names, to 1e-6. Then the time of `fit_transform` on the training texts and of
`transform` on the others, in turns.

LeNLP (Rust, all cores) is compared if it is installed (`pip install lenlp`), in the setting that it has too.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.corpora import TrainTest, full_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option, paired
from textsvm.estimators.features import SpectrumFeatures
from textsvm.text.documents import normalise

BOUND = 1e-6
#: Our parameters, and scikit-learn's.
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "characters 1-5, log, idf": (
        {"p": (1, 5), "weight": "log"},
        {"analyzer": "char", "ngram_range": (1, 5), "sublinear_tf": True},
    ),
    "characters 3-5, count, idf": ({"p": (3, 5)}, {"analyzer": "char", "ngram_range": (3, 5)}),
    "characters 3-8, presence, idf, min_df 2": (
        {"p": (3, 8), "weight": "presence", "min_df": 2},
        {"analyzer": "char", "ngram_range": (3, 8), "binary": True, "min_df": 2},
    ),
    "words 1-2, log, idf": (
        {"p": (1, 2), "weight": "log", "tokens": "words"},
        {"token_pattern": r"\w+|[^\w\s]", "ngram_range": (1, 2), "sublinear_tf": True},
    ),
}


def difference(ours: csr_matrix, theirs: csr_matrix, order: Any) -> float:
    """The largest difference of an entry; raises AssertionError if it is above the bound."""
    assert ours.shape == theirs.shape
    largest = float(abs(ours[:, order] - theirs).max())
    assert largest <= BOUND, f"entries differ by {largest:.2g}"
    return largest


def equal(ours: SpectrumFeatures, theirs: Any, task: TrainTest) -> dict[str, Any]:
    """Compare the matrices of both parts; raises AssertionError if they differ."""
    train = ours.fit_transform(task.train)
    known = theirs.fit_transform(task.train)
    place = {name: column for column, name in enumerate(ours.get_feature_names_out())}
    number = theirs.vocabulary_ if isinstance(theirs, TfidfVectorizer) else theirs.vocabulary
    order = np.array([place[name] for name in sorted(number, key=number.__getitem__)])
    found = difference(train, known, order)
    found = max(found, difference(ours.transform(task.test), theirs.transform(task.test), order))
    return {"columns": train.shape[1], "entries": train.nnz, "largest difference": f"{found:.1e}"}


def lenlp(ours: SpectrumFeatures, task: TrainTest, theirs: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Columns of LeNLP; empty without it, and in a setting that it does not have."""
    if find_spec("lenlp") is None or theirs.keys() != {"analyzer", "ngram_range"}:
        return {}
    vectorizer = import_module("lenlp.sparse").TfidfVectorizer(**theirs, normalize=False)
    equal(ours, vectorizer, task)
    fit, more = times(ours, vectorizer, task, repeats)
    return {
        "fit_transform, LeNLP's": fit["theirs"], "times LeNLP's": fit["ratio"],
        "transform, LeNLP's": more["theirs"], "times LeNLP's ": more["ratio"],
    }  # fmt: skip


def times(
    ours: SpectrumFeatures, theirs: Any, task: TrainTest, repeats: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Times of `fit_transform` on the training texts and of `transform` on the others."""
    return (
        paired(lambda: ours.fit_transform(task.train), lambda: theirs.fit_transform(task.train), repeats),
        paired(lambda: ours.transform(task.test), lambda: theirs.transform(task.test), repeats),
    )


def compare(task: TrainTest, setting: str, device: str, repeats: int) -> dict[str, Any]:
    """One row of the report."""
    mine, other = SETTINGS[setting]
    ours = SpectrumFeatures(**mine, idf=True, normalise="none", device=device)
    theirs = TfidfVectorizer(**other, lowercase=False)
    figures = equal(ours, theirs, task)
    fit, more = times(ours, theirs, task, repeats)
    return {
        "corpus": task.name, "features": setting, "texts": f"{len(task.train):,} + {len(task.test):,}",
        "M characters": sum(map(len, task.train + task.test)) / 1e6, **figures,
        "fit_transform, s": fit["ours"], "scikit-learn's": fit["theirs"], "times faster": fit["ratio"],
        "transform, s": more["ours"], "scikit-learn's ": more["theirs"], "times faster ": more["ratio"],
        "transform, M characters a second": sum(map(len, task.test)) / 1e6 / more["ours"],
        **lenlp(ours, task, other, repeats),
    }  # fmt: skip


def normalised(task: TrainTest) -> TrainTest:
    """The same task, its texts in their normal form."""
    train, test = ([normalise(text) for text in part] for part in (task.train, task.test))
    return TrainTest(task.name, train, task.y_train, test, task.y_test)


@benchmark(
    "features",
    "Features against TfidfVectorizer",
    "reports/cpu_features",
    option("--every", type=int, default=1, help="use every EVERY-th text"),
    device="cpu",
    repeats=3,
    quick="use the bundled samples",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Compute the same matrices with both."""
    tasks = full_tasks(None if options.quick else data_folder())[1:]  # the second contains the first
    few = slice(None, None, options.every)
    tasks = [TrainTest(t.name, t.train[few], t.y_train[few], t.test[few], t.y_test[few]) for t in tasks]
    return [
        compare(task, setting, options.device, options.repeats)
        for task in map(normalised, tasks)
        for setting in SETTINGS
    ]
