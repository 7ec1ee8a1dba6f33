"""python reports/evaluation.py: the evaluation reports of three corpora, in reports/evaluation/.

Full-length texts, kernels as `textsvm tune` chose them, probabilities by Platt's sigmoid. The corpora are in
the folder that TEXTSVM_DATA names; their texts are left out of the reports, for they have terms of their own.
"""

import sys
import time
from pathlib import Path

from textsvm.bench.harness import data_folder

from benchmarks.corpora import full_tasks
from benchmarks.peers import CHOSEN
from textsvm import SVC, CalibratedSVC
from textsvm.evaluation.judge import judge
from textsvm.reporting.files import write
from textsvm.reporting.report import make_report

POSITIVE = {"Earn vs Acq": "earn", "Earn vs Rest": "earn", "Spam, split 0": "spam"}
folder = Path(__file__).with_name("evaluation")
folder.mkdir(exist_ok=True)
for task in full_tasks(data_folder()):
    kernel, C = CHOSEN[task.name]
    clock = time.perf_counter()
    model = CalibratedSVC(SVC(kernel, C=C)).fit(task.train, task.y_train)
    fitted = time.perf_counter() - clock
    results = judge(model, task.test, task.y_test, POSITIVE[task.name], seconds={"fit": fitted})
    report = make_report(model, results, task.test, [str(i) for i in range(results.n)], task.name, mistakes=0)
    name = task.name.lower().replace(", split 0", "").replace(" ", "_")
    for suffix in ("html", "md", "json"):
        write(report, folder / f"{name}.{suffix}")
    print(f"{task.name}: accuracy {results.accuracy:.4f}, {fitted:.1f} s", file=sys.stderr)
