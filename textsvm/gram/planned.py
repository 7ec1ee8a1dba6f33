"""A Gram where it is asked to lie, or is predicted to serve a solver soonest (`textsvm.gram.tiers`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.gram.cached import CachedGram, most_rows
from textsvm.gram.features import gram_of
from textsvm.gram.held import bus_rate, held_gram, measured_rate
from textsvm.gram.plan import allowed_bytes, on_demand, plan, show_bytes
from textsvm.gram.rates import disk_rates
from textsvm.gram.store import Store, Wanted
from textsvm.gram.stored import StoredRows, read_whole
from textsvm.gram.tiers import LEAST, Case, Rates, choose
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress


@dataclass(frozen=True)
class Asked:
    """How a user wants rows kept.

    Attributes
    ----------
    memory : int or str, optional
        Bytes that rows may take where the solver is; None is half of what is free there.
    tier : {"auto", "device", "host", "disk", "recompute"}
    store : path, optional
        Folder in which the matrix is kept on disk; nothing is written to a disk without it.
    """

    memory: int | str | None = None
    tier: str = "auto"
    store: str | os.PathLike[str] | None = None


class Planned:
    """The places that a Gram can have.

    Parameters
    ----------
    wanted : Wanted
    asked : Asked
        Checked.
    """

    def __init__(self, wanted: Wanted, asked: Asked) -> None:
        self.wanted, self.asked, self.n = wanted, asked, wanted.n
        #: What was chosen, once it is.
        self.tier = asked.tier

    def gram(self, progress: Progress | None = None) -> Gram:
        """Make it.

        Raises
        ------
        InputError
            If it cannot lie where it is asked to, or not be read from or written to its store.
        """
        said = ", as asked for"
        if self.asked.tier == "auto":
            self.tier, said = self._chosen()
        elif trouble := self._why_not(self.tier):
            raise InputError(f"tier={self.tier!r} is not possible: {trouble}")
        stored = self.stored
        if stored is not None:
            stored.complete(progress)
        if self.tier == "host" and self.wanted.device.kind == "cuda":
            return held_gram(self.wanted, self.allowed, said, stored, progress)
        return self._computed(said, progress) if stored is None else self._read(stored, said, progress)

    @cached_property
    def rows(self) -> Any:
        """What computes rows."""
        kernel = self.wanted.kernel
        return kernel.rows(kernel.structure.read(self.wanted.examples), self.wanted.device)

    @cached_property
    def allowed(self) -> int:
        """Bytes that rows may take where the solver is, beside what computes them."""
        return allowed_bytes(self.asked.memory, self.wanted.device)

    @cached_property
    def stored(self) -> StoredRows | None:
        """What reads them, if a store is named."""
        if self.asked.store is None:
            return None
        return StoredRows(Store(self.asked.store).find(self.wanted, self.allowed), self.wanted)

    @cached_property
    def host(self) -> int:
        """Bytes that rows may take in main memory."""
        return (
            self.allowed if self.wanted.device.kind == "cpu" else allowed_bytes(None, devices.select("cpu"))
        )

    @property
    def _fits(self) -> bool:
        """Whether the whole matrix fits where the solver is, with what making it takes."""
        matrices = 1 if self.asked.store is not None else getattr(self.rows, "matrices", 1)
        return plan(self.n, self.allowed, matrices).dense

    def _why_not(self, tier: str) -> str:
        """Why a matrix cannot lie somewhere; "" if it can."""
        need, device = 4 * self.n**2, self.wanted.device
        if tier == "device" or (tier == "host" and device.kind == "cpu"):
            possible = self._fits
            there, room = device.description if device.kind == "cuda" else "main memory", self.allowed
        else:
            there, room = "main memory", self.host
            possible = tier != "host" or need <= room
        if possible:
            return ""
        return (
            f"the whole kernel matrix takes {show_bytes(need)} and {show_bytes(room)} of {there} may be "
            "taken; allow more memory (--memory), or take another tier (--tier)"
        )

    def _chosen(self) -> tuple[str, str]:
        """The tier, and what was predicted if there were several."""
        if (self.asked.store is None and hasattr(self.rows, "make_features")) or self._fits:
            return "device", ""
        other = "recompute" if self.asked.store is None else "disk"
        if self.wanted.device.kind == "cpu" or not LEAST <= 4 * self.n**2 <= self.host:
            return other, ""
        found = 0.0 if self.stored is None else self.stored.found
        case = Case(self.n, most_rows(self.n, self.allowed), self.stored is not None, found)
        tier, said = choose(case, {"host", other}, self._rates(case))
        return tier, f": {said}"

    def _rates(self, case: Case) -> Rates:
        """What is measured, as far as what is predicted depends on it."""
        compute = measured_rate(self.rows) if case.found < 1 else inf
        bus = bus_rate(self.wanted.device)
        if self.asked.store is None:
            return Rates(compute, bus)
        return Rates(compute, bus, *disk_rates(Path(self.asked.store)))

    def _computed(self, said: str, progress: Progress | None) -> Gram:
        if self.tier == "recompute" and self._fits:
            return CachedGram(self.rows, self.allowed, on_demand(self.n, self.allowed) + said)
        gram = gram_of(self.rows, self.allowed, progress)
        gram.description += said
        return gram

    def _read(self, stored: StoredRows, said: str, progress: Progress | None) -> Gram:
        if self.tier != "disk":
            return read_whole(stored, plan(self.n, self.allowed).description + said, progress)
        described = f"{stored.description}; {on_demand(self.n, self.allowed)}{said}"
        return CachedGram(stored, self.allowed, described)
