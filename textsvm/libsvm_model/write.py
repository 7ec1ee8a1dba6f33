"""From an estimator to a model file of LIBSVM."""

from __future__ import annotations

import os
import re
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from textsvm import device as devices
from textsvm.errors import InputError
from textsvm.estimators.one_class import OneClassSVM
from textsvm.estimators.svc import SVC
from textsvm.estimators.svr import SVR
from textsvm.files import replacing
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.readers.libsvm import number_text, vector_texts

#: What LIBSVM calls kernels.
_NAMES = {"linear": "linear", "polynomial": "polynomial", "gaussian": "rbf", "sigmoid": "sigmoid"}


def save_libsvm_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model of vectors as LIBSVM has it, for `svm-predict`.

    Parameters
    ----------
    model : SVC, SVR or OneClassSVM
        Fitted to vectors with a linear, polynomial, gaussian or sigmoid kernel; of more than two classes with
        ``multiclass="ovo"``. Classes are whole numbers, or texts of such.
    path : path
        Replaced only once the new file is complete.

    Raises
    ------
    InputError
        If LIBSVM has no such model, or the file cannot be written.

    Examples
    --------
    >>> from textsvm import SVC, Linear, save_libsvm_model
    >>> save_libsvm_model(SVC(Linear()).fit([[0.0], [1.0]], [-1, 1]), "two.model")
    >>> print(*open("two.model").read().splitlines()[:4], sep="; ")
    svm_type c_svc; kernel_type linear; nr_class 2; total_sv 2
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    _require_libsvms(model)
    classes, coef = _class_codes(model)
    vectors = csr_array(devices.to_host(model.support_documents_.values))
    order = np.arange(vectors.shape[0]) if classes is None else np.argsort(classes, kind="stable")
    written = _header_lines(
        model, None if classes is None else np.bincount(classes, minlength=len(model.classes_))
    )
    texts = vector_texts(vectors[order])
    with replacing(path) as temporary, open(temporary, "w", encoding="ascii", newline="\n") as stream:
        stream.writelines(written)
        for row, text in zip(coef[:, order].T.tolist(), texts, strict=True):
            stream.write(" ".join(map(number_text, row)) + text + "\n")


def require_libsvms(kernel: Any) -> None:
    """Raise InputError if LIBSVM has no such kernel."""
    if getattr(kernel, "name", "") not in _NAMES:
        called = spell(kernel) if isinstance(kernel, Kernel) else kernel or "precomputed"
        raise InputError(
            f"LIBSVM has no model of the kernel {called}; it has linear, polynomial, gaussian and sigmoid "
            "ones of vectors"
        )


def _require_libsvms(model: Any) -> None:
    """Raise InputError if LIBSVM has no such model."""
    if not isinstance(model, SVC | SVR | OneClassSVM):
        raise InputError(f"LIBSVM has no {type(model).__name__}; it has SVC, SVR and OneClassSVM")
    require_libsvms(model.kernel_)
    in_pairs = ("ovo", "ovr") if len(getattr(model, "classes_", ())) == 2 else ("ovo",)
    if isinstance(model, SVC) and model.multiclass not in in_pairs:
        raise InputError(
            f"LIBSVM tells classes apart in pairs, and this model does not ({model.multiclass}): "
            "train it with 'ovo'"
        )


def _labels(model: Any) -> list[int]:
    """Classes as LIBSVM's labels, in its order: descending."""
    found = []
    for label in model.classes_.tolist()[::-1]:
        number = float(label) if re.fullmatch(r"[-+]?\d{1,9}(\.0*)?", str(label)) else np.nan
        if number != number:
            raise InputError(f"the class {label!r} is not a whole number, and LIBSVM's labels are")
        found.append(int(number))
    return found


def _class_codes(model: Any) -> tuple[NDArray[np.int64] | None, NDArray[np.float64]]:
    """Of each support vector its class in LIBSVM's order; the coefficients, shape (n_classes - 1, n_sv)."""
    if not isinstance(model, SVC):
        return None, model.dual_coef_
    n, dual_coef = len(model.classes_), model.dual_coef_
    machines = [
        (n - 1 - b, n - 1 - a, row) for (a, b), row in zip(combinations(range(n), 2), dual_coef, strict=True)
    ]
    # Its class is in all machines that have a coefficient of it; if there is one machine, the sign tells.
    counts, coef = np.zeros((n, dual_coef.shape[1])), np.zeros((n - 1, dual_coef.shape[1]))
    for i, j, row in machines:
        counts[i] += (row != 0) + 0.5 * (row > 0)
        counts[j] += (row != 0) + 0.5 * (row < 0)
    code = counts.argmax(axis=0)
    for i, j, row in machines:
        coef[j - 1, code == i] = row[code == i]
        coef[i, code == j] = row[code == j]
    return code, coef


def _header_lines(model: Any, counts: NDArray[np.int64] | None) -> list[str]:
    """The header, its order that of LIBSVM."""
    kernel, intercept = model.kernel_, model.intercept_
    kind = "c_svc" if counts is not None else "epsilon_svr" if isinstance(model, SVR) else "one_class"
    lines = [f"svm_type {kind}", f"kernel_type {_NAMES[kernel.name]}"]
    if kernel.name == "polynomial":
        lines.append(f"degree {int(kernel.degree)}")
    if kernel.name != "linear":
        lines.append(f"gamma {number_text(kernel.gamma_)}")
    if kernel.name in ("polynomial", "sigmoid"):
        lines.append(f"coef0 {number_text(kernel.coef0)}")
    lines += [f"nr_class {2 if counts is None else len(counts)}", f"total_sv {len(model.support_)}"]
    if counts is None:
        return [line + "\n" for line in [*lines, f"rho {number_text(-intercept[0])}", "SV"]]
    n, order = len(counts), {pair: p for p, pair in enumerate(combinations(range(len(counts)), 2))}
    rho = [-intercept[order[n - 1 - j, n - 1 - i]] for i, j in combinations(range(n), 2)]
    lines += ["rho " + " ".join(map(number_text, rho)), "label " + " ".join(map(str, _labels(model)))]
    lines += ["nr_sv " + " ".join(map(str, counts.tolist())), "SV"]
    return [line + "\n" for line in lines]
