"""The binary model file, which C and JavaScript read without parsing; docs/export_format.md describes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from textsvm.apps.export.plain import PlainModel
from textsvm.arrays import AnyArray, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.contract import FeatureTable, FeatureTerm
from textsvm.runtime.plain_json import to_json
from textsvm.text.characters import HANGUL, CharacterTables, character_tables, exported_tokenizer
from textsvm.text.documents import View

Hashes = NDArray[np.uint32]
MAGIC = b"TEXTSVM\0"  #: First bytes of the file.
VERSION = 6  #: Version 4 has classes of ignorable code points, for the form "unicode", 6 tokenizers.
UNIT = 8  #: Bytes of the unit of offsets.
NONE = 0xFFFFFFFF  #: Largest number of symbols of a text without a limit.
#: Words of records.
HEADER_WORDS, VIEW_WORDS, TERM_WORDS, TABLE_WORDS, TOKENIZER_WORDS = 64, 8, 16, 32, 16
CHECKSUM = 36  #: First of the two words of the checksum in the header.
COLUMNS = 38  #: Word of the header with the number of columns.
SEEDS = (0x9E3779B9, 0x7F4A7C15)  #: Start values of the two hashes of a string of symbols.
STEPS = (0x85EBCA6B, 0xC2B2AE35)  #: Multipliers of the two hashes.
TASKS = ("classes", "labels", "number", "novelty")
COMBINATIONS = ("identity", "difference", "ovo")
NORMAL_FORMS = {"none": 0, "unicode": 1, "paper": 2}
TOKENS = {"characters": 0, "words": 1, "runs": 1, "whitespace": 2}
#: Code of the tokens of an encoder, and of terms that are divided by their number.
PIECES, MEAN = 4, 2
COUNTS = ("count", "presence", "log", "intersection")
DOUBLE = 2  #: Type of weights.
PER_BUCKET = 2  #: Strings per bucket.
LOGS = 1024  #: Counts c whose 1 + ln c the file has.
IN_ROW = 5  #: Type of factors that are the first element of each row of weights.
SCANNED = 4  #: Tags that a reader may read behind the end.
BLOCK = 128  #: Code points of a block of the Unicode tables.


@dataclass(frozen=True)
class PackedTable:
    """A table of features as arrays of the file, with n strings sorted by bucket."""

    table: FeatureTable
    starts: Hashes  #: shape (n_buckets + 1,): First string of each bucket
    tags: AnyArray  #: uint64, shape (n,): Key of each string, its first hash times 2**32 plus its second hash
    factors: NDArray[np.floating] | None  #: shape (n,)
    #: shape (n + 1 + number of repeats, n_machines): Weights of the strings, a row of zeros for unknown
    #: strings, and cumulated weights of 2, 3, ... occurrences of strings with several rows
    weights: AnyArray
    more: Ints | None  #: shape (n + 1,): First repeat of each string; None without repeats
    #: Whether its strings begin and end with strings of the table before, which are one symbol shorter: a
    #: reader need not look for a string if it did not find one of these two.
    closed: bool = False


def pack(plain: PlainModel) -> bytearray:
    """The model file of a plain model with 64-bit weights and 64-bit hashes."""
    return write(plain, packed_tables(plain))


def packed_tables(plain: PlainModel) -> list[list[PackedTable]]:
    """The tables of each term with 64-bit weights and tags."""
    tables = []
    for term in plain.terms:
        hashes, packed = symbol_hashes(term.alphabet), list[PackedTable]()
        for table in term.tables:
            packed.append(pack_table(table, hashes, packed[-1:]))
        tables.append(packed)
    return tables


def pack_table(
    table: FeatureTable, hashes: tuple[Hashes, Hashes], before: Sequence[PackedTable]
) -> PackedTable:
    """Sort the strings of a table by bucket; weights of repeated occurrences are cumulated."""
    tags = before[0].tags if before else np.empty(0, np.uint64)
    parts = (string_keys(codes, hashes) for codes in (table.codes[:, :-1], table.codes[:, 1:]))
    closed = len(tags) > 0 and all(_contains(tags, part) for part in parts)
    keys = string_keys(table.codes, hashes)
    order = np.argsort(keys)  # which is also the order of the buckets
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():
        raise InputError("two features of the model have the same 64-bit hash; leave a training text out")
    factors = None if table.factors is None else table.factors[order]
    rows, more = _ordered_rows(table, order)
    return PackedTable(table, bucket_starts(keys), keys, factors, rows, more, closed)


def _contains(keys: AnyArray, others: AnyArray) -> bool:
    """Whether sorted keys contain all others."""
    others = np.sort(others)  # neighbours are found in the cache
    return bool((keys[np.minimum(np.searchsorted(keys, others), len(keys) - 1)] == others).all())


def bucket_starts(keys: AnyArray) -> AnyArray:
    """First string of each bucket, and the number of strings, for sorted keys."""
    n_buckets = max(1, -(-len(keys) // PER_BUCKET))
    bucket = (keys >> np.uint64(32)) * np.uint64(n_buckets) >> np.uint64(32)
    return np.searchsorted(bucket, np.arange(n_buckets + 1, dtype=np.uint64)).astype(np.uint32)


def _ordered_rows(table: FeatureTable, order: Ints) -> tuple[Floats, Ints | None]:
    """`PackedTable.weights` and `more` of strings in this order."""
    weights, first_rows = cumulated(table), np.cumsum(table.rows) - table.rows
    repeats, n = table.rows[order] - 1, len(order)
    more = np.concatenate([[0], np.cumsum(repeats)])
    number = np.arange(more[-1]) - np.repeat(more[:-1], repeats)
    rows = np.zeros((n + 1 + len(number), weights.shape[1]))
    np.take(weights, first_rows[order], axis=0, out=rows[:n], mode="clip")
    rows[n + 1 :] = weights[np.repeat(first_rows[order], repeats) + 1 + number]
    return rows, more if len(number) else None


def cumulated(table: FeatureTable) -> Floats:
    """Sums of the weights of the first 1, 2, ... occurrences of each string."""
    repeated, ends = np.flatnonzero(table.rows > 1), np.cumsum(table.rows)
    weights = table.weights.copy() if len(repeated) else table.weights
    for place in repeated:
        part = slice(ends[place] - table.rows[place], ends[place])
        weights[part] = np.cumsum(weights[part], axis=0)
    return weights


def symbol_hashes(alphabet: AnyArray) -> tuple[Hashes, Hashes]:
    """The two hashes of each symbol: of a code point, or of the code points of a token."""
    if alphabet.dtype != object:
        points = alphabet.astype(np.uint32)
        return mix(points ^ np.uint32(SEEDS[0])), mix(points ^ np.uint32(SEEDS[1]))
    texts = [token.encode("utf-32-le", "surrogatepass") for token in alphabet]
    lengths = np.array([len(text) // 4 for text in texts], np.uint32)
    points = np.zeros((len(texts), int(lengths.max(initial=0))), np.uint32)
    points[np.arange(points.shape[1]) < lengths[:, None]] = np.frombuffer(b"".join(texts), np.uint32)
    states = [np.full(len(texts), seed, np.uint32) for seed in SEEDS]
    for place, column in enumerate(points.T):
        for state, seed, step in zip(states, SEEDS, STEPS, strict=True):
            longer = state * np.uint32(step) + mix(column ^ np.uint32(seed))
            state[:] = np.where(place < lengths, longer, state)
    return mix(states[0] ^ lengths), mix(states[1] + lengths)


def string_hashes(codes: Ints, hashes: tuple[Hashes, Hashes]) -> tuple[Hashes, Hashes]:
    """The two hashes of strings of codes, shape (n, p)."""
    states = [np.full(len(codes), seed, np.uint32) for seed in SEEDS]
    for column in codes.T:
        for state, symbols, step in zip(states, hashes, STEPS, strict=True):
            state *= np.uint32(step)
            state += symbols[column]
    return states[0], states[1]


def string_keys(codes: Ints, hashes: tuple[Hashes, Hashes]) -> AnyArray:
    """The 64-bit keys of strings of codes, shape (n, p)."""
    first, second = string_hashes(codes, hashes)
    return first.astype(np.uint64) << np.uint64(32) | second


def mix(values: Hashes) -> Hashes:
    """The finaliser of MurmurHash3: a bijection."""
    values = values ^ (values >> np.uint32(16))
    values = values * np.uint32(0x85EBCA6B)
    values ^= values >> np.uint32(13)
    values = values * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


class _Writer:
    """Sections of the file, each at a multiple of 8 bytes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.units = HEADER_WORDS * 4 // UNIT

    def add(self, array: object, dtype: DTypeLike | None = None) -> int:
        """Append an array, or bytes; returns its offset in units of 8 bytes."""
        content = array if isinstance(array, bytes) else np.ascontiguousarray(array, dtype).tobytes()
        offset = self.units
        self.parts.append(content + bytes(-len(content) % UNIT))
        self.units += len(self.parts[-1]) // UNIT
        if self.units >= NONE:
            raise InputError("the model takes more than 32 GiB and cannot be exported")
        return offset

    def words(self, rows: Sequence[Sequence[int]], width: int) -> int:
        """Append records of 32-bit words."""
        table = np.zeros((len(rows), width), np.uint32)
        for row, values in zip(table, rows, strict=True):
            row[: len(values)] = values
        return self.add(table)


