"""The kernel of gapped k-mers: CPU twin against the textbook, both strands against explicit counts."""

import lzma

import numpy as np
import oracles
import pytest
from contracts import KernelContract, check, dna
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from test_columns import both_ways, judge

from textsvm import SVC, Spectrum, Sum
from textsvm.errors import InputError
from textsvm.kernels import GappedKmers
from textsvm.kernels.mers import gapped_rows
from textsvm.kernels.mers import windows as features
from textsvm.kernels.mers.windows import Mask, MaskedWindows, fitting, windows_of
from textsvm.kernels.options import GAPPED_WEIGHTS as WEIGHTS
from textsvm.runtime.device import Device, select
from textsvm.text.documents import encode, normalise
from textsvm.training.grams import why_no_features

CPU = select("cpu")


def oracle(g, m, weight="log", canonical=False, normalised=True):
    def value(a, b):
        return oracles.gapped(a, b, g, m, weight, canonical)

    return (lambda s, t: oracles.normalised(value, s, t)) if normalised else value


def variants():
    sizes = [(1, 0), (2, 1), (3, 0), (4, 2), (6, 3), (9, 1)]
    return [(GappedKmers(g, m, weight=weight), oracle(g, m, weight)) for g, m in sizes for weight in WEIGHTS]


class TestGapped(KernelContract):
    cases = variants()


def test_machines_need_no_gram():
    texts = dna(80)
    y = np.array(["ga" in text for text in texts])
    for kernel in (GappedKmers(5, 2, canonical=True), Sum([GappedKmers(4, 1), Spectrum(2, "intersection")])):
        judge(*both_ways(texts, y, kernel=kernel))


def test_features_are_counted_on_a_cpu_only():
    trouble = why_no_features(GappedKmers(), Device("cuda", 0, "a card"))
    assert "machines of gapped k-mers are trained from kernel values on a card" in trouble
    assert not why_no_features(GappedKmers(), CPU)


def test_values_worked_out_by_hand():
    # banana: ba. an. na. an. | b.n a.a n.n a.a | .an .na .an .na
    # banab: ba. an. na. | b.n a.a n.b | .an .na .ab
    gram = GappedKmers(3, 1, weight="count", normalised=False).rows(encode(["banana", "banab"]), CPU).gram()
    assert gram[0, 0] == (1 + 4 + 1) + (1 + 4 + 1) + (4 + 4)
    assert gram[0, 1] == (1 + 2 + 1) + (1 + 2 + 0) + (2 + 2)
    rows = GappedKmers(2, 1, True, "count", False).rows(encode(["acg"]), CPU)
    # acg and its reverse complement cgt: a. c. c. g. and .c .g .g .t
    assert rows.gram()[0, 0] == (1 + 4 + 1) * 2


@settings(max_examples=40)
@given(data=st.data(), weight=st.sampled_from(WEIGHTS), normalised=st.booleans(), canonical=st.booleans())
def test_any_texts_agree_with_the_oracle(data, weight, normalised, canonical):
    g = data.draw(st.integers(1, 7))
    m = data.draw(st.integers(0, g - 1))
    kinds = ["ab", "abé\x00🙂", "".join(map(chr, range(97, 160)))]
    letters = data.draw(st.sampled_from(["acgtun", "acgtn", "at"] if canonical else ["acgt", *kinds]))
    more = letters + ("n" if canonical else "x")
    texts = data.draw(st.lists(st.text(st.sampled_from(letters), max_size=20), min_size=1, max_size=6))
    others = data.draw(st.lists(st.text(st.sampled_from(more), max_size=20), max_size=3))
    value = oracle(g, m, weight, canonical, normalised)
    check(GappedKmers(g, m, canonical, weight, normalised), value, texts, others)


