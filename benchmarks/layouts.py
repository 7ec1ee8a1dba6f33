"""Kernel rows by data layout, and argmin and argmax, on a GPU.

Catanzaro's table (2011): Gaussian values of all points with two of them, from float32 numbers that are read
once, by how these lie in memory. Per cent are of the bytes a second of a copy on the card, bytes read and
written. Below it, rows of `Gaussian()`, which keeps its vectors in digits: per cent are of the bytes of its
digits, and float32 per cent of the bytes that a float32 row would have read in that time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import BenchmarkReport, benchmark, option
from textsvm.kernels.vectors.kernels import Gaussian
from textsvm.linalg.vectors import Vectors
from textsvm.runtime import device as gpu

SOURCE = "layouts.cu"
#: What may be launched: (source, defines).
DEFINE_SETS: list[tuple[str, gpu.Defines]] = [(SOURCE, ())]
#: What layouts.cu has in Points.
POINTS = np.dtype(
    [(name, np.uint64) for name in ("data", "high_values", "low_values")]
    + [("scale", np.float32)]
    + [(name, np.int32) for name in ("n", "d", "high", "low")],
    align=True,
)
LAYOUTS = ("row_major", "column_major", "vectorised", "shared_sources", "warp_rows")
FEATURES = (100, 200, 400, 784, 1000, 2000)
VALUES = 10_000_000
HEADER = ("what", "d", "n", "ms", "TB/s", "% of a copy", "float32 %")


def seconds(launches: Sequence[Callable[[], Any]], repeats: int = 5) -> float:
    """Time of one launch on the card: of all of them in a row, the median."""
    cp = gpu.cupy()
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    times = []
    for _ in range(repeats + 1):
        begin.record()
        for launch in launches:
            launch()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(begin, end) / 1e3 / len(launches))
    return float(np.median(times[1:]))


def copy_rate() -> float:
    """Bytes read and written a second by a copy of 2 GiB."""
    cp = gpu.cupy()
    source = cp.ones(1 << 28, np.float64)
    target = cp.empty_like(source)
    return 2 * source.nbytes / seconds([partial(cp.copyto, target, source)] * 3)


def in_layout(x: Any, name: str) -> Any:
    """Points (n, d) as a kernel of layouts.cu reads them."""
    cp = gpu.cupy()
    if name in ("row_major", "warp_rows"):
        return x
    if name == "column_major":
        return cp.ascontiguousarray(x.T)
    return cp.ascontiguousarray(x.reshape(len(x), -1, 4).transpose(1, 0, 2))


def launch_of(name: str, x: Any, out: Any, gamma: float) -> Callable[[], None]:
    """A launch that fills out (2, n) with the values of points 1 and n - 1."""
    n, d = x.shape
    data = in_layout(x, name)
    points = gpu.structure(
        POINTS, data=data, high_values=out[0], low_values=out[1], scale=-gamma / np.log(2),
        n=n, d=d, high=1, low=n - 1,
    )  # fmt: skip
    kernel = gpu.function(SOURCE, name)
    shared = 8 * d if name in ("shared_sources", "warp_rows") else 0
    blocks = -(-n // 256) if name != "warp_rows" else min(-(-n // 8), 1056)

    def launch() -> None:
        assert data is not None  # keeps it
        kernel((blocks,), (256,), (points,), shared_mem=shared)

    return launch


def expected_of(x: Any, gamma: float) -> Any:
    """Those values, in float64."""
    cp = gpu.cupy()
    differences = x[None].astype(np.float64) - x[[1, len(x) - 1]][:, None]
    return cp.exp(-gamma * cp.einsum("ijk,ijk->ij", differences, differences))


def layouts(d: int, n: int, rate: float) -> list[dict[str, Any]]:
    """Catanzaro's rows of the table, and ours, for n points of d numbers."""
    cp = gpu.cupy()
    x = cp.random.default_rng(d).standard_normal((n, d), dtype=np.float32)
    gamma, rows = 0.5 / d, []
    few = cp.ascontiguousarray(x[:999])
    for name in LAYOUTS:
        out = cp.full((2, len(few)), np.nan, np.float32)
        launch_of(name, few, out, gamma)()
        cp.testing.assert_allclose(out, expected_of(few, gamma), rtol=1e-5)
        out = cp.empty((2, n), np.float32)
        time = seconds([launch_of(name, x, out, gamma)])
        rows.append(_row(name.replace("_", " "), d, n, time, 4 * n * (d + 2), rate))
    kernel = Gaussian(gamma)
    card = kernel.rows(Vectors(x), gpu.select("cuda"))
    for m in (1, 2, 8):
        which = cp.arange(m)
        values = card.rows(which)
        close = cp.exp(-gamma * ((x[:999].astype(np.float64) - x[:1]) ** 2).sum(axis=1))
        cp.testing.assert_allclose(values[0, :999], close, atol=1e-6)
        time = seconds([partial(card.rows, which)])
        read = card.columns.digits.digits.nbytes if hasattr(card.columns, "digits") else 8 * n * d
        row = _row(f"Gaussian(), rows at once: {m}", d, n, time, read + 4 * m * n, rate)
        rows.append({**row, "float32 %": 100 * 4 * n * (d + m) / time / rate})
    return rows


