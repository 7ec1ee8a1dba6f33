"""Grams on disk: the same rows, computed once, whatever happens to the process, the files or the disk."""

import fcntl
import gc
import inspect
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from command import fails, report
from loading import load
from problems import ArrayRows, stored_rows
from refusals import refuses
from test_gram import MATRIX, GramContract, N

import textsvm
from textsvm import (
    SVC,
    SVR,
    Compute,
    EditDistance,
    GapWeighted,
    MultilabelSVC,
    OneClassSVM,
    Spectrum,
    Sum,
    cross_validate,
    tune,
)
from textsvm.errors import InputError
from textsvm.gram import panels as panel_files
from textsvm.gram import store as stores
from textsvm.gram import stored as stored_grams
from textsvm.gram.base import needed_bytes
from textsvm.gram.build import build_gram
from textsvm.gram.panels import Panels
from textsvm.gram.plan import BANDS
from textsvm.gram.store import GramRequest, Store, digest
from textsvm.kernels.base import Ability, Kernel, Structure
from textsvm.kernels.contract import Cost
from textsvm.model.settings import Settings
from textsvm.readers import sample
from textsvm.runtime.device import select
from textsvm.text.documents import View

TEXTS = [f"{word} {number % 7} {word[::-1]}" for number in range(20) for word in ("apple", "stone", "brick")]
LABELS = [number // 3 % 2 for number in range(60)]
CPU = select("cpu")
EDIT = EditDistance(gamma=0.1)


class Numbered:
    """Examples that are numbers of rows of MATRIX."""

    def __init__(self, index):
        self.index = np.asarray(index)

    def __len__(self):
        return len(self.index)

    def take(self, indices):
        return Numbered(self.index[indices])

    def of(self, view):
        return self.index


class TableStructure(Structure):
    def read(self, documents):
        return documents


class NoCost(Cost):
    def seconds(self, rows, columns):
        return 0.0


class Table(Kernel):
    """Values that are looked up in MATRIX, and counted."""

    name = "table"

    def __init__(self, which=0):
        self.which = which
        self.values = 0

    cost = Ability(NoCost)
    structure = Ability(lambda kernel: TableStructure(kernel, View()))

    def rows(self, documents, device):
        kernel = self

        class Rows(ArrayRows):
            def rows(self, indices):
                kernel.values += len(indices) * self.n
                return super().rows(indices)

        return Rows(MATRIX[np.ix_(documents.index, documents.index)])


@pytest.fixture
def small(monkeypatch, set_values):
    """Panels of 4 rows, read 3 rows at a time."""
    set_values(stores, PANEL_BYTES=0, ROWS_OF_LARGE=4, MIN_ROWS=1)
    monkeypatch.setattr(panel_files, "_PIECE", 4 * N * 3)


def wanted(kernel=None, index=range(N), **form):
    return GramRequest(kernel or Table(), Numbered(list(index)), form, CPU)


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*/*.rows"))}


def bare(folder):
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.usefixtures("small")
class TestWhole(GramContract):
    """All rows read at once."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def gram(self):
        return build_gram(wanted(), "1GiB", store=self.folder)


@pytest.mark.usefixtures("small")
class TestOnDemand(TestWhole):
    """Rows read when a solver wants them."""

    def gram(self):
        return build_gram(wanted(), needed_bytes(N, 6), store=self.folder)


def test_half_of_the_values_are_computed(tmp_path, small):
    kernel = Table()
    stored_rows(tmp_path, wanted(kernel))
    assert N * N / 2 < kernel.values <= N * N * (0.5 + 1.5 / BANDS)
    again = Table()
    np.testing.assert_array_equal(stored_rows(tmp_path, wanted(again)).gram(), MATRIX)
    assert again.values == 0


def test_a_matrix_is_symmetric_though_its_kernel_rounds(tmp_path, small):
    class Rounding(Table):
        def rows(self, documents, device):
            made = super().rows(documents, device)
            rounding = 1e-6 * np.random.default_rng(len(documents)).random(made.matrix.shape)
            made.matrix = (made.matrix * (1 + rounding)).astype(np.float32)
            made.diag = lambda: MATRIX[documents.index, documents.index]
            return made

    matrix = stored_rows(tmp_path, wanted(Rounding())).gram()
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(matrix.diagonal(), MATRIX.diagonal())


class StoppingStructure(TableStructure):
    def as_dict(self):
        return Table(self.kernel.which).structure.as_dict()


class Stopping(Table):
    """A kernel that is interrupted after some panels."""

    structure = Ability(lambda kernel: StoppingStructure(kernel, View()))

    def __init__(self, which=0, after=3):
        super().__init__(which)
        self.after = after

    def rows(self, documents, device):
        kernel, made = self, super().rows(documents, device)
        plain = made.rows

        def rows(indices):
            kernel.after -= 1
            if kernel.after < 0:
                raise KeyboardInterrupt
            return plain(indices)

        made.rows = rows
        return made


def test_what_was_stopped_goes_on(tmp_path, small):
    undisturbed = tmp_path / "one"
    stored_rows(undisturbed, wanted())
    folder, kept = tmp_path / "other", {}
    for runs in range(1, 20):
        try:
            rows = stored_rows(folder, wanted(Stopping()))
            break
        except KeyboardInterrupt:
            found = files(folder)
            assert len(found) == 3 * runs
            assert found.items() >= kept.items()
            kept = found
    assert rows.made == 15 - 3 * (runs - 1)
    assert files(folder) == files(undisturbed)


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)


DAMAGE = {
    "a value": lambda one, other: flip(one, 4 * N + 7),
    "two values exchanged": lambda one, other: one.write_bytes(
        one.read_bytes()[4:8] + one.read_bytes()[:4] + one.read_bytes()[8:]
    ),
    "the last value": lambda one, other: flip(one, 16 * N - 1),
    "a checksum": lambda one, other: flip(one, 16 * N + 3),
    "a diagonal value": lambda one, other: flip(one, 16 * N + 9),
    "the end": lambda one, other: flip(one, -1),
    "cut": lambda one, other: one.write_bytes(one.read_bytes()[:-20]),
    "zeros": lambda one, other: one.write_bytes(bytes(one.stat().st_size)),
    "empty": lambda one, other: one.write_bytes(b""),
    "gone": lambda one, other: one.unlink(),
    "another's": lambda one, other: shutil.copy(other, one),
    "rows in another order": lambda one, other: one.write_bytes(
        one.read_bytes()[4 * N : 8 * N] + one.read_bytes()[: 4 * N] + one.read_bytes()[8 * N :]
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("number", [7, 14])
def test_a_damaged_panel_is_found_and_made_again(tmp_path, small, damage, number):
    stored_rows(tmp_path, wanted())
    right = files(tmp_path)
    paths = sorted(tmp_path.glob("*/*.rows"))
    DAMAGE[damage](paths[number], paths[number - 1])
    assert files(tmp_path) != right
    rows = stored_rows(tmp_path, wanted())
    some = np.array([59, 4 * number + 1, 2, 4 * number])
    np.testing.assert_array_equal(rows.rows(some), MATRIX[some])
    np.testing.assert_array_equal(rows.diag(), MATRIX.diagonal())
    np.testing.assert_array_equal(rows.gram(), MATRIX)
    assert files(tmp_path) == right


def test_damaged_panels_of_a_matrix_that_is_computed_with_another(tmp_path, monkeypatch):
    # Damaged panels are computed first, so that the two matrices are not at the same panel.
    monkeypatch.setattr(stores, "MIN_ROWS", 1)
    monkeypatch.setattr(stored_grams, "panel_rows", lambda request, memory: 2)
    draw, requests = np.random.default_rng(0), []
    texts = ["".join(draw.choice(list("abcdef"), 12)) for _ in range(64)]
    for decay in (0.3, 0.6):
        source = Settings(GapWeighted(p=2, decay=decay)).source
        documents = source.encode(source.validate(texts), None, None)
        kernel = source.kernel_for(documents)
        kernel.fit(kernel.structure.read(documents), select("cpu"))
        requests.append(GramRequest(kernel, documents, {"normalise": "unicode"}, select("cpu")))
    found = []
    for number_damaged in (0, 2, 3):
        folder = tmp_path / str(number_damaged)
        stored_grams.complete_together(str(folder), requests, 1 << 30, None)
        opened = [Store(str(folder)).find(request, 1 << 30, 2) for request in requests]
        for one in opened:
            for number in range(20, 32):
                os.remove(one.panels.path(number))
        for number in range(3, 3 + number_damaged):
            with open(opened[0].panels.path(number), "r+b") as file:
                file.seek(8)
                file.write(b"\1\2\3\4")
        stored_grams.complete_together(str(folder), requests, 1 << 30, None)
        found.append([
            stored_grams.StoredRows(Store(str(folder)).find(request, 1 << 30, 2), request).gram()
            for request in requests
        ])  # fmt: skip
    for grams in found[1:]:
        np.testing.assert_array_equal(grams, found[0])


def test_panels_that_are_damaged_while_they_are_in_use(tmp_path, small):
    gram = build_gram(wanted(), needed_bytes(N, 4), store=tmp_path)
    gram = build_gram(wanted(), needed_bytes(N, 4), store=tmp_path)
    right = files(tmp_path)
    for path in tmp_path.glob("*/*.rows"):
        flip(path, 5)
    for row in range(N):
        np.testing.assert_array_equal(gram.rows(np.array([row])), MATRIX[[row]])
    assert files(tmp_path) == right


def test_nothing_is_made_of_damaged_panels(tmp_path, small):
    stored_rows(tmp_path, wanted())
    right = files(tmp_path)
    paths = sorted(tmp_path.glob("*/*.rows"))
    flip(paths[3], 4 * 50)  # a value that the panel of row 50 takes over
    paths[50 // 4].unlink()
    assert stored_rows(tmp_path, wanted()).made == 2
    assert files(tmp_path) == right


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel", [EDIT, GapWeighted(2), Spectrum((1, 2), "log", idf=True), Sum([EDIT, Spectrum(2)])]
)
@pytest.mark.parametrize("memory", [None, 4096])
def test_machines_from_a_store(tmp_path, small, kernel, memory, monkeypatch):
    options = {"device": "cpu", "tol": 1e-6}
    plain = SVC(kernel, compute=Compute(memory=memory, solver="gram"), **options).fit(TEXTS, LABELS)
    first = SVC(kernel, compute=Compute(memory=memory, store=tmp_path / "s"), **options).fit(TEXTS, LABELS)
    refuse_rows(monkeypatch, kernel)
    second = SVC(kernel, compute=Compute(memory=memory, store=tmp_path / "s"), **options).fit(TEXTS, LABELS)
    assert "15 of 15 panels made" in first.gram_description_
    assert "(found)" in second.gram_description_
    assert ("on demand" in second.gram_description_) == (memory is not None)
    assert first.solutions_[0].objective == pytest.approx(plain.solutions_[0].objective, rel=1e-5)
    for name in ("dual_coef_", "intercept_", "support_"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def refuse_rows(monkeypatch, kernel):
    monkeypatch.setattr(type(kernel), "rows", Mock(side_effect=AssertionError("kernel values are computed")))


def test_every_machine_and_search_finds_what_one_has_made(tmp_path, monkeypatch):
    options = {"device": "cpu", "compute": Compute(store=tmp_path), "max_length": 9}
    grid = {"kernel": [EDIT, EditDistance(gamma=0.2)], "C": [1, 10]}
    without = tune(SVC(EDIT, device="cpu", max_length=9), TEXTS, LABELS, grid, cv=3)
    tuned = tune(SVC(EDIT, **options), TEXTS, LABELS, grid, cv=3, minutes=10)
    assert [row["mean"] for row in tuned.table] == [row["mean"] for row in without.table]
    assert len(list(tmp_path.glob("*/gram.json"))) == 2
    refuse_rows(monkeypatch, EDIT)
    tune(SVC(EDIT, **options), TEXTS, LABELS, grid, cv=3)
    assert "(found)" in cross_validate(SVC(EDIT, **options), TEXTS, LABELS, cv=3).gram
    assert "(found)" in SVR(EDIT, **options).fit(TEXTS, np.array(LABELS) + 0.5).gram_description_
    assert "(found)" in OneClassSVM(EDIT, **options).fit(TEXTS).gram_description_
    several = [("even", "odd")[label : label + 1] or ("odd",) for label in LABELS]
    assert "(found)" in MultilabelSVC(EDIT, cv=2, **options).fit(TEXTS, several).gram_description_


def test_kernels_that_learn_from_a_part_are_not_kept(tmp_path):
    kernel = Spectrum((1, 2), "log", idf=True)
    judged = cross_validate(
        SVC(kernel, device="cpu", compute=Compute(store=tmp_path / "s")), TEXTS, LABELS, cv=3
    )
    same = cross_validate(SVC(kernel, device="cpu"), TEXTS, LABELS, cv=3)
    np.testing.assert_array_equal(judged.decision, same.decision)
    assert not (tmp_path / "s").exists()
    SVC(kernel, device="cpu", compute=Compute(store=tmp_path / "s")).fit(TEXTS, LABELS)
    SVC(kernel, device="cpu", compute=Compute(store=tmp_path / "s")).fit(TEXTS, LABELS[::-1])
    assert len(list((tmp_path / "s").glob("spectrum-*"))) == 1
    kernel, other = Spectrum(2, odds=True), np.arange(len(TEXTS)) % 3 > 0
    for y in (LABELS, other):
        stored = SVC(kernel, device="cpu", compute=Compute(store=tmp_path / "s")).fit(TEXTS, y)
        same = SVC(kernel, device="cpu", compute=Compute(solver="gram")).fit(TEXTS, y)
        assert np.array_equal(stored.decision_function(TEXTS), same.decision_function(TEXTS))


def test_words_and_characters_in_one_store(tmp_path):
    for kernel in (Spectrum(2), Spectrum(1, tokens="words"), Sum([Spectrum(2), Spectrum(1, tokens="words")])):
        for _ in range(2):
            model = SVC(kernel, device="cpu", compute=Compute(store=tmp_path)).fit(TEXTS, LABELS)
        assert "(found)" in model.gram_description_
    assert len(json.loads((tmp_path / "store.json").read_text())["views"]) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"texts": TEXTS[:-1]}, "is of other texts: 60 of them, and these are 59; name another folder"),
        (
            {"texts": TEXTS[1:] + TEXTS[:1]},
            "is of other texts, as many as these, or of these in another order",
        ),
        ({"texts": [*TEXTS[:-1], "another"]}, "is of other texts, as many as these"),
        ({"normalise": "paper"}, "is of texts with normalise='unicode', and these have normalise='paper'"),
        ({"punctuation": False}, "is of texts with punctuation=True, and these have punctuation=False"),
        ({"max_length": 5}, "is of texts with max_length=None, and these have max_length=5"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:40],
)
def test_a_store_of_other_texts_is_refused(tmp_path, change, said):
    SVC(EDIT, device="cpu", compute=Compute(store=tmp_path)).fit(TEXTS, LABELS)
    before = files(tmp_path), bare(tmp_path)
    texts = change.pop("texts", TEXTS)
    with pytest.raises(InputError, match=said.split("(")[0]) as caught:
        SVC(EDIT, device="cpu", compute=Compute(store=tmp_path), **change).fit(texts, LABELS[: len(texts)])
    assert said in str(caught.value)
    assert (files(tmp_path), bare(tmp_path)) == before


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (SVC("precomputed"), "a kernel matrix that is given is not stored again"),
        (SVC("auto"), 'kernel="auto" has no kernel matrix of all texts'),
        (SVC(Spectrum(2), compute=Compute(solver="features")), "there is no kernel matrix to store"),
        (SVC(lambda a, b: np.ones((len(a), len(b)))), "a function has no parameters"),
        (SVC(Spectrum(1, tokens=str.split)), "a function has no parameters"),
    ],
)
def test_what_has_nothing_to_store(tmp_path, machine, said):
    with pytest.raises(InputError, match=said + r".*; leave store out \(--store\)"):
        machine.set_params(compute__store=tmp_path).fit(TEXTS, LABELS)


