"""The kernel and C that are chosen where the user names none."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import textsvm
from textsvm import SVC, Compute, GappedKmers, InputError, Spectrum, Sum
from textsvm.choice import choose, shortlist
from textsvm.choice import choose as trial_module
from textsvm.choice.choose import FEWEST, FOLDS, MOST_TRIED, Trial, TrialExamples, Trials
from textsvm.choice.shortlist import Recipe
from textsvm.evaluation.explanation import explain
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spelling import spell
from textsvm.runtime.device import select
from textsvm.sources.texts import TextSource
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


@pytest.mark.slow
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
    assert any(leaf.tokens == "words" for leaf in model.kernel_.structure.leaves)
    fast = auto(kernel="fast").fit(texts[:36], y[:36]).score(texts[36:], y[36:])
    assert auto().fit(texts[:36], y[:36]).score(texts[36:], y[36:]) > fast


def test_the_sentence_says_what_was_chosen(model):
    texts, _ = corpus()
    assert "\n" not in model.chosen_
    assert f"C = {model.C_:.3g}" in model.chosen_
    assert f"{FOLDS}-fold cross-validation on {len(texts)} texts" in model.chosen_


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("recipe", [Recipe(odds=True), Recipe("overlap"), Recipe("gapped")], ids=str)
def test_trials_are_cross_validation(n_classes, recipe, monkeypatch):
    monkeypatch.setattr(trial_module, "TOLERANCE", 1e-4)
    texts, y = corpus(60, n_classes)
    texts = [text[-20:] for text in texts]
    y = np.where(np.arange(60) % 7 == 0, (y + 1) % n_classes, y)  # some labels are wrong
    weight = np.where(np.arange(60) % 5 == 0, 3.0, 0.5)
    fold = np.arange(60) // 3 % FOLDS
    examples = TrialExamples(encode(texts).with_classes(y), y, n_classes, weight, fold)
    trials = Trials(examples, select("cpu")).run([recipe], [3.0, 0.01, 0.3])  # in no order
    assert [trial.C for trial in trials] == [3.0, 0.01, 0.3]
    for trial in trials:
        right = 0
        for k in range(FOLDS):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            alone = SVC(recipe.kernel(), trial.C, normalise="none", device="cpu", multiclass="ovr", tol=1e-4)
            alone.fit([texts[i] for i in train], y[train], sample_weight=weight[train])
            right += (alone.predict([texts[i] for i in test]) == y[test]).sum()
        assert trial.accuracy == pytest.approx(right / 60)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("recipe", [Recipe(odds=True), Recipe("overlap"), Recipe("gapped")], ids=str)
def test_decisions_of_a_fold_do_not_depend_on_its_labels(n_classes, recipe):
    texts, y = [text[-20:] for text in corpus(60)[0]], np.random.default_rng(0).integers(0, n_classes, 60)
    fold, decided = np.arange(60) % FOLDS, []
    for change in range(n_classes):
        target = np.where(fold == 1, (y + change) % n_classes, y)
        examples = TrialExamples(encode(texts).with_classes(target), target, n_classes, np.ones(60), fold)
        trials, kernel = Trials(examples, select("cpu")), recipe.kernel()
        gram = None if kernel.features is not None else trials._gram(recipe, kernel)
        if gram is None:
            trials.count(kernel)
        decided.append(trials._values(kernel, gram, 1, [1.0, 30.0]))
    for other in decided[1:]:
        np.testing.assert_array_equal(other, decided[0])


def test_features_of_the_training_part_do_not_depend_on_the_rest():
    texts, y = corpus(30)
    train, grams = np.arange(20), []
    for rest in (texts[20:], ["the same words"] * 10):
        examples = TrialExamples(
            encode([*texts[:20], *rest]).with_classes(y), y, 2, np.ones(30), np.zeros(30)
        )
        trials, kernel = Trials(examples, select("cpu")), Recipe(odds=True).kernel()
        trials.count(kernel)
        rows = trials.rows(kernel, train).take(train)
        x = rows.x.dot(np.eye(rows.x.n_features))
        grams.append(x @ x.T + np.diag(rows.ridge))
    np.testing.assert_allclose(grams[1], grams[0], rtol=1e-5, atol=1e-6)


class Scripted:
    """Trials whose accuracies are given, 0.5 where they are not."""

    def __init__(self, accuracies):
        self.accuracies, self.rounds = accuracies, []

    def run(self, recipes, penalties, progress=None):
        self.rounds.append((list(recipes), penalties))
        return [Trial(r, C, self.accuracies.get((r, C), 0.5)) for r in recipes for C in penalties]


PLAIN, WITH_WORDS, ODDS, BOTH = Recipe(), Recipe(words=True), Recipe(odds=True), Recipe(words=True, odds=True)


@pytest.mark.parametrize(
    ("look", "accuracies", "rounds", "best"),
    [
        (
            (100, 20),
            {(WITH_WORDS, 2.0): 0.7, (ODDS, 2.0): 0.8, (ODDS, 6.0): 0.9},
            [[PLAIN, WITH_WORDS], [ODDS, BOTH], [Recipe("presence", odds=True)], [ODDS]],
            (ODDS, 6.0),
        ),
        (
            (100, 20),
            {(WITH_WORDS, 2.0): 0.7, (Recipe("presence", words=True), 2.0): 0.8},
            [[PLAIN, WITH_WORDS], [ODDS, BOTH], [Recipe("presence", True)], [Recipe("presence", True)]],
            (Recipe("presence", words=True), 2.0),
        ),
        ((100, 1), {}, [[PLAIN], [ODDS], [Recipe("presence")], [PLAIN]], (PLAIN, 2.0)),  # of equals the first
        (
            (30, 5),
            {(WITH_WORDS, 2.0): 0.7, (BOTH, 2.0): 0.7, (WITH_WORDS, 2 / 3): 0.75},
            [[PLAIN, WITH_WORDS], [ODDS, BOTH, Recipe("overlap", words=True)], [], [WITH_WORDS]],
            (WITH_WORDS, 2 / 3),
        ),
    ],
)
def test_each_round_is_around_the_best_so_far(look, accuracies, rounds, best):
    trials = Scripted(accuracies)
    result = choose._rounds(trials, shortlist.TextStatistics(*look, "", 0.0), 2.0, None)
    assert trials.rounds == [*((recipes, [2.0]) for recipes in rounds[:-1]), (rounds[-1], [2 / 3, 6.0])]
    assert len(result) == sum(map(len, rounds)) + 1
    assert (choose._best(result).recipe, choose._best(result).C) == best


@pytest.fixture
def examples_of_trials(monkeypatch):
    """The examples of trials that are only scripted."""
    given = []

    class Recorded(Scripted):
        def __init__(self, examples, device):
            super().__init__({(ODDS, 2.0): 0.8, (ODDS, 6.0): 0.9})
            given.append(examples)

    monkeypatch.setattr(choose, "Trials", Recorded)
    return given


def test_trials_are_of_a_part_of_the_texts_with_their_own_classes_and_weights(examples_of_trials):
    numbers = np.random.default_rng(0).permutation(2000)
    read = Sum([Spectrum(1), Spectrum(1, tokens="words")])
    documents = TextSource(read, TextForm("none", True, None)).encode([f"text {i}" for i in numbers], None)
    target, weight = numbers % 3, numbers / 10.0
    choice = choose.choose(documents, target, weight, select("cpu"), 2.0, 0.0)
    assert (choice.C, spell(choice.kernel)) == (6.0, spell(ODDS.kernel()))
    assert choice.description == choose._sentence(choice.trials, Trial(ODDS, 6.0, 0.9), FEWEST, 2000)
    [examples] = examples_of_trials
    parts = examples.documents.documents.values()
    assert len(parts) == 2
    for part in parts:
        own = np.array([int(part.text(i).split()[1]) for i in range(len(part))])
        assert len(own) == FEWEST
        np.testing.assert_array_equal(examples.target, own % 3)
        np.testing.assert_array_equal(part.classes, own % 3)
        np.testing.assert_array_equal(examples.weight, own / 10)
    assert examples.n_classes == 3
    np.testing.assert_array_equal(np.bincount(examples.fold), [FEWEST / FOLDS] * FOLDS)


def test_the_budget_bounds_the_texts_of_trials():
    documents = encode(["a few words of a text"] * 50)
    seen = shortlist.describe(documents, documents)
    some, twice = (choose._affordable(documents, 2, seen, seconds) for seconds in (100.0, 200.0))
    assert twice == pytest.approx(2 * some, rel=1e-4)
    assert choose._affordable(documents, 9, seen, 100.0) < some
    assert choose._affordable(documents, 2, replace(seen, words=1.0), 100.0) > some
    assert choose._affordable(documents, 2, seen, 0.0) == FEWEST
    assert choose._affordable(documents, 300, seen, 0.0) == 300 * 2 * FOLDS
    symbols = documents.lengths.sum()
    assert choose.alternative(documents, 2) == pytest.approx(symbols * (2.0e-6 + 2 * 5.5e-8))
    assert choose.alternative(documents, 5) == pytest.approx(symbols * (2.0e-6 + 10 * 5.5e-8))


@pytest.mark.parametrize(
    ("alternative", "seconds", "allowed", "n"),
    [(0.0, None, 1.0, 30), (10.0, None, 5.0, 30), (10.0, 0.25, 0.25, 48), (10.0, 0.0, 0.0, 48)],
)
def test_trials_take_half_the_time_of_the_alternative_or_the_budget(
    alternative, seconds, allowed, n, examples_of_trials, monkeypatch
):
    given = []
    monkeypatch.setattr(choose, "MOST", 30)
    monkeypatch.setattr(choose, "alternative", lambda *_: alternative)
    monkeypatch.setattr(choose, "_affordable", lambda *known: given.append(known[-1]) or 10**9)
    texts, y = corpus()
    auto(time_budget=seconds).fit(texts, y)
    assert given == [allowed]
    assert [len(examples.target) for examples in examples_of_trials] == [n]


def test_the_sentence_names_the_lead_over_the_first_kernel():
    first, best = Trial(PLAIN, 1.0, 0.75), Trial(WITH_WORDS, 3.0, 0.875)
    said = choose._sentence([first, best], best, 600, 1700)
    assert said == (
        "spectrum:1-5,log,idf+words:1-2,log,idf with C = 3 was chosen in 2 trials: 87.5 % right in 3-fold "
        "cross-validation on 600 of 1,700 texts, 12.5 points more than spectrum:1-5,log,idf with C = 1"
    )
    assert choose._sentence([first, first], first, 600, 600) == (
        "spectrum:1-5,log,idf with C = 1 was chosen in 2 trials: 75.0 % right in 3-fold cross-validation on "
        "600 texts"
    )


@pytest.mark.parametrize("name", ["two of one", "each its own"])
def test_nothing_is_tried_where_no_class_has_two_texts(name, monkeypatch):
    monkeypatch.setattr(choose, "Trials", lambda *_: pytest.fail("there were trials"))
    texts, y = LITTLE[name]
    model = auto(C=2.0).fit(texts, y)
    assert model.chosen_.endswith("with C = 2 was taken without trials: no class has two texts")
    assert (spell(model.kernel_), model.C_) == (spell(PLAIN.kernel()), 2.0)


def test_kernels_are_tried_where_a_class_has_one_text(examples_of_trials):
    auto().fit(*LITTLE["a class of one"])
    assert len(examples_of_trials) == 1


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
        assert model.gram_description_.startswith("none, ")
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
    name = shortlist.TextStatistics(10.0, 1.0, "", 0.0)
    sentence = shortlist.TextStatistics(100.0, 20.0, "", 0.0)
    strand = shortlist.TextStatistics(100.0, 1.0, "acgt", 1.0)
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
        shortlist.TextStatistics(30.0, 5.0, "acgt", 1.0),
        shortlist.TextStatistics(100.0, 1.0, "", 0.0),
    ):
        first = shortlist.first_round(seen)
        for best in first:
            second = shortlist.second_round(seen, best)
            for better in (best, *second):
                third = shortlist.third_round(seen, better)
                assert len(first) + len(second) + len(third) + 1 <= MOST_TRIED


def test_texts_are_looked_at_for_the_short_list():
    texts = ["acgt" * 10, "acgtacgt" * 10, "a cg t"]
    look = shortlist.describe(encode(texts), encode(["w"] * 3))
    assert (look.characters, look.words, look.letters) == (pytest.approx(126 / 3), 1.0, "acgt")
    assert look.gapped_seconds > 0
    for letters, few in (("abcdefgh", True), ("abcdefghi", False)):
        look = shortlist.describe(encode([letters] * 2), encode(["w"] * 2))
        assert look.letters == (letters if few else "")


def test_bounds_of_the_short_list():
    look = shortlist.TextStatistics(40.0, 2.0, "acgu", 120.0)
    assert look.is_short
    assert look.has_words
    assert look.is_sequence
    assert not replace(look, characters=40.5).is_short
    assert not replace(look, words=1.9).has_words
    assert replace(look, characters=20.0).is_sequence
    for change in ({"characters": 19.5}, {"letters": ""}, {"gapped_seconds": 121.0}):
        assert not replace(look, **change).is_sequence
    # Short texts are compared by what they share, long ones by long substrings.
    assert Recipe("overlap") in shortlist.second_round(look, PLAIN)
    assert shortlist.third_round(look, PLAIN) == []
    long = replace(look, characters=41.0)
    assert all(recipe.first != "overlap" for recipe in shortlist.second_round(long, PLAIN))
    assert shortlist.third_round(long, BOTH) == [Recipe("presence", words=True, odds=True)]
    assert shortlist.third_round(long, Recipe("gapped")) == []


def test_recipes_are_kernels():
    expected = {
        PLAIN: "spectrum:1-5,log,idf",
        BOTH: "spectrum:1-5,log,idf,odds+words:1-2,log,idf,odds",
        Recipe("presence", odds=True): "spectrum:3-8,presence,idf,odds",
        Recipe("overlap", words=True): "spectrum:1-7,intersection+words:1-2,log,idf",
        Recipe("gapped"): "gapped:9",
        Recipe("gapped", strands=True): "gapped:9,canonical",
    }
    assert {recipe: spell(recipe.kernel()) for recipe in expected} == expected


def test_a_gram_is_made_once_for_all_values_of_c(monkeypatch):
    made = []
    gram = GappedKmers.rows
    monkeypatch.setattr(GappedKmers, "rows", lambda self, *given: made.append(self) or gram(self, *given))
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("acgt"), 30)) + ("acgtaacct" if k % 2 else "") for k in range(40)]
    documents = encode(texts).with_classes(np.arange(40) % 2)
    trials = Trials(
        TrialExamples(documents, np.arange(40) % 2, 2, np.ones(40), np.arange(40) // 2 % FOLDS), select("cpu")
    )
    trials.run([Recipe("gapped")], [1.0])
    trials.run([Recipe("gapped")], [0.3, 3.0])
    assert len(made) == 1


def test_words_are_read_only_where_there_is_a_choice(monkeypatch):
    texts, y = corpus(30)
    assert len(auto(kernel="fast").fit(texts, y).kernel_.structure.views) == 1
    monkeypatch.setattr("textsvm.text.documents.find_words", lambda *_: pytest.fail("words were read"))
    auto(kernel="fast").fit(texts, y)
