"""A prompt or a notebook shows results in at most 600 characters."""

import html
import re

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

import textsvm
from textsvm.evaluation.comparison import side_by_side

TEXTS = [f"{fruit} and {fruit} on {k}" for k in range(120) for fruit in ("banana", "mango")] * 4
LABELS = ["a", "b"] * 480
WORKS = [
    phrase * 30 for phrase in ("the sea was grey ", "sir, I beg your ", "win cash on a ") for _ in range(2)
]


pytestmark = pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("short") / "t.csv"
    path.write_text("label,text\n" + "".join(f"{y},{x}\n" for x, y in zip(TEXTS, LABELS, strict=True)))
    model = textsvm.SVC(textsvm.Spectrum(3)).fit(TEXTS, LABELS)
    return {
        "Corpus": textsvm.read_corpus(path),
        "CrossValidation": textsvm.cross_validate(
            textsvm.SVC(textsvm.Spectrum(3)), TEXTS[:240], LABELS[:240], groups=np.arange(240) // 10
        ),
        "Tuning": textsvm.tune(textsvm.SVC(textsvm.Spectrum(3)), TEXTS[:240], LABELS[:240], {"C": [1, 10]}),
        "TrainedModel": model.model_,
        "Record": model.model_.record,
        "Solution": model.solutions_[0],
        "Explanation": textsvm.explain(model, TEXTS[:1])[0],
        "Doubts": textsvm.doubts(textsvm.SVC(textsvm.Spectrum(3)), TEXTS[:240], LABELS[:240]),
        "Results": textsvm.evaluate(
            LABELS, model.predict(TEXTS), model.decision_function(TEXTS), model.classes_
        ),
        "Verification": textsvm.verify(WORKS, list("aabbcc"), WORKS[0]),
    }


def test_results_are_short(results):
    for name, result in results.items():
        assert repr(result).startswith(f"{name}("), name
        assert len(repr(result)) <= 600, name
        assert "\n" not in repr(result), name


def test_figures_and_shapes_are_shown(results):
    assert "best_params_={'C': " in repr(results["Tuning"])
    assert "alpha=<array of float64, shape (960,)>" in repr(results["Solution"])
    assert "labels=['a', 'b', 'a', ...]" in repr(results["Corpus"])


def test_a_short_result_is_whole():
    assert "texts=['x'], labels=['a'], part=[None]" in repr(textsvm.Corpus(["1"], ["x"], ["a"], [None]))


def test_results_show_themselves_in_a_notebook():
    """Each with the figure that it is for; every text from outside is escaped, and long ones are cut."""
    texts = ["win <b>cash</b> now", "free money", "see you", "lunch at noon"] * 6
    labels = ["<script>alert(1)</script>", "<script>alert(1)</script>", "ham", "ham"] * 6
    corpus = textsvm.Corpus(
        [*map(str, range(24))], texts, labels, [None] * 24, source="<i>mails</i>.csv" * 99
    )
    model = textsvm.SVC(textsvm.Spectrum(3)).fit(texts, labels)
    validated = textsvm.cross_validate(textsvm.SVC(textsvm.Spectrum(2)), texts, labels, cv=2)
    tuned = textsvm.tune(textsvm.SVC(textsvm.Spectrum(2)), texts, labels, {"C": [0.01, 1, 10, 100]}, cv=2)
    judged = textsvm.evaluate(labels, model.predict(texts), model.decision_function(texts), model.classes_)
    models = side_by_side({"<u>a": judged, "b": judged}, texts, corpus.ids)
    shown = {
        type(result).__name__: result._repr_html_()
        for result in (corpus, validated, tuned, model.model_, textsvm.explain(model, texts[:1])[0], models)
    }
    for name, page in shown.items():
        assert not re.search(r"<(?!/?(b|p|table|tr|td|span)\b)", page), name
        assert page.count("<td>") > 1
        assert page.count("<b>") == 1 + (name == "CrossValidation")
        assert len(page) < 5000
    assert "<td>ham</td><td>12</td>" in shown["Corpus"]
    assert f"<td>{validated.mean['accuracy']:.4g}</td>" in shown["CrossValidation"]
    spam, ham = validated.confusion.values()
    assert confusion_matrix(labels, validated.predictions).tolist() == [[*spam.values()], [*ham.values()]]
    assert f"<td>ham</td><td>{ham[labels[0]]}</td><td>{ham['ham']}</td>" in shown["CrossValidation"]
    first = re.search("sd</td><td>parameters</td></tr><tr><td>(.*?)</td>", shown["Tuning"])[1]
    assert first == f"{tuned.best_score:.4g}"
    assert "&lt;script&gt;" in shown["TrainedModel"]
    text = re.sub("<.*?>", "", shown["Explanation"].partition("<b>")[0])
    assert html.unescape(text) == textsvm.explain(model, texts[:1])[0].text
    assert re.search(r"rgba\(\d+,\d+,\d+,0\.5\)", shown["Explanation"])  # the largest contribution
    assert "&lt;u&gt;a" in shown["SideBySide"]


def test_no_confusion_of_numbers_sets_of_labels_and_many_classes():
    texts = [f"{word} {n}" for word in ("a cat", "the dog") for n in range(24)]
    many = [f"{k % 12}" for k in range(48)]
    for model, y in (
        (textsvm.SVR(textsvm.Spectrum(2)), [*range(48)]),
        (textsvm.MultilabelSVC(textsvm.Spectrum(2)), [("a", "b"), ("a",), ("b",), ("c",)] * 12),
        (textsvm.SVC(textsvm.Spectrum(2)), many),
    ):
        result = textsvm.cross_validate(model, texts, y, cv=2)
        assert result.confusion == {}
        assert result._repr_html_().count("<table>") == 1


def test_progress_on_a_terminal(capsys):
    progress = textsvm.ProgressBars()
    for work in [
        ("read", 0, 4),
        ("read", 1, 4),
        ("read", 4, 4),
        ("read", 4, 4),
        ("solve", 1, 2),
        ("predict", 0, 0),
    ]:
        progress(*work)
    shown = "\rread           0%\rread         100%\n\rsolve         50%\npredict        0%"
    assert capsys.readouterr().err == shown
    textsvm.ProgressBars()(1, 1)
    assert capsys.readouterr().err == f"\r{'':12} 100%\n"


def test_progress_in_a_notebook():
    """A bar that grows, in the output of the cell; nbconvert and the sites of notebooks show it too."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    source = "from textsvm import SVC, ProgressBars\n"
    source += "_ = SVC().fit(['cash', 'lunch'] * 9, ['<b>spam', 'ham'] * 9, progress=ProgressBars())"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    pages = [
        output["data"]["text/html"]
        for output in notebook.cells[0].outputs
        if output.output_type == "display_data"
    ]
    assert pages == ["<progress value=1.000></progress> solve"]
