"""Columns of numbers: targets of a regression, weights, and the groups of documents."""

import json
from collections import Counter

import pytest

from textsvm.errors import InputError
from textsvm.readers import sample
from textsvm.readers.read import read_corpus


@pytest.fixture
def write(tmp_path):
    """Write a file of the test's folder, and return its path."""

    def write(name, data):
        (tmp_path / name).write_text(data, encoding="utf-8")
        return tmp_path / name

    return write


def test_numbers_take_the_place_of_labels(write):
    path = write("x.csv", "text,score,label,n,who\na,1.5,x,2,ann\nb,-3e2,,1,bob\nc, 7 ,y,0.5,ann\n")
    corpus = read_corpus(path, target="score", weight="n", group="who")
    assert corpus.targets == [1.5, -300.0, 7.0]
    assert corpus.weights == [2.0, 1.0, 0.5]
    assert corpus.groups == ["ann", "bob", "ann"]
    assert corpus.labels is None  # and the row without a label stays
    part = corpus.subset([2, 0])
    assert (part.targets, part.weights, part.groups) == ([7.0, 1.5], [0.5, 2.0], ["ann", "ann"])
    labelled = read_corpus(path, weight="n")
    assert labelled.labels == ["x", "y"]
    assert labelled.weights == [2.0, 0.5]
    assert labelled.targets is labelled.groups is None


def test_a_row_without_a_target_is_left_out_and_named(write):
    corpus = read_corpus(write("x.tsv", "id\ttext\ty\n1\ta\t2\n2\tb\t\n3\tc\t4\n"), target="y")
    assert corpus.targets == [2.0, 4.0]
    assert corpus.problems == [("2", "left out: it has no number to be predicted")]


@pytest.mark.parametrize("header", ["", "text\tscore\n"], ids=["no header", "header"])
def test_columns_by_number(header, write):
    corpus = read_corpus(write("x.tsv", f"{header}one text\t3\nanother\t4\n"), target="2")
    assert corpus.texts == ["one text", "another"]
    assert corpus.targets == [3.0, 4.0]


def test_json_numbers(write):
    rows = [{"text": "a", "y": 2}, {"text": "b", "y": "2.5"}, {"text": "c", "y": None}]
    corpus = read_corpus(write("x.jsonl", "".join(json.dumps(row) + "\n" for row in rows)), target="y")
    assert corpus.targets == [2.0, 2.5]
    with pytest.raises(InputError, match="the target is True, which is not a finite number"):
        read_corpus(write("x.jsonl", '{"text": "a", "y": true}'), target="y")


def test_copies_that_differ_in_their_number_are_kept(write):
    corpus = read_corpus(write("x.csv", "text,y\na,1\na,2\na,1\n"), target="y")
    assert corpus.without_duplicates().targets == [1.0, 2.0]
    assert corpus.conflicting_duplicates() == [("2", "3", "4")]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"target": "y"}, "line 3: the target is 'good', which is not a finite number"),
        ({"target": "inf"}, "line 2: the target is 'inf'"),
        ({"weight": "w"}, "line 3: the weight is 'nan'"),
        ({"weight": "empty"}, "line 2: the weight is ''"),
        ({"group": "g"}, "line 3 has no g, and every document needs a group"),
        ({"target": "empty"}, "no document of .* has a number in column 'empty'"),
        ({"target": "scores"}, "no column 'scores' for the target"),
    ],
    ids=str,
)
def test_no_numbers(columns, words, write):
    path = write("x.csv", "text,y,w,g,inf,empty\na,1,1,k,inf,\nb,good,nan,,1,\n")
    with pytest.raises(InputError, match=words):
        read_corpus(path, **columns)


def test_a_weight_below_zero_is_named_by_its_row(write):
    with pytest.raises(InputError, match=r"x\.csv, line 3: the weight is -1, and none may be below 0"):
        read_corpus(write("x.csv", "text,label,n\na,x,0\nb,y,-1\n"), weight="n")


def test_other_formats_have_no_columns():
    with pytest.raises(InputError, match="is read as mail, which has no column 'score'"):
        read_corpus(sample("mail"), target="score")


def test_sample_essays():
    corpus = read_corpus(sample("essays"), target="score", weight="raters", group="writer")
    assert len(corpus) == 120
    assert set(corpus.targets) == set(range(7))
    assert set(corpus.weights) == {1, 2}
    assert set(Counter(corpus.groups).values()) == {2}
    assert not corpus.problems
    assert sum('"' in text for text in corpus.texts) > 50


def test_asap_essays(data):
    path = data / "asap-aes" / "training_set_rel3.tsv.xz"
    corpus = read_corpus(path, text="essay", target="domain1_score", group="essay_set")
    assert len(corpus) == len(corpus.targets) == 12978
    assert Counter(corpus.groups) == dict(
        zip("12345678", (1783, 1800, 1726, 1772, 1805, 1800, 1569, 723), strict=True)
    )
    pairs = list(zip(corpus.groups, corpus.targets, strict=True))
    for number, low, high in (
        ("1", 2, 12),
        ("2", 1, 6),
        ("4", 0, 3),
        ("5", 0, 4),
        ("7", 2, 24),
        ("8", 10, 60),
    ):
        scores = [score for group, score in pairs if group == number]
        assert (min(scores), max(scores)) == (low, high)
    assert not corpus.problems
