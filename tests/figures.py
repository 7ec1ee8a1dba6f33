"""Figures of the code base: size, dependencies, names, language, duplicated code, moves of a call.

    python tests/figures.py                 # this checkout
    python tests/figures.py --json          # the same as JSON, with every list in full
    python tests/figures.py --root ../old   # another checkout, for instance of the commit before

`tests/test_architecture.py` holds the limits.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import keyword
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain, combinations, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).resolve().parent.parent
#: Packages and modules of textsvm from the ground up, without "textsvm."; a module imports from its own set
#: and from the sets before it. The longest name that matches counts: "kernels.base" may precede "kernels".
FLOORS: list[set[str]] = [
    {"arrays", "version", "errors", "runtime"},
    {"text"}, {"linalg"}, {"kernels"}, {"readers"}, {"sources"}, {"gram"}, {"solvers"}, {"choice"}, {"model"},
    {"training"}, {"evaluation"}, {"selection"}, {"reporting"}, {"estimators"},
    {"apps"},
    {"cli", "apps.export.commands", "apps.mail.commands", "apps.serve.commands", "apps.label.commands"},
    {"__main__", "textsvm"},
]  # fmt: skip
SMALL, LONG, PARAMETERS, RUN = 30, 1000, 7, 6
LISTED = (
    "upward edges",
    "modules in cycles",
    "functions of more than 7 parameters",
    "mutable module globals",
)
WORDS = ("what", "one", "those", "made", "found")
#: Words that are no names of variables, parameters or fields: they do not say what the value is.
PARTICIPLES = ("each", "given", "kept", "known", "some", "made", "found")
#: Applications: parts of the package on top of its public names, with their commands.
APPLICATIONS = re.compile(r"textsvm\.apps(\.|$)")
#: Files of the package that are no Python: C, JavaScript, and the pages around them.
SHIPPED = {".c", ".h", ".mjs", ".js", ".ts", ".css", ".html"}
#: Methods that change a dictionary, a list or a set.
CHANGING = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop"} | {
    "popitem", "remove", "setdefault", "update",
}  # fmt: skip
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.ClassDef, *FUNCTIONS)
IMPORTS = (ast.Import, ast.ImportFrom)


class Tree:
    """The package `textsvm/` of a checkout, parsed."""

    def __init__(self, root: Path = ROOT) -> None:
        self.texts: dict[str, str] = {}
        self.packages: set[str] = set()
        for path in sorted((root / "textsvm").rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            if path.name == "__init__.py":
                self.packages.add(name := name.removesuffix(".__init__"))
            self.texts[name] = path.read_text(encoding="utf-8")
        self.modules = {name: ast.parse(text) for name, text in self.texts.items()}
        self.lines = {name: len(text.splitlines()) for name, text in self.texts.items()}
        self.shipped = {
            str(path.relative_to(root)): len(path.read_text(encoding="utf-8").splitlines())
            for path in sorted((root / "textsvm").rglob("*"))
            if path.suffix in SHIPPED
        }
        self._nodes = defaultdict(list)
        for name, tree in self.modules.items():
            for node in ast.walk(tree):
                self._nodes[type(node)].append((name, node))

    def nodes(self, *kinds: type) -> Iterator[tuple[str, Any]]:
        """Every (module, syntax node) of some kinds."""
        return chain.from_iterable(self._nodes[kind] for kind in kinds)

    # Size

    def small_modules(self) -> list[str]:
        others = self.packages | {"textsvm.__main__"}
        return [name for name, lines in self.lines.items() if lines <= SMALL and name not in others]

    def application_lines(self) -> int:
        return sum(lines for name, lines in self.lines.items() if APPLICATIONS.match(name))

    # Dependencies

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        """The module that a `from` import names."""
        parts = module.split(".") + ["__init__"] * (module in self.packages)
        base = parts[: -node.level] if node.level else []
        return ".".join([*base, *([node.module] if node.module else [])])

    def _string_targets(self, module: str) -> dict[str, str]:
        """Modules that string constants name, "package.module" or "package.module:Class".

        The package may be the literal beginning of an f-string of `import_module` instead.
        """
        text = self.texts[module].replace("{__name__}", module)
        prefixes = {"", *re.findall(r"import_module\(\s*f['\"]([\w.]+\.)\{", text)}
        strings = {node.value for node in ast.walk(self.modules[module]) if isinstance(node, ast.Constant)}
        return {
            string: target
            for prefix in prefixes
            for string in strings
            if isinstance(string, str)
            and "." in (target := prefix + string.partition(":")[0])
            and target in self.modules
        }

    @cached_property
    def _exports(self) -> dict[str, dict[str, str]]:
        """Module of every name that the `__init__.py` of a package takes from elsewhere, tables included."""
        exports: dict[str, dict[str, str]] = {name: {} for name in self.modules}
        tables = {name: self._string_targets(name) for name in self.packages}
        for module, node in self.nodes(ast.ImportFrom):
            if module in self.packages:
                source = self._absolute(module, node)
                exports[module].update((alias.asname or alias.name, source) for alias in node.names)
        for module, node in self.nodes(ast.Dict):
            if module in self.packages:
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                        exports[module].setdefault(key.value, tables[module].get(value.value, module))
        return exports

    def defining(self, module: str, name: str) -> str:
        """The module that defines a name of a module: names are followed through packages."""
        if f"{module}.{name}" in self.modules:
            return f"{module}.{name}"
        origin = self._exports.get(module, {}).get(name, module)
        return module if origin == module or origin not in self.modules else self.defining(origin, name)

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The modules that each module imports.

        All imports count: at module level, in functions, under `TYPE_CHECKING`, relative, through
        `import_module`, through tables of strings, and through `textsvm` and its packages. Names that
        textsvm/__init__.py defines itself (`__version__`) need no module.
        """
        edges: dict[str, set[str]] = {name: set(self._string_targets(name).values()) for name in self.modules}
        aliases: dict[tuple[str, str], str] = {}
        for module, node in self.nodes(ast.ImportFrom):
            source = self._absolute(module, node)
            if source in self.modules:
                edges[module] |= {self.defining(source, alias.name) for alias in node.names}
        for module, node in self.nodes(ast.Import):
            for alias in node.names:
                if alias.name in self.modules:
                    edges[module].add(alias.name)
                    aliases[module, alias.asname or "textsvm"] = alias.name if alias.asname else "textsvm"
        for module, node in self.nodes(ast.Attribute):
            if isinstance(node.value, ast.Name) and (module, node.value.id) in aliases:
                edges[module].add(self.defining(aliases[module, node.value.id], node.attr))
        return {module: targets - {module, "textsvm"} for module, targets in edges.items()}

    def single_importers(self) -> list[str]:
        """Modules that exactly one other module of the package imports."""
        counts = Counter(target for targets in self.imports.values() for target in targets)
        return sorted(name for name, count in counts.items() if count == 1 and name not in self.packages)

    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other, directly or through others."""
        names = list(self.modules)
        edges = [
            (names.index(module), names.index(name)) for module in names for name in self.imports[module]
        ]
        graph = coo_array((np.ones(len(edges)), np.array(edges).T), shape=(len(names), len(names)))
        groups = defaultdict(list)
        for name, label in zip(names, connected_components(graph, connection="strong")[1], strict=True):
            groups[label].append(name)
        return [group for group in groups.values() if len(group) > 1]

    def upward(self) -> list[str]:
        """Imports of a module in a later set of FLOORS."""
        floors = {name: floor for floor, names in enumerate(FLOORS) for name in names}

        def floor(module: str) -> int:
            name = module.removeprefix("textsvm.")
            while name not in floors:
                if "." not in name:
                    raise ValueError(f"{module} has no place in FLOORS of tests/figures.py")
                name = name.rpartition(".")[0]
            return floors[name]

        edges = [(module, target) for module, targets in self.imports.items() for target in sorted(targets)]
        return [f"{module} -> {target}" for module, target in edges if floor(target) > floor(module)]

    def function_level_imports(self) -> list[str]:
        inside = (
            (module, node) for module, function in self.nodes(*FUNCTIONS) for node in ast.walk(function)
        )
        return sorted({f"{module}:{node.lineno}" for module, node in inside if isinstance(node, IMPORTS)})

    def module_getattrs(self) -> list[str]:
        return [
            module
            for module, tree in self.modules.items()
            if any(isinstance(node, FUNCTIONS) and node.name == "__getattr__" for node in tree.body)
        ]

    # Names and functions

    def repeated(self, *kinds: type, more_than: int = 1) -> dict[str, list[str]]:
        """Modules of names with more definitions; leading underscores do not count."""
        modules = defaultdict(list)
        for module, node in self.nodes(*kinds):
            modules[node.name.lstrip("_") or node.name].append(module)
        return {name: places for name, places in sorted(modules.items()) if len(places) > more_than}

    @cached_property
    def functions(self) -> list[tuple[str, int, int, bool]]:
        """(module:name, lines without docstring, parameters without self, compiled) of every function."""
        rows = []

        def walk(node: ast.AST, path: str) -> None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, FUNCTIONS):
                    rows.append((f"{path}{child.name}", *_measure(child)))
                walk(child, f"{path}{child.name}." if isinstance(child, DEFINITIONS) else path)

        for module, tree in self.modules.items():
            walk(tree, f"{module}:")
        return rows

    def longest_function(self) -> tuple[int, str]:
        """Lines of the longest function with its docstring, and module:name."""
        return max(
            (node.end_lineno - node.lineno + 1, f"{module}:{node.name}")
            for module, node in self.nodes(*FUNCTIONS)
        )

    def mutable_globals(self) -> list[str]:
        """Module-level names that functions of their module rebind (`global`) or change in place."""
        names = set()
        for module, tree in self.modules.items():
            top = {name.id for statement in tree.body for name in _targets(statement)}
            for function in ast.walk(tree):
                if isinstance(function, FUNCTIONS):
                    names |= {f"{module}.{name}" for name in _changes(function) & top}
        return sorted(names)

    # Types

    def count(self, pattern: str) -> int:
        """Occurrences of a regular expression in the package, comments and docstrings included."""
        return sum(len(re.findall(pattern, text)) for text in self.texts.values())

    def untyped_names(self) -> list[str]:
        """Assignments `Name = Any` at module level, which hide a type."""
        return [
            f"{module}.{target.id}"
            for module, tree in self.modules.items()
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and node.value is not None
            and ast.unparse(node.value) in ("Any", "typing.Any")
            for target in _targets(node)
        ]

    def many_parameters(self, compiled: bool = False) -> list[str]:
        return [row[0] for row in self.functions if row[2] > PARAMETERS and row[3] == compiled]

    # Language

    @cached_property
    def docstrings(self) -> list[str]:
        return [text for _, node in self.nodes(ast.Module, *DEFINITIONS) if (text := ast.get_docstring(node))]

    def words(self) -> dict[str, float]:
        """Occurrences of each of WORDS per 10,000 words of docstrings."""
        words = re.findall(r"[^\W\d_]+", " ".join(self.docstrings).lower())
        counts = Counter(words)
        return {word: round(10_000 * counts[word] / max(len(words), 1), 1) for word in WORDS}

    def participles(self) -> list[str]:
        """Variables, parameters and fields that are called one of PARTICIPLES."""
        parameters = [(module, node.arg, node) for module, node in self.nodes(ast.arg)]
        variables = [
            (module, node.id, node)
            for module, node in self.nodes(ast.Name)
            if isinstance(node.ctx, ast.Store)
        ]
        return [
            f"{module}:{node.lineno} {name}"
            for module, name, node in parameters + variables
            if name in PARTICIPLES
        ]

    # Duplicated code

    def duplicates(self, shape: bool = False) -> list[tuple[str, str]]:
        """Pairs of places with the same code of at least RUN lines.

        Docstrings, comments, imports, blank lines and lines of punctuation do not count, nor runs with fewer
        than four different lines (tables). `shape`: names, numbers and strings may differ; no decorators.
        """
        lines = {name: _code_lines(tree, self.texts[name], shape) for name, tree in self.modules.items()}
        windows = defaultdict(list)
        for module, code in lines.items():
            for start in range(len(code) - RUN + 1):
                window = tuple(text for _, text in code[start : start + RUN])
                if len(set(window)) >= 4:
                    windows[window].append((module, start))
        pairs = {
            (first, second)
            for places in windows.values()
            for first, second in combinations(places, 2)
            if first[0] != second[0] or second[1] - first[1] >= RUN
        }
        before = {((first, i + 1), (second, j + 1)) for (first, i), (second, j) in pairs}
        return [tuple(f"{m}:{lines[m][start][0]}" for m, start in pair) for pair in sorted(pairs - before)]


def _measure(node: Any) -> tuple[int, int, bool]:
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    parameters = [argument for argument in arguments if argument.arg not in ("self", "cls")]
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    return lines, len(parameters), "njit" in decorators or "intrinsic" in decorators


def _targets(statement: ast.stmt) -> list[ast.Name]:
    """Names that an assignment binds."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    else:
        targets = []
    return [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _changes(function: Any) -> set[str]:
    """Names that a function declares `global`, or whose items it changes without binding the name itself."""
    declared, changed = set(), set()
    local = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    for node in ast.walk(function):
        container = None
        if isinstance(node, ast.Global):
            declared |= set(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            local.add(node.id)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            container = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            container = node.func.value if node.func.attr in CHANGING else None
        if isinstance(container, ast.Name):
            changed.add(container.id)
    return declared | (changed - local)


def _code_lines(tree: ast.Module, text: str, shape: bool) -> list[tuple[int, str]]:
    """(line number, normalised line) of the lines of code."""
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *DEFINITIONS)) and ast.get_docstring(node, clean=False) is not None:
            spans.append(node.body[0])
        if isinstance(node, DEFINITIONS) and shape:
            spans += node.decorator_list
        if isinstance(node, IMPORTS):
            spans.append(node)
    skipped = {number for node in spans for number in range(node.lineno, (node.end_lineno or 0) + 1)}
    names = {tokenize.NAME: "N", tokenize.NUMBER: "0", tokenize.STRING: "S"}
    lines: dict[int, list[str]] = defaultdict(list)
    counted = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.start[0] not in skipped and token.string.strip() and token.type != tokenize.COMMENT:
            replaced = shape and token.type in names and not keyword.iskeyword(token.string)
            lines[token.start[0]].append(names[token.type] if replaced else token.string)
            if token.type in names:
                counted.add(token.start[0])
    return [(number, " ".join(lines[number])) for number in sorted(counted)]


