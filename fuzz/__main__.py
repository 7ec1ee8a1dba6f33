"""One case of a target, or what Atheris (libFuzzer) makes of its bytes; many: `textsvm bench fuzz`."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("target")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--seed", type=int, help="of the case")
    asked.add_argument("--atheris", type=float, metavar="SECONDS", help="pip install atheris")
    given = parser.parse_args()
    if given.atheris is not None:
        return _guided(given.target, given.atheris)
    importlib.import_module(f"fuzz.{given.target}").run(given.seed)
    return 0


def _guided(name: str, seconds: float) -> int:
    """Have libFuzzer change the bytes of a file, towards code that none has reached; it ends the process."""
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
    raise SystemExit(main())
