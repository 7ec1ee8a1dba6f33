"""The logic of the accuracy benchmarks, and the counts of their corpora."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import svm
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks import essays, vectors
from benchmarks.__main__ import main
from benchmarks.corpora import R8, SCORE_RANGES, essay_prompts, parted_task
from textsvm.estimators.svm import SVC
from textsvm.runtime.device import select

pytestmark = pytest.mark.slow


def test_kappa_is_that_of_all_grades_that_can_be_given():
    truth, said = np.array([0, 1, 2, 2]), np.array([0, 2, 2, 1])
    cells = np.arange(4)
    weight = (cells[:, None] - cells) ** 2
    seen, chance = np.zeros((4, 4)), np.zeros((4, 4))
    np.add.at(seen, (truth, said), 1)
    chance = np.outer(np.bincount(truth, minlength=4), np.bincount(said, minlength=4)) / 4
    expected = 1 - (weight * seen).sum() / (weight * chance).sum()
    assert essays.kappa(truth, said, 0, 3) == pytest.approx(expected)


def test_the_essays_and_their_folds(data):
    prompts = essay_prompts(data)
    assert [len(one.texts) for one in prompts] == [1783, 1800, 1726, 1772, 1805, 1800, 1569, 723]
    for one, (low, high) in zip(prompts, SCORE_RANGES, strict=True):
        assert one.scores.min() >= low
        assert one.scores.max() <= high
        assert len(one.folds) == 5
        for fold in one.folds:
            np.testing.assert_array_equal(np.sort(np.concatenate(fold)), np.arange(len(one.texts)))
        tested = np.concatenate([test for _, _, test in one.folds])
        np.testing.assert_array_equal(np.sort(tested), np.arange(len(one.texts)))


def test_the_counts_of_r8(data):
    task = parted_task("R8", data / R8)
    assert (len(task.train), len(task.test)) == (5485, 2189)
    assert sorted(np.unique(task.y_train, return_counts=True)[1])[::-1] == [
        2840,
        1596,
        253,
        251,
        206,
        190,
        108,
        41,
    ]


def test_vectors_on_few_examples_agree_with_libsvm(data, tmp_path, monkeypatch):
    monkeypatch.setenv("TEXTSVM_DATA", str(data))
    few = ["--every", "40", "--repeats", "1", "--libsvm", "--device", "cpu"]
    main(["vectors", *few, "-o", str(tmp_path / "vectors")])
    rows = json.loads((tmp_path / "vectors.json").read_text())["rows"]
    assert [row["key"] for row in rows] == list(vectors.TASKS)
    judged = [row for row in rows if not row["key"].endswith("-cs")]
    assert [row["equal to LIBSVM's here"] for row in judged] == ["yes"] * 7
    assert all(float(row["best, s"]) > 0 for row in rows)
    text = (tmp_path / "vectors.md").read_text()
    assert "as measured for the issue" in text
    assert "| 0.245 |" not in text  # of the whole set, and this is a part


@pytest.mark.parametrize("classes", [2, 4])
def test_the_objective_from_coefficients_alone_is_that_of_the_machines(classes):
    x, y = np.random.default_rng(0).normal(size=(90, 3)), np.arange(90) % classes
    model = svm.SVC(gamma=0.4, C=2.0, tol=1e-8).fit(csr_array(x), y)
    coef = vectors.libsvm_coef(model)
    vectors.require_feasible(coef, 2.0)
    cpu = select("cpu")
    found = vectors.gaussian_objective(csr_array(x)[model.support_], coef, 0.4, None, cpu)
    pairs = [np.isin(y, pair) for pair in combinations(range(classes), 2)]
    kernel = rbf_kernel(x, gamma=0.4)
    machines = [SVC("precomputed", C=2.0, tol=1e-8).fit(kernel[np.ix_(one, one)], y[one]) for one in pairs]
    assert found == pytest.approx(-sum(machine.solutions_[0].objective for machine in machines), rel=1e-6)
    with pytest.raises(AssertionError):
        vectors.require_feasible(coef, 1.0)


def test_the_objective_of_crammer_and_singers_machine():
    x, y = np.random.default_rng(0).normal(size=(90, 3)), np.arange(90) % 3
    model = SVC("precomputed", C=2.0, multiclass="crammer-singer").fit(rbf_kernel(x, gamma=0.4), y)
    own = y[model.support_]
    vectors.require_feasible(model.dual_coef_, 2.0, own)
    given = (x[model.support_], model.dual_coef_, 0.4, own, select("cpu"))
    assert vectors.gaussian_objective(*given) == pytest.approx(-model.solutions_[0].objective, rel=1e-6)
    with pytest.raises(AssertionError):
        vectors.require_feasible(model.dual_coef_, 2.0, (own + 1) % 3)
