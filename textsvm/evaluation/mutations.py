"""Sequences: the effect of each change of a letter (in-silico mutagenesis), scores of all k-mers, and motifs.

    score(i, c) = f(x with x_i := c) - f(x)

f is the value for a class (`textsvm.evaluation.explanation`), x the text as the model reads it. Every changed
text is decided anew, so the scores are exact for any kernel. They do not add up over positions: neighbouring
changes affect the same windows, and a normalised kernel divides by the norm of the changed text.

The score of a k-mer is its decision value as a text, without the bias. Up to a constant, this is the output
of gkmpredict for a list of all k-mers, the input of deltaSVM.

A motif aligns the best k-mers. The best k-mer is placed first; each further k-mer, in order of score, is
added at its best fit (shifted by at most half of its length, on either strand if both are read), with its
score as weight; then all are placed again, until no k-mer moves. A k-mer that does not reach a position
spreads its weight over all letters there. Bits of a position: log2 of the number of letters, less the
entropy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Floats, Ints
from textsvm.errors import InputError
from textsvm.evaluation.explanation import model_of_texts
from textsvm.kernels.base import Kernel
from textsvm.model.trained import TrainedModel
from textsvm.runtime.parallel import Progress

#: Symbols of changed texts that exist at a time.
BATCH = 1 << 22
#: Most k-mers that are scored: 4^11 are, 4^12 are not.
MOST_KMERS = 5_000_000
#: Most letters of an alphabet taken from the model's texts; more are no alphabet of sequences.
MOST_LETTERS = 30


@dataclass(frozen=True)
class Mutations:
    """Scores of all changes of a single letter of a text."""

    text: str  #: As the model reads it, L letters
    letters: str  #: Alphabet of the changes
    #: Meaning of positive scores: the positive class of two, each class of more, each label of several,
    #: "inside" for a one-class model, None (a higher number) for regression.
    towards: list[Any]
    values: Floats  #: shape (len(towards),): Of the unchanged text, with bias
    #: shape (len(towards), L, len(letters)): 0 where the text has the letter.
    scores: Floats = field(repr=False)

    @property
    def importance(self) -> Floats:
        """Mean fall of the values over all changes of each letter, shape (len(towards), L)."""
        same = np.array([[letter == other for other in self.letters] for letter in self.text], bool)
        changes = np.maximum((~same.reshape(len(self.text), len(self.letters))).sum(axis=1), 1)
        return np.asarray(-self.scores.sum(axis=2) / changes)


@dataclass(frozen=True)
class Kmers:
    """Scores of all k-mers."""

    #: shape (n,): In alphabetical order; if the model reads both strands, without reverse complements.
    kmers: NDArray[np.str_]
    letters: str
    both_strands: bool
    towards: list[Any]  #: As in `Mutations`
    scores: Floats = field(repr=False)  #: shape (n, len(towards))
    against: Any = None  #: Meaning of negative scores: the other of two classes

    def top(self, most: int | None = None, side: int = 0) -> Ints:
        """Indices of k-mers by descending score for ``towards[side]``."""
        return np.argsort(-self.scores[:, side], kind="stable")[:most]


def mutation_scores(
    model: Any,
    texts: Any,
    alphabet: str | None = None,
    *,
    positive: object = None,
    progress: Progress | None = None,
) -> list[Mutations]:
    """Score every change of a single letter of texts: exact differences of decision values.

    Parameters
    ----------
    model : TrainedModel, or fitted SVC, MultilabelSVC, SVR, OneClassSVM or CalibratedSVC
        Of texts, with any kernel. For a calibrated model, decision values are scored.
    texts : list of str
    alphabet : str, optional
        Letters of the changes. Default: the letters of the model's texts, at most 30; for DNA and RNA
        without n.
    positive : label, optional
        Class with positive scores, of two; default ``classes_[1]``.
    progress : callable, optional

    Returns
    -------
    list of Mutations, in the order of the texts

    Raises
    ------
    InputError
        If the model does not read plain texts, or no alphabet is given and the texts have too many letters.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, mutation_scores
    >>> model = SVC(Spectrum(2)).fit(["gatt", "ggat", "cctc", "tccc"], [1, 1, 0, 0])
    >>> changes = mutation_scores(model, ["gat"])[0]
    >>> changes.text, changes.letters, changes.scores.round(2).tolist()
    ('gat', 'acgt', [[[-0.47, -0.47, 0.0, -0.47], [0.0, -1.19, -0.71, -0.71], [-0.47, -0.47, -0.47, 0.0]]])
    """
    trained = model_of_texts(model, "no letters that could be changed")
    valid = trained.source.validate(texts)
    if not len(valid):
        return []
    letters = letters_of(trained, alphabet)
    documents = trained.encode(valid)
    read_texts = [documents.shown(i) for i in range(len(documents))]
    mixes, towards = trained.rule.machine_weights(positive)
    values = trained.machine_values(read_texts) @ mixes.T
    scores = [np.zeros((len(towards), len(text), len(letters))) for text in read_texts]
    total, done = sum(len(letters) - (letter in letters) for text in read_texts for letter in text), 0
    for places, changed in _batches(read_texts, letters):
        changed_values = trained.machine_values(changed) @ mixes.T
        for (d, i, c), value in zip(places, changed_values, strict=True):
            scores[d][:, i, c] = value - values[d]
        done += len(places)
        if progress is not None:
            progress(done, total)
    rows = zip(read_texts, values, scores, strict=True)
    return [Mutations(text, letters, towards, value, score) for text, value, score in rows]


def kmer_scores(
    model: Any,
    k: int,
    alphabet: str | None = None,
    *,
    positive: object = None,
    progress: Progress | None = None,
) -> Kmers:
    """Score all k-mers of an alphabet by their decision values as texts, without the bias.

    Parameters
    ----------
    model, alphabet, positive, progress
        As in `mutation_scores`. The model may have been saved without texts.
    k : int
        At least the length of the kernel's windows.

    Raises
    ------
    InputError
        If the model does not read letters, k is too small for its kernel, or there are too many k-mers.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, kmer_scores
    >>> model = SVC(Spectrum(2)).fit(["gatt", "ggat", "cctc", "tccc"], [1, 1, 0, 0])
    >>> scored = kmer_scores(model, 2)
    >>> scored.kmers[scored.top(3)].tolist()
    ['at', 'ga', 'gg']
    """
    trained = model_of_texts(model, "no k-mers")
    kernel = trained.kernel
    assert kernel is not None
    letters = letters_of(trained, alphabet)
    _check_length(kernel, k, len(letters))
    all_strands = all(leaf.canonical for leaf in kernel.structure.leaves)
    both = pairs_of(letters) if all_strands else None
    digits = _digits(k, len(letters), both)
    kmers = np.array(list(letters))[digits].view(f"<U{k}").ravel()
    mixes, towards = trained.rule.machine_weights(positive)
    scores, size = np.empty((len(kmers), len(towards))), max(1, BATCH // k)
    for start in range(0, len(kmers), size):
        batch = slice(start, start + size)
        values = trained.machine_values(kmers[batch].tolist()) - trained.predictor.intercept
        scores[batch] = values @ mixes.T
        if progress is not None:
            progress(min(start + size, len(kmers)), len(kmers))
    classes = trained.classes
    others = [] if classes is None else [label for label in classes.tolist() if label != towards[0]]
    against = others[0] if len(others) == 1 and len(towards) == 1 else None
    return Kmers(kmers, letters, both is not None, towards, scores, against)


def letters_of(model: TrainedModel, alphabet: str | None) -> str:
    """Alphabet of the changes, as the model reads it; default: the letters of the model's texts."""
    if alphabet is None:
        return _known_letters(model)
    documents = model.encode(list(alphabet))
    read_letters = [documents.shown(i) for i in range(len(documents))]
    for letter, normalised in zip(alphabet, read_letters, strict=True):
        if len(normalised) != 1:
            raise InputError(f"{letter!r} of the alphabet is not a letter that the model reads; leave it out")
    letters = "".join(dict.fromkeys(read_letters))
    if len(letters) < 2:
        raise InputError(f"the alphabet must have at least two letters, got {alphabet!r}")
    return letters


