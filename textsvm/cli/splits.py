"""Parts and folds of corpora, and near-duplicates across them."""

from __future__ import annotations

import warnings
from collections import Counter
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from textsvm.arrays import Ints, Json
from textsvm.cli.console import Console
from textsvm.cli.corpora import targets
from textsvm.cli.options import HOLDOUT, FoldOptions
from textsvm.errors import InputError
from textsvm.model.settings import ClassifierSettings
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import Corpus
from textsvm.sources.copies import copy_groups, groups_of, n_copies, n_separated
from textsvm.training.folds import make_folds, n_together, quoted_names, shuffle_split
from textsvm.training.leakage import BOUND, LeakageWarning, held_out_leak, leakage_message
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
        "group_duplicates": BOUND if folds.group_duplicates else None,
        "random_state": folds.seed,
        "sample_weight": corpus.weights,
    }


def comparison_parts(
    console: Console, corpus: Corpus, labels: list[str], cv: int | None, holdout: float | None, seed: int
) -> tuple[list[Part], str]:
    """Training and test parts of a comparison, and a description of them."""
    if cv is not None:
        copies, target = copy_groups(corpus.examples), as_target(ClassifierSettings(), labels, len(labels))
        folds = make_folds(cv, target, random_state=seed, copies=copies)
        say_copies(console, n_together(copies, folds))
        return [(train.tolist(), test.tolist()) for train, test in folds], f"in {len(folds)} folds"
    if holdout is None and {"train", "test"} <= set(corpus.part):
        train, test = (
            [i for i, part in enumerate(corpus.part) if part == name] for name in ("train", "test")
        )
        if n := n_separated(copy_groups(corpus.examples), [(np.array(train), np.array(test))]):
            console.warn(f"{n:,} test documents have a copy in the training part, which flatters the result")
        return [(train, test)], f"of the test part, {len(train):,} to learn from"
    training, test_part = hold_out(console, corpus, HOLDOUT if holdout is None else holdout, seed)
    assert test_part is not None
    place = {identifier: i for i, identifier in enumerate(corpus.ids)}
    train, test = ([place[identifier] for identifier in part.ids] for part in (training, test_part))
    return [(train, test)], f"held out, {len(train):,} to learn from"


def say_copies(console: Console, n: int) -> None:
    """Report copies that were kept on one side of every split."""
    if n:
        are = "copies are" if n > 1 else "copy is"
        console.say(
            f"note: {n:,} {are} kept in one part with the texts that equal them but for case, spaces and "
            "punctuation"
        )


def hold_out(
    console: Console, corpus: Corpus, share: float | None, seed: int
) -> tuple[Corpus, Corpus | None]:
    """Split a corpus into a training and a test part, stratified if each document has a single label.

    Copies are in one part if that is possible; otherwise the evaluation warns of them.
    """
    if share is None:
        return corpus, None
    everyone, copies = np.arange(len(corpus)), copy_groups(corpus.examples)
    try:
        parts = _split(corpus, share, seed, everyone if copies is None else copies)
    except InputError:
        if copies is None:
            raise
        copies, parts = None, _split(corpus, share, seed, everyone)
    train, test, lone = parts
    if lone:
        names = quoted_names(lone)
        unit = "document" if copies is None else "text"
        classes = f"class {names} has 1 {unit}: it is"
        if len(lone) > 1:
            classes = f"classes {names} have 1 {unit} each: they are"
        console.say(f"note: {classes} trained on and never held out")
    say_copies(console, n_copies(copies))
    return corpus.subset(train), corpus.subset(test)


def _split(corpus: Corpus, share: float, seed: int, groups: Ints) -> tuple[list[int], list[int], list[str]]:
    """Rows of the training and the test part, and classes in a single group, which is never held out."""
    several = any(isinstance(label_or_labels, tuple) for label_or_labels in corpus.labels or ())
    labels = [] if several or corpus.labels is None else targets(corpus)
    counts = Counter(label for label, _ in set(zip(labels, groups.tolist(), strict=bool(labels))))
    lone = {label for label in labels if counts[label] == 1}
    fixed = {group for label, group in zip(labels, groups.tolist(), strict=bool(labels)) if label in lone}
    rows = np.flatnonzero(~np.isin(groups, list(fixed)))
    firsts = rows[np.unique(groups[rows], return_index=True)[1]]
    _require_enough(share, len(firsts), len({labels[i] for i in firsts.tolist()}) if labels else 1)
    strata = [labels[i] for i in rows.tolist()] if labels else None
    copies = None if len(firsts) == len(rows) else groups[rows]
    test = rows[shuffle_split(len(rows), share, seed, strata, copies)[1]].tolist()
    return np.setdiff1d(np.arange(len(corpus)), test).tolist(), test, sorted(map(str, lone))


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
    from textsvm.nearest.neighbours import comparison_settings
    from textsvm.nearest.search import Criteria, search

    if not len(corpus.texts):
        raise InputError(f"--near-duplicates needs texts, and {corpus.source} holds none")
    wanted = Criteria(at_least=BOUND)
    with console.progress():
        pairs = search(comparison_settings("fast", wanted), corpus.texts, None, wanted, console.stage)
        groups = groups_of(len(corpus), ((part.rows, part.columns) for part in pairs))
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
        leak = held_out_leak(
            model, training.examples, test.examples, progress=console.progress_of("duplicates")
        )
        remedy = "`textsvm cv` with group_duplicates keeps them together"
        if message := leakage_message([leak], model.kernel.nearest.alike, remedy):
            warnings.warn(message, LeakageWarning, stacklevel=2)
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
