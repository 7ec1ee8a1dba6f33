"""A matrix made by several cards, in shards: what is decided, and that every value gets where it belongs.

Cards are played by threads of this machine here; tests/test_cards_gpu.py has the same on real ones.
"""

from contextlib import nullcontext
from threading import Barrier, get_ident
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from refusals import refuses

from textsvm import EditDistance, GapWeighted, Spectrum
from textsvm.errors import InputError
from textsvm.gram import cards
from textsvm.gram.base import DenseGram
from textsvm.gram.cards import ShardedGram, bounds_of, divide, sharded_gram, spread
from textsvm.kernels.base import Kernel
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.text.documents import encode

CPU = Device("cpu", 0, "cpu")


class Stream:
    """Of a card that has done everything at once."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def record(self):
        return self

    def wait_event(self, event):
        pass

    def synchronize(self):
        pass


def place(tile, rows, columns, shards, mirrored):
    """What kernels_cu/place_tile.cu does."""
    for values, i, j in [(tile, rows, columns), (tile.T, columns, rows)][: 1 + mirrored]:
        for shard in shards:
            mine = (j >= shard.first) & (j < shard.last)
            shard.values[i[:, None], j[mine] - shard.first] = values[:, mine]


@pytest.fixture
def played(monkeypatch, set_values):
    """Cards played by this machine."""
    set_values(cards, _place=place, _streams=lambda card, index: (Stream(), Stream(), Stream()))
    monkeypatch.setattr(devices, "use", lambda device: nullcontext())
    monkeypatch.setattr(devices, "synchronize", lambda device: None)
    monkeypatch.setattr(devices, "require_memory", lambda *given: None)
    monkeypatch.setattr(devices, "free_memory", lambda device=None: 1 << 34)
    monkeypatch.setattr(devices, "cupy", lambda: np)
    together = lambda self, card: np.hstack([shard.values for shard in self.shards])  # noqa: E731
    monkeypatch.setattr(ShardedGram, "_whole", together)


def several(count):
    return Device("cuda", 0, "cuda", cards=tuple(range(count)))


class OnHost(Kernel):
    """A kernel whose rows for any card are computed here."""

    def __init__(self, kernel, fails=False):
        self.kernel, self.fails, self.threads = kernel, fails, set()
        self.cost = SimpleNamespace(in_shards=False, tileable=lambda texts, kind: kernel.cost.tileable(texts))

    def rows(self, documents, device):
        self.threads.add(get_ident())
        if self.fails and device.index == 1:
            raise InputError("card 1 failed")
        return self.kernel.rows(documents, CPU)


def texts(n, seed=0):
    random = np.random.default_rng(seed)
    letters = list("abcdef ")
    return encode(["".join(random.choice(letters, size=int(random.integers(0, 60)))) for _ in range(n)])


@pytest.mark.parametrize("kernel", [EditDistance(), GapWeighted(3, 0.7)], ids=str)
@pytest.mark.parametrize("count", [2, 3])
def test_shards_have_the_bits_of_the_whole(played, kernel, count):
    documents, whole = texts(400), None
    whole = kernel.rows(documents, CPU).gram()
    seen = []
    device, progress = several(count), lambda done, total: seen.append(done / total)
    gram = sharded_gram(OnHost(kernel), documents, device, "1GiB", progress)
    assert [(shard.first, shard.last) for shard in gram.shards] == [*zip(*bounds(400, count), strict=True)]
    for shard in gram.shards:
        np.testing.assert_array_equal(shard.values, whole[:, shard.first : shard.last])
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1)
    np.testing.assert_array_equal(gram.rows(np.array([7, 3])), whole[[7, 3]])
    np.testing.assert_array_equal(gram.diag(), whole.diagonal())
    np.testing.assert_array_equal(gram.window().values, whole)
    assert f"whole kernel matrix on {count} cards, " in gram.description
    assert gram.device is device


def bounds(n, count):
    found = bounds_of(n, count)
    return found[:-1], found[1:]


def test_cards_are_at_work_at_the_same_time(played):
    meeting = Barrier(2, timeout=20)

    class Waiting(OnHost):
        def rows(self, documents, device):
            if get_ident() not in self.threads:
                meeting.wait()  # breaks if only one thread ever comes
            return super().rows(documents, device)

    kernel = Waiting(EditDistance())
    assert sharded_gram(kernel, texts(300), several(2), "1GiB") is not None
    assert len(kernel.threads) == 2


def test_the_failure_of_a_card_ends_all(played):
    refuses("card 1 failed", sharded_gram, OnHost(EditDistance(), fails=True), texts(300), several(2), "1GiB")


def test_what_is_not_made_by_several_cards(played):
    documents, kernel = texts(300), OnHost(EditDistance())
    assert sharded_gram(kernel, documents, several(1), "1GiB") is None
    assert sharded_gram(kernel, documents, Device("cuda", 0, "cuda:0"), "1GiB") is None
    assert sharded_gram(kernel, documents, CPU, "1GiB") is None
    assert sharded_gram(kernel, documents.take([0]), several(2), "1GiB") is None
    assert sharded_gram(OnHost(Spectrum(3)), documents, several(2), "1GiB") is None
    # A shard of 300 x 160 values, and no room for tiles beside it.
    assert sharded_gram(kernel, documents, several(2), 4 * 300 * 160) is None
    assert sharded_gram(kernel, documents, several(2), 4 * 300 * 160 + 8 * 4 * 96**2) is not None


def test_memory_is_that_of_each_card(played):
    """A matrix for which there is no room on one card is made on two."""
    documents, kernel = texts(640), OnHost(EditDistance())
    gram = sharded_gram(kernel, documents, several(2), 4 * 640**2 * 3 // 4)
    assert max(shard.values.nbytes for shard in gram.shards) == 2 * 640**2


def test_a_matrix_of_one_card_is_spread(played):
    matrix = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
    given = DenseGram(matrix.copy(), "said")
    gram = spread(given, several(3))
    np.testing.assert_array_equal(gram.window().values, matrix)
    assert gram.description == "said, on 3 cards"
    assert given.matrix is None
    for device, memory in (
        (several(1), None),
        (CPU, None),
        (several(2), 4 * 200**2),
        (several(2), 5 * 200**2),
    ):
        given = DenseGram(matrix)
        assert spread(given, device, memory) is given
    assert spread(given, several(2), 7 * 200**2) is not given


@pytest.mark.parametrize("n", [2, 3, 7, 100, 128, 1000, 100_000])
@pytest.mark.parametrize("count", [2, 4, 8])
def test_columns_of_each_card(n, count):
    if n < count:
        return
    found = np.array(bounds_of(n, count))
    assert (found[0], found[-1], len(found)) == (0, n, count + 1)
    assert (np.diff(found) > 0).all()
    if n > 1000:
        assert np.diff(found).max() <= n / count + 32 * count
        assert (found[:-1] % 32 == 0).all()


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("kind", ["equal", "uneven"])
def test_tiles_are_few_and_give_all_cards_as_much_work(count, kind):
    random = np.random.default_rng(1)
    lengths = np.full(20_000, 100) if kind == "equal" else random.lognormal(5, 1.2, 20_000).astype(np.int64)
    found = divide(lengths, count, 1 << 40)
    assert cards._most_work(found.work, count) <= 1.03 * sum(found.work) / count
    assert len(found.pieces) <= (4 * count) ** 2 / 2 + 4 * count
    if kind == "equal":
        assert len(found.blocks) == 2 * count
    assert found.work == sorted(found.work, reverse=True)
    made = sorted(found.pieces)
    assert made == [(a, b) for a in range(len(found.blocks)) for b in range(a, len(found.blocks))]
    assert [found.blocks[0].start, found.blocks[-1].stop] == [0, 20_000]
    assert (np.diff(lengths[found.order]) >= 0).all()


def test_tiles_are_smaller_where_there_is_less_room():
    lengths = np.full(20_000, 100)
    large = divide(lengths, 2, 1 << 40).largest
    assert divide(lengths, 2, large - 1).largest < large
    assert divide(lengths, 2, 1000) is None


def test_the_structure_that_the_kernel_takes():
    assert cards.SHARDS.itemsize == 8 * (2 * cards.MAX_SHARDS + 1)
    text = devices.source_text(cards.SOURCE)
    assert f"#define SIDE {cards.SIDE}\n" in text
    assert f"#define MOST {cards.MAX_SHARDS} " in text


def test_the_list_of_devices_says_what_can_work_together(monkeypatch, capsys):
    from textsvm.cli.devices import devices as command

    cards = [devices.DeviceStatus(Device("cuda", index, f"cuda:{index}"), "") for index in range(2)]
    monkeypatch.setattr(devices, "devices", lambda: [devices.DeviceStatus(CPU, ""), *cards])
    command()
    assert "cuda:all: cuda:0 and cuda:1 together; cuda:0,1 for some of them" in capsys.readouterr().out
    monkeypatch.setattr(devices, "devices", lambda: [devices.DeviceStatus(CPU, ""), cards[0]])
    command()
    assert "cuda:all" not in capsys.readouterr().out


def test_who_is_told_of_progress_may_stop_it(played):
    kernel = OnHost(EditDistance())
    with pytest.raises(KeyboardInterrupt):
        sharded_gram(kernel, texts(300), several(2), "1GiB", Mock(side_effect=KeyboardInterrupt))
    assert sharded_gram(kernel, texts(300), several(2), "1GiB") is not None
