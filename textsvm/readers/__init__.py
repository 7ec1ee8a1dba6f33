"""Readers of corpora: a module for each format, which is detected from the content."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.readers.corpus import Corpus
    from textsvm.readers.read import FORMATS, read_corpus, read_documents
    from textsvm.readers.stream import CorpusStream, incoming_documents, is_large, stream_corpus

# Imported at first use: a process that decides on a mail needs no tables and no archives.
_HOME = {
    "Corpus": "textsvm.readers.corpus",
    "FORMATS": "textsvm.readers.read",
    "read_corpus": "textsvm.readers.read",
    "read_documents": "textsvm.readers.read",
    "CorpusStream": "textsvm.readers.stream",
    "incoming_documents": "textsvm.readers.stream",
    "is_large": "textsvm.readers.stream",
    "stream_corpus": "textsvm.readers.stream",
}

__all__ = [
    "FORMATS",
    "SAMPLES",
    "Corpus",
    "CorpusStream",
    "incoming_documents",
    "is_large",
    "read_corpus",
    "read_documents",
    "sample",
    "stream_corpus",
]

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'textsvm.readers' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
