"""Which symbols a value of the p-spectrum kernel comes from, exactly.

In the space of the features (spectrum.py) sum_i a_i k(t_i, x) is phi(x) . w, with w = sum_i a_i phi(t_i)
/ |t_i|; so every p-mer u of x has its contribution, phi_u(x) w_u / |x| (that of an intersection kernel sum_h
[c_u(x) >= h] w_(u, h) / |x|). It is spread evenly over the occurrences of u in x, and each occurrence over
its p symbols.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.features.pmers import Counts, windows
from textsvm.features.vocabulary import Vocabulary
from textsvm.kernels.attribution import Attribution, Contributions

SUBSTRINGS = Attribution(
    "substrings",
    "exact: each substring's contribution, spread over its occurrences and their symbols",
    exact=True,
)


def spread(
    documents: Documents, vocabulary: Vocabulary, counts: Counts, terms: NDArray[np.float64]
) -> Contributions:
    """Contributions of symbols, from those of p-mers.

    Parameters
    ----------
    documents : Documents
    vocabulary : Vocabulary
        Of the documents' p-mers.
    counts : Counts
        Of the p-mers of the documents.
    terms : float64 array, shape (number of counts,)
        The contribution of each p-mer of each document, in the order of `counts`.
    """
    by_length = list(windows(documents, Vocabulary.empty(documents, vocabulary.p1, vocabulary.p2)))
    first = vocabulary.first
    result = Contributions([], [])
    each = np.zeros(first[-1])
    for d in range(len(documents)):
        begin, end = documents.offsets[d : d + 2]
        entries = slice(counts.indptr[d], counts.indptr[d + 1])
        each[counts.features[entries]] = terms[entries] / counts.counts[entries]
        symbols, seen = documents.symbols(d), {}
        share = np.zeros(end - begin)
        for base, (q, ids, _) in zip(first, by_length, strict=False):
            of_window = base + ids[begin : max(begin, end - q + 1)].astype(np.int64)
            if not len(of_window):
                continue
            share += np.convolve(each[of_window], np.full(q, 1 / q))
            for place, u in zip(*np.unique(of_window, return_index=True)[::-1], strict=True):
                seen[int(u)] = documents.join(symbols[place : place + q])
        result.symbols.append(documents.spread(d, share))
        found = zip(counts.features[entries], counts.counts[entries], terms[entries], strict=True)
        result.features.append([(seen[int(u)], int(c), float(value)) for u, c, value in found])
    return result
