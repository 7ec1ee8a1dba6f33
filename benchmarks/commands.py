"""Commands on many short texts, beside scikit-learn's pipeline of characters and LinearSVC.

Each figure is of a process of its own with compiled functions in their cache: processor seconds of all
threads, wall seconds, and the largest resident set. The pipeline (TF-IDF of characters 1-5, min_df 2,
LinearSVC) reads the same table with the csv module and a pickle of itself, and writes the same columns.
"""

from __future__ import annotations

import argparse
import lzma
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import BenchmarkReport, benchmark, data_folder
from textsvm.arrays import Json
from textsvm.readers import sample
from textsvm.readers.read import read_corpus

PIPELINE = """
import csv, pickle, sys
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import classification_report
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
what, table = sys.argv[1:]
rows = list(csv.DictReader(open(table, newline="", encoding="utf-8")))
texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
if what in ("fit", "cv"):
    tfidf = TfidfVectorizer(analyzer="char", ngram_range=(1, 5), min_df=2, sublinear_tf=True)
    model = make_pipeline(tfidf, LinearSVC())
if what == "cv":
    print(cross_val_score(model, texts, labels, cv=5))
elif what == "fit":
    pickle.dump(model.fit(texts, labels), open("pipeline", "wb"))
else:
    model = pickle.load(open("pipeline", "rb"))
if what == "predict":
    with open("theirs.csv", "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        for row, label, value in zip(rows, model.predict(texts), model.decision_function(texts)):
            out.writerow([*row.values(), label, value])
elif what == "evaluate":
    print(classification_report(labels, model.predict(texts)))
elif what == "top":
    names, weights = model[0].get_feature_names_out(), model[1].coef_[0]
    order = weights.argsort()
    print([names[i] for i in order[:30]], [names[i] for i in order[-30:]])
"""
READ = ("--text", "text", "--label", "label")
#: Arguments of textsvm, and of the pipeline, by what they do.
WORK: dict[str, tuple[tuple[str, ...], tuple[str, str]]] = {
    "train": (("train", "train.csv", *READ, "-o", "model", "--force"), ("fit", "train.csv")),
    "predict to JSON Lines": (
        ("predict", "model", "many.csv", "--text", "text", "-o", "p.jsonl", "--force"),
        ("predict", "many.csv"),
    ),
    "predict to a table": (
        ("predict", "model", "many.csv", "--text", "text", "-o", "p.csv", "--force"),
        ("predict", "many.csv"),
    ),
    "evaluate": (("evaluate", "model", "test.csv", *READ), ("evaluate", "test.csv")),
    "explain --top 30": (("explain", "model", "--top", "30"), ("top", "test.csv")),
    "cv, 5 folds": (("cv", "train.csv", *READ), ("cv", "train.csv")),
}  # fmt: skip


def write_tables(folder: Path, quick: bool) -> None:
    """Tables of 20,000 training, 20,000 test and 100,000 other sentences of reviews."""
    if quick:
        corpus = read_corpus(sample("reviews"), text="text", label="label")
        rows = [(str(label), text) for label, text in zip(corpus.labels or (), corpus.texts, strict=True)]
        parts = {"train": rows, "test": rows, "many": rows}
    else:
        path = data_folder() / "panel-large" / "yelp-sentences-train.tsv.xz"
        lines = lzma.decompress(path.read_bytes()).decode().splitlines()
        rows = [(line.split("\t")[0], line.split("\t")[1]) for line in lines]
        random.Random(0).shuffle(rows)
        parts = {"train": rows[:20000], "test": rows[-20000:], "many": rows[20000:120000]}
    for name, part in parts.items():
        cells = (f'{label},"{text.replace(chr(34), chr(34) * 2)}"\n' for label, text in part)
        (folder / f"{name}.csv").write_text("label,text\n" + "".join(cells), encoding="utf-8", newline="\n")


def cost(folder: Path, *arguments: str) -> tuple[float, float, float]:
    """Processor seconds, wall seconds and MB of a process."""
    clock = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(arguments)[-80:]} ended with {status}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - clock, usage.ru_maxrss / 1000


def measured(folder: Path, ours: tuple[str, ...], theirs: tuple[str, str], what: str) -> Json:
    """Figures of both; ours after an untimed call."""
    command = ("-m", "textsvm", *ours)
    cost(folder, *command)
    figures = zip(cost(folder, *command), cost(folder, "-c", PIPELINE, *theirs), strict=True)
    names = ("processor s", "wall s", "MB")
    return {"what": what} | {f"{who}, {name}": value for name, pair in zip(names, figures, strict=True)
            for who, value in zip(("ours", "theirs"), pair, strict=True)}  # fmt: skip


@benchmark(
    "commands",
    "Commands on short texts, beside scikit-learn",
    "reports/cpu_commands",
    device="cpu",
    quick="use the bundled sample of reviews",
    note=__doc__ or "",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Run every command, and the pipeline."""
    with tempfile.TemporaryDirectory() as name:
        write_tables(Path(name), options.quick)
        cost(Path(name), "-c", PIPELINE, "fit", "train.csv")  # whose pickle the others read
        for what, (ours, theirs) in WORK.items():
            report.row(what, measured, Path(name), ours, theirs, what)
