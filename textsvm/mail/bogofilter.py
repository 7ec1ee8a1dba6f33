"""textsvm-bogofilter: the filter with Bogofilter's command line, as a replacement in existing set-ups.

Options and exit codes are those of Bogofilter 1.2.5 (bogofilter(1)): 0 spam, 1 ham, 2 unsure, 3 error.
Deliberate differences:

- A lesson that is learnt twice counts once, and -S or -N of a message that was not learnt so changes nothing.
- With -p a message is passed on byte for byte, and unmarked after an error (exit code 3). Bogofilter adds the
  end of the last line, and passes nothing on without a wordlist. -t and -T do not change the header.
- A missing message and an unknown or unreadable option are errors. Bogofilter ends with the code of the
  previous message, or with 0, which means spam, or goes on.
- A lesson ends with 0 with -p too, where Bogofilter ends with the code of a decision.
- Options of Bogofilter's own arithmetic change nothing; -v names them. -vv shows the words that decided.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import textsvm
from textsvm.errors import InputError, one_line, printable
from textsvm.mail.bogofilter_options import USAGE, BogofilterArguments, parse_arguments
from textsvm.mail.raw_message import BOGOFILTER, RawMessage, bogosity_field, marked

if TYPE_CHECKING:
    from textsvm.mail.decision import Decision
    from textsvm.mail.filter import Filter

ERROR = 3
_LETTERS = {"spam": "S", "ham": "H", "unsure": "U"}
_KINDS = {"s": "spam", "n": "ham", "S": "spam", "N": "ham"}
# Like Bogofilter, only after an empty line.
_FROM = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From ")


def main() -> None:
    """Entry point of the console script."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:  # the reader has gone: Python must not try again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = ERROR
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line; return its exit code."""
    try:
        options = parse_arguments(arguments)
    except InputError as error:
        _print_error(error)
        with suppress(OSError):
            _copy_message(arguments)
        return ERROR
    try:
        return _execute(options)
    except Exception as error:  # of any kind: Python's own exit code would mean ham
        _print_error(error)
        return ERROR


def _execute(options: BogofilterArguments) -> int:
    settings = options.settings
    version = f"textsvm-bogofilter {textsvm.__version__}, in the place of bogofilter version {BOGOFILTER}\n"
    configuration = (
        f"# {version}\nham_cutoff  = {settings.ham_cutoff:.6f}\n"
        f"spam_cutoff = {settings.spam_cutoff:.6f}\n\n"
        f"spam-header-name  = {settings.header}\nbogofilter-dir    = {settings.folder or ''}\n"
    )
    for letter, text in (("h", USAGE), ("V", version), ("Q", configuration)):
        if letter in options.flags:
            sys.stdout.write(text)
            return 0
    if "v" in options.flags and settings.unused:
        print(f"textsvm-bogofilter: no effect here: {', '.join(settings.unused)}", file=sys.stderr)
    return _register(options) if options.registers else _classify(options)


# Input


def input_messages(options: BogofilterArguments) -> Iterator[tuple[str, bytes]]:
    """The raw messages of the input, each with the name of its file; "" for standard input and -I."""
    mbox = "M" in options.flags
    if "b" in options.flags:
        names = [line.rstrip(b"\r\n") for line in sys.stdin.buffer]
        yield from _messages_of([name.decode("utf-8", "surrogateescape") for name in names if name], mbox)
    elif "B" in options.flags:
        yield from _messages_of(options.objects, mbox)
    else:
        file = options.values.get("I")
        yield from _split("", sys.stdin.buffer.read() if file is None else _file_bytes(Path(file)), mbox)


def _messages_of(names: list[str], mbox: bool) -> Iterator[tuple[str, bytes]]:
    for name in names:
        path = Path(name)
        for file in _folder_files(path) if path.is_dir() else [path]:
            yield from _split(str(file), _file_bytes(file), mbox)


def _folder_files(folder: Path) -> list[Path]:
    """The messages of a Maildir, or of an MH folder: files whose names are numbers."""
    parts = [folder / part for part in ("new", "cur") if (folder / part).is_dir()]
    if parts:
        return [file for part in parts for file in sorted(part.iterdir()) if not file.name.startswith(".")]
    numbered = (file for file in folder.iterdir() if file.name.isdecimal())
    return sorted(numbered, key=lambda file: int(file.name))


def _split(name: str, data: bytes, mbox: bool) -> Iterator[tuple[str, bytes]]:
    starts = [match.start() for match in _FROM.finditer(data)] if mbox else []
    for start, end in zip([0, *starts], [*starts, len(data)], strict=True):
        if end > start or not starts:
            yield name, data[start:end]


def _file_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


# Learning


def _register(options: BogofilterArguments) -> int:
    """-s, -n, -S, -N, -Sn, -Ns."""
    letters = options.registers
    counts = [0, 0]
    with _output(options) as out, _filter(options, create=True) as mail:
        messages = _counted_messages(options, out, counts)
        if letters[-1] in "sn":
            mail.learn_all(messages, _KINDS[letters[-1]])
        else:
            for data in messages:
                if mail.learnt_kind(data) == _KINDS[letters]:
                    mail.unlearn(data)
    words, n = counts
    _print_counts(options, words, n)
    _log(options, f"register-{letters[-1]}, {words} words, {n} messages")
    return 0


def _print_counts(options: BogofilterArguments, words: int, n: int) -> None:
    if "v" in options.flags:
        print(f"# {words} word{'s' * (words != 1)}, {n} message{'s' * (n != 1)}", file=sys.stderr)


def _counted_messages(options: BogofilterArguments, out: BinaryIO, counts: list[int]) -> Iterator[bytes]:
    """The messages, written to `out` with -p; `counts` becomes the number of words and of messages."""
    for _, data in input_messages(options):
        if "p" in options.flags:
            out.write(data)
        if "v" in options.flags or "l" in options.flags:
            counts[0] += _n_words(data)
        counts[1] += 1
        yield data


def _n_words(data: bytes) -> int:
    """Number of features of a message, in the place of Bogofilter's number of words."""
    from textsvm.mail.features import features
    from textsvm.mail.message import read_message

    return len(features(read_message(data).text)[0])


