"""Choose texts to label, and learn from the answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from textsvm.apps.label.machine import LENGTH, ColumnWeights, Machine, Pool, digest, marks
from textsvm.apps.label.stopping import Draw, Retrieval, labels_per_point, random_share, retrieval
from textsvm.apps.label.strategies import STRATEGIES, Candidates, rank
from textsvm.errors import InputError
from textsvm.evaluation.results import clopper_pearson
from textsvm.kernels.attribution import pieces
from textsvm.runtime.parallel import Lock, one_blas_thread

Answer = str | Sequence[str] | None
#: Number of texts ranked ahead of the answers.
AHEAD = 32
#: Number of texts whose labels are guessed ahead.
GUESSED = 4
#: Probability of another label from which a labelled text is asked again.
DOUBT = 0.8
#: Minimum number of answers between such questions.
PAUSE = 10
#: Points of the learning curve.
POINTS = 6
#: Minimum number of labels of a point.
FEWEST = 8
#: Factor by which the number of labels grows between two curves.
GROWN = 1.05
#: Kernel value from which texts are near-copies.
ALIKE = 0.95
#: Number of texts of the ranking that are compared with the labelled ones.
COMPARED = 8


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
    """What is known about the labels and the machine."""

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
class _Trained:
    """Result of a training, and the ranking by it."""

    index: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    labels: list[str] = field(default_factory=list)
    machine: Machine | None = None
    gram: NDArray[np.float32] | None = None
    weights: ColumnWeights | None = None
    ranking: list[int] = field(default_factory=list)
    #: Texts with a label that a machine without them would not give, the most doubtful first.
    doubts: list[int] = field(default_factory=list)
    near: dict[int, list[int]] = field(default_factory=dict)  #: Near-copies of texts that are shown next
    #: Whether a machine without each text and its near-copies classifies it correctly.
    hits: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))
    curve: list[tuple[int, float]] = field(default_factory=list)
    retrieval: Retrieval | None = None
    guesses: dict[int, Guess | None] = field(default_factory=dict)  #: So far, by text


class Learner:
    """Choose texts to label, and learn from the answers.

    `refresh` trains and ranks. It may run in another thread while the other methods are called, which use the
    ranking that was finished last.

    Parameters
    ----------
    texts : sequence of n str
        All texts; a sequence that reads them when they are needed will do.
    labels : sequence of str
        Known labels; an answer may add others.
    multilabel : bool
        Whether a text has any number of labels.
    strategy : {"mixture", "random", "margin", "entropy", "change", "diverse", "density", "relevance"}
        Which texts are asked for; see `textsvm.apps.label.strategies`.
    random_share : float
        Probability with which the next text is drawn at random from all texts without a label.
    relevant : str, optional
        Label whose texts are to be found: the strategy is then "relevance".
    seed : int
        Seed of all random choices.

    Raises
    ------
    InputError
        If a parameter is out of range, or there are no texts.
    """

    def __init__(
        self, texts: Sequence[str], labels: Sequence[str] = (), *, multilabel: bool = False,
        strategy: str = "mixture", random_share: float = 0.1, relevant: str | None = None, seed: int = 0,
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
        self._pool = Pool(texts, np.random.default_rng(seed).permutation(len(texts)))
        # Not the order of the pool, whose texts the strategy takes: all texts are drawn alike.
        self._order = np.random.default_rng([seed, 1]).permutation(len(texts))
        self._position = np.argsort(self._order)
        self._copies: dict[bytes, list[int]] = {}
        for i in self._pool.members.tolist():
            self._copies.setdefault(digest(texts[i]), []).append(i)
        #: Labels of each answered text, in the order of the answers; None: unsure.
        self._answers: dict[int, tuple[str, ...] | None] = {}
        self._random: set[int] = set()
        #: Original of each near-copy that got its label.
        self._source: dict[int, int] = {}
        self._doubted: set[int] = set()
        self._next_random, self._since_doubt = 0, 0
        self._trained, self._known = _Trained(retrieval=self._retrieval({})), -1
        self._changes, self._lock = 0, Lock()

    def add_label(self, label: str) -> None:
        """Add a label, at any time; a known label is ignored."""
        if not isinstance(label, str) or not label.strip():
            raise InputError("a label must be a text that is not empty")
        if label not in self.labels:
            self.labels = [*self.labels, label]  # a training in another thread keeps its list

    def remove_label(self, label: str) -> None:
        """Remove a label that no answer has."""
        self.labels = [each for each in self.labels if each != label]

    def answer(self, index: int, label: Answer, at_random: bool = False) -> list[int]:
        """Label a text; a label may replace an earlier one.

        Parameters
        ----------
        index : int
        label : str, list of str (multilabel), or None
            None for unsure: the text is not shown again. A label that the text has is kept.
        at_random : bool
            Whether the text was proposed as "random"; that of the first label counts.

        Returns
        -------
        list of int
            Near-copies without a label, or with the earlier label of this text, which get the same label;
            `retract` undoes each.
        """
        given = self._checked(index, label)
        if self._answers.get(index) is not None:
            return self._corrected(index, given)
        self._since_doubt += 1
        self._note(index, given, at_random)
        if given is None:
            return []
        near = {*self._copies_of(index), *self._trained.near.get(index, [])}
        copies = [i for i in sorted(near) if i not in self._answers]
        for copy in copies:
            self._note(copy, given, False)
        self._source.update(dict.fromkeys(copies, index))
        return copies

    def _corrected(self, index: int, given: tuple[str, ...] | None) -> list[int]:
        """Note a later label of a text, and of near-copies that still have its label."""
        old = self._answers[index]
        self._doubted.add(index)
        self._since_doubt = 0
        self._source.pop(index, None)
        copies = [i for i, original in self._source.items() if original == index and self._answers[i] == old]
        if given is None or given == old:
            copies, given = [], old
        for each in [index, *copies]:
            self._note(each, given, False)
        return copies

    def retract(self, index: int) -> None:
        """Undo an answer, as if it had never been given."""
        if index not in self._answers:
            raise InputError(f"text {index} has no label to take back")
        del self._answers[index]
        self._random.discard(index)
        self._source.pop(index, None)
        self._next_random = min(self._next_random, int(self._position[index]))
        self._changes += 1

    def restore(self, answers: Iterable[tuple[int, Answer, bool]], copies: Mapping[int, int] = {}) -> None:
        """Give many earlier answers at once: index, label, and whether the text was drawn at random.

        The answers are in the order of the first answers; `copies` are near-copies and their originals.
        """
        for index, label, at_random in answers:
            given = self._checked(index, label)
            if self._answers.get(index) is not None:
                self._doubted.add(index)
            self._note(index, given, at_random)
        self._source.update(copies)
        self.refresh()

    def next(self, besides: Collection[int] = ()) -> Proposal | None:
        """The text to label next, the same until it is answered; None if every text is answered.

        `besides` are texts that are shown elsewhere.
        """
        doubt = next((i for i in self._trained.doubts if self._is_doubt(i) and i not in besides), None)
        if doubt is not None and self._since_doubt >= PAUSE:
            return Proposal(doubt, "doubt")
        drawn = self._drawn(besides)
        if drawn is None:
            return None
        # By the number of answers, so that the same text is proposed until it is answered.
        chance = np.random.default_rng([self._seed, 2, len(self._answers)]).random()
        if chance < random_share(self.random_share, self._misses()):
            return Proposal(drawn, "random")
        if self._known < 0:
            self.refresh()
        free = (i for i in self._trained.ranking if i not in self._answers and i not in besides)
        best = next(free, None)
        return Proposal(drawn, "random") if best is None else Proposal(best, "strategy")

    def refresh(self) -> None:
        """Train on all answers, and rank the texts without a label."""
        changes = self._changes
        if changes == self._known:
            return
        answers = dict(self._answers)
        with one_blas_thread():  # threads of BLAS wait for each other where others use the cores
            trained = self._train(answers)
            ranking = self._rank(trained, answers)
            ahead = [i for i in self._order[self._next_random :][:2].tolist() if i not in answers]
            near = self._alike(ranking[:COMPARED] + ahead)
            trained = replace(self._estimated(trained, answers), ranking=ranking, near=near)
        with self._lock:
            if changes <= self._known:
                return  # another thread has learnt later answers meanwhile
            self._trained, self._known = trained, changes
        for index in [i for i in ranking if i not in self._answers][:GUESSED]:
            self.guess(index)

    def guess(self, index: int) -> Guess | None:
        """The machine's guess of a text, and the pieces that speak for it; None before training."""
        trained = self._trained
        if index not in trained.guesses:
            trained.guesses[index] = self._guess(trained, index)
        return trained.guesses[index]

    def _guess(self, trained: _Trained, index: int) -> Guess | None:
        if trained.machine is None or trained.weights is None:
            return None
        text = self._texts[index][:LENGTH]
        cuts = pieces(text)
        rows = self._pool.encode([text, *(text[:a] + text[b:] for a, b in cuts)])
        values = trained.weights.of_rows(rows) + trained.machine.bias
        p = trained.machine.probabilities(values[:1])[0]
        order = np.argsort(-p, kind="stable")
        change = values[0, order[0]] - values[1:, order[0]]
        spans = [(a, b, float(value)) for (a, b), value in zip(cuts, change, strict=True)]
        return Guess([(trained.labels[c], float(p[c])) for c in order], spans)

    def progress(self) -> Progress:
        """Estimates from the answers that the last `refresh` knew."""
        trained = self._trained
        hits = trained.hits[self._sampled(trained.index)] if trained.machine else np.empty(0, bool)
        n_labelled = sum(answer is not None for answer in list(self._answers.values()))
        return Progress(
            n_labelled, len(hits), float(hits.mean()) if len(hits) else None,
            clopper_pearson(int(hits.sum()), len(hits)) if len(hits) else None, trained.curve,
            labels_per_point(trained.curve), trained.retrieval,
        )  # fmt: skip

    def _checked(self, index: int, label: Answer) -> tuple[str, ...] | None:
        if not 0 <= index < len(self._texts):
            raise InputError(f"there is no text {index}; there are {len(self._texts):,}")
        if label is None:
            return None
        if isinstance(label, str) == self.multilabel:
            raise InputError("an answer is a list of labels with multilabel=True, else a label")
        given = (str(label),) if isinstance(label, str) else tuple(map(str, label))
        for each in given:
            self.add_label(each)
        return given

    def _note(self, index: int, given: tuple[str, ...] | None, at_random: bool) -> None:
        self._answers[index] = given
        if at_random and given is not None:
            self._random.add(index)
        while self._next_random < len(self._order) and int(self._order[self._next_random]) in self._answers:
            self._next_random += 1
        self._changes += 1

    def _copies_of(self, index: int) -> list[int]:
        return self._copies.get(digest(self._texts[index]), [])

    def _drawn(self, besides: Collection[int] = ()) -> int | None:
        """The next text in random order without an answer."""
        rest = self._order[self._next_random :]
        return next((int(i) for i in rest if int(i) not in self._answers and int(i) not in besides), None)

    def _misses(self) -> int:
        """Answers since the last relevant text."""
        if self.relevant is None:
            return 0
        given = (labels or () for labels in reversed(list(self._answers.values())))
        return next((n for n, labels in enumerate(given) if self.relevant in labels), len(self._answers))

    def _sampled(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether texts are in the random sample, drawn or chosen by the strategy before their turn."""
        drawn = np.array([i in self._random for i in index.tolist()], bool)
        return np.asarray(drawn | (self._position[index] < self._next_random))

    def _train(self, answers: dict[int, tuple[str, ...] | None]) -> _Trained:
        given = {i: labels for i, labels in sorted(answers.items()) if labels is not None}
        used = {label for labels in given.values() for label in labels}
        labels = [label for label in self.labels if label in used]
        index = np.array(list(given), np.int64)
        if len(labels) < (1 if self.multilabel else 2):
            return _Trained(index, labels)
        target = np.array([[1.0 if label in own else -1.0 for label in labels] for own in given.values()])
        gram = self._gram(index)
        machine = Machine.train(gram, target, self.multilabel)
        return _Trained(
            index, labels, machine, gram, ColumnWeights.of(self._pool.rows_of(index), machine.coef)
        )

    def _gram(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        """Kernel matrix of labelled texts; values of the last training are not computed again."""
        old, gram = self._trained, np.empty((len(index), len(index)), np.float32)
        known = np.isin(index, old.index) if old.gram is not None else np.zeros(len(index), bool)
        if old.gram is not None:
            kept = np.isin(old.index, index)
            gram[np.ix_(known, known)] = old.gram[np.ix_(kept, kept)]
        if not known.all():
            block = self._pool.similarity(index[~known], index)
            gram[~known], gram[:, ~known] = block, block.T
        return gram

    def _estimated(self, trained: _Trained, answers: dict[int, tuple[str, ...] | None]) -> _Trained:
        """With doubts and estimates."""
        state = self._retrieval(answers)
        if trained.machine is None or trained.gram is None:
            return replace(trained, retrieval=state)
        copies, every = self._near_copies(trained), np.arange(len(trained.index))
        values = _left_out(trained.gram, trained.machine, every, copies)
        return replace(
            trained, doubts=self._doubtful(trained, values), retrieval=state,
            hits=_right(values, trained.machine.target, self.multilabel),
            curve=self._curve(trained, answers, copies),
        )  # fmt: skip

    def _near_copies(self, trained: _Trained) -> list[NDArray[np.int64]]:
        """Groups of near-copies among the labelled texts, as positions."""
        assert trained.gram is not None
        n, texts = len(trained.index), [self._texts[i] for i in trained.index.tolist()]
        same, mark = _codes(map(digest, texts)), _codes(map(marks, texts))
        alike = csr_matrix((trained.gram >= ALIKE) & (mark[:, None] == mark))
        exact = csr_matrix((np.ones(n), (np.arange(n), same)), (n, n))
        group = connected_components(alike + exact, directed=False)[1]
        order = np.argsort(group, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
        return [part for part in parts if len(part) > 1]

    def _curve(
        self,
        trained: _Trained,
        answers: dict[int, tuple[str, ...] | None],
        copies: Sequence[NDArray[np.int64]],
    ) -> list[tuple[int, float]]:
        """Accuracy on the random sample of machines trained on the first labels, each text left out."""
        n, known, sampled = len(trained.index), self._trained.curve, self._sampled(trained.index)
        if not sampled.any():
            return []
        if known and n / GROWN < known[-1][0] <= n:
            return known
        place = {i: at for at, i in enumerate(trained.index.tolist())}
        order = np.array([place[i] for i, given in answers.items() if given is not None], np.int64)
        sizes = sorted({n >> k for k in range(POINTS) if n >> k >= FEWEST})
        firsts = [(size, np.sort(order[:size])) for size in sizes]
        return [(size, float(self._hits(trained, some, copies)[sampled].mean())) for size, some in firsts]

    def _hits(
        self, trained: _Trained, some: NDArray[np.int64], copies: Sequence[NDArray[np.int64]]
    ) -> NDArray[np.bool_]:
        """Whether a machine of some labelled texts without a text and its copies classifies it correctly."""
        assert trained.gram is not None
        assert trained.machine is not None
        gram, target = trained.gram[:, some], trained.machine.target
        machine = Machine.train(gram[some], target[some], self.multilabel)
        return _right(_left_out(gram, machine, some, copies), target, self.multilabel)

    def _rank(self, trained: _Trained, answers: dict[int, tuple[str, ...] | None]) -> list[int]:
        members = self._pool.members
        free = np.array([i not in answers for i in members.tolist()], bool)
        if not free.any():
            return []
        values = None
        if trained.machine is not None and trained.weights is not None:
            values = self._pool.products(trained.weights)[free] + trained.machine.bias
        relevant = trained.labels.index(self.relevant) if self.relevant in trained.labels else None
        rng = np.random.default_rng([self._seed, len(answers)])
        candidates = Candidates(
            members[free], trained.index, values, trained.machine, self._pool.similarity, rng, relevant
        )
        return candidates.index[rank(self.strategy, candidates, AHEAD)].tolist()

    def _doubtful(self, trained: _Trained, values: NDArray[np.float64]) -> list[int]:
        """Texts that a machine trained without them would label otherwise, the most doubtful first."""
        assert trained.machine is not None
        p = trained.machine.probabilities(values)
        wrong = np.where(trained.machine.target > 0, 1 - p, p).max(axis=1)
        order = np.argsort(-wrong, kind="stable")
        return trained.index[order[wrong[order] >= DOUBT]].tolist()

    def _alike(self, shown: list[int]) -> dict[int, list[int]]:
        """Near-copies in the pool of texts that are shown next."""
        near = self._pool.products(ColumnWeights.of(self._pool.rows_of(shown), np.eye(len(shown)))) >= ALIKE
        members = self._pool.members
        return {i: self._marked_as(i, members[near[:, at]].tolist()) for at, i in enumerate(shown)}

    def _marked_as(self, index: int, others: list[int]) -> list[int]:
        """Other texts with the same digits, punctuation and symbols, which often decide a label."""
        own = marks(self._texts[index])
        return [i for i in others if i != index and marks(self._texts[i]) == own]

    def _is_doubt(self, index: int) -> bool:
        # No text of the random sample: labels that are revised where the machine disagrees flatter it.
        sampled = index in self._random or self._position[index] < self._next_random
        return not sampled and index not in self._doubted and self._answers.get(index) is not None

    def _retrieval(self, answers: dict[int, tuple[str, ...] | None]) -> Retrieval | None:
        if self.relevant is None:
            return None
        draws, found, unlabelled = [], 0, len(self._texts)
        for index, given in answers.items():
            is_relevant = given is not None and self.relevant in given
            if index in self._random:
                draws.append(Draw(found, unlabelled, is_relevant))
            found, unlabelled = found + is_relevant, unlabelled - 1
        return retrieval(draws, found, unlabelled)


def _codes(keys: Iterable[object]) -> NDArray[np.int64]:
    """Equal numbers for equal keys: the place of the first of them."""
    first = dict[object, int]()
    return np.array([first.setdefault(key, at) for at, key in enumerate(keys)], np.int64)


def _left_out(
    gram: NDArray[np.float32],
    machine: Machine,
    some: NDArray[np.int64],
    copies: Sequence[NDArray[np.int64]],
) -> NDArray[np.float64]:
    """Values of n labelled texts by a machine of some of them, without each text and its near-copies.

    `gram` has shape (n, len(some)).
    """
    values = np.asarray(gram @ machine.coef + machine.bias)
    values[some] = machine.left_out
    for group in copies:
        inside = np.flatnonzero(np.isin(some, group))
        if len(inside):
            coef = machine.without(inside)
            values[group] = gram[group] @ coef + coef.sum(axis=0)
    return values


def _right(values: NDArray[np.float64], target: NDArray[np.float64], multilabel: bool) -> NDArray[np.bool_]:
    """Whether the values of each text give its labels."""
    if multilabel:
        return np.asarray(((values > 0) == (target > 0)).all(axis=1))
    return np.asarray(values.argmax(axis=1) == target.argmax(axis=1))
