"""The kernel and C of a classifier whose user names none.

Trials (`trial`) of a short list (`shortlist`), on as many texts as a budget of time allows. The time of the
trials, and that of the usual alternative, TF-IDF of characters with a linear machine, are predicted from
counts of operations and not measured, so that the same texts get the same kernel on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.choice import shortlist
from textsvm.choice.shortlist import Look
from textsvm.choice.trial import FOLDS, Examples, Trial, Trials
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import StageProgress, of_stage, part
from textsvm.text.documents import Documents, View, Views

#: Seconds a symbol and an entry of a class take the alternative (scikit-learn's `TfidfVectorizer` of 1 to 5
#: characters, and `LinearSVC`), measured on two cores.
VECTORISING, FITTING = 2.0e-6, 5.5e-8
#: Entries of the rows for each symbol; seconds that each takes a fold of a trial, and for each column more.
ENTRIES, READING, COLUMN = 2.5, 4e-8, 8e-9
#: Share of the alternative's time that trials may take, and seconds that they may take in any case.
SHARE, ANYHOW = 0.5, 1.0
#: Other values of C that the best kernel is tried with, as multiples of the first.
FACTORS = (1 / 3, 3.0)
#: Most kernels that are tried, the best one with other values of C among them.
MOST_TRIED = 8
#: Fewest texts of a trial; and most, where no time was given: more tell kernels apart no better.
FEWEST, MOST = 600, 16_000


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes
    ----------
    kernel : Kernel
    C : float
    description : str
        In a sentence.
    trials : list of Trial
        All that were made, in their order.
    """

    kernel: Kernel
    C: float
    description: str
    trials: list[Trial]


def choose(
    documents: Documents | Views,
    target: NDArray[np.int64],
    weight: NDArray[np.float64],
    device: Device,
    C: float = 1.0,
    seconds: float | None = None,
    progress: StageProgress | None = None,
) -> Choice:
    """Choose a kernel and C by cross-validation.

    Parameters
    ----------
    documents : Documents or Views, n of them
        As characters and as words.
    target : int64 array, shape (n,)
        Classes, 0..n_classes-1.
    weight : float64 array, shape (n,)
        Factors of C.
    device : Device
        Where kernels without features are compared; the others are on the host.
    C : float
        A third of it, it and three times it are tried.
    seconds : float, optional
        Predicted time that trials may take; if not given, half of what the alternative is predicted to take,
        on `MOST` texts at most.
    progress : callable, optional
        Of the stage "choose".
    """
    characters, words = documents.of(View()), documents.of(shortlist.WORDS)
    seen = shortlist.look(characters, words)
    if np.bincount(target).max() < 2:  # no tested text would have its class in the training part
        kernel = shortlist.first_round(seen)[0].kernel()
        sentence = f"{spell(kernel)} with C = {C:.3g} was taken without trials: no class has two texts"
        return Choice(kernel, C, sentence, [])
    n_classes = int(target.max()) + 1
    allowed = max(ANYHOW, SHARE * alternative(characters, n_classes)) if seconds is None else seconds
    most = _affordable(characters, n_classes, seen, allowed)
    rows = _subset(target, most if seconds is not None else min(most, max(MOST, n_classes * 2 * FOLDS)))
    folds = _folds(target[rows])
    some = documents.take(rows).with_classes(target[rows])
    trials = Trials(Examples(some, target[rows], n_classes, weight[rows], folds), device)
    made = _rounds(trials, seen, C, progress)
    best = _best(made)
    return Choice(best.recipe.kernel(), best.C, _sentence(made, best, len(rows), len(target)), made)


def alternative(characters: Documents, n_classes: int) -> float:
    """Seconds that TF-IDF with a linear machine is predicted to take, roughly."""
    symbols = float(characters.lengths.sum())
    machines = 1 if n_classes == 2 else n_classes
    return symbols * (VECTORISING + 2 * FITTING * machines)


def _affordable(characters: Documents, n_classes: int, seen: Look, allowed: float) -> int:
    """How many texts trials can be made on in that time."""
    columns = 1 if n_classes == 2 else n_classes
    trials = (5 if seen.has_words else 3) + len(FACTORS)
    a_text = seen.characters * ENTRIES * FOLDS * trials * (READING + COLUMN * columns)
    return max(FEWEST, n_classes * 2 * FOLDS, int(allowed / max(a_text, 1e-12)))


def _rounds(trials: Trials, seen: Look, C: float, progress: StageProgress | None) -> list[Trial]:
    """Trials of one round after another, each around the best so far."""
    step = of_stage(progress, "choose")
    first = shortlist.first_round(seen)
    made = trials.run(first, [C], part(step, 0, len(first), MOST_TRIED))
    for more in (shortlist.second_round, shortlist.third_round):
        recipes = more(seen, _best(made).recipe)
        made += trials.run(recipes, [C], part(step, len(made), len(recipes), MOST_TRIED))
    rest = part(step, len(made), MOST_TRIED - len(made), MOST_TRIED)
    return made + trials.run([_best(made).recipe], [C * factor for factor in FACTORS], rest)


def _best(made: Sequence[Trial]) -> Trial:
    """The best, of equal ones the first: they come simplest first."""
    return max(made, key=lambda trial: trial.accuracy)


def _subset(target: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most so many examples, of every class its share, in their order."""
    n = len(target)
    if n <= most:
        return np.arange(n)
    order = np.random.default_rng(0).permutation(n)
    place = np.empty(n)
    for members in _by_class(target[order]):
        place[members] = np.arange(len(members)) / len(members)  # the first of each class comes first
    return np.sort(order[np.argsort(place, kind="stable")[:most]])


def _folds(target: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fold that each example is tested in, classes dealt out evenly."""
    order = np.random.default_rng(0).permutation(len(target))
    fold = np.empty(len(target), np.int64)
    dealt = 0
    for members in _by_class(target[order]):
        fold[order[members]] = (dealt + np.arange(len(members))) % FOLDS
        dealt += len(members)
    return fold


def _by_class(target: NDArray[np.int64]) -> Sequence[NDArray[np.int64]]:
    order = np.argsort(target, kind="stable")
    return np.split(order, np.cumsum(np.bincount(target))[:-1])


def _sentence(made: Sequence[Trial], best: Trial, n: int, total: int) -> str:
    texts = f"{n:,} texts" if n == total else f"{n:,} of {total:,} texts"
    first = made[0]
    gain = 100 * (best.accuracy - first.accuracy)
    against = "" if best is first else f", {gain:.1f} points more than {spell(first.recipe.kernel())}"
    return (
        f"{spell(best.recipe.kernel())} with C = {best.C:.3g} was chosen in {len(made)} trials: "
        f"{100 * best.accuracy:.1f} % right in {FOLDS}-fold cross-validation on {texts}{against}"
    )
