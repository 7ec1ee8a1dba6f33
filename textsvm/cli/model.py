"""textsvm model: what a model file has."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textsvm.cli import options
from textsvm.cli.console import Console
from textsvm.cli.options import option
from textsvm.errors import InputError
from textsvm.exporting import files
from textsvm.exporting.plain import PlainModel, machine_of, plain_model
from textsvm.exporting.small import Reduction, accuracy_before_and_after, reduced_model
from textsvm.model.file import load

if TYPE_CHECKING:
    from textsvm.arrays import Json
    from textsvm.cli.model_files import Model

#: Bytes of a page that is slow to load.
LARGE_PAGE = 10_000_000

FormatOption = Annotated[
    str | None,
    option(
        "c: C source; js: a JavaScript module with types and WebAssembly; page: an HTML page that "
        "classifies texts as you type; json; onnx: for onnxruntime; bin: the file that C "
        "and JavaScript read. Default: by the suffix of the output, .html, .json, .onnx or .bin.",
        "--to", metavar="FORMAT",
    ),
]  # fmt: skip

MaxSize = Annotated[
    str | None,
    option(
        "Largest model file, such as 500kB or 2MB: strings with little effect are left out, weights rounded.",
        "--max-size", metavar="SIZE",
    ),
]  # fmt: skip
HeldOut = Annotated[
    Path | None,
    option(
        "Corpus by which --max-size chooses, instead of the support vectors; with labels, accuracy is shown.",
        "--texts", metavar="CORPUS",
    ),
]  # fmt: skip


def model(
    model: options.ModelPath,
    check: Annotated[bool, option("Only check the digest; exit code 1 if it is wrong.", "--check")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the contents of a model file: kernel, classes, support vectors, sizes, digest, training options.

    The file is read and checked as in `predict`. With --check a file without a digest has exit code 1 too.
    """
    from textsvm.model.file import describe
    from textsvm.runtime.plain_json import to_json

    console, contents = Console(quiet), describe(model)
    if check and contents["digest"] is None:
        raise InputError(f"{model} has no digest, so damage cannot be detected; save it again")
    if json:
        console.print_json(to_json(contents))
    elif check:
        console.line(f"{model} is whole: blake2b {contents['digest']}")
    else:
        _show(console, contents)


def _show(console: Console, contents: Json) -> None:
    classes, calibration = contents["classes"], contents["calibration"]
    facts = {
        "file": f"{contents['file']}, {contents['bytes']:,} bytes",
        "digest": contents["digest"] or "none: written by an older version",
        "format": f"{contents['format_version']}, written by {contents['written_by']}",
        "estimator": f"{contents['estimator']} ({_listed(contents['parameters'])})",
        "kernel": contents["kernel_line"],
        "classes": None if classes is None else f"{len(classes):,}: {_few(classes)}",
        "support vectors": _few([f"{count:,}" for count in contents["n_support"] or []]),
        "texts": "training texts are in it" if contents["texts"] else "none of the training texts",
        "calibration": _listed(calibration) if calibration else "none",
    }
    console.table("model", [(name, fact) for name, fact in facts.items() if fact is not None])
    arrays = contents["arrays"]
    rows = [(array["name"], array["dtype"], _shape(array), f"{array['bytes']:,}") for array in arrays]
    console.table("arrays", rows, ("name", "type", "shape", "bytes"))
    info = {name: value for name, value in contents["info"].items() if value is not None}
    if info:
        console.table("training", [(name, _short(value)) for name, value in info.items()])


def _listed(values: Json) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in values.items())


def _few(values: list[Any], most: int = 10) -> str:
    more = f" and {len(values) - most:,} more" if len(values) > most else ""
    return ", ".join(_short(value) for value in values[:most]) + more


def _shape(array: Json) -> str:
    return " x ".join(f"{size:,}" for size in array["shape"]) or "1"


def _short(value: Any, most: int = 60) -> str:
    """Value as text, long lists as their sizes."""
    if isinstance(value, list | dict) and len(value) > 10:
        return f"{len(value):,} entries"
    text = _listed(value) if isinstance(value, dict) else str(value)
    return text if len(text) <= most else text[: most - 3] + "..."


