"""Read, check and describe the corpora of commands; a corpus holds texts, vectors, or columns of both."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from unicodedata import normalize

import numpy as np

from textsvm.arrays import AnyArray, Array, Json
from textsvm.cli.console import Console
from textsvm.cli.options import LEWIS, Duplicates, LearningOptions, ReadingOptions, TableOptions
from textsvm.errors import InputError, printable
from textsvm.kernels.base import Kernel
from textsvm.kernels.resolve import unchecked_kernel
from textsvm.kernels.user import KernelFunction
from textsvm.readers.charsets import INVISIBLE, is_blank
from textsvm.readers.corpus import VECTORS, Corpus, is_number
from textsvm.readers.read import read_corpus, read_documents
from textsvm.readers.stream import ONE_DOCUMENT, is_large, stream_corpus
from textsvm.readers.vectors import read_labels, read_vectors
from textsvm.runtime.compiled import scipy
from textsvm.text.documents import encode
from textsvm.text.encoding import Reading
from textsvm.text.normal_form import normal_form

#: Kernel of an estimator: an object, a Python function, or the name of a way to choose it.
KernelOrName: TypeAlias = Kernel | KernelFunction | str | None
#: Labels that may mean that there is no label.
_NAMES_OF_MISSING = ("nan", "na", "n/a", "null", "none", "<na>")
#: Codes of bases that may be one of several.
_AMBIGUOUS = re.compile("[^acgtu]", re.IGNORECASE)
#: A document is much longer than the others if it has more symbols than this, and than this many medians.
GIANT, GIANT_RATIO = 1_000_000, 1_000
#: Decisions on the page of `textsvm doubts`: the label is right; it is wrong; leave out the document.
KEEP, CHANGE, UNSURE = "keep", "change", "unsure"


def read(
    console: Console,
    path: Path | list[Path],
    reading: ReadingOptions,
    learning: LearningOptions | None = None,
    *,
    groups: str | None = None,
    kernel: KernelOrName = None,
    recorded: Mapping[str, str] | None = None,
) -> Corpus:
    """Read a corpus, select a part, reduce its labels to two if requested, and report problems.

    `kernel` is the named kernel of the model; a kernel on columns tells which columns are needed. `recorded`
    are the columns that the model was trained on, which are read unless others are named. Rows without a text
    are an error when learning, unless --vectors or --skip-invalid is given.
    """
    learning = learning or LearningOptions()
    learning.check(reading)
    with console.progress():
        settings: dict[str, Any] = {
            **columns(reading, kernel), "label": reading.label,
            "target": learning.regress, "weight": learning.weights, "group": groups,
            "headers": reading.headers, "level": reading.level,
            "label_separator": learning.separator, "annotators": reading.annotators,
            "recorded": recorded or {},
            "require_text": learning.require_text and reading.vectors is None,
            "progress": console.progress_of("read"),
        }  # fmt: skip
        format = reading.format
        if format == LEWIS:
            format, settings["split"] = "reuters", "lewis"
        if is_large(path):
            corpus = stream_corpus(path, format, **settings).stored()
        else:
            corpus = read_corpus(path, format, **settings)
        numbers = learning.regress is not None
        corpus = _with_files(corpus, reading.vectors, reading.labels, numbers).select(reading.part)
    if learning.regress is not None or reading.labels is not None:
        corpus.detected.pop("label", None)
    console.say(corpus.reading_line)
    if reading.positive is not None:
        corpus = corpus.reduce_labels(reading.positive, reading.negative or corpus.opposite(reading.positive))
    if learning.multilabel:
        corpus = _with_label_tuples(console, corpus)
    elif all(isinstance(label, tuple) and len(label) == 1 for label in corpus.labels or ["several"]):
        corpus = replace(corpus, labels=[label[0] for label in corpus.labels or ()])
    if learning.corrections is not None:
        corpus, counts = corrected(corpus, learning.corrections)
        console.say(
            f"note: {learning.corrections}: labels changed {counts[CHANGE]:,}, kept {counts[KEEP]:,}; "
            f"documents left out {counts[UNSURE]:,}"
        )
    check_letters(console, kernel, corpus)
    say_problems(console, corpus)
    warn_of_labels(console, label_counts(corpus))
    return corpus.without_duplicates() if learning.duplicates is Duplicates.drop else corpus


def read_unlabelled(
    console: Console, paths: str | list[str], table: TableOptions, kernel: KernelOrName, **settings: Any
) -> Corpus:
    """Read documents without labels."""
    with console.progress():
        names, progress = columns(table, kernel), console.progress_of("read")
        corpus = read_documents(paths, table.format, **names, progress=progress, **settings)
    console.say(corpus.reading_line)
    lines = corpus.texts[0].strip().count("\n") + 1 if corpus.format == "file" and len(corpus) == 1 else 1
    if lines > 1 and table.format != "file":
        console.warn(f"{corpus.source} is read as one document of {lines:,} lines; {ONE_DOCUMENT}")
    say_missing_texts(console, names_of_missing(corpus))
    filled = [i for i, text in enumerate(corpus.texts) if not is_blank(text)]
    if table.vectors is None and corpus.columns is None and len(filled) < len(corpus.texts):
        if not filled:
            raise InputError(f"{corpus.source} has no text: it is empty, or white space alone")
        console.warn(f"{len(corpus) - len(filled):,} of {len(corpus):,} documents are empty and left out")
        corpus = corpus.subset(filled)
    return _with_files(corpus, table.vectors)


def corrected(corpus: Corpus, path: Path) -> tuple[Corpus, Counter[str]]:
    """Apply the decisions of a JSON Lines file to a corpus with a label for each document.

    Each line has the keys "id", "decision" ("keep", "change" or "unsure"), "label" to change a label, and
    optionally "was", the label of the document, which is then checked. Returns the corpus with the new labels
    and without unsure documents, and the number of documents of each decision. An InputError names the line.
    """
    if corpus.labels is None:
        raise InputError(f"--corrections changes labels, and {corpus.source} has none")
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(f"--corrections {path} cannot be read: {reason}") from error
    places = {identifier: i for i, identifier in enumerate(corpus.ids)}
    labels: list[Any] = list(corpus.labels)
    classes, decisions = set(labels), dict[int, tuple[int, str]]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"line {number} of {path}"
        identifier, decision, was, label = _parse_decision(line, where)
        if identifier not in places:
            raise InputError(
                f"{where}: {corpus.source} has no document {identifier!r}; give the files and options that "
                "textsvm doubts was given"
            )
        i = places[identifier]
        if i in decisions:
            raise InputError(f"{where}: line {decisions[i][0]} is for {identifier!r} too; remove a line")
        if was is not None and was != labels[i]:
            raise InputError(
                f"{where}: the decision is for {identifier!r} with the label {was!r}, which is "
                f"{labels[i]!r} in {corpus.source}; give the file that textsvm doubts was given"
            )
        if decision == CHANGE:
            if label not in classes:
                raise InputError(
                    f"{where}: {corpus.source} has no label {label!r}; its labels are "
                    f"{', '.join(sorted(map(str, classes)))}"
                )
            labels[i] = label
        decisions[i] = number, decision
    unsure = {i for i, (_, decision) in decisions.items() if decision == UNSURE}
    outcomes = defaultdict[str, list[str | None]](list)
    for i, key in enumerate(_correction_keys(corpus)):
        outcomes[key].append(None if i in unsure else str(labels[i]))
    changed = {key: copies for key, copies in outcomes.items() if set(copies) != {key.partition(" ")[2]}}
    counts = Counter(decision for _, decision in decisions.values())
    rest = (i for i in range(len(corpus)) if i not in unsure)
    return replace(corpus, labels=labels, corrections=changed).subset(rest), counts


def _correction_keys(corpus: Corpus) -> list[str]:
    """Digest of each document, a space, and its label."""
    names = map(str, corpus.labels or ())
    return [f"{key[:8].hex()} {name}" for key, name in zip(corpus.digests(), names, strict=True)]


def corrected_again(console: Console, corpus: Corpus, corrections: Mapping[str, list[str | None]]) -> Corpus:
    """Apply recorded corrections to the documents with the same text and label, and report their number."""
    if corpus.labels is None:
        raise InputError(f"the model records corrections of labels, and {corpus.source} has no labels")
    labels, rest, counts = list[Any](corpus.labels), list[int](), Counter[str]()
    outcomes = {key: iter(copies) for key, copies in corrections.items()}
    for i, key in enumerate(_correction_keys(corpus)):
        label = next(outcomes.get(key, iter(())), str(labels[i]))
        rest += [] if label is None else [i]
        if label != str(labels[i]):
            counts[UNSURE if label is None else CHANGE] += 1
            labels[i] = label
    missing = sum(label != key.partition(" ")[2] for key, copies in outcomes.items() for label in copies)
    console.say(
        f"note: {corpus.source}: corrections of the training: labels changed {counts[CHANGE]:,}, documents "
        f"left out {counts[UNSURE]:,}" + f", not in the corpus {missing:,}" * (missing > 0)
    )
    return replace(corpus, labels=labels).subset(rest)


def _parse_decision(line: str, where: str) -> tuple[str, str, str | None, str]:
    """Id, decision, previous and new label of a line; InputError if it is no decision."""
    try:
        entry = json.loads(line)
        if entry["decision"] not in (KEEP, CHANGE, UNSURE):
            raise InputError(
                f"{where}: the decision must be {KEEP}, {CHANGE} or {UNSURE}, got {entry['decision']!r}"
            )
        was = None if entry.get("was") is None else str(entry["was"])
        return str(entry["id"]), entry["decision"], was, str(entry.get("label"))
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f'{where} is no decision; a line is {{"id": ID, "decision": "{KEEP}", "{CHANGE}" or "{UNSURE}", '
            '"label": LABEL}'
        ) from error


def _with_label_tuples(console: Console, corpus: Corpus) -> Corpus:
    """Give every document a tuple of labels; leave out Reuters stories without a topic."""
    if corpus.labels is None:
        return corpus
    labels = [(label,) if isinstance(label, str) else label for label in corpus.labels]
    corpus = replace(corpus, labels=labels)
    labelled = [i for i, names in enumerate(labels) if names]
    unlabelled = len(corpus) - len(labelled)
    if corpus.format == "reuters" and unlabelled:
        console.say(f"note: {unlabelled:,} stories without a topic are left out")
        return corpus.subset(labelled)
    if unlabelled:
        console.say(f"note: {unlabelled:,} of {len(corpus):,} documents have no label")
    return corpus


def targets(corpus: Corpus, several: bool = False) -> list[Any]:
    """Numbers or labels of the documents; with `several`, tuples of labels."""
    if corpus.targets is not None:
        return corpus.targets
    if corpus.labels is None:
        if corpus.of_sequences:
            raise InputError(
                f"{corpus.source} has no labels: the header of record 1, {corpus.ids[0]}, names none; write "
                ">id label=NAME, give each class a file, or name a part of the headers with --label"
            )
        remedy = "name a column with --label, or use a folder per class"
        if not (len(corpus.texts) or corpus.columns):
            remedy = "give them in a separate file, --labels FILE"
        if names := corpus.reading.get("columns"):
            remedy += f"; its columns are: {', '.join(names)}"
        raise InputError(f"{corpus.source} has no labels; {remedy}")
    if several:
        return list(corpus.labels)
    labels = [label for label in corpus.labels if isinstance(label, str)]
    if len(labels) < len(corpus):
        raise InputError(
            f"documents of {corpus.source} may have several labels; learn all of them with --multilabel "
            "(train, cv, tune), or separate one label from the others with --positive"
        )
    return labels


def of_one_class(corpus: Corpus, label: str) -> Corpus:
    """Corpus with the labels `label` and rest; without labels all documents get `label`."""
    if corpus.labels is None or all(names in (label, (label,)) for names in corpus.labels):
        return replace(corpus, labels=[label] * len(corpus))
    return corpus.reduce_labels(label)


def truth(corpus: Corpus) -> list[Any]:
    """Targets that `targets` has checked."""
    return list(corpus.targets if corpus.targets is not None else corpus.labels or [])


def label_counts(corpus: Corpus) -> Counter[str]:
    """Number of documents of each label; documents without labels are not counted."""
    labels = corpus.labels or []
    return Counter(label for names in labels for label in (names if isinstance(names, tuple) else (names,)))


def columns(table: TableOptions, kernel: KernelOrName = None) -> dict[str, Any]:
    """Arguments of the readers: the columns of the options, else the kernel's; other options of tables."""
    names = ("id", "skip_invalid", "header", "sheet", "encoding")
    others = {name: vars(table)[name] for name in names}
    on_columns = kernel is not None and unchecked_kernel(kernel).reads_tables
    if isinstance(kernel, Kernel) and table.text is None and table.numbers is None and on_columns:
        return _columns_of(kernel, table.vectors is not None) | others
    text: list[str] | str | None = table.texts
    if text and (table.join or not (len(text) > 1 or table.vectors or on_columns)):
        text = text[0]
    return {"text": text, "numbers": table.numbers, **others}


