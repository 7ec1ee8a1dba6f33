"""Choose texts to label, and learn from the answers.

Strategies: the texts of a pool in the order in which to label them, and when to stop labelling.

Each strategy is a function of `Candidates` and of a number n, and returns n positions among the candidates,
the best first. Without a machine, before two labels have texts, every strategy except "random" takes typical
texts of different clusters.

Stopping
--------
Accuracy and recall are estimated from labels that the strategy did not choose.

Accuracy. About every tenth text is the next one without a label in a random order of all texts. The texts up
to there, drawn or chosen by the strategy before their turn, are a random sample. A machine that was trained
without a text and its near-copies classifies it. The share of correct labels estimates the accuracy on texts
of the corpus. Clopper and Pearson's interval assumes a number of texts that is fixed beforehand, and skipped
and unsure texts are missing.

Retrieval. Labelling may stop once a binomial test of the latest answers rejects, with probabilities of the
machine and with equal ones, that too many relevant texts are still without a label. reports/labelling.md has
the test, which is no theorem, and its rate of success in simulated searches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.special import bdtr, expit

from textsvm.apps.label.machine import LENGTH, ColumnWeights, Machine, Pool, Scorer, digest, marks, mixed
from textsvm.arrays import Bools, Floats, Ints
from textsvm.errors import InputError
from textsvm.evaluation.results import clopper_pearson
from textsvm.kernels.attribution import pieces
from textsvm.model.rules import fit_logistic
from textsvm.runtime.parallel import Lock, one_blas_thread

MOST = 500  #: Maximum number of candidates that are compared with each other
RECALL = 0.95  #: Recall to reach
#: Recall to reach if the missing texts are unlike those found, so that the machine does not rank them.
UNRANKED_RECALL = 0.8
LEVEL = 0.05  #: Probability of the latest answers, if the recall is lower, at which a search may stop
HITS = 10  #: Maximum number of relevant texts among the latest answers


@dataclass(frozen=True)
class Candidates:
    """The m texts without a label, as a machine of n texts sees them."""

    index: Ints  #: shape (m,): Numbers of the texts
    labelled: Ints  #: shape (n,): Numbers of the labelled texts
    values: Floats | None  #: shape (m, k): Decision values; None without a machine
    machine: Machine | None
    #: (texts, others) -> kernel values, shape (len(texts), len(others))
    similarity: Callable[[Ints, Ints], NDArray[np.floating]]
    rng: np.random.Generator
    relevant: int | None = None  #: Column of the label whose texts are searched for; None before the first

    def uncertainty(self) -> Floats:
        """1 less the difference between the probabilities of the two likeliest labels, shape (m,)."""
        assert self.machine is not None
        assert self.values is not None
        p = self.machine.probabilities(self.values)
        if self.machine.multilabel:
            return np.asarray(1 - 2 * np.abs(p - 0.5).min(axis=1))
        two = np.partition(p, -2, axis=1)[:, -2:]
        return np.asarray(1 - two[:, 1] + two[:, 0])

    def cover(self, weight: Floats, n: int) -> Ints:
        """Greedy facility location: n of at most `MOST` random candidates.

        Each raises the weighted sum, over these candidates, of the similarity to the most similar labelled or
        chosen text. The similarity is the kernel value, centred on these candidates, if it is positive.
        `weight` has shape (m,).
        """
        sample = np.sort(self.rng.permutation(len(self.index))[:MOST])
        index, weight = self.index[sample], weight[sample]
        kernel, covered = self.similarity(index, index), np.zeros(len(sample), np.float32)
        offset = (kernel.mean(axis=1) - kernel.mean())[:, None]
        among = np.maximum(kernel - offset - kernel.mean(axis=0), 0)
        if len(self.labelled):
            near = self.similarity(index, self.labelled)
            covered = np.maximum(near - offset - near.mean(axis=0), 0).max(axis=1)
        chosen: list[int] = []
        for _ in range(min(n, len(sample))):
            gain = weight @ np.maximum(among - covered[:, None], 0)
            gain[chosen] = -1
            chosen.append(int(gain.argmax()))
            covered = np.maximum(covered, among[:, chosen[-1]])
        return sample[np.asarray(chosen, np.int64)]


def at_random(candidates: Candidates, n: int) -> Ints:
    """Random texts."""
    return np.asarray(candidates.rng.permutation(len(candidates.index))[:n], np.int64)


def typical(candidates: Candidates, n: int) -> Ints:
    """Typical texts of different clusters, by greedy facility location."""
    return candidates.cover(np.ones(len(candidates.index)), n)


def margin(candidates: Candidates, n: int) -> Ints:
    """Smallest difference between the probabilities of the two likeliest labels."""
    return _largest(candidates.uncertainty(), n)


def density(candidates: Candidates, n: int) -> Ints:
    """Facility location weighted by uncertainty: texts in the midst of uncertain texts, in new clusters."""
    return candidates.cover(candidates.uncertainty(), n)


def relevance(candidates: Candidates, n: int) -> Ints:
    """Largest value of the label whose texts are searched for; before the first of these, typical texts."""
    if candidates.relevant is None:
        return typical(candidates, n)
    assert candidates.values is not None
    return _largest(candidates.values[:, candidates.relevant], n)


def mixture(candidates: Candidates, n: int) -> Ints:
    """Texts of "density" and of "margin" in turns."""
    turns = np.stack([density(candidates, n), margin(candidates, n)], axis=1)
    if len(candidates.labelled) % 2:
        turns = turns[:, ::-1]
    return np.array(list(dict.fromkeys(turns.ravel().tolist()))[:n], np.int64)


def _largest(score: Floats, n: int) -> Ints:
    """Positions of the n largest scores, the largest first."""
    best = np.argpartition(-score, n - 1)[:n] if 0 < n < len(score) else np.arange(len(score))
    return np.asarray(best[np.argsort(-score[best], kind="stable")][:n], np.int64)


Strategy = Callable[[Candidates, int], Ints]
STRATEGIES: dict[str, Strategy] = {
    "mixture": mixture,
    "random": at_random,
    "margin": margin,
    "relevance": relevance,
}


def rank(name: str, candidates: Candidates, n: int) -> Ints:
    """The n texts to label next by a strategy, as positions among the candidates."""
    if candidates.machine is None and name != "random":
        return typical(candidates, n)
    return STRATEGIES[name](candidates, n)


@dataclass(frozen=True)
class Retrieval:
    """State of a search for all relevant texts."""

    n_found: int  #: Relevant texts with a label
    total: float | None  #: Estimated number of relevant texts; None without relevant and other texts
    enough: bool  #: Whether the recall is probably reached


def retrieval(relevant: Bools, values: Floats, unlabelled: Floats, n_outside: int) -> Retrieval:
    """Judge whether enough relevant texts are labelled.

    `relevant` are the answers, in their order, and `values` the decision values of these texts by machines
    without them. `unlabelled` are values of the other texts of the pool; `n_outside` is the number of texts
    without a label outside the pool.
    """
    n, n_found = len(relevant), int(relevant.sum())
    n_unlabelled = len(unlabelled) + n_outside
    if n_found in (0, n) or not n_unlabelled:
        return Retrieval(n_found, None if n_unlabelled else n_found, not n_unlabelled)
    # Platt's sigmoid (2000), with a slope of at least 0: else the ranking is worse than none.
    target = np.where(relevant, (n_found + 1) / (n_found + 2), 1 / (n - n_found + 2))
    odds = float(np.log((n_found + 1) / (n - n_found + 1)))
    slope, offset = fit_logistic(values, target, np.ones(n), (1.0, odds))
    slope, offset = (slope, offset) if slope >= 0 else (0.0, odds)
    p, p_unlabelled = expit(slope * values + offset), float(expit(slope * unlabelled + offset).sum())
    missing = p_unlabelled + n_outside * (n_found + p_unlabelled) / (n + len(unlabelled))
    starts = np.append(0, np.flatnonzero(relevant) + 1)[::-1][: HITS + 1]
    enough = _unlikely(n_found, RECALL, np.array([p[start:].sum() for start in starts.tolist()]), missing)
    enough = enough and _unlikely(n_found, UNRANKED_RECALL, n - starts, n_unlabelled)
    return Retrieval(n_found, n_found + missing, enough)


def _unlikely(n_found: int, recall: float, latest: Floats, rest: float) -> bool:
    """Whether so few relevant texts among the latest answers are unlikely if the recall is lower.

    `latest` are sums of probabilities of these answers, with 0, 1, ... relevant texts, `rest` of the others.
    """
    k, hits = int(n_found / recall + 1e-9) + 1 - n_found, np.arange(len(latest))
    return bool(bdtr(hits, k + hits, latest / (latest + rest)).min() <= LEVEL)


def labels_per_point(curve: Sequence[tuple[int, float]]) -> float | None:
    """Labels that one more percent of accuracy would cost, by a power law; None if it is unknown.

    `curve` has the number of labels and the accuracy of each point. The law is error = b n^-c, without a term
    for the error that no number of labels removes: near that error it promises too much.
    """
    if len(curve) < 3:
        return None
    sizes, accuracy = np.array(curve, np.float64).T
    slope, start = np.polyfit(np.log(sizes), np.log(np.maximum(1 - accuracy, 1e-3)), 1, w=np.sqrt(sizes))
    goal = np.exp(start + slope * np.log(sizes[-1])) - 0.01
    if slope > -0.02 or goal <= 0:
        return None
    return float(np.exp((np.log(goal) - start) / slope) - sizes[-1])


# Learner


Answer: TypeAlias = str | Sequence[str] | None  #: Label of a text, or its labels; None: unsure
Answers: TypeAlias = dict[int, tuple[str, ...] | None]  #: Labels of each answered text; None: unsure.
AHEAD = 32  #: Number of texts ranked ahead of the answers
GUESSED = 4  #: Number of texts whose labels are guessed ahead
DOUBT = 0.8  #: Probability of another label from which a labelled text is asked again
PAUSE = 10  #: Minimum number of answers between such questions
POINTS = 6  #: Number of points of the learning curve
FEWEST = 8  #: Minimum number of labels of a point
GROWN = 1.05  #: Factor by which the number of labels grows between two curves
ALIKE = 0.95  #: Kernel value from which texts are near-copies
SUGGESTED = 500  #: Maximum number of suggested labels that are learnt
COMPARED = 8  #: Number of texts of the ranking that are compared with the labelled ones


@dataclass(frozen=True)
class Proposal:
    """A text to label next."""

    index: int
    reason: str  #: "random", "strategy" or "doubt"


@dataclass(frozen=True)
class Guess:
    """The machine's guess of the labels of a text."""

    scores: list[tuple[str, float]]  #: Label and probability, the likeliest first
    #: Begin and end in the text, and contribution to the value of the likeliest label.
    spans: list[tuple[int, int, float]]


