"""How products of sparse vectors are made on a GPU: the way whose predicted seconds are fewest.

    columns     features that many vectors have are dense, the others lists of vectors (`products_cuda`)
    clusters    vectors of similar sparsity are dense over their active features (`clusters_cuda`)

If every feature is had by many vectors, `columns` are plain dense products. Rates are those of one H200; on
another card both ways are slower together, more or less.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Multiply-adds a second of dense features and of clusters, of whole numbers up to 127 and of others; and
#: additions a second of lists.
WIDE = {True: 3.0e14, False: 2.0e13}
CLUSTERS = {True: 1.2e13, False: 6.0e12}
LISTS = 1.0e11
#: Seconds for writing a kernel value, and for reading one entry into clusters.
VALUE = {"columns": 4.0e-12, "clusters": 6.0e-12}
CLUSTERED = 3.0e-8


@dataclass(frozen=True)
class Sparsity:
    """What is known of a sparse matrix.

    Attributes
    ----------
    n, entries : int
        Vectors, and numbers that are stored.
    full : int
        Features that are dense among `columns`.
    listed : float
        Sum over the others of the square of how many vectors have them.
    small : bool
        Whether all numbers are whole and up to 127.
    active : float
        Active features of a cluster, on average; while it is not known, 0 for as few as can be.
    """

    n: int
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
        return {
            "columns": pairs * (self.full / WIDE[self.small] + 2 * VALUE["columns"])
            + self.listed / 2 / LISTS,
            "clusters": pairs * (active / CLUSTERS[self.small] + 2 * VALUE["clusters"])
            + self.entries * CLUSTERED,
        }


@dataclass(frozen=True)
class Way:
    """What was decided.

    Attributes
    ----------
    name : {"columns", "clusters"}
    description : str
        What a user is shown.
    """

    name: str
    description: str


def choose(sparsity: Sparsity) -> Way:
    """The way of fewest predicted seconds, of equal ones `columns`."""
    seconds = sparsity.seconds
    columns, clusters = (f"{seconds[way]:.2g} s" for way in ("columns", "clusters"))
    if seconds["columns"] <= seconds["clusters"]:
        how = f"{sparsity.full:,} features dense and the others as lists"
        return Way("columns", f"sparse products with {how} (predicted {columns}; by clusters {clusters})")
    return Way(
        "clusters", f"sparse products by clusters of vectors (predicted {clusters}; by columns {columns})"
    )
