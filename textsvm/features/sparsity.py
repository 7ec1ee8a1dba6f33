"""How the products of sparse vectors are made on a GPU: the way whose predicted seconds are fewest.

    dense       all numbers, zeros too (tensor cores): n^2 d multiply-adds
    columns     features of many vectors dense, the others as lists of vectors (`products_cuda`)
    clusters    vectors of similar sparsity together, dense over their active features (`clusters_cuda`)

Rates are those of one H200; on another card all ways are slower together, more or less.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Multiply-adds a second of each way, of whole numbers up to 127 and of others; additions a second of lists.
DENSE = {True: 3.0e14, False: 6.0e13}
WIDE = {True: 3.0e14, False: 2.0e13}
CLUSTERS = {True: 1.2e13, False: 6.0e12}
LISTS = 1.0e11
#: Seconds for writing a kernel value, and for reading one entry into clusters.
VALUE = {"dense": 2.0e-12, "columns": 4.0e-12, "clusters": 6.0e-12}
CLUSTERED = 3.0e-8


@dataclass(frozen=True)
class Sparsity:
    """What is known of a sparse matrix.

    Attributes
    ----------
    n, n_features, entries : int
        Vectors, features, numbers that are stored.
    full : int
        Features that are kept dense among `columns`.
    listed : float
        Sum over the others of the square of how many vectors have them.
    small : bool
        Whether all numbers are whole and up to 127.
    active : float
        Active features of a cluster, on average; what a vector has at least, while it is not known.
    """

    n: int
    n_features: int
    entries: int
    full: int
    listed: float
    small: bool
    active: float = 0.0

    @property
    def seconds(self) -> dict[str, float]:
        """Predicted seconds for the whole kernel matrix, by way."""
        pairs = self.n**2 / 2
        active = max(self.active, self.entries / max(self.n, 1))
        work = {
            "dense": 2 * pairs * self.n_features / DENSE[self.small],
            "columns": pairs * self.full / WIDE[self.small] + self.listed / 2 / LISTS,
            "clusters": pairs * active / CLUSTERS[self.small] + self.entries * CLUSTERED,
        }
        return {way: seconds + 2 * pairs * VALUE[way] for way, seconds in work.items()}


@dataclass(frozen=True)
class Way:
    """What was decided.

    Attributes
    ----------
    name : {"dense", "columns", "clusters"}
    description : str
        What a user is shown.
    """

    name: str
    description: str


#: The ways for people.
SHOWN = {
    "dense": "dense products of sparse vectors",
    "columns": "products by dense and listed features",
    "clusters": "products of vectors clustered by sparsity",
}


def choose(sparsity: Sparsity, memory: int) -> Way:
    """The way of fewest predicted seconds; dense only if its numbers fit `memory` bytes."""
    seconds = sparsity.seconds
    if 8 * sparsity.n * sparsity.n_features > memory:
        del seconds["dense"]
    best = min(seconds, key=lambda way: seconds[way])
    others = ", ".join(f"{way} {seconds[way]:.2g} s" for way in seconds if way != best)
    return Way(best, f"{SHOWN[best]} (predicted {seconds[best]:.2g} s; {others})")
