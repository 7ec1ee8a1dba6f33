"""The settings of a grid on all folds, one kernel after the other, and which is best so far."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.machines.base import KernelMachine
from textsvm.machines.targets import Target
from textsvm.machines.training import Prepared
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.selection.fold_grams import FoldGrams, Task, train_and_test
from textsvm.selection.folds import as_groups
from textsvm.selection.grid import Setting, simplicity
from textsvm.selection.scoring import (
    AREAS,
    judge,
    labels_of,
    mean_and_sd,
    metric_names,
    paths_along_c,
    solve_folds,
)
from textsvm.selection.splitting import Splitting
from textsvm.solvers.problems import Machines

#: Metrics of which less is better.
LESS_IS_BETTER = ("mae", "rmse", "hamming_loss")


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
        usual = "micro_f1" if target.multilabel else "accuracy"
        self.metric = metric or (usual if target.classes is not None else "r2")
        metric_names(target, [self.metric])
        self.names = metric_names(target, None)
        #: Metrics of the table; areas under curves would take longer than all else.
        self.quick = [name for name in self.names if name == self.metric or name not in AREAS]
        #: Metrics of each setting tried, on each of all folds; and its seconds.
        self.tried: dict[int, list[dict[str, float]]] = {}
        self.seconds: dict[int, float] = {}
        self.best: int | None = None
        self.best_machines: list[Machines] = []

    def split(self, splitting: Splitting, nested: int | None) -> None:
        """Make the folds, and check that every model can be trained on each."""
        self.folds = splitting.folds(self.target)
        self.all_folds = list(self.folds)
        #: Metrics wanted of each of all folds.
        self.wanted = [self.quick] * len(self.folds)
        #: Which of all folds choose the setting of each outer fold, and which one judges it.
        self.inner: list[tuple[range, int]] = []
        if nested is not None:
            splitting.require_number("nested tuning splits training parts; give cv as a number of folds")
            outer = replace(splitting, cv=nested, repeats=1, group_duplicates=None)
            for train, test in outer.quietly(self.target):
                self._add_nested(splitting, train, test)
        for path in paths_along_c([setting.model for setting in self.settings]):
            for train, _ in self.all_folds:
                self.settings[path[0]].model.problem(self.target, train, self.weight)

    def _add_nested(self, splitting: Splitting, train: NDArray[np.int64], test: NDArray[np.int64]) -> None:
        """Add an outer fold, and those inside of its training part."""
        target, groups = self.target, splitting.groups
        some = None if groups is None else as_groups(groups, len(target.values))[train]
        try:
            inside = replace(splitting, groups=some, group_duplicates=None).quietly(
                replace(target, values=target.values[train])
            )
        except InputError as error:
            raise InputError(f"inside an outer fold of nested tuning, {error}") from error
        first = len(self.all_folds)
        self.wanted += [[self.metric]] * len(inside) + [self.names]
        self.all_folds += [(train[a], train[b]) for a, b in inside] + [(train, test)]
        self.inner.append((range(first, first + len(inside)), first + len(inside)))

    def run(
        self,
        members: Sequence[int],
        grams: FoldGrams,
        seconds: dict[str, float],
        progress: StageProgress | None,
    ) -> None:
        """Try the settings of one kernel, and fit the best of all so far if it is one of them."""
        start = time.perf_counter()
        models = [self.settings[k].model for k in members]
        task = Task(self.target, self.weight, self.all_folds)
        found = train_and_test(models, grams, task, seconds, progress)
        truth, clock = labels_of(self.target), time.perf_counter()
        for k, model, of_model in zip(members, models, found.values, strict=True):
            said = self.predictions(model, of_model)
            self.tried[k] = [
                judge(model, truth[test], value, self.target, names, predicted)
                for (_, test), value, names, predicted in zip(
                    self.all_folds, of_model, self.wanted, said, strict=True
                )
            ]
        clock = lap(seconds, "score", clock)
        for k in members:
            self.seconds[k] = (clock - start) / len(members)
        best = self.choose(range(len(self.folds)))
        if best in members:
            self.best, self.best_machines = best, found.machines[members.index(best)]
            whole = grams.whole(progress)
            clock = lap(seconds, "gram", clock)
            model, values = self.settings[best].model, found.values[members.index(best)]
            self.refit(model, whole)
            model.learn_from_folds(values[: len(self.folds)], self.folds, self.target)
            lap(seconds, "solve", clock)

    def predictions(self, model: KernelMachine, values: Sequence[NDArray[np.float64]]) -> list[NDArray[Any]]:
        """What is predicted on all folds; an outer fold goes by the folds inside of its training part."""
        some = len(self.folds)
        found = model.fold_predictions(values[:some], self.folds, self.target)
        for inside, outer in self.inner:
            numbers = list(inside)
            folds = [self.all_folds[k] for k in numbers]
            of_inner = [values[k] for k in numbers]
            found += model.fold_predictions(of_inner, folds, self.target)
            learnt = model.copy()
            learnt.learn_from_folds(of_inner, folds, self.target)
            found.append(learnt.predictions(values[outer], self.target.classes))
        return found

    def refit(self, model: KernelMachine, prepared: Prepared) -> None:
        """Fit a model to all documents."""
        everyone = np.arange(len(self.target.values))
        [[machines]] = solve_folds([model], prepared.gram, self.target, [(everyone, everyone)], self.weight)
        model.device_ = devices.select(model.device)
        model.keep(prepared, self.target, machines)

    def best_model(self) -> KernelMachine:
        """The best of all so far, fitted."""
        assert self.best is not None
        return self.settings[self.best].model

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
