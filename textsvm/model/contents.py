"""What is in a model file, for people and programs that look after models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from textsvm.errors import InputError
from textsvm.kernels.spelling import spell
from textsvm.model.bytes import is_libsvm_model
from textsvm.model.file import read_fitted


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a model file, which is read and checked as by `textsvm.load`.

    Returns
    -------
    dict
        file, bytes, digest (None if it has none), format_version, written_by, estimator, kernel, kernel_line,
        parameters, classes (None without), n_support (of each class), texts (whether it has training texts),
        calibration (None without), arrays (name, dtype, shape and bytes of each) and info.

    Raises
    ------
    InputError
        As `textsvm.load` does, and if it is a model of LIBSVM's.
    """
    if is_libsvm_model(path):
        raise InputError(f"{path} is a model of LIBSVM's, which has no digest; its text says what is in it")
    model, (header, arrays, digest) = read_fitted(path)
    kernel = getattr(getattr(model, "estimator_", model), "kernel_", None)
    return {
        "file": str(path),
        "bytes": Path(path).stat().st_size,
        "digest": digest,
        **{name: header.get(name) for name in ("format_version", "written_by", "estimator", "kernel")},
        "kernel_line": str(header["kernel"]) if kernel is None else spell(kernel),
        **{name: header.get(name) for name in ("parameters", "classes", "n_support", "calibration")},
        "texts": any(name.endswith("offsets") and len(array) > 1 for name, array in arrays.items()),
        "arrays": [
            {"name": name, "dtype": str(array.dtype), "shape": list(array.shape), "bytes": array.nbytes}
            for name, array in arrays.items()
        ],
        "info": header["info"],
    }
