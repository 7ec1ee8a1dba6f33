"""Kernels in formulas and calls."""

import numpy as np
import pandas as pd
import pytest
from refusals import refuses
from sklearn.base import clone

from textsvm import SVC, EditDistance, GapWeighted, Gaussian, InputError, On, Product, Spectrum, Sum
from textsvm.kernels.spelling import parse, spell
from textsvm.training.train import prepare

pytestmark = pytest.mark.slow


TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"] * 4
LABELS = ["fruit", "fruit", "fruit", "day", "day", "day"] * 4
OTHERS, TRUTH = ["bandanas", "tuesdays", "wednesday", "ana"], ["fruit", "day", "day", "fruit"]
A, B, C = Spectrum(2), GapWeighted(2), EditDistance()


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (A + B, Sum([A, B])),
        (A + B + C, Sum([A, B, C])),
        (A + (B + C), Sum([A, B, C])),
        (sum([A, B, C]), Sum([A, B, C])),
        (2 * A, Sum([A], [2.0])),
        (A * 2 + B, Sum([A, B], [2.0, 1.0])),
        (np.float64(2) * (A + B) + C, Sum([A, B, C], [2.0, 2.0, 1.0])),
        (A + Sum([B, C], [0.3, 0.7]), Sum([A, B, C], [1.0, 0.3, 0.7])),
        (A * B, Product([A, B])),
        (A * B * C, Product([A, B, C])),
        (A * (B + C), Product([A, Sum([B, C])])),
        (2 * A * B + C, Sum([Product([A, B]), C], [2.0, 1.0])),
        (A * (0.5 * B), Sum([Product([A, B])], [0.5])),
    ],
)
def test_formulas(made, expected):
    assert repr(made) == repr(expected)
    assert repr(clone(made)) == repr(expected)
    assert made.get_params(deep=False).keys() == expected.get_params(deep=False).keys()
    assert made(["banana"], ["bandana"]) == expected(["banana"], ["bandana"])


def test_formulas_are_spelled_and_have_the_values_of_their_parts():
    for kernel in (A + B, A * B, A + B * C, 2 * A):
        assert parse(spell(kernel))(OTHERS, TEXTS[:3]) == pytest.approx(kernel(OTHERS, TEXTS[:3]), abs=1e-6)
    expected = (2 * A(OTHERS) + B(OTHERS) * C(OTHERS)) / 3
    np.testing.assert_allclose((2 * A + B * C)(OTHERS), expected, atol=1e-6)
    assert clone(SVC(A + B)).set_params(kernel__0__p=5).kernel.kernels[0].p == 5
    assert A.p == 2


@pytest.mark.parametrize("factor", [0, -1, np.inf, np.nan])
def test_factors_that_no_kernel_can_have(factor):
    with pytest.raises(InputError, match="finite number above 0"):
        factor * A


@pytest.mark.parametrize("what", [lambda: A + 1, lambda: A * "x", lambda: True * A, lambda: A + "spectrum"])
def test_what_is_no_formula(what):
    with pytest.raises(TypeError):
        what()


def test_kernels_are_called():
    assert A(["banana"], ["Bandana"]) == pytest.approx(7 / np.sqrt(72))
    assert Spectrum(4)(["a"], ["b"]).tolist() == [[0]]
    assert Spectrum(4)(["a", "b"]).tolist() == [[1, 0], [0, 1]]
    values = A(OTHERS, TEXTS)
    assert values.shape == (4, 24)
    assert values.dtype == np.float32
    np.testing.assert_allclose(A(TEXTS), A(TEXTS, TEXTS), atol=1e-6)
    assert A(np.array(OTHERS)[:, None], pd.Series(TEXTS)).tolist() == values.tolist()
    assert A([], TEXTS).shape == (0, 24)
    np.testing.assert_allclose(Gaussian(gamma=1.0)([[0.0], [1.0]], [[0.0]]), [[1], [np.exp(-1)]], rtol=1e-6)
    assert (On("a", A) + On("n", Gaussian()))({"a": OTHERS, "n": [1, 2, 3, 4]}).shape == (4, 4)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", [A, B, C, A + B, Spectrum(2, idf=True)], ids=repr)
def test_kernels_called_on_a_card_have_the_values_of_a_cpu(kernel):
    values = kernel(TEXTS)
    assert isinstance(values, np.ndarray)
    rows = prepare(SVC(kernel, device="cpu").settings, TEXTS).gram.rows(np.arange(len(TEXTS)))
    np.testing.assert_allclose(values, rows, atol=1e-6)
    np.testing.assert_allclose(kernel(TEXTS, TEXTS), rows, atol=1e-6)


def test_a_called_kernel_learns_from_the_columns_and_forgets():
    """As the one that a machine learns from its training texts."""
    kernel = Spectrum(2, idf=True)
    values = kernel(OTHERS, TEXTS)
    fitted = SVC(kernel, tol=1e-9).fit(TEXTS, LABELS)
    decision = values[:, fitted.support_] @ fitted.dual_coef_[0] + fitted.intercept_
    np.testing.assert_allclose(decision, fitted.decision_function(OTHERS), atol=1e-5)
    assert not hasattr(kernel, "weights_")


@pytest.mark.parametrize(("given", "what"), [("banana", "single string"), ([3], "of type int")])
def test_a_called_kernel_refuses_what_is_no_list_of_texts(given, what):
    refuses(what, A, TEXTS, given)


def test_a_called_kernel_says_which_parameter_is_out_of_range():
    refuses("p=0", Spectrum(0), TEXTS)
