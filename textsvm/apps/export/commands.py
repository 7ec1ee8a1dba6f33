"""textsvm export: files of a model for programs without Python."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from textsvm import TrainedModel, load
from textsvm.apps.export import files
from textsvm.apps.export.plain import PlainModel, plain_model
from textsvm.apps.export.small import Reduction, accuracy_before_and_after
from textsvm.arrays import Json
from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage, wrong_usage
from textsvm.cli.options import option, option_field
from textsvm.cli.output import STDOUT

#: Bytes of a page that is slow to load.
LARGE_PAGE = 10_000_000

FormatOption = Annotated[
    str | None,
    option(
        "c: C source; js: a JavaScript module with types and WebAssembly; page: an HTML page that "
        "classifies texts as you type; onnx: for onnxruntime; bin: the file that C "
        "and JavaScript read. Default: by the suffix of the output, .html, .onnx or .bin.",
        "--to", metavar="FORMAT",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class ContentOptions:
    """Size of the model file, and texts of a page."""

    max_size: str | None = option_field(
        "Largest model file, such as 500kB or 2MB: strings with little effect are left out, weights rounded.",
        metavar="SIZE",
    )
    texts: Path | None = option_field(
        "Corpus by which strings are chosen, instead of the support vectors; with labels, accuracy is shown.",
        metavar="CORPUS",
    )
    title: str | None = option_field("Page: title.")


@options.with_groups
def export(
    model: options.ModelPath,
    printing: options.PrintingOptions,
    content: ContentOptions,
    to: FormatOption = None,
    output: Annotated[Path | None, option("Folder for c and js, else a file.", "--output", "-o")] = None,
    force: Annotated[bool, option("Replace existing files.", "--force")] = False,
) -> None:
    """Write a model for programs without Python: C, JavaScript and WebAssembly, an HTML page, or ONNX.

    Models of texts with the kernels spectrum, words, gapped and bounded-gap, and with sums of these, as the
    default. Decision values and labels are those of `predict`. The files begin with comments that show how to
    use them.

    textsvm export spam.textsvm --to c -o spam-in-c

    textsvm export spam.textsvm --to js -o site/spam

    textsvm export spam.textsvm -o spam.html

    textsvm export spam.textsvm -o spam.bin --max-size 500kB --texts held-out.csv
    """
    if output is None or output == STDOUT:
        raise WrongUsage("-o PATH is missing: a folder for c and js, else a file")
    max_size, texts = content.max_size, content.texts
    with wrong_usage():
        to = files.check_target(output, to, force, max_size)
    if texts is not None and max_size is None and to != "page":
        raise WrongUsage("--texts needs --max-size, the largest size of the model file")
    paths = files.paths_of(output, to)
    if any(path.exists() and model.exists() and path.samefile(model) for path in paths):
        raise WrongUsage(f"-o {output} would replace the model, {model}; name another path")
    console, clock = Console(printing.quiet), time.perf_counter()
    console.say(f"exporting {model}")
    fitted = load(model)
    plain = plain_model(fitted, smaller=to == "page" or max_size is not None)
    reduction, facts = _reduce(console, fitted, plain, to, max_size, texts)
    paths = files.write_plain_model(plain, output, to, reduction, content.title)
    sizes = {str(path): path.stat().st_size for path in paths}
    if printing.json:
        console.print_json({"files": sizes, "seconds": time.perf_counter() - clock, **facts})
        return
    for path, size in sizes.items():
        console.line(f"{path}  {size:,} bytes")
    if plain.columns:
        console.line(f"texts in the order of the columns {', '.join(plain.columns)}")
    if to == "page" and max(sizes.values()) > LARGE_PAGE:
        n_bytes = max(sizes.values())
        advice = "--max-size 5MB makes the model in it smaller"
        console.say(f"note: a page of {n_bytes / 1e6:.0f} MB is slow to load; {advice}")
    if reduction is None:
        return
    console.line(reduction.loss.replace("; ", "\n"))
    if max_size is None:
        console.say("note: so the page has less than 2 MB; --max-size sets another size of the model in it")
    if "accuracy" in facts:
        of_whole, of_small = (f"{100 * share:.2f} %" for share in facts["accuracy"])
        console.line(f"accuracy on the texts: {of_whole} before, {of_small} after")


def _reduce(
    console: Console, fitted: TrainedModel, plain: PlainModel, to: str, size: str | None, texts: Path | None
) -> tuple[Reduction | None, Json]:
    """The smaller model file, if it has to be smaller, and facts about it."""
    from textsvm.cli import corpora, model_files

    held_out: Sequence[str] = ()
    truth: list[Any] = []
    if texts is not None:
        training = model_files.RecordedOptions.of(fitted)
        reading = options.ReadingOptions(
            positive=training.positive, negative=training.negative, headers=training.headers
        )
        documents = corpora.read(
            console, texts, reading, options.NoLearning(),
            kernel=fitted.kernel, recorded=training.columns,
        )  # fmt: skip
        held_out = model_files.examples_for(fitted, documents)[1]
        truth = documents.labels or []
    with console.progress():
        reduction = files.reduced(fitted, plain, to, size, held_out, console.progress_of("count"))
    if reduction is None:
        return None, {}
    facts = {
        "strings": reduction.n_strings, "bits": reduction.bits,
        "difference": dict(zip(("rms", "largest"), reduction.difference, strict=True)),
    }  # fmt: skip
    if truth and plain.task == "classes":
        facts["accuracy"] = accuracy_before_and_after(fitted, reduction, truth)
    return reduction, facts
