"""The Nystroem approximation: exact with all documents as landmarks, and kept as a machine of landmarks."""

import warnings

import numpy as np
import pytest
from command import fails, report, run
from loading import load
from scipy.sparse import csr_matrix

import textsvm
from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    Compute,
    EditDistance,
    GapWeighted,
    InputError,
    MultilabelSVC,
    OneClassSVM,
    Spectrum,
)
from textsvm.evaluation.explanation import explain
from textsvm.gram import plan
from textsvm.kernels import Product, Sum, nystroem
from textsvm.kernels.nystroem import Nystroem
from textsvm.linalg import dense
from textsvm.linalg.dense import DenseRows
from textsvm.linalg.sparse import Sparse
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.runtime.device import select
from textsvm.selection.cross_validation import cross_validate
from textsvm.selection.tuning import tune
from textsvm.text.documents import encode
from textsvm.training.leakage import LeakageWarning

GAP = GapWeighted(p=3, decay=0.5)
EXACT = [
    GAP,
    EditDistance(gamma=0.05),
    Spectrum(3, idf=True),
    Sum([Spectrum(2), GAP]),
    Product([Spectrum(2), GAP]),
]


@pytest.fixture(scope="module")
def mails():
    corpus = read_corpus(sample("mail"))
    return [text[:100] for text in corpus.texts[:120]], np.array(corpus.labels[:120])


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakageWarning)
        yield


def machine(kernel=GAP, landmarks=None, memory=None, **options):
    approximate = None if landmarks is None else f"nystrom:{landmarks}"
    return SVC(
        kernel,
        tol=1e-5,
        normalise="none",
        device="cpu",
        compute=Compute(memory, approximate=approximate),
        **options,
    )


def test_dense_rows_have_the_verbs_of_sparse_ones(monkeypatch):
    monkeypatch.setattr(dense, "HOST_BLOCK", 8 * 7 * 3)  # blocks of three rows
    random = np.random.default_rng(0)
    values = random.random((10, 7)).astype(np.float32)
    csr = csr_matrix(values)
    rows = DenseRows(values)
    other = Sparse(csr.indptr.astype(np.int64), csr.indices, csr.data, 7)
    assert (len(rows), rows.n_features) == (len(other), other.n_features)
    for k in (1, 3):
        by, across = random.standard_normal((7, k)), random.standard_normal((10, k))
        np.testing.assert_allclose(rows.dot(by), other.dot(by), rtol=1e-13)
        np.testing.assert_allclose(rows.transposed_dot(across), other.transposed_dot(across), rtol=1e-13)
    np.testing.assert_allclose(rows.squares(), other.squares(), rtol=1e-13)
    some = np.array([4, 4, 0])
    assert rows.take_for_products(some).values.dtype == np.float64
    np.testing.assert_array_equal(rows.take_for_products(some).dot(by), rows.take(some).dot(by))
    monkeypatch.setattr(dense, "HOST_DOUBLE", 8 * 7 * 3 - 1)
    assert rows.take_for_products(some).values.dtype == np.float32
    np.testing.assert_array_equal(rows.take(some).values, values[some])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", EXACT, ids=str)
def test_with_all_documents_as_landmarks_it_is_the_kernel(mails, kernel):
    texts, labels = mails
    exact, ours = (machine(kernel, m).fit(texts[:80], labels[:80]) for m in (None, 80))
    assert ours.approximation_.captured == pytest.approx(1, abs=1e-5)
    new = [*texts, "", "日本 banana"]
    np.testing.assert_allclose(ours.decision_function(new), exact.decision_function(new), atol=1e-3)


def test_the_captured_trace_grows_with_the_landmarks(mails):
    found = [machine(GAP, m).fit(*mails).approximation_ for m in (1, 5, 20, 60, 120)]
    captured = [one.captured for one in found]
    assert np.all(np.diff(captured) > 0)
    assert captured[0] < 0.5
    assert [one.landmarks for one in found] == [1, 5, 20, 60, 120]


