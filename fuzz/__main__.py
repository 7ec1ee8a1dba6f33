"""``python -m fuzz``: run fuzz targets, repeat a single case, or let Atheris (libFuzzer) search."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="files of fuzz/ (default: all)")
    parser.add_argument("--minutes", type=float, default=1.0, help="minutes per target (default: 1)")
    parser.add_argument("--cases", type=int, help="cases per target, instead of minutes")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("reports/fuzz"), help="report without suffix"
    )
    parser.add_argument("--seed", type=int, help="run only the case of this seed, in this process")
    parser.add_argument(
        "--atheris", type=float, metavar="SECONDS", help="search with Atheris, which is installed apart"
    )
    options = parser.parse_args(arguments)
    if options.seed is None and options.atheris is None:
        from fuzz._runner import run_targets

        seconds = 60 * options.minutes
        run_targets(options.targets, options.jobs, options.first, options.cases, seconds, options.output)
        return 0
    if len(options.targets) != 1:
        parser.error("--seed and --atheris take exactly one TARGET")
    if options.atheris is not None:
        return _guided(options.targets[0], options.atheris)
    importlib.import_module(f"fuzz.{options.targets[0]}").run(options.seed)
    return 0


def _guided(name: str, seconds: float) -> int:
    """Let libFuzzer mutate the bytes of a file to reach new code; it ends the process."""
    import atheris

    with atheris.instrument_imports(include=["textsvm.readers"]):
        module = importlib.import_module(f"fuzz.{name}")
    target = getattr(module, "_target", None) or getattr(module.run, "__self__", None)
    if target is None or target.name.endswith("/"):
        print(f"{name} reads no file of bytes alone; run it without --atheris")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        for i, each in enumerate(target.seeds):
            Path(folder, str(i)).write_bytes(b"\0\0\0" + each)
        limits = [f"-max_total_time={seconds:.0f}", "-max_len=20000", "-timeout=10", "-rss_limit_mb=2048"]
        limits.append(f"-artifact_prefix={folder}/")
        atheris.Setup([sys.argv[0], *limits, folder], target.of_bytes)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    from textsvm.errors import InputError

    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"fuzz: {error}")