def test_a_grid_over_forms_of_texts_is_refused(tmp_path):
    with pytest.raises(InputError, match="a store keeps kernel matrices of texts in one form"):
        tune(SVC(EDIT, compute=Compute(store=tmp_path / "s")), TEXTS, LABELS, {"max_length": [5, None]}, cv=3)
    assert not (tmp_path / "s").exists()


def test_what_is_no_store(tmp_path):
    (tmp_path / "a file").write_text("x")
    refuses(r"it has files and no store\.json; name a new or empty folder", Store, tmp_path)
    refuses("a file is a file; name a folder", Store, tmp_path / "a file")
    with pytest.raises(InputError, match="is not a store of kernel matrices"):
        SVC(EDIT, compute=Compute(store=tmp_path)).fit(TEXTS, LABELS)
    for name in (3, "", b"x"):
        refuses("must be the name of a folder", SVC(EDIT, compute=Compute(store=name)).fit, TEXTS, LABELS)
    assert bare(tmp_path) == ["a file"]


ODD = [
    "", "[]", "{}", "3", '{"format": 1}', "\x00\xff", '{"format": [], "n": 1}',
    '{"format": 1, "n": 60, "form": [], "views": {}, "rows_of_panel": []}',
    '{"format": 1, "n": "60", "form": {}, "views": {}, "rows_of_panel": "7"}',
]  # fmt: skip


