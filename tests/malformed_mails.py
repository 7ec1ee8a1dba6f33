"""Malformed mails, which mail programs read: forms of clean mails as bad programs and spammers send them.

`FORMS` names each form, the clean mails that it applies to, and the function that makes it of their bytes.
"""

import base64
import quopri
import re

PAGE = (
    "<html><body><p>Order your pills now, ninety percent off today only.</p><p>Visit "
    "<a href='http://deals.example/'>our shop</a> for cheap offers, prices in € and £.</p></body></html>"
)
WORDS = "Order your pills now, ninety percent off today only.\r\nGrüße aus Köln, prices = cheap, sure.\r\n"
PLAIN_WORDS = "Order your pills now, ninety percent off today.\r\nGreetings from Kent, prices = cheap.\r\n"
HEAD = (
    b"From: Shop <a@example.org>\r\nTo: b@example.org\r\nSubject: =?utf-8?b?Y2hlYXAgb2ZmZXI=?=\r\n"
    b"Date: Thu, 22 Aug 2002 12:36:23 +0200\r\nMessage-ID: <1a@example.org>\r\nX-Mailer: Pen 1.0\r\n"
    b"MIME-Version: 1.0\r\n"
)
_CTE = b"Content-Transfer-Encoding: "


def lines(text):
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


PAGE_BASE64 = lines(base64.encodebytes(PAGE.encode()))
WORDS_QUOTED = lines(quopri.encodestring(WORDS.replace("\r\n", "\n").encode()))
HTML_PART = b"Content-Type: text/html; charset=utf-8\r\n" + _CTE + b"base64\r\n\r\n" + PAGE_BASE64
WORDS_PART = (
    b"Content-Type: text/plain; charset=utf-8\r\n" + _CTE + b"quoted-printable\r\n\r\n" + WORDS_QUOTED
)
INNER = (
    b'Content-Type: multipart/alternative; boundary="in ner"\r\n\r\n--in ner\r\n' + WORDS_PART
    + b"\r\n--in ner\r\n" + HTML_PART + b"\r\n--in ner--\r\n"
)  # fmt: skip
FORWARDED = b"Content-Type: message/rfc822\r\n\r\n" + HEAD.replace(b"Pen", b"Ink") + WORDS_PART
#: A page in base64, a text in quoted-printable, plain texts in 7 and in 8 bits, a tree of parts.
CLEAN = {
    "page": HEAD + HTML_PART,
    "text": HEAD + WORDS_PART,
    "plain": HEAD + b"Content-Type: text/plain\r\n\r\n" + PLAIN_WORDS.encode(),
    "eight": HEAD + b"Content-Type: text/plain; charset=utf-8\r\n" + _CTE + b"8bit\r\n\r\n" + WORDS.encode(),
    "tree": HEAD + b"Content-Type: multipart/mixed; boundary=outer\r\n\r\nPreamble\r\n--outer\r\n" + INNER
    + b"\r\n--outer\r\n" + FORWARDED + b"\r\n--outer--\r\nEpilogue\r\n",
}  # fmt: skip
EVERY = ("page", "text", "plain", "tree")
CODED = TYPED = ("page", "text", "tree")
HTML = ("page", "tree")


def front(*pieces):
    return lambda mail: b"".join(pieces) + mail


def header(change):
    """A change of the header alone."""
    return lambda mail: change(mail[: mail.index(b"\r\n\r\n") + 2]) + mail[mail.index(b"\r\n\r\n") + 2 :]


def body(change):
    return lambda mail: mail[: mail.index(b"\r\n\r\n") + 4] + change(mail[mail.index(b"\r\n\r\n") + 4 :])


def put(place, line):
    """A line before each field of this name, in the header and in those of parts."""
    return lambda mail: re.sub(rb"(?m)^(?=%s:)" % place, lambda _: line, mail)


def swap(old, new):
    """A replacement, which must occur."""

    def change(mail):
        assert old in mail, old
        return mail.replace(old, new)

    return change


