"""Runner, timing, environment and report shared by all benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from textsvm.arrays import Json
from textsvm.errors import InputError
from textsvm.runtime.device import select
from textsvm.runtime.files import replacing
from textsvm.runtime.parallel import n_threads
from textsvm.version import __version__

_LIBRARIES = (
    *("numpy", "scipy", "numba", "scikit-learn", "rapidfuzz", "strkernels", "cleanlab", "lenlp"),
    "cupy-cuda13x",
)

#: Command of a benchmark in the help and in reports, without the name of the benchmark.
PROG = "python -m benchmarks"


def environment() -> Json:
    """Machine, versions and commit."""
    versions = {"textsvm": __version__}  # the metadata of an installed version may differ
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


def paired(ours: Callable[[], object], theirs: Callable[[], object], repeats: int = 3) -> dict[str, float]:
    """Time two functions in turns, after an untimed call of ours.

    Returns the medians "ours" and "theirs" in seconds, and their "ratio" theirs / ours.
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


class BenchmarkReport:
    """Rows of a report. The files are rewritten after each row, so a stopped run continues where it stopped.

    Parameters
    ----------
    path : Path
        Path of the report without suffix; the files are .md and .json.
    title, command : str
        Rows of an existing JSON file are kept if its command and commit are the same.
    note : str
        Paragraph above the table.
    keep_commits : bool
        Keep rows of other commits too; each row has a column with its commit.
    """

    def __init__(
        self, path: Path, title: str, command: str, note: str = "", keep_commits: bool = False
    ) -> None:
        self.path, self.title, self.command, self.note = path, title, command, note
        self.rows: dict[str, Json] = {}
        try:
            earlier = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            if earlier["command"] == command and (
                keep_commits or earlier["commit"] == _commit() != "unknown"
            ):
                self.rows = {row["key"]: row for row in earlier["rows"]}
        except (OSError, ValueError, KeyError, TypeError):
            pass

    def row(self, key: str, make: Callable[..., Json], *arguments: object) -> Json:
        """Return the row of this key; if it is missing, compute ``make(*arguments)`` and write the files."""
        if key not in self.rows:
            self.rows[key] = {"key": key, **make(*arguments)}
            self.write()
        return self.rows[key]

    def put(self, key: str, row: Json) -> Json:
        """Add or replace a row, mark it with the current commit and write the files."""
        self.rows[key] = {"key": key, **row, "commit": _commit()}
        self.write()
        return self.rows[key]

    def write(self) -> None:
        """Write the Markdown file (title, command, environment, table) and the JSON file."""
        rows = list(self.rows.values())
        header = tuple(dict.fromkeys(name for row in rows for name in row if name != "key"))
        table = markdown_lines(header, ([row.get(name, "") for name in header] for row in rows), ".4g")
        self.write_files([self.note, ""] * bool(self.note) + table, {"rows": rows})

    def write_files(self, lines: list[str], content: Json) -> None:
        """Write both files: title, command and environment, then lines (Markdown) or content (JSON)."""
        about = environment()
        text = [f"# {self.title}", "", f"    {self.command}", "", describe_environment(about), "", *lines]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for suffix, content_text in (
            (".md", "\n".join(text)),
            (".json", json.dumps({"command": self.command, **about, **content}, indent=1)),
        ):
            with replacing(self.path.with_suffix(suffix)) as temporary:
                temporary.write_text(content_text + "\n", encoding="utf-8", newline="\n")


def data_folder() -> Path:
    """Folder of the corpora: TEXTSVM_DATA, or ../shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("TEXTSVM_DATA", beside))
    if not folder.is_dir():
        raise InputError(f"no corpora at {folder}; set TEXTSVM_DATA to the folder of the public corpora")
    return folder


def describe_environment(about: Json) -> str:
    """Machine, versions and commit in a sentence."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return (
        f"{about['cpu']}, {about['threads']} threads; {about['device']}; {about['system']}, "
        f"Python {about['python']}, {versions}; commit {about['commit']}."
    )


#: Function of a benchmark, called with its options and its report.
Runner = Callable[..., list[Json] | None]


