"""LIBSVM's format of sparse vectors: ``label index:value index:value ...``, a line each, indices from 1.

scikit-learn parses valid files; errors of other files are located here, line by line. Several labels have
commas between them, as scikit-learn writes them; comments begin with #; ``qid:`` is ignored.
"""

from __future__ import annotations

import re
from math import isfinite

import numpy as np

from textsvm.arrays import Array, Floats
from textsvm.errors import InputError
from textsvm.readers.files import File, FileOnDisk, Problems
from textsvm.runtime.compiled import scipy

SUFFIXES = (".libsvm", ".svm", ".svmlight")
#: Largest index: columns of a sparse matrix are 32-bit numbers.
MAX_INDEX = 2**31 - 1
_NUMBER = rb"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_LINE = re.compile(
    rb"\s*%(n)s(?:,%(n)s)*(?:\s+qid:\d+)?(?:\s+\d+:%(n)s)*\s*(?:#.*)?" % {b"n": _NUMBER}, re.DOTALL
)
_FINITE = re.compile(_NUMBER)
_TOKEN = re.compile(rb"\S+")


def is_libsvm(head: bytes) -> bool:
    """Whether most lines (the last may be cut off) have numbers, and pairs of an index and a number."""
    lines = [line for line in head.split(b"\n") if line.split(b"#")[0].strip()]
    lines = lines[:-1] or lines
    matches = [line for line in lines if _LINE.fullmatch(line)]
    return 2 * len(matches) > len(lines) and any(b":" in line for line in matches)


def parse_libsvm(
    file: File | FileOnDisk, problems: Problems, zero_based: bool = False
) -> tuple[scipy.sparse.csr_matrix, Floats | list[tuple[float, ...]]]:
    """Vectors of a file, and numbers as labels: tuples of numbers if a line has several.

    With `zero_based`, indices count from 0, as in files of XGBoost and LightGBM. The width is the largest
    index, or the number after it. `problems` gets ignored parts; an InputError names line and column.
    """
    from sklearn.datasets import load_svmlight_file

    several, query, underscore = _inspect(file)
    vectors: Array = None
    labels, reason = [], "a number has _ in it"
    try:
        if not underscore:
            with file.open() as stream:
                vectors, labels = load_svmlight_file(stream, zero_based=zero_based, multilabel=several)
    except (ValueError, OverflowError, MemoryError) as error:
        reason = str(error)
    valid = vectors is not None and np.isfinite(vectors.data).all() and vectors.shape[1] <= MAX_INDEX
    if not valid or not (isinstance(labels, list) or np.isfinite(labels).all()):
        with file.open() as stream:
            for number, line in enumerate(stream, 1):
                content = line.partition(b"#")[0]
                tokens = [(match[0], match.start() + 1) for match in _TOKEN.finditer(content)]
                if tokens and (first_error := _line_error(tokens, 1 - zero_based)) is not None:
                    column, message = first_error
                    raise InputError(f"{file.name}, line {number}, column {column}: {message}")
        raise InputError(f"{file.name} cannot be read in LIBSVM's format: {reason}")
    if not vectors.shape[0]:
        raise InputError(f"{file.name} holds no vector; a line of LIBSVM's format is `label index:value ...`")
    if query:
        problems.append((file.name, "qid: is left out; examples are not ranked within queries"))
    starts = vectors.indptr.astype(np.int32) if vectors.nnz <= MAX_INDEX else vectors.indptr
    vectors.indptr, vectors.indices = starts, vectors.indices.astype(starts.dtype)
    return vectors, labels


def is_zero_based(file: File | FileOnDisk) -> bool:
    """Whether an index is 0."""
    with file.open() as stream:
        return any(re.search(rb"\s0+:", line.partition(b"#")[0]) for line in stream)


def _inspect(file: File | FileOnDisk) -> tuple[bool, bool, bool]:
    """Whether lines have several labels, a qid:, and numbers with _, which only Python accepts."""
    several, query, underscore = False, False, False
    with file.open() as stream:
        for line in stream:
            several = several or (b"," in line and b"," in line.split(None, 1)[0])
            query = query or b"qid:" in line
            underscore = underscore or (b"_" in line and b"_" in line.partition(b"#")[0])
    return several, query, underscore


def is_finite(token: bytes) -> bool:
    """Whether a token is a finite decimal number."""
    return _FINITE.fullmatch(token) is not None and isfinite(float(token))


def _line_error(tokens: list[tuple[bytes, int]], first: int) -> tuple[int, str] | None:
    """Column and description of the first error of a line; None if it is valid."""
    (label, column), *pairs = tokens
    if b":" in label:
        return column, f"the label is missing before {_shown(label)}; a line is `label index:value ...`"
    for piece in label.split(b","):
        if not is_finite(piece):
            return column, f"the label {_shown(label)} is not a finite number"
    last = first - 1
    for number, (pair, column) in enumerate(pairs):
        if number == 0 and pair.startswith(b"qid:"):
            continue
        index, colon, value = pair.partition(b":")
        if not colon:
            return column, f"{_shown(pair)} is not `index:value`"
        if (message := _index_error(index, first, last)) is not None:
            return column, message
        if not is_finite(value):
            column += len(index) + 1
            return column, f"the value {_shown(value)} of index {_shown(index)} is not a finite number"
        last = int(index)
    return None


def _index_error(index: bytes, first: int, last: int) -> str | None:
    if not re.fullmatch(rb"[-+]?\d{1,4000}", index):
        return f"the index {_shown(index)} is not a whole number"
    number = int(index)
    if number < first:
        return f"the index is {number}, and indices count from {first}: write the file with such indices"
    if number > MAX_INDEX:
        return f"the index {_shown(index)} is too large; the largest is {MAX_INDEX:,}"
    if number == last:
        return f"the index {number} occurs twice in a line"
    if number < last:
        return f"the index {number} comes after {last}; indices must ascend in a line"
    return None


def _shown(token: bytes) -> str:
    text = token.decode("utf-8", "replace")
    return repr(text if len(text) <= 40 else text[:40] + "…")


def number_text(number: float) -> str:
    """The shortest text of a number: 1 and not 1.0."""
    return repr(float(number)).removesuffix(".0")
