"""Verification of authors by the method of imposters (Koppel and Winter, JASIST 2014).

Is a disputed text by a candidate author at all, or by somebody else? In each of many rounds half of the
features and half of the texts of other authors, the imposters, are drawn. The candidate wins the round if a
text of his is more similar to the disputed text than every imposter. The score is the share of rounds won.

A feature is the presence of a substring of 3 to 8 characters or of 1 to 3 words; both kinds have the same
weight. Texts are compared by the share of their common features (Jaccard), k(x, y) / (k(x, x) + k(y, y) -
k(x, y)) with the presence kernels. Features are dealt into `PARTS` random parts, each with its Gram matrix;
the Gram of half of the features is the sum of half of these.

Shares depend on lengths, so all texts are cut into pieces of a length: at most that of the disputed text, and
at most the median of the known texts. The known texts show the meaning of a score: each piece is verified
against its own author, without the pieces of its group (its text, or its book), and against each other
author, without its own. Two limits on the score are chosen as stylo's `imposters.optimize` does, to maximise
c@1 (Penas and Rodrigo, ACL 2011): "no" below the first, "yes" from the second, and no answer between them.
Both kinds of problems have the same weight. A text by nobody of the authors is compared with all of them, and
has a "yes" for one as often as known pieces have without the texts of their own author (`false_yes`). The
second limit is raised until that share is `MOST_FALSE`; above a score of 1 nothing has a "yes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import Bools, Floats, Ints, Json
from textsvm.errors import InputError
from textsvm.evaluation.metrics import roc_area
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spectrum.feature_matrix import learn_columns
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.runtime.parallel import Progress
from textsvm.runtime.parameters import with_short_repr
from textsvm.runtime.plain_json import to_json
from textsvm.sources.texts import TextSource
from textsvm.text.pieces import Pieces
from textsvm.training.folds import as_groups

PARTS = 32  #: Random parts of the substrings
MOST_PIECES = 600  #: Pieces of all known texts; of more a sample is drawn
MOST_OF_ONE = 50  #: Pieces of a disputed text
LEAST, MOST = 500, 20_000  #: Characters of a piece
LEAST_AUC = 0.75  #: Least area under the ROC curve at which verdicts are given
MOST_FALSE = 0.2  #: Largest share of known pieces with a "yes" for another author, without those of their own


@with_short_repr
@dataclass(frozen=True)
class Verification:
    """Scores of a disputed text for each candidate author, with the scores of the known texts."""

    authors: list[str]
    scores: Floats  #: shape (n_authors,): Share of rounds won
    limits: tuple[float, float]  #: "No" below the first, "yes" from the second; above 1: never
    length: int  #: Characters of a piece
    own: Floats = field(repr=False)  #: Scores of known pieces for their own author
    others: Floats = field(repr=False)  #: Scores of known pieces for other authors
    left_out: list[str] = field(default_factory=list)  #: Sentences on shared lines, which were left out

    @property
    def auc(self) -> float:
        """Area under the ROC curve of the scores of known pieces."""
        truth = np.repeat([True, False], [len(self.own), len(self.others)])
        return roc_area(truth, np.concatenate([self.own, self.others]))

    @property
    def c_at_1(self) -> float:
        """c@1 of the known pieces with these limits."""
        return _c_at_1(self.own, self.others, *self.limits)

    @property
    def true_yes(self) -> float:
        """Share of known pieces with a "yes" for their own author, of other groups."""
        return float(np.mean(self.own >= self.limits[1]))

    @property
    def false_yes(self) -> float:
        """Share of known pieces, without the texts of their author, with a "yes" for any of the others."""
        return float(np.mean(self.strangers >= self.limits[1]))

    @property
    def strangers(self) -> Floats:
        """Largest score of each known piece without the texts of its author."""
        return np.asarray(self.others.reshape(-1, len(self.authors) - 1).max(axis=1))

    @property
    def reliable(self) -> bool:
        """Whether the known texts can be told apart, so that verdicts mean something."""
        return self.auc >= LEAST_AUC

    def verdict(self, score: float) -> str:
        """ "yes", "no" or "unclear"."""
        if not self.reliable or self.limits[0] <= score < self.limits[1]:
            return "unclear"
        return "yes" if score >= self.limits[1] else "no"

    def as_dict(self) -> Json:
        """JSON values."""
        verdicts = [self.verdict(score) for score in self.scores]
        figures = {"verdicts": verdicts, "auc": self.auc, "c@1": self.c_at_1, "reliable": self.reliable}
        figures |= {"true_yes": self.true_yes, "false_yes": self.false_yes}
        return to_json({**vars(self), **figures})


def verify(
    texts: Sequence[str], labels: Sequence[object], disputed: str, groups: ArrayLike | None = None,
    rounds: int = 200, random_state: int = 0, progress: Progress | None = None,
) -> Verification:  # fmt: skip
    """Verify whether a disputed text is by an author of known texts.

    Lines that many texts of an author begin or end with are left out, see `textsvm.text.pieces`.

    Parameters
    ----------
    texts, labels : sequence, shape (n,)
        Known texts and their authors: three authors or more, at least one of them with two groups.
    disputed : str
        A long text has the mean score of its pieces.
    groups : array-like, shape (n,), optional
        Book of each text; each text is a group of its own by default.
    rounds, random_state : int
    progress : callable, optional

    Raises
    ------
    InputError
        If there are too few authors or texts, or the disputed text is too short.

    Examples
    --------
    >>> from textsvm import verify
    >>> phrases = ["the sea was grey and still ", "sir, I beg your pardon now ", "win cash, click on a link "]
    >>> texts = [phrase * 30 for phrase in phrases for _ in range(2)]
    >>> result = verify(texts, ["a", "a", "b", "b", "c", "c"], phrases[1] * 25)
    >>> result.authors[result.scores.argmax()], result.verdict(result.scores.max())
    ('b', 'yes')
    """
    arguments = groups, rounds, random_state, progress
    return verify_all(texts, labels, {"a disputed text": disputed}, *arguments)[0]


def verify_all(
    texts: Sequence[str], labels: Sequence[object], disputed: Mapping[str, str],
    groups: ArrayLike | None = None, rounds: int = 200, random_state: int = 0,
    progress: Progress | None = None,
) -> list[Verification]:  # fmt: skip
    """`verify` of each disputed text, by name; features of the known texts are computed once for a length."""
    classes, author = np.unique(list(map(str, labels)), return_inverse=True)
    names = classes.tolist()
    group = np.arange(len(texts)) if groups is None else as_groups(groups, len(texts))
    edges, left_out = Pieces.without_common(texts, labels) if len(texts) == len(labels) else (Pieces(), [])
    texts = ["".join(edges.cut(text)) for text in texts]
    asked = {name: "".join(edges.cut(text)) for name, text in disputed.items()}
    _check(texts, names, author, group, asked)
    longest = min(MOST, max(LEAST, int(np.median([len(text) for text in texts]))))
    lengths = {name: min(longest, len(text)) for name, text in asked.items()}
    results: dict[str, Verification] = {}
    for length in set(lengths.values()):
        random, most = np.random.default_rng(random_state), max(2, MOST_PIECES // len(names))
        source, pieces = _sample(texts, author, group, length, most, random)
        of_length = [name for name in asked if lengths[name] == length]
        for first in range(0, len(of_length), MOST_PIECES // MOST_OF_ONE):
            batch = of_length[first : first + MOST_PIECES // MOST_OF_ONE]
            one = np.zeros(1, np.int64)
            parts = [
                _sample([asked[name]], one, one, length, MOST_OF_ONE, np.random.default_rng(random_state))[1]
                for name in batch
            ]
            features = _GramParts(pieces, parts, random_state)
            for t, name in enumerate(batch):
                game = _Game(features.grams(t), author[source], group[source], random_state)
                scores = np.zeros((len(parts[t]), len(names)))
                own, others = np.zeros(len(pieces)), np.zeros((len(pieces), len(names)))
                for i in range(rounds):
                    of_own, of_others, of_asked = game.play()
                    own, others, scores = own + of_own, others + of_others, scores + of_asked
                    if progress is not None:
                        progress(len(results) * rounds + i + 1, len(asked) * rounds)
                own, others = own[game.has_other_group] / rounds, others[game.is_other] / rounds
                mean, limits = scores.mean(axis=0) / rounds, _limits(own, others)
                result = Verification(names, mean, limits, length, own, others, left_out)
                largest = float(np.sort(result.strangers)[::-1][int(MOST_FALSE * len(pieces))])
                high = max(limits[1], (int(50 * largest) + 1) / 50)
                results[name] = replace(result, limits=(limits[0], high))
    return [results[name] for name in disputed]


def _check(
    texts: Sequence[str], names: Sequence[str], author: Ints, group: Ints, asked: Mapping[str, str]
) -> None:
    if len(group) != len(texts) or len(author) != len(texts):
        raise InputError(f"there are {len(texts)} texts, {len(author)} labels and {len(group)} groups")
    if len(names) < 3:
        raise InputError(
            f"verification needs texts of three authors or more, got {len(names)}: others are the imposters"
        )
    if len(np.unique(np.stack([author, group]), axis=1).T) == len(names):
        raise InputError(
            "each author has one text or group; give two, so that one is compared with the other"
        )
    for name, text in asked.items():
        if len(text) < LEAST:
            raise InputError(
                f"{name} has {len(text)} characters, too few to tell its author; {LEAST} are the least, and "
                "some thousands are better"
            )


def _sample(
    texts: Sequence[str], author: Ints, group: Ints, length: int, most: int, random: np.random.Generator
) -> tuple[Ints, list[str]]:
    """Texts' indices and pieces by author, at most so many of each author, from all groups alike.

    A rest of less than half a length is no piece.
    """
    counts = [max(1, round(len(text) / length)) for text in texts]
    source = np.repeat(np.arange(len(texts)), counts)
    number = np.concatenate([np.arange(count) for count in counts])
    order = random.permutation(len(source))
    key = np.unique(np.stack([author, group]), axis=1, return_inverse=True)[1].reshape(-1)[source[order]]
    by_key = np.argsort(key, kind="stable")
    turns = np.zeros(len(source), np.int64)  # of a piece among those of its author and group
    turns[by_key] = np.arange(len(source)) - np.searchsorted(key[by_key], key[by_key])
    order = order[np.argsort(turns, kind="stable")]
    by_author = [order[author[source[order]] == a][:most] for a in np.unique(author)]
    drawn = np.concatenate([np.sort(own) for own in by_author])
    starts = zip(source[drawn].tolist(), (number[drawn] * length).tolist(), strict=True)
    return source[drawn], [texts[i][first : first + length] for i, first in starts]


class _GramParts:
    """Features of known and disputed pieces, dealt into parts, and Gram matrices of the parts.

    The features of a disputed text are those of two pieces or more, of known pieces and its own.
    """

    def __init__(self, pieces: list[str], disputed: list[list[str]], random_state: int) -> None:
        self._n, self._random_state = len(pieces), random_state
        self._bounds = np.cumsum([len(pieces), *map(len, disputed)])
        #: Of each kind of features: columns of the known pieces, rows of the disputed pieces, part of each
        #: feature, numbers of known pieces with each feature, and the Gram matrix of the known pieces.
        self._kinds: list[tuple[Any, Any, Ints, Ints, Floats]] = []
        random, pieces = np.random.default_rng((random_state, 1)), [*pieces, *chain(*disputed)]
        for p, tokens in ((3, 8), "characters"), ((1, 3), "words"):
            kernel = Spectrum(p, "presence", normalised=False, tokens=tokens, keep_case=True)
            documents = TextSource(kernel, TextForm()).encode(pieces, None)
            try:
                matrix = learn_columns(kernel, documents, 2, True, None)[1]
            except InputError:  # no feature is in two texts: words of a script without spaces
                continue
            assert matrix is not None
            X = matrix[: self._n].tocsc()
            counts = np.diff(X.indptr)
            part = np.full(X.shape[1], -1)
            part[counts >= 2] = random.integers(PARTS, size=int((counts >= 2).sum()))
            gram = np.stack([(own @ own.T).toarray() for own in (X[:, part == k] for k in range(PARTS))])
            self._kinds.append((X, matrix[self._n :], part, counts, gram))

    def grams(self, t: int) -> Floats:
        """Gram matrices of the parts, of the known pieces and those of disputed text `t`."""
        n, (first, last) = self._n, self._bounds[t : t + 2] - self._n
        m, random = last - first, np.random.default_rng((self._random_state, 2))
        grams = np.zeros((PARTS, n + m, n + m), np.float32)
        for X, rows, parts, counts, gram in self._kinds:
            A = rows[first:last]
            present, own = np.unique(A.indices, return_counts=True)
            present = present[own + counts[present] >= 2]
            X_own, A, part = X[:, present], A.tocsc()[:, present], parts[present]
            rare = counts[present] < 2  # among known pieces
            part[rare] = random.integers(PARTS, size=int(rare.sum()))
            more = X_own[:, rare].tocoo()  # features that a known piece shares with the text alone
            weight = 1e4 / max(1, counts[counts >= 2].sum() + more.nnz + A.nnz)  # equal for both kinds
            grams[:, :n, :n] += gram * weight
            np.add.at(grams, (part[rare][more.col], more.row, more.row), weight)
            for k in range(PARTS):
                of_part = A[:, part == k]
                cross = (X_own[:, part == k] @ of_part.T).toarray() * weight
                grams[k, :n, n:] += cross
                grams[k, n:, :n] += cross.T
                grams[k, n:, n:] += (of_part @ of_part.T).toarray() * weight
        if not grams.any():
            raise InputError("no two texts have a common substring of 3 characters; nothing can be compared")
        return grams


class _Game:
    """Rounds between candidates and imposters, for known pieces, by author, and for disputed pieces."""

    def __init__(self, grams: Floats, author: Ints, group: Ints, random_state: int) -> None:
        self._grams, self._author, self._group, self._n = grams, author, group, len(author)
        self._starts = np.flatnonzero(np.diff(author, prepend=-1))
        self._random = np.random.default_rng((random_state, 3))
        self.has_other_group = ((author[:, None] == author) & (group[:, None] != group)).any(axis=1)
        self.is_other = author[:, None] != author[self._starts]

    def play(self) -> tuple[Bools, Bools, Bools]:
        """Wins of a round: known pieces against their author and against others, and disputed pieces."""
        gram, n = self._grams[self._random.permutation(PARTS)[: PARTS // 2]].sum(axis=0), self._n
        size = np.diag(gram)
        similar = gram[:, :n] / np.maximum(size[:, None] + size[:n] - gram[:, :n], 1e-9)
        similar[:n][self._group[:, None] == self._group] = -1
        best = np.maximum.reduceat(similar, self._starts, axis=1)
        drawn = self._random.random(n) < 0.5
        imposters = np.maximum.reduceat(np.where(drawn, similar, -1), self._starts, axis=1)
        rows = np.arange(n)
        own = best[rows, self._author] > _largest_other(imposters[:n])[rows, self._author]
        without_own = imposters[:n].copy()
        without_own[rows, self._author] = -1
        return own, best[:n] > _largest_other(without_own), best[n:] > _largest_other(imposters[n:])


def _largest_other(values: Floats) -> Floats:
    """The largest value of the other columns, for each row and column."""
    second, first = np.split(np.partition(values, -2, axis=1)[:, -2:], 2, axis=1)
    return np.where(values == first, second, first)


def _c_at_1(own: Floats, others: Floats, low: float, high: float) -> float:
    """c@1 of scores, with the same weight for problems of both kinds."""
    right = (np.mean(own >= high) + np.mean(others < low)) / 2
    unanswered = sum(np.mean((low <= scores) & (scores < high)) for scores in (own, others)) / 2
    return float(right + unanswered * right)


def _limits(own: Floats, others: Floats) -> tuple[float, float]:
    """The limits of the largest c@1; of equal ones the narrowest."""
    pairs = combinations_with_replacement(np.linspace(0, 1, 51), 2)
    best = max(pairs, key=lambda pair: (round(_c_at_1(own, others, *pair), 9), pair[0] - pair[1]))
    return float(best[0]), float(best[1])
