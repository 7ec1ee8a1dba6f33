"""Offsets for macro-F1, and adaptation to unlabelled texts: on synthetic texts, in files, by commands."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import fails, run
from loading import load
from sklearn.base import clone
from sklearn.metrics import f1_score

from textsvm import SVC, SVR, CalibratedSVC, Gaussian, InputError, Spectrum, cross_validate, save, tune
from textsvm.kernels.spelling import spell
from textsvm.model.settings import SCORINGS
from textsvm.training import adaptation, classifier
from textsvm.training.adaptation import most_confident
from textsvm.training.problems import as_target
from textsvm.training.targets import Target
from textsvm.training.thresholds import choose_offsets

CPU = {"device": "cpu"}


def dialects(n, new=0.0, seed=0):
    """Texts of two classes: own words of the class, of which a share `new` comes from a second list."""
    rng = np.random.default_rng(seed)
    letters = np.random.default_rng(1).choice(list("bcdfghjklm"), (2, 2, 12, 5))
    words = [[["".join(word) for word in some] for some in both] for both in letters]
    common = ["".join(word) for word in np.random.default_rng(2).choice(list("npqrstvwxz"), (30, 5))]
    y = rng.integers(0, 2, n)
    texts = []
    for c in y:
        own = [words[c][int(rng.random() < new)][rng.integers(12)] for _ in range(2)]
        texts.append(" ".join([*rng.choice(common, 6), *own]))
    return texts, np.where(y, "south", "north")


def unbalanced(n=400, seed=0):
    """Texts of a frequent class and of two rare classes that noise hides."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.8, 0.1, 0.1])
    words = np.random.default_rng(1).choice(list("abcdefghij"), (3, 6, 4))
    texts = []
    for c in y:
        of = [c if rng.random() < 0.35 else rng.integers(3) for _ in range(5)]
        texts.append(" ".join("".join(words[k, rng.integers(6)]) for k in of))
    return texts, y


def write(path, texts, labels=None):
    lines = [
        f"{text}\t{label}" for text, label in zip(texts, texts if labels is None else labels, strict=True)
    ]
    path.write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    return path


