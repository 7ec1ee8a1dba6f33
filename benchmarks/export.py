"""Exported models: sizes, loading, speed and agreement with `predict`, beside scikit-learn.

Each model is trained on some texts of a set of the panel and exported. C (gcc -O3) and WebAssembly
(textsvm.mjs in Node) decide test texts on one core; every decision value is compared with
`decision_function`, relative to its size but at least 1. "characters" is Spectrum((1, 5), "log", idf=True)
with the squared hinge loss; its peer is TfidfVectorizer(analyzer="char", ngram_range=(1, 5),
sublinear_tf=True) with LinearSVC. "default" is SVC(). "edit" is SVC(EditDistance()) and "gap" is
SVC(GapWeighted(4)), whose values `predict` computes in float32 (differences up to 1e-5 count as agreement).
Speeds are MB of UTF-8 a second, the best of three runs; `predict` on one thread. Memory is the working memory
for texts of up to 10,000 symbols in C, beside the mapped model file, and the whole process of Node with
WebAssembly, with 40 MB of Node itself and all test texts.

Each symbol of a text begins a string of each length, five for 1 to 5 characters. A string takes a step of a
hash and, unless its beginning is unique in the text, a look-up in a table of the strings of this text, which
stays in the cache next to the core. Strings that are new to the text, 0.7 of all, take three reads of the
model: a bucket, its keys, a row of weights; not those with a shorter part that the model does not know. In C
these reads run ahead, 64 strings at a time. With 12 cycles (2.6 GHz) for a string whose reads find the cache
next to the core, 3 for counting it, and 12 per symbol for decoding, normal form and hashes, the floor is
about 70 cycles per symbol, or 37 MB/s of ASCII; a model in the last cache (about 50 cycles, ten reads at a
time) takes 100, or 25 MB/s, and a model in main memory more.
"""

from __future__ import annotations

import argparse
import shutil
import struct
import subprocess
import tempfile
import time
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.corpora import TrainTest
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.panel import names_of, read_set
from textsvm.apps.export.files import export
from textsvm.apps.export.plain import plain_model
from textsvm.apps.export.small import reduced_model
from textsvm.errors import InputError
from textsvm.estimators.svm import SVC
from textsvm.kernels import EditDistance, GapWeighted, Spectrum

HERE = Path(__file__).parent
MODELS = {
    "characters": lambda: SVC(Spectrum((1, 5), "log", idf=True), loss="squared_hinge", n_jobs=1),
    "default": lambda: SVC(n_jobs=1),
    "edit": lambda: SVC(EditDistance(), n_jobs=1),
    "gap": lambda: SVC(GapWeighted(4), n_jobs=1),
}


def peer() -> Any:
    """The pipeline of scikit-learn with the same features."""
    return make_pipeline(TfidfVectorizer(analyzer="char", ngram_range=(1, 5), sublinear_tf=True), LinearSVC())


def timed(work: Any, *arguments: Any) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    clock = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - clock, result


def run_programs(
    folder: Path, texts: list[str], programs: tuple[str, ...] = ("C", "WebAssembly")
) -> dict[str, tuple[float, float, int, np.ndarray]]:
    """Milliseconds of loading, seconds, bytes of memory and decision values of each program."""
    encoded = [text.encode() for text in texts]
    packed, values = folder / "texts", folder / "values"
    packed.write_bytes(b"".join(struct.pack("<I", len(each)) + each for each in encoded))
    source = [str(HERE / "export_driver.c"), str(folder / "c" / "textsvm.c")]
    include = f"-I{folder / 'c'}"
    subprocess.run(
        ["gcc", "-O3", "-std=c99", include, *source, "-o", str(folder / "driver"), "-lm"], check=True
    )
    node = ["node", str(HERE / "export_driver.mjs")]
    model, module = (str(folder / "js" / name) for name in ("model.bin", "textsvm.mjs"))
    commands = {
        "C": [str(folder / "driver"), model, str(packed), str(values)],
        "WebAssembly": [*node, model, str(packed), str(values), module],
    }
    results = {}
    for name, command in ((name, commands[name]) for name in programs):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        load, seconds, memory = done.stdout.split()
        results[name] = float(load), float(seconds), int(memory), np.fromfile(values)
    return results


