"""Machines on features: pairs of classes, labels, kernels of any scale, the duality gap, faces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_columns import TEXT, corpus
from test_spectrum import CPU

from textsvm import SVC, Compute, Spectrum
from textsvm.gram.base import DenseGram
from textsvm.linalg import sparse
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.solvers import feature_machines
from textsvm.solvers.columns import BLOCK, FEW, solve_columns
from textsvm.solvers.feature_machines import Face, balance, descend_face, solve_by_descent
from textsvm.solvers.problems import Classification, Labelling
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.text.documents import encode

LOG = Spectrum((1, 3), "log", idf=True)


def solved(problem, texts, kernel=LOG, tol=1e-3, **options):
    """The machines of a problem from features, and by SMO on the Gram to a hundredth of the tolerance."""
    documents = encode(texts)
    rows = kernel.features.rows(documents, CPU)
    gram = kernel.rows(documents, CPU).gram()
    [[exact]] = solve(DenseGram(gram, "given"), [[problem]], Stopping(tol / 100))
    return solve_by_descent(problem, rows, Stopping(tol, **options)), exact


def judge(found, exact, box, scale=1.0):
    """Each machine is feasible, converged and as good as that of SMO."""
    assert len(found.solutions) == len(exact.solutions)
    for mine, best in zip(found.solutions, exact.solutions, strict=True):
        assert mine.converged
        assert mine.violation <= 1e-3
        assert (mine.alpha >= 0).all()
        assert (mine.alpha <= box * (1 + 1e-12)).all()
        assert abs(mine.coef.sum()) <= 1e-9 * max(1.0, mine.alpha.sum())
        rounding = scale * np.square(best.alpha.sum()) * 2.0**-23
        assert mine.objective <= best.objective + 1e-5 * abs(best.objective) + rounding + 1e-12
        assert mine.objective >= best.objective - 1e-3 * abs(best.objective) - rounding - 1e-12


@settings(max_examples=25, derandomize=True)
@given(
    examples=st.lists(st.tuples(TEXT, st.integers(0, 3)), min_size=4, max_size=14),
    log_c=st.floats(-2, 2),
    strategy=st.sampled_from(["ovo", "ovr"]),
)
def test_pairs_of_classes_have_the_optimum_of_smo(examples, log_c, strategy):
    texts, given_classes = [text for text, _ in examples], np.array([c for _, c in examples])
    if len(set(given_classes.tolist())) < 2:
        given_classes[0] = 9
    classes, y = np.unique(given_classes, return_inverse=True)
    problem = Classification(np.arange(len(y)), y, len(classes), 10**log_c, np.ones(len(y)), strategy)
    found, exact = solved(problem, texts)
    judge(found, exact, 10**log_c)
    assert found.coef.shape == exact.coef.shape
    if strategy == "ovo" and len(classes) > 2:
        assert not found.coef[0][y > 1].any()


@settings(max_examples=20, derandomize=True)
@given(
    examples=st.lists(
        st.tuples(TEXT, st.lists(st.booleans(), min_size=3, max_size=3)), min_size=3, max_size=12
    ),
    log_c=st.floats(-2, 2),
)
def test_labels_have_the_optimum_of_smo_and_those_of_all_or_none_are_left_out(examples, log_c):
    texts, labels = [text for text, _ in examples], np.array([row for _, row in examples])
    problem = Labelling(np.arange(len(texts)), labels, 10**log_c, np.ones(len(texts)))
    found, exact = solved(problem, texts)
    judge(found, exact, 10**log_c)
    np.testing.assert_array_equal(np.isnan(found.bias), np.isnan(exact.bias))
    assert not found.coef[np.isnan(exact.bias)].any()


@pytest.mark.parametrize("C", [1e-4, 0.01])
@pytest.mark.parametrize("weight", ["count", "intersection"])
def test_kernels_that_are_not_normalised(C, weight):
    texts, y = corpus(60, n_classes=2)
    texts = [text * (1 + k % 5) for k, text in enumerate(texts)]  # k(s, s) from tens to thousands
    problem = Classification(np.arange(60), y, 2, C, np.ones(60), "ovr")
    found, exact = solved(problem, texts, Spectrum((1, 3), weight, normalised=False))
    judge(found, exact, C, 1e4)


def test_descent_in_blocks_of_rows_that_are_sorted_by_class(monkeypatch):
    monkeypatch.setattr(feature_machines, "Face", None)  # calling it would raise
    n = BLOCK * FEW // 2  # blocks of several rows, of one class
    texts, y = corpus(n, n_classes=2, noise=0.2)
    order = np.argsort(y, kind="stable")
    problem = Classification(np.arange(n), y[order], 2, 1.0, np.ones(n), "ovr")
    found, exact = solved(problem, [texts[i] for i in order])
    judge(found, exact, 1.0)
    assert found.solutions[0].iterations <= 18 * n  # 14 n; 21 n with RHO = 1


def test_descent_of_some_rows_takes_the_scale_of_the_bias_from_them():
    texts, y = corpus(200, n_classes=2)
    rows = Spectrum(2, normalised=False).features.rows(encode(texts), CPU)
    large = FeatureRows(
        Sparse(rows.x.indptr, rows.x.features, rows.x.values * np.float32(32), rows.x.n_features),
        rows.ridge * 1024,
    )
    signs, index = np.where(y == 1, 1, -1).astype(np.int8)[:, None], np.arange(200)
    box = np.full(200, 1e-3, np.float32)
    weights, bias = solve_columns(rows, index, signs, box, 1e-3, 1000)
    others, other_bias = solve_columns(large, index, signs, box / 1024, 1e-3, 1000)  # the same machine
    np.testing.assert_allclose(others * 32, weights, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(other_bias, bias, rtol=1e-3)


def test_a_duality_gap_that_is_small_enough_ends_the_work():
    texts, y = corpus(300, n_classes=2, noise=0.3)
    problem = Classification(np.arange(300), y, 2, 10.0, np.ones(300), "ovr")
    exact, _ = solved(problem, texts, tol=1e-6)
    soon, _ = solved(problem, texts, tol=1e-6, duality_gap=0.1)
    [one], [whole] = soon.solutions, exact.solutions
    assert one.converged
    assert one.status == "converged"
    assert one.violation > 1e-6
    assert one.duality_gap <= 0.1
    assert one.iterations < whole.iterations
    assert whole.converged
    assert whole.violation <= 1e-6


def test_a_bound_on_passes_is_kept_and_told():
    texts, y = corpus(100, n_classes=2, noise=0.4)
    problem = Classification(np.arange(100), y, 2, 100.0, np.ones(100), "ovr")
    found, _ = solved(problem, texts, tol=1e-7, max_iter=3 * len(texts))
    assert not found.solutions[0].converged
    assert found.solutions[0].status == "stopped at its bound on epochs"
    assert found.solutions[0].iterations <= 4 * 100


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_descent_alone_reaches_the_tolerance(noise, monkeypatch):
    monkeypatch.setattr(feature_machines, "Face", None)  # calling it would raise
    texts, y = corpus(400, n_classes=2, noise=noise)
    judge(*solved(Classification(np.arange(400), y, 2, 1.0, np.ones(400), "ovr"), texts), 1.0)


@pytest.mark.parametrize("alone", [0, 1 << 30])
def test_products_of_a_face_are_those_of_its_gram(alone, monkeypatch):
    monkeypatch.setattr(sparse, "SERIAL_SIZE", alone)
    texts, _ = corpus(120)
    rows = LOG.features.rows(encode(texts), CPU)
    free = np.arange(1, 120, 3)
    some = rows.take(free)
    x = some.x.dot(np.eye(rows.x.n_features))
    gram = x @ x.T + np.diag(some.ridge)
    face, vector = Face(rows, free), np.random.default_rng(0).normal(size=len(free))
    np.testing.assert_allclose(face.product(vector), gram @ vector, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(face.squares, np.diag(gram), rtol=1e-12)
    box = np.full(len(free), -1.0), np.full(len(free), 1.0)
    coef = balance(np.clip(vector, -0.5, 0.5), box)
    moved, products = descend_face(face, coef, box, gram @ coef - np.sign(vector), 1e-8, 500)
    before, after = (0.5 * c @ gram @ c - c @ np.sign(vector) for c in (coef, moved))
    assert after < before
    assert products > 1
    assert abs(moved.sum()) < 1e-12
    assert (np.abs(moved) <= 1).all()


def test_conjugate_gradients_end_at_the_optimum_of_the_face(monkeypatch):
    monkeypatch.setattr(feature_machines, "REDUCTION", 0.0)
    texts, y = corpus(60, n_classes=2)
    rows = LOG.features.rows(encode([text * (1 + k % 3) for k, text in enumerate(texts)]), CPU)
    m = len(rows.x)
    rows = FeatureRows(rows.x, np.linspace(1, 20, m).astype(np.float32))  # rows of different scales
    gram = rows.x.dot(np.eye(rows.x.n_features))
    gram = gram @ gram.T + np.diag(rows.ridge)
    responses = np.where(y == 1, -1.0, 2.0)
    box = np.full(m, -1e3), np.full(m, 1e3)
    step, _ = descend_face(Face(rows, np.arange(m)), np.zeros(m), box, responses, 1e-9, 500)
    # Stationary where the sum stays 0: gram @ d + responses is the same number everywhere.
    equations = np.block([[gram, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
    optimum = np.linalg.solve(equations, np.append(-responses, 0.0))[:m]
    np.testing.assert_allclose(step, optimum, atol=1e-8)


def test_the_default_classifier_takes_the_duality_gap():
    texts, y = corpus(200, n_classes=2, noise=0.3)
    whole = SVC("fast", C=10.0, tol=1e-6, compute=Compute(solver="features"), device="cpu").fit(texts, y)
    soon = SVC(
        "fast", C=10.0, tol=1e-6, duality_gap=0.1, compute=Compute(solver="features"), device="cpu"
    ).fit(texts, y)
    assert soon.n_iter_ < whole.n_iter_
    assert soon.solutions_[0].duality_gap <= 0.1


def test_few_passes_where_most_rows_are_at_a_bound():
    # With a small C the bias is found by its multiplier alone: with a small penalty, 323 passes.
    draw = np.random.default_rng(0)
    texts = ["".join(draw.choice(list("abcdefgh"), 30)) for _ in range(1500)]
    y = draw.random(1500) < np.array([text.count("a") for text in texts]) / 8
    options = {"loss": "hinge", "device": "cpu", "compute": Compute(solver="features")}
    model = SVC(Spectrum((1, 4), "log", idf=True), C=1e-3, **options).fit(texts, y)
    assert model.n_iter_ / 1500 <= 30
    assert abs(model.dual_coef_.sum()) < 1e-9
