"""Least times of small fits, decisions and kernel calls of another checkout and of this one, in turns.

python reports/small_fits.py OTHER_CHECKOUT --device cpu,cuda:0 --turns 3

300 and 3,000 random texts of three classes, and 400 vectors: the fixed costs of a call show here, those of
the kernels in before_after.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def least(work: Callable[[], object], repeats: int = 7, warm: int = 2) -> float:
    """Least seconds of some repetitions."""
    times = []
    for number in range(warm + repeats):
        start = time.perf_counter()
        work()
        if number >= warm:
            times.append(time.perf_counter() - start)
    return min(times)


def documents(n: int, length: int) -> tuple[list[str], list[str]]:
    """Texts of random words, rarer words in later classes."""
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(3000)]
    labels = ["xyz"[i % 3] for i in range(n)]
    texts = [
        " ".join(words[int(rng.random() ** (1 + i % 3) * 3000)] for _ in range(length)) for i in range(n)
    ]
    return texts, labels


def measure(devices: list[str]) -> dict[str, float]:
    """Seconds of every case in this process."""
    import numpy as np

    from textsvm import SVC, EditDistance, GapWeighted, Gaussian, Spectrum

    texts, y = documents(300, 40)
    many, labels = documents(3000, 60)
    short = [text[:60] for text in texts]
    X = np.random.default_rng(0).normal(size=(400, 20))
    side = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    seconds = {}
    for device in devices:
        for name, kernel, given in (
            ("spectrum", Spectrum(3), texts),
            ("gap", GapWeighted(3), short),
            ("edit", EditDistance(), short),
        ):
            model = SVC(kernel, device=device)
            seconds[f"{device} {name}: fit, 300 texts"] = least(lambda m=model, g=given: m.fit(g, y))
            seconds[f"{device} {name}: decide 300"] = least(lambda m=model, g=given: m.decision_function(g))
            seconds[f"{device} {name}: k(a, b)"] = least(lambda k=kernel, g=given: k(g[:1], g[1:2]), 15)
        weighted = SVC(Spectrum((1, 4), "log", idf=True), device=device)
        seconds[f"{device} spectrum: fit, 3,000 texts"] = least(lambda m=weighted: m.fit(many, labels), 3, 1)
        if device != "cpu":
            for name, kernel in (("gap", GapWeighted(3)), ("edit", EditDistance())):
                model = SVC(kernel, device=device)
                cut = [text[:80] for text in many]
                seconds[f"{device} {name}: fit, 3,000 texts"] = least(
                    lambda m=model, c=cut: m.fit(c, labels), 3
                )
        fast, gaussian = SVC("fast", device=device), SVC(Gaussian(0.1), device=device)
        seconds[f"{device} fast: fit, 300 texts"] = least(lambda m=fast: m.fit(texts, y), 5)
        seconds[f"{device} gaussian: fit, 400 vectors"] = least(lambda m=gaussian: m.fit(X, side))
    return seconds


def main() -> None:
    """Measure both checkouts in turns, or this process with --here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--here", action="store_true")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.device.split(","))))
        return
    trees = [given.other.resolve(), Path(__file__).resolve().parent.parent]
    best: list[dict[str, float]] = [{}, {}]
    for turn in range(given.turns):
        for number in (0, 1) if turn % 2 else (1, 0):
            tree = trees[number]
            paths = [str(tree), *filter(None, [os.environ.get("PYTHONPATH")])]
            command = [sys.executable, __file__, str(tree), "--device", given.device, "--here"]
            told = subprocess.run(
                command,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                stdout=subprocess.PIPE,
                check=True,
            )
            for case, seconds in json.loads(told.stdout).items():
                best[number][case] = min(seconds, best[number].get(case, seconds))
    print("| case | before, ms | after, ms | after / before |\n|---|---|---|---|")
    for case, after in best[1].items():
        before = best[0][case]
        print(f"| {case} | {before * 1e3:.2f} | {after * 1e3:.2f} | {after / before:.2f} |")


if __name__ == "__main__":
    main()
