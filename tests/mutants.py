"""Plant faults in a room of the package, and print those that no test notices.

    python -m tests.mutants [ROOM] [--number 20] [--seed 0] [--seconds 40] [--slow] [--map MAP]
    python -m tests.mutants all --number 300 --seed 1 --jobs 15 --part 1/2 --slow --map MAP --output FILE

A room is a folder of textsvm/ (choice, apps.mail, kernels.edit), or "all"; by default another one each day.
Each mutant changes a single place of a copy of the tree: an operator, a dropped term, argument or statement,
swapped arguments, a parameter that is ignored, a constant off by one, a default that is returned. Its tests
are those that run its line by a map (`tests/covermap.py`), the nearest and quickest first; without a map they
are the test files that import the module. They stop at the first failure, or after some processor seconds. A
test that fails without the mutant too does not count. A survivor shows a missing test, a line that is not
needed, or a change that nobody can see (CONTRIBUTING.md says how to read it).

Every job has a copy of the tree, with the compiled code of the original: where a compiled function is
changed, its module and the compiled modules that use it are compiled again and put back afterwards.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests import covermap

ROOT = Path(__file__).resolve().parent.parent
SWAPS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/",
    ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//", ast.LShift: ">>", ast.RShift: "<<", ast.BitAnd: "|",
    ast.BitOr: "&", ast.And: "or", ast.Or: "and",
}  # fmt: skip
#: Bytes at the end of modules with compiled functions, by which other functions change without their size.
SPARE = 500
#: What a function returns by default, by its annotation; None else.
DEFAULTS = {"int": "0", "float": "0.0", "bool": "False", "str": '""', "bytes": 'b""'}


@dataclass(frozen=True)
class Mutant:
    """A replacement in a file, whose path is relative to the tree: of the bytes from `start` to `stop`."""

    path: Path
    line: int
    lines: range  #: Of the statement
    start: int
    stop: int
    text: str
    kind: str
    function: str
    is_compiled: bool

    def of(self, source: bytes) -> bytes:
        """The changed file, with as many lines as before."""
        missing = source[self.start : self.stop].count(b"\n") - self.text.count("\n")
        text, end = (self.text[:-1], ")") if self.text.endswith(")") else (self.text, "")
        return source[: self.start] + (text + "\n" * missing + end).encode() + source[self.stop :]

    @property
    def module(self) -> str:
        """Name of the module."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")


def mutants_of(root: Path, path: Path) -> Iterator[Mutant]:
    """All mutants of a file of a tree."""
    source = (root / path).read_bytes()
    starts = [0]
    for row in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            is_compiled = any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)
            for node, statement in _own(function):
                for text, kind in _changes(node, function):
                    start = starts[node.lineno - 1] + node.col_offset
                    stop = starts[node.end_lineno - 1] + node.end_col_offset
                    end = statement.end_lineno if not hasattr(statement, "body") else node.end_lineno
                    lines = range(statement.lineno, end + 1)
                    if ast.unparse(ast.parse(text)) != ast.unparse(node):
                        yield Mutant(
                            path, node.lineno, lines, start, stop, text, kind, function.name, is_compiled
                        )


