"""TSV: tabs, carriage returns, ragged rows."""

from . import _whole
from ._reading import Target, samples
from .read_csv import OPTIONS, SMALL

run = Target(
    "t.tsv", lambda: [*(each.replace(b",", b"\t") for each in SMALL), *samples("essays")()], "tsv",
    (b"\t", b"\t\t", b'"', b"text\tlabel\n", b"\r\n"), OPTIONS, whole=_whole.tab_separated).run  # fmt: skip
