"""Work on several machines: two worker processes give, bit for bit, what one machine gives."""

import os
import signal
import socket
import threading
import time

import numpy as np
import pytest

from textsvm import SVC, SVR, EditDistance, GapWeighted, Product, Spectrum, Sum, cross_validate, tune
from textsvm import workers as module
from textsvm.errors import InputError
from textsvm.gram import tiles
from textsvm.workers import current, on_workers

distributed = pytest.importorskip("distributed")

RANDOM = np.random.default_rng(0)
WORDS = ["kernel", "string", "spam", "money", "offer", "meeting", "tomorrow", "agenda", "xx", "lorem", "ipsum"]
N = 240
TEXTS = [" ".join(RANDOM.choice(WORDS, size=int(RANDOM.integers(0, 30)))) for _ in range(N)]
LABELS = [("a", "b", "c")[len(text) % 3] for text in TEXTS]
NUMBERS = np.array([text.count("m") - text.count("x") for text in TEXTS], float)
pytestmark = pytest.mark.filterwarnings("ignore:.*near-duplicate")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None
    ) as made:
        yield made


@pytest.fixture
def connected(cluster, monkeypatch):
    """Two workers that are sent whatever can be."""
    monkeypatch.setattr(tiles, "LEAST_SECONDS", 0)
    with on_workers(cluster.scheduler_address) as workers:
        yield workers


def gram_of(kernel, texts=TEXTS):
    return SVC(kernel, device="cpu").prepare(texts).gram


def alone(function, *arguments, **options):
    """What one machine gives."""
    with module.here():
        return function(*arguments, **options)


@pytest.mark.parametrize(
    "kernel",
    [
        EditDistance(0.05),
        EditDistance(1.0, relative=True),
        GapWeighted(3),
        GapWeighted(2, 0.9, normalised=False),
        GapWeighted(2, tokens="words"),
        Sum([GapWeighted(3), EditDistance()], [2, 1]),
        Product([GapWeighted(3), EditDistance(), GapWeighted(2)]),
    ],
    ids=str,
)
def test_a_gram_made_in_tiles_has_the_bits_of_one_made_whole(connected, kernel):
    whole, tiled = alone(gram_of, kernel), gram_of(kernel)
    assert "tiles by 2 workers" in tiled.description
    np.testing.assert_array_equal(tiled.matrix, whole.matrix)


def test_what_would_not_have_the_same_bits_is_made_here(connected):
    lengths = np.array([2, 300])
    assert GapWeighted(5, 0.99).recurrence.divides(np.array([2, 3]))
    assert not GapWeighted(5, 0.99).recurrence.divides(lengths)
    for kernel in (GapWeighted(5, 0.99), Spectrum(3), Sum([GapWeighted(2, tokens="words"), GapWeighted(2)])):
        assert "tiles" not in gram_of(kernel).description


@pytest.mark.parametrize(
    "model",
    [
        SVC(GapWeighted(3), C=10),
        SVC(GapWeighted(3), C=10, multiclass="ovo"),
        SVC(EditDistance(), multiclass="crammer-singer"),
        SVC(Spectrum((1, 3), "log", idf=True)),
        SVC(Sum([Spectrum(2, idf=True), GapWeighted(2)])),
        SVC(GapWeighted(2), approximate="nystrom:50"),
        SVR(Spectrum(3), C=10),
    ],
    ids=str,
)
def test_cross_validation_is_that_of_one_machine(connected, model):
    model.set_params(device="cpu")
    y = NUMBERS if isinstance(model, SVR) else LABELS
    here, there = alone(cross_validate, model, TEXTS, y), cross_validate(model, TEXTS, y)
    np.testing.assert_array_equal(there.decision, here.decision)
    assert there.table == here.table
