"""Help texts in which a flag is a flag, without the type of a value that it does not take."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


def _without_values(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command whose help says so."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose help says so."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))
