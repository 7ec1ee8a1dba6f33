"""Folders of texts, one a class; maildirs; names of files that are no names."""

from . import _whole
from ._mutations import mutated
from ._reading import Target
from .read_mail import TOKENS, seeds

PIECES = (
    "pos",
    "neg",
    "train",
    "test",
    "cur",
    "new",
    "tmp",
    ".spam",
    "a\nb",
    "\x1b[31m",
    "x" * 200,
    "\udcff",
    "‮",
    "...",
    "README",
)
NAMES = (
    "1.txt",
    "2.txt",
    "1:2,S",
    "m.eml",
    "t.csv",
    "a.gz",
    "\x1b]0;x\x07",
    "b\rc",
    "labels.txt",
    "\udcff\udcfe",
    "y" * 200,
)


def tree(random, given):
    """Files under hostile names."""
    found = {}
    for _ in range(random.randint(1, 8)):
        parts = [random.choice(PIECES) for _ in range(random.randint(0, 3))]
        data = (
            mutated(random, given, TOKENS)
            if random.random() < 0.5
            else random.choice((b"a text", b"", b"\x00\x01" * 50))
        )
        found["/".join([*parts, random.choice(NAMES)])] = data
    return found


run = Target(
    "corpus/",
    lambda: [b"one text", b"label\ttext\n", *seeds()[:2]],
    "folders",
    make=tree,
    whole=_whole.class_folders,
).run
