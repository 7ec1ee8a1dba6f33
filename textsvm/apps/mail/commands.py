"""textsvm mail: a mail filter that learns.

learn, unlearn, import and retrain change the store of training messages; status, export and report
show it; classify and serve decide with it. The exit code of errors is 3, because 1 and 2 mean ham and unsure.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.apps.mail import client
from textsvm.apps.mail.raw_message import RawMessage, marked_pieces, raw_messages, size_of
from textsvm.cli import options
from textsvm.cli.console import (
    USAGE_ERROR,
    Console,
    WrongUsage,
    environment_error,
    errors_after_signals,
    json_line,
    print_error,
    usage_message,
)
from textsvm.cli.options import Command, Group, option
from textsvm.cli.output import Force, Kind, Output, check_report
from textsvm.errors import InputError, plural, printable
from textsvm.runtime.files import replacing

if TYPE_CHECKING:
    from textsvm.apps.mail.decision import Decision
    from textsvm.apps.mail.filter import Filter
    from textsvm.apps.mail.server import Interface


Store = Annotated[
    str | None,  # '' is the default, as in `TEXTSVM_MAIL`
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


def _checked_class(name: str) -> str:
    if name not in KINDS and not client.is_category(name):
        raise WrongUsage(client.NO_CATEGORY.format(name))
    return name


As = Annotated[
    str,
    option(
        "Class of the messages: spam, ham, or a category such as newsletter; `none` is mail of no category.",
        "--as", show_default=False, metavar="spam|ham|NAME", callback=_checked_class,
        autocompletion=lambda: [*KINDS],
    ),
]  # fmt: skip
KINDS = ("spam", "ham")
LESSONS = Kind("lessons of textsvm mail", rb'\{"digest": ', ".jsonl")
_SHOWN = 5  #: Number of messages that `status` lists
WithoutTexts = Annotated[
    bool,
    option(
        "Create a store of features without texts. It cannot show or export messages, nor use features of "
        "later versions.",
        "--without-texts",
    ),
]


def open_filter(store: str | None, *, create: bool = False, texts: bool = True) -> Filter:
    """Open the filter of a store, by default that of the user."""
    from textsvm.apps.mail.filter import Filter

    opened = Filter(store, create=create, texts=texts)
    if not texts and opened.lessons.holds_texts:
        opened.close()
        raise InputError(
            f"{opened.lessons.path} holds texts already, and --without-texts is for a new store: "
            "`textsvm mail export` this one, and `textsvm mail import` into a new folder"
        )
    return opened


def read_messages(files: list[str] | None, skipped: list[str]) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the messages in files, by default stdin; `skipped` is that of `raw_messages`."""
    has_messages = False
    for file in files or ["-"]:
        for message in raw_messages(file, skipped):
            has_messages = True
            yield message
    if not has_messages:
        raise InputError(skipped.pop(0))


@contextmanager
def naming_skipped(console: Console) -> Iterator[list[str]]:
    """A list for `read_messages`, whose sentences are said at the end of the block, also before an error."""
    skipped: list[str] = []
    try:
        yield skipped
    finally:
        for sentence in skipped[:_SHOWN]:
            console.warn(f"skipped: {sentence}")
        if len(skipped) > _SHOWN:
            console.warn(f"{plural(len(skipped), 'file')} were skipped, these included")


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

    Any other name is a category, whose messages get a header field of their own; it says nothing about spam
    and ham, and a message may be learnt as both.

    When the command ends the messages are on disk, and the next decision uses them.
    """
    console = Console(quiet)
    size = sum(map(size_of, files or []))
    n = done = empty = 0

    def counted(skipped: list[str]) -> Iterator[RawMessage]:
        nonlocal n, done, empty
        for _, data in read_messages(files, skipped):
            message = RawMessage(data)
            n += 1
            empty += message.is_empty
            yield message
            done += len(data)
            console.stage("learn", min(done, size), size)

    with (
        open_filter(store, create=True, texts=not without_texts) as opened,
        naming_skipped(console) as skipped,
        console.progress(),
    ):
        if most is not None:
            opened.set_limit(most)
        before = opened.lessons.generation
        try:
            new = opened.learn_all(counted(skipped), kind)
        except InputError as error:
            if opened.lessons.generation == before:
                raise
            advice = "correct it and repeat the command: messages that were learnt are not learnt twice"
            raise InputError(f"{error}; {advice}") from error
        counts = opened.counts()
    line = f"{plural(new, 'message')} learnt as {kind}"
    if n > new + empty:
        line += f", {n - new - empty:,} known already"
    if empty:
        line += f", {empty:,} empty and skipped"
    if skipped:
        line += f", {len(skipped):,} not read"
    names = KINDS if kind in KINDS else [kind]
    line += "; there are " + " and ".join(f"{counts[name]:,} {name}" for name in names)
    if kind not in KINDS and counts[kind] == new:
        line += " (a new category)"
    console.say(f"{line} now")


def unlearn(
    files: Messages = None,
    store: Store = None,
    category: Annotated[
        str | None, option("Forget all lessons of a category, and with them the category.", metavar="NAME")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Forget messages as if they had never been learnt, also as messages of a category."""
    if category and files:
        raise WrongUsage("--category forgets a whole category and goes with no FILES")
    unknown, console = 0, Console(quiet)
    with open_filter(store) as opened, naming_skipped(console) as skipped:
        if category:
            if not (forgotten := opened.categories.forget(category=category)):
                raise InputError(f"there is no category {category} (`textsvm mail status` lists them)")
        else:
            answers = [opened.unlearn(data) for _, data in read_messages(files, skipped)]
            forgotten, unknown = answers.count(True), answers.count(False)
    line = f"{plural(forgotten, 'message')} forgotten"
    if unknown:
        line += f", {unknown:,} had not been learnt"
    console.say(line)


