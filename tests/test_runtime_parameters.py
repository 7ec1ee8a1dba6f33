"""A prompt or a notebook shows results in at most 600 characters."""

import numpy as np
import pytest

from textsvm import (
    SVC,
    Corpus,
    Spectrum,
    cross_validate,
    doubts,
    evaluate,
    explain,
    read_corpus,
    tune,
    verify,
)

TEXTS = [f"{fruit} and {fruit} on {k}" for k in range(120) for fruit in ("banana", "mango")] * 4
LABELS = ["a", "b"] * 480
WORKS = [
    phrase * 30 for phrase in ("the sea was grey ", "sir, I beg your ", "win cash on a ") for _ in range(2)
]


pytestmark = pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("short") / "t.csv"
    path.write_text("label,text\n" + "".join(f"{y},{x}\n" for x, y in zip(TEXTS, LABELS, strict=True)))
    model = SVC(Spectrum(3)).fit(TEXTS, LABELS)
    return {
        "Corpus": read_corpus(path),
        "CrossValidation": cross_validate(
            SVC(Spectrum(3)), TEXTS[:240], LABELS[:240], groups=np.arange(240) // 10
        ),
        "Tuning": tune(SVC(Spectrum(3)), TEXTS[:240], LABELS[:240], {"C": [1, 10]}),
        "TrainedModel": model.model_,
        "Record": model.model_.record,
        "Solution": model.solutions_[0],
        "Explanation": explain(model, TEXTS[:1])[0],
        "Doubts": doubts(SVC(Spectrum(3)), TEXTS[:240], LABELS[:240]),
        "Results": evaluate(LABELS, model.predict(TEXTS), model.decision_function(TEXTS), model.classes_),
        "Verification": verify(WORKS, list("aabbcc"), WORKS[0]),
    }


def test_results_are_short(results):
    for name, result in results.items():
        assert repr(result).startswith(f"{name}("), name
        assert len(repr(result)) <= 600, name
        assert "\n" not in repr(result), name


def test_figures_and_shapes_are_shown(results):
    assert "best_params_={'C': " in repr(results["Tuning"])
    assert "alpha=<array of float64, shape (960,)>" in repr(results["Solution"])
    assert "labels=['a', 'b', 'a', ...]" in repr(results["Corpus"])


def test_a_short_result_is_whole():
    assert "texts=['x'], labels=['a'], part=[None]" in repr(Corpus(["1"], ["x"], ["a"], [None]))
