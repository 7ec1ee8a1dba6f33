"""Corpora of commands: read, check and split; a corpus holds texts, vectors, or columns of both."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from textsvm.arrays import Bools, Ints, Json
from textsvm.cli.console import Console
from textsvm.cli.options import CuttingOptions, FoldOptions, LearningOptions, ReadingOptions, TableOptions
from textsvm.errors import InputError, first_few, plural, printable
from textsvm.evaluation.estimate import copies_of, groups_of
from textsvm.kernels.base import Kernel
from textsvm.kernels.encoder import encoders_of
from textsvm.kernels.resolve import structure_of
from textsvm.kernels.spelling import spell
from textsvm.kernels.user import KernelFunction
from textsvm.model.settings import ClassifierSettings
from textsvm.model.trained import TrainedModel
from textsvm.readers.charsets import is_blank
from textsvm.readers.corpus import DATE, VECTORS, Corpus, ReadOptions, parse_number, split_label
from textsvm.readers.corrections import CHANGE, KEEP, UNSURE, corrected
from textsvm.readers.plausible import checked
from textsvm.readers.read import read_corpus, read_documents
from textsvm.readers.statistics import as_numbers, doubtful_labels, label_counts, names_of_missing
from textsvm.readers.stream import ONE_DOCUMENT, is_large, stream_corpus
from textsvm.readers.vectors import read_labels, read_vectors
from textsvm.runtime.memory import trim
from textsvm.sources.copies import BUT_FOR, in_lone_groups, merge_groups, n_copies, n_separated, text_digests
from textsvm.text.encoders import FEW_TEXTS, advice
from textsvm.text.normal_form import UNSPACED
from textsvm.text.pieces import Pieces, without_shared
from textsvm.text.tokens import NAMES
from textsvm.training import leakage
from textsvm.training.folds import make_folds, n_together, quoted_names, shuffle_split
from textsvm.training.problems import as_target

if TYPE_CHECKING:
    from textsvm.evaluation.baselines import Part

#: Kernel of an estimator: an object, a Python function, or the name of a way to choose it.
KernelOrName: TypeAlias = Kernel | KernelFunction | str | None
LEWIS = "reuters-lewis"  #: Name of the format of Reuters-21578 with Lewis' split instead of ModApte.
_AMBIGUOUS = re.compile("[^acgtu]", re.IGNORECASE)  #: Codes of bases that may be one of several.
#: A document is much longer than the others if it has more symbols than this, and than this many medians.
GIANT, GIANT_RATIO = 1_000_000, 1_000
FEW = 400  #: Documents of which `compare` tests all, in folds: half of an interval of 95 % is 5 points
MANY = 10  #: Most labels of a single document, or dates, that may be classes


def read(
    console: Console, path: Path | list[Path], reading: ReadingOptions,
    learning: LearningOptions | None = None, *, kernel: KernelOrName = None,
    recorded: Mapping[str, str] | None = None, keep_rows: bool = False,
) -> Corpus:  # fmt: skip
    """Read a corpus, select a part, reduce its labels to two if requested, and report problems.

    `kernel` is the named kernel of the model; a kernel on columns tells which columns are needed. `recorded`
    are the columns that the model was trained on, which are read unless others are named. Rows without a text
    are an error unless --vectors or --skip-invalid is given.
    """
    learning = learning or LearningOptions()
    learning.check(reading)
    with console.progress():
        settings: dict[str, Any] = {
            **columns(reading, kernel), "label": reading.label,
            "target": learning.regress, "weight": learning.weights, "group": reading.groups,
            "headers": reading.headers, "level": reading.level,
            "label_separator": learning.separator, "annotators": reading.annotators,
            "recorded": recorded or {}, "keep_rows": keep_rows, "negatives": reading.positive is not None,
            "require_text": reading.vectors is None,
            "progress": console.progress_of("read"),
        }  # fmt: skip
        format = reading.format
        if format == LEWIS:
            format, settings["split"] = "reuters", "lewis"
        if is_large(path):
            corpus = stream_corpus(path, format, **settings).stored()
        else:
            corpus = read_corpus(path, format, **settings)
        trim()
        files = reading.vectors, reading.labels, learning.regress is not None, learning.separator
        corpus = _with_files(corpus, *files).select(reading.part)
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
    console.warn(*doubtful_labels(label_counts(corpus)))
    console.lap("read")
    return corpus


def read_unlabelled(
    console: Console, paths: str | list[str], table: TableOptions, kernel: KernelOrName, of_files: bool,
    **settings: Any,
) -> Corpus:  # fmt: skip
    """Read documents without labels; `of_files`: the texts of training were files, so a file is a text."""
    with console.progress():
        names, progress = columns(table, kernel), console.progress_of("read")
        corpus = read_documents(paths, table.format, **names, progress=progress, **settings)
    console.say(corpus.reading_line)
    console.warn(*corpus.warnings)
    lines = corpus.texts[0].strip().count("\n") + 1 if corpus.format == "file" and len(corpus) == 1 else 1
    if lines > 1 and table.format != "file" and not of_files:
        console.warn(f"{corpus.source} is read as one document of {lines:,} lines; {ONE_DOCUMENT}")
    say_missing_texts(console, names_of_missing(corpus))
    blank = [i for i, text in enumerate(corpus.texts) if is_blank(text)]
    if table.vectors is None and blank:
        if len(blank) == len(corpus):
            raise InputError(f"{corpus.source} has no text: it is empty, or white space alone")
        n, first = len(blank), _place(corpus, corpus.ids[blank[0]])
        console.warn(f"{n:,} of {len(corpus):,} documents are empty and left out, first {first}")
        corpus = corpus.subset(sorted({*range(len(corpus))} - {*blank}))
    console.lap("read")
    return _with_files(corpus, table.vectors)


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
        console.say(
            f"note: {unlabelled:,} of {len(corpus):,} documents have no label: the answer is no for each"
        )
    return corpus


def targets(corpus: Corpus, several: bool = False) -> list[Any]:
    """Numbers or labels of the documents; with `several`, tuples of labels."""
    if corpus.targets is not None:
        return corpus.targets
    if corpus.labels is None:
        if corpus.format == "fasta":
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


def columns(table: TableOptions, kernel: KernelOrName = None) -> dict[str, Any]:
    """Arguments of the readers: the columns of the options, else the kernel's; other options of tables."""
    others = {name: vars(table)[name] for name in ("id", "skip_invalid", "sheet", "encoding")}
    others |= table.form
    on_columns = kernel is not None and structure_of(kernel).reads_tables
    if isinstance(kernel, Kernel) and table.numbers is None and on_columns:
        named = {"text": table.text} if table.text else {}
        return _columns_of(kernel, table.vectors is not None) | named | others
    text: list[str] | str | None = table.text
    if text and not (len(text) > 1 or table.vectors or on_columns):
        text = text[0]
    return {"text": text, "numbers": table.numbers, **others}


