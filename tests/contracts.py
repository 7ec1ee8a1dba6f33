"""What every kernel twin must satisfy: inherit `KernelContract` and say what is judged.

A subclass gives `device` (a fixture may), `cases`: pairs of a kernel and its oracle, a function of
two strings that returns the normalised value, and bounds `rtol`, `atol`.
"""

from typing import ClassVar

import numpy as np
import pytest
from problems import random_sparse
from scipy.sparse import csr_array, issparse

from textsvm.linalg.vectors import Vectors
from textsvm.text.documents import encode

TEXTS = {
    "words": ["banana", "bandana", "cat", "car", "cart", "the cat sat on the mat", "kitten", "sitting"],
    "short": ["", "", "a", "b", "a", "ab", "abc", "aaaaaaa", "ba"],
    "repeated": ["a" * 40, "a" * 33, "ab" * 20, "b" * 64, "a" * 65, "c"],
    "mixed lengths": ["x", "", "the quick brown fox jumps over the lazy dog " * 4, "dog", "lazy dog " * 8],
    "wide alphabet": ["".join(chr(0x4E00 + (7 * i + k) % 500) for i in range(60)) for k in range(6)],
    "unicode": ["naïve café", "naive cafe", "Ελλάδα", "日本語テキスト", "🙂🙃🙂", "a\x00b\x00a"],
}


