"""Exports of annotation tools: labels of the majority, answers that do not count, agreement of annotators."""

import json

import pytest
from refusals import refuses

from textsvm.errors import InputError
from textsvm.readers.annotations import krippendorff_alpha
from textsvm.readers.read import read_corpus, read_documents

TEXTS = ["a fine day", "a poor meal", "the best room", "a cold bed"]


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def task(text, *answers, **about):
    """A task of Label Studio with a choice, or a list of choices, of each annotator."""
    annotations = [
        {"completed_by": i, "result": [{"from_name": "s", "type": "choices", "value": {"choices": choices}}]}
        for i, choices in enumerate([a] if isinstance(a, str) else a for a in answers)
    ]
    return {"id": text, "data": {"text": text}, "annotations": annotations, **about}


@pytest.mark.parametrize(
    ("observers", "alpha"),
    [
        (["0100000010", "1110010000"], 0.095),
        (["aabbdcccedda", "babbbccceddd"], 0.692),
        (["123321412...", "1233224125.3", ".3332342251.", "12332441251."], 0.743),
    ],
)
def test_alpha_is_that_of_krippendorff(observers, alpha):
    units = [[value for value in unit if value != "."] for unit in zip(*observers, strict=True)]
    assert krippendorff_alpha(units) == pytest.approx(alpha, abs=0.0005)


def test_rejected_and_ignored_answers_of_prodigy(write):
    answers = ["accept", "reject", "ignore", "accept"]
    rows = [
        {"text": t, "label": "ab"[i % 2], "answer": a}
        for i, (t, a) in enumerate(zip(TEXTS, answers, strict=True))
    ]
    path = write("teach.jsonl", jsonl(rows))
    corpus = read_corpus(path)
    assert (corpus.texts, corpus.labels) == ([TEXTS[0], TEXTS[3]], ["a", "b"])
    assert corpus.problems == [
        ("teach.jsonl", "answers: 1 rejected, 1 ignored or cancelled and left out"),
        ("2", "left out: it has no label, or a no"),
    ]
    assert corpus.warnings == []
    assert read_corpus(write("teach.json", json.dumps(rows))).labels == ["a", "b"]
    assert read_documents(path).texts == TEXTS  # texts to classify


def test_choices_of_prodigy(write):
    rows = [
        {"text": t, "options": [], "accept": a, "answer": "accept"}
        for t, a in zip(TEXTS, "abab", strict=True)
    ]
    rows = [{**row, "accept": [row["accept"]], "meta": {"id": f"n{i}"}} for i, row in enumerate(rows)]
    corpus = read_corpus(write("t.jsonl", jsonl(rows)))
    assert (corpus.ids, corpus.labels) == (["n0", "n1", "n2", "n3"], ["a", "b", "a", "b"])
    rows[1]["accept"] = ["b", "c"]
    rows[2]["accept"] = []
    corpus = read_corpus(write("t.jsonl", jsonl(rows)), label_separator=";")
    assert corpus.labels == [("a",), ("b", "c"), (), ("b",)]


def test_answers_of_prodigy_for_the_same_text(write):
    """Two accepted labels are several labels; as many or more rejections than acceptances are a rejection."""
    rows = [{"text": "t", "label": label, "answer": "accept"} for label in "ab"]
    assert read_corpus(write("t.jsonl", jsonl(rows))).labels == [("a", "b")]
    answers = {"t": "accept reject", "u": "reject reject accept", "v": "accept accept"}
    rows = [
        {"text": text, "label": "a", "answer": answer, "_annotator_id": f"p{i}"}
        for text, several in answers.items()
        for i, answer in enumerate(several.split())
    ]
    corpus = read_corpus(write("t.jsonl", jsonl(rows)))
    assert (corpus.texts, corpus.labels) == (["u", "v"], ["not a", "a"])
    assert any("left out without a majority: 1 " in note for _, note in corpus.problems)


