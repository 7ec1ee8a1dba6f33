"""A kernel matrix in shards of columns, one a card: each card holds K[:, first:last]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.device import Device
from textsvm.gram.base import Window


@dataclass(frozen=True)
class Shard:
    """What one card holds.

    Attributes
    ----------
    device : Device
        The card.
    first, last : int
        The columns.
    values : float32 array, shape (n, last - first), on that card, C order
    """

    device: Device
    first: int
    last: int
    values: Any


class ShardedGram:
    """Columns of a matrix on several cards (`Gram`); rows are brought together on the first of them.

    Parameters
    ----------
    device : Device
        With `cards`.
    shards : sequence of Shard
        In the order of their columns, one a card, all columns once.
    description : str
        Where the matrix comes from, for people.
    """

    concurrent = False

    def __init__(self, device: Device, shards: Sequence[Shard], description: str = "") -> None:
        self.device, self.shards, self.description = device, list(shards), description
        self.n: int = shards[-1].last

    def diag(self) -> Any:
        """See `Gram`."""
        return self._together([shard.values[shard.first : shard.last].diagonal() for shard in self.shards])

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """See `Gram`."""
        return self._together([self._part(shard, indices) for shard in self.shards])

    def window(self) -> Window:
        """See `Gram`: all of it on the first card, for who cannot use shards."""
        with devices.use(self.device):
            every = devices.cupy().arange(self.n, dtype=np.int32)
            return Window(self.rows(np.arange(self.n)), every, np.zeros(self.n, np.int64))

    def release(self) -> None:
        """See `Gram`."""
        self.shards = []

    def _part(self, shard: Shard, indices: NDArray[np.int64]) -> Any:
        with devices.use(shard.device):
            part = shard.values[devices.cupy().asarray(indices)]
        devices.synchronize(shard.device)
        return part

    def _together(self, parts: list[Any]) -> Any:
        with devices.use(self.device):
            cp = devices.cupy()
            return cp.concatenate([cp.asarray(part) for part in parts], axis=-1)
