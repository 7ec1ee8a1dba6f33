"""textsvm model: what is in a file, and whether it is whole."""

import json
import struct

import pytest
from command import fails, run
from loading import load

import textsvm
from textsvm import SVC, CalibratedSVC, Spectrum

TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"] * 2
LABELS = ["fruit", "cloth", "fruit", "cloth", "cloth", "cloth"] * 2


@pytest.fixture
def path(tmp_path):
    model = CalibratedSVC(SVC(Spectrum(p=2), C=5), cv=2).fit(TEXTS, LABELS)
    textsvm.save(model, tmp_path / "m.textsvm", {"corpus": "fruit", "seconds": 1.5})
    return tmp_path / "m.textsvm"


def test_what_is_in_a_model(path):
    shown = run("model", path).stdout.decode()
    for said in ("SVC", "spectrum", "fruit", "sigmoid", "dual_coef", "corpus", "training texts are in it"):
        assert said in shown, shown
    found = json.loads(run("model", path, "--json").stdout.decode())
    assert found["digest"] == load(path).model_.record.digest
    assert found["digest"] in "".join(shown.split())
    assert (found["classes"], found["texts"]) == (["cloth", "fruit"], True)
    assert found["info"] == {"corpus": "fruit", "seconds": 1.5}
    assert found["kernel"]["p"] == 2
    content = path.read_bytes()
    outer = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
    assert [each["name"] for each in found["arrays"]] == sorted(set(outer) - {"__metadata__"})
    data = len(content) - 8 - struct.unpack("<Q", content[:8])[0]
    assert sum(each["bytes"] for each in found["arrays"]) == data


def test_a_model_without_texts_says_so(tmp_path):
    textsvm.save(SVC(Spectrum(p=2)).fit(TEXTS, LABELS), tmp_path / "m.textsvm", texts=False)
    assert json.loads(run("model", tmp_path / "m.textsvm", "--json").stdout.decode())["texts"] is False


def test_a_damaged_model_has_exit_code_1(path, tmp_path):
    assert "is whole" in run("model", path, "--check").stdout.decode()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    (tmp_path / "t.txt").write_text("a banana")
    for command in (["model", path, "--check"], ["model", path], ["predict", path, tmp_path / "t.txt"]):
        assert "does not match its digest" in fails(*command)
