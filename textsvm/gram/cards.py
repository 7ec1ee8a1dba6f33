"""A whole kernel matrix in shards of columns on several cards, with the bits of a matrix on a single card.

The matrix is cut into tiles, each computed by a single card. Documents are sorted by length, as in
`textsvm.gram.tiles`, so that a tile has the bits of the whole matrix. Half of the values are computed. While
a card computes a tile, it copies the previous tile, and its transpose, into the shards of all cards
(kernels_cu/place_tile.cu).

Predicted cost of edit distances of n = 100,000 texts of 100 symbols on two H200s (measured: 410 ms in total,
reports/gpu/cards.md): computing, 2.5e9 pairs a card, 424 ms. Placing reads 10 GB and writes 20 GB a card,
9 ms if all of it stayed there. A card prefers tiles whose columns are in its own shard, so a quarter of the
writes, 5 GB, goes to the other card: 14 ms at 368 GB/s, hidden behind computing. Sorting by length scatters
documents in the matrix, which costs a sector of 32 bytes for a single value; documents of equal length keep
their order, and most texts cut at 100 symbols have the same length.

Gap-weighted values have other bits in tiles, because rounding depends on the neighbouring documents. For
these every card has all documents, takes a part of the tasks of a single card, and writes each value
into its place (`Cost.in_shards`). They take 25 times longer than edit distances to compute (p = 5, n =
50,000: 2.6 s a card), so that a sector of 32 bytes a value, 30 GB on the bus for 50,000, takes no time.
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

from textsvm.arrays import Array, Ints
from textsvm.errors import InputError
from textsvm.gram.base import DenseGram, Gram, Window, allowed_bytes
from textsvm.gram.plan import show_bytes
from textsvm.gram.tiles import blocks
from textsvm.kernels.base import Kernel
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, report
from textsvm.runtime.workers import current
from textsvm.text.documents import Documents

SOURCE = "place_tile.cu"
DEFINE_SETS: list[tuple[str, devices.Defines]] = [(SOURCE, ())]  #: Launched here: (source, defines).
#: Maximum number of shards, and number of values along a side of a thread block.
MAX_SHARDS, SIDE = 16, 32
SHARDS = np.dtype([("values", np.uint64, (MAX_SHARDS,)), ("first", np.int64, (MAX_SHARDS + 1,))], align=True)
#: Numbers of blocks per card to try; accepted work of the busiest card, relative to an equal share; tiles
#: that a card has at a time.
BLOCKS, UNEVEN, AT_A_TIME = (2, 4, 8, 16), 1.03, 2
NEARLY = 0.8  #: Minimum work of the next tile, relative to the largest remaining tile.


@dataclass(frozen=True)
class Shard:
    """Columns first to last - 1 on a card."""

    device: Device
    first: int
    last: int
    values: Array  #: float32, shape (n, last - first), C order


class ShardedGram(Gram):
    """Columns of a matrix on several cards, a `Shard` per card, in order; rows are gathered on the first."""

    def __init__(self, device: Device, shards: Sequence[Shard], description: str = "") -> None:
        self.device, self.shards, self.description = device, list(shards), description
        self.n: int = shards[-1].last
        self._copies: list[DenseGram] = []

    def diag(self) -> Array:
        return self._gathered(lambda shard: shard.values[shard.first : shard.last].diagonal().copy())

    def rows(self, indices: Ints) -> Array:
        return self._gathered(lambda shard: shard.values[devices.cupy().asarray(indices)])

    def window(self) -> Window:
        """All rows on the first card, for solvers that cannot use shards."""
        with devices.use(self.device):
            every = devices.cupy().arange(self.n, dtype=np.int32)
        whole = self._whole(self.device)
        devices.synchronize(self.device)
        return Window(whole, every, np.zeros(self.n, np.int64))

    def copies(self) -> Sequence[Gram]:
        """The whole matrix on each card, kept until `release`; empty if a card has no room for it."""
        if not self._copies and all(self._has_room(shard.device) for shard in self.shards):
            enable_peers([shard.device for shard in self.shards])
            self._copies = [DenseGram(self._whole(shard.device)) for shard in self.shards]
            for shard in self.shards:
                devices.synchronize(shard.device)
        return self._copies

    def release(self) -> None:
        self.shards, self._copies = [], []

    def _has_room(self, card: Device) -> bool:
        """Whether the whole matrix leaves the solver a quarter of the free memory."""
        return 4 * self.n**2 <= devices.free_memory(card) * 3 // 4

    def _whole(self, card: Device) -> Array:
        """The whole matrix on a card, copied from all shards."""
        for shard in self.shards:
            devices.synchronize(shard.device)
        with devices.use(card):
            cp = devices.cupy()
            whole, cuda = cp.empty((self.n, self.n), np.float32), cp.cuda
            for shard in self.shards:
                part, width = whole[:, shard.first : shard.last], 4 * (shard.last - shard.first)
                to, by, stream = part.data.ptr, part.strides[0], cuda.get_current_stream().ptr
                source = shard.values.data.ptr, shard.values.strides[0]
                cuda.runtime.memcpy2DAsync(to, by, *source, width, self.n, cuda.runtime.memcpyDefault, stream)
            return whole

    def _gathered(self, take: Callable[[Shard], Array]) -> Array:
        """Columns that `take` copies from each shard, on the first card."""
        parts = []
        for shard in self.shards:
            with devices.use(shard.device):
                parts.append(take(shard))
            devices.synchronize(shard.device)
        with devices.use(self.device):
            cp = devices.cupy()
            return cp.concatenate([cp.asarray(part) for part in parts], axis=-1)


def enable_peers(cards: Sequence[Device]) -> None:
    """Let all of these cards access each other's memory; InputError if two of them cannot."""
    if trouble := devices.unconnected(tuple(dict.fromkeys(card.index for card in cards))):
        raise InputError(trouble)


