"""What holds for every command that reads a corpus: order of columns, files and folders and names of classes
change no figure.

`COMMANDS` has a line for each command with a corpus, `KINDS` one for each kind of target. A command without
a line fails.
"""

import json
import os
import re
import shlex
from functools import partial

import numpy as np
import pytest
from command import run
from loading import load
from test_laws_cli import MESSAGES, table
from test_laws_options import REPEATED, of_command

from textsvm.cli import COMMANDS as NAMES

#: Arguments of each command: {read} are the options of a kind, {old} and {new} its corpora.
COMMANDS = {
    "corpus": "corpus {old} {read} --json",
    "train": "train {old} {read} --tol 1e-6 -o out.textsvm --json",
    "cv": "cv {old} {read} --folds 3 --id id --predictions out.jsonl --json",
    "tune": "tune {old} {read} -C 0.1,1 --folds 3 -o out.textsvm --json",
    "compare": "compare {old} {read} --cv 2 --json",
    "doubts": "doubts {old} {read} --id id --at-least 0.3",
    "map": "map {old} {read} --id id -o out.html --json",
    "verify": "verify {old} disputed.txt {read} --json",
    "evaluate": "evaluate m.textsvm {new} {read} --json",
    "predict": "predict m.textsvm {new} --id id",
    "explain": "explain m.textsvm {new} --json",
    "update": "update m.textsvm {new} --corpus {corpora} -o out.textsvm --json",
    "label": "label {old} --text text --id id --label label --export out.jsonl",
}
#: Commands without a corpus.
WITHOUT = {"demo", "devices", "model", "export", "serve", "mail"}
FAST = "--kernel spectrum:3 --text text"
#: Options of each kind of target.
KINDS = {
    "two": f"{FAST} --label label --positive kind1",
    "three": f"{FAST} --label label3 --multiclass ovo",
    "weighted": f"{FAST} --label label3 --weights weight --groups writer --scoring f1_macro",
    "calibrated": f"{FAST} --label label3 --calibrate sigmoid",
    "levels": f"{FAST} --label level --multiclass ordered",
    "labels": f"{FAST} --label many --multilabel --label-separator ;",
    "numbers": f"{FAST} --regress number",
    "one": f"{FAST} --label label --one-class kind0",
    "columns": "--kernel spectrum:3 --text text,title --label label3 --numbers number",
}
#: Kinds that a command does not take.
NOT = {
    "cv": {"one"},
    "tune": {"one"},
    "verify": {"two"},
    "compare": {"labels", "numbers", "one", "weighted", "calibrated", "levels", "columns"},
}
#: Commands that ignore the kind of target but for their labels.
PLAIN = {"corpus", "doubts", "map", "verify", "label"}
CASES = [
    (command, kind)
    for command in COMMANDS
    for kind in KINDS
    if kind not in NOT.get(command, set()) and (command not in PLAIN or kind in ("two", "three"))
]


def marked(cases):
    """Cases as parameters; the quick tests have the first of each command."""
    first = dict(reversed(cases))
    return [
        pytest.param(command, kind, marks=[pytest.mark.slow] * (kind not in (first[command], "columns")))
        for command, kind in cases
    ]


CLASSES = ["kind0", "kind1", "kind2"]


