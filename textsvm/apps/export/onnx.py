"""Models as ONNX graphs: texts in, decision values, labels and probabilities out.

Strings of symbols are numbered within the batch, length by length: the number of a string is that of the pair
of its prefix and its last symbol (`Unique`), and its place among the strings of the model is that of the same
pair there (`LabelEncoder`). No hash is taken, and strings that the model does not know count in the norm.

The characters of all texts of a batch are one array of int64, ordered by text. A character that a model can
distinguish from others has a fixed number; all others are numbered within the batch, so no two differ less
than in Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, groupby
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from textsvm.apps.export.binary import cumulated, name_of
from textsvm.apps.export.plain import UNSURE, PlainModel
from textsvm.arrays import AnyArray, Arrays, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.contract import FeatureTable, FeatureTerm
from textsvm.runtime.plain_json import to_json
from textsvm.text.characters import (
    CHANGES_FOLDED,
    HANGUL,
    IGNORED,
    KEEPS,
    PUNCT,
    SPACE,
    WORD,
    ExportedTokenizer,
    character_tables,
    exported_tokenizer,
    image,
)
from textsvm.text.documents import View
from textsvm.text.normal_form import JOINERS, ZWSP

Input = str | int | float | AnyArray | Sequence[Any]  #: Name of a value, or a constant
BASE = 1 << 31  #: A pair (i, k) of numbers, k below BASE, is the key i * BASE + k
END = BASE - 1  #: Symbol behind the last of a string
#: Types of ONNX.
FLOAT, INT32, INT64, STRING, BOOL, DOUBLE = 1, 6, 7, 8, 9, 11
OTHER = -1  #: Number of characters outside the table
PADDING = -2  #: Number of padding


class Graph:
    """Nodes of an ONNX graph: ``g.Add(a, b)`` adds a node and returns the name of its output.

    Inputs are names of values, numbers or arrays. Bodies of loops share the constants of the whole graph.
    """

    def __init__(self, whole: Graph | None = None) -> None:
        self.nodes: list[Any] = []
        self.whole = whole or self
        self.constants: dict[Any, Any] = {}
        self.n_names = 0

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        if operator.startswith("_"):
            raise AttributeError(operator)
        return partial(self.add, operator)

    def name(self) -> str:
        """A new name."""
        self.whole.n_names += 1
        return f"v{self.whole.n_names}"

    def add(self, operator: str, *inputs: Input, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; returns the name of its output, or a list of several."""
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(operator, [self.value(value) for value in inputs], names, **attributes)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def value(self, value: Input) -> str:
        """Name of a value: a name, or a constant."""
        if isinstance(value, str):
            return value
        array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes() if array.dtype != object else tuple(array.flat))
        constants = self.whole.constants
        if key not in constants:
            constants[key] = numpy_helper.from_array(array, self.name())
        return str(constants[key].name)

    def look_up(self, keys: Input, table: Sequence[object], values: Sequence[int], other: int) -> str:
        """Values of keys (int64 or string), `other` for keys outside the table."""
        if not table:
            return self.filled(keys, other)
        kind = "strings" if isinstance(table[0], str) else "int64s"
        lists = {f"keys_{kind}": table, "values_int64s": values, "default_int64": other}
        return str(self.LabelEncoder(keys, domain="ai.onnx.ml", **lists))

    def filled(self, like: Input, number: Input) -> str:
        """An array of a number in the shape of another array."""
        return str(self.Expand(number, self.Shape(like)))

    def where(self, condition: str) -> str:
        """Places where a condition holds, of an array of one axis."""
        return str(self.Squeeze(self.NonZero(condition), [0]))

    def select(self, condition: str, *values: str) -> list[str]:
        """The entries of each value where a condition holds."""
        return [self.Compress(value, condition, axis=0) for value in values]

    def total(self, places: str, values: Input, size: Input, zero: Input = 0) -> str:
        """Sums of the values at each place, shape (size,)."""
        zeros = self.Expand(zero, self.Reshape(size, [1]))
        return str(self.ScatterElements(zeros, places, values, axis=0, reduction="add"))

    def loop(
        self, trips: Input, states: Sequence[str], body: Callable[..., tuple[str, list[str]]]
    ) -> list[str]:
        """Repeat ``condition, states = body(graph, trip, *states)`` while the condition holds."""
        inner = Graph(self.whole)
        trip, going, *inside = (self.name() for _ in range(len(states) + 2))
        condition, after = body(inner, trip, *inside)
        kinds = [TensorProto.INT64, TensorProto.BOOL, *[TensorProto.INT64] * len(states)]
        entering = [
            helper.make_tensor_value_info(name, kind, [] if k < 2 else None)
            for k, (name, kind) in enumerate(zip((trip, going, *inside), kinds, strict=True))
        ]
        results = zip((condition, *after), kinds[1:], strict=True)
        leaving = [helper.make_tensor_value_info(inner.Identity(name), kind, None) for name, kind in results]
        graph = helper.make_graph(inner.nodes, self.name(), entering, leaving)
        result = self.add("Loop", trips, np.array(True), *states, outputs=len(states), body=graph)
        return [result] if len(states) == 1 else result

    def places(
        self, strings: Sequence[Sequence[int]], roots: str, symbols: str, starts: str, ends: str
    ) -> str:
        """Place in `strings` of the first 0, 1, ... symbols from each start on, before its end; -1 for none.

        A string begins with its root, 0 or 1, and is looked up at the starts of this root.
        """
        edges: dict[int, int] = {}
        numbers = {}
        for number, (node, *string) in enumerate(strings):
            for symbol in string:
                node = edges.setdefault(node * BASE + symbol, len(edges) + 2)
            numbers[node] = number
        padded = self.Concat(symbols, [END], axis=0)

        def step(g: Graph, trip: str, node: str, places: str) -> tuple[str, list[str]]:
            at = g.Add(starts, trip)
            inside = g.And(g.Less(at, ends), g.GreaterOrEqual(node, 0))
            key = g.Add(g.Mul(node, BASE), g.Gather(padded, g.Where(inside, at, 0)))
            node = g.Where(inside, g.look_up(key, [*edges], [*edges.values()], -1), -1)
            place = g.look_up(node, [*numbers], [*numbers.values()], -1)
            alive = g.ReduceMax(g.Concat([-1], node, axis=0), keepdims=0)
            return g.GreaterOrEqual(alive, 0), [node, g.Concat(places, g.Unsqueeze(place, [1]), axis=1)]

        empty = self.Unsqueeze(self.look_up(roots, [*numbers], [*numbers.values()], -1), [1])
        return self.loop(max(map(len, strings)), [roots, empty], step)[1]

    def walk(self, strings: Sequence[Sequence[int]], symbols: str, starts: str, ends: str) -> str:
        """Place in `strings` of the symbols between each start and its end, -1 if they are another string."""
        rooted, roots = [(0, *string) for string in strings], self.filled(starts, 0)
        places = self.places(rooted, roots, symbols, starts, ends)
        size, last = self.Sub(ends, starts), self.Sub(self.Shape(places, start=1), 1)
        return str(self.Where(self.Greater(size, last), -1, self.entries(places, self.Min(size, last))))

    def entries(self, rows: str, columns: str) -> str:
        """The entry of each row in its column."""
        return str(self.Squeeze(self.GatherElements(rows, self.Unsqueeze(columns, [1]), axis=1), [1]))