def test_majority_of_label_studio(write):
    tasks = [task("t", "a", "b", "a"), task("u", "a", "b"), task("v", "b"), task("w")]
    tasks[2]["annotations"].append({"completed_by": 9, "was_cancelled": True, "result": []})
    tasks[3]["predictions"] = task("w", "b")["annotations"]
    path = write("ls.json", json.dumps(tasks))
    corpus = read_corpus(path)
    assert (corpus.texts, corpus.labels, corpus.ids) == (["t", "v"], ["a", "b"], ["t", "v"])
    assert dict(corpus.problems)["w"] == "left out: it has no label"  # a prediction is no answer
    said = [note for _, note in corpus.problems]
    assert "answers: 0 rejected, 1 ignored or cancelled and left out" in said
    # Units {a, b, a} and {a, b}: D_o = 4, n = 5, n_a n_b = 6, so alpha = 1 - 4 * (4 / 2 + 2 / 1) / 12
    assert any("annotators: 2; not unanimous: 2; left out without a majority: 1" in note for note in said)
    assert any(note.endswith(f"alpha of all answers: {1 - 4 * 4 / 12:.3f}") for note in said)
    assert read_corpus(path, annotators="all").labels == ["a", "b", "a", "a", "b", "b"]
    corpus = read_corpus(path, annotators="1")
    assert (corpus.texts, corpus.labels) == (["t", "u"], ["b", "b"])
    refuses("--annotators 7 is not one of all, majority, 0, 1, 2", read_corpus, path, annotators="7")
    assert len(read_documents(path)) == 4


@pytest.mark.parametrize(
    ("answers", "labels", "count"),
    [
        ((["a", "b"], ["a"]), [("a",)], 0),  # b has a tie, but a has a majority
        ((["a", "b"], ["a"], ["a", "c"]), [("a",)], 0),
        ((["a"], ["b"], ["c"]), [], 1),
        ((["a"], ["b"]), [], 1),
    ],
)
def test_texts_without_majority_are_counted(write, answers, labels, count):
    tasks = [task("t", *answers), task("v", ["d"], ["d"])]
    corpus = read_corpus(write("ls.json", json.dumps(tasks)), label_separator=";")
    assert corpus.labels == [*labels, ("d",)]
    assert any(f"left out without a majority: {count} " in note for _, note in corpus.problems)


def test_fields_and_controls_of_label_studio(write):
    one = task("t", "a")
    one["data"] = {"review": "the text", "n": 3}
    one["annotations"][0]["completed_by"] = {"id": 4, "email": "x@y"}
    path = write("ls.json", json.dumps([one]))
    assert read_corpus(path, annotators="x@y").texts == ["the text"]
    two = {**one, "data": {"words": "the text", "other": "more"}}
    refuses(r"which column is the text.* words, other", read_corpus, write("ls.json", json.dumps([two])))
    assert read_corpus(write("ls.json", json.dumps([two])), text="other").texts == ["more"]
    one["annotations"][0]["result"].append({"from_name": "tone", "value": {"choices": ["calm"]}})
    path = write("ls.json", json.dumps([one]))
    refuses("labels of s and tone; name one of them with --label", read_corpus, path)
    assert read_corpus(path, label="tone").labels == ["calm"]


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_a_table_with_a_column_of_annotators(suffix, write):
    rows = [("t", "a", 1), ("t", "b", 2), ("t", "b", 3), ("u", "a", 1), ("v", "a", 1), ("v", "b", 2)]
    content = "text,label,annotator\n" + "".join(f"{t},{a},{n}\n" for t, a, n in rows)
    if suffix == "json":
        content = json.dumps([{"text": t, "label": a, "annotator": n} for t, a, n in rows])
    path = write(f"t.{suffix}", content)
    corpus = read_corpus(path)
    assert (corpus.texts, corpus.labels) == (["t", "u"], ["b", "a"])
    assert read_corpus(path, annotators="2").labels == ["b", "b"]
    refuses("names no annotators", read_corpus, write("u.csv", "text,label\nx,a\n"), annotators="all")