def status(
    store: Store = None,
    check: Annotated[bool, option("Check the whole file for damage.", "--check")] = False,
    json: options.Json = False,
) -> None:
    """Show the number of training messages, and the accuracy of predictions before training."""
    from textsvm.runtime.plain_json import to_json

    with open_filter(store) as opened:
        if check:
            opened.lessons.check_file()
            if categories := opened.categories.store():
                categories.check_file()
        summary, path = opened.status(), opened.lessons.path
    console = Console()
    if json:
        names = ("kind", "subject", "sender", "learnt", "score")
        last = [{name: row._asdict()[name] for name in names} for row in summary.last]
        console.print_json(to_json({"store": str(path), **summary._asdict(), "last": last}))
        return
    facts = [("lessons", f"{summary.spam:,} spam, {summary.ham:,} ham")]
    if summary.max_lessons is not None:
        facts.append(("kept at most", f"{summary.max_lessons:,}"))
    content = "messages and their features" if summary.texts else "features of messages, no texts"
    facts.append(("holds", content))
    n, wrong, unsure, false_positives = summary.recent.values()
    judged = "nothing yet: the next lessons are judged before they are learnt"
    if n:
        counts = {"right": n - wrong - unsure, "unsure": unsure, "wrong": wrong}
        shares = ", ".join(f"{100 * count / n:.0f} % {word}" for word, count in counts.items())
        judged = f"{n:,} messages before they were learnt: {shares}; {false_positives:,} ham as spam"
    console.table(str(path), [*facts, ("judged on unseen mail", judged)])
    if summary.categories:
        numbers = [(name, *map(str, row.values())) for name, row in summary.categories.items()]
        console.table("categories", numbers, ("category", "lessons", "judged unseen", "recognised"))
    table = []
    for row in summary.last[:_SHOWN]:
        learnt = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.learnt))
        table.append((learnt, row.kind, "" if row.score is None else f"{row.score:.6f}", row.subject))
    if table:
        console.table("last lessons", table, ("learnt", "as", "score before", "subject"))


