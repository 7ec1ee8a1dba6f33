"""Check labels, numbers, weights and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Floats, Ints, Words, first_true
from textsvm.errors import InputError, check_labels
from textsvm.kernels.base import is_number as is_number
from textsvm.kernels.base import is_whole
from textsvm.kernels.inputs import is_missing
from textsvm.model.settings import LARGEST
from textsvm.sources.copies import copy_groups

SEEDS = 1 << 32  #: Number of seeds of NumPy's `RandomState`.


@dataclass(frozen=True, eq=False)
class Target:
    """Checked targets of all examples."""

    #: int64 codes of the classes, shape (n,), for a classifier; float64, shape (n,), for regression;
    #: indicator matrix, shape (n, n_classes), if documents may have several labels (`textsvm.model.labels`).
    values: AnyArray
    classes: AnyArray | None  #: shape (n_classes,): Sorted classes; None for regression
    form: str | None = None  #: Form of several labels per document, see `textsvm.model.labels`
    positive: Any = None  #: Positive class of two, for metrics; default the second class
    digests: Words | None = None  #: Digests of the texts, see `textsvm.sources.copies`; None without texts.
    #: Groups of the user that folds keep together, numbered from 0; None without groups.
    groups: Ints | None = None
    weight: Floats | None = None  #: Weights of the user; where they are 0, nothing is learnt from a value

    @property
    def copies(self) -> Ints | None:
        """Group of each example, equal for copies; None without copies."""
        return copy_groups(self.digests)

    def take(self, rows: Ints) -> Target:
        """Targets of some of the examples, with the same classes."""
        digests = None if self.digests is None else self.digests[rows]
        groups = None if self.groups is None else self.groups[rows]
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, values=self.values[rows], digests=digests, groups=groups, weight=weight)

    @property
    def multilabel(self) -> bool:
        """Whether documents may have several labels."""
        return self.values.ndim == 2


def as_classes(y: object, n: int) -> tuple[AnyArray, Ints]:
    """Sorted classes of the labels of n documents, and the code of each document's class."""
    labels = _column_of(y, n, "label")
    if labels.dtype.kind == "f":
        i = first_true(~np.isfinite(labels) | (labels != np.round(labels)))
        if i is not None:
            raise InputError(
                f"the label of document {i} is {labels[i]:g}, a continuous number; a classifier "
                "needs classes, SVR takes numbers"
            )
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise InputError(
            "labels of different types cannot be sorted; use only strings or only numbers"
        ) from error
    check_labels(classes.tolist())
    if n == 1:
        raise InputError("there is one sample only; a classifier needs two classes")
    if len(classes) == 1:
        raise InputError(f"all {n} documents have the label {classes[0]!s}; a classifier needs two classes")
    return classes, codes.astype(np.int64)


def as_known(y: object, n: int, classes: AnyArray) -> Ints:
    """Codes of the labels of n documents among known classes, which are sorted."""
    numbers = {name: number for number, name in enumerate(classes.tolist())}
    labels = _column_of(y, n, "label").tolist()
    if (i := first_true([label not in numbers for label in labels])) is not None:
        raise InputError(
            f"the label of document {i} is {labels[i]!s}, and the classes are {', '.join(map(str, numbers))}"
        )
    return np.array([numbers[label] for label in labels], np.int64)


def check_order(examples: Any, target: Target) -> None:
    """Raise InputError if the labels are long and nearly all different, and the texts few and short."""
    n, classes = len(examples), target.classes
    if classes is None or target.multilabel or 10 * len(classes) < 9 * n:
        return
    if n < 4 or not isinstance(examples, list) or not isinstance(classes[0], str):
        return
    texts = set(examples)
    if 2 * len(texts) <= n and 2 * max(map(len, texts)) < sum(map(len, classes)) / len(classes):
        raise InputError(
            f"the {n} texts have only {len(texts)} different values (such as {examples[0]!r}), and nearly "
            "every label is different and long: texts and labels are probably swapped, as fit(texts, labels)"
        )


def as_numbers(y: object, n: int) -> Floats:
    """Check the numeric targets of n documents."""
    values = _column_of(y, n, "target")
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the targets are not numbers ({' '.join(str(error).split())})") from error
    if (i := first_true(~np.isfinite(numbers))) is not None:
        raise InputError(f"the target of document {i} is {numbers[i]}, not a finite number")
    if n == 1:
        raise InputError("there is one sample only; regression needs two different targets")
    if (numbers == numbers[0]).all():
        raise InputError(f"all {n} targets are {numbers[0]:g}; there is nothing to learn from a constant")
    return numbers


