"""Devices and CUDA kernels. The only file that imports CuPy.

CuPy is imported when a GPU is first requested, and a .cu file is compiled when one of its kernels is first
used; CuPy caches the binary on disk (~/.cupy/kernel_cache) for the next process. If the package
textsvm_kernels_cuda13 is installed (wheels/kernels_cuda13), its machine code is loaded instead, for CuPy's
own kernels too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from traceback import clear_frames
from types import ModuleType
from typing import Any, TypeVar
from zipfile import ZipFile

import numpy as np

from textsvm.arrays import AnyArray, Array
from textsvm.errors import GpuMemoryError, InputError, warn_user
from textsvm.runtime import memory as host_memory
from textsvm.runtime.parallel import Progress, n_threads

Defines = tuple[tuple[str, int | str], ...]  #: Preprocessor definitions: names and values
T = TypeVar("T")


def source_text(source: str) -> str:
    """Source text of kernels_cu/`source` as compiled: common.cuh and the ``// needs:`` headers in front."""
    folder = kernels_folder()
    text = (folder / source).read_text(encoding="utf-8")
    needed = re.match(r"// needs: (.+)\n", text)
    headers = ["common.cuh", *(needed[1].split() if needed else [])]
    return "".join((folder / name).read_text(encoding="utf-8") for name in headers) + text


def kernels_folder() -> Path:
    """Folder of the .cu files: inside the package (installed from a wheel) or beside it (a checkout)."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "kernels_cu"
    return inside if inside.is_dir() else package.parent / "kernels_cu"


def compile_options(defines: Defines = ()) -> tuple[str, ...]:
    """Options passed to NVRTC."""
    return ("-std=c++17", *(f"-D{name}={value}" for name, value in defines))


def layout(*fields: str) -> np.dtype[Any]:
    """Type of a C struct: a type and the names of its next fields in each string; pointers are uint64."""
    lines = map(str.split, fields)
    return np.dtype([(name, kind) for kind, *names in lines for name in names], align=True)


def structure(dtype: np.dtype[Any], *sources: object, **fields: object) -> AnyArray:
    """Build a structure (`layout`) that a kernel takes by value; arrays become addresses, None becomes 0.

    Other fields are attributes of the same name of the first source that has it. The caller keeps the arrays
    alive. The result has the bytes alone, not the names: for an array with names, CuPy makes a list of them
    at each launch, which takes longer than the launch.
    """
    values: list[Any] = []
    named = {name: value for source in reversed(sources) for name, value in vars(source).items()}
    for name, is_pointer in _members(dtype):
        field = fields.pop(name) if name in fields else named[name]
        address = getattr(getattr(field, "data", None), "ptr", None) if is_pointer else None
        values.append(address if address is not None else 0 if field is None else field)
    if fields:
        raise ValueError(f"unknown fields of the structure: {', '.join(fields)}")
    with np.errstate(over="ignore"):  # float64 values that overflow in float32
        return np.array(tuple(values), dtype).view(f"V{dtype.itemsize}")


@lru_cache(maxsize=64)
def _members(dtype: np.dtype[Any]) -> list[tuple[str, bool]]:
    """Name of each field, and whether it may be a pointer."""
    return [(name, dtype[name] == np.uint64) for name in dtype.names or ()]


def first_line(error: BaseException) -> str:
    """First line of an error message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" \t=")]
    return lines[0] if lines else type(error).__name__


def version(number: int) -> str:
    """Format a CUDA version number."""
    return f"{number // 1000}.{number % 1000 // 10}"


DEFINE_SETS: list[tuple[str, Defines]] = [("probe.cu", ())]  #: Kernels launched by this module
#: Package of machine code that was compiled in advance, an archive for each target of the compiler.
SHIPPED = "textsvm_kernels_cuda13"
SMALL = 1 << 28  #: Bytes allocated without checking free memory, which takes longer than a small task

THREADS = 256  #: Threads per block of `each` and `each_warp`

#: Called with the name of a .cu file before it is first loaded in this process.
on_load: Callable[[str], None] | None = None

_COLLATZ_STEPS = 59_542  #: Steps of the Collatz sequences of 1 to 1,000 together, which probe.cu computes
_ENABLED_ALREADY = 704  #: cudaErrorPeerAccessAlreadyEnabled
#: cudaDevAttrMultiProcessorCount, SingleToDoublePrecisionPerfRatio and MaxSharedMemoryPerBlockOptin.
_MULTIPROCESSORS, _FLOAT64_RATIO, _SHARED_MEMORY = 16, 87, 97
_PIP = 'pip install "cupy-cuda13x[ctk]" (or "cupy-cuda12x[ctk]", for drivers older than 580)'
_CARD_PATHS = ("/proc/driver/nvidia", "/dev/nvidia0")  #: Paths that exist if the NVIDIA driver has a card


