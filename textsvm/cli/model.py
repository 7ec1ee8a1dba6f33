"""textsvm model: what is in a model file, and whether it is whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from textsvm.cli import options
from textsvm.cli.console import Console


def model(
    model: options.ModelPath,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether it is whole: exit code 1 if it is not.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what is in a model file: kernel, classes, support vectors, sizes, digest, how it was trained.

    The file is read and checked as `predict` does. With --check a file without a digest, of an older version,
    has exit code 1, too: nobody can know of it.
    """
    console = Console(quiet)
    from textsvm.errors import InputError
    from textsvm.model.file import describe
    from textsvm.runtime.plain_json import to_json

    found = describe(model)
    if check and found["digest"] is None:
        raise InputError(f"{model} has no digest, so that nobody can know whether it is whole; save it again")
    if json:
        console.print_json(to_json(found))
    elif check:
        console.line(f"{model} is whole: blake2b {found['digest']}")
    else:
        _show(console, found)


def _show(console: Console, found: dict[str, Any]) -> None:
    classes, calibration = found["classes"], found["calibration"]
    facts = {
        "file": f"{found['file']}, {found['bytes']:,} bytes",
        "digest": found["digest"] or "none: written before models had one",
        "format": f"{found['format_version']}, written by {found['written_by']}",
        "estimator": f"{found['estimator']} ({_listed(found['parameters'])})",
        "kernel": found["kernel_line"],
        "classes": None if classes is None else f"{len(classes):,}: {_few(classes)}",
        "support vectors": _few([f"{count:,}" for count in found["n_support"] or []]),
        "texts": "training texts are in it" if found["texts"] else "none of the training texts",
        "calibration": _listed(calibration) if calibration else "none",
    }
    console.table("model", [(name, fact) for name, fact in facts.items() if fact is not None])
    rows = [(each["name"], each["dtype"], _shape(each), f"{each['bytes']:,}") for each in found["arrays"]]
    console.table("arrays", rows, ("name", "type", "shape", "bytes"))
    info = {name: value for name, value in found["info"].items() if value is not None}
    if info:
        console.table("training", [(name, _short(value)) for name, value in info.items()])


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in values.items())


def _few(values: list[Any], most: int = 10) -> str:
    more = f" and {len(values) - most:,} more" if len(values) > most else ""
    return ", ".join(_short(value) for value in values[:most]) + more


def _shape(array: dict[str, Any]) -> str:
    return " x ".join(f"{size:,}" for size in array["shape"]) or "1"


def _short(value: Any, most: int = 60) -> str:
    """A value as text, a long list as its size."""
    if isinstance(value, list | dict) and len(value) > 10:
        return f"{len(value):,} entries"
    text = str(value)
    return text if len(text) <= most else text[: most - 3] + "..."