def as_weights(sample_weight: ArrayLike | None, n: int) -> Floats | None:
    """Check the weights of n documents; a number is the weight of all, None stays None."""
    if sample_weight is None:
        return None
    try:
        weight: Floats = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight is not numbers ({' '.join(str(error).split())})") from error
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape != (n,):
        raise InputError(
            f"there are {n} documents and sample_weight has the shape {weight.shape}; "
            "give one weight a document"
        )
    if (i := first_true(~((weight >= 0) & (weight <= LARGEST)))) is not None:
        raise InputError(
            f"the sample_weight of document {i} is {weight[i]:g}; weights are numbers from 0 to {LARGEST:g}"
        )
    if not weight.any():
        raise InputError("sample_weight is zero for all documents; there is nothing to learn from")
    return weight


def class_factors(class_weight: object, classes: AnyArray, totals: Floats) -> Floats:
    """Factor of C for each class, shape (n_classes,), given the sum of sample weights of each class.

    "balanced" gives every class the same total weight and keeps the sum over all classes; classes that a dict
    does not name have the factor 1. A dict that names all classes may name others, as scikit-learn's may.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if not isinstance(class_weight, Mapping):
        return totals.sum() / (len(classes) * totals)
    names = classes.tolist()
    for name in class_weight:
        if name not in names and not set(names) <= set(class_weight):
            raise InputError(f"class_weight names {name!r}, and no document has that label")
    return np.array([float(class_weight.get(name, 1.0)) for name in names])


def has_several(y: Any) -> bool:
    """Whether a document has a set of labels, or a tuple or list whose length is not 1."""
    if isinstance(y, str) or not (isinstance(y, Sequence) or str(getattr(y, "dtype", "")) == "object"):
        return False
    return any(
        isinstance(labels, set | frozenset) or (isinstance(labels, tuple | list) and len(labels) != 1)
        for labels in y
    )


def _column_of(y: object, n: int, what: str) -> AnyArray:
    """Check labels or targets, and return them as an array, shape (n,)."""
    if y is None:
        raise InputError(f"this estimator requires y to be passed, but the target y is None; give {what}s")
    if what == "label" and has_several(y):
        raise InputError(
            "expected one label a document, got several; MultilabelSVC (--multilabel) takes several, and "
            "--positive (Corpus.reduce_labels) chooses one to be told from the others"
        )
    if isinstance(y, list | tuple) and len({isinstance(value, str) for value in y}) > 1:
        # NumPy would convert them all to strings.
        y = np.array([*y, None], dtype=object)[:-1]
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        several = "; MultilabelSVC takes several" if values.ndim == 2 and what == "label" else ""
        raise InputError(f"expected one {what} a document, got an array of shape {values.shape}{several}")
    if len(values) != n:
        raise InputError(f"there are {n} documents and {len(values)} {what}s; give one {what} a document")
    others = values.tolist() if values.dtype.kind == "O" else ()
    if (i := first_true([*map(is_missing, others)] if others else values != values)) is not None:
        raise InputError(f"the {what} of document {i} is missing; remove the document or give it one")
    return values


def with_positive(target: Target, positive: object) -> Target:
    """Targets with a positive class of two, for metrics; InputError if there is no such class."""
    classes = [] if target.classes is None or target.multilabel else target.classes.tolist()
    if len(classes) != 2 or positive not in classes:
        raise InputError(
            f"positive must be the class to find, of two classes, got {positive!r} with "
            f"{', '.join(map(str, classes[:5])) or 'no classes'}; leave it out"
        )
    return replace(target, positive=positive)


def labels_of(target: Target) -> AnyArray:
    """Targets as given: labels or numbers, shape (n,); the indicator matrix for several labels."""
    if target.classes is None or target.multilabel:
        return target.values
    labels: AnyArray = target.classes[target.values]
    return labels


def with_classes(examples: Any, target: Target | None) -> Any:
    """Documents with their class codes; examples without a single class each are returned unchanged."""
    if target is None or target.classes is None or target.multilabel:
        return examples
    return examples.with_classes(target.values) if hasattr(examples, "with_classes") else examples


def check_seed(random_state: Any) -> int:
    """A seed; InputError if it is none."""
    if not is_whole(random_state) or not 0 <= random_state < SEEDS:
        raise InputError(
            f"random_state={random_state!r} must be a whole number from 0 to {SEEDS - 1}, or None"
        )
    return int(random_state)
