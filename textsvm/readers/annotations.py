"""Exports of annotation tools: rows with answers of annotators become rows with a label.

Prodigy, Label Studio, Argilla, doccano, spaCy's `cats`, messages of chats, and tables with a column of
annotators. Rejected and cancelled answers are left out. If several annotators answered, the label of most of
them counts, and texts with a tie are left out (`ReadOptions.annotators`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from textsvm.arrays import Json
from textsvm.errors import InputError
from textsvm.readers.corpus import USUAL, ReadOptions

#: Columns of the names of annotators.
ANNOTATORS = (
    "_annotator_id", "_session_id", "annotator", "annotator_id", "completed_by", "worker_id", "workerid",
    "rater", "coder",
)  # fmt: skip
#: Keys of the messages of a chat: of their list, and of the author and text of a message.
_CHATS = {"messages": ("role", "content"), "conversations": ("from", "value")}
ACCEPTED, REJECTED, OMITTED = "accept", "reject", "ignore"
ALL, MAJORITY = "all", "majority"


class Answer(NamedTuple):
    """Labels that an annotator gave to a text, or rejected; answers that do not count are omitted."""

    annotator: str
    labels: tuple[str, ...]
    verdict: str = ACCEPTED


class Task(NamedTuple):
    """A row of an export; rows with equal keys belong together."""

    row: Json
    answers: list[Answer]
    key: object = None  #: None: the row stands alone


def krippendorff_alpha(units: Iterable[Sequence[Hashable]]) -> float:
    """Krippendorff's alpha of nominal values: 1 for agreement, 0 for chance; NaN if there is a single value.

    Parameters
    ----------
    units : iterable of sequences
        The values that annotators gave to each unit; units with fewer than two values are ignored.
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


#: Reads a row of an export; None for a row of another tool.
Tool: TypeAlias = Callable[[Json, ReadOptions], Task | None]


def tool_of(row: Mapping[str, Any], options: ReadOptions) -> Tool | None:
    """The function that reads the rows of an export like this row; None for other rows."""
    return next((tool for tool in _TOOLS if tool(dict(row), options) is not None), None)


def decided(
    rows: Iterable[tuple[int, int, Any]],
    tool: Tool,
    options: ReadOptions,
    notes: list[str],
) -> Iterator[tuple[int, int, Any]]:
    """Rows of an export with their labels; `notes` gets the answers that do not count."""
    tasks: dict[object, tuple[int, int, Json, list[Answer]]] = {}
    verdicts, units, names = Counter[str](), list[list[tuple[str, ...]]](), set[str]()

    def with_labels(number: int, line: int, row: Json, answers: list[Answer]) -> Iterator[Any]:
        by_name: dict[str, list[str]] = defaultdict(list)
        for answer in answers:
            verdicts[answer.verdict] += 1
            if answer.verdict != OMITTED:
                by_name[answer.annotator] += answer.labels if answer.verdict == ACCEPTED else ()
        names.update(by_name)
        units.append([tuple(sorted(set(labels))) for labels in by_name.values()])
        verdicts["disputed"] += len(set(units[-1])) > 1
        for labels in _labels_of(answers, by_name, options, verdicts):
            yield number, line, {**row, options.label_column or "label": labels}

    for number, line, row in rows:
        task = tool(dict(row), options) if isinstance(row, Mapping) else None
        if task is None or not options.labelled:
            yield number, line, row if task is None else task.row
        elif task.key is None:
            yield from with_labels(number, line, task.row, task.answers)
        else:
            tasks.setdefault(task.key, (number, line, task.row, []))[3].extend(task.answers)
    for values in tasks.values():
        yield from with_labels(*values)
    if options.annotators not in (ALL, MAJORITY, *names):
        choices = ", ".join(sorted(names - {""}))
        raise InputError(f"--annotators {options.annotators} is not one of {ALL}, {MAJORITY}, {choices}")
    notes += _notes(units, verdicts)


