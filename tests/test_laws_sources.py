"""Laws of sources: readings that kernels share, columns, copies of texts, and documents that are taken."""

from dataclasses import fields

import numpy as np
import pytest
from refusals import refuses
from scipy.sparse import csr_array
from sklearn.base import clone

from textsvm import SVC, EditDistance, Gaussian, InputError, On, Pieces, Spectrum
from textsvm.gram.build import build_gram
from textsvm.gram.store import GramRequest
from textsvm.kernels.inputs import TextForm
from textsvm.runtime.device import select
from textsvm.sources import copies
from textsvm.sources.base import csr_of
from textsvm.sources.matrix import MatrixSource
from textsvm.sources.texts import TextSource
from textsvm.sources.vectors import ColumnSource, VectorSource
from textsvm.text.documents import Documents, encode_as

FORM = TextForm()


@pytest.mark.parametrize(
    ("source", "other"),
    [
        (TextSource(Spectrum(3), FORM), Spectrum(5)),
        (ColumnSource(On("a", Spectrum(3)), FORM), On("b", Spectrum(2))),
        (VectorSource(Gaussian(1.0)), Gaussian(2.0)),
    ],
)
def test_a_source_of_another_kernel_has_nothing_of_the_first(source, other):
    assert repr(source.unfitted) == repr(source.kernel)
    changed = source.of_kernel(other)
    for kernel in (changed.kernel, changed.unfitted, changed.new_kernel()):
        assert repr(kernel) == repr(other)
    assert repr(source.unfitted) == repr(source.new_kernel()) != repr(other)


@pytest.mark.parametrize("name", [field.name for field in fields(TextForm)])
def test_a_grid_over_the_reading_of_texts_needs_texts(name):
    TextSource(Spectrum(3), FORM).require_tunable([name])
    with pytest.raises(InputError, match=f"{name} says how texts are read; this model takes vectors"):
        VectorSource(Gaussian()).require_tunable(["C", name])
    with pytest.raises(InputError, match="needs texts; this model takes a kernel matrix"):
        MatrixSource().require_tunable(["C", "kernel__p"])


@pytest.mark.parametrize("column", [-1, 4, 5, 1 << 40])
def test_columns_of_saved_rows_are_within_their_bounds(column):
    arrays = np.ones(4), np.array([0, 2, 1, 3]), np.array([0, 2, 4])
    assert csr_of(*arrays, (2, 4), "rows").toarray().tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    arrays[1][3 if column > 0 else 0] = column
    refuses("columns of its rows are out of bounds", csr_of, *arrays, (2, 4), "rows")


@pytest.mark.parametrize("known", [0.0, 0.3, 1.0])
def test_a_share_of_copies_is_estimated_also_from_a_sample(known, monkeypatch):
    """The smallest digests of the training texts say nothing about examples with larger ones."""
    monkeypatch.setattr(copies, "MOST_DIGESTS", 300)
    source, letters = TextSource(Spectrum(3), FORM), str.maketrans("0123456789", "abcdefghij")
    words = [f"text {i}".translate(letters) for i in range(1000)]
    trained, new = words[:800], words[800:]
    sample = np.sort(copies.text_digests(trained, source))[:300]
    n = round(known * 600)
    examples = trained[:n] + [f"{word} again {word}" for word in words[: 600 - n]]
    assert copies.share_in(sample, examples, source) == pytest.approx(known, abs=0.1)
    assert copies.share_in(np.sort(copies.text_digests(trained, source)), new, source) == 0


@pytest.mark.parametrize("kernel", [Spectrum(3), EditDistance()])
def test_a_store_is_advised_where_rows_are_costly(kernel):
    documents = TextSource(kernel, FORM).encode([f"a text {'ab'[i % 2] * (i % 7)} {i}" for i in range(90)])
    gram = build_gram(GramRequest(kernel.fit(documents), documents, {}, select("cpu")), 9000)
    assert ("a store (--store DIR)" in gram.description) == kernel.cost.quadratic
    assert kernel.cost.quadratic == isinstance(kernel, EditDistance)


def test_copies_of_a_kernel_share_nothing_that_can_change():
    kernel = 2 * Spectrum(2) + On("a", Gaussian()) + 0.5 * Spectrum(3, idf=True)
    copy = clone(kernel)
    assert repr(copy) == repr(kernel)
    leaves = [{id(leaf) for leaf in each.structure.leaves} for each in (kernel, copy)]
    assert len(leaves[0]) == len(leaves[1]) == 3
    assert not leaves[0] & leaves[1]


def test_documents_that_are_taken_keep_all_that_belongs_to_them():
    documents = encode_as(["one two", "three", "two one one", ""], "words")
    documents = documents.with_classes(np.array([0, 1, 1, 2]))
    rows = [2, 0, 2]
    taken = documents.take(rows)
    assert taken.classes.tolist() == [1, 0, 1]
    assert [taken.text(i) for i in range(3)] == [documents.text(i) for i in rows]
    assert [taken.characters.text(i) for i in range(3)] == [documents.characters.text(i) for i in rows]
    assert {field.name for field in fields(Documents)} == {
        "codes", "offsets", "alphabet", "characters", "classes",
    }  # fmt: skip


def test_shared_lines_may_differ_in_numbers_and_case():
    own = [f"\n\n{letter} own text\nand more of {letter}" for letter in "abcdefghijkl"]
    texts = [f"{'Page' if i % 2 else 'PAGE'}  {i} of the book{text}" for i, text in enumerate(own)]
    pieces, sentences = Pieces.without_common(texts, ["ash", "birch"] * 6)
    assert [piece for text in texts for piece in pieces.cut(text)] == own
    assert sentences == []


def test_sparse_coefficients_have_the_values_of_dense_ones_beside_an_index():
    texts = [f"{words} {i}" for words in ("win cash", "noon lunch", "red blue") for i in range(9)]
    model = SVC(Spectrum(2), device="cpu").fit(texts, [name for name in "abc" for _ in range(9)])
    trained, coef = model.model_, np.asarray(model.dual_coef_)
    support = trained.source._indexed(trained.support)
    assert support.index
    new, device = trained.encode(["win lunch", "red cash"]), trained.device_in_use
    dense, sparse = (
        trained.source.predictor(support, x, device).values(new) for x in (coef, csr_array(coef))
    )
    np.testing.assert_allclose(sparse, dense, atol=1e-5)
