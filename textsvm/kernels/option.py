"""Fields of kernels as the command line has them. Light to import: `textsvm --help` reads them.

A kernel's options are in a file of their own beside it, `x_options.py`, as OPTIONS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textsvm.errors import InputError


@dataclass(frozen=True)
class Option:
    """A field of a kernel, or several that are given as one.

    Kernels may have an option of the same name in common.

    Attributes
    ----------
    name : str
        ``--name`` on the command line.
    help : str
        What it is, without kernels and defaults.
    metavar : str
        What a value looks like; empty for a flag, which sets the field to True.
    default : str
        The value if none is given.
    tuned : str
        The values that `textsvm tune` tries if none is given; `default` if empty.
    convert : callable
        From text to a hashable value. Raises ValueError where it is no number, and InputError with the
        predicate of a sentence about the text where it is otherwise wrong.
    fields : callable, optional
        From the value to parameters of the kernel; by default that of the option's name.
    text : callable, optional
        From parameters of the kernel to the text of a value that sets them; by default that of the parameter
        of the option's name.
    bare : bool
        Whether a value may stand without its name where a kernel is spelled out: ``spectrum:2-7,log``.
    """

    name: str
    help: str
    metavar: str = ""
    default: str = ""
    tuned: str = ""
    convert: Callable[[str], Any] = str
    fields: Callable[[Any], dict[str, Any]] | None = None
    text: Callable[[dict[str, Any]], str] | None = None
    bare: bool = False

    def parameters(self, value: Any) -> dict[str, Any]:
        """The kernel's parameters for a converted value."""
        return {self.name: value} if self.fields is None else self.fields(value)


def lengths(text: str) -> tuple[int, int]:
    """A whole number or a range such as 3-5, as (low, high)."""
    low, _, high = text.partition("-")
    try:
        found = int(low), int(high or low)
    except ValueError:
        raise InputError("is neither a number nor a range such as 3-5") from None
    if not 1 <= found[0] <= found[1]:
        raise InputError("must be 1 or more, and a range must not fall")
    return found


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise InputError("is no whole number") from None


def one_of(*choices: str) -> Callable[[str], str]:
    """One of some words."""

    def convert(text: str) -> str:
        if text not in choices:
            raise InputError(f"is not one of {', '.join(choices)}")
        return text

    return convert


#: What a symbol is: of every kernel of symbols.
SYMBOLS = (
    Option(
        "tokens",
        "what a symbol is",
        "characters|words|whitespace|blosum62",
        "characters",
        convert=one_of("characters", "words", "whitespace", "blosum62"),
    ),
    Option("keep_case", "upper and lower case are told apart"),
)


def gamma(text: str) -> float | str:
    """A number, "scale" or "auto"."""
    return text if text in ("scale", "auto") else float(text)


#: A factor of products or distances: of kernels of vectors.
GAMMA = Option(
    "gamma", "factor of products or distances, a number, scale or auto", "NUMBER", "scale", convert=gamma
)
COEF0 = Option("coef0", "what is added to gamma <x, y>", "NUMBER", "0", convert=float)
