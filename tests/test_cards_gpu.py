"""Kernel matrices in shards on several cards: the bits of one card, and the same models.

All of it runs on one card too, which is then named twice: two threads with streams of their own, two shards.
"""

import gc

import numpy as np
import pytest
from sklearn.base import clone

from textsvm import SVC, SVR, Compute, EditDistance, GapWeighted, OneClassSVM, Product, Spectrum, Sum
from textsvm.gram import cards as cards_module
from textsvm.gram.base import DenseGram
from textsvm.gram.build import grams
from textsvm.gram.cards import ShardedGram, sharded_gram, spread
from textsvm.runtime import device as devices
from textsvm.runtime.device import cupy, join_cards, select, use
from textsvm.selection.cross_validation import cross_validate
from textsvm.selection.tuning import tune
from textsvm.text.documents import encode

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")]
KERNELS = [
    EditDistance(),
    EditDistance(0.5, relative=True),
    GapWeighted(3),
    GapWeighted(5, 0.7),
    GapWeighted(2, normalised=False),
    Sum([EditDistance(), EditDistance(0.5)], [0.5, 2.0]),
    Product([EditDistance(), EditDistance(0.5, relative=True)]),
]


@pytest.fixture(params=["one card twice", "all cards"])
def cards(request, monkeypatch):
    """A device of several cards; machines have it by the name "cards"."""
    if request.param == "all cards":
        device = select("cuda:all")
        if not device.cards:
            pytest.skip("there is one GPU only")
    else:
        device = join_cards([0, 0])
    monkeypatch.setattr(devices, "select", lambda wish="auto": device if wish == "cards" else select(wish))
    return device


