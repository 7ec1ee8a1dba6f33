"""Report on a filter: its decisions on lessons before it learnt them."""

from __future__ import annotations

import numpy as np

from textsvm import evaluate
from textsvm.apps.mail.decision import Decision, DecisionModel, calibrate, kind_of, new_machine
from textsvm.apps.mail.features import character_contributions, word_contributions
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.lessons import Lesson
from textsvm.apps.mail.message import read_message
from textsvm.errors import InputError
from textsvm.evaluation.explanation import AttributionMethod, Explanation, Substring
from textsvm.reporting.files import SavedReport
from textsvm.reporting.report import Mistake, worst
from textsvm.version import __version__

_CONTRIBUTIONS = AttributionMethod(
    "substrings",
    "contribution of each character to the decision value of the present filter, which has learnt the mail",
)
_WORDS = 12  #: Words that are shown of a mistake


def filter_report(opened: Filter, mistakes: int = 10) -> SavedReport:
    """Build a report that shows the worst mistakes with their texts, if the store holds texts."""
    opened.lessons.check_rows()
    model, lessons = opened.model(), list(opened.lessons.iterate())
    if len({lesson.kind for lesson in lessons if lesson.value is not None}) < 2:
        lessons = out_of_fold(lessons)  # all of one kind were learnt first
    scored = [(lesson, lesson.score, lesson.value or 0.0) for lesson in lessons if lesson.score is not None]
    judged = [(lesson, Decision(kind_of(score), score, value)) for lesson, score, value in scored]
    kinds = [lesson.kind for lesson, _ in judged]
    if len(set(kinds)) < 2:
        raise InputError("there is nothing to report: learn more messages, spam and ham")
    scores, values = np.array([decision[1:3] for _, decision in judged]).T
    predicted = np.where(values > 0, "spam", "ham")
    probability = np.column_stack([1 - scores, scores])
    results = evaluate(kinds, predicted, values, ["ham", "spam"], probability=probability).with_intervals()
    shown = worst(results, mistakes if opened.lessons.holds_texts else 0)
    counts = opened.lessons.counts()
    pairs = [(lesson.kind, decision.kind) for lesson, decision in judged]
    return SavedReport(
        title="Decisions of the filter on its lessons before it learnt them",
        results=results,
        facts=[
            ("machine", "linear SVM on strings of bytes, kept at its optimum"),
            ("lessons", f"{counts['spam']:,} spam, {counts['ham']:,} ham"),
            ("documents judged", f"{results.n:,}, each before it was learnt or out of fold"),
            ("called unsure", f"{sum(kind == 'unsure' for _, kind in pairs):,}"),
            ("ham called spam", f"{pairs.count(('ham', 'spam')):,}"),
            ("spam called ham", f"{pairs.count(('spam', 'ham')):,}"),
            ("written by", f"textsvm {__version__}"),
        ],
        lengths=np.array([len(lesson.keys) for lesson, _ in judged], np.int64),
        mistakes=[_mistake(opened, *judged[i], str(results.predicted[i]), model) for i in shown],
    )


def out_of_fold(lessons: list[Lesson], folds: int = 5) -> list[Lesson]:
    """The lessons with decisions of machines that were trained without them; None if there are too few."""
    decided = [lesson._replace(value=None, score=None) for lesson in lessons]
    fold = np.random.default_rng(0).permutation(len(lessons)) % folds
    for k in range(folds):
        machine = new_machine()
        training = [lesson for lesson, part in zip(lessons, fold, strict=True) if part != k]
        if len({lesson.kind for lesson in training}) < 2:
            continue
        for lesson in training:
            machine.add(lesson.digest, lesson.keys, lesson.values, lesson.kind == "spam", lesson.alpha)
        machine.settle()
        sigmoid = calibrate(machine)
        for i in np.flatnonzero(fold == k):
            decision = sigmoid.decide(machine.decision(lessons[i].keys, lessons[i].values))
            decided[i] = lessons[i]._replace(value=decision.value, score=decision.score)
    return decided


def _mistake(opened: Filter, lesson: Lesson, decision: Decision, label: str, model: DecisionModel) -> Mistake:
    text = read_message(opened.lessons.get(lesson.digest).message or b"").text
    words = word_contributions(text, model.weights)[:_WORDS]
    text, contributions = character_contributions(text, model.weights)
    substrings = [Substring(word, 1, value) for word, value in words]
    explanation = Explanation(
        prediction=label, towards="spam", against="ham", value=decision.value, bias=0.0, text=text,
        symbols=contributions, method=_CONTRIBUTIONS, substrings=substrings, similar=[],
    )  # fmt: skip
    name = f"{lesson.subject or 'no subject'} ({lesson.sender or 'no sender'})"
    return Mistake(name, lesson.kind, label, decision.value, text, explanation)