def kernel_members() -> dict[str, int]:
    """Public members of an object of every registered kernel, without its constructor parameters."""
    from textsvm import EditDistance, Spectrum
    from textsvm.kernels import KERNELS

    parts = [Spectrum(2), EditDistance()]
    arguments = {"sum": (parts,), "product": (parts,), "on": ("text", parts[0])}
    counts = {}
    for name in KERNELS:
        kernel = KERNELS[name](*arguments.get(name, ()))
        classes = [kind for kind in type(kernel).__mro__ if kind.__module__.startswith("textsvm")]
        members = set(vars(kernel)).union(*map(vars, classes)) - set(kernel.get_params(deep=False))
        counts[name] = sum(not member.startswith("_") for member in members)
    return counts


def moves_of(call: Callable[[], object]) -> tuple[int, int]:
    """Package files that a call enters in this thread, and its moves between them.

    A move is the call of a Python function in another file than that of the call before. Lambdas,
    comprehensions, generator expressions and compiled functions do not count.
    """
    import textsvm

    folder, calls = str(Path(textsvm.__file__).parent), []

    def profile(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        # Numba reports the call of a compiled function in a frame without a caller.
        ours = code.co_filename.startswith(folder) and frame.f_back is not None
        if event == "call" and ours and not code.co_name.startswith("<"):
            calls.append(code.co_filename)

    sys.setprofile(profile)
    call()
    sys.setprofile(None)
    return len(set(calls)), sum(file != before for before, file in pairwise(["", *calls]))


def command_line() -> dict[str, Any]:
    """Options of all commands, and their distinct names."""
    from typer.main import get_command

    from textsvm.cli import app_of

    def options(command: Any) -> Iterator[str]:
        commands = getattr(command, "commands", {}).values()
        for parameter in [] if commands else command.params:
            if parameter.param_type_name == "option":
                yield max(parameter.opts, key=len)
        yield from chain.from_iterable(options(part) for part in commands)

    names = list(options(get_command(app_of())))
    return {"options of the command line": len(names), "distinct options": len(set(names))}


def estimator() -> dict[str, int]:
    """Base classes of SVC, and its public members without its constructor parameters."""
    from textsvm import SVC
    from textsvm.runtime.parameters import defaults_of

    bases = SVC.__mro__[1:]
    own = [base for base in bases if base is not object and not base.__module__.startswith("sklearn.")]
    members = [name for name in dir(SVC) if not name.startswith("_") and name not in defaults_of(SVC)]
    return {
        "base classes of SVC": len(bases),
        "base classes of SVC, without scikit-learn's and object": len(own),
        "public members of SVC": len(members),
    }


SPAM = ["cheap pills for sale", "win a prize now", "buy cheap watches", "free prize for you"]
HAM = ["the meeting is at noon", "please read the agenda", "see you at lunch", "the report is here"]
LABELS = ["spam"] * 12 + ["ham"] * 12


def texts_of(word: str) -> list[str]:
    """24 texts that begin with a word: the first half spam."""
    return [f"{word}{number} {text}" for part in (SPAM, HAM) for number in range(3) for text in part]


def default_moves() -> dict[str, int]:
    """Files and moves of a fit with the default kernel, and of the prediction of a text by the loaded model.

    For a new process, in which NumPy alone does such small work: Numba is not imported.
    """
    from textsvm import SVC, load, save

    svc = SVC(device="cpu", n_jobs=1)
    with TemporaryDirectory() as folder:
        save(svc.fit(texts_of("warm"), LABELS), path := f"{folder}/model.textsvm")
        model = load(path)
    model.predict(["a first text"])
    fit = moves_of(lambda: svc.fit(texts_of(""), LABELS))
    prediction = moves_of(lambda: model.predict(["buy this text"]))
    assert "numba" not in sys.modules
    return {
        "files entered by a fit": fit[0],
        "moves of a fit": fit[1],
        "files entered by a prediction": prediction[0],
        "moves of a prediction": prediction[1],
    }


def running() -> dict[str, Any]:
    """Figures of the running package: moves of a fit and a prediction, SVC, options, kernel members."""
    return {
        **default_moves(),
        **estimator(),
        **command_line(),
        "public members of a kernel": kernel_members(),
    }


def run(root: Path = ROOT) -> dict[str, Any]:
    """`running` of a checkout, in a process of its own."""
    command, environment = [sys.executable, __file__, "--running"], {**os.environ, "PYTHONPATH": str(root)}
    return json.loads(subprocess.check_output(command, cwd=root, env=environment).splitlines()[-1])


def measure(tree: Tree) -> dict[str, Any]:
    """Figures of a package by name: numbers, and lists or dictionaries that are to be counted."""
    sizes = sorted(lines for _, lines, _, compiled in tree.functions if not compiled)
    return {
        "lines of textsvm/": sum(tree.lines.values()),
        "lines of the applications": tree.application_lines(),
        "lines of C, JavaScript, HTML and CSS": sum(tree.shipped.values()),
        "files": len(tree.modules),
        f"modules of at most {SMALL} lines": tree.small_modules(),
        "modules with one importer": tree.single_importers(),
        f"files of more than {LONG} lines": [name for name, lines in tree.lines.items() if lines > LONG],
        "import edges": sum(map(len, tree.imports.values())),
        "cycles": tree.cycles(),
        "modules in cycles": list(chain(*tree.cycles())),
        "upward edges": tree.upward(),
        "function-level imports": tree.function_level_imports(),
        "module-level __getattr__": tree.module_getattrs(),
        "mutable module globals": tree.mutable_globals(),
        'words "Any"': tree.count(r"\bAny\b"),
        "calls of getattr and hasattr": tree.count(r"\b(?:getattr|hasattr)\("),
        "class names defined more than once": tree.repeated(ast.ClassDef),
        "function names defined more than 10 times": tree.repeated(*FUNCTIONS, more_than=10),
        **{f'"{word}" per 10,000 docstring words': rate for word, rate in tree.words().items()},
        'docstrings "See `X`."': [text for text in tree.docstrings if re.fullmatch(r"See `[^`]+`.*", text)],
        "participles as names": tree.participles(),
        f"functions of more than {PARAMETERS} parameters": tree.many_parameters(),
        f"compiled functions of more than {PARAMETERS} parameters": tree.many_parameters(compiled=True),
        "lines of a function, median": sizes[len(sizes) // 2],
        "lines of a function, 90 %": sizes[len(sizes) * 9 // 10],
        "lines of the longest function": tree.longest_function()[0],
        "pairs of duplicated places, identical": tree.duplicates(),
        "pairs of duplicated places, same shape": tree.duplicates(shape=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Print figures of the code base.")
    parser.add_argument("--json", action="store_true", help="print JSON, with every list in full")
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout to measure")
    parser.add_argument("--running", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.running:
        print(json.dumps(running()))
        return
    root = arguments.root.resolve()
    figures = {**measure(Tree(root)), **run(root)}
    if arguments.json:
        print(json.dumps(figures, indent=1))
        return
    members = figures.pop("public members of a kernel").values()
    for name, value in figures.items():
        print(f"{name}: {value if isinstance(value, int | float) else len(value)}")
        if name in LISTED:
            print("".join(f"    {line}\n" for line in value), end="")
    print(f"public members of a kernel: {min(members)} to {max(members)}")


if __name__ == "__main__":
    main()