@pytest.mark.parametrize(
    ("which", "content"),
    [(which, content) for which in ("store.json", "*/gram.json") for content in ODD]
    + [("*/gram.json", {"rows_of_panel": size}) for size in (0, -1, N + 1, "8", None)],
)
def test_a_damaged_manifest(tmp_path, content, which):
    stored_rows(tmp_path, wanted())
    (path,) = tmp_path.glob(which)
    if isinstance(content, dict):
        content = json.dumps({**json.loads(path.read_text()), **content})
    path.write_text(content, encoding="latin-1")
    refuses(r"is damaged; delete the folder|has store format", stored_rows, tmp_path, wanted())


@pytest.mark.parametrize("whole", [True, False])
def test_another_version_computes_the_matrices_again(tmp_path, whole):
    """That of the whole store, which computed digests of texts in another way, or of one matrix in it."""
    panels = stored_rows(tmp_path, wanted()).made
    manifests = [*tmp_path.glob("*/gram.json"), tmp_path / "store.json"]
    for path in manifests if whole else manifests[:1]:
        content = {**json.loads(path.read_text()), "textsvm": "0.1.0"}
        if path.name == "store.json":
            content["views"] = dict.fromkeys(content["views"], "0" * 32)
        path.write_text(json.dumps(content))
    kernel = Table()
    assert stored_rows(tmp_path, wanted(kernel)).made == panels
    assert kernel.values
    assert stored_rows(tmp_path, wanted()).made == 0
    assert [json.loads(path.read_text())["textsvm"] for path in manifests] == [textsvm.__version__] * 2