def rows_of(messages, names):
    """Rows of a corpus with targets of every kind, of which a tenth are wrong."""
    rng, rows = np.random.default_rng(len(messages)), []
    for i, row in enumerate(messages):
        spam, n = row["label"] == "spam", len(row["text"])
        second = 2 if spam and n % 2 else int(spam)
        if rng.random() < 0.1:
            spam, second = not spam, int(rng.integers(3))
        several = [names[second], names[(second + 1) % 3]][: 1 + n % 2]
        target = {"label": names[spam], "label3": names[second], "many": ";".join(several)}
        numbers = {"level": 1 + n // 40 % 3, "number": n / 50 + 3 * spam, "weight": 1 + i % 3}
        about = {"id": f"d{i}-{n}", "writer": f"w{i // 3}", "title": row["text"][::-1][:30]}
        rows.append({**about, "text": row["text"], **target, **numbers})
    return rows


def world(folder, names=CLASSES, order=1, extra=False):
    """Folder with an old and a new corpus, whole and in two files each."""
    folder.mkdir(parents=True)
    for name, part in (("old", MESSAGES[:75]), ("new", MESSAGES[75:105])):
        rows = [dict([*row.items()][::order]) for row in rows_of(part, names)]
        if extra:
            rows = [{"colour": f"c{i}", **row, "size": i} for i, row in enumerate(rows)]
        table(folder / f"{name}.csv", rows)
        table(folder / f"{name}-1.csv", rows[:20])
        table(folder / f"{name}-2.csv", rows[20:])
    (folder / "disputed.txt").write_text(" ".join(row["text"] for row in MESSAGES[105:125]))
    return folder


def answers(command, kind, folder, old="old.csv", new="new.csv", back=None):
    """What a command prints and writes, parsed; `back` maps names of classes to those of `CLASSES`."""
    for path in folder.glob("out*"):
        path.unlink()
    named = KINDS[kind]
    for own, name in (back or {}).items():
        named = named.replace(name, own)

    def start(command, template):
        read = of_command(command, named)
        paths = {"old": old, "new": new, "corpora": old.replace(" ", " --corpus ")}
        done = run(*shlex.split(template.format(read=read, **paths)), cwd=folder)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    if command in ("evaluate", "predict", "explain", "update"):
        (folder / "m.textsvm").unlink(missing_ok=True)
        start("train", COMMANDS["train"].replace("out.textsvm", "m.textsvm"))
    texts = [start(command, COMMANDS[command])]
    texts += [path.read_text("utf-8") for path in sorted(folder.glob("out*")) if path.suffix == ".jsonl"]
    for own, name in (back or {}).items():
        texts = [text.replace(json.dumps(own)[1:-1], name).replace(own, name) for text in texts]
    found = [[json.loads(line) for line in text.splitlines()] for text in texts if text[:1] in "[{"]
    if (folder / "out.textsvm").exists():
        found.append(values_of(load(folder / "out.textsvm"), kind))
    return found


def values_of(model, kind):
    """Values and probabilities of new texts."""
    texts = [row["text"] for row in MESSAGES[125:150]]
    if kind == "columns":
        texts = {"text": texts, "title": [text[::-1] for text in texts], "number": np.arange(25.0)}
    values = {"decision": np.ravel(getattr(model, "decision_function", model.predict)(texts)).tolist()}
    if hasattr(model, "predict_proba"):
        values["probabilities"] = np.ravel(model.predict_proba(texts)).tolist()
    return values


#: Keys of what differs by nature: times, sizes of files, the reading that is repeated.
TIMES = {"fit", "predict", "objective", "iterations", "duality_gap"}


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in TIMES | REPEATED}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def leaves(value, name=""):
    """Pairs of a key and a number; of a key with a text and 1."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{name}.{key}")
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, name)
    elif isinstance(value, str):
        yield f"{name} {';'.join(sorted(value.split(';')))}", 1
    elif value is not None:
        yield name, abs(value)


def figures_of(value):
    """Absolute values of all numbers below each key, sorted: without what follows the names of classes."""
    shown = {}
    for name, number in leaves(value):
        shown.setdefault(name, []).append(number)
    return {name: sorted(numbers) for name, numbers in shown.items()}


def test_every_command_with_a_corpus_is_in_the_list():
    assert {*COMMANDS} | WITHOUT == {*NAMES}
    assert not {*COMMANDS} & WITHOUT
    assert {command for command, _ in CASES} == {*COMMANDS}


@pytest.mark.parametrize(("command", "kind"), marked(CASES))
@pytest.mark.parametrize("change", [{"order": -1}, {"extra": True}], ids=["another order", "unnamed columns"])
def test_the_order_of_columns_and_columns_that_nobody_names_change_nothing(change, command, kind, tmp_path):
    first = answers(command, kind, world(tmp_path / "first"))
    second = answers(command, kind, world(tmp_path / "second", **change))
    assert first
    assert without_times(second) == without_times(first)


def renamed(command, kind, names, folder):
    """Answers with the names of classes and with others that are mapped back."""
    first = answers(command, kind, world(folder / "first"))
    back = dict(zip(names, CLASSES, strict=True))
    second = answers(command, kind, world(folder / "second", names), back=back)
    return without_times(first), without_times(second)


@pytest.mark.parametrize(("command", "kind"), marked(CASES))
def test_names_of_classes_that_sort_alike_change_nothing(command, kind, tmp_path):
    first, second = renamed(command, kind, ["жkind0", "жkind1", "жkind2"], tmp_path)
    assert first == second


#: What depends on the order of names: `verify` draws imposters by it, offsets move classes of one size by it.
BY_NAME = {("verify", "three"), ("cv", "weighted"), ("tune", "weighted"), ("update", "weighted")}


@pytest.mark.parametrize(("command", "kind"), marked([case for case in CASES if case not in BY_NAME]))
def test_names_of_classes_that_sort_in_another_order_change_signs_alone(command, kind, tmp_path):
    first, second = (figures_of(part) for part in renamed(command, kind, ["z-9", "y-8", "x-7"], tmp_path))
    for shown in (first, second):
        shown.pop(".map.label", None)  # numbers of classes
    assert first.keys() == second.keys()
    assert any(first.values())
    for name, numbers in first.items():
        np.testing.assert_allclose(second[name], numbers, atol=5e-3, err_msg=name)


#: Commands whose folds, or whose rounds, are drawn by the order of the documents; kinds of models with folds.
OF_ORDER = {"cv", "tune", "compare", "doubts", "verify"}
WITH_FOLDS = {"weighted", "calibrated", "labels"}
#: Figures of commands that train, estimated in folds.
ESTIMATED = re.compile(r"\.(estimate|changed|warnings|probabilities)\b|_after")


IN_ORDER = [
    (command, kind)
    for command, kind in CASES
    if command not in OF_ORDER and not (command in ("train", "update") and kind in WITH_FOLDS)
]


@pytest.mark.parametrize(("command", "kind"), marked(IN_ORDER))
def test_files_in_another_order_change_the_order_alone(command, kind, tmp_path):
    folder, shown = world(tmp_path / "world"), []
    for order in (1, -1):
        old, new = ([f"{name}-1.csv", f"{name}-2.csv"][::order] for name in ("old", "new"))
        old = "old.csv" if command in ("evaluate", "predict", "explain") else " ".join(old)
        figures = figures_of(without_times(answers(command, kind, folder, old, " ".join(new))))
        shown.append({name: numbers for name, numbers in figures.items() if not ESTIMATED.search(name)})
    assert shown[0].keys() == shown[1].keys()
    assert any(shown[0].values())
    for name, numbers in shown[0].items():
        np.testing.assert_allclose(shown[1][name], numbers, atol=5e-3, err_msg=name)


class Backwards:
    """A listing of a folder in the opposite order."""

    def __init__(self, path, scan):
        with scan(path) as entries:
            self._entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=True))

    def __iter__(self):
        return self._entries

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "label"])
def test_folders_that_are_listed_in_another_order_change_nothing(command, tmp_path, monkeypatch):
    for name, part in (("old", MESSAGES[:75]), ("new", MESSAGES[75:105])):
        for row in rows_of(part, CLASSES):
            path = tmp_path / name / row["label3"] / f"{row['id']}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(row["text"])
    (tmp_path / "disputed").mkdir()
    for i in range(4):
        (tmp_path / "disputed" / f"{i}.txt").write_text(MESSAGES[105 + i]["text"] * 9)
    template = re.sub("--id id|--tol 1e-6", "", COMMANDS[command])
    monkeypatch.setitem(COMMANDS, command, template.replace("disputed.txt", "disputed"))
    monkeypatch.setitem(COMMANDS, "train", "train {old} --kernel spectrum:3 -o out.textsvm --json")
    monkeypatch.setitem(KINDS, "folders", "--kernel spectrum:3")
    shown, scan = [], os.scandir
    for listed in (scan, partial(Backwards, scan=scan)):
        monkeypatch.setattr(os, "scandir", listed)
        shown.append(without_times(answers(command, "folders", tmp_path, "old", "new")))
    assert shown[0]
    assert shown[1] == shown[0]
