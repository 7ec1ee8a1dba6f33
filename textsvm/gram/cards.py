"""Whole kernel matrices in shards on several cards, with the bits of the matrix that one card makes.

Tiles, each made by one card, which puts it in place. Documents are in the order of their length, as in
`textsvm.gram.tiles`: a tile has the bits of the matrix that one card makes. Half of the values are computed.
A card computes one tile while it puts the one before into the shards, transposed too
(kernels_cu/place_tile.cu): some are its own, the others it writes to as well.

What that was predicted to cost, edit distances of n = 100,000 texts of 100 symbols on two H200s (measured:
410 ms in all, reports/gpu/cards.md): 2.5e9 pairs a card, 424 ms.
To be put in place: 10 GB read and 20 GB written a card, 9 ms if all of it stayed there. Tiles whose columns a
card has itself are its first choice, so a quarter of what is written, 5 GB, goes to the other card: 14 ms at
368 GB/s, beside computing. Documents in the order of length are scattered in the matrix, which a value alone
pays with a sector of 32 bytes; those of one length stay in their order, and texts cut at 100 symbols mostly
have one length.

Gap-weighted values have other bits in tiles: how their sums are rounded depends on what documents lie beside.
Every card has all documents, takes a part of the tasks that one card would take, and writes each value where
it belongs (`Cost.in_shards`). They take 25 times longer than edit distances to compute (p = 5, n = 50,000:
2.6 s a card), so that a sector of 32 bytes a value, 30 GB on the bus for 50,000, takes no time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Event, Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import DenseGram, Gram
from textsvm.gram.plan import allowed_bytes, show_bytes
from textsvm.gram.shards import Shard, ShardedGram
from textsvm.gram.tiles import blocks
from textsvm.kernels.base import Kernel
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.runtime.workers import current

SOURCE = "place_tile.cu"
#: What is launched here: (source, defines).
DEFINE_SETS: list[tuple[str, devices.Defines]] = [(SOURCE, ())]
#: Shards at most, and values of a side of a block of threads.
MOST, SIDE = 16, 32
SHARDS = np.dtype([("values", np.uint64, (MOST,)), ("first", np.int64, (MOST + 1,))], align=True)
#: Blocks of documents for each card, in the order in which they are tried; more work than an equal share that
#: the busiest card may have before there are more of them; tiles that a card has at a time.
BLOCKS, UNEVEN, AT_A_TIME = (2, 4, 8, 16), 1.03, 2
#: Share of the work of the largest tile left that a tile may have to be taken before it.
NEARLY = 0.8


def sharded_gram(
    kernel: Kernel,
    examples: Any,
    device: Device,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> ShardedGram | None:
    """Make the Gram of a fitted kernel on all cards of a device.

    Parameters
    ----------
    kernel : Kernel
    examples : Examples
    device : Device
    memory : int or str, optional
        Bytes that rows may take on each card; None is half of what is free there.
    progress : callable, optional

    Returns
    -------
    ShardedGram, or None
        None where it is better made otherwise: on one card, by workers, of a kernel whose tiles do not have
        the bits of the whole, or without room for it.
    """
    read, cards = kernel.structure.read(examples), len(device.cards)
    tiles = kernel.cost.divides(read, device.kind)
    if current() is not None or not _shards(len(examples), cards) or not (tiles or kernel.cost.in_shards):
        return None
    documents = kernel.structure.leaves[0].structure.read(read)
    room = _room(kernel, len(documents), device, memory)
    division = divide(documents.lengths, cards, room) if tiles else None
    if room < 0 or (tiles and division is None):
        return None
    with devices.use(device):
        shards = empty_shards(device, len(documents))
        if division is None:
            _make_in_place(kernel, documents, shards, progress)
        else:
            _Making(kernel, documents, division, shards).run(progress)
    return ShardedGram(device, shards, _said(shards))


def spread(gram: Gram, device: Device, memory: int | str | None = None) -> Gram:
    """A whole matrix that was made on one card, in shards on all and no longer there; others as they are.

    Where there is no room for a shard beside the whole it stays on that card.

    Parameters
    ----------
    gram : Gram
    device : Device
    memory : int or str, optional
        Bytes that both may take on the card; None is half of what is free beside the whole.
    """
    n, cards = gram.n, len(device.cards)
    if not _shards(n, cards) or not isinstance(gram, DenseGram):
        return gram
    room = allowed_bytes(memory, device) - (0 if memory is None else 4 * n**2)
    if 4 * n * int(np.diff(bounds_of(n, cards)).max()) > room:
        return gram
    with devices.use(device):
        shards, matrix = empty_shards(device, gram.n), gram.matrix
        everyone = devices.cupy().arange(gram.n, dtype=np.int32)
        _place(matrix, everyone, everyone, shards, mirrored=False)
        devices.synchronize(device)
    gram.release()
    return ShardedGram(device, shards, f"{gram.description}, on {len(shards)} cards")


def empty_shards(device: Device, n: int) -> list[Shard]:
    """Memory for an n x n matrix on the cards of a device, about as many columns on each."""
    bounds, shards = bounds_of(n, len(device.cards)), []
    for card, first, last in zip(device.each, bounds, bounds[1:], strict=False):
        with devices.use(card):
            what = f"its part of the {n:,} x {n:,} kernel matrix"
            devices.require_memory(4 * n * (last - first), what, "lower --memory")
            shards.append(Shard(card, first, last, devices.cupy().empty((n, last - first), np.float32)))
    # What else may have used the memory has ended before another card writes to it.
    devices.synchronize(device)
    return shards


def bounds_of(n: int, cards: int) -> list[int]:
    """Where the columns of each card begin, and n: at multiples of a warp where there are enough of them."""
    step = SIDE if n >= 2 * SIDE * cards else 1
    return [*(n * card // cards // step * step for card in range(cards)), n]


def _shards(n: int, cards: int) -> bool:
    """Whether there are several cards, and columns for each."""
    return 1 < cards <= min(n, MOST)


def _room(kernel: Kernel, n: int, device: Device, memory: int | str | None) -> int:
    """Bytes for a tile on a card beside its shard; of a sum there are several at a time."""
    bounds = bounds_of(n, len(device.cards))
    allowed = min(allowed_bytes(memory, device), devices.free_memory(device))
    return int(allowed - 4 * n * np.diff(bounds).max()) // (AT_A_TIME * (1 + kernel.structure.depth))


def _said(shards: Sequence[Shard]) -> str:
    most = max(shard.values.nbytes for shard in shards)
    return f"whole kernel matrix on {len(shards)} cards, {show_bytes(most)} each"


@dataclass(frozen=True)
class Division:
    """A symmetric matrix in tiles.

    Attributes
    ----------
    order : int64 array, shape (n,)
        The documents by their length.
    blocks : list of slice
        Of that order.
    pieces : list of (int, int)
        Blocks of the rows and of the columns of each tile, the one with most work first.
    work : list of float
        Of each.
    """

    order: NDArray[np.int64]
    blocks: list[slice]
    pieces: list[tuple[int, int]]
    work: list[float]

    @property
    def largest(self) -> int:
        """Bytes of a tile at most."""
        return 4 * max(block.stop - block.start for block in self.blocks) ** 2


def divide(lengths: NDArray[np.int64], cards: int, room: int) -> Division | None:
    """Few large tiles that give all cards about the same work, none of more bytes than `room`; or None."""
    order = np.argsort(lengths, kind="stable")
    for each in BLOCKS:
        found = _tiles(lengths, order, each * cards)
        fits = found.largest <= room
        if fits and _most_work(found.work, cards) <= UNEVEN * sum(found.work) / cards:
            break
    return found if fits else None


def _tiles(lengths: NDArray[np.int64], order: NDArray[np.int64], count: int) -> Division:
    cut = blocks(lengths[order], count**2 / 2)
    share = [float((lengths[order[block]] + 1).sum()) for block in cut]
    pairs = [(a, b) for a in range(len(cut)) for b in range(a, len(cut))]
    work = [share[a] * share[b] / (1 + (a == b)) for a, b in pairs]
    by_work = np.argsort(work, kind="stable")[::-1].tolist()
    return Division(order, cut, [pairs[i] for i in by_work], [work[i] for i in by_work])


def _most_work(work: Sequence[float], cards: int) -> float:
    """What the busiest card has where each, when it is free, takes the next one."""
    loads = np.zeros(cards)
    for each in work:
        loads[loads.argmin()] += each
    return float(loads.max())


def _on_each(
    cards: int, work: Callable[[int], None], report: Callable[[], None], stop: Callable[[], None]
) -> None:
    """Do work in a thread for each card; an error, or a Ctrl-C, waits for what has begun."""
    with ThreadPoolExecutor(cards) as pool:
        waiting = {pool.submit(copy_context().run, work, number) for number in range(cards)}
        try:
            while waiting:
                ended, waiting = wait(waiting, 0.1, FIRST_COMPLETED)
                for thread in ended:
                    thread.result()
                report()
        except BaseException:
            stop()
            raise


def _make_in_place(
    kernel: Kernel, documents: Any, shards: Sequence[Shard], progress: Progress | None
) -> None:
    """Have every card compute its part of the values and put them into all shards (`Cost.in_shards`)."""
    done, stopped, last = np.zeros(len(shards)), Event(), {}

    def reached(number: int, so_far: float, total: float) -> None:
        if stopped.is_set():
            raise InputError("another card has failed, or this was interrupted")
        done[number] = so_far / total

    def work(number: int) -> None:
        card = shards[number].device
        with devices.use(card):
            rows: Any = kernel.rows(documents, card)
            last[number] = rows.gram_in_shards(shards, number, partial(reached, number))
            devices.synchronize(card)

    for shard in shards:
        with devices.use(shard.device):
            shard.values.fill(0)
            devices.synchronize(shard.device)
    report = (lambda: None) if progress is None else lambda: progress(float(done.sum()), float(len(shards)))
    _on_each(len(shards), work, report, stopped.set)
    for number, shard in enumerate(shards):
        with devices.use(shard.device):
            last[number]()
            devices.synchronize(shard.device)


class _Making:
    """A matrix on its way into shards, in tiles; every card has a thread."""

    def __init__(self, kernel: Kernel, documents: Any, division: Division, shards: Sequence[Shard]) -> None:
        self.kernel, self.documents, self.division, self.shards = kernel, documents, division, shards
        self.lock, self.left, self.done = Lock(), list(range(len(division.pieces))), 0.0
        order, bounds = division.order, [shard.last for shard in shards]
        home = np.searchsorted(bounds, order, side="right")
        #: Which part of the documents of each block have their columns on each card, [card][block].
        self.own = [[float((home[b] == card).mean()) for b in division.blocks] for card in range(len(shards))]

    def run(self, progress: Progress | None) -> None:
        """Make it; an error, or a Ctrl-C, waits for the tiles that are at work."""
        total = sum(self.division.work)

        def report() -> None:
            if progress is not None:
                progress(self.done, total)

        _on_each(len(self.shards), self._at_work, report, self._stop)

    def _stop(self) -> None:
        with self.lock:
            self.left.clear()

    def _next(self, card: int, begun: bool) -> int | None:
        """One of the tiles with most work, of which most belongs to the card; a block with itself at first.

        For that one block of documents has to be prepared, while the card has nothing to do; then the other.
        """
        with self.lock:
            if not self.left:
                return None
            own, (pieces, work) = self.own[card], (self.division.pieces, self.division.work)
            large = [piece for piece in self.left if work[piece] >= NEARLY * work[self.left[0]]]
            if not begun:
                large = [piece for piece in self.left if pieces[piece][0] == pieces[piece][1]] or large
            chosen = max(large, key=lambda piece: own[pieces[piece][0]] + own[pieces[piece][1]])
            self.left.remove(chosen)
            return chosen

    def _at_work(self, card: int) -> None:
        with devices.use(self.shards[card].device):
            maker, under_way = _Card(self, card), []
            try:
                while (piece := self._next(card, bool(maker.rows))) is not None:
                    under_way.append((piece, *maker.tile(*self.division.pieces[piece])))
                    if len(under_way) >= AT_A_TIME:
                        self._end(under_way)
                while under_way:
                    self._end(under_way)
            finally:
                maker.wait()

    def _end(self, under_way: list[tuple[int, Any, Any]]) -> None:
        """Wait for the first tile, and give its memory back."""
        piece, _, placed = under_way.pop(0)
        placed.synchronize()
        with self.lock:
            self.done += self.division.work[piece]


class _Card:
    """What one card makes: documents come on one stream, tiles on another, a third puts them in place."""

    def __init__(self, making: _Making, card: int) -> None:
        self.making, self.device = making, making.shards[card].device
        self.streams = _streams(card, self.device.index)
        self.rows: dict[int, Any] = {}
        with self.streams[2]:
            self.order = devices.cupy().asarray(making.division.order.astype(np.int32))

    def tile(self, a: int, b: int) -> tuple[Any, Any]:
        """Begin with the tile of two blocks; it, and the event that it is in place."""
        documents, tiles, placing = self.streams
        with documents:
            rows, columns = self._rows(a), self._rows(b)
            ready = documents.record()
        with tiles:
            tiles.wait_event(ready)
            tile = columns.gram() if a == b else _between(rows, columns)
            made = tiles.record()
        with placing:
            placing.wait_event(made)
            of_a, of_b = (self.order[self.making.division.blocks[block]] for block in (a, b))
            _place(tile, of_a, of_b, self.making.shards, mirrored=a != b)
            return tile, placing.record()

    def wait(self) -> None:
        """Until all is done."""
        for stream in self.streams:
            stream.synchronize()

    def _rows(self, block: int) -> Any:
        """Documents of a block, prepared once."""
        if block not in self.rows:
            some = self.making.division.order[self.making.division.blocks[block]]
            self.rows[block] = self.making.kernel.rows(self.making.documents.take(some), self.device)
        return self.rows[block]


@lru_cache(maxsize=64)
def _streams(card: int, index: int) -> tuple[Any, Any, Any]:
    """Of the current card; kept, for memory that arrays on a stream had is for others on it."""
    first, second, third = (devices.cupy().cuda.Stream(non_blocking=True) for _ in range(3))
    return first, second, third


def _between(rows: Any, columns: Any) -> Any:
    """k(rows, columns), of documents that are prepared."""
    between = getattr(columns, "between", None)
    return columns.cross(rows.documents) if between is None else between(rows)


def _place(tile: Any, rows: Any, columns: Any, shards: Sequence[Shard], mirrored: bool) -> None:
    """Put values of the current card, at those rows and columns, into all shards, and transposed."""
    values, first = np.zeros(MOST, np.uint64), np.zeros(MOST + 1, np.int64)
    values[: len(shards)] = [shard.values.data.ptr for shard in shards]
    first[1 : len(shards) + 1] = [shard.last for shard in shards]
    height, width = tile.shape
    devices.function(SOURCE, "place_tile")(
        (-(-width // SIDE), -(-height // SIDE)),
        (SIDE, 8),
        (
            tile, np.int64(height), np.int64(width), rows, columns,
            devices.structure(SHARDS, values=values, first=first), np.int32(mirrored),
        ),
    )  # fmt: skip