class TestOffsets:
    def test_raise_macro_f1_of_new_texts(self):
        train, test = unbalanced(), unbalanced(600, 1)
        models = [SVC(Spectrum((1, 4)), scoring=scoring, **CPU).fit(*train) for scoring in SCORINGS]
        plain, moved = (f1_score(test[1], model.predict(test[0]), average="macro") for model in models)
        assert moved > plain + 0.05

    @pytest.mark.parametrize("kernel", ["auto", Spectrum((1, 4))])
    def test_are_added_to_the_biases_alone(self, kernel, tmp_path):
        texts, y = unbalanced(150)
        plain, moved = (SVC(kernel, scoring=s, **CPU).fit(texts, y) for s in SCORINGS)
        assert (plain.dual_coef_ == moved.dual_coef_).all()
        offsets = moved.intercept_ - plain.intercept_
        assert offsets.any()
        np.testing.assert_allclose(
            moved.decision_function(texts), plain.decision_function(texts) + offsets, atol=1e-5
        )
        save(moved, tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.scoring == "f1_macro"
        assert (again.intercept_ == moved.intercept_).all()

    def test_of_two_classes(self):
        texts, y = unbalanced(200)
        models = [SVC(Spectrum(4), scoring=s, **CPU).fit(texts, y == 0) for s in SCORINGS]
        assert len(models[1].intercept_) == 1
        assert models[1].intercept_ < models[0].intercept_  # towards the rare class
        joint = SVC(Spectrum(4), scoring="f1_macro", multiclass="crammer-singer", **CPU).fit(texts, y == 0)
        assert joint.intercept_.shape == (2,)
        assert joint.intercept_[0] == -joint.intercept_[1] > 0

    def test_come_from_the_other_folds_in_cross_validation(self):
        texts, y = unbalanced(200)
        model = SVC(Spectrum(4), scoring="f1_macro", **CPU)
        result = cross_validate(model, texts, y, cv=4)
        plain = cross_validate(clone(model).set_params(scoring="accuracy"), texts, y, cv=4)
        for train, test in result.folds:
            known = np.full_like(plain.decision, np.nan)
            known[train] = plain.decision[train]
            offsets = choose_offsets(known, Target(y, np.arange(3)))
            np.testing.assert_allclose(result.decision[test], plain.decision[test] + offsets)
        assert result.pooled["macro_f1"] > plain.pooled["macro_f1"]
        assert (result.predictions == result.decision.argmax(axis=1)).all()

    def test_come_from_folds_that_keep_near_copies_together(self, monkeypatch):
        rng = np.random.default_rng(0)
        base = [" ".join("".join(rng.choice(list("bcdfghj"), 5)) for _ in range(8)) for _ in range(30)]
        texts = [text + end for text in base for end in ("", "!", " and so on")]
        y = np.tile(["plain", "loud", "long"], 30)
        model = SVC(scoring="f1_macro", **CPU).fit(texts, y)
        target = as_target(model.settings, y, 90)
        groups = classifier._near_copies(model.settings, texts, target).reshape(30, 3)
        assert (groups == groups[:, :1]).all()
        assert len(np.unique(groups)) == 30
        held, target = classifier.out_of_fold(model.settings, model.model_, texts, y, None, None)
        assert (held.argmax(axis=1) == target.values).mean() > 0.9  # the ends tell the class
        plain = SVC(Spectrum(4), **CPU).fit(texts, y)
        monkeypatch.setattr(classifier, "_near_copies", None)  # is not called for a named kernel
        classifier.out_of_fold(plain.settings, plain.model_, texts, y, None, None)

    def test_in_tune(self):
        texts, y = unbalanced(200)
        model = SVC(Spectrum(4), scoring="f1_macro", **CPU)
        best = tune(model, texts, y, {"C": [1.0]}, metric="macro_f1", cv=3, nested=3).best_estimator
        np.testing.assert_allclose(best.intercept_, model.fit(texts, y).intercept_, atol=1e-3)

    def test_leave_classes_alone_that_no_fold_tests(self):
        decision = np.random.default_rng(0).normal(size=(60, 3))
        truth = decision[:, :2].argmax(axis=1)
        decision[0] = np.nan  # the only document of class 2
        offsets = choose_offsets(decision, Target(np.where(np.arange(60) == 0, 2, truth), np.arange(3)))
        assert np.isfinite(offsets).all()
        assert abs(offsets.sum()) < 1e-12

    def test_ignore_gains_within_the_noise(self):
        decision = np.random.default_rng(0).normal(size=500) + np.repeat([-2.0, 2.0], 250)
        target = Target(np.repeat([0, 1], 250), np.arange(2))
        assert not choose_offsets(decision, target).any()

    def test_errors(self):
        texts, y = unbalanced(60)
        with pytest.raises(InputError, match="'f1' is not one of accuracy, f1_macro"):
            SVC(scoring="f1").fit(texts, y)
        with pytest.raises(InputError, match='multiclass="ovo" has votes; take "ovr"'):
            SVC(scoring="f1_macro", multiclass="ovo").fit(texts, y)
        with pytest.raises(InputError, match="a classifier needs two classes"):
            SVC(scoring="f1_macro").fit(texts, [1] * 60)
        with pytest.raises(InputError, match=r'"f1_macro" needs 2 texts .* got 59 and 1$'):
            SVC(scoring="f1_macro").fit(texts, [1] * 59 + [2], progress=pytest.fail)  # before the training
        with pytest.raises(InputError, match="class 2 from: sample_weight is zero"):
            SVC(scoring="f1_macro").fit(texts, y, y < 2)

    def test_ignore_texts_without_weight(self):
        texts, y = unbalanced(100)
        weight = np.r_[np.ones(100), np.zeros(3)]
        models = [
            SVC(Spectrum(4), scoring="f1_macro", **CPU).fit(
                texts + ["a"] * n, [*y, *[0] * n], weight[: 100 + n]
            )
            for n in (0, 3)
        ]
        np.testing.assert_allclose(models[0].intercept_, models[1].intercept_, atol=1e-6)


class TestAdaptation:
    def test_helps_after_a_shift(self):
        train, (texts, labels) = dialects(200), dialects(300, 0.3, 1)
        model = SVC(Spectrum((1, 5)), **CPU).fit(*train)
        adapted = model.adapt(*train, texts)
        assert adapted.adaptation_.adapted
        assert 0.7 <= adapted.adaptation_.margin_ratio <= 0.95
        assert adapted.adaptation_.added in (240, 241)  # four fifths of each class, rounded up
        assert adapted.score(texts, labels) > model.score(texts, labels) + 0.015
        assert (model.adapt(*train, texts).dual_coef_ == adapted.dual_coef_).all()

    @pytest.mark.parametrize("new", [0.0, 1.0])
    def test_is_refused_without_a_shift_and_for_unlike_texts(self, new):
        train, (texts, _) = dialects(200), dialects(300, new, 1)
        model = SVC(Spectrum((1, 5)), **CPU).fit(*train)
        adapted = model.adapt(*train, texts)
        assert not adapted.adaptation_.adapted
        assert str(adapted.adaptation_).startswith("not adapted to 300 texts: median margin ")
        assert adapted is not model
        assert (adapted.decision_function(texts) == model.decision_function(texts)).all()

    def test_of_a_loaded_default_equals_that_of_the_model(self, tmp_path, monkeypatch):
        monkeypatch.setattr(adaptation, "MARGINS", (0.0, 9.0))
        train, (texts, _) = dialects(120), dialects(100, 0.5, 1)
        model = SVC("fast", **CPU).fit(*train)
        save(model, tmp_path / "model")
        adapted, again = model.adapt(*train, texts), load(tmp_path / "model").adapt(*train, texts)
        assert adapted.adaptation_.adapted
        np.testing.assert_allclose(
            again.decision_function(texts), adapted.decision_function(texts), atol=1e-5
        )
        fresh = SVC("fast", **CPU).adapt(*train, texts)  # not fitted before
        assert (fresh.decision_function(texts) == adapted.decision_function(texts)).all()

    @pytest.mark.parametrize(
        "parameters", [{"multiclass": "crammer-singer"}, {"time_budget": 0.5}, {"scoring": "f1_macro"}]
    )
    def test_keeps_kernel_c_loss_and_parameters(self, parameters, monkeypatch):
        monkeypatch.setattr(adaptation, "MARGINS", (0.0, 9.0))
        train, (texts, _) = dialects(80), dialects(60, 0.3, 1)
        model = SVC(**parameters, **CPU).fit(*train)
        monkeypatch.setattr(classifier, "_choice", pytest.fail)  # the kernel is not chosen again
        adapted = model.adapt(*train, texts)
        assert adapted.adaptation_.adapted
        assert (adapted.C_, adapted.loss_, adapted.chosen_) == (model.C_, model.loss_, model.chosen_)
        assert spell(adapted.kernel_) == spell(model.kernel_)
        assert adapted.get_params() == model.get_params()

    def test_gate_compares_margins_without_offsets(self):
        train, (texts, _) = unbalanced(150), unbalanced(100, 1)
        ratios = [
            SVC(Spectrum(4), scoring=scoring, **CPU).adapt(*train, texts).adaptation_.margin_ratio
            for scoring in SCORINGS
        ]
        assert ratios[0] == pytest.approx(ratios[1], abs=1e-9)

    def test_added_texts_have_the_mean_weight(self, monkeypatch):
        monkeypatch.setattr(adaptation, "MARGINS", (0.0, 9.0))
        train, (texts, _) = dialects(60), dialects(60, 0.3, 1)
        plain = SVC(Spectrum(3), C=0.1, **CPU).adapt(*train, texts)
        weighted = SVC(Spectrum(3), C=0.001, **CPU).adapt(*train, texts, np.full(60, 100.0))
        np.testing.assert_allclose(
            weighted.decision_function(texts), plain.decision_function(texts), atol=1e-6
        )

    def test_takes_the_most_confident_of_each_class(self):
        decision = np.array([0.1, 3.0, 2.0, 0.2, -0.1, -5.0])
        assert most_confident(decision, 0.5).tolist() == [1, 2, 5]
        assert most_confident(decision, 1.0).tolist() == [0, 1, 2, 3, 4, 5]
        assert most_confident(np.eye(3)[[0, 0, 1]] * [[1], [2], [1]], 0.1).tolist() == [1, 2]

    def test_errors(self):
        train, (texts, _) = dialects(60), dialects(60, 0.5, 1)
        model = SVC(Spectrum(3), **CPU).fit(*train)
        with pytest.raises(InputError, match="adapt needs 50 unlabelled texts or more, got 49"):
            model.adapt(*train, texts[:49])
        with pytest.raises(InputError, match="labels of X are not the classes"):
            model.adapt(train[0], np.where(train[1] == "north", "n", "s"), texts)
        with pytest.raises(InputError, match="adapt needs texts"):
            SVC(Gaussian(), **CPU).adapt(np.eye(60), train[1], np.eye(60))
        with pytest.raises(InputError, match=r'^adapt needs .* multiclass="ovo" has votes; take "ovr"'):
            SVC(Spectrum(3), multiclass="ovo", **CPU).fit(*train).adapt(*train, texts)
        with pytest.raises(InputError, match="adapt needs 2 texts of two classes to"):
            SVC(Spectrum(3), **CPU).adapt(train[0], ["a"] * 59 + ["b"], texts, progress=pytest.fail)
        assert not hasattr(SVR(), "adapt")
        assert not hasattr(CalibratedSVC(), "adapt")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a corpus, its model, and texts after a shift, with labels that mean nothing."""
    folder = tmp_path_factory.mktemp("adapt")
    write(folder / "old.tsv", *dialects(200))
    texts, labels = dialects(300, 0.3, 1)
    write(folder / "new.tsv", texts, ["unknown"] * 300)
    write(folder / "same.tsv", *dialects(300, 0.0, 1))
    (folder / "truth.json").write_text(json.dumps(labels.tolist()))
    trained = run("train", "old.tsv", "--kernel", "spectrum:1-5", "-o", "model", cwd=folder)
    assert trained.returncode == 0, trained.stderr
    return folder


class TestCommand:
    def test_adapts_and_saves(self, files):
        plain = run("predict", "model", "new.tsv", cwd=files)
        result = run("predict", "model", "new.tsv", "--adapt", "--save", "adapted", cwd=files)
        assert result.returncode == 0, result.stderr
        assert b"gate: adapted with 24" in result.stderr
        truth = json.loads((files / "truth.json").read_text())
        right = [
            sum(
                json.loads(line)["label"] == label
                for line, label in zip(out.splitlines(), truth, strict=True)
            )
            for out in (plain.stdout, result.stdout)
        ]
        assert right[1] > right[0] + 4
        assert run("predict", "adapted", "new.tsv", cwd=files).stdout == result.stdout
        about = json.loads(run("model", "adapted", "--json", cwd=files).stdout)
        assert about["info"]["adaptation"]["adapted"] is True

    def test_refused_changes_nothing(self, files):
        result = run("predict", "model", "same.tsv", "--adapt", "--corpus", "old.tsv", cwd=files)
        assert b"gate: not adapted to 300 texts" in result.stderr
        assert result.stdout == run("predict", "model", "same.tsv", cwd=files).stdout

    def test_rows_without_a_text_get_no_label(self, files):
        (files / "gaps.tsv").write_text((files / "new.tsv").read_text() + "\tunknown\n  \tunknown\n")
        result = run("predict", "model", "gaps.tsv", "--adapt", cwd=files)
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert (result.returncode, len(rows)) == (1, 302)
        assert [row["label"] is None for row in rows] == [False] * 300 + [True] * 2
        assert b"of 300 texts" in result.stderr

    def test_another_corpus_is_noted(self, files):
        texts, labels = dialects(200)
        write(files / "swapped.tsv", texts, np.where(labels == "north", "south", "north"))
        result = run("predict", "model", "new.tsv", "--adapt", "--corpus", "swapped.tsv", cwd=files)
        assert b"other documents or labels than the training corpus" in result.stderr
        same = run("predict", "model", "new.tsv", "--adapt", "--corpus", "old.tsv", cwd=files)
        assert b"other documents or labels" not in same.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["few.tsv", "--adapt"], "adapt needs 50 unlabelled texts or more, got 1"),
            (["empty.tsv", "--adapt"], "empty.tsv"),
            (["nowhere.tsv", "--adapt"], "nowhere.tsv"),
            (["new.tsv", "--adapt", "--corpus", "nowhere.tsv"], "nowhere.tsv"),
            (["new.tsv", "--adapt", "--corpus", "new.tsv"], "label"),
            (["new.tsv", "--save", "adapted"], "--save needs --adapt"),
            (["new.tsv", "--corpus", "old.tsv"], "--corpus needs --adapt"),
            (["new.tsv", "--adapt", "--save", "new.tsv"], "would replace"),
        ],
    )
    def test_mistakes(self, files, arguments, message):
        write(files / "few.tsv", ["a text"])
        Path(files, "empty.tsv").write_text("")
        usage = "needs --adapt" in message or "replace" in message
        assert message in fails("predict", "model", *arguments, cwd=files, code=2 if usage else 1)

    def test_other_kinds_of_model_and_changed_corpora(self, files):
        run(
            "train",
            "old.tsv",
            "--kernel",
            "spectrum:3",
            "--calibrate",
            "sigmoid",
            "-o",
            "calibrated",
            cwd=files,
        )
        assert "cannot be adapted" in fails("predict", "calibrated", "new.tsv", "--adapt", cwd=files)
        write(files / "other.tsv", *dialects(100))
        run("train", "other.tsv", "--kernel", "spectrum:3", "-o", "moved", cwd=files)
        write(files / "other.tsv", *dialects(101))
        assert "changed since the training" in fails("predict", "moved", "new.tsv", "--adapt", cwd=files)

    def test_scoring(self, files):
        write(files / "rare.tsv", *unbalanced(150))
        for name, options in (("plain", []), ("moved", ["--scoring", "f1_macro"])):
            done = run("train", "rare.tsv", "--kernel", "spectrum:4", *options, "-o", name, cwd=files)
            assert done.returncode == 0, done.stderr
        assert (load(files / "plain").intercept_ != load(files / "moved").intercept_).any()
        assert "not an option of --one-class" in fails(
            "train", "rare.tsv", "--one-class", "0", "--scoring", "f1_macro", cwd=files, code=2
        )
        assert 'take "ovr"' in fails(
            "cv", "rare.tsv", "--multiclass", "ovo", "--scoring", "f1_macro", cwd=files, code=2
        )
