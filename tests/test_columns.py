"""Classifiers trained on rows of features: the rows against Grams, the machines against SMO on the Gram."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from test_spectrum import CPU, news

from textsvm import SVC, Compute, GapWeighted, Spectrum, Sum
from textsvm.choice.choose import Trials
from textsvm.gram.base import DenseGram
from textsvm.kernels.options import WEIGHTS
from textsvm.kernels.spectrum.features import CountedDocuments
from textsvm.runtime.parallel import limit
from textsvm.solvers.feature_machines import solve_by_descent
from textsvm.solvers.problems import Classification
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.text.documents import MultiView, View, encode, encode_as
from textsvm.training.problems import as_target, problem_of
from textsvm.training.targets import as_weights

ODDS = Spectrum((1, 3), "log", idf=True, odds=True)


def gram_of(rows):
    """Kernel values as the rows of features have them."""
    x = rows.x.dot(np.eye(rows.x.n_features))
    return x @ x.T + np.diag(rows.ridge)


def views(texts, classes=None):
    """Texts as characters and as words."""
    both = {View(): encode(texts), View("words"): encode_as(texts, "words")}
    return MultiView(both).with_classes(None if classes is None else np.asarray(classes))


TEXT = st.text(st.sampled_from("ab c"), max_size=9)
EXAMPLES = st.lists(st.tuples(TEXT, st.integers(0, 2)), min_size=1, max_size=9)
LENGTHS = st.tuples(st.integers(1, 4), st.integers(0, 3)).map(lambda pair: (pair[0], sum(pair)))


@pytest.mark.slow
@settings(max_examples=80)
@given(
    examples=EXAMPLES, p=LENGTHS, weight=st.sampled_from(WEIGHTS), idf=st.booleans(), odds=st.booleans(),
    normalised=st.booleans(), data=st.data(),
)  # fmt: skip
def test_products_of_rows_are_kernel_values(examples, p, weight, idf, odds, normalised, data):
    learnt = weight != "intersection"
    kernel = Spectrum(p, weight, idf and learnt, normalised, odds=odds and learnt)
    documents = encode([text for text, _ in examples]).with_classes(np.array([c for _, c in examples]))
    everyone = np.arange(len(documents))
    train = np.array(data.draw(st.lists(st.sampled_from(everyone.tolist()), min_size=1, unique=True)))
    counted = CountedDocuments(kernel, documents)
    for part in (everyone, train):
        kernel.features.fit_counted(counted, part)
        rows = counted.rows(kernel, part)
        expected = clone(kernel).fit(documents.take(part)).rows(documents, CPU).gram()
        np.testing.assert_allclose(gram_of(rows), expected, rtol=1e-5, atol=1e-6)
        assert (rows.ridge >= 0).all()
        some = everyone[::2]
        np.testing.assert_allclose(
            gram_of(rows.take(some)), expected[np.ix_(some, some)], rtol=1e-5, atol=1e-6
        )


@pytest.mark.slow
@settings(max_examples=40)
@given(examples=EXAMPLES, share=st.floats(0.01, 0.99), odds=st.booleans())
def test_features_side_by_side_are_a_sum_of_kernels(examples, share, odds):
    texts, classes = [text for text, _ in examples], [c for _, c in examples]
    documents = views(texts, classes)
    parts = [Spectrum((1, 3), "log", idf=True, odds=odds), Spectrum((1, 2), tokens="words", odds=odds),
             Spectrum(2, "intersection")]  # fmt: skip
    for kernel in (Sum(parts, [share, 1 - share, 0.5]), Sum(parts[:2]), Sum(parts[:1])):
        rows = kernel.features.rows(documents, CPU)
        expected = clone(kernel).fit(documents).rows(documents, CPU).gram()
        np.testing.assert_allclose(gram_of(rows), expected, rtol=1e-5, atol=1e-6)
        n = len(texts)
        trials = Trials(documents, np.array(classes), 3, np.ones(n), np.zeros(n, np.int64))
        trials.count(kernel)
        train = np.arange(0, n, 2)
        expected = clone(kernel).fit(documents.take(train)).rows(documents, CPU).gram()
        np.testing.assert_allclose(gram_of(trials.rows(kernel, train)), expected, rtol=1e-5, atol=1e-6)


def test_learnt_weights_of_unary_features_are_not_counted():
    assert Spectrum(2, "intersection").features.countable
    assert not Spectrum(2, "intersection", idf=True).features.countable
    assert not Sum([Spectrum(2), Spectrum(2, "intersection", idf=True)]).features.countable
    assert Sum([Spectrum(2), GapWeighted()]).features is GapWeighted().features is None


def corpus(n=80, n_classes=3, seed=0, noise=0.1):
    """Texts whose commonest letters tell the class, with some labels wrong."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    letters = np.array(list("abcdefghij"))
    texts = []
    for c in y:
        share = np.ones(len(letters))
        share[2 * c : 2 * c + 2] = 3
        texts.append("".join(rng.choice(letters, rng.integers(5, 40), p=share / share.sum())))
    return texts, np.where(rng.random(n) < noise, rng.integers(0, n_classes, n), y)


