"""python -m textsvm.bench.reviews: IMDB, 25,000 reviews to learn from and 25,000 to judge.

Against TF-IDF + LinearSVC, see `bench.classifiers`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textsvm.bench.classifiers import chosen, judge_opponent, search, warm_up
from textsvm.bench.corpora import IMDB, Task, parted_task
from textsvm.bench.harness import Rows, data_folder
from textsvm.estimators.svm import SVC
from textsvm.kernels import Spectrum

KERNELS = [
    Spectrum((1, 5), "log", idf=True),
    Spectrum((1, 7), "log", idf=True),
    Spectrum((3, 8), "presence", idf=True),
    Spectrum((5, 10), "log", idf=True),
]
C = [0.5, 2.0, 8.0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/reviews.md and .json (or the files asked for)."""
    parser = argparse.ArgumentParser(prog="python -m textsvm.bench.reviews", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/reviews"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cv", type=int, default=5)
    parser.add_argument("--every", type=int, default=1, help="every so many reviews only, for a try")
    options = parser.parse_args(arguments)
    command = f"python -m textsvm.bench.reviews --device {options.device} --cv {options.cv}"
    command += f" --every {options.every}" * (options.every > 1)
    rows = Rows(options.output, "IMDB: praise or not", command)
    task = parted_task("IMDB", data_folder() / IMDB)
    few = slice(None, None, options.every)
    task = Task("IMDB", task.train[few], task.y_train[few], task.test[few], task.y_test[few])
    model, grid = SVC(device=options.device), {"kernel": KERNELS, "C": C}

    def ours() -> dict[str, Any]:
        warm_up(model, grid, task)
        clock = time.perf_counter()
        found = search(task, model, grid, options.cv)
        seconds = time.perf_counter() - clock
        best = {"params": found.best_params_, "mean": found.best_score}
        return chosen(task, model, best) | {"search, s": seconds, "settings": len(found.table)}

    rows.row("ours", ours)
    rows.row("opponent", judge_opponent, task)
    rows.write()


if __name__ == "__main__":
    main()
