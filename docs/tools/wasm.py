"""Build textsvm.wasm from wasm.c and textsvm.c: `python docs/tools/wasm.py` (needs `pip install ziglang`).

The module is the same for all models. `--check` fails if the shipped file differs from a fresh build.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent.parent / "textsvm" / "apps" / "export"
#: Exported functions, without "textsvm_".
FUNCTIONS = (
    "memory",
    "open_in",
    "decide_units",
    "explain_memory",
    "explain",
    "probabilities",
    "predict",
    "labels",
    "set",
)


def build() -> bytes:
    """The module as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "textsvm.wasm")
        exports = [f"-Wl,--export=textsvm_{name}" for name in FUNCTIONS]
        command = [
            sys.executable,
            "-m",
            "ziglang",
            "cc",
            "-target",
            "wasm32-wasi",
            "-std=c99",
            "-O3",
            "-msimd128",
        ]
        command += [
            "-DTEXTSVM_FREESTANDING",
            "-mexec-model=reactor",
            "-Wl,--no-entry",
            "-Wl,--strip-all",
            "-Wl,--export=__heap_base",
            *exports,
        ]
        subprocess.run([*command, "-o", str(path), "wasm.c"], check=True, cwd=FOLDER)
        return path.read_bytes()


if __name__ == "__main__":
    target = FOLDER / "textsvm.wasm"
    if sys.argv[1:] == ["--check"]:
        if target.read_bytes() != build():
            sys.exit("textsvm.wasm is out of date; run python docs/tools/wasm.py")
    else:
        target.write_bytes(build())