def _vectors():
    """Dense and sparse ones, of either precision, of more than one tile; whole numbers; empty rows."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(60, 7))
    sparse = random_sparse((60, 40), 0.1, rng, values=rng.standard_normal)
    common = csr_array(np.where(rng.random((300, 9)) < np.linspace(0.01, 0.9, 9), 1.0, 0.0))
    empty = np.where((np.arange(60) % 7 == 3)[:, None], 0.0, dense)
    return {
        "dense float64": dense,
        "dense float32": dense.astype(np.float32),
        "whole numbers": np.round(20 * dense),
        "empty rows": csr_array(empty),
        "sparse float64": sparse,
        "sparse float32": sparse.astype(np.float32),
        "one-hot": common,
        "of one number": dense[:, :1],
    }


VECTORS = _vectors()


def to_numpy(array):
    return array.get() if hasattr(array, "get") else np.asarray(array)


class KernelContract:
    cases: ClassVar[list] = []
    rtol = 1e-5
    atol = 1e-6

    def expected(self, oracle, rows, columns):
        if rows is columns:  # each pair once
            half = [[oracle(s, t) if j >= i else 0.0 for j, t in enumerate(rows)] for i, s in enumerate(rows)]
            return np.triu(half) + np.triu(half, 1).T
        return np.array([[oracle(s, t) for t in columns] for s in rows]).reshape(len(rows), len(columns))

    @pytest.mark.parametrize("name", TEXTS)
    def test_gram_agrees_with_the_oracle(self, name, device):
        for kernel, oracle in self.cases:
            documents = encode(TEXTS[name])
            kernel.fit(documents)
            values = to_numpy(kernel.rows(documents, device).gram())
            assert values.dtype == np.float32
            expected = self.expected(oracle, TEXTS[name], TEXTS[name])
            np.testing.assert_allclose(values, expected, rtol=self.rtol, atol=self.atol, err_msg=str(kernel))

    @pytest.mark.parametrize("name", TEXTS)
    def test_rows_diag_and_cross_agree_with_the_gram(self, name, device):
        for kernel, _ in self.cases:
            documents = encode(TEXTS[name])
            kernel.fit(documents)
            rows = kernel.rows(documents, device)
            gram = to_numpy(rows.gram())
            np.testing.assert_array_equal(gram, gram.T)
            np.testing.assert_allclose(to_numpy(rows.diag()), np.diag(gram), rtol=self.rtol, atol=self.atol)
            some = np.array([len(documents) - 1, 0, 2, 2])
            np.testing.assert_allclose(to_numpy(rows.rows(some)), gram[some], rtol=self.rtol, atol=self.atol)
            cross = to_numpy(rows.cross(documents))
            assert cross.dtype == np.float32
            np.testing.assert_allclose(cross, gram, rtol=self.rtol, atol=self.atol)

    def test_unseen_symbols_match_nothing_and_themselves(self, device):
        train, new = ["banana", "bandana", "nab"], ["bonana", "xyx", "", "Ωβanana", "nab", "zzzzzzzz"]
        for kernel, oracle in self.cases:
            documents = encode(train)
            kernel.fit(documents)
            others = encode(new, documents.alphabet)
            values = to_numpy(kernel.rows(documents, device).cross(others))
            expected = self.expected(oracle, new, train)
            np.testing.assert_allclose(values, expected, rtol=self.rtol, atol=self.atol, err_msg=str(kernel))

    def test_alphabet_that_grows_past_one_byte_at_prediction(self, device):
        train = ["banana", "bandana", "the cat sat"]
        new = ["".join(chr(0x3000 + i) for i in range(300)), "banana bandana", "\u3001\u3002 cat"]
        for kernel, oracle in self.cases:
            documents = encode(train)
            kernel.fit(documents)
            others = encode(new, documents.alphabet)
            assert documents.codes.dtype == np.uint8
            assert others.codes.dtype == np.uint16
            values = to_numpy(kernel.rows(documents, device).cross(others))
            expected = self.expected(oracle, new, train)
            np.testing.assert_allclose(values, expected, rtol=self.rtol, atol=self.atol, err_msg=str(kernel))

    def test_no_documents_to_predict(self, device):
        for kernel, _ in self.cases:
            documents = encode(["banana", "bandana"])
            kernel.fit(documents)
            values = to_numpy(kernel.rows(documents, device).cross(encode([], documents.alphabet)))
            assert values.shape == (0, 2)

    def test_two_runs_give_the_same_bits(self, device):
        for kernel, _ in self.cases:
            documents = encode(TEXTS["mixed lengths"] + TEXTS["words"])
            kernel.fit(documents)
            first = to_numpy(kernel.rows(documents, device).gram())
            np.testing.assert_array_equal(first, to_numpy(kernel.rows(documents, device).gram()))

    def test_progress_is_called_and_may_stop_the_work(self, device):
        kernel, _ = self.cases[0]
        documents = encode(TEXTS["words"] * 20)
        kernel.fit(documents)
        seen = []
        kernel.rows(documents, device).gram(lambda done, total: seen.append((done, total)))
        assert seen
        assert seen[-1][0] == pytest.approx(seen[-1][1])

        def stop(done, total):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            kernel.rows(documents, device).gram(stop)


class VectorContract:
    """What every twin of a kernel of vectors must satisfy: a subclass gives `device` and `cases`.

    `cases` are pairs of a kernel and what makes its oracle, a function of two float64 vectors, of it once it
    is fitted; `atol` is a share of the largest value.
    """

    cases: ClassVar[list] = []
    rtol = 1e-6
    atol = 1e-7

    def close(self, found, kernel, oracle, X, Y):
        X, Y = (np.asarray(Z.toarray() if issparse(Z) else Z, np.float64) for Z in (X, Y))
        expected = np.array([[oracle(x, y) for y in Y] for x in X]).reshape(len(X), len(Y))
        found = to_numpy(found)
        assert found.dtype == np.float32
        scale = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(
            found, expected, rtol=self.rtol, atol=self.atol * scale, err_msg=str(kernel)
        )

    @pytest.mark.parametrize("form", VECTORS)
    def test_gram_agrees_with_the_oracle(self, form, device):
        X = VECTORS[form]
        for kernel, oracle in self.cases:
            kernel.fit(Vectors(X))
            self.close(kernel.rows(Vectors(X), device).gram(), kernel, oracle(kernel), X, X)

    @pytest.mark.parametrize("form", VECTORS)
    def test_rows_diag_and_cross_agree_with_the_gram(self, form, device):
        X = VECTORS[form]
        some, others = np.array([X.shape[0] - 1, 0, 2, 2]), Vectors(X[[3, 1, 4]])
        for kernel, _ in self.cases:
            rows = kernel.fit(Vectors(X)).rows(Vectors(X), device)
            gram = to_numpy(rows.gram())
            np.testing.assert_array_equal(gram, gram.T)
            bounds = {"rtol": self.rtol, "atol": self.atol * np.abs(gram).max()}
            np.testing.assert_array_equal(to_numpy(rows.diag()), np.diag(gram))
            np.testing.assert_allclose(to_numpy(rows.rows(some)), gram[some], **bounds)
            np.testing.assert_allclose(to_numpy(rows.cross(others)), gram[[3, 1, 4]], **bounds)
            coef = np.linspace(-1, 1, 2 * rows.n).reshape(rows.n, 2)
            expected = gram[[3, 1, 4]].astype(np.float64) @ coef
            scale = np.abs(gram).max() * rows.n
            np.testing.assert_allclose(rows.decision(others, coef), expected, rtol=1e-5, atol=1e-6 * scale)

    @pytest.mark.parametrize("form", VECTORS)
    def test_vectors_of_the_other_form_are_the_same_vectors(self, form, device):
        X = VECTORS[form]
        other = X.toarray() if issparse(X) else csr_array(X)
        for kernel, _ in self.cases:
            rows = kernel.fit(Vectors(X)).rows(Vectors(X), device)
            expected = to_numpy(rows.cross(Vectors(X)))
            atol = self.atol * np.abs(expected).max()
            found = to_numpy(rows.cross(Vectors(other)))
            np.testing.assert_allclose(found, expected, rtol=self.rtol, atol=atol)

    def test_no_vectors_to_predict(self, device):
        X = VECTORS["dense float64"]
        for kernel, _ in self.cases:
            rows = kernel.fit(Vectors(X)).rows(Vectors(X), device)
            assert to_numpy(rows.cross(Vectors(X[:0]))).shape == (0, len(X))

    def test_two_runs_give_the_same_bits(self, device):
        for X in VECTORS.values():
            for kernel, _ in self.cases:
                kernel.fit(Vectors(X))
                first = to_numpy(kernel.rows(Vectors(X), device).gram())
                np.testing.assert_array_equal(first, to_numpy(kernel.rows(Vectors(X), device).gram()))

    def test_progress_is_called_and_may_stop_the_work(self, device):
        kernel, _ = self.cases[0]
        vectors = Vectors(np.tile(VECTORS["dense float64"], (20, 1)))
        kernel.fit(vectors)
        seen = []
        kernel.rows(vectors, device).gram(lambda done, total: seen.append((done, total)))
        assert seen
        assert seen[-1][0] == pytest.approx(seen[-1][1])

        def stop(done, total):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            kernel.rows(vectors, device).gram(stop)
