"""The kernels of gkm-SVM and LS-GKM on the command line."""

from __future__ import annotations

from textsvm.kernels.option import SYMBOLS, Option, one_of, whole

FILTERS = ("none", "full", "truncated")

OPTIONS = (
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
