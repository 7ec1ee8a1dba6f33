"""Which device does the work, and how a CUDA kernel is loaded there. The only file that imports CuPy.

CuPy is imported when a GPU is first asked for, a .cu is compiled when its kernel is first used, and
CuPy keeps the binary on disk (~/.cupy/kernel_cache), so the next process does not compile it again.

The .cu files, as they are compiled, and the structures that their kernels are given.

What is told of errors of CuPy, and of the libraries of CUDA below it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from traceback import clear_frames
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.runtime import memory as host_memory
from textsvm.runtime.parallel import n_threads

#: What a kernel is specialised by: names and values.
Defines = tuple[tuple[str, int | str], ...]


def source_text(source: str) -> str:
    """The text that is compiled for kernels_cu/`source`."""
    folder = kernels_folder()
    text = (folder / source).read_text(encoding="utf-8")
    needed = re.match(r"// needs: (.+)\n", text)
    headers = ["common.cuh", *(needed[1].split() if needed else [])]
    return "".join((folder / name).read_text(encoding="utf-8") for name in headers) + text


def kernels_folder() -> Path:
    """Where the .cu files are: in the package (installed from a wheel), else beside it (a checkout)."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "kernels_cu"
    return inside if inside.is_dir() else package.parent / "kernels_cu"


def compile_options(defines: Defines = ()) -> tuple[str, ...]:
    """Options given to NVRTC."""
    return ("-std=c++17", *(f"-D{name}={value}" for name, value in defines))


def structure(dtype: np.dtype[Any], **fields: Any) -> NDArray[Any]:
    """A structure that a kernel takes by value; arrays become their addresses, None becomes 0.

    Parameters
    ----------
    dtype : structured dtype
        Fields in the order of the C struct, with ``align=True``; pointers are uint64. Who passes it on keeps
        the arrays alive.
    fields
        The value of each of them.
    """
    value = np.zeros((), dtype)
    for name in dtype.names or ():
        field = fields.pop(name)
        address = dtype[name] == np.uint64 and hasattr(getattr(field, "data", None), "ptr")
        with np.errstate(over="ignore"):  # of float64 that are inf in float32, in the kernels as well
            value[name] = field.data.ptr if address else 0 if field is None else field
    if fields:
        raise ValueError(f"{', '.join(fields)} are no fields of the structure")
    return value


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


#: What is launched here: (source, defines).
DEFINE_SETS: list[tuple[str, Defines]] = [("probe.cu", ())]

#: Bytes that are asked for without a look at what is free, which takes the driver longer than a small task.
SMALL = 1 << 28

#: Threads of a block of `each`.
THREADS = 256

#: Called with the name of a .cu before it is loaded for the first time in this process.
on_load: Callable[[str], None] | None = None

#: cudaErrorPeerAccessAlreadyEnabled.
_ENABLED_ALREADY = 704
_PIP = 'pip install "textsvm[cuda13]" (or [cuda12], for drivers older than 580)'


#: Whether this process was forked from one that used a GPU.
_forked = False


@dataclass(frozen=True)
class Device:
    """Where kernels and the solver run.

    Attributes
    ----------
    kind : {"cpu", "cuda"}
    index : int
        Which card, for "cuda".
    description : str
        What a user is shown.
    no_gpu : str
        Why "auto" fell back to the CPU; empty if it did not.
    cards : tuple of int
        Cards that work together, `index` first among them; empty where one does.
    """

    kind: str
    index: int
    description: str
    no_gpu: str = ""
    cards: tuple[int, ...] = ()

    @property
    def each(self) -> list[Device]:
        """The cards, one by one; of a device that is one, itself."""
        return [Device(self.kind, card, f"{self.kind}:{card}") for card in self.cards] or [self]


@dataclass(frozen=True)
class Finding:
    """A device that is there, and why it cannot be used ("" if it can)."""

    device: Device
    trouble: str
    memory: int = 0


def select(wish: str = "auto") -> Device:
    """Choose a device.

    Parameters
    ----------
    wish : {"auto", "cpu", "cuda", "cuda:0", "cuda:0,1", "cuda:all", ...}
        "auto" takes the first GPU if it is usable, else the CPU and says why. Several GPUs work together:
        kernel matrices lie on all of them, what is not divided runs on the first.

    Raises
    ------
    InputError
        If `wish` is not one of these, or asks for a GPU that cannot be used, or for GPUs that do not reach
        each other's memory.
    """
    kind, _, index = wish.partition(":")
    if kind == "cuda" and ("," in index or index == "all"):
        return _several(wish, index)
    if wish in ("auto", "cpu"):
        trouble = gpu_trouble(0) if wish == "auto" else ""
        if wish == "auto" and not trouble:
            return _cuda_device(0)
        return Device("cpu", 0, f"cpu ({n_threads()} threads)", trouble)
    if kind != "cuda" or not (_is_number(index) or wish == "cuda"):
        raise _no_device(wish)
    if trouble := gpu_trouble(int(index or 0)):
        raise InputError(f"device {wish!r} cannot be used: {trouble}")
    return _cuda_device(int(index or 0))


