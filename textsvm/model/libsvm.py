"""Models of LIBSVM, in both directions: from `svm-train`, and for `svm-predict`.

A file has a header of `keyword value ...` lines up to a line `SV`, then a line for each support vector with a
coefficient for each other class and the vector as index:value pairs:

    c_1 ... c_(k-1) index:value index:value ...

The classes L_0 ... L_(k-1) have the order of `label`, and the support vectors are sorted by class, nr_sv of
each. The machine of classes i < j, number p in the order (0,1), (0,2), ..., (1,2), ..., decides for L_i if

    sum over vectors s of i of c_(j-1) K(x_s, x)  +  sum over vectors s of j of c_i K(x_s, x)  -  rho_p  >  0.

In textsvm classes ascend, and a machine (a, b), a < b, decides for b if its value is positive, so the sign
depends on the order of L_i and L_j. Files are written with descending classes, so that no sign changes. Every
number is checked on load, and messages name its line.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Floats, Ints
from textsvm.errors import InputError, os_errors
from textsvm.kernels import Gaussian, Linear, Polynomial, Sigmoid
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.linalg.factored import as_dense
from textsvm.linalg.vectors import Vectors
from textsvm.model.rules import ClassRule, NoveltyRule, NumberRule, Rule
from textsvm.model.settings import ClassifierSettings, NoveltySettings, RegressionSettings, Settings
from textsvm.model.trained import Expansion, Record, TrainedModel, as_model
from textsvm.readers.files import File
from textsvm.readers.libsvm import MAX_INDEX, is_finite, number_text, parse_libsvm, vector_texts
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import scipy
from textsvm.runtime.files import replacing
from textsvm.sources.base import Support

_CLASSIFIERS, _REGRESSIONS = ("c_svc", "nu_svc"), ("epsilon_svr", "nu_svr")
_IGNORED = ("probA", "probB", "prob_density_marks")
#: Keywords of a header with integer values, and with real values.
_WHOLE = ("degree", "nr_class", "total_sv", "label", "nr_sv")
_REAL = ("gamma", "coef0", "rho")
#: LIBSVM's names of kernels.
_NAMES = {"linear": "linear", "polynomial": "polynomial", "gaussian": "rbf", "sigmoid": "sigmoid"}

Header = dict[str, Any]


def load_libsvm_model(path: str | os.PathLike[str], n_features: int | None = None) -> TrainedModel:
    """Read a model that LIBSVM wrote; predictions and decision values are equal to LIBSVM's.

    With more than two classes there is a machine for each pair, as in LIBSVM. LIBSVM resolves tied votes by
    the order of classes in its training file, textsvm by decision values. C, nu and epsilon are not in the
    file and have their defaults. Probabilities are ignored.

    Parameters
    ----------
    path : path
    n_features : int, optional
        Columns of the vectors to be predicted; default the largest index of the support vectors.

    Returns
    -------
    TrainedModel
        Classes are whole numbers. ``info["libsvm"]`` has the svm_type and the ignored keywords.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged, or its kernel is precomputed; the message names the line.

    Examples
    --------
    >>> from textsvm import SVC, Gaussian, load_libsvm_model, save_libsvm_model
    >>> model = SVC(Gaussian(gamma=1.0)).fit([[0.0, 0.0], [1.0, 1.0]], [-1, 1])
    >>> save_libsvm_model(model, "two.model")
    >>> load_libsvm_model("two.model").predict([[0.9, 0.8]]).tolist()
    [1]
    """
    name = os.fspath(path)
    with os_errors(f"cannot read {name}"), open(path, "rb") as stream:
        content = stream.read()
    lines = content.split(b"\n")
    header, first = _read_header(name, lines)
    kernel = _kernel(name, header)
    vectors, coef = _read_vectors(name, lines, header, first)
    width = max(vectors.shape[1], 1) if n_features is None else n_features
    if width < vectors.shape[1]:
        raise InputError(f"{name} has support vectors of {vectors.shape[1]:,} columns, more than {width:,}")
    vectors.resize(vectors.shape[0], width)
    return _build(header, kernel, vectors, coef)


def fit_columns(model: TrainedModel, vectors: Any) -> tuple[TrainedModel, Any]:
    """Widen sparse vectors, or the model, to the same number of columns; the added columns are 0.

    Files in LIBSVM's format may end in different columns. Dense vectors are returned unchanged.
    """
    support = model.support
    if not isinstance(support.documents, Vectors) or not hasattr(vectors, "indptr"):
        return model, vectors
    if vectors.shape[1] > support.documents.n_features and support.documents.sparse:
        wider = Vectors(widened(support.documents.values, vectors.shape[1]))
        support = replace(support, documents=wider, n_features=vectors.shape[1])
        model = replace(model, predictor=replace(model.predictor, support=support))
    return model, widened(vectors, support.documents.n_features)


def widened(vectors: Any, width: int) -> Any:
    """A sparse matrix with columns of zeros appended up to `width` columns."""
    if vectors.shape[1] >= width:
        return vectors
    vectors = vectors.copy()
    vectors.resize(vectors.shape[0], width)
    return vectors


def _read_header(name: str, lines: list[bytes]) -> tuple[Header, int]:
    """Keywords and values, and the index of the line after `SV`."""
    header: Header = {}
    for number, line in enumerate(lines):
        where = f"{name}, line {number + 1}"
        key, *values = line.decode("ascii", "replace").split() or [""]
        if key == "SV":
            _check_header(name, header)
            return header, number + 1
        if key in header:
            raise InputError(f"{where}: {key} is there twice")
        if key in ("svm_type", "kernel_type"):
            header[key] = " ".join(values)
        elif key in _WHOLE or key in _REAL:
            header[key] = [_number(value, key in _WHOLE, f"{where}: {key}") for value in values]
        elif key in _IGNORED:
            header[key] = None
        else:
            raise InputError(f"{where}: {key[:40]!r} is not a keyword of a LIBSVM model")
    raise InputError(f"{name} is cut off: it has no line SV")


def _number(text: str, whole: bool, name: str) -> float | int:
    if whole and re.fullmatch(r"[-+]?\d{1,18}", text):
        return int(text)
    if not whole and is_finite(text.encode()):
        return float(text)
    kind = "whole number" if whole else "finite number"
    raise InputError(f"{name} is {text[:40]!r}, which is not a {kind}")


def _check_header(name: str, header: Header) -> None:
    """Raise InputError if values of the header are missing or inconsistent."""
    kind, kernel = (header.get(key) for key in ("svm_type", "kernel_type"))
    if kind not in (*_CLASSIFIERS, *_REGRESSIONS, "one_class"):
        raise InputError(f"{name}: svm_type {kind} is none of LIBSVM's")
    if kernel == "precomputed":
        raise InputError(
            f"{name} is a model of a precomputed kernel matrix, which has no vectors; train it again on "
            "vectors, or on the matrix with kernel='precomputed'"
        )
    if kernel not in _NAMES.values():
        raise InputError(f"{name}: kernel_type {kernel} is none of LIBSVM's")
    n_classes, total = (_count(name, header, key) for key in ("nr_class", "total_sv"))
    if kind in _CLASSIFIERS and n_classes < 2:
        raise InputError(f"{name}: nr_class is {n_classes}; a classifier needs two classes")
    machines = n_classes * (n_classes - 1) // 2 if kind in _CLASSIFIERS else 1
    lengths = {"rho": machines} | ({"label": n_classes, "nr_sv": n_classes} if kind in _CLASSIFIERS else {})
    for key, length in lengths.items():
        if len(header.get(key) or []) != length:
            raise InputError(f"{name}: {key} has {len(header.get(key) or [])} numbers and needs {length}")
    if kind in _CLASSIFIERS:
        if len(set(header["label"])) < n_classes:
            raise InputError(f"{name}: a label is there twice")
        if min(header["nr_sv"]) < 0 or sum(header["nr_sv"]) != total:
            raise InputError(f"{name}: nr_sv does not add up to total_sv, {total}")


def _count(name: str, header: Header, key: str) -> int:
    """A required count."""
    values = header.get(key) or []
    if len(values) != 1 or not 0 <= values[0] <= MAX_INDEX:
        raise InputError(f"{name}: {key} must be a single number of at least 0")
    return int(values[0])


def _kernel(name: str, header: Header) -> Kernel:

    def value(key: str) -> Any:
        if len(header.get(key) or []) != 1:
            raise InputError(f"{name}: the {header['kernel_type']} kernel needs a single number {key}")
        return header[key][0]

    kind = header["kernel_type"]
    kernel: Kernel = Linear()
    if kind == "rbf":
        kernel = Gaussian(value("gamma"))
    elif kind == "polynomial":
        kernel = Polynomial(value("degree"), value("gamma"), value("coef0"))
    elif kind == "sigmoid":
        kernel = Sigmoid(value("gamma"), value("coef0"))
    try:
        kernel.check()
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return kernel


def _read_vectors(
    name: str, lines: list[bytes], header: Header, first: int
) -> tuple[scipy.sparse.csr_array, Floats]:
    """Support vectors, and their coefficients, shape (n_classes - 1, n_sv)."""
    total = _count(name, header, "total_sv")
    n_values = header["nr_class"][0] - 1 if header["svm_type"] in _CLASSIFIERS else 1
    end = len(lines)
    while end > first and not lines[end - 1].strip():
        end -= 1
    if end - first != total:
        raise InputError(f"{name} has {end - first:,} support vectors and total_sv says {total:,}")
    need, free = 8 * max(n_values, len(header["rho"])) * total, devices.free_memory(devices.select("cpu"))
    if need > free:
        raise InputError(f"the coefficients of {name} take {need:,} bytes of memory and {free:,} are free")
    coef = np.empty((n_values, total))
    pairs = [b""] * first
    for i, line in enumerate(lines[first:end]):
        tokens = line.split(None, n_values)
        where = f"{name}, line {first + i + 1}"
        if len(tokens) < n_values:
            raise InputError(f"{where}: {len(tokens)} coefficients; there must be {n_values}")
        for j, token in enumerate(tokens[:n_values]):
            if not is_finite(token):
                shown = token[:40].decode("ascii", "replace")
                raise InputError(f"{where}: the coefficient {shown!r} is not a finite number")
            coef[j, i] = float(token)
        rest = tokens[n_values] if len(tokens) > n_values else b""
        # A label replaces the coefficients, padded so that messages name the columns of the file.
        pairs.append(b"0".ljust(len(line) - len(rest) - 1) + b" " + rest)
    if not total:
        return scipy.sparse.csr_array(np.empty((0, 1))), coef
    vectors, _ = parse_libsvm(File(name, b"\n".join(pairs)), [])
    return scipy.sparse.csr_array(vectors), coef


def _build(header: Header, kernel: Kernel, vectors: scipy.sparse.csr_array, coef: Floats) -> TrainedModel:
    kind, rho = header["svm_type"], np.array(header["rho"])
    settings: Settings
    rule: Rule
    if kind in _CLASSIFIERS:
        classes = np.array(sorted(header["label"]), np.int64)
        settings = ClassifierSettings(kernel, multiclass="ovo" if len(classes) > 2 else "ovr")
        rule = ClassRule(classes, settings.multiclass)
        dual_coef, intercept = _in_pairs(header, coef, rho)
        counts = np.array([header["nr_sv"][header["label"].index(label)] for label in classes.tolist()])
    else:
        regression = kind in _REGRESSIONS
        settings = RegressionSettings(kernel) if regression else NoveltySettings(kernel)
        rule = NumberRule() if regression else NoveltyRule()
        dual_coef, intercept, counts = coef, -rho, np.array([len(coef[0])])
    info = {"libsvm": {"svm_type": kind, "ignored": [key for key in _IGNORED if key in header]}}
    support = Support(np.arange(vectors.shape[0]), kernel, Vectors(vectors), vectors.shape[1])
    C = settings.C if isinstance(settings, ClassifierSettings) else None
    record = Record(settings, counts.astype(np.int64), C=C, info=info)
    return TrainedModel(settings.source, Expansion(support, dual_coef, intercept), rule, record)


def _in_pairs(header: Header, coef: Floats, rho: Floats) -> tuple[Floats, Floats]:
    """Coefficients (n_machines, n_sv) and biases of the machines of pairs of ascending classes."""
    labels, n = header["label"], len(header["label"])
    rank = {label: place for place, label in enumerate(sorted(labels))}
    place = {pair: p for p, pair in enumerate(combinations(range(n), 2))}
    ends = np.cumsum([0, *header["nr_sv"]])
    dual_coef, intercept = np.zeros((len(rho), coef.shape[1])), np.empty(len(rho))
    for p, (i, j) in enumerate(combinations(range(n), 2)):
        a, b = rank[labels[i]], rank[labels[j]]
        sign, at = (-1.0, place[a, b]) if a < b else (1.0, place[b, a])
        for own_class, row in ((i, j - 1), (j, i)):
            own = slice(ends[own_class], ends[own_class + 1])
            dual_coef[at, own] = sign * coef[row, own]
        intercept[at] = -sign * rho[p]
    return dual_coef, intercept


def save_libsvm_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model of vectors in LIBSVM's format, for `svm-predict`.

    Parameters
    ----------
    model : TrainedModel, or fitted SVC, SVR or OneClassSVM
        Of vectors with a linear, polynomial, gaussian or sigmoid kernel; with more than two classes
        ``multiclass="ovo"``. Classes must be whole numbers, or strings of whole numbers.
    path : path
        Replaced only once the new file is complete.

    Raises
    ------
    InputError
        If LIBSVM does not support the model, or the file cannot be written.

    Examples
    --------
    >>> from textsvm import SVC, Linear, save_libsvm_model
    >>> save_libsvm_model(SVC(Linear()).fit([[0.0], [1.0]], [-1, 1]), "two.model")
    >>> print(*open("two.model").read().splitlines()[:4], sep="; ")
    svm_type c_svc; kernel_type linear; nr_class 2; total_sv 2
    """
    trained = as_model(model)
    _require_libsvms(trained)
    classes, coef = _class_codes(trained)
    vectors = scipy.sparse.csr_array(devices.to_host(trained.support.documents.values))
    order = np.arange(vectors.shape[0]) if classes is None else np.argsort(classes, kind="stable")
    counts = None if classes is None else np.bincount(classes, minlength=len(trained.rule.classes))
    written = _header_lines(trained, counts)
    texts = vector_texts(vectors[order])
    with replacing(path) as temporary, open(temporary, "w", encoding="ascii", newline="\n") as stream:
        stream.writelines(written)
        for row, text in zip(coef[:, order].T.tolist(), texts, strict=True):
            stream.write(" ".join(map(number_text, row)) + text + "\n")


