"""The kernel and C that are chosen where the user names none."""

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from loading import reloaded
from refusals import refuses

from textsvm import SVC, Compute
from textsvm.choice import candidates, choose
from textsvm.choice import choose as trial_module
from textsvm.choice.candidates import Candidate
from textsvm.choice.choose import FACTORS, FEWEST, FOLDS, Trial, Trials
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.spelling import spell
from textsvm.solvers.problems import Classification
from textsvm.sources.texts import TextSource
from textsvm.text.documents import encode
from textsvm.training.train import default_bias, rare_class_bias


def corpus(n=48, n_classes=2, seed=0):
    """Sentences, some of whose words tell the class."""
    rng = np.random.default_rng(seed)
    words = np.array(["".join(rng.choice(list("etaoinshrdlu"), 5)) for _ in range(40)])
    y = np.arange(n) % n_classes
    own = [words[rng.integers(4 * c, 4 * c + 4, 3)] for c in y]
    return [" ".join([*rng.choice(words, 5), *some]) for some in own], y


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


def sequences(n=48, n_classes=2):
    """DNA in which a motif tells the class."""
    rng = np.random.default_rng(0)
    y, motifs = np.arange(n) % n_classes, ["acgtaacct", "ttgacagta", "ggcatcaga"]
    return ["".join(rng.choice(list("acgt"), 25)) + motifs[c] for c in y], y


def auto(**parameters):
    return SVC(**({"device": "cpu"} | parameters))


def tried(**parameters):
    """The default with trials."""
    return auto(**({"time_budget": 1.0} | parameters))


def two_views(texts):
    """Texts with the views of the default for texts with words."""
    return TextSource(Candidate(words=True).kernel(), TextForm("none", True, None)).encode(texts, None)


@pytest.fixture(scope="module")
def model():
    texts, y = corpus()
    return tried().fit(texts, y)


SENTENCES = Candidate(words=True)
DNA = Candidate(dna=True, plain=1 / 3, loss="hinge")


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


@pytest.mark.parametrize("budget", [None, 0.0])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_choice_is_the_same_again_and_for_any_number_of_threads(n_classes, budget):
    texts, y = corpus(60, n_classes)
    first, *others = [auto(n_jobs=jobs, time_budget=budget).fit(texts, y) for jobs in (None, 1, 1, 2)]
    assert first.chosen_
    for other in others:
        assert (other.chosen_, other.C_) == (first.chosen_, first.C_)
        np.testing.assert_array_equal(other.decision_function(texts), first.decision_function(texts))


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, 0.0])
@pytest.mark.parametrize("multiclass", ["ovr", "ovo", "crammer-singer"])
@pytest.mark.parametrize("name", LITTLE)
def test_no_texts_stop_the_default(name, multiclass, budget):
    texts, y = LITTLE[name]
    model = auto(multiclass=multiclass, time_budget=budget).fit(texts, y)
    assert model.chosen_
    assert set(model.predict([*texts, "", "☃ new"])) <= set(y)
    assert np.isfinite(model.decision_function([*texts, "", "☃ new"])).all()


@pytest.mark.parametrize("kernel", ["auto", "fast"])
@pytest.mark.parametrize("texts", [["  ", "\t\n", " "], ["", "", ""]])
def test_texts_of_white_space_alone_are_refused_in_a_sentence(texts, kernel):
    refuses("every document is empty", auto(kernel=kernel).fit, texts, [0, 1, 0])


def test_words_are_beside_characters_in_texts_with_words():
    texts, y = orders()
    model = auto().fit(texts[:36], y[:36])
    assert {leaf.tokens for leaf in model.kernel_.structure.leaves} == {"characters", "words"}
    assert model.score(texts[36:], y[36:]) > 0.9
    names = auto().fit([text.replace(" ", "") for text in texts], y)
    assert {leaf.tokens for leaf in names.kernel_.structure.leaves} == {"characters"}


def test_words_are_separated_by_white_space():
    assert candidates.has_words(["two words", "and three more"])
    assert candidates.has_words(["", "four words in one", "none", ""]) is False
    assert candidates.has_words(["also\nlines", "and\ttabs"])
    assert not candidates.has_words(["朝食は普通でした。また行きたい。"] * 3)
    assert not candidates.has_words(["CC(=O)Oc1ccccc1C(=O)O", "a"])


