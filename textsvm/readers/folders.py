"""A folder per class: every file a document, its label the folder it lies in.

`train/pos/1.txt` is a document of part "train" with the label "pos"; the label is the innermost
folder that is no name of a part. A folder that holds other folders of documents is no class: files
that lie directly in it (a README) are left out. Without folders, the documents have no labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from textsvm.readers.archives import stem
from textsvm.readers.charsets import decode, is_binary
from textsvm.readers.corpus import Document
from textsvm.readers.opened import File
from textsvm.runtime.parallel import Progress

PART = re.compile(
    r"(?<![a-z])(train|test|dev|valid|val|validation|development)(?:ing)?(?![a-z])", re.IGNORECASE
)
_PARTS = {"valid": "dev", "val": "dev", "validation": "dev", "development": "dev"}


def part_of(name: str) -> str | None:
    """The part ("train", "test" or "dev") that a path names, the outermost name first."""
    for piece in PurePosixPath(name).parts:
        words = {_PARTS.get(word.lower(), word.lower()) for word in PART.findall(piece)}
        if len(words) == 1:
            return words.pop()
    return None


def read(
    files: Sequence[File], problems: list[tuple[str, str]], *, progress: Progress | None = None
) -> Iterator[Document]:
    """One document a file.

    Parameters
    ----------
    files : sequence of File
    problems : list of (str, str)
        Gets what is damaged or left out: name, problem.
    progress : callable, optional
        Called with (files read, files in all).
    """
    parents = _parents(files)
    for number, file in enumerate(files, 1):
        folder = PurePosixPath(file.name).parent
        if folder in parents:
            problems.append((file.name, "left out: it lies beside the class folders, not in one"))
        elif is_binary(data := file.data):
            problems.append((file.name, "left out: it is binary"))
        else:
            text, problem = decode(data)
            if problem:
                problems.append((file.name, problem))
            yield Document(file.name, text, _label(folder), part_of(str(folder)))
        if progress is not None and (number % 256 == 0 or number == len(files)):
            progress(number, len(files))


def _parents(files: Sequence[File]) -> set[PurePosixPath]:
    """The folders that hold other folders of files."""
    parents = set[PurePosixPath]()
    for folder in {PurePosixPath(file.name).parent for file in files}:
        for parent in folder.parents:
            if parent in parents:
                break
            parents.add(parent)
    return parents


def _label(folder: PurePosixPath) -> str | None:
    for name in map(stem, reversed(folder.parts)):
        if not PART.fullmatch(name):
            return name
    return None
