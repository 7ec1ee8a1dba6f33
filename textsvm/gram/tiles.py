"""Whole kernel matrices; workers compute them in tiles, with the bits of a single machine.

Documents are sorted by length and cut into blocks of about equal work. Tile (a, b), a <= b, is block a
against block b: the shorter document of a pair is the row, as in a matrix that is computed as a whole,
because a sum of floats depends on its order (`Cost.tileable` says which kernels are divided).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats32, Ints
from textsvm.gram.base import DenseGram
from textsvm.kernels.base import Kernel
from textsvm.kernels.contract import Sharing
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.runtime.workers import Workers, current
from textsvm.text.documents import Documents

TILE_SECONDS = 2.0  #: Approximate maximum of predicted seconds of a tile.
TILE_BYTES = 32 << 20  #: Approximate maximum of bytes of a tile.
TILES_EACH = 8  #: Minimum number of tiles per task that runs at a time.
#: Block sizes are multiples of this number, because kernels compare so many documents side by side.
SIDE_BY_SIDE = 32


@dataclass(frozen=True)
class TileRecipe:
    """How a tile is computed: a fitted kernel, or the kernels of a shared pass, and the kind of device."""

    kernels: Sequence[Kernel]
    sharing: Sharing | None
    device: str

    def exact_in_tiles(self, documents: Documents) -> bool:
        """Whether tiles have the bits of the whole matrices."""
        if self.sharing is None:
            return bool(self.kernels[0].cost.tileable(documents, self.device))
        return self.device == "cpu" and self.sharing.tileable

    def tile(self, rows: Documents, columns: Documents) -> list[Floats32]:
        """Tile of each matrix, on the host; of a block with itself if `rows` is `columns`."""
        device = devices.select(self.device)
        with devices.use(device):
            if self.sharing is not None:
                if rows is columns:
                    return [matrix for _, matrix in self.sharing.grams(self.kernels, rows, device, None)]
                return self.sharing.cross(self.kernels, rows, columns)
            prepared = self.kernels[0].rows(columns, device)
            return [devices.to_host(prepared.gram() if rows is columns else prepared.cross(rows))]


@dataclass(frozen=True)
class Tiling:
    """Division of matrices into tiles; `blocks` are slices of `order`, the documents sorted by length."""

    workers: Workers
    recipe: TileRecipe
    documents: Documents
    order: Ints
    blocks: list[slice]

    @property
    def description(self) -> str:
        """Number of tiles and the workers, for people."""
        return f"in {len(self._pieces):,} tiles by {self.workers.description}"

    @property
    def _pieces(self) -> list[tuple[slice, slice]]:
        return [(a, b) for k, a in enumerate(self.blocks) for b in self.blocks[k:]]

    def matrices(self, progress: Progress | None = None) -> list[Floats32]:
        """The whole matrices, on the host, in the order of the kernels."""
        n, pieces = len(self.order), self._pieces
        matrices = [np.empty((n, n), np.float32) for _ in self.recipe.kernels]
        shared = (self.recipe, self.documents.take(self.order))
        lengths = shared[1].lengths
        work = [float(lengths[a].sum() * lengths[b].sum()) / (1 + (a == b)) for a, b in pieces]
        for number, tiles in self.workers.run(_tile, shared, pieces, work, progress):
            a, b = (self.order[block] for block in pieces[number])
            for matrix, tile in zip(matrices, tiles, strict=True):
                matrix[a[:, None], b] = tile
                matrix[b[:, None], a] = tile.T
        return matrices


def _tile(recipe: TileRecipe, documents: Documents, piece: tuple[slice, slice]) -> list[Floats32]:
    """Task of a worker; `documents` are sorted by length."""
    rows, columns = (documents.take(np.arange(block.start, block.stop)) for block in piece)
    return recipe.tile(rows, rows if piece[0] == piece[1] else columns)


def _tiling(recipe: TileRecipe, documents: Documents) -> Tiling | None:
    workers = current()
    if workers is None or not recipe.exact_in_tiles(documents):
        return None
    seconds = max(kernel.cost.seconds(documents, documents) for kernel in recipe.kernels) / 2
    if not workers.pays(seconds):
        return None
    # In the view that all parts of the kernel share.
    documents = recipe.kernels[0].structure.leaves[0].structure.read(documents)
    lengths = documents.lengths
    order = np.argsort(lengths, kind="stable")
    size = 4 * len(recipe.kernels) * len(order) ** 2 / 2
    tiles = max(TILES_EACH * workers.threads, seconds / TILE_SECONDS, size / TILE_BYTES)
    return Tiling(workers, recipe, documents, order, blocks(lengths[order], tiles))


def blocks(lengths: Ints, tiles: float) -> list[slice]:
    """Cut documents with ascending lengths into blocks, for about `tiles` tiles of about equal work.

    Half of a block's share depends on length, half on the number of documents, so that no block has many more
    documents than the others.
    """
    n, count = len(lengths), max(1, int(np.sqrt(2 * tiles)))
    share = np.cumsum(lengths + lengths.mean() + 1)
    ends = np.searchsorted(share, share[-1] * np.arange(1, count) / count)
    ends = np.unique(np.round(ends / SIDE_BY_SIDE).astype(np.int64) * SIDE_BY_SIDE)
    bounds = [0, *(int(end) for end in ends if 0 < end < n), n]
    return [slice(first, last) for first, last in pairwise(bounds)]


def whole_gram(rows: Any, description: str, progress: Progress | None = None) -> DenseGram:
    """The whole matrix of prepared rows (`MatrixRows`), computed by workers if that is faster."""
    kernel: Any = getattr(rows, "kernel", None) if current() is not None else None
    recipe = None if kernel is None else TileRecipe((kernel,), None, rows.device.kind)
    tiling = None if recipe is None else _tiling(recipe, rows.documents)
    if tiling is None:
        return DenseGram(rows.gram(progress), description)
    [matrix] = tiling.matrices(progress)
    return DenseGram(_on_device(matrix, rows.device), f"{description}, {tiling.description}")


def shared_grams(
    recipe: TileRecipe, documents: Documents, device: Device, description: str, progress: Progress | None
) -> Iterator[tuple[int, DenseGram]]:
    """The Grams of the kernels of a shared pass, by their positions; see `Sharing.grams`."""
    assert recipe.sharing is not None
    if (tiling := _tiling(recipe, documents)) is None:
        for position, matrix in recipe.sharing.grams(recipe.kernels, documents, device, progress):
            gram = DenseGram(matrix, description)
            del matrix
            yield position, gram
        return
    matrices = tiling.matrices(progress)[::-1]
    for position in range(len(recipe.kernels)):
        yield position, DenseGram(_on_device(matrices.pop(), device), f"{description}, {tiling.description}")


def _on_device(matrix: Floats32, device: Device) -> Array:
    with devices.use(device):
        return devices.array_module(device).asarray(matrix)
