"""Checks of a corpus: data that contradict the guesses of its readers.

Data that cannot have been read right are an InputError; rows that are no documents are left out with a
warning; the rest is a warning.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise
from math import isclose
from statistics import median_low

from textsvm.errors import InputError, first_few, printable
from textsvm.readers.charsets import NOT_UTF_8, encoded_twice, is_blank, wrong_charset
from textsvm.readers.corpus import (
    DATE,
    EXPORT_AGAIN,
    FEW,
    HEADER_LINE,
    TOTALS,
    USUAL,
    Answers,
    Corpus,
    NumberCell,
    ReadOptions,
    is_number,
    is_value,
    note_left_out,
    renamed,
    split_label,
)

_OF_FILES = ("folders", "mail", "reuters", "fasta")  #: Formats without rows
_IN_CLASSES = 0.9  #: Least share of documents of classes of several, if one alone in its class is no document
_WORDS = 4  #: Fewest words beside the name of a total, in other columns, that are a text
_HEADER_LINES = 3  #: First rows that may be further lines of a header
#: Words of further lines of a header: usual names of columns, types and roles.
_HEADER_WORDS = {name for names in USUAL.values() for name in names}.union(
    ["string", "str", "object", "varchar", "nominal", "discrete", "continuous", "categorical", "meta", "type"]
)
_LONGEST_TOTAL = 40  #: Symbols of a text that may name a row of totals
#: Names of rows of totals; English ones begin titles, too: "Total Recall", "Mean Girls".
_TOTAL = re.compile(
    r"(?:(?:(?:grand |sub-?)?total|sum|count|average|mean|totale?s?):?"
    r"(?: (?:amount|sum|number|count|eur|usd|[\d€$]\S*))?|"
    r"(?:(?:zwischen|gesamt)?summe|gesamt|insgesamt|anzahl|mittelwert|durchschnitt|suma|итого|合計|总计):?"
    r"( [^\s\d]+)?(?: \S+)?(?:(?<=\d) [^\W\d]+)?)\s*:?",
    re.IGNORECASE,
)
#: Name of a row of totals, perhaps of a group, that is no class as "average" may be.
SUBTOTAL = re.compile(r"(?:.+ )?(?:gesamt)?(?:ergebnis|summe|(?:sub|grand )?total) *:?", re.IGNORECASE)
#: Error of a spreadsheet, such as #N/A, #DIV/0! and #BEZUG!.
_ERROR = re.compile(r"^ *#(?:N/?A|NV|NAME\?|[A-ZÄÖÜ]{3,8}(?:/0)?!) *$", re.MULTILINE)
_NAME = re.compile(r"[A-ZÀ-ÞА-Я][^\d\s]*(?:\s[^\d\s]+)?")  #: Of a column, in a further line of a header
LABEL_SEPARATORS = ";,|#/+&"  #: Of labels in a cell, the usual first
_PARTS = re.compile(f"[{LABEL_SEPARATORS}\0]")
SAMPLE = 2000  #: Documents in which words are looked for
#: Numbers whose marks are surely decimal or of groups, by the decimal mark, and numbers that may be either.
_SURELY = {
    mark: re.compile(
        rf"[-+]?(?:\d{{1,3}}(?:\{group}\d{{3}})+\{mark}\d+|\d+\{mark}(?:\d{{1,2}}|\d{{4,}})|0+\{mark}\d+|"
        rf"\d{{4,}}\{mark}\d+|\d{{1,3}}(?:\{group}\d{{3}}){{2,}})"
    )
    for mark, group in ((".", ","), (",", "."))
}
_EITHER = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")


def checked(corpus: Corpus, options: ReadOptions) -> Corpus:
    """The corpus without rows that are no documents, with warnings; InputError if it was misread."""
    options.warn(*corpus.warnings)
    corpus = replace(corpus, warnings=options.warnings)
    if options.encoding or any(NOT_UTF_8 in problem for _, problem in corpus.problems):
        words = [*set(_single(corpus)), *islice(corpus.texts, SAMPLE)]
        options.warn(*wrong_charset(corpus.source, words, options.encoding))
    else:
        options.warn(*encoded_twice(corpus.source, [text[:1000] for text in islice(corpus.texts, SAMPLE)]))
    if not options.labelled:
        return corpus
    corpus = _without_errors(corpus, options)
    corpus = _with_lists(_with_answers(corpus, options), options)
    if corpus.format not in _OF_FILES:
        corpus = _without_foreign_rows(corpus, options)
    if not len(corpus):
        raise InputError(f"{corpus.source} holds no document with a label: all rows are left out")
    if corpus.format not in _OF_FILES:
        corpus = _without_swapped_rows(corpus, options)
    return options.interpreted(corpus)


def is_total(cell: str, alone: bool = False) -> bool:
    """Whether a cell names a row of totals; `alone`: without another word."""
    match = _TOTAL.fullmatch(cell.strip()) if len(cell) <= _LONGEST_TOTAL else None
    return match is not None and not (alone and match[1])


def _single(corpus: Corpus) -> list[str]:
    labels = corpus.labels or [*map(str, corpus.targets or ())] or [""] * len(corpus)
    return [label if isinstance(label, str) else "\0".join(label) for label in labels]


def _shown(text: str) -> str:
    text = " ".join(printable(text).split())
    return repr(text if len(text) <= 30 else f"{text[:30]}…")


def _columns(corpus: Corpus, role: str) -> Sequence[str]:
    """The columns of a role; none if files differ."""
    names = corpus.reading.get(role) or ()
    return names if all(isinstance(name, str) for name in names) else ()


def _half_length(texts: Iterable[str]) -> float:
    return median_low(map(len, texts)) / 2


# Rows


def _without_foreign_rows(corpus: Corpus, options: ReadOptions) -> Corpus:
    n, texts, labels, out = len(corpus), corpus.texts, _single(corpus), dict[int, str]()
    counts, last, numbers = Counter(labels), n - 1, corpus.targets
    several = [label for label, count in counts.items() if count > 1]
    if n < FEW or len(texts) < n or not (numbers or counts.total() > len(several) > 0):
        return corpus
    if numbers is None and sum(counts[label] for label in several) < _IN_CLASSES * n - 2:
        return corpus
    for i in range(_HEADER_LINES):
        if numbers or counts[labels[i]] > 1:
            break
        words, name = {texts[i].strip().casefold(), labels[i].casefold()}, _NAME.fullmatch(texts[i].strip())
        shortest = min(map(len, islice(texts, _HEADER_LINES, n))) if name and labels[i].istitle() else 0
        if not words & _HEADER_WORDS and len(texts[i]) >= min(shortest, _half_length(texts)):
            break
        out[i] = HEADER_LINE
    total = any(map(is_total, [texts[last], texts[last].partition("\n")[0], labels[last]]))
    if numbers:
        whole = sum(numbers[:-1])
        total &= numbers[-1] > max(numbers[:-1]) or isclose(numbers[-1], whole / last)
        if isclose(numbers[-1], whole) and whole > max(numbers[:-1]):
            total |= len(texts[last]) < _half_length(texts)
    else:
        total = total or (is_number(labels[last]) and not any(map(is_number, several)))
        total = total and counts[labels[last]] == 1
    if total:
        out[last] = TOTALS
    for i, text in enumerate(texts if len(_columns(corpus, "text")) > 1 else ()):
        first, _, rest = text.partition("\n")
        short = is_total(first) and len(rest.split()) < _WORDS
        if short and (counts[labels[i]] == 1 or re.search(r"\d", rest)):
            out[i] = TOTALS
    for i, kind in out.items():
        row = f"({_shown(labels[i])}: {_shown(texts[i])}), document {corpus.ids[i]} of {corpus.source}"
        options.warn(f"{kind} is left out {row}")
    return corpus.subset([i for i in range(n) if i not in out]) if out else corpus


def _without_swapped_rows(corpus: Corpus, options: ReadOptions) -> Corpus:
    """The corpus without rows whose text is a class and whose label is a longer text.

    InputError if they are more than a tenth. Classes are labels of several texts, and texts of many labels.
    """
    labels = _single(corpus)
    if not corpus.labels or not len(corpus.texts) or len(labels) < FEW:
        return corpus
    joined = corpus.columns is None and len(_columns(corpus, "text")) > 1

    def cells() -> Iterable[Sequence[str]]:  # twice, as a copy of the texts takes much memory
        texts = (text.split("\n") for text in corpus.texts)
        return texts if joined else zip(*corpus.text_columns, strict=True)

    rows, shorter = range(len(labels)), dict[int, list[str]]()  #: Texts that may be the label of their row
    for i, row, label in zip(rows, cells(), labels, strict=True):
        if texts := [x for x in row if 0 < len(x) < len(label)]:
            shorter[i] = texts
    if not shorter:
        return corpus
    # Rows of another table: their texts are classes of other rows, and their labels texts of others.
    distinct = {*labels}
    doubtful = {i: texts for i, texts in shorter.items() if not distinct.isdisjoint(texts)}
    foreign, moved = {labels[i] for i in doubtful}, set[str]()
    names = {name for i in shorter for cell in (*shorter[i], labels[i]) for name in _names_in(cell)}
    classes, labels_of, first_text = set[str](), defaultdict[str, set[str]](set), dict[str, int]()
    longest = max(map(len, labels))
    for i, row, label in zip(rows, cells(), labels, strict=True):
        key = hash((*row,))
        own = (name.strip().casefold() for name in label.split("\0"))
        classes.update(name for name in own if first_text.setdefault(name, key) != key)
        for cell in row:
            if len(cell) < longest and (name := cell.strip().casefold()) in names:
                labels_of[name].add(label)
        if i not in doubtful:
            moved.update(foreign.intersection(row))
    classes |= {name for name, own in labels_of.items() if len(own) > 2 and min(map(len, own)) > len(name)}

    def is_class(cell: str) -> bool:
        name, *parts = _names_in(cell)
        return name in classes or classes.issuperset(parts)

    rest = {labels[i] for i in rows if i not in doubtful}
    pasted = [i for i in doubtful if labels[i] not in rest and not rest.isdisjoint(shorter[i])]
    if 10 * len(pasted) <= len(rows) or 2 * sum(labels[i] in moved for i in pasted) <= len(pasted):
        pasted.clear()
    out = [i for i, texts in shorter.items() if any(map(is_class, texts)) and not is_class(labels[i])]
    if not (out := max([i for i in out if not is_value(labels[i])], pasted, key=len)):
        return corpus
    label, text, name = _shown(labels[out[0]]), _shown(corpus.texts[out[0]]), corpus.ids[out[0]]
    sentence = f"text and label are swapped in {len(out):,} of {len(rows):,} rows of {corpus.source} "
    sentence += f"(label {label} of {text} in document {name})"
    if 10 * len(out) > len(rows):
        text, label = (first_few(_columns(corpus, role)) for role in ("text", "label"))
        remedy = f"name the columns: --text {label} --label {text}" if label else "write the label first"
        if len(out) < len(rows):
            remedy = f"swap both cells in {'rows' if _columns(corpus, 'text') else 'lines'} "
            remedy += first_few([corpus.ids[i] for i in out]) + ", or leave these out"
        raise InputError(f"{sentence}; {remedy}")
    options.warn(f"{sentence}; they are left out")
    return corpus.subset(sorted({*rows} - {*out}))


def _names_in(cell: str) -> list[str]:
    return [part.strip(" []{}()'\"").casefold() for part in (cell, *_PARTS.split(cell))]


def _without_errors(corpus: Corpus, options: ReadOptions) -> Corpus:
    """The corpus without errors of a spreadsheet in texts, and without rows whose text or label is one."""
    errors = dict[int, str]()
    for column in (corpus.texts, _single(corpus) if corpus.labels else ()):
        cells = ((i, cell) for i, cell in enumerate(column) if "#" in cell and _ERROR.search(cell))
        errors |= {i: cell.split()[0] for i, cell in cells if is_blank(_ERROR.sub("", cell))}
    if errors:
        out, reason = [corpus.ids[i] for i in sorted(errors)], "error cell "
        reason += first_few(sorted({*errors.values()}))
        options.warn(*note_left_out(corpus.problems, corpus.source, len(corpus), out, reason))
        corpus = corpus.subset([i for i in range(len(corpus)) if i not in errors])
    several = len(_columns(corpus, "text")) > 1
    if several and (n := sum(_ERROR.search(text) is not None for text in corpus.texts)):
        options.warn(f"error cells such as #N/A are left out of {n:,} joined texts of {corpus.source}")
        columns = corpus.columns and {
            name: [_ERROR.sub("", text) for text in column] if isinstance(column, Sequence) else column
            for name, column in corpus.columns.items()
        }
        corpus = replace(corpus, texts=[_ERROR.sub("", text) for text in corpus.texts], columns=columns)
    return corpus


def check_texts(columns: Mapping[str, Iterable[object]], options: ReadOptions) -> None:
    """Warn of columns of texts that are numbers or dates."""
    for name, column in columns.items():
        cells = [cell for cell in column if isinstance(cell, str) and cell.strip()]
        dates = sum(DATE.match(cell) is not None for cell in cells)
        numbers = sum(is_number(re.sub("[.,']", "", cell)) for cell in cells)
        if len(cells) >= FEW and max(dates, numbers) >= _IN_CLASSES * len(cells):
            kind = "dates" if dates >= numbers else f"numbers (see --numbers {name})"
            options.warn(f"the column {name!r} is read as texts and holds {kind}, such as {cells[0]}")


def check_cents(
    columns: Mapping[str, Iterable[object]], labels: Collection[str], options: ReadOptions, file: str
) -> None:
    """InputError for parts of numbers such as 1.932,05; a warning for `labels` that may be such parts."""
    for (name, column), (other, next_column) in pairwise(columns.items()):
        whole, cents = ([str(cell).strip() for cell in cells] for cells in (column, next_column))
        digits = other in labels and all(re.fullmatch(r"[-+]?\d+", x) for x in (*whole, *cents))
        if digits and len({*cents}) > 2:
            number = f"a number such as {whole[0]},{cents[0]}, which needs quotes"
            options.warn(f"columns {name!r} and {other!r} of {file} may be {number}; {EXPORT_AGAIN}")
        groups = [x for x in whole if re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+", x)]
        plain = sum(re.fullmatch(r"[-+]?\d{1,3}", x) is not None for x in whole)
        n, of_two = len(whole), [x for x in cents if re.fullmatch(r"\d\d", x)]
        both = groups and plain and any(x[0] == "0" for x in of_two)
        if n >= FEW and both and min(len(groups) + plain, len(of_two)) >= _IN_CLASSES * n:
            raise InputError(
                f"{file}: {name!r} and {other!r} hold parts of numbers such as {groups[0]},{of_two[0]}, so "
                f"the cells after them are in wrong columns; {EXPORT_AGAIN}"
            )


# Labels


def _with_lists(corpus: Corpus, options: ReadOptions) -> Corpus:
    """The corpus with labels without a separator at their end, and lists as tuples if several are read."""
    cells = [(label,) if isinstance(label, str) else label for label in corpus.labels or ()]
    labels = set(chain.from_iterable(cells))
    bare = {label: label.rstrip(f" {LABEL_SEPARATORS[:3]}") or label for label in labels}
    ends = sorted(label for label, name in bare.items() if name != label)
    if ends and labels.issuperset(map(bare.__getitem__, ends)):
        options.warn(f"labels with a separator at their end, such as {ends[0]!r}, are read without")
        cells = [renamed(labels, bare) for labels in cells]
    names, several = {labels[0] for labels in cells if len(labels) == 1}, options.label_separator == ""
    if several and names and labels <= {"0", "1"}:
        raise InputError(f"{corpus.source}: labels 0 and 1 of one column are classes; leave out --multilabel")
    separator = None if options.label_separator else _separator_of(names, several)
    lists = sorted(label for label in names if separator and separator in label)
    if several:
        separator = separator or LABEL_SEPARATORS[0]
        if lists and separator != LABEL_SEPARATORS[0]:
            place = f"such as {_shown(lists[0])} are split at {separator!r} (--label-separator)"
            corpus.problems.append((corpus.source, f"labels {place}"))
        options.decide(label_separator=separator)
        cells = [
            split_label(x[0], separator) if len(x) == 1 and not isinstance(x, Answers) else x for x in cells
        ]
    elif separator:
        parts = {part.strip() for label in names for part in label.split(separator)}
        options.warn(
            f"{len(names):,} classes are lists of {len(parts):,} names such as {_shown(lists[0])}; learn the "
            f"names with --multilabel --label-separator {separator!r}"
        )
    single = options.label_separator is None and all(isinstance(label, str) for label in corpus.labels or ())
    if corpus.labels is None:
        return corpus
    return replace(corpus, labels=[x[0] for x in cells] if single else cells)


def _separator_of(labels: Collection[str], several: bool) -> str | None:
    """The separator of labels that are lists of fewer names; `several`: lists are expected."""
    for separator in LABEL_SEPARATORS:
        lists = [[part.strip() for part in label.split(separator)] for label in labels]
        listed = {part for parts in lists if len(parts) > 1 for part in parts if part}
        counts = Counter(part for parts in lists for part in {*parts})
        places = [{*column} for column in zip(*lists, strict=False)]
        grid = len({*map(len, lists)}) == 1 and sum(map(len, places)) == len(counts)  # red/small, red/large
        again = sum(counts[part] > 1 for part in listed)
        is_list = several or (len(counts) < len(labels) and not grid)
        if listed and is_list and again >= (0.5 if several else 0.8) * len(listed):
            return separator
    return None


def _with_answers(corpus: Corpus, options: ReadOptions) -> Corpus:
    """The corpus with answers of no: a class if there is a single label, else left out."""
    answers = [labels for labels in corpus.labels or () if isinstance(labels, Answers)]
    if not answers or options.negatives:
        return corpus
    yes = [(label,) if isinstance(label, str) else label for label in corpus.labels or ()]
    names = {*chain.from_iterable(yes), *chain.from_iterable(labels.no for labels in answers)}
    partly = [isinstance(x, Answers) and len({*x} | x.no) < len(names) for x in yes]
    if options.label_separator is not None:
        if sum(partly):
            sentence = f"labels that are unknown, not absent, in {sum(partly):,} of {len(yes):,} texts"
            corpus.problems.append((corpus.source, sentence))
        return replace(corpus, labels=[x if part else (*x,) for x, part in zip(yes, partly, strict=True)])
    if len(names) == 1:
        name, negative = min(names), f"not {min(names)}"
        options.warn(f"{corpus.source} has answers for a single label; no is the class {negative!r}")
        return replace(corpus, labels=[name if x else negative for x in yes])
    rows = [i for i, x in enumerate(yes) if x or not isinstance(x, Answers)]
    out = [corpus.ids[i] for i in sorted({*range(len(yes))} - {*rows})]
    options.warn(*note_left_out(corpus.problems, corpus.source, len(yes), out, "it has no label, or a no"))
    corpus, single = corpus.subset(rows), all(len(yes[i]) == 1 for i in rows)
    return replace(corpus, labels=[yes[i][0] for i in rows] if single else [(*yes[i],) for i in rows])


# Numbers


def decimal_mark(columns: Mapping[str, Iterable[object]], separator: str | None, file: str) -> str | None:
    """The decimal mark of columns of numbers; None if all are whole. InputError if it is unclear.

    Numbers such as 1.932 that are separated by commas have a point, unless whole numbers are among them.
    """
    decimal, doubtful = set[str](), list[tuple[str, list[str]]]()
    for name, column in columns.items():
        texts = (cell for cell in column if isinstance(cell, str) and not isinstance(cell, NumberCell))
        cells = ["".join(text.split()) for text in texts]
        marks = {mark for mark in ",." if any(map(_SURELY[mark].fullmatch, cells))}
        unclear = [cell for cell in cells if _EITHER.fullmatch(cell)]
        if unclear and not marks and separator == "," and all("." in cell for cell in unclear):
            marks = {"."} if len(unclear) < _HEADER_LINES or not any(map(str.isdecimal, cells)) else set()
        decimal |= marks
        if unclear or marks:
            doubtful.append((name, [*dict.fromkeys(unclear or cells)]))
    if len(decimal) == 1:
        return decimal.pop()
    if not doubtful:
        return None
    name, examples = doubtful[-1]
    raise InputError(
        f"{file}: is the decimal mark of {name!r} a comma or a point ({first_few(examples)})? Add --table "
        "decimal=comma or decimal=point"
    )
