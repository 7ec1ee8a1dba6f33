"""textsvm devices: the CPU and the GPUs of this computer.

`devices --compile` fills the caches of compiled code on disk, Numba's for the CPU and CuPy's for GPUs: its
processes run small trainings of every kind and compile the .cu files; all later processes use the caches.
"""

from __future__ import annotations

import pkgutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import active_children, get_context
from typing import Annotated, Any

import numpy as np
import typer

import textsvm
from textsvm.arrays import Json
from textsvm.cli import options
from textsvm.cli.console import Console
from textsvm.errors import InputError
from textsvm.kernels import KERNELS
from textsvm.runtime import compiled
from textsvm.runtime import device as gpu
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parallel import Progress, n_threads

DOCUMENTS = 2000  #: Documents of a training: enough for the planner to choose the methods for large data.
BYTES_PER_PROCESS = 2 << 30  #: Maximum memory of a process on the GPU.
OF_VECTORS = ("linear", "polynomial", "gaussian", "sigmoid")


def devices(
    compile_kernels: Annotated[
        bool,
        typer.Option("--compile", help="compile for the CPU and GPUs now, so that no first use has to wait"),
    ] = False,
    json: options.Json = False,
) -> None:
    """List the CPU and every GPU, and test each GPU with a small kernel."""
    console = Console()
    rows: list[Json] = [
        {
            "device": "cpu" if entry.device.kind == "cpu" else f"cuda:{entry.device.index}",
            "description": entry.device.description,
            "usable": not entry.trouble,
            "trouble": entry.trouble or None,
        }
        for entry in gpu.devices()
    ]
    console.lap("test")
    if compile_kernels:
        kinds = {row["description"].partition(" ")[2]: row["device"] for row in rows[:0:-1] if row["usable"]}
        for device in ("cpu", *kinds.values()):  # and a GPU of each kind
            clock = time.perf_counter()
            with console.progress():
                compile_all(device, console.progress_of(f"compiling for {device}"))
            console.say(f"compiled for {device} in {time.perf_counter() - clock:.0f} s")
        console.lap("compile")
    if json:
        console.print_json({"devices": rows})
        return
    for row in rows:
        state = "usable" if row["usable"] else f"not usable: {row['trouble']}"
        console.line(f"{row['description']}: {state}")
    cards = [str(row["device"]) for row in rows if row["usable"] and row["device"] != "cpu"]
    if len(cards) > 1:
        console.line(f"cuda:all: {' and '.join(cards)} together; cuda:0,1 for some of them")


def compile_all(device: str, progress: Progress) -> None:
    """Run all trainings; on a GPU, compile all .cu files, too."""
    calls: list[tuple[Any, ...]] = [(_train, device, name) for name in trainings(device)]
    processes = min(n_threads(), len(calls))
    if device != "cpu":
        calls += [(_load, device, *entry) for entry in sources()]
        with gpu.use(gpu.select(device)):
            processes = max(1, min(n_threads(), len(calls), gpu.free_memory() // BYTES_PER_PROCESS))
    with ProcessPoolExecutor(processes, get_context("spawn"), _end_by_ctrl_c) as pool:
        try:
            for done, future in enumerate(as_completed([pool.submit(*call) for call in calls]), 1):
                future.result()
                progress(done, len(calls))
        except BrokenProcessPool as error:
            raise InputError(f"a process that compiled for {device} was killed; run it again") from error
        finally:
            for process in active_children():
                process.terminate()


def _end_by_ctrl_c() -> None:
    """Let Ctrl-C, which a terminal sends to all processes of a command, end this too, without a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def trainings(device: str, n: int = DOCUMENTS) -> dict[str, Callable[[], object]]:
    """Name and call of every kind of training, with predictions."""
    rng, four = np.random.default_rng(0), np.arange(n) % 4
    rows = rng.choice(list("acgt"), (n, 60))
    sequences = ["".join(row) + "acgt"[k] * 9 for row, k in zip(rows, four, strict=True)]
    texts = [f"it is {sequence}" for sequence in sequences]
    letters = [f"e\u0301 {chr(0x4E00 + i % 800)} {text}" if i % 3 else text for i, text in enumerate(texts)]
    vectors = (rng.standard_normal((n, 20)) + np.outer(four, np.arange(20) == 0)).astype(np.float32)
    sparse = scipy.sparse.csr_matrix

    def classify(x: Any, **options: Any) -> Callable[[], object]:
        def call() -> None:
            for y in (four > 0, four):
                textsvm.SVC(device=device, **options).fit(x, y).predict(x[:100])
            textsvm.cross_validate(textsvm.SVC(device=device, **options), x, four > 0, cv=3)

        return call

    def fit(model: Any, *y: Any) -> Callable[[], object]:
        return lambda: model.fit(texts, *y).predict(texts[:100])

    calls = {
        "auto": classify(texts),
        "sequences": classify(sequences),
        "features": classify(letters, compute=textsvm.Compute(solver="features")),
        "sparse vectors": classify(sparse(np.maximum(vectors, 0)), kernel="gaussian"),
        "sparse flags": classify(sparse((vectors > 1).astype(np.float32)), kernel="gaussian"),
        "crammer-singer": fit(textsvm.SVC("spectrum", multiclass="crammer-singer", device=device), four),
        "regression": fit(textsvm.SVR("spectrum", device=device), four),
        "one class": fit(textsvm.OneClassSVM("spectrum", device=device)),
        "explanation": lambda: textsvm.explain(
            textsvm.SVC(device=device).fit(texts[:60], four[:60] > 0), texts[:1]
        ),
    }
    for name in KERNELS.simple():
        x: Any = vectors if name in OF_VECTORS else sequences
        calls[name] = classify(x, kernel=name)
    return calls


def sources() -> list[tuple[str, gpu.Defines]]:
    """Every .cu file, with each set of definitions for it."""
    for module in pkgutil.walk_packages(textsvm.__path__, "textsvm."):
        if "cuda" in module.name:
            import_module(module.name)  # and with them the others that launch kernels
    ours = [module for name, module in sys.modules.items() if name.startswith("textsvm.")]
    return list(dict.fromkeys(entry for module in ours for entry in vars(module).get("DEFINE_SETS", ())))


def _train(device: str, name: str) -> None:
    compiled.NUMPY_SIZE = 0  # compile what NumPy would do for few texts
    compiled.warn = _refuse
    with warnings.catch_warnings(action="ignore"):  # of the random texts
        trainings(device)[name]()


def _refuse(message: str) -> None:
    raise InputError(message)


def _load(device: str, source: str, defines: gpu.Defines) -> None:
    with gpu.use(gpu.select(device)):
        gpu.load(source, defines)
