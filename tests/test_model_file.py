"""Save and load: nothing is lost, nothing hostile gets in, nothing is left half written."""

import datetime
import errno
import json
import os
import pickle
import struct
from fractions import Fraction
from unittest.mock import Mock

import joblib
import numpy as np
import pytest
from loading import load, reloaded
from refusals import refuses
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import textsvm
from textsvm import SVC, SVR, CalibratedSVC, EditDistance, GapWeighted, InputError, OneClassSVM, Spectrum
from textsvm.model.file import describe, sealed
from textsvm.model.settings import STRATEGIES
from textsvm.training.train import prepare

KERNELS = [
    Spectrum(p=2),
    Spectrum(p=(1, 3), weight="log", idf=True),
    Spectrum(p=3, weight="intersection"),
    EditDistance(gamma=0.1, relative=True),
    GapWeighted(p=2, decay=0.3),
    GapWeighted(p=3, weights=(0.0, 1.0, 2.0)),
]
TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"]
LABELS = ["fruit", "cloth", "fruit", "cloth", "cloth", "cloth"]


@pytest.fixture(scope="module")
def model():
    return SVC(Spectrum(p=2), C=5).fit(TEXTS, LABELS)


@pytest.fixture
def path(model, tmp_path):
    textsvm.save(model, tmp_path / "m.textsvm", {"corpus": "fruit"})
    return tmp_path / "m.textsvm"


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_loaded_model_decides_the_same(kernel, tmp_path):
    model = SVC(kernel, C=5, punctuation=False, max_length=30).fit(TEXTS, LABELS)
    again = reloaded(model, tmp_path / "m.textsvm", {"a": [1, "ü"]})
    new = [*TEXTS, "", "日本 banana", "Ünseen sýmbols!"]
    np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert again.kernel_.get_params() == model.kernel_.get_params()
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.model_.info == {"a": [1, "ü"]}


NEW = [*TEXTS, "", "日本 banana", "Ünseen sýmbols!"]
THREE = ["fruit", "cloth", "fruit", "day", "day", "cloth"]
NUMBERS = [1.0, 2.5, 1.5, 7.0, 8.0, 9.0]


@pytest.mark.parametrize("multiclass", STRATEGIES)
@pytest.mark.parametrize("labels", [LABELS, THREE, [2, 1, 2, 0, 0, 1]], ids=str)
def test_many_classes(multiclass, labels, tmp_path):
    weights = {labels[0]: np.float64(2.0), labels[1]: 0.5}
    model = SVC(Spectrum(p=2), np.float64(5), multiclass=multiclass, class_weight=weights).fit(TEXTS, labels)
    again = reloaded(model, tmp_path / "m.textsvm")
    np.testing.assert_array_equal(again.decision_function(NEW), model.decision_function(NEW))
    assert again.predict(NEW).tolist() == model.predict(NEW).tolist()
    assert again.n_support_.tolist() == model.n_support_.tolist()
    assert (again.multiclass, again.class_weight) == (multiclass, weights)


@pytest.mark.parametrize("estimator", [SVC, SVR, OneClassSVM])
def test_precomputed(estimator, tmp_path):
    K = prepare(SVC(Spectrum(p=2)).settings, TEXTS).gram.rows(np.arange(6))
    model = estimator("precomputed").fit(K, NUMBERS if estimator is SVR else THREE)
    again = reloaded(model, tmp_path / "m.textsvm")
    assert again.n_features_in_ == 6
    np.testing.assert_array_equal(again.predict(K[:2]), model.predict(K[:2]))
    refuses("features", again.predict, K[:2, :5])


CALIBRATED = [
    (method, reject, labels)
    for method in ("sigmoid", "isotonic")
    for reject, labels in [((0.3, 0.8), LABELS), (0.6, THREE), (None, THREE)]
]


@pytest.fixture(scope="module", params=CALIBRATED, ids=str)
def calibrated(request):
    method, reject, labels = request.param
    return CalibratedSVC(SVC(Spectrum(p=2)), method, cv=2, reject=reject).fit(TEXTS * 3, labels * 3)


