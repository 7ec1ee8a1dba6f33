"""textsvm-bogofilter beside the real Bogofilter: same messages, same options, outputs with numbers masked."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("textsvm.apps.mail.filter")
from textsvm.apps.mail.bogofilter import parse_arguments, run
from textsvm.errors import InputError

PROGRAM = "from textsvm.apps.mail.bogofilter import main; main()"
REAL = shutil.which("bogofilter")
side_by_side = pytest.mark.skipif(REAL is None, reason="needs the program bogofilter")
HAM = b"From: Ann <ann@example.org>\nSubject: meeting\n\nWe meet on Tuesday at ten, bring the papers on %d.\n"
SPAM = (
    b"From: <x@deal.example>\nSubject: CHEAP pills!!!\n\nBuy viagra now, free money, http://deal.example/%d\n"
)


@pytest.fixture(scope="module")
def mails(tmp_path_factory) -> Path:
    """Messages, an mbox, a Maildir, an MH folder, and both filters' lessons of three of each kind."""
    folder = tmp_path_factory.mktemp("mails")
    for n in range(4):
        (folder / f"ham{n}").write_bytes(HAM % n)
        (folder / f"spam{n}").write_bytes(SPAM % n)
    box = b"".join(b"From a@b Thu Aug 22 12:36:23 2002\n%s\n" % mail for mail in (HAM % 9, SPAM % 9))
    (folder / "box").write_bytes(box)
    (folder / "list").write_bytes(b"ham3\nspam3\nmaildir\n")
    for place, mail in (
        ("maildir/new/b", SPAM % 8),
        ("maildir/cur/a:2,S", HAM % 8),
        ("mh/1", HAM % 7),
        ("mh/2", SPAM % 7),
        ("mh/notes", HAM % 6),
    ):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(mail)
    (folder / "maildir/tmp").mkdir()
    (folder / "forged").write_bytes(b"Subject: x\nX-Bogosity: Spam\n folded\n\n" + HAM % 3)
    (folder / "cutoffs").write_bytes(b"# mine\nspam_cutoff = 0.6\nham_cutoff=0.59\nspam_header_name=X-Foo\n")
    for filter in (ours, real) if REAL else (ours,):
        for kind, option in (("ham", "-n"), ("spam", "-s")):
            assert filter(folder, option, "-B", *(f"{kind}{n}" for n in range(3)))[0] == 0
    return folder


def ours(folder: Path, *options: str, message: str = "ham3", store: str = "ours") -> tuple[int, bytes, bytes]:
    """In this process."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    home, _ = Path.cwd(), os.chdir(folder)
    with pytest.MonkeyPatch.context() as patched, open(message) as stdin:
        for name, stream in (("stdin", stdin), ("stdout", out), ("stderr", err)):
            patched.setattr(sys, name, stream)
        patched.setenv("HOME", str(folder))
        try:
            code = run([*configured(options), "-d", store, *options])
        finally:
            os.chdir(home)
        for stream in (out, err):
            stream.flush()
    return code, out.buffer.getvalue(), err.buffer.getvalue()


def real(folder: Path, *options: str, message: str = "ham3", store: str = "real") -> tuple[int, bytes, bytes]:
    """Bogofilter's own process."""
    (folder / store).mkdir(exist_ok=True)
    command = [str(REAL), *configured(options), "-d", store, *options]
    with (folder / message).open("rb") as stdin:
        done = subprocess.run(command, cwd=folder, stdin=stdin, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def configured(options: tuple[str, ...]) -> list[str]:
    """No configuration but what the options name."""
    return [] if {"-c", "-C"} & set(options) else ["-C"]


def masked(output: bytes) -> list[bytes]:
    """Lines in any order (folders are read as they lie on the disk) with every number one letter."""
    output = re.sub(rb"version=\S+", b"version=#", output)
    return sorted(
        re.sub(rb"(?<![\w.])\d+(\.\d+)?(e-\d+)?\b(?!\.)", b"#", line) for line in output.splitlines()
    )


def same(mails: Path, *options: str, message: str = "ham3") -> None:
    """Exit code, what is printed, and what is said of lessons."""
    mine, theirs = (filter(mails, *options, message=message) for filter in (ours, real))
    assert mine[0] == theirs[0], mine[2]
    assert masked(mine[1]) == masked(theirs[1])
    assert masked(mine[2]) == masked(theirs[2])


@side_by_side
@pytest.mark.parametrize("message", ["ham3", "spam3"])
@pytest.mark.parametrize(
    "options",
    [
        "-v -o.5,.5",
        "-o.5,.5",
        "-t -o.5,.5",
        "-TT -o.5,.5",
        "-e",
        "-p -e -o.5,.5",
        "-p -o.5,.5",
        "-o.5,0 -v",
        "-v -o2,0",
    ],
)
def test_one_message(mails, options, message):
    same(mails, *options.split(), message=message)


@side_by_side
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-v -o.5,.5 -M", "box"),
        ("-t -o.5,.5 -M", "box"),
        ("-p -o.5,.5 -M", "box"),
        ("-v -o.5,.5 -B ham3 spam3", "ham3"),
        ("-t -o.5,.5 -B ham3 spam3 mh maildir", "ham3"),
        ("-TT -B ham3 spam3 mh maildir", "ham3"),
        ("-v -o.5,.5 -M -B box ham3", "ham3"),
        ("-e -v -o.5,.5 -B spam3 ham3", "ham3"),
        ("-v -o.5,.5 -b", "list"),
        ("-o.5,.5 -b", "list"),
        ("-v -o.5,.5 -I spam3", "ham3"),
        ("-p -o.5,.5", "forged"),
        ("-v -c cutoffs", "spam3"),
        ("-p -c cutoffs", "spam3"),
        ("--spam-cutoff=.5 --ham-cutoff=.5 --spam-header-name=X-Is --verbosity", "spam3"),
        ("-v -o.5,.5 --input-file=spam3", "ham3"),
    ],
)
def test_many_messages_and_settings(mails, options, message):
    same(mails, *options.split(), message=message)


