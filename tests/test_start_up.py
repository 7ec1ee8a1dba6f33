"""Commands import no library that they do not need, and predictions have the same bits either way."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loading import load
from refusals import refuses
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import textsvm
from textsvm import SVC, SVR, CalibratedSVC, MultilabelSVC, OneClassSVM, Spectrum, Sum, save
from textsvm.kernels import EditDistance, GappedKmers, GapWeighted
from textsvm.kernels.shared import counting
from textsvm.linalg import products
from textsvm.runtime.compiled import Compiled, njit
from textsvm.runtime.device import select
from textsvm.text.documents import encode, encode_as
from textsvm.text.encoding import Reading
from textsvm.text.normal_form import normal_form

TEXTS = ["the cat sat", "a dog ran", "the cat ran far", "dogs sat down", "Ünï cödé Σς ﬁne", "the end of it"]
LABELS = ["x", "y", "x", "y", "z", "x"]
WORDS = Spectrum((1, 2), "log", idf=True, tokens="words")
UNARY = Spectrum((1, 3), "intersection", idf=True, odds=True)
KERNELS = [
    Spectrum((1, 3), "log", idf=True),
    Sum([Spectrum(2, odds=True), WORDS]),
    Spectrum(3, "presence"),
    UNARY,
]


@pytest.fixture
def no_numba(monkeypatch):
    """As in a process that has not imported Numba."""
    answer(monkeypatch, True)


def answer(monkeypatch, by_numpy):
    """Have NumPy, or compiled functions alone, process everything."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("textsvm.") and "use_numpy" in vars(module):
            monkeypatch.setattr(module, "use_numpy", lambda size: by_numpy)


def given_documents(texts, tokens="characters", form="unicode", length=None):
    return encode_as(encode(texts, None, Reading(normal_form(form, True, False), length)), tokens)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab cé̈ßﬁΣ.", max_size=12), min_size=1, max_size=4),
    st.sampled_from(["characters", "words", "whitespace"]),
    st.sampled_from(["unicode", "paper", "none"]),
    st.sampled_from([None, 1, 5]),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_few_documents_are_counted_as_many_are(texts, tokens, form, length, p1, more):
    compiled_ones = given_documents(texts, tokens, form, length)
    counted = counting.count(compiled_ones, p1, p1 + more)
    with pytest.MonkeyPatch.context() as patch:
        no_numba.__wrapped__(patch)
        plain = given_documents(texts, tokens, form, length)
        again = counting.count(plain, p1, p1 + more)
    for name in ("codes", "offsets", "alphabet"):
        ours, theirs = getattr(plain, name), getattr(compiled_ones, name)
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)
    assert counted[0].p2 == again[0].p2
    for q, keys in counted[0].keys.items():
        assert np.array_equal(keys, again[0].keys[q])
    for name in ("indptr", "features", "counts"):
        ours, theirs = getattr(again[1], name), getattr(counted[1], name)
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("texts", [False, True])
def test_values_have_the_same_bits(kernel, texts, tmp_path, monkeypatch, request):
    save(SVC(kernel).fit(TEXTS, LABELS), tmp_path / "m", texts=texts)
    others = [*TEXTS, "", "zzz", "A CAT"]
    expected = load(tmp_path / "m").decision_function(others)
    request.getfixturevalue("no_numba")
    assert np.array_equal(load(tmp_path / "m").decision_function(others), expected)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab c", max_size=14), min_size=1, max_size=30),
    st.lists(st.text("ab cd", max_size=14), min_size=1, max_size=9),
    st.sampled_from([*KERNELS[:1], *KERNELS[2:], Spectrum((1, 3), odds=True), Spectrum((2, 4), "count")]),
    st.integers(2, 4),
    st.sampled_from([0.05, 0.15]),
)
def test_matrices_and_class_odds_have_the_same_bits(texts, others, kernel, n_classes, share):
    results = []
    for by_numpy in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            answer(patch, by_numpy)
            patch.setattr(products, "DENSE_ROWS", 4)  # dense columns, too
            patch.setattr(products.full_columns, "__defaults__", (share,))
            documents = encode(texts).with_classes(np.arange(len(texts)) % n_classes)
            fitted = clone(kernel).fit(documents)
            rows = fitted.rows(documents, select("cpu"))
            results.append([rows.gram(), rows.cross(encode(others, documents.alphabet))])
            results[-1] += [fitted.weights_.odds] if kernel.odds else []
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, theirs)


