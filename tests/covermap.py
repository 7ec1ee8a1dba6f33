"""Which tests run which lines of the package: a map for `python -m tests.mutants --map FILE`.

    python -m tests.covermap MAP [--slow] [--jobs 2] [TEST_FILE ...]

Runs test files, a process each, and writes a file of the folder MAP for each (one that has it with the same
bytes is not run again). Child processes are traced too: a folder with a `sitecustomize.py` stands first on
PYTHONPATH, and the id of the running test in a file of it. Lines of a function are traced in its first calls
of a test only, so that a test takes about twice its time. Lines of compiled functions are not seen.
"""

from __future__ import annotations

import argparse
import atexit
import hashlib
import lzma
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = f"{ROOT}{os.sep}textsvm{os.sep}"
#: Calls of a function in a test, and steps of a call, whose lines are traced.
CALLS, STEPS = 60, 3000
#: Test -> (processor seconds with the trace, -1 if it fails; module -> its lines that the test runs).
Map = dict[str, tuple[float, dict[str, list[int]]]]


class Tracer:
    """Writes `test TAB module TAB lines` to a file of this process."""

    def __init__(self, folder: str) -> None:
        self._folder, self._test = folder, ""
        self._clear()

    def start(self) -> None:
        os.register_at_fork(after_in_child=self._clear)
        atexit.register(self.flush)
        leave = os._exit

        def flush_and_leave(code: int) -> None:
            self.flush()
            leave(code)

        os._exit = flush_and_leave  # type: ignore[assignment]
        threading.settrace(self._call)
        sys.settrace(self._call)

    def _clear(self) -> None:
        self._lines: dict[str, set[int]] = {}
        self._calls: dict[Any, int] = {}
        self._next = time.monotonic() + 1
        try:
            self._test = Path(self._folder, "current").read_text(encoding="utf-8")
        except OSError:
            self._test = ""

    def flush(self) -> None:
        """Write what was traced since the last time, and look which test runs."""
        lines, self._next = self._lines, time.monotonic() + 1
        text = "".join(
            f"{self._test}\t{name}\t{' '.join(map(str, sorted(n)))}\n" for name, n in lines.items()
        )
        if self._test and text:
            with open(Path(self._folder, f"{os.getpid()}.lines"), "a", encoding="utf-8") as file:
                file.write(text)
        self._clear()

    def _call(self, frame: Any, event: str, argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return None
        n = self._calls.get(code, 0)
        if n == CALLS:
            return None
        self._calls[code] = n + 1
        lines = self._lines.setdefault(code.co_filename, set())
        lines.add(frame.f_lineno)
        if n % 8 == 0 and time.monotonic() > self._next and frame.f_back is not None:
            self.flush()
            lines = self._lines.setdefault(code.co_filename, {frame.f_lineno})
        left = STEPS

        def line(frame: Any, event: str, argument: object) -> Any:
            nonlocal left
            lines.add(frame.f_lineno)
            left -= 1
            if left == 0:
                frame.f_trace_lines = False
            return line

        return line


def start_here() -> None:
    """Called by `sitecustomize.py` in every process."""
    tracer = Tracer(os.environ["COVERMAP"])
    sys.covermap = tracer  # type: ignore[attr-defined]
    tracer.start()


def processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class Plugin:
    """Says which test runs, and how many seconds it took."""

    def __init__(self) -> None:
        self._folder, self._start = Path(os.environ["COVERMAP"]), 0.0
        self._failed = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._failed = False
        self._switch(nodeid)
        self._start = processor_seconds()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._failed |= report.failed
        if report.when == "teardown":
            seconds = -1 if self._failed else processor_seconds() - self._start
            with open(self._folder / "seconds", "a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\t{seconds:.3f}\n")

    def pytest_sessionfinish(self) -> None:
        self._switch("")

    def _switch(self, test: str) -> None:
        tracer = sys.covermap  # type: ignore[attr-defined]
        (self._folder / "current").write_text(test, encoding="utf-8")
        tracer.flush()


def pytest_configure(config: Any) -> None:
    if "COVERMAP" in os.environ:
        config.pluginmanager.register(Plugin())


def traced(file: str, slow: bool, seconds: int) -> Map:
    """The map of a test file."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("current", "seconds"):
            Path(folder, name).touch()
        code = f"import sys; sys.path.append({str(ROOT / 'tests')!r}); import covermap; covermap.start_here()"
        Path(folder, "sitecustomize.py").write_text(code)
        path = os.pathsep.join([folder, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.covermap"]
        command += ["-p", "no:cacheprovider"]
        command += ["-m", "slow and not gpu" if slow else "not slow and not gpu", file]
        environment = {**os.environ, "PYTHONPATH": path, "COVERMAP": folder}
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
        ) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return _read(Path(folder))


def _read(folder: Path) -> Map:
    lines: dict[str, dict[str, set[int]]] = {}
    for path in folder.glob("*.lines"):
        for row in path.read_text(encoding="utf-8").splitlines():
            parts = row.split("\t")
            if len(parts) == 3:
                test, module, numbers = parts
                module = os.path.relpath(module, ROOT)
                lines.setdefault(test, {}).setdefault(module, set()).update(map(int, numbers.split()))
    rows = (folder / "seconds").read_text(encoding="utf-8").splitlines() if lines else []
    seconds = {test: float(number) for test, _, number in (row.rpartition("\t") for row in rows)}
    return {
        test: (seconds[test], {module: sorted(numbers) for module, numbers in modules.items()})
        for test, modules in lines.items()
        if test in seconds
    }


def load(folder: Path) -> dict[str, tuple[str, Map]]:
    """Test file, or "FILE slow" -> digest of the file and the map of its quick or slow tests."""
    paths = sorted(folder.glob("*.xz"))
    return {path.stem: pickle.loads(lzma.decompress(path.read_bytes())) for path in paths}


def _add(folder: Path, name: str, slow: bool, seconds: int) -> None:
    key, digest = f"{name}{' slow' * slow}", hashlib.sha256((ROOT / "tests" / name).read_bytes()).hexdigest()
    path = folder / f"{key}.xz"
    if path.exists() and pickle.loads(lzma.decompress(path.read_bytes()))[0] == digest:
        return
    if seconds < 1:
        return
    clock = time.monotonic()
    tests = traced(f"tests/{name}", slow, seconds)
    path.write_bytes(lzma.compress(pickle.dumps((digest, tests))))
    print(f"{key}: {len(tests)} tests, {time.monotonic() - clock:.0f} s", flush=True)


def main() -> None:
    """Trace test files, the longest first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("map", type=Path)
    parser.add_argument("files", nargs="*", help="default: all")
    parser.add_argument("--slow", action="store_true", help="the slow tests, in place of the others")
    parser.add_argument("--seconds", type=int, default=400, help="for each file")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--until", type=int, default=10**9, help="seconds after which no file is traced")
    options, start = parser.parse_args(), time.monotonic()
    options.map.mkdir(exist_ok=True)
    paths = [Path(name) for name in options.files] or sorted(
        (ROOT / "tests").glob("test_*.py"), key=lambda path: -path.stat().st_size
    )
    names = [path.name for path in paths if not {"gpu", "browser"} & {*path.stem.split("_")}]

    def left() -> int:
        return min(options.seconds, int(options.until - (time.monotonic() - start)))

    with ThreadPoolExecutor(options.jobs) as jobs:
        list(jobs.map(lambda name: _add(options.map, name, options.slow, left()), names))


if __name__ == "__main__":
    main()
