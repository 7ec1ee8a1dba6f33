"""Train a model from settings, examples and targets: the steps that all trainers share."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import Floats
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.linalg.factored import scipy_sparse
from textsvm.model.rules import ClassRule, added_bias, by_class, fit_scale
from textsvm.model.settings import Settings
from textsvm.model.trained import Expansion, Record, TrainedModel
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress
from textsvm.solvers.problems import Machines
from textsvm.sources.copies import MOST_DIGESTS, text_digests
from textsvm.training.grams import PreparedRows, check_solver, check_store, prepare_gram, solve_problem
from textsvm.training.problems import as_target, count_support, problem_of, rule_of
from textsvm.training.targets import Target, as_weights, check_order, with_classes, with_positive

#: The prior of the scale of probabilities: as many as the classes would make many classes too uncertain.
PLATT = 2


def read_training_data(
    settings: Settings, X: Any, y: Any, sample_weight: ArrayLike | None, positive: Any = None
) -> tuple[Any, Target, Floats | None]:
    """Check settings, and examples, targets and weights of a user.

    `positive` is the positive class of two, for metrics.
    """
    settings.check()
    compute = settings.compute_options
    if (compute.solver, compute.store, compute.tier) != ("auto", None, "auto"):
        check_solver(settings)
        check_store(settings)
    examples = settings.source.validate(X)
    n = len(examples)
    if n == 0:
        raise InputError("there are no documents to train on")
    target = replace(as_target(settings, y, n), digests=text_digests(examples, settings.source))
    check_order(examples, target)
    if positive is not None:
        target = with_positive(target, positive)
    return examples, target, as_weights(sample_weight, n)


def train_machines(
    settings: Settings, X: Any, y: Any, sample_weight: ArrayLike | None, progress: StageProgress | None
) -> TrainedModel:
    """Train on examples with a named kernel, without folds."""
    examples, target, weight = read_training_data(settings, X, y, sample_weight)
    problem = problem_of(settings, target, np.arange(len(examples)), weight)
    device = devices.select(settings.device)
    with settings.at_work(device):
        clock = time.perf_counter()
        source = settings.source
        encoded = source.encode(examples, None, progress)
        kernel = source.kernel_for(encoded)
        encoded = with_classes(encoded, target)
        seconds = {"encode": time.perf_counter() - clock}
        machines, gram = solve_problem(settings, kernel, encoded, problem, device, seconds, progress)
    return assemble(settings, kernel, encoded, target, machines, seconds=seconds, gram=gram, device=device)


def prepare(settings: Settings, X: Any, progress: StageProgress | None = None) -> PreparedRows:
    """Encode training examples, fit the kernel to them and build their Gram matrix."""
    settings.check()
    source = settings.source
    examples, device = source.validate(X), devices.select(settings.device)
    with settings.at_work(device):
        clock = time.perf_counter()
        encoded = source.encode(examples, None, progress)
        kernel = source.kernel_for(encoded)
        kernel.fit(kernel.structure.read(encoded), device)
        seconds = {"encode": time.perf_counter() - clock}
        prepared = prepare_gram(settings, encoded, kernel, device, progress)
    return replace(prepared, seconds=seconds | prepared.seconds)


def assemble(
    settings: Settings, kernel: Kernel, examples: Any, target: Target, machines: Machines, **facts: Any
) -> TrainedModel:
    """The model of solved machines; `facts` are entries of its record."""
    used = np.flatnonzero((machines.coef != 0).sum(axis=0))
    support, coef = machines.index[used], machines.coef[:, used]
    coef = coef if scipy_sparse(coef) else np.ascontiguousarray(coef)
    source = settings.source.of_kernel(kernel)
    rule = rule_of(settings, target)
    for a in np.flatnonzero(np.isnan(machines.bias))[:1]:
        assert target.classes is not None
        raise InputError(
            f"there is nothing to learn the label {target.classes[a]!s} from: sample_weight is zero for "
            "all documents with it, or for all without it"
        )
    record = Record(
        settings,
        count_support(settings, target, support, coef),
        solutions=machines.solutions,
        unfinished=unfinished(settings, machines, target),
        texts=None if target.digests is None else np.unique(target.digests)[:MOST_DIGESTS],
    )
    if isinstance(rule, ClassRule):
        record = replace(record, C=settings.C, loss=settings.loss or "hinge")  # type: ignore[attr-defined]
    expansion = Expansion(source.support(kernel, examples, support), coef, machines.bias)
    return TrainedModel(source, expansion, rule, replace(record, **facts), settings.device, settings.n_jobs)


def assemble_prepared(
    settings: Settings, prepared: PreparedRows, target: Target, machines: Machines
) -> TrainedModel:
    """The model of machines that were solved on prepared rows."""
    device = devices.select(settings.device)
    return assemble(
        settings, prepared.kernel, prepared.examples, target, machines,
        seconds=dict(prepared.seconds), gram=prepared.description, device=device,
    )  # fmt: skip


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
    name = rule_of(settings, target).machine_names()[learnt[worst]]
    return (
        f"{len(stopped)} of {len(solutions)} machines stopped before they converged; the worst is "
        f"{name} ({solutions[worst].status}): {violation}"
    )


def with_bias(model: TrainedModel, addition: Any) -> TrainedModel:
    """The model with an addition to its biases."""
    intercept = np.asarray(model.predictor.intercept + addition)
    return replace(model, predictor=replace(model.predictor, intercept=intercept))


def with_scale(
    model: TrainedModel, decision: Floats, labels: Any, weight: Any = None, offsets: Floats | None = None
) -> TrainedModel:
    """The model with probabilities that fit out-of-fold decision values, moved by `offsets` of classes.

    Values of NaN, without a test, are ignored. A model of another rule than `ClassRule`, or with
    probabilities, stays as it is.
    """
    rule, columns = model.rule, by_class(decision)
    if type(rule) is not ClassRule or rule.scale is not None or columns.shape[1] != len(rule.classes):
        return model
    if offsets is not None:
        columns = columns + offsets
    tested = ~np.isnan(columns).any(axis=1)
    used = None if weight is None else np.asarray(weight, np.float64)[tested]
    codes = np.searchsorted(rule.classes, np.asarray(labels)[tested])
    if len(np.unique(codes)) < 2:
        return model
    scale = fit_scale(columns[tested], codes, len(rule.classes), used, PLATT)
    return replace(model, rule=replace(rule, scale=scale))


def with_offsets(model: TrainedModel, offsets: Floats | None) -> TrainedModel:
    """The model with offsets of its classes, which are added to the biases, or thresholds of its labels."""
    if offsets is None:
        return model
    if isinstance(model.rule, ClassRule):
        return with_bias(model, added_bias(offsets, 1 + (len(model.predictor.intercept) > 1)))
    return replace(model, rule=model.rule.with_offsets(offsets))
