"""Mail filters side by side, on the tasks of TREC's spam track.

SpamAssassin's 6,046 mails one after the other, in the order in which they came and shuffled: each is
classified by a filter that has learnt from earlier ones, and is learnt afterwards (`benchmarks.mail_stream`):
at once, or when 100 more have been classified, or, as TREC 2007 had it, only the first 13 % are (10,000 of
75,419 there). All filters get the same bytes in the same order (`benchmarks.mail_filters` says what each sees
of them); `benchmarks.mail_stream` has the measures.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import SPAM, STAND_INS
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.mail_filters import Contender, Ours, contenders
from benchmarks.mail_stream import Mail, due, lam, mails, misclassified, one_minus_roca, shuffled, spam_missed
from benchmarks.plots import Series, lines
from textsvm.readers import sample

TASKS = ("immediate", "delayed", "first")
ORDERS = ("date", "shuffled")
#: After so many mails the learning curve has a point.
POINTS = (100, 200, 500, 1000, 2000, 4000)
#: TREC 2007 gave feedback for so many of all mails.
FIRST = 10_000 / 75_419
NOTE = (
    "Percent; smaller is better. What a filter is unsure of counts as ham. `(1-ROCA)% at n`: of the first n "
    "mails alone, empty while they are of one kind. Scores: decision values of textsvm and SGD, Bogofilter's "
    "spamicity. Bogofilter is a process for each decision and lesson, as mail programs call it."
)


@dataclass
class Outcome:
    """What a filter said of a stream, in its order."""

    spam: list[bool] = field(default_factory=list)
    called_spam: list[bool] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    deciding: float = 0.0
    learning: float = 0.0
    lessons: int = 0


def trial(contender: Contender, stream: Sequence[Mail], task: str, delay: int) -> Outcome:
    """Take a filter through a stream."""
    outcome = Outcome()
    for i, learnt in due(task, len(stream), delay, round(FIRST * len(stream))):
        clock = time.perf_counter()
        kind, score = contender.classify(stream[i].data)
        outcome.deciding += time.perf_counter() - clock
        outcome.spam.append(stream[i].spam)
        outcome.called_spam.append(kind == "spam")
        outcome.scores.append(score)
        clock = time.perf_counter()
        for j in learnt:
            contender.learn(stream[j])
        outcome.learning += time.perf_counter() - clock
        outcome.lessons += len(learnt)
    return outcome


def row(make: type[Contender], stream: Sequence[Mail], order: str, task: str, delay: int) -> dict[str, Any]:
    """Measures of one filter on one task."""
    contender = make()
    try:
        outcome = trial(contender, stream, task, delay)
        if isinstance(contender, Ours):
            contender.check(list(stream[-20:]))
    finally:
        contender.close()
    return {"filter": contender.name, "order": order, "task": task} | measured(outcome)


def measured(outcome: Outcome) -> dict[str, Any]:
    """The measures, and the learning curve."""
    spam, scores = np.array(outcome.spam), np.array(outcome.scores)
    hm, sm = misclassified(spam, outcome.called_spam)
    curve = {n: one_minus_roca(spam[:n], scores[:n]) for n in POINTS if n < len(spam)}
    return {
        "(1-ROCA)%": one_minus_roca(spam, scores),
        "lam%": lam(hm, sm),
        "hm%": hm,
        "sm%": sm,
        "h=.1%": spam_missed(spam, scores),
        "decisions/s": round(len(spam) / outcome.deciding),
        "lessons/s": round(outcome.lessons / outcome.learning),
        "mails": len(spam),
        "ham": int((~spam).sum()),
    } | {f"(1-ROCA)% at {n}": "" if math.isnan(value) else value for n, value in curve.items()}


def say(line: str) -> None:
    """How far it is."""
    print(line, file=sys.stderr, flush=True)


def picture(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Learning curves, a panel for each order and task; none of the one where learning ends."""
    panels: dict[str, Series] = {}
    for one in rows:
        if one["task"] == "first":
            continue
        points = [(n, one.get(f"(1-ROCA)% at {n}", "")) for n in POINTS] + [(one["mails"], one["(1-ROCA)%"])]
        known = [(float(n), float(value)) for n, value in points if value != "" and value > 0]
        panels.setdefault(f"mails, {one['order']}, {one['task']}", {})[one["filter"]] = known
    lines(path, list(panels.items()), "(1-ROCA)%")


@benchmark(
    "mail",
    "Mail filters on TREC's tasks",
    "reports/mail_trec",
    option("--filters", nargs="+", choices=list(contenders()), default=list(contenders()), recorded=False),
    option("--orders", nargs="+", choices=ORDERS, default=list(ORDERS), recorded=False),
    option("--tasks", nargs="+", choices=TASKS, default=list(TASKS), recorded=False),
    option("--delay", type=int, default=100, help="mails classified before one is learnt"),
    option("--every", type=int, default=1, help="use every EVERY-th mail"),
    quick="use the bundled sample",
    note=NOTE,
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Run every filter over the mails in each order and task."""
    corpus = mails(sample(STAND_INS[SPAM]) if options.quick else data_folder() / SPAM)[:: options.every]
    streams = {"date": corpus, "shuffled": shuffled(corpus)}
    for order in options.orders:
        for task in options.tasks:
            for name in options.filters:
                given = (contenders()[name], streams[order], order, task, options.delay)
                result = report.row(f"{order} {task} {name}", row, *given)
                say(f"{result['filter']}, {order}, {task}: (1-ROCA)% {result['(1-ROCA)%']:.4f}")
    report.rows = dict(sorted(report.rows.items()))
    picture(report.path.with_suffix(".svg"), list(report.rows.values()))
