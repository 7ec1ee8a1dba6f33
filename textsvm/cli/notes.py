"""What is said of a corpus before the work: what was guessed, is empty, double, very long, hardly a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textsvm.cli.console import Console
    from textsvm.readers import Corpus


def problems(console: Console, corpus: Corpus) -> None:
    """Say what was guessed or left out in reading, and count empty documents and copies."""
    for identifier, problem in corpus.problems[:5]:
        console.say(f"note: {identifier}: {problem}")
    if len(corpus.problems) > 5:
        console.say(
            f"note: {len(corpus.problems) - 5:,} more notes of that kind; `textsvm corpus` shows them all"
        )
    if len(corpus.texts) and corpus.columns is None and (empty := sum(map(_is_empty, corpus.texts))):
        console.say(f"note: {empty:,} of {len(corpus):,} documents are empty")
    groups = corpus.duplicates()
    if groups:
        extra = sum(len(group) - 1 for group in groups)
        conflicts = len(corpus.conflicting_duplicates())
        odd = f"; {conflicts:,} sets of copies do not agree in their labels" if conflicts else ""
        console.say(f"note: {extra:,} of {len(corpus):,} documents are exact copies of others{odd}")


def long_documents(console: Console, corpus: Corpus) -> None:
    """Say so where a kernel with a product of lengths meets a very long document."""
    if not len(corpus.texts):
        return
    longest = max(range(len(corpus)), key=lambda i: len(corpus.texts[i]))
    length = len(corpus.texts[longest])
    if length > 100_000:
        console.say(
            f"note: {corpus.ids[longest]} has {length:,} symbols, and the time of this kernel grows with the "
            "product of lengths; --max-length bounds it, and the spectrum kernel does not mind"
        )


def lone_classes(console: Console, counts: Mapping[str, int]) -> None:
    """Say so where half of the classes or more have one document: such labels are often names or numbers."""
    lone = sum(count == 1 for count in counts.values())
    if lone > 1 and 2 * lone >= len(counts):
        console.say(
            f"note: {lone:,} of the {len(counts):,} classes have a single document, from which nothing "
            "can be learnt of others; are these the labels that were meant (--label), or numbers (--regress)?"
        )


def _is_empty(text: str) -> bool:
    """Whether a text has nothing but white space."""
    return not text or text.isspace()