MODELS = [
    (SVC(Spectrum(2)), LABELS),
    (SVC(Spectrum(2), multiclass="ovo"), LABELS),
    (SVC(GapWeighted(2), multiclass="crammer-singer"), [label == "x" for label in LABELS]),
    (CalibratedSVC(SVC(Spectrum(2)), cv=2), ["x", "y"] * 3),
    (CalibratedSVC(SVC(Spectrum(2)), "isotonic", cv=2, reject=(0.3, 0.7)), ["x", "y"] * 3),
    (SVR(EditDistance()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    (OneClassSVM(GappedKmers(2, 1)), None),
    (MultilabelSVC(Spectrum(2), cv=2), [("a",), ("b",), ("a", "b"), ("b",), ("a",), ("b",)]),
]


@pytest.mark.parametrize(("model", "labels"), MODELS, ids=lambda value: type(value).__name__)
def test_fitted_machines_answer_as_estimators_do(model, labels, tmp_path):
    from textsvm.evaluation.judge import predict

    model = clone(model).fit(TEXTS, labels)
    save(model, tmp_path / "m", {"reading": {"headers": True}})
    whole, quick = load(tmp_path / "m"), textsvm.load(tmp_path / "m")
    positive = "inside" if isinstance(model, OneClassSVM) else None
    for ours, theirs in zip(
        predict(quick, TEXTS, [], positive, None),
        predict(model.model_, TEXTS, [], positive, None),
        strict=True,
    ):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(np.array(quick.predict(TEXTS), object), np.array(whole.predict(TEXTS), object))
    assert quick.info == whole.model_.info == {"reading": {"headers": True}}
    assert quick.device_in_use.kind == whole.device_.kind
    assert quick.probabilities_by_default == hasattr(whole, "predict_proba")


def test_damaged_files_are_refused_alike(tmp_path):
    save(SVC(Spectrum(2)).fit(TEXTS, LABELS), tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        (tmp_path / "d").write_bytes(damaged)
        found = []
        for read in (load, textsvm.load):
            try:
                read(tmp_path / "d")
                found.append("")
            except textsvm.InputError as error:
                found.append(str(error))
        refused += bool(found[0])
        assert not found[1] or found[0]  # what the quick way refuses, the whole does
    assert refused


@pytest.mark.parametrize("reject", ["abc", [0.7, 0.3], [0.1, 0.2, 0.3], 2])
def test_bounds_of_a_file_that_are_none_are_refused(reject, tmp_path):
    model = CalibratedSVC(SVC(Spectrum(2)), cv=2).fit(TEXTS, ["x", "y"] * 3)
    save(replace(model.model_, rule=replace(model.model_.rule, reject=reject)), tmp_path / "m")
    for read in (load, textsvm.load):
        refuses("neither a probability nor two", read, tmp_path / "m")


LABELLING = """import textsvm.apps.label.app
from textsvm.apps.label.learner import Learner
texts = [f'{i} ' + 'cash' * (i % 3) for i in range(40)]
learner = Learner(texts, ['a', 'b'])
for i in range(20):
    learner.answer(i, 'ab'[i % 2])
learner.refresh()
assert learner.guess(30).scores and learner.progress()"""


@pytest.mark.parametrize(
    ("code", "libraries"),
    [
        ("import textsvm.cli", "sklearn numba"),
        ("from textsvm.cli import _versions; _versions()", "numpy scipy numba sklearn cupy"),
        ("import textsvm.runtime.device, textsvm.kernels.edit.kernel", "cupy"),
        ("import textsvm.readers", "numpy sklearn pandas numba"),
        ("import textsvm.apps.mail.features, textsvm.apps.mail.decision", "numba scipy sklearn"),
        ("import textsvm.apps.mail.message, textsvm.apps.mail.raw_message", "numpy numba tarfile typer"),
        (LABELLING, "sklearn pandas pyarrow scipy.stats scipy.optimize"),
    ],
)
def test_what_starts_often_imports_no_library_that_takes_long(code, libraries):
    """A client that starts anew for each mail waits for what is imported."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert not {*libraries.split()} & {*done.stdout.split()}


def libraries(folder, *arguments):
    """Output of a command and the libraries that it imported."""
    code = (
        "import sys\n"
        "from textsvm.cli import main\n"
        "try: main()\n"
        "finally: print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, timeout=120, cwd=folder,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout, set(result.stderr.split())


@pytest.mark.slow
def test_a_mail_waits_for_no_library_that_takes_long(tmp_path):
    save(CalibratedSVC(SVC(KERNELS[1]), cv=2).fit(TEXTS, ["x", "y"] * 3), tmp_path / "m", texts=False)
    (tmp_path / "mail.eml").write_bytes(b"Subject: cats\nFrom: a@b.example\n\nthe cat sat\n")
    output, imported = libraries(tmp_path, "predict", "m", "mail.eml", "--proba")
    assert json.loads(output)["label"] in "xy"
    assert not imported & {"scipy", "sklearn", "numba", "pandas", "pyarrow", "matplotlib"}


@pytest.mark.slow
def test_commands_train_and_decide_without_scikit_learn(tmp_path):
    rows = [f"{label}\t{text} {i}" for i in range(4) for text, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "corpus.tsv").write_text("label\ttext\n" + "\n".join(rows) + "\n", "utf-8")
    (tmp_path / "text.txt").write_text("the cat sat\n")
    commands = [
        ["train", "corpus.tsv", "-o", "auto"],
        ["train", "corpus.tsv", "-o", "m", "--kernel", "spectrum:2"],
        ["train", "corpus.tsv", "-o", "one", "--kernel", "gap", "--one-class", "x"],
        ["predict", "m", "text.txt"],
        ["explain", "m", "text.txt"],
        ["model", "m"],
    ]
    for command in commands:
        assert not libraries(tmp_path, *command)[1] & {"sklearn", "pandas", "matplotlib"}, command
    assert not libraries(tmp_path, "predict", "auto", "text.txt")[1] & {"numba", "scipy"}
    for command in (["train", "corpus.tsv", "-o", "again"], ["explain", "m", "text.txt"]):
        assert "numba" not in libraries(tmp_path, *command)[1], command
    rows = [f"{label}\t{text * 400}" for text, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "large.tsv").write_text("label\ttext\n" + "\n".join(rows * 20) + "\n", "utf-8")
    assert "numba" in libraries(tmp_path, "train", "large.tsv", "-o", "large", "--kernel", "spectrum:2")[1]


def test_a_trainer_records_what_an_estimator_warns_of():
    from textsvm.model.settings import ClassifierSettings
    from textsvm.model.trained import as_model
    from textsvm.training.train import train

    with pytest.raises(NotFittedError):
        as_model(SVC(Spectrum(2)))
    model = train(ClassifierSettings(GapWeighted(2), C=100, max_iter=1), TEXTS, LABELS)
    assert re.search("before it converged|before they converged", model.record.unfinished)
    estimator = SVC(GapWeighted(2), C=100, max_iter=1)
    with pytest.warns(ConvergenceWarning, match=re.escape(model.record.unfinished)):
        estimator.fit(TEXTS, LABELS)
    assert np.array_equal(model.decision_function(TEXTS), estimator.decision_function(TEXTS))
    assert model.predict(TEXTS).tolist() == estimator.predict(TEXTS).tolist()


def test_compiled_functions_know_each_other():
    @njit(cache=False)
    def inner(x):
        return x + 1

    @njit(cache=False)
    def outer(x):
        return inner(x) * 2

    assert isinstance(outer, Compiled)
    assert outer(3) == 8
    assert outer.py_func is not None
