"""Thousands of classes of a few texts each: sparse coefficients and weights, and machines on some rows."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from refusals import refuses

import textsvm
from textsvm import SVC, BoundedGap, Spectrum, Sum, explain, load
from textsvm.apps.export.plain import plain_model
from textsvm.gram.plan import Case, FeatureCase, plan_features
from textsvm.linalg import factored
from textsvm.linalg.factored import FactoredWeights
from textsvm.model.rules import ClassRule
from textsvm.runtime import device as devices
from textsvm.runtime.simd import LANES
from textsvm.solvers import many_classes
from textsvm.solvers.dual import loss_diagonal
from textsvm.solvers.feature_machines import solve_by_descent
from textsvm.solvers.many_classes import has_many_classes, solve_many
from textsvm.solvers.problems import Classification
from textsvm.solvers.solution import Stopping
from textsvm.text.documents import encode

CPU = devices.select("cpu")
KERNEL = Spectrum((1, 4), "log", idf=True)


def corpus(n_classes, per_class=3, length=30, seed=0):
    """Texts of a few words; each class has words of its own among common words."""
    random = np.random.default_rng(seed)

    def words(n):
        return ["".join(random.choice(list("etaoinshrdlu"), random.integers(3, 8))) for _ in range(n)]

    common, texts = words(300), []
    for _ in range(n_classes):
        own = words(2)
        for _ in range(per_class):
            text = [*random.choice(common, 3), *own]
            random.shuffle(text)
            texts.append(" ".join(text)[:length])
    return texts, np.repeat(np.arange(n_classes), per_class)


KERNELS = [
    KERNEL,
    Spectrum((1, 3), "intersection"),
    Spectrum(3),
    0.5 * Spectrum((2, 4), "log", idf=True, odds=True) + 0.5 * Spectrum((1, 2), tokens="words"),
]


@pytest.mark.parametrize(
    ("kernel", "strategy"),
    [
        *((kernel, "ovr") for kernel in [*KERNELS, BoundedGap(2), BoundedGap(2, normalised=False)]),
        (KERNELS[0], "ovo"),
    ],
    ids=str,
)
def test_factored_weights_give_the_values_of_dense_weights(kernel, strategy, set_values, tmp_path):
    texts, y = corpus(12)
    texts, y = [*texts, "ab", "ab", ""], [*y, 0, 1, 2]  # too short for some of the kernels
    new = [*corpus(12, seed=1)[0], "ab", "", "never seen xyz"]
    dense = SVC(kernel, multiclass=strategy).fit(texts, y)
    expected, why = dense.decision_function(new), explain(dense, new[:2])
    set_values(factored, ROOM=0, MOST_TIMES=0)
    model = SVC(kernel, multiclass=strategy).fit(texts, y)
    predictor = model.model_.prepared()
    for part in getattr(predictor, "parts", [predictor]):
        assert isinstance(part.weights, FactoredWeights)
    assert scipy.sparse.issparse(model.dual_coef_)
    np.testing.assert_array_equal(model.dual_coef_.toarray(), dense.dual_coef_)
    found = model.decision_function(new)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.predict(new), dense.predict(new))
    one_by_one = np.concatenate([model.decision_function([text]) for text in new])
    np.testing.assert_array_equal(one_by_one, found)
    for own, other in zip(explain(model, new[:2]), why, strict=True):
        np.testing.assert_allclose(own.symbols, other.symbols, atol=1e-12)
    textsvm.save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    if strategy == "ovo":  # most coefficients are 0, so the file has them in sparse form
        assert scipy.sparse.issparse(again.predictor.dual_coef)
    np.testing.assert_array_equal(again.decision_function(new), found)


@pytest.mark.parametrize("weights", [(0.2, 0.7, 0.1), (0, 3, 1), (1, 0, 0)])
def test_the_terms_of_a_sum_are_multiplied_by_the_coefficients_once(weights, monkeypatch, set_values):
    kernel = Sum([KERNEL, Spectrum((1, 2), tokens="words"), Spectrum((1, 3), "intersection")], weights)
    texts, y = corpus(30, length=60)
    new = [*corpus(30, seed=1)[0], "ab", ""]
    expected = SVC(kernel).fit(texts, y).decision_function(new)
    set_values(factored, ROOM=0, MOST_TIMES=0)
    model, calls, function = SVC(kernel).fit(texts, y), [], factored._add_multiples
    model.predict(new[:1])
    monkeypatch.setattr(factored, "_add_multiples", lambda *a: calls.append(1) or function(*a))
    np.testing.assert_allclose(model.decision_function(new), expected, rtol=0, atol=1e-12)
    assert len(calls) == -(-len(new) // LANES)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.filterwarnings("ignore:.*no feature")
def test_a_model_without_texts_has_sparse_weights(kernel, monkeypatch, set_values, tmp_path):
    texts, y = corpus(12)
    new = corpus(12, seed=1)[0]
    dense = SVC(kernel).fit(texts, y)
    textsvm.save(dense, tmp_path / "dense", texts=False)
    set_values(factored, ROOM=0, MOST_TIMES=0)
    textsvm.save(SVC(kernel).fit(texts, y), tmp_path / "sparse", texts=False)
    bare = load(tmp_path / "sparse")
    parts = bare.support.weights
    for part in getattr(parts, "parts", [parts]):
        assert scipy.sparse.issparse(part.vectors.weights)
    np.testing.assert_allclose(bare.decision_function(new), dense.decision_function(new), rtol=0, atol=1e-6)
    # A reader with dense weights has the same values.
    monkeypatch.setattr(factored, "ROOM", 1 << 60)
    np.testing.assert_allclose(
        load(tmp_path / "sparse").decision_function(new), bare.decision_function(new), rtol=0, atol=1e-12
    )
    for own, other in zip(bare.top_features(5), load(tmp_path / "dense").top_features(5), strict=True):
        assert [feature.text for feature in own.features] == [feature.text for feature in other.features]


@pytest.mark.parametrize("texts_kept", [True, False])
def test_export_of_factored_weights(texts_kept, monkeypatch, set_values, tmp_path):
    texts, y = corpus(12)
    textsvm.save(SVC(KERNEL).fit(texts, y), tmp_path / "m", texts=texts_kept)
    expected = plain_model(load(tmp_path / "m")).terms[0].tables
    set_values(factored, ROOM=0, MOST_TIMES=0)
    textsvm.save(SVC(KERNEL).fit(texts, y), tmp_path / "m", texts=texts_kept)
    for own, other in zip(plain_model(load(tmp_path / "m")).terms[0].tables, expected, strict=True):
        np.testing.assert_array_equal(own.codes, other.codes)
        np.testing.assert_allclose(own.weights, other.weights, rtol=0, atol=1e-6)
    monkeypatch.setattr(devices, "free_memory", lambda device=None: 1000)
    refuses(r"12 machines .* fewer classes", plain_model, load(tmp_path / "m"))


def test_export_counts_the_weights_of_all_terms_before_it_makes_any_dense(monkeypatch, set_values, tmp_path):
    """Each term fits into memory, both together do not: refused before any weight is computed."""
    texts, y = corpus(12)
    set_values(factored, ROOM=0, MOST_TIMES=0)
    model = SVC(KERNELS[3]).fit(texts, y)
    sizes = [8 * part.weights.shape[0] * part.weights.shape[1] for part in model.model_.prepared().parts]
    monkeypatch.setattr(devices, "free_memory", lambda device=None: 4 * sum(sizes))
    plain = plain_model(model)
    assert sum(table.weights.nbytes for term in plain.terms for table in term.tables) <= sum(sizes)
    monkeypatch.setattr(devices, "free_memory", lambda device=None: 4 * sum(sizes) - 1)
    assert 4 * max(sizes) < 4 * sum(sizes) - 1
    monkeypatch.setattr(FactoredWeights, "to_sparse", lambda self: pytest.fail("weights were computed"))
    refuses(r"12 machines takes .* fewer classes", plain_model, model)


def test_weights_of_classes_keep_no_square_matrix_each():
    """The rows of 300 unit matrices would keep 300 x 300 x 300 x 8 bytes = 216 MB."""
    rule = ClassRule(np.arange(300))
    tracemalloc.start()
    mixes, _ = rule.machine_weights()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (mixes == np.eye(300)).all()
    assert peak < 10 << 20


def test_the_first_prediction_allocates_no_dense_weights():
    """Dense weights of 700 classes take 8 x 45,000 x 700 bytes = 250 MB for this kernel, twice."""
    texts, y = corpus(700, 2, length=60)
    model = SVC(Spectrum((3, 8))).fit(texts, y)
    tracemalloc.start()
    try:
        model.predict(texts[:1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    weights = model.model_.prepared().weights
    assert 8 * weights.shape[0] * weights.shape[1] > 1 << 28
    assert peak < 1 << 26


def test_predict_holds_the_values_of_some_texts(monkeypatch):
    texts, y = corpus(12)
    model = SVC(KERNEL).fit(texts, y)
    expected = model.predict(texts)
    monkeypatch.setattr("textsvm.model.trained.MOST_VALUES", 60)
    sizes, rule = [], type(model.model_.rule)
    predictions = rule.predictions
    monkeypatch.setattr(rule, "predictions", lambda *a: sizes.append(a[1].size) or predictions(*a))
    np.testing.assert_array_equal(model.predict(np.array(texts)), expected)
    assert max(sizes) == 60


def solved(function, loss, C, seed=0):
    texts, y = corpus(40, 4, seed=seed)
    rows = KERNEL.features.rows(encode(texts), CPU)
    n = len(texts)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, n)
    if loss == "squared_hinge":
        rows = replace(rows, ridge=rows.ridge + loss_diagonal(C * weight))
    machines = function(Classification(np.arange(n), y, 40, C, weight, "ovr", loss), rows, Stopping())
    x = scipy.sparse.csr_array((rows.x.values, rows.x.features, rows.x.indptr), (n, rows.x.n_features))
    gram = (x @ x.T).toarray().astype(float) + np.diag(rows.ridge)
    return machines, machines.coef @ gram + machines.bias[:, None]


@pytest.mark.parametrize(("loss", "C"), [("hinge", 1.0), ("squared_hinge", 0.1), ("squared_hinge", 10.0)])
def test_machines_on_some_rows_are_those_on_all_rows(loss, C, monkeypatch, set_values):
    set_values(many_classes, FIRST=5, MORE=8)
    sizes = []
    solve = many_classes.ClassMachine._solve
    monkeypatch.setattr(
        many_classes.ClassMachine,
        "_solve",
        lambda self, at, *rest: (sizes.append(len(at)), solve(self, at, *rest))[1],
    )
    machines, values = solved(solve_many, loss, C)
    _, expected = solved(solve_by_descent, loss, C)
    assert min(sizes) < 10  # of 160 rows
    assert len(sizes) > 40  # rows were added
    assert all(solution.converged for solution in machines.solutions)
    np.testing.assert_allclose(values, expected, atol=3e-3)  # the tolerance of the solver is 1e-3
    np.testing.assert_array_equal(values.argmax(axis=0), expected.argmax(axis=0))


def test_a_bound_is_never_below_the_value(monkeypatch):
    """With 50 common features and few of them bounds are not the values; those of the class itself are."""
    monkeypatch.setattr(many_classes, "FIRST", 12)
    texts, y = corpus(40, 4)
    rows = KERNEL.features.rows(encode(texts), CPU)
    problem = Classification(np.arange(160), y, 40, 1.0, np.ones(160), "ovr")
    room = np.zeros(rows.x.n_features, np.int32), np.zeros(rows.x.n_features)
    slack = []
    for n_common in (50, 1000, 1 << 14):
        monkeypatch.setattr(many_classes, "COMMON", n_common)
        bounds = many_classes.Bounds.of(rows.x)
        machines = [
            many_classes.ClassMachine(problem, rows, Stopping(), np.flatnonzero(y == c)) for c in y[::4]
        ]
        for machine in machines:
            machine.begin(bounds, room)
        machines = machines[: bounds.width]
        slack.append(0.0)
        for machine, own in zip(machines, bounds.values(machines), strict=True):
            index, coef, bias = machine.expansion
            exact = rows.x.dot(rows.x.take(index).transposed_dot(coef[:, None]))[:, 0] + bias
            np.testing.assert_allclose(machine._values(np.arange(160), room), exact, rtol=0, atol=1e-12)
            assert (own >= exact - many_classes.ROUNDING).all()
            slack[-1] += float((own - exact).mean())
        assert not room[0].any()
        assert not room[1].any()
    assert slack[0] > slack[1] > 0.1  # bounds, not values
    assert abs(slack[2]) < many_classes.ROUNDING  # every feature is common


def test_the_rule_for_many_classes():
    def problem(n, k, strategy="ovr"):
        return Classification(np.arange(n), np.arange(n) % k, k, 1.0, np.ones(n), strategy)

    assert has_many_classes(problem(50_000, 10_000))
    assert not has_many_classes(problem(50_000, 10_000, "ovo"))
    assert not has_many_classes(problem(4482, 2241))
    assert not has_many_classes(problem(1_000_000, 100))


def test_the_planner_trains_many_classes_from_features_without_a_matrix():
    case = Case(50_000, 16 << 30)
    features = FeatureCase(44_000_000, machines=10_000, many_classes=True)
    assert plan_features(case, features, False).way == "features"
    assert plan_features(case, replace(features, many_classes=False), False).way == "gram"
    assert plan_features(Case(4000, 8 << 30), replace(features, machines=1000), False).way == "gram"


def test_solver_features_trains_many_classes_on_some_rows(monkeypatch):
    called = []
    monkeypatch.setattr(many_classes, "MIN_VALUES", 1)
    monkeypatch.setattr("textsvm.solvers.solve.solve_many", lambda *a: called.append(1) or solve_many(*a))
    texts, y = corpus(30, 3)
    settings = {"kernel": KERNEL, "multiclass": "ovr"}
    model = SVC(**settings, compute=textsvm.Compute(solver="features")).fit(texts, y)
    assert called
    plain = SVC(**settings, compute=textsvm.Compute(solver="gram")).fit(texts, y)
    new = corpus(30, 3, seed=2)[0]
    np.testing.assert_allclose(model.decision_function(new), plain.decision_function(new), atol=3e-3)


CHILD = """
import json, re, sys, time
import numpy as np
from textsvm import load
texts = json.load(open(sys.argv[2]))
model = load(sys.argv[1])
clock = time.process_time()
labels = [str(label) for k in range(0, len(texts), 500) for label in model.predict(texts[k : k + 500])]
seconds = time.process_time() - clock
# Of this process alone: resource.getrusage also counts the process that started it.
used = int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
json.dump([labels, seconds, used], sys.stdout)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_three_thousand_classes_in_a_gigabyte(tmp_path):
    texts, y = corpus(3000, 6, length=40)
    held_out = np.arange(len(texts)) % 6 == 0
    train = np.flatnonzero(~held_out)
    model = SVC().fit([texts[i] for i in train], [f"c{y[i]}" for i in train])
    assert all(solution.converged for solution in model.solutions_)
    textsvm.save(model, tmp_path / "m.textsvm")
    test = np.flatnonzero(held_out)[:2000]
    (tmp_path / "texts.json").write_text(json.dumps([texts[i] for i in test]))
    arguments = [sys.executable, "-c", CHILD, tmp_path / "m.textsvm", tmp_path / "texts.json"]
    done = subprocess.run(arguments, capture_output=True, check=True)
    labels, seconds, kilobytes = json.loads(done.stdout)
    assert np.mean([label == f"c{y[i]}" for label, i in zip(labels, test, strict=True)]) > 0.9
    assert kilobytes < 1 << 20
    assert seconds < 8  # of all cores, for 2,000 texts