def test_a_damaged_calibration_is_refused(calibrated, tmp_path):
    path = tmp_path / "m.textsvm"
    for name, array in calibrated.calibration_.items():
        for changed in (array * np.float64(np.nan), array[:-1], array.astype(np.float32), array[None]):
            textsvm.save(calibrated, path)
            _rewrite(path, **{f"calibration.{name}": np.ascontiguousarray(changed)})
            refuses(r"m\.textsvm", load, path)
    for change in (
        {"method": "magic", "reject": None},
        {"method": "sigmoid", "reject": [0.9, 0.1]},
        {"method": "sigmoid", "reject": "x"},
        {"method": "sigmoid", "reject": []},
        {"method": "sigmoid", "reject": [[]]},
        {"method": "sigmoid", "reject": [0.2, 0.4, 0.6]},
        {"method": "sigmoid"},
        3,
        None,
    ):
        textsvm.save(calibrated, path)
        _rewrite(path, lambda header, change=change: header.update(calibration=change))
        refuses(r"m\.textsvm", load, path)


def test_a_kernel_function_cannot_be_saved(tmp_path):
    model = SVC(lambda a, b: np.array([[float(s[0] == t[0]) for t in b] for s in a])).fit(TEXTS, LABELS)
    refuses("kernel function cannot be saved", textsvm.save, model, tmp_path / "m.textsvm")
    assert not any(tmp_path.iterdir())


@pytest.fixture(scope="module")
def many():
    """Twelve classes, and so 66 machines, each of the support vectors of two classes."""
    texts = [f"{letter * 3} {letter * k}" for letter in "abcdefghijkl" for k in range(4)]
    return SVC(Spectrum(p=2), multiclass="ovo").fit(texts, [text[0] for text in texts]), texts


def test_coefficients_of_many_machines_take_little_space(many, tmp_path):
    model, texts = many
    textsvm.save(model, tmp_path / "m.textsvm")
    arrays = read_tensors((tmp_path / "m.textsvm").read_bytes())
    packed = sum(array.nbytes for name, array in arrays.items() if name.startswith("dual_coef"))
    assert "dual_coef" not in arrays
    assert packed < model.dual_coef_.nbytes / 2
    again = load(tmp_path / "m.textsvm")
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
    np.testing.assert_array_equal(again.decision_function(texts), model.decision_function(texts))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("columns", lambda a: a + 1000),
        ("columns", lambda a: a - 1),
        ("columns", lambda a: np.append(a[:-1], a[-1] + 1000)),
        ("columns", lambda a: np.append(a[[0, 0]], a[2:])),
        ("columns", lambda a: np.append(a[[1, 0]], a[2:])),
        ("columns", lambda a: a[:-1]),
        ("columns", lambda a: a.astype(np.float32)),
        ("starts", lambda a: a[::-1]),
        ("starts", lambda a: a[:-1]),
        ("starts", lambda a: a + 1),
        ("starts", lambda a: np.where(a == a[5], 1 << 40, a)),
        ("data", lambda a: a * np.nan),
        ("data", lambda a: np.append(a, 1.0)),
    ],
)
def test_packed_coefficients_out_of_bounds(many, tmp_path, name, change):
    path = tmp_path / "m.textsvm"
    textsvm.save(many[0], path)
    before = read_tensors(path.read_bytes())[f"dual_coef.{name}"]
    _rewrite(path, **{f"dual_coef.{name}": np.ascontiguousarray(change(before))})
    refuses(r"m\.textsvm", load, path)


def test_the_file_has_no_code_in_it(path):
    content = path.read_bytes()
    assert b"pickle" not in content
    header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
    assert json.loads(header["__metadata__"]["textsvm"])["format_version"] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a textsvm model"),
        (b"PK\x03\x04zip", "not a textsvm model"),
        (b"\xff" * 64, "not a textsvm model"),
    ],
)
def test_foreign_files(content, message, write):
    refuses(message, load, write("x", content))


