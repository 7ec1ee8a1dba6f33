"""What holds for every training: order, weights and folds change nothing that they should not change."""

from dataclasses import replace

import numpy as np
import pytest
from test_choice import corpus
from test_verification import library

from textsvm import SVC, EditDistance, Spectrum, cross_validate
from textsvm.choice.candidates import Candidate
from textsvm.choice.choose import RIDGE, WEIGHTS, Trials, Weighing, choose
from textsvm.kernels.spelling import spell
from textsvm.model.rules import ClassRule, by_class, fit_scale
from textsvm.model.settings import ClassifierSettings, MultilabelSettings
from textsvm.selection import scoring
from textsvm.selection.grid import GridPoint
from textsvm.selection.search import GridSearch
from textsvm.selection.tuning import tune
from textsvm.solvers.problems import Machines
from textsvm.text.documents import encode
from textsvm.training import train as training
from textsvm.training.problems import fold_predictions, fold_values
from textsvm.training.targets import Target
from textsvm.training.thresholds import ACCURACY, GAIN, STEPS, choose_offsets
from textsvm.training.train import TARGET_PRIOR, decide_test_part, learn_from_values, with_scale

pytestmark = pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")


#: Three folds of 90 texts, in which the numbers of texts of a class differ.
FOLDS_OF_90 = [
    (np.flatnonzero(np.arange(90) % 3 != k), np.flatnonzero(np.arange(90) % 3 == k)) for k in range(3)
]


def imbalanced(n=90, seed=0):
    """Sentences of three classes, of which one has most texts, and a tenth has a wrong label."""
    texts, _ = corpus(n, 3, seed)
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 9 == 8, 2, (np.arange(n) % 9 > 5).astype(int))
    drawn, own = corpus(4 * n, 3, seed)
    texts = [drawn[np.flatnonzero(own == c)[i]] for i, c in enumerate(y)]
    return texts, np.where(rng.random(n) < 0.1, rng.integers(0, 3, n), y)


# Held-out values


@pytest.mark.parametrize("n_classes", [2, 3])
def test_held_out_values_of_a_choice_are_in_the_order_of_the_texts(n_classes):
    texts, y = corpus(60, n_classes)
    y = np.where(np.random.default_rng(0).random(60) < 0.15, 0, y)
    documents = encode(texts).with_classes(y)
    result = choose(Candidate(plain=0.5), documents, (None, None), np.ones(60), 1.0, 60.0)
    columns = by_class(result.decision)
    assert np.mean(columns.argmax(axis=1) == y) == pytest.approx(result.accuracy)
    assert result.accuracy > 1.4 / n_classes


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_trials_solve_with_the_penalty_of_their_candidate(loss):
    texts, y = corpus(30)
    y[:4] = 1 - y[:4]
    fold, documents = np.arange(30) // 10, encode(texts).with_classes(y)

    def values(C, factor):
        trials = Trials(documents, y, 2, np.ones(30), fold)
        [trial] = trials.run([replace(Candidate(plain=0.5), C=C, loss=loss)], [factor])
        assert C * factor == trial.C
        return trial.values

    assert np.array_equal(values(0.25, 2.0), values(0.5, 1.0))
    assert not np.allclose(values(0.25, 1.0), values(0.5, 1.0), rtol=0.01)


def test_a_kernel_without_information_seldom_gets_a_weight():
    """Its gain must exceed a standard error, which gains by chance seldom do."""
    chosen = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        first, second = rng.normal(size=(2, 60, 30)) / np.sqrt(30)
        weighing = Weighing(np.arange(60), rng.permutation(60) % 2, None, lambda _: None)
        weights, _ = weighing.weights([first @ first.T, second @ second.T])
        chosen += weights[0] > 0
    assert chosen <= 24


def left_out(gram, y):
    """Margins by machines that are trained anew without each text: ridge regression with a bias."""
    margins = np.empty(len(y))
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        values = []
        for c in np.unique(y):
            inner = gram[np.ix_(rest, rest)] + 1 + RIDGE * np.eye(len(rest))
            coef = np.linalg.solve(inner, np.where(y[rest] == c, 1.0, -1.0))
            values.append((gram[i, rest] + 1) @ coef)
        margins[i] = values[y[i]] - max(v for c, v in enumerate(values) if c != y[i])
    return margins


def gained(margins, others):
    """The mean gain in a smooth loss, less its standard error, which counts less for fewer than 50 texts."""
    first, second = (1 / (1 + np.exp(own / np.mean(np.abs(own)))) for own in (margins, others))
    gain = first - second
    return gain.mean() - gain.std() / np.sqrt(len(gain)) * (len(gain) / 50 if len(gain) < 50 else 1)


