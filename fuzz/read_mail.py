"""Mail: headers, encoded words, charsets, MIME parts, boundaries, transfer encodings."""

import tarfile
from functools import cache

from textsvm.readers import sample

from . import _whole
from ._reading import Target

MULTIPART = (
    b"From: a@b.c\nSubject: =?utf-8?q?caf=C3=A9?= =?iso-2022-jp?b?GyRCJDkbKEI=?=\nMIME-Version: 1.0\n"
    b'Content-Type: multipart/alternative; boundary="xx"\n\n--xx\nContent-Type: text/plain; charset=utf-7\n'
    b"Content-Transfer-Encoding: quoted-printable\n\n=41=\n=zz\n--xx\nContent-Type: text/html; charset=idna\n"
    b"Content-Transfer-Encoding: base64\n\nPGI+YTwvYj48c2NyaXB0PmI=\n--xx\nContent-Type: message/rfc822\n\n"
    b"Subject: inner\n\ntext\n--xx--\n"
)
TOKENS = (
    *(
        b"--xx\n",
        b"--xx--\n",
        b"Content-Type: multipart/mixed; boundary=xx\n\n",
        b"Content-Type: message/rfc822\n\n",
    ),
    *(
        b"=?utf-8?q?",
        b"=?x?b?====?=",
        b"?=",
        b"charset=",
        b"charset*0*=utf-8''",
        b"Content-Transfer-Encoding: x-uuencode\n",
    ),
    *(
        b"Content-Transfer-Encoding: base64\n",
        b"begin 644 x\n",
        b"Subject: ",
        b"\n\n",
        b"\n ",
        b"From ",
        b"<!--",
        b"<script>",
    ),
    *(
        b"text/html",
        b"message/partial",
        b"message/delivery-status",
        b"message/external-body",
        b"utf-16",
        b"hz",
        b"(",
        b"@",
    ),
)


@cache
def seeds() -> list[bytes]:
    """A multipart mail, and some of the sample."""
    with tarfile.open(sample("mail")) as archive:
        members = [each for each in archive if each.isfile()][::97][:8]
        return [MULTIPART, *(archive.extractfile(each).read() for each in members)]


run = Target("t.eml", seeds, "mail", TOKENS, ({}, {"headers": True}), whole=_whole.mail).run
