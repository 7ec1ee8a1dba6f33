"""Texts to codes in compiled loops: the same as normalising and numbering one text after the other."""

import sys
import time
import unicodedata

import numpy as np
import oracles
import pytest
from exported import ignorable_texts
from hypothesis import given, settings
from hypothesis import strategies as st

from textsvm import Spectrum, Sum
from textsvm.kernels.inputs import TextForm
from textsvm.runtime import parallel
from textsvm.sources.texts import TextSource
from textsvm.text import encoding
from textsvm.text import encoding as spans
from textsvm.text.documents import encode, encode_as
from textsvm.text.encoding import Reading, distinct
from textsvm.text.normal_form import NormalForm, begins, nfkc, normal_form, normalise

MARKS = "\u0301\u0307\u0323\u0345\u0328\u05b0\u064b\u093c\u094d\u0e38\u0e48\u09be\u3099\uff9e\ufe0f\u200d"
ODD = [
    *"aAiIzZ09 .,-_$€",
    *"\t\n\x0b\x1c\x1f\x85\xa0\u1680\u2003\u2028\u3000\u200b\ufeff\x00",
    *"ßẞşİıŉǰΐᾶᾳΣσςµªº½²№ﬁﬃﷺ…ΊἈ",
    *"ＡａＺ１　ｶﾞ한글ᄒ\u1161\u11abᅟ日本神",
    *MARKS,
    "\U0001d400",
    "\U0001f600",
    "\U0001d15e",
    "\U000110ba",
    "\U0010ffff",
    "\ud800",
    "\udc00",
]
TEXT = st.text(st.sampled_from(ODD) | st.characters(), max_size=25) | st.text(
    st.sampled_from("aB .\t"), max_size=25
)
TEXTS = st.lists(TEXT, max_size=8)
FORMS = [
    (form, points, case)
    for form in ("unicode", "paper", "none")
    for points in (True, False)
    for case in (True, False)
]


def expected(symbols, known=()):
    """Codes, offsets and alphabet of documents, as plainly as can be."""
    alphabet = [*known, *sorted({one for each in symbols for one in each} - {*known})]
    codes = [alphabet.index(one) for each in symbols for one in each]
    return codes, np.cumsum([0, *map(len, symbols)]).tolist(), alphabet


def assert_are(documents, symbols, known=()):
    codes, offsets, alphabet = expected(symbols, known)
    assert documents.codes.tolist() == codes
    assert documents.offsets.tolist() == offsets
    assert [*(documents.alphabet if documents.of_tokens else map(chr, documents.alphabet))] == alphabet
    assert documents.codes.dtype == (np.uint8 if len(alphabet) <= 256 else np.uint16)
    assert documents.offsets.dtype == np.int64
    assert documents.of_tokens or documents.alphabet.dtype == np.uint32


@pytest.mark.slow
@pytest.mark.parametrize(("form", "punctuation", "keep_case"), FORMS)
@given(TEXTS, st.none() | st.integers(1, 12))
@settings(max_examples=60)
def test_texts_are_read_as_normalise_reads_them(form, punctuation, keep_case, texts, most):
    reading = Reading(normal_form(form, punctuation, keep_case), most)
    plain = [normalise(text, form, punctuation=punctuation, keep_case=keep_case)[:most] for text in texts]
    assert_are(encode(texts, None, reading), plain)
    assert_are(encode(iter(texts), None, reading), plain)  # of a generator


@pytest.mark.parametrize("keep_case", [True, False])
def test_ignorable_code_points_are_read_as_normalise_reads_them(keep_case):
    texts = ignorable_texts(3000)
    plain = [normalise(text, keep_case=keep_case) for text in texts]
    documents = encode(texts, None, Reading(normal_form("unicode", True, keep_case)))
    assert [documents.text(i) for i in range(len(texts))] == plain
    stable = [text for text in texts if keep_case or "\u0345" not in text]  # a mark that folds to a letter
    once = [normalise(text, keep_case=keep_case) for text in stable]
    assert [normalise(text, keep_case=keep_case) for text in once] == once


RUNS = st.text(
    st.sampled_from("ab \u0301\u0323\u0344\u0f73\u0f71\uff9e\u0345\u3099か\u0327ﬁ-é\u1e9b"), max_size=12
)
LONG_RUNS = st.text(st.sampled_from("\u0301\u0323\u0344\u0f73\uff9e\u0345\u3099-"), min_size=60, max_size=90)