def _several(wish: str, named: str) -> Device:
    """The cards of "cuda:all" or "cuda:0,1,..." as one device; one alone is that card."""
    parts = named.split(",")
    if named != "all" and not all(map(_is_number, parts)):
        raise _no_device(wish)
    try:
        cards = list(range(cupy().cuda.runtime.getDeviceCount())) if named == "all" else list(map(int, parts))
    except InputError as error:
        raise InputError(f"device {wish!r} cannot be used: {error}") from error
    if repeated := [card for number, card in enumerate(cards) if card in cards[:number]]:
        raise InputError(f"device {wish!r} names GPU {repeated[0]} twice; name each of them once")
    if trouble := next(filter(None, map(gpu_trouble, cards)), "") or unconnected(tuple(cards)):
        raise InputError(f"device {wish!r} cannot be used: {trouble}")
    return together(cards)


def together(cards: Sequence[int]) -> Device:
    """Cards that can be used, as one device; one may be named twice, to try on it what is for two."""
    if len(cards) == 1:
        return _cuda_device(cards[0])
    names = " and ".join(dict.fromkeys(_name(card) for card in cards))
    numbers = ",".join(map(str, cards))
    return Device("cuda", cards[0], f"cuda:{numbers} (each {names})", cards=tuple(cards))


@lru_cache(maxsize=64)
def unconnected(cards: tuple[int, ...]) -> str:
    """Let kernels on each card read and write the memory of the others; why that cannot be, or ""."""
    runtime = cupy().cuda.runtime
    for card in cards:
        for other in cards:
            if card == other:
                continue
            if not runtime.deviceCanAccessPeer(card, other):
                return (
                    f"GPU {card} does not reach the memory of GPU {other} (no peer access); name cards that "
                    "are joined by NVLink or one PCIe root, or one of them"
                )
            with cupy().cuda.Device(card):
                try:
                    runtime.deviceEnablePeerAccess(other)
                except runtime.CUDARuntimeError as error:  # it is on already: CuPy may do that itself
                    if error.status != _ENABLED_ALREADY:
                        return f"GPU {card} does not reach the memory of GPU {other} ({first_line(error)})"
    return ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _no_device(wish: str) -> InputError:
    known = "auto, cpu, cuda, cuda:0, cuda:1, ..., cuda:0,1, cuda:all"
    return InputError(f"device {wish!r} is not one of {known}")


def devices() -> list[Finding]:
    """The CPU and every GPU, each GPU tried with a small kernel; without any GPU, the reason."""
    found = [Finding(select("cpu"), "")]
    try:
        count = cupy().cuda.runtime.getDeviceCount()
    except InputError as error:
        return [*found, Finding(Device("cuda", 0, "cuda:0"), str(error))]
    for index in range(count):
        trouble = gpu_trouble(index)
        memory = 0 if trouble else int(cupy().cuda.Device(index).mem_info[1])
        found.append(Finding(_cuda_device(index), trouble, memory))
    return found


@lru_cache(maxsize=1)
def cupy() -> Any:
    """The CuPy module, with at least one GPU under it.

    Raises
    ------
    InputError
        If there is none: the cause and the remedy.
    """
    if find_spec("cupy") is None:
        raise InputError(f"CuPy is not installed; {_PIP}")
    try:
        import cupy

        runtime = cupy.cuda.runtime
        driver, built_for = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    except Exception as error:  # CuPy raises ImportError, OSError, RuntimeError, by what it misses
        raise InputError(f"CuPy cannot be imported ({first_line(error)}); {_PIP}") from error
    if driver == 0:
        raise InputError("there is no NVIDIA driver; install one, or run on the CPU")
    if driver // 1000 < built_for // 1000:
        raise InputError(
            f"the NVIDIA driver is for CUDA {version(driver)} and CuPy for CUDA {version(built_for)}; "
            f"update the driver, or install textsvm[cuda{driver // 1000}]"
        )
    try:
        if runtime.getDeviceCount() > 0:
            return cupy
    except runtime.CUDARuntimeError as error:
        raise InputError(f"the NVIDIA driver sees no usable GPU ({first_line(error)})") from error
    raise InputError("the NVIDIA driver sees no GPU")


@lru_cache(maxsize=64)
def gpu_trouble(index: int) -> str:
    """Why GPU `index` cannot be used, in one line, found by running a small kernel there; "" if it can."""
    if _forked:
        return FORKED
    try:
        cp = cupy()
        count = cp.cuda.runtime.getDeviceCount()
        if index >= count:
            return f"there is no GPU {index}, the last one is {count - 1}"
        with cp.cuda.Device(index):
            steps = cp.full(1000, -1, cp.int32)
            kernel = load("probe.cu").get_function("collatz_steps")
            kernel((8,), (128,), (cp.int32(len(steps)), steps))
            computed = [int(x) for x in steps.get()]
    except InputError as error:
        return str(error)
    except Exception as error:  # whatever CuPy, NVRTC or the driver finds wrong with this card
        if "nvrtc" in str(error).lower():
            return f"CuPy finds no CUDA compiler library (NVRTC); {_PIP}"
        return f"it does not run a small test kernel ({first_line(error)}); free it or update its driver"
    return "" if computed == _collatz_steps(1000) else "it computes a small test kernel wrongly"


