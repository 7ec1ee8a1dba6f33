"""Edit distances of code points beside StringZilla's kernels for UTF-8 and for bytes, on the same device.

Strings of Cyrillic letters (two bytes each), and for the byte kernels strings of Latin ones. Equality first:
the distances of 300 strings, ours from the logarithms of the Gram. Then both in turns, from strings to the
whole matrix, which StringZilla returns to the host.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import BenchmarkReport, benchmark, paired
from textsvm.kernels import EditDistance
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device, select, to_host
from textsvm.text.documents import encode

#: Gamma times the symbols of a string: exp(-gamma d) stays far from the smallest float32.
LARGEST = 5.0
#: Strings and their symbols; 10,000 of 1,000 symbols would take StringZilla minutes.
SIZES = (10_000, 100), (3000, 1000)
#: Letters for each of StringZilla's kernels.
ALPHABETS = {
    "LevenshteinDistancesUTF8": "".join(map(chr, range(0x430, 0x450))),
    "LevenshteinDistances": "abcdefghijklmnopqrstuvwxyz",
}


def ours(texts: list[str], gamma: float, card: Device) -> Any:
    """The Gram of the edit kernel, on the device."""
    with devices.use(card):
        documents = encode(texts)
        matrix = EditDistance(gamma=gamma).fit(documents).rows(documents, card).gram()
        devices.synchronize(card)
    return matrix


def theirs(texts: list[str], engine: str, card: Device) -> NDArray[np.uint64]:
    """StringZilla's distances of all pairs."""
    import stringzilla
    import stringzillas

    where = {"gpu_device": card.index} if card.kind == "cuda" else {"cpu_cores": os.cpu_count() or 1}
    scope = stringzillas.DeviceScope(**where)
    distances = getattr(stringzillas, engine)(capabilities=scope)
    return np.asarray(distances(stringzilla.Strs(texts), device=scope))


def compared(n: int, length: int, engine: str, card: Device, repeats: int) -> dict[str, Any]:
    """A row of the report."""
    drawn = np.random.default_rng(0).choice(list(ALPHABETS[engine]), (n, length))
    texts = ["".join(row) for row in drawn]
    some, gamma = texts[:300], LARGEST / length
    distances = np.rint(-np.log(to_host(ours(some, gamma, card)).astype(np.float64)) / gamma)
    n_different = int((distances != theirs(some, engine, card)).sum())
    assert not n_different, f"{n_different} distances differ"
    times = paired(lambda: ours(texts, gamma, card), lambda: theirs(texts, engine, card), repeats)
    cells = n * n * length * length / 1e12
    return {
        "n": n, "symbols": length, "StringZilla's kernel": engine, "ours, s": times["ours"],
        "StringZilla, s": times["theirs"], "StringZilla / ours": times["ratio"],
        "ours, T cells/s": cells / 2 / times["ours"], "equal distances": len(some) ** 2,
    }  # fmt: skip


@benchmark(
    "code_points",
    "Edit distances of code points, beside StringZilla",
    "reports/cpu_code_points",
    device="auto",
    gpu_output="reports/gpu/code_points",
    repeats=3,
    quick="a few strings",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Compare both kernels of StringZilla."""
    card = select(options.device)
    for n, length in SIZES:
        n = min(n, 200) if options.quick else n
        for engine in ALPHABETS:
            report.row(f"{n} {length} {engine}", compared, n, length, engine, card, options.repeats)