# Classifying


def _classify(options: BogofilterArguments) -> int:
    """Classify the messages; return the exit code of the last."""
    code, unwritten, messages = 0, b"", input_messages(options)
    with _output(options) as out:
        try:
            with _filter(options, create="u" in options.flags) as mail:
                from textsvm.mail.decision import CODES

                for name, unwritten in messages:
                    code = CODES[_classify_message(mail, name, unwritten, options, out)]
                    unwritten = b""
        except Exception:
            if "p" in options.flags:
                out.write(unwritten)
                out.writelines(data for _, data in messages)
            raise
    return 0 if "e" in options.flags else code


def _classify_message(
    mail: Filter, name: str, data: bytes, options: BogofilterArguments, out: BinaryIO
) -> str:
    """Classify a message, print or pass it on, learn it with -u; return its kind."""
    settings, flags = options.settings, options.flags
    decision = mail.classify(data)
    decision = replace(decision, kind=settings.kind(decision.score))
    if "p" in flags:
        out.write(passed(data, decision, settings.header))
    elif line := _line(decision, options):
        named = (options.objects or "b" in flags) and ("T" in flags or not _terse(options))
        sys.stdout.write(f"{printable(name)} {line}\n" if named else f"{line}\n")
        if flags["v"] > 1 and "T" not in flags and not _terse(options):
            sys.stdout.writelines(f"  {weight:+.4f} {part!r}\n" for part, weight in mail.reasons(data))
    learns = "u" in flags and decision.kind != "unsure"
    words = _n_words(data) if learns and {"v", "l"} & set(flags) else 0
    if learns:
        mail.learn(data, decision.kind)
        _print_counts(options, words, 1)
    kind = decision.kind.capitalize()
    message = f"{settings.header}: {kind}, spamicity={decision.score:.6f}, version={BOGOFILTER}"
    if words:
        message += f", register-{'s' if decision.kind == 'spam' else 'n'}, {words} words, 1 messages"
    _log(options, message)
    return decision.kind


def _line(decision: Decision, options: BogofilterArguments) -> str:
    """The printed line of a decision; "" for none."""
    letter, score = _LETTERS[decision.kind], decision.score
    if options.flags["T"] > 1:
        return f"{score:.16f}"
    if options.flags["T"]:
        return f"{letter} {score:g}"
    if _terse(options):
        return f"{letter} {score:.6f}"
    return bogosity_field(decision, options.settings.header) if "v" in options.flags else ""


def _terse(options: BogofilterArguments) -> bool:
    return "t" in options.flags or options.settings.terse


def passed(data: bytes, decision: Decision, name: str) -> bytes:
    """The message with the decision in a header field of this name; forged fields are removed."""
    if name.lower() == "x-bogosity":
        return marked(data, decision, bogofilter=True)
    message, forged = RawMessage(data), name.lower().encode() + b":"
    fields = (data[start:stop] for start, stop in message.fields())
    kept = [field for field in fields if not field.lower().startswith(forged)]
    clean = data[: message.start] + b"".join(kept) + data[message.end :]
    bogosity, field = (b"\n" + bogosity_field(decision, each).encode() for each in ("X-Bogosity", name))
    return (b"\n" + marked(clean, decision, bogofilter=True)).replace(bogosity, field, 1)[1:]


# Resources


@contextmanager
def _filter(options: BogofilterArguments, create: bool) -> Iterator[Filter]:
    from textsvm.mail.filter import Filter
    from textsvm.mail.lessons import store_folder

    folder = options.settings.folder
    with Filter(store_folder(Path(folder) if folder else None), create=create) as mail:
        yield mail


@contextmanager
def _output(options: BogofilterArguments) -> Iterator[BinaryIO]:
    """The stream to which -p writes."""
    file = options.values.get("O")
    if file and "p" not in options.flags:
        print(f"textsvm-bogofilter: -O {file} has no effect without -p", file=sys.stderr)
    if file and "p" in options.flags:
        with open(file, "wb") as out:
            yield out
    else:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def _copy_message(arguments: list[str]) -> None:
    """Copy the message unchanged if the invalid options contain -p."""
    short = any(word[:1] == "-" and word[1:2] != "-" and "p" in word for word in arguments)
    if (short or "--passthrough" in arguments) and not sys.stdin.isatty():
        while part := sys.stdin.buffer.read(1 << 20):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def _log(options: BogofilterArguments, line: str) -> None:
    if "l" in options.flags:
        import syslog

        syslog.openlog("bogofilter", syslog.LOG_PID, syslog.LOG_MAIL)
        syslog.syslog(syslog.LOG_INFO, line)


def _print_error(error: Exception) -> None:
    message = error if isinstance(error, InputError | OSError) else f"{type(error).__name__}: {error}"
    with suppress(OSError):
        print(f"textsvm-bogofilter: {one_line(str(message))}", file=sys.stderr)


if __name__ == "__main__":
    main()
