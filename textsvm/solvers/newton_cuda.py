"""Products with sparse rows on a GPU for `newton`, and their conjugate gradients (newton.cu).

An iteration is two passes over X (`textsvm.linalg.rows_cuda`), X d of the free rows and X'u of all or of
these, and three passes over the vectors, which are float64. For a single column and many entries, both passes
read a packed copy of the free rows (`textsvm.linalg.packed_cuda`). Numbers per column stay on the card: the
host reads the number of unfinished columns, once per iteration.
"""

from __future__ import annotations

import numpy as np

from textsvm.arrays import Array
from textsvm.linalg.packed_cuda import PackedRows, packed_bytes
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.rows_cuda import GROUPS, SOURCE, CudaLists, marked, padded, slices
from textsvm.runtime import device as gpu
from textsvm.solvers.newton_products import MAX_PRODUCTS, NewtonSystem, Products, constant_of, square

BLOCK, MAX_BLOCKS = 256, 1024
#: Share of free rows up to which their entries by features are copied, and the number of passes by features
#: that this must save: copying takes about three.
MAX_FREE, WORTH = 0.7, 6
#: Entries of free rows from which they are packed: packing takes as long as one or two products without.
PACK = 1 << 23
#: Gradients of newton.cu.
GRADIENTS = gpu.layout(
    "uint64 x r d curved dense sums bent unit partial x_bias r_bias d_bias rest size goal",
    "uint64 weight_bound bias_bound hold open",
    "int64 n rows",
    "float64 constant",
    "int32 blocks",
)


class CudaProducts(Products):
    """Products with sparse rows on a GPU."""

    def __init__(self, rows: FeatureRows, constant: float | None = None) -> None:
        #: Products with the Hessian in the last step, per factor of e by which the residual had to fall.
        self.xp, self.rate = gpu.cupy(), 0.0
        self.x, self.ridge = rows.x, rows.ridge
        self.squares = self.x.squares()
        self.lengths = self.xp.sqrt(self.squares)
        self.constant = constant_of(rows, self.squares) if constant is None else constant

    def take(self, index: Array) -> CudaProducts:
        part = CudaProducts(FeatureRows(self.x.part(index), self.ridge[index]), self.constant)
        part.rate = self.rate
        return part

    def newton_step(self, system: NewtonSystem) -> tuple[Array, Array, int]:
        xp = self.xp
        step, step_bias, count = xp.empty_like(system.gradient), xp.empty_like(system.gradient_bias), 0
        factors = -np.log(float(system.forcing.min()))
        for columns, width in slices(len(step_bias)):
            arrays = (system.curvature, system.gradient, system.gradient_bias, system.hold, system.forcing)
            part = NewtonSystem(*(padded(a[..., columns], width) for a in arrays))
            solver = _Gradients(self, width, part, self.rate * factors)
            count += solver.solve()
            k = columns.stop - columns.start
            step[:, columns], step_bias[columns] = solver.vectors["x"][:, :k], solver.vectors["x_bias"][:k]
        self.rate = count / factors
        return step, step_bias, count


