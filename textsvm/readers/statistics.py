"""Statistics of a corpus, and labels and texts that may be mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from unicodedata import normalize

import numpy as np

from textsvm.arrays import AnyArray, Array, Json
from textsvm.readers.charsets import INVISIBLE
from textsvm.readers.corpus import MISSING, Corpus, is_number, number_in
from textsvm.runtime.compiled import scipy
from textsvm.text.encoding import Reading, text_chunks
from textsvm.text.normal_form import normal_form

#: Labels that usually mean that nobody knows.
_UNKNOWN = (*MISSING, "?", "-", ".", "unknown", "unbekannt", "k.a.", "keineangabe", "inconnu", "desconocido")


def label_counts(corpus: Corpus) -> Counter[str]:
    """Number of documents of each label; documents without labels are not counted."""
    labels = corpus.labels or []
    return Counter(label for names in labels for label in (names if isinstance(names, tuple) else (names,)))


def describe(corpus: Corpus) -> Json:
    """Statistics as JSON values; lengths and alphabet of the normalised texts."""
    return {
        "source": corpus.source,
        "format": corpus.format,
        "reading": corpus.reading,
        "n": len(corpus),
        "parts": dict(Counter(part or "none" for part in corpus.part)),
        "labels": dict(label_counts(corpus).most_common()),
        "numbers": _quantiles(corpus.targets) if corpus.targets is not None else None,
        "unlabelled": sum(1 for values in corpus.labels or [] if values == ()),
        **_of_texts(corpus.texts),
        "columns": corpus.columns
        and {
            name: {"numbers": _quantiles(values)} if isinstance(values, np.ndarray) else _of_texts(values)
            for name, values in corpus.columns.items()
        },
        "vectors": None if corpus.vectors is None else _of_vectors(corpus.vectors),
        "duplicates": [list(group) for group in corpus.duplicates()],
        "problems": [{"id": identifier, "problem": problem} for identifier, problem in corpus.problems],
    }


def _of_texts(texts: Sequence[str]) -> Json:
    if not len(texts):
        return {"lengths": None, "empty": None, "alphabet": None}
    chunks = text_chunks(texts, Reading(normal_form("unicode", True, False)), None)
    parts = [(chunk.lengths, chunk.symbols) for chunk in chunks]  # without the codes
    lengths, symbols = map(np.concatenate, zip(*parts, strict=True))
    quantiles = {name: round(value) for name, value in _quantiles(lengths).items()}
    return {
        "lengths": quantiles | {"mean": float(lengths.mean())},
        "empty": int((lengths == 0).sum()),
        "alphabet": len(np.unique(symbols)),
    }


def _of_vectors(vectors: Array) -> Json:
    n, d = vectors.shape
    sparse = scipy.sparse.issparse(vectors)
    stored = vectors.data if sparse else vectors
    return {
        "d": d,
        "sparse": sparse,
        "non_zeros": int(np.count_nonzero(stored)),
        "share": float(np.count_nonzero(stored) / (n * d)),
        "least": float(stored.min(initial=0)),
        "most": float(stored.max(initial=0)),
        "type": str(vectors.dtype),
    }


def _quantiles(values: AnyArray | list[float]) -> dict[str, float]:
    quantiles = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
    return dict(zip(("min", "q1", "median", "q3", "max"), quantiles, strict=True))


# Labels and texts that may be mistakes


def names_of_missing(corpus: Corpus) -> Counter[str]:
    """How many texts are each name of a missing value."""
    short = (text.strip() for column in corpus.text_columns for text in column if len(text) < 16)
    return Counter(text for text in short if text.casefold() in MISSING)


def doubtful_labels(labels: Iterable[str]) -> list[str]:
    """Sentences on labels that may be one class, or that may mean that there is no label."""
    spellings: dict[str | float, str] = {}
    sentences = []
    for label in labels:
        key = "".join(INVISIBLE.sub("", normalize("NFKC", label)).split()).casefold()
        other = spellings.setdefault(float(key) if is_number(key) else key, label)
        if other != label:
            how = "are the same number" if is_number(key) else "differ only in case or spaces"
            advice = "learnt as two classes; correct the labels if they are the same class"
            sentences.append(f"the labels {other!r} and {label!r} {how} and are {advice}")
            break
    names = {name: "".join(name.split()).casefold() for name in labels}
    codes = {name for name in names if name.startswith("-") and is_number(name)}  # -99 beside words
    codes = set() if all(map(is_number, names)) else codes
    if missing := [repr(name) for name, bare in names.items() if bare in _UNKNOWN or name in codes]:
        sentences.append(f"{', '.join(missing)}: a class like others; a missing label is an empty cell")
    return sentences


def as_numbers(labels: Collection[str]) -> list[float] | None:
    """The labels as numbers, with a decimal point or comma; None if a label is no number."""
    numbers = [x for x in map(number_in, labels) if x is not None]
    return numbers if len(numbers) == len(labels) else None
