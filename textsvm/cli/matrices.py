"""Facts of commands that compare all documents."""

from __future__ import annotations

from typing import Any

from textsvm.cli.console import Console, seconds_row
from textsvm.kernels import Kernel
from textsvm.kernels.spelling import spell
from textsvm.runtime.device import Device


def report_matrix(
    console: Console, json: bool, title: str, kernel: Kernel, device: Device, **facts: Any
) -> None:
    """Print the facts of a command that has compared documents."""
    console.say_device(device)
    described = {"kernel": kernel.as_dict(), "kernel_spelled": spell(kernel)}
    if json:
        console.print_json({**facts, **described, "device": device.description})
        return
    rows = [
        ("kernel", spell(kernel)),
        ("rows", f"{facts['rows']:,}"),
        ("columns", f"{facts['columns']:,}"),
        ("pairs", f"{facts['pairs']:,}"),
        ("device", device.description),
        seconds_row(facts["seconds"]),
    ]
    console.table(f"{title} {facts['output']}", rows)
