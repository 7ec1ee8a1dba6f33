"""textsvm gram: the kernel matrix of a corpus -> a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import kernels, machines, options
from textsvm.cli.console import Console, WrongUsage, print_json
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.device import Device
    from textsvm.estimators.base import KernelMachine
    from textsvm.readers import Corpus


@options.with_groups
def gram(
    corpus: options.CorpusPath,
    reading: options.Reading,
    kernel: kernels.KernelOptions,
    text_form: machines.TextOptions,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where it goes: a .npy file, or .libsvm or .txt for LIBSVM."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Kernel values with the documents of this corpus, the training one, instead of each other."
        ),
    ] = None,
    against_part: Annotated[str | None, typer.Option(help="Only this part of it: train or test.")] = None,
    regress: options.Regress = None,
    device: options.Device = "auto",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the normalised kernel matrix of a corpus, for NumPy or LIBSVM; rows are in the corpus's order.

    textsvm gram mails.tar.gz --kernel gap --p 4 -o K.npy

    textsvm gram r8/ --part test --against r8/ --against-part train -o test.libsvm
    """
    from dataclasses import replace

    from textsvm.estimators.svc import SVC
    from textsvm.gram import files

    console = Console(quiet)
    if against is None and against_part is not None:
        raise WrongUsage("--against-part needs --against")
    if output is None:
        raise WrongUsage("-o FILE is missing: where does the kernel matrix go?")
    options.require_folder(output)
    is_libsvm = output.suffix.lower() in files.LIBSVM
    if output.suffix.lower() != files.NPY and not is_libsvm:
        raise WrongUsage(f"-o {output}: the name must end in {files.NPY} or {', '.join(files.LIBSVM)}")
    chosen = kernel.one()
    model = machines.checked(lambda: SVC(chosen, device=device, **text_form.as_dict()))
    documents = options.read(console, corpus, reading, regress=regress)
    columns = documents
    if against is not None:
        columns = options.read(console, against, replace(reading, part=against_part), regress=regress)
    labels, names = _labels(documents) if is_libsvm else (None, [])
    clock = time.perf_counter()
    matrix, used = _matrix(console, model, documents, columns)
    seconds = {"gram": time.perf_counter() - clock}
    clock = time.perf_counter()
    files.write_gram(output, matrix, labels)
    seconds["write"] = time.perf_counter() - clock
    console.say_device(used)
    report = {
        "output": str(output), "rows": len(documents), "columns": len(columns), "labels": names,
        "kernel": {"name": chosen.name, **chosen.get_params()}, "device": used.description,
        "seconds": seconds,
    }  # fmt: skip
    print_json(report) if json else _show(console, report)


def _labels(corpus: Corpus) -> tuple[list[float] | None, list[str]]:
    """Labels as numbers, and the names of the numbers from 1 unless the labels are numbers themselves."""
    if corpus.targets is None and corpus.labels is None:
        return None, []
    found = options.targets(corpus)
    try:
        return [float(label) for label in found], []
    except ValueError:
        names = sorted({str(label) for label in found})
        return [float(1 + names.index(str(label))) for label in found], names


def _matrix(console: Console, model: KernelMachine, documents: Corpus, columns: Corpus) -> tuple[Any, Device]:
    """The kernel values of all documents with all columns, where they were computed."""
    from textsvm.device import select

    device = select(model.device)
    _require_memory(4 * len(documents) * len(columns), device)
    with console.progress():
        if columns is documents:
            model.memory = 4 * len(documents) ** 2
            gram = model.prepare(documents.texts, console.stage).gram
            return gram.window().values, device
        with model.at_work(device):
            encoded = model.encode(columns.texts, None, console.stage)
            kernel = model.make_kernel().fit(encoded)
            others = model.encode(documents.texts, encoded.alphabet, console.stage)
            rows = kernel.rows(encoded, device)
            return rows.cross(others, lambda done, total: console.stage("gram", done, total)), device


def _require_memory(needed: int, device: Device) -> None:
    from textsvm.device import free_memory
    from textsvm.gram.plan import show_bytes

    free = free_memory(device)
    if needed > free:
        raise InputError(
            f"the kernel matrix takes {show_bytes(needed)} and {show_bytes(free)} are free on "
            f"{device.description}; use fewer documents, such as one --part"
        )


def _show(console: Console, report: dict[str, Any]) -> None:
    rows = [
        ("kernel", kernels.describe(report["kernel"])),
        ("rows", f"{report['rows']:,}"),
        ("columns", f"{report['columns']:,}"),
        ("device", report["device"]),
        ("seconds", ", ".join(f"{stage} {value:.2f}" for stage, value in report["seconds"].items())),
    ]
    if report["labels"]:
        rows.append(
            ("labels", ", ".join(f"{number} {name}" for number, name in enumerate(report["labels"], 1)))
        )
    console.table(f"kernel matrix {report['output']}", rows)
