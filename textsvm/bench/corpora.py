"""The texts of the tables of Shi et al. 2011, with a split that gives their counts exactly.

ModApte, documents with a topic: in exactly one of earn and acq (4,495 + 1,800), or earn against all
others (7,775 + 3,019); the 6,046 SpamAssassin messages, split 80/20 at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from textsvm.documents import normalise
from textsvm.readers import Corpus, read_corpus

REUTERS = Path("reuters21578", "reuters21578.tar.gz")
SPAM = Path("spamassassin", "spamassassin_public_corpus.tar.xz")
IMDB = Path("imdb", "aclImdb_labelled.tar.xz")


@dataclass(frozen=True)
class Task:
    """A corpus in its two parts: normalised texts, and +1 / -1."""

    name: str
    train: list[str]
    y_train: NDArray[np.float64]
    test: list[str]
    y_test: NDArray[np.float64]


def paper_tasks(folder: Path, max_length: int | None = 100) -> list[Task]:
    """Earn vs Acq, Earn vs Rest and Spam in the papers' text form, cut at `max_length` symbols."""
    reuters = read_corpus(folder / REUTERS)
    tasks = []
    for name, negative in (("Earn vs Acq", "acq"), ("Earn vs Rest", "rest")):
        corpus = reuters.reduce_labels("earn", negative)
        tasks.append(_task(name, corpus.select(part="train"), corpus.select(part="test"), "earn", max_length))
    return tasks + spam_tasks(folder, max_length, 1)


def spam_tasks(folder: Path, max_length: int | None, splits: int) -> list[Task]:
    """The mails under several random splits: with 1,210 test messages, one split is worth +- 0.5 points."""
    mails = read_corpus(folder / SPAM)
    tasks = []
    for seed in range(splits):
        rest, held = train_test_split(
            range(len(mails)), test_size=0.2, random_state=seed, stratify=mails.labels
        )
        tasks.append(
            _task("Spam", mails.subset(sorted(rest)), mails.subset(sorted(held)), "spam", max_length)
        )
    return tasks


def _task(name: str, train: Corpus, test: Corpus, positive: str, max_length: int | None) -> Task:
    def texts(corpus: Corpus) -> list[str]:
        return [normalise(text, "paper")[:max_length] for text in corpus.texts]

    def signs(corpus: Corpus) -> NDArray[np.float64]:
        return np.where(np.array(corpus.labels) == positive, 1.0, -1.0)

    return Task(name, texts(train), signs(train), texts(test), signs(test))
