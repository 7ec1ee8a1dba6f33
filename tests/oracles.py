"""The textbook definition of every kernel, as slow and plain as it reads: the judge of both twins.

Strings in, Python floats out; nothing here is shipped. Normalisation asks for k(s, s) at every pair: what is
slow is remembered.
"""

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import combinations, product
from math import comb, exp, log, sqrt, tanh

import numpy as np

#: Combining marks and joiners, which words have within.
MARKS = "\u200c\u200d\u180e" + "".join(
    chr(c) for c in range(0x110000) if unicodedata.category(chr(c))[0] == "M"
)


def tokenise(text, tokens):
    """The symbols of a text: its characters, words or pieces between white space, or those of a function."""
    if callable(tokens):
        return list(tokens(text))
    if tokens == "words":
        return re.findall(rf"[\w{MARKS}]+|[^\w{MARKS}\s]", text)
    if tokens == "runs":
        return re.findall(r"\w+|[^\w\s]", text)
    return text.split() if tokens == "whitespace" else list(text)


@lru_cache(maxsize=64)
def pmers(s, p):
    """Every contiguous substring of length p, with its number of occurrences."""
    return Counter(s[i : i + p] for i in range(len(s) - p + 1))


def learn_idf(texts, p1, p2):
    """ln((1 + n) / (1 + df)) + 1 of every p-mer of the training texts, and the value of any other."""
    df = Counter(u for s in texts for p in range(p1, p2 + 1) for u in pmers(s, p))
    n = len(texts)
    return {u: log((1 + n) / (1 + d)) + 1 for u, d in df.items()}, log(1 + n) + 1


def learn_odds(texts, classes, p1, p2, pseudo=4.0):
    """Root mean square over the classes of ln(P(c | u) / (1 - P(c | u))) - ln(P(c) / (1 - P(c))) of every
    p-mer u of the training texts, and of any other: the root mean square of it in one text, whose
    class is c with probability P(c).
    """
    held = Counter(
        (c, u) for s, c in zip(texts, classes, strict=True) for p in range(p1, p2 + 1) for u in pmers(s, p)
    )
    df, of_class = Counter(), Counter()
    for (c, u), number in held.items():
        df[u] += number
        of_class[c] += number
    share = {c: number / held.total() for c, number in of_class.items()}

    def ratio(c, inside, total):
        found = log((inside + pseudo * share[c]) / (total - inside + pseudo * (1 - share[c])))
        found -= log(share[c] / (1 - share[c]))
        return found if abs(found) > 1e-12 else 0.0

    several = [c for c in share if share[c] < 1]
    odds = {u: sqrt(sum(share[c] * ratio(c, held[c, u], df[u]) ** 2 for c in several)) for u in df}
    once = [share[d] * share[c] * ratio(c, c == d, 1) ** 2 for d in several for c in several]
    return odds, sqrt(sum(once))


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


@lru_cache(maxsize=64)
def gapped_kmers(s, g, m, canonical=False):
    """Every window of g symbols under every mask, None at its m open positions, and how often it occurs.

    Canonical: of the text and of its reverse complement, without windows that have an n; u is a t.
    """
    strands = [s]
    if canonical:
        s = s.replace("u", "t")
        strands = [s, s[::-1].translate(str.maketrans("acgt", "tgca"))]
    return Counter(
        tuple(None if i in opened else symbol for i, symbol in enumerate(strand[at : at + g]))
        for strand in strands
        for at in range(len(strand) - g + 1)
        for opened in combinations(range(g), m)
        if not (canonical and "n" in strand[at : at + g])
    )


def gapped(s, t, g, m, weight="log", canonical=False):
    """k(s, t), not normalised."""
    a, b = gapped_kmers(s, g, m, canonical), gapped_kmers(t, g, m, canonical)
    value = {"count": lambda c: c, "presence": lambda c: 1, "log": lambda c: 1 + log(c)}[weight]
    return sum(value(a[u]) * value(b[u]) for u in a.keys() & b.keys())


@lru_cache(maxsize=64)
def mismatch_features(s, k, m, letters):
    """Every string over some letters that is within m mismatches of k-mers of s, and of how many."""
    found = Counter()
    for u in pmers(s, k).elements():
        near = {u}
        for _ in range(m):
            near |= {z[:i] + x + z[i + 1 :] for z in near for i in range(k) for x in letters}
        found.update(near)
    return found


def mismatch(s, t, k, m, letters, canonical=False):
    """k(s, t), not normalised."""
    mine, theirs = (
        [mismatch_features(one, k, m, letters) for one in strands(text, canonical)] for text in (s, t)
    )
    return sum(a[z] * b[z] for a in mine for b in theirs for z in a.keys() & b.keys())


def strands(s, canonical):
    """A text, or its two strands, u a t."""
    s = s.replace("u", "t") if canonical else s
    return [s, s[::-1].translate(str.maketrans("acgt", "tgca"))] if canonical else [s]


@lru_cache(maxsize=16)
def gapped_kmer_filter(l, k, b):  # noqa: E741
    """(l-mers over b letters, their matrix A+ A): counts of l-mers, as those of gapped k-mers say them.

    A has a row for each choice of k positions and k letters: which l-mers have these.
    """
    mers = list(product(range(b), repeat=l))
    gapped = [(at, x) for at in combinations(range(l), k) for x in product(range(b), repeat=k)]
    A = np.array(
        [[all(u[p] == c for p, c in zip(at, x, strict=True)) for u in mers] for at, x in gapped], float
    )
    # Singular values are at least 1 or 0 up to rounding, which may exceed NumPy's default of 1e-15.
    return mers, np.linalg.pinv(A, rcond=1e-9) @ A


