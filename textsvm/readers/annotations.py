"""Exports of annotation tools: rows with answers of annotators become rows with a label.

docs/command_line.md says which answers count. A decision counts before them: an annotation of Label Studio
that is ground truth and of nobody, or the label of `textsvm label`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from textsvm.arrays import Json
from textsvm.errors import InputError
from textsvm.readers.corpus import USUAL, Answers, ReadOptions

#: Columns of the names of annotators.
_ANNOTATORS = (
    "_annotator_id", "_session_id", "annotator", "annotator_id", "completed_by", "worker_id", "workerid",
    "rater", "coder",
)  # fmt: skip
#: Item of a list of labels: a text in quotes, or a number.
_ITEM = r"""(?:u?'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[-+]?\d+(?:\.\d+)?)"""
#: List of labels as Python, NumPy, R and JSON write it.
_LIST = re.compile(
    rf"""(?:(?:c|list|array|set|frozenset|tuple)\([\[({{]?|[\[({{]|\{{"choices":\s*\[)\s*+"""
    rf"""(?:{_ITEM}(?:(?:\s*+,\s*+|\s++){_ITEM})*,?)?\s*+[\])}}]{{0,2}}(?:,\s*dtype=\w+)?[\])}}]|character\(0\)"""
)
_BARE_LIST = re.compile(r"""[\[{]((?:"[^"]*"|[^\[\]{}"'])*)[\]}]""")  #: List of labels that need no quotes
_ABOUT = ("id", "part")  #: Fields that describe a text: its id, and its part of the corpus
#: Verdicts of an annotator in Prodigy's words.
ACCEPT, REJECT, IGNORE = "accept", "reject", "ignore"
#: Values of `ReadOptions.annotators` other than the name of an annotator.
ALL, MAJORITY = "all", "majority"
#: Column of the name of the annotator if `ReadOptions.group` asks for it, and its value without a name.
ANNOTATOR, UNNAMED = "annotator", "\0"


class Annotation(NamedTuple):
    """Labels that an annotator gave to a text or rejected; omitted answers do not count."""

    annotator: str
    labels: tuple[str, ...]
    verdict: str = ACCEPT
    rejected: tuple[str, ...] | None = None  #: Labels that the text does not have; None: all others
    complete: bool = True  #: Whether it replaces earlier answers; else only earlier answers on its labels


class AnnotatedRow(NamedTuple):
    """A row of an export; rows with equal keys belong together."""

    row: Json
    answers: list[Annotation]
    key: object = None  #: None if no other row belongs to it
    note: str = ""  #: How labels are read, if other ways are usual too
    decided: list[Any] | None = None  #: The labels that count, if they are not those of the majority


def krippendorff_alpha(units: Iterable[Sequence[Hashable]]) -> float:
    """Krippendorff's alpha of the nominal values of each unit: 1 for agreement, 0 for chance.

    Units with fewer than two values are ignored. NaN if there is a single value.
    """
    values, disagreement = Counter[Hashable](), 0.0
    for unit in units:
        counts, m = Counter(unit), len(unit)
        if m > 1:
            values.update(counts)
            disagreement += (m * m - sum(count * count for count in counts.values())) / (m - 1)
    n = values.total()
    expected = n * n - sum(count * count for count in values.values())
    return 1 - (n - 1) * disagreement / expected if expected else float("nan")


def with_labels(
    rows: Iterable[tuple[int, int, Any]], options: ReadOptions, notes: list[str]
) -> Iterator[tuple[int, int, Any]]:
    """Rows of an export with their labels; `notes` gets the answers left out and the agreement."""
    tasks: dict[object, tuple[int, int, Json, list[Annotation]]] = {}
    export = _Export(options)
    for number, line, row in rows:
        task = task_of(row, options)
        if task is None or not options.labelled:
            yield number, line, row if task is None else task.row
        elif task.key is None:
            yield from export.labelled_rows(number, line, task.row, task.answers, task.decided)
        else:
            tasks.setdefault(task.key, (number, line, task.row, []))[3].extend(task.answers)
        notes += [task.note] if task and task.note and task.note not in notes else []
    for values in tasks.values():
        yield from export.labelled_rows(*values)
    notes += export.notes()


def check_annotators(options: ReadOptions) -> None:
    """Raise InputError if none of the files that were read has the annotator of the options."""
    choices = [ALL, MAJORITY, *sorted(options.annotator_names - {""})]
    if options.annotator_names and options.annotators not in choices:
        raise InputError(f"--annotators {options.annotators} is not one of {', '.join(choices)}")


class _Export:
    """Answers on texts, their counts, and the labels that they give."""

    def __init__(self, options: ReadOptions) -> None:
        self._options, self._counts = options, Counter[str]()
        self._units: list[list[tuple[str, ...]]] = []  #: Labels by each annotator, by text

    def labelled_rows(
        self, number: int, line: int, row: Json, answers: list[Annotation], decided: list[Any] | None = None
    ) -> Iterator[tuple[int, int, Json]]:
        """The row of a text with its label; a row for each annotator, or none."""
        column, majority = self._options.label_column or "label", self._options.annotators == MAJORITY
        by_name = defaultdict[str, dict[str, None]](dict)
        counted = [answer for answer in answers if answer.verdict != IGNORE]
        last = {(x.annotator, None if x.complete else x.labels): x for x in counted}
        for answer in last.values():
            by_name[answer.annotator] |= dict.fromkeys(answer.labels if answer.verdict == ACCEPT else ())
        self._counts.update(answer.verdict for answer in answers)
        self._counts["again"] += any(answer not in last.values() for answer in counted)
        self._options.annotator_names.update(by_name)
        self._units.append([tuple(sorted(labels)) for labels in by_name.values()])
        votes, explicit = Counter[str](), any(x.rejected is not None for x in last.values())
        for answer in last.values():
            votes.update(dict.fromkeys(answer.labels, 1 if answer.verdict == ACCEPT else -1))
            votes.subtract(answer.rejected or ())
        no = tuple(label for label, count in votes.items() if explicit and count < 0)
        several = self._options.label_separator is not None or any(len(x) > 1 for x in by_name.values())
        if decided is not None and majority:
            self._counts["no majority"] += not decided
            chosen = [("", labels) for labels in decided]
        elif majority:
            chosen = self._majority(votes, len(by_name), several) if counted or not answers else []
        else:
            named = [(x, [*by_name[x]]) for x in by_name if self._options.annotators in (ALL, x)]
            chosen = [(name, x if several else x[0]) for name, x in named if x or several]
        for name, labels in chosen or [("", None)] * bool(no):
            about = {} if self._options.group != ANNOTATOR or majority else {ANNOTATOR: name or UNNAMED}
            yes = [labels] if isinstance(labels, str) else labels or ()
            yield number, line, {**row, **about, column: Answers(yes, no) if explicit else labels}

    def _majority(self, votes: Counter[str], n: int, several: bool) -> list[tuple[str, Any]]:
        """The labels that count by the votes of n annotators; nothing for a tie."""
        if not votes:
            return [("", [] if several and n else None)]
        most = max(votes.values())
        least = n // 2 + 1 if several else max(most, 1)
        best = [label for label, count in votes.items() if count >= least]
        if best and (several or len(best) == 1):
            return [("", best if several else best[0])]
        self._counts["no majority"] += n > 0 and most >= 0  # below 0 most annotators reject
        return []

    def notes(self) -> Iterator[str]:
        """Notes on the answers that are left out, and on the agreement."""
        rejected, ignored, units = self._counts[REJECT], self._counts[IGNORE], self._units
        if rejected or ignored:
            yield f"answers: {rejected:,} rejected, {ignored:,} ignored or cancelled and left out"
        if again := self._counts["again"]:
            rows = "" if self._options.label_separator is not None else " (several labels need --multilabel)"
            yield f"texts that an annotator answered again: {again:,}; the last answer counts{rows}"
        if several_annotators := sum(len(unit) > 1 for unit in units):
            yield (
                f"texts with several annotators: {several_annotators:,}; not unanimous: "
                f"{sum(len(set(unit)) > 1 for unit in units):,}; left out without a majority: "
                f"{self._counts['no majority']:,} (see --annotators); "
                f"Krippendorff's alpha of all answers: {krippendorff_alpha(units):.3f}"
            )


def task_of(row: object, options: ReadOptions) -> AnnotatedRow | None:
    """The answers in a row of an export; None for other rows. InputError if the row is damaged."""
    try:
        return _task(dict(row), options) if isinstance(row, Mapping) else None
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        raise InputError(f"a row of an annotation tool is damaged ({error}): {str(row)[:80]}") from error


def _task(row: Json, options: ReadOptions) -> AnnotatedRow | None:
    match row:
        case {"answer": ("accept" | "reject" | "ignore") as verdict}:
            return _prodigy(row, str(verdict))
        case {"data": dict(data)} if "text" not in row:
            return _label_studio(row, data, options)
        case {"fields": dict(fields), "responses": dict(responses)}:  # Argilla
            verdicts = {None: ACCEPT, "submitted": ACCEPT}
            answers = [
                Annotation(str(x["user_id"]), _texts(x["value"]), verdicts.get(x.get("status"), IGNORE))
                for x in _one_of(responses, options) or []
            ]
            return AnnotatedRow({"id": row.get("id"), **fields, **_about(row, "metadata")}, answers)
        case {"annotation": value, "annotation_agent": agent}:  # Argilla 1
            valid = value is not None and row.get("status") in (None, "Validated")
            answer = Annotation(str(agent), _texts(value), ACCEPT if valid else IGNORE)
            return AnnotatedRow({**(row.get("inputs") or {}), **row}, [answer])
        case {"annotations": [{"user": _}, *_] as entries}:  # doccano
            answers = [Annotation(str(x["user"]), _texts(x.get("label")), complete=False) for x in entries]
            return AnnotatedRow(row, answers)
        case {"answers": dict(named), "majority": _}:  # textsvm label
            label = row.get(options.label_column or "label")
            fields = {name: row[name] for name in row if name not in ("answers", "majority", "label")}
            answers = [Annotation(name, _texts(value)) for name, value in named.items()]
            return AnnotatedRow(fields, answers, decided=[] if label is None else [label])
        case {"cats": dict(cats)}:  # spaCy
            labels = tuple(name for name, value in cats.items() if value >= 0.5)
            answer = Annotation("", labels, rejected=tuple(name for name in cats if name not in labels))
            return AnnotatedRow(row, [answer], note="the cats of at least 0.5 are the labels")
        case {"messages": [{"role": _}, *_] as messages} | {"conversations": [{"from": _}, *_] as messages}:
            return _chat(row, messages)
    return _table_row(row, options)


def _about(row: Json, name: str) -> Json:
    return {field: value for field, value in (row.get(name) or {}).items() if field in _ABOUT}


def _prodigy(row: Json, verdict: str) -> AnnotatedRow:
    about = _about(row, "meta")
    labels = _texts(row.get("label") if row.get("accept") is None else row["accept"])
    key = None if row.get("text") is None else repr((row["text"], about.get("id")))
    fields = {"id": row.get("_task_hash"), **row, **about}
    no = () if row.get("accept") is None and verdict != IGNORE else None
    return AnnotatedRow(fields, [Annotation(_annotator(row), labels, verdict, no, complete=no is None)], key)


def _label_studio(row: Json, data: Json, options: ReadOptions) -> AnnotatedRow:
    texts = [value for name, value in data.items() if isinstance(value, str) and name not in _ABOUT]
    alone = {"text": texts[0]} if len(texts) == 1 else {}
    annotations = row.get("annotations", row.get("completions")) or []
    of_nobody = [e for e in annotations if e.get("ground_truth") and e.get("completed_by") is None]
    answers = [_choices(entry, options) for entry in annotations if entry not in of_nobody]
    truth = [list(_choices(entry, options).labels) for entry in of_nobody[-1:]]
    decided = [labels if len(labels) != 1 else labels[0] for labels in truth] or None
    return AnnotatedRow({"id": row.get("id"), **data, **alone}, answers, decided=decided)


def _texts(value: object) -> tuple[str, ...]:
    """Labels of a value: a list of names, a name, or none."""
    value = choices_in(value)
    names = labels_in(value, False) if isinstance(value, str) else None
    value = value if names is None else names
    labels = [x for x in (value if isinstance(value, list | tuple) else [value]) if x not in (None, "")]
    if odd := next((x for x in labels if isinstance(x, dict | list)), None):
        raise InputError(f"a label is a list or an object, such as {str(odd)[:60]}; labels are texts")
    return tuple(map(str, labels))


def choices_in(value: object) -> Any:
    """The list in an object of Label Studio's choices; other values unchanged."""
    return value["choices"] if isinstance(value, dict) and isinstance(value.get("choices"), list) else value


def _annotator(row: Json) -> str:
    return next((str(row[name]) for name in row if name.lower() in _ANNOTATORS and row[name] is not None), "")


def _one_of(choices: Json, options: ReadOptions) -> Any:
    """The value of the label column, or the only value; None if no labels are needed."""
    name = options.label_column
    if not options.labelled:
        return None
    if len(choices) > 1 and name not in choices:
        raise InputError(f"the export has labels of {' and '.join(choices)}; name one of them with --label")
    return choices.get(name or "", next(iter(choices.values()), None) if len(choices) == 1 else None)


def _choices(annotation: Json, options: ReadOptions) -> Annotation:
    """Annotation of Label Studio: choices of the control that is the label column, or of the only control."""
    author, choices = annotation.get("completed_by", ""), dict[str, tuple[str, ...]]()
    author = author.get("email", author.get("id")) if isinstance(author, dict) else author
    for result in annotation.get("result") or []:
        if names := _texts(result.get("value", {}).get("choices", [])):
            name = str(result.get("from_name", ""))
            choices[name] = choices.get(name, ()) + names
    labels = _one_of(choices, options) or ()
    omitted = annotation.get("was_cancelled") or not labels
    return Annotation("" if author is None else str(author), labels, IGNORE if omitted else ACCEPT)


def _chat(row: Json, messages: list[Json]) -> AnnotatedRow:
    turns = [(message.get("role", message.get("from")), _content(message)) for message in messages]
    last = max((i for i, (role, _) in enumerate(turns) if role in ("user", "human")), default=None)
    if last is None:
        return AnnotatedRow({**row, "text": None}, [])
    answer = [text for role, text in turns[last + 1 :] if role in ("assistant", "gpt")]
    note = "the last message of the user is the text, and the answer after it the label"
    labels = _texts(row.get("label", answer[:1]))
    return AnnotatedRow({**row, "text": turns[last][1]}, [Annotation("", labels)], note=note)


def _content(message: Json) -> Any:
    content = message.get("content", message.get("value"))
    return "\n".join(part.get("text") or "" for part in content) if isinstance(content, list) else content


def _table_row(row: Json, options: ReadOptions) -> AnnotatedRow | None:
    """A row of a table with a column of annotators; rows with equal texts belong together."""
    names = {name.lower(): name for name in row}
    usual = {role: next((names[name] for name in USUAL[role] if name in names), "") for role in USUAL}
    text, label = options.columns.get("text", usual["text"]), options.label_column or usual["label"]
    if not _annotator(row) or not isinstance(text, str) or label not in row:
        return None
    verdict, complete = IGNORE if row[label] in (None, "") else ACCEPT, options.label_separator is None
    answer = Annotation(_annotator(row), _texts(row[label]), verdict, complete=complete)
    return AnnotatedRow({name: cell for name, cell in row.items() if name != label}, [answer], row.get(text))


def labels_in(cell: str, bare: bool) -> tuple[str, ...] | None:
    """The labels of a cell that is a list of Python, R or JSON, else None; `bare` labels need no quotes."""
    if _LIST.fullmatch(cell) and not re.fullmatch(r"\([\d.]+\)", cell):
        items = re.findall(_ITEM, re.sub(r'^\{"choices":|character\(0\)', "", cell))
    elif bare and (match := _BARE_LIST.fullmatch(cell)):
        items = [item for item in map(str.strip, re.findall(r'"[^"]*"|[^,"]+', match[1])) if item]
    else:
        return None
    return tuple(unquoted(x.removeprefix("u") if x.startswith(("u'", 'u"')) else x) for x in items)


def unquoted(cell: str) -> str:
    """The text of a cell that may be in quotes, with backslashes before special characters."""
    if not cell.startswith(("'", '"')):
        return cell
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), cell[1:-1])
