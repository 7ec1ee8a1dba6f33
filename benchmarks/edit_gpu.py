"""python -m textsvm.bench.edit_gpu: edit-distance blocks and Grams on a GPU, inputs on the card.

A block of each is first compared with the CPU twin's. ``--encoded NAME=FILE.npz`` takes documents (arrays
codes, offsets, alphabet) in place of the corpora of `bench.corpora`, for a machine that has none.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from textsvm import device as gpu
from textsvm.bench.harness import write_report
from textsvm.bench.spectrum_gpu import corpora, milliseconds
from textsvm.documents import Documents
from textsvm.kernels.edit import EditDistance

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


def measure(name: str, documents: Documents) -> dict[str, Any]:
    """One row of the report; raises AssertionError if the twins disagree."""
    kernel = EditDistance(0.05)
    cpu, card = (kernel.rows(documents, gpu.select(wish)) for wish in ("cpu", "cuda"))
    n, symbols = len(documents), float(documents.lengths.sum())
    some = np.arange(0, n, max(1, n // 256))[:256]
    gram = card.gram()
    np.testing.assert_array_equal(card.rows(some).get(), cpu.rows(some))
    np.testing.assert_array_equal(gram[some].get(), cpu.rows(some))
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/gpu/edit.json and edit.md."""
    parser = argparse.ArgumentParser(prog="textsvm bench edit_gpu", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/gpu/edit"))
    parser.add_argument("--encoded", nargs="*", default=[], metavar="NAME=FILE.npz")
    options = parser.parse_args(arguments)
    gpu.select("cuda")  # a sentence, before any work, where there is no such device
    rows = [measure("English-like, L=100", english_like(10_752, 100))]
    rows += [measure("English-like, L=1024", english_like(4096, 1024))]
    rows += [measure(name, documents) for name, documents in corpora(options.encoded).items()]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_report(
        options.output, "Edit distances on a GPU", "python -m textsvm.bench.edit_gpu", tuple(rows[0]), rows
    )


if __name__ == "__main__":
    main()
