"""Options of Bogofilter 1.2.5, and keys of its configuration files; few have an effect here."""

from __future__ import annotations

import getopt
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from textsvm.errors import InputError

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
        raise InputError(
            f"{parsed.objects[0]!r} is not an option; name files after -B, or give the message on stdin"
        )
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
    return replace(settings, folder=folder, unused=(*settings.unused, *unused))


def _read_configuration(settings: Settings, file: Path) -> Settings:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
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
