"""Kernel values of each string kernel on a GPU, from documents on the GPU.

Values are first compared with the CPU's. ``--encoded NAME=FILE.npz`` takes documents (arrays codes, offsets,
alphabet) instead of the corpora, for a machine that has none.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.corpora import paper_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm.kernels.edit.kernel import EditDistance
from textsvm.kernels.gap.kernel import GapWeighted
from textsvm.kernels.spectrum.cuda import CudaSpectrum
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.runtime import device as gpu
from textsvm.text.documents import DeviceDocuments, Documents, encode

# Letters and the space, by their share in English text, in per mille.
ENGLISH = [
    180,
    102,
    75,
    62,
    62,
    57,
    57,
    53,
    50,
    49,
    35,
    33,
    23,
    22,
    20,
    19,
    19,
    17,
    16,
    12,
    8,
    6,
    2,
    1,
    1,
    1,
    1,
]


def english_like(n: int, length: int) -> Documents:
    """Random documents, symbols as frequent as in English."""
    share = np.array(ENGLISH) / sum(ENGLISH)
    codes = np.random.default_rng(0).choice(len(share), size=n * length, p=share).astype(np.uint8)
    offsets = np.arange(n + 1, dtype=np.int64) * length
    return Documents(codes, offsets, np.arange(97, 97 + len(share), dtype=np.uint32))


def measure_edit(name: str, documents: Documents) -> dict[str, Any]:
    """One row of the report; raises AssertionError if the twins disagree."""
    kernel = EditDistance(0.05)
    cpu, card = (kernel.rows(documents, gpu.select(wish)) for wish in ("cpu", "cuda"))
    n, symbols = len(documents), float(documents.lengths.sum())
    some = np.arange(0, n, max(1, n // 256))[:256]
    gram, expected = card.gram(), cpu.rows(some[::8])
    np.testing.assert_array_equal(card.rows(some)[::8].get(), expected)
    np.testing.assert_array_equal(gram[some[::8]].get(), expected)
    del gram
    full = milliseconds(lambda: card.rows(np.arange(n)), 5)
    return {
        "documents": name,
        "n": n,
        "symbols, mean": symbols / n,
        "full product, ms": full,
        "G pairs/s": n * n / full / 1e6,
        "T cells/s, true lengths": symbols * symbols / full / 1e9,
        "Gram (half), ms": milliseconds(card.gram, 5),
        "256 rows, ms": milliseconds(lambda: card.rows(some), 5),
        "decision of 2,000 documents, ms": milliseconds(
            lambda: card.decision(documents.take(np.arange(min(n, 2000))), np.ones((n, 1))), 5
        ),
    }


SUPPORT_VECTORS, PREDICTED = 2000, 90_000


def once(function: Callable[[], Any]) -> float:
    """Milliseconds of one call: of a Gram that takes long, after a small one that loads all kernels."""
    device = gpu.cupy().cuda.Device()
    device.synchronize()
    clock = time.perf_counter()
    function()
    device.synchronize()
    return 1e3 * (time.perf_counter() - clock)


def measure_gap(name: str, documents: Documents, p: int) -> dict[str, Any]:
    """One row of the report; raises AssertionError if the twins disagree."""
    kernel = GapWeighted(p, 0.5)
    n, symbols = len(documents), float(documents.lengths.sum())
    few = documents.take(np.arange(0, n, max(1, n // 100)))
    agreed = kernel.rows(few, gpu.select("cpu")).gram()
    np.testing.assert_allclose(
        kernel.rows(few, gpu.select("cuda")).gram().get(), agreed, rtol=1e-5, atol=1e-9
    )
    card = kernel.rows(documents, gpu.select("cuda"))
    long = symbols / n > 200
    gram = once(card.gram) if long else milliseconds(card.gram, 3)
    vectors = kernel.rows(documents.take(np.arange(min(n, SUPPORT_VECTORS))), gpu.select("cuda"))
    others = documents.take(np.arange(n if long else PREDICTED) % n)
    coef = np.ones((vectors.n, 1))
    vectors.decision(few, coef)
    decision = once(lambda: vectors.decision(others, coef))
    return {
        "documents": name,
        "p": p,
        "n": n,
        "symbols, mean": symbols / n,
        "Gram (half), ms": gram,
        "M pairs/s": n * n / 2 / gram / 1e3,
        "T cells/s, true lengths": symbols * symbols / 2 / gram / 1e9,
        "predicted documents/s, 2,000 support vectors": len(others) / decision * 1e3,
    }


SPECTRA = {
    "p=4": Spectrum(4),
    "p=1..5": Spectrum((1, 5)),
    "p=4 presence": Spectrum(4, "presence"),
    "p=4 intersection": Spectrum(4, "intersection"),
    "p=4 log idf": Spectrum(4, "log", idf=True),
    "p=12": Spectrum(12),
}


def milliseconds(function: Callable[[], Any], repeats: int = 11) -> float:
    """Median time, the work on the card included."""
    device = gpu.cupy().cuda.Device()
    times = []
    for _ in range(repeats + 2):
        device.synchronize()
        clock = time.perf_counter()
        result = function()
        device.synchronize()
        times.append(time.perf_counter() - clock)
        del result
    return 1e3 * float(np.median(times[2:]))


def measure_spectrum(name: str, kernel: Spectrum, documents: Documents) -> dict[str, Any]:
    """One row of the report; raises AssertionError if the twins disagree."""
    cpu, card = gpu.select("cpu"), gpu.select("cuda")
    kernel.fit(documents)
    clock = time.perf_counter()
    expected = kernel.rows(documents, cpu).gram()
    seconds = time.perf_counter() - clock
    rows = kernel.rows(documents, card)
    assert isinstance(rows, CudaSpectrum)
    gram = rows.gram().get()
    np.testing.assert_allclose(gram, expected, rtol=2e-6)
    equal = float(np.mean(gram == expected))
    del gram, expected
    text = DeviceDocuments(documents)

    def columns() -> Any:
        rows.prepare(text)
        return rows.columns

    def whole() -> Any:
        columns()
        return rows.gram()

    total = milliseconds(whole)
    some = np.arange(0, rows.n, max(1, rows.n // 256))[:256]
    return {
        "documents": name,
        "n": rows.n,
        "symbols, mean": float(documents.lengths.mean()),
        "codes to matrix, ms": total,
        "p-mers and columns, ms": milliseconds(columns),
        "matrix, ms": milliseconds(rows.gram),
        "G pairs/s": rows.n * (rows.n + 1) / 2 / total / 1e6,
        "256 rows, ms": milliseconds(lambda: rows.rows(some)),
        "narrow columns": rows.columns.n_narrow,
        "wide columns": rows.columns.n_wide,
        "CPU twin, s": seconds,
        "same bits": equal,
    }


def given_documents(encoded: list[str]) -> dict[str, Documents]:
    """The documents by name: those given, or Earn vs Rest and Spam."""
    found = {}
    for given in encoded:
        name, _, path = given.partition("=")
        arrays = np.load(path)
        found[name] = Documents(arrays["codes"], arrays["offsets"], arrays["alphabet"])
    if found:
        return found
    for label, length in (("L=100", 100), ("full length", None)):
        for task in paper_tasks(data_folder(), length)[1:]:
            found[f"{task.name}, {label}"] = encode(task.train + task.test)
    return found


ENCODED = option("--encoded", nargs="*", default=[], metavar="NAME=FILE.npz", help="documents of the rows")


@benchmark("edit_gpu", "Edit distances on a GPU", "reports/gpu/edit", ENCODED, device="gpu")
def edit_gpu(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Compute edit-distance blocks and Grams from inputs on the GPU."""
    rows = [measure_edit("English-like, L=100", english_like(10_752, 100))]
    rows += [measure_edit("English-like, L=1024", english_like(4096, 1024))]
    return rows + [measure_edit(name, each) for name, each in given_documents(options.encoded).items()]


@benchmark("gap_gpu", "Gap-weighted subsequences on a GPU", "reports/gpu/gap", ENCODED, device="gpu")
def gap_gpu(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Compute gap-weighted Grams and predictions from inputs on the GPU."""
    english = english_like(10_752, 100)
    rows = [measure_gap("English-like, L=100", english, p) for p in (5, 2, 3, 8, 10)]
    return rows + [measure_gap(name, each, 5) for name, each in given_documents(options.encoded).items()]


@benchmark("spectrum_gpu", "p-spectrum Grams on a GPU", "reports/gpu/spectrum", ENCODED, device="gpu")
def spectrum_gpu(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Compute p-spectrum Grams, from codes on the GPU to the matrix."""
    return [
        measure_spectrum(f"{name}; {label}", kernel, documents)
        for name, documents in given_documents(options.encoded).items()
        for label, kernel in SPECTRA.items()
    ]
