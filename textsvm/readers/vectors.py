"""Files of vectors -> a corpus: LIBSVM's format, NumPy's .npy and .npz, SciPy's sparse .npz.

A .npz is a ZIP of .npy files, so that it comes here unpacked: the array `X`, or the only matrix in it, or the
arrays of `scipy.sparse.save_npz`; labels are `y` or `labels`, ids are `ids`, as `textsvm features` writes
them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.readers import libsvm
from textsvm.readers.corpus import Corpus
from textsvm.readers.corpus import concatenate_corpora as concatenated
from textsvm.readers.files import NUMPY, read_files
from textsvm.readers.files import InputFiles as Files
from textsvm.readers.files import check_expansion as require_modest
from textsvm.readers.plain_text import part_of

_LABELS = ("y", "labels", "label")
_SPARSE = ("csr", "csc")
# What NumPy raises on damaged files, its header being read as Python's literals are.
UNREADABLE = (
    ValueError,
    EOFError,
    MemoryError,
    OverflowError,
    TypeError,
    SyntaxError,
    TokenError,
    RecursionError,
    SystemError,
)


def format_of(found: Files, files: Sequence[Any]) -> str | None:
    """Which format of vectors files have, None if they have none; `files` are those with content."""
    if all(file.head.startswith(NUMPY) for file in files):
        return "npy" if found.single else "npz"
    named = all(PurePosixPath(file.name).suffix.lower() in libsvm.SUFFIXES for file in files)
    if named or all(libsvm.is_libsvm(file.head) for file in files):
        return "libsvm"
    return None


def read(found: Files, format: str, target: str | None = None) -> Corpus:
    """The vectors of files.

    Parameters
    ----------
    found : Files
    format : {"libsvm", "npy", "npz"}
    target : str, optional
        "label", "labels" or "y": the labels are numbers to be predicted.

    Raises
    ------
    InputError
        If they are damaged, or not vectors of finite numbers.
    """
    if target is not None and target not in _LABELS:
        raise InputError(
            f"{found.source} is read as {format}, which has no column {target!r}; its labels are called label"
        )
    if not any(file.size for file in found.files):
        raise InputError(f"{found.source} is empty: there is no vector in it")
    if format == "libsvm":
        corpora = [_of_libsvm(file, found, target) for file in found.files if file.size]
    elif format == "npz":
        corpora = [_of_arrays(found, target)]
    else:
        corpora = [
            _corpus(found, format, _matrix(load(file), file.name)) for file in found.files if file.size
        ]
    corpus = concatenated(corpora, found.source, format)
    corpus.problems = [*found.problems, *corpus.problems]
    return corpus


def read_vectors(path: str | Path) -> Any:
    """The vectors in a file of any of these formats, an array or CSR matrix; its labels are ignored."""
    found = read_files(path)
    files = [file for file in found.files if file.size]
    if not files:
        raise InputError(f"{path} is empty; vectors are expected")
    format = format_of(found, files)
    if format is None:
        raise InputError(f"{path} holds no vectors; they come as .npy, .npz or in LIBSVM's format")
    return read(found, format).vectors


def read_labels(path: str | Path) -> list[str]:
    """Labels of vectors from a file: a line each, or a .npy of one dimension.

    Raises
    ------
    InputError
        If it cannot be read, or a line is empty.
    """
    found = read_files(path)
    if not found.single:
        raise InputError(f"{path} is a folder or an archive; labels are a text, a label a line, or a .npy")
    [file] = found.files
    if file.head.startswith(NUMPY):
        array = load(file)
        if array.ndim != 1:
            raise InputError(f"{path} has an array of shape {array.shape}; labels have one dimension")
        return as_labels(array)
    try:
        lines = file.data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is no text in UTF-8; labels are a text, a label a line, or a .npy"
        ) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise InputError(f"{path}, line {number} is empty; every line is the label of a row")
    return [line.strip() for line in lines]


def as_labels(values: Any) -> list[str]:
    """Labels as texts: whole numbers without a point."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return [str(each) for each in array.tolist()]
    known, which = np.unique(array, return_inverse=True)
    texts = [libsvm.number_text(each) for each in known.tolist()]
    return [texts[i] for i in which.tolist()]


def load(file: Any) -> NDArray[Any]:
    """The array of a .npy file.

    Raises
    ------
    InputError
        If it is damaged or holds Python objects.
    """
    try:
        with file.open() as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python 2, and of literals in a damaged header
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
            return array
    except UNREADABLE as error:
        why = " ".join(str(error).split()) or "it ends too early"
        raise InputError(f"{file.name} is no .npy file that can be read ({why}); write it again") from error


def _of_libsvm(file: Any, found: Files, target: str | None) -> Corpus:
    vectors, labels = libsvm.parse(file, found.problems)
    corpus = _corpus(found, "libsvm", vectors)
    corpus.part = [part_of(file.name)] * len(corpus)
    if isinstance(labels, list):
        corpus.labels = [tuple(map(libsvm.number_text, each)) for each in labels]
        if target is not None:
            raise InputError(f"{file.name} has several labels a line, which are no numbers to be predicted")
    else:
        _name(corpus, labels, target)
    return corpus