def match(pattern, new):
    def change(mail):
        changed = re.sub(pattern, new, mail)
        assert changed != mail, pattern
        return changed

    return change


def chain(*changes):
    def change(mail):
        for one in changes:
            mail = one(mail)
        return mail

    return change


def emlx(mail):
    plist = b'<?xml version="1.0"?>\n<!DOCTYPE plist>\n<plist version="1.0"></plist>\n'
    return b"%-10d\n%b%b" % (len(mail), mail, plist)


ENCODING = rb"(?m)^(Content-Transfer-Encoding: (.*))\r\n"
SOFT = ("text", "tree")
PIECES = [base64.encodebytes(PAGE.encode()[i : i + 40]) for i in range(0, 200, 40)]
FROM = b"From a@b Thu Aug 22 12:36:23 2002\r\n"
FORMS = {
    # Before the header.
    "byte order mark": (EVERY, front(b"\xef\xbb\xbf")),
    "two byte order marks": (EVERY, front(b"\xef\xbb\xbf\xef\xbb\xbf")),
    "UTF-16": (("page", "text"), lambda mail: mail.decode().encode("utf-16")),
    "UTF-16, big endian": (("page", "text"), lambda mail: b"\xfe\xff" + mail.decode().encode("utf-16-be")),
    "UTF-32": (("page", "text"), lambda mail: mail.decode().encode("utf-32")),
    "empty line first": (EVERY, front(b"\r\n")),
    "many empty lines first": (EVERY, front(b"\n\r\n\n\n")),
    "blanks first": (EVERY, front(b"  \t")),
    "line of blanks first": (EVERY, front(b" \t \r\n")),
    "NUL first": (EVERY, front(b"\0")),
    "many NUL first": (EVERY, front(bytes(3000))),
    "form feed first": (EVERY, front(b"\f\v")),
    "From line": (EVERY, front(FROM)),
    "quoted From line": (EVERY, front(b">" + FROM)),
    "two From lines": (EVERY, front(FROM, b">" + FROM)),
    "From line and empty line": (EVERY, front(FROM, b"\r\n")),
    "From line and mark": (EVERY, front(FROM, b"\xef\xbb\xbf")),
    "mark, empty line, NUL": (EVERY, front(b"\xef\xbb\xbf\r\n\0\n")),
    "empty line and mark": (EVERY, front(b"\r\n\xef\xbb\xbf")),
    "line without a colon first": (EVERY, front(b"this line has no colon\r\n")),
    "status line of HTTP first": (EVERY, front(b"HTTP/1.1 200 OK\r\n")),
    "number of bytes and property list of Apple Mail": (EVERY, emlx),
    # Lines of the header.
    "line without a colon": (EVERY, put(b"Subject", b"this line has no colon\r\n")),
    "lines without a colon": (EVERY, put(b"Content-Type", b"this line has no colon\r\nnor this\r\n")),
    "line without a colon, continued": (EVERY, put(b"Content-Type", b"no colon\r\n\tor: folded\r\n")),
    "line without a colon before the encoding": (CODED, put(b"Content-Transfer-Encoding", b"no colon\r\n")),
    "line without a colon before every field": (EVERY, match(rb"(?m)^(?=[A-Z][\w-]+: )", b"no colon\r\n")),
    "From line inside": (EVERY, put(b"Subject", FROM)),
    "quoted From line inside": (EVERY, put(b"MIME-Version", b">" + FROM)),
    "blank before a colon": (EVERY, swap(b"X-Mailer:", b"X-Mailer :")),
    "blanks before every colon": (EVERY, match(rb"(?m)^([A-Z][\w-]+): ", rb"\1 \t: ")),
    "no blank after colons": (EVERY, match(rb"(?m)^([A-Z][\w-]+): ", rb"\1:")),
    "tab after colons": (EVERY, match(rb"(?m)^([A-Z][\w-]+): ", rb"\1:\t")),
    "names in capitals": (EVERY, match(rb"(?m)^[A-Z][\w-]+: ", lambda name: name[0].upper())),
    "name that is not ASCII": (EVERY, put(b"Subject", b"X-Gr\xc3\xb6\xdfe: 1\r\n")),
    "name with a blank": (EVERY, put(b"MIME-Version", b"X Mailer: v\r\n")),
    "line that begins with a colon": (EVERY, put(b"MIME-Version", b": v\r\n")),
    "NUL in a name": (EVERY, swap(b"MIME-Version:", b"MIME\0-Version:")),
    "NUL in names and values": (EVERY, match(rb"(?m)^Content-T([\w-]+): (.)", b"Con\0tent-T\\1: \\2\0")),
    "line of NUL": (EVERY, put(b"MIME-Version", b"\0\0\r\n")),
    "NUL at the ends of lines": (EVERY, header(swap(b"\r\n", b"\0\r\n"))),
    "mark inside": (EVERY, put(b"Content-Type", b"\xef\xbb\xbf")),
    "continuation that is not indented": (TYPED, match(rb"; (charset|boundary)", rb";\r\n\1")),
    "continuation without a separator": (HTML, match(rb"; (charset|boundary)", rb"\r\n\1")),
    "empty continuation": (EVERY, put(b"MIME-Version", b" \r\n")),
    "value that is not ASCII": (EVERY, swap(b"<1a@", b"<1a\xe9@")),
    "very long line": (EVERY, header(put(b"MIME-Version", b"no colon " * 20_000 + b"\r\n"))),
    "very long name": (EVERY, header(put(b"MIME-Version", b"X-" + b"a" * 200_000 + b"\r\n"))),
    # Ends of lines.
    "LF": (EVERY, swap(b"\r\n", b"\n")),
    "CR alone": (EVERY, swap(b"\r\n", b"\r")),
    "CR alone in the header": (EVERY, header(swap(b"\r\n", b"\r"))),
    "CR CR LF": (EVERY, header(swap(b"\r\n", b"\r\r\n"))),
    "CR CR LF everywhere": (HTML, swap(b"\r\n", b"\r\r\n")),
    "CR once": (EVERY, match(rb"(Subject: [^\r]*)\r\n", rb"\1\r")),
    "LF in the header": (EVERY, header(swap(b"\r\n", b"\n"))),
    "LF in the body": (EVERY, body(swap(b"\r\n", b"\n"))),
    "LF and CR LF in turns": (EVERY, match(rb"\r\n([^\r]*)\r\n", rb"\r\n\1\n")),
    # Fields that occur twice.
    "subject twice": (EVERY, put(b"X-Mailer", b"Subject: =?utf-8?b?Y2hlYXAgb2ZmZXI=?=\r\n")),
    "another subject": (EVERY, put(b"X-Mailer", b"Subject: meeting\r\n")),
    "another sender": (EVERY, put(b"X-Mailer", b"From: Ann <ann@example.com>\r\n")),
    "type twice": (EVERY, match(rb"(?m)^(Content-Type: .*\r\n)", rb"\1\1")),
    "another type": (EVERY, match(rb"(?m)^(Content-Type: .*\r\n)", rb"\1Content-Type: image/gif\r\n")),
    "empty type first": (EVERY, put(b"Content-Type", b"Content-Type:\r\n")),
    "encoding twice": (CODED, match(ENCODING, rb"\g<0>\g<0>")),
    "another encoding": (CODED, match(ENCODING, rb"\g<0>" + _CTE + rb"7bit\r\n")),
    "unknown encoding first": (CODED, put(b"Content-Transfer-Encoding", _CTE + b"none\r\n")),
    # Transfer encodings.
    "blank behind an encoding": (CODED, match(ENCODING, rb"\1 \t\r\n")),
    "comment behind an encoding": (CODED, match(ENCODING, rb"\1 (enc)\r\n")),
    "comment before an encoding": (CODED, swap(_CTE, _CTE + b"(enc) ")),
    "comment at an encoding": (CODED, match(ENCODING, rb"\1(enc)\r\n")),
    "quoted encoding": (CODED, match(ENCODING, _CTE + rb'"\2"\r\n')),
    "encoding in single quotes": (CODED, match(ENCODING, _CTE + rb"'\2'\r\n")),
    "semicolon behind an encoding": (CODED, match(ENCODING, rb"\1;\r\n")),
    "parameter of an encoding": (CODED, match(ENCODING, rb"\1; charset=utf-8\r\n")),
    "point behind an encoding": (CODED, match(ENCODING, rb"\1.\r\n")),
    "words behind an encoding": (CODED, match(ENCODING, rb"\1 encoding\r\n")),
    "encoding in capitals": (CODED, match(rb"base64|quoted-printable", lambda name: name[0].upper())),
    "folded encoding": (CODED, swap(_CTE, _CTE[:-1] + b"\r\n\t ")),
    "encoding with other signs": (SOFT, match(ENCODING, lambda found: found[0].replace(b"-p", b"_p "))),
    "unknown encoding": (CODED, match(ENCODING, _CTE + rb"x-unknown\r\n")),
    "plain text called base64": (("plain",), swap(b"Content-Type", _CTE + b"base64\r\nContent-Type")),
    "8 bits called 7 bits": (("eight",), swap(b"8bit", b"7bit")),
    "encoding of a plain text that nobody knows": (
        ("plain",), swap(b"Content-Type", _CTE + b"x-foo\r\nContent-Type"),
    ),
    # Base64 and quoted-printable.
    "base64 with other characters": (HTML, swap(PAGE_BASE64, PAGE_BASE64.replace(b"m", b"*m!"))),
    "base64 without padding": (HTML, swap(PAGE_BASE64, PAGE_BASE64.replace(b"=", b""))),
    "base64 with blanks": (HTML, swap(PAGE_BASE64, re.sub(rb"(.{9})", rb"\1 ", PAGE_BASE64))),
    "base64 with empty lines": (HTML, swap(PAGE_BASE64, PAGE_BASE64.replace(b"\r\n", b"\r\n\r\n"))),
    "base64 on a single line": (HTML, swap(PAGE_BASE64, PAGE_BASE64.replace(b"\r\n", b"") + b"\r\n")),
    "base64 in padded pieces": (HTML, swap(PAGE_BASE64, b"".join(PIECES))),
    "base64 in padded pieces, a line": (HTML, swap(PAGE_BASE64, b"".join(PIECES).replace(b"\n", b""))),
    "base64 and a footer": (("page",), lambda mail: mail.rstrip() + b"\r\n\r\n-- \r\nsent by a list\r\n"),
    "quoted-printable, small letters": (SOFT, match(rb"=[0-9A-F]{2}", lambda code: code[0].lower())),
    "quoted-printable, soft breaks": (SOFT, swap(b"pills now", b"pills=\r\n now")),
    "quoted-printable, blanks behind soft breaks": (SOFT, swap(b"pills now", b"pills= \t\r\n now")),
    "quoted-printable with bare signs": (SOFT, swap(b"=3D", b"=")),
    # Content types.
    "comment in a type": (TYPED, match(rb"(Content-Type: [\w/]+);", rb"\1 (a; b);")),
    "comments behind a type": (EVERY, match(rb"(?m)^(Content-Type: .*)\r\n", rb"\1 (comment) (another)\r\n")),
    "no semicolons": (TYPED, match(rb"(Content-Type: [\w/]+);", rb"\1")),
    "comma in a type": (TYPED, match(rb"(Content-Type: [\w/]+);", rb"\1,")),
    "many semicolons": (EVERY, match(rb"(?m)^(Content-Type: [\w/]+)(;|\r\n)", rb"\1;;; \2")),
    "blanks in a type": (EVERY, match(rb"(Content-Type: \w+)/", rb"\1 / ")),
    "quoted type": (EVERY, match(rb"(Content-Type: )([\w/]+)", rb'\1"\2"')),
    "charset in single quotes": (CODED, match(rb"charset=utf-8", rb"charset='utf-8'")),
    "charset without the last quote": (CODED, match(rb"charset=utf-8", rb'charset="utf-8')),
    "charset without the first quote": (CODED, match(rb"charset=utf-8", rb'charset=utf-8"')),
    "words behind a charset": (CODED, match(rb"charset=utf-8", rb"charset=utf-8 junk")),
    "blanks at a charset": (CODED, match(rb"charset=utf-8", rb"charset = utf-8")),
    "wrong charset": (CODED, match(rb"charset=utf-8", rb"charset=us-ascii")),
    "unknown charset": (("page",), match(rb"charset=utf-8", rb"charset=nowhere")),
    "no charset": (("page",), match(rb"; charset=utf-8", rb"")),
    "no MIME-Version": (EVERY, swap(b"MIME-Version: 1.0\r\n", b"")),
    "a type that is text alone": (("plain",), swap(b"text/plain", b"text")),
    "a type that is html alone": (HTML, swap(b"text/html", b"html")),
    # Parts.
    "last boundary missing": (("tree",), lambda mail: mail[: mail.index(b"\r\n--outer--")]),
    "last boundary of the inner parts missing": (("tree",), swap(b"\r\n--in ner--\r\n", b"")),
    "no boundary declared": (("tree",), swap(b"; boundary=outer", b"")),
    "another boundary declared": (("tree",), swap(b"boundary=outer", b"boundary=other")),
    "boundary with blanks, not quoted": (("tree",), swap(b'"in ner"', b"in ner")),
    "boundary without the last quote": (("tree",), swap(b'"in ner"', b'"in ner')),
    "multipart without a kind": (("tree",), swap(b"multipart/mixed", b"multipart")),
    "blanks behind boundaries": (("tree",), match(rb"(?m)^(--(?:outer|in ner)(?:--)?)\r$", rb"\1 \t\r")),
    "boundaries twice": (("tree",), match(rb"(?m)^(--outer\r\n)", rb"\1\1")),
    "closed before it begins": (("tree",), swap(b"Preamble\r\n", b"--outer--\r\n")),
    "parts with lines without a colon": (("tree",), swap(b"--in ner\r\n", b"--in ner\r\nno colon\r\n")),
    "no empty line between boundaries": (("tree",), match(rb"(?<=\n)\r\n--(outer|in ner)", rb"--\1")),
    "multipart in base64 by its header": (("tree",), header(put(b"MIME-Version", _CTE + b"base64\r\n"))),
    "forwarded message in base64": (
        ("tree",),
        swap(FORWARDED, FORWARDED.partition(b"\r\n")[0] + b"\r\n" + _CTE + b"base64\r\n\r\n"
             + base64.encodebytes(FORWARDED.partition(b"\r\n\r\n")[2])),
    ),
    "forwarded message after an empty line": (("tree",), swap(b"rfc822\r\n\r\n", b"rfc822\r\n\r\n\r\n")),
    # Encoded words.
    "encoded word without padding": (EVERY, swap(b"I=?=", b"I?=")),
    "encoded word without an end": (EVERY, swap(b"I=?=", b"I=")),
    "encoded word with a letter too many": (EVERY, swap(b"I=?=", b"I=A?=")),
    "encoded word in two": (EVERY, header(swap(b"YXAgb2Z", b"YXAg?=\r\n =?utf-8?b?b2Z"))),
    "encoded word that is not indented": (EVERY, header(swap(b"YXAgb2Z", b"YXAg?=\r\n=?utf-8?b?b2Z"))),
}  # fmt: skip


def variants():
    """Name, clean mail and malformed mail of every form and every clean mail that it applies to."""
    for name, (kinds, change) in FORMS.items():
        for kind in kinds:
            yield f"{name}: {kind}", CLEAN[kind], change(CLEAN[kind])