def made_up(n, seed=0, longest=200):
    """Texts of two kinds, some of them empty, short or twice there; and their labels."""
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 2, n)
    words = [["north", "sea", "wind", "sail"], ["south", "land", "rain", "sale"]]
    texts = []
    for kind in kinds:
        length = int(random.integers(0, longest))
        chosen = " ".join(random.choice(words[kind] + ["and", "the", "or"], size=longest // 4))
        noise = "".join(random.choice(list("abcdef "), size=length // 4))
        texts.append((noise + chosen)[:length])
    texts[n // 2] = texts[n // 3]
    return texts, kinds


def together_of(gram):
    """The matrix on the host."""
    return np.concatenate([shard.values.get() for shard in gram.shards], axis=1)


@pytest.mark.parametrize("blocks", [1, 2, 8])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_bits_of_one_card(monkeypatch, cards, kernel, blocks):
    monkeypatch.setattr(cards_module, "BLOCKS", (blocks,))
    documents = encode(made_up(900)[0])
    kernel.fit(documents)
    whole = kernel.rows(documents, select("cuda")).gram().get()
    for _ in range(3):  # whatever card makes which tile
        gram = sharded_gram(kernel, documents, cards)
        assert isinstance(gram, ShardedGram)
        np.testing.assert_array_equal(together_of(gram), whole)
    assert [int(shard.values.device.id) for shard in gram.shards] == list(cards.cards)
    some = np.array([5, 0, 899, 5])
    np.testing.assert_array_equal(gram.rows(some).get(), whole[some])
    np.testing.assert_array_equal(gram.diag().get(), whole.diagonal())
    np.testing.assert_array_equal(gram.window().values.get(), whole)


@pytest.mark.parametrize("kernel", [EditDistance(), GapWeighted(4)], ids=str)
def test_larger_tiles_of_texts_of_one_length(cards, kernel):
    documents = encode([(text + "x" * 60)[:60] for text in made_up(6000, 1, 80)[0]])
    whole = kernel.rows(documents, select("cuda")).gram().get()
    np.testing.assert_array_equal(together_of(sharded_gram(kernel, documents, cards)), whole)


def test_a_kernel_of_many_symbols(cards):
    """Alphabets that are narrowed for the edit-distance kernel."""
    random = np.random.default_rng(2)
    texts = ["".join(map(chr, random.integers(0x4E00, 0x4E00 + 20_000, 40))) for _ in range(300)]
    documents, kernel = encode(texts), EditDistance()
    whole = kernel.rows(documents, select("cuda")).gram().get()
    np.testing.assert_array_equal(together_of(sharded_gram(kernel, documents, cards)), whole)


def test_a_matrix_is_spread(cards):
    matrix = np.random.default_rng(0).normal(size=(1001, 1001)).astype(np.float32)
    with use(cards):
        gram = spread(DenseGram(cupy().asarray(matrix)), cards)
    np.testing.assert_array_equal(together_of(gram), matrix)
    assert [int(shard.values.device.id) for shard in gram.shards] == list(cards.cards)


def test_memory_is_given_back(cards):
    documents, kernel = encode(made_up(4000, 3)[0]), EditDistance()

    def made():
        sharded_gram(kernel, documents, cards).release()
        gc.collect()
        return sum(in_use(card) for card in cards.each)

    def in_use(card):  # by this process: others may be at work on the card
        with use(card):
            return cupy().get_default_memory_pool().used_bytes()

    first = made()
    assert [made() for _ in range(5)][-1] <= first + (1 << 20)


def test_the_grams_of_a_grid(cards):
    """Alone, of a shared pass, and of sums: on all cards, with the bits of one."""
    documents = encode(made_up(500, 4)[0])
    kernels = [
        EditDistance(0.05), EditDistance(0.5), GapWeighted(3), GapWeighted(4), Spectrum(3),
        Sum([EditDistance(0.05), GapWeighted(3)]), GapWeighted(3, 0.9),
    ]  # fmt: skip
    found = {}
    for device in (cards, select("cuda")):
        for number, gram in grams(kernels, documents, device):
            assert isinstance(gram, ShardedGram) == bool(device.cards)
            found.setdefault(number, []).append(gram.rows(np.arange(500)).get())
    assert sorted(found) == list(range(len(kernels)))
    for sharded, whole in found.values():
        np.testing.assert_array_equal(sharded, whole)


MACHINES = [
    SVC(GapWeighted(3), C=3, tol=1e-6),
    SVC(EditDistance(0.01), C=3, tol=1e-6),
    SVC(Sum([GapWeighted(3), EditDistance(0.01)]), C=3, tol=1e-6),
    SVC(Spectrum(3), C=3, tol=1e-6),
    SVC(GapWeighted(3), C=3, tol=1e-6, multiclass="crammer-singer"),
    SVR(GapWeighted(3), C=3, tol=1e-6),
    OneClassSVM(GapWeighted(3), nu=0.2, tol=1e-6),
]


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_same_model(cards, machine):
    texts, labels = made_up(700, 5)
    given = () if isinstance(machine, OneClassSVM) else (labels[:600],)
    one, all_ = (
        clone(machine).set_params(device=wish).fit(texts[:600], *given) for wish in ("cuda", "cards")
    )
    same_objectives(one.solutions_, all_.solutions_)
    told = "decision_function" if hasattr(one, "decision_function") else "predict"
    found, expected = (getattr(each, told)(texts[600:]) for each in (all_, one))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert all_.device_ is cards


def same_objectives(one, other):
    for a, b in zip(one, other, strict=True):
        assert abs(a.objective - b.objective) <= 1e-9 * max(1.0, abs(a.objective))


def test_a_matrix_that_one_card_has_no_room_for(cards):
    texts, labels = made_up(2000, 6, 60)
    need = 4 * 2000**2
    share = need // len(cards.cards)
    on_all = SVC(EditDistance(), device="cards", compute=Compute(memory=share + need // 4)).fit(texts, labels)
    assert f"whole kernel matrix on {len(cards.cards)} cards, " in on_all.gram_description_
    on_none = SVC(EditDistance(), device="cards", compute=Compute(memory=need // 20)).fit(texts, labels)
    assert "rows on demand" in on_none.gram_description_
    assert f"on the first of {len(cards.cards)} cards" in on_none.gram_description_
    assert (on_all.predict(texts[:500]) == on_none.predict(texts[:500])).mean() > 0.98


def test_cross_validation_and_tuning(cards):
    texts, labels = made_up(600, 7)
    for kernel in (GapWeighted(3), EditDistance(0.01), Spectrum(3), Spectrum(3, idf=True)):
        one, all_ = (
            cross_validate(SVC(kernel, C=1, tol=1e-6, device=wish), texts, labels)
            for wish in ("cuda", "cards")
        )
        np.testing.assert_allclose(all_.decision, one.decision, atol=1e-3)
    kernels = [EditDistance(0.01), EditDistance(0.1), GapWeighted(3)]
    one, all_ = (
        tune(SVC(tol=1e-6, device=wish), texts, labels, {"kernel": kernels, "C": [0.1, 1.0, 10.0]}, cv=4)
        for wish in ("cuda", "cards")
    )
    assert str(all_.best_params_) == str(one.best_params_)
    assert all_.best_score == pytest.approx(one.best_score, abs=0.01)
