"""A kernel matrix in shards of columns, one a card: each card holds K[:, first:last]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.gram.base import DenseGram, Gram, Window
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device


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


class ShardedGram(Gram):
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
        self._copies: list[DenseGram] = []

    def diag(self) -> Any:
        """See `Gram`."""
        return self._together([self._diagonal(shard) for shard in self.shards])

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """See `Gram`."""
        return self._together([self._part(shard, indices) for shard in self.shards])

    def window(self) -> Window:
        """See `Gram`: all of it on the first card, for who cannot use shards."""
        with devices.use(self.device):
            every = devices.cupy().arange(self.n, dtype=np.int32)
        whole = self._whole(self.device)
        devices.synchronize(self.device)
        return Window(whole, every, np.zeros(self.n, np.int64))

    def copies(self) -> Sequence[Gram]:
        """All of it on each card, for problems that share nothing; empty where a card has no room for it.

        They are kept until the Gram is released: what solves once over a Gram mostly does so again.
        """
        if not self._copies and all(self._has_room(shard.device) for shard in self.shards):
            enable_peers([shard.device for shard in self.shards])
            self._copies = [DenseGram(self._whole(shard.device)) for shard in self.shards]
            for shard in self.shards:
                devices.synchronize(shard.device)
        return self._copies

    def release(self) -> None:
        """See `Gram`."""
        self.shards, self._copies = [], []

    def _has_room(self, card: Device) -> bool:
        """Whether all of it leaves the solver a quarter of what is free."""
        return 4 * self.n**2 <= devices.free_memory(card) * 3 // 4

    def _whole(self, card: Device) -> Any:
        """The matrix on a card, which copies it from the others."""
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

    def _diagonal(self, shard: Shard) -> Any:
        with devices.use(shard.device):
            part = shard.values[shard.first : shard.last].diagonal().copy()
        devices.synchronize(shard.device)
        return part

    def _part(self, shard: Shard, indices: NDArray[np.int64]) -> Any:
        with devices.use(shard.device):
            part = shard.values[devices.cupy().asarray(indices)]
        devices.synchronize(shard.device)
        return part

    def _together(self, parts: list[Any]) -> Any:
        with devices.use(self.device):
            cp = devices.cupy()
            return cp.concatenate([cp.asarray(part) for part in parts], axis=-1)


def enable_peers(cards: Sequence[Device]) -> None:
    """Let every one of these cards read and write the memory of the others.

    Raises
    ------
    InputError
        If two of them cannot.
    """
    indices = tuple(dict.fromkeys(card.index for card in cards))
    if trouble := devices.unconnected(indices):
        raise InputError(trouble)
