"""Plug-ins for other programs; tests of a program that is not installed are skipped."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.kernel_ridge import KernelRidge

from textsvm import Spectrum
from textsvm.apps.integrations.asreview import TextSVM
from textsvm.apps.integrations.skrub import KernelEncoder
from textsvm.errors import InputError


def _rows(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 12)) * (rng.random((n, 12)) < 0.4)
    return csr_matrix(X), (X[:, 0] > X[:, 1]).astype(int), rng.uniform(0.2, 4, n)


def test_the_classifier_of_asreview_is_a_weighted_ridge_with_bias():
    X, y, weights = _rows()
    model = TextSVM(C=3.0).fit(X, y, sample_weight=weights)
    gram = (X @ X.T).toarray() + 1
    ridge = KernelRidge(alpha=1 / 3.0, kernel="precomputed").fit(gram, 2 * y - 1, sample_weight=weights)
    np.testing.assert_allclose(model.decision_function(X), ridge.predict(gram), atol=1e-9)
    assert (model.predict(X) == (ridge.predict(gram) > 0)).all()


def test_the_classifier_of_asreview_takes_two_classes_only():
    with pytest.raises(InputError, match="1 classes"):
        TextSVM().fit(_rows()[0], np.ones(40))


def test_asreview_finds_all_relevant_articles():
    learner = pytest.importorskip("asreview.learner")
    simulation = pytest.importorskip("asreview.simulation.simulate")
    from asreview.models.balancers import Balanced
    from asreview.models.queriers import Max

    X, y, _ = _rows(200)
    cycle = learner.ActiveLearningCycle(querier=Max(), classifier=TextSVM(), balancer=Balanced(9.8))
    review = simulation.Simulate(X, y, [cycle], print_progress=False)
    review.label([int(np.flatnonzero(y == 0)[0]), int(np.flatnonzero(y)[0])])
    review.review()
    found = review._results["label"].to_numpy()
    assert found.sum() == y.sum()
    assert found[: y.sum()].mean() > 0.8
    assert cycle.to_meta().classifier == "textsvm"


@pytest.mark.parametrize("table", ["pandas", "polars"])
def test_products_of_encoded_strings_are_kernel_values(table):
    library = pytest.importorskip(table)
    texts = ["fire fighter", "fighter of fires", "librarian", "fire fighter", "a librarian", None]
    column = library.Series(name="job", data=texts) if table == "pandas" else library.Series("job", texts)
    frame = KernelEncoder().fit_transform(column)
    assert isinstance(frame, library.DataFrame)
    values = frame.to_numpy().astype(float)
    known = [text or "" for text in texts]
    np.testing.assert_allclose(values @ values.T, Spectrum((1, 4), "log")(known, known), atol=1e-4)


def test_encoded_strings_are_a_kernel_pca():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    column = pandas.Series(["".join(rng.choice(list("abc"), 6)) for _ in range(80)], name="text")
    ours = KernelEncoder(Spectrum(2), n_components=3).fit_transform(column).to_numpy()
    kernel = Spectrum(2)(column.tolist(), column.tolist())
    values, vectors = np.linalg.eigh(kernel)
    due = vectors[:, :-4:-1] * np.sqrt(values[:-4:-1])
    np.testing.assert_allclose(np.abs(ours), np.abs(due), atol=1e-3)


def test_table_vectorizer_of_skrub_takes_the_encoder():
    skrub = pytest.importorskip("skrub")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"job": [f"worker number {i}" for i in range(60)], "age": range(60)})
    vectorizer = skrub.TableVectorizer(high_cardinality=KernelEncoder(n_components=5))
    columns = vectorizer.fit_transform(table)
    assert list(columns) == [*(f"job_{i}" for i in range(5)), "age"]
    pandas.testing.assert_frame_equal(columns, vectorizer.transform(table))


CONFIG = """<View><Text name="body" value="$message"/>
<Choices name="kind" toName="body"><Choice value="spam"/><Choice value="ham"/></Choices></View>"""


def _annotation(task, text, label):
    chosen = [{"from_name": "kind", "to_name": "body", "type": "choices", "value": {"choices": [label]}}]
    return {
        "action": "ANNOTATION_CREATED",
        "project": {"id": 7, "label_config": CONFIG},
        "task": {"id": task, "data": {"message": text}},
        "annotation": {"result": chosen if label else []},
    }


@pytest.fixture
def label_studio(tmp_path):
    pytest.importorskip("starlette")
    pytest.importorskip("httpx")
    from starlette.testclient import TestClient

    from textsvm.apps.integrations.label_studio import application

    return lambda: TestClient(application(str(tmp_path / "annotations.jsonl")))


def test_label_studio_gets_predictions_of_what_it_sent(label_studio):
    client = label_studio()
    assert client.get("/health").json()["status"] == "UP"
    assert client.post("/setup", json={"project": "7.123", "schema": CONFIG}).status_code == 200
    tasks = [{"id": 9, "data": {"message": "cash prize"}}, {"id": 10, "data": {"message": "noon lunch"}}]
    query = {"tasks": tasks, "project": "7.123", "label_config": CONFIG}
    assert client.post("/predict", json=query).json()["results"] == []
    texts = ["win cash now", "a cash prize", "lunch at noon", "see you at noon"]
    for task, (text, label) in enumerate(zip(texts, ["spam", "spam", "ham", "ham"], strict=True)):
        assert client.post("/webhook", json=_annotation(task, text, label)).status_code == 200
    answer = client.post("/predict", json=query).json()
    assert [each["result"][0]["value"]["choices"] for each in answer["results"]] == [["spam"], ["ham"]]
    assert all(0.5 <= each["score"] <= 1 for each in answer["results"])
    assert label_studio().post("/predict", json=query).json() == answer  # after a restart
    client.post("/webhook", json=_annotation(0, texts[0], None))
    client.post("/webhook", json=_annotation(1, texts[1], None))
    assert client.post("/predict", json=query).json()["results"] == []


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"tasks": 1, "label_config": "<View/>"}', b"{}"])
def test_label_studio_gets_a_sentence_for_a_wrong_request(label_studio, body):
    answer = label_studio().post("/predict", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_annif_trains_and_suggests(tmp_path, monkeypatch):
    pytest.importorskip("annif")
    from click.testing import CliRunner

    import textsvm.apps.integrations.annif  # noqa: F401

    (tmp_path / "projects.cfg").write_text(
        "[ours]\nname=ours\nlanguage=en\nbackend=textsvm\nkernel=spectrum:3\nvocab=kinds\nanalyzer=simple\n"
    )
    (tmp_path / "kinds.tsv").write_text("<http://a.org/spam>\tspam\n<http://a.org/ham>\tham\n")
    (tmp_path / "texts.tsv").write_text(
        "win cash now\t<http://a.org/spam>\na cash prize\t<http://a.org/spam>\n"
        "lunch at noon\t<http://a.org/ham>\nsee you at noon\t<http://a.org/ham>\n"
    )
    monkeypatch.chdir(tmp_path)
    from annif.cli import cli

    for command in ("load-vocab -L en kinds kinds.tsv", "train ours texts.tsv"):
        done = CliRunner().invoke(cli, command.split())
        assert done.exit_code == 0, done.output
    suggested = CliRunner().invoke(cli, ["suggest", "ours"], input="noon lunch with you")
    assert suggested.output.splitlines()[0].split("\t")[1] == "ham"
