"""A message passed on: byte for byte, but for the fields of the decision."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import textsvm
from textsvm.apps.mail.decision import Decision
from textsvm.apps.mail.message import read_message
from textsvm.apps.mail.raw_message import RawMessage, marked, marked_pieces
from textsvm.readers import sample
from textsvm.readers.files import read_files

SPAM = Decision(kind="spam", score=0.9989183, value=2.0)
HAM = Decision(kind="ham", score=0.0000001, value=-2.0)
OURS = f"X-Textsvm: Spam, score=0.998918, version={textsvm.__version__}".encode()
FLAG = b"X-Spam-Flag: YES"


def test_our_fields():
    data = b"Subject: x\n\nbody\n"
    assert marked(data, SPAM) == b"Subject: x\n" + OURS + b"\nX-Spam-Flag: YES\n\nbody\n"
    ham = OURS.replace(b"Spam, score=0.998918", b"Ham, score=0.000000")
    assert marked(data, HAM) == b"Subject: x\n" + ham + b"\n\nbody\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"S: x\n\nbody", b"S: x\n%\n\nbody"),
        (b"S: x\r\n\r\nbody\r\nno end", b"S: x\r\n%\r\n\r\nbody\r\nno end"),
        (b"From a@b Mon\nS: x\n\nb\n", b"From a@b Mon\nS: x\n%\n\nb\n"),
        (b">From a@b Mon\nS: x\n\nb\n", b">From a@b Mon\nS: x\n%\n\nb\n"),
        (b"S: x\n folded\n\tmore\n\nb\n", b"S: x\n folded\n\tmore\n%\n\nb\n"),
        (b"S: x\x00\xff\n\n\x00\xff", b"S: x\x00\xff\n%\n\n\x00\xff"),
        (b"S: x\nno field\nT: y\n\nb", b"S: x\n%\nno field\nT: y\n\nb"),
        (b"S: x\nT : y\nU: z\n\nb", b"S: x\n%\nT : y\nU: z\n\nb"),
        (b"T : y\r\nU: z\r\n\r\nb", b"%\r\nT : y\r\nU: z\r\n\r\nb"),
        (b"no header\r\nat all\r\n", b"%\r\n\r\nno header\r\nat all\r\n"),
        (b"S: x\nT: y\n z\r\r\n\nb", b"S: x\n%\nT: y\n z\r\r\n\nb"),
        (b"no header\nat all\n", b"%\n\nno header\nat all\n"),
        (b" begins with a blank\nS: x\n\nb", b"%\n\n begins with a blank\nS: x\n\nb"),
        (b"\nbody\n", b"%\n\nbody\n"),
        (b"\r\nbody\r\n", b"%\r\n\r\nbody\r\n"),
        (b"", b"%\n\n"),
        (b"S: x\n", b"S: x\n%\n\n"),
        (b"S: x", b"S: x\n%\n\n"),
        (b"From a@b", b"From a@b\n%\n\n"),
        # forged fields go
        (b"S: x\nX-Textsvm: Ham, forged\nT: y\n\nb", b"S: x\nT: y\n%\n\nb"),
        (b"S: x\nx-textsvm : Ham\n folded\n\tmore\nT: y\n\nb", b"S: x\n%\nT: y\n\nb"),
        (b"X-TEXTSVM:Ham\nX-Textsvm: a\nS: x\n\nb", b"S: x\n%\n\nb"),
        (b"S: x\nX-Textsvm: a", b"S: x\n%\n\n"),
        (b"X-Textsvm: a", b"%\n\n"),
        (b"S: x\nno field\nX-Textsvm: a\nT: y\n\nb", b"S: x\n%\nno field\nT: y\n\nb"),
        (
            b"S: x\nX-Textsvm-Not: a\nX-Spam-Flag: YES\nX-Textsvmnot: a\nX-Bogosity: a\n\n",
            b"S: x\nX-Textsvmnot: a\nX-Bogosity: a\n%\n\n",
        ),
        (b"S: x\n\nX-Textsvm: in the body\n", b"S: x\n%\n\nX-Textsvm: in the body\n"),
        (b"S: x\r\nX-Textsvm: a\r\n b\r\n\r\nb", b"S: x\r\n%\r\n\r\nb"),
    ],
)
def test_nothing_else_changes(before, after):
    end = b"\r\n" if b"%\r\n" in after else b"\n"
    assert marked(before, SPAM) == after.replace(b"%", OURS + end + FLAG)


def test_our_own_forged_fields_go():
    data = b"X-Spam-Flag: YES\nS: x\nX-TEXTSVM: Ham\n y\nX-Bogosity: Ham\n\nb"
    assert marked(data, HAM).count(b"X-") == 2
    assert b"X-Bogosity: Ham\n" in marked(data, HAM)
    assert b"X-Spam-Flag" not in marked(data, HAM)


@pytest.mark.slow
@given(st.binary(max_size=200) | st.lists(
    st.sampled_from(["a: b", "\n", "\r\n", " ", "X-Textsvm: c", "x-spam-flag:", "From ", "no", "\n\n", ":"]),
    max_size=15,
).map(lambda pieces: "".join(pieces).encode()))  # fmt: skip
@example(b"X-Textsvm:\nFrom :")
@settings(max_examples=500)
def test_marking_is_adding_lines(data):
    once = marked(data, SPAM)
    assert once.count(OURS) == 1
    assert marked(once, SPAM) == once
    # The lesson and the decision stay those of the message as it came.
    assert RawMessage(once).digest == RawMessage(data).digest
    rest = once.replace(OURS, b"", 1).replace(b"X-Spam-Flag: YES", b"", 1)
    forged = re.compile(rb"(?i)(?:\A|[^!-~])(?:x-textsvm|x-spam-flag)[ \t]*:")
    if not forged.search(data):
        assert re.sub(rb"\s", b"", rest) == re.sub(rb"\s", b"", data)
        assert len(once) - len(data) <= len(OURS) + len(b"X-Spam-Flag: YES") + 8


def test_a_large_message_is_not_copied():
    data = b"S: x\n\n" + bytes(1_000_000)
    parts = marked_pieces(RawMessage(data), SPAM)
    assert b"".join(parts) == marked(data, SPAM)
    assert all(piece.obj is data for piece in parts if isinstance(piece, memoryview))
    assert sum(len(piece) for piece in parts if isinstance(piece, bytes)) < 200


def test_the_decision_is_taken_from_the_same_text_again():
    for mail in read_files(sample("mail")).files[:50]:
        assert read_message(marked(mail.data, SPAM)) == read_message(mail.data)
