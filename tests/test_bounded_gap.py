"""The gap-weighted kernel of bounded span: CPU twin against the textbook, and against the exact kernel."""

from itertools import pairwise
from math import comb

import numpy as np
import oracles
import pytest
from contracts import KernelContract, check, matrix, random_texts
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from test_columns import both_ways, corpus, judge

from textsvm import BoundedGap, GapWeighted, Spectrum, Sum, read_corpus
from textsvm.kernels.gap import subsequences
from textsvm.kernels.gap.kernel import self_products
from textsvm.kernels.gap.recurrence import Recurrence
from textsvm.kernels.gap.subsequences import count, ids_of, patterns_of
from textsvm.runtime.device import select
from textsvm.text.documents import encode

CPU = select("cpu")


def oracle(p, decay, span=None, normalised=True):
    def value(a, b):
        return oracles.bounded_gap(a, b, p, decay, p + 2 if span is None else span)

    return (lambda s, t: oracles.normalised(value, s, t)) if normalised else value


def variants():
    sizes = [(1, 0.1, None), (2, 0.5, 3), (3, 0.1, None), (3, 1.0, 3), (4, 0.3, 7), (5, 0.05, 6)]
    return [(BoundedGap(*some), oracle(*some)) for some in sizes]


def news(n=60, length=100):
    return [text[:length] for text in read_corpus("corpora/samples/newswire").texts[:n]]


class TestBoundedGap(KernelContract):
    cases = variants()


def test_values_worked_out_by_hand():
    # banana: ba a-n n-n... two symbols within 3: ba an na an na (decay^2), b.n a.a n.n a.a (decay^3)
    gram = BoundedGap(2, 0.5, 3, normalised=False).rows(encode(["banana", "bat"]), CPU).gram()
    assert gram[0, 0] == (0.25**2 + 0.5**2 + 0.5**2) + (0.125**2 + 0.25**2 + 0.125**2)
    assert gram[0, 1] == 0.25**2
    assert gram[1, 1] == 0.25**2 + 0.125**2 + 0.25**2


@pytest.mark.slow
@settings(max_examples=100)
@given(data=st.data(), decay=st.sampled_from([0.1, 0.5, 0.9, 1.0]), normalised=st.booleans())
def test_any_texts_agree_with_the_oracle(data, decay, normalised):
    p = data.draw(st.integers(1, 5))
    span = data.draw(st.integers(p, p + 5))
    letters = data.draw(st.sampled_from(["a", "ab", "acgt", "abé\x00🙂", "".join(map(chr, range(97, 160)))]))
    texts = data.draw(st.lists(st.text(st.sampled_from(letters), max_size=20), min_size=1, max_size=6))
    others = data.draw(st.lists(st.text(st.sampled_from(letters + "x"), max_size=20), max_size=3))
    value = oracle(p, decay, span, normalised)
    largest = np.abs(matrix(value, texts, texts)).max()  # features are on a grid
    check(BoundedGap(p, decay, span, normalised), value, texts, others, atol=3e-8 * max(largest, 1))


@pytest.mark.parametrize(("p", "decay", "normalised"), [(1, 0.5, True), (3, 0.5, False), (4, 1.0, True)])
def test_a_span_of_the_longest_text_is_the_gap_weighted_kernel(p, decay, normalised):
    documents = encode([*random_texts(30, longest=17), "", "a", "a"])
    ours = BoundedGap(p, decay, 16, normalised).rows(documents, CPU).gram()
    exact = GapWeighted(p, decay, normalised=normalised).rows(documents, CPU).gram()
    np.testing.assert_allclose(ours, exact, rtol=2e-6, atol=3e-8 * exact.max())  # features are on a grid


def left_out(kernel, documents):
    """Share of k(x, x) that longer spans contribute, shape (n,); see the docstring of bounded.py."""
    _, x = count(documents, kernel.patterns, kernel.decay)
    (exact,) = self_products(Recurrence.of(kernel.p, kernel.decay), 1, documents)
    share = 1 - np.divide(x.squares(), exact, out=np.ones(len(exact)), where=documents.lengths >= kernel.p)
    # Values of X are rounded to float32.
    return np.where(documents.lengths <= (kernel.span or kernel.p + 2), 0.0, np.maximum(share, 0.0))


def worst_left_out(p: int, decay: float, span: int, length: int) -> float:
    """Upper bound of `left_out` for a text of some length; derived in bounded.py."""
    if p == 1 or length <= span:
        return 0.0
    places = length - p + 1
    beyond = sum(comb(reach - 2, p - 2) * decay ** (reach - p) for reach in range(span + 1, length + 1))
    return 1 - 1 / (1 + places**0.5 * beyond) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(("p", "span"), [(1, 1), (2, 2), (2, 4), (3, 5), (4, 6), (5, 7)])