STATES = [("a", "draft"), ("b", "submitted")]
RECORD = {"id": "i", "status": "completed", "fields": {"text": "t"}, "suggestions": {}}


@pytest.mark.parametrize(
    ("row", "labels"),
    [
        ({"text": "t", "label": ["a"]}, [("a",)]),  # doccano
        ({"text": "t", "annotations": [{"label": x, "user": i} for i, x in enumerate("aab")]}, ["a"]),
        ({"text": "t", "annotation": "a", "annotation_agent": "me", "status": "Validated"}, ["a"]),
        ({"text": "t", "annotation": "a", "annotation_agent": "me", "status": "Discarded"}, None),
        (RECORD | {"responses": {"label": [{"value": x, "user_id": x} for x in "a"]}}, ["a"]),  # Argilla 2
        (RECORD | {"responses": {"q": [{"value": x, "user_id": x, "status": s} for x, s in STATES]}}, ["b"]),
        ({"text": "t", "cats": {"a": 1.0, "b": 0.0}}, ["a"]),  # spaCy
        ({"text": "t", "cats": {"a": 1, "b": 1, "c": 0}}, [("a", "b")]),
        ({"messages": [{"role": "user", "content": "t"}, {"role": "assistant", "content": "a"}]}, ["a"]),
        ({"conversations": [{"from": "human", "value": "t"}, {"from": "gpt", "value": "a"}]}, ["a"]),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "t"}]}], "label": "a"}, ["a"]),
        (
            {"messages": [{"role": r, "content": [{"type": "text", "text": t}]}
                          for r, t in (("user", "t"), ("assistant", "a"))]},
            ["a"],
        ),
        ({"messages": [{"role": "user", "content": "t"}, {"role": "assistant", "content": 1}]}, ["1"]),
    ],
)  # fmt: skip
def test_rows_of_other_tools(row, labels, write):
    path = write("t.jsonl", jsonl([row]))
    if labels is None:
        refuses("no document that can be read", read_corpus, path)
        return
    corpus = read_corpus(path)
    assert (corpus.texts, corpus.labels) == (["t"], labels)


def test_the_last_message_of_a_chat_is_stated(write):
    roles = ["system", "user", "assistant", "user", "assistant", "assistant"]
    row = {"messages": [{"role": role, "content": f"{role} {i}"} for i, role in enumerate(roles)]}
    corpus = read_corpus(write("t.jsonl", jsonl([row])))
    assert (corpus.texts, corpus.labels) == (["user 3"], ["assistant 4"])
    assert corpus.problems == [
        ("t.jsonl", "the last message of the user is the text, and the answer after it the label")
    ]


def test_other_rows_with_such_keys_are_tables(write):
    rows = [{"text": "what?", "answer": "forty", "label": "a"}, {"text": "t", "answer": "no", "label": "b"}]
    assert read_corpus(write("t.jsonl", jsonl(rows))).labels == ["a", "b"]


AGAIN = "texts that an annotator answered again: 1; the last answer counts (several labels need --multilabel)"
PRODIGY = {"answer": "accept", "_annotator_id": "s1"}


