"""The public function `report`."""

import numpy as np
import pandas as pd
import pytest
from refusals import refuses

from textsvm import SVC, CalibratedSVC, Gaussian, On, Spectrum, report

pytestmark = pytest.mark.slow


TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"] * 4
LABELS = ["fruit", "fruit", "fruit", "day", "day", "day"] * 4
OTHERS, TRUTH = ["bandanas", "tuesdays", "wednesday", "ana"], ["fruit", "day", "day", "fruit"]


@pytest.fixture(scope="module")
def model():
    return SVC(Spectrum(2)).fit(TEXTS, LABELS)


def test_reports(model, tmp_path):
    truth = pd.Series(["fruit", "day", "fruit", "fruit"], index=[9, 8, 7, 6])
    saved = report(model, np.array(OTHERS), truth)
    assert saved.results.metrics["accuracy"] == 0.75
    assert [mistake.id for mistake in saved.mistakes] == ["2"]
    assert repr(saved).startswith("SavedReport(4 examples, accuracy=0.75")
    assert "<title>Evaluation" in saved.save(tmp_path / "report.html").read_text("utf-8")
    frame = saved._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert "<script" not in frame
    assert "accuracy" in saved.save(tmp_path / "report.json").read_text("utf-8")
    refuses(r"\.html, \.md or \.json", saved.save, tmp_path / "report.txt")


def test_reports_of_other_inputs(model):
    calibrated = CalibratedSVC(model, cv=2).fit(TEXTS, LABELS)
    assert report(calibrated, OTHERS, TRUTH, ids="abcd", positive="fruit").results.labels[1] == "fruit"
    numbers = np.arange(24.0)
    table = pd.DataFrame({"text": TEXTS, "size": numbers}, index=numbers + 3)
    beside = SVC(On("text", Spectrum(2)) + On("size", Gaussian())).fit(table, LABELS)
    assert report(beside, table, LABELS, mistakes=0).results.n == 24
    assert len(report(model, OTHERS, ["day", "fruit", "fruit", "day"], mistakes=2).mistakes) == 2


@pytest.mark.parametrize(
    ("examples", "labels", "ids", "message"),
    [
        (OTHERS, LABELS, None, "4 examples and 24 labels"),
        (OTHERS, TRUTH, ["a"], "4 examples and 1 ids"),
        (np.eye(24), LABELS, None, "kernel matrix"),
    ],
)
def test_reports_that_cannot_be(model, examples, labels, ids, message):
    asked = model if examples is OTHERS else SVC("precomputed").fit(examples, labels)
    refuses(message, report, asked, examples, labels, ids=ids)
