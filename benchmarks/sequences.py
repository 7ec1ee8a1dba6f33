"""Gapped k-mers of DNA: areas under the ROC curve and times, beside FastSK.

For each set the kernel and C are those that cross-validation on the training part likes best (area under the
ROC curve); the test part is looked at once, with these. The opponents have C chosen likewise. Published areas
are FastSK's (exact). Times are of random sequences; where `fastsk` can be imported, its Gram must be ours
before both are timed, in turns. `--data FOLDER` is a folder of sets as FastSK has them, NAME.train.fasta and
NAME.test.fasta, where a record is `>label` and a line of letters.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option, paired
from textsvm import Compute
from textsvm.errors import InputError
from textsvm.estimators.svm import SVC
from textsvm.kernels import GappedKmers, Kernel, Sum
from textsvm.kernels.spelling import spell
from textsvm.readers.read import read_corpus
from textsvm.runtime.device import Device, select, synchronize
from textsvm.selection.tuning import tune
from textsvm.text.documents import encode

#: What is chosen from: kernels, sums of kernels, and values of C.
SIZES, COSTS = ((8, 2), (9, 3), (10, 4), (11, 4), (12, 5)), (0.3, 1.0, 3.0)
TOGETHER = (((12, 5), (9, 3)), ((12, 5), (11, 4), (9, 3)))
PUBLISHED = {"CTCF": 0.9696, "EP300": 0.9907, "KAT2B": 0.9216, "ZZZ3": 0.9629}
OPPONENTS: dict[str, Callable[[], Any]] = {
    "TF-IDF of characters 1-5": lambda: TfidfVectorizer(
        analyzer="char", ngram_range=(1, 5), sublinear_tf=True, min_df=2
    ),
    "counts of 6-mers": lambda: CountVectorizer(analyzer="char", ngram_range=(6, 6), dtype=np.float32),
}
Part = tuple[list[str], NDArray[np.int64]]


def sequences(n: int, length: int, seed: int = 0) -> list[str]:
    """Random DNA."""
    letters = np.frombuffer(b"acgt", np.uint8)[np.random.default_rng(seed).integers(0, 4, (n, length))]
    return [bytes(row).decode() for row in letters]


def planted(n: int, seed: int) -> Part:
    """Random DNA, half of it with a motif of which one letter in five is wrong."""
    rng, labels = np.random.default_rng(seed), np.arange(n) % 2
    texts = sequences(n, 60, seed)
    for i in np.flatnonzero(labels):
        motif = "".join(rng.choice(list("acgt")) if rng.random() < 0.2 else x for x in "ccaccagggggc")
        at = rng.integers(0, 48)
        texts[i] = texts[i][:at] + motif + texts[i][at + 12 :]
    return texts, labels


def read_part(path: Path) -> Part:
    """A part of a set, whose labels are 1 and 0 (or -1)."""
    corpus = read_corpus(path)
    return list(corpus.texts), (np.array(corpus.labels).astype(int) > 0).astype(int)


def sets(options: argparse.Namespace) -> Iterator[tuple[str, Part, Part]]:
    """(name, training part, test part) of each set that is there."""
    if options.quick:
        yield "generated", planted(120, 0), planted(80, 1)
    elif options.data:
        for path in sorted(options.data.glob("*.train.fasta")):
            name = path.name.removesuffix(".train.fasta")
            yield name, read_part(path), read_part(path.with_name(f"{name}.test.fasta"))
    else:
        for name in ("CTCF", "EP300"):
            paths = [data_folder() / "panel" / f"sk-{name}-{part}.tsv.xz" for part in ("train", "test")]
            if all(path.exists() for path in paths):
                yield name, read_part(paths[0]), read_part(paths[1])


def areas(name: str, how: str, test: Part, values: Any) -> dict[str, Any]:
    """A row of the table of areas."""
    return {
        "set": name,
        "how": how,
        "AUC": round(float(roc_auc_score(test[1], values)), 4),
        "AUPRC": round(float(average_precision_score(test[1], values)), 4),
    }


def ours(name: str, train: Part, test: Part, options: argparse.Namespace) -> dict[str, Any]:
    """The best of the grid."""
    sizes = SIZES[:2] if options.quick else SIZES
    canonical = set("".join(train[0] + test[0]).lower()) <= set("acgtun")
    kernels: list[Kernel] = [GappedKmers(g, m, canonical=canonical) for g, m in sizes]
    for together in () if options.quick else TOGETHER:
        kernels.append(Sum([GappedKmers(g, m, canonical=canonical) for g, m in together]))
    clock = time.perf_counter()
    model = SVC(device=options.device, compute=Compute(memory="4GiB"))
    grid = {"kernel": kernels, "C": list(COSTS)}
    best = tune(model, *train, grid, metric="roc_auc", cv=5).best_params_
    chosen = time.perf_counter() - clock
    fitted = SVC(device=options.device, **best).fit(*train)
    how = f"{spell(best['kernel'])}, C = {best['C']:g}"
    row = areas(name, how, test, fitted.decision_function(test[0]))
    published = {"FastSK, published AUC": PUBLISHED[name]} if name in PUBLISHED else {}
    return row | published | {"choosing, s": round(chosen, 1)}


def opponent(name: str, how: str, train: Part, test: Part) -> dict[str, Any]:
    """A linear machine of scikit-learn."""
    model = make_pipeline(OPPONENTS[how](), LinearSVC())
    search = GridSearchCV(model, {"linearsvc__C": [0.01, 0.1, 1.0, 10.0]}, scoring="roc_auc", cv=5)
    search.fit(*train)
    return areas(name, f"scikit-learn, {how}", test, search.decision_function(test[0]))


def gram_time(n: int, length: int, weight: str, canonical: bool, device: Device) -> dict[str, Any]:
    """Seconds of a Gram, documents to matrix; of one strand and counts beside FastSK's where it is there."""
    documents = encode(sequences(n, length))
    kernel = GappedKmers(10, 4, canonical, weight)

    def make() -> Any:
        matrix = kernel.rows(documents, device).gram()
        synchronize(device)
        return matrix

    about = {"n": n, "length": length, "weight": weight, "strands": 1 + canonical}
    theirs = fastsk_gram(documents.codes.reshape(n, length)) if device.kind == "cpu" else None
    if theirs is None or weight != "count" or canonical:
        make()
        clock = time.perf_counter()
        make()
        return about | {"Gram, s": round(time.perf_counter() - clock, 3)}
    if n <= 1000 and not np.allclose(theirs(), make(), rtol=1e-6, atol=1e-7):
        raise InputError("the Gram of FastSK is another one")
    times = paired(make, partial(theirs, False), repeats=1)
    return about | {
        "Gram, s": round(times["ours"], 3),
        "FastSK, s": round(times["theirs"], 3),
        "times as fast": round(times["ratio"], 1),
    }


