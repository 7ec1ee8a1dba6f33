"""textsvm bench paper: Table 3 of Shi et al. 2011 with our CPU or GPU, and its honest opponent.

Every cell is trained and judged from texts by `textsvm.SVC`, C = 10, tol 1e-3; the opponent is what a
user would pick instead, TF-IDF of character 1-5-grams with LinearSVC, on the same texts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC as LibSVC
from sklearn.svm import LinearSVC

from textsvm.bench.corpora import Task, paper_tasks, spam_tasks
from textsvm.bench.harness import data_folder, write_report
from textsvm.estimators.svm import SVC
from textsvm.kernels import EditDistance, GapWeighted, Spectrum
from textsvm.kernels.base import Kernel
from textsvm.runtime.device import select
from textsvm.text.documents import encode

#: Accuracy in the paper (its CPU column), and independent reference values with LIBSVM (accuracy, support
#: vectors) on the split of `bench.corpora`; the paper names no split and no gamma of 0.05.
EXPECTED: dict[tuple[str, str, str], tuple[float | None, float, int | None]] = {
    ("Earn vs Acq", "spectrum p=4", "100"): (98.06, 97.78, 955),
    ("Earn vs Acq", "edit gamma=0.005", "100"): (96.39, 94.78, 858),
    ("Earn vs Acq", "edit gamma=0.05", "100"): (None, 97.22, 3044),
    ("Earn vs Acq", "gap p=5 decay=0.5", "100"): (90.22, 98.56, 1300),
    ("Earn vs Rest", "spectrum p=4", "100"): (98.87, 98.18, 1377),
    ("Earn vs Rest", "edit gamma=0.005", "100"): (94.63, 95.30, 1187),
    ("Earn vs Rest", "edit gamma=0.05", "100"): (None, 97.15, 5625),
    ("Earn vs Rest", "gap p=5 decay=0.5", "100"): (98.74, 98.51, 2031),
    ("Spam", "spectrum p=4", "100"): (95.2, 97.09, 1549),
    ("Spam", "edit gamma=0.005", "100"): (93.7, 89.81, 1214),
    ("Spam", "edit gamma=0.05", "100"): (None, 92.80, 4126),
    ("Spam", "gap p=5 decay=0.5", "100"): (97.5, 97.25, 1999),
    ("Earn vs Acq", "spectrum p=4", "full"): (None, 98.89, 671),
    ("Earn vs Rest", "spectrum p=4", "full"): (None, 98.94, 936),
    ("Spam", "spectrum p=4", "full"): (None, 98.71, 846),
}

#: Training seconds printed in the paper: LIBSVM on a Core 2 Duo core, and a GeForce 9800 GT.
PRINTED: dict[tuple[str, str], tuple[float, float]] = {
    ("Spam", "spectrum p=4"): (12.30, 2.48),
    ("Spam", "edit gamma=0.005"): (354.66, 18.70),
    ("Spam", "gap p=5 decay=0.5"): (5748, 149.45),
    ("Earn vs Acq", "spectrum p=4"): (12.60, 1.45),
    ("Earn vs Acq", "edit gamma=0.005"): (317.99, 19.87),
    ("Earn vs Acq", "gap p=5 decay=0.5"): (3035, 234.56),
    ("Earn vs Rest", "spectrum p=4"): (31.70, 3.15),
    ("Earn vs Rest", "edit gamma=0.005"): (761.8, 59.15),
    ("Earn vs Rest", "gap p=5 decay=0.5"): (7838, 639.61),
}

KERNELS: dict[str, Kernel] = {
    "spectrum p=4": Spectrum(p=4),
    "edit gamma=0.005": EditDistance(gamma=0.005),
    "edit gamma=0.05": EditDistance(gamma=0.05),
    "gap p=5 decay=0.5": GapWeighted(p=5, decay=0.5),
}


def train_and_judge(task: Task, name: str, length: str, device: str, repeats: int = 1) -> dict[str, Any]:
    """One cell of the table; of several runs the one with the median training time."""
    runs = []
    for _ in range(repeats):
        model = SVC(KERNELS[name], C=10, normalise="none", device=device)
        clock = time.perf_counter()
        model.fit(task.train, task.y_train)
        trained = time.perf_counter()
        accuracy = 100 * float(np.mean(model.predict(task.test) == task.y_test))
        runs.append((trained - clock, time.perf_counter() - trained, accuracy, model))
    train, test, accuracy, model = sorted(runs, key=lambda run: run[0])[repeats // 2]
    paper, reference, support = EXPECTED.get((task.name, name, length), (None, np.nan, None))
    return {
        "corpus": task.name,
        "L": length,
        "classifier": name,
        "accuracy %": f"{accuracy:.2f}",
        "reference %": f"{reference:.2f}",
        "paper %": "" if paper is None else paper,
        "support vectors": len(model.support_),
        "reference SVs": "" if support is None else support,
        "iterations": model.n_iter_,
        "gram, s": model.seconds_["gram"],
        "solve, s": model.seconds_["solve"],
        "train, s": train,
        "test, s": test,
        "LIBSVM on our Gram, s": model.seconds_["encode"] + model.seconds_["gram"] + libsvm(task, name),
        "paper's LIBSVM / GPU, s": " / ".join(
            f"{printed:g}" for printed in PRINTED.get((task.name, name), ())
        )
        if length == "100"
        else "",
    }


def libsvm(task: Task, name: str) -> float:
    """Seconds of a fit of scikit-learn's SVC on the same Gram, which is what the paper compares with."""
    documents = encode(task.train)
    kernel = clone(KERNELS[name]).fit(documents)
    gram = kernel.rows(documents, select("cpu")).gram()
    clock = time.perf_counter()
    LibSVC(kernel="precomputed", C=10).fit(gram, task.y_train)
    return time.perf_counter() - clock


