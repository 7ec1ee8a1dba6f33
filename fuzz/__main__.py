"""Run a target for some seconds, or one case of it."""

from __future__ import annotations

import argparse
import importlib
import time


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("target")
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this case alone")
    asked = parser.parse_args()
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


if __name__ == "__main__":
    raise SystemExit(main())
