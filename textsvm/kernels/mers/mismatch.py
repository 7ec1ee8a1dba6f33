"""The (k, m) mismatch kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textsvm.errors import InputError
from textsvm.kernels.base import check_whole
from textsvm.kernels.mers.kernel import MOST, MerDefinition, MerKernel, mismatch_weights


@dataclass(repr=False, eq=False)
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

    k: int = 5
    m: int = 1
    canonical: bool = False
    alphabet: int = 4
    normalised: bool = True

    @property
    def definition(self) -> MerDefinition:
        return MerDefinition(int(self.k), mismatch_weights(int(self.k), int(self.m), int(self.alphabet)))

    @property
    def _min_length(self) -> int:
        return int(self.k)

    def check(self) -> None:
        super().check()
        check_whole(self, "k", 1)
        check_whole(self, "m", 0, self.k - 1)
        if min(self.k, 2 * self.m) > MOST:
            raise InputError(f"m={self.m} mismatches are too many: give {MOST // 2} at most")
