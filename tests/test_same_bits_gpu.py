"""On a GPU: a kernel value has the same bits in a whole matrix, in some of its rows, and in a store."""

import numpy as np
import pytest
from test_same_bits import FAMILIES, LABELS, SHORT, TEXTS, check_bits

from textsvm import GapWeighted, Spectrum
from textsvm.gram.base import needed_bytes

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kernel", FAMILIES, ids=str)
def test_real_texts(kernel, device, tmp_path):
    if getattr(kernel, "weight", "") == "log" and kernel.name == "gapped":
        pytest.skip("float16 products of fractions, added up in float32")
    cut = [text[: 40 + 37 * i % 90] for i, text in enumerate(TEXTS[:200])]
    texts = [*cut, *SHORT, *(text[:64] for text in cut[:20])]
    check_bits(kernel, texts, [1, 2, 70, 5], device, tmp_path)


@pytest.mark.parametrize("kernel", [GapWeighted(5), Spectrum((1, 5), "log", idf=True)], ids=str)
def test_long_texts(kernel, device, tmp_path):
    """Texts of more than a strip of lanes, and of any length before them in the stream."""
    texts = [" ".join(TEXTS[i : i + 1 + i % 7])[: 200 + 97 * i] for i in range(60)]
    check_bits(kernel, texts, [7, 64], device, tmp_path)


@pytest.mark.parametrize("kernel", [GapWeighted(3), Spectrum((1, 5), "log", idf=True)], ids=str)
def test_machines_of_every_tier_are_the_same(kernel, device, tmp_path):
    from textsvm import SVC, Compute

    texts = [text[start : start + 80] for start in range(0, 100, 5) for text in TEXTS]
    labels = [label for _ in range(0, 100, 5) for label in LABELS]
    few = needed_bytes(len(texts), 1024)  # a whole working set; with fewer rows, working sets are smaller
    assert few < needed_bytes(len(texts), len(texts))
    ways = [
        Compute(solver="gram", tier="device"),
        Compute(solver="gram", tier="recompute", memory=few),
        Compute(solver="gram", tier="host", memory=few),
        Compute(solver="gram", store=tmp_path),
    ]
    models = [SVC(kernel, compute=way, device="cuda").fit(texts, labels) for way in ways]
    for model in models[1:]:
        np.testing.assert_array_equal(model.dual_coef_, models[0].dual_coef_)
