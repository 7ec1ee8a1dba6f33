"""Files, folders, archives and compressed files as named bytes and lines of text, read in place.

`read_files` reads everything into memory and writes nothing to disk; `FileOnDisk` reads a file when it is
needed. The type of a file is detected from its first bytes, not from its name. Members of archives that are
links, devices or outside of the archive are left out and reported; of a folder, only regular files are read.
Archives that unpack to more than `max_bytes`, or to far more than texts are packed to, are refused.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import islice, pairwise
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar, cast

from textsvm.errors import InputError
from textsvm.readers.charsets import UNDECODABLE, byte_order_mark, decode_named, decode_utf_8, is_binary
from textsvm.runtime.parallel import Progress

Problems = list[tuple[str, str]]
HEAD = 1 << 16  #: Bytes from which the format of a file is detected
MAX_LINE = 1 << 28  #: Longest line, and longest field of CSV.
MAX_BYTES = 2 << 30
MAX_FILES = 2_000_000
NUMPY = b"\x93NUMPY"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  #: Files of Microsoft Office up to 2003.
_SPREADSHEET = "a spreadsheet"
#: Beginnings of Arrow's files, of Feather's first version, and of Arrow's streams.
ARROW = (b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")
#: Members, or beginnings of the member "mimetype", by which ZIP archives of office documents are recognised.
_OFFICE_MEMBERS = {
    "xl/workbook.xml": _SPREADSHEET,
    "xl/workbook.bin": _SPREADSHEET,
    "word/document.xml": "a Word document",
    "ppt/presentation.xml": "a PowerPoint presentation",
    "[Content_Types].xml": "an office document",
    "META-INF/container.xml": "an e-book",
}
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."
#: Formats of archives that cannot be read.
UNSUPPORTED = {
    **{b"7z\xbc\xaf\x27\x1c": "7-Zip", b"Rar!\x1a\x07": "RAR"},
    **{b"\x04\x22\x4d\x18": "LZ4", b"\x1f\x9d": "compress (.Z)"},
}
_COMPRESSED = (".gz", ".bz2", ".xz", ".lzma", ".z", ".zst", ".tgz", ".tbz2", ".txz", ".tzst")
_ENDINGS = (*_COMPRESSED, ".tar", ".zip", ".mbox", ".mbx")
#: Files of systems, which are no documents.
_OF_SYSTEMS = ("__macosx", "desktop.ini", "thumbs.db", "ehthumbs.db", "icon\r", "$recycle.bin")
#: Names of the backups of editors: a~, #a#, a.bak, ~$a.docx.
_BACKUP = re.compile(r"(?:.*~|#.*#|~\$.*|.*\.(?:bak|orig|swp))", re.IGNORECASE)
FREE_BYTES = 4 << 20  #: Bytes that any file may unpack to
TEXT_RATIO = 200  #: Maximum unpacked bytes per packed byte of larger texts, which compress about 10-fold
#: The same of arrays: with 0.1 % nonzeros they compress 300-fold. Deflate's limit is 1032.
ARRAY_RATIO = 1032
#: Lines that any file may unpack to. A million rows "a TAB b" are packed to 6 kB and take 100 MB in memory.
FREE_LINES = 1_000_000
LINES_PER_BYTE = 1  #: Maximum lines per packed byte of longer texts
FREE_MEMBERS = 100_000  #: Gzip members that any file may have
#: Minimum mean bytes of the members of files with more members. Those of bgzip have 20,000 bytes.
MEMBER_BYTES = 64
# Exceptions of the standard library for damaged compressed files, and for damaged archives.
_DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)
_UNREADABLE = (
    *(*_DAMAGED, struct.error, tarfile.TarError, zipfile.BadZipFile),
    *(ValueError, KeyError, IndexError, OverflowError, RecursionError, RuntimeError),
)
#: Bytes of text that are decoded at a time, which fit a cache; lines for charsets other than UTF-8.
BLOCK = 1 << 17
_BLOCK_LINES = 1 << 11
_PIECE = 1 << 20  #: Bytes that are read at a time
#: Packed bytes of a bzip2 or LZMA member that are unpacked at a time: 40 bytes of bzip2 may hold 46 MB.
_SMALL_PIECE = 16
_MAX_PATH = 4096  #: Maximum symbols of the path of a member, as in other systems
_MAX_FOLDERS = 100  #: Maximum depth of the path of a member


def check_expansion(source: str, unpacked: int, packed: int, ratio: int = TEXT_RATIO, lines: int = 0) -> None:
    """Raise InputError if a file unpacks to more than any corpus does, before it takes the memory."""
    if unpacked > max(FREE_BYTES, ratio * packed):
        excess = f"{ratio} times its {packed:,} bytes"
    elif lines > max(FREE_LINES, LINES_PER_BYTE * packed):
        excess = f"{max(FREE_LINES, LINES_PER_BYTE * packed):,} lines from {packed:,} bytes"
    else:
        return
    raise InputError(
        f"{source} unpacks to more than {excess}, unlike any corpus; if that is intended, unpack it first"
    )


class _CountedMembers:
    """The packed bytes of a gzip file, with a bound on its members: gzip takes long for small members."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._members, self._end = stream, 0, b""
        start = stream.tell()
        self._max = max(FREE_MEMBERS, stream.seek(0, io.SEEK_END) // MEMBER_BYTES)
        stream.seek(start)

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        recent = self._end + data  # a header may be in two pieces; 1 in 16 million is packed data
        self._members, self._end = self._members + recent.count(b"\x1f\x8b\x08"), recent[-2:]
        if self._members > self._max:
            raise InputError(f"a gzip file has more than {self._max:,} members; unpack it first")
        return data


def _open_zstandard(stream: IO[bytes]) -> Any:
    """A stream of the unpacked bytes, by the standard library of Python 3.14, its backport, or PyArrow."""
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name).open(stream)
    try:
        return import_module("pyarrow").CompressedInputStream(stream, "zstd")
    except ImportError as error:
        raise InputError(
            "a .zst file needs backports.zstd (pip install backports.zstd); or unpack it with unzstd"
        ) from error


