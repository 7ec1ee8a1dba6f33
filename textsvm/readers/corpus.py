"""Corpus: the documents of a collection, their labels and parts, and the problems of reading them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from hashlib import blake2b
from itertools import chain, pairwise
from math import isfinite
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Self
from unicodedata import normalize

import numpy as np

from textsvm.arrays import Array, Json
from textsvm.errors import InputError, check_labels, first_few, plural
from textsvm.readers.charsets import INVISIBLE
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parameters import notebook_table, with_short_repr
from textsvm.text.pieces import Pieces
from textsvm.text.stored import StoredTexts

#: Spaces and apostrophes between groups of digits.
_SPACES = re.compile(r"(?<=\d)[ \u00a0\u202f\u2009'’](?=\d{3})|^\s+|\s+$")
#: Cell that is a date, perhaps with a time.
DATE = re.compile(r"\s*\d{1,4}([-./])\d{1,2}\1\d{1,4}(?:[ T]\d{1,2}:\d{2}\S*(?: [AP]M)?)?\s*$")
Label = str | tuple[str, ...]
LabelledCells = tuple[Label | None, list[str]]  #: Of a row: its label, and cells that are not read
Problems = list[tuple[str, str]]  #: Id, or file and line, of damaged or omitted documents, and the problem
Row = Mapping[str, Any]  #: Cells of a row of a table, by the names of the columns
#: Usual names of the columns of tables, by their role.
USUAL = {
    "text": ("text", "body", "content", "message", "document", "review", "essay", "sentence", "comment",
             "tweet", "comment_text"),
    "label": ("label", "class", "category", "target", "topic", "sentiment", "labels", "@@class@@"),
    "id": ("id", "doc_id", "document_id", "essay_id", "newid", "uid"),
    "part": ("part", "split"),
}  # fmt: skip
#: Names of missing values.
MISSING = ("nan", "na", "n/a", "null", "none", "<na>")
FEW = 10  #: Fewest rows in which some may contradict the others
OF_NAME = "name:"  #: Beginning of a `label` that is a regular expression for the names of files
VECTORS = "vectors"  #: Name of the column of vectors beside texts
#: Role of the first index of LIBSVM's format, "0" or "1", among recorded and detected columns.
FIRST_INDEX = "first_index"
DECIMAL = "decimal"  #: Role of the decimal mark of a table
#: Reason of rows with a wrong number of fields.
NEEDS_QUOTES = "a text with the delimiter in it, or a number such as 1,5, needs quotes"
EXPORT_AGAIN = "export it again with semicolons or tabs between the cells"
TOTALS, HEADER_AGAIN, FOOTNOTE = "a row of totals", "the header again", "a note below the table"
HEADER_LINE, EMPTY = "a further line of the header", "its cells are empty"
NO_DOCUMENTS = (TOTALS, HEADER_AGAIN, HEADER_LINE, FOOTNOTE, EMPTY)  #: Problems of rows that are no documents
SWAPPED = "text and label are swapped"
_LACK = {NEEDS_QUOTES: "too few or too many fields", SWAPPED: "a class as text"}  #: Of refused rows
#: Attributes of a corpus with a value for each document.
_LISTS = ("texts", "labels", "part", "targets", "weights", "groups", "piece_of", "vectors")


class NumberCell(str):
    """Text of a cell that is stored as a number, whose decimal mark is a point."""


class Answers(tuple[str, ...]):
    """The labels of a document that lacks those of `no`; all others are unknown."""

    no: frozenset[str]

    def __new__(cls, labels: Iterable[str] = (), no: Iterable[str] = ()) -> Self:
        answers = super().__new__(cls, labels)
        answers.no = frozenset(no)
        return answers


class Document(NamedTuple):
    """A document as a reader yields it.

    `columns` are texts and numbers that stay apart, the first text among them. `problem` says why a row
    holds no document, if `ReadOptions.keep_invalid` asks for such rows; `row` are all its cells, if
    `ReadOptions.keep_rows` asks for them.
    """

    id: str
    text: str
    label: Label | None = None
    part: str | None = None
    target: float | None = None
    weight: float | None = None
    group: str | None = None
    columns: Mapping[str, str | float] | None = None  #: Texts and numbers that stay apart
    problem: str | None = None  #: Why a row holds no document, with `ReadOptions.keep_invalid`
    row: Row | None = None  #: All cells, with `ReadOptions.keep_rows`


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading, which `read_corpus` describes; columns are names, or numbers from 1."""

    format: str | None = None  #: None: detect it
    text: str | Sequence[str] | None = None  #: Several with commas; a sequence keeps columns apart
    label: str | None = None
    id: str | None = None
    target: str | None = None
    weight: str | None = None
    group: str | None = None
    numbers: str | Sequence[str] | None = None
    label_separator: str | None = None  #: Of several labels in a cell, "": detect it
    split: str = "modapte"
    level: int | None = None  #: Of the folders that are classes, from 1; None: detect it
    header: bool | int | None = None  #: Whether a table has a header, or its row; None: detect it
    separator: str | None = None  #: Of the cells of a table; None: detect it
    quote: str | None = None  #: Of cells with separators, "none" for ordinary characters; None: detect it
    decimal: str | None = None  #: Decimal mark of numbers, "," or "."; None: detect it
    negatives: bool = False  #: Keep texts whose answers are all no, for `Corpus.reduce_labels`
    sheet: str | None = None  #: Of a spreadsheet, by name or number from 1; "all"
    encoding: str | None = None  #: Charset of texts and tables; None: detect it
    annotators: str = "majority"  #: Answers of annotators: "all", "majority", or the name of an annotator
    headers: bool = False
    skip_invalid: bool = False  #: Leave out rows without a text, or with too few or too many fields
    labelled: bool = True  #: Else labels are ignored, and a line or file without a label is a text
    keep_invalid: bool = False  #: Yield a document with a `problem` for each row that has no text
    require_text: bool = False  #: Raise InputError for a row without a text, unless `skip_invalid`
    keep_rows: bool = False  #: Keep all cells of the rows of tables
    classes: Collection[str] = ()  #: Of the model, if documents are to be classified
    #: Columns of tables by their role, for roles without a named column: those that a model was trained on.
    recorded: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    #: Gets the decisions of the readers, in the order of files: the keys of `Corpus.reading`.
    decisions: dict[str, list[Any]] = field(default_factory=dict)
    #: Gets sentences on data that contradict the decisions: `Corpus.warnings`.
    warnings: list[str] = field(default_factory=list)
    annotator_names: set[str] = field(default_factory=set)  #: Gets the names of annotators

    def decide(self, **decisions: object) -> None:
        """Record decisions about a file, columns as tuples. None and () are ignored."""
        for name, value in decisions.items():
            value = self.encoding or value if name == "encoding" else value
            if value not in (*self.decisions.get(name, ()), None, ()):
                self.decisions.setdefault(name, []).append(value)

    def warn(self, *sentences: str) -> None:
        """Record sentences on data that contradict the decisions."""
        self.warnings.extend(x for x in sentences if x not in self.warnings)

    def reading(self, source: str, format: str, documents: int | None = None) -> Json:
        """The decisions so far, as in `Corpus.reading`."""
        facts = {name: values[0] if len(values) == 1 else values for name, values in self.decisions.items()}
        return {"source": source, "format": format, "documents": documents, **facts}

    def interpreted(self, corpus: Corpus) -> Corpus:
        """The corpus with the decisions of its readers."""
        facts, labels = self.reading(corpus.source, corpus.format, len(corpus)), corpus.labels or ()
        names = {name for label in labels for name in ([label] if isinstance(label, str) else label)}
        facts |= {"classes": sorted(names)} if names else {}
        headed, detected = facts.get("header", True) is True, dict[str, str]()
        for role in ("text", "label"):
            columns = facts.get(role)
            if headed and role not in self.named and isinstance(columns, tuple) and len(columns) == 1:
                detected[role] = columns[0]
        detected |= {x: value for x in (FIRST_INDEX, DECIMAL) if isinstance(value := facts.get(x), str)}
        return replace(corpus, reading=facts, detected=detected)

    @cached_property
    def reports_invalid(self) -> bool:
        """Whether a row without a text yields a document with a `problem`."""
        return self.keep_invalid and not self.skip_invalid

    @cached_property
    def needs_text(self) -> bool:
        """Whether an empty text is a problem."""
        return self.keep_invalid or self.require_text or self.skip_invalid

    @cached_property
    def named(self) -> dict[str, str | Sequence[str]]:
        """The named columns by their role."""
        roles = ("text", "label", "id", "target", "weight", "group", "numbers")
        columns = {role: column for role in roles if (column := vars(self)[role]) is not None}
        return {role: name for role, name in columns.items() if not (role == "label" and is_of_name(name))}

    @cached_property
    def name_pattern(self) -> re.Pattern[str] | None:
        """Pattern of the names of files whose only group is the label; None without such a `label`."""
        label = self.label if self.label is not None or self.level else self.recorded.get("label")
        if not (self.labelled and is_of_name(label)):
            return None
        with suppress(re.error):
            pattern = re.compile(str(label).removeprefix(OF_NAME))
            if pattern.groups == 1:
                return pattern
        raise InputError(
            f"label={label!r} must be a regular expression with one group, in parentheses, which is the "
            f"label, as in {OF_NAME}^([^_]+)_"
        )

    def label_of(self, file: str) -> str:
        """The label in the name of a file; InputError if the name does not match."""
        assert self.name_pattern is not None
        match = self.name_pattern.search(PurePosixPath(file).name)
        if match is None or not match[1]:
            raise InputError(
                f"{file}: its name has no label by {OF_NAME}{self.name_pattern.pattern}; rename or remove "
                "the file, or change the pattern"
            )
        self.decide(label=f"{OF_NAME}{self.name_pattern.pattern}")
        return match[1]

    @cached_property
    def columns(self) -> dict[str, str | Sequence[str]]:
        """The named columns, and the recorded columns where none is named, by their role."""
        without = {FIRST_INDEX, DECIMAL}
        if self.text is not None or self.numbers is not None:
            without |= {"text", "numbers"}
        recorded = {
            role: name for role, name in self.recorded.items() if role not in without and not is_of_name(name)
        }
        return {**recorded, **self.named}

    @property
    def label_column(self) -> str | None:
        """The named or recorded column of the labels."""
        column = self.columns.get("label")
        return column if isinstance(column, str) else None

    @cached_property
    def apart(self) -> bool:
        """Whether columns of texts and numbers stay apart."""
        columns = self.columns
        return not isinstance(columns.get("text", ""), str) or "numbers" in columns

    @property
    def header_names(self) -> set[str]:
        """Names of columns that a header must have."""
        optional = {"id"} if self.labelled else {"id", "label"}
        optional -= self.named.keys()
        return self.names_in({role: name for role, name in self.columns.items() if role not in optional})

    def names_in(self, columns: Mapping[str, str | Sequence[str]]) -> set[str]:
        """The names, not numbers, of columns."""
        names = ",".join(name if isinstance(name, str) else ",".join(name) for name in columns.values())
        return {name.strip() for name in names.split(",") if name and not name.strip().isdecimal()}

    @property
    def has_table_columns(self) -> bool:
        """Whether the columns show that an input of unknown format is a table."""
        return not self.named.keys().isdisjoint(("text", "numbers", "id"))


