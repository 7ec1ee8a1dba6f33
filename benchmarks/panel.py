"""The default classifiers against two scikit-learn baselines, on many small sets.

A set consists of two files, NAME-train.tsv.xz and NAME-test.tsv.xz, with a line `label<TAB>text` per
document. Every classifier gets the texts unchanged and is tested once. Times start from texts in memory,
after a warm-up on a few documents of the set that compiles the kernels. Points are percent of accuracy.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from benchmarks.corpora import TrainTest
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, environment, markdown_lines, option
from textsvm.errors import InputError
from textsvm.estimators.svm import SVC
from textsvm.evaluation.baselines import BASELINES, CHARACTERS, WORDS, answer
from textsvm.model.settings import DEFAULT_KERNELS

#: Number of documents in the warm-up.
WARM_UP = 200
#: Names of the baselines in the tables.
_SHORT = {CHARACTERS: "characters", WORDS: "characters + words"}


def names_of(folder: Path, wanted: str | None) -> list[str]:
    """Names of the sets of a folder, or of the selected sets."""
    names = sorted(path.name.removesuffix("-train.tsv.xz") for path in folder.glob("*-train.tsv.xz"))
    if not names:
        raise InputError(f"there are no files NAME-train.tsv.xz in {folder}; name their folder with --panel")
    selected = [] if wanted is None else [name.strip() for name in wanted.split(",")]
    for name in selected:
        if name not in names:
            raise InputError(f"there is no set {name!r} in {folder}; its sets are {', '.join(names)}")
    return selected or names


def read_set(folder: Path, name: str) -> TrainTest:
    """Both parts of a set."""
    train, test = (_read(folder / f"{name}-{part}.tsv.xz") for part in ("train", "test"))
    return TrainTest(name, train[1], np.array(train[0]), test[1], np.array(test[0]))


def _read(path: Path) -> tuple[list[str], list[str]]:
    try:
        with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            pairs = [line.rstrip("\n").partition("\t") for line in lines]
    except (OSError, lzma.LZMAError, UnicodeDecodeError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    for number, (_, tab, _) in enumerate(pairs, 1):
        if not tab:
            raise InputError(f"line {number} of {path} is not a label, a TAB and a text")
    return [label for label, _, _ in pairs], [text for _, _, text in pairs]


def measure(task: TrainTest, make: Callable[[], Any]) -> dict[str, Any]:
    """Accuracy, macro-F1 and seconds of a classifier on a set."""
    result = answer(make(), task.train, task.y_train, task.test)
    return {
        "accuracy": float(np.mean(result.predicted == task.y_test)),
        "macro_f1": float(f1_score(task.y_test, result.predicted, average="macro", zero_division=0.0)),
        "fit": result.fit,
        "predict": result.predict,
        "chosen": result.chosen,
    }


def warm_up(task: TrainTest, make: Callable[[], Any]) -> None:
    """Compile the kernels before the timed run."""
    step = max(1, len(task.train) // WARM_UP)
    answer(make(), task.train[::step], task.y_train[::step], task.test[:WARM_UP])


class PanelReport(BenchmarkReport):
    """A row per set and classifier in the JSON file, tables by set in the Markdown file."""

    def write(self) -> None:
        """Write both files."""
        rows = list(self.rows.values())
        self.write_files([self.note, "", *tables(rows)], {"rows": rows, "summary": summaries(rows)})


def by_set(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Rows by set and classifier."""
    sets: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        sets.setdefault(row["set"], {})[row["classifier"]] = row
    return sets


