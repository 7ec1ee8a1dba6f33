"""Whole classifiers from texts in memory to predictions on the test part, beside TF-IDF + LinearSVC.

The baseline is TF-IDF over character 1-5-grams with scikit-learn's `LinearSVC`. Both sides get the texts as
read from the files: `TfidfVectorizer` puts them in lower case and joins runs of white space, our "unicode"
form does that and NFKC. `tune` chooses parameters on the training part alone, by cross-validated accuracy;
the test part is used once, with the chosen parameters.

``multiclass``: one search over strategies, kernels and C shares the Gram of each kernel; then the best
setting of each strategy is trained again and tested. "tune" marks the choice of the search.

``tuned``: the length of the text that is read is one of the parameters of the search; where it is less than
all, the baseline is also measured on the same beginnings. Spam has no published split: the mean over several
random splits counts. `--form paper` puts the texts of both sides in the paper's form first (lower case, a
space for every character outside a-z0-9).
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.corpora import IMDB, R8, TrainTest, mail_tasks, newswire_tasks, parted_task
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm.estimators.svm import SVC
from textsvm.evaluation import baselines
from textsvm.kernels import GapWeighted, Spectrum
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.model.settings import STRATEGIES
from textsvm.selection.tuning import Tuning, tune
from textsvm.text.documents import normalise
from textsvm.training.leakage import LeakageWarning

R8_GRID: dict[str, list[Any]] = {
    "multiclass": list(STRATEGIES),
    "kernel": [
        *(Spectrum((1, high), "log", idf=True) for high in (4, 5, 6)),
        *(Spectrum((2, high), "log", idf=True) for high in (5, 6)),
        Spectrum((1, 6), "intersection"),
    ],
    "C": [1.0, 10.0],
}
IMDB_GRID: dict[str, list[Any]] = {
    "kernel": [
        Spectrum((1, 5), "log", idf=True),
        Spectrum((1, 7), "log", idf=True),
        Spectrum((3, 8), "presence", idf=True),
        Spectrum((5, 10), "log", idf=True),
    ],
    "C": [0.5, 2.0, 8.0],
}
FORMS = ("reader", "paper")
KERNELS: list[Kernel] = [
    *(Spectrum((1, high), "log", idf=True) for high in (4, 5)),
    *(Spectrum((2, high), "log", idf=True) for high in (5, 6)),
    Spectrum((1, 5), "intersection"),
]
GAP: list[Kernel] = [GapWeighted(p, 0.5) for p in (5, 6)]
COSTS, LENGTHS = [1.0, 3.0, 10.0], [None, 400, 1000]
BASELINE = baselines.CHARACTERS


def judge(model: Any, task: TrainTest) -> dict[str, Any]:
    """Train and predict: accuracy, errors, wall time from texts to predictions."""
    clock = time.perf_counter()
    predicted = model.fit(task.train, task.y_train).predict(task.test)
    seconds = time.perf_counter() - clock
    errors = int(np.sum(predicted != task.y_test))
    return {
        "accuracy %": f"{100 * (1 - errors / len(task.test)):.2f}",
        "errors": errors,
        "texts to predictions, s": seconds,
    }


def search(
    task: TrainTest,
    model: SVC,
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    cv: int,
    repeats: int = 1,
) -> Tuning:
    """`tune` on the training part."""
    with warnings.catch_warnings():
        # Newswire and mail repeat themselves; folds are only used to compare settings here.
        warnings.simplefilter("ignore", LeakageWarning)
        return tune(model, task.train, task.y_train, grid, cv=cv, repeats=repeats, random_state=0)


def chosen(task: TrainTest, model: SVC, setting: Mapping[str, Any]) -> dict[str, Any]:
    """Row of the report: a setting (row of `Tuning.table`) trained on the training part and tested."""
    fresh = clone(model).set_params(**setting["params"])
    return {
        "corpus": task.name,
        "classifier": "SVC, " + described(setting["params"]),
        "cross-validation %": f"{100 * setting['mean']:.2f}",
        **judge(fresh, task),
    }


def judge_baseline(task: TrainTest) -> dict[str, Any]:
    """The baseline's row."""
    return {
        "corpus": task.name,
        "classifier": BASELINE,
        "cross-validation %": "",
        **judge(baselines.characters_baseline(), task),
    }


def best_of(tuning: Tuning, **params: Any) -> Mapping[str, Any]:
    """Best row of the table among the settings with these parameters."""
    rows = [row for row in tuning.table if all(row["params"].get(k) == v for k, v in params.items())]
    return min(rows, key=lambda row: (-row["mean"], row["params"]["C"]))


def described(params: Mapping[str, Any]) -> str:
    """A setting in words."""
    words = {name: f"{name}={value}" for name, value in sorted(params.items(), reverse=True)}
    return ", ".join((words | {"kernel": spell(params["kernel"])}).values())