FORKED = "a process forked from one that used a GPU cannot; start it by spawn or forkserver"
_forked = False  #: Whether this process was forked from a process that used a GPU


@dataclass(frozen=True)
class Device:
    """Device that runs kernels and the solver."""

    kind: str  #: {"cpu", "cuda"}
    index: int  #: Number of the GPU, for "cuda"
    description: str  #: Shown to the user
    no_gpu: str = ""  #: Why "auto" fell back to the CPU; empty otherwise
    cards: tuple[int, ...] = ()  #: GPUs that work together, `index` first; empty for a single device

    @property
    def each(self) -> list[Device]:
        """The GPUs as single devices; the device itself if it is single."""
        return [Device(self.kind, card, f"{self.kind}:{card}") for card in self.cards] or [self]


@dataclass(frozen=True)
class DeviceStatus:
    """Device, why it cannot be used ("" if it can), and its memory in bytes."""

    device: Device
    trouble: str
    memory: int = 0


def has_card() -> bool:
    """Whether the machine has an NVIDIA card, which only Linux tells without CUDA."""
    return any(map(os.path.exists, _CARD_PATHS))


def select(name: str = "auto") -> Device:
    """Choose a device: "auto", "cpu", "cuda", "cuda:0", "cuda:0,1", "cuda:all", ...

    "auto" is the first GPU if it is usable, else the CPU (see `run_on`). Several GPUs share kernel matrices;
    other work runs on the first.
    """
    kind, _, index = name.partition(":")
    if kind == "cuda" and ("," in index or index == "all"):
        return _several(name, index)
    if name in ("auto", "cpu"):
        trouble = gpu_trouble(0) if name == "auto" else ""
        if name == "auto" and not trouble:
            return _cuda_device(0)
        return Device("cpu", 0, f"cpu ({n_threads()} threads)", trouble)
    if kind != "cuda" or not (_is_number(index) or name == "cuda"):
        raise _unknown_device(name)
    if trouble := gpu_trouble(int(index or 0)):
        raise InputError(f"device {name!r} cannot be used: {trouble}")
    return _cuda_device(int(index or 0))


def _several(name: str, named: str) -> Device:
    """Device of "cuda:all" or "cuda:0,1,..."; single if a single GPU is named."""
    parts = named.split(",")
    if named != "all" and not all(map(_is_number, parts)):
        raise _unknown_device(name)
    try:
        cards = list(range(cupy().cuda.runtime.getDeviceCount())) if named == "all" else list(map(int, parts))
    except InputError as error:
        raise InputError(f"device {name!r} cannot be used: {error}") from error
    if repeated := [card for number, card in enumerate(cards) if card in cards[:number]]:
        raise InputError(f"device {name!r} names GPU {repeated[0]} twice; name each of them once")
    if trouble := next(filter(None, map(gpu_trouble, cards)), "") or unconnected(tuple(cards)):
        raise InputError(f"device {name!r} cannot be used: {trouble}")
    return join_cards(cards)


def join_cards(cards: Sequence[int]) -> Device:
    """Device of several usable GPUs; tests may name the same GPU twice."""
    if len(cards) == 1:
        return _cuda_device(cards[0])
    names = " and ".join(dict.fromkeys(_name(card) for card in cards))
    numbers = ",".join(map(str, cards))
    return Device("cuda", cards[0], f"cuda:{numbers} (each {names})", cards=tuple(cards))


@lru_cache(maxsize=64)
def unconnected(cards: tuple[int, ...]) -> str:
    """Enable peer access between all pairs of these GPUs; return why that fails, or ""."""
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
                except runtime.CUDARuntimeError as error:  # CuPy may have enabled it already
                    if error.status != _ENABLED_ALREADY:
                        return f"GPU {card} does not reach the memory of GPU {other} ({first_line(error)})"
    return ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _unknown_device(name: str) -> InputError:
    valid = "auto, cpu, cuda, cuda:0, cuda:1, ..., cuda:0,1, cuda:all"
    return InputError(f"device {name!r} is not one of {valid}")


