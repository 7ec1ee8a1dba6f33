"""Atomic writes and locks of files (`textsvm.runtime.files`)."""

import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from textsvm.runtime.files import cache_folder, replacing, try_lock


@pytest.mark.parametrize("name", ["", "relative", "/absolute"])
def test_a_folder_of_caches_that_is_relative_counts_as_none(name, tmp_path, monkeypatch):
    """As the specification of XDG has it: the folder of the shell would get a cache."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", name)
    parent = Path(name) if name == "/absolute" else tmp_path / ".cache"
    assert cache_folder() == parent / "textsvm"


def test_content_is_on_the_disk_before_a_file_is_replaced(tmp_path, monkeypatch):
    path, calls, replace = tmp_path / "file", [], Path.replace
    path.write_bytes(b"before")

    def fsync(handle):
        status = os.fstat(handle)
        calls.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_size)

    def replaced(source, target):
        assert target.read_bytes() == b"before"
        calls.append("replaced")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replaced)
    with replacing(path) as temporary:
        temporary.write_bytes(b"content")
    assert calls == [7, "replaced", "folder"]
    assert path.read_bytes() == b"content"


def test_a_file_is_locked_until_it_is_closed(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    with open(path, "r+b") as one, open(path, "r+b") as other:
        assert try_lock(one.fileno())
        assert not try_lock(other.fileno())
    with open(path, "r+b") as other:
        assert try_lock(other.fileno())


def test_a_lock_on_windows(tmp_path, monkeypatch):
    """Windows has no fcntl: a byte far behind the content is locked."""
    held, calls = [], []

    class Windows:
        LK_NBLCK = 2

        @staticmethod
        def locking(handle, mode, count):
            calls.append((mode, os.lseek(handle, 0, os.SEEK_CUR), count))
            if held:
                raise PermissionError(errno.EACCES, "Permission denied")
            held.append(handle)

    monkeypatch.setattr("textsvm.runtime.files.fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Windows)
    with open(tmp_path / "lock", "w+b") as stream:
        assert try_lock(stream.fileno())
        assert not try_lock(stream.fileno())
        assert stream.tell() == 0
    assert calls == [(2, 1 << 30, 1)] * 2