class Characters:
    """The table of characters of a model: their numbers, classes and images.

    Characters that the normal form changes have the first numbers, combining characters the next.
    """

    def __init__(self, plain: PlainModel) -> None:
        self.form, form = plain.text, plain.text.normalise
        self.views = list(dict.fromkeys(term.view for term in plain.terms))
        tables = self.tables = character_tables("unicode", plain.words)
        words = any(view.tokens != "characters" for view in self.views)
        bits = SPACE | PUNCT | (WORD if words else 0) | IGNORED | KEEPS
        changed = {*np.flatnonzero(tables.classes & CHANGES_FOLDED).tolist(), *tables.decompositions, *HANGUL}
        used: list[Any] = [np.flatnonzero((tables.classes & bits) | tables.orders), range(128)]
        for term in plain.terms:
            symbols = term.alphabet.tolist()
            used.append(symbols if term.alphabet.dtype != object else [*map(ord, "".join(symbols))])
        for piece in [exported_tokenizer(view.encoder.tokenizer) for view in self.views if view.encoder]:
            if piece.scores is not None:
                raise InputError("a Unigram tokenizer cannot be exported to ONNX; take another format")
            letters = piece.letters
            used += [[*letters.decompositions], [*map(ord, "".join(letters.decompositions.values()))]]
            used += [np.flatnonzero((letters.classes & (SPACE | IGNORED)) | letters.orders)]
        images = {c: (image(chr(c), form, True), image(chr(c), form, False)) for c in sorted(changed)}
        if form == "paper":  # a character outside the table becomes a space
            used = [range(128)]
            images = {c: both for c, both in images.items() if {*both} != {" "}}
            images |= {c: (image(chr(c), form, True), image(chr(c), form, False)) for c in range(128)}
        spelled = {*"".join(spelling for both in images.values() for spelling in both)}
        rest = np.setdiff1d(np.concatenate([*used, [*map(ord, spelled)]]).astype(np.int64), [*images])
        rest = rest[np.argsort(tables.orders[rest] == 0, kind="stable")]
        self.points = np.concatenate([[*images], rest]).astype(np.int64)
        self.size = len(self.points)
        self.images = [*zip(*images.values(), strict=True)]
        self.number = {chr(c): k for k, c in enumerate(self.points.tolist())}
        self.orders, self.classes = tables.orders[self.points], tables.classes[self.points]

    def of_class(self, g: Graph, ids: str, bit: int) -> str:
        """Whether characters have a class."""
        return _entry(g, ids, (self.classes & bit) > 0)

    def order(self, g: Graph, ids: str) -> str:
        """Canonical combining classes."""
        return str(g.Cast(_entry(g, ids, self.orders), to=INT64))


def _entry(g: Graph, ids: str, values: AnyArray) -> str:
    """Entries of a table for some numbers; 0 outside the table, whose zeros at the end are left out."""
    size = int(np.flatnonzero(values).max(initial=-1)) + 1
    return str(g.Gather(np.append(values[:size], values.dtype.type(0)), g.Min(ids, size)))


@dataclass(frozen=True)
class Symbols:
    """Symbols of all texts of a batch, as names of values."""

    ids: str  #: Number of each symbol
    text: str  #: Text of each symbol
    starts: str  #: First symbol of each text
    ends: str
    number: dict[str, int]  #: Number of each symbol of the model


