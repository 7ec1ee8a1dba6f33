"""Reader of vectors: LIBSVM's format, NumPy's .npy and .npz, SciPy's sparse .npz.

A .npz is a ZIP of .npy files, so it arrives here unpacked: the array `X`, or the only matrix in it, or the
arrays of `scipy.sparse.save_npz`; labels are `y` or `labels`, ids are `ids`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tokenize import TokenError

import numpy as np

from textsvm.arrays import AnyArray, Array
from textsvm.errors import InputError
from textsvm.readers import libsvm
from textsvm.readers.corpus import FIRST_INDEX, Corpus, ReadOptions, concatenate_corpora
from textsvm.readers.files import NUMPY, File, InputFiles, check_expansion, read_files
from textsvm.readers.plain_text import part_of
from textsvm.runtime.compiled import scipy

_LABELS = ("y", "labels", "label")
_SPARSE = ("csr", "csc")
# Exceptions of NumPy for damaged files, whose header is parsed as Python literals.
UNREADABLE = (
    *(ValueError, EOFError, MemoryError, OverflowError, TypeError),
    *(SyntaxError, TokenError, RecursionError, SystemError),
)


def vector_format(inputs: InputFiles, files: Sequence[File]) -> str | None:
    """The format of vectors of non-empty files, None if they hold no vectors."""
    if all(file.head.startswith(NUMPY) for file in files):
        return "npy" if inputs.single else "npz"
    has_suffix = all(PurePosixPath(file.name).suffix.lower() in libsvm.SUFFIXES for file in files)
    if has_suffix or all(libsvm.is_libsvm(file.head) for file in files):
        return "libsvm"
    return None


def read_vector_files(inputs: InputFiles, format: str, options: ReadOptions | None = None) -> Corpus:
    """The vectors of files; with a target ("label", "labels" or "y"), labels are numbers to be predicted.

    Without options, indices of LIBSVM's format count from 1; else from the first index that is recorded, or
    from 0 if an index is 0.
    """
    target = options and options.target
    if target is not None and target not in _LABELS:
        raise InputError(f"{inputs.source} ({format}) has no column {target!r}; its labels are called label")
    files = [file for file in inputs.files if file.size]
    if not files:
        raise InputError(f"{inputs.source} is empty: there is no vector in it")
    if format == "libsvm":
        first = options.recorded.get(FIRST_INDEX) if options else "1"
        if first is None and any(map(libsvm.is_zero_based, files)):
            first = "0"
            inputs.problems.append((inputs.source, "an index is 0, so indices count from 0"))
        if options and first == "0":
            options.decide(**{FIRST_INDEX: first})
        corpora = [_of_libsvm(file, inputs, target, first == "0") for file in files]
    elif format == "npz":
        corpora = [_of_arrays(inputs, target)]
    else:
        corpora = [_corpus(inputs, format, _matrix(load_npy(file), file.name)) for file in files]
    corpus = concatenate_corpora(corpora, inputs.source, format)
    corpus.problems = [*inputs.problems, *corpus.problems]
    return corpus


def read_vectors(path: str | Path) -> Array:
    """The vectors of a file of any of these formats, an array or CSR matrix; labels are ignored."""
    inputs = read_files(path)
    files = [file for file in inputs.files if file.size]
    format = vector_format(inputs, files)
    if format is None:
        raise InputError(f"{path} holds no vectors; they come as .npy, .npz or in LIBSVM's format")
    return read_vector_files(inputs, format).vectors


def read_labels(path: str | Path) -> list[str]:
    """Labels of vectors from a file: a text with a label a line, or a one-dimensional .npy."""
    inputs = read_files(path)
    if not inputs.single:
        raise InputError(f"{path} is a folder or an archive; labels are a text, a label a line, or a .npy")
    [file] = inputs.files
    if file.head.startswith(NUMPY):
        array = load_npy(file)
        if array.ndim != 1:
            raise InputError(f"{path} has an array of shape {array.shape}; labels have one dimension")
        return as_labels(array)
    try:
        lines = file.data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; labels are a text, a label a line, or a .npy") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise InputError(f"{path}, line {number} is empty; every line is the label of a row")
    return [line.strip() for line in lines]


def as_labels(values: AnyArray) -> list[str]:
    """Labels as texts: whole numbers without a point."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return [str(label) for label in array.tolist()]
    numbers, which = np.unique(array, return_inverse=True)
    texts = [libsvm.number_text(number) for number in numbers.tolist()]
    return [texts[i] for i in which.tolist()]


def load_npy(file: File) -> AnyArray:
    """The array of a .npy file; raise InputError if it is damaged or holds Python objects."""
    try:
        with file.open() as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about Python 2, and about literals in a damaged header
            array: AnyArray = np.lib.format.read_array(stream, allow_pickle=False)
            return array
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or "it ends too early"
        raise InputError(
            f"{file.name} is not a .npy file that can be read ({reason}); write it again"
        ) from error


