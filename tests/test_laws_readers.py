"""What holds for all readers: answers that do not count, guesses of layouts, settings that come back."""

import csv
import json

import pytest

from textsvm.errors import InputError
from textsvm.readers.corpus import ReadOptions
from textsvm.readers.files import read_files
from textsvm.readers.read import iterate_documents, read_corpus


def test_a_cancelled_answer_does_not_count(write):
    def answer(label, by=1, **about):
        result = {"from_name": "s", "type": "choices", "value": {"choices": [label]}}
        return {"completed_by": by, "result": [result], **about}

    tasks = [
        {"id": i, "data": {"text": text}, "annotations": [answer(label), *more]}
        for i, (text, label, more) in enumerate(
            [
                ("t", "a", []),
                ("u", "b", [answer("a", 2, was_cancelled=True), answer("a", 3, was_cancelled=True)]),
                ("v", "b", [answer("a", 2, was_cancelled=False), answer("a", 3)]),
            ]
        )
    ]
    assert read_corpus(write("ls.json", json.dumps(tasks))).labels == ["a", "b", "a"]
    for annotation in tasks[0]["annotations"]:
        annotation["was_cancelled"] = True
    assert read_corpus(write("ls.json", json.dumps(tasks))).labels == ["b", "a"]


def test_a_backslash_before_a_quote_is_an_escape_only_if_rows_become_equal(write):
    """Where both readings give equal rows the file says nothing: every character stays."""
    rows = [f'a {i}\\" pipe of a ship {i},{"ab"[i % 2]}' for i in range(12)]
    path = write("t.csv", "text,label\n" + "\n".join(rows) + "\n")
    assert read_corpus(path, text="text", label="label").texts[3] == 'a 3\\" pipe of a ship 3'
    rows = [f'"a {i}\\", b\\" pipe",{"ab"[i % 2]}' for i in range(12)]
    path = write("u.csv", "text,label\n" + "\n".join(rows) + "\n")
    assert read_corpus(path, text="text", label="label").texts[3] == 'a 3", b" pipe'


@pytest.mark.parametrize("ending", ["whole", "stopped", "error"])
def test_the_limit_of_fields_of_module_csv_comes_back(ending, write):
    before = csv.field_size_limit(12_345)
    try:
        rows = "".join(f'"text {i} {"x" * 13_000}",{"ab"[i % 2]}\n' for i in range(12))
        path = write("t.csv", "text,label\n" + rows + ('"never closed\n' if ending == "error" else ""))
        if ending == "stopped":
            documents = iterate_documents(read_files(path), "tables", ReadOptions("tables", text="text"))
            assert len(next(documents).text) > 13_000
            del documents
        elif ending == "error":
            with pytest.raises(InputError, match="never closed"):
                read_corpus(path, text="text", label="label")
        else:
            read_corpus(path, text="text", label="label")
        assert csv.field_size_limit() == 12_345
    finally:
        csv.field_size_limit(before)


def test_tables_that_are_read_in_turns_do_not_change_the_limit_of_each_other(write):
    """Each would restore what the other had set."""
    short = "".join(f'"a short text {i}",{"ab"[i % 2]}\n' for i in range(5000))
    rows = short + f'"{"x" * 140_000}",a\n'
    before = csv.field_size_limit()
    readings = [
        iterate_documents(read_files(write(name, f"text,label\n{body}")), "tables", ReadOptions("tables"))
        for name, body in (("short.csv", short), ("long.csv", rows))
    ]
    read = [next(readings[0]), next(readings[1]), *readings[0], *readings[1]]
    assert len(read) == 10_001
    assert csv.field_size_limit() == before
