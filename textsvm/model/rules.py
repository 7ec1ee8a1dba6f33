"""Decision rules of trained models: from the values of the machines to decision values and predictions.

A positive value of a two-class machine means the second class. `ClassRule` has a machine for each class
against the rest ("ovr", "crammer-singer"), or for each pair of classes ("ovo"), which vote; with "ordered"
the machine of a class is a sum of machines of higher against lower classes. `CalibratedRule` adds
probabilities: the decision value f of a class is mapped by either of

    sigmoid    p = 1 / (1 + exp(a f + b))                  (Platt 1999)
    isotonic   p = interpolation of increasing points (x, y)   (Zadrozny and Elkan 2002)

and with more than two classes the probabilities are divided by their sum. A `ClassRule` with a scale t, which
fits decision values of texts that the machines were not trained on, has probabilities without such maps,

    softmax    p_k = exp(t f_k) / sum over j of exp(t f_j)     (Guo et al. 2017)

with two classes 1 / (1 + exp(-t f)), and the predicted class is the likeliest. `LabelRule` predicts a set of
labels, `NumberRule` a number, `NoveltyRule` inside or outside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import combinations, pairwise
from typing import Any, ClassVar, TypeGuard

import numpy as np

from textsvm.arrays import AnyArray, Arrays, Bools, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.base import is_number
from textsvm.model.conformal import Conformity
from textsvm.model.labels import FORMS, in_form

MAX_SCALE = 100.0  #: Largest scale of decision values in probabilities.
TOLERANCE = 1e-12  #: Decrease of the mean loss, and size of a step, at which `fit_logistic` ends.
UNSURE = "unsure"  #: The prediction for a rejected text.


class Rule(ABC):
    """Turns the values of the machines of a model into decision values and predictions."""

    estimator: ClassVar[str]  #: Name of the estimator in model files and reports.
    classes: Any = None  #: shape (n_classes,): Sorted classes or labels; None for numbers and novelty.

    @property
    def n_machines(self) -> int:
        """Number of machines that the rule needs."""
        return 1

    def scores(self, values: Floats) -> Floats:
        """Decision values, shape (n,) or (n, n_classes), from values of the machines, (n, n_machines)."""
        return values[:, 0]

    @abstractmethod
    def predictions(self, scores: Floats) -> AnyArray:
        """Predictions from decision values; of several labels an indicator matrix, shape (n, n_classes)."""

    def to_target_type(self, predictions: AnyArray) -> Any:
        """Predictions in the form in which targets were given for training."""
        return predictions

    def machine_names(self) -> list[str]:
        """A name for each machine, for messages."""
        return [""] if self.classes is None else [f"{a!s} against the rest" for a in self.classes]

    def machine_weights(self, positive: object = None) -> tuple[Floats, list[Any]]:
        """Weights of the machines in each decision value, (n_values, n_machines), and labels of the values.

        Two classes have a single value, for the class `positive` (None: the second class).
        """
        return np.ones((1, 1)), [None]

    def with_offsets(self, offsets: Floats | None) -> Rule:
        """The rule with another offset or threshold for each class, for rules that learn these from folds."""
        return self


@dataclass(frozen=True, eq=False)
class ClassRule(Rule):
    """A class for each text."""

    classes: AnyArray
    strategy: str = "ovr"  #: {"ovr", "ovo", "crammer-singer", "ordered", "ordered:A<B<..."}
    #: shape (n_classes,): Added to the decision values of the classes; None for 0.
    offsets: Floats | None = None
    scale: float | None = None  #: Scale of the decision values in probabilities; None without probabilities.
    #: Two thresholds of the probability of the second class, or the least probability of a predicted class.
    reject: Sequence[float] | float | None = None

    estimator = "SVC"

    @property
    def n_machines(self) -> int:
        n = len(self.classes)
        return n * (n - 1) // 2 if self.in_pairs else n

    @property
    def in_pairs(self) -> bool:
        """Whether each machine tells two classes apart."""
        return self.strategy == "ovo" or (len(self.classes) == 2 and self.strategy != "crammer-singer")

    def scores(self, values: Floats) -> Floats:
        if len(self.classes) == 2 and values.shape[1] == 2:
            return values[:, 1] - values[:, 0]  # Crammer-Singer; the margin is on the difference
        return class_scores(values, len(self.classes), self.strategy)

    def predictions(self, scores: Floats) -> AnyArray:
        if self.reject is not None:
            return self.decide(self.probabilities(scores))
        scores = self._moved(scores)
        return self.classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def probabilities(self, scores: Floats) -> Floats:
        """Probabilities, shape (n, n_classes), of decision values, shape (n,) or (n, n_classes)."""
        assert self.scale is not None
        return softmax(self.scale * by_class(self._moved(scores)))

    def decide(self, probabilities: Floats) -> AnyArray:
        """The most probable class of each text, shape (n,); "unsure" if it is rejected."""
        best = probabilities.argmax(axis=1)
        if self.reject is None:
            return self.classes[best]
        bounds = np.atleast_1d(np.asarray(self.reject, float))
        if len(bounds) == 2:
            best = (probabilities[:, 1] >= bounds[1]).astype(int)
            unsure = (probabilities[:, 1] > bounds[0]) & (probabilities[:, 1] < bounds[1])
        else:
            unsure = probabilities.max(axis=1) < bounds[0]
        labels = self.classes[best].astype(object)
        labels[unsure] = UNSURE
        return labels

    def _moved(self, scores: Floats) -> Floats:
        return scores if self.offsets is None else scores + added_bias(self.offsets, scores.ndim)

    def machine_names(self) -> list[str]:
        if self.in_pairs:
            return [f"{a!s} against {b!s}" for a, b in combinations(self.classes, 2)]
        if self.strategy.startswith("ordered"):
            return [f"level {k} against those above" for k in range(1, len(self.classes) + 1)]
        return super().machine_names()

    def machine_weights(self, positive: object = None) -> tuple[Floats, list[Any]]:
        labels, n = self.classes.tolist(), len(self.classes)
        if n > 2:
            return np.stack([_class_mix(self.strategy, a, n) for a in range(n)]), labels
        mix = np.array([[-1.0, 1.0]]) if self.n_machines == 2 else np.ones((1, 1))
        return (-mix, labels[:1]) if positive is not None and positive == labels[0] else (mix, labels[1:])

    def with_offsets(self, offsets: Floats | None) -> ClassRule:
        return replace(self, offsets=offsets)


def class_scores(values: Floats, n_classes: int, strategy: str) -> Floats:
    """Class scores from the values of all machines; the largest score wins.

    "ovo" counts votes, and breaks ties by the sum of the values, scaled to less than half a vote. Shapes are
    (n, n_machines) -> (n, n_classes), or (n,) if there is a single machine for two classes.
    """
    if values.shape[1] == 1:
        return values[:, 0]
    if strategy != "ovo":
        return values
    votes = np.zeros((len(values), n_classes))
    sums = np.zeros((len(values), n_classes))
    for k, (a, b) in enumerate(combinations(range(n_classes), 2)):
        second = values[:, k] > 0
        votes[:, b] += second
        votes[:, a] += ~second
        sums[:, b] += values[:, k]
        sums[:, a] -= values[:, k]
    return votes + sums / (3 * (np.abs(sums) + 1))


def _class_mix(strategy: str, a: int, n_classes: int) -> Floats:
    """Weights of the machines in the value of class `a` of more than two, shape (n_machines,)."""
    if strategy == "ovo":
        pairs = combinations(range(n_classes), 2)
        return np.array([float(second == a) - float(first == a) for first, second in pairs])
    unit = (np.arange(n_classes) == a).astype(np.float64)  # a row of np.eye would keep all rows in memory
    return unit if strategy != "crammer-singer" else (unit - (1 - unit) / (n_classes - 1))


def added_bias(offsets: Floats, ndim: int) -> Any:
    """Offsets of biases or decision values from those of classes: a number if two classes share a value."""
    return offsets if ndim > 1 else offsets[1] - offsets[0]


def margins(decision: Floats) -> Floats:
    """Margin of each text, shape (n,), from decision values, shape (n,) or (n, n_classes)."""
    if decision.ndim == 1:
        return np.abs(decision)
    ordered = np.partition(decision, -2, axis=1)
    difference: Floats = ordered[:, -1] - ordered[:, -2]
    return difference


@dataclass(frozen=True, eq=False)
class CalibratedRule(ClassRule):
    """A class for each text, with probabilities, prediction sets and a reject option."""

    _: KW_ONLY
    method: str
    #: Arrays of the maps: "a" and "b" of the sigmoids, float64, shape (n_maps,); or the points "x" and "y"
    #: of the isotonic maps, float64, and "starts", the first point of each map and the number of points,
    #: int64, shape (n_maps + 1,). There is a map for each class, or a single map for two classes.
    maps: Mapping[str, AnyArray]
    conformity: Conformity  #: Out-of-fold values of the training texts, for prediction sets

    estimator = "CalibratedSVC"

    def probabilities(self, scores: Floats) -> Floats:
        return mapped_probabilities(self.maps, scores)

    def predictions(self, scores: Floats) -> AnyArray:
        return self.decide(self.probabilities(scores))


def mapped_probabilities(maps: Mapping[str, AnyArray], scores: Floats) -> Floats:
    """Probabilities, shape (n, n_classes), of decision values by the maps of a `CalibratedRule`."""
    columns = scores[:, None] if scores.ndim == 1 else scores
    p = np.stack([_mapped(maps, k, column) for k, column in enumerate(columns.T)], axis=1)
    if p.shape[1] == 1:
        return np.concatenate([1 - p, p], axis=1)
    total = p.sum(axis=1, keepdims=True)
    return np.divide(p, total, out=np.full_like(p, 1 / p.shape[1]), where=total > 0)


def check_reject(reject: object, classes: AnyArray | None = None) -> None:
    """Raise InputError if `reject` is invalid, or does not fit the classes."""
    if reject is None:
        return
    bounds = np.atleast_1d(np.asarray(reject, object))
    if (
        not all(map(is_number, bounds))
        or bounds.ndim > 1
        or not 1 <= len(bounds) <= 2
        or not non_decreasing([0, *bounds, 1])
    ):
        raise InputError(f"reject={reject!r} is neither a probability nor two, (low, high), from 0 to 1")
    if classes is None:
        return
    if len(bounds) == 2 and len(classes) > 2:
        raise InputError(
            f"two thresholds are for two classes and there are {len(classes)}; give a single threshold"
        )
    if UNSURE in classes.tolist():
        raise InputError(f"a class is named {UNSURE!r}, the prediction for rejected documents; rename it")


def checked_maps(state: Mapping[str, AnyArray], n_classes: int) -> Arrays:
    """Check the arrays of `CalibratedRule.maps`; ValueError if they are damaged."""
    n_maps = 1 if n_classes == 2 else n_classes
    arrays = {name: np.asarray(values) for name, values in state.items()}
    if set(arrays) not in ({"a", "b"}, {"x", "y", "starts"}):
        raise ValueError("its calibration has an unknown method")
    for name, values in arrays.items():
        kind = np.int64 if name == "starts" else np.float64
        if values.ndim != 1 or values.dtype != kind or not np.isfinite(values).all():
            raise ValueError(f"its calibration {name!r} is not a row of finite numbers")
    if "a" in arrays:
        if not len(arrays["a"]) == len(arrays["b"]) == n_maps:
            raise ValueError("its calibration does not fit its classes")
    else:
        x, y, starts = arrays["x"], arrays["y"], arrays["starts"]
        if len(starts) != n_maps + 1 or starts[0] != 0 or starts[-1] != len(x) or len(x) != len(y):
            raise ValueError("its calibration does not fit its classes")
        if (starts[1:] <= starts[:-1]).any() or not non_decreasing([0, *np.sort(y), 1]):
            raise ValueError("its calibration has a map without points, or one that leaves 0..1")
        for first, last in pairwise(starts):
            if not non_decreasing(x[first:last]) or not non_decreasing(y[first:last]):
                raise ValueError("its calibration has a map that falls")
    return arrays


def non_decreasing(values: object) -> bool:
    """Whether values never fall."""
    return bool(np.all(np.diff(np.asarray(values, float)) >= 0))


def _mapped(maps: Mapping[str, AnyArray], k: int, values: Floats) -> Floats:
    """Map k of decision values, shape (n,)."""
    if "a" in maps:
        with np.errstate(over="ignore"):
            mapped: Floats = 1 / (1 + np.exp(maps["a"][k] * values + maps["b"][k]))
        return mapped
    part = slice(maps["starts"][k], maps["starts"][k + 1])
    return np.interp(values, maps["x"][part], maps["y"][part])


@dataclass(frozen=True, eq=False)
class LabelRule(Rule):
    """Any number of labels for each text: those whose decision values are above their thresholds."""

    classes: AnyArray  #: shape (n_labels,): Sorted labels; column numbers if the labels were a matrix
    thresholds: Floats | None = None  #: shape (n_labels,); None for 0
    form: str = "tuples"  #: {"tuples", "indicator", "sparse"}: Form of the training labels and of predictions

    estimator = "MultilabelSVC"

    @property
    def n_machines(self) -> int:
        return len(self.classes)

    def scores(self, values: Floats) -> Floats:
        return values

    def predictions(self, scores: Floats) -> Bools:
        """Indicator matrix of predicted labels, shape (n, n_labels); False without a machine (NaN)."""
        return scores > (0.0 if self.thresholds is None else self.thresholds)

    def to_target_type(self, predictions: AnyArray) -> Any:
        return in_form(predictions, self.classes, self.form)

    def machine_weights(self, positive: object = None) -> tuple[Floats, list[Any]]:
        return np.eye(len(self.classes)), self.classes.tolist()

    def with_offsets(self, offsets: Floats | None) -> LabelRule:
        return replace(self, thresholds=offsets)

    def check(self) -> None:
        """Raise ValueError if thresholds or form do not fit the labels."""
        if self.form not in FORMS:
            raise ValueError(f"its labels have the unknown form {self.form!r}")
        thresholds = self.thresholds
        if thresholds is None or thresholds.shape != self.classes.shape or thresholds.dtype != np.float64:
            raise ValueError("its thresholds do not fit its labels")
        if np.isnan(thresholds).any():
            raise ValueError("its thresholds are not numbers")


class NumberRule(Rule):
    """A number for each text."""

    estimator = "SVR"

    def predictions(self, scores: Floats) -> Floats:
        return scores


class NoveltyRule(Rule):
    """+1 for a text inside the region of the training texts, -1 for a text outside."""

    estimator = "OneClassSVM"

    def predictions(self, scores: Floats) -> Ints:
        return np.where(scores >= 0, 1, -1)

    def machine_weights(self, positive: object = None) -> tuple[Floats, list[Any]]:
        return np.ones((1, 1)), ["inside"]


@dataclass(frozen=True, eq=False)
class ScaledRule(ClassRule):
    """A class for each text of an online model; the scale is None if fewer than two classes have texts."""

    estimator = "OnlineSVC"

    def probabilities(self, scores: Floats) -> Floats:
        if self.scale is None:
            raise InputError("probabilities need texts of two classes or more; learn some first")
        return super().probabilities(scores)


def has_probabilities(rule: Rule) -> TypeGuard[ClassRule]:
    """Whether a rule has probabilities of the classes, by calibration or by a scale (`ClassRule.scale`)."""
    calibrated = isinstance(rule, CalibratedRule | ScaledRule)
    return calibrated or (isinstance(rule, ClassRule) and rule.scale is not None)


def by_class(decision: Floats) -> Floats:
    """Values of each class, shape (n, n_classes); with two classes 0 and the decision value."""
    return decision if decision.ndim == 2 else np.stack([np.zeros_like(decision), decision], axis=1)


def fit_logistic(
    values: Floats, targets: Floats, weight: Floats, start: tuple[float, float] = (0.0, 0.0)
) -> tuple[float, float]:
    """Slope and offset with the least weighted log loss of 1 / (1 + exp(-(slope value + offset))).

    Newton's method on a convex loss; steps that do not descend are halved (Lin, Lin and Weng 2007).
    """
    design, point = np.stack([values, np.ones_like(values)]), np.array(start)

    def loss(point: Floats) -> float:
        score = point @ design
        return float(weight @ (np.logaddexp(0.0, score) - targets * score))

    current = loss(point)
    for _ in range(100):  # four to ten are taken
        p = 1 / (1 + np.exp(-np.clip(point @ design, -700, 700)))
        gradient = design @ (weight * (p - targets))
        step = np.linalg.solve((design * (weight * p * (1 - p))) @ design.T + 1e-12 * np.eye(2), gradient)
        if gradient @ step <= TOLERANCE * weight.sum():
            point = point - step
            break
        while (following := loss(point - step)) > current and np.abs(step).max() > TOLERANCE:
            step /= 2
        point, current = point - step, following
    return float(point[0]), float(point[1])


def softmax(values: Floats) -> Floats:
    """exp(v_k) / sum over j of exp(v_j) of each row."""
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares


def scale_of(values: Floats, codes: Ints, n_classes: int) -> float | None:
    """The scale of `fit_scale`; None if fewer than two classes have texts."""
    return fit_scale(values, codes, n_classes) if len(np.unique(codes)) > 1 else None


def fit_scale(
    values: Floats, codes: Ints, n_classes: int, weight: Floats | None = None, prior: int | None = None
) -> float:
    """The scale t of the softmax that maximises the likelihood of the classes, by bisection.

    `values` are decision values of texts that the machines were not trained on. Platt's targets
    (n + 1) / (n + prior) for a class of n texts instead of 1 keep a training set without mistakes from making
    every text certain (Platt 1999; a single scale as in Guo et al. 2017). `prior` is the number of classes by
    default. The derivative of the negative logarithm of the likelihood, sum (p - y) f, rises with t.
    """
    counts = np.bincount(codes, minlength=n_classes)
    if np.count_nonzero(counts) < 2:
        raise InputError("probabilities need texts of two classes or more; learn some first")
    columns, prior = by_class(values), prior or n_classes
    own = (counts[codes] + 1) / (counts[codes] + prior)
    targets = np.repeat((1 - own[:, None]) / (n_classes - 1), n_classes, axis=1)
    targets[np.arange(len(codes)), codes] = own
    weighted = columns if weight is None else columns * weight[:, None]
    low, high = 0.0, MAX_SCALE
    for _ in range(40):
        t = (low + high) / 2
        rising = float(((softmax(t * columns) - targets) * weighted).sum()) > 0
        low, high = (low, t) if rising else (t, high)
    return (low + high) / 2
