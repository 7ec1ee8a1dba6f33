"""Regression from lengths alone."""

import numpy as np
from command import report, run

from textsvm.evaluation.length_baseline import LengthBaseline
from textsvm.readers import sample


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


def test_the_fit_to_lengths_is_monotone_and_survives_odd_files():
    rising = LengthBaseline.fit(["a" * n for n in (1, 2, 3, 4)], [1.0, 3.0, 2.0, 4.0])
    assert rising.judge(["a" * 9, ""], [4.0, 1.0])["mae"] == 0
    falling = LengthBaseline.fit({"text": ["a", "aa", "aaa"], "n": np.zeros(3)}, [3.0, 2.0, 1.0])
    assert falling.judge({"text": ["aa", "a"]}, [2.0, 3.0])["mae"] == 0
    assert LengthBaseline.fit(np.zeros((3, 2)), [1.0, 2.0, 3.0]) is None
    assert LengthBaseline.of({"length_baseline": vars(rising)}) == rising
    for odd in (
        None,
        3,
        {},
        {"lengths": [1]},
        {"lengths": [1], "numbers": [1, 2]},
        {"lengths": "x", "numbers": []},
    ):
        assert LengthBaseline.of({"length_baseline": odd}) is None
