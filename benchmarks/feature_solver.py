"""Training on feature vectors, against training on the Gram and against LIBLINEAR.

First equality, on spectrum p=4 and C = 10 of the solver benchmark: objectives of coordinate descent with
faces (the CPU's) and of the augmented Lagrangian (the GPU's) are at most 1e-5 above that of SMO on the Gram,
or this fails. Then time at an equal objective on the same rows of sentences of reviews: LIBLINEAR's
(`LinearSVC`, hinge, dual) have an entry more each for their ridges. Its bias is regularised, so its machine
is another one; its tolerance is the first of 1, 0.1, ... that brings its primal objective as near to its own
optimum, at 1e-5, as our duality gap is. Seconds are of the processor, least of several turns.

With `--ways` a second report: training by a Gram and by features, as measured and as the planner predicts
(`textsvm.gram.plan`, whose rates were fitted to such points). Fits on one thread are measured; their seconds
are divided as the planner divides its own: a core solves a machine, and `CORES` cores share all other work.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, hstack
from sklearn.svm import LinearSVC

from benchmarks.corpora import TrainTest, paper_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.panel import read_set
from textsvm import Compute
from textsvm.choice.candidates import Candidate
from textsvm.estimators.svm import SVC
from textsvm.gram.base import DenseGram
from textsvm.gram.plan import CORES
from textsvm.kernels import Spectrum
from textsvm.kernels.base import Kernel
from textsvm.kernels.spectrum.kernel import fixed_default
from textsvm.kernels.spelling import spell
from textsvm.linalg.rows import FeatureRows
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.runtime.device import select
from textsvm.runtime.parallel import limit
from textsvm.solvers.feature_machines import solve_by_descent
from textsvm.solvers.newton import solve_by_newton
from textsvm.solvers.problems import Classification, Machines
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.text.documents import encode
from textsvm.training.grams import features_of
from textsvm.training.problems import as_target, problem_of

TOL, BOUND, TURNS = 1e-3, 1e-5, 3
#: Seconds after which there are no more turns.
LONG = 20.0
REVIEWS = "yelp-sentences"
#: Sets and documents of the second report.
PANEL = "cr", "subj", "blitzer", "spooky", "webkb", "te-emotion", "trec6", "langdet17", "ohsumed", "banking77"
SIZES = 2000, 10_000
CPU = select("cpu")
SOLVERS: dict[str, Callable[[Classification, FeatureRows], Machines]] = {
    "descent and faces": lambda problem, rows: solve_by_descent(problem, rows, Stopping(TOL)),
    "augmented Lagrangian": lambda problem, rows: solve_by_newton(problem, rows, Stopping(TOL)),
}


def least(function: Callable[[], Any], turns: int = TURNS) -> tuple[Any, float]:
    """What a function gives, and the least of the processor's seconds that it takes."""
    taken: list[float] = []
    while len(taken) < turns and sum(taken) < LONG:
        clock = time.process_time()
        found = function()
        taken.append(time.process_time() - clock)
    return found, min(taken)


def two_classes(task: TrainTest, C: float) -> Classification:
    """The problem of a task of two classes."""
    y = np.unique(task.y_train, return_inverse=True)[1]
    return Classification(np.arange(len(y)), y, 2, C, np.ones(len(y)), "ovr")


def objectives(problem: Classification, rows: FeatureRows, made: Machines) -> dict[str, Any]:
    """Dual and primal objective, 1/2 |w|^2 + C sum of losses, from scratch."""
    coef, sign = np.zeros(len(rows.x)), np.where(problem.target > 0, 1.0, -1.0)
    coef[made.index] = made.coef[0]
    values = rows.x.dot(rows.x.transposed_dot(coef[:, None]))[:, 0] + rows.ridge * coef
    half, loss = 0.5 * coef @ values, np.maximum(0, 1 - sign * (values + made.bias[0])).sum()
    return {"dual": half - np.abs(coef).sum(), "primal": half + problem.C * loss}


