"""Gaussian kernel values of sparse vectors on a GPU, by the method of multiplication.

Ways: what the rule chooses (`linalg.sparse_vectors_cuda`); columns; clusters of similar sparsity (Cotter,
Srebro and Keshet 2011); cuBLAS on dense vectors in float32 and float64, with exp behind it. Sets: a9a, w8a,
ijcnn1 and sector, training parts, and TF-IDF of all words of Reuters. Each way's values of 1,500 vectors are
within 1e-6 of float64 first. Clustering is that of the paper, on one core of the host.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.clusters import CudaClusters, cluster
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.memory import free_all
from textsvm.kernels.vectors.kernels import Gaussian
from textsvm.linalg.sparse_cuda import Finish
from textsvm.linalg.sparse_vectors_cuda import SparseColumns, sparse_columns, upload
from textsvm.linalg.vectors_cuda import on_card
from textsvm.readers.read import read_corpus
from textsvm.runtime import device as gpu

REUTERS = "Reuters TF-IDF"
#: Files, and gamma.
SETS = {"a9a": 0.05, "w8a": 0.05, "ijcnn1": 2.0, "sector.scale": 1.0, REUTERS: 1.0}
ROWS = (256, 1024)
CHECKED = 1500
#: Numbers that cuBLAS is given at most, and bytes of values that it makes at a time.
MOST, TILE = 1 << 31, 1 << 30
#: What the paper says of its own: non-zeros a vector, and seconds.
PAPER = {"a9a": "13.9 -> 48.6 in 0.13 s (Adult)"}


class ClusterColumns(SparseColumns):
    """Sparse vectors in clusters, with the verbs of `SparseColumns`."""

    def __init__(self, values: Any, finish: Finish) -> None:
        super().__init__(upload(values), finish, "clusters of vectors")
        begin = time.perf_counter()
        self.clusters = cluster(values.indptr, values.indices, values.shape[1])
        self.seconds = time.perf_counter() - begin
        self._clusters: dict[bool, CudaClusters] = {}

    def _columns(self, whole: bool) -> CudaClusters:
        if whole not in self._clusters:
            x = replace(self._x, whole=whole)
            self._clusters[whole] = CudaClusters(x, self._factors, self.clusters, self.finish)
        return self._clusters[whole]


def vectors_of(name: str) -> Any:
    """A set, CSR."""
    folder = data_folder()
    if name == REUTERS:
        x = csr_matrix(TfidfVectorizer().fit_transform(read_corpus(folder / "reuters21578").texts))
    else:
        x = csr_matrix(load_svmlight_file(str(folder / "libsvm" / f"{name}.bz2"))[0])
    x.sort_indices()
    return x


def ways(x: Any, finish: Finish) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is compared, by name."""
    yield "the rule", partial(sparse_columns, x, finish)
    yield "columns", lambda: SparseColumns(upload(x), finish)
    yield "clusters", partial(ClusterColumns, x, finish)


def agree(x: Any, finish: Finish) -> None:
    """Raise if a way is off by more than 1e-6, whole, in rows, or for others."""
    some = x[np.random.default_rng(0).permutation(x.shape[0])[:CHECKED]]
    squares = np.asarray(some.multiply(some).sum(axis=1), np.float64).ravel()
    products = (some @ some.T).toarray().astype(np.float64)
    expected = finish.value(products, squares[:, None], squares)
    which = np.arange(0, len(squares), 7)
    for name, make in ways(some, finish):
        columns = make()
        on_card = gpu.cupy().asarray(which)
        found = columns.half(name), columns.rows(on_card, name), columns.cross(some[which], name)
        for values, wanted in zip(found, (expected, expected[which], expected[which]), strict=True):
            np.testing.assert_allclose(values.get(), wanted, rtol=0, atol=1e-6, err_msg=name)


def seconds(function: Callable[[], Any], turns: int = 3) -> float:
    """The fewest of some turns, by the host's clock."""
    synchronize, found = gpu.cupy().cuda.Device().synchronize, []
    for _ in range(turns):
        synchronize()
        begin = time.perf_counter()
        kept = function()
        synchronize()
        found.append(time.perf_counter() - begin)
        del kept
    return min(found)


def way_row(name: str, way: str, x: Any, make: Callable[[], Any]) -> dict[str, Any]:
    """One way on one set."""
    cp, n = gpu.cupy(), x.shape[0]
    begin = time.perf_counter()
    columns = make()
    columns.rows(cp.arange(2), way)
    cp.cuda.Device().synchronize()
    built = time.perf_counter() - begin
    whole = seconds(lambda: columns.half(way))
    draw = np.random.default_rng(1)
    some = {m: cp.asarray(draw.integers(0, n, m)) for m in ROWS}
    row = {"set": name, "n": n, "d": x.shape[1], "way": way, "how": columns.description}
    row |= {"Gram, ms": 1e3 * whole, "10^9 values/s": n * n / whole / 1e9}
    row |= {f"{m} rows, ms": 1e3 * seconds(partial(columns.rows, some[m], way)) for m in ROWS}
    row["first, ms"] = 1e3 * built
    if isinstance(columns, ClusterColumns):
        active = columns.clusters.active
        row["clustering"] = f"{x.nnz / n:.1f} -> {active:.1f} in {columns.seconds:.3f} s"
        row["the paper's"] = PAPER.get(name, "")
    return row


def peer_row(name: str, x: Any, kind: Any, gamma: float) -> dict[str, Any]:
    """CuPy's own product of dense vectors, with exp behind it."""
    cp, (n, d) = gpu.cupy(), x.shape
    dense = on_card(x).astype(kind, copy=False)
    step = max(1, TILE // (dense.itemsize * n))

    def gram() -> None:
        for first in range(0, n, step):
            part = dense[first : first + step] @ dense.T
            cp.exp(-gamma * part, out=part)

    gram()
    taken = seconds(gram)
    row = {"set": name, "n": n, "d": d, "way": f"cuBLAS {np.dtype(kind)}"}
    return {**row, "Gram, ms": 1e3 * taken, "10^9 values/s": n * n / taken / 1e9}


@benchmark(
    "sparse_vectors",
    "Sparse vectors on a GPU, by method of multiplication",
    "reports/gpu/sparse_vectors",
    option("--sets", nargs="+", choices=SETS, default=list(SETS), recorded=False),
    device="gpu",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Check each method against float64, then time it."""
    with gpu.use(gpu.select("cuda")):
        for name in options.sets:
            gamma, x = SETS[name], vectors_of(name)
            finish = Finish("gaussian", (gamma,), Gaussian(gamma).function.value)
            agree(x, finish)
            for way, make in ways(x, finish):
                report.row(f"{name} {way}", way_row, name, way, x, make)
                free_all()
            for kind in (np.float32, np.float64) if x.shape[0] * x.shape[1] <= MOST else ():
                report.row(f"{name} {np.dtype(kind)}", peer_row, name, x, kind, gamma)
