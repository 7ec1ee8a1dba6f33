"""How products of sparse vectors are made on a GPU: the way whose predicted seconds are fewest.

    digits      vectors are made dense, in digits (`vectors_cuda`), if there is room for them
    columns     features that many vectors have are dense, the others lists of vectors (`products_cuda`)

Rates are those of one H200, from whole kernel matrices of a9a, w8a, ijcnn1, sector and Reuters, and of dense
vectors of 16 to 2,000 numbers; on another card both ways are slower together, more or less. Clusters of
similar sparsity (GTSVM's) were the fastest on none of the five: `bench sparse_vectors` compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

from textsvm.features.digits import MOST_FEATURES, SLAB

#: Seconds for a value by digits, and for each number of a vector in it; whole numbers up to 127, others.
DIGITS = {True: (1.78e-12, 1.53e-15), False: (3.2e-12, 1.13e-14)}
#: Multiply-adds a second of dense features, of the same two kinds; additions a second of lists, which are
#: gone through again for every so many columns; seconds for a pair of vectors, and for the launches.
WIDE = {True: 3.0e14, False: 1.7e13}
LISTS, PASS = 3.6e10, 12_800
PAIR, LAUNCHES = 1.4e-11, 5.0e-4
#: Bytes of a number that is made dense, before it is in digits and after.
DENSE = 8 + 3


@dataclass(frozen=True)
class Sparsity:
    """What is known of a sparse matrix.

    Attributes
    ----------
    n, n_features : int
        Vectors, and numbers of each.
    full : int
        Features that are dense among `columns`.
    listed : float
        Sum over the others of the square of how many vectors have them.
    small : bool
        Whether all numbers are whole and up to 127.
    room : int
        Bytes that dense vectors may take.
    """

    n: int
    n_features: int
    full: int
    listed: float
    small: bool
    room: int

    @property
    def width(self) -> int:
        """Numbers of a vector in digits."""
        return -(-self.n_features // SLAB) * SLAB

    @property
    def seconds(self) -> dict[str, float]:
        """Predicted seconds for the whole kernel matrix, by way; without those that cannot be taken."""
        dense = self.full / WIDE[self.small] + PAIR
        lists = self.listed / 2 * -(-self.n // PASS) / LISTS
        found = {"columns": self.n**2 / 2 * dense + lists + LAUNCHES}
        if self.n_features <= MOST_FEATURES and 0 < DENSE * self.n * self.width <= self.room:
            value, number = DIGITS[self.small]
            found["digits"] = self.n**2 * (value + number * self.width)
        return found


@dataclass(frozen=True)
class Way:
    """What was decided.

    Attributes
    ----------
    name : {"columns", "digits"}
    description : str
        What a user is shown.
    """

    name: str
    description: str


def choose(sparsity: Sparsity) -> Way:
    """The way of fewest predicted seconds, of equal ones `columns`."""
    seconds = sparsity.seconds
    name = min(seconds, key=lambda way: seconds[way])
    said = {
        "columns": f"sparse products with {sparsity.full:,} features dense and the others as lists",
        "digits": "sparse vectors made dense",
    }
    others = "".join(f"; by {way} {seconds[way]:.2g} s" for way in seconds if way != name)
    return Way(name, f"{said[name]} (predicted {seconds[name]:.2g} s{others})")
