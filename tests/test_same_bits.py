"""A kernel value has the same bits in a whole matrix, in some of its rows, and in a store."""

from contextlib import contextmanager

import numpy as np
import pytest
from contracts import to_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import stored_rows
from refusals import refuses

from textsvm import SVC, BoundedGap, Compute, EditDistance, GapWeighted, MultilabelSVC, Product, Spectrum, Sum
from textsvm.gram import store as stores
from textsvm.gram.base import needed_bytes
from textsvm.gram.build import grams
from textsvm.gram.store import GramRequest
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Kernel
from textsvm.kernels.gap.kernel import in_lanes, products
from textsvm.kernels.gap.recurrence import Recurrence
from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.sparse import Sparse
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.runtime.device import select
from textsvm.text.documents import encode

#: Every registered kernel of texts, also with parameters that make it add up fractions.
FAMILIES = [
    Spectrum((1, 5)),
    Spectrum((1, 4), "log", idf=True),
    Spectrum((2, 3), "count", idf=True, normalised=False),
    Spectrum(2, "intersection", idf=True),
    EditDistance(0.1),
    EditDistance(2.0, relative=True),
    GapWeighted(3),
    GapWeighted(3, weights=[1, 2, 3]),
    GapWeighted(2, normalised=False),
    BoundedGap(3),
    BoundedGap(2, 0.7, normalised=False),
    KERNELS["gapped"](g=4, m=2, weight="log"),
    KERNELS["mismatch"](k=3, alphabet=200),
    KERNELS["gkm"](l=4, k=2, d=2, alphabet=200),
]
FAMILIES += [
    kernel
    for kernel in (KERNELS[name]() for name in KERNELS.simple())
    if kernel.structure.examples == "texts" and not any(type(kernel) is type(other) for other in FAMILIES)
]
FAMILIES += [Sum([Spectrum(2), GapWeighted(2, 0.5)]), Product([FAMILIES[1], EditDistance()])]
#: On a GPU values with other decays depend on the pairs beside them.
DECAYS = [GapWeighted(4, 0.7), GapWeighted(3, 0.9), GapWeighted(2, 1.0)]
TEXTS = [" ".join(text.split()) for text in read_corpus(sample("reviews")).texts]
LABELS = read_corpus(sample("reviews")).labels
CPU = select("cpu")
#: Equally long texts and texts without features, too.
SHORT = ["", "a", "ab", "", "zz", "ab"]


@contextmanager
def small_panels():
    """Panels of 16 rows."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PANEL_BYTES", 0), ("ROWS_OF_LARGE", 16), ("MIN_ROWS", 1)):
            patch.setattr(stores, name, value)
        yield


def check_bits(kernel: Kernel, texts: list[str], sizes: list[int], device, folder) -> None:
    """All ways to the matrix of some texts; rows are computed `sizes` at a time, in any order."""
    documents = encode(texts)
    kernel.fit(documents)
    whole = to_numpy(kernel.rows(documents, device).gram())
    np.testing.assert_array_equal(whole, whole.T)
    rows, order, first = kernel.rows(documents, device), np.random.default_rng(0).permutation(len(texts)), 0
    np.testing.assert_array_equal(to_numpy(rows.diag()), whole.diagonal())
    while first < len(order):
        for size in sizes:
            some = order[first : first + size]
            np.testing.assert_array_equal(to_numpy(rows.rows(some)), whole[some], err_msg=f"{size} rows")
            first += size
    with small_panels():
        stored = stored_rows(folder, GramRequest(kernel, documents, {}, device)).gram()
    np.testing.assert_array_equal(to_numpy(stored), whole)


@pytest.mark.parametrize("kernel", [*FAMILIES, *DECAYS], ids=str)
def test_real_texts(kernel, tmp_path):
    cut = [text[: 40 + 37 * i % 90] for i, text in enumerate(TEXTS[:150])]
    check_bits(kernel, [*cut, *SHORT, *(text[:64] for text in cut[:20])], [1, 2, 70, 5], CPU, tmp_path)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), kernel=st.sampled_from([*FAMILIES, *DECAYS]))
def test_any_texts(data, kernel, tmp_path_factory):
    letters = data.draw(st.sampled_from(["a", "ab", "acgt", "abé\x00🙂", "".join(map(chr, range(97, 160)))]))
    texts = data.draw(st.lists(st.text(st.sampled_from(letters), max_size=90), min_size=1, max_size=40))
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    check_bits(kernel, texts, sizes, CPU, tmp_path_factory.mktemp("store"))


def check_shared_pass(kernels: list[GapWeighted], texts: list[str]) -> None:
    """Matrices and rows of kernels with a common decay are those of each alone."""
    documents, some = encode(texts), np.arange(len(texts))[::3]
    columns = kernels[0].cost.sharing.columns(kernels, documents, CPU)
    rows = columns.rows(some)
    for number, gram in grams(kernels, documents, CPU):
        alone = kernels[number].rows(documents, CPU).gram()
        np.testing.assert_array_equal(gram.window().values, alone, err_msg=str(kernels[number]))
        np.testing.assert_array_equal(rows[number], alone[some], err_msg=str(kernels[number]))
        np.testing.assert_array_equal(columns.diags()[number], alone.diagonal())


@pytest.mark.parametrize("decay", [0.02, 0.5, 0.9, 0.97, 1.0])
def test_shared_passes(decay):
    """Also where the lengths differ in precision, and where values are tiny."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("etaoinsh"), n)) for n in rng.integers(1, 400, 30)]
    texts += ["a" * 5 + "x" * n + "a" * 5 for n in range(0, 40, 3)] + ["ab", "a" + "y" * 9 + "b", *SHORT]
    kernels = [GapWeighted(p, decay) for p in (2, 5, 3)] + [GapWeighted(2, decay, (1, 2))]
    check_shared_pass([*kernels, GapWeighted(4, decay, (0, 1, 0, 0), normalised=False)], texts)


