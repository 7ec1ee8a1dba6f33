"""Notebooks as Markdown: each cell of code, and below it what it printed when the site was built."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cells(path: Path) -> Iterator[tuple[bool, str]]:
    """Whether it is code, and its source, of each cell."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        yield cell["cell_type"] == "code", "".join(cell["source"])


def run(path: Path) -> Iterator[tuple[bool, str, str]]:
    """The cells, each with what it printed; they run one after the other, where the repository is."""
    names: dict[str, object] = {}
    for number, (code, source) in enumerate(cells(path)):
        said = io.StringIO()
        if code:
            compiled = compile(source, f"{path.name}, cell {number}", "exec")
            with redirect_stdout(said):
                exec(compiled, names)
        yield code, source, said.getvalue()


def page(path: Path) -> str:
    """The notebook as a page, its code run here."""
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        parts = [_part(*cell) for cell in run(path)]
    finally:
        os.chdir(before)
    return "\n\n".join(parts) + "\n"


def _part(code: bool, source: str, said: str) -> str:
    if not code:
        return source
    shown = f"\n\n```text\n{said.rstrip()}\n```" if said.strip() else ""
    return f"```python\n{source}\n```{shown}"