def read(g: Graph, inputs: dict[str | None, str], plain: PlainModel) -> dict[View, Symbols]:
    """The symbols of a batch of texts, the inputs by column, for each view of a model."""
    table, symbols = Characters(plain), dict[View, Symbols]()
    options = {"mark": 0, "mincharnum": 1, "pad_value": "", "separators": [""]}
    for names in plain.joined or [()]:
        texts, *others = [inputs[name] for name in names or (None,)]
        for other in others:
            texts = g.StringConcat(g.StringConcat(texts, np.array(["\n"], object)), other)
        n_texts, views = g.Size(texts), [view for view in table.views if view.columns == names]
        chars = g.Tokenizer(texts, domain="com.microsoft", **options)
        numbers = [*range(table.size), PADDING]
        ids = g.look_up(chars, [*table.number, ""], numbers, OTHER)
        places = g.NonZero(g.Greater(ids, PADDING))
        text = g.Squeeze(g.Slice(places, [0], [1], [0]), [0])
        pairs = g.Transpose(places, perm=[1, 0])
        distinct, _, local, _ = g.Unique(g.GatherND(chars, pairs), outputs=4)
        ids = g.GatherND(ids, pairs)
        ids = g.Where(g.Less(ids, 0), g.Add(local, table.size), ids)
        cased = {case: _normalised(g, table, ids, text, case) for case in {v.keep_case for v in views}}
        for view in views:
            ids, text = cased[view.keep_case]
            if view.encoder is not None:
                piece = exported_tokenizer(view.encoder.tokenizer)
                symbols[view] = _pieces(g, table, ids, text, n_texts, piece, distinct)
            elif view.tokens == "characters":
                symbols[view] = Symbols(ids, text, *_spans(g, text, n_texts), table.number)
            else:
                terms = [x for x in plain.terms if x.view == view and x.alphabet.dtype == object]
                vocabulary = dict.fromkeys(token for term in terms for token in term.alphabet.tolist())
                symbols[view] = _words(g, table, ids, text, n_texts, view.tokens, [*vocabulary])
    return symbols


def _spans(g: Graph, text: str, n_texts: str) -> tuple[str, str]:
    sizes = g.total(text, g.filled(text, 1), n_texts)
    ends = g.CumSum(sizes, 0)
    return g.Sub(ends, sizes), ends


def _normalised(g: Graph, table: Characters, ids: str, text: str, keep_case: bool) -> tuple[str, str]:
    form, space = table.form, table.number[" "]
    if form.normalise == "paper":
        ids, text = _mapped(g, table, table.images, ids, text, int(not keep_case))
        # Other characters than those of the table are spaces.
        ids = g.Where(g.Less(ids, table.size), ids, space)
    elif form.normalise == "unicode":
        ids, text = _without_ignorable(g, table, ids, text)
        ids, text = g.loop(1 if keep_case else 2, [ids, text], partial(_compatible, table))
    bits = SPACE if form.normalise == "unicode" else 0
    if not form.punctuation and form.normalise != "paper":
        bits |= PUNCT
    if bits:
        ids = g.Where(table.of_class(g, ids, bits), space, ids)
    if form.normalise != "none":
        ids, text = _single_spaces(g, ids, text, space, form.normalise == "unicode")
    if form.max_length is not None:
        place, begins = g.Range(0, g.Size(text), 1), _begins(g, text)
        first = g.Gather(g.where(begins), g.Sub(g.CumSum(g.Cast(begins, to=INT64), 0), 1))
        ids, text = g.select(g.Less(g.Sub(place, first), form.max_length), ids, text)
    return ids, text


def _before(g: Graph, values: str, first: int) -> str:
    """Each value's predecessor; `first` for the first."""
    return str(g.Slice(g.Concat([first], values, axis=0), [0], [-1], [0]))


def _begins(g: Graph, text: str) -> str:
    """Whether each character is the first of its text."""
    return str(g.Not(g.Equal(text, _before(g, text, -1))))


def _without_ignorable(g: Graph, table: Characters, ids: str, text: str) -> tuple[str, str]:
    """Remove ignorable characters; the first joiner behind a letter that keeps joiners stays."""
    bits = table.classes & (IGNORED | KEEPS)
    ignored = _entry(g, ids, bits == IGNORED)
    is_letter = g.Not(g.Or(ignored, g.Greater(table.order(g, ids), 0)))
    number = g.CumSum(g.Cast(is_letter, to=INT64), 0)
    letter = g.Gather(g.Concat(g.where(is_letter), [0], axis=0), g.Max(g.Sub(number, 1), 0))
    same = g.And(g.Greater(number, 0), g.Equal(g.Gather(text, letter), text))
    letter = g.Gather(ids, letter)
    keeps, spaced = _entry(g, letter, bits >= KEEPS), _entry(g, letter, bits == (IGNORED | KEEPS))
    joiner, zwsp = (_entry(g, ids, np.isin(table.points, [*map(ord, chars)])) for chars in (JOINERS, ZWSP))
    joins = g.And(g.And(ignored, same), g.Or(g.And(keeps, joiner), g.And(spaced, zwsp)))
    place = g.where(joins)
    owner = g.Gather(number, place)
    [place] = g.select(g.Not(g.Equal(owner, _before(g, owner, -1))), place)
    first = g.Cast(g.total(place, g.filled(place, 1), g.Size(ids)), to=BOOL)
    ids, text = g.select(g.Or(g.Not(ignored), first), ids, text)
    return ids, text


def _compatible(table: Characters, g: Graph, step: str, ids: str, text: str) -> tuple[str, list[str]]:
    """NFKC of the characters, in step 1 of their folded case."""
    ids, text = _mapped(g, table, table.images, ids, text, step)
    ordered = _ordered(g, table.order(g, ids), ids, text)
    return g.Identity(np.array(True)), [*_composed(g, table, ordered, text)]


