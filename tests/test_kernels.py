"""What a model of any kernel goes through: it is calibrated, saved, loaded, explained, and stays the same."""

import pickle
from math import exp

import numpy as np
import pytest
from loading import load

import textsvm
from textsvm import SVC, BoundedGap, CalibratedSVC, EditDistance, GapWeighted, Product, Spectrum, Sum
from textsvm.evaluation.explanation import explain
from textsvm.kernels import KERNELS
from textsvm.runtime.device import select
from textsvm.text.documents import encode

OWN = {
    "spectrum": [{"p": (1, 3), "weight": "log", "idf": True}],
    "edit": [{"gamma": 0.1}, {"gamma": 0.5, "tokens": "whitespace"}],
    "gap": [{"p": 2}, {"p": 2, "tokens": "words"}],
    "gapped": [{"g": 3, "m": 2}],
    "mismatch": [{"k": 3, "alphabet": 40}],
    "gkm": [{"l": 4, "k": 2, "d": 2, "filter": "none", "tokens": "words"}],
    "bounded-gap": [{"p": 2}, {"p": 2, "decay": 0.5, "span": 3, "tokens": "words", "keep_case": True}],
}
EXACT = [Spectrum(2, "intersection", tokens="words", keep_case=True)]
EXACT += [KERNELS[name](**OWN[name][1]) for name in ("gap", "bounded-gap")]
#: Every registered kernel of texts, with the parameters above or the defaults.
SIMPLE = [
    *(KERNELS[name](**params) for name in KERNELS.simple() for params in OWN.get(name, [{}])),
    EXACT[0],
]
SIMPLE = [kernel for kernel in SIMPLE if kernel.structure.reads_texts]
WORDS, CASED = Spectrum((1, 2), tokens="words"), Spectrum(2, keep_case=True)
SUMS = [
    Sum([Spectrum(2), WORDS, CASED, BoundedGap(2), EditDistance()]),
    Sum([BoundedGap(2), BoundedGap(2, tokens="words")], weights=[1, 3]),
    Product([CASED, Sum([WORDS, GapWeighted(2)])]),
]
TEXTS = [
    "Cheap pills for sale, buy now",
    "buy cheap Watches now now",
    "Win a prize, click now",
    "free Prize for you",
    "Sale sale sale of pills",
    "the Meeting is at noon",
    "please read the Agenda",
    "see you at the meeting",
    "The report is in the mail",
    "lunch at noon, at the usual place",
]
LABELS = ["spam"] * 5 + ["ham"] * 5
NEW = ["Buy the cheap report now now", "meeting about the prize, see the agenda", "Ünseen 日本", "zzz", ""]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [*SIMPLE, *SUMS], ids=str)
def test_a_model_is_the_same_wherever_it_goes(kernel, tmp_path):
    machine = SVC(kernel, device="cpu")
    model = CalibratedSVC(machine, cv=2, method="sigmoid").fit(TEXTS, LABELS)
    textsvm.save(model, tmp_path / "m.textsvm")
    expected = model.predict_proba(NEW)
    explained = explain(model, NEW)
    assert explained[0].text
    for again in (load(tmp_path / "m.textsvm"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.decision_function(NEW), model.decision_function(NEW))
        np.testing.assert_array_equal(again.predict_proba(NEW), expected)
        for mine, theirs in zip(explain(again, NEW), explained, strict=True):
            np.testing.assert_allclose(mine.symbols, theirs.symbols, atol=1e-12)
            assert mine.text == theirs.text
            assert mine.value == pytest.approx(theirs.value, abs=1e-12)
            assert [one.index for one in mine.similar] == [one.index for one in theirs.similar]


EXACT += [Sum([CASED, WORDS, BoundedGap(2), GapWeighted(2)])]


@pytest.mark.parametrize("kernel", EXACT, ids=str)
def test_characters_sum_to_the_value(kernel):
    for one in explain(SVC(kernel, device="cpu").fit(TEXTS, LABELS), NEW):
        assert one.exact
        assert len(one.symbols) == len(one.text)
        assert one.symbols.sum() + one.bias == pytest.approx(one.value, abs=1e-6)


def value(kernel, s, t):
    documents = encode([s, t])
    return kernel.fit(documents).rows(documents, select("cpu")).gram()[0, 1]


def test_spectrum_of_banana_and_bandana():
    # ba an na an na / ba an nd da an na: 1 + 2 * 2 + 2 * 1 = 7; norms 1 + 4 + 4 = 9 and 1 + 4 + 1 + 1 + 1 = 8
    assert value(Spectrum(p=2, normalised=False), "banana", "bandana") == 7
    assert value(Spectrum(p=2), "banana", "bandana") == pytest.approx(7 / np.sqrt(72))
    assert value(Spectrum(p=2, weight="presence", normalised=False), "banana", "bandana") == 3
    assert value(Spectrum(p=2, weight="intersection", normalised=False), "banana", "bandana") == 4
    assert value(Spectrum(p=(1, 2), normalised=False), "banana", "bandana") == 1 + 9 + 4 + 7


def test_edit_distance_of_kitten_and_sitting():
    assert value(EditDistance(gamma=0.1), "kitten", "sitting") == pytest.approx(exp(-0.3))
    assert value(EditDistance(gamma=0.7, relative=True), "kitten", "sitting") == pytest.approx(exp(-0.3))
    assert value(EditDistance(gamma=1.0), "Ωμέγα", "ωμέγα") == pytest.approx(exp(-1))


@pytest.mark.parametrize("decay", [0.1, 0.5, 1.0])
def test_gap_weighted_of_cat_and_car(decay):
    assert value(GapWeighted(p=2, decay=decay), "cat", "car") == pytest.approx(1 / (2 + decay**2))
    assert value(GapWeighted(p=2, decay=decay, normalised=False), "cat", "car") == pytest.approx(decay**4)
    twice = 2 * decay**4 + decay**6
    assert value(GapWeighted(p=2, decay=decay, normalised=False), "cat", "cat") == pytest.approx(twice)
