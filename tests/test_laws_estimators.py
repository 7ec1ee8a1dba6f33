"""What holds for all estimators: order, copies, weights of 0, saving and names of classes change no value."""

import numpy as np
import pytest
from encoders import FOOD, ROAD, static_folder
from sklearn.base import clone
from test_choice import corpus

import textsvm
from textsvm import SVC, SVR, CalibratedSVC, MultilabelSVC, OneClassSVM, OnlineSVC, Spectrum
from textsvm.kernels.base import Kernel

KERNEL = Spectrum((1, 3), "log")
FIRM = {"device": "cpu", "tol": 1e-6}
#: Estimators with the targets that they learn.
ESTIMATORS = {
    "SVC": (SVC(KERNEL, **FIRM), "two"),
    "SVC ovr": (SVC(KERNEL, **FIRM), "three"),
    "SVC ovo": (SVC(KERNEL, multiclass="ovo", **FIRM), "three"),
    "SVC crammer-singer": (SVC(KERNEL, multiclass="crammer-singer", **FIRM), "three"),
    "SVC ordered": (SVC(KERNEL, multiclass="ordered", **FIRM), "levels"),
    "SVC f1_macro": (SVC(KERNEL, scoring="f1_macro", **FIRM), "three"),
    "SVC auto": (SVC("auto", **FIRM), "three"),
    "SVC fast": (SVC("fast", **FIRM), "two"),
    "SVR": (SVR(KERNEL, **FIRM), "numbers"),
    "MultilabelSVC": (MultilabelSVC(KERNEL, **FIRM), "labels"),
    "OneClassSVM": (OneClassSVM(KERNEL, **FIRM), "none"),
    "CalibratedSVC": (CalibratedSVC(SVC(KERNEL, **FIRM), cv=3), "three"),
    "OnlineSVC": (OnlineSVC(), "two"),
}


def data(kind, n=60):
    """Texts with targets of a kind, of which a tenth are wrong, and new texts."""
    texts, y = corpus(n, 2 if kind == "two" else 3)
    rng = np.random.default_rng(1)
    y = np.where(rng.random(n) < 0.1, rng.permutation(y), y)
    targets = {
        "two": np.array(["ham", "spam"])[y % 2],
        "three": np.array(["a", "b", "c"])[y],
        "levels": y + 1,
        "numbers": y + 0.1 * rng.normal(size=n),
        "labels": [[["a"], ["b", "c"], ["c"]][c] for c in y],
        "none": None,
    }
    return texts, targets[kind], corpus(20, 3, seed=5)[0]


def taken(targets, rows):
    return None if targets is None else [targets[i] for i in rows]


def values(model, texts):
    """All numbers that a model gives for texts."""
    shown = [np.asarray(getattr(model, "decision_function", model.predict)(texts), float)]
    if hasattr(model, "predict_proba"):
        shown.append(model.predict_proba(texts))
    if hasattr(model, "predict_set"):
        shown.append(model.predict_set(texts, 0.7))
    if getattr(model, "thresholds_", None) is not None:
        shown.append(model.thresholds_)
    return np.concatenate([np.ravel(part) for part in shown])


def test_all_estimators_are_in_the_list():
    public = {name for name in textsvm.__all__ if isinstance(getattr(textsvm, name), type)}
    estimators = {name for name in public if hasattr(getattr(textsvm, name), "get_params")}
    kernels = {name for name in estimators if issubclass(getattr(textsvm, name), Kernel)}
    assert estimators - kernels - {"Compute", "SpectrumFeatures"} == {
        type(model).__name__ for model, _ in ESTIMATORS.values()
    }


@pytest.mark.parametrize("name", ESTIMATORS)
def test_new_texts_in_another_order_have_the_same_bits(name):
    model, kind = ESTIMATORS[name]
    texts, targets, new = data(kind)
    fitted = clone(model).fit(texts, targets)
    order = np.random.default_rng(0).permutation(len(new))
    decide = getattr(fitted, "decision_function", fitted.predict)
    assert np.array_equal(decide([new[i] for i in order]), np.asarray(decide(new))[order])
    assert np.array_equal(decide(new[:1]), np.asarray(decide(new))[:1])


#: Estimators whose folds are drawn from the order of the texts, or that learn them one by one.
OF_ORDER = ("OnlineSVC", "CalibratedSVC", "MultilabelSVC", "SVC f1_macro")


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in OF_ORDER])
def test_training_texts_in_another_order_give_the_same_values(name):
    model, kind = ESTIMATORS[name]
    texts, targets, new = data(kind)
    order = np.random.default_rng(0).permutation(len(texts))
    fitted = clone(model).fit(texts, targets)
    other = clone(model).fit([texts[i] for i in order], taken(targets, order))
    assert values(other, new) == pytest.approx(values(fitted, new), abs=1e-4)