def write(plain: PlainModel, tables: Sequence[Sequence[PackedTable]]) -> bytearray:
    """The model file of a plain model with the packed tables of each term."""
    out, header = _Writer(), np.zeros(HEADER_WORDS, np.uint32)
    views = list(dict.fromkeys(term.view for term in plain.terms))
    columns = plain.joined or [()]
    header[:2] = np.frombuffer(MAGIC, np.uint32)
    encoders = dict.fromkeys(view.encoder for view in views if view.encoder is not None)
    tokenizers = {encoder: _add_tokenizer(out, encoder) for encoder in encoders}
    older = plain.text.normalise != "unicode" and len(columns) < 2
    header[2] = VERSION if tokenizers else 4 - older
    header[4:6] = TASKS.index(plain.task), COMBINATIONS.index(plain.combine)
    header[6:9] = plain.n_machines, plain.n_decisions, len(plain.classes or ())
    header[9] = NONE if plain.text.max_length is None else min(plain.text.max_length, NONE - 1)
    header[27:29] = NORMAL_FORMS[plain.text.normalise], plain.text.punctuation
    view_words = []
    for view in views:
        kind, record = TOKENS.get(view.tokens, 0), tokenizers.get(view.encoder, 0)
        view_words.append([view.keep_case, PIECES if record else kind, columns.index(view.columns), record])
    header[COLUMNS] = len(columns) if len(columns) > 1 else 0
    header[10:12] = len(views), out.words(view_words, VIEW_WORDS)
    terms = [_term_words(out, views, *pair) for pair in zip(plain.terms, tables, strict=True)]
    header[12:14] = len(terms), out.words(terms, TERM_WORDS)
    header[14] = out.add(plain.biases, np.float64)
    header[15] = 0 if plain.thresholds is None else out.add(plain.thresholds, np.float64)
    _add_outputs(out, plain, header)
    form = "unicode" if plain.text.normalise == "unicode" else "none"
    words = any(TOKENS.get(view.tokens) for view in views)
    if form != "none" or words or (plain.text.normalise == "none" and not plain.text.punctuation):
        header[31] = _add_characters(out, character_tables(form, plain.words))
    n_logs = LOGS if any(term.count == "log" for term in plain.terms) else 0
    logs = 1 + np.log(np.maximum(np.arange(n_logs), 1))
    header[32:34] = n_logs, out.add(logs, np.float64)
    about = json.dumps(to_json(plain.about)).encode()
    header[34:36] = out.add(about), len(about)
    header[3] = out.units
    return with_checksum(bytearray().join([header.astype("<u4").tobytes(), *out.parts]))


