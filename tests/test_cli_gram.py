"""textsvm gram: kernel matrices on files."""

import math

import numpy as np
import pytest
from command import report, run

import textsvm
from textsvm import EditDistance, GapWeighted, Spectrum
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.runtime.device import select
from textsvm.text.documents import encode, normalise


def dense(kernel, texts):
    """The kernel matrix of normalised texts, by the library."""
    documents = encode(texts)
    return kernel.fit(documents).rows(documents, select("cpu")).gram()


@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        (["--kernel", "spectrum:2-4,log"], Spectrum(p=(2, 4), weight="log")),
        (["--kernel", "gap:2-3,decay=0.4"], GapWeighted(p=3, decay=0.4, weights=(0, 1, 1))),
        (["--kernel", "edit:gamma=0.1"], EditDistance(gamma=0.1)),
    ],
    ids=["spectrum", "gap", "edit"],
)
def test_gram(options, kernel, tmp_path):
    path = tmp_path / "K.npy"
    made = report("gram", sample("questions"), *options, "-o", path)
    assert (made["rows"], made["columns"]) == (60, 60)
    matrix = textsvm.read_gram(path)[0]
    np.testing.assert_allclose(
        matrix, dense(kernel, [normalise(text) for text in read_corpus(sample("questions")).texts]), atol=1e-6
    )


def test_gram_for_libsvm(tmp_path):
    path, other = tmp_path / "K.txt", tmp_path / "L.libsvm"
    assert report("gram", sample("questions"), "-o", path)["labels"] == ["what", "when", "where"]
    matrix, labels = textsvm.read_gram(path)
    corpus = read_corpus(sample("questions"))
    assert [("what", "when", "where")[int(label) - 1] for label in labels] == corpus.labels
    run("gram", sample("essays"), "--regress", "score", "-o", other)
    np.testing.assert_array_equal(
        textsvm.read_gram(other)[1], read_corpus(sample("essays"), target="score").targets
    )
    assert math.isclose(matrix[0, 0], 1, abs_tol=1e-6)


def test_gram_against_another_corpus(tmp_path):
    path = tmp_path / "K.npy"
    corpus = sample("newswire")
    common = ["--positive", "earn", "--negative", "acq", "--max-length", "100"]
    options = ["--part", "test", "--against", corpus, "--against-part", "train", "-o", path]
    made = report("gram", corpus, *common, *options)
    documents = read_corpus(corpus).reduce_labels("earn", "acq")
    parts = {
        part: [t[:100] for t in map(normalise, documents.select(part).texts)] for part in ("test", "train")
    }
    matrix = np.load(path)
    assert matrix.shape == (len(parts["test"]), len(parts["train"])) == (made["rows"], made["columns"])
    whole = dense(Spectrum(p=4), parts["test"] + parts["train"])
    np.testing.assert_allclose(matrix, whole[: len(matrix), len(matrix) :], atol=1e-6)
