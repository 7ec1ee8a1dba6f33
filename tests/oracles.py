"""The textbook definition of every kernel, as slow and plain as it reads: the judge of both twins.

Strings in, Python floats out; nothing here is shipped.
"""

from collections import Counter
from math import exp, log, sqrt


def pmers(s, p):
    """Every contiguous substring of length p, with its number of occurrences."""
    return Counter(s[i : i + p] for i in range(len(s) - p + 1))


def learn_idf(texts, p1, p2):
    """ln((1 + n) / (1 + df)) + 1 of every p-mer of the training texts, and the value of any other."""
    df = Counter(u for s in texts for p in range(p1, p2 + 1) for u in pmers(s, p))
    n = len(texts)
    return {u: log((1 + n) / (1 + d)) + 1 for u, d in df.items()}, log(1 + n) + 1


def spectrum(s, t, p1, p2=None, weight="count", idf=None):
    """k(s, t), not normalised. `idf` as `learn_idf` gives it."""
    total = 0.0
    for p in range(p1, (p2 or p1) + 1):
        a, b = pmers(s, p), pmers(t, p)
        for u in a.keys() & b.keys():
            w = 1.0 if idf is None else idf[0].get(u, idf[1])
            x, y = a[u], b[u]
            if weight == "presence":
                x = y = 1
            elif weight == "log":
                x, y = 1 + log(x), 1 + log(y)
            total += w * min(x, y) if weight == "intersection" else (w * x) * (w * y)
    return total


def edit_distance(s, t):
    """Levenshtein distance with unit costs."""
    previous = list(range(len(t) + 1))
    for i, a in enumerate(s, 1):
        row = [i]
        for j, b in enumerate(t, 1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (a != b)))
        previous = row
    return previous[-1]


def edit(s, t, gamma, relative=False):
    """exp(-gamma d), d divided by the longer length if `relative` (0 for two empty strings)."""
    d = edit_distance(s, t)
    return exp(-gamma * (d / max(len(s), len(t), 1) if relative else d))


def gap_weighted(s, t, p, decay):
    """[k_1, ..., k_p], not normalised: the recurrence of Lodhi et al. 2002, section 4, in float64.

    K'_i(sx, t) = decay K'_i(s, t) + K''_i(sx, t), and k_i sums decay^2 K'_{i-1} where symbols match.
    """
    n, m = len(s), len(t)
    values = []
    prefix = [[1.0] * (m + 1) for _ in range(n + 1)]
    for _ in range(p):
        values.append(sum(decay**2 * prefix[i][j] for i in range(n) for j in range(m) if s[i] == t[j]))
        longer = [[0.0] * (m + 1) for _ in range(n + 1)]
        for i in range(1, n + 1):
            inner = 0.0
            for j in range(1, m + 1):
                inner = decay * inner + (decay**2 * prefix[i - 1][j - 1] if s[i - 1] == t[j - 1] else 0.0)
                longer[i][j] = decay * longer[i - 1][j] + inner
        prefix = longer
    return values


def gap(s, t, p, decay, weights=None):
    """k_p, or the weighted sum over q = 1..p."""
    values = gap_weighted(s, t, p, decay)
    return values[-1] if weights is None else sum(w * v for w, v in zip(weights, values, strict=True))


def normalised(kernel, s, t):
    """k(s, t) / sqrt(k(s, s) k(t, t)); a string without features is 1 with its equal, 0 with others."""
    kss, ktt = kernel(s, s), kernel(t, t)
    if kss == 0 or ktt == 0:
        return float(s == t)
    return kernel(s, t) / sqrt(kss * ktt)
