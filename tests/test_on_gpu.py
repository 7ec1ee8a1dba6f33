"""Kernels on columns of a table, on a GPU."""

import numpy as np
import pytest
from loading import load
from test_on import BODY, BOTH, LABELS, TABLE, TEXTS, WEIGHED, rows

from textsvm import SVC, Compute, Gaussian, InputError, On, Product, cross_validate, save
from textsvm.kernels.spelling import spell

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*near-duplicate")]
PRODUCT = Product([BODY, On(["hour", "size"], Gaussian())])


def on_both(fit):
    return [fit(SVC(device=name)) for name in ("cpu", "cuda")]


@pytest.mark.parametrize("kernel", [BOTH, TEXTS, PRODUCT, WEIGHED, On("hour", Gaussian())], ids=spell)
def test_a_machine_decides_alike_on_both_devices(kernel, tmp_path):
    host, card = on_both(lambda model: model.set_params(kernel=kernel, tol=1e-5).fit(TABLE, LABELS))
    np.testing.assert_allclose(card.decision_function(TABLE), host.decision_function(TABLE), atol=2e-3)
    save(card, tmp_path / "m.textsvm")
    again, new = load(tmp_path / "m.textsvm"), rows([3, 1])
    np.testing.assert_allclose(again.decision_function(new), card.decision_function(new), atol=1e-5)


@pytest.mark.parametrize("kernel", [BOTH, TEXTS], ids=spell)
def test_folds_are_alike_on_both_devices(kernel):
    host, card = on_both(
        lambda model: cross_validate(model.set_params(kernel=kernel, tol=1e-5), TABLE, LABELS, cv=3)
    )
    np.testing.assert_allclose(card.decision, host.decision, atol=2e-3)


def test_texts_of_columns_are_features_on_a_card_and_numbers_are_not():
    params = {"kernel": TEXTS, "compute": Compute(solver="features"), "tol": 1e-5}
    host, card = on_both(lambda model: model.set_params(**params).fit(TABLE, LABELS))
    np.testing.assert_allclose(card.decision_function(TABLE), host.decision_function(TABLE), atol=2e-3)
    with pytest.raises(InputError, match="machines of vectors are trained from kernel values on a card"):
        SVC(WEIGHED, compute=Compute(solver="features"), device="cuda").fit(TABLE, LABELS)
