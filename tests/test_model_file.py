"""Save and load: nothing is lost, nothing hostile gets in, nothing is left half written."""

import errno
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

import textsvm
from textsvm import SVC, EditDistance, GapWeighted, InputError, Spectrum

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
    textsvm.save(model, tmp_path / "m.textsvm", {"a": [1, "ü"]})
    again = textsvm.load(tmp_path / "m.textsvm")
    new = [*TEXTS, "", "日本 banana", "Ünseen sýmbols!"]
    np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert again.kernel_.get_params() == model.kernel_.get_params()
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.info_ == {"a": [1, "ü"]}


@pytest.mark.parametrize("labels", [[0, 1, 0, 1, 1, 1], [1.5, 2.5, 1.5, 2.5, 2.5, 2.5], [True, False] * 3])
def test_labels_of_other_types(labels, tmp_path):
    model = SVC(Spectrum(p=2)).fit(TEXTS, labels)
    textsvm.save(model, tmp_path / "m.textsvm")
    again = textsvm.load(tmp_path / "m.textsvm")
    assert again.predict(TEXTS).tolist() == model.predict(TEXTS).tolist()
    assert again.classes_.dtype == model.classes_.dtype


def test_the_file_has_no_code_in_it(path):
    content = path.read_bytes()
    assert b"pickle" not in content
    header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
    assert json.loads(header["__metadata__"]["textsvm"])["format_version"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a textsvm model"),
        (b"PK\x03\x04zip", "not a textsvm model"),
        (b"\xff" * 64, "not a textsvm model"),
    ],
)
def test_foreign_files(content, message, tmp_path):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match=message):
        textsvm.load(tmp_path / "x")


def test_missing_file_folder_and_other_safetensors(tmp_path):
    with pytest.raises(InputError, match="not there"):
        textsvm.load(tmp_path / "none")
    with pytest.raises(InputError, match="a folder"):
        textsvm.load(tmp_path)
    (tmp_path / "x").write_bytes(tensor_bytes({"weight": np.zeros(3)}))
    with pytest.raises(InputError, match="not written by textsvm"):
        textsvm.load(tmp_path / "x")


def test_every_truncation_is_noticed(path):
    content = path.read_bytes()
    for end in {*range(0, len(content), max(1, len(content) // 60)), len(content) - 1}:
        path.write_bytes(content[:end])
        with pytest.raises(InputError):
            textsvm.load(path)


@given(st.data())
def test_any_flipped_bytes_give_a_model_or_one_sentence(model, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("m") / "m.textsvm"
    textsvm.save(model, path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    sentence = ""
    try:
        textsvm.load(path).decision_function(["a banana"])
    except InputError as error:
        sentence = str(error)
    assert "\n" not in sentence


def _rewrite(path, change_header=None, **arrays):
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])["__metadata__"]["textsvm"]
    header = json.loads(header)
    if change_header:
        change_header(header)
    tensors = {**read_tensors(content), **arrays}
    path.write_bytes(tensor_bytes(tensors, metadata={"textsvm": json.dumps(header)}))


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
    with pytest.raises(InputError, match=r"m\.textsvm"):
        textsvm.load(path)


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
        (("classes",), ["a"]),
        (("classes",), [["a"], {"b": 1}]),
        (("info",), 3),
    ],
    ids=str,
)
def test_hostile_headers(path, keys, value):
    def change(header):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    _rewrite(path, change)
    with pytest.raises(InputError, match=r"m\.textsvm"):
        textsvm.load(path)


def test_a_full_disk_leaves_the_old_model(path, model, monkeypatch):
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(InputError, match="No space left"):
        textsvm.save(model, path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["m.textsvm"]


def test_an_interruption_leaves_the_old_model(path, model, monkeypatch):
    before = path.read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        textsvm.save(model, path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["m.textsvm"]


def test_unwritable_places(model, tmp_path):
    with pytest.raises(InputError, match="No such file"):
        textsvm.save(model, tmp_path / "none" / "m.textsvm")
    with pytest.raises(InputError, match="is a folder"):
        textsvm.save(model, tmp_path)
