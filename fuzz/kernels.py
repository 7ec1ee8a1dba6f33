"""Numeric options of kernels: training either gives finite decisions, or refuses a value in one sentence.

A case is a number: a registered kernel with values for some of its options, spelled as on the command line,
and C. Warnings of NumPy count as findings, because they reach the terminal of a user.
"""

from __future__ import annotations

import random
import warnings

import numpy as np

from textsvm import SVC
from textsvm.errors import InputError
from textsvm.kernels import KERNELS
from textsvm.kernels.options import Option
from textsvm.kernels.spelling import parse

TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"]
DNA = ["acgtacgtaa", "acgtaccgta", "ggtacgtacc", "ttttacgtac", "acacacacac", "gggttttaaa"]
LABELS = ["fruit", "cloth", "fruit", "cloth", "cloth", "fruit"]
ROWS = [[0.5, -1.0], [1e3, 0.0], [0.0, 2.0], [1.0, 1.0], [-3.0, 0.1], [0.0, 0.0]]
NUMBERS = (
    "0", "1", "2", "3", "5", "8", "12", "16", "31", "32", "33", "63", "64", "65", "100", "255", "256", "1000",
    "65536", "2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "-1", "-0", "-0.0", "0.5", "0.999999", "1.5", "1e-5", "1e-16", "1e-100", "1e-154",
    "1e-300", "2.3e-308", "5e-324", "1e-400", "1e5", "1e16", "1e38", "3.5e38", "1e100", "1e153", "1e154",
    "1e200", "1e300", "1e307", "1e308", "1.7976931348623157e308", "1e309", "inf", "-inf", "nan", "-1e308",
    "1_0", "\N{ARABIC-INDIC DIGIT THREE}",
)  # fmt: skip


def run(seed: int) -> None:
    """Train with one kernel and its values; AssertionError says what is wrong."""
    rng = random.Random(seed)
    name = rng.choice(KERNELS.simple())
    chosen = [option for option in KERNELS.options(name) if option.metavar and rng.random() < 0.5]
    spelled = f"{name}:{','.join(_spelled(option, rng) for option in chosen)}" if chosen else name
    C = float(rng.choice(NUMBERS)) if rng.random() < 0.2 else 1.0
    is_of_vectors = name in ("linear", "polynomial", "gaussian", "sigmoid")
    documents = ROWS if is_of_vectors else DNA if name in ("gkm", "mismatch") else TEXTS
    message, case = "", f"seed {seed}: SVC({spelled}, C={C:g})"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", UserWarning)  # an extreme C may not converge, and says so
            kernel = parse(spelled)
            gram = kernel(documents)
            model = SVC(kernel, C=C, device="cpu").fit(documents, LABELS)
            decisions = model.decision_function(documents)
    except InputError as error:
        message = str(error)
    except Exception as error:
        raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error
    assert message.isprintable(), f"{case}: {message!r}"
    assert len(message) <= 300, f"{case}: {message}"
    if message:
        return
    assert np.isfinite(gram).all(), f"{case}: a kernel value is {gram[~np.isfinite(gram)][0]}"
    assert np.isfinite(decisions).all(), f"{case}: a decision value is not finite"


def _spelled(option: Option, rng: random.Random) -> str:
    """An option with a number, a range or a value of its own."""
    value = rng.choice(NUMBERS)
    if option.metavar == "LENGTH":
        value = rng.choice((value, f"{value}-{rng.choice(NUMBERS)}", "1-3"))
    elif option.metavar != "NUMBER":
        value = rng.choice((*option.metavar.split("|"), value))
    return f"{option.name}={value}"
