"""The parameter `solver`: the same machines from a Gram and from features, who takes which, who may not."""

import numpy as np
import pytest
from command import report
from loading import load, reloaded
from refusals import refuses
from scipy.special import expit
from test_columns import corpus

import textsvm
from textsvm import (
    SVC,
    SVR,
    BoundedGap,
    CalibratedSVC,
    Compute,
    GapWeighted,
    InputError,
    MultilabelSVC,
    OneClassSVM,
    Spectrum,
    Sum,
)
from textsvm.evaluation.explanation import explain
from textsvm.kernels.spectrum.kernel import SpectrumFeatureMap
from textsvm.model.settings import ClassifierSettings
from textsvm.readers import sample
from textsvm.training.fold_grams import FoldGrams, FoldTask, train_and_test
from textsvm.training.targets import with_classes
from textsvm.training.train import read_training_data

LOG = Spectrum((1, 3), "log", idf=True)
KERNELS = {
    "count": Spectrum(3),
    "presence": Spectrum((1, 3), "presence"),
    "presence idf": Spectrum((2, 3), "presence", idf=True),
    "log idf": LOG,
    "intersection": Spectrum((1, 3), "intersection"),
    "unnormalised": Spectrum(3, "log", normalised=False),
    "words": Spectrum((1, 2), "log", idf=True, tokens="words", keep_case=True),
    "bounded gap": BoundedGap(3, 0.3),
    "sum": Sum([LOG, Spectrum(1, tokens="words"), BoundedGap(2)], weights=[3, 1, 1]),
}
CLASSES = {**KERNELS, "odds": Spectrum((1, 3), "log", idf=True, odds=True)}
SPACED = str.maketrans({"j": " ", "a": "A"})


def letters(n, n_classes=3, seed=0):
    """Texts with words in them, and their classes."""
    texts, y = corpus(n, n_classes, seed)
    return [text.translate(SPACED) for text in texts], y


NEW = [*letters(12, seed=7)[0], "", "☃ not seen", "x"]


def both(make, *targets):
    """The same machine from a Gram and from features."""
    by_gram, by_features = (
        make(compute=Compute(solver=solver), device="cpu") for solver in ("gram", "features")
    )
    by_gram.fit(*targets)
    by_features.fit(*targets)
    assert "none, " not in by_gram.gram_description_
    assert by_features.gram_description_.startswith("none, ")
    assert "as requested" in by_features.gram_description_
    return by_gram, by_features


