"""Streams of mail, the tasks of TREC's spam track on them, and its measures.

The measures are those of Cormack and Lynam 2005 and Cormack 2007, in percent; smaller is better.

hm%, sm%   ham called spam, of all ham; spam not called spam, of all spam
lam%       logistic average misclassification: logit(lam) = (logit(hm) + logit(sm)) / 2
(1-ROCA)%  100 less the area under the ROC curve: pairs of a ham and a spam that are the wrong way round;
           a tie counts half
h=.1%      the smallest sm% of any threshold on the score at which hm% is .1 or less
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score, roc_curve

from textsvm.readers.files import read_files

_RECEIVED = re.compile(rb"^received:((?:.*\r?\n[ \t])*.*)", re.IGNORECASE | re.MULTILINE)
_DATE = re.compile(rb"^date:(.*)", re.IGNORECASE | re.MULTILINE)
_KIND = re.compile(r"(?<![a-z])(ham|spam)(?![a-z])")
_YEARS = range(1990, 2100)


@dataclass(frozen=True)
class Mail:
    """A message whose kind is known.

    Attributes
    ----------
    name : str
    data : bytes
    spam : bool
    """

    name: str
    data: bytes
    spam: bool


def mails(path: Path) -> list[Mail]:
    """The messages of a folder or archive, in the order of arrival; folders are named after ham and spam."""
    found = []
    for file in read_files(path).files:
        name = PurePosixPath(file.name)
        kind = _KIND.search(name.parent.name.replace("_", " "))
        if kind and name.name != "cmds":
            found.append((arrival(file.data), file.name, Mail(file.name, file.data, kind[1] == "spam")))
    return [mail for *_, mail in sorted(found, key=lambda each: each[:2])]


def arrival(data: bytes) -> float:
    """When a message came, in seconds: what the last server wrote (the topmost Received), else its own Date.

    A sender may say any date (in SpamAssassin's corpus the years 102, 1980 and 2028), the server does not. A
    date that cannot be read or lies outside of 1990 to 2099 counts as none; without any a message comes
    first.
    """
    header = data[: data.find(b"\n\n") + 1] or data[: data.find(b"\r\n\r\n") + 1] or data
    written = [match[1].rpartition(b";")[2] for match in _RECEIVED.finditer(header)][:1]
    written += [match[1] for match in _DATE.finditer(header)][:1]
    return next((seconds for value in written if (seconds := _seconds(value)) is not None), -np.inf)


def _seconds(value: bytes) -> float | None:
    try:
        date = parsedate_to_datetime(" ".join(value.decode("latin-1").split()))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if date.year not in _YEARS:
        return None
    return (date if date.tzinfo else _utc(date)).timestamp()


def _utc(date: datetime) -> datetime:
    return date.replace(tzinfo=UTC)


def shuffled(stream: list[Mail], seed: int = 0) -> list[Mail]:
    """The same mails in a random order: as if all senders had written all the time."""
    return [stream[i] for i in np.random.default_rng(seed).permutation(len(stream))]


def due(task: str, n: int, delay: int, first: int) -> Iterator[tuple[int, range]]:
    """For each mail that is classified, in turn: its number, and those that are learnt afterwards.

    Parameters
    ----------
    task : {"immediate", "delayed", "first"}
        Each mail is learnt as soon as it is classified; when `delay` more have been classified (the rest at
        the end, which nobody sees); or only the first `first` mails are, at once, and none afterwards.
    n, delay, first : int
    """
    lag = delay if task == "delayed" else 0
    for i in range(n):
        learnt = i - lag
        yield i, range(max(learnt, 0), learnt + 1 if task != "first" or i < first else 0)


def lam(hm: float, sm: float) -> float:
    """Logistic average misclassification, %; 0 where one of the two is 0.

    Parameters
    ----------
    hm, sm : float
        Percent, 0 to 100.
    """
    if min(hm, sm) <= 0 or max(hm, sm) >= 100:
        # One logit is infinite, and so is the mean; of 0 and 100 there is none.
        return 50.0 if min(hm, sm) <= 0 and max(hm, sm) >= 100 else 0.0 if min(hm, sm) <= 0 else 100.0
    odds = math.sqrt(hm / (100 - hm) * sm / (100 - sm))
    return 100 * odds / (1 + odds)


def one_minus_roca(spam: ArrayLike, scores: ArrayLike) -> float:
    """(1-ROCA)%; nan where there is one kind only.

    Parameters
    ----------
    spam : bool array, shape (n,)
    scores : float array, shape (n,)
    """
    spam = np.asarray(spam, bool)
    if spam.all() or not spam.any():
        return math.nan
    return 100 * (1 - float(roc_auc_score(spam, scores)))


def spam_missed(spam: ArrayLike, scores: ArrayLike, ham_missed: float = 0.1) -> float:
    """sm% at the best threshold that keeps hm% at `ham_missed` or below: h=.1%."""
    hm, found, _ = roc_curve(np.asarray(spam, bool), scores, drop_intermediate=False)
    return 100 * (1 - float(found[hm <= ham_missed / 100].max()))


def misclassified(spam: ArrayLike, called_spam: ArrayLike) -> tuple[float, float]:
    """hm% and sm%."""
    spam, called_spam = np.asarray(spam, bool), np.asarray(called_spam, bool)
    return 100 * float(called_spam[~spam].mean()), 100 * float((~called_spam[spam]).mean())