@with_short_repr
@dataclass
class Corpus:
    """Documents, or vectors, in the order of their source; all lists have the same length.

    Examples
    --------
    >>> from textsvm import Corpus
    >>> corpus = Corpus(["1", "2"], ["win cash now", "lunch at noon"], ["spam", "ham"], ["train", "test"])
    >>> corpus.select("test").texts
    ['lunch at noon']
    """

    ids: list[str]  #: Unique: the path inside the archive, NEWID, the row, ...
    #: In memory or in a temporary file (`StoredTexts`), as they were written. Those of several columns are
    #: joined by line breaks, and apart in `columns`; empty if there are no texts.
    texts: Sequence[str]
    #: None if there are none. Tuples if a document may have several labels, or none; a tuple of the type
    #: `Answers` also has labels that the document lacks, `no`, and its other labels are unknown.
    labels: list[str] | list[tuple[str, ...]] | None
    part: list[str | None]  #: "train", "test" or another name in the source; None if the source names no part
    source: str = ""  #: Path of the input
    format: str = ""  #: Format of the input
    #: Id, or file and line, of damaged or omitted documents, and the problem.
    problems: Problems = field(default_factory=list)
    #: Sentences on data that contradict a guess of the reader.
    warnings: list[str] = field(default_factory=list)
    #: Rows without a text among documents to classify, and the number of documents before each.
    invalid: list[tuple[int, Document]] = field(default_factory=list)
    targets: list[float] | None = None  #: Finite numbers to be predicted, from the target column
    weights: list[float] | None = None  #: Weight of each document in training; finite
    #: Documents of a group (an author, a thread) belong on the same side of a split.
    groups: list[str] | None = None
    #: array or CSR matrix, shape (n, d): Finite vectors beside the texts, or instead of them.
    vectors: Array = None
    #: Columns of texts (lists, StoredTexts) and numbers (float64) of a table by name, if they stay apart.
    columns: Json | None = None
    rows: list[Row | None] | None = None  #: All cells of the row of each document, if they are kept
    #: New labels of corrected documents (None: left out), by digest of the text and label, in their order.
    corrections: dict[str, list[str | None]] = field(default_factory=dict)
    #: Columns that were not named, of texts and labels, by their role: "text" and "label".
    detected: dict[str, str] = field(default_factory=dict)
    #: Decisions of the reader: format, number of documents, classes, and where they apply the columns of each
    #: role, separator, header (bool), encoding and level of the folders of classes; "rows" of tables below
    #: their headers; "grouping" is a column that may be one of groups. A list of values if files differ.
    reading: Json = field(default_factory=dict)
    piece_of: list[int] | None = None  #: Of pieces of texts: the number of the text
    pieces: Pieces | None = None  #: How the texts were cut

    def __len__(self) -> int:
        return len(self.ids)

    def _repr_html_(self) -> str:
        counts = Counter(map(str, self.labels or [])).most_common()
        return notebook_table(f"{len(self):,} documents of {self.source}", [("label", "documents"), *counts])

    @property
    def examples(self) -> Any:
        """Input of estimators: texts, vectors, or a dict of columns (vectors under the name "vectors")."""
        if self.columns is None and not len(self.texts):
            return self.vectors
        if self.columns is None and self.vectors is None:
            return self.texts
        columns = {"text": self.texts} if self.columns is None else self.columns
        return columns if self.vectors is None else {**columns, VECTORS: self.vectors}

    @property
    def reading_line(self) -> str:
        """Decisions of the reader, in a line."""
        return reading_line(self.reading)

    def subset(self, indices: Iterable[int]) -> Corpus:
        """The documents at `indices`, in that order."""
        rows = [int(i) for i in indices]
        values = {name: vars(self)[name] for name in ("ids", "rows", "columns", *_LISTS)}
        if not len(self.texts):  # of vectors
            del values["texts"]
        parts: Json = {name: take(column, rows) for name, column in values.items() if column is not None}
        return replace(self, **parts)

    def select(self, part: str | None = None) -> Corpus:
        """The documents of a part, or all for None; InputError if the part has no document."""
        if part is None:
            return self
        rows = [i for i, name in enumerate(self.part) if name == part]
        if not rows:
            there = ", ".join(sorted({name for name in self.part if name}))
            there = f"there is: {there}" if there else "it is not in parts"
            raise InputError(f"{self.source} has no part {part!r}; {there}")
        return self.subset(rows)

    @property
    def text_columns(self) -> list[Sequence[str]]:
        """The columns of texts, or the texts alone."""
        columns = [self.texts] if self.columns is None else self.columns.values()
        return [column for column in columns if isinstance(column, Sequence) and len(column)]

    @property
    def of_single_texts(self) -> bool:
        """Whether a document is a text, without columns or vectors beside it."""
        return self.columns is None and self.vectors is None and len(self.texts) > 0

    def cut(self, pieces: Pieces) -> Corpus:
        """The pieces of the texts; those of a text are a group, unless the texts are in groups."""
        if not self.of_single_texts:
            raise InputError(
                f"{self.source} is no single column of texts; only texts are cut, or have shared lines"
            )
        texts, numbers = pieces.cut_all(self.texts)
        if pieces.length is None:
            return replace(self, texts=texts, pieces=pieces)
        whole, place = self.subset(numbers), np.arange(len(texts)) - np.searchsorted(numbers, numbers)
        ids = [f"{name}, piece {k}" for name, k in zip(whole.ids, (place + 1).tolist(), strict=True)]
        groups, of = whole.groups or whole.ids, numbers.tolist()
        rows = self.rows and [self.rows[i] for i in of]
        invalid = [(int(np.searchsorted(numbers, i)), document) for i, document in self.invalid]
        whole = replace(whole, ids=ids, texts=texts, groups=groups, rows=rows, invalid=invalid)
        return replace(whole, piece_of=of, pieces=pieces)

    @property
    def first_pieces(self) -> Corpus:
        """The first piece of each text; whole texts themselves."""
        return self.subset(np.unique(self.piece_of, return_index=True)[1]) if self.piece_of else self

    def opposite(self, positive: str) -> str:
        """Name of the negative class: the other label of two, else "rest"."""
        labels = set(self.labels or ())
        others = [label for label in labels if label != positive]
        return others[0] if len(labels) == 2 and isinstance(others[0], str) else "rest"

    def reduce_labels(self, positive: str, negative: str = "rest") -> Corpus:
        """Reduce many classes to two; InputError if one is empty or does not occur, or both are the same.

        With another label as `negative`, documents with either label, but not both, stay. With "rest" all
        documents with a label stay, and those without `positive` get the label "rest".
        """
        if self.labels is None:
            raise InputError(f"{self.source} has no labels; {positive!r} and {negative!r} need labels")
        counts = Counter(label for labels in self._label_sets() for label in labels)
        for label in (positive, *([negative] if negative != "rest" else [])):
            if label not in counts:
                there = [name for name, _ in counts.most_common()]
                close = get_close_matches(label, there[:1000], 5, 0.5)  # it is slow
                shown = first_few(list(dict.fromkeys(close + there)), 10)
                raise InputError(f"{self.source} has no label {label!r}; there is: {shown}")
        if positive == negative:
            raise InputError(f"the positive and the negative label are both {positive!r}")
        reduced = self.with_two_labels(positive, negative)
        if len(set(reduced.labels or ())) < 2:
            raise InputError(f"{self.source}: no document is {positive!r} or {negative!r} and not the other")
        return reduced

    def with_two_labels(self, positive: str, negative: str) -> Corpus:
        """`reduce_labels` without its checks: a class may be empty."""
        sets = self._label_sets()
        if negative == "rest":
            answered = (positive in (*x, *x.no) if isinstance(x, Answers) else x for x in self.labels or ())
            rows = [i for i, answer in enumerate(answered) if answer]
        else:
            rows = [i for i, labels in enumerate(sets) if (positive in labels) != (negative in labels)]
        labels = [positive if positive in sets[i] else negative for i in rows]
        return replace(self.subset(rows), labels=labels)

    def _label_sets(self) -> list[frozenset[str]]:
        return [frozenset((label,) if isinstance(label, str) else label) for label in self.labels or ()]

    def with_vectors(self, vectors: Array, source: str) -> Corpus:
        """The corpus with vectors beside the texts, a row for each document, read from `source`."""
        if vectors.shape[0] != len(self):
            counts = f"{source} has {vectors.shape[0]:,} vectors and {self.source} {len(self):,} documents"
            raise InputError(f"{counts}; each document needs a vector, in the same order")
        if VECTORS in (self.columns or {}):
            raise InputError(
                f"a column of {self.source} is called {VECTORS!r} like the vectors beside it; rename it"
            )
        return replace(self, vectors=vectors)

    def with_labels(self, labels: list[str], source: str) -> Corpus:
        """The corpus with other labels, read from `source`."""
        if len(labels) != len(self):
            raise InputError(f"{source} has {len(labels):,} labels, and {self.source} {len(self):,} rows")
        return replace(self, labels=labels)

    def duplicates(self) -> list[tuple[str, ...]]:
        """Groups of ids of documents with equal texts, each in the order of the corpus."""
        return [tuple(self.ids[i] for i in group) for group in self._equal_texts()]

    def conflicting_duplicates(self) -> list[tuple[str, ...]]:
        """Groups of duplicates with different labels (or numbers)."""
        truth: Sequence[Label | float] = self.targets or self.labels or [""] * len(self)
        groups = (group for group in self._equal_texts() if len({truth[i] for i in group}) > 1)
        return [tuple(self.ids[i] for i in group) for group in groups]

    def _equal_texts(self) -> list[list[int]]:
        groups = defaultdict[object, list[int]](list)
        in_memory = self.columns is None and self.vectors is None and not isinstance(self.texts, StoredTexts)
        for i, text in enumerate(self.texts if in_memory else self.digests()):
            groups[text].append(i)
        return [group for group in groups.values() if len(group) > 1]

    def digests(self) -> Iterable[bytes]:
        """Digest of each document without its label; equal for equal documents."""
        columns = self.columns or {}
        parts = [self.texts] if self.columns is None and len(self.texts) else list(columns.values())
        parts += [] if self.vectors is None else [self.vectors]
        return map(_digest, *map(_encoded_values, parts))