def judge(by_gram, by_features, atol=0.02):
    """The optimum is as good, and what is decided the same to the tolerance."""
    for ours, theirs in zip(by_features.solutions_, by_gram.solutions_, strict=True):
        assert ours.converged
        assert ours.objective <= theirs.objective + 1e-5 * abs(theirs.objective) + 1e-6
    values, expected = by_features.decision_function(NEW), by_gram.decision_function(NEW)
    np.testing.assert_allclose(values, expected, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    texts, y = letters(90)
    judge(*both(lambda **options: SVC(CLASSES[name], **options), texts, y))


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_strategies_and_weights(multiclass, n_classes):
    texts, y = letters(120, n_classes)
    weight = np.random.default_rng(0).uniform(0.2, 2, len(y))
    weight[::9] = 0

    def make(**options):
        return SVC(LOG, 3.0, multiclass=multiclass, class_weight="balanced", **options)

    by_gram, by_features = both(make, texts, y, weight)
    if multiclass == "ovo" and n_classes > 2:  # votes: the decimals alone are values
        np.testing.assert_array_equal(by_features.predict(NEW), by_gram.predict(NEW))
        np.testing.assert_allclose(by_features.dual_coef_.sum(axis=1), 0, atol=1e-9)
    else:
        judge(by_gram, by_features)
    assert not set(by_features.support_) & set(range(0, len(y), 9))


@pytest.mark.parametrize("name", KERNELS)
def test_numbers(name):
    texts, y = letters(90)
    numbers = expit(y + np.random.default_rng(0).normal(size=len(y)))
    kernel = KERNELS[name]
    by_gram, by_features = both(lambda **options: SVR(kernel, epsilon=0.05, **options), texts, numbers)
    assert by_features.solutions_[0].converged
    np.testing.assert_allclose(by_features.predict(NEW), by_gram.predict(NEW), atol=0.02)


@pytest.mark.parametrize("name", KERNELS)
def test_one_class(name):
    texts, _ = letters(90)
    by_gram, by_features = both(lambda **options: OneClassSVM(KERNELS[name], 0.3, **options), texts)
    judge(by_gram, by_features, atol=0.02 * max(1.0, abs(by_gram.offset_)))


@pytest.mark.parametrize("thresholds", ["zero", "cv"])
@pytest.mark.parametrize("name", ["log idf", "count", "sum"])
def test_labels(name, thresholds):
    texts, y = letters(90)
    labels = [tuple({f"is {a}", f"below {max(a, 1)}"}) for a in y]

    def make(**options):
        return MultilabelSVC(KERNELS[name], thresholds=thresholds, cv=3, **options)

    by_gram, by_features = both(make, texts, labels)
    judge(by_gram, by_features)
    np.testing.assert_allclose(by_features.thresholds_, by_gram.thresholds_, atol=0.05)
    assert by_features.label_form_ == "tuples"
    assert by_features.predict(NEW[:1]) == by_gram.predict(NEW[:1])


@pytest.mark.parametrize("name", ["odds", "count"])
def test_calibration_needs_no_gram(name, monkeypatch):
    texts, y = letters(90, 2)
    made = [
        CalibratedSVC(SVC(CLASSES[name], compute=Compute(solver=solver), device="cpu"), cv=3).fit(texts, y)
        for solver in ("gram", "features")
    ]
    assert made[1].gram_description_.startswith("none, ")
    np.testing.assert_allclose(made[1].predict_proba(NEW), made[0].predict_proba(NEW), atol=0.01)


def test_a_label_that_nothing_is_known_of_is_named():
    texts, y = letters(30)
    labels = [("some",) if a else ("other",) for a in y]
    with pytest.raises(InputError, match="nothing to learn the label"):
        MultilabelSVC(LOG, thresholds="zero", device="cpu").fit(texts, labels, np.where(y == 0, 0.0, 1.0))


@pytest.mark.parametrize("name", ["log idf", "sum", "bounded gap", "odds"])
def test_models_from_features_go_where_others_go(name, tmp_path):
    texts, y = letters(60, 2)
    model = SVC(CLASSES[name], compute=Compute(solver="features"), device="cpu").fit(texts, y)
    expected = model.decision_function(NEW)
    loaded = reloaded(model, tmp_path / "m")
    np.testing.assert_array_equal(loaded.decision_function(NEW), expected)
    assert loaded.compute is None  # as memory and device, it belongs to the machine that trains
    for one, value in zip(explain(loaded, NEW), expected, strict=True):
        assert one.value == pytest.approx(value, abs=1e-6)
    if "gap" not in name and name != "sum":
        textsvm.save(model, tmp_path / "w", texts=False)
        np.testing.assert_allclose(load(tmp_path / "w").decision_function(NEW), expected, atol=1e-5)


@pytest.mark.slow
def test_auto_leaves_out_a_matrix_that_does_not_fit():
    texts, y = letters(1200, 2)
    model = SVC(Spectrum(2), compute=Compute(memory="2MB"), device="cpu").fit(texts, y)
    assert model.gram_description_.startswith("none, ")
    assert "a kernel matrix would take 5.5 MiB of 2.0 MiB" in model.gram_description_
    assert model.seconds_.keys() == {"check", "encode", "plan", "features", "solve", "assemble"}
    # What has no features, or features that do not fit either, has rows on demand.
    for kernel, memory in ((GapWeighted(1), "2MB"), (BoundedGap(3), "400kB")):
        model = SVC(kernel, compute=Compute(memory=memory), max_length=9, max_iter=1, device="cpu")
        with pytest.warns(UserWarning, match="before it converged"):
            model.fit(texts, y)
        assert "on demand" in model.gram_description_
        assert model.seconds_.keys() == {"check", "encode", "plan", "gram", "solve", "assemble"}


def test_auto_takes_what_is_predicted_to_be_quicker():
    texts, y = letters(10_000, 2)
    many = SVC(Spectrum(2), C=0.01, n_jobs=1, device="cpu").fit(texts, y)
    assert "predicted " in many.gram_description_
    few = SVC(Spectrum(2), n_jobs=1, device="cpu").fit(texts[:40], y[:40])
    assert few.gram_description_.startswith("whole kernel matrix in memory")


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (SVC(LOG, compute=Compute(solver="x")), "solver must be one of auto, gram, features, got 'x'"),
        (SVC(LOG, compute=Compute(solver=["gram"])), "must be one of"),
        (SVC("gap", compute=Compute(solver="features")), "the kernel gap:5 has no list of features"),
        (SVR(lambda s, t: 1.0, compute=Compute(solver="features")), "has no list of features"),
        (
            SVC(Spectrum(2, "intersection", idf=True), compute=Compute(solver="features")),
            "has no list of features",
        ),
        (
            SVC(LOG, multiclass="crammer-singer", compute=Compute(solver="features")),
            "crammer-singer are trained from kernel",
        ),
        (OneClassSVM("precomputed", compute=Compute(solver="features")), "has no features; leave solver out"),
        (
            SVC(BoundedGap(3), compute=Compute(memory="9kB", solver="features")),
            "need about .* of memory and 9.0 KiB are allowed",
        ),
        (
            SVC(BoundedGap(4), compute=Compute(memory=999, solver="features")),
            "need about .* of memory and 999 B are",
        ),
    ],
    ids=range(9),
)
def test_what_cannot_be_is_said_in_a_sentence(machine, said):
    texts, y = letters(60, 2)
    refuses(said, machine.fit, texts, y)


