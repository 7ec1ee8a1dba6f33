"""The kernels of gkm-SVM and LS-GKM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textsvm.errors import InputError
from textsvm.kernels.base import check_choice, check_positive, check_whole
from textsvm.kernels.mers.kernel import MOST, MerDefinition, MerKernel, gkm_weights
from textsvm.kernels.mers.windows import Centred
from textsvm.kernels.options import FILTERS


@dataclass(repr=False, eq=False)
class Gkm(MerKernel):
    """Kernels of gkm-SVM and LS-GKM: l-mers compared by the gapped k-mers they share, up to d mismatches.

    Parameters
    ----------
    l : int
        Symbols of an l-mer.
    k : int
        Informative positions of an l-mer; the others are gaps.
    d : int
        Pairs of l-mers that differ at more positions do not count.
    filter : {"none", "full", "truncated"}
        Compare counts of gapped k-mers (LS-GKM's ``-t 0``), counts of l-mers estimated from these
        (``-t 1``), or these without negative estimates ("truncated", ``-t 2``). "none" with d = l - k is
        `GappedKmers` with g = l, m = l - k and weight="count".
    centre : int
        M of centre-weighted kernels (``-t 4``), up to 255: the weight of l-mers in the middle of a sequence,
        min(M, floor(M exp(-ln 2 D / H) + 1)) at a distance of D. 0: all count alike.
    half_life : float
        H, the distance over which the weight halves.
    canonical : bool
        Read a text of DNA or RNA (letters a, c, g, t or u, and n) on both strands, as LS-GKM does by
        default. u is a t, and l-mers with an n do not count.
    alphabet : int
        Letters that l-mers may have, on which estimates depend: 4 of DNA, 20 of proteins. `fit` refuses
        texts of more.
    normalised : bool
        Divide by sqrt(k(s, s) k(t, t)).
    tokens : {"characters", "words", "whitespace"} or callable
        Definition of a symbol; a function takes a normalised text and returns its tokens.
    keep_case : bool
        Distinguish upper and lower case.

    Examples
    --------
    >>> from textsvm import Gkm
    >>> print(Gkm(l=4, k=3, d=1, canonical=False)(["gattaca"], ["gatcaca"]).round(4))
    [[0.277]]
    """

    name: ClassVar[str] = "gkm"

    l: int = 11  # noqa: E741
    k: int = 7
    d: int = 3
    filter: str = "truncated"
    centre: int = 0
    half_life: float = 50.0
    canonical: bool = False
    alphabet: int = 4
    normalised: bool = True

    @property
    def definition(self) -> MerDefinition:
        return MerDefinition(
            int(self.l),
            gkm_weights(int(self.l), int(self.k), int(self.d), int(self.alphabet), self.filter),
            Centred(int(self.centre), float(self.half_life)) if self.centre else None,
            counts_letters=self.filter != "none",
        )

    @property
    def _min_length(self) -> int:
        return int(self.l)

    def check(self) -> None:
        super().check()
        check_whole(self, "l", 1, 64)
        check_whole(self, "k", 1, self.l)
        check_whole(self, "d", 0, self.l)
        if self.d > MOST:
            raise InputError(f"d={self.d} mismatches are too many: give {MOST} at most")
        check_choice(self, "filter", FILTERS)
        check_whole(self, "centre", 0, 255)
        check_positive(self, "half_life")
