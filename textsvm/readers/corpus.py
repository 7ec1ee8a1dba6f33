"""Corpus: the documents of a collection, their labels and parts, and what was wrong with them.

Columns of a corpus: texts, in memory or stored, numbers, dense and sparse vectors. Light to import.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple, cast

from textsvm.errors import InputError
from textsvm.text.stored import StoredTexts


def take(values: Any, indices: Sequence[int]) -> Any:
    """The values at `indices`, in that order."""
    if hasattr(values, "dtype"):
        return values[indices]
    return values.take(indices) if isinstance(values, StoredTexts) else [values[i] for i in indices]


def select_examples(examples: Any, indices: Sequence[int]) -> Any:
    """The examples at `indices`: texts, vectors, or a dict of columns (`Corpus.examples`)."""
    if isinstance(examples, dict):
        return {name: take(values, indices) for name, values in examples.items()}
    return take(examples, indices)


def number_column(values: Sequence[Any]) -> Any:
    """Numbers as a float64 array."""
    import numpy as np

    return np.array(values, np.float64)


def concatenate_columns(parts: Sequence[Any]) -> Any:
    """Lists, arrays or sparse matrices as one; of these the widest has the number of columns."""
    if len(parts) == 1:
        return parts[0]
    import numpy as np
    from scipy import sparse

    if sparse.issparse(parts[0]):
        width = max(each.shape[1] for each in parts)
        for each in parts:
            each.resize(each.shape[0], width)
        return sparse.vstack(parts, "csr")
    if isinstance(parts[0], np.ndarray):
        if len({each.shape[1:] for each in parts}) > 1:
            raise InputError("vectors of several files have different numbers of columns")
        return np.concatenate(parts)
    return [each for part in parts for each in part]


def encoded_values(values: Any) -> Iterator[bytes]:
    """Texts, numbers or vectors, one by one."""
    if hasattr(values, "indptr"):
        starts = values.indptr.tolist()
        for a, b in pairwise(starts):
            yield values.indices[a:b].tobytes() + values.data[a:b].tobytes()
    elif hasattr(values, "dtype"):
        yield from (row.tobytes() for row in values)
    else:
        yield from (text.encode("utf-8", "surrogatepass") for text in values)


def digest(*parts: bytes) -> bytes:
    made = blake2b(digest_size=16)
    for each in parts:
        made.update(len(each).to_bytes(8, "little") if len(parts) > 1 else b"")
        made.update(each)
    return made.digest()


Label = str | tuple[str, ...]
#: Formats of sequences.
SEQUENCES = ("fasta", "fastq")
#: What vectors beside texts are called, as a column.
VECTORS = "vectors"
#: What each document of a corpus may have one of.
_LISTS = ("texts", "labels", "part", "targets", "weights", "groups", "vectors")


class Document(NamedTuple):
    """One document as a reader of some format finds it.

    `columns` are those that stay apart, texts and numbers, the first text among them.
    """

    id: str
    text: str
    label: Label | None = None
    part: str | None = None
    target: float | None = None
    weight: float | None = None
    group: str | None = None
    columns: Mapping[str, str | float] | None = None


@dataclass
class Corpus:
    """Documents, or vectors, in the order of their source; all lists have the same length.

    Attributes
    ----------
    ids : list of str
        Unique: the path inside the archive, NEWID, the row, ...
    texts : list of str, or StoredTexts
        In memory, or in a temporary file. As they were written; `documents.normalise` comes later.
        The first column of texts where there are several; empty where there is none.
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
    vectors : array or CSR matrix, shape (n, d), or None
        Beside the texts, or instead of them; finite numbers.
    columns : dict of str to list of str, StoredTexts or float64 array, or None
        Columns of texts and numbers of a table, where they stay apart.
    source : str
        Where it was read from.
    format : str
        The format it was read as.
    problems : list of (str, str)
        Id, or file and line, of what was damaged or left out, and the problem.

    Examples
    --------
    >>> from textsvm import Corpus
    >>> corpus = Corpus(["1", "2"], ["win cash now", "lunch at noon"], ["spam", "ham"], ["train", "test"])
    >>> corpus.select("test").texts
    ['lunch at noon']
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
    vectors: Any = None
    columns: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def examples(self) -> Any:
        """What estimators take: texts, vectors, or a dict of columns (vectors among them, "vectors")."""
        if self.columns is None and not len(self.texts):
            return self.vectors
        if self.columns is None and self.vectors is None:
            return self.texts
        columns = {"text": self.texts} if self.columns is None else self.columns
        return columns if self.vectors is None else {**columns, VECTORS: self.vectors}

    @property
    def of_sequences(self) -> bool:
        """Whether the texts are sequences of letters (FASTA, FASTQ)."""
        return self.format in SEQUENCES

    def subset(self, indices: Iterable[int]) -> Corpus:
        """The documents at `indices`, in that order."""
        chosen = [int(i) for i in indices]
        labels = None if self.labels is None else [self.labels[i] for i in chosen]
        return replace(
            self,
            ids=[self.ids[i] for i in chosen],
            texts=cast("list[str]", take(self.texts, chosen) if len(self.texts) else []),
            labels=cast("list[str] | list[tuple[str, ...]] | None", labels),
            part=[self.part[i] for i in chosen],
            targets=self.targets and [self.targets[i] for i in chosen],
            weights=self.weights and [self.weights[i] for i in chosen],
            groups=self.groups and [self.groups[i] for i in chosen],
            vectors=None if self.vectors is None else self.vectors[chosen],
            columns=self.columns and {name: take(each, chosen) for name, each in self.columns.items()},
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

    def opposite(self, positive: str) -> str:
        """What documents without a label are called: of two labels the other by its name, else "rest"."""
        labels = set(self.labels or ())
        others = [label for label in labels if label != positive]
        return others[0] if len(labels) == 2 and isinstance(others[0], str) else "rest"

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

    def with_vectors(self, vectors: Any, source: str) -> Corpus:
        """The same with vectors beside the texts, a row a document, read from `source`.

        Raises
        ------
        InputError
            If there are not as many, or a column has their name.
        """
        if vectors.shape[0] != len(self):
            raise InputError(
                f"{source} has {vectors.shape[0]:,} vectors and {self.source} {len(self):,} documents; "
                "row by row they must be of the same ones"
            )
        if VECTORS in (self.columns or {}):
            raise InputError(
                f"a column of {self.source} is called {VECTORS!r}, as those beside it; rename it"
            )
        return replace(self, vectors=vectors)

    def with_labels(self, labels: list[str], source: str) -> Corpus:
        """The same with other labels, read from `source`; InputError if they are not one a document."""
        if len(labels) != len(self):
            raise InputError(
                f"{source} has {len(labels):,} labels and {self.source} {len(self):,} rows; give one a row"
            )
        return replace(self, labels=labels)

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
        """What is equal for equal documents: texts in memory, or digests of what there is."""
        if self.columns is None and self.vectors is None and not isinstance(self.texts, StoredTexts):
            return self.texts
        parts = (
            [self.texts] if self.columns is None and len(self.texts) else list((self.columns or {}).values())
        )
        parts += [] if self.vectors is None else [self.vectors]
        return map(digest, *map(encoded_values, parts))


def build_corpus(
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
    apart = _texts_apart(documents, found, source)
    texts: Sequence[str] = StoredTexts.of(apart) if stored else list(apart)
    columns = _columns_of(texts, found)
    if columns is not None:
        texts = next((each for each in columns.values() if not hasattr(each, "dtype")), [])
    left: Sequence[int] = range(len(found))
    problems = [(printable_id(identifier), problem) for identifier, problem in problems]
    if any(document.target is not None for document in found):
        labelled = False
        problems += [(d.id, "left out: it has no number to be predicted") for d in found if d.target is None]
        left = [i for i in left if found[i].target is not None]
    any_label = labelled and any(document.label is not None for document in found)
    if any_label:
        problems += [(d.id, "left out: it has no label") for d in found if d.label is None]
        left = [i for i in left if found[i].label is not None]
    if len(left) < len(found):
        found, texts = [found[i] for i in left], take(texts, left) if len(texts) else texts
        columns = columns and {name: take(each, left) for name, each in columns.items()}
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
        columns=columns,
    )


def concatenate_corpora(corpora: Sequence[Corpus], source: str, format: str) -> Corpus:
    """One corpus of several, the first one's documents first; their labels only if all have some.

    Raises
    ------
    InputError
        If some have columns or vectors that others have not.
    """
    problems = [problem for one in corpora for problem in one.problems]
    if len({(tuple(one.columns or ()), one.vectors is None, not len(one.texts)) for one in corpora}) > 1:
        raise InputError(f"{source}: texts, columns and vectors must be the same ones in all of the files")

    def joined(name: str) -> Any:
        lists = [getattr(one, name) for one in corpora]
        return None if any(each is None for each in lists) else concatenate_columns(lists)

    columns = corpora[0].columns and {
        name: concatenate_columns([(one.columns or {})[name] for one in corpora])
        for name in corpora[0].columns
    }
    return replace(
        corpora[0],
        **{name: joined(name) for name in _LISTS},
        ids=_unique([printable_id(identifier) for one in corpora for identifier in one.ids], problems),
        columns=columns, source=source, format=format, problems=problems,
    )  # fmt: skip


def _texts_apart(documents: Iterable[Document], found: list[Document], source: str) -> Iterator[str]:
    """The texts of documents, one column after the other; `found` gets these without them."""
    for document in documents:
        columns = document.columns
        if columns is None:
            yield document.text
        else:
            yield from (value for value in columns.values() if isinstance(value, str))
            columns = {name: "" if isinstance(value, str) else value for name, value in columns.items()}
            if found and columns.keys() != (found[0].columns or {}).keys():
                raise InputError(f"{source}: columns of the same names must be in all of its files")
        found.append(Document(printable_id(document.id), "", *document[2:-1], columns))


def _columns_of(texts: Sequence[str], found: Sequence[Document]) -> dict[str, Any] | None:
    """The columns of documents whose texts are those of one after the other."""
    if not found or found[0].columns is None:
        return None
    names = [name for name, value in found[0].columns.items() if isinstance(value, str)]
    columns: dict[str, Any] = {name: texts[k :: len(names)] for k, name in enumerate(names)}
    for name in found[0].columns:
        if name not in columns:
            columns[name] = number_column([(document.columns or {})[name] for document in found])
    return columns


def printable_id(identifier: str) -> str:
    """Without the lone surrogates of a file name that is not UTF-8: ids go into output."""
    return identifier if identifier.isascii() else identifier.encode("utf-8", "replace").decode()


def _unique(ids: list[str], problems: list[tuple[str, str]]) -> list[str]:
    """Number the second and later documents of one id: x, x#2, x#3."""
    taken = set(ids)
    if len(taken) == len(ids):
        return ids
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
        seen[identifier] = number
        taken.add(f"{identifier}#{number}")
        result.append(f"{identifier}#{number}")
        problems.append((identifier, f"another document has this id; it is called {result[-1]}"))
    return result


def _closest(label: str, counts: Counter[str], shown: int = 10) -> str:
    """The labels that exist, those spelled like `label` first, then the most frequent."""
    from difflib import get_close_matches

    known = [name for name, _ in counts.most_common()]
    close = get_close_matches(label, known[:1000], 5, 0.5)  # it is slow
    order = close + [name for name in known if name not in close]
    return ", ".join(order[:shown]) + (f" and {len(order) - shown} more" if len(order) > shown else "")
