"""Reuters-21578: SGML that is none."""

from textsvm.readers import sample

from . import _whole
from ._reading import Target

TOKENS = (
    *(
        b"<REUTERS",
        b'NEWID="1"',
        b"TOPICS=",
        b"</REUTERS>",
        b"<TOPICS>",
        b"<D>",
        b"</D>",
        b"</TOPICS>",
        b"<TEXT",
        b"</TEXT>",
    ),
    *(
        b"<BODY>",
        b"</BODY>",
        b"<TITLE>",
        b"&#3;",
        b"&#99999999999;",
        b"&lt;",
        b"<!DOCTYPE",
        b"LEWISSPLIT=",
        b">",
    ),
)
run = Target(
    "reut2-000.sgm",
    lambda: [each.read_bytes()[:8000] for each in sorted(sample("newswire").iterdir()) if each.is_file()],
    "reuters",
    TOKENS,
    ({}, {"split": "lewis"}, {"part": "train"}, {"part": "a\x1b\n"}),
    whole=_whole.stories,
).run
