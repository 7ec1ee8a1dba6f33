"""textsvm mail, as mail programs and people call it: exit codes, lines, and a message that is never lost."""

import json
import os
import stat
import subprocess
import sys
from unittest.mock import patch

import pytest
from command import fails, run_fresh
from mails import mail, taught_store
from typer.testing import CliRunner

from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.lessons import FILE
from textsvm.cli import app_of
from textsvm.cli.console import Console

SPAM = b"From: winner@example.org\nSubject: lottery prize\n\ncheap viagra pills, click: casino bonus credit\n"
HAM = b"From: family@example.org\nSubject: report\n\nphotos of the train, tuesday lunch meeting review\n"
#: Neither of the kinds.
UNSURE = b"Subject: xyzzy\n\nqwerty plugh\n"


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A store of forty mails of each kind; nobody changes it."""
    return taught_store(tmp_path_factory.mktemp("taught") / "store", 40)


def call(*arguments, stdin=b""):
    words = ["mail", *map(str, arguments)]
    with patch.object(sys, "argv", ["textsvm", *words]):
        return CliRunner().invoke(app_of(["mail"]), words, input=stdin)


def counts():
    found = json.loads(call("status", "--json").stdout)
    return found["spam"], found["ham"]


# Deciding


def test_exit_codes_are_bogofilters(store):
    for options, codes in (([], [0, 1, 2]), (["-p"], [0, 1, 2]), (["-e"], [0, 0, 0])):
        assert [call("classify", *options, stdin=data).exit_code for data in (SPAM, HAM, UNSURE)] == codes


def test_forms_of_a_line(store):
    word, score = call("classify", stdin=SPAM).stdout.split()
    assert (word, len(score)) == ("spam", 8)
    row = json.loads(call("classify", "--json", "-v", stdin=SPAM).stdout)
    assert (row["id"], row["kind"]) == ("-", "spam")
    assert f"{row['score']:.6f}" == score
    assert max(row["reasons"].values()) > 0
    first, *lines = call("classify", "-v", stdin=SPAM).stdout.splitlines()
    assert first.startswith("spam 0.9")
    assert 1 <= len(lines) <= 10
    weight, word = lines[0].split()
    assert float(weight) > 0
    assert word.strip("'").encode() in SPAM


def test_several_messages_have_a_line_each_and_the_last_one_decides(store, tmp_path, write):
    (tmp_path / "one").write_bytes(SPAM)
    (tmp_path / "two").write_bytes(HAM)
    result = call("classify", tmp_path / "one", tmp_path / "two")
    names = [line.split()[:2] for line in result.stdout.splitlines()]
    assert names == [[str(tmp_path / "one"), "spam"], [str(tmp_path / "two"), "ham"]]
    assert result.exit_code == 1
    assert call("classify", tmp_path / "two", tmp_path / "one").exit_code == 0
    assert call("classify", tmp_path / "one").stdout.startswith("spam 0.9")
    start = b"From me@example.org Mon Jan  1 00:00:00 2024\n"
    lines = call("classify", write("mbox", start + SPAM + b"\n" + start + HAM)).stdout.splitlines()
    assert [line.split(":")[-1].split()[:2] for line in lines] == [["1", "spam"], ["2", "ham"]]
    (tmp_path / "empty").mkdir()
    assert call("classify", tmp_path / "empty").exit_code == 3


# Passing through


@pytest.mark.parametrize(
    "data", [SPAM, SPAM.replace(b"\n", b"\r\n"), HAM, b"", b"\x00\xff\n\n\x80", b"no header"]
)
def test_a_message_passes_through_byte_for_byte(store, data):
    result = call("classify", "-p", "-e", stdin=data)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout_bytes.splitlines(keepends=True)
    added = [line for line in lines if line.startswith((b"X-Textsvm: ", b"X-Spam-Flag: "))]
    kept = b"".join(line for line in lines if line not in added)
    assert kept.rstrip(b"\r\n") == data.rstrip(b"\r\n") or kept.strip(b"\r\n") == data.strip(b"\r\n")
    assert any(b"score=0." in line for line in added)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-p", "--store", "/does/not/exist"],
        ["-pe", "--store", "/does/not/exist"],
        ["--passthrough", "--eggs"],
        ["-ep", "--eggs"],
        ["-p", "-v"],
        ["-p", "-", "-"],
        ["-p", "--store"],
    ],
)
def test_whatever_fails_the_message_is_handed_through(store, arguments):
    result = call("classify", *arguments, stdin=SPAM)
    assert result.exit_code == 3
    assert result.stdout_bytes == SPAM
    assert result.stderr.startswith("textsvm: ")
    assert result.stderr.count("\n") == 1


def test_a_damaged_store_and_a_bug_hand_the_message_through(store, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Filter, "classify", lambda *_: 1 / 0)
        result = call("classify", "-p", stdin=SPAM)
    assert (result.exit_code, result.stdout_bytes) == (3, SPAM)
    assert "ZeroDivisionError" in result.stderr
    (store / FILE).write_bytes(b"eggs" * 5000)
    result = call("classify", "-p", stdin=SPAM)
    assert (result.exit_code, result.stdout_bytes) == (3, SPAM)
    assert "is not a mail store" in result.stderr


@pytest.mark.slow
def test_a_full_disk_and_a_closed_pipe_are_failures_and_not_ham(store):
    command = [sys.executable, "-m", "textsvm", "mail", "classify"]
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([*command, "-p"], input=SPAM, stdout=full, stderr=subprocess.PIPE)
        assert result.returncode == 3
        assert result.stderr.startswith(b"textsvm: ")
        assert result.stderr.count(b"\n") == 1
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        result = subprocess.run(command, input=HAM, stdout=closed, stderr=subprocess.PIPE)
    assert result.returncode == 3
    assert b"Traceback" not in result.stderr


# Learning


def test_learning_counts_once_and_minds_change(store):
    data = mail("spam", 5000)
    before = counts()
    assert "1 message learnt as spam; there are 41 spam" in call("learn", "--as", "spam", stdin=data).stderr
    again = call("learn", "--as", "spam", stdin=data)
    assert again.exit_code == 0
    assert "0 messages learnt as spam, 1 known already" in again.stderr
    assert counts() == (before[0] + 1, before[1])
    assert "1 message learnt as ham" in call("learn", "--as", "ham", stdin=data).stderr
    assert counts() == (before[0], before[1] + 1)
    assert "1 message forgotten" in call("unlearn", stdin=data).stderr
    assert "1 had not been learnt" in call("unlearn", stdin=data).stderr
    assert counts() == before
    assert call("learn", "--as", "spam", "-q", stdin=data).output == ""


def test_empty_messages_are_not_learnt(store, tmp_path):
    before, empty, message = counts(), tmp_path / "empty", tmp_path / "message"
    empty.write_bytes(b"From a@example.org Mon Jan  1 00:00:00 2024\r\n \n")
    message.write_bytes(mail("spam", 5000))
    for arguments in (["-"], [empty], [os.devnull, empty]):
        result = call("learn", "--as", "spam", *arguments)
        assert result.exit_code == 3
        assert "nothing was learnt: this is no message: it has no header" in result.stderr
    assert counts() == before
    result = call("learn", "--as", "spam", empty, message)
    assert (result.exit_code, counts()) == (0, (before[0] + 1, before[1]))
    assert "1 message learnt as spam, 1 empty and skipped;" in result.stderr
    assert call("classify").exit_code == 2


def test_archives_are_not_learnt_as_messages(store, tmp_path):
    before = Filter(store).lessons.counts()
    for name, data in (("mail.tar.gz", b"\x1f\x8b\x08"), ("mail.zip", b"PK\x03\x04" + bytes(30))):
        (tmp_path / name).write_bytes(data)
        result = call("learn", "--as", "spam", tmp_path / name)
        assert (result.exit_code, "unpack it first" in result.stderr) == (3, True)
    assert Filter(store).lessons.counts() == before


def test_a_failure_says_that_earlier_messages_were_learnt(store, tmp_path):
    folder, missing = tmp_path / "spam", tmp_path / "missing"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}").write_bytes(mail("spam", 5000 + number))
    result = call("learn", "--as", "spam", missing, folder)
    assert (result.exit_code, "repeat" in result.stderr, counts()) == (3, False, (40, 40))
    result = call("learn", "--as", "spam", folder, missing)
    assert (result.exit_code, "missing" in result.stderr) == (3, True)
    assert "; correct it and repeat the command" in result.stderr
    assert counts()[0] > 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs links")
@pytest.mark.parametrize("layout", ["folder", "maildir"])
def test_what_cannot_be_read_in_a_folder_is_skipped_and_said(store, tmp_path, layout):
    """A link to nothing stands for a message that is moved after the folder was listed."""
    folder = tmp_path / "mails"
    box = folder / "cur" if layout == "maildir" else folder
    box.mkdir(parents=True)
    for number in range(0, 9, 3):
        (box / f"{number}").write_bytes(mail("spam", 5000 + number))
        (box / f"{number + 1}").symlink_to(tmp_path / "gone")
    for name, data in (("2", b"\x1f\x8b\x08"), ("5", b"a note without a header\n")):
        (box / name).write_bytes(data)
    result = call("learn", "--as", "spam", "-q", folder)
    assert (result.exit_code, counts()[0]) == (0, 43)
    lines = result.stderr.splitlines()
    assert [line.split(" ")[:2] for line in lines] == [["warning:", "skipped:"]] * 5
    for name, reason in (("1", "No such file"), ("2", "is an archive"), ("5", "is no message")):
        assert any(str(box / name) in line and reason in line for line in lines)
    assert "3 known already, 5 not read; there are 43" in call("learn", "--as", "spam", folder).stderr
    result = call("unlearn", folder, "-q")
    assert (result.exit_code, result.stderr.count("skipped: "), counts()[0]) == (0, 5, 40)
    result = call("classify", folder)
    assert (result.exit_code, result.stdout.count("\n")) == (3, 3)
    assert result.stderr.splitlines()[-1] == "textsvm: 5 files without a decision"
    assert result.stderr.count("skipped: ") == 5
    assert f"{box / '2'} is an archive" in result.stderr
    result = call("unlearn", folder, tmp_path / "missing")
    assert (result.exit_code, result.stderr.count("skipped: ")) == (3, 5)
    assert "missing: No such file" in result.stderr.splitlines()[-1]
    result = call("learn", "--as", "spam", folder, tmp_path / "missing")
    assert (result.exit_code, result.stderr.count("skipped: ")) == (3, 5)
    for number in range(2, 9):
        (box / f"{number}").unlink(missing_ok=True)
        (box / f"{number}").symlink_to(tmp_path / "gone")
    assert "warning: 8 files were skipped, these included" in call("learn", "--as", "spam", folder).stderr
    (box / "0").unlink()
    result = call("learn", "--as", "spam", folder)
    assert (result.exit_code, str(box / "1") in result.stderr) == (3, True)


def test_a_folder_without_messages_is_an_error(store, tmp_path, write):
    """The sentence names the layout that was looked for."""
    for name, layout in (("Maildir/cur", "its new and cur are empty"), ("folder/.hidden", "no mail files")):
        (tmp_path / name).mkdir(parents=True)
        for command in (["learn", "--as", "spam"], ["unlearn"], ["classify"]):
            result = call(*command, (tmp_path / name).parent)
            assert (result.exit_code, layout in result.stderr) == (3, True)
    result = call("learn", "--as", "spam", tmp_path / "folder", write("message", mail("spam", 5000)))
    assert (result.exit_code, "holds no message" in result.stderr, counts()[0]) == (0, True, 41)


def test_learning_makes_a_store(tmp_path):
    folder = tmp_path / "new"
    mbox = tmp_path / "mbox"
    start = b"From me@example.org Mon Jan  1 00:00:00 2024\n"
    mbox.write_bytes(b"\n".join(start + mail("ham", i) for i in range(30)))
    assert "30 messages learnt" in call("learn", "--as", "ham", "--store", folder, mbox).stderr
    assert call("classify", "--store", folder, stdin=SPAM).stdout.startswith("unsure 0.")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert call("learn", "--as", "spam", "--store", folder, "--most", "20", stdin=SPAM).exit_code == 0
    found = json.loads(call("status", "--json", "--store", folder).stdout)
    assert (found["spam"] + found["ham"], found["max_lessons"]) == (20, 20)
    assert "kept at most 20" in " ".join(call("status", "--store", folder).stdout.split())


def test_without_texts(store, tmp_path):
    folder = tmp_path / "new"
    for i in range(3):
        call("learn", "--as", "ham", "--without-texts", "--store", folder, stdin=mail("ham", i))
        call("learn", "--as", "spam", "--store", folder, stdin=mail("spam", i))
    assert "features of messages, no texts" in call("status", "--store", folder).stdout
    lines = call("export", "--store", folder, "-").stdout.splitlines()
    assert all("message" not in json.loads(line) for line in lines)
    result = call("report", "--store", folder, tmp_path / "report.html")
    assert result.exit_code == 0, result.output
    assert "holds no texts" in result.stderr
    result = call("report", "--store", folder, tmp_path / "none.html", "--mistakes", "0")
    assert (result.exit_code, "holds no texts" in result.stderr) == (0, False)
    result = call("learn", "--as", "ham", "--without-texts", stdin=HAM)
    assert (result.exit_code, "holds texts already" in result.stderr) == (3, True)
    assert counts() == (40, 40)


def test_status_tells_the_decisions_on_unseen_mail(store, tmp_path):
    shown = " ".join(call("status").stdout.split())
    assert "judged on unseen mail" in shown
    assert "messages before they were learnt" in shown
    call("learn", "--as", "ham", "--store", tmp_path / "new", stdin=HAM)
    assert "nothing yet" in call("status", "--store", tmp_path / "new").stdout


# The lessons as a whole


def test_status_checks_the_file(store):
    assert call("status", "--check").exit_code == 0
    data = (store / FILE).read_bytes()
    (store / FILE).write_bytes(data[:12288] + b"\xff" * 4096 + data[16384:])
    result = call("status", "--check")
    assert result.exit_code == 3
    assert "damaged" in result.stderr


def test_lessons_travel(store, tmp_path):
    file = tmp_path / "lessons.jsonl"
    assert "80 lessons written" in call("export", file).stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert call("export", "-").stdout_bytes == file.read_bytes()
    other = tmp_path / "other"
    assert "80 messages learnt" in call("import", "--store", other, file).stderr
    assert "0 messages learnt" in call("import", "--store", other, "-", stdin=file.read_bytes()).stderr
    rows = [call("classify", "--json", "--store", folder, stdin=SPAM).stdout for folder in (store, other)]
    scores = [json.loads(row)["score"] for row in rows]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)
    (tmp_path / "note").write_text("mine")
    assert "is not lessons of textsvm mail" in call("export", tmp_path / "note").stderr
    assert (tmp_path / "note").read_text() == "mine"
    assert "line 1 is no lesson" in call("import", "--store", other, tmp_path / "note").stderr


def test_retraining_and_a_report(store, tmp_path):
    assert "trained on 80 messages" in call("retrain").stderr
    for name in ("report.html", "report.md", "report.json"):
        result = call("report", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert json.loads((tmp_path / "report.json").read_text())["n"] == 78  # the first two were learnt unjudged
    assert call("report", tmp_path / "report.doc").exit_code == 3


# Failures


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["eggs"],
        ["--eggs"],
        ["classify", "--eggs"],
        ["classify", "/does/not/exist"],
        ["classify", "--store", "/does/not/exist"],
        ["learn"],
        ["learn", "--as", "Eggs"],
        ["learn", "--as", "unsure"],
        ["unlearn", "--category", "eggs"],
        ["learn", "--as", "ham", "--most", "x"],
        ["learn", "--as", "ham", "--store", "/dev/null/x"],
        ["unlearn", "--store", "/does/not/exist"],
        ["status", "--store", "/does/not/exist"],
        ["export", "/does/not/exist/file"],
        ["import", "/does/not/exist"],
        ["report", "/does/not/exist/report.html"],
    ],
)
def test_every_failure_has_an_exit_code_of_its_own(store, arguments):
    result = call(*arguments)
    assert result.exit_code == 3, result.output
    if arguments:
        assert result.stderr.startswith("textsvm: ")
        assert result.stderr.count("\n") == 1


def test_as_a_process(store):
    assert run_fresh("mail", "classify", stdin=HAM).returncode == 1
    assert fails("mail", "classify", "--eggs", code=3, run=run_fresh).endswith(
        "(see textsvm mail classify --help)"
    )


def test_deciding_needs_neither_numba_nor_scikit_learn(store):
    seen = (
        "import sys\n"
        "from textsvm.cli import main\n"
        "sys.argv = ['textsvm', 'mail', 'classify', '-p']\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code\n"
        "heavy = [name for name in ('numba', 'sklearn', 'scipy', 'pandas') if name in sys.modules]\n"
        "print(code, heavy, file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", seen], input=SPAM, capture_output=True)
    assert result.stderr == b"0 []\n"


def test_learning_says_how_far_it_is(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(Console, "stage", lambda self, *given: told.append(given))
    folder = tmp_path / "mails"
    folder.mkdir()
    for number in range(5):
        (folder / str(number)).write_bytes(mail("spam", number))
    assert call("learn", "--store", tmp_path / "new", "--as", "spam", folder).exit_code == 0
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert [total for _, _, total in told] == [size] * 5
    assert [done for _, done, _ in told] == sorted({done for _, done, _ in told})
    assert told[-1] == ("learn", size, size)