#: Estimators whose default kernels learn idf and odds, in which texts of weight 0 count (`SVC.fit`).
WITH_IDF = ("SVC auto", "SVC fast")


#: Estimators whose offsets or thresholds depend on the number of texts, or that count each text once.
BY_NUMBER = ("SVC f1_macro", "MultilabelSVC")


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        (name, weight) for name in ESTIMATORS for weight in (0, 2)
        if name not in ("OnlineSVC", *WITH_IDF) and not (weight == 2 and name in BY_NUMBER)
    ],
)  # fmt: skip
def test_a_text_of_weight_0_is_absent_and_weight_2_is_two_copies(name, weight):
    """Also in thresholds, offsets and probabilities that are learnt from the same folds."""
    model, kind = ESTIMATORS[name]
    texts, targets, new = data(kind)
    weights = np.where(np.arange(60) % 6 == 5, 0, 1) if weight == 0 else np.full(60, 2)
    rows, fold = np.repeat(np.arange(60), weights), np.arange(60) // 3 % 3
    folds, others = (
        [(np.flatnonzero(own != k), np.flatnonzero(own == k)) for k in range(3)] for own in (fold, fold[rows])
    )
    of_folds = "cv" in model.get_params()
    fitted, other = (clone(model).set_params(**({"cv": cv} if of_folds else {})) for cv in (folds, others))
    fitted.fit(texts, targets, sample_weight=weights.astype(float))
    other.fit([texts[i] for i in rows], taken(targets, rows))
    assert values(fitted, new) == pytest.approx(values(other, new), abs=1e-4)


def with_kernel(model, kernel):
    """A copy of an estimator with another kernel, and C where the optimum has support vectors inside."""
    copy = clone(model)
    part = "estimator__" if "estimator__kernel" in copy.get_params() else ""
    copy.set_params(**{f"{part}kernel": kernel})
    return copy.set_params(**{f"{part}C": 0.1}) if f"{part}C" in copy.get_params() else copy


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in ("OnlineSVC", *WITH_IDF)])
def test_the_same_ending_in_another_script_changes_no_value(name):
    """It adds a constant to a kernel of counts of characters, which a bias takes up."""
    model, kind = ESTIMATORS[name]
    texts, targets, new = data(kind)
    model = with_kernel(model, Spectrum(1, normalised=False))
    fitted, other = clone(model).fit(texts, targets), clone(model).fit(foreign(texts), targets)
    expected = values(fitted, new)
    assert np.ptp(expected) > 0.5
    assert values(other, foreign(new)) == pytest.approx(expected, abs=5e-3)


def foreign(texts):
    return [f"{text}жщщъы" for text in texts]


@pytest.mark.parametrize("name", [*WITH_IDF, "OnlineSVC"])
def test_the_same_ending_in_another_script_changes_few_labels_of_the_defaults(name):
    model, kind = ESTIMATORS[name]
    texts, targets, new = data(kind)
    fitted, other = clone(model).fit(texts, targets), clone(model).fit(foreign(texts), targets)
    assert np.mean(np.array(fitted.predict(texts)) == np.array(other.predict(foreign(texts)))) >= 0.9
    assert np.mean(np.array(fitted.predict(new)) == np.array(other.predict(foreign(new)))) >= 0.7


def test_a_text_of_weight_0_is_absent_from_the_choice_of_an_encoder(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(FOOD if i % 2 else ROAD, 4)) for i in range(60)]
    labels = np.where(rng.random(60) < 0.1, "road", np.where(np.arange(60) % 2, "food", "road"))
    weight = np.where(np.arange(60) % 6 > 3, 0.0, 1.0)
    present = np.flatnonzero(weight)
    shuffled = np.where(weight == 0, rng.permutation(labels), labels)  # says nothing if it has no weight
    encoder = str(static_folder(tmp_path / "e"))
    machines = [SVC(Spectrum(2), encoder=encoder, **FIRM) for _ in range(3)]
    for machine, own in zip(machines, (labels, shuffled), strict=False):
        machine.fit(texts, own, sample_weight=weight)
    machines[2].fit([texts[i] for i in present], labels[present])
    first, second, third = (values(machine, texts[:20]) for machine in machines)
    assert second == pytest.approx(first, abs=1e-4)
    assert third == pytest.approx(first, abs=2e-3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_names_of_classes_that_sort_alike_change_no_value(name):
    model, kind = ESTIMATORS[name]
    texts, targets, new = data(kind)
    if kind not in ("two", "three", "labels"):
        return
    renamed = [tuple(f"ж {t}" for t in own) if isinstance(own, list) else f"ж {own}" for own in targets]
    fitted, other = clone(model).fit(texts, targets), clone(model).fit(texts, renamed)
    assert np.array_equal(values(other, new), values(fitted, new))
