"""What holds for the estimates of `textsvm label`: near-copies, texts outside the pool, costs of labels."""

import os
import stat

import numpy as np
import pytest
from scipy.optimize import curve_fit

from textsvm.apps.label.files import Journal
from textsvm.apps.label.learner import _left_out
from textsvm.apps.label.machine import Machine
from textsvm.apps.label.strategies import labels_per_point, retrieval


def test_values_of_near_copies_are_those_of_a_machine_without_all_of_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 5)) + 1
    target = np.where(rng.random((24, 2)) < 0.35, 1.0, -1.0)
    rows, gram = np.arange(3, 24), x @ x.T
    machine = Machine.train(gram[np.ix_(rows, rows)], target[rows], True)
    copies = [np.array([0, 4, 9]), np.array([5, 6])]
    values = _left_out(gram[:, rows].astype(np.float32), machine, rows, copies)
    for group in copies:
        rest = np.setdiff1d(rows, group)
        other = Machine.train(gram[np.ix_(rest, rest)], target[rest], True)
        assert np.abs(other.bias).max() > 0.01
        expected = gram[np.ix_(group, rest)] @ other.coef + other.bias
        assert values[group] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_texts_outside_the_pool_are_like_those_of_the_pool(share):
    """The pool is a random sample: k times as many texts outside have k times as many relevant texts."""
    rng = np.random.default_rng(1)
    relevant = rng.random(50) < share
    values, unlabelled = rng.normal(size=50) + 2 * relevant, rng.normal(size=150) + 1
    inside = retrieval(relevant, values, unlabelled, 0).total
    for k in (1, 2, 7):
        total = retrieval(relevant, values, unlabelled, 200 * k).total
        assert total == pytest.approx((k + 1) * inside)


def test_the_cost_of_a_point_is_that_of_scipys_power_law():
    sizes = np.array([10.0, 20, 40, 80, 160])
    accuracy = 1 - np.array([0.52, 0.31, 0.25, 0.16, 0.13])
    (b, c), _ = curve_fit(
        lambda x, b, c: b - c * x, np.log(sizes), np.log(1 - accuracy), sigma=1 / np.sqrt(sizes)
    )
    needed = np.exp((b - np.log(np.exp(b - c * np.log(160)) - 0.01)) / c) - 160
    curve = list(zip(sizes.astype(int).tolist(), accuracy.tolist(), strict=True))
    assert labels_per_point(curve) == pytest.approx(needed, rel=1e-6)
    assert labels_per_point(curve[:2]) is None
    assert labels_per_point([(n, 0.5) for n in (10, 20, 40)]) is None


def test_the_name_of_a_new_journal_survives_a_power_loss(tmp_path, monkeypatch):
    folders, fsync = [], os.fsync

    def synced(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            folders.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    Journal(tmp_path / "labels.jsonl", False).close()
    assert tmp_path.stat().st_ino in folders
