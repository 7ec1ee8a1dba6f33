"""Where the rows of a kernel matrix lie: what is predicted, measured, kept, chosen, asked for and said."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from command import fails, report
from test_gram import N
from test_store import EDIT, LABELS, TEXTS, Table, files, small, wanted  # noqa: F401 (a fixture)

from textsvm import (
    SVC,
    SVR,
    Compute,
    EditDistance,
    InputError,
    MultilabelSVC,
    OneClassSVM,
    Spectrum,
    Sum,
    cross_validate,
    tune,
)
from textsvm.gram import planned, rates
from textsvm.gram.cached import needed_bytes
from textsvm.gram.planned import Asked, Planned
from textsvm.gram.stored import stored_rows
from textsvm.gram.tiers import Case, Rates, choose
from textsvm.readers import sample
from textsvm.runtime.device import Device

H200 = Rates(compute=2.4e8, bus=5e10, read=1.3e9, write=1.3e9)
SMALL = needed_bytes(60, 20)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Measurements are kept elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def case(share=0.25, n=50_000, **stored):
    return Case(n, int(share * n), **stored)


@pytest.mark.parametrize(
    ("this", "rates_", "best"),
    [
        (case(), H200, "host"),  # gap-weighted, 100 symbols
        (case(), Rates(5.9e9, 5e10), "host"),  # edit distance
        (case(), Rates(1e11, 5e10), "recompute"),  # dense vectors
        (case(0.9), Rates(6e10, 5e10), "recompute"),
        (case(0.05, stored=True, found=1.0), H200, "host"),
        (case(0.05, stored=True, found=0.0), H200, "host"),
        (case(0.9, stored=True, found=1.0), H200, "disk"),  # few rows are asked for more than once
        (case(0.9, stored=True, found=1.0), Rates(read=5e10, bus=5e10), "disk"),
    ],
)
def test_the_fewest_seconds_are_chosen(this, rates_, best):
    possible = {"host", "disk" if this.stored else "recompute"}
    tier, said = choose(this, possible, rates_)
    assert tier == best
    seconds = {each: this.seconds(each, rates_) for each in possible}
    assert seconds[tier] == min(seconds.values())
    assert said.startswith(f"predicted {seconds[tier]:.2g} s, ")


def test_what_is_predicted():
    """By hand: n = 1,000, a quarter fits, 1,080 rows are asked for."""
    this = Case(1000, 250)
    assert this.asked == pytest.approx(1080)
    assert this.seconds("recompute", Rates(compute=1e6)) == pytest.approx(1.08)
    assert this.seconds("host", Rates(compute=1e6, bus=4e6)) == pytest.approx(0.53125 + 1.08)
    half = Case(1000, 250, stored=True, found=0.5)
    assert half.seconds("disk", Rates(1e6, 1.0, 4e6, 1e7)) == pytest.approx(0.265625 + 1.08)
    assert half.seconds("disk", Rates(1e6, 1.0, 4e6, 1e6)) == pytest.approx(2 + 1.08)
    assert half.seconds("host", Rates(1e6, 8e6, 4e6, 1e7)) == pytest.approx(0.265625 + 1 + 0.54)
    several = choose(half, {"host", "disk", "recompute"}, Rates(1e6, 8e6, 4e6, 1e7))
    assert several == ("recompute", "predicted 1.1 s, from main memory 1.8 s, from disk 1.3 s")


@pytest.mark.parametrize(("share", "measured"), [(0.05, 2.3), (0.1, 1.7), (0.25, 1.2), (0.5, 0.75)])
def test_rows_asked_for_are_those_of_the_report(share, measured):
    """The geometric means of reports/tiers.md, in n."""
    assert case(share).asked / 50_000 == pytest.approx(measured, rel=0.11)


class TestKept:
    """Measurements."""

    def count(self, value=3.0):
        calls = []

        def measure():
            calls.append(1)
            return (value, 4.0)

        return measure, calls

    def test_once_a_month(self, monkeypatch):
        measure, calls = self.count()
        assert [rates.kept("a disk", measure) for _ in range(3)] == [(3.0, 4.0)] * 3
        rates.kept("another", measure)
        assert len(calls) == 2
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + rates.MONTH + 1)
        rates.kept("a disk", measure)
        assert len(calls) == 3
        monkeypatch.setattr(time, "time", lambda: now - 100)  # kept in the future
        rates.kept("a disk", measure)
        assert len(calls) == 4

    @pytest.mark.parametrize(
        "content",
        [
            "", "[", "[]", "3", "{}", '{"format": 2, "rates": {}}', '{"format": 1, "rates": []}', "\x00\xff",
            '{"format": 1, "rates": {"NAME": 3}}', '{"format": 1, "rates": {"NAME": ["a", 1]}}',
            '{"format": 1, "rates": {"NAME": [NOW, -1, 2]}}', '{"format": 1, "rates": {"NAME": [NOW, NaN]}}',
            '{"format": 1, "rates": {"NAME": [NOW]}}', '{"format": 1, "rates": {"NAME": [NOW, Infinity, 1]}}',
            "[" * 100_000,
        ],
    )  # fmt: skip
    def test_a_damaged_file_counts_as_none(self, content):
        measure, calls = self.count()
        rates.kept("a disk", measure)
        (name,) = json.loads(rates.cache_file().read_text())["rates"]
        content = content.replace("NAME", name).replace("NOW", str(time.time()))
        rates.cache_file().write_text(content, encoding="latin-1")
        assert rates.kept("a disk", measure) == (3.0, 4.0)
        assert len(calls) == 2
        rates.kept("a disk", measure)
        assert len(calls) == 2

    def test_where_nothing_can_be_kept(self, tmp_path):
        (tmp_path / "cache").write_text("a file where the folder should be")
        measure, calls = self.count()
        assert rates.kept("a disk", measure) == rates.kept("a disk", measure) == (3.0, 4.0)
        assert len(calls) == 2

    def test_the_folder_of_caches(self, monkeypatch, tmp_path):
        assert rates.cache_file() == tmp_path / "cache" / "textsvm" / "rates.json"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the convention says is ignored
        monkeypatch.setenv("HOME", str(tmp_path))
        assert rates.cache_file() == tmp_path / ".cache" / "textsvm" / "rates.json"


def test_a_disk_is_measured_and_left_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(rates, "_MOST", 16 << 20)
    before = sorted(tmp_path.iterdir())
    read, write = rates.measured_disk(tmp_path)
    assert 1e5 < write < 1e12
    assert 1e5 < read < 1e12
    assert sorted(tmp_path.iterdir()) == before
    assert rates.disk_rates(tmp_path / "not" / "there") == rates.disk_rates(tmp_path)  # of one disk, kept


def test_a_disk_that_cannot_be_tried(tmp_path, monkeypatch):
    def full(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rates, "measured_disk", full)
    assert rates.disk_rates(tmp_path) == rates.UNKNOWN


def on_a_card(tmp_path, tier, store):
    """The decision itself takes no card: its rows are made on the CPU here."""
    there = wanted(index=range(N))
    there = type(there)(there.kernel, there.examples, there.form, Device("cuda", 0, "a card"))
    plan = Planned(there, Asked(needed_bytes(N, 6), tier, tmp_path if store else None))
    plan.__dict__["stored"] = stored_rows(tmp_path, wanted()) if store else None
    return plan


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("bus", [1.0, 1e30])
def test_what_is_chosen_for_a_card(tmp_path, monkeypatch, store, bus):
    monkeypatch.setattr(planned, "LEAST", 1)
    monkeypatch.setattr(planned, "bus_rate", lambda device: bus)
    monkeypatch.setattr(planned, "disk_rates", lambda folder: (1e9, 1e9))
    monkeypatch.setattr(planned, "measured_rate", lambda rows: 1e9)
    monkeypatch.setattr(planned, "most_rows", lambda n, memory: 6)
    tier, said = on_a_card(tmp_path, "auto", store)._chosen()
    assert tier == ("host" if bus > 1 else "disk" if store else "recompute")
    assert said.startswith(": predicted ")
    assert ("from main memory" in said) == (tier != "host")
    assert ("from disk" in said) == (store and tier == "host")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("store", [False, True])
def test_main_memory_of_a_card(tmp_path, monkeypatch, store):
    monkeypatch.setattr(planned, "held_gram", lambda *given: given)
    plan = on_a_card(tmp_path, "host", store)
    made, memory, said, stored, _ = plan.gram()
    assert (made, memory, said) == (plan.wanted, needed_bytes(N, 6), ", as asked for")
    assert stored is plan.stored
    assert (stored is not None) == store
    little = on_a_card(tmp_path, "host", store)
    little.__dict__["host"] = 4 * N * N - 4
    with pytest.raises(InputError, match=r"takes 14\.1 KiB and 14\.1 KiB of main memory may be taken"):
        little.gram()


@pytest.mark.parametrize("tier", ["auto", "device", "host", "recompute"])
def test_every_tier_has_the_machine_on_a_cpu(tier):
    options = {"device": "cpu", "tol": 1e-6}
    whole = SVC(EDIT, **options).fit(TEXTS, LABELS)
    model = SVC(EDIT, compute=Compute(tier=tier), **options).fit(TEXTS, LABELS)
    assert ("on demand" in model.gram_) == (tier == "recompute")
    assert model.gram_.endswith(", as asked for") == (tier != "auto")
    np.testing.assert_allclose(model.dual_coef_, whole.dual_coef_, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("tier", "memory"), [("disk", None), ("disk", SMALL), ("device", None), ("host", None)]
)
def test_tiers_of_a_store(tmp_path, tier, memory):
    for said in ("panels made", "found"):
        model = SVC(EDIT, compute=Compute(tier=tier, memory=memory, store=tmp_path), device="cpu").fit(
            TEXTS, LABELS
        )
        assert said in model.gram_
        assert model.gram_.endswith(", as asked for")
        assert ("on demand" in model.gram_) == (tier == "disk")


def test_nothing_is_written_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for tier in ("auto", "recompute"):
        SVC(EDIT, compute=Compute(tier=tier, memory=SMALL), device="cpu").fit(TEXTS, LABELS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compute": Compute(tier="ram")}, "tier='ram' is not one of auto, device, host, disk, recompute"),
        ({"compute": Compute(tier=3)}, "tier=3 is not one of auto"),
        (
            {"compute": Compute(tier="disk")},
            'tier="disk" needs a folder to keep the kernel matrix in: name one (store, --store)',
        ),
        (
            {"compute": Compute(tier="recompute", store="x")},
            'tier="recompute" computes rows again and reads no store',
        ),
        (
            {"kernel": "precomputed", "compute": Compute(tier="host")},
            "a kernel matrix that is given is not stored again; leave tier",
        ),
        (
            {"kernel": "auto", "compute": Compute(tier="device")},
            'kernel="auto" has no kernel matrix of all texts',
        ),
        ({"compute": Compute(tier="device", approximate="nystrom:4")}, "landmarks have a few values a text"),
        (
            {"kernel": Spectrum(2), "compute": Compute(tier="device", solver="features")},
            "there is no kernel matrix",
        ),
        (
            {"compute": Compute(tier="device", memory=SMALL)},
            "tier='device' is not possible: the whole kernel matrix takes 14.1 KiB and 6.1 KiB of main",
        ),
        (
            {"compute": Compute(tier="host", memory=SMALL)},
            "tier='host' is not possible: the whole kernel matrix takes 14.1 KiB",
        ),
    ],
    ids=str,
)
def test_impossible_wishes_are_one_sentence(options, said):
    given = {"kernel": EDIT, "device": "cpu", **options}
    with pytest.raises(InputError) as caught:
        SVC(**given).fit(TEXTS, LABELS)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tier_means_a_kernel_matrix():
    assert (
        "none," in SVC(Spectrum(2), device="cpu", compute=Compute(solver="features")).fit(TEXTS, LABELS).gram_
    )
    assert (
        "whole kernel matrix"
        in SVC(Spectrum(2), device="cpu", compute=Compute(tier="device")).fit(TEXTS, LABELS).gram_
    )


def test_every_machine_and_search_heeds_it():
    options = {"compute": Compute(tier="recompute"), "device": "cpu"}
    assert "as asked for" in SVR(EDIT, **options).fit(TEXTS, np.array(LABELS) + 0.5).gram_
    assert "as asked for" in OneClassSVM(EDIT, **options).fit(TEXTS).gram_
    several = [("even", "odd")[label : label + 1] or ("odd",) for label in LABELS]
    assert "as asked for" in MultilabelSVC(EDIT, cv=2, **options).fit(TEXTS, several).gram_
    grid = {"kernel": [EDIT, EditDistance(gamma=0.2)], "C": [1, 10]}
    without = tune(SVC(EDIT, device="cpu"), TEXTS, LABELS, grid, cv=3)
    for compute in (Compute(tier="recompute"), Compute(tier="device"), Compute(memory=SMALL)):
        tuned = tune(SVC(EDIT, device="cpu", compute=compute), TEXTS, LABELS, grid, cv=3)
        assert [row["mean"] for row in tuned.table] == [row["mean"] for row in without.table]


def test_sums_heed_it_in_a_search(tmp_path):
    """Though the Grams of their terms could be kept in memory."""
    grid = {"kernel": [Sum([EDIT, Spectrum(p)]) for p in (2, 3)], "C": [1]}
    tune(SVC(EDIT, device="cpu", compute=Compute(store=tmp_path)), TEXTS, LABELS, grid, cv=3)
    assert len(list(tmp_path.glob("*/gram.json"))) == 2
    some = cross_validate(
        SVC(grid["kernel"][0], device="cpu", compute=Compute(tier="recompute")), TEXTS, LABELS, cv=3
    )
    assert "on demand" in some.gram


def test_kernels_that_learn_from_parts_leave_the_disk(tmp_path):
    kernel = Spectrum((1, 2), "log", idf=True)
    grid = {"C": [1, 10]}
    compute = Compute(tier="disk", store=tmp_path / "s")
    tuned = tune(SVC(kernel, compute=compute, device="cpu"), TEXTS, LABELS, grid, cv=3)
    assert [row["mean"] for row in tuned.table] == [
        row["mean"] for row in tune(SVC(kernel, device="cpu"), TEXTS, LABELS, grid, cv=3).table
    ]


def test_command_line(tmp_path):
    command = ["train", sample("newswire"), "--positive", "earn", "--kernel", "edit", "--max-length", "40"]
    command += ["--device", "cpu", "-o", tmp_path / "model"]
    trained = report(*command, "--tier", "recompute")
    assert trained["kernel_matrix"].endswith(", as asked for")
    assert "needs a folder" in fails(*command, "--force", "--tier", "disk", code=2)
    assert "is not one of auto, device" in fails(*command, "--force", "--tier", "ram", code=2)


BUDGET = """
import resource, sys, tracemalloc, warnings
from textsvm import SVC, Compute, EditDistance
tier, memory, store, n = sys.argv[1], int(sys.argv[2]), sys.argv[3] or None, int(sys.argv[4])
texts = [f"{i} {i * i % 97}" for i in range(n)]
labels = [i % 2 for i in range(n)]
kernel = EditDistance(0.05)
SVC(kernel, device="cpu", max_iter=50).fit(texts[:99], labels[:99])  # compiled
warnings.simplefilter("ignore")
tracemalloc.start()
model = SVC(kernel, device="cpu", compute=Compute(memory, store, tier), max_iter=3000).fit(texts, labels)
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.parametrize("tier", ["device", "disk", "recompute"])
def test_byte_budgets_hold(tmp_path, tier):
    """The peak of main memory, and of the disk."""
    n = 3000
    memory = 4 * n * n if tier == "device" else n * n
    store = tmp_path / "store" if tier == "disk" else ""
    arguments = [sys.executable, "-c", BUDGET, tier, str(memory), str(store), str(n)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ)
    peak = int(done.stdout)
    assert memory / 2 < peak <= 1.05 * memory + 2000 * n
    if store:
        used = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        assert 4 * n * n < used <= 4 * n * n + 12 * n + 4096
