"""Loaded models as estimators, and model files that are changed."""

import textsvm
from textsvm.model.file import packed, read_content


def load(path):
    """The model of a file, held by an estimator."""
    return textsvm.as_estimator(textsvm.load(path))


def reloaded(model, path, *info, **options):
    """Save the model; the model of the file, held by an estimator."""
    textsvm.save(model, path, *info, **options)
    return load(path)


def change(path, edit):
    """Rewrite a model file: `edit` changes its header and its arrays; the digest is that of the result."""
    header, arrays, *_ = read_content(path)
    edit(header, arrays)
    path.write_bytes(b"".join(packed(header, arrays)))
