"""Faults at every call that writes of a labelling session: `python tests/label_kills.py` tries them all.

A session is killed before or in the midst of each call, or the disk is full, or fails, from this call on.
Afterwards the journal opens, and has exactly the answers that were acknowledged, and at most the
one under way, in the journal and in the file of labels.
"""

import ctypes
import json
import mmap
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import killed

from textsvm.apps.label.files import Journal, JournalEntry, text_digest
from textsvm.errors import InputError

TEXTS = {"a": "win cash", "b": "lunch ü", "c": "noon\nat"}
STEPS = [
    ("labels", ["spam", "ham"]), ("a", "spam"), ("b", "ham"), ("a", "ham"),
    ("labels", ["spam", "ham", "müll"]), ("c", "müll"), ("b", None),
    ("withdraw", "a"), ("b", "spam"), ("withdraw", "c"),
]  # fmt: skip


def take(journal, name, value):
    if name == "labels":
        journal.set_labels(value)
    elif name == "withdraw":
        journal.withdraw([value], TEXTS.get)
    else:
        journal.add([JournalEntry(name, text_digest(TEXTS[name]), value, "user")], TEXTS.get)


def work(folder, acknowledge):
    """All steps; each that returns is acknowledged."""
    journal = Journal(folder / "labels.jsonl", False)
    journal.write_labels(TEXTS.get)
    for number, step in enumerate(STEPS):
        with suppress(InputError):
            take(journal, *step)
            acknowledge(number)
    with suppress(InputError):
        journal.close()


def after(numbers):
    """Answers after some of the steps."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder, "labels.jsonl"), False)
        for number in numbers:
            with suppress(KeyError):  # withdraws an answer that was not acknowledged
                take(journal, *STEPS[number])
        answers = labels_of(journal)
        journal.close()
    return answers


def labels_of(journal):
    return {name: entry.label for name, entry in journal.answers.items()}


def fault(shim, point, kind):
    """Run into a fault; number of calls, steps acknowledged, and the answers found by the next session."""
    calls = ctypes.c_long.from_buffer(mmap.mmap(-1, ctypes.sizeof(ctypes.c_long)))
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if (child := os.fork()) == 0:
            try:
                shim.fault_at(point, kind, ctypes.byref(calls))
                work(folder, lambda number: os.write(writing, bytes([number])))
                os._exit(0)
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        os.close(writing)
        with open(reading, "rb") as stream:
            done = list(stream.read())
        if (folder / "labels.jsonl").exists() and not (folder / "labels.jsonl.journal").exists():
            raise AssertionError("the journal is gone")
        journal = Journal(folder / "labels.jsonl", False)
        journal.write_labels(TEXTS.get)
        found = labels_of(journal)
        journal.close()
        rows = map(json.loads, (folder / "labels.jsonl").read_text("utf-8").splitlines())
        labels = {name: label for name, label in found.items() if label is not None}
        assert {row["id"]: row["label"] for row in rows} == labels
    return calls.value, done, found


def main(shim):
    """Try every call with every fault; number of faults."""
    count, done, found = fault(shim, -1, 0)
    assert done == [*range(len(STEPS))]
    assert found == after(done)
    tried = 0
    for point in range(1, count + 1):
        for kind in killed.KINDS.values():
            _, done, found = fault(shim, point, kind)
            under_way = [done[-1] + 1] if done and done[-1] + 1 < len(STEPS) else [] if done else [0]
            assert found in [after(done), after([*done, *under_way])], (point, kind, done, found)
            tried += 1
    return tried


if __name__ == "__main__":
    if "LD_PRELOAD" in os.environ:
        print(f"{main(ctypes.CDLL(None))} faults, no acknowledged answer lost")
    else:
        with tempfile.TemporaryDirectory() as folder:
            start = partial(subprocess.run, [sys.executable, __file__])
            sys.exit(start(env={**os.environ, "LD_PRELOAD": str(killed.build(folder))}).returncode)
