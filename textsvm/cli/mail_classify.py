"""textsvm mail classify: what a message is, as an exit code, a line, or in the message's header."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textsvm.cli import options
from textsvm.cli.console import WrongUsage, json_line
from textsvm.cli.mail_options import Messages, Store, open_filter, read_messages
from textsvm.errors import printable

if TYPE_CHECKING:
    from textsvm.mail.decision import Decision
    from textsvm.mail.filter import Filter

_LETTERS = {"spam": "S", "ham": "H", "unsure": "U"}


@dataclass(frozen=True)
class Passing:
    """The message itself as output."""

    passthrough: Annotated[
        bool,
        typer.Option(
            "--passthrough", "-p", help="Write the message to stdout with the decision in its header."
        ),
    ] = False
    bogofilter: Annotated[
        bool, typer.Option("--bogofilter", help="-p: write Bogofilter's header, X-Bogosity.")
    ] = False
    embed: Annotated[
        bool, typer.Option("--embed", "-e", help="Exit with 0 whatever it is, and 3 if something failed.")
    ] = False


@dataclass(frozen=True)
class Form:
    """What is said of a message."""

    terse: Annotated[bool, typer.Option("--terse", "-t", help="A letter (S, H, U) and the score.")] = False
    fixed: Annotated[
        int,
        typer.Option(
            "-T",
            count=True,
            show_default=False,
            help="The same, never changed, for scripts; -TT: 16 digits alone.",
        ),
    ] = 0
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="What in the message decided: above 0 for spam.")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="One JSON object a message.")] = False


@options.with_groups
def classify(passing: Passing, form: Form, files: Messages = None, store: Store = None) -> None:
    """Tell spam from ham. Exit codes: 0 spam, 1 ham, 2 unsure, 3 failed; of several mails the last one's."""
    if passing.passthrough:
        if form != Form():
            raise WrongUsage("-p writes the message: leave out -t, -T, -v and --json")
        decision = _pass_through(files, store, passing.bogofilter)
    else:
        decision = _say(files, store, form)
    from textsvm.mail.decision import CODES

    raise typer.Exit(0 if passing.embed else CODES[decision.kind])


def _pass_through(files: list[str] | None, store: Path | None, bogofilter: bool) -> Decision:
    """Write the message with the decision in its header; as it came, if there can be no decision."""
    names = files or ["-"]
    if len(names) > 1:
        raise WrongUsage("-p takes one message")
    data = sys.stdin.buffer.read() if names == ["-"] else Path(names[0]).read_bytes()
    written: list[bytes | memoryview] = [data]
    try:
        from textsvm.mail.raw_message import RawMessage, marked_pieces

        with open_filter(store) as opened:
            message = RawMessage(data)
            decision = opened.classify(message)
        written = marked_pieces(message, decision, bogofilter=bogofilter)
        return decision
    finally:
        sys.stdout.buffer.writelines(written)
        sys.stdout.buffer.flush()


def _say(files: list[str] | None, store: Path | None, form: Form) -> Decision:
    """Print what each message is; the last decision."""
    decision, given = None, files or ["-"]
    with open_filter(store) as opened:
        for name, data in read_messages(given):
            decision = opened.classify(data)
            shown = name if len(given) > 1 or name != given[0] else ""
            for line in _lines(opened, data, decision, shown, form):
                sys.stdout.write(line)
    if decision is None:
        raise WrongUsage("there is no message to classify")
    return decision


def _lines(opened: Filter, data: bytes, decision: Decision, name: str, form: Form) -> Iterator[str]:
    """What is printed of a message."""
    reasons = opened.reasons(data) if form.verbose else []
    if form.json:
        fields = {"id": name or "-", "kind": decision.kind, "score": decision.score, "value": decision.value}
        yield json_line(fields | ({"reasons": dict(reasons)} if form.verbose else {}))
        return
    yield (
        f"{printable(name)} {_short(decision, form)}\n".lstrip(" ") if name else _short(decision, form) + "\n"
    )
    for part, weight in reasons:
        yield f"  {weight:+.4f} {printable(repr(part))}\n"


def _short(decision: Decision, form: Form) -> str:
    """Bogofilter's terse forms, or a word and the score."""
    if form.fixed > 1:
        return f"{decision.score:.16f}"
    if form.fixed:
        return f"{_LETTERS[decision.kind]} {decision.score:g}"
    return f"{_LETTERS[decision.kind] if form.terse else decision.kind} {decision.score:.6f}"