def test_what_is_left_out_is_bounded_as_derived(p, span, decay):
    special = [
        "a" * 50,
        "".join(a + b for a, b in zip("a" * 20, "bcdefghijklmnopqrstu", strict=True)),
        "ab" * 9,
    ]
    texts = [*random_texts(12, "ab"), *random_texts(12, "abcdefghijkl", 1), *news(20, 60), *special]
    documents = encode(texts)
    kernel = BoundedGap(p, decay, span)
    left = left_out(kernel, documents)
    bounded, exact = (
        k.rows(documents, CPU).gram().astype(np.float64) for k in (kernel, GapWeighted(p, decay))
    )
    rounding = 1e-5  # of the exact kernel in float32
    below = 1 - np.sqrt(np.outer(1 - left, 1 - left))
    above = np.sqrt(2 - 2 * np.sqrt(1 - left))
    assert (bounded - exact <= below + rounding).all()
    assert (exact - bounded <= above[:, None] + above + rounding).all()
    raw, whole = (
        k.set_params(normalised=False).rows(documents, CPU).gram() / decay ** (2 * p)
        for k in (kernel, GapWeighted(p, decay))
    )
    own = np.diag(whole)
    np.testing.assert_allclose(np.diag(raw), (1 - left) * own, rtol=1e-5)
    grid = 3e-8 * own.max()  # of features
    assert (whole >= raw * (1 - rounding) - grid).all()
    most = (np.sqrt(left)[:, None] + np.sqrt(left)) * np.sqrt(np.outer(own, own))
    assert (whole - raw <= most + rounding * whole + grid).all()
    worst = [worst_left_out(p, decay, span, len(text)) for text in texts]
    assert (left <= np.array(worst) + 1e-6).all()


@pytest.mark.parametrize("p", [3, 4, 5])
def test_little_is_left_out_of_news_with_decay_a_tenth(p):
    documents = encode(news())
    left = left_out(BoundedGap(p), documents)
    assert len(patterns_of(p, p + 2).spans) == comb(p + 1, p - 1)
    assert left.max() < 2 * 0.1**3
    assert 0.1 * 0.1**3 < np.median(left) < 0.1**3
    further = [np.median(left_out(BoundedGap(p, 0.1, span), documents)) for span in range(p, p + 4)]
    assert all(b < 0.2 * a for a, b in pairwise(further))


@pytest.mark.slow
@pytest.mark.parametrize("n_letters", [2, 70, 3000])
@pytest.mark.parametrize(("p", "span"), [(1, 1), (3, 5), (12, 13)])
def test_ids_are_exact_in_stages_pieces_and_tables(n_letters, p, span, set_values):
    points = 0x4E00 + np.random.default_rng(0).integers(0, n_letters, (40, 50)) ** 2 // n_letters
    texts = ["".join(map(chr, row)) for row in points]
    documents = encode(texts[:30])
    others = encode([*texts[25:], "x" * 30], documents.alphabet)
    patterns, stages = patterns_of(p, span), set()
    for table, room, piece in ((1 << 20, 1 << 62, 1 << 20), (1, 1 << 62, 700), (1, 1 << 33, 1)):
        set_values(subsequences, TABLE=table, ROOM=room, PIECE=piece)
        own, x = count(documents, patterns, 0.5)
        stages.add(len(own.stages))
        kept = [
            tuple(t[i + place] for place in offsets)
            for t in texts[:30]
            for offsets in patterns.offsets.tolist()
            for i in range(len(t) - offsets[-1])
        ]
        number = dict(zip(kept, ids_of(documents, patterns, own).tolist(), strict=True))
        assert sorted(number.values()) == list(range(own.size)) == list(range(x.n_features))
        symbols = [
            "".join(chr(documents.alphabet[c]) for c in codes) for codes in zip(*own.strings(), strict=True)
        ]
        assert all(symbols[u] == "".join(string) for string, u in number.items())
        theirs, _ = count(others, patterns, 0.5)
        strings = zip(*theirs.strings(), strict=True)
        wanted = [number.get(tuple(chr(others.alphabet[c]) for c in codes), -1) for codes in strings]
        assert own.find(theirs).tolist() == wanted
        for d, text in enumerate(texts[:30]):
            found = oracles.subsequences(text, p, 0.5, span)
            row = slice(x.indptr[d], x.indptr[d + 1])
            assert x.features[row].tolist() == sorted(number[u] for u in found)
            values = {number[u]: value * 2.0**p for u, value in found.items()}
            np.testing.assert_allclose(x.values[row], [values[u] for u in x.features[row]], rtol=1e-7)
    assert p < 12 or n_letters < 70 or max(stages) > 1


def test_too_many_subsequences_are_refused(monkeypatch):
    documents = encode(random_texts(20))
    monkeypatch.setattr(subsequences, "MAX_INT32", 100)
    refuses("at most 100 can be ranked", BoundedGap(3).rows, documents, CPU)
    monkeypatch.setattr(subsequences, "ROOM", 5)
    refuses("too many subsequences of p=3 of 4 symbols", BoundedGap(3).rows, documents, CPU)


def test_machines_need_no_gram():
    texts, y = corpus()
    for kernel in (BoundedGap(3, 0.3), Sum([BoundedGap(2), Spectrum((1, 2), "log", idf=True)])):
        judge(*both_ways(texts, y, kernel=kernel))


def test_contributions_lie_where_a_subsequence_is():
    columns = encode(["axbyc"])
    documents = encode(["mmmmazbzcnnnn"], columns.alphabet)
    kernel = BoundedGap(3)
    rows = kernel.rows(columns, CPU)
    (found,) = kernel.attribution.contributions(
        rows, documents, np.ones((1, 1)), rows.cross(documents), None
    ).symbols
    assert np.flatnonzero(found).tolist() == [4, 6, 8]


def test_values_beyond_float32_are_refused_unless_normalised():
    documents = encode(["ab" * 40, "ab"])
    kernel = BoundedGap(20, 0.01, 21, normalised=False)
    for function in (
        lambda: kernel.rows(documents, CPU).gram(),
        lambda: kernel.features.rows(documents, CPU),
    ):
        refuses("exceeds the range of float32", function)
    assert BoundedGap(20, 0.01, 21).rows(documents, CPU).gram().tolist() == [[1, 0], [0, 1]]
