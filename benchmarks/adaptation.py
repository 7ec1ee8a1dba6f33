"""Measure `SVC.adapt` and `SVC(scoring="f1_macro")` on text sets with a training and a test part.

python -m benchmarks.adaptation adapt FOLDER NAME...     (prints rows of reports/adapt.md)
python -m benchmarks.adaptation f1_macro FOLDER NAME...  (prints rows of reports/default_study.md)

FOLDER has NAME-train.tsv.xz and NAME-test.tsv.xz, a document a line: label, tab, text.
"""

import lzma
import sys
import time
from pathlib import Path

from sklearn.metrics import accuracy_score, f1_score

from textsvm import SVC
from textsvm.training import adaptation

#: Bounds of the gate that accept any texts.
FORCED = (0.0, float("inf"))


Examples = tuple[list[str], list[str]]


def read(path: Path) -> Examples:
    """Texts and labels of a file."""
    with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [line.rstrip("\n").partition("\t") for line in file]
    return [text for _, _, text in rows], [label for label, _, _ in rows]


def score(model: SVC, texts: list[str], labels: list[str]) -> str:
    """Accuracy and macro-F1 in percent."""
    predicted = model.predict(texts)
    f1 = f1_score(labels, predicted, average="macro", zero_division=0)
    return f"{100 * accuracy_score(labels, predicted):.2f} / {100 * f1:.2f}"


def measure(task: str, train: Examples, test: Examples) -> list[str]:
    """Cells of a row: scores without and with the ability, and the ratio of times or the gate's figure."""
    start = time.perf_counter()
    texts, labels = train
    plain = SVC().fit(texts, labels)
    fitted = time.perf_counter() - start
    bounds, start = adaptation.MARGINS, time.perf_counter()
    if task == "f1_macro":
        model = SVC(scoring="f1_macro").fit(texts, labels)
        ratio = (time.perf_counter() - start) / fitted
        return [score(plain, *test), score(model, *test), f"{ratio:.1f}"]
    adaptation.MARGINS = FORCED
    model = plain.adapt(texts, labels, test[0])
    adaptation.MARGINS = bounds
    ratio = model.adaptation_.margin_ratio
    accepted = bounds[0] <= ratio <= bounds[1]
    chosen = model if accepted else plain
    scores = [score(classifier, *test) for classifier in (plain, model, chosen)]
    seconds = time.perf_counter() - start
    return [f"{ratio:.2f}", "yes" if accepted else "no", *scores, f"{seconds / fitted:.1f}"]


if __name__ == "__main__":
    task, folder, *names = sys.argv[1:]
    for name in names:
        train, test = (read(Path(folder) / f"{name}-{part}.tsv.xz") for part in ("train", "test"))
        print("| " + " | ".join([name, *measure(task, train, test)]) + " |", flush=True)
