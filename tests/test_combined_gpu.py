"""Sums and products of kernels on a GPU."""

import numpy as np
import pytest
import test_combined_documents as views
from contracts import KernelContract
from test_combined import CASES, DOCUMENTS, LABELS, NEW, PARTS, SumsOfGrams

from textsvm import SVC, Product, Sum, cross_validate
from textsvm.kernels.spelling import spell

pytestmark = pytest.mark.gpu


class TestCuda(KernelContract):
    cases = CASES


class TestCudaSums(SumsOfGrams):
    pass


def test_a_machine_decides_alike_on_both_devices():
    kernel = Sum([*PARTS, Product(PARTS)])
    host, card = (SVC(kernel, C=10, device=name).fit(DOCUMENTS, LABELS) for name in ("cpu", "cuda"))
    np.testing.assert_allclose(card.decision_function(NEW), host.decision_function(NEW), atol=1e-3)


@pytest.mark.parametrize("kernel", [views.SUM, views.PRODUCT, views.MIXED], ids=spell)
def test_views_are_read_alike_on_both_devices(kernel):
    texts, labels, new = (views.TEXTS, views.LABELS, views.NEW)
    host, card = (SVC(kernel, C=10, device=name).fit(texts, labels) for name in ("cpu", "cuda"))
    np.testing.assert_allclose(card.decision_function(new), host.decision_function(new), atol=1e-3)


@pytest.mark.filterwarnings("ignore:.*near-duplicate")
def test_folds_are_alike_on_both_devices():
    kernel = Sum(PARTS)
    host, card = (
        cross_validate(SVC(kernel, device=name), DOCUMENTS, LABELS, cv=3) for name in ("cpu", "cuda")
    )
    np.testing.assert_allclose(card.decision, host.decision, atol=1e-3)
