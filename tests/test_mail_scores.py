"""The features of mails, and the scores that decision values become."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from textsvm.apps.mail.decision import (
    FIRST,
    HAM,
    LAST,
    MANY,
    PRIOR,
    PRIOR_MAILS,
    SPAM,
    Decision,
    PlattSigmoid,
    fit_sigmoid,
)
from textsvm.apps.mail.features import HEADER, MAX_BYTES, MAX_HEADER, SHARES, WORD, P, features
from textsvm.errors import InputError
from textsvm.solvers.online import OnlineMachine
from textsvm.text.byte_pmers import LONGEST, byte_pmers, spelled


def pmers(text, mark=0):
    """Letters small, as `bytes.lower` has it, and digits 0."""
    data = re.sub(rb"[0-9]", b"0", text.encode("utf-8", "surrogatepass").lower())
    return {mark | int.from_bytes(data[i : i + P], "big") for i in range(len(data) - P + 1)}


@given(st.text(st.characters() | st.sampled_from("\nA9"), max_size=60))
def test_features_are_the_distinct_four_byte_strings(text):
    """Any text, lone surrogates too."""
    keys, values = features(text, 1)
    fields, empty, below = text.partition("\n\n")
    expected = pmers(fields, HEADER) | pmers(below) if empty else pmers(text)
    assert keys.dtype == np.uint64
    assert values.dtype == np.float32
    assert keys.tolist() == sorted(P << 56 | each for each in expected)
    assert not len(values) or np.linalg.norm(values) == pytest.approx(1, abs=1e-6)
    assert len(set(values.tolist())) <= 1
    more, shares = features(text)
    np.testing.assert_array_equal(more[more < (P << 56 | WORD)], keys)
    blocks = (more >> np.uint64(32)).astype(int) & 3
    assert (np.diff(more.astype(np.int64)) > 0).all()
    for block in np.unique(blocks):
        assert np.linalg.norm(shares[blocks == block]) == pytest.approx(SHARES[block] ** 0.5, abs=1e-6)
        assert len(set(shares[blocks == block].tolist())) == 1


def test_words_and_fields_of_lists():
    """A word counts once, in the text alone; fields that a list writes are not read."""
    text = "To: you\nList-Id: <a.b>\n folded\nSubject: x\n\nCheap cheap Rolex"
    keys = features(text)[0]
    assert np.count_nonzero(keys & np.uint64(WORD)) == 2
    np.testing.assert_array_equal(keys, features(text.replace("List-Id: <a.b>\n folded\n", ""))[0])
    assert len(features(text, 1)[0]) > np.count_nonzero(keys < (P << 56 | WORD))


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
    with pytest.raises(InputError, match="same value"):
        machine.add("x", np.array([1, 2]), np.array([1.0, 2.0]), True)
    with pytest.raises(InputError, match="ascend"):
        machine.add("x", np.array([HEADER, 2]), np.array([1.0, 1.0]), True)


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
    assert [len(features("abc", version)[0]) for version in (1, 2)] == [0, 1]


def test_a_decision_loads_numpy_alone():
    code = (
        "import sys\nimport textsvm.apps.mail.features, textsvm.apps.mail.decision\n"
        "print({'numba', 'scipy', 'sklearn'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def values_of(n_spam, n_ham, distance=2.0, seed=0):
    rng = np.random.default_rng(seed)
    spam = np.arange(n_spam + n_ham) < n_spam
    return rng.normal(np.where(spam, distance / 2, -distance / 2), 0.6), spam


def test_no_lessons_or_those_of_one_kind_leave_what_is_believed_before():
    for values, spam in (([], []), ([1.0, 2.0], [True, True]), ([-3.0], [False])):
        assert fit_sigmoid(values, spam) == PlattSigmoid(PRIOR)
        assert fit_sigmoid(values, spam).probability(0.0) == 0.5


def test_a_few_lessons_do_not_make_scores_flat():
    """Sixteen spams and two hams that are left out on the wrong side: as early lessons are."""
    values = np.append(np.full(16, 0.2), [0.25, 0.3])
    assert fit_sigmoid(values, values < 0.25).slope > 1


@pytest.mark.parametrize(("n_spam", "n_ham"), [(1, 1), (20, 20), (500, 20), (1000, 4000)])
def test_it_is_the_greatest_likelihood(n_spam, n_ham):
    values, spam = values_of(n_spam, n_ham)
    few = min(n_spam, n_ham)
    at_prior = [
        min(LAST, FIRST * (min(n, MANY) / 10) ** (1 / 3) * max(1, n / MANY) ** 0.6) for n in (n_spam, n_ham)
    ]
    mails = PRIOR_MAILS * min(1, MANY / few)
    aim = np.append(np.where(spam, 1 - 1 / (n_spam + 2), 1 / (n_ham + 2)), [SPAM, 1 - SPAM])
    weight = np.append(np.where(spam, few / n_spam, few / n_ham), [mails, mails])
    weight /= weight.sum()
    points = np.append(values, [at_prior[0], -at_prior[1]])

    def loss(at):
        score = at[0] * points + at[1]
        return weight @ (np.logaddexp(0, score) - aim * score)

    found = fit_sigmoid(values, spam)
    best = minimize(loss, [1.0, 0.0], tol=1e-12)
    assert loss([found.slope, found.offset]) <= best.fun + 1e-9


def test_many_spams_and_few_hams_place_the_threshold_above_new_hams():
    """A machine that knows 600 spams and 10 hams gives a new ham values of up to 0.85."""
    values = np.append(np.full(600, 1.0), np.full(10, -0.4))
    sigmoid = fit_sigmoid(values, values > 0)
    assert sigmoid.probability(0.85) < SPAM < sigmoid.probability(1.0)
    assert fit_sigmoid(-values, values < 0).probability(-0.85) > 1 - SPAM
    balanced = np.append(np.full(10, 1.0), np.full(10, -0.4))
    assert fit_sigmoid(balanced, balanced > 0).probability(0.85) > SPAM


def test_scores_mean_what_they_say():
    """Of mails that were not seen, half of them spam, as many are spam as the score says."""
    sigmoid = fit_sigmoid(*values_of(300, 3000))
    values, spam = values_of(100_000, 100_000, seed=1)
    scores = 1 / (1 + np.exp(-(sigmoid.slope * values + sigmoid.offset)))
    for low, high in ((0.0, 0.1), (0.1, 0.45), (0.45, 0.9), (0.9, 0.99), (0.99, 1.0)):
        inside = (scores >= low) & (scores < high)
        assert spam[inside].mean() == pytest.approx(scores[inside].mean(), abs=0.03)
    assert (scores[~spam] >= 0.99).mean() < 0.001
    assert (scores[spam] >= 0.99).mean() > 0.25


def test_a_few_lessons_decide_and_are_not_certain():
    """Twenty of each kind that anything tells apart: spam from less than the value of lessons on."""
    values = np.repeat([1.0, -1.0], 20)
    sigmoid = fit_sigmoid(values, values > 0)
    assert sigmoid.probability(FIRST) < SPAM < sigmoid.probability(LAST)
    assert sigmoid.probability(1.0) < 0.9999
    assert sigmoid.probability(-1.0) == pytest.approx(1 - sigmoid.probability(1.0))
    assert sigmoid.probability(0.0) == pytest.approx(0.5)


def test_a_learnt_message_is_on_its_side():
    assert Decision("unsure", 0.8, 0.3).for_lesson("spam") == Decision("spam", SPAM, 0.3)
    assert Decision("unsure", 0.8, 0.3).for_lesson("ham") == Decision("ham", HAM, 0.3)
    assert Decision("spam", 0.999, 0.9).for_lesson("spam").score == 0.999
    assert Decision("unsure", 0.8, 0.3).for_lesson(None).kind == "unsure"


@given(st.lists(st.tuples(st.floats(-50, 50), st.booleans()), max_size=12))
def test_it_grows_with_the_value_whatever_was_seen(pairs):
    sigmoid = fit_sigmoid([value for value, _ in pairs], [spam for _, spam in pairs])
    scores = [sigmoid.probability(value) for value in (-1e300, -3.0, -1.0, 0.0, 1.0, 3.0, 1e300)]
    assert all(np.isfinite(scores))
    assert min(scores) >= 0
    assert max(scores) <= 1
    assert scores == sorted(scores)


def test_lessons_that_contradict_it_make_it_flat():
    values, spam = values_of(300, 300)
    assert fit_sigmoid(values, ~spam) == PlattSigmoid()
