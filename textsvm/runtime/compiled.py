"""Numba and SciPy at their first use: a lazy `njit`, and lazy modules `scipy` and `simd`.

Importing Numba takes a second, which prediction of a single text does not need. `njit` therefore wraps a
function in `Compiled`, which imports Numba at the first call. A compiled function refers to others by names
of its module or of the enclosing function, so before it is compiled these `Compiled` objects are replaced by
Numba's dispatchers. Functions needed to train on few texts, and to predict and explain one, also have a NumPy
form with the same bits, used while Numba is not loaded, or the cache on disk lacks functions (`use_numpy`).
"""

from __future__ import annotations

import logging
import pkgutil
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from textsvm.runtime import memory as host_memory

if TYPE_CHECKING:
    import scipy as scipy

    from textsvm.runtime import simd as simd

#: Symbols and entries that NumPy processes in 0.7 s; Numba is imported in 0.3 s and compiles for seconds.
NUMPY_SIZE = 3 << 24
#: Bytes of memory and of address space that Numba takes with the first compiled function.
NUMBA = (80 << 20, 400 << 20)
#: Called with a message if compiled functions cannot be cached on disk.
warn: Callable[[str], object] = warnings.warn
_by_numpy = 0  # symbols and entries


#: Called before the second function that the cache on disk lacks is compiled in this process.
on_compile: Callable[[], object] = partial(
    logging.getLogger("textsvm").info, "compiling for this processor: some seconds to a minute, once"
)


class Compiled:
    """Function compiled by `numba.njit` with `options` at its first call."""

    compilations: ClassVar[int] = 0  #: Of all functions, in this process, that the cache on disk lacks

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__
        self._function, self._options = function, options
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self.dispatcher)(*arguments)

    @property
    def dispatcher(self) -> Any:
        """Numba's dispatcher; the functions that it may call have theirs, too."""
        use_numba()
        import numba

        from textsvm.runtime.compiled_cache import cache_on_disk, compiler_lock

        # Another thread may call this function now: it waits until the names are replaced.
        with compiler_lock():
            if self._dispatcher is None:
                # The wrapper for C callers, which nothing here is, takes a tenth of the time to compile.
                options = {**self._options, "cache": False, "no_cfunc_wrapper": True}
                dispatcher = numba.njit(**options)(self._function)
                # With NUMBA_DISABLE_JIT unsigned numbers wrap around, as in compiled code.
                if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
                    dispatcher = np.errstate(over="ignore")(self._function)
                elif self._options.get("cache"):
                    cache_on_disk(dispatcher, self._function, _warn_once, _count_compilation)
                names, cells = self._function.__globals__, self._function.__closure__ or ()
                self._dispatcher = dispatcher  # before the others, which may call it
                try:
                    for name, other in list(names.items()):
                        if isinstance(other, (Compiled, _LazyModule)):
                            names[name] = other.dispatcher
                    for cell in cells:
                        if isinstance(cell.cell_contents, Compiled):
                            cell.cell_contents = cell.cell_contents.dispatcher
                except BaseException:  # such as Ctrl-C: the next call replaces the others
                    self._dispatcher = None
                    raise
            return self._dispatcher

    def in_python(self, **functions: Callable[..., Any]) -> Callable[..., Any]:
        """The function without Numba, with other functions in place of those that it calls by these names."""
        return FunctionType(self._function.__code__, {**self._function.__globals__, **functions})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> Any:
        return pkgutil.resolve_name, (f"{self.__module__}:{self.__qualname__}",)


class _LazyModule:
    """A module that is imported when one of its names is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def dispatcher(self) -> Any:
        """The module, which `Compiled.dispatcher` puts in place of this object before Numba compiles."""
        return import_module(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dispatcher, name)


if not TYPE_CHECKING:
    scipy = _LazyModule("scipy")
    simd = _LazyModule("textsvm.runtime.simd")


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: `numba.njit`, with Numba imported at the first call of the function."""
    return lambda function: Compiled(function, options)


def use_numba(size: int = NUMPY_SIZE + 1) -> None:
    """Import Numba if so many symbols or entries will be processed that `use_numpy` would become False."""
    if _by_numpy + size > NUMPY_SIZE and "numba" not in sys.modules:
        host_memory.require(*NUMBA)
        import_module("numba")


def use_numpy(size: int) -> bool:
    """Whether NumPy is to process `size` symbols or entries, which are then counted.

    True until `NUMPY_SIZE` is used up, unless Numba is imported and all functions came from its disk cache.
    """
    global _by_numpy
    if ("numba" in sys.modules and not Compiled.compilations) or _by_numpy + size > NUMPY_SIZE:
        return False
    _by_numpy += size
    return True


def _count_compilation() -> None:
    """Tell once, but not of the first function: small trainings compile one in each process, in a second."""
    Compiled.compilations += 1
    if Compiled.compilations == 2:
        on_compile()


@cache
def _warn_once(reason: str) -> None:
    warn(
        f"compiled functions cannot be kept ({reason}) and are compiled anew in every run, which takes "
        "seconds; let NUMBA_CACHE_DIR name a folder that can be written"
    )


@njit(inline="always")
def popcount(x: Any) -> Any:
    """Number of bits of a uint64 that are set."""
    # LLVM compiles this idiom to the popcount instruction, if available.
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int32((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