def devices() -> list[DeviceStatus]:
    """Status of the CPU and of every GPU, tested with a small kernel; without a GPU, the reason."""
    statuses = [DeviceStatus(select("cpu"), "")]
    try:
        count = cupy().cuda.runtime.getDeviceCount()
    except InputError as error:
        return [*statuses, DeviceStatus(Device("cuda", 0, "cuda:0"), str(error))]
    for index in range(count):
        trouble = gpu_trouble(index)
        memory = 0 if trouble else int(cupy().cuda.Device(index).mem_info[1])
        statuses.append(DeviceStatus(_cuda_device(index), trouble, memory))
    return statuses


@lru_cache(maxsize=1)
def cupy() -> Any:
    """Import CuPy and check that there is a GPU."""
    if find_spec("cupy") is None:
        no_card = sys.platform == "linux" and not has_card()
        remark = ", and no NVIDIA GPU is found on this machine" if no_card else ""
        raise InputError(f"CuPy is not installed{remark}; {_PIP}")
    try:
        import cupy

        runtime = cupy.cuda.runtime
        driver, built_for = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    except Exception as error:  # CuPy raises ImportError, OSError or RuntimeError
        raise InputError(f"CuPy cannot be imported ({first_line(error)}); {_PIP}") from error
    if driver == 0:
        raise InputError("there is no NVIDIA driver; install one, or run on the CPU")
    if driver // 1000 < built_for // 1000:
        raise InputError(
            f"the NVIDIA driver is for CUDA {version(driver)} and CuPy for CUDA {version(built_for)}; "
            f'update the driver, or: pip install "cupy-cuda{driver // 1000}x[ctk]"'
        )
    try:
        if runtime.getDeviceCount() > 0:
            if find_spec(SHIPPED) is not None:
                load_shipped_code(cupy)
            return cupy
    except runtime.CUDARuntimeError as error:
        raise InputError(f"the NVIDIA driver sees no usable GPU ({first_line(error)})") from error
    raise InputError("the NVIDIA driver sees no GPU")


@lru_cache(maxsize=64)
def gpu_trouble(index: int) -> str:
    """Why GPU `index` cannot run a small test kernel, in a line; "" if it can."""
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
            computed = int(steps.get().sum())
    except InputError as error:
        return str(error)
    except Exception as error:  # of CuPy, NVRTC or the driver
        if "nvrtc" in str(error).lower():
            return f"CuPy finds no CUDA compiler library (NVRTC); {_PIP}"
        return f"it does not run a small test kernel ({first_line(error)}); free it or update its driver"
    return "" if computed == _COLLATZ_STEPS else "it computes a small test kernel wrongly"


@contextmanager
def use(device: Device) -> Iterator[None]:
    """Make a GPU current; CuPy and CUDA errors inside the block become InputError with cause and remedy."""
    if device.kind != "cuda":
        yield
        return
    try:
        with cupy().cuda.Device(device.index):
            yield
    except Exception as error:  # of the block, or of leaving a lost GPU
        if message := gpu_error(error, device.description):
            raise message from error
        raise


def run_on(device: str, work: Callable[[str], T]) -> T:
    """Call `work` with a device. If the GPU of "auto" has too little memory, call it with "cpu", and warn.

    An allocation that fails during the work, as if other programs took the memory, is followed by a second
    try, planned for the memory that is free then.
    """
    for tries_left in (1, 0):
        try:
            return work(device)
        except GpuMemoryError as error:
            if device != "auto":
                raise
            reason, allocation_failed = str(error).rpartition("; ")[0], error.__cause__ is not None
        if not (allocation_failed and tries_left):
            break
    warn_user(f"{reason}: the CPU is used instead", UserWarning)
    return work("cpu")


def gpu_error(error: BaseException, where: str) -> InputError | None:
    """User message for an error of CuPy or a CUDA library: cause and remedy; None for any other error."""
    if type(error).__module__.partition(".")[0] not in ("cupy", "cupy_backends"):
        return None
    reason, remedy = f"{where} failed", "check it with `textsvm devices`,"
    signs = ("out of memory", "OUT_OF_MEMORY", "ALLOC_FAILED")
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in signs):
        clear_frames(error.__traceback__)  # the traceback would keep the arrays of the failed work
        with suppress(Exception):
            cupy().get_default_memory_pool().free_all_blocks()
        reason = f"GPU memory ran out on {where} ({first_line(error)})"
        return GpuMemoryError(f"{reason}; lower --memory, free the card or run with --device cpu")
    gpu_trouble.cache_clear()  # "auto" tests the GPU again
    if _forked:
        reason, remedy = f"{where} cannot be used: {FORKED}", "do that,"
    elif _is_lost():
        reason = f"{where} is lost to this process"
        remedy = "start again (`textsvm devices` tries the card)"
    return InputError(f"{reason} ({first_line(error)}); {remedy} or run with --device cpu")


