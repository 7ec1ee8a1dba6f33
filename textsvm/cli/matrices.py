"""Kernel matrices and other matrices that commands write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from textsvm.arrays import AnyArray
from textsvm.cli import corpora
from textsvm.cli.console import Console, seconds_row
from textsvm.errors import InputError
from textsvm.gram.build import stored_rows
from textsvm.gram.plan import show_bytes
from textsvm.kernels import Kernel
from textsvm.kernels.spelling import spell
from textsvm.linalg.vectors import Vectors
from textsvm.model.settings import Settings
from textsvm.readers.corpus import Corpus
from textsvm.runtime.device import Device, free_memory, select
from textsvm.runtime.parallel import of_stage
from textsvm.training.grams import gram_request
from textsvm.training.train import prepare


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


def stored(console: Console, settings: Settings, documents: Corpus) -> tuple[str, Device]:
    """Compute the missing part of a stored kernel matrix; returns its description and the device."""
    device, source, store = select(settings.device), settings.source, settings.compute_options.store
    with console.work(store), settings.at_work(device):
        encoded = source.encode(source.validate(documents.examples), None, console.stage)
        kernel = source.kernel_for(encoded)
        kernel.fit(kernel.structure.read(encoded), device)
        request = gram_request(settings, kernel, encoded, device)
        rows = stored_rows(str(store), request, None, of_stage(console.stage, "gram"))
        return rows.description, device


def between(
    console: Console, settings: Settings, documents: Corpus, columns: Corpus
) -> tuple[AnyArray, Device]:
    """Kernel values of all documents with all columns, and the device."""
    device, source = select(settings.device), settings.source
    # A sum needs the result and a matrix per level of its parts.
    matrices = 1 + settings.new_kernel().structure.depth
    require_memory(4 * len(documents) * len(columns) * matrices, device)
    if columns is documents:
        # There is room for the whole matrix.
        compute = replace(settings.compute_options, memory=1 << 62)
        gram = prepare(replace(settings, compute=compute), documents.examples, console.stage).gram
        return gram.window().values, device
    with settings.at_work(device):
        encoded = source.encode(source.validate(columns.examples), None, console.stage)
        kernel = source.kernel_for(encoded)
        kernel.fit(kernel.structure.read(encoded), device)
        n_features = encoded.n_features if isinstance(encoded, Vectors) else None
        examples = source.validate(documents.examples, n_features)
        others = kernel.structure.read(source.encode(examples, encoded, console.stage))
        rows = kernel.rows(kernel.structure.read(encoded), device)
        return rows.cross(others, console.progress_of("gram")), device


def require_memory(needed: int, device: Device) -> None:
    """Raise InputError if a device has less free memory than a kernel matrix needs."""
    free = free_memory(device)
    if needed > free:
        cpu = "run with --device cpu, or " if device.kind == "cuda" else ""
        raise InputError(
            f"the kernel matrix takes {show_bytes(needed)} and {show_bytes(free)} are free on "
            f"{device.description}; {cpu}use fewer documents, such as one --part"
        )


def report_matrix(
    console: Console, json: bool, title: str, kernel: Kernel, device: Device, **facts: Any
) -> None:
    """Print the facts of a command that has written a matrix."""
    console.say_device(device)
    described = {"kernel": kernel.structure.as_dict(), "kernel_spelled": spell(kernel)}
    if json:
        console.print_json({**facts, **described, "device": device.description})
        return
    of = f", of {facts['like']}" if facts.get("like") else ""
    rows = [
        ("kernel", spell(kernel)),
        ("rows", f"{facts['rows']:,}"),
        ("columns", f"{facts['columns']:,}{of}"),
    ]
    rows += [(name, f"{facts[name]:,}") for name in ("entries", "pairs") if name in facts]
    rows += [("device", device.description), seconds_row(facts["seconds"])]
    if facts.get("labels"):
        rows.append(("labels", ", ".join(f"{i} {name}" for i, name in enumerate(facts["labels"], 1))))
    console.table(f"{title} {facts['output']}", rows)
