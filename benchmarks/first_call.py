"""The first call on a GPU, with and without machine code compiled in advance (wheels/kernels_cuda13).

Each call is made in a process of its own, which says the seconds of its first and its second call, without
the import of libraries and the creation of the CUDA context. All must give the same bits. "Nothing compiled"
is an empty cache of CuPy, without the package of machine code. The next process finds what the first
compiled, as after `textsvm devices --compile`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.corpora import vectors
from textsvm import SVC, Compute
from textsvm.bench.corpora import paper_tasks
from textsvm.bench.harness import BenchmarkReport, benchmark, data_folder
from textsvm.errors import InputError
from textsvm.kernels import EditDistance, Gaussian
from textsvm.runtime.device import SHIPPED, cupy, select, to_host
from textsvm.text.documents import encode

KERNELS: dict[str, tuple[str, str]] = {
    "SVC()": ("auto", "auto"),
    "spectrum, from the kernel matrix": ("spectrum", "gram"),
    "spectrum, from features": ("spectrum", "features"),
    "edit": ("edit", "auto"),
    "gap": ("gap", "auto"),
    "gapped": ("gapped", "auto"),
}
#: Processes that compile at the same time, each on a core.
PROCESSES = 4


def on_texts(kernel: str, solver: str) -> Callable[[], Any]:
    """Training on Earn vs Acq and predictions of its test part."""
    task = paper_tasks(data_folder(), 100)[0]
    model = SVC(kernel, device="cuda", compute=Compute(solver=solver))
    return lambda: model.fit(task.train, task.y_train).decision_function(task.test)


def on_vectors(name: str) -> Callable[[], Any]:
    """Training of a Gaussian machine on vectors."""
    x, y, _, _ = vectors(data_folder(), name)
    return lambda: SVC(Gaussian(gamma=0.05), device="cuda").fit(x, y).decision_function(x[:1000])


def edit_gram() -> Callable[[], Any]:
    """The Gram of 100,000 strings of 100 symbols."""
    rows = np.random.default_rng(0).choice(list("acgt"), (100_000, 100))
    documents = encode(["".join(row) for row in rows])
    return lambda: EditDistance().rows(documents, select("cuda")).gram()[::1000, ::1000]


CALLS: dict[str, Callable[[], Callable[[], Any]]] = {
    "Gaussian, dense vectors (ijcnn1)": lambda: on_vectors("ijcnn1"),
    "Gaussian, sparse vectors (a9a)": lambda: on_vectors("a9a"),
    "edit Gram, n = 100,000": edit_gram,
    **{name: partial(on_texts, *options) for name, options in KERNELS.items()},
}


def measure(name: str) -> None:
    """Print the seconds of the first and the second call, and a digest of the result."""
    call = CALLS[name]()
    cupy().zeros(1)
    seconds, digests = [], set()
    for _ in range(2):
        clock = time.perf_counter()
        result = np.asarray(to_host(call()))
        seconds.append(time.perf_counter() - clock)
        digests.add(sha256(result.tobytes()).hexdigest())
    assert len(digests) == 1, "the calls differ"
    print(*seconds, *digests)


def in_process(name: str, cache: str, shipped: bool, numba: str = "") -> list[str]:
    """Seconds of both calls in a process of its own, and the digest; `shipped`: with the package."""
    code = f"from benchmarks.first_call import measure; measure({name!r})"
    if not shipped:
        code = f"import sys; sys.modules[{SHIPPED!r}] = None; {code}"
    environment = os.environ | {"CUPY_CACHE_DIR": cache, "CUDA_CACHE_PATH": cache}
    if numba:
        environment["NUMBA_CACHE_DIR"] = numba
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout.split()


def compiling(name: str, cache: str) -> list[list[str]]:
    """The call with nothing compiled, and with the package but without Numba's cache; results in `cache`."""
    runs = [in_process(name, cache, shipped=False)]
    with TemporaryDirectory() as empty, TemporaryDirectory() as numba:
        runs.append(in_process(name, empty, shipped=True, numba=numba))
    return runs


def row_of(name: str, cache: str, compiled: list[list[str]]) -> dict[str, Any]:
    """Seconds of the runs that compiled, of one with the package, and of one with CuPy's cache."""
    with TemporaryDirectory() as empty:
        runs = [*compiled, in_process(name, empty, shipped=True), in_process(name, cache, shipped=False)]
        files = len(list(Path(empty).iterdir()))
    assert len({digest for _, _, digest in runs}) == 1, "the results differ"
    first, numba, shipped, after = (float(seconds) for seconds, _, _ in runs)
    return {
        "call": name, "first, nothing compiled, s": first, "first, with the package, s": shipped,
        "and without Numba's cache, s": numba, "first, next process, s": after,
        "second, s": min(float(second) for _, second, _ in runs), "modules compiled with the package": files,
    }  # fmt: skip


@benchmark("first_call", "The first call on a GPU", "reports/gpu/first_call")
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Compile in several processes, then measure every call alone."""
    spec = find_spec(SHIPPED)
    if spec is None or spec.origin is None:
        raise InputError(f"the package {SHIPPED} is not installed; .ci/kernels builds it")
    sizes = [path.stat().st_size / 2**20 for path in Path(spec.origin).parent.glob("*.zip")]
    report.note = f"The package has {len(sizes)} archives of {sum(sizes):.1f} MiB."
    with TemporaryDirectory() as folder, ThreadPoolExecutor(PROCESSES) as pool:
        caches = [str(Path(folder, str(k))) for k in range(len(CALLS))]
        in_process(next(iter(CALLS)), str(Path(folder, "unused")), shipped=True)  # compiles for the CPU
        for name, cache, runs in zip(CALLS, caches, list(pool.map(compiling, CALLS, caches)), strict=True):
            report.row(name, row_of, name, cache, runs)
