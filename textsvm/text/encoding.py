"""Encoding of texts to codes on all cores, without Python code per character.

Texts are read in chunks, each encoded over its own alphabet, after which its Python strings are freed; then
all are written over a common alphabet. ASCII texts use a byte per character throughout. `find_words` and
`distinct` find words and number equal spans exactly: equal hashes are compared symbol by symbol.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from textsvm.arrays import AnyArray, Ints
from textsvm.runtime.compiled import njit, use_numpy
from textsvm.runtime.parallel import Progress, n_threads, part, run
from textsvm.text.normal_form import JOINED, SEVERAL, SPACE, UNKNOWN, NormalForm, normalise
from textsvm.text.tokens import ALONE, WITHIN

#: Characters per chunk, and number of texts by which a chunk of short texts grows.
CHUNK, GROUP = 1 << 20, 16
CHUNKS = 4  #: Chunks per thread that are read ahead.
FEW = 1 << 10  #: Initial room for distinct spans.
#: Symbols per piece of work of `find_words`.
PIECE = 1 << 20
POINTS = sys.maxunicode + 1
#: Tables as long as Unicode, reused by a thread: allocating them takes longer than reading a short text.
_scratch = threading.local()


@dataclass(frozen=True)
class Reading:
    """How texts are read: their normal form, and the length to which they are then cut."""

    form: NormalForm
    max_length: int | None = None


@dataclass(frozen=True)
class TextChunk:
    """Some texts encoded over their own alphabet."""

    #: shape (n,): Numbers of the texts, and their lengths.
    numbers: Ints
    lengths: Ints
    codes: NDArray[np.unsignedinteger]  #: uint8, uint16 or uint32 array, shape (total number of symbols,)
    symbols: NDArray[np.uint32]  #: shape (number of symbols,): Alphabet in order of first occurrence


def encode_characters(
    texts: Iterable[str], reading: Reading, first: NDArray[np.uint32], progress: Progress | None = None
) -> tuple[NDArray[np.unsignedinteger], Ints, NDArray[np.uint32]]:
    """Normalise texts and encode their characters: codes, offsets (n + 1,) and alphabet.

    Texts are consumed once, a few million characters at a time. The alphabet is `first` followed by the
    other symbols of the texts, sorted.
    """
    parts = list(text_chunks(texts, reading, progress))
    lengths = np.empty(sum(len(chunk.numbers) for chunk in parts), np.int64)
    for chunk in parts:
        lengths[chunk.numbers] = chunk.lengths
    offsets = offsets_of(lengths)
    alphabet = extended(first, [chunk.symbols for chunk in parts])
    codes = np.empty(offsets[-1], code_type(len(alphabet)))
    code_of = np.zeros(int(alphabet.max(initial=0)) + 1, codes.dtype)
    code_of[alphabet] = np.arange(len(alphabet))
    empty = TextChunk(offsets[:0], offsets[:0], codes[:0], alphabet[:0])

    def place(k: int) -> None:
        chunk, parts[k] = parts[k], empty  # its memory is needed no longer
        if use_numpy(len(chunk.codes)):
            ends = offsets_of(chunk.lengths)
            for i, first in enumerate(offsets[chunk.numbers]):
                symbols = chunk.symbols[chunk.codes[ends[i] : ends[i + 1]]]
                codes[first : first + chunk.lengths[i]] = code_of[symbols]
            return
        _place(chunk.codes, chunk.lengths, offsets[chunk.numbers], code_of[chunk.symbols], codes)

    run(place, range(len(parts)))
    return codes, offsets, alphabet


def extended(first: NDArray[np.uint32], symbols: Sequence[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """An alphabet followed by the other symbols, sorted."""
    present = np.unique(np.concatenate([np.empty(0, np.uint32), *symbols]))
    return np.concatenate([first, np.setdiff1d(present, first, assume_unique=True)]).astype(np.uint32)


def gather(
    codes: NDArray[np.unsignedinteger], starts: Ints, stops: Ints
) -> tuple[NDArray[np.unsignedinteger], Ints]:
    """Concatenate ``codes[starts[k]:stops[k]]``; return the codes and their offsets."""
    offsets = offsets_of(stops - starts)
    if use_numpy(len(starts) + int(offsets[-1])):
        return np.concatenate([codes[:0], *(codes[a:b] for a, b in zip(starts, stops, strict=True))]), offsets
    taken = np.empty(offsets[-1], codes.dtype)
    _gather(codes, starts, offsets, taken)
    return taken, offsets


def offsets_of(lengths: Iterable[int]) -> Ints:
    """Offsets of concatenated documents of these lengths."""
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, np.int64)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def code_type(n_symbols: int) -> type[np.unsignedinteger]:
    """Dtype of codes over an alphabet of this size."""
    return np.min_scalar_type(max(n_symbols, 1) - 1).type


def decode(points: NDArray[np.unsignedinteger]) -> str:
    """Text of code points."""
    return points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def text_chunks(texts: Iterable[str], reading: Reading, progress: Progress | None) -> Iterator[TextChunk]:
    """Encode texts on all cores, a few chunks per core at a time."""
    chunks, first = _chunks(texts), 0
    while batch := list(islice(chunks, CHUNKS * n_threads())):
        size = sum(map(len, batch))
        step = part(progress, first, size, len(texts)) if isinstance(texts, Sized) else None
        yield from _read_all(batch, first, reading, step)
        first += size


def _read_all(
    batch: list[list[str]], first: int, reading: Reading, progress: Progress | None
) -> Iterator[TextChunk]:
    """Encode chunks of texts and release them; `first` is the number of the first text."""
    numbers = first + offsets_of(map(len, batch))
    encoded: list[list[TextChunk]] = [[] for _ in batch]

    def read(k: int) -> None:
        encoded[k] = _read(batch[k], int(numbers[k]), reading)
        batch[k] = []

    run(read, range(len(batch)), progress=progress)
    return chain.from_iterable(encoded)


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    rest, chunk, size, step = iter(texts), [], 0, 1
    while group := list(islice(rest, step)):
        chunk += group
        of_group = sum(map(len, group))
        size += of_group
        step = GROUP if of_group * GROUP <= CHUNK * len(group) else 1
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _read(texts: list[str], first: int, reading: Reading) -> list[TextChunk]:
    """Encode a chunk of texts, ASCII texts separately; `first` is the number of its first text."""
    simple = np.fromiter(map(str.isascii, texts), bool, len(texts))
    parts = []
    for chosen in (np.flatnonzero(simple), np.flatnonzero(~simple)):
        if len(chosen):
            part = texts if len(chosen) == len(texts) else [texts[i] for i in chosen]
            points, lengths = normalised(part, reading)
            symbols = _numbered(points)
            parts.append(TextChunk(first + chosen, lengths, points.astype(code_type(len(symbols))), symbols))
    return parts


def _numbered(points: AnyArray) -> NDArray[np.uint32]:
    """Replace code points by codes in place; return the code point of each code."""
    if use_numpy(len(points)):
        distinct_points, firsts, numbers = np.unique(points, return_index=True, return_inverse=True)
        order = np.argsort(firsts)
        points[:] = np.argsort(order)[numbers]
        return distinct_points[order].astype(np.uint32)
    if not hasattr(_scratch, "number"):
        _scratch.number, _scratch.symbols = np.zeros((2, POINTS), np.uint32)
    return np.array(_scratch.symbols[: _number(points, _scratch.number, _scratch.symbols)])


def normalised(texts: list[str], reading: Reading) -> tuple[AnyArray, Ints]:
    """Code points of normalised texts (uint8 for ASCII, uint32 otherwise) and their lengths."""
    form, most = reading.form, reading.max_length
    if use_numpy(sum(map(len, texts))):
        parts = [
            normalise(text, form.form, punctuation=form.punctuation, keep_case=form.keep_case)[:most]
            for text in texts
        ]
        points, starts = _points(parts)
        return points.copy(), np.diff(starts)
    if not form.changes and most is not None:
        texts = [text[:most] for text in texts]
    points, starts = _points(texts)
    if not form.changes or points.dtype != np.uint8:
        points = points.copy()  # to be written to
    if not form.changes:
        return points, np.diff(starts)
    forms, size = _ChunkForms(form), len(points)
    if points.dtype != np.uint8:
        size = forms.survey(points, starts)
    out, lengths = np.empty(size + 1, points.dtype), np.empty(len(texts), np.int64)
    most = len(out) if most is None else most
    end = int(_rewrite(points, starts, form.table, forms.more, forms.rows, form.strips, most, out, lengths))
    return out[:end], lengths


def _points(texts: list[str]) -> tuple[AnyArray, Ints]:
    """Code points of texts, read-only, and their offsets."""
    joined, starts = "".join(texts), offsets_of(map(len, texts))
    if joined.isascii():
        return np.frombuffer(joined.encode("ascii"), np.uint8), starts
    # Lone surrogates (undecodable bytes kept by a reader) are ordinary symbols.
    return np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32), starts


class _ChunkForms:
    """Normal forms of the code points of a chunk, and of pieces that are normalised together.

    more : uint32, table entries of the pieces, which appear as ``POINTS + k`` among the code points
    rows : uint32, as in `NormalForm`
    """

    def __init__(self, form: NormalForm) -> None:
        self.form, self.more, self.rows = form, np.zeros(0, np.uint32), form.rows

    def survey(self, points: NDArray[np.uint32], starts: Ints) -> int:
        """Learn new code points, substitute pieces; return an upper bound of the output size."""
        while True:
            self.rows = self.form.rows
            size, unknown, joined = _survey(points, self.form.table, self.more, self.rows)
            if unknown:
                self.form.learn(np.unique(points[self.form.table[points] == UNKNOWN]).tolist())
            elif joined:
                self._join(points, starts, joined)
                return int(_survey(points, self.form.table, self.more, self.rows)[0])
            else:
                return int(size)

    def _join(self, points: NDArray[np.uint32], starts: Ints, most: int) -> None:
        """Replace the first code point of each piece by its number, and the rest by an empty expansion."""
        first, last = np.empty((2, most), np.int64)
        n = _find_joined(points, starts, self.form.table, first, last)
        ids, firsts = distinct(points, first[:n], last[:n])
        pieces = [self.form.of(decode(points[first[i] : last[i]])) for i in firsts]
        rows = [np.array([len(piece), *piece], np.uint32) for piece in (*pieces, [])]
        self.more = (SEVERAL + len(self.rows) + offsets_of(map(len, rows))[:-1]).astype(np.uint32)
        self.rows = np.concatenate([self.rows, *rows])
        _substitute(points, first[:n], last[:n], ids, len(pieces))


@njit(nogil=True, cache=True)
def _survey(points, table, more, rows):
    """Output size of these code points, and how many of them are unknown, or joined."""
    size = unknown = joined = 0
    for point in points:
        value = table[point] if point < POINTS else more[point - POINTS]
        if value < SEVERAL:
            size += 1
            unknown += value == UNKNOWN
            joined += value == JOINED
        elif value - SEVERAL < len(rows):
            size += rows[value - SEVERAL]
        else:
            unknown += 1  # learnt by another thread since `rows` was read
    return size, unknown, joined


@njit(nogil=True, cache=True)
def _find_joined(points, starts, table, first, last):
    """Find pieces that are normalised together: joined code points and their predecessor."""
    n = 0
    for i in range(len(starts) - 1):
        inside = False
        for j in range(starts[i], starts[i + 1]):
            if table[points[j]] == JOINED:
                if not inside:
                    first[n] = max(j - 1, starts[i])
                    n += 1
                last[n - 1] = j + 1
                inside = True
            else:
                inside = False
    return n


@njit(nogil=True, cache=True)
def _substitute(points, first, last, ids, nothing):
    for i in range(len(first)):
        points[first[i]] = POINTS + ids[i]
        points[first[i] + 1 : last[i]] = POINTS + nothing


@njit(nogil=True, cache=True)
def _rewrite(points, starts, table, more, rows, strips, most, out, lengths):
    """Write the normal forms of texts, each cut at `most`, and their lengths; return the end."""
    # Unsigned: Numba checks the sign of other indices. No branch on spaces.
    at, step, most = np.uint64(0), np.uint64(1), np.uint64(most)
    for i in range(len(starts) - 1):
        first, spaced = at, np.uint64(strips)
        for point in points[starts[i] : starts[i + 1]]:
            value = table[point] if point < POINTS else more[point - POINTS]
            if value < SEVERAL:
                space = np.uint64(value == SPACE)
                out[at] = 32 if space else value - 1
                at += step - (spaced & space)
                spaced = space
            else:
                row = value - SEVERAL
                for k in range(row + 1, row + 1 + rows[row]):
                    space = np.uint64(rows[k] == SPACE)
                    out[at] = 32 if space else rows[k] - 1
                    at += step - (spaced & space)
                    spaced = space
            if at - first > most:
                break  # at most + 1: the last may be a space that is stripped
        if strips and spaced and at > first:
            at -= step
        at = min(at, first + most)
        lengths[i] = at - first
    return at


@njit(nogil=True, cache=True)
def _number(points, number, symbols):
    """Replace code points by codes in order of first occurrence; return how many there are.

    `number` is all zero before and after; `symbols` receives the code point of each code.
    """
    n = 0
    for j in range(len(points)):
        point = points[j]
        if not number[point]:
            symbols[n] = point
            n += 1
            number[point] = n
        points[j] = number[point] - 1
    for symbol in symbols[:n]:
        number[symbol] = 0
    return n


@njit(nogil=True, cache=True)
def _place(codes, lengths, first, code_of, out):
    at = 0
    for i in range(len(lengths)):
        source, taken = codes[at : at + lengths[i]], out[first[i] : first[i] + lengths[i]]
        for j in range(len(source)):
            taken[j] = code_of[source[j]]
        at += lengths[i]


@njit(nogil=True, cache=True)
def _gather(codes, first, offsets, out):
    for i in range(len(first)):
        for j in range(offsets[i + 1] - offsets[i]):  # a slice into a slice takes Numba 2 s to compile
            out[offsets[i] + j] = codes[first[i] + j]


@dataclass(frozen=True)
class TokenSpans:
    """Spans of the codes of some documents."""

    #: shape (number of distinct spans,): ``codes[starts[k]:stops[k]]`` is the first occurrence of span k.
    starts: Ints
    stops: Ints
    numbers: NDArray[np.uint32]  #: shape (number of spans,): Number of each span's content
    lengths: Ints  #: shape (n,): Number of spans of each document


def find_words(codes: AnyArray, offsets: Ints, kinds: NDArray[np.uint8]) -> list[TokenSpans]:
    """Find the words of documents on all cores, in pieces of documents that are numbered separately.

    `kinds` has the class of each symbol of the alphabet, see `textsvm.text.tokens.kinds`.
    """
    bounds = pieces_of(offsets)
    pieces: list[Any] = [None] * (len(bounds) - 1)

    def find(k: int) -> None:
        starts, stops, lengths = _find(codes, offsets[bounds[k] : bounds[k + 1] + 1], kinds)
        numbers, firsts = distinct(codes, starts, stops)
        pieces[k] = TokenSpans(starts[firsts], stops[firsts], numbers, lengths)

    run(find, range(len(pieces)))
    return pieces


def translate(
    numbers: Sequence[NDArray[np.uint32]], code_of: Sequence[AnyArray], dtype: DTypeLike
) -> AnyArray:
    """Concatenate arrays of numbers, translated to codes by the table of each array."""
    ends = np.cumsum([len(array) for array in numbers])
    codes = np.empty(ends[-1], dtype)

    def write(k: int) -> None:
        codes[ends[k] - len(numbers[k]) : ends[k]] = code_of[k][numbers[k]]

    run(write, range(len(numbers)))
    return codes


def distinct(codes: AnyArray, starts: Ints, stops: Ints) -> tuple[NDArray[np.uint32], Ints]:
    """Number spans by content, in order of first occurrence.

    Returns the number of each span, and for each number the index of its first span.
    """
    if use_numpy(len(starts) + len(codes)):
        number: dict[bytes, int] = {}
        bounds = zip(starts.tolist(), stops.tolist(), strict=True)
        numbers = [number.setdefault(codes[a:b].tobytes(), len(number)) for a, b in bounds]
        return np.array(numbers, np.uint32), np.unique(np.array(numbers, np.int64), return_index=True)[1]
    ids, size = np.empty(len(starts), np.uint32), FEW
    firsts, keys, done, n = np.empty(0, np.int64), np.empty(0, np.uint64), 0, 0
    while done < len(ids):
        firsts, keys = np.resize(firsts, size), np.resize(keys, size)
        slots = np.zeros(2 * size, np.uint32)
        _spread(keys[:n], slots)
        done, n = _fill(codes, starts, stops, done, ids, firsts, keys, slots, n)
        size *= 4
    return ids, firsts[:n]


def pieces_of(offsets: Ints) -> list[int]:
    """Boundaries of pieces of work, in documents."""
    steps = np.arange(0, max(1, offsets[-1]), PIECE)
    return [*np.unique(np.searchsorted(offsets[:-1], steps)).tolist(), len(offsets) - 1]


def _find(codes: AnyArray, offsets: Ints, kinds: NDArray[np.uint8]) -> tuple[AnyArray, AnyArray, AnyArray]:
    starts, stops = np.empty((2, offsets[-1] - offsets[0] + 1), np.int64)
    lengths = np.empty(len(offsets) - 1, np.int64)
    if use_numpy(len(starts)):
        return _find_few(kinds[codes[offsets[0] : offsets[-1]]], offsets, lengths)
    n = _find_words(codes, offsets, kinds, starts, stops, lengths)
    return starts[:n], stops[:n], lengths


def _find_few(kinds: NDArray[np.uint8], offsets: Ints, lengths: Ints) -> tuple[AnyArray, AnyArray, AnyArray]:
    within, alone, first = kinds == WITHIN, kinds == ALONE, np.zeros(len(kinds) + 1, bool)
    first[offsets - offsets[0]] = True
    before = np.concatenate([[False], within[:-1]]) & ~first[:-1] if len(kinds) else within
    after = np.concatenate([within[1:], [False]]) & ~first[1:] if len(kinds) else within
    starts = np.flatnonzero(alone | (within & ~before)) + offsets[0]
    stops = np.flatnonzero(alone | (within & ~after)) + 1 + offsets[0]
    lengths[:] = np.diff(np.searchsorted(starts, offsets))
    return starts, stops, lengths


@njit(nogil=True, cache=True)
def _find_words(codes, offsets, kinds, starts, stops, lengths):
    begun = ended = 0
    for i in range(len(offsets) - 1):
        before, inside = ended, False
        for j in range(offsets[i], offsets[i + 1]):
            # Without branches, which are unpredictable for words this short.
            within, alone = kinds[codes[j]] == WITHIN, kinds[codes[j]] == ALONE
            starts[begun] = j
            begun += alone or (within and not inside)
            stops[ended] = j
            ended += inside and not within
            stops[ended] = j + 1
            ended += alone
            inside = within
        stops[ended] = offsets[i + 1]
        ended += inside
        lengths[i] = ended - before
    return ended


@njit(nogil=True, cache=True)
def _spread(keys, slots):
    """Fill empty hash slots with the numbers of these keys."""
    for k in range(len(keys)):
        at = _slot(keys[k], len(slots))
        while slots[at]:
            at = (at + 1) & (len(slots) - 1)
        slots[at] = k + 1


@njit(nogil=True, cache=True)
def _slot(key, size):
    key *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64((key ^ (key >> np.uint64(32))) & np.uint64(size - 1))


@njit(nogil=True, cache=True)
def _fill(codes, starts, stops, begin, ids, firsts, keys, slots, n):
    """Number spans until half the slots are used; return the next span, and how many numbers there are.

    The key of a short span is its content behind a bit that marks its length; of a long span, a hash.
    """
    last, bits = len(slots) - 1, np.uint64(8 * codes.itemsize)
    for i in range(begin, len(starts)):
        start, size = starts[i], stops[i] - starts[i]
        short, key = size * codes.itemsize < 8, np.uint64(1)
        if short:
            for j in range(start, start + size):
                key = key << bits | np.uint64(codes[j])
        else:
            for j in range(start, start + size):
                key = (key ^ np.uint64(codes[j])) * np.uint64(0x9E3779B97F4A7C15)
                key ^= key >> np.uint64(29)
            key |= np.uint64(1 << 63)
        at = _slot(key, len(slots))
        while slots[at]:
            if keys[slots[at] - 1] == key:
                k = firsts[slots[at] - 1]
                if short or (stops[k] - starts[k] == size and _equal(codes, starts[k], start, size)):
                    break
            at = (at + 1) & last
        if not slots[at]:
            if n == len(firsts):
                return i, n
            firsts[n], keys[n] = i, key
            n += 1
            slots[at] = n
        ids[i] = slots[at] - 1
    return len(starts), n


@njit(nogil=True, cache=True)
def _equal(codes, first, second, size):
    j = 0
    while j < size and codes[first + j] == codes[second + j]:
        j += 1
    return j == size