def fastsk_gram(codes: Any) -> Callable[..., Any] | None:
    """Makes the Gram of FastSK's program on as many threads, exact; None where it is not installed."""
    with contextlib.suppress(ImportError):
        from fastsk import FastSK

        texts = (codes.astype(int) + 1).tolist()

        def make(matrix: bool = True) -> Any:
            kernel = FastSK(g=10, m=4, t=2, approx=False)
            kernel.compute_train(texts)
            return np.array(kernel.get_train_kernel()) if matrix else None

        return make
    return None


def rate(n: int, length: int, canonical: bool, device: Device) -> dict[str, Any]:
    """Sequences decided in a second, from texts to values, by a machine of 2,000 random support vectors."""
    support, texts = encode(sequences(2000, 200)), sequences(n, length, 1)
    coef = np.random.default_rng(0).normal(size=(1, 2000))
    predictor = GappedKmers(10, 4, canonical).predictor(support, coef, device)
    predictor.values(encode(texts[:1000], support.alphabet))
    clock = time.perf_counter()
    predictor.values(encode(texts, support.alphabet))
    seconds = time.perf_counter() - clock
    return {
        "n": n,
        "length": length,
        "strands": 1 + canonical,
        "predictions, s": round(seconds, 3),
        "a second": round(n / seconds),
    }


@benchmark(
    "sequences",
    "Sequences, beside FastSK",
    "reports/sequences",
    option("--data", type=Path, help="folder of NAME.train.fasta and NAME.test.fasta"),
    device="auto",
    gpu_output="reports/gpu/sequences",
    quick="use generated sequences",
    note=__doc__ or "",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train and predict on each set, then time Grams and predictions of random sequences."""
    device = select(options.device)
    on_gpu = device.kind == "cuda"
    for name, train, test in sets(options):
        report.row(f"{name}, textsvm", ours, name, train, test, options)
        for how in OPPONENTS:
            report.row(f"{name}, {how}", opponent, name, how, train, test)
    sizes = [(4000, 100), (20_000, 300)] if on_gpu else [(1000, 100), (4000, 100)]
    for n, length in [(60, 40)] if options.quick else sizes:
        for weight in ("count", "log"):
            for canonical in (False, True):
                key = f"Gram, {n:,} x {length}, {weight}, {1 + canonical}"
                report.row(key, gram_time, n, length, weight, canonical, device)
    n = 200 if options.quick else 1_000_000 if on_gpu else 20_000
    for canonical in (False, True):
        report.row(f"predictions, {1 + canonical}", rate, n, 200, canonical, device)