def _own(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Nodes of a function with their statements, without those of inner functions, annotations and errors."""
    todo: list[tuple[ast.AST, ast.AST]] = [(node, node) for node in function.body]
    while todo:
        node, statement = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Raise | ast.Assert):
            continue
        yield node, statement
        annotations = (getattr(node, name, None) for name in ("annotation", "returns"))
        skipped = {id(part) for part in annotations if part is not None}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            skipped.add(id(node.func))  # parameters of a type
        for child in ast.iter_child_nodes(node):
            if id(child) not in skipped:
                todo.append((child, child if isinstance(child, ast.stmt) else statement))


def _changes(node: ast.AST, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str]]:
    """Changed texts of a node, and their kinds."""

    def text(part: ast.AST) -> str:
        is_plain = isinstance(part, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript)
        return ast.unparse(part) if is_plain else f"({ast.unparse(part)})"

    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        yield f"({text(node.left)} {SWAPS[type(node.ops[0])]} {text(node.comparators[0])})", "operator"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        yield f"({text(node.left)} {SWAPS[type(node.op)]} {text(node.right)})", "operator"
        if not isinstance(node.left, ast.Constant | ast.JoinedStr):
            yield f"({text(node.left)})", "dropped term"
    elif isinstance(node, ast.BoolOp):
        yield ("(" + f" {SWAPS[type(node.op)]} ".join(map(text, node.values)) + ")", "operator")
        for k in range(len(node.values)):
            rest = [value for i, value in enumerate(node.values) if i != k]
            name = "and" if isinstance(node.op, ast.And) else "or"
            yield "(" + f" {name} ".join(map(text, rest)) + ")", "dropped term"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield f"({text(node.operand)})", "operator"
    elif isinstance(node, ast.Call) and not isinstance(node.func, ast.Subscript):  # of a type
        yield from _calls(node)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        yield repr(not node.value if isinstance(node.value, bool) else node.value + 1), "constant"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield (
            f"return {DEFAULTS.get(ast.unparse(function.returns) if function.returns else '', 'None')}",
            "default",
        )
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "pass", "dropped statement"
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(reversed(named), reversed(arguments.defaults), strict=False)]
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for argument, default in pairs:
            if argument.arg == node.id and default is not None:
                yield f"({text(default)})", "ignored parameter"


def _calls(node: ast.Call) -> Iterator[tuple[str, str]]:
    plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    if len(plain) == len(node.args) >= 2:
        swapped = ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
        yield ast.unparse(swapped), "swapped arguments"
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            yield f"({ast.unparse(node.args[0])})", "dropped term"
    for keyword in node.keywords:
        if keyword.arg is not None:
            rest = [other for other in node.keywords if other is not keyword]
            yield ast.unparse(ast.Call(node.func, node.args, rest)), "dropped argument"


@cache
def _concerned() -> Any:
    """`.ci/concerned.py`, which knows what test files import."""
    spec = importlib.util.spec_from_file_location("concerned", ROOT / ".ci" / "concerned.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    files = sorted((ROOT / "tests").glob("test_*.py"))
    tool.slow_files = lambda: files  # type: ignore[attr-defined]
    return tool


@cache
def concerned(module: str, function: str) -> list[str]:
    """Test files of a module: those that import it first, then those of modules of its room that use it."""
    tool = _concerned()
    files = tool.slow_files()
    direct = [path for path in files if module in tool.imports(path)]
    laws = [path for path in files if path.stem.startswith("test_laws") and path not in direct]
    names = module.split(".")[-2:]
    named = {path for path in direct if function in path.read_text(encoding="utf-8")}
    named |= {path for path in direct if any(name in path.stem for name in names)}
    direct.sort(key=lambda path: (path not in named, path.stat().st_size))
    rest = sorted(tool.users(module) - {*direct, *laws}, key=lambda path: path.stat().st_size)
    like = [path for path in rest if names[-1] in path.stem]
    found = [
        path
        for path in dict.fromkeys([*direct, *like, *laws, *rest])
        if not {"gpu", "browser"} & {*path.stem.split("_")}
    ]
    return [str(path.relative_to(ROOT)) for path in found]


class Map:
    """Tests of a line, of a folder of `tests/covermap.py`."""

    def __init__(self, folder: Path | None) -> None:
        self.seconds: dict[str, float] = {}
        self.failing: set[str] = set()
        self.sound: set[str] = set()
        self.slow: set[str] = set()
        self._tests: dict[str, dict[int, list[str]]] = {}
        maps = covermap.load(folder) if folder else {}
        self.keys = {*maps}  #: Traced: names of test files, with " slow" for the slow tests of one
        for key, (_, tests) in maps.items():
            for test, (seconds, modules) in tests.items():
                # A parameter may be written in another way elsewhere; the trace doubles the time.
                if seconds < 0:
                    self.failing.add(test)
                    continue
                self.seconds[test] = seconds / 2
                if key.endswith(" slow"):
                    self.slow.add(test)
                for path, lines in modules.items():
                    for line in lines:
                        self._tests.setdefault(path, {}).setdefault(line, []).append(test)

    def tests(self, mutant: Mutant) -> list[str]:
        """Tests that run a mutant's line, else its function, or lines that name this."""
        lines, tree = self._tests.get(str(mutant.path), {}), ast.parse((ROOT / mutant.path).read_bytes())
        names, body = {mutant.function}, range(0)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == mutant.function:
                own = range(node.body[0].lineno, node.body[-1].end_lineno + 1)
                body = own if mutant.line in own else body
            elif isinstance(node, ast.ClassDef) and node.lineno <= mutant.line <= node.end_lineno:
                names = {node.name} if mutant.function.startswith("__") else names
        for numbers in (mutant.lines, body):
            if found := {test for line in numbers for test in lines.get(line, ())}:
                return self._sorted(found, mutant)
        found = set[str]()
        for _ in range(4):
            found = {test for name in names for test in self._naming(name)}
            if found or not names:
                break
            names = {user for name in names for user in _users(name) if not user.startswith("__")}
        return self._sorted(found or {test for own in lines.values() for test in own}, mutant)

    def _naming(self, name: str) -> Iterator[str]:
        """Tests that run lines of the package with a name, other than its definition."""
        for path, lines in self._tests.items():
            for number, line in enumerate(_lines(ROOT / path), 1):
                if name in line and re.search(rf"(?<!def )\b{name}\b", line) and number in lines:
                    yield from lines[number]

    def _sorted(self, tests: Iterable[str], mutant: Mutant) -> list[str]:
        near = concerned(mutant.module, mutant.function)
        rank = {path: k for k, path in enumerate(near)}

        def cost(test: str) -> tuple[float, str]:
            path = test.partition("::")[0]
            far = 1 + rank.get(path, 30) / (4 if "test_laws" in path else 2)
            return (self.seconds[test] + 0.05) * min(far, 8), test

        return sorted(tests, key=cost)


@cache
def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


@cache
def _users(name: str) -> frozenset[str]:
    """Functions of the package that name another."""
    users = set()
    for path in (ROOT / "textsvm").rglob("*.py"):
        text = "\n".join(_lines(path))
        if name in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and node.name != name:
                    body = ast.get_source_segment(text, node) or ""
                    if re.search(rf"\b{name}\b", body):
                        users.add(node.name)
    return frozenset(users)


def _limit(seconds: int, cores: set[int]) -> None:
    """Limit the processor seconds and the cores of this process."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


class Copy:
    """A copy of the tree in which mutants are planted."""

    def __init__(self, folder: Path, options: argparse.Namespace, tests: Map, original: Path = ROOT) -> None:
        self.folder, self._options, self._map = folder, options, tests
        #: Tests that fail, and pass, without a mutant; all copies have the same
        self.failing, self._sound = tests.failing, tests.sound
        self._planted = 0
        if not folder.exists():
            ignored = [".git", ".hypothesis", "site", "dist", *(["__pycache__"] if original == ROOT else [])]
            shutil.copytree(original, folder, ignore=shutil.ignore_patterns(*ignored))
        for path in (path for part in ("textsvm", "tests") for path in (ROOT / part).rglob("*.py")):
            content, copy = path.read_bytes(), folder / path.relative_to(ROOT)
            spare = b"#" * SPARE + b"\n" if b"njit" in content else b""
            if not copy.exists() or copy.read_bytes() != content + spare:
                copy.write_bytes(content + spare)
        self._scratch = folder.with_name(f"{folder.name}-scratch")
        # Threads of all cores would take the processor seconds of other jobs.
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
        first = int(folder.name)
        self._cores = {cores[(first + k) % len(cores)] for k in range(2)}

    def prepare(self) -> None:
        """Trace quick tests here, which also compiles what they need, and shows those that fail."""
        options = self._options
        command = [sys.executable, "-m", "tests.covermap", str(options.map.resolve())]
        command += ["--jobs", str(options.jobs), "--until", str(options.prepare)]
        subprocess.run(command, cwd=self.folder, env={**os.environ, "PYTHONPATH": str(self.folder)})

    def _pytest(
        self, paths: list[str], environment: dict[str, str], limit: int, seconds: float, *options: str
    ) -> str:
        """What pytest prints, and how it ends, within seconds, and processor seconds of a process."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "-m"]
        command += ["not gpu" if self._options.slow else "not slow and not gpu", *paths]
        own = {"PYTHONPATH": str(self.folder), "TMPDIR": str(self._scratch), **environment}
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=partial(_limit, limit, self._cores),
        ) as process:
            try:
                return process.communicate(timeout=seconds)[0] + f"\nexit {process.returncode}"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return process.communicate()[0] + "\nexit late"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def _run(self, tests: list[str], files: list[str], seconds: float) -> tuple[str, str]:
        """What happened, "passed", "failed", "hangs", "late" or "broken", and to which test."""
        plan, progress = (self.folder.with_name(f"{self.folder.name}.{end}") for end in ("plan", "progress"))
        traced, without = sorted(self._map.keys), sorted(self.failing)
        plan.write_text(json.dumps({"tests": tests, "files": files, "without": without, "traced": traced}))
        progress.write_text("")
        paths = list(dict.fromkeys([test.partition("::")[0] for test in tests] + files))
        environment = {"MUTANT_PLAN": str(plan), "MUTANT_PROGRESS": str(progress)}
        out = self._pytest(
            paths, environment, int(seconds), 1.5 * seconds, "-x", "-n", "0", "-p", "tests.mutants"
        )
        if failed := re.search("^(?:FAILED|ERROR) (.+)$", out, re.MULTILINE):
            return "failed", _plain(failed[1])
        if re.search(r"^exit [05]$", out, re.MULTILINE):
            return "passed", ""
        if re.search(r"^exit [1-4]$", out, re.MULTILINE):
            return "broken", ""
        test, _, start = _rows(progress)[-1].rpartition("\t") if _rows(progress) else ("", "", "0")
        code = re.search(r"^exit -(\d+)$", out, re.MULTILINE)
        if code and int(code[1]) not in (signal.SIGXCPU, signal.SIGKILL):
            return "crashes", test
        # A test that takes ten times its seconds does not end.
        limit = max(15, 10 * self._map.seconds.get(test, 0))
        return ("hangs", test) if test and time.time() - float(start) > limit else ("late", "")

    def verdict(self, mutant: Mutant) -> tuple[str, str]:
        """Whether a test notices a mutant: "caught", "SURVIVED", or "late" if none has failed in time."""
        tests, left = [], self._options.seconds * 0.8
        for test in self._map.tests(mutant):
            left -= self._map.seconds[test]
            if left > 0 and test not in self.failing and (self._options.slow or test not in self._map.slow):
                tests.append(test)
        near = concerned(mutant.module, mutant.function)
        files = [path for path in near if self._has_other_tests(path)][:6]
        with Planted(self.folder, mutant, self._count()):
            event, test = self._run(tests, files, self._options.seconds * (1 + mutant.is_compiled))
        if event in ("passed", "late"):
            return ("SURVIVED" if event == "passed" else "late"), f"{len(tests)} tests"
        if test in self._sound:
            return "caught", f"{event} {test}"
        if self._run([test] if test else tests, [], self._options.seconds)[0] == "passed":
            self._sound.add(test)
            return "caught", f"{event} {test}"
        if not test or test in self.failing:
            return "error", event
        self.failing.add(test)
        return self.verdict(mutant)

    def _has_other_tests(self, path: str) -> bool:
        """Whether a test file has tests that the map does not know."""
        if Path(path).name not in self._map.keys:
            return True
        is_slow = self._options.slow and f"{Path(path).name} slow" not in self._map.keys
        return is_slow and "mark.slow" in (ROOT / path).read_text(encoding="utf-8")

    def _count(self) -> int:
        self._planted += 1
        return self._planted


