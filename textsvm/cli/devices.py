"""textsvm devices: what can do the work."""

from __future__ import annotations

from textsvm.cli import options
from textsvm.cli.console import Console


def devices(json: options.Json = False, quiet: options.Quiet = False) -> None:
    """List the CPU and every GPU, each GPU tried with a small kernel."""
    console = Console(quiet)

    from textsvm.runtime.device import devices as find

    found = [
        {
            "device": "cpu" if finding.device.kind == "cpu" else f"cuda:{finding.device.index}",
            "description": finding.device.description,
            "usable": not finding.trouble,
            "trouble": finding.trouble or None,
        }
        for finding in find()
    ]
    if json:
        console.print_json({"devices": found})
        return
    for each in found:
        state = "usable" if each["usable"] else f"not usable: {each['trouble']}"
        console.line(f"{each['description']}: {state}")
    cards = [str(each["device"]) for each in found if each["usable"] and each["device"] != "cpu"]
    if len(cards) > 1:
        console.line(f"cuda:all: {' and '.join(cards)} together; cuda:0,1 for some of them")