def test_what_is_no_model_file(tmp_path, model):
    (tmp_path / "empty").touch()
    (tmp_path / "pickle").write_bytes(pickle.dumps(model))
    os.mkfifo(tmp_path / "pipe")
    said = {"empty": "it is empty", "pickle": "looks like a pickle", "pipe": "neither a file nor a folder"}
    for name, sentence in {**said, "x" * 3000: "xxx"}.items():
        for read in (textsvm.load, load, describe):
            refuses(sentence, read, tmp_path / name)


def test_missing_file_folder_and_other_safetensors(tmp_path, write):
    refuses("not there", load, tmp_path / "none")
    refuses("a folder", load, tmp_path)
    refuses("not written by textsvm", load, write("x", tensor_bytes({"weight": np.zeros(3)})))


def test_every_truncation_is_noticed(path):
    content = path.read_bytes()
    for end in {*range(0, len(content), max(1, len(content) // 60)), len(content) - 1}:
        path.write_bytes(content[:end])
        with pytest.raises(InputError):
            load(path)


def _values(path, texts):
    """What a model says, or None where it is refused in one sentence."""
    sentence = ""
    try:
        return load(path).decision_function(texts)
    except InputError as error:
        sentence = str(error)
    assert "\n" not in sentence
    return None


def test_every_flipped_bit_is_noticed(path):
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in {*range(0, len(content), 7), *rng.integers(0, len(content), 200).tolist()}:
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        assert _values(path, ["a banana"]) is None, at


def test_a_digest_is_that_of_the_file(path, model):
    digest = load(path).model_.record.digest
    assert len(digest) == 64
    assert digest.encode() in path.read_bytes()
    assert load(path).model_.record.digest == digest
    textsvm.save(model, path, {"corpus": "other"})
    assert load(path).model_.record.digest != digest


def test_a_file_without_a_digest_is_refused(path):
    _rewrite(path, lambda header: header.pop("blake2b"))
    refuses("does not match its digest", load, path)


def test_a_file_has_the_bytes_that_safetensors_writes(path):
    before = path.read_bytes()
    _rewrite(path)
    assert path.read_bytes() == before


def _rewrite(path, change_header=None, **arrays):
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])["__metadata__"]["textsvm"]
    header = json.loads(header)
    if change_header:
        change_header(header)
    tensors = {**read_tensors(content), **arrays}
    path.write_bytes(sealed(tensor_bytes(tensors, metadata={"textsvm": json.dumps(header)})))


@pytest.mark.parametrize(
    "arrays",
    [
        {"codes": np.full(3, 255, np.uint8)},
        {"codes": np.zeros((2, 2), np.uint8)},
        {"offsets": np.array([0, 1 << 40], np.int64)},
        {"offsets": np.array([0, 5, 2, -1], np.int64)},
        {"offsets": np.array([], np.int64)},
        {"alphabet": np.array([0x110000] * 40, np.uint32)},
        {"dual_coef": np.full((1, 2), np.nan)},
        {"dual_coef": np.zeros((1, 99))},
        {"intercept": np.array([np.inf])},
        {"support": np.array([-1])},
    ],
    ids=str,
)
def test_arrays_out_of_bounds(path, arrays):
    _rewrite(path, **arrays)
    refuses(r"m\.textsvm", load, path)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("codes", lambda a: np.append(a[:-1], a.max() + 1), "symbols outside its alphabet"),
        ("codes", lambda a: np.append(a[:-1], 255), "symbols outside its alphabet"),
        ("alphabet", lambda a: np.append(a[:-1], 0x110000), "invalid code points, or a code point twice"),
        ("alphabet", lambda a: np.append(a[:-1], a[0]), "invalid code points, or a code point twice"),
        ("offsets", lambda a: np.append(a[:-1], a[-1] - 1), "document offsets are out of bounds"),
        ("offsets", lambda a: np.append(a[:-1], a[-1] + 1), "document offsets are out of bounds"),
        ("offsets", lambda a: np.r_[0, a[-1], a[2:]], "document offsets are out of bounds"),
        ("support", lambda a: a[::-1], "its support indices"),
        ("support", lambda a: a * 0, "its support indices"),
        ("support", lambda a: a - 1 - a[0], "its support indices"),
    ],
)
def test_damaged_arrays_are_told(path, name, change, message):
    array = read_tensors(path.read_bytes())[name]
    _rewrite(path, **{name: np.ascontiguousarray(change(array).astype(array.dtype))})
    refuses(message, load, path)


