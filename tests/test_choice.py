"""The kernel and C that are chosen where the user names none."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import textsvm
from textsvm import SVC, Compute, GappedKmers, InputError, Spectrum, Sum
from textsvm.choice import choose, shortlist
from textsvm.choice.choose import FEWEST, MOST_TRIED
from textsvm.choice.shortlist import Recipe
from textsvm.choice.trial import FOLDS, Examples, Trials
from textsvm.evaluation.explanation import explain
from textsvm.runtime.device import select
from textsvm.text.documents import encode


def corpus(n=48, n_classes=2, seed=0):
    """Sentences, some of whose words tell the class."""
    rng = np.random.default_rng(seed)
    words = np.array(["".join(rng.choice(list("etaoinshrdlu"), 5)) for _ in range(40)])
    y = np.arange(n) % n_classes
    own = [words[rng.integers(4 * c, 4 * c + 4, 3)] for c in y]
    texts = [" ".join([*rng.choice(words, 5), *some]) for some in own]
    return texts, y


def orders(n=48):
    """Texts of the same words whose order tells the class; five characters never reach from word to word."""
    rng = np.random.default_rng(0)
    words = [f"wwwww{c}eeeee" for c in "abcdefgh"]
    y = np.arange(n) % 2
    texts = []
    for c in y:
        rest = [words[i] for i in rng.permutation(np.arange(2, 8))]
        at = rng.integers(0, 7)
        texts.append(" ".join([*rest[:at], *(words[:2] if c else words[1::-1]), *rest[at:]]))
    return texts, y


def auto(**parameters):
    return SVC(**({"device": "cpu"} | parameters))


@pytest.fixture(scope="module")
def model():
    texts, y = corpus()
    return auto().fit(texts, y)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_choice_is_the_same_again_and_for_any_number_of_threads(n_classes):
    texts, y = corpus(60, n_classes)
    first, *others = [auto(n_jobs=jobs).fit(texts, y) for jobs in (None, 1, 1, 2)]
    assert first.chosen_
    for other in others:
        assert (other.chosen_, other.C_) == (first.chosen_, first.C_)
        np.testing.assert_array_equal(other.decision_function(texts), first.decision_function(texts))


LITTLE = {
    "three letters": (["abc", "abd", "xyz", "xyw"] * 3, [0, 0, 1, 1] * 3),
    "one letter": (["a", "b"] * 4, [0, 1] * 4),
    "one letter each": (["a", "b", "c", "d"], [0, 0, 1, 1]),
    "empty ones": (["", "abc", "", "xyz", "abd", "xyw", ""], [0, 0, 1, 1, 0, 1, 0]),
    "no words": (["!!", "??", "!", "?", "!!!", "??"], [0, 1, 0, 1, 0, 1]),
    "words in one": (["!!", "??", "a few words here", "?", "!!!", "??"], [0, 1, 0, 1, 0, 1]),
    "all equal": (["same text here"] * 6, [0, 1] * 3),
    "a class of one": ([*corpus(20)[0], "something else"], [*corpus(20)[1].tolist(), 2]),
    "two of one": (["one text", "another"], [0, 1]),
    "many classes": (corpus(60, 10)[0], np.arange(60) % 30),
    "each its own": (corpus(9, 3)[0], np.arange(9)),
}


@pytest.mark.parametrize("multiclass", ["ovr", "ovo", "crammer-singer"])
@pytest.mark.parametrize("name", LITTLE)
def test_no_texts_stop_the_default(name, multiclass):
    texts, y = LITTLE[name]
    model = auto(multiclass=multiclass).fit(texts, y)
    assert model.chosen_
    assert model.C_ in (1 / 3, 1.0, 3.0)
    assert set(model.predict([*texts, "", "☃ new"])) <= set(y)
    assert np.isfinite(model.decision_function([*texts, "", "☃ new"])).all()


@pytest.mark.parametrize("name", ["three letters", "a class of one", "many classes"])
def test_what_was_trained_on_is_decided_right(name):
    texts, y = LITTLE[name]
    assert auto(C=100.0).fit(texts, y).score(texts, y) == 1


@pytest.mark.parametrize("kernel", ["auto", "fast"])
@pytest.mark.parametrize("texts", [["  ", "\t\n", " "], ["", "", ""]])
def test_texts_of_white_space_alone_are_refused_in_a_sentence(texts, kernel):
    with pytest.raises(InputError, match="every document is empty") as caught:
        auto(kernel=kernel).fit(texts, [0, 1, 0])
    assert "\n" not in str(caught.value)


def test_order_of_words_is_found_by_a_sum_with_words():
    texts, y = orders()
    model = auto().fit(texts, y)
    assert isinstance(model.kernel_, Sum)
    assert any(leaf.tokens == "words" for leaf in model.kernel_.leaves)
    fast = auto(kernel="fast").fit(texts[:36], y[:36]).score(texts[36:], y[36:])
    assert auto().fit(texts[:36], y[:36]).score(texts[36:], y[36:]) > fast


def test_the_sentence_says_what_was_chosen(model):
    texts, _ = corpus()
    assert "\n" not in model.chosen_
    assert f"C = {model.C_:.3g}" in model.chosen_
    assert f"{FOLDS}-fold cross-validation on {len(texts)} texts" in model.chosen_


def test_trials_are_cross_validation():
    texts, y = corpus(60, 3)
    fold = np.arange(60) // 3 % FOLDS
    documents = encode(texts).with_classes(y)
    examples = Examples(documents, y, 3, np.ones(60), fold)
    for recipe in (Recipe(odds=True), Recipe("overlap"), Recipe("gapped")):
        kernel = recipe.kernel()
        trials = Trials(examples, select("cpu")).run([recipe], [0.1, 1.0])
        assert [trial.C for trial in trials] == [0.1, 1.0]
        for trial in trials:
            right = 0
            for k in range(FOLDS):
                train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
                alone = SVC(clone(kernel), trial.C, normalise="none", device="cpu")
                alone.fit([texts[i] for i in train], y[train])
                right += (alone.predict([texts[i] for i in test]) == y[test]).sum()
            assert trial.accuracy == pytest.approx(right / 60, abs=2.5 / 60)


def test_weights_of_texts_and_classes_count():
    texts, y = corpus(40)[0], np.random.default_rng(0).permutation(np.arange(40) % 2)
    plain = auto(C=0.1).fit(texts, y).decision_function(texts).mean()
    for model, weight in (
        (auto(C=0.1, class_weight={1: 10.0}), None),
        (auto(C=0.1), np.where(y == 1, 10.0, 1.0)),
    ):
        assert model.fit(texts, y, sample_weight=weight).decision_function(texts).mean() > plain + 0.1
    without = auto().fit(texts, y, sample_weight=np.where(np.arange(40) < 4, 0.0, 1.0))
    assert not set(without.support_) & set(range(4))
    with pytest.raises(InputError, match="nothing to learn the class"):
        auto().fit(texts, y, sample_weight=(y == 1).astype(float))


def test_a_budget_of_nothing_still_chooses():
    texts, y = corpus(700)
    model = auto(time_budget=0).fit(texts, y)
    assert f"on {FEWEST} of 700 texts" in model.chosen_
    for budget in (-1, np.inf, "long", True):
        with pytest.raises(InputError, match="budget"):
            auto(time_budget=budget).fit(texts[:4], y[:4])


def test_a_part_of_the_examples_keeps_every_class_and_its_share():
    rng = np.random.default_rng(0)
    target = np.repeat(np.arange(6), [1, 1, 2, 30, 300, 3000])[rng.permutation(3334)]
    rows = choose._subset(target, 60)
    assert len(rows) == len(set(rows)) == 60
    assert (np.diff(rows) > 0).all()
    counts = np.bincount(target[rows], minlength=6)
    assert (counts >= 1).all()
    assert counts[5] > 5 * counts[4]
    np.testing.assert_array_equal(choose._subset(target, 5000), np.arange(3334))


def test_folds_deal_every_class_out_evenly():
    target = np.repeat(np.arange(4), [1, 3, 9, 30])
    fold = choose._folds(target)
    for c in range(1, 4):
        counts = np.bincount(fold[target == c], minlength=FOLDS)
        assert counts.max() - counts.min() <= 1
    assert set(np.bincount(fold)) <= {14, 15}


@pytest.mark.parametrize("texts", [corpus()[0], ["abc", "xyz"] * 24, ["a long sentence of words " * 3] * 48])
@pytest.mark.parametrize("jobs", [1, 3])
def test_progress_of_the_choice_never_goes_back(texts, jobs):
    seen = []
    auto(n_jobs=jobs).fit(texts, np.arange(48) % 2, progress=lambda *step: seen.append(step))
    steps = [(done, total) for stage, done, total in seen if stage == "choose"]
    assert len({done for done, _ in steps}) >= 3  # rounds; what ends together is told together
    assert {total for _, total in steps} == {MOST_TRIED}
    assert (np.diff([done for done, _ in steps]) >= 0).all()
    assert steps[-1][0] == pytest.approx(MOST_TRIED)


def test_progress_may_stop_the_choice():
    def stop(stage, done, total):
        if stage == "choose":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        auto().fit(*corpus(), progress=stop)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_fast_is_the_fixed_kernel(n_classes):
    texts, y = corpus(60, n_classes)
    fast = auto(kernel="fast").fit(texts, y)
    named = auto(kernel=Spectrum((1, 5), "log", idf=True), multiclass="ovr").fit(texts, y)
    assert fast.kernel_.get_params() == named.kernel_.get_params()
    assert (fast.C_, fast.chosen_) == (1.0, "")
    new = [*corpus(9, n_classes, 1)[0], "", "☃"]
    np.testing.assert_allclose(fast.decision_function(new), named.decision_function(new), atol=1e-2)


def test_features_and_gram_decide_the_same():
    for kernel in (orders, corpus):
        texts, y = kernel()
        model = auto(compute=Compute(solver="features")).fit(texts, y)
        named = auto(kernel=clone(model.kernel_), C=model.C_, tol=1e-5, compute=Compute(solver="gram")).fit(
            texts, y
        )
        assert model.gram_.startswith("none, ")
        np.testing.assert_allclose(model.decision_function(texts), named.decision_function(texts), atol=1e-2)


def test_copies_and_files_decide_the_same(model, tmp_path):
    new = [*corpus(9, 2, 1)[0], "", "☃"]
    expected = model.decision_function(new)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(new), expected)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert fresh.kernel == "auto"
    assert not hasattr(fresh, "kernel_")
    textsvm.save(model, tmp_path / "model")
    loaded = textsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(new), expected)
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))


def test_a_saved_model_keeps_the_penalty_that_was_used(tmp_path):
    used = []
    for made in (corpus(), orders(), LITTLE["empty ones"], LITTLE["a class of one"]):
        model = auto(C=2.0).fit(*made)
        textsvm.save(model, tmp_path / "model")
        loaded = textsvm.load(tmp_path / "model")
        assert loaded.C == loaded.C_ == model.C_
        used.append(model.C_)
    assert set(used) != {2.0}


def test_a_choice_is_explained(model):
    texts = [*corpus(5, 2, 1)[0], "zz"]
    for value, found in zip(model.decision_function(texts), explain(model, texts), strict=True):
        assert found.symbols.sum() + found.bias == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_fitting_again_chooses_again():
    model = auto().fit(*orders()).fit(*LITTLE["three letters"])
    fresh = auto().fit(*LITTLE["three letters"])
    assert model.chosen_ == fresh.chosen_
    np.testing.assert_array_equal(
        model.decision_function(["abc", "q"]), fresh.decision_function(["abc", "q"])
    )


def test_the_short_list_depends_on_the_texts():
    name = shortlist.Look(10.0, 1.0, "", 0.0)
    sentence = shortlist.Look(100.0, 20.0, "", 0.0)
    strand = shortlist.Look(100.0, 1.0, "acgt", 1.0)
    assert [one.strands for one in shortlist.second_round(strand, Recipe()) if one.first == "gapped"] == [
        True
    ]
    for other in (
        replace(strand, letters=""),
        replace(strand, gapped_seconds=1e9),
        replace(strand, characters=9),
    ):
        assert all(one.first != "gapped" for one in shortlist.second_round(other, Recipe()))
    assert shortlist.second_round(replace(strand, letters="abc"), Recipe())[-1] == Recipe("gapped")
    assert [len(shortlist.first_round(seen)) for seen in (name, sentence)] == [1, 2]
    for seen in (
        name,
        sentence,
        strand,
        shortlist.Look(30.0, 5.0, "acgt", 1.0),
        shortlist.Look(100.0, 1.0, "", 0.0),
    ):
        first = shortlist.first_round(seen)
        for best in first:
            second = shortlist.second_round(seen, best)
            for better in (best, *second):
                third = shortlist.third_round(seen, better)
                assert len(first) + len(second) + len(third) + 1 <= MOST_TRIED


def test_a_gram_is_made_once_for_all_values_of_c(monkeypatch):
    made = []
    gram = GappedKmers.rows
    monkeypatch.setattr(GappedKmers, "rows", lambda self, *given: made.append(self) or gram(self, *given))
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("acgt"), 30)) + ("acgtaacct" if k % 2 else "") for k in range(40)]
    documents = encode(texts).with_classes(np.arange(40) % 2)
    trials = Trials(
        Examples(documents, np.arange(40) % 2, 2, np.ones(40), np.arange(40) // 2 % FOLDS), select("cpu")
    )
    trials.run([Recipe("gapped")], [1.0])
    trials.run([Recipe("gapped")], [0.3, 3.0])
    assert len(made) == 1


def test_words_are_read_only_where_there_is_a_choice(monkeypatch):
    texts, y = corpus(30)
    assert len(auto(kernel="fast").fit(texts, y).kernel_.views) == 1
    monkeypatch.setattr("textsvm.text.documents.find_words", lambda *_: pytest.fail("words were read"))
    auto(kernel="fast").fit(texts, y)
