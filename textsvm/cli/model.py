"""textsvm model: what a model file has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from textsvm.cli import options
from textsvm.cli.console import Console
from textsvm.cli.options import option
from textsvm.errors import first_few

if TYPE_CHECKING:
    from textsvm.arrays import Json


def model(
    model: options.ModelPath,
    check: Annotated[bool, option("Only check the digest; exit code 1 if it is wrong.", "--check")] = False,
    json: options.Json = False,
) -> None:
    """Show the contents of a model file: kernel, classes, support vectors, sizes, digest, training options.

    The file is read and checked as in `predict`.
    """
    from textsvm.model.file import describe
    from textsvm.runtime.plain_json import to_json

    console, contents = Console(), describe(model)
    console.lap("read")
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
        "digest": contents["digest"],
        "format": f"{contents['format_version']}, written by {contents['written_by']}",
        "estimator": f"{contents['estimator']} ({_listed(contents['parameters'])})",
        "kernel": contents["kernel_line"],
        "classes": None if classes is None else f"{len(classes):,}: {first_few([*map(_short, classes)], 10)}",
        "support vectors": first_few([f"{count:,}" for count in contents["n_support"] or []], 10),
        "texts": "training texts are in it" if contents["texts"] else "none of the training texts",
        "calibration": _listed(calibration) if calibration else "none",
    }
    console.table("model", [(name, fact) for name, fact in facts.items() if fact is not None])
    arrays = contents["arrays"]
    rows = [
        (a["name"], a["dtype"], " x ".join(f"{n:,}" for n in a["shape"]) or "1", f"{a['bytes']:,}")
        for a in arrays
    ]
    console.table("arrays", rows, ("name", "type", "shape", "bytes"))
    info = {name: value for name, value in contents["info"].items() if value is not None}
    if info:
        console.table("training", [(name, _short(value)) for name, value in info.items()])


def _listed(values: Json) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in values.items())


def _short(value: object, most: int = 60) -> str:
    """Value as text, long lists as their sizes."""
    if isinstance(value, list | dict) and len(value) > 10:
        return f"{len(value):,} entries"
    text = _listed(value) if isinstance(value, dict) else str(value)
    return text if len(text) <= most else text[: most - 3] + "..."
