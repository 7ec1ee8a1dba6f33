"""What holds for encoders of texts: batches and caches change nothing."""

import warnings

import numpy as np
import pytest
from refusals import raising

from textsvm.text import encoders
from textsvm.text.documents import encode
from textsvm.text.encoders import BatchEncoder, VectorCache


class Lengths(BatchEncoder):
    """Vectors of two numbers; texts of more than five characters are cut."""

    def compute(self, texts):
        return [[len(text[:5]), ord(text[0])] for text in texts], sum(len(text) > 5 for text in texts)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_batches_change_neither_vectors_nor_the_number_of_cut_texts(size, monkeypatch):
    monkeypatch.setattr(encoders, "AT_A_TIME", size)
    texts = ["abcdefg"[:k] + str(i) for i in range(3) for k in range(2, 8)]
    texts += texts[:4]
    with pytest.warns(UserWarning, match=f"only the beginning of {sum(len(t) > 5 for t in set(texts))} long"):
        vectors = Lengths("lengths").encode(encode(texts))
    assert vectors.tolist() == [[len(text[:5]), ord(text[0])] for text in texts]
    with warnings.catch_warnings(action="error"):
        Lengths("lengths").encode(encode(texts[:2]))


def test_a_file_of_vectors_keeps_the_newest_half_and_whole_records(tmp_path, monkeypatch):
    monkeypatch.setattr(encoders, "MOST_BYTES", 40 * (16 + 8 + 2 * 4))
    texts, path = [str(i) for i in range(200)], tmp_path / "vectors"
    vectors = np.arange(400, dtype=np.float32).reshape(200, 2)
    for first in range(0, 200, 10):
        VectorCache(path).add(texts[first : first + 10], vectors[first : first + 10])
        known = VectorCache(path).known(texts[: first + 10])
        assert set(texts[max(0, first + 10 - 30) : first + 10]) <= known.keys()
        assert len(known) <= 50
        assert list(known) == texts[first + 10 - len(known) : first + 10]
        for text, vector in known.items():
            assert vector.tolist() == vectors[int(text)].tolist()
    assert len(VectorCache(path).known(texts)) < 50


def test_vectors_are_the_same_without_a_home(tmp_path, monkeypatch):
    """Then none are kept on disk."""
    texts, files = ["abc", "de", "abc"], tmp_path / "cache"
    files.mkdir()
    monkeypatch.setattr(encoders, "cache_folder", lambda: files)
    expected = Lengths("lengths", "digest").encode(encode(texts))
    assert [path.name for path in files.iterdir()] == ["digest.vectors"]
    nowhere = RuntimeError("Could not determine home directory.")
    monkeypatch.setattr(encoders, "cache_folder", raising(nowhere))
    assert np.array_equal(Lengths("lengths", "digest").encode(encode(texts)), expected)
