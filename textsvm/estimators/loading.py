"""Load models from files as estimators."""

from __future__ import annotations

import os
from typing import Any

from textsvm.estimators.calibrated import CalibratedSVC
from textsvm.estimators.svm import SVC, SVR, OneClassSVM
from textsvm.model.file import load_as
from textsvm.model.libsvm import read_libsvm_model


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator written by `save`, or a LIBSVM model as `load_libsvm_model` does.

    The attribute ``info_`` is the `info` of `save`. ``digest_`` is the checked digest of the file; None if an
    older version wrote the file without a digest, so that damage cannot be detected.

    Raises
    ------
    InputError
        If the file does not exist, is damaged, or was written by another program or a newer version.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, load, save
    >>> save(SVC(Spectrum(3)).fit(["win cash now", "lunch at noon"], ["spam", "ham"]), "spam.textsvm")
    >>> model = load("spam.textsvm")
    >>> model.kernel_, model.classes_.tolist()
    (Spectrum(p=3), ['ham', 'spam'])
    """
    return load_as(path, _estimator_class)


def load_libsvm_model(path: str | os.PathLike[str], n_features: int | None = None) -> Any:
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
    SVC, SVR or OneClassSVM
        Fitted; classes are whole numbers. ``info_["libsvm"]`` has the svm_type and the ignored keywords.

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
    return read_libsvm_model(path, n_features, _estimator_class)


def _estimator_class(name: str) -> Any:
    if name == "MultilabelSVC":
        from textsvm.estimators.multilabel import MultilabelSVC

        return MultilabelSVC
    if name == "OnlineSVC":
        from textsvm.estimators.online import OnlineSVC

        return OnlineSVC
    return {"SVC": SVC, "SVR": SVR, "OneClassSVM": OneClassSVM, "CalibratedSVC": CalibratedSVC}[name]
