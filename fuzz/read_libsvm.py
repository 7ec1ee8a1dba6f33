"""Vectors in LIBSVM's format."""

from . import _whole
from ._reading import Target

run = Target(
    "t.libsvm",
    lambda: [b"1 1:0.5 3:2\n-1 2:1 # a\n", b"1,3 1:1\n2 7:-1e3\n", b"0.5 1:1 2:2\n1e3 1:3\n"],
    "libsvm",
    (b":", b" ", b",", b"#", b"qid:1", b" 1:", b" 2147483647:1", b" 0:1", b"+1", b"inf", b"0x1p3", b"_"),
    ({}, {"target": "label"}),
    whole=_whole.libsvm,
).run
