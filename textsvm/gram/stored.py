"""Rows of a kernel matrix that are read, from disk or main memory, instead of computed again.

The tiers "disk" and "host" are one class, `PanelRows`: both fill panels in the same order, and a card
computes the next panel while one is written. They exist because a solver reads more rows than there are, and
reading is 2 to 50 times faster than computing (figures below).

The matrix is computed panel by panel, in order. The left part of panel k is the transpose of earlier panels;
the rest is computed, as rows of the kernel with a trailing range of the documents. Such ranges are prepared
`BANDS` times, so that about half of all values are computed. The values that are computed together depend
only on n and the rows per panel: a continued run, and a repaired panel, have the same bits.

On an H200, 12 thousand million values per second are read from main memory; 240 million are computed of
gap-weighted rows of texts of 100 symbols, 6 thousand million of spectrum rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext, suppress
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Any
from weakref import finalize

import numpy as np

from textsvm.arrays import Array, Floats32, Ints
from textsvm.errors import InputError
from textsvm.gram.base import CachedGram, DenseGram
from textsvm.gram.panels import Damaged, Panels
from textsvm.gram.plan import BANDS
from textsvm.gram.store import GramRequest, Store, StoredGram, panel_rows
from textsvm.kernels.contract import SharedColumns
from textsvm.runtime import device as devices
from textsvm.runtime import memory as host_memory
from textsvm.runtime import parallel
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, report
from textsvm.text.documents import Documents

_STAGING = 32 << 20  #: Bytes that are copied to a card at a time.
_REPORTED = 128 << 20  #: Minimum bytes of a matrix whose reading rate is reported.
_PIECE = 2 << 20  #: Bytes that a thread copies at a time.
_STREAM_SHARE = 0.25  #: Two streams compute panels if one takes at most this part of the free memory.
_BLOCK = 512  #: Rows that a thread transposes at a time.
#: Kernels launched here: (source, defines).
DEFINE_SETS: list[tuple[str, devices.Defines]] = [("copy_rows.cu", ())]
_SAME_ADDRESS = 91  #: cudaDevAttrCanUseHostPointerForRegisteredMem.


class PanelRows:
    """Rows of a kernel matrix in panels on disk or in main memory (`MatrixRows`)."""

    def __init__(self, panels: Panels | HostPanels, request: GramRequest) -> None:
        self.n, self.device, self.panels, self._request = request.n, request.device, panels, request
        self._xp = devices.array_module(self.device)
        #: Prepares the documents from a position on as columns, instead of the kernel (`complete_together`).
        self.prepare: Callable[[int, Documents], Any] | None = None
        self.made = 0  #: Number of panels computed here.
        #: Columns, with their first document, of each stream of a card.
        self._bands: list[tuple[int, Any] | None] = [None, None]
        self._diagonal = np.empty(self.n, np.float32)
        with devices.use(self.device):
            stream = self._xp.cuda.Stream if self.device.kind == "cuda" else lambda **_: nullcontext()
            self._streams = [stream(non_blocking=True) for _ in range(2)]

    def diag(self) -> Array:
        with devices.use(self.device):
            return self._xp.asarray(self._repairing(self.panels.diagonal))

    def rows(self, indices: Ints) -> Array:
        return self._values(np.asarray(indices, np.int64))

    def gram(self, progress: Progress | None = None) -> Array:
        return self._values(np.arange(self.n), progress)

    def _values(self, indices: Ints, progress: Progress | None = None) -> Array:
        with devices.use(self.device):
            values = self._xp.empty((len(indices), self.n), np.float32)
            if self.device.kind == "cuda":
                self._to_card(indices, values, progress)
            else:
                self.read(indices, values, progress)
        return values

    def _to_card(self, indices: Ints, values: Array, progress: Progress | None) -> None:
        """Copy rows to a card, from page-locked panels or while the next rows are read."""
        if isinstance(self.panels, HostPanels) and self.panels.page_locked:
            return self.panels.copy_to_card(indices, values, np.arange(len(indices)))
        cuda, step = self._xp.cuda, max(1, _STAGING // (4 * self.n))
        stream = cuda.Stream(non_blocking=True)
        cuda.get_current_stream().synchronize()  # the memory of `values` may still be in use
        shape = min(step, len(indices)), self.n
        memory = [cuda.alloc_pinned_memory(max(1, 4 * shape[0] * self.n)) for _ in range(2)]
        buffers = [np.ndarray(shape, np.float32, pinned) for pinned in memory]
        copied = [stream.record(), stream.record()]
        for number, first in enumerate(range(0, len(indices), step)):
            block, at = indices[first : first + step], number % 2
            self.panels.announce(indices[first + step : first + 2 * step])
            copied[at].synchronize()
            self.read(block, buffers[at][: len(block)])
            values[first : first + step].set(buffers[at][: len(block)], stream)
            copied[at] = stream.record()
            report(progress, first + len(block), len(indices))
        stream.synchronize()

    def read(self, indices: Ints, out: Floats32, progress: Progress | None = None) -> None:
        """Read rows into an array in main memory, shape (len(indices), n)."""
        self._repairing(lambda: self.panels.read(indices, out, progress))

    def _repairing(self, read: Callable[[], Array | None]) -> Array:
        """Call a function that reads panels; panels in main memory need no repair."""
        return read()

    def steps(self, numbers: list[int], progress: Progress | None) -> Generator[None, None, None]:
        """Compute panels, in order, which need all panels before them; yield after each."""
        ends = np.cumsum([self.n - self._start(number) for number in numbers]).tolist()
        with ThreadPoolExecutor(1) as writer:
            written: Future[None] | None = None
            for (number, values), end in zip(self._filled(numbers), ends, strict=True):
                if written is not None:
                    written.result()
                written = writer.submit(copy_context().run, self._write, number, values)
                self.made += 1
                report(progress, end, ends[-1])
                yield
            if written is not None:
                written.result()
        self._bands = [None, None]

    def _filled(self, numbers: list[int]) -> Iterator[tuple[int, Floats32]]:
        """Panels with their values from the diagonal on; a card computes the next panel meanwhile."""
        devices.synchronize(self.device)  # the streams do not wait for others
        free, on_card = devices.free_memory(self.device), self.device.kind == "cuda"
        # A panel is filled while the previous one is written. Arrays are reused, as first writes to memory
        # are slow.
        rooms = [np.empty((self.panels.size, self.n), np.float32) for _ in range(2)]
        stream, n_streams, computed = 0, 1, None
        for position, (number, next_number) in enumerate(zip(numbers, [*numbers[1:], None], strict=True)):
            if computed is None:
                computed = self._computed(number, stream)
            if not position and free - devices.free_memory(self.device) <= _STREAM_SHARE * free:
                n_streams = 2
            values = self.panels.room(number, rooms[position % 2])
            next_stream, next_computed = stream, None
            if on_card and next_number is not None and self._start(next_number) != self._start(number):
                next_stream = (stream + 1) % n_streams
                if next_stream != stream:  # its columns are prepared while the card computes this panel
                    next_computed = self._computed(next_number, next_stream)
            self._fill(number, computed, values, stream)
            stream, computed = next_stream, next_computed
            if on_card and next_number is not None and computed is None:
                computed = self._computed(next_number, stream)
            yield number, values

    def _start(self, number: int) -> int:
        """First document that the rows of a panel are computed with."""
        panels = -(-self.panels.count // BANDS)
        return number // panels * panels * self.panels.size

    def _computed(self, number: int, stream: int) -> Array:
        (first, last), start = self.panels.bounds(number), self._start(number)
        with devices.use(self.device), self._streams[stream]:
            band = self._bands[stream]
            if band is None or band[0] != start:
                band = self._bands[stream] = None  # frees its memory before the next allocation
                kernel, examples = self._request.kernel, self._request.examples
                documents = kernel.structure.read(examples.take(np.arange(start, self.n)))
                prepare = self.prepare or (lambda _, columns: kernel.rows(columns, self.device))
                columns = prepare(start, documents)
                self._diagonal[start:] = devices.to_host(columns.diag())
                band = self._bands[stream] = start, columns
            return band[1].rows(np.arange(first - start, last - start))

    def _fill(self, number: int, computed: Array, values: Floats32, stream: int) -> None:
        """Copy the values of a panel from the diagonal on."""
        (first, last), width = self.panels.bounds(number), computed.shape[1]
        computed, out = computed[:, first - self.n + width :], values[:, first:]
        if self.device.kind == "cpu":
            out[:] = computed
            return
        with self._streams[stream]:
            runtime, current = self._xp.cuda.runtime, self._xp.cuda.get_current_stream()
            data = computed.data.ptr, 4 * width, 4 * out.shape[1], last - first
            runtime.memcpy2DAsync(out.ctypes.data, 4 * self.n, *data, runtime.memcpyDeviceToHost, current.ptr)
            current.synchronize()

    def _write(self, number: int, values: Floats32) -> None:
        """Copy the values left of the diagonal, from beyond it and from earlier panels; write the panel."""
        first, last = self.panels.bounds(number)
        square = values[:, first:last]  # a kernel may round (s, t) and (t, s) differently
        np.copyto(square, square.T, where=np.tri(last - first, k=-1, dtype=bool))
        np.fill_diagonal(square, self._diagonal[first:last])
        self.panels.columns(number, values[:, :first])
        self.panels.write(number, values)


class StoredRows(PanelRows):
    """Rows of a kernel matrix on disk, where damaged panels are computed again."""

    panels: Panels

    def __init__(self, stored: StoredGram, request: GramRequest) -> None:
        super().__init__(stored.panels, request)
        self._stored = stored
        self._mended: set[int] = set()

    @property
    def description(self) -> str:
        """Location of the rows, and whether they were there already, for people."""
        origin = "found" if not self.made else f"{self.made:,} of {self.panels.count:,} panels made"
        return f"stored in {self._stored.store.folder} ({origin})"

    def complete(self, progress: Progress | None = None) -> None:
        """Compute the missing panels."""
        if self.panels.missing():
            with self._stored.store.writing([self._stored]):
                # Another process may have written panels before this process got the lock.
                for _ in self.steps(self.panels.missing(), progress):
                    pass

    def steps(self, numbers: list[int], progress: Progress | None) -> Generator[None, None, None]:
        """Compute some panels, and damaged panels before them; yield after each."""
        if numbers:
            before = sorted(set(range(max(numbers))) - set(numbers))
            numbers = sorted({*numbers, *self.panels.damaged(before, progress)})
            yield from super().steps(numbers, progress)

    def dense(self, description: str, progress: Progress | None = None) -> DenseGram:
        """All rows in memory."""
        clock = time.perf_counter()
        matrix = self.gram(progress)
        devices.synchronize(self.device)
        rate = 4e-9 * self.n**2 / max(time.perf_counter() - clock, 1e-9)
        speed = f", read at {rate:.2g} GB/s" if 4 * self.n**2 >= _REPORTED else ""
        return DenseGram(matrix, f"{self.description}{speed}; {description}")

    def _repairing(self, read: Callable[[], Array | None]) -> Array:
        """Call a function that reads panels, after damaged ones are computed again."""
        while True:
            try:
                return read()
            except Damaged as damage:
                number = damage.number
                if number in self._mended:
                    raise InputError(
                        f"{self.panels.path(number)} is not what was written to it a moment ago; "
                        "the disk fails, name a folder on another one (--store)"
                    ) from damage
                self._mended.add(number)
                self.panels.forget(number)
                with self._stored.store.writing([self._stored]):
                    for _ in self.steps([number], None):
                        pass


def _unlock(device: Device, address: int) -> None:
    with devices.use(device):
        devices.synchronize(device)  # a kernel may still read it
        devices.cupy().cuda.runtime.hostUnregister(address)


class HostPanels:
    """The panels of a matrix in main memory, with the methods of `Panels` that `PanelRows` calls."""

    def __init__(self, n: int, size: int, device: Device) -> None:
        self.n, self.size, self.count, self.device = n, size, -(-n // size), device
        self.matrix = np.empty((n, n), np.float32)
        #: Whether a card can read all panels at the full speed of the bus.
        self.page_locked = device.kind == "cuda" and bool(
            devices.cupy().cuda.runtime.deviceGetAttribute(_SAME_ADDRESS, device.index)
        )

    def bounds(self, number: int) -> tuple[int, int]:
        return number * self.size, min((number + 1) * self.size, self.n)

    def room(self, number: int, values: Floats32) -> Floats32:
        """Rows of a panel, which are page-locked if the system allows it."""
        rows, step = self.matrix[slice(*self.bounds(number))], max(1, _PIECE // (4 * self.n))
        if self.page_locked:  # threads touch memory faster than the driver
            parallel.run(lambda at: rows[at : at + step].fill(0), range(0, len(rows), step))
            runtime = devices.cupy().cuda.runtime
            with devices.use(self.device):
                try:
                    runtime.hostRegister(rows.ctypes.data, rows.nbytes, 0)
                    finalize(self.matrix, _unlock, self.device, rows.ctypes.data).atexit = False
                except runtime.CUDARuntimeError:
                    self.page_locked = False
        return rows

    def write(self, number: int, values: Floats32) -> None:
        pass

    def columns(self, number: int, out: Floats32) -> None:
        first, last = self.bounds(number)
        above, left, blocks = self.matrix[:first, first:last], out.T, range(0, first, _BLOCK)
        parallel.run(lambda at: np.copyto(left[at : at + _BLOCK], above[at : at + _BLOCK]), blocks)

    def copy_to_card(self, indices: Ints, values: Array, slots: Ints) -> None:
        """Copy page-locked rows to rows `slots` of an array of the card."""
        places = devices.cupy().asarray(np.concatenate([indices, slots]))
        arguments = np.uint64(self.matrix.ctypes.data), np.int64(self.n), places, values
        if len(indices):
            kernel = devices.function("copy_rows.cu", "copy_rows")
            kernel((len(indices), 16), (devices.THREADS,), arguments)  # 16 blocks a row

    def diagonal(self) -> Floats32:
        return self.matrix.diagonal().copy()

    def announce(self, indices: Ints) -> None:
        pass

    def read(self, indices: Ints, out: Floats32, progress: Progress | None = None) -> None:
        np.take(self.matrix, indices, axis=0, out=out, mode="clip")


class HeldGram(CachedGram):
    """Rows of a matrix in main memory, in a cache on a card."""

    _kernel_rows: PanelRows

    def _copy(self, rows: Ints, slots: Ints) -> None:
        panels = self._kernel_rows.panels
        if isinstance(panels, HostPanels) and panels.page_locked:
            panels.copy_to_card(rows, self._window.values, slots)
        else:
            super()._copy(rows, slots)

    def release(self) -> None:
        owner = [self._kernel_rows]
        super().release()
        with suppress(RuntimeError):  # where no thread can be started, it is unlocked here
            Thread(target=owner.clear, name=host_memory.FREEING).start()  # to unlock memory takes long


def held_rows(
    request: GramRequest, memory: int, stored: StoredRows | None = None, progress: Progress | None = None
) -> PanelRows:
    """The whole matrix in main memory, read from `stored` or computed within `memory` bytes on the device."""
    size = max(1, min(-(-request.n // BANDS), memory // max(1, 16 * request.n)))
    panels = HostPanels(request.n, size, request.device)
    rows = PanelRows(panels, request)
    if stored is None:
        for _ in rows.steps([*range(panels.count)], progress):
            pass
    else:
        for number in range(panels.count):
            panels.room(number, panels.matrix)
        stored.read(np.arange(request.n), panels.matrix, progress)
    return rows


def complete_together(
    folder: str | os.PathLike[str], requests: Sequence[GramRequest], memory: int, progress: Progress | None
) -> None:
    """Compute missing panels of Grams whose kernels share a pass, with the bits of separate passes.

    On a GPU each is computed alone: gap-weighted kernels of a shared pass have other bits there. All requests
    have the same examples, and the rows of all Grams may take `memory` bytes. A Gram whose panel size
    no other Gram has is skipped.
    """
    rows = min(panel_rows(request, memory // len(requests)) for request in requests)
    store = Store(folder)
    by_size: dict[int, list[tuple[StoredGram, GramRequest]]] = {}
    for request in requests:
        stored = store.find(request, memory, rows)
        if stored.panels.missing():
            by_size.setdefault(stored.panels.size, []).append((stored, request))
    for several in by_size.values():
        if len(several) > 1:
            _complete(store, several, progress)


def _complete(store: Store, several: list[tuple[StoredGram, GramRequest]], progress: Progress | None) -> None:
    """Compute missing panels of equal size, of each Gram in turn; nothing if no pass has all kernels."""
    request = several[0][1]
    shared = _SharedPass([request for _, request in several])
    first = request.kernel.structure.read(request.examples.take(np.arange(1)))
    if shared.sharing.columns(shared.kernels, first, shared.device) is None:
        return
    with store.writing([stored for stored, _ in several]), ExitStack() as opened:
        missing = [stored.panels.missing() for stored, _ in several]  # another process may have computed some
        longest = max(range(len(several)), key=lambda position: len(missing[position]))
        steps = []
        for position, pair in enumerate(several):
            rows = StoredRows(*pair)
            rows.prepare = partial(_KernelOfPass, shared, position)
            making = rows.steps(missing[position], progress if position == longest else None)
            # Else the collector of garbage ends them after an error, and waits for threads under any lock.
            steps.append(opened.enter_context(closing(making)))
        for number in sorted(set().union(*missing)):
            for numbers, making in zip(missing, steps, strict=True):
                if number in numbers:
                    next(making, None)
        for making in steps:  # the last panels to be written, and damaged panels
            for _ in making:
                pass


class _SharedPass:
    """Rows of several kernels, computed together; the last rows are cached for the other kernels."""

    def __init__(self, requests: Sequence[GramRequest]) -> None:
        self.kernels = [request.kernel for request in requests]
        self.sharing: Any = requests[0].kernel.cost.sharing
        self.device = requests[0].device
        self._columns: tuple[int, SharedColumns] | None = None
        self._rows: tuple[SharedColumns, bytes, list[Array]] | None = None

    def columns(self, start: int, documents: Documents) -> SharedColumns:
        if self._columns is None or self._columns[0] != start:
            self._columns = self._rows = None  # frees their memory first
            self._columns = start, self.sharing.columns(self.kernels, documents, self.device)
        return self._columns[1]

    def rows(self, columns: SharedColumns, indices: Ints) -> list[Array]:
        if self._rows is None or self._rows[0] is not columns or self._rows[1] != indices.tobytes():
            self._rows = None
            self._rows = columns, indices.tobytes(), columns.rows(indices)
        return self._rows[2]


class _KernelOfPass:
    """Rows of a kernel of a pass, with the documents from `start` on as columns."""

    def __init__(self, shared: _SharedPass, position: int, start: int, documents: Documents) -> None:
        self._shared, self._position = shared, position
        self._columns = shared.columns(start, documents)

    def diag(self) -> Array:
        return self._columns.diags()[self._position]

    def rows(self, indices: Ints) -> Array:
        return self._shared.rows(self._columns, indices)[self._position]