def _labels_of(
    answers: list[Answer], by_name: dict[str, list[str]], options: ReadOptions, verdicts: Counter[str]
) -> list[Any]:
    """Labels of a text: of all annotators, of one of them, or of the majority; `verdicts` counts ties."""
    several = options.label_separator is not None or any(len(set(labels)) > 1 for labels in by_name.values())
    if options.annotators != MAJORITY:
        named = (labels for name, labels in by_name.items() if options.annotators in (ALL, name))
        chosen = [list(dict.fromkeys(labels)) for labels in named]
        return [labels if several else labels[0] for labels in chosen if labels or several]
    votes = Counter[str]()
    for answer in answers:
        for label in set(answer.labels):
            votes[label] += {ACCEPTED: 1, REJECTED: -1}.get(answer.verdict, 0)
    n, most = len(by_name), max(votes.values(), default=0)
    if not votes:
        return [[] if several and n else None] if n or not answers else []
    if several:
        verdicts["tied"] += any(2 * count == n for count in votes.values())
        return [labels] if (labels := [label for label, count in votes.items() if 2 * count > n]) else []
    best = [label for label, count in votes.items() if 0 < count == most]
    verdicts["tied"] += len(best) > 1
    return best if len(best) == 1 else []


def _notes(units: list[list[tuple[str, ...]]], verdicts: Counter[str]) -> Iterator[str]:
    if verdicts[REJECTED] or verdicts[OMITTED]:
        yield (
            f"answers that are left out: {verdicts[REJECTED]:,} rejected, "
            f"{verdicts[OMITTED]:,} ignored or cancelled"
        )
    if several := sum(len(unit) > 1 for unit in units):
        yield (
            f"{several:,} texts have several annotators: {verdicts['disputed']:,} not unanimous, of which "
            f"{verdicts['tied']:,} have a tie and lose these labels (--annotators); Krippendorff's alpha is "
            f"{krippendorff_alpha(units):.3f}"
        )


# Tools. Each function returns None for a row of another tool.


def _texts(value: Any) -> tuple[str, ...]:
    """Labels of a value: a list of names, a name, or none."""
    values = value if isinstance(value, list) else [value]
    return tuple(str(name) for name in values if name not in (None, ""))


def _prodigy(row: Json, options: ReadOptions) -> Task | None:
    if row.get("answer") not in (ACCEPTED, REJECTED, OMITTED):
        return None
    meta = row["meta"] if isinstance(row.get("meta"), dict) else {}
    named = {"id": meta.get("id", row.get("_task_hash")), "part": meta.get("part")}
    fields = {**row, **{name: value for name, value in named.items() if value is not None}}
    labels = _texts(row["accept"] if isinstance(row.get("accept"), list) else row.get("label"))
    return Task(fields, [Answer(_annotator(row), labels, row["answer"])], row.get("text"))


def _annotator(row: Json) -> str:
    return next((str(row[name]) for name in row if name.lower() in ANNOTATORS and row[name] is not None), "")


def _label_studio(row: Json, options: ReadOptions) -> Task | None:
    data, annotations = row.get("data"), row.get("annotations", row.get("completions")) or []
    if not isinstance(data, dict) or not isinstance(annotations, list) or "text" in row:
        return None
    strings = [name for name, value in data.items() if isinstance(value, str) and name not in ("id", "part")]
    fields = {"id": row.get("id"), **data, **({"text": data[strings[0]]} if len(strings) == 1 else {})}
    answers = list[Answer]()
    for annotation in annotations:
        author = annotation.get("completed_by", "")
        author = author.get("email", author.get("id", "")) if isinstance(author, dict) else author
        labels = _choices(annotation.get("result") or [], options.label_column, row.get("id"))
        cancelled = annotation.get("was_cancelled") or not labels
        answers.append(Answer(str(author), labels, OMITTED if cancelled else ACCEPTED))
    return Task(fields, answers)