#: Noun for the documents of a format, and their unit; the documents of tables are rows.
_NOUNS = {
    **dict.fromkeys(("folders", "file"), ("text", ", one per file")),
    **dict.fromkeys(("lines", "plain"), ("text", ", one per line")),
    "paragraphs": ("text", ", one per paragraph"),
    "mail": ("message", ""), "reuters": ("document", ""),
    "fasta": ("sequence", ""), **dict.fromkeys(("libsvm", "npy", "npz"), ("vector", "")),
}  # fmt: skip


def reading_line(reading: Json) -> str:
    """Decisions of a reader (`Corpus.reading`) in a line."""
    noun, unit = _NOUNS.get(reading["format"], ("row", ""))
    n, rows = reading["documents"], reading.get("rows")
    count = f"{noun}s" if n is None else plural(n, noun)
    if rows not in (None, n) and n is not None:
        count = f"{n:,} of {plural(rows, noun)}"
    classes: list[str] = reading.get("classes", [])
    facts = [] if reading["format"] in ("csv", "tsv", *_NOUNS) else [reading["format"]]
    for name, value in reading.items():
        fact = " or ".join(map(_decision, value if isinstance(value, list) else [value]))
        if name == "label" and classes:
            fact += f" ({len(classes):,})"
        if name not in ("source", "format", "documents", "rows", "classes", "columns", "grouping"):
            facts.append(fact if name == "encoding" else f"{name.replace('_', ' ')} {fact}")
    if classes and "label" not in reading:
        facts.append(f"{plural(len(classes), 'class')} ({first_few(classes)})")
    return f"read {reading['source']}: {count}{unit}; {', '.join(facts)}".removesuffix("; ")


