"""Long texts as pieces that are trained as a group and predicted together, without lines that they share.

A text is cut into pieces of nearly equal length, at the end of a paragraph, of a sentence, or of a word.

Headers and footers (a licence, a list's footer, a signature) are lines that many texts of a class begin or
end with. Variants differ in titles and names, so lines are compared one by one, by their first words without
case and numbers. A block reaches from the edge of a text to the last shared line for which at least half of
the lines are shared, with at most `GAP` others in between. It does not depend on the label of the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, pairwise

import numpy as np

from textsvm.arrays import Floats, Ints, Json
from textsvm.errors import InputError, first_few, printable

LEAST = 100  #: Fewest characters of a piece
ROOM = 10  #: A cut is moved by at most 1 / ROOM of the length of a piece
#: Where a text may be cut, the best first: behind an empty line, a sentence or a word.
_ENDS = [re.compile(end) for end in (r"\n[^\S\n]*\n", r"[.!?…][\"'’”»)\]]*\s+|[。！？]", r"\s+")]
ZONE, SPAN = 400, 40_000  #: Lines and characters at the edges of a text that are compared
WORDS, GAP = 4, 10  #: Words of a line that are compared; most lines between two shared lines
SMALL_GAP = 2  #: The same if otherwise a text of few lines would be a block from its first line to its last
FEWEST = 3  #: Texts of a class that share a line
SAMPLE = 100  #: Texts of a class that are compared
ELSEWHERE = 0.1  #: Largest share of the texts of another class with a line that tells the class
_LINE, _NUMBER = re.compile(r"[^\n]*\S[^\n]*"), re.compile(r"\d+")
#: Digests and bounds of the lines with a character, from an edge of a text.
_Edge = Sequence[tuple[str, int, int]]


@dataclass(frozen=True)
class Pieces:
    """Cutting of texts: into pieces of a length, without shared lines at the edges.

    Parameters
    ----------
    length : int, optional
        Characters of a piece; None keeps texts whole.
    first, last : frozenset of str
        Digests of shared lines at beginnings and ends, see `Pieces.without_common`.

    Examples
    --------
    >>> from textsvm import Pieces
    >>> [len(piece) for piece in Pieces(100).cut("It is a sentence of 34 characters. " * 9)]
    [105, 105, 105]
    """

    length: int | None = None
    first: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        whole = isinstance(self.length, int | np.integer) and not isinstance(self.length, bool)
        if self.length is not None and not (whole and self.length >= LEAST):
            raise InputError(f"length={self.length!r} must be a whole number of at least {LEAST}, or None")

    @classmethod
    def without_common(
        cls, texts: Sequence[str], labels: Sequence[object], length: int | None = None
    ) -> tuple[Pieces, list[str]]:
        """Pieces without lines that half of the texts of a class share, and sentences on telling ones."""
        classes, codes = np.unique([str(label) for label in labels], return_inverse=True)
        members = [np.flatnonzero(codes == c) for c in range(len(classes))]
        rows = [i for own in members for i in own[:: -(-len(own) // SAMPLE)].tolist()]
        codes, shared, sentences = codes[rows], list[frozenset[str]](), list[str]()
        sizes, compared = np.bincount(codes), "compared " * (len(rows) < len(texts))
        for verb in ("begin", "end"):
            edges = [_edge(texts[i], verb == "end") for i in rows]
            pairs = zip(edges, codes.tolist(), strict=True)
            counts = Counter(pair for edge, c in pairs for pair in {(key, c) for key, _, _ in edge})
            lines = {key for (key, c), n in counts.items() if n >= max(FEWEST, sizes[c] / 2)}
            shared.append(frozenset(lines))
            telling = {k for k in lines if any(counts[k, c] <= ELSEWHERE * n for c, n in enumerate(sizes))}
            blocks = [_block(edge, telling) for edge in edges]
            n_blocks = np.bincount(codes, np.array(blocks) > 0)
            own = n_blocks >= np.maximum(FEWEST, sizes / 2)
            if own.any():
                k = next(k for k, n in enumerate(blocks) if n and own[codes[k]])
                names = classes[own].tolist()
                spans = (texts[rows[k]][a:b] for key, a, b in edges[k][: blocks[k]] if key in telling)
                line, others = printable(max(spans, key=len).strip()[:80]), sizes[~own].sum()
                beside = f", and {n_blocks[~own].sum():,.0f} of {others:,} others" if others else ""
                sentences.append(
                    f"{n_blocks[own].sum():,.0f} of {sizes[own].sum():,} {compared}texts of "
                    f"{first_few(names)} {verb} with shared lines{beside}, such as {line!r}"
                )
        return cls(length, *shared), sentences

    def cut(self, text: str) -> list[str]:
        """The pieces of a text, at least one; a text of shared lines alone stays as it is."""
        text, _ = without_shared(self, text)
        if self.length is None:
            return [text]
        n, room, bounds = max(1, round(len(text) / self.length)), self.length // ROOM, [0]
        for at in (len(text) * k // n for k in range(1, n)):
            near = text[at - room : at + room]
            ends = ([match.end() for match in end.finditer(near)] for end in _ENDS)
            best = min(next(filter(None, ends), [room]), key=lambda end: abs(end - room))
            bounds.append(at - room + best)
        pieces = [text[start:stop] for start, stop in pairwise([*bounds, len(text)])]
        return [piece for piece in pieces if piece.strip()] or [text]

    def cut_all(self, texts: Iterable[str]) -> tuple[list[str], Ints]:
        """The pieces of all texts, and the number of the text of each."""
        pieces = [self.cut(text) for text in texts]
        numbers = np.repeat(np.arange(len(pieces)), [len(own) for own in pieces])
        return [piece for own in pieces for piece in own], numbers

    @classmethod
    def read(cls, form: Json) -> Pieces:
        """Pieces of the JSON values of a model file; InputError for damaged values."""
        if lost := {"length", "first", "last"} - form.keys():
            raise InputError(f"its pieces have no {min(lost)}")
        lines = [form["first"], form["last"]]
        if not all(isinstance(own, list) and {*map(type, own)} <= {str} for own in lines):
            raise InputError("its shared lines are not lists of digests")
        return cls(form["length"], *map(frozenset, lines))


def without_shared(pieces: Pieces, text: str) -> tuple[str, int]:
    """A text without shared lines at its edges, and their number; a text of them alone as it is, and 0."""
    if not (pieces.first or pieces.last):
        return text, 0
    head, tail = _edge(text, False), _edge(text, True)
    n, m = _block(head, pieces.first), _block(tail, pieces.last)
    rest = text[head[n - 1][2] if n else 0 : tail[m - 1][1] if m else len(text)]
    return (rest, n + m) if rest.strip() else (text, 0)


def mean_of_pieces(values: Floats, texts: Ints) -> Floats:
    """Means of the values of pieces, a row for each text; `texts` are ascending numbers of texts from 0."""
    sums: Floats = np.add.reduceat(values, np.flatnonzero(np.diff(texts, prepend=-1)), axis=0)
    return (sums.T / np.bincount(texts)).T


def _edge(text: str, at_end: bool) -> _Edge:
    first = max(0, len(text) - SPAN) if at_end else 0
    lines = [*_LINE.finditer(text, first, first + SPAN)]
    return [(_key(line[0]), *line.span()) for line in islice(lines[::-1] if at_end else lines, ZONE)]


def _key(line: str) -> str:
    """Digest of the first words of a line, without case, numbers and repeated spaces."""
    form = _NUMBER.sub("0", " ".join(line.casefold().split()[:WORDS]))
    return blake2b(form.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _block(edge: _Edge, shared: Collection[str]) -> int:
    """Number of lines of a block of shared lines at an edge; 0 if it is the whole text."""
    for gap in (GAP, SMALL_GAP):
        end = n_shared = 0
        for number, (key, _, _) in enumerate(edge, 1):
            n_shared += key in shared
            if key in shared and 2 * n_shared >= number:
                end = number
            elif number - end > gap:
                break
        if end < len(edge) or len(edge) == ZONE:
            return end
    return 0
