"""Mail filters after a few lessons: 10, 20 and 50 of each kind.

Orders of SpamAssassin's mails: random ones, and the order of arrival from five starting points, wrapped
around. In each order a filter learns the first mails of each kind and then classifies the next others,
without learning them: by default 1,000, or more up to the first of the other kind if all these are of one
kind. Sums over the five orders; (1-ROCA)% is the mean.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.corpora import SPAM, STAND_INS
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.mail_filters import Contender, contenders
from benchmarks.mail_stream import Mail, mails, one_minus_roca, shuffled
from textsvm.readers import sample

LESSONS = (10, 20, 50)
NOTE = (
    "Lessons: of each kind. Spam caught, ham lost: called spam; spam missed: called ham; others are unsure. "
    "Taught wrong: lessons that the filter does not classify as their kind afterwards. By date: the order of "
    "arrival from five starting points."
)


def few_lessons(stream: Sequence[Mail], n: int, tests: int) -> tuple[list[Mail], list[Mail]]:
    """The first n mails of each kind, in their order, and the next mails that are not among them."""
    kinds = [[i for i, mail in enumerate(stream) if mail.spam == spam][:n] for spam in (True, False)]
    lessons = sorted(kinds[0] + kinds[1])
    learnt = set(lessons)
    others = [mail for i, mail in enumerate(stream) if i not in learnt]
    firsts = [next((i for i, mail in enumerate(others) if mail.spam == spam), 0) for spam in (True, False)]
    return [stream[i] for i in lessons], others[: max(tests, *(first + 1 for first in firsts))]


def row(
    make: type[Contender], order: str, streams: Sequence[Sequence[Mail]], n: int, tests: int
) -> dict[str, Any]:
    """Figures of a filter after n lessons of each kind, over orders."""
    areas, caught, missed, lost, wrong, spam, ham, name = [], 0, 0, 0, 0, 0, 0, ""
    for stream in streams:
        contender = make()
        name = contender.name
        try:
            lessons, others = few_lessons(stream, n, tests)
            for mail in lessons:
                contender.learn(mail)
            decisions = [contender.classify(mail.data) for mail in others]
            wrong += sum((contender.classify(mail.data)[0] == "spam") != mail.spam for mail in lessons)
        finally:
            contender.close()
        kinds = np.array([mail.spam for mail in others])
        called = np.array([kind == "spam" for kind, _ in decisions])
        missed += sum(kind == "ham" for (kind, _), is_spam in zip(decisions, kinds, strict=True) if is_spam)
        areas.append(one_minus_roca(kinds, [score for _, score in decisions]))
        caught, lost = caught + int(called[kinds].sum()), lost + int(called[~kinds].sum())
        spam, ham = spam + int(kinds.sum()), ham + int((~kinds).sum())
    return {
        "filter": name, "order": order, "lessons": n, "(1-ROCA)%": float(np.nanmean(areas)),
        "spam caught": caught, "spam missed": missed, "of spam": spam, "ham lost": lost, "of ham": ham,
        "taught wrong": wrong,
        "(1-ROCA)% of each": " ".join(f"{area:.2f}" for area in areas),
    }  # fmt: skip


@benchmark(
    "mail_few",
    "Mail filters after a few lessons",
    "reports/mail_few",
    option(
        "--orders", type=int, default=5, help="random orders, and starting points in the order of arrival"
    ),
    option("--tests", type=int, default=1000, help="mails classified in each order"),
    quick="use the bundled sample",
    note=NOTE,
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Run the filters after a few lessons in random orders and by date."""
    corpus = mails(sample(STAND_INS[SPAM]) if options.quick else data_folder() / SPAM)
    starts = [round(k * len(corpus) / options.orders) for k in range(options.orders)]
    orders = {
        "random": [shuffled(corpus, seed) for seed in range(options.orders)],
        "by date": [corpus[start:] + corpus[:start] for start in starts],
    }
    filters = {name: make for name, make in contenders().items() if name in ("textsvm", "bogofilter")}
    for order, streams in orders.items():
        for n in LESSONS:
            for name, make in filters.items():
                report.row(f"{order} {n} {name}", row, make, order, streams, n, options.tests)
