"""Values of many machines at all rows of a Gram: one product, a block of rows at a time.

    values[k] = sum_i coef[k, i] K(index_i, .) + bias[k]

for every machine k of every problem. The coefficients of all of them are the rows of one sparse matrix W over
the rows of the Gram; a row of K that no machine uses is not asked for, and the others are read once, in
float64, in blocks whose size does not depend on how many machines there are:

    values = sum over blocks B of W[:, B] K[B, :].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix
from threadpoolctl import threadpool_limits

from textsvm.gram.base import FeatureProducts, Gram
from textsvm.linalg.rows import FeatureRows
from textsvm.runtime.device import array_module, to_host
from textsvm.runtime.parallel import n_threads
from textsvm.solvers.problems import Machines

#: Bytes of the float64 copy of a block of rows.
BLOCK_BYTES = 64 << 20
#: Bytes of the values that are on a GPU at a time; there are as many passes over the rows as that takes.
VALUES_BYTES = 1 << 30
#: Share of coefficients that are not 0 below which a sparse product is faster on a CPU, as for class pairs.
SPARSE = 0.1


def decision_values(gram: Gram | FeatureProducts, machines: Sequence[Machines]) -> list[NDArray[np.float64]]:
    """Values of solved problems at every row of their Gram, computed where the Gram lives.

    Parameters
    ----------
    gram : Gram or FeatureProducts, n rows
    machines : sequence of Machines

    Returns
    -------
    list of float64 arrays, shape (n_machines, n), one a problem, on the host
    """
    if not machines:
        return []
    bias = np.concatenate([one.bias for one in machines])
    sizes = np.cumsum([len(one.bias) for one in machines])[:-1]
    if gram.features is not None:
        return np.split(_of_features(gram.features, machines) + bias[:, None], sizes)
    assert not isinstance(gram, FeatureProducts)
    values = np.empty((len(bias), gram.n))
    weights = _weights(machines, len(bias), gram.n)
    on_host = gram.device.kind == "cpu"
    most = len(bias) if on_host else max(1, VALUES_BYTES // (8 * max(1, gram.n)))
    with threadpool_limits(n_threads(), user_api="blas"):
        for first in range(0, len(bias), most):
            part = slice(first, min(first + most, len(bias)))
            _product(array_module(gram.device), gram, weights[part], values[part])
    values += bias[:, None]
    return np.split(values, sizes)


def _of_features(rows: FeatureRows, machines: Sequence[Machines]) -> NDArray[np.float64]:
    """X X' W' + ridge W', shape (total, n): without any kernel value."""
    n = len(rows.x)
    coef = _weights(machines, sum(len(one.bias) for one in machines), n).T.toarray()
    values = to_host(rows.x.dot(rows.x.transposed_dot(coef)))
    return (values + to_host(rows.ridge)[:, None] * coef).T


def _weights(machines: Sequence[Machines], total: int, n: int) -> csc_matrix:
    """W, shape (total, n): all coefficients; those of a row of the Gram that is given twice add up."""
    rows, columns, coef, first = [], [], [], 0
    for one in machines:
        machine, at = np.nonzero(one.coef)
        rows.append(machine + first)
        columns.append(one.index[at])
        coef.append(one.coef[machine, at])
        first += len(one.bias)
    places = (np.concatenate(rows), np.concatenate(columns))
    return csc_matrix((np.concatenate(coef), places), shape=(total, n))


def _product(xp: Any, gram: Gram, weights: csc_matrix, out: NDArray[np.float64]) -> None:
    """out = weights K, for `weights` of shape (k, n) and `out` of shape (k, n) on the host."""
    values: Any = out if xp is np else xp.empty(out.shape, xp.float64)
    values[...] = 0
    used = np.flatnonzero(np.diff(weights.indptr))
    size = max(1, BLOCK_BYTES // (8 * max(1, gram.n)))
    for start in range(0, len(used), size):
        block = used[start : start + size]
        rows = gram.rows(block).astype(xp.float64)
        part = weights[:, block]
        sparse = xp is np and part.nnz < SPARSE * part.shape[0] * part.shape[1]
        values += (part if sparse else xp.asarray(part.toarray())) @ rows
    if xp is not np:
        out[...] = values.get()