@side_by_side
@pytest.mark.parametrize(
    "options",
    [
        "-s -v",
        "-S -v",
        "-n -v",
        "-N -v",
        "-Sn -v",
        "-Ns -v",
        "-s -v -M -B box",
        "-S -v -M -B box",
        "-N -v -b",
        "-n -v -B mh",
    ],
)
def test_lessons(mails, options):
    """What is printed; afterwards ours is as it was."""
    same(mails, *options.split(), message="list" if "-b" in options else "ham3")
    ours(mails, "-N" if {"-n", "-Sn"} & set(options.split()) else "-S", message="ham3")


@side_by_side
def test_updates_what_it_is_sure_of(mails):
    for filter in (ours, real):
        store = f"updated by {filter.__name__}"
        shutil.copytree(mails / filter.__name__, mails / store, dirs_exist_ok=True)
        code, out, err = filter(mails, "-u", "-v", "-o.5,.5", message="spam3", store=store)
        assert (code, masked(err)) == (0, [b"# # words, # message"])
        assert out.startswith(b"X-Bogosity: Spam, ")


@side_by_side
@pytest.mark.parametrize("options", ["-sn", "-sS", "-SN", "-u -s", "-I nothing", "-c nothing", "stray"])
def test_errors(mails, options):
    """Exit code 3; ours in one sentence."""
    code, out, err = ours(mails, *options.split())
    assert (code, out) == (real(mails, *options.split())[0], b"") == (3, b"")
    assert err.startswith(b"textsvm-bogofilter: ")
    assert err.count(b"\n") == 1


@pytest.mark.slow
def test_the_output_file_has_the_message(mails):
    code, out, _ = ours(mails, "-p", "-e", "-O", "written", "-I", "ham3")
    assert (code, out) == (0, b"")
    lines = (mails / "written").read_bytes().splitlines(True)
    assert [line for line in lines if not line.startswith(b"X-Bogosity: ")] == (HAM % 3).splitlines(True)
    assert len(lines) == len((HAM % 3).splitlines()) + 1


@pytest.mark.parametrize("options", ["-p", "-pe", "-p -Z", "-p -o x", "-p -c nothing", "-p -u -R"])
def test_a_message_passes_whatever_fails(mails, options, tmp_path):
    """There is no store, or no sense in the options."""
    code, out, err = ours(mails, *options.split(), store=str(tmp_path))
    assert (code, out) == (3, HAM % 3)
    assert err.count(b"\n") == 1


def test_a_message_is_passed_on_once_if_it_cannot_be_learnt(mails, monkeypatch, tmp_path):
    from textsvm.apps.mail.filter import Filter

    def fail(self, data, kind):
        raise InputError("the disk is full")

    monkeypatch.setattr(Filter, "learn", fail)
    assert ours(mails, "-p", "-u", "-o.5,.5")[:2] == (3, HAM % 3)
    (tmp_path / "file").touch()
    for options in ("-p -s", "-p -N", "-p -M -n"):
        assert ours(mails, *options.split(), store=str(tmp_path / "file"))[:2] == (3, HAM % 3)


