"""Inverted indexes of support vectors: the same decisions, mapped from a file; damage is noticed."""

import os
import pickle
import random
import re
import subprocess
import sys
from dataclasses import replace
from subprocess import PIPE

import numpy as np
import pytest
from command import report, run
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses

import textsvm
from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    InputError,
    MultilabelSVC,
    OneClassSVM,
    Spectrum,
    Sum,
    export,
    load,
)
from textsvm.errors import DamagedModel
from textsvm.evaluation.explanation import explain
from textsvm.kernels.spectrum import kernel as module
from textsvm.kernels.spectrum.kernel import PmerIndex
from textsvm.model.file import FORMAT_VERSION, MAPPED, packed, read_content
from textsvm.model.trained import as_model
from textsvm.runtime import device as devices
from textsvm.sources import texts as source
from textsvm.sources.texts import PackedDocuments
from textsvm.text.documents import encode

RANDOM = random.Random(5)
TEXTS = ["".join(RANDOM.choices("abAB é" if i % 2 else "abcde ", k=60 + 9 * i)) for i in range(16)]
TEXTS[0] += "z" * 700
LABELS = ["one", "two", "one", "two"] * 4
THREE = ["one", "two", "one", "three"] * 4
NEW = [*TEXTS, "", "日本 banana", "zz" * 400, "abab", "é"]
KERNELS = [
    Spectrum(2),
    Spectrum((1, 3), normalised=False),
    Spectrum((1, 40)),
    Spectrum((1, 3), "log", idf=True),
    Spectrum((3, 6), "presence", idf=True),
    Spectrum((2, 4), "intersection"),
    Spectrum((1, 4), "intersection", idf=True),
    Spectrum((1, 5), "log", idf=True, odds=True, keep_case=True),
    Spectrum((1, 2), "log", idf=True, tokens="words"),
    0.9 * Spectrum((1, 5), "log", idf=True, odds=True, keep_case=True)
    + 0.1 * Spectrum((1, 5), "intersection"),
    Sum([Spectrum((1, 3), "log", idf=True), Spectrum((1, 2), tokens="words")], weights=[1, 3]),
]


@pytest.fixture
def indexed(monkeypatch):
    """Every model that can have an index gets one."""
    monkeypatch.setattr(source, "MOST_BYTES", 0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.textsvm"


def saved(model, path):
    textsvm.save(model, path, {"a": 1})
    return load(path)


def assert_close(values, expected):
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12 * max(1, np.abs(expected).max()))


def test_a_mapped_file_needs_no_free_memory_of_its_size(indexed, path, set_values):
    """Other files are read, and refused before if they do not fit."""
    textsvm.save(SVC(KERNELS[0]).fit(TEXTS, LABELS), path)
    set_values(devices, SMALL=0, free_memory=lambda device: path.stat().st_size)
    assert len(load(path).predict(NEW)) == len(NEW)
    plain = path.with_name("plain.textsvm")
    content = read_content(path)
    arrays = {name: array for name, array in content.arrays.items() if "index" not in name}
    plain.write_bytes(
        b"".join(map(bytes, packed({**content.header, "format_version": FORMAT_VERSION}, arrays)))
    )
    refuses("bytes of memory to read, and", read_content, plain)


