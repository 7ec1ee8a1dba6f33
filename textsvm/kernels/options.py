"""Fields of kernels as the command line has them. Light to import: `textsvm --help` reads them.

A kernel's options are in a file of their own beside it, `x_options.py`, as OPTIONS.

The p-spectrum kernel on the command line.

The edit-distance kernel on the command line.

The gap-weighted kernel on the command line.

The gap-weighted kernel of bounded span on the command line.

The kernel of gapped k-mers on the command line.

The kernels of gkm-SVM and LS-GKM on the command line.

The mismatch kernel on the command line.

The weighted degree kernel on the command line.

The oligo kernel on the command line.

The locality-improved kernel on the command line.

The linear kernel of vectors on the command line: it has no option.

The polynomial kernel of vectors on the command line.

The gaussian kernel of vectors on the command line.

The sigmoid kernel of vectors on the command line.

Kernels of columns on the command line: they are spelled out, see spelling.py.

Sums and products of kernels on the command line: they are spelled out, see spelling.py.
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


WEIGHTS = ("count", "presence", "intersection", "log")


def _p(low_and_high: tuple[int, int]) -> dict[str, Any]:
    low, high = low_and_high
    return {"p": low if low == high else low_and_high}


def _p_text(params: dict[str, Any]) -> str:
    p = params["p"]
    return f"{p[0]}-{p[1]}" if isinstance(p, tuple | list) else str(p)


SPECTRUM_OPTIONS = (
    Option(
        "p",
        "length of what is compared, or a range such as 3-5",
        "LENGTH",
        "4",
        "3,4,5",
        lengths,
        _p,
        _p_text,
        bare=True,
    ),
    Option("weight", "what a count weighs", "|".join(WEIGHTS), "count", convert=one_of(*WEIGHTS), bare=True),
    Option("idf", "rare substrings weigh more"),
    Option("odds", "substrings that tell classes apart weigh more"),
    *SYMBOLS,
)


EDIT_OPTIONS = (
    Option("gamma", "exp(-gamma distance)", "NUMBER", "0.05", convert=float),
    Option("relative", "distance over the longer length"),
    *SYMBOLS,
)


def _gap_p(low_and_high: tuple[int, int]) -> dict[str, Any]:
    """A range is the blend of its lengths."""
    low, high = low_and_high
    weights = None if low == high else tuple(float(q >= low) for q in range(1, high + 1))
    return {"p": high, "weights": weights}


def _gap_p_text(params: dict[str, Any]) -> str:
    """Other weights than those of a range have no text."""
    p, weights = params["p"], params["weights"]
    return str(p) if weights is None else f"{1 + sum(weight == 0 for weight in weights)}-{p}"


GAP_OPTIONS = (
    Option(
        "p",
        "length of what is compared, or a range such as 3-5",
        "LENGTH",
        "5",
        "3,4,5",
        lengths,
        _gap_p,
        _gap_p_text,
        bare=True,
    ),
    Option("decay", "lambda in (0, 1], the cost of a symbol spanned", "NUMBER", "0.5", convert=float),
    *SYMBOLS,
)


SPAN = "p+2"


def _span(text: str) -> int | None:
    return None if text == SPAN else whole(text)


def _span_text(params: dict[str, Any]) -> str:
    return SPAN if params["span"] is None else str(params["span"])


BOUNDED_GAP_OPTIONS = (
    Option("p", "symbols of a subsequence", "LENGTH", "4", "3,4,5", whole, bare=True),
    Option("decay", "lambda in (0, 1], the cost of a symbol spanned", "NUMBER", "0.1", "0.05,0.1,0.2", float),
    Option("span", "symbols from the first to the last", "NUMBER", SPAN, convert=_span, text=_span_text),
    *SYMBOLS,
)


GAPPED_WEIGHTS = ("count", "presence", "log")


GAPPED_OPTIONS = (
    Option("g", "symbols of a window", "NUMBER", "9", convert=whole, bare=True),
    Option("m", "positions of a window that may hold anything", "NUMBER", "3", convert=whole),
    Option("canonical", "a sequence of DNA or RNA is its reverse complement too"),
    Option(
        "weight",
        "what a count weighs",
        "|".join(GAPPED_WEIGHTS),
        "log",
        convert=one_of(*GAPPED_WEIGHTS),
        bare=True,
    ),
    *SYMBOLS,
)


FILTERS = ("none", "full", "truncated")

GKM_OPTIONS = (
    Option("l", "symbols of an l-mer", "NUMBER", "11", "9,10,11", whole, bare=True),
    Option("k", "informative positions of an l-mer", "NUMBER", "7", convert=whole),
    Option("d", "mismatches up to which pairs of l-mers count", "NUMBER", "3", convert=whole),
    Option(
        "filter",
        "how l-mers are estimated",
        "|".join(FILTERS),
        "truncated",
        convert=one_of(*FILTERS),
        bare=True,
    ),
    Option(
        "centre", "weight of l-mers in the middle (M of wgkm), 0: all alike", "NUMBER", "0", convert=whole
    ),
    Option(
        "half_life", "distance from the middle over which the weight halves", "NUMBER", "50", convert=float
    ),
    Option("canonical", "a sequence of DNA or RNA is its reverse complement too"),
    Option("alphabet", "letters of the alphabet: 4 of DNA, 20 of proteins", "NUMBER", "4", convert=whole),
    *SYMBOLS,
)


MISMATCH_OPTIONS = (
    Option("k", "symbols of a k-mer", "NUMBER", "5", "4,5,6", whole, bare=True),
    Option("m", "mismatches in a k-mer", "NUMBER", "1", convert=whole),
    Option("canonical", "a sequence of DNA or RNA is its reverse complement too"),
    Option("alphabet", "letters of the alphabet: 4 of DNA, 20 of proteins", "NUMBER", "4", convert=whole),
    *SYMBOLS,
)


WEIGHTED_DEGREE_OPTIONS = (
    Option(
        "degree", "length of the longest substrings that count", "NUMBER", "8", "5,8,12", whole, bare=True
    ),
    Option("shift", "positions that they may be apart", "NUMBER", "0", convert=whole),
    *SYMBOLS,
)


OLIGO_OPTIONS = (
    Option("k", "length of the substrings", "NUMBER", "3", "2,3,4", whole, bare=True),
    Option("sigma", "positions that they may be apart, about", "NUMBER", "2", "1,4,16", float),
    *SYMBOLS,
)


LOCALITY_OPTIONS = (
    Option("window", "positions of a window, odd", "NUMBER", "9", "5,9,15", whole, bare=True),
    Option("inner_degree", "power of a window's share of matches", "NUMBER", "4", "1,2,4", whole),
    Option("outer_degree", "power of the sum over windows", "NUMBER", "1", convert=whole),
    *SYMBOLS,
)


LINEAR_OPTIONS: tuple[Option, ...] = ()


POLYNOMIAL_OPTIONS = (
    Option("degree", "degree of the polynomial", "NUMBER", "3", convert=whole),
    GAMMA,
    COEF0,
)


GAUSSIAN_OPTIONS = (GAMMA,)


SIGMOID_OPTIONS = (
    GAMMA,
    COEF0,
)


ON_OPTIONS: tuple[Option, ...] = ()


SUMS_OPTIONS: tuple[Option, ...] = ()

#: Options by the name of a kernel.
OPTIONS = {
    "spectrum": SPECTRUM_OPTIONS,
    "edit": EDIT_OPTIONS,
    "gap": GAP_OPTIONS,
    "bounded-gap": BOUNDED_GAP_OPTIONS,
    "gapped": GAPPED_OPTIONS,
    "gkm": GKM_OPTIONS,
    "mismatch": MISMATCH_OPTIONS,
    "weighted-degree": WEIGHTED_DEGREE_OPTIONS,
    "oligo": OLIGO_OPTIONS,
    "locality": LOCALITY_OPTIONS,
    "linear": LINEAR_OPTIONS,
    "polynomial": POLYNOMIAL_OPTIONS,
    "gaussian": GAUSSIAN_OPTIONS,
    "sigmoid": SIGMOID_OPTIONS,
    "on": ON_OPTIONS,
    "sum": SUMS_OPTIONS,
    "product": SUMS_OPTIONS,
}
