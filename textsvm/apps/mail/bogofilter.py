"""The program textsvm-bogofilter: the filter with Bogofilter's command line, for existing set-ups.

Options and exit codes are those of Bogofilter 1.2.5 (bogofilter(1)): 0 spam, 1 ham, 2 unsure, 3 error.
Deliberate differences:

- A repeated lesson counts once. -S and -N change nothing unless the message was learnt as that kind.
- With -p a message is passed on byte for byte, and unmarked after an error (exit code 3). Bogofilter adds a
  missing last line end, and passes nothing on without a wordlist.
- A missing message or an unknown option is an error (exit 3). Bogofilter exits 0 (spam), repeats the last
  code, or continues.
- -t and -T do not change the header, unless terse_format begins with the name of a header field. With
  stats_in_header=no and -p -v the words that decided are at the beginning of the body, wherever
  spam_header_place puts the decision.
- After a lesson the exit code is 0, also with -p, where Bogofilter returns the code of a decision.
- Settings of Bogofilter's own arithmetic and words have no effect: a line on stderr names them. -vv shows the
  words that decided.
"""

from __future__ import annotations

import getopt
import getpass
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from textsvm.apps.mail.client import CODES, ERROR, pass_on
from textsvm.apps.mail.features import features
from textsvm.apps.mail.message import read_message
from textsvm.apps.mail.raw_message import VERSION, RawMessage, file_bytes, line_end, pieces_with_fields
from textsvm.errors import InputError, one_line, printable
from textsvm.version import __version__

if TYPE_CHECKING:
    from textsvm.apps.mail.filter import Filter

