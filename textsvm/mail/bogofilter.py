"""textsvm-bogofilter: this filter under Bogofilter's command line: what calls the one can call the other.

Options mean what they mean in Bogofilter 1.2.5 (bogofilter(1)), exit codes too: 0 spam, 1 ham, 2 unsure,
3 error. What differs, on purpose:

- A lesson that is learnt twice counts once, and -S or -N of a message that was not learnt so changes nothing.
- With -p a message is passed on byte for byte, and unmarked where something fails (exit code 3). Bogofilter
  adds the end of the last line, and passes nothing on where it has no wordlist. -t and -T leave the header.
- A message that is not there, an option that is not there or cannot be read is an error. Bogofilter ends with
  the code of the message before, or with 0, which is spam, or goes on.
- A lesson ends with 0 with -p too, where Bogofilter ends with a decision's code.
- What sets Bogofilter's own arithmetic changes nothing; -v names it. -vv shows what decided here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import textsvm
from textsvm.errors import InputError, one_line, printable
from textsvm.mail.bogofilter_input import messages
from textsvm.mail.bogofilter_options import USAGE, Given, Settings, given
from textsvm.mail.decision import CODES

if TYPE_CHECKING:
    from textsvm.mail.filter import Decision, Filter

ERROR = 3
_LETTERS = {"spam": "S", "ham": "H", "unsure": "U"}
_KINDS = {"s": "spam", "n": "ham", "S": "spam", "N": "ham"}


def main() -> None:
    """Entry point of the console script."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:  # nobody reads any more: let Python not try again as it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = ERROR
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """What the process does, and its exit code."""
    try:
        options = given(arguments)
    except InputError as error:
        _complain(error)
        with suppress(OSError):
            _copy(arguments)
        return ERROR
    try:
        return _answer(options)
    except Exception as error:  # whatever it is: Python's own exit code would say ham
        _complain(error)
        return ERROR


def _answer(options: Given) -> int:
    for letter, answer in (("h", USAGE), ("V", _version()), ("Q", _configuration(options.settings))):
        if letter in options.flags:
            sys.stdout.write(answer)
            return 0
    if "v" in options.flags and options.settings.unused:
        print(f"textsvm-bogofilter: no meaning here: {', '.join(options.settings.unused)}", file=sys.stderr)
    return _register(options) if options.registers else _classify(options)


# Learning


def _register(options: Given) -> int:
    """-s, -n, -S, -N, -Sn, -Ns."""
    letters = options.registers
    counted = [0, 0]
    with _output(options) as out, _filter(options, create=True) as mail:
        found = _counted(options, out, counted)
        if letters[-1] in "sn":
            mail.learn_all(found, _KINDS[letters[-1]])
        else:
            for data in found:
                if mail.knows(data) == _KINDS[letters]:
                    mail.unlearn(data)
    words, n = counted
    _say_learnt(options, words, n)
    _log(options, f"register-{letters[-1]}, {words} words, {n} messages")
    return 0


def _say_learnt(options: Given, words: int, n: int) -> None:
    if "v" in options.flags:
        print(f"# {words} word{'s' * (words != 1)}, {n} message{'s' * (n != 1)}", file=sys.stderr)


def _counted(options: Given, out: BinaryIO, counted: list[int]) -> Iterator[bytes]:
    """The messages, passed on where that is asked for, and how much is learnt: features and messages."""
    for _, data in messages(options):
        if "p" in options.flags:
            out.write(data)
        if "v" in options.flags or "l" in options.flags:
            counted[0] += _words(data)
        counted[1] += 1
        yield data


def _words(data: bytes) -> int:
    """What stands for Bogofilter's number of words: the features of a message."""
    from textsvm.mail.features import features
    from textsvm.mail.message import read_message

    return len(features(read_message(data).text)[0])


# Classifying


def _classify(options: Given) -> int:
    """What each message is; the code of the last one."""
    code, left, found = 0, b"", messages(options)
    with _output(options) as out:
        try:
            with _filter(options, create="u" in options.flags) as mail:
                for name, left in found:
                    code = CODES[_one(mail, name, left, options, out)]
                    left = b""
        except Exception:
            if "p" in options.flags:
                out.write(left)
                out.writelines(data for _, data in found)
            raise
    return 0 if "e" in options.flags else code