@given(RUNS, LONG_RUNS, RUNS)
def test_long_runs_of_marks_are_normalised_as_unicodedata_does(before, marks, after):
    text = before + marks + after
    assert nfkc(text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize("pair", ["\u0301\u0323", "\uff9e\u0301", "\u0f73\u0f71", "\u0301\u200d\u0323"])
def test_marks_take_linear_time(pair):
    clock = time.process_time()
    encode(["a" + pair * 100_000], None, Reading(normal_form("unicode", True, False)))
    assert time.process_time() - clock < 5  # sorted by insertion: over 20 s


@given(texts=st.lists(TEXT, min_size=3, max_size=12), known=TEXTS)
@settings(max_examples=60)
def test_chunks_and_known_alphabets(small_pieces_once, texts, known):
    alphabet = encode(known).alphabet
    reading = Reading(normal_form("unicode", True, False))
    plain = [normalise(text) for text in texts]
    symbols = [*map(chr, alphabet)]
    assert_are(encode(texts, alphabet, reading), plain, symbols)
    with parallel.limit(1):
        assert_are(encode(texts, alphabet, reading), plain, symbols)


@pytest.mark.parametrize("tokens", ["words", "whitespace"])
@given(texts=TEXTS, known=TEXTS)
@settings(max_examples=60)
def test_words_are_those_of_tokenise(small_pieces_once, tokens, texts, known):
    before = encode_as(known, tokens)
    assert_are(before, [oracles.tokenise(text, tokens) for text in known])
    documents = encode_as(texts, tokens, before)
    assert_are(documents, [oracles.tokenise(text, tokens) for text in texts], before.alphabet.tolist())
    assert [documents.shown(i) for i in range(len(texts))] == texts


@pytest.fixture(scope="module")
def small_pieces_once():
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in ((encoding, "CHUNK", 12), (encoding, "GROUP", 1), (spans, "PIECE", 7)):
            patch.setattr(module, name, value)
        yield


@pytest.mark.parametrize("keep_case", [True, False])
@given(TEXTS, st.lists(TEXT, max_size=3))
@settings(max_examples=30)
def test_views_of_a_source_are_made_of_the_same_texts(keep_case, texts, more):
    kernel = Sum(
        [Spectrum(1), Spectrum(1, tokens="words", keep_case=keep_case), Spectrum(2, tokens=str.split)]
    )
    source = TextSource(kernel, TextForm(max_length=9))
    known = None
    for given_texts in (texts, more):
        made, before = source.encode(given_texts, known), known
        for view, documents in made.documents.items():
            plain = [normalise(text, keep_case=view.keep_case)[:9] for text in given_texts]
            alphabet = [] if before is None else before.of(view).alphabet.tolist()
            symbols = [*map(chr, alphabet)] if view.tokens == "characters" else alphabet
            assert_are(documents, [oracles.tokenise(text, view.tokens) for text in plain], symbols)
        known = made


@pytest.mark.slow
def test_code_points_that_begin_a_piece_compose_with_nothing_before_them():
    """Of the Unicode of this Python, whatever it is: all that the cuts between pieces rely on."""
    characters = [*map(chr, range(sys.maxunicode + 1))]
    pairs = [unicodedata.decomposition(character).split() for character in characters]
    seconds = {int(pair[1], 16) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"}
    syllables = "".join(unicodedata.normalize("NFD", chr(point))[1:] for point in range(0xAC00, 0xD7A4))
    never = seconds | {*map(ord, syllables)} | {ord(one) for one in characters if unicodedata.combining(one)}
    assert len(never) > 800
    assert not [point for point in never if begins(point)]
    folded = [one for one in characters if one.casefold() != one and begins(ord(one))]
    assert len(folded) > 1000
    assert all(begins(ord(one.casefold()[0])) for one in folded)


@pytest.mark.slow
@pytest.mark.parametrize("keep_case", [True, False])
def test_every_code_point_becomes_the_same_between_any_others(keep_case):
    """Each that is changed, between letters that compose and fold, with marks before and behind it."""
    changed = [one for one in map(chr, range(sys.maxunicode + 1)) if normalise(f"a{one}a") != f"a{one}a"]
    some = changed[keep_case::2]  # each half in one case, for time
    texts = [
        "".join(f"Σ\u0323{c}\u0301{c}a\uac00{c}" for c in some[k : k + 64]) for k in range(0, len(some), 64)
    ]
    documents = encode(texts, None, Reading(normal_form("unicode", True, keep_case)))
    for i, text in enumerate(texts):
        assert documents.text(i) == normalise(text, keep_case=keep_case)


def test_threads_that_learn_at_the_same_time_agree():
    texts = ["".join(map(chr, range(first, first + 3000))) for first in range(0x100, 0x3000, 50)]
    plain = [normalise(text) for text in texts]
    for _ in range(3):
        form = NormalForm("unicode", True, False)
        with pytest.MonkeyPatch.context() as patch, parallel.limit(4):
            patch.setattr(encoding, "CHUNK", 1)
            patch.setattr(encoding, "GROUP", 1)
            documents = encode(texts, None, Reading(form))
        assert [documents.text(i) for i in range(len(texts))] == plain


def test_distinct_spans_are_numbered_as_they_come():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 30_000).astype(np.uint8)
    starts = rng.integers(0, len(codes) - 9, 20_000)
    stops = starts + rng.integers(0, 9, len(starts))
    numbers, firsts = distinct(codes, starts, stops)
    number = {}
    plain = [number.setdefault(codes[a:b].tobytes(), len(number)) for a, b in zip(starts, stops, strict=True)]
    assert len(number) > 2048  # the table has grown
    assert numbers.tolist() == plain
    assert firsts.tolist() == [plain.index(k) for k in range(len(number))]


def test_progress_counts_texts(small_pieces_once):
    seen = []
    with parallel.limit(2):
        encode(["some text of some length"] * 30, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (30, 30)
    assert len(seen) >= 4  # once a batch, at least
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_generator_is_not_kept(monkeypatch):
    """No more texts are alive at a time than a few chunks hold."""
    monkeypatch.setattr(encoding, "CHUNK", 1000)
    alive, most = 0, 0

    class Text(str):
        def __del__(self):
            nonlocal alive
            alive -= 1

    def texts():
        nonlocal alive, most
        for i in range(2000):
            alive += 1
            most = max(most, alive)
            yield Text(f"{i:050d}")

    with parallel.limit(1):
        documents = encode(texts())
    assert documents.lengths.tolist() == [50] * 2000
    assert most < 500
