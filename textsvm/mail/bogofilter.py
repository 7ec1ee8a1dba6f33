"""The program textsvm-bogofilter: the filter with Bogofilter's command line, for existing set-ups.

Options and exit codes are those of Bogofilter 1.2.5 (bogofilter(1)): 0 spam, 1 ham, 2 unsure, 3 error.
Deliberate differences:

- A repeated lesson counts once. -S and -N change nothing unless the message was learnt as that kind.
- With -p a message is passed on byte for byte, and unmarked after an error (exit code 3). Bogofilter adds a
  missing last line end, and passes nothing on without a wordlist. -t and -T do not change the header.
- A missing message and an unknown or invalid option are errors. Bogofilter exits with the code of the
  previous message or with 0, which means spam, or continues.
- After a lesson the exit code is 0, also with -p, where Bogofilter returns the code of a decision.
- Options of Bogofilter's own arithmetic have no effect; -v names them. -vv shows the words that decided.
"""

from __future__ import annotations

import getopt
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import textsvm
from textsvm.errors import InputError, one_line, printable
from textsvm.mail.raw_message import VERSION, RawMessage, bogosity_field, file_bytes, marked

if TYPE_CHECKING:
    from textsvm.mail.decision import Decision
    from textsvm.mail.filter import Filter

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

All options of Bogofilter are accepted; those of its arithmetic have no effect, and -v names them.
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
#: Options that set Bogofilter's own arithmetic, words or database.
_WITHOUT_EFFECT = frozenset("HUDkmEyx")
#: Keys of configuration files, which are long options too.
_KEYS = """
spam_cutoff ham_cutoff spam_header_name bogofilter_dir block_on_subnets charset_default db_cachesize
db_log_autoremove db_transaction header_format log_header_format log_update_format min_dev min_token_len
max_token_len max_multi_token_len multi_token_count ns_esf sp_esf replace_nonascii_characters robs robx
spam_subject_tag unsure_subject_tag spam_header_place spamicity_formats spamicity_tags stats_in_header
terse_format thresh_update timestamp token_count token_count_min token_count_max unicode user_config_file
wordlist
"""
_FILES = ("/etc/bogofilter.cf", "~/.bogofilter.cf")
ERROR = 3
_CODES = {"spam": 0, "ham": 1, "unsure": 2}
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
    version = f"textsvm-bogofilter {textsvm.__version__}, in the place of bogofilter version 1.2.5\n"
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
        _print_error(f"no effect here: {', '.join(settings.unused)}")
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
        yield from _split("", sys.stdin.buffer.read() if file is None else file_bytes(file), mbox)


def _messages_of(names: list[str], mbox: bool) -> Iterator[tuple[str, bytes]]:
    for name in names:
        path = Path(name)
        for file in _folder_files(path) if path.is_dir() else [path]:
            yield from _split(str(file), file_bytes(file), mbox)


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


# Learning


def _register(options: BogofilterArguments) -> int:
    """-s, -n, -S, -N, -Sn, -Ns."""
    letters = options.registers
    counts = Counter[str]()
    with _output(options) as out, _filter(options, create=True) as mail:
        messages = _counted_messages(options, out, counts)
        if letters[-1] in "sn":
            mail.learn_all(messages, _KINDS[letters[-1]])
        else:
            for message in messages:
                if mail.learnt_kind(message) == _KINDS[letters]:
                    mail.unlearn(message)
    words, n = counts["words"], counts["messages"]
    _print_counts(options, words, n)
    _log(options, f"register-{letters[-1]}, {words} words, {n} messages")
    return 0


def _print_counts(options: BogofilterArguments, words: int, n: int) -> None:
    if "v" in options.flags:
        print(f"# {words} word{'s' * (words != 1)}, {n} message{'s' * (n != 1)}", file=sys.stderr)


def _counted_messages(
    options: BogofilterArguments, out: BinaryIO, counts: Counter[str]
) -> Iterator[RawMessage]:
    """The messages, written to `out` with -p; `counts` becomes the number of words and of messages."""
    for _, data in input_messages(options):
        if "p" in options.flags:
            out.write(data)
        message = RawMessage(data)
        counts["words"] += _n_words(message, options)
        counts["messages"] += 1
        yield message


