"""Features in a file: the .npz of `scipy.sparse.load_npz`, with what else is known of rows and columns.

Arrays format, shape, data, indices and indptr are SciPy's, which reads no others. Beside them are ids (str),
one a row, and labels (str, or float64 where they are numbers) if there are any. A file of the texts that the
columns were learnt from also has these columns, in arrays whose names begin with "columns.", so that other
texts can be given the same ones; no array holds objects, and nothing is compressed.
"""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.estimators.features import SpectrumFeatures
from textsvm.features.weights import FeatureWeights
from textsvm.files import replacing
from textsvm.kernels import Spectrum
from textsvm.kernels.spectrum_matrix import Columns
from textsvm.sources.base import Kept
from textsvm.sources.texts import TextForm, TextSource

NPZ = ".npz"
#: Names of the arrays of columns begin so.
_COLUMNS = "columns."
_VERSION = 1
#: Parameters that are not of the columns, but of the machine that makes them.
_WHERE = ("device", "n_jobs")


def write_features(
    path: str | os.PathLike[str],
    matrix: csr_matrix,
    about: dict[str, NDArray[Any]],
    model: SpectrumFeatures | None = None,
) -> None:
    """Write a matrix of features; the file is there complete or not at all.

    Parameters
    ----------
    path : path
    matrix : csr_matrix, shape (n, number of columns)
    about : dict of str to array, shape (n,)
        Such as ids and labels.
    model : SpectrumFeatures, optional
        Fitted: the columns are written too.

    Raises
    ------
    InputError
        If the file cannot be written, or symbols of the model are what a function finds.
    """
    arrays: dict[str, Any] = {"format": np.array(b"csr"), "shape": np.array(matrix.shape, np.int64)}
    arrays |= {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, **about}
    if model is not None:
        arrays |= {_COLUMNS + name: array for name, array in _state(model).items()}
    with replacing(path) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, **arrays)


def read_features(path: str | os.PathLike[str]) -> SpectrumFeatures:
    """The fitted transformer whose columns are in a file.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged, or has a matrix alone.
    """
    try:
        with open(path, "rb") as stream:
            return _read(np.load(stream, allow_pickle=False))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is no matrix of features with its columns, or it is damaged; make it again with "
            "`textsvm features`"
        ) from error


def _read(file: Any) -> SpectrumFeatures:
    arrays = {name.removeprefix(_COLUMNS): name for name in file.files if name.startswith(_COLUMNS)}
    if not arrays:
        raise InputError(
            "it has a matrix alone; the columns are in the file of the texts that they were learnt from, "
            "which `textsvm features` made without --like"
        )
    about = json.loads(str(file[arrays.pop("about")]))
    if about.pop("version") != _VERSION:
        raise InputError("it was made by a newer version of textsvm; update it")
    about["p"] = tuple(about["p"]) if isinstance(about["p"], list) else about["p"]
    model = SpectrumFeatures(**about)
    model.check()
    return _restored(model, {name: file[stored] for name, stored in arrays.items()})


def _state(model: SpectrumFeatures) -> dict[str, NDArray[Any]]:
    known = Documents.none(model.alphabet_)
    source = _symbols(model)
    _, symbols = source.state(Kept(np.empty(0, np.int64), source.make_kernel(), known))
    about = {name: value for name, value in model.get_params().items() if name not in _WHERE}
    return {
        "about": np.array(json.dumps(about | {"version": _VERSION})),
        "widths": np.diff(model.columns_.starts).astype(np.int32),
        **symbols,
        **model.columns_.learnt.state(),
    }


def _restored(model: SpectrumFeatures, arrays: dict[str, NDArray[Any]]) -> SpectrumFeatures:
    kept: Any = _symbols(model).restore(None, np.empty(0, np.int64), arrays)
    kernel: Any = model.make_kernel()
    p1, p2 = kernel.lengths
    learnt, widths = FeatureWeights.from_state(arrays, p1, p2, kernel.weighted), arrays["widths"]
    fits = widths.shape == learnt.df.shape and widths.dtype == np.int32
    if not fits or len(kept.documents.alphabet) != learnt.vocabulary.n_symbols:
        raise ValueError("its columns do not fit together")
    most = 1 if model.weight != "intersection" else (1 << 31) - 1
    if not 0 <= widths.min(initial=0) <= widths.max(initial=0) <= most:
        raise ValueError("columns of a substring are out of range")
    model.columns_, model.alphabet_ = Columns.of(learnt, widths), kept.documents.alphabet
    return model


def _symbols(model: SpectrumFeatures) -> TextSource:
    """Of any kernel with these symbols, which are saved and checked as those of a model are."""
    return TextSource(Spectrum(tokens=model.tokens, keep_case=model.keep_case), TextForm())
