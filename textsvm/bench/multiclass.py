"""python -m textsvm.bench.multiclass: R8, eight classes, in the three strategies, against TF-IDF + LinearSVC.

One search over strategies, kernels and C shares the Gram of each kernel; then the best of each strategy is
trained anew and tested. "tune" marks the one that the search chooses.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textsvm.bench.classifiers import best_of, chosen, judge_opponent, search, warm_up
from textsvm.bench.corpora import R8, parted_task
from textsvm.bench.harness import Rows, data_folder
from textsvm.estimators.svm import SVC
from textsvm.kernels import Spectrum
from textsvm.solvers.problems import STRATEGIES

KERNELS = [
    *(Spectrum((1, high), "log", idf=True) for high in (4, 5, 6)),
    *(Spectrum((2, high), "log", idf=True) for high in (5, 6)),
    Spectrum((1, 6), "intersection"),
]
C = [1.0, 10.0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/multiclass.md and .json (or the files asked for)."""
    parser = argparse.ArgumentParser(prog="python -m textsvm.bench.multiclass", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/multiclass"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cv", type=int, default=5)
    options = parser.parse_args(arguments)
    command = f"python -m textsvm.bench.multiclass --device {options.device} --cv {options.cv}"
    rows = Rows(options.output, "R8: topics of newswire, eight classes", command)
    task = parted_task("R8", data_folder() / R8)
    model = SVC(device=options.device)
    grid = {"multiclass": list(STRATEGIES), "kernel": KERNELS, "C": C}
    warm_up(model, grid, task)
    clock = time.perf_counter()
    found = search(task, model, grid, options.cv)
    seconds = time.perf_counter() - clock
    for strategy in STRATEGIES:
        best = best_of(found, multiclass=strategy)
        picked = "tune" if best["params"] == found.best_params_ else ""
        rows.row(strategy, lambda best=best, picked=picked: chosen(task, model, best) | {"chosen by": picked})
    rows.row("opponent", judge_opponent, task)
    about: dict[str, Any] = {"corpus": "R8", "classifier": f"the search: {len(found.table)} settings"}
    rows.row("search", dict, about | {"search, s": seconds})
    rows.write()


if __name__ == "__main__":
    main()