def measure(task: TrainTest, kind: str, n_train: int, n_texts: int) -> dict[str, Any]:
    """A row: a set and a model."""
    chosen = np.random.default_rng(0).permutation(len(task.train))[:n_train]
    train, y = [task.train[i] for i in chosen], np.asarray(task.y_train)[chosen]
    texts = list(task.test)[:n_texts]
    model, size = MODELS[kind]().fit(train, y), sum(len(text.encode()) for text in texts) / 1e6
    model.decision_function(texts[:10])
    seconds, expected = timed(model.decision_function, texts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export(model, folder / "c", to="c")
        export(model, folder / "js", to="js")
        file_size = (folder / "js" / "model.bin").stat().st_size / 1e6
        programs = run_programs(folder, texts)
    row: dict[str, Any] = {
        "set": task.name,
        "model": kind,
        "texts": len(texts),
        "MB": size,
        "file MB": file_size,
    }
    worst, wrong = 0.0, 0
    for *_, values in programs.values():
        actual = values.reshape(expected.shape)
        worst = max(worst, float((np.abs(actual - expected) / np.maximum(1, np.abs(expected))).max()))
        rule = model.model_.rule
        wrong += int((rule.predictions(actual) != rule.predictions(expected)).sum())
    assert worst < (1e-5 if kind == "gap" else 1e-9), f"{task.name}: decision values differ by {worst}"
    assert not wrong, f"{task.name}: {wrong} labels differ"
    for program, (load, spent, _, _) in programs.items():
        row |= {f"{program} MB/s": size / spent, f"{program} load ms": load}
    row |= {"predict MB/s": size / seconds, "largest difference": worst, "labels that differ": wrong}
    row |= {f"{program} memory MB": memory / 1e6 for program, (_, _, memory, _) in programs.items()}
    if kind == "characters":
        pipeline = peer().fit(train, y)
        spent = min(timed(pipeline.decision_function, texts)[0] for _ in range(2))
        row |= {"scikit-learn MB/s": size / spent, "C / scikit-learn": spent / programs["C"][1]}
    return row


def measure_sizes(task: TrainTest, sizes: list[str]) -> dict[str, Any]:
    """A row: a default model trained on all training texts, smaller files of it, and accuracy on the test."""
    model = SVC(n_jobs=1).fit(list(task.train), np.asarray(task.y_train))
    plain, truth = plain_model(model), np.asarray(task.y_test)
    row: dict[str, Any] = {"set": task.name, "classes": len(model.classes_), "machines": plain.n_machines}
    row["accuracy"] = 100 * float((model.predict(list(task.test)) == truth).mean())
    for size in sizes:
        seconds, reduction = timed(reduced_model, model, plain, size)
        with tempfile.TemporaryDirectory() as name:
            values = decide_in_c(Path(name), reduction.content, list(task.test))
        scores = values.reshape(len(truth), -1)
        labels = model.model_.rule.predictions(scores[:, 0] if scores.shape[1] == 1 else scores)
        accuracy = 100 * float((labels == truth).mean())
        row |= {f"{size} bytes": len(reduction.content), f"{size} strings": reduction.n_strings[1]}
        row |= {f"{size} accuracy": accuracy, f"{size} change": accuracy - row["accuracy"]}
        row |= {f"{size} seconds": seconds}
    return row


def decide_in_c(folder: Path, content: bytes, texts: list[str]) -> np.ndarray:
    """Decision values of a model file."""
    names = ["textsvm.c", "textsvm.h"]
    (folder / "c").mkdir()
    (folder / "js").mkdir()
    for name in names:
        (folder / "c" / name).write_bytes((files("textsvm.apps.export") / name).read_bytes())
    (folder / "js" / "model.bin").write_bytes(content)
    return run_programs(folder, texts, ("C",))["C"][3]


@benchmark(
    "export_sizes",
    "Exported models of limited size",
    "reports/export_sizes",
    option("--sets", recorded=False, help="sets with commas in between (default: all of the panel)"),
    option("--sizes", default="500kB,2MB", help="largest sizes of the model file"),
    note="The default, SVC(), is trained on all training texts of a set and exported with each largest size; "
    "strings are chosen by its support vectors. Accuracy on the test texts in points, decided by C, and its "
    "change against the whole model.",
)
def run_sizes(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Export models of the panel in limited sizes."""
    if not shutil.which("gcc"):
        raise InputError("this benchmark needs gcc")
    folder = data_folder() / "panel"
    for name in names_of(folder, None):
        if not options.sets or name in options.sets.split(","):
            report.row(name, measure_sizes, read_set(folder, name), options.sizes.split(","))


def measure_onnx(task: TrainTest, n_train: int, n_texts: int) -> dict[str, Any]:
    """A row of the default model in onnxruntime on one thread, in batches of texts of similar length."""
    import onnxruntime

    train, y = task.train[:n_train], np.asarray(task.y_train)[:n_train]
    model, texts = SVC(n_jobs=1).fit(train, y), sorted(list(task.test)[:n_texts], key=len)
    expected = model.decision_function(texts).reshape(len(texts), -1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as name:
        [path] = export(model, Path(name) / "model.onnx")
        file_size = path.stat().st_size / 1e6
        load, session = timed(onnxruntime.InferenceSession, str(path), options)
    batches = [{"texts": np.array(texts[first : first + 64], object)} for first in range(0, len(texts), 64)]
    seconds, parts = timed(lambda: [session.run(["label", "decision"], batch) for batch in batches])
    labels, actual = (np.concatenate(each) for each in zip(*parts, strict=True))
    worst = float((np.abs(actual - expected) / np.maximum(1, np.abs(expected))).max())
    wrong = int((labels != model.predict(texts)).sum())
    assert worst < 1e-9, f"{task.name}: decision values differ by {worst}"
    assert not wrong, f"{task.name}: {wrong} labels differ"
    size = sum(len(text.encode()) for text in texts) / 1e6
    return {
        "set": task.name, "texts": len(texts), "MB": size, "classes": len(model.classes_),
        "file MB": file_size, "load s": load,
        "texts/s": len(texts) / seconds, "MB/s": size / seconds, "largest difference": worst,
        "labels that differ": wrong,
    }  # fmt: skip


@benchmark(
    "export_onnx",
    "Exported models in ONNX",
    "reports/export_onnx",
    option("--sets", recorded=False, help="sets with commas in between (default: all)"),
    option("--train", type=int, default=500, help="training texts"),
    option("--texts", type=int, default=500, help="test texts of a set"),
    note=(measure_onnx.__doc__ or "")
    + " Every decision value is compared with `decision_function`, relative to its size but at least 1.",
)
def run_onnx(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Export models of the panel to ONNX and compare onnxruntime."""
    if find_spec("onnxruntime") is None:
        raise InputError("this benchmark needs onnxruntime")
    for folder in (data_folder() / "panel", data_folder() / "panel2"):
        for name in names_of(folder, None):
            if not options.sets or name in options.sets.split(","):
                task = read_set(folder, name)
                report.row(name, measure_onnx, task, options.train, options.texts)


@benchmark(
    "export",
    "Exported models in C and WebAssembly",
    "reports/export",
    option("--sets", recorded=False, help="sets with commas in between (default: all)"),
    option("--train", type=int, default=1500, help="training texts"),
    option("--texts", type=int, default=2000, help="test texts of a set"),
    option("--models", default="characters,default", recorded=False, help="models"),
    note=__doc__ or "",
)
def run(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Export models of the panel and compare all programs."""
    if not (shutil.which("gcc") and shutil.which("node")):
        raise InputError("this benchmark needs gcc and node")
    for folder in (data_folder() / "panel", data_folder() / "panel2"):
        for name in names_of(folder, None):
            if options.sets and name not in options.sets.split(","):
                continue
            task = read_set(folder, name)
            for kind in options.models.split(","):
                report.row(f"{name} {kind}", measure, task, kind, options.train, options.texts)