def test_making_and_reading_keep_within_their_memory(tmp_path):
    n, memory = 1000, 1_000_000

    class Ones(Table):
        def rows(self, documents, device):
            m = len(documents)
            made = ArrayRows(np.ones((1, 1), np.float32))
            made.n, made.diag = m, lambda: np.ones(m, np.float32)
            made.rows = lambda indices: np.ones((len(indices), m), np.float32)
            return made

    def make_and_read(n, memory, folder):
        gram = build_gram(wanted(Ones(), range(n)), memory, store=tmp_path / folder)
        for start in range(0, n, 40):
            gram.window().refill(np.arange(start, start + 40))
        return gram

    make_and_read(120, 40_000, "small")  # imports modules and compiles functions
    tracemalloc.start()
    try:
        gram = make_and_read(n, memory, "large")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "on demand" in gram.description
    assert memory / 2 < peak <= 1.1 * memory


def test_one_process_writes_and_others_read(tmp_path, small):
    stored_rows(tmp_path, wanted())
    with open(tmp_path / ".lock", "r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        np.testing.assert_array_equal(stored_rows(tmp_path, wanted()).gram(), MATRIX)
        said = rf"is being written by another process \({os.getpid()}\); wait for it, or name another folder"
        refuses(said, stored_rows, tmp_path, wanted(Table(1)))
    stored_rows(tmp_path, wanted(Table(1)))
    assert len(list(tmp_path.glob("table-*"))) == 2


def test_room_for_what_is_missing(tmp_path, small, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    stored_rows(tmp_path / "made", wanted())
    right = files(tmp_path / "made")
    next(tmp_path.glob("made/*/000007.rows")).unlink()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 10))
    said = (
        r"the kernel matrix of 60 texts takes 14\.8 KiB more on disk and 1\.0 KiB are free in .*; "
        r"name a folder with more room \(--store\), or leave it out; nothing was written"
    )
    refuses(said, stored_rows, tmp_path / "a" / "store", wanted())
    assert bare(tmp_path) == ["made"]
    assert stored_rows(tmp_path / "made", wanted()).made == 1
    assert files(tmp_path / "made") == right


