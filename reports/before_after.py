"""Times of another checkout and of this one, in turns in one run: for a change that must slow nothing down.

    python reports/before_after.py OTHER_CHECKOUT --device cuda --turns 3

Reuters (environment variable TEXTSVM_DATA), earn or the rest, 7,775 texts, a quarter of them on a CPU: the
first 100 symbols of each, and whole texts. Each figure is the least of the turns' medians. That results are
the same is for `tests/model_bits.py` and the tests to say.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


def median_ms(work: Callable[[], Any], wait: Callable[[], None], repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        wait()
        clock = time.perf_counter()
        kept = work()
        wait()
        times.append(time.perf_counter() - clock)
        del kept
    return 1e3 * float(np.median(times[1:]))


def measured(device_name: str) -> Iterator[tuple[str, Callable[[], Any], int]]:
    """What is timed: (name, work, repeats). Older checkouts have other names for some of it."""
    from textsvm import SVC, EditDistance, GapWeighted, Spectrum
    from textsvm.bench.corpora import paper_tasks
    from textsvm.bench.harness import data_folder
    from textsvm.gram.shared import grams
    from textsvm.runtime.device import select
    from textsvm.solvers.dual import svc
    from textsvm.solvers.problems import Classification
    from textsvm.text.documents import encode

    try:
        from textsvm.gram.base import DenseGram
    except ImportError:
        from textsvm.gram.dense import DenseGram
    try:
        from textsvm.solvers.solve import solve
    except ImportError:
        from textsvm.solvers.problems import solve
    try:
        from textsvm.solvers.chains import solve_chains
    except ImportError:
        from textsvm.solvers.smo import solve as solve_dual
    else:

        def solve_dual(gram: Any, dual: Any) -> Any:
            return solve_chains(gram, [[dual]])

    device, step = select(device_name), 1 if device_name != "cpu" else 4

    def rows(kernel: Any, documents: Any) -> Any:
        return (kernel.rows if hasattr(kernel, "rows") else kernel.against)(documents, device)

    _, task, _ = paper_tasks(data_folder(), None)
    texts, new = [text[:100] for text in task.train[::step]], [text[:100] for text in task.test[::step]]
    short, whole = encode(texts), encode(task.train[::step])
    others = encode(new, short.alphabet)
    y = task.y_train[::step].astype(float)
    kernels = {
        "spectrum 4": Spectrum(4),
        "spectrum 1-5": Spectrum((1, 5)),
        "spectrum 1-5 log idf": Spectrum((1, 5), "log", idf=True),
        "spectrum 3-8 presence": Spectrum((3, 8), "presence"),
        "spectrum 1-5 intersection": Spectrum((1, 5), "intersection"),
        "edit": EditDistance(0.05),
        "gap 5": GapWeighted(5, 0.5),
    }
    made, ones = {}, np.ones((len(short), 1))
    for name, kernel in kernels.items():
        kernel.fit(short)
        prepared = rows(kernel, short)
        made[name] = DenseGram(prepared.gram())
        yield f"Gram, 100 symbols, {name}", prepared.gram, 5
        yield f"decisions, 100 symbols, {name}", lambda prepared=prepared: prepared.decision(others, ones), 5
        if name not in ("gap 5", *(("edit",) if device_name == "cpu" else ())):
            kernel.fit(whole)
            yield f"texts to Gram, whole, {name}", lambda kernel=kernel: rows(kernel, whole).gram(), 3
    for name in ("spectrum 4", "edit", "gap 5"):
        yield f"solver, {name}", lambda gram=made[name]: solve_dual(gram, svc(y, 10.0)), 7
    n, codes = len(y), (y > 0).astype(np.int64)
    folds = [np.flatnonzero(np.arange(n) % 10 != f) for f in range(10)]
    paths = [
        [Classification(f, codes[f], 2, C, np.ones(len(f)), "ovo") for C in (0.1, 1.0, 10.0, 100.0, 1000.0)]
        for f in folds
    ]
    yield "solver, 10 folds x 5 C", lambda: solve(made["spectrum 4"], paths), 3
    some = np.where(y > 0, 0, np.arange(n) * 7919 % 8)
    joint = [
        [Classification(f, some[f], 8, 1.0, np.ones(len(f)), "crammer-singer")]
        for f in [np.arange(n), *folds[:5]]
    ]
    yield "solver, Crammer-Singer, 8 classes", lambda: solve(made["spectrum 4"], joint[:1]), 3
    yield "solver, Crammer-Singer, 5 folds", lambda: solve(made["spectrum 4"], joint[1:]), 3
    grid = [Spectrum((1, p)) for p in (3, 4, 5)] + [EditDistance(gamma) for gamma in (0.01, 0.05)]
    yield "Grams of a grid", lambda: [None for _ in grams(grid, short, device)], 3
    for name in ("spectrum 1-5 log idf", "edit"):
        model = SVC(kernels[name], C=10, device=device_name).fit(texts, codes)
        yield f"fit, 100 symbols, {name}", lambda model=model: model.fit(texts, codes), 3
        yield f"one text, {name}", lambda model=model: model.decision_function(new[:1]), 20


def one_tree(device_name: str) -> dict[str, float]:
    from textsvm.runtime.device import select, synchronize

    warnings.simplefilter("ignore")
    device = select(device_name)
    return {name: median_ms(work, lambda: synchronize(device), n) for name, work, n in measured(device_name)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_tree(options.device)))
        return
    trees = {"before": options.other.resolve(), "after": Path(__file__).resolve().parent.parent}
    runs: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for _ in range(options.turns):
        for name, tree in trees.items():
            command = [sys.executable, __file__, str(tree), "--one", "--device", options.device]
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")]),
            }
            done = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{name}: {done.stderr[-2000:]}")
            runs[name].append(json.loads(done.stdout.splitlines()[-1]))
    lines = ["| what | before, ms | after, ms | after / before |", "|---|---|---|---|"]
    for key in runs["before"][0]:
        before, after = (min(run[key] for run in runs[name]) for name in ("before", "after"))
        lines.append(f"| {key} | {before:.2f} | {after:.2f} | {after / before:.2f} |")
    print("\n".join(lines))
    if options.output is not None:
        options.output.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
