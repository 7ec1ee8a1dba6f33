"""The command line. Each command parses its options, calls the library and prints."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer
from typer.completion import completion_init, install_callback, show_callback

from textsvm.cli import console
from textsvm.cli.options import Command, Group, option
from textsvm.runtime import memory as host_memory
from textsvm.version import __version__

#: Commands with the first sentence of their help. Each is the function or group of its name in the module of
#: its name, or of `_APPLICATIONS`.
COMMANDS = {
    "demo": "Train a spam filter on bundled messages, and explain a prediction.",
    "corpus": "Show statistics of a corpus: parts, labels or numbers, lengths, duplicates, alphabet, "
    "problems.",
    "train": "Train a classifier on a labelled corpus, or a regression on numbers, and save it.",
    "update": "Train a model on its old and on new documents, with its recorded options, and report the "
    "changes.",
    "evaluate": "Evaluate a model on a labelled corpus.",
    "predict": "Classify documents: one JSON object per line with id, label and decision, or id and value.",
    "label": "Label texts on a page in the browser; a classifier learns from them and chooses the next text.",
    "serve": "Answer texts with predictions over HTTP: POST /predict, GET /models, /healthz and /metrics.",
    "explain": "Explain a model (--top), or predictions: the coloured text, and the most similar "
    "training documents.",
    "export": "Write a model for programs without Python: C, JavaScript and WebAssembly, an HTML page, or "
    "ONNX.",
    "tune": "Find the best kernel parameters and C; each kernel matrix serves all folds and values of C.",
    "cv": "Cross-validate: train on all folds but one and evaluate on this fold, in turn.",
    "doubts": "List texts with probably wrong labels, near-copies with different labels, and outliers.",
    "compare": "Compare kernels with each other and with scikit-learn: accuracy, significance and time.",
    "map": "Draw documents and classes by the similarity of their texts: a tree, and points in two "
    "dimensions.",
    "verify": "Verify authors: is a disputed text by any of them at all? By the method of imposters.",
    "devices": "List the CPU and every GPU, and test each GPU with a small kernel.",
    "model": "Show the contents of a model file: kernel, classes, support vectors, sizes, digest, "
    "training options.",
    "mail": "A mail filter that learns. Exit codes: 0 done or spam, 1 ham, 2 unsure, 3 failed.",
}
#: Modules of the commands of applications.
_APPLICATIONS = {name: f"textsvm.apps.{name}.commands" for name in ("export", "label", "mail", "serve")}
#: Commands that load all numerical libraries, and bytes that these, and NumPy alone, use and reserve.
LOADING = {
    "demo", "label", "train", "update", "evaluate", "explain", "export", "tune", "cv", "doubts", "compare",
    "map", "serve", "verify",
}  # fmt: skip
LIBRARIES, NUMPY = (150 << 20, 900 << 20), (64 << 20, 200 << 20)
#: Libraries that `--version` names.
PACKAGES = {
    "numpy": "NumPy", "scipy": "SciPy", "numba": "Numba", "scikit-learn": "scikit-learn",
    "cupy-cuda13x": "CuPy", "cupy-cuda12x": "CuPy", "cupy": "CuPy",
}  # fmt: skip


def app_of(names: Iterable[str] = COMMANDS, runs: bool = True) -> typer.Typer:
    """Application with the given commands, by default with all; without `runs` it only shows their names."""
    app = typer.Typer(
        name="textsvm", cls=Group, help="Text classification with string-kernel support vector machines.",
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )  # fmt: skip
    app.callback()(_textsvm)
    for name in names:
        if not runs:
            app.command(name, short_help=COMMANDS[name])(lambda: None)
            continue
        if name in _APPLICATIONS:
            _require_memory(name)  # its module imports NumPy
            module = import_module(_APPLICATIONS[name])
        else:
            module = import_module(f"{__name__}.{name}")
        command = getattr(module, name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(cls=Command)(command)
    return app


def _require_memory(command: str) -> None:
    """Raise InputError if there is no room for the libraries of a command."""
    host_memory.require(*(LIBRARIES if command in LOADING else NUMPY))


def _version(requested: bool) -> None:
    if requested:
        from textsvm.runtime.device import select

        python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
        device = console.device_line(select())
        typer.echo("\n".join([f"textsvm {__version__}", device, python, ", ".join(_versions())]))
        raise typer.Exit()


def _versions() -> list[str]:
    """Versions of the libraries that are installed, none of which is imported."""
    from importlib.metadata import PackageNotFoundError, version

    versions = []
    for package, name in PACKAGES.items():
        try:
            versions.append(f"{name} {version(package)}")
        except PackageNotFoundError:
            continue
    return versions


def _completion(context: typer.Context, parameter: typer.CallbackParam, requested: bool) -> None:
    """Call Typer's completion for the shell named after the option, or for the current shell."""
    if requested:
        act = install_callback if parameter.name == "install_completion" else show_callback
        act(context, parameter, sys.argv[2] if len(sys.argv) > 2 else True)


def _textsvm(
    context: typer.Context,
    version: Annotated[
        bool,
        option("Show version, device and libraries.", "--version", "-V", callback=_version, is_eager=True),
    ] = False,
    install_completion: Annotated[
        bool,
        option(
            "Install completion for this shell, or for the given one: bash, zsh, fish, powershell.",
            "--install-completion", callback=_completion, is_eager=True,
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        option("Show the completion script.", "--show-completion", callback=_completion, is_eager=True),
    ] = False,
) -> None:  # fmt: skip
    if command := context.invoked_subcommand:
        _require_memory(command)
        if command in LOADING:
            host_memory.return_freed_arrays()


def main() -> None:
    """Entry point of the console script."""
    try:
        console.watch_signals()
        console.open_closed()
        code = _run()
        console.restore_signals()  # an interrupt of Python's own end would be a traceback
    except KeyboardInterrupt:  # before the command has started or after it has ended
        code = console.interrupted()
    if code > 128 or (code and "cupy" in sys.modules):  # a failed GPU may block an ordinary exit
        console.leave(code)
    gc.freeze()  # skip the final garbage collection
    sys.exit(code)


def _run() -> int:
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    completing = "_TEXTSVM_COMPLETE" in os.environ
    if completing:
        completion_init()
    # A single command takes half as long to set up as all of them; help, version and errors need none.
    runs = completing or first in COMMANDS or first == "--"
    names = [first] if first in COMMANDS and not completing else COMMANDS
    return console.main(lambda **options: app_of(names, runs)(**options))  # an import may fail
