"""Maildirs: mails in cur and new."""

from . import _whole
from ._mutations import mutated
from ._reading import Target
from .read_mail import TOKENS, seeds

PLACES = ("cur/1:2,S", "new/2", "tmp/3", "spam/cur/4:2,", ".Junk/cur/5:2,\x1b", "train/ham/new/6\n", "README")


def box(random, given):
    return {
        place: mutated(random, given, TOKENS)
        for place in random.sample(PLACES, random.randint(1, len(PLACES)))
    }


run = Target("corpus/", seeds, "mail", make=box, options=({}, {"headers": True}), whole=_whole.maildir).run
