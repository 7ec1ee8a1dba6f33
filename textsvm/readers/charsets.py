"""Decode bytes to text with declared, wrong or missing charsets; detect binary data."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from string import ascii_letters, ascii_lowercase

from textsvm.errors import InputError

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Supersets that are used for narrower declared charsets, as in the WHATWG Encoding Standard.
_SUPERSETS = {
    "ascii": "utf-8",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
#: Problem of bytes that the charset of a byte order mark does not have.
UNDECODABLE = "some bytes are not {} and were read as \ufffd"
#: Problem of a text that is not UTF-8.
NOT_UTF_8 = "bytes that are not UTF-8 were read as Windows-1252; --encoding names another charset"
# Python codecs that are no charsets, and slow on long input.
_NOT_CHARSETS = {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"}
#: Soft hyphen, marks of direction, and characters without width.
INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060-\u2064\ufeff]")
_VISIBLE = re.compile(rf"[^\s\u200c\u200d{INVISIBLE.pattern[1:-1]}]")
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a\x1b\b")) + b"\x7f"
#: Letters of languages beyond those of ASCII, by the charsets of their texts.
_WESTERN = (
    "äöüßéè",
    "éèêëàâçîïôœùûü",
    "áéíóúñüç",
    "áãâàçéêíóôõú",
    "àèéìíòóù",
    "åäöéæøü",
    "áðéíóúýþæö",
    "àèéíïóòúüç",
)
_EASTERN = ("ąćęłńóśźż", "áčďéěíňóřšťúůýžäĺľôŕ", "áéíóöőúüű", "ăâîșşțţ", "čćđšž")
_CYRILLIC = (
    "абвгдежзийклмнопрстуфхцчшщъыьэюяё",
    "абвгдежзийклмнопрстуфхцчшщьюяґєії",
    "абвгдежзиклмнопрстуфхцчшђѓѕјљњћќџ",
)
_GREEK, _TURKISH = ("αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋΐΰ",), ("çğıöşüâîû\u0307",)
_BALTIC, _HEBREW = ("ąčęėįšųūž", "āčēģīķļņšūž", "äöüõšž"), ("אבגדהוזחטיךכלםמןנסעףפץצקרשת",)
_LETTERS = {
    **dict.fromkeys(("cp1252", "cp850", "mac_roman", "cp437", "iso8859_15", "cp865", "cp860"), _WESTERN),
    **dict.fromkeys(("cp1250", "iso8859_2", "cp852", "mac_latin2", "iso8859_16"), _EASTERN),
    **dict.fromkeys(("cp1251", "koi8_r", "cp866", "mac_cyrillic", "iso8859_5", "koi8_u"), _CYRILLIC),
    **dict.fromkeys(("cp1253", "iso8859_7", "cp737"), _GREEK),
    **dict.fromkeys(("cp1254", "cp857", "mac_turkish"), _TURKISH),
    **{"cp1257": _BALTIC, "cp775": _BALTIC, "cp1255": _HEBREW, "cp862": _HEBREW},
}
#: Words with their punctuation, and punctuation around and within them.
_TOKEN = re.compile(r"(?<![A-Za-z\x80-\uffff])[A-Za-z]*[\x80-\uffff][A-Za-z\x80-\uffff]*")
_AROUND = re.compile("^[„“‚‘’«»–—•…©®°§€£¿¡×÷±\xa0]+|[”“’‘»«…–—•°²³ªº®™€½¼¾×\xa0]+$")
_WITHIN = re.compile("[’‘–—…·\xa0]+")
#: Letters and marks of UTF-8 in two or three characters of Windows-1252 that are rare elsewhere (É® is not).
_TWICE = re.compile("(?:Ã[\x80-¿€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€[œ\x9d™˜“”¦])[\\w\x80-¿€-™]*")
_LEAST_GAIN = 0.1  #: Least share of the words that another charset must explain in addition
_MOST_TOKENS = 1000  #: Distinct words by which a charset is judged


# Windows-1252 as browsers read it: the five undefined bytes are control characters.
_WINDOWS_1252 = [bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(256)]


def _as_windows_1252(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError) and max(error.object[error.start : error.end]) < "\xa0":
        return error.object[error.start : error.end].encode("latin-1"), error.end
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(_WINDOWS_1252[byte] for byte in error.object[error.start : error.end]), error.end


codecs.register_error("textsvm-windows-1252", _as_windows_1252)


def byte_order_mark(head: bytes) -> tuple[bytes, str]:
    """The byte order mark at the beginning of data (may be empty), and the charset."""
    return next(((mark, charset) for mark, charset in _BOMS if head.startswith(mark)), (b"", "utf-8"))


def encoding_of(head: bytes) -> str:
    """Name of the encoding with which `decode` reads data that begin so."""
    mark, charset = byte_order_mark(head)
    if mark:
        return "UTF-8 with BOM" if charset == "utf-8" else charset.upper()
    return "Windows-1252" if decode(head[: head.rfind(b"\n") + 1] or head)[1] else "UTF-8"


def decode(data: bytes) -> tuple[str, str | None]:
    """Decode text without a declared charset; return it and a description of undecodable bytes, or None.

    The charset is that of the byte order mark, or UTF-8; bytes that are not UTF-8 are read as Windows-1252.
    """
    mark, charset = byte_order_mark(data)
    data = data[len(mark) :]
    if charset == "utf-8":
        return decode_utf_8(data)
    text = data.decode(charset, "replace")
    return text, UNDECODABLE.format(charset) if "\ufffd" in text else None


def decode_utf_8(data: bytes, line: int = 1) -> tuple[str, str | None]:
    """Decode text without a byte order mark that begins on a line, like `decode`."""
    try:
        return data.decode(), None
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        return data.decode("utf-8", "textsvm-windows-1252"), f"line {line}: {NOT_UTF_8}"


def wrong_charset(source: str, texts: Iterable[str], named: str | None) -> Iterator[str]:
    """A warning if another charset explains words of texts far better than the named, or Windows-1252."""
    tokens, words = dict.fromkeys(chain.from_iterable(map(_TOKEN.findall, texts))), dict[str, bytes]()
    charset = (_codec(named or "cp1252") or "").replace("-", "_")
    if charset not in _LETTERS:
        return
    for token in islice(tokens, _MOST_TOKENS):
        with suppress(UnicodeEncodeError):  # it was UTF-8
            words[token] = token.encode(charset, "textsvm-windows-1252")
    explained = {charset: _explained(words, charset) for charset in _LETTERS}
    small = {x: sum(words[word].decode(x).islower() for word in own) for x, own in explained.items()}
    best = max(explained, key=lambda charset: (len(explained[charset]), small[charset]))
    gained = [word for word in words if word in explained[best] - explained[charset]]
    odd = [word for word in gained if not word.isalpha()]
    many = len(explained[best]) - len(explained[charset]) >= _LEAST_GAIN * len(words)
    if (many and gained[1:]) or (odd and (many or explained[charset] <= explained[best])):
        others = [x for x in _LETTERS if len(explained[x]) == len(explained[best]) and x != best]
        word = (odd or gained)[0]
        yield (
            f"{source} is not {named or 'Windows-1252'}: {word} is no word; --encoding {best} reads "
            f"{words[word].decode(best)}" + f" (or try {', '.join(others[:2])})" * bool(others)
        )


def encoded_twice(source: str, texts: Sequence[str]) -> Iterator[str]:
    """A warning if a twentieth of the texts have words in UTF-8 that was read as Windows-1252 (StÃ¶rung)."""
    pairs = list[tuple[str, str]]()
    for match in filter(None, map(_TWICE.search, texts)):
        before = match.string[: match.start()]
        word = before[len(before.rstrip(ascii_letters)) :] + match[0]
        with suppress(UnicodeError):
            pairs.append((word, word.encode("cp1252").decode()))
    if 20 * len(pairs) >= len(texts) and pairs[1:]:
        word, right = pairs[0]
        yield f"{source} has {word} for {right}: UTF-8 that was read as Windows-1252; export it again"


def _explained(words: Mapping[str, bytes], charset: str) -> set[str]:
    """The words that belong to the language of a charset that has most of them."""
    letters = {word: _letters(data.decode(charset, "replace")) for word, data in words.items()}
    languages = ({*own, " ", *(ascii_lowercase if own[0] < "\u0370" else "")} for own in _LETTERS[charset])
    own = ({word for word, used in letters.items() if used and used <= language} for language in languages)
    return max(own, key=len)


def _letters(token: str) -> set[str]:
    """Letters of the words in a token that are not ASCII, a space if there are none.

    Empty for symbols within words, and capitals between small letters.
    """
    parts = [part for part in _WITHIN.split(_AROUND.sub("", token)) if not part.isascii()]
    if not all(part.isalpha() and (part.isupper() or part[1:].islower() or not part[1:]) for part in parts):
        return set()
    return {letter for part in parts for letter in part.lower()} or {" "}


def decode_declared(data: bytes, charset: str | None) -> tuple[str, str | None]:
    """Decode text with the charset that its sender declared; return (text, problem) like `decode`.

    A charset that is unknown, or wrong for these bytes, is replaced by UTF-8 if that is valid, else by
    Windows-1252. A missing charset, or a name for "unknown", is not reported.
    """
    if data.isascii() and (charset is None or charset.lower() in ("us-ascii", "utf-8", "iso-8859-1")):
        return data.decode("ascii"), None
    declared = (charset or "").strip().strip("\"'").lower()
    if declared in ("", "unknown-8bit", "x-unknown", "unknown", "8bit", "default", "x-user-defined"):
        return decode(data)[0], None
    if (codec := _codec(declared)) is None:
        return decode(data)[0], f"unknown charset {declared[:40]!r}"
    try:
        return data.decode(codec), None
    except (UnicodeError, ValueError):
        pass
    problem = f"some bytes are not {declared[:40]}, which was declared, and were read as "
    if codec == "cp1252":  # five bytes are undefined
        return data.decode(codec, "textsvm-windows-1252"), f"{problem}Latin-1"
    if codec.startswith("utf") or b"\x00" not in data:
        try:
            return data.decode("utf-8"), f"{problem}UTF-8"
        except UnicodeDecodeError:
            pass
    # A few bad bytes in a long text of that charset must not damage the rest.
    if codec == "utf-8":
        return data.decode(codec, "textsvm-windows-1252"), f"{problem}Windows-1252"
    return data.decode(codec, "replace"), f"{problem}\ufffd"


def decode_named(data: bytes, charset: str, name: str) -> str:
    """Decode text with the charset that the user named; `name` is that of the file in errors."""
    if (codec := _codec(charset)) is None:
        raise InputError(f"there is no charset {charset!r}; usual ones are utf-8, cp1252, cp1251, mac_roman")
    mark, marked = byte_order_mark(data)
    if mark and codec not in (marked, marked[:6], f"{marked}-sig"):
        raise InputError(
            f"{name} begins with the byte order mark of {marked.upper()} and is not in the charset "
            f"{charset}; leave out --encoding"
        )
    try:
        return data.decode(codec).removeprefix("\ufeff")
    except (UnicodeError, ValueError) as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = data.count(b"\n", 0, start) + 1
        raise InputError(f"{name} is not in the charset {charset} (line {line}); name another") from error


def _codec(declared: str) -> str | None:
    try:
        name = codecs.lookup(declared).name
        "".encode(name)  # fails for codecs that are no text encodings (base64, zlib, ...)
    except (LookupError, ValueError, UnicodeError):
        return None
    return None if name in _NOT_CHARSETS else _SUPERSETS.get(name, name)


def is_blank(text: str) -> bool:
    """Whether a text has only white space and invisible characters."""
    return _VISIBLE.search(text) is None


def is_binary(data: bytes) -> bool:
    """Whether bytes cannot be text: NUL without a byte order mark, many control characters, PDF, RTF."""
    head = data[:8192]
    if head.startswith((b"%PDF-", b"{\\rtf")):
        return True
    if byte_order_mark(head)[0]:
        return False
    return b"\x00" in head or len(head) - len(head.translate(None, _CONTROL)) > max(8, 0.05 * len(head))
