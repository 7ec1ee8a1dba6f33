"""textsvm mail status, export, import, retrain, report: the lessons as a whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.mail_options import Store, messages, open_filter
from textsvm.cli.output import REPORTS, Force, Kind, Output

if TYPE_CHECKING:
    from textsvm.mail.filter import PriorDecisions, Status

LESSONS = Kind("lessons of textsvm mail", rb'\{"digest": ', ".jsonl")
#: Lessons that `status` shows.
_SHOWN = 5


@options.with_groups
def status(
    store: Store = None,
    check: Annotated[bool, typer.Option("--check", help="Read the whole file, and tell damage.")] = False,
    json: options.Json = False,
) -> None:
    """What the filter has learnt, and how well it foresaw the last lessons."""
    from textsvm.runtime.plain_json import to_json

    with open_filter(store) as opened:
        if check:
            opened.lessons.check()
        found, path = opened.status(), opened.lessons.path
    console = Console()
    if json:
        last = [each._asdict() for each in found.last]
        console.print_json(to_json({"store": str(path), **asdict(found), "last": last}))
        return
    console.table(str(path), [*_facts(found)])
    rows = [
        (_when(each.learnt), each.kind, "" if each.score is None else f"{each.score:.6f}", each.subject)
        for each in found.last[:_SHOWN]
    ]
    if rows:
        console.table("last lessons", rows, ("learnt", "as", "score before", "subject"))


def _facts(found: Status) -> Iterator[tuple[str, str]]:
    yield "lessons", f"{found.spam:,} spam, {found.ham:,} ham"
    if found.most is not None:
        yield "kept at most", f"{found.most:,}"
    yield "holds", "messages and their features" if found.texts else "features of messages, no texts"
    for name, foreseen in (("last lessons", found.recent), ("lessons before", found.before)):
        if foreseen.judged:
            yield f"{name}, as foreseen", _judged(foreseen)


def _judged(foreseen: PriorDecisions) -> str:
    right = foreseen.judged - foreseen.wrong - foreseen.unsure
    shares = (f"{100 * n / foreseen.judged:.0f} %" for n in (right, foreseen.unsure, foreseen.wrong))
    return "of {:,} {} right, {} unsure, {} wrong".format(foreseen.judged, *shares)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


@options.with_groups
def export(
    file: Annotated[Path, typer.Argument(help="Where to write; - is stdout.")],
    store: Store = None,
    force: Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write all lessons as JSON Lines: with their messages, or their features where there are no texts."""
    from textsvm.mail.mailboxes import lesson_line
    from textsvm.runtime.files import replacing

    output = Output("FILE", file, LESSONS, force)
    output.check({})
    n = 0
    with open_filter(store) as opened, output.place() as path, replacing(path) as temporary:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            for n, lesson in enumerate(opened.lessons.iterate(messages=True), 1):  # noqa: B007
                stream.write(lesson_line(lesson))
        if not output.is_stdout and not path.exists():
            path.touch(0o600)  # mail is nobody else's; `replacing` keeps the mode
    Console(quiet).say(f"{n:,} lessons written")


@options.with_groups
def import_(
    file: Annotated[Path, typer.Argument(help="What `export` wrote; - is stdin.")],
    store: Store = None,
    without_texts: Annotated[
        bool, typer.Option("--without-texts", help="A new store keeps features of messages alone.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn the lessons that `export` wrote; what is known already counts once."""
    import sys

    from textsvm.mail.mailboxes import parse_lessons

    stream = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    with stream, open_filter(store, create=True, texts=not without_texts) as opened:
        new = opened.add_lessons(parse_lessons(stream, str(file)))
        counts = opened.lessons.counts()
    Console(quiet).say(
        f"{messages(new)} learnt; there are {counts['spam']:,} spam and {counts['ham']:,} ham now"
    )


@options.with_groups
def retrain(store: Store = None, quiet: options.Quiet = False) -> None:
    """Train anew on all lessons, to the optimum, and calibrate the score on decisions out of fold."""
    with open_filter(store) as opened:
        n = opened.retrain()
    Console(quiet).say(f"trained on {messages(n)}")


@options.with_groups
def report(
    file: Annotated[Path, typer.Argument(help="The report: .html, .md or .json.")],
    store: Store = None,
    mistakes: Annotated[
        int, typer.Option(min=0, help="So many of the worst mistakes with their texts; 0 for none.")
    ] = 10,
    force: Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a report on what the filter said of its lessons before it learnt them."""
    from textsvm.mail.report import filter_report
    from textsvm.reporting.files import write

    kind = REPORTS.get(file.suffix.lower())
    if kind is None:
        raise WrongUsage(f"{file}: a report is .html, .md or .json, and the name ends in none of them")
    Output("FILE", file, kind, force).check({})
    console = Console(quiet)
    with open_filter(store) as opened:
        if mistakes and not opened.lessons.holds_texts:
            console.say("note: the store holds no texts, so the report shows none of the mistakes")
        write(filter_report(opened, mistakes), file)
    console.say(f"report: {file}")
