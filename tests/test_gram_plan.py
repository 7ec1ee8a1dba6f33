"""The planner: a table of cases, measured rates, and tiers of a kernel matrix."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np
import pytest
from test_store import EDIT, LABELS, TEXTS, small  # noqa: F401 (a fixture)

from benchmarks.tiers import compare_ways, planned_tasks
from textsvm import SVC, Compute, EditDistance, InputError, Spectrum, Sum, cross_validate, tune
from textsvm.gram.base import needed_bytes
from textsvm.gram.plan import GRAM, Case, FeatureCase, Rates, candidates, plan_features, plan_gram, show_bytes

unlimited_rates = partial(Rates, bus=inf, allocate=inf, read=inf, write=inf)
H200 = unlimited_rates(compute=2.4e8, bus=5e10, read=1.3e9, write=1.3e9)
SMALL = needed_bytes(60, 20)


def case(share=0.25, n=50_000, **options):
    return Case(n, 0, "cuda", capacity=int(share * n), **options)


@pytest.mark.parametrize(
    ("given", "rates_", "best"),
    [
        (case(), H200, "host"),  # gap-weighted, 100 symbols
        (case(), unlimited_rates(5.9e9, bus=5e10), "host"),  # edit distance
        (case(), unlimited_rates(1e11, bus=5e10), "recompute"),  # dense vectors
        (case(0.9), unlimited_rates(6e10, bus=5e10), "recompute"),
        (case(0.05, store=True, stored=1.0), H200, "host"),
        (case(0.05, store=True, stored=0.0), H200, "host"),
        (case(0.9, store=True, stored=1.0), H200, "disk"),  # few rows are read more than once
        (case(0.9, store=True, stored=1.0), unlimited_rates(read=5e10, bus=5e10), "disk"),
    ],
)
def test_the_fewest_seconds_are_chosen(given, rates_, best):
    given = replace(given, host_memory=1 << 50)
    other = "disk" if given.store else "recompute"
    assert candidates(given) == ("host", other)
    decision = plan_gram(given, rates_)
    assert decision.tier == best
    seconds = {tier: given.seconds(tier, rates_) for tier in ("host", other)}
    assert min(seconds.values()) == seconds[best]
    assert f": predicted {seconds[best]:.2g} s " in decision.reason


#: n = 1,000 rows, a quarter fits, 1,080 rows are read, in requests of 0.1 ms; or 16 rows a request.
PLAIN, SEVERAL = Case(1000, 0, capacity=250), Case(1000, 0, capacity=250, request=16)
HALF, CARD = replace(PLAIN, store=True, stored=0.5), replace(SEVERAL, device="cuda")


@pytest.mark.parametrize(
    ("given", "rates", "tier", "seconds"),
    [
        (PLAIN, {"compute": 1e6}, "recompute", 1.08 + 0.108),
        (PLAIN, {"compute": 1e6, "bus": 4e6}, "host", 0.53125 + 1.08 + 0.108),
        (HALF, {"compute": 1e6, "read": 4e6, "write": 1e7}, "disk", 0.265625 + 1.08 + 0.108),
        (HALF, {"compute": 1e6, "read": 4e6, "write": 1e6}, "disk", 2 + 1.08 + 0.108),
        (HALF, {"compute": 1e6, "read": 4e6, "write": 1e7, "bus": 8e6}, "host", 0.265625 + 1 + 0.54 + 0.108),
        # Twice as many rows are read, in 135 calls; making them takes 16 bands of 16 panels.
        (SEVERAL, {"call": 0.1}, "recompute", 13.5 + 0.0135),
        (SEVERAL, {"call": 0.1}, "host", 3.2 + 0.0135),
        (replace(SEVERAL, capacity=40), {}, "host", 0.0135 * 2.5),
        (replace(SEVERAL, capacity=40), {"call": 0.1}, "host", 11.6 + 0.0135 * 2.5),  # 100 panels
        (CARD, {"call": 0.1}, "recompute", 10.125 + 0.00765625),
        # A call per request of the solver, however many rows a call may take.
        (replace(CARD, request=500), {"call": 0.1}, "recompute", 0.546875 + 0.00765625),
        (CARD, {"allocate": 1e6}, "host", 4 + 0.00765625),
    ],
    ids=range(12),
)
def test_predictions_by_hand(given, rates, tier, seconds):
    assert [case.rows_read for case in (PLAIN, SEVERAL, CARD)] == pytest.approx([1080, 2160, 1620])
    assert given.seconds(tier, unlimited_rates(**rates)) == pytest.approx(seconds)


@pytest.mark.parametrize(("share", "measured"), [(0.05, 2.3), (0.1, 1.7), (0.25, 1.2), (0.5, 0.75)])
def test_rows_read_are_those_of_the_report(share, measured):
    """The geometric means of reports/tiers.md, in n."""
    assert replace(case(share), device="cpu").rows_read / 50_000 == pytest.approx(measured, rel=0.11)


MIB = 1 << 20
FEW, MANY = FeatureCase(10**5), FeatureCase(10**8, machines=4)


@pytest.mark.parametrize(
    ("given", "way", "tier", "reason"),
    [
        (Case(1000, 4 * MIB), "gram", "device", "whole kernel matrix in memory (3.8 MiB of 4.0 MiB)"),
        (
            Case(1000, MIB), "gram", "recompute",
            "rows on demand, cached within 1.0 MiB (the whole matrix would take 3.8 MiB)",
        ),
        (
            Case(1000, MIB, suggest_store=True), "gram", "recompute",
            "rows on demand, cached within 1.0 MiB (the whole matrix would take 3.8 MiB); a store (--store "
            "DIR) would keep them on disk",
        ),
        (
            Case(1000, MIB, store=True), "gram", "disk",
            "rows on demand, cached within 1.0 MiB (the whole matrix would take 3.8 MiB)",
        ),
        # Computing a sum takes two matrices, reading it from a store takes one.
        (Case(1000, 4 * MIB, matrices=2), "gram", "recompute", "rows on demand"),
        (Case(1000, 4 * MIB, matrices=2, store=True), "gram", "device", "whole kernel matrix"),
        (
            Case(1000, 4 * MIB, tier="recompute"), "gram", "recompute",
            "rows on demand, cached within 4.0 MiB (the whole matrix would take 3.8 MiB), as requested",
        ),
        (Case(1000, 4 * MIB, tier="host"), "gram", "device", "whole kernel matrix in memory (3.8 MiB of"),
        (
            Case(1000, MIB, "cuda", tier="host", host_memory=4 * MIB), "gram", "host",
            "rows held in main memory (3.8 MiB), cached within 1.0 MiB, as requested",
        ),
        # A matrix below 1 GiB, or without room in main memory, is not worth a measurement.
        (Case(1000, MIB, "cuda", host_memory=4 * MIB), "gram", "recompute", "rows on demand"),
        (Case(50_000, MIB, "cuda", host_memory=MIB), "gram", "recompute", "rows on demand"),
    ],
    ids=range(11),
)  # fmt: skip
def test_plans(given, way, tier, reason):
    decision = plan_gram(given)
    assert (decision.way, decision.tier, decision.memory) == (way, tier, given.memory)
    assert decision.reason.startswith(reason)


@pytest.mark.parametrize(
    ("given", "features", "requested", "tier", "reason"),
    [
        (Case(1000, 4 * MIB), FEW, True, "device", "as requested"),
        (Case(1000, 4 * MIB), FeatureCase(obstacle="no"), False, None, ""),
        (
            Case(40, 4 * MIB), FeatureCase(10**4), False, "gram",
            "predicted 0.00026 s on 2 cores, from features 0.00051 s",
        ),
        (
            Case(20_000, 1 << 40), FeatureCase(10**6), False, "device",
            "predicted 0.082 s on 2 cores, with a kernel matrix 4 s",
        ),
        (Case(2000, 8 * MIB), FEW, False, "device", "a kernel matrix would take 15.3 MiB of 8.0 MiB"),
        (Case(1000, MIB), FEW, False, None, ""),  # features do not fit either
        (Case(1000, MIB), FeatureCase(10**5, disk_bytes=2 * MIB), True, "disk", "as requested; on disk"),
        (
            Case(10**6, 1 << 36, "cuda"), MANY, False, "device",
            "a kernel matrix would take 3.6 TiB of 64.0 GiB",
        ),
        # In main memory, as features that a GPU counts in passes.
        (
            Case(10**6, 4 << 30, "cuda"), FeatureCase(4 * 10**9, host_memory=64 << 30), False, "device",
            "a kernel matrix would take 3.6 TiB of 4.0 GiB",
        ),
        (Case(10**6, 4 << 30, "cuda"), FeatureCase(4 * 10**9, host_memory=16 << 30), False, None, ""),
    ],
    ids=range(10),
)  # fmt: skip
def test_plans_from_features(given, features, requested, tier, reason):
    decision = plan_features(given, features, requested)
    if tier is None:
        assert decision == GRAM
        return
    if tier == "gram":
        assert decision == replace(GRAM, reason=reason)
        return
    assert (decision.way, decision.tier, decision.memory) == ("features", tier, given.memory)
    assert decision.reason.startswith(reason)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case(1000, MIB, tier="device"), "takes 3.8 MiB and 1.0 MiB of main memory may be"),
        (Case(1000, MIB, "cuda", "H200", tier="device"), "3.8 MiB and 1.0 MiB of H200 may be used"),
        (Case(1000, MIB, "cuda", "H200", tier="host"), "3.8 MiB and 0 B of main memory may be used"),
        (FEW, "need about 2.3 MiB of memory and 1.0 MiB are"),
        (FeatureCase(obstacle="too odd"), "too odd"),
    ],
    ids=range(5),
)
def test_impossible_plans(case, message):
    with pytest.raises(InputError, match=message):
        plan_gram(case) if isinstance(case, Case) else plan_features(Case(1000, MIB), case, True)


@pytest.mark.slow
def test_the_choice_costs_at_most_half_as_much_again_as_the_better_way(data, monkeypatch):
    """Of two classes to 61, 7 characters to 15,000; with the 7 classes of DNA of reports/plan.md."""
    tasks = planned_tasks(data, 6e5)
    compare_ways(tasks[0], "auto")  # compiles
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    rows = [compare_ways(task, "auto") for task in tasks]
    assert len(rows) > 20
    assert {row["chosen"] for row in rows} == {"features", "gram"}
    slow = [row for row in rows if row["features, s"] + row["matrix, s"] > 0.1]
    assert len(slow) > 15
    assert not [row for row in slow if row["chosen / better"] > 1.5]


@pytest.mark.parametrize("tier", ["auto", "device", "host", "recompute"])
def test_every_tier_has_the_machine_on_a_cpu(tier):
    options = {"device": "cpu", "tol": 1e-6}
    whole = SVC(EDIT, **options).fit(TEXTS, LABELS)
    model = SVC(EDIT, compute=Compute(tier=tier), **options).fit(TEXTS, LABELS)
    assert ("on demand" in model.gram_description_) == (tier == "recompute")
    assert model.gram_description_.endswith(", as requested") == (tier != "auto")
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
        assert said in model.gram_description_
        assert model.gram_description_.endswith(", as requested")
        assert ("on demand" in model.gram_description_) == (tier == "disk")


def test_nothing_is_written_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for tier in ("auto", "recompute"):
        SVC(EDIT, compute=Compute(tier=tier, memory=SMALL), device="cpu").fit(TEXTS, LABELS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"compute": Compute(tier="ram")},
            "tier must be one of auto, device, host, disk, recompute, got 'ram'",
        ),
        ({"compute": Compute(tier=3)}, "tier must be one of auto"),
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


@pytest.mark.parametrize("options", [{"tier": "recompute"}, {"tier": "device"}, {"memory": SMALL}], ids=str)
def test_searches_heed_it(options):
    grid = {"kernel": [EDIT, EditDistance(gamma=0.2)], "C": [1, 10]}
    without = tune(SVC(EDIT, device="cpu"), TEXTS, LABELS, grid, cv=3)
    tuned = tune(SVC(EDIT, device="cpu", compute=Compute(**options)), TEXTS, LABELS, grid, cv=3)
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


BUDGET = """
import resource, sys, tracemalloc, warnings
from textsvm import SVC, Compute, EditDistance
from textsvm.runtime import compiled
compiled.NUMPY_SIZE = 0  # compile all of it before memory is traced
tier, memory, store, n = sys.argv[1], int(sys.argv[2]), sys.argv[3] or None, int(sys.argv[4])
texts = [f"{i} {i * i % 97}" for i in range(n)]
labels = [i % 2 for i in range(n)]
kernel = EditDistance(0.05)
SVC(kernel, device="cpu", n_jobs=2, max_iter=50).fit(texts[:99], labels[:99])  # compiled
warnings.simplefilter("ignore")
tracemalloc.start()
compute = Compute(memory, store, tier)
SVC(kernel, device="cpu", n_jobs=2, compute=compute, max_iter=3000).fit(texts, labels)
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["device", "disk", "recompute"])
def test_byte_budgets_hold(tmp_path, tier):
    """The peak of main memory, on two threads as each has a tile of its own, and of the disk."""
    n = 3000
    memory = 4 * n * n if tier == "device" else n * n
    store = tmp_path / "store" if tier == "disk" else ""
    arguments = [sys.executable, "-c", BUDGET, tier, str(memory), str(store), str(n)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ)
    assert memory / 2 < int(done.stdout) <= 1.05 * memory + 2000 * n
    if store:
        used = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        assert 4 * n * n < used <= 4 * n * n + 12 * n + 4096


def test_bytes_are_shown_in_their_unit():
    sizes = (1023, 1 << 10, 3 << 19, 5 << 30, 1 << 45, 1 << 52)
    assert [*map(show_bytes, sizes)] == ["1023 B", "1.0 KiB", "1.5 MiB", "5.0 GiB", "32.0 TiB", "4096.0 TiB"]
