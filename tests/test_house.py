"""The rules of the house that a machine can check: which way imports run, and how large things may grow.

`python tests/test_house.py` prints the figures.
"""

from __future__ import annotations

import ast
import statistics
import sys
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "textsvm"
#: Rooms from the ground up: a file imports from its own room and from those before it. Rooms in one set are
#: neighbours that do not know each other.
FLOORS = [
    {"errors", "files", "plain_json", "parameters", "printable", "locks", "compiled_cache"},
    {"host_memory", "cuda_sources", "cuda_failures"},
    {"compiled"},
    {"parallel", "normal_form", "residues", "scratch", "stored_texts"},
    {"simd", "device", "tokens", "workers"},
    {"spans"},
    {"encoding"},
    {"documents", "documents_cuda"},
    {"features"},
    {"kernels"},
    {"readers"},
    {"sources"},
    {"gram"},
    {"solvers"},
    {"choice"},
    {"estimators"},
    {"nearest"},
    {"evaluation"},
    {"selection"},
    {"model_parts", "model_bytes"},
    {"libsvm_model"},
    {"model_file"},
    {"model_contents"},
    {"reporting"},
    {"mail"},
    {"bench"},
    {"cli"},
    {"__main__"},
]
MOST_LINES, MOST_PARAMETERS, MOST_CU_LINES = 400, 7, 80
#: Functions that may have more parameters: signatures that users call by keyword, and what Typer reads.
PUBLIC_SIGNATURES = {
    "textsvm/selection/cross_validation.py:cross_validate",
    "textsvm/selection/tuning.py:tune",
    "textsvm/readers/read.py:read_corpus",
    "textsvm/readers/read.py:read_documents",
    "textsvm/readers/stream.py:stream_corpus",
    "textsvm/readers/incoming.py:incoming_documents",
    "textsvm/estimators/svm.py:SVC.__init__",
    "textsvm/estimators/svm.py:SVR.__init__",
    "textsvm/estimators/svm.py:OneClassSVM.__init__",
    "textsvm/estimators/features.py:SpectrumFeatures.__init__",
    "textsvm/selection/multilabel.py:MultilabelSVC.__init__",
    "textsvm/kernels/mers/gkm.py:Gkm.__init__",
    "textsvm/nearest/neighbours.py:neighbours",
}


@lru_cache(maxsize=1)
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=1)
def imports() -> dict[str, set[str]]:
    """The modules of the package that each one imports, wherever in the file, for types too."""
    known = modules()
    found: dict[str, set[str]] = {}
    for name, tree in known.items():
        found[name] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("textsvm"):
                inside = [f"{node.module}.{alias.name}" for alias in node.names]
                found[name] |= {one if one in known else node.module for one in inside}
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names if alias.name in known}
    return found