def test_values_with_landmarks_are_those_of_the_kernel(mails):
    documents, device = encode(mails[0]), select("cpu")
    kernel = Nystroem(GAP, 30).fit(documents)
    ours, exact = kernel.rows(documents, device), GAP.rows(documents, device)
    ours.make_features()
    index, _ = kernel.structure.condense(np.arange(120), np.ones((1, 120)))[1:]
    assert len(index) == 30
    np.testing.assert_allclose(ours.rows(index), exact.rows(index), atol=2e-5)
    gram = ours.gram()
    np.testing.assert_allclose(ours.rows(np.arange(120)), gram, atol=1e-6)
    np.testing.assert_allclose(ours.diag(), gram.diagonal(), atol=1e-6)
    rest = exact.gram().astype(float) - gram
    assert np.linalg.eigvalsh(rest).min() > -1e-4  # k - k~ is a kernel


def test_blocks_change_nothing(mails, monkeypatch):
    documents, device = encode(mails[0]), select("cpu")
    kernel = Nystroem(GAP, 20).fit(documents)
    whole = kernel.rows(documents, device).make_features().x.values
    monkeypatch.setattr(nystroem, "HOST_BLOCK", 8 * 20 * 7)
    seen = []
    rows = kernel.rows(documents, device)
    again = rows.make_features(lambda done, total: seen.append(done / total))
    np.testing.assert_allclose(again.x.values, whole, atol=1e-6)
    assert np.all(np.diff(seen) >= 0)
    assert seen[-1] == 1
    assert not again.ridge.any()


def test_progress_is_told_while_features_are_made(mails):
    seen = []
    machine(GAP, 20).fit(*mails, progress=lambda stage, done, total: seen.append((stage, done / total)))
    assert ("gram", 1.0) in seen


