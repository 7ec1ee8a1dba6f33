"""Arrays and features on disk: the same bits, nothing left behind, one sentence where there is no room."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc

import numpy as np
import pytest

from textsvm import SVC, Compute, InputError, Spectrum, Sum
from textsvm.kernels.inputs import TextForm
from textsvm.kernels.shared.counting import rank
from textsvm.runtime import device as devices
from textsvm.runtime import memory as scratch
from textsvm.sources.texts import TextSource

rng = np.random.default_rng(0)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Every array of a block is large enough for a file, in a folder of its own."""
    monkeypatch.setattr(scratch, "MIN_BYTES", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def texts(n: int) -> tuple[list[str], list[int]]:
    y = [int(k) for k in rng.integers(0, 2, n)]
    letters = "abcdefgh", "cdefghij"
    return ["".join(rng.choice(list(letters[k]), 60)) for k in y], y


def is_mapped(array: np.ndarray) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def test_arrays_lie_in_nameless_files_inside_the_block_only(small):
    with scratch.on_disk(True):
        inside = scratch.empty(1000, np.float64)
        copy = scratch.copied(np.arange(5, dtype=np.uint8), np.int32)
        both = scratch.joined([copy, copy])
    outside = scratch.empty(1000, np.float64)
    assert is_mapped(inside)
    assert is_mapped(both)
    assert not is_mapped(outside)
    assert type(inside) is np.ndarray
    inside[:] = 3
    assert inside.sum() == 3000
    assert both.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert not list(small.iterdir())


def test_no_more_is_reserved_than_there_is_room_for(small):
    with scratch.on_disk(True), pytest.raises(InputError, match=r"cannot be kept in.*TMPDIR.*--memory"):
        scratch.empty(1 << 58, np.int8)
    assert not list(small.iterdir())


@pytest.mark.parametrize("bound", [50, 1 << 40, 1 << 62])
def test_ranks_are_those_of_sorting(bound):
    keys = rng.integers(0, bound, 5000).astype(np.uint64)
    distinct, ranks = rank(keys.copy(), bound)
    expected, places = np.unique(keys, return_inverse=True)
    assert np.array_equal(distinct, expected)
    assert np.array_equal(ranks, places)


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum((1, 5), "log", idf=True),
        Spectrum(3, "intersection"),
        Sum([Spectrum((2, 3)), Spectrum(4, idf=True)]),
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_features_on_disk_give_the_same_bits(small, kernel, classes):
    X, y = texts(120)
    y = [label + (classes == 3 and i % 3 == 0) for i, label in enumerate(y)]
    memory, disk = (
        SVC(kernel, multiclass="ovo", compute=Compute(solver="features", memory=memory), device="cpu").fit(
            X, y
        )
        for memory in ("1GB", 1000)
    )
    assert "on disk" in disk.gram_description_
    assert "on disk" not in memory.gram_description_
    assert np.array_equal(memory.support_, disk.support_)
    assert np.array_equal(memory.decision_function(X), disk.decision_function(X))
    assert not list(small.iterdir())


LIMITED = """
import resource, sys
import numpy as np
from textsvm import SVC, Compute, Spectrum
rng = np.random.default_rng(0)
def texts(n):
    return ["".join(map(chr, row)) for row in rng.integers(97, 123, (n, 300))]
def fit(X, memory):
    compute = Compute(memory, solver="features")
    return SVC(Spectrum((1, 5), idf=True), compute=compute, device="cpu", n_jobs=1).fit(
        X, [i % 2 for i in range(len(X))])
fit(texts(50), "1GB"), fit(texts(1500), 1000)  # compiled, and threads begun
X = texts(6000)
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) << 10
resource.setrlimit(resource.RLIMIT_DATA, (used + (int(sys.argv[1]) << 20),) * 2)
try:
    print(fit(X, sys.argv[2]).gram_description_)
except MemoryError:
    print("out of memory")
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such limit")
def test_a_corpus_is_trained_in_memory_that_does_not_hold_its_features():
    def run(memory: str) -> str:
        given = [sys.executable, "-c", LIMITED, "200", memory]  # MiB of the process's own
        return subprocess.run(given, capture_output=True, text=True, check=False, timeout=120).stdout

    assert "5,371,443 feature values of 6,000 texts (as requested; on disk)" in run("1000")
    assert "values" not in run("4GB")


def test_features_of_several_terms_take_twice_their_size_at_most():
    # Counts, the features of the terms and the joined features are not in memory at the same time; reuse of
    # memory leaves the same bits as `counted_rows`, which keeps the counts for other folds.
    device = devices.select("cpu")
    kernel = 0.5 * Spectrum((1, 5), "log", keep_case=True) + 0.5 * Spectrum((1, 5), "intersection")
    source = TextSource(kernel, TextForm())
    documents = source.encode(["".join(rng.choice(list("ABcdefgh"), 400)) for _ in range(1500)])
    features = source.new_kernel().features
    kept = features.counted_rows(features.count_terms(documents, device), np.arange(1500), device)
    tracemalloc.start()
    rows = features.rows(documents, device)
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.1 * size
    for name in ("indptr", "features", "values"):
        assert np.array_equal(getattr(rows.x, name), getattr(kept.x, name))
    assert np.array_equal(rows.ridge, kept.ridge)


def test_shrink_leaves_arrays_that_are_used_elsewhere():
    arrays = [np.arange(9), np.arange(9), np.arange(20)[2:11]]
    used = arrays[1]
    scratch.shrink(arrays, [4, 4, 4])
    assert [len(array) for array in arrays] == [4, 9, 9]
    assert np.array_equal(used, np.arange(9))


def test_memory_that_a_thread_frees_counts_as_free():
    thread = threading.Thread(target=lambda: time.sleep(0.3), name=scratch.FREEING)
    thread.start()
    scratch.free()
    assert not thread.is_alive()
