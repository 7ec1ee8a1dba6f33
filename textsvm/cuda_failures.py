"""What is told of errors of CuPy, and of the libraries of CUDA below it."""

from __future__ import annotations

from contextlib import suppress
from traceback import clear_frames
from typing import Any

from textsvm.errors import InputError

FORKED = "a process forked from one that used a GPU cannot; start it by spawn or forkserver"


def is_one(error: BaseException) -> bool:
    """Whether an error is one of these; asking does not import CuPy."""
    return type(error).__module__.partition(".")[0] in ("cupy", "cupy_backends")


def out_of_memory(error: BaseException) -> bool:
    """Whether it is for want of memory, of whichever library."""
    return isinstance(error, MemoryError) or any(
        said in str(error) for said in ("out of memory", "OUT_OF_MEMORY", "ALLOC_FAILED")
    )


def told(error: BaseException, where: str, cp: Any, forked: bool) -> InputError:
    """One sentence: the cause and the remedy.

    Parameters
    ----------
    error : exception
    where : str
        The device, for people.
    cp : module
        CuPy; after an error for want of memory what the failed work held is given back to the card.
    forked : bool
        Whether this process was forked from one that used a GPU.
    """
    why, remedy = f"{where} failed", "check it with `textsvm devices`,"
    if out_of_memory(error):
        _give_back(error, cp)
        why, remedy = f"GPU memory ran out on {where}", "lower --memory, free the card"
    elif forked:
        why, remedy = f"{where} cannot be used: {FORKED}", "do that,"
    elif _lost(cp):
        why, remedy = f"{where} is lost to this process", "start again (`textsvm devices` tries the card)"
    return InputError(f"{why} ({first_line(error)}); {remedy} or run with --device cpu")


def _give_back(error: BaseException, cp: Any) -> None:
    """Let go of what the failed work held on the card, which the traceback would keep."""
    clear_frames(error.__traceback__)
    with suppress(Exception):
        cp.get_default_memory_pool().free_all_blocks()


def _lost(cp: Any) -> bool:
    """Whether nothing runs on the current card any more in this process, as after an illegal address."""
    try:
        cp.cuda.runtime.deviceSynchronize()
    except Exception:  # whatever the driver says of it
        return True
    return False


def first_line(error: BaseException) -> str:
    """What an error says first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" \t=")]
    return lines[0] if lines else type(error).__name__


def version(number: int) -> str:
    """A version of CUDA, as its libraries number them."""
    return f"{number // 1000}.{number % 1000 // 10}"
