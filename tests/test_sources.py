"""Sources of rows: the same contract for texts and for a kernel matrix that was given."""

import numpy as np
import pytest
from refusals import refuses
from scipy.sparse import csr_array
from sklearn.utils import get_tags

from textsvm import SVC, Compute, EditDistance, GapWeighted, Gaussian, InputError, Linear, On, Spectrum, Sum
from textsvm.gram.build import gram_of_rows
from textsvm.kernels.inputs import TextForm
from textsvm.runtime.device import select
from textsvm.sources.matrix import BLOCK, MatrixSource, check_gram
from textsvm.sources.texts import TextSource
from textsvm.sources.vectors import ColumnSource, VectorSource
from textsvm.training.train import prepare

TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday", "a mandarin"]
NEW = ["banana", "tuesday or monday", "", "日本"]
CPU = select("cpu")


class SourceContract:
    """Rows, some of the examples, predictions and the saved form agree with each other."""

    source = None

    def input(self):
        raise NotImplementedError

    def new(self):
        raise NotImplementedError

    @pytest.fixture
    def prepared(self):
        examples = self.source.encode(self.source.validate(self.input()))
        kernel = self.source.kernel_for(examples)
        kernel.fit(examples)
        return examples, kernel

    def values(self, examples, kernel):
        return gram_of_rows(kernel.rows(examples, CPU)).rows(np.arange(len(examples)))

    def test_there_are_as_many_examples_as_were_given(self, prepared):
        assert len(prepared[0]) == len(TEXTS)

    @pytest.mark.slow
    def test_rows_of_some_examples_are_some_of_the_rows(self, prepared):
        examples, kernel = prepared
        some = np.array([5, 0, 3])
        part = examples.take(some)
        assert len(part) == 3
        whole = self.values(examples, kernel)
        np.testing.assert_allclose(self.values(part, kernel), whole[some][:, some], rtol=1e-6)

    def support(self, prepared):
        indices = np.array([1, 2, 5])
        return self.source.support(prepared[1], prepared[0], indices), indices

    def test_a_predictor_weighs_the_rows(self, prepared):
        examples, kernel = prepared
        support, indices = self.support(prepared)
        coef = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
        predictor = self.source.predictor(support, coef, CPU)
        given = self.source.validate(self.input(), len(TEXTS))
        found = predictor.values(self.source.encode_test(given, support))
        expected = self.values(examples, kernel)[:, indices].astype(float) @ coef.T
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert predictor.device == CPU

    def test_what_is_kept_is_saved_and_restored(self, prepared):
        support, indices = self.support(prepared)
        coef = np.array([[1.0, -2.0, 0.5]])
        _, arrays = self.source.state(support)
        again = self.source.restore(support.n_features, indices, arrays)
        given = self.source.validate(self.new(), len(TEXTS))
        values = [
            self.source.predictor(one, coef, CPU).values(self.source.encode_test(given, one))
            for one in (support, again)
        ]
        assert values[0].shape == (len(NEW), 1)
        np.testing.assert_array_equal(*values)

    def test_what_it_takes_is_in_the_tags(self):
        tags = get_tags(SVC()).input_tags
        self.source.tag(tags)
        assert tags.string != tags.two_d_array
        assert tags.pairwise == tags.two_d_array

    def test_reading_what_it_does_not_take(self):
        for X in (3, None, "text", np.zeros((2, 2, 2))):
            with pytest.raises(InputError):
                self.source.validate(X)


class TestSpectrum(SourceContract):
    source = TextSource(Spectrum((1, 3), "log", idf=True), TextForm())

    def input(self):
        return TEXTS

    def new(self):
        return NEW


class TestEdit(TestSpectrum):
    source = TextSource(EditDistance(), TextForm("paper", max_length=9))


class TestGap(TestSpectrum):
    source = TextSource(GapWeighted(p=2), TextForm(punctuation=False))


class TestColumns(TestSpectrum):
    source = ColumnSource(
        Sum(
            [
                On("text", Spectrum((1, 3), "log", idf=True)),
                On("text", Spectrum(1, tokens="words")),
                On(["long", "wide"], Gaussian()),
                On("long", Linear()),
            ]
        ),
        TextForm(),
    )

    def table(self, texts):
        return {
            "wide": [[len(set(text)), text.count("a")] for text in texts],
            "text": texts,
            "long": list(map(len, texts)),
        }

    def input(self):
        return self.table(TEXTS)

    def new(self):
        return self.table(NEW)


class TestOneColumn(TestColumns):
    source = ColumnSource(On(["wide", "long"], Gaussian()), TextForm())


class TestMatrix(SourceContract):
    source = MatrixSource()

    def input(self):
        return prepare(SVC(Spectrum(p=2), device="cpu").settings, TEXTS).gram.matrix

    def new(self):
        return self.input()[: len(NEW)]


class TestVectors(SourceContract):
    source = VectorSource(Gaussian())

    def input(self):
        return np.random.default_rng(0).normal(size=(len(TEXTS), 7))

    def new(self):
        return np.random.default_rng(1).normal(size=(len(NEW), 7))

    def test_what_it_takes_is_in_the_tags(self):
        tags = get_tags(SVC()).input_tags
        self.source.tag(tags)
        assert (tags.string, tags.two_d_array, tags.pairwise, tags.sparse) == (False, True, False, True)


class TestSparseVectors(TestVectors):
    source = VectorSource(Sum([Gaussian(0.1), Linear()]))

    def input(self):
        return csr_array(np.maximum(super().input(), 0))

    def new(self):
        return csr_array(np.maximum(super().new(), 0))


def test_sources_of_one_form_make_the_same_documents():
    forms = [TextForm(), TextForm("unicode", True, None), TextForm(max_length=3), TextForm("none")]
    sources = [TextSource(Spectrum(p=p), form) for p, form in enumerate(forms, 1)]
    assert sources[0].form == sources[1].form
    assert len({source.form for source in sources}) == 3


def test_an_estimator_without_memory_for_it_uses_a_given_matrix_where_it_is():
    K = TestMatrix().input()
    model = SVC("precomputed", compute=Compute(memory=100), device="cpu")
    assert prepare(model.settings, K).gram.matrix is K
    with pytest.raises(InputError, match="two rows"):
        prepare(SVC(Spectrum(p=2), compute=Compute(memory=100), device="cpu").settings, TEXTS)


def symmetric(n=1100):
    """A kernel matrix of several blocks."""
    assert n > BLOCK
    return np.eye(n, dtype=np.float32)


def test_asymmetry_far_from_the_diagonal_is_found():
    matrix = symmetric()
    matrix[3, 1080] = 0.5
    refuses(r"not symmetric: 0\.5 in row 3, column 1080 and 0 the other way", check_gram, matrix)


@pytest.mark.parametrize(("rounding", "refused"), [(0.5, False), (2.0, True)])
def test_values_may_differ_by_the_rounding_of_the_largest(rounding, refused):
    """A millionth of the largest value of all blocks."""
    matrix = symmetric()
    matrix[0, 0] = 1e6
    matrix[1090, 1085] = rounding
    if refused:
        refuses("not symmetric", check_gram, matrix)
    else:
        assert check_gram(matrix) is matrix