def _columns_of(kernel: Kernel, with_vectors: bool) -> dict[str, Any]:
    """Columns that a kernel is on, without the vectors of --vectors and the unnamed text column."""
    names = [view.column for view in kernel.resolved().views]
    texts = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    numbers = list(dict.fromkeys(part for name in names if isinstance(name, tuple) for part in name))
    if with_vectors:
        numbers = [name for name in numbers if name != VECTORS]
    elif VECTORS in numbers:
        raise InputError("the kernel compares vectors beside the texts; name their file with --vectors")
    if with_vectors and texts == ["text"] and not numbers:
        return {"text": None, "numbers": None}
    return {"text": texts, "numbers": numbers or None}


def _with_files(
    corpus: Corpus, vectors: Path | None, labels: Path | None = None, numbers: bool = False
) -> Corpus:
    """Add the vectors and labels of separate files; with `numbers` the labels are regression targets."""
    if vectors is not None:
        corpus = corpus.with_vectors(read_vectors(vectors), str(vectors))
    if labels is None:
        return corpus
    corpus = corpus.with_labels(read_labels(labels), str(labels))
    if not numbers:
        return corpus
    try:
        return replace(corpus, labels=None, targets=[float(str(label)) for label in corpus.labels or ()])
    except ValueError as error:
        raise InputError(f"{labels} must hold the numbers to be predicted: {error}") from error