def require_libsvms(kernel: Any) -> None:
    """Raise InputError if LIBSVM does not support the kernel."""
    if getattr(kernel, "name", "") not in _NAMES:
        called = spell(kernel) if isinstance(kernel, Kernel) else kernel or "precomputed"
        raise InputError(
            f"LIBSVM has no model of the kernel {called}; it has models of vectors with a linear, "
            "polynomial, gaussian or sigmoid kernel"
        )


def _require_libsvms(model: TrainedModel) -> None:
    """Raise InputError if LIBSVM does not support the model."""
    rule = model.rule
    if type(rule) not in (ClassRule, NumberRule, NoveltyRule):
        raise InputError(f"LIBSVM has no {model.estimator_name}; it has SVC, SVR and OneClassSVM")
    require_libsvms(model.kernel)
    if isinstance(rule, ClassRule) and not rule.in_pairs:
        raise InputError(
            f"LIBSVM tells classes apart in pairs, and this model does not ({rule.strategy}): "
            "train it with 'ovo'"
        )


def _labels(classes: AnyArray) -> list[int]:
    """Classes as LIBSVM's labels, in descending order."""
    labels = []
    for label in classes.tolist()[::-1]:
        number = float(label) if re.fullmatch(r"[-+]?\d{1,9}(\.0*)?", str(label)) else np.nan
        if number != number:
            raise InputError(f"the class {label!r} is not a whole number, as labels of LIBSVM are")
        labels.append(int(number))
    return labels


