"""The first call on a GPU, with and without machine code compiled in advance (wheels/kernels_cuda13).

Each call is made in a process of its own, which says the seconds of its first and its second call, without
the import of libraries and the creation of the CUDA context. All must give the same bits. "Nothing compiled"
is an empty cache of CuPy, without the package of machine code. The runs with the package also begin with an
empty cache of CuPy, one of them with an empty cache of Numba, too. Runs that compile share the machine.
"""

from __future__ import annotations

import argparse
import os
import pickle
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

from benchmarks.corpora import TrainTest, paper_tasks, vectors
from benchmarks.harness import BenchmarkReport, benchmark, data_folder
from textsvm import SVC, Compute
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
PROCESSES = 9


def on_texts(kernel: str, solver: str, task: TrainTest) -> Callable[[], Any]:
    """Training on Earn vs Acq and predictions of its test part."""
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


#: A call for a task of texts.
CALLS: dict[str, Callable[[TrainTest], Callable[[], Any]]] = {
    "Gaussian, dense vectors (ijcnn1)": lambda task: on_vectors("ijcnn1"),
    "Gaussian, sparse vectors (a9a)": lambda task: on_vectors("a9a"),
    "edit Gram, n = 100,000": lambda task: edit_gram(),
    **{name: partial(on_texts, *options) for name, options in KERNELS.items()},
}


def measure(name: str) -> None:
    """Print the seconds of the first and the second call, and a digest of the result; stdin has the task."""
    call = CALLS[name](pickle.load(sys.stdin.buffer))
    cupy().zeros(1)
    seconds, digests = [], set()
    for _ in range(2):
        clock = time.perf_counter()
        result = np.asarray(to_host(call()))
        seconds.append(time.perf_counter() - clock)
        digests.add(sha256(result.tobytes()).hexdigest())
    assert len(digests) == 1, "the calls differ"
    print(*seconds, *digests)


def in_process(name: str, task: bytes, shipped: bool, numba: str = "") -> tuple[float, float, str, int]:
    """Seconds of both calls in a process of its own, the digest, and how many modules were compiled.

    `shipped`: with the package. `numba`: folder of Numba's cache.
    """
    code = f"from benchmarks.first_call import measure; measure({name!r})"
    if not shipped:
        code = f"import sys; sys.modules[{SHIPPED!r}] = None; {code}"
    with TemporaryDirectory() as cache:
        environment = os.environ | {"CUPY_CACHE_DIR": cache, "CUDA_CACHE_PATH": cache}
        if numba:
            environment["NUMBA_CACHE_DIR"] = numba
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, input=task)
        compiled = len([*Path(cache).glob("*.cubin")])
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:].decode())
    first, second, digest = done.stdout.decode().split()
    return float(first), float(second), digest, compiled


def compiling(name: str, task: bytes) -> list[tuple[float, float, str, int]]:
    """The call with nothing compiled, and with the package but an empty cache of Numba."""
    with TemporaryDirectory() as numba:
        return [in_process(name, task, False), in_process(name, task, True, numba)]


def row_of(name: str, task: bytes, others: list[tuple[float, float, str, int]]) -> dict[str, Any]:
    """Seconds of the runs that compiled, and of one with the package, alone on the machine."""
    runs = [*others, in_process(name, task, True)]
    assert len({digest for _, _, digest, _ in runs}) == 1, "the results differ"
    return {
        "call": name, "first, nothing compiled, s": runs[0][0], "modules": runs[0][3],
        "first, with the package, s": runs[2][0], "its modules compiled": runs[2][3],
        "and without Numba's cache, s": runs[1][0], "second, s": min(second for _, second, _, _ in runs),
    }  # fmt: skip


@benchmark("first_call", "The first call on a GPU", "reports/gpu/first_call")
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Compile in several processes, then measure every call alone."""
    spec = find_spec(SHIPPED)
    if spec is None or spec.origin is None:
        raise InputError(f"the package {SHIPPED} is not installed; .ci/kernels builds it")
    sizes = [path.stat().st_size / 2**20 for path in Path(spec.origin).parent.glob("*.zip")]
    report.note = f"The package has {len(sizes)} archives of {sum(sizes):.1f} MiB."
    task = pickle.dumps(paper_tasks(data_folder(), 100)[0])
    in_process("SVC()", task, True)  # compiles for the CPU
    with ThreadPoolExecutor(PROCESSES) as pool:
        others = dict(zip(CALLS, pool.map(compiling, CALLS, [task] * len(CALLS)), strict=True))
    for name, runs in others.items():
        report.row(name, row_of, name, task, runs)
