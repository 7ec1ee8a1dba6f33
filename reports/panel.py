"""Run `python -m benchmarks panel` on several sets at a time, and write reports/panel.md, .json and .svg.

    PYTHONPATH=. python reports/panel.py [--panel FOLDER] [--sets NAMES] [-o PATH] [--cores 2]

Each set is measured by a process of its own on `--cores` cores of this machine, the largest sets first. Sets
of SKIP_TUNED are measured without the tuned baseline, which would take a quarter of an hour on them. The
checkout must have no changes, so that the report names the commit of its code; TEXTSVM_COMMIT names it for a
copy without history.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from panel_picture import draw

from benchmarks.harness import data_folder
from benchmarks.panel import PanelReport, names_of

SKIP_TUNED = {"c50"}
TITLE = "The default and two scikit-learn baselines on {n} sets that it was chosen on"
NOTE = """`auto` is `SVC()`, `fast` is `SVC("fast")`. The baselines are scikit-learn's, in the tables by short names:

- *characters*: TF-IDF characters 1-5 + LinearSVC, C = 1;
- *characters + words*: TF-IDF characters 1-5 and words 1-2 + LinearSVC, C tuned by cross-validation.

Each set is measured by a process of its own on {cores} of the {all} cores of this machine. An empty cell was not run. Time is
seconds of the machine / seconds of the baseline, median over the sets. The defaults were chosen on these sets
and 61 others: [default_study.md](default_study.md). [default_study.md](default_study.md) describes the experiments
behind the default, [gpu/panel.md](gpu/panel.md) has the times on a GPU.

![Points of accuracy that SVC() is ahead of each baseline](panel.svg)
"""  # noqa: E501 (Markdown)


def measure(name: str, folder: Path, output: Path, free: queue.Queue[list[int]]) -> dict[str, object]:
    """Rows of a set, measured on the next free cores."""
    cores = free.get()
    os.sched_setaffinity(0, cores)  # of this thread; the process inherits it
    command = [sys.executable, "-m", "benchmarks", "panel", "--device", "cpu"]
    command += ["--panel", folder, "--sets", name, "-o", output / name]
    environment = {**os.environ, **dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"), str(len(cores)))}
    clock = time.perf_counter()
    try:
        subprocess.run(
            [str(word) for word in command] + ["--skip-tuned"] * (name in SKIP_TUNED),
            env=environment,
            check=True,
        )
    finally:
        free.put(cores)
    print(f"{name}: {time.perf_counter() - clock:.0f} s", file=sys.stderr)
    return json.loads((output / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    """Measure all sets, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panel", type=Path, help="folder of the sets (default: TEXTSVM_DATA/panel)")
    parser.add_argument("--sets", help="names of sets, separated by commas (default: all)")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_suffix(""))
    parser.add_argument("--cores", type=int, default=2, help="cores of each set")
    options = parser.parse_args()
    folder = options.panel or data_folder() / "panel"
    names = names_of(folder, options.sets)
    size = {name: (folder / f"{name}-train.tsv.xz").stat().st_size for name in names}
    order = sorted(names, key=size.__getitem__, reverse=True)
    usable = sorted(os.sched_getaffinity(0))
    free: queue.Queue[list[int]] = queue.Queue()
    for k in range(max(1, len(usable) // options.cores)):
        free.put(usable[k * options.cores : (k + 1) * options.cores])
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(free.qsize()) as pool:
        # The first set fills the cache of compiled functions.
        results = [pool.submit(measure, order.pop(), folder, Path(place), free).result()]
        tasks = [pool.submit(measure, name, folder, Path(place), free) for name in order]
        try:
            results += [task.result() for task in as_completed(tasks)]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    note = NOTE.format(cores=options.cores, all=len(usable))
    title = TITLE.format(n=len(names))
    report = PanelReport(options.output, title, "python reports/panel.py", note)
    rows = [row for result in results for row in result["rows"]]
    report.rows = {row["key"]: row for row in sorted(rows, key=lambda row: row["set"])}
    report.write()
    draw(options.output)


if __name__ == "__main__":
    main()
