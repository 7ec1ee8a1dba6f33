"""Saving changes nothing: every type of model after `load(save)`, in a second process and in every export.

`TYPES` has every estimator, every kernel and every form of examples. Exports that a type does not have are
refused in a sentence, before a file is written.
"""

import json
import pickle
import re
import shutil
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from encoders import FOOD, ROAD, static_folder
from exported import FORMS, NODE, decides_as_python
from loading import change, load
from refusals import refuses
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from test_laws_estimators import ESTIMATORS, data, values

import textsvm
from textsvm.apps.export.files import FORMATS, source_of
from textsvm.kernels import KERNELS

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")


def of_texts(kernel, **options):
    texts, labels, new = data("three")
    return textsvm.SVC(kernel, device="cpu", **options), texts, labels, new


def of_dna(kernel):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice([*"acgt"], 30)) + ("gattaca" if i % 2 else "ctgacc") for i in range(60)]
    return textsvm.SVC(kernel, device="cpu"), texts[:40], ["a", "b"] * 20, texts[40:]


def of_vectors(kernel, sparse=False):
    X = np.random.default_rng(0).normal(size=(60, 4)) + (np.arange(60) % 2)[:, None]
    X = scipy.sparse.csr_array(np.round(X)) if sparse else X
    return textsvm.SVC(kernel, device="cpu"), X[:40], ["a", "b"] * 20, X[40:]


def of_columns(kernel):
    texts, labels, new = data("three")
    tables = [{"x": own, "y": own[::-1], "n": [float(len(text)) for text in own]} for own in (texts, new)]
    return textsvm.SVC(kernel, device="cpu"), tables[0], labels, tables[1]


def of_matrix():
    model, texts, labels, new = of_texts("precomputed")
    features = textsvm.SpectrumFeatures(3).fit(texts)
    train, test = (features.transform(own) for own in (texts, new))
    return model, (train @ train.T).toarray(), labels, (test @ train.T).toarray()


def of_encoder(folder, combine=lambda encoder: encoder):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(FOOD if i % 2 else ROAD, 4)) for i in range(60)]
    encoder = textsvm.Encoder(static_folder(folder))
    return textsvm.SVC(combine(encoder), device="cpu"), texts[:40], ["a", "b"] * 20, texts[40:]


def in_pipeline(*steps):
    model, texts, labels, new = of_texts(textsvm.Spectrum(3))
    return Pipeline([*steps, ("svc", model)]), texts, labels, new


def of_estimator(name):
    model, kind = ESTIMATORS[name]
    texts, targets, new = data(kind)
    return clone(model), texts, targets, new


def shared_letters(rows, columns):
    return [[float(len({*a} & {*b})) for b in columns] for a in rows]


GCC = shutil.which("gcc")
ALL, NONE = {*FORMATS}, set()
#: Types with the export formats that take them.
TYPES = {
    **{name: (partial(of_estimator, name), NONE if name == "OnlineSVC" else ALL) for name in ESTIMATORS},
    "spectrum": (partial(of_texts, textsvm.Spectrum((2, 4), "log", idf=True, odds=True)), ALL),
    "words": (partial(of_texts, textsvm.Spectrum(1, tokens="words")), ALL),
    "edit": (partial(of_texts, textsvm.EditDistance()), NONE),
    "gap": (partial(of_texts, textsvm.GapWeighted(2)), NONE),
    "gapped": (partial(of_texts, textsvm.GappedKmers(4, 2)), ALL),
    "mismatch": (partial(of_dna, textsvm.Mismatch(3, 1)), NONE),
    "gkm": (partial(of_dna, textsvm.Gkm(5, 3)), NONE),
    "bounded-gap": (partial(of_texts, textsvm.BoundedGap(2)), ALL),
    "linear": (partial(of_vectors, textsvm.Linear()), NONE),
    "sparse": (partial(of_vectors, textsvm.Linear(), True), NONE),
    "polynomial": (partial(of_vectors, textsvm.Polynomial()), NONE),
    "gaussian": (partial(of_vectors, textsvm.Gaussian()), NONE),
    "sigmoid": (partial(of_vectors, textsvm.Sigmoid(0.1)), NONE),
    "sum": (
        partial(of_texts, textsvm.Sum([textsvm.Spectrum(2), textsvm.Spectrum(1, tokens="words")], (3, 1))),
        ALL,
    ),
    "product": (
        partial(of_texts, textsvm.Product([textsvm.Spectrum(2), textsvm.Spectrum(1, tokens="words")])),
        NONE,
    ),
    "on": (
        partial(
            of_columns, textsvm.On("x", textsvm.Spectrum(2)) + textsvm.On(["x", "y"], textsvm.Spectrum(3))
        ),
        ALL,
    ),
    "numbers": (
        partial(of_columns, textsvm.On("x", textsvm.Spectrum(2)) + textsvm.On("n", textsvm.Gaussian())),
        NONE,
    ),
    "user": (partial(of_texts, textsvm.UserKernel(shared_letters)), NONE),
    "tokens": (partial(of_texts, textsvm.Spectrum(1, tokens=str.split)), NONE),
    "precomputed": (of_matrix, NONE),
    "length": (partial(of_texts, textsvm.Spectrum(3), max_length=40, normalise="paper"), ALL),
    "pipeline": (in_pipeline, ALL),
    "steps": (partial(in_pipeline, ("lower", FunctionTransformer())), NONE),
}
#: Types of encoders, which need a folder.
ENCODERS = {
    "encoder": (lambda encoder: encoder, {"c", "js", "bin", "page", "onnx"}),
    "mean of encoder": (lambda encoder: 0.5 * textsvm.Spectrum(3) + 0.5 * encoder, ALL),
}
#: A message without line breaks or traceback.
SENTENCE = re.compile(r"^[^\n]{20,300}$")
#: Types without a model file.
NOT_SAVED = {"user", "tokens", "steps"}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")

    @cache
    def of(name):
        make = partial(of_encoder, folder / "e", ENCODERS[name][0]) if name in ENCODERS else TYPES[name][0]
        model, X, y, new = make()
        return model.fit(X, y), new

    return of