def room(module: str) -> str:
    """The folder of the package that a module is in, or its own name."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "textsvm"


def circles() -> list[list[str]]:
    """Modules that import each other, directly or through others."""
    edges, index, low, stack, found = imports(), {}, {}, [], []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in edges[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            part = [stack.pop()]
            while part[-1] != module:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    # The package itself names everybody for its users; its version is all that others take from it.
    edges = {name: others - {"textsvm"} for name, others in edges.items() if name != "textsvm"}
    for name in edges:
        if name not in index:
            visit(name)
    return found


def upward() -> list[str]:
    """Imports from a room further up."""
    floor = {name: height for height, rooms in enumerate(FLOORS) for name in rooms}
    found = []
    for module, others in imports().items():
        for other in others - {"textsvm"}:
            if module != "textsvm" and floor[room(other)] > floor[room(module)]:
                found.append(f"{module} -> {other}")
    return sorted(found)


def functions() -> list[tuple[str, int, int, bool]]:
    """(where, lines without docstring, parameters without self, compiled by Numba) of every function."""
    found = []

    def walk(node: ast.AST, path: str, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                walk(child, path, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((f"{path}:{prefix}{child.name}", *measure(child)))
                walk(child, path, f"{prefix}{child.name}.")
            else:
                walk(child, path, prefix)

    for name, tree in modules().items():
        path = name.replace(".", "/") + ".py"
        walk(tree, path, "")
    return found


def measure(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int, bool]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    compiled = any(
        "njit" in ast.unparse(one) or "intrinsic" in ast.unparse(one) for one in node.decorator_list
    )
    return lines, len([one for one in every if one.arg not in ("self", "cls")]), compiled


def questions() -> list[str]:
    """`isinstance` on Grams or kernels outside of their rooms."""
    classes = {
        "DenseGram",
        "CachedGram",
        "Gram",
        "KernelRows",
        "Spectrum",
        "EditDistance",
        "GapWeighted",
        "GappedKmers",
        "Gkm",
        "Mismatch",
        "MerKernel",
        "BoundedGap",
        "WeightedDegree",
        "Oligo",
        "LocalityImproved",
        "Nystroem",
        "UserKernel",
        "Composite",
        "Product",
        "Sum",
        "VectorKernel",
        "ScaledKernel",
        "Gaussian",
        "Linear",
        "Polynomial",
        "Sigmoid",
    }
    found = []
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "isinstance"
            ):
                continue
            names = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            if names & classes and room(module) not in ("gram", "kernels"):
                found.append(f"{module}:{node.lineno}")
    return found


def long_files() -> list[str]:
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "kernels_cu").glob("*.cu*")]
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    return [f"{path.relative_to(ROOT)} ({size})" for path, size in sizes.items() if size > MOST_LINES]


def long_cuda_kernels() -> list[str]:
    """CUDA kernels of more lines than one can see at once."""
    found = []
    for path in sorted((ROOT / "kernels_cu").glob("*.cu*")):
        start = None
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "__global__" in line and not line.startswith((" ", "#", "//")):
                start = number
            elif line.startswith("}") and start is not None:
                if number - start >= MOST_CU_LINES:
                    found.append(f"{path.name}:{start} ({number - start + 1})")
                start = None
    return found


def many_parameters() -> list[str]:
    return [
        f"{where} ({parameters})"
        for where, _, parameters, compiled in functions()
        if parameters > MOST_PARAMETERS and not compiled and where not in PUBLIC_SIGNATURES
    ]


def test_nobody_imports_in_a_circle():
    assert circles() == []


def test_imports_run_one_way():
    assert upward() == []


def test_only_device_imports_cupy():
    for path in PACKAGE.rglob("*.py"):
        if path.name != "device.py":
            text = path.read_text(encoding="utf-8")
            assert "import cupy" not in text, path
            assert 'sys.modules["cupy"]' not in text, path


def test_nobody_outside_asks_which_kernel_or_gram_it_is():
    assert questions() == []


def test_files_stay_short():
    assert long_files() == []


def test_cuda_kernels_stay_short():
    assert long_cuda_kernels() == []


def test_functions_stay_short():
    lines = sorted(size for _, size, _, compiled in functions() if not compiled)
    assert statistics.median(lines) <= 8
    assert lines[int(0.9 * len(lines))] <= 22


def test_functions_take_few_parameters():
    assert many_parameters() == []


def figures() -> None:
    sizes = sorted(size for _, size, _, compiled in functions() if not compiled)
    print("circles:", circles())
    print("upward arrows:", upward())
    print("isinstance on Grams or kernels outside:", questions())
    print("files over 400 lines:", long_files())
    print("CUDA kernels over 80 lines:", long_cuda_kernels())
    print(f"more than {MOST_PARAMETERS} parameters:", *many_parameters(), sep="\n    ")
    median, most = statistics.median(sizes), sizes[int(0.9 * len(sizes))]
    print(f"functions: {len(sizes)}, median {median:g} lines, 90 % up to {most}, longest {sizes[-1]}")


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    figures()
