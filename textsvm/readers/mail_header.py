"""Malformed mail, repaired before it is parsed: headers that violate RFC 5322 and that mail programs show.

The functions return well-formed mail unchanged. `docs/mail.md` lists their repairs.
"""

from __future__ import annotations

import re
from mmap import mmap

from textsvm.readers.charsets import byte_order_mark

#: Error for a file of Outlook, after its name.
OUTLOOK = "is a message of Outlook (.msg), which is not read; save it as .eml, or convert it with msgconvert"
MAX_HEADER = 1 << 20  #: Maximum bytes of a header; the rest is body
_MAX_START = 1 << 16  #: Bytes at the beginning of a message that are searched for its first fields
_MAX_VALUE = 2000  #: Maximum bytes of a value that is repaired: the time may grow with their square
# Repetitions are bounded, since `re` takes memory for each.
_PRELUDE = re.compile(rb"(?:\xef\xbb\xbf|[\s\0]+|>?From (?![ \t]*:)[^\r\n]{0,2000}[\r\n]?){0,64}")
_FROM_LINE = re.compile(rb">?From (?![ \t]*:)[^\n]{0,2000}\n?")
_EMLX = re.compile(rb"\s{0,80}(\d{1,10})[ \t]{0,80}\r?\n")
_LINE_END = re.compile(rb"\r?\n|\r")
_EMPTY_LINE = re.compile(rb"(?:\A|\r?\n|\r(?!\n))(?:\r?\n|\r)")
_NAME = re.compile(rb"(?!\xef\xbb\xbf)[!-9;-~\x80-\xff]{1,998}[ \t]{0,998}:")
#: Fields by whose names a header is recognised.
KNOWN = re.compile(
    rb"^(?:from|to|subject|date|received|return-path|message-id|mime-version|delivered-to|reply-to|sender|"
    rb"content-(?:type|transfer-encoding|disposition)|x-[!-9;-~]+|status|cc|bcc|resent-from|list-id|"
    rb"envelope-to|dkim-signature)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
KNOWN_OF_PART = re.compile(rb"content-[!-9;-~]+[ \t]*:", re.IGNORECASE)
_CONTINUATION = re.compile(
    rb"(?:charset|boundary|(?:file)?name|format|delsp|type|report-type|protocol|micalg)[*\d]{0,9}[ \t]*=|=\?",
    re.IGNORECASE,
)
_CTE = b"content-transfer-encoding"
_ONCE = frozenset(
    b"from sender reply-to message-id subject date mime-version content-type content-transfer-encoding "
    b"content-disposition".split()
)
# Of a repeated field that should occur once, the first with a usable value counts, as in Thunderbird.
_USABLE = re.compile(
    rb"(?:content-transfer-encoding:\s*(?:[78]bit|binary|base64|quoted-p|(?:x-)?uu)|(?!content-tr)[^:]*:\s*\S)",
    re.I,
)
_ENCODING = re.compile(rb"7bit|8bit|binary|base64|quotedprintable|x?uuencode|x?uue")
BASE64 = re.compile(rb"[A-Za-z0-9+/\r\n]++={0,2}\s*+")
# A soft break, or the code of a blank, an equal sign or a byte that is not ASCII.
_QUOTED = re.compile(rb"=(?:\r?\n|20|3D|[89A-F][0-9A-F])")
_TYPE = re.compile(
    rb"[\w.+-]+/[\w.+-]+(?:\s*;\s*[\w*.-]+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s;\"('][^\s;\"(]*))*\s*;?",
    re.DOTALL,
)
_LOOSE_TYPE = re.compile(rb"([\w.+-]+)\s*/\s*([\w.+-]+)|\b(html|text|multipart)\b", re.IGNORECASE)
_FULL_TYPES = {b"html": b"text/html", b"text": b"text/plain", b"multipart": b"multipart/mixed"}
_PARAMETER = re.compile(rb"([\w*.-]+\s*=\s*)(?:(\"[^\"]*\")|'([^';]*)'?|\"?([^\s;\"]+))")
_QUOTED_OR_COMMENT = re.compile(
    rb"(\"(?:[^\"\\]|\\.)*\")|(?<![\w=])\([^()]*\)|\([^()]*\)(?=\s*(?:;|$))", re.DOTALL
)


def header_start(data: bytes | mmap) -> tuple[int, bool]:
    """Offset of the first line of the header or, without a header, of the text; whether there is a header."""
    from_line = _FROM_LINE.match(data)
    start = from_line.end() if from_line else 0
    if _NAME.match(data, start):
        return start, True
    count = _EMLX.match(data)
    prelude = _PRELUDE.match(data, count.end() if count else 0)
    begin = prelude.end() if prelude else 0
    head = _LINE_END.sub(b"\n", data[begin : begin + _MAX_START]).partition(b"\n\n")[0]
    names = KNOWN.findall(head)
    is_field, indented = _NAME.match(head) is not None, data[begin - 1 : begin] in (b" ", b"\t")
    # A text may hold a line like "Subject: x": after a first line that is no field there must be two.
    has_header = len(names) > (0 if is_field or indented else 1)
    if has_header and indented and not is_field:
        # An indented first line would continue a field that is put before it.
        places = (data.find(line_end + names[0], begin) + 1 for line_end in (b"\r", b"\n"))
        begin = min(place for place in places if place)
    return begin if has_header else start, has_header


def is_outlook(name: str, data: bytes | mmap) -> bool:
    """Whether a file is a message of Outlook, by its name or its streams."""
    if data[:8] != b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        return False
    return name.lower().endswith(".msg") or data.find("__substg1.0_".encode("utf-16-le")) > 0


def is_continued(before: bytes, line: bytes) -> bool:
    """Whether a line that is not indented continues the field before it."""
    return _CONTINUATION.match(line) is not None or before[-99:].rstrip().endswith((b";", b","))


def emlx_message(data: bytes | mmap) -> bytes | mmap:
    """The message in a file of Apple Mail, between its number of bytes and a property list; else the data."""
    count = _EMLX.match(data, 0, 256)
    if count is None or not header_start(data)[1]:
        return data
    end = count.end() + int(count[1])
    if not data[end : end + 100].lstrip().startswith(b"<?xml"):  # the message was changed
        end = data.rfind(b"<?xml", 0, max(data.rfind(b"<plist version="), 0))
    return data[count.end() : end if end > 0 else len(data)]


def unwrapped(data: bytes) -> bytes:
    """The message without Apple Mail's additions; UTF-16, UTF-32 and unusual line ends are converted."""
    mark, charset = byte_order_mark(data[:4])
    if mark and charset != "utf-8":
        data = data[len(mark) :].decode(charset, "replace").encode()
    head = data[:_MAX_START].replace(b"\r\n", b"\n")
    if head.partition(b"\n\n")[0].count(b"\r\n") > 1:
        data = data.replace(b"\r\r\n", b"\r\n")
    elif head.count(b"\r") > head.count(b"\n"):
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return emlx_message(data)[:]


def repaired(data: bytes) -> bytes:
    """The message with a well-formed header, or an empty line, at its beginning."""
    data = unwrapped(data)
    start, has_header = header_start(data)
    return repaired_header(data[start:], KNOWN) if has_header else b"\n" + data[start:]


def repaired_header(data: bytes, names: re.Pattern[bytes] = KNOWN_OF_PART) -> bytes:
    """Data that begin with a header or an empty line, with a well-formed header."""
    empty = _EMPTY_LINE.search(data, 0, MAX_HEADER)
    end = empty.start() if empty else min(len(data), MAX_HEADER)
    lines = [line for line in _LINE_END.split(data[:end]) if line]
    clean = [line.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf") for line in lines]
    fields, others = _fields(clean, names)
    unique: dict[object, bytes] = {}
    for number, field in enumerate(map(_field, fields)):
        name = field.partition(b":")[0].lower()
        key = name if name in _ONCE else number
        if key not in unique or not _USABLE.match(unique[key]):
            unique[key] = field
    if _CTE in unique and not _USABLE.match(unique[_CTE]):
        unique[_CTE] = unique[_CTE].partition(b":")[0] + b":" + _evident_encoding(unique[_CTE], data[end:])
    header = b"\n".join(unique.values())
    well_formed = header == b"\n".join(lines) and data.count(b"\r", 0, end) == data.count(b"\r\n", 0, end)
    if well_formed and (empty or end == len(data)):
        return data
    body = b"\n".join(others) + data[end:] if others or not empty else data[empty.end() :]
    return header + (b"\n\n" if header else b"\n") + body


def _fields(lines: list[bytes], names: re.Pattern[bytes]) -> tuple[list[list[bytes]], list[bytes]]:
    """Lines of each field of a header, and the lines where the body begins.

    A line without a name and without indentation continues the field before it if `is_continued`. Otherwise
    it is ignored if a field of `names` follows, and begins the body if none follows.
    """
    last = max((number for number, line in enumerate(lines) if names.match(line)), default=-1)
    fields: list[list[bytes]] = []
    ignored = False
    for number, line in enumerate(lines):
        if line[:1] in b" \t":
            if fields and line and not ignored:
                fields[-1].append(line)
        elif _NAME.match(line):
            fields.append([line])
            ignored = False
        elif fields and is_continued(fields[-1][-1], line):
            fields[-1].append(b" " + line)
        elif number > last or line.startswith(b"--"):  # a boundary
            return fields, lines[number:]
        else:
            ignored = True
    return fields, []


def _field(lines: list[bytes]) -> bytes:
    """A field from its lines; a transfer encoding and a content type are reduced to their valid parts."""
    name, _, value = b"\n".join(lines).partition(b":")
    name, plain = name.rstrip(), value.strip()
    if name.lower() == _CTE:
        encoding = _ENCODING.match(re.sub(rb"\([^()]*\)|[^a-z0-9]", b"", plain.lower()))
        word = encoding[0].replace(b"dp", b"d-p").replace(b"xu", b"x-u") if encoding else plain.lower()
        value = value if word == plain.lower() else b" " + word
    elif name.lower() == b"content-type" and len(plain) <= _MAX_VALUE and not _TYPE.fullmatch(plain):
        plain = _QUOTED_OR_COMMENT.sub(lambda match: match[1] or b" ", plain)
        if kind := _LOOSE_TYPE.search(plain.partition(b";")[0]):
            words = [kind[1] + b"/" + kind[2] if kind[1] else _FULL_TYPES[kind[3].lower()]]
            parameters = _PARAMETER.finditer(plain, kind.end())
            words += [b"".join(filter(None, match.groups())) for match in parameters]
            value = b" " + b"; ".join(words)
    return name + b":" + value


def _evident_encoding(field: bytes, body: bytes) -> bytes:
    """Value for an unknown transfer encoding: the encoding that the body shows, else the old value."""
    if len(body) >= 40 and BASE64.fullmatch(body):
        return b" base64"
    return b" quoted-printable" if _QUOTED.search(body) else field.partition(b":")[2]
