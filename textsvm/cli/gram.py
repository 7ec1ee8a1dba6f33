"""textsvm gram: the kernel matrix of a corpus -> a file."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import examples, kernels, machines, options
from textsvm.cli.cluster import Cluster
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.output import LIBSVM, NPY, STDOUT, Force, Output
from textsvm.errors import InputError
from textsvm.kernels.spelling import spell

if TYPE_CHECKING:
    from textsvm.estimators.base import KernelMachine
    from textsvm.readers import Corpus
    from textsvm.runtime.device import Device


@dataclass(frozen=True)
class MatrixFile:
    """Where the kernel matrix goes."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where it goes: a .npy file (- is stdout), or .libsvm or .txt for LIBSVM."
        ),
    ] = None
    store: options.StoreFolder = None
    force: Force = False

    def checked(self, corpus: list[Path], columns: Path | None) -> Output | None:
        """The output, None where only a store is made; wrong usage, before any work."""
        from textsvm.gram import files

        if self.store is not None and columns is not None:
            raise WrongUsage(
                "a store has kernel values of texts with each other; leave out --against or --store"
            )
        if self.output is None:
            if self.store is not None:
                return None
            raise WrongUsage("-o FILE is missing: where does the kernel matrix go? (or --store DIR)")
        suffix = files.NPY if self.output == STDOUT else self.output.suffix.lower()
        if suffix != files.NPY and suffix not in files.LIBSVM:
            raise WrongUsage(
                f"-o {self.output}: the name must end in {files.NPY} or {', '.join(files.LIBSVM)}"
            )
        output = Output("-o", self.output, NPY if suffix == files.NPY else LIBSVM, self.force)
        output.check({"the corpus": corpus, "the corpus of --against": columns})
        return output


@dataclass(frozen=True)
class Columns:
    """What the columns stand for."""

    columns: Annotated[
        Path | None,
        typer.Option(
            "--against",
            help="Kernel values with the documents of this corpus, the training one, instead of each other.",
        ),
    ] = None
    part_of_columns: Annotated[
        str | None, typer.Option("--against-part", help="Only this part of it: train or test.")
    ] = None


@dataclass(frozen=True)
class Values:
    """Which values stand in the matrix, and where they are computed."""

    kernel: kernels.KernelOptions
    text: machines.TextOptions
    cluster: Cluster
    device: options.Device = "auto"


@options.with_groups
def gram(
    corpus: options.CorpusPath,
    reading: options.Reading,
    values: Values,
    file: MatrixFile,
    others: Columns,
    printing: options.Printing,
    regress: options.Regress = None,
) -> None:
    """Write the normalised kernel matrix of a corpus, for NumPy or LIBSVM; rows are in the corpus's order.

    With --store alone it is made in that folder, where `train`, `tune` and `cv` find it.

    textsvm gram mails.tar.gz --kernel gap --p 4 -o K.npy

    textsvm gram r8/ --part test --against r8/ --against-part train -o test.libsvm

    textsvm gram mails.tar.gz --kernel gap --p 4 --store grams/
    """
    from textsvm.estimators.svc import SVC
    from textsvm.gram import files

    if others.columns is None and others.part_of_columns is not None:
        raise WrongUsage("--against-part needs --against")
    output = file.checked(corpus, others.columns)
    values.cluster.check()
    console = Console(printing.quiet, output is not None and output.is_stdout)
    chosen: Any = values.kernel.one()
    text = values.text.as_dict()
    model = machines.checked(lambda: SVC(chosen, device=values.device, store=file.store, **text))
    documents = columns = options.read(
        console, corpus, reading, options.Learning(regress), kernel=model.kernel
    )
    examples.settle(console, model, values.kernel.named, documents)
    chosen = model.kernel
    if others.columns is not None:
        where = replace(reading, part=others.part_of_columns)
        columns = options.read(console, others.columns, where, options.Learning(regress), kernel=chosen)
    labels, names = labels_of(documents) if output is not None and output.kind is LIBSVM else (None, [])
    clock = time.perf_counter()
    if output is None:
        said, used = _stored(console, model, documents)
        seconds = {"gram": time.perf_counter() - clock}
        console.say(f"kernel matrix: {said}")
    else:
        with values.cluster.at_work(console):
            matrix, used = _matrix(console, model, documents, columns)
        seconds = {"gram": time.perf_counter() - clock}
        clock = time.perf_counter()
        with output.place() as path:
            files.write_gram(path, matrix, labels)
        seconds["write"] = time.perf_counter() - clock
    console.say_device(used)
    report = {
        "output": str(output.path if output else file.store), "rows": len(documents),
        "columns": len(columns), "labels": names,
        "kernel": chosen.as_dict(), "kernel_spelled": spell(chosen), "device": used.description,
        "seconds": seconds,
    }  # fmt: skip
    console.print_json(report) if printing.json else _show(console, report)