def _of_libsvm(file: File, inputs: InputFiles, target: str | None, zero_based: bool) -> Corpus:
    vectors, labels = libsvm.parse_libsvm(file, inputs.problems, zero_based)
    corpus = _corpus(inputs, "libsvm", vectors)
    corpus.part = [part_of(file.name)] * len(corpus)
    if isinstance(labels, list):
        corpus.labels = [tuple(map(libsvm.number_text, label_set)) for label_set in labels]
        if target is not None:
            raise InputError(f"{file.name} has several labels a line, which cannot be predicted as numbers")
    else:
        _set_labels(corpus, labels, target)
    return corpus


def _of_arrays(inputs: InputFiles, target: str | None) -> Corpus:
    arrays = {PurePosixPath(file.name).stem: load_npy(file) for file in inputs.files}
    corpus = _corpus(inputs, "npz", _matrix_of(arrays, inputs.source))
    labels = next((arrays[name] for name in _LABELS if name in arrays), None)
    for name, values in (("labels", labels), ("ids", arrays.get("ids"))):
        if values is not None and values.shape != (len(corpus),):
            raise InputError(f"{inputs.source}: {len(corpus):,} vectors, and {name} of shape {values.shape}")
    if labels is not None:
        _set_labels(corpus, labels, target)
    if "ids" in arrays:
        corpus.ids = [str(identifier) for identifier in arrays["ids"].tolist()]
    return corpus


def _matrix_of(arrays: dict[str, AnyArray], source: str) -> Array:
    if {"format", "shape", "data"} <= arrays.keys():
        return _matrix(_sparse(arrays, source), source)
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    names = [name for name in ("X", "vectors") if name in matrices] or matrices
    if not names or (len(names) > 1 and names[0] not in ("X", "vectors")):
        raise InputError(f"{source} has the arrays {', '.join(arrays)}; call the matrix of vectors X")
    return _matrix(arrays[names[0]], f"{names[0]} in {source}")


def _sparse(arrays: dict[str, AnyArray], source: str) -> Array:
    """The matrix of `scipy.sparse.save_npz`."""
    kind = arrays["format"].item() if arrays["format"].size == 1 else ""
    name = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if name not in _SPARSE:
        raise InputError(f"{source} has a sparse matrix of format {name}; write it as CSR (X.tocsr())")
    try:
        shape = tuple(int(size) for size in arrays["shape"].tolist())
        # In compressed columns rows of zeros take no memory, until the rows are compressed.
        check_expansion(source, 8 * min(shape[:1], default=0), sum(array.nbytes for array in arrays.values()))

        matrix_class = scipy.sparse.csr_matrix if name == "csr" else scipy.sparse.csc_matrix
        # SciPy checks differences of index pointers, which overflow, and only if the last one is not 0.
        starts, indices = arrays["indptr"], arrays["indices"]
        if starts.size and (starts.min() < 0 or starts.max() > indices.size):
            raise ValueError("index pointers are out of bounds")
        if starts.ndim == 1 and (np.diff(starts.astype(np.int64)) < 0).any():
            raise ValueError("index pointers decrease")
        matrix = matrix_class((arrays["data"], indices, starts), shape=shape)
        matrix.check_format(full_check=True)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{source} has a damaged sparse matrix: {error}") from error
    return matrix


def _matrix(values: Array, name: str) -> Array:
    """A matrix of finite numbers as float32 or float64; sparse matrices as CSR."""
    kind = values.dtype.kind
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
    if not isinstance(values, np.ndarray):
        values = values.tocsr()
        values.sum_duplicates()
    _require_finite(values, name)
    return values


def _require_finite(values: Array, name: str) -> None:
    numbers = values if isinstance(values, np.ndarray) else values.data
    if np.isfinite(numbers.sum()) or np.isfinite(numbers).all():  # the sum takes no memory
        return
    at = int((~np.isfinite(numbers)).argmax())
    if isinstance(values, np.ndarray):
        row, column = divmod(at, values.shape[1])
    else:
        row, column = int(np.searchsorted(values.indptr, at, "right")) - 1, int(values.indices[at])
    raise InputError(
        f"{name} has {float(values[row, column])} in row {row}, column {column} (counted from 0); vectors "
        "hold finite numbers, not NaN or inf"
    )


def _corpus(inputs: InputFiles, format: str, vectors: Array) -> Corpus:
    n = vectors.shape[0]
    ids = [str(i) for i in range(1, n + 1)]
    return Corpus(ids, [], None, [None] * n, inputs.source, format, vectors=vectors)


def _set_labels(corpus: Corpus, labels: AnyArray, target: str | None) -> None:
    """Set the labels of a corpus, or the numbers to be predicted."""
    if target is None:
        corpus.labels = as_labels(labels)
        return
    try:
        numbers = labels.astype(np.float64)
    except ValueError:
        numbers = np.full(1, np.nan)
    if not np.isfinite(numbers).all():
        raise InputError(f"labels of {corpus.source} must be finite numbers to be predicted")
    corpus.targets = numbers.tolist()
