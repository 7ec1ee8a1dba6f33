"""python -m textsvm.bench.gap_gpu: gap-weighted blocks, Grams and predictions on a GPU, inputs on the card.

A block of each is first compared with the CPU twin's. ``--encoded NAME=FILE.npz`` takes documents (arrays
codes, offsets, alphabet) in place of the corpora of `bench.corpora`, for a machine that has none.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from textsvm import device as gpu
from textsvm.bench.edit_gpu import english_like
from textsvm.bench.harness import write_report
from textsvm.bench.spectrum_gpu import corpora, milliseconds
from textsvm.documents import Documents
from textsvm.kernels.gap import GapWeighted

SUPPORT_VECTORS, PREDICTED = 2000, 90_000


def once(function: Callable[[], Any]) -> float:
    """Milliseconds of one call: of a Gram that takes long, after a small one that loads all kernels."""
    device = gpu.cupy().cuda.Device()
    device.synchronize()
    clock = time.perf_counter()
    function()
    device.synchronize()
    return 1e3 * (time.perf_counter() - clock)


def measure(name: str, documents: Documents, p: int) -> dict[str, Any]:
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/gpu/gap.json and gap.md."""
    parser = argparse.ArgumentParser(prog="textsvm bench gap_gpu", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/gpu/gap"))
    parser.add_argument("--encoded", nargs="*", default=[], metavar="NAME=FILE.npz")
    options = parser.parse_args(arguments)
    gpu.select("cuda")  # a sentence, before any work, where there is no such device
    english = english_like(10_752, 100)
    rows = [measure("English-like, L=100", english, p) for p in (5, 2, 3, 8, 10)]
    rows += [measure(name, documents, 5) for name, documents in corpora(options.encoded).items()]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_report(
        options.output,
        "Gap-weighted subsequences on a GPU",
        "python -m textsvm.bench.gap_gpu",
        tuple(rows[0]),
        rows,
    )


if __name__ == "__main__":
    main()
