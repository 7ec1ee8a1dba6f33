"""The help of the commands as a man page and as a page of the site.

`python docs/tools/manual.py` writes docs/textsvm.1; a test fails when it is out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from typer.main import get_command

import textsvm
from textsvm.cli import app_of

MAN_PAGE = Path(__file__).resolve().parents[1] / "textsvm.1"
EXIT_CODES = {
    0: "done",
    1: "failed, with one sentence on stderr",
    2: "wrong usage",
    130: "interrupted; nothing is written in part",
    141: "the reader of the output has ended",
}


def commands() -> Iterator[tuple[str, Any]]:
    """All commands with their full names: "textsvm train", "textsvm mail learn"."""

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for each, sub in getattr(command, "commands", {}).items():
            yield from below(f"{name} {each}", sub)

    return below("textsvm", get_command(app_of()))


def paragraphs(command: Any) -> list[str]:
    """Paragraphs of the help of a command, without line breaks."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "").replace("\f", "\n\n")
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def usage(name: str, command: Any) -> str:
    """The usage line of a command."""
    arguments = [_shown(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    return " ".join([name, "[OPTIONS]", *arguments] + ["COMMAND"] * hasattr(command, "commands"))


def parameters(command: Any) -> Iterator[tuple[str, str]]:
    """Arguments and options with their help, without hidden options."""
    for parameter in command.params:
        text = " ".join((parameter.help or "").split()) if hasattr(parameter, "help") else ""
        if parameter.param_type_name == "argument":
            yield _placeholder(parameter), text
        elif not parameter.hidden:
            names = ", ".join(sorted(parameter.opts, key=len) + parameter.secondary_opts)
            yield (
                names if parameter.is_flag else f"{names} {_placeholder(parameter)}",
                text + _default(parameter),
            )


def _shown(argument: Any) -> str:
    shown = _placeholder(argument) + "..." * (argument.nargs != 1)
    return shown if argument.required else f"[{shown}]"


def _placeholder(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper()).rstrip(".")


def _default(option: Any) -> str:
    value = option.default
    shown = isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
    return f" Default: {value}." if shown else ""


def page() -> str:
    """The page of the site, in Markdown."""
    parts = [
        "# All options",
        "The output of `textsvm --help` and `textsvm COMMAND --help`.",
    ]
    for name, command in commands():
        parts += [
            f"## {name}",
            *map(_escaped, paragraphs(command)),
            f"    {usage(name, command)}",
        ]
        rows = [f"| `{names}` | {_escaped(text)} |" for names, text in parameters(command)]
        parts += ["\n".join(["| | |", "|---|---|", *rows])] * bool(rows)
    return "\n\n".join(parts) + "\n"


def _escaped(text: str) -> str:
    return re.sub(r"([\\|*_<>$\[\]`])", r"\\\1", text)


def man_page() -> str:
    """The man page, in roff."""
    changes = (MAN_PAGE.parents[1] / "packaging" / "debian" / "changelog").read_text(encoding="utf-8")
    date = parsedate_to_datetime(changes.rpartition(">  ")[2].strip()).date()
    lines = [f'.TH TEXTSVM 1 "{date}" "textsvm {textsvm.__version__}" "User Commands"', ".SH NAME"]
    lines += [r"textsvm \- text classification with string-kernel support vector machines"]
    for name, command in commands():
        whole = name == "textsvm"
        lines += [".SH SYNOPSIS" if whole else f".SH {name.upper()}"]
        lines += [r"\fB" + _roff(usage(name, command)) + r"\fR"]
        lines += [".SH DESCRIPTION"] * whole
        for number, paragraph in enumerate(paragraphs(command)):
            lines += [".PP"] * (not whole or number > 0) + [_roff(paragraph)]
        for names, text in parameters(command):
            lines += [".TP", r"\fB" + _roff(names) + r"\fR", _roff(text)]
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES.items():
        lines += [".TP", str(code), meaning]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return r"\&" + text if text[:1] in {".", "'"} else text


if __name__ == "__main__":
    MAN_PAGE.write_text(man_page(), encoding="utf-8", newline="\n")
