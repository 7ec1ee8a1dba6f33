"""Smaller model files: fewer rows of weights, of 8 or 16 bits, and tags of 16 or 32 bits.

A string has a row of weights, and another for each further occurrence if the kernel is an intersection; a
later occurrence than the last row counts as nothing. A row is worth the decrease of the mean squared error of
the values of the machines, on the texts of the model or on held-out texts, when it is added to the earlier
rows of its string. The file takes rows of all tables, those of the largest worth per byte first, until it is
full. The strings that a table does not have, dropped ones among them, then get the factor with which texts
keep their norm in the mean. Of all combinations of types the one is chosen whose values differ least from
those of the whole model.

A text of training has strings that no other text has, and a new text has as many unknown ones. So a share of
the strings of few texts counts as unknown in texts of training (absolute discounting, Ney et al. 1994).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from textsvm.apps.export.binary import (
    PackedTable,
    bucket_starts,
    packed_tables,
    string_hashes,
    symbol_hashes,
    write,
)
from textsvm.apps.export.plain import PlainModel, encoded_texts, labels_of
from textsvm.arrays import AnyArray, Bools, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.contract import FeatureTable, FeatureTerm
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parallel import Progress
from textsvm.runtime.plain_json import to_json
from textsvm.text.documents import Documents
from textsvm.text.encoders import without_surrogates

#: Strings per bucket.
PER_BUCKET = 6
#: Most symbols of the texts that are counted.
MOST_SYMBOLS = 1 << 20
#: Training texts that are subtracted from the number of texts with a string.
DISCOUNT = 0.7
#: Types of weights and tags.
CHOICES = tuple((np.dtype(w), np.dtype(t)) for w in ("int8", "int16") for t in ("uint16", "uint32"))
#: Largest weights of 8 bits, relative to the largest weight of a machine.
CLIPS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12)
#: Share of the file that the list of the heaviest features may take.
SHARE = 0.02
#: Bytes that alignment may take per table.
ALIGNMENT = 56
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmg])(i?)b|b)?\s*", re.IGNORECASE)
#: Tables of each term.
Tables = Sequence[Sequence[PackedTable]]
#: Types of weights and tags.
Types = tuple[np.dtype, np.dtype]


@dataclass(frozen=True)
class Reduction:
    """A smaller model file, compared with the whole model."""

    content: bytes
    n_strings: tuple[int, int]  #: Strings in all tables, before and after
    bits: tuple[int, int]  #: Of weights and tags; 64 for the whole model
    difference: tuple[float, float]  #: Of the values of machines: root mean square, largest
    #: shape (n_texts, n_machines): Values of the machines, of the whole and of the smaller model
    values: tuple[Floats, Floats] = field(repr=False)
    #: shape (n_texts,): Places of the texts in the list of texts
    chosen: Ints = field(repr=False)

    @property
    def loss(self) -> str:
        """Loss of the smaller model, in words."""
        (before, after), (weights, tags), (rms, largest) = self.n_strings, self.bits, self.difference
        return (
            f"{after:,} of {before:,} strings, weights of {weights} bits, tags of {tags} bits; decision "
            f"values differ by {rms:.3g} (root mean square), at most {largest:.3g}"
        )


class StringRows:
    """The rows of weights of a table, string by string, without that of unknown strings.

    rows : (n_rows,), rows of the table: first rows are in front there, rows of repeats behind them
    firsts : (n + 1,), place of the first row of each string, and the end
    sizes : (n,), number of rows of each string
    owner : (n_rows,), number of the string of each row
    is_first : (n_rows,), whether a row is the first of its string
    """

    def __init__(self, table: PackedTable) -> None:
        n = len(table.tags)
        self.firsts = np.arange(n + 1) + (0 if table.more is None else table.more)
        self.sizes = np.diff(self.firsts)
        self.owner = np.repeat(np.arange(n), self.sizes)
        places = np.arange(len(self.owner))
        self.is_first = places == self.firsts[self.owner]
        self.rows = np.where(self.is_first, self.owner, places + n - self.owner)

    def sums_to_the_end(self, values: Floats) -> Floats:
        """Sums of the values of each row and of the later ones of its string."""
        sums = np.append(0, np.cumsum(values))
        return np.repeat(sums[self.firsts[1:]], self.sizes) - sums[:-1]


@dataclass(frozen=True)
class Entries:
    """Features of texts: an entry for each different string of a text."""

    text: Ints  #: Number of the text
    row: Ints  #: Number of the string, n for an unknown string
    weighted: Ints  #: Row of weights, which depends on the amount (intersection)
    x: Floats
    squares: Floats  #: Addend of k(s, s)


@dataclass(frozen=True)
class CountedStrings:
    """Strings of a table in some texts."""

    keys: AnyArray  #: shape (n_strings,): Hashes, sorted
    amounts: scipy.sparse.csr_array  #: shape (n_texts, n_strings)
    hidden: Bools  #: shape (number of entries,): Entries that count as unknown

    @classmethod
    def counted(cls, table: FeatureTable, symbols: Any, n_texts: int, discount: float) -> CountedStrings:
        """Count the strings of `symbols_of`; entries are hidden with probability `discount` / texts."""
        hashes, owner, ends = symbols
        parts = []
        for offsets, value in zip(table.offsets, table.values, strict=True):
            reach = table.span if len(table.offsets) == 1 else offsets[-1] + 1
            at = np.flatnonzero(np.arange(len(ends)) + reach <= ends)
            parts.append((*string_hashes(at[:, None] + offsets, hashes), owner[at], np.full(len(at), value)))
        first, second, texts, values = map(np.concatenate, zip(*parts, strict=True))
        keys, string = np.unique(first.astype(np.uint64) << np.uint64(32) | second, return_inverse=True)
        amounts = scipy.sparse.csr_array((values, (texts, string.ravel())), shape=(n_texts, len(keys)))
        n_with = np.bincount(amounts.indices, minlength=len(keys))
        chance = np.random.default_rng(0).random(amounts.nnz)
        return cls(keys, amounts, chance * n_with[amounts.indices] < discount)

    def entries(self, term: FeatureTerm, table: PackedTable, hide: bool = True) -> Entries:
        """Features by a table of the file, as its readers compute them."""
        n, amount = len(table.tags), self.amounts.data
        row = rows_of(table, self.keys)[self.amounts.indices]
        row = np.where(self.hidden, n, row) if hide else row
        x = np.ones(len(row))
        if table.factors is not None:
            x = np.append(table.factors, term.unknown if table.unknown is None else table.unknown)[row]
        weighted, times = row, 1.0
        if term.count == "intersection":
            weighted, times = _repeated(table, row, amount), amount
        elif term.count != "presence":
            x = x * (amount if term.count == "count" else 1 + np.log(amount))
        x = x.astype(np.float32).astype(np.float64)
        text = np.repeat(np.arange(self.amounts.shape[0]), np.diff(self.amounts.indptr))
        return Entries(text, row, weighted, x, x * x * times * table.table.times)


def _gains(table: PackedTable, amounts: Floats) -> Floats:
    """Decrease of the sum of squared errors by each row, in the order of `StringRows`, after the rows before.

    With w(j) the row of an occurrence and u(j) = `amounts` the weight of the texts with so many occurrences,
    the error after row i is the sum over j > i of u(j) (w(j) - w(i))^2.
    """
    order = StringRows(table)
    u, first, gains = amounts[order.rows], order.is_first, np.zeros(len(order.rows))
    later = order.sums_to_the_end(u)
    for machine in range(table.weights.shape[1]):
        w = table.weights[order.rows, machine]
        before = np.where(first, 0, np.roll(w, 1))
        gains += (before**2 - w**2) * later + 2 * (w - before) * order.sums_to_the_end(u * w)
    return gains


def _repeated(table: PackedTable, row: Ints, amount: Floats) -> Ints:
    """Rows of the cumulated weights of several occurrences."""
    if table.more is None:
        return row
    ends = np.append(table.more, table.more[-1])
    begin, end = ends[row], ends[row + 1]
    last = len(table.tags) + 1 + np.minimum(begin + amount.astype(np.int64) - 2, end - 1)
    return np.where((amount > 1) & (end > begin), last, row)


def rows_of(table: PackedTable, keys: AnyArray) -> Ints:
    """Number of the string with each key, as far as the tags tell; the number of strings for other keys."""
    n, shift = len(table.tags), np.uint64(32)
    if not n:
        return np.zeros(len(keys), np.int64)
    codes, wanted = table.tags, keys
    if codes.dtype != np.uint64:
        n_buckets = np.uint64(len(table.starts) - 1)
        sizes = np.diff(table.starts).astype(np.int64)
        buckets = np.repeat(np.arange(n_buckets, dtype=np.uint64), sizes)
        codes = buckets << shift | codes
        wanted = ((keys >> shift) * n_buckets >> shift) << shift | keys.astype(table.tags.dtype)
    order = np.argsort(codes, kind="stable")
    at = order[np.minimum(np.searchsorted(codes[order], wanted), n - 1)]
    return np.where(codes[at] == wanted, at, n)


def _read(term: FeatureTerm, documents: Documents) -> Documents:
    """The symbols that a term counts: of an encoder the tokens."""
    own: Any = documents.of(term.view)
    encoder = term.view.encoder
    if encoder is None:
        return own
    place = {number: code for code, number in enumerate(encoder.vocabulary.values())}
    texts = without_surrogates(own.characters)
    tokens = encoder.tokenise([texts.text(i) for i in range(len(texts))])
    codes = np.array([place[number] for row in tokens for number in row], np.uint32)
    return Documents(codes, np.cumsum([0, *map(len, tokens)]), term.alphabet)


def symbols_of(term: FeatureTerm, documents: Documents) -> tuple[list[AnyArray], Ints, Ints]:
    """The two hashes of each symbol of some texts, the text of each symbol, and the end of its windows."""
    text = np.repeat(np.arange(len(documents)), documents.lengths)
    hashes = [hashes[documents.codes] for hashes in symbol_hashes(documents.alphabet)]
    return hashes, text, documents.offsets[text + 1]


class Sample:
    """Texts by which a model is reduced; those without features in a term get no value of it."""

    def __init__(
        self, plain: PlainModel, documents: Any, training: bool = False, progress: Progress | None = None
    ) -> None:
        self.plain, self.n, self.training = plain, len(documents), training
        self.strings: list[list[CountedStrings]] = []
        self.n_symbols: list[Ints] = []
        for k, term in enumerate(plain.terms):
            symbols = symbols_of(term, _read(term, documents))
            discount = DISCOUNT if training and not term.mean else 0.0
            self.n_symbols.append(np.bincount(symbols[1], minlength=self.n))
            counted = [CountedStrings.counted(table, symbols, self.n, discount) for table in term.tables]
            self.strings.append(counted)
            if progress is not None:
                progress(k + 1, len(plain.terms))

    def values(self, tables: Tables) -> Floats:
        """Values of the machines by packed tables, shape (n_texts, n_machines)."""
        total = np.zeros((self.n, self.plain.n_machines))
        for k, term in enumerate(self.plain.terms):
            values = np.zeros_like(total)
            for table, strings in zip(tables[k], self.strings[k], strict=True):
                entries = strings.entries(term, table)
                shape, starts = (self.n, len(table.weights)), strings.amounts.indptr
                weights = table.weights if table.scales is None else table.weights * table.scales
                values += scipy.sparse.csr_array((entries.x, entries.weighted, starts), shape=shape) @ weights
            total += values * self.scales(k, tables[k])[:, None]
        return self.plain.biases + total

    def scales(self, k: int, tables: Sequence[PackedTable]) -> Floats:
        """1 / sqrt(k(s, s)) of each text in a normalised term, shape (n_texts,)."""
        term, squares = self.plain.terms[k], np.zeros(self.n)
        if term.mean:
            return term.scale / np.maximum(self.n_symbols[k], 1)
        if not term.normalised:
            return np.full(self.n, term.scale)
        for table, strings in zip(tables, self.strings[k], strict=True):
            entries = strings.entries(term, table)
            squares += np.bincount(entries.text, entries.squares, self.n)
        return np.divide(1, np.sqrt(squares), out=np.zeros(self.n), where=squares > 0)

    def worths(self, k: int, tables: Sequence[PackedTable]) -> list[tuple[Floats, Floats]]:
        """For each table the worth of each row in the order of `StringRows`, and of a weight of 1."""
        scales, pairs = self.scales(k, tables), []
        for table, strings in zip(tables, self.strings[k], strict=True):
            entries, n = strings.entries(self.plain.terms[k], table, hide=False), len(table.tags)
            unit, order = (entries.x * scales[entries.text]) ** 2, StringRows(table)
            n_with = np.bincount(entries.row, minlength=n + 1)[:n]
            share = (n_with - DISCOUNT if self.training else n_with + 1 - DISCOUNT) / np.maximum(n_with, 1)
            units = np.bincount(entries.row, unit, n + 1)[:n] * share
            worths = _gains(table, np.bincount(entries.weighted, unit, len(table.weights)).astype(float))
            worths *= share[order.owner]
            squares = np.ones(n) if table.factors is None else table.factors.astype(np.float64) ** 2
            rare = (1 - DISCOUNT) / 2
            # As many unseen tokens as tokens of a single text (Good 1953).
            if self.plain.terms[k].mean:
                rare = min(rare, float((n_with == 1).sum()) / max(1, int((n_with == 0).sum())))
            seldom = rare * squares * (scales**2).mean()  # strings of none of the texts
            norms = (table.weights[:n] ** 2).sum(axis=1)
            worths[order.firsts[:-1]] = np.where(n_with > 0, worths[order.firsts[:-1]], seldom * norms)
            pairs.append((worths, np.where(n_with > 0, units, seldom)))
        return pairs

    def with_norms(
        self, k: int, whole: Sequence[PackedTable], tables: Sequence[PackedTable]
    ) -> list[PackedTable]:
        """Tables with factors of unknown strings that keep the mean of k(s, s)."""
        term, scales = self.plain.terms[k], self.scales(k, whole)
        if not term.normalised:
            return list(tables)
        new = []
        for before, table, strings in zip(whole, tables, self.strings[k], strict=True):
            entries = strings.entries(term, replace(table, unknown=1.0))
            unknown, weight = entries.row == len(table.tags), scales[entries.text] ** 2
            lost = strings.entries(term, before).squares - np.where(unknown, 0, entries.squares)
            room = float((entries.squares * weight)[unknown].sum())
            factor = np.sqrt(max(0.0, float(lost @ weight)) / room) if room else term.unknown
            new.append(table if table.factors is None else replace(table, unknown=float(np.float32(factor))))
        return new


def accuracy_before_and_after(model: Any, reduction: Reduction, labels: Sequence[Any]) -> tuple[float, ...]:
    """Shares of the held-out texts with the right class, by the whole and by the smaller model."""
    truth = np.asarray(labels, dtype=object)[reduction.chosen]
    return tuple(float((labels_of(model, values) == truth).mean()) for values in reduction.values)


def reduced_model(
    model: Any, plain: PlainModel, size: int | str, held_out: Any = (), progress: Progress | None = None
) -> Reduction:
    """The model file in at most `size` bytes; InputError if that cannot be reached.

    Parameters
    ----------
    model : SVC, CalibratedSVC, MultilabelSVC, SVR or OneClassSVM
    plain : PlainModel
        Its description.
    size : int or str
        Bytes, or a text such as "500kB", "2MB" or "2MiB".
    held_out : list of str, or table of texts
        Texts like those that the model will decide; the support vectors without any.
    progress : callable, optional
    """
    documents = encoded_texts(model, held_out)
    if not len(documents):
        raise InputError(
            "the model has no texts by which to choose strings; give texts like those that it will decide "
            "(--texts)"
        )
    # As many documents as are counted, drawn with a fixed seed.
    symbols = max(int(documents.of(term.view).lengths.sum()) for term in plain.terms)
    share = min(1.0, MOST_SYMBOLS / max(1, symbols))
    order = np.random.default_rng(0).permutation(len(documents))
    chosen = np.sort(order[: max(1, int(share * len(documents)))])
    most = parse_size(size)
    if is_large := sum(table.weights.nbytes for term in plain.terms for table in term.tables) > most:
        _room(replace(plain, top=[]), most)  # refuses a size that is too small before long work
    whole = packed_tables(plain)
    sample = Sample(plain, documents.take(chosen), not len(held_out), progress)
    before, n_strings = sample.values(whole), _n_strings(whole)
    if not is_large and len(content := write(plain, whole)) <= most:
        return Reduction(content, (n_strings, n_strings), (64, 64), (0.0, 0.0), (before, before), chosen)
    plain = _brief(plain, _room(replace(plain, top=[]), most))
    room = _room(plain, most)
    worths = [sample.worths(k, tables) for k, tables in enumerate(whole)]
    results = []
    for types in CHOICES:
        tables = smaller(plain, whole, worths, types, room)
        tables = [sample.with_norms(k, *pair) for k, pair in enumerate(zip(whole, tables, strict=True))]
        after, bits = sample.values(tables), (8 * types[0].itemsize, 8 * types[1].itemsize)
        error = np.abs(after - before)
        difference = float(np.sqrt((error**2).mean())), float(error.max())
        counts = n_strings, _n_strings(tables)
        results.append(Reduction(write(plain, tables), counts, bits, difference, (before, after), chosen))
    return min(results, key=lambda result: result.difference[0])


def _n_strings(tables: Tables) -> int:
    return sum(len(table.tags) for of_term in tables for table in of_term)


def _brief(plain: PlainModel, room: int) -> PlainModel:
    """The model with fewer features in its description, if these take much of the room for strings."""
    for n in (20, 10, 5, 2, 0):
        brief = replace(plain, top=[replace(top, features=top.features[:n]) for top in plain.top if n])
        if len(json.dumps(to_json(brief.about["top_features"]))) <= SHARE * room:
            break
    return brief


def _room(plain: PlainModel, most: int) -> int:
    """Bytes for strings; InputError if there are none."""
    (weights, tags), n = CHOICES[0], plain.n_machines
    keys = np.zeros(0, np.uint64)
    starts, row = bucket_starts(keys, PER_BUCKET), np.zeros((1, n), weights)
    none = [
        [
            PackedTable(table, starts, keys.astype(tags), None if table.factors is None
                        else keys.astype(np.float32), row, np.ones(n), None)
            for table in term.tables
        ] for term in plain.terms
    ]  # fmt: skip
    fixed = len(write(plain, none)) + ALIGNMENT * sum(map(len, none))
    if fixed > most:
        raise InputError(
            f"the model does not fit into {most:,} bytes: Unicode tables, names and biases take at least "
            f"{fixed:,}; give a larger size (--max-size)"
        )
    return most - fixed


def smaller(
    plain: PlainModel, whole: Tables, worths: Any, types: Types, room: int
) -> list[list[PackedTable]]:
    """Tables with the rows of the largest worth per byte."""
    tables = [table for of_term in whole for table in of_term]
    flat = [worth for of_term in worths for worth in of_term]
    costs = [_cost(table, plain.n_machines, types) for table in tables]
    cost = np.concatenate(costs)
    density = [_density(flat[k][0], costs[k], table) for k, table in enumerate(tables)]
    order = np.argsort(-np.concatenate(density), kind="stable")
    chosen = np.zeros(len(cost), bool)
    chosen[order[np.cumsum(cost[order]) <= room]] = True
    parts = np.split(chosen, np.cumsum([len(cost) for cost in costs])[:-1])
    small = iter([_part(*row, types) for row in zip(tables, parts, (unit for _, unit in flat), strict=True)])
    return [[next(small) for _ in of_term] for of_term in whole]


def _cost(table: PackedTable, n_machines: int, types: Types) -> Floats:
    """Bytes of each row, ordered as in `StringRows`; the first of a string comes with its tag and factor."""
    weights, tags = types
    fields = (table.factors is not None) + (table.more is not None) + 1 / PER_BUCKET
    first = StringRows(table).is_first
    return weights.itemsize * n_machines + np.where(first, tags.itemsize + 4 * fields, 0)


def _density(worth: Floats, cost: Floats, table: PackedTable) -> Floats:
    """Worth per byte of each row, in the order of `StringRows`.

    A row is kept with its predecessors only. So the first rows of a string up to that with the largest worth
    per byte in the mean count as a block, the next ones likewise: the density never increases in a string.
    """
    order = StringRows(table)
    several = order.sizes > 1
    density = np.where(several[order.owner], np.inf, worth / cost)
    begins, ends = order.firsts[:-1][several], order.firsts[1:][several]
    while len(begins):
        sizes = ends - begins
        starts = np.cumsum(sizes) - sizes
        rows = np.repeat(begins - starts, sizes) + np.arange(sizes.sum())
        sums, costs = (
            total - np.repeat(total[starts] - values[starts], sizes)
            for values, total in ((part[rows], np.cumsum(part[rows])) for part in (worth, cost))
        )
        best = np.maximum.reduceat(sums / costs, starts)
        is_best = sums / costs == np.repeat(best, sizes)
        lasts = rows[np.maximum.reduceat(np.where(is_best, np.arange(len(rows)), 0), starts)]
        density[rows] = np.minimum(density[rows], np.repeat(best, sizes))
        begins, ends = lasts[lasts + 1 < ends] + 1, ends[lasts + 1 < ends]
    return density


def _part(table: PackedTable, chosen: Bools, units: Floats | None, types: Types) -> PackedTable:
    """A table of the chosen rows, in the order of `StringRows`, with other types."""
    weight_type, tag_type = types
    order, n = StringRows(table), len(table.tags)
    strings, owner = chosen[order.firsts[:-1]], np.append(order.owner, 0)
    first, later = np.flatnonzero(chosen & order.is_first), np.flatnonzero(chosen & ~order.is_first)
    places = np.concatenate([first, [-1], later])  # -1: of unknown strings
    repeats = np.bincount(owner[later], minlength=n)[strings]
    importance = np.ones(len(places)) if units is None else np.append(units, 0)[owner[places]]
    weights, scales = _quantised(table.weights[np.append(order.rows, n)[places]], importance, weight_type)
    return PackedTable(
        table.table,
        bucket_starts(table.tags[strings], PER_BUCKET),
        table.tags[strings].astype(tag_type),
        None if table.factors is None else table.factors[strings].astype(np.float32),
        weights,
        scales,
        np.append(0, np.cumsum(repeats)) if repeats.any() else None,
    )


def _quantised(weights: Floats, importance: Floats, dtype: np.dtype) -> tuple[AnyArray, Floats]:
    """Whole numbers, and the unit of each machine with the smallest sum of squared errors."""
    most = np.iinfo(dtype).max
    peak = np.abs(weights).max(axis=0, initial=0)
    peak[peak == 0] = 1
    units = np.array([clip * peak / most for clip in (CLIPS if most < 1 << 8 else CLIPS[:1])])
    errors = [importance @ (weights - _rounded(weights, unit, most) * unit) ** 2 for unit in units]
    unit = np.take_along_axis(units, np.argmin(errors, axis=0)[None], axis=0)[0]
    return _rounded(weights, unit, most).astype(dtype), unit


def _rounded(weights: Floats, unit: Floats, most: int) -> Floats:
    return np.clip(np.rint(weights / unit), -most, most)


def parse_size(size: int | str) -> int:
    """Bytes from a number or a text such as "2MB" (2,000,000) or "2MiB" (2,097,152)."""
    match = None if isinstance(size, bool) else _SIZE.fullmatch(str(size))
    value = 0
    if match is not None:
        power = " kmg".index((match[2] or " ").lower())
        unit = 1024 if match[3] else 1000
        value = int(float(match[1]) * unit**power)
    if value <= 0:
        raise InputError(
            f"a size must be a positive number of bytes, such as 500000, '2MB' or '2MiB', got {size!r}"
        )
    return value
