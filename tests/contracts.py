"""What every kernel twin must satisfy: inherit `KernelContract` and say what is judged.

A subclass gives `device` (a fixture may), `cases`: pairs of a kernel and its oracle, a function of
two strings that returns the normalised value, and bounds `rtol`, `atol`.
"""

from typing import ClassVar
from unittest.mock import Mock

import numpy as np
import pytest
from problems import random_sparse
from scipy.sparse import csr_array, issparse

from textsvm import SVC, cross_validate
from textsvm.linalg.vectors import Vectors
from textsvm.runtime.device import select
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


def dna(n, seed=0, length=60, letters="acgt"):
    """Sequences that share pieces, of mixed lengths, some without any window."""
    rng = np.random.default_rng(seed)
    common = "".join(rng.choice(list(letters), 400))
    starts = rng.integers(0, 400 - length, n)
    found = [list(common[a : a + rng.integers(0, length)]) for a in starts]
    return ["".join(rng.choice(list(letters)) if rng.random() < 0.1 else x for x in one) for one in found]


def random_texts(lengths, letters="abcd", seed=0, longest=60):
    """Texts of these lengths, or so many texts of random lengths."""
    rng = np.random.default_rng(seed)
    if isinstance(lengths, int):
        lengths = rng.integers(0, longest, lengths)
    return ["".join(rng.choice(list(letters), length)) for length in lengths]


def to_numpy(array):
    return array.get() if hasattr(array, "get") else np.asarray(array)


def matrix(oracle, rows, columns):
    """Values of an oracle, row by row; those of a Gram for each pair once."""
    if rows is columns:
        half = [[oracle(s, t) if j >= i else 0.0 for j, t in enumerate(rows)] for i, s in enumerate(rows)]
        return np.triu(half) + np.triu(half, 1).T
    return np.array([[oracle(s, t) for t in columns] for s in rows]).reshape(len(rows), len(columns))


def check(kernel, oracle, texts, others=(), rtol=1e-6, atol=0.0):
    """Gram of texts and values of others on the CPU, against an oracle."""
    documents = encode(texts)
    rows = kernel.fit(documents).rows(documents, select("cpu"))
    np.testing.assert_allclose(rows.gram(), matrix(oracle, texts, texts), rtol=rtol, atol=atol)
    cross = rows.cross(encode(others, documents.alphabet))
    np.testing.assert_allclose(cross, matrix(oracle, others, texts), rtol=rtol, atol=atol)


def check_search(search, texts, labels, new):
    """Results of a search with 3 folds are those of its settings one at a time."""
    for row in search.table:
        alone = cross_validate(SVC(**row["params"], device="cpu"), texts, labels, cv=3)
        assert row["metrics"]["accuracy"] == pytest.approx(alone.mean["accuracy"])
    alone = SVC(**search.best_params_, device="cpu").fit(texts, labels)
    best = search.best_estimator.decision_function(new)
    np.testing.assert_allclose(best, alone.decision_function(new), atol=1e-3)


class Contract:
    cases: ClassVar[list] = []

    def test_progress_is_called_and_may_stop_the_work(self, device):
        kernel, _ = self.cases[0]
        rows = kernel.fit(self.many()).rows(self.many(), device)
        seen = []
        rows.gram(lambda done, total: seen.append((done, total)))
        assert seen
        assert seen[-1][0] == pytest.approx(seen[-1][1])

        with pytest.raises(KeyboardInterrupt):
            rows.gram(Mock(side_effect=KeyboardInterrupt))


class KernelContract(Contract):
    rtol = 1e-5
    atol = 1e-6

    def many(self):
        return encode(TEXTS["words"] * 20)

    @pytest.mark.parametrize("name", TEXTS)
    def test_gram_agrees_with_the_oracle(self, name, device):
        for kernel, oracle in self.cases:
            documents = encode(TEXTS[name])
            kernel.fit(documents)
            values = to_numpy(kernel.rows(documents, device).gram())
            assert values.dtype == np.float32
            expected = matrix(oracle, TEXTS[name], TEXTS[name])
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

    @pytest.mark.parametrize(
        ("size", "new"),
        [
            (np.uint8, ["bonana", "xyx", "", "Ωβanana", "nab", "zzzzzzzz"]),
            (np.uint16, ["".join(chr(0x3000 + i) for i in range(300)), "banana bandana", "\u3001\u3002 cat"]),
        ],
        ids=["unseen symbols", "an alphabet that grows past one byte"],
    )
    def test_unseen_symbols_match_nothing_and_themselves(self, size, new, device):
        train = ["banana", "bandana", "nab", "the cat sat"]
        for kernel, oracle in self.cases:
            documents = encode(train)
            kernel.fit(documents)
            others = encode(new, documents.alphabet)
            assert (documents.codes.dtype, others.codes.dtype) == (np.uint8, size)
            values = to_numpy(kernel.rows(documents, device).cross(others))
            expected = matrix(oracle, new, train)
            np.testing.assert_allclose(values, expected, rtol=self.rtol, atol=self.atol, err_msg=str(kernel))

    def test_decisions_are_sums_of_values_weighted_by_coefficients(self, device):
        texts = TEXTS["mixed lengths"] + TEXTS["short"] + TEXTS["words"]
        coef = np.random.default_rng(0).normal(size=(len(texts), 3))
        for kernel, _ in self.cases:
            documents = encode(texts)
            rows = kernel.fit(documents).rows(documents, device)
            others = encode(["bonana", "", "ab", "a", "Ωβ", *texts[3:6]], documents.alphabet)
            values = to_numpy(rows.cross(others)).astype(np.float64)
            bounds = {"rtol": 1e-4, "atol": 1e-5 * np.abs(values).max() * len(texts), "err_msg": str(kernel)}
            np.testing.assert_allclose(to_numpy(rows.decision(others, coef)), values @ coef, **bounds)
            predictor = kernel.predictor(documents, coef.T, device)
            decided = predictor.values(others)
            np.testing.assert_allclose(decided, values @ coef, **bounds)
            np.testing.assert_allclose(
                predictor.values(others.take([2]))[0], decided[2], rtol=1e-5, atol=1e-6
            )

    def test_no_documents_to_predict(self, device):
        for kernel, _ in self.cases:
            documents = encode(["banana", "bandana"])
            rows, none = kernel.fit(documents).rows(documents, device), encode([], documents.alphabet)
            assert to_numpy(rows.cross(none)).shape == (0, 2)
            assert rows.decision(none, np.ones((2, 3))).shape == (0, 3)
            assert kernel.predictor(documents, np.ones((3, 2)), device).values(none).shape == (0, 3)

    def test_two_runs_give_the_same_bits(self, device):
        for kernel, _ in self.cases:
            documents = encode(TEXTS["mixed lengths"] + TEXTS["words"])
            kernel.fit(documents)
            first = to_numpy(kernel.rows(documents, device).gram())
            np.testing.assert_array_equal(first, to_numpy(kernel.rows(documents, device).gram()))


class VectorContract(Contract):
    """What every twin of a kernel of vectors must satisfy: a subclass gives `device` and `cases`.

    `cases` are pairs of a kernel and what makes its oracle, a function of two float64 vectors, of it once it
    is fitted; `atol` is a share of the largest value.
    """

    rtol = 1e-6
    atol = 1e-7

    def many(self):
        return Vectors(np.tile(VECTORS["dense float64"], (20, 1)))

    def close(self, found, kernel, oracle, X, Y):
        X, Y = (np.asarray(Z.toarray() if issparse(Z) else Z, np.float64) for Z in (X, Y))
        expected = matrix(oracle, X, Y)
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
