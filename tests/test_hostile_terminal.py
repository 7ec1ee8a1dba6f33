"""Every command that shows something of its input, on a terminal: nothing of it drives that terminal."""

import io
import json
import os
import re
import shutil
import sys
import tarfile

import pytest

from textsvm import SVC, On, Spectrum, cli
from textsvm.apps.mail.commands import open_filter
from textsvm.cli import console
from textsvm.model.file import save

pytestmark = pytest.mark.slow

#: What drives a terminal, reorders a line or ends it; but for line feeds.
DRIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = "a\x1b[31mb\nc\x9b0md\u202ee\u2066f\x07g\x7fh\u2028i\x85j[red]k"
#: As a file is called.
NAME = HOSTILE.encode()
#: Of a folder that is called like a file of a corpus.
SIDES = (f"ham{HOSTILE}", "spam")


class Terminal(io.TextIOWrapper):
    """A terminal that cannot do anything."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch, place):
    """Runs a command line in this process; what its terminal got, of stdout and of stderr."""

    def run(*arguments):
        streams = [Terminal(io.BytesIO(), encoding="utf-8") for _ in range(2)]
        with monkeypatch.context() as patch:
            patch.setenv("TERM", "dumb")
            patch.setenv("NO_COLOR", "1")
            patch.setenv("TEXTSVM_MAIL", str(place / "store"))
            patch.setattr(sys, "argv", ["textsvm", *map(os.fspath, arguments)])
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            for name in ("watch_signals", "restore_signals"):  # a process of its own has no other handlers
                patch.setattr(console, name, lambda: None)
            code = _code(cli.main)
        for stream in streams:
            stream.flush()
        return code, *(stream.buffer.getvalue().decode() for stream in streams)

    return run


def _code(main):
    try:
        return main()
    except SystemExit as error:
        return error.code


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Models and corpora of hostile ids, labels, texts, columns and names of files."""
    folder = tmp_path_factory.mktemp("hostile")
    labels = [SIDES[i % 2] for i in range(16)]
    texts = [f"{'free' if i % 2 else 'red'} {HOSTILE} {i % 7}" for i in range(16)]
    rows = [
        {
            "id": f"{HOSTILE}{i}",
            "text": text,
            "label": label,
            "group": f"{HOSTILE}{i % 4}",
            HOSTILE: f"{i % 3} x",
        }
        for i, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "t.csv").write_text(f'"{HOSTILE}",b\n1,2\n')
    save(SVC(Spectrum(2), device="cpu").fit(texts, labels), folder / "m")
    columns = {HOSTILE: [row[HOSTILE] for row in rows], "text": texts}
    on = On("text", Spectrum(2)) + On(HOSTILE, Spectrum(1))
    save(SVC(on, device="cpu").fit(columns, labels), folder / "c")
    for i, text in enumerate(texts):
        inner = os.path.join(os.fsencode(folder), b"f", [NAME, b"spam"][i % 2])
        os.makedirs(inner, exist_ok=True)
        with open(os.path.join(inner, NAME + b"\xff%d" % i), "wb") as stream:
            stream.write(text.encode() if i else b"\x00" * 99)
    with tarfile.open(folder / "t.tar", "w") as archive:
        for name, data in ((HOSTILE, b"a text"), (f"../{HOSTILE}", b"x"), (f"pos/{HOSTILE}", b"\x00" * 99)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    mail = f"From: a@b.c\nSubject: =?utf-8?q?{''.join(f'={each:02x}' for each in NAME)}?=\n\n{HOSTILE}\n"
    mail = mail.encode() + b"Content-Type: text/plain; charset=\x1b]0;x\x07\n"
    for name in (b"m.eml", NAME + b".eml"):
        with open(os.path.join(os.fsencode(folder), name), "wb") as stream:
            stream.write(mail)
    with open_filter(folder / "store", create=True) as opened:
        opened.learn_all([mail, mail + b"x"], "spam")
        opened.learn_all([b"Subject: a\n\nb\n"], "ham")
    shutil.copy(folder / "m", folder / HOSTILE)
    return folder


COMMANDS = [
    "corpus t.jsonl", "corpus t.jsonl --json", "corpus f", "corpus t.tar", "corpus ?.eml",
    "corpus t.csv --text none", "predict m t.jsonl", "predict m f", "predict m ?.eml", "predict m t.tar",
    "predict m ?", "predict m ? ??", "predict c t.jsonl", "predict c t.csv", "predict ? t.jsonl",
    "predict ? ?", "predict ?.eml t.jsonl", "evaluate m t.jsonl", "evaluate m t.jsonl --json",
    "evaluate m f", "evaluate m t.jsonl --positive ?", "evaluate m t.jsonl --slices group",
    "evaluate m t.jsonl --report ?.html --force", "explain m t.jsonl", "explain m t.jsonl --json",
    "explain c t.jsonl", "explain m ?.eml", "doubts t.jsonl",
    "doubts f", "cv t.jsonl", "train t.jsonl -o o", "train t.jsonl -o o --positive ?",
    "train t.jsonl -o ?/?", "tune t.jsonl --kernel spectrum:1-2 --C 1,10",
    "compare t.jsonl --kernel spectrum:2", "model m", "model m --json", "model c", "model ?",
    "mail learn --as spam m.eml ?.eml", "mail classify m.eml ?.eml", "mail classify -v m.eml ?.eml",
    "mail status", "mail classify ?", "mail learn --as ham ?.eml m.eml", "? ?", "corpus --? ?",
    "train t.jsonl --C ?",
]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_drives_a_terminal(command, place, terminal, monkeypatch):
    monkeypatch.chdir(place)
    code, out, said = terminal(*(each.replace("?", HOSTILE) for each in command.split()))
    assert code in (0, 1, 2, 3)
    assert out or said
    for shown in (out, said):
        assert not DRIVES.search(shown), re.findall(f".{{0,40}}{DRIVES.pattern}.{{0,10}}", shown)[:3]
        assert "Traceback" not in shown
    assert max(map(len, said.splitlines()), default=0) <= 310


def test_what_drives_a_terminal_would_be_seen(place, terminal, monkeypatch, set_values):
    monkeypatch.chdir(place)
    set_values(console, printable=str, one_line=str)
    for command in ("corpus t.jsonl", "corpus f", "model c"):
        assert DRIVES.search("".join(terminal(*command.split())[1:]))
