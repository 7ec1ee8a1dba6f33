"""A label, a tab and a text; fastText's labels."""

from . import _whole
from ._reading import Target

run = Target(
    "t.txt",
    lambda: [b"ham\tone\nspam\ttwo\n", b"__label__a __label__b text\n__label__a\n", b"one\ntwo\n"],
    "lines",
    (b"__label__", b"\t", b"__label__a ", b"ham\t"),
    whole=_whole.labelled_lines,
).run
