"""python -m textsvm.bench.vectors: letter (26 classes) and pendigits (10) with a Gaussian Gram given.

C and gamma as in Hsu and Lin 2002 for these files. One-vs-one against LIBSVM's (scikit-learn's `SVC`) on the
same Gram in float32 values: how many test predictions agree. LIBSVM breaks ties of votes by the smaller
class, scikit-learn with ``break_ties=True`` by the values, as we do; so both are compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC as LibSVC

from textsvm.bench.corpora import vectors
from textsvm.bench.harness import Rows, data_folder
from textsvm.estimators.svc import SVC
from textsvm.solvers.problems import STRATEGIES

#: Files, gamma, C.
TABLES = {
    "letter": ("letter.scale.bz2", "letter.scale.t.bz2", 4.0, 16.0),
    "pendigits": ("pendigits.bz2", "pendigits.t.bz2", 2.0**-13, 16.0),
}
Data = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]


def grams(name: str, every: int) -> Data:
    """Gaussian Gram of the training part with its labels, and of the test part against it with its own."""
    train, test, gamma, _ = TABLES[name]
    x, y, x_test, y_test = vectors(data_folder(), train, test)
    x, y = x[::every], y[::every]
    return (
        rbf_kernel(x, x, gamma).astype(np.float32),
        y,
        rbf_kernel(x_test, x, gamma).astype(np.float32),
        y_test,
    )


def row(name: str, data: Data, strategy: str, device: str, theirs: dict[bool, Any]) -> dict[str, Any]:
    """One strategy on one table; `theirs` are LIBSVM's predictions by whether they break ties."""
    gram, y, cross, y_test = data
    model = SVC("precomputed", C=TABLES[name][3], multiclass=strategy, device=device)
    clock = time.perf_counter()
    model.fit(gram, y)
    seconds = time.perf_counter() - clock
    predicted = model.predict(cross)
    cell = {
        "data": name, "n": len(y), "test": len(y_test), "classifier": f"SVC, {strategy}",
        "accuracy %": f"{100 * np.mean(predicted == y_test):.2f}",
        "support vectors": len(model.support_), "fit, s": seconds,
    }  # fmt: skip
    if strategy == "ovo":
        for breaking, other in theirs.items():
            cell[f"predictions as LIBSVM's, break_ties={breaking}"] = f"{np.sum(predicted == other):,}"
        objectives = [solution.objective for solution in model.solutions_]
        cell["sum of objectives"] = float(np.sum(objectives))
    return cell


def libsvm_row(name: str, data: Data, theirs: dict[bool, Any]) -> dict[str, Any]:
    """LIBSVM one-vs-one on the same values."""
    gram, y, cross, y_test = data
    clock = time.perf_counter()
    model = LibSVC(kernel="precomputed", C=TABLES[name][3], cache_size=4000, decision_function_shape="ovr")
    model.fit(gram, y)
    seconds = time.perf_counter() - clock
    for breaking in (False, True):
        theirs[breaking] = model.set_params(break_ties=breaking).predict(cross)
    return {
        "data": name, "n": len(y), "test": len(y_test), "classifier": "LIBSVM, one-vs-one",
        "accuracy %": f"{100 * np.mean(theirs[False] == y_test):.2f}",
        "support vectors": len(model.support_), "fit, s": seconds,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/vectors.md and .json (or the files asked for)."""
    parser = argparse.ArgumentParser(prog="python -m textsvm.bench.vectors", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/vectors"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--every", type=int, default=1, help="every so many training examples only")
    options = parser.parse_args(arguments)
    command = f"python -m textsvm.bench.vectors --device {options.device}"
    command += f" --every {options.every}" * (options.every > 1)
    rows = Rows(options.output, "Letters and digits: a Gaussian Gram given", command)
    rows.rows.clear()  # the rows of a table are compared with each other, so they are made together
    for name in TABLES:
        data = grams(name, options.every)
        small = np.flatnonzero(np.isin(data[1], np.unique(data[1])[:3]))[:200]
        for strategy in STRATEGIES:  # compiles
            few = SVC("precomputed", multiclass=strategy, device=options.device)
            few.fit(np.ascontiguousarray(data[0][np.ix_(small, small)]), data[1][small])
        theirs: dict[bool, Any] = {}
        rows.row(f"{name} LIBSVM", libsvm_row, name, data, theirs)
        for strategy in STRATEGIES:
            rows.row(f"{name} {strategy}", row, name, data, strategy, options.device, theirs)
    rows.write()


if __name__ == "__main__":
    main()
