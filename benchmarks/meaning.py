"""Strings and meaning in one machine: encoders beside `SVC()` and fine-tuned models.

Training texts are 8, 20 or 60 of each class, any 300 or 1,000, or all, of a sample of the training part
(2,500 texts of English sets, 600 of others); tests are a sample of the test part (1,000 and 300, fewer of
long texts). "strings" is `SVC()`, "strings + ENCODER" `SVC(encoder=...)`, and with a number the same with a
fixed weight. "ENCODER + logistic regression" has centred vectors of length 1. The encoders are a static one
and another, whose vectors are read from files: NAME|a and NAME|b are those of the samples of the training
and test part of the set NAME, "|q" their integers and "|s" a scale of each text. Accuracies of other programs
are read from a file with a line of JSON each: set, size, method, accuracy. Figures in the tables: mean
accuracy; mean difference to "strings" on the same sets, and its standard error over sets; the difference of
the worst set; sets that lose more than 0.3 points.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize

from benchmarks.harness import BenchmarkReport, benchmark, data_folder, markdown_lines, option
from benchmarks.panel import names_of, read_set
from textsvm.arrays import AnyArray, Floats, Ints, Json
from textsvm.choice.candidates import auto_candidate
from textsvm.choice.choose import MOST_WEIGHED, WEIGHTS, Weighing, without_odds
from textsvm.estimators.svm import SVC
from textsvm.evaluation.baselines import CHARACTERS, characters_baseline
from textsvm.kernels.base import Kernel
from textsvm.kernels.inputs import encode_inputs
from textsvm.runtime.device import select
from textsvm.text.encoders import load_encoder
from textsvm.training.train import rare_class_bias

#: English sets of both panels.
ENGLISH = (
    *("acl-arc", "atis", "banking77", "blitzer", "c50", "cola", "cr", "disaster", "dreaddit"),
    *("gh-issues", "hsol", "lingspam", "meld", "ohsumed", "onestop", "poems-type", "proscons"),
    *("sense-hard", "sense-interest", "sense-line", "sense-serve", "senti4sd", "sk-BioInfer", "snips"),
    *("spooky", "stackoverflow20", "subj", "te-emoji", "te-emotion", "te-offensive", "trec6"),
    *("tweet-emo13", "webkb"),
)
#: Titles of numbers of training texts; "8c" is 8 of each class.
BY_CLASS = {"8c": "8 a class", "20c": "20 a class", "60c": "60 a class"}
SIZES = {**BY_CLASS, "300": "300", "1000": "1,000", "all": "all"}
#: Texts of the samples of English and of other sets, and most training texts of sizes by class.
SAMPLES, MOST_BY_CLASS = ((2500, 1000), (600, 300)), 1300
#: Mean number of characters of long and very long texts, and the number of tests then.
LONG = ((1500, 200), (600, 400))
STRINGS, FIXED, BELOW = "strings", "strings + 0.", -0.3
Vectors = tuple[Floats, Floats]
#: Training texts, their classes, tests, their classes (-1 if unknown), places of the training texts.
Part = tuple[list[str], Ints, list[str], Ints, Ints]
#: Figures by set, size and machine, a seed each.
Points = dict[tuple[str, str, str], list[float]]


def drawn(texts: Sequence[str], labels: AnyArray, most: int, seed: int) -> tuple[list[str], AnyArray]:
    """At most so many texts, and their labels."""
    rows = np.random.default_rng(seed).permutation(len(texts))[:most]
    return [texts[i] for i in rows], labels[rows]


@lru_cache(1)
def samples(folder: Path, name: str) -> tuple[list[str], AnyArray, list[str], AnyArray]:
    """Samples of both parts of a set."""
    task, most, seed = read_set(folder, name), SAMPLES[name not in ENGLISH], zlib.crc32(name.encode())
    train = drawn(task.train, task.y_train, most[0], seed)
    return *train, *drawn(task.test, task.y_test, most[1], seed + 1)


def rows_of(labels: AnyArray, size: str, seed: int, name: str) -> Ints:
    """Places of the training texts; empty if there are too few or too many."""
    order = np.random.default_rng([seed, zlib.crc32(name.encode())]).permutation(len(labels))
    if not size.endswith("c"):
        return order if size == "all" else order[: int(size) * (int(size) <= len(order))]
    first = [order[labels[order] == label][: int(size[:-1])] for label in np.unique(labels)]
    order = order[np.isin(order, np.concatenate(first))]
    return order[: len(order) * (len(order) <= MOST_BY_CLASS)]


def part_of(folder: Path, name: str, size: str, seed: int) -> Part:
    """Texts of a point."""
    texts, labels, tests, test_labels = samples(folder, name)
    rows = rows_of(labels, size, seed, name)
    classes, codes = np.unique(labels[rows], return_inverse=True)
    length = np.mean([len(texts[i]) for i in rows] or [0])
    most = next((most for least, most in LONG if length > least), len(tests))
    most = len(tests) if seed == 0 and size.endswith("c") else most
    number = {label: code for code, label in enumerate(classes)}
    truth = np.array([number.get(label, -1) for label in test_labels[:most]])
    return [texts[i] for i in rows], codes, tests[:most], truth, rows


def gram(kernel: Kernel, texts: list[str], codes: Ints, tests: list[str]) -> tuple[Floats, Floats]:
    """Matrices of the training texts, and of the tests with them."""
    structure, device = kernel.structure, select("cpu")
    train = structure.read(encode_inputs(texts, structure.views).with_classes(codes))
    rows = kernel.fit(train, device).rows(train, device)
    test = structure.read(encode_inputs(tests, structure.views, train))
    return np.asarray(rows.gram(), float), np.asarray(rows.cross(test), float)


def centred(train: Floats, test: Floats) -> Vectors:
    """Vectors as the kernel of an encoder has them."""
    mean = train.mean(axis=0)
    scale = np.sqrt(((train - mean) ** 2).sum(axis=1).mean()) or 1.0
    return (train - mean) / scale, (test - mean) / scale


def machines(part: Part, encoders: dict[str, Vectors], alone: bool) -> Iterator[tuple[str, Ints]]:
    """Predictions of the machines; `alone` also those without strings."""
    texts, codes, tests, *_ = part
    default, bias = auto_candidate(texts), rare_class_bias(np.bincount(codes).astype(float), len(codes))

    def predict(inner: Floats, outer: Floats) -> Ints:
        machine = SVC("precomputed", loss=default.loss, C=default.C, tol=0.02).fit(inner, codes)
        values = machine.decision_function(outer).reshape(len(outer), -1) + bias
        return np.asarray(values[:, 0] > 0 if values.shape[1] == 1 else values.argmax(axis=1), int)

    (inner, outer), first = gram(default.kernel(), texts, codes, tests), slice(MOST_WEIGHED)
    learnt = without_odds(replace(default, plain=0.0).kernel())
    plain, _ = gram(learnt, texts[first], codes[first], tests[:1])
    predictions = {0.0: predict(inner, outer)}
    yield STRINGS, predictions[0.0]
    for name, vectors in encoders.items():
        train, test = centred(*vectors)
        own, cross = train @ train.T, test @ train.T
        for w in WEIGHTS:
            predictions[w] = predict((1 - w) * inner + w * own, (1 - w) * outer[: len(test)] + w * cross)
            yield f"{STRINGS} + {w:g} {name}", predictions[w]
        weighing = Weighing(codes[first], codes[first], None, without_odds)
        [weight], _ = weighing.weights([plain.astype(np.float32), own[first, first].astype(np.float32)])
        yield f"{STRINGS} + {name}", predictions[weight][: len(test)]
        if alone:
            logistic = LogisticRegression(C=10, max_iter=300).fit(normalize(train), codes)
            yield f"{name} + logistic regression", logistic.predict(normalize(test))
    if alone:
        yield CHARACTERS, characters_baseline().fit(texts, codes).predict(tests)


def encoders_of(options: argparse.Namespace, name: str, part: Part) -> dict[str, Vectors]:
    """Vectors of the training texts and tests by encoder."""
    static = load_encoder(str(options.encoder or data_folder() / "encoders" / "minilm-static-256"))
    encoders: dict[str, Vectors] = {"static": (static(part[0]).astype(float), static(part[2]).astype(float))}
    for path in sorted(options.vectors.glob("*.npz")) if options.vectors else ():
        arrays = np.load(path)
        if f"{name}|a|q" in arrays:
            train, test = (arrays[f"{name}|{p}|q"] * arrays[f"{name}|{p}|s"][:, None] for p in "ab")
            encoders[options.name] = train[part[4]], test[: len(part[2])]
    return encoders


def row(options: argparse.Namespace, folder: Path, name: str, size: str, seed: int) -> Json:
    """Accuracy and macro-F1 of the machines at a point, in per cent; none without enough texts."""
    part, figures = part_of(folder, name, size, seed), Json(accuracy={}, macro_f1={})
    for machine, codes in machines(part, encoders_of(options, name, part), seed == 0) if part[0] else ():
        truth = part[3][: len(codes)]
        figures["accuracy"][machine] = round(100 * float(np.mean(truth == codes)), 2)
        if not machine.startswith(FIXED):
            f1 = f1_score(truth, codes, average="macro", zero_division=0.0)
            figures["macro_f1"][machine] = round(100 * float(f1), 2)
    return {"set": name, "size": size, "seed": seed, "texts": len(part[0]), **figures}


class MeaningReport(BenchmarkReport):
    """A row for each set, size and seed in the JSON file, tables in the Markdown file."""

    others: Path | None = None  #: File of accuracies of other programs

    def write(self) -> None:
        rows = [row for row in self.rows.values() if row["accuracy"]]
        lines = self.others.read_text(encoding="utf-8").splitlines() if self.others else []
        others = [json.loads(line) for line in lines]
        points = [points_of(rows, others, figure) for figure in ("accuracy", "macro_f1")]
        self.write_files([self.note, *tables(*points)], {"rows": rows, "others": others})


def points_of(rows: Sequence[Json], others: Sequence[Json], figure: str) -> Points:
    """A figure of all machines by set, size and machine."""
    points: Points = {}
    for row in rows:
        for machine, value in row[figure].items():
            points.setdefault((row["set"], row["size"], machine), []).append(value)
    points |= {(row["set"], row["size"], row["method"]): [100 * row[figure]] for row in others}
    return points


def tables(points: Points, f1: Points) -> Iterator[str]:
    """Lines of the report."""
    names, machines = sorted({name for name, *_ in points}), list(dict.fromkeys(key[2] for key in points))
    english, rest = ([name for name in names if (name in ENGLISH) == side] for side in (True, False))
    ours = {key: values for key, values in points.items() if key[2].startswith(STRINGS)}
    for title, sets, shown in (
        ("English sets, accuracy, first seed", english, {key: values[:1] for key, values in points.items()}),
        ("English sets, macro-F1, first seed", english, {key: values[:1] for key, values in f1.items()}),
        ("English sets, accuracy, all seeds", english, ours),
        ("Other languages, dialects, DNA, molecules and code, accuracy, all seeds", rest, ours),
    ):
        yield from ("", f"{title}:", "")
        cells = [[machine, *(cell(shown, machine, size, sets) for size in SIZES)] for machine in machines]
        yield from markdown_lines(["machine", *SIZES.values()], [row for row in cells if any(row[1:])], "")
    for size in [size for size in SIZES if any((name, size, STRINGS) in points for name in names)]:
        yield from ("", f"Accuracy by set, {SIZES[size]}, first seed:", "")
        columns = [machine for machine in machines if not machine.startswith(FIXED)]
        sets = [name for name in names if (name, size, STRINGS) in points]
        rows = ([n, *(f"{points.get((n, size, m), [np.nan])[0]:.1f}" for m in columns)] for n in sets)
        yield from markdown_lines(["set", *columns], rows, "")


def cell(points: Points, machine: str, size: str, names: Sequence[str]) -> str:
    """Figures of a machine at a size."""
    sets = [name for name in names if {(name, size, machine), (name, size, STRINGS)} <= set(points)]
    pairs = [(points[name, size, machine], points[name, size, STRINGS]) for name in sets]
    if len(pairs) < 2:
        return ""
    gains = np.array([np.mean(np.subtract(own, strings[: len(own)])) for own, strings in pairs])
    error, below = gains.std(ddof=1) / np.sqrt(len(gains)), (gains < BELOW).sum()
    mean = np.mean([np.mean(own) for own, _ in pairs])
    return f"{mean:.1f}; {gains.mean():+.2f} ± {error:.2f}; {gains.min():+.1f}; {below} of {len(gains)}"


@benchmark(
    "meaning",
    "Strings and meaning in one machine",
    "reports/meaning",
    option("--encoder", type=Path, recorded=False, help="folder of the static encoder"),
    option("--vectors", type=Path, recorded=False, help="folder of vectors of another encoder"),
    option("--name", default="MiniLM", help="name of this encoder (default: MiniLM)"),
    option("--others", type=Path, recorded=False, help="file of accuracies of other programs"),
    option("--sets", recorded=False, help="names of sets, separated by commas (default: all)"),
    option("--sizes", recorded=False, default=",".join(SIZES), help="numbers of texts (default: all)"),
    option("--seeds", recorded=False, type=int, default=1, help="number of seeds (default: 1)"),
    report=MeaningReport,
)
def run(options: argparse.Namespace, report: MeaningReport) -> None:
    """Train and test every machine on every set."""
    report.others = options.others
    selected = options.sets.split(",") if options.sets else None
    for folder in (data_folder() / "panel", data_folder() / "panel2"):
        for name in names_of(folder, None):
            for size in options.sizes.split(",") if selected is None or name in selected else ():
                for seed in range(options.seeds):
                    report.row(f"{name}, {size}, {seed}", row, options, folder, name, size, seed)