@contextmanager
def use(device: Device) -> Iterator[None]:
    """Make a card current; whatever it then fails with becomes an InputError with cause and remedy."""
    if device.kind != "cuda":
        yield
        return
    try:
        with cupy().cuda.Device(device.index):
            yield
    except Exception as error:  # of the block, or of leaving a card that is lost
        if told := failure(error, device.description):
            raise told from error
        raise


def failure(error: BaseException, where: str) -> InputError | None:
    """What a user is told of an error of CuPy or of a library of CUDA; None of any other error."""
    if not is_one(error):
        return None
    if not out_of_memory(error):
        gpu_trouble.cache_clear()  # "auto" looks again whether there is a card to be used
    return told(error, where, cupy(), _forked)


def _in_child() -> None:
    """CUDA that was begun does not work in a forked child."""
    global _forked
    _forked = _forked or cupy.cache_info().currsize > 0
    gpu_trouble.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def synchronize(device: Device) -> None:
    """Wait for the work a card was given, so that what is timed next is timed alone."""
    if device.kind == "cuda":
        for card in device.each:
            cupy().cuda.Device(card.index).synchronize()


def load(source: str, defines: Defines = ()) -> Any:
    """Compile a .cu for the current card, or take it from memory or from CuPy's cache on disk.

    Parameters
    ----------
    source : str
        Name of a file in kernels_cu; common.cuh is put in front of it, and what its first line asks for:
        ``// needs: another.cuh``.
    defines : tuple of (name, value)
        What the kernel is specialised by.

    Returns
    -------
    cupy.RawModule
        Has ``get_function(name)``.
    """
    return _load(cupy().cuda.runtime.getDevice(), source, defines)


@lru_cache(maxsize=256)
def _load(index: int, source: str, defines: Defines) -> Any:
    if on_load is not None:
        on_load(source)
    module = cupy().RawModule(code=source_text(source), options=compile_options(defines))
    module.compile()
    return module


def function(source: str, name: str, defines: Defines = ()) -> Any:
    """A kernel of a .cu, for the current card; see `load`."""
    return _function(cupy().cuda.runtime.getDevice(), source, name, defines)


@lru_cache(maxsize=512)
def _function(index: int, source: str, name: str, defines: Defines) -> Any:
    return load(source, defines).get_function(name)


def each(kernel: Any, n: int, *args: Any) -> None:
    """Launch a kernel with one thread for each of n elements, n its first argument."""
    if n:
        kernel((-(-n // THREADS),), (THREADS,), (np.int64(n), *args))


def array_module(device: Device) -> Any:
    """NumPy or CuPy, whichever has the arrays of this device."""
    return cupy() if device.kind == "cuda" else np


def is_on_gpu(values: Any) -> bool:
    """Whether this is a CuPy array; asking does not import CuPy."""
    return type(values).__module__.partition(".")[0] == "cupy"


def device_of(values: Any) -> Device:
    """Where an array lives."""
    if not is_on_gpu(values):
        return Device("cpu", 0, "cpu")
    index = int(values.device.id)
    return Device("cuda", index, f"cuda:{index}")


def to_host(values: Any) -> Any:
    """The array in host memory: itself, or a copy of one on a card."""
    return values.get() if is_on_gpu(values) else values


def free_memory(device: Device | None = None) -> int:
    """Bytes that can be had where `device` keeps its arrays; None is the current card.

    On a card, with what CuPy's pool holds without using it, and of several cards the least; on the host,
    within the limits of the container (cgroup) that this process runs in.
    """
    if device is None:
        cp = cupy()
        return int(cp.cuda.runtime.memGetInfo()[0]) + int(cp.get_default_memory_pool().free_bytes())
    if device.kind == "cuda":
        return min(map(_free_on, device.each))
    return host_memory.free()


def _free_on(card: Device) -> int:
    with use(card):
        return free_memory()


def require_memory(needed: int, what: str, remedy: str = "run with --device cpu") -> None:
    """Raise InputError before `needed` bytes for `what` are asked for that the current card does not have."""
    if needed <= SMALL:
        return
    free = free_memory()
    if needed > free:
        raise InputError(
            f"{what} needs {needed / 2**30:.2f} GiB of GPU memory "
            f"and {free / 2**30:.2f} GiB is free; {remedy}"
        )


def _cuda_device(index: int) -> Device:
    return Device("cuda", index, f"cuda:{index} ({_name(index)})")


def _name(index: int) -> str:
    properties = cupy().cuda.runtime.getDeviceProperties(index)
    name = properties["name"].decode(errors="replace")
    return f"{name}, {properties['totalGlobalMem'] / 2**30:.0f} GiB"


def _collatz_steps(n: int) -> list[int]:
    steps = []
    for value in range(1, n + 1):
        count = 0
        while value != 1:
            value, count = 3 * value + 1 if value & 1 else value // 2, count + 1
        steps.append(count)
    return steps
