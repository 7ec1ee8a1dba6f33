"""Changed model files: some of those that fuzz/models.py makes, and those that were findings once."""

import importlib.util
import json
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

import textsvm
from textsvm import InputError, model_parts
from textsvm.bench import fuzz
from textsvm.bench.harness import Rows
from textsvm.model_bytes import sealed
from textsvm.model_file import load_fitted

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def models():
    spec = importlib.util.spec_from_file_location("fuzz_models", ROOT / "fuzz" / "models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_seed_is_whole(models):
    assert len(models.seeds()) > 30
    for name, content in models.seeds().items():
        assert sealed(content) == content, name


def test_damage_is_noticed(models):
    rng = np.random.default_rng(0)
    names = sorted(models.seeds())
    for turn in range(600):
        name = names[turn % len(names)]
        content = models.seeds()[name]
        changed, how = models._damaged(content, rng)
        if changed != content:
            models._place().write_bytes(changed)
            with pytest.raises(InputError):
                pytest.fail(f"{name}: {how}: {textsvm.load(models._place())}")


#: A seed of fuzz/seeds/models, where in its header, and what was put there: findings once.
FOUND = [
    ("classes_ovo", ("parameters", "punctuation"), [1] * 1000),
    ("classes_ovo", ("parameters", "max_length"), 1 << 64),
    ("classes_ovo", ("format_version",), "\x1b[31m\n"),
    ("columns", ("kernel", "kernels", 1, "kernel", "gamma"), 10**400),
    ("kernel_dna_gkm_centre", ("kernel", "half_life"), 10**400),
    ("kernel_dna_mismatch", ("kernel", "alphabet"), 10**400),
    ("kernel_dna_oligo", ("kernel", "sigma"), 10**400),
    ("kernel_edit", ("kernel", "gamma"), 10**400),
    ("kernel_sum", ("kernel", "kernels", 1, "gamma"), 1 << 64),
    ("vectors_gaussian", ("kernel", "gamma"), 10**400),
    ("vectors_polynomial", ("kernel", "gamma"), 10**400),
    ("kernel_dna_gapped", ("kernel", "g"), 10**12),
]


@pytest.mark.parametrize(("name", "place", "value"), FOUND, ids=str)
def test_what_was_found(models, name, place, value, tmp_path):
    content = models.seeds()[name]
    outer = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    header = json.loads(outer["__metadata__"]["textsvm"])
    holder = header
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    path = tmp_path / "m.textsvm"
    path.write_bytes(sealed(tensor_bytes(read_tensors(content), metadata={"textsvm": json.dumps(header)})))
    for load in (textsvm.load, load_fitted):
        with pytest.raises(InputError) as found:
            load(path)
        assert "\n" not in str(found.value)
        assert len(str(found.value)) < 500


def test_gapped_windows_of_too_many_masks_are_refused_at_once():
    for g, m in ((10**12, 10**9), (1 << 62, 1 << 61), (10**6, 10**6 - 1)):
        with pytest.raises(InputError, match="ways to leave"):
            textsvm.GappedKmers(g, m).check()
    textsvm.GappedKmers(10**6, 0).check()


def test_sparse_values_of_hardly_any_bytes_are_refused(monkeypatch):
    monkeypatch.setattr("textsvm.device.free_memory", lambda device: 1 << 62)
    model_parts.require_room("coefficients", 1 << 28, 8)
    with pytest.raises(InputError, match="would take"):
        model_parts.require_room("coefficients", (1 << 28) + 1, 8)


def test_the_benchmark_runs_a_target(tmp_path, capsys):
    before = Rows(tmp_path / "r", "Fuzzing", "textsvm bench fuzz", stays=True)
    before.put("other from 0", {"cases": 7})
    before.put("models from 0", {"cases": 3})
    fuzz.main(["--cases", "41", "--jobs", "2", "--target", "models", "-o", str(tmp_path / "r")])
    assert "'cases': 41, 'findings': 0, 'crashes': 0, 'hangs': 0" in capsys.readouterr().out
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [(row["key"], row["cases"]) for row in rows] == [("other from 0", 7), ("models from 0", 41)]
    assert rows[1]["jobs"] == 2


def test_without_a_checkout_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(fuzz, "FOLDER", tmp_path / "none")
    with pytest.raises(InputError, match="needs a checkout"):
        fuzz.main([])


BAD = """
import os, time
import numpy as np
kept = []
def run(seed):
    if seed == 1:
        raise AssertionError("a promise is broken")
    if seed == 2:
        os._exit(7)
    if seed == 3:
        time.sleep(60)
    if seed == 4:
        kept.append(b"x" * (200 << 20))
        time.sleep(60)
    if seed == 5:
        kept.append(np.empty(1 << 32, np.uint8))
"""


def test_the_harness_sees_what_cases_do(tmp_path, monkeypatch, capsys):
    (tmp_path / "fuzz").mkdir()
    (tmp_path / "fuzz" / "bad_ones.py").write_text(BAD)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(fuzz, "ONCE", 2.0)
    monkeypatch.setattr(fuzz, "MOST_BYTES", 1 << 26)
    counts = fuzz.attack(fuzz._Given("bad_ones", str(tmp_path), True), range(20), 600)
    assert (counts.cases, counts.findings, counts.crashes, counts.hangs) == (20, 2, 1, 1)
    said = capsys.readouterr().out
    for line in ("1: findings: AssertionError: a promise is broken", "2: crashes: the process ended with 7"):
        assert f"bad_ones {line}" in said
    assert "bad_ones 3: hangs: more than 2 s" in said
    assert "bad_ones 4: findings: more than 67,108,864 bytes" in said


def test_a_case_is_slow_if_it_is_so_again(monkeypatch):
    monkeypatch.setattr(fuzz, "MOST_SECONDS", 0.05)
    tried, sent = [], []
    slow = {1: (1,), 2: (1, 2)}

    def run(seed):
        tried.append(seed)
        time.sleep(0.06 if tried.count(seed) in slow.get(seed, ()) else 0)

    class Pipe:
        send = sent.append

    counts = fuzz._batch(run, range(4), Pipe, [0.0] * 3, 0)
    assert tried == [0, 1, 1, 2, 2, 3]
    assert [(found.kind, found.seed) for found in sent] == [("hangs", 2)]
    assert counts.cases == 4
