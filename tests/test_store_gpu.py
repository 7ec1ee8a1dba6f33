"""Grams on disk, read to a GPU."""

import warnings
import weakref
from functools import partial

import numpy as np
import pytest
from contracts import random_texts, to_numpy
from problems import stored_rows
from test_store import EDIT, LABELS, TEXTS, files, small  # noqa: F401 (a fixture)

from textsvm import SVC, Compute, GapWeighted, Spectrum
from textsvm.gram import build, plan
from textsvm.gram import stored as reading
from textsvm.gram.base import needed_bytes
from textsvm.gram.build import build_gram
from textsvm.gram.store import GramRequest
from textsvm.gram.stored import HeldGram
from textsvm.runtime import device as gpu
from textsvm.runtime import memory
from textsvm.runtime.device import cupy, select
from textsvm.text.documents import encode

pytestmark = pytest.mark.gpu
#: cudaDevAttrIntegrated, which no card of its own memory has.
INTEGRATED = 18


def wanted(kernel, where="cuda:0"):
    documents = SVC().settings.source.encode(TEXTS)
    return GramRequest(kernel.fit(documents), documents, {}, select(where))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kernel", [EDIT, GapWeighted(3)])
@pytest.mark.parametrize("staging", [1 << 27, 2000])
def test_rows_go_to_the_card(tmp_path, kernel, staging, monkeypatch):
    monkeypatch.setattr(reading, "_STAGING", staging)  # one piece, or one of eight rows after the other
    rows = stored_rows(tmp_path, wanted(kernel))
    there = wanted(kernel)
    np.testing.assert_allclose(
        rows.gram().get(), kernel.rows(there.examples, there.device).gram().get(), rtol=1e-5, atol=1e-6
    )
    here = stored_rows(tmp_path, wanted(kernel, "cpu"))  # made on a card, read on a CPU
    assert here.made == 0
    np.testing.assert_array_equal(rows.gram().get(), here.gram())
    some = np.array([7, 3, 59, 3])
    np.testing.assert_array_equal(rows.rows(some).get(), here.rows(some))
    np.testing.assert_array_equal(rows.diag().get(), here.diag())


@pytest.mark.usefixtures("small")
def test_a_damaged_panel_gets_its_bits_back(tmp_path):
    stored_rows(tmp_path, wanted(EDIT))
    right = files(tmp_path)
    for path in sorted(tmp_path.glob("*/*.rows"))[2::3]:
        content = bytearray(path.read_bytes())
        content[5] ^= 1
        path.write_bytes(content)
    gram = build_gram(wanted(EDIT), needed_bytes(len(TEXTS), 8), store=tmp_path)
    gram.rows(np.arange(len(TEXTS)))
    assert files(tmp_path) == right


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("memory", ["1GiB", needed_bytes(60, 40)])
def test_machines_are_those_of_the_matrix_in_memory(tmp_path, memory):
    options = {"device": "cuda:0", "tol": 1e-6}
    plain = SVC(EDIT, **options).fit(TEXTS, LABELS)
    for said in ("panels made", "(found)"):
        model = SVC(EDIT, compute=Compute(memory=memory, store=tmp_path / "s"), **options).fit(TEXTS, LABELS)
        assert said in model.gram_description_
        assert model.solutions_[0].objective == pytest.approx(plain.solutions_[0].objective, rel=1e-5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("bus", "said"), [(1e30, "held in main memory"), (1.0, "on demand")])
