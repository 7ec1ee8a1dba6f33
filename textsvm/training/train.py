"""Settings, examples and targets -> TrainedModel: the steps of every training, in their order.

    read      check settings, examples, targets and weights, and state the learning problem
    split     draw the folds from whose test parts the rule learns
    choose    encode the examples; take the kernel of the settings, or choose kernel, C and loss; plan
    rows      fit the kernel, and build its matrix or its features
    solve     train the machines on all examples, and on the training part of each fold
    rule      learn biases, offsets, thresholds or probabilities from held-out decision values
    assemble  the model: support vectors, coefficients, rule and record

Every learning problem takes this way. A step does nothing for settings that do not need it: only
CalibratedSVC and the thresholds of MultilabelSVC need folds, only kernel="auto" and "fast" a choice. Many
settings on shared rows are trained by `textsvm.selection`, with `fold_grams` in place of `rows` and `solve`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Floats, Ints, first_true
from textsvm.choice.candidates import Candidate, auto_candidate, fast_candidate
from textsvm.choice.choose import Choice, Weighing, near_copies, weigh_parts
from textsvm.choice.choose import choose as choose_by_trials
from textsvm.errors import InputError
from textsvm.gram.plan import GRAM, Plan
from textsvm.kernels.base import Kernel
from textsvm.kernels.combined.on import On
from textsvm.kernels.encoder import as_encoder
from textsvm.kernels.inputs import InputTable, table_of_texts
from textsvm.kernels.resolve import ENCODER_WEIGHT, kernel_on_numbers, sum_on_columns
from textsvm.linalg.factored import scipy_sparse
from textsvm.model.rules import ClassRule, Rule, added_bias, by_class, check_reject, fit_scale, margins
from textsvm.model.settings import (
    CalibrationSettings,
    ClassifierSettings,
    Fold,
    MultilabelSettings,
    Settings,
    is_default,
)
from textsvm.model.trained import Expansion, Record, TrainedModel
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.memory import on_disk
from textsvm.runtime.parallel import StageProgress, lap, of_stage, one_blas_thread
from textsvm.solvers.problems import Classification, Machines, Problem
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.sources.copies import MOST_DIGESTS, n_separated, text_digests
from textsvm.sources.texts import TextSource
from textsvm.text.documents import Documents, MultiView
from textsvm.training import problems
from textsvm.training.calibration import calibrated_rule
from textsvm.training.fold_grams import FoldGrams, FoldTask, decide_folds, grams_of, train_and_test
from textsvm.training.folds import Splitting, as_groups, make_folds
from textsvm.training.grams import (
    PreparedRows,
    can_square_hinge,
    check_compute,
    fit_and_prepare,
    memory_limit,
    plan_training,
)
from textsvm.training.targets import Target, as_weights, check_order, labels_of, with_classes, with_positive
from textsvm.training.thresholds import mean_values, out_of_fold_values

#: Change of the bias of a class, for kernel="auto" and "fast", when its total weight falls by a factor of e;
#: half as much with two classes.
RARE_CLASS_BIAS = 0.05
RARE_CLASS_TEXTS = 1000  #: Number of texts below which this change is larger
FOLDS = 3  #: scoring="f1_macro": folds of the out-of-fold values
TOLERANCE = 0.1  #: scoring="f1_macro": the solver's tolerance for these values with "auto" and "fast"
COMPARISON = 3.0  #: scoring="f1_macro": seconds in which near-copies must be found, by prediction
#: Number of prior examples in the targets (n + 1) / (n + prior) of `fit_scale`: one of the class, the others
#: of other classes. A prior example of every class would make probabilities of many classes too uncertain.
TARGET_PRIOR = 2

AnySettings = TypeVar("AnySettings", bound=Settings)


@dataclass(eq=False)
class TrainingState:
    """A training in progress: the results of its steps so far."""

    # read
    settings: Settings  #: Of the machines; after `choose` of a calibrated classifier with the chosen kernel
    calibration: CalibrationSettings | None
    examples: Any  #: Validated by the source
    target: Target
    weight: Floats | None
    problem: Problem  #: Of all examples
    device: Device
    progress: StageProgress | None
    seconds: dict[str, float] = field(default_factory=dict)  #: Wall time of the stages
    # split
    folds: list[Fold] = field(default_factory=list)  #: Empty if the rule learns nothing from folds
    # choose
    documents: Any = None  #: Encoded examples
    kernel: Kernel = field(init=False)
    choice: Choice | None = None  #: Of kernel="auto" and "fast"
    plan: Plan = GRAM
    # solve
    machines: Machines = field(init=False)  #: Of all examples
    values: list[Floats] = field(default_factory=list)  #: Decision values of the test part of each fold
    gram: str = ""  #: Origin of the rows
    # rule
    rule: Rule = field(init=False)
    held_out_accuracy: float | None = None
    margin: float | None = None  #: Median out-of-fold margin of a calibrated model


def train(
    settings: Settings | CalibrationSettings,
    X: object,
    y: object = None,
    sample_weight: ArrayLike | None = None,
    progress: StageProgress | None = None,
    groups: ArrayLike | None = None,
) -> TrainedModel:
    """Train a model, with the arguments of `fit` of the estimator with these settings (`textsvm.SVC.fit`).

    `y` is None for novelty detection. Raises InputError if a setting, an example or a target is invalid.
    """
    if isinstance(settings, CalibrationSettings):
        settings.check()  # the device is that of the classifier, which may be none
    model = devices.run_on(
        settings.device, lambda device: train_here(settings.on(device), X, y, sample_weight, progress, groups)
    )
    if model.device == settings.device:
        return model
    # "auto" fell back to the CPU: the model is for "auto" nevertheless.
    if isinstance(model.record.settings, Settings):
        model = model.with_record(settings=model.record.settings.on(settings.device))
    return model.on(settings.device, model.n_jobs)


def decide_test_part(
    settings: ClassifierSettings, examples: Callable[[Ints], Any], labels: Sequence[object], fold: Fold,
    groups: Ints | None, documents: Any = None,
) -> tuple[Floats, AnyArray]:  # fmt: skip
    """Decision values and predictions of the test part of a fold by a model of its training part.

    `examples` selects examples by their indices, `groups` are those of all examples, and `documents` these,
    encoded, if they are given. No values depend on the number of threads of BLAS.
    """
    train, test = fold
    rows = np.sort(np.concatenate(fold))
    if settings.scoring != "accuracy":  # the offsets of a rule are learnt by a whole training
        of_train = None if groups is None else groups[train]
        model = train_here(settings, examples(train), [labels[i] for i in train], groups=of_train)
        with one_blas_thread():
            decision = model.decision_function(examples(test))
        return decision, model.rule.predictions(decision)
    read_rows, target, _ = read_training_data(settings, examples(rows), [labels[i] for i in rows], None)
    folds = [(np.searchsorted(rows, train), np.searchsorted(rows, test))]
    documents = None if documents is None else documents.take(rows)
    with one_blas_thread():
        values = decide_folds(settings, read_rows, FoldTask(target, None, folds), documents=documents)
    return values[0], problems.fold_predictions(settings, values, folds, target)[0]


def train_here(
    settings: Settings | CalibrationSettings,
    X: object,
    y: object = None,
    sample_weight: ArrayLike | None = None,
    progress: StageProgress | None = None,
    groups: ArrayLike | None = None,
) -> TrainedModel:
    """`train` without a second try on the CPU if the memory of a GPU does not suffice: all steps in order."""
    clock = time.perf_counter()
    training = read(settings, X, y, sample_weight, progress, groups)
    split(training)
    training.seconds["check"] = time.perf_counter() - clock
    with training.settings.at_work(training.device):
        choose(training)
        with on_disk(True) if training.plan.tier == "disk" else nullcontext():
            solve_machines(training, build_rows(training))
        learn_rule(training)
    clock = time.perf_counter()
    model = assemble_training(training)
    training.seconds["assemble"] = time.perf_counter() - clock
    return model


# read


def read(
    settings: Settings | CalibrationSettings,
    X: object,
    y: object,
    sample_weight: ArrayLike | None,
    progress: StageProgress | None,
    groups: ArrayLike | None,
) -> TrainingState:
    """Check the inputs, and state the learning problem."""
    calibration = settings if isinstance(settings, CalibrationSettings) else None
    of_machines = settings.machine
    if not isinstance(of_machines, ClassifierSettings) and of_machines.kernel == type(of_machines)().kernel:
        of_machines = on_columns(of_machines, X)  # a default kernel that nobody chooses
    examples, target, weight = read_training_data(of_machines, X, y, sample_weight, groups=groups)
    problem = problems.problem_of(of_machines, target, np.arange(len(examples)), weight)
    if isinstance(of_machines, ClassifierSettings) and of_machines.scoring != "accuracy":
        weighted = target.values if weight is None else target.values[weight > 0]
        few, most = np.sort(np.bincount(weighted))[-2:]
        if few < 2:
            raise InputError(
                f'scoring="f1_macro" needs 2 texts of two classes to cross-validate, got {most} and {few}'
            )
    device = devices.select(of_machines.device)
    return TrainingState(of_machines, calibration, examples, target, weight, problem, device, progress)


def read_training_data(
    settings: Settings, X: object, y: object, sample_weight: ArrayLike | None, positive: object = None,
    groups: ArrayLike | None = None,
) -> tuple[Any, Target, Floats | None]:  # fmt: skip
    """Check settings, and examples, targets, weights and groups of a user.

    `positive` is the positive class of two, for metrics.
    """
    settings.check()
    check_compute(settings)
    examples = settings.source.validate(X)
    n = len(examples)
    if n == 0:
        raise InputError("there are no documents to train on")
    numbers = None if groups is None else as_groups(groups, n)
    digests, weight = text_digests(examples, settings.source), as_weights(sample_weight, n)
    target = replace(problems.as_target(settings, y, n), digests=digests, groups=numbers, weight=weight)
    check_order(examples, target)
    if positive is not None:
        target = with_positive(target, positive)
    return examples, target, weight


def on_columns(settings: AnySettings, X: object) -> AnySettings:
    """Settings with a kernel on each column of texts of a table, and on its other columns."""
    if (table := table_of_texts(X)) is None:
        return settings
    numbers = [name for name in table.names if name not in table.text_names]
    kernel = sum_on_columns(table.text_names, [numbers], None, settings.encoder)
    return replace(settings, kernel=kernel)


# split


def split(training: TrainingState) -> None:
    """Draw folds for probabilities, or for thresholds of labels; InputError if a fold cannot be learnt."""
    settings, target, calibration = training.settings, training.target, training.calibration
    if calibration is not None:
        check_reject(calibration.reject, target.classes)
        cv, seed = calibration.cv, calibration.random_state
    elif isinstance(settings, MultilabelSettings) and settings.thresholds != "zero":
        cv, seed = settings.cv, settings.random_state
    else:
        return
    training.folds = make_folds(cv, target, random_state=seed)
    if calibration is not None:
        assert target.classes is not None
        tested = np.concatenate([target.values[test] for _, test in training.folds])
        untested = np.setdiff1d(np.arange(len(target.classes)), tested)
        if len(untested) and not isinstance(cv, int | np.integer):
            name = target.classes[untested[0]]
            raise InputError(f"no document of class {name!s} is in the test part of a fold")
    for train_part, _ in training.folds:
        problems.problem_of(settings, target, train_part, training.weight)


# choose


def choose(training: TrainingState) -> None:
    """Encode the examples, take or choose the kernel, and plan whether to train from its features."""
    settings = training.settings
    if isinstance(settings, ClassifierSettings) and is_default(settings.kernel):
        _choose_default(training, settings)
        return
    clock, source = time.perf_counter(), settings.source
    encoded = source.encode(training.examples, None, training.progress)
    training.kernel = source.kernel_for(encoded)
    training.documents = with_classes(encoded, training.target)
    clock = lap(training.seconds, "encode", clock)
    memory = memory_limit(settings, len(encoded), training.device)
    training.plan = plan_training(
        settings, training.kernel, training.documents, training.problem, training.device, memory
    )
    lap(training.seconds, "plan", clock)


def _choose_default(training: TrainingState, settings: ClassifierSettings) -> None:
    """Kernel, C and loss of "auto" or "fast", by trials within `time_budget`.

    The loss is hinge if machines with the squared hinge loss cannot be trained.
    """
    clock, problem, target = time.perf_counter(), training.problem, training.target
    assert isinstance(problem, Classification)
    examples = training.examples
    default_for = _defaults_for(settings, examples, problem.n_classes, target.groups)
    parts = _parts_for(settings, examples, default_for)
    columns = examples.text_names if isinstance(examples, InputTable) else ()
    default = replace(default_for(columns), parts=tuple(parts.values()))
    kernel = default.kernel()
    documents = encode_for(settings, kernel, examples, target, training.progress)
    clock = lap(training.seconds, "encode", clock)
    memory = memory_limit(settings, len(documents), training.device)
    problem = replace(problem, C=default.C * float(settings.C), loss=default.loss)
    plan = plan_training(settings, kernel, documents, problem, training.device, memory)
    squared = plan.way == "features" or can_square_hinge(problem, memory, training.device)
    if settings.loss is None and not squared:
        default = default.with_loss("hinge")
    sentence = ""
    if parts:
        encode = partial(_encoded_rows, training, documents)
        groups = target.groups, target.copies
        weighing = Weighing.of(default.characters(documents), groups, problem.weight, encode)
        weighed, sentence = weigh_parts(default, weighing, [*parts], default_for)
        default = weighed.with_loss(default.loss)
        kernel = default.kernel()
        if columns:
            documents = encode_for(settings, kernel, training.examples, target, training.progress)
    C, budget = float(settings.C), settings.time_budget
    if budget is None or settings.kernel == "fast" or kernel.features is None:
        choice = Choice(kernel, default.C * C, default.loss, default.description(C, kernel))
    else:
        groups = target.groups, target.copies
        choice = choose_by_trials(default, documents, groups, problem.weight, C, budget, training.progress)
    training.choice = replace(choice, description=choice.description + sentence)
    training.kernel, training.documents = choice.kernel, documents
    training.problem = replace(problem, C=choice.C, loss=choice.loss)
    training.held_out_accuracy = choice.accuracy
    if training.calibration is not None:
        training.settings = replace(
            settings, kernel=choice.kernel, C=choice.C, loss=choice.loss, encoder=None
        )
        training.kernel = training.settings.source.kernel_for(documents)
    if parts or budget is not None:
        plan = plan_training(settings, training.kernel, documents, training.problem, training.device, memory)
    training.plan = plan
    training.seconds["choose"] = time.perf_counter() - clock


def _defaults_for(
    settings: ClassifierSettings, examples: list[str] | InputTable, n_classes: int, groups: Ints | None
) -> Callable[[tuple[str, ...]], Candidate]:
    """A function that makes the default for texts, (), or for the joined texts of columns."""
    make = auto_candidate if settings.kernel == "auto" else fast_candidate
    folded, n_groups = settings.normalise != "none", None if groups is None else len(np.unique(groups))

    def default_for(columns: tuple[str, ...]) -> Candidate:
        texts = examples.joined(columns) if isinstance(examples, InputTable) else examples
        default = replace(make(texts, folded, n_classes, n_groups), columns=columns)
        return default if settings.loss is None else default.with_loss(settings.loss)

    return default_for


def _parts_for(
    settings: ClassifierSettings, examples: object, default_for: Callable[[tuple[str, ...]], Candidate]
) -> dict[str, tuple[float, Kernel]]:
    """Kernels whose weights are chosen, by name, and their weights without a choice.

    Of a table the default of each of several columns of texts, and a kernel of each other column; an encoder.
    """
    parts, columns = dict[str, tuple[float, Kernel]](), tuple[str, ...]()
    if isinstance(examples, InputTable):
        columns = examples.text_names
        for name in columns[1:] and columns:
            parts[name] = 0.0, default_for((name,)).kernel()
        for name in examples.names:
            if name not in columns:
                parts[name] = 0.0, kernel_on_numbers(name, examples.numbers([name]))
    if settings.encoder is not None:
        encoder = as_encoder(settings.encoder)
        parts["encoder"] = ENCODER_WEIGHT, On(columns, encoder) if columns else encoder
    return parts


def _encoded_rows(
    training: TrainingState, documents: Documents | MultiView, rows: Ints, kernel: Kernel
) -> Documents | MultiView:
    """Some examples for a kernel on columns of the table, else as they are encoded."""
    source, table = training.settings.source_of(kernel), training.examples
    if not isinstance(table, InputTable) or not isinstance(source, TextSource):
        return documents.take(rows)
    encoded = source.encode_views(table.take(rows), kernel.structure.views, None, None)
    return with_classes(encoded, training.target.take(rows))


def encode_for(
    settings: Settings,
    kernel: Kernel,
    texts: list[str] | InputTable,
    target: Target,
    progress: StageProgress | None,
) -> Documents | MultiView:
    """Texts or a table encoded for a kernel; InputError if all texts are empty."""
    source = settings.source_of(kernel) if isinstance(texts, InputTable) else settings.source
    assert isinstance(source, TextSource)
    documents = source.encode_views(texts, kernel.structure.views, None, of_stage(progress, "encode"))
    if not documents.lengths.any():
        raise InputError("every document is empty once it is normalised; give documents with some text")
    return with_classes(documents, target)


# rows


def build_rows(training: TrainingState) -> PreparedRows | FoldGrams:
    """Rows of all examples from the fitted kernel; with folds they are built when they are needed."""
    settings, kernel, documents = training.settings, training.kernel, training.documents
    clock = time.perf_counter()
    if not training.folds:
        return fit_and_prepare(
            settings, kernel, documents, training.plan, training.device, training.seconds, training.progress
        )
    grams = FoldGrams(settings, documents, kernel, plan=training.plan)
    lap(training.seconds, "encode", clock)
    return grams


def prepare(settings: Settings, X: object, progress: StageProgress | None = None) -> PreparedRows:
    """Encode training examples, fit the kernel to them and build their Gram matrix."""
    settings.check()
    source = settings.source
    examples, device = source.validate(X), devices.select(settings.device)
    with settings.at_work(device):
        encoded = source.encode(examples, None, progress)
        return fit_and_prepare(settings, source.kernel_for(encoded), encoded, GRAM, device, {}, progress)


# solve


def solve_machines(training: TrainingState, rows: PreparedRows | FoldGrams) -> None:
    """Train the machines on all examples, and those of the folds, which decide their test parts."""
    settings, progress = training.settings, training.progress
    if isinstance(rows, FoldGrams):
        everyone = np.arange(len(training.target.values))
        # A fold that trains on all examples and tests none solves the machines of the model beside those
        # of the folds.
        folds = [*training.folds, (everyone, everyone[:0])]
        task = FoldTask(training.target, training.weight, folds)
        results = train_and_test([settings], rows, task, training.seconds, progress)
        training.machines, training.values = results.machines[0][-1], results.values[0]
        training.kernel, training.gram = results.kernel, results.description
        return
    clock = time.perf_counter()
    stopping = Stopping(settings.solver_tol, settings.max_iter, settings.duality_gap)
    [[training.machines]] = solve(rows.gram, [[training.problem]], stopping, of_stage(progress, "solve"))
    training.seconds["solve"] = time.perf_counter() - clock
    training.gram = rows.description
    # At once: the garbage collector would free the cycle of a Gram and its window too late for a card.
    rows.gram.release()


# rule


def learn_rule(training: TrainingState) -> None:
    """The decision rule, with offsets, thresholds or probabilities from held-out decision values."""
    clock = time.perf_counter()
    if training.calibration is not None:
        stage = "calibrate"
        _calibrate(training, training.calibration)
    else:
        bias: Floats | float = 0.0
        if training.choice is not None:
            bias = default_bias(training.problem)
            training.machines = with_bias(training.machines, bias)
        values, folds, stage = _held_out_values(training, bias)
        training.rule, training.machines = learn_from_values(
            training.settings, training.target, training.weight, training.machines, values, folds
        )
    if stage:
        training.seconds[stage] = training.seconds.pop("score", 0.0)
        lap(training.seconds, stage, clock)


def _calibrate(training: TrainingState, calibration: CalibrationSettings) -> None:
    """The rule with maps from out-of-fold decision values to probabilities."""
    target, rule = training.target, problems.rule_of(training.settings, training.target)
    assert isinstance(rule, ClassRule)
    decision, times_tested = mean_values(training.values, training.folds, len(target.values))
    tested = np.flatnonzero(times_tested if training.weight is None else times_tested * training.weight)
    decision, codes = decision[tested], target.values[tested]
    weight = None if training.weight is None else training.weight[tested]
    training.rule = calibrated_rule(calibration, rule, decision, codes, weight)
    # Not by the probabilities: their maps are fitted to these values.
    right = rule.predictions(decision) == rule.classes[codes]
    training.margin = float(np.median(margins(decision)))
    # An accuracy on copies of training texts would be too good.
    separated = n_separated(target.copies, training.folds)
    training.held_out_accuracy = None if separated else float(np.average(right, weights=weight))


def _held_out_values(training: TrainingState, bias: Floats | float) -> tuple[list[Floats], list[Fold], str]:
    """Held-out decision values to learn from, their folds, and the name of the stage; empty if none are."""
    settings, choice = training.settings, training.choice
    if training.folds:
        return training.values, training.folds, "thresholds"
    if not isinstance(settings, ClassifierSettings):
        return [], [], ""
    everyone = np.arange(len(training.target.values))
    # Out-of-fold values of all examples are like the values of a single fold that tests all of them; its
    # training part is not needed to learn from values.
    together = [(everyone[:0], everyone)]
    if settings.scoring != "accuracy":
        return [_out_of_fold(training, settings) + bias], together, "offsets"
    # The machines of the trials are one-vs-rest machines.
    if choice is not None and choice.decision is not None and settings.multiclass == "ovr":
        return [choice.decision + bias], together, ""
    return [], [], ""


def learn_from_values(
    settings: Settings,
    target: Target,
    weight: Floats | None,
    machines: Machines,
    values: Sequence[Floats],
    folds: Sequence[Fold],
) -> tuple[Rule, Machines]:
    """Rule and machines with thresholds, or with offsets and probabilities, from values of test parts."""
    rule = problems.rule_of(settings, target)
    if not values:
        return rule, machines
    offsets = problems.fit_offsets(settings, values, folds, target)
    if not isinstance(rule, ClassRule):
        return rule if offsets is None else rule.with_offsets(offsets), machines
    if offsets is not None:
        machines = with_bias(machines, added_bias(offsets, 1 + (len(machines.bias) > 1)))
    decision = out_of_fold_values(values, folds, target)
    return scaled(rule, decision, labels_of(target), weight, offsets), machines


def with_bias(machines: Machines, addition: Any) -> Machines:
    """The machines with an addition to their biases."""
    return replace(machines, bias=np.asarray(machines.bias + addition))


def rare_class_bias(totals: Floats, n: int) -> Floats:
    """Additions to the biases of one-vs-rest machines that favour rare classes, shape (n_machines,).

    `totals` are the sums of the weights of the classes, and n is the number of texts. A machine decides its
    own support vectors with their dual variables, which are larger in rare classes, and new texts without
    them: the more so, the fewer texts there are (reports/learning_curves.md). The addition grows with
    sqrt(1 / n) down to 100 texts.
    """
    logs, rare = np.log(totals), RARE_CLASS_BIAS * np.sqrt(np.clip(RARE_CLASS_TEXTS / n, 1, 10))
    if len(logs) == 2:
        return np.array([rare * (logs[0] - logs[1]) / 2])
    return np.asarray(rare * (logs.mean() - logs))


def default_bias(problem: Problem) -> Floats | float:
    """Additions to the biases of machines of "auto" and "fast"; 0 if they are not one-vs-rest."""
    if not isinstance(problem, Classification) or problem.strategy != "ovr":
        return 0.0
    totals = np.bincount(problem.target, problem.weight).astype(np.float64)
    return rare_class_bias(totals, int(np.count_nonzero(problem.weight)))


def _out_of_fold(training: TrainingState, settings: ClassifierSettings) -> Floats:
    """Out-of-fold decision values of all examples, for offsets; NaN for examples of weight 0.

    With the default kernels near-copies of a text are in the same fold.
    """
    target, weight = training.target, training.weight
    fixed = replace(settings, scoring="accuracy", time_budget=None, encoder=None)
    if choice := training.choice:  # kernel, C and loss of "auto" or "fast"
        kernel = choice.kernel.__sklearn_clone__()
        fixed = replace(fixed, kernel=kernel, C=choice.C, loss=choice.loss, tol=TOLERANCE)
    rows = np.arange(len(target.values)) if weight is None else np.flatnonzero(weight)
    groups = target.groups
    if training.choice is not None:
        plain = Candidate(plain=1.0).kernel()
        documents = encode_for(settings, plain, training.examples, target, None)
        groups = near_copies(documents, COMPARISON, groups)
    parts = Splitting(FOLDS, None if groups is None else groups[rows]).quietly(target.take(rows))
    task = FoldTask(target, weight, [(rows[train_part], rows[test]) for train_part, test in parts])
    with fixed.at_work(training.device):
        grams = grams_of(fixed, training.documents, task)
        results = train_and_test([fixed], grams, task, {}, training.progress)
    return out_of_fold_values(results.values[0], task.folds, target)


def scaled(
    rule: Rule, decision: Floats, labels: object, weight: object = None, offsets: Floats | None = None
) -> Rule:
    """The rule with probabilities that fit out-of-fold decision values, moved by `offsets` of classes.

    Values of NaN, without a test, are ignored. A rule that is no plain `ClassRule`, or has probabilities,
    stays as it is.
    """
    columns = by_class(decision)
    if type(rule) is not ClassRule or rule.scale is not None or columns.shape[1] != len(rule.classes):
        return rule
    if offsets is not None:
        columns = columns + offsets
    tested = ~np.isnan(columns).any(axis=1)
    tested_weight = None if weight is None else np.asarray(weight, np.float64)[tested]
    codes = np.searchsorted(rule.classes, np.asarray(labels)[tested])
    if len(np.unique(codes)) < 2:
        return rule
    scale = fit_scale(columns[tested], codes, len(rule.classes), tested_weight, TARGET_PRIOR)
    return replace(rule, scale=scale)


def with_scale(model: TrainedModel, decision: Floats, labels: Any, weight: Any = None) -> TrainedModel:
    """The model with the rule of `scaled`; the model itself if that is its rule."""
    rule = scaled(model.rule, decision, labels, weight)
    return model if rule is model.rule else replace(model, rule=rule)


# assemble


def assemble_training(training: TrainingState) -> TrainedModel:
    """The model, and the figures of the training in its record."""
    facts: dict[str, Any] = {
        "seconds": training.seconds,
        "gram": training.gram,
        "device": training.device,
        "held_out_accuracy": training.held_out_accuracy,
        "margin": training.margin,
    }
    if (choice := training.choice) is not None:
        facts |= {"C": choice.C, "loss": choice.loss, "chosen": choice.description}
        facts |= {"n_trials": len(choice.trials)}
    return assemble(
        training.settings, training.kernel, training.documents, training.target, training.machines,
        training.rule, **facts,
    )  # fmt: skip


def assemble(
    settings: Settings,
    kernel: Kernel,
    examples: Any,
    target: Target,
    machines: Machines,
    rule: Rule | None = None,
    **facts: Any,
) -> TrainedModel:
    """The model of solved machines, by default with a rule that has learnt nothing from held-out values.

    `facts` are entries of its record.
    """
    used = np.flatnonzero((machines.coef != 0).sum(axis=0))
    support, coef = machines.index[used], machines.coef[:, used]
    coef = coef if scipy_sparse(coef) else np.ascontiguousarray(coef)
    source = (
        settings.source_of(kernel)
        if kernel and kernel.structure.reads_tables
        else settings.source.of_kernel(kernel)
    )
    if (a := first_true(np.isnan(machines.bias))) is not None:
        assert target.classes is not None
        raise InputError(
            f"there is nothing to learn the label {target.classes[a]!s} from: sample_weight is zero for "
            "all documents with it, or for all without it"
        )
    rule = rule or problems.rule_of(settings, target)
    record = Record(
        settings,
        problems.count_support(settings, target, support, coef),
        solutions=machines.solutions,
        unfinished=unfinished(settings, machines, target),
        texts=None if target.digests is None else np.unique(target.digests)[:MOST_DIGESTS],
    )
    if isinstance(settings, ClassifierSettings):
        record = replace(record, C=settings.C, loss=settings.loss or "hinge")
    expansion = Expansion(source.support(kernel, examples, support), coef, machines.bias)
    return TrainedModel(source, expansion, rule, replace(record, **facts), settings.device, settings.n_jobs)


def unfinished(settings: Settings, machines: Machines, target: Target) -> str:
    """Message about machines that did not converge, with the worst violation; "" if all did."""
    solutions = machines.solutions
    stopped = [k for k, solution in enumerate(solutions) if not solution.converged]
    if not stopped:
        return ""
    worst = max(stopped, key=lambda k: solutions[k].violation)
    violation = f"violation {solutions[worst].violation:.2g}, tol {settings.solver_tol:g}"
    if len(solutions) == 1:
        return f"the solver stopped before it converged ({solutions[0].status}): {violation}"
    learnt = np.flatnonzero(~np.isnan(machines.bias))
    name = problems.rule_of(settings, target).machine_names()[learnt[worst]]
    return (
        f"{len(stopped)} of {len(solutions)} machines stopped before they converged; the worst is "
        f"{name} ({solutions[worst].status}): {violation}"
    )
