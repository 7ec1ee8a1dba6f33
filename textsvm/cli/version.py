"""textsvm --version: what an error report should begin with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = {"NumPy": "numpy", "SciPy": "scipy", "Numba": "numba", "scikit-learn": "scikit-learn"}
CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")


def lines() -> list[str]:
    """Version, device and libraries, which are not imported for it (but CuPy is, to find the device)."""
    import textsvm
    from textsvm.runtime.device import select

    device = select()
    return [
        f"textsvm {textsvm.__version__}",
        f"device: {device.description}" + (f"; no GPU: {device.no_gpu}" if device.no_gpu else ""),
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        ", ".join(_versions()),
    ]


def _versions() -> list[str]:
    named = [*LIBRARIES.items(), *(("CuPy", package) for package in CUPY)]
    return [f"{name} {found}" for name, package in named if (found := _version(package))]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