def _mapped(
    g: Graph, table: Characters, of_steps: Sequence[Sequence[str]], ids: str, text: str, step: Input
) -> tuple[str, str]:
    """Replace each of the first characters of the table by its image, several characters or none."""
    n = len(of_steps[0])
    images = [image for images in of_steps for image in (*images, " ")]
    sizes = np.array([*map(len, images)])
    starts = (np.cumsum(sizes) - sizes).astype(np.int32)
    row = g.Add(g.Min(ids, n), g.Mul(step, n + 1))
    size = g.Cast(g.Gather(sizes.astype(np.uint8), row), to=INT64)
    grid = g.Less(g.Range(0, g.ReduceMax(g.Concat([1], size, axis=0), keepdims=0), 1), g.Unsqueeze(size, [1]))
    owner, place = (g.Squeeze(g.Slice(g.NonZero(grid), [k], [k + 1], [0]), [0]) for k in (0, 1))
    points = np.array([table.number[c] for image in images for c in image], np.int32)
    first = g.Cast(g.Gather(starts, g.Gather(row, owner)), to=INT64)
    image = g.Gather(points, g.Add(first, place))
    ids = g.Gather(ids, owner)
    return g.Where(g.Less(ids, n), g.Cast(image, to=INT64), ids), g.Gather(text, owner)


def _ordered(g: Graph, order: str, ids: str, text: str) -> str:
    """Sort each run of characters of a combining class above 0 by class, stably."""
    run = g.CumSum(g.Cast(g.Or(g.Equal(order, 0), _begins(g, text)), to=INT64), 0)
    places = g.where(g.Greater(order, 0))
    size = g.Size(places)
    rank = g.Add(g.Mul(g.Gather(run, places), 256), g.Gather(order, places))
    rank = g.Add(g.Mul(rank, size), g.Range(0, size, 1))
    _, by_rank = g.TopK(rank, g.Reshape(size, [1]), largest=0, outputs=2)
    return str(g.ScatterElements(ids, places, g.Gather(ids, g.Gather(places, by_rank))))


