"""textsvm mail learn, unlearn, relearn: what people say a message is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import typer

from textsvm.cli import options
from textsvm.cli.console import Console
from textsvm.cli.mail_options import As, Messages, Store, messages, open_filter, read_messages, size_of
from textsvm.errors import InputError


@options.with_groups
def learn(
    kind: As,
    files: Messages = None,
    store: Store = None,
    without_texts: Annotated[
        bool,
        typer.Option(
            "--without-texts",
            help="A new store keeps features of messages alone: it cannot show or export messages, nor take "
            "new features in a later version.",
        ),
    ] = False,
    most: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Keep N lessons from now on: the most redundant ones go."),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Learn that messages are spam or ham: one learnt twice counts once, one of the other kind is moved.

    When the command ends they are on disk, and the next decision knows them.
    """
    console, size = Console(quiet), size_of(files)
    counted = _Counted(
        (data for _, data in read_messages(files)),
        lambda done: console.stage("learn", min(done, size), size),
    )
    with open_filter(store, create=True, texts=not without_texts) as opened, console.progress():
        if without_texts and opened.lessons.holds_texts:
            raise InputError(
                f"{opened.lessons.path} holds texts already: --without-texts is for a new store, into which "
                "`textsvm mail import` takes what `textsvm mail export` wrote"
            )
        if most is not None:
            opened.set_limit(most)
        new = opened.learn_all(counted, kind.value)
        counts = opened.lessons.counts()
    known = f", {counted.n - new:,} known already" if counted.n > new else ""
    console.say(
        f"{messages(new)} learnt as {kind.value}{known}; there are {counts['spam']:,} spam and "
        f"{counts['ham']:,} ham now"
    )


@options.with_groups
def unlearn(files: Messages = None, store: Store = None, quiet: options.Quiet = False) -> None:
    """Forget messages, as if they had never been learnt."""
    with open_filter(store) as opened:
        gone = [opened.unlearn(data) for _, data in read_messages(files)]
    unknown = f", {gone.count(False):,} had not been learnt" if not all(gone) else ""
    Console(quiet).say(f"{messages(sum(gone))} forgotten{unknown}")


@options.with_groups
def relearn(kind: As, files: Messages = None, store: Store = None, quiet: options.Quiet = False) -> None:
    """Move messages that were learnt as the other kind; those that were not learnt at all stay unknown."""
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


class _Counted:
    """What is passed on, counted; `report` is told how many bytes have been taken."""

    def __init__(self, data: Iterable[bytes], report: Callable[[int], None]) -> None:
        self._data, self._report, self.n = data, report, 0

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for each in self._data:
            self.n += 1
            yield each
            size += len(each)
            self._report(size)