def names_of(paths: list[Path]) -> str:
    """File names of a corpus, for a title."""
    return ", ".join(path.name for path in paths)


def check_letters(console: Console, kernel: KernelOrName, corpus: Corpus) -> None:
    """Raise InputError if a FASTA or FASTQ record has a letter that no base has; count ambiguous bases."""
    if not corpus.of_sequences:
        return
    leaves = kernel.leaves if isinstance(kernel, Kernel) else ()
    for letters in {leaf.letters for leaf in leaves} - {""}:
        foreign = re.compile(f"[^{letters}]", re.IGNORECASE)
        unclear = 0
        for identifier, text in zip(corpus.ids, corpus.texts, strict=True):
            if match := foreign.search(text):
                raise InputError(
                    f"record {identifier} of {corpus.source} has the letter {match[0]!r}, and a canonical "
                    "kernel reads DNA and RNA (a, c, g, t, u, and n and the other codes of ambiguous bases); "
                    "write n for others, or leave canonical out"
                )
            unclear += bool(_AMBIGUOUS.search(text))
        if unclear:
            console.say(
                f"note: {unclear:,} of {len(corpus):,} sequences have ambiguous bases (n, r, y, ...); "
                "windows that contain them are left out"
            )


def summary(corpus: Corpus, counts: Counter[str]) -> str:
    """Number of documents, and their classes or range of numbers."""
    if corpus.targets is not None:
        low, high = min(corpus.targets), max(corpus.targets)
        return f"{len(corpus):,} documents with numbers from {low:g} to {high:g}"
    shown = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(10))
    more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
    return f"{len(corpus):,} documents of {len(counts)} class{'es' * (len(counts) > 1)}: {shown}{more}"


