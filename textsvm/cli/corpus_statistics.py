"""Statistics of corpora as JSON values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from textsvm.cli.corpora import label_counts
from textsvm.readers import Corpus
from textsvm.text.documents import encode
from textsvm.text.encoding import Reading
from textsvm.text.normal_form import normal_form


def describe(corpus: Corpus) -> dict[str, Any]:
    """Statistics as JSON values; lengths and alphabet of the normalised texts."""
    return {
        "source": corpus.source,
        "format": corpus.format,
        "n": len(corpus),
        "parts": dict(Counter(part or "none" for part in corpus.part)),
        "labels": dict(label_counts(corpus).most_common()),
        "numbers": _quantiles(corpus.targets) if corpus.targets is not None else None,
        "unlabelled": sum(1 for each in corpus.labels or [] if each == ()),
        **_of_texts(corpus.texts),
        "letters": _letters(corpus.texts) if corpus.of_sequences else None,
        "columns": corpus.columns and {name: _of_column(each) for name, each in corpus.columns.items()},
        "vectors": None if corpus.vectors is None else _of_vectors(corpus.vectors),
        "duplicates": [list(group) for group in corpus.duplicates()],
        "problems": [{"id": identifier, "problem": problem} for identifier, problem in corpus.problems],
    }


def _of_texts(texts: Any) -> dict[str, Any]:
    """Lengths and alphabet; None without texts."""
    if not len(texts):
        return {"lengths": None, "empty": None, "alphabet": None}
    encoded = encode(texts, None, Reading(normal_form("unicode", True, False)))
    lengths = encoded.lengths
    quantiles = {name: round(value) for name, value in _quantiles(lengths).items()}
    return {
        "lengths": quantiles | {"mean": float(lengths.mean())},
        "empty": int((lengths == 0).sum()),
        "alphabet": len(encoded.alphabet),
    }


def _letters(texts: Any) -> dict[str, Any]:
    """Shares of letters (case ignored), of lower case, and of G and C in DNA or RNA."""
    encoded = encode(texts)
    counts = np.bincount(encoded.codes, minlength=len(encoded.alphabet)) / max(1, len(encoded.codes))
    shares: Counter[str] = Counter()
    lower = 0.0
    for letter, share in zip(map(chr, encoded.alphabet), counts.tolist(), strict=True):
        shares[letter.lower()] += share
        lower += share * letter.islower()
    known = sum(shares[letter] for letter in "acgtu")
    gc = (shares["g"] + shares["c"]) / known if known and set(shares) <= set("acgtun") else None
    return {
        "shares": {name: share for name, share in sorted(shares.items()) if share},
        "lower": lower,
        "gc": gc,
    }


def _of_column(values: Any) -> dict[str, Any]:
    return {"numbers": _quantiles(values)} if hasattr(values, "dtype") else _of_texts(values)


def _of_vectors(vectors: Any) -> dict[str, Any]:
    n, d = vectors.shape
    stored = vectors.data if hasattr(vectors, "indptr") else vectors
    return {
        "d": d,
        "sparse": hasattr(vectors, "indptr"),
        "non_zeros": int(np.count_nonzero(stored)),
        "share": float(np.count_nonzero(stored) / (n * d)),
        "least": float(stored.min(initial=0)),
        "most": float(stored.max(initial=0)),
        "type": str(vectors.dtype),
    }


def _quantiles(values: Any) -> dict[str, float]:
    quantiles = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
    return dict(zip(("min", "q1", "median", "q3", "max"), quantiles, strict=True))
