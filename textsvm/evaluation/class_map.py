"""Map of documents and classes by their kernel values: kernel PCA, distances of class means, and a tree.

In the feature space of a kernel K the mean of class A is m_A = sum_{i in A} phi(x_i) / n_A, so

    |m_A - m_B|^2 = mean(K_AA) + mean(K_BB) - 2 mean(K_AB),

with means over all pairs, each document with itself included. The tree joins the two clusters whose union
adds least to the variance within clusters (Ward, J. Am. Stat. Assoc. 1963), as in the figures of stylometry.
Kernel PCA (Schoelkopf, Smola and Mueller, Neural Computation 1998) takes the eigenvectors of the centred
matrix (I - 1/n) K (I - 1/n). The place of a class on the map of documents is the mean of its documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from textsvm.arrays import Floats, Ints, Json
from textsvm.errors import InputError
from textsvm.runtime.compiled import scipy
from textsvm.runtime.plain_json import to_json

MOST_DOCUMENTS = 2000  #: Maximum number of documents on a map; of a larger corpus a sample is drawn


@dataclass(frozen=True)
class Projection:
    """Coordinates on the first two principal components."""

    points: Floats  #: shape (n, 2)
    variance: tuple[float, float]  #: Share of the variance of each component


@dataclass(frozen=True)
class ClassMap:
    """Places of documents and classes in the feature space of a kernel; see the top of the module."""

    classes: list[str]  #: Sorted; empty without labels
    label: Ints = field(repr=False)  #: Class of each document, shape (n,)
    documents: Projection = field(repr=False)
    class_means: Projection | None = field(repr=False)  #: None for fewer than three classes
    distances: Floats = field(repr=False)  #: Of class means, or of documents without classes, shape (k, k)
    #: Tree as `scipy.cluster.hierarchy.linkage` returns it, shape (k - 1, 4); empty for a single leaf.
    tree: Floats = field(repr=False)

    def as_dict(self) -> Json:
        """JSON values."""
        projections = {name: vars(p) for name, p in vars(self).items() if isinstance(p, Projection)}
        return to_json(vars(self) | projections)


def class_map(kernel_matrix: object, labels: Sequence[object] | None = None) -> ClassMap:
    """Map of documents and of their classes.

    Parameters
    ----------
    kernel_matrix : array-like, shape (n, n)
        Symmetric kernel values of the documents, such as ``kernel(texts)``.
    labels : sequence, shape (n,), optional
        Class of each document. Without labels the tree joins documents.

    Raises
    ------
    InputError
        If the matrix is not square and finite, has fewer than two rows, or the labels have another length.

    Examples
    --------
    >>> from textsvm import Spectrum, class_map
    >>> class_map(Spectrum(2)(["abab", "abba", "xyxy"]), ["a", "a", "x"]).classes
    ['a', 'x']
    """
    K = np.asarray(kernel_matrix, np.float64)
    n = len(K) if K.ndim == 2 else 0
    if K.shape != (n, n) or n < 2 or not np.isfinite(K).all():
        raise InputError(
            f"a map needs a finite, square kernel matrix of two or more documents, got shape {K.shape}"
        )
    if labels is not None and len(labels) != n:
        raise InputError(f"there are {n:,} documents and {len(labels):,} labels; give one for each")
    K = (K + K.T) / 2
    names, code = np.unique([""] * n if labels is None else list(map(str, labels)), return_inverse=True)
    # Means over the documents of each class: row a of `mean` averages the rows of class a.
    members = code == np.arange(len(names))[:, None]
    mean = np.eye(n) if labels is None else members / np.bincount(code)[:, None]
    between = mean @ K @ mean.T
    distances = np.sqrt(np.maximum(np.diag(between)[:, None] + np.diag(between) - 2 * between, 0))
    np.fill_diagonal(distances, 0)
    tree = np.zeros((0, 4))
    if len(distances) > 1:
        condensed = scipy.spatial.distance.squareform(distances, checks=False)
        tree = scipy.cluster.hierarchy.linkage(condensed, "ward")
    class_means = kernel_pca(between) if labels is not None and len(names) > 2 else None
    classes = names.tolist() if labels is not None else []
    return ClassMap(classes, code, kernel_pca(K), class_means, distances, tree)


def kernel_pca(K: Floats) -> Projection:
    """Coordinates on the first two principal components of the feature space.

    The sign of each component makes its coordinate of largest magnitude positive.
    """
    n = len(K)
    centred = K - K.mean(0) - K.mean(1)[:, None] + K.mean()
    values, vectors = scipy.linalg.eigh(centred, subset_by_index=(max(n - 2, 0), n - 1))
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(0), range(vectors.shape[1])])
    points = np.zeros((n, 2))
    points[:, : len(values)] = vectors * np.sqrt(values)
    total = max(float(np.trace(centred)), np.finfo(float).tiny)
    return Projection(points, (float(values[0]) / total, float(values[-1]) / total))


def sample(labels: Sequence[object] | None, n: int, most: int = MOST_DOCUMENTS) -> Ints:
    """At most `most` of n documents in ascending order, drawn so that each class keeps its share."""
    if n <= most:
        return np.arange(n)
    order = np.random.default_rng(0).permutation(n)
    if labels is not None:
        order = order[np.argsort(np.array([str(labels[i]) for i in order]), kind="stable")]
    return np.sort(order[np.linspace(0, n - 1, most).round().astype(np.int64)])
