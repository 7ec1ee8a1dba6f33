"""Check and convert several labels per document: tuples of labels, or an indicator matrix.

A sequence of tuples, lists or sets has the labels of each document; `textsvm.readers.corpus.Answers` are a
tuple with unknown labels. A dense or sparse matrix of 0 and 1 has a row per document and a column per label
(scikit-learn's `MultiLabelBinarizer`), and NaN where a label is unknown. An indicator matrix of this package
is bool, or float64 with NaN if labels are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Bools, first_true
from textsvm.errors import InputError, check_labels
from textsvm.kernels.inputs import is_missing
from textsvm.linalg.vectors import is_sparse
from textsvm.readers.corpus import Answers
from textsvm.runtime.compiled import scipy

#: Forms of labels: a sequence of tuples, an array, a sparse matrix.
FORMS = ("tuples", "indicator", "sparse")
_SETS = (tuple, list, set, frozenset, np.ndarray)


def as_indicator(y: object, n: int) -> tuple[AnyArray, AnyArray, str]:
    """Sorted classes (column numbers for a matrix), indicator matrix, and form of the labels."""
    classes, indicator, form = read_labels(y)
    if len(indicator) != n:
        raise InputError(f"there are {n} documents and labels of {len(indicator)}; give each its labels")
    if n < 2:
        raise InputError("there is one sample only; a classifier needs two classes")
    if not len(classes):
        raise InputError("no document has a label; give some of them one or more")
    column = "" if form == "tuples" else "; leave that column of the indicator matrix out"
    if (a := first_true(~(indicator == 1).any(axis=0))) is not None:
        raise InputError(f"no document has the label {classes[a]!s}{column}")
    if (a := first_true(~(indicator == 0).any(axis=0))) is not None:
        unknown = ", or it is unknown" if np.isnan(indicator[:, a]).any() else ""
        raise InputError(
            f"every document has the label {classes[a]!s}{unknown}, so there is nothing to tell it "
            f"from{column}"
        )
    return classes, indicator, form


def indicator_of(y: Sequence[Any], places: Mapping[Any, int], n_labels: int) -> AnyArray:
    """Indicator matrix of tuples of labels, whose columns are `places`; other labels are ignored."""
    indicator = np.zeros((len(y), n_labels))
    for row, labels in zip(indicator, y, strict=True):
        if isinstance(labels, Answers):
            row[:] = np.nan
            row[[places[label] for label in labels.no if label in places]] = 0
        row[[places[label] for label in labels if label in places]] = 1
    return indicator if np.isnan(indicator).any() else indicator == 1


def in_form(indicator: Bools, classes: AnyArray, form: str) -> Any:
    """Convert an indicator matrix to a form of labels: list of tuples, int64 array or CSR matrix."""
    if form == "tuples":
        return label_sets(indicator, classes)
    if form == "indicator":
        return indicator.astype(np.int64)

    return scipy.sparse.csr_matrix(indicator, dtype=np.int64)


def label_sets(indicator: Bools, classes: AnyArray) -> list[tuple[Any, ...]]:
    """The labels of each document, in the order of the classes."""
    names = classes.tolist()
    return [tuple(names[a] for a in np.flatnonzero(row)) for row in indicator == 1]


def read_labels(y: Any) -> tuple[AnyArray, AnyArray, str]:
    """`as_indicator` without a check of the numbers of documents and labels."""
    if y is None:
        raise InputError("this estimator requires y to be passed, but the target y is None; give labels")
    if is_sparse(y):
        values = y.toarray()
        return np.arange(values.shape[1]), _of_matrix(values), "sparse"
    if len(getattr(y, "shape", ())) == 2:
        values = np.asarray(y)
        return np.arange(values.shape[1]), _of_matrix(values), "indicator"
    if not hasattr(y, "__iter__") or len(getattr(y, "shape", ())) > 2:
        shape = f" of shape {y.shape}" if hasattr(y, "shape") else ""
        raise InputError(
            "labels must be a tuple, list or set per document, or an indicator matrix, got an object of "
            f"type {type(y).__name__}{shape}"
        )
    return *_of_sets(list(y)), "tuples"


def _of_matrix(values: AnyArray) -> AnyArray:
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"an indicator matrix holds 0 and 1, and this one is of type {values.dtype}; labels by name are "
            "given as a list of tuples"
        )
    unknown = np.isnan(values)
    for i, a in np.argwhere((values != 0) & (values != 1) & ~unknown)[:1]:
        raise InputError(f"an indicator matrix holds 0 and 1, and {values[i, a]} is in row {i}, column {a}")
    return values.astype(np.float64) if unknown.any() else values.astype(bool)


def _of_sets(y: list[Any]) -> tuple[AnyArray, AnyArray]:
    for i, labels_of_text in enumerate(y):
        if not isinstance(labels_of_text, _SETS):
            raise InputError(
                f"the labels of document {i} are {labels_of_text!r} and no tuple, list or set of labels; SVC "
                "takes one label a document"
            )
    rows = bool(y) and all(isinstance(row, list | np.ndarray) and len(row) == len(y[0]) > 1 for row in y)
    if rows and all(isinstance(value, int | np.integer) and value in (0, 1) for row in y for value in row):
        raise InputError(
            "lists of 0 and 1 may be labels or the rows of an indicator matrix; give the matrix as a NumPy "
            "array, or labels as tuples"
        )
    pairs = [(i, label) for i, labels_of_text in enumerate(y) for label in labels_of_text]
    for i, label in pairs:
        if is_missing(label):
            raise InputError(f"a label of document {i} is missing; remove it")
    labels = [label for _, label in pairs]
    check_labels(labels)
    if len({isinstance(label, str) for label in labels}) > 1:
        raise InputError("labels of different types cannot be sorted; use only strings or only numbers")
    try:
        classes = np.unique(np.array(labels))
    except (TypeError, ValueError) as error:
        raise InputError("labels of different types cannot be sorted; use only strings or numbers") from error
    return classes, indicator_of(y, {label: a for a, label in enumerate(classes.tolist())}, len(classes))