def _known_letters(model: TrainedModel) -> str:
    support, kernel = model.support.documents, model.kernel
    assert kernel is not None
    alphabets = [support.of(view).alphabet for view in kernel.structure.views if view.tokens == "characters"]
    letters = "".join(sorted({chr(code) for alphabet_codes in alphabets for code in alphabet_codes.tolist()}))
    if letters and set(letters.lower()) <= set("acgtun"):
        letters = "".join(letter for letter in letters if letter.lower() != "n")
    if not 2 <= len(letters) <= MOST_LETTERS:
        description = f"{len(letters):,} different letters" if letters else "tokens of any letters"
        raise InputError(f"the model's texts have {description}; give the alphabet, as in alphabet='acgt'")
    return letters


def _batches(texts: Sequence[str], letters: str) -> Iterator[tuple[list[tuple[int, int, int]], list[str]]]:
    """Yield batches of changes, (text, position, letter) each, and the changed texts."""
    places: list[tuple[int, int, int]] = []
    changed: list[str] = []
    room = BATCH
    for d, text in enumerate(texts):
        for i, letter_of_text in enumerate(text):
            before, after = text[:i], text[i + 1 :]
            alternatives = [(c, letter) for c, letter in enumerate(letters) if letter != letter_of_text]
            places += [(d, i, c) for c, _ in alternatives]
            changed += [before + letter + after for _, letter in alternatives]
            room -= len(alternatives) * len(text)
            if room <= 0:
                yield places, changed
                places, changed, room = [], [], BATCH
    if places:
        yield places, changed


