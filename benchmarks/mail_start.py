"""Mail filters in their first weeks: the beginnings of several streams, with and without delay.

A stream is an index file as of TREC's public corpora, lines of `spam ../data/inmail.1` in the order of
arrival. In turn each mail is classified, and learnt at once or after `delay` others.
textsvm's figures come from its machine, features and calibration without the store, which is checked against
the filter itself on the first mails; "fit alone" is the calibration without its centre (`decision.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import BenchmarkReport, benchmark, option
from benchmarks.mail_filters import Contender, Ours, contenders
from benchmarks.mail_stream import Mail, due, one_minus_roca
from textsvm.apps.mail.decision import PlattSigmoid, calibrate, fit_sigmoid, new_machine
from textsvm.apps.mail.features import features
from textsvm.apps.mail.message import read_message
from textsvm.errors import InputError

#: Number of first mails of which the filter itself gives the same decisions.
CHECKED = 120
NOTE = (
    "(1-ROCA)% of decision values, of the first 500 mails and of all; score: of P(spam). hs: ham as spam; "
    "ss: spam as spam; sh: spam as ham; the others are unsure. ratio: (1-ROCA)% in units of "
    "Bogofilter's; the rows of all streams have the mean ratio and its standard error over streams."
)


class Machine:
    """The filter without its store."""

    name = "textsvm"

    def __init__(self, *, centred: bool = True) -> None:
        self._machine, self._sigmoid, self._kinds = new_machine(), PlattSigmoid(5.0), set[bool]()
        self._calibrate = calibrate if centred else lambda machine: fit_sigmoid(*machine.left_out())
        self._centred = centred

    def classify(self, data: bytes) -> tuple[str, float, float]:
        """Kind, decision value and score."""
        value = self._machine.decision(*features(read_message(data).text))
        decision = self._sigmoid.decide(value, len(self._kinds) == 2)
        return decision.kind, decision.value if self._centred else value, decision.score

    def learn(self, mail: Mail) -> None:
        """As a Contender."""
        message = read_message(mail.data)
        self._machine.add(message.digest, *features(message.text), mail.spam)
        self._machine.settle(1.0)
        self._kinds.add(mail.spam)
        self._sigmoid = self._calibrate(self._machine)


def stream_of(index: Path, most: int) -> list[Mail]:
    """The first mails of an index file."""
    rows = [line.split(maxsplit=1) for line in index.read_text("utf-8").splitlines()[:most] if line.strip()]
    mails = [Mail(name, (index.parent / name).read_bytes(), kind == "spam") for kind, name in rows]
    if len({mail.spam for mail in mails}) < 2:
        raise InputError(f"{index} has no spam or no ham among its first {most} mails")
    return mails


def check(stream: Sequence[Mail]) -> None:
    """The filter itself gives the same decisions."""
    machine, ours = Machine(), Ours()
    try:
        for mail in stream[:CHECKED]:
            kind, value = ours.classify(mail.data)
            assert kind == machine.classify(mail.data)[0]
            np.testing.assert_allclose(machine.classify(mail.data)[1], value, atol=2e-3)
            machine.learn(mail)
            ours.learn(mail)
    finally:
        ours.close()


def figures(filter: Machine | Contender, stream: Sequence[Mail], delay: int) -> dict[str, Any]:
    """Take a filter through a stream; its measures."""
    spam, decisions = np.array([mail.spam for mail in stream]), []
    for i, learnt in due("delayed", len(stream), delay, 0):
        decisions.append(filter.classify(stream[i].data))
        for k in learnt:
            filter.learn(stream[k])
    kinds = np.array([row[0] for row in decisions])
    values, scores = ([row[place] for row in decisions] for place in (1, -1))
    return {
        "@500": one_minus_roca(spam[:500], values[:500]),
        "(1-ROCA)%": one_minus_roca(spam, values),
        "score": one_minus_roca(spam, scores),
        "hs": int(((kinds == "spam") & ~spam).sum()), "ham": int((~spam).sum()),
        "ss": int(((kinds == "spam") & spam).sum()),
        "sh": int(((kinds == "ham") & spam).sum()), "spam": int(spam.sum()),
    }  # fmt: skip


@benchmark(
    "mail_start",
    "Mail filters in their first weeks",
    "reports/mail_start",
    option("--streams", type=Path, nargs="+", required=True, help="index files of streams"),
    option("--mails", type=int, default=1500, help="first mails of each stream"),
    option("--delays", type=int, nargs="+", default=[0, 100], help="mails between decision and lesson"),
    note=NOTE,
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Run the filters on the streams."""
    makers: dict[str, Callable[[], Machine | Contender]] = {
        "textsvm": Machine,
        "textsvm, fit alone": lambda: Machine(centred=False),
    }
    makers |= {name: make for name, make in contenders().items() if name == "bogofilter"}
    ratios: dict[tuple[str, int, str], list[float]] = {}
    for index in options.streams:
        stream = stream_of(index, options.mails)
        check(stream)
        for delay in options.delays:
            results = {name: figures(make(), stream, delay) for name, make in makers.items()}
            bogofilter = results.get("bogofilter", {})
            for name, result in results.items():
                for measure in ("@500", "(1-ROCA)%") if bogofilter else ():
                    ratio = result[f"ratio {measure}"] = result[measure] / bogofilter[measure]
                    ratios.setdefault((name, delay, measure), []).append(ratio)
                row = {"stream": index.parent.name, "delay": delay, "filter": name, **result}
                report.row(f"{index.parent.name} {delay} {name}", dict, row)
    for (name, delay, measure), values in ratios.items():
        error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        mean = {f"ratio {measure}": f"{np.mean(values):.3f} ({error:.3f})"}
        row = {"stream": "all", "delay": delay, "filter": name, **mean}
        report.row(f"all {delay} {name} {measure}", dict, row)
