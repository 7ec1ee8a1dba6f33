"""Readers of corpora: a module for each format, which is detected from the content."""

from __future__ import annotations

from pathlib import Path

from textsvm.errors import InputError

SAMPLES = {
    "newswire": "newswire",
    "mail": "mail.tar.gz",
    "messages": "messages.csv",
    "reviews": "reviews.csv",
    "questions": "questions.jsonl",
    "essays": "essays.tsv",
    "dialects": "dialects.csv",
    "sites": "sites.fa.gz",
}


def sample(name: str) -> Path:
    """Path of a sample corpus, in the installed package or in the repository.

    Parameters
    ----------
    name : {"newswire", "mail", "messages", "reviews", "questions", "essays", "dialects", "sites"}
    """
    if name not in SAMPLES:
        raise InputError(f"there is no sample {name!r}; there is: {', '.join(SAMPLES)}")
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "samples", package.parent / "corpora" / "samples"):
        if (folder / SAMPLES[name]).exists():
            return folder / SAMPLES[name]
    raise InputError(f"the sample {name!r} is missing in {package}; install textsvm again")
