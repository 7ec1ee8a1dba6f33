"""Corpora of the tables of Shi et al. 2010, with splits that give the document counts of the paper.

Reuters ModApte, documents with a topic: in exactly one of earn and acq (4,495 + 1,800), or earn against all
others (7,775 + 3,019). The 6,046 SpamAssassin messages, split 80/20 at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from textsvm.arrays import AnyArray, Floats
from textsvm.readers import sample
from textsvm.readers.corpus import Corpus
from textsvm.readers.read import read_corpus
from textsvm.text.documents import normalise

REUTERS = Path("reuters21578", "reuters21578.tar.gz")
SPAM = Path("spamassassin", "spamassassin_public_corpus.tar.xz")
#: Embedded samples used by --quick.
STAND_INS = {REUTERS: "newswire", SPAM: "mail"}


@dataclass(frozen=True)
class TrainTest:
    """Training and test part of a corpus; labels are +1 and -1 for the tables of Shi et al. 2010."""

    name: str
    train: list[str]
    y_train: AnyArray
    test: list[str]
    y_test: AnyArray


def read(folder: Path | None, path: Path) -> Corpus:
    """Read a public corpus, or without a folder the bundled sample in its place."""
    return read_corpus(sample(STAND_INS[path]) if folder is None else folder / path)


def paper_tasks(folder: Path | None, max_length: int | None = 100) -> list[TrainTest]:
    """Earn vs Acq, Earn vs Rest and Spam in the text form of the paper, cut at `max_length` symbols."""
    tasks = [_task(name, train, test, "earn", max_length) for name, train, test in newswire_parts(folder)]
    return tasks + spam_tasks(folder, max_length, 1)


def newswire_parts(folder: Path | None) -> list[tuple[str, Corpus, Corpus]]:
    """Name, training part and test part of Earn vs Acq and Earn vs Rest."""
    reuters, parts = read(folder, REUTERS), []
    for name, negative in (("Earn vs Acq", "acq"), ("Earn vs Rest", "rest")):
        corpus = reuters.reduce_labels("earn", negative)
        parts.append((name, corpus.select(part="train"), corpus.select(part="test")))
    return parts


def spam_tasks(folder: Path | None, max_length: int | None, splits: int) -> list[TrainTest]:
    """Spam under several random splits; with 1,210 test messages accuracy varies by 0.5 points."""
    mails = read(folder, SPAM)
    return [
        _task("Spam", mails.subset(rest), mails.subset(test), "spam", max_length)
        for rest, test in mail_splits(mails, splits)
    ]


def mail_splits(mails: Corpus, splits: int) -> list[tuple[list[int], list[int]]]:
    """Indices of stratified 80/20 splits with seeds 0, 1, ..."""
    halves = [
        train_test_split(range(len(mails)), test_size=0.2, random_state=seed, stratify=mails.labels)
        for seed in range(splits)
    ]
    return [(sorted(rest), sorted(test)) for rest, test in halves]


def _task(name: str, train: Corpus, test: Corpus, positive: str, max_length: int | None) -> TrainTest:
    def texts(corpus: Corpus) -> list[str]:
        return [normalise(text, "paper")[:max_length] for text in corpus.texts]

    def signs(corpus: Corpus) -> Floats:
        return np.where(np.array(corpus.labels) == positive, 1.0, -1.0)

    return TrainTest(name, texts(train), signs(train), texts(test), signs(test))
