"""The Nystroem approximation of any kernel, by its values with m landmarks (Williams and Seeger 2001).

Landmarks l_1 .. l_m are drawn from the documents that the kernel learns from, K_mm are their kernel values,
k_m(s) those of a document with them. With the eigenvalues and eigenvectors K_mm = V diag(lambda) V',

    z(s) = diag(lambda)^(-1/2) V' k_m(s)        k~(s, t) = z(s) . z(t) = k_m(s)' K_mm^+ k_m(t),

r <= m dense features. Values with landmarks are exact: with all documents as landmarks k~ = k. A machine on z
solves the problem of k~ exactly: no ridge of k(s, s) - |z(s)|^2 is added, which would make a document more
similar to itself than to its copy. Its value at s is

    w . z(s) = sum_j v_j k(l_j, s),       v = V diag(lambda)^(-1/2) w,        w = sum_i coef_i z(s_i):

a machine of the kernel itself whose support vectors are the landmarks; it is kept in this form (`condense`).

K_mm in float64 is of values in float32, whose rounding moves eigenvalues by up to about sqrt(m) 2^-24
max_i k(l_i, l_i). Eigenvalues below ten times this bound are left out, so that similar landmarks and nearly
constant kernels do not cause a division by rounding errors. A kernel that is not positive semi-definite, such
as edit distance, has negative eigenvalues: they are left out, too, and so are positive eigenvalues up to the
same size.

Landmarks are drawn uniformly. On 2,500 documents of Earn vs Rest (100 symbols), 125 to 1,000 landmarks drawn
by squared distance (k-means++), by randomly pivoted Cholesky or by ridge leverage capture 0 to 1 points more
of the trace and are no more accurate, for an additional pass over the documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import Array, Floats, Ints, Json
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.contract import Ability, Cost, KernelRows, Structure
from textsvm.linalg.dense import DenseRows, matmul
from textsvm.linalg.factored import as_dense
from textsvm.linalg.rows import FeatureRows
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, one_blas_thread, part
from textsvm.runtime.workers import current
from textsvm.text.documents import Documents, View

#: Bytes of a block of kernel values in float64 on the host.
HOST_BLOCK = 64 << 20
#: Bytes of such a block on a card.
DEVICE_BLOCK = 1 << 30
#: Eigenvalues up to this many rounding errors are left out.
ROUNDING = 10.0


@dataclass(frozen=True)
class Approximation:
    """Quality of an approximation."""

    landmarks: int
    rank: int  #: Features: eigenvalues of the landmarks' kernel matrix that are used
    captured: float  #: sum_i k~(i, i) / sum_i k(i, i) over the training documents, 1 if nothing is lost
    #: Sum of the negative eigenvalues relative to the sum of all absolute values; 0 if they are rounding.
    negative: float

    @property
    def description(self) -> str:
        """Summary for users."""
        text = f"{self.landmarks:,} landmarks (rank {self.rank:,}) capture {self.captured:.1%} of the trace"
        if self.negative:
            text += f"; the kernel has negative eigenvalues ({self.negative:.1%} of all), which are left out"
        return text


@dataclass(frozen=True)
class Landmarks:
    """The map from documents to features, on a device."""

    index: Ints  #: shape (m,): Ascending indices among the training documents
    rows: KernelRows  #: With the landmarks as columns
    projection: Array  #: shape (m, r), on the device of the rows: V diag(lambda)^(-1/2)
    negative: float  #: As in `Approximation`


class NystroemStructure(Structure):
    """Structure of the approximated kernel."""

    @property
    def views(self) -> tuple[View, ...]:
        return self.kernel.kernel.structure.views

    def read(self, documents: Any) -> Any:
        return self.kernel.kernel.structure.read(documents)

    @property
    def near_duplicate_kernel(self) -> Any:
        nystroem = self.kernel
        inner = nystroem.kernel.structure.near_duplicate_kernel
        if inner is nystroem.kernel:
            return nystroem
        return inner and Nystroem(inner, nystroem.landmarks, nystroem.seed)

    @property
    def approximation(self) -> Approximation | None:
        return None if self.kernel._last is None else self.kernel._last[2]

    def condense(self, index: Ints, coef: Floats) -> tuple[Kernel, Ints, Floats]:
        landmarks, features, _ = self.kernel._last
        all_coef = np.zeros((len(features.x), coef.shape[0]))
        all_coef[index] = as_dense(coef).T
        with devices.use(landmarks.rows.device):
            weights = _products(landmarks.projection, features.x.transposed_dot(all_coef))
            self.kernel._last = None
            return self.kernel.kernel, landmarks.index, devices.to_host(weights).T

    def as_dict(self) -> Json:
        return {**super().as_dict(), "kernel": self.kernel.kernel.structure.as_dict()}


class NystroemCost(Cost):
    """Cost of rows by landmarks."""

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        nystroem = self.kernel
        share = min(1.0, nystroem.landmarks / max(1, len(column_lengths)))
        return nystroem.kernel.cost.of_rows(row_lengths, column_lengths) * share

    @property
    def quadratic(self) -> bool:
        return bool(self.kernel.kernel.cost.quadratic)

    def require_memory(self, n: int, allowed: int) -> None:
        landmarks = int(self.kernel.landmarks)
        needed = 4 * n * min(n, landmarks)
        if needed > allowed:
            raise InputError(
                f"the features of {n:,} documents by {landmarks:,} landmarks take {needed:,} bytes "
                f"and {allowed:,} are allowed; take fewer landmarks or raise memory (--memory)"
            )


class Nystroem(Kernel):
    """Approximation k~ of a kernel by landmarks drawn from the training documents.

    Parameters
    ----------
    kernel : Kernel
        The kernel to approximate.
    landmarks : int
        Number of landmarks; all documents, if there are fewer.
    seed : int
        Seed of the draw.
    """

    name: ClassVar[str] = "nystroem"
    cost = Ability(NystroemCost)
    #: The last features, for `NystroemStructure.condense`.
    _last: tuple[Landmarks, FeatureRows, Approximation] | None = None

    def __init__(self, kernel: Kernel, landmarks: int, seed: int = 0) -> None:
        self.kernel = kernel
        self.landmarks = landmarks
        self.seed = seed

    @property
    def structure(self) -> NystroemStructure:
        return NystroemStructure(self, self.kernel.structure.view)

    @property
    def _learns(self) -> bool:
        return True

    @property
    def _min_length(self) -> int:
        return int(self.kernel.structure.min_length)

    @property
    def _comparable(self) -> bool:
        return bool(self.kernel.structure.comparable)

    def check(self) -> None:
        self.kernel.check()

    def fit(self, documents: Documents, device: Device | None = None) -> Nystroem:
        """Check and fit the kernel, and draw landmarks from the documents."""
        self.kernel.fit(documents)
        count, n = int(self.landmarks), len(documents)
        index = np.arange(n)
        if count < n:
            index = np.sort(np.random.default_rng(self.seed).choice(n, count, replace=False))
        self._index, self._chosen = index, documents.take(index)
        self._last = None
        return self

    def rows(self, documents: Documents, device: Device) -> Any:
        return NystroemRows(self, documents, device)


class NystroemRows:
    """`MatrixRows` of k~: products of features, which are computed on first use."""

    def __init__(self, kernel: Nystroem, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._features: FeatureRows | None = None

    def make_features(self, progress: Progress | None = None) -> FeatureRows:
        """z of the documents."""
        if self._features is None:
            kernel = self.kernel
            with devices.use(self.device):
                landmarks = _decompose(kernel.kernel.rows(kernel._chosen, self.device), kernel._index)
                features, captured = _features(kernel.kernel, landmarks, self.documents, progress)
            rank = features.x.n_features
            approximation = Approximation(len(landmarks.index), rank, captured, landmarks.negative)
            self._features, kernel._last = features, (landmarks, features, approximation)
        return self._features

    @property
    def _z(self) -> Array:
        return self.make_features().x.values

    def diag(self) -> Array:
        return self.make_features().x.squares().astype(np.float32)

    def rows(self, indices: Ints) -> Array:
        with devices.use(self.device):
            return _products(self._z[indices], self._z.T)

    def gram(self, progress: Progress | None = None) -> Array:
        with devices.use(self.device):
            return _products(self._z, self._z.T)


def _products(a: Array, b: Array) -> Array:
    """a @ b, with bits that do not depend on the number of threads of the host."""
    return matmul(a, b) if isinstance(a, np.ndarray) else a @ b


def _decompose(rows: KernelRows, index: Ints) -> Landmarks:
    """The map to features from the rows of landmarks."""
    xp = devices.array_module(rows.device)
    with one_blas_thread():  # the bits of eigenvectors depend on the number of threads
        values, vectors = xp.linalg.eigh(rows.gram().astype(xp.float64))
    on_host = devices.to_host(values)
    noise = ROUNDING * np.sqrt(len(index)) * 2.0**-24 * float(devices.to_host(rows.diag()).max(initial=0.0))
    bound = max(noise, -float(on_host.min(initial=0.0)))
    negative = float(np.abs(on_host[on_host < -noise]).sum() / max(np.abs(on_host).sum(), 1e-300))
    used = np.flatnonzero(on_host > bound)
    if not len(used):
        raise InputError(
            "the kernel values of the landmarks are all 0: no document has a feature; give longer documents"
        )
    first = int(used[0])  # eigenvalues ascend
    return Landmarks(index, rows, vectors[:, first:] / xp.sqrt(values[first:]), negative)


def _features(
    kernel: Kernel, landmarks: Landmarks, documents: Documents, progress: Progress | None
) -> tuple[FeatureRows, float]:
    """z of documents, computed in blocks, and the captured share of the trace."""
    device, n = landmarks.rows.device, len(documents)
    xp = devices.array_module(device)
    z, trace = xp.empty((n, landmarks.projection.shape[1]), xp.float32), 0.0
    step = max(1, (HOST_BLOCK if device.kind == "cpu" else DEVICE_BLOCK) // (8 * len(landmarks.index)))
    blocks = [slice(first, min(first + step, n)) for first in range(0, n, step)]
    for rows, values in _crossed(kernel, landmarks, documents, blocks, progress):
        z[rows] = _products(values.astype(xp.float64), landmarks.projection)
    for rows in blocks:
        block_documents = documents.take(np.arange(rows.start, rows.stop))
        trace += float(kernel.rows(block_documents, device).diag().sum(dtype=xp.float64))
    x: Array = DenseRows(z)
    return FeatureRows(x, xp.zeros(n)), float(x.squares().sum()) / max(trace, 1e-300)


def _crossed(
    kernel: Kernel, landmarks: Landmarks, documents: Documents, blocks: list[slice], progress: Progress | None
) -> Iterator[tuple[slice, Array]]:
    """Kernel values of each block with the landmarks, by workers if that is faster."""
    workers, landmark_documents = current(), landmarks.rows.documents
    work = [float(block.stop - block.start) for block in blocks]
    seconds = kernel.cost.seconds(documents, landmark_documents)
    on_cpu = landmarks.rows.device.kind == "cpu"
    if workers is None or not on_cpu or not workers.pays(seconds):
        for rows, size in zip(blocks, work, strict=True):
            block_documents = documents.take(np.arange(rows.start, rows.stop))
            step = part(progress, rows.start, size, len(documents))
            yield rows, landmarks.rows.cross(block_documents, step)
        return
    # Sent together, so that functions of tokens keep their identity.
    shared = (kernel, landmark_documents, documents)
    for number, values in workers.run(_cross, [shared], blocks, work, progress):
        yield blocks[number], values
    workers.forget(shared)


def _cross(shared: tuple[Kernel, Documents, Documents], rows: slice) -> Array:
    """Kernel values of a block, computed by a worker."""
    kernel, landmarks, documents = shared
    columns = kernel.rows(landmarks, devices.select("cpu"))
    return columns.cross(documents.take(np.arange(rows.start, rows.stop)))
