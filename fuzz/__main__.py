"""Run a target for some seconds, one case of it, or what Atheris (libFuzzer) makes of its bytes."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("target")
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this case alone")
    parser.add_argument(
        "--atheris", action="store_true", help="bytes that reach new code; pip install atheris"
    )
    asked = parser.parse_args()
    if asked.atheris:
        return _guided(asked.target, asked.seconds)
    run = importlib.import_module(f"fuzz.{asked.target}").run
    if asked.seed is not None:
        run(asked.seed)
        return 0
    end, cases, findings, longest = time.monotonic() + asked.seconds, 0, 0, 0.0
    while time.monotonic() < end:
        start = time.monotonic()
        try:
            run(asked.first + cases)
        except AssertionError as error:
            findings += 1
            print(f"{asked.target}: {error!s:.600}", flush=True)
        longest = max(longest, time.monotonic() - start)
        cases += 1
    print(f"{asked.target}: {cases:,} cases, {findings} findings, the longest {longest:.2f} s")
    return int(findings > 0)


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
