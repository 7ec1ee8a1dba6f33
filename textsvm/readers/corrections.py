"""Corrections of labels: decisions on the page of `textsvm doubts`, and those that a model records."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from textsvm.errors import InputError
from textsvm.readers.corpus import Corpus

#: Decisions: the label is right; it is wrong; leave out the document.
KEEP, CHANGE, UNSURE = "keep", "change", "unsure"


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
    names = map(str, corpus.labels or ())
    return [f"{key[:8].hex()} {name}" for key, name in zip(corpus.digests(), names, strict=True)]


def corrected_again(
    corpus: Corpus, corrections: Mapping[str, list[str | None]]
) -> tuple[Corpus, Counter[str], int]:
    """Apply recorded corrections to the documents with the same text and label.

    Returns the corpus, the number of documents of each decision, and the number of corrections of documents
    that are not in the corpus.
    """
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
    return replace(corpus, labels=labels).subset(rest), counts, missing


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
