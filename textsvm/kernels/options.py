"""Options of kernels on the command line and in spelled-out kernels.

This module is cheap to import: `textsvm --help` needs the options but not the kernels. The table of kernels
(`textsvm.kernels.KERNELS`) names the class and the options of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textsvm.errors import InputError


@dataclass(frozen=True)
class Option:
    """A parameter of a kernel, or several parameters given as a single value; kernels may share options."""

    name: str  #: ``--name`` on the command line
    help: str  #: Description without kernel names and defaults
    metavar: str = ""  #: Form of a value; empty for a flag, which sets the parameter to True
    default: str = ""  #: Value if the option is not given
    tuned: str = ""  #: Values that `textsvm tune` tries by default; `default` if empty
    #: From text to a hashable value. Raises ValueError if it is no number, and InputError with the predicate
    #: of a sentence about the text for other errors.
    convert: Callable[[str], Any] = str
    #: From the value to parameters of the kernel; by default the parameter of the option's name.
    fields: Callable[[Any], dict[str, Any]] | None = None
    #: Inverse: from the parameters of the kernel to the text of a value.
    text: Callable[[dict[str, Any]], str] | None = None
    #: Whether a value may stand without its name in a spelled-out kernel: ``spectrum:2-7,log``.
    bare: bool = False

    def parameters(self, value: object) -> dict[str, Any]:
        """The kernel's parameters for a converted value."""
        return {self.name: value} if self.fields is None else self.fields(value)


def lengths(text: str) -> tuple[int, int]:
    """A whole number or a range such as 3-5, as (low, high)."""
    low, _, high = text.partition("-")
    try:
        first, last = int(low), int(high or low)
    except ValueError:
        raise InputError("is neither a number nor a range such as 3-5") from None
    if not 1 <= first <= last:
        raise InputError("must be 1 or more, and a range must not fall")
    return first, last


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise InputError("is no whole number") from None


def choice(name: str, help: str, default: str, choices: tuple[str, ...], bare: bool = True) -> Option:
    """Option that accepts some words only."""

    def convert(text: str) -> str:
        if text not in choices:
            raise InputError(f"is not one of {', '.join(choices)}")
        return text

    return Option(name, help, "|".join(choices), default, convert=convert, bare=bare)


#: Parameters that only a spelled-out kernel takes; `textsvm tune` has an option for each other one.
SPELLED_ONLY = {
    "alphabet", "bits", "coef0", "d", "degree", "encoder", "filter", "keep_case", "l", "odds", "relative",
    "shared", "span",
}  # fmt: skip
TOKENS = ("characters", "words", "runs", "whitespace", "blosum62")
#: Options of every kernel of symbols.
SYMBOLS = (
    choice("tokens", "definition of a symbol", "characters", TOKENS, bare=False),
    Option("keep_case", "distinguish upper and lower case"),
)


def gamma(text: str) -> float | str:
    """A number, "scale" or "auto"."""
    return text if text in ("scale", "auto") else float(text)


#: A factor of products or distances: of kernels of vectors.
GAMMA = Option(
    "gamma", "factor of products or distances, a number, scale or auto", "NUMBER", "scale", convert=gamma
)
COEF0 = Option("coef0", "constant added to gamma <x, y>", "NUMBER", "0", convert=float)
#: Options of kernels of DNA and of distances between l-mers.
CANONICAL = Option("canonical", "read sequences of DNA or RNA on both strands")
ALPHABET = Option(
    "alphabet", "letters of the alphabet: 4 of DNA, 20 of proteins", "NUMBER", "4", convert=whole
)

WEIGHTS = ("count", "presence", "intersection", "log")
#: Help texts of several options.
LENGTH = "length of substrings or subsequences, or a range such as 3-5"
COUNT = "function of a count"


def _p(low_and_high: tuple[int, int]) -> dict[str, Any]:
    low, high = low_and_high
    return {"p": low if low == high else low_and_high}


def _p_text(params: dict[str, Any]) -> str:
    p = params["p"]
    return f"{p[0]}-{p[1]}" if isinstance(p, tuple | list) else str(p)


