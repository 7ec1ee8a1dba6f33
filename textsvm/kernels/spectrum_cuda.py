"""p-spectrum kernel, the launches of kernels_cu/spectrum.cu: X X' on a GPU, X as in `kernels.spectrum`.

p-mers. Every position looks its window's key up in a table of all keys (while size_a * size_b entries
are few), or all keys are sorted; then one radix sort of (document, p-mer) gives the counts.

Product. A p-mer that df of n documents hold costs df^2 / 2 additions in a list, or n^2 / 2 multiply-adds
in a matrix product, and tensor cores do some thousands of these in the time of one such addition. So
the columns of X are split three ways:

    narrow  held by more than NARROW_SHARE of the documents, counts up to 127: int8, summed in int32
    wide    other columns held by many documents (larger counts; log and idf weights): float64
    rest    lists of documents; a block adds one row's products up in shared memory, as integers

Counts, presence and intersection without idf stay integers all the way: exact, then rounded once.
Weighted rest products are rounded to 62-bit fixed point, so that their sum has no order either: two
runs give the same bits. Where a card has few float64 units, wide columns are float32.

Memory, in bytes: 4 n^2 the matrix; n * (narrow + 8 wide columns); TILE_BYTES a tile of products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as gpu
from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.kernels.base import featureless_groups
from textsvm.kernels.pmers import Vocabulary, plan
from textsvm.kernels.spectrum import HostSpectrum, Spectrum, project_features, scale_of
from textsvm.parallel import Progress
from textsvm.parallel import part as within

Array = Any  # a CuPy array
SOURCE = "spectrum.cu"
KEYS = {np.uint32: (("KEY", "uint32"),), np.uint64: (("KEY", "uint64"),)}
EXACT = {np.uint32: (("SUM", "uint32"),), np.uint64: (("SUM", "uint64"),)}
FIXED = (("SUM", "uint64"), ("FIXED", 1))
#: What may be launched: (source, defines).
DEFINE_SETS = [(SOURCE, defines) for defines in (*KEYS.values(), *EXACT.values(), FIXED)]

NARROW_SHARE = 0.02
WIDE_SHARE = 0.15
TILE_BYTES = 1 << 29  # of a tile of products
SMALL = 1 << 28  # bytes that are asked for without a look at what is free
PAD = 64  # rows and columns of int8 matrices come in multiples
SHARED = 100 << 10  # bytes of sums a block keeps: two blocks a multiprocessor
THREADS = 256
INT8, INT32 = 3, 10  # cudaDataType


class CudaSpectrum:
    """Kernel values against fixed documents, on a GPU (`KernelRows`)."""

    def __init__(self, kernel: Spectrum, documents: Documents, device: Device) -> None:
        kernel._check_fitted()
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)
        self.known: dict[bytes, int] = {}
        with gpu.use(device):
            self.prepare(_Text(documents))

    def prepare(self, text: _Text) -> None:
        """From codes on the device to the columns of X."""
        self.pmers = _Pmers(text, *self.kernel.lengths)
        self.x = _Matrix(self.kernel, text, self.pmers)
        self.columns = _Columns(self.x, self.kernel)
        self.squares, self.scale = self.x.squares()
        self.self_values = self.squares.get()
        self.groups = self._groups(self.documents, self.self_values, self.known)

    def diag(self) -> Array:
        with gpu.use(self.device):
            values = gpu.cupy().ones(self.n) if self.kernel.normalised else self.squares
            return values.astype(np.float32)

    def rows(self, indices: NDArray[np.int64]) -> Array:
        cp = gpu.cupy()
        with gpu.use(self.device):
            which = cp.asarray(np.asarray(indices, np.int64))
            out = self._empty(len(which))
            for first, last in self._tiles(len(which)):
                some = which[first:last]
                narrow, wide = self.columns.take(some)
                rows = (out[first:last], some, self.x, narrow, [wide])
                self._fill(*rows, self.scale, self.groups, self.largest)
            if self.kernel.normalised:
                out[cp.arange(len(which)), which] = 1
            return out

    def gram(self, progress: Progress | None = None) -> Array:
        cp = gpu.cupy()
        with gpu.use(self.device):
            out = self._empty(self.n)
            all_rows = cp.arange(self.n)
            for first, last in self._tiles(self.n):
                narrow, wide = self.columns.slice(first, last)
                rows = (out[first:last], all_rows[first:last], self.x, narrow, [wide])
                self._fill(*rows, self.scale, self.groups, self.largest, first)
                if progress is not None:
                    cp.cuda.get_current_stream().synchronize()
                    progress(last * (2 * self.n - last), self.n * self.n)
            blocks = -(-self.n // 64)
            if blocks:
                mirror = _function("mirror", EXACT[np.uint32])
                args = (np.int32(self.n), np.int32(self.kernel.normalised), self.squares, out)
                mirror((blocks, blocks), (64, 8), args)
            return out

    def cross(self, others: Documents, progress: Progress | None = None) -> Array:
        cp = gpu.cupy()
        with gpu.use(self.device):
            out = self._empty(len(others))
            if not len(others):
                return out
            text = _Text(others)
            pmers = _Pmers(text, *self.kernel.lengths)
            x = _Matrix(self.kernel, text, pmers)
            squares, scale = x.squares()
            self_values = squares.get()
            groups = self._groups(others, self_values, dict(self.known))
            x.project(self.x.starts(), pmers.find_in(self.pmers))
            all_rows = cp.arange(len(others))
            largest = float(self_values.max())
            for first, last in self._tiles(len(others)):
                narrow, digits = self.columns.densify(x, first, last)
                rows = (out[first:last], all_rows[first:last], x, narrow, digits)
                self._fill(*rows, scale, groups, largest)
                if progress is not None:
                    cp.cuda.get_current_stream().synchronize()
                    progress(last, len(others))
            return out

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """k(others, documents) @ coef: coef (n, k) -> (len(others), k), on the host.

        One sparse product in feature space, whatever n is (see `kernels.spectrum`): counting p-mers is
        all the work, and the host does that as fast as it could send the texts.
        """
        return self._host.decision(others, coef, progress)

    @cached_property
    def _host(self) -> HostSpectrum:
        return HostSpectrum(self.kernel, self.documents, gpu.select("cpu"))

    @property
    def largest(self) -> float:
        """The largest k(s, s) of the columns."""
        return float(self.self_values.max(initial=0))

    def _empty(self, m: int) -> Array:
        what = f"the {m:,} x {self.n:,} matrix of the spectrum kernel"
        needed = 4 * m * self.n + 12 * self._tile(m) * self.columns.height
        gpu.require_memory(needed, what, "lower --memory, or run with --device cpu")
        return gpu.cupy().empty((m, self.n), np.float32)

    def _tile(self, m: int) -> int:
        """Rows of a tile: as many as fit TILE_BYTES."""
        fit = TILE_BYTES // (12 * self.columns.height) // PAD * PAD
        return min(max(fit, PAD), -(-max(m, 1) // PAD) * PAD)

    def _tiles(self, m: int) -> list[tuple[int, int]]:
        size = self._tile(m)
        return [(first, min(first + size, m)) for first in range(0, m, size)]

    def _fill(
        self, out: Array, which: Array, x: _Matrix, narrow: Array, wide: list[Array], row_scale: Array,
        row_groups: Array, largest: float, first: int | None = None,
    ) -> None:  # fmt: skip
        """Rows `which` of `x` into `out`; with `first`, only what lies behind the diagonal."""
        skip = first or 0
        tile = self.columns.narrow_product(narrow, skip)
        sums = self.columns.wide_product(wide, skip)
        bound = (largest * self.largest) ** 0.5  # Cauchy-Schwarz: no sum is larger
        factors = (row_scale, self.scale, row_groups, self.groups)
        self.columns.launch(out, which, x, tile, sums, factors, skip, first is not None, bound)

    def _groups(
        self, documents: Documents, self_values: NDArray[np.float64], known: dict[bytes, int]
    ) -> Array:
        """`featureless_groups` on the device; without normalisation such a row is just 0."""
        groups = np.zeros(len(documents), np.int32)
        if self.kernel.normalised:
            groups = featureless_groups(documents, self_values, known)
        return gpu.cupy().asarray(groups)


def cuda_grams(
    kernels: Sequence[Spectrum], documents: Documents, device: Device, progress: Progress | None = None
) -> Iterator[tuple[int, Array]]:
    """The Grams of kernels that differ in p2 and `normalised` only, in ascending order of p2, numbered.

    Each adds the Gram, not normalised, of the lengths that the one before did not have to a running sum.
    """
    p1, p2 = kernels[0].lengths[0], kernels[-1].lengths[1]
    begin, self_values = p1, np.zeros(len(documents))
    total: Array = None
    for position, kernel in enumerate(kernels):
        last = kernel.lengths[1]
        if last >= begin:
            more = Spectrum((begin, last), kernel.weight, kernel.idf, normalised=False).fit(documents)
            rows = CudaSpectrum(more, documents, device)
            part = rows.gram(within(progress, begin - p1, last + 1 - begin, p2 + 1 - p1))
            self_values += rows.self_values
            with gpu.use(device):
                total = part if total is None else gpu.cupy().add(total, part, out=total)
            del rows, part
            begin = last + 1
        with gpu.use(device):
            matrix = _scaled(kernel, documents, total, self_values)
        yield position, matrix
        del matrix


def _scaled(kernel: Spectrum, documents: Documents, total: Array, self_values: NDArray[np.float64]) -> Array:
    """Kernel values from the sums, a new array on the current device."""
    cp = gpu.cupy()
    n = len(documents)
    gpu.require_memory(4 * n * n, f"the {n:,} x {n:,} matrix of the spectrum kernel", "lower --memory")
    if not kernel.normalised:
        return total.copy()
    out, scale = cp.empty((n, n), np.float32), cp.asarray(scale_of(kernel, self_values))
    batch = max(1, (1 << 24) // max(n, 1))
    for first in range(0, n, batch):
        rows = slice(first, first + batch)
        out[rows] = total[rows] * (scale[rows, None] * scale)
    out[cp.arange(n), cp.arange(n)] = 1
    groups = featureless_groups(documents, self_values, {})
    on_card = cp.asarray(groups)
    for i in np.flatnonzero(groups):
        out[int(i)] = on_card == int(groups[i])
        out[:, int(i)] = out[int(i)]
    return out


class _Text:
    """Documents on the device."""

    def __init__(self, documents: Documents) -> None:
        cp = gpu.cupy()
        self.n = len(documents)
        self.size = len(documents.codes)
        self.lengths = documents.lengths
        self.n_symbols = len(documents.alphabet)
        _require(24 * self.size, f"counting the substrings of {self.size:,} symbols")
        self.codes = cp.asarray(documents.codes)
        self.offsets = cp.asarray(documents.offsets)

    def windows(self, q: int) -> int:
        """Number of substrings of length q."""
        return int(np.maximum(self.lengths - q + 1, 0).sum())


class _Pmers:
    """The id of the window of each length p1..p2 at every position: `kernels.pmers`, on the device."""

    def __init__(self, text: _Text, p1: int, p2: int) -> None:
        cp = gpu.cupy()
        self.text, self.p1, self.p2 = text, p1, p2
        self.document = cp.empty(text.size, np.int32)
        _each("locate", text.size, np.int32(text.n), text.offsets, self.document)
        ids = {1: text.codes.astype(np.int32)}
        self.sizes = {1: text.n_symbols}
        self.tables: dict[int, Array] = {}  # sorted keys (uint64), or for every key how many are up to it
        self.ids = [(1, ids[1])] if p1 == 1 else []
        steps = plan(p1, p2)
        for step, (q, a, b) in enumerate(steps):
            ids[q] = self._pair(q, a, b, ids[a], ids[b])
            if q >= p1:
                self.ids.append((q, ids[q]))
            needed = {q} | {length for later in steps[step + 1 :] for length in later[1:]}
            ids = {length: array for length, array in ids.items() if length in needed}
        self.n_pmers = sum(self.sizes[q] for q, _ in self.ids)

    def _pair(self, q: int, a: int, b: int, left: Array, right: Array) -> Array:
        cp = gpu.cupy()
        size, bound = self.text.size, self.sizes[a] * self.sizes[b]
        place = (self.text.offsets, self.document, np.int32(q), np.int32(b))
        these = (*place, left, right, np.int64(self.sizes[b]))
        if bound <= max(1 << 24, 4 * size):
            seen = cp.zeros(max(bound, 1), np.int32)
            _each("mark", size, *these, seen)
            ranks = cp.cumsum(seen, dtype=np.int32)
            ids = cp.empty(size, np.int32)
            _each("look_up", size, *these, ranks, ids)
            self.tables[q], self.sizes[q] = ranks, int(ranks[-1])
            return ids
        shift = max(size - 1, 1).bit_length()
        shift = shift if (bound + 1) << shift <= 1 << 64 else 0
        keys = cp.empty(size, np.uint64)
        _each("window_keys", size, *these, np.int32(shift), keys)
        if shift:  # sorting (key, position) in one word is several times faster
            keys.sort()
            keys = keys[: self.text.windows(q)]
            order = (keys & np.uint64((1 << shift) - 1)).astype(np.int64)
            keys >>= np.uint64(shift)
        else:
            order = cp.argsort(keys)[: self.text.windows(q)]
            keys = keys[order]
        new = cp.ones(len(keys), bool)
        new[1:] = keys[1:] != keys[:-1]
        ids = cp.zeros(size, np.int32)
        ids[order] = cp.cumsum(new, dtype=np.int32) - 1
        self.tables[q] = keys[new]
        self.sizes[q] = len(self.tables[q])
        return ids

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The same on the host."""
        keys = {}
        for q, table in self.tables.items():
            found = table.get()
            if found.dtype != np.uint64:
                found = np.flatnonzero(np.diff(found, prepend=0)).astype(np.uint64)
            keys[q] = found
        return Vocabulary(self.p1, self.p2, self.text.n_symbols, keys)

    def find_in(self, columns: _Pmers) -> NDArray[np.int64]:
        return columns.vocabulary.find(self.vocabulary)


