"""Predicted and measured time of the planner (`textsvm.gram.plan`).

tiers: of each tier. One machine (C = 1) under memory for a share of its matrix: the rows that it asks for,
and the seconds of Gram and solver, of every tier; all have the objective of the whole matrix to 1e-5. Rates
are measured in the same run; the store is there already, and is in the system's cache, of which predictions
know nothing.

plan: of features and of a kernel matrix. Seconds are of the processor with one thread, so that other work on
the computer changes them little; a stage is divided by the cores, of two, that it uses. The plan is read in
`gram_description_`, as users read it.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import TrainTest, paper_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.panel import read_set
from textsvm import SVC, Compute, EditDistance, GapWeighted, Gaussian, Spectrum
from textsvm.gram.base import CachedGram, Gram, needed_bytes
from textsvm.gram.build import measured_rate
from textsvm.gram.plan import CORES, Case, Rates
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


#: Sets of the panels: two classes to 61, 7 characters to 15,000, 60 texts to 20,000.
PLANNED = {
    "panel": ("cr", "subj", "blitzer", "spooky", "webkb", "trec6", "hsol", "ohsumed", "sk-CTCF"),
    "panel2": (
        *("tweet-emo13", "id-hate", "names", "city-country", "gnad1k", "onestop", "masakhanews-som"),
        *("enhancer", "senti4sd", "dsl14", "snippet-lang"),
    ),
    "panel3": ("au-en-few", "lit-es-period", "au-pan19-p02"),
}
PREDICTED = re.compile(r"predicted (\S+) s on 2 cores, (?:from features|with a kernel matrix) (\S+) s")


def gene_families(n: int, classes: int = 7, length: int = 1950) -> TrainTest:
    """DNA sequences of families of genes that have changed at random."""
    rng, bases = np.random.default_rng(0), np.array(list("acgt"))
    genes, y, texts = bases[rng.integers(0, 4, (classes, 12, length))], rng.integers(0, classes, n), []
    for family in y:
        gene = genes[family, rng.integers(12)].copy()
        changed = rng.random(length) < rng.uniform(0.2, 0.6)
        gene[changed] = bases[rng.integers(0, 4, changed.sum())]
        texts.append("".join(gene[: int(length * rng.uniform(0.5, 1))]))
    return TrainTest("gene families", texts, y, [], y[:0])


def sample(task: TrainTest, at: Any) -> TrainTest:
    """A part of the training part."""
    texts = np.array(task.train, object)[at]
    return TrainTest(task.name, list(texts), task.y_train[at], [], task.y_test[:0])


def planned_tasks(folder: Path, most: float) -> list[TrainTest]:
    """Training parts of the sets, each a sample of at most so many characters, and DNA."""
    tasks = []
    for panel, names in PLANNED.items():
        for name in names:
            task = read_set(folder / panel, name)
            share = min(1.0, most / sum(map(len, task.train)))
            some = np.random.default_rng(0).permutation(len(task.train))[: int(share * len(task.train))]
            tasks.append(sample(task, some))
    return [*tasks, gene_families(int(min(1280, most / 1000)))]


def seconds_of(model: SVC) -> float:
    """Seconds on the cores that the plan assumes of a training that took one."""
    stages, machines = model.seconds_, len(model.model_.record.solutions)
    if "gram" in stages:
        return (stages["gram"] + stages["solve"]) / CORES
    return stages["features"] / CORES + stages["solve"] / min(CORES, machines)


def compare_ways(task: TrainTest, kernel: Any) -> dict[str, Any]:
    """Predicted and measured seconds of both ways, and what the choice costs."""
    fits = {}
    for solver in ("features", "gram", "auto"):
        model = SVC(kernel, compute=Compute(solver=solver), n_jobs=1, device="cpu")
        fits[solver] = model.fit(task.train, task.y_train)
    plan, rough = fits["auto"].gram_description_, kernel == "auto"
    match = PREDICTED.search(plan)
    assert match is not None, plan
    chosen, other = ("features", "gram") if plan.startswith("none, ") else ("gram", "features")
    predicted = dict(zip((chosen, other), map(float, match.groups()), strict=True))
    measured = {way: seconds_of(fits[way]) for way in ("features", "gram")}
    return {
        "set": task.name, "n": len(task.train),
        "characters a text": float(np.mean([len(text) for text in task.train])),
        "classes": len(set(task.y_train)), "kernel": "default" if rough else "1-5,log,idf",
        "features, predicted, s": predicted["features"], "features, s": measured["features"],
        "matrix, predicted, s": predicted["gram"], "matrix, s": measured["gram"],
        "chosen": chosen, "chosen / better": measured[chosen] / min(measured.values()),
    }  # fmt: skip


@benchmark(
    "plan",
    "Training from features or from a kernel matrix, predicted and measured",
    "reports/plan",
    option("--characters", type=float, default=3e6, help="most characters of a set (default: 3e6)"),
    device="cpu",
    quick="use few texts",
)
def run_plan(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train each set both ways."""
    time.perf_counter = time.process_time
    tasks = [gene_families(60)] if options.quick else planned_tasks(data_folder(), options.characters)
    for task in tasks:
        for kernel in ("auto", Spectrum((1, 5), "log", idf=True)):
            compare_ways(sample(task, slice(60)), kernel)  # compiles
            report.row(f"{task.name} {kernel}", compare_ways, task, kernel)