def test_words_are_counted_in_the_beginning_of_a_text():
    beginning = "x" * candidates.BEGINNING
    assert not candidates.has_words([beginning + " and many more words"])
    assert candidates.has_words([beginning[:-2] + " a word beyond"])


def test_dna_has_kernels_of_its_own():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACGT"), 30)) for _ in range(40)]
    assert candidates.is_dna(texts)
    assert candidates.is_dna([text.replace("T", "U").lower() + "\n" for text in texts])
    assert candidates.is_dna([*texts, "ACGTRYKM" * 4])
    assert candidates.is_dna([text + "R" for text in texts])
    assert not candidates.is_dna(["ACGTRYKM" * 4] * 20)
    assert not candidates.is_dna([*texts, "a sentence"])
    assert not candidates.is_dna([text[:10] for text in texts])
    assert candidates.auto_candidate(texts) == replace(DNA, C=7.5)
    fast = candidates.fast_candidate(texts)
    assert (spell(fast.kernel()), fast.C) == ("gapped:7,m=2,canonical", 7.5)
    y = np.array(["GAT" in text or "ATC" in text for text in texts])
    model = auto().fit(texts, y)
    assert model.score(texts, y) == 1
    assert model.chosen_.endswith("the default for DNA")


@pytest.mark.parametrize("kernel", ["auto", "fast"])
def test_capitals_of_dna_without_a_normal_form_are_ordinary_letters(kernel):
    texts, y = sequences()
    model = auto(kernel=kernel, normalise="none")
    assert model.fit(texts, y).chosen_.endswith("the default for DNA")
    capitals = [text.upper() for text in texts]
    assert model.fit(capitals, y).chosen_.endswith("the default for texts without words")
    assert auto(kernel=kernel).fit(capitals, y).chosen_.endswith("the default for DNA")


def test_few_texts_have_a_larger_C():
    of_n = np.array([candidates.penalty(1000, n) for n in range(1100)])
    assert set(of_n[:101]) == {10}
    assert set(of_n[1000:]) == {1}
    assert (np.diff(of_n) <= 0).all()
    assert (of_n[1:] / of_n[:-1] > 0.99 - 1e-9).all()  # no jump
    for length in (25, 100, 900):
        texts = ["one two " + "x" * (length - 8)] * 400
        penalties = [candidates.auto_candidate(texts).C, candidates.fast_candidate(texts).C]
        assert penalties == pytest.approx([length**0.5 / 4, 1.5 * length**0.5 / 4])
    assert [candidates.auto_candidate(["acgt" * 10] * n).C for n in (20, 100, 400)] == [10, 3, 1]