def row_of(problem: Classification, by: str, seconds: float, found: dict[str, Any]) -> dict[str, Any]:
    """One row of the report."""
    shown = {f"{name} objective": f"{value:.6f}" for name, value in found.items()}
    return {"n": len(problem.target), "C": problem.C, "solver": by, **shown, "CPU s": seconds}


def equal(task: TrainTest, by: str) -> dict[str, Any]:
    """A solver on a Gram-sized problem; AssertionError if it ends above SMO."""
    kernel, documents, problem = Spectrum(4), encode(task.train), two_classes(task, 10.0)
    rows = kernel.features.rows(documents, CPU)
    gram = DenseGram(kernel.rows(documents, CPU).gram())
    [[exact]], of_smo = least(lambda: solve(gram, [[problem]], Stopping(TOL)))
    found, seconds = least(lambda: SOLVERS[by](problem, rows))
    best = exact.solutions[0].objective
    above = (found.solutions[0].objective - best) / abs(best)
    assert found.solutions[0].converged
    assert above <= BOUND, f"{by} ends {above:.1e} above SMO"
    row = row_of(problem, by, seconds, objectives(problem, rows, found))
    return {"corpus": task.name, "kernel": spell(kernel), **row, "above SMO": above, "SMO, CPU s": of_smo}


def against_liblinear(task: TrainTest, rows: FeatureRows, C: float) -> dict[str, Any]:
    """Coordinate descent and faces on rows, and LIBLINEAR at an equal objective."""
    problem = two_classes(task, C)
    found, seconds = least(lambda: SOLVERS["descent and faces"](problem, rows))
    ours = objectives(problem, rows, found)
    matrix, sign = as_matrix(rows), np.where(problem.target > 0, 1, -1)
    optimum = primal_of(matrix, sign, C, linear(matrix, sign, C, 1e-5))
    for tol in (1.0, 0.1, 0.01, 0.001, 1e-4, 1e-5):
        theirs, of_theirs = least(lambda tol=tol: linear(matrix, sign, C, tol))  # type: ignore[misc]
        primal = primal_of(matrix, sign, C, theirs)
        if (primal - optimum) / optimum <= (ours["primal"] + ours["dual"]) / ours["primal"]:
            break
    row = {"corpus": task.name, "kernel": spell(fixed_default())}
    row |= row_of(problem, "descent and faces", seconds, ours)
    return row | {
        "LIBLINEAR above its optimum": (primal - optimum) / optimum,
        "ours above the dual one": (ours["primal"] + ours["dual"]) / ours["primal"],
        "its tol": f"{tol:g}",
        "its CPU s": of_theirs,
        "LIBLINEAR / ours": of_theirs / seconds,
    }


def as_matrix(rows: FeatureRows) -> csr_matrix:
    """Rows with their ridge: a further column each, so that products include it."""
    x = rows.x
    shape = len(x), x.n_features
    shared = csr_matrix((x.values.astype(np.float64), x.features, x.indptr), shape=shape)
    return hstack([shared, diags(np.sqrt(rows.ridge))], format="csr")