@pytest.mark.parametrize("solver", ["gram", "features"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_weights_that_are_none_are_refused(solver, bad):
    texts, y = letters(30, 2)
    for machine in (
        SVC(LOG, compute=Compute(solver=solver)),
        SVR(LOG, compute=Compute(solver=solver)),
        OneClassSVM(LOG, compute=Compute(solver=solver)),
    ):
        refuses("sample_weight", machine.fit, texts, y, sample_weight=[*np.ones(len(y) - 1), bad])


@pytest.mark.parametrize("machine", [SVC, SVR, OneClassSVM, MultilabelSVC])
@pytest.mark.parametrize("solver", ["gram", "features"])
def test_what_did_not_converge_is_said_where_it_was_asked_for(machine, solver):
    texts, y = letters(90, 3)
    target = [(f"is {a}",) for a in y] if machine is MultilabelSVC else y
    with pytest.warns(UserWarning, match="before .* converged") as caught:
        machine(LOG, tol=1e-9, max_iter=2, compute=Compute(solver=solver), device="cpu").fit(texts, target)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(("kernel", "tol"), [("auto", 0.02), ("fast", 0.02), (LOG, 0.001)])
def test_the_solver_stops_at_the_tolerance_of_the_kernel(kernel, tol):
    texts, y = letters(90, 3)
    found = max(own.violation for own in SVC(kernel, device="cpu").fit(texts, y).model_.record.solutions)
    assert tol / 20 < found <= tol
    with pytest.warns(UserWarning, match=f"tol {tol:g}") as caught:
        record = SVC(kernel, max_iter=1, device="cpu").fit(texts, y).model_.record
    worst = np.argmax([own.violation for own in record.solutions])
    assert f"the worst is {worst} against the rest" in str(caught[0].message)


@pytest.mark.parametrize("kernel", [Spectrum(2), LOG])
def test_folds_without_a_test_part_train_machines_and_have_no_values(kernel):
    """Wherever they stand; without any test part there was an IndexError."""
    texts, y = letters(60, 2)
    settings = ClassifierSettings(kernel=kernel, device="cpu")
    examples, target, _ = read_training_data(settings, texts, y, None)
    rows, none = np.arange(60), np.arange(0)
    tested = [(rows[20:], rows[:20]), (rows[:40], rows[40:])]

    def trained(*folds):
        grams = FoldGrams(settings, with_classes(settings.source.encode(examples), target), kernel)
        return train_and_test([settings] * 2, grams, FoldTask(target, None, folds), {})

    plain, more = trained(*tested), trained((rows, none), tested[0], (rows[10:], none), tested[1])
    assert [len(machines) for machines in more.machines] == [4, 4]
    for of_plain, of_more in zip(plain.values, more.values, strict=True):
        np.testing.assert_allclose(of_more, of_plain, atol=1e-5)
    assert trained((rows, none)).values == [[], []]


def test_folds_of_features_are_counted_once(monkeypatch):
    counted = []
    monkeypatch.setattr(FoldGrams, "_build", spied(FoldGrams._build, counted))
    monkeypatch.setattr(SpectrumFeatureMap, "count", spied(SpectrumFeatureMap.count, counted))
    texts, y = letters(60, 2)
    CalibratedSVC(SVC(LOG, compute=Compute(solver="features"), device="cpu"), cv=3).fit(texts, y)
    assert sorted(counted) == [*["_build"] * 4, "count"]


def spied(function, calls):
    """The function, that says when it is called."""

    def called(*given, **named):
        calls.append(function.__name__)
        return function(*given, **named)

    return called


@pytest.mark.slow
def test_the_command_line_has_it(tmp_path):
    options = ["train", sample("mail"), "-o", tmp_path / "m", "--force", "--kernel", "spectrum:3"]
    by_features = report(*options, "--solver", "features")
    assert by_features["kernel_matrix"].startswith("none, ")
    assert "features" in by_features["seconds"]
    by_gram = report(*options, "--solver", "gram")
    assert by_gram["kernel_matrix"].startswith("whole")
    assert by_features["objective"] == pytest.approx(by_gram["objective"], rel=1e-3)