def test_few_and_long_texts_have_less_of_the_plain_kernel_and_of_words():
    def shares(n, length, n_classes):
        texts = ["one two " + "x" * (length // 2 - 8 + k % 2 * length) for k in range(n)]
        chosen = candidates.auto_candidate(texts, n_classes=n_classes)
        return chosen.plain, (1 - chosen.plain) * chosen.word_share

    assert shares(100, 100, 2) == shares(300, 900, 2) == shares(300, 100, 6) == (0.5, 0.25)
    assert shares(6, 8100, 2) == pytest.approx((0.1, 0.0))
    for n_classes, length in ((2, 100), (9, 2500)):
        of_n = np.array([shares(n, length, n_classes) for n in range(2, 2500, 7)])
        assert (np.diff(of_n, axis=0) >= -1e-9).all()
        assert (np.abs(np.diff(of_n[1:], axis=0)) < 0.09).all()  # no jump
    # 5 sqrt(length) / 12 texts of each class have half of the way.
    assert shares(50, 900, 4) == pytest.approx((0.3, 0.175), abs=0.006)
    assert candidates.auto_candidate(["acgt" * 10] * 6).plain == 1 / 3
    assert candidates.auto_candidate(["", ""]).plain <= 0.5


@pytest.mark.parametrize("kernel", ["auto", "fast"])
def test_few_pieces_of_longer_works_learn_no_weights(kernel):
    def text(k, length):
        return "".join(random.Random(k).choices("abcdefgh  ", k=length))

    lengths = {
        "pieces": [5000] * 8, "about": [4500, 5000, 5500, 4600] * 2, "articles": [800, 5000, 3000, 2500] * 2,
        "short": [280] * 8, "many": [1100] * 400,
    }  # fmt: skip
    chosen = {}
    for name, sizes in lengths.items():
        texts = [text(k, size) for k, size in enumerate(sizes)]
        chosen[name] = SVC(kernel).fit(texts, [k % 2 for k in range(len(texts))])
    for name, model in chosen.items():
        assert ("of longer works" in model.chosen_) == (name in ("pieces", "about")), name
        assert ("idf" in model.chosen_) == (name not in ("pieces", "about")), name
        assert ("shared" in model.chosen_) == (name in ("pieces", "about")), name
    pieces = [text(0, 3000)] * 3000
    of_groups = [candidates.auto_candidate(pieces, n_classes=5, n_groups=n).C for n in (20, None)]
    assert of_groups == [10, 100 * 3000**0.5 / 3000]


@pytest.mark.parametrize("kernel", ["auto", "fast"])
def test_texts_of_few_groups_learn_no_weights(kernel):
    random.seed(1)
    texts = ["".join(random.choices("abcdefgh  ", k=random.randint(20, 200))) for _ in range(160)]
    labels, few, many = ([k % n for k in range(160)] for n in (2, 16, 80))
    for groups, learns in ((few, False), (many, True), (None, True)):
        model = SVC(kernel).fit(texts, labels, groups=groups)
        assert ("idf" in model.chosen_) == ("odds" in model.chosen_) == learns, groups
        assert model.chosen_.endswith("for texts of few groups") != learns
        largest = 10 if kernel == "auto" else 15  # however many pieces a book has
        assert (largest == model.C_) != learns


def test_kernels_of_the_default():
    odds = "spectrum:1-5,log,idf,odds,keep_case"
    words = "words:1-2,log,idf,odds,keep_case"
    plain = "spectrum:1-5,intersection"
    named = {
        SENTENCES: f"0.25 {odds} + 0.25 {words} + 0.5 {plain}",
        replace(SENTENCES, plain=1 / 3): f"{odds}+{words}+{plain}",
        Candidate(): f"{odds}+{plain}",
        replace(SENTENCES, plain=0.0): f"{odds}+{words}",
        Candidate(plain=0.0): odds,
        replace(SENTENCES, plain=1.0): plain,
        replace(SENTENCES, plain=0.2, word_share=0.25): f"0.6 {odds} + 0.2 {words} + 0.2 {plain}",
        replace(SENTENCES, word_share=0.0): f"{odds}+{plain}",
        replace(SENTENCES, plain=0.0, word_share=0.0): odds,
        DNA: "0.667 gapped:7,m=2,canonical + 0.333 spectrum:1-5,intersection",
    }
    for candidate, expected in named.items():
        assert spell(candidate.kernel()) == expected


@pytest.mark.parametrize("kernel", ["auto", "fast"])
def test_the_default_is_the_machine_of_its_kernel(kernel):
    texts, y = corpus(60, 3)
    model = auto(kernel=kernel, C=0.5, multiclass="ovr").fit(texts, y)
    default = (
        candidates.auto_candidate(texts, n_classes=3)
        if kernel == "auto"
        else candidates.fast_candidate(texts)
    )
    assert model.C_ == 0.5 * default.C
    assert model.chosen_ == default.description(0.5)
    assert model.model_.record.held_out_accuracy is None
    assert model.loss_ == default.loss
    named = auto(kernel=default.kernel(), C=model.C_, loss=default.loss, multiclass="ovr").fit(texts, y)
    assert model.kernel_.get_params().keys() == named.kernel_.get_params().keys()
    new = [*corpus(9, 3, 1)[0], "", "☃"]
    np.testing.assert_allclose(model.decision_function(new), named.decision_function(new), atol=5e-2)


def test_biases_favour_rare_classes():
    np.testing.assert_allclose(rare_class_bias(np.array([3000.0, 1000.0]), 4000), [0.025 * np.log(3)])
    few = [rare_class_bias(np.array([0.75, 0.25]), n)[0] / (0.025 * np.log(3)) for n in (8, 100, 250, 1000)]
    np.testing.assert_allclose(few, [10**0.5, 10**0.5, 2, 1])
    bias = rare_class_bias(np.array([30.0, 10.0, 10.0]), 50)
    assert bias[0] < 0 < bias[1] == bias[2]
    assert bias.sum() == pytest.approx(0)
    texts, y = corpus(60, 3)
    weight = np.where(y == 0, 5.0, 1.0)
    for multiclass, moved in (("ovr", rare_class_bias(np.array([100.0, 20, 20]), 60)), ("ovo", 0)):
        model = auto(multiclass=multiclass, tol=1e-6).fit(texts, y, sample_weight=weight)
        kernel = model.kernel_.__sklearn_clone__()
        named = auto(kernel=kernel, C=model.C_, loss=model.loss_, multiclass=multiclass, tol=1e-6)
        named.fit(texts, y, sample_weight=weight)
        np.testing.assert_allclose(model.intercept_ - named.intercept_, moved, atol=1e-3)
    assert max(solution.violation for solution in model.solutions_) <= 20 * model.tol


def test_biases_depend_on_the_number_of_texts_and_not_on_the_sum_of_their_weights():
    problem = Classification(np.arange(200), np.repeat([0, 1], [150, 50]), 2, 1.0, np.ones(200), "ovr")
    unit = default_bias(problem)
    np.testing.assert_allclose(unit, [0.025 * np.log(3) * 5**0.5])
    for factor in (0.01, 3.0, 1000.0):
        np.testing.assert_allclose(default_bias(replace(problem, weight=np.full(200, factor))), unit)
    weight = np.ones(200)
    weight[100:150] = 0  # 100 texts of the first class and 50 of the second count
    bias = default_bias(replace(problem, weight=weight))
    np.testing.assert_allclose(bias, [0.025 * np.log(2) * (1000 / 150) ** 0.5])


def test_the_sentence_says_what_was_chosen(model):
    texts, _ = corpus()
    assert "\n" not in model.chosen_
    assert f"C = {model.C_:.3g}" in model.chosen_
    assert f"{FOLDS}-fold cross-validation on {len(texts)} texts" in model.chosen_


@pytest.mark.parametrize(
    ("candidate", "n_classes"),
    [
        (SENTENCES, 2),
        pytest.param(SENTENCES, 3, marks=pytest.mark.slow),
        pytest.param(Candidate(plain=1.0), 2, marks=pytest.mark.slow),
        pytest.param(DNA, 3, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_trials_are_cross_validation(candidate, n_classes, monkeypatch):
    monkeypatch.setattr(trial_module, "TOLERANCE", 1e-6)  # a text has a value of 1e-5
    texts, y = sequences(60, n_classes) if candidate.dna else corpus(60, n_classes)
    y = np.where(np.arange(60) % 7 == 0, (y + 1) % n_classes, y)  # some labels are wrong
    weight = np.where(np.arange(60) % 5 == 0, 3.0, 0.5)
    fold = np.arange(60) // 3 % FOLDS
    documents = TextSource(candidate.kernel(), TextForm("none", True, None)).encode(texts, None)
    examples = Trials(documents.with_classes(y), y, n_classes, weight, fold)
    trials = examples.run([candidate], [3.0, 0.01, 0.3])  # in no order
    assert [trial.C for trial in trials] == [candidate.C * factor for factor in (3.0, 0.01, 0.3)]
    for trial in trials:
        right = 0
        for k in range(FOLDS):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            alone = SVC(candidate.kernel(), trial.C, loss=candidate.loss, normalise="none", device="cpu")
            alone.set_params(multiclass="ovr", tol=1e-4)
            alone.fit([texts[i] for i in train], y[train], sample_weight=weight[train])
            right += (alone.predict([texts[i] for i in test]) == y[test]).sum()
        assert trial.accuracy == pytest.approx(right / 60)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("candidate", [SENTENCES, DNA], ids=str)
def test_decisions_of_a_fold_do_not_depend_on_its_labels(n_classes, candidate):
    texts = sequences(60)[0] if candidate.dna else corpus(60)[0]
    y, fold, decided = np.random.default_rng(0).integers(0, n_classes, 60), np.arange(60) % FOLDS, []
    for change in range(n_classes):
        target = np.where(fold == 1, (y + change) % n_classes, y)
        documents = TextSource(candidate.kernel(), TextForm("none", True, None)).encode(texts, None)
        trials = Trials(documents.with_classes(target), target, n_classes, np.ones(60), fold)
        kernel = candidate.kernel()
        trials.count(kernel)
        decided.append(trials.decide(kernel, 1, [1.0, 30.0], candidate.loss))
    for other in decided[1:]:
        np.testing.assert_array_equal(other, decided[0])


def test_features_of_the_training_part_do_not_depend_on_the_rest():
    texts, y = corpus(30)
    train, grams = np.arange(20), []
    for rest in (texts[20:], ["the same words"] * 10):
        documents = two_views([*texts[:20], *rest])
        trials = Trials(documents.with_classes(y), y, 2, np.ones(30), np.zeros(30))
        kernel = SENTENCES.kernel()
        trials.count(kernel)
        rows = trials.rows(kernel, train).take(train)
        x = rows.x.dot(np.eye(rows.x.n_features))
        grams.append(x @ x.T + np.diag(rows.ridge))
    np.testing.assert_allclose(grams[1], grams[0], rtol=1e-5, atol=1e-6)


class Scripted(Trials):
    """Trials of C = 2 whose losses are given, 0.5 where they are not."""

    losses: ClassVar[dict] = {}
    given: ClassVar[list] = []

    def run(self, recipes, factors, progress=None):
        self.given.append(self)
        loss = self.losses.get
        losses = [(r, f, loss((r.plain, f / 2), 0.5)) for r in recipes for f in factors]
        return [Trial(r, r.C * f, 1 - own, own) for r, f, own in losses]


@pytest.fixture
def scripted(monkeypatch):
    """The class of trials that are only scripted."""
    monkeypatch.setattr(choose, "Trials", Scripted)
    monkeypatch.setattr(Scripted, "given", [])
    return Scripted


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ({}, (0.5, 1.0)),  # among equals the default
        ({(0.2, 2.0): 0.3, (0.7, 2 / 3): 0.3}, (0.2, 2.0)),
        ({(0.5, 2 / 3): 0.4, (1.0, 2 / 3): 0.39}, (1.0, 2 / 3)),
    ],
)
def test_the_smallest_loss_wins_and_the_default_a_tie(losses, best, scripted, monkeypatch):
    monkeypatch.setattr(Scripted, "losses", losses)
    texts, y = corpus()
    choice = choose.choose(SENTENCES, two_views(texts).with_classes(y), (None, None), np.ones(48), 2.0, 1.0)
    assert len(choice.trials) == len(SENTENCES.alternatives()) * len(FACTORS)
    assert (choice.trials[0].candidate, choice.trials[0].C) == (SENTENCES, 2 * SENTENCES.C)
    assert pytest.approx(2 * SENTENCES.C * best[1]) == choice.C
    assert spell(choice.kernel) == spell(replace(SENTENCES, plain=best[0]).kernel())
    right = 100 * (1 - min(losses.values(), default=0.5))
    assert f" {right:.1f} % right in 3-fold cross-validation on 48 texts" in choice.description
    assert (", the default 50.0 %" in choice.description) == bool(losses)


def test_errors_are_named_by_the_part_that_is_added():
    weighed = [0.0, 0.3], [(0, 0.4), (2, 0.1)]
    weighing = SimpleNamespace(
        rows=np.arange(9),
        classes=np.arange(9) % 2,
        joined=lambda default, of: (default, None),
        gram=str,
        weights=lambda grams: weighed,
    )
    parts = tuple((0.0, SENTENCES.kernel()) for _ in range(2))
    _, sentence = choose.weigh_parts(replace(SENTENCES, parts=parts), weighing, ["first", "second"], str)
    assert "; first with weight 0, second with weight 0.3: " in sentence
    assert sentence.endswith("on 9 texts (errors, too high with few texts a class: 40.0%, with second 10.0%)")


def test_the_loss_is_that_of_the_best_scale():
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 400)
    values = (2 * target - 1 + rng.normal(size=400))[:, None]
    accuracy, loss = choose._judge(values, target)
    assert accuracy == np.mean((values[:, 0] > 0) == target)
    assert choose._judge(7 * values, target) == pytest.approx((accuracy, loss), rel=1e-4)
    expected = min(
        np.logaddexp(0, -s * (2 * target - 1) * values[:, 0]).mean() for s in np.linspace(1, 4, 500)
    )
    assert loss == pytest.approx(expected, rel=1e-4)
    three = np.hstack([np.zeros((400, 1)), values, np.full((400, 1), -1e3)])
    assert choose._judge(three, target)[1] == pytest.approx(loss, rel=1e-2)


def test_trials_are_of_a_part_of_the_texts_with_their_own_classes_and_weights(scripted):
    numbers = np.random.default_rng(0).permutation(2000)
    documents = two_views([f"text {i}" for i in numbers])
    target, weight = numbers % 3, numbers / 10.0
    choose.choose(SENTENCES, documents.with_classes(target), (None, None), weight, 2.0, 0.0)
    [examples] = scripted.given
    parts = examples.documents.documents.values()
    assert len(parts) == 3
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
    some, twice = (choose._affordable(documents, 2, 4, seconds) for seconds in (100.0, 200.0))
    assert twice == pytest.approx(2 * some, rel=1e-4)
    assert choose._affordable(documents, 9, 4, 100.0) < some
    assert choose._affordable(documents, 2, 3, 100.0) == pytest.approx(4 / 3 * some, rel=1e-4)
    assert choose._affordable(documents, 2, 4, 0.0) == FEWEST
    assert choose._affordable(documents, 300, 4, 0.0) == 300 * 2 * FOLDS


def test_a_budget_too_short_for_a_few_texts_leaves_the_default(monkeypatch):
    monkeypatch.setattr(choose, "Trials", lambda *_: pytest.fail("there were trials"))
    documents = encode(["a few words of a text " * 500] * 8)
    given = (documents.with_classes(np.arange(8) % 2), (None, None), np.ones(8), 2.0)
    needed = 8 * choose._seconds_per_text(documents, 2, 4)
    assert needed > 1
    choice = choose.choose(DNA, *given, 0.9 * needed)
    assert (choice.C, choice.trials, choice.accuracy) == (2 * DNA.C, (), None)
    assert choice.description == (
        f"{DNA.description(2.0)}, without trials: those of 8 texts are predicted to take {needed:,.0f} s, "
        "longer than the budget"
    )
    monkeypatch.setattr(choose, "Trials", Scripted)
    assert choose.choose(DNA, *given, 1.1 * needed).trials


@pytest.mark.parametrize("name", ["two of one", "each its own"])
def test_nothing_is_tried_where_no_class_has_two_texts(name, monkeypatch):
    monkeypatch.setattr(choose, "Trials", lambda *_: pytest.fail("there were trials"))
    texts, y = LITTLE[name]
    model, default = tried(C=2.0).fit(texts, y), auto(C=2.0).fit(texts, y)
    assert (model.chosen_, model.C_) == (default.chosen_, 2 * candidates.auto_candidate(texts).C)


def test_kernels_are_tried_where_a_class_has_one_text(scripted):
    tried().fit(*LITTLE["a class of one"])
    assert len(scripted.given) == 1


def test_weights_of_texts_and_classes_count():
    texts, y = corpus(40)[0], np.random.default_rng(0).permutation(np.arange(40) % 2)
    plain = auto(C=0.01).fit(texts, y).decision_function(texts).mean()
    for model, weight in (
        (auto(C=0.01, class_weight={1: 10.0}), None),
        (auto(C=0.01), np.where(y == 1, 10.0, 1.0)),
    ):
        assert model.fit(texts, y, sample_weight=weight).decision_function(texts).mean() > plain + 0.1
    without = auto().fit(texts, y, sample_weight=np.where(np.arange(40) < 4, 0.0, 1.0))
    assert not set(without.support_) & set(range(4))
    refuses("nothing to learn the class", auto().fit, texts, y, sample_weight=(y == 1).astype(float))


def test_a_budget_of_nothing_still_chooses():
    texts, y = corpus(700)
    assert f"on {FEWEST} of 700 texts" in auto(time_budget=0).fit(texts, y).chosen_
    for budget in (-1, np.inf, "long", True):
        refuses("budget", auto(time_budget=budget).fit, texts[:4], y[:4])


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


def test_versions_of_a_text_share_a_fold(monkeypatch):
    base, _ = corpus(40)
    texts = [text + end for text in base for end in ("", "!", " and so on")]
    y = np.arange(120) % 3  # the version tells the class
    documents = two_views(texts)
    groups = choose.near_copies(documents, 1.0)
    np.testing.assert_array_equal(groups.reshape(40, 3), np.repeat(groups[::3, None], 3, axis=1))
    assert len(set(groups)) > 30
    of_user = choose.near_copies(documents, 1.0, np.arange(120) // 6).reshape(20, 6)
    assert (of_user == of_user[:, :1]).all()
    fold = choose._folds(y, groups).reshape(40, 3)
    assert (fold == fold[:, :1]).all()
    assert set(fold.ravel()) == set(range(FOLDS))
    monkeypatch.setattr(choose, "Trials", Scripted)
    monkeypatch.setattr(Scripted, "given", [])
    choose.choose(SENTENCES, documents.with_classes(y), (None, None), np.ones(120), 1.0, 1.0)
    [examples] = Scripted.given
    parts = next(iter(examples.documents.documents.values()))
    folds: dict[str, set[int]] = {}
    for i, tested in enumerate(examples.fold):
        folds.setdefault(parts.text(i).removesuffix(" and so on").removesuffix("!"), set()).add(int(tested))
    assert len(folds) == len(set(base))
    assert all(len(tested) == 1 for tested in folds.values())
    assert choose.near_copies(two_views([f"the same words {i}" for i in range(60)]), 1.0) is None
    monkeypatch.setattr(choose, "MIN_SECONDS", 1e-9)
    assert choose.near_copies(documents, 0.0) is None


@pytest.mark.parametrize(("copies", "grouped"), [(10, True), (11, False)])
def test_a_group_has_at_most_a_sixth_of_the_texts(copies, grouped):
    """Two groups in each fold, or folds are of unequal size."""
    rng = np.random.default_rng(0)
    others = ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 40)) for _ in range(60 - copies)]
    groups = choose.near_copies(two_views(["the same words"] * copies + others), 1.0)
    assert (groups is not None) == grouped
    assert groups is None or np.bincount(groups).max() == copies


