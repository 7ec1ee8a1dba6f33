"""Compiled functions on disk: what is damaged there is compiled anew, and no disk at all is no trouble."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from types import FunctionType

import numba
import numpy as np
import pytest
from command import READING
from numba.core.caching import FunctionCache
from refusals import raising

from textsvm.runtime import compiled
from textsvm.runtime.compiled_cache import CheckedCache, _Locations

X = np.arange(5.0)


def total(values):
    found = 0.0
    for one in values:
        found += one
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    compiled._warn_once.cache_clear()
    monkeypatch.setattr(compiled, "warn", warnings.warn)  # a command in this process says it its own way
    return tmp_path


def fresh():
    """A dispatcher as a new process has it, and what was loaded rather than compiled."""
    function = compiled.njit(cache=True)(total)
    assert function(X) == 10
    return sum(function.dispatcher.stats.cache_hits.values())


def damages(data):
    """A file as faults leave it."""
    middle = len(data) // 2
    yield from (b"", data[:middle], data[:-16], bytes(len(data)), b"garbage")
    for at in (0, middle, len(data) - 20, len(data) - 1):
        yield data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_file_is_compiled_anew_and_replaced(ending, folder):
    assert fresh() == 0
    assert fresh() == 1
    [path] = folder.rglob(f"*.{ending}")
    whole = path.read_bytes()
    for data in damages(whole):
        path.write_bytes(data)
        assert fresh() == 0, data[:20]
        assert len(path.read_bytes()) == len(whole)
    assert fresh() == 1
    path.unlink()
    path.mkdir()  # that cannot be replaced either
    with pytest.warns(UserWarning, match=r"cannot be kept \(Is a directory\)"):
        assert fresh() == 0


def test_an_entry_of_other_types_or_another_source_is_none(folder):
    """Two first runs at once number their entries alike; a kill comes between index and entry."""
    function = compiled.njit(cache=True)(total)
    assert (function(X), function(X.astype(np.float32))) == (10, 10)
    first, second = sorted(folder.rglob("*.nbc"))
    shutil.copy(second, first)
    assert fresh() == 0
    assert fresh() == 1
    cache = function.dispatcher._cache
    cache._cache_file._source_stamp = "of another source"
    cache._cache_file.flush()
    for signature in function.dispatcher.signatures:
        cache._cache_file._save_index({cache._index_key(signature, function.targetctx.codegen()): first.name})
    assert cache.load_overload(function.dispatcher.signatures[0], function.targetctx) is None


def test_numba_alone_would_fall_over(folder):
    """If this one fails, Numba has learnt it, and `textsvm.runtime.compiled` may go."""
    alone = numba.njit(total)
    alone._cache = FunctionCache(total)
    alone(X)
    [path] = folder.rglob("*.nbc")
    path.write_bytes(path.read_bytes()[:100])
    again = numba.njit(total)
    again._cache = FunctionCache(total)
    with pytest.raises(Exception, match=r"truncated|Ran out of input"):
        again(X)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_what_cannot_be_kept_is_said_once_and_works(error, folder, monkeypatch):
    said, failure = [], OSError(error, os.strerror(error))
    monkeypatch.setattr(compiled, "warn", said.append)
    monkeypatch.setattr("textsvm.runtime.compiled_cache._digest", raising(failure))
    assert [fresh(), fresh()] == [0, 0]
    assert len(said) == 1
    assert os.strerror(error) in said[0]
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_compiling_is_told_once_and_only_of_several_functions(folder, monkeypatch):
    told = []
    monkeypatch.setattr(compiled.Compiled, "compilations", 0)
    monkeypatch.setattr(compiled, "on_compile", lambda: told.append(1))
    assert [fresh(), fresh()] == [0, 1]  # the second is loaded
    assert told == []
    for _ in range(2):
        compiled._count_compilation()
    assert told == [1]


def test_a_call_that_is_interrupted_before_compilation_can_be_repeated():
    # Ctrl-C while the names of other functions are replaced by their dispatchers.
    calls = []

    class Interrupted(compiled.Compiled):
        @property
        def dispatcher(self):
            calls.append(1)
            if len(calls) == 1:
                raise KeyboardInterrupt
            return abs

    names = {"absolute": Interrupted(abs, {}), "__name__": __name__}
    function = FunctionType(compile("lambda x: absolute(x)", "", "eval").co_consts[0], names)
    tested = compiled.Compiled(function, {})
    with pytest.raises(KeyboardInterrupt):
        tested(-1)
    assert tested(-1) == 1


def test_no_folder_at_all(folder, monkeypatch):
    monkeypatch.setattr(_Locations, "_locator_classes", [])
    with pytest.raises(RuntimeError):
        CheckedCache(total, print, print)
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
        assert fresh() == 0


PROGRAM = """
import sys
import numpy as np
from textsvm.runtime import compiled

@compiled.njit(cache=True)
def never_called(values):
    return values

@compiled.njit(cache=True)
def total(values):
    return values.sum()

