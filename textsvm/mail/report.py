"""The project's report on a filter: what it said of its lessons before it learnt them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import textsvm
from textsvm.errors import InputError
from textsvm.evaluation.explanation import Explanation, Substring
from textsvm.evaluation.results import Results, evaluate
from textsvm.kernels.attribution import Attribution
from textsvm.mail.decision import Decision, decision
from textsvm.mail.decision import DecisionModel as Known
from textsvm.mail.features import WeightVector as Weights
from textsvm.mail.features import character_contributions as shares_of
from textsvm.mail.features import word_contributions as words_of
from textsvm.mail.filter import Filter
from textsvm.mail.lessons import Lesson
from textsvm.mail.message import read_message
from textsvm.reporting.report import Mistake, Report, worst

_SHARES = Attribution(
    "substrings",
    "what each character adds to the decision value of the filter as it is now, when it has learnt them",
    exact=True,
)
#: Words that are shown of a mistake.
_WORDS = 12


@dataclass(frozen=True)
class _JudgedLesson:
    """A lesson and what was said of it."""

    lesson: Lesson
    said: Decision


def filter_report(opened: Filter, mistakes: int = 10) -> Report:
    """Put together a report.

    Parameters
    ----------
    opened : Filter
    mistakes : int
        How many of the worst are shown with their texts, if the store holds texts.

    Raises
    ------
    InputError
        If the filter had no opinion of lessons of both kinds before it learnt them.
    """
    known = opened.known()
    weights, judged = known.weights, _judged(opened, known)
    kinds = [each.lesson.kind for each in judged]
    if len(set(kinds)) < 2:
        raise InputError(
            "there is nothing to report: the filter must have judged spam and ham before it learnt them; "
            "learn more of both, or run textsvm mail retrain"
        )
    values = np.array([each.said.value for each in judged])
    scores = np.array([each.said.score for each in judged])
    classes = np.array(["ham", "spam"])
    results = evaluate(
        kinds,
        classes[(values > 0).astype(int)],
        values,
        classes,
        positive="spam",
        probability=np.column_stack([1 - scores, scores]),
    ).with_intervals()
    shown = worst(results, mistakes if opened.lessons.holds_texts else 0)
    found = [_mistake(opened, judged[i], results.predicted[i], weights) for i in shown]
    lengths = np.array([len(each.lesson.keys) for each in judged], np.int64)
    title = "What the filter said of its lessons before it learnt them"
    return Report(title, results, _facts(opened, judged, results), lengths, found)


def _judged(opened: Filter, known: Known) -> list[_JudgedLesson]:
    return [
        _JudgedLesson(each, decision(each.value, known.calibration))
        for each in opened.lessons.read()
        if each.value is not None
    ]


def _mistake(opened: Filter, judged: _JudgedLesson, predicted: Any, weights: Weights) -> Mistake:
    lesson = opened.lessons.get(judged.lesson.digest)
    found = read_message(lesson.message or b"")
    text, shares = shares_of(found.text, weights)
    words = [Substring(word, 1, share) for word, share in words_of(found.text, weights)[:_WORDS]]
    explanation = Explanation(
        str(predicted), "spam", "ham", judged.said.value, 0.0, text, shares, _SHARES, words, []
    )
    name = f"{lesson.subject or 'no subject'} ({lesson.sender or 'no sender'})"
    return Mistake(name, lesson.kind, str(predicted), judged.said.value, text, explanation)


def _facts(opened: Filter, judged: list[_JudgedLesson], results: Results) -> list[tuple[str, str]]:
    counts = opened.lessons.counts()
    unsure = sum(each.said.kind == "unsure" for each in judged)
    said = [(each.lesson.kind, each.said.kind) for each in judged]
    return [
        ("machine", "linear SVM on strings of bytes, kept at its optimum"),
        ("lessons", f"{counts['spam']:,} spam, {counts['ham']:,} ham"),
        ("documents judged", f"{results.n:,}, each before it was learnt or out of fold"),
        ("called unsure", f"{unsure:,}"),
        ("ham called spam", f"{said.count(('ham', 'spam')):,}"),
        ("spam called ham", f"{said.count(('spam', 'ham')):,}"),
        ("written by", f"textsvm {textsvm.__version__}"),
    ]
