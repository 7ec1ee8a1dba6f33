"""The text of a mail: its fields, its tricks in words, its parts; its digest; and hostile mails."""

import base64
import quopri
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from malformed_mails import variants
from test_readers_mail_header import HOSTILE as HEADERS

from textsvm.apps.mail.message import MAX_PIECE, MAX_SENT, MAX_TEXT, plain_letters, read_message, shortened
from textsvm.apps.mail.raw_message import RawMessage
from textsvm.readers.pages import page_text

HEAD = b"From: Ann <ann@example.org>\nSubject: Hello\n"
HTML = HEAD + b"Content-Type: text/html; charset=utf-8\n\n"


def text(data):
    return read_message(data).text


def lines(data):
    return text(data).splitlines()


def mixed(*parts):
    """A multipart message of (header, body)."""
    body = b"".join(b"--b\n" + header + b"\n" + content + b"\n" for header, content in parts)
    return HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n" + body + b"--b--\n"


def attached(name, size, kind="application/octet-stream"):
    payload = base64.encodebytes(bytes(size))
    header = f'Content-Type: {kind}\nContent-Disposition: attachment; filename="{name}"\n'
    return header.encode() + b"Content-Transfer-Encoding: base64\n", payload


def assert_same_with_any_line_ends(mail):
    """SMTP and LMTP make CR LF of all line ends, local delivery LF."""
    crlf = mail.replace(b"\n", b"\r\n")
    assert read_message(crlf) == read_message(mail)
    for raw in (RawMessage(mail), RawMessage(crlf)):
        assert read_message(shortened(raw)).text == text(mail)


def test_line_ends_of_transport_change_nothing():
    ends = [
        mail for _, _, mail in variants() if b"\0" not in mail and b"\r" not in mail.replace(b"\r\n", b"")
    ]
    assert len(ends) > 300
    for mail in ends:
        assert_same_with_any_line_ends(mail.replace(b"\r\n", b"\n"))


