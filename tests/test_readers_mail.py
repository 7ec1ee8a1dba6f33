"""Mail: MIME, charsets, HTML, mail boxes, damage."""

import email
import email.policy
import importlib
import io
import mailbox
import random
import re
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from growth import assert_at_most_linear
from hypothesis import given
from hypothesis import strategies as st

from textsvm.readers.charsets import decode_declared, is_binary
from textsvm.readers.mail import is_mail, is_mbox, message_text
from textsvm.readers.mime import html_text
from textsvm.readers.read import read_corpus, read_documents

ROOT = Path(__file__).resolve().parent.parent
HEAD = b"From: a@example.org\nTo: b@example.org\n"


def text(data, **options):
    return message_text(data, **options)[0]


def damage(data):
    return message_text(data)[1]


def test_a_plain_message():
    assert (
        text(HEAD + b"Subject: Hello\n  there\n\nFirst line.\nSecond line.\n")
        == "Hello there\nFirst line.\nSecond line."
    )
    assert text(HEAD + b"\nNo subject.\n") == "No subject."
    assert damage(HEAD + b"Subject: x\n\ny\n") == []


def test_headers_are_text_on_demand():
    data = b"Received: from x\n\tby y\n" + HEAD + b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n\nBody\n"
    assert text(data, headers=True) == (
        "Received: from x by y\nFrom: a@example.org\nTo: b@example.org\nSubject: Grüße\nBody"
    )


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (b"=?iso-8859-1?Q?caf=E9_cr=E8me?=", "café crème"),
        (b"=?UTF-8?B?0J/RgNC40LLQtdGC?= =?UTF-8?B?IQ==?=", "Привет!"),
        (b"=?koi8-r?B?8NLJ18XU?= and =?iso-8859-7?q?=C1?=", "Привет and Α"),
        (b"=?utf-8?B?0J8=?==?utf-8?B?0YA=?=", "Пр"),
        (b"=?utf-8?B?4pg=?= =?utf-8?B?gw==?=", "\u2603"),  # one character in two words
        (b"=?utf-8*en?Q?language?=", "language"),
        (b"=?x-nowhere?Q?caf=C3=A9?=", "café"),
        (b"=?utf-8?B?!!!?= =?utf-8?B?abc?=", "i\ufffd"),
        (b"raw \xe9 and utf-8 \xc3\xa9", "raw é and utf-8 é"),
        (b"=?broken", "=?broken"),
        (b"=?utf-8?q?why?now?=!", "why?now!"),
        (b"=?utf-8?b?YWI=?= =?utf-8?q?=3F?=", "ab?"),
        (b"=?utf-8?b?Y2hlYXA", "cheap"),
        (b"plain  = ? text", "plain = ? text"),
    ],
)
def test_subjects(subject, expected):
    got = text(HEAD + b"Subject: " + subject + b"\n\n")
    if subject.startswith(b"=?utf-8?B?!!!"):
        assert isinstance(got, str)
    else:
        assert got == expected


@pytest.mark.parametrize(
    ("charset", "encoding", "body", "expected"),
    [
        ("iso-8859-1", "quoted-printable", b"Stra=DFe =\nlong", "Straße long"),
        ("utf-8", "base64", b"0J/RgNC40LLQtdGC", "Привет"),
        ("iso-2022-jp", "7bit", "写真".encode("iso-2022-jp"), "写真"),
        ("shift_jis", "8bit", "①写真".encode("cp932"), "①写真"),  # really cp932, as so often
        ("gb2312", "8bit", "简体镕".encode("gb18030"), "简体镕"),
        ("iso-8859-1", "8bit", b"\x93smart\x94 \x80", "“smart” €"),  # really windows-1252
        ("windows-1256", "8bit", "مرحبا".encode("cp1256"), "مرحبا"),
        ("us-ascii", "8bit", "naïve".encode(), "naïve"),
        ("us-ascii", "8bit", b"na\xefve", "naïve"),
        ("nonsense", "8bit", b"na\xefve", "naïve"),
        ("utf-8", "8bit", b"na\xefve caf\xc3\xa9", "naïve café"),
        ("zlib", "8bit", b"plain", "plain"),
        ("idna", "8bit", b"plain", "plain"),
        ("", "8bit", b"na\xefve", "naïve"),
        ("utf-8", "x-nonsense", b"plain", "plain"),
    ],
)
def test_charsets_and_transfer_encodings(charset, encoding, body, expected):
    head = f'Content-Type: text/plain; charset="{charset}"\nContent-Transfer-Encoding: {encoding}\n\n'
    assert text(HEAD + head.encode() + body + b"\n") == expected