OPENERS: dict[bytes, Any] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=cast("Any", _CountedMembers(stream))),
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x5d\x00\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstandard,
}


@dataclass
class File:
    """A file in memory: its path inside the folder or archive, with slashes, and its bytes."""

    name: str
    data: bytes
    charset: str | None = None  #: Named charset that was converted to UTF-8

    lookahead_rows: ClassVar[int | None] = None  #: Rows that may be read ahead to detect columns (None: all)
    position: ClassVar[int] = 0  #: Number of bytes that were read from disk

    @property
    def head(self) -> bytes:
        """The first bytes."""
        return self.data[:HEAD]

    @property
    def size(self) -> int:
        return len(self.data)

    def open(self) -> IO[bytes]:
        return io.BytesIO(self.data)


class FileOnDisk:
    """A file that is read when it is needed, and unpacked if it is compressed; the members are `File`'s."""

    lookahead_rows, charset = 1000, None

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path, self.size = name, path, path.stat().st_size
        self._packed: IO[bytes] = io.BytesIO()
        with path.open("rb") as stream:
            start = stream.read(6)
        self._opener = next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), None)
        if self._opener and name.lower().endswith(_COMPRESSED):
            self.name = name.rpartition(".")[0]
        self.is_archive = start.startswith((*ZIP, *UNSUPPORTED)) or is_tar(self.head[:512])

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """A stream of the unpacked bytes; reading a damaged file raises InputError."""
        try:
            with self.path.open("rb", BLOCK) as self._packed:
                stream: Any = self._packed
                if self._opener:
                    budget = _Budget(f"{self.path}", sys.maxsize, self.size, None)
                    stream = io.BufferedReader(_BudgetedStream(self._opener(stream), budget, stream), BLOCK)
                yield stream
        except (InputError, FileNotFoundError, PermissionError):
            raise
        except _DAMAGED as error:
            raise InputError(f"{self.path} is damaged or cut off: {error or 'unexpected end'}") from error

    @property
    def position(self) -> int:
        return self.size if self._packed.closed else self._packed.tell()

    @property
    def head(self) -> bytes:
        with self.open() as stream:
            start = stream.read(HEAD)
        self._packed = io.BytesIO()  # `position` stays 0
        return start

    @property
    def data(self) -> bytes:
        with self.open() as stream:
            return stream.read()


