"""Normalisation and encoding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from textsvm.text import encoding
from textsvm.text.documents import encode, normalise, without_case
from textsvm.text.normal_form import normal_form

ANY_TEXT = st.text(st.characters(), max_size=40)  # lone surrogates included


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("  Hello\t\r\n World ", {}, "hello world"),
        ("ﬁne Straße №5", {}, "fine strasse no5"),
        # Case folding takes these apart, and only a second NFKC puts them together again.
        ("\u01f0 \u0390 \u1fb6", {}, "\u01f0 \u0390 \u1fb6"),
        ("Hello, world! (€5)", {"punctuation": False}, "hello world 5"),
        ("  Straße №5\tİx ", {"keep_case": True}, "Straße No5 İx"),
        ("U.S. &lt; 5%...\n", {"form": "paper", "keep_case": True}, "U S lt 5 "),
        ("Hello, World! (€5)", {"punctuation": False, "keep_case": True}, "Hello World 5"),
        ("U.S. &lt; 5%...\n", {"form": "paper"}, "u s lt 5 "),
        ("  As IT is\n", {"form": "none"}, "  As IT is\n"),
        ("", {}, ""),
        ("v\u200bi\u2060a\ufeffg\u00adr\u200d\u200ca", {}, "viagra"),
        ("\u202ecash\u202c \u200b now", {}, "cash now"),
        ("a\u200b\u0301\U000e0041\ufe0f", {"keep_case": True}, "\u00e1"),  # composed behind them
        ("\u200c\u1112\u3164\u1161\u115f\u11ab\uffa0", {}, "\ud55c"),
        ("\u0645\u06cc\u200c\u200c\u200b\u062e", {}, "\u0645\u06cc\u200c\u062e"),  # Persian
        ("\u0915\u094d\u200d\u0937", {}, "\u0915\u094d\u200d\u0937"),  # Hindi
        (
            "\u1797\u17b6\u200b\u179f \u0628\u200b\u0627",
            {},
            "\u1797\u17b6\u200b\u179f \u0628\u0627",
        ),  # Khmer, Arabic
        ("\u2764\ufe0f\u200d\U0001f525", {}, "\u2764\u200d\U0001f525"),  # an emoji sequence
        ("\u1820\u180b\u180e\u1820", {}, "\u1820\u180e\u1820"),  # Mongolian
        ("\u24bf\u200d\u24bf", {}, "jj"),
    ],
)
def test_normal_forms(text, options, expected):
    assert normalise(text, **options) == expected


def test_unknown_form_is_named():
    refuses("'latin'", normalise, "x", "latin")


def test_a_run_of_ignorable_code_points_takes_linear_time():
    assert normalise("a" + "\u200b" * 500_000 + "b" + "\u0628\u064b\u200c" * 1000).startswith("ab\u0628")


@given(ANY_TEXT)
def test_unicode_form_is_stable_under_itself(text):
    once = normalise(text)
    assert normalise(once) == once


def test_width_of_codes():
    assert encode(["".join(map(chr, range(256)))]).codes.dtype == np.uint8
    assert encode(["".join(map(chr, range(257)))]).codes.dtype == np.uint16
    text = "".join(map(chr, range(0x10000, 0x10000 + 65_537)))
    many = encode([text])
    assert many.codes.dtype == np.uint32
    assert many.text(0) == text


@pytest.mark.parametrize("form", ["unicode", "paper"])
@pytest.mark.parametrize("punctuation", [True, False])
def test_ascii_texts_without_case_follow_from_those_with_case(form, punctuation):
    rng = np.random.default_rng(0)
    texts = ["".join(map(chr, rng.integers(0, 128, size))) for size in rng.integers(0, 60, 200)]
    training = ["Straße ÉÀ Zz", "sunday"]
    cased, plain = (encoding.Reading(normal_form(form, punctuation, case), 30) for case in (True, False))
    for known in (None, training):
        first, folded = (
            None if known is None else encode(known, None, own).alphabet for own in (cased, plain)
        )
        ours = without_case(encode(texts, first, cased), folded)
        theirs = encode(texts, folded, plain)
        for mine, own in (
            (ours.codes, theirs.codes),
            (ours.offsets, theirs.offsets),
            (ours.alphabet, theirs.alphabet),
        ):
            np.testing.assert_array_equal(mine, own)
            assert mine.dtype == own.dtype
