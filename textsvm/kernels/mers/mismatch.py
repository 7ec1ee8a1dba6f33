"""The (k, m) mismatch kernel."""

from __future__ import annotations

from typing import Any, ClassVar

from textsvm.errors import InputError
from textsvm.kernels.base import is_whole
from textsvm.kernels.mers.kernel import MOST, MerDefinition, MerKernel, mismatch_weights


class Mismatch(MerKernel):
    """(k, m) mismatch kernel: a k-mer counts for every string of k letters that differs at up to m places.

    Parameters
    ----------
    k : int
        Symbols of a k-mer.
    m : int
        Mismatches, below k.
    canonical : bool
        Read a text of DNA or RNA (letters a, c, g, t or u, and n) on both strands. u is a t, and k-mers with
        an n do not count.
    alphabet : int
        Letters that strings may have: 4 of DNA, 20 of proteins. `fit` refuses texts of more.
    normalised : bool
        Divide by sqrt(k(s, s) k(t, t)).
    tokens : {"characters", "words", "whitespace"} or callable
        Definition of a symbol; a function takes a normalised text and returns its tokens.
    keep_case : bool
        Distinguish upper and lower case.

    Examples
    --------
    >>> from textsvm import Mismatch
    >>> print(Mismatch(k=3, m=1)(["gattaca"], ["gatcaca"]).round(4))
    [[0.7503]]
    """

    name: ClassVar[str] = "mismatch"

    def __init__(
        self,
        k: int = 5,
        m: int = 1,
        canonical: bool = False,
        alphabet: int = 4,
        normalised: bool = True,
        tokens: Any = "characters",
        keep_case: bool = False,
    ) -> None:
        self.k = k
        self.m = m
        self.canonical = canonical
        self.alphabet = alphabet
        self.normalised = normalised
        self.tokens = tokens
        self.keep_case = keep_case

    @property
    def definition(self) -> MerDefinition:
        return MerDefinition(int(self.k), mismatch_weights(int(self.k), int(self.m), int(self.alphabet)))

    @property
    def _min_length(self) -> int:
        return int(self.k)

    def check(self) -> None:
        super().check()
        if not is_whole(self.k) or self.k < 1:
            raise InputError(f"k={self.k!r} is no length of a k-mer: give a whole number from 1")
        if not is_whole(self.m) or not 0 <= self.m < self.k:
            raise InputError(
                f"m={self.m!r} is no number of mismatches in k-mers of k={self.k}: "
                f"give a whole number from 0 to {self.k - 1}"
            )
        if min(self.k, 2 * self.m) > MOST:
            raise InputError(f"m={self.m} mismatches are too many: give {MOST // 2} at most")
