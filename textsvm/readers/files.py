"""Folders, archives and compressed files -> named bytes, read in place.

Nothing is written to disk. A name that would leave the archive, a link, a device is left out and
named; what unpacks to more than `max_bytes` in all, or to far more than texts pack to, is refused. What
a file is, is told from its first bytes, not from its name.

Files of a corpus: their bytes in memory, or on disk until they are asked for.

Files -> lines of text: those in memory as a whole, those on disk a line at a time.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar, cast

from textsvm.errors import InputError
from textsvm.readers.charsets import byte_order_mark, decode
from textsvm.runtime.parallel import Progress

#: Bytes that show what a file is.
HEAD = 1 << 16
OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
#: Symbols of a line that is read by itself, or of a field of CSV.
LONGEST = 1 << 28
NUMPY = b"\x93NUMPY"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
OTHER = {b"7z\xbc\xaf\x27\x1c": "7-Zip", b"Rar!\x1a\x07": "RAR", b"\x28\xb5\x2f\xfd": "Zstandard"}
COMPRESSED = (".gz", ".bz2", ".xz", ".z", ".tgz", ".tbz2", ".txz")
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)
#: Bytes that anything may unpack to, and how many times its own size beyond these: texts pack to a tenth, an
#: array that is zero but for one number in a thousand to a three-hundredth. Deflate cannot do more than 1032.
FREE_BYTES, MOST_TEXT, MOST_ARRAY = 4 << 20, 200, 1032


def check_expansion(source: str, unpacked: int, packed: int, most: int = MOST_TEXT) -> None:
    """Refuse what unpacks to far more than any corpus does, before it has taken the memory.

    Raises
    ------
    InputError
        If so many bytes came of `packed`, more than `most` times as many.
    """
    if unpacked > max(FREE_BYTES, most * packed):
        raise InputError(
            f"{source} unpacks to more than {most} times its {packed:,} bytes, as no corpus does; if it is "
            "meant to, unpack it first"
        )


@dataclass(frozen=True)
class File:
    """A file of a corpus: its path inside the folder or archive, with slashes, and its bytes."""

    name: str
    data: bytes

    #: Rows of JSON whose columns are known before the first is given, and whether it can be read twice.
    known_rows: ClassVar[int | None] = None
    read_again: ClassVar[bool] = True

    @property
    def head(self) -> bytes:
        """The first bytes."""
        return self.data[:HEAD]

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.data)

    @property
    def position(self) -> int:
        """How many bytes have been read of what is read bit by bit: none."""
        return 0

    def open(self) -> IO[bytes]:
        """A stream of the bytes."""
        return io.BytesIO(self.data)

    def called(self, name: str) -> File:
        """The same under another path."""
        return replace(self, name=name)


class FileOnDisk:
    """A file that is read when it is needed, unpacked if it is compressed.

    Parameters
    ----------
    name : str
        Its path inside the folder, with slashes.
    path : Path

    Attributes
    ----------
    size : int
        Bytes, packed.
    position : int
        How many of them have been read.
    """

    known_rows, read_again = 1000, True

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path, self.size = name, path, path.stat().st_size
        self._packed: IO[bytes] = io.BytesIO()
        with path.open("rb") as stream:
            start = stream.read(6)
        self._opener = next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), None)
        if self._opener and name.lower().endswith(COMPRESSED):
            self.name = name.rpartition(".")[0]
        self.is_archive = start.startswith((*ZIP, *OTHER)) or is_tar(self.head[:512])

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """A stream of the unpacked bytes.

        Raises
        ------
        InputError
            If the file is damaged; it may be raised wherever the stream is read.
        """
        try:
            with self.path.open("rb") as self._packed:
                opener = self._opener
                yield io.BufferedReader(_Modest(opener(self._packed), self), HEAD) if opener else self._packed
        except (InputError, FileNotFoundError, PermissionError):
            raise
        except DAMAGED as error:
            raise InputError(f"{self.path} is damaged or cut off: {error or 'unexpected end'}") from error

    def called(self, name: str) -> FileOnDisk:
        """The same under another path."""
        self.name = name
        return self

    @property
    def position(self) -> int:
        return self.size if self._packed.closed else self._packed.tell()

    @property
    def head(self) -> bytes:
        """The first bytes, unpacked."""
        with self.open() as stream:
            return stream.read(HEAD)

    @property
    def data(self) -> bytes:
        """All of them."""
        with self.open() as stream:
            return stream.read()


class _Modest(io.RawIOBase):
    """What comes out of a packed file, until it is more than a corpus packs to."""

    def __init__(self, stream: IO[bytes], file: FileOnDisk) -> None:
        self._stream, self._file, self._given = stream, file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        if not self._given:
            self._most = MOST_ARRAY if data.startswith(NUMPY) else MOST_TEXT
        self._given += len(data)
        check_expansion(str(self._file.path), self._given, self._file.size, self._most)
        buffer[: len(data)] = data
        return len(data)


def is_tar(block: bytes) -> bool:
    """Whether a tar archive begins so."""
    if len(block) < 512 or not any(block):
        return False
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


MAX_BYTES = 2 << 30
MAX_FILES = 2_000_000
_ENDINGS = (".tar", ".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz", ".zip", ".mbox", ".mbx")
# What the standard library raises on damaged archives.
_UNREADABLE = (
    *(*DAMAGED, struct.error, tarfile.TarError, zipfile.BadZipFile),
    *(ValueError, KeyError, IndexError, OverflowError, RecursionError, RuntimeError),
)
#: Bytes that are read at once.
_PIECE = 1 << 20
#: Packed bytes of a member that are unpacked at once: 46 MB come of a block of bzip2 of forty bytes.
_SMALL = 16
#: Symbols and folders of the path of a member: those of other systems are as short.
_LONGEST, _DEEPEST = 4096, 100


@dataclass
class InputFiles:
    """What was found under one path.

    Attributes
    ----------
    source : str
        The path as the user gave it.
    files : list of File or FileOnDisk
        In the order of the archive; sorted by name in a folder.
    single : bool
        The path is one file, compressed or not, and not a folder or an archive.
    problems : list of (name, problem)
        What was left out.
    """

    source: str
    files: list[Any] = field(default_factory=list)
    single: bool = False
    problems: list[tuple[str, str]] = field(default_factory=list)


def read_files(
    path: str | Path, *, max_bytes: int = MAX_BYTES, progress: Progress | None = None
) -> InputFiles:
    """Read a file, a folder or an archive (tar, zip; gzip, bzip2, xz) into memory.

    Parameters
    ----------
    path : str or Path
    max_bytes : int
        Bound on the unpacked bytes of all files combine_files.
    progress : callable, optional
        Called with (packed bytes read, packed bytes in all).

    Raises
    ------
    InputError
        If the path is missing, may not be read, is a damaged archive or unpacks to too much.
    """
    path = Path(path)
    found = InputFiles(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            paths = list(walk(path))
            budget = _Budget(found.source, max_bytes, sum(p.stat().st_size for p, _ in paths), progress)
            for each, name in paths:
                with each.open("rb") as stream:
                    _add(found, stream, name, f"{path / name}", budget)
        elif stat.S_ISREG(mode):
            budget = _Budget(found.source, max_bytes, path.stat().st_size, progress)
            with path.open("rb") as stream:
                found.single = _add(found, stream, "", found.source, budget)
        elif stat.S_ISFIFO(mode):
            with path.open("rb") as stream:
                return read_stream(stream, found.source, max_bytes=max_bytes)
        else:
            raise InputError(f"{path} is neither a file nor a folder")
    except FileNotFoundError as error:
        raise InputError(f"{error.filename or path} is not there; check the path") from error
    except PermissionError as error:
        raise InputError(f"{error.filename or path} may not be read: permission denied") from error
    return found


def read_stream(stream: IO[bytes], name: str, *, max_bytes: int = MAX_BYTES) -> InputFiles:
    """Like `read_files`, from a stream that cannot seek, such as standard input."""
    # A buffered stream reserves all that it is asked for.
    gathered = io.BytesIO()
    while piece := stream.read(min(_PIECE, max_bytes + 1 - gathered.tell())):
        gathered.write(piece)
    data = gathered.getvalue()
    found = InputFiles(name)
    budget = _Budget(name, max_bytes, len(data), None)
    if len(data) > max_bytes:
        budget.spend(len(data))
    found.single = _add(found, io.BytesIO(data), "", name, budget)
    return found


def combine_files(found: Sequence[InputFiles], paths: Sequence[Path]) -> InputFiles:
    """What was found under several paths, as if these lay in one folder."""
    if len(found) == 1:
        return found[0]
    whole = InputFiles(", ".join(each.source for each in found))
    folder = os.path.commonpath([path.absolute().parent for path in paths])
    for each, path in zip(found, paths, strict=True):
        place = PurePosixPath(Path(os.path.relpath(path.absolute(), folder)).as_posix())
        place = place.parent if each.single else place
        whole.files += [file.called(str(place / file.name)) for file in each.files]
        whole.problems += [(str(place / name), problem) for name, problem in each.problems]
    return whole


def stem(name: str) -> str:
    """The last name of a path without the endings of archives and mail boxes."""
    base = PurePosixPath(name).name
    while base.lower().endswith(_ENDINGS):
        base = base.rpartition(".")[0]
    return base


class _Budget:
    """Counts unpacked bytes and files against their bounds, and packed bytes for the progress."""

    def __init__(self, source: str, max_bytes: int, packed: int, progress: Progress | None) -> None:
        self.source, self.max_bytes, self.unpacked, self.files = source, max_bytes, 0, 0
        self.packed, self.done, self.progress = packed, 0, progress

    def spend(self, size: int, most: int = MOST_TEXT) -> None:
        self.unpacked += size
        if self.unpacked > self.max_bytes:
            raise InputError(
                f"{self.source} unpacks to more than {self.max_bytes:,} bytes; if it is meant to, split it "
                "or raise max_bytes of read_corpus"
            )
        check_expansion(self.source, self.unpacked, self.packed, most)

    def count(self) -> None:
        self.files += 1
        if self.files > MAX_FILES:
            raise InputError(f"{self.source} holds more than {MAX_FILES:,} files; split it")

    def advance(self, size: int) -> None:
        self.done += size
        if self.progress is not None:
            self.progress(min(self.done, self.packed), max(self.packed, 1))


class _BudgetedStream(io.RawIOBase):
    """A stream that spends the budget as it is read, and knows the last bytes it gave."""

    def __init__(self, stream: IO[bytes], budget: _Budget, packed: IO[bytes]) -> None:
        self._stream, self.budget, self._packed = stream, budget, packed
        self._position = packed.tell()
        self._peeked = b""
        self.tail, self.most = b"", MOST_TEXT

    def readable(self) -> bool:
        return True

    def peek(self, size: int) -> bytes:
        while len(self._peeked) < size and (more := self._take(size - len(self._peeked))):
            self._peeked += more
        return self._peeked

    def read(self, size: int = -1) -> bytes:
        gathered = io.BytesIO()
        while size != 0:
            piece = self._peeked or self._take(min(size, _PIECE) if size > 0 else _PIECE)
            if not piece:
                break
            if 0 < size < len(piece):
                piece, self._peeked = piece[:size], piece[size:]
            else:
                self._peeked = b""
            size -= len(piece) if size > 0 else 0
            gathered.write(piece)
        data = gathered.getvalue()
        self.tail = (self.tail + data)[-512:] if len(data) < 512 else data[-512:]
        return data

    def _take(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.budget.spend(len(data), self.most)
        position = self._packed.tell()
        self.budget.advance(position - self._position)
        self._position = position
        return data


def walk(folder: Path) -> Iterator[tuple[Path, str]]:
    """The regular files under a folder with their relative names, sorted; hidden ones left out."""
    seen = set()
    paths = []
    for parent, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        real = os.path.realpath(parent)
        if real in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add(real)
        folders.sort()  # of two links to a folder the first counts, in whatever order they are found
        for name in names:
            path = Path(parent, name)
            relative = path.relative_to(folder).as_posix()
            if not _hidden(relative) and path.is_file():
                paths.append((path, relative))
    return iter(sorted(paths, key=lambda pair: pair[1]))


def _raise(error: OSError) -> None:
    raise error


def _hidden(name: str) -> bool:
    parts = name.split("/")
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        maildir = following in ("cur", "new")
        if (part.startswith(".") and not maildir) or part == "__MACOSX":
            return True
    return False


def _add(found: InputFiles, packed: IO[bytes], name: str, shown: str, budget: _Budget) -> bool:
    """Add one file, or all that it holds if it is an archive; True if it was no archive."""
    magic = packed.read(6)
    packed.seek(0)
    for start, kind in OTHER.items():
        if magic.startswith(start):
            raise InputError(f"{shown} is a {kind} archive, which is not read; repack it as .tar.xz or .zip")
    opener = next((opener for start, opener in OPENERS.items() if magic.startswith(start)), None)
    try:
        if magic.startswith(ZIP):
            _add_zip(found, packed, name, shown, budget)
            return False
        stream = _BudgetedStream(opener(packed) if opener else packed, budget, packed)
        if is_tar(stream.peek(512)):
            _add_tar(found, stream, name, shown)
            return False
        if stream.peek(512).startswith(NUMPY):
            stream.most = MOST_ARRAY
        budget.count()
        inner = name or PurePosixPath(Path(shown).name).name
        if opener and inner.lower().endswith(COMPRESSED):
            inner = inner.rpartition(".")[0]
        found.files.append(File(inner, stream.read()))
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except MemoryError as error:  # a dictionary of LZMA may be of 4 GB
        raise InputError(f"{shown} needs more memory to be unpacked than there is; pack it anew") from error
    except _UNREADABLE as error:
        raise InputError(f"{shown} is damaged or cut off: {error or 'unexpected end'}") from error
    return True


def _add_tar(found: InputFiles, stream: _BudgetedStream, name: str, shown: str) -> None:
    budget = stream.budget
    with tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape") as archive:
        for member in archive:
            if member.isdir():
                continue
            odd = "a link, a device or a sparse file" if not member.isfile() or member.issparse() else None
            inner = _inside(found, name, member.name, odd)
            if inner is None:
                continue
            budget.count()
            content = archive.extractfile(member)
            assert content is not None
            data = content.read()
            if len(data) != member.size:
                raise tarfile.ReadError("unexpected end of data")
            found.files.append(File(inner, data))
    if any(stream.tail):  # tarfile takes an archive cut between two members for a whole one
        raise tarfile.ReadError("the end of the archive is missing")


def _add_zip(found: InputFiles, packed: IO[bytes], name: str, shown: str, budget: _Budget) -> None:
    with zipfile.ZipFile(packed) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            link = stat.S_ISLNK(info.external_attr >> 16)
            inner = _inside(found, name, info.filename, "a link" if link else None)
            if inner is None:
                continue
            if info.flag_bits & 1:
                raise InputError(
                    f"{shown} is encrypted at {info.filename}; unpack it with its password first"
                )
            budget.count()
            budget.spend(info.file_size, MOST_ARRAY if info.filename.endswith(".npy") else MOST_TEXT)
            budget.advance(info.compress_size)
            try:
                found.files.append(File(inner, _unzipped(archive, info)))
            except NotImplementedError as error:
                raise InputError(
                    f"{shown} is packed at {info.filename} by a method that is not read"
                ) from error


def _unzipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member, in pieces: what is more than its size says, zipfile's `read` unpacks and then cuts."""
    gathered, content, most = io.BytesIO(), cast("zipfile.ZipExtFile", archive.open(info)), _PIECE
    if info.compress_type not in (
        zipfile.ZIP_STORED,
        zipfile.ZIP_DEFLATED,
    ):  # what comes of a piece has no bound
        content.MIN_READ_SIZE = most = _SMALL
    with content:
        while piece := content.read1(most):
            gathered.write(piece)
    return gathered.getvalue()