def _class_codes(model: TrainedModel) -> tuple[Ints | None, Floats]:
    """Class of each support vector in LIBSVM's order, and the coefficients, shape (n_classes - 1, n_sv)."""
    dual_coef = as_dense(model.predictor.dual_coef)
    if model.classes is None:
        return None, dual_coef
    n = len(model.classes)
    machines = [
        (n - 1 - b, n - 1 - a, row) for (a, b), row in zip(combinations(range(n), 2), dual_coef, strict=True)
    ]
    # The class of a vector is in all machines with a nonzero coefficient; a single machine tells by sign.
    counts, coef = np.zeros((n, dual_coef.shape[1])), np.zeros((n - 1, dual_coef.shape[1]))
    for i, j, row in machines:
        counts[i] += (row != 0) + 0.5 * (row > 0)
        counts[j] += (row != 0) + 0.5 * (row < 0)
    code = counts.argmax(axis=0)
    for i, j, row in machines:
        coef[j - 1, code == i] = row[code == i]
        coef[i, code == j] = row[code == j]
    return code, coef


def _header_lines(model: TrainedModel, counts: Ints | None) -> list[str]:
    """The header, in LIBSVM's order."""
    kernel: Any = model.kernel
    intercept = model.predictor.intercept
    kind = {"SVC": "c_svc", "SVR": "epsilon_svr"}.get(model.estimator_name, "one_class")
    lines = [f"svm_type {kind}", f"kernel_type {_NAMES[kernel.name]}"]
    if kernel.name == "polynomial":
        lines.append(f"degree {int(kernel.degree)}")
    if kernel.name != "linear":
        lines.append(f"gamma {number_text(kernel.function.gamma)}")
    if kernel.name in ("polynomial", "sigmoid"):
        lines.append(f"coef0 {number_text(kernel.coef0)}")
    lines += [f"nr_class {2 if counts is None else len(counts)}", f"total_sv {len(model.support.indices)}"]
    if counts is None:
        return [line + "\n" for line in [*lines, f"rho {number_text(-intercept[0])}", "SV"]]
    n, order = len(counts), {pair: p for p, pair in enumerate(combinations(range(len(counts)), 2))}
    rho = [-intercept[order[n - 1 - j, n - 1 - i]] for i, j in combinations(range(n), 2)]
    lines += [
        "rho " + " ".join(map(number_text, rho)),
        "label " + " ".join(map(str, _labels(model.rule.classes))),
    ]
    lines += ["nr_sv " + " ".join(map(str, counts.tolist())), "SV"]
    return [line + "\n" for line in lines]
