"""A trained classifier as one file: safetensors arrays and a JSON header, no code in it.

What is saved is the CPU form: the encoded support vectors, dual coefficients, bias, classes, the
kernel's parameters and what it learnt, and how texts are normalised. Everything is checked against
its bounds when read, so a damaged or hostile file gives an error and never runs anything.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import textsvm
from textsvm.documents import MAX_ALPHABET, Documents
from textsvm.errors import InputError
from textsvm.files import replacing

if TYPE_CHECKING:
    from textsvm.estimators.svc import SVC

FORMAT_VERSION = 1
_PARAMETERS = ("C", "normalise", "punctuation", "max_length", "tol", "duality_gap", "max_iter")
_STATE = "kernel."


def save(model: SVC, path: str | os.PathLike[str], info: dict[str, Any] | None = None) -> None:
    """Write a fitted classifier.

    Parameters
    ----------
    model : SVC
        Fitted.
    path : path
        Replaced only once the new file is complete.
    info : dict, optional
        JSON values to keep with it: what it was trained on, and how.

    Raises
    ------
    InputError
        If the file cannot be written.
    sklearn.exceptions.NotFittedError
        If `model` is not fitted.
    """
    from safetensors.numpy import save as to_bytes
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    support = model.support_documents_
    arrays = {
        "codes": support.codes,
        "offsets": support.offsets,
        "alphabet": support.alphabet,
        "dual_coef": model.dual_coef_,
        "intercept": model.intercept_,
        "support": model.support_,
        **{_STATE + name: array for name, array in model.kernel_.state().items()},
    }
    header = {
        "format_version": FORMAT_VERSION,
        "written_by": f"textsvm {textsvm.__version__}",
        "estimator": "SVC",
        "kernel": {"name": model.kernel_.name, **model.kernel_.get_params()},
        "parameters": {name: getattr(model, name) for name in _PARAMETERS},
        "classes": model.classes_.tolist(),
        "info": info or {},
    }
    content = to_bytes(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        metadata={"textsvm": json.dumps(header)},
    )
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def load(path: str | os.PathLike[str]) -> SVC:
    """Read a classifier written by `save`; its ``info_`` is what was saved with it.

    Raises
    ------
    InputError
        If there is no such file, or it is damaged, of another program or of a newer version.
    """
    header, arrays = _read(Path(path))
    try:
        return _build(header, arrays)
    except InputError as error:
        raise InputError(f"{path} is not a usable model: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is damaged: {_one_line(error)}; train it again") from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        what = "a folder, not a model file" if path.is_dir() else "not there"
        raise InputError(f"the model {path} is {what}; `textsvm train CORPUS -o {path}` writes one")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, ValueError, TypeError, MemoryError) as error:
        raise InputError(f"{path} is not a textsvm model, or is damaged: {_one_line(error)}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        header = json.loads(metadata["textsvm"])
        version = header["format_version"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} was not written by textsvm (it has no textsvm header)") from error
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path} has model format {version!r}, and this is textsvm {textsvm.__version__}, which reads "
            f"format {FORMAT_VERSION}; train it again, or use the version that wrote it "
            f"({header.get('written_by', 'unknown')})"
        )
    return header, arrays


def _build(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> SVC:
    from textsvm.estimators.svc import SVC
    from textsvm.kernels import KERNELS

    if header["estimator"] != "SVC":
        raise InputError(f"its estimator {header['estimator']!r} is not known to this version")
    kernel_parameters = dict(header["kernel"])
    name = kernel_parameters.pop("name")
    if name not in KERNELS:
        raise InputError(f"its kernel {name!r} is not known to this version")
    kernel = KERNELS[name](
        **{k: tuple(v) if isinstance(v, list) else v for k, v in kernel_parameters.items()}
    )
    kernel.check()
    model = SVC(kernel=kernel, **{name: header["parameters"][name] for name in _PARAMETERS})
    model.check()

    support = _documents(arrays)
    dual_coef, intercept = _finite(arrays, "dual_coef"), _finite(arrays, "intercept")
    classes = header["classes"]
    if len(classes) != 2 or len({(type(c), c) for c in classes}) != 2:
        raise InputError("it does not name two different classes")
    if not all(isinstance(c, str | int | float) for c in classes):
        raise InputError("its classes are neither text nor numbers")
    if dual_coef.shape != (1, len(support)) or intercept.shape != (1,):
        raise InputError("its coefficients do not fit its support vectors")
    indices = arrays["support"]
    if indices.shape != (len(support),) or indices.dtype.kind != "i" or (len(indices) and indices.min() < 0):
        raise InputError("its support indices do not fit its support vectors")
    if not isinstance(header["info"], dict):
        raise InputError("its information is not an object")
    kernel.restore({k.removeprefix(_STATE): v for k, v in arrays.items() if k.startswith(_STATE)})
    return model.restore(kernel, support, indices, dual_coef, intercept, np.array(classes), header["info"])


def _documents(arrays: dict[str, NDArray[Any]]) -> Documents:
    codes, offsets, alphabet = arrays["codes"], arrays["offsets"], arrays["alphabet"]
    if codes.ndim != 1 or codes.dtype not in (np.uint8, np.uint16):
        raise InputError("its symbol codes are not one row of small unsigned integers")
    if offsets.ndim != 1 or offsets.dtype != np.int64 or len(offsets) < 1:
        raise InputError("its document offsets are not one row of 64-bit integers")
    if offsets[0] != 0 or offsets[-1] != len(codes) or (np.diff(offsets) < 0).any():
        raise InputError("its document offsets are out of bounds")
    if alphabet.ndim != 1 or alphabet.dtype != np.uint32 or len(alphabet) > MAX_ALPHABET:
        raise InputError("its alphabet is not one row of code points")
    if len(alphabet) and (alphabet.max() > 0x10FFFF or len(np.unique(alphabet)) != len(alphabet)):
        raise InputError("its alphabet has symbols that are no code points, or one twice")
    if len(codes) and codes.max() >= len(alphabet):
        raise InputError("it has symbols outside its alphabet")
    return Documents(codes, offsets, alphabet)


def _finite(arrays: dict[str, NDArray[Any]], name: str) -> NDArray[np.float64]:
    array = arrays[name]
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise InputError(f"its {name} has values that are no finite 64-bit numbers")
    return array


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
