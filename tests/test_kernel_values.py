"""The worked values of the definitions, by hand."""

from math import exp

import numpy as np
import pytest

from textsvm import EditDistance, GapWeighted, Spectrum
from textsvm.runtime.device import select
from textsvm.text.documents import encode


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
