"""Loaded models as estimators, for tests of what both do."""

import textsvm


def load(path):
    """The model of a file, held by an estimator."""
    return textsvm.as_estimator(textsvm.load(path))