def test_the_cost_of_a_saved_kernel_is_that_of_all_its_parts(tmp_path):
    part, texts = GapWeighted(5), ["a" * 2000, "ab" * 1000]
    n = 1 + int(1 / part.cost.demand(np.full(2, 2000)))
    textsvm.save(SVC(part).fit(texts, [0, 1]), tmp_path / "m")
    refuses(
        "times what a saved model",
        textsvm.save,
        SVC(textsvm.Sum([part] * n)).fit(texts, [0, 1]),
        tmp_path / "m",
    )


BAD_LABELS = [
    [{"bytes": "日"}, {"bytes": "a"}],
    [{"bytes": 1}, {"bytes": 1}],
    [{"date": 5}, {"date": "2024-01-01"}],
    [{"date": "2024-99-01"}, {"date": "2024-01-01"}],
    [{"datetime64": [1, "evil"]}, {"datetime64": [2, "D"]}],
    [{"datetime64": 3}, {"datetime64": [2, "D"]}],
    [{"code": "x"}, {"code": "y"}],
    [{}, {"bytes": "a"}],
    [{"bytes": "a"}, "a"],
    [{"date": "2024-01-01"}, {"datetime": "2024-01-01T00:00:00"}],
]


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("format_version",), 99),
        (("estimator",), "os.system"),
        (("kernel", "name"), "__import__"),
        (("kernel", "p"), -1),
        (("kernel", "evil"), "x"),
        (("kernel",), "text"),
        (("parameters", "C"), "x"),
        (("parameters",), []),
        (("parameters", "normalise"), "unicode"),
        (("classes",), ["a"]),
        (("classes",), ["a", "b", "c"]),
        (("classes",), ["a", 1]),
        (("classes",), None),
        (("kernel",), "precomputed"),
        (("n_support",), [1]),
        (("n_support",), [-1, 2]),
        (("n_support",), [1 << 40, 1 << 40]),
        (("parameters", "multiclass"), "all"),
        (("parameters", "class_weight"), [["a", -1]]),
        (("parameters", "class_weight"), [1]),
        (("classes",), [["a"], {"b": 1}]),
        (("info",), 3),
        (("scale",), "x"),
        (("scale",), -1),
        (("scale",), 1e300),
        (("scale",), [1]),
        *((("classes",), classes) for classes in BAD_LABELS),
    ],
    ids=str,
)
def test_hostile_headers(path, keys, value):
    def change(header):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    _rewrite(path, change)
    refuses(r"m\.textsvm", load, path)


@pytest.fixture
def given_path(tmp_path):
    K = prepare(SVC(Spectrum(p=2)).settings, TEXTS).gram.rows(np.arange(6))
    textsvm.save(SVC("precomputed", C=5).fit(K, LABELS), tmp_path / "m.textsvm")
    return tmp_path / "m.textsvm"


def test_support_indices_beyond_the_columns_of_a_given_matrix(given_path):
    last = int(read_tensors(given_path.read_bytes())["support"][-1])
    _rewrite(given_path, lambda header: header.update(n_features_in=last + 1))
    assert load(given_path).n_features_in_ == last + 1
    _rewrite(given_path, lambda header: header.update(n_features_in=last))
    refuses("support indices are out of bounds", load, given_path)


@pytest.mark.parametrize("n_features", [None, "6", True, -6, 6.0, 1 << 80])
def test_numbers_of_columns_that_cannot_be(given_path, n_features):
    _rewrite(given_path, lambda header: header.update(n_features_in=n_features))
    refuses(r"m\.textsvm", load, given_path)