def _inside(found: InputFiles, archive: str, name: str, refused: str | None) -> str | None:
    """The name of a member under the archive's own, or None if it is to be left out."""
    name = name.encode("utf-8", "replace").decode()
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if name.startswith(("/", "\\")) or ".." in parts or (parts and parts[0].endswith(":")):
        refused = "a path that leaves the archive"
    if len(name) > _LONGEST or len(parts) > _DEEPEST:
        refused, parts = f"a path of more than {_LONGEST:,} symbols or {_DEEPEST} folders", parts[:1]
    inner = "/".join([archive, *parts] if archive else parts)
    if refused is not None:
        found.problems.append((inner or name, f"left out: {refused}"))
        return None
    return None if not parts or _hidden("/".join(parts)) else inner


Problems = list[tuple[str, str]]


def iterate_lines(file: File | FileOnDisk, problems: Problems, newline: str = "\n") -> Iterator[str]:
    r"""The lines of a file with their ends.

    Parameters
    ----------
    file : File or FileOnDisk
    problems : list of (str, str)
        Gets which bytes are no text.
    newline : {"\n", ""}
        What ends a line: with "", a lone carriage return too.
    """
    if not isinstance(file, File):
        return _streamed(file, problems, newline)
    text, problem = decode(file.data)
    if problem:
        problems.append((file.name, problem))
    return io.StringIO(text, newline=newline)


def _streamed(file: FileOnDisk, problems: Problems, newline: str) -> Iterator[str]:
    mark, charset = byte_order_mark(file.head)
    with file.open() as stream:
        stream.read(len(mark))
        if charset != "utf-8":
            yield from io.TextIOWrapper(stream, charset, "replace", newline)
            return
        noted = False
        for number, raw in enumerate(iter(partial(stream.readline, LONGEST), b""), 1):
            if len(raw) == LONGEST and not raw.endswith(b"\n"):
                raise InputError(f"{file.name}, line {number} has more than {LONGEST:,} bytes; break it")
            try:
                line = raw.decode()
            except UnicodeDecodeError:
                line, noted = _not_utf8(raw, f"{file.name}, line {number}", problems, noted), True
            if newline or "\r" not in line[:-2]:
                yield line
            else:
                yield from io.StringIO(line, newline="")


def _not_utf8(raw: bytes, where: str, problems: Problems, noted: bool) -> str:
    """A line that is not UTF-8, read as Windows-1252; the first of a file is named."""
    if not noted:
        problems.append((where, "bytes that are not UTF-8 were read as Windows-1252"))
    return decode(raw)[0]