class _Matrix:
    """Rows of X: one entry for each distinct feature of each document, documents in order.

    documents, features int32, values float32, shape (number of entries,); indptr int64, shape (n + 1,).
    df, highest: int32, shape (number of features,), documents that hold a feature and largest value.
    """

    def __init__(self, kernel: Spectrum, text: _Text, pmers: _Pmers) -> None:
        cp = gpu.cupy()
        self.n, self.kernel = text.n, kernel
        keys = self._keys(text, pmers)
        first = cp.empty(len(keys), bool)
        defines = KEYS[keys.dtype.type]
        _each("first_of_run", len(keys), keys, first, defines=defines)
        starts = cp.flatnonzero(first)
        size, n_pmers = len(starts), np.int64(pmers.n_pmers)
        self.documents, self.features, counts = (cp.empty(size, np.int32) for _ in range(3))
        self.df = cp.zeros(pmers.n_pmers, np.int32)
        self.highest = cp.ones(pmers.n_pmers, np.int32)
        outputs = (self.documents, self.features, counts, self.df, self.highest)
        _each("entries", size, np.int64(len(keys)), keys, starts, n_pmers, *outputs, defines=defines)
        weights = None
        if kernel.idf:
            weights = cp.asarray(kernel.idf_.weights(pmers.vocabulary))
        owner = self.features
        self._starts: Array | None = None
        self._largest: int | None = None
        if kernel.weight == "intersection":
            owner = self._unary(keys, first, starts, n_pmers)
        values = counts if kernel.weight == "count" else cp.ones(len(owner), np.float32)
        if kernel.weight == "log":
            values = 1 + cp.log(counts.astype(np.float64))
        if weights is not None:
            values = cp.sqrt(weights[owner]) if self._starts is not None else weights[owner] * values
        self.values = values.astype(np.float32, copy=False)
        if kernel.weight != "count":
            self.highest = cp.ones(len(self.df), np.int32)
        self.indptr = cp.zeros(self.n + 1, np.int64)
        _each("row_starts", len(self.documents), np.int32(self.n), self.documents, self.indptr)

    def _keys(self, text: _Text, pmers: _Pmers) -> Array:
        """document * n_pmers + p-mer of every token, sorted."""
        cp = gpu.cupy()
        small = (text.n + 1) * pmers.n_pmers < 1 << 32
        key = np.uint32 if small else np.uint64
        _require(4 * key().itemsize * text.size * len(pmers.ids), "the substrings of the documents")
        keys = cp.empty(text.size * len(pmers.ids), key)
        base = 0
        for k, (q, ids) in enumerate(pmers.ids):
            part = keys[k * text.size : (k + 1) * text.size]
            sizes = (np.int64(base), np.int64(pmers.n_pmers))
            args = (text.offsets, pmers.document, np.int32(q), ids, *sizes, part)
            _each("token_keys", text.size, *args, defines=KEYS[key])
            base += pmers.sizes[q]
        keys.sort()
        return keys[: sum(text.windows(q) for q, _ in pmers.ids)]

    def _unary(self, keys: Array, first: Array, starts: Array, n_pmers: np.int64) -> Array:
        """Every token becomes an entry; returns the p-mer of each."""
        cp = gpu.cupy()
        begin = _starts(self.highest)
        run = cp.cumsum(first, dtype=np.int32)
        self.documents, self.features, owner = (cp.empty(len(keys), np.int32) for _ in range(3))
        self.df = cp.zeros(int(begin[-1]), np.int32)
        outputs = (self.documents, owner, self.features, self.df)
        _each("unary", len(keys), keys, starts, run, n_pmers, begin, *outputs, defines=KEYS[keys.dtype.type])
        self._starts = begin
        return owner

    def starts(self) -> NDArray[np.int64]:
        """Where the features of each p-mer start, on the host."""
        return np.arange(len(self.df) + 1) if self._starts is None else self._starts.get()

    def squares(self) -> tuple[Array, Array]:
        """k(s, s) of every row and what its products are multiplied by, float64."""
        cp = gpu.cupy()
        sums, scale = cp.empty(self.n), cp.empty(self.n)
        args = (np.int32(self.n), self.indptr, self.values, np.int32(self.kernel.normalised), sums, scale)
        if self.n:
            blocks = -(-self.n // (THREADS // 32))
            _function("squares", EXACT[np.uint32])((blocks,), (THREADS,), args)
        return sums, scale

    def largest(self, place: Array) -> int:
        """The largest value in a narrow column; kept once known."""
        if self._largest is None:
            narrow = (self.features >= 0) & (place[self.features] >= 0) if len(place) else self.features > 0
            self._largest = int(gpu.cupy().where(narrow, self.values, 0).max()) if len(narrow) else 0
        return self._largest

    def project(self, starts: NDArray[np.int64], found: NDArray[np.int64]) -> None:
        """Number the features as the columns do; -1 where those do not have one."""
        target = project_features(starts, self.starts(), found)
        self.features = gpu.cupy().asarray(target.astype(np.int32))[self.features]


class _Columns:
    """The columns of X split into narrow, wide and rest."""

    def __init__(self, x: _Matrix, kernel: Spectrum) -> None:
        cp = gpu.cupy()
        self.n = x.n
        self.height = -(-max(self.n, 1) // PAD) * PAD
        self.whole = not kernel.idf and kernel.weight != "log"
        self.wide_type = np.float64 if _card().fast_float64 else np.float32
        sums = self._split(x)
        self.place = cp.empty(len(x.df), np.int32)
        lengths = cp.empty(len(x.df), np.int64)
        _each("place_features", len(x.df), x.df, sums, self.place, lengths)
        self.lists = _starts(lengths)
        cursor = self.lists[:-1].copy()
        self.list_documents = cp.empty(len(x.features), np.int32)
        self.list_values = cp.empty(len(x.features), np.float32)
        entries = (x.documents, x.features, x.values, self.place)
        _each("fill_lists", len(x.features), *entries, cursor, self.list_documents, self.list_values)
        self.narrow, self.wide = self._dense(x, 0, self.n, self.height, 0)

    def _split(self, x: _Matrix) -> Array:
        """Running numbers of narrow (low 32 bits) and wide features; fewer while memory is short."""
        cp = gpu.cupy()
        share = NARROW_SHARE if self.whole else WIDE_SHARE
        kinds = cp.empty(len(x.df), np.int64)
        while True:
            least = np.float32(max(share * self.n, 1))
            _each("classify", len(x.df), x.df, x.highest, least, np.int32(self.whole), kinds)
            sums = cp.cumsum(kinds) if len(kinds) else kinds
            total = int(sums[-1]) if len(kinds) else 0
            self.n_narrow, self.n_wide = total & 0xFFFFFFFF, total >> 32
            self.ld = -(-self.n_narrow // PAD) * PAD
            needed = self.height * (self.ld + 8 * self.n_wide)
            if needed <= SMALL or needed <= gpu.free_memory() // 3 or share >= 1:
                return sums
            share *= 1.5

    def _dense(self, x: _Matrix, first: int, last: int, height: int, digit: int) -> tuple[Array, Array]:
        """The narrow and wide columns of the rows first..last of `x`, `height` rows high."""
        cp = gpu.cupy()
        narrow = cp.zeros((height, self.ld), np.int8)
        wide = cp.zeros((height, self.n_wide), self.wide_type)
        begin, end = (0, len(x.features)) if last - first == x.n else x.indptr[[first, last]].get().tolist()
        entries = (x.documents[begin:end], x.features[begin:end], x.values[begin:end], self.place)
        if self.n_narrow:
            sizes = (np.int32(first), np.int32(digit), np.int64(self.ld))
            _each("narrow_columns", end - begin, *entries, *sizes, narrow)
        if self.n_wide:
            name = "wide_columns_double" if self.wide_type == np.float64 else "wide_columns_float"
            _each(name, end - begin, *entries, np.int32(first), np.int64(self.n_wide), wide)
        return narrow, wide

    def densify(self, x: _Matrix, first: int, last: int) -> tuple[Array, list[Array]]:
        """Narrow and wide columns of other documents; counts past 127 make more narrow matrices.

        Returns the narrow columns modulo 128, and [wide columns, narrow columns // 128 % 128, ...].
        """
        height = -(-(last - first) // PAD) * PAD
        narrow, wide = self._dense(x, first, last, height, 0)
        parts, digit = [wide], 1
        while x.largest(self.place) >> (7 * digit):
            parts.append(self._dense(x, first, last, height, digit)[0])
            digit += 1
        return narrow, parts

    def slice(self, first: int, last: int) -> tuple[Array, Array]:
        """Narrow and wide columns of these rows."""
        last = first + -(-(last - first) // PAD) * PAD
        return self.narrow[first:last], self.wide[first:last]

    def take(self, which: Array) -> tuple[Array, Array]:
        """Narrow and wide columns of the rows `which`."""
        cp = gpu.cupy()
        height = -(-len(which) // PAD) * PAD
        padded = cp.zeros(height, np.int64)
        padded[: len(which)] = which
        return self.narrow[padded], self.wide[padded]

    def narrow_product(self, rows: Array, skip: int) -> Array | None:
        """rows @ narrow[skip:].T in int32, shape (len(rows), height - skip)."""
        cp = gpu.cupy()
        if not self.n_narrow:
            return None
        columns = self.narrow[skip:]
        tile = cp.empty((len(rows), len(columns)), np.int32)
        one, zero = np.ones(1, np.int32), np.zeros(1, np.int32)
        blas = cp.cuda.cublas
        blas.gemmEx(
            cp.cuda.device.get_cublas_handle(), blas.CUBLAS_OP_T, blas.CUBLAS_OP_N,
            len(columns), len(rows), self.ld, one.ctypes.data,
            columns.data.ptr, INT8, self.ld,
            rows.data.ptr, INT8, self.ld, zero.ctypes.data,
            tile.data.ptr, INT32, len(columns),
            blas.CUBLAS_COMPUTE_32I, blas.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip
        return tile

    def wide_product(self, parts: list[Array], skip: int) -> Array | None:
        """Products of wide columns, and of further digits of narrow ones, in float64."""
        wide, *digits = parts
        total = None
        if self.n_wide:
            total = (wide @ self.wide[skip:].T).astype(np.float64, copy=False)
        for power, digit in enumerate(digits, 1):
            tile = self.narrow_product(digit, skip)
            part = tile.astype(np.float64) * 128.0**power if tile is not None else 0
            total = part if total is None else total + part
        return total

    def launch(
        self, out: Array, which: Array, x: _Matrix, tile: Array | None, wide: Array | None,
        factors: tuple[Array, ...], skip: int, half: bool, bound: float,
    ) -> None:  # fmt: skip
        """Add what the lists give, scale, and round into `out`. No sum of products passes `bound`."""
        if not len(which) or not self.n:
            return
        integer = np.uint32 if self.whole and bound < 1 << 32 else np.uint64
        unit = 1.0 if self.whole else 2.0 ** (61 - int(np.ceil(np.log2(max(bound, 1)))))
        width = min(_card().shared // integer().itemsize, self.n)
        shared = width * integer().itemsize
        kernel = _function("rows", EXACT[integer] if self.whole else FIXED)
        kernel.max_dynamic_shared_size_bytes = _card().shared
        args = (
            np.int32(self.n), np.int32(width), np.int32(half), which, x.indptr, x.features, x.values,
            self.place, self.lists, self.list_documents, self.list_values,
            np.uint64(0) if tile is None else tile, np.uint64(0) if wide is None else wide,
            np.int64(self.height - skip), np.int64(skip), np.float32(unit), *factors, out,
        )  # fmt: skip
        kernel((len(which), -(-self.n // width)), (512,), args, shared_mem=shared)


@dataclass(frozen=True)
class _Card:
    """What is known of a card: shared memory a block may have for sums, in bytes; float64 units."""

    shared: int
    fast_float64: bool


def _card() -> _Card:
    return _card_of(gpu.cupy().cuda.runtime.getDevice(), SHARED)


@lru_cache(maxsize=16)
def _card_of(index: int, shared: int) -> _Card:
    attributes = gpu.cupy().cuda.Device(index).attributes
    fast = attributes.get("SingleToDoublePrecisionPerfRatio", 32) <= 4
    return _Card(min(shared, attributes["MaxSharedMemoryPerBlockOptin"]), fast)


def _require(needed: int, what: str) -> None:
    """As `require_memory`; asking the driver takes longer than a small task, so that is not asked for."""
    if needed > SMALL:
        gpu.require_memory(needed, what)


def _starts(numbers: Array) -> Array:
    """0 and the running sums, int64."""
    cp = gpu.cupy()
    starts = cp.zeros(len(numbers) + 1, np.int64)
    if len(numbers):
        cp.cumsum(numbers, dtype=np.int64, out=starts[1:])
    return starts


def _function(name: str, defines: gpu.Defines) -> Any:
    return _function_of(gpu.cupy().cuda.runtime.getDevice(), name, defines)


@lru_cache(maxsize=256)
def _function_of(index: int, name: str, defines: gpu.Defines) -> Any:
    return gpu.load(SOURCE, defines).get_function(name)


def _each(name: str, n: int, *args: Any, defines: gpu.Defines = KEYS[np.uint32]) -> None:
    """Launch a kernel with one thread for each of n elements, its first argument."""
    if n:
        _function(name, defines)((-(-n // THREADS),), (THREADS,), (np.int64(n), *args))
