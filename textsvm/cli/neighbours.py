"""textsvm neighbours: pairs of similar texts -> JSON Lines or a sparse matrix."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import corpora, kernels, machines, options
from textsvm.cli.console import Console, WrongUsage, json_line
from textsvm.cli.gram import show_matrix
from textsvm.cli.options import option
from textsvm.cli.output import NEIGHBOURS, NPZ, STDOUT, Force, Output, writing
from textsvm.kernels.spelling import spell

if TYPE_CHECKING:
    from textsvm.kernels.near import Pairs
    from textsvm.machines.base import KernelMachine
    from textsvm.nearest.search import Criteria
    from textsvm.readers.corpus import Corpus

_neighbours = partial(option, panel="Neighbours")


@dataclass(frozen=True)
class NeighbourOptions:
    """Selection of pairs; pairs must meet all conditions."""

    nearest: Annotated[
        int | None,
        _neighbours(
            "Number of neighbours per text (default: 10, or all if a threshold is given).",
            "-k", "--nearest", metavar="NUMBER",
        ),
    ] = None  # fmt: skip
    at_least: Annotated[float | None, _neighbours("Minimum normalised kernel value.")] = None
    within: Annotated[
        int | None,
        _neighbours("Maximum edit distance; the kernel is then edit by default.", metavar="DISTANCE"),
    ] = None

    @property
    def wanted(self) -> Criteria:
        """Argument of the search."""
        from textsvm.nearest.search import Criteria, K

        unset = self.nearest is self.at_least is self.within is None
        return Criteria(K if unset else self.nearest, self.at_least, self.within)


@dataclass(frozen=True)
class ComparingOptions:
    """Comparison of texts."""

    kernel: kernels.KernelOptions
    text: machines.TextOptions
    memory: Annotated[
        str | None, option("Memory for the tiles, such as 2GiB (default: half of the free memory).")
    ] = None
    device: options.Device = "auto"

    def model(self, wanted: Criteria) -> KernelMachine:
        """Machine that the options describe."""
        from textsvm.nearest.neighbours import machine

        kernel = self.kernel.single() if self.kernel.named else None
        given = self.text.as_dict() | {"memory": self.memory, "device": self.device}
        return machines.checked(lambda: machine(kernel, wanted, **given))


@dataclass(frozen=True)
class PairsFile:
    """Output file of the pairs."""

    output: Annotated[
        Path,
        option("Output file: JSON Lines (- is stdout), or .npz for scipy.sparse.load_npz.", "--output", "-o"),
    ] = STDOUT
    force: Force = False

    def checked(self, inputs: dict[str, Path | list[Path] | None]) -> Output:
        """Output file; raises WrongUsage."""
        kind = NPZ if self.output.suffix.lower() == NPZ.suffix else NEIGHBOURS
        return Output("-o", self.output, kind, self.force).checked(inputs)


@options.with_groups
def neighbours(
    corpus: Annotated[Path, typer.Argument(help="Texts; - is stdin.", show_default=False)],
    table: options.TableOptions,
    which: NeighbourOptions,
    comparing: ComparingOptions,
    file: PairsFile,
    printing: options.PrintingOptions,
    others: Annotated[
        Path | None,
        typer.Argument(help="Texts to search; - is stdin.", show_default="the same texts"),
    ] = None,
) -> None:
    """Find similar texts exactly: the nearest of each text, all pairs above a threshold, or both.

    Prints a JSON object per pair in the order of the texts: id, neighbour, value, and distance if the kernel
    has any. Within a corpus each pair is printed once without -k, and for both texts with -k. A .npz file
    holds a sparse matrix with a row per text; numpy.load also gives ids and column_ids.

    textsvm neighbours names.csv --text name --within 2

    textsvm neighbours new.csv known.csv --text body -k 5 --kernel spectrum:1-5,log,idf --at-least 0.3
    """
    wanted = which.wanted
    model = comparing.model(wanted)
    if str(corpus) == str(others) == "-":
        raise WrongUsage("only one corpus can be -, standard input")
    output = file.checked({"the corpus": _path(corpus), "the other corpus": _path(others)})
    console = Console(printing.quiet, output.is_stdout)
    clock = time.perf_counter()
    with console.progress():
        rows = _read(console, corpus, table, model)
        columns = rows if others is None else _read(console, others, table, model)
    corpora.settle(console, model, comparing.kernel.named or wanted.within is not None, columns)
    seconds, clock = {"read": time.perf_counter() - clock}, time.perf_counter()
    with console.progress():
        count = _write(output, _search(console, model, rows, columns, wanted), rows, columns)
    seconds["neighbours"] = time.perf_counter() - clock
    _report(console, printing, output, model, [len(rows), len(columns), count], seconds)


def _path(path: Path | None) -> Path | None:
    return None if path == STDOUT else path


def _read(console: Console, path: Path, table: options.TableOptions, model: KernelMachine) -> Corpus:
    from textsvm.readers.read import read_documents

    columns = corpora.columns(table, model.kernel)
    corpus = read_documents(
        str(path), table.format, **columns, id=table.id, progress=console.progress_of("read")
    )
    corpus = corpora.with_files(corpus, table)
    corpora.say_problems(console, corpus)
    return corpus


def _search(
    console: Console, model: KernelMachine, rows: Corpus, columns: Corpus, wanted: Criteria
) -> Iterator[Pairs]:
    from textsvm.nearest.search import search

    others = None if columns is rows else columns.examples
    return search(model, rows.examples, others, wanted, console.stage)


def _write(output: Output, parts: Iterator[Pairs], rows: Corpus, columns: Corpus) -> int:
    """Write pairs as they come (JSON Lines) or together (.npz); returns their number."""
    if output.kind is NPZ:
        from textsvm.nearest.search import joined, write_pairs

        pairs = joined(list(parts))
        with output.place() as path:
            write_pairs(path, pairs, rows.ids, columns.ids)
        return len(pairs)
    if output.is_stdout:
        stdout = typer.get_text_stream("stdout", "utf-8")
        return sum(_write_lines(stdout, pairs, rows, columns) for pairs in parts)
    with writing(output.path) as stream:
        return sum(_write_lines(stream, pairs, rows, columns) for pairs in parts)


def _write_lines(stream: Any, pairs: Pairs, rows: Corpus, columns: Corpus) -> int:
    distances = [None] * len(pairs) if pairs.distances is None else pairs.distances.tolist()
    for row, column, value, distance in zip(
        pairs.rows.tolist(), pairs.columns.tolist(), pairs.values.tolist(), distances, strict=True
    ):
        line = {"id": rows.ids[row], "neighbour": columns.ids[column], "value": round(value, 7)}
        stream.write(json_line(line if distance is None else line | {"distance": distance}))
    stream.flush()
    return len(pairs)


def _report(
    console: Console,
    printing: options.PrintingOptions,
    output: Output,
    model: KernelMachine,
    counts: list[int],
    seconds: dict[str, float],
) -> None:
    from textsvm.runtime.device import select

    used, kernel = select(model.device), model.new_kernel()
    console.say_device(used)
    report = {
        "output": str(output.path), "rows": counts[0], "columns": counts[1], "pairs": counts[2],
        "kernel": kernel.structure.as_dict(), "kernel_spelled": spell(kernel), "device": used.description,
        "seconds": seconds,
    }  # fmt: skip
    if printing.json:
        console.print_json(report)
    elif output.is_stdout:
        console.say(f"{counts[2]:,} pairs")
    else:
        show_matrix(console, "neighbours", report)
