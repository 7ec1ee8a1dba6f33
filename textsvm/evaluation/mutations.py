"""What every change of one letter does to a text's value (in-silico mutagenesis), and scores of all k-mers.

    score(i, c) = f(x with x_i := c) - f(x)

f is what speaks for a class (`textsvm.evaluation.explanation`), x the text as the model reads it. Every
changed text is decided anew, so the scores are exact for any kernel. They do not add up over positions:
kernels count windows, which changes share, and a normalised kernel divides by the norm of the changed text.

The score of a k-mer is the value of the k-mer as a text, without the bias: what gkmpredict says of a list of
all k-mers but for a constant, as deltaSVM reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.evaluation.explanation import machine_of_texts, machines_of
from textsvm.runtime.parallel import Progress

#: Symbols of changed texts that exist at a time.
BATCH = 1 << 22
#: k-mers of one length that are listed: 4^11 are, 4^12 are not.
MOST_KMERS = 5_000_000
#: Letters that texts are changed to where nobody says which: more make no alphabet of sequences.
MOST_LETTERS = 30


@dataclass(frozen=True)
class Mutations:
    """The changes of one text.

    Attributes
    ----------
    text : str
        As the model reads it, of L letters.
    letters : str
        What letters are changed to.
    towards : list
        What positive scores speak for: of two classes the positive one, of more each class, of several labels
        each label, "inside" of a one-class model, None (a higher number) of regression.
    values : float64 array, shape (len(towards),)
        Of the text as it is, with bias.
    scores : float64 array, shape (len(towards), L, len(letters))
        0 where the text has the letter.
    """

    text: str
    letters: str
    towards: list[Any]
    values: NDArray[np.float64]
    scores: NDArray[np.float64] = field(repr=False)

    @property
    def importance(self) -> NDArray[np.float64]:
        """By how much values fall when a letter is changed, mean over its changes; shape (towards, L)."""
        same = np.array([[letter == each for each in self.letters] for letter in self.text], bool)
        changes = np.maximum((~same.reshape(len(self.text), len(self.letters))).sum(axis=1), 1)
        importance: NDArray[np.float64] = -self.scores.sum(axis=2) / changes
        return importance


@dataclass(frozen=True)
class Kmers:
    """Scores of all k-mers.

    Attributes
    ----------
    kmers : str array, shape (n,)
        In the order of the alphabet; of a k-mer and its reverse complement the first, where the model reads
        both strands.
    letters : str
    both_strands : bool
    towards : list
        See `Mutations`.
    scores : float64 array, shape (n, len(towards))
    against : label, optional
        With two classes what negative scores speak for.
    """

    kmers: NDArray[np.str_]
    letters: str
    both_strands: bool
    towards: list[Any]
    scores: NDArray[np.float64] = field(repr=False)
    against: Any = None

    def top(self, most: int | None = None, side: int = 0) -> NDArray[np.int64]:
        """Indices of the highest scores for one of `towards`, from the highest; all of them by default."""
        return np.argsort(-self.scores[:, side], kind="stable")[:most]


def mutation_scores(
    model: Any,
    texts: Any,
    alphabet: str | None = None,
    *,
    positive: Any = None,
    progress: Progress | None = None,
) -> list[Mutations]:
    """Score every change of one letter of texts: exact differences of decision values.

    Parameters
    ----------
    model : SVC, MultilabelSVC, SVR, OneClassSVM or CalibratedSVC
        Fitted to texts, with any kernel. Of a calibrated model its decision values are scored.
    texts : list of str
    alphabet : str, optional
        What letters are changed to. By default those of the model's texts, if there are at most 30; of DNA or
        RNA without n.
    positive : label, optional
        Of two classes the one that positive scores speak for; ``classes_[1]`` if not given.
    progress : callable, optional

    Returns
    -------
    list of Mutations, one a text

    Raises
    ------
    InputError
        If the model does not read plain texts, or the alphabet must be said.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, mutation_scores
    >>> model = SVC(Spectrum(2)).fit(["gatt", "ggat", "cctc", "tccc"], [1, 1, 0, 0])
    >>> changes = mutation_scores(model, ["gat"])[0]
    >>> changes.text, changes.letters, changes.scores.round(2).tolist()
    ('gat', 'acgt', [[[-0.47, -0.47, 0.0, -0.47], [0.0, -1.19, -0.71, -0.71], [-0.47, -0.47, -0.47, 0.0]]])
    """
    machine = machine_of_texts(model, "no letters that could be changed")
    given = machine.read(texts, fitting=False)
    if not len(given):
        return []
    letters = letters_of(machine, alphabet)
    documents = machine.encode(given, machine.support_documents_)
    read = [documents.shown(i) for i in range(len(documents))]
    mixes, towards = sides_of(machine, positive)
    values = machine.machine_values(read) @ mixes.T
    scores = [np.zeros((len(towards), len(text), len(letters))) for text in read]
    total, done = sum(len(letters) - (own in letters) for text in read for own in text), 0
    for places, changed in _batches(read, letters):
        found = machine.machine_values(changed) @ mixes.T
        for (d, i, c), value in zip(places, found, strict=True):
            scores[d][:, i, c] = value - values[d]
        done += len(places)
        if progress is not None:
            progress(done, total)
    return [
        Mutations(text, letters, towards, value, score)
        for text, value, score in zip(read, values, scores, strict=True)
    ]


def kmer_scores(
    model: Any,
    k: int,
    alphabet: str | None = None,
    *,
    positive: Any = None,
    progress: Progress | None = None,
) -> Kmers:
    """Score all k-mers of an alphabet: decision values of the k-mers as texts, without the bias.

    Parameters
    ----------
    model, alphabet, positive, progress
        See `mutation_scores`. The model may have been saved without texts.
    k : int
        Not shorter than a window of the kernel.

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
    machine = machine_of_texts(model, "no k-mers")
    letters = letters_of(machine, alphabet)
    _check_length(machine, k, len(letters))
    all_strands = all(getattr(leaf, "canonical", False) for leaf in machine.kernel_.structure.leaves)
    both = pairs_of(letters) if all_strands else None
    digits = _digits(k, len(letters), both)
    kmers = np.array(list(letters))[digits].view(f"<U{k}").ravel()
    mixes, towards = sides_of(machine, positive)
    scores, size = np.empty((len(kmers), len(towards))), max(1, BATCH // k)
    for start in range(0, len(kmers), size):
        some = slice(start, start + size)
        values = machine.machine_values(kmers[some].tolist()) - machine.intercept_
        scores[some] = values @ mixes.T
        if progress is not None:
            progress(min(start + size, len(kmers)), len(kmers))
    return Kmers(kmers, letters, both is not None, towards, scores, _other(machine, towards))


def letters_of(machine: Any, alphabet: str | None) -> str:
    """The letters that texts are changed to, as the model reads them.

    Raises
    ------
    InputError
        If nobody says which and the model's texts have too many, or one that is said is no letter.
    """
    if alphabet is None:
        return _known_letters(machine)
    documents = machine.encode(machine.read(list(alphabet), fitting=False), machine.support_documents_)
    read = [documents.shown(i) for i in range(len(documents))]
    for letter, one in zip(alphabet, read, strict=True):
        if len(one) != 1:
            raise InputError(f"{letter!r} of the alphabet is no letter that the model reads; leave it out")
    letters = "".join(dict.fromkeys(read))
    if len(letters) < 2:
        raise InputError(f"the alphabet {alphabet!r} must have two letters at least")
    return letters


def _known_letters(machine: Any) -> str:
    support = machine.support_documents_
    alphabets = [
        support.of(view).alphabet for view in machine.kernel_.structure.views if view.tokens == "characters"
    ]
    letters = "".join(sorted({chr(code) for each in alphabets for code in each.tolist()}))
    if letters and set(letters.lower()) <= set("acgtun"):
        letters = "".join(letter for letter in letters if letter.lower() != "n")
    if not 2 <= len(letters) <= MOST_LETTERS:
        known = f"{len(letters):,} different letters" if letters else "tokens of any letters"
        raise InputError(f"the model's texts have {known}; say which ones count with alphabet='acgt'")
    return letters


def sides_of(machine: Any, positive: Any) -> tuple[NDArray[np.float64], list[Any]]:
    """Sums of machines that speak for something, shape (sides, machines), and for what."""
    classes, n_machines = getattr(machine, "classes_", None), len(machine.intercept_)
    if classes is None:
        return np.ones((1, n_machines)), ["inside" if hasattr(machine, "offset_") else None]
    labels = classes.tolist()
    if getattr(machine, "label_form_", None) is not None:
        return np.eye(len(labels)), labels
    if len(labels) > 2:
        return np.stack([machines_of(machine.multiclass, a, len(labels)) for a in range(len(labels))]), labels
    mix = np.array([[-1.0, 1.0]]) if n_machines == 2 else np.ones((1, 1))
    return (-mix, labels[:1]) if positive is not None and positive == labels[0] else (mix, labels[1:])


def _batches(texts: Sequence[str], letters: str) -> Iterator[tuple[list[tuple[int, int, int]], list[str]]]:
    """(text, position, letter) of every change and the changed texts, as many as are decided at a time."""
    places: list[tuple[int, int, int]] = []
    changed: list[str] = []
    room = BATCH
    for d, text in enumerate(texts):
        for i, own in enumerate(text):
            before, after = text[:i], text[i + 1 :]
            alternatives = [(c, letter) for c, letter in enumerate(letters) if letter != own]
            places += [(d, i, c) for c, _ in alternatives]
            changed += [before + letter + after for _, letter in alternatives]
            room -= len(alternatives) * len(text)
            if room <= 0:
                yield places, changed
                places, changed, room = [], [], BATCH
    if places:
        yield places, changed


def _check_length(machine: Any, k: int, n_letters: int) -> None:
    leaves = [leaf for leaf in machine.kernel_.structure.leaves if _reads_letters(leaf)]
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


def _reads_letters(leaf: Any) -> bool:
    return bool(leaf.structure.view.tokens == "characters")


def pairs_of(letters: str) -> NDArray[np.int64] | None:
    """Which letter each one pairs with, by their places; None if they are not those of DNA or RNA."""
    pair = {"a": "t", "c": "g", "g": "c", "t": "a", "u": "a"}
    if "u" in letters and "t" not in letters:
        pair["a"] = "u"
    if any(pair.get(letter, " ") not in letters for letter in letters) or len(letters) != 4:
        return None
    return np.array([letters.index(pair[letter]) for letter in letters])


def _other(machine: Any, towards: list[Any]) -> Any:
    """With two classes, the one that negative values speak for."""
    classes = getattr(machine, "classes_", np.empty(0)).tolist()
    two = len(classes) == 2 and len(towards) == 1
    return next(label for label in classes if label != towards[0]) if two else None


def _digits(k: int, n_letters: int, pairs: NDArray[np.int64] | None) -> NDArray[np.uint8]:
    """Letters of all k-mers by their places in the alphabet, shape (number of k-mers, k)."""
    codes, place = np.arange(n_letters**k), n_letters ** np.arange(k)[::-1]
    digits = (codes[:, None] // place % n_letters).astype(np.uint8)
    if pairs is None:
        return digits
    return digits[codes <= (pairs[digits][:, ::-1] * place).sum(axis=1)]
