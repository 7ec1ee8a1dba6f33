"""The estimate of quality: regression from lengths alone."""

import time

import numpy as np
import pytest
from command import report, run
from sklearn.isotonic import IsotonicRegression

from textsvm.choice.candidates import Candidate
from textsvm.evaluation.estimate import LengthBaseline
from textsvm.kernels.spelling import parse
from textsvm.model.settings import ClassifierSettings, Compute
from textsvm.readers import sample
from textsvm.runtime import device
from textsvm.runtime.parallel import limit
from textsvm.training import fold_grams
from textsvm.training.folds import Splitting
from textsvm.training.targets import with_classes
from textsvm.training.train import read_training_data


def test_a_regression_is_told_beside_the_length_alone(tmp_path):
    """Scores of essays that lengths tell: figures of the same folds, and of the training part alone."""
    words = [f"{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(60)]  # no text is a copy of another
    rows = [("good " * (i % 10 + 1) + words[i], i % 10 + (i % 3) / 10) for i in range(60)]
    (tmp_path / "t.csv").write_text("essay,score\n" + "".join(f"{text},{score}\n" for text, score in rows))
    command = [tmp_path / "t.csv", "--text", "essay", "--regress", "score", "--kernel", "spectrum"]
    found = report("cv", *command)
    assert found["length_alone"]["r2"] > 0.99
    assert found["length_alone"].keys() == found["mean"].keys()
    assert "length alone" in run("cv", *command).stdout.decode()
    held = report("train", *command, "--holdout", "0.3", "-o", tmp_path / "m")["holdout"]
    assert held["length_alone"]["r2"] > 0.99
    figures = report("evaluate", tmp_path / "m", tmp_path / "t.csv", "--report", tmp_path / "r.html")
    assert figures["length_alone"]["r2"] > 0.99
    assert "The length of a text alone" in (tmp_path / "r.html").read_text()
    assert "The length of a text alone" in run("evaluate", tmp_path / "m", tmp_path / "t.csv").stdout.decode()
    assert "length_alone" not in report("cv", sample("reviews"), "--kernel", "fast")


@pytest.mark.parametrize("sign", [1, -1])
def test_the_fit_to_lengths_is_scikit_learns_isotonic_regression(sign):
    random = np.random.default_rng(0)
    texts = ["x" * int(length) for length in random.integers(1, 40, 200)]
    numbers = [sign * len(text) + random.normal(scale=9) for text in texts]
    lengths = [len(text) for text in texts]
    fitted = IsotonicRegression(increasing=sign > 0, out_of_bounds="clip").fit(lengths, numbers)
    baseline = LengthBaseline.fit({"text": texts, "n": np.zeros(200)}, numbers)
    assert baseline.lengths == fitted.X_thresholds_.tolist()
    assert baseline.numbers == pytest.approx(fitted.y_thresholds_.tolist())
    new = ["", "x" * 7, "x" * 90]
    assert baseline.judge(new, fitted.predict([0, 7, 90]))["mae"] == pytest.approx(0, abs=1e-9)
    assert LengthBaseline.fit(np.zeros((3, 2)), [1.0, 2.0, 3.0]) is None
    assert LengthBaseline.of({"length_baseline": vars(baseline)}) == baseline


@pytest.mark.parametrize(
    "odd",
    [None, 3, {}, {"lengths": [1]}, {"lengths": [1], "numbers": [1, 2]}, {"lengths": "x", "numbers": []}],
)
def test_an_odd_baseline_in_a_file_is_none(odd):
    assert LengthBaseline.of({"length_baseline": odd}) is None


LEARNING = ["spectrum:1-5,log,idf", "spectrum:3-8,idf"]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "length"), [(600, 3000), (2000, 800)])
@pytest.mark.parametrize("kernel", ["", "spectrum:1-5", "gapped:5,m=2", "bounded-gap:3", *LEARNING])
def test_folds_take_the_seconds_that_are_predicted(kernel, n, length):
    """Processor seconds of a core, by Gram and by features; up to 450 times too many before."""
    random = np.random.default_rng(0)
    words = np.array(["".join(map(chr, 97 + random.integers(0, 26, k))) for k in random.integers(2, 9, 9000)])
    texts = [" ".join(words[np.minimum(random.zipf(1.3, length // 6), 9000) - 1]) for _ in range(n)]
    used = parse(kernel) if kernel else Candidate(plain=0.1).kernel()
    for way in ("gram", "features"):
        settings = ClassifierSettings(kernel=used, device="cpu", compute=Compute(solver=way))
        for some in (60, n):  # the first compiles
            examples, target, _ = read_training_data(settings, texts[:some], ["x", "y"] * (some // 2), None)
            task = fold_grams.FoldTask(target, None, Splitting(3).quietly(target))
            with settings.at_work(device.select("cpu")), limit(1):
                encoded = with_classes(settings.source.encode(examples), target)
                clock = time.process_time()
                grams = fold_grams.grams_of(settings, encoded, task)
                predicted = fold_grams.predicted_seconds([settings], grams, task)
                fold_grams.train_and_test([settings], grams, task, {})
                took = time.process_time() - clock
        print(f"{kernel} {way}: predicted {predicted:.2f}, took {took:.2f} s")
        assert took / 4 < predicted < 4 * took
