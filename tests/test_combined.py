"""Sums and products of kernels equal what their parts say, wherever kernels are taken."""

import json
import tracemalloc

import numpy as np
import oracles
import pytest
from contracts import TEXTS, KernelContract, check_search, to_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from textsvm import SVC, Compute, EditDistance, GapWeighted, Product, Spectrum, Sum, UserKernel, save, tune
from textsvm.evaluation.explanation import explain
from textsvm.gram.build import gram_of_rows, grams
from textsvm.kernels.spectrum import kernel as spectrum
from textsvm.kernels.spelling import spell
from textsvm.runtime.device import select
from textsvm.text.documents import encode

DOCUMENTS = ["red roses", "a rose is red", "rosy red", "green grass", "grass grows", "a green tree"] * 3
LABELS = ["red", "red", "red", "green", "green", "green"] * 3
NEW = ["reddish", "grassy green", "", "x", "a red tree grows"]
PARTS = [Spectrum((1, 3), "log", idf=True), EditDistance(0.2), GapWeighted(2, 0.5)]
CPU = select("cpu")


def gram_of(kernel, texts=tuple(DOCUMENTS), device=CPU):
    documents = encode(texts)
    return to_numpy(clone(kernel).fit(documents).rows(documents, device).gram())


def mean(*kernels):
    return lambda s, t: sum(kernel(s, t) for kernel in kernels) / len(kernels)


def product(*kernels):
    return lambda s, t: np.prod([kernel(s, t) for kernel in kernels])


def gap_two(s, t):
    return oracles.normalised(lambda a, b: oracles.gap(a, b, 2, 0.5), s, t)


def spectrum_two(s, t):
    return oracles.normalised(lambda a, b: oracles.spectrum(a, b, 2), s, t)


def edit_half(s, t):
    return oracles.edit(s, t, 0.5)


def weighted(*terms):
    return lambda s, t: sum(weight * kernel(s, t) for weight, kernel in terms)


CASES = [
    (Sum([Spectrum(2), GapWeighted(2, 0.5)]), mean(spectrum_two, gap_two)),
    (
        Sum([Sum([Spectrum(2), EditDistance(0.5)], [3, 1]), GapWeighted(2, 0.5)], [4, 1]),
        weighted((0.6, spectrum_two), (0.2, edit_half), (0.2, gap_two)),
    ),
    (Product([Spectrum(2), GapWeighted(2, 0.5)]), product(spectrum_two, gap_two)),
    (
        Sum([Product([EditDistance(0.5), Spectrum(2)]), EditDistance(0.5), GapWeighted(3)], [1, 2, 0]),
        weighted((1 / 3, product(edit_half, spectrum_two)), (2 / 3, edit_half)),
    ),
]


class TestHost(KernelContract):
    cases = CASES


class SumsOfGrams:
    """What holds on any device."""

    def test_a_sum_is_the_weighted_sum_of_grams(self, device):
        weights = np.array([2.0, 1.0, 5.0])
        expected = sum(
            weight / 8 * gram_of(part, device=device).astype(float)
            for weight, part in zip(weights, PARTS, strict=True)
        )
        found = gram_of(Sum(PARTS, weights), device=device)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        np.testing.assert_allclose(np.diag(found), 1, atol=1e-6)

    def test_a_product_is_the_product_of_grams(self, device):
        expected = np.prod([gram_of(part, device=device).astype(float) for part in PARTS], axis=0)
        np.testing.assert_allclose(gram_of(Product(PARTS), device=device), expected, atol=1e-6)

    @pytest.mark.parametrize("kind", [Sum, Product])
    def test_decisions_are_the_same_from_rows_and_by_prediction(self, kind, device):
        kernel, documents = kind(PARTS), encode(DOCUMENTS)
        kernel.fit(documents)
        rows, others = kernel.rows(documents, device), encode(NEW, documents.alphabet)
        coef = np.random.default_rng(0).normal(size=(len(documents), 2))
        expected = to_numpy(rows.cross(others)) @ coef
        np.testing.assert_allclose(rows.decision(others, coef), expected, atol=1e-5)
        predictor = kernel.predictor(documents, coef.T, device)
        assert predictor.device == device
        np.testing.assert_allclose(predictor.values(others), expected, atol=1e-5)

    @pytest.mark.slow
    def test_a_grid_over_sums_is_each_alone(self, device):
        documents = encode(TEXTS["words"] * 3)
        kernels = [
            Sum([Spectrum((1, 3)), GapWeighted(2)]),
            Spectrum((1, 3)),
            Sum([Spectrum((1, 4)), GapWeighted(2), GapWeighted(3)], [1, 2, 3]),
            Sum([Spectrum((1, 3)), GapWeighted(2)], [1, 9]),
            Product([Spectrum((1, 3)), GapWeighted(2)]),
            Sum([Product([Spectrum((1, 3)), GapWeighted(2)]), EditDistance(0.5)]),
            Sum([EditDistance(0.5)]),
            GapWeighted(3),
        ]
        matrix = 4 * len(documents) ** 2
        for memory in (None, 20 * matrix, 4 * matrix, 3 * matrix, 2 * matrix, matrix, matrix // 2):
            seen = []
            for number, gram in grams(kernels, documents, device, memory):
                found = to_numpy(gram.rows(np.arange(len(documents))))
                expected = gram_of(kernels[number], TEXTS["words"] * 3, device)
                np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=f"{memory} {number}")
                seen.append(number)
            assert sorted(seen) == list(range(len(kernels)))


