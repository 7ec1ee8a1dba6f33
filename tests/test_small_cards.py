"""Small cards, without one: shared memory that launches ask for, and memory that is free in pieces."""

from types import SimpleNamespace

import numpy as np
import pytest
from refusals import raising

from textsvm.kernels.gap import cuda as gap_cuda
from textsvm.kernels.gap.recurrence import Recurrence
from textsvm.kernels.mers import gapped_cuda
from textsvm.linalg import products_cuda, vectors_cuda
from textsvm.linalg.vectors_cuda import EIGHT, FACTOR, ONE, SIX, TILES, tile_defines, tile_shape
from textsvm.runtime import device as gpu
from textsvm.solvers import crammer_singer_cuda, newton_cuda

#: Maximum shared memory of a block (cudaDevAttrMaxSharedMemoryPerBlockOptin), by architecture.
ROOM = {75: 64 << 10, 86: 99 << 10, 80: 163 << 10, 90: 227 << 10}


@pytest.fixture(params=ROOM, ids="sm_{}".format)
def room(request, monkeypatch):
    """The shared memory of a block on a card of this architecture, which is the current one."""
    room = ROOM[request.param]
    attributes = {16: 40, 97: room, 87: 2 if request.param in (80, 90) else 32}
    runtime = SimpleNamespace(getDevice=lambda: 0, deviceGetAttribute=lambda what, index: attributes[what])
    monkeypatch.setattr(gpu, "cupy", lambda: SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    return room


class Kernel:
    """Kernel that knows the shared memory it was allowed and launched with."""

    max_dynamic_shared_size_bytes = launched = 0

    def __call__(self, blocks, threads, arguments, shared_mem=0):
        self.launched = shared_mem


@pytest.mark.parametrize("way", FACTOR)
def test_tiles_of_vectors_fit(way, room):
    high, stages, size = tile_shape(way, gpu.shared_memory())
    digits = 1 if way == ONE else 3
    assert size <= room
    assert size >= stages * (high + 128) * digits * 64  # STAGES * STAGE of vector_tiles.cu
    assert size >= 4 * max(high * (128 + 4), 128 * (high + 4))  # the finished tile and its mirror image
    assert high in (64, 128)
    assert 1 <= stages <= 4


def test_large_cards_have_the_fastest_tiles_and_small_ones_what_fits():
    assert [tile_shape(way, ROOM[90])[:2] for way in (ONE, SIX, EIGHT)] == [(128, 4), (128, 3), (64, 3)]
    assert [tile_shape(way, ROOM[86])[:2] for way in (ONE, SIX, EIGHT)] == [(128, 4), (128, 2), (64, 2)]
    assert [tile_shape(way, ROOM[75])[:2] for way in (ONE, SIX, EIGHT)] == [(64, 4), (64, 1), (64, 1)]


@pytest.mark.parametrize("way", FACTOR)
def test_tiles_for_every_card_are_compiled_by_the_test_of_kernels(way, room):
    assert (TILES, tile_defines(way, "gaussian", room)) in vectors_cuda.DEFINE_SETS


@pytest.mark.parametrize("slabs", [1, 40, 85, 100, 128, 129, 1000])
def test_a_few_rows_of_vectors_take_tiles_where_they_do_not_fit(slabs, room, set_values):
    kernel, tiled = Kernel(), []
    set_values(gpu, function=lambda *args: kernel, multiprocessors=lambda: 16)
    rows = SimpleNamespace(digits=np.empty((8, 3, 32 * slabs), np.int8))
    columns = SimpleNamespace(slabs=slabs, grid=SimpleNamespace(way=SIX))
    matrix = SimpleNamespace(
        n=100, finish=SimpleNamespace(name="gaussian"), _work=lambda *args: None,
        _tiles=lambda *args, half: tiled.append(args),
    )  # fmt: skip
    vectors_cuda.DigitColumns._fill(matrix, np.empty((8, 100), np.float32), rows, None, columns)
    assert bool(tiled) != bool(kernel.launched)
    assert bool(tiled) == (8 * 3 * 32 * slabs > min(room, 96 << 10))
    assert kernel.launched <= kernel.max_dynamic_shared_size_bytes <= room


@pytest.mark.parametrize("k", [2, 3, 26, 32, 33, 100, 128, 129, 512])
def test_working_sets_of_several_classes_fit(k, room, monkeypatch):
    kernel = Kernel()
    module = SimpleNamespace(get_function=lambda name: kernel if name == "solve_set" else None)
    monkeypatch.setattr(gpu, "load", lambda *args: module)
    slots = object.__new__(crammer_singer_cuda.MulticlassSlots)
    with pytest.raises(AttributeError):  # after its kernels are loaded, as there is no Gram
        slots.__init__(None, (k, 1000), 1, None)
    assert slots.on_chip + crammer_singer_cuda._STATIC <= room
    assert kernel.max_dynamic_shared_size_bytes == slots.on_chip
    assert slots.on_chip or k > 32


def test_sums_of_products_fit(room):
    assert products_cuda._shared() <= room
    assert gpu.fast_float64() == (room >= ROOM[80])


class Texts:
    """Five documents of 100 symbols, as the GPU's twin of gap-weighted kernels sees them."""

    longest, lengths, masks, wide = 100, np.full(5, 100), True, False

    def __len__(self):
        return 5

    def layout(self, columns):
        return None


def test_cards_with_few_float64_units_add_up_rows_of_gap_weighted_kernels_in_two_floats(room, monkeypatch):
    monkeypatch.setattr(gap_cuda.Sweep, "_make_tasks", lambda self: (None, 0))
    for mode in (gap_cuda.MATRIX, gap_cuda.DIAGONAL):  # the diagonal is in float64
        variant = gap_cuda.Sweep(Recurrence.of(5, 0.5), Texts(), Texts(), mode).variant
        two_floats = mode == gap_cuda.MATRIX and room < ROOM[80]
        assert (("TWO_FLOATS", 1) in variant.defines) == two_floats
        assert variant.double == (mode == gap_cuda.DIAGONAL)


@pytest.mark.parametrize("n_symbols", [4, 5, 20])
def test_dense_rows_of_gapped_kmers_fit(n_symbols, room):
    texts = SimpleNamespace(n_symbols=n_symbols, windows=1000)
    for k in range(1, 10):
        masks = [SimpleNamespace(positions=tuple(range(k)))]
        dense = object.__new__(gapped_cuda.DenseMasks)
        dense.texts = texts
        if gapped_cuda.fits(texts, masks):
            assert 4 * dense._padded(masks) + 1024 <= room


def test_products_stay_unpacked_if_the_free_memory_is_in_pieces(set_values):
    set_values(gpu, cupy=lambda: np, free_memory=lambda: 1 << 20)
    full = raising(MemoryError)
    set_values(newton_cuda, PACK=1, packed_bytes=lambda *arguments: 1000, PackedRows=full)
    solver = object.__new__(newton_cuda._Gradients)
    solver.width, solver.index, solver.x = 1, np.arange(2), SimpleNamespace(indptr=np.array([0, 3, 5]))
    assert solver._packed(SimpleNamespace(squares=np.ones(2))) is None