def _of_arrays(found: Files, target: str | None) -> Corpus:
    arrays = {PurePosixPath(file.name).stem: load(file) for file in found.files}
    corpus = _corpus(found, "npz", _matrix_of(arrays, found.source))
    labels = next((arrays[name] for name in _LABELS if name in arrays), None)
    for what, values in (("labels", labels), ("ids", arrays.get("ids"))):
        if values is not None and values.shape != (len(corpus),):
            raise InputError(
                f"{found.source} has {len(corpus):,} vectors, and {what} of shape {values.shape}; give one "
                "a vector"
            )
    if labels is not None:
        _name(corpus, labels, target)
    if "ids" in arrays:
        corpus.ids = [str(each) for each in arrays["ids"].tolist()]
    return corpus


def _matrix_of(arrays: dict[str, NDArray[Any]], source: str) -> Any:
    if {"format", "shape", "data"} <= arrays.keys():
        return _matrix(_sparse(arrays, source), source)
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    names = [name for name in ("X", "vectors") if name in matrices] or matrices
    if not names or (len(names) > 1 and names[0] not in ("X", "vectors")):
        raise InputError(f"{source} has the arrays {', '.join(arrays)}; call the matrix of vectors X")
    return _matrix(arrays[names[0]], f"{names[0]} in {source}")


def _sparse(arrays: dict[str, NDArray[Any]], source: str) -> Any:
    """The matrix of `scipy.sparse.save_npz`."""
    kind = arrays["format"].item() if arrays["format"].size == 1 else ""
    name = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if name not in _SPARSE:
        raise InputError(f"{source} has a sparse matrix of format {name}; write it as CSR (X.tocsr())")
    try:
        shape = tuple(int(each) for each in arrays["shape"].tolist())
        # Of columns that are compressed, rows of zeros take no room, until they are compressed themselves.
        require_modest(source, 8 * min(shape[:1], default=0), sum(each.nbytes for each in arrays.values()))
        from scipy import sparse

        make: Any = sparse.csr_matrix if name == "csr" else sparse.csc_matrix
        # SciPy looks at differences of index pointers, which overflow.
        starts, indices = arrays["indptr"], arrays["indices"]
        if starts.size and (starts.min() < 0 or starts.max() > indices.size):
            raise ValueError("index pointers are out of bounds")
        matrix = make((arrays["data"], indices, starts), shape=shape)
        matrix.check_format(full_check=True)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{source} has a damaged sparse matrix: {error}") from error
    return matrix


def _matrix(values: Any, name: str) -> Any:
    """A matrix of finite numbers as float32 or float64, compressed rows in order where it is sparse."""
    kind, numbers = values.dtype.kind, values.data if not isinstance(values, np.ndarray) else values
    if values.ndim != 2 or kind not in "fiub" or values.dtype.itemsize > 8:
        raise InputError(
            f"{name} has an array of {values.dtype} and shape {values.shape}; vectors are the rows of a "
            "matrix of real numbers"
        )
    if not values.shape[0] or not values.shape[1]:
        raise InputError(f"{name} holds no vector; its shape is {values.shape}")
    if values.dtype not in (np.float32, np.float64):
        small = kind == "b" or values.dtype.itemsize <= 2
        values = values.astype(np.float32 if small else np.float64)
        numbers = values.data if not isinstance(values, np.ndarray) else values
    if not isinstance(values, np.ndarray):
        values = values.tocsr()
        values.sum_duplicates()
        numbers = values.data
    _require_finite(values, numbers, name)
    return values


def _require_finite(values: Any, numbers: Any, name: str) -> None:
    if np.isfinite(numbers.sum()) or np.isfinite(numbers).all():  # the first takes no memory
        return
    if not isinstance(values, np.ndarray):
        at = int((~np.isfinite(numbers)).argmax())
        row = int(np.searchsorted(values.indptr, at, "right")) - 1
        column = int(values.indices[at])
    else:
        row, column = divmod(int((~np.isfinite(numbers)).argmax()), values.shape[1])
    raise InputError(
        f"{name} has {float(values[row, column])} in row {row}, column {column} (counted from 0); vectors "
        "hold finite numbers, not NaN or inf"
    )


def _corpus(found: Files, format: str, vectors: Any) -> Corpus:
    n = vectors.shape[0]
    ids = [str(i) for i in range(1, n + 1)]
    return Corpus(ids, [], None, [None] * n, found.source, format, vectors=vectors)


def _name(corpus: Corpus, labels: NDArray[Any], target: str | None) -> None:
    """Labels of a corpus, or the numbers to be predicted."""
    if target is None:
        corpus.labels = as_labels(labels)
        return
    try:
        numbers = labels.astype(np.float64)
    except ValueError:
        numbers = np.full(1, np.nan)
    if not np.isfinite(numbers).all():
        raise InputError(f"labels of {corpus.source} are not all finite numbers, which were to be predicted")
    corpus.targets = numbers.tolist()
