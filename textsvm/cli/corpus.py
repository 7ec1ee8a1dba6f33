"""textsvm corpus: what is in a corpus."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from textsvm.cli import options
from textsvm.cli.console import Console

if TYPE_CHECKING:
    from textsvm.readers import Corpus


@options.with_groups
def corpus(
    corpus: options.CorpusPath,
    reading: options.Reading,
    regress: options.Regress = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what is in a corpus: counts, parts, labels or numbers, lengths, duplicates, alphabet, damage."""
    console = Console(quiet)
    documents = options.read(console, corpus, reading, options.Learning(regress))
    summary = describe(documents)
    console.print_json(summary) if json else _show(console, summary)


def describe(corpus: Corpus) -> dict[str, Any]:
    """Counts of a corpus as JSON values; lengths and alphabet are of the normalised texts."""
    from textsvm.documents import encode
    from textsvm.encoding import Reading
    from textsvm.normal_form import normal_form

    encoded = encode(corpus.texts, None, Reading(normal_form("unicode", True, False)))
    lengths = encoded.lengths
    labels = Counter(
        one for each in corpus.labels or [] for one in (each if isinstance(each, tuple) else (each,))
    )
    return {
        "source": corpus.source,
        "format": corpus.format,
        "n": len(corpus),
        "parts": dict(Counter(part or "none" for part in corpus.part)),
        "labels": dict(labels.most_common()),
        "numbers": _quantiles(corpus.targets) if corpus.targets is not None else None,
        "unlabelled": sum(1 for each in corpus.labels or [] if each == ()),
        "lengths": {name: round(value) for name, value in _quantiles(lengths).items()}
        | {"mean": float(lengths.mean())},
        "empty": int((lengths == 0).sum()),
        "duplicates": [list(group) for group in corpus.duplicates()],
        "alphabet": len(encoded.alphabet),
        "problems": [{"id": identifier, "problem": problem} for identifier, problem in corpus.problems],
    }


def _quantiles(values: Any) -> dict[str, float]:
    import numpy as np

    quantiles = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
    return dict(zip(("min", "q1", "median", "q3", "max"), quantiles, strict=True))


def _show(console: Console, summary: dict[str, Any]) -> None:
    lengths, groups = summary["lengths"], summary["duplicates"]
    copies = sum(len(group) - 1 for group in groups)
    console.table(
        f"{summary['source']} ({summary['format']})",
        [
            ("documents", f"{summary['n']:,}"),
            ("parts", ", ".join(f"{part} {count:,}" for part, count in summary["parts"].items())),
            ("symbols a document", f"{lengths['min']:,} to {lengths['max']:,}, median {lengths['median']:,}"),
            ("symbols, mean", f"{lengths['mean']:,.1f}"),
            *_numbers(summary["numbers"]),
            ("empty documents", f"{summary['empty']:,}"),
            ("alphabet", f"{summary['alphabet']:,} symbols"),
            ("exact copies", f"{copies:,} in {len(groups):,} groups"),
            ("damaged", f"{len(summary['problems']):,}"),
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
        console.line("damaged documents\n")
        for problem in summary["problems"]:
            console.line(f"  {problem['id']}: {problem['problem']}")


def _numbers(numbers: dict[str, float] | None) -> list[tuple[str, str]]:
    if numbers is None:
        return []
    return [("numbers", f"{numbers['min']:g} to {numbers['max']:g}, median {numbers['median']:g}")]