def extremes(dtype: Any, n: int, rate: float) -> list[dict[str, Any]]:
    """Argmin and argmax of n values; the values take turns, so that no cache holds them."""
    cp = gpu.cupy()
    draw = cp.random.default_rng(0)
    turns = [draw.standard_normal(n).astype(dtype) for _ in range(8)]
    turns[0][[7, n // 2, n - 1]] = 9  # ties go to the first
    turns[0][[5, n // 3]] = -9
    kernel = gpu.function(SOURCE, "extreme_float" if dtype == np.float32 else "extreme_double")
    blocks = 4 * int(cp.cuda.Device().attributes["MultiProcessorCount"])
    found = cp.zeros((blocks + 1, 2), dtype)  # a value and an int each
    done, rows = cp.zeros(1, np.int32), []
    for name, sign, other in (("argmin", 1, cp.argmin), ("argmax", -1, cp.argmax)):
        blocks_of = partial(kernel, (blocks,), (512,))
        launches = [
            partial(blocks_of, (np.int64(n), values, np.int32(sign), found, done)) for values in turns
        ]
        for values, launch in zip(turns, launches, strict=True):
            launch()
            assert int(found[0, 1:].view(np.int32)[0]) == int(other(values))
            assert float(found[0, 0]) == float(values[int(other(values))])
        size = n * np.dtype(dtype).itemsize
        rows.append(_row(f"{name}, {np.dtype(dtype)}", 1, n, seconds(launches * 8), size, rate))
        time = seconds([partial(other, values) for values in turns])
        rows.append(_row(f"CuPy's {name}, {np.dtype(dtype)}", 1, n, time, size, rate))
    return rows


def _row(what: str, d: int, n: int, time: float, size: int, rate: float) -> dict[str, Any]:
    share = 100 * size / time / rate
    return dict(zip(HEADER, (what, d, n, 1e3 * time, size / time / 1e12, share, ""), strict=True))


@benchmark(
    "layouts",
    "Layouts of dense vectors on a GPU",
    "reports/gpu/layouts",
    option("--gib", type=float, default=2.0, help="GiB of float32 vectors"),
    device="gpu",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> list[dict[str, Any]]:
    """Measure bytes per second of each layout."""
    with gpu.use(gpu.select("cuda")):
        rate = copy_rate()
        rows = [dict(zip(HEADER, ("copy", "", "", "", rate / 1e12, 100.0, ""), strict=True))]
        for d in FEATURES:
            rows += layouts(d, int(options.gib * 2**28) // d, rate)
        for dtype in (np.float32, np.float64):
            for n in (VALUES, 10 * VALUES):
                rows += extremes(dtype, n, rate)
    return rows
