"""python -m textsvm.bench.tuned: earn/acq, earn/rest and spam at full length, against TF-IDF + LinearSVC.

Both sides get whole texts as their reader gives them (`bench.classifiers`). How much of a text is read is one
of the parameters of our search; where that is less than all, the opponent is measured on the same beginnings
too. Spam has no published split: the mean over several random ones counts. `--form paper` puts the texts of
both in the papers' form first (lower case, everything outside a-z0-9 a space).
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from textsvm.bench.classifiers import OPPONENT, chosen, judge_opponent, search, warm_up
from textsvm.bench.corpora import Task, mail_tasks, newswire_tasks
from textsvm.bench.harness import Rows, data_folder
from textsvm.estimators.svm import SVC
from textsvm.kernels import GapWeighted, Spectrum
from textsvm.text.documents import normalise

FORMS = ("reader", "paper")
KERNELS = [
    *(Spectrum((1, high), "log", idf=True) for high in (4, 5)),
    *(Spectrum((2, high), "log", idf=True) for high in (5, 6)),
    Spectrum((1, 5), "intersection"),
]
GAP = [GapWeighted(p, 0.5) for p in (5, 6)]
C = [1.0, 3.0, 10.0]
LENGTHS = [None, 400, 1000]


def compare(task: Task, rows: Rows, device: str, cv: int, repeats: int) -> None:
    """Rows of one corpus: ours as `tune` chooses it, and the opponent."""
    model = SVC(device=device)
    # Subsequences of whole mails take too long for a search; newswire is short.
    kernels = KERNELS + GAP * (not task.name.startswith("Spam") and device != "cpu")
    grid = {"kernel": kernels, "C": C, "max_length": LENGTHS}

    def ours() -> dict[str, Any]:
        warm_up(model, grid, task)
        clock = time.perf_counter()
        found = search(task, model, grid, cv, repeats)
        seconds = time.perf_counter() - clock
        best = {"params": found.best_params_, "mean": found.best_score}
        cut = found.best_params_["max_length"] or ""
        row = chosen(task, model, best)
        return row | {"search, s": seconds, "settings": len(found.table), "symbols read": cut}

    cut = rows.row(f"{task.name} ours", ours)["symbols read"]
    rows.row(f"{task.name} opponent", judge_opponent, task)
    if cut:
        rows.row(f"{task.name} same beginnings", beginnings, task, cut)


def beginnings(task: Task, cut: int) -> dict[str, Any]:
    """The opponent on the first `cut` symbols of every text."""
    train, test = ([text[:cut] for text in texts] for texts in (task.train, task.test))
    row = judge_opponent(dataclasses.replace(task, train=train, test=test))
    return row | {"classifier": f"{OPPONENT}, first {cut} symbols", "symbols read": cut}


def mean_over_splits(rows: Rows) -> None:
    """The mean of the spam splits, both sides."""
    for side, name in (("ours", "SVC as tuned on each split"), ("opponent", OPPONENT)):
        mine = [row for key, row in rows.rows.items() if key.startswith("Spam, split") and key.endswith(side)]
        if len(mine) > 1:
            values = [float(row["accuracy %"]) for row in mine]
            cell = {
                "corpus": f"Spam, mean of {len(mine)} splits", "classifier": name,
                "accuracy %": f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}",
                "errors": round(float(np.mean([row["errors"] for row in mine])), 1),
                "texts to predictions, s": float(np.median([row["texts to predictions, s"] for row in mine])),
            }  # fmt: skip
            rows.rows.pop(f"mean {side}", None)
            rows.row(f"mean {side}", dict, cell)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/tuned_CORPUS.md and .json (or the files asked for)."""
    parser = argparse.ArgumentParser(prog="python -m textsvm.bench.tuned", description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--corpus", choices=("newswire", "spam"), default="newswire")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--form", choices=FORMS, default="reader")
    parser.add_argument("--splits", type=int, default=5, help="random splits of the mails")
    parser.add_argument("--cv", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3, help="of the cross-validation, other folds each")
    options = parser.parse_args(arguments)
    command = f"python -m textsvm.bench.tuned --corpus {options.corpus} --device {options.device}"
    command += f" --form {options.form} --cv {options.cv} --repeats {options.repeats}"
    command += f" --splits {options.splits}" * (options.corpus == "spam")
    output = options.output or Path(f"reports/tuned_{options.corpus}")
    rows = Rows(output, "Tuned on the training part, full length", command)
    folder = data_folder()
    tasks = newswire_tasks(folder) if options.corpus == "newswire" else mail_tasks(folder, options.splits)
    for task in tasks:
        if options.form == "paper":
            train, test = ([normalise(text, "paper") for text in texts] for texts in (task.train, task.test))
            task = dataclasses.replace(task, train=train, test=test)
        compare(task, rows, options.device, options.cv, options.repeats)
    mean_over_splits(rows)
    rows.write()


if __name__ == "__main__":
    main()
