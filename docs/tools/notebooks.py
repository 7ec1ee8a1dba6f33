"""Notebooks and scripts as Markdown, with their output at the build of the site."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cells(path: Path) -> Iterator[tuple[bool, str]]:
    """For each cell, whether it is code, and its source."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        yield cell["cell_type"] == "code", "".join(cell["source"])


def run(path: Path) -> Iterator[tuple[bool, str, str]]:
    """Run the cells in order; yield whether a cell is code, its source and its output."""
    names: dict[str, object] = {}
    for number, (code, source) in enumerate(cells(path)):
        output = io.StringIO()
        if code:
            compiled = compile(source, f"{path.name}, cell {number}", "exec")
            with redirect_stdout(output):
                exec(compiled, names)
        yield code, source, output.getvalue()


def gallery(folder: Path) -> str:
    """All scripts of a folder as a page: what each says of itself, its code and its output."""
    parts = [
        "# Examples",
        f"The scripts of `{folder.name}/`, run on the sample corpora at the build of the site. "
        "Each runs by itself where textsvm is installed, in a checkout or copied into a file.",
    ]
    for path in sorted(folder.glob("*.py")):
        about, source, output = run_script(path)
        title, _, text = about.partition("\n")
        parts += [f"## {title}", f"`{folder.name}/{path.name}`. {text.strip()}", _part(True, source, output)]
    return "\n\n".join(parts) + "\n"


def run_script(path: Path) -> tuple[str, str, str]:
    """Run a script; its docstring, its code and its output."""
    source, output = path.read_text(encoding="utf-8"), io.StringIO()
    names: dict[str, object] = {"__name__": "__main__"}
    with redirect_stdout(output):
        exec(compile(source, path.name, "exec"), names)
    return str(names["__doc__"]), source.split('"""', 2)[2].strip(), output.getvalue()


def page(path: Path) -> str:
    """The notebook as a page, run in the root of the repository."""
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        parts = [_part(*cell) for cell in run(path)]
    finally:
        os.chdir(before)
    return "\n\n".join(parts) + "\n"


def _part(code: bool, source: str, output: str) -> str:
    if not code:
        return source
    shown = f"\n\n```text\n{output.rstrip()}\n```" if output.strip() else ""
    return f"```python\n{source}\n```{shown}"