def ours(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Names of our machines among the rows."""
    return list(dict.fromkeys(row["classifier"] for row in rows if row["classifier"] not in BASELINES))


def summaries(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each of our machines against each baseline, over the sets that both have."""
    rows_of_table = []
    for machine in ours(rows):
        for baseline in BASELINES:
            pairs = [
                (of[machine], of[baseline]) for of in by_set(rows).values() if {machine, baseline} <= set(of)
            ]
            if pairs:
                rows_of_table.append({"machine": machine, "against": baseline, **_summary(pairs)})
    return rows_of_table


def _summary(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    points = np.array([100 * (mine["accuracy"] - other["accuracy"]) for mine, other in pairs])
    f1 = np.array([100 * (mine["macro_f1"] - other["macro_f1"]) for mine, other in pairs])
    seconds = np.array([[row["fit"] + row["predict"] for row in pair] for pair in pairs])
    return {
        "sets": len(pairs),
        "mean": float(points.mean()),
        "median": float(np.median(points)),
        "won": int((points > 0).sum()),
        "lost": int((points < 0).sum()),
        "worst": float(points.min()),
        "macro-F1, mean": float(f1.mean()),
        "time, median ratio": float(np.median(seconds[:, 0] / seconds[:, 1])),
    }


def tables(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of the report: summary, and by set figures, differences, chosen parameters and seconds."""
    machines, sets = ours(rows), by_set(rows)
    baselines = [name for name in BASELINES if any(name in of for of in sets.values())]
    columns, gaps = [*baselines, *machines], [(mine, other) for mine in machines for other in baselines]
    chosen = [name for name in columns if name not in (CHARACTERS, "fast")]
    lines = ["All sets, differences in points:", ""]
    if sums := [{**each, "against": _SHORT[each["against"]]} for each in summaries(rows)]:
        lines += markdown_lines(list(sums[0]), [list(each.values()) for each in sums], ".2f")

    def add(title: str, names: Iterable[str], cell: Callable[..., str], keys: Sequence[Any]) -> None:
        cells = ([name, *(cell(of, key) for key in keys)] for name, of in sets.items())
        lines.extend(["", f"{title}:", "", *markdown_lines(["set", *names], cells, ".2f")])

    short = [_SHORT.get(name, name) for name in columns]
    add("Accuracy % / macro-F1 %", short, _shares, columns)
    against = [f"{mine} against {_SHORT[other]}" for mine, other in gaps]
    add("Differences in accuracy, in points", against, _difference, gaps)
    add("Chosen parameters", [_SHORT.get(name, name) for name in chosen], _chosen, chosen)
    add("Seconds, training + prediction", short, _seconds, columns)
    return lines


def _shares(of: dict[str, Any], name: str) -> str:
    return f"{100 * of[name]['accuracy']:.2f} / {100 * of[name]['macro_f1']:.2f}" if name in of else ""


def _difference(of: dict[str, Any], pair: tuple[str, str]) -> str:
    if not set(pair) <= set(of):
        return ""
    return f"{100 * (of[pair[0]]['accuracy'] - of[pair[1]]['accuracy']):+.2f}"


def _chosen(of: dict[str, Any], name: str) -> str:
    return of[name]["chosen"].partition(": ")[0] if name in of else ""


def _seconds(of: dict[str, Any], name: str) -> str:
    return f"{of[name]['fit']:.2f} + {of[name]['predict']:.2f}" if name in of else ""


def known_baselines(path: Path) -> dict[str, dict[str, Any]]:
    """Rows of the baselines in an earlier report of this computer, by key."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        rows = {row["key"]: row for row in report["rows"] if row["classifier"] in BASELINES}
        host = (report["cpu"], report["threads"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"--skip-baselines: {path} is not a report of python -m benchmarks panel") from error
    here = environment()
    if host != (here["cpu"], here["threads"]):
        raise InputError(
            f"--skip-baselines: {path} is of another computer ({host[0]}, {host[1]} threads), and seconds of "
            "two computers cannot be compared"
        )
    return rows


@benchmark(
    "panel",
    "The default and two scikit-learn baselines on many small sets",
    "reports/panel",
    option("--panel", type=Path, recorded=False, help="folder of the sets (default: TEXTSVM_DATA/panel)"),
    option("--sets", help="names of sets, separated by commas (default: all)"),
    option(
        "--skip-baselines",
        type=Path,
        metavar="FILE",
        recorded=False,
        help="copy the rows of the baselines from an earlier JSON report of this computer",
    ),
    option("--skip-tuned", action="store_true", recorded=False, help="leave out the tuned baseline"),
    device="auto",
    report=PanelReport,
)
def run(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train and test every classifier on every set."""
    folder = options.panel or data_folder() / "panel"
    names = names_of(folder, options.sets)
    known = {} if options.skip_baselines is None else known_baselines(options.skip_baselines)
    ours = {name: partial(SVC, name, device=options.device) for name in DEFAULT_KERNELS}
    for name in names:
        task = read_set(folder, name)
        for classifier, make in {**BASELINES, **ours}.items():
            if classifier == WORDS and options.skip_tuned:
                continue
            key = f"{task.name}, {classifier}"
            if key in known:
                report.row(key, known.get, key)
            else:
                report.row(key, classifier_row, task, classifier, make)


def classifier_row(task: TrainTest, classifier: str, make: Callable[[], Any]) -> dict[str, Any]:
    """Row of a classifier on a set."""
    if classifier not in BASELINES:
        warm_up(task, make)
    return {"set": task.name, "classifier": classifier, **measure(task, make)}
