"""What holds for every export: each parameter of its functions does what it does in Python."""

from dataclasses import replace

import numpy as np
import pytest
from exported import CModel, needs_gcc, needs_node
from test_export_readers import NO_MODEL, in_node

from textsvm import SVC, CalibratedSVC, OneClassSVM, Spectrum
from textsvm.apps.export.binary import COLUMNS, pack, with_checksum
from textsvm.apps.export.plain import plain_model


@needs_node
def test_sets_in_javascript_have_their_coverage_on_average_or_for_each_class(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array(
        [["banana", "bandana", "cabana"], ["kitten", "sitting", "mitten"], ["gondola", "golden", "goal"]]
    )
    y = np.minimum(rng.geometric(0.6, 90) - 1, 2)
    mixed = np.where(rng.random((90, 5)) < 0.55, y[:, None], rng.integers(0, 3, (90, 5)))
    texts = [" ".join(words[row, rng.integers(0, 3, 5)]) for row in mixed]
    model = CalibratedSVC(SVC(Spectrum(3), device="cpu")).fit(texts, np.array(["a", "b", "c"])[y])
    (tmp_path / "m.bin").write_bytes(pack(plain_model(model)))
    script = """
        const model = new Model(readFileSync(given[0]));
        print([[0.6, 0.8, 0.95].flatMap((coverage) => [[coverage, false], [coverage, true]]).map(
          (of) => given[1].map((text) => model.predictionSet(text, ...of))),
          failure(() => model.predictionSet("cash", 95))]);
    """
    found, error = in_node(script, tmp_path / "m.bin", texts[:30])
    assert error == ["TextsvmError", "coverage must be between 0 and 1, got 95"]
    expected = [
        [model.classes_[row].tolist() for row in model.predict_set(texts[:30], coverage, per_class)]
        for coverage in (0.6, 0.8, 0.95)
        for per_class in (False, True)
    ]
    assert found == expected
    assert found[::2] != found[1::2]
    assert found[0] != found[4]


def beyond(kind, content):
    """Words of a file in which an index is the first one that does not exist."""
    w = np.frombuffer(content, np.uint32).copy()
    view, term = 2 * int(w[11]), 2 * int(w[13])
    table = 2 * int(w[term + 6])
    if kind == "view of a term":
        w[term] = w[10]
    elif kind == "column of a view":
        w[view + 2] = max(w[COLUMNS], 1)
    elif kind == "offset in a pattern":
        w[2 * w[table + 10] + w[table] - 1] = w[table + 1]
    else:
        unicode = 2 * int(w[31])
        w[2 * w[unicode + 1] :].view(np.uint16)[0] = w[unicode + 2]
    return w


@needs_gcc
@pytest.mark.parametrize(
    "kind", ["view of a term", "column of a view", "offset in a pattern", "block of a character"]
)
def test_the_first_index_that_does_not_exist_is_refused_in_c(kind):
    content = pack(plain_model(SVC(Spectrum(3), device="cpu").fit(["win cash", "at noon"], ["a", "b"])))
    assert CModel(content).error == 0
    assert CModel(with_checksum(bytearray(beyond(kind, content).tobytes()))).error == NO_MODEL


@needs_gcc
@needs_node
def test_a_text_on_the_boundary_is_inside_in_every_language(tmp_path):
    model = OneClassSVM(Spectrum(3), device="cpu").fit(["win cash", "at noon", "a prize"])
    content = pack(replace(plain_model(model), biases=np.zeros(1)))  # a text without features has the value 0
    exported = CModel(content)
    assert (exported.decide("").tolist(), exported.predict(exported.decide(""))) == ([0], 1)
    (tmp_path / "m.bin").write_bytes(content)
    assert in_node('print(new Model(readFileSync(given[0])).predict(""));', tmp_path / "m.bin") is True
