"""Parts and folds of corpora, and near-duplicates across them."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from textsvm.arrays import Bools, Ints, Json
from textsvm.cli.console import Console
from textsvm.cli.corpora import targets
from textsvm.cli.options import HOLDOUT, FoldOptions
from textsvm.errors import InputError
from textsvm.model.settings import ClassifierSettings
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import Corpus
from textsvm.runtime.device import select
from textsvm.sources.copies import BUT_FOR, copy_groups, n_copies, n_separated, text_digests
from textsvm.training import leakage
from textsvm.training.folds import make_folds, n_together, quoted_names, shuffle_split
from textsvm.training.problems import as_target

if TYPE_CHECKING:
    from textsvm.evaluation.baselines import Part


def fold_arguments(console: Console, folds: FoldOptions, corpus: Corpus) -> Json:
    """Keyword arguments of `cross_validate` and `tune`; InputError for more folds than documents."""
    if folds.folds > len(corpus):
        raise InputError(f"--folds {folds.folds}: {corpus.source} has only {len(corpus):,} documents")
    if folds.folds > 50:
        console.say(f"note: {folds.folds} folds train as many machines; 5 or 10 folds are usual")
    return {
        "cv": folds.folds,
        "repeats": folds.repeats,
        "groups": corpus.groups,
        "group_duplicates": leakage.ALIKE if folds.group_duplicates else None,
        "random_state": folds.seed,
        "sample_weight": corpus.weights,
    }


def comparison_parts(
    console: Console, corpus: Corpus, labels: list[str], cv: int | None, holdout: float | None, seed: int
) -> tuple[list[Part], str]:
    """Training and test parts of a comparison, and a description of them."""
    if cv is not None:
        target = replace(
            as_target(ClassifierSettings(), labels, len(labels)), digests=text_digests(corpus.examples)
        )
        folds = make_folds(cv, target, random_state=seed)
        say_copies(console, n_together(target.copies, folds))
        return [(train.tolist(), test.tolist()) for train, test in folds], f"in {len(folds)} folds"
    if holdout is None and {"train", "test"} <= set(corpus.part):
        train, test = (
            [i for i, part in enumerate(corpus.part) if part == name] for name in ("train", "test")
        )
        if n := n_separated(copies_of(corpus), [(np.array(train), np.array(test))]):
            console.warn(f"{n:,} test documents have a copy in the training part, which flatters the result")
        return [(train, test)], f"of the test part, {len(train):,} to learn from"
    training, test_part = hold_out(console, corpus, HOLDOUT if holdout is None else holdout, seed)
    assert test_part is not None
    place = {identifier: i for i, identifier in enumerate(corpus.ids)}
    train, test = ([place[identifier] for identifier in part.ids] for part in (training, test_part))
    return [(train, test)], f"held out, {len(train):,} to learn from"


def hold_out(
    console: Console, corpus: Corpus, share: float | None, seed: int
) -> tuple[Corpus, Corpus | None]:
    """Split a corpus into a training and a test part, stratified if each document has a single label.

    Copies of a text follow it, unless there are too few different texts.
    """
    if share is None:
        return corpus, None
    copies = copies_of(corpus)
    groups = np.arange(len(corpus)) if copies is None else copies
    try:
        held = _held_out(console, corpus, groups, share, seed)
    except InputError:
        if copies is None:
            raise
        copies, held = None, _held_out(console, corpus, np.arange(len(corpus)), share, seed)
    say_copies(console, n_copies(copies))
    return corpus.subset(np.flatnonzero(~held)), corpus.subset(np.flatnonzero(held))


def copies_of(corpus: Corpus) -> Ints | None:
    """Group of each document, equal for copies; None without copies."""
    return copy_groups(text_digests(corpus.examples))


def say_copies(console: Console, n: int) -> None:
    """Report copies that were kept on the same side of every split."""
    if n:
        copies = f"{n:,} copies (texts equal to another" if n > 1 else "1 copy (a text equal to another"
        console.say(f"note: {copies} {BUT_FOR}) kept in one part with the original")


def _held_out(console: Console, corpus: Corpus, groups: Ints, share: float, seed: int) -> Bools:
    """Whether each document is in the test part, as the first document of its group is drawn."""
    first = np.sort(np.unique(groups, return_index=True)[1])
    corpus = corpus.subset(first)
    several = any(isinstance(label_or_labels, tuple) for label_or_labels in corpus.labels or ())
    lone: set[int] = set()
    if corpus.labels is not None and not several:
        labels = targets(corpus)
        counts = Counter(labels)
        lone = {i for i, label in enumerate(labels) if counts[label] == 1}
    if lone:
        names = quoted_names(sorted(str(labels[i]) for i in lone))
        classes = f"class {names} has 1 document: it is"
        if len(lone) > 1:
            classes = f"classes {names} have 1 document each: they are"
        console.say(f"note: {classes} trained on and never held out")
    candidates = [i for i in range(len(corpus)) if i not in lone]
    stratify: list[Any] | None = (
        None if several or corpus.labels is None else [corpus.labels[i] for i in candidates]
    )
    _require_enough(share, len(candidates), len(set(stratify or [0])))
    test = shuffle_split(len(candidates), share, seed, stratify or None)[1]
    return np.isin(groups, groups[first[[candidates[i] for i in test]]])


def _require_enough(share: float, n: int, classes: int) -> None:
    """Raise InputError if a part would lack a class."""
    if not n:
        raise InputError(f"--holdout {share:g} cannot be drawn: every class has a single document")
    size_of_test = ceil(share * n)
    for action, size in {"holds out": size_of_test, "leaves for training": n - size_of_test}.items():
        if size < classes:
            documents = f"a document of each of the {classes} classes" if classes > 1 else "a document"
            raise InputError(
                f"--holdout {share:g} cannot be drawn: of {n:,} documents it {action} {size:,}, and both "
                f"parts need {documents}; use a {'larger' if action == 'holds out' else 'smaller'} share"
            )


def near_duplicates(console: Console, corpus: Corpus) -> list[list[str]]:
    """Groups of ids of near-duplicates, exact copies included."""
    from textsvm.training.fold_grams import FoldGrams

    if not len(corpus.texts):
        raise InputError(f"--near-duplicates needs texts, and {corpus.source} holds none")
    settings = ClassifierSettings("fast")
    source = settings.source
    with console.progress(), settings.at_work(select(settings.device)):
        examples = source.encode(source.validate(corpus.texts), None, console.stage)
        gram = FoldGrams(settings, examples, source.kernel_for(examples)).whole(console.stage).gram
        groups = leakage.near_duplicates(gram, progress=console.progress_of("duplicates"))
    members: dict[int, list[str]] = {}
    for number in np.flatnonzero(np.bincount(groups)[groups] > 1).tolist():
        members.setdefault(int(groups[number]), []).append(corpus.ids[number])
    return list(members.values())


def held_out_near_duplicates(
    console: Console, model: TrainedModel, training: Corpus, test: Corpus
) -> list[Json]:
    """Ids of held-out documents that are near-duplicates of training documents; warns of them."""
    with console.work():
        assert model.kernel is not None
        leak = leakage.held_out_leak(
            model, training.examples, test.examples, progress=console.progress_of("duplicates")
        )
        remedy = "`textsvm cv` with group_duplicates keeps them together"
        if message := leakage.leakage_message([leak], model.kernel.alike, remedy):
            warnings.warn(message, leakage.LeakageWarning, stacklevel=2)
    return [
        {"test": test.ids[row], "train": training.ids[column], "value": value}
        for row, column, value in leak.as_dict()["pairs"]
    ]


def leaks_by_id(leaks: list[Json], corpus: Corpus) -> list[Json]:
    """Near-duplicates across folds, with numbers of folds from 1 and ids of documents."""
    return [
        {"fold": number, "test": corpus.ids[test], "train": corpus.ids[train], "value": value}
        for number, leak in enumerate(leaks, 1)
        for test, train, value in leak["pairs"]
    ]
