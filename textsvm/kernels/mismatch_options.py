"""The mismatch kernel on the command line."""

from __future__ import annotations

from textsvm.kernels.option import SYMBOLS, Option, whole

OPTIONS = (
    Option("k", "symbols of a k-mer", "NUMBER", "5", "4,5,6", whole, bare=True),
    Option("m", "mismatches in a k-mer", "NUMBER", "1", convert=whole),
    Option("canonical", "a sequence of DNA or RNA is its reverse complement too"),
    Option("alphabet", "letters of the alphabet: 4 of DNA, 20 of proteins", "NUMBER", "4", convert=whole),
    *SYMBOLS,
)
