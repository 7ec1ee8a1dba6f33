"""Trained models: immutable, shared by threads, loaded without scikit-learn, equal as estimators."""

import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from threading import Event, Thread

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_predict

import textsvm
from textsvm import SVC, CalibratedSVC, EditDistance, MultilabelSVC, Spectrum
from textsvm.sources.texts import TextSource

TEXTS = ["win cash now", "cash prize won", "lunch at noon", "noon then lunch", "claim cash", "late lunch"]
LABELS = ["spam", "spam", "ham", "ham", "spam", "ham"]
NEW = ["cash at noon", "lunch", "", "prize"]
LABEL_SETS = [("cash",), ("cash", "won"), ("food",), ("food", "won"), ("cash",), ("food",)]


@pytest.fixture
def path(tmp_path):
    """A model file."""
    textsvm.save(SVC(Spectrum(3), device="cpu").fit(TEXTS, LABELS), tmp_path / "m.textsvm")
    return tmp_path / "m.textsvm"


def test_a_model_is_immutable(path):
    model = textsvm.load(path)
    for owner, name in ((model, "rule"), (model, "device"), (model.record, "C"), (model.support, "kernel")):
        with pytest.raises(FrozenInstanceError):
            setattr(owner, name, None)
    before = model.predict(NEW).tolist()
    other = model.on("cpu", n_jobs=1)
    assert (model.device, other.device, other.n_jobs) == ("auto", "cpu", 1)
    assert model.n_jobs is None
    assert other.predict(NEW).tolist() == before
    textsvm.as_estimator(model).fit(NEW, ["ham", "spam", "spam", "ham"])  # holds a new model
    assert model.predict(NEW).tolist() == before


def test_a_model_is_pickled_before_and_after_predictions(path):
    model = textsvm.load(path).on("cpu")
    unused = pickle.dumps(model)
    expected = model.decision_function(NEW)
    used = pickle.dumps(model)
    assert model._prepared
    for content in (unused, used):
        again = pickle.loads(content)
        assert not again._prepared
        np.testing.assert_array_equal(again.decision_function(NEW), expected)
        assert again.record.digest == model.record.digest


def test_a_large_model_being_prepared_does_not_hold_up_another(path, monkeypatch):
    """The lock was one for all models: a prediction of a single text waited for the larger model."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefgh"), 12)) for _ in range(3000)]
    large = SVC(EditDistance(), max_iter=1, device="cpu")
    with pytest.warns(UserWarning, match="before it converged"):
        model = large.fit(texts, np.arange(3000) % 2).model_
    small, predictor = textsvm.load(path).on("cpu"), TextSource.predictor
    preparing, end = Event(), Event()

    def waiting(source, support, *arguments):
        if support is model.support:
            preparing.set()
            assert end.wait(60)
        return predictor(source, support, *arguments)

    monkeypatch.setattr(TextSource, "predictor", waiting)
    found = []
    thread = Thread(target=lambda: found.append(model.predict(texts[:1])), daemon=True)
    thread.start()
    try:
        assert preparing.wait(60)
        other = Thread(target=lambda: found.append(small.predict(["cash"])), daemon=True)
        other.start()
        other.join(60)
        assert [predictions.tolist() for predictions in found] == [["spam"]]
    finally:
        end.set()
        thread.join(60)
    assert len(found) == 2


def test_load_and_predict_import_neither_scikit_learn_nor_numba(path):
    code = (
        "import sys, textsvm\n"
        "model = textsvm.load(sys.argv[1])\n"
        "assert type(model).__name__ == 'TrainedModel'\n"
        "print(*model.on('cpu').predict(['cash']))\n"
        "print(*sorted({'sklearn', 'numba', 'scipy'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "spam\n\n"


def test_a_loaded_model_is_a_frozen_estimator_of_scikit_learn(path):
    estimator = textsvm.as_estimator(textsvm.load(path).on("cpu"))
    expected = estimator.predict(TEXTS)
    found = cross_val_predict(FrozenEstimator(estimator), TEXTS, LABELS, cv=2)
    assert found.tolist() == expected.tolist()


FORMS = {
    "tuples": list,
    "indicator": lambda y: np.array([["cash" in labels, "food" in labels] for labels in y], int),
    "sparse": lambda y: csr_matrix([["cash" in labels, "food" in labels] for labels in y], dtype=int),
}


@pytest.mark.parametrize("form", FORMS)
def test_documents_without_a_label(form, tmp_path):
    texts = [f"{text} {word}" for text in TEXTS for word in ("today", "soon", "again")]
    sets = [tuple(a for a in labels if a != "won") for labels in LABEL_SETS for _ in range(3)]
    none = ["zzz qqq xxx", "xxx qqq zzz", "qqq xxx qqq"] * 3
    y = FORMS[form]([*sets, *[()] * len(none)])
    estimator = MultilabelSVC(Spectrum(3), C=10, cv=3, device="cpu").fit([*texts, *none], y)
    assert estimator.score([*texts, *none], y) > 0.9
    textsvm.save(estimator, tmp_path / "m")
    for model in (estimator, textsvm.load(tmp_path / "m").on("cpu")):
        found = model.predict(["qqq zzz xxx", "claim cash today"])
        if form == "tuples":
            assert found == [(), ("cash",)]
        else:
            assert (found.toarray() if form == "sparse" else found).tolist() == [[0, 0], [1, 0]]


def test_the_classifier_of_a_calibrated_model_has_no_calibration(tmp_path):
    model = CalibratedSVC(SVC(Spectrum(3), device="cpu"), cv=2).fit(TEXTS, LABELS)
    textsvm.save(model, tmp_path / "m")
    for calibrated in (model, textsvm.as_estimator(textsvm.load(tmp_path / "m"))):
        classifier = calibrated.estimator_
        assert type(classifier) is SVC
        assert classifier.kernel_.p == 3
        assert not hasattr(classifier, "predict_proba")
        np.testing.assert_allclose(classifier.decision_function(NEW), model.decision_function(NEW), atol=1e-6)
        assert classifier.predict(TEXTS).tolist() == LABELS