def test_nothing_is_forgotten_in_a_store_that_does_not_exist(mails, tmp_path):
    for option in ("-S", "-N"):
        code, _, err = ours(mails, option, store=str(tmp_path / "none"))
        assert (code, b"there is no mail store" in err) == (3, True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("value", ["inf", "-1", "nan", "x"])
def test_invalid_cutoffs(mails, value):
    code, _, err = ours(mails, f"--spam-cutoff={value}")
    assert (code, b"must be a number of 0 or more" in err) == (3, True)
    (mails / "invalid.cf").write_text(f"# mine\nham_cutoff={value}\n")
    code, _, err = ours(mails, "-c", "invalid.cf")
    assert (code, b"invalid.cf, line 2: ham_cutoff must be" in err) == (3, True)


def test_a_forged_field_of_another_name_is_removed(mails):
    (mails / "other").write_bytes(b"x-is: Ham\nSubject: x\nX-IS: Ham\n folded\n\nX-Is: body\n")
    _, out, _ = ours(mails, "-p", "--spam-header-name=X-Is", message="other")
    assert re.fullmatch(rb"Subject: x\nX-Is: \w+, tests=bogofilter, [^\n]+\n\nX-Is: body\n", out)


def test_what_is_not_there_is_an_error_and_not_spam(mails):
    code, out, err = ours(mails, "-v", "-B", "spam3", "nothing")
    assert code == 3
    assert out.startswith(b"spam3 X-Bogosity: ")
    assert err == b"textsvm-bogofilter: cannot read nothing: No such file or directory\n"


def test_an_undone_lesson_of_the_other_kind_stays(mails):
    ours(mails, "-n", message="ham3", store="undone")
    ours(mails, "-S", message="ham3", store="undone")
    from textsvm.apps.mail.filter import Filter

    with Filter(mails / "undone") as mail:
        assert mail.learnt_kind(HAM % 3) == "ham"


def test_verbose_names_what_means_nothing(mails):
    (mails / "many").write_bytes(b"robx=0.5\nterse=yes # short\n\n#robs=1\n")
    code, out, err = ours(mails, "-v", "-c", "many", "-m.1,.2", "-k4")
    assert code in (0, 1, 2)
    assert re.fullmatch(rb"[SHU] \d\.\d{6}\n", out)
    assert err == b"textsvm-bogofilter: no effect here: robx, -m\n"


FIELDS = b"From: a@b\nTo: c@d\nDomainKey-Signature: x\n\nbody\n"


@pytest.fixture
def placed(mails) -> Path:
    """Messages whose decision goes to a certain place, and configuration files."""
    (mails / "signed").write_bytes(FIELDS)
    (mails / "mute").write_bytes(b"From: a@b\r\nTo: c@d\r\n\r\nbody\r\n")
    received = b"Received: from x ([127.0.0.1]) by y ([10.1.2.3])\n\tid AB12-3 for z\nMessage-Id: <i@j> (k)\n"
    (mails / "routed").write_bytes(received + FIELDS)
    (mails / "yes.cf").write_bytes(b"spamicity_tags = Yes, No, Unsure\nspamicity_formats %.2f\n; x\n")
    (mails / "tags.cf").write_bytes(
        b"spam_subject_tag=[SPAM] # x\nunsure_subject_tag=''\n"
        b"header_format %h: %c, a=%%%A\nspam_cutoff=.0001\n"
    )
    return mails


@side_by_side
@pytest.mark.parametrize("message", ["signed", "mute", "routed", "spam3"])
@pytest.mark.parametrize(
    "options",
    [
        "-p -o.0001 --header-format=%h:_%c --spam-header-place=DomainKey-Signature:",
        "-p -c tags.cf",
        "-p -c tags.cf --spam-header-place=To",
        "-p -o2,.0001 --unsure-subject-tag=[?] --header-format=%h:%A|%Q|%I|%m|%.3h|%.1c",
        "-p -o2,.000001 --unsure-subject-tag=[?] --header-format=X-O:%o,%5.3o --spam-header-name=From",
    ],
)
def test_headers_byte_for_byte(placed, options, message):
    """As Bogofilter writes them, where the score does not matter."""
    mine, theirs = (filter(placed, *options.split(), message=message) for filter in (ours, real))
    assert mine[:2] == theirs[:2], mine[2]


@side_by_side
@pytest.mark.parametrize(
    "options",
    [
        "-v -c yes.cf -o.5,.5",
        "-T -c yes.cf -o.5,.5",
        "-t --terse-format=%h=%c -o.5,.5",
        "-v -o.0001,0 --header-format=%d|%p|%e|%f|%g|%10.3e|%u",
        "-v --header-format=%z",
        "-v --stats-in-header=perhaps",
        "-v -u -o.5,.5 --thresh-update=0.5 --header-format=%c|%r",
    ],
)
def test_printed_formats(placed, options):
    mine, theirs = (filter(placed, *options.split(), message="spam3") for filter in (ours, real))
    assert mine[0] == theirs[0], mine[2]
    assert masked(mine[1]) == masked(theirs[1])


def test_place_of_the_header_and_yes(placed):
    """Bogofilter's t.spam.header.place, and recipes that match X-Bogosity: Yes."""
    line = b"X-Bogosity: Yes, score\n"
    options = ("-p", "-o.0001", "--header-format=%h: %c, score", "--spamicity-tags=Yes,No")
    _, out, err = ours(placed, *options, message="signed")
    assert (out, err) == (FIELDS.replace(b"\n\n", b"\n" + line + b"\n"), b"")
    _, out, _ = ours(placed, *options, "--spam-header-place=DomainKey-Signature", message="signed")
    assert out == FIELDS.replace(b"DomainKey", line + b"DomainKey")
    _, out, _ = ours(placed, *options, "--spam-header-place=Lines:", "--spam-subject-tag=[S]", message="mute")
    assert out == b"From: a@b\r\nTo: c@d\r\nX-Bogosity: Yes, score\r\nSubject: [S]\r\n\r\nbody\r\n"


def test_reasons_in_header_or_body(placed):
    """-p -v: the words that decided follow the decision, or are at the beginning of the body."""
    _, out, _ = ours(placed, "-p", "-v", message="signed")
    assert re.fullmatch(rb"(.+\n)+X-Bogosity: .+\n(  [+-]\d\.\d{4} '.+'\n)+\nbody\n", out)
    _, out, _ = ours(placed, "-p", "-v", "--stats-in-header=no", "--spam-header-place=From", message="signed")
    assert re.fullmatch(rb"X-Bogosity: .+\n(.+\n){3}\n(# [+-]\d\.\d{4} '.+'\n)+\nbody\n", out)


def test_settings_without_effect_are_named_once(placed):
    """t.multiple.wordlists: a sentence, and the common store; defaults of Bogofilter are silent."""
    (placed / "lists.cf").write_bytes(
        b"wordlist r,usr,user.db,7\nwordlist r,sys,system.db,7\nrobs = 0.0178\nunicode=Y\nmin_dev=.1\nfoo=1\n"
    )
    code, _, err = ours(placed, "-c", "lists.cf", "-M", "-v", message="box")
    assert code in (0, 1, 2)
    named = b"wordlist (all lessons are in one store, which -d or bogofilter_dir names), robs, unicode, "
    assert err == b"textsvm-bogofilter: no effect here: " + named + b"min_dev, foo\n"
    assert ours(placed, "-c", "lists.cf", "-q")[2] == b""


@pytest.mark.parametrize(
    "setting", ["header-format=%c", "spamicity-formats=%s", "terse-format=%", "spam-subject-tag=a\nBcc: b"]
)
def test_invalid_formats_pass_the_message_on(placed, setting):
    code, out, err = ours(placed, "-p", f"--{setting}", message="signed")
    assert (code, out, err.count(b"\n")) == (3, FIELDS, 1)


@pytest.mark.slow
def test_concurrent_use(mails):
    """Bogofilter's t.lock3: five processes at a time classify and learn an mbox, with and without -p."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-c", PROGRAM, "-C", "-M", "-d", "ours", "-u", "-I", "box"]
    for more in ([], ["-p", "-e"]):
        processes = [
            subprocess.Popen([*command, *more], cwd=mails, env=environment, stdout=subprocess.PIPE)
            for _ in range(5)
        ]
        outputs = [process.communicate()[0] for process in processes]
        assert {process.returncode for process in processes} <= ({0} if more else {0, 1, 2})
        if more:
            assert {output.count(b"\nX-Bogosity: ") for output in outputs} == {2}


def test_reasons_and_answers(mails):
    assert re.search(rb"\n  [+-]\d\.\d{4} '", ours(mails, "-vv", message="spam3")[1])
    for option, answer in (
        ("-h", b"Usage:"),
        ("-V", b"textsvm-bogofilter "),
        ("-Q", b"# textsvm-bogofilter "),
    ):
        code, out, _ = ours(mails, option)
        assert code == 0
        assert out.startswith(answer)


def test_cutoffs():
    settings = parse_arguments(["-C", "-o", ",0.2"]).settings
    assert [settings.kind(score) for score in (0.2, 0.21, 0.99)] == ["ham", "unsure", "spam"]
    assert [parse_arguments(["-C", "-o.6,0"]).settings.kind(score) for score in (0.59, 0.6)] == [
        "ham",
        "spam",
    ]
    assert parse_arguments(["-C", "-Ns", "-vv", "--bogofilter-dir=x"]).settings.folder == "x"


def test_as_a_process(mails):
    """What is called, and a reader that goes away: nothing but exit code 3."""
    command = [sys.executable, "-c", PROGRAM, "-C", "-d", "ours", "-p", "-e"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    with (mails / "ham3").open("rb") as stdin:
        done = subprocess.run(
            command, cwd=mails, stdin=stdin, capture_output=True, env=environment, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith((HAM % 3).partition(b"\n\n")[0] + b"\nX-Bogosity: ")