def both_ways(texts, y, C=1.0, tol=1e-3, weight=None, class_weight=None, kernel=ODDS):
    """The machines of a problem, from features and by SMO to a hundredth of the tolerance, and the Gram."""
    model = SVC(kernel, C, class_weight=class_weight)
    target = as_target(model.settings, y, len(texts))
    documents = views(texts, target.values)
    problem = problem_of(model.settings, target, np.arange(len(texts)), as_weights(weight, len(texts)))
    kernel = clone(kernel)
    rows = kernel.features.rows(documents, CPU)
    gram = kernel.rows(kernel.structure.read(documents), CPU).gram().astype(np.float64)
    found = solve_by_descent(problem, rows, Stopping(tol))
    [[exact]] = solve(DenseGram(gram.astype(np.float32), "given"), [[problem]], Stopping(tol / 100))
    return problem, found, exact, gram


def judge(problem, found, exact, gram, tol=1e-3, near=1e-2):
    """What a solver must fulfil, worked out from the Gram anew."""
    first = 1 if problem.n_classes == 2 else 0
    box = problem.C * problem.weight
    assert len(found.solutions) == len(exact.solutions) == (1 if first else problem.n_classes)
    for k, one in enumerate(found.solutions):
        sign = np.where(problem.target == k + first, 1.0, -1.0)
        alpha = sign * found.coef[k]
        assert one.converged
        assert (alpha >= 0).all()
        assert (alpha <= box * (1 + 1e-12)).all()
        assert abs(found.coef[k].sum()) <= 1e-9 * max(1.0, box.sum())
        responses = gram @ found.coef[k] - sign
        up, down = found.coef[k] < np.where(sign > 0, box, 0), found.coef[k] > np.where(sign > 0, 0, -box)
        if up.any() and down.any():
            assert -responses[up].min() + responses[down].max() <= 1.1 * tol
        objective = 0.5 * found.coef[k] @ gram @ found.coef[k] - alpha.sum()
        # Values of features are rounded to float32, kernel values likewise: each product by 2^-23 of itself.
        rounding = np.square(alpha.sum()) * 2.0**-23
        assert objective == pytest.approx(one.objective, rel=1e-5, abs=1e-9 + rounding)
        best = exact.solutions[k].objective
        assert objective <= best + 1e-5 * abs(best) + 1e-12
        # P - D of a feasible point is at most its violation times all boxes.
        assert one.duality_gap <= 1.1 * tol * box.sum() / abs(best) + 1e-6
        values = gram @ found.coef[k] + found.bias[k]
        np.testing.assert_allclose(values, gram @ exact.coef[k] + exact.bias[k], atol=near)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_optimum_is_that_of_smo_on_the_gram(n_classes, C):
    judge(*both_ways(*corpus(n_classes=n_classes), C))


@pytest.mark.parametrize("kernel", [Spectrum(2, "intersection"), Spectrum((2, 5), "presence"),
                                    Sum([ODDS, Spectrum((1, 2), "log", True, tokens="words")])],
                         ids=["intersection", "presence", "sum"])  # fmt: skip
