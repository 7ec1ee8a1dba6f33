"""A part of a corpus kept from training, to be judged on."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING

from textsvm.cli import options
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.console import Console
    from textsvm.readers import Corpus


def hold_out(
    console: Console, corpus: Corpus, share: float | None, seed: int
) -> tuple[Corpus, Corpus | None]:
    """Draw a part of the corpus for evaluation, stratified by its labels where a document has one."""
    if share is None:
        return corpus, None
    lone = _of_lone_classes(corpus)
    if lone:
        console.say(f"note: {_stay(sorted(str(options.targets(corpus)[i]) for i in lone))}")
    from textsvm.selection.folds import shuffle_split

    drawn = [i for i in range(len(corpus)) if i not in lone]
    labels = None if _has_several(corpus) else corpus.labels
    stratify = labels and [labels[i] for i in drawn]
    _require_enough(share, len(drawn), len(set(stratify or [0])))
    rest, held = shuffle_split(len(drawn), share, seed, stratify or None)
    kept = sorted([*(drawn[i] for i in rest), *lone])
    return corpus.subset(kept), corpus.subset([drawn[i] for i in held])


def _require_enough(share: float, n: int, classes: int) -> None:
    """Raise InputError where a class could be in one part alone."""
    if not n:
        raise InputError(f"--holdout {share:g} cannot be drawn: every class has a single document")
    held = ceil(share * n)
    parts = {"holds out": held, "leaves for training": n - held}
    for what, size in parts.items():
        if size < classes:
            each = f"one of each of the {classes} classes" if classes > 1 else "one"
            raise InputError(
                f"--holdout {share:g} cannot be drawn: of {n:,} documents it {what} {size:,}, and there must "
                f"be {each} on both sides; take a {'larger' if what == 'holds out' else 'smaller'} share"
            )


def _has_several(corpus: Corpus) -> bool:
    """Whether documents may have several labels."""
    return any(isinstance(each, tuple) for each in corpus.labels or ())


def _of_lone_classes(corpus: Corpus) -> set[int]:
    """Documents that are the only one of their class."""
    if corpus.labels is None or _has_several(corpus):
        return set()
    labels = options.targets(corpus)
    counts = Counter(labels)
    return {i for i, label in enumerate(labels) if counts[label] == 1}


def _stay(labels: list[str]) -> str:
    """What is done with classes of one document."""
    from textsvm.selection.folds import quoted_names

    if len(labels) == 1:
        return f"class {quoted_names(labels)} has 1 document: it is trained on and never held out"
    return f"classes {quoted_names(labels)} have 1 document each: they are trained on and never held out"