def test_tiny_sums_of_a_shared_pass():
    """2^-70 to 2^-40: the tiny numbers in place of zeros would show."""
    documents = encode(["a" + "x" * 20 + "b", *("a" + "y" * n + "b" for n in range(20, 50))])
    row, columns = np.zeros(1, np.int64), in_lanes(documents)[0]
    picked = [(documents.codes, documents.offsets, which) for which in (row, columns)]
    needed = np.ones((1, len(columns)), bool)

    def sums(p: int, wanted: int) -> np.ndarray:
        return products(Recurrence.of(p, 0.5), wanted, False, *picked, needed, row)

    np.testing.assert_array_equal(sums(4, 3)[0], sums(2, 1)[0])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), decay=st.floats(0.02, 1), p=st.sets(st.integers(1, 8), min_size=2, max_size=4))
def test_any_shared_pass(data, decay, p):
    letters = data.draw(st.sampled_from(["a", "ab", "acgt", "".join(map(chr, range(97, 160)))]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    sizes = data.draw(st.lists(st.integers(0, 300), min_size=2, max_size=30))
    check_shared_pass(
        [GapWeighted(each, decay) for each in p], ["".join(rng.choice(list(letters), n)) for n in sizes]
    )


@pytest.mark.parametrize("case", ["fractions", "long rows", "long columns"])
def test_products_of_rows_unlike_the_columns(case):
    """Rows of fractions by columns of whole numbers, and products that float32 cannot hold."""
    rng = np.random.default_rng(0)
    n, width = 200, 40

    def sparse(values: np.ndarray) -> Sparse:
        indptr = np.arange(0, values.size + 1, width)
        return Sparse(indptr, np.tile(np.arange(width, dtype=np.int32), len(values)), values.ravel(), width)

    rows, x = (rng.integers(1, 9, (n, width)).astype(np.float32) for _ in range(2))
    if case == "fractions":
        rows = np.log(rows + 1)
    else:
        (rows if case == "long rows" else x)[::5] *= 100_003
    rows, x = sparse(rows).on_grid(), sparse(x).on_grid()
    exact = rows.values.reshape(n, width).astype(np.float64) @ x.values.reshape(n, width).T.astype(np.float64)
    index, ones = InvertedIndex(x), np.ones(n)
    for size in (n, 100, 1):
        out = np.empty((size, n), np.float32)
        index.products(rows.take(np.arange(size)), ones[:size], ones, out)
        np.testing.assert_array_equal(out, exact[:size].astype(np.float32), err_msg=f"{size} rows")


@pytest.mark.parametrize(
    "kernel", [Spectrum((1, 5), "log", idf=True), GapWeighted(3), BoundedGap(3), EditDistance()], ids=str
)
def test_machines_of_every_tier_are_the_same(kernel, tmp_path):
    texts, labels = [text[:120] for text in TEXTS], LABELS
    few = needed_bytes(len(texts), 20)
    ways = [
        Compute(solver="gram", memory="1GiB"),
        Compute(solver="gram", memory=few),
        Compute(solver="gram", memory="1GiB", store=tmp_path / "whole"),
        Compute(solver="gram", memory=few, store=tmp_path / "window"),
    ]
    with small_panels():
        models = [SVC(kernel, compute=way, device="cpu").fit(texts, labels) for way in ways]
    for model in models[1:]:
        np.testing.assert_array_equal(model.dual_coef_, models[0].dual_coef_)
        np.testing.assert_array_equal(model.intercept_, models[0].intercept_)


@pytest.mark.parametrize("kernel", ["edit", "gap:3", "spectrum:3", "edit + spectrum:2"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_decision_depends_on_its_text_alone(kernel, n_classes):
    texts = [f"win cash {i * i} now, lunch {i}?" for i in range(90)]
    model = SVC(kernel).fit(texts[:60], [str(i % n_classes) for i in range(60)])
    together = model.decision_function(texts[60:])
    alone = np.concatenate([model.decision_function([text]) for text in texts[60:]])
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("labels", [["a\ud800", "b"] * 2, [("a",), ("\udcff",)] * 2])
def test_labels_are_unicode(labels):
    estimator = MultilabelSVC("spectrum:2") if isinstance(labels[0], tuple) else SVC("spectrum:2")
    refuses("has a lone surrogate", estimator.fit, ["win", "cash", "now", "then"], labels)