def with_checksum(content: bytearray) -> bytearray:
    """A model file, with the checksum of its words in its header."""
    words = np.frombuffer(content, np.uint32)
    words[CHECKSUM : CHECKSUM + 2] = 0
    sums = np.zeros(2, np.uint32)
    for first in range(0, len(words), 1 << 16):  # parts that stay in the cache
        part = words[first : first + (1 << 16)]
        places = np.arange(first, first + len(part)).astype(np.uint32) * np.uint32(SEEDS[0])
        x = mix(part ^ places)
        sums += np.array([x, x * (x | np.uint32(1))]).sum(axis=1, dtype=np.uint32)
    words[CHECKSUM : CHECKSUM + 2] = sums
    return content


def _term_words(
    out: _Writer, views: Sequence[View], term: FeatureTerm, tables: Sequence[PackedTable]
) -> list[int]:
    numbers = out.add([0.0, term.scale], np.float64)
    rows = out.words([_table_words(out, table, term) for table in tables], TABLE_WORDS)
    words = [views.index(term.view), COUNTS.index(term.count), MEAN if term.mean else int(term.normalised)]
    words += [0, len(tables), numbers, rows, len(term.featureless), 0, 0]
    if len(term.featureless):
        hashes = symbol_hashes(term.alphabet)
        pairs = [string_hashes(codes[None], hashes) for codes in term.featureless]
        first, second = map(np.concatenate, zip(*pairs, strict=True))
        lengths = np.array([*map(len, term.featureless)], np.uint32)
        words[8] = out.add(np.stack([mix(first ^ lengths), second], axis=1))
        words[9] = out.add(term.featureless_values, np.float64)
    return words


