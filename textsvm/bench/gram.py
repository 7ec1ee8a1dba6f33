"""textsvm bench kernels: kernel matrices on the CPU against the public libraries.

Equality first, then interleaved times of one process. The corpora are those of `bench.corpora`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from textsvm.bench.corpora import paper_tasks
from textsvm.bench.harness import data_folder, paired, write_report
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
    name: str,
    kernel: Kernel,
    peer: Callable[[list[str]], Matrix],
    texts: list[str],
    repeats: int,
    rtol: float = 1e-4,
) -> dict[str, Any]:
    """One row of the report; raises AssertionError if the two disagree."""
    try:
        theirs = peer(texts)
    except ImportError as error:
        absent = {"kernel": f"{name}: left out, {error}", "n": len(texts)}
        return dict.fromkeys(HEADER, "") | absent
    mine = ours(kernel, texts)
    # A document too short for any feature is a convention of ours (1 with its equal), not of the peers.
    usable = np.array([len(text) >= kernel.structure.min_length for text in texts])
    grid = np.ix_(usable, usable)
    np.testing.assert_allclose(mine[grid], theirs[grid], rtol=rtol, atol=1e-6)
    del mine, theirs
    times = paired(lambda: ours(kernel, texts), lambda: peer(texts), repeats)
    pairs = len(texts) * (len(texts) + 1) / 2
    return {
        "kernel": name,
        "n": len(texts),
        "symbols, mean": float(np.mean([len(text) for text in texts])),
        "ours, s": times["ours"],
        "peer, s": times["theirs"],
        "peer / ours": times["ratio"],
        "pairs/s a core": pairs / times["ours"] / n_threads(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/cpu_gram.md."""
    parser = argparse.ArgumentParser(prog="textsvm bench kernels", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/cpu_gram"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="on the embedded samples")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for label, length in (("L=100", 100), ("full length", None)):
        task = paper_tasks(None if options.quick else data_folder(), length)[0]
        texts = task.train + task.test
        rows.append(
            compare(
                f"spectrum p=4, {label}; peer CountVectorizer + sparse product",
                Spectrum(p=4),
                lambda texts: count_vectorizer(texts, 4),
                texts,
                options.repeats,
            )
        )
        rows.append(
            compare(
                f"edit gamma=0.05, {label}; peer RapidFuzz cdist",
                EditDistance(gamma=0.05),
                lambda texts: rapidfuzz(texts, 0.05),
                texts,
                options.repeats if length else 1,
            )
        )
        if length:
            rows.append(
                compare(
                    f"gap p=1-5 decay=0.5, {label}; peer strkernels, on the first 800",
                    GapWeighted(p=5, decay=0.5, weights=(1.0,) * 5),
                    lambda texts: strkernels(texts, 5, 0.5),
                    texts[:800],
                    1,
                )
            )
            clock = time.perf_counter()
            ours(GapWeighted(p=5, decay=0.5), texts)
            seconds = time.perf_counter() - clock
            pairs = len(texts) * (len(texts) + 1) / 2
            rows.append(
                {
                    "kernel": f"gap p=5 decay=0.5, {label}",
                    "n": len(texts),
                    "symbols, mean": float(np.mean([len(text) for text in texts])),
                    "ours, s": seconds,
                    "peer, s": "",
                    "peer / ours": "",
                    "pairs/s a core": pairs / seconds / n_threads(),
                }
            )
    command = "textsvm bench kernels" + " --quick" * options.quick
    write_report(options.output, "Kernel matrices on the CPU", command, HEADER, rows)


if __name__ == "__main__":
    main()
