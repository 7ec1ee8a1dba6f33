"""Answers on disk: the journal of `textsvm label`, and the file of labels that `textsvm train` reads.

The journal, LABELS.journal beside the file of labels, only grows; docs/tasks/label.md has its format. Answers
are in it, and synchronised with the disk, before the page goes on. Answers of several people stand beside
each other; the label that counts follows from them (`Journal.decided`). A line that a crash has cut off is
removed.

The file of labels follows from the journal: a new answer is appended, a changed answer writes the file anew.

`read_labelled` reads labelled texts of other programs as `read_corpus` does; `FORMATS` writes some of them.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any

from textsvm import Corpus, read_corpus
from textsvm.arrays import Json
from textsvm.errors import InputError, MissingColumn, json_escaped, one_line, os_errors
from textsvm.reporting.tables import DIALECTS, json_line, line_of, restored
from textsvm.runtime.files import replacing, sync_folder, try_lock
from textsvm.runtime.plain_json import checked_line, read_line

Labels = str | list[str] | None
#: Values of "chosen", how a text got its first answer: drawn at random (the test part), picked by the user,
#: as a near-copy of an answered text, or from a file; otherwise by the strategy.
RANDOM, USER, COPY, IMPORT = "random", "user", "copy", "import"
#: Values of "chosen" of another answer: to measure agreement, in doubt, or after a disagreement.
SECOND, DOUBT, DECISION = "second", "doubt", "decision"
WITHDRAWN = False


@dataclass(frozen=True)
class JournalEntry:
    """Label of a text; None: unsure."""

    id: str
    digest: str  #: Of the text
    label: Labels
    chosen: str
    copy_of: str | None = None  #: Id of the text whose label a near-copy got
    part: str | None = None  #: Part in the file that it is from, "test" or "copy"
    by: str | None = None  #: Name of the person
    at: str | None = None  #: Time

    @property
    def voice(self) -> str | None:
        """Whose answer it is: a name, None of a person without a name, or "" of a decision."""
        return "" if self.chosen == DECISION else self.by or None

    @property
    def is_test(self) -> bool:
        """Whether the text belongs to the test part."""
        return self.chosen == RANDOM or self.part == "test"


def text_digest(text: str) -> str:
    """Digest by which a changed text is recognised."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class PageError(InputError):
    """A message for the page, which translates it and puts the values in."""

    def __init__(self, message: str, *values: object) -> None:
        self.message, self.values = message, [one_line(str(value)) for value in values]
        super().__init__(message.format(*self.values))