@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["2 classes", "3 classes"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_decisions_are_those_of_the_texts(indexed, path, kernel, labels):
    model = SVC(kernel, C=5).fit(TEXTS, labels)
    loaded = saved(model, path)
    assert read_content(path).header["format_version"] == MAPPED == 4
    assert loaded.support.index
    assert_close(loaded.decision_function(NEW), model.decision_function(NEW))
    assert loaded.predict(NEW).tolist() == model.predict(NEW).tolist()
    again = saved(loaded, path)  # over the file that is mapped
    assert_close(again.decision_function(NEW), model.decision_function(NEW))
    assert_close(pickle.loads(pickle.dumps(again)).decision_function(NEW), model.decision_function(NEW))


@pytest.mark.parametrize(
    "model",
    [
        SVR(Spectrum((1, 3), "log", idf=True)).fit(TEXTS, np.arange(16.0)),
        OneClassSVM(Spectrum((1, 3))).fit(TEXTS),
        MultilabelSVC(Spectrum((1, 3))).fit(TEXTS, [[label, "all"] for label in LABELS[:-1]] + [[]]),
        CalibratedSVC(SVC(Spectrum((1, 3))), cv=2).fit(TEXTS, LABELS),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_task(indexed, path, model):
    loaded = saved(model, path)
    assert loaded.support.index
    assert_close(loaded.decision_function(NEW), as_model(model).decision_function(NEW))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_file_without_index_decides_by_an_index_in_memory(path, kernel, monkeypatch):
    model = SVC(kernel, C=5, device="cpu").fit(TEXTS, LABELS)
    expected = model.decision_function(NEW)
    monkeypatch.setattr(source, "LEAST_COUNTED", 1)
    loaded, made = saved(model, path), []
    assert not loaded.support.index
    real = PmerIndex.of
    monkeypatch.setattr(PmerIndex, "of", lambda *given: made.append(1) or real(*given))
    assert_close(loaded.decision_function(NEW), expected)
    assert made
    monkeypatch.setattr(source, "FEW_VECTORS", 0)
    made.clear()
    assert_close(load(path).decision_function(NEW), expected)
    assert not made


def test_many_machines_on_few_texts_decide_by_an_index_in_memory(path, monkeypatch):
    """A weight of each machine for each substring takes more bytes than the lists."""
    made, real = [], PmerIndex.of
    monkeypatch.setattr(PmerIndex, "of", lambda *given: made.append(1) or real(*given))
    symbols = Spectrum((1, 5)).features.occurrences(encode(TEXTS).lengths).sum()
    monkeypatch.setattr(source, "LEAST_COUNTED", 2 * symbols)
    for labels, expected in ((LABELS, 0), (THREE, 1)):
        model = SVC(Spectrum((1, 5)), C=1e-3, device="cpu").fit(TEXTS, labels)
        assert len(model.support_) == len(TEXTS)
        saved(model, path).predict(NEW)
        assert len(made) == expected


FRESH = """
import re, sys
from textsvm import load
load(sys.argv[1]).predict([sys.stdin.read()])
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_the_first_prediction_of_many_machines_takes_little_memory(path):
    words = ["".join(RANDOM.choices("abcdefghij", k=RANDOM.randint(2, 8))) for _ in range(4000)]
    texts = [" ".join(RANDOM.choices(words, k=1000)) for _ in range(36)]
    textsvm.save(SVC(Spectrum((1, 6))).fit(texts, [str(i % 12) for i in range(36)]), path)
    command = [sys.executable, "-c", FRESH, str(path)]
    done = subprocess.run(command, input=texts[0], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 120_000  # kB; 175 MB with weights


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("n", "symbols", "classes", "mapped"), [(600, 90, 2, 0), (36, 4000, 12, 0), (24, 250_000, 2, 1)]
)
def test_the_memory_of_a_first_prediction_is_what_train_says(tmp_path, n, symbols, classes, mapped):
    words = [
        "".join(RANDOM.choices("abcdefghijklmnopqrstuvwxyz", k=RANDOM.randint(2, 8))) for _ in range(9000)
    ]
    often = np.minimum(np.random.default_rng(1).zipf(1.3, (n, symbols // 6)), len(words)) - 1
    texts = [" ".join(words[k] for k in row) for row in often]
    rows = [f"{i % classes}\t{text}\n" for i, text in enumerate(texts)]
    (tmp_path / "c.tsv").write_text("".join(rows))
    told = report("train", "c.tsv", "-o", "m.textsvm", "--json", cwd=tmp_path)
    assert (read_content(tmp_path / "m.textsvm").header["format_version"] == MAPPED) == mapped
    command = [sys.executable, "-c", "import textsvm.cli.predictions\n" + FRESH, str(tmp_path / "m.textsvm")]
    done = [
        subprocess.run(command, input=texts[0], capture_output=True, text=True, check=True) for _ in range(2)
    ]
    assert told["prediction"]["bytes"] == pytest.approx(int(done[1].stdout) << 10, rel=0.3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("abcé", min_size=3, max_size=40), min_size=1, max_size=6),
    st.lists(st.text("abcéx", max_size=60), min_size=1, max_size=5),
    st.tuples(st.integers(1, 3), st.integers(0, 3)),
    st.sampled_from(["count", "presence", "log", "intersection"]),
    st.booleans(),
    st.booleans(),
)
def test_values_are_those_of_kernel_rows(columns, others, lengths, weight, idf, normalised):
    kernel = Spectrum((lengths[0], sum(lengths)), weight, idf=idf, normalised=normalised)
    documents = encode(columns)
    kernel.fit(documents)
    coef = np.random.default_rng(1).normal(size=(2, len(columns)))
    cpu, read = devices.select("cpu"), encode(others, documents.alphabet)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", 3)
        index = PmerIndex.of(kernel, documents)
        index = PmerIndex.restore(kernel, index.state(), documents)
        values = index.predictor(coef, cpu).values(read)
    assert_close(values, kernel.predictor(documents, coef, cpu).values(read))


@pytest.mark.parametrize("kernel", KERNELS[:8], ids=str)
def test_compiled_values_have_the_bits_of_numpy(kernel, monkeypatch):
    documents = encode(TEXTS)
    kernel = kernel.__sklearn_clone__()
    if kernel.odds:
        documents = documents.with_classes(np.arange(16) % 2)
    kernel.fit(documents)
    predictor = PmerIndex.of(kernel, documents).predictor(
        np.random.default_rng(1).normal(size=(3, 16)), devices.select("cpu")
    )
    read, values = encode(NEW, documents.alphabet), []
    for numpy in (True, False):
        monkeypatch.setattr(module, "use_numpy", lambda _, numpy=numpy: numpy)
        values.append(predictor.values(read))
        assert (values[-1] == [predictor.values(read.take([i]))[0] for i in range(len(NEW))]).all()
    assert (values[0] == values[1]).all()


def test_training_texts_are_decompressed_when_something_reads_them(indexed, path, monkeypatch):
    model = SVC(KERNELS[9], C=5).fit(TEXTS, THREE)
    loaded = saved(model, path)
    loaded.predict(NEW)
    views = loaded.support.documents.documents.values()
    assert all(isinstance(own, PackedDocuments) and "codes" not in vars(own) for own in views)
    explain(loaded, NEW, similar=0)
    assert not any("codes" in vars(own) for own in views)
    [explanation], [expected] = explain(loaded, [TEXTS[3]]), explain(model, [TEXTS[3]])
    assert [similar.text for similar in explanation.similar] == [similar.text for similar in expected.similar]
    assert any("codes" in vars(own) for own in views)
    assert loaded.top_features(5) == as_model(model).top_features(5)


@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["2 classes", "3 classes"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_explanations_are_those_of_the_texts(indexed, path, kernel, labels, monkeypatch):
    model = SVC(kernel, C=5).fit(TEXTS, labels)
    expected, loaded = explain(model, NEW, similar=len(TEXTS)), saved(model, path)
    assert loaded.support.index
    monkeypatch.setattr(type(kernel), "rows", None)  # that count the support vectors
    for own, other in zip(explain(loaded, NEW, similar=len(TEXTS)), expected, strict=True):
        assert (own.prediction, own.towards, own.text) == (other.prediction, other.towards, other.text)
        for values_of in (
            lambda explanation: explanation.symbols,
            lambda explanation: [explanation.value, explanation.bias],
            lambda explanation: sorted(part.contribution for part in explanation.substrings),
        ):
            np.testing.assert_allclose(values_of(own), values_of(other), rtol=1e-11, atol=1e-11)
        similar, others = ({text.index: text.kernel for text in x.similar} for x in (own, other))
        assert similar == pytest.approx(others, rel=1e-6, abs=1e-6)  # float32


def test_exports_are_those_of_the_texts(indexed, path, tmp_path):
    model = SVC(KERNELS[9], C=5).fit(TEXTS, THREE)
    export(model, tmp_path / "a.html")
    export(saved(model, path), tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["2 classes", "3 classes"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_from_an_index_are_those_of_counted_texts(kernel, labels):
    support = as_model(SVC(kernel, C=5).fit(TEXTS, labels)).support
    coef = np.random.default_rng(0).normal(size=(3, len(support.indices)))
    for _, term in support.kernel.structure.terms:
        own = term.structure.read(support.documents)
        counted = term.features.weights(own, coef)
        found = term.features.weights(own, coef, term.features.index(own))
        for name, array in counted.state(0.0).items():
            np.testing.assert_array_equal(found.state(0.0)[name], array)


def test_damaged_lists_are_noticed_before_weights_are_added():
    support = as_model(SVC(Spectrum((1, 3))).fit(TEXTS, LABELS)).support
    index = support.kernel.features.index(support.documents)
    for name in ("owners", "counts"):
        damaged = replace(index, **{name: np.full_like(getattr(index, name), 200)})
        with pytest.raises(DamagedModel):
            damaged.weights(np.ones((1, len(support.indices))))


def test_exports_of_models_that_would_make_an_index_in_memory(path, tmp_path, monkeypatch):
    model = SVC(KERNELS[9], C=5).fit(TEXTS, THREE)
    export(model, tmp_path / "a.html")
    loaded = saved(model, path)
    monkeypatch.setattr(source, "LEAST_COUNTED", 1)
    assert isinstance(
        loaded.predictor.prepare(loaded.reader, devices.select("cpu")).parts[0].space, PmerIndex
    )
    export(loaded, tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_small_models_stay_as_they_are(path):
    saved(SVC(Spectrum(3)).fit(TEXTS, LABELS), path)
    assert read_content(path).header["format_version"] == FORMAT_VERSION


def test_an_index_that_would_be_too_large_is_not_stored(indexed, path, monkeypatch):
    monkeypatch.setattr(source, "MOST_INDEX", 100)
    assert not saved(SVC(Spectrum(3)).fit(TEXTS, LABELS), path).support.index


def test_a_model_without_memory_for_an_index_says_so(indexed, path, monkeypatch):
    monkeypatch.setattr(source, "free", lambda: 0)
    with pytest.warns(UserWarning, match="too little memory is free for an index"):
        assert not saved(SVC(Spectrum(3)).fit(TEXTS, LABELS), path).support.index


def test_texts_without_a_feature_need_their_texts(indexed, path):
    model = SVC(Spectrum(5)).fit([*TEXTS, "ab", "cd"], [*LABELS, "one", "two"])
    loaded = saved(model, path)
    assert not loaded.support.index
    assert_close(loaded.decision_function(NEW), model.decision_function(NEW))


def test_a_model_that_is_replaced_keeps_its_answers(indexed, path):
    first = SVC(Spectrum((1, 4)), C=5).fit(TEXTS, LABELS)
    loaded, expected = saved(first, path), first.decision_function(NEW)
    textsvm.save(SVC(Spectrum(2)).fit(TEXTS[:4], LABELS[:4]), path)
    assert_close(loaded.decision_function(NEW), expected)
    os.unlink(path)
    assert_close(loaded.decision_function(NEW), expected)


def test_every_byte_of_an_index_is_in_the_digest(indexed, path):
    saved(SVC(Spectrum((1, 2))).fit(TEXTS[:4], LABELS[:4]), path)
    content = path.read_bytes()
    for i in RANDOM.sample(range(len(content)), 300):
        path.write_bytes(content[:i] + bytes([content[i] ^ 1 << RANDOM.randrange(8)]) + content[i + 1 :])
        with pytest.raises(InputError):
            load(path)
    for size in (0, 7, 8, 100, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(InputError):
            load(path)
    path.write_bytes(content + b"x")
    with pytest.raises(InputError):
        load(path)


NAME = "index.0."
DAMAGE = {
    "keys out of order": ("keys_2", lambda a: a[::-1]),
    "keys out of range": ("keys_2", lambda a: a + np.uint64(1 << 62)),
    "keys of another type": ("keys_2", lambda a: a.astype(np.int64)),
    "starts too short": ("starts", lambda a: a[:-1]),
    "starts beyond the lists": ("starts", lambda a: np.append(a[:-1], a[-1] + a.dtype.type(1))),
    "starts in two dimensions": ("starts", lambda a: a[None]),
    "signed starts": ("starts", lambda a: a.astype(np.int64)),
    "starts of 64 bits": ("starts", lambda a: a.astype(np.uint64)),
    "owners of 64 bits": ("owners", lambda a: a.astype(np.uint64)),
    "counts of 64 bits": ("counts", lambda a: a.astype(np.uint64)),
    "no starts": ("starts", lambda a: a[:0]),
    "owners too short": ("owners", lambda a: a[:-1]),
    "owners of another type": ("owners", lambda a: a.astype(np.float32)),
    "counts too short": ("counts", lambda a: a[1:]),
    "numbers of 0": ("numbers", lambda a: a - a),
    "numbers of another type": ("numbers", lambda a: a.astype(np.int64)),
    "numbers in two dimensions": ("numbers", lambda a: a[None]),
    "counts of another type": ("counts", lambda a: a.astype(np.int16)),
    "squares of NaN": ("squares", lambda a: a * np.nan),
    "negative squares": ("squares", lambda a: -a),
    "squares too short": ("squares", lambda a: a[:-1]),
    "squares of another type": ("squares", lambda a: a.astype(np.float32)),
}
#: Damage of lists, which are checked when they are read.
LATE = {
    "starts that descend": ("starts", lambda a: np.concatenate([a[:1], a[1:-1][::-1], a[-1:]])),
    "lists that are too long": ("starts", lambda a: np.append(np.zeros(len(a) - 1, a.dtype), a[-1])),
    "owners beyond the support vectors": ("owners", lambda a: a + np.uint8(200)),
    "counts beyond the numbers": ("counts", lambda a: a + a.dtype.type(200)),
    "fewer numbers": ("numbers", lambda a: a[:2]),
    "no numbers": ("numbers", lambda a: a[:0]),
}


def damage(path, name, change):
    saved(SVC(Spectrum((1, 2))).fit(TEXTS, LABELS), path)
    header, arrays, *_ = read_content(path)
    arrays[NAME + name] = change(arrays[NAME + name])
    path.write_bytes(b"".join(packed(header, arrays)))


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_noticed_when_the_model_is_opened(indexed, path, case):
    damage(path, *DAMAGE[case])
    refuses(r"m\.textsvm is (damaged|not a usable model)", load, path)


@pytest.mark.parametrize("numpy", [True, False], ids=["NumPy", "compiled"])
@pytest.mark.parametrize("case", LATE)
def test_damage_of_lists_is_noticed_when_they_are_read(indexed, path, case, numpy, monkeypatch):
    damage(path, *LATE[case])
    monkeypatch.setattr(module, "use_numpy", lambda _: numpy)
    refuses("damaged", load(path).predict, NEW)


@pytest.mark.parametrize(
    "change",
    [
        lambda packed: packed[:-9],
        lambda packed: np.zeros_like(packed),
        lambda packed: np.frombuffer(__import__("zlib").compress(bytes([255] * 3000)), np.uint8),
    ],
    ids=["cut", "no texts", "other texts"],
)
def test_damaged_texts_are_noticed_when_they_are_read(indexed, path, change):
    saved(SVC(Spectrum((1, 2))).fit(TEXTS, LABELS), path)
    header, arrays, *_ = read_content(path)
    path.write_bytes(b"".join(packed(header, arrays | {"packed": change(arrays["packed"])})))
    refuses(r"damaged|do not fit", explain, load(path), ["abab"])


def overwrite(path, model):
    """Write another model into the same file, as `cp` does."""
    other = path.with_name("other")
    textsvm.save(model, other)
    path.write_bytes(other.read_bytes())


OTHERS = {
    "longer": SVC(Spectrum((1, 3)), C=0.01),
    "of equal length": SVC(Spectrum((1, 2)), C=0.01),
    "shorter": SVC(Spectrum(1)),
}


@pytest.mark.parametrize("new", OTHERS)
def test_a_changed_file_is_noticed_before_a_prediction(indexed, path, new):
    model = saved(CalibratedSVC(SVC(Spectrum((1, 2))), cv=2).fit(TEXTS, LABELS), path)
    expected = model.predict_proba(NEW)
    overwrite(path, OTHERS[new].fit(TEXTS, LABELS))
    for use in (model.predict, model.predict_proba, model.on("cpu").predict, lambda x: explain(model, x)):
        with pytest.raises(DamagedModel, match=r"m\.textsvm changed while it was in use; replace models by"):
            use(NEW)
    model = load(path)
    values = model.decision_function(NEW)
    textsvm.save(CalibratedSVC(SVC(Spectrum((1, 2))), cv=2).fit(TEXTS, LABELS), path)  # renames a new file
    assert (model.decision_function(NEW) == values).all()
    assert (load(path).predict_proba(NEW) == expected).all()


@pytest.mark.parametrize("error", [None, RuntimeError])
def test_a_file_that_changes_during_a_prediction_is_noticed(indexed, path, error, monkeypatch):
    def products(self, *arguments):
        with path.open("r+b") as file:
            file.write(b"x")
        if error:
            raise error
        return original(self, *arguments)

    model, original = saved(SVC(Spectrum((1, 2))).fit(TEXTS, LABELS), path), PmerIndex.products
    model.predict(NEW)
    monkeypatch.setattr(PmerIndex, "products", products)
    with pytest.raises(DamagedModel):
        model.predict(NEW)


def test_a_file_that_changes_while_it_is_loaded_is_noticed(indexed, path, monkeypatch):
    def restore(*arguments):
        os.utime(path)
        return original(*arguments)

    saved(SVC(Spectrum((1, 2))).fit(TEXTS, LABELS), path)
    os.utime(path, (1, 1))
    original = PmerIndex.restore
    monkeypatch.setattr(PmerIndex, "restore", restore)
    refuses("changed while it was in use", load, path)


def test_what_a_decision_is_made_of_after_the_prediction_is_no_part_of_the_file(indexed, path):
    """Calibration, biases and thresholds."""
    model = saved(CalibratedSVC(SVC(Spectrum((1, 2))), cv=2).fit(TEXTS, THREE), path)
    used = [*model.rule.maps.values(), *model.rule.conformity.state().values(), model.predictor.intercept]
    mapped = load(path).support.index[0].owners
    while mapped.base is not None and not isinstance(mapped.base, memoryview):
        mapped = mapped.base
    assert isinstance(mapped.base, memoryview)
    for array in used:
        while array.base is not None:
            array = array.base
            assert not isinstance(array, memoryview)


def test_a_pipe_of_texts_ends_with_a_sentence_when_the_model_changes(indexed, path):
    for new in (SVC(Spectrum((1, 3))), SVC(Spectrum(1))):
        saved(SVC(Spectrum((1, 2))).fit(TEXTS, LABELS), path)
        command = [sys.executable, "-m", "textsvm", "predict", str(path), "--format", "lines", "--quiet"]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
            print("abab", file=process.stdin, flush=True)
            assert '"label"' in process.stdout.readline()
            overwrite(path, new.fit(TEXTS, LABELS))
            out, err = process.communicate("abab\n", timeout=30)
        assert (process.returncode, out) == (1, "")
        assert re.fullmatch(r"textsvm: model file \S+ changed while it was in use; .*\n", err), err


def test_texts_that_would_not_fit_in_memory_are_refused(indexed, path):
    saved(SVC(Spectrum((1, 2))).fit(TEXTS, LABELS), path)
    header, arrays, *_ = read_content(path)
    offsets = arrays["offsets"].copy()
    offsets[-1] = 1 << 50
    path.write_bytes(b"".join(packed(header, arrays | {"offsets": offsets})))
    refuses("compressed texts", load, path)


@pytest.mark.slow
def test_commands_with_a_mapped_model(indexed, path, write, monkeypatch):
    corpus = write("c.tsv", "".join(f"{label}\t{text}\n" for label, text in zip(LABELS, TEXTS, strict=True)))
    run("train", corpus, "-o", path, "--kernel", "spectrum:1-3", "-q")
    assert load(path).support.index
    assert run("explain", path, corpus, "--json").stdout
    assert report("evaluate", path, corpus, "--json")
