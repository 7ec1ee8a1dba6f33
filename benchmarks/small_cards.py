"""Largest sizes on a GPU with little memory, by kernel: time, peak memory, and whether bits are the same.

The rest of the card's memory is allocated outside of CuPy's pool. Texts are pieces of a text of words of
random letters with Zipf's frequencies, of which each of two classes uses a sixth more often; 2 % of the
labels are wrong. Each size is computed with the whole card first; "bits" says whether dual coefficients,
decision values are equal to those, and "times" is the ratio of the seconds. Every case runs
once on its first size before, so that nothing compiles in a row. "refused" is the message of a size that is
too large for the memory.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.harness import BenchmarkReport, benchmark, option
from benchmarks.memory import free_all, peak_memory
from textsvm import (
    SVC,
    BoundedGap,
    Compute,
    EditDistance,
    GapWeighted,
    Gaussian,
    Spectrum,
    cross_validate,
)
from textsvm.errors import InputError
from textsvm.kernels import GappedKmers
from textsvm.runtime import device as devices

GIB = 1 << 30
LOG = Spectrum((1, 5), "log", idf=True)
#: Number of different words, and of letters of the longest.
WORDS, LONGEST = 60_000, 12
#: Symbols of the text of each class, and pieces of it that make a text.
STREAM, PIECES = 1 << 23, 8
#: Letters, and their shares.
LETTERS = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
SHARES = 1 / np.arange(1.5, 27.5) ** 0.9
#: Sizes of each case: examples, and symbols or numbers of each.
SIZES: dict[str, list[tuple[int, int]]] = {
    "spectrum": [
        (25_000, 1300), (50_000, 800), (100_000, 800), (200_000, 300), (500_000, 800), (1_000_000, 800)
    ],
    "default": [(5_000, 800), (50_000, 800), (100_000, 800)],
    "bounded gap": [(5_000, 300), (50_000, 300), (200_000, 300)],
    "prediction": [(10_000, 300), (200_000, 300), (1_000_000, 300)],
    "spectrum gram": [(10_000, 300), (40_000, 300), (100_000, 300)],
    "edit": [(10_000, 100), (40_000, 100), (100_000, 100)],
    "gap": [(5_000, 100), (20_000, 100), (50_000, 100)],
    "gapped": [(5_000, 300), (20_000, 300), (50_000, 300)],
    "vectors": [(20_000, 300), (60_000, 300), (200_000, 300)],
    "sparse vectors": [(20_000, 5000), (60_000, 5000)],
    "cross-validation": [(10_000, 300), (40_000, 300)],
}  # fmt: skip


@lru_cache(maxsize=2)
def draw(n: int, length: int, seed: int) -> tuple[list[str], np.ndarray]:
    """n texts of this length, and their classes."""
    rng = np.random.default_rng(7)
    ends = np.cumsum(rng.integers(1, LONGEST, WORDS) + 1)
    letters = rng.choice(LETTERS, ends[-1], p=SHARES / SHARES.sum())
    letters[ends - 1] = " "
    stream, starts = letters.astype("S1").view(np.uint8), np.concatenate([[0], ends])
    frequency = 1 / np.arange(2.0, WORDS + 2) ** 1.05
    rng = np.random.default_rng(seed)
    classes, streams = rng.integers(0, 2, n), []
    for c in range(2):
        tilted = frequency * np.where(np.arange(WORDS) % 6 == c, 1.3, 1.0)
        words = np.searchsorted(
            np.cumsum(tilted / tilted.sum()), rng.random(min(n * length, STREAM) // 6 + 1000)
        )
        words = words.clip(max=WORDS - 1)
        sizes, begins = np.diff(starts)[words], starts[words]
        at = np.repeat(begins - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        streams.append(stream[at].tobytes().decode("ascii"))
    piece = -(-length // PIECES)
    places = rng.integers(0, min(map(len, streams)) - piece, (n, PIECES)).tolist()
    texts = [
        "".join([streams[c][i : i + piece] for i in own])[:length]
        for c, own in zip(classes.tolist(), places, strict=True)
    ]
    return texts, np.where(rng.random(n) < 0.02, 1 - classes, classes)


def digest(*arrays: Any) -> str:
    """Digest of the bits of arrays."""
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:12]


@contextmanager
def left_free(gib: float) -> Iterator[None]:
    """Allocate the memory of the card but for `gib` GiB; 0 leaves all."""
    free_all()
    runtime, hogs = devices.cupy().cuda.runtime, []
    if gib and (size := int(runtime.memGetInfo()[0] - gib * GIB)) > 0:
        hogs.append(runtime.malloc(size))
    try:
        yield
    finally:
        for hog in hogs:
            runtime.free(hog)


def fitted(kernel: Any, X: Any, y: Any, tests: Any, **compute: Any) -> dict[str, Any]:
    """Train and predict."""
    model = SVC(kernel, C=1.0, device="cuda", compute=Compute(**compute))
    clock = time.perf_counter()
    model.fit(X, y)
    trained = time.perf_counter()
    values = model.decision_function(tests)
    done = time.perf_counter()
    stages = {f"{stage}, s": round(seconds, 2) for stage, seconds in model.seconds_.items()}
    digests = {"digest": digest(model.dual_coef_, values)}
    return stages | {
        "fit, s": trained - clock, "predict, s": done - trained, "support": len(model.support_), **digests,
        "rows": model.gram_description_,
    }  # fmt: skip


def texts_case(kernel: Any, **compute: Any) -> Callable[[int, int], dict[str, Any]]:
    """Training on texts, and prediction of a tenth."""

    def run(n: int, length: int) -> dict[str, Any]:
        (X, y), (tests, _) = draw(n, length, 0), draw(max(100, min(n // 10, 20_000)), length, 1)
        return fitted(kernel, X, y, tests, **compute)

    return run


def predicted(n: int, length: int) -> dict[str, Any]:
    """Prediction of n texts by a machine of 20,000."""
    X, y = draw(min(n, 20_000), length, 0)
    return fitted(LOG, X, y, draw(n, length, 1)[0], solver="features")


def vectors_case(sparse: bool) -> Callable[[int, int], dict[str, Any]]:
    """Training on random vectors, one number in fifty if sparse."""

    def run(n: int, d: int) -> dict[str, Any]:
        rng = np.random.default_rng(0)
        y = np.arange(n) % 2
        if sparse:
            columns = rng.integers(0, d // 2, (n, d // 50)) + (d // 8) * y[:, None]
            values = rng.random(columns.size)
            X: Any = csr_matrix((values, columns.ravel(), np.arange(n + 1) * (d // 50)), shape=(n, d))
        else:
            X = rng.normal(size=(n, d)) + 0.1 * y[:, None]
        return fitted(Gaussian(1 / d), X, y, X[: max(100, n // 10)])

    return run


def cross_validated(n: int, length: int) -> dict[str, Any]:
    """Three folds."""
    X, y = draw(n, length, 0)
    clock = time.perf_counter()
    found = cross_validate(SVC(LOG, device="cuda"), X, y, cv=3)
    return {"fit, s": time.perf_counter() - clock, "digest": digest(np.asarray(found.decision))}


CASES: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "spectrum": texts_case(LOG, solver="features"),
    "default": texts_case("auto"),
    "bounded gap": texts_case(BoundedGap(), solver="features"),
    "prediction": predicted,
    "spectrum gram": texts_case(LOG, solver="gram"),
    "edit": texts_case(EditDistance(0.05)),
    "gap": texts_case(GapWeighted(5)),
    "gapped": texts_case(GappedKmers(6, 2)),
    "vectors": vectors_case(sparse=False),
    "sparse vectors": vectors_case(sparse=True),
    "cross-validation": cross_validated,
}


def row(case: str, n: int, length: int, gib: float, whole: dict[str, Any] | None) -> dict[str, Any]:
    """A size of a case with so many GiB left; a size that is refused is a row too."""
    with left_free(gib):
        try:
            measured = CASES[case](n, length)
        except (InputError, MemoryError) as error:
            measured = {"refused": str(error)}
        measured["peak, GiB"] = round(peak_memory() / GIB, 2)
    if whole and "digest" in whole and "digest" in measured:
        measured["bits"] = "same" if whole["digest"] == measured["digest"] else "other"
        measured["times"] = round(measured["fit, s"] / whole["fit, s"], 2)
    return {"case": case, "examples": n, "symbols": length, "GiB free": gib or "all", **measured}


@benchmark(
    "small_cards",
    "On a GPU with little memory",
    "reports/gpu/small_cards",
    option("--free", type=float, nargs="*", default=[24, 8], recorded=False, help="GiB left free"),
    option("--cases", nargs="*", default=list(CASES), choices=list(CASES), recorded=False, help="cases"),
    option("--most", type=int, default=1_000_000, recorded=False, help="examples of the largest size"),
    option("--least", type=int, default=0, recorded=False, help="examples of the smallest size"),
    option("--seconds", type=float, default=600.0, recorded=False, help="start no row later than this"),
    device="gpu",
    quick="only tiny sizes",
    note=__doc__ or "",
)  # fmt: skip
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train, predict and search with 8 GiB, 24 GiB and all of the card."""
    start = time.perf_counter()
    for case in options.cases:
        sizes = [(300, 100)] if options.quick else SIZES[case]
        sizes = [(n, length) for n, length in sizes if options.least <= n <= options.most]
        if not options.least:
            CASES[case](*sizes[0])
        for n, length in sizes:
            whole: dict[str, Any] | None = None
            for gib in (0, *options.free):
                if time.perf_counter() - start > options.seconds:
                    continue
                key = f"{case}, {n:,} x {length}, {gib:g}"
                measured = report.row(key, row, case, n, length, gib, whole)
                whole = whole or measured
                shown = ("features, s", "solve, s", "fit, s", "peak, GiB", "times", "bits", "rows", "refused")
                print(key, {name: measured[name] for name in shown if name in measured}, flush=True)
