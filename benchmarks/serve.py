"""`textsvm serve` on this computer: texts a second and latencies, of single texts and of batches.

The client is wrk (Debian: `apt-get install wrk`), a process of its own on the same cores. Texts are those of
the sample of short messages (85 characters on average), each request the next of them. Before a time is
taken, the server must answer all texts, alone and in a batch, exactly as the model of the file predicts them.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness import BenchmarkReport, benchmark, option
from textsvm import SVC, save
from textsvm.errors import InputError
from textsvm.evaluation import judge
from textsvm.model.file import load
from textsvm.readers import sample

KERNELS = {"default": "auto", "spectrum:3": "spectrum:3"}
BATCH, BATCH_CLIENTS, WARM = 256, 8, 2
NOTE = (
    "Keep-alive connections, each waiting for its answer before the next request. The client wrk shares the "
    "cores; CPU: processor time of the client, and of the server with its process that predicts, in "
    "cores. All answers were first compared with the predictions of the model: equal."
)
LUA = """
local bodies, i = {{}}, 0
for line in io.lines({path!r}) do bodies[#bodies + 1] = line end
request = function()
  i = i % #bodies + 1
  return wrk.format("POST", "/predict", {{["Content-Type"] = "application/json"}}, bodies[i])
end
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("FIGURES %d %d %f %f %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


@contextmanager
def running(model: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server of a model, and its port."""
    command = [sys.executable, "-m", "textsvm", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next((line for line in process.stderr if line.startswith("answering at ")), "")
            if not line:
                raise InputError("the server did not start")
            yield process, int(line.rpartition(":")[2])
        finally:
            process.terminate()


def check(port: int, model: Path, texts: list[str]) -> None:
    """InputError unless the server answers as the model predicts."""
    predictions = judge.predict(load(model), texts, [], None, None)
    expected = list(judge.rows_of(*predictions, None))
    connection = HTTPConnection("127.0.0.1", port)

    def ask(request: dict[str, Any]) -> Any:
        connection.request("POST", "/predict", json.dumps(request))
        return json.loads(connection.getresponse().read())

    answers = ask({"texts": texts})["predictions"]
    if answers != expected or [ask({"text": text}) for text in texts] != expected:
        raise InputError("the server does not answer as the model predicts")
    connection.close()


def cpu_seconds(process: int) -> float:
    """Processor time of a process and of its children, running ones included."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
    stats = [
        Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        for each in (process, *children)
    ]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / 100


def measure(
    server: tuple[subprocess.Popen[str], int], bodies: Path, clients: int, seconds: int, batch: int
) -> dict[str, Any]:
    """Figures of wrk with these bodies of requests."""
    process, port = server
    script = bodies.with_suffix(".lua")
    script.write_text(LUA.format(path=str(bodies)), "utf-8", newline="\n")
    wrk = ["wrk", "-t1", f"-c{clients}", "-s", str(script), f"http://127.0.0.1:{port}/predict"]
    subprocess.run([*wrk, f"-d{WARM}"], check=True, capture_output=True)
    before, used = cpu_seconds(process.pid), resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run([*wrk, f"-d{seconds}"], check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = re.search(r"FIGURES (\d+) (\d+) (\S+) (\S+) (\d+)", said)
    if figures is None or int(figures[5]):
        raise InputError(f"wrk saw errors: {said}")
    duration = int(figures[2]) / 1e6
    client = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return {
        "clients": clients,
        "texts per request": batch,
        "texts/s": round(batch * int(figures[1]) / duration),
        "p50 ms": round(float(figures[3]) / 1000, 1),
        "p99 ms": round(float(figures[4]) / 1000, 1),
        "CPU server": round((cpu_seconds(process.pid) - before) / duration, 2),
        "CPU client": round(client / duration, 2),
    }


@benchmark(
    "serve",
    "textsvm serve: texts a second and latencies",
    "reports/serve",
    option("--seconds", type=int, default=10, help="duration of each measurement"),
    option("--clients", type=int, default=64, help="connections of single texts"),
    quick="a second for each measurement",
    note=NOTE,
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Measure a default model and a small one."""
    if shutil.which("wrk") is None:
        raise InputError("this benchmark needs wrk (Debian: apt-get install wrk)")
    with open(sample("messages"), encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    texts = [row["text"] for row in rows]
    seconds = 1 if options.quick else options.seconds
    with TemporaryDirectory() as folder:
        single, batches = Path(folder) / "single", Path(folder) / "batches"
        single.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8", newline="\n")
        parts = [texts[first : first + BATCH] for first in range(0, len(texts) - BATCH, BATCH)]
        batches.write_text(
            "".join(json.dumps({"texts": part}) + "\n" for part in parts), "utf-8", newline="\n"
        )
        for name, kernel in KERNELS.items():
            model = Path(folder) / "model.textsvm"
            save(SVC(kernel).fit(texts, [row["label"] for row in rows]), model)
            with running(model) as server:
                check(server[1], model, texts)
                for bodies, clients, batch in ((single, options.clients, 1), (batches, BATCH_CLIENTS, BATCH)):
                    report.row(
                        f"{name} {batch}",
                        lambda *given, name=name: {"kernel": name, **measure(*given)},
                        server, bodies, clients, seconds, batch,
                    )  # fmt: skip