def _check_length(kernel: Kernel, k: int, n_letters: int) -> None:
    leaves = [leaf for leaf in kernel.structure.leaves if leaf.structure.view.tokens == "characters"]
    if not leaves:
        raise InputError("the model reads tokens, not letters, so k-mers of letters say nothing about it")
    shortest = min(leaf.structure.min_length for leaf in leaves)
    if k < max(1, shortest):
        raise InputError(
            f"k = {k} is shorter than the kernel's windows of {shortest} letters, which k-mers must hold; "
            f"give k = {max(1, shortest)} or more"
        )
    if n_letters**k > MOST_KMERS:
        raise InputError(
            f"there are {n_letters}^{k} = {n_letters**k:,} k-mers, and at most {MOST_KMERS:,} are scored; "
            "give a smaller k"
        )


def pairs_of(letters: str) -> Ints | None:
    """Index of the complement of each letter; None unless the letters are the bases of DNA or RNA."""
    pair = {"a": "t", "c": "g", "g": "c", "t": "a", "u": "a"}
    if "u" in letters and "t" not in letters:
        pair["a"] = "u"
    if any(pair.get(letter, " ") not in letters for letter in letters) or len(letters) != 4:
        return None
    return np.array([letters.index(pair[letter]) for letter in letters])


def _digits(k: int, n_letters: int, pairs: Ints | None) -> NDArray[np.uint8]:
    """Indices of the letters of all k-mers, shape (number of k-mers, k); with pairs, of a single strand."""
    codes, place = np.arange(n_letters**k), n_letters ** np.arange(k)[::-1]
    digits = (codes[:, None] // place % n_letters).astype(np.uint8)
    if pairs is None:
        return digits
    return digits[codes <= (pairs[digits][:, ::-1] * place).sum(axis=1)]


#: Default k-mers of a motif: with at least half of the highest score, at most this many.
MOST = 200
#: Maximum number of rounds of alignment.
ROUNDS = 5


@dataclass(frozen=True)
class Motif:
    """A motif of W positions."""

    letters: str
    towards: Any  #: Meaning of high scores
    kmers: int  #: Number of aligned k-mers
    frequencies: Floats = field(repr=False)  #: shape (W, len(letters))

    @property
    def bits(self) -> Floats:
        """Heights of the letters in a sequence logo, shape (W, len(letters))."""
        p = self.frequencies
        return np.asarray(p * (np.log2(p.shape[1]) + (p * np.log2(p)).sum(axis=1))[:, None])


def motifs(scored: Kmers, most: int | None = None) -> list[Motif]:
    """A motif for each value of `scored`, and with two classes another for the other class.

    `most` is the number of k-mers of a motif; by default the k-mers with at least half of the highest score,
    at most 200. Values without a positive score are left out.
    """
    sides = [(scored.scores[:, a], label) for a, label in enumerate(scored.towards)]
    if scored.against is not None:
        sides.append((-scored.scores[:, 0], scored.against))
    return [_motif(scored, scores, label, most) for scores, label in sides if scores.max() > 0]


def _motif(kmers: Kmers, scores: Floats, towards: object, most: int | None) -> Motif:
    order = np.argsort(-scores, kind="stable")[: MOST if most is None else most]
    order = order[scores[order] > (scores[order[0]] / 2 if most is None else 0)]
    places = {letter: a for a, letter in enumerate(kmers.letters)}
    digits = np.array([[places[c] for c in kmer] for kmer in kmers.kmers[order].tolist()])
    pairs = pairs_of(kmers.letters) if kmers.both_strands else None
    strands = digits[:, None] if pairs is None else np.stack([digits, pairs[digits][:, ::-1]], axis=1)
    counts = align(strands, scores[order], len(kmers.letters))
    total = scores[order].sum()
    pseudo = total / len(order) / len(kmers.letters)
    rest = total - counts.sum(axis=1, keepdims=True) + pseudo
    positions = np.flatnonzero(counts.sum(axis=1) > total / 2)
    frequencies = (counts + rest / len(kmers.letters)) / (total + pseudo)
    return Motif(kmers.letters, towards, len(order), frequencies[positions[0] : positions[-1] + 1])


def align(strands: Ints, weights: Floats, n_letters: int) -> Floats:
    """Align k-mers; weights of the letters at each position, shape (k + 2 (k // 2), n_letters).

    `strands`, shape (n, 1 or 2, k), are the indices of the letters of the strand, or of both strands.
    """
    n, _, k = strands.shape
    counts = np.zeros((k + 2 * (k // 2), n_letters))
    places: list[tuple[int, int] | None] = [None] * n
    for _ in range(ROUNDS):
        before = list(places)
        for i, (kmer, weight) in enumerate(zip(strands, weights.tolist(), strict=True)):
            if places[i] is not None:
                _place(counts, kmer, places[i], -weight)
            places[i] = _best(counts, kmer, float(weights[0]))
            _place(counts, kmer, places[i], weight)
        if places == before:
            break
    return counts


def _best(counts: Floats, kmer: Ints, unit: float) -> tuple[int, int]:
    """Strand and shift with the largest log-odds against equal frequencies; at first the middle."""
    k = kmer.shape[1]
    if not counts.max() > 1e-9:
        return 0, k // 2
    smoothed = np.maximum(counts, 0) + unit / counts.shape[1]
    odds = np.log(smoothed / smoothed.mean(axis=1, keepdims=True))
    shifts = np.arange(2 * (k // 2) + 1)
    fits = odds[shifts[:, None] + np.arange(k), kmer[:, None]].sum(axis=2)
    strand, shift = np.unravel_index(int(fits.argmax()), fits.shape)
    return int(strand), int(shift)


def _place(counts: Floats, kmer: Ints, place: tuple[int, int] | None, weight: float) -> None:
    assert place is not None
    strand, shift = place
    counts[shift + np.arange(kmer.shape[1]), kmer[strand]] += weight