total(np.ones(3, sys.argv[1]))
print(compiled.Compiled.compilations)
"""


@pytest.mark.parametrize(
    "place",
    ["source", *(pytest.param(place, marks=pytest.mark.slow) for place in ("NUMBA_CACHE_DIR", "home"))],
)
def test_a_folder_that_cannot_be_written_is_read(place, tmp_path, read_only):
    """As in the image of a container, though another folder, later in the order, can be written."""
    source, cache, home = (tmp_path / name for name in ("source", "cache", "home"))
    source.mkdir()
    home.mkdir()
    (source / "program.py").write_text(PROGRAM)
    variables = {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    if place == "NUMBA_CACHE_DIR":
        variables["NUMBA_CACHE_DIR"] = str(cache)
    written = {"NUMBA_CACHE_DIR": cache, "source": source, "home": home}[place]

    def run(*before, dtype="f8", **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
        program = [sys.executable, source / "program.py", dtype]
        return subprocess.run(
            [*before, *program],
            capture_output=True,
            text=True,
            check=True,
            env=environment | variables | more,
        )

    def files():
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    before = [*read_only, source] if place == "home" else []
    assert run(*before).stdout == "1\n"
    entries = files()
    assert [path for path in entries if path.suffix == ".nbc" and written in path.parents]
    before = [*read_only, written, *before]
    again = run(*before)
    assert (again.stdout, again.stderr) == ("0\n", "")
    other = run(*before, dtype="f4")  # not in the folder
    assert other.stdout == "1\n"
    assert "cannot be kept (Read-only file system)" in other.stderr
    assert files() == entries


# A signal is handled when Python runs again, which after minutes of LLVM is in a callback of its compiler.
IN_CALLBACK = """
import os, signal, sys
from numba.core.codegen import CPUCodeLibrary as Library

def interrupted(cls, *arguments, number=signal.Signals[sys.argv[2]], original=getattr(Library, sys.argv[1])):
    os.kill(os.getpid(), number)
    return original(*arguments)

setattr(Library, sys.argv[1], classmethod(interrupted))
sys.argv[1:] = sys.argv[3:]
from textsvm.cli import main
main()
"""
TRAIN = ("train", *READING, "--kernel", "gap", "-o", "out")


def default_signals():
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background processes ignore Ctrl-C
        signal.signal(number, signal.SIG_DFL)


def environment_of(folder):
    return {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "TEXTSVM_MAIL": str(folder / "store")}


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
@pytest.mark.parametrize("callback", ["_object_compiled_hook", "_object_getbuffer_hook"])
@pytest.mark.parametrize(("number", "how"), [("SIGINT", "interrupted"), ("SIGTERM", "ended by SIGTERM")])
@pytest.mark.parametrize("command", [TRAIN, ("mail", "serve")], ids=["train", "mail serve"])
def test_a_signal_during_compilation_ends_a_command_with_a_sentence(command, number, how, callback, tmp_path):
    process = subprocess.run(
        [sys.executable, "-c", IN_CALLBACK, callback, number, *command],
        capture_output=True, cwd=tmp_path, env=environment_of(tmp_path), timeout=100,
        preexec_fn=default_signals,
    )  # fmt: skip
    lines = [
        line for line in process.stderr.decode().splitlines() if not line.startswith(("read ", "note: "))
    ]
    assert lines == [f"textsvm: {how}; no output was written"]
    assert process.returncode == 128 + signal.Signals[number]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends signals")
@pytest.mark.parametrize("command", ["train", "predict", "mail learn", "mail serve", "serve", "devices"])
def test_a_signal_at_any_time_of_a_first_run_is_no_traceback(command, tmp_path):
    (tmp_path / "message").write_bytes(b"Subject: cash\n\nearn cash\n")
    arguments = {
        "train": TRAIN,
        "predict": ("predict", "model", *READING[:3]),
        "mail learn": ("mail", "learn", "--as", "spam", "message"),
        "mail serve": ("mail", "serve"),
        "serve": ("serve", "model", "--port", "0"),
        "devices": ("devices", "--compile"),
    }[command]
    program = [sys.executable, "-m", "textsvm"]
    subprocess.run([*program, *TRAIN[:-1], "model"], cwd=tmp_path, check=True, capture_output=True)
    for i in range(16):
        folder = tmp_path / str(i)
        folder.mkdir()
        process = subprocess.Popen(
            [*program, *arguments], cwd=tmp_path, env=environment_of(folder), text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=default_signals, start_new_session=True,
        )  # fmt: skip
        time.sleep(0.4 * (i + 1))
        number = (signal.SIGINT, signal.SIGTERM)[i % 2]
        # A terminal sends Ctrl-C to all processes of the command.
        (os.killpg if i % 2 == 0 else os.kill)(process.pid, number)
        stderr = process.communicate(timeout=60)[1]
        assert process.returncode in (0, 128 + number, -number), stderr
        assert "Traceback" not in stderr
        assert "Exception" not in stderr
        # Python ends by the signal itself if it came within `exec`, which `dataclasses` calls.
        assert stderr.count("textsvm: ") in ({1} if process.returncode == 128 + number else {0, 1}), stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_two_first_runs_at_once_and_a_third(folder):
    """Processes that compile the same at the same time all work, and the next one has nothing to compile."""
    assert numba.njit(total)(X) == 10  # what Numba itself prepares is there
    ready, go = os.pipe()
    children = [fork(lambda: os.read(ready, 1) and fresh()) for _ in range(2)]
    os.write(go, b"go")
    assert {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children} <= {0, 1}
    assert fresh() == 1
    assert not list(folder.rglob("*.tmp*"))


def fork(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(work())
        finally:
            os._exit(99)
    return child
