"""textsvm features: the features of a corpus -> a sparse matrix in a file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import gram, kernels, machines, options
from textsvm.cli.console import Console, WrongUsage, json_line
from textsvm.cli.output import NAMES, NPZ, STDOUT, VECTORS, Force, Output
from textsvm.errors import InputError
from textsvm.kernels.spelling import spell

if TYPE_CHECKING:
    from textsvm.estimators.features import SpectrumFeatures
    from textsvm.readers import Corpus


@dataclass(frozen=True)
class Files:
    """What is written, and whose columns it has."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where it goes: a .npz file for scipy.sparse.load_npz (- is stdout), or .libsvm for LIBSVM.",
        ),
    ] = None
    like: Annotated[
        Path | None,
        typer.Option(
            help="A file that this command made of the training texts: take its columns, its idf weights and "
            "all its options.",
            metavar="FILE",
        ),
    ] = None
    names: Annotated[
        Path | None,
        typer.Option(help="Write what each column stands for, a JSON string a line.", metavar="FILE"),
    ] = None
    force: Force = False

    def checked(self, corpus: list[Path]) -> tuple[Output, Output | None]:
        """The outputs; wrong usage, before any work."""
        from textsvm.readers.libsvm import SUFFIXES

        if self.output is None:
            raise WrongUsage("-o FILE is missing: where does the matrix go?")
        suffix = self.output.suffix.lower()
        if self.output != STDOUT and suffix not in (NPZ.suffix, *SUFFIXES):
            raise WrongUsage(
                f"-o {self.output}: the name must end in {NPZ.suffix}, or for LIBSVM in {', '.join(SUFFIXES)}"
            )
        if self.output == self.names:
            raise WrongUsage("-o and --names are the same; name another file")
        inputs: dict[str, Path | list[Path] | None] = {"the corpus": corpus, "the file of --like": self.like}
        kind = VECTORS if suffix in SUFFIXES else NPZ
        output = Output("-o", self.output, kind, self.force)
        output.check(inputs)
        if self.names is None:
            return output, None
        names = Output("--names", self.names, NAMES, self.force)
        names.check(inputs | ({} if output.is_stdout else {"the matrix": self.output}))
        return output, names


@dataclass(frozen=True)
class Columns:
    """Which substrings have columns, and what stands in them."""

    kernel: kernels.KernelOptions
    text: machines.TextOptions
    min_df: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Leave out what fewer documents hold: a number, or a share such as 0.01 (default: 1).",
            rich_help_panel=kernels.PANEL,
        ),
    ] = None
    device: options.Device = "auto"

    def model(self, like: Path | None) -> SpectrumFeatures:
        """As the options describe it, or fitted from a file."""
        from textsvm.estimators.features import SpectrumFeatures, read_features

        if like is None:
            given = self.text.as_dict() | self._least() | {"device": self.device}
            return machines.checked(lambda: SpectrumFeatures(**self._of_kernel(), **given))
        others = {**vars(self.kernel), **self.text.as_dict(), **self._least()}
        for name, value in others.items():
            if value not in (None, False) or name == "punctuation":
                shown = "drop-punctuation" if name == "punctuation" else name.replace("_", "-")
                raise WrongUsage(f"--{shown} does not go with --like, whose file has all options in itself")
        return machines.checked(lambda: read_features(like).set_params(device=self.device))

    def _of_kernel(self) -> dict[str, Any]:
        kernel = self.kernel.one()
        given = kernel.get_params(deep=False)
        if kernel.name != "spectrum":
            raise WrongUsage(
                f"the kernel {spell(kernel)} has no such features; they are those of one spectrum kernel, "
                "such as --kernel spectrum:1-5,log,idf"
            )
        if given.pop("odds"):
            raise WrongUsage("--odds are learnt from classes, and features know no classes; leave them out")
        return given

    def _least(self) -> dict[str, float]:
        if self.min_df is None:
            return {}
        try:
            return {"min_df": int(self.min_df) if self.min_df.isdecimal() else float(self.min_df)}
        except ValueError:
            raise WrongUsage(f"--min-df {self.min_df} is no number") from None


@options.with_groups
def features(
    corpus: options.CorpusPath,
    reading: options.Reading,
    columns: Columns,
    file: Files,
    printing: options.Printing,
    regress: options.Regress = None,
) -> None:
    """Write the features of a corpus, its weighed substrings or words, as a sparse matrix for other tools.

    Rows are in the corpus's order. The file is that of scipy.sparse.load_npz; numpy.load finds `ids` and
    `labels` of the rows in it as well. Named .libsvm it is for svm-train, labels being numbers.

    textsvm features r8/ --part train --kernel spectrum:1-5,log,idf --min-df 2 -o train.npz

    textsvm features r8/ --part test --like train.npz -o test.npz
    """
    from textsvm.readers.libsvm import write_libsvm
    from textsvm.runtime.device import select

    output, names = file.checked(corpus)
    model = columns.model(file.like)
    console = Console(printing.quiet, output.is_stdout or (names is not None and names.is_stdout))
    documents = options.read(console, corpus, reading, options.Learning(regress))
    if documents.examples is not documents.texts:
        raise InputError(
            f"{documents.source} does not hold texts alone, of which features are made; name one --text"
        )
    labels, numbered = gram.labels_of(documents) if output.kind is VECTORS else (None, [])
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
        _write(output, matrix, documents, model if file.like is None else None)
    if names is not None:
        _write_names(names, model)
    seconds["write"] = time.perf_counter() - clock
    used, kernel = select(model.device), model.make_kernel()
    console.say_device(used)
    report = {
        "output": str(output.path), "rows": matrix.shape[0], "columns": matrix.shape[1],
        "entries": matrix.nnz, "kernel": kernel.structure.as_dict(), "kernel_spelled": spell(kernel),
        "min_df": model.min_df, "like": None if file.like is None else str(file.like),
        "labels": numbered, "device": used.description, "seconds": seconds,
    }  # fmt: skip
    console.print_json(report) if printing.json else _show(console, report)


def _write(output: Output, matrix: Any, documents: Corpus, model: SpectrumFeatures | None) -> None:
    import numpy as np

    from textsvm.estimators.features import write_features

    about = {"ids": np.array(documents.ids, str)}
    if documents.targets is not None:
        about["labels"] = np.array(documents.targets, np.float64)
    elif documents.labels is not None:
        joined = [";".join(each) if isinstance(each, tuple) else each for each in documents.labels]
        about["labels"] = np.array(joined, str)
    with output.place() as path:
        write_features(path, matrix, about, model)


def _write_names(output: Output, model: SpectrumFeatures) -> None:
    from textsvm.runtime.files import replacing

    # What "backslashreplace" makes of a lone surrogate is JSON's.
    utf8: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    with output.place() as path, replacing(path) as temporary, open(temporary, "w", **utf8) as stream:
        stream.writelines(map(json_line, model.get_feature_names_out()))


def _show(console: Console, report: dict[str, Any]) -> None:
    rows = [
        ("kernel", report["kernel_spelled"]),
        ("rows", f"{report['rows']:,}"),
        ("columns", f"{report['columns']:,}" + (f", of {report['like']}" if report["like"] else "")),
        ("entries", f"{report['entries']:,}"),
        ("device", report["device"]),
        ("seconds", ", ".join(f"{stage} {value:.2f}" for stage, value in report["seconds"].items())),
    ]
    if report["labels"]:
        rows.append(("labels", gram.shown_labels(report["labels"])))
    console.table(f"features {report['output']}", rows)
