"""Corpora of the benchmarks: training and test parts, and documents drawn from sentences of a corpus.

The tables of Shi et al. 2010: Reuters ModApte, documents with a topic, in exactly one of earn and acq
(4,495 and 1,800), or earn against all others (7,775 and 3,019); the 6,046 SpamAssassin messages, split
80/20 at random. R8 (5,485 and 2,189) and IMDB (25,000 and 25,000) as published. Essays: the eight prompts of
ASAP-AES with the five folds of Taghipour and Ng 2016. Vectors: LIBSVM's files.
"""

from __future__ import annotations

import lzma
import tarfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split

from textsvm.arrays import AnyArray, Floats
from textsvm.readers import sample
from textsvm.readers.corpus import Corpus
from textsvm.readers.read import read_corpus
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import run
from textsvm.text.documents import Documents, normalise
from textsvm.text.encoding import decode

Array = NDArray[Any]
REUTERS = Path("reuters21578", "reuters21578.tar.gz")
SPAM = Path("spamassassin", "spamassassin_public_corpus.tar.xz")
#: Embedded samples used by --quick.
STAND_INS = {REUTERS: "newswire", SPAM: "mail"}
IMDB = Path("imdb", "aclImdb_labelled.tar.xz")
R8 = Path("r8")
ESSAYS = Path("asap-aes", "training_set_rel3.tsv.xz")
ESSAY_FOLDS = Path("asap-aes", "folds_train_dev_test_ids.tar.gz")
#: Lowest and highest score of the raters, prompts 1 to 8.
SCORE_RANGES = ((2, 12), (1, 6), (0, 3), (0, 3), (0, 4), (0, 4), (2, 24), (10, 60))


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


@dataclass(frozen=True)
class Prompt:
    """The essays on one prompt.

    Attributes
    ----------
    number : int
    texts : list of n str
    scores : int64 array, shape (n,)
        Within `low` and `high`.
    low, high : int
        Range of the scores.
    folds : list of (train, dev, test)
        Indices of the essays, int64 arrays.
    """

    number: int
    texts: list[str]
    scores: NDArray[np.int64]
    low: int
    high: int
    folds: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]


def full_tasks(folder: Path | None) -> list[TrainTest]:
    """Earn vs Acq, Earn vs Rest and one split of Spam: whole texts as read from the files."""
    return newswire_tasks(folder) + mail_tasks(folder, 1)


def newswire_tasks(folder: Path | None) -> list[TrainTest]:
    """Earn vs Acq and Earn vs Rest: whole texts as read from the files."""
    return [raw_task(name, train, test) for name, train, test in newswire_parts(folder)]


def mail_tasks(folder: Path | None, splits: int) -> list[TrainTest]:
    """Spam under random splits: whole texts as read from the files."""
    mails = read(folder, SPAM)
    return [
        raw_task(f"Spam, split {seed}", mails.subset(rest), mails.subset(held))
        for seed, (rest, held) in enumerate(mail_splits(mails, splits))
    ]


@dataclass(frozen=True)
class LabelsTask:
    """Texts with any of several labels each.

    Attributes
    ----------
    train, test : list of str
    y_train, y_test : bool arrays, shape (n, n_classes)
    classes : array, shape (n_classes,)
    """

    train: list[str]
    y_train: NDArray[np.bool_]
    test: list[str]
    y_test: NDArray[np.bool_]
    classes: NDArray[Any]

    def every(self, step: int) -> LabelsTask:
        """Every `step`-th training text, with the labels that still vary."""
        some = self.y_train[::step]
        known = some.any(axis=0) & ~some.all(axis=0)
        rows = np.flatnonzero(some[:, known].any(axis=1)) * step
        y, classes = self.y_train[np.ix_(rows, known)], self.classes[known]
        return LabelsTask([self.train[i] for i in rows], y, self.test, self.y_test[:, known], classes)


def labels_task(corpus: Corpus) -> LabelsTask:
    """Documents with at least one label that occurs in both parts."""
    parts = [corpus.select(part="train"), corpus.select(part="test")]
    sets = [{label for labels in part.labels or [] for label in labels} for part in parts]
    classes = sorted(sets[0] & sets[1])
    (train, y_train), (test, y_test) = (_labelled(part, classes) for part in parts)
    return LabelsTask(train, y_train, test, y_test, np.array(classes))


def _labelled(part: Corpus, classes: list[str]) -> tuple[list[str], NDArray[np.bool_]]:
    """Texts with at least one of these labels, and the indicator matrix."""
    indicator = np.array([[label in labels for label in classes] for labels in part.labels or []])
    rows = np.flatnonzero(indicator.any(axis=1))
    return [part.texts[i] for i in rows.tolist()], indicator[rows]


def raw_task(name: str, train: Corpus, test: Corpus) -> TrainTest:
    """Texts as read from the files, with their labels."""
    return TrainTest(name, list(train.texts), np.array(train.labels), list(test.texts), np.array(test.labels))


def parted_task(name: str, path: Path) -> TrainTest:
    """A corpus with a published training and test part: R8, IMDB."""
    corpus = read_corpus(path)
    return raw_task(name, corpus.select(part="train"), corpus.select(part="test"))


