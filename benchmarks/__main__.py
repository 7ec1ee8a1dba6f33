"""Run one benchmark: ``python -m benchmarks NAME [options]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.harness import PROG, list_benchmarks, run_benchmark
from textsvm.errors import InputError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark named by the first argument."""
    known = list_benchmarks()
    lines = [f"  {name:16}{title}" for name, (_, title) in sorted(known.items())]
    parser = argparse.ArgumentParser(
        PROG,
        description="Benchmarks, run from a checkout. Each checks equality before it measures time. "
        f"`{PROG} NAME --help` lists the options of one benchmark.",
        epilog="\n".join(["benchmarks:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=sorted(known), metavar="NAME")
    given = sys.argv[1:] if arguments is None else list(arguments)
    name = parser.parse_args(given[:1]).name
    try:
        run_benchmark(name, given[1:])
    except InputError as error:
        sys.exit(f"benchmarks: {error}")


if __name__ == "__main__":
    main()
