"""Atomic file writes and file locks. A write goes to a temporary file, which is then moved into place.

A failed write leaves the old file unchanged. Only regular files are replaced: links are followed; a FIFO,
device, socket or folder is refused. The temporary file is ``.NAME.PID.RANDOM.tmp`` beside its target; the
next write of the same name removes leftovers of killed processes.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from textsvm.errors import DamagedModel, InputError, os_errors

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Position of the locked byte on Windows, where other processes cannot read it: far behind the content.
_LOCKED_BYTE = 1 << 30
#: Formats of tables by the suffix of a file.
TABLE_SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".parquet": "parquet",
}  # fmt: skip
_DAY = 86_400  #: Age in seconds from which a temporary file counts as a leftover
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class MappedFile:
    """Context in which an open file, whose content is mapped, must not change: otherwise DamagedModel."""

    def __init__(self, path: str | os.PathLike[str], file: IO[bytes]) -> None:
        self.path, self._number = path, os.dup(file.fileno())
        weakref.finalize(self, os.close, self._number)
        self._state = self._read_state()

    def __enter__(self) -> None:
        if self._read_state() != self._state:
            raise DamagedModel(
                f"model file {self.path} changed while it was in use; replace models by renaming a new file"
            )

    def __exit__(self, *failed: object) -> None:
        self.__enter__()

    def _read_state(self) -> tuple[int, int]:
        state = os.fstat(self._number)
        return state.st_size, state.st_mtime_ns

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # pickled arrays are copies


def cache_folder() -> Path:
    """Folder of caches of the user; RuntimeError if there is no home."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(folder) if os.path.isabs(folder) else Path.home() / ".cache") / "textsvm"


def target_of(path: str | os.PathLike[str]) -> Path:
    """Resolve links of an output path to the file that will be replaced, existing or not."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG  # a new file, or a link whose target is not there yet
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise InputError(f"cannot write {path}: it is {kind}; name a file")
    return Path(os.path.realpath(path))


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; move it onto `path` if the block succeeds.

    A link stays a link; the file it points to is replaced.
    """
    target = target_of(path)
    _clear_leftovers(target)
    with os_errors(f"cannot write {path}"):
        # Before the temporary file is created: a killed process leaves a single file.
        mode = _mode_of_new(target)
        handle, name = tempfile.mkstemp(".tmp", f".{target.name}.{os.getpid()}.", target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as stream:  # a delayed "no space left" must come before the replacement
            os.fsync(stream.fileno())
        if target.exists():
            before = target.stat()
            mode = before.st_mode & 0o777
            if os.name == "posix" and os.geteuid() == 0:  # others cannot give files away
                os.chown(temporary, before.st_uid, before.st_gid)
        temporary.chmod(mode)
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        # NumPy raises OSError without an error number.
        why = error.strerror or f"{error}; is the disk full?"
        raise InputError(f"cannot write {path}: {why}; nothing was changed") from error
    finally:
        temporary.unlink(missing_ok=True)


def _clear_leftovers(target: Path) -> None:
    """Remove temporary files of `target` whose process has ended, or that are older than a day."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"(?:(\d{1,9})\.)?[a-z0-9_]{8}\.tmp")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            match = pattern.fullmatch(entry.name)
            if not match or not entry.is_file(follow_symlinks=False):
                continue
            old = time.time() - entry.stat(follow_symlinks=False).st_mtime > _DAY
            if old or (match[1] and not _is_running(int(match[1]))):
                with suppress(OSError):
                    os.unlink(entry.path)


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return True  # signal 0 would end the process there
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a power loss, where the system can sync folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode_of_new(target: Path) -> int:
    """Permissions of a new file beside `target`: reading the umask would change it for all threads."""
    probe = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    handle = os.open(probe, os.O_CREAT | os.O_EXCL, 0o666)
    try:
        return os.fstat(handle).st_mode & 0o777
    finally:
        os.close(handle)
        probe.unlink()


def try_lock(handle: int) -> bool:
    """Lock an open file until it is closed; False if another process holds the lock."""
    if fcntl is None:
        return _locked_on_windows(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)  # else a file system without locks
    return True


def _locked_on_windows(handle: int) -> bool:
    msvcrt: Any = import_module("msvcrt")
    os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EDEADLK)  # else a file system without locks
    finally:
        os.lseek(handle, 0, os.SEEK_SET)
    return True