def _n_words(message: RawMessage, options: BogofilterArguments) -> int:
    """Number of features of a message, which -v and -l report instead of Bogofilter's number of words."""
    if not {"v", "l"} & set(options.flags):
        return 0
    from textsvm.mail.features import features
    from textsvm.mail.message import read_message

    return len(features(read_message(message).text)[0])


# Classifying


def _classify(options: BogofilterArguments) -> int:
    """Classify the messages; return the exit code of the last."""
    code, unwritten, messages = 0, b"", input_messages(options)
    with _output(options) as out:
        try:
            with _filter(options, create="u" in options.flags) as mail:
                for name, unwritten in messages:
                    code = _CODES[_classify_message(mail, name, unwritten, options, out)]
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
    raw = RawMessage(data)
    decision = mail.classify(raw)
    decision = replace(decision, kind=settings.kind(decision.score))
    if "p" in flags:
        out.write(passed(raw, decision, settings.header))
    elif line := _line(decision, options):
        named = (options.objects or "b" in flags) and ("T" in flags or not settings.terse)
        sys.stdout.write(f"{printable(name)} {line}\n" if named else f"{line}\n")
        if flags["v"] > 1 and "T" not in flags and not settings.terse:
            sys.stdout.writelines(f"  {weight:+.4f} {part!r}\n" for part, weight in mail.reasons(raw))
    words = 0
    if "u" in flags and decision.kind != "unsure":
        words = _n_words(raw, options)
        mail.learn(raw, decision.kind)
        _print_counts(options, words, 1)
    kind = decision.kind.capitalize()
    message = f"{settings.header}: {kind}, spamicity={decision.score:.6f}, version={VERSION}"
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
    if options.settings.terse:
        return f"{letter} {score:.6f}"
    return bogosity_field(decision, options.settings.header) if "v" in options.flags else ""


def passed(message: RawMessage, decision: Decision, name: str) -> bytes:
    """The message with the decision in a header field of this name; forged fields are removed."""
    if name.lower() == "x-bogosity":
        return marked(message, decision, bogofilter=True)
    data, forged = message.data, name.lower().encode() + b":"
    fields = (data[start:stop] for start, stop in message.fields())
    kept = [field for field in fields if not field.lower().startswith(forged)]
    clean = data[: message.start] + b"".join(kept) + data[message.end :]
    bogosity, field = (b"\n" + bogosity_field(decision, each).encode() for each in ("X-Bogosity", name))
    return (b"\n" + marked(clean, decision, bogofilter=True)).replace(bogosity, field, 1)[1:]


# Resources


def _filter(options: BogofilterArguments, create: bool) -> Filter:
    from textsvm.mail.filter import Filter  # not above: `_classify` passes mail on if the import fails
    from textsvm.mail.lessons import store_folder

    folder = options.settings.folder
    return Filter(store_folder(Path(folder) if folder else None), create=create)


@contextmanager
def _output(options: BogofilterArguments) -> Iterator[BinaryIO]:
    """The stream to which -p writes."""
    file = options.values.get("O")
    if file and "p" not in options.flags:
        _print_error(f"-O {file} has no effect without -p")
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


def _print_error(error: Exception | str) -> None:
    message = error if isinstance(error, InputError | OSError | str) else f"{type(error).__name__}: {error}"
    with suppress(OSError):
        print(f"textsvm-bogofilter: {one_line(str(message))}", file=sys.stderr)


# Options


