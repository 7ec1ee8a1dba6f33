"""Limits of size, dependencies, names and language. `python tests/figures.py` prints the figures."""

from __future__ import annotations

import ast
import re
from typing import Any

import figures
import pytest
from figures import ROOT, Tree

import textsvm
from textsvm.cli import COMMANDS

#: Limit of each figure and its goal. A limit is the figure that was reached; it only falls.
LIMITS: dict[str, tuple[float, float]] = {
    "lines of textsvm/": (68_380, 64_000),
    "lines of the applications": (9_923, 10_500),
    "lines of C, JavaScript, HTML and CSS": (2_785, 2_800),
    # Kernels of several families, aliases of arrays and the version have modules of their own.
    "files": (273, 265),
    "files of more than 1000 lines": (0, 0),
    # textsvm.version, which every layer imports.
    "modules of at most 30 lines": (1, 8),
    "modules with one importer": (53, 50),
    "modules in cycles": (0, 0),
    "upward edges": (0, 0),
    "function-level imports": (126, 150),
    "module-level __getattr__": (2, 2),
    "mutable module globals": (4, 4),
    'words "Any"': (1_069, 1_100),
    "calls of getattr and hasattr": (104, 80),
    "class names defined more than once": (0, 0),
    '"what" per 10,000 docstring words': (1, 10),
    '"one" per 10,000 docstring words': (11, 25),
    'docstrings "See `X`."': (0, 0),
    "participles as names": (0, 0),
    "lines of a function, median": (6, 8),
    "lines of a function, 90 %": (18, 22),
    "lines of the longest function": (81, 80),
    "pairs of duplicated places, identical": (13, 25),
    "pairs of duplicated places, same shape": (21, 150),
    # Of the running package, with the default kernel, a sum of three.
    "files entered by a fit": (54, 40),
    # Work on a device may be repeated on the CPU: the call and the settings for a device are moves.
    "moves of a fit": (928, 700),
    "files entered by a prediction": (21, 14),
    "moves of a prediction": (196, 120),
    "base classes of SVC": (7, 10),
    "base classes of SVC, without scikit-learn's and object": (1, 3),
    "public members of SVC": (33, 40),
    "options of the command line": (365, 400),
    "distinct options": (115, 135),
}
MAX_KERNEL_MEMBERS = 15
MAX_CU_LINES = 80
#: Functions that may have more than seven parameters: users call them by keyword.
MANY_PARAMETERS = {
    "textsvm.apps.label.learner:Learner.__init__",
    "textsvm.selection.cross_validation:cross_validate",
    "textsvm.selection.tuning:tune",
}


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


@pytest.fixture(scope="module")
def measured(tree) -> dict[str, Any]:
    return {**figures.measure(tree), **figures.run()}


def test_the_package_has_at_most_its_budget_of_lines(tree):
    """Quick, so that a change that exceeds the budget is told at once."""
    assert sum(tree.lines.values()) <= LIMITS["lines of textsvm/"][0]
    assert sum(tree.shipped.values()) <= LIMITS["lines of C, JavaScript, HTML and CSS"][0]


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_figure_is_within_its_limit(name, measured):
    value = measured[name]
    limit, goal = LIMITS[name]
    size = value if isinstance(value, int | float) else len(value)
    assert size <= limit, f"{name}: {size}, at most {limit} (goal {goal}): {value}"


def test_only_device_imports_cupy(tree):
    pattern = re.compile(r"""(import|from)\s+cupy|(import_module\(|sys\.modules\[)['"]cupy""")
    users = {name for name, text in tree.texts.items() if pattern.search(text)}
    assert users == {"textsvm.runtime.device"}


def test_no_type_of_the_package_is_called_any(tree):
    """An alias `Machine = Any` also hides from `Tree.imports` the module that defines the type.

    The array of a CUDA module is NumPy's or CuPy's: `Array` in textsvm/arrays.py.
    """
    assert set(tree.untyped_names()) <= {"textsvm.arrays.Array"}


@pytest.mark.parametrize(
    "text", ["Machine = Any", "Machine: TypeAlias = Any", "Machine: object = typing.Any"]
)
def test_untyped_names_of_a_module(tmp_path, text):
    (tmp_path / "textsvm").mkdir()
    (tmp_path / "textsvm" / "machine.py").write_text(f"{text}\nvalues: Any = 3\nwith_value: Any\n")
    assert Tree(tmp_path).untyped_names() == ["textsvm.machine.Machine"]


def test_mutable_globals_of_a_module(tmp_path):
    text = """
state, counts, rows, constant, handler = None, {}, [], {"a": 1}, []
def change(rows):
    global state
    state = 1
    rows.append(1)
def count(word):
    counts[word] += 1
    handler = list(constant)
    handler.append(constant[word])
"""
    (tmp_path / "textsvm").mkdir()
    (tmp_path / "textsvm" / "module.py").write_text(text)
    assert Tree(tmp_path).mutable_globals() == ["textsvm.module.counts", "textsvm.module.state"]


def test_nobody_outside_asks_which_kernel_or_gram_it_is(tree):
    classes = _subclasses(tree, {"Kernel", "Gram", "KernelRows"})
    questions = []
    for module, node in tree.nodes(ast.Call):
        outside = not module.startswith(("textsvm.kernels", "textsvm.gram"))
        if outside and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            names = {
                part.id if isinstance(part, ast.Name) else part.attr
                for part in ast.walk(node.args[1])
                if isinstance(part, ast.Name | ast.Attribute)
            }
            questions += [f"{module}:{node.lineno} {name}" for name in sorted(names & classes)]
    assert questions == []


