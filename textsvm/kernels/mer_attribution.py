"""Which symbols a value of a kernel of distances between l-mers comes from, exactly.

A value is a sum over the l-mers of the document (`mer_scores`). The part of each is spread evenly over its
symbols; the parts of equal l-mers together are the contribution of that l-mer, with both strands that of it
and its reverse complement.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.documents import Documents
from textsvm.kernels.attribution import Attribution, Contributions
from textsvm.parallel import Progress

MERS = Attribution("l-mers", "exact: each l-mer's contribution, spread evenly over its symbols", exact=True)
_PAIRED = str.maketrans("acgtu", "tgcaa")


def mer_contributions(
    rows: Any, documents: Documents, coef: NDArray[np.float64], progress: Progress | None = None
) -> Contributions:
    """Of documents to values that are sums with coefficients (documents, support vectors).

    Parameters
    ----------
    rows : MerRows
        Of the support vectors.
    documents : Documents
    coef : float64 array, shape (len(documents), n_sv)
    progress : callable, optional
    """
    mers, columns = rows.mers(documents)
    scale, result = rows.normalise(documents, mers, columns).scale, Contributions([], [])
    for d, begin in enumerate(documents.offsets[:-1]):
        own = mers.take(np.array([d]))
        values = devices.to_host(rows.products(own.singly(), np.ones(len(own.starts)))).astype(np.float64)
        terms = scale[d] * own.weights * (values @ coef[d])
        shares = np.zeros(int(documents.lengths[d]))
        for place in range(mers.length):
            np.add.at(shares, own.starts - begin + place, terms / mers.length)
        result.symbols.append(documents.spread(d, shares))
        names = _names(documents, d, own.starts - begin, mers.length, bool(rows.kernel.canonical))
        result.features.append(_together(names, terms))
        if progress is not None:
            progress(d + 1, len(documents))
    return result


def _names(documents: Documents, d: int, starts: NDArray[np.int64], length: int, both: bool) -> list[str]:
    """l-mers as text; of one and its reverse complement the first."""
    symbols = documents.symbols(d)
    found = [documents.join(list(symbols[start : start + length])) for start in starts.tolist()]
    if not both:
        return found
    found = [name.replace("u", "t") for name in found]
    return [min(name, name[::-1].translate(_PAIRED)) for name in found]


def _together(names: list[str], terms: NDArray[np.float64]) -> list[tuple[str, int, float]]:
    sums: dict[str, tuple[int, float]] = {}
    for name, term in zip(names, terms.tolist(), strict=True):
        count, total = sums.get(name, (0, 0.0))
        sums[name] = count + 1, total + term
    return [(name, count, total) for name, (count, total) in sums.items()]