def linear(matrix: csr_matrix, sign: NDArray[np.int64], C: float, tol: float) -> LinearSVC:
    """LIBLINEAR's machine."""
    options = {"loss": "hinge", "max_iter": 100_000, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LinearSVC(C=C, tol=float(tol), **options).fit(matrix, sign)


def primal_of(matrix: csr_matrix, sign: NDArray[np.int64], C: float, model: LinearSVC) -> float:
    """1/2 |w|^2 + 1/2 bias^2 + C sum of losses, what LIBLINEAR minimises."""
    w, bias = model.coef_[0], float(model.intercept_[0])
    margins = sign * (matrix @ w + bias)
    return float(0.5 * (w @ w + bias**2) + C * np.maximum(0, 1 - margins).sum())


def both_ways(task: TrainTest, n: int, kernel: Kernel, C: float) -> dict[str, Any]:
    """Seconds of a fit by a Gram and by features: on one core, and measured and predicted for `CORES`."""
    some = np.random.default_rng(0).permutation(len(task.train))[:n]
    texts, labels = [task.train[i] for i in some], np.asarray(task.y_train)[some]
    row: dict[str, Any] = {"corpus": task.name, "n": len(texts), "classes": len(np.unique(labels))}
    row |= {"kernel": spell(kernel), "C": C}
    machines = {
        way: SVC(kernel, C, compute=Compute(solver=way), device="cpu") for way in ("gram", "features")
    }
    settings = machines["gram"].settings
    problem = problem_of(settings, as_target(settings, labels, len(texts)), np.arange(len(texts)))
    case = features_of(kernel, settings.source.encode(texts), problem, CPU)
    measured = {}
    for (way, machine), expected in zip(machines.items(), case.seconds(len(texts), "cpu"), strict=True):
        with limit(1):
            _, taken = least(lambda machine=machine: machine.fit(texts, labels), 2)  # type: ignore[misc]
        solving = taken * machine.seconds_["solve"] / sum(machine.seconds_.values())
        measured[way] = (taken - solving) / CORES + solving / min(CORES, case.machines)
        row |= {f"{way}, CPU s": taken, f"{way}, s": measured[way], f"{way}, predicted": expected}
        chosen = way if way == "gram" or expected < row["gram, predicted"] else "gram"
    return row | {"chosen": chosen, "lost, s": measured[chosen] - min(measured.values())}


def ways(path: Path, command: str, tasks: Sequence[TrainTest], sizes: Sequence[int]) -> None:
    """The second report."""
    rows = BenchmarkReport(path.with_name(f"{path.name}_ways"), "Training by a Gram or by features", command)
    for kernel, C in ((fixed_default(), 1.0), (Spectrum(4), 10.0), (Candidate(words=True).kernel(), 1.0)):
        for task in tasks:
            for n in sorted({min(size, len(task.train)) for size in sizes}):
                rows.row(f"{task.name} {n} {spell(kernel)}", both_ways, task, n, kernel, C)


def reviews(quick: bool) -> TrainTest:
    """Sentences of reviews, in two classes."""
    if not quick:
        return read_set(data_folder() / "panel-large", REVIEWS)
    corpus = read_corpus(sample("reviews"))
    return TrainTest("reviews", list(corpus.texts), np.array(corpus.labels), [], np.array([]))


def flipped(task: TrainTest, share: float) -> TrainTest:
    """The task with a share of its labels exchanged."""
    y = np.unique(task.y_train, return_inverse=True)[1]
    wrong = np.random.default_rng(5).random(len(y)) < share
    name = f"{task.name}, {share:.0%} flipped" if share else task.name
    return TrainTest(name, task.train, np.where(wrong, 1 - y, y), [], np.array([]))


@benchmark(
    "feature_solver",
    "Training on features, beside LIBLINEAR",
    "reports/feature_solver",
    option("--every", type=int, default=1, help="use every EVERY-th sentence of the reviews"),
    option("--flip", type=float, default=0.0, help="also train with this share of the labels flipped"),
    option(
        "--ways", action="store_true", help="also write the points that the rates of `auto` are fitted to"
    ),
    quick="use the bundled samples",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Compare objectives, then time at an equal objective."""
    for task in paper_tasks(None if options.quick else data_folder(), 100):
        for by in SOLVERS:
            report.row(f"{task.name} {by}", equal, task, by)
    task = reviews(options.quick)
    task = TrainTest(
        task.name, task.train[:: options.every], task.y_train[:: options.every], [], np.array([])
    )
    features = fixed_default().features.rows(encode(task.train), CPU)
    for share in (0.0, options.flip) if options.flip else (0.0,):
        noisy = flipped(task, share)
        for C in (1.0, 10.0):
            report.row(f"{noisy.name} {C}", against_liblinear, noisy, features, C)
    if options.ways:
        others = [] if options.quick else [read_set(data_folder() / "panel", name) for name in PANEL]
        ways(report.path, report.command, [*others, task], SIZES[: 1 if options.quick else None])