@pytest.mark.parametrize("jobs", [1, 3])
def test_progress_of_the_choice_never_goes_back(jobs):
    seen = []
    tried(n_jobs=jobs).fit(*corpus(), progress=lambda *step: seen.append(step))
    steps = [(done, total) for stage, done, total in seen if stage == "choose"]
    assert len({total for _, total in steps}) == 1
    assert (np.diff([done for done, _ in steps]) >= 0).all()
    assert steps[-1][0] == steps[-1][1]


def test_the_default_has_the_hinge_loss_where_no_other_is_possible():
    texts, y = corpus(60, 3)
    small = Compute(solver="gram", memory=8000)
    for model in (auto(multiclass="crammer-singer"), auto(compute=small), auto(loss="hinge")):
        model.fit(texts, y)
        assert (model.loss_, model.C_) == ("hinge", 2 * candidates.auto_candidate(texts).C)
        assert "hinge loss" in model.chosen_
    refuses("kernel matrix that fits in memory", auto(loss="squared_hinge", compute=small).fit, texts, y)


def test_a_saved_model_keeps_the_penalty_that_was_used(tmp_path):
    used = []
    for made in (corpus(), orders(), LITTLE["empty ones"], LITTLE["a class of one"]):
        model = tried(C=2.0).fit(*made)
        loaded = reloaded(model, tmp_path / "model")
        assert loaded.C == loaded.C_ == model.C_
        assert loaded.loss_ == model.loss_ == "squared_hinge"
        used.append(model.C_)
    assert set(used) != {2.0}


def test_words_are_read_only_where_there_are_words(monkeypatch):
    texts, y = ["".join(text.split()) for text in corpus(30)[0]], corpus(30)[1]
    monkeypatch.setattr("textsvm.text.encoding.find_words", lambda *_: pytest.fail("words were read"))
    for kernel in ("auto", "fast"):
        views = auto(kernel=kernel).fit(texts, y).kernel_.structure.views
        assert {view.tokens for view in views} == {"characters"}