def _table_words(out: _Writer, packed: PackedTable, term: FeatureTerm) -> list[int]:
    table = packed.table
    p = table.offsets.shape[1]
    plain = table.span == p and table.offsets.tolist() == [list(range(p))]
    words = [p, table.span, len(table.offsets), table.times, int(plain)]
    words += [len(packed.starts) - 1, len(packed.tags), 64]
    rows = _rows_with_factors(packed, term.unknown)
    tags = np.concatenate([packed.tags, np.zeros(1 + SCANNED, packed.tags.dtype)])
    words += [0 if packed.factors is None else IN_ROW, DOUBLE, out.add(table.offsets, np.uint32)]
    words += [out.add(table.values, np.float64), out.add(packed.starts), out.add(tags), 0]
    words += [out.add(rows, np.float64), 0]
    more = 0 if packed.more is None else out.add(packed.more, np.uint32)
    return [*words, more, len(packed.weights) - len(packed.tags) - 1, int(plain and packed.closed)]


def _rows_with_factors(packed: PackedTable, unknown: float) -> AnyArray:
    """Rows of weights, which begin with the factor if there are factors."""
    if packed.factors is None:
        return packed.weights
    column = np.zeros((len(packed.weights), 1))
    column[: len(packed.tags) + 1, 0] = np.append(packed.factors, unknown)
    return np.concatenate([column, packed.weights], axis=1)


def _add_outputs(out: _Writer, plain: PlainModel, header: Hashes) -> None:
    """Calibration, rejection, prediction sets and names of classes."""
    maps = plain.calibration
    if maps is not None:
        sigmoid = "a" in maps
        x, y = (maps["a"], maps["b"]) if sigmoid else (maps["x"], maps["y"])
        starts = np.arange(len(x) + 1) if sigmoid else maps["starts"]
        header[16:18] = 1 if sigmoid else 2, len(starts) - 1
        header[18:21] = out.add(x, np.float64), out.add(y, np.float64), out.add(starts, np.uint32)
    if plain.reject:
        header[21:23] = len(plain.reject), out.add([*plain.reject, 0.0][:2], np.float64)
    if plain.conformity is not None:
        own, starts = plain.conformity.own, plain.conformity.starts
        header[23:27] = len(own), out.add(np.sort(own)), out.add(own), out.add(starts, np.uint32)
    names = [name_of(label).encode("utf-8", "replace") + b"\0" for label in plain.classes or ()]
    header[29:31] = out.add(np.cumsum([0, *map(len, names)]), np.uint32), out.add(b"".join(names))


def name_of(label: object) -> str:
    """Name of a class, as Python prints the label; bytes are decoded."""
    return str(to_json(label))


def _add_tokenizer(out: _Writer, encoder: Any) -> int:
    """Record of a tokenizer."""
    piece = exported_tokenizer(encoder.tokenizer)
    points = np.array([*map(ord, piece.prefix)], np.uint32)
    hashes = symbol_hashes(np.array(piece.tokens, object))
    keys = string_keys(np.arange(len(piece.tokens))[:, None], hashes)
    order = np.argsort(keys)
    tags, starts = np.append(keys[order], np.zeros(1 + SCANNED, np.uint64)), bucket_starts(keys[order])
    [first], [second] = string_hashes(np.arange(len(points))[None], symbol_hashes(points))
    words = [_add_characters(out, piece.letters), piece.max_word_characters, max(map(len, piece.tokens))]
    words += [len(points), first, second, len(starts) - 1, len(keys), 64, out.add(starts), out.add(tags)]
    if piece.scores is not None:
        scores = out.add(np.append(piece.scores[order], piece.scores[-1]), np.float64)
        words += [scores, piece.strips + 2 * piece.splits]
    return out.words([words], TOKENIZER_WORDS)


def _add_characters(out: _Writer, tables: CharacterTables) -> int:
    """Record of the tables of code points."""
    numbers, blocks = two_stages(tables)
    record = [len(numbers), out.add(numbers), len(blocks)]
    record += [out.add(part) for part in np.split(blocks, 2, axis=1)]
    for images in (tables.decompositions, tables.folds):
        keys = sorted(images.keys() - {*HANGUL})
        units = [images[key].encode("utf-16-le") for key in keys]
        starts = np.cumsum([0, *(len(image) // 2 for image in units)])
        record += [len(keys), out.add(keys, np.uint32), out.add(starts, np.uint32), out.add(b"".join(units))]
    return out.words([[*record, len(tables.pairs), out.add(tables.pairs)]], 16)


@lru_cache(maxsize=6)
def two_stages(tables: CharacterTables) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Number of each block of code points, up to the last with a property; and the different blocks.

    A block is a row of classes and then orders.
    """
    rows = np.concatenate([tables.classes.reshape(-1, BLOCK), tables.orders.reshape(-1, BLOCK)], axis=1)
    blocks, numbers = np.unique(rows, axis=0, return_inverse=True)
    last = int(np.flatnonzero(rows.any(axis=1))[-1])
    return numbers.ravel()[: last + 1].astype(np.uint16), blocks
