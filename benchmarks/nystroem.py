"""The Nystroem approximation: loss over the number of landmarks, and training time.

Earn against the rest, 100 symbols: how much of the trace m landmarks capture, and accuracy and mean hinge
loss on the test part, for several C, for the best one is not that of the exact machine. First: with all
documents as landmarks decisions are those of the exact machine. `--size N` adds the time of one training on N
documents of sentences drawn anew from the corpus, each from documents of one class.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora import TrainTest, paper_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm import Compute
from textsvm.estimators.svm import SVC
from textsvm.kernels import EditDistance, GapWeighted
from textsvm.kernels.base import Kernel

KERNELS: dict[str, Kernel] = {
    "gap p=4 decay=0.5": GapWeighted(p=4, decay=0.5),
    "edit gamma=0.05": EditDistance(gamma=0.05),
    "edit gamma=0.005": EditDistance(gamma=0.005),
}
LENGTH = 100
#: Sentences that a document of sentences drawn anew has, before it is cut.
SENTENCES = 3


def machine(kernel: Kernel, C: float, landmarks: int | None, device: str) -> SVC:
    """With so many landmarks, or exact."""
    approximate = None if landmarks is None else f"nystrom:{landmarks}"
    return SVC(kernel, C, normalise="none", device=device, compute=Compute(approximate=approximate))


def agree(name: str, task: TrainTest, device: str) -> dict[str, Any]:
    """With all documents as landmarks: the largest difference of decisions from the exact machine's."""
    texts, labels = task.train[:200], task.y_train[:200]
    exact, ours = (
        machine(KERNELS[name], 1.0, landmarks, device).fit(texts, labels) for landmarks in (None, len(texts))
    )
    here = task.test[:200]
    first, second = exact.decision_function(here), ours.decision_function(here)
    far = np.abs(first) > 0.2  # an indefinite kernel loses its negative part
    if not np.array_equal(first[far] > 0, second[far] > 0):
        raise AssertionError(f"{name}: with all documents as landmarks it decides otherwise")
    return {"kernel": name, "landmarks": len(texts), "difference": float(np.abs(first - second).max())}


def judged(name: str, task: TrainTest, landmarks: int | None, C: float, device: str) -> dict[str, Any]:
    """One machine, on the test part."""
    clock = time.perf_counter()
    model = machine(KERNELS[name], C, landmarks, device).fit(task.train, task.y_train)
    seconds = time.perf_counter() - clock
    values = model.decision_function(task.test)
    sign = np.where(task.y_test == model.classes_[1], 1.0, -1.0)
    found = model.approximation_
    return {
        "kernel": name,
        "landmarks": landmarks or "exact",
        "C": C,
        "captured trace": 1.0 if found is None else found.captured,
        "accuracy": float(((values > 0) == (sign > 0)).mean()),
        "hinge loss": float(np.maximum(0, 1 - sign * values).mean()),
        "training, s": seconds,
    }


def resampled(task: TrainTest, n: int, seed: int = 0) -> tuple[list[str], NDArray[np.bool_]]:
    """Documents of sentences drawn anew, each from the training documents of one class."""
    random = np.random.default_rng(seed)
    classes = np.unique(task.y_train)
    pools = [_sentences([task.train[i] for i in np.flatnonzero(task.y_train == one)]) for one in classes]
    label = random.random(n) < (task.y_train == classes[1]).mean()
    draws = random.random((n, SENTENCES))
    texts = []
    for second, draw in zip(label.tolist(), draws.tolist(), strict=True):
        pool = pools[int(second)]
        texts.append(" ".join([pool[int(share * len(pool))] for share in draw])[:LENGTH])
    return texts, label


def _sentences(texts: Sequence[str]) -> list[str]:
    """Pieces of about forty symbols, cut at spaces: the papers' text form has no full stops."""
    return [piece for text in texts for piece in re.findall(r"\S.{20,40}(?:\s|$)", text)] or list(texts)


def timed(name: str, task: TrainTest, n: int, landmarks: int, device: str) -> dict[str, Any]:
    """One training on n documents, from texts."""
    texts, label = resampled(task, n)
    machine(KERNELS[name], 1.0, min(landmarks, 200), device).fit(texts[:400], label[:400])  # compiles
    clock = time.perf_counter()
    model = machine(KERNELS[name], 1.0, landmarks, device).fit(texts, label)
    seconds = time.perf_counter() - clock
    parts = {f"{stage}, s": spent for stage, spent in model.seconds_.items()}
    captured = model.approximation_.captured
    sizes = {"documents": n, "landmarks": landmarks, "captured trace": captured}
    status = model.solutions_[0].status
    return {"kernel": name, **sizes, "training, s": seconds, **parts, "status": status}


@benchmark(
    "nystroem",
    "Nystroem: landmarks, captured trace and held-out loss",
    "reports/nystroem",
    option(
        "--landmarks", type=int, nargs="*", default=[250, 500, 1000, 2000, 4000], help="numbers of landmarks"
    ),
    option("--costs", type=float, nargs="*", default=[0.3, 1.0, 3.0, 10.0], help="values of C"),
    option("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS), recorded=False),
    option("--every", type=int, default=1, help="use every EVERY-th document"),
    option("--size", type=int, help="also time a training on SIZE documents, such as 1000000"),
    option("--of", type=int, default=4096, help="landmarks of that training"),
    device="auto",
    quick="use the bundled sample of newswire",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Train with each number of landmarks and C, and with the exact kernel."""
    if options.quick:
        options.landmarks, options.costs, options.size, options.of = [20, 80], [1.0], 300, 50
    _, task, *_ = paper_tasks(None if options.quick else data_folder(), LENGTH)
    few = slice(None, None, options.every)
    task = TrainTest(task.name, task.train[few], task.y_train[few], task.test[few], task.y_test[few])
    for name in options.kernels:
        report.row(f"{name} equal", agree, name, task, options.device)
        for landmarks in [*(m for m in options.landmarks if m <= len(task.train)), None]:
            for C in options.costs:
                key = f"{name} m={landmarks} C={C:g}"
                report.row(key, judged, name, task, landmarks, C, options.device)
        if options.size:
            key = f"{name} n={options.size}"
            report.row(key, timed, name, task, options.size, options.of, options.device)
