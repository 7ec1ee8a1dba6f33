"""Decisions of a reviewer about doubtful labels, as the page of `textsvm doubts` saves them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from textsvm.errors import InputError
from textsvm.readers.corpus import Corpus

#: Decisions: the label is right; the label is wrong; leave out the document.
KEEP, CHANGE, UNSURE = "keep", "change", "unsure"


def corrected(corpus: Corpus, path: Path) -> tuple[Corpus, Counter[str]]:
    """Apply the decisions of a JSON Lines file to a corpus with a label for each document.

    Each line has the keys "id", "decision" ("keep", "change" or "unsure"), "label" to change a label, and
    optionally "was", the label of the document, which is then checked.

    Returns
    -------
    corpus : Corpus
        With changed labels, and without the documents that are unsure.
    counts : Counter
        Number of documents of each decision.

    Raises
    ------
    InputError
        If the file cannot be read, or a line is no decision, names an unknown document or label, or repeats a
        document; the message names the line.
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
    known, decided = set(labels), dict[int, tuple[int, str]]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"line {number} of {path}"
        identifier, decision, was, label = _parse(line, where)
        if identifier not in places:
            raise InputError(
                f"{where}: {corpus.source} has no document {identifier!r}; give the files and options that "
                "textsvm doubts was given"
            )
        i = places[identifier]
        if i in decided:
            raise InputError(f"{where}: line {decided[i][0]} is for {identifier!r} too; remove a line")
        if was is not None and was != labels[i]:
            raise InputError(
                f"{where}: the decision is for {identifier!r} with the label {was!r}, which is "
                f"{labels[i]!r} in {corpus.source}; give the file that textsvm doubts was given"
            )
        if decision == CHANGE:
            if label not in known:
                raise InputError(
                    f"{where}: {corpus.source} has no label {label!r}; its labels are "
                    f"{', '.join(sorted(map(str, known)))}"
                )
            labels[i] = label
        decided[i] = number, decision
    rest = [i for i in range(len(corpus)) if decided.get(i, (0, KEEP))[1] != UNSURE]
    counts = Counter(decision for _, decision in decided.values())
    return replace(corpus, labels=labels).subset(rest), counts


def _parse(line: str, where: str) -> tuple[str, str, str | None, str]:
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
