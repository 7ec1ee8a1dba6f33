"""How the l-mers of column documents lie in words, for both twins: 64 a word, no word of two documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: l-mers of a word.
BITS = 64


def words_of(indptr: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The words of documents, (document, first l-mer, number of l-mers), and where those of each begin."""
    numbers = np.diff(indptr)
    each = -(-numbers // BITS)
    begins = np.concatenate([[0], np.cumsum(each)])
    document = np.repeat(np.arange(len(each)), each)
    place = BITS * (np.arange(len(document)) - begins[document])
    return (
        np.stack(
            [document, indptr[document] + place, np.minimum(numbers[document] - place, BITS)], axis=1
        ).astype(np.int64),
        begins,
    )