def _plain(row: str) -> str:
    """The id of a test from a line of pytest's summary, whose parameters may contain " - "."""
    test, _, _ = row.partition(" - ")
    if "[" in test and not test.endswith("]"):
        test = row[: row.rindex("]") + 1] if "]" in row else row
    return test


class Planted:
    """A mutant in a tree, which is as before afterwards, with the compiled code of the original."""

    def __init__(self, root: Path, mutant: Mutant, number: int) -> None:
        self._path, self._number, self._mutant = root / mutant.path, number, mutant
        users = compiled_users(mutant.module) if mutant.is_compiled else ()
        modules = [mutant.path, *(Path(*name.split(".")).with_suffix(".py") for name in users)]
        self._caches = [root / path.parent / "__pycache__" for path in modules]
        self._stems = [path.stem for path in modules]

    def __enter__(self) -> None:
        self._source, status = self._path.read_bytes(), self._path.stat()
        self._times = status.st_atime_ns, status.st_mtime_ns
        self._files = {path: (path.read_bytes(), path.stat()) for path in self._cached()}
        content, times = self._mutant.of(self._source), self._times
        longer = len(content) - len(self._source)
        if b"njit" in self._source and not self._mutant.is_compiled and longer < SPARE:
            # Numba looks at the time and the size: compiled functions of the module stay.
            content = content[: -longer - 1] + b"\n" if longer > 0 else content[:-1] + b"#" * -longer + b"\n"
            stale = [
                path
                for path in self._files
                if path.suffix == ".pyc" and path.stem.startswith(self._path.stem)
            ]
        else:
            times = (times[0], times[1] + self._number * 10**9)
            stale = [*self._files] if self._mutant.is_compiled else []
        for path in stale:
            path.unlink()
        self._path.write_bytes(content)
        os.utime(self._path, ns=times)

    def __exit__(self, *error: object) -> None:
        self._path.write_bytes(self._source)
        os.utime(self._path, ns=self._times)
        for path in self._cached():
            path.unlink()
        for path, (content, status) in self._files.items():
            path.write_bytes(content)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _cached(self) -> list[Path]:
        return [
            path
            for folder, stem in zip(self._caches, self._stems, strict=True)
            for path in folder.glob(f"{stem}.*")
        ]


