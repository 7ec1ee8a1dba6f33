"""The command line: one file a command; each parses, calls one function and prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

import typer

from textsvm.cli import console
from textsvm.cli.flags import Command, Group

#: Commands, each the function of its name in a module of its name.
COMMANDS = (
    "demo", "corpus", "train", "evaluate", "predict", "explain", "tune", "cv", "doubts", "compare",
    "neighbours", "gram", "features", "devices", "model", "bench", "mail",
)  # fmt: skip


def app_of(names: Iterable[str]) -> typer.Typer:
    """The application with these commands."""
    made = typer.Typer(
        name="textsvm",
        cls=Group,
        help="Text classification with string-kernel support vector machines.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    made.callback()(_textsvm)
    for name in names:
        module: Any = import_module(f"{__name__}.{name}")
        command = getattr(module, name)
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name)
        else:
            made.command(cls=Command, context_settings=getattr(module, "SETTINGS", None))(command)
    return made


@lru_cache(maxsize=1)
def _whole() -> typer.Typer:
    return app_of(COMMANDS)


def _version(shown: bool) -> None:
    if shown:
        import textsvm

        typer.echo(f"textsvm {textsvm.__version__}")
        raise typer.Exit()


def _textsvm(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main() -> None:
    """Entry point of the console script."""
    named = sys.argv[1] if len(sys.argv) > 1 else ""
    # One command takes half as long to set up as all of them.
    alone = named in COMMANDS and "_TEXTSVM_COMPLETE" not in os.environ
    code = console.main(app_of([named]) if alone else _whole())
    if code == console.INTERRUPTED:
        console.leave(code)
    sys.exit(code)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _whole()
