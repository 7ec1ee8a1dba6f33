"""textsvm gram: the kernel matrix of a corpus -> a file."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textsvm.cli import corpora, kernels, machines, options
from textsvm.cli.console import Console, WrongUsage, seconds_row
from textsvm.cli.options import option
from textsvm.cli.output import LIBSVM, NPY, STDOUT, Force, Output
from textsvm.errors import InputError
from textsvm.kernels.spelling import spell

if TYPE_CHECKING:
    from textsvm.machines.base import KernelMachine
    from textsvm.readers.corpus import Corpus
    from textsvm.runtime.device import Device


@dataclass(frozen=True)
class MatrixFile:
    """File or store of the kernel matrix."""

    output: Annotated[
        Path | None,
        option("Output file: .npy (- is stdout), or .libsvm or .txt for LIBSVM.", "--output", "-o"),
    ] = None
    store: options.StoreFolder = None
    force: Force = False

    def checked(self, corpus: list[Path], columns: Path | None) -> Output | None:
        """Output file, None for a store alone; raises WrongUsage."""
        from textsvm.gram import files

        if self.store is not None and columns is not None:
            raise WrongUsage(
                "a store holds kernel values of texts with each other; leave out --against or --store"
            )
        if self.output is None:
            if self.store is not None:
                return None
            raise WrongUsage("-o FILE or --store DIR is missing")
        suffix = files.NPY if self.output == STDOUT else self.output.suffix.lower()
        if suffix != files.NPY and suffix not in files.LIBSVM:
            raise WrongUsage(
                f"-o {self.output}: the name must end in {files.NPY} or {', '.join(files.LIBSVM)}"
            )
        output = Output("-o", self.output, NPY if suffix == files.NPY else LIBSVM, self.force)
        return output.checked({"the corpus": corpus, "the corpus of --against": columns})


@dataclass(frozen=True)
class AgainstOptions:
    """Documents of the columns."""

    columns: Annotated[
        Path | None,
        option("Columns for the documents of this (training) corpus, instead of the rows'.", "--against"),
    ] = None
    part_of_columns: Annotated[
        str | None, option("Use only this part of --against: train or test.", "--against-part")
    ] = None


@dataclass(frozen=True)
class ValueOptions:
    """Kernel values and their computation."""

    kernel: kernels.KernelOptions
    text: machines.TextOptions
    cluster: machines.ClusterOptions
    device: options.Device = "auto"


@options.with_groups
def gram(
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    values: ValueOptions,
    file: MatrixFile,
    against: AgainstOptions,
    printing: options.PrintingOptions,
    regress: options.Regress = None,
) -> None:
    """Write the normalised kernel matrix of a corpus for NumPy or LIBSVM, with rows in corpus order.

    With --store alone it is computed in that folder, for later use by `train`, `tune` and `cv`.

    textsvm gram mails.tar.gz --kernel gap --p 4 -o K.npy

    textsvm gram r8/ --part test --against r8/ --against-part train -o test.libsvm

    textsvm gram mails.tar.gz --kernel gap --p 4 --store grams/
    """
    from textsvm.gram import files
    from textsvm.machines.base import Compute
    from textsvm.machines.classifier import Classifier

    if against.columns is None and against.part_of_columns is not None:
        raise WrongUsage("--against-part needs --against")
    output = file.checked(corpus, against.columns)
    values.cluster.check()
    console = Console(printing.quiet, output is not None and output.is_stdout)
    kernel: Any = values.kernel.single()
    text = values.text.as_dict()
    model = machines.checked(
        lambda: Classifier(kernel, device=values.device, compute=Compute(store=file.store), **text)
    )
    documents = columns = corpora.read(
        console, corpus, reading, options.LearningOptions(regress), kernel=model.kernel
    )
    corpora.settle(console, model, values.kernel.named, documents)
    kernel = model.kernel
    if against.columns is not None:
        where = replace(reading, part=against.part_of_columns)
        columns = corpora.read(
            console, against.columns, where, options.LearningOptions(regress), kernel=kernel
        )
    labels, names = labels_of(documents) if output is not None and output.kind is LIBSVM else (None, [])
    clock = time.perf_counter()
    if output is None:
        description, used = _stored(console, model, documents)
        seconds = {"gram": time.perf_counter() - clock}
        console.say(f"kernel matrix: {description}")
    else:
        with values.cluster.at_work(console, model.compute_options.store):
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
        "kernel": kernel.structure.as_dict(), "kernel_spelled": spell(kernel), "device": used.description,
        "seconds": seconds,
    }  # fmt: skip
    console.print_json(report) if printing.json else show_matrix(console, "kernel matrix", report)


def labels_of(corpus: Corpus) -> tuple[list[float] | None, list[str]]:
    """Labels as numbers, and the names of the classes 1, 2, ... unless the labels are numbers."""
    if corpus.targets is None and corpus.labels is None:
        return None, []
    labels = corpora.targets(corpus)
    try:
        return [float(label) for label in labels], []
    except ValueError:
        names = sorted({str(label) for label in labels})
        return [float(1 + names.index(str(label))) for label in labels], names


def _stored(console: Console, model: KernelMachine, documents: Corpus) -> tuple[str, Device]:
    """Compute the missing part of a stored kernel matrix; returns its description and the device."""
    from textsvm.gram.build import stored_rows
    from textsvm.machines.training import gram_request
    from textsvm.runtime.device import select
    from textsvm.runtime.parallel import of_stage

    device = select(model.device)
    with console.work(model.compute_options.store), model.at_work(device):
        encoded = model.encode(model.validate(documents.examples), None, console.stage)
        kernel = model.source.kernel_for(encoded)
        kernel.fit(kernel.structure.read(encoded), device)
        request = gram_request(model, kernel, encoded, device)
        rows = stored_rows(str(model.compute_options.store), request, None, of_stage(console.stage, "gram"))
        return rows.description, device


def _matrix(console: Console, model: KernelMachine, documents: Corpus, columns: Corpus) -> tuple[Any, Device]:
    """Kernel values of all documents with all columns, and the device."""
    from textsvm.runtime.device import select

    device = select(model.device)
    # A sum needs the result and a matrix per level of its parts.
    matrices = 1 + model.new_kernel().structure.depth
    _require_memory(4 * len(documents) * len(columns) * matrices, device)
    if columns is documents:
        model.set_params(compute__memory=1 << 62)  # there is room for the whole matrix
        gram = model.prepare(documents.examples, console.stage).gram
        return gram.window().values, device
    with model.at_work(device):
        encoded = model.encode(model.validate(columns.examples), None, console.stage)
        kernel = model.source.kernel_for(encoded)
        kernel.fit(kernel.structure.read(encoded), device)
        given = model.validate(documents.examples, fitting=False)
        others = kernel.structure.read(model.encode(given, encoded, console.stage))
        rows = kernel.rows(kernel.structure.read(encoded), device)
        return rows.cross(others, console.progress_of("gram")), device


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


def show_matrix(console: Console, title: str, report: dict[str, Any]) -> None:
    """Print the table of a command that writes a matrix."""
    of = f", of {report['like']}" if report.get("like") else ""
    rows = [("kernel", report["kernel_spelled"]), ("rows", f"{report['rows']:,}")]
    rows.append(("columns", f"{report['columns']:,}{of}"))
    rows += [(name, f"{report[name]:,}") for name in ("entries", "pairs") if name in report]
    rows += [("device", report["device"]), seconds_row(report["seconds"])]
    if report.get("labels"):
        rows.append(("labels", ", ".join(f"{i} {name}" for i, name in enumerate(report["labels"], 1))))
    console.table(f"{title} {report['output']}", rows)
