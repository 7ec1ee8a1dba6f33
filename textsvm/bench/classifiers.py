"""Whole classifiers from texts in memory to predictions on the test part, ours and what a user would pick.

The opponent is TF-IDF over character 1-5-grams with scikit-learn's `LinearSVC`. Both sides get the same
texts, as their reader gives them: `TfidfVectorizer` puts them in lower case and joins runs of white space,
our "unicode" form does that and NFKC. Parameters are chosen by `tune` on the training part alone, by the
accuracy of cross-validation; the test part is looked at once, with what was chosen.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from textsvm.bench import opponents
from textsvm.bench.corpora import Task
from textsvm.estimators.svm import SVC
from textsvm.kernels.spelling import spell
from textsvm.selection.leakage import LeakageWarning
from textsvm.selection.tuning import Tuning, tune

OPPONENT = opponents.FIRST


def judge(model: Any, task: Task) -> dict[str, Any]:
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
    task: Task, model: SVC, grid: Mapping[str, Any] | Sequence[Mapping[str, Any]], cv: int, repeats: int = 1
) -> Tuning:
    """`tune` on the training part."""
    with warnings.catch_warnings():
        # Newswire and mail repeat themselves; folds are only used to compare settings here.
        warnings.simplefilter("ignore", LeakageWarning)
        return tune(model, task.train, task.y_train, grid, cv=cv, repeats=repeats, random_state=0)


def chosen(task: Task, model: SVC, found: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the report: the setting of one row of `Tuning.table`, trained anew and tested."""
    fresh = clone(model).set_params(**found["params"])
    return {
        "corpus": task.name,
        "classifier": "SVC, " + described(found["params"]),
        "cross-validation %": f"{100 * found['mean']:.2f}",
        **judge(fresh, task),
    }


def judge_opponent(task: Task) -> dict[str, Any]:
    """The opponent's row."""
    return {
        "corpus": task.name,
        "classifier": OPPONENT,
        "cross-validation %": "",
        **judge(opponents.first(), task),
    }


def best_of(found: Tuning, **params: Any) -> Mapping[str, Any]:
    """The row of the table that `tune` would choose among those with these parameters."""
    rows = [row for row in found.table if all(row["params"].get(k) == v for k, v in params.items())]
    return min(rows, key=lambda row: (-row["mean"], row["params"]["C"]))


def described(params: Mapping[str, Any]) -> str:
    """A setting in words."""
    words = {name: f"{name}={value}" for name, value in sorted(params.items(), reverse=True)}
    return ", ".join((words | {"kernel": spell(params["kernel"])}).values())


def warm_up(model: SVC, grid: Mapping[str, Any], task: Task, n: int = 400) -> None:
    """Compile what will be timed, on a few documents."""
    step = max(1, len(task.train) // n)
    few = Task("", task.train[::step], task.y_train[::step], task.test[: n // 2], task.y_test[: n // 2])
    for kernel in grid["kernel"]:
        judge(clone(model).set_params(kernel=kernel), few)
