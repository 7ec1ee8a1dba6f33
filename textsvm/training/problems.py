"""From settings and targets to learning problems, decision rules, and offsets by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from textsvm.arrays import AnyArray, Floats, Ints, first_true
from textsvm.errors import InputError
from textsvm.model.labels import as_indicator
from textsvm.model.rules import ClassRule, LabelRule, NoveltyRule, NumberRule, Rule, added_bias
from textsvm.model.settings import (
    ClassifierSettings,
    Fold,
    MultilabelSettings,
    NoveltySettings,
    RegressionSettings,
    Settings,
)
from textsvm.solvers.problems import Classification, Labelling, OneClass, Problem, Regression
from textsvm.training.targets import Target, as_classes, as_numbers, class_factors
from textsvm.training.thresholds import choose_offsets, choose_thresholds, mean_values, out_of_fold_values


def as_target(settings: Settings, y: object, n: int) -> Target:
    """Check the targets of n examples; InputError if there are not n, or a target is unusable."""
    if isinstance(settings, ClassifierSettings):
        classes, codes = as_classes(y, n)
        return Target(codes, classes)
    if isinstance(settings, MultilabelSettings):
        labels, indicator, form = as_indicator(y, n)
        return Target(indicator, labels, form)
    return Target(np.zeros(n) if isinstance(settings, NoveltySettings) else as_numbers(y, n), None)


def problem_of(
    settings: Settings, target: Target, index: Ints, sample_weight: Floats | None = None
) -> Problem:
    """The learning problem of the rows `index`; InputError if there is nothing to learn from them.

    `target` and `sample_weight`, shape (n,), are of all n examples; class weights count these rows only.
    Labels that none or all of the rows have are left out.
    """
    weight = np.ones(len(index)) if sample_weight is None else sample_weight[index]
    if isinstance(settings, MultilabelSettings):
        return Labelling(index, target.values[index], float(settings.C), weight)
    if not isinstance(settings, ClassifierSettings):
        if not weight.any():
            raise InputError("sample_weight is zero for all documents; there is nothing to learn from")
        if isinstance(settings, NoveltySettings):
            return OneClass(index, float(settings.nu), weight)
        assert isinstance(settings, RegressionSettings)
        return Regression(index, target.values[index], float(settings.C), weight, float(settings.epsilon))
    assert target.classes is not None
    codes = target.values[index]
    totals: Floats = np.bincount(codes, weight, len(target.classes)).astype(np.float64)
    if (a := first_true(totals == 0)) is not None:
        weightless = (codes == a).any()
        why = "sample_weight is zero for all of its documents" if weightless else "it has no document"
        raise InputError(f"there is nothing to learn the class {target.classes[a]!s} from: {why}")
    factors = class_factors(settings.class_weight, target.classes, totals)
    C, loss, weight = float(settings.C), settings.loss or "hinge", weight * factors[codes]
    strategy = settings.multiclass.partition(":")[0]
    levels = levels_of(settings.multiclass, target.classes) if strategy == "ordered" else None
    return Classification(index, codes, len(target.classes), C, weight, strategy, loss, levels)


def levels_of(multiclass: str, classes: AnyArray) -> Ints:
    """The level of each class, from 0: by their names as numbers, or as "ordered:A<B<..." orders them."""
    names, order = [str(name) for name in classes.tolist()], multiclass.partition(":")[2]
    places = [name.strip() for name in order.split("<")]
    values: list[float] = []
    for name in names:
        if order and places.count(name) != 1:
            raise InputError(
                f'multiclass="{multiclass}" must name each class once, the lowest first, and names {name!r} '
                f"{places.count(name)} times"
            )
        try:
            value = float(places.index(name) if order else name)
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            raise InputError(
                f"ordered classes are numbers, and {name!r} is none: name all of them, the lowest first, "
                'such as multiclass="ordered:low<medium<high" (--multiclass)'
            )
        if value in values:
            other = names[values.index(value)]
            raise InputError(f"the ordered classes {other} and {name} are the same number")
        values.append(value)
    return np.argsort(np.argsort(values))


def rule_of(settings: Settings, target: Target) -> Rule:
    """Decision rule for targets of this kind, without offsets, and with thresholds of 0."""
    if isinstance(settings, NoveltySettings):
        return NoveltyRule()
    if target.classes is None:
        return NumberRule()
    if isinstance(settings, ClassifierSettings):
        return ClassRule(target.classes, settings.multiclass)
    assert target.form is not None
    return LabelRule(target.classes, np.zeros(len(target.classes)), target.form)


def count_support(settings: Settings, target: Target, support: Ints, coef: Floats) -> Ints:
    """Number of support vectors of each class, or of each machine of several labels, shape (n_classes,)."""
    if isinstance(settings, MultilabelSettings):
        return (coef != 0).sum(axis=1)
    if target.classes is None:
        return np.array([len(support)])
    return np.bincount(target.values[support], minlength=len(target.classes)).astype(np.int64)


def fit_offsets(
    settings: Settings, values: Sequence[Floats], folds: Sequence[Fold], target: Target
) -> Floats | None:
    """Offsets of classes or thresholds of labels, from decision values of test parts; None if not learnt."""
    if isinstance(settings, MultilabelSettings):
        if not values or settings.thresholds == "zero":
            return np.zeros(target.values.shape[1])
        decision, tested = mean_values(values, folds, len(target.values))
        rows = tested > 0 if target.weight is None else (tested > 0) & (target.weight > 0)
        return choose_thresholds(decision[rows], target.values[rows])
    if isinstance(settings, ClassifierSettings) and settings.scoring != "accuracy":
        return choose_offsets(out_of_fold_values(values, folds, target), target)
    return None


def _offsets_for(
    settings: Settings, values: Sequence[Floats], folds: Sequence[Fold], target: Target, test: Ints
) -> Floats:
    """Offsets or thresholds for a test part, from the other documents."""
    weight = np.ones(len(target.values)) if target.weight is None else target.weight.copy()
    weight[test] = 0
    return np.asarray(fit_offsets(settings, values, folds, replace(target, weight=weight)))


def fold_values(
    settings: Settings, values: Sequence[Floats], folds: Sequence[Fold], target: Target
) -> list[Floats]:
    """Decision values of each test part, with offsets of classes from the other folds."""
    if not isinstance(settings, ClassifierSettings) or settings.scoring == "accuracy" or len(folds) < 2:
        return list(values)
    return [
        scores + added_bias(_offsets_for(settings, values, folds, target, test), scores.ndim)
        for scores, (_, test) in zip(values, folds, strict=True)
    ]


def fold_predictions(
    settings: Settings, values: Sequence[Floats], folds: Sequence[Fold], target: Target
) -> list[AnyArray]:
    """Predictions of each test part, with offsets or thresholds from the other folds."""
    if not isinstance(settings, MultilabelSettings):
        rule = rule_of(settings, target)
        return [rule.predictions(scores) for scores in fold_values(settings, values, folds, target)]
    return [
        scores > _offsets_for(settings, values, folds, target, test)
        for scores, (_, test) in zip(values, folds, strict=True)
    ]
