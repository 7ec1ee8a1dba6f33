"""Random Grams and learning problems on them, of the kinds at which solvers have gone wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.solvers.problems import Classification, OneClass, Problem, Regression

Matrix = NDArray[np.float32]
Vector = NDArray[np.float64]
#: A problem and its unit: what the tolerance is relative to.
Made = tuple[Problem, float]

#: Of C, of kernel values, of targets.
SCALES = (1e-8, 1e-4, 1.0, 1.0, 1.0, 1e4, 1e8)


def random_problem(seed: int) -> tuple[str, Matrix, str, Problem, float]:
    """Kind of Gram, Gram, kind of problem, problem and its unit, of a seed."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 61))
    gram = str(rng.choice(list(GRAMS)))
    scale = np.float32(2.0 ** np.round(np.log2(rng.choice(SCALES))))  # keeps a singular Gram singular
    matrix = (GRAMS[gram](rng, n) * scale).astype(np.float32)
    kind = str(rng.choice(list(PROBLEMS)))
    return gram, matrix, kind, *PROBLEMS[kind](rng, matrix)


def _integers(rng: Any, n: int, width: int) -> Matrix:
    """Inner products of small whole numbers: exact in float32, so of exactly that rank."""
    points = rng.integers(-3, 4, (n, width)).astype(np.float32)
    return points @ points.T


def _definite(rng: Any, n: int) -> Matrix:
    points = rng.normal(size=(n, 4))
    squares = ((points[:, None] - points) ** 2).sum(2)
    return np.exp(-rng.choice([0.1, 1.0, 10.0]) * squares).astype(np.float32)


def _singular(rng: Any, n: int) -> Matrix:
    return _integers(rng, n, int(rng.integers(1, 6)))


def _full_rank(rng: Any, n: int) -> Matrix:
    return _integers(rng, n, 2 * n) + np.eye(n, dtype=np.float32)


def _repeated(rng: Any, n: int) -> Matrix:
    some = rng.integers(0, max(1, n // 3), n)
    return _integers(rng, max(1, n // 3), 8)[np.ix_(some, some)]


def _constant(rng: Any, n: int) -> Matrix:
    return np.full((n, n), rng.choice([0.0, 1.0, 1.0, -1.0]), np.float32)


def _indefinite(rng: Any, n: int) -> Matrix:
    matrix = rng.uniform(-1, 1, (n, n))
    return ((matrix + matrix.T) / 2).astype(np.float32)


def _with_zeros(rng: Any, n: int) -> Matrix:
    matrix = _full_rank(rng, n)
    none = rng.random(n) < 0.3
    matrix[none] = 0
    matrix[:, none] = 0
    return matrix


def _spread(rng: Any, n: int) -> Matrix:
    """Rows of very different sizes, as of a kernel that is not normalised."""
    sizes = (2.0 ** rng.integers(-8, 9, n)).astype(np.float32)
    return _full_rank(rng, n) * sizes * sizes[:, None]


GRAMS: dict[str, Callable[[Any, int], Matrix]] = {
    "Gaussian": _definite,
    "full rank": _full_rank,
    "singular": _singular,
    "equal rows": _repeated,
    "constant": _constant,
    "indefinite": _indefinite,
    "zero rows": _with_zeros,
    "rows of all sizes": _spread,
}


def _C(rng: Any) -> float:
    return float(rng.choice([*SCALES, rng.uniform(0.1, 10)]))


def _weight(rng: Any, n: int) -> Vector:
    """Ones, or factors with zeros among them, one at least above."""
    if rng.random() < 0.5:
        return np.ones(n)
    weight = rng.choice([0.0, 0.5, 1.0, 1.0, 3.0], n)
    weight[rng.integers(n)] = 1.0
    return np.asarray(weight)


def _classification(rng: Any, matrix: Matrix, fewest: int, most: int, strategy: str) -> Made:
    """Classes that all occur; without as many examples, one class."""
    n, k = len(matrix), int(rng.integers(fewest, most + 1))
    if n < k:
        return _one_class(rng, matrix)
    target = rng.integers(0, k, n)
    target[:k] = np.arange(k)
    target = rng.permutation(target)
    weight = _weight(rng, n) * rng.choice([0.1, 1.0, 1.0, 10.0], k)[target]
    return Classification(np.arange(n), target, k, _C(rng), weight, strategy), 1.0


def _regression(rng: Any, matrix: Matrix) -> Made:
    n = len(matrix)
    target = rng.normal(size=n) * rng.choice(SCALES)
    unit = float(np.abs(target).max())
    epsilon = float(rng.choice([0.0, 0.01, 0.1, 1.0])) * unit
    return Regression(np.arange(n), target, _C(rng), _weight(rng, n), epsilon), unit


def _one_class(rng: Any, matrix: Matrix) -> Made:
    weight = _weight(rng, len(matrix))
    nu = float(rng.choice([0.01, 0.1, 0.5, 0.9, 1.0]))
    unit = float(np.abs(matrix).max()) * nu * float(weight.sum())
    return OneClass(np.arange(len(matrix)), nu, weight), unit if unit > 0 else 1.0


PROBLEMS: dict[str, Callable[[Any, Matrix], Made]] = {
    "two classes": partial(_classification, fewest=2, most=2, strategy="ovo"),
    "several classes": partial(_classification, fewest=3, most=5, strategy="ovo"),
    "Crammer-Singer": partial(_classification, fewest=2, most=5, strategy="crammer-singer"),
    "regression": _regression,
    "one class": _one_class,
}
