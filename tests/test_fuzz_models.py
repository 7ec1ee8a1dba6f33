"""Changed model files: some of those that fuzz/models.py makes, and those that were findings once."""

import importlib
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes
from scipy.sparse import csr_array

import textsvm
from benchmarks.harness import BenchmarkReport
from fuzz import _runner as fuzz
from fuzz.__main__ import main
from textsvm import InputError
from textsvm.kernels.mers.windows import Mask, MaskedWindows, windows_of
from textsvm.model import file as model_file
from textsvm.model.file import sealed
from textsvm.text.documents import encode

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


def test_every_seed_predicts(models):
    """Otherwise cases would end with the refusal of the examples, and not with predictions."""
    for path in models.SEEDS.glob("*.textsvm"):
        for read in models.LOADS:
            models._decide(read(path))


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


@pytest.mark.slow
def test_a_moment_of_kernel_options():
    run_case = importlib.import_module("fuzz.kernels").run
    for seed in range(200):
        run_case(seed)


#: A seed of fuzz/seeds/models, where in its header, and what was put there: findings once.
FOUND = [
    ("classes_ovo", ("parameters", "punctuation"), [1] * 1000),
    ("classes_ovo", ("parameters", "max_length"), 1 << 64),
    ("classes_ovo", ("format_version",), "\x1b[31m\n"),
    ("columns", ("kernel", "kernels", 1, "kernel", "gamma"), 10**400),
    ("kernel_dna_mismatch", ("kernel", "alphabet"), 10**400),
    ("kernel_edit", ("kernel", "gamma"), 10**400),
    ("kernel_sum", ("kernel", "kernels", 1, "gamma"), 1 << 64),
    ("vectors_gaussian", ("kernel", "gamma"), 10**400),
    ("vectors_polynomial", ("kernel", "gamma"), 10**400),
    ("kernel_dna_gapped", ("kernel", "g"), 10**12),
    ("long_gap", ("kernel", "p"), 800),
    ("long_gap", ("kernel", "p"), 255),
    ("long_gap_weights", ("kernel",), {"name": "gap", "p": 800, "weights": [1.0] * 800}),
    ("long_gap", ("kernel",), {"name": "sum", "kernels": [{"name": "gap", "p": 60}] * 9}),
    ("long_dna_gapped", ("kernel",), {"name": "gapped", "g": 100, "m": 2}),
    ("long_dna_gapped", ("kernel",), {"name": "gapped", "g": 200, "m": 2}),
]
#: Indices that ascend if differences of 64-bit integers may overflow.
LEAST = -(1 << 63)
OVERFLOWING = [
    ("precomputed", {"support": [0, 1, LEAST, -1]}),
    ("kernel_edit", {"offsets": [0, 8, LEAST, -1]}),
    ("sparse_linear", {"vectors.indptr": [0, 1, LEAST, -1]}),
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
    for read in models.LOADS:
        with pytest.raises(InputError) as found:
            read(path)
        assert "\n" not in str(found.value)
        assert len(str(found.value)) < 500


def rewritten(models, name, path, header=None, arrays=None):
    text, before = models._parts(name)
    changed = json.dumps(json.loads(text) | (header or {}))
    path.write_bytes(sealed(tensor_bytes(before | (arrays or {}), metadata={"textsvm": changed})))
    return path


@pytest.mark.parametrize(("name", "arrays"), OVERFLOWING, ids=str)
def test_differences_that_overflow(models, name, arrays, tmp_path):
    [(key, begin)] = arrays.items()
    changed = models._parts(name)[1][key].copy()
    changed[: len(begin)] = begin
    assert (np.diff(changed) >= 0).all()
    path = rewritten(models, name, tmp_path / "m.textsvm", arrays={key: changed})
    for read in models.LOADS:
        refuses(r"ascend|out of bounds", read, path)


@pytest.mark.parametrize("name", ["sparse_gaussian", "sparse_linear", "sparse_sum", "sparse_regression"])
@pytest.mark.parametrize("width", [(1 << 31) + 5, (1 << 62) - 1])
def test_sparse_vectors_of_any_number_of_columns(models, name, width, tmp_path):
    path = rewritten(models, name, tmp_path / "m.textsvm", {"n_features_in": width})
    same = csr_array(models.SPARSE)
    wide = csr_array((same.data, same.indices.astype(np.int64), same.indptr), shape=(6, width))
    expected = textsvm.load(models.SEEDS / f"{name}.textsvm").decision_function(same)
    np.testing.assert_allclose(textsvm.load(path).decision_function(wide), expected, atol=1e-6)


def test_models_that_fit_made_are_not_refused():
    for kernel, n in (
        (textsvm.GapWeighted(20), 10**5),
        (textsvm.GapWeighted(300), 400),
        (textsvm.GapWeighted(1000, weights=[1.0] * 5 + [0.0] * 995), 10**5),
        (textsvm.GappedKmers(16, 5), 10**6),
        (textsvm.GappedKmers(20, 15), 10**6),
        (textsvm.GappedKmers(100, 2), 100),
        (textsvm.BoundedGap(5, span=10), 10**6),
        (textsvm.BoundedGap(64), 100),
    ):
        kernel.check()
        assert kernel.cost.demand(np.full(2, n)) <= 1, kernel
    assert textsvm.GapWeighted(300).cost.demand(np.full(2, 1000)) > 1
    assert textsvm.BoundedGap(64).cost.demand(np.full(6, 816)) > 1  # took 13 s


def test_few_windows_of_many_masks_take_little_memory():
    windows = windows_of(encode(["acgtacgtaaggcatg" * 40] * 5), 14, False)
    vocabulary, _ = MaskedWindows.learn(windows, Mask(tuple(range(10))))
    assert sum(0 if one.ranks is None else one.ranks.nbytes for one in vocabulary.stages) < 1 << 16


def test_a_great_whole_gamma_of_edit_distances_does_not_overflow():
    K = textsvm.EditDistance((1 << 62) + 1)(["abcd"], ["abcd", "abc", "ab", "a", ""])
    np.testing.assert_array_equal(K, [[1, 0, 0, 0, 0]])


def test_mers_of_many_letters_have_no_table(models, tmp_path):
    kernel = {"name": "mismatch", "k": 800, "m": 1}
    path = rewritten(models, "long_dna_mismatch", tmp_path / "m.textsvm", {"kernel": kernel})
    assert np.isfinite(textsvm.load(path).decision_function(models.LONG_DNA)).all()


def test_gapped_windows_of_too_many_masks_are_refused_at_once():
    refuses("ways to leave", textsvm.GappedKmers(10**6, 10**6 - 1).check)
    for g, m in ((10**12, 10**9), (1 << 62, 1 << 61), (1 << 32, 0)):
        refuses(f"g={g} .* from 1 to 1,048,576", textsvm.GappedKmers(g, m), ["abc", "bcd"])
    textsvm.GappedKmers(10**6, 0).check()


def test_sparse_values_of_hardly_any_bytes_are_refused(monkeypatch):
    monkeypatch.setattr("textsvm.runtime.device.free_memory", lambda device: 1 << 62)
    model_file.require_room("coefficients", 1 << 28, 8)
    refuses("would take", model_file.require_room, "coefficients", (1 << 28) + 1, 8)


@pytest.mark.slow
def test_the_benchmark_runs_a_target(tmp_path, capsys):
    before = BenchmarkReport(tmp_path / "r", "Fuzzing", "python -m fuzz", keep_commits=True)
    before.put("other from 0", {"cases": 7})
    before.put("models from 0", {"cases": 3})
    main(["models", "--cases", "41", "--jobs", "2", "-o", str(tmp_path / "r")])
    assert "'cases': 41, 'findings': 0, 'crashes': 0, 'hangs': 0" in capsys.readouterr().out
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [(row["key"], row["cases"]) for row in rows] == [("other from 0", 7), ("models from 0", 41)]
    assert rows[1]["jobs"] == 2


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


@pytest.mark.slow
def test_the_harness_sees_what_cases_do(tmp_path, monkeypatch, set_values, capsys):
    (tmp_path / "fuzz").mkdir()
    (tmp_path / "fuzz" / "bad_ones.py").write_text(BAD)
    monkeypatch.syspath_prepend(tmp_path)
    set_values(fuzz, ONCE=2.0, MOST_BYTES=1 << 26)
    counts = fuzz.attack(fuzz._Task("bad_ones", str(tmp_path), True), range(20), 600)
    assert (counts.cases, counts.findings, counts.crashes, counts.hangs) == (20, 2, 1, 1)
    said = capsys.readouterr().out
    for line in ("1: findings: AssertionError: a promise is broken", "2: crashes: the process ended with 7"):
        assert f"bad_ones {line}" in said
    assert "bad_ones 3: hangs: more than 2 s" in said
    assert "bad_ones 4: findings: more than 67,108,864 bytes" in said
