"""The first call on a GPU: with an empty cache of CuPy, and after `textsvm devices --compile`.

Each call is made in a process of its own, which says the seconds of its first and its second call, without
the import of libraries and the creation of the CUDA context. Both must give the same result.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.corpora import vectors
from textsvm import SVC
from textsvm.bench.corpora import paper_tasks
from textsvm.bench.harness import BenchmarkReport, benchmark, data_folder
from textsvm.kernels import EditDistance, Gaussian, Kernel
from textsvm.runtime.device import cupy, select, synchronize
from textsvm.text.documents import encode

TEXTS = {"SVC()": "auto", "spectrum": "spectrum", "edit": "edit", "gap": "gap"}


def on_texts(kernel: Kernel | str) -> Callable[[], Any]:
    """Training on Earn vs Acq and predictions of its test part."""
    task = paper_tasks(data_folder(), 100)[0]
    return lambda: SVC(kernel, device="cuda").fit(task.train, task.y_train).predict(task.test)


def on_vectors(name: str) -> Callable[[], Any]:
    """Training of a Gaussian machine on vectors."""
    x, y, _, _ = vectors(data_folder(), name)
    return lambda: SVC(Gaussian(gamma=0.05), device="cuda").fit(x, y).predict(x[:1000])


def edit_gram() -> Callable[[], Any]:
    """The Gram of 100,000 strings of 100 symbols."""
    rows = np.random.default_rng(0).choice(list("acgt"), (100_000, 100))
    documents = encode(["".join(row) for row in rows])
    return lambda: EditDistance().rows(documents, select("cuda")).gram()[::1000, ::1000]


CALLS: dict[str, Callable[[], Callable[[], Any]]] = {
    "Gaussian, dense vectors (ijcnn1)": lambda: on_vectors("ijcnn1"),
    "Gaussian, sparse vectors (a9a)": lambda: on_vectors("a9a"),
    "edit Gram, n = 100,000": edit_gram,
    **{name: partial(on_texts, kernel) for name, kernel in TEXTS.items()},
}


def measure(name: str) -> None:
    """Print the seconds of the first and the second call."""
    call = CALLS[name]()
    cupy().zeros(1)
    seconds, results = [], []
    for _ in range(2):
        clock = time.perf_counter()
        results.append(call())
        synchronize(select("cuda"))
        seconds.append(time.perf_counter() - clock)
    assert bool((results[0] == results[1]).all()), "the calls differ"
    print(*seconds)


def in_process(name: str, cache: str) -> list[float]:
    """Seconds of a call in a process of its own."""
    code = f"from benchmarks.first_call import measure; measure({name!r})"
    return [float(word) for word in _run(cache, "-c", code).split()]


def _run(cache: str, *arguments: str) -> str:
    environment = os.environ | {"CUPY_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def row_of(name: str, compiled: str) -> dict[str, Any]:
    """Seconds with an empty cache, and with a full one."""
    with TemporaryDirectory() as empty:
        first, second = in_process(name, empty)
    after, again = in_process(name, compiled)
    return {
        "call": name, "first, empty cache, s": first, "first, after --compile, s": after,
        "second, s": min(second, again),
    }  # fmt: skip


@benchmark("first_call", "The first call on a GPU", "reports/gpu/first_call")
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Fill a cache, then measure every call with it and with an empty one."""
    with TemporaryDirectory() as compiled:
        clock = time.perf_counter()
        _run(compiled, "-m", "textsvm", "devices", "--compile")
        seconds = time.perf_counter() - clock
        sizes = [file.stat().st_size for file in Path(compiled).iterdir()]
        report.note = (
            f"`textsvm devices --compile` took {seconds:.0f} s and left {len(sizes)} files of "
            f"{sum(sizes) / 2**20:.0f} MiB."
        )
        for name in CALLS:
            report.row(name, row_of, name, compiled)