class TestHostSums(SumsOfGrams):
    pass


weights_of_three = st.lists(st.floats(0, 1e3), min_size=3, max_size=3).filter(lambda w: sum(w) > 1e-3)


@settings(max_examples=30)
@given(weights_of_three, st.lists(st.text("ab ", max_size=9), min_size=1, max_size=6))
def test_any_weights_of_any_texts(weights, texts):
    parts = [Spectrum((1, 2)), EditDistance(0.2), Spectrum(2, "presence")]
    expected = sum(
        w / sum(weights) * gram_of(k, texts).astype(float) for w, k in zip(weights, parts, strict=True)
    )
    np.testing.assert_allclose(gram_of(Sum(parts, weights), texts), expected, atol=1e-6)


def test_contributions_of_a_text_too_short_for_one_part_add_up():
    texts = ["ab", "ab cd ef", "cd ef gh", "ab", "x"] * 2
    model = SVC(Sum([Spectrum(1), Spectrum(3)]), C=10, device="cpu").fit(texts, [0, 1, 1, 0, 1] * 2)
    for found in explain(model, ["ab", "x", "xy"]):
        assert found.symbols.sum() + found.bias == pytest.approx(found.value, abs=1e-6)


def test_nested_parameters():
    kernel = Sum([Spectrum(2), Product([EditDistance(), GapWeighted(3)])], [1, 2])
    params = SVC(kernel).get_params()
    assert params["kernel__0__p"] == 2
    assert params["kernel__1__1__p"] == 3
    model = clone(SVC(kernel)).set_params(
        kernel__0__weight="log", kernel__1__0__gamma=2, kernel__weights=None
    )
    assert model.kernel.kernels[0].weight == "log"
    assert model.kernel.kernels[1].kernels[0].gamma == 2
    assert kernel.kernels[0].weight == "count"
    model.set_params(**{"kernel__0": EditDistance(3), "kernel__0__gamma": 4})
    assert model.kernel.kernels[0].gamma == 4
    copy = clone(kernel)
    assert copy.structure.key == kernel.structure.key
    assert copy.kernels[0] is not kernel.kernels[0]
    given = [Spectrum(3), Spectrum(4)]
    changed = Sum(given).set_params(**{"kernels": [Spectrum(5), Spectrum(6)], "1__p": 7})
    assert [part.p for part in changed.kernels] == [5, 7]
    with pytest.raises(ValueError, match="Invalid parameter '2'"):
        changed.set_params(**{"2__p": 3})


@pytest.mark.filterwarnings("ignore:.*near-duplicate")
def test_it_is_searched_by_scikit_learn_and_here():
    model = SVC(Sum([Spectrum(2), GapWeighted(2)]), device="cpu")
    grid = {"kernel__0__p": [1, 2, 3], "C": [0.1, 10]}
    search = GridSearchCV(model, grid, cv=3).fit(DOCUMENTS, LABELS)
    here = tune(model, DOCUMENTS, LABELS, grid, cv=3)
    assert [row["mean"] for row in here.table] == pytest.approx(
        search.cv_results_["mean_test_score"].tolist()
    )
    # Sorted as ParameterGrid does; nested kernels in JSON.
    assert here.best_estimator.kernel.kernels[0].p == here.best_params_["kernel__0__p"]
    whole = tune(model, DOCUMENTS, LABELS, {"kernel": [model.kernel]}, cv=3).as_dict()
    assert json.loads(json.dumps(whole))["best_params"]["kernel"]["kernels"][1]["name"] == "gap"


@pytest.mark.filterwarnings("ignore:.*near-duplicate")
def test_settings_of_a_grid_do_not_change_each_other():
    parts, model = [Spectrum(2), GapWeighted(2)], SVC(Sum([EditDistance()]), device="cpu")
    grid = {"kernel__kernels": [parts, parts[:1]], "kernel__0__p": [1, 4], "C": [1]}
    found = tune(model, DOCUMENTS, LABELS, grid, cv=3)
    assert len({str(row["params"]) for row in found.table}) == 4
    assert found.best_estimator.kernel.kernels[0].p == found.best_params_["kernel__0__p"]
    assert parts[0].p == 2
    assert len(model.kernel.kernels) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*near-duplicate")
