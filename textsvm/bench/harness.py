"""What every benchmark shares: the machine, interleaved timing, and a report of it all."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import textsvm
from textsvm.errors import InputError
from textsvm.runtime import device as devices
from textsvm.runtime.device import select
from textsvm.runtime.files import replacing
from textsvm.runtime.parallel import n_threads

_LIBRARIES = (
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "rapidfuzz",
    "strkernels",
    "cleanlab",
    "cupy-cuda13x",
)


def environment() -> dict[str, Any]:
    """Machine, versions and commit."""
    versions = {"textsvm": textsvm.__version__}  # an installed one may be another
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "cpu": _cpu_name(),
        "threads": n_threads(),
        "device": select("auto").description,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "commit": _commit(),
    }


def paired(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int = 3) -> dict[str, float]:
    """Time two functions in turns, after one untimed call of ours; medians and their ratio.

    Returns
    -------
    dict with ours, theirs (seconds) and ratio (theirs / ours: above 1 we are faster)
    """
    ours()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for function, record in zip((ours, theirs), times, strict=True):
            clock = time.perf_counter()
            function()
            record.append(time.perf_counter() - clock)
    mine, other = (float(np.median(record)) for record in times)
    return {"ours": mine, "theirs": other, "ratio": other / mine}


def repeated(function: Callable[[], Any], repeats: int = 5) -> dict[str, float]:
    """Wall time of a function after one untimed call: median and quartiles, seconds."""
    function()
    times = []
    for _ in range(repeats):
        clock = time.perf_counter()
        function()
        times.append(time.perf_counter() - clock)
    low, middle, high = np.quantile(times, [0.25, 0.5, 0.75])
    return {"median": float(middle), "lower quartile": float(low), "upper quartile": float(high)}


class Rows:
    """Rows of a report, written as they are made: a run that was stopped goes on where it stopped.

    Parameters
    ----------
    path : Path
        Of the report, without suffix.
    title, command : str
        Rows found in the JSON file there are kept if they are of this command and commit.
    note : str
        What a reader of the table has to know.
    stays : bool
        Keep rows of other commits too; each says its own.
    """

    def __init__(self, path: Path, title: str, command: str, note: str = "", stays: bool = False) -> None:
        self.path, self.title, self.command, self.note = path, title, command, note
        self.rows: dict[str, dict[str, Any]] = {}
        try:
            found = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            if found["command"] == command and (stays or found["commit"] == _commit() != "unknown"):
                self.rows = {row["key"]: row for row in found["rows"]}
        except (OSError, ValueError, KeyError, TypeError):
            pass

    def row(self, key: str, make: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
        """The row of this key, made by ``make(*given)`` if it is not there yet."""
        if key not in self.rows:
            self.rows[key] = {"key": key, **make(*given)}
            self.write()
        return self.rows[key]

    def put(self, key: str, row: dict[str, Any]) -> dict[str, Any]:
        """Write a row of this key and this commit, whatever was there."""
        self.rows[key] = {"key": key, **row, "commit": _commit()}
        self.write()
        return self.rows[key]

    def write(self) -> None:
        """Write what there is."""
        rows = list(self.rows.values())
        header = tuple(dict.fromkeys(name for row in rows for name in row if name != "key"))
        blank = dict.fromkeys(header, "")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_report(self.path, self.title, self.command, header, [blank | row for row in rows], self.note)


def write_report(
    path: Path, title: str, command: str, header: tuple[str, ...], rows: list[dict[str, Any]], note: str = ""
) -> None:
    """A Markdown table with the command and the environment, and the same as JSON beside it."""
    about = environment()
    lines = [f"# {title}", "", f"    {command}", "", describe_environment(about), ""]
    lines += [note, ""] * bool(note)
    lines += ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(_cell(row[name]) for name in header) + " |" for row in rows]
    for target, text in (
        (path.with_suffix(".md"), "\n".join(lines) + "\n"),
        (path.with_suffix(".json"), json.dumps({"command": command, **about, "rows": rows}, indent=1) + "\n"),
    ):
        with replacing(target) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")


def data_folder() -> Path:
    """The folder of the real corpora: TEXTSVM_DATA, else ../shared/data beside the checkout.

    Raises
    ------
    InputError
        If it is not there.
    """
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("TEXTSVM_DATA", beside))
    if not folder.is_dir():
        raise InputError(
            f"no corpora at {folder}; set TEXTSVM_DATA (corpora/README.md says where they come from)"
        )
    return folder


def describe_environment(about: dict[str, Any]) -> str:
    """Machine, versions and commit in a sentence."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return (
        f"{about['cpu']}, {about['threads']} threads; {about['device']}; {about['system']}, "
        f"Python {about['python']}, {versions}; commit {about['commit']}."
    )


def free_all() -> None:
    """Give pooled device memory back, so that the peak is that of what comes next."""
    if "cupy" in sys.modules:
        devices.cupy().get_default_memory_pool().free_all_blocks()


def peak_memory() -> int:
    """Bytes: what the pool on the card has taken, or the largest resident set of this process."""
    if "cupy" in sys.modules:
        return int(devices.cupy().get_default_memory_pool().total_bytes())
    return largest_resident()


def largest_resident() -> int:
    """Bytes: the largest resident set of this process; 0 on Windows, which does not say."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _commit() -> str:
    """What TEXTSVM_COMMIT says (for a copy without its history), else that of the checkout."""
    told = os.environ.get("TEXTSVM_COMMIT")
    if told:
        return told
    folder = Path(__file__).resolve().parent
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "unknown"
    return answer.stdout.strip() or "unknown"