@lru_cache(maxsize=16)
def gkm_filter(l, k, filtered, b=4):  # noqa: E741
    """What two l-mers at distance 0, 1, ... l count: shared gapped k-mers, or products of their estimates."""
    if filtered == "none":
        return [comb(l - d, k) for d in range(l + 1)]
    mers, estimates = gapped_kmer_filter(l, k, b)
    at = [mers.index((0,) * (l - d) + (1,) * d) for d in range(l + 1)]
    if filtered == "truncated":
        away = np.array([[sum(x != y for x, y in zip(u, v, strict=True)) for v in mers] for u in mers])
        last = next((d for d in range(l + 1) if estimates[0, at[d]] < 1e-12), l + 1)
        estimates = np.where(away < last, estimates, 0)
    return [float(estimates[0] @ estimates[i]) for i in at]


def gkm(s, t, l, k, d, filtered="none", canonical=False):  # noqa: E741
    """k(s, t), not normalised: pairs of l-mers at up to d mismatches."""
    weight, total = gkm_filter(l, k, filtered), 0.0

    def mers(text):
        for strand in strands(text, canonical):
            for i in range(len(text) - l + 1):
                if not (canonical and "n" in strand[i : i + l]):
                    yield strand[i : i + l]

    others = list(mers(t))
    for u in mers(s):
        for v in others:
            away = sum(x != y for x, y in zip(u, v, strict=True))
            total += weight[away] if away <= d else 0
    return total


@lru_cache(maxsize=1000)
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


@lru_cache(maxsize=1000)
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


@lru_cache(maxsize=1000)
def subsequences(s, p, decay, span):
    """Every subsequence of p symbols, with the sum of decay^(its span) over its occurrences within `span`."""
    found = Counter()
    for first in range(len(s)):
        for rest in combinations(range(first + 1, min(first + span, len(s))), p - 1):
            places = (first, *rest)
            found[tuple(s[i] for i in places)] += decay ** (places[-1] - first + 1)
    return found


def bounded_gap(s, t, p, decay, span):
    """k(s, t), not normalised."""
    a, b = subsequences(s, p, decay, span), subsequences(t, p, decay, span)
    return sum(a[u] * b[u] for u in a.keys() & b.keys())


def linear(x, y):
    return sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True))


def gaussian(x, y, gamma):
    return exp(-gamma * sum((a - b) ** 2 for a, b in zip(x.tolist(), y.tolist(), strict=True)))


def polynomial(x, y, gamma, coef0, degree):
    return (gamma * linear(x, y) + coef0) ** degree


def sigmoid(x, y, gamma, coef0):
    return tanh(gamma * linear(x, y) + coef0)


def normalised(kernel, s, t):
    """k(s, t) / sqrt(k(s, s) k(t, t)); a string without features is 1 with its equal, 0 with others."""
    kss, ktt = kernel(s, s), kernel(t, t)
    if kss == 0 or ktt == 0:
        return float(s == t)
    return kernel(s, t) / sqrt(kss * ktt)


def crammer_singer(K, y, C, weight=None, accuracy=1e-8, k=None, most=200_000):
    """Coefficients (k, m), dual and primal objective of the multiclass machine of Crammer and Singer (2001).

    Accelerated projected gradients (Beck and Teboulle 2009, restarted) on the dense dual of all k x m
    variables at once, until primal and dual, each as the definition says, agree to `accuracy`: a certificate
    of its own.
    """
    K, y = np.asarray(K, np.float64), np.asarray(y)
    k, m = k or int(y.max()) + 1, len(y)
    own = (np.arange(k)[:, None] == y).astype(float)
    upper = C * np.broadcast_to(np.ones(m) if weight is None else np.asarray(weight, float), m)

    def project(a):
        """Nearest a with columns that sum to 0 and a <= upper own: upper own - a is on a simplex."""
        s = upper * own - a
        fall = -np.sort(-s, axis=0)
        over = (np.cumsum(fall, axis=0) - upper) / np.arange(1, k + 1)[:, None]
        last = k - 1 - np.argmax((fall > over)[::-1], axis=0)
        return upper * own - np.maximum(s - over[last, np.arange(m)], 0)

    def objectives(a):
        f = a @ K
        norm = 0.5 * np.sum(a * f)
        slack = np.max(1 - own + f, axis=0) - np.sum(own * f, axis=0)
        return np.sum(own * a) - norm, norm + upper @ np.maximum(slack, 0)

    step = 1 / max(np.linalg.eigvalsh(K)[-1], 1e-300)
    a = ahead = np.zeros((k, m))
    t, dual, primal = 1.0, 0.0, np.inf
    for iteration in range(most):
        new = project(ahead - step * (ahead @ K - own))
        if np.sum((ahead - new) * (new - a)) > 0:
            t = 1.0
        t, before = (1 + sqrt(1 + 4 * t * t)) / 2, t
        a, ahead = new, new + (before - 1) / t * (new - a)
        if iteration % 50 == 0:
            dual, primal = objectives(a)
            if primal - dual <= accuracy * max(abs(primal), 1e-300):
                break
    else:
        raise ArithmeticError(f"the duality gap is still {primal - dual:g}")
    return a, dual, primal
