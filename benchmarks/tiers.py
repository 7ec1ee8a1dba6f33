"""Predicted and measured time of each tier of the planner (`textsvm.gram.plan`).

One machine (C = 1) under memory for a share of its matrix: the rows that it asks for, and the seconds of Gram
and solver, of every tier; all have the objective of the whole matrix to 1e-5. Rates are measured in the same
run; the store is there already, and is in the system's cache, of which predictions know nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import TrainTest, paper_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm import Compute, EditDistance, GapWeighted, Gaussian, Spectrum
from textsvm.gram.base import CachedGram, Gram, needed_bytes
from textsvm.gram.build import measured_rate
from textsvm.gram.plan import Case, Rates
from textsvm.kernels import GappedKmers
from textsvm.kernels.base import Kernel
from textsvm.model.settings import ClassifierSettings
from textsvm.runtime.device import Device, select
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.training.problems import as_target, problem_of
from textsvm.training.train import prepare

SHARES = (0.05, 0.1, 0.25, 0.5)
KERNELS: dict[str, Kernel] = {
    "spectrum": Spectrum((1, 5), "log"), "edit": EditDistance(0.05), "gap:5": GapWeighted(5),
    "gapped": GappedKmers(6, 2), "gaussian": Gaussian(1 / 300),
}  # fmt: skip


def run(settings: ClassifierSettings, task: TrainTest) -> tuple[Gram, float, float]:
    """The Gram, seconds of Gram and solver, and the objective."""
    prepared = prepare(settings, task.train)
    n, clock = len(task.train), time.perf_counter()
    problem = problem_of(settings, as_target(settings, task.y_train, n), np.arange(n))
    [[machines]] = solve(prepared.gram, [[problem]], Stopping(settings.tol))
    seconds = prepared.seconds["gram"] + time.perf_counter() - clock
    return prepared.gram, seconds, machines.solutions[0].objective


def measured(task: TrainTest, name: str, device: Device) -> Rates:
    """The rates that predictions are made from."""
    settings = ClassifierSettings(KERNELS[name], device=device.kind)
    examples = settings.source.encode(settings.source.validate(task.train))
    kernel = settings.source.kernel_for(examples)
    kernel.fit(examples, device)
    return Rates(*measured_rate(kernel.rows(examples, device)))


def rows_of(task: TrainTest, name: str, device: Device, folder: Path) -> list[dict[str, Any]]:
    """Every tier and share of one problem; the matrix is in the store already, for the tiers that read it."""
    n = len(task.train)
    _, _, objective = run(
        ClassifierSettings(KERNELS[name], compute=Compute(store=folder / "store"), device=device.kind), task
    )
    rates, found = measured(task, name, device), []
    for share in SHARES:
        case = Case(n, 0, device.kind, capacity=int(share * n))
        for tier in ("recompute", "disk", *(["host"] if device.kind == "cuda" else [])):
            store = folder / "store" if tier == "disk" else None
            memory = needed_bytes(n, case.capacity)
            settings = ClassifierSettings(
                KERNELS[name], compute=Compute(tier=tier, memory=memory, store=store), device=device.kind
            )
            gram, seconds, other = run(settings, task)
            assert isinstance(gram, CachedGram)
            assert abs(other / objective - 1) < 1e-5, (other, objective)
            request = gram.staging if device.kind == "cuda" else min(gram.ahead, gram.capacity // 2)
            predicted = replace(case, request=request, store=tier == "disk", stored=float(tier == "disk"))
            found.append({
                "problem": f"{task.name}, {name}", "n": n, "share": share, "tier": tier,
                "rows asked, n": gram.computed / n, "predicted, n": predicted.rows_read / n, "s": seconds,
                "predicted, s": predicted.seconds(tier, rates),
                "rates": f"{rates.compute / 1e6:.2g} M values/s, {1e3 * rates.call:.2g} ms a call, "
                f"read {rates.read / 1e9:.2g} GB/s",
            })  # fmt: skip
    return found


@benchmark(
    "tiers",
    "Tiers, predicted and measured",
    "reports/cpu_tiers",
    option("--texts", type=int, default=1000, help="number of texts"),
    option("--processor", action="store_true", help="seconds of the processor, if it has other work"),
    device="cpu",
    gpu_output="reports/gpu/tiers",
    quick="use the bundled samples",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train under each memory budget in every tier."""
    if options.processor:
        time.perf_counter = time.process_time  # in `textsvm.gram.build` too
    device = select(options.device)
    task = paper_tasks(None if options.quick else data_folder(), 100)[0]
    some = np.random.default_rng(0).permutation(len(task.train))[: 60 if options.quick else options.texts]
    task = TrainTest(task.name, [task.train[i] for i in some], task.y_train[some], task.test, task.y_test)
    y = np.arange(len(task.train)) % 2
    vectors = np.random.default_rng(0).normal(size=(len(y), 300)) + 0.1 * y[:, None]
    for name in KERNELS:
        if name == "gaussian":
            task = TrainTest("vectors", vectors, y, vectors, y)  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory(dir=".") as folder:
            for row in rows_of(task, name, device, Path(folder)):
                report.row(f"{name} {row['share']} {row['tier']}", dict, row)