def _composed(g: Graph, table: Characters, ids: str, text: str) -> tuple[str, str]:
    """Compose pairs until none is left: in each round the first after each starter."""
    # The first syllable of 28 is a consonant and a vowel, the others are this syllable and a final consonant.
    finals = ((s - i % 28, 0x11A7 + i % 28, s) for i, s in enumerate(HANGUL) if i % 28)
    others = ((0x1100 + i // 21, 0x1161 + i % 21, s) for i, s in enumerate(HANGUL[::28]))
    rows = (*table.tables.pairs.tolist(), *finals, *others)
    numbers = ([table.number[chr(point)] for point in row] for row in rows)
    composites = {first * BASE + second: whole for first, second, whole in numbers}

    def step(g: Graph, trip: str, ids: str, text: str) -> tuple[str, list[str]]:
        starter, place, whole = _candidates(g, table, composites, ids, text)
        mask = g.Cast(g.total(place, g.filled(place, 1), g.Size(ids)), to=BOOL)
        free = g.Not(g.Or(g.Gather(mask, starter), g.Equal(starter, _before(g, starter, -1))))
        starter, place, whole = g.select(free, starter, place, whole)
        rest = g.Not(g.Cast(g.total(place, g.filled(place, 1), g.Size(ids)), to=BOOL))
        ids = g.ScatterElements(ids, starter, whole)
        after = g.select(rest, ids, text)
        return g.Greater(g.Size(place), 0), after

    ids, text = g.loop("", [ids, text], step)
    return ids, text


def _candidates(
    g: Graph, table: Characters, composites: dict[int, int], ids: str, text: str
) -> tuple[str, str, str]:
    """Starters and later characters that may compose, and their composites."""
    order = table.order(g, ids)
    is_starter = g.Equal(order, 0)
    before = g.CumSum(g.Cast(is_starter, to=INT64), 0, exclusive=1)
    starters = g.Concat(g.where(is_starter), [0], axis=0)
    starter = g.Gather(starters, g.Max(g.Sub(before, 1), 0))
    previous = _before(g, order, 0)
    open_ = g.Or(g.Equal(previous, 0), g.Less(previous, order))
    same = g.And(g.Greater(before, 0), g.Equal(g.Gather(text, starter), text))
    key = g.Add(g.Mul(g.Gather(ids, starter), BASE), ids)
    whole = g.look_up(key, [*composites], [*composites.values()], -1)
    place = g.where(g.And(g.And(open_, same), g.GreaterOrEqual(whole, 0)))
    return g.Gather(starter, place), place, g.Gather(whole, place)


def _single_spaces(g: Graph, ids: str, text: str, space: int, strip: bool) -> tuple[str, str]:
    """Runs of spaces as a single space, none at the ends if they are stripped."""
    begins, is_space = _begins(g, text), g.Equal(ids, space)
    after = g.Equal(_before(g, ids, space if strip else -1), space)
    after = g.Or(begins, after) if strip else g.And(g.Not(begins), after)
    ids, text = g.select(g.Not(g.And(is_space, after)), ids, text)
    if strip:
        following = g.Slice(g.Concat(text, [-1], axis=0), [1], [END], [0])
        ids, text = g.select(g.Not(g.And(g.Equal(ids, space), g.Not(g.Equal(text, following)))), ids, text)
    return ids, text


def _words(
    g: Graph, table: Characters, ids: str, text: str, n_texts: str, tokens: str, vocabulary: list[str]
) -> Symbols:
    """Words as symbols: by their place in the vocabulary, other words numbered within the batch."""
    inside = g.Not(table.of_class(g, ids, SPACE))
    joins = table.of_class(g, ids, WORD) if tokens != "whitespace" else inside
    starts, ends = _spans_of(g, text, inside, joins)
    _, first, local, _ = g.Unique(_ranks(g, ids, starts, ends), outputs=4)
    spelled = [[table.number[c] for c in word] for word in vocabulary]
    place = g.Gather(g.walk(spelled or [[]], ids, g.Gather(starts, first), g.Gather(ends, first)), local)
    words = g.Where(g.Less(place, 0), g.Add(local, len(vocabulary)), place)
    text = g.Gather(text, starts)
    return Symbols(words, text, *_spans(g, text, n_texts), {word: k for k, word in enumerate(vocabulary)})


def _spans_of(g: Graph, text: str, inside: str, joins: str) -> tuple[str, str]:
    """First character and end of each word: a run of characters that join, or another inside."""
    behind = g.Cast(_before(g, g.Cast(joins, to=INT64), 0), to=BOOL)
    first = g.And(inside, g.Or(_begins(g, text), g.Not(g.And(joins, behind))))
    owner = g.Sub(g.CumSum(g.Cast(first, to=INT64), 0), 1)
    starts, inside = g.where(first), g.where(inside)
    owner = g.Gather(owner, inside)
    return starts, g.Add(starts, g.total(owner, g.filled(owner, 1), g.Size(starts)))


def _pieces(
    g: Graph, table: Characters, ids: str, text: str, n_texts: str, piece: ExportedTokenizer, distinct: str
) -> Symbols:
    """Tokens of an encoder as symbols; characters outside the table are numbered as in `distinct`."""
    classes = piece.letters.classes

    def of_class(ids: str, bit: int) -> str:
        ends = np.flatnonzero(np.diff(np.concatenate([[0], (classes & bit) > 0, [0]])))
        ranges = "".join(f"\\x{{{low:X}}}-\\x{{{end - 1:X}}}" for low, end in ends.reshape(-1, 2).tolist())
        others = g.RegexFullMatch(distinct, pattern=f"[{ranges}]" * bool(ranges))
        place = g.Max(g.Sub(ids, table.size), 0)
        other = g.Gather(g.Concat(others, np.array([False]), axis=0), place)
        other = g.And(g.GreaterOrEqual(ids, table.size), other)
        return str(g.Or(other, _entry(g, ids, (classes[table.points] & bit) > 0)))

    ids, text = g.select(g.Not(of_class(ids, KEEPS)), ids, text)
    both = ((char, piece.letters.decompositions.get(ord(char), char)) for char in table.number)
    images = [image if table.number.keys() >= {*image} else char for char, image in both]
    ids, text = _mapped(g, table, [images], ids, text, 0)
    order = g.Cast(_entry(g, ids, piece.letters.orders[table.points]), to=INT64)
    ids = _ordered(g, order, ids, text)
    ids, text = g.select(g.Not(of_class(ids, IGNORED)), ids, text)
    inside = g.Not(of_class(ids, SPACE))
    starts, ends = _spans_of(g, text, inside, g.And(inside, g.Not(of_class(ids, PUNCT))))
    is_start = g.total(starts, g.filled(starts, 1), g.Size(ids))
    word = g.Max(g.Sub(g.CumSum(is_start, 0), 1), 0)
    inner = [piece.prefix != "" and token.startswith(piece.prefix) for token in piece.tokens]
    strings = [
        (own, *(table.number.get(c, END) for c in token.removeprefix(piece.prefix)))
        for token, own in zip(piece.tokens, map(int, inner), strict=True)
    ]
    limits = g.Gather(g.Concat(ends, [0], axis=0), word)
    roots = g.Sub(1, is_start) if piece.prefix else g.filled(ids, 0)
    tokens = g.places(strings, roots, ids, g.Range(0, g.Size(ids), 1), limits)
    lengths = g.Range(0, g.Squeeze(g.Shape(tokens, start=1), [0]), 1)
    sizes = g.ReduceMax(g.Where(g.GreaterOrEqual(tokens, 0), lengths, 0), [1], keepdims=0)
    place = _token_starts(g, starts, ends, sizes, word, piece.max_word_characters)
    tokens, text = g.entries(g.Gather(tokens, place), g.Gather(sizes, place)), g.Gather(text, place)
    numbers = {token: k for k, token in enumerate(piece.tokens)}
    return Symbols(tokens, text, *_spans(g, text, n_texts), numbers)


def _token_starts(g: Graph, starts: str, ends: str, sizes: str, word: str, most: int) -> str:
    """First character of each token of the words of at most so many characters that consist of tokens."""
    padded = g.Concat(sizes, [0], axis=0)

    def step(g: Graph, trip: str, at: str, marks: str) -> tuple[str, list[str]]:
        size = g.Where(g.Less(at, ends), g.Gather(padded, at), 0)
        [place] = g.select(g.Greater(size, 0), at)
        going = g.ReduceMax(g.Concat([0], size, axis=0), keepdims=0)
        after = [g.Add(at, size), g.ScatterElements(marks, place, g.filled(place, 1), axis=0)]
        return g.Greater(going, 0), after

    at, marks = g.loop(most + 1, [g.Identity(starts), g.filled(sizes, 0)], step)
    whole = g.And(g.Equal(at, ends), g.LessOrEqual(g.Sub(ends, starts), most))
    whole = g.Gather(g.Concat(whole, np.array([False]), axis=0), word)
    return str(g.where(g.And(g.Cast(marks, to=BOOL), whole)))


def _ranks(g: Graph, ids: str, starts: str, ends: str) -> str:
    """Numbers of words, equal for equal words; the prefixes that are compared double in length."""
    marks = g.total(starts, g.filled(starts, 1), g.Size(ids))
    owner = g.Sub(g.CumSum(marks, 0), 1)
    limit = g.Gather(g.Concat([0], ends, axis=0), g.Add(owner, 1))
    size = g.ReduceMax(g.Concat([0], g.Sub(ends, starts), axis=0), keepdims=0)

    def step(g: Graph, trip: str, ranks: str, width: str) -> tuple[str, list[str]]:
        at = g.Add(g.Range(0, g.Size(ranks), 1), width)
        longer = g.Less(at, limit)
        second = g.Add(g.Gather(g.Concat(ranks, [0], axis=0), g.Where(longer, at, 0)), 1)
        key = g.Add(g.Mul(ranks, BASE), g.Where(longer, second, 0))
        _, _, ranks, _ = g.Unique(key, outputs=4)
        return g.Less(g.Mul(width, 2), size), [ranks, g.Mul(width, 2)]

    ranks, _ = g.loop("", [ids, g.Identity(1)], step)
    return str(g.Gather(ranks, starts))


#: Versions of the operators and of the format, which onnxruntime 1.15 and later read.
OPSETS = {"": 18, "ai.onnx.ml": 3, "com.microsoft": 1}
IR_VERSION = 9
#: Version of the operators with RegexFullMatch, for encoders, which onnxruntime 1.17 and later read.
ENCODED = 20
OUTPUTS = ("label", "labels", "decision", "probabilities")  #: Names of outputs
MOST_BYTES = (1 << 31) - 1  #: Largest file: protobuf's limit.
TOO_LARGE = "the model takes more than 2 GiB, the limit of ONNX files; take another format"


@dataclass(frozen=True)
class Level:
    """Occurrences of the first k symbols of the strings of some tables, as names of values."""

    start: str  #: First symbol of each occurrence
    pattern: str  #: Pattern of each occurrence
    string: str  #: Number of the string of each occurrence
    count: str  #: Number of occurrences of each string
    text: str  #: Text of each string
    node: str  #: Place of each string among the strings of the model, negative for none
    n_nodes: int


def _input_name(column: str | None) -> str:
    """Name of the input for a column, which no other value of the graph has."""
    if column is None:
        return "texts"
    return f"text_{column}" if column in OUTPUTS or re.fullmatch(r"v\d+", column) else column


def onnx_of(plain: PlainModel) -> bytes:
    """The model as ONNX; InputError if it cannot be expressed."""
    tables = [table for term in plain.terms for table in term.tables]
    if 8 * sum(table.weights.size + table.codes.size for table in tables) > MOST_BYTES:
        raise InputError(TOO_LARGE)
    g = Graph()
    columns: list[str | None] = [*plain.columns]
    inputs = {column: _input_name(column) for column in columns or [None]}
    symbols, size = read(g, inputs, plain), g.Size(next(iter(inputs.values())))
    zeros = g.Expand(0.0, g.Concat(g.Reshape(size, [1]), [plain.n_machines], axis=0))
    values = g.Add(zeros, plain.biases)
    for term in plain.terms:
        values = g.Add(values, _term_values(g, term, symbols[term.view], size, zeros))
    outputs = _outputs(g, plain, values)
    g.nodes += [helper.make_node("Identity", [value], [name]) for name, (value, _) in outputs.items()]
    infos = [
        helper.make_tensor_value_info(name, kind, ["n"] if name == "label" else ["n", None])
        for name, (_, kind) in outputs.items()
    ]
    texts = [helper.make_tensor_value_info(name, STRING, ["n"]) for name in inputs.values()]
    graph = helper.make_graph(g.nodes, "textsvm", texts, infos, [*g.constants.values()])
    encoded = any(term.view.encoder is not None or len(term.view.columns) > 1 for term in plain.terms)
    opsets = [helper.make_opsetid(name, ENCODED if encoded and not name else n) for name, n in OPSETS.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="textsvm")
    helper.set_model_props(model, {"textsvm": json.dumps(to_json(plain.about))})
    if model.ByteSize() > MOST_BYTES:
        raise InputError(TOO_LARGE)
    return bytes(model.SerializeToString())


def _term_values(g: Graph, term: FeatureTerm, symbols: Symbols, size: str, zeros: str) -> str:
    spelled = term.alphabet.tolist() if term.alphabet.dtype == object else map(chr, term.alphabet.tolist())
    number = np.array([symbols.number[symbol] for symbol in spelled], np.int64)
    tables = sorted(term.tables, key=lambda table: len(table.offsets))
    sums, squares = zeros, g.Expand(0.0, g.Reshape(size, [1]))
    for _, group in groupby(tables, key=lambda table: len(table.offsets)):
        same = list(group)
        # Level 0: each position and pattern begins the empty string of its text.
        n_patterns = len(same[0].offsets)
        places = g.Range(0, g.Mul(g.Size(symbols.ids), n_patterns), 1)
        start = g.Div(places, n_patterns)
        texts = g.Range(0, g.Size(symbols.starts), 1)
        zero = g.filled(texts, 0)
        pattern = g.Mod(places, n_patterns)
        level = Level(start, pattern, g.Gather(symbols.text, start), zero, texts, zero, 1)
        parents = [np.zeros(len(table.codes), np.int64) for table in same]
        for table, deepest, nodes in _levels(g, symbols, level, 0, same, parents, number):
            sums, squares = _table_values(g, term, table, deepest, nodes, symbols, (sums, squares))
    if term.mean:
        squares = g.Cast(g.Sub(symbols.ends, symbols.starts), to=DOUBLE)
    elif not term.normalised:
        return str(g.Mul(sums, term.scale))
    positive = g.Greater(squares, 0.0)
    divisor = g.Where(positive, squares, 1.0)
    scaled = g.Div(sums, g.Unsqueeze(divisor if term.mean else g.Sqrt(divisor), [1]))
    return str(g.Where(g.Unsqueeze(positive, [1]), scaled, _featureless(g, term, symbols, number, zeros)))


def _featureless(g: Graph, term: FeatureTerm, symbols: Symbols, number: Ints, zeros: str) -> str:
    """Values of texts that equal a training text without features."""
    if not len(term.featureless) or term.featureless_values is None:
        return zeros
    strings = [number[codes].tolist() for codes in term.featureless]
    values = np.concatenate([term.featureless_values, np.zeros((1, term.featureless_values.shape[1]))])
    place = g.walk(strings, symbols.ids, symbols.starts, symbols.ends)
    return str(g.Gather(values, g.Where(g.Less(place, 0), len(strings), place)))


def _levels(
    g: Graph, symbols: Symbols, level: Level, k: int, tables: Sequence[FeatureTable],
    parents: Sequence[Ints], number: Ints,
) -> Iterator[tuple[FeatureTable, Level, Ints]]:  # fmt: skip
    """Each table with the level of its strings and their nodes; tables share levels as long as they can."""
    groups: dict[bytes, list[int]] = {}
    for i, table in enumerate(tables):
        if table.offsets.shape[1] == k:
            yield table, level, parents[i]
        else:
            groups.setdefault(table.offsets[:, k].tobytes(), []).append(i)
    for group in groups.values():
        keys = [parents[i] * BASE + number[tables[i].codes[:, k]] for i in group]
        edges = np.unique(np.concatenate(keys))
        deeper = _extended(g, symbols, level, tables[group[0]].offsets[:, k], edges)
        nodes = [np.searchsorted(edges, key) for key in keys]
        yield from _levels(g, symbols, deeper, k + 1, [tables[i] for i in group], nodes, number)


def _extended(g: Graph, symbols: Symbols, level: Level, offsets: Ints, edges: Ints) -> Level:
    """Strings with another symbol, at these offsets of the patterns, as far as the texts reach."""
    at = g.Add(level.start, g.Gather(offsets, level.pattern))
    inside = g.Less(at, g.Gather(g.Gather(symbols.ends, level.text), level.string))
    at, start, pattern, string = g.select(inside, at, level.start, level.pattern, level.string)
    key = g.Add(g.Mul(string, BASE), g.Gather(symbols.ids, at))
    pairs, _, string, count = g.Unique(key, outputs=4)
    parent, symbol = g.Div(pairs, BASE), g.Mod(pairs, BASE)
    edge = g.Add(g.Mul(g.Gather(level.node, parent), BASE), symbol)
    node = g.look_up(edge, edges.tolist(), range(len(edges)), -1)
    return Level(start, pattern, string, count, g.Gather(level.text, parent), node, len(edges))


def _table_values(
    g: Graph, term: FeatureTerm, table: FeatureTable, level: Level, nodes: Ints,
    symbols: Symbols, before: tuple[str, str],
) -> tuple[str, str]:  # fmt: skip
    """Sums of weights, and of squares, with the features of a table."""
    sums, squares = before
    amount, present = _amounts(g, table, level, symbols)
    amount, text, node = g.select(present, amount, level.text, level.node)
    node = g.Where(g.Less(node, 0), level.n_nodes, node)
    factors = np.full(level.n_nodes + 1, term.unknown)
    factors[nodes] = 1.0 if table.factors is None else table.factors
    x = g.Gather(factors, node)
    if term.count in ("count", "log"):
        x = g.Mul(x, amount if term.count == "count" else g.Add(g.Log(amount), 1.0))
    x = g.Cast(g.Cast(x, to=FLOAT), to=DOUBLE)
    square = g.Mul(g.Mul(x, x), float(table.times))
    square = g.Mul(square, amount) if term.count == "intersection" else square
    squares = g.ScatterElements(squares, text, square, axis=0, reduction="add")
    first, rows = np.full(level.n_nodes + 1, -1), np.ones(level.n_nodes + 1, np.int64)
    first[nodes], rows[nodes] = np.cumsum(table.rows) - table.rows, table.rows
    x, text, node, amount = g.select(g.GreaterOrEqual(g.Gather(first, node), 0), x, text, node, amount)
    row = g.Gather(first, node)
    if table.rows.max(initial=1) > 1:
        row = g.Add(row, g.Sub(g.Min(g.Cast(amount, to=INT64), g.Gather(rows, node)), 1))
    features = g.Mul(g.Unsqueeze(x, [1]), g.Gather(cumulated(table), row))
    # ScatterND of onnxruntime adds on several threads at once, and loses addends of the same text.
    owner = g.Expand(g.Unsqueeze(text, [1]), g.Shape(features))
    return g.ScatterElements(sums, owner, features, axis=0, reduction="add"), squares


def _amounts(g: Graph, table: FeatureTable, level: Level, symbols: Symbols) -> tuple[str, str]:
    """Amount of each string, and whether it is above 0."""
    reach = table.span if len(table.offsets) == 1 else table.offsets.max() + 1
    if len(table.offsets) == 1 and reach == table.offsets.max() + 1 and (table.values == 1).all():
        return g.Cast(level.count, to=DOUBLE), g.Greater(level.count, 0)
    values = g.Gather(table.values.astype(float), level.pattern)
    if len(table.offsets) == 1:
        limit = g.Gather(g.Gather(symbols.ends, level.text), level.string)
        values = g.Where(g.LessOrEqual(g.Add(level.start, reach), limit), values, 0.0)
    amount = g.total(level.string, values, g.Size(level.count), 0.0)
    return amount, g.Greater(amount, 0.0)


def _outputs(g: Graph, plain: PlainModel, values: str) -> dict[str, tuple[str, int]]:
    """Name of the value and type of each output."""
    decision = _decision(g, plain, values)
    outputs = {"decision": (decision, DOUBLE)}
    if plain.task == "number":
        return outputs
    if plain.task == "novelty":
        label = g.Where(g.GreaterOrEqual(g.Squeeze(decision, [1]), 0.0), 1, -1)
        return {"label": (label, INT64), **outputs}
    if plain.task == "labels":
        assert plain.thresholds is not None
        return {"labels": (g.Greater(decision, plain.thresholds), BOOL), **outputs}
    assert plain.classes is not None
    if plain.calibration is None:
        values = g.Concat(g.filled(decision, 0.0), decision, axis=1) if plain.n_decisions == 1 else decision
        return {"label": _label(g, plain, g.ArgMax(values, axis=1, keepdims=0), None), **outputs}
    p = _probabilities(g, plain, decision, plain.calibration)
    label = _label(g, plain, g.ArgMax(p, axis=1, keepdims=0), p)
    return {"label": label, **outputs, "probabilities": (p, DOUBLE)}


def _decision(g: Graph, plain: PlainModel, values: str) -> str:
    if plain.combine == "difference":
        return str(g.MatMul(values, np.array([[-1.0], [1.0]])))
    if plain.combine == "identity":
        return values
    pairs = list(combinations(range(plain.n_decisions), 2))
    first, second = (np.eye(plain.n_decisions)[[pair[k] for pair in pairs]] for k in (0, 1))
    wins = g.Cast(g.Greater(values, 0.0), to=DOUBLE)
    votes = g.Add(g.MatMul(wins, second), g.MatMul(g.Sub(1.0, wins), first))
    sums = g.MatMul(values, second - first)
    return str(g.Add(votes, g.Div(sums, g.Mul(3.0, g.Add(g.Abs(sums), 1.0)))))


def _probabilities(g: Graph, plain: PlainModel, decision: str, maps: Arrays) -> str:
    if "a" in maps:
        p = g.Div(1.0, g.Add(1.0, g.Exp(g.Add(g.Mul(decision, maps["a"]), maps["b"]))))
    else:
        parts = [slice(*pair) for pair in zip(maps["starts"][:-1], maps["starts"][1:], strict=True)]
        lines = [
            _interpolated(g, g.Slice(decision, [k], [k + 1], [1]), maps["x"][part], maps["y"][part])
            for k, part in enumerate(parts)
        ]
        p = g.Concat(*lines, axis=1)
    if plain.n_decisions == 1:
        return str(g.Concat(g.Sub(1.0, p), p, axis=1))
    total = g.ReduceSum(p, [1], keepdims=1)
    positive = g.Greater(total, 0.0)
    return str(g.Where(positive, g.Div(p, g.Where(positive, total, 1.0)), 1 / plain.n_decisions))


def _interpolated(g: Graph, values: str, x: Floats, y: Floats) -> str:
    """`numpy.interp` of a column."""
    left = g.ReduceSum(g.Cast(g.LessOrEqual(x, values), to=INT64), [1], keepdims=1)
    left = g.Sub(left, 1)
    slopes = np.diff(y) / np.where(np.diff(x) > 0, np.diff(x), 1)
    at = g.Max(left, 0)
    line = g.Add(g.Gather(y, at), g.Mul(g.Gather(np.append(slopes, 0.0), at), g.Sub(values, g.Gather(x, at))))
    return str(g.Where(g.Less(left, 0), y[0], line))


def _label(g: Graph, plain: PlainModel, best: str, p: str | None) -> tuple[str, int]:
    """Labels, as integers or strings; "unsure" for rejected texts."""
    classes, unsure = plain.classes or [], None
    if len(plain.reject) == 1:
        unsure = g.Less(g.ReduceMax(p, [1], keepdims=0), plain.reject[0])
    elif plain.reject:
        second = g.Gather(p, 1, axis=1)
        best = g.Cast(g.GreaterOrEqual(second, plain.reject[1]), to=INT64)
        unsure = g.And(g.Greater(second, plain.reject[0]), g.Less(second, plain.reject[1]))
    if unsure is None and all(type(label) is int for label in classes):
        return g.Gather(np.array(classes, np.int64), best), INT64
    label = g.Gather(np.array([*map(name_of, classes)], object), best)
    return label if unsure is None else g.Where(unsure, np.array(UNSURE, object), label), STRING
