"""textsvm mail learn, unlearn, relearn, status, export, import, retrain, report: the training messages."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import options
from textsvm.cli.console import Console
from textsvm.cli.options import option
from textsvm.cli.output import Force, Kind, Output, check_figures, check_report
from textsvm.errors import InputError
from textsvm.mail.raw_message import RawMessage
from textsvm.runtime.files import replacing

if TYPE_CHECKING:
    from textsvm.mail.filter import Filter, PriorDecisions, Status


MessageKind = Enum("MessageKind", {"spam": "spam", "ham": "ham"})

Store = Annotated[
    Path | None,
    option(
        "Folder of the mail store.",
        envvar="TEXTSVM_MAIL", metavar="DIR", show_default="~/.local/share/textsvm",
    ),
]  # fmt: skip
Messages = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES",
        help="Messages: files, mboxes, Maildirs, folders; - is a message on stdin.",
        show_default="-",
    ),
]
As = Annotated[MessageKind, option("Class of the messages.", "--as", show_default=False)]
LESSONS = Kind("lessons of textsvm mail", rb'\{"digest": ', ".jsonl")
#: Number of messages that `status` lists.
_SHOWN = 5
WithoutTexts = Annotated[
    bool,
    option(
        "Create a store of features without texts. It cannot show or export messages, nor use features of "
        "later versions.",
        "--without-texts",
    ),
]


def open_filter(store: Path | None, **options: Any) -> Filter:
    """Open the filter of a store, by default that of the user."""
    from textsvm.mail.filter import Filter

    return Filter(store, **options)


def read_messages(files: list[str] | None) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the given messages."""
    for file in files or ["-"]:
        if file == "-":
            yield "-", sys.stdin.buffer.read()
        else:
            from textsvm.mail.mailboxes import raw_messages

            yield from raw_messages(file)


def messages(n: int) -> str:
    """Number of messages in words."""
    return f"{n:,} message" + "s" * (n != 1)


