"""Labels, kernels and coefficients as a model file has them, checked when they are read."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.spectrum.weight_vectors import MOST_TIMES, ROOM
from textsvm.runtime import device as devices

if TYPE_CHECKING:
    from textsvm.kernels.base import Kernel


def read_classes(forms: Any) -> NDArray[Any]:
    """Classes from their forms; raises InputError if they are none."""
    if not isinstance(forms, list) or len(forms) < 2:
        raise InputError("it does not name two or more classes")
    classes = [read_label(form) for form in forms]
    if len(set(classes)) != len(classes):
        raise InputError("it names a class twice")
    for kinds in (str, bool, int | float, bytes, np.datetime64):
        if all(isinstance(c, kinds) for c in classes):
            return np.array(classes)
    if all(type(c) is type(classes[0]) and isinstance(c, date) for c in classes):
        return np.array(classes, object)
    raise InputError("its classes are not all text, numbers, bytes or dates")


def label_form(label: Any) -> Any:
    """A label as JSON: text, numbers and bools as they are, others with their type."""
    if isinstance(label, bytes):
        return {"bytes": label.decode("latin-1")}
    if isinstance(label, np.datetime64):
        unit, step = np.datetime_data(label)
        return {"datetime64": [int(label.astype(np.int64)), f"{step}{unit}"]}
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, datetime):
        return {"datetime": label.isoformat()}
    if isinstance(label, date):
        return {"date": label.isoformat()}
    if isinstance(label, str | int | float):
        return label
    raise InputError(
        f"a label is {label!r}, of type {type(label).__name__}, and a file holds text, numbers, bytes and "
        "dates; train with labels of these"
    )


def read_label(form: Any) -> Any:
    """The label that `label_form` gave this form."""
    if not isinstance(form, dict):
        return form
    [(kind, value)] = form.items()
    if kind == "bytes":
        return str(value).encode("latin-1")
    if kind == "datetime64":
        count, unit = value
        return np.datetime64(count, unit)
    if kind in ("datetime", "date"):
        return {"datetime": datetime, "date": date}[kind].fromisoformat(value)
    raise InputError(f"it has a label of the unknown kind {kind!r}")


def pack_coef(coef: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """The coefficients as they take less space."""
    from scipy.sparse import csr_matrix

    packed = csr_matrix(coef)
    if 12 * packed.nnz + 8 * len(packed.indptr) >= coef.nbytes:
        return {"dual_coef": coef}
    return {
        "dual_coef.data": packed.data,
        "dual_coef.columns": packed.indices.astype(np.int32),
        "dual_coef.starts": packed.indptr.astype(np.int64),
    }


def read_coef(arrays: dict[str, NDArray[Any]], shape: tuple[int, int]) -> NDArray[np.float64]:
    """The coefficients that `pack_coef` gave, checked."""
    if "dual_coef" in arrays:
        coef = finite(arrays, "dual_coef")
        if coef.shape != shape:
            raise InputError("its coefficients do not fit its support vectors")
        return coef
    data, columns, starts = (
        finite(arrays, "dual_coef.data"),
        arrays["dual_coef.columns"],
        arrays["dual_coef.starts"],
    )
    if data.ndim != 1 or columns.dtype != np.int32 or columns.shape != data.shape:
        raise InputError("its coefficients have no column each")
    if starts.dtype != np.int64 or starts.shape != (shape[0] + 1,):
        raise InputError("its coefficients are not those of its machines")
    if starts[0] != 0 or starts[-1] != len(data) or (starts[1:] < starts[:-1]).any():
        raise InputError("its coefficients are out of bounds")
    if len(columns) and (columns.min() < 0 or columns.max() >= shape[1]):
        raise InputError("its coefficients do not fit its support vectors")
    from scipy.sparse import csr_matrix

    packed = csr_matrix((data, columns, starts), shape=shape)
    if not packed.has_canonical_format:
        raise InputError("its coefficients are out of order")
    require_room("coefficients", 8 * shape[0] * shape[1], data.nbytes + columns.nbytes + starts.nbytes)
    return packed.toarray()


def require_room(what: str, need: int, held: int) -> None:
    """Raise InputError if values take more memory than is free, or absurdly more than bytes of the file."""
    free = devices.free_memory(devices.select("cpu"))
    if need > free:
        raise InputError(f"its {what} take {need:,} bytes of memory and {free:,} are free")
    if need > max(ROOM, MOST_TIMES * held):
        raise InputError(f"its {what} would take {need:,} bytes of memory and {held:,} in the file")


def finite(arrays: dict[str, NDArray[Any]], name: str) -> NDArray[np.float64]:
    """An array of finite float64 values; raises InputError if it is not."""
    array = arrays[name]
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise InputError(f"its {name} has values that are no finite 64-bit numbers")
    return array


def as_count(value: Any) -> int:
    """A number of things as JSON has it; raises InputError if it is none."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise InputError(f"it has {value!r} where a count is expected")
    return value


def read_kernel(header: dict[str, Any], level: int = 0) -> Kernel:
    """A kernel and those it is made of, checked by the outermost."""
    from textsvm.kernels import KERNELS
    from textsvm.kernels.base import MOST_DEPTH

    if level > MOST_DEPTH:
        raise InputError(f"its kernels are nested more than {MOST_DEPTH} deep")
    parameters = dict(header)
    name = parameters.pop("name")
    if name not in KERNELS:
        raise InputError(f"its kernel {name!r} is not known to this version")

    def parameter(value: Any) -> Any:
        if isinstance(value, dict):
            return read_kernel(value, level + 1)
        if not isinstance(value, list):
            return value
        return tuple(read_kernel(one, level + 1) if isinstance(one, dict) else one for one in value)

    kernel = KERNELS[name](**{k: parameter(v) for k, v in parameters.items()})
    kernel.check()
    return kernel