def test_a_sequence_is_its_reverse_complement():
    texts = [t for t in dna(25) if len(t) > 4][:20]
    turned = [t[::-1].translate(str.maketrans("acgt", "tgca")) for t in texts]
    gram = GappedKmers(5, 2, True).rows(encode(texts + turned), CPU).gram()
    np.testing.assert_allclose(gram[:20, 20:], gram[:20, :20], rtol=1e-6)
    alone = GappedKmers(5, 2).rows(encode(texts + turned), CPU).gram()
    assert np.abs(alone[:20, 20:] - alone[:20, :20]).max() > 0.1


@pytest.mark.parametrize("n_letters", [4, 70, 3000])
@pytest.mark.parametrize("mask", [Mask((0,)), Mask((1, 3, 4)), Mask(tuple(range(0, 40, 2)))])
def test_ids_are_exact_in_stages_and_tables(n_letters, mask, monkeypatch):
    rng = np.random.default_rng(0)

    def draw(n):
        points = 0x4E00 + rng.integers(0, n_letters, (n, 90)) ** 2 // n_letters
        return ["".join(map(chr, row)) for row in points]

    texts, g = draw(30), 41
    texts += [t[:50] + t[20:] for t in texts]
    known, new = encode(texts), [*texts[::3], *draw(4), "x" * 50]
    others = encode(new, known.alphabet)
    for table in (features.TABLE, 1):
        monkeypatch.setattr(features, "TABLE", table)
        vocabulary, ids = MaskedWindows.learn(windows_of(known, g, False), mask)
        kept = [tuple(t[i + place] for place in mask.positions) for t in texts for i in range(len(t) - g + 1)]
        number = dict(zip(kept, ids.tolist(), strict=True))
        assert [number[u] for u in kept] == ids.tolist()
        assert sorted(set(number.values())) == list(range(len(number))) == list(range(vocabulary.size))
        theirs = [tuple(t[i + place] for place in mask.positions) for t in new for i in range(len(t) - g + 1)]
        assert vocabulary.find(windows_of(others, g, False)).tolist() == [number.get(u, -1) for u in theirs]
    assert fitting(1, n_letters, 1000, 1 << 20)[1] << 20 <= 1 << 64


def test_contributions_are_exact_and_named():
    texts, support = ["acgtacgatt", "ttgacaacgt", "aa"], ["acgtaaacgt", "gattaca", "ttgac"]
    coef = np.array([[1.0, -2.0, 0.5], [0.3, 0.2, -1.0], [1.0, 1.0, 1.0]])
    columns = encode(support)
    documents = encode(texts, columns.alphabet)
    for canonical in (False, True):
        for weight in WEIGHTS:
            kernel = GappedKmers(4, 2, canonical, weight)
            rows = kernel.rows(columns, CPU)
            values = rows.cross(documents).astype(np.float64)
            found = kernel.attribution.contributions(rows, documents, coef, values, None)
            sums = (coef * values).sum(axis=1)
            for d, text in enumerate(texts):
                counts = oracles.gapped_kmers(text, 4, 2, canonical)
                symbols, named = found.symbols[d], found.features[d]
                assert symbols.sum() == pytest.approx(sums[d], abs=1e-6)
                assert sum(value for _, _, value in named) == pytest.approx(sums[d], abs=1e-6)
                assert len({name for name, _, _ in named}) == len(named)
                plain = {"".join(symbol or "." for symbol in u): c for u, c in counts.items()}
                assert all(plain[name] == c for name, c, _ in named)
                if not canonical:
                    assert plain == {name: c for name, c, _ in named}


def test_contributions_lie_where_a_pattern_is():
    columns = encode(["aatccggaaa"])
    documents = encode(["cccccccatxcggcccccc"], columns.alphabet)
    kernel = GappedKmers(6, 1, weight="presence")
    rows = kernel.rows(columns, CPU)
    found = kernel.attribution.contributions(
        rows, documents, np.ones((1, 1)), rows.cross(documents).astype(float), None
    )
    assert np.flatnonzero(found.symbols[0]).tolist() == [7, 8, 10, 11, 12]
    assert [name for name, _, value in found.features[0] if value] == ["at.cgg"]