def over_splits(name: str, device: str, splits: int = 10) -> dict[str, Any]:
    """The spam cell under several random splits: mean and standard deviation."""
    cells = [train_and_judge(task, name, "100", device) for task in spam_tasks(data_folder(), 100, splits)]
    accuracies = [float(cell["accuracy %"]) for cell in cells]
    times = [key for key, value in cells[0].items() if key.endswith(", s") and isinstance(value, float)]
    median = {key: float(np.median([cell[key] for cell in cells])) for key in times}
    return {
        **cells[0],
        "corpus": f"Spam, {splits} splits",
        "accuracy %": f"{np.mean(accuracies):.2f} ± {np.std(accuracies, ddof=1):.2f}",
        "support vectors": round(np.mean([cell["support vectors"] for cell in cells])),
        "iterations": round(np.mean([cell["iterations"] for cell in cells])),
        **median,
    }


def opponent(task: Task, length: str) -> dict[str, Any]:
    """TF-IDF of character 1-5-grams with LinearSVC."""
    pipeline = make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, 5), sublinear_tf=True, min_df=2), LinearSVC()
    )
    clock = time.perf_counter()
    pipeline.fit(task.train, task.y_train)
    trained = time.perf_counter()
    accuracy = 100 * float(np.mean(pipeline.predict(task.test) == task.y_test))
    tested = time.perf_counter()
    return {
        "corpus": task.name, "L": length, "classifier": "TF-IDF char 1-5 + LinearSVC",
        "accuracy %": f"{accuracy:.2f}", "reference %": "", "paper %": "", "support vectors": "",
        "reference SVs": "", "iterations": "", "gram, s": "", "solve, s": "",
        "train, s": trained - clock, "test, s": tested - trained, "LIBSVM on our Gram, s": "",
        "paper's LIBSVM / GPU, s": "",
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/cpu_paper.md (or the file asked for)."""
    parser = argparse.ArgumentParser(prog="textsvm bench paper", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/cpu_paper"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=1, help="runs of a cell; the median is reported")
    parser.add_argument("--quick", action="store_true", help="on the embedded samples, one split")
    parser.add_argument("--full", action="store_true", help="full length too, with the spectrum kernel")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    folder = None if options.quick else data_folder()
    tasks = paper_tasks(folder, 100)
    for name in KERNELS:
        train_and_judge(tasks[0], name, "100", options.device)  # compiles
    for task in tasks:
        rows += [train_and_judge(task, name, "100", options.device, options.repeats) for name in KERNELS]
        rows.append(opponent(task, "100"))
    nine = [row for row in rows if row["paper %"] != ""]
    sums = {key: sum(row[key] for row in nine) for key in ("train, s", "LIBSVM on our Gram, s")}
    sums["paper's LIBSVM / GPU, s"] = " / ".join(
        f"{sum(each):g}" for each in zip(*PRINTED.values(), strict=True)
    )
    rows.append(dict.fromkeys(rows[0], "") | {"corpus": "the paper's nine trainings"} | sums)
    if not options.quick:
        rows += [over_splits(name, options.device) for name in KERNELS]
    if options.full:
        for task in paper_tasks(folder, None):
            cell = train_and_judge(task, "spectrum p=4", "full", options.device, options.repeats)
            rows += [cell, opponent(task, "full")]
    command = (
        "textsvm bench paper"
        + " --full" * options.full
        + " --quick" * options.quick
        + f" --device {options.device}"
    )
    command += f" --repeats {options.repeats}"
    write_report(options.output, "Table 3 of Shi et al. 2011", command, tuple(rows[0]), rows)


if __name__ == "__main__":
    main()
