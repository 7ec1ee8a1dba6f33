"""textsvm explain: training documents and their ids."""

import pytest
from command import report, run
from loading import load

from textsvm.evaluation.explanation import explain
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.text.documents import normalise


@pytest.fixture(scope="module")
def spam(tmp_path_factory):
    """A filter of mails, and what was said of its training."""
    path = tmp_path_factory.mktemp("spam") / "m"
    return path, report("train", sample("mail"), "--positive", "spam", "--kernel", "fast", "-o", path)


def test_explain_names_training_documents(spam, tmp_path):
    corpus = read_corpus(sample("mail"))
    options = ["explain", spam[0], "-", "--similar", "3"]
    shown = report(*options, stdin=corpus.texts[4].encode())["similar"]
    for each in shown:
        assert each["id"] == corpus.ids[each["index"]]
    assert shown[0]["id"] in run(*options, stdin=corpus.texts[4].encode()).stdout.decode()
    report("train", sample("mail"), "--kernel", "fast", "--holdout", "0.5", "-o", tmp_path / "m")
    half = load(tmp_path / "m")
    text_of = dict(zip(corpus.ids, corpus.texts, strict=True))
    for each in explain(half, corpus.texts[:3]):
        assert [normalise(one.text) for one in each.similar] == [
            normalise(text_of[one.id]) for one in each.similar
        ]


def test_ids_of_support_vectors_go_with_their_texts(spam, tmp_path):
    assert len(load(spam[0]).model_.info["support_ids"]) == spam[1]["n_support"]
    report("train", sample("mail"), "--kernel", "fast", "--without-texts", "-o", tmp_path / "m")
    assert load(tmp_path / "m").model_.info["support_ids"] is None
    model = load(spam[0])
    for odd in (None, ["one"], 3, [1] * len(model.support_)):
        model.model_.info["support_ids"] = odd
        [found] = explain(model, ["free money"])
        assert {each.id for each in found.similar} == {None}
