"""Loaded models as estimators, for tests of what both do."""

import textsvm


def load(path):
    """The model of a file, held by an estimator."""
    return textsvm.as_estimator(textsvm.load(path))


def load_libsvm_model(path, n_features=None):
    """The model of a LIBSVM file, held by an estimator."""
    return textsvm.as_estimator(textsvm.load_libsvm_model(path, n_features))