@dataclass(frozen=True)
class BenchmarkOption:
    """A command line option: arguments of `argparse.ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    settings: Json
    #: Part of the command in the report. An option that only selects rows is not, so that runs with different
    #: selections add to one report.
    recorded: bool = True


def option(*names: str, recorded: bool = True, **settings: Any) -> BenchmarkOption:
    """Declare an option of a benchmark."""
    return BenchmarkOption(names, settings, recorded)


@dataclass(frozen=True)
class Benchmark:
    """A registered benchmark."""

    name: str  #: Name on the command line
    title: str  #: Title of the report and in the list of benchmarks
    output: str  #: Default path of the report without suffix; may contain ``{option}``
    run: Runner
    options: tuple[BenchmarkOption, ...]  #: Options in addition to -o, --device, --repeats and --quick
    #: Default of --device. None: the benchmark has no such option; "gpu": no option, and it needs a GPU.
    device: str | None = None
    gpu_output: str = ""  #: Default path on a GPU, if it differs
    repeats: int | None = None  #: Default of --repeats; None: no such option
    quick: str = ""  #: Help of --quick; empty: no such option
    #: Paragraph above the table, or a module's docstring, from which the first paragraph is dropped.
    note: str = ""
    report: type[BenchmarkReport] = BenchmarkReport

    def parser(self) -> argparse.ArgumentParser:
        """Parser of the shared and the own options."""
        description = f"{self.run.__doc__} {sys.modules[self.run.__module__].__doc__}"
        parser = argparse.ArgumentParser(f"{PROG} {self.name}", description=description)
        output, repeats = f"report without suffix (default: {self.output})", self.repeats
        parser.add_argument("-o", "--output", type=Path, help=output)
        if self.device not in (None, "gpu"):
            parser.add_argument("--device", default=self.device, help=f"device (default: {self.device})")
        if repeats is not None:
            timed = f"timed runs (default: {repeats})"
            parser.add_argument("--repeats", type=int, default=repeats, help=timed)
        if self.quick:
            parser.add_argument("--quick", action="store_true", help=self.quick)
        for option_ in self.options:
            parser.add_argument(*option_.names, **option_.settings)
        return parser

    def command(self, parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
        """Command of the report: the device, and options that differ from their defaults."""
        unrecorded = {option_.names for option_ in self.options if not option_.recorded}
        words = [PROG, self.name]
        for action in parser._actions:
            value = vars(options).get(action.dest)
            if action.dest in ("help", "output") or tuple(action.option_strings) in unrecorded:
                continue
            if action.dest == "device" or value != action.default:
                values = value if isinstance(value, list) else [] if value is True else [value]
                words += [action.option_strings[0], *(shlex.quote(str(value_)) for value_ in values)]
        return " ".join(words)


#: Benchmarks of the modules imported so far.
BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(
    name: str, title: str, output: str, *options: BenchmarkOption, **settings: Any
) -> Callable[[Runner], Runner]:
    """Register a function ``run(options, report)`` as a benchmark.

    The function adds rows to the report, or returns the list of all rows. `settings` are the other attributes
    of `Benchmark`.
    """

    def register(run: Runner) -> Runner:
        BENCHMARKS[name] = Benchmark(name, title, output, run, options, **settings)
        return run

    return register


def list_benchmarks() -> dict[str, tuple[str, str]]:
    """Module and title of each benchmark by name; imports none of the modules."""
    pattern = re.compile(r'^@benchmark\(\s*"(\w+)",\s*"([^"]+)"', re.MULTILINE)
    return {
        name: (path.stem, title)
        for path in sorted(Path(__file__).parent.glob("*.py"))
        for name, title in pattern.findall(path.read_text(encoding="utf-8"))
    }


def run_benchmark(name: str, arguments: Sequence[str]) -> None:
    """Parse the options of a benchmark, run it and write its report."""
    import_module(f"benchmarks.{list_benchmarks()[name][0]}")
    entry = BENCHMARKS[name]
    parser = entry.parser()
    options = parser.parse_args(arguments)
    command = entry.command(parser, options)
    device = "cuda" if entry.device == "gpu" else vars(options).get("device", "cpu")
    on_gpu = select(device).kind == "cuda"
    default = entry.gpu_output if on_gpu and entry.gpu_output else entry.output
    output = options.output or Path(default.format(**vars(options)))
    note = " ".join(entry.note.partition("\n\n")[2].split()) or entry.note
    report = entry.report(output, entry.title, command, note)
    rows = entry.run(options, report)
    if rows is not None:
        report.rows = {str(number): row for number, row in enumerate(rows)}
    report.write()


def markdown_lines(head: Sequence[str], rows: Iterable[Sequence[object]], form: str) -> list[str]:
    """Lines of a Markdown table; `form` is the format of floating-point numbers."""

    def line(cells: Iterable[object]) -> str:
        texts = (format(cell, form) if isinstance(cell, float) else str(cell) for cell in cells)
        return f"| {' | '.join(texts)} |"

    return [line(head), "|" + " --- |" * len(head), *map(line, rows)]


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _commit() -> str:
    """TEXTSVM_COMMIT (for a copy without history), or the commit of the checkout."""
    commit = os.environ.get("TEXTSVM_COMMIT")
    if commit:
        return commit
    folder = Path(__file__).resolve().parent
    try:
        command = ["git", "describe", "--always", "--dirty"]
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return answer.stdout.strip() or "unknown"
