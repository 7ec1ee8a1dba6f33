"""The p-spectrum kernel: CPU twin against the textbook, scikit-learn's vectorisers and exact integers."""

import numpy as np
import oracles
import pytest
from contracts import KernelContract, check
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from textsvm.kernels import GappedKmers
from textsvm.kernels.options import WEIGHTS
from textsvm.kernels.shared.counting import plan
from textsvm.kernels.spectrum.kernel import Spectrum, host_grams
from textsvm.linalg.products import DENSE_SHARE
from textsvm.runtime.device import select
from textsvm.text.documents import encode, encode_as

CPU = select("cpu")


def oracle(p1, p2=None, weight="count", idf=None):
    def value(s, t):
        return oracles.normalised(lambda a, b: oracles.spectrum(a, b, p1, p2, weight, idf), s, t)

    return value


def variants():
    return [
        (Spectrum(p, weight), oracle(*(p if isinstance(p, tuple) else (p, p)), weight))
        for p in (1, 2, 4, (1, 5), (3, 7), 70)
        for weight in WEIGHTS
    ]


def news(n, seed=0, length=150):
    """Documents with some words in most of them: both paths of the product are taken."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list("etaoinshrdlu"), rng.integers(2, 9))) for _ in range(400)]
    rank = rng.zipf(1.3, (n, length // 5)) % len(words)
    return [" ".join(words[w] for w in row[: rng.integers(0, len(row) + 1)]) for row in rank]


class TestSpectrum(KernelContract):
    cases = variants()


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("p", [2, (1, 3)])
def test_idf_agrees_with_the_oracle_also_on_unseen_documents(p, weight):
    train = ["banana", "bandana", "the cat sat on the mat", "nab", "", "aaaa"]
    new = ["bonana", "", "cat and mat", "日本", "banana"]
    p1, p2 = p if isinstance(p, tuple) else (p, p)
    value = oracle(p1, p2, weight, oracles.learn_idf(train, p1, p2))
    check(Spectrum(p, weight, idf=True), value, train, new)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    texts=st.lists(st.text(st.sampled_from("abé\x00🙂"), max_size=30), min_size=1, max_size=7),
    others=st.lists(st.text(st.sampled_from("abé\x00🙂c"), max_size=30), max_size=3),
    p=st.one_of(
        st.integers(1, 40), st.tuples(st.integers(1, 9), st.integers(0, 9)).map(lambda t: (t[0], t[0] + t[1]))
    ),
    weight=st.sampled_from(WEIGHTS),
    idf=st.booleans(),
)
def test_any_texts_agree_with_the_oracle(texts, others, p, weight, idf):
    p1, p2 = p if isinstance(p, tuple) else (p, p)
    value = oracle(p1, p2, weight, oracles.learn_idf(texts, p1, p2) if idf else None)
    check(Spectrum(p, weight, idf), value, texts, others)


JUDGES = {
    "count": lambda n: CountVectorizer(analyzer="char", ngram_range=n, lowercase=False),
    "presence": lambda n: CountVectorizer(analyzer="char", ngram_range=n, lowercase=False, binary=True),
    "idf": lambda n: TfidfVectorizer(analyzer="char", ngram_range=n, lowercase=False),
    "log idf": lambda n: TfidfVectorizer(analyzer="char", ngram_range=n, lowercase=False, sublinear_tf=True),
}


@pytest.mark.parametrize("n", [(3, 3), (1, 4)])
@pytest.mark.parametrize("name", JUDGES)
def test_agrees_with_the_vectorisers_of_scikit_learn(name, n):
    texts, new = [t for t in news(400) if len(t) > 4], [t for t in news(90, 1) if len(t) > 4]
    judge = JUDGES[name](n)
    x = judge.fit_transform(texts).astype(np.float64)
    weight = {"idf": "count", "log idf": "log"}.get(name, name)
    documents = encode(texts)
    kernel = Spectrum(n, weight, idf="idf" in name, normalised="idf" in name).fit(documents)
    rows = kernel.rows(documents, CPU)
    assert rows.columns.dense(DENSE_SHARE, np.float64).width > 0
    gram = rows.gram()
    np.testing.assert_allclose(gram, (x @ x.T).toarray(), rtol=1e-6)
    np.testing.assert_allclose(gram, gram.T, rtol=0)
    if not kernel.normalised:  # new p-mers enter the norm here, and are left out there
        y = judge.transform(new).astype(np.float64)
        cross = rows.cross(encode(new, documents.alphabet))
        np.testing.assert_allclose(cross, (y @ x.T).toarray(), rtol=1e-6)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_long_range_is_the_sum_of_its_lengths(weight):
    documents = encode(news(150))
    whole = Spectrum((2, 6), weight, normalised=False).rows(documents, CPU)
    parts = [Spectrum(p, weight, normalised=False).rows(documents, CPU).gram() for p in range(2, 7)]
    np.testing.assert_allclose(whole.gram(), sum(part.astype(np.float64) for part in parts), rtol=1e-6)
    np.testing.assert_allclose(whole.rows(np.arange(150)), whole.gram(), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("weight", WEIGHTS)
def test_lengths_that_no_document_has_change_nothing(weight):
    documents = encode(["banana", "bandana", "", "the cat", "nab"])
    new = encode(["bonana", "the cat and the hat", ""], documents.alphabet)
    coef = np.arange(5.0)[:, None]
    for p in (1, 3, 7):
        short = Spectrum((p, 19), weight, idf=True).fit(documents)
        long = Spectrum((p, 1_000_000_000), weight, idf=True).fit(documents)
        a, b = short.rows(documents, CPU), long.rows(documents, CPU)
        np.testing.assert_array_equal(a.gram(), b.gram())
        np.testing.assert_array_equal(a.cross(new), b.cross(new))
        np.testing.assert_array_equal(a.decision(new, coef), b.decision(new, coef))
        again = clone(long)
        again.restore(long.state())
        np.testing.assert_array_equal(again.rows(documents, CPU).cross(new), a.cross(new))
    kernels = [Spectrum((2, p), weight) for p in (3, 7, 8, 1_000_000_000)]
    found = {i: gram.copy() for i, gram in host_grams(kernels, documents, CPU)}
    for i, kernel in enumerate(kernels):
        np.testing.assert_array_equal(found[i], kernel.rows(documents, CPU).gram())


@pytest.mark.parametrize("p", [(2, 9), (1, 9), (64, 65)])
def test_states_that_list_the_lengths_no_document_has_are_read(p):
    documents = encode(["banana", "nab", "ban"])
    kernel = Spectrum(p, idf=True).fit(documents)
    state = kernel.state()
    missing = {f"keys_{q}": np.empty(0, np.uint64) for q, _, _ in plan(*p) if f"keys_{q}" not in state}
    assert missing
    again = clone(kernel)
    again.restore(state | missing)
    new = encode(["bananas", "x"], documents.alphabet)
    rows, expected = again.rows(documents, CPU), kernel.rows(documents, CPU)
    np.testing.assert_array_equal(rows.cross(new), expected.cross(new))


@pytest.mark.slow
def test_sums_beyond_two_to_the_24_are_rounded_once():
    # One p-mer 30,000 times, and 40,000 others once: added to 9e8 in float32, each of these would vanish.
    many = "".join(chr(0x4E00 + i % 20_000) + chr(0x3400 + i // 20_000) for i in range(20_000))
    texts = ["a" * 30_000 + many, many + "a" * 30_000] * 70
    for p in (1, 2):
        rows = Spectrum(p, normalised=False).rows(encode(texts), CPU)
        a, b = oracles.pmers(texts[0], p), oracles.pmers(texts[1], p)
        exact = sum(a[u] * b[u] for u in a.keys() & b.keys())
        assert exact > 1 << 24
        gram = rows.gram()
        assert rows.columns.dense(DENSE_SHARE, np.float64).width > 0
        assert gram[0, 1] == gram[3, 6] == np.float32(exact)
        assert gram[0, 0] == gram[0, 2] == np.float32(sum(c * c for c in a.values()))


@pytest.mark.slow
@pytest.mark.parametrize("p", [(1, 2), 64])
def test_alphabets_of_60_000_symbols(p):
    rng = np.random.default_rng(0)
    points = np.delete(np.arange(0x100, 0x100 + 62_100), slice(0xD800 - 0x100, 0xE000 - 0x100))
    flat = "".join(map(chr, rng.permutation(points)))
    texts = [flat, flat[:30_000] + flat[40_000:], flat[::-1], flat[100:200] * 3]
    documents = encode(texts)
    assert len(documents.alphabet) > 60_000
    value = oracle(*(p if isinstance(p, tuple) else (p, p)))
    expected = [[value(s, t) for t in texts] for s in texts]
    rows = Spectrum(p).rows(documents, CPU)
    np.testing.assert_allclose(rows.gram(), expected, rtol=1e-6)
    np.testing.assert_allclose(rows.cross(documents), expected, rtol=1e-6)


def test_a_document_of_a_million_symbols():
    texts = ["ab" * 500_000, "abc" * 20, "a" * 1_000_000]
    counters = [oracles.pmers(t, 5) for t in texts]
    sums = {
        "count": lambda a, b: sum(a[u] * b[u] for u in a),
        "intersection": lambda a, b: sum((a & b).values()),
    }
    for weight, value in sums.items():
        gram = Spectrum(5, weight, normalised=False).rows(encode(texts), CPU).gram()
        np.testing.assert_allclose(gram, [[value(a, b) for b in counters] for a in counters], rtol=1e-7)


@pytest.mark.parametrize("p", [3, (1, 4), 9])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_what_fit_learns_is_saved_and_restored(p, weight):
    train = encode(news(80))
    kernel = Spectrum(p, weight, idf=True).fit(train)
    columns = train.take(np.arange(0, 80, 3))
    new = encode(["a new document about the etaoin shrdlu", "漢字", ""], train.alphabet)
    expected = kernel.rows(columns, CPU).cross(new)
    again = clone(kernel)
    refuses("fit", again.rows, columns, CPU)
    again.restore({name: array.copy() for name, array in kernel.state().items()})
    np.testing.assert_array_equal(again.rows(columns, CPU).cross(new), expected)
    assert Spectrum(p, weight).fit(train).state() == {}


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("keys_2", lambda a: a[::-1]),
        ("keys_2", lambda a: a + np.uint64(1 << 40)),
        ("keys_2", lambda a: a.astype(np.float64)),
        ("keys_3", lambda a: a[:-1]),
        ("keys_3", lambda a: a[:, None]),
        ("df", lambda a: a[1:]),
        ("df", lambda a: -1 - a),
        ("df", lambda a: a + 1000),
        ("df", lambda a: a.astype(np.float32)),
        ("sizes", lambda a: a[:1]),
        ("sizes", lambda a: a - 1000),
        ("sizes", None),
    ],
)
def test_a_damaged_state_is_refused(name, damage):
    state = Spectrum(3, idf=True).fit(encode(news(50))).state()
    if damage is None:
        del state[name]
    else:
        state[name] = damage(state[name])
    refuses("damaged", Spectrum(3, idf=True).restore, state)


@pytest.mark.parametrize("weight", ["count", "presence", "log"])
@pytest.mark.parametrize("p", [3, 5])
def test_a_p_mer_and_its_reverse_complement_are_one_feature_of_gapped_without_gaps(p, weight):
    rng = np.random.default_rng(p)
    texts = ["".join(rng.choice(list("acgt"), n)) for n in rng.integers(p, 60, 8)]

    def one_feature(text):
        windows = [text[i : i + p] for i in range(len(text) - p + 1)]
        return [min(u, u[::-1].translate(str.maketrans("acgt", "tgca"))) for u in windows]

    # As texts of tokens that are canonical p-mers: their spectrum of length 1.
    documents = encode_as([" ".join(one_feature(text)) for text in texts], "whitespace")
    expected = Spectrum(1, weight).fit(documents).rows(documents, select("cpu")).gram()
    found = GappedKmers(p, 0, True, weight).rows(encode(texts), select("cpu")).gram()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
