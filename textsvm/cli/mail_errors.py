"""Errors of the commands for mail: exit code 3, for 1 and 2 mean ham and unsure, and no mail is lost."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer

from textsvm.cli.console import WrongUsage
from textsvm.cli.flags import Group
from textsvm.errors import InputError, one_line

#: Bogofilter's exit code for anything that went wrong.
FAILED = 3
#: Options that ask for the message on stdout.
_PASSTHROUGH = re.compile(r"-[A-Za-z]*p[A-Za-z]*|--passthrough")


class MailGroup(Group):
    """A family of commands whose failures end with 3, wrong usage too."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """As any group does."""
        given = list(args)
        with failures_end_with_three(given):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[__name__] = given
        return context

    def invoke(self, ctx: Any) -> Any:
        """As any group does."""
        with failures_end_with_three(ctx.meta[__name__]):
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextmanager
def failures_end_with_three(arguments: list[str]) -> Iterator[None]:
    """Turn what fails inside the block into a sentence on stderr and exit code 3.

    Where the arguments cannot be understood and ask for the message on stdout, it is handed through.
    """
    usage_error: Any = typer.BadParameter.__mro__[2]  # ClickException, wherever this Typer keeps it
    try:
        yield
    except (typer.Exit, typer.Abort, KeyboardInterrupt):
        raise
    except (usage_error, WrongUsage) as error:
        _say_usage(error)
        if any(map(_PASSTHROUGH.fullmatch, arguments)) and not sys.stdin.isatty():
            sys.stdout.buffer.write(sys.stdin.buffer.read())
            sys.stdout.flush()
        raise typer.Exit(FAILED) from error
    except Exception as error:  # whatever it is: the program that called us knows four answers
        _say(_sentence(error))
        _drop_stdout()
        raise typer.Exit(FAILED) from error


def _say_usage(error: Any) -> None:
    if isinstance(error, WrongUsage):
        _say(str(error))
    elif message := error.format_message():  # none where no command was given and the help was shown
        _say(f"{message} (see textsvm mail --help)")


def _sentence(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, BrokenPipeError):
        return "nobody reads the output any more"
    if isinstance(error, MemoryError):
        return "out of main memory"
    if isinstance(error, OSError):
        return f"{error.filename or 'input/output'}: {error.strerror or error}"
    return f"{type(error).__name__}: {error} (please report this)"


def _say(message: str) -> None:
    with suppress(OSError):
        print("textsvm: " + one_line(message), file=sys.stderr, flush=True)


def _drop_stdout() -> None:
    """What could not be written must not fail once more when Python ends."""
    with suppress(OSError, ValueError):
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