def is_tar(block: bytes) -> bool:
    """Whether a file with this first block is a tar archive."""
    if len(block) < 512 or not any(block):
        return False
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


# Lines of text


def iterate_lines(file: File | FileOnDisk, problems: Problems, newline: str | None = "\n") -> Iterator[str]:
    """The lines of a file with their ends; `problems` gets the first bytes that are no text.

    With newline="" or None, a lone carriage return ends a line, too; with None all ends are line feeds.
    """
    mark, charset = byte_order_mark(file.head)
    line, reported = 1, False
    with file.open() as stream:
        stream.read(len(mark))
        lines = io.TextIOWrapper(stream, charset, "replace", "\n") if charset != "utf-8" else None
        while True:
            if lines is not None:
                text = "".join(islice(lines, _BLOCK_LINES))
                problem = UNDECODABLE.format(charset) if "\ufffd" in text else None
            else:
                data = _whole_lines(stream, file.name, line)
                text, problem = decode_utf_8(data, line)
                line += data.count(b"\n")
            if not text:
                return
            if problem and not reported:
                problems.append((file.name, problem))
                reported = True
            yield from io.StringIO(text, newline=newline)


def _whole_lines(stream: IO[bytes], name: str, number: int) -> bytes:
    """The next bytes of a stream up to the end of a line; empty at the end of the stream."""
    data = cast("io.BufferedReader", stream).read1(BLOCK)
    if not data or data.endswith(b"\n"):  # a terminal may be read again after its end
        return data
    data += stream.readline(MAX_LINE)
    if len(data) >= MAX_LINE and not data.endswith(b"\n"):
        number += data.count(b"\n")
        raise InputError(f"{name}, line {number} has more than {MAX_LINE:,} bytes; break it")
    return data


def transcoded(file: Any, encoding: str) -> File:
    """A file in memory, with its text as UTF-8; binary data stay as they are."""
    data = file.data
    if is_binary(data) and not encoding.lower().startswith("utf"):
        return File(file.name, data)
    text = decode_named(data, encoding, file.name)
    with suppress(UnicodeDecodeError):
        if not data.isascii() and data.decode("utf-8-sig") != text.removeprefix("\ufeff"):
            raise InputError(f"{file.name} is UTF-8, and {encoding} makes other words of it; leave it out")
    return File(file.name, text.encode(), encoding)