@pytest.mark.parametrize("memory", [None, 9 * 4 * 18**2, 3 * 4 * 18**2, 2 * 4 * 18**2, 4 * 18**2])
def test_sums_that_learn_share_their_terms(monkeypatch, memory):
    calls = []
    original = spectrum.HostSpectrum.gram
    monkeypatch.setattr(
        spectrum.HostSpectrum,
        "gram",
        lambda self, *args: calls.append(spell(self.kernel)) or original(self, *args),
    )
    learning, fixed = Spectrum((1, 3), "log", idf=True), Spectrum(2)
    sums = [
        Sum([learning, fixed]),
        Sum([learning, Sum([fixed, Spectrum(1, idf=True)])], [1, 3]),
        learning,
        Sum([learning, fixed, Spectrum(1, idf=True)], [1, 1, 0]),
    ]
    model = SVC(device="cpu", compute=Compute(memory=memory))
    found = tune(model, DOCUMENTS, LABELS, {"kernel": sums, "C": [0.1, 10]}, cv=3)
    if memory is None:
        # One for each training part, and one that the best is fitted to; what does not learn is made once.
        assert calls.count(spell(learning)) <= 4
        assert calls.count(spell(fixed)) == 1
    check_search(found, DOCUMENTS, LABELS, NEW)


def test_a_function_may_be_a_part_and_is_not_saved(tmp_path):
    def lengths(a, b):
        return np.exp(-np.abs(np.subtract.outer([len(s) for s in a], [len(t) for t in b])))

    model = SVC(Sum([UserKernel(lengths), Spectrum(2)]), device="cpu").fit(DOCUMENTS, LABELS)
    assert set(model.predict(NEW)) <= {"red", "green"}
    refuses("a file holds no code", save, model, tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize("matrices", [2, 3, 5])
def test_sums_of_a_grid_keep_to_the_memory(matrices):
    n = 2000
    documents = encode([f"text {i} of {n}" for i in range(n)])
    kernels = [Sum([EditDistance(0.1), Spectrum((1, 2))], [1, weight]) for weight in (1, 2, 3)] + [
        Sum([EditDistance(0.2), Spectrum((1, 3)), EditDistance(0.1)])
    ]
    for _ in grams(kernels[:2], documents, CPU):  # compiled before memory is counted
        pass
    tracemalloc.start()
    before = None
    for _, gram in grams(kernels, documents, CPU, matrices * 4 * n * n):
        assert gram.window().complete
        assert before is None or before.matrix is None
        before = gram
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The rest is working memory, less than a matrix.
    assert peak < matrices * 4 * n * n + (14 << 20)


def test_rows_on_demand_where_two_matrices_do_not_fit():
    kernel, documents = Sum([Spectrum(2), GapWeighted(2)]), encode(DOCUMENTS)
    matrix = 4 * len(documents) ** 2
    rows = kernel.fit(documents).rows(documents, CPU)
    assert gram_of_rows(rows, 2 * matrix).window().complete
    cached = gram_of_rows(rows, 2 * matrix - 1)
    assert not cached.window().complete
    np.testing.assert_allclose(cached.rows(np.arange(len(documents))), gram_of(kernel), atol=1e-6)


BAD = [
    (Sum(), "must be a list of kernels, not empty"),
    (Product([]), "must be a list of kernels, not empty"),
    (Sum(Spectrum()), "must be a list of kernels, not empty"),
    (Sum([Spectrum(), "gap"]), "part 1 of a sum of kernels is 'gap', which is not a kernel"),
    (Product([Spectrum(), Sum([])]), "must be a list of kernels, not empty"),
    (Sum([Spectrum()], [-1]), "must be finite, not negative and not all 0"),
    (Sum([Spectrum(), Spectrum()], [0, 0]), "must be finite, not negative and not all 0"),
    (Sum([Spectrum(), Spectrum()], [1, np.nan]), "must be finite, not negative and not all 0"),
    (Sum([Spectrum(), Spectrum()], [1, np.inf]), "must be finite, not negative and not all 0"),
    (Sum([Spectrum(), Spectrum()], [1]), "must be 2 numbers"),
    (Sum([Spectrum(), Spectrum()], 3), "must be 2 numbers"),
    (Sum([Spectrum(), Spectrum()], ["a", "b"]), "must be 2 numbers"),
    (Sum([Spectrum(2), GapWeighted(0)]), "p=0 of the gap kernel"),
    (Sum([Spectrum(2), Product([Spectrum(14)])]), "every document is shorter than p = 14"),
    (Sum([Spectrum(2)] * 101), "at most 100 kernels"),
]


@pytest.mark.parametrize(("kernel", "message"), BAD)
def test_wrong_sums_are_refused_in_one_sentence(kernel, message):
    refuses(message, SVC(kernel).fit, DOCUMENTS, LABELS)


def test_the_longest_text_may_have_p_symbols():
    assert SVC(Sum([Spectrum(2), Product([Spectrum(13)])])).fit(DOCUMENTS, LABELS).predict(NEW).shape == (5,)


def test_sums_that_are_nested_too_deeply_are_refused(tmp_path):
    kernel = Spectrum(2)
    for _ in range(11):
        kernel = Sum([kernel])
    refuses("nested 11 deep", SVC(kernel).fit, DOCUMENTS, LABELS)