class _Gradients:
    """Conjugate gradients for the columns of a launch."""

    def __init__(self, products: CudaProducts, width: int, system: NewtonSystem, expected: float) -> None:
        cp = gpu.cupy()
        self.x, self.width, self.constant = products.x, width, products.constant
        self.index = cp.flatnonzero(system.curvature.any(axis=1))
        self.curvature = cp.ascontiguousarray(system.curvature[self.index])
        self.packed = self._packed(products)
        self.lists = self.x.columns if self.packed else self._lists(expected)
        self.bent = cp.empty((len(self.index), width))
        self.spread = cp.zeros((len(self.index if self.packed else self.x), width), np.float32)
        r, r_bias = -system.gradient, -system.gradient_bias
        n, blocks = len(r), min(MAX_BLOCKS, -(-len(r) // BLOCK))
        self.blocks, rest = max(1, blocks), square(r, r_bias)
        weight_bound = products.squares @ system.curvature
        bias_bound = self.constant * (products.lengths @ system.curvature)
        self.vectors = {
            "x": cp.zeros_like(r), "r": r, "d": r.copy(), "curved": cp.empty_like(r),
            "dense": r.astype(np.float32), "sums": cp.empty(r.shape, np.int64), "unit": cp.empty(width),
            "partial": cp.empty((2, self.blocks, width)), "x_bias": cp.zeros(width), "r_bias": r_bias,
            "d_bias": r_bias.copy(), "rest": rest, "size": cp.zeros(width), "goal": rest * system.forcing**2,
            "weight_bound": weight_bound, "bias_bound": bias_bound, "hold": system.hold,
            "open": cp.ones(1, np.int32), "bent": self.bent,
        }  # fmt: skip
        self.arguments = gpu.structure(
            GRADIENTS, **self.vectors, n=n, rows=len(self.index), constant=self.constant, blocks=self.blocks
        )

    def _packed(self, products: CudaProducts) -> PackedRows | None:
        """A packed copy of the free rows, if that saves time."""
        if self.width > 1:
            return None
        entries = int(gpu.cupy().diff(self.x.indptr)[self.index].sum())
        if entries < PACK or packed_bytes(self.x, len(self.index), entries) > gpu.free_memory():
            return None
        try:
            return PackedRows(self.x, self.index, float(products.squares.max()) ** 0.5)
        except MemoryError:  # the free memory is in pieces
            return None

    def _lists(self, expected: float) -> CudaLists:
        """The entries by features, of free rows alone if that saves time in this many products."""
        n, free = len(self.x), len(self.index)
        if self.x.columns.x is not None or free > MAX_FREE * n or expected * (n - free) < WORTH * n:
            return self.x.columns
        return self.x.columns.kept(marked(n, self.index), renumber=False)

    def solve(self) -> int:
        """Iterate; the number of products with the Hessian."""
        if not bool((self.vectors["rest"] > self.vectors["goal"]).any()):
            return 0
        cp = gpu.cupy()
        copies = np.frombuffer(cp.cuda.alloc_pinned_memory(8), np.int32, 2)
        copied = cp.cuda.Event(), cp.cuda.Event()
        last = -1
        for products in range(MAX_PRODUCTS):
            # The first direction is a step of size 0, for the unit of sums.
            self._launch("direction", "unit_of_sums")
            self._bend()
            self._launch("curve", "size_of_step")
            self._launch("step", "share_of_direction")
            self.vectors["open"].get(out=copies[products % 2 :][:1], blocking=False)
            copied[products % 2].record()
            # Packed products are short: the next iteration is launched before the flag is read. If the last
            # one has converged, it changes neither x nor r.
            last = products - bool(self.packed)
            if last >= 0:
                copied[last % 2].synchronize()
                if not copies[last % 2]:
                    break
        copied[products % 2].synchronize()  # only then may the page-locked memory be freed
        return last + 1

    def _bend(self) -> None:
        """D(Xd + constant d_bias) and the sums of X' times it."""
        vectors = self.vectors
        shift = self.constant * vectors["d_bias"]
        if self.packed:
            arrays = shift, self.curvature, self.bent, self.spread, vectors["open"]
            self.packed.dot(vectors["dense"], *arrays)
            self.packed.transposed_dot(self.spread, vectors["unit"], vectors["sums"], vectors["open"])
        else:
            where = self.index, self.curvature
            self.x.launch(self.width, vectors["dense"], shift, *where, self.bent, self.spread)
            self.lists.sums(self.spread, vectors["unit"], vectors["sums"])

    def _launch(self, name: str, then: str) -> None:
        """Launch a kernel over the vectors, and then a kernel that reduces its sums to numbers per column."""
        defines = (("COLUMNS", self.width), ("GROUP", GROUPS[0]))
        gpu.function(SOURCE, name, defines)((self.blocks,), (BLOCK,), (self.arguments,))
        gpu.function(SOURCE, then, defines)((1,), (32,), (self.arguments,))
