"""The settings of a grid on all folds of one Gram after the other, and which is best so far."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm import device as devices
from textsvm.errors import InputError
from textsvm.estimators.base import KernelMachine, Prepared, Target
from textsvm.parallel import StageProgress, of_stage
from textsvm.selection.cross_validation import first_folds
from textsvm.selection.folds import as_groups, make_folds
from textsvm.selection.grid import Setting, simplicity
from textsvm.selection.scoring import (
    fold_scores,
    judge,
    labels_of,
    mean_and_sd,
    metric_names,
    paths_along_c,
    solve_folds,
)
from textsvm.solvers.problems import Machines

#: Metrics of which less is better.
LESS_IS_BETTER = ("mae", "rmse")


class Search:
    """Settings, folds, and what is known of them so far."""

    def __init__(
        self,
        settings: list[Setting],
        target: Target,
        weight: NDArray[np.float64] | None,
        metric: str | None,
    ) -> None:
        self.settings, self.target, self.weight = settings, target, weight
        self.metric = metric or ("accuracy" if target.classes is not None else "r2")
        metric_names(target, [self.metric])
        self.names = metric_names(target, None)
        #: Metrics of the table; the area under the curve would take longer than all else.
        self.quick = [name for name in self.names if name == self.metric or name != "roc_auc"]
        #: Metrics of each setting tried, on each of all folds; and its seconds.
        self.tried: dict[int, list[dict[str, float]]] = {}
        self.seconds: dict[int, float] = {}
        self.best: int | None = None
        self.best_machines: list[Machines] = []

    def split(
        self,
        cv: Any,
        groups: ArrayLike | None,
        repeats: int,
        random_state: int | None,
        group_duplicates: float | None,
        nested: int | None,
    ) -> None:
        """Make the folds, and check that every model can be trained on each."""
        target = self.target
        self.folds = first_folds(cv, target, groups, repeats, random_state, group_duplicates)
        self.all_folds = list(self.folds)
        #: Metrics wanted of each of all folds.
        self.wanted = [self.quick] * len(self.folds)
        #: Which of all folds choose the setting of each outer fold, and which one judges it.
        self.inner: list[tuple[range, int]] = []
        if nested is not None:
            if not isinstance(cv, int | np.integer) and not hasattr(cv, "split"):
                raise InputError("nested tuning splits training parts; give cv as a number of folds")
            for train, test in make_folds(nested, target, groups, 1, random_state):
                some = None if groups is None else as_groups(groups, len(target.values))[train]
                part = Target(target.values[train], target.classes)
                try:
                    inside = make_folds(cv, part, some, repeats, random_state)
                except InputError as error:
                    raise InputError(f"inside an outer fold of nested tuning, {error}") from error
                first = len(self.all_folds)
                self.wanted += [[self.metric]] * len(inside) + [self.names]
                self.all_folds += [(train[a], train[b]) for a, b in inside] + [(train, test)]
                self.inner.append((range(first, first + len(inside)), first + len(inside)))
        for path in paths_along_c([setting.model for setting in self.settings]):
            for train, _ in self.all_folds:
                self.settings[path[0]].model.problem(target, train, self.weight)

    def run(
        self,
        members: Sequence[int],
        prepared: Prepared,
        seconds: dict[str, float],
        progress: StageProgress | None,
    ) -> None:
        """Try the settings of one Gram, and fit the best of all so far if it is one of them."""
        clock = start = time.perf_counter()
        models = [self.settings[k].model for k in members]
        gram, target, folds = prepared.gram, self.target, self.all_folds
        machines = solve_folds(models, gram, target, folds, self.weight, of_stage(progress, "solve"))
        clock = lap(seconds, "solve", clock)
        values = fold_scores(models, gram, target, folds, machines)
        truth = labels_of(target)
        for k, model, of_model in zip(members, models, values, strict=True):
            self.tried[k] = [
                judge(model, truth[test], value, target, names)
                for (_, test), value, names in zip(folds, of_model, self.wanted, strict=True)
            ]
        clock = lap(seconds, "score", clock)
        for k in members:
            self.seconds[k] = (clock - start) / len(members)
        best = self.choose(range(len(self.folds)))
        if best in members:
            self.best, self.best_machines = best, machines[members.index(best)]
            self.refit(self.settings[best].model, prepared)
            lap(seconds, "solve", clock)

    def refit(self, model: KernelMachine, prepared: Prepared) -> None:
        everyone = np.arange(len(self.target.values))
        [[machines]] = solve_folds([model], prepared.gram, self.target, [(everyone, everyone)], self.weight)
        model.device_ = devices.select(model.device)
        model.keep(prepared, self.target, machines)

    def choose(self, folds: Iterable[int]) -> int:
        """The setting with the best mean over some folds; the simplest of equal ones."""
        sign = -1 if self.metric in LESS_IS_BETTER else 1
        places = list(folds)

        def merit(k: int) -> tuple[float, ...]:
            mean = mean_and_sd([self.tried[k][fold] for fold in places])[0][self.metric]
            return (np.inf if np.isnan(mean) else -sign * mean, *simplicity(self.settings[k]), k)

        return min(self.tried, key=merit)

    def table(self) -> list[dict[str, Any]]:
        """What is known of each setting tried, in the order of the grid."""
        rows = []
        for k in sorted(self.tried):
            on_folds = self.tried[k][: len(self.folds)]
            mean, sd = mean_and_sd(on_folds)
            rows.append(
                {
                    "params": self.settings[k].params,
                    "mean": mean[self.metric],
                    "sd": sd[self.metric],
                    "folds": [row[self.metric] for row in on_folds],
                    "metrics": mean,
                    "seconds": self.seconds[k],
                }
            )
        return rows

    def nested(self) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
        """Settings chosen on the inner folds of each outer one, and their metrics on the outer one."""
        chosen = [self.choose(inside) for inside, _ in self.inner]
        judged = [self.tried[k][outer] for k, (_, outer) in zip(chosen, self.inner, strict=True)]
        return [self.settings[k].params for k in chosen], judged


def lap(seconds: dict[str, float], stage: str, since: float) -> float:
    """Add the time since then to a stage; the time now."""
    now = time.perf_counter()
    seconds[stage] += now - since
    return now