def test_two_fits_are_the_same(mails):
    one, two = (machine(GAP, 25).fit(*mails) for _ in range(2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.support_, two.support_)


def test_the_model_is_a_machine_of_its_landmarks(mails):
    texts, labels = mails
    model = machine(GAP, 25).fit(texts, labels)
    assert len(model.support_) == len(model.support_documents_) == model.dual_coef_.shape[1] == 25
    assert np.all(np.diff(model.support_) > 0)
    counts = [int((labels[model.support_] == label).sum()) for label in model.classes_]
    assert model.n_support_.tolist() == counts
    assert model.kernel_.get_params() == GAP.get_params()
    assert len(model.solutions_[0].alpha) == len(texts)
    plain = GAP.rows(model.support_documents_, select("cpu"))
    values = plain.cross(encode(texts, model.support_documents_.alphabet)) @ model.dual_coef_[0]
    np.testing.assert_allclose(model.decision_function(texts), values + model.intercept_, atol=1e-6)
    assert "25 landmarks (rank 25) capture" in model.gram_description_


def test_documents_alike_give_fewer_features(mails):
    texts, labels = mails
    copies, twice = texts[:20] * 3, np.tile(labels[:20], 3)
    exact, ours = (machine(GAP, m).fit(copies, twice) for m in (None, 60))
    assert ours.approximation_.rank <= 20
    np.testing.assert_allclose(ours.decision_function(texts), exact.decision_function(texts), atol=2e-3)


def test_a_kernel_that_is_nearly_flat(mails):
    texts, labels = mails
    model = machine(EditDistance(gamma=1e-7), 60).fit(texts, labels)
    assert model.approximation_.rank < 60
    assert model.approximation_.captured == pytest.approx(1, abs=1e-4)
    assert np.isfinite(model.decision_function(texts)).all()


def test_negative_eigenvalues_are_left_out_and_told(mails):
    texts, labels = mails
    matrix = np.array([[1, 0.9, 0.1], [0.9, 1, 0.9], [0.1, 0.9, 1]], np.float32)  # not positive semi-definite
    assert np.linalg.eigvalsh(matrix)[0] < 0
    number = {text: i for i, text in enumerate(["a", "b", "c"])}

    def values(some, others):
        return np.array([[matrix[number[s], number[t]] for t in others] for s in some])

    model = machine(values, 3).fit(["a", "b", "c"], [0, 1, 1])
    share = -np.linalg.eigvalsh(matrix)[0] / np.abs(np.linalg.eigvalsh(matrix)).sum()
    assert model.approximation_.negative == pytest.approx(share, rel=1e-4)
    assert "negative eigenvalues" in model.gram_description_
    assert machine(GAP, 60).fit(texts, labels).approximation_.negative == 0


def test_positive_eigenvalues_up_to_the_largest_negative_are_left_out():
    basis, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    texts, eigenvalues = ["a", "b", "c", "d"], [2.0, 0.6, 0.4, -0.5]
    matrix = basis @ np.diag(eigenvalues) @ basis.T

    def values(some, others):
        return matrix[np.ix_([texts.index(s) for s in some], [texts.index(t) for t in others])]

    approximation = machine(values, 4).fit(texts, [0, 1, 0, 1]).approximation_
    assert approximation.rank == 2
    assert approximation.negative == pytest.approx(0.5 / 3.5, rel=1e-4)


@pytest.mark.parametrize("kernel", [GAP, Spectrum(3, idf=True)], ids=str)
def test_folds_draw_landmarks_from_their_training_parts(mails, kernel):
    texts, labels = mails
    model = machine(kernel, 30)
    found = cross_validate(model, texts, labels, cv=3)
    for train, test in found.folds:
        ours = machine(kernel, 30).fit([texts[i] for i in train], labels[train])
        expected = ours.decision_function([texts[i] for i in test])
        np.testing.assert_allclose(found.decision[test], expected, atol=1e-3)
    assert not hasattr(model, "support_")


def test_tuning_chooses_on_the_approximation(mails):
    texts, labels = mails
    found = tune(machine(landmarks=20), texts, labels, {"kernel": [GAP, Spectrum(3)], "C": [0.1, 10]}, cv=3)
    best = found.best_estimator
    assert best.approximation_.landmarks == 20
    assert len(best.support_) == 20
    for row in found.table:
        alone = cross_validate(
            machine(row["params"]["kernel"], 20, C=row["params"]["C"]), texts, labels, cv=3
        )
        assert row["mean"] == pytest.approx(alone.mean["accuracy"], abs=0.02)
    again = machine(best.kernel, 20, C=best.C).fit(texts, labels)
    np.testing.assert_allclose(best.decision_function(texts), again.decision_function(texts), atol=1e-3)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo", "crammer-singer"])
def test_several_classes(multiclass):
    corpus = read_corpus(sample("questions"))
    texts, labels = [text[:60] for text in corpus.texts[:60]], corpus.labels[:60]
    exact, ours = (machine(GAP, m, multiclass=multiclass).fit(texts, labels) for m in (None, 60))
    np.testing.assert_allclose(ours.decision_function(texts), exact.decision_function(texts), atol=5e-3)
    assert machine(GAP, 40, multiclass=multiclass).fit(texts, labels).score(texts, labels) > 0.8


@pytest.mark.slow
def test_numbers_outliers_and_several_labels(mails, tmp_path):
    texts, labels = mails
    numbers = np.array([len(text.split()) for text in texts], float)
    tags = [("spam", "long") if len(text) > 90 else ("ham",) for text in texts]
    pairs = [
        (SVR, numbers, {"tol": 1e-5}),
        (OneClassSVM, None, {"nu": 0.3, "tol": 1e-5}),
        (MultilabelSVC, tags, {"thresholds": "zero", "tol": 1e-5}),
    ]
    for estimator, y, options in pairs:
        exact = estimator(GAP, device="cpu", **options).fit(texts, y)
        ours = estimator(GAP, device="cpu", compute=Compute(approximate="nystrom:120"), **options).fit(
            texts, y
        )
        np.testing.assert_allclose(
            ours.model_.decision_function(texts), exact.model_.decision_function(texts), atol=5e-3
        )
        few = estimator(GAP, device="cpu", compute=Compute(approximate="nystrom:15"), **options).fit(texts, y)
        assert len(few.support_) == 15
        textsvm.save(few, tmp_path / "m")
        again = load(tmp_path / "m")
        np.testing.assert_array_equal(
            again.model_.decision_function(texts), few.model_.decision_function(texts)
        )
    calibrated = CalibratedSVC(machine(GAP, 30), cv=3).fit(texts, labels)
    assert len(calibrated.estimator_.support_) == 30
    assert calibrated.predict_proba(texts).sum(axis=1) == pytest.approx(1)


def test_saved_loaded_and_explained(mails, tmp_path):
    texts, labels = mails
    model = machine(GAP, 25).fit(texts, labels)
    textsvm.save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.decision_function(texts), model.decision_function(texts))
    assert again.compute.approximate == "nystrom:25"
    [told] = explain(again, texts[:1])
    assert {one.index for one in told.similar} <= set(model.support_.tolist())