def test_rows_are_held_in_main_memory_where_that_is_quicker(bus, said, monkeypatch):
    monkeypatch.setattr(plan, "MIN_BYTES", 1)
    monkeypatch.setattr(build, "measured_rate", lambda rows: (1e6, 0.0))
    monkeypatch.setattr(build, "Rates", partial(plan.Rates, bus=bus, allocate=1e30))
    options = {"device": "cuda:0", "tol": 1e-6}
    whole = SVC(EDIT, **options).fit(TEXTS, LABELS)
    model = SVC(EDIT, compute=Compute(memory=needed_bytes(60, 40)), **options).fit(TEXTS, LABELS)
    assert said in model.gram_description_
    assert ": predicted " in model.gram_description_
    assert model.solutions_[0].objective == pytest.approx(whole.solutions_[0].objective, rel=1e-5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("tier", ["device", "host", "disk", "recompute"])
def test_every_tier_has_the_machine(tmp_path, tier):
    options = {"device": "cuda:0", "tol": 1e-6}
    whole = SVC(EDIT, **options).fit(TEXTS, LABELS)
    memory = None if tier == "device" else needed_bytes(60, 40)
    for store in (None, tmp_path / "s"):
        if (tier == "disk") > (store is not None) or (tier == "recompute") > (store is None):
            continue
        model = SVC(EDIT, compute=Compute(memory=memory, tier=tier, store=store), **options).fit(
            TEXTS, LABELS
        )
        assert model.gram_description_.endswith(", as requested")
        assert ("stored in" in model.gram_description_) == (store is not None)
        assert ("held in main memory" in model.gram_description_) == (tier == "host")
        assert model.solutions_[0].objective == pytest.approx(whole.solutions_[0].objective, rel=1e-5)


@pytest.mark.parametrize("tier", ["device", "host", "disk", "recompute"])
def test_the_card_keeps_within_its_memory(tmp_path, tier):
    """What the pool of a card takes at most beside what it takes for the texts themselves."""
    cp, n = cupy(), 6000
    pool, peak = cp.get_default_memory_pool(), [0]
    whole, texts = 4 * n * n, [f"{i} {i * i % 97} {'abcdefg'[i % 7 :]}" for i in range(n)]
    memory = whole + 1 if tier == "device" else whole // 4

    class Hook(cp.cuda.MemoryHook):
        def malloc_postprocess(self, **_):
            peak[0] = max(peak[0], pool.used_bytes())

    SVC(EDIT, device="cuda:0").fit(texts[:100], [0, 1] * 50)  # compiled
    pool.free_all_blocks()
    before = pool.used_bytes()
    store = tmp_path if tier == "disk" else None
    with Hook():
        model = SVC(
            EDIT, device="cuda:0", compute=Compute(memory=memory, tier=tier, store=store), max_iter=2000
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(texts, [i % 2 for i in range(n)])
    assert peak[0] - before > memory / 2
    assert peak[0] - before <= 1.25 * memory + (24 << 20)


@pytest.mark.parametrize("kernel", [GapWeighted(3), Spectrum((1, 3)), EDIT], ids=str)
@pytest.mark.parametrize("locked", [True, False], ids=["page-locked", "pageable"])
@pytest.mark.parametrize("share", [0, 1 << 40], ids=["one stream", "two streams"])
def test_held_rows_have_the_bits_of_the_matrix(kernel, locked, share, device, monkeypatch):
    monkeypatch.setattr(reading, "_STREAM_SHARE", share)
    if not locked:
        monkeypatch.setattr(reading, "_SAME_ADDRESS", INTEGRATED)
    documents = encode([*random_texts(1500), "", "ac", "ac", ""])
    n, kernel = len(documents), kernel.fit(documents)
    with gpu.use(device):
        expected = to_numpy(kernel.rows(documents, device).gram())
        for memory in (1 << 40, 16 * n * 37):  # a panel for each band, and several
            held = reading.held_rows(GramRequest(kernel, documents, {}, device), memory)
            assert held.panels.page_locked == locked
            some = np.random.default_rng(0).permutation(n)
            np.testing.assert_array_equal(to_numpy(held.rows(some)), expected[some])
            np.testing.assert_array_equal(to_numpy(held.diag()), expected.diagonal())
            gram = HeldGram(held, needed_bytes(n, 80))
            np.testing.assert_array_equal(to_numpy(gram.rows(some[:300])), expected[some[:300]])


@pytest.mark.parametrize("n", [1, 2, 31, 33, 1000, 4095, 9001])
def test_rows_are_copied_to_their_slots(n, device):
    panels, rng = reading.HostPanels(n, max(1, n // 3), device), np.random.default_rng(0)
    for number in range(panels.count):
        panels.room(number, panels.matrix)
    panels.matrix[:] = rng.random((n, n))
    rows, slots = rng.integers(0, n, min(n, 50)), rng.permutation(60)[: min(n, 50)]
    expected = np.full((60, n), 7, np.float32)
    expected[slots] = panels.matrix[rows]
    with gpu.use(device):
        values = cupy().full((60, n), 7, np.float32)
        panels.copy_to_card(rows, values, slots)
        panels.copy_to_card(rows[:0], values, slots[:0])
        np.testing.assert_array_equal(values.get(), expected)
    assert panels.page_locked


def test_a_system_that_refuses_to_lock_memory(device):
    documents = encode(random_texts(100))
    request = GramRequest(EDIT.fit(documents), documents, {}, device)
    panels = reading.HostPanels(100, 10, device)
    with gpu.use(device):
        cupy().cuda.runtime.hostRegister(
            panels.matrix[50:].ctypes.data, 20_000, 0
        )  # no memory is locked twice
        rows = reading.PanelRows(panels, request)
        for _ in rows.steps([*range(10)], None):
            pass
        assert not panels.page_locked
        expected = to_numpy(EDIT.rows(documents, device).gram())
        np.testing.assert_array_equal(to_numpy(HeldGram(rows, 1 << 20).rows(np.arange(100))), expected)
        cupy().cuda.runtime.hostUnregister(panels.matrix[50:].ctypes.data)


def test_memory_is_unlocked_after_training(device, monkeypatch):
    """In a thread, for which a question for free memory waits."""
    documents, unlocked, unlock = encode(random_texts(1000)), [], reading._unlock
    monkeypatch.setattr(reading, "_unlock", lambda *given: unlocked.append(unlock(*given)))
    with gpu.use(device):
        rows = reading.held_rows(GramRequest(EDIT.fit(documents), documents, {}, device), 1 << 30)
        matrix, address, n_panels = (
            weakref.ref(rows.panels.matrix),
            rows.panels.matrix.ctypes.data,
            rows.panels.count,
        )
        runtime = cupy().cuda.runtime
        with pytest.raises(runtime.CUDARuntimeError):  # it is locked
            runtime.hostRegister(address, 4096, 0)
        gram = HeldGram(rows, 1 << 22)
        del rows
        gram.release()
        memory.free()
        assert matrix() is None
        assert unlocked == [None] * n_panels
