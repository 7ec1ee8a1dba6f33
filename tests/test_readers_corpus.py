"""Corpus: selecting, reducing labels, duplicates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from textsvm.errors import InputError
from textsvm.readers.corpus import Corpus, Document, build_corpus
from textsvm.readers.statistics import describe


@pytest.fixture
def topics():
    """Five stories: several topics, one topic, none."""
    labels = [("earn",), ("acq",), ("earn", "acq"), (), ("crude", "earn")]
    parts = ["train", "train", "test", "test", None]
    return Corpus(list("abcde"), ["one", "two", "three", "two", "five"], labels, parts, "wire")


def test_select_and_subset(topics):
    assert topics.select("train").ids == ["a", "b"]
    assert topics.select(part="test").texts == ["three", "two"]
    assert topics.select(None) is topics
    assert topics.subset([3, 0]).labels == [(), ("earn",)]
    assert describe(topics)["unlabelled"] == 1
    assert len(topics.subset([])) == 0
    refuses("wire has no part 'dev'; there is: test, train", topics.select, "dev")
    with pytest.raises(InputError, match="wire has no part 'dev'; it is not in parts"):
        Corpus(["a"], ["one"], [("earn",)], [None], "wire").select("dev")


@pytest.mark.parametrize(
    ("labels", "ids", "reduced"),
    [
        (("earn", "acq"), "abe", ["earn", "acq", "earn"]),  # c has both, d has neither
        (("acq",), "abce", ["rest", "acq", "acq", "rest"]),  # d has no topic
    ],
)
def test_reduce_several_labels(topics, labels, ids, reduced):
    found = topics.reduce_labels(*labels)
    assert (found.ids, found.labels) == (list(ids), reduced)
    corpus = Corpus(list("abc"), list("xyz"), ["1", "2", "3"], [None] * 3)  # a single label each
    assert corpus.reduce_labels("2").labels == ["rest", "2", "rest"]
    assert corpus.reduce_labels("3", "1").ids == ["a", "c"]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (("ern", "rest"), "'ern'; there is: earn, "),
        (("earn", "acqq"), "'acqq'; there is: acq, "),
        (("earn", "earn"), "both 'earn'"),
    ],
)
def test_labels_that_cannot_be(topics, labels, words):
    refuses(words, topics.reduce_labels, *labels)


def test_one_class_only():
    corpus = Corpus(list("ab"), list("xy"), [("u",), ("u",)], [None] * 2, "here")
    refuses("here: no document", corpus.reduce_labels, "u")
    refuses("no labels", Corpus(["a"], ["x"], None, [None], "here").reduce_labels, "u")


def test_duplicates(topics):
    assert topics.duplicates() == [("b", "d")]
    assert topics.conflicting_duplicates() == [("b", "d")]
    same = Corpus(list("abcd"), ["x", "y", "x", "x"], ["1", "1", "1", "2"], [None] * 4)
    assert same.duplicates() == [("a", "c", "d")]


def test_gather_names_what_it_leaves_out():
    documents = [Document("a", "x", "1"), Document("b", "y"), Document("a", "z", ("2", "3"))]
    corpus = build_corpus(documents, "s", "jsonl", [])
    assert corpus.ids == ["a", "a#2"]
    assert corpus.labels == [("1",), ("2", "3")]
    assert [identifier for identifier, _ in corpus.problems] == ["b", "a"]
    assert build_corpus(documents, "s", "jsonl", [], labelled=False).ids == ["a", "b", "a#2"]
    assert build_corpus([Document("\udcff", "x")], "s", "mail", []).ids == ["?"]


@given(st.lists(st.sampled_from(["a", "a#2", "a#3", "b"]), max_size=12))
def test_ids_are_unique(ids):
    corpus = build_corpus([Document(each, str(i)) for i, each in enumerate(ids)], "s", "f", [])
    assert len(set(corpus.ids)) == len(ids)
    assert all(corpus.ids[ids.index(each)] == each for each in set(ids))  # the first keeps its own
