"""Classifiers with kernel="auto" or "fast": choose the kernel and C, then train."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.choice.choose import Choice, choose
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel, Sum
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spectrum.kernel import Spectrum, fixed_default
from textsvm.machines.classifier import Classifier
from textsvm.machines.targets import Target, with_classes
from textsvm.machines.training import train
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import StageProgress
from textsvm.sources.texts import TextSource
from textsvm.text.documents import Documents, Views


@dataclass(frozen=True)
class Given:
    """What a classifier is trained on, checked."""

    texts: list[str]
    target: Target
    weight: NDArray[np.float64] | None  #: shape (n,)


def fit_default(model: Classifier, given: Given, progress: StageProgress | None) -> None:
    """Choose the kernel and C of a classifier, train it and keep what it learnt."""
    device = devices.select(model.device)
    with model.at_work(device):
        clock = time.perf_counter()
        documents = encode(model, given, progress)
        encoded = time.perf_counter() - clock
        chosen = choice_of(model, documents, given, progress)
        kernel, C = (fixed_default(), float(model.C)) if chosen is None else (chosen.kernel, chosen.C)
        seconds = {"encode": encoded, "choose": time.perf_counter() - clock - encoded}
        problem = model.problem(given.target, np.arange(len(given.texts)), given.weight, C)
        model.C_, model.chosen_ = C, "" if chosen is None else chosen.description
        model.device_ = device
        machines, description = train(model, kernel, documents, problem, seconds, progress)
    model.gram_, model.seconds_ = description, seconds
    model.keep_machines(kernel, documents, given.target, machines)


def settle(model: Classifier, given: Given, progress: StageProgress | None) -> str:
    """Choose, and make what was chosen the kernel and C of a classifier, as if its user had named them.

    Returns
    -------
    str
        What was chosen and why; empty if nothing.
    """
    with model.at_work(devices.select(model.device)):
        chosen = choice_of(model, encode(model, given, progress), given, progress)
    if chosen is None:
        model.kernel = fixed_default()
        return ""
    model.kernel, model.C = chosen.kernel, chosen.C
    return chosen.description


def encode(model: Classifier, given: Given, progress: StageProgress | None) -> Documents | Views:
    """The texts as characters, and where there is a choice as words too; their classes known."""
    read: Kernel = fixed_default()
    if model.kernel == "auto":
        read = Sum([Spectrum(1), Spectrum(1, tokens="words")])
    form = TextForm(model.normalise, model.punctuation, model.max_length)
    documents = TextSource(read, form).prepare(given.texts, None, progress)
    if not documents.lengths.any():
        raise InputError("every document is empty once it is normalised; give documents with some text")
    return with_classes(documents, given.target)


def choice_of(
    model: Classifier, documents: Documents | Views, given: Given, progress: StageProgress | None
) -> Choice | None:
    """What cross-validation chooses, None where nothing is to be chosen."""
    if model.kernel != "auto":
        return None
    whole = model.problem(given.target, np.arange(len(documents)), given.weight, 1.0)
    device = devices.select(model.device)
    return choose(
        documents, given.target.values, whole.weight, device, float(model.C), model.time_budget, progress
    )