def _rows(kind, answers):
    """An export with answers (text, annotator, label), in order."""
    if kind == "prodigy":
        return [PRODIGY | {"text": t, "_annotator_id": a, "accept": [label]} for t, a, label in answers]
    if kind == "one person":  # Prodigy without sessions
        return [{"answer": "accept", "text": t, "accept": [label]} for t, _, label in answers]
    if kind == "table":
        return [{"text": t, "annotator": a, "label": label} for t, a, label in answers]
    texts = dict.fromkeys(t for t, _, _ in answers)
    return [
        {"data": {"text": text}, "annotations": [
            {"completed_by": a, "result": [{"from_name": "s", "value": {"choices": [label]}}]}
            for t, a, label in answers if t == text
        ]}
        for text in texts
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["table", "prodigy", "one person", "label studio"])
def test_the_last_of_several_answers_by_an_annotator_counts(kind, write):
    answers = [(text, "anna", "ab"[i % 2]) for i, text in enumerate(TEXTS)]
    path = write("t.jsonl", jsonl(_rows(kind, [*answers, (TEXTS[1], "anna", "a")])))
    for annotators in ("majority", "all"):
        corpus = read_corpus(path, annotators=annotators)
        assert (corpus.texts, corpus.labels) == (TEXTS, ["a", "a", "a", "b"])
        assert [note for _, note in corpus.problems] == [AGAIN]
    path = write("t.jsonl", jsonl(_rows(kind, [*answers, answers[1]])))  # the same answer again
    corpus = read_corpus(path)
    assert (corpus.labels, corpus.problems) == (["a", "b", "a", "b"], [])


@pytest.mark.parametrize("kind", ["table", "prodigy", "label studio"])
def test_an_answer_that_is_given_twice_is_a_single_vote(kind, write):
    answers = [("t", "anna", "a"), ("t", "anna", "a"), ("t", "bob", "b"), ("t", "cyd", "b")]
    assert read_corpus(write("t.jsonl", jsonl(_rows(kind, answers)))).labels == ["b"]


def test_rows_of_an_annotator_are_several_labels_if_those_are_asked_for(write):
    path = write("t.jsonl", jsonl(_rows("table", [("t", "anna", "a"), ("t", "anna", "b"), ("u", "bo", "a")])))
    corpus = read_corpus(path, label_separator="")
    assert (corpus.labels, corpus.problems) == ([("a", "b"), ("a",)], [])
    path = write("t.jsonl", jsonl(_rows("prodigy", [("t", "anna", "a"), ("t", "anna", "b")])))
    corpus = read_corpus(path, label_separator="")
    assert corpus.labels == [("b",)]  # a row of Prodigy's choices has all labels
    assert "answered again: 1" in corpus.problems[0][1]
    users = [{"label": label, "user": 1} for label in "ab"]  # doccano has a row for each label
    corpus = read_corpus(write("t.jsonl", jsonl([{"text": "t", "annotations": users}])))
    assert (corpus.labels, corpus.problems) == ([("a", "b")], [])


def test_the_last_of_the_answers_on_a_label_counts(write):
    rows = [PRODIGY | {"text": "t", "label": "a", "answer": x} for x in ("accept", "reject")]
    rows += [PRODIGY | {"text": "u", "label": label, "answer": "accept"} for label in "aab"]
    corpus = read_corpus(write("t.jsonl", jsonl(rows)), label_separator="", negatives=True)
    assert corpus.labels == [(), ("a", "b")]
    assert any("answered again: 1" in note for _, note in corpus.problems)


def test_an_annotator_is_looked_for_in_all_files(tmp_path):
    for name, text in (("anna", "t"), ("bob", "u")):
        (tmp_path / f"{name}.jsonl").write_text(jsonl(_rows("table", [(text, name, "a")])), "utf-8")
    paths = [tmp_path / "anna.jsonl", tmp_path / "bob.jsonl"]
    for names in (paths, paths[::-1], tmp_path):
        assert read_corpus(names, annotators="anna").texts == ["t"]
        with pytest.raises(InputError, match=r"--annotators cyd is not one of all, majority, anna, bob$"):
            read_corpus(names, annotators="cyd")


@pytest.mark.parametrize("empty", ["[]", "()", "c()", "character(0)", []])
def test_an_empty_list_is_an_answer_without_labels(empty, write):
    rows = _rows("table", [("t", "anna", empty), ("u", "anna", "['a', 'b']"), ("v", "anna", "")])
    corpus = read_corpus(write("t.jsonl", jsonl(rows)), label_separator=",")
    assert (corpus.texts, corpus.labels) == (["t", "u"], [(), ("a", "b")])