def _is_lost() -> bool:
    """Whether this process can no longer use the current GPU, as after an illegal address."""
    try:
        cupy().cuda.runtime.deviceSynchronize()
    except Exception:
        return True
    return False


def _in_child() -> None:
    """An initialised CUDA does not work in a forked child."""
    global _forked
    _forked = _forked or cupy.cache_info().currsize > 0
    gpu_trouble.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def synchronize(device: Device) -> None:
    """Wait until a device has finished its work, for timing."""
    if device.kind == "cuda":
        for card in device.each:
            cupy().cuda.Device(card.index).synchronize()


def report(progress: Progress | None, done: float, total: float) -> None:
    """Call `progress`, if given, when the current GPU has finished the work launched so far."""
    if progress is not None:
        cupy().cuda.get_current_stream().synchronize()
        progress(done, total)


def code_digest(source: str, options: Iterable[str], headers: str, target: str) -> str:
    """Name of an entry in `SHIPPED`: a digest of a source, its options and the target.

    `target` is "sm_90", say, for machine code and "compute_120" for PTX. `headers`, CuPy's checksum of its
    headers, counts for sources that include them. Include folders differ between machines and do not count.
    """
    words = sorted({option for option in options if not option.startswith("-I")})
    parts = [source, *words, headers if "#include <cupy/" in source else "", target]
    return sha256("\0".join(parts).encode()).hexdigest()


@lru_cache(maxsize=16)
def shipped_archive(capability: int) -> tuple[str, ZipFile] | None:
    """Target and archive in `SHIPPED` for a compute capability such as 90, or None.

    Machine code also runs on GPUs with a later minor version, and PTX is compiled by the driver for any later
    GPU.
    """
    spec = find_spec(SHIPPED)
    fitting = {}
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in Path(folder).glob("*_*.zip"):
            kind, number = path.stem.split("_")
            same_major = int(number) // 10 == capability // 10
            if int(number) <= capability and (kind == "compute" or same_major):
                fitting[kind == "sm", int(number)] = path
    with suppress(Exception):  # damaged: compile
        path = fitting[max(fitting)]
        return path.stem, ZipFile(path)
    return None


def load_shipped_code(cupy: ModuleType) -> None:
    """Make CuPy load machine code of `SHIPPED` where it would compile a source or read its cache.

    A source that has no entry, such as CuPy's own in another version of CuPy, a damaged archive and code that
    the driver refuses are compiled.
    """
    compiler, headers = cupy.cuda.compiler, vars(cupy._core.core).get("CUPY_CACHE_KEY", "")
    compile_module = vars(compiler).get("_compile_module_with_cache")

    def load_module(
        source: str, options: tuple[str, ...] = (), *others: object, **settings: object
    ) -> object:
        special = {name: value for name, value in settings.items() if value and name != "extra_source"}
        with suppress(Exception):
            shipped = shipped_archive(int(cupy.cuda.Device().compute_capability))
            if shipped is not None and not others and special in ({}, {"backend": "nvrtc"}):
                target, archive = shipped
                module = cupy.cuda.function.Module()
                module.load(archive.read(code_digest(source, options, headers, target)))
                return module
        return compile_module(source, options, *others, **settings)

    if compile_module is not None:
        compiler._compile_module_with_cache = load_module