@cache
def compiled_users(module: str) -> frozenset[str]:
    """Modules with compiled functions whose code may contain code of a module."""
    users, todo = set[str](), {module}
    while todo:
        named = todo.pop()
        for path in (ROOT / "textsvm").rglob("*.py"):
            text = "\n".join(_lines(path))
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if (
                name not in users
                and "njit" in text
                and re.search(rf"\b{re.escape(named.rpartition('.')[2])}\b", text)
            ):
                users.add(name)
                todo.add(name)
    return frozenset(users - {module})


def _key(item: Any) -> str:
    """Key of a test in a map."""
    return f"{item.path.name}{' slow' * (item.get_closest_marker('slow') is not None)}"


class _Plugin:
    """Runs the tests of a plan in its order, then those that the map does not know."""

    def __init__(self) -> None:
        self._plan = json.loads(Path(os.environ["MUTANT_PLAN"]).read_text(encoding="utf-8"))

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        rank = {test: k for k, test in enumerate(self._plan["tests"])}
        without, traced, files = ({*self._plan[name]} for name in ("without", "traced", "files"))
        chosen = [
            item
            for item in items
            if item.nodeid in rank or (f"tests/{item.path.name}" in files and _key(item) not in traced)
        ]
        items[:] = sorted(
            (item for item in chosen if item.nodeid not in without),
            key=lambda item: rank.get(item.nodeid, len(rank)),
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        with open(os.environ["MUTANT_PROGRESS"], "a", encoding="utf-8") as file:
            file.write(f"{nodeid}\t{time.time():.2f}\n")


def pytest_configure(config: Any) -> None:
    """Called by pytest of a process of `Copy`."""
    if "MUTANT_PLAN" in os.environ:
        config.pluginmanager.register(_Plugin())


def _rows(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def modules_of(root: Path, room: str) -> list[Path]:
    """Files of a room, or all; code of CUDA, which needs a GPU, is left out."""
    folder = root / "textsvm" / ("" if room == "all" else room.replace(".", "/"))
    if not folder.is_dir():
        raise SystemExit(f"there is no room {room} in textsvm/")
    return [path.relative_to(root) for path in sorted(folder.rglob("*.py")) if "cuda" not in path.stem]


def room_of_today() -> str:
    """Another room each day: the folders of textsvm/, and those of textsvm/apps/ and textsvm/kernels/."""
    folders = [
        folder for pattern in ("*", "apps/*", "kernels/*") for folder in (ROOT / "textsvm").glob(pattern)
    ]
    names = [
        ".".join(folder.relative_to(ROOT / "textsvm").parts) for folder in sorted(folders) if folder.is_dir()
    ]
    rooms = [name for name in names if name not in ("apps", "kernels") and "__pycache__" not in name]
    return rooms[date.today().toordinal() % len(rooms)]


def parsed() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("room", nargs="?", default=room_of_today())
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=40, help="processor seconds of the tests of a mutant")
    parser.add_argument("--slow", action="store_true", help="run slow tests too")
    parser.add_argument("--map", type=Path, help="folder of tests/covermap.py")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--part", default="1/1", help="K/N: part K of N of the mutants")
    parser.add_argument(
        "--output",
        type=Path,
        help="file of results, whose mutants are not planted again; late ones are with more --seconds",
    )
    parser.add_argument("--until", type=float, default=1e9, help="plant no mutant after so many seconds")
    parser.add_argument("--work", type=Path, help="folder of the copies, which a later run uses again")
    parser.add_argument("--prepare", type=int, default=0, help="seconds to trace quick tests before")
    return parser.parse_args()


def main() -> None:
    """Plant mutants, and print the survivors and the numbers of each room."""
    start, options = time.monotonic(), parsed()
    mutants = [mutant for path in modules_of(ROOT, options.room) for mutant in mutants_of(ROOT, path)]
    chosen = random.Random(options.seed).sample(mutants, min(options.number, len(mutants)))
    k, n = map(int, options.part.split("/"))
    print(f"{options.room}: {len(chosen)} of {len(mutants):,} mutants, part {options.part}", flush=True)
    results = {}
    if options.output and options.output.exists():
        for row in options.output.read_text(encoding="utf-8").splitlines():
            verdict, place, number = row.split()[:3]
            results[int(number[1:])] = verdict, place
    results = {i: x for i, x in results.items() if x[0] != "late" or options.seconds <= 40}
    todo = [(i, mutant) for i, mutant in enumerate(chosen) if i % n == k - 1 and i not in results]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(exist_ok=True)
        first = Copy(work / "0", options, Map(None))
        if options.prepare:
            first.prepare()
        tests = Map(options.map)
        print(f"{len(tests.seconds)} tests traced, {len(tests.failing)} fail without a mutant", flush=True)
        copies = SimpleQueue[Copy]()
        for job in range(options.jobs):
            copies.put(Copy(work / str(job), options, tests, first.folder))

        def judge(item: tuple[int, Mutant]) -> None:
            number, mutant = item
            clock = time.monotonic()
            if clock - start > options.until:
                return
            copy = copies.get()
            verdict, test = copy.verdict(mutant)
            copies.put(copy)
            was = (ROOT / mutant.path).read_bytes()[mutant.start : mutant.stop].decode()
            what = f"{mutant.kind}: {' '.join(was.split())[:90]} -> {' '.join(mutant.text.split())[:90]}"
            place = f"{mutant.path.relative_to('textsvm')}:{mutant.line}"
            row = f"{verdict} {place} #{number} {what} | {test} ({time.monotonic() - clock:.0f} s)"
            results[number] = verdict, place
            print(row, flush=True)
            if options.output:
                with open(options.output, "a", encoding="utf-8") as file:
                    file.write(row + "\n")

        with ThreadPoolExecutor(options.jobs) as jobs:
            list(jobs.map(judge, todo))
    n_planted, n_caught = Counter[str](), Counter[str]()
    for verdict, place in results.values():
        n_planted[str(Path(place).parent)] += 1
        n_caught[str(Path(place).parent)] += verdict == "caught"
    for room, planted in sorted(n_planted.items()):
        print(f"{room}: {n_caught[room]} of {planted} caught")
    print(f"all: {n_caught.total()} of {n_planted.total()} caught")


if __name__ == "__main__":
    main()
