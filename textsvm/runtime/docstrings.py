"""Docstrings that are shown to users as help, also where Python removes them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import ModuleType


def docstring(owner: Callable[..., object] | ModuleType) -> str:
    """Docstring of a function or module, from its source under `python -OO`; empty without any."""
    if owner.__doc__ is not None:
        return inspect.cleandoc(owner.__doc__)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except OSError:  # the source is not installed
        return ""
    definition = tree if inspect.ismodule(owner) else tree.body[0]
    assert isinstance(definition, ast.Module | ast.FunctionDef)
    return ast.get_docstring(definition) or ""
