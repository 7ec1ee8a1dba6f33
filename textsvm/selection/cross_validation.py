"""Cross-validation and learning curves on a shared Gram.

A fold trains on some of the rows and tests on others. All folds of a Gram are solved side by side, and all
decision values are a single product.

A learning curve estimates whether more texts would help. Every training part is thinned to nested shares,
class by class; all shares use the same Gram if the kernel allows it. The error with n training texts is

    error(n) = a + b n^-c,    a, b >= 0,

linear in a and b for each c of a grid; c minimises the squares of relative errors (a power law as in Cortes
et al. 1994). Its uncertainty comes from folds resampled with replacement.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Floats, Ints, Json
from textsvm.errors import InputError
from textsvm.kernels.inputs import InputTable
from textsvm.model.settings import ClassifierSettings, Fold, Settings, is_default, settings_of
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parallel import StageProgress, lap, of_stage
from textsvm.runtime.parameters import notebook_table, with_short_repr
from textsvm.runtime.plain_json import to_json
from textsvm.selection.scoring import judge, mean_and_sd, metric_names, warn_unfinished
from textsvm.training.fold_grams import FoldTask, grams_of, of_all, train_and_test
from textsvm.training.folds import Splitting, n_together, report_leaks
from textsvm.training.leakage import Leak, LeakageWarning
from textsvm.training.problems import fold_predictions, fold_values, problem_of, rule_of
from textsvm.training.targets import labels_of, with_classes
from textsvm.training.thresholds import mean_values
from textsvm.training.train import read_training_data, train_here


@with_short_repr
@dataclass(frozen=True)
class CrossValidation:
    """Outcome of a cross-validation."""

    table: list[dict[str, float]]  #: The metrics of each fold
    #: Their mean and sample standard deviation over the folds in which they are defined.
    mean: dict[str, float]
    sd: dict[str, float]
    pooled: dict[str, float]  #: The same metrics over all tested documents at once
    #: shape (n,) or (n, n_classes): Out-of-fold output of `decision_function` (regression: `predict`); the
    #: mean of several tests of a document, NaN without a test.
    decision: Floats
    #: shape (n,) or (n, n_classes): Predictions from these values; None without a test. With several labels
    #: per document an indicator matrix by majority of the tests, with thresholds from the other folds.
    predictions: AnyArray
    tested: Ints  #: shape (n,): Number of tests of each document
    folds: list[Fold]
    #: Near-duplicates between the training and the test part of each fold; empty if they were kept together.
    leaks: list[Leak]
    gram: str  #: Source of the rows of the kernel matrix
    #: Wall time of "encode", "gram", "duplicates", "solve" and "score"; also "choose" for ``SVC("auto")``.
    seconds: dict[str, float]
    #: Choice of ``SVC("auto")`` on the training part of each fold; empty for other models.
    chosen: list[str] = field(default_factory=list)
    #: Number of copies of other documents (equal but for case, spaces, punctuation and, in long texts,
    #: digits) that are in one part with them; 0 if the folds separate some.
    copies: int = 0
    #: Number of tested documents by true and then by predicted class, of at most `MOST_CLASSES` classes.
    confusion: dict[Any, dict[Any, int]] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        rows = [
            (name, self.mean[name], self.sd[name], *(row[name] for row in self.table)) for name in self.mean
        ]
        head = ("metric", "mean", "sd", *(f"fold {k}" for k in range(1, len(self.table) + 1)))
        shown = notebook_table(f"{len(self.tested):,} documents, {len(self.folds)} folds", [head, *rows])
        if not self.confusion:
            return shown
        counts = [(name, *row.values()) for name, row in self.confusion.items()]
        return shown + notebook_table("true class by predicted class", [("", *self.confusion), *counts])

    def as_dict(self) -> Json:
        """JSON values; NaN is None."""
        pairs = zip(self.folds, self.table, strict=True)
        rows = [{"n_train": len(train), "test": test, "metrics": row} for (train, test), row in pairs]
        values = {name: value for name, value in vars(self).items() if name not in ("table", "folds")}
        return to_json({"folds": rows, **values, "leaks": [leak.as_dict() for leak in self.leaks]})


def cross_validate(
    model: object,
    X: object,
    y: object,
    *,
    cv: object = 5,
    repeats: int = 1,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    metrics: Iterable[str] | None = None,
    group_duplicates: float | None = None,
    random_state: int | None = 0,
    positive: object = None,
    progress: StageProgress | None = None,
) -> CrossValidation:
    """Cross-validate a classifier or a regressor; the model itself is not changed.

    The kernel matrix of all documents is computed once, unless the kernel learns from documents (idf
    weights): then the kernel is fitted to the training part of each fold, with a matrix for each.
    ``SVC("auto")`` chooses kernel and C on the training part of each fold, without a shared matrix;
    near-duplicates are then detected with the kernel of ``SVC("fast")``. Copies, texts that are equal but for
    case, spaces, punctuation and, in long texts, digits, are in the same part of every fold.

    Parameters
    ----------
    model : SVC, MultilabelSVC or SVR
        Or the settings of such an estimator.
    X : n texts or vectors, or a kernel matrix with ``kernel="precomputed"``
    y : array-like, shape (n,)
        Labels or numbers; several labels per document as `MultilabelSVC.fit` takes them.
    cv : int, scikit-learn splitter or sequence of (train, test) index pairs
        A number of folds means shuffled folds, stratified by class for `SVC`.
    repeats : int
        Number of times that a number of folds is drawn.
    groups : array-like, shape (n,), optional
        Documents of a group are never on both sides of a fold.
    sample_weight : array-like, shape (n,), optional
        Weights in training; metrics are not weighted.
    metrics : iterable of str, optional
        Names of metrics; default all.
    group_duplicates : float, optional
        Keep documents with at least this normalised kernel value in the same part. None: a `LeakageWarning`
        reports near-duplicates (0.98 and more; vectors: 0.99999) before the work starts.
    random_state : int, optional
        Seed of the folds.
    positive : label, optional
        Positive class of two, for precision, recall, F1 and average precision; default ``classes_[1]``.
    progress : callable, optional
        Called with the stage ("encode", "gram", "duplicates", "solve" or "choose"), the work done and the
        total work.

    Raises
    ------
    InputError
        If an argument is invalid; before the work starts.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, cross_validate
    >>> texts = ["red apple", "red cherry", "ripe apple", "ripe cherry"]
    >>> texts += ["fast car", "fast train", "slow car", "slow train"]
    >>> result = cross_validate(SVC(Spectrum(2)), texts, ["fruit"] * 4 + ["ride"] * 4, cv=4)
    >>> result.pooled["accuracy"]
    1.0
    """
    settings, started = settings_of(model), time.perf_counter()
    examples, target, weight = read_training_data(settings, X, y, sample_weight, positive, groups)
    names = metric_names(target, metrics)
    splitting = Splitting(cv, None, repeats, random_state, group_duplicates)
    task = FoldTask(target, weight, splitting.folds(target))
    for train, _ in task.folds:
        problem_of(settings, target, train, weight)
    call = partial(_test_folds, settings, examples, task, splitting, names, progress)
    checked = time.perf_counter() - started
    result = devices.run_on(settings.device, call)
    result.seconds["check"] = result.seconds.get("check", 0.0) + checked
    return replace(result, copies=n_together(target.copies, result.folds))


def _test_folds(
    settings: Settings,
    examples: Any,
    task: FoldTask,
    splitting: Splitting,
    names: list[str],
    progress: StageProgress | None,
    device: str,
) -> CrossValidation:
    """Cross-validate on validated examples; `splitting` draws other folds if near-duplicates are grouped."""
    settings, leaks = settings.on(device), list[Leak]()
    seconds = dict.fromkeys(("encode", "gram", "duplicates", "solve", "score"), 0.0)
    with settings.at_work(devices.select(settings.device)):
        clock = time.perf_counter()
        encoded = with_classes(settings.source.encode(examples, None, progress), task.target)
        grams = grams_of(settings, encoded, task)
        clock = lap(seconds, "encode", clock)
        whole = grams.near_duplicate_rows(progress)
        clock = lap(seconds, "gram", clock)
        step = of_stage(progress, "duplicates")
        if splitting.group_duplicates is not None:
            task = replace(task, folds=splitting.with_duplicates(whole, step).folds(task.target))
        else:
            leaks = report_leaks(whole, task.folds, step)
        lap(seconds, "duplicates", clock)
        if isinstance(settings, ClassifierSettings) and is_default(settings.kernel):
            grams.release()
            values, chosen = choose_and_test(settings, examples, task, seconds, progress)
            description = "of each fold its own, or none where features are enough"
            return _judged(
                settings, task, values, names, leaks=leaks, gram=description, seconds=seconds, chosen=chosen
            )
        tested = train_and_test([settings], grams, task, seconds, progress)
    warn_unfinished(settings, tested.machines[0], task.target)
    description = grams.describe(tested.description, task.folds)
    return _judged(settings, task, tested.values[0], names, leaks=leaks, gram=description, seconds=seconds)


def choose_and_test(
    settings: ClassifierSettings,
    texts: list[str] | InputTable,
    task: FoldTask,
    seconds: dict[str, float],
    progress: StageProgress | None,
) -> tuple[list[Floats], list[str]]:
    """Decision values of the test parts by models of the training parts, and their choices."""
    values, chosen, labels = [], [], labels_of(task.target)
    for number, (train, test) in enumerate(task.folds):
        step = of_all(progress, number, len(task.folds))
        weight = None if task.weight is None else task.weight[train]
        groups = task.target.take(train).groups
        # `fold_values` learns offsets from the other folds.
        plain = replace(settings, scoring="accuracy")
        model = train_here(plain, _rows_of(texts, train), labels[train], weight, step, groups)
        for stage, spent in model.record.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
        clock = time.perf_counter()
        values.append(model.decision_function(_rows_of(texts, test)))
        lap(seconds, "score", clock)
        chosen += [model.record.chosen] if model.record.chosen else []
    return values, chosen


def _rows_of(texts: list[str] | InputTable, rows: Ints) -> list[str] | InputTable:
    return texts.take(rows) if isinstance(texts, InputTable) else [texts[i] for i in rows]


def _judged(
    settings: Settings, task: FoldTask, values: list[Floats], names: list[str], **facts: Any
) -> CrossValidation:
    """Outcome from the decision values of the test parts; `facts` are its other fields."""
    clock, target = time.perf_counter(), task.target
    truth = labels_of(target)
    tests = [test for _, test in task.folds]
    predicted = fold_predictions(settings, values, task.folds, target)
    folds = zip(tests, values, predicted, strict=True)
    table = [judge(truth[test], value, target, names, labels) for test, value, labels in folds]
    decision, tested = mean_values(fold_values(settings, values, task.folds, target), task.folds, len(truth))
    if target.multilabel:
        share, _ = mean_values([labels.astype(float) for labels in predicted], task.folds, len(truth))
        predictions = share > 0.5
    else:
        predictions = rule_of(settings, target).predictions(decision)
        if (tested == 0).any():
            predictions = predictions.astype(object)
            predictions[tested == 0] = None
    rows = tested > 0
    pooled = judge(truth[rows], decision[rows], target, names, predictions[rows])
    mean, sd = mean_and_sd(table)
    classes = [] if target.classes is None or target.multilabel else target.classes.tolist()
    if 0 < len(classes) <= MOST_CLASSES:
        counts = Counter(zip(truth[rows].tolist(), predictions[rows].tolist(), strict=True))
        facts["confusion"] = {a: {b: counts[a, b] for b in classes} for a in classes}
    lap(facts["seconds"], "score", clock)
    return CrossValidation(table, mean, sd, pooled, decision, predictions, tested, list(task.folds), **facts)


MOST_CLASSES = 11  #: Number of classes up to which `CrossValidation.confusion` is counted
SHARES = (0.1, 0.2, 0.4, 0.8)  #: Shares of the training texts, besides all of them.
#: Grid of the exponent c, and number of resamples of the folds.
POWERS, RESAMPLES = np.linspace(0.1, 1.5, 29), 300
WORTH = 0.05  #: Smallest share of the error that counts as a gain.


@dataclass(frozen=True)
class LearningCurve:
    """Errors by the number of training texts."""

    metric: str  #: The error is the metric itself ("mae"), or 1 less the metric
    n: Floats  #: shape (n_points,): Number of training texts, mean over folds
    error: Floats  #: shape (n_points,): Mean and sample standard deviation over folds.
    sd: Floats
    power_law: tuple[float, float, float]  #: a, b and c
    expected: float  #: Predicted error with twice as many training texts
    interval: tuple[float, float]  #: Of `expected`, 95 % over folds
    gain: tuple[float, float, float]  #: Predicted fall of the error with twice as many texts, and its bounds

    @property
    def would_help(self) -> str:
        """Whether more texts would help: "yes", "hardly" or "unclear"."""
        worth, (_, low, high) = WORTH * self.error[-1], self.gain
        if low >= worth > 0:
            return "yes"
        return "hardly" if high <= worth else "unclear"

    def law(self, n: ArrayLike) -> Floats:
        """Fitted error with n training texts."""
        return _at(self.power_law, np.asarray(n, float))

    def as_dict(self) -> Json:
        """JSON values."""
        return to_json({**vars(self), "would_help": self.would_help})


def learning_curve(
    model: object,
    X: object,
    y: object,
    result: CrossValidation,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    progress: StageProgress | None = None,
) -> LearningCurve:
    """Learning curve: errors of the cross-validation `result`, and of its folds thinned to `SHARES`.

    `groups` are those of `result`. Raises InputError if there are too few texts.
    """
    metric = next(name for name in ("mae", "micro_f1", "accuracy") if name in result.mean)
    strata = np.zeros(len(result.tested)) if metric != "accuracy" else np.asarray(y, object)
    folds = []
    for fold, (train, test) in enumerate(result.folds):
        # Nested shares of the training part, class by class, with a document of each class at least.
        mixed = np.random.default_rng(fold).permutation(train)
        classes = [mixed[strata[mixed] == name] for name in np.unique(strata[train])]
        for share in SHARES:
            part = np.concatenate([rows[: max(1, round(share * len(rows)))] for rows in classes])
            folds.append((np.sort(part), test))
    if min(len(part) for part, _ in folds) < 4:
        raise InputError(
            f"{len(result.tested):,} documents are too few for a learning curve; a tenth of a training part "
            "must be 4 at least"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakageWarning)  # `cross_validate` has warned about these folds
        thin = cross_validate(
            model, X, y, cv=folds, groups=groups, sample_weight=sample_weight, metrics=[metric],
            progress=progress,
        )  # fmt: skip
    k = len(result.folds)
    fewer = np.array([row[metric] for row in thin.table]).reshape(k, len(SHARES))
    values = np.column_stack([fewer, [row[metric] for row in result.table]])
    sizes = np.array([len(part) for part, _ in folds]).reshape(k, -1)
    sizes = np.column_stack([sizes, [len(train) for train, _ in result.folds]])
    return fit_learning_curve(metric, sizes.mean(axis=0), values if metric == "mae" else 1 - values)


def fit_learning_curve(metric: str, n: Floats, errors: Floats) -> LearningCurve:
    """Fit a curve to the errors of each fold, (n_folds, n_points), for ascending numbers of texts."""
    mean = errors.mean(axis=0)
    law, random = _power_law(n, mean), np.random.default_rng(0)
    drawn = errors[random.integers(0, len(errors), (RESAMPLES, len(errors)))].mean(axis=1)
    predicted = np.array([_at(_power_law(n, error), np.array([n[-1], 2 * n[-1]])) for error in drawn])
    now, twice = _at(law, np.array([n[-1], 2 * n[-1]]))
    low, high = np.percentile(predicted[:, 1], [2.5, 97.5])
    least, most = np.percentile(predicted[:, 0] - predicted[:, 1], [2.5, 97.5])
    sd = errors.std(axis=0, ddof=1) if len(errors) > 1 else np.full(len(n), np.nan)
    gain = float(now - twice), float(least), float(most)
    return LearningCurve(metric, n, mean, sd, law, float(twice), (float(low), float(high)), gain)


def _power_law(n: Floats, error: Floats) -> tuple[float, float, float]:
    """a, b and c that minimise the squares of relative residuals."""
    laws = []
    weight = 1 / np.maximum(error, 1e-3 * max(float(error.max()), 1e-12))
    for c in POWERS.tolist():
        basis = np.column_stack([np.ones(len(n)), (n / n[-1]) ** -c])
        (a, b), residual = scipy.optimize.nnls(basis * weight[:, None], error * weight)
        laws.append((float(residual), (float(a), float(b * n[-1] ** c), c)))
    return min(laws)[1]


def _at(law: tuple[float, float, float], n: Floats) -> Floats:
    a, b, c = law
    return a + b * n**-c
