"""A classifier whose kernel nobody named: chosen by cross-validation, trained on features where quicker."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.choice.choose import Choice, choose
from textsvm.choice.trial import counted_rows
from textsvm.documents import Views
from textsvm.estimators.base import Target, with_classes
from textsvm.kernels.base import Kernel
from textsvm.kernels.spectrum import Spectrum, fixed_default
from textsvm.kernels.sums import Sum
from textsvm.parallel import StageProgress, of_stage
from textsvm.solvers import feature_machines, problems
from textsvm.solvers.problems import Classification
from textsvm.sources.texts import TextForm, TextSource

#: `textsvm.SVC`, which imports this module.
SVC = Any
#: What a user may say in place of a kernel.
NAMES = ("auto", "fast")


@dataclass(frozen=True)
class Given:
    """What a classifier is trained on, checked.

    Attributes
    ----------
    texts : list of str
    target : Target
    weight : float64 array, shape (n,), optional
    """

    texts: list[str]
    target: Target
    weight: NDArray[np.float64] | None


def is_default(kernel: object) -> bool:
    """Whether a kernel is left to be found."""
    return isinstance(kernel, str) and kernel in NAMES


def fit_default(model: SVC, given: Given, progress: StageProgress | None) -> None:
    """Choose the kernel and C of a classifier, train it and keep what it learnt."""
    device = devices.select(model.device)
    with model.at_work(device):
        clock = time.perf_counter()
        documents = read_both(model, given, progress)
        encoded = time.perf_counter() - clock
        chosen = choice_of(model, documents, given, progress)
        kernel, C = (fixed_default(), float(model.C)) if chosen is None else (chosen.kernel, chosen.C)
        seconds = {"encode": encoded, "choose": time.perf_counter() - clock - encoded}
        model.C_, model.chosen_ = C, "" if chosen is None else chosen.description
        problem = model.problem(given.target, np.arange(len(given.texts)), given.weight, C)
        model.device_ = device
        if device.kind == "cpu" and feature_machines.can_solve(problem):
            _fit_features(model, kernel, documents, problem, given, seconds)
        else:
            _fit_gram(model, kernel, documents, problem, given, seconds, progress)


def settle(model: SVC, given: Given, progress: StageProgress | None) -> str:
    """Choose, and make what was chosen the kernel and C of a classifier, as if its user had named them.

    Returns
    -------
    str
        What was chosen and why; empty if nothing.
    """
    with model.at_work(devices.select(model.device)):
        chosen = choice_of(model, read_both(model, given, progress), given, progress)
    if chosen is None:
        model.kernel = fixed_default()
        return ""
    model.kernel, model.C = chosen.kernel, chosen.C
    return chosen.description


def read_both(model: SVC, given: Given, progress: StageProgress | None) -> Views:
    """The texts as characters and as words, their classes known."""
    both = Sum([Spectrum(1), Spectrum(1, tokens="words")])
    form = TextForm(model.normalise, model.punctuation, model.max_length)
    documents = TextSource(both, form).prepare(given.texts, None, progress)
    TextSource(fixed_default(), form).kernel_for(documents)  # there is something to learn from
    return with_classes(documents, given.target)


def choice_of(model: SVC, documents: Views, given: Given, progress: StageProgress | None) -> Choice | None:
    """What cross-validation chooses, None where nothing is to be chosen."""
    if model.kernel != "auto":
        return None
    whole = model.problem(given.target, np.arange(len(documents)), given.weight, 1.0)
    return choose(documents, given.target.values, whole.weight, float(model.C), model.budget, progress)


def _fit_features(
    model: SVC,
    kernel: Kernel,
    documents: Views,
    problem: Classification,
    given: Given,
    seconds: dict[str, float],
) -> None:
    clock = time.perf_counter()
    rows = counted_rows(kernel, documents)
    seconds["features"] = time.perf_counter() - clock
    clock = time.perf_counter()
    bound = 1000 if model.max_iter < 0 else max(1, model.max_iter // len(documents))
    machines = feature_machines.solve_classifier(problem, rows, model.tol, bound)
    seconds["solve"] = time.perf_counter() - clock
    model.gram_ = f"none, {len(rows.x.values):,} values of features of {len(documents):,} texts"
    model.seconds_ = seconds
    model.keep_machines(kernel, documents, given.target, machines)


def _fit_gram(
    model: SVC,
    kernel: Kernel,
    documents: Views,
    problem: Classification,
    given: Given,
    seconds: dict[str, float],
    progress: StageProgress | None,
) -> None:
    read: Any = kernel.read(documents)
    kernel.fit(read)
    prepared = model.compare(read, kernel, progress)
    clock = time.perf_counter()
    [[machines]] = problems.solve(
        prepared.gram,
        [[problem]],
        tol=model.tol,
        max_iter=model.max_iter,
        duality_gap=model.duality_gap,
        progress=of_stage(progress, "solve"),
    )
    model.gram_ = prepared.gram.description
    model.seconds_ = seconds | prepared.seconds | {"solve": time.perf_counter() - clock}
    model.keep_machines(kernel, documents, given.target, machines)
