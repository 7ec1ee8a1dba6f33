"""One document a line, the label first: `label TAB text`, or fastText's `__label__a __label__b text`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from textsvm.readers.charsets import decode
from textsvm.readers.corpus import Document
from textsvm.readers.decoded import lines_of
from textsvm.readers.folders import part_of
from textsvm.readers.opened import File
from textsvm.runtime.parallel import Progress

_FASTTEXT = re.compile(r"((?:__label__\S+\s+)*__label__\S+)(?:\s+|$)")
_LONGEST_LABEL = 100
#: Lines between reports of progress.
STEP = 1024


def is_lines(head: str) -> bool:
    """Whether lines (the last one may be cut off) all have a label first and one text after it."""
    lines = [line for line in head.split("\n") if line.strip()]
    lines = lines[:-1] or lines
    if not lines:
        return False
    if all(line.startswith("__label__") for line in lines):
        return True
    return all(line.count("\t") == 1 and 0 < line.index("\t") <= _LONGEST_LABEL for line in lines)


def read(
    files: Sequence[File],
    problems: list[tuple[str, str]],
    *,
    labelled: bool = True,
    progress: Progress | None = None,
) -> Iterator[Document]:
    """The lines of files; ids are line numbers, with the file where there are several.

    Parameters
    ----------
    files : sequence of File
        A file named after a part (`r8-train-all-terms.txt`) is that part.
    problems : list of (str, str)
        Gets what is damaged or left out: file and line, problem.
    labelled : bool
        Else, where the first lines do not all have labels, every line of a file is a text.
    progress : callable, optional
        Called with (bytes read, bytes in all).
    """
    total, done = sum(file.size for file in files), 0
    for file in files:
        part, texts = part_of(file.name), not labelled and not is_lines(decode(file.head)[0])
        for number, line in enumerate(lines_of(file, problems), 1):
            line = line.removesuffix("\n").removesuffix("\r")
            if progress is not None and number % STEP == 0:
                progress(done + file.position, total)
            if not line.strip():
                continue
            identifier = str(number) if len(files) == 1 else f"{file.name}:{number}"
            if texts:
                yield Document(identifier, line, None, part)
                continue
            fasttext = _FASTTEXT.match(line)
            if fasttext:
                labels = tuple(label.removeprefix("__label__") for label in fasttext[1].split())
                label = labels[0] if len(labels) == 1 else labels
                yield Document(identifier, line[fasttext.end() :], label, part)
                continue
            first, tab, rest = line.partition("\t")
            if tab and first.strip():
                yield Document(identifier, rest, first.strip(), part)
            else:
                problems.append(
                    (f"{file.name}, line {number}", "left out: it is not a label, a TAB and a text")
                )
        done += file.size
        if progress is not None:
            progress(done, total)