def essay_prompts(folder: Path) -> list[Prompt]:
    """The 12,978 essays by prompt.

    Cells are split at TAB and quotes are text; a reader that interprets quotes merges rows.
    """
    with lzma.open(folder / ESSAYS, "rt", encoding="utf-8", newline="") as lines:
        header, *rows = [line.split("\t") for line in lines.read().split("\r\n") if line]
    column = {name: header.index(name) for name in ("essay_id", "essay_set", "essay", "domain1_score")}
    parts = _essay_folds(folder / ESSAY_FOLDS)
    prompts = []
    for number, (low, high) in enumerate(SCORE_RANGES, 1):
        mine = [row for row in rows if int(row[column["essay_set"]]) == number]
        ids = np.array([int(row[column["essay_id"]]) for row in mine])
        folds = [tuple(np.flatnonzero(np.isin(ids, part)) for part in fold) for fold in parts]
        scores = np.array([int(row[column["domain1_score"]]) for row in mine])
        texts = [row[column["essay"]] for row in mine]
        prompts.append(Prompt(number, texts, scores, low, high, folds))  # type: ignore[arg-type]
    return prompts


def _essay_folds(path: Path) -> list[list[NDArray[np.int64]]]:
    """The ids of the training, dev and test essays of each fold."""
    with tarfile.open(path) as archive:
        ids = {
            member.name: np.array(archive.extractfile(member).read().split(), np.int64)  # type: ignore[union-attr]
            for member in archive
            if member.isfile()
        }
    return [
        [ids[f"fold_{fold}/{part}_ids.txt"] for part in ("train", "dev", "test")]
        for fold in range(len(ids) // 3)
    ]


def vectors(folder: Path, train: str, test: str = "") -> tuple[Any, Any, Any, Any]:
    """X_train, y_train, X_test, y_test of LIBSVM's files, float32: CSR where three in four numbers are zeros.

    The test part is None where it has no file.
    """
    x, y = load_svmlight_file(str(folder / "libsvm" / f"{train}.bz2"), dtype=np.float32)
    dense = x.nnz > 0.25 * x.shape[0] * x.shape[1]
    parts: list[Any] = [x.toarray() if dense else x, y.astype(np.int64)]
    if not test:
        return parts[0], parts[1], None, None
    path = str(folder / "libsvm" / f"{test}.bz2")
    x, y = load_svmlight_file(path, dtype=np.float32, n_features=x.shape[1])
    return parts[0], parts[1], x.toarray() if dense else x, y.astype(np.int64)


def resampled_documents(
    documents: Documents, classes: NDArray[np.int64], n: int, length: int, seed: int = 0
) -> tuple[Documents, NDArray[np.int64]]:
    """Documents of exactly `length` characters and their classes, which are as frequent as in the corpus.

    Parameters
    ----------
    documents : Documents
        Of characters; sentences end with ".", "!" or "?" and a space.
    classes : int64 array, shape (len(documents),)
        From 0.
    n, length, seed : int
    """
    codes, offsets = documents.codes, documents.offsets
    ends = np.isin(documents.alphabet, np.array([ord(c) for c in ".!?"]))[codes[:-1]]
    behind = np.flatnonzero(ends & (documents.alphabet[codes[1:]] == ord(" "))) + 2
    starts = np.unique(np.concatenate([offsets[:-1][documents.lengths > 0], behind]))
    starts = starts[starts < len(codes)]
    owner = classes[np.searchsorted(offsets, starts, side="right") - 1]
    order = np.argsort(owner, kind="stable")
    number = np.bincount(owner)
    lengths = np.diff(np.append(starts, len(codes)))[order]
    rng = np.random.default_rng(seed)
    drawn = classes[rng.integers(0, len(classes), n)]
    made, seeds = np.empty((n, length), codes.dtype), rng.integers(1, 1 << 62, n)
    first = np.concatenate([[0], np.cumsum(number)[:-1]])
    step = max(1, n // 256)
    run(
        lambda i: _fill(made[i : i + step], seeds[i : i + step], drawn[i : i + step],
                        codes, starts[order], lengths, first, number),
        range(0, n, step),
    )  # fmt: skip
    return Documents(made.ravel(), np.arange(n + 1) * length, documents.alphabet), drawn


def texts_of(documents: Documents) -> list[str]:
    """Texts of documents of characters."""
    whole = decode(documents.alphabet[documents.codes])
    bounds = documents.offsets.tolist()
    return [whole[a:b] for a, b in pairwise(bounds)]


@njit(nogil=True, cache=True)
def _fill(
    made: Array,
    seeds: Array,
    drawn: Array,
    codes: Array,
    starts: Array,
    lengths: Array,
    first: Array,
    number: Array,
) -> None:
    for i in range(len(made)):
        state, at, c = np.uint64(seeds[i]), 0, drawn[i]
        while at < made.shape[1]:
            state ^= state >> np.uint64(12)  # xorshift64
            state ^= state << np.uint64(25)
            state ^= state >> np.uint64(27)
            k = first[c] + np.int64((state >> np.uint64(11)) % np.uint64(number[c]))
            size = min(lengths[k], made.shape[1] - at)
            made[i, at : at + size] = codes[starts[k] : starts[k] + size]
            at += size
