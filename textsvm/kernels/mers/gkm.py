"""The kernels of gkm-SVM and LS-GKM."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from textsvm.errors import InputError
from textsvm.kernels.base import is_number, is_whole
from textsvm.kernels.mers.kernel import MOST, MerDefinition, MerKernel, gkm_weights
from textsvm.kernels.mers.windows import Centred
from textsvm.kernels.options import FILTERS


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
        min(M, floor(M exp(-ln 2 D / H) + 1)) of those at a distance of D. 0: all count alike.
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

    def __init__(
        self,
        l: int = 11,  # noqa: E741
        k: int = 7,
        d: int = 3,
        filter: str = "truncated",
        centre: int = 0,
        half_life: float = 50.0,
        canonical: bool = False,
        alphabet: int = 4,
        normalised: bool = True,
        tokens: Any = "characters",
        keep_case: bool = False,
    ) -> None:
        self.l = l
        self.k = k
        self.d = d
        self.filter = filter
        self.centre = centre
        self.half_life = half_life
        self.canonical = canonical
        self.alphabet = alphabet
        self.normalised = normalised
        self.tokens = tokens
        self.keep_case = keep_case

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
        if not is_whole(self.l) or not 1 <= self.l <= 64:
            raise InputError(f"l={self.l!r} is no length of an l-mer: give a whole number from 1 to 64")
        for name, least in (("k", 1), ("d", 0)):
            value = getattr(self, name)
            if not is_whole(value) or not least <= value <= self.l:
                what = "informative positions" if name == "k" else "mismatches"
                raise InputError(
                    f"{name}={value!r} is no number of {what} in l-mers of l={self.l}: "
                    f"give a whole number from {least} to {self.l}"
                )
        if self.d > MOST:
            raise InputError(f"d={self.d} mismatches are too many: give {MOST} at most")
        if self.filter not in FILTERS:
            raise InputError(f"filter={self.filter!r} is not one of {', '.join(FILTERS)}")
        if not is_whole(self.centre) or not 0 <= self.centre <= 255:
            raise InputError(f"centre must be a whole number from 0 to 255, got {self.centre!r}")
        if not is_number(self.half_life) or not 0 < self.half_life < np.inf:
            raise InputError(f"half_life must be positive, got {self.half_life!r}")
