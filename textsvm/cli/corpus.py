"""textsvm corpus: what is in a corpus."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from textsvm.cli import options
from textsvm.cli.console import Console, print_json

if TYPE_CHECKING:
    from textsvm.readers import Corpus


def corpus(
    corpus: options.CorpusPath,
    positive: options.Positive = None,
    negative: options.Negative = None,
    part: options.Part = None,
    split: options.SplitOption = options.Split.modapte,
    format: options.Format = None,
    text: options.Text = None,
    label: options.Label = None,
    id: options.Id = None,
    headers: options.Headers = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what is in a corpus: counts, parts, labels, lengths, duplicates, alphabet, damage."""
    console = Console(quiet)
    documents = options.read(
        console, corpus, positive=positive, negative=negative, part=part, format=format,
        text=text, label=label, id=id, headers=headers, split=split.value,
    )  # fmt: skip
    summary = describe(documents)
    print_json(summary) if json else _show(console, summary)


def describe(corpus: Corpus) -> dict[str, Any]:
    """Counts of a corpus as JSON values; lengths and alphabet are of the normalised texts."""
    import numpy as np

    from textsvm.documents import encode, normalise

    encoded = encode(normalise(text) for text in corpus.texts)
    lengths = encoded.lengths
    quantiles = np.percentile(lengths, [0, 25, 50, 75, 100]).round().astype(int).tolist()
    labels = Counter(
        one for each in corpus.labels or [] for one in (each if isinstance(each, tuple) else (each,))
    )
    return {
        "source": corpus.source,
        "format": corpus.format,
        "n": len(corpus),
        "parts": dict(Counter(part or "none" for part in corpus.part)),
        "labels": dict(labels.most_common()),
        "unlabelled": sum(1 for each in corpus.labels or [] if each == ()),
        "lengths": dict(zip(("min", "q1", "median", "q3", "max"), quantiles, strict=True))
        | {"mean": float(lengths.mean())},
        "empty": int((lengths == 0).sum()),
        "duplicates": [list(group) for group in corpus.duplicates()],
        "alphabet": len(encoded.alphabet),
        "problems": [{"id": identifier, "problem": problem} for identifier, problem in corpus.problems],
    }


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