def test_wrong_charsets_are_named():
    head = b"Content-Type: text/plain; charset=%b\n\n"
    assert damage(HEAD + head % b"us-ascii" + b"na\xefve") == [
        "some bytes are not us-ascii, which was declared, and were read as Windows-1252"
    ]
    assert damage(HEAD + head % b"x-klingon" + b"abc") == ["unknown charset 'x-klingon'"]
    assert damage(HEAD + head % b"unknown-8bit" + b"na\xefve") == []
    assert decode_declared(b"\xff", "utf-16\0") == ("ÿ", "unknown charset 'utf-16\\x00'")


def multipart(*parts, kind="mixed", end=b"--B--\n"):
    return (
        HEAD
        + b"Subject: S\nMIME-Version: 1.0\n"
        + f'Content-Type: multipart/{kind}; boundary="B"\n\nPreamble\n'.encode()
        + b"".join(b"--B\n" + part + b"\n" for part in parts)
        + end
    )


PLAIN = b"Content-Type: text/plain\n\nplain text"
HTML = b"Content-Type: text/html\n\n<p>html <b>te</b>xt</p>"
IMAGE = b"Content-Type: image/gif\nContent-Transfer-Encoding: base64\n\nR0lGODlhAQABAAAAACw="


def test_multipart():
    assert text(multipart(PLAIN, IMAGE, HTML)) == "S\nplain text\nhtml text"
    inner = b"Content-Type: message/rfc822\n\n" + HEAD + b"Subject: inner\n\nforwarded"
    assert text(multipart(PLAIN, inner)) == "S\nplain text\nforwarded"
    assert text(multipart(IMAGE)) == "S"


def test_damaged_messages_keep_what_they_say():
    cut = multipart(PLAIN, HTML, end=b"")
    assert text(cut) == "S\nplain text\nhtml text"
    assert damage(cut) == ["the last boundary is missing: cut off"]
    lost = multipart(PLAIN).replace(b'boundary="B"', b'boundary="other"')
    assert "plain text" in text(lost)
    assert damage(lost) == ["a multipart message whose boundary never comes"]
    assert damage(lost.replace(b"--B", b"..")) == [
        "a multipart message whose boundary never comes",
        "a multipart message without parts",
    ]
    assert message_text(b"Just a text.\n") == ("Just a text.", ["it has no headers"])
    odd = HEAD + b"no header\nSubject: x\n\nbody"
    assert "body" in text(odd)
    assert damage(odd) == ["a header that is not well-formed"]
    bad = HEAD + b"Content-Transfer-Encoding: base64\n\nSGVsbG8*gd29ybGQ\n"
    assert text(bad) == "Hello world"
    assert damage(bad) == ["base64 with other characters in it, or of a wrong length"]


def test_nesting_without_end_is_survived():
    data = b"Subject: deep\n"
    for i in range(3000):
        data += b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (i, i)
    assert "deep" in text(data)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>One</p><p>two<br>three</p>", "One\ntwo\nthree"),
        ("v<!-- x -->ia<b></b>gra", "viagra"),
        ("a<!-- b <!-- c --> d", "a d"),
        ("a<!-- never closed", "a"),
        ("<style>p {}</style>x<SCRIPT type=a>if (a<b) {}</sCript >y", "xy"),
        ("a<script>b<script>c</script>d", "ad"),
        ("a<script>b", "a"),
        ("&lt;tag&gt; &amp; &eacute;&#8364;&nbsp;x", "<tag> & é€ x"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<td>a</td><td>b</td>", "a\nb"),
        ("İ<style>İ</style>İ", "İİ"),
        ("<a href=x", "<a href=x"),
    ],
)
def test_html(source, expected):
    assert html_text(source) == expected


