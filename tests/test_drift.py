"""Drift: numbers of new texts beside those of training, in bounded memory."""

import json
import tracemalloc

import numpy as np
import pytest
from command import report, run

from textsvm import SVC, Spectrum
from textsvm.evaluation.drift import Drift, Margins, record

TEXTS = ["abab", "abba", "cdcd", "dccd"]


@pytest.fixture(scope="module")
def model():
    return SVC(Spectrum(2)).fit(TEXTS, ["a", "a", "c", "c"]).model_


@pytest.mark.parametrize("n", [1, 2, 3, 1000, 1001])
def test_the_median_of_few_margins_is_exact(n):
    values = np.abs(np.random.default_rng(n).normal(size=n)) ** 3
    margins = Margins()
    for part in np.array_split(values, 7):
        margins.add(part)
    # Two values in a bin of relative width 1/4096 are averaged.
    assert margins.median() == pytest.approx(np.median(values), rel=1e-15 if n < 4 else 1 / 4096)


def test_margins_of_every_size_have_a_median():
    margins = Margins()
    assert margins.median() is None
    margins.add(np.array([0.0, 1e-300, 1e300]))
    assert margins.median() == pytest.approx(5e-301)  # both share the first bin
    margins.add(np.array([1e300, 1e300]))
    assert margins.median() == 1e300
    equal = Margins()
    equal.add(np.full(10_000, 0.25))
    assert equal.median() == 0.25


def test_a_stream_without_end_takes_no_more_memory(model):
    """A batch of decision values took 8 bytes per text for as long as the process lived."""
    drift, rng = Drift(model, {"margin": 1.0}), np.random.default_rng(0)
    decisions = rng.normal(size=(200, 2000))
    drift.add_decisions(decisions[0])
    tracemalloc.start()
    for batch in decisions[1:]:
        drift.add_decisions(batch)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert grown < 200 * 2000  # the values take eight times as much
    exact = np.median(np.abs(decisions))
    values = drift.as_dict()
    assert values["margin"] == values["margin_ratio"] == pytest.approx(exact, rel=1 / 4096)


def test_decisions_of_several_classes_have_the_distance_of_the_two_best(model):
    drift = Drift(model, {"margin": 1.0})
    drift.add_decisions(np.array([[3.0, 1.0, 2.5], [0.0, -1.0, -4.0], [1.0, 1.0, 1.0]]))
    assert drift.as_dict()["margin"] == 0.5


def findings(model, texts, recorded):
    drift = Drift(model, recorded)
    drift.add_texts(texts)
    return drift.findings()


@pytest.mark.parametrize(("new", "names"), [(2, []), (3, ["symbols"]), (50, ["symbols"])])
def test_new_symbols_may_exceed_their_share_in_training_by_a_constant(model, new, names):
    """2 % of new symbols, where training had none, are no warning; 3 % are."""
    messages = findings(model, ["abcd" * 25, "z" * 2 * new + "a" * (100 - 2 * new)], {"symbols": 0.0})
    assert [message.partition(" % of the ")[2].partition(" never ")[0] for message in messages] == names


@pytest.mark.parametrize(("new", "warned"), [(7, False), (8, True)])
def test_new_symbols_may_exceed_their_share_in_training_by_a_factor(model, new, warned):
    """1.5 times 3.5 %, and 2 % more, are 7.25 %."""
    usual = f"{new}.0 % of the symbols never occurred in training (3.5 % of new texts in training)"
    assert findings(model, ["z" * new + "a" * (100 - new)], {"symbols": 0.035}) == [usual] * warned


def test_a_summary_has_shares_and_texts_of_new_symbols_are_foreign(model):
    drift = Drift(model, {"margin": 2.0})
    assert drift.add_texts(["abab", "zzab", "zzza"]).tolist() == [2]  # more than half is new
    drift.add_decisions(np.array([1.0, -1.0, 0.5]))
    shares = "41.7 % new symbols, 66.7 % new sequences of symbols"
    assert drift.summary() == f"{shares}, median margin 1, 0.50 of that in training"
    unknown = Drift(model, None)
    unknown.add_texts(["abab"])
    assert unknown.summary().startswith(
        "0.0 % new symbols, 0.0 % new sequences of symbols, the model records no"
    )


def test_drift_without_recorded_numbers_and_of_tokens():
    texts = [f"alpha beta {'cash win' if i % 2 else 'lunch noon'} number{i}" for i in range(40)]
    model = SVC(Spectrum(2)).fit(texts, [i % 2 for i in range(40)]).model_
    foreign = ["zq xjw vvk kkjq wwz"] * 4

    assert findings(model, foreign, None) == []
    model = SVC(Spectrum(2, tokens="words")).fit(texts, [i % 2 for i in range(40)]).model_
    recorded = record(model, 40, lambda index: [texts[i] for i in index], None)
    assert recorded["features"] is None
    assert [message.partition(" of the ")[2][:14] for message in findings(model, foreign, recorded)] == [
        "symbols never "
    ]


def novel_of(author, length, seed):
    words = {"a": "tulips grow in the bed", "b": "the engine needs oil now"}[author].split()
    return " ".join(np.random.default_rng(seed).choice(words, length // 3))[:length]


FAR = "far shorter than those of training"


@pytest.fixture(scope="module")
def passages(tmp_path_factory):
    """Models of passages of 3,000 characters, of texts in pieces, and of texts of all lengths."""
    folder = tmp_path_factory.mktemp("passages")
    for name, lengths in (("passages", [3000]), ("novels", [12_000]), ("mixed", [300, 3000, 9000])):
        rows = [
            {"text": novel_of(label, lengths[k % len(lengths)], k), "label": label}
            for label in "ab" for k in range(6)
        ]  # fmt: skip
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        cut = ["--chunk", "3000"] if name == "novels" else []
        report("train", folder / f"{name}.jsonl", *cut, "-o", folder / name)
    return folder


@pytest.mark.parametrize("command", [["predict"], ["predict", "--drift"], ["explain", "--json"]])
@pytest.mark.parametrize(
    ("model", "length", "warned"),
    [("passages", 180, True), ("passages", 900, True), ("passages", 1100, False), ("novels", 180, True),
     ("novels", 900, True), ("novels", 2000, False), ("novels", 9000, False), ("mixed", 60, False)],
)  # fmt: skip
def test_a_text_far_shorter_than_those_of_training_is_named_once(command, model, length, warned, passages):
    (passages / "new.txt").write_text(novel_of("a", length, 99))
    stderr = run(*command, model, "new.txt", cwd=passages).stderr.decode()
    assert stderr.count(FAR) == warned
    if warned:
        assert f"1 of 1 text {FAR}" in stderr
        assert f"new.txt has {length:,}" in stderr


def test_few_short_texts_among_many_are_no_news(passages):
    rows = [novel_of("a", 3000, k) for k in range(40)]
    for n, warned in ((1, 0), (3, 1)):
        (passages / "new.jsonl").write_text(
            "\n".join(json.dumps({"text": text[: 100 if k < n else None]}) for k, text in enumerate(rows))
        )
        done = run("predict", "passages", "new.jsonl", cwd=passages)
        assert done.stdout.count(b"\n") == 40
        assert done.stderr.decode().count(FAR) == warned
    assert f"3 of 40 texts {FAR}" in done.stderr.decode()
    assert "(first 1 has 100)" in done.stderr.decode()
