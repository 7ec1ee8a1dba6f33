"""A classifier that moves its biases for macro-F1, and adapts to unlabelled texts.

Offsets for macro-F1: a constant for the bias of each class. Coordinate ascent maximises macro-F1 + 0.5
accuracy of out-of-fold values; a step is accepted if it gains more than 0.5/sqrt(n). With the default
kernels, near-copies of a text are in the same fold. Offsets are the mean of five searches, each without a
fifth of the documents, as the thresholds of `selection.multilabel`.
reports/default_study.md has figures.

Adaptation: self-training. In each round a larger share of the unlabelled texts of each predicted class, those
with the largest margins, joins the training texts under their predicted labels. The quotas by class keep a
frequent class from taking the texts of the others. It pays if the unlabelled texts differ from the training
texts, so that their margins are smaller than out-of-fold margins; if they differ too much, predicted labels
are bad, and more of them make the model worse. reports/adapt.md has figures.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.choice.candidates import Candidate
from textsvm.errors import InputError
from textsvm.evaluation.drift import margins
from textsvm.machines.base import Fold
from textsvm.machines.classifier import ROUGHER, Classifier, rare_class_bias
from textsvm.machines.targets import Target
from textsvm.runtime.parallel import StageProgress, lap

if TYPE_CHECKING:
    from typing import Self

SCORINGS = ("accuracy", "f1_macro")
#: Folds of the out-of-fold values.
FOLDS = 3
#: The solver's tolerance for the out-of-fold values of kernel="auto" and "fast".
TOLERANCE = 0.1
#: Seconds in which near-copies must be found, by prediction.
COMPARISON = 3.0
#: Offsets: number of searches, each without one part of the documents.
PARTS = 5
#: Offsets: most rounds of a search.
ROUNDS = 3
#: Offsets: smallest gain of a step, times the root of n.
GAIN = 0.5
#: Offsets: weight of accuracy beside macro-F1.
ACCURACY = 0.5
#: Offsets: steps in units of the standard deviation of the values.
STEPS = (-0.8, -0.4, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.4, 0.8)
#: Adaptation: rounds of training.
TRAININGS = 4
#: Adaptation: fewest texts.
FEWEST = 50
#: Adaptation: bounds of the ratio of margins.
MARGINS = (0.7, 0.95)
NEEDS_DECISION_VALUES = (
    '{} needs decision values of classes, and multiclass="ovo" has votes; take "ovr" or "crammer-singer"'
)


@dataclass(frozen=True)
class Adaptation:
    """Decision of the gate of `SVC.adapt`."""

    adapted: bool
    margin_ratio: float  #: Median margin of the unlabelled texts, divided by the out-of-fold median margin
    texts: int
    added: int  #: Texts that joined the training texts in the last round

    def __str__(self) -> str:
        bounds = "its range of {} to {}".format(*MARGINS)
        ratio = f"median margin {self.margin_ratio:.2f} of that of held-out training texts"
        if self.adapted:
            return f"adapted with {self.added:,} of {self.texts:,} texts: {ratio}, in {bounds}"
        return f"not adapted to {self.texts:,} texts: {ratio}, outside {bounds}"


@dataclass(repr=False, eq=False)
class AdaptiveClassifier(Classifier):
    """The machine of `textsvm.SVC`, with offsets and adaptation."""

    _: KW_ONLY
    scoring: str = "accuracy"

    def check(self) -> None:
        super().check()
        if not isinstance(self.scoring, str) or self.scoring not in SCORINGS:
            raise InputError(f"scoring={self.scoring!r} is not one of {', '.join(SCORINGS)}")
        if self.scoring != "accuracy" and self.multiclass == "ovo":
            raise InputError(NEEDS_DECISION_VALUES.format('scoring="f1_macro"'))

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, progress: StageProgress | None = None
    ) -> Self:
        if self.scoring != "accuracy":
            self._checked_weights(X, y, sample_weight, 'scoring="f1_macro"')
        super().fit(X, y, sample_weight, progress)
        if self.scoring != "accuracy":
            clock = time.perf_counter()
            self._move_biases(choose_offsets(*self._out_of_fold(X, y, sample_weight, progress)))
            lap(self.seconds_, "offsets", clock)
        return self

    def adapt(
        self,
        X: Any,
        y: Any,
        unlabelled: Any,
        sample_weight: ArrayLike | None = None,
        progress: StageProgress | None = None,
    ) -> Self:
        """Adapt to the texts to be classified by self-training, if a gate expects a gain.

        The gate compares the median margin of the unlabelled texts with that of held-out training texts: it
        accepts a ratio of 0.7 to 0.95. The gate takes two to three times the time of `fit`, adaptation about
        five times more. Both are deterministic.

        Parameters
        ----------
        X, y, sample_weight, progress
            The training texts, see `fit`. A fitted model is not trained on them again before the gate.
        unlabelled : 50 texts or more
            The texts to be classified, or others of their kind.

        Returns
        -------
        SVC
            A new fitted classifier; if the gate refuses, with the predictions of this one. Its attribute
            ``adaptation_`` has the gate's figures and decision, ``str(adaptation_)`` is a sentence.
        """
        if self.multiclass == "ovo":
            raise InputError(NEEDS_DECISION_VALUES.format("adapt"))
        machine: Self = self if "support_" in vars(self) else self.copy()
        given, texts = machine.copy().validate(X), machine.copy().validate(unlabelled)
        if not (isinstance(given, list) and isinstance(texts, list)):
            raise InputError("adapt needs texts; it has no use for vectors, tables or a kernel matrix")
        if len(texts) < FEWEST:
            raise InputError(f"adapt needs {FEWEST} unlabelled texts or more, got {len(texts)}")
        weight = machine._checked_weights(given, y, sample_weight, "adapt")
        if machine is not self:
            machine.fit(given, y, sample_weight, progress)
        held, target = machine._out_of_fold(given, y, sample_weight, progress)
        if target.classes is None or target.classes.tolist() != machine.classes_.tolist():
            raise InputError("the labels of X are not the classes of this model; give its training texts")
        decision, chosen = machine.decision_function(texts), np.empty(0, np.int64)
        if self.scoring != "accuracy":  # out-of-fold values have no offsets
            decision = decision - offset_of_bias(choose_offsets(held, target), decision.ndim)
        ratio = float(np.median(margins(decision)) / max(np.nanmedian(margins(held)), 1e-12))
        adapted, result = MARGINS[0] <= ratio <= MARGINS[1], copy.copy(machine)
        known = target.classes[target.values]
        for number in range(1, TRAININGS + 1) if adapted else ():
            chosen = most_confident(decision, number / (TRAININGS + 1))
            labels = np.append(known, machine.predictions(decision[chosen], machine.classes_))
            weights = np.append(weight, np.full(len(chosen), weight[weight > 0].mean()))
            every = [*given, *(texts[i] for i in chosen)]
            result = machine._fixed(ROUGHER * machine.tol)
            result.fit(every, labels, weights, progress)
            result.chosen_ = machine.chosen_
            result.set_params(**machine.get_params(deep=False))
            bias = result._rare_class_bias(result.as_target(labels, len(every)), weights)
            result.intercept_ = np.asarray(result.intercept_ + bias)
            decision = result.decision_function(texts)
        if adapted and self.scoring != "accuracy":
            result._move_biases(choose_offsets(*result._out_of_fold(every, labels, weights, progress)))
        vars(result)["adaptation_"] = Adaptation(adapted, ratio, len(texts), len(chosen))
        return result

    def _checked_weights(self, X: Any, y: Any, given: Any, name: str) -> NDArray[np.float64]:
        """Weights of the training texts; InputError if cross-validation cannot test two classes."""
        texts, target, weight = self.copy()._validate_training_data(X, y, given)
        self.problem(target, np.arange(len(texts)), weight)  # InputError for a class without weight
        weight = np.ones(len(texts)) if weight is None else weight
        few, most = np.sort(np.bincount(target.values[weight > 0]))[-2:]
        if few < 2:
            raise InputError(f"{name} needs 2 texts of two classes to cross-validate, got {most} and {few}")
        return weight

    def _fixed(self, tol: float) -> Self:
        """An unfitted copy with the kernel, C and loss of this machine; `tol` if a default chose them."""
        model = self.copy().set_params(scoring="accuracy", time_budget=None)
        if getattr(self, "chosen_", ""):
            kernel: Any = self.kernel_
            model.set_params(kernel=kernel.__sklearn_clone__(), C=self.C_, loss=self.loss_, tol=tol)
        return model

    def _rare_class_bias(self, target: Target, weight: NDArray[np.float64] | None) -> Any:
        if not getattr(self, "chosen_", "") or self.multiclass != "ovr":
            return 0.0
        problem = self.problem(target, np.arange(len(target.values)), weight)
        return rare_class_bias(np.bincount(problem.target, problem.weight).astype(float))

    def _out_of_fold(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, progress: StageProgress | None
    ) -> tuple[NDArray[np.float64], Target]:
        """Out-of-fold decision values of the training texts of this fitted machine; NaN without a test."""
        from textsvm.selection import fold_grams, folds, scoring

        model = self._fixed(TOLERANCE)
        given, target, weight = scoring.read_training_data(model, X, y, sample_weight)
        rows = np.flatnonzero(np.ones(len(given)) if weight is None else weight)
        groups = self._near_copies(given, target)
        groups = None if groups is None else groups[rows]
        parts = folds.Splitting(FOLDS, groups).quietly(Target(target.values[rows], target.classes))
        task = fold_grams.Task(target, weight, [(rows[train], rows[test]) for train, test in parts])
        values = fold_grams.fit_with_folds(model, given, task, {}, progress)
        return out_of_fold_values(values, task.folds, target) + self._rare_class_bias(target, weight), target

    def _near_copies(self, texts: Any, target: Target) -> NDArray[np.int64] | None:
        """The group of each text, which is in one fold; None without near-copies or with another kernel."""
        if not getattr(self, "chosen_", ""):
            return None
        from textsvm.choice.choose import near_copies

        groups = near_copies(self._encode_for(Candidate(plain=1.0), texts, target, None), COMPARISON)
        return None if groups is None or groups.max() + 1 == len(groups) else groups

    def fold_values(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> list[NDArray[np.float64]]:
        if self.scoring == "accuracy" or len(folds) < 2:
            return list(values)
        decision, shifted = out_of_fold_values(values, folds, target), []
        for scores, (_, test) in zip(values, folds, strict=True):
            others = decision.copy()
            others[test] = np.nan
            shifted.append(scores + offset_of_bias(choose_offsets(others, target), scores.ndim))
        return shifted

    def learn_from_folds(
        self, values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
    ) -> None:
        if self.scoring == "accuracy":
            return
        offsets = choose_offsets(out_of_fold_values(values, folds, target), target)
        if "intercept_" in vars(self):
            self._move_biases(offsets)
        else:
            self._offsets = offsets  # of a copy that is never fitted

    def predictions(self, scores: NDArray[np.float64], classes: NDArray[Any] | None) -> NDArray[Any]:
        if "_offsets" in vars(self):
            scores = scores + offset_of_bias(self._offsets, scores.ndim)
        return super().predictions(scores, classes)

    def _move_biases(self, offsets: NDArray[np.float64]) -> None:
        """Add the offsets of the classes to the biases."""
        self.intercept_ = self.intercept_ + offset_of_bias(offsets, 1 + (len(self.intercept_) > 1))


def out_of_fold_values(
    values: Sequence[NDArray[np.float64]], folds: Sequence[Fold], target: Target
) -> NDArray[np.float64]:
    """Decision values of all documents; NaN without a test, the last value of several."""
    decision = np.full((len(target.values), *values[0].shape[1:]), np.nan)
    for scores, (_, test) in zip(values, folds, strict=True):
        decision[test] = scores
    return decision


def choose_offsets(decision: NDArray[np.float64], target: Target) -> NDArray[np.float64]:
    """Offset of each class, shape (n_classes,), from out-of-fold values; NaN, without a test, is ignored."""
    assert target.classes is not None
    columns = np.column_stack([-decision / 2, decision / 2]) if decision.ndim == 1 else decision
    known = ~np.isnan(columns).any(axis=1)
    columns, truth = columns[known], target.values[known]
    part = np.random.default_rng(0).permutation(len(truth)) % PARTS
    kept = [part != number for number in range(PARTS)] if len(truth) >= 2 * PARTS else [part >= 0]
    unit, n_classes = float(columns.std()), len(target.classes)
    return np.mean([_ascend(columns[rows], truth[rows], n_classes, unit) for rows in kept], axis=0)


def _ascend(
    values: NDArray[np.float64], truth: NDArray[np.int64], n_classes: int, unit: float
) -> NDArray[np.float64]:
    """Offsets by coordinate ascent, the rarest class first."""
    offsets, totals = np.zeros(n_classes), np.bincount(truth, minlength=n_classes)
    order = [k for k in np.argsort(totals, kind="stable") if totals[k]]
    best = _merit(values.argmax(axis=1), truth, totals)
    for _ in range(ROUNDS):
        before = best
        for k in order[: 1 if n_classes == 2 else None]:
            moved = values + offsets
            own = moved[:, k].copy()
            moved[:, k] = -np.inf
            other = moved.argmax(axis=1)
            lead = own - moved.max(axis=1)
            merits = [_merit(np.where(lead + step * unit > 0, k, other), truth, totals) for step in STEPS]
            if max(merits) > best + GAIN / np.sqrt(len(truth)):
                best = max(merits)
                offsets[k] += STEPS[merits.index(best)] * unit
        if best == before:
            break
    return np.asarray(offsets - offsets.mean())


def _merit(predicted: NDArray[np.int64], truth: NDArray[np.int64], totals: NDArray[np.int64]) -> float:
    """Macro-F1 over the classes with documents, plus a share of the accuracy."""
    right = predicted == truth
    hits = np.bincount(truth[right], minlength=len(totals))
    f1 = 2 * hits / np.maximum(totals + np.bincount(predicted, minlength=len(totals)), 1)
    return float(f1[totals > 0].mean() + ACCURACY * right.mean())


def offset_of_bias(offsets: NDArray[np.float64], ndim: int) -> Any:
    """Offsets of biases or decision values from those of classes: a number if two classes have one value."""
    return offsets if ndim > 1 else offsets[1] - offsets[0]


def most_confident(decision: NDArray[np.float64], share: float) -> NDArray[np.int64]:
    """Sorted indices of this share (rounded up) of each predicted class, with the largest margins."""
    codes = decision.argmax(axis=1) if decision.ndim == 2 else decision > 0
    order = np.argsort(-margins(decision), kind="stable")
    by_class = [order[codes[order] == k] for k in np.unique(codes)]
    return np.sort(np.concatenate([rows[: int(np.ceil(share * len(rows)))] for rows in by_class]))
