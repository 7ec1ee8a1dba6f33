"""textsvm corpus: statistics of a corpus."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from textsvm.cli import corpora, options
from textsvm.cli.console import Console
from textsvm.cli.options import option
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.readers.corpus import Corpus


@options.with_groups
def corpus(
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    regress: options.Regress = None,
    near_duplicates: Annotated[
        bool, option("Also group near-duplicates; compares all pairs.", "--near-duplicates")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show statistics of a corpus: parts, labels or numbers, lengths, duplicates, alphabet, problems."""
    console = Console(quiet)
    documents = corpora.read(console, corpus, reading, options.LearningOptions(regress))
    summary = describe(documents)
    if near_duplicates:
        summary["near_duplicates"] = _near_duplicates(console, documents)
    console.print_json(summary) if json else _show(console, summary)


def describe(corpus: Corpus) -> dict[str, Any]:
    """Statistics as JSON values; lengths and alphabet of the normalised texts."""
    labels = Counter(
        label for each in corpus.labels or [] for label in (each if isinstance(each, tuple) else (each,))
    )
    return {
        "source": corpus.source,
        "format": corpus.format,
        "n": len(corpus),
        "parts": dict(Counter(part or "none" for part in corpus.part)),
        "labels": dict(labels.most_common()),
        "numbers": _quantiles(corpus.targets) if corpus.targets is not None else None,
        "unlabelled": sum(1 for each in corpus.labels or [] if each == ()),
        **_of_texts(corpus.texts),
        "letters": _letters(corpus.texts) if corpus.of_sequences else None,
        "columns": corpus.columns and {name: _of_column(each) for name, each in corpus.columns.items()},
        "vectors": None if corpus.vectors is None else _of_vectors(corpus.vectors),
        "duplicates": [list(group) for group in corpus.duplicates()],
        "problems": [{"id": identifier, "problem": problem} for identifier, problem in corpus.problems],
    }


def _near_duplicates(console: Console, corpus: Corpus) -> list[list[str]]:
    """Groups of ids of near-duplicates, exact copies included."""
    import numpy as np

    from textsvm.nearest.neighbours import machine
    from textsvm.nearest.search import Criteria, search
    from textsvm.selection.leakage import BOUND, groups_of

    if not len(corpus.texts):
        raise InputError(f"--near-duplicates needs texts, and {corpus.source} holds none")
    wanted = Criteria(at_least=BOUND)
    with console.progress():
        pairs = search(machine("fast", wanted), corpus.texts, None, wanted, console.stage)
        groups = groups_of(len(corpus), ((part.rows, part.columns) for part in pairs))
    members: dict[int, list[str]] = {}
    for number in np.flatnonzero(np.bincount(groups)[groups] > 1).tolist():
        members.setdefault(int(groups[number]), []).append(corpus.ids[number])
    return list(members.values())


def _of_texts(texts: Any) -> dict[str, Any]:
    """Lengths and alphabet; None without texts."""
    if not len(texts):
        return {"lengths": None, "empty": None, "alphabet": None}
    from textsvm.text.documents import encode
    from textsvm.text.encoding import Reading
    from textsvm.text.normal_form import normal_form

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
    import numpy as np

    from textsvm.text.documents import encode

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
    import numpy as np

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
    import numpy as np

    quantiles = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
    return dict(zip(("min", "q1", "median", "q3", "max"), quantiles, strict=True))


def _show(console: Console, summary: dict[str, Any]) -> None:
    groups = summary["duplicates"]
    copies = sum(len(group) - 1 for group in groups)
    console.table(
        f"{summary['source']} ({summary['format']})",
        [
            ("documents", f"{summary['n']:,}"),
            ("parts", ", ".join(f"{part} {count:,}" for part, count in summary["parts"].items())),
            *_symbols(summary),
            *_shares(summary["letters"]),
            *_numbers("numbers", summary["numbers"]),
            *_vectors(summary["vectors"]),
            *[row for name, each in (summary["columns"] or {}).items() for row in _column(name, each)],
            ("exact copies", f"{copies:,} in {len(groups):,} groups"),
            *_near(summary),
            ("notes on reading", f"{len(summary['problems']):,}"),
        ],
    )
    if summary["labels"]:
        shown = list(summary["labels"].items())[:20]
        rows = [(str(name), f"{count:,}") for name, count in shown]
        if len(summary["labels"]) > 20:
            rows.append((f"and {len(summary['labels']) - 20} more", ""))
        if summary["unlabelled"]:
            rows.append(("(no label)", f"{summary['unlabelled']:,}"))
        console.table("labels", rows, ("label", "documents"))
    if summary["problems"]:
        console.line("notes on reading\n")
        for problem in summary["problems"]:
            console.line(f"  {problem['id']}: {problem['problem']}")


def _near(summary: dict[str, Any]) -> list[tuple[str, str]]:
    groups = summary.get("near_duplicates")
    if groups is None:
        return []
    return [("near-duplicates", f"{sum(map(len, groups)):,} texts in {len(groups):,} groups")]


def _symbols(summary: dict[str, Any]) -> list[tuple[str, str]]:
    lengths = summary["lengths"]
    if lengths is None or summary["columns"]:
        return []
    return [
        ("symbols a document", _span(lengths)),
        ("symbols, mean", f"{lengths['mean']:,.1f}"),
        ("empty documents", f"{summary['empty']:,}"),
        ("alphabet", f"{summary['alphabet']:,} symbols"),
    ]


def _shares(letters: dict[str, Any] | None) -> list[tuple[str, str]]:
    if letters is None:
        return []
    shares = ", ".join(f"{letter} {100 * share:.3g} %" for letter, share in letters["shares"].items())
    rows = [("letters", shares), ("lower case", f"{100 * letters['lower']:.1f} %")]
    return rows if letters["gc"] is None else [*rows, ("G and C", f"{100 * letters['gc']:.1f} %")]


def _column(name: str, column: dict[str, Any]) -> list[tuple[str, str]]:
    if "numbers" in column:
        return _numbers(f"column {name}", column["numbers"])
    return [(f"column {name}", f"{_span(column['lengths'])} symbols, {column['empty']:,} empty")]


def _span(lengths: dict[str, Any]) -> str:
    return f"{lengths['min']:,} to {lengths['max']:,}, median {lengths['median']:,}"


def _vectors(vectors: dict[str, Any] | None) -> list[tuple[str, str]]:
    if vectors is None:
        return []
    kind = "sparse" if vectors["sparse"] else "dense"
    return [
        ("vectors", f"{vectors['d']:,} columns, {kind}, {vectors['type']}"),
        ("non-zeros", f"{vectors['non_zeros']:,}, {100 * vectors['share']:.3g} %"),
        ("values", f"{vectors['least']:g} to {vectors['most']:g}"),
    ]


def _numbers(name: str, numbers: dict[str, float] | None) -> list[tuple[str, str]]:
    if numbers is None:
        return []
    return [(name, f"{numbers['min']:g} to {numbers['max']:g}, median {numbers['median']:g}")]
