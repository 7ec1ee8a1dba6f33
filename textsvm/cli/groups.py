"""Options in groups: a parameter of a command whose type is a dataclass becomes the dataclass's fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: a parameter whose type is a dataclass becomes its fields."""
    groups: dict[str, Any] = {}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            flat += _options_of(parameter.annotation)
        else:
            flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def call(**given: Any) -> None:
        grouped = {name: _gather(group, given) for name, group in groups.items()}
        command(**given, **grouped)

    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return call


def _options_of(group: Any) -> Iterator[inspect.Parameter]:
    """The options of a group, and of the groups in it."""
    types = get_type_hints(group, include_extras=True)
    for each in fields(group):
        kind = types[each.name]
        if is_dataclass(kind):
            yield from _options_of(kind)
        else:
            yield inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=kind
            )


def _gather(group: Any, given: dict[str, Any]) -> Any:
    """A group made of its options, which are taken out of `given`."""
    types = get_type_hints(group, include_extras=True)
    return group(
        **{
            name: _gather(types[name], given) if is_dataclass(types[name]) else given.pop(name)
            for name in (each.name for each in fields(group))
        }
    )