@options.with_groups
def learn(
    kind: As,
    files: Messages = None,
    store: Store = None,
    without_texts: WithoutTexts = False,
    most: Annotated[
        int | None, option("Keep at most N messages from now on; remove redundant ones.", min=2, metavar="N")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Learn messages as spam or ham. Known messages are not learnt twice, or are moved from the other class.

    When the command ends the messages are on disk, and the next decision uses them.
    """
    from textsvm.mail.mailboxes import size_of

    console = Console(quiet)
    size = sum(size_of(file) for file in files or [] if file != "-")
    n = done = empty = 0

    def counted() -> Iterator[RawMessage]:
        nonlocal n, done, empty
        for _, data in read_messages(files):
            message = RawMessage(data)
            n, empty = n + 1, empty + message.is_empty
            yield message
            done += len(data)
            console.stage("learn", min(done, size), size)

    with open_filter(store, create=True, texts=not without_texts) as opened, console.progress():
        if without_texts and opened.lessons.holds_texts:
            raise InputError(
                f"{opened.lessons.path} holds texts already, and --without-texts is for a new store; use "
                "`textsvm mail export` and `textsvm mail import`"
            )
        if most is not None:
            opened.set_limit(most)
        before = opened.lessons.generation
        try:
            new = opened.learn_all(counted(), kind.value)
        except InputError as error:
            if opened.lessons.generation == before:
                raise
            advice = "earlier messages were learnt, perhaps not all; repeat the command, which skips them"
            raise InputError(f"{error}; {advice}") from error
        counts = opened.lessons.counts()
    known = f", {n - new - empty:,} known already" if n > new + empty else ""
    known += f", {empty:,} empty and skipped" if empty else ""
    console.say(
        f"{messages(new)} learnt as {kind.value}{known}; there are {counts['spam']:,} spam and "
        f"{counts['ham']:,} ham now"
    )


@options.with_groups
def unlearn(files: Messages = None, store: Store = None, quiet: options.Quiet = False) -> None:
    """Forget messages as if they had never been learnt."""
    with open_filter(store) as opened:
        gone = [opened.unlearn(data) for _, data in read_messages(files)]
    unknown = f", {gone.count(False):,} had not been learnt" if not all(gone) else ""
    Console(quiet).say(f"{messages(sum(gone))} forgotten{unknown}")


@options.with_groups
def relearn(kind: As, files: Messages = None, store: Store = None, quiet: options.Quiet = False) -> None:
    """Move messages that were learnt as the other class; unknown messages stay unknown."""
    moved = n = unknown = 0
    with open_filter(store) as opened:
        for n, (_, data) in enumerate(read_messages(files), 1):  # noqa: B007
            if opened.learnt_kind(data) is None:
                unknown += 1
            else:
                moved += opened.learn(data, kind.value)
    same, rest = n - moved - unknown, ""
    rest += f", {same:,} were {kind.value} already" if same else ""
    rest += f", {unknown:,} had not been learnt (`learn` does)" if unknown else ""
    Console(quiet).say(f"{messages(moved)} moved to {kind.value}{rest}")


@options.with_groups
def status(
    store: Store = None,
    check: Annotated[bool, option("Check the whole file for damage.", "--check")] = False,
    json: options.Json = False,
) -> None:
    """Show the number of training messages, and the accuracy of predictions before training."""
    from textsvm.runtime.plain_json import to_json

    with open_filter(store) as opened:
        if check:
            opened.lessons.check()
        summary, path = opened.status(), opened.lessons.path
    console = Console()
    if json:
        names = ("kind", "subject", "sender", "learnt", "score")
        last = [{name: getattr(row, name) for name in names} for row in summary.last]
        parts = {"recent": summary.recent._asdict(), "earlier": summary.earlier._asdict(), "last": last}
        console.print_json(to_json({"store": str(path), **summary._asdict(), **parts}))
        return
    console.table(str(path), [*_facts(summary)])
    rows = [
        (_when(each.learnt), each.kind, "" if each.score is None else f"{each.score:.6f}", each.subject)
        for each in summary.last[:_SHOWN]
    ]
    if rows:
        console.table("last lessons", rows, ("learnt", "as", "score before", "subject"))


def _facts(summary: Status) -> Iterator[tuple[str, str]]:
    yield "lessons", f"{summary.spam:,} spam, {summary.ham:,} ham"
    if summary.max_lessons is not None:
        yield "kept at most", f"{summary.max_lessons:,}"
    yield "holds", "messages and their features" if summary.texts else "features of messages, no texts"
    if not summary.recent.n:
        yield "judged on unseen mail", "nothing yet: the next lessons are judged before they are learnt"
    for name, decisions in (("judged on unseen mail", summary.recent), ("and before these", summary.earlier)):
        if decisions.n:
            yield name, _judged(decisions)


def _judged(decisions: PriorDecisions) -> str:
    """Shares of the lessons, each judged before it was learnt."""
    right = decisions.n - decisions.wrong - decisions.unsure
    shares = (f"{100 * n / decisions.n:.0f} %" for n in (right, decisions.unsure, decisions.wrong))
    return "{:,} messages before they were learnt: {} right, {} unsure, {} wrong; {:,} ham as spam".format(
        decisions.n, *shares, decisions.false_positives
    )


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


@options.with_groups
def export(
    file: Annotated[Path, typer.Argument(help="Output file; - is stdout.")],
    store: Store = None,
    force: Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write all training messages as JSON Lines, or their features if the store holds no texts.

    Of a damaged store the intact messages are written.
    """
    from textsvm.mail.lessons import FORMAT, Lessons
    from textsvm.mail.mailboxes import lesson_line

    output = Output("FILE", file, LESSONS, force).checked({})
    n = bare = lost = 0
    lessons = Lessons(store, damaged=True)
    with closing(lessons), output.place() as path, replacing(path) as temporary:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            for lesson in lessons.intact():
                if lesson is None:
                    lost += 1
                    continue
                n, bare = n + 1, bare + (lesson.message is None)
                stream.write(lesson_line(lesson))
        if not n and lessons.version == FORMAT:
            lessons.check()  # an error unless the store is empty
        if not output.is_stdout and not path.exists():
            path.touch(0o600)  # mail is private; `replacing` keeps the mode
    rest = f"; {bare:,} of them as features, without their messages" if 0 < bare < n else ""
    rest += f"; {lost:,} damaged lessons were left out" if lost else ""
    Console(quiet and not lost).say(f"{n:,} lessons written{rest}")


@options.with_groups
def import_(
    file: Annotated[Path, typer.Argument(help="File from `export`; - is stdin.")],
    store: Store = None,
    without_texts: WithoutTexts = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn messages that `export` wrote; known messages are skipped."""
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
    """Train again on all messages to the optimum, and calibrate the score."""
    with open_filter(store) as opened:
        n = opened.retrain()
    Console(quiet).say(f"trained on {messages(n)}")


@options.with_groups
def report(
    file: Annotated[Path, typer.Argument(help="The report: .html, .md or .json.")],
    store: Store = None,
    figures: Annotated[Path | None, option("Write each chart into this folder as an SVG file.")] = None,
    mistakes: Annotated[int, option("Number of worst mistakes in the report, with texts.", min=0)] = 10,
    force: Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a report on the predictions for messages before they were learnt."""
    from textsvm.cli.results import write_charts
    from textsvm.mail.report import filter_report
    from textsvm.reporting import html
    from textsvm.reporting.files import write

    check_report("FILE", file, force, {})
    check_figures(figures)
    console = Console(quiet)
    with open_filter(store) as opened:
        if mistakes and not opened.lessons.holds_texts:
            console.say("note: the store holds no texts, so the report lists no mistakes")
        content = filter_report(opened, mistakes)
    mask = os.umask(0o077)  # mail is private
    try:
        write(content, file)
    finally:
        os.umask(mask)
    console.say(f"report: {file}")
    write_charts(console, figures, lambda: html.render(content))