def test_a_p_that_no_support_vector_has_is_refused(tmp_path):
    textsvm.save(SVC(GapWeighted(p=2)).fit(TEXTS, LABELS), tmp_path / "m.textsvm")
    _rewrite(tmp_path / "m.textsvm", lambda header: header["kernel"].update(p=900))
    refuses("needs p = 900 symbols and its longest support vector has 15", load, tmp_path / "m.textsvm")
    _rewrite(tmp_path / "m.textsvm", lambda header: header["kernel"].update(p=200_000))
    refuses("whole number from 1 to 1,000", load, tmp_path / "m.textsvm")


def _nested(levels):
    kernel = {"name": "spectrum", "p": 2}
    for _ in range(levels):
        kernel = {"name": "sum", "weights": None, "kernels": [kernel]}
    return kernel


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda kernel: kernel.update(kernels=[]), "a list of kernels, not empty"),
        (lambda kernel: kernel.update(kernels=[3, 4]), "part 0 of a sum of kernels is 3"),
        (lambda kernel: kernel.update(weights=[1, -1]), "not negative"),
        (lambda kernel: kernel["kernels"][1].update(name="other"), "its kernel 'other' is not known"),
        (lambda kernel: kernel["kernels"][1].pop("name"), "damaged: it has no 'name'"),
        (lambda kernel: kernel["kernels"][1].update(p=900), "needs p = 900 symbols"),
        (lambda kernel: kernel["kernels"][0].update(_nested(11)), "nested more than 10 deep"),
        (lambda kernel: kernel.update(kernels=[_nested(0)] * 101, weights=None), "at most 100 kernels"),
        (lambda kernel: kernel["kernels"][0].update(idf=True, p=3), "weights are damaged"),
    ],
)
def test_damaged_sums_are_refused(tmp_path, change, message):
    kernel = textsvm.Sum([textsvm.Spectrum(2, "log", idf=True), GapWeighted(2)], [1, 2])
    textsvm.save(SVC(kernel).fit(TEXTS, LABELS), tmp_path / "m.textsvm")
    _rewrite(tmp_path / "m.textsvm", lambda header: change(header["kernel"]))
    refuses(message, load, tmp_path / "m.textsvm")


def test_classes_of_many_machines_are_counted_not_listed(path):
    def change(header):
        header.update(classes=list(range(60_000)))
        header["parameters"]["multiclass"] = "ovo"

    _rewrite(path, change)
    refuses("1 biases and needs 1799970000", load, path)


def test_coefficients_that_do_not_fit_in_memory(many, tmp_path, monkeypatch):
    textsvm.save(many[0], tmp_path / "m.textsvm")
    monkeypatch.setattr("textsvm.runtime.device.free_memory", lambda device: many[0].dual_coef_.nbytes - 1)
    refuses(r"coefficients take .* bytes of memory", load, tmp_path / "m.textsvm")


def test_weights_of_a_kernel_may_be_an_array(tmp_path):
    model = SVC(GapWeighted(p=3, weights=np.array([0.0, 1.0, 2.0])), C=5).fit(TEXTS, LABELS)
    again = reloaded(model, tmp_path / "m.textsvm")
    np.testing.assert_array_equal(again.decision_function(NEW), model.decision_function(NEW))


def test_arrays_in_what_is_saved_with_a_model_become_lists(model, tmp_path):
    info = {"scores": np.arange(3), "deep": [{"x": np.float32(0.5), "y": np.eye(2)}]}
    textsvm.save(model, tmp_path / "m.textsvm", info)
    expected = {"scores": [0, 1, 2], "deep": [{"x": 0.5, "y": [[1, 0], [0, 1]]}]}
    assert load(tmp_path / "m.textsvm").model_.info == expected


