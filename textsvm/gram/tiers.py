"""Where the rows lie that a solver asks for again and again: what is predicted of each place, and the choice.

    device      the whole matrix, where the solver is
    host        the whole matrix in main memory, and the rows in use on the card (`textsvm.gram.held`)
    disk        a store, and the rows in use in memory (`textsvm.gram.stored`)
    recompute   the rows in use, computed when they are asked for (`textsvm.gram.cached`)

A matrix that fits is made whole, and nothing has to be predicted. Where it does not, with room for m of its n
rows, a machine asks for about

    R = 0.54 n sqrt(n / m)

rows, the geometric mean over the seven problems of reports/tiers.md under budgets of 5, 10, 25 and 50 % (2.4,
1.7, 1.1 and 0.76 n; measured 2.3, 1.7, 1.2 and 0.75 n, of single problems a quarter to 2.4 times as many).
What is made is half of the matrix, and `BANDS` of its diagonal blocks twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf, sqrt

#: How often the texts that rows are computed with are prepared anew (`textsvm.gram.stored`).
BANDS = 16
TIERS = ("auto", "device", "host", "disk", "recompute")
#: A matrix of fewer bytes is not worth measuring anything.
LEAST = 1 << 30
_WAYS = {"host": "from main memory", "disk": "from disk", "recompute": "computed again"}


@dataclass(frozen=True)
class Rates:
    """What a machine does in a second.

    Attributes
    ----------
    compute : float
        Kernel values of a working set.
    bus : float
        Bytes from main memory to the card.
    read, write : float
        Bytes from and to the disk.
    """

    compute: float = inf
    bus: float = inf
    read: float = inf
    write: float = inf


@dataclass(frozen=True)
class Case:
    """A matrix that does not fit where the solver is.

    Attributes
    ----------
    n : int
    capacity : int
        Rows that fit there.
    stored : bool
        Whether a store is named.
    found : float
        The share of the matrix that is there already.
    """

    n: int
    capacity: int
    stored: bool = False
    found: float = 0.0

    @property
    def bytes(self) -> int:
        """Of the whole matrix."""
        return 4 * self.n * self.n

    @property
    def asked(self) -> float:
        """Rows that a machine asks for, predicted."""
        return 0.54 * self.n * sqrt(self.n / min(self.n, self.capacity))

    def seconds(self, tier: str, rates: Rates) -> float:
        """What making the matrix, if it is made, and bringing the rows asked for is predicted to take."""
        brought = 4 * self.n * self.asked
        if tier == "recompute":
            return self.n * self.asked / rates.compute
        made = (1 - self.found) * self.n**2 * (0.5 + 0.5 / BANDS) / rates.compute
        if self.stored:  # it is written while it is computed
            made = max(made, (1 - self.found) * self.bytes / rates.write)
        if tier == "disk":
            return made + brought / rates.read
        return made + (self.bytes / rates.read if self.stored else 0.0) + brought / rates.bus


def choose(case: Case, possible: Collection[str], rates: Rates) -> tuple[str, str]:
    """The tier of the fewest predicted seconds, and the predictions for people."""
    seconds = {tier: case.seconds(tier, rates) for tier in _WAYS if tier in possible}
    best = min(seconds, key=lambda tier: seconds[tier])
    others = [f", {_WAYS[tier]} {seconds[tier]:.2g} s" for tier in seconds if tier != best]
    return best, f"predicted {seconds[best]:.2g} s{''.join(others)}"