class Journal:
    """Answers of a corpus, locked against other processes until `close`.

    `path` is that of the file of labels; with `replace` it is replaced if it has no journal. `multilabel`,
    whether answers are lists of labels, must not change from run to run. InputError if the journal is in use,
    damaged, of other answers, or missing beside a file of labels.
    """

    def __init__(self, path: Path, multilabel: bool, replace: bool = False) -> None:
        self.path, self.journal_path = path, journal_of(path)
        self.answers: dict[str, JournalEntry] = {}  #: The answers that count, by id, the latest last
        #: The latest answers of each voice, with their places in the journal, by id, the latest last
        self.own: dict[str | None, dict[str, tuple[int, JournalEntry]]] = defaultdict(dict)
        #: All answers to each text that are not withdrawn, with their places in the journal; texts in the
        #: order of their first answers.
        self.history: dict[str, list[tuple[int, JournalEntry]]] = {}
        #: Number of answers of each voice to each text, withdrawals included
        self.revisions: Counter[tuple[str, str | None]] = Counter()
        self.separated: set[str] = set()  #: Near-copies that are to be answered by themselves
        self.alike: dict[str, set[str]] = {}  #: Near-copies of each text, and the text
        #: Ids with each label that was ever recorded, as JSON
        self._recorded: set[tuple[str, str]] = set()
        self._n_lines = self._size = 0  #: Lines, and bytes, that are on disk
        self.changed: dict[str, None] = {}  #: Ids of texts with new answers; the reader empties it
        self.labels: list[str] = []
        self._removed: set[str] = set()
        self.events = 0
        #: Texts by id, and bytes of the file of labels as it was last written; -1: it could not be written
        self._text: Callable[[str], str] | None = None
        self._n_bytes = -1
        if not replace and path.exists() and path.stat().st_size and not self.journal_path.exists():
            raise InputError(
                f"{path} is there without its journal, {self.journal_path.name}; bring it back, take "
                f"another -o and --import {path}, or replace it with --force"
            )
        with os_errors(f"cannot write {self.journal_path}"):
            self._file = open(self.journal_path, "a+b", buffering=0)  # noqa: SIM115 (until `close`)
        if not try_lock(self._file.fileno()):
            self._file.close()
            raise InputError(f"{path} is written by another `textsvm label`; use its page, or another -o")
        try:
            self.repaired = self._read(multilabel, replace)
        except BaseException:
            self.close()
            raise

    def _read(self, multilabel: bool, replace: bool) -> bool:
        """Read all lines; whether a cut-off line was removed."""
        self._file.seek(0)
        *lines, rest = self._file.read().split(b"\n")
        # A last line without its end, or with another byte there, is complete if its digest fits.
        whole = [line for line in (rest, rest[:-1]) if _is_whole(line, len(lines) + 1)]
        for number, line in enumerate([*lines, *whole], 1):
            self._read_line(number, line, multilabel)
        if self._n_lines > 1 or not replace:
            self._check_labels()
        self._size = sum(len(line) + 1 for line in lines)
        if rest:
            self._write(b"".join(line + b"\n" for line in whole))
        if not self._n_lines:
            self._append([{"textsvm label": 1, "multilabel": multilabel}])
            sync_folder(self.journal_path.parent)
        return bool(rest) and not whole

    def _read_line(self, number: int, line: bytes, multilabel: bool) -> None:
        try:
            event = read_line(line, number)
        except ValueError as error:
            raise InputError(
                f"line {number} of {self.journal_path} is damaged, moved or edited; restore the file from a "
                f"copy, or take another -o and --import {self.path}"
            ) from error
        self._n_lines = number
        if number > 1:
            self._apply(event)
        elif event["multilabel"] != multilabel:
            raise InputError(
                f"{self.path} was begun {'without' if multilabel else 'with'} --multilabel; give the options "
                "of the first time, or take another -o"
            )

    def _check_labels(self) -> None:
        """InputError if the file of labels has an answer that the journal lacks."""
        for line in self.path.read_bytes().split(b"\n") if self.path.is_file() else ():
            try:
                row = json.loads(line)
                answer = row["id"], json.dumps(row["label"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if answer not in self._recorded and row["label"] is not None:  # a tie has none
                raise InputError(
                    f"{self.path} has an answer to {row['id']!r} that {self.journal_path.name} lacks; "
                    f"restore the journal from a copy, or take another -o and --import {self.path.name}"
                )

    def _apply(self, event: Json) -> None:
        self.events += 1
        if "labels" in event:
            before, self.labels = self.labels, event["labels"]
            self._removed = self._removed.union(before).difference(self.labels)
            return
        answer = JournalEntry(**event)
        self.changed[answer.id] = None
        self.revisions[answer.id, answer.voice] += 1
        if (original := answer.copy_of) is not None:
            alike = self.alike.get(answer.id, {answer.id}) | self.alike.get(original, {original})
            self.alike.update(dict.fromkeys(alike, alike))
        if answer.label is WITHDRAWN:
            self._take_back(answer)
            return
        self._recorded.add((answer.id, json.dumps(answer.label)))
        self.history.setdefault(answer.id, []).append((self.events, answer))
        self._stand(self.events, answer)

    def _stand(self, place: int, answer: JournalEntry) -> None:
        """Make an answer the latest of its voice, and of all."""
        own = self.own[answer.voice]
        own.pop(answer.id, None)
        own[answer.id] = place, answer
        self.answers.pop(answer.id, None)
        if (decided := self.decided(answer.id)) is not None:
            self.answers[answer.id] = decided

    def decided(self, name: str) -> JournalEntry | None:
        """The answer to a text that counts: a decision, or that of most people; a tie has no label.

        Answers without a name count if no named person has answered.
        """
        named = [own[name] for voice, own in self.own.items() if voice and name in own]
        entries = named or [own[name] for own in (self.own[None],) if name in own]
        if not entries:
            return None
        _, first = min(entries, key=lambda entry: (entry[1].chosen in (SECOND, DOUBT), entry[0]))
        if decision := self.own[""].get(name):
            return replace(first, label=decision[1].label)
        return replace(first, label=majority([answer.label for _, answer in entries]))

    @property
    def people(self) -> list[str]:
        """Names of the people with answers."""
        return [voice for voice, own in self.own.items() if voice and own]

    def answers_of_people(self, name: str) -> dict[str, JournalEntry]:
        """The answer of each named person to a text, unsure and those of near-copies included."""
        return {voice: own[name][1] for voice, own in self.own.items() if voice and name in own}

    def _take_back(self, answer: JournalEntry) -> None:
        """Bring the answer of a voice before its latest back, in its place, if there is one."""
        entries, voice = self.history.get(answer.id, []), answer.voice
        places = [i for i, (_, entry) in enumerate(entries) if entry.voice == voice]
        for place in places[-1:]:
            del entries[place]
        self.own[voice].pop(answer.id, None)
        self.answers.pop(answer.id, None)
        if entries:
            order = sorted((item for items in self.history.values() for item in items), key=itemgetter(0))
            latest = {(entry.voice, entry.id): (place, entry) for place, entry in order}
            self.own.clear()
            self.answers.clear()
            for place, entry in sorted(latest.values(), key=itemgetter(0)):
                self._stand(place, entry)
        else:
            self.history.pop(answer.id, None)
        original = self.answers.get(answer.copy_of or "")
        if len(places) < 2 and original is not None and original.label is not None:
            self.separated.add(answer.id)

    def _append(self, events: Iterable[Json]) -> None:
        """Append lines, all on disk before the return."""
        lines = [checked_line(event, self._n_lines + number) for number, event in enumerate(events, 1)]
        self._write("".join(lines).encode())
        self._n_lines += len(lines)

    def _write(self, data: bytes) -> None:
        rest = data
        try:
            self._file.truncate(self._size)  # behind it is a write that failed
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
            self._size += len(data)
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self._size)
            raise PageError("cannot write {0}: {1}", self.journal_path, error.strerror or error) from error

    def with_labels(self, names: Sequence[str]) -> list[str]:
        """The recorded labels, then other names that were not removed on the page."""
        return list(dict.fromkeys([*self.labels, *(name for name in names if name not in self._removed)]))

    def set_labels(self, labels: Sequence[str]) -> None:
        """Record the labels that a text may have."""
        if list(labels) != self.labels:
            self._record([{"labels": list(labels)}])

    def _record(self, events: list[Json]) -> None:
        self._append(events)
        for event in events:
            self._apply(event)

    def add(self, answers: Sequence[JournalEntry], text: Callable[[str], str]) -> None:
        """Record answers; ``text(id)`` is the text of an id, for the file of labels."""
        new = not any(entry.id in self.answers or entry.id in self.alike for entry in answers)
        self._record([_event(entry) for entry in answers])
        ids = dict.fromkeys(entry.id for entry in answers)
        self._write_labels([self.answers[name] for name in ids] if new else None, text)

    def withdraw(self, ids: Iterable[str], text: Callable[[str], str], by: str | None = None) -> None:
        """Record that the latest answers of a voice to some texts no longer hold."""
        self._record([_event(self.own[by][name][1]) | {"label": WITHDRAWN} for name in ids])
        self._write_labels(None, text)

    def _write_labels(self, new: list[JournalEntry] | None, text: Callable[[str], str]) -> None:
        """Append new answers to the file of labels (None: write it anew); `close` repeats what fails."""
        try:
            if new is None or not self._is_whole():
                self.write_labels(text)
            else:
                with open(self.path, "a", encoding="utf-8", newline="\n") as stream:
                    stream.writelines(self._label_lines(new, text))
                self._n_bytes = self.path.stat().st_size
        except (OSError, InputError):
            self._text, self._n_bytes = text, -1

    def write_labels(self, text: Callable[[str], str]) -> None:
        """Write the file of labels anew, all of it or nothing."""
        lines = self._label_lines(self.answers.values(), text)
        with replacing(self.path) as place, open(place, "w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(lines)
        self._text, self._n_bytes = text, self.path.stat().st_size

    def _is_whole(self) -> bool:
        """Whether the file of labels is there as it was written."""
        return self.path.is_file() and self.path.stat().st_size == self._n_bytes

    def _label_lines(self, answers: Iterable[JournalEntry], text: Callable[[str], str]) -> Iterator[str]:
        """Lines of the file of labels, with the part: test, copy for near-copies of its texts, or train.

        Of several people it has all answers, and the label with the most answers; that of a tie is null.
        """
        named = bool(self.people)
        for answer in answers:
            of_people = self.answers_of_people(answer.id) or {"": answer} if named else {}
            if answer.label is None and len({unordered(entry.label) for entry in of_people.values()}) < 2:
                continue
            part = "test" if answer.is_test else "train"
            alike = (self.answers.get(name) for name in self.alike.get(answer.id, ()))
            if part == "train" and (answer.part == COPY or any(e is not None and e.is_test for e in alike)):
                part = COPY
            row: Json = {"id": answer.id, "label": answer.label, "chosen": answer.chosen, "part": part}
            if of_people:
                row["majority"] = majority([entry.label for entry in of_people.values()])
                row |= {"decided": True} if answer.label is None and answer.id in self.own[""] else {}
                row["answers"] = {name: e.label for name, e in of_people.items() if e.label is not None}
            yield json_line({**row, "text": text(answer.id)})

    def write_late(self) -> None:
        """Write the file of labels if that has failed, or another program has removed it."""
        if self._text is not None and not self._is_whole():
            self.write_labels(self._text)

    def close(self) -> None:
        """Release the lock; an InputError if the file of labels could not be written."""
        try:
            self.write_late()
            self._text = None
        finally:
            self._file.close()


def _event(answer: JournalEntry) -> Json:
    always = ("id", "digest", "label", "chosen")
    return {name: value for name, value in asdict(answer).items() if name in always or value is not None}


def majority(labels: Iterable[Labels]) -> Labels:
    """The label with the most answers, in one of its orders; None if there are several, or none."""
    answers = [label for label in labels if label is not None]
    named = {unordered(label): label for label in answers}
    votes = Counter(map(unordered, answers))
    most = [label for key, label in named.items() if votes[key] == max(votes.values())]
    return most[0] if len(most) == 1 else None


def unordered(label: Labels) -> str | tuple[str, ...] | None:
    """Label for comparisons: several labels have no order."""
    return tuple(sorted(label)) if isinstance(label, list) else label


def _is_whole(line: bytes, number: int) -> bool:
    try:
        read_line(line, number)
    except ValueError:
        return False
    return True


# Files of labelled texts
SEPARATOR = ";"  #: Separator of several labels in a cell of CSV, as `--label-separator` of `textsvm train`


@dataclass(frozen=True)
class LabelledText:
    """A text with its label, or with a list of labels; None: several people do not agree."""

    id: str
    text: str
    label: Labels
    part: str | None = None
    answers: dict[str, str | list[str]] = field(default_factory=dict)  #: By the names of people
    decided: bool = False  #: Whether somebody has decided that no label counts

    @property
    def decision(self) -> Labels:
        """The label, if it is not that of most people."""
        most = unordered(majority(self.answers.values()))
        return self.label if self.answers and unordered(self.label) != most else None


def read_labelled(path: Path, **options: Any) -> list[LabelledText]:
    """Read labelled texts, also exports of other programs; `options` are those of `read_corpus`."""
    answers = defaultdict[tuple[str, str], dict[str, str | list[str]]](dict)
    first = dict[tuple[str, str], LabelledText]()  # by id and text: a text may be there twice
    try:
        texts, trouble = labelled_of(read_corpus(path, **options)), None
    except InputError as error:  # perhaps nobody agrees
        texts, trouble = [], error
    with suppress(InputError if trouble else MissingColumn):  # without annotators
        named = read_corpus(path, **options | {"annotators": "all", "group": "annotator", "keep_rows": True})
        for text, name, row in zip(labelled_of(named), named.groups or (), named.rows or (), strict=True):
            text = replace(text, decided=bool((row or {}).get("decided")))
            if name != "\0" and text.label is not None:  # of an annotator without a name
                original, _, number = text.id.rpartition("#")  # the reader numbers an id that comes again
                again = number.isdecimal() and (original, text.text) in first
                key = original if again else text.id, text.text
                answers[key][name] = text.label
                first.setdefault(key, text)
    if trouble and not first:
        raise trouble
    read = {(text.id, text.text) for text in texts}
    texts += [replace(text, label=None) for key, text in first.items() if key not in read]
    texts = [replace(text, answers=answers.get((text.id, text.text), {})) for text in texts]
    if any(len(names_of(label)) != 1 for label in _all_labels(texts)):
        return texts
    texts = [replace(text, label=next(iter(names_of(text.label)), None)) for text in texts]
    return [replace(x, answers={name: names_of(y)[0] for name, y in x.answers.items()}) for x in texts]


def with_restored(texts: Sequence[LabelledText]) -> list[LabelledText]:
    """Texts of a table, and copies of those with an apostrophe before a formula, as they were before."""

    def before(label: Labels) -> Labels:
        if isinstance(label, list):  # the apostrophe is before the cell of all labels
            return restored(SEPARATOR.join(label)).split(SEPARATOR)
        return label and restored(label)

    copies = (replace(text, text=restored(text.text), label=before(text.label)) for text in texts)
    return [*texts, *(copy for copy, text in zip(copies, texts, strict=True) if copy != text)]


def labelled_of(corpus: Corpus) -> list[LabelledText]:
    """Texts of a corpus with their labels."""
    if corpus.labels is None:
        raise InputError(f"{corpus.source} has no labels; name their column with --label")
    rows = zip(corpus.ids, corpus.texts, corpus.labels, corpus.part, strict=True)
    return [
        LabelledText(identifier, text, label if isinstance(label, str) else list(label), part)
        for identifier, text, label, part in rows
    ]


def journal_of(path: Path) -> Path:
    """The journal of a file of labels."""
    return path.with_name(path.name + ".journal")


def names_of(label: Labels) -> list[str]:
    """All labels of an answer."""
    return [label] if isinstance(label, str) else label or []


def _all_labels(texts: Sequence[LabelledText]) -> list[str | list[str]]:
    """The labels of all texts and people."""
    labels = (label for text in texts for label in (text.label, *text.answers.values()))
    return [label for label in labels if label is not None]


def _jsonl(texts: Sequence[LabelledText]) -> str:
    named, lines = any(text.answers for text in texts), list[str]()
    for text in texts:
        row = _ids(text) | {"label": text.label}
        if named:
            answers = text.answers or {"": text.label or ""}
            row |= {"majority": majority(answers.values()), "answers": answers}
        if text.decided:
            row["decided"] = True
        lines.append(json_line(row | {"text": text.text}))
    return "".join(lines)


def _csv(texts: Sequence[LabelledText]) -> str:
    for label in _all_labels(texts):
        if isinstance(label, list) and SEPARATOR in "".join(label):
            raise InputError(
                f"a label of {label} has a {SEPARATOR}, which separates labels in CSV: write .jsonl"
            )
    rows: list[list[object]] = [["id", "label", "part", "text"]]
    rows += ([x.id, names_of(x.label), x.part, x.text] for x in texts if x.label is not None)
    lines = (line_of(row, *DIALECTS["csv"]) + "\n" for row in rows)
    return "".join(lines).encode("utf-8", "replace").decode()


def _labelstudio(texts: Sequence[LabelledText]) -> str:
    choice = "multiple" if any(isinstance(label, list) for label in _all_labels(texts)) else "single"

    def annotation(label: Labels, **about: object) -> Json:
        value = {"choices": names_of(label), "choice": choice}
        return about | {
            "result": [{"from_name": "label", "to_name": "text", "type": "choices", "value": value}]
        }

    tasks = []
    for number, text in enumerate(texts, 1):
        annotations = [
            annotation(x, completed_by={"email": name}) if name else annotation(x)
            for name, x in text.answers.items()
        ]
        if not text.answers:
            annotations.append(annotation(text.label))
        if text.decision is not None:
            annotations.append(annotation(text.label, ground_truth=True))
        tasks.append({"id": number, "data": _ids(text) | {"text": text.text}, "annotations": annotations})
    return json_escaped(json.dumps(tasks, ensure_ascii=False, indent=1)) + "\n"


def _ids(text: LabelledText) -> Json:
    return {"id": text.id} if text.part is None else {"id": text.id, "part": text.part}


#: Writers by the suffix of the file; .json is Label Studio's.
FORMATS: dict[str, Callable[[Sequence[LabelledText]], str]] = {
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".json": _labelstudio,
}