def test_every_estimator_and_kernel_is_a_type():
    assert {*KERNELS} <= {*TYPES, *ENCODERS}
    assert {*ESTIMATORS} <= {*TYPES}


def last_step(model):
    """The model of a Pipeline whose other steps do nothing, or the model."""
    return getattr(model, "steps", [(None, model)])[-1][1]


def shown(model, new):
    """All that a model says about new examples, with explanations; a sentence instead of those it refuses."""
    try:
        explained = [
            explanation.as_dict() for explanation in textsvm.explain(last_step(model), new, similar=3)
        ]
    except textsvm.InputError as error:
        explained = str(error)
    return values(model, new).tolist(), explained


@pytest.mark.parametrize("name", [*TYPES, *ENCODERS])
def test_a_saved_model_says_the_same(name, fitted, tmp_path):
    model, new = fitted(name)
    if name in NOT_SAVED:
        refuses(SENTENCE, textsvm.save, model, tmp_path / "m.textsvm")
        assert not [*tmp_path.iterdir()]
        return
    textsvm.save(model, tmp_path / "m.textsvm")
    loaded, error = load(tmp_path / "m.textsvm"), 1e-6 if name == "OnlineSVC" else 0
    assert type(loaded) is type(last_step(model))
    (first, explained), (second, again) = shown(model, new), shown(loaded, new)
    np.testing.assert_allclose(second, first, atol=error, rtol=0)
    assert again == explained or error
    first, second = model.predict(new), loaded.predict(new)
    assert [*map(str, second)] == [*map(str, first)]
    assert shown(pickle.loads(pickle.dumps(model)), new) == shown(model, new)
    textsvm.save(loaded, tmp_path / "again.textsvm")
    assert (tmp_path / "again.textsvm").read_bytes() == (tmp_path / "m.textsvm").read_bytes()


def test_terms_with_different_numbers_of_machines_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    table = {"n": rng.normal(size=20), "m": rng.normal(size=20)}
    model = textsvm.SVC(
        textsvm.On("n", textsvm.Linear()) + textsvm.On("m", textsvm.Linear()), device="cpu"
    ).fit(table, ["a", "b"] * 10)
    textsvm.save(model, tmp_path / "m.textsvm", texts=False)

    def double(header, arrays):
        name = [name for name in arrays if name.endswith("weights")][-1]
        arrays[name] = np.repeat(arrays[name], 2, axis=0)

    change(tmp_path / "m.textsvm", double)
    refuses(SENTENCE, load, tmp_path / "m.textsvm")