def test_a_disk_that_becomes_full(tmp_path, set_values):
    set_values(stores, PANEL_BYTES=4 * N * 30, ROWS_OF_LARGE=1)
    undisturbed = tmp_path / "one"
    stored_rows(undisturbed, wanted())
    folder = tmp_path / "other"
    stored_rows(folder, wanted())
    next(folder.glob("*/000001.rows")).unlink()
    kept = files(folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        refuses(
            r"cannot write .*000001\.rows: File too large; nothing was changed", stored_rows, folder, wanted()
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files(folder) == kept
    assert stored_rows(folder, wanted()).made == 1
    assert files(folder) == files(undisturbed)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_may_only_be_read(tmp_path):
    stored_rows(tmp_path, wanted())
    tmp_path.chmod(0o555)
    try:
        np.testing.assert_array_equal(stored_rows(tmp_path, wanted()).gram(), MATRIX)
        refuses("cannot write", stored_rows, tmp_path, wanted(Table(1)))
    finally:
        tmp_path.chmod(0o755)


def test_digests_tell_what_differs():
    values = np.arange(6)
    encode = SVC().settings.source.encode
    documents = encode(["ab", "c"])
    different = [
        values, values.astype(np.int32), values.reshape(2, 3), [values[:3], values[3:]],
        [values[:2], values[2:]], {"a": values}, {"b": values}, np.array(["ab", "c"], object),
        np.array(["a", "bc"], object), "ab", None, View(), View(keep_case=True), documents,
        encode(["a", "bc"]), encode(["abc", ""]), encode(["ab", "d"]),
        replace(documents, codes=documents.codes[::-1]),
    ]  # fmt: skip
    assert len({digest(each) for each in different}) == len(different)
    assert digest({"a": 1, "b": values}) == digest({"b": values.copy(), "a": 1})
    assert digest(documents.with_classes(np.arange(2))) == digest(documents)


def test_progress_is_told(tmp_path, small):
    told = []
    build_gram(wanted(), "1GiB", store=tmp_path, progress=lambda done, total: told.append(done / total))
    assert told.count(1.0) == 2  # made, then read
    assert len(told) >= 16


#: The command line, its panels smaller.
SMALLER = "from textsvm import cli; from textsvm.gram import store; store.PANEL_SECONDS = 0; cli.main()"
COMMAND = ["--positive", "earn", "--kernel", "edit", "--max-length", "60", "--device", "cpu"]


@pytest.mark.slow
def test_command_line(tmp_path):
    corpus, folder = sample("newswire"), tmp_path / "grams"
    report("train", corpus, *COMMAND, "--solver", "gram", "--store", folder, "-o", tmp_path / "one")
    for name in ("one", "two"):
        trained = report("train", corpus, *COMMAND, "--store", folder, "-o", tmp_path / name)
        assert f"stored in {folder} (found)" in trained["kernel_matrix"]
    one, two = (load(tmp_path / name) for name in ("one", "two"))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    assert one.settings.compute_options.store is None
    report("tune", corpus, *COMMAND, "--store", folder, "--folds", "3", "--gamma", "0.05,0.1", "-C", "1")
    assert len(list(folder.glob("edit-*"))) == 2
    other = fails("train", corpus, *COMMAND, "--negative", "acq", "--store", folder, "-o", tmp_path / "three")
    assert "is of other texts" in other
    not_a_store = ["--store", tmp_path, "-o", tmp_path / "three"]
    assert "is not a store" in fails("train", corpus, *COMMAND, *not_a_store, code=2)
    auto = fails("train", corpus, "--store", folder, "-o", tmp_path / "four", code=2)
    assert "as a named kernel has" in auto


@pytest.mark.slow
def test_ctrl_c_leaves_a_store_that_goes_on(tmp_path):
    """Twice: the second run keeps what the first one made, and makes more."""
    lines, store, made = tmp_path / "long.jsonl", tmp_path / "store", {}
    text = "the quick brown fox jumps over the lazy dog " * 12
    lines.write_text("".join(json.dumps({"text": f"{i} {text}", "label": i % 2}) + "\n" for i in range(800)))
    arguments = ["train", str(lines), "--kernel", "gap", "--store", str(store), "--device", "cpu"]
    arguments += ["-o", str(tmp_path / "model")]
    for wanted_panels in (2, 4):
        process = subprocess.Popen(
            [sys.executable, "-c", SMALLER, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            deadline = time.monotonic() + 100
            while len(files(store)) < wanted_panels and time.monotonic() < deadline:
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
        assert process.returncode == 130
        assert out == b""
        assert b"the computed part of the kernel matrix is in " in err
        assert b"Traceback" not in err
        assert len(files(store)) >= wanted_panels
        assert not list(store.glob("*/.*.tmp"))
        times = {path.name: path.stat().st_mtime_ns for path in store.glob("*/*.rows")}
        assert times.items() >= made.items()
        made = times


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernels",
    [[GapWeighted(p) for p in (2, 3, 4)], [EditDistance(gamma) for gamma in (0.05, 0.1, 0.3)]],
    ids=["gap", "edit"],
)
def test_kernels_that_share_a_pass_are_stored_together(tmp_path, small, monkeypatch, kernels):
    """The files are those of each kernel alone, rows are the pass's, and an interrupted one goes on."""
    grid = {"kernel": kernels, "C": [1]}
    alone, together = tmp_path / "alone", tmp_path / "together"
    for kernel in kernels:
        SVC(kernel, device="cpu", compute=Compute(store=alone)).fit(TEXTS, LABELS)
    written, write = [], Panels.write

    def interrupt(panels, *values):
        written.append(write(panels, *values))
        if len(written) == 20:
            raise KeyboardInterrupt

    machine = SVC(EDIT, device="cpu", compute=Compute(store=together))
    search = partial(tune, machine, TEXTS, LABELS, grid, cv=3)
    with monkeypatch.context() as patched:
        refuse_rows(patched, kernels[0])
        patched.setattr(Panels, "write", interrupt)
        with pytest.raises(KeyboardInterrupt) as interrupted:
            search()
        generators = filter(inspect.isgenerator, gc.get_objects())
        # The collector of garbage would wait for the thread of an abandoned one, whatever locks are held.
        assert not [made for made in generators if made.__name__ == "steps" and made.gi_frame]
        del interrupted
        assert 15 < len(files_of(together)) < 45
        patched.setattr(Panels, "write", write)
        tuned = search()
    assert files_of(together) == files_of(alone)
    without = tune(SVC(EDIT, device="cpu"), TEXTS, LABELS, grid, cv=3)
    assert [row["mean"] for row in tuned.table] == [row["mean"] for row in without.table]
    flip(sorted(together.glob("*/*.rows"))[20], 9)
    search()
    assert files_of(together) == files_of(alone)


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("*/*.rows"))}


def test_a_grid_with_one_kernel_found_makes_the_others(tmp_path):
    SVC(GapWeighted(3), device="cpu", compute=Compute(store=tmp_path)).fit(TEXTS, LABELS)
    before = files_of(tmp_path)
    grid = {"kernel": [GapWeighted(p) for p in (2, 3, 4)] + [Spectrum(p) for p in (2, 3)], "C": [1]}
    tune(SVC(EDIT, device="cpu", compute=Compute(store=tmp_path)), TEXTS, LABELS, grid, cv=3)
    assert len(list(tmp_path.glob("*/gram.json"))) == 5
    assert files_of(tmp_path).items() >= before.items()


def test_names_outlast_a_loss_of_power(tmp_path, small, monkeypatch):
    """Every file is written out before it has its name, and then its folder."""
    calls, fsync, replace = [], os.fsync, Path.replace

    def synced(handle):
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def replaced(path, target):
        calls.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    stored_rows(tmp_path, wanted())
    order = [(calls[at - 1], calls[at + 1]) for at, call in enumerate(calls) if call == "name"]
    assert order == [("file", "folder")] * 17  # 15 panels and two manifests
