"""textsvm corpus: statistics of a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textsvm.cli import options
from textsvm.cli.console import Console

if TYPE_CHECKING:
    from textsvm.arrays import Json


#: Fields of the groups that are no options of `corpus`.
_WITHOUT = {
    "groups", "headers", "labels", "negative", "positive", "numbers", "vectors", "part", "id", "annotators",
    "weights", "label_separator", "corrections", "chunk", "strip_common",
}  # fmt: skip


@partial(options.with_groups, without=_WITHOUT)
def corpus(
    corpus: options.CorpusPath, reading: options.ReadingOptions, learning: options.LearningOptions,
    json: options.Json = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Show statistics of a corpus: parts, labels or numbers, lengths, duplicates, alphabet, problems."""
    from textsvm.cli import corpora
    from textsvm.readers.statistics import describe

    console = Console(quiet)
    console.notes *= json  # the tables have them all
    documents = corpora.read(console, corpus, reading, learning)
    corpora.say_grouping(console, documents)
    corpora.cut(console, documents, learning)
    summary = describe(documents)
    seconds = console.lap("describe")
    console.print_json(summary | {"seconds": seconds}) if json else _show(console, summary)


def _show(console: Console, summary: Json) -> None:
    console.table(f"{summary['source']} ({summary['format']})", list(_facts(summary)))
    if summary["labels"]:
        rows = [(str(name), f"{count:,}") for name, count in list(summary["labels"].items())[:20]]
        if len(summary["labels"]) > 20:
            rows.append((f"and {len(summary['labels']) - 20} more", ""))
        if summary["unlabelled"]:
            rows.append(("(no label)", f"{summary['unlabelled']:,}"))
        console.table("labels", rows, ("label", "documents"))
    if summary["problems"]:
        console.line("notes on reading\n")
        for problem in summary["problems"]:
            console.line(f"  {problem['id']}: {problem['problem']}")


def _facts(summary: Json) -> Iterator[tuple[str, str]]:
    yield "documents", f"{summary['n']:,}"
    yield "parts", ", ".join(f"{part} {count:,}" for part, count in summary["parts"].items())
    columns, lengths = summary["columns"] or {}, summary["lengths"]
    if lengths is not None and not columns:
        yield "symbols a document", _span(lengths)
        yield "symbols, mean", f"{lengths['mean']:,.1f}"
        yield "empty documents", f"{summary['empty']:,}"
        yield "alphabet", f"{summary['alphabet']:,} symbols"
    if summary["numbers"] is not None:
        yield "numbers", _range(summary["numbers"])
    if vectors := summary["vectors"]:
        kind = "sparse" if vectors["sparse"] else "dense"
        yield "vectors", f"{vectors['d']:,} columns, {kind}, {vectors['type']}"
        yield "non-zeros", f"{vectors['non_zeros']:,}, {100 * vectors['share']:.3g} %"
        yield "values", f"{vectors['least']:g} to {vectors['most']:g}"
    for name, column in columns.items():
        if "numbers" in column:
            yield f"column {name}", _range(column["numbers"])
        else:
            yield f"column {name}", f"{_span(column['lengths'])} symbols, {column['empty']:,} empty"
    groups = summary["duplicates"]
    yield "exact copies", f"{sum(len(group) - 1 for group in groups):,} in {len(groups):,} groups"
    yield "notes on reading", f"{len(summary['problems']):,}"


def _span(lengths: Json) -> str:
    return f"{lengths['min']:,} to {lengths['max']:,}, median {lengths['median']:,}"


def _range(numbers: dict[str, float]) -> str:
    return f"{numbers['min']:g} to {numbers['max']:g}, median {numbers['median']:g}"