#: Script of a new process that says what saved models say about pickled examples.
PROCESS = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from test_laws_model_file import shown
from loading import load
texts = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps([shown(load(path), new) for path, new in texts]))
"""


@pytest.mark.slow
def test_a_second_process_says_the_same(fitted, tmp_path):
    names = [name for name in (*TYPES, *ENCODERS) if name not in NOT_SAVED]
    paths = [tmp_path / f"{number}.textsvm" for number in range(len(names))]
    for name, path in zip(names, paths, strict=True):
        textsvm.save(fitted(name)[0], path)
    given = [(path, fitted(name)[1]) for name, path in zip(names, paths, strict=True)]
    command = [sys.executable, "-c", PROCESS, str(Path(__file__).parent)]
    done = subprocess.run(command, input=pickle.dumps(given), stdout=subprocess.PIPE, check=True)
    for name, (path, new), said in zip(names, given, pickle.loads(done.stdout), strict=True):
        assert said == shown(load(path), new), name


def said_by_the_page(page, texts):
    """First words of the answers of an exported page, whose script runs beside a few elements in node."""
    html = page.read_text("utf-8")
    content = {
        "model": re.search('id="model">(.*?)</script>', html)[1],
        "facts": re.search('id="facts">(.*?)</script>', html)[1],
        "script": html[html.index(MODULE) :].partition("</script>")[0],
        "texts": texts,
    }
    done = subprocess.run([NODE, "-e", PAGE], input=json.dumps(content), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


#: How the module of a page begins, behind what all pages have.
MODULE = source_of("textsvm.mjs").decode().partition("\n")[0]
#: Program that types texts into a page.
PAGE = """
const given = JSON.parse(require("fs").readFileSync(0, "utf8")), elements = new Map(), listeners = [];
const element = () => ({
  value: "", textContent: "", style: {}, hidden: false, children: [],
  append() {}, appendChild: element, cloneNode: element, closest: element,
  createTHead: element, createTBody: element,
  insertRow: element, replaceChildren(...nodes) { this.children = nodes; },
  addEventListener(kind, listener) { if (kind === "input") listeners.push(listener); },
});
const named = (id) => {
  if (!elements.has(id)) elements.set(id, { ...element(), textContent: given[id] || "" });
  return elements.get(id);
};
globalThis.Option = function () { return element(); };
globalThis.requestAnimationFrame = (listener) => (listener(), 0);
globalThis.document = {
  getElementById: named,
  createElement: element, createDocumentFragment: element, querySelector: element,
};
new Function(given.script)();
console.log(JSON.stringify(given.texts.map((text) => {
  elements.get("text").value = text;
  listeners[0]();
  return elements.get("answer").children.map((node) => node.textContent).slice(0, 2);
})));
"""


def label_of(model, label):
    """What a page says first."""
    if isinstance(model, textsvm.OneClassSVM):
        return "of the known kind" if label == 1 else "new"
    return (", ".join(label) or "no label") if isinstance(label, tuple | list) else str(label)


def formats_of(name):
    return ENCODERS.get(name, TYPES.get(name))[1]


#: The quick tests have the forms of all estimators in `test_export`, and here the refusals.
EXPORTS = [
    pytest.param(name, to, marks=[pytest.mark.slow] * (to in formats_of(name) and to not in ("page", "bin")))
    for name in (*TYPES, *ENCODERS)
    for to in FORMATS
]


@pytest.mark.parametrize(("name", "to"), EXPORTS)
def test_an_exported_model_says_the_same_or_is_refused(name, to, fitted, tmp_path):
    model, new = fitted(name)
    if to not in formats_of(name):
        refuses(SENTENCE, textsvm.export, model, tmp_path / "e", to=to)
        assert not [*tmp_path.iterdir()]
        return
    if name not in NOT_SAVED:
        textsvm.save(model, tmp_path / "m.textsvm")
        model = load(tmp_path / "m.textsvm")
    model = last_step(model)
    if to == "bin":  # the same file as beside the sources
        textsvm.export(model, tmp_path / "m.bin")
        textsvm.export(model, tmp_path / "c", to="c")
        assert (tmp_path / "m.bin").read_bytes() == (tmp_path / "c" / "model.bin").read_bytes()
    elif to == "page":
        if not NODE or isinstance(new, dict):  # the columns of a page: test_export_browser
            return
        textsvm.export(model, tmp_path / "m.html")
        said = [first for first, *_ in said_by_the_page(tmp_path / "m.html", new)]
        expected = [label_of(model, label) for label in model.predict(new)]
        if isinstance(model, textsvm.SVR):
            said, expected = (
                [float(number) for number in said],
                [float(f"{x:.4g}") for x in model.predict(new)],
            )
        assert said == expected
    else:
        form = {"js": "javascript"}.get(to, to)
        if {"c": GCC, "javascript": NODE}.get(form, True):
            decides_as_python(form, model, new, tmp_path, 1e-5 if name in ENCODERS else 1e-9)


def test_every_format_is_tried():
    assert {*FORMATS} == {*FORMS} - {"javascript"} | {"js", "page", "bin"}
