"""Sample weights: an example given twice equals an example of weight 2.

R8's rarer classes and the essays of one prompt: a fifth of the examples, picked at random, is given twice, or
once with weight 2. Objectives (their sum over machines) agree to 1e-6 relative at tol 1e-6; values,
probabilities and numbers predicted for other documents stand beside them (an isotonic map is a step line, and
a value that moves by 1e-7 may fall off a step). For calibration the two copies of a document are in one fold.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.model_selection import StratifiedKFold

from benchmarks.corpora import R8, TrainTest, essay_prompts, parted_task
from benchmarks.harness import BenchmarkReport, benchmark, data_folder
from textsvm.estimators.calibrated import CalibratedSVC
from textsvm.estimators.svm import SVC, SVR
from textsvm.kernels import Spectrum
from textsvm.model.settings import STRATEGIES

#: Learns nothing from the documents: idf would count a copy as a document more.
KERNEL = Spectrum((1, 5), "log")
BOUND, TOL = 1e-6, 1e-6


def tasks(folder: Path) -> dict[str, TrainTest]:
    """Two classes, eight classes, numbers; a thousand or so examples each."""
    topics = parted_task("R8", folder / R8)
    most = {"earn", "acq"}
    trade = [i for i, label in enumerate(topics.y_train) if label not in most]
    some = np.unique(np.concatenate([np.arange(0, len(topics.train), 8), trade]))
    few = slice(0, None, 5)
    many = TrainTest(
        "R8, eight classes", [topics.train[i] for i in some], topics.y_train[some],
        topics.test[few], topics.y_test[few],
    )  # fmt: skip
    two = TrainTest("R8, earn or not", many.train, many.y_train == "earn", many.test, many.y_test == "earn")
    prompt = essay_prompts(folder)[3]
    train, _, test = prompt.folds[0]
    score = prompt.scores / prompt.high
    numbers = TrainTest(
        "essays, prompt 4", [prompt.texts[i] for i in train], score[train],
        [prompt.texts[i] for i in test], score[test],
    )  # fmt: skip
    return {"two": two, "many": many, "numbers": numbers}


def compare(name: str, model: Any, task: TrainTest) -> dict[str, Any]:
    """One row; raises AssertionError where the two differ by more than they may."""
    n = len(task.train)
    copied = np.sort(np.random.default_rng(0).permutation(n)[: n // 5])
    texts = task.train + [task.train[i] for i in copied]
    targets = np.concatenate([task.y_train, task.y_train[copied]])
    weight = np.ones(n)
    weight[copied] = 2
    once, twice = {}, {}
    if isinstance(model, CalibratedSVC):
        folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(weight, task.y_train))
        once["cv"], twice["cv"] = folds, [tuple(with_copies(part, copied, n) for part in f) for f in folds]
    weighted = model.set_params(**once).fit(task.train, task.y_train, sample_weight=weight)
    mine, values = objective(weighted), outputs(weighted, task.test)
    repeated = model.set_params(**twice).fit(texts, targets)
    other = objective(repeated)
    apart = abs(mine - other) / abs(other)
    assert apart <= BOUND, f"{name}: {mine} with weights, {other} with copies"
    return {
        "machine": name, "task": task.name, "n": n, "given twice": len(copied),
        "objective, weight 2": f"{mine:.8f}", "objective, given twice": f"{other:.8f}",
        "relative difference": apart,
        "largest difference of outputs on the test part": float(
            np.abs(values - outputs(repeated, task.test)).max()
        ),
    }  # fmt: skip


def with_copies(part: Any, copied: Any, n: int) -> Any:
    """A part of a fold, and the copies of its members: number j of the copied is n + j."""
    return np.concatenate([part, n + np.flatnonzero(np.isin(copied, part))])


def objective(model: Any) -> float:
    return float(sum(solution.objective for solution in model.solutions_))


def outputs(model: Any, texts: list[str]) -> Any:
    """Predicted numbers, probabilities, or values."""
    if is_regressor(model):
        return model.predict(texts)
    return model.predict_proba(texts) if isinstance(model, CalibratedSVC) else model.decision_function(texts)


@benchmark(
    "weights",
    "Sample weights: duplicates and weight 2",
    "reports/weights",
    device="auto",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Train every estimator in both forms."""
    given = tasks(data_folder())

    def svc(**params: Any) -> SVC:
        return SVC(KERNEL, C=0.3, tol=TOL, device=options.device, **params)

    models: list[tuple[str, Any, str]] = [("SVC", svc(), "two")]
    models += [(f"SVC, {name}", svc(multiclass=name), "many") for name in STRATEGIES]
    models += [
        ("SVC, balanced class weights", svc(class_weight="balanced", multiclass="ovo"), "many"),
        ("CalibratedSVC, sigmoid", CalibratedSVC(svc()), "two"),
        ("CalibratedSVC, isotonic, ovr", CalibratedSVC(svc(multiclass="ovr"), "isotonic"), "many"),
        ("SVR", SVR(KERNEL, 0.3, epsilon=0.05, tol=TOL, device=options.device), "numbers"),
    ]
    return [compare(name, model, given[task]) for name, model, task in models]