def _columns_of(kernel: Kernel, with_vectors: bool) -> dict[str, Any]:
    """Columns that a kernel is on, without the vectors of --vectors and the unnamed text column."""
    views = kernel.structure.resolved().structure.views
    texts = list(dict.fromkeys(name for view in views if not view.of_numbers for name in view.columns))
    numbers = list(dict.fromkeys(name for view in views if view.of_numbers for name in view.columns))
    if with_vectors:
        numbers = [name for name in numbers if name != VECTORS]
    elif VECTORS in numbers:
        raise InputError("the kernel compares vectors beside the texts; name their file with --vectors")
    if with_vectors and texts == ["text"] and not numbers:
        return {"text": None, "numbers": None}
    return {"text": texts, "numbers": numbers or None}


def _with_files(
    corpus: Corpus, vectors: Path | None, labels: Path | None = None, numbers: bool = False,
    separator: str | None = None,
) -> Corpus:  # fmt: skip
    """Add the vectors and labels of separate files; with `numbers` the labels are regression targets."""
    if vectors is not None:
        corpus = corpus.with_vectors(read_vectors(vectors), str(vectors))
    if labels is None:
        return corpus
    names: list[Any] = [split_label(x, separator) if separator else x for x in read_labels(labels)]
    corpus = corpus.with_labels(names, str(labels))
    if not numbers:
        whole = checked(corpus, ReadOptions(label_separator=separator))
        return replace(whole, reading=corpus.reading | whole.reading, detected=corpus.detected)
    pairs = enumerate(corpus.labels or (), 1)
    wanted: list[Any] = [parse_number(x, f"{labels}, line {n}: the target", True) for n, x in pairs]
    return replace(corpus, labels=None, targets=wanted)