@pytest.mark.parametrize(("seed", "n"), [(0, 36), (1, 36), (6, 36), (9, 36), (0, 60), (1, 60)])
def test_weights_of_kernels_are_those_of_their_definition(seed, n):
    """In each step the kernel and weight with the largest gain, beside the sum of those before."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    points = [rng.normal(size=(n, 6)) * 1.5 + np.eye(3)[y] @ rng.normal(size=(3, 6)) for _ in range(3)]
    grams = [x @ x.T / 6 for x in points]
    weights, steps = Weighing(np.arange(n), y, None, lambda _: None).weights(grams)
    total, expected, before = grams[0], np.zeros(3), left_out(grams[0], y)
    while rest := [k for k in (1, 2) if not expected[k]]:
        tries = [(k, w, left_out((1 - w) * total + w * grams[k], y)) for k in rest for w in WEIGHTS]
        k, w, best = max(tries, key=lambda tried: gained(before, tried[2]))
        if gained(before, best) <= 0:
            break
        expected, total, before = (1 - w) * expected, (1 - w) * total + w * grams[k], best
        expected[k] = w
    assert weights == pytest.approx(expected[1:])
    assert np.count_nonzero(weights) == 2 or seed not in (6, 9)
    assert steps[-1][1] == pytest.approx(np.mean(before <= 0))


@pytest.mark.parametrize("seed", range(8))
def test_an_equal_kernel_has_no_weight(seed):
    """Mixtures of equal matrices differ by rounding, which is no gain."""
    rng = np.random.default_rng(seed)
    y = np.arange(60) % 2
    x = (rng.normal(size=(60, 6)) + y[:, None]).astype(np.float32)
    gram = x @ x.T / 6
    assert Weighing(np.arange(60), y, None, lambda _: None).weights([gram, gram.copy()])[0] == [0]


def test_texts_of_weight_0_do_not_weigh_kernels():
    texts, y = corpus(60)
    documents, weight = encode(texts).with_classes(y), np.ones(60)
    weight[::3] = 0
    used = Weighing.of(documents, (None, None), weight, lambda rows, _: rows)
    assert set(used.rows) == set(np.flatnonzero(weight))


def test_texts_of_weight_0_do_not_judge_trials():
    """Their labels decide neither the loss nor the accuracy of a trial."""
    texts, y = corpus(30)
    weight, fold, other = np.ones(30), np.arange(30) // 10, y.copy()
    weight[::3] = 0
    other[::3] = 1 - y[::3]
    judged = []
    for target in (y, other):
        trials = Trials(encode(texts).with_classes(target), target, 2, weight, fold)
        [trial] = trials.run([Candidate(plain=1.0)], [1.0])
        judged.append((trial.accuracy, trial.loss))
    assert judged[0] == judged[1]


# Rules learnt from held-out values


def drawn_values(n, width, seed):
    """Decision values that tell classes with errors, and the classes, of which the last are rare."""
    rng = np.random.default_rng(seed)
    y = np.minimum(rng.geometric(0.5, n) - 1, width - 1)
    values = rng.normal(size=(n, width)) + 1.2 * (y[:, None] == np.arange(width)) - 0.4 * np.arange(width)
    return values, y


def plainly_ascended(values, y, n_classes, unit):
    """Offsets by the definition: a class at a time, the rarest first, for three rounds."""

    def merit(offsets):
        predicted = (values + offsets).argmax(axis=1)
        f1 = [
            2 * np.sum((predicted == c) & (y == c)) / (np.sum(predicted == c) + np.sum(y == c))
            for c in set(y.tolist())
        ]
        return np.mean(f1) + ACCURACY * np.mean(predicted == y)

    offsets = np.zeros(n_classes)
    order = sorted(set(y.tolist()), key=lambda c: (np.sum(y == c), c))
    for _ in range(3):
        for c in order[: 1 if n_classes == 2 else None]:
            tries = [offsets + step * unit * (np.arange(n_classes) == c) for step in STEPS]
            best = max(tries, key=merit)
            if merit(best) > merit(offsets) + GAIN / np.sqrt(len(y)):
                offsets = best
    return offsets - offsets.mean()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_offsets_are_those_of_their_definition(n_classes):
    different = 0
    for seed in range(6):
        values, y = drawn_values(120, n_classes, seed)
        part = np.random.default_rng(0).permutation(120) % 5
        expected = np.mean(
            [plainly_ascended(values[part != k], y[part != k], n_classes, values.std()) for k in range(5)],
            axis=0,
        )
        offsets = choose_offsets(values, Target(y, np.arange(n_classes)))
        assert offsets == pytest.approx(expected, abs=1e-9)
        different += bool(np.abs(expected).max() > 0)
    assert different


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_scale_is_learnt_from_values_with_the_offsets(n_classes, weighted):
    """Else probabilities belong to other decision values than those of the model."""
    values, y = drawn_values(150, n_classes, 2)
    weight = np.random.default_rng(1).integers(1, 4, 150).astype(float) if weighted else None
    decision = values if n_classes > 2 else values[:, 1] - values[:, 0]
    target, settings = Target(y, np.arange(n_classes)), ClassifierSettings(scoring="f1_macro")
    folds = [(np.arange(0), np.arange(150))]
    machines = Machines(np.arange(0), np.zeros((1, 0)), np.zeros(1 if n_classes == 2 else n_classes), ())
    rule, machines = learn_from_values(settings, target, weight, machines, [decision], folds)
    assert isinstance(rule, ClassRule)
    assert np.abs(machines.bias).max() > 0.05
    shifted = by_class(decision + (machines.bias[0] if n_classes == 2 else machines.bias))
    assert rule.scale == pytest.approx(fit_scale(shifted, y, n_classes, weight, TARGET_PRIOR), rel=1e-6)
    assert rule.scale != pytest.approx(
        fit_scale(by_class(decision), y, n_classes, weight, TARGET_PRIOR), rel=1e-3
    )


def test_a_tuned_model_has_the_scale_of_its_offsets():
    texts, y = imbalanced()
    machine = SVC(Spectrum(3), C=0.3, scoring="f1_macro", device="cpu")
    tuning = tune(machine, texts, y, {"C": [0.3]}, cv=FOLDS_OF_90)
    plain = cross_validate(replaced(machine, scoring="accuracy"), texts, y, cv=FOLDS_OF_90)
    offsets = choose_offsets(plain.decision, Target(y, np.arange(3)))
    assert np.abs(offsets).max() > 0
    expected = fit_scale(plain.decision + offsets, y, 3, None, TARGET_PRIOR)
    assert tuning.best_model.rule.scale == pytest.approx(expected, rel=1e-6)


def replaced(estimator, **parameters):
    return type(estimator)(**{**estimator.get_params(deep=False), **parameters})


@pytest.mark.filterwarnings("ignore:.*before it converged", "ignore:.*did not converge")
@pytest.mark.parametrize("options", [{"max_iter": 7}, {"tol": 0.5}, {"tol": 1e-9, "duality_gap": 0.9}])
def test_folds_are_solved_as_far_as_the_settings_say(options):
    texts, y = imbalanced()
    machine = SVC(EditDistance(0.1), C=3, device="cpu", **options)
    found = cross_validate(machine, texts, y > 0, cv=FOLDS_OF_90).decision
    for train, test in FOLDS_OF_90:
        values = machine.fit([texts[i] for i in train], y[train] > 0).decision_function(
            [texts[i] for i in test]
        )
        np.testing.assert_allclose(found[test], values, atol=1e-4)


# What is judged was not seen


def poisoned(values, folds, target, k, rng):
    """Values and targets whose texts of fold k are replaced by noise."""
    test = folds[k][1]
    noise = target.values.copy()
    noise[test] = rng.permutation(noise)[: len(test)]
    others = [np.where(np.isin(own, test)[(...,) + (None,) * (v.ndim - 1)], rng.normal(size=v.shape), v)
              if number != k else v
              for number, (v, (_, own)) in enumerate(zip(values, folds, strict=True))]  # fmt: skip
    return others, replace(target, values=noise)


def repeated_folds(n, rng, repeats=2):
    folds = []
    for _ in range(repeats):
        part = rng.permutation(n) % 3
        folds += [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(3)]
    return folds


@pytest.mark.parametrize("kind", [2, 4, "labels"])
def test_offsets_and_thresholds_of_a_fold_do_not_depend_on_its_test_part(kind):
    rng, judged = np.random.default_rng(0), fold_predictions if kind == "labels" else fold_values
    if kind == "labels":
        settings, truth = MultilabelSettings(), rng.random((120, 3)) < [0.5, 0.3, 0.1]
        target = Target(truth, np.array(["a", "b", "c"]), "lists")
        decision = rng.normal(size=(120, 3)) + 1.5 * truth - 1
    else:
        settings, (decision, y) = ClassifierSettings(scoring="f1_macro"), drawn_values(120, kind, 0)
        decision = decision if kind > 2 else decision[:, 1] - decision[:, 0]
        target = Target(y, np.arange(kind))
    folds = repeated_folds(120, rng)
    values = [decision[test] for _, test in folds]
    before = judged(settings, values, folds, target)
    assert any(np.abs(a - b).max() > 0 for a, b in zip(before, values, strict=True))
    for k in range(len(folds)):
        others, noise = poisoned(values, folds, target, k, rng)
        assert np.array_equal(judged(settings, others, folds, noise)[k], before[k])


@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_texts_of_weight_0_choose_neither_thresholds_nor_offsets_of_other_folds(kind):
    rng = np.random.default_rng(0)
    folds, weight = repeated_folds(120, rng, 1), np.where(rng.random(120) < 0.2, 0.0, 1.0)
    if kind == "labels":
        settings, truth = MultilabelSettings(), rng.random((120, 3)) < [0.5, 0.3, 0.1]
        decision = rng.normal(size=(120, 3)) + 1.5 * truth - 1
        target = Target(truth, np.array(["a", "b", "c"]), "lists", weight=weight)
    else:
        settings, (decision, y) = ClassifierSettings(scoring="f1_macro"), drawn_values(120, 3, 0)
        target = Target(y, np.arange(3), weight=weight)
    values = [decision[test] for _, test in folds]
    ignored = [np.where(weight[test, None] == 0, rng.normal(size=own.shape), own)
               for own, (_, test) in zip(values, folds, strict=True)]  # fmt: skip
    before, after = (fold_predictions(settings, part, folds, target) for part in (values, ignored))
    for (_, test), first, second in zip(folds, before, after, strict=True):
        assert np.array_equal(first[weight[test] > 0], second[weight[test] > 0])


@pytest.mark.parametrize("kernel", ["auto", Spectrum(3)])
def test_cross_validation_adds_the_offsets_of_the_other_folds_once(kernel):
    texts, y = imbalanced(seed=1)
    machine = SVC(kernel, C=0.3, device="cpu")
    plain = cross_validate(machine, texts, y, cv=FOLDS_OF_90)
    result = cross_validate(replaced(machine, scoring="f1_macro"), texts, y, cv=FOLDS_OF_90)
    moved = 0.0
    for _, test in FOLDS_OF_90:
        others = plain.decision.copy()
        others[test] = np.nan
        offsets = choose_offsets(others, Target(y, np.arange(3)))
        moved = max(moved, float(np.abs(offsets).max()))
        assert result.decision[test] - plain.decision[test] == pytest.approx(
            np.tile(offsets, (len(test), 1)), abs=1e-6
        )
    assert moved > 0


@pytest.mark.parametrize("kernel", ["auto", Spectrum(3)])
def test_the_weights_of_a_cross_validation_are_those_of_a_training_on_each_fold(kernel):
    texts, y = imbalanced(seed=1)
    weight = np.where(np.arange(90) % 2 == 0, 0.02, 4.0)
    machine = SVC(kernel, C=0.3, device="cpu")
    plain = cross_validate(machine, texts, y, cv=FOLDS_OF_90)
    result = cross_validate(machine, texts, y, cv=FOLDS_OF_90, sample_weight=weight)
    assert np.abs(result.decision - plain.decision).max() > 0.01
    for train, test in FOLDS_OF_90:
        fitted = replaced(machine).fit([texts[i] for i in train], y[train], sample_weight=weight[train])
        decision = fitted.decision_function([texts[i] for i in test])
        assert result.decision[test] == pytest.approx(decision, abs=2e-3)


def test_nested_folds_are_predicted_with_the_offsets_of_their_inner_folds():
    texts, y = imbalanced(seed=1)
    figures = []
    for metric in ("accuracy", "f1_macro"):
        machine = SVC(Spectrum(3), C=0.3, scoring=metric, device="cpu")
        figures.append(tune(machine, texts, y, {"C": [0.3]}, cv=3, nested=3).nested.mean)
    assert figures[1]["macro_f1"] > figures[0]["macro_f1"]


def test_the_default_that_wins_a_search_is_trained_with_the_groups():
    _, texts, labels = library(3, 6, 80)
    pieces = [text[i : i + 110] for text in texts for i in (0, 110, 220)]
    y, groups = np.repeat(labels, 3).tolist(), np.repeat(np.arange(18), 3)
    grid = {"kernel": ["auto", Spectrum(1)], "C": [0.5]}
    result = tune(SVC(device="cpu"), pieces, y, grid, cv=3, groups=groups)
    assert result.best_params_["kernel"] == "auto"
    new = [text[-100:] for text in texts]
    found = result.best_model.decision_function(new)
    machines = (SVC(C=result.best_params_["C"], device="cpu") for _ in range(2))
    grouped, plain = (m.fit(pieces, y, groups=own) for m, own in zip(machines, (groups, None), strict=True))
    assert np.abs(plain.decision_function(new) - found).max() > 0.01
    assert found == pytest.approx(grouped.decision_function(new), abs=1e-4)


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro"])
def test_the_scale_of_a_default_is_that_of_values_with_its_biases(metric, monkeypatch):
    """Its machines favour rare classes; those of the folds have its kernel, C and loss."""
    texts, y = imbalanced()
    seen = {}

    def note(name):
        real = getattr(training, name)
        monkeypatch.setattr(training, name, lambda *own: seen.setdefault(name, (own, real(*own)))[1])

    for name in ("learn_from_values", "train_and_test", "choose_by_trials"):
        note(name)
    model = SVC(scoring=metric, time_budget=9, C=0.7, device="cpu").fit(texts, y)
    [learnt] = seen["learn_from_values"][0][4]
    bias = training.rare_class_bias(np.bincount(y).astype(float), 90)
    assert np.abs(bias).max() > 0.05
    if metric == "accuracy":
        assert np.allclose(learnt, seen["choose_by_trials"][1].decision + bias)
        return
    ([fixed], _, task, *_), results = seen["train_and_test"]
    for values, (_, test) in zip(results.values[0], task.folds, strict=True):
        assert np.allclose(learnt[test], values + bias)
    assert (fixed.C, fixed.loss, spell(fixed.kernel)) == (model.C_, model.loss_, spell(model.kernel_))


def test_the_default_that_wins_a_search_has_a_scale_of_weighted_values():
    texts, y = imbalanced()
    weight, grid = np.where(y == 0, 9.0, 1.0), {"kernel": ["auto", Spectrum(1)], "C": [0.5]}
    options = {"cv": FOLDS_OF_90, "sample_weight": weight}
    found = tune(SVC(device="cpu"), texts, y, grid, **options).best_model
    values = cross_validate(SVC(C=0.5, device="cpu"), texts, y, **options).decision
    bare = replace(found, rule=replace(found.rule, scale=None))
    plain, expected = (with_scale(bare, values, y, own).rule.scale for own in (None, weight))
    assert found.rule.scale == pytest.approx(expected, rel=1e-6)
    assert abs(plain / expected - 1) > 1e-3


@pytest.mark.parametrize(("gain", "best"), [(0.1, 1), (0.02, 0)])
def test_the_default_gives_way_to_what_is_better_by_a_standard_error(gain, best):
    points = [GridPoint({}, ClassifierSettings(kernel)) for kernel in ("auto", Spectrum(2))]
    search = GridSearch(points, Target(np.arange(4) % 2, np.array(["a", "b"])), None, "accuracy")
    base, noise = np.full(4, 0.5), np.array([0.1, -0.1, 0.1, -0.1])  # a standard error of .058
    search.tried = {k: [{"accuracy": x} for x in own] for k, own in enumerate([base, base + noise + gain])}
    assert search.choose(range(4)) == best


def test_as_many_fits_are_named_as_did_not_converge(monkeypatch):
    monkeypatch.setattr(scoring, "unfinished", lambda settings, message, target: message)
    with pytest.warns(UserWarning, match="2 of 3 fits did not converge; the first: x$"):
        scoring.warn_unfinished(ClassifierSettings(), ["", "x", "y"], None)


def test_held_out_values_of_a_sample_have_the_offsets_of_its_groups():
    """Offsets are learnt from folds of the training part, in which a group stays together."""
    _, texts, labels = library(3, 6, 80)
    pieces = [text[i : i + 40] for text in texts for i in range(0, 240, 40)]
    y, groups = np.repeat(labels, 6), np.repeat(np.arange(18), 6)
    y[(groups % 6 > 1) & (y == labels[0])] = labels[-1]
    test = np.flatnonzero(groups % 6 == 5)
    train = np.setdiff1d(np.arange(len(y)), test)
    settings = ClassifierSettings(Spectrum(2), C=0.3, scoring="f1_macro")

    def examples(rows):
        return [pieces[i] for i in rows]

    values = [
        decide_test_part(settings, examples, y.tolist(), (train, test), own)[0] for own in (groups, None)
    ]
    for found, own in zip(values, (groups[train], None), strict=True):
        machine = SVC(Spectrum(2), C=0.3, scoring="f1_macro", device="cpu")
        fitted = machine.fit(examples(train), y[train], groups=own)
        assert found == pytest.approx(fitted.decision_function(examples(test)), abs=1e-5)
    assert np.abs(values[0] - values[1]).max() > 0.01
