"""Where the rows of the kernel matrix come from: decided once, from a byte budget, and said to the user."""

from __future__ import annotations

import re
from dataclasses import dataclass

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.gram.cached import CachedGram
from textsvm.gram.tiles import whole_gram
from textsvm.kernels.contract import MatrixRows
from textsvm.runtime.device import Device, free_memory
from textsvm.runtime.parallel import Progress
from textsvm.runtime.workers import current

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Plan:
    """What was decided.

    Attributes
    ----------
    dense : bool
        The whole matrix, else rows on demand.
    memory : int
        Bytes that rows may take.
    description : str
        What a user is shown.
    """

    dense: bool
    memory: int
    description: str


def plan(n: int, memory: int, matrices: int = 1) -> Plan:
    """Decide where the rows of an n x n kernel matrix come from, given a byte budget.

    Parameters
    ----------
    n, memory : int
    matrices : int
        How many there are at a time while the whole one is made.
    """
    need = 4 * n * n
    if matrices * need <= memory:
        return Plan(
            True, memory, f"whole kernel matrix in memory ({show_bytes(need)} of {show_bytes(memory)})"
        )
    return Plan(False, memory, on_demand(n, memory))


def on_demand(n: int, memory: int) -> str:
    """What a user is shown of rows that are brought when they are asked for."""
    whole = show_bytes(4 * n * n)
    return f"rows on demand, cached under {show_bytes(memory)} (the whole matrix would take {whole})"


def make_gram(
    kernel_rows: MatrixRows, memory: int | str | None = None, progress: Progress | None = None
) -> Gram:
    """Make the Gram that `plan` decides on, where the rows live.

    Parameters
    ----------
    kernel_rows : MatrixRows
        What its `description`, if it has one, says of rows is part of the Gram's.
    memory : int or str, optional
        Bytes that rows may take; None is half of what is free there.
    progress : callable, optional
        Called while a whole matrix is computed.

    Raises
    ------
    InputError
        If `memory` cannot be understood, or two rows do not fit.
    """
    matrices = getattr(kernel_rows, "matrices", 1)
    decided = plan(kernel_rows.n, allowed_bytes(memory, kernel_rows.device), matrices)
    rows = getattr(kernel_rows, "description", "")
    description = f"{decided.description}; {rows}" if rows else decided.description
    if decided.dense:
        return whole_gram(kernel_rows, description, progress)
    alone = "; workers make whole matrices only, so none helps" if current() else ""
    if kernel_rows.device.cards:
        alone += f"; on the first of {len(kernel_rows.device.cards)} cards"
    return CachedGram(kernel_rows, decided.memory, description + alone)


def allowed_bytes(memory: int | str | None, device: Device) -> int:
    """Bytes that rows may take on a device: what the user says, or half of what is free there.

    Raises
    ------
    InputError
        If `memory` cannot be understood.
    """
    wished = parse_bytes(memory)
    return max(1, free_memory(device) // 2) if wished is None else wished


def parse_bytes(memory: int | str | None) -> int | None:
    """Bytes from a number or a text such as "800MB" or "8GiB" (units are powers of 1,024).

    Raises
    ------
    InputError
        If it is neither, or is not above 0.
    """
    if memory is None:
        return None
    match = _SIZE.fullmatch(str(memory)) if not isinstance(memory, bool) else None
    value = int(float(match[1]) * (1 << _UNITS[match[2].lower()])) if match else 0
    if value <= 0:
        raise InputError(f"memory={memory!r} is not a number of bytes above 0, such as 2000000000 or '2GiB'")
    return value


def show_bytes(count: int) -> str:
    """A number of bytes for people: 1.5 GiB."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"