def names_of(paths: list[Path]) -> str:
    """File names of a corpus, for a title."""
    return ", ".join(path.name for path in paths)


def check_letters(console: Console, kernel: KernelOrName, corpus: Corpus) -> None:
    """Raise InputError if a FASTA record has a letter that no base has; count ambiguous bases."""
    if corpus.format != "fasta":
        return
    leaves = kernel.structure.leaves if isinstance(kernel, Kernel) else ()
    for letters in {leaf.structure.letters for leaf in leaves} - {""}:
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


def kind_of(corpus: Corpus) -> str:
    """Kind of the documents of a corpus: columns, vectors or texts."""
    if isinstance(corpus.examples, dict):
        return "columns"
    return "texts" if corpus.vectors is None else "vectors"


def require_kind(reads: str, subject: str, corpus: Corpus) -> None:
    """Raise InputError if a corpus holds another kind of document than `subject` compares."""
    kind = kind_of(corpus)
    if kind != reads:
        remedy = {
            "vectors": "use linear, polynomial, gaussian or sigmoid",
            "texts": "name another kernel, or give vectors",
            "columns": "name the columns in the kernel, as in subject=spectrum:1-5+hour,size=gaussian",
        }[kind]
        raise InputError(f"{corpus.source} holds {kind}, and {subject} compares {reads}; {remedy}")


def summary(corpus: Corpus, counts: Counter[str]) -> str:
    """Number of documents, and their classes or range of numbers."""
    if corpus.targets is not None:
        low, high = min(corpus.targets), max(corpus.targets)
        return f"{len(corpus):,} documents with numbers from {low:g} to {high:g}"
    shown = first_few([f"{name} {count:,}" for name, count in counts.most_common()], 10)
    return f"{len(corpus):,} documents of {plural(len(counts), 'class')}: {shown}"


def check_classes(corpus: Corpus, column: str | None) -> None:
    """Raise InputError if the labels look like numbers, ids or texts: most of them occur once."""
    counts, n = label_counts(corpus), len(corpus)
    single = [label for label, count in counts.items() if count == 1]
    numbers, dates = as_numbers(counts) is not None, all(map(DATE.match, counts))
    many = dates and len(counts) > MANY
    many |= (numbers or 2 * len(counts) > n) and len(single) > max(MANY, len(counts) / 2)
    if len(counts) > 2 and (many or 2 * len(single) > n):
        named = "the label column" if column is None else f"the column {column!r}"
        remedy = "name the column of the classes with --label, and of the texts with --text"
        if numbers:
            remedy = f"predict numbers with --regress {column or 'COLUMN'}, or name the classes with --label"
        example = printable([*single, *counts][0][:40])
        raise InputError(
            f"{len(single):,} of the {len(counts):,} labels of {corpus.source} occur once (such as "
            f"{example}), so {named} holds {'dates and ' * dates}no classes; {remedy}"
        )