def warm_up(model: SVC, grid: Mapping[str, Any], task: TrainTest, n: int = 400) -> None:
    """Train on a few documents, so that nothing compiles during the timed run."""
    step = max(1, len(task.train) // n)
    few = TrainTest("", task.train[::step], task.y_train[::step], task.test[: n // 2], task.y_test[: n // 2])
    for kernel in grid["kernel"]:
        judge(clone(model).set_params(kernel=kernel), few)


def compare(task: TrainTest, report: BenchmarkReport, device: str, cv: int, repeats: int) -> None:
    """Rows of one corpus: SVC with the settings of `tune`, and the baseline."""
    model = SVC(device=device)
    # Subsequences of whole mails take too long for a search; newswire is short.
    kernels = KERNELS + GAP * (not task.name.startswith("Spam") and device != "cpu")
    grid = {"kernel": kernels, "C": COSTS, "max_length": LENGTHS}

    def ours() -> dict[str, Any]:
        warm_up(model, grid, task)
        clock = time.perf_counter()
        tuning = search(task, model, grid, cv, repeats)
        seconds = time.perf_counter() - clock
        best = {"params": tuning.best_params_, "mean": tuning.best_score}
        cut = tuning.best_params_["max_length"] or ""
        row = chosen(task, model, best)
        return row | {"search, s": seconds, "settings": len(tuning.table), "symbols read": cut}

    cut = report.row(f"{task.name} ours", ours)["symbols read"]
    report.row(f"{task.name} baseline", judge_baseline, task)
    if cut:
        report.row(f"{task.name} same beginnings", beginnings, task, cut)


def beginnings(task: TrainTest, cut: int) -> dict[str, Any]:
    """The baseline on the first `cut` symbols of every text."""
    train, test = ([text[:cut] for text in texts] for texts in (task.train, task.test))
    row = judge_baseline(dataclasses.replace(task, train=train, test=test))
    return row | {"classifier": f"{BASELINE}, first {cut} symbols", "symbols read": cut}


def mean_over_splits(report: BenchmarkReport) -> None:
    """The mean of the spam splits, both sides."""
    for side, name in (("ours", "SVC as tuned on each split"), ("baseline", BASELINE)):
        mine = [
            row for key, row in report.rows.items() if key.startswith("Spam, split") and key.endswith(side)
        ]
        if len(mine) > 1:
            values = [float(row["accuracy %"]) for row in mine]
            cell = {
                "corpus": f"Spam, mean of {len(mine)} splits", "classifier": name,
                "accuracy %": f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}",
                "errors": round(float(np.mean([row["errors"] for row in mine])), 1),
                "texts to predictions, s": float(np.median([row["texts to predictions, s"] for row in mine])),
            }  # fmt: skip
            report.rows.pop(f"mean {side}", None)
            report.row(f"mean {side}", dict, cell)


@benchmark(
    "multiclass",
    "R8: topics of newswire, eight classes",
    "reports/multiclass",
    option("--cv", type=int, default=5, help="folds"),
    device="auto",
)
def multiclass(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Search over the multiclass strategies on R8."""
    task, model = parted_task("R8", data_folder() / R8), SVC(device=options.device)
    warm_up(model, R8_GRID, task)
    clock = time.perf_counter()
    tuning = search(task, model, R8_GRID, options.cv)
    seconds = time.perf_counter() - clock
    for strategy in STRATEGIES:
        best = best_of(tuning, multiclass=strategy)
        picked = {"chosen by": "tune" if best["params"] == tuning.best_params_ else ""}
        report.row(strategy, lambda best=best, picked=picked: chosen(task, model, best) | picked)
    report.row("baseline", judge_baseline, task)
    about: dict[str, Any] = {"corpus": "R8", "classifier": f"the search: {len(tuning.table)} settings"}
    report.row("search", dict, about | {"search, s": seconds})


@benchmark(
    "reviews",
    "IMDB: praise or not",
    "reports/reviews",
    option("--cv", type=int, default=5, help="folds"),
    option("--every", type=int, default=1, help="use every EVERY-th review"),
    device="auto",
)
def reviews(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Search on the 25,000 training reviews of IMDB and test on the 25,000 others."""
    task, few = parted_task("IMDB", data_folder() / IMDB), slice(None, None, options.every)
    task = TrainTest("IMDB", task.train[few], task.y_train[few], task.test[few], task.y_test[few])
    model = SVC(device=options.device)

    def ours() -> dict[str, Any]:
        warm_up(model, IMDB_GRID, task)
        clock = time.perf_counter()
        tuning = search(task, model, IMDB_GRID, options.cv)
        seconds = time.perf_counter() - clock
        best = {"params": tuning.best_params_, "mean": tuning.best_score}
        return chosen(task, model, best) | {"search, s": seconds, "settings": len(tuning.table)}

    report.row("ours", ours)
    report.row("baseline", judge_baseline, task)


@benchmark(
    "tuned",
    "Tuned on the training part, full length",
    "reports/tuned_{corpus}",
    option("--corpus", choices=("newswire", "spam"), default="newswire", help="corpus (default: newswire)"),
    option("--form", choices=FORMS, default="reader", help="text form (default: reader)"),
    option("--splits", type=int, default=5, help="random splits of the mails"),
    option("--cv", type=int, default=10, help="folds"),
    device="auto",
    repeats=3,
)
def tuned(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Search on earn/acq and earn/rest, or on spam, at full length; --repeats is of the cross-validation."""
    folder = data_folder()
    tasks = newswire_tasks(folder) if options.corpus == "newswire" else mail_tasks(folder, options.splits)
    for task in tasks:
        if options.form == "paper":
            train, test = ([normalise(text, "paper") for text in texts] for texts in (task.train, task.test))
            task = dataclasses.replace(task, train=train, test=test)
        compare(task, report, options.device, options.cv, options.repeats)
    mean_over_splits(report)
