"""textsvm --version, textsvm devices, textsvm bench: the installation and its speed."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

import textsvm
from textsvm.cli import options
from textsvm.cli.console import Console, device_line

LIBRARIES = {"NumPy": "numpy", "SciPy": "scipy", "Numba": "numba", "scikit-learn": "scikit-learn"}
CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
#: Benchmarks of `textsvm.bench`; `python -m benchmarks` in a checkout has the others.
NAMES = ("kernels", "panel", "paper", "solver")


def version_lines() -> list[str]:
    """Version, device and libraries. Imports no library except CuPy, which is needed to find the device."""
    from textsvm.runtime.device import select

    return [
        f"textsvm {textsvm.__version__}",
        device_line(select()),
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        ", ".join(_versions()),
    ]


def _versions() -> list[str]:
    versions = []
    for name, package in [*LIBRARIES.items(), *(("CuPy", package) for package in CUPY)]:
        try:
            versions.append(f"{name} {version(package)}")
        except PackageNotFoundError:
            continue
    return versions


def devices(json: options.Json = False, quiet: options.Quiet = False) -> None:
    """List the CPU and every GPU, and test each GPU with a small kernel."""
    console = Console(quiet)

    from textsvm.runtime.device import devices as list_devices

    rows = [
        {
            "device": "cpu" if each.device.kind == "cpu" else f"cuda:{each.device.index}",
            "description": each.device.description,
            "usable": not each.trouble,
            "trouble": each.trouble or None,
        }
        for each in list_devices()
    ]
    if json:
        console.print_json({"devices": rows})
        return
    for row in rows:
        state = "usable" if row["usable"] else f"not usable: {row['trouble']}"
        console.line(f"{row['description']}: {state}")
    cards = [str(row["device"]) for row in rows if row["usable"] and row["device"] != "cpu"]
    if len(cards) > 1:
        console.line(f"cuda:all: {' and '.join(cards)} together; cuda:0,1 for some of them")


def bench(
    context: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME", help=" | ".join(NAMES))]
) -> None:
    """Measure textsvm against CPU baselines on this computer; check that results are equal before timing.

    `textsvm bench NAME --help` lists its options. TEXTSVM_DATA names the folder of the corpora.
    """
    if name in ("--help", "-h"):
        typer.echo(context.get_help())
        return
    if name not in NAMES:
        raise typer.BadParameter(
            f"{name!r} is not one of {', '.join(NAMES)}; a checkout has more: python -m benchmarks --help"
        )
    from textsvm.bench.harness import run_benchmark

    run_benchmark("textsvm.bench", "textsvm bench", name, context.args)
