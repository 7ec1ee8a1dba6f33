"""python -m textsvm.bench.spectrum_gpu: p-spectrum Grams on a GPU, from codes on the card to the matrix.

Each matrix is first compared with the CPU twin's. ``--encoded NAME=FILE.npz`` takes documents (arrays
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
from textsvm.bench.corpora import paper_tasks
from textsvm.bench.harness import data_folder, write_report
from textsvm.documents import Documents, encode
from textsvm.documents_cuda import DeviceDocuments
from textsvm.kernels.spectrum import Spectrum
from textsvm.kernels.spectrum_cuda import CudaSpectrum

KERNELS = {
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


def measure(name: str, kernel: Spectrum, documents: Documents) -> dict[str, Any]:
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


def corpora(encoded: list[str]) -> dict[str, Documents]:
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/gpu/spectrum.md."""
    parser = argparse.ArgumentParser(prog="textsvm bench spectrum_gpu", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/gpu/spectrum"))
    parser.add_argument("--encoded", nargs="*", default=[], metavar="NAME=FILE.npz")
    options = parser.parse_args(arguments)
    gpu.select("cuda")  # a sentence, before any work, where there is no such device
    rows = [
        measure(f"{name}; {label}", kernel, documents)
        for name, documents in corpora(options.encoded).items()
        for label, kernel in KERNELS.items()
    ]
    command = "python -m textsvm.bench.spectrum_gpu"
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_report(options.output, "p-spectrum Grams on a GPU", command, tuple(rows[0]), rows)


if __name__ == "__main__":
    main()
