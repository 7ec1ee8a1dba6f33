"""textsvm bench: benchmarks, each an equality test first and a time afterwards."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from typing import Annotated

import typer


class Benchmark(Enum):
    """What can be measured; the value is the module in `textsvm.bench`."""

    kernels = "gram"
    features = "features"
    solver = "solver"
    feature_solver = "feature_solver"
    paper = "paper"
    lodhi = "lodhi"
    peers = "peers"
    scale = "scale"
    mail = "mail"
    million = "million"
    mixtures = "mixtures"
    grid = "grid"
    keeping = "keeping"
    multiclass = "multiclass"
    multilabel = "multilabel"
    essays = "essays"
    panel = "panel"
    mail_text = "mail_text"
    reviews = "reviews"
    tuned = "tuned"
    vectors = "vectors"
    layouts = "layouts"
    sparse_vectors = "sparse_vectors"
    sequences = "sequences"
    sigma = "sigma"
    tiers = "tiers"
    tight_search = "tight_search"
    weights = "weights"
    neighbours = "neighbours"
    nystroem = "nystroem"
    store = "store"
    workers = "workers"
    cards = "cards"
    crammer_singer = "crammer_singer"
    doubts = "doubts"
    none = "none_of_these"
    numerics = "numerics"
    edit_gpu = "edit_gpu"
    gap_gpu = "gap_gpu"
    spectrum_gpu = "spectrum_gpu"
    fuzz = "fuzz"


def bench(
    context: typer.Context,
    which: Annotated[str, typer.Argument(help=" | ".join(each.name for each in Benchmark))],
) -> None:
    """Measure it on this machine: equality first, then time. `textsvm bench peers --help` has the options.

    The real corpora are found through the environment variable TEXTSVM_DATA.
    """
    if which in ("--help", "-h"):
        typer.echo(context.get_help())
        return
    if which not in Benchmark.__members__:
        raise typer.BadParameter(f"{which!r} is not one of {', '.join(Benchmark.__members__)}")
    import_module(f"textsvm.bench.{Benchmark[which].value}").main(context.args)


#: Options after the name of the benchmark are its own.
SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