@pytest.mark.parametrize(
    ("approximate", "said"),
    [
        ("nystrom", "must be .nystrom:. and the number of landmarks, above 0"),
        ("nystrom:0", "must be .nystrom:. and the number of landmarks, above 0"),
        ("nystrom:-5", "must be .nystrom:. and the number of landmarks, above 0"),
        ("nystrom:1.5", "must be .nystrom:. and the number of landmarks, above 0"),
        ("nystrom:many", "must be .nystrom:. and the number of landmarks, above 0"),
        ("fourier:100", "must be .nystrom:. and the number of landmarks, above 0"),
        (100, "must be .nystrom:. and the number of landmarks, above 0"),
        (f"nystrom:{10**30}", "must be .nystrom:. and the number of landmarks, above 0"),
        ("nystrom:121", "121 landmarks and there are 120 documents"),
    ],
)
def test_what_cannot_be_meant_is_refused(mails, approximate, said):
    for learn in (
        SVC(GAP, compute=Compute(approximate=approximate)).fit,
        lambda *xy: cross_validate(SVC(GAP, compute=Compute(approximate=approximate)), *xy),
    ):
        with pytest.raises(InputError, match=said):
            learn(*mails)


@pytest.mark.parametrize("kernel", ["auto", "fast", "precomputed"])
def test_kernels_that_are_not_approximated(mails, kernel):
    with pytest.raises(InputError, match="leave approximate out"):
        SVC(kernel, compute=Compute(approximate="nystrom:10")).fit(*mails)


def test_features_that_do_not_fit_are_refused(mails):
    with pytest.raises(
        InputError, match=r"120 documents by 60 landmarks take .* fewer landmarks or raise memory"
    ):
        machine(GAP, 60, 4 * 120 * 60 - 1).fit(*mails)
    assert machine(GAP, 60, 4 * 120 * 60).fit(*mails).approximation_.landmarks == 60


def test_the_command_line(tmp_path):
    options = [sample("mail"), "--max-length", "60", "--kernel", "gap:3"]
    trained = report("train", *options, "--approximate", "nystrom:40", "-o", tmp_path / "m")
    assert trained["n_support"] == 40
    assert trained["approximation"]["landmarks"] == 40
    assert 0 < trained["approximation"]["captured"] < 1
    shown = run("train", *options, "--approximate", "nystrom:40", "--verbose", "-o", tmp_path / "m")
    assert "40 landmarks" in " ".join(shown.stdout.decode().split())
    judged = report("cv", *options, "--approximate", "nystrom:40", "--folds", "3")
    assert judged["mean"]["accuracy"] > 0.7
    tuned = report("tune", *options, "--approximate", "nystrom:40", "--folds", "3", "-C", "1,10")
    assert len(tuned["table"]) == 2
    assert 'must be "nystrom:" and the number of landmarks, above 0' in fails(
        "train", *options, "--approximate", "nystrom", "-o", tmp_path / "x", code=2
    )
    assert not (tmp_path / "x").exists()