def test_full_stops_are_not_open_positions():
    columns = encode(["a..b"])
    kernel = GappedKmers(3, 1, weight="count", normalised=False)
    rows = kernel.rows(columns, CPU)
    ((*found,),) = kernel.attribution.contributions(
        rows, columns, np.ones((1, 1)), np.ones((1, 1)), None
    ).features
    # of a.. the window: a.-, a-., -.. (- is open), of ..b: ..-, .-b, -.b
    assert sorted(name for name, *_ in found) == ["...", "...", "..b", "..b", "a..", "a.."]
    assert {tuple(rest) for _, *rest in found} == {(1, 1.0)}


def test_windows_with_ambiguous_bases_are_left_out():
    clean, unclear = (encode(["acgttgca", "ttgac", "acg"]), encode(["acgttgcanacr", "ttgacry", "nacgn"]))
    for weight in ("count", "log"):
        kernel = GappedKmers(3, 1, True, weight)
        rows = kernel.rows(clean, CPU)
        np.testing.assert_allclose(rows.cross(unclear), rows.cross(clean), rtol=1e-6)
        np.testing.assert_allclose(kernel.rows(unclear, CPU).gram(), rows.gram(), rtol=1e-6)


def test_other_letters_are_refused_on_both_strands():
    kernel, documents = GappedKmers(3, 1, True), encode(["acgt", "nacgu"])
    for texts in (["acgt", "acxgt"], ["ACGT"], ["ac gt"]):
        refuses("no letter of DNA or RNA", kernel.rows, encode(texts), CPU)
        with pytest.raises(InputError, match="no letter of DNA or RNA"):
            kernel.rows(documents, CPU).cross(encode(texts, documents.alphabet))
    some = encode(["acxgt", "acgt"]).take([1])  # of another document, over its alphabet
    assert kernel.rows(some, CPU).gram() == 1


def test_accuracy_on_binding_sites(data):
    def read(part):
        path = data / "panel" / f"sk-CTCF-{part}.tsv.xz"
        if not path.is_file():
            pytest.skip(f"no {path}")
        with lzma.open(path, "rt") as lines:
            labels, texts = zip(*(line.rstrip("\n").split("\t") for line in lines), strict=True)
        return [normalise(text) for text in texts], labels

    model = SVC(GappedKmers(9, 3, canonical=True), C=1, device="cpu").fit(*read("train"))
    assert model.score(*read("test")) >= 0.88


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("canonical", [False, True])
def test_lists_add_up_what_columns_do(weight, canonical, monkeypatch, set_values):
    documents = encode([*dna(150, letters="acgtn"), "", "ac", "a" * 300, "ca" * 60])
    kernel = GappedKmers(6, 2, canonical, weight, normalised=False)
    expected = []
    for pays in (False, True):
        monkeypatch.setattr(
            "textsvm.kernels.mers.gapped_rows.lists_pay", lambda windows, mask, pays=pays: pays
        )
        expected.append(kernel.rows(documents, CPU).gram())
    np.testing.assert_allclose(expected[1], expected[0], rtol=1e-7 if weight == "log" else 0)
    set_values(gapped_rows, TABLE=0, GROUP_BYTES=0)
    np.testing.assert_array_equal(kernel.rows(documents, CPU).gram(), expected[1])


@pytest.mark.parametrize("normalised", [False, True])
def test_rows_on_demand_have_the_values_of_the_matrix(normalised):
    kernel = GappedKmers(6, 2, weight="log", normalised=normalised)  # sums of squares are rounded
    rows = kernel.rows(encode([text * 9 for text in dna(30)]), CPU)
    np.testing.assert_array_equal(rows.rows(np.arange(30)), rows.gram())


def test_many_symbols_are_counted_not_looked_up():
    documents, coef = encode(["".join(map(chr, range(0x4E00, 0x4E00 + 400)))] * 3), np.ones((1, 3))
    np.testing.assert_allclose(GappedKmers(2, 1).predictor(documents, coef, CPU).values(documents), 3)