def check_classes(corpus: Corpus, column: str | None) -> None:
    """Raise InputError if the labels look like numbers, ids or texts: most of them occur once."""
    counts = label_counts(corpus)
    single = [label for label, count in counts.items() if count == 1]
    numbers = _numbers(counts) is not None
    if len(counts) > 2 and (
        2 * len(single) > len(corpus) or (numbers and len(single) > max(10, len(counts) / 2))
    ):
        named = "the label column" if column is None else f"the column {column!r}"
        remedy = "name the column of the classes with --label, and of the texts with --text"
        if numbers:
            comma = " (decimals with a point)" * any("," in label for label in counts)
            regress = f"predict numbers with --regress {column or 'COLUMN'}{comma}"
            remedy = f"{regress}, or name the classes with --label"
        raise InputError(
            f"{len(single):,} of the {len(counts):,} labels of {corpus.source} occur once (such as "
            f"{printable(single[0][:40])}), so {named} holds no classes; {remedy}"
        )


def say_problems(console: Console, corpus: Corpus) -> None:
    """Report problems of reading, and count empty documents and exact copies."""
    for identifier, problem in corpus.problems[:5]:
        console.say(f"note: {_place(corpus, identifier)}: {problem}")
    if (more := len(corpus.problems) - 5) > 0:
        console.say(f"note: {more:,} more notes of that kind; `textsvm corpus` shows them all")
    if len(corpus.texts) and corpus.columns is None:
        _say_lengths(console, corpus)
    say_missing_texts(console, names_of_missing(corpus))
    groups = corpus.duplicates()
    if groups:
        copies = sum(len(group) - 1 for group in groups)
        conflicts = len(corpus.conflicting_duplicates())
        labels = f"; sets of copies with different labels: {conflicts:,}" if conflicts else ""
        console.say(f"note: {copies:,} of {len(corpus):,} documents are exact copies of others{labels}")