def _choices(results: list[Json], control: str | None, identifier: object) -> tuple[str, ...]:
    """Choices of a control of Label Studio, or of the only one."""
    choices: dict[str, tuple[str, ...]] = {}
    for result in results:
        if names := _texts(result.get("value", {}).get("choices", [])):
            name = str(result.get("from_name", ""))
            choices[name] = choices.get(name, ()) + names
    if len(choices) > 1 and control not in choices:
        raise InputError(
            f"the task {identifier!r} of Label Studio has choices of {' and '.join(choices)}; name one of "
            "them with --label"
        )
    return choices.get(control or "", () if len(choices) != 1 else next(iter(choices.values())))


def _argilla(row: Json, options: ReadOptions) -> Task | None:
    fields, responses = row.get("fields"), row.get("responses")
    if "annotation" in row and "annotation_agent" in row:  # version 1
        valid = row["annotation"] is not None and row.get("status") in (None, "Validated")
        verdict = ACCEPTED if valid else OMITTED
        answer = Answer(str(row["annotation_agent"]), _texts(row["annotation"]), verdict)
        return Task({**(row.get("inputs") or {}), **row}, [answer])
    if not isinstance(fields, dict) or not isinstance(responses, dict):
        return None
    if len(responses) > 1 and options.label_column not in responses:
        raise InputError(
            f"Argilla's records have answers to {' and '.join(responses)}; name one with --label"
        )
    responses_to = responses.get(options.label_column or "", next(iter(responses.values()), []))
    answers = [
        Answer(
            str(answer.get("user_id")),
            _texts(answer.get("value")),
            ACCEPTED if answer.get("status", "submitted") == "submitted" else OMITTED,
        )
        for answer in responses_to
    ]
    return Task({"id": row.get("id"), **fields}, answers)


def _doccano(row: Json, options: ReadOptions) -> Task | None:
    answers = row.get("annotations")
    if not isinstance(answers, list) or not all(isinstance(a, dict) and "user" in a for a in answers):
        return None
    return Task(row, [Answer(str(a["user"]), _texts(a.get("label"))) for a in answers])


def _spacy(row: Json, options: ReadOptions) -> Task | None:
    cats = row.get("cats")
    if not isinstance(cats, dict) or not all(isinstance(value, int | float) for value in cats.values()):
        return None
    return Task(row, [Answer("", tuple(name for name, value in cats.items() if value >= 0.5))])


def _chat(row: Json, options: ReadOptions) -> Task | None:
    """The last message of the user is the text, the answer after it the label."""
    name = next((name for name in _CHATS if isinstance(row.get(name), list)), None)
    if name is None:
        return None
    author, content = _CHATS[name]
    messages = [(str(message.get(author)), message.get(content)) for message in row[name]]
    users = [i for i, (role, _) in enumerate(messages) if role in ("user", "human")]
    if not users:
        return Task({**row, "text": None}, [])
    parts = messages[users[-1]][1]
    texts = [part.get("text", "") for part in parts] if isinstance(parts, list) else [parts or ""]
    answer = [text for role, text in messages[users[-1] + 1 :] if role in ("assistant", "gpt")]
    labels = _texts(row.get("label", answer[:1]))
    return Task({**row, "text": "\n".join(texts)}, [Answer("", labels)])


def _table(row: Json, options: ReadOptions) -> Task | None:
    """A row of a table with a column of annotators; rows with equal texts belong together."""
    names = {name.lower(): name for name in row}
    text, label = options.columns.get("text"), options.label_column
    text = text or next((names[usual] for usual in USUAL["text"] if usual in names), None)
    label = label or next((names[usual] for usual in USUAL["label"] if usual in names), None)
    if not _annotator(row) or not isinstance(text, str) or label not in row:
        return None
    labels = _texts(row[label])
    answer = Answer(_annotator(row), labels, ACCEPTED if labels else OMITTED)
    return Task({name: value for name, value in row.items() if name != label}, [answer], row.get(text))


_TOOLS = (_prodigy, _label_studio, _argilla, _doccano, _spacy, _chat, _table)
