"""The command line: one file a command; each parses, calls one function and prints."""

from __future__ import annotations

import sys

import typer

from textsvm.cli import console
from textsvm.cli.bench import BENCH_SETTINGS, bench
from textsvm.cli.compare import compare
from textsvm.cli.corpus import corpus
from textsvm.cli.cv import cv
from textsvm.cli.demo import demo
from textsvm.cli.devices import devices
from textsvm.cli.evaluate import evaluate
from textsvm.cli.explain import explain
from textsvm.cli.features import features
from textsvm.cli.flags import Command, Group
from textsvm.cli.gram import gram
from textsvm.cli.mail import mail
from textsvm.cli.predict import predict
from textsvm.cli.train import train
from textsvm.cli.tune import tune

app = typer.Typer(
    name="textsvm",
    cls=Group,
    help="Text classification with string-kernel support vector machines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, corpus, train, evaluate, predict, explain, tune, cv, compare, gram, features, devices):
    app.command(cls=Command)(command)
app.command(cls=Command, context_settings=BENCH_SETTINGS)(bench)
app.add_typer(mail, name="mail")


def _version(shown: bool) -> None:
    if shown:
        import textsvm

        typer.echo(f"textsvm {textsvm.__version__}")
        raise typer.Exit()


@app.callback()
def _textsvm(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main() -> None:
    """Entry point of the console script."""
    code = console.main(app)
    if code == console.INTERRUPTED:
        console.leave(code)
    sys.exit(code)
