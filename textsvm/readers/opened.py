"""Files of a corpus: their bytes in memory, or on disk until they are asked for."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

from textsvm.errors import InputError

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


def require_modest(source: str, unpacked: int, packed: int, most: int = MOST_TEXT) -> None:
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
        require_modest(str(self._file.path), self._given, self._file.size, self._most)
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
