"""Machine code of CUDA sources for the package textsvm_kernels_cuda13, compiled without a GPU.

The sources are textsvm's .cu files with each set of definitions, as `textsvm devices --compile` compiles
them, and CuPy's own kernels for array operations, as recorded on a GPU (record.py). Each target of the
compiler has an archive, whose entries are named by `textsvm.runtime.device.code_digest`. `.ci/kernels`
builds the wheel.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import runpy
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from textsvm.cli.devices import sources
from textsvm.runtime import device
from textsvm.runtime.parallel import n_threads

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / device.SHIPPED
RECORDED = HERE / "cupy_kernels.json"
#: Machine code for T4, A100, RTX 30, RTX 40 and L4, H100 and H200, B200, RTX 50; PTX for later GPUs.
TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "compute_120")
#: Options that CuPy adds to those of a source.
CUPY_OPTIONS = ("-ftz=true", "--device-as-default-execution-space")


@dataclass(frozen=True)
class Module:
    """A CUDA source with its options. `headers` is CuPy's checksum of its headers, if it includes them."""

    source: str
    options: tuple[str, ...]
    headers: str = ""

    def digest(self, target: str) -> str:
        """Name of the entry in the archive of a target."""
        return device.code_digest(self.source, self.options, self.headers, target)


def own_modules() -> list[Module]:
    """textsvm's sources, with the definitions of `textsvm devices --compile`."""
    return [Module(device.source_text(name), device.compile_options(defines)) for name, defines in sources()]


def cupy_modules() -> list[Module]:
    """CuPy's kernels, as recorded."""
    recorded = json.loads(RECORDED.read_text("utf-8"))
    return [Module(source, tuple(options), recorded["headers"]) for options, source in recorded["modules"]]


def nvrtc() -> ctypes.CDLL | None:
    """The CUDA compiler, from the wheel nvidia-cuda-nvrtc or the system; None if there is none."""
    folders = [Path(entry) / "nvidia" for entry in sys.path]
    found = [str(f) for folder in folders for f in sorted(folder.glob("*/lib/libnvrtc.so.[0-9]*"))]
    for name in [*found, "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]:
        try:
            for builtins in Path(name).parent.glob("libnvrtc-builtins.so.*"):
                ctypes.CDLL(str(builtins))  # NVRTC does not look for it beside itself
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def compile_source(library: ctypes.CDLL, source: str, options: Iterable[str]) -> tuple[bytes, str]:
    """Machine code, PTX if that is the target, and the log; without code if the source has errors."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    words = [option.encode() for option in options]
    if library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"module.cu", 0, None, None):
        raise RuntimeError("NVRTC creates no program")

    def text_of(name: str) -> bytes:
        getattr(library, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{name}")(program, text)
        return text.raw

    failed = library.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    kind = "PTX" if any(word.startswith(b"-arch=compute") for word in words) else "CUBIN"
    code, log = b"" if failed else text_of(kind), text_of("ProgramLog").rstrip(b"\0")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log.decode(errors="replace")


def include_folders() -> list[str]:
    """Folders of CuPy's headers, and of CUDA's from the wheel nvidia-cuda-runtime."""
    recorded, spec = json.loads(RECORDED.read_text("utf-8"))["cupy"], find_spec("cupy")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    if not spec or runpy.run_path(str(folder / "_version.py"))["__version__"] != recorded:
        raise SystemExit(f"CuPy's kernels need its headers: pip install cupy-cuda13x=={recorded}")
    include = folder / "_core" / "include"
    folders = [include / "cupy" / "_cccl" / name for name in ("cub", "thrust", "libcudacxx")] + [include]
    folders += [folder for entry in sys.path for folder in Path(entry).glob("nvidia/cu*/include")]
    return [f"-I{folder}" for folder in folders]


def build(modules: list[Module], target: str, folder: Path) -> Path:
    """Compile modules for a target and write the archive; the same modules give the same bytes."""
    library = nvrtc()
    if library is None:
        raise SystemExit("no CUDA compiler here: pip install nvidia-cuda-nvrtc")
    includes = include_folders() if any(module.headers for module in modules) else []

    def code_of(module: Module) -> bytes:
        folders = includes if module.headers else []
        options = [*folders, *module.options, *CUPY_OPTIONS, f"-arch={target}"]
        code, log = compile_source(library, module.source, options)
        if not code:
            raise SystemExit(f"{target} {module.options}: {log}\n{module.source[-2000:]}")
        return code

    path = folder / f"{target}.zip"
    with ThreadPoolExecutor(n_threads()) as pool:
        codes = dict(
            zip((module.digest(target) for module in modules), pool.map(code_of, modules), strict=True)
        )
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        for name, code in sorted(codes.items()):
            archive.writestr(ZipInfo(name), code, ZIP_DEFLATED, 9)
    return path


def main() -> None:
    """Build the archives of all targets, or of some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=TARGETS, help=f"default: {' '.join(TARGETS)}")
    options = parser.parse_args()
    modules = own_modules() + cupy_modules()
    for target in options.targets:
        path = build(modules, target, PACKAGE)
        print(f"{path.name}: {len(modules)} modules, {path.stat().st_size / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