@dataclass(frozen=True)
class Progress:
    """Estimates from the labels."""

    n_labelled: int
    #: Labelled texts of the random sample: drawn at random, or chosen before their turn in its order.
    n_random: int
    accuracy: float | None  #: Estimated on them, by machines trained without them; None if there are none
    interval: tuple[float, float] | None  #: 95 % interval of the accuracy
    #: Number of labels, and accuracy of a machine trained on the first of them.
    curve: list[tuple[int, float]]
    labels_per_point: float | None  #: Labels that one more percent would cost; None if unknown
    retrieval: Retrieval | None = None


@dataclass(frozen=True)
class _TrainedState:
    """Result of a training, and the ranking by it."""

    index: Ints = field(default_factory=lambda: np.empty(0, np.int64))  #: Labelled texts, ascending
    labels: list[str] = field(default_factory=list)
    #: Kernel values of strings, and of an encoder, shape (1 or 2, n, n)
    grams: NDArray[np.float32] = field(default_factory=lambda: np.empty((2, 0, 0), np.float32))
    machine: Machine | None = None  #: None before two labels have texts
    scorer: Scorer | None = None  #: Of the machine
    ranking: list[int] = field(default_factory=list)
    #: Values of the labelled texts by machines without each and its near-copies.
    left_out: Floats = field(default_factory=lambda: np.empty((0, 0)))
    #: Texts with a label that a machine without them would not give, the most doubtful first.
    doubts: list[int] = field(default_factory=list)
    near: dict[int, list[int]] = field(default_factory=dict)  #: Near-copies of texts that are shown next
    #: Whether a machine without each text and its near-copies classifies it correctly.
    hits: Bools = field(default_factory=lambda: np.empty(0, bool))
    curve: list[tuple[int, float]] = field(default_factory=list)
    retrieval: Retrieval | None = None
    guesses: dict[int, Guess | None] = field(default_factory=dict)  #: So far, by text