@options.with_groups
def export(
    model: options.ModelPath,
    printing: options.PrintingOptions,
    to: FormatOption = None,
    output: Annotated[Path | None, option("Folder for c and js, else a file.", "--output", "-o")] = None,
    force: Annotated[bool, option("Replace existing files.", "--force")] = False,
    max_size: MaxSize = None,
    texts: HeldOut = None,
) -> None:
    """Write a model for programs without Python: C, JavaScript and WebAssembly, an HTML page, ONNX, or JSON.

    Models of texts with the kernels spectrum, words, gapped and bounded-gap, with edit and gap if they have
    at most 4,000 support vectors, and with sums of these, as the default. Decision values and labels are
    those of `predict`. docs/tasks/export.md shows how to use the files.

    textsvm export spam.textsvm --to c -o spam-in-c

    textsvm export spam.textsvm --to js -o site/spam

    textsvm export spam.textsvm -o spam.html

    textsvm export spam.textsvm -o spam.bin --max-size 500kB --texts held-out.csv
    """
    if output is None or output == STDOUT:
        raise WrongUsage("-o PATH is missing: a folder for c and js, else a file")
    with wrong_usage():
        to = files.check_target(output, to, force, max_size)
    if texts is not None and max_size is None:
        raise WrongUsage("--texts needs --max-size, the largest size of the model file")
    paths = files.paths_of(output, to)
    if any(path.exists() and model.exists() and path.samefile(model) for path in paths):
        raise WrongUsage(f"-o {output} would replace the model, {model}; name another path")
    console, clock = Console(printing.quiet), time.perf_counter()
    console.say(f"exporting {model}")
    fitted = load(model)
    plain, reduction = plain_model(fitted), None
    facts: Json = {}
    if max_size is not None:
        reduction, facts = _reduce(console, fitted, plain, max_size, texts)
    paths = files.write_plain_model(plain, output, to, None if reduction is None else reduction.content)
    sizes = {str(path): path.stat().st_size for path in paths}
    if printing.json:
        console.print_json({"files": sizes, "seconds": time.perf_counter() - clock, **facts})
        return
    for path, size in sizes.items():
        console.line(f"{path}  {size:,} bytes")
    if to == "page" and max(sizes.values()) > LARGE_PAGE:
        console.say(f"note: a page of {max(sizes.values()) / 1e6:.0f} MB is slow to load{_advice(plain)}")
    if reduction is not None:
        _show_reduction(console, reduction, facts)


def _advice(plain: PlainModel) -> str:
    return "" if plain.has_pairs else "; --max-size 5MB makes the model in it smaller"


def _reduce(
    console: Console, fitted: Model, plain: PlainModel, max_size: str, texts: Path | None
) -> tuple[Reduction, Json]:
    """The smaller model file, and facts about it."""
    from textsvm.cli import corpora, model_files

    examples = None
    truth: list[Any] = []
    if texts is not None:
        training = model_files.Training.of(fitted)
        reading = options.ReadingOptions(
            positive=training.positive, negative=training.negative, headers=training.headers
        )
        documents = corpora.read(
            console, texts, reading, options.NoLearningOptions(),
            kernel=machine_of(fitted).kernel_, recorded=training.columns,
        )  # fmt: skip
        examples, truth = model_files.examples_for(fitted, documents), documents.labels or []
    with console.progress():
        reduction = reduced_model(fitted, plain, max_size, examples, console.progress_of("count"))
    facts = {
        "strings": reduction.n_strings, "bits": reduction.bits,
        "difference": dict(zip(("rms", "largest"), reduction.difference, strict=True)),
    }  # fmt: skip
    if truth and plain.task == "classes":
        facts["accuracy"] = accuracy_before_and_after(fitted, reduction, truth)
    return reduction, facts


def _show_reduction(console: Console, reduction: Reduction, facts: Json) -> None:
    (before, after), (weights, tags) = reduction.n_strings, reduction.bits
    rms, largest = reduction.difference
    console.line(f"{after:,} of {before:,} strings, weights of {weights} bits, tags of {tags} bits")
    console.line(f"decision values differ by {rms:.3g} (root mean square), at most {largest:.3g}")
    if "accuracy" in facts:
        of_whole, of_small = (f"{100 * share:.2f} %" for share in facts["accuracy"])
        console.line(f"accuracy on the texts: {of_whole} before, {of_small} after")
