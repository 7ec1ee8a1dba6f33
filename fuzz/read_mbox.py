"""mbox: mails behind lines that begin with From."""

from . import _whole
from ._reading import Target
from .read_mail import TOKENS, seeds

FROM = b"From a@b.c Sat Jan  3 01:05:34 1996\n"


def boxes() -> list[bytes]:
    mails = seeds()
    return [b"\n".join(FROM + each for each in mails[k : k + 3]) for k in range(0, len(mails), 2)]


run = Target(
    "spam.mbox",
    boxes,
    "mail",
    (FROM, b"\nFrom ", b">From ", *TOKENS),
    ({}, {"headers": True}),
    whole=_whole.mbox,
).run