def sharded_gram(
    kernel: Kernel,
    examples: Documents,
    device: Device,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> ShardedGram | None:
    """Compute the Gram of a fitted kernel on all cards of a device, within `memory` bytes on each.

    Returns None if this is impossible: with a single card, with workers, for a kernel whose tiles differ in
    bits from the whole matrix, or without enough memory.
    """
    cards = len(device.cards)
    if current() is not None or not _shards(len(examples), cards):
        return None
    read = kernel.structure.read(examples)
    tiles = kernel.cost.tileable(read, device.kind)
    if not (tiles or kernel.cost.in_shards):
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
            _TilesOnCards(kernel, documents, division, shards).run(progress)
    most = show_bytes(max(shard.values.nbytes for shard in shards))
    return ShardedGram(device, shards, f"whole kernel matrix on {len(shards)} cards, {most} each")


def spread(gram: Gram, device: Device, memory: int | str | None = None) -> Gram:
    """Move a whole matrix from a card into shards on all cards of a device; return other Grams unchanged.

    It is not moved if its card has no room for the shard beside the matrix, within `memory` bytes for both
    (None: half of the memory that is free beside the matrix).
    """
    n, cards = gram.n, len(device.cards)
    if not _shards(n, cards) or gram.matrix is None:
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
    """Uninitialised shards of an n x n matrix on the cards of a device, about equal in size."""
    bounds, shards = bounds_of(n, len(device.cards)), []
    for card, first, last in zip(device.each, bounds, bounds[1:], strict=False):
        with devices.use(card):
            purpose = f"its part of the {n:,} x {n:,} kernel matrix"
            devices.require_memory(4 * n * (last - first), purpose, "lower --memory")
            shards.append(Shard(card, first, last, devices.cupy().empty((n, last - first), np.float32)))
    # Earlier work in this memory has ended before another card writes to it.
    devices.synchronize(device)
    return shards


def bounds_of(n: int, cards: int) -> list[int]:
    """First column of each card, and n: multiples of a warp where there are enough columns."""
    step = SIDE if n >= 2 * SIDE * cards else 1
    return [*(n * card // cards // step * step for card in range(cards)), n]


def _shards(n: int, cards: int) -> bool:
    """Whether there are several cards, with columns for each."""
    return 1 < cards <= min(n, MAX_SHARDS)


def _room(kernel: Kernel, n: int, device: Device, memory: int | str | None) -> int:
    """Bytes for a tile on a card beside its shard; a sum of kernels has several tiles at a time."""
    bounds = bounds_of(n, len(device.cards))
    allowed = min(allowed_bytes(memory, device), devices.free_memory(device))
    return int(allowed - 4 * n * np.diff(bounds).max()) // (AT_A_TIME * (1 + kernel.structure.depth))


@dataclass(frozen=True)
class Division:
    """A symmetric matrix in tiles."""

    order: Ints  #: shape (n,): Documents sorted by length
    blocks: list[slice]  #: Of `order`
    pieces: list[tuple[int, int]]  #: Row block and column block of each tile, largest work first
    work: list[float]  #: Of each piece

    @property
    def largest(self) -> int:
        """Bytes of the largest tile."""
        return 4 * max(block.stop - block.start for block in self.blocks) ** 2


def divide(lengths: Ints, cards: int, room: int) -> Division | None:
    """Few large tiles of at most `room` bytes with about equal work for all cards; None if no tile fits."""
    order = np.argsort(lengths, kind="stable")
    for count in BLOCKS:
        division = _tiles(lengths, order, count * cards)
        fits = division.largest <= room
        if fits and _most_work(division.work, cards) <= UNEVEN * sum(division.work) / cards:
            break
    return division if fits else None


def _tiles(lengths: Ints, order: Ints, count: int) -> Division:
    cut = blocks(lengths[order], count**2 / 2)
    share = [float((lengths[order[block]] + 1).sum()) for block in cut]
    pairs = [(a, b) for a in range(len(cut)) for b in range(a, len(cut))]
    work = [share[a] * share[b] / (1 + (a == b)) for a, b in pairs]
    by_work = np.argsort(work, kind="stable")[::-1].tolist()
    return Division(order, cut, [pairs[i] for i in by_work], [work[i] for i in by_work])


def _most_work(work: Sequence[float], cards: int) -> float:
    """Work of the busiest card if each card takes the next piece when it is idle."""
    loads = np.zeros(cards)
    for share in work:
        loads[loads.argmin()] += share
    return float(loads.max())


def _on_each(
    cards: int, work: Callable[[int], None], watch: Callable[[], None], stop: Callable[[], None]
) -> None:
    """Run `work` in a thread for each card, calling `watch` now and then; an error waits for started work."""
    with ThreadPoolExecutor(cards) as pool:
        waiting = {pool.submit(copy_context().run, work, number) for number in range(cards)}
        try:
            while waiting:
                ended, waiting = wait(waiting, 0.1, FIRST_COMPLETED)
                for thread in ended:
                    thread.result()
                watch()
        except BaseException:
            stop()
            raise


def _make_in_place(
    kernel: Kernel, documents: Documents, shards: Sequence[Shard], progress: Progress | None
) -> None:
    """Every card computes its part of the values and writes them into all shards (`Cost.in_shards`)."""
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
    _on_each(len(shards), work, lambda: report(progress, float(done.sum()), float(len(shards))), stopped.set)
    for number, shard in enumerate(shards):
        with devices.use(shard.device):
            last[number]()
            devices.synchronize(shard.device)


class _TilesOnCards:
    """Compute a matrix in tiles with a thread per card, and copy them into shards."""

    def __init__(
        self, kernel: Kernel, documents: Documents, division: Division, shards: Sequence[Shard]
    ) -> None:
        self.kernel, self.documents, self.division, self.shards = kernel, documents, division, shards
        self.lock, self.left, self.done = Lock(), list(range(len(division.pieces))), 0.0
        order, bounds = division.order, [shard.last for shard in shards]
        home = np.searchsorted(bounds, order, side="right")
        #: Fraction of the documents of a block whose columns are on a card, [card][block].
        self.own = [[float((home[b] == card).mean()) for b in division.blocks] for card in range(len(shards))]

    def run(self, progress: Progress | None) -> None:
        """Compute all tiles; an error or Ctrl-C waits for the tiles in progress."""
        total = sum(self.division.work)
        _on_each(len(self.shards), self._at_work, lambda: report(progress, self.done, total), self._stop)

    def _stop(self) -> None:
        with self.lock:
            self.left.clear()

    def _next(self, card: int, begun: bool) -> int | None:
        """Number of the next tile: among the large tiles the one with most columns in this card's shard.

        The first tile is a block with itself, which needs a single prepared block of documents.
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
                for stream in maker.streams:
                    stream.synchronize()

    def _end(self, under_way: list[tuple[int, Any, Any]]) -> None:
        """Wait for the oldest tile, and free its memory."""
        piece, _, placed = under_way.pop(0)
        placed.synchronize()
        with self.lock:
            self.done += self.division.work[piece]


class _Card:
    """Work of one card, on three streams: prepare documents, compute tiles, copy them into the shards."""

    def __init__(self, making: _TilesOnCards, card: int) -> None:
        self.making, self.device = making, making.shards[card].device
        self.streams = _streams(card, self.device.index)
        self.rows: dict[int, Any] = {}
        with self.streams[2]:
            self.order = devices.cupy().asarray(making.division.order.astype(np.int32))

    def tile(self, a: int, b: int) -> tuple[Any, Any]:
        """Start the tile of two blocks; return it, and an event for its end."""
        documents, tiles, placing = self.streams
        with documents:
            rows, columns = self._rows(a), self._rows(b)
            ready = documents.record()
        with tiles:
            tiles.wait_event(ready)
            tile = columns.gram() if a == b else columns.cross(rows.documents)
            computed = tiles.record()
        with placing:
            placing.wait_event(computed)
            of_a, of_b = (self.order[self.making.division.blocks[block]] for block in (a, b))
            _place(tile, of_a, of_b, self.making.shards, mirrored=a != b)
            return tile, placing.record()

    def _rows(self, block: int) -> Any:
        if block not in self.rows:
            index = self.making.division.order[self.making.division.blocks[block]]
            self.rows[block] = self.making.kernel.rows(self.making.documents.take(index), self.device)
        return self.rows[block]


@lru_cache(maxsize=64)
def _streams(card: int, index: int) -> tuple[Any, Any, Any]:
    """Streams of the current card; cached, because freed memory is reused within a stream."""
    first, second, third = (devices.cupy().cuda.Stream(non_blocking=True) for _ in range(3))
    return first, second, third


def _place(tile: Array, rows: Any, columns: Any, shards: Sequence[Shard], mirrored: bool) -> None:
    """Copy a tile of the current card into all shards, and its transpose if `mirrored`."""
    values, first = np.zeros(MAX_SHARDS, np.uint64), np.zeros(MAX_SHARDS + 1, np.int64)
    values[: len(shards)] = [shard.values.data.ptr for shard in shards]
    first[1 : len(shards) + 1] = [shard.last for shard in shards]
    height, width = tile.shape
    argument, blocks = (
        devices.structure(SHARDS, values=values, first=first),
        (-(-width // SIDE), -(-height // SIDE)),
    )
    sizes = np.int64(height), np.int64(width)
    kernel = devices.function(SOURCE, "place_tile")
    kernel(blocks, (SIDE, 8), (tile, *sizes, rows, columns, argument, np.int32(mirrored)))