SPECTRUM = (
    Option("p", LENGTH, "LENGTH", "4", "3,4,5", lengths, _p, _p_text, bare=True),
    choice("weight", COUNT, "count", WEIGHTS),
    Option("idf", "give rare substrings more weight"),
    Option("odds", "give substrings that distinguish classes more weight"),
    Option("shared", "leave out substrings of a single training text"),
    *SYMBOLS,
)

EDIT = (
    Option("gamma", "exp(-gamma distance)", "NUMBER", "0.05", convert=float),
    Option("relative", "distance over the longer length"),
    *SYMBOLS,
)


GAP_LONGEST = 1000  #: Greatest p of the gap kernel: compiled code and the memory of a row grow with it.


def _gap_p(low_and_high: tuple[int, int]) -> dict[str, Any]:
    """Parameters of a length or of a range, the blend of its lengths."""
    low, high = low_and_high
    most = min(high, GAP_LONGEST)  # the kernel refuses a greater p
    weights = None if low == high else tuple(float(q >= low) for q in range(1, most + 1))
    return {"p": high, "weights": weights}


def _gap_p_text(params: dict[str, Any]) -> str:
    """Text of a length or range; other weights have no text."""
    p, weights = params["p"], params["weights"]
    return str(p) if weights is None else f"{1 + sum(weight == 0 for weight in weights)}-{p}"


GAP = (
    Option("p", LENGTH, "LENGTH", "5", "3,4,5", lengths, _gap_p, _gap_p_text, bare=True),
    Option("decay", "lambda in (0, 1], the cost of a symbol spanned", "NUMBER", "0.5", convert=float),
    *SYMBOLS,
)

SPAN = "p+2"
BOUNDED_GAP = (
    Option("p", "symbols of a subsequence", "LENGTH", "4", "3,4,5", whole, bare=True),
    Option("decay", "lambda in (0, 1], the cost of a symbol spanned", "NUMBER", "0.1", "0.05,0.1,0.2", float),
    Option(
        "span",
        "symbols from the first to the last",
        "NUMBER",
        SPAN,
        convert=lambda text: None if text == SPAN else whole(text),
        text=lambda params: SPAN if params["span"] is None else str(params["span"]),
    ),
    *SYMBOLS,
)

GAPPED_WEIGHTS = ("count", "presence", "log")

GAPPED = (
    Option("g", "symbols of a window", "NUMBER", "9", convert=whole, bare=True),
    Option("m", "open positions of a window, which match any symbol", "NUMBER", "3", convert=whole),
    CANONICAL,
    choice("weight", COUNT, "log", GAPPED_WEIGHTS),
    *SYMBOLS,
)

FILTERS = ("none", "full", "truncated")

GKM = (
    Option("l", "symbols of an l-mer", "NUMBER", "11", "9,10,11", whole, bare=True),
    Option("k", "informative positions of an l-mer", "NUMBER", "7", convert=whole),
    Option("d", "greatest number of mismatches of l-mers", "NUMBER", "3", convert=whole),
    choice("filter", "estimate of l-mers", "truncated", FILTERS), CANONICAL, ALPHABET, *SYMBOLS,
)  # fmt: skip

MISMATCH = (
    Option("k", "symbols of a k-mer", "NUMBER", "5", "4,5,6", whole, bare=True),
    Option("m", "mismatches in a k-mer", "NUMBER", "1", convert=whole),
    CANONICAL,
    ALPHABET,
    *SYMBOLS,
)

POLYNOMIAL = (Option("degree", "degree of the polynomial", "NUMBER", "3", convert=whole), GAMMA, COEF0)
GAUSSIAN = (GAMMA,)
SIGMOID = (GAMMA, COEF0)


def _encoder_text(params: dict[str, Any]) -> str:
    """Name of an encoder, in quotes if the notation needs them."""
    name = str(getattr(params["encoder"], "__name__", params["encoder"]))
    return f'"{name}"' if any(sign in name for sign in "+*,=") else name


ENCODER = (
    Option(
        "encoder", "folder of an encoder", "NAME", convert=lambda text: text.strip('"'), text=_encoder_text,
        bare=True,
    ),
    Option("bits", "8: vectors of tokens of 8 bits", "8", convert=whole),
)  # fmt: skip