def export(
    file: Annotated[Path, typer.Argument(help="Output file; - is stdout.")],
    store: Store = None,
    force: Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write all training messages as JSON Lines, or their features if the store holds no texts.

    Of a damaged store the intact messages are written.
    """
    from textsvm.apps.mail.filter import lesson_line
    from textsvm.apps.mail.lessons import CATEGORIES_FILE, Lessons

    output = Output("FILE", file, LESSONS, force).checked({})
    stores = [Lessons(store, damaged=True)]
    if stores[0].path.with_name(CATEGORIES_FILE).exists():
        stores.append(Lessons(store, damaged=True, categories=True))
    n = bare = lost = 0
    with ExitStack() as stack:
        for lessons in stores:
            stack.enter_context(closing(lessons))
        path = stack.enter_context(output.place())
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
            for lesson in chain.from_iterable(lessons.intact() for lessons in stores):
                if lesson is None:
                    lost += 1
                    continue
                n += 1
                bare += lesson.message is None
                stream.write(lesson_line(lesson))
            if not n:
                stores[0].check_file()  # an error unless the store is empty
            if not output.is_stdout and not path.exists():
                path.touch(0o600)  # mail is private; `replacing` keeps the mode
    line = f"{n:,} lessons written"
    if 0 < bare < n:
        line += f"; {bare:,} of them as features, without their messages"
    if lost:
        line += f"; {lost:,} damaged lessons were left out"
    Console(quiet and not lost).say(line)


def import_(
    file: Annotated[Path, typer.Argument(help="File from `export`; - is stdin.")],
    store: Store = None,
    without_texts: WithoutTexts = False,
) -> None:
    """Learn messages that `export` wrote; known messages are skipped."""
    from textsvm.apps.mail.filter import parse_lessons

    stream = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    with stream, open_filter(store, create=True, texts=not without_texts) as opened:
        new = opened.add_lessons(parse_lessons(stream, str(file)))
        counts = opened.counts()
    Console().say(
        f"{plural(new, 'message')} learnt; there are {counts['spam']:,} spam, {counts['ham']:,} ham now"
    )


def retrain(store: Store = None, quiet: options.Quiet = False) -> None:
    """Train again on all messages to the optimum, and calibrate the score."""
    with open_filter(store) as opened:
        n = opened.retrain()
    Console(quiet).say(f"trained on {plural(n, 'message')}")


def report(
    file: Annotated[Path, typer.Argument(help="The report: .html, .md or .json.")],
    store: Store = None,
    mistakes: Annotated[int, option("Number of worst mistakes in the report, with texts.", min=0)] = 10,
    force: Force = False,
) -> None:
    """Write a report on the predictions for messages before they were learnt."""
    from textsvm.apps.mail.report import filter_report

    check_report("FILE", file, force, {})
    console = Console()
    with open_filter(store) as opened:
        if mistakes and not opened.lessons.holds_texts:
            console.say("note: the store holds no texts, so the report lists no mistakes")
        content = filter_report(opened, mistakes)
    mask = os.umask(0o077)  # mail is private
    try:
        content.save(file)
    finally:
        os.umask(mask)
    console.say(f"report: {file}")


_EXTRA = "needs the extra `mail`"


class MailGroup(Group):
    """Command group whose errors, wrong usage included, have exit code 3."""

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        with failures_exit_with_3():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: Any) -> Any:
        with failures_exit_with_3():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextmanager
def failures_exit_with_3() -> Iterator[None]:
    """Turn an error of the block into a sentence on stderr and exit code 3.

    After wrong usage with --passthrough the message is copied to stdout, so that no mail is lost.
    """
    try:
        with errors_after_signals():
            yield
    except (typer.Exit, typer.Abort, KeyboardInterrupt):
        raise
    except (USAGE_ERROR, WrongUsage) as error:
        if isinstance(error, WrongUsage):
            print_error(str(error))
        elif message := usage_message(error):
            print_error(message)
        client.pass_on(sys.argv[2:])
        raise typer.Exit(client.ERROR) from error
    except Exception as error:  # the calling program knows only four exit codes
        reason = str(error) if isinstance(error, InputError) else environment_error(error)
        print_error(reason or f"{type(error).__name__}: {error} (please report this)")
        with suppress(OSError, ValueError):
            try:
                sys.stdout.flush()
            except OSError:  # discard unwritten output, so that Python does not fail at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(client.ERROR) from error


def classify(
    files: Messages = None,
    passthrough: Annotated[
        bool, option("Write the message to stdout with the decision in its header.", "--passthrough", "-p")
    ] = False,
    embed: Annotated[
        bool, option("Exit with 0 for any decision, and 3 after errors.", "--embed", "-e")
    ] = False,
    verbose: Annotated[
        bool, option("Print the contributions of parts of the message; positive: spam.", "--verbose", "-v")
    ] = False,
    json: Annotated[bool, option("Print one JSON object per message.", "--json")] = False,
    store: Store = None,
) -> None:
    """Classify messages. Exit codes: 0 spam, 1 ham, 2 unsure, 3 error; for several messages, of the last."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start threads, which takes 60 ms
    if passthrough and (verbose or json):
        raise WrongUsage("-p does not go with -v and --json")
    if passthrough:
        decision = _pass_through(files or ["-"], store)
    else:
        decision = _print_decisions(files or ["-"], store, verbose, json)
    raise typer.Exit(0 if embed else client.CODES[decision.kind])


def _pass_through(files: list[str], store: str | None) -> Decision:
    """Write the message with the decision in its header, or unchanged after an error."""
    if len(files) > 1:
        raise WrongUsage("-p takes a single message")
    data = sys.stdin.buffer.read() if files == ["-"] else Path(files[0]).read_bytes()
    written: list[bytes | memoryview] = [data]
    try:
        with open_filter(store) as opened:
            message = RawMessage(data)
            decision = opened.classify(message)
        written = marked_pieces(message, decision)
        return decision
    finally:
        sys.stdout.buffer.writelines(written)
        sys.stdout.buffer.flush()


def _print_decisions(files: list[str], store: str | None, verbose: bool, json: bool) -> Decision:
    """Print the decision for each message; returns the last."""
    with open_filter(store) as opened, naming_skipped(Console()) as skipped:
        for name, data in read_messages(files, skipped):
            message = RawMessage(data)
            decision, name = opened.classify(message), "" if files == [name] else name
            reasons = opened.reasons(message) if verbose else []
            if json:
                fields = {"id": name or "-", **decision._asdict()}
                if not decision.category:
                    del fields["category"], fields["category_score"]
                if verbose:
                    fields["reasons"] = dict(reasons)
                sys.stdout.write(json_line(fields))
                continue
            line = f"{printable(name)} {decision.kind} {decision.score:.6f} {decision.category}"
            sys.stdout.write(f"{line.strip(' ')}\n")
            for part, weight in reasons:
                sys.stdout.write(f"  {weight:+.4f} {printable(repr(part))}\n")
    if skipped:
        raise InputError(f"{plural(len(skipped), 'file')} without a decision")
    return decision


def serve(
    store: Store = None,
    socket: Annotated[
        str | None,
        option(
            "Unix socket for spamc and textsvm-mail-client.",
            envvar="TEXTSVM_MAIL_SOCKET", metavar="PATH", show_default='"socket" in the store\'s folder',
        ),
    ] = None,
    tcp: Annotated[
        int | None,
        option("Also answer spamc at 127.0.0.1:PORT.", "--tcp", metavar="PORT", min=1, max=65535),
    ] = None,
    milter: Annotated[
        str | None,
        option("Be a milter at a Unix socket or 127.0.0.1:PORT.", metavar="PATH|PORT"),
    ] = None,
    smtp: Annotated[
        int | None,
        option(f"Be an SMTP content filter at 127.0.0.1:PORT; {_EXTRA}.", metavar="PORT", min=1, max=65535),
    ] = None,
    lmtp: Annotated[
        int | None,
        option(f"Be an LMTP content filter at 127.0.0.1:PORT; {_EXTRA}.", metavar="PORT", min=1, max=65535),
    ] = None,
    next: Annotated[
        str | None, option("Next hop of a content filter.", "--next", metavar="HOST:PORT|PATH")
    ] = None,
) -> None:  # fmt: skip
    """Keep the filter in memory and answer mail programs until SIGTERM.

    textsvm mail serve &

    spamc -U ~/.local/share/textsvm/socket < message.eml

    With systemd socket activation it answers at the passed sockets.
    """
    if os.name == "nt":
        raise InputError("`textsvm mail serve` needs Unix sockets; on Windows use `textsvm mail classify`")
    from textsvm.apps.mail import mail_servers, server

    path = Path(socket or client.socket_path(store or ""))
    own = [str(place) for place in (smtp, lmtp, tcp, milter, path) if place]
    mail_servers.check_addresses(next or "", smtp, lmtp, milter, own)
    interfaces: list[Interface] = [] if milter is None else [partial(mail_servers.milter, milter)]
    for port, is_lmtp in ((smtp, False), (lmtp, True)):
        if port:
            interfaces.append(partial(mail_servers.content_filter, port, next or "", is_lmtp))
    console = Console()
    reader = server.MessageReader(console.warn)  # forks while there are no sockets and threads
    mail = open_filter(store, create=True)
    mail.lessons.check_rows()
    mail.read = reader.read
    passed = server.passed_sockets()
    sockets = passed or [server.listen(path)]
    if tcp:
        sockets.append(server.listen_tcp(tcp))
    server.preload()
    paths = [Path(name) for name in map(server.address, sockets) if "/" in name]
    if passed and socket and path not in paths:
        console.warn(f"nothing answers at --socket {socket}: systemd passed other sockets")
    server.learn_spool(mail, (paths or [path])[0].with_name(client.SPOOL), console.say)
    if not all(mail.lessons.counts().values()):
        console.warn("every message is unsure until spam and ham are learnt (`textsvm mail learn`)")
    try:
        server.serve(mail, sockets, server.log, interfaces)
    finally:
        if not passed:
            path.unlink(missing_ok=True)


mail = typer.Typer(
    cls=MailGroup,
    help="A mail filter that learns. Exit codes: 0 done or spam, 1 ham, 2 unsure, 3 failed.",
    no_args_is_help=True,
)
for verb in (classify, learn, unlearn, status, export, import_, retrain, report, serve):
    mail.command(verb.__name__.strip("_"), cls=Command)(verb)
