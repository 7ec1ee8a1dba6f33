"""Type aliases of arrays, and of data without a static type; `Any` elsewhere stands for callers' data."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: NumPy or CuPy array, also a sparse matrix of SciPy or CuPy; the device decides.
Array: TypeAlias = Any
#: NumPy array of any type of elements.
AnyArray: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
#: Object of a JSON document.
Json: TypeAlias = dict[str, Any]
#: Arrays of a file, by name.
Arrays: TypeAlias = dict[str, NDArray[Any]]
