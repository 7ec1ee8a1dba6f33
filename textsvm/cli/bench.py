"""textsvm bench: benchmarks against CPU baselines, for installed users."""

from __future__ import annotations

from typing import Annotated

import typer

#: Benchmarks of `textsvm.bench`; `python -m benchmarks` in a checkout has the others.
NAMES = ("kernels", "panel", "paper", "solver")


def bench(
    context: typer.Context,
    which: Annotated[str, typer.Argument(metavar="NAME", help=" | ".join(NAMES))],
) -> None:
    """Measure textsvm against CPU baselines on this machine; check that results are equal before timing.

    `textsvm bench NAME --help` lists its options. TEXTSVM_DATA names the folder of the corpora.
    """
    if which in ("--help", "-h"):
        typer.echo(context.get_help())
        return
    if which not in NAMES:
        raise typer.BadParameter(
            f"{which!r} is not one of {', '.join(NAMES)}; a checkout has more: python -m benchmarks --help"
        )
    from textsvm.bench.harness import run_benchmark

    run_benchmark("textsvm.bench", "textsvm bench", which, context.args)


#: Options after the name belong to the benchmark.
SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
