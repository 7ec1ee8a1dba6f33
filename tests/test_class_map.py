"""Maps of classes and documents, beside explicit features, SciPy and scikit-learn."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.cluster.hierarchy as hierarchy
from command import ROOT, run, works
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from scipy.spatial.distance import pdist, squareform
from sklearn.decomposition import PCA, KernelPCA

from textsvm import SVC, Spectrum, class_map, report
from textsvm.evaluation.class_map import sample
from textsvm.reporting.charts import SHAPES
from textsvm.reporting.maps import MOST_LEAVES, MOST_NAMED, map_sections

DIALECTS = ROOT / "corpora" / "samples" / "dialects.csv"


def problem(n, classes, features, seed):
    """Feature vectors, all classes in use, and the labels."""
    rng = np.random.default_rng(seed)
    labels = np.array([f"c{i % classes}" for i in range(n)])
    return rng.normal(size=(n, features)) + 3 * rng.normal(size=(classes, features))[
        np.arange(n) % classes
    ], labels


@given(st.integers(2, 30), st.integers(2, 6), st.integers(1, 8), st.integers(0, 99))
def test_distances_and_tree_are_those_of_class_means(n, classes, features, seed):
    X, labels = problem(n, classes, features, seed)
    mapped = class_map(X @ X.T, labels)
    names = sorted(set(labels))
    means = np.array([X[labels == name].mean(0) for name in names])
    assert mapped.classes == names
    np.testing.assert_allclose(mapped.distances, squareform(pdist(means)), atol=1e-6)
    if len(names) > 1:
        np.testing.assert_allclose(mapped.tree[:, 2], hierarchy.ward(means)[:, 2], atol=1e-6)


@given(st.integers(3, 30), st.integers(2, 6), st.integers(2, 8), st.integers(0, 99))
def test_coordinates_are_those_of_kernel_pca(n, classes, features, seed):
    X, labels = problem(n, classes, features, seed)
    mapped = class_map(X @ X.T, labels)
    expected = KernelPCA(2, kernel="precomputed").fit_transform(X @ X.T)
    points = mapped.documents.points
    np.testing.assert_allclose(np.abs(points[:, : expected.shape[1]]), np.abs(expected), atol=1e-6)
    assert (points[np.abs(points).argmax(0), [0, 1]] >= 0).all()  # which settles the sign
    share = PCA().fit(X).explained_variance_ratio_
    np.testing.assert_allclose(mapped.documents.variance[0], share[0], atol=1e-9)
    if mapped.class_means is not None:
        means = np.array([X[labels == name].mean(0) for name in mapped.classes])
        np.testing.assert_allclose(
            pdist(mapped.class_means.points[:, :1]), pdist(PCA(1).fit_transform(means)), atol=1e-6
        )


def test_without_labels_the_tree_joins_documents():
    X, _ = problem(9, 3, 4, 0)
    mapped = class_map(X @ X.T)
    assert mapped.classes == []
    assert mapped.class_means is None
    assert len(mapped.tree) == 8
    np.testing.assert_allclose(mapped.tree[:, 2], hierarchy.ward(X)[:, 2])


def test_equal_documents_and_a_kernel_that_is_not_positive_are_drawn():
    mapped = class_map(np.ones((4, 4)), list("aabb"))
    assert not mapped.documents.points.any()
    assert not mapped.distances.any()
    indefinite = class_map(-np.eye(4), list("aabb"))
    assert np.isfinite(indefinite.documents.points).all()
    for made in (mapped, indefinite):
        assert map_sections(made, list("1234"))


@pytest.mark.parametrize(
    ("matrix", "labels", "message"),
    [
        (np.ones((2, 3)), None, r"square.*\(2, 3\)"),
        (np.ones((1, 1)), None, "two or more"),
        (1.0, None, r"shape \(\)"),
        (np.full((2, 2), np.nan), None, "finite|square"),
        (np.ones((3, 3)), ["a", "b"], "3 documents and 2 labels"),
    ],
)
def test_wrong_input_is_refused(matrix, labels, message):
    refuses(message, class_map, matrix, labels)


def test_a_sample_keeps_the_shares_of_the_classes():
    labels = ["rare"] * 20 + ["common"] * 180
    drawn = sample(labels, 200, 50)
    assert len(drawn) == len(set(drawn.tolist())) == 50
    assert (np.diff(drawn) > 0).all()
    assert sum(labels[i] == "rare" for i in drawn) == 5
    assert sample(labels, 200, 200).tolist() == list(range(200))


@pytest.mark.parametrize("n", [MOST_NAMED, MOST_NAMED + 1, MOST_LEAVES + 1])
def test_names_and_trees_of_many_documents_are_left_out(n):
    X, _ = problem(n, 3, 4, 0)
    ids = [f"document {i}" for i in range(n)]
    page = "".join(map_sections(class_map(X @ X.T), ids))
    for said in ("Tree of the documents", "distances between documents."):
        assert (said in page) == (n < MOST_LEAVES)
    assert page.count("document 7</text>") == (n < MOST_LEAVES) + (n <= MOST_NAMED)
    assert page.count("<title>document 7</title>") == 1


@pytest.mark.parametrize("k", [2, 10, 12, 13, 40])
def test_no_two_classes_look_alike(k):
    X, _ = problem(2 * k, 3, 4, 0)
    names = [f"author {i:02}" for i in range(k)]
    page = map_sections(class_map(X @ X.T, names * 2), [])[-1]
    key = re.findall(r'<li class="(c\d+)"[^>]*>(.) (.*?)</li>', page)
    assert [name for _, _, name in key] == names
    assert len({(colour, shape) for colour, shape, _ in key}) == k
    assert len({colour for colour, _, _ in key}) == min(k, 12)
    styles = re.findall(r'class="point (c\d+)".*? d="M0 0(.*?)"><title>(.*?)</title>', page)
    assert {(colour, SHAPES[shape], name) for colour, shape, name in key} == set(styles)
    assert len(styles) == 2 * k


def test_command_draws_a_picture_and_a_page(tmp_path):
    picture, page = tmp_path / "m.svg", tmp_path / "m.html"
    options = ["map", str(DIALECTS), "--label", "dialect", "--kernel", "spectrum:3"]
    assert run(*options, "-o", str(picture), "--json").returncode == 0
    texts = {element.text for element in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")}
    assert {"islands", "north", "south"} <= texts
    result = works(*options, "-o", str(page), "--json")
    assert json.loads(result.stdout)["map"]["classes"] == ["islands", "north", "south"]
    assert re.findall("<h2>(.*?)</h2>", page.read_text("utf-8")) == [
        "Tree of the classes", "Map of the classes", "Map of the documents",
    ]  # fmt: skip


def test_report_has_a_map_and_figures_have_a_confusion_matrix(tmp_path):
    texts = ["win a prize", "a prize", "prizes", "at noon", "lunch at noon", "noon"]
    labels = [1, 1, 1, 0, 0, 0]
    saved = report(SVC(Spectrum(2)).fit(texts, labels), texts, labels)
    assert saved.as_dict()["class_map"]["classes"] == ["0", "1"]
    names = {path.name for path in saved.save_figures(tmp_path)}
    assert {"confusion-matrix.svg", "map-of-the-documents.svg", "tree-of-the-classes.svg"} <= names
    matrix = ElementTree.parse(tmp_path / "confusion-matrix.svg")
    counts = [e.text for e in matrix.iter("{http://www.w3.org/2000/svg}text") if e.get("class") == "name mid"]
    assert counts == ["3", "3"]
