"""The features of mails, and the scores that decision values become."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from textsvm.apps.mail.features import HEADER, MAX_BYTES, MAX_HEADER, SHARES, WORD, P, features
from textsvm.solvers.online import OnlineMachine
from textsvm.text.byte_pmers import LONGEST, byte_pmers, spelled


def pmers(text, mark=0):
    """Letters small, as `bytes.lower` has it, and digits 0."""
    data = re.sub(rb"[0-9]", b"0", text.encode("utf-8", "surrogatepass").lower())
    return {mark | int.from_bytes(data[i : i + P], "big") for i in range(len(data) - P + 1)}


@given(st.text(st.characters() | st.sampled_from("\nA9"), max_size=60))
def test_features_are_the_distinct_four_byte_strings(text):
    """Any text, lone surrogates too."""
    keys, values = features(text)
    fields, empty, below = text.partition("\n\n")
    expected = pmers(fields, HEADER) | pmers(below) if empty else pmers(text)
    assert keys.dtype == np.uint64
    assert values.dtype == np.float32
    assert keys[keys < (P << 56 | WORD)].tolist() == sorted(P << 56 | pmer for pmer in expected)
    blocks = (keys >> np.uint64(32)).astype(int) & 3
    assert (np.diff(keys.astype(np.int64)) > 0).all()
    for block in np.unique(blocks):
        assert np.linalg.norm(values[blocks == block]) == pytest.approx(SHARES[block] ** 0.5, abs=1e-6)
        assert len(set(values[blocks == block].tolist())) == 1


def test_words_and_fields_of_lists():
    """A word counts once, in the text alone; fields that a list writes are not read."""
    text = "To: you\nList-Id: <a.b>\n folded\nSubject: x\n\nCheap cheap Rolex"
    keys = features(text)[0]
    assert np.count_nonzero(keys & np.uint64(WORD)) == 2
    np.testing.assert_array_equal(keys, features(text.replace("List-Id: <a.b>\n folded\n", ""))[0])


def test_products_of_rows_in_blocks():
    """The machine of mails has the Gram matrix of their vectors."""
    texts = [f"To: {name}\n\n{body}" for name in "abc" for body in ("cheap pills", "a meeting at 10", "")]
    vectors = [features(text) for text in texts]
    every = np.unique(np.concatenate([keys for keys, _ in vectors]))
    X = np.zeros((len(texts), len(every)))
    machine = OnlineMachine(free_bias=False, blocks=3)
    for i, (keys, values) in enumerate(vectors):
        X[i, np.searchsorted(every, keys)] = values
        machine.add(i, keys, values, i % 3 == 0)
    assert machine.settle()
    coef = np.array([machine.alphas[i] * (1 if i % 3 == 0 else -1) for i in range(len(texts))])
    given = [machine.decision(*vector) for vector in vectors]
    np.testing.assert_allclose(given, X @ X.T @ coef, atol=1e-5)
    refuses("same value", machine.add, "x", np.array([1, 2]), np.array([1.0, 2.0]), True)
    refuses("ascend", machine.add, "x", np.array([HEADER, 2]), np.array([1.0, 1.0]), True)


@given(st.binary(max_size=30), st.integers(1, LONGEST))
def test_keys_of_any_length(data, p):
    keys = byte_pmers(data, p)
    expected = sorted({data[i : i + p] for i in range(len(data) - p + 1)})
    assert keys.tolist() == [p << 56 | int.from_bytes(each, "big") for each in expected]
    assert [spelled(int(key)) for key in keys] == [
        each.decode("utf-8", "backslashreplace") for each in expected
    ]


def test_what_is_spelled_and_what_is_read():
    assert [spelled(int(key)) for key in features("banana")[0][:3]] == ["anan", "bana", "nana"]
    assert spelled(int(features("aé!")[0][0])) == "aé!"
    assert spelled(4 << 56) == "\0\0\0\0"
    text = "".join(chr(58 + i % 70) for i in range(MAX_BYTES)) + "unread"
    np.testing.assert_array_equal(features(text)[0], features(text[:MAX_BYTES])[0])
    fields, below = features(text[:MAX_HEADER] + "unread\n\n")[0], features(text[:MAX_HEADER])[0]
    np.testing.assert_array_equal(fields, below[below < (P << 56 | WORD)] | np.uint64(HEADER))
    assert [spelled(int(key)) for key in features("To: Me 12\n\n")[0]][:2] == [" me ", ": me"]
    assert len(features("abc")[0]) == 1
