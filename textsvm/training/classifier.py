"""Trainer of classifiers: with kernel="auto" or "fast" it chooses kernel, C and loss.

With scoring="f1_macro" the biases get offsets (`textsvm.training.thresholds`) from three-fold
cross-validation. With the default kernels, near-copies of a text are in the same fold.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import Floats, Ints
from textsvm.choice import candidates
from textsvm.choice.candidates import Candidate
from textsvm.choice.choose import choose, near_copies, weigh_encoder
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.encoder import as_encoder
from textsvm.model.settings import ClassifierSettings, is_default
from textsvm.model.trained import TrainedModel
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress, lap
from textsvm.sources.texts import TextSource
from textsvm.text.documents import Documents, MultiView
from textsvm.training.grams import can_square_hinge, solve_problem
from textsvm.training.problems import classification, fit_offsets
from textsvm.training.targets import Target, labels_of, with_classes
from textsvm.training.thresholds import out_of_fold_values
from textsvm.training.train import (
    assemble,
    read_training_data,
    train_machines,
    with_bias,
    with_offsets,
    with_scale,
)

#: Change of the bias of a class, for kernel="auto" and "fast", when its total weight falls by a factor of e;
#: half as much with two classes.
RARE = 0.05
MANY = 1000  #: Number of texts below which this change is larger
#: Folds of the out-of-fold values.
FOLDS = 3
#: The solver's tolerance for the out-of-fold values of kernel="auto" and "fast".
TOLERANCE = 0.1
#: Seconds in which near-copies must be found, by prediction.
COMPARISON = 3.0


@dataclass(frozen=True)
class ChosenKernel:
    """Kernel, C and loss of "auto" or "fast", and how they were chosen."""

    kernel: Kernel
    C: float
    loss: str
    description: str  #: A sentence
    accuracy: float | None = None  #: Held-out accuracy of the trial that was chosen
    n_trials: int = 0
    decision: Floats | None = None  #: Held-out decision values of that trial, if it tested all texts


def train_classifier(
    settings: ClassifierSettings,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None = None,
    progress: StageProgress | None = None,
) -> TrainedModel:
    """Train a classifier."""
    if settings.scoring != "accuracy":
        checked_weights(settings, X, y, sample_weight, 'scoring="f1_macro"')
    if is_default(settings.kernel):
        model = _choose_and_train(settings, X, y, sample_weight, progress)
    else:
        model = train_machines(settings, X, y, sample_weight, progress)
    if settings.scoring == "accuracy":
        return model
    clock, seconds = time.perf_counter(), dict(model.record.seconds)
    model = with_fitted_offsets(settings, model, X, y, sample_weight, progress)
    lap(seconds, "offsets", clock)
    return model.with_record(seconds=seconds)


def _choose_and_train(
    settings: ClassifierSettings, X: Any, y: Any, weights: ArrayLike | None, progress: StageProgress | None
) -> TrainedModel:
    texts, target, weight = read_training_data(settings, X, y, weights)
    device, seconds = devices.select(settings.device), dict[str, float]()
    with settings.at_work(device):
        clock = time.perf_counter()
        default = _default(settings, texts, target)
        documents = encode_for(settings, default, texts, target, progress)
        clock = lap(seconds, "encode", clock)
        chosen = _choice(settings, default, documents, target, weight, progress)
        lap(seconds, "choose", clock)
        problem = classification(settings, target, np.arange(len(texts)), weight, chosen.C)
        problem = replace(problem, loss=chosen.loss)
        machines, gram = solve_problem(settings, chosen.kernel, documents, problem, device, seconds, progress)
    model = assemble(
        settings, chosen.kernel, documents, target, machines,
        seconds=seconds, gram=gram, device=device, C=float(chosen.C), loss=chosen.loss,
        chosen=chosen.description, held_out_accuracy=chosen.accuracy, n_trials=chosen.n_trials,
    )  # fmt: skip
    bias = default_bias(settings, target, weight)
    model = with_bias(model, bias)
    # Probabilities are fitted to held-out values of the trials, unless their machines are of another kind, or
    # offsets for macro-F1 will move the decision values.
    if chosen.decision is None or (settings.multiclass, settings.scoring) != ("ovr", "accuracy"):
        return model
    return with_scale(model, chosen.decision + bias, labels_of(target), weight)


def choose_kernel(
    settings: ClassifierSettings,
    texts: list[str],
    target: Target,
    weight: Floats | None,
    progress: StageProgress | None,
) -> ChosenKernel:
    """Kernel, C and loss of kernel="auto" or "fast"."""
    default = _default(settings, texts, target)
    with settings.at_work(devices.select(settings.device)):
        documents = encode_for(settings, default, texts, target, progress)
        return _choice(settings, default, documents, target, weight, progress)


def _default(settings: ClassifierSettings, texts: list[str], target: Target) -> Candidate:
    folded, n_classes = settings.normalise != "none", int(target.values.max()) + 1
    fast = settings.kernel != "auto"
    default = candidates.fast(texts, folded) if fast else candidates.auto(texts, folded, n_classes)
    if settings.encoder is not None:
        default = replace(default, encoder=as_encoder(settings.encoder))
    return default if settings.loss is None else default.with_loss(settings.loss)


def encode_for(
    settings: ClassifierSettings,
    default: Candidate,
    texts: list[str],
    target: Target,
    progress: StageProgress | None,
) -> Documents | MultiView:
    """Texts encoded for the kernel of a candidate; InputError if all are empty."""
    documents = TextSource(default.kernel(), settings.text_form).encode(texts, None, progress)
    if not documents.lengths.any():
        raise InputError("every document is empty once it is normalised; give documents with some text")
    return with_classes(documents, target)


def _choice(
    settings: ClassifierSettings,
    default: Candidate,
    documents: Documents | MultiView,
    target: Target,
    weight: Floats | None,
    progress: StageProgress | None,
) -> ChosenKernel:
    """Kernel, C and loss of the default, or chosen by trials within `time_budget`.

    The loss is hinge if machines with the squared hinge loss cannot be trained.
    """
    problem = classification(settings, target, np.arange(len(documents)), weight, 1.0)
    if (
        settings.loss is None
        and default.loss != "hinge"
        and not can_square_hinge(
            settings, default.kernel(), documents, problem, devices.select(settings.device)
        )
    ):
        default = default.with_loss("hinge")
    sentence = ""
    if default.encoder is not None:
        default, weighed = weigh_encoder(default, documents, target.copies, problem.weight)
        sentence = f"; {weighed}"
    C, budget = float(settings.C), settings.time_budget
    if budget is None or settings.kernel == "fast":
        return ChosenKernel(default.kernel(), default.C * C, default.loss, default.description(C) + sentence)
    choice = choose(default, documents, target.copies, problem.weight, C, budget, progress)
    return ChosenKernel(
        choice.kernel, choice.C, default.loss, choice.description + sentence, choice.accuracy,
        len(choice.trials), choice.decision,
    )  # fmt: skip


def rare_class_bias(totals: Floats, n: int) -> Floats:
    """Additions to the biases of one-vs-rest machines that favour rare classes, shape (n_machines,).

    `totals` are the sums of the weights of the classes, and n is the number of texts. A machine decides its
    own support vectors with their dual variables, which are larger in rare classes, and new texts without
    them: the more so, the fewer texts there are (reports/learning_curves.md). The addition grows with
    sqrt(1 / n) down to 100 texts.
    """
    logs, rare = np.log(totals), RARE * np.sqrt(np.clip(MANY / n, 1, 10))
    if len(logs) == 2:
        return np.array([rare * (logs[0] - logs[1]) / 2])
    return np.asarray(rare * (logs.mean() - logs))


def default_bias(settings: ClassifierSettings, target: Target, weight: Floats | None) -> Floats | float:
    """Additions to the biases of machines of "auto" and "fast"; 0 if they are not one-vs-rest."""
    if settings.multiclass != "ovr":
        return 0.0
    problem = classification(settings, target, np.arange(len(target.values)), weight)
    totals = np.bincount(problem.target, problem.weight).astype(np.float64)
    return rare_class_bias(totals, int(np.count_nonzero(problem.weight)))


def checked_weights(
    settings: ClassifierSettings, X: Any, y: Any, sample_weight: ArrayLike | None, name: str
) -> Floats:
    """Weights of the training texts; InputError if cross-validation cannot test two classes."""
    texts, target, weight = read_training_data(settings, X, y, sample_weight)
    classification(settings, target, np.arange(len(texts)), weight)  # InputError for a class without weight
    weight = np.ones(len(texts)) if weight is None else weight
    few, most = np.sort(np.bincount(target.values[weight > 0]))[-2:]
    if few < 2:
        raise InputError(f"{name} needs 2 texts of two classes to cross-validate, got {most} and {few}")
    return weight


def with_chosen(settings: ClassifierSettings, model: TrainedModel, tol: float) -> ClassifierSettings:
    """Settings to train without a choice: kernel, C and loss of a model; `tol` if a default chose them."""
    fixed = replace(settings, scoring="accuracy", time_budget=None, encoder=None)
    record, kernel = model.record, model.kernel
    if not record.chosen:
        return fixed
    assert kernel is not None
    assert record.C is not None
    return replace(fixed, kernel=kernel.__sklearn_clone__(), C=record.C, loss=record.loss, tol=tol)


def with_fitted_offsets(
    settings: ClassifierSettings,
    model: TrainedModel,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    progress: StageProgress | None,
) -> TrainedModel:
    """The model with offsets for macro-F1 from out-of-fold values."""
    decision, target = out_of_fold(settings, model, X, y, sample_weight, progress)
    everyone = (np.empty(0, np.int64), np.arange(len(target.values)))
    offsets = fit_offsets(settings, [decision], [everyone], target)
    return with_scale(with_offsets(model, offsets), decision, labels_of(target), sample_weight, offsets)


def out_of_fold(
    settings: ClassifierSettings,
    model: TrainedModel,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    progress: StageProgress | None,
) -> tuple[Floats, Target]:
    """Out-of-fold decision values of the training texts of a model; NaN without a test."""
    from textsvm.training import fold_grams, folds

    fixed = with_chosen(settings, model, TOLERANCE)
    texts, target, weight = read_training_data(fixed, X, y, sample_weight)
    rows = np.flatnonzero(np.ones(len(texts)) if weight is None else weight)
    groups = _near_copies(settings, texts, target) if model.record.chosen else None
    groups = None if groups is None else groups[rows]
    parts = folds.Splitting(FOLDS, groups).quietly(target.take(rows))
    task = fold_grams.Task(target, weight, [(rows[train], rows[test]) for train, test in parts])
    values = fold_grams.fit_with_folds(fixed, texts, task, {}, progress)[1]
    decision = out_of_fold_values(values, task.folds, target)
    if model.record.chosen:
        decision = decision + default_bias(fixed, target, weight)
    return decision, target


def _near_copies(settings: ClassifierSettings, texts: Any, target: Target) -> Ints | None:
    """The group of each text, all of which is in the same fold; None without near-copies."""
    groups = near_copies(encode_for(settings, Candidate(plain=1.0), texts, target, None), COMPARISON)
    return None if groups is None or groups.max() + 1 == len(groups) else groups