USAGE = """\
Usage: textsvm-bogofilter [OPTIONS] < MESSAGE      exit code: 0 spam, 1 ham, 2 unsure, 3 error

  -p            pass the message on to standard output, with X-Bogosity at the end of its header
  -e            exit code 0 whatever the message is, 3 for an error
  -u            learn the message as its decision says, unless that is unsure
  -s, -n        learn the message as spam, as ham
  -S, -N        undo a lesson as spam, as ham; -Sn and -Ns move it
  -M            the input is an mbox
  -b, -B        files, mboxes (with -M), Maildirs and MH folders, named on standard input, or as arguments
  -I, -O FILE   read from a file; with -p write to a file
  -d DIR        folder of the lessons (default: BOGOFILTER_DIR, TEXTSVM_MAIL, or ~/.local/share/textsvm)
  -o SPAM,HAM   from here on it is spam (.99), up to here ham (.45; 0: everything else is)
  -c FILE, -C   read this configuration file, read none (else /etc/bogofilter.cf and ~/.bogofilter.cf)
  -t, -T, -TT   a letter and the score; in a form that never changes; the score alone, 16 digits
  -v, -vv       the X-Bogosity line, or the number of lessons; the words that decided
  --daemon      start the server in the background if none runs; later messages are decided by it
  -l, -q, -Q, -V, -h   to syslog too; quiet; configuration; version; this text

All options of Bogofilter are accepted; a line on stderr names settings of its arithmetic that have no effect.
"""
_SHORT = "hVQpeuMbBRsnSNHCltTqUvDc:d:k:I:O:L:m:o:E:y:x:"
_LONG = {
    "help": "h", "version": "V", "query": "Q", "passthrough": "p", "ham-true": "e", "update-as-scored": "u",
    "classify-mbox": "M", "classify-stdin": "b", "classify-files": "B", "dataframe": "R",
    "register-spam": "s", "register-ham": "n", "unregister-spam": "S", "unregister-nonspam": "N",
    "no-config-file": "C", "no-header-tags": "H", "use-syslog": "l", "terse": "t", "fixed-terse-format": "T",
    "quiet": "q", "report-unsure": "U", "verbosity": "v", "debug-to-stdout": "D",
}  # fmt: skip
_LONG_VALUED = {
    "config-file": "c", "bogofilter-dir": "d", "db-cachesize": "k", "input-file": "I", "output-file": "O",
    "syslog-tag": "L", "timestamp-date": "y", "debug-flags": "x",
}  # fmt: skip
#: Options for Bogofilter's own arithmetic and words.
_UNSUPPORTED_OPTIONS = frozenset("HmE")
#: Settings of Bogofilter's own arithmetic, words and log.
_UNSUPPORTED = frozenset((
    "block_on_subnets", "charset_default", "replace_nonascii_characters", "no_header_tags", "unicode",
    "min_token_len", "max_token_len", "multi_token_count", "max_multi_token_len", "min_dev", "robs", "robx",
    "ns_esf", "sp_esf", "token_count", "token_count_min", "token_count_max", "log_update_format",
))  # fmt: skip
#: Settings of its database and for debugging, which decisions do not depend on.
_IGNORED_KEYS = frozenset((
    "db_cachesize", "db_log_autoremove", "db_transaction", "timestamp", "timestamp_date", "report_unsure",
    "debug_flags", "debug_to_stdout",
))  # fmt: skip
#: Keys of configuration files, which are long options too.
_KEYS = frozenset((
    "spam_cutoff", "ham_cutoff", "spam_header_name", "bogofilter_dir", "header_format", "log_header_format",
    "spam_subject_tag", "unsure_subject_tag", "spam_header_place", "spamicity_formats", "spamicity_tags",
    "stats_in_header", "terse_format", "thresh_update", "user_config_file", "wordlist",
))  # fmt: skip
_KEY_VALUE = re.compile(r"([^ \t=]+)[ \t=]+(.*)")
_SITE_FILE = "/etc/bogofilter.cf"
_FIELD_NAME = re.compile(r"[!-9;-~]+:")
_KINDS = {"s": "spam", "n": "ham", "S": "spam", "N": "ham"}
_ORDER = ("spam", "ham", "unsure")
_DIRECTIVE = re.compile(r"%[-\d]*(?:\.(\d{0,9}))?(.?)", re.DOTALL)
_NUMBER = re.compile(r"[^%]*%[-+ 0]*\d{0,2}(\.\d{0,2})?[efgEFG][^%]*")
#: An IPv4 address in brackets, except 127.0.0.1.
_ADDRESS = re.compile(rb"\[(?!127\.0\.0\.1\])((?:\d{1,3}\.){3}\d{1,3})\]")
_QUEUE_ID = re.compile(rb"[ \t]id[ \t\r\n]+<?([A-Za-z0-9.-]{1,29})(?![A-Za-z0-9.-])")
_MESSAGE_ID = re.compile(rb"(?i:message-id):[ \t\r\n]*([\t -~\x80-\xff]{1,90})")
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
        pass_on(arguments)
        return ERROR
    try:
        settings = options.settings
        version = f"textsvm-bogofilter {__version__}, in the place of bogofilter version 1.2.5\n"
        configuration = f"# {version}\n{settings.query()}"
        for letter, text in (("h", USAGE), ("V", version), ("Q", configuration)):
            if letter in options.flags:
                sys.stdout.write(text)
                return 0
        if settings.unsupported and "q" not in options.flags:
            _print_error(f"no effect here: {', '.join(dict.fromkeys(settings.unsupported))}")
        return _register(options) if options.registers else _classify(options)
    except Exception as error:  # of any kind: Python's own exit code would mean ham
        _print_error(error)
        return ERROR


# Input