def _place(corpus: Corpus, identifier: str) -> str:
    return f"{corpus.source}, document {identifier}" if identifier.isdecimal() else identifier


def _say_lengths(console: Console, corpus: Corpus) -> None:
    """Count empty documents, and warn of a document that is much longer than the others."""
    lengths = [0 if text.isspace() else len(text) for text in corpus.texts]
    if empty := lengths.count(0):
        console.say(f"note: {empty:,} of {len(corpus):,} documents are empty")
    longest, median = max(lengths), sorted(lengths)[len(lengths) // 2]
    if longest > max(GIANT, GIANT_RATIO * median):
        place = _place(corpus, corpus.ids[lengths.index(longest)])
        console.say(
            f"note: {place} has {longest:,} symbols, and the median is {median:,}; --max-length cuts long "
            "documents"
        )


def names_of_missing(corpus: Corpus) -> Counter[str]:
    """How many texts are each name of a missing value."""
    columns = [corpus.texts] if corpus.columns is None else list(corpus.columns.values())
    texts = (text for column in columns if not isinstance(column, np.ndarray) for text in column)
    short = (text.strip() for text in texts if len(text) < 16)
    return Counter(text for text in short if text.casefold() in _NAMES_OF_MISSING)


def say_missing_texts(console: Console, names: Counter[str]) -> None:
    """Report several texts that are names of a missing value."""
    if (n := names.total()) > 1:
        shown = " or ".join(map(repr, names))
        console.say(f"note: {n:,} texts are {shown}, read as words; an empty cell is a missing text")


def say_long_documents(console: Console, corpus: Corpus) -> None:
    """Warn of a very long document before training with a kernel of quadratic time."""
    if not len(corpus.texts):
        return
    longest = max(range(len(corpus)), key=lambda i: len(corpus.texts[i]))
    length = len(corpus.texts[longest])
    if length > 100_000:
        console.say(
            f"note: {corpus.ids[longest]} has {length:,} symbols, and the time of this kernel grows with the "
            "product of lengths; limit it with --max-length, or use a spectrum kernel"
        )


def warn_of_labels(console: Console, labels: Iterable[str]) -> None:
    """Print `doubtful_labels`."""
    for sentence in doubtful_labels(labels):
        console.warn(sentence)


def doubtful_labels(labels: Iterable[str]) -> list[str]:
    """Sentences on labels that may be one class, or that may mean that there is no label."""
    spellings: dict[str | float, str] = {}
    sentences = []
    for label in labels:
        key = " ".join(INVISIBLE.sub("", normalize("NFKC", label)).split()).casefold()
        other = spellings.setdefault(float(key) if is_number(key) else key, label)
        if other != label:
            how = "are the same number" if is_number(key) else "differ only in case or spaces"
            advice = "learnt as two classes; correct the labels if they are the same class"
            sentences.append(f"the labels {other!r} and {label!r} {how} and are {advice}")
            break
    if missing := [repr(name) for name in labels if name.casefold() in _NAMES_OF_MISSING]:
        sentences.append(f"{', '.join(missing)}: a class like others; a missing label is an empty cell")
    return sentences


def _numbers(labels: Iterable[str]) -> list[float] | None:
    """The labels as numbers, with a decimal point or comma; None if one is no number."""
    labels = [label.replace(",", ".") for label in labels]
    return list(map(float, labels)) if all(map(is_number, labels)) else None


def say_lone_classes(console: Console, counts: Mapping[str, int]) -> None:
    """Warn of classes of a single document, and of numbers with a fraction."""
    lone = [label for label, count in counts.items() if count == 1]
    if len(lone) > 1 and 2 * len(lone) >= len(counts):
        console.say(
            f"note: {len(lone):,} of the {len(counts):,} classes have a single document, from which nothing "
            "can be learnt; check the label column (--label), or predict numbers with --regress"
        )
    elif len(counts) > 2 and not all(number.is_integer() for number in _numbers(counts) or ()):
        comma = ", whose decimals have a point" * any("," in label for label in counts)
        console.say(
            "note: the classes are numbers with a fraction and are learnt as names without order; --regress "
            f"COLUMN predicts numbers{comma}"
        )
    elif lone:
        others = f" and {len(lone) - 1:,} more" * (len(lone) > 1)
        console.say(
            f"note: {lone[0]!r}{others}: a class of a single document, from which "
            "almost nothing can be learnt; add documents, or correct the label"
        )


# Statistics


def describe(corpus: Corpus) -> Json:
    """Statistics as JSON values; lengths and alphabet of the normalised texts."""
    return {
        "source": corpus.source,
        "format": corpus.format,
        "reading": corpus.reading,
        "n": len(corpus),
        "parts": dict(Counter(part or "none" for part in corpus.part)),
        "labels": dict(label_counts(corpus).most_common()),
        "numbers": _quantiles(corpus.targets) if corpus.targets is not None else None,
        "unlabelled": sum(1 for values in corpus.labels or [] if values == ()),
        **_of_texts(corpus.texts),
        "letters": _letters(corpus.texts) if corpus.of_sequences else None,
        "columns": corpus.columns
        and {
            name: {"numbers": _quantiles(values)} if isinstance(values, np.ndarray) else _of_texts(values)
            for name, values in corpus.columns.items()
        },
        "vectors": None if corpus.vectors is None else _of_vectors(corpus.vectors),
        "duplicates": [list(group) for group in corpus.duplicates()],
        "problems": [{"id": identifier, "problem": problem} for identifier, problem in corpus.problems],
    }


def _of_texts(texts: Sequence[str]) -> Json:
    """Lengths and alphabet; None without texts."""
    if not len(texts):
        return {"lengths": None, "empty": None, "alphabet": None}
    encoded = encode(texts, None, Reading(normal_form("unicode", True, False)))
    lengths = encoded.lengths
    quantiles = {name: round(value) for name, value in _quantiles(lengths).items()}
    return {
        "lengths": quantiles | {"mean": float(lengths.mean())},
        "empty": int((lengths == 0).sum()),
        "alphabet": len(encoded.alphabet),
    }


def _letters(texts: Sequence[str]) -> Json:
    """Shares of letters (case ignored), of lower case, and of G and C in DNA or RNA."""
    encoded = encode(texts)
    counts = np.bincount(encoded.codes, minlength=len(encoded.alphabet)) / max(1, len(encoded.codes))
    shares: Counter[str] = Counter()
    lower = 0.0
    for letter, share in zip(map(chr, encoded.alphabet), counts.tolist(), strict=True):
        shares[letter.lower()] += share
        lower += share * letter.islower()
    bases = sum(shares[letter] for letter in "acgtu")
    gc = (shares["g"] + shares["c"]) / bases if bases and set(shares) <= set("acgtun") else None
    return {
        "shares": {name: share for name, share in sorted(shares.items()) if share},
        "lower": lower,
        "gc": gc,
    }


def _of_vectors(vectors: Array) -> Json:
    n, d = vectors.shape
    sparse = scipy.sparse.issparse(vectors)
    stored = vectors.data if sparse else vectors
    return {
        "d": d,
        "sparse": sparse,
        "non_zeros": int(np.count_nonzero(stored)),
        "share": float(np.count_nonzero(stored) / (n * d)),
        "least": float(stored.min(initial=0)),
        "most": float(stored.max(initial=0)),
        "type": str(vectors.dtype),
    }


def _quantiles(values: AnyArray | list[float]) -> dict[str, float]:
    quantiles = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
    return dict(zip(("min", "q1", "median", "q3", "max"), quantiles, strict=True))
