"""The .cu files, as they are compiled, and the structures that their kernels are given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: What a kernel is specialised by: names and values.
Defines = tuple[tuple[str, int | str], ...]


def source_text(source: str) -> str:
    """The text that is compiled for kernels_cu/`source`."""
    folder = kernels_folder()
    text = (folder / source).read_text(encoding="utf-8")
    needed = re.match(r"// needs: (.+)\n", text)
    headers = ["common.cuh", *(needed[1].split() if needed else [])]
    return "".join((folder / name).read_text(encoding="utf-8") for name in headers) + text


def kernels_folder() -> Path:
    """Where the .cu files are: in the package (installed from a wheel), else beside it (a checkout)."""
    package = Path(__file__).resolve().parent
    inside = package / "kernels_cu"
    return inside if inside.is_dir() else package.parent / "kernels_cu"


def compile_options(defines: Defines = ()) -> tuple[str, ...]:
    """Options given to NVRTC."""
    return ("-std=c++17", *(f"-D{name}={value}" for name, value in defines))


def structure(dtype: np.dtype[Any], **fields: Any) -> NDArray[Any]:
    """A structure that a kernel takes by value; arrays become their addresses, None becomes 0.

    Parameters
    ----------
    dtype : structured dtype
        Fields in the order of the C struct, with ``align=True``; pointers are uint64. Who passes it on keeps
        the arrays alive.
    fields
        The value of each of them.
    """
    value = np.zeros((), dtype)
    for name in dtype.names or ():
        field = fields.pop(name)
        address = dtype[name] == np.uint64 and hasattr(getattr(field, "data", None), "ptr")
        with np.errstate(over="ignore"):  # of float64 that are inf in float32, in the kernels as well
            value[name] = field.data.ptr if address else 0 if field is None else field
    if fields:
        raise ValueError(f"{', '.join(fields)} are no fields of the structure")
    return value