@pytest.mark.parametrize("size", [0.7, 1.1, 1.9, 2.1, 3.9, 4.1, 9])
@pytest.mark.parametrize("n_parts", [0, 7, 500])
@pytest.mark.parametrize("line", [b"", b"many words of a long line in the message"])
def test_line_ends_of_transport_do_not_move_the_cuts_of_a_large_message(line, n_parts, size):
    n_lines = int(size * MAX_PIECE) // (len(line) + 1)
    body = [line + b"%d" % (i % 7) if i % 3 else line for i in range(n_lines)]
    for i in range(n_parts):
        body.insert(n_lines * i // n_parts, b"--b\nContent-Type: text/plain\n")
    kind = b"multipart/mixed; boundary=b" if n_parts else b"text/plain"
    assert_same_with_any_line_ends(HEAD + b"Content-Type: " + kind + b"\n\n" + b"\n".join(body))


def test_a_plain_mail():
    message = read_message(HEAD + b"X-Mailer: Pen 1.0\nReceived: by mail.example.org\n\nFirst.\nSecond.\n")
    assert (message.subject, message.sender) == ("Hello", "Ann <ann@example.org>")
    fields, _, below = message.text.partition("\n\n")
    assert fields.splitlines()[-1] == "X-Mailer: Pen 1.0"
    assert below.splitlines()[0] == "subject: Hello"
    assert "from: Ann <ann@example.org>" in below
    assert "x-mailer: Pen 1.0" in below
    assert "mail.example.org" not in message.text
    assert message.text.endswith("\nFirst.\nSecond.")
    assert "[" not in message.text


def test_fields_and_text_are_decoded():
    body = quopri.encodestring("Grüße aus Köln".encode("latin-1"))
    data = (
        b"Subject: =?utf-8?b?0J/RgNC40LLQtdGC?=\nFrom: =?iso-8859-1?q?J=FCrgen?= <j@x.de>\n"
        b"Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\n"
        + body
    )
    message = read_message(data)
    assert message.subject == "Привет"
    assert message.sender == "Jürgen <j@x.de>"
    assert message.text.endswith("Grüße aus Köln")


@pytest.mark.parametrize(
    ("source", "seen", "trick"),
    [
        ("a<div style='display: none'>b<p>c</div>d", "ad", "hidden text"),
        ("a<span style='font-size:0px'>b</span>d", "ad", "hidden text"),
        ("a<font color=#FFFFFF>b</font>d", "ad", "hidden text"),
        ("a<font color='#fefefd'>b</font>d", "ad", "hidden text"),
        ("a<b hidden>b</b>d", "ad", "hidden text"),
        ("<table><td bgcolor=black><font color=white>b</font></td></table>", "b", None),
        ("<table><td style='background: url(x.gif)'><font color=white>b</font></table>", "b", None),
        ("<p>a<p style='visibility:hidden'>b<p>c", "a\nc", "hidden text"),
        ("<a href='http://Evil.example/x'>go</a>", "go", "link to host evil.example"),
        ("<a href='http://evil.example'>www.bank.com</a>", "www.bank.com", "link text names another host"),
        (
            "<a href='https://img.bank.com/'>https://www.bank.com/login</a>",
            "https://www.bank.com/login",
            None,
        ),
        (
            "<a href='http://evil.co.uk'>www.barclays.co.uk</a>",
            "www.barclays.co.uk",
            "link text names another host",
        ),
        ("<a href='http://bank.com.evil.example'>bank.com</a>", "bank.com", "link text names another host"),
        ("<a href='http://notbank.com'>bank.com</a>", "bank.com", "link text names another host"),
        ("<a href='http://www.bank.com.'>Bank.com</a>", "Bank.com", None),
        ("<a href='http://bank.com'>shop.bank.com</a>", "shop.bank.com", None),
        ("<a href='http://files.example/1'>report.pdf</a>", "report.pdf", None),
        ("<a href='http://files.example/1'>photo.JPEG</a>", "photo.JPEG", None),
        ("<a href='http://10.2.3.4/'>x</a>", "x", "link to a number"),
        ("<a href='http://bank.com@evil.example/'>x</a>", "x", "link with a name before its host"),
        ("<a href='http://[bad'>x</a>", "x", "link that is no address"),
        ("<img src='http://t.example/x.gif' width=1 height=1>y", "y", "tracking pixel"),
        ("<img src='http://t.example/x.gif' style='width:1px'>y", "y", "tracking pixel"),
        ("<img src='http://t.example/x.gif' width=100>y", "y", "picture from host t.example"),
        ("<img src='cid:1' width=1>y", "y", None),
        ("vi<!-- x -->agra", "viagra", "words split by comments"),
        ("&#118;&#105;&#97;&#103;&#114;&#97;&#118;&#105;", "viagravi", "letters written as numbers"),
        ("<form action='http://f.example/'><input></form>a", "a", "form to host f.example"),
        ("<script>x</script>a", "a", "script"),
        ("a &amp; b &#228; &lt;", "a & b ä <", None),
        ("a <b unclosed", "a", None),
        ("Fees < 5 and > 3", "Fees < 5 and > 3", None),
    ],
)
def test_pages(source, seen, trick):
    got, tricks = page_text(source)
    assert got == seen
    assert trick in tricks if trick else not {"hidden text", "tracking pixel"} & {*tricks}
    assert trick or "link text names another host" not in tricks


@pytest.mark.parametrize(
    ("given_", "seen", "trick"),
    [
        ("vi\u200bag\u00adra", "viagra", "zero-width characters few"),
        ("v\u200ci\u200da", "via", "zero-width characters few"),
        ("\u200b" * 30 + "a", "a", "zero-width characters 16 or more"),
        ("раyраl", "paypal", "letters of several scripts in one word few"),
        ("𝐅𝐫𝐞𝐞 ｍｏｎｅｙ", "Free money", "styled letters 4 or more"),
        ("\u202egpj.exe", "gpj.exe", "writing direction turned few"),
        ("Привет, мир", "Привет, мир", None),
        ("Tシャツ μm naïve Straße", "Tシャツ μm naïve Straße", None),
        ("می\u200cخواهم 👩\u200d👧", "می\u200cخواهم 👩\u200d👧", None),
    ],
)
def test_letters(given_, seen, trick):
    assert plain_letters(given_) == (seen, [trick] if trick else [])


@pytest.mark.parametrize(
    ("head", "body", "trick"),
    [
        (b"", "grün".encode(), "charset that is not declared"),
        (b"Content-Type: text/plain; charset=nowhere\n", b"x\xff", "charset that nobody knows"),
        (b"Content-Type: text/plain; charset=utf-8\n", b"gr\xfcn", "charset that is not the text's"),
        (b"X-A: b\nReply-To: else@other.org\n", b"x", "reply to another address"),
        (b"To: ann@example.org\n", b"x", "sender is the receiver"),
    ],
)
def test_what_the_sender_did(head, body, trick):
    assert f"[{trick}]" in lines(HEAD + head + b"\n" + body)
    assert f"[{trick}]" not in lines(HEAD + b"\nx")


def test_names_that_are_addresses_and_raw_bytes():
    got = lines(b'From: "service@bank.com" <x@evil.example>\nSubject: gr\xfcn\n\nx\n')
    assert {"[name of the sender shows another address]", "[header that is not encoded]"} <= {*got}
    assert "subject: grün" in got
    own = lines(b'From: "X@Evil.example" <x@evil.example>\nReply-To: a@b.org, x@evil.example\n\nx\n')
    assert not {"[name of the sender shows another address]", "[reply to another address]"} & {*own}


def test_attachments_are_named_before_the_text():
    data = mixed((b"", b"see this"), attached("invoice.exe", 20_000), attached("a.txt", 10, "text/plain"))
    got = lines(data)
    assert got[-3:] == [
        "[attachment invoice.exe application/octet-stream 16-64 KB]",
        "[attachment a.txt text/plain under 1 KB]",
        "see this",
    ]


def test_tricks_stand_before_a_long_text():
    got = text(HTML + b"<a href='http://evil.example'>x</a>" + b"many words " * 50_000)
    assert got.index("[link to host evil.example]") < 300
    assert len(got) < MAX_TEXT + 1000


@pytest.mark.parametrize(("size", "count"), [(3_000_000, 1), (400_000, 20)])
def test_large_attachments_hide_no_text_after_them(size, count):
    """A page stands before a text."""
    parts = [attached("big.exe", size)] * count
    got = lines(mixed((b"", b"first words"), *parts, (b"Content-Type: text/html\n", b"<p>last words")))
    assert "[attachment big.exe application/octet-stream 64 KB or more]" in got
    assert sum(line.startswith("[attachment big.exe") for line in got) == count
    assert got[-2:] == ["last words", "first words"]


@pytest.mark.parametrize("line", [b"From a@b Mon\n", b">From a@b Mon\r\n"])
def test_the_line_of_an_mbox_is_none_of_the_message(line):
    data = HEAD + b"\nbody\n"
    assert read_message(line + data) == read_message(data)


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_any_bytes_give_a_message(data):
    for whole in (data, HTML + data, HEAD + b"Content-Type: multipart/mixed; boundary=\n\n" + data):
        message = read_message(whole)
        assert len(message.digest) == 64
        message.text.encode()


PIECES = (
    "From: ", "Subject: ", "Content-Type: ", "text/html", "multipart/mixed; boundary=", "message/rfc822",
    "; charset=", "utf-7", "Content-Transfer-Encoding: base64", "=?utf-8?q?=ff?=", "--", "b", "\n",
    "\n\n", "\r\n",
    "<a href=", "<div style='display:none'>", "<!--", "-->", "</div>", "<script>", "</", ">", "'", " ",
    "&#x41;", "\x00", "\u202e", "раy",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40))
