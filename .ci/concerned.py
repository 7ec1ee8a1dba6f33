"""Print the test files whose slow tests a change concerns, one per line.

    python .ci/concerned.py [BASE]

A change is the difference between BASE and HEAD. The default of BASE is the newest commit at least four hours
older than HEAD, so that a series of commits counts as one change.

A changed module of textsvm/ concerns the test files that import it, or that import a module of its room from
which it is reached inside the room. If there is none, it concerns those of the modules that import it. Rooms
are the folders of textsvm/, and those of textsvm/apps/ and textsvm/kernels/. A changed file of another kind
counts as a change of all modules in its folder.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from figures import Tree  # noqa: E402

#: Changed files (regular expression) -> patterns of test files that they concern and do not import.
OTHERS = {
    r"textsvm/(cli/|\w+\.py|apps/\w+/commands\.py)": [
        "test_cli*",
        "test_output",
        "test_threats",
        "test_faults",
    ],
    r"textsvm/apps/mail/": ["test_mail_*"],
    r"kernels_cu/|wheels/": ["test_kernels_cu"],
    r"README\.md|docs/|examples/": ["test_readme", "test_pages", "test_site"],
    r"fuzz/": ["test_fuzz_*"],
    r"\.ci/|\.github/|pyproject\.toml|textsvm/estimators/": ["test_release", "test_conftest"],
}


def room(module: str) -> str:
    """The room of a module, by name."""
    parts = module.split(".")
    return ".".join(parts[: 3 if parts[1:2] in (["apps"], ["kernels"]) else 2])


@cache
def tree() -> Tree:
    return Tree(ROOT)


@cache
def imports(path: Path) -> frozenset[str]:
    """Modules of textsvm and benchmarks that a test file imports, itself or through other files of tests/."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            helper = path.with_name(f"{module}.py")
            if module.startswith("textsvm"):
                modules.add(tree().defining(module, name) if name else module)
            elif module.startswith("benchmarks"):
                modules |= {module, f"{module}.{name}"}
            elif helper.is_file() and module != "command":  # which runs every command
                modules |= imports(helper)
    return frozenset(modules)


@cache
def reached(module: str) -> frozenset[str]:
    """The modules of its room that a module imports, directly or through others, and the module."""
    done, todo = {module}, [module]
    while todo:
        targets = tree().imports.get(todo.pop(), set())
        new = {target for target in targets - done if room(target) == room(module)}
        done |= new
        todo += new
    return frozenset(done)


@cache
def slow_files() -> list[Path]:
    """Test files with slow tests."""
    files = sorted((ROOT / "tests").glob("test_*.py"))
    return [path for path in files if "mark.slow" in path.read_text(encoding="utf-8")]


def modules_of(changed: str) -> set[str]:
    """Modules that a changed file of textsvm/ or benchmarks/ belongs to."""
    name = changed.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if changed.endswith(".py"):
        return {name}
    folder = changed.rpartition("/")[0].replace("/", ".") + "."
    return {module for module in tree().modules if module.startswith(folder)}


def concerned(changed: list[str]) -> list[str]:
    """Return the test files whose slow tests the changed files concern."""
    patterns = [
        p for concern, tests in OTHERS.items() for p in tests if any(re.match(concern, c) for c in changed)
    ]
    files = {path for pattern in patterns for path in (ROOT / "tests").glob(f"{pattern}.py")}
    files |= {ROOT / path for path in changed if re.fullmatch(r"tests/test_\w+\.py", path)}
    packages = [path for path in changed if path.startswith(("textsvm/", "benchmarks/"))]
    for module in {module for path in packages for module in modules_of(path)}:
        files |= users(module)
    return sorted(str(path.relative_to(ROOT)) for path in files if path.is_file())


@cache
def users(module: str) -> frozenset[Path]:
    """Files with slow tests that a change of a module concerns."""
    done: set[str] = set()
    todo = {module}
    while todo:
        files = {path for path in slow_files() for name in imports(path) if todo & reached(name)}
        if files:
            return frozenset(files)
        done |= todo
        todo = {name for name, targets in tree().imports.items() if targets & todo} - done
    return frozenset()


def git(*arguments: str) -> str:
    """Return the output of a git command."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def default_base() -> str:
    """Return the newest commit at least four hours older than HEAD, or the first commit."""
    newest = datetime.fromisoformat(git("log", "-1", "--format=%cI").strip())
    before = (newest - timedelta(hours=4)).isoformat()
    return git("rev-list", "-1", f"--before={before}", "HEAD").strip() or git("rev-list", "HEAD").split()[-1]


if __name__ == "__main__":
    base = sys.argv[1] if len(sys.argv) > 1 else default_base()
    files = concerned(git("diff", "--name-only", base, "HEAD").split())
    # .ci/run has no time for all slow tests if a change concerns everything: begin elsewhere at each commit.
    start = int(git("rev-parse", "HEAD"), 16) % max(len(files), 1)
    for file in files[start:] + files[:start]:
        print(file)
