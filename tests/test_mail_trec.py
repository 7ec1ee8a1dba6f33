"""The commands of TREC's toolkit, called as it calls them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("textsvm.apps.mail.filter")
from benchmarks.trec import COMMANDS, run, scripts

pytestmark = pytest.mark.slow

HAM = b"From: Ann <ann@example.org>\nSubject: meeting\n\nWe meet on Tuesday at ten, bring the papers on %d.\n"
SPAM = (
    b"From: <x@deal.example>\nSubject: CHEAP pills!!!\n\nBuy viagra now, free money, http://deal.example/%d\n"
)
LINE = re.compile(r"class=(spam|ham) score=(-?\d+\.\d{8}) tfile=(\S+)\n")


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> Path:
    """Messages, and a working directory for the filter's commands."""
    for n in range(5):
        (tmp_path / f"ham{n}").write_bytes(HAM % n)
        (tmp_path / f"spam{n}").write_bytes(SPAM % n)
    (tmp_path / "filter").mkdir()
    monkeypatch.chdir(tmp_path / "filter")
    return tmp_path


def said(capsys) -> tuple[str, float, str]:
    found = LINE.fullmatch(capsys.readouterr().out)
    assert found
    return found[1], float(found[2]), found[3]


def test_learns_what_it_is_told(corpus, capsys):
    assert run(["initialize"]) == 0
    for n in range(4):
        for kind in ("ham", "spam"):
            file = str(corpus / f"{kind}{n}")
            assert run(["classify", file, "user"]) == 0
            decided, _, auxiliary = said(capsys)
            assert not Path(auxiliary).exists()
            assert run(["train", kind.upper(), file, decided, auxiliary, "user"]) == 0
    scores = {}
    for kind in ("ham", "spam"):
        run(["classify", str(corpus / f"{kind}4")])
        _, scores[kind], _ = said(capsys)
    assert scores["ham"] < 0 < scores["spam"]
    assert run(["finalize"]) == 0


def test_begins_anew(corpus, capsys):
    for _ in range(2):
        assert run(["initialize"]) == 0
        run(["classify", str(corpus / "spam0")])
        assert said(capsys)[0] == "ham"
        for n in range(3):
            run(["train", "spam", str(corpus / f"spam{n}")])
            run(["train", "ham", str(corpus / f"ham{n}")])


@pytest.mark.parametrize(
    "arguments",
    [[], ["classify"], ["train", "spam"], ["train", "eggs", "../ham0"], ["classify", "nothing"], ["tune"]],
)
def test_a_sentence_and_code_3(corpus, capsys, arguments):
    run(["initialize"])
    assert run(arguments) == 3
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("benchmarks.trec: ")
    assert output.err.count("\n") == 1


def test_scripts_with_a_server(corpus):
    """The toolkit's own calls: relative paths, nothing on standard input; a run that was cut short before."""
    pytest.importorskip("textsvm.apps.mail.commands")
    scripts(Path(), serve=True)
    assert all(os.access(name, os.X_OK) for name in COMMANDS)

    def call(command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", f"{command} < /dev/null"], capture_output=True, text=True, check=True
        )
        return done.stdout

    call("./initialize")
    first = Path("textsvm-trec/pid").read_text()
    call("./initialize")
    try:
        assert Path("textsvm-trec/pid").read_text() != first
        for n in range(2):
            call(f"./train spam ../spam{n} ham -")
            call(f"./train ham ../ham{n} ham -")
        found = LINE.fullmatch(call("./classify ../spam4"))
        assert found
        assert float(found[2]) > 0
    finally:
        call("./finalize")
    assert not Path("textsvm-trec/socket").exists()
    assert sys.executable in Path("classify").read_text()