def load(source: str, defines: Defines = ()) -> Any:
    """The compiled `cupy.RawModule` of a file in kernels_cu for the current GPU, cached.

    `defines` are preprocessor definitions that specialise the source.
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
    """Kernel of a .cu file for the current GPU."""
    return _function(cupy().cuda.runtime.getDevice(), source, name, defines)


@lru_cache(maxsize=512)
def _function(index: int, source: str, name: str, defines: Defines) -> Any:
    return load(source, defines).get_function(name)


def each(kernel: Any, n: int, *args: object) -> None:
    """Launch a kernel with a thread for each of n elements; n is its first argument."""
    if n:
        kernel((-(-n // THREADS),), (THREADS,), (np.int64(n), *args))


def each_warp(kernel: Any, n: int, *args: object) -> None:
    """Launch a kernel with a warp for each of n elements; n is its first argument."""
    if n:
        kernel((-(-n * 32 // THREADS),), (THREADS,), (np.int64(n), *args))


def array_module(device: Device) -> Any:
    """NumPy or CuPy, the module of arrays on this device."""
    return cupy() if device.kind == "cuda" else np


def is_on_gpu(values: object) -> bool:
    """Whether `values` is a CuPy array, without importing CuPy."""
    return type(values).__module__.partition(".")[0] == "cupy"


def device_of(values: Array) -> Device:
    """Device of an array."""
    if not is_on_gpu(values):
        return Device("cpu", 0, "cpu")
    index = int(values.device.id)
    return Device("cuda", index, f"cuda:{index}")


def to_host(values: Array) -> Array:
    """Copy an array to host memory if it is on a GPU."""
    return values.get() if is_on_gpu(values) else values


def multiprocessors() -> int:
    """Number of multiprocessors of the current GPU; all its properties would take a millisecond to read."""
    runtime = cupy().cuda.runtime
    return int(runtime.deviceGetAttribute(_MULTIPROCESSORS, runtime.getDevice()))


def shared_memory() -> int:
    """Maximum shared memory of a block on the current GPU in bytes: 64 KiB (sm_75) to 227 KiB (sm_90)."""
    runtime = cupy().cuda.runtime
    return int(runtime.deviceGetAttribute(_SHARED_MEMORY, runtime.getDevice()))


def fast_float64() -> bool:
    """Whether the current GPU has many float64 units: a half or a quarter of float32's, not 1/32 or 1/64."""
    runtime = cupy().cuda.runtime
    return int(runtime.deviceGetAttribute(_FLOAT64_RATIO, runtime.getDevice())) <= 4


def free_memory(device: Device | None = None) -> int:
    """Free bytes where `device` allocates its arrays; None is the current GPU.

    Includes the unused part of CuPy's pool; of several GPUs the minimum. On the host it respects container
    and process limits.
    """
    if device is None:
        cp = cupy()
        return int(cp.cuda.runtime.memGetInfo()[0]) + int(cp.get_default_memory_pool().free_bytes())
    if device.kind != "cuda":
        return host_memory.free()
    free = []
    for card in device.each:
        with use(card):
            free.append(free_memory())
    return min(free)


def require_memory(needed: int, purpose: str, remedy: str = "run with --device cpu") -> None:
    """Raise GpuMemoryError if the current GPU has fewer than `needed` bytes free for `purpose`."""
    if needed <= SMALL:
        return
    free = free_memory()
    if needed > free:
        raise GpuMemoryError(
            f"{purpose} needs {needed / 2**30:.2f} GiB of GPU memory "
            f"and {free / 2**30:.2f} GiB is free; {remedy}"
        )


def empty(size: int, dtype: type[np.generic], reserve: int = 0) -> Array:
    """Uninitialised 1-d array of the current GPU, in page-locked main memory if the card has too little.

    Kernels read and write page-locked memory over the bus, at a fiftieth of the speed. `reserve` is the
    number of bytes to leave free on the card.
    """
    cp, nbytes = cupy(), int(size) * np.dtype(dtype).itemsize
    if nbytes <= SMALL or nbytes <= free_memory() - reserve:
        return cp.empty(int(size), dtype)
    if nbytes > (free := host_memory.free()):
        raise GpuMemoryError(
            f"{nbytes / 2**30:.2f} GiB of features fit neither on the GPU nor into main memory, "
            f"where {free / 2**30:.2f} GiB is free; lower --max-length or run with --device cpu"
        )
    memory = cp.cuda.PinnedMemory(nbytes)
    pointer = cp.cuda.UnownedMemory(memory.ptr, nbytes, memory, cp.cuda.runtime.getDevice())
    return cp.ndarray(int(size), dtype, cp.cuda.MemoryPointer(pointer, 0))


def in_main_memory(array: Array) -> bool:
    """Whether `empty` has allocated an array in main memory."""
    return isinstance(array.data.mem, cupy().cuda.UnownedMemory)


def _cuda_device(index: int) -> Device:
    return Device("cuda", index, f"cuda:{index} ({_name(index)})")


def _name(index: int) -> str:
    properties = cupy().cuda.runtime.getDeviceProperties(index)
    name = properties["name"].decode(errors="replace")
    return f"{name}, {properties['totalGlobalMem'] / 2**30:.0f} GiB"