def say_problems(console: Console, corpus: Corpus) -> None:
    """Report problems of reading, and count empty documents and exact copies."""
    console.warn(*corpus.warnings)
    console.say(*(f"note: {_place(corpus, x)}: {problem}" for x, problem in corpus.problems[: console.notes]))
    if console.notes and (more := len(corpus.problems) - console.notes) > 0:
        console.say(f"note: {more:,} more notes of that kind; `textsvm corpus` shows them all")
    if len(corpus.texts):
        _say_lengths(console, corpus)
    say_missing_texts(console, names_of_missing(corpus))
    if groups := corpus.duplicates():
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
        first = _place(corpus, corpus.ids[lengths.index(0)])
        console.say(f"note: {empty:,} of {len(corpus):,} documents are empty, first {first}")
    longest, median = max(lengths), sorted(lengths)[len(lengths) // 2]
    if longest > max(GIANT, GIANT_RATIO * median):
        place = _place(corpus, corpus.ids[lengths.index(longest)])
        console.say(
            f"note: {place} has {longest:,} symbols, and the median is {median:,}; --max-length cuts long "
            "documents"
        )


def say_missing_texts(console: Console, names: Counter[str]) -> None:
    """Report several texts that are names of a missing value."""
    if (n := names.total()) > 1:
        shown = " or ".join(map(repr, names))
        console.say(f"note: {n:,} texts are {shown}, read as words; an empty cell is a missing text")


def say_encoder(console: Console, corpus: Corpus, *parts: object) -> None:
    """Recommend an encoder that often helps, if `parts` have none; doubt the English encoder, and words."""
    kernels = [part for part in parts if isinstance(part, Kernel)]
    has_words = any(own.tokens in NAMES[1:4] for kernel in kernels for own in kernel.structure.views)
    sample = "\n".join(text[:500] for text in corpus.texts[:FEW_TEXTS]) if has_words else ""
    if len(UNSPACED.findall(sample)) > max(sum(map(str.isalpha, sample)) / 2, 10 * sample.count(" ")):
        console.say(
            "note: the texts have no spaces between words, so the words of the kernel are runs between "
            "punctuation; characters suit them, such as --kernel fast"
        )
    names = {spell(own).partition(",")[0] for kernel in kernels for own in encoders_of(kernel)}
    if corpus.examples is corpus.texts and (note := advice(corpus.texts, names)):
        console.say(f"note: {note}")


def say_lone_classes(console: Console, counts: Mapping[str, int]) -> None:
    """Warn of classes of a single document, and of numbers with a fraction."""
    lone = [label for label, count in counts.items() if count == 1]
    if len(lone) > 1:
        sentence = f"{len(lone):,} of the {len(counts):,} classes have a single document, from which nothing "
        sentence += "can be learnt; check the label column (--label), or predict numbers with --regress"
        console.warn(sentence) if 2 * len(lone) >= len(counts) else console.say(f"note: {sentence}")
    elif len(counts) > 2 and not all(number.is_integer() for number in as_numbers(counts) or ()):
        console.say(
            "note: the classes are numbers with a fraction and are learnt as names without order; --regress "
            "COLUMN predicts numbers"
        )
    elif lone:
        advice = "from which almost nothing can be learnt; add documents, or correct the label"
        console.say(f"note: {lone[0]!r}: a class of a single document, {advice}")


# Parts and folds


def fold_arguments(console: Console, folds: FoldOptions, corpus: Corpus) -> Json:
    """Keyword arguments of `cross_validate` and `tune`; InputError for more folds than documents."""
    if folds.folds > len(corpus):
        raise InputError(f"--folds {folds.folds}: {corpus.source} has only {len(corpus):,} documents")
    if folds.folds > 50:
        console.say(f"note: {folds.folds} folds train as many machines; 5 or 10 folds are usual")
    return {
        "cv": folds.folds, "repeats": folds.repeats, "groups": corpus.groups,
        "group_duplicates": leakage.ALIKE if folds.group_duplicates else None, "random_state": folds.seed,
        "sample_weight": corpus.weights,
    }  # fmt: skip


def comparison_parts(
    console: Console, corpus: Corpus, labels: list[str], cv: int | None, holdout: float | None
) -> tuple[list[Part], str]:
    """Training and test parts of a comparison, and a description of them; folds of few documents."""
    has_parts = {"train", "test"} <= set(corpus.part)
    is_few = len(corpus) < FEW and min(Counter(labels).values()) > 1  # folds cannot test a single document
    if cv is None and holdout is None and not has_parts and is_few:
        cv = min(5, len(corpus))
    if cv is not None:
        target = as_target(ClassifierSettings(), labels, len(labels))
        target = replace(target, digests=text_digests(corpus.examples), groups=groups_of(corpus))
        folds = make_folds(cv, target, random_state=0)
        say_copies(console, n_together(target.copies, folds))
        return [(train.tolist(), test.tolist()) for train, test in folds], f"in {len(folds)} folds"
    if holdout is None and has_parts:
        train, test = (
            [i for i, part in enumerate(corpus.part) if part == name] for name in ("train", "test")
        )
        for other, groups in (("a copy", copies_of(corpus)), ("others of their group", groups_of(corpus))):
            if n := n_separated(groups, [(np.array(train), np.array(test))]):
                console.warn(
                    f"{n:,} test documents have {other} in the training part, which flatters the result"
                )
        return [(train, test)], f"of the test part, {len(train):,} to learn from"
    held = _held_out(console, corpus, 0.25 if holdout is None else holdout, 0)
    train, test = (np.flatnonzero(rows).tolist() for rows in (~held, held))
    return [(train, test)], f"held out, {len(train):,} to learn from"


def hold_out(
    console: Console, corpus: Corpus, share: float | None, seed: int
) -> tuple[Corpus, Corpus | None]:
    """Split a corpus into a training and a test part."""
    if share is None:
        say_grouping(console, corpus)
        groups = groups_of(corpus)
        if groups is not None and all(isinstance(label, str) for label in corpus.labels or [None]):
            classes, codes = np.unique(targets(corpus), return_inverse=True)
            if len(lone := in_lone_groups(groups, codes)[1]):
                console.say(f"note: {quoted_names(classes[lone].tolist())}: in one group, so never held out")
        return corpus, None
    held = _held_out(console, corpus, share, seed)
    return corpus.subset(np.flatnonzero(~held)), corpus.subset(np.flatnonzero(held))


def _held_out(console: Console, corpus: Corpus, share: float, seed: int) -> Bools:
    """Whether each document is in the test part, stratified if each has a single label.

    Groups are held out as a whole. Copies of a text follow it, unless there are too few different texts.
    """
    say_grouping(console, corpus)
    copies, of_user = copies_of(corpus), groups_of(corpus)
    try:
        held = _drawn(console, corpus, merge_groups(of_user, copies), share, seed)
    except InputError:
        if copies is None:
            raise
        copies, held = None, _drawn(console, corpus, of_user, share, seed)
    say_copies(console, n_copies(copies))
    return held


def cut(console: Console, corpus: Corpus, cutting: CuttingOptions) -> Corpus:
    """The training texts as --chunk and --strip-common ask for; warns of shared lines that tell a class."""
    pieces = Pieces(cutting.chunk)
    if corpus.of_single_texts:
        labels = [label if isinstance(label, str) else "" for label in corpus.labels or [""] * len(corpus)]
        common, blocks = Pieces.without_common(corpus.texts, labels, cutting.chunk)
        if cutting.strip_common:
            pieces, n_lines = common, sum(without_shared(common, text)[1] for text in corpus.texts)
            left_out = f"{n_lines:,} lines at the edges of {len(corpus):,} texts are left out"
            console.say(f"note: {'; '.join([*blocks, left_out])}")
        else:
            console.warn(*(f"{block}; --strip-common leaves them out" for block in blocks))
    empty = [name for name, text in zip(corpus.ids, corpus.texts, strict=False) if is_blank(text)]
    if empty and cutting.chunk is not None:
        raise InputError(f"--chunk cuts long texts, and {first_few(empty)} is empty; fill or remove it")
    if pieces == Pieces() and (corpus.of_single_texts or not cutting.strip_common):
        return corpus
    corpus, n = corpus.cut(pieces), len(corpus)
    if cutting.chunk is not None:
        console.say(f"note: {n:,} texts are cut into {len(corpus):,} pieces; those of a text are a group")
    return corpus


def say_grouping(console: Console, corpus: Corpus) -> None:
    """Name the option for documents that seem to be of groups within the classes."""
    if isinstance(name := corpus.reading.get("grouping"), str):
        console.say(
            f"note: documents with the same {name} have the same class, as pieces of a book have one author; "
            f"--groups {name!r} keeps them on one side of every split, so that figures hold for a new {name}"
        )


def say_copies(console: Console, n: int) -> None:
    """Report copies that were kept on the same side of every split."""
    if n:
        copies = f"{n:,} copies (texts equal to another" if n > 1 else "1 copy (a text equal to another"
        console.say(f"note: {copies} {BUT_FOR}) kept in one part with the original")


def _drawn(console: Console, corpus: Corpus, groups: Ints | None, share: float, seed: int) -> Bools:
    """Whether each document is in the test part, as the first document of its group is drawn."""
    groups = np.arange(len(corpus)) if groups is None else groups
    first = np.sort(np.unique(groups, return_index=True)[1])
    whole, corpus = corpus, corpus.subset(first)
    unit = "document" if corpus.groups is None else "group"
    single = all(isinstance(label, str) for label in corpus.labels or ())
    labels = [str(label) for label in corpus.labels or ()] if single else []
    counts = Counter(labels)
    lone = {i for i, label in enumerate(labels) if counts[label] == 1}
    if lone:
        names = quoted_names(sorted(labels[i] for i in lone))
        classes = f"class {names} has 1 {unit}: it is"
        if len(lone) > 1:
            classes = f"classes {names} have 1 {unit} each: they are"
        console.say(f"note: {classes} trained on and never held out")
    candidates = [i for i in range(len(corpus)) if i not in lone]
    stratify = [labels[i] for i in candidates] if labels else []
    n, n_classes, n_test = len(candidates), len(set(stratify)) or 1, ceil(share * len(candidates))
    if min(n_test, n - n_test) < n_classes:
        raise InputError(
            f"--holdout {share:g} cannot be drawn: {n_test:,} of {n:,} {unit}s held out leave {n - n_test:,} "
            f"and both parts need each of the {n_classes} classes; add documents, or change the share"
        )
    test = shuffle_split(len(candidates), share, seed, stratify or None)[1]
    held = np.isin(groups, groups[first[[candidates[i] for i in test]]])
    if stratify and set(targets(whole)) != set(targets(whole.subset(np.flatnonzero(~held)))):
        raise InputError(f"--holdout {share:g} holds out all documents of a class; give another --seed")
    return held


def held_out_near_duplicates(
    console: Console, model: TrainedModel, training: Corpus, test: Corpus
) -> list[Json]:
    """Ids of held-out documents that are near-duplicates of training documents; warns of them."""
    with console.work():
        assert model.kernel is not None
        leak = leakage.held_out_leak(
            model, training.examples, test.examples, progress=console.progress_of("duplicates")
        )
        remedy = "`textsvm cv` with group_duplicates keeps them together"
        if message := leakage.leakage_message([leak], model.kernel.structure.alike, remedy):
            warnings.warn(message, leakage.LeakageWarning, stacklevel=2)
    return [
        {"test": test.ids[row], "train": training.ids[column], "value": value}
        for row, column, value in leak.as_dict()["pairs"]
    ]


def leaks_by_id(leaks: list[Json], corpus: Corpus) -> list[Json]:
    """Near-duplicates across folds, with numbers of folds from 1 and ids of documents."""
    return [
        {"fold": number, "test": corpus.ids[test], "train": corpus.ids[train], "value": value}
        for number, leak in enumerate(leaks, 1)
        for test, train, value in leak["pairs"]
    ]