def with_progress(
    files: Sequence[Any], progress: Progress | None
) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Each file, and a function that reports the bytes read so far; it is called at the end of each file."""
    total, done, file = sum(file.size for file in files), 0, None

    def report() -> None:
        if progress is not None:
            progress(done + (file.position if file else 0), total)

    for file in files:
        yield file, report
        done, file = done + file.size, None
        report()


# Folders and archives


@dataclass
class InputFiles:
    """The files under a path."""

    source: str  #: The path as the user gave it
    files: list[Any] = field(default_factory=list)  #: In the order of the archive; sorted by name in a folder
    single: bool = False  #: Whether the path is a file, compressed or not, and no folder or archive
    problems: Problems = field(default_factory=list)  #: Entries that were left out
    named: set[str] = field(default_factory=set)  #: Files that were named by the user, beside other paths


def read_files(
    path: str | Path, *, max_bytes: int = MAX_BYTES, progress: Progress | None = None
) -> InputFiles:
    """Read a file, a folder or an archive (tar, zip; gzip, bzip2, xz, Zstandard) into memory.

    `max_bytes` bounds the unpacked bytes of all files together; `progress` is called with (packed bytes read,
    packed bytes in all).
    """
    path = Path(path)
    inputs = InputFiles(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            paths = without_backups(walk(path), inputs.problems)
            budget = _Budget(inputs.source, max_bytes, sum(p.stat().st_size for p, _ in paths), progress)
            for file, name in paths:
                with file.open("rb") as stream:
                    _add(inputs, stream, name, f"{path / name}", budget)
        elif stat.S_ISREG(mode):
            budget = _Budget(inputs.source, max_bytes, path.stat().st_size, progress)
            with path.open("rb") as stream:
                inputs.single = _add(inputs, stream, "", inputs.source, budget)
        elif stat.S_ISFIFO(mode):
            with path.open("rb") as stream:
                return read_stream(stream, inputs.source, max_bytes=max_bytes)
        else:
            raise InputError(f"{path} is neither a file nor a folder")
    except FileNotFoundError as error:
        text = " (a text itself is read from standard input: -)" if " " in str(path) else ""
        text = text or " (columns are named by --text and --label)" * (not path.suffix)
        raise InputError(f"{error.filename or path} is not there; check the path{text}") from error
    except PermissionError as error:
        raise InputError(f"{error.filename or path} may not be read: permission denied") from error
    return inputs


def read_stream(stream: IO[bytes], name: str, *, max_bytes: int = MAX_BYTES) -> InputFiles:
    """Like `read_files`, from a stream that cannot seek, such as standard input."""
    # In pieces: a buffered stream reserves all the memory that it is asked for.
    buffer = io.BytesIO()
    while piece := stream.read(min(_PIECE, max_bytes + 1 - buffer.tell())):
        buffer.write(piece)
    data = buffer.getvalue()
    inputs = InputFiles(name)
    budget = _Budget(name, max_bytes, len(data), None)
    if len(data) > max_bytes:
        budget.spend(len(data))
    inputs.single = _add(inputs, io.BytesIO(data), "", name, budget)
    return inputs


def combine_files(inputs: Sequence[InputFiles], paths: Sequence[Path]) -> InputFiles:
    """The files of several paths, named from their common folder."""
    if len(inputs) == 1:
        return inputs[0]
    combined = InputFiles(", ".join(part.source for part in inputs))
    folder = os.path.commonpath([path.absolute().parent for path in paths])
    for part, path in zip(inputs, paths, strict=True):
        place = PurePosixPath(Path(os.path.relpath(path.absolute(), folder)).as_posix())
        place = place.parent if part.single else place
        for file in part.files:
            file.name = str(place / file.name)
            combined.named |= {file.name} if part.single else set()
        combined.files += part.files
        combined.problems += [(str(place / name), problem) for name, problem in part.problems]
    return combined


def stem(name: str) -> str:
    """The last name of a path without the endings of archives and mail boxes."""
    base = PurePosixPath(name).name
    while base.lower().endswith(_ENDINGS):
        base = base.rpartition(".")[0]
    return base


class _Budget:
    """Unpacked bytes and files against their bounds, and packed bytes for the progress."""

    def __init__(self, source: str, max_bytes: int, packed: int, progress: Progress | None) -> None:
        self.source, self.max_bytes, self.unpacked, self.files, self.lines = source, max_bytes, 0, 0, 0
        self.packed, self.done, self.progress = packed, 0, progress

    def spend(self, size: int, ratio: int = TEXT_RATIO, data: bytes = b"") -> None:
        self.unpacked += size
        self.lines += data.count(b"\n") if ratio == TEXT_RATIO else 0
        if self.unpacked > self.max_bytes:
            raise InputError(
                f"{self.source} unpacks to more than {self.max_bytes:,} bytes; if that is intended, split it "
                "or raise max_bytes of read_corpus"
            )
        check_expansion(self.source, self.unpacked, self.packed, ratio, self.lines)

    def count(self) -> None:
        self.files += 1
        if self.files > MAX_FILES:
            raise InputError(f"{self.source} holds more than {MAX_FILES:,} files; split it")

    def advance(self, size: int) -> None:
        self.done += size
        if self.progress is not None:
            self.progress(min(self.done, self.packed), max(self.packed, 1))


class _BudgetedStream(io.RawIOBase):
    """A stream that spends the budget while it is read; `tail` holds the last bytes that were read."""

    def __init__(self, stream: IO[bytes], budget: _Budget, packed: IO[bytes]) -> None:
        self._stream, self._budget, self._packed = stream, budget, packed
        self._position, self._ratio, self.tail = packed.tell(), 0, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(min(len(buffer), _PIECE))
        buffer[: len(data)] = data
        self._ratio = self._ratio or (ARRAY_RATIO if data.startswith(NUMPY) else TEXT_RATIO)
        self._budget.spend(len(data), self._ratio, data)
        position = self._packed.tell()
        self._budget.advance(position - self._position)
        self._position = position
        self.tail = (self.tail + data)[-512:] if len(data) < 512 else data[-512:]
        return len(data)


def walk(folder: Path) -> Iterator[tuple[Path, str]]:
    """The regular files under a folder with their relative names, sorted, without hidden files."""

    def fail(error: OSError) -> None:
        raise error

    visited = set()
    paths = []
    for parent, folders, names in os.walk(folder, followlinks=True, onerror=fail):
        real = os.path.realpath(parent)
        if real in visited:  # a link that leads back
            folders.clear()
            continue
        visited.add(real)
        inner = Path(parent).relative_to(folder)
        # Hidden folders are not entered, except those of a Maildir.
        folders[:] = (
            name for name in sorted(folders)  # of two links to a folder, the first by name is read
            if any(
                not _hidden((inner / name / box).as_posix()) and os.path.isdir(Path(parent, name, box))
                for box in ("", "cur", "new")
            )
        )  # fmt: skip
        for name in names:
            path, relative = Path(parent, name), (inner / name).as_posix()
            if not _hidden(relative) and path.is_file():
                paths.append((path, relative))
    return iter(sorted(paths, key=lambda pair: pair[1]))


def without_backups(paths: Iterable[tuple[Path, str]], problems: Problems) -> list[tuple[Path, str]]:
    """The paths without the backups of editors, which `problems` gets."""
    pairs = list(paths)
    backups = {name for _, name in pairs if _BACKUP.fullmatch(PurePosixPath(name).name)}
    problems += [(name, "left out: it is the backup of an editor") for name in sorted(backups)]
    return [(path, name) for path, name in pairs if name not in backups]


def _hidden(name: str) -> bool:
    parts = name.split("/")
    return any(
        (part.startswith(".") and following not in ("cur", "new")) or part.lower() in _OF_SYSTEMS
        for part, following in pairwise([*parts, ""])  # a folder of a Maildir may be hidden
    )


def _add(inputs: InputFiles, packed: IO[bytes], name: str, path: str, budget: _Budget) -> bool:
    """Add a file, or the members of an archive; return whether it was no archive."""
    magic = packed.read(6)
    packed.seek(0)
    for start, kind in UNSUPPORTED.items():
        if magic.startswith(start):
            raise InputError(f"{path} is a {kind} archive, which is not read; repack it as .tar.xz or .zip")
    opener = next((opener for start, opener in OPENERS.items() if magic.startswith(start)), None)
    try:
        office = _office_kind(packed, path, budget.packed) if magic.startswith(ZIP) else _SPREADSHEET
        if office is None:
            _add_zip(inputs, packed, name, path, budget)
        elif office != _SPREADSHEET and name:  # a file of a folder
            inputs.problems.append((name, f"left out: it is {office}"))
        elif office != _SPREADSHEET:
            raise InputError(
                f"{path} is {office}, which is not read; save texts as .txt in a folder for each class, and "
                "tables as .xlsx or .csv"
            )
        if office != _SPREADSHEET:
            return False
        raw = _BudgetedStream(opener(packed) if opener else packed, budget, packed)
        stream = io.BufferedReader(raw, BLOCK)
        if is_tar(stream.peek()[:512]):
            _add_tar(inputs, stream, name, budget)
            if any(raw.tail):  # tarfile accepts an archive that is cut between two members
                raise tarfile.ReadError("the end of the archive is missing")
            return False
        budget.count()
        inner = name or PurePosixPath(Path(path).name).name
        if opener and inner.lower().endswith(_COMPRESSED):
            inner = inner.rpartition(".")[0]
        inputs.files.append(File(inner, b"".join(iter(partial(stream.read1, _PIECE), b""))))
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except MemoryError as error:  # a dictionary of LZMA may be of 4 GB
        raise InputError(f"there is not enough memory to unpack {path}; pack it again") from error
    except _UNREADABLE as error:
        raise InputError(f"{path} is damaged or cut off: {error or 'unexpected end'}") from error
    return True


def _office_kind(packed: IO[bytes], path: str, size: int) -> str | None:
    """The kind of office document that a ZIP archive is, or None."""
    with zipfile.ZipFile(packed) as archive:
        names = set(archive.namelist())
        kind = next((kind for member, kind in _OFFICE_MEMBERS.items() if member in names), None)
        if "mimetype" in names:
            with archive.open(name="mimetype") as member:
                start = member.read(100)
            if start.startswith(_OPEN_DOCUMENT):
                kind = _SPREADSHEET if b"spreadsheet" in start else "a LibreOffice document"
        if kind == _SPREADSHEET:
            check_expansion(path, sum(info.file_size for info in archive.infolist()), size)
    packed.seek(0)
    return kind


def _add_tar(
    inputs: InputFiles, stream: io.BufferedReader[_BudgetedStream], name: str, budget: _Budget
) -> None:
    with tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape") as archive:
        for member in archive:
            if member.isdir():
                continue
            odd = "a link, a device or a sparse file" if not member.isfile() or member.issparse() else None
            if (inner := _member_name(inputs, name, member.name, odd)) is None:
                continue
            budget.count()
            content = archive.extractfile(member)
            assert content is not None
            data = content.read()
            if len(data) != member.size:
                raise tarfile.ReadError("unexpected end of data")
            inputs.files.append(File(inner, data))


def _add_zip(inputs: InputFiles, packed: IO[bytes], name: str, path: str, budget: _Budget) -> None:
    with zipfile.ZipFile(packed) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            link = stat.S_ISLNK(info.external_attr >> 16)
            if (inner := _member_name(inputs, name, info.filename, "a link" if link else None)) is None:
                continue
            if info.flag_bits & 1:
                raise InputError(f"{path} is encrypted at {info.filename}; unpack it first")
            budget.count()
            ratio = ARRAY_RATIO if info.filename.endswith(".npy") else TEXT_RATIO
            budget.spend(info.file_size, ratio)
            budget.advance(info.compress_size)
            try:
                inputs.files.append(File(inner, _unzip(archive, info)))
                budget.spend(0, ratio, inputs.files[-1].data)
            except NotImplementedError as error:
                raise InputError(f"{path} has unknown compression at {info.filename}; repack it") from error


def _unzip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member, in pieces: zipfile's `read` unpacks even bytes beyond the stated size, and then cuts them."""
    buffer, content, size = io.BytesIO(), cast("zipfile.ZipExtFile", archive.open(info)), _PIECE
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # expansion without a bound
        content.MIN_READ_SIZE = size = _SMALL_PIECE
    with content:
        while piece := content.read1(size):
            buffer.write(piece)
    return buffer.getvalue()


def _member_name(inputs: InputFiles, archive: str, name: str, refused: str | None) -> str | None:
    """The name of a member under the name of the archive, or None if it is left out."""
    name = name.encode("utf-8", "replace").decode()
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if name.startswith(("/", "\\")) or ".." in parts or (parts and parts[0].endswith(":")):
        refused = "a path that leaves the archive"
    if len(name) > _MAX_PATH or len(parts) > _MAX_FOLDERS:
        refused, parts = f"a path of more than {_MAX_PATH:,} symbols or {_MAX_FOLDERS} folders", parts[:1]
    elif parts and not _hidden("/".join(parts)) and _BACKUP.fullmatch(parts[-1]):
        refused = "the backup of an editor"
    inner = "/".join([archive, *parts] if archive else parts)
    if refused is not None:
        inputs.problems.append((inner or name, f"left out: {refused}"))
        return None
    return None if not parts or _hidden("/".join(parts)) else inner
