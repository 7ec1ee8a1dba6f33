"""Scores of mails from decision values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from textsvm.apps.mail import decision


def values_of(n_spam, n_ham, distance=2.0, seed=0):
    rng = np.random.default_rng(seed)
    spam = np.arange(n_spam + n_ham) < n_spam
    return rng.normal(np.where(spam, distance / 2, -distance / 2), 0.6), spam


def test_no_lessons_or_those_of_one_kind_leave_what_is_believed_before():
    for values, spam in (([], []), ([1.0, 2.0], [True, True]), ([-3.0], [False])):
        assert decision.fit_sigmoid(values, spam) == decision.PlattSigmoid(decision.PRIOR)
        assert decision.fit_sigmoid(values, spam).probability(0.0) == 0.5


def test_a_few_lessons_do_not_make_scores_flat():
    """Sixteen spams and two hams that are left out on the wrong side: as early lessons are."""
    values = np.append(np.full(16, 0.2), [0.25, 0.3])
    assert decision.fit_sigmoid(values, values < 0.25).slope > 1


@pytest.mark.parametrize(("n_spam", "n_ham"), [(1, 1), (20, 20), (500, 20), (1000, 4000)])
def test_it_is_the_greatest_likelihood(n_spam, n_ham):
    values, spam = values_of(n_spam, n_ham)
    few = min(n_spam, n_ham)
    at_prior = [
        min(
            decision.LAST,
            decision.FIRST
            * (min(n, decision.MANY_LESSONS) / 10) ** (1 / 3)
            * max(1, n / decision.MANY_LESSONS) ** 0.6,
        )
        for n in (n_spam, n_ham)
    ]
    mails = decision.PRIOR_MAILS * min(1, decision.MANY_LESSONS / few)
    aim = np.append(np.where(spam, 1 - 1 / (n_spam + 2), 1 / (n_ham + 2)), [decision.SPAM, 1 - decision.SPAM])
    weight = np.append(np.where(spam, few / n_spam, few / n_ham), [mails, mails])
    weight /= weight.sum()
    points = np.append(values, [at_prior[0], -at_prior[1]])

    def loss(at):
        score = at[0] * points + at[1]
        return weight @ (np.logaddexp(0, score) - aim * score)

    found = decision.fit_sigmoid(values, spam)
    best = minimize(loss, [1.0, 0.0], tol=1e-12)
    assert loss([found.slope, found.offset]) <= best.fun + 1e-9


def test_many_spams_and_few_hams_place_the_threshold_above_new_hams():
    """A machine that knows 600 spams and 10 hams gives a new ham values of up to 0.85."""
    values = np.append(np.full(600, 1.0), np.full(10, -0.4))
    sigmoid = decision.fit_sigmoid(values, values > 0)
    assert sigmoid.probability(0.85) < decision.SPAM < sigmoid.probability(1.0)
    assert decision.fit_sigmoid(-values, values < 0).probability(-0.85) > 1 - decision.SPAM
    balanced = np.append(np.full(10, 1.0), np.full(10, -0.4))
    assert decision.fit_sigmoid(balanced, balanced > 0).probability(0.85) > decision.SPAM


def test_scores_mean_what_they_say():
    """Of mails that were not seen, half of them spam, as many are spam as the score says."""
    sigmoid = decision.fit_sigmoid(*values_of(300, 3000))
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
    sigmoid = decision.fit_sigmoid(values, values > 0)
    assert sigmoid.probability(decision.FIRST) < decision.SPAM < sigmoid.probability(decision.LAST)
    assert sigmoid.probability(1.0) < 0.9999
    assert sigmoid.probability(-1.0) == pytest.approx(1 - sigmoid.probability(1.0))
    assert sigmoid.probability(0.0) == pytest.approx(0.5)


@given(st.lists(st.tuples(st.floats(-50, 50), st.booleans()), max_size=12))
def test_it_grows_with_the_value_whatever_was_seen(pairs):
    sigmoid = decision.fit_sigmoid([value for value, _ in pairs], [spam for _, spam in pairs])
    scores = [sigmoid.probability(value) for value in (-1e300, -3.0, -1.0, 0.0, 1.0, 3.0, 1e300)]
    assert all(np.isfinite(scores))
    assert min(scores) >= 0
    assert max(scores) <= 1
    assert scores == sorted(scores)


def test_lessons_that_contradict_it_make_it_flat():
    values, spam = values_of(300, 300)
    assert decision.fit_sigmoid(values, ~spam) == decision.PlattSigmoid()


def test_the_centre_is_between_both_kinds_and_calls_no_more_mail_spam():
    """Lessons of mostly one kind draw all values to its side; the zero follows."""
    draw = np.random.default_rng(5)
    for n_spam, n_ham in ((20, 2), (2, 20), (5, 5)):
        machine = decision.new_machine()
        for number in range(n_spam + n_ham):
            spam = number < n_spam
            keys = np.sort(draw.choice(300, 60, replace=False) + (200 if spam else 0)).astype(np.uint64)
            machine.add(number, keys, np.full(60, 60**-0.5, np.float32), spam)
        machine.settle()
        fit, sigmoid = decision.fit_sigmoid(*machine.left_out()), decision.calibrate(machine)
        assert sigmoid.slope == fit.slope
        values, spam = machine.left_out(0.5)
        centre = np.mean([values[own].sum() / (own.sum() + 3) for own in (spam, ~spam)])
        centre *= ((min(n_spam, n_ham) + 1) / (max(n_spam, n_ham) + 1)) ** 0.1
        assert sigmoid.offset == pytest.approx(min(fit.offset, -fit.slope * centre))
        assert sigmoid.decide(-sigmoid.offset / sigmoid.slope).value == pytest.approx(0)
        middle = np.arange(200, 300, dtype=np.uint64)  # in mails of both kinds
        value = machine.decision(middle, np.full(100, 0.1, np.float32))
        if n_spam > n_ham:
            assert abs(sigmoid.decide(value).value) < abs(value)
