"""Kernel matrices in files: NumPy's .npy, and LIBSVM's text format of precomputed kernels.

LIBSVM's format (its README, "Precomputed Kernels") has a line per document, with all values:

    <label> 0:<i> 1:<K(i, 1)> 2:<K(i, 2)> ... n:<K(i, n)>

i is the number of the document among the n documents of the columns, from 1. Lines may be permuted or
missing: columns of documents without a line are then dropped. In a file for prediction i is ignored. Values
are written with 9 digits, which represent float32 exactly.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from textsvm.arrays import AnyArray, Array, Floats, Floats32, Ints
from textsvm.errors import InputError
from textsvm.readers.vectors import UNREADABLE
from textsvm.runtime.files import replacing
from textsvm.sources.matrix import check_block, check_gram

NPY = ".npy"
LIBSVM = (".libsvm", ".svm", ".svmlight", ".txt")
_MAGIC = b"\x93NUMPY"
#: Number of rows to write at a time.
_ROWS = 256


def read_gram(path: str | os.PathLike[str], n: int | None = None) -> tuple[Floats32, Floats | None]:
    """Read a kernel matrix in NumPy's .npy or LIBSVM's format; the content of the file says which.

    Parameters
    ----------
    path : path
    n : int, optional
        Number of training documents, for a file of kernel values of other documents with these. None: the
        kernel values of the training documents with each other.

    Returns
    -------
    matrix : float32 array, shape (n, n), or (m, n)
    labels : float64 array with a label per row, or None for .npy

    Raises
    ------
    InputError
        If the file cannot be read, or a value is not finite, or the matrix is not square and symmetric
        (without `n`) or does not have n columns. The message names the file and the line.

    Examples
    --------
    >>> from textsvm import Spectrum, read_gram, write_gram
    >>> write_gram("two.npy", Spectrum(2)(["banana", "bandana"]))
    >>> matrix, labels = read_gram("two.npy")
    >>> print(matrix.round(4), labels)
    [[1.    0.825]
     [0.825 1.   ]] None
    """
    path = Path(path)
    try:
        with open(path, "rb") as stream:
            start = stream.read(len(_MAGIC))
        if start == _MAGIC:
            matrix, labels = _read_npy(path), None
        elif not start:
            raise InputError(f"{path} is empty; a kernel matrix is expected")
        else:
            matrix, labels = _read_libsvm(path, n)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    name = f"the kernel matrix in {path}"
    return (check_gram(matrix, name) if n is None else check_block(matrix, n, name)), labels


def write_gram(path: str | os.PathLike[str], matrix: Array, labels: Sequence[float] | None = None) -> None:
    """Write a kernel matrix atomically, in the format of the file's extension.

    Parameters
    ----------
    path : path
        With the extension .npy (NumPy), or .libsvm, .svm, .svmlight or .txt (LIBSVM).
    matrix : float32 array, shape (m, n), NumPy or CuPy
        For training, m = n; for prediction, other documents by training documents.
    labels : sequence of m numbers, optional
        For LIBSVM's format; zeros by default.

    Raises
    ------
    InputError
        If the extension is unknown, the labels do not fit, or the file cannot be written.

    Examples
    --------
    >>> from textsvm import Spectrum, write_gram
    >>> write_gram("two.libsvm", Spectrum(2)(["banana", "nanas"]), labels=[1, -1])
    >>> print(open("two.libsvm").read(), end="")
    1 0:1 1:1 2:0.816496611
    -1 0:2 1:0.816496611 2:1
    """
    path = Path(path)
    matrix = np.asarray(matrix.get() if hasattr(matrix, "get") else matrix, np.float32)
    check_block(matrix, matrix.shape[-1] if matrix.ndim else 0)
    if path.suffix.lower() == NPY:
        if labels is not None:
            raise InputError(
                f"{path}: a .npy file has no place for labels; name it .libsvm, or leave them out"
            )
        with replacing(path) as temporary, open(temporary, "wb") as stream:
            np.save(stream, matrix, allow_pickle=False)
    elif path.suffix.lower() in LIBSVM:
        numbers = _label_numbers(labels, len(matrix))
        with replacing(path) as temporary, open(temporary, "w", encoding="ascii", newline="\n") as stream:
            stream.writelines(_libsvm_lines(matrix, numbers))
    else:
        raise InputError(
            f"{path}: a kernel matrix is written as {NPY} or, for LIBSVM, as {', '.join(LIBSVM)}"
        )


def _read_npy(path: Path) -> AnyArray:
    """The matrix as float32; its header is checked before values are read."""
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except UNREADABLE as error:
        raise InputError(f"{path} is not a .npy file that can be read ({error}); write it again") from error
    if stored.dtype.kind not in "fiub" or stored.ndim != 2:
        raise InputError(
            f"{path} has an array of {stored.dtype} and shape {stored.shape}; a kernel matrix has rows and "
            "columns of real numbers"
        )
    with np.errstate(over="ignore"):
        return np.array(stored, np.float32, order="C")


def _read_libsvm(path: Path, n: int | None) -> tuple[Floats32, Floats]:
    labels, serials, lines = list[float](), list[float](), list[int]()
    rows: list[Floats32] = []
    with open(path, "rb") as stream:
        for line, text in enumerate(stream, 1):
            if not text.strip():
                continue
            where = f"{path}, line {line}"
            label, serial, values = _parse(text, where, n is None)
            if rows and len(values) != len(rows[0]):
                raise InputError(
                    f"{where}: {len(values):,} kernel values and {len(rows[0]):,} in the lines before; all "
                    "must be listed, zeros too"
                )
            labels.append(label)
            serials.append(serial)
            lines.append(line)
            rows.append(values)
    if not rows:
        raise InputError(f"{path} has no lines; a kernel matrix is expected")
    matrix = np.stack(rows)
    if n is None:
        columns = _columns(path, lines, serials, matrix.shape[1])
        if not np.array_equal(columns, np.arange(matrix.shape[1])):
            matrix = matrix[:, columns]
    return matrix, np.array(labels)


def _parse(text: bytes, where: str, training: bool) -> tuple[float, float, Floats32]:
    """Label, number of the document, and kernel values of a line."""
    head, _, rest = text.partition(b"0:")
    serial_text, tail = [*rest.split(None, 1), b"", b""][:2]
    label, serial = _number(head), _number(serial_text)
    values, count = _numbers(tail.replace(b":", b" ")), tail.count(b":")
    pairs = values is not None and 0 < 2 * count == len(values)
    if not pairs or values is None or label is None or (serial is None and training):
        raise InputError(
            f"{where}: not a line of LIBSVM's format of precomputed kernels, `label 0:i 1:K(i,1) 2:K(i,2) ..`"
        )
    wrong = values[::2] != np.arange(1, count + 1)
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(
            f"{where}: kernel value {at + 1} has the number {values[2 * at]:g}; they are numbered from 1 and "
            "all must be listed, zeros too"
        )
    with np.errstate(over="ignore"):
        kernel_values = values[1::2].astype(np.float32)
    if not np.isfinite(kernel_values).all():
        at = int((~np.isfinite(kernel_values)).argmax())
        raise InputError(f"{where}: kernel value {at + 1}, {values[2 * at + 1]}, is not a finite number")
    return label, 0.0 if serial is None else serial, kernel_values


def _numbers(text: bytes) -> Floats | None:
    """The numbers in a text, or None if it has other content."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy warns about text behind the numbers
        try:
            return np.fromstring(text.decode("ascii"), np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            return None


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _columns(path: Path, lines: list[int], serials: list[float], n: int) -> Ints:
    """The column of the document of each line, given its number."""
    line_of: dict[float, int] = {}
    for line, serial in zip(lines, serials, strict=True):
        if not 1 <= serial <= n or serial != int(serial):
            raise InputError(
                f"{path}, line {line}: 0:{serial:g} is not the number of one of the {n:,} documents, from 1"
            )
        if earlier := line_of.get(serial):
            raise InputError(f"{path}, line {line}: document 0:{serial:g} is in line {earlier} already")
        line_of[serial] = line
    return np.array(serials, np.int64) - 1


def _label_numbers(labels: Sequence[float] | None, m: int) -> Floats:
    try:
        numbers = np.zeros(m) if labels is None else np.asarray(labels).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"labels in LIBSVM's format are numbers ({error}); number the classes") from error
    if numbers.shape != (m,):
        raise InputError(f"there are {m:,} rows and labels of shape {numbers.shape}; give one label a row")
    if not np.isfinite(numbers).all():
        raise InputError(f"the label of row {int((~np.isfinite(numbers)).argmax())} is not a finite number")
    return numbers


def _libsvm_lines(matrix: Floats32, labels: Floats) -> Iterator[str]:
    pattern = " ".join(f"{j}:%.9g" for j in range(1, matrix.shape[1] + 1))
    for first in range(0, len(matrix), _ROWS):
        for i, row in enumerate(matrix[first : first + _ROWS].tolist(), first):
            yield f"{labels[i]:.17g} 0:{i + 1} {pattern % tuple(row)}\n"