@pytest.mark.gpu
def test_a_card_makes_the_same_machine(mails):
    texts, labels = mails
    for kernel in (GAP, EditDistance(gamma=0.05)):
        cpu = SVC(kernel, tol=1e-5, device="cpu", compute=Compute(approximate="nystrom:40")).fit(
            texts, labels
        )
        gpu = SVC(kernel, tol=1e-5, device="cuda", compute=Compute(approximate="nystrom:40")).fit(
            texts, labels
        )
        assert gpu.device_.kind == "cuda"
        assert gpu.approximation_.captured == pytest.approx(cpu.approximation_.captured, rel=1e-4)
        np.testing.assert_allclose(gpu.decision_function(texts), cpu.decision_function(texts), atol=2e-3)


@pytest.mark.gpu
def test_dense_rows_on_a_card():
    import cupy

    random = np.random.default_rng(0)
    values, by = random.random((50, 7)).astype(np.float32), random.standard_normal((7, 2))
    host, card = DenseRows(values), DenseRows(cupy.asarray(values))
    np.testing.assert_allclose(card.dot(by).get(), host.dot(by), rtol=1e-12)
    np.testing.assert_allclose(
        card.transposed_dot(card.dot(by)).get(), host.transposed_dot(host.dot(by)), rtol=1e-12
    )
    np.testing.assert_allclose(card.squares().get(), host.squares(), rtol=1e-12)
    np.testing.assert_array_equal(card.take(np.array([3, 1])).values.get(), values[[3, 1]])


@pytest.mark.slow
@pytest.mark.parametrize("multiclass", ["ovr", "ovo", "crammer-singer"])
def test_many_documents_are_solved_on_their_features(monkeypatch, multiclass):
    corpus = read_corpus(sample("questions"))
    texts, labels = [text[:60] for text in corpus.texts[:60]], corpus.labels[:60]
    by_rows = machine(GAP, 30, multiclass=multiclass).fit(texts, labels)
    monkeypatch.setattr(plan, "MAX_ROWS", 10)
    ours = machine(GAP, 30, multiclass=multiclass).fit(texts, labels)
    assert ("none, trained from 25 features of 60 texts" in ours.gram_description_) == (
        multiclass != "crammer-singer"
    )
    assert "whole kernel matrix" in by_rows.gram_description_
    for one, other in zip(ours.solutions_, by_rows.solutions_, strict=True):
        assert one.converged
        assert one.objective == pytest.approx(other.objective, rel=1e-6)
    np.testing.assert_allclose(
        ours.model_.machine_values(texts), by_rows.model_.machine_values(texts), atol=1e-3
    )
    found = [cross_validate(machine(GAP, 30, multiclass=multiclass), texts, labels, cv=3).decision]
    monkeypatch.undo()
    found.append(cross_validate(machine(GAP, 30, multiclass=multiclass), texts, labels, cv=3).decision)
    np.testing.assert_allclose(*found, atol=1e-3)


@pytest.mark.slow
def test_numbers_outliers_and_several_labels_on_features(mails, monkeypatch):
    monkeypatch.setattr(plan, "MAX_ROWS", 10)
    texts, _ = mails
    numbers = np.array([len(text.split()) for text in texts], float)
    tags = [("spam", "long") if len(text) > 90 else ("ham",) for text in texts]
    for estimator, y, options in [
        (SVR, numbers, {}),
        (OneClassSVM, None, {"nu": 0.3}),
        (MultilabelSVC, tags, {"thresholds": "zero"}),
    ]:
        exact = estimator(GAP, device="cpu", tol=1e-5, **options).fit(texts, y)
        ours = estimator(
            GAP, device="cpu", tol=1e-5, compute=Compute(approximate="nystrom:120"), **options
        ).fit(texts, y)
        assert "none, trained from 120 features" in ours.gram_description_
        assert all(one.converged for one in ours.solutions_)
        np.testing.assert_allclose(
            ours.model_.decision_function(texts), exact.model_.decision_function(texts), atol=5e-3
        )
