"""textsvm export: files of a model for programs without Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from textsvm import load
from textsvm.apps.export import files
from textsvm.apps.export.plain import plain_model
from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage, wrong_usage
from textsvm.cli.options import option
from textsvm.cli.output import STDOUT

LARGE_PAGE = 5_000_000  #: Bytes of a page that is slow to load

FormatOption = Annotated[
    str | None,
    option(
        "c: C source; js: a JavaScript module with types and WebAssembly; page: an HTML page that "
        "classifies texts as you type; onnx: for onnxruntime; bin: the file that C "
        "and JavaScript read. Default: by the suffix of the output, .html, .onnx or .bin.",
        "--to", metavar="FORMAT", autocompletion=lambda: [*files.FORMATS],
    ),
]  # fmt: skip


@options.with_groups
def export(
    model: options.ModelPath,
    printing: options.PrintingOptions,
    to: FormatOption = None,
    output: Annotated[Path | None, option("Folder for c and js, else a file.", "--output", "-o")] = None,
    force: Annotated[bool, option("Replace existing files.", "--force")] = False,
    title: Annotated[str | None, option("Page: title.", "--title")] = None,
) -> None:
    """Write a model for programs without Python: C, JavaScript and WebAssembly, an HTML page, or ONNX.

    Models of texts with the kernels spectrum, words, gapped and bounded-gap, and with sums of these, as the
    default. Decision values and labels are those of `predict`. The files begin with comments that show how to
    use them.

    textsvm export spam.textsvm --to c -o spam-in-c

    textsvm export spam.textsvm --to js -o site/spam

    textsvm export spam.textsvm -o spam.html
    """
    if output is None or output == STDOUT:
        raise WrongUsage("-o PATH is missing: a folder for c and js, else a file")
    with wrong_usage():
        to = files.check_target(output, to, force)
    paths = files.paths_of(output, to)
    if any(path.exists() and model.exists() and path.samefile(model) for path in paths):
        raise WrongUsage(f"-o {output} would replace the model, {model}; name another path")
    console = Console(printing.quiet)
    console.say(f"exporting {model}")
    fitted = load(model)
    plain = plain_model(fitted)
    console.lap("count")
    paths = files.write_plain_model(plain, output, to, title)
    sizes, seconds = {str(path): path.stat().st_size for path in paths}, console.lap("write")
    if printing.json:
        console.print_json({"files": sizes, "seconds": seconds})
        return
    for path, size in sizes.items():
        console.line(f"{path}  {size:,} bytes")
    if plain.columns:
        texts = [" + ".join(names) for names in plain.joined]
        console.line(f"texts in the order of the columns {', '.join(texts)}; + is a line break")
    reading = fitted.info.get("reading")
    columns = reading.get("text") if isinstance(reading, dict) else None
    if isinstance(columns, str) and "," in columns:
        console.line(f"a text is the columns {columns.replace(',', ' + ')}; + is a line break")
    if to == "page" and (n_bytes := max(sizes.values())) > LARGE_PAGE:
        advice = "a model of train --kernel fast has fewer strings"
        console.say(f"note: a page of {n_bytes / 1e6:.0f} MB is slow to load; {advice}")
