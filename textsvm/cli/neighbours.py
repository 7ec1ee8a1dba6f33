"""textsvm neighbours: pairs of similar texts -> JSON Lines or a sparse matrix."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textsvm.cli import kernels, machines, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option_field
from textsvm.cli.output import NEIGHBOURS, NPZ, STDOUT, Force, Output, table_kind, write_rows
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.arrays import Json
    from textsvm.kernels.near import Pairs
    from textsvm.readers.corpus import Corpus

_neighbours = partial(option_field, panel="Neighbours")


@dataclass(frozen=True)
class NeighbourOptions:
    """Comparison of texts; pairs must meet all conditions."""

    kernel: kernels.KernelOptions
    text: machines.TextOptions
    nearest: int | None = _neighbours(
        "Number of neighbours per text (default: 10, or all if a threshold is given).",
        "-k", "--nearest", metavar="NUMBER", min=1,
    )  # fmt: skip
    at_least: float | None = _neighbours("Minimum normalised kernel value.")
    within: int | None = _neighbours(
        "Maximum edit distance; the kernel is then edit by default.", metavar="DISTANCE"
    )
    memory: str | None = option_field(
        "Memory for the tiles, such as 2GiB (default: half of the free memory)."
    )
    device: options.Device = "auto"
    output: Path = option_field(
        "Output file: .jsonl (also stdout, -), .json, .csv, .tsv, .xlsx, .parquet, or .npz for "
        "scipy.sparse.load_npz.", "--output", "-o",
        default=STDOUT,
    )  # fmt: skip
    force: Force = False


@options.with_groups
def neighbours(
    corpus: Annotated[Path, typer.Argument(help="Texts; - is stdin.", show_default=False)],
    table: options.TableOptions,
    selection: NeighbourOptions,
    printing: options.PrintingOptions,
    others: Annotated[
        Path | None, typer.Argument(help="Texts to search; - is stdin.", show_default="the same texts")
    ] = None,
) -> None:
    """Find similar texts exactly: the nearest of each text, all pairs above a threshold, or both.

    Prints a JSON object per pair in the order of the texts: id, neighbour, value, and distance if the kernel
    has any. Within a corpus each pair is printed once without -k, and for both texts with -k. A .npz file
    holds a sparse matrix with a row per text; numpy.load also gives ids and column_ids.

    textsvm neighbours names.csv --text name --within 2

    textsvm neighbours new.csv known.csv --text body -k 5 --kernel spectrum:1-5,log,idf --at-least 0.3
    """
    from textsvm.cli import corpora, estimators, matrices, model_files
    from textsvm.model.settings import Settings
    from textsvm.nearest.neighbours import comparison_settings
    from textsvm.nearest.search import Criteria, K, joined, search, write_pairs
    from textsvm.runtime.device import select

    unset = selection.nearest is selection.at_least is selection.within is None
    criteria = Criteria(K if unset else selection.nearest, selection.at_least, selection.within)
    kernel = selection.kernel.single() if selection.kernel.named else None
    parameters = selection.text.as_dict() | {"memory": selection.memory, "device": selection.device}
    settings: Settings = estimators.checked(lambda: comparison_settings(kernel, criteria, **parameters))
    if str(corpus) == str(others) == "-":
        raise WrongUsage("only one corpus can be -, standard input")
    inputs = {"the corpus": corpus, "the other corpus": others}
    npz = selection.output.suffix.lower() == NPZ.suffix
    kind = NPZ if npz else table_kind("-o", selection.output, NEIGHBOURS)
    output = Output("-o", selection.output, kind, selection.force).checked(
        {name: None if path == STDOUT else path for name, path in inputs.items()}
    )
    console = Console(printing.quiet, output.is_stdout)

    clock = time.perf_counter()
    rows = columns = corpora.read_unlabelled(console, str(corpus), table, settings.kernel)
    corpora.say_problems(console, rows)
    if others is not None:
        columns = corpora.read_unlabelled(console, str(others), table, settings.kernel)
        corpora.say_problems(console, columns)
    elif len(rows) == 1:
        advice = "; --format lines reads one text per line" if rows.format == "file" else ""
        raise InputError(f"{rows.source} has one text, which has no neighbours{advice}")
    is_named = selection.kernel.named or criteria.within is not None
    settings = model_files.settle(console, settings, is_named, columns)
    seconds, clock = {"read": time.perf_counter() - clock}, time.perf_counter()
    with console.work():
        searched = None if others is None else columns.examples
        parts = search(settings, rows.examples, searched, criteria, console.stage)
        if output.kind is NPZ:
            pairs = joined(list(parts))
            with output.place() as path:
                write_pairs(path, pairs, rows.ids, columns.ids)
            count = len(pairs)
        else:
            names = ["id", "neighbour", "value", *["distance"] * settings.new_kernel().nearest.has_distances]
            counts = list[int]()
            write_rows(output, names, _pairs(parts, rows, columns, counts))
            count = sum(counts)
    seconds["neighbours"] = time.perf_counter() - clock
    if output.is_stdout and not printing.json:
        console.say_device(select(settings.device))
        console.say(f"{count:,} pairs")
        return
    matrices.report_matrix(
        console, printing.json, "neighbours", settings.new_kernel(), select(settings.device),
        output=str(output.path), rows=len(rows), columns=len(columns), pairs=count, seconds=seconds,
    )  # fmt: skip


def _pairs(parts: Iterable[Pairs], rows: Corpus, columns: Corpus, counts: list[int]) -> Iterator[Json]:
    """Pairs as they come; `counts` gets their numbers."""
    for pairs in parts:
        distances = [None] * len(pairs) if pairs.distances is None else pairs.distances.tolist()
        for row, column, value, distance in zip(
            pairs.rows.tolist(), pairs.columns.tolist(), pairs.values.tolist(), distances, strict=True
        ):
            line = {"id": rows.ids[row], "neighbour": columns.ids[column], "value": round(value, 7)}
            yield line if distance is None else line | {"distance": distance}
        sys.stdout.flush()
        counts.append(len(pairs))
