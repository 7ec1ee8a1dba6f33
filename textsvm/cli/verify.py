"""textsvm verify: whether disputed texts are by an author of known texts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textsvm.cli import options
from textsvm.cli.console import Console
from textsvm.errors import plural, printable

if TYPE_CHECKING:
    from textsvm.evaluation.verification import Verification

Known = Annotated[Path, typer.Argument(help="Known texts with their authors.", show_default=False)]
Disputed = Annotated[
    list[str], typer.Argument(help="Disputed texts, or folders of them.", show_default=False)
]
SHOWN = 10  #: Authors that are shown of a text.
#: Fields of groups that are no options of `verify`.
_WITHOUT = {
    "annotators", "encoding", "format", "headers", "id", "labels", "negative", "numbers", "part",
    "positive", "sheet", "skip_invalid", "table", "vectors",
}  # fmt: skip


@partial(options.with_groups, without=_WITHOUT)
def verify(
    texts: Known, disputed: Disputed, reading: options.ReadingOptions, printing: options.PrintingOptions
) -> None:
    """Verify authors: is a disputed text by any of them at all? By the method of imposters.

    textsvm verify authors/ --groups folder disputed.txt

    A score is the share of rounds in which an author's text is more similar than a random half of the
    texts of all others. The known texts, in pieces of the same length, say from which score on the answer
    is yes. Lines that many texts of an author begin or end with are left out.
    """
    from textsvm.cli import corpora
    from textsvm.evaluation import verification

    console = Console(printing.quiet)
    if reading.text:  # several columns are one text
        reading = replace(reading, text=[",".join(reading.text)])
    corpus = corpora.read(console, texts, reading)
    corpora.say_grouping(console, corpus)
    recorded = {"text": reading.text[0]} if reading.text else {}
    asked = corpora.read_unlabelled(
        console, disputed, options.TableOptions(), None, of_files=True, recorded=recorded
    )
    with console.progress():
        by_id, progress = dict(zip(asked.ids, asked.texts, strict=True)), console.progress_of("verify")
        labels = corpora.targets(corpus)
        results = verification.verify_all(corpus.texts, labels, by_id, corpus.groups, progress=progress)
    console.say(*(f"note: {block}; they are left out" for block in results[0].left_out))
    seconds = console.lap("verify")
    if printing.json:
        rows = [{"id": name, **result.as_dict()} for name, result in zip(asked.ids, results, strict=True)]
        console.print_json({"texts": rows, "seconds": seconds})
        return
    for name, result in zip(asked.ids, results, strict=True):
        _show(console, name, result)
    if not all(result.reliable for result in results):
        console.warn("known texts of this length cannot be told apart: no verdict; longer or more texts help")
    elif corpus.groups is None:
        console.say("note: each known text counts as a work; name the book of chapters by --groups")


def _show(console: Console, name: str, result: Verification) -> None:
    """Print scores, the largest first, and limits."""
    pairs = [(result.authors[i], result.scores[i]) for i in result.scores.argsort()[::-1]]
    rows = [(printable(author), f"{score:.2f}", result.verdict(score)) for author, score in pairs[:SHOWN]]
    if len(pairs) > SHOWN:
        rows.append((f"and {len(pairs) - SHOWN} more", "", ""))
    console.table(printable(name), rows, ("author", "score", "verdict"))
    (low, high), yes, strangers = result.limits, "no score is a yes", (result.strangers == 1).mean()
    one = f"{strangers:.0%} have the score 1 for another (more works of each author help)"
    if high <= 1:
        yes, one = f"yes from {high:.2f}", f"{result.false_yes:.0%} get one"
    console.line(
        f"{yes}, no below {low:.2f}: limits with c@1 {result.c_at_1:.2f} and area under ROC {result.auc:.2f} "
        f"for {plural(len(result.own), 'known piece')} of {result.length:,} characters\n"
        f"{result.true_yes:.0%} of these get a yes for their author, by other texts; if the texts of their "
        f"author are left out, {one}, as texts by nobody here may\n"
    )