@dataclass(frozen=True)
class Settings:
    """Settings of configuration files and options."""

    spam_cutoff: float = 0.99
    ham_cutoff: float = 0.45
    header: str = "X-Bogosity"  #: Name of the header field
    folder: str | None = None  #: Folder of the lessons
    terse: bool = False
    unused: tuple[str, ...] = ()  #: Options and keys without effect here

    def kind(self, score: float) -> str:
        """The kind of a message of this score."""
        if score >= self.spam_cutoff:
            return "spam"
        two_kinds = self.ham_cutoff == 0 or self.ham_cutoff >= self.spam_cutoff
        return "ham" if two_kinds or score <= self.ham_cutoff else "unsure"

    def with_key(self, key: str, value: str) -> Settings:
        """The settings with another key."""
        key = key.strip().lower().replace("-", "_")
        if key in ("spam_cutoff", "ham_cutoff"):
            return replace(self, **{key: _cutoff(key, value)})  # type: ignore[arg-type]
        if key == "spam_header_name":
            if not value or not all("!" <= letter <= "~" and letter != ":" for letter in value):
                raise InputError(f"{value!r} cannot be the name of a header field")
            return replace(self, header=value)
        if key == "bogofilter_dir":
            return replace(self, folder=os.path.expanduser(value))
        if key == "terse":
            return replace(self, terse=value[:1].lower() in "yt1")
        return replace(self, unused=(*self.unused, key))


@dataclass
class BogofilterArguments:
    """The command line."""

    #: Number of occurrences of each option without a value, by its letter.
    flags: Counter[str] = field(default_factory=Counter)
    values: dict[str, str] = field(default_factory=dict)  #: The other options
    objects: list[str] = field(default_factory=list)  #: Files and folders of -B
    settings: Settings = Settings()

    @property
    def registers(self) -> str:
        """The options s, n, S and N on the command line."""
        return "".join(letter for letter in "SNsn" if letter in self.flags)


def parse_arguments(arguments: list[str]) -> BogofilterArguments:
    """Parse the command line, and read the configuration files."""
    valued = dict.fromkeys([*_LONG_VALUED, *(key.replace("_", "-") for key in _KEYS.split())])
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
    _check_flags(parsed)
    parsed.settings = _settings(parsed, keys)
    return parsed


def _check_flags(parsed: BogofilterArguments) -> None:
    flags = parsed.flags
    if parsed.objects and "B" not in flags:
        raise InputError(f"{parsed.objects[0]!r} is not an option; name files after -B, or use stdin")
    if parsed.registers not in ("", "s", "n", "S", "N", "Sn", "Ns"):
        raise InputError("-s, -n, -S and -N exclude each other; only -Sn and -Ns go together")
    if parsed.registers and "u" in flags:
        raise InputError("-u learns a message as its decision and excludes -s, -n, -S and -N")
    if "R" in flags:
        raise InputError("-R is not supported: it prints a data frame of Bogofilter's words")


def _settings(parsed: BogofilterArguments, keys: list[tuple[str, str]]) -> Settings:
    settings = Settings(folder=os.environ.get("BOGOFILTER_DIR") or None)
    named = parsed.values.get("c")
    if named is not None:
        settings = _read_configuration(settings, Path(named))
    elif "C" not in parsed.flags:
        for file in map(Path, map(os.path.expanduser, _FILES)):
            settings = _read_configuration(settings, file) if file.is_file() else settings
    for key, value in keys:
        settings = settings.with_key(key, value)
    cutoffs = parsed.values.get("o", "").split(",")
    for key, value in zip(("spam_cutoff", "ham_cutoff"), cutoffs, strict=False):
        settings = settings.with_key(key, value) if value else settings
    unused = [f"-{letter}" for letter in [*parsed.flags, *parsed.values] if letter in _WITHOUT_EFFECT]
    folder = parsed.values.get("d", settings.folder)
    terse = settings.terse or "t" in parsed.flags
    return replace(settings, folder=folder, terse=terse, unused=(*settings.unused, *unused))


def _read_configuration(settings: Settings, file: Path) -> Settings:
    for number, line in enumerate(file_bytes(file).decode("utf-8", "replace").splitlines(), 1):
        line = line.partition(" #")[0].partition("\t#")[0].strip()
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=" if "=" in line else " ")
        if not equals:
            raise InputError(f"{file}, line {number}: {line!r} has a key and no value")
        settings = settings.with_key(key, value.strip())
    return settings


def _cutoff(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not number >= 0:
        raise InputError(f"{key} must be a number from 0 to 1, got {value!r}")
    return number


if __name__ == "__main__":
    main()
