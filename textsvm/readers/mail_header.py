"""Malformed mail, repaired before it is parsed: headers that violate RFC 5322 and that mail programs show.

The functions return well-formed mail unchanged. `docs/mail.md` lists what they repair.
"""

from __future__ import annotations

import re
from mmap import mmap

from textsvm.readers.charsets import byte_order_mark

#: Bytes of a header; the rest is body.
MAX_HEADER = 1 << 20
#: Bytes in which the first fields are looked for.
_MAX_START = 1 << 16
#: Bytes of a value that are repaired: the time may grow with their square.
_MAX_VALUE = 2000
# Bounded repetitions, which would take memory for each.
_PRELUDE = re.compile(rb"(?:\xef\xbb\xbf|[\s\0]+|>?From (?![ \t]*:)[^\r\n]{0,2000}[\r\n]?){0,64}")
_FROM_LINE = re.compile(rb">?From (?![ \t]*:)[^\n]{0,2000}\n?")
_EMLX = re.compile(rb"\s{0,80}(\d{1,10})[ \t]{0,80}\r?\n")
_LINE_END = re.compile(rb"\r?\n|\r")
_EMPTY_LINE = re.compile(rb"(?:\A|\r?\n|\r(?!\n))(?:\r?\n|\r)")
_NAME = re.compile(rb"[!-9;-~\x80-\xff]{1,998}[ \t]{0,998}:")
_LOOSE_FIELD = re.compile(rb"[!-9;-~]{1,200}[ \t]{0,20}:")
#: Fields by whose names a header is recognised.
KNOWN = re.compile(
    rb"^(?:from|to|subject|date|received|return-path|message-id|mime-version|delivered-to|reply-to|sender|"
    rb"content-(?:type|transfer-encoding|disposition)|x-[!-9;-~]+|status|cc|bcc|resent-from|list-id|"
    rb"envelope-to|dkim-signature)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
_KNOWN_OF_PART = re.compile(rb"content-[!-9;-~]+[ \t]*:", re.IGNORECASE)
_CONTINUATION = re.compile(
    rb"(?:charset|boundary|(?:file)?name|format|delsp|type|report-type|protocol|micalg)[*\d]{0,9}[ \t]*=|=\?",
    re.IGNORECASE,
)
#: Fields that occur once, and their usable values: the first of them counts, as in Thunderbird.
_ONCE = dict.fromkeys(
    b"from sender reply-to message-id subject date mime-version content-disposition".split(),
    re.compile(rb"\S"),
) | {
    b"content-type": re.compile(rb"/"),
    b"content-transfer-encoding": re.compile(
        rb"\A\s*(?:[78]bit|binary|base64|quoted-printable|(?:x-)?uu)", re.IGNORECASE
    ),
}
_ENCODING = re.compile(rb"7bit|8bit|binary|base64|quotedprintable|x?uuencode|x?uue")
_TYPE = re.compile(
    rb"[\w.+-]+/[\w.+-]+(?:\s*;\s*[\w*.-]+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s;\"(]+))*\s*;?", re.DOTALL
)
_LOOSE_TYPE = re.compile(rb"([\w.+-]+)\s*/\s*([\w.+-]+)|\b(?:(html)|multipart)\b", re.IGNORECASE)
_PARAMETER = re.compile(rb"([\w*.-]+\s*=\s*)(\"[^\"]*\"|[\"']?([^\s;\"]+))")
_QUOTED_OR_COMMENT = re.compile(
    rb"(\"(?:[^\"\\]|\\.)*\")|(?<![\w=])\([^()]*\)|\([^()]*\)(?=\s*(?:;|$))", re.DOTALL
)


def header_start(data: bytes | mmap) -> tuple[int, bool]:
    """Offset of the first line of the header, or of a text without a header; and whether there is a header."""
    from_line = _FROM_LINE.match(data)
    start = from_line.end() if from_line else 0
    if _LOOSE_FIELD.match(data, start):
        return start, True
    count = _EMLX.match(data)
    prelude = _PRELUDE.match(data, count.end() if count else 0)
    begin = prelude.end() if prelude else 0
    head = _LINE_END.sub(b"\n", data[begin : begin + _MAX_START]).partition(b"\n\n")[0]
    known = len(KNOWN.findall(head))
    # A text may hold a line like "Subject: x": after a first line that is no field there must be two.
    has_header = known > 1 or (known == 1 and _LOOSE_FIELD.match(head) is not None)
    return begin if has_header else start, has_header


def emlx_message(data: bytes | mmap) -> bytes | mmap:
    """The message in a file of Apple Mail (number of its bytes, message, property list); other data itself."""
    count = _EMLX.match(data, 0, 256)
    if count is None or not header_start(data)[1]:
        return data
    end = count.end() + int(count[1])
    if not data[end : end + 100].lstrip().startswith(b"<?xml"):  # the message was changed
        end = data.rfind(b"<?xml", 0, max(data.rfind(b"<plist version="), 0))
    return data[count.end() : end if end > 0 else len(data)]


def unwrapped(data: bytes) -> bytes:
    """The message itself: not as a file of Apple Mail, in UTF-16, or with the line ends CR or CR CR LF."""
    mark, charset = byte_order_mark(data[:4])
    if mark and charset != "utf-8":
        data = data[len(mark) :].decode(charset, "replace").encode()
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    elif data[:_MAX_START].replace(b"\r\n", b"\n").partition(b"\n\n")[0].count(b"\r\n") > 1:
        data = data.replace(b"\r\r\n", b"\r\n")
    return emlx_message(data)[:]


def repaired(data: bytes) -> bytes:
    """The message with a well-formed header, or an empty line, at its beginning."""
    data = unwrapped(data)
    start, has_header = header_start(data)
    return _repaired(data[start:], KNOWN) if has_header else b"\n" + data[start:]


def repaired_part(data: bytes) -> bytes:
    """`repaired` for a part of a message, which begins with its header or an empty line."""
    return _repaired(data, _KNOWN_OF_PART)


def _repaired(data: bytes, known: re.Pattern[bytes]) -> bytes:
    empty = _EMPTY_LINE.search(data, 0, MAX_HEADER)
    end = empty.start() if empty else min(len(data), MAX_HEADER)
    lines = [line for line in _LINE_END.split(data[:end]) if line]
    fields, others = _fields(
        [line.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf") for line in lines], known
    )
    unique: dict[object, bytes] = {}
    for number, (name, value) in enumerate(map(_field, fields)):
        usable = _ONCE.get(name.lower())
        key = name.lower() if usable else number
        if usable is None or key not in unique or not usable.search(unique[key].partition(b":")[2]):
            unique[key] = name + b":" + value
    header = b"\n".join(unique.values())
    well_formed = header == b"\n".join(lines) and data.count(b"\r", 0, end) == data.count(b"\r\n", 0, end)
    if well_formed and (empty or end == len(data)):
        return data
    body = b"\n".join(others) + data[end:] if others or not empty else data[empty.end() :]
    return header + b"\n\n" * bool(header) + b"\n" * (not header) + body


def _fields(lines: list[bytes], known: re.Pattern[bytes]) -> tuple[list[list[bytes]], list[bytes]]:
    """Lines of each field of a header, and the lines behind the last field.

    A line without a name continues a field if either shows it; it is ignored if a `known` field follows.
    """
    last = max((number for number, line in enumerate(lines) if known.match(line)), default=-1)
    fields: list[list[bytes]] = []
    ignored = False
    for number, line in enumerate(lines):
        if line[:1] in b" \t":
            if fields and line and not ignored:
                fields[-1].append(line)
        elif _NAME.match(line):
            fields.append([line])
            ignored = False
        elif fields and (_CONTINUATION.match(line) or fields[-1][-1].rstrip().endswith((b";", b","))):
            fields[-1].append(b" " + line)
        elif number > last or line.startswith(b"--"):  # a boundary
            return fields, lines[number:]
        else:
            ignored = True
    return fields, []


def _field(lines: list[bytes]) -> tuple[bytes, bytes]:
    """Name and value of a field; encoding and type without comments, with separators and without other words."""
    name, _, value = b"\n".join(lines).partition(b":")
    name, plain = name.rstrip(), value.strip()
    if len(plain) > _MAX_VALUE:
        return name, value
    if name.lower() == b"content-transfer-encoding":
        encoding = _ENCODING.match(re.sub(rb"\([^()]*\)|[^a-z0-9]", b"", plain.lower()))
        word = encoding[0].replace(b"dp", b"d-p").replace(b"xu", b"x-u") if encoding else plain.lower()
        return name, value if word == plain.lower() else b" " + word
    if name.lower() != b"content-type" or _TYPE.fullmatch(plain):
        return name, value
    plain = _QUOTED_OR_COMMENT.sub(lambda match: match[1] or b" ", plain)
    kind = _LOOSE_TYPE.search(plain.partition(b";")[0])
    if kind is None:
        return name, value
    words = [kind[1] + b"/" + kind[2] if kind[1] else b"text/html" if kind[3] else b"multipart/mixed"]
    words += [match[1] + (match[3] or match[2]) for match in _PARAMETER.finditer(plain, kind.end())]
    return name, b" " + b"; ".join(words)