def test_the_optimum_of_other_kernels(kernel):
    judge(*both_ways(*corpus(50), kernel=kernel, C=0.1))


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_weights_of_texts_and_of_classes(C):
    texts, y = corpus(60)
    weight = np.random.default_rng(1).choice([0.0, 1e-8, 0.3, 1.0, 5.0], 60)
    problem, found, exact, gram = both_ways(texts, y, C, weight=weight, class_weight="balanced")
    judge(problem, found, exact, gram)
    assert not found.coef[:, weight == 0].any()
    assert found.coef[:, weight == 1e-8].any()
    judge(*both_ways(texts, y, C, class_weight={0: 10.0, 1: 0.1}))


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(
    ("texts", "y"),
    [
        (["abc", "abc", "abd", "abd", "xyz", "xyz"] * 3, [0, 1, 0, 0, 1, 1] * 3),
        (["same"] * 9, [0, 0, 0, 0, 0, 1, 1, 1, 1]),
        (["same"] * 9, [0, 1, 2] * 3),
        (["", "", "a", "", "b", "ab"], [0, 1, 0, 0, 1, 1]),
        (["abc", "abd", "xyz", "xyw", "one"], [0, 0, 1, 1, 2]),
        (["ab", "cd"], [0, 1]),
        (["ab", "cd", "ef", "gh"], [0, 1, 2, 3]),
    ],
    ids=["contradictory", "all equal", "all equal, three", "empty", "a class of one", "two", "four of one"],
)
def test_hard_little_problems(texts, y, C):
    problem, found, exact, gram = both_ways(texts, np.array(y), C, kernel=Spectrum((1, 3), "log", True))
    # Where no alpha is free a bias is anything between two bounds.
    free = all(((s.alpha > 0) & (s.alpha < C * problem.weight)).any() for s in exact.solutions)
    judge(problem, found, exact, gram, near=1e-2 if free else 2.0)


@settings(max_examples=25, derandomize=True)
@given(examples=st.lists(st.tuples(TEXT, st.integers(0, 3)), min_size=4, max_size=14), log_c=st.floats(-2, 2))
def test_any_little_problem(examples, log_c):
    texts, y = [text for text, _ in examples], np.array([c for _, c in examples])
    if len(set(y)) < 2:
        y[0] = 9
    problem, found, exact, gram = both_ways(texts, y, 10**log_c, kernel=Spectrum((1, 3), "log", True))
    judge(problem, found, exact, gram, near=2.1)


def test_alphas_at_their_bounds_stay_there():
    texts, y = ["", "", "a", "", "", ""], np.array([1, 1, 1, 0, 0, 0])  # found by the test above
    problem, found, exact, gram = both_ways(texts, y, 0.1, kernel=Spectrum((1, 3), "log", True))
    judge(problem, found, exact, gram, near=2.1)
    assert set(found.solutions[0].alpha) == {0.1}


def test_some_rows_of_all():
    texts, y = corpus(60)
    documents, index = encode(texts), np.arange(1, 60, 2)
    rows = CountedDocuments(Spectrum(2), documents).rows(Spectrum(2), np.arange(60))
    whole = Classification(index, y[index], 3, 1.0, np.ones(30), "ovr")
    found = solve_by_descent(whole, rows, Stopping(1e-3))
    alone = solve_by_descent(
        Classification(np.arange(30), y[index], 3, 1.0, np.ones(30), "ovr"), rows.take(index), Stopping(1e-3)
    )
    np.testing.assert_array_equal(found.index, index)
    np.testing.assert_array_equal(found.coef, alone.coef)


def test_a_bound_on_iterations_is_kept_and_told():
    texts, y = corpus(60)
    with pytest.warns(ConvergenceWarning, match="bound on epochs"):
        model = SVC(
            "fast", C=100.0, max_iter=120, tol=1e-6, compute=Compute(solver="features"), device="cpu"
        ).fit(texts, y)
    assert any(not one.converged for one in model.solutions_)
    assert all(one.iterations <= 240 for one in model.solutions_)
    with warnings.catch_warnings(action="error", category=ConvergenceWarning):
        SVC("fast", compute=Compute(solver="features"), device="cpu").fit(texts, y)


@pytest.mark.parametrize("n_classes", [2, 5, 20])
def test_bits_are_the_same_again_and_for_any_number_of_threads(n_classes):
    texts = [text for text in news(90) if text]
    y = np.arange(len(texts)) % n_classes
    problem = Classification(np.arange(len(y)), y, n_classes, 1.0, np.ones(len(y)), "ovr")
    found = []
    for jobs in (1, 2, 2, 5):
        with limit(jobs):
            rows = ODDS.features.rows(encode(texts).with_classes(y), CPU)
            found.append(solve_by_descent(problem, rows, Stopping(1e-3)))
    for other in found[1:]:
        np.testing.assert_array_equal(other.coef, found[0].coef)
        np.testing.assert_array_equal(other.bias, found[0].bias)
