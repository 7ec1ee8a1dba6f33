"""textsvm doubts: texts whose label is probably wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import examples, machines, model_files, options
from textsvm.cli.console import Console, WrongUsage, json_line
from textsvm.cli.output import DOUBTS, REPORTS, STDOUT, Force, Output

if TYPE_CHECKING:
    from textsvm.readers import Corpus
    from textsvm.selection.doubts import Doubt


@dataclass(frozen=True)
class Listing:
    """Which texts are listed, and where."""

    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where the list goes, as JSON Lines; - is stdout.")
    ] = STDOUT
    report: Annotated[Path | None, typer.Option(help="Write a page to review them on: .html.")] = None
    at_least: Annotated[
        float,
        typer.Option(
            min=0, max=1,
            help="List doubtful labels of this score and more; near-copies of different labels and texts "
            "that resemble nothing are listed in any case.",
        ),
    ] = 0.5  # fmt: skip
    folds: Annotated[int, typer.Option(min=2, help="Parts, each judged by machines of the others.")] = 10
    seed: Annotated[int, typer.Option(help="Seed of the folds.")] = 0
    force: Force = False

    def outputs(self, corpus: list[Path]) -> tuple[Output, Output | None]:
        """The list and the page, checked."""
        listed = Output("-o", self.output, DOUBTS, self.force)
        listed.check({"the corpus": corpus})
        if self.report is None:
            return listed, None
        if self.report.suffix.lower() not in (".html", ".htm"):
            raise WrongUsage(f"--report {self.report}: the page is .html, and the name does not end so")
        page = Output("--report", self.report, REPORTS[".html"], self.force)
        page.check({"the corpus": corpus, "the list": None if listed.is_stdout else self.output})
        return listed, page


@options.with_groups
def doubts(
    corpus: options.CorpusPath,
    reading: options.Reading,
    listing: Listing,
    made_from: machines.SingleOptions,
    quiet: options.Quiet = False,
) -> None:
    """List texts whose label is probably wrong, near-copies that have different labels, and odd texts out.

    textsvm doubts reviews.csv --text text --label stars --report doubts.html

    Each label is judged by classifiers that have not seen the text, and by the most similar texts.
    """
    from textsvm.selection.doubts import doubts as find

    listed, page = listing.outputs(corpus)
    made_from.cluster.check()
    console = Console(quiet)
    learning = options.Learning()
    model: Any = made_from.estimator(learning)
    documents = options.read(console, corpus, reading, learning, kernel=examples.kernel_of(model))
    examples.settle(console, model, made_from.kernel.named, documents)
    labels = options.targets(documents)
    working = made_from.cluster.at_work(console)
    with working, console.progress(), console.warnings(), console.kept_in(model.store):
        found = find(
            model, documents.examples, labels,
            cv=listing.folds, random_state=listing.seed, progress=console.stage,
        )  # fmt: skip
    ranked = found.ranked(documents.ids, listing.at_least)
    if page is not None:
        _write_page(page.path, f"Doubtful labels of {documents.source}", ranked, documents, labels)
        console.say(f"report: {page.path}")
    with listed.place() as path:
        _write(path, ranked, documents)
    console.say_device(model_files.device_of(model))
    doubtful = sum("label" in each.kinds for each in ranked)
    console.say(
        f"note: {doubtful:,} of {len(documents):,} labels are doubtful; {len(ranked):,} texts are listed"
    )


def _write(path: Path, ranked: list[Doubt], corpus: Corpus) -> None:
    from textsvm.runtime.files import replacing

    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as stream:
        for each in ranked:
            row = {
                "id": corpus.ids[each.index],
                "label": each.label,
                "suggested": each.suggested,
                "score": round(each.score, 6),
                "kinds": list(each.kinds),
                "reasons": each.reasons,
                "similar": corpus.ids[each.other],
                "similarity": round(each.similarity, 6),
            }
            stream.write(json_line(row))


def _write_page(path: Path, title: str, ranked: list[Doubt], corpus: Corpus, labels: list[Any]) -> None:
    from textsvm.reporting.pages import Review, review_page
    from textsvm.runtime.files import replacing

    with replacing(path) as temporary:
        text = review_page(Review(title, ranked, corpus.ids, labels, text_of(corpus)))
        temporary.write_text(text, "utf-8", newline="\n")


def text_of(corpus: Corpus) -> Callable[[int], str]:
    """What there is to be read of a document of a corpus, by its number."""
    columns = {
        name: values for name, values in (corpus.columns or {}).items() if not hasattr(values, "dtype")
    }
    if columns:
        return lambda i: "\n".join(f"{name}: {values[i]}" for name, values in columns.items())
    return (lambda i: corpus.texts[i]) if len(corpus.texts) else (lambda i: "")