class Learner:
    """Choose texts to label, and learn from the answers.

    `refresh` trains and ranks. It may run in another thread while the other methods are called, which use the
    latest complete ranking.

    `texts` may be read on demand, and answers may add to `labels`; with `multilabel` a text has any number of
    labels. `strategy` is a key of `STRATEGIES`, and "relevance" if `relevant` is the label whose
    texts are searched for. `random_share` is the probability with which the next text is drawn at random from
    all texts without a label, `seed` that of all random choices; `encoder` is as of `textsvm.Encoder`.
    """

    def __init__(
        self, texts: Sequence[str], labels: Sequence[str] = (), *, multilabel: bool = False,
        strategy: str = "mixture", random_share: float = 0.1, relevant: str | None = None, seed: int = 0,
        encoder: object = None,
    ) -> None:  # fmt: skip
        if strategy not in STRATEGIES:
            raise InputError(f"strategy={strategy!r} is not one of {', '.join(STRATEGIES)}")
        if not 0 <= random_share <= 1:
            raise InputError(f"random_share={random_share!r} must be a number from 0 to 1")
        if not len(texts):
            raise InputError("there are no texts to label")
        self.labels: list[str] = []
        for label in [*labels, *([] if relevant is None else [relevant])]:
            self.add_label(label)
        self.multilabel, self.relevant, self.random_share = multilabel, relevant, random_share
        self.strategy = strategy if relevant is None else "relevance"
        self._texts, self._seed = texts, seed
        self._pool = Pool(texts, np.random.default_rng(seed).permutation(len(texts)), encoder)
        # Not the order of the pool, whose texts the strategy takes: all texts are drawn alike.
        self._order = np.random.default_rng([seed, 1]).permutation(len(texts))
        self._position = np.argsort(self._order)
        self._copies: dict[bytes, list[int]] = {}
        for i in self._pool.members.tolist():
            self._copies.setdefault(digest(texts[i]), []).append(i)
        self.suggestions: dict[int, list[str]] = {}  #: Suggested labels of texts
        self.suggestion_weight = 0.0  #: Of a suggestion, relative to an answer
        self._answers: Answers = {}  #: In the order of the answers
        self._random: set[int] = set()  #: Texts that were drawn at random
        self._original: dict[int, int] = {}  #: Text whose label a near-copy got
        self._doubted: set[int] = set()  #: Texts that were answered again
        self._next_random = 0  #: Place in the random order of the first text without an answer
        self._since_doubt = 0  #: Answers since the last correction
        self._changes = 0
        self._learnt = -1  #: Number of changes before the training
        state = None if relevant is None else Retrieval(0, None, False)
        self._training, self._lock = _TrainedState(retrieval=state), Lock()

    def add_label(self, label: str) -> None:
        """Add a label at any time, unless it is there."""
        if not isinstance(label, str) or not label.strip():
            raise InputError("a label must be a text that is not empty")
        if label not in self.labels:
            self.labels = [*self.labels, label]  # a training in another thread keeps its list

    def remove_label(self, label: str) -> None:
        """Remove a label that no answer has."""
        self.labels = [other for other in self.labels if other != label]

    def answer(self, index: int, label: Answer, at_random: bool = False) -> list[int]:
        """Label a text; a label may replace an earlier label.

        With several labels per text `label` is a list. None means unsure: the text is not shown again, and
        keeps an earlier label. `at_random` says whether the text was proposed as "random"; that of the first
        label counts. The result are near-copies without a label, or with the earlier label of this text,
        which get the same label; `retract` undoes each.
        """
        labels = self._checked(index, label)
        if self._answers.get(index) is not None:
            return self._correct(index, labels)
        self._since_doubt += 1
        self._note(index, labels, at_random)
        if labels is None:
            return []
        near = {*self._copies.get(digest(self._texts[index]), []), *self._training.near.get(index, [])}
        copies = [i for i in sorted(near) if i not in self._answers]
        for copy in copies:
            self._note(copy, labels, False)
        self._original.update(dict.fromkeys(copies, index))
        return copies

    def _correct(self, index: int, labels: tuple[str, ...] | None) -> list[int]:
        """Note a later label of a text, and of near-copies that still have its label."""
        old = self._answers[index]
        self._doubted.add(index)
        self._since_doubt = 0
        self._original.pop(index, None)
        copies = [i for i, text in self._original.items() if text == index and self._answers[i] == old]
        if labels is None or labels == old:
            copies, labels = [], old
        for i in [index, *copies]:
            self._note(i, labels, False)
        return copies

    def retract(self, index: int) -> None:
        """Undo an answer: machine and estimates become those of the other answers."""
        if index not in self._answers:
            raise InputError(f"text {index} has no label to take back")
        del self._answers[index]
        self._random.discard(index)
        self._original.pop(index, None)
        self._next_random = min(self._next_random, int(self._position[index]))
        self._changes += 1

    def restore(self, answers: Iterable[tuple[int, Answer, bool]], copies: Mapping[int, int] = {}) -> None:
        """Take over earlier answers: index, label, and whether the text was drawn at random.

        The answers are in the order of the first answers; `copies` are near-copies and their originals.
        `refresh` learns them.
        """
        for index, label, at_random in answers:
            labels = self._checked(index, label)
            if index in self._answers:
                self._doubted.add(index)
                self._since_doubt = 0
            self._note(index, labels, at_random)
        self._original.update(copies)

    def next(self, skipped: Collection[int] = ()) -> Proposal | None:
        """The text to label next, the same until it is answered; None if every text is answered."""
        doubt = next((i for i in self._training.doubts if self._is_doubt(i) and i not in skipped), None)
        if doubt is not None and self._since_doubt >= PAUSE:
            return Proposal(doubt, "doubt")
        order = self._order[self._next_random :].tolist()
        drawn = next((i for i in order if i not in self._answers and i not in skipped), None)
        if drawn is None:
            return None
        # By the number of answers, so that the same text is proposed until it is answered.
        if np.random.default_rng([self._seed, 2, len(self._answers)]).random() < self.random_share:
            return Proposal(drawn, "random")
        if self._learnt < 0:
            self.refresh()
        best = next((i for i in self._training.ranking if i not in self._answers and i not in skipped), None)
        return Proposal(drawn, "random") if best is None else Proposal(best, "strategy")

    def refresh(self) -> None:
        """Train on all answers, and rank the texts without a label."""
        changes = self._changes
        if changes == self._learnt:
            return
        answers = dict(self._answers)
        self._pool.grow()
        with one_blas_thread():  # threads of BLAS wait for each other where others use the cores
            training = self._train(answers)
            members = self._pool.ranked  # another thread may add vectors of more texts
            free = np.array([i not in answers for i in members.tolist()], bool)
            values = None if training.scorer is None else training.scorer.of_pool(len(free))[free]
            ranking = self._rank(training, answers, members[free], values)
            state = self._retrieval(training, answers, values)
            ahead = [i for i in self._order[self._next_random :][:2].tolist() if i not in answers]
            near = self._alike(ranking[:COMPARED] + ahead)
            training = replace(training, ranking=ranking, near=near, retrieval=state)
        with self._lock:
            if changes <= self._learnt:
                return  # another thread has learnt later answers meanwhile
            self._training, self._learnt = training, changes
        for index in [i for i in ranking if i not in self._answers][:GUESSED]:
            self.guess(index)

    def guess(self, index: int) -> Guess | None:
        """The machine's guess of a text, and the pieces that speak for it; None before training."""
        training = self._training
        if index not in training.guesses:
            training.guesses[index] = self._guess(training, index)
        return training.guesses[index]

    def _guess(self, training: _TrainedState, index: int) -> Guess | None:
        if training.machine is None or training.scorer is None:
            return None
        text = self._texts[index][:LENGTH]
        cuts = pieces(text)
        values = training.scorer.of_texts([text, *(text[:start] + text[end:] for start, end in cuts)])
        p = training.machine.probabilities(values[:1])[0]
        order = np.argsort(-p, kind="stable")
        change = values[0, order[0]] - values[1:, order[0]]
        spans = [(start, end, float(value)) for (start, end), value in zip(cuts, change, strict=True)]
        return Guess([(training.labels[c], float(p[c])) for c in order], spans)

    def progress(self) -> Progress:
        """Estimates from the answers before the last `refresh`."""
        training = self._training
        hits = training.hits[self._sampled(training.index)] if training.machine else np.empty(0, bool)
        n_labelled = sum(labels is not None for labels in list(self._answers.values()))
        return Progress(
            n_labelled, len(hits), float(hits.mean()) if len(hits) else None,
            clopper_pearson(int(hits.sum()), len(hits)) if len(hits) else None, training.curve,
            labels_per_point(training.curve), training.retrieval,
        )  # fmt: skip

    # Answers

    def _checked(self, index: int, label: Answer) -> tuple[str, ...] | None:
        """Labels of an answer, which are added to those of the learner."""
        if not 0 <= index < len(self._texts):
            raise InputError(f"there is no text {index}; there are {len(self._texts):,}")
        if label is None:
            return None
        if isinstance(label, str) == self.multilabel:
            raise InputError("an answer is a list of labels with multilabel=True, else a label")
        labels = (str(label),) if isinstance(label, str) else tuple(map(str, label))
        for name in labels:
            self.add_label(name)
        return labels

    def _note(self, index: int, labels: tuple[str, ...] | None, at_random: bool) -> None:
        self._answers[index] = labels
        if at_random and labels is not None:
            self._random.add(index)
        while self._next_random < len(self._order) and int(self._order[self._next_random]) in self._answers:
            self._next_random += 1
        self._changes += 1

    def _sampled(self, index: Ints) -> Bools:
        """Whether texts are in the random sample, drawn or chosen by the strategy before their turn."""
        drawn = np.array([i in self._random for i in index.tolist()], bool)
        return np.asarray(drawn | (self._position[index] < self._next_random))

    def _is_doubt(self, index: int) -> bool:
        # No text of the random sample: labels that are revised where the machine disagrees flatter it.
        sampled = index in self._random or self._position[index] < self._next_random
        return not sampled and index not in self._doubted and self._answers.get(index) is not None

    def _retrieval(
        self, training: _TrainedState, answers: Answers, unlabelled: Floats | None
    ) -> Retrieval | None:
        """State of a search; `unlabelled` are values of the texts of the pool without an answer."""
        if self.relevant is None:
            return None
        labelled = {i: self.relevant in labels for i, labels in answers.items() if labels is not None}
        # Near-copies that got a label with a text say no more than this text.
        originals = [i for i in labelled if i not in self._original]
        relevant = np.array([labelled[i] for i in originals], bool)
        values, column = np.zeros((2, 0))
        if unlabelled is not None and self.relevant in training.labels:
            of = training.labels.index(self.relevant)
            rows = np.searchsorted(training.index, originals)
            values, column = training.left_out[rows, of], unlabelled[:, of]
        state = retrieval(relevant, values, column, len(self._texts) - len(answers) - len(column))
        n_found = sum(labelled.values())
        return replace(state, n_found=n_found, total=state.total and state.total + n_found - state.n_found)

    # Training

    def _train(self, answers: Answers) -> _TrainedState:
        """Machine, doubts and estimates."""
        labelled = {i: labels for i, labels in sorted(answers.items()) if labels is not None}
        used = {label for labels in labelled.values() for label in labels}
        names = [label for label in self.labels if label in used]
        index = np.array(list(labelled), np.int64)
        grams = self._grams(index)
        if len(names) < (1 if self.multilabel else 2):
            return _TrainedState(index, names, grams)
        target = np.array([[1.0 if x in labels else -1.0 for x in names] for labels in labelled.values()])
        relevant = names.index(self.relevant) if self.relevant in names else None
        machine = Machine.weighted(grams, target, self.multilabel, relevant)
        gram, copies = mixed(grams, machine.weight), self._near_copies(index, grams[0])
        values = _left_out(gram, machine, np.arange(len(index)), copies)
        p = machine.probabilities(values)
        wrong = np.where(target > 0, 1 - p, p).max(axis=1)
        order = np.argsort(-wrong, kind="stable")
        final, support = self._with_suggestions(machine, index, names, target, gram, answers)
        return _TrainedState(
            index, names, grams, final, Scorer(self._pool, support, final),
            doubts=index[order[wrong[order] >= DOUBT]].tolist(), left_out=values,
            hits=_right(values, target, self.multilabel),
            curve=self._curve(index, gram, target, answers, copies, relevant),
        )  # fmt: skip

    def _with_suggestions(
        self, machine: Machine, index: Ints, names: list[str], target: Floats, gram: NDArray[np.float32],
        answers: Answers,
    ) -> tuple[Machine, Ints]:  # fmt: skip
        """Machine that learns suggested labels of some texts, too, and its texts; estimates do without it."""
        weight = 0.0 if self.relevant else self.suggestion_weight  # the stopping rule compares values
        members = self._pool.ranked.tolist() if weight > 0 else []
        usable = set(self.suggestions).difference(answers)
        more = [i for i in members if i in usable and {*self.suggestions[i]} <= {*names}][:SUGGESTED]
        if not more:
            return machine, index
        texts = np.append(index, more)
        block = self._pool.similarity(more, texts, machine)
        guessed = [[1.0 if name in self.suggestions[i] else -1.0 for name in names] for i in more]
        factor = np.append(np.ones(len(index)), np.full(len(more), weight))
        whole = np.vstack([np.hstack([gram, block[:, : len(index)].T]), block])
        labels = np.vstack([target, guessed])
        # The prior is chosen, and probabilities are fitted, by the answers.
        final = Machine.train(whole, labels, self.multilabel, factor=factor, prior=machine.prior)
        left_out = final.left_out[: len(index)]
        return replace(final, weight=machine.weight, target=target, left_out=left_out), texts

    def _grams(self, index: Ints) -> NDArray[np.float32]:
        """Kernel values of labelled texts; those of the last training are not computed again."""
        old, n = self._training, len(index)
        computed, remaining = np.isin(index, old.index), np.isin(old.index, index)
        block = self._pool.grams(index[~computed], index)
        grams = np.empty((len(block), n, n), np.float32)
        grams[:, ~computed] = block
        grams[:, :, ~computed] = block.swapaxes(1, 2)
        for gram, old_gram in zip(grams, old.grams, strict=False):
            gram[np.ix_(computed, computed)] = old_gram[np.ix_(remaining, remaining)]
        return grams

    def _near_copies(self, index: Ints, gram: NDArray[np.float32]) -> list[Ints]:
        """Groups of near-copies among the labelled texts, as positions."""
        n, texts = len(index), [self._texts[i] for i in index.tolist()]
        same, mark = _codes(map(digest, texts)), _codes(map(marks, texts))
        alike = csr_matrix((gram >= ALIKE) & (mark[:, None] == mark))
        exact = csr_matrix((np.ones(n), (np.arange(n), same)), (n, n))
        group = connected_components(alike + exact, directed=False)[1]
        order = np.argsort(group, kind="stable")
        return [part for part in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(part) > 1]

    def _curve(
        self, index: Ints, gram: NDArray[np.float32], target: Floats, answers: Answers,
        copies: Sequence[Ints], relevant: int | None,
    ) -> list[tuple[int, float]]:  # fmt: skip
        """Accuracy on the random sample of machines trained on the first labels, each text left out."""
        n, curve = len(index), self._training.curve
        sampled = self._sampled(index)
        if not sampled.any():
            return []
        if curve and n / GROWN < curve[-1][0] <= n:
            return curve
        row = {i: position for position, i in enumerate(index.tolist())}
        order = np.array([row[i] for i, labels in answers.items() if labels is not None], np.int64)
        points = []
        for size in sorted({n >> k for k in range(POINTS) if n >> k >= FEWEST}):
            rows = np.sort(order[:size])
            block = gram[:, rows]
            machine = Machine.train(block[rows], target[rows], self.multilabel, relevant)
            hits = _right(_left_out(block, machine, rows, copies), target, self.multilabel)
            points.append((size, float(hits[sampled].mean())))
        return points

    def _rank(
        self, training: _TrainedState, answers: Answers, free: Ints, values: Floats | None
    ) -> list[int]:
        if not len(free):
            return []
        relevant = training.labels.index(self.relevant) if self.relevant in training.labels else None
        rng = np.random.default_rng([self._seed, len(answers)])
        machine = training.machine
        similarity = partial(self._pool.similarity, machine=machine)
        candidates = Candidates(free, training.index, values, machine, similarity, rng, relevant)
        return candidates.index[rank(self.strategy, candidates, AHEAD)].tolist()

    def _alike(self, shown: list[int]) -> dict[int, list[int]]:
        """Near-copies in the pool of texts that are shown next.

        They have the same digits, punctuation and symbols, which often decide a label.
        """
        near = self._pool.products(ColumnWeights.of(self._pool.rows_of(shown), np.eye(len(shown)))) >= ALIKE
        copies = {}
        for index, column in zip(shown, near.T, strict=True):
            own, others = marks(self._texts[index]), self._pool.members[column].tolist()
            copies[index] = [i for i in others if i != index and marks(self._texts[i]) == own]
        return copies


def _codes(keys: Iterable[object]) -> Ints:
    """Equal numbers for equal keys: the place of the first of them."""
    first = dict[object, int]()
    return np.array([first.setdefault(key, place) for place, key in enumerate(keys)], np.int64)


def _left_out(gram: NDArray[np.float32], machine: Machine, rows: Ints, copies: Sequence[Ints]) -> Floats:
    """Values of n labelled texts by a machine of the texts `rows`, without each text and its near-copies.

    `gram` has shape (n, len(rows)).
    """
    values = np.asarray(gram @ machine.coef + machine.bias)
    values[rows] = machine.left_out
    for group in copies:
        inside = np.flatnonzero(np.isin(rows, group))
        if len(inside):
            coef, bias = machine.without(inside)
            values[group] = gram[group] @ coef + bias
    return values


def _right(values: Floats, target: Floats, multilabel: bool) -> Bools:
    """Whether the values of each text give its labels."""
    if multilabel:
        return np.asarray(((values > 0) == (target > 0)).all(axis=1))
    return np.asarray(values.argmax(axis=1) == target.argmax(axis=1))
