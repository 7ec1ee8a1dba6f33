"""CSV: quotes, delimiters, ragged rows, columns by name and number."""

from . import _whole
from ._reading import Target, samples

SMALL = (
    b'id,text,label,score,group\n1,"a, ""b""\nc",ham,1.5,x\n2,two,spam,-3,y\n',
    b"ham;one\r\nspam;two\r\n",
    b"text|label\r one|two",
    "text,label\nä,ö\n".encode("utf-16"),
)
OPTIONS = (
    {}, {"text": "text"}, {"text": "2", "label": "1"}, {"text": "text", "target": "score"},
    {"text": ["text", "label"], "numbers": "score"}, {"text": "text,label"}, {"label_separator": ";"},
    {"text": "text", "weight": "score", "group": "group", "id": "id"}, {"text": "no\x1b[31m\nsuch"},
)  # fmt: skip
run = Target(
    "t.csv", lambda: [*SMALL, *samples("messages", "reviews", "dialects")()], "csv",
    (b",", b";", b"|", b'"', b'""', b'",', b'"\n', b"text,label\n"), OPTIONS,
    whole=_whole.comma_separated,
).run  # fmt: skip
