"""textsvm verify: whether disputed texts are by an author of known texts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from textsvm.cli import options
from textsvm.cli.console import Console
from textsvm.errors import plural, printable

Known = Annotated[Path, typer.Argument(help="Known texts with their authors.", show_default=False)]
Disputed = Annotated[
    list[str], typer.Argument(help="Disputed texts, or folders of them.", show_default=False)
]
#: Fields of groups that are no options of `verify`.
_WITHOUT = {
    "annotators", "encoding", "format", "header", "headers", "id", "labels", "negative", "numbers", "part",
    "positive", "sheet", "skip_invalid", "vectors",
}  # fmt: skip


@partial(options.with_groups, without=_WITHOUT)
def verify(
    texts: Known, disputed: Disputed, reading: options.ReadingOptions, printing: options.PrintingOptions
) -> None:
    """Verify authors: is a disputed text by any of them at all? By the method of imposters.

    textsvm verify authors/ --groups folder disputed.txt

    A score is the share of rounds in which an author's text is more similar than those of all others. The
    known texts, cut to the length of the disputed text, say from which score on the answer is yes.
    """
    from textsvm.cli import corpora
    from textsvm.evaluation import verification

    console = Console(printing.quiet)
    corpus = corpora.read(console, texts, reading, options.NoLearning())
    corpora.say_grouping(console, corpus)
    recorded = {"text": reading.text[0]} if reading.text else None
    asked = corpora.read_unlabelled(console, disputed, options.TableOptions(), None, recorded=recorded)
    with console.progress():
        result = verification.verify(
            corpus.texts, corpora.targets(corpus), asked.texts, corpus.groups,
            progress=console.progress_of("verify"),
        )  # fmt: skip
    seconds = console.lap("verify")
    if printing.json:
        console.print_json({"ids": asked.ids, **result.as_dict(), "seconds": seconds})
        return
    for name, scores in zip(asked.ids, result.scores, strict=True):
        order = scores.argsort()[::-1][:5]
        rows = [(printable(result.authors[i]), f"{scores[i]:.2f}", result.verdict(scores[i])) for i in order]
        console.table(printable(name), rows, ("author", "score", "verdict"))
    low, high = result.limits
    console.line(
        f"yes from {high:.2f}, no below {low:.2f}: limits with c@1 {result.c_at_1:.2f} and area under ROC "
        f"{result.auc:.2f} for {plural(len(result.own), 'known piece')} of {result.length:,} characters"
    )
    if not result.reliable:
        console.warn("known texts of this length cannot be told apart: no verdict; longer or more texts help")
    elif corpus.groups is None:
        console.warn("known texts count as works of their own; if some are of one book, name it by --groups")
