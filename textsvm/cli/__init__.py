"""The command line: one file a command; each parses, calls one function and prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

import typer

from textsvm.cli import console, signals
from textsvm.cli.flags import Command, Group
from textsvm.runtime import memory as host_memory

#: Commands, each the function of its name in a module of its name.
COMMANDS = (
    "demo", "corpus", "train", "evaluate", "predict", "explain", "tune", "cv", "doubts", "compare",
    "neighbours", "gram", "features", "devices", "model", "bench", "mail",
)  # fmt: skip

#: Those that load all they compute with, however little they do, and bytes that it uses and reserves.
LOADING = {
    "demo", "train", "evaluate", "explain", "tune", "cv", "doubts", "compare", "neighbours", "gram",
    "features",
}  # fmt: skip
LIBRARIES = (150 << 20, 900 << 20)


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
        from textsvm.cli.version import lines

        typer.echo("\n".join(lines()))
        raise typer.Exit()


def _completion(context: typer.Context, parameter: typer.CallbackParam, given: bool) -> None:
    """Typer's completion for the shell that is named behind the option, or for the one we run in."""
    if given:
        from typer.completion import install_callback, show_callback

        act = install_callback if parameter.name == "install_completion" else show_callback
        act(context, parameter, sys.argv[2] if len(sys.argv) > 2 else True)


def _textsvm(
    context: typer.Context,
    version: bool = typer.Option(
        False,
        "--version",
        callback=_version,
        is_eager=True,
        help="Show version, device and libraries.",
    ),
    install_completion: bool = typer.Option(
        False,
        "--install-completion",
        callback=_completion,
        is_eager=True,
        help="Install completion for this shell, or for bash, zsh, fish or powershell named behind it.",
    ),
    show_completion: bool = typer.Option(
        False, "--show-completion", callback=_completion, is_eager=True, help="Show what that would install."
    ),
) -> None:
    if context.invoked_subcommand in LOADING:
        host_memory.require(*LIBRARIES)


def main() -> None:
    """Entry point of the console script."""
    signals.watch()
    console.open_closed()
    try:
        code = _run()
    except KeyboardInterrupt:  # before the command itself has begun, or behind it
        code = console.interrupted()
    if code > 128 or (code and "cupy" in sys.modules):  # a card that failed may hang once more
        console.leave(code)
    sys.exit(code)


def _run() -> int:
    named = sys.argv[1] if len(sys.argv) > 1 else ""
    completing = "_TEXTSVM_COMPLETE" in os.environ
    if completing:
        from typer.completion import completion_init

        completion_init()
    # One command takes half as long to set up as all of them.
    alone = named in COMMANDS and not completing
    return console.main(app_of([named]) if alone else _whole())


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _whole()
