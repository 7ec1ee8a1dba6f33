"""Corpus: the documents of a collection, their labels and parts, and what was wrong with them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple, cast

from textsvm.errors import InputError
from textsvm.stored_texts import StoredTexts

Label = str | tuple[str, ...]


class Document(NamedTuple):
    """One document as a reader of some format finds it."""

    id: str
    text: str
    label: Label | None = None
    part: str | None = None
    target: float | None = None
    weight: float | None = None
    group: str | None = None


@dataclass
class Corpus:
    """Documents, in the order of their source; all lists have the same length.

    Attributes
    ----------
    ids : list of str
        Unique: the path inside the archive, NEWID, the row, ...
    texts : list of str, or StoredTexts
        In memory, or in a temporary file. As they were written; `textsvm.documents.normalise` comes later.
    labels : list of str, list of tuple of str, or None
        None if there are none. Tuples where a document may have several labels, or no label at all.
    part : list of (str or None)
        "train", "test" or another word of the source; None where it names none.
    targets : list of float, or None
        Numbers to be predicted, where a column of them was asked for; finite.
    weights : list of float, or None
        How much each document counts in training; finite.
    groups : list of str, or None
        Documents of one group (an author, a thread) belong on the same side of a split.
    source : str
        Where it was read from.
    format : str
        The format it was read as.
    problems : list of (str, str)
        Id, or file and line, of what was damaged or left out, and the problem.
    """

    ids: list[str]
    texts: list[str]
    labels: list[str] | list[tuple[str, ...]] | None
    part: list[str | None]
    source: str = ""
    format: str = ""
    problems: list[tuple[str, str]] = field(default_factory=list)
    targets: list[float] | None = None
    weights: list[float] | None = None
    groups: list[str] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def subset(self, indices: Iterable[int]) -> Corpus:
        """The documents at `indices`, in that order."""
        chosen = [int(i) for i in indices]
        labels = None if self.labels is None else [self.labels[i] for i in chosen]
        return replace(
            self,
            ids=[self.ids[i] for i in chosen],
            texts=cast("list[str]", _taken(self.texts, chosen)),
            labels=cast("list[str] | list[tuple[str, ...]] | None", labels),
            part=[self.part[i] for i in chosen],
            targets=self.targets and [self.targets[i] for i in chosen],
            weights=self.weights and [self.weights[i] for i in chosen],
            groups=self.groups and [self.groups[i] for i in chosen],
        )

    def select(self, part: str | None = None) -> Corpus:
        """The documents of one part; all of them for None.

        Raises
        ------
        InputError
            If no document is in that part.
        """
        if part is None:
            return self
        chosen = [i for i, each in enumerate(self.part) if each == part]
        if not chosen:
            there = ", ".join(sorted({each for each in self.part if each}))
            there = f"there is: {there}" if there else "it is not in parts"
            raise InputError(f"{self.source} has no part {part!r}; {there}")
        return self.subset(chosen)

    def reduce_labels(self, positive: str, negative: str = "rest") -> Corpus:
        """Two classes out of many.

        Parameters
        ----------
        positive : str
        negative : str
            Another label: the documents that have exactly one of the two stay. Or "rest": all
            documents with a label stay, and those without `positive` are labelled "rest".

        Raises
        ------
        InputError
            If a label does not occur, both are the same, or a class is left empty.
        """
        if self.labels is None:
            raise InputError(f"{self.source} has no labels, so {positive!r} cannot be told from {negative!r}")
        sets = [frozenset((each,) if isinstance(each, str) else each) for each in self.labels]
        counts = Counter(label for each in sets for label in each)
        for label in (positive, *([negative] if negative != "rest" else [])):
            if label not in counts:
                raise InputError(f"{self.source} has no label {label!r}; there is: {_closest(label, counts)}")
        if positive == negative:
            raise InputError(f"the positive and the negative label are both {positive!r}")
        if negative == "rest":
            chosen = [i for i, each in enumerate(sets) if each]
        else:
            chosen = [i for i, each in enumerate(sets) if (positive in each) != (negative in each)]
        labels = [positive if positive in sets[i] else negative for i in chosen]
        if len(set(labels)) < 2:
            raise InputError(f"{self.source}: no document is {positive!r} or {negative!r} and not the other")
        return replace(self.subset(chosen), labels=labels)

    def duplicates(self) -> list[tuple[str, ...]]:
        """Groups of ids of documents with equal texts, each in the order of the corpus."""
        return [tuple(self.ids[i] for i in group) for group in self._equal_texts()]

    def conflicting_duplicates(self) -> list[tuple[str, ...]]:
        """Those groups of duplicates whose documents do not all have the same labels (or numbers)."""
        labels: Sequence[Label | float] = self.targets or self.labels or [""] * len(self)
        groups = (group for group in self._equal_texts() if len({labels[i] for i in group}) > 1)
        return [tuple(self.ids[i] for i in group) for group in groups]

    def without_duplicates(self) -> Corpus:
        """The first of every group of documents with equal texts and equal labels (or numbers)."""
        labels: Sequence[Label | float] = self.targets or self.labels or [""] * len(self)
        first: dict[tuple[str | bytes, Label | float], int] = {}
        for i, key in enumerate(zip(self._keys(), labels, strict=True)):
            first.setdefault(key, i)
        return self.subset(first.values())

    def _equal_texts(self) -> list[list[int]]:
        groups = defaultdict(list)
        for i, text in enumerate(self._keys()):
            groups[text].append(i)
        return [group for group in groups.values() if len(group) > 1]

    def _keys(self) -> Iterable[str | bytes]:
        """What is equal for equal texts: these, or digests of those that are not in memory."""
        if not isinstance(self.texts, StoredTexts):
            return self.texts
        return (
            blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in self.texts
        )


def gather(
    documents: Iterable[Document],
    source: str,
    format: str,
    problems: list[tuple[str, str]],
    *,
    labelled: bool = True,
    stored: bool = False,
) -> Corpus:
    """Make a corpus of documents: ids made unique, labels all of one type.

    Documents without a label among others that have one are left out and named, unless the labels
    are not asked for (`labelled` is False): then there are none at all. Numbers to be predicted, where
    there are any, take the place of the labels. `stored`: texts go to a temporary file one by one.
    """
    found: list[Document] = []
    apart = _texts_apart(documents, found)
    texts: Sequence[str] = StoredTexts.of(apart) if stored else list(apart)
    left: Sequence[int] = range(len(found))
    problems = [(_printable(identifier), problem) for identifier, problem in problems]
    if any(document.target is not None for document in found):
        labelled = False
        problems += [(d.id, "left out: it has no number to be predicted") for d in found if d.target is None]
        left = [i for i in left if found[i].target is not None]
    any_label = labelled and any(document.label is not None for document in found)
    if any_label:
        problems += [(d.id, "left out: it has no label") for d in found if d.label is None]
        left = [i for i in left if found[i].label is not None]
    if len(left) < len(found):
        found, texts = [found[i] for i in left], _taken(texts, left)
    labels: list[Label] = [document.label for document in found if document.label is not None]
    if any(isinstance(label, tuple) for label in labels):
        labels = [(label,) if isinstance(label, str) else label for label in labels]
    return Corpus(
        ids=_unique([document.id for document in found], problems),
        texts=cast("list[str]", texts),
        labels=cast("list[str] | list[tuple[str, ...]]", labels) if any_label else None,
        part=[document.part for document in found],
        source=source,
        format=format,
        problems=problems,
        targets=[document.target for document in found if document.target is not None] or None,
        weights=[document.weight for document in found if document.weight is not None] or None,
        groups=[document.group for document in found if document.group is not None] or None,
    )


def _texts_apart(documents: Iterable[Document], found: list[Document]) -> Iterator[str]:
    """The texts of documents; `found` gets these without them."""
    for document in documents:
        found.append(document._replace(id=_printable(document.id), text=""))
        yield document.text


def _taken(texts: Sequence[str], indices: Sequence[int]) -> Sequence[str]:
    return texts.take(indices) if isinstance(texts, StoredTexts) else [texts[i] for i in indices]


def _printable(identifier: str) -> str:
    """Without the lone surrogates of a file name that is not UTF-8: ids go into output."""
    return identifier.encode("utf-8", "replace").decode()


def _unique(ids: list[str], problems: list[tuple[str, str]]) -> list[str]:
    """Number the second and later documents of one id: x, x#2, x#3."""
    taken = set(ids)
    seen: Counter[str] = Counter()
    result = []
    for identifier in ids:
        seen[identifier] += 1
        if seen[identifier] == 1:
            result.append(identifier)
            continue
        number = seen[identifier]
        while f"{identifier}#{number}" in taken:
            number += 1
        taken.add(f"{identifier}#{number}")
        result.append(f"{identifier}#{number}")
        problems.append((identifier, f"another document has this id; it is called {result[-1]}"))
    return result


def _closest(label: str, counts: Counter[str], shown: int = 10) -> str:
    """The labels that exist, those spelled like `label` first, then the most frequent."""
    from difflib import get_close_matches

    close = get_close_matches(label, counts, 5, 0.5)
    order = close + [name for name, _ in counts.most_common() if name not in close]
    return ", ".join(order[:shown]) + (f" and {len(order) - shown} more" if len(order) > shown else "")
