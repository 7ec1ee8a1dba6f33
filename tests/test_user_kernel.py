"""A kernel written by the user: its values are used as they are, and its mistakes are told in a sentence."""

import numpy as np
import oracles
import pytest
from contracts import KernelContract
from refusals import raising, refuses

from textsvm import SVC
from textsvm.kernels.user import ROWS, UserKernel
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import n_threads
from textsvm.text.documents import encode


def shared_pairs(a, b):
    """The normalised spectrum kernel with p = 2, by the textbook."""

    def oracle(s, t):
        return oracles.spectrum(s, t, 2)

    return np.array([[oracles.normalised(oracle, s, t) for t in b] for s in a]).reshape(len(a), len(b))


def lengths(a, b):
    return np.outer([len(s) for s in a], [len(t) for t in b])


class UserKernelContract(KernelContract):
    cases = (
        (
            UserKernel(shared_pairs),
            lambda s, t: oracles.normalised(lambda a, b: oracles.spectrum(a, b, 2), s, t),
        ),
        (UserKernel(lengths), lambda s, t: len(s) * len(t)),
    )


class TestUserKernel(UserKernelContract):
    pass


def rows_of(function, texts, device):
    return UserKernel(function).fit(encode(texts)).rows(encode(texts), device)


def test_values_are_not_normalised(device):
    rows = rows_of(lengths, ["a", "abc", ""], device)
    np.testing.assert_array_equal(rows.gram(), [[1, 3, 0], [3, 9, 0], [0, 0, 0]])
    np.testing.assert_array_equal(rows.diag(), [1, 9, 0])


def test_the_function_gets_the_texts_in_blocks(device):
    texts = [f"text {i} ü🙂" for i in range(2 * ROWS + 10)]
    seen = []

    def function(a, b):
        seen.append((a, b))
        return lengths(a, b)

    rows = rows_of(function, texts, device)
    np.testing.assert_array_equal(rows.gram(), lengths(texts, texts))
    assert [len(a) for a, _ in seen] == [ROWS, ROWS, 10]
    assert all(isinstance(a, list) and b == texts[texts.index(a[0]) :] for a, b in seen)
    coef = np.random.default_rng(0).standard_normal((len(texts), 2))
    others = encode(["naïve", ""], encode(texts).alphabet)
    np.testing.assert_allclose(rows.decision(others, coef), lengths(["naïve", ""], texts) @ coef)


def test_training_and_prediction_have_the_threads_of_their_settings():
    seen = []
    machine = SVC(lambda a, b: seen.append(n_threads()) or lengths(a, b), n_jobs=3, device="cpu")
    machine.fit(["a", "bbb", "cc"], [0, 1, 0])
    machine.predict(["a"])
    assert set(seen[:1]) | set(seen[-1:]) == {3} != {n_threads()}


def test_whatever_list_of_numbers_it_returns(device):
    for returned in (
        [[1, 2], [2, 4]],
        np.array([[1, 2], [2, 4]], np.int8),
        np.array([[True, False]] * 2).T | True,
    ):
        values = rows_of(lambda a, b, returned=returned: returned, ["a", "b"], device).gram()
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, np.asarray(returned, np.float32))


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (raising(KeyError("ä")), "failed on 2 and 2 texts .KeyError: 'ä'."),
        (lambda a, b: None, "returned NoneType and not an array of real numbers of shape .2, 2."),
        (lambda a, b: [["x", "y"]] * 2, "returned list and not"),
        (lambda a, b: [[1, 2], [3]], "returned list and not"),
        (lambda a, b: np.ones((2, 2), complex), "returned ndarray and not"),
        (lambda a, b: np.ones(2), r"shape \(2,\) for 2 and 2 texts; it must return one of shape \(2, 2\)"),
        (lambda a, b: np.ones((2, 3)), r"shape \(2, 3\) for 2 and 2"),
        (lambda a, b: [[1, np.nan], [np.nan, 1]], "returned nan for the texts 'one' and 'three'"),
        (lambda a, b: [[1, 0], [0, 1e39]], r"returned 1e\+39 for the texts 'three' and 'three'"),
        (lambda a, b: [[1, 0.5], [0.25, 1]], "not symmetric: 0.5 for documents 0 and 1, 0.25 the other"),
    ],
)
def test_what_a_function_can_do_wrong(function, sentence, device):
    refuses(sentence, rows_of(function, ["one", "three"], device).gram)


def test_documents_that_differ_are_named_beyond_the_first_block(device):
    texts = ["a"] * ROWS + ["b", "c"]
    rows = rows_of(lambda a, b: [[float(s <= t) for t in b] for s in a], texts, device)
    refuses(f"not symmetric: 1 for documents {ROWS} and {ROWS + 1}, 0 the other", rows.gram)


def test_a_function_that_is_none():
    refuses("cannot be called", UserKernel("spectrum").fit, encode(["a"]))


def test_ctrl_c_is_not_an_error_of_the_function(device):
    with pytest.raises(KeyboardInterrupt):
        rows_of(raising(KeyboardInterrupt), ["a"], device).gram()


def test_decisions_are_said_to_be_taken_where_the_function_runs():
    documents = encode(["banana", "cat"])
    predictor = UserKernel(lengths).predictor(documents, np.ones((1, 2)), Device("cuda", 0, "cuda:0"))
    assert predictor.device.kind == "cpu"
    assert predictor.values(documents).shape == (2, 1)