def _one(mail: Filter, name: str, data: bytes, options: Given, out: BinaryIO) -> str:
    """Classify a message, say so, and learn it with -u."""
    settings, flags = options.settings, options.flags
    decision = mail.classify(data)
    decision = replace(decision, kind=settings.kind(decision.score))
    if "p" in flags:
        out.write(passed(data, decision, settings.header))
    elif line := _line(decision, options):
        named = options.objects or "b" in flags
        named = named and ("T" in flags or not _terse(options))
        sys.stdout.write(f"{printable(name)} {line}\n" if named else f"{line}\n")
        if flags["v"] > 1 and "T" not in flags and not _terse(options):
            sys.stdout.writelines(f"  {weight:+.4f} {part!r}\n" for part, weight in mail.reasons(data))
    learns = "u" in flags and decision.kind != "unsure"
    words = _words(data) if learns and {"v", "l"} & set(flags) else 0
    if learns:
        mail.learn(data, decision.kind)
        _say_learnt(options, words, 1)
    _log(options, _logged(decision, settings.header, words))
    return decision.kind


def _logged(decision: Decision, name: str, words: int) -> str:
    """The line for syslog; words where the message was learnt."""
    said = f"{name}: {decision.kind.capitalize()}, spamicity={decision.score:.6f}, version={_bogofilter()}"
    letter = "s" if decision.kind == "spam" else "n"
    return f"{said}, register-{letter}, {words} words, 1 messages" if words else said


def _line(decision: Decision, options: Given) -> str:
    """What is printed of a decision; "" for nothing."""
    letter, score = _LETTERS[decision.kind], decision.score
    if options.flags["T"] > 1:
        return f"{score:.16f}"
    if options.flags["T"]:
        return f"{letter} {score:g}"
    if _terse(options):
        return f"{letter} {score:.6f}"
    return _field(decision, options.settings.header) if "v" in options.flags else ""


def _terse(options: Given) -> bool:
    return "t" in options.flags or options.settings.terse


def _field(decision: Decision, name: str) -> str:
    kind = decision.kind.capitalize()
    return f"{name}: {kind}, tests=bogofilter, spamicity={decision.score:.6f}, version={_bogofilter()}"


def passed(data: bytes, decision: Decision, name: str) -> bytes:
    """The message with the decision in a header field of this name; forged ones are removed."""
    from textsvm.mail.fields import fields, header
    from textsvm.mail.passing import marked

    if name.lower() == "x-bogosity":
        return marked(data, decision, bogofilter=True)
    found, forged = header(data), name.lower().encode() + b":"
    kept = [
        data[start:stop]
        for start, stop in fields(data, found.start, found.end)
        if not data[start:stop].lower().startswith(forged)
    ]
    clean = data[: found.start] + b"".join(kept) + data[found.end :]
    ours = b"\n" + _field(decision, "X-Bogosity").encode()
    result = (b"\n" + marked(clean, decision, bogofilter=True)).replace(
        ours, b"\n" + _field(decision, name).encode(), 1
    )
    return result[1:]


# Around it


@contextmanager
def _filter(options: Given, create: bool) -> Iterator[Filter]:
    from textsvm.mail.filter import Filter
    from textsvm.mail.lessons import store_folder

    folder = options.settings.folder
    mail = Filter(store_folder(Path(folder) if folder else None), create=create)
    try:
        yield mail
    finally:
        mail.close()


@contextmanager
def _output(options: Given) -> Iterator[BinaryIO]:
    """Where -p writes."""
    file = options.values.get("O")
    if file and "p" not in options.flags:
        print(f"textsvm-bogofilter: -O {file} means nothing without -p", file=sys.stderr)
    if file and "p" in options.flags:
        with open(file, "wb") as out:
            yield out
    else:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def _copy(arguments: list[str]) -> None:
    """The message as it came, where the options ask for it and cannot be understood."""
    asked = any(word[:1] == "-" and word[1:2] != "-" and "p" in word for word in arguments)
    if (asked or "--passthrough" in arguments) and not sys.stdin.isatty():
        while part := sys.stdin.buffer.read(1 << 20):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def _log(options: Given, line: str) -> None:
    if "l" in options.flags:
        import syslog

        syslog.openlog("bogofilter", syslog.LOG_PID, syslog.LOG_MAIL)
        syslog.syslog(syslog.LOG_INFO, line)


def _complain(error: Exception) -> None:
    why = error if isinstance(error, InputError | OSError) else f"{type(error).__name__}: {error}"
    with suppress(OSError):
        print(f"textsvm-bogofilter: {one_line(str(why))}", file=sys.stderr)


def _bogofilter() -> str:
    from textsvm.mail.passing import BOGOFILTER

    return BOGOFILTER


def _version() -> str:
    return f"textsvm-bogofilter {textsvm.__version__}, in the place of bogofilter version {_bogofilter()}\n"


def _configuration(settings: Settings) -> str:
    return (
        f"# {_version()}\nham_cutoff  = {settings.ham_cutoff:.6f}\n"
        f"spam_cutoff = {settings.spam_cutoff:.6f}\n\n"
        f"spam-header-name  = {settings.header}\nbogofilter-dir    = {settings.folder or ''}\n"
    )


if __name__ == "__main__":
    main()
