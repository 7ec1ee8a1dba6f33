"""JSON Lines: nesting, escapes, numbers of any size, rows of other columns."""

from . import _whole
from ._reading import Target, samples
from .read_csv import OPTIONS

SMALL = (
    b'{"text": "a\\n\\ud800", "label": ["x", "y"], "score": 1e3, "id": 7}\n'
    b'{"text": null, "label": {"a": []}}\n',
    b'{"text": "b", "label": true, "score": 1, "group": "g"}\n[1]\n{"text": 5, "score": NaN, "group": ""}\n',
)
run = Target(
    "t.jsonl",
    lambda: [*SMALL, *samples("questions")()],
    "jsonl",
    (b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"\\u0000", b"\\ud800", b"\\u001b[31m", b'{"a":'),
    OPTIONS,
    whole=_whole.json_lines,
).run
