"""textsvm gram: the kernel matrix of a corpus -> a file."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from textsvm.cli import kernels, machines, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option_field
from textsvm.cli.output import LIBSVM, NPY, STDOUT, Force, Output


@dataclass(frozen=True)
class MatrixFile:
    """File or store of the kernel matrix."""

    output: Path | None = option_field(
        "Output file: .npy (- is stdout), or .libsvm or .txt for LIBSVM.", "--output", "-o"
    )
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

    columns: Path | None = option_field(
        "Columns for the documents of this (training) corpus, instead of the rows'.", "--against"
    )
    part_of_columns: str | None = option_field(
        "Use only this part of --against: train or test.", "--against-part"
    )


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
    from textsvm.cli import corpora, estimators, matrices
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
    model = estimators.checked(
        lambda: Classifier(kernel, device=values.device, compute=Compute(store=file.store), **text)
    )
    learning = options.NoLearningOptions(regress)
    documents = columns = corpora.read(console, corpus, reading, learning, kernel=model.kernel)
    corpora.settle(console, model, values.kernel.named, documents)
    kernel = model.kernel
    if against.columns is not None:
        reading = replace(reading, part=against.part_of_columns)
        columns = corpora.read(console, against.columns, reading, learning, kernel=kernel)
    for_libsvm = output is not None and output.kind is LIBSVM
    labels, names = matrices.labels_of(documents) if for_libsvm else (None, [])
    clock = time.perf_counter()
    if output is None:
        description, used = matrices.stored(console, model, documents)
        seconds = {"gram": time.perf_counter() - clock}
        console.say(f"kernel matrix: {description}")
    else:
        with values.cluster.at_work(console, model.compute_options.store):
            matrix, used = matrices.between(console, model, documents, columns)
        seconds = {"gram": time.perf_counter() - clock}
        clock = time.perf_counter()
        with output.place() as path:
            files.write_gram(path, matrix, labels)
        seconds["write"] = time.perf_counter() - clock
    matrices.report_matrix(
        console, printing.json, "kernel matrix", kernel, used,
        output=str(output.path if output else file.store), rows=len(documents), columns=len(columns),
        labels=names, seconds=seconds,
    )  # fmt: skip
