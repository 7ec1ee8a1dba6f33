"""Two predictions of the same documents: against statsmodels' worked value, brute force and scikit-learn."""

from itertools import product
from math import comb
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from textsvm.evaluation.comparison import _sign_test, compare_correct, score_classifier

FACTS = {"name": "a", "fit": 0.0, "predict": 0.0, "chosen": "", "is_textsvm": True}


def test_the_p_value_is_that_of_the_binomial_test():
    first, second = np.ones(100, bool), np.ones(100, bool)
    first[:2], second[2:12] = False, False
    found = compare_correct(first, second)
    assert (found.only_first, found.only_second, found.n) == (10, 2, 100)
    assert found.difference == pytest.approx(0.08)
    assert found.p_value == pytest.approx(2 * sum(comb(12, k) for k in range(3)) / 2**12)
    other_way = compare_correct(second, first)
    assert other_way.difference == -found.difference
    assert other_way.p_value == found.p_value
    equal = compare_correct(first, first)
    assert (equal.difference, equal.p_value, equal.interval) == (0, 1, (0, 0))


def test_the_interval_is_that_of_drawing_documents():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 150).astype(str)
    first, second = (np.where(rng.random(150) < share, truth, "x") for share in (0.8, 0.6))
    found = compare_correct(first == truth, second == truth)
    drawn = rng.integers(0, 150, (10_000, 150))
    gains = ((first == truth).astype(int) - (second == truth))[drawn].mean(axis=1)
    np.testing.assert_allclose(found.interval, np.quantile(gains, [0.025, 0.975]), atol=0.012)
    assert found.interval[0] < found.difference < found.interval[1]


def test_groups_of_single_documents_have_mcnemars_p_and_wilsons_interval():
    random = np.random.default_rng(1)
    truth = np.ones(300, bool)
    first, second = random.random(300) < 0.8, random.random(300) < 0.7
    by_document = compare_correct(first, second)
    by_group = compare_correct(first, second, groups=np.arange(300))
    assert by_group.p_value == pytest.approx(by_document.p_value, rel=1e-9)
    np.testing.assert_allclose(by_group.interval, by_document.interval, atol=0.005)
    alone, grouped = (score_classifier(truth, first, None, groups, **FACTS) for groups in (None, range(300)))
    np.testing.assert_allclose(
        alone.interval, binomtest(int(first.sum()), 300).proportion_ci(method="wilson")
    )
    np.testing.assert_allclose(grouped.interval, alone.interval, atol=0.002)
    assert (alone.n_groups, grouped.n_groups) == (None, 300)


@settings(max_examples=60)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_p_over_groups_is_that_of_all_signs(differences):
    """Each group has as many documents that a single classifier predicts correctly as its number says."""
    right, groups = [], []
    for group, difference in enumerate(differences):
        right += [(difference > 0, difference < 0)] * abs(difference) + [(True, True)]
        groups += [group] * (abs(difference) + 1)
    first, second = np.array(right, bool).T
    paired = compare_correct(first, second, groups)
    totals = [np.dot(signs, differences) for signs in product((-1, 1), repeat=len(differences))]
    expected = np.mean([abs(total) >= abs(sum(differences)) for total in totals])
    assert paired.p_value == pytest.approx(expected)


def test_p_over_many_groups_is_fast_and_that_of_the_recursion():
    """The seconds grew with the square of the number of groups: minutes for a corpus of 100,000 authors."""
    rng, groups = np.random.default_rng(2), np.repeat(np.arange(600), 7)
    first, second = rng.random(4200) < 0.72, rng.random(4200) < 0.7
    sums = np.bincount(groups, first * 1.0 - second).astype(int)
    chances = np.ones(1)
    for size in np.abs(sums[sums != 0]).tolist():
        chances = (np.pad(chances, (0, 2 * size)) + np.pad(chances, (2 * size, 0))) / 2
    far = np.abs(np.arange(len(chances)) - len(chances) // 2) >= abs(sums.sum())
    assert compare_correct(first, second, groups).p_value == pytest.approx(chances[far].sum(), rel=1e-9)
    seconds = []
    for n in (4000, 64_000):
        sums = rng.integers(1, 4, n) * rng.choice([-1.0, 1.0], n)
        since = process_time()
        _sign_test(sums)
        seconds.append(process_time() - since)
    assert seconds[1] < 100 * max(seconds[0], 0.005)


@pytest.mark.parametrize("sign", [1, -1])
def test_p_of_few_and_of_extreme_groups(sign):
    assert _sign_test(np.array([sign * 5000.0, 1.0, 1.0])) == pytest.approx(1.0 if sign < 0 else 0.25)
    assert 0 <= _sign_test(sign * np.arange(1.0, 200.0)) < 1e-12
    assert _sign_test(np.zeros(5)) == 1.0


def test_intervals_of_groups_hold_for_new_groups():
    """Classifiers of equal accuracy whose errors are those of whole books: over documents p is too small."""
    random = np.random.default_rng(0)
    inside, covered, small, small_of_documents = 0, 0, 0, 0
    for _ in range(300):
        groups = np.repeat(np.arange(20), 15)
        first, second = (random.random(300) < random.beta(2, 1, 20)[groups] for _ in range(2))
        paired = compare_correct(first, second, groups=groups)
        inside += paired.interval[0] <= 0 <= paired.interval[1]
        low, high = score_classifier(np.ones(300, bool), first, None, groups, **FACTS).interval
        covered += low <= 2 / 3 <= high
        small += paired.p_value < 0.05
        small_of_documents += compare_correct(first, second).p_value < 0.05
    assert 0.92 <= inside / 300 <= 0.98
    assert covered / 300 >= 0.92
    assert small / 300 <= 0.08
    assert small_of_documents / 300 > 0.2


def test_a_single_group_says_nothing():
    right = np.array([True] * 9 + [False])
    paired = compare_correct(right, ~right, groups=["book"] * 10)
    assert (paired.interval, paired.p_value) == ((-1, 1), 1)
    low, high = score_classifier(np.ones(10, bool), right, None, ["book"] * 10, **FACTS).interval
    assert low < 0.3 < 0.95 < high