@pytest.mark.parametrize(
    "piece",
    ["<", "<!--", "<script>", "<a ", "</script", "&", "<!-- -->", " \n", "<style></script>", "=?a?b?"],
)
def test_hostile_html_and_headers_take_linear_time(piece):
    assert_at_most_linear(lambda n: html_text(piece * (n // len(piece))), 20_000)
    subject = piece.encode()
    assert_at_most_linear(lambda n: text(HEAD + b"Subject: " + subject * (n // len(piece)) + b"\n\n"), 25_000)


def test_a_hostile_mbox_takes_linear_time():
    assert_at_most_linear(
        lambda n: is_mbox(b"From " + b"00:00 " * n + b"\n" + b"From 00:00 1999\n" * (n // 10)), 25_000
    )


MIME_PIECES = (
    rb"""
Content-Type: multipart/mixed; boundary=B~|Content-Type: text/plain; charset=utf-7~|~|--B~|--B--~|
Content-Type: text/html; charset*=iso-8859-1''%FF~|Content-Type: message/rfc822~|begin 644 x~|end~|
Content-Transfer-Encoding: base64~|Content-Transfer-Encoding: x-uuencode~|Content-Type: text/plain; charset=|
utf-16|idna|Subject: =?utf-8?b?|?=|From a@b 00:00 1999~|Content-Type: message/partial~| folded~|=C3=A9=~|
Content-Type: message/delivery-status~|Content-Type: ; x="~|Content-Transfer-Encoding: quoted-printable~|
Content-Disposition: attachment; filename="?"~""".replace(b"\n", b"")
    .replace(b"~", b"\n")
    .split(b"|")
)
MIME = st.lists(st.sampled_from(MIME_PIECES) | st.binary(max_size=8), max_size=25).map(b"".join)


@given(MIME, st.booleans())
def test_any_bytes_give_a_text(data, headers):
    got, sentences = message_text(b"Subject: s\n" + data, headers=headers)
    assert isinstance(got, str)
    assert all(sentences)
    is_mbox(data)


def test_what_is_mail():
    assert is_mail(HEAD + b"\nx")
    assert is_mail(b"From a@b Mon Jan  1 00:00:00 2001\nSubject: x\n\n")
    assert is_mail(b"\r\nReceived: from x\r\n\tby y\r\n\r\n")
    for other in (
        b"",
        b"Dear Sir,\nSubject: x",
        b"key: value\n",
        b'{"from": 1}',
        b"a,b\n1,2\n",
        b"\x89PNG\r\n",
    ):
        assert not is_mail(other)
    assert is_binary(b"\x00\x01")
    assert not is_binary("ä".encode("utf-16"))


def write_mbox(path, n=5):
    box = mailbox.mbox(path)
    for i in range(n):
        message = mailbox.mboxMessage()
        message["From"] = "a@example.org"
        message["Subject"] = f"message {i}"
        message.set_payload(f"text {i}\n\nFrom here on\n\nFrom: here\n")
        message.set_from("a@example.org", True)
        box.add(message)
    box.close()


def test_mbox(tmp_path):
    write_mbox(tmp_path / "box")
    corpus = read_documents(tmp_path / "box")
    assert corpus.format == "mail"
    assert len(corpus) == 5
    assert corpus.texts[3] == "message 3\ntext 3\n\nFrom here on\n\nFrom: here\n".strip()
    assert corpus.ids[0] == "box:1"
    write_mbox(tmp_path / "work.mbox", 2)
    (tmp_path / "box").rename(tmp_path / "spam")
    assert Counter(read_corpus(tmp_path).labels) == {"spam": 5, "work": 2}


def test_maildir(tmp_path):
    for folder, n in (("ham", 3), ("spam", 2)):
        box = mailbox.Maildir(tmp_path / folder)
        for i in range(n):
            box.add(HEAD + b"Subject: %d\n\ntext of %s" % (i, folder.encode()))
    (tmp_path / "ham" / "tmp" / "half").write_bytes(HEAD)
    assert Counter(read_corpus(tmp_path).labels) == {"ham": 3, "spam": 2}
    assert len(read_documents(tmp_path / "ham")) == 3


@pytest.mark.parametrize("part", ["new", "cur"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_maildir_folder_whose_messages_are_all_new_or_all_read(part, packed, tmp_path):
    for folder in (".Junk", ".Sent"):
        (tmp_path / "Mail" / folder / part).mkdir(parents=True)
        (tmp_path / "Mail" / folder / part / "1").write_bytes(HEAD + b"\ntext")
    (tmp_path / "Mail" / ".git").mkdir()
    (tmp_path / "Mail" / ".git" / "2").write_bytes(HEAD + b"\nno mail")
    path = tmp_path / "Mail"
    if packed:
        path = tmp_path / "Mail.tar"
        with tarfile.open(path, "w") as archive:
            archive.add(tmp_path / "Mail", "Mail")
    assert read_documents(path).texts == ["text", "text"]


def test_folders_of_messages_and_archives_of_them(tmp_path):
    with zipfile.ZipFile(tmp_path / "20030228_easy_ham_2.zip", "w") as archive:
        archive.writestr("easy_ham_2/0001.abc", HEAD + b"Subject: x\n\nham")
        archive.writestr("easy_ham_2/cmds", b"mv 0001.abc elsewhere\n")
    (tmp_path / "spam_2").mkdir()
    (tmp_path / "spam_2" / "1").write_bytes(HEAD + b"\nspam")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "2").write_bytes(b"no headers at all\n")
    corpus = read_corpus(tmp_path, "mail")
    assert dict(zip(corpus.ids, corpus.labels, strict=True)) == {
        "20030228_easy_ham_2.zip/easy_ham_2/0001.abc": "ham",
        "private/2": "private",
        "spam_2/1": "spam",
    }
    assert corpus.problems == [("private/2", "it has no headers")]


def test_damaged_sample_mails(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "corpora")
    make_samples = importlib.import_module("make_samples")
    make_samples.write_mail(tmp_path / "mail.tar.gz", random.Random(822), broken=True)
    corpus = read_corpus(tmp_path / "mail.tar.gz")
    assert corpus.format == "mail"
    assert len(corpus) == 400
    assert set(corpus.labels) == {"ham", "spam"}
    assert 20 < len({identifier for identifier, _ in corpus.problems}) < 60
    damaged = {identifier for identifier, _ in corpus.problems}
    whole = [
        text for identifier, text in zip(corpus.ids, corpus.texts, strict=True) if identifier not in damaged
    ]
    together = "".join(whole)
    for word in ("Привет", "写真", "发票", "Grüße", "Φιλικά", "مرحبا", "réunion"):
        assert word in together
    assert "<!--" not in together
    assert "window.status" not in together


@pytest.mark.slow
def test_all_messages_of_spamassassin(data):
    spamassassin = read_corpus(data / "spamassassin" / "spamassassin_public_corpus.tar.xz")
    assert len(spamassassin) == 6_046
    assert Counter(spamassassin.labels) == {"ham": 4_150, "spam": 1_896}
    assert all(text.strip() for text in spamassassin.texts)
    damaged = {identifier for identifier, _ in spamassassin.problems}
    assert 50 < len(damaged) < 300
    assert damaged <= set(spamassassin.ids)


def test_against_the_modern_api_of_the_standard_library(tmp_path, data):
    """Where `email.policy.default` can decode a one-part plain message, its words are ours."""
    whole = data / "spamassassin" / "spamassassin_public_corpus.tar.xz"
    with tarfile.open(whole) as archive, tarfile.open(tmp_path / "some.tar", "w") as some:
        files = [member for member in archive if member.isfile()][::7]
        mails = {member.name: archive.extractfile(member).read() for member in files}
        for member in files:
            some.addfile(member, io.BytesIO(mails[member.name]))
    corpus = read_corpus(tmp_path / "some.tar")
    assert all(text.strip() for text in corpus.texts)
    compared = 0
    for name, text in zip(corpus.ids, corpus.texts, strict=True):
        message = email.message_from_bytes(mails[name], policy=email.policy.default)
        if message.get_content_type() != "text/plain" or message.defects:
            continue
        try:
            subject, body = str(message["Subject"] or ""), message.get_content()
        except (LookupError, UnicodeError, ValueError, AttributeError):
            continue
        if re.search("\ufffd|[\x80-\x9f]|<html", subject + body, re.IGNORECASE):
            continue
        assert text.split() == f"{subject} {body}".split(), name
        compared += 1
    assert compared > 500
