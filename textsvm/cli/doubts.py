"""textsvm doubts: texts whose label is probably wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.cli import machines, options
from textsvm.cli.console import Console
from textsvm.cli.options import option_field
from textsvm.cli.output import DOUBTS, STDOUT, Force, Output, check_report, table_kind, write_rows, writing

if TYPE_CHECKING:
    from textsvm.arrays import Json
    from textsvm.readers.corpus import Corpus
    from textsvm.selection.doubts import Doubt


@dataclass(frozen=True)
class ListingOptions:
    """Selection and output of doubtful texts."""

    output: Path = option_field(
        "Output file: .jsonl (also stdout, -), .json; .csv, .tsv, .xlsx or .parquet with texts and columns.",
        "-o", "--output", default=STDOUT,
    )  # fmt: skip
    report: Path | None = option_field("Page for reviewing them, .html; save the decisions made on it.")
    at_least: float = option_field(
        "Minimum score of doubtful labels. Near-copies with different labels and texts similar to no "
        "other text are always listed.", min=0, max=1, default=0.5,
    )  # fmt: skip
    force: Force = False

    def checked(self, corpus: list[Path]) -> Output:
        """Output file; raises WrongUsage."""
        kind = table_kind("-o", self.output, DOUBTS)
        output = Output("-o", self.output, kind, self.force).checked({"the corpus": corpus})
        if self.report is not None:
            inputs = {"the corpus": corpus, "the list": None if output.is_stdout else self.output}
            check_report("--report", self.report, self.force, inputs, (".html",))
        return output


#: Fields of groups that are no options of `doubts`.
_WITHOUT = {
    "annotators", "headers", "labels", "negative", "numbers", "part", "vectors", "normalise",
    "max_length", "C", "epsilon", "multiclass", "class_weight", "scoring", "tol",
    "memory", "store", "solver", "encoder",
}  # fmt: skip


@partial(options.with_groups, without=_WITHOUT)
def doubts(
    corpus: options.CorpusPath, reading: options.ReadingOptions, listing: ListingOptions,
    model_options: machines.ModelOptions, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """List texts with probably wrong labels, near-copies with different labels, and outliers.

    textsvm doubts reviews.csv --text text --label stars --report doubts.html

    Each label is compared with out-of-fold predictions and with the labels of the most similar texts.
    """
    from textsvm.cli import corpora, settings
    from textsvm.reporting.labelled_rows import cell_for
    from textsvm.reporting.pages import Review, review_page
    from textsvm.runtime.device import select
    from textsvm.selection.doubts import doubts as find_doubts

    output = listing.checked(corpus)
    console, format = Console(quiet), output.kind.format
    learning = options.LearningOptions()
    tested = settings.single(model_options, learning)
    of_table = format not in ("jsonl", "json")
    documents = corpora.read(console, corpus, reading, learning, kernel=tested.kernel, keep_rows=of_table)
    tested = settings.settle(console, tested, model_options.kernel.named, documents, auto=False)
    labels = corpora.targets(documents)
    corpora.check_classes(documents, reading.label)
    console.lap("read")
    with console.work():
        result = find_doubts(
            tested, documents.examples, labels,
            groups=documents.groups, random_state=0, progress=console.stage,
        )  # fmt: skip
    console.lap("solve")
    ranked = result.ranked(documents.ids, listing.at_least)
    if listing.report is not None:
        title = f"Doubtful labels of {corpora.names_of(corpus)}"
        with writing(listing.report) as stream:
            stream.write(review_page(Review(title, ranked, documents.ids, labels, text_of(documents))))
        console.say(f"report: {listing.report}")
    rows = [_row(doubt, documents) for doubt in ranked]
    for row, doubt in zip(rows, ranked, strict=True) if of_table else ():
        cells = documents.rows[doubt.index] if documents.rows else {"text": text_of(documents)(doubt.index)}
        for name, cell in (cells or {}).items():
            row[name if row.get(name, cell) == cell else f"table_{name}"] = cell_for(format, cell)
    write_rows(output, list(dict.fromkeys([*_COLUMNS, *(name for row in rows for name in row)])), rows)
    console.lap("report")
    console.say_device(select(tested.device))
    corpora.say_copies(console, result.copies)
    doubtful = sum("label" in doubt.kinds for doubt in ranked)
    console.say(
        f"note: {doubtful:,} of {len(documents):,} labels are doubtful; {len(ranked):,} texts are listed"
    )


_COLUMNS = ("id", "label", "suggested", "score", "kinds", "reasons", "similar", "similarity")


def _row(doubt: Doubt, corpus: Corpus) -> Json:
    values = (
        corpus.ids[doubt.index], doubt.label, doubt.suggested, round(doubt.score, 6), list(doubt.kinds),
        doubt.reasons, corpus.ids[doubt.other], round(doubt.similarity, 6),
    )  # fmt: skip
    return dict(zip(_COLUMNS, values, strict=True))


def text_of(corpus: Corpus) -> Callable[[int], str]:
    """Function from the index of a document to its readable text."""
    columns = {name: values for name, values in (corpus.columns or {}).items() if isinstance(values[0], str)}
    if columns:
        return lambda i: "\n".join(f"{name}: {values[i]}" for name, values in columns.items())
    return (lambda i: corpus.texts[i]) if len(corpus.texts) else (lambda i: "")