def _decision(value: tuple[str, ...] | str | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " + ".join(value) if isinstance(value, tuple) else str(value).replace("\t", "TAB")


def is_of_name(label: object) -> bool:
    """Whether a `label` is a regular expression for the names of files."""
    return isinstance(label, str) and label.startswith(OF_NAME)


def take(values: Any, indices: Sequence[int]) -> Any:
    """The values at `indices`, in that order: of a list, texts, vectors, or each column of a dict."""
    if isinstance(values, dict):
        return {name: take(column, indices) for name, column in values.items()}
    if isinstance(values, StoredTexts):
        return values.take(indices)
    return [values[i] for i in indices] if isinstance(values, Sequence) else values[indices]


def grouping(rows: Sequence[LabelledCells], names: Sequence[str]) -> str | None:
    """The column, of cells of labelled rows, whose values occur again and have one label each, as books."""
    rows, sizes = [row for row in rows if isinstance(row[0], str)], dict[str, int]()
    n_labels = len({label for label, _ in rows})
    for k, name in enumerate(names):
        pairs = Counter((cells[k], label) for label, cells in rows)
        again = [label for (_, label), count in pairs.items() if count > 1]
        alone = len({value for value, _ in pairs if value}) == len(pairs)
        if alone and len(again) >= 5 and n_labels < len(pairs) < len(rows) / 2 and len(set(again)) > 1:
            sizes[name] = len(pairs)
    return min(sizes, key=sizes.__getitem__, default=None)


def _encoded_values(values: Sequence[str] | Array) -> Iterator[bytes]:
    if isinstance(values, Sequence):
        yield from (text.encode("utf-8", "surrogatepass") for text in values)
    elif isinstance(values, np.ndarray):
        yield from (row.tobytes() for row in values)
    else:
        for start, end in pairwise(values.indptr.tolist()):
            yield values.indices[start:end].tobytes() + values.data[start:end].tobytes()


def _digest(*parts: bytes) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") if len(parts) > 1 else b"")
        digest.update(part)
    return digest.digest()


def build_corpus(
    documents: Iterable[Document], source: str, format: str, problems: Problems, *, labelled: bool = True,
    stored: bool = False,
) -> Corpus:  # fmt: skip
    """Build a corpus from documents: unique ids, labels of a single type.

    If some documents have labels, documents without a label are left out and reported; unless `labelled`,
    labels are ignored. Targets replace the labels. With `stored`, texts are written to a temporary file.
    """
    rows: list[Document] = []
    split = _split_texts(documents, rows, source, stored)
    texts: Sequence[str] = StoredTexts.of(split) if stored else list(split)
    if (columns := _build_columns(texts, rows)) is not None:
        apart = [column for column in columns.values() if isinstance(column, Sequence)]
        joined = ("\n".join(row) for row in zip(*apart, strict=True))
        texts = apart[0] if len(apart) == 1 else StoredTexts.of(joined) if stored and apart else list(joined)
    problems = [(printable_id(identifier), problem) for identifier, problem in problems]
    noun, values = "", list[object]([""] * len(rows))  # that every document needs
    if any(row.target is not None for row in rows):
        noun, values = "number to be predicted", [row.target for row in rows]
    elif labelled and any(row.label is not None for row in rows):
        labels = (row.label for row in rows)
        noun = "label"
        values = [None if isinstance(x, Answers) and not {*x, *x.no} else x for x in labels]
    missing = [row.id for row, value in zip(rows, values, strict=True) if value is None]
    indices = [i for i, value in enumerate(values) if value is not None]
    # Scattered labels seldom begin with the first row, differ in turn, and are neighbours only in blocks.
    of_blocks = all((values[i] != values[k]) == (k - i > 1) for i, k in pairwise(indices))
    if of_blocks and len(indices) > 1 and indices[0] == 0 and 2 * len(indices) < len(rows):
        raise InputError(
            f"{len(missing):,} of {len(rows):,} rows of {source} have no {noun}, which seems to stand in the "
            "first row of each block alone; fill it in below, or delete the rows without it"
        )
    warnings = note_left_out(problems, source, len(rows), missing, f"it has no {noun}")
    if len(indices) < len(rows):
        rows, texts = [rows[i] for i in indices], take(texts, indices) if len(texts) else texts
        columns = take(columns, indices) if columns else columns
    return Corpus(
        ids=_unique([row.id for row in rows], problems),
        texts=texts,
        labels=_uniform_labels(rows, source, problems) if noun == "label" else None,
        part=[row.part for row in rows],
        source=source,
        format=format,
        problems=problems,
        warnings=warnings,
        targets=[row.target for row in rows if row.target is not None] or None,
        weights=[row.weight for row in rows if row.weight is not None] or None,
        groups=[row.group for row in rows if row.group is not None] or None,
        columns=columns,
        rows=[row.row for row in rows] if any(row.row for row in rows) else None,
    )


def note_left_out(problems: Problems, source: str, total: int, rows: Sequence[str], reason: str) -> list[str]:
    """Note that rows of `total` are left out; the sentence is a warning if they are more than a tenth."""
    which = first_few([row.removeprefix(f"{source}, ") for row in rows])
    sentence = f"left out: {len(rows):,} of {total:,} rows: {reason} ({which})"
    if 10 * len(rows) > total > len(rows) > 1:
        return [f"{source}: {sentence}"]
    problems += [(source, sentence)] if len(rows) > 1 else [(rows[0], f"left out: {reason}")] if rows else []
    return []


def _uniform_labels(
    rows: Sequence[Document], source: str, problems: Problems
) -> list[str] | list[tuple[str, ...]]:
    """The labels in their composed spelling, all as texts or all as tuples."""
    labels = [row.label for row in rows if row.label is not None]
    sets = [(label,) if isinstance(label, str) else label for label in labels]
    spelling = _spelling(set(chain.from_iterable(sets)), source, problems)
    single = [spelling[label] for label in labels if isinstance(label, str)]
    return single if len(single) == len(rows) else [renamed(names, spelling) for names in sets]


def renamed(labels: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...]:
    """The labels of a document by other names."""
    renamed = tuple(names[label] for label in labels)
    return Answers(renamed, [names.get(x, x) for x in labels.no]) if isinstance(labels, Answers) else renamed


def _spelling(labels: set[str], source: str, problems: Problems) -> dict[str, str]:
    """Each label without white space around it; those that look the same become NFC."""
    check_labels(labels)
    bare = {label: label.strip() or label for label in labels}
    if padded := sorted(label for label in labels if bare[label] != label):
        more = f" and {len(padded) - 1:,} more" if len(padded) > 1 else ""
        problems.append((source, f"label {padded[0]!r}{more}: white space around a label is left out"))
    forms = {label: INVISIBLE.sub("", normalize("NFC", label)).strip() for label in set(bare.values())}
    counts = Counter(forms.values())
    several = {form for form in counts if counts[form] > 1 and form.strip()}
    same = "is written in several ways that look the same"
    problems += [(source, f"the label {form!r} {same}") for form in sorted(several)]
    return {label: forms[own] if forms[own] in several else own for label, own in bare.items()}


def split_label(label: Label | None, separator: str) -> tuple[str, ...]:
    """The labels in a cell, none in an empty cell; they are all of it for the separator ""."""
    if isinstance(label, Answers):
        return label
    label = label or ""
    pieces = (label.split(separator) if separator else [label]) if isinstance(label, str) else label
    return tuple(dict.fromkeys(piece.strip() for piece in pieces if piece.strip()))


def is_number(text: str) -> bool:
    """Whether a cell or a label is a finite number."""
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def number_in(cell: str) -> float | None:
    """The finite number in a cell, with a decimal point or comma; None if it holds none."""
    texts = (_with_point(cell, decimal) for decimal in ".,")
    return next((float(text) for text in texts if is_number(text)), None)


def is_value(cell: str) -> bool:
    """Whether a cell is a number, with a decimal point or comma, or a date."""
    return DATE.match(cell) is not None or number_in(cell) is not None


def parse_number(value: Any, name: str, needed: bool, decimal: str = ".") -> float | None:
    """A finite number with a decimal mark; None for an empty cell unless a number is `needed`."""
    if not needed and (value is None or (isinstance(value, str) and not value.strip())):
        return None
    plain = value
    if isinstance(value, str) and not isinstance(value, NumberCell):
        plain = _with_point(value, decimal)
    try:
        number = float("nan" if isinstance(value, bool) or value is None else plain)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        marked = re.search("[.,]", str(value)) is not None
        mark = f"; its decimal mark is read as {decimal} (--table decimal=comma)" * marked
        mark = "; a date is no number: add a column of its year or days" if DATE.match(str(value)) else mark
        raise InputError(f"{name} is {value!r}, which is not a finite number{mark}")
    return number


def _with_point(text: str, decimal: str) -> str:
    """A number with a decimal point and without groups of digits; "nan" for other texts."""
    text, group = _SPACES.sub("", text), "," if decimal == "." else "."
    if re.fullmatch(rf"[-+]?\d{{1,3}}(?:\{group}\d{{3}})+(?:\{decimal}\d*)?", text):
        text = text.replace(group, "")
    return "nan" if group in text else text.replace(decimal, ".")


def parse_weight(value: Any, place: str, decimal: str = ".") -> float | None:
    """The weight of a document; raise InputError if it is no number, or negative."""
    weight = parse_number(value, f"{place}: the weight", True, decimal)
    if weight is not None and weight < 0:
        raise InputError(f"{place}: the weight is {weight:g}, and none may be below 0")
    return weight


class InvalidRows:
    """Rows of a file that are no documents: refused at its end, or left out with a note."""

    def __init__(self, file: str, unit: str, options: ReadOptions, problems: Problems) -> None:
        self._file, self._unit, self._options, self._problems = file, unit, options, problems
        self._refused, self._left_out = dict[str, list[int]](), dict[str, list[str]]()

    def add(self, line: int, problem: str, *, ragged: bool = False, blank: bool = False) -> None:
        """Add a row; `ragged` has a wrong number of fields, and `blank` neither a text nor a label."""
        refused = not self._options.skip_invalid and (ragged or (self._options.require_text and not blank))
        if refused or problem == SWAPPED:
            self._refused.setdefault(NEEDS_QUOTES if ragged else problem, []).append(line)
        if not refused and not self._options.reports_invalid:
            self._left_out.setdefault(problem, []).append(f"{self._file}, {self._unit} {line}")

    def check(self, total: int) -> None:
        """Raise InputError for the refused rows of a file of `total` rows; note the others."""
        for reason, lines in sorted(self._refused.items(), key=lambda pair: pair[0] != NEEDS_QUOTES):
            ragged, plural, many = reason == NEEDS_QUOTES, len(lines) > 1, 10 * len(lines) > total >= FEW
            if (self._options.reports_invalid or reason == SWAPPED) and not many:
                continue
            lack = "no number" if reason.startswith("its number") else "no text"
            remedy = "; correct them, or leave them out with --skip-invalid"
            if ragged and 10 * len(lines) > total:
                remedy = f"; {EXPORT_AGAIN}, or name the separator: --table separator=tab"
            elif reason == SWAPPED:
                remedy = f"; --text {self._options.label_column}"
                remedy = remedy if len(lines) == total else "; swap both cells in these rows"
            raise InputError(
                f"{len(lines):,} of the {total:,} rows of {self._file} {'have' if plural else 'has'} "
                f"{_LACK.get(reason, lack)} ({self._unit}{'s' * plural} "
                f"{first_few(lines)}): {reason}{remedy}"
            )
        for reason, places in self._left_out.items():
            if reason in NO_DOCUMENTS[:-1]:
                self._options.warn(f"{reason} is left out: {first_few(places)}")
            else:
                self._options.warn(*note_left_out(self._problems, self._file, total, places, reason))


def concatenate_corpora(corpora: Sequence[Corpus], source: str, format: str) -> Corpus:
    """The documents of several corpora; labels only if all have labels."""
    problems = [problem for corpus in corpora for problem in corpus.problems]
    if len({(tuple(part.columns or ()), part.vectors is None, not len(part.texts)) for part in corpora}) > 1:
        raise InputError(f"{source}: all files must have the same texts, columns and vectors")

    def joined(name: str) -> Any:
        lists = [vars(corpus)[name] for corpus in corpora]
        return None if any(values is None for values in lists) else _concatenate(lists)

    return replace(
        corpora[0],
        **{name: joined(name) for name in ("columns", *_LISTS)},
        ids=_unique([printable_id(identifier) for corpus in corpora for identifier in corpus.ids], problems),
        source=source, format=format, problems=problems,
    )  # fmt: skip


def _concatenate(parts: Sequence[Array]) -> Array:
    """Concatenate lists, arrays, sparse matrices (as wide as the widest), or each column of dicts."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], dict):
        return {name: _concatenate([part[name] for part in parts]) for name in parts[0]}
    if isinstance(parts[0], Sequence):
        return [value for part in parts for value in part]
    if isinstance(parts[0], np.ndarray):
        if len({part.shape[1:] for part in parts}) > 1:
            raise InputError("vectors of several files have different numbers of columns")
        return np.concatenate(parts)
    width = max(part.shape[1] for part in parts)
    for part in parts:
        part.resize(part.shape[0], width)
    return scipy.sparse.vstack(parts, "csr")


def _split_texts(
    documents: Iterable[Document], rows: list[Document], source: str, drop: bool
) -> Iterator[str]:
    """The texts of documents, column after column; `rows` gets the documents, without texts if `drop`."""
    for document in documents:
        columns = document.columns
        if columns is None:
            yield document.text
            if not drop and document.id.isascii():  # most documents; a copy takes longer than its reading
                rows.append(document)
                continue
        else:
            yield from (value for value in columns.values() if isinstance(value, str))
            columns = {name: "" if isinstance(value, str) else value for name, value in columns.items()}
            if rows and columns.keys() != (rows[0].columns or {}).keys():
                raise InputError(f"{source}: all files must have columns of the same names")
        rows.append(document._replace(id=printable_id(document.id), text="", columns=columns))


def _build_columns(texts: Sequence[str], rows: Sequence[Document]) -> Json | None:
    """The columns of documents from their texts, which alternate, and the numbers in `rows`."""
    if not rows or rows[0].columns is None:
        return None
    names = [name for name, value in rows[0].columns.items() if isinstance(value, str)]
    columns: Json = {name: texts[k :: len(names)] for k, name in enumerate(names)}
    for name in rows[0].columns:
        if name not in columns:
            columns[name] = np.array([(document.columns or {})[name] for document in rows], np.float64)
    return columns


def printable_id(identifier: str) -> str:
    """The id without lone surrogates, which a file name that is not UTF-8 contains: ids go into output."""
    return identifier if identifier.isascii() else identifier.encode("utf-8", "replace").decode()


def _unique(ids: list[str], problems: Problems) -> list[str]:
    names = set(ids)
    if len(names) == len(ids):
        return ids
    counts: Counter[str] = Counter()
    result = []
    for identifier in ids:
        counts[identifier] += 1
        if counts[identifier] == 1:
            result.append(identifier)
            continue
        while (numbered := f"{identifier}#{counts[identifier]}") in names:
            counts[identifier] += 1
        names.add(numbered)
        result.append(numbered)
        problems.append((identifier, f"another document has this id; it is called {numbered}"))
    return result
