"""What every kernel twin must satisfy: inherit `KernelContract` and say what is judged.

A subclass gives `device` (a fixture may), `cases`: pairs of a kernel and its oracle, a function of
two strings that returns the normalised value, and bounds `rtol`, `atol`.
"""

from typing import ClassVar

import numpy as np
import pytest

from textsvm.documents import encode

TEXTS = {
    "words": ["banana", "bandana", "cat", "car", "cart", "the cat sat on the mat", "kitten", "sitting"],
    "short": ["", "", "a", "b", "a", "ab", "abc", "aaaaaaa", "ba"],
    "repeated": ["a" * 40, "a" * 33, "ab" * 20, "b" * 64, "a" * 65, "c"],
    "mixed lengths": ["x", "", "the quick brown fox jumps over the lazy dog " * 7, "dog", "lazy dog " * 15],
    "wide alphabet": ["".join(chr(0x4E00 + (7 * i + k) % 500) for i in range(80)) for k in range(6)],
    "unicode": ["naïve café", "naive cafe", "Ελλάδα", "日本語テキスト", "🙂🙃🙂", "a\x00b\x00a"],
}


def to_numpy(array):
    return array.get() if hasattr(array, "get") else np.asarray(array)


class KernelContract:
    cases: ClassVar[list] = []
    rtol = 1e-5
    atol = 1e-6

    def expected(self, oracle, rows, columns):
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
