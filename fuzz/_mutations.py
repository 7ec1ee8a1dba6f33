"""Bytes -> damaged bytes: flipped, lost, repeated, spliced, with tokens of a format where they hurt."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

#: What breaks texts of any format.
COMMON = (
    *(
        b"\x00",
        b"\n",
        b"\r",
        b"\r\n",
        b"\t",
        b'"',
        b"'",
        b"\\",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\x80",
    ),
    *(b"\x1b[31m", b"\xc2\x9b31m", "\u202e\u2066".encode(), "\u2028\x85".encode(), b"\xed\xa0\x80", b" "),
    *(b"0", b"-1", b"1e309", b"nan", b"2147483648", b"18446744073709551616", b"9" * 400),
)
_NUMBER = re.compile(rb"\d+")


def mutated(random: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """One of the seeds after some mutations."""
    data = random.choice(seeds)
    for _ in range(random.choice((0, 1, 1, 2, 3, 6))):
        data = random.choice(_WAYS)(random, data, seeds, (*tokens, *tokens, *COMMON))
    if random.random() < 0.02:
        data = _grow(random, data, (*tokens, *tokens, *COMMON))
    return data[: 1 << 20]


def _place(random: random.Random, data: bytes) -> int:
    return random.choice((0, len(data), random.randint(0, len(data)), random.randint(0, len(data))))


def _flip(random, data, seeds, tokens):
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 4, 30)) if data else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _lose(random, data, seeds, tokens):
    start = _place(random, data)
    return data[:start] + data[start + random.choice((1, 2, 10, len(data) // 3)) :]


def _cut(random, data, seeds, tokens):
    return data[: _place(random, data)]


def _repeat(random, data, seeds, tokens):
    start = _place(random, data)
    piece = data[start : start + random.choice((1, 10, 100))]
    return data[:start] + piece * random.choice((2, 10, 1000)) + data[start:]


def _insert(random, data, seeds, tokens):
    start = _place(random, data)
    return data[:start] + random.choice(tokens) * random.choice((1, 1, 1, 2, 50, 5000)) + data[start:]


def _grow(random, data, tokens):
    """A long run, in which work that grows with the square of a length shows."""
    piece = random.choice((random.choice(tokens), b"".join(random.sample(tokens, 2)), data[-50:] or b"a"))
    start = _place(random, data)
    return data[:start] + piece * (random.choice((100_000, 600_000)) // len(piece)) + data[start:]


def _replace(random, data, seeds, tokens):
    """One occurrence of a token, or all of them, become another."""
    old = random.choice(tokens)
    return data.replace(old, random.choice(tokens), random.choice((1, -1)))


def _number(random, data, seeds, tokens):
    """A number of the text becomes an odd one."""
    found = list(_NUMBER.finditer(data[:100_000]))
    if not found:
        return data
    match = random.choice(found)
    odd = random.choice((b"0", b"-1", b"1.5", b"99999999999", b"9" * 30, b"1e400", b"nan", b"", b"x"))
    return data[: match.start()] + odd + data[match.end() :]


def _splice(random, data, seeds, tokens):
    other = random.choice(seeds)
    return data[: _place(random, data)] + other[_place(random, other) :]


def _shuffle_lines(random, data, seeds, tokens):
    lines = data.split(b"\n")
    random.shuffle(lines)
    return b"\n".join(lines)


_WAYS = (_flip, _lose, _cut, _repeat, _insert, _insert, _replace, _number, _splice, _shuffle_lines)
