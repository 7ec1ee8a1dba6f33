"""Folders, archives and compressed files -> named bytes, read in place.

Nothing is written to disk. A name that would leave the archive, a link, a device is left out and
named; what unpacks to more than `max_bytes` in all, or to far more than texts pack to, is refused. What
a file is, is told from its first bytes, not from its name.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from textsvm.errors import InputError
from textsvm.readers.opened import (
    COMPRESSED,
    DAMAGED,
    MOST_ARRAY,
    MOST_TEXT,
    NUMPY,
    OPENERS,
    OTHER,
    ZIP,
    File,
    is_tar,
    require_modest,
)
from textsvm.runtime.parallel import Progress

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
class Files:
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


def read_files(path: str | Path, *, max_bytes: int = MAX_BYTES, progress: Progress | None = None) -> Files:
    """Read a file, a folder or an archive (tar, zip; gzip, bzip2, xz) into memory.

    Parameters
    ----------
    path : str or Path
    max_bytes : int
        Bound on the unpacked bytes of all files together.
    progress : callable, optional
        Called with (packed bytes read, packed bytes in all).

    Raises
    ------
    InputError
        If the path is missing, may not be read, is a damaged archive or unpacks to too much.
    """
    path = Path(path)
    found = Files(str(path))
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


def read_stream(stream: IO[bytes], name: str, *, max_bytes: int = MAX_BYTES) -> Files:
    """Like `read_files`, from a stream that cannot seek, such as standard input."""
    # A buffered stream reserves all that it is asked for.
    gathered = io.BytesIO()
    while piece := stream.read(min(_PIECE, max_bytes + 1 - gathered.tell())):
        gathered.write(piece)
    data = gathered.getvalue()
    found = Files(name)
    budget = _Budget(name, max_bytes, len(data), None)
    if len(data) > max_bytes:
        budget.spend(len(data))
    found.single = _add(found, io.BytesIO(data), "", name, budget)
    return found


def together(found: Sequence[Files], paths: Sequence[Path]) -> Files:
    """What was found under several paths, as if these lay in one folder."""
    if len(found) == 1:
        return found[0]
    whole = Files(", ".join(each.source for each in found))
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
        require_modest(self.source, self.unpacked, self.packed, most)

    def count(self) -> None:
        self.files += 1
        if self.files > MAX_FILES:
            raise InputError(f"{self.source} holds more than {MAX_FILES:,} files; split it")

    def advance(self, size: int) -> None:
        self.done += size
        if self.progress is not None:
            self.progress(min(self.done, self.packed), max(self.packed, 1))


class _Bounded(io.RawIOBase):
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


def _add(found: Files, packed: IO[bytes], name: str, shown: str, budget: _Budget) -> bool:
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
        stream = _Bounded(opener(packed) if opener else packed, budget, packed)
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


def _add_tar(found: Files, stream: _Bounded, name: str, shown: str) -> None:
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


def _add_zip(found: Files, packed: IO[bytes], name: str, shown: str, budget: _Budget) -> None:
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


def _inside(found: Files, archive: str, name: str, refused: str | None) -> str | None:
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