def test_what_json_cannot_hold_is_refused_before_anything_is_written(model, tmp_path):
    circle = []
    circle.append(circle)
    for info in ({"a": {1, 2}}, {"a": object()}, {"a": circle}):
        refuses("cannot be saved as JSON", textsvm.save, model, tmp_path / "m.textsvm", info)
    assert not any(tmp_path.iterdir())


DAY = datetime.date(2024, 2, 29)
KINDS_OF_LABELS = {
    "bytes": [b"fruit", b"\xff\x00cloth"],
    "array of bytes": np.array([b"fruit", b"cl\xe4th"]),
    "dates": [DAY, datetime.date(1, 1, 1)],
    "times": [datetime.datetime(2024, 2, 29, 1, 2, 3, 4), datetime.datetime(1999, 1, 1)],
    "days": np.array(["2024-02-29", "1600-01-01"], "datetime64[D]"),
    "nanoseconds": np.array(["2024-02-29T01:02:03.123456789", "1999-01-01"], "datetime64[ns]"),
    "five minutes": np.array([3, -4], "datetime64[5m]"),
    "small integers": np.array([3, -4], np.int8),
    "integers": [0, 1],
    "numbers": [1.0, 2.0],
    "bools": [True, False],
}


@pytest.mark.parametrize("kind", KINDS_OF_LABELS)
def test_labels_of_bytes_and_dates(kind, tmp_path):
    labels = np.array([KINDS_OF_LABELS[kind][i] for i in (0, 1, 0, 1, 1, 1)])
    weights = dict(zip(np.unique(labels).tolist(), (2.0, 0.5), strict=True))
    model = SVC(Spectrum(p=2), class_weight=weights).fit(TEXTS, labels)
    again = reloaded(model, tmp_path / "m.textsvm")
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.classes_.dtype.kind == model.classes_.dtype.kind
    assert again.predict(NEW).tolist() == model.predict(NEW).tolist()
    assert again.class_weight == weights


def test_labels_that_no_file_holds_are_refused_before_anything_is_written(tmp_path):
    labels = [Fraction(1, 3), Fraction(1, 2)] * 3
    model = SVC(Spectrum(p=2)).fit(TEXTS, np.array(labels, object))
    with pytest.raises(InputError, match=r"a label is Fraction\(1, 3\), of type Fraction, and a file holds"):
        textsvm.save(model, tmp_path / "m.textsvm")
    assert not any(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_model(path, model, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    refuses("No space left", textsvm.save, model, path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["m.textsvm"]


def test_unwritable_places(model, tmp_path):
    refuses("No such file", textsvm.save, model, tmp_path / "none" / "m.textsvm")
    refuses("is a folder", textsvm.save, model, tmp_path)


SHORT, BITS = ["aab", "abb", "bba", "bbb"] * 3, [0, 1, 0, 1] * 3


def test_what_cannot_be_saved_is_one_sentence(tmp_path):
    pipeline = make_pipeline(FunctionTransformer(), textsvm.SVC("fast")).fit(SHORT, BITS)
    said = r"'functiontransformer' of the Pipeline.*joblib\.dump.*runs any code.*save\(pipeline\[-1\], path\)"
    refuses(said, textsvm.save, pipeline, tmp_path / "m")
    refuses(r"not FunctionTransformer; joblib", textsvm.save, FunctionTransformer(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", [textsvm.SVC("fast"), textsvm.CalibratedSVC(textsvm.SVC("fast"), cv=2)])
def test_pipelines_are_kept(model, tmp_path):
    values = model.fit(SHORT, BITS).decision_function(["ab", "b"]).tolist()
    for alone in (make_pipeline(model), make_pipeline("passthrough", model)):
        textsvm.save(alone, tmp_path / "m")
        assert load(tmp_path / "m").decision_function(["ab", "b"]).tolist() == values
    pipeline = make_pipeline(FunctionTransformer(), model)
    joblib.dump(pipeline, tmp_path / "p")
    for again in (joblib.load(tmp_path / "p"), pickle.loads(pickle.dumps(pipeline))):
        assert again.decision_function(["ab", "b"]).tolist() == values
