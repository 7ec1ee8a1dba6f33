"""Reader of vectors: LIBSVM's format, NumPy's .npy and .npz, SciPy's sparse .npz.

A .npz is a ZIP of .npy files, so it arrives here unpacked: the array `X`, or the only matrix in it, or the
arrays of `scipy.sparse.save_npz`; labels are `y` or `labels`, ids are `ids`.

A line of LIBSVM's format is ``label index:value index:value ...``, with indices from 1. scikit-learn parses
valid files; errors of others are located here. Several labels have commas between them, as scikit-learn
writes them; comments begin with #; ``qid:`` is ignored.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from math import isfinite
from pathlib import Path, PurePosixPath
from tokenize import TokenError

import numpy as np

from textsvm.arrays import AnyArray, Array, Floats
from textsvm.errors import InputError
from textsvm.readers.corpus import FIRST_INDEX, Corpus, ReadOptions, concatenate_corpora
from textsvm.readers.files import NUMPY, File, FileOnDisk, InputFiles, Problems, check_expansion, read_files
from textsvm.readers.plain_text import part_of
from textsvm.runtime.compiled import scipy

_LIBSVM_SUFFIXES = (".libsvm", ".svm", ".svmlight")
MAX_INDEX = 2**31 - 1  #: Largest index: columns of a sparse matrix are 32-bit numbers.
_NUMBER = rb"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_LINE = re.compile(
    rb"\s*%(n)s(?:,%(n)s)*(?:\s+qid:\d+)?(?:\s+\d+:%(n)s)*\s*(?:#.*)?" % {b"n": _NUMBER}, re.DOTALL
)
_FINITE = re.compile(_NUMBER)
_TOKEN = re.compile(rb"\S+")
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
    has_suffix = all(PurePosixPath(file.name).suffix.lower() in _LIBSVM_SUFFIXES for file in files)
    if has_suffix or all(_is_libsvm(file.head) for file in files):
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
        if first is None and any(map(_is_zero_based, files)):
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
    if (format := vector_format(inputs, [file for file in inputs.files if file.size])) is None:
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
    texts = [_number_text(number) for number in numbers.tolist()]
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
    vectors, labels = parse_libsvm(file, inputs.problems, zero_based)
    corpus = _corpus(inputs, "libsvm", vectors)
    corpus.part = [part_of(file.name)] * len(corpus)
    if isinstance(labels, list):
        corpus.labels = [tuple(map(_number_text, label_set)) for label_set in labels]
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
        values = values.astype(np.float32 if kind == "b" or values.dtype.itemsize <= 2 else np.float64)
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


# LIBSVM's format


def _is_libsvm(head: bytes) -> bool:
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


def _is_zero_based(file: File | FileOnDisk) -> bool:
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


def _is_finite(token: bytes) -> bool:
    return _FINITE.fullmatch(token) is not None and isfinite(float(token))


def _line_error(tokens: list[tuple[bytes, int]], first: int) -> tuple[int, str] | None:
    """Column and description of the first error of a line; None if it is valid."""
    last = first - 1
    for number, (token, column) in enumerate(tokens):
        index, _, value = token.partition(b":")
        shown = repr(token[:40].decode("utf-8", "replace"))
        if number == 0 and not all(map(_is_finite, token.split(b","))):
            return column, f"{shown} is no finite number, the label; a line is `label index:value ...`"
        if number == 0 or (number == 1 and token.startswith(b"qid:")):
            continue
        if index.isdigit() and int(index[:20]) < first:
            return column, f"the index is 0, and indices count from {first}: write the file with such indices"
        if not (index.isdigit() and last < int(index[:20]) <= MAX_INDEX and _is_finite(value)):
            sentence = f"{shown} is not `index:value` with a finite number, an index above {last}"
            return column, f"{sentence}, and of at most {MAX_INDEX:,}; indices ascend in a line"
        last = int(index)
    return None


def _number_text(number: float) -> str:
    """The shortest text of a number: 1 and not 1.0."""
    return repr(float(number)).removesuffix(".0")
