"""Kernel matrices on the CPU, against the public libraries.

The values are compared first; then both are timed in turns in the same process. Texts: the newswire of Shi et
al. 2011.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.corpora import paper_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, paired
from textsvm.arrays import Json
from textsvm.kernels import EditDistance, GapWeighted, Spectrum
from textsvm.kernels.base import Kernel
from textsvm.runtime.device import select
from textsvm.runtime.parallel import n_threads
from textsvm.text.documents import encode

Matrix = NDArray[np.floating]
HEADER = ("kernel", "n", "symbols, mean", "ours, s", "peer, s", "peer / ours", "pairs/s a core")


def ours(kernel: Kernel, texts: list[str]) -> Matrix:
    """From texts to the matrix, as `SVC.fit` does it."""
    documents = encode(texts)
    return kernel.fit(documents).rows(documents, select("cpu")).gram()


def count_vectorizer(texts: list[str], p: int) -> Matrix:
    """The normalised p-spectrum Gram as a scikit-learn user computes it: counts, sparse product, dense."""
    counts = CountVectorizer(analyzer="char", ngram_range=(p, p), lowercase=False).fit_transform(texts)
    counts = counts.astype(np.float32)
    product = (counts @ counts.T).toarray()
    scale = np.sqrt(product.diagonal())
    scale[scale == 0] = 1
    product /= scale[:, None]
    product /= scale
    return product


def rapidfuzz(texts: list[str], gamma: float) -> Matrix:
    """exp(-gamma d) with RapidFuzz's distances, all cores."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    distances = cdist(texts, texts, scorer=Levenshtein.distance, workers=-1, dtype=np.int32)
    return np.exp(np.float32(-gamma) * distances.astype(np.float32))


def strkernels(texts: list[str], p: int, decay: float) -> Matrix:
    """strkernels' subsequence kernel, all cores: the blend of all lengths up to p, with weights 1."""
    from strkernels import SubsequenceStringKernel

    array = np.array(texts)
    return np.asarray(SubsequenceStringKernel(maxlen=p, ssk_lambda=decay)(array, array))


def compare(
    name: str, kernel: Kernel, peer: Callable[[list[str]], Matrix], texts: list[str], repeats: int
) -> Json:
    """Row of the report; raises AssertionError if the two matrices differ."""
    try:
        theirs = peer(texts)
    except ImportError as error:
        absent = {"kernel": f"{name}: left out, {error}", "n": len(texts)}
        return dict.fromkeys(HEADER, "") | absent
    mine = ours(kernel, texts)
    # Only textsvm defines the kernel of documents without any feature (1 with an equal document).
    usable = np.array([len(text) >= kernel.structure.min_length for text in texts])
    grid = np.ix_(usable, usable)
    np.testing.assert_allclose(mine[grid], theirs[grid], rtol=1e-4, atol=1e-6)
    del mine, theirs
    times = paired(lambda: ours(kernel, texts), lambda: peer(texts), repeats)
    return row_of(name, texts, times["ours"]) | {"peer, s": times["theirs"], "peer / ours": times["ratio"]}


def row_of(name: str, texts: list[str], seconds: float) -> Json:
    """Row of the report, without a peer."""
    pairs = len(texts) * (len(texts) + 1) / 2
    return dict.fromkeys(HEADER, "") | {
        "kernel": name,
        "n": len(texts),
        "symbols, mean": float(np.mean([len(text) for text in texts])),
        "ours, s": seconds,
        "pairs/s a core": pairs / seconds / n_threads(),
    }


@benchmark(
    "kernels", "Kernel matrices on the CPU", "reports/cpu_gram", repeats=3, quick="use the bundled samples"
)
def run(options: argparse.Namespace, report: BenchmarkReport) -> list[Json]:
    """Compute kernel matrices with textsvm and with other libraries."""
    rows: list[Json] = []
    for label, length in (("L=100", 100), ("full length", None)):
        task = paper_tasks(None if options.quick else data_folder(), length)[0]
        texts = task.train + task.test
        name = f"spectrum p=4, {label}; peer CountVectorizer + sparse product"
        rows.append(compare(name, Spectrum(p=4), partial(count_vectorizer, p=4), texts, options.repeats))
        name, repeats = f"edit gamma=0.05, {label}; peer RapidFuzz cdist", options.repeats if length else 1
        rows.append(compare(name, EditDistance(gamma=0.05), partial(rapidfuzz, gamma=0.05), texts, repeats))
        if length:
            name = f"gap p=1-5 decay=0.5, {label}; peer strkernels, on the first 800"
            blend = GapWeighted(p=5, decay=0.5, weights=(1.0,) * 5)
            rows.append(compare(name, blend, partial(strkernels, p=5, decay=0.5), texts[:800], 1))
            clock = time.perf_counter()
            ours(GapWeighted(p=5, decay=0.5), texts)
            rows.append(row_of(f"gap p=5 decay=0.5, {label}", texts, time.perf_counter() - clock))
    return rows
