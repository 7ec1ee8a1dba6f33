"""Tiles that a worker makes on a card have the bits of the matrix made whole there."""

import numpy as np
import pytest

from textsvm import EditDistance, GapWeighted
from textsvm.gram.tiles import TileRecipe, blocks
from textsvm.runtime.device import select
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kernel", [EditDistance(), EditDistance(0.5, relative=True)], ids=str)
def test_tiles_of_a_card(kernel):
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abcdef "), size=int(random.integers(0, 200)))) for _ in range(400)]
    documents, device = encode(texts), select("cuda")
    whole = kernel.rows(documents, device).gram().get()
    order, recipe = np.argsort(documents.lengths, kind="stable"), TileRecipe((kernel,), None, "cuda")
    assert recipe.exact_in_tiles(documents)
    cut = blocks(documents.lengths[order], 16)
    assert len(cut) > 2
    for number, first in enumerate(cut):
        for second in cut[number:]:
            rows, columns = (documents.take(order[some]) for some in (first, second))
            [tile] = recipe.tile(rows, rows if first == second else columns)
            np.testing.assert_array_equal(tile, whole[np.ix_(order[first], order[second])])


def test_gap_weighted_values_of_a_card_depend_on_what_lies_beside():
    documents = encode(["gap", "weighted", "values"])
    assert not TileRecipe((GapWeighted(3),), None, "cuda").exact_in_tiles(documents)
    assert TileRecipe((GapWeighted(3),), None, "cpu").exact_in_tiles(documents)