def _subclasses(tree: Tree, classes: set[str]) -> set[str]:
    """Names of classes in kernels/ and gram/ and of their subclasses there."""
    bases = {
        node.name: {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
        for module, node in tree.nodes(ast.ClassDef)
        if module.startswith(("textsvm.kernels", "textsvm.gram"))
    }
    while more := {name for name, parents in bases.items() if parents & classes} - classes:
        classes = classes | more
    return classes - {"Kernel"}  # whether an object is a kernel at all may be asked


def test_functions_take_few_parameters(tree):
    assert set(tree.many_parameters()) <= MANY_PARAMETERS


def test_cuda_kernels_stay_short():
    long = []
    for path in sorted((ROOT / "kernels_cu").glob("*.cu*")):
        start = None
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "__global__" in line and not line.startswith((" ", "#", "//")):
                start = number
            elif line.startswith("}") and start is not None:
                if number - start >= MAX_CU_LINES:
                    long.append(f"{path.name}:{start} ({number - start + 1})")
                start = None
    assert long == []


def test_kernels_have_few_members():
    members = figures.kernel_members()
    assert max(members.values()) <= MAX_KERNEL_MEMBERS, members


#: Subjects of test files that no single module, document or tool has.
CROSS_CUTTING = {
    "architecture": "size, dependencies, names and language of the code base",
    "browser": "pages in a browser",
    "determinism": "the same bytes from the same command",
    "faults": "full disks, kills, lost cards",
    "gpu": "the same on a GPU",
    "groups": "books and threads in every fold",
    "hostile": "input that attacks",
    "laws": "what holds for all of a kind: options, estimators, readers, kernels, exports",
    "limits": "limits of main memory",
    "mtas": "Postfix and Exim",
    "numba_disabled": "NUMBA_DISABLE_JIT=1, for debuggers and coverage",
    "platforms": "Windows and macOS",
    "private_parts": "private parts of other packages",
    "processes": "forks and other processes",
    "same_bits": "equal bits wherever a value is computed",
    "seconds": "wall time of stages",
    "sklearn": "scikit-learn's checks and tools",
    "squared_hinge": "a loss, from every solver",
    "start_up": "imports of a command",
    "terminal": "output on a terminal",
    "threads": "a model in several threads",
}


def _subjects() -> set[str]:
    """Modules, packages, commands, public names, documents, tools of tests, by their names in tests."""
    package = ROOT / "textsvm"
    paths = [path.relative_to(package) for path in package.rglob("*") if "__pycache__" not in path.parts]
    names = {part for path in paths for part in path.with_suffix("").parts}
    folders = (".", ".ci", "benchmarks", "docs", "docs/tasks", "docs/tools", "fuzz", "kernels_cu", "tests")
    tools = {path.stem.lower() for folder in folders for path in (ROOT / folder).iterdir()}
    public = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in textsvm.__all__}
    names |= {name.removesuffix("_cuda") for name in names} | public | set(COMMANDS) | set(CROSS_CUTTING)
    return names | {name for name in tools if not name.startswith("test_")}


def test_test_files_are_named_after_what_they_test():
    """Each name is made of subjects: `test_readers_tables`, `test_cli_tune`, `test_smo_gpu`."""
    subjects = _subjects()

    def fits(words: list[str]) -> bool:
        ends = range(1, len(words) + 1)
        return not words or any("_".join(words[:end]) in subjects and fits(words[end:]) for end in ends)

    stems = [path.stem.removeprefix("test_") for path in (ROOT / "tests").glob("test_*.py")]
    assert [stem for stem in stems if not fits(stem.split("_"))] == []


SAMPLE = {
    "__init__": '__version__ = "1"\n_HOME = {"Model": "textsvm.cli.model"}',
    "errors": "import textsvm\ndef f():\n    return textsvm.Model",
    "kernels.__init__": "_HOME = {'Edit': 'edit'}\nimport_module(f'{__name__}.{_HOME[name]}')",
    "kernels.edit": "from textsvm import __version__\nif TYPE_CHECKING:\n    from textsvm.gram import base",
    "gram.__init__": "",
    "gram.base": "def f():\n    from textsvm.kernels import Edit",
    "cli.__init__": "KERNELS = {'edit': 'textsvm.kernels.edit:Edit'}",
    "cli.model": "from . import output\nfrom .output import show",
    "cli.output": "importlib.import_module('textsvm.errors')",
}


def test_every_kind_of_import_is_an_edge(tmp_path):
    for name, text in SAMPLE.items():
        path = tmp_path / "textsvm" / (name.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    tree = Tree(tmp_path)
    assert {name.removeprefix("textsvm"): targets for name, targets in tree.imports.items() if targets} == {
        "": {"textsvm.cli.model"},
        ".errors": {"textsvm.cli.model"},
        ".kernels": {"textsvm.kernels.edit"},
        ".kernels.edit": {"textsvm.gram.base"},
        ".gram.base": {"textsvm.kernels.edit"},
        ".cli": {"textsvm.kernels.edit"},
        ".cli.model": {"textsvm.cli.output"},
        ".cli.output": {"textsvm.errors"},
    }
    assert [len(cycle) for cycle in tree.cycles()] in ([2, 3], [3, 2])
    edges = ["textsvm.errors -> textsvm.cli.model", "textsvm.kernels.edit -> textsvm.gram.base"]
    assert tree.upward() == edges
