"""Essay scores: ASAP-AES, eight prompts, five published folds, quadratic weighted kappa.

Intersection spectrum kernels with epsilon-SVR, as Cozma, Butnaru and Ionescu 2018. Protocol (Taghipour and Ng
2016): every fold has training, dev and test essays; a machine learns from the training essays alone, and the
setting of each prompt and fold is the one with the best kappa on its dev essays. Texts as they are, scores
scaled to [0, 1] over what raters may give.

Regression draws predictions to the mean. Kappa is 2 cov(y, z) / (var y + var z + (mean y - mean z)^2); for a
given correlation the best var z is var y. So predictions z are moved and stretched,

    mean(y_train) + (z - mean(z_dev)) sd(y_train) / sd(z_dev),

which takes no label beyond the training part's, then rounded; the kappa without that stands in the table too.

C is that of a kernel whose mean k(s, s) is 1: without normalisation it is divided by the mean of the
diagonal.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from benchmarks.corpora import Prompt, essay_prompts
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from textsvm.gram.build import grams
from textsvm.kernels import Spectrum
from textsvm.kernels.spelling import spell
from textsvm.model.settings import RegressionSettings
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device, select
from textsvm.training.fold_grams import fold_scores, solve_folds
from textsvm.training.targets import Target

PUBLISHED = (0.836, 0.724, 0.677, 0.821, 0.830, 0.828, 0.801, 0.726)
RANGES = ((1, 5), (1, 7), (1, 15))
KERNELS = [Spectrum(p, "intersection", normalised=normalised) for normalised in (True, False) for p in RANGES]
C = (0.1, 0.3, 1.0)
EPSILON = (0.02, 0.05)
#: What Cozma et al. use: all lengths to 15, normalised.
PAPER = spell(Spectrum((1, 15), "intersection"))
Grades = NDArray[np.int64]


def kappa(truth: Grades, predicted: Grades, low: int, high: int) -> float:
    """Quadratic weighted kappa over all grades that can be given."""
    return float(cohen_kappa_score(truth, predicted, weights="quadratic", labels=np.arange(low, high + 1)))


def stretched(
    values: NDArray[np.float64], known: NDArray[np.float64], train: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`values`, moved and stretched so that `known` gets the mean and the deviation of `train`."""
    return train.mean() + (values - known.mean()) * train.std() / max(known.std(), 1e-9)


def grades(values: NDArray[np.float64], prompt: Prompt) -> Grades:
    """Scores in [0, 1] -> what a rater would write."""
    scaled = prompt.low + np.asarray(values) * (prompt.high - prompt.low)
    return np.clip(np.rint(scaled), prompt.low, prompt.high).astype(np.int64)


def kappas(
    prompt: Prompt, fold: int, values: NDArray[np.float64], target: NDArray[np.float64]
) -> dict[str, float]:
    """Of predictions for the dev and then the test essays of a fold, with and without stretching."""
    train, dev, test = prompt.folds[fold]
    on_dev, on_test = values[: len(dev)], values[len(dev) :]
    found = {}
    for part, rows, own in (("dev", dev, on_dev), ("test", test, on_test)):
        truth = prompt.scores[rows]
        moved = stretched(own, on_dev, target[train])
        found[part] = kappa(truth, grades(moved, prompt), prompt.low, prompt.high)
        found[part + " as they come"] = kappa(truth, grades(own, prompt), prompt.low, prompt.high)
    return found


def settings_on_folds(prompt: Prompt, device: Device) -> list[dict[str, Any]]:
    """Every kernel, C and epsilon on every fold; one Gram a kernel serves all of them."""
    target = (prompt.scores - prompt.low) / (prompt.high - prompt.low)
    folds = [(train, np.concatenate([dev, test])) for train, dev, test in prompt.folds]
    plain = RegressionSettings(normalise="none")
    found = []
    with plain.at_work(device):
        documents = plain.source.encode(prompt.texts)
        for number, gram in grams(KERNELS, documents, device):
            scale = float(gram.diag().mean())
            points = [(cost, epsilon) for epsilon in EPSILON for cost in C]
            settings = [
                RegressionSettings(KERNELS[number], cost / scale, epsilon=epsilon) for cost, epsilon in points
            ]
            all_scores = Target(target, None)
            machines = solve_folds(settings, gram, all_scores, folds, None)
            values = fold_scores(settings, gram, all_scores, folds, machines)
            devices.synchronize(device)
            for (cost, epsilon), of_model in zip(points, values, strict=True):
                found += [
                    {
                        "kernel": spell(KERNELS[number]), "C": cost, "epsilon": epsilon, "fold": fold,
                        **kappas(prompt, fold, one, target),
                    }
                    for fold, one in enumerate(of_model)
                ]  # fmt: skip
    return found


def choose(found: list[dict[str, Any]], by: str = "dev") -> list[dict[str, Any]]:
    """The setting of each fold with the best kappa on its dev essays."""
    folds = sorted({row["fold"] for row in found})
    return [max((row for row in found if row["fold"] == fold), key=lambda row: row[by]) for fold in folds]


def of_prompt(prompt: Prompt, device: Device) -> dict[str, Any]:
    """A row of the report."""
    clock = time.perf_counter()
    found = settings_on_folds(prompt, device)
    seconds = time.perf_counter() - clock
    best = choose(found)
    of_paper = choose([row for row in found if row["kernel"] == PAPER])
    plain = choose(found, "dev as they come")

    def mean(rows: list[dict[str, Any]], name: str = "test") -> float:
        return float(np.mean([row[name] for row in rows]))

    return {
        "prompt": prompt.number,
        "essays": len(prompt.texts),
        "QWK": mean(best),
        "SD over folds": float(np.std([row["test"] for row in best], ddof=1)),
        "on dev": mean(best, "dev"),
        "spectrum 1-15 alone": mean(of_paper),
        "without stretching": mean(plain, "test as they come"),
        "1-15 without stretching": mean(
            choose([row for row in found if row["kernel"] == PAPER], "dev as they come"), "test as they come"
        ),
        "Cozma et al.": PUBLISHED[prompt.number - 1],
        "chosen": "; ".join(f"{row['kernel']}, C={row['C']:g}, epsilon={row['epsilon']:g}" for row in best),
        "settings x folds": len(found),
        "s": seconds,
    }


@benchmark(
    "essays",
    "Essay scores: ASAP-AES, quadratic weighted kappa",
    "reports/essays",
    option(
        "--prompts", type=int, nargs="*", default=list(range(1, 9)), recorded=False, help="prompt numbers"
    ),
    device="auto",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Predict the scores of each prompt with an intersection spectrum kernel."""
    for prompt in essay_prompts(data_folder()):
        if prompt.number in options.prompts:
            report.row(f"prompt {prompt.number}", of_prompt, prompt, select(options.device))
    prompts = [row for key, row in report.rows.items() if key.startswith("prompt")]
    averaged = [name for name in prompts[0] if isinstance(prompts[0][name], float) and name != "s"]
    report.rows.pop("mean", None)
    means = {name: float(np.mean([row[name] for row in prompts])) for name in averaged}
    total = {name: sum(row[name] for row in prompts) for name in ("essays", "s")} | {"prompt": "mean"}
    report.row("mean", dict, total | means)
