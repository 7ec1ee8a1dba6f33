"""Plant faults in a room of the package, and print those that no test notices.

    python -m tests.mutants [ROOM] [--number 20] [--seed 0] [--seconds 120] [--slow]

A room is a folder of textsvm/ (choice, apps.mail, kernels.edit), or "all"; by default another one each day.
Each mutant changes a single place of a copy of the tree: an operator, a dropped term, argument or statement,
swapped arguments, a parameter that is ignored, a constant off by one, a default that is returned. Its tests
are the test files that import the module, nearest first; they stop at the first failure, or after some
seconds. A survivor shows a missing test, a line that is not needed, or a change that nobody can see
(CONTRIBUTING.md says how to read it).
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SWAPS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/",
    ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//", ast.LShift: ">>", ast.RShift: "<<", ast.BitAnd: "|",
    ast.BitOr: "&", ast.And: "or", ast.Or: "and",
}  # fmt: skip
#: What a function returns by default, by its annotation; None else.
DEFAULTS = {"int": "0", "float": "0.0", "bool": "False", "str": '""', "bytes": 'b""'}


@dataclass(frozen=True)
class Mutant:
    """A replacement in a file: of the bytes from `start` to `stop`."""

    path: Path
    line: int
    start: int
    stop: int
    text: str
    kind: str
    function: str

    def of(self, source: bytes) -> bytes:
        """The changed file."""
        return source[: self.start] + self.text.encode() + source[self.stop :]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(node: ast.AST, text: str, kind: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Mutant:
        start = starts[node.lineno - 1] + node.col_offset
        return Mutant(
            path,
            node.lineno,
            start,
            starts[node.end_lineno - 1] + node.end_col_offset,
            text,
            kind,
            function.name,
        )

    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in _own(function):
                for text, kind in _changes(node, function):
                    yield at(node, text, kind, function)


def _own(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Nodes of a function, without those of inner functions, annotations and errors."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Raise | ast.Assert):
            continue
        yield node
        annotations = (getattr(node, name, None) for name in ("annotation", "returns"))
        skipped = {id(part) for part in annotations if part is not None}
        todo += [child for child in ast.iter_child_nodes(node) if id(child) not in skipped]


def _changes(node: ast.AST, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str]]:
    """Changed texts of a node, and their kinds."""
    text = ast.unparse
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        yield f"({text(node.left)} {SWAPS[type(node.ops[0])]} {text(node.comparators[0])})", "operator"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        yield f"({text(node.left)} {SWAPS[type(node.op)]} {text(node.right)})", "operator"
        if not isinstance(node.left, ast.Constant | ast.JoinedStr):
            yield f"({text(node.left)})", "dropped term"
    elif isinstance(node, ast.BoolOp):
        yield (
            "(" + f" {SWAPS[type(node.op)]} ".join(f"({text(value)})" for value in node.values) + ")",
            "operator",
        )
        for k in range(len(node.values)):
            rest = [value for i, value in enumerate(node.values) if i != k]
            name = "and" if isinstance(node.op, ast.And) else "or"
            yield "(" + f" {name} ".join(f"({text(value)})" for value in rest) + ")", "dropped term"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield f"({text(node.operand)})", "operator"
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        other = not node.value if isinstance(node.value, bool) else node.value + 1
        yield repr(other), "constant"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield f"return {DEFAULTS.get(text(function.returns) if function.returns else '', 'None')}", "default"
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
def imports_of(root: Path) -> Any:
    """`.ci/concerned.py` of a tree, which knows what test files import."""
    spec = importlib.util.spec_from_file_location("concerned", root / ".ci" / "concerned.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


@cache
def concerned(root: Path, module: str, function: str) -> list[str]:
    """Test files of a module: those that import it first, then those of modules of its room that use it."""
    tool, files = imports_of(root), sorted((root / "tests").glob("test_*.py"))
    tool.slow_files = lambda: files
    direct = [path for path in files if module in tool.imports(path)]
    laws = [path for path in files if path.stem.startswith("test_laws") and path not in direct]
    names = module.split(".")[-2:]
    named = {path for path in direct if function in path.read_text(encoding="utf-8")}
    named |= {path for path in direct if any(name in path.stem for name in names)}
    direct.sort(key=lambda path: (path not in named, path.stat().st_size))
    rest = sorted(tool.users(module) - {*direct, *laws}, key=lambda path: path.stat().st_size)
    found = [path for path in [*direct, *laws, *rest] if not {"gpu", "browser"} & {*path.stem.split("_")}]
    return [str(path.relative_to(root)) for path in found]


class Copy:
    """A copy of the tree in which mutants are planted."""

    def __init__(self, folder: Path, seconds: float, slow: bool) -> None:
        self.folder, self.seconds = folder, seconds
        self._command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
        self._command += ["-m", "slow or not slow" if slow else "not slow"]
        self._failing = set[str]()  #: Tests that fail without a mutant
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", "__pycache__", "site", "dist"))

    def _failed(self, tests: list[str]) -> str | None:
        """The first test that fails; None if all pass, "" if the time is over."""
        known = [option for test in sorted(self._failing) for option in ("--deselect", test)]
        environment, limit = {**os.environ, "PYTHONPATH": str(self.folder)}, (self.seconds, self.seconds)
        done = subprocess.run(
            [*self._command, *known, *tests], cwd=self.folder, env=environment, capture_output=True,
            text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
        )  # fmt: skip
        failed = re.search("^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        return None if done.returncode in (0, 5) else failed[1] if failed else ""

    def verdict(self, mutant: Mutant) -> str:
        """Whether a test notices a mutant: "caught", "SURVIVED", or "late" if none has failed in the time."""
        place = mutant.path.relative_to(self.folder).with_suffix("")
        tests = concerned(self.folder, ".".join(place.parts).removesuffix(".__init__"), mutant.function)
        source = mutant.path.read_bytes()
        while True:
            mutant.path.write_bytes(mutant.of(source))
            failed = self._failed(tests)
            mutant.path.write_bytes(source)
            if not failed:
                return "SURVIVED" if failed is None else "late"
            if self._failed([failed]) is None:
                return "caught"
            self._failing.add(failed)


def modules_of(package: Path, room: str) -> list[Path]:
    """Files of a room, or all; code of CUDA, which needs a GPU, is left out."""
    folder = package / ("" if room == "all" else room.replace(".", "/"))
    if not folder.is_dir():
        raise SystemExit(f"there is no room {room} in textsvm/")
    return [path for path in sorted(folder.rglob("*.py")) if "cuda" not in path.stem]


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


def main() -> None:
    """Plant mutants, and print the survivors and the numbers of each room."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("room", nargs="?", default=room_of_today())
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=120, help="processor seconds of the tests of a mutant")
    parser.add_argument("--slow", action="store_true", help="run slow tests too")
    options = parser.parse_args()
    n_planted, n_caught = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder) / "tree", options.seconds, options.slow)
        package = copy.folder / "textsvm"
        mutants = [mutant for path in modules_of(package, options.room) for mutant in mutants_of(path)]
        chosen = random.Random(options.seed).sample(mutants, min(options.number, len(mutants)))
        print(f"{options.room}: {len(chosen)} of {len(mutants):,} mutants", flush=True)
        for mutant in chosen:
            clock, place = time.monotonic(), mutant.path.relative_to(package)
            verdict = copy.verdict(mutant)
            n_planted[str(place.parent)] += 1
            n_caught[str(place.parent)] += verdict == "caught"
            was = mutant.path.read_bytes()[mutant.start : mutant.stop].decode()
            what = f"{mutant.kind}: {' '.join(was.split())[:60]} -> {' '.join(mutant.text.split())[:60]}"
            print(f"{verdict} {place}:{mutant.line} {what} ({time.monotonic() - clock:.0f} s)", flush=True)
    for room, n in sorted(n_planted.items()):
        print(f"{room}: {n_caught[room]} of {n} caught")
    print(f"all: {n_caught.total()} of {n_planted.total()} caught")


if __name__ == "__main__":
    main()
