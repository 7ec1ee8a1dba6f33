"""Mails of two kinds that a machine tells apart after a few lessons."""

import random

from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.raw_message import RawMessage

HAM = ["meeting", "project", "report", "tuesday", "lunch", "review", "deadline", "family", "photos", "train"]
SPAM = ["viagra", "cheap", "pills", "winner", "lottery", "prize", "click", "casino", "bonus", "credit"]
BOTH = ["the", "a", "of", "to", "and", "in", "we", "you", "for", "with", "this", "that", "please", "your"]


def mail(kind, number, words=30):
    """The mail of a kind and a number, always the same."""
    draw = random.Random(f"{kind} {number}")
    text = draw.choices(SPAM if kind == "spam" else HAM, k=words // 3) + draw.choices(BOTH, k=words)
    draw.shuffle(text)
    head = f"From: {text[0]}{number}@example.org\nSubject: {text[1]} {number}\nDate: {number}\n"
    return f"{head}\n{' '.join(text)}\n".encode()


def teach(opened, n, first=0):
    """Have a filter learn n mails of each kind, in turns."""
    for i in range(first, first + n):
        for kind in ("spam", "ham"):
            opened.learn(mail(kind, i), kind)


def learnt_kind(opened, data):
    """The kind of a learnt message, or else its category; None if it was not learnt."""
    digest = RawMessage(data).digest
    categories = opened.categories.store()
    return opened.lessons.kind(digest) or (categories.kind(digest) if categories else None)


def taught_store(folder, n):
    """The folder of a new store that has learnt n mails of each kind."""
    with Filter(folder, create=True) as opened:
        teach(opened, n)
    return folder
