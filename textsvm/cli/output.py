"""Output files of commands; - is stdout. They are checked before any work.

The suffix of a table decides its format; on standard output it is JSON Lines.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from textsvm.cli.console import WrongUsage, count_line, wrong_usage
from textsvm.cli.options import option, option_field
from textsvm.errors import InputError
from textsvm.reporting.tables import DIALECTS, WRITERS, write_table
from textsvm.runtime.files import TABLE_SUFFIXES, replacing, target_of

if TYPE_CHECKING:
    from textsvm.arrays import Json  # imports NumPy, which help does not need

STDOUT = Path("-")

TABLES = {**TABLE_SUFFIXES, ".xlsx": "xlsx"}  #: Formats of tables by the suffix of the file.
#: Suffixes of other types; texts of all formats, but no model, may also end in .txt.
_OTHERS = (".html", ".htm", ".md", ".npy", ".npz", ".png", ".svg", ".pdf", ".onnx", ".textsvm")
#: Header of a file that may be replaced.
_HEADER = (
    rb'[^\n]*labels?"?[,;\t|]"?(predicted_)?confidence|id[,\t](truth|neighbour|label[,\t]suggested)[,\t]'
)

Force = Annotated[bool, option("Replace an existing file of another kind.", "--force")]


@dataclass(frozen=True)
class Kind:
    """Kind of output."""

    name: str  #: Name with its article, for messages
    beginning: bytes  #: bytes: Regular expression that matches the beginning of every such file
    suffix: str = ""  #: Suffix, also of the temporary file if the output goes to stdout
    to_stdout: bool = True  #: Whether it may go to stdout
    format: str = ""  #: Of tables


#: Of formats that have no sign of the program that wrote a file: a file is replaced only with --force.
_NEVER = rb"(?!)"
MODEL = Kind("a textsvm model", rb'.{8}\{.*"textsvm":', ".textsvm")
PREDICTIONS = Kind("predictions", rb'\{"id": [^\n]*"(decision|predicted|top|reason|value)": ')
DOUBTS = Kind("doubtful labels", rb'\{"id": [^\n]*"suggested": ')
SEARCH = Kind("a table of textsvm tune", rb'\{"textsvm tune": ', to_stdout=False)
REPORTS = {
    ".html": Kind("a textsvm report", rb"<!doctype html>.{0,400}script-src 'sha256-", to_stdout=False),
    ".md": Kind("a textsvm report", rb"# [^\n]*\n\n[\d,]+ documents\.", to_stdout=False),
    ".json": Kind("a textsvm report", rb'\{\s*"title": ', to_stdout=False),
}
PICTURES = {".svg": Kind("an SVG picture", rb"(<\?xml[^>]*>\s*)?<(!DOCTYPE )?svg", to_stdout=False)}


@dataclass(frozen=True)
class Output:
    """Output file of a command, or stdout."""

    option: str  #: Option that names it
    path: Path  #: ``-`` is stdout
    kind: Kind
    force: bool = False  #: Whether an existing file of another kind may be replaced

    @property
    def is_stdout(self) -> bool:
        return self.path == STDOUT

    def checked(self, inputs: Mapping[str, Path | list[Path] | None]) -> Output:
        """This output; raises WrongUsage, before any work, if it cannot or must not be written.

        `inputs` are the other files and folders of the command by their names for messages.
        """
        if self.is_stdout:
            if not self.kind.to_stdout:
                raise WrongUsage(
                    f"{self.option} - is standard output, but the suffix of a file name selects the format; "
                    "name a file"
                )
            return self
        file = f"{self.option} {self.path}"
        with wrong_usage(f"{self.option}: "):
            target = target_of(self.path)
        if not target.parent.is_dir():
            raise WrongUsage(f"the folder of the output, {target.parent}, does not exist; create it first")
        for name, paths in inputs.items():
            for path in [paths] if isinstance(paths, Path) else paths or []:
                if _is_part_of(target, path):
                    raise WrongUsage(f"{file} would replace {name}, {path}; name another file")
        suffix, own = self.path.suffix.lower(), self.kind.suffix
        differs = suffix in {*TABLES, *_OTHERS} and TABLES.get(suffix, suffix) != TABLES.get(own, own)
        if own and (differs or (suffix == ".txt" and self.kind == MODEL)):
            content = f"ends in {suffix}, but the output is {self.kind.name}"
            raise WrongUsage(f"{file} {content}; name a {own} file")
        kind = f"certain to be {self.kind.name}" if self.kind.beginning == _NEVER else self.kind.name
        if not self.force and not _begins(target, self.kind.beginning):
            raise WrongUsage(
                f"{file} is there and is not {kind}; name another file, or replace it with --force"
            )
        _require_writable(target.parent, "the folder of the output")
        return self

    @contextmanager
    def place(self) -> Iterator[Path]:
        """Path to write to: the file, or a temporary file that is copied to stdout after the block."""
        if not self.is_stdout:
            yield self.path
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"output{self.kind.suffix}")
            yield path
            sys.stdout.flush()
            with open(path, "rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
            sys.stdout.buffer.flush()

    @contextmanager
    def printing(self) -> Iterator[None]:
        """Write everything that the block prints to stdout into the file, which is replaced at its end."""
        with (
            nullcontext(sys.stdout) if self.is_stdout else writing(self.path) as stream,
            redirect_stdout(stream),
        ):
            yield

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write lines as UTF-8; the file is replaced at once, or not at all."""
        with self.place() as path, writing(path) as stream:
            stream.writelines(lines)


@contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """Stream of a UTF-8 file that replaces `path` at the end of the block."""
    # "backslashreplace" writes a lone surrogate as JSON does.
    with (
        replacing(path) as temporary,
        open(temporary, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream,
    ):
        yield stream


def check_report(
    option: str, path: Path, force: bool, inputs: Mapping[str, Path | list[Path] | None],
    suffixes: Sequence[str] = (".html", ".md", ".json"),
) -> None:  # fmt: skip
    """Raise WrongUsage if a report cannot be written."""
    suffix = ".html" if path.suffix.lower() == ".htm" or path == STDOUT else path.suffix.lower()
    if suffix not in suffixes:
        raise WrongUsage(f"{option} {path}: the name of a report must end in {' or '.join(suffixes)}")
    Output(option, path, REPORTS[suffix], force).checked(inputs)


def _require_writable(folder: Path, name: str) -> None:
    """Raise InputError if no file can be written into a folder; its permissions alone do not tell that."""
    try:
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(bytes(4096))
    except OSError as error:
        raise InputError(f"cannot write into {name}, {folder}: {error.strerror}") from error


@dataclass(frozen=True)
class ReportFile:
    """The report."""

    report: Path | None = option_field(
        "Write a report with charts, intervals and explained mistakes: .html, .md or .json."
    )
    figures: Path | None = option_field(
        "Write each chart of the report into this folder as an SVG file.", metavar="DIR"
    )
    mistakes: int = option_field("Number of worst mistakes in the report, with texts.", min=0, default=10)
    force: Force = False

    @property
    def requested(self) -> bool:
        """Whether there is anything to write."""
        return self.report is not None or self.figures is not None

    def check(self, inputs: dict[str, Any]) -> None:
        """Raise WrongUsage if the report or the figures cannot be written."""
        folder = self.figures
        if folder is not None and folder.exists() and not folder.is_dir():
            raise WrongUsage(f"--figures {folder} is a file; name a folder")
        if folder is not None and not folder.absolute().parent.is_dir():
            raise WrongUsage(f"the folder of the figures, {folder.parent}, does not exist; create it first")
        if folder is not None:
            existing = folder if folder.exists() else folder.absolute().parent
            _require_writable(existing, "the folder of the figures")
        if self.report is not None:
            check_report("--report", self.report, self.force, inputs)


def _is_part_of(target: Path, source: Path) -> bool:
    """Whether a file is `source` or in the folder `source`, links included."""
    from textsvm.readers.files import walk

    if os.path.realpath(source) == str(target):
        return True
    with suppress(OSError):  # an unreadable input is reported when it is read
        if target.exists():
            files = [path for path, _ in walk(source)] if source.is_dir() else [source]
            return any(os.path.samefile(target, path) for path in files)
    return False


def _begins(path: Path, beginning: bytes) -> bool:
    """Whether a file matches, or does not exist, or is empty."""
    if not path.exists() or not path.stat().st_size:
        return True
    try:
        with open(path, "rb") as stream:
            return re.match(beginning, stream.read(1 << 16), re.DOTALL) is not None
    except OSError:
        return False


# Tables


def table_kind(option: str, path: Path, kind: Kind, requested: str | None = None) -> Kind:
    """The kind of an output in the format of its suffix; `requested` is for other names and stdout."""
    of_suffix = None if path == STDOUT else TABLES.get(path.suffix.lower())
    if of_suffix and requested not in (None, of_suffix):
        raise WrongUsage(f"{option} {path} and --output-format {requested} do not go together; leave one out")
    if path != STDOUT and not (of_suffix or requested):
        suffixes = ", ".join(TABLES)
        raise WrongUsage(f"{option} {path}: the suffix decides the format, and must be one of {suffixes}")
    format = of_suffix or requested or "jsonl"
    if format in WRITERS:  # nothing at the beginning tells who wrote it
        if find_spec(library := WRITERS[format]) is None:
            raise InputError(f"{option} {path} needs {library} (pip install {library}); or name a .csv file")
        return replace(kind, beginning=_NEVER, format=format)
    beginning = _HEADER if format in DIALECTS else rb"(\[\s*)?" + kind.beginning
    return replace(kind, name=f"{kind.name} as {format.upper()}", beginning=beginning, format=format)


def write_rows(output: Output, columns: Sequence[str], rows: Iterable[Json]) -> None:
    """Write rows in the format of the output."""
    with output.printing():
        sys.stdout.flush()
        counted = count_line if output.is_stdout else None
        write_table(sys.stdout.buffer, output.kind.format, columns, rows, counted)
