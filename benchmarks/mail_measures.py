"""The measures of TREC's spam track (Cormack and Lynam 2005, Cormack 2007), in percent; smaller is better.

hm%, sm%   ham called spam, of all ham; spam not called spam, of all spam
lam%       logistic average misclassification: logit(lam) = (logit(hm) + logit(sm)) / 2
(1-ROCA)%  100 less the area under the ROC curve: pairs of a ham and a spam that are the wrong way round;
           a tie counts half
h=.1%      the smallest sm% of any threshold on the score at which hm% is .1 or less
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score, roc_curve


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