@settings(max_examples=300)
def test_pieces_of_mails_in_any_order(pieces):
    data = "".join(pieces).encode()
    assert RawMessage(data).digest == read_message(data).digest
    read_message(HTML + data)


# The digest.

BODY = b"One line.\n\nFrom here on.\n"
SAME = {
    "CR LF": (HEAD + b"\n" + BODY).replace(b"\n", b"\r\n"),
    "empty lines at the end": HEAD + b"\n" + BODY + b"\n\r\n\n",
    "no end of the last line": HEAD + b"\n" + BODY[:-1],
    "folding": b"From: Ann\n\t<ann@example.org>\nSubject:  Hello \n\n" + BODY,
    "case of names": b"FROM: Ann <ann@example.org>\nsubject: Hello\n\n" + BODY,
    "delivery": b"Return-Path: <a@b>\nReceived: by x\n  for y\n" + HEAD + b"Status: RO\n\n" + BODY,
    "signatures": b"DKIM-Signature: v=1;\n b=x\nARC-Seal: i=1\nX-Spam-Status: No\n" + HEAD + b"\n" + BODY,
    "filters": HEAD + b"X-Bogosity: Ham\nX-Textsvm: Spam, score=1\n\n" + BODY,
    "an mbox": b"From ann@x Mon Jan  1 00:00:00 2001\n" + HEAD + b"\n" + BODY.replace(b"From", b">From"),
}
OTHER = {
    "subject": HEAD.replace(b"Hello", b"hello") + b"\n" + BODY,
    "a field more": HEAD + b"X-Other: 1\n\n" + BODY,
    "a word": HEAD + b"\n" + BODY.replace(b"One", b"Two"),
    "an empty line inside": HEAD + b"\n" + BODY.replace(b"\n\n", b"\n\n\n"),
    "no header": BODY,
    "nothing": b"",
}


