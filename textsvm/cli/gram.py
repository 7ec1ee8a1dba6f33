"""textsvm gram and textsvm features: the kernel matrix or the feature matrix of a corpus -> a file."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textsvm.cli import kernels, machines, options
from textsvm.cli.console import Console, WrongUsage, json_line, wrong_usage
from textsvm.cli.options import option_field
from textsvm.cli.output import LIBSVM, NAMES, NPY, NPZ, STDOUT, VECTORS, Force, Output
from textsvm.errors import InputError
from textsvm.kernels.spelling import spell

if TYPE_CHECKING:
    from textsvm.estimators.features import SpectrumFeatures


@dataclass(frozen=True)
class GramOptions:
    """Kernel matrix and its file or store."""

    kernel: kernels.KernelOptions
    text: machines.TextOptions
    cluster: machines.ClusterOptions
    output: Path | None = option_field(
        "Output file: .npy (- is stdout), or .libsvm or .txt for LIBSVM.", "--output", "-o"
    )
    store: options.StoreFolder = None
    force: Force = False
    against: Path | None = option_field(
        "Columns for the documents of this (training) corpus, instead of the rows'."
    )
    against_part: str | None = option_field("Use only this part of --against: train or test.")
    device: options.Device = "auto"

    def checked(self, corpus: list[Path]) -> Output | None:
        """Output file, None for a store alone; raises WrongUsage."""
        from textsvm.gram import files

        self.cluster.check()
        if self.against is None and self.against_part is not None:
            raise WrongUsage("--against-part needs --against")
        if self.store is not None and self.against is not None:
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
        return output.checked({"the corpus": corpus, "the corpus of --against": self.against})


@options.with_groups
def gram(
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    matrix: GramOptions,
    printing: options.PrintingOptions,
    regress: options.Regress = None,
) -> None:
    """Write the normalised kernel matrix of a corpus for NumPy or LIBSVM, with rows in corpus order.

    With --store alone it is computed in that folder, for later use by `train`, `tune` and `cv`.

    textsvm gram mails.tar.gz --kernel gap:4 -o K.npy

    textsvm gram r8/ --part test --against r8/ --against-part train -o test.libsvm

    textsvm gram mails.tar.gz --kernel gap:4 --store grams/
    """
    from textsvm.cli import corpora, estimators, matrices, model_files
    from textsvm.gram import files
    from textsvm.model.settings import ClassifierSettings, Compute, Settings

    output = matrix.checked(corpus)
    console = Console(printing.quiet, output is not None and output.is_stdout)
    kernel, compute = matrix.kernel.single(), Compute(store=matrix.store)
    settings: Settings = estimators.checked(
        lambda: ClassifierSettings(kernel, device=matrix.device, compute=compute, **matrix.text.as_dict())
    )
    learning = options.NoLearningOptions(regress)
    documents = columns = corpora.read(console, corpus, reading, learning, kernel=settings.kernel)
    settings = model_files.settle(console, settings, matrix.kernel.named, documents)
    if matrix.against is not None:
        reading = replace(reading, part=matrix.against_part)
        columns = corpora.read(console, matrix.against, reading, learning, kernel=settings.kernel)
    for_libsvm = output is not None and output.kind is LIBSVM
    labels, names = matrices.labels_of(documents) if for_libsvm else (None, [])
    clock = time.perf_counter()
    if output is None:
        description, used = matrices.stored(console, settings, documents)
        seconds = {"gram": time.perf_counter() - clock}
        console.say(f"kernel matrix: {description}")
    else:
        with matrix.cluster.at_work(console, settings.compute_options.store):
            values, used = matrices.between(console, settings, documents, columns)
        seconds = {"gram": time.perf_counter() - clock}
        clock = time.perf_counter()
        with output.place() as path:
            files.write_gram(path, values, labels)
        seconds["write"] = time.perf_counter() - clock
    matrices.report_matrix(
        console, printing.json, "kernel matrix", settings.new_kernel(), used,
        output=str(output.path if output else matrix.store), rows=len(documents), columns=len(columns),
        labels=names, seconds=seconds,
    )  # fmt: skip


@dataclass(frozen=True)
class FeatureFiles:
    """Input and output files of the features."""

    output: Path | None = option_field(
        "Output file: .npz for scipy.sparse.load_npz (- is stdout), or .libsvm.", "--output", "-o"
    )
    like: Path | None = option_field(
        "Use columns, idf weights and options of this file, which `textsvm features` wrote for the "
        "training texts.",
        metavar="FILE",
    )
    names: Path | None = option_field(
        "Write the name of each column, a JSON string per line.", metavar="FILE"
    )
    force: Force = False

    def checked(self, corpus: list[Path]) -> tuple[Output, Output | None]:
        """Matrix and names; raises WrongUsage."""
        from textsvm.readers.libsvm import SUFFIXES

        if self.output is None:
            raise WrongUsage("-o FILE is missing")
        suffix = self.output.suffix.lower()
        if self.output != STDOUT and suffix not in (NPZ.suffix, *SUFFIXES):
            raise WrongUsage(
                f"-o {self.output}: the name must end in {NPZ.suffix}, or for LIBSVM in {', '.join(SUFFIXES)}"
            )
        if self.output == self.names:
            raise WrongUsage("-o and --names must be different files")
        inputs: dict[str, Path | list[Path] | None] = {"the corpus": corpus, "the file of --like": self.like}
        kind = VECTORS if suffix in SUFFIXES else NPZ
        output = Output("-o", self.output, kind, self.force).checked(inputs)
        if self.names is None:
            return output, None
        matrix = {} if output.is_stdout else {"the matrix": self.output}
        return output, Output("--names", self.names, NAMES, self.force).checked(inputs | matrix)


@dataclass(frozen=True)
class FeatureOptions:
    """Columns and values of the features."""

    kernel: kernels.KernelOptions
    text: machines.TextOptions
    min_df: str | None = option_field(
        "Minimum document frequency: a number, or a share such as 0.01 (default: 1).",
        metavar="NUMBER",
        panel=options.KERNEL_PANEL,
    )
    device: options.Device = "auto"

    def model(self, like: Path | None) -> SpectrumFeatures:
        """Transformer that the options describe, or the fitted transformer of a file."""
        from textsvm.estimators.features import SpectrumFeatures, read_features
        from textsvm.runtime.device import select

        others = self.text.as_dict() | self._least()
        if like is not None:
            for name, value in {**vars(self.kernel), **others}.items():
                if value not in (None, False) or name == "punctuation":
                    option = "drop-punctuation" if name == "punctuation" else name.replace("_", "-")
                    raise WrongUsage(f"--{option} does not go with --like, whose file contains all options")
        with wrong_usage():
            if like is None:
                model = SpectrumFeatures(**self._of_kernel(), **others, device=self.device)
            else:
                model = read_features(like).set_params(device=self.device)
            model.check()
            select(model.device)
        return model

    def _of_kernel(self) -> dict[str, Any]:
        kernel = self.kernel.single()
        parameters = kernel.get_params(deep=False)
        if kernel.name != "spectrum":
            raise WrongUsage(
                f"the kernel {spell(kernel)} has no such features; use one spectrum kernel, such as "
                "--kernel spectrum:1-5,log,idf"
            )
        if parameters.pop("odds"):
            raise WrongUsage("odds needs classes, which features do not use; leave it out of --kernel")
        return parameters

    def _least(self) -> dict[str, float]:
        if self.min_df is None:
            return {}
        try:
            return {"min_df": int(self.min_df) if self.min_df.isdecimal() else float(self.min_df)}
        except ValueError:
            raise WrongUsage(f"--min-df must be a number, got {self.min_df}") from None


@partial(options.with_groups, without={"numbers", "vectors"})
def features(
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    columns: FeatureOptions,
    file: FeatureFiles,
    printing: options.PrintingOptions,
    regress: options.Regress = None,
) -> None:
    """Write the weighted substrings or words of a corpus as a sparse matrix for other tools.

    Rows are in corpus order. scipy.sparse.load_npz reads a .npz file; numpy.load also gives the `ids` and
    `labels` of its rows. A .libsvm file is for svm-train, with numbers as labels.

    textsvm features r8/ --part train --kernel spectrum:1-5,log,idf --min-df 2 -o train.npz

    textsvm features r8/ --part test --like train.npz -o test.npz
    """
    import numpy as np

    from textsvm.cli import corpora, matrices
    from textsvm.estimators.features import write_features
    from textsvm.readers.libsvm import write_libsvm
    from textsvm.runtime.device import select

    output, names = file.checked(corpus)
    model = columns.model(file.like)
    console = Console(printing.quiet, output.is_stdout or (names is not None and names.is_stdout))
    documents = corpora.read(console, corpus, reading, options.NoLearningOptions(regress))
    if documents.examples is not documents.texts:
        raise InputError(f"{documents.source} must hold only texts; name a text column with --text")
    labels, numbered = matrices.labels_of(documents) if output.kind is VECTORS else (None, [])
    clock = time.perf_counter()
    with console.progress():
        learn = model.fit_transform if file.like is None else model.transform
        matrix = learn(documents.texts, progress=console.stage)
    seconds = {"features": time.perf_counter() - clock}
    clock = time.perf_counter()
    if output.kind is VECTORS:
        with output.place() as path:
            write_libsvm(path, matrix, labels)
    else:
        about = {"ids": np.array(documents.ids, str)}
        if documents.targets is not None:
            about["labels"] = np.array(documents.targets, np.float64)
        elif documents.labels is not None:
            joined = [";".join(label) if isinstance(label, tuple) else label for label in documents.labels]
            about["labels"] = np.array(joined, str)
        with output.place() as path:
            write_features(path, matrix, about, model if file.like is None else None)
    if names is not None:
        names.write_lines(map(json_line, model.get_feature_names_out()))
    seconds["write"] = time.perf_counter() - clock
    matrices.report_matrix(
        console, printing.json, "features", model.new_kernel(), select(model.device),
        output=str(output.path), rows=matrix.shape[0], columns=matrix.shape[1], entries=matrix.nnz,
        min_df=model.min_df, like=file.like and str(file.like), labels=numbered, seconds=seconds,
    )  # fmt: skip
