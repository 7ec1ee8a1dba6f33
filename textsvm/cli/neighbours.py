"""textsvm neighbours: the texts that are alike -> JSON Lines or a sparse matrix."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import examples, kernels, machines, notes, options
from textsvm.cli.console import Console, WrongUsage, json_line
from textsvm.cli.output import NEIGHBOURS, NPZ, STDOUT, Force, Output
from textsvm.kernels.spelling import spell

if TYPE_CHECKING:
    from textsvm.estimators.base import KernelMachine
    from textsvm.kernels.near import Pairs
    from textsvm.nearest.search import Criteria
    from textsvm.readers import Corpus

_PANEL = "Neighbours"


@dataclass(frozen=True)
class WhichOptions:
    """Which neighbours are asked for; of several conditions, those that fulfil all."""

    nearest: Annotated[
        int | None,
        typer.Option(
            "-k",
            "--nearest",
            metavar="NUMBER",
            help="The so many nearest of each text (default: 10, or all if a threshold is given).",
            rich_help_panel=_PANEL,
        ),
    ] = None
    at_least: Annotated[
        float | None,
        typer.Option(help="Only pairs of at least this normalised kernel value.", rich_help_panel=_PANEL),
    ] = None
    within: Annotated[
        int | None,
        typer.Option(
            metavar="DISTANCE",
            help="Only pairs within this edit distance; the kernel is edit if none is named.",
            rich_help_panel=_PANEL,
        ),
    ] = None

    @property
    def wanted(self) -> Criteria:
        """What the library calls it."""
        from textsvm.nearest.search import Criteria, K

        nothing = self.nearest is self.at_least is self.within is None
        return Criteria(K if nothing else self.nearest, self.at_least, self.within)


@dataclass(frozen=True)
class Comparing:
    """What compares texts, and where."""

    kernel: kernels.KernelOptions
    text: machines.TextOptions
    memory: Annotated[
        str | None,
        typer.Option(help="Memory for the tiles, such as 2GiB (default: half of what is free)."),
    ] = None
    device: options.Device = "auto"

    def model(self, wanted: Criteria) -> KernelMachine:
        """As the options describe it."""
        from textsvm.nearest.neighbours import machine

        kernel = self.kernel.one() if self.kernel.named else None
        given = self.text.as_dict() | {"memory": self.memory, "device": self.device}
        return machines.checked(lambda: machine(kernel, wanted, **given))


@dataclass(frozen=True)
class PairsFile:
    """Where the pairs go."""

    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Where they go: JSON Lines (- is stdout), or a .npz file for scipy.sparse.load_npz.",
        ),
    ] = STDOUT
    force: Force = False

    def checked(self, inputs: dict[str, Path | None]) -> Output:
        """The output; wrong usage, before any work."""
        kind = NPZ if self.output.suffix.lower() == NPZ.suffix else NEIGHBOURS
        output = Output("-o", self.output, kind, self.force)
        output.check(inputs)
        return output


@options.with_groups
def neighbours(
    corpus: Annotated[Path, typer.Argument(help="Texts; - is stdin.", show_default=False)],
    table: options.Table,
    which: WhichOptions,
    comparing: Comparing,
    file: PairsFile,
    printing: options.Printing,
    others: Annotated[
        Path | None,
        typer.Argument(help="Texts to find their neighbours in; - is stdin.", show_default="the same texts"),
    ] = None,
) -> None:
    """Find the texts that are alike: the nearest of each, all above a threshold, or both. Exact.

    One JSON object a pair, those of the first text first: id, neighbour, value, and distance where the kernel
    has one. Of one corpus and without -k each pair comes once; with -k each text has its own. In a .npz
    file the values are a sparse matrix, a row a text; numpy.load finds ids and column_ids in it as well.

    textsvm neighbours names.csv --text name --within 2

    textsvm neighbours new.csv known.csv --text body -k 5 --kernel spectrum:1-5,log,idf --at-least 0.3
    """
    wanted = which.wanted
    model = comparing.model(wanted)
    if str(corpus) == str(others) == "-":
        raise WrongUsage("both corpora are -, standard input, which can be read once; name a file")
    output = file.checked({"the corpus": _path(corpus), "the other corpus": _path(others)})
    console = Console(printing.quiet, output.is_stdout)
    clock = time.perf_counter()
    with console.progress():
        rows = _read(console, corpus, table, model)
        columns = rows if others is None else _read(console, others, table, model)
    examples.settle(console, model, comparing.kernel.named or wanted.within is not None, columns)
    seconds, clock = {"read": time.perf_counter() - clock}, time.perf_counter()
    with console.progress():
        count = _write(output, _search(console, model, rows, columns, wanted), rows, columns)
    seconds["neighbours"] = time.perf_counter() - clock
    _report(console, printing, output, model, [len(rows), len(columns), count], seconds)


def _path(path: Path | None) -> Path | None:
    return None if path == STDOUT else path


def _read(console: Console, path: Path, table: options.Table, model: KernelMachine) -> Corpus:
    from textsvm.readers import read_documents

    columns = examples.columns(table, model.kernel)
    found = read_documents(str(path), table.format, **columns, id=table.id, progress=console.reading)
    found = examples.beside(found, table)
    notes.problems(console, found)
    return found


def _search(
    console: Console, model: KernelMachine, rows: Corpus, columns: Corpus, wanted: Criteria
) -> Iterator[Pairs]:
    from textsvm.nearest.search import search

    others = None if columns is rows else columns.examples
    return search(model, rows.examples, others, wanted, console.stage)


def _write(output: Output, found: Iterator[Pairs], rows: Corpus, columns: Corpus) -> int:
    """Write the pairs as they come, or once they are all there; how many there are."""
    if output.kind is NPZ:
        return _write_matrix(output, list(found), rows, columns)
    if output.is_stdout:
        return sum(
            _write_lines(typer.get_text_stream("stdout", "utf-8"), one, rows, columns) for one in found
        )
    from textsvm.runtime.files import replacing

    # What "backslashreplace" makes of a lone surrogate is JSON's.
    utf8: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    with replacing(output.path) as temporary, open(temporary, "w", **utf8) as stream:
        return sum(_write_lines(stream, one, rows, columns) for one in found)


def _write_lines(stream: Any, pairs: Pairs, rows: Corpus, columns: Corpus) -> int:
    distances = [None] * len(pairs) if pairs.distances is None else pairs.distances.tolist()
    for row, column, value, distance in zip(
        pairs.rows.tolist(), pairs.columns.tolist(), pairs.values.tolist(), distances, strict=True
    ):
        line = {"id": rows.ids[row], "neighbour": columns.ids[column], "value": round(value, 7)}
        stream.write(json_line(line if distance is None else line | {"distance": distance}))
    stream.flush()
    return len(pairs)


def _write_matrix(output: Output, found: list[Pairs], rows: Corpus, columns: Corpus) -> int:
    from textsvm.nearest.search import joined, write_pairs

    pairs = joined(found)
    with output.place() as path:
        write_pairs(path, pairs, rows.ids, columns.ids)
    return len(pairs)


def _report(
    console: Console, printing: options.Printing, output: Output, model: KernelMachine, counts: list[int],
    seconds: dict[str, float],
) -> None:  # fmt: skip
    from textsvm.runtime.device import select

    used, kernel = select(model.device), model.make_kernel()
    console.say_device(used)
    report = {
        "output": str(output.path), "rows": counts[0], "columns": counts[1], "pairs": counts[2],
        "kernel": kernel.as_dict(), "kernel_spelled": spell(kernel), "device": used.description,
        "seconds": seconds,
    }  # fmt: skip
    if printing.json:
        console.print_json(report)
    elif output.is_stdout:
        console.say(f"{counts[2]:,} pairs")
    else:
        shown = [("kernel", spell(kernel)), ("device", used.description)]
        shown += [(name, f"{n:,}") for name, n in zip(("rows", "columns", "pairs"), counts, strict=True)]
        spent = ", ".join(f"{stage} {value:.2f}" for stage, value in seconds.items())
        console.table(f"neighbours {output.path}", [*shown, ("seconds", spent)])
