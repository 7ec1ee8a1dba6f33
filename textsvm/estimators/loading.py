"""Models in files as estimators."""

from __future__ import annotations

import os
from typing import Any

from textsvm.model.file import load_as
from textsvm.model.libsvm import read_libsvm_model


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator written by `save`; its ``info_`` is that of `save`.

    ``digest_`` is the digest of the file, which was checked; None if an older version wrote the file without
    a digest, so that damage cannot be noticed (saved again, it has one).

    A LIBSVM model is understood too, see `load_libsvm_model`.

    Raises
    ------
    InputError
        If there is no such file, or it is damaged, of another program or of a newer version.

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
    """Read a model that LIBSVM wrote; its predictions and decision values are LIBSVM's.

    More than two classes are told apart in pairs, as LIBSVM does; where votes of pairs are tied, LIBSVM takes
    the class that came first in its training file, and here values decide. C, nu and epsilon are not in the
    file and have their defaults. Probabilities in it are ignored.

    Parameters
    ----------
    path : path
    n_features : int, optional
        Columns of the vectors to be predicted. None: the largest index of the support vectors.

    Returns
    -------
    SVC, SVR or OneClassSVM
        Fitted; classes are whole numbers. ``info_["libsvm"]`` has svm_type, and what was ignored.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged, or its kernel is precomputed; it names the line.

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
    if name == "CalibratedSVC":
        from textsvm.estimators.calibrated import CalibratedSVC

        return CalibratedSVC
    from textsvm.estimators import svm

    return getattr(svm, name)