@pytest.mark.parametrize("what", SAME)
def test_delivery_does_not_change_the_digest(what):
    assert RawMessage(SAME[what]).digest == RawMessage(HEAD + b"\n" + BODY).digest


def test_other_messages_have_other_digests():
    every = [RawMessage(data).digest for data in OTHER.values()]
    assert len({*every, RawMessage(HEAD + b"\n" + BODY).digest}) == len(OTHER) + 1


QUOTED = [b"\n", b"\r\n", b"\n>From x", b"\r\n>>From x", b"\n>>>From x", b"\nFrom x", b">", b"abcd"]


@given(
    st.lists(st.sampled_from(QUOTED), max_size=6).map(b"".join) | st.binary(max_size=20), st.integers(0, 30)
)
@settings(max_examples=40)
def test_ends_of_lines_at_the_borders_of_chunks(data, before):
    """The body is hashed in pieces of a megabyte."""
    body = b"x" * ((1 << 20) - before) + b"\n>From x\r\n" + data
    other = RawMessage(HEAD + b"\r\n" + body.replace(b"\r\n", b"\n"))
    assert RawMessage(HEAD + b"\n" + body).digest == other.digest


@pytest.mark.parametrize("quoted", [b">From", b">>From"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_that_an_mbox_quoted_have_one_digest(quoted, end):
    body = BODY.replace(b"From", quoted).replace(b"\n", end)
    assert RawMessage(HEAD + b"\n" + body).digest == RawMessage(HEAD + b"\n" + BODY).digest
    inside = BODY.replace(b"here", quoted)  # not at the start of a line
    other = RawMessage(HEAD + b"\n" + BODY.replace(b"here", b"From"))
    assert RawMessage(HEAD + b"\n" + inside).digest != other.digest


# Hostile mails: each in a process of its own, which says how long it took and how much memory.

M = 1_000_000
HOSTILE = {  # head, what is repeated, bytes of it, tail
    "one text part": (HEAD + b"\n", b"buy now and here\n", 100 * M, b""),
    "one line": (HEAD + b"\n", b"buy now ", 100 * M, b""),
    "one attachment": (
        mixed((b"", b"hi"), (b"Content-Type: image/gif\nContent-Transfer-Encoding: base64\n", b""))[:-7],
        b"TWFu" * 19 + b"\n", 100 * M, b"--b\n\nlast\n--b--\n",
    ),
    "a large header": (HEAD, b"X-A: b\n", 20 * M, b"\nbody\n"),
    "a large field": (HEAD + b"X-A: ", b"abc\n ", 20 * M, b"\n\nbody\n"),
    "a large subject": (b"Subject: ", b"=?utf-8?q?abc?= ", 20 * M, b"\n\nbody\n"),
    "forged fields": (HEAD, b"X-Textsvm: Ham\n", 20 * M, b"\nbody\n"),
    "a million lines of a header": (HEAD, b"A: b\n", 5 * M, b"\nbody\n"),
    "10,000 parts": (mixed()[:-7], b"--b\nContent-Type: text/html\n\n<a href=//x.y>\n", 450_000, b"--b--\n"),
    "boundaries and nothing else": (mixed()[:-7], b"--b\n", 20 * M, b""),
    "1,000 messages in messages": (HEAD, b"Content-Type: message/rfc822\n\n", 30_000, b"x\n"),
    "parameters": (HEAD + b"Content-Type: multipart/mixed", b"; a=\"b", 10 * M, b"\n\nbody\n"),
    "folded parameters": (HEAD + b"Content-Type: multipart/mixed", b"; a=\"b\n ", M, b"\n\nbody\n"),
    "parentheses": (b"From: ", b"(", 10 * M, b"\n\nbody\n"),
    "a deep page": (HTML, b"<div>", 20 * M, b""),
    "open comments": (HTML, b"<!--", 20 * M, b""),
    "comments in comments": (HTML, b"<!<!---->--", 20 * M, b""),
    "one word": (HTML, "å".encode(), 20 * M, b""),
    "invisible letters": (HTML, "a\u200bр".encode(), 20 * M, b""),
    "quoted From": (HEAD + b"\n", b">From x\n", 20 * M, b""),
    "NUL": (b"", b"\x00", 20 * M, b""),
    "quoted-printable": (HEAD + b"Content-Transfer-Encoding: quoted-printable\n\n", b"=3D=\n", 20 * M, b""),
    **{f"header of {each}": (HEAD + b"X-A: ", HEADERS[each], 10 * M, b"\nTo: b\n\nx") for each in HEADERS},
}  # fmt: skip
CHILD = """
import sys, time
from types import SimpleNamespace
from textsvm.apps.mail.message import read_message
from textsvm.apps.mail.raw_message import marked
data = open(sys.argv[1], "rb").read()
clock = time.process_time()
message = read_message(data)
size = len(marked(data, SimpleNamespace(kind="spam", score=1.0, category="")))
seconds = time.process_time() - clock
# What getrusage says begins with the memory of the process that started this one.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(seconds, int(status["VmHWM"].split()[0]) / 1024, size, len(message.text))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_mails_take_bounded_time_and_memory(what, tmp_path):
    head, repeated, size, tail = HOSTILE[what]
    block = repeated * max(1, M // len(repeated))
    with (tmp_path / "mail").open("wb") as stream:
        stream.write(head)
        for _ in range(max(1, size // len(block))):
            stream.write(block[:size])
        stream.write(tail)
    command = [sys.executable, "-c", CHILD, tmp_path / "mail"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    (tmp_path / "mail").unlink()
    seconds, megabytes, passed, length = map(float, done.stdout.split())
    assert seconds < 5
    assert megabytes < 300
    assert length < 2 * MAX_TEXT
    assert passed > 0


@pytest.mark.parametrize(
    "data",
    [
        b"Subject: =?utf-7?q?+2AA-?=\nContent-Type: text/plain; charset=utf-7\n\n+2AA- x",
        b"Subject: x\nContent-Type: text/html\n\n&#xD800; x",
        b"Subject: x\n" + b"a" * 5000 + b": b\n\nx",
        b"Subject: x\nContent-Type: a/b\nContent-Disposition: attachment; filename*=utf-7''%2B2AA-\n\nx",
    ],
)
def test_texts_can_be_stored(data):
    message = read_message(data)
    assert "x" in message.text
    assert "[not to be parsed]" not in message.text
    message.text.encode()
    message.subject.encode()


def nested(depth):
    message = b"\ninnermost\n"
    for level in range(depth):
        mark = b"b%d" % level
        message = b"Content-Type: multipart/mixed; boundary=%b\n\n--%b\n%b\n--%b--\n" % (
            mark,
            mark,
            message,
            mark,
        )
    return HEAD + message


@pytest.mark.parametrize("depth", [1, 50, 1000])
def test_nested_parts(depth):
    assert "innermost" in text(nested(depth))


def test_fields_are_those_that_were_sent():
    """Folded ones on one line, in their order, any bytes, bounded; not those of delivery."""
    fields = b"Delivered-To: me\r\nX-One: a\r\n\tb\r\nTo: \xff\r\nX-Spam-Flag: YES\r\nDate: now\r\n"
    assert read_message(fields + b"\r\nText").text == "X-One: a b\nTo: \ufffd\nDate: now\n\nText"
    assert read_message(b"Text\n\nwithout a header").text.startswith("\n\n")
    long = b"".join(b"X-%d: %s\n" % (i, b"a" * 5000) for i in range(200))
    assert len(read_message(long + b"\nText").text.partition("\n\n")[0]) == MAX_SENT


def test_a_large_blank_message_is_empty_without_a_copy():
    data = b" " * (8 << 20)
    tracemalloc.start()
    try:
        assert RawMessage(data).is_empty
        assert not RawMessage(data + b"a").is_empty
        assert tracemalloc.get_traced_memory()[1] < len(data) + (4 << 20)  # `data + b"a"` is a copy
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("declared", "displayed"), [
    (b"Content-Type: text/plain\n", "<html><p>one</p>"), (b"Content-Type: text/html\n", "one"), (b"", "one"),
    (b"Content-Type: TEXT/PLAIN; charset=us-ascii\n", "<html><p>one</p>"),
])  # fmt: skip
def test_a_declared_type_decides_whether_a_text_is_a_page(declared, displayed):
    text = read_message(b"Subject: x\n" + declared + b"\n<html><p>one</p>").text
    assert text.splitlines()[-1] == displayed
