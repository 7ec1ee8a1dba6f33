"""Search of a grid: metrics of each setting on all folds, the best setting so far, and a file to resume from.

The file has a line of JSON for each setting; a search that was interrupted continues with equal results.
Results of another version of textsvm are computed again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from textsvm.arrays import AnyArray, Floats, Json
from textsvm.errors import InputError, os_errors, warn_user
from textsvm.model.settings import ClassifierSettings, Settings, is_default
from textsvm.model.trained import TrainedModel
from textsvm.runtime import device as devices
from textsvm.runtime.files import replacing
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.runtime.plain_json import checked_line, read_line, to_json
from textsvm.selection.cross_validation import choose_and_test
from textsvm.selection.grid import GridPoint, SharedExamples, simplicity
from textsvm.selection.scoring import AREAS, judge, mean_and_sd, metric_names
from textsvm.solvers.problems import Machines
from textsvm.training.fold_grams import FoldGrams, FoldTask, paths_along_c, solve_folds, train_and_test
from textsvm.training.folds import Splitting, as_groups
from textsvm.training.grams import PreparedRows
from textsvm.training.problems import fit_offsets, fold_predictions, problem_of, rule_of
from textsvm.training.targets import Target, labels_of
from textsvm.training.thresholds import out_of_fold_values
from textsvm.training.train import assemble, learn_from_values, train_here, with_scale
from textsvm.version import __version__

LESS_IS_BETTER = ("mae", "rmse", "hamming_loss")  #: Metrics for which less is better.


class GridSearch:
    """Settings, folds, and the metrics of the settings tried so far."""

    def __init__(
        self, points: list[GridPoint], target: Target, weight: Floats | None, metric: str | None
    ) -> None:
        self.points, self.target, self.weight = points, target, weight
        usual = "micro_f1" if target.multilabel else "accuracy"
        [self.metric] = metric_names(target, [metric or (usual if target.classes is not None else "r2")])
        self.names = metric_names(target, None)
        #: Metrics of the table; areas under curves would take most of the time.
        self.quick = [name for name in self.names if name == self.metric or name not in AREAS]
        #: By the index of each point tried: its metrics on each fold, and its seconds.
        self.tried: dict[int, list[dict[str, float]]] = {}
        self.seconds: dict[int, float] = {}
        self.best: int | None = None
        self.best_machines: list[Machines] = []
        self.best_model: TrainedModel | None = None  #: Trained on all examples

    def split(self, splitting: Splitting, nested: int | None) -> None:
        """Draw the folds, and check that every model can be trained on each.

        `nested` is the number of outer folds.
        """
        self.splitting, self.n_outer = splitting, nested
        self.folds = splitting.folds(self.target)
        self.all_folds = list(self.folds)
        self.wanted = [self.quick] * len(self.folds)  #: Names of the metrics computed on each fold.
        #: For each outer fold: the indices of its inner folds, which choose its setting, and its own.
        self.inner: list[tuple[range, int]] = []
        if nested is not None:
            splitting.require_number("nested tuning splits training parts; give cv as a number of folds")
            outer = replace(splitting, cv=nested, repeats=1, group_duplicates=None)
            for train, test in outer.quietly(self.target):
                groups = splitting.groups
                of_train = None if groups is None else as_groups(groups, len(self.target.values))[train]
                of_part = replace(splitting, groups=of_train, group_duplicates=None)
                try:
                    inside = of_part.quietly(self.target.take(train))
                except InputError as error:
                    raise InputError(f"inside an outer fold of nested tuning, {error}") from error
                first = len(self.all_folds)
                self.wanted += [[self.metric]] * len(inside) + [self.names]
                self.all_folds += [(train[a], train[b]) for a, b in inside] + [(train, test)]
                self.inner.append((range(first, first + len(inside)), first + len(inside)))
        for path in paths_along_c([point.settings for point in self.points]):
            for train, _ in self.all_folds:
                problem_of(self.points[path[0]].settings, self.target, train, self.weight)

    def run(
        self, members: list[int], grams: FoldGrams, seconds: dict[str, float], progress: StageProgress | None
    ) -> None:
        """Try the settings of a kernel; if the best so far is among them, fit it to all documents."""
        start = time.perf_counter()
        settings = [self.points[k].settings for k in members]
        task = FoldTask(self.target, self.weight, self.all_folds)
        tested = train_and_test(settings, grams, task, seconds, progress)
        clock = time.perf_counter()
        for k, values in zip(members, tested.values, strict=True):
            self.judge(k, values)
        best = self.choose(range(len(self.folds)))
        clock = lap(seconds, "score", clock)
        for k in members:
            self.seconds[k] = (clock - start) / len(members)
        if best in members:
            self.best, self.best_machines = best, tested.machines[members.index(best)]
            whole = grams.whole(progress)
            clock = lap(seconds, "gram", clock)
            place = members.index(best)
            self.best_model = self.refit(settings[place], whole, tested.values[place])
            lap(seconds, "solve", clock)

    def judge(self, k: int, values: Sequence[Floats]) -> None:
        """Metrics of a setting, given its decision values on all folds."""
        settings, truth = self.points[k].settings, labels_of(self.target)
        folds = zip(self.all_folds, values, self.wanted, self.predictions(settings, values), strict=True)
        self.tried[k] = [
            judge(truth[test], value, self.target, names, predicted)
            for (_, test), value, names, predicted in folds
        ]

    def try_default(self, k: int, examples: Any, seconds: dict[str, float]) -> None:
        """Try kernel="auto", which chooses a kernel on the training part of each fold."""
        start, settings = time.perf_counter(), self.points[k].settings
        assert isinstance(settings, ClassifierSettings)
        task = FoldTask(self.target, self.weight, self.all_folds)
        values = choose_and_test(settings, examples, task, seconds, None)[0]
        clock = time.perf_counter()
        self.judge(k, values)
        best = self.choose(range(len(self.folds)))
        clock = lap(seconds, "score", clock)
        self.seconds[k] = clock - start
        if best == k:
            self.best, self.best_machines = k, []
            labels = labels_of(self.target)
            model = train_here(settings, examples, labels, self.weight, groups=self.target.groups)
            decision = out_of_fold_values(values[: len(self.folds)], self.folds, self.target)
            self.best_model = with_scale(model, decision, labels, self.weight)
            lap(seconds, "solve", clock)

    def predictions(self, settings: Settings, values: Sequence[Floats]) -> list[AnyArray]:
        """Predictions on all folds; the thresholds of an outer fold come from its inner folds."""
        predictions = fold_predictions(settings, values[: len(self.folds)], self.folds, self.target)
        for inside, outer in self.inner:
            folds, inner_values = [self.all_folds[k] for k in inside], [values[k] for k in inside]
            predictions += fold_predictions(settings, inner_values, folds, self.target)
            offsets = fit_offsets(settings, inner_values, folds, self.target)
            rule = rule_of(settings, self.target).with_offsets(offsets)
            predictions.append(rule.predictions(values[outer]))
        return predictions

    def refit(self, settings: Settings, prepared: PreparedRows, values: Sequence[Floats]) -> TrainedModel:
        """Train on all examples, and learn the rule from decision values on the folds."""
        rows, folds = np.arange(len(self.target.values)), self.folds
        [[machines]] = solve_folds([settings], prepared.gram, self.target, [(rows, rows)], self.weight)
        own = values[: len(folds)]
        rule, machines = learn_from_values(settings, self.target, self.weight, machines, own, folds)
        return assemble(
            settings, prepared.kernel, prepared.examples, self.target, machines, rule,
            seconds=dict(prepared.seconds), gram=prepared.description, device=devices.select(settings.device),
        )  # fmt: skip

    def choose(self, folds: Iterable[int]) -> int:
        """Index of the setting with the best mean over some folds; among equals the simplest.

        kernel="auto" is chosen unless another setting is better by more than a standard error of the
        differences on the folds.
        """
        sign = -1 if self.metric in LESS_IS_BETTER else 1
        places = list(folds)

        def merit(k: int) -> tuple[float, ...]:
            mean = mean_and_sd([self.tried[k][fold] for fold in places])[0][self.metric]
            return (np.inf if np.isnan(mean) else -sign * mean, *simplicity(self.points[k]), k)

        best = min(self.tried, key=merit)
        for default in (k for k in self.tried if is_default(self.points[k].settings.kernel)):
            both = ([self.tried[k][fold][self.metric] for fold in places] for k in (best, default))
            of_best, of_default = map(np.array, both)
            gain = sign * (of_best - of_default)
            if not gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)):
                return default
        return best

    def table(self) -> list[Json]:
        """Rows of the settings tried, in the order of the grid; see `textsvm.selection.tuning.Tuning`."""
        rows = []
        for k in sorted(self.tried):
            on_folds, metric = self.tried[k][: len(self.folds)], self.metric
            mean, sd = mean_and_sd(on_folds)
            row = {"params": self.points[k].params, "mean": mean[metric], "sd": sd[metric], "metrics": mean}
            rows.append(row | {"folds": [values[metric] for values in on_folds], "seconds": self.seconds[k]})
        return rows

    def nested(self) -> tuple[list[Json], list[dict[str, float]]]:
        """Parameters chosen on the inner folds of each outer fold, and their metrics on the outer fold."""
        chosen = [self.choose(inside) for inside, _ in self.inner]
        judged = [self.tried[k][outer] for k, (_, outer) in zip(chosen, self.inner, strict=True)]
        return [self.points[k].params for k in chosen], judged


_HEAD = "textsvm tune"


class TrialFile:
    """File of the settings tried in a search, whose results it restores, and to which new results are added.

    `data` are the documents and other inputs of the results. Raises InputError if the file belongs to another
    search, or cannot be read or written.
    """

    def __init__(self, path: Path, search: GridSearch, data: object) -> None:
        self.path, self.search, self._begun = path, search, False
        self._outdated = False  # whether another version of textsvm wrote the file
        self.keys = [_key(point.settings) for point in search.points]
        folds = [(train.tolist(), test.tolist()) for train, test in search.all_folds]
        self._of = joblib.hash([data, search.target.values.tolist(), search.weight, folds, search.metric])
        self._head = json.dumps({_HEAD: 2, "of": self._of, "textsvm": __version__}) + "\n"
        results = self._read()
        for k, key in enumerate(self.keys):
            if key is not None and key in results:
                search.tried[k], search.seconds[k] = results[key]["folds"], results[key]["seconds"]

    def _read(self) -> dict[str, Json]:
        """Lines by setting; damaged lines, such as a truncated last line, are ignored."""
        try:
            first, _, rest = self.path.read_text("utf-8").partition("\n")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path} cannot be read as the table of a search: {error}") from error
        if first and first + "\n" != self._head:
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                self._outdated = bool(json.loads(first)["of"] == self._of)
            if self._outdated:
                warn_user(
                    f"{self.path} has results of another version of textsvm than {__version__}; all settings "
                    "are tried again",
                    UserWarning,
                )
                return {}
            raise InputError(
                f"{self.path} is the table of another search (other documents, labels, folds or metric), or "
                "none; name another file"
            )
        rows = {}
        for line in rest.splitlines():
            try:
                row = read_line(line.encode())
                if self._fits(row["folds"], row["seconds"]):
                    rows[row["setting"]] = row
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        return rows

    def _fits(self, folds: Any, seconds: Any) -> bool:
        """Whether a line has numbers for the metrics of every fold; otherwise the setting is tried again."""
        names: dict[tuple[str, ...], set[str]] = {}
        return len(folds) == len(self.search.all_folds) and all(
            self.search.metric in fold
            and names.setdefault(tuple(wanted), {*fold}) == {*fold}
            and all(isinstance(value, int | float) for value in (seconds, *fold.values()))
            for fold, wanted in zip(folds, self.search.wanted, strict=True)
        )

    def add(self, members: Sequence[int]) -> None:
        """Write the results of some settings."""
        text = ""
        for k in (k for k in members if self.keys[k] is not None):
            # Python floats, NaN among them
            folds = [{name: float(value) for name, value in fold.items()} for fold in self.search.tried[k]]
            text += checked_line({"setting": self.keys[k], "seconds": self.search.seconds[k], "folds": folds})
        with os_errors(f"cannot write {self.path}"):
            if self._has_begun():
                with self.path.open("rb+") as stream:
                    stream.seek(-1, os.SEEK_END)
                    cut_off = stream.read() != b"\n"  # by a kill, or a full disk
                    stream.write(b"\n" * cut_off + text.encode())
            else:
                with replacing(self.path) as temporary:
                    temporary.write_text(self._head + text, "utf-8", newline="\n")

    def _has_begun(self) -> bool:
        """Whether the file has results to add to; InputError if another search has created it meanwhile."""
        if self._outdated:
            self._begun, self._outdated = True, False
            return False
        begun = self.path.exists() and self.path.stat().st_size > 0
        if begun and not self._begun:
            self._read()
        self._begun = True
        return begun


def _key(settings: Settings) -> str | None:
    """Identity of a setting; None for a kernel that cannot be compared between processes."""
    if is_default(settings.kernel) or not (kernel := settings.new_kernel()).structure.comparable:
        return None
    parameters = settings.as_dict()
    # Device, memory and where the kernel matrix is kept do not change results; the encoder is in the kernel.
    del parameters["device"], parameters["compute"], parameters["encoder"]
    parameters["solver"] = settings.compute_options.solver
    return json.dumps(to_json({**parameters, "kernel": kernel.structure.as_dict()}), sort_keys=True)


def left(shared: Sequence[SharedExamples], tried: Any, first: bool) -> list[SharedExamples]:
    """Kernels with settings left to try; `first`: also the first kernel, which finds near-duplicates."""
    remaining = []
    for number, group in enumerate(shared):
        first_kernel = min(range(len(group.kernels)), key=lambda k: group.kernels[k].structure.learns)
        keep = [
            k
            for k, members in enumerate(group.members)
            if (first and number == 0 and k == first_kernel) or not all(m in tried for m in members)
        ]
        if keep:
            kernels, members = [group.kernels[k] for k in keep], [group.members[k] for k in keep]
            remaining.append(replace(group, kernels=kernels, members=members))
    return remaining