def input_messages(options: BogofilterArguments) -> Iterator[tuple[str, bytes]]:
    """The raw messages of the input, each with the name of its file; "" for standard input and -I."""
    mbox, names = "M" in options.flags, options.objects
    if "b" in options.flags:
        lines = (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        names = [line.decode("utf-8", "surrogateescape") for line in lines if line]
    elif "B" not in options.flags:
        source = options.values.get("I")
        yield from _split("", sys.stdin.buffer.read() if source is None else file_bytes(source), mbox)
        return
    for path in map(Path, names):
        parts = [path / part for part in ("new", "cur") if (path / part).is_dir()]  # of a Maildir
        files = [path]
        if parts:
            files = [file for part in parts for file in sorted(part.iterdir()) if file.name[:1] != "."]
        elif path.is_dir():  # an MH folder
            numbered = (file for file in path.iterdir() if file.name.isdecimal())
            files = sorted(numbered, key=lambda file: int(file.name))
        for file in files:
            yield from _split(str(file), file_bytes(file), mbox)


def _split(name: str, data: bytes, mbox: bool) -> Iterator[tuple[str, bytes]]:
    starts = [match.start() for match in _FROM.finditer(data)] if mbox else []
    for start, end in zip([0, *starts], [*starts, len(data)], strict=True):
        if end > start or not starts:
            yield name, data[start:end]


# Learning


def _register(options: BogofilterArguments) -> int:
    """-s, -n, -S, -N, -Sn, -Ns."""
    letters, words, n = options.registers, 0, 0

    def counted() -> Iterator[RawMessage]:
        nonlocal words, n
        for _, data in messages:
            if "p" in options.flags:
                out.write(data)
            message = RawMessage(data)
            words += _n_words(message) if {"v", "l"} & set(options.flags) else 0
            n += 1
            yield message

    with _opened(options, create=letters[-1] in "sn") as (out, mail, messages):
        if letters[-1] in "sn":
            mail.learn_all(counted(), _KINDS[letters[-1]])
        else:
            for message in counted():
                if mail.learnt_kind(message) == _KINDS[letters]:
                    mail.unlearn(message)
    _print_counts(options, words, n)
    _log(options, f"register-{letters[-1]}, {words} words, {n} messages")
    return 0


def _print_counts(options: BogofilterArguments, words: int, n: int) -> None:
    if "v" in options.flags:
        print(f"# {words} word{'s' * (words != 1)}, {n} message{'s' * (n != 1)}", file=sys.stderr)


def _n_words(message: RawMessage) -> int:
    """Number of features of a message, which -v and -l report instead of Bogofilter's number of words."""
    return len(features(read_message(message).text)[0])


# Classifying


def _classify(options: BogofilterArguments) -> int:
    """Classify the messages; return the exit code of the last."""
    code = 0
    with _opened(options, create="u" in options.flags) as (out, mail, messages):
        for n_messages, (name, data) in enumerate(messages, 1):
            try:
                kind, output = _classify_message(mail, name, data, options, n_messages)
            except Exception:
                if "p" in options.flags:
                    out.write(data)
                raise
            out.writelines(output)
            code = CODES[kind]
    return 0 if "e" in options.flags else code


def _classify_message(
    mail: Filter, name: str, data: bytes, options: BogofilterArguments, n_messages: int
) -> tuple[str, list[bytes | memoryview]]:
    """Classify a message, and learn it with -u; return its kind, and the output."""
    settings, flags = options.settings, options.flags
    raw = RawMessage(data)
    decision = mail.classify(raw)
    kind = settings.kind(decision.score)
    learns = "u" in flags and settings.is_learnt(kind, decision.score) and not raw.is_empty
    n_words = cache(lambda: _n_words(raw))
    registered = kind.replace("ham", "n")[0] if learns else ""
    values = LineValues(kind, decision.score, raw, n_words, n_messages, registered)
    reasons: list[str] = []
    if flags["v"] + flags["p"] > 1 and flags["v"] and (flags["p"] or not settings.terse) and not flags["q"]:
        prefix = "  " if settings.stats_in_header else "# "
        reasons = [f"{prefix}{weight:+.4f} {part!a}" for part, weight in mail.reasons(raw)]
    output: list[bytes | memoryview] = []
    if flags["T"] > 1:
        line = f"{decision.score:.16f}"
    elif flags["T"]:
        line = settings.line("%1.1c %g", values)
    elif settings.terse:
        line = settings.line(settings.terse_format, values)
    else:
        line = settings.line(settings.header_format, values) if "v" in flags else ""
    if "p" in flags:
        output = marked_parts(values, settings, reasons)
    elif line:
        if (options.objects or "b" in flags) and ("T" in flags or not settings.terse):
            line = f"{printable(name)} {line}"
        blank = [""] if reasons and not settings.stats_in_header else []
        lines = [line, *blank, *reasons, ""]
        output = ["\n".join(lines).encode("utf-8", "surrogateescape")]
    if learns:
        mail.learn(raw, kind)
        _print_counts(options, n_words() if {"v", "l"} & set(flags) else 0, 1)
    if "l" in flags:
        lesson = f", register-{registered}, {n_words()} words, 1 messages" if learns else ""
        _log(options, settings.line(settings.log_header_format, values) + lesson)
    return kind, output


def marked_parts(values: LineValues, settings: Configuration, reasons: list[str]) -> list[bytes | memoryview]:
    """Pieces of the message with the decision in a field of its header, and the subject tag."""
    message = values.message
    data, name = message.data, re.escape(settings.spam_header_name.encode())
    replaced = re.compile(rb"\n(?i:%s)[ \t]*:" % name)
    line = settings.line(settings.terse_format if settings.terse else settings.header_format, values)
    if settings.terse and not _FIELD_NAME.match(line):
        line = settings.line(settings.header_format, values)
    lines, edits, place = [line], [], None
    place_start = settings.spam_header_place.encode("utf-8", "surrogateescape") or b"\n"
    tag = {"spam": settings.spam_subject_tag, "unsure": settings.unsure_subject_tag}.get(values.kind)
    end, after = line_end(message, message.fields_end), [f"Subject: {tag}"] if tag else []
    for start, stop in message.fields(message.fields_end):
        field = data[start:stop]
        is_replaced = replaced.match(b"\n" + field)
        if place is None and not is_replaced and field.startswith(place_start):
            place = start
        if after and field[:8].lower() == b"subject:":
            added = f" {tag}".encode("utf-8", "surrogateescape") + b" " * (field[8:9] != b" ")
            edits.append((start + 8, start + 8, added))
            after = []
    if settings.stats_in_header:
        lines += reasons
    elif reasons:
        body = b"".join(reason.encode() + end for reason in [*reasons, ""])
        edits.append((message.body_start, message.body_start, body))
    if place is None:
        lines += after
    elif after:
        added = after[0].encode("utf-8", "surrogateescape") + end
        edits.append((message.fields_end, message.fields_end, added))
    return pieces_with_fields(message, lines, replaced, place, edits)


# Resources


@contextmanager
def _opened(
    options: BogofilterArguments, create: bool
) -> Iterator[tuple[BinaryIO, Filter, Iterator[tuple[str, bytes]]]]:
    """Output, filter and messages; after an error -p passes on the messages that were not read yet."""
    messages, passing = input_messages(options), "p" in options.flags
    file = options.values.get("O")
    if file and not passing:
        _print_error(f"-O {file} has no effect without -p")
    with open(file, "wb") if file and passing else nullcontext(sys.stdout.buffer) as out:
        try:
            from textsvm.apps.mail.filter import Filter  # here: mail is passed on if the import fails

            with Filter(options.settings.folder or None, create=create) as mail:
                yield out, mail, messages
        except Exception:
            if passing:
                out.writelines(data for _, data in messages)
            raise
        out.flush()


def _log(options: BogofilterArguments, line: str) -> None:
    if "l" in options.flags:
        import syslog

        syslog.openlog("bogofilter", syslog.LOG_PID, syslog.LOG_MAIL)
        syslog.syslog(syslog.LOG_INFO, line)


def _print_error(error: Exception | str) -> None:
    message = error if isinstance(error, InputError | OSError | str) else f"{type(error).__name__}: {error}"
    with suppress(OSError):
        print(f"textsvm-bogofilter: {one_line(str(message))}", file=sys.stderr)


# Settings and lines


@dataclass(frozen=True)
class LineValues:
    """Values of the directives."""

    kind: str
    score: float
    message: RawMessage
    n_words: Callable[[], int]
    n_messages: int = 1  #: Messages of this run, up to this message
    registered: str = ""  #: "s" or "n" if the message is learnt


@dataclass(frozen=True)
class Configuration:
    """Settings of configuration files and options."""

    header_format: str = "%h: %c, tests=bogofilter, spamicity=%p, version=%v"
    terse_format: str = "%1.1c %f"
    log_header_format: str = "%h: %c, spamicity=%p, version=%v"
    spamicity_tags: tuple[str, ...] = ("Spam", "Ham", "Unsure")  #: Names of `_ORDER`
    spamicity_formats: tuple[str, ...] = ("%0.6f", "%0.6f", "%0.6f")  #: Of %p and %d
    spam_header_name: str = "X-Bogosity"  #: Name of the header field
    spam_cutoff: float = 0.99
    ham_cutoff: float = 0.45
    syslog_tag: str = ""
    folder: str | None = None  #: Folder of the lessons
    terse: bool = False
    spam_subject_tag: str = ""
    unsure_subject_tag: str = ""
    spam_header_place: str = ""
    stats_in_header: bool = True
    thresh_update: float = 0.0
    user_config_file: str = "~/.bogofilter.cf"
    unsupported: tuple[str, ...] = ()  #: Settings that have an effect in Bogofilter and not here

    def line(self, format: str, values: LineValues) -> str:
        """A line in this format.

        As in Bogofilter, the width of a number has no effect, a number has at most 19 characters, and after
        %d of a spam message later numbers show 1 - score.
        """
        index, score = _ORDER.index(values.kind), values.score
        texts: dict[str, Callable[[], str]] = {
            "A": lambda: _first_match(values.message, b"received:", _ADDRESS),
            "c": lambda: self.spamicity_tags[index],
            "D": lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "h": lambda: self.spam_header_name,
            "I": lambda: _first_match(values.message, b"message-id:", _MESSAGE_ID),
            "l": lambda: self.syslog_tag,
            "m": lambda: str(values.n_messages),
            "Q": lambda: _first_match(values.message, b"", _QUEUE_ID),
            "r": lambda: values.registered,
            "u": _user_name,
            "v": lambda: VERSION,
            "w": lambda: str(values.n_words()),
        }

        def value(match: re.Match[str]) -> str:
            nonlocal score
            precision, letter = match[1], match[2]
            if letter == "d" and values.kind == "spam":
                score = 1 - score
            if letter in "dp":
                return (self.spamicity_formats[index] % score)[:19]
            if letter in "efgo":
                digits = min(60, int(precision or 0)) if precision is not None else 6 if letter in "fg" else 2
                number = self.spam_cutoff if letter == "o" else score
                return f"{number:.{digits}{letter.replace('o', 'e')}}"[:19]
            text = "%" if letter == "%" else texts[letter]()
            return text if precision is None else text[: int(precision or 0)]

        return _DIRECTIVE.sub(value, format)

    def kind(self, score: float) -> str:
        """The kind of a message of this score."""
        if score >= self.spam_cutoff:
            return "spam"
        two_kinds = self.ham_cutoff == 0 or self.ham_cutoff >= self.spam_cutoff
        return "ham" if two_kinds or score <= self.ham_cutoff else "unsure"

    def is_learnt(self, kind: str, score: float) -> bool:
        """Whether -u learns a message; scores within `thresh_update` of 0 or 1 need no lesson."""
        if kind == "spam":
            return score <= 1 - self.thresh_update
        return kind == "ham" and score >= self.thresh_update

    def query(self) -> str:
        """The text of -Q."""
        n_kinds = 2 if self.ham_cutoff == 0 else 3
        settings = {
            "stats-in-header": "Yes" if self.stats_in_header else "No",
            "thresh-update": f"{self.thresh_update:.6f}",
            "spam-header-name": self.spam_header_name,
            "spam-header-place": self.spam_header_place or "''",
            "spam-subject-tag": self.spam_subject_tag or "''",
            "unsure-subject-tag": self.unsure_subject_tag or "''",
            "header-format": self.header_format,
            "terse-format": self.terse_format,
            "log-header-format": self.log_header_format,
            "spamicity-tags   ": ", ".join(self.spamicity_tags[:n_kinds]),
            "spamicity-formats": ", ".join(self.spamicity_formats[:n_kinds]),
            "bogofilter-dir": self.folder or "",
        }
        cutoffs = f"ham_cutoff  = {self.ham_cutoff:.6f}\nspam_cutoff = {self.spam_cutoff:.6f}\n\n"
        return cutoffs + "".join(f"{key:17} = {value}\n" for key, value in settings.items())

    def with_key(self, key: str, value: str) -> Configuration:
        """The settings with another key."""
        key = key.strip().lower().replace("-", "_")
        value = "" if value == "''" else value
        text = value.partition("#")[0].rstrip()  # without a comment
        if re.search("[\0-\x08\n-\x1f\x7f]", value):
            raise InputError(f"{key} has a control character: {value!r}")
        changed: dict[str, Any] = {}
        if key in ("spam_cutoff", "ham_cutoff", "thresh_update"):
            changed[key] = _cutoff(key, text)
        elif key in ("spamicity_tags", "spamicity_formats"):
            changed[key] = _by_kind(key, value, vars(self)[key])
        elif key in ("terse", "stats_in_header"):
            if text[:1].upper() not in ("Y", "T", "1", "N", "F", "0"):
                raise InputError(f"{key} must be yes or no, got {text!r}")
            changed[key] = text[:1].upper() in "YT1"
        elif key in ("header_format", "terse_format", "log_header_format"):
            changed[key] = check_format(key, text)
        elif key == "bogofilter_dir":
            changed["folder"] = os.path.expanduser(text)
        elif key == "spam_header_name" and not _FIELD_NAME.fullmatch(text + ":"):
            raise InputError(f"{text!r} cannot be the name of a header field")
        elif key in _KEYS and key != "wordlist":
            changed[key] = text
        if changed:
            return replace(self, **changed)
        if key in _IGNORED_KEYS:
            return self
        if key == "wordlist":
            key = "wordlist (all lessons are in one store, which -d or bogofilter_dir names)"
        return replace(self, unsupported=(*self.unsupported, key))


def check_format(key: str, format: str) -> str:
    """The format; InputError if a directive is unknown."""
    for match in _DIRECTIVE.finditer(format):
        if not match[2] or match[2] not in "%AcdDefghIlmopQruvw":
            raise InputError(f"{key} has an unknown directive {match[0]!r}; see bogofilter.cf.example")
    return format


def _first_match(message: RawMessage, name: bytes, pattern: re.Pattern[bytes]) -> str:
    """The first group of the first match in a field of this name, or of any if it is empty."""
    for start, stop in message.fields():
        if message.data[start : start + len(name)].lower() == name:
            match = pattern.search(message.data, start, stop)
            if match:
                return match[1].decode("utf-8", "surrogateescape").rstrip()
    return "UNKNOWN"


def _user_name() -> str:
    with suppress(OSError):
        return os.getlogin()
    return getpass.getuser()


# Options


@dataclass
class BogofilterArguments:
    """The command line."""

    #: Number of occurrences of each option without a value, by its letter.
    flags: Counter[str] = field(default_factory=Counter)
    values: dict[str, str] = field(default_factory=dict)  #: The other options
    objects: list[str] = field(default_factory=list)  #: Files and folders of -B
    settings: Configuration = Configuration()

    @property
    def registers(self) -> str:
        """The options s, n, S and N on the command line."""
        return "".join(letter for letter in "SNsn" if letter in self.flags)


def parse_arguments(arguments: list[str]) -> BogofilterArguments:
    """Parse the command line, and read the configuration files."""
    all_keys = (key.replace("_", "-") for key in [*_KEYS, *_UNSUPPORTED, *_IGNORED_KEYS])
    valued = dict.fromkeys([*_LONG_VALUED, *all_keys])
    try:
        pairs, objects = getopt.gnu_getopt(arguments, _SHORT, [*_LONG, *(name + "=" for name in valued)])
    except getopt.GetoptError as error:
        raise InputError(f"{error}; see -h") from None
    parsed, keys = BogofilterArguments(objects=objects), []
    for name, value in pairs:
        bare = name.lstrip("-")
        letter = bare if len(bare) == 1 else _LONG.get(bare) or _LONG_VALUED.get(bare)
        if letter is None:
            keys.append((bare, value))
        elif letter + ":" in _SHORT:
            parsed.values[letter] = value
            parsed.flags["l"] += letter == "L"
        else:
            parsed.flags[letter] += 1
    flags = parsed.flags
    if objects and "B" not in flags:
        raise InputError(f"{objects[0]!r} is not an option; name files after -B, or use stdin")
    if parsed.registers not in ("", "s", "n", "S", "N", "Sn", "Ns"):
        raise InputError("-s, -n, -S and -N exclude each other; only -Sn and -Ns go together")
    if parsed.registers and "u" in flags:
        raise InputError("-u learns a message as its decision and excludes -s, -n, -S and -N")
    if "R" in flags:
        raise InputError("-R is not supported: it prints a data frame of Bogofilter's words")
    parsed.settings = _settings(parsed, keys)
    return parsed


def _settings(parsed: BogofilterArguments, keys: list[tuple[str, str]]) -> Configuration:
    settings = Configuration(folder=os.environ.get("BOGOFILTER_DIR") or None)
    file_name = parsed.values.get("c")
    if file_name is not None:
        settings = _read_configuration(settings, Path(file_name))
    elif "C" not in parsed.flags:
        if Path(_SITE_FILE).is_file():
            settings = _read_configuration(settings, Path(_SITE_FILE))
        own = dict(keys).get("user-config-file", settings.user_config_file)
        file = Path(os.path.expanduser(own))
        settings = _read_configuration(settings, file) if file.is_file() else settings
    for key, value in keys:
        settings = settings.with_key(key, value)
    cutoffs = parsed.values.get("o", "").split(",")
    for key, value in zip(("spam_cutoff", "ham_cutoff"), cutoffs, strict=False):
        settings = settings.with_key(key, value) if value else settings
    letters = [*parsed.flags, *parsed.values]
    options = (f"-{letter}" for letter in letters if letter in _UNSUPPORTED_OPTIONS)
    folder = parsed.values.get("d", settings.folder)
    terse = settings.terse or "t" in parsed.flags
    if "p" in parsed.flags and not re.match(r"%h:|[!-$&-9;-~]+:", settings.header_format):
        raise InputError(f"-p: header_format must begin with a field name, got {settings.header_format!r}")
    tag, unsupported = parsed.values.get("L", ""), (*settings.unsupported, *options)
    return replace(settings, folder=folder, terse=terse, syslog_tag=tag, unsupported=unsupported)


def _read_configuration(settings: Configuration, file: Path) -> Configuration:
    text = file_bytes(file).decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition(" #")[0].partition("\t#")[0].strip()
        if not line or line[0] in "#;":
            continue
        parts = _KEY_VALUE.fullmatch(line)
        if not parts:
            raise InputError(f"{file}, line {number}: {line!r} has a key and no value")
        try:
            settings = settings.with_key(*parts.groups())
        except InputError as error:
            raise InputError(f"{file}, line {number}: {error}") from error
    return settings


def _by_kind(key: str, value: str, present: tuple[str, ...]) -> tuple[str, ...]:
    """Values for spam, ham and unsure; missing values stay as they are at present."""
    values = tuple(filter(None, value.replace(",", " ").split(" ")))[: len(_ORDER)]
    for format in values if key == "spamicity_formats" else ():
        if not _NUMBER.fullmatch(format):
            raise InputError(f"{key} must be formats such as %0.6f, got {format!r}")
    return (*values, *present[len(values) :])


def _cutoff(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise InputError(f"{key} must be a number of 0 or more, got {value!r}")
    return number