def labels_of(corpus: Corpus) -> tuple[list[float] | None, list[str]]:
    """Labels as numbers, and the names of the numbers from 1 unless the labels are numbers themselves."""
    if corpus.targets is None and corpus.labels is None:
        return None, []
    found = options.targets(corpus)
    try:
        return [float(label) for label in found], []
    except ValueError:
        names = sorted({str(label) for label in found})
        return [float(1 + names.index(str(label))) for label in found], names


def _stored(console: Console, model: KernelMachine, documents: Corpus) -> tuple[str, Device]:
    """Make what the store lacks of the kernel matrix, whatever its size; what was done, and where."""
    from textsvm.estimators.storing import gram_request
    from textsvm.gram.build import stored_rows
    from textsvm.runtime.device import select
    from textsvm.runtime.parallel import of_stage

    device = select(model.device)
    with console.progress(), console.kept_in(model.store), model.at_work(device):
        encoded = model.encode(model.read(documents.examples), None, console.stage)
        kernel = model.source.kernel_for(encoded)
        kernel.fit_on(kernel.read(encoded), device)
        request = gram_request(model, kernel, encoded, device)
        assert model.store is not None
        return stored_rows(model.store, request, None, of_stage(console.stage, "gram")).description, device


def _matrix(console: Console, model: KernelMachine, documents: Corpus, columns: Corpus) -> tuple[Any, Device]:
    """The kernel values of all documents with all columns, where they were computed."""
    from textsvm.runtime.device import select

    device = select(model.device)
    # Of a sum, the result and that of a part.
    matrices = 1 + model.make_kernel().depth
    _require_memory(4 * len(documents) * len(columns) * matrices, device)
    with console.progress(), console.kept_in(model.store):
        if columns is documents:
            model.memory = 1 << 62  # there is room for it, so the whole of it
            gram = model.prepare(documents.examples, console.stage).gram
            return gram.window().values, device
        with model.at_work(device):
            encoded = model.encode(model.read(columns.examples), None, console.stage)
            kernel = model.source.kernel_for(encoded)
            kernel.fit_on(kernel.read(encoded), device)
            given = model.read(documents.examples, fitting=False)
            others = kernel.read(model.encode(given, encoded, console.stage))
            rows = kernel.rows(kernel.read(encoded), device)
            return rows.cross(others, lambda done, total: console.stage("gram", done, total)), device


def _require_memory(needed: int, device: Device) -> None:
    from textsvm.gram.plan import show_bytes
    from textsvm.runtime.device import free_memory

    free = free_memory(device)
    if needed > free:
        cpu = "run with --device cpu, or " if device.kind == "cuda" else ""
        raise InputError(
            f"the kernel matrix takes {show_bytes(needed)} and {show_bytes(free)} are free on "
            f"{device.description}; {cpu}use fewer documents, such as one --part"
        )


def shown_labels(names: list[str]) -> str:
    """Which numbers stand for which labels."""
    return ", ".join(f"{number} {name}" for number, name in enumerate(names, 1))


def _show(console: Console, report: dict[str, Any]) -> None:
    rows = [
        ("kernel", report["kernel_spelled"]),
        ("rows", f"{report['rows']:,}"),
        ("columns", f"{report['columns']:,}"),
        ("device", report["device"]),
        ("seconds", ", ".join(f"{stage} {value:.2f}" for stage, value in report["seconds"].items())),
    ]
    if report["labels"]:
        rows.append(("labels", shown_labels(report["labels"])))
    console.table(f"kernel matrix {report['output']}", rows)
