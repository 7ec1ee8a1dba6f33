"""Edit-distance kernel on a GPU: launches of kernels_cu/edit.cu, which describes the layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints, Ints32, runs_of
from textsvm.kernels.edit.cpu import EditRows, fits, narrow_runs
from textsvm.runtime import device as gpu
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, part
from textsvm.text.documents import DeviceDocuments, Documents

WARP = 32
THREADS = 256
LAUNCH = 5e12  # table cells per launch; STREAMS launches run together between progress reports
STREAMS = 8
BATCH = 1 << 24  # distances that are converted to kernel values together
DISTANCES, OF_DISTANCE, RELATIVE = range(3)

#: struct Task of kernels_cu/edit.cu, the argument of `edit_rows`.
TASK = gpu.layout(
    "uint64 codes offsets packs rows places words group_words lengths columns",
    "uint64 scratch next_item of_distance out coefficients sums",
    "int64 scratch_words n_columns",
    "int32 n_packs span n_texts texts_alphabet kind own symmetric n_classes",
    "float32 gamma",
)


@dataclass(frozen=True)
class Variant:
    """Layout of row documents in words (see kernels_cu/edit.cu)."""

    words: int
    fields: int
    strips: bool

    def defines(self, wide: bool) -> tuple[tuple[str, int | str], ...]:
        strips = ("STRIPS", int(self.strips))
        return ("WORDS", self.words), ("FIELDS", self.fields), strips, ("WIDE", int(wide))


SHORT = [Variant(words, 4, False) for words in (4, 7, 10, 13, 16)]  # up to 8 * words - 1 symbols
MIDDLE = [Variant(words, 1, False) for words in (5, 6, 7, 8, 10, 12, 14, 16)]  # up to 32 * words symbols
LONG = [Variant(words, 1, True) for words in (10, 12, 14, 16)]  # strips of 32 * words symbols

#: Kernels launched: (source, defines).
DEFINE_SETS = [
    ("edit.cu", (("PACK", 1),)),
    *(("edit.cu", v.defines(wide)) for wide in (False, True) for v in SHORT + MIDDLE + LONG),
]


class _PackedTexts:
    """Column documents on a GPU: sorted by length, 32 side by side, two symbols per word.

    Row documents have only symbols below `patterns_alphabet`, if it is given.
    """

    def __init__(self, documents: DeviceDocuments, patterns_alphabet: int | None) -> None:
        cp = gpu.cupy()
        self.n_documents, self.n = documents.n, -(-documents.n // WARP) * WARP
        self.alphabet = max(1, documents.n_symbols)
        if patterns_alphabet is not None:
            self.alphabet = min(self.alphabet, patterns_alphabet + 1)
        self.wide = self.alphabet > 256
        order = np.argsort(documents.lengths, kind="stable")
        lengths, columns = np.zeros(self.n, np.int32), np.full(self.n, -1, np.int32)
        lengths[: len(order)], columns[: len(order)] = documents.lengths[order], order
        self.longest, self.symbols = int(lengths.max(initial=0)), int(lengths.sum())
        group_words = np.zeros(self.n // WARP + 1, np.int64)
        np.cumsum((lengths.reshape(-1, WARP).max(1, initial=0) + 1) // 2 * WARP, out=group_words[1:])
        gpu.require_memory(4 * int(group_words[-1]), "the packed documents")
        self.words = cp.empty(max(1, int(group_words[-1])), cp.uint32)
        self.group_words, self.lengths, self.columns = map(cp.asarray, (group_words, lengths, columns))
        if self.n:
            arguments = (
                documents.codes, documents.offsets, cp.asarray(order), np.int32(len(order)),
                self.group_words, np.int32(self.alphabet - 1), np.int32(1 if self.wide else 4), self.words,
            )  # fmt: skip
            pack = gpu.function("edit.cu", "pack_texts", DEFINE_SETS[0][1])
            pack((self.n // WARP,), (THREADS,), arguments)


class CudaEdit(EditRows):
    """`EditRows` on a GPU."""

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        super().__init__(kernel, documents, device)
        if fits(documents):
            with gpu.use(device):
                self._patterns = DeviceDocuments(documents, np.uint16)
                self._texts = _PackedTexts(self._patterns, None)

    def gram_of(self, kernel: Any, distances: Array) -> Any:
        """Gram matrix of a kernel with another gamma, from `distances_gram`, on the device."""
        cp = gpu.cupy()
        with gpu.use(self.device):
            gpu.require_memory(4 * self.n**2, "the matrix of the edit-distance kernel", "lower --memory")
            out, lengths = cp.empty((self.n, self.n), np.float32), cp.asarray(self.documents.lengths)
            batch = max(1, BATCH // max(1, self.n))
            for first in range(0, self.n, batch):
                rows = slice(first, first + batch)
                kernel.values(distances[rows], lengths[rows], lengths, out[rows])
            return out

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        """k(others, documents) @ coef without a matrix: a thread sums over patterns, the documents."""
        coef = np.ascontiguousarray(coef, np.float64)
        with gpu.use(self.device):
            if fits(self.documents, others):
                texts = _PackedTexts(DeviceDocuments(others, np.uint16), len(self.documents.alphabet))
                return self._sums(self._patterns, texts, coef, progress)
            values = np.zeros((len(others), coef.shape[1]))
            for run, rows, columns in narrow_runs(self.documents, np.arange(self.n), others):
                texts = _PackedTexts(DeviceDocuments(columns, np.uint16), len(rows.alphabet))
                step = part(progress, run.start, run.stop - run.start, self.n)
                values += self._sums(DeviceDocuments(rows, np.uint16), texts, coef[run], step)
            return values

    def _sums(
        self, patterns: DeviceDocuments, texts: _PackedTexts, coef: Floats, progress: Progress | None
    ) -> Floats:
        """k(texts, patterns) @ coef, on the host."""
        sums, n = gpu.cupy().zeros((coef.shape[1], texts.n)), texts.n_documents
        job = _Comparison(self.kernel, patterns, texts, OF_DISTANCE)
        for launch in job.run(np.arange(patterns.n), lambda launch: launch.prepare_sums(coef), progress):
            sums += launch.sums.sum(axis=0)
        values = np.empty((n, coef.shape[1]))
        values[texts.columns.get()[:n]] = sums.get().T[:n]
        return values

    def compare(
        self, others: Documents, picks: Ints | None, dtype: Any, progress: Progress | None = None
    ) -> Array:
        symmetric = picks is None
        order = np.arange(self.n) if picks is None else picks
        with gpu.use(self.device):
            name = f"the {len(order):,} x {self.n:,} matrix of the edit-distance kernel"
            gpu.require_memory(4 * len(order) * self.n, name, "lower --memory, or run with --device cpu")
            out = gpu.cupy().empty((len(order), self.n), dtype)
            kind = DISTANCES if dtype == np.int32 else OF_DISTANCE
            if fits(self.documents, others):
                own = others is self.documents
                patterns = self._patterns if own else DeviceDocuments(others, np.uint16)
                job = _Comparison(self.kernel, patterns, self._texts, kind, own, symmetric)
                job.fill(order, out, progress)
                return out
            # Of large alphabets every value is computed, of symmetric matrices too.
            for run, rows, columns in narrow_runs(others, order, self.documents):
                texts = _PackedTexts(DeviceDocuments(columns, np.uint16), len(rows.alphabet))
                job = _Comparison(self.kernel, DeviceDocuments(rows, np.uint16), texts, kind)
                step = part(progress, run.start, run.stop - run.start, len(order))
                job.fill(np.arange(len(rows)), out[run], step)
            return out


class _Comparison:
    """Comparison of row documents with texts, split into launches."""

    def __init__(
        self,
        kernel: Any,
        patterns: DeviceDocuments,
        texts: _PackedTexts,
        kind: int,
        own: bool = False,
        symmetric: bool = False,
    ) -> None:
        cp = gpu.cupy()
        self.patterns, self.texts, self.own, self.symmetric = patterns, texts, own, symmetric
        self.all_lengths = patterns.lengths
        self.kind = RELATIVE if kind == OF_DISTANCE and kernel.relative else kind
        # Finite in float32: infinity times a distance of 0 is NaN.
        self.gamma = min(float(kernel.gamma), float(np.finfo(np.float32).max))
        longest = max(texts.longest, int(self.all_lengths.max(initial=0)))
        table = np.exp(-float(self.gamma) * np.arange(longest + 1 if self.kind == OF_DISTANCE else 1))
        self.of_distance = cp.asarray(table.astype(np.float32))
        self.processors = gpu.multiprocessors()

    def run(
        self, picks: Ints, prepare: Callable[[_Launch], None], progress: Progress | None
    ) -> Iterator[_Launch]:
        """Run all launches, several at a time, so that the last blocks of a launch do not delay the next.

        `prepare` allocates arrays on the current stream; they live until this stream has waited for the
        kernel.
        """
        current = gpu.cupy().cuda.get_current_stream()
        launches = list(self._launches(picks))
        streams = [gpu.cupy().cuda.Stream(non_blocking=True) for _ in launches[:STREAMS]]
        total, done = sum(launch.work for launch in launches), 0.0
        for first in range(0, len(launches), STREAMS):
            together = launches[first : first + STREAMS]
            for launch in together:
                prepare(launch)
            ready = current.record()
            for launch, stream in zip(together, streams, strict=False):
                stream.wait_event(ready)
                launch.start(stream)
                current.wait_event(stream.record())
            yield from together
            done += sum(launch.work for launch in together)
            for launch in together:
                launch.forget()
            gpu.report(progress, done, total)

    def fill(self, picks: Ints, out: Array, progress: Progress | None) -> None:
        for _ in self.run(picks, lambda launch: launch.prepare(out), progress):
            pass

    def _launches(self, picks: Ints) -> Iterator[_Launch]:
        """Launches for documents that become rows 0, 1, ...; the longest first."""
        if self.texts.n == 0:
            return
        lengths = self.all_lengths[picks]
        # Descending, and the reverse of the stable order of the texts where documents are equally long.
        rows = np.argsort(lengths, kind="stable")[::-1]
        # Index into SHORT + MIDDLE + LONG: the most compact layout of row documents of these lengths.
        limits = [8 * v.words - 1 for v in SHORT] + [32 * v.words for v in MIDDLE]
        strip_length = -(-lengths[rows] // np.maximum(-(-lengths[rows] // 512), 1))
        long = len(limits) + np.searchsorted([32 * v.words for v in LONG], strip_length)
        variants = np.where(lengths[rows] > limits[-1], long, np.searchsorted(limits, lengths[rows]))
        work = np.cumsum(lengths[rows] + 1.0)
        group = variants * (1 << 40) + (work * (self.texts.symbols / LAUNCH)).astype(np.int64)
        for first, end in runs_of(group):
            positions, places = rows[first:end], np.arange(len(rows) - 1 - first, len(rows) - 1 - end, -1)
            variant = (SHORT + MIDDLE + LONG)[variants[first]]
            yield _Launch(self, variant, picks[positions], positions, places)


class _Launch:
    """A launch of `edit_rows` for documents of a variant, by decreasing length.

    `arrays` and `job` keep everything alive that the launch addresses.
    """

    arrays: dict[str, Any] = {}  # noqa: RUF012 (replaced, not changed)
    sums: Array = None

    def __init__(self, job: _Comparison, variant: Variant, documents: Ints, rows: Ints, places: Ints) -> None:
        self.job, self.variant = job, variant
        self.work = float((job.all_lengths[documents] + 1.0).sum())
        self.packs = -(-len(rows) // variant.fields)
        self.documents, self.rows, self.places = map(self._padded, (documents, rows, places))
        self.text_blocks = -(-job.texts.n // THREADS)

    def _padded(self, indices: Ints) -> Ints32:
        padded = np.full(self.packs * self.variant.fields, -1, np.int32)
        padded[: len(indices)] = indices
        return padded

    def prepare(self, out: Array) -> None:
        self._prepare(1, np.empty((0, 0)), out)

    def prepare_sums(self, coef: Floats) -> None:
        """Prepare to sum coef[document, k] times the value of each text into `sums`, (parts, k, texts)."""
        chunks = min(self.packs, max(1, 16 * self.job.processors // self.text_blocks))
        span = -(-self.packs // chunks)
        self.sums = gpu.cupy().zeros((-(-self.packs // span), coef.shape[1], self.job.texts.n))
        self._prepare(span, coef[self.documents], None)

    def _prepare(self, span: int, coefficients: Floats, out: Array) -> None:
        cp, job, texts = gpu.cupy(), self.job, self.job.texts
        self.kernel = gpu.function("edit.cu", "edit_rows", self.variant.defines(texts.wide))
        self.blocks = min(-(-self.packs // span) * self.text_blocks, 4 * job.processors)
        scratch_words = 2 * THREADS * -(-texts.longest // 32) if self.variant.strips else 0
        scratch_words += (texts.alphabet + 1) // 2 if texts.wide else 0
        if scratch_words:
            budget = gpu.free_memory() // (2 * STREAMS)
            self.blocks = max(1, min(self.blocks, budget // (4 * scratch_words)))
            gpu.require_memory(4 * scratch_words * self.blocks, "scratch space of the edit-distance kernel")
        coefficients = np.ascontiguousarray(coefficients)
        self.arrays = {
            "packs": cp.asarray(self.documents), "rows": cp.asarray(self.rows),
            "places": cp.asarray(self.places), "out": out, "sums": self.sums,
            "scratch": cp.empty(max(1, self.blocks * scratch_words), cp.uint32),
            "next_item": cp.zeros(1, np.int32), "coefficients": cp.asarray(coefficients),
        }  # fmt: skip
        self.task = gpu.structure(
            TASK, texts, job.patterns, job, **self.arrays, scratch_words=scratch_words,
            n_columns=0 if out is None else out.shape[1], n_packs=self.packs, span=span, n_texts=texts.n,
            texts_alphabet=texts.alphabet, n_classes=coefficients.shape[1],
        )  # fmt: skip

    def start(self, stream: Array) -> None:
        with stream:
            self.kernel((self.blocks,), (THREADS,), (self.task,))

    def forget(self) -> None:
        self.arrays, self.sums = {}, None
